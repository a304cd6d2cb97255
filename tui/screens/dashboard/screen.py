"""Dashboard: what is wrong and where the time went, at a glance; every line is a link to the rows behind it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding
from textual.events import DescendantFocus

from tui.analysis.dashboard import ORDERS
from tui.analysis.dashboard_facts import definition
from tui.analysis.dashboard_parts import iteration_spreads
from tui.analysis.sessions import replayed_sessions, without_sessions
from tui.keys import Scope, bindings_for
from tui.screens.base import ViewScreen
from tui.screens.dashboard.links import Link, link_of_fact
from tui.screens.dashboard.panel_loading import DashboardPanels
from tui.screens.dashboard.panels import ChartPanel, StatPanel
from tui.widgets.charts.bar_list import BarList
from tui.widgets.details.pane import DetailPane
from tui.widgets.panel import EdgePassed, Panel
from tui.widgets.stat_strip import StatStrip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.events import ScreenResume
    from textual.widget import Widget

    from tui.analysis.dashboard_facts import Fact
    from tui.screens.dashboard.entries import Entry
    from tui.state.notes import RowPlace


class DashboardScreen(ViewScreen):
    """Its lines are links, have details, and can be had in several orders."""

    VIEW = "dashboard"
    AUTO_FOCUS = ""
    HELP: ClassVar = (
        "The profile at a glance. j and k go through the lines of all panels, tab from panel to panel, enter to the "
        "rows behind a line.\n"
        "i explains a figure and how it is computed; s sorts the top ops and kernels by time, calls or "
        "average.\n"
        "What the input does not hold is unknown, and the last panel says which command records it."
    )

    BINDINGS: ClassVar = [
        replace(binding, show=True, description="next panel")
        for binding in bindings_for(Scope.APP)
        if isinstance(binding, Binding) and binding.id == "app.next-pane"
    ] + [binding for binding in bindings_for(Scope.APP) if getattr(binding, "id", "") == "app.write-note"]

    def make_body(self) -> DashboardPanels:
        """The panels."""
        return DashboardPanels()

    @property
    def panels(self) -> DashboardPanels:
        """The panels."""
        return self.query_one(DashboardPanels)

    def has_to_wait(self, key: str) -> bool:
        """Whether a key is for lines that are still to come."""
        return self.panels.has_to_wait(key)

    def links(self) -> list[Link]:
        """Every link of what is shown."""
        entries = [entry.link for panel in self.query(ChartPanel) if panel.display for entry in panel.entries]
        facts = [self._link_of(fact) for fact in self.query_one(StatPanel).facts]
        return [link for link in (*entries, *facts) if link is not None]

    @on(EdgePassed)
    def _to_next_panel(self, event: EdgePassed) -> None:
        panels = [widget for widget in self.focus_chain if isinstance(widget, BarList | StatStrip)]
        place = next((place for place, panel in enumerate(panels) if panel is self.focused), None)
        if place is None or not 0 <= place + event.step < len(panels):
            return
        panel = panels[place + event.step]
        panel.focus()
        if event.step > 0:
            panel.action_cursor_top()
        else:
            panel.action_cursor_bottom()

    @on(ChartPanel.Opened)
    def _open(self, event: ChartPanel.Opened) -> None:
        if event.entry.link is None:
            self.explorer.say("there are no rows behind this line; i tells what it is")
        else:
            event.entry.link.go(self.explorer)

    @on(StatPanel.Opened)
    def _open_fact(self, event: StatPanel.Opened) -> None:
        self._link_of(event.fact).go(self.explorer)

    def _link_of(self, fact: Fact) -> Link:
        board = self.panels.board
        facts = board.performance if board is not None else ()
        left_out = replayed_sessions(self.profile)
        # More than one session has them only where each has its own, and the figures are of none.
        iterated = iteration_spreads(without_sessions(self.profile, left_out))["session"]
        return link_of_fact(fact, facts, left_out=left_out, iterated=iterated[0] if len(iterated) == 1 else None)

    @on(ChartPanel.SortRequested)
    def _sort(self, event: ChartPanel.SortRequested) -> None:
        board = self.panels.board
        if board is not None:
            name = (event.panel.id or "").removesuffix("-panel")
            self.panels.show_top(name, board, event.panel.next_order(ORDERS))

    @on(ChartPanel.DetailRequested)
    @on(StatPanel.DetailRequested)
    def _toggle_details(self, event: ChartPanel.DetailRequested | StatPanel.DetailRequested) -> None:
        detail = self.query_one(DetailPane)
        if detail.is_open:
            detail.close()
        else:
            self._detailed = self.focused
            detail.open(event.details)

    @on(ChartPanel.Highlighted)
    @on(StatPanel.Highlighted)
    def _follow(self, event: ChartPanel.Highlighted | StatPanel.Highlighted) -> None:
        detail = self.query_one(DetailPane)
        if detail.is_open:
            detail.show(event.details)

    @on(DescendantFocus)
    def _follow_to_panel(self) -> None:
        detail = self.query_one(DetailPane)
        panel = next((one for one in self.query("ChartPanel, StatPanel") if one.has_focus_within), None)
        if detail.is_open and isinstance(panel, ChartPanel | StatPanel) and panel.details is not None:
            self._detailed = self.focused
            detail.show(panel.details)

    _detailed: Widget | None = None
    """What has the line that the details are of."""

    def leave_level(self) -> bool:
        """Close the details, and go back to the line that they are of."""
        closed = super().leave_level()
        if closed and self._detailed is not None and self._detailed.focusable:
            self._detailed.focus()
        return closed

    def on_detail_pane_uncovered(self) -> None:
        """Back to the line that the details are of."""
        if self._detailed is not None and self._detailed.focusable:
            self._detailed.focus()

    # --- notes -------------------------------------------------------------------------------------------------------

    def action_write_note(self) -> None:
        """Ask for a note on the panel that has the focus."""
        panel = next((panel for panel in self.query(Panel) if panel.has_focus_within), None)
        if panel is None:
            self.explorer.action_write_note()
        else:
            self.explorer.notes.write_note(self._note_place(panel), panel.title)

    def _note_place(self, panel: Panel) -> RowPlace:
        return self.explorer.notes.note_spot("panels", (panel.id,), self.VIEW)

    def show_spot(self, _table: str, key: Sequence[object]) -> None:
        """Go to the panel of a note."""
        for panel in self.query(Panel):
            lines = next(iter(panel.query("BarList, StatStrip")), None)
            if panel.id == key[0] and panel.display and lines is not None:
                lines.focus()
                return
        self.explorer.say("the panel is not there any more", severity="warning")

    def show_details_again(self) -> None:
        """Tell the notes on panels anew."""
        super().show_details_again()
        self._show_remarks()

    def populate(self) -> None:
        """Have everything computed; what was written on panels is there."""
        super().populate()
        self._show_remarks()

    def on_screen_resume(self, event: ScreenResume) -> None:
        """What was written on panels may have been changed in another view."""
        if self.is_there:
            self._show_remarks()

    def _show_remarks(self) -> None:
        for panel in self.query(Panel):
            note = self.explorer.notes.note_at(self._note_place(panel))
            panel.remark(note.text.splitlines()[0] if note is not None else "")

    def explained(self) -> list[str]:
        """The names of the figures that have the focus, for the help."""
        focused = self.focused
        for panel in self.query(ChartPanel):
            if panel.bars is focused and panel.metric:
                entry: Entry | None = panel.current
                own = [entry.metric] if entry is not None and entry.metric else []
                return list(dict.fromkeys([*own, panel.metric]))
        fact = self.query_one(StatPanel).current
        return [fact.name] if self.query_one(StatPanel).has_focus_within and fact is not None else []

    def help_entries(self) -> list[tuple[str, str]]:
        """What the figure under the cursor means."""
        return [
            entry
            for known in map(definition, self.explained())
            for entry in (
                (known.title, known.means),
                ("", f"= {known.formula}"),
                ("", f"{f'{known.unit}; ' if known.unit else ''}{known.source}"),
            )
        ]
