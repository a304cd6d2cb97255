"""Many numbers on one line: how they follow each other, and how they are distributed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.widget import Widget

from tui.analysis.durations import log_bins
from tui.fitting import cell_width, pad
from tui.fmt import brief_duration, brief_percent
from tui.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl
    from textual.geometry import Size


LEVELS: Final = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Numbers as columns of one line, from zero to the largest; an unknown one is a blank.

    Where there are more numbers than cells, a cell shows the largest of its numbers: a peak is never lost.

    >>> sparkline([0, 1, 2, 4], 4), sparkline([1, None, 8], 3), sparkline([1, 9, 1, 1], 2)
    ('▁▃▅█', '▂ █', '█▁')
    """
    if width <= 0 or not values:
        return ""
    cells = min(width, len(values))
    edges = [place * len(values) // cells for place in range(cells + 1)]
    largest_of = [
        max((value for value in values[start:stop] if value is not None), default=None)
        for start, stop in itertools.pairwise(edges)
    ]
    top = max((value for value in largest_of if value is not None), default=0)
    return "".join(
        " " if value is None else LEVELS[_level(value, top, len(LEVELS))] if top > 0 else LEVELS[0]
        for value in largest_of
    )


def _level(value: float, top: float, levels: int) -> int:
    return max(0, min(levels - 1, int(value / top * levels)))


def histogram(durations_ns: pl.Series, bins: int) -> list[int]:
    """How many of the durations fall into each of ``bins`` equal steps of a logarithmic scale.

    The scale runs from the shortest to the longest; durations of 0 count as 1 ns.
    """
    return [part.launches for part in log_bins(durations_ns, bins)]


def histogram_line(durations_ns: pl.Series, width: int) -> str:
    """The distribution of durations with the shortest and the longest at its ends, on a logarithmic scale.

    >>> import polars as pl
    >>> histogram_line(pl.Series([1000, 1000, 1000, 30_000, 1_000_000]), 30)
    '1 µs █        ▃         ▃ 1 ms'
    """
    known = durations_ns.drop_nulls()
    if not len(known):
        return "–"
    shortest, longest = known.min(), known.max()
    if not isinstance(shortest, (int, float)) or not isinstance(longest, (int, float)):
        return "–"
    low, high = brief_duration(shortest), brief_duration(longest)
    if shortest == longest:
        return low
    cells = width - cell_width(low) - cell_width(high) - 2
    if cells < 4:
        return f"{low} … {high}"
    counts = [count or None for count in histogram(known, cells)]
    return f"{low} {sparkline(counts, cells)} {high}"


MOST_GPUS: Final = 8
TALL: Final = 3
"""Lines of the chart of a single GPU where there is room."""


@dataclass(frozen=True, slots=True)
class BusyLane:
    """One GPU of the chart."""

    label: str
    busy_pct: float | None
    shares: Callable[[int], Sequence[float]]
    """For a number of steps, the share of each in which the GPU was busy."""


class BusyChart(Widget):
    """Lanes of columns from idle (empty) to busy (full), over the wall time."""

    DEFAULT_CSS = """
    BusyChart { height: auto; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._lanes: tuple[BusyLane, ...] = ()
        self._span_ns = 0

    def show(self, lanes: Sequence[BusyLane], span_ns: int) -> None:
        """Show other lanes, all over the same span of time."""
        self._lanes = tuple(lanes)
        self._span_ns = span_ns
        self.display = bool(lanes)
        self.refresh(layout=True)

    @property
    def _lines(self) -> int:
        return TALL if len(self._lanes) == 1 and self.screen.has_class("-tall") else 1

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The lanes, and a line of time below."""
        return min(len(self._lanes), MOST_GPUS) * self._lines + 1

    def render(self) -> Content:
        """Draw the lanes and the time below them."""
        lanes = self._lanes[:MOST_GPUS]
        heads = [self._head(lane) for lane in lanes]
        label = max((cell_width(part) for head in heads for part in head), default=0)
        room = max(8, self.content_size.width - label - 1)
        drawn = []
        for lane, head in zip(lanes, heads, strict=True):
            for place, line in enumerate(area(lane.shares(room), self._lines)):
                text = pad(head[place] if place < len(head) else "", label)
                drawn.append(Content.assemble((text, "$text-muted"), " ", (line, "$bar")))
        more = len(self._lanes) - len(lanes)
        note = f"busy over the wall time{f', {more} more GPUs not drawn' if more else ''}"
        end = brief_duration(self._span_ns)
        axis = "0" + note.center(max(0, room - 1 - cell_width(end))) + end
        return Content("\n").join([*drawn, Content.styled(" " * (label + 1) + axis, "$text-muted")])

    def _head(self, lane: BusyLane) -> list[str]:
        """What stands before the lines of a lane: name and share, below each other where there is room."""
        parts = [plain(lane.label), brief_percent(lane.busy_pct)]
        return parts if self._lines > 1 else [" ".join(parts)]


def area(shares: Sequence[float], lines: int) -> list[str]:
    """Columns of a few lines each, the top line first.

    >>> area([0, 0.5, 1], 2)
    ['  █', ' ██']
    """
    steps = len(LEVELS)
    heights = [0 if share <= 0 else max(1, round(share * steps * lines)) for share in shares]
    drawn = []
    for line in reversed(range(lines)):
        base = line * steps
        drawn.append("".join(" " if height <= base else LEVELS[min(steps, height - base) - 1] for height in heights))
    return drawn
