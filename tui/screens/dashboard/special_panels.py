"""Panels that have more than lines: sentences above, or a chart below them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.content import Content
from textual.widgets import Static

from tui.screens.dashboard.panels import ChartPanel
from tui.screens.dashboard.time_entries import iteration_note
from tui.text import plain
from tui.widgets.busy_chart import BusyChart
from tui.widgets.text_list import TextList
from tui.widgets.times_chart import TimesChart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.widget import Widget

    from tui.analysis.dashboard.times import IterationCourse
    from tui.screens.dashboard.panels import Entry
    from tui.widgets.busy_chart import BusyLane
    from tui.widgets.details import Details


class AdvicePanel(ChartPanel):
    """Where to begin, above the gravest findings."""

    DEFAULT_CSS = """
    AdvicePanel .guidance { height: auto; text-style: bold; }
    """

    def above(self) -> Sequence[Widget]:
        """The sentence."""
        return [Static(classes="guidance")]

    def say(self, guidance: str) -> None:
        """Say where to begin, or why nothing can be said."""
        self.query_one(".guidance", Static).update(Content(plain(guidance)))
        self.query_one(".guidance").display = bool(guidance)
        self.display = bool(guidance or self.entries)


class IterationsPanel(ChartPanel):
    """The iterations of a session and what each was used for; of several sessions, of the one under the cursor."""

    _courses: Sequence[IterationCourse] = ()
    _is_all = False

    def above(self) -> Sequence[Widget]:
        """The chart."""
        return [TimesChart()]

    def show_courses(self, courses: Sequence[IterationCourse], *, is_all: bool) -> None:
        """Draw the iterations of the session under the cursor, or else of the first.

        Args:
            courses: Of each session.
            is_all: What they were used for is not still being worked out.
        """
        self._courses, self._is_all = courses, is_all
        session = self.current.values.get("session") if self.current is not None else None
        here = [course for course in courses if course.session == session]
        self._draw(next(iter([*here, *courses]), None))

    @on(ChartPanel.Highlighted)
    def _draw_session(self, event: ChartPanel.Highlighted) -> None:
        if len(self._courses) > 1:
            session = event.entry.values["session"]
            self._draw(next(course for course in self._courses if course.session == session))

    def _draw(self, course: IterationCourse | None) -> None:
        self.annotate(iteration_note(self._courses, course))
        self.query_one(TimesChart).show(course.times if course is not None else None, is_all=self._is_all)


class TextPanel(ChartPanel):
    """Labels and values instead of bars, as long as they are.

    Args:
        title: Our own words.
        id: The widget's id.
    """

    def __init__(self, title: str, *, id: str) -> None:  # noqa: A002
        self._list = TextList(id=id.removesuffix("-panel"))
        super().__init__(title, "", id=id, bars=self._list)

    def fill_texts(self, entries: Sequence[Entry], texts: Sequence[Details]) -> None:
        """Show other lines; how each is written comes beside it."""
        self.fill(entries)
        self._list.show_texts([entry.row for entry in entries], texts)


class UtilisationPanel(ChartPanel):
    """Busy time over time, below the shares."""

    def compose(self) -> Iterable[Widget]:
        """The chart."""
        yield BusyChart(id="busy")

    def show_lanes(self, lanes: Sequence[BusyLane], span_ns: int) -> None:
        """Draw GPUs over the same span of time."""
        self.query_one(BusyChart).show(lanes, span_ns)
