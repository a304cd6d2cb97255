"""Nesting of intervals per thread, as calls and ranges nest; vectorized, without a stack."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.runtime import run_together, thread_limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

NONE: Final = -1
"""The index for "none"."""

_SMALL: Final = (1 << 16) - 1
_PART_PAYS: Final = 1 << 16
"""Intervals for which threads pay."""
_ROUNDS: Final = 64
"""The maximum number of rounds of cutting overlaps; one suffices unless overlaps are nested."""


@dataclass(frozen=True, slots=True)
class Nesting:
    """Intervals of any number of threads with their parents; indices are those of the input."""

    parent: Ints
    """The innermost interval of the same thread around each interval, or `NONE`."""

    depth: Ints
    """The number of enclosing intervals of each."""

    _threads: Ints
    """The distinct threads, sorted."""
    _origin: int
    _width: int
    _order: Ints
    """Indices sorted by thread and start, longer intervals first."""
    _start_keys: Ints
    """Thread and start in one number, in the order of ``_order``."""
    _end_keys: Ints
    """Thread and end, after overlapping intervals were cut, in the order of ``_order``."""
    _parent_in_order: Ints

    @property
    def ends(self) -> Ints:
        """The end of each interval, after overlapping ones were cut."""
        found = np.empty_like(self._end_keys)
        found[self._order] = self._end_keys % self._width // 2 + self._origin
        return found

    def innermost(self, thread: Ints, at: Ints) -> Ints:
        """Return the index of the innermost interval that contains each time, both ends included, or `NONE`."""
        if not len(self._order) or not len(thread):
            return np.full(len(thread), NONE, np.int64)
        key, inside = self._keys(thread, at)
        code = key // self._width
        here = np.searchsorted(self._start_keys, key, side="right") - 1
        here = np.where(inside, here, NONE)
        while True:
            known = here != NONE
            same = known & (self._start_keys[here] // self._width == code)
            here = np.where(same, here, NONE)
            ended = same & (self._end_keys[here] < key)
            if not ended.any():
                break
            here = np.where(ended, self._parent_in_order[here], here)
        return np.where(here != NONE, self._order[here], NONE)

    def innermost_starting(self, thread: Ints, at: Ints, among: npt.NDArray[np.bool_]) -> Ints:
        """Return the index of the innermost of some intervals that begins at each time, or `NONE`."""
        chosen = np.flatnonzero(among[self._order])
        if not len(chosen) or not len(thread):
            return np.full(len(thread), NONE, np.int64)
        keys = self._start_keys[chosen]
        key, inside = self._keys(thread, at)
        here = np.maximum(np.searchsorted(keys, key, side="right") - 1, 0)
        return np.where(inside & (keys[here] == key), self._order[chosen[here]], NONE)

    def _keys(self, thread: Ints, at: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Thread and time in one number, and whether an interval is possible: a known thread, not too early."""
        code = np.minimum(np.searchsorted(self._threads, thread), len(self._threads) - 1)
        inside = (self._threads[code] == thread) & (at >= self._origin)
        # A time after all intervals becomes the last key of its thread.
        return code * self._width + 2 * np.clip(at - self._origin, 0, self._width // 2 - 1), inside


def nested(thread: Ints, start: Ints, end: Ints, *, slack: int = 0) -> Nesting:
    """Find the parent of each interval, within each thread.

    Args:
        thread: A number that identifies the thread.
        start: When each interval begins.
        end: When each ends, not before it begins.
        slack: How much later than its parent a child may end because times were rounded. An interval that
            ends later than that overlaps the previous one, which then counts as ended where this one begins.
    """
    threads = np.sort(pl.Series(thread).unique().to_numpy())
    codes = np.searchsorted(threads, thread)
    order = _order(codes, start, end)
    origin = int(start.min()) if len(start) else 0
    span = int(end.max()) - origin if len(end) else 0
    # Times are doubled, so that an interval without length keeps its order.
    width = 2 * (span + 2)
    if len(threads) * width >= 1 << 62:
        raise ValueError("the times are too far apart for one recording")
    base = codes[order] * width
    starts = base + 2 * (start[order] - origin)
    ends = np.maximum(base + 2 * (end[order] - origin), starts + 1)
    del codes, base, thread, start, end
    depth, parent = np.empty_like(starts), np.empty_like(starts)
    parts = _parts(starts, ends, thread_limit())
    for _ in range(_ROUNDS):
        if not any(run_together(*(partial(_nest, starts, ends, slack, depth, parent, part) for part in parts))):
            break
        np.maximum(ends, starts + 1, out=ends)
    in_input = np.empty(len(order), np.int64)
    depths = np.empty(len(order), np.int64)
    in_input[order] = np.where(parent != NONE, order[parent], NONE)
    depths[order] = depth
    return Nesting(in_input, depths, threads, origin, width, order, starts, ends, parent)


def _parts(starts: Ints, ends: Ints, max_parts: int) -> list[slice]:
    """Divide the sorted intervals into about ``most`` parts that do not overlap."""
    if max_parts == 1 or len(starts) < _PART_PAYS:
        return [slice(0, len(starts))]
    free = np.flatnonzero(starts[1:] >= np.maximum.accumulate(ends)[:-1]) + 1
    wanted = np.arange(1, max_parts) * len(starts) // max_parts
    cuts = np.unique(free[np.minimum(np.searchsorted(free, wanted), len(free) - 1)]).tolist() if len(free) else []
    return [slice(*ends_of_part) for ends_of_part in pairwise([0, *cuts, len(starts)])]


def _nest(all_starts: Ints, all_ends: Ints, slack: int, depths: Ints, parents: Ints, part: slice) -> bool:
    """Fill depth and parent of a part of the sorted intervals; return whether overlapping ends were cut."""
    starts, ends = all_starts[part], all_ends[part]
    depth = depths[part]
    # Nearly sorted input: a stable sort is fast.
    np.subtract(np.arange(len(starts)), np.searchsorted(np.sort(ends, kind="stable"), starts, side="right"), out=depth)
    parent = _parents(depth)
    parents[part] = np.where(parent != NONE, parent + part.start, NONE)
    # Intervals without a parent are compared with themselves.
    around = ends.copy()
    inner = np.flatnonzero(parent != NONE)
    around[inner] = ends[parent[inner]]
    del inner
    over = np.flatnonzero(ends > around + 2 * slack)
    late = ends[over]
    np.minimum(ends, around, out=ends)
    if len(over):
        ends[over] = late
        np.minimum.at(ends, parent[over], starts[over])
    return len(over) > 0


def levels(depth: Ints) -> Iterator[Ints]:
    """Yield the indices of each depth, from 0, in their order."""
    deepest = int(depth.max(initial=0))
    # Sorting a small integer type is several times faster.
    by_depth = np.argsort(depth.astype(np.uint16) if deepest <= _SMALL else depth, kind="stable")
    end = 0
    for count in np.bincount(depth, minlength=deepest + 1).tolist():
        begin, end = end, end + count
        yield by_depth[begin:end]


def _order(codes: Ints, start: Ints, end: Ints) -> Ints:
    """Return the indices sorted by thread and start, longer intervals first."""
    later = start[1:] > start[:-1]
    if bool((later | ((start[1:] == start[:-1]) & (end[1:] <= end[:-1]))).all()):
        # Most inputs are sorted by time, with threads mixed.
        return np.argsort(codes.astype(np.uint16) if codes.max(initial=0) <= _SMALL else codes, kind="stable")
    return np.lexsort((-end, start, codes))


def _parents(depth: Ints) -> Ints:
    """Return the parent of each of the sorted intervals: the last one before it that is one level higher."""
    parent = np.full(len(depth), NONE, np.int64)
    for above, here in pairwise(levels(depth)):
        if len(here) and len(above):
            parent[here] = above[np.searchsorted(above, here) - 1]
    return parent
