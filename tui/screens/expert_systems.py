"""Expert Systems: what was found, what it costs and what to do about it; what could not be told, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on

from tui.analysis.expert.findings import findings
from tui.analysis.expert.model import State
from tui.analysis.expert.view import EXPERT, FOLDED, expert_rows, gap_of, spec_for
from tui.keys import Scope, bindings_for
from tui.screens.dashboard.doors import Door
from tui.screens.parts import PartsScreen
from tui.screens.single import TableScreen
from tui.widgets.finding_details import finding_details
from tui.widgets.table_pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from tui.analysis.timeline.under import Gap
    from tui.screens.base import ViewScreen
    from tui.widgets.details import Details


class ExpertSystemsScreen(TableScreen):
    """One row per finding; rules that could not be told stand together by their reasons, clean ones in one row."""

    VIEW = "expert-systems"
    BINDINGS: ClassVar = bindings_for(Scope.EXPERT)
    SPEC: ClassVar = EXPERT
    EMPTY: ClassVar = "no rule applies to this input"
    HELP: ClassVar = (
        "What the rules found, gravest and dearest first; what could not be told, and why; the clean rules, folded.\n"
        "Cost is what a finding costs at most, and costs overlap; i shows figures, thresholds and the rows behind it.\n"
        "enter goes to those rows, of a gap to its place in the timeline (t to the rows); q comes back.\n"
        "A rules.toml of your own changes thresholds and severities."
    )

    def __init__(self) -> None:
        super().__init__()
        self._unfolded = False

    def rows(self) -> pl.DataFrame:
        """The findings."""
        return expert_rows(findings(self.profile, gpu=self.program.options.gpu), unfolded=self._unfolded)

    def populate(self) -> None:
        """Fill the table."""
        pane = self.query_one("#table", TablePane)
        if pane.frame.is_empty():
            # How grave it is comes first; the sentence has all the room that is left.
            pane.state = replace(pane.state, name_last=True)
        rows = self.rows()
        pane.show(rows, empty=self.EMPTY if rows.is_empty() else "", spec=spec_for(self.profile))
        pane.focus_table()

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Everything that speaks for a finding."""
        return finding_details(row)

    @on(TablePane.RowOpened)
    def _open_row(self, event: TablePane.RowOpened) -> None:
        """Go to the rows behind a finding, or show the clean rules; else the details."""
        row: dict[str, Any] = event.row
        if row["state"] == FOLDED:
            event.prevent_default()
            self._unfolded = not self._unfolded
            self.populate()
        elif row["state"] == State.FOUND.value and ((gap := gap_of(row)) is not None or self._can_go_to(row["view"])):
            event.prevent_default()
            if gap is not None and self._can_go_to("timeline"):
                self._go_to_gap(gap)
            else:
                self._go_to_rows(row)

    def action_show_rows(self) -> None:
        """Go to the rows behind a finding."""
        row: dict[str, Any] | None = self.query_one("#table", TablePane).current_row
        if row is not None and row["state"] == State.FOUND.value and self._can_go_to(row["view"]):
            self._go_to_rows(row)
        else:
            self.program.say("there are no rows behind this: i shows what there is")

    @on(TablePane.TimelineRequested)
    def _show_on_timeline(self, event: TablePane.TimelineRequested) -> None:
        """A finding is in the timeline where the first row behind it is."""
        event.prevent_default()
        gap = gap_of(event.row)
        if gap is not None and self._can_go_to("timeline"):
            self._go_to_gap(gap)
        else:
            self.program.say("this has no one place in time: enter goes to the rows behind it, T there to theirs")

    def _go_to_rows(self, row: Mapping[str, Any]) -> None:
        self.program.go(row["view"], lambda screen: _show_only(screen, row["part"], row["filter"] or ""))

    def _go_to_gap(self, gap: Gap) -> None:
        Door("timeline", gap=gap).go(self.program)

    def _can_go_to(self, view: str | None) -> bool:
        return view is not None and self.program.availability.get(view, "ok") == "ok"


def _show_only(screen: ViewScreen, part: str | None, query: str) -> None:
    """The first table of a view, or of one of its parts, with the rows of a filter alone."""
    if part is not None and isinstance(screen, PartsScreen):
        screen.show_only("")
        screen.show_part(part)
        screen.pane(0).set_filter(query)
    elif screen.table is not None:
        screen.show_only(query)
