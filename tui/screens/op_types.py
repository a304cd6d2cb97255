"""Op Type Summary: the cost of ops by type, with figures that fold to their totals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl
from textual import on
from textual.content import Content

from tui.analysis.capabilities import missing_needs, recording_advice
from tui.analysis.needs import OPS, START_TIMES
from tui.analysis.ops.op_attribution import recorded_sessions
from tui.analysis.ops.op_type_rules import UNKNOWN
from tui.analysis.ops.op_types import FOLDS, OP_TYPE_SUMMARY, op_type_summary
from tui.analysis.ops.ops_by_name import coverage_note, kernels_with_ops, printed_op_sessions
from tui.fmt import brief_duration, count
from tui.keys import Scope, bindings_for
from tui.model.columns import ColumnKind
from tui.query.parse import equals_filter
from tui.screens.base import ViewScreen
from tui.screens.kernels import no_kernels
from tui.screens.table_screen import RowsInBackground, SingleTable
from tui.text_width import shorten_symbol
from tui.widgets.details import TALL_SCREEN_LINES, Details, row_details, sections
from tui.widgets.panel import NoteLine
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from textual.widget import Widget

    from tui.analysis.ops.op_types import ColumnFold
    from tui.model.columns import Column
    from tui.model.history import Place
    from tui.model.table_spec import TableSpec
    from tui.widgets.details import Line


MAX_KERNELS: Final = 6
"""The number of kernels in the details of a type."""
NAME_CELLS: Final = 50
"""The width of the name of a kernel in the details."""
MAX_TYPES_WITH_DETAILS: Final = 20
"""With at most this number of types, a tall screen has room for their details."""
NO_CALLS: Final = "totals do not separate single calls"

FIGURES = frozenset(name for fold in FOLDS for name in fold.others)


def recorded_figures(types: pl.DataFrame) -> frozenset[str]:
    """Return the figures that some type has; all if there are no types yet."""
    return frozenset(name for name in FIGURES if types.is_empty() or types[name].null_count() < types.height)


def with_fold_signs(folded: Collection[str], recorded: Collection[str]) -> TableSpec:
    """Return the table with a fold symbol at totals; unfolded figures are shown first.

    Args:
        folded: Names of the columns that are not shown.
        recorded: Names of the existing figures; others cannot be unfolded.
    """
    closed = {fold.total for fold in FOLDS if set(fold.others) <= set(folded) and set(fold.others) & set(recorded)}

    def shown_column(column: Column) -> Column:
        if column.name in closed:
            return replace(column, sign="▸")
        return replace(column, priority=2) if column.name in FIGURES else column

    return replace(OP_TYPE_SUMMARY, columns=tuple(shown_column(column) for column in OP_TYPE_SUMMARY.columns))


def _kernel_lines(kernels: pl.DataFrame) -> list[Line]:
    """Return the kernels of a type with most time, and the ops that launched them."""
    rows = kernels.head(MAX_KERNELS).select("total_ns", "name", "calls", "op").iter_rows()
    return [
        ("unknown" if total_ns is None else brief_duration(total_ns),
         shorten_symbol(name, NAME_CELLS),
         "  ".join(filter(None, (f"{count(calls)}×", op))))
        for total_ns, name, calls, op in rows
    ]  # fmt: skip


def ops_filter(row: Mapping[str, Any], *, recorded: bool, has_several_sessions: bool) -> str:
    """Return the filter of Ops and Kernels, by name, for the ops of a row.

    Args:
        row: A row of `op_type_summary`.
        recorded: Whether its session records ops.
        has_several_sessions: Whether there are several sessions.
    """
    text, op_type = ColumnKind.TEXT, row["op_type"]
    if recorded and row["op_source"] is None:
        # Work without an op is listed by reason.
        terms = [equals_filter("op", op_type, text)]
    else:
        term = equals_filter("op_type", op_type, text)
        if recorded and op_type == UNKNOWN:
            term = f"({term} | {equals_filter('op_type', None, text)})"
        terms = [term, *(['!op:"(unattributed: "'] if recorded else [])]
    if has_several_sessions:
        terms.append(equals_filter("session", row["session"], ColumnKind.NUMBER))
    return " ".join(terms)


class OpTypesScreen(ViewScreen):
    """One row per op type; ``enter`` opens its ops."""

    VIEW = "op-types"
    BINDINGS: ClassVar = bindings_for(Scope.TYPES)
    HELP: ClassVar = (
        "Ops by type. z shows or hides average, minimum and maximum of the time under the cursor.\n"
        "Times are self times, without nested ops: the types add up to all GPU time.\n"
        "enter opens the ops of a type. Where ops are not recorded, consecutive launches of one type count as a call."
    )

    def __init__(self) -> None:
        super().__init__()
        self._background = RowsInBackground(self)

    def make_body(self) -> SingleTable:
        """Return the types."""
        return SingleTable(OP_TYPE_SUMMARY, op_type_summary, no_kernels)

    def compose_body(self) -> Iterable[Widget]:
        """Yield the table, and a note on unclassified time."""
        yield NoteLine(id="coverage")
        yield from super().compose_body()

    @property
    def _pane(self) -> TablePane:
        return self.query_one("#table", TablePane)

    def on_mount(self) -> None:
        """Start with all figures folded."""
        self._pane.state = replace(self._pane.state, hidden=FIGURES)

    def populate(self) -> None:
        """Fill the table and the note on unclassified time."""
        if not self._background.ensure_computed(self._pane, "types", op_type_summary):
            return
        super().populate()
        self.query_one("#coverage", NoteLine).show(coverage_note(self.profile))
        self._show_titles()

    def restore(self, place: Place) -> None:
        """Return to a position, with its fold symbols."""
        super().restore(place)
        self._show_titles()

    @on(TablePane.StateChanged)
    def _show_titles(self) -> None:
        pane = self._pane
        spec = with_fold_signs(pane.state.hidden, recorded_figures(pane.frame))
        if spec != pane.spec:
            pane.show(pane.frame, empty=no_kernels(self.profile) if pane.frame.is_empty() else "", spec=spec)

    def action_fold_figures(self) -> None:
        """Fold or unfold the figures of the time under the cursor; on another column those of all times."""
        pane = self._pane
        if not recorded_figures(pane.frame):
            reason = f": {NO_CALLS}: {recording_advice(self.profile, START_TIMES)}" if self._has_only_totals() else ""
            self.notify(f"Times of single calls are unknown{reason}", markup=False)
            return
        cursor_column = pane.model.cursor_column
        folds: tuple[ColumnFold, ...] = tuple(fold for fold in FOLDS if fold.holds(cursor_column)) or FOLDS
        figures = frozenset(name for fold in folds for name in fold.others)
        hidden = pane.state.hidden
        closes = not figures & hidden if len(folds) == 1 else not figures <= hidden
        pane.table.move_to_column(folds[0].total if len(folds) == 1 else cursor_column)
        pane.change(hidden=hidden | figures if closes else hidden - figures)
        self._show_titles()

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return every figure, and why some are unknown."""
        kernels = kernels_with_ops(self.profile).filter(
            pl.col("session") == row["session"], pl.col("op_type").cast(pl.String) == row["op_type"]
        )
        # Fold symbols are meaningless in details.
        values = row_details(OP_TYPE_SUMMARY, row, frame=pane.frame)
        unknown = []
        if row["op_source"] != "recorded" and row["cpu_own_ns"] is None:
            advice = recording_advice(self.profile, OPS)
            unknown.append(("CPU times", "launches do not record the CPU time of an op", advice))
            unknown.append(("GPU idle", "launches of one type that are apart in time may be several ops", advice))
        if row["gpu_avg_ns"] is None and self._has_only_totals():
            unknown.append(("Times of a call", NO_CALLS, recording_advice(self.profile, START_TIMES)))
        added = sections([("Kernels with most time", _kernel_lines(kernels)), ("Unknown", unknown)])
        gap = [(0, Content(""))] if added.lines else []
        return Details((*added.lines, *gap, *values.lines))

    def opens_details(self, pane: TablePane) -> bool:
        """Return whether there are few types, so that details have room."""
        return pane.frame.height <= MAX_TYPES_WITH_DETAILS and self.app.size.height >= TALL_SCREEN_LINES

    def _has_only_totals(self) -> bool:
        return any(need.name == START_TIMES.name for need in missing_needs(self.profile))

    def open_row(self, pane: TablePane, row: dict[str, Any]) -> None:
        """Go to the ops of a type."""
        sessions_with_ops = (recorded_sessions(self.profile), printed_op_sessions(self.profile))
        recorded = any(row["session"] in sessions.to_list() for sessions in sessions_with_ops)
        has_several_sessions = self.profile["sessions"].height > 1
        query = ops_filter(row, recorded=recorded, has_several_sessions=has_several_sessions)
        self.explorer.go("ops-and-kernels", lambda screen: screen.show_only(query))
