"""The chart of iterations: a bar for each or for several, with a cursor, a span, and the chosen range."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.analysis.iterations.iteration_table import sources
from tui.analysis.iterations.segments import WHOLE_RUN
from tui.analysis.iterations.times import USES, Bar, BarRows
from tui.fmt import brief_duration, brief_percent, count
from tui.keys import Scope, bindings_for
from tui.model.aggregation import STEP_PHASES
from tui.text import plural
from tui.text_width import ELLIPSIS, cell_width
from tui.widgets.app_services import services_of
from tui.widgets.charts.bars import KIND_STYLES
from tui.widgets.charts.iteration_bars import (
    OFF_SCALE,
    ON_SEPARATOR,
    SCALE_CELLS,
    SMOOTH_COLORS,
    WHISKER,
    BarStyle,
    ChartHeader,
    Drawing,
    DrawnBars,
    bar_width,
    column,
    draw_bars,
    draw_chart,
    round_scale_ns,
    visible_parts,
)
from tui.widgets.output_filters import direct_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.style import Style
    from textual import events
    from textual.geometry import Region, Size

    from tui.model.aggregation import Aggregation
    from tui.model.profile import Profile
    from tui.widgets.charts.iteration_bars import Cell

_SHORT = dict(
    zip(USES, ("TC", "other kernels", "TC unknown", "memory", "data loading", "files", "CPU", "other"), strict=True)
)


def iterations_summary(profile: Profile, times: Mapping[str, Any] | None, chosen: Aggregation, *, session: int) -> str:
    """Return all iterations of a session in a line: their number, duration, the chosen ones, and a proposal.

    Args:
        profile: The profile with all iterations.
        times: The row of `iteration_times` of the session; None: no time is known.
        chosen: The iterations that the other views show.
        session: The session.
    """
    if times is None:
        return "no iteration times recorded"
    several = profile["sessions"].height > 1
    if sources(profile).get(session) == WHOLE_RUN:
        return "  ".join([f"session {session}"] * several + ["whole run, not divided"])
    number = times["iterations"]
    parts = [f"session {session}" if several else "", plural(number, "iteration")]
    if chosen.is_part:
        parts.append(f"shown: {chosen.text.partition(' ')[2]}")
    elif times["steady_first"] is not None and times["steady_iterations"] < number:
        parts.append(f"steady: {times['steady_first']}:{times['steady_last']}, p selects them")
    if number > 1:
        parts.append(f"slowest: {times['slowest']}, {brief_duration(times['max_ns'])}")
    spread = f", std {brief_percent(100 * times['cv'])}" if times["cv"] is not None else ""
    parts.append(f"mean {brief_duration(times['avg_ns'])}{spread}")
    if times["runs_ahead"]:
        parts.append(f"CPU runs ahead: {brief_duration(times['cpu_avg_ns'])} each")
    parts += (
        [f"p50 {brief_duration(times['median_ns'])}", f"p95 {brief_duration(times['p95_ns'])}"] if number > 1 else []
    )
    return "  ".join(part for part in parts if part)


def chart_summary(rows: pl.DataFrame, window: tuple[int, int], marked: tuple[int, int] | None) -> str:
    """Return the marked iterations, and those in the chart if not all are; empty if there is neither.

    Args:
        rows: The rows of the chart.
        window: The first shown row, and the number of shown rows.
        marked: First and last row of the span; None: there is none.
    """
    numbers = rows["iteration"] if rows.height else None
    if numbers is None:
        return ""
    texts = []
    if marked is not None:
        span = numbers.slice(marked[0], marked[1] - marked[0] + 1).drop_nulls()
        texts.append(f"span {_range_text(span, ':')}" if len(span) else "empty span")
    if window[1] < rows.height:
        numbers_shown = numbers.slice(*window).drop_nulls()
        texts.append(
            f"chart: {_range_text(numbers_shown, ' to ')}, z all"
            if len(numbers_shown)
            else "chart: no iteration, z all"
        )
    return "  ".join(texts)


def no_zoom(rows: int, step: int, min_rows: int) -> str:
    """Return the reason why the chart cannot be zoomed in (1) or out (-1).

    Args:
        rows: The number of rows.
        step: 1 or -1.
        min_rows: The minimum number of shown rows.

    >>> no_zoom(1, 1, 4), no_zoom(3, 1, 4)
    ('The chart has only one bar.', 'The chart cannot show fewer than 3 iterations.')
    """
    if step < 0:
        return "All iterations are in the chart."
    if rows == 1:
        return "The chart has only one bar."
    return f"The chart cannot show fewer than {min(rows, min_rows)} iterations."


def _range_text(numbers: pl.Series, separator: str) -> str:
    first, last = numbers[0], numbers[-1]
    return f"{first}" if first == last else f"{first}{separator}{last}"


def readout(rows: pl.DataFrame, bar: Bar, times: Mapping[str, Any] | None) -> str:
    """Return a bar as a line: the iteration, its duration, its ratio to the median, and its uses.

    Args:
        rows: The rows of the chart.
        bar: The bar.
        times: The row of `iteration_times` of the session.
    """
    row = rows.row(bar.slowest, named=True)
    number = row["iteration"]
    name = row["phase"] if number is None else f"iteration {number}"
    if row["duration_ns"] is None:
        return f"{name}: time unknown"
    parts = [f"{name}: {brief_duration(row['duration_ns'])}"]
    if row["phase"] in STEP_PHASES:
        tokens = f", {count(row['query_tokens'])} tokens" if row["query_tokens"] is not None else ""
        requests = f", {count(row['requests'])} requests" if row["requests"] is not None else ""
        parts.append(f"{row['phase']}{requests}{tokens}")
    if number is not None and times is not None and times["iterations"] > 2 and times["median_ns"]:
        parts[0] += f", {row['duration_ns'] / times['median_ns']:.2f}x the median"
    if (row["gpu_ns"] or 0) > row["duration_ns"]:
        # If the CPU runs ahead, the time of the launched work is not part of the iteration's own time.
        parts.append(f"launched {brief_duration(row['gpu_ns'])} of GPU work")
    numbers = rows["iteration"].slice(bar.first, bar.last - bar.first + 1).drop_nulls()
    if bar.last > bar.first and len(numbers):
        mean = brief_duration(bar.mean_ns)
        parts.append(f"longest of {numbers[0]} to {numbers[-1]}, mean {mean}")
    if row["duration_ns"] and row[USES[-1]] is not None:
        shares = [(use_label, 100 * (row[use] or 0) / row["duration_ns"]) for use, use_label in _SHORT.items()]
        # If there is little room, the last parts are omitted.
        shares.sort(key=lambda share: -share[1])
        parts += [f"{use_label} {_rounded_share(share)}" for use_label, share in shares if share]
    kernels = row["kernels_launched"]
    parts.append(plural(kernels, "kernel") if kernels is not None else "")
    return "  ".join(part for part in parts if part)


def _rounded_share(share: float) -> str:
    """Format a share of 0 to 100 without decimals; only exactly 0 and 100 are written as 0% and 100%."""
    pct = min(99, max(1, round(share))) if 0 < share < 100 else round(share)
    return f"{'<' if share < 1 else '>' if 99 < share < 100 else ''}{pct}%"


CHART_KEYS: Final = "b mark span  a show only span  p show steady  E end of iterations  A go back  + _ z zoom"
"""The keys that change what all views show."""
MIN_ITERATIONS_SHOWN: Final = 4
"""The chart zooms in to this number of iterations at most."""
MAX_CACHED_WINDOWS: Final = 12
"""The number of zoom windows whose bars are cached."""


class IterationChart(Widget, can_focus=True):
    """Bars from left to right in order of time; the cursor selects a row of the frame."""

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
            "prefill",
            "decode",
            "mixed",
            "capture",
            "sign",
            "aside",
            "text",
            "span",
            "pointer",
        )
    }
    DEFAULT_CSS = """
    IterationChart {
        height: 45%; min-height: 12; max-height: 22; padding: 0 1; border-bottom: solid $panel;
        border-subtitle-color: $text-muted;
        &:focus { border-bottom: solid $primary; }
        & > .iterationchart--tensor { color: $kind-tensor; }
        & > .iterationchart--other { color: $kind-other; }
        & > .iterationchart--unknown { color: $kind-unknown; }
        & > .iterationchart--memory { color: $kind-memory; }
        & > .iterationchart--dataloader { color: $kind-dataloader; }
        & > .iterationchart--io { color: $kind-io; }
        & > .iterationchart--cpu { color: $kind-cpu; }
        & > .iterationchart--idle { color: $kind-idle; }
        & > .iterationchart--whole { color: $kind-whole; }
        & > .iterationchart--prefill { color: $group-1; }
        & > .iterationchart--decode { color: $group-2; }
        & > .iterationchart--mixed { color: $group-3; }
        & > .iterationchart--capture { color: $group-4; }
        & > .iterationchart--sign { color: $foreground; }
        & > .iterationchart--aside { color: $text-muted; }
        & > .iterationchart--text { color: $text-muted; }
        & > .iterationchart--span, & > .iterationchart--pointer { color: $accent; text-style: bold; }
        &:focus > .iterationchart--pointer { text-style: bold reverse; }
    }
    """

    class Moved(Message):
        """The cursor moved to another row."""

        def __init__(self, chart: IterationChart, row: int) -> None:
            super().__init__()
            self.chart = chart
            self.row = row

    class Opened(Message):
        """The user opened the selected row."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.border_subtitle = Content(CHART_KEYS)
        self.rows = pl.DataFrame()
        """The rows, as `tui.analysis.iterations.times.chart_rows`."""
        self.cursor = 0
        """The selected row."""
        self.window = (0, 0)
        """The first row that is shown, and the number of rows shown."""
        self.span: tuple[int, int] | None = None
        """The first and last row of the span, in the order in which they were marked."""
        self.span_is_open = False
        """Whether the span ends at the cursor."""
        self.header = ChartHeader()
        self._bar_rows = BarRows(self.rows)
        self._bars: dict[tuple[int, int], list[Bar]] = {}
        """The bars of each window that was shown or may be shown next."""
        self._drawn_bars: dict[tuple[int, int], DrawnBars] = {}
        self._lines: list[Strip] = []
        self._styles: dict[str, Style] = {}

    # --- what is shown -----------------------------------------------------------------------------------------------

    def show(self, rows: pl.DataFrame, header: ChartHeader) -> None:
        """Show other rows; the zoom is reset if the iterations differ."""
        is_same = (
            rows.height == self.rows.height and rows.height > 0 and rows["iteration"].equals(self.rows["iteration"])
        )
        self.rows, self.header, self._bar_rows = rows, header, BarRows(rows)
        if not is_same:
            self.window, self.cursor, self.span, self.span_is_open = (0, rows.height), 0, None, False
        self._redraw()

    def follow(self, row: int) -> None:
        """Put the cursor on a row, and scroll to it."""
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
        """The first and last row of the span, in order."""
        if self.span is None:
            return None
        begin, end = self.span[0], self.cursor if self.span_is_open else self.span[1]
        return min(begin, end), max(begin, end)

    def mark(self) -> None:
        """Begin or end a span at the cursor."""
        if self.rows.is_empty():
            return
        if self.span is not None and self.span_is_open:
            self.span, self.span_is_open = (self.span[0], self.cursor), False
        else:
            self.span, self.span_is_open = (self.cursor, self.cursor), True
        self._redraw_cursor()

    def forget_span(self) -> bool:
        """Remove the span; False if there is none."""
        had_span = self.span is not None
        self.span, self.span_is_open = None, False
        self._redraw_cursor()
        return had_span

    def zoom(self, step: int) -> None:
        """Show half as many rows (1) or twice as many (-1), around the cursor."""
        self.show_window(*self._zoomed(step))

    def _zoomed(self, step: int) -> tuple[int, int]:
        first, count = self.window
        new_count = (
            max(min(MIN_ITERATIONS_SHOWN, self.rows.height), count // 2)
            if step > 0
            else min(self.rows.height, 2 * count)
        )
        share = (self.cursor - first) / count if count else 0
        return self._within(round(self.cursor - share * new_count), new_count)

    def show_window(self, first: int, count: int) -> None:
        """Show these rows."""
        self.window = self._within(first, count)
        self._redraw_cursor()

    def _within(self, first: int, count: int) -> tuple[int, int]:
        """Return the window, moved within the rows."""
        count = min(count, self.rows.height)
        return max(0, min(first, self.rows.height - count)), count

    # --- keys --------------------------------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        """Move to the next bar (1) or the previous one (-1)."""
        bars = self._shown()
        index = self._bar_of(self.cursor)
        if index is None:
            return
        if 0 <= index + step < len(bars):
            self._move_to(bars[index + step].slowest)
            return
        # Beyond the edge there are further rows: move by those of one bar.
        row = self.cursor + step * max(1, self.window[1] // len(bars))
        self._move_to(max(0, min(row, self.rows.height - 1)))

    def action_move_to_end(self, end: int) -> None:
        """Move to the first row (0) or the last one (1)."""
        self._move_to((self.rows.height - 1) * end)

    def action_pan(self, step: int) -> None:
        """Scroll by half of the chart to the right (1) or the left (-1)."""
        first, count = self.window
        rows = step * max(1, count // 2)
        self.show_window(first + rows, count)
        self._move_to(max(0, min(self.cursor + rows, self.rows.height - 1)))

    def action_open(self) -> None:
        """Open the selected row."""
        self.post_message(self.Opened())

    def _move_to(self, row: int) -> None:
        if self.rows.is_empty():
            # They are still being computed.
            return
        self.follow(row)
        self.post_message(self.Moved(self, self.cursor))

    def on_click(self, event: events.Click) -> None:
        """Select the clicked bar."""
        offset = event.get_content_offset(self)
        index = (offset.x - SCALE_CELLS) // self._bar_cells() if offset is not None else -1
        if 0 <= index < len(self._shown()):
            self._move_to(self._shown()[index].slowest)

    # --- drawing -----------------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Draw for the new size."""
        self._redraw()

    def notify_style_update(self) -> None:
        """Look up the component styles again after a change of theme or focus."""
        super().notify_style_update()
        self._styles = {}
        self._redraw()

    def _redraw(self) -> None:
        """Redraw everything."""
        self._bars, self._drawn_bars = {}, {}
        self._redraw_cursor()

    def _redraw_cursor(self) -> None:
        """Redraw the lines that show the cursor and the span, or all lines if the window changed."""
        self._lines = []
        self.refresh()

    def _shown(self) -> list[Bar]:
        return self._bars_in(self.window)

    def _bars_in(self, window: tuple[int, int]) -> list[Bar]:
        if window not in self._bars:
            if len(self._bars) >= MAX_CACHED_WINDOWS:
                self._bars, self._drawn_bars = {}, {}
            self._bars[window] = self._bar_rows.bars(*window, max(1, self.content_size.width - SCALE_CELLS))
        return self._bars[window]

    def _bar_of(self, row: int) -> int | None:
        return next((index for index, bar in enumerate(self._shown()) if bar.first <= row <= bar.last), None)

    def _bar_cells(self) -> int:
        return self._cells_of(self._shown())

    def _cells_of(self, bars: list[Bar]) -> int:
        return bar_width(len(bars), self.content_size.width - SCALE_CELLS)

    def _load_styles(self) -> dict[str, Style]:
        """Return the style of each part, cached because Textual takes long to compute them."""
        base = self.rich_style
        parts = {
            name.partition("--")[2]: base + self.get_component_rich_style(name, partial=True)
            for name in self.COMPONENT_CLASSES
        }
        return {**parts, "": base}

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render some lines, without Textual's wrapping."""
        return direct_lines(self, crop, super().render_lines)

    def render_line(self, y: int) -> Strip:
        """Render one line."""
        if not self._lines:
            summary = chart_summary(self.rows, self.window, self.marked)
            drawing = replace(
                self._drawing(self.window),
                pointer=self._bar_of(self.cursor),
                header=replace(self.header, summary="  ".join(word for word in (summary, self.header.summary) if word)),
            )
            if self.window not in self._drawn_bars:
                self._drawn_bars[self.window] = draw_bars(drawing)
            self._lines = draw_chart(drawing, self._drawn_bars[self.window])
        return self._lines[y] if y < len(self._lines) else Strip.blank(self.content_size.width, self.rich_style)

    def draw_ahead(self) -> bool:
        """Compute the bars after zooming in or out by one step; return whether the other one is still missing."""
        if self.rows.is_empty() or not self._lines:
            return False
        missing = [
            window_near for window_near in (self._zoomed(1), self._zoomed(-1)) if window_near not in self._drawn_bars
        ]
        for window in missing[:1]:
            self._drawn_bars[window] = draw_bars(self._drawing(window))
        return len(missing) > 1

    def _drawing(self, window: tuple[int, int]) -> Drawing:
        """Return the bars of a window, without the cursor."""
        colors = services_of(self).color
        if not self._styles:
            self._styles = self._load_styles()
        bars = self._bars_in(window)
        return Drawing(
            rows=self.rows,
            bars=bars,
            cells=self._cells_of(bars),
            pointer=None,
            marked=self.marked,
            header=self.header,
            width=self.content_size.width,
            height=self.content_size.height,
            styles=self._styles,
            smooth=colors in SMOOTH_COLORS,
        )


TALL_COLUMN_LINES: Final = 7
"""The height of the columns if there is room."""
SHORT_COLUMN_LINES: Final = 5
"""Their height otherwise; shorter columns would not show their parts."""
AXIS_CELLS: Final = 10
"""The width of the scale on the left, with a blank."""
MIN_COLUMN_CELLS_WITH_GAP: Final = 3
"""Narrower columns have no blank between them."""
MIN_COLUMNS_CELLS: Final = 8
"""The minimum width of all columns together."""
PART_LABELS: Final = {
    "tensor": "tensor cores",
    "other": "other kernels",
    "unknown": "kernels",
    "memory": "memory",
    "dataloader": "data loading",
    "io": "files",
    "cpu": "CPU",
    "idle": "other",
    "whole": "work unknown",
}
"""The names of the parts in the legend."""
SIGNS: Final = {
    WHISKER: "longest of several",
    OFF_SCALE: "longer",
}


class TimesChart(Widget):
    """A chart of iteration times from zero to the longest; if there are many, a column is the mean of several."""

    DEFAULT_CSS = """
    TimesChart { height: auto; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._rows: pl.DataFrame | None = None
        self._has_uses = True

    def show(self, rows: pl.DataFrame | None, *, has_uses: bool = True) -> None:
        """Show other iterations, or none.

        Args:
            rows: Rows for `tui.analysis.iterations.times.BarRows`, in order.
            has_uses: Whether the uses of their time are complete.
        """
        self._rows, self._has_uses = rows, has_uses
        self.display = rows is not None and rows.height > 1
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the lines of the columns, their numbers and the legend."""
        return self._lines + 2

    @property
    def _lines(self) -> int:
        return TALL_COLUMN_LINES if self.screen.has_class("-tall") else SHORT_COLUMN_LINES

    def render(self) -> Content:
        """Render the columns with their scale, numbers and legend."""
        if self._rows is None:
            return Content("")
        colors = services_of(self).color
        chart_width = max(MIN_COLUMNS_CELLS, self.content_size.width - AXIS_CELLS)
        bars = BarRows(self._rows).bars(0, self._rows.height, chart_width)
        longest = round_scale_ns(bars)
        style = BarStyle(self._lines, longest, smooth=colors in SMOOTH_COLORS)
        columns = [column(bar, style) for bar in bars]
        cells = bar_width(len(bars), chart_width)
        body = cells - (1 if cells >= MIN_COLUMN_CELLS_WITH_GAP else 0)
        scale = [brief_duration(longest), *[""] * (style.lines - 1)]
        lines = [
            Content.assemble(
                (f"{text:>{AXIS_CELLS - 1}} ", "$text-muted"),
                *_column_line([cells_of_bar[line] for cells_of_bar in columns], cells, body),
            )
            for text, line in zip(scale, reversed(range(style.lines)), strict=True)
        ]
        first, last = (str(self._rows["iteration"][place]) for place in (0, -1))
        axis = first + last.rjust(cells * (len(bars) - 1) + body - cell_width(first))
        parts_shown = visible_parts(columns)
        parts = [
            (KIND_STYLES[part].fill, KIND_STYLES[part].color, PART_LABELS[part])
            for part in PART_LABELS
            if part in parts_shown
        ]
        signs = {character for cells_of_bar in columns for character, part in cells_of_bar if part == "sign"}
        if not self._has_uses:
            parts = [(ELLIPSIS, "$text-muted", "")]
        parts += [(sign, "$foreground", label) for sign, label in SIGNS.items() if sign in signs]
        lines += [Content.styled(" " * AXIS_CELLS + axis, "$text-muted"), *_legend(parts, self.content_size.width)]
        return Content("\n").join(lines)


def _column_line(line: Sequence[Cell], cells: int, body: int) -> list[tuple[str, str]]:
    """Return a line of the columns as texts with styles; neighbors of the same part are joined."""
    runs = []
    for part, run in groupby(line, key=itemgetter(1)):
        colors = [KIND_STYLES[name].color for name in part.split(ON_SEPARATOR) if name in KIND_STYLES]
        for character, _ in run:
            # Blanks between columns have no background.
            runs += [(character * body, ON_SEPARATOR.join(colors) or "$foreground"), (" " * (cells - body), "")]
    return runs


def _legend(parts: Sequence[tuple[str, str, str]], width: int) -> list[Content]:
    """Return the legend of signs, as far as there is room; no line if there are none."""
    pieces: list[tuple[str, str]] = []
    for sign, color, label in parts:
        piece = [(sign, color), (f" {label}  ", "$text-muted")]
        if sum(cell_width(text) for text, _ in [*pieces, *piece]) - 2 <= width:
            pieces += piece
    return [Content.assemble(*pieces)] if pieces else []
