"""Bars with labels and figures, stacked bars, sparklines, and the color and pattern of each kind of work."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.widget import Widget

from tui.analysis.durations import log_bins
from tui.fmt import brief_duration, brief_percent
from tui.labels import distinct_labels, distinct_symbols
from tui.model.names import short_name
from tui.text import plain
from tui.text_width import bar, cell_width, clip_sentence, pad

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl
    from textual.geometry import Size


@dataclass(frozen=True, slots=True)
class KindStyle:
    """The color of a kind of work, and its pattern for terminals with few colors."""

    fill: str
    """A pattern; `tui.widgets.output_filters` replaces it by a solid block or ASCII where needed."""
    color: str
    """A variable of the theme."""


KIND_STYLES: Final = {
    "tensor": KindStyle("█", "$kind-tensor"),
    "other": KindStyle("▓", "$kind-other"),
    "unknown": KindStyle("▞", "$kind-unknown"),
    "memory": KindStyle("▒", "$kind-memory"),
    "memset": KindStyle("▦", "$kind-memset"),
    "um": KindStyle("▩", "$kind-um"),
    "communication": KindStyle("▨", "$kind-communication"),
    "dataloader": KindStyle("▤", "$kind-dataloader"),
    "io": KindStyle("▧", "$kind-io"),
    "cpu": KindStyle("▚", "$kind-cpu"),
    "idle": KindStyle("░", "$kind-idle"),
    "whole": KindStyle("▥", "$kind-whole"),
}
"""The character and color of each kind of work; ``memory`` is copies where memory sets are shown separately, ``whole``
is time of unknown use."""

_STYLES_BY_SIZE: Final = tuple(KindStyle(fill, f"$group-{index}") for index, fill in enumerate("█▓▒░▚▤▥▞"))
"""For parts that are not kinds of work, such as op types: the larger the part, the lighter the color."""


def kind_style(part: int | str) -> KindStyle:
    """Return the style of a part: one of `KIND_STYLES` by name, for other parts by position.

    >>> kind_style("cpu").fill, kind_style(0).fill, kind_style(8).fill
    ('▚', '█', '█')
    """
    return KIND_STYLES[part] if isinstance(part, str) else _STYLES_BY_SIZE[part % len(_STYLES_BY_SIZE)]


MIN_BAR_CELLS: Final = 6
"""With fewer cells there is no bar, only the label."""
MIN_BAR_CELLS_WITH_CUT_LABEL: Final = 8
"""The minimum width of a bar beside a label that is cut anyway."""
MAX_BAR_CELLS: Final = 60
MIN_LABEL_CELLS: Final = 12
SWATCH_CELLS: Final = 2
"""The width of the color sample of a part, with a blank."""
SHARE_CELLS: Final = 7
"""The width of ``100.00%`` and ``>99.99%``."""


@dataclass(frozen=True, slots=True)
class BarRow:
    """A line of a bar chart."""

    key: str
    """Identifies the line."""
    label: str
    share: float | None
    """The length of the bar, 0 to 1; None if unknown."""
    value: str
    """The figure as text."""
    percent: float | None = None
    """The share, 0 to 100; None to leave it out."""
    symbol: bool = False
    """Whether the label is a C++ name, which is shortened differently."""
    part: int | str | None = None
    """Which part of a `stacked_bar` it is, as `tui.widgets.charts.bars.kind_style` takes it: the label has its color
    before the label."""
    kind: str = ""
    """The kind of work that gives the bar its color, one of `KIND_STYLES`; the label or a sign names it, too."""
    sign: tuple[str, str] | None = None
    """A text before the label, and its color."""
    sentence: bool = False
    """Whether the label is a sentence, which is cut at its end; without a figure it takes the whole line."""


@dataclass(frozen=True, slots=True)
class BarColumns:
    """The widths of the columns of a bar chart."""

    label: int
    bar: int
    value: int
    percent: int

    @property
    def line(self) -> int:
        """The width of a line after the color sample."""
        return self.label + sum(cells + 1 for cells in (self.bar, self.value, self.percent) if cells)


def bar_columns(rows: Sequence[BarRow], width: int) -> BarColumns:
    """Return the widths of columns in which the bars of all lines begin in the same column.

    Args:
        rows: All lines of the chart.
        width: Cells of a line.
    """
    value = max((cell_width(row.value) for row in rows), default=0)
    share = SHARE_CELLS if any(row.percent is not None for row in rows) else 0
    label = max((cell_width(short_name(row.label) if row.symbol else row.label) for row in rows), default=0)
    swatch = SWATCH_CELLS if any(row.part is not None for row in rows) else _sign_cells(rows)
    free_cells = width - swatch - value - 1 - (share + 1 if share else 0)
    if all(row.share is None for row in rows):
        return BarColumns(min(label, max(0, free_cells)) if value or share else max(0, free_cells), 0, value, share)
    # The label has priority; a bar that would be too short to read is omitted.
    min_bar_cells = MIN_BAR_CELLS if label < free_cells - MIN_BAR_CELLS else MIN_BAR_CELLS_WITH_CUT_LABEL
    label = min(label, max(MIN_LABEL_CELLS, free_cells - min_bar_cells - 1))
    cells = min(MAX_BAR_CELLS, free_cells - label - 1)
    if cells < MIN_BAR_CELLS:
        return BarColumns(max(0, free_cells), 0, value, share)
    return BarColumns(label, cells, value, share)


def bar_lines(rows: Sequence[BarRow], columns: BarColumns, *, bar_style: str = "$bar") -> list[Content]:
    """Return a line for each row: label, bar, value, share; labels that are too long are cut but stay distinct.

    >>> print(bar_lines([BarRow("a", "conv", 0.5, "1.2 ms", 50.0)], BarColumns(6, 8, 6, 7))[0])
    conv   ████     1.2 ms   50.0%
    """
    names = [plain(row.label) for row in rows]
    symbols = [name for name, row in zip(names, rows, strict=True) if row.symbol]
    sentences = [name for name, row in zip(names, rows, strict=True) if row.sentence]
    plain_names = [name for name, row in zip(names, rows, strict=True) if not row.symbol and not row.sentence]
    labels = {
        **{name: clip_sentence(name, columns.label) for name in sentences},
        **distinct_labels(plain_names, columns.label),
        **distinct_symbols(symbols, columns.label),
    }
    sign_cells = _sign_cells(rows)
    # A line without a color sample is as wide as those with one.
    swatch = SWATCH_CELLS if any(row.part is not None for row in rows) else 0
    return [
        Content.assemble(_sign(row, sign_cells), pad(clip_sentence(name, columns.line), columns.line))
        if row.sentence and not row.value
        else Content.assemble(
            _sign(row, sign_cells), _bar_line(labels[name], row, columns, swatch, bar_style=bar_style)
        )
        for name, row in zip(names, rows, strict=True)
    ]


def _sign_cells(rows: Sequence[BarRow]) -> int:
    """Return the width of the signs before the labels, with a blank."""
    return max((cell_width(row.sign[0]) + 1 for row in rows if row.sign is not None), default=0)


def _sign(row: BarRow, cells: int) -> Content:
    text, color = row.sign or ("", "")
    return Content.assemble((text, color), " " * (cells - cell_width(text)))


def _bar_line(label: str, row: BarRow, columns: BarColumns, swatch: int, *, bar_style: str) -> Content:
    parts = [Content(pad(label, columns.label + (swatch if row.part is None else 0)))]
    if row.part is not None:
        style = kind_style(row.part)
        parts.insert(0, Content.assemble((style.fill, style.color), " "))
    if columns.bar:
        bar_text = bar(row.share, columns.bar) if row.share is not None else ""
        parts += [
            Content(" "),
            Content.styled(pad(bar_text, columns.bar), _bar_color(row) or bar_style),
        ]
    parts.append(Content(f" {pad(row.value, columns.value, right=True)}"))
    if columns.percent:
        share = brief_percent(row.percent)
        parts.append(Content(f" {pad(share, columns.percent, right=True)}"))
    return Content("").join(parts)


def _bar_color(row: BarRow) -> str:
    part = row.part if row.part is not None else row.kind
    return kind_style(part).color if part != "" else ""


def shared_cells(values: Sequence[float], width: int) -> list[int]:
    """Return the cells of the parts of a whole: they add up to ``width``, and a part above zero has at least one.

    >>> shared_cells([90, 9, 1, 0], 10), shared_cells([0, 0], 10)
    ([8, 1, 1, 0], [0, 0])
    """
    total = sum(values)
    if total <= 0 or width <= 0:
        return [0] * len(values)
    exact_cells = [value / total * width for value in values]
    cells = [max(1, int(part)) if value > 0 else 0 for part, value in zip(exact_cells, values, strict=True)]
    order = sorted(range(len(values)), key=lambda index: exact_cells[index] - cells[index], reverse=True)
    for index in order:
        if sum(cells) >= width:
            break
        cells[index] += 1 if values[index] > 0 else 0
    while sum(cells) > width:
        largest = max(range(len(cells)), key=cells.__getitem__)
        cells[largest] -= 1
    return cells


def stacked_bar(values: Sequence[float], width: int, *, parts: Sequence[int | str] | None = None) -> Content:
    """Return parts of a whole as one line, distinguished by fill and color.

    Args:
        values: The values of the parts.
        width: Cells of the line.
        parts: The kind of each part, as for `kind_style`; None: parts are distinguished by position.

    >>> stacked_bar([3, 1], 8).plain, stacked_bar([3, 1], 8, parts=["other", "cpu"]).plain
    ('██████▓▓', '▓▓▓▓▓▓▚▚')
    """
    styles = map(kind_style, parts if parts is not None else range(len(values)))
    pieces = [
        Content.styled(style.fill * cells, style.color)
        for style, cells in zip(styles, shared_cells(values, width), strict=True)
        if cells
    ]
    return Content("").join(pieces)


class StackedBar(Widget):
    """A bar of one line whose parts differ by fill and color."""

    DEFAULT_CSS = """
    StackedBar { height: 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._values: tuple[float, ...] = ()
        self._parts: tuple[int | str, ...] = ()

    def show(self, values: Sequence[float], parts: Sequence[int | str]) -> None:
        """Show other parts.

        Args:
            values: The values of the parts.
            parts: The kind of each part, as for `kind_style`.
        """
        self._values, self._parts = tuple(values), tuple(parts)
        self.refresh()

    def render(self) -> Content:
        """Render the bar."""
        return stacked_bar(self._values, self.content_size.width, parts=self._parts)


LEVELS: Final = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Return numbers as columns of one line, from zero to the largest; an unknown one is a blank.

    If there are more numbers than cells, a cell shows the largest of its numbers, so no peak is lost.

    >>> sparkline([0, 1, 2, 4], 4), sparkline([1, None, 8], 3), sparkline([1, 9, 1, 1], 2)
    ('▁▃▅█', '▂ █', '█▁')
    """
    if width <= 0 or not values:
        return ""
    cells = min(width, len(values))
    edges = [index * len(values) // cells for index in range(cells + 1)]
    maxima = [
        max((value for value in values[start:stop] if value is not None), default=None)
        for start, stop in itertools.pairwise(edges)
    ]
    largest = max((value for value in maxima if value is not None), default=0)
    return "".join(
        " " if value is None else LEVELS[_level(value, largest, len(LEVELS))] if largest > 0 else LEVELS[0]
        for value in maxima
    )


def _level(value: float, largest: float, levels: int) -> int:
    return max(0, min(levels - 1, int(value / largest * levels)))


def histogram(durations_ns: pl.Series, bins: int) -> list[int]:
    """Return the number of durations in each of ``bins`` equal steps of a logarithmic scale.

    The scale runs from the shortest to the longest; durations of 0 count as 1 ns.
    """
    return [part.launches for part in log_bins(durations_ns, bins)]


def histogram_line(durations_ns: pl.Series, width: int) -> str:
    """Return the distribution of durations on a logarithmic scale, between the shortest and the longest.

    >>> import polars as pl
    >>> histogram_line(pl.Series([1000, 1000, 1000, 30_000, 1_000_000]), 30)
    '1 µs █        ▃         ▃ 1 ms'
    """
    recorded = durations_ns.drop_nulls()
    if not len(recorded):
        return "–"
    shortest, longest = recorded.min(), recorded.max()
    if not isinstance(shortest, (int, float)) or not isinstance(longest, (int, float)):
        return "–"
    low, high = brief_duration(shortest), brief_duration(longest)
    if shortest == longest:
        return low
    cells = width - cell_width(low) - cell_width(high) - 2
    if cells < 4:
        return f"{low} … {high}"
    counts = [count or None for count in histogram(recorded, cells)]
    return f"{low} {sparkline(counts, cells)} {high}"


MAX_GPUS: Final = 8
TALL_CHART_LINES: Final = 3
"""The height of the chart of a single GPU if there is room."""


@dataclass(frozen=True, slots=True)
class BusyLane:
    """The lane of one GPU."""

    label: str
    busy_pct: float | None
    shares: Callable[[int], Sequence[float]]
    """The share of each time step in which the GPU was busy."""


class BusyChart(Widget):
    """A lane of columns for each GPU, from idle (empty) to busy (full), over the wall time."""

    DEFAULT_CSS = """
    BusyChart { height: auto; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._lanes: tuple[BusyLane, ...] = ()
        self._span_ns = 0

    def show(self, lanes: Sequence[BusyLane], span_ns: int) -> None:
        """Show other lanes, all of the same time span."""
        self._lanes = tuple(lanes)
        self._span_ns = span_ns
        self.display = bool(lanes)
        self.refresh(layout=True)

    @property
    def _lines(self) -> int:
        return TALL_CHART_LINES if len(self._lanes) == 1 and self.screen.has_class("-tall") else 1

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines of the lanes and the time axis."""
        return min(len(self._lanes), MAX_GPUS) * self._lines + 1

    def render(self) -> Content:
        """Render the lanes and the time axis."""
        lanes = self._lanes[:MAX_GPUS]
        heads = [self._head(lane) for lane in lanes]
        label_width = max((cell_width(part) for head in heads for part in head), default=0)
        chart_width = max(8, self.content_size.width - label_width - 1)
        lines = []
        for lane, head in zip(lanes, heads, strict=True):
            for index, line in enumerate(area_lines(lane.shares(chart_width), self._lines)):
                text = pad(head[index] if index < len(head) else "", label_width)
                lines.append(Content.assemble((text, "$text-muted"), " ", (line, "$bar")))
        hidden = len(self._lanes) - len(lanes)
        note = f"busy over the wall time{f', {hidden} more GPUs not shown' if hidden else ''}"
        end = brief_duration(self._span_ns)
        axis = "0" + note.center(max(0, chart_width - 1 - cell_width(end))) + end
        return Content("\n").join([*lines, Content.styled(" " * (label_width + 1) + axis, "$text-muted")])

    def _head(self, lane: BusyLane) -> list[str]:
        """Return the texts before the lines of a lane: name and share, on two lines if there is room."""
        parts = [plain(lane.label), brief_percent(lane.busy_pct)]
        return parts if self._lines > 1 else [" ".join(parts)]


def area_lines(shares: Sequence[float], lines: int) -> list[str]:
    """Return columns of a few lines each, the top line first.

    >>> area_lines([0, 0.5, 1], 2)
    ['  █', ' ██']
    """
    steps = len(LEVELS)
    heights = [0 if share <= 0 else max(1, round(share * steps * lines)) for share in shares]
    result = []
    for line in reversed(range(lines)):
        base = line * steps
        result.append("".join(" " if height <= base else LEVELS[min(steps, height - base) - 1] for height in heights))
    return result
