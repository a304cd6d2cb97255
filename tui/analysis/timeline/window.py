"""The visible part of the time axis: zoom, pan, round ticks; tracks of utilization, throughput and memory over it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.timeline.lanes import ItemKind
from tui.fmt import MICROSECONDS, MILLISECONDS, NANOSECONDS, SECONDS, brief_rate, brief_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from tui.analysis.timeline.lanes import Lane
    from tui.analysis.timeline.shown import ShownLanes
    from tui.fmt import Unit
    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Window:
    """Cells of equal time, side by side."""

    begin_ns: int
    """The start of the time that can be shown."""
    end_ns: int
    """The end of the time."""
    min_cell_ns: int
    """The minimum time of a cell: the coarsest resolution of start times."""
    cells: int
    """Cells on the screen."""
    cell_ns: int
    """Time of a cell."""
    first_ns: int
    """The start of the first cell."""

    @property
    def last_ns(self) -> int:
        """The end of the last cell."""
        return self.first_ns + self.cells * self.cell_ns

    @property
    def fit_ns(self) -> int:
        """The time of a cell if the whole time is on the screen."""
        return max(self.min_cell_ns, -(-(self.end_ns - self.begin_ns) // self.cells), 1)

    def edges(self) -> Ints:
        """Return the starts of the cells, and the end of the last one."""
        return self.first_ns + self.cell_ns * np.arange(self.cells + 1, dtype=np.int64)

    def cell_at(self, at_ns: int) -> int:
        """Return the cell of a moment; below 0 or at least ``cells`` if it is off screen."""
        return (at_ns - self.first_ns) // self.cell_ns

    def moved_to(self, first_ns: int) -> Window:
        """Return the window moved to another start, by whole cells and within the time."""
        last = max(self.begin_ns, self.end_ns - self.cells * self.cell_ns)
        start_ns = min(max(first_ns, self.begin_ns), last)
        if start_ns in (self.begin_ns, last):
            return replace(self, first_ns=start_ns)
        return replace(self, first_ns=self.first_ns + round((start_ns - self.first_ns) / self.cell_ns) * self.cell_ns)

    def zoomed(self, cell_ns: int, at_ns: int) -> Window:
        """Return the window with other cells; a moment keeps its position on the screen."""
        cell_ns = min(max(cell_ns, self.min_cell_ns, 1), self.fit_ns)
        cell = min(max(self.cell_at(at_ns), 0), self.cells - 1)
        return replace(self, cell_ns=cell_ns).moved_to(at_ns - cell * cell_ns - (at_ns - self.first_ns) % cell_ns)

    def zoomed_in(self, at_ns: int) -> Window:
        """Return the window one zoom step closer."""
        return self.zoomed(step_below(self.cell_ns), at_ns)

    def zoomed_out(self, at_ns: int) -> Window:
        """Return the window one zoom step further out."""
        return self.zoomed(step_above(self.cell_ns), at_ns)

    def fit(self) -> Window:
        """Return the window over all of the time."""
        return replace(self, cell_ns=self.fit_ns, first_ns=self.begin_ns)

    def around(self, start_ns: int, end_ns: int, share: float) -> Window:
        """Return the window centered on an interval, which takes at most a share of the cells."""
        cell_ns = max(1, self.min_cell_ns)
        while cell_ns < self.fit_ns and (end_ns - start_ns) > share * self.cells * cell_ns:
            cell_ns = step_above(cell_ns)
        cell_ns = min(cell_ns, self.fit_ns)
        middle = (start_ns + end_ns) // 2
        return replace(self, cell_ns=cell_ns, first_ns=middle - self.cells * cell_ns // 2).moved_to(
            middle - self.cells * cell_ns // 2
        )

    def showing(self, at_ns: int) -> Window:
        """Return the window moved so that a moment is visible; after a jump the moment is in the middle."""
        cell = self.cell_at(at_ns)
        if 0 <= cell < self.cells:
            return self
        is_near = -self.cells // 2 <= cell < self.cells * 3 // 2
        if not is_near:
            return self.moved_to(at_ns - self.cells * self.cell_ns // 2)
        # Move by a quarter of the screen, so that lanes are redrawn less often than the cursor moves.
        margin = max(1, self.cells // 4)
        first = self.first_ns + (cell - self.cells + margin if cell >= self.cells else cell - margin + 1) * self.cell_ns
        return self.moved_to(first)


def full_window(begin_ns: int, end_ns: int, cells: int, *, min_cell_ns: int) -> Window:
    """Return a window over all of the time."""
    return Window(begin_ns, max(end_ns, begin_ns + 1), max(1, min_cell_ns), max(1, cells), 1, begin_ns).fit()


def step_above(value: int) -> int:
    """Return the next larger of 1, 2, 5, 10, 20, 50, ...

    >>> [step_above(value) for value in (1, 2, 3, 5, 700)]
    [2, 5, 5, 10, 1000]
    """
    scale: int = 10 ** (len(str(value)) - 1)
    return next(step * scale for step in (1, 2, 5, 10) if step * scale > value)


def step_below(value: int) -> int:
    """Return the next smaller of them, at least 1.

    >>> [step_below(value) for value in (1, 2, 3, 10, 700)]
    [1, 1, 2, 5, 500]
    """
    scale: int = 10 ** (len(str(max(1, value - 1))) - 1)
    return next((step * scale for step in (5, 2, 1) if step * scale < value), 1)


TICK_CELLS: Final = 14
"""The minimum distance of labels."""
CLOSE_TICK_CELLS: Final = 10
"""The minimum distance if there would be few labels, and they are short."""
ENOUGH_TICKS: Final = 4
DIGITS: Final = 7
"""A time with more digits is written as the offset from a time that is shown once."""
_UNITS: Final = (SECONDS, MILLISECONDS, MICROSECONDS, NANOSECONDS)


@dataclass(frozen=True, slots=True)
class Ruler:
    """The ruler above the lanes."""

    base_ns: int
    """What the labels count from; 0: the clock's own zero."""
    ticks: tuple[tuple[int, str], ...]
    """Cells and their labels, from left to right."""


