"""The bars of the chart of iterations as characters with the names of their parts, without colors."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.analysis.iterations.times import Bar, scale_ns
from tui.fmt import brief_duration
from tui.model.aggregation import STEP_PHASES
from tui.text import plain
from tui.text_width import cell_width, clip, clip_parts
from tui.widgets.charts.bars import KIND_STYLES, LEVELS, shared_cells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import polars as pl


PARTS: Final = ("tensor", "other", "unknown", "memory", "dataloader", "io", "cpu", "idle")
"""The parts of a bar, from the bottom; see `tui.analysis.iterations.times.USES`."""
WHISKER: Final = "│"
"""Drawn from the mean of several iterations to the longest one."""
OFF_SCALE: Final = "↑"
"""Above a bar that is longer than the scale."""
UNKNOWN: Final = "?"
"""Instead of a bar of unknown time."""

CELL_LEVELS: Final = len(LEVELS)
SMOOTH_COLORS: Final = ("truecolor", "256")
"""Color modes in which a bar may end within a cell; with fewer colors, two parts can have the same color."""
ROUND_STEPS: Final = (1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10)
MAX_BAR_CELLS: Final = 12
"""The maximum width of a bar, with the blank beside it."""

ON_SEPARATOR: Final = " on "
"""Separates the two parts that share a cell: the first is the foreground, the second the background."""

Cell = tuple[str, str]
"""A character and its part: one of `PARTS`, two of them with `ON_SEPARATOR` between, ``whole``, ``sign``, or empty."""


def visible_parts(columns: Iterable[Sequence[Cell]]) -> set[str]:
    """Return the parts that the legend has to name.

    >>> sorted(visible_parts([[("█", "tensor"), ("▃", "tensor on cpu")]]))
    ['cpu', 'tensor']
    """
    return {part for cells in columns for _, part_names in cells for part in part_names.split(ON_SEPARATOR)}


@dataclass(frozen=True, slots=True)
class BarStyle:
    """The style of bars."""

    lines: int
    """The height of the chart."""
    scale_ns: int
    """The time that the height represents."""
    smooth: bool = True
    """Whether parts may end within a cell, which needs colors that distinguish them."""


def round_scale_ns(bars: Sequence[Bar]) -> int:
    """Return the time that the height of a chart represents: a round number whose half is round, too."""
    minimum = scale_ns(bars)
    if minimum <= 0:
        return 0
    magnitude = 10 ** (len(str(minimum)) - 1)
    return next(scale for step in ROUND_STEPS if (scale := int(step * magnitude)) >= minimum)


def bar_width(number: int, cells: int) -> int:
    """Return the cells of each bar, including a blank if there is room.

    >>> bar_width(5, 100), bar_width(40, 100), bar_width(90, 100)
    (12, 2, 1)
    """
    return max(1, min(MAX_BAR_CELLS, cells // number)) if number else 1


def column(bar: Bar, style: BarStyle) -> list[Cell]:
    """Return the cells of a bar, from the bottom."""
    if bar.mean_ns is None or bar.max_ns is None:
        return [(UNKNOWN, "sign")] + [(" ", "")] * (style.lines - 1)
    total_steps = style.lines * CELL_LEVELS
    height = _height(bar.mean_ns, style)
    longest = _height(bar.max_ns, style)
    parts = _parts_ns(bar, min(bar.mean_ns, style.scale_ns))
    cells = _smooth_cells(_steps(parts, height)) if style.smooth else _solid_cells(parts, _rounded(height))
    if bar.last > bar.first:
        cells += [(WHISKER, "sign")] * (-(-longest // CELL_LEVELS) - len(cells))
    cells += [(" ", "")] * (style.lines - len(cells))
    if bar.max_ns > style.scale_ns and longest >= total_steps:
        cells[-1] = (OFF_SCALE, "sign")
    return cells


def _height(time_ns: float, style: BarStyle) -> int:
    """Return the height in steps of a cell; a time above zero has at least one."""
    if style.scale_ns <= 0 or time_ns <= 0:
        return 0
    total_steps = style.lines * CELL_LEVELS
    return max(1, min(total_steps, round(time_ns / style.scale_ns * total_steps)))


def _rounded(height: int) -> int:
    """Return the number of whole cells; at least one."""
    return max(int(height > 0), (height + CELL_LEVELS // 2) // CELL_LEVELS)


def _parts_ns(bar: Bar, shown_ns: float) -> list[tuple[str, float]]:
    """Return the parts of a bar up to a time, from the bottom; the last part takes the rest."""
    parts = [(part, time) for part, time in zip(PARTS, bar.parts_ns, strict=bool(bar.parts_ns)) if time > 0]
    if not parts:
        return [("whole", shown_ns)]
    ends = [min(end, shown_ns) for end in accumulate(time for _, time in parts)][:-1]
    times = [end - start for start, end in pairwise([0.0, *ends, shown_ns])]
    return [(part, time) for (part, _), time in zip(parts, times, strict=True) if time > 0]


def _steps(parts: Sequence[tuple[str, float]], height: int) -> list[str]:
    """Return the part of each step of a bar, from the bottom: each part ends at the step nearest to its end.

    >>> _steps([("tensor", 3.4), ("cpu", 2.6)], 3)
    ['tensor', 'tensor', 'cpu']
    """
    total = sum(time for _, time in parts)
    steps: list[str] = []
    for (part, _), end in zip(parts, accumulate(time for _, time in parts), strict=True):
        steps += [part] * (round(end / total * height) - len(steps)) if total else []
    return steps


def _smooth_cells(steps: Sequence[str]) -> list[Cell]:
    """Return cells of which the last may be partially filled, and each other one may show two parts.

    >>> _smooth_cells(["tensor"] * 3 + ["cpu"] * 7)
    [('▃', 'tensor on cpu'), ('▂', 'cpu')]
    """
    cells = []
    for start in range(0, len(steps), CELL_LEVELS):
        runs = [(part, sum(1 for _ in run)) for part, run in groupby(steps[start : start + CELL_LEVELS])]
        filled = sum(number for _, number in runs)
        if len(runs) == 1 or filled < CELL_LEVELS:
            part, _ = max(runs, key=itemgetter(1))
            cells.append((KIND_STYLES[part].fill if filled == CELL_LEVELS else LEVELS[filled - 1], part))
            continue
        # If there are more than two, the largest are shown.
        (lower, below), (upper, above) = sorted(sorted(runs, key=itemgetter(1))[-2:], key=runs.index)
        cells.append(
            (LEVELS[max(1, round(CELL_LEVELS * below / (below + above))) - 1], f"{lower}{ON_SEPARATOR}{upper}")
        )
    return cells


def _solid_cells(parts: Sequence[tuple[str, float]], number: int) -> list[Cell]:
    """Return cells of one part each; a part of a quarter of a cell or more has one, as far as there are cells.

    >>> _solid_cells([("tensor", 16), ("other", 37), ("memory", 3), ("cpu", 44)], 3)
    [('█', 'tensor'), ('▓', 'other'), ('▚', 'cpu')]
    """
    total = sum(time for _, time in parts)
    smallest = sorted((time for _, time in parts), reverse=True)[:number][-1] if number else 0
    counted_ns = [time if time >= smallest and 4 * time * number >= total else 0 for _, time in parts]
    shares = shared_cells(counted_ns, number)
    return [
        (KIND_STYLES[part].fill, part) for (part, _), cells in zip(parts, shares, strict=True) for _ in range(cells)
    ]


SCALE_CELLS: Final = 11
"""The width of the scale on the left, with a blank."""
LINES_AROUND_BARS: Final = 5
"""Two lines of text above the bars; marks, numbers and the legend below them."""

NUMBER_STEPS: Final = (1, 2, 5, 10, 20, 50)
"""Every 1st, 2nd, 5th, ... iteration has its number below its bar."""
MIN_NUMBER_GAP: Final = 2
"""Blanks between two numbers."""
MARKS: Final = {"warm-up": "w", "partial": "p", "tail": "t", "outside": "o"}
"""Below bars of work that is not an iteration."""
PHASE_MARKS: Final = {phase: phase[0].upper() for phase in STEP_PHASES}
"""The letter below a step of a server, in the color of its phase."""
CHOSEN: Final = "═"
NOT_CHOSEN: Final = "─"
SPAN: Final = "╍"
POINTER: Final = "▲"

_LEGEND: Final = (
    ("tensor", "tensor-core kernels"),
    ("other", "other kernels"),
    ("unknown", "kernels, tensor cores unknown"),
    ("memory", "memory"),
    ("dataloader", "data loading"),
    ("io", "files"),
    ("cpu", "CPU"),
    ("idle", "other"),
    ("whole", "work unknown"),
)


def _no_readout(_bar: Bar) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class ChartHeader:
    """The texts above the bars."""

    summary: str = ""
    """A summary of all iterations."""
    readout: Callable[[Bar], str] = field(default=_no_readout)
    """A description of the selected bar."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """The input of the drawing."""

    rows: pl.DataFrame
    """As `tui.analysis.iterations.times.chart_rows`."""
    bars: Sequence[Bar]
    cells: int
    """The width of each bar, with the blank beside it."""
    pointer: int | None
    """The selected bar."""
    marked: tuple[int, int] | None
    """The first and last row of the span."""
    header: ChartHeader
    width: int
    height: int
    styles: Mapping[str, Style]
    """The style of each part, and of ``words``, ``aside``, ``span``, ``pointer`` and the rest (an empty name)."""
    smooth: bool
    """Whether bars may end within a cell."""


@dataclass(frozen=True, slots=True)
class DrawnBars:
    """The parts of the drawing that do not depend on the cursor."""

    lines: Sequence[Strip]
    legend: Strip


def draw_bars(drawing: Drawing) -> DrawnBars:
    """Return the bars with their scale, from the top, and the legend."""
    style = BarStyle(max(1, drawing.height - LINES_AROUND_BARS), round_scale_ns(drawing.bars), drawing.smooth)
    columns = [column(bar, style) for bar in drawing.bars]
    return DrawnBars(_bar_lines(drawing, style, columns), _legend(drawing, columns))


def draw_chart(drawing: Drawing, bars: DrawnBars) -> list[Strip]:
    """Return the lines of the chart, from the top."""
    readout = drawing.header.readout(drawing.bars[drawing.pointer]) if drawing.pointer is not None else ""
    return [
        _text_line(drawing, drawing.header.summary, "text"),
        _text_line(drawing, readout, "sign"),
        *bars.lines,
        _mark_line(drawing),
        _number_line(drawing),
        bars.legend,
    ]


def _text_line(drawing: Drawing, text: str, style: str) -> Strip:
    runs = _StyledRuns(drawing)
    runs.add(clip_parts(plain(text), drawing.width), style)
    return runs.strip()


def _bar_lines(drawing: Drawing, bar_style: BarStyle, columns: Sequence[list[Cell]]) -> list[Strip]:
    """Return the bars with their scale, from the top."""
    body = drawing.cells - (1 if drawing.cells >= 3 else 0)
    chosen, aside = (_CellTexts(drawing, body, is_chosen=is_chosen) for is_chosen in (True, False))
    texts_of_bars = [
        list(map((chosen if bar.is_chosen else aside).__getitem__, bar_cells))
        for bar, bar_cells in zip(drawing.bars, columns, strict=True)
    ]
    top, middle = bar_style.lines - 1, (bar_style.lines - 1) // 2
    times = {top: bar_style.scale_ns, middle: bar_style.scale_ns / 2}
    lines = []
    for line in reversed(range(bar_style.lines)):
        text = brief_duration(times[line]) if line in times and bar_style.scale_ns else ""
        runs = _StyledRuns(drawing)
        runs.add(f"{clip(text, SCALE_CELLS - 1):>{SCALE_CELLS - 1}} ", "text")
        for style, run in groupby([cells[line] for cells in texts_of_bars], key=itemgetter(1)):
            texts = [text for text, _ in run]
            if ON_SEPARATOR not in style:
                runs.add("".join(texts), style)
                continue
            for text in texts:
                # Blanks between bars have no background.
                runs.add(text[:body], style)
                runs.add(text[body:], "")
        lines.append(runs.strip())
    return lines


class _CellTexts(dict[Cell, tuple[str, str]]):
    """Caches the text and the style of a cell, as wide as a bar."""

    def __init__(self, drawing: Drawing, body: int, *, is_chosen: bool) -> None:
        super().__init__()
        self._drawing, self._body, self._is_chosen = drawing, body, is_chosen

    def __missing__(self, cell: Cell) -> tuple[str, str]:
        character, part = cell
        style = part if self._is_chosen or not part else "aside"
        if style == "aside" and ON_SEPARATOR in part:
            character = KIND_STYLES[part.partition(ON_SEPARATOR)[0]].fill
        text = character * self._body + " " * (self._drawing.cells - self._body)
        wide = self[cell] = text, style
        return wide


def _mark_line(drawing: Drawing) -> Strip:
    """Return the line below the bars: marks, the chosen range, the span, and the cursor."""
    runs = _StyledRuns(drawing)
    runs.add(" " * SCALE_CELLS, "text")
    phases = drawing.rows["phase"] if drawing.rows.height else None
    for index, bar in enumerate(drawing.bars):
        sign = CHOSEN if bar.is_chosen else NOT_CHOSEN
        style = "text"
        if drawing.marked is not None and bar.first <= drawing.marked[1] and bar.last >= drawing.marked[0]:
            sign, style = SPAN, "span"
        elif not bar.is_numbered:
            sign = MARKS.get(drawing.rows["phase"][bar.first], sign)
        text = sign * drawing.cells
        phase = phases[bar.slowest] if phases is not None else None
        if phase in PHASE_MARKS and style != "span":
            text, style = PHASE_MARKS[phase] + text[1:], phase
        if index == drawing.pointer:
            middle = (drawing.cells - 1) // 2
            runs.add(text[:middle], style)
            runs.add(POINTER, "pointer")
            text = text[middle + 1 :]
        runs.add(text, style)
    return runs.strip()


def _number_line(drawing: Drawing) -> Strip:
    """Return the line of numbers: of the selected bar, the first, the last, and as many others as fit."""
    characters = [" "] * drawing.width
    occupied: list[tuple[int, int]] = []
    numbered = [index for index, bar in enumerate(drawing.bars) if bar.is_numbered]
    positions = [*([drawing.pointer] if drawing.pointer is not None else []), *numbered[:1], *numbered[-1:]]
    if numbered and all(bar.first == bar.last for bar in drawing.bars):
        numbers = drawing.rows["iteration"].gather([drawing.bars[index].first for index in numbered]).to_list()
        longest = max((len(str(number)) for number in numbers), default=0)
        number_step = next(step for step in NUMBER_STEPS if step * drawing.cells >= longest + MIN_NUMBER_GAP)
        positions += [index for index, number in zip(numbered, numbers, strict=True) if number % number_step == 0]
    for index in dict.fromkeys(positions):
        bar = drawing.bars[index]
        number = drawing.rows["iteration"][
            bar.slowest if index == drawing.pointer or bar.last == bar.first else bar.last
        ]
        text = "" if number is None else str(number)
        start = max(0, min(SCALE_CELLS + index * drawing.cells + (drawing.cells - 1) // 2, drawing.width - len(text)))
        if all(start > end or start + len(text) < begin for begin, end in occupied):
            characters[start : start + len(text)] = text
            occupied.append((start, start + len(text)))
    runs = _StyledRuns(drawing)
    runs.add("iteration".ljust(SCALE_CELLS) + "".join(characters)[SCALE_CELLS:], "text")
    return runs.strip()


def _legend(drawing: Drawing, columns: Sequence[list[Cell]]) -> Strip:
    """Return the legend of the fills and signs that are on the screen, as far as there is room for whole entries."""
    cells_shown, parts_shown = set().union(*columns), visible_parts(columns)
    entries = [(KIND_STYLES[part].fill, label, part) for part, label in _LEGEND if part in parts_shown]
    if any(character == WHISKER for character, _ in cells_shown):
        entries.append((WHISKER, "longest of several", "sign"))
    if any(cells[-1][0] == OFF_SCALE for cells in columns):
        entries.append((OFF_SCALE, "longer", "sign"))
    chosen = drawing.rows["aggregated"] if drawing.rows.height else None
    if chosen is not None and chosen.null_count() < len(chosen):
        entries.append((CHOSEN, "in every view", "text"))
    phases = [phase for phase in MARKS if drawing.rows.height and (drawing.rows["phase"] == phase).any()]
    entries += [(MARKS[phase], phase, "text") for phase in phases]
    entries += [
        (PHASE_MARKS[phase], phase, phase)
        for phase in PHASE_MARKS
        if drawing.rows.height and (drawing.rows["phase"] == phase).any()
    ]
    runs, free_cells = _StyledRuns(drawing), drawing.width
    for sign, label, part in entries:
        if cell_width(f"{sign} {label}") <= free_cells:
            runs.add(sign, part)
            runs.add(f" {label}  ", "text")
            free_cells -= cell_width(f"{sign} {label}  ")
    return runs.strip()


class _StyledRuns:
    """Collects texts and joins neighbors of the same style."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing
        self._parts: list[tuple[str, str]] = []

    def add(self, text: str, style: str) -> None:
        if not text:
            return
        if self._parts and self._parts[-1][1] == style:
            self._parts[-1] = (self._parts[-1][0] + text, style)
        else:
            self._parts.append((text, style))

    def strip(self) -> Strip:
        segments = [Segment(text, _style(self._drawing.styles, style)) for text, style in self._parts]
        return Strip(segments).adjust_cell_length(self._drawing.width, self._drawing.styles[""])


def _style(styles: Mapping[str, Style], name: str) -> Style:
    lower, _, upper = name.partition(ON_SEPARATOR)
    return styles[lower] + Style(bgcolor=styles[upper].color) if upper else styles[lower]
