"""The chart of iterations: a bar for each, or for several, with a cursor, a span, and the chosen range marked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

import polars as pl
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.analysis.iterations.chart import Bar, BarRows
from tui.keys import Scope, bindings_for
from tui.widgets.iteration_bars import SMOOTH, bar_width
from tui.widgets.iteration_drawing import LABEL, Around, Drawing, DrawnBars, drawn, drawn_bars, toned
from tui.widgets.iteration_words import chart_words
from tui.widgets.own_lines import OwnLines

if TYPE_CHECKING:
    from rich.style import Style
    from textual import events

KEYS_HERE: Final = "b span  a show only these  p steady  K key  A earlier  + _ z zoom"
"""The keys that change what all views show."""
LEAST_SHOWN: Final = 4
"""The chart zooms in to so many iterations at most."""
WINDOWS_KEPT: Final = 12
"""Stretches of iterations whose bars are drawn, or were."""


class IterationChart(OwnLines, Widget, can_focus=True):
    """Bars from left to right in order of time; the cursor stands on a row of the frame that it shows."""

    BINDINGS: ClassVar = bindings_for(Scope.CHART)
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"iterationchart--{name}"
        for name in (
            "tensor",
            "other",
            "unknown",
            "memory",
            "dataloader",
            "io",
            "cpu",
            "idle",
            "whole",
            "sign",
            "aside",
            "words",
            "span",
            "pointer",
        )
    }
    DEFAULT_CSS = """
    IterationChart {
        height: 45%; min-height: 12; max-height: 22; padding: 0 1; border-bottom: solid $panel;
        border-subtitle-color: $text-muted;
        &:focus { border-bottom: solid $primary; }
        & > .iterationchart--tensor { color: $primary; }
        & > .iterationchart--other { color: $secondary; }
        & > .iterationchart--unknown { color: $accent; }
        & > .iterationchart--memory { color: $warning; }
        & > .iterationchart--dataloader { color: $error; }
        & > .iterationchart--io { color: $secondary; }
        & > .iterationchart--cpu { color: $foreground; }
        & > .iterationchart--idle { color: $text-muted; }
        & > .iterationchart--whole { color: $foreground; }
        & > .iterationchart--sign { color: $foreground; }
        & > .iterationchart--aside { color: $text-muted; }
        & > .iterationchart--words { color: $text-muted; }
        & > .iterationchart--span, & > .iterationchart--pointer { color: $accent; text-style: bold; }
        &:focus > .iterationchart--pointer { text-style: bold reverse; }
    }
    """

    class Moved(Message):
        """The cursor stands on another row."""

        def __init__(self, chart: IterationChart, row: int) -> None:
            super().__init__()
            self.chart = chart
            self.row = row

    class Opened(Message):
        """The user goes into the row under the cursor."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.border_subtitle = Content(KEYS_HERE)
        self.rows = pl.DataFrame()
        """What is drawn: `tui.analysis.iterations.chart.chart_rows`."""
        self.cursor = 0
        """The row under the cursor."""
        self.window = (0, 0)
        """The first row that is shown, and how many are."""
        self.span: tuple[int, int] | None = None
        """First and last row of the span that the user marks, as it was begun and ended."""
        self.span_is_open = False
        """The span ends where the cursor is."""
        self.around = Around()
        self._bar_rows = BarRows(self.rows)
        self._bars: dict[tuple[int, int], list[Bar]] = {}
        """For each window that was shown, or may be next, its bars; and how they are drawn."""
        self._drawn_bars: dict[tuple[int, int], DrawnBars] = {}
        self._lines: list[Strip] = []
        self._styles: dict[str, Style] = {}

    # --- what is shown -----------------------------------------------------------------------------------------------

    def show(self, rows: pl.DataFrame, around: Around) -> None:
        """Show other rows, all of them where they are not the same iterations as before."""
        same = rows.height == self.rows.height and rows.height > 0 and rows["iteration"].equals(self.rows["iteration"])
        self.rows, self.around, self._bar_rows = rows, around, BarRows(rows)
        if not same:
            self.window, self.cursor, self.span, self.span_is_open = (0, rows.height), 0, None, False
        self._redraw()

    def follow(self, row: int) -> None:
        """Put the cursor on a row, and bring it into the chart."""
        row = max(0, min(row, self.rows.height - 1))
        if row == self.cursor:
            return
        self.cursor = row
        first, count = self.window
        if not first <= row < first + count:
            first = row if row < first else row - count + 1
            self.show_window(first, count)
        self._redraw_cursor()

    @property
    def marked(self) -> tuple[int, int] | None:
        """First and last row of the span, in order."""
        if self.span is None:
            return None
        begin, end = self.span[0], self.cursor if self.span_is_open else self.span[1]
        return min(begin, end), max(begin, end)

    def mark(self) -> None:
        """Begin a span at the cursor, or end it there."""
        if self.rows.is_empty():
            return
        if self.span is not None and self.span_is_open:
            self.span, self.span_is_open = (self.span[0], self.cursor), False
        else:
            self.span, self.span_is_open = (self.cursor, self.cursor), True
        self._redraw_cursor()

    def forget_span(self) -> bool:
        """Take the span away; False where there is none."""
        had = self.span is not None
        self.span, self.span_is_open = None, False
        self._redraw_cursor()
        return had

    def zoom(self, step: int) -> None:
        """Half as many rows (1) or twice as many (-1), around the cursor."""
        self.show_window(*self._zoomed(step))

    def _zoomed(self, step: int) -> tuple[int, int]:
        first, count = self.window
        wanted = max(min(LEAST_SHOWN, self.rows.height), count // 2) if step > 0 else min(self.rows.height, 2 * count)
        share = (self.cursor - first) / count if count else 0
        return self._within(round(self.cursor - share * wanted), wanted)

    def show_window(self, first: int, count: int) -> None:
        """Show these rows."""
        self.window = self._within(first, count)
        self._redraw_cursor()

    def _within(self, first: int, count: int) -> tuple[int, int]:
        """A window that lies within the rows."""
        count = min(count, self.rows.height)
        return max(0, min(first, self.rows.height - count)), count

    # --- keys --------------------------------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        """To the next bar (1), or the one before (-1)."""
        shown = self._shown()
        at = self._bar_of(self.cursor)
        if at is None:
            return
        if 0 <= at + step < len(shown):
            self._move_to(shown[at + step].slowest)
            return
        # Beyond the edge lie further rows: as many as a bar holds.
        row = self.cursor + step * max(1, self.window[1] // len(shown))
        self._move_to(max(0, min(row, self.rows.height - 1)))

    def action_move_to_end(self, end: int) -> None:
        """To the first row (0) or the last (1)."""
        self._move_to((self.rows.height - 1) * end)

    def action_pan(self, step: int) -> None:
        """Half of the chart to the right (1) or the left (-1)."""
        first, count = self.window
        by = step * max(1, count // 2)
        self.show_window(first + by, count)
        self._move_to(max(0, min(self.cursor + by, self.rows.height - 1)))

    def action_open(self) -> None:
        """Go into the row under the cursor."""
        self.post_message(self.Opened())

    def _move_to(self, row: int) -> None:
        if self.rows.is_empty():
            # They are still being worked out.
            return
        self.follow(row)
        self.post_message(self.Moved(self, self.cursor))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the bar that was clicked."""
        x = event.get_content_offset(self)
        at = (x.x - LABEL) // self._bar_cells() if x is not None else -1
        if 0 <= at < len(self._shown()):
            self._move_to(self._shown()[at].slowest)

    # --- drawing -----------------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Draw for the new size."""
        self._redraw()

    def notify_style_update(self) -> None:
        """Look the component styles up again after a change of theme or focus."""
        super().notify_style_update()
        self._styles = {}
        self._redraw()

    def _redraw(self) -> None:
        """Draw everything anew."""
        self._bars, self._drawn_bars = {}, {}
        self._redraw_cursor()

    def _redraw_cursor(self) -> None:
        """Draw anew what tells of the cursor and the span, or the bars of another window."""
        self._lines = []
        self.refresh()

    def _shown(self) -> list[Bar]:
        return self._bars_in(self.window)

    def _bars_in(self, window: tuple[int, int]) -> list[Bar]:
        if window not in self._bars:
            if len(self._bars) >= WINDOWS_KEPT:
                self._bars, self._drawn_bars = {}, {}
            self._bars[window] = self._bar_rows.bars(*window, max(1, self.content_size.width - LABEL))
        return self._bars[window]

    def _bar_of(self, row: int) -> int | None:
        return next((at for at, bar in enumerate(self._shown()) if bar.first <= row <= bar.last), None)

    def _bar_cells(self) -> int:
        return self._cells_of(self._shown())

    def _cells_of(self, bars: list[Bar]) -> int:
        return bar_width(len(bars), self.content_size.width - LABEL)

    def _looked_up(self) -> dict[str, Style]:
        """The style of each part; Textual takes long to work them out."""
        base = self.rich_style
        parts = {
            name.partition("--")[2]: base + self.get_component_rich_style(name, partial=True)
            for name in self.COMPONENT_CLASSES
        }
        return {**parts, **toned(parts, base), "": base}

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        if not self._lines:
            here = chart_words(self.rows, self.window, self.marked)
            of = replace(
                self._drawing(self.window),
                pointer=self._bar_of(self.cursor),
                around=replace(self.around, summary="  ".join(word for word in (here, self.around.summary) if word)),
            )
            if self.window not in self._drawn_bars:
                self._drawn_bars[self.window] = drawn_bars(of)
            self._lines = drawn(of, self._drawn_bars[self.window])
        return self._lines[y] if y < len(self._lines) else Strip.blank(self.content_size.width, self.rich_style)

    def draw_ahead(self) -> bool:
        """Draw the bars of a closer window, or of one further away; whether the other is missing still."""
        if self.rows.is_empty() or not self._lines:
            return False
        missing = [near for near in (self._zoomed(1), self._zoomed(-1)) if near not in self._drawn_bars]
        for window in missing[:1]:
            self._drawn_bars[window] = drawn_bars(self._drawing(window))
        return len(missing) > 1

    def _drawing(self, window: tuple[int, int]) -> Drawing:
        """How the bars of a window are drawn, without the cursor."""
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        colors = getattr(getattr(self.app, "options", None), "color", "truecolor")
        if not self._styles:
            self._styles = self._looked_up()
        bars = self._bars_in(window)
        return Drawing(
            rows=self.rows,
            bars=bars,
            cells=self._cells_of(bars),
            pointer=None,
            marked=self.marked,
            around=self.around,
            width=self.content_size.width,
            height=self.content_size.height,
            styles=self._styles,
            ascii_only=ascii_only,
            smooth=not ascii_only and colors in SMOOTH,
        )
