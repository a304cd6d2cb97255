"""Expert Systems: what was found, what it costs and what to do about it; which rules do not apply, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on

from tui.analysis.expert.findings import findings
from tui.analysis.expert.findings_table import EXPERT, FOLDED, expert_rows, gap_of, spec_for
from tui.analysis.expert.rule import State
from tui.keys import Scope, bindings_for
from tui.screens.base import ViewScreen
from tui.screens.dashboard.links import Link
from tui.screens.tabs import TabbedTables
from tui.widgets.details.finding import finding_details
from tui.widgets.details.pane import DetailPane
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl
    from textual.widget import Widget

    from tui.analysis.timeline.lookup import Gap
    from tui.widgets.details.pane import Details


NO_RULE: Final = "no rule applies to this input"
DETAILS_FROM: Final = 100
"""Cells of a screen that has room for findings and details."""


class ExpertSystemsScreen(ViewScreen):
    """One row per finding; rules that do not apply are one row, and so are clean ones."""

    VIEW = "expert-systems"
    BINDINGS: ClassVar = bindings_for(Scope.EXPERT)
    HELP: ClassVar = (
        "Findings by cause, by share of the wall time. Rules that do not apply and clean ones are folded.\n"
        "Costs are upper bounds, and overlap. i shows figures, thresholds and evidence.\n"
        "enter opens the rows behind a finding, or its longest gap in the timeline (t: the rows). q comes back.\n"
        "Your own rules.toml changes thresholds and severities."
    )

    def __init__(self) -> None:
        super().__init__()
        self._unfolded = False
        self._has_shown_details = False

    def compose_body(self) -> Iterable[Widget]:
        """The table."""
        yield TablePane(EXPERT, id="table")

    def rows(self) -> pl.DataFrame:
        """The findings."""
        return expert_rows(findings(self.profile, gpu=self.explorer.options.gpu), unfolded=self._unfolded)

    def populate(self) -> None:
        """Fill the table."""
        pane = self.query_one("#table", TablePane)
        if pane.frame.is_empty():
            # How grave it is comes first; the sentence has all the room that is left.
            pane.state = replace(pane.state, name_last=True)
        rows = self.rows()
        pane.show(rows, empty=NO_RULE if rows.is_empty() else "", spec=spec_for(self.profile))
        pane.focus_table()

    def show_only(self, query: str) -> None:
        """Show the rows of a filter alone, those that are folded among them."""
        if query and not self._unfolded:
            self._unfolded = True
            self.populate()
        super().show_only(query)

    @on(TablePane.RowHighlighted)
    def _show_details_first(self, event: TablePane.RowHighlighted) -> None:
        """Details stand beside or below the findings from the beginning, where there is room for both."""
        if not self._has_shown_details and event.row is not None and self.app.size.width >= DETAILS_FROM:
            self._has_shown_details = True
            self.query_one(DetailPane).open(self.details(event.pane, event.row))

    @property
    def has_level_above(self) -> bool:
        """Details are a part of the view: they are left with it."""
        return False

    def leave_level(self) -> bool:
        """Leave the view at once, unless the details stand instead of the findings."""
        return self.app.size.width < DETAILS_FROM and super().leave_level()

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Everything that speaks for a finding."""
        return finding_details(row)

    def open_row(self, pane: TablePane, row: dict[str, Any]) -> None:
        """Go to the rows behind a finding, or show the clean rules; else open the details, and leave them open."""
        if row["state"] == FOLDED:
            self._unfolded = not self._unfolded
            self.populate()
        elif row["state"] == State.FOUND.value and ((gap := gap_of(row)) is not None or self._can_go_to(row["view"])):
            if gap is not None and self._can_go_to("timeline"):
                self._go_to_gap(gap)
            else:
                self._go_to_rows(row)
        elif not self.query_one(DetailPane).is_open:
            super().open_row(pane, row)

    def action_show_rows(self) -> None:
        """Go to the rows behind a finding."""
        row: dict[str, Any] | None = self.query_one("#table", TablePane).current_row
        if row is not None and row["state"] == State.FOUND.value and self._can_go_to(row["view"]):
            self._go_to_rows(row)
        else:
            self.explorer.say("No rows behind this. i shows details.")

    @on(TablePane.TimelineRequested)
    def _show_on_timeline(self, event: TablePane.TimelineRequested) -> None:
        """A finding is in the timeline where the first row behind it is."""
        event.prevent_default()
        gap = gap_of(event.row)
        if gap is not None and self._can_go_to("timeline"):
            self._go_to_gap(gap)
        else:
            self.explorer.say("No single place in time. Enter opens the rows behind it.")

    def _go_to_rows(self, row: Mapping[str, Any]) -> None:
        self.explorer.go(row["view"], lambda screen: _show_only(screen, row["part"], row["filter"] or ""))

    def _go_to_gap(self, gap: Gap) -> None:
        Link("timeline", gap=gap).go(self.explorer)

    def _can_go_to(self, view: str | None) -> bool:
        return view is not None and self.explorer.navigator.availability.get(view, "ok") == "ok"


def _show_only(screen: ViewScreen, part: str | None, query: str) -> None:
    """The first table of a view, or of one of its parts, with the rows of a filter alone."""
    if part is not None and isinstance(screen.body, TabbedTables):
        screen.show_only("")
        screen.body.show_tab(part)
        screen.body.tables.pane(0).set_filter(query)
    elif screen.table is not None:
        screen.show_only(query)