def ruler(window: Window) -> Ruler:
    """Return the labels of a window and the time that they count from.

    >>> from tui.analysis.timeline.window import full_window
    >>> ruler(full_window(0, 50_000_000, 50, min_cell_ns=1)).ticks
    ((0, '0 ms'), (10, '10 ms'), (20, '20 ms'), (30, '30 ms'), (40, '40 ms'))
    """
    labels = _ruler(window, step_above(TICK_CELLS * window.cell_ns - 1))
    if len(labels.ticks) >= ENOUGH_TICKS:
        return labels
    closer = _ruler(window, step_above(CLOSE_TICK_CELLS * window.cell_ns - 1))
    positions = [position for position, _ in closer.ticks]
    longest = max((len(label) for _, label in closer.ticks), default=0)
    return closer if all(longest + 3 <= right - left for left, right in pairwise(positions)) else labels


def _ruler(window: Window, step: int) -> Ruler:
    """Return the labels of a window at a given distance in time."""
    base = 0
    if max(abs(window.first_ns), abs(window.last_ns)) // step >= 10**DIGITS // 100:
        coarse = 10 ** (len(str(window.last_ns - window.first_ns)))
        base = window.first_ns // coarse * coarse
    reach = window.last_ns - base
    unit = next((unit for unit in _UNITS if step >= unit.scale / 10 and reach >= unit.scale), NANOSECONDS)
    first = -(-(window.first_ns - base) // step) * step + base
    ticks = []
    for tick_ns in range(first, window.last_ns, step):
        label = _written(tick_ns - base, unit, step)
        ticks.append((window.cell_at(tick_ns), f"+{label}" if base else label))
    return Ruler(base, tuple(ticks))


def _written(value_ns: int, unit: Unit, step: int) -> str:
    decimals = 0
    while step * 10**decimals % unit.scale and decimals < 3:
        decimals += 1
    symbol = unit.symbol
    return f"{value_ns / unit.scale:,.{decimals}f} {symbol}"


def exact_time(value_ns: int) -> str:
    """Format a moment with all digits.

    >>> exact_time(8_355_600_000), exact_time(120)
    ('8.3556 s', '120 ns')
    """
    return distinct_times([value_ns])[0]


def distinct_times(values_ns: Sequence[int]) -> list[str]:
    """Format moments with all digits, in one unit and with equally many decimals.

    >>> distinct_times([157_456_833, 69_471_840]), distinct_times([8_000_000_000, 120_000])
    (['157.456833 ms', '69.471840 ms'], ['8.00000 s', '0.00012 s'])
    """
    largest = max(map(abs, values_ns), default=0)
    unit = next((unit for unit in _UNITS if largest >= unit.scale), NANOSECONDS)
    scale = int(unit.scale)
    digits = len(str(scale)) - 1
    integer_parts = [f"{'-' if value < 0 else ''}{abs(value) // scale:,}" for value in values_ns]
    fractions = [f"{abs(value) % scale:0{digits}d}" if digits else "" for value in values_ns]
    decimals = max((len(fraction.rstrip("0")) for fraction in fractions), default=0)
    point = "." if decimals else ""
    return [
        f"{whole}{point}{fraction[:decimals]} {unit.symbol}"
        for whole, fraction in zip(integer_parts, fractions, strict=True)
    ]


def time_in_cell_precision(value_ns: int, cell_ns: int) -> str:
    """Format a time with the precision of a cell.

    >>> time_in_cell_precision(8_355_612_345, 20_000)
    '8.35561 s'
    >>> time_in_cell_precision(3_769_892_000, 20_000_000)
    '3.77 s'
    """
    step = 10 ** (len(str(cell_ns)) - 1)
    return exact_time((value_ns + step // 2) // step * step)


def place_labels(
    labels: Iterable[tuple[int, str]], cells: int, *, marks: Mapping[int, str] = MappingProxyType({})
) -> list[str]:
    """Place labels on a line, each after its tick; labels without room are dropped, ticks stay.

    Args:
        labels: Cells and texts, from left to right.
        cells: Length of the line.
        marks: Characters in other cells, which no label covers.

    >>> "".join(place_labels([(0, "0 ms"), (2, "1 ms"), (8, "2 ms")], 16))
    '╷0 ms   ╷2 ms   '
    >>> "".join(place_labels([(0, "0 ms"), (8, "2 ms")], 16, marks={3: "v"}))
    '╷  v    ╷2 ms   '
    """
    characters = [" "] * cells
    free = 0
    for cell, text in labels:
        if cell < free or not 0 <= cell < cells:
            continue
        characters[cell] = "╷"
        end = cell + 1 + len(text)
        if end <= cells and not any(cell < mark < end for mark in marks):
            characters[cell + 1 : end] = text
            free = end + 1
    for cell, mark in marks.items():
        if 0 <= cell < cells:
            characters[cell] = mark
    return characters


@dataclass(frozen=True, slots=True)
class Track:
    """A quantity over time."""

    name: str
    item_kind: ItemKind | None
    """Whose color it has; None: that of shares."""
    shares: Callable[[Ints], Floats]
    """A function from edges to the mean in each interval between them, from 0 to 1 (the top of the scale)."""


def tracks(profile: Profile, shown: ShownLanes) -> tuple[Track, ...]:
    """Return the tracks that the profile feeds, for the sessions that are shown."""
    return tuple(track for make in (_utilization, _copies, _memory) for track in make(profile, shown))


def _utilization(_: Profile, shown: ShownLanes) -> Iterator[Track]:
    """Yield the busy share of the GPUs; for several streams the time in which any was busy."""
    gpu_lanes: dict[tuple[int, int | None], Lane] = {}
    for lane in shown.lanes:
        if lane.on_gpu:
            # The lane of all streams, if any, comes before those of its streams.
            gpu_lanes.setdefault((lane.session, lane.device), lane)

    def shares(edges: Ints) -> Floats:
        busy = [
            np.diff(lane.segments.time_before(edges - shown.shifts[lane.session]).sum(axis=1))
            for lane in gpu_lanes.values()
        ]
        utilization: Floats = np.clip(np.sum(busy, axis=0) / len(busy) / np.diff(edges), 0.0, 1.0)
        return utilization

    if gpu_lanes:
        mean_note = f", mean of {len(gpu_lanes)}" if len(gpu_lanes) > 1 else ""
        yield Track(f"GPU utilization{mean_note}", None, shares)


def _copies(profile: Profile, shown: ShownLanes) -> Iterator[Track]:
    """Yield bytes copied per second."""
    rows = _by_ruler(
        profile["activities"].filter(
            pl.col("kind") == "memcpy", pl.col("start_ns").is_not_null(), pl.col("size_bytes") > 0
        ),
        shown,
        "duration_ns",
        "size_bytes",
    ).filter(pl.col("duration_ns") > 0)
    if rows.is_empty():
        return
    starts, lengths = rows["start_ns"].to_numpy(), rows["duration_ns"].to_numpy()
    rates = rows["size_bytes"].to_numpy() / lengths
    # Of a copy that ends when another begins, the end comes first: both never ran together.
    moments = np.concatenate((starts + lengths, starts))
    order = np.argsort(moments, kind="stable")
    levels = np.maximum(np.cumsum(np.concatenate((-rates, rates))[order]), 0.0)
    shares, maximum = _levels_over_time(moments[order], levels)
    yield Track(f"copy peak {brief_rate(maximum * 1e9)}", ItemKind.COPY, shares)


def _memory(profile: Profile, shown: ShownLanes) -> Iterator[Track]:
    """Yield the memory allocated by the framework, of the device with most."""
    rows = _by_ruler(
        profile["memory_events"].filter(
            pl.col("place") == "GPU", pl.col("start_ns").is_not_null(), pl.col("allocated_bytes").is_not_null()
        ),
        shown,
        "device",
        "allocated_bytes",
    )
    if rows.is_empty():
        return
    top = rows.row(rows["allocated_bytes"].arg_max() or 0, named=True)
    device_rows = rows.filter(
        pl.col("session") == top["session"], pl.col("device").eq_missing(pl.lit(top["device"], pl.Int32))
    ).sort("start_ns", maintain_order=True)
    levels = device_rows["allocated_bytes"].to_numpy().astype(np.float64)
    shares, maximum = _levels_over_time(device_rows["start_ns"].to_numpy(), levels)
    yield Track(f"allocated, peak {brief_size(maximum)}", None, shares)


def _by_ruler(rows: pl.DataFrame, shown: ShownLanes, *columns: str) -> pl.DataFrame:
    """Return the rows of the shown sessions, with starts on the ruler."""
    shift = pl.col("session").replace_strict(dict(shown.shifts), default=None, return_dtype=pl.Int64)
    return rows.select("session", *columns, start_ns=pl.col("start_ns") + shift).drop_nulls("start_ns")


def _levels_over_time(moments: Ints, levels: Floats) -> tuple[Callable[[Ints], Floats], float]:
    """Return the highest level, and a function for means between edges; a level lasts until the next moment."""
    maximum = float(levels.max(initial=0.0))
    summed = np.concatenate(([0.0], np.cumsum(levels[:-1] * np.diff(moments))))

    def shares(edges: Ints) -> Floats:
        if maximum <= 0:
            return np.zeros(len(edges) - 1)
        # The last level has no end.
        after_last = np.maximum(edges - moments[-1], 0) * levels[-1]
        means = np.diff(np.interp(edges, moments, summed) + after_last) / np.diff(edges)
        clipped: Floats = np.clip(means / maximum, 0.0, 1.0)
        return clipped

    return shares, maximum
