"""A table of rows within rows: their names are indented, with a sign that tells what is unfolded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from textual.binding import Binding

from tui.fitting import cell_width, clip_middle
from tui.keys import Scope, bindings_for
from tui.model.forest import NONE, forest_of
from tui.query.facts import ColumnFacts, facts_of
from tui.widgets.cells import CellWriter
from tui.widgets.frame_table import MOVE_IDS, FrameTable
from tui.widgets.table_rows import TableRows

if TYPE_CHECKING:
    import polars as pl
    from textual.binding import BindingType

    from tui.model.columns import Column
    from tui.model.forest import Flags, Forest, Ints
    from tui.model.view import TableSpec, TableState

STEP: Final = 2
"""Cells that a row stands further in than the one that it lies in, where there is room."""
NAME_LEAST: Final = 16
"""Cells that are left to a name, however deep it lies."""


TAIL: Final = 0.75
"""Of a name that is cut, its end gets this part: ``autograd::engine::evaluate_function: `` begins every second one."""


class TreeText(str):
    """The name of a row with what stands before it."""

    __slots__ = ("depth", "sign")

    depth: int
    """How deep the row lies, from 0."""
    sign: str
    """Whether it is unfolded, folded, or holds nothing."""


def tree_text(name: str, depth: int, sign: str) -> TreeText:
    """A name in a tree."""
    text = TreeText(name)
    text.depth, text.sign = depth, sign
    return text


class TreeWriter(CellWriter):
    """Writes names of a tree, indented.

    Args:
        column: The column of the names.
        facts: Of the names.
        state: As the user has arranged the table.
        deepest: How deep rows lie at most, from 0.
        ascii_only: Write ASCII characters alone.
    """

    def __init__(
        self, column: Column, facts: ColumnFacts, state: TableState, *, deepest: int, ascii_only: bool = False
    ) -> None:
        super().__init__(column, facts, state, is_pinned=True, ascii_only=ascii_only)
        self._deepest = deepest
        self.width += STEP * deepest + 2

    def fitted(self, value: object, width: int) -> str:
        """The name behind its indentation: less of that where it lacks the room."""
        if not isinstance(value, TreeText):
            return super().fitted(value, width)
        step = STEP if STEP * self._deepest + NAME_LEAST <= width else 1
        indent = max(0, min(step * value.depth, width - NAME_LEAST))
        before = " " * indent + value.sign + " "
        # Names of ops begin alike: their ends tell them apart.
        return before + clip_middle(
            self.whole(str(value)), max(1, width - cell_width(before)), ascii_only=self._ascii_only, tail=TAIL
        )


class TreeRows(TableRows):
    """Rows of a tree: their names say how deep they lie and whether what is in them is shown."""

    def __init__(self, rows: TableRows, forest: Forest, depth: Ints, column: str, *, ascii_only: bool) -> None:
        super().__init__(rows.frame, rows.order)
        height = rows.frame.height
        shown = np.arange(height) if rows.order is None else rows.order.to_numpy()
        self._depth = depth
        self._holds = _parents(forest, np.arange(height))
        self._open = _parents(forest, shown)
        self._place = rows.frame.columns.index(column)
        self._signs = ("+", "-", " ") if ascii_only else ("▸", "▾", " ")

    def row(self, row: int) -> tuple[object, ...]:
        """The values of a shown row, its name with what stands before it."""
        values = super().row(row)
        source = self.source_row(row)
        folded, unfolded, none = self._signs
        sign = none if not self._holds[source] else unfolded if self._open[source] else folded
        name = tree_text(str(values[self._place]), int(self._depth[source]), sign)
        return (*values[: self._place], name, *values[self._place + 1 :])

    def record(self, row: int) -> dict[str, object]:
        """A shown row by column name, its name alone."""
        return dict(zip(self.frame.columns, super().row(row), strict=True))


def _parents(forest: Forest, rows: Ints) -> Flags:
    """The rows that others of these rows lie right in."""
    flags = np.zeros(len(forest.parent), np.bool_)
    above = forest.parent[rows]
    flags[above[above != NONE]] = True
    return flags


def _with_arrows_alone() -> list[BindingType]:
    """The keys that move the cursor; h and l fold and unfold."""
    keys = {"table.left": "left", "table.right": "right"}
    return [
        replace(binding, key=keys.get(binding.id or "", binding.key), key_display=None)
        for binding in bindings_for(Scope.TABLE)
        if isinstance(binding, Binding) and binding.id in MOVE_IDS
    ]


class TreeTable(FrameTable, inherit_bindings=False):
    """The table of a `TreePane`."""

    BINDINGS: ClassVar = _with_arrows_alone()

    def __init__(self, spec: TableSpec) -> None:
        super().__init__(spec)
        self.forest = forest_of(np.zeros(0, np.int64))
        """The row that each row lies in."""
        self.depth: Ints = np.zeros(0, np.int64)
        """How deep each row lies, from 0."""

    def set_rows(
        self,
        rows: TableRows,
        *,
        cursor_row: int = 0,
        found: pl.Series | None = None,
        share_of: float | None = None,
    ) -> None:
        """Show these rows, as a tree."""
        if rows.frame.height:
            rows = TreeRows(rows, self.forest, self.depth, self.spec.pinned, ascii_only=self.ascii_only)
        super().set_rows(rows, cursor_row=cursor_row, found=found, share_of=share_of)

    def _ensure_writers(self) -> None:
        is_new = not self._writers
        super()._ensure_writers()
        column = next((column for column in self.columns() if column.name == self.spec.pinned), None)
        if is_new and column is not None:
            self._writers[column.name] = TreeWriter(
                column,
                facts_of(self.rows.frame)[column.name],
                self.arrangement,
                deepest=int(self.depth.max(initial=0)),
                ascii_only=self.ascii_only,
            )
