"""Nesting of intervals per thread, as calls and ranges nest; vectorized, without a stack, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import polars as pl

from tui.model.schema import NAME
from tui.runtime import run_in_blocks, run_together, thread_limit

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Indices = npt.NDArray[np.int32]
    Codes = npt.NDArray[np.unsignedinteger[Any]]
    Flags = npt.NDArray[np.bool_]

_Number = TypeVar("_Number", bound=np.generic)

NONE: Final = -1
"""The index for "none"."""

_WHOLE: Final = 1 << 22
"""Up to this number, intervals are nested all at once."""
_AT_ONCE: Final = 1 << 20
"""More intervals are nested, and searched, in blocks of this size, to bound the memory."""
_PART_PAYS: Final = 1 << 16
"""Intervals for which threads pay."""
_ROUNDS: Final = 64
"""The maximum number of rounds of cutting overlaps; one suffices unless overlaps are nested."""


@dataclass(frozen=True, slots=True)
class _Intervals:
    """Intervals of any number of threads."""

    threads: Ints
    """The distinct threads, sorted."""
    code: Codes
    """The index of the thread of each interval."""
    start: Ints
    duration: Ints
    origin: int
    """The first start."""
    width: int
    """Above all times since the origin, which are doubled, so that an interval without length keeps its order."""

    def start_keys(self, rows: Indices) -> Ints:
        """Return thread and start in one number."""
        found = np.empty(len(rows), np.int64)

        def fill(block: slice) -> None:
            own = rows[block]
            found[block] = self.code[own] * np.int64(self.width) + 2 * (self.start[own] - self.origin)

        run_in_blocks(fill, len(rows), _AT_ONCE)
        return found

    def keys(self, thread: Ints, at: Ints) -> tuple[Ints, Flags]:
        """Return thread and time in one number, and whether an interval is possible: a known thread, not too early."""
        code = np.minimum(np.searchsorted(self.threads, thread), len(self.threads) - 1)
        inside = (self.threads[code] == thread) & (at >= self.origin)
        # A time after all intervals becomes the last key of its thread.
        return code * self.width + 2 * np.clip(at - self.origin, 0, self.width // 2 - 1), inside


@dataclass(frozen=True)
class Nesting:
    """Intervals of any number of threads with their parents; indices are those of the input."""

    parent: Indices
    """The innermost interval of the same thread around each interval, or `NONE`."""
    depth: Indices
    """The number of enclosing intervals of each."""
    _intervals: _Intervals
    _order: Indices
    """Indices sorted by thread and start, longer intervals first."""
    _cut: Indices
    """Intervals that end later than what is around them, sorted."""
    _cut_at: Ints
    """When each of these counts as ended."""

    @cached_property
    def levels(self) -> list[Indices]:
        """The intervals of each depth, from 0."""
        return levels(self.depth)

    def innermost(self, thread: Ints, at: Ints) -> Ints:
        """Return the index of the innermost interval that contains each time, both ends included, or `NONE`."""
        found = np.full(len(thread), NONE, np.int64)
        if not len(self._order):
            return found
        key, inside = self._intervals.keys(thread, at)
        blocks = [self._order[first : first + _AT_ONCE] for first in range(0, len(self._order), _AT_ONCE)]
        firsts = self._intervals.start_keys(np.array([block[0] for block in blocks], np.int32))
        block_of = np.where(inside, np.searchsorted(firsts, key, side="right") - 1, NONE)
        for number, block in enumerate(blocks):
            here = np.flatnonzero(block_of == number)
            last = np.searchsorted(self._intervals.start_keys(block), key[here], side="right") - 1
            found[here] = block[last]
        is_other = self._intervals.threads[self._intervals.code[found]] != thread
        found[is_other] = NONE
        searched = np.flatnonzero(found != NONE)
        while len(searched):
            searched = searched[self._end(found[searched]) < at[searched]]
            found[searched] = self.parent[found[searched]]
            searched = searched[found[searched] != NONE]
        return found

    def innermost_starting(self, thread: Ints, at: Ints, among: Flags) -> Ints:
        """Return the index of the innermost of some intervals that begins at each time, or `NONE`."""
        chosen = self._order[among[self._order]]
        if not len(chosen) or not len(thread):
            return np.full(len(thread), NONE, np.int64)
        keys = self._intervals.start_keys(chosen)
        key, inside = self._intervals.keys(thread, at)
        here = np.maximum(np.searchsorted(keys, key, side="right") - 1, 0)
        return np.where(inside & (keys[here] == key), chosen[here], NONE)

    def _end(self, row: Ints) -> Ints:
        end = self._intervals.start[row] + self._intervals.duration[row]
        if not len(self._cut):
            return end
        place = np.minimum(np.searchsorted(self._cut, row), len(self._cut) - 1)
        return np.where(self._cut[place] == row, self._cut_at[place], end)


def nested(thread: Ints, start: Ints, duration: Ints, *, slack: int = 0) -> Nesting:
    """Find the parent of each interval, within each thread.

    Args:
        thread: A number that identifies the thread.
        start: When each interval begins.
        duration: How long each lasts, at least 0.
        slack: How much later than its parent a child may end because times were rounded. An interval that
            ends later than that overlaps the previous one, which then counts as ended where this one begins.
    """
    return nested_by_thread(thread.__getitem__, start, duration, slack=slack)


def nested_by_thread(
    threads_of: Callable[[slice], Ints],
    start: Ints,
    duration: Ints,
    *,
    order: Indices | None = None,
    slack: int = 0,
    after_block: Callable[[], None] = lambda: None,
) -> Nesting:
    """Find the parent of each interval as `nested`, in bounded memory.

    Args:
        threads_of: Returns the threads of some intervals.
        start: When each interval begins.
        duration: How long each lasts, at least 0.
        order: The order of the intervals by start, if known; equal ones that come first enclose the others.
        slack: As for `nested`.
        after_block: Called after each block of intervals, to release memory.
    """
    count = len(start)
    intervals, in_order = _intervals(threads_of, start, duration, after_block)
    if order is None and not in_order:
        order = np.argsort(start, kind="stable").astype(np.int32)
    order = _by_thread(intervals, order)
    parent, depth = np.empty(count, np.int32), np.empty(count, np.int32)
    around, around_ends = np.zeros(0, np.int32), np.zeros(0, np.int64)
    cuts: list[tuple[Indices, Ints]] = []
    first, size = 0, count if count <= _WHOLE else _AT_ONCE
    while first < count:
        new, starts, ends = _block(intervals, order, first, max(size, len(around)))
        first += len(new)
        # What may enclose these intervals is nested with them again.
        rows, added = new, slice(len(around), None)
        if len(around):
            rows = np.concatenate((around, new))
            starts = np.concatenate((intervals.start_keys(around), starts))
            ends = np.concatenate((around_ends, ends))
        before = ends.copy()
        inner, level = _nested_block(starts, ends, slack)
        _fill(parent, depth, new, inner[added], level[added], rows)
        changed = np.flatnonzero(ends != before)
        cuts.append((rows[changed], ends[changed] % intervals.width // 2 + intervals.origin))
        if first < count:
            goes_on = ends >= starts[-1]
            around, around_ends = rows[goes_on], ends[goes_on]
        after_block()
    return Nesting(parent, depth, intervals, order, *_last_cuts(cuts))


def _fill(parent: Indices, depth: Indices, new: Indices, inner: Ints, level: Ints, rows: Indices) -> None:
    """Fill parent and depth of new intervals.

    Args:
        parent: The parents by interval.
        depth: The depths by interval.
        new: The new intervals, sorted.
        inner: The position of the parent of each in ``rows``, or `NONE`.
        level: The depth of each.
        rows: The intervals by position.
    """

    def fill(block: slice) -> None:
        own = inner[block]
        parent[new[block]] = np.where(own == NONE, np.int32(NONE), rows[own])
        depth[new[block]] = level[block]

    run_in_blocks(fill, len(new), _AT_ONCE)


def _intervals(
    threads_of: Callable[[slice], Ints], start: Ints, duration: Ints, after_block: Callable[[], None]
) -> tuple[_Intervals, bool]:
    """Return the intervals, and whether they are sorted by start."""

    def look(block: slice) -> tuple[Ints, int, int, bool]:
        starts = start[max(block.start - 1, 0) : block.stop]
        in_order = bool((starts[1:] >= starts[:-1]).all())
        first, last = int(starts.min()), int((start[block] + duration[block]).max())
        threads = pl.Series(threads_of(block)).unique().to_numpy()
        after_block()
        return threads, first, last, in_order

    def number(block: slice) -> None:
        code[block] = np.searchsorted(threads, threads_of(block))
        after_block()

    found = run_in_blocks(look, len(start), _AT_ONCE)
    threads = np.unique(np.concatenate([np.zeros(0, np.int64), *(block[0] for block in found)]))
    origin = min((block[1] for block in found), default=0)
    width = 2 * (max((block[2] for block in found), default=0) - origin + 2)
    if len(threads) * width >= 1 << 62:
        raise ValueError("the times span too long for one recording")
    code = np.zeros(len(start), np.min_scalar_type(len(threads)))
    if len(threads) > 1:
        run_in_blocks(number, len(start), _AT_ONCE)
    return _Intervals(threads, code, start, duration, origin, width), all(block[3] for block in found)


def _by_thread(intervals: _Intervals, order: Indices | None) -> Indices:
    """Return the indices sorted by thread, those of a thread in the given order; None: as they are."""
    if order is None:
        return grouped(intervals.code, len(intervals.threads))[0]
    return taken(order, grouped(taken(intervals.code, order), len(intervals.threads))[0])


def outer_first(start: Ints, duration: Ints, ids_of: Callable[[Indices], Ints] | None = None) -> Indices | None:
    """Return the order of intervals by start, then longer ones first, then by id; None if they are in this order.

    Args:
        start: When each begins.
        duration: How long each lasts.
        ids_of: Returns the ids of some intervals.
    """
    # Profilers write nearly in order, which makes a stable sort fast.
    is_sorted = bool((start[1:] >= start[:-1]).all())
    order = None if is_sorted else np.argsort(start, kind="stable").astype(np.int32)
    moments = start if order is None else taken(start, order)
    together = moments[1:] == moments[:-1]
    if together.any():
        tied = np.append(together, False)
        tied[1:] |= together
        at = np.flatnonzero(tied).astype(np.int32) if order is None else order[tied]
        keys = (-duration[at], moments[tied]) if ids_of is None else (ids_of(at), -duration[at], moments[tied])
        order = np.arange(len(start), dtype=np.int32) if order is None else order
        order[tied] = at[np.lexsort(keys)]
    return None if order is None or (order[1:] > order[:-1]).all() else order


def grouped(code: npt.NDArray[Any], groups: int) -> tuple[Indices, Ints]:
    """Return the indices sorted by code, those of equal codes in order, and the end of each group among them.

    Args:
        code: Numbers below ``groups``, of a small integer type for speed.
        groups: The number of groups.
    """
    if groups <= 1:
        return np.arange(len(code), dtype=np.int32), np.full(groups, len(code))
    blocks: list[tuple[slice, Ints]] = run_in_blocks(
        lambda block: (block, np.bincount(code[block], minlength=groups)), len(code), _AT_ONCE
    )
    counts = np.array([count for _, count in blocks]).reshape(-1, groups)
    ends = np.cumsum(counts.sum(axis=0))
    firsts = ends - counts.sum(axis=0) + np.cumsum(counts, axis=0) - counts
    order = np.empty(len(code), np.int32)

    def place(block: slice, first: Ints, count: Ints) -> None:
        # A sort of all at once would take several times the memory of its result.
        shift = np.repeat(first - np.cumsum(count) + count, count)
        order[np.arange(len(shift)) + shift] = np.argsort(code[block], kind="stable") + block.start

    run_together(*(partial(place, block, first, count) for (block, count), first in zip(blocks, firsts, strict=True)))
    return order, ends


def _block(intervals: _Intervals, order: Indices, first: int, size: int) -> tuple[Indices, Ints, Ints]:
    """Return the next intervals of ``order`` with the keys of their starts and ends.

    Intervals of one thread that start together stay in one block, and are sorted there, longer ones first.
    """
    while True:
        rows = order[first : first + size]
        keys = intervals.start_keys(rows)
        if first + size >= len(order):
            break
        lasts = np.flatnonzero(keys[1:] != keys[:-1])
        if len(lasts):
            rows, keys = rows[: lasts[-1] + 1], keys[: lasts[-1] + 1]
            break
        size *= 2
    duration = taken(intervals.duration, rows)
    together = np.flatnonzero(keys[1:] == keys[:-1])
    if (duration[together + 1] > duration[together]).any():
        rows[:] = rows[np.lexsort((-duration, keys))]
        duration = intervals.duration[rows]
    return rows, keys, keys + np.maximum(2 * duration, 1)


def _nested_block(starts: Ints, ends: Ints, slack: int) -> tuple[Ints, Ints]:
    """Return parent and depth of sorted intervals; the ends of overlapping ones are cut in place."""
    depth, parent = np.empty_like(starts), np.empty_like(starts)
    parts = _parts(starts, ends, thread_limit())
    for _ in range(_ROUNDS):
        were_cut = run_together(*(partial(_nest, starts, ends, slack, depth, parent, part) for part in parts))
        np.maximum(ends, starts + 1, out=ends)
        if not any(were_cut):
            break
    return parent, depth


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


def _last_cuts(cuts: list[tuple[Indices, Ints]]) -> tuple[Indices, Ints]:
    """Return the intervals that were cut, sorted, and the last end of each."""
    rows = np.concatenate([np.zeros(0, np.int32), *(rows for rows, _ in cuts)])
    at = np.concatenate([np.zeros(0, np.int64), *(at for _, at in cuts)])
    order = np.argsort(rows, kind="stable")
    rows, at = rows[order], at[order]
    is_last = np.append(rows[1:] != rows[:-1], True) if len(rows) else np.zeros(0, np.bool_)
    return rows[is_last], at[is_last]


def levels(depth: npt.NDArray[Any]) -> list[Indices]:
    """Return the indices of each depth, from 0, in their order."""
    deepest = int(depth.max(initial=0))
    by_depth, ends = grouped(depth.astype(np.min_scalar_type(deepest)), deepest + 1)
    return np.split(by_depth, ends[:-1])


def _parents(depth: Ints) -> Ints:
    """Return the parent of each of the sorted intervals: the last one before it that is one level higher."""
    parent = np.full(len(depth), NONE, np.int64)
    by_depth = np.argsort(depth.astype(np.min_scalar_type(int(depth.max(initial=0)))), kind="stable")
    for above, here in pairwise(np.split(by_depth, np.cumsum(np.bincount(depth))[:-1])):
        if len(here) and len(above):
            parent[here] = above[np.searchsorted(above, here) - 1]
    return parent


def inherit(nesting: Nesting, own: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Return the value of each interval: its own, else that of the nearest enclosing interval with one, or `NONE`."""
    values = own.copy()

    def fill(rows: Indices, block: slice) -> None:
        inner = rows[block][values[rows[block]] == NONE]
        values[inner] = values[nesting.parent[inner]]

    for rows in nesting.levels[1:]:
        run_in_blocks(partial(fill, rows), len(rows), _AT_ONCE)
    return values


def with_enclosing(nesting: Nesting, bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return the bits of each interval together with those of all that enclose it."""
    values = bits.copy()

    def fill(rows: Indices, block: slice) -> None:
        own = rows[block]
        values[own] |= values[nesting.parent[own]]

    for rows in nesting.levels[1:]:
        run_in_blocks(partial(fill, rows), len(rows), _AT_ONCE)
    return values


def of_parents(nesting: Nesting, values: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Return the value of the parent of each interval, or `NONE`; in bounded memory."""
    found = taken(values, nesting.parent) if len(values) else values
    found[nesting.parent == NONE] = NONE
    return found


def taken(values: npt.NDArray[_Number], at: npt.NDArray[Any]) -> npt.NDArray[_Number]:
    """Return values by index; numpy alone would copy all small indices as large ones first."""
    found = np.empty(len(at), values.dtype)

    def fill(block: slice) -> None:
        found[block] = values[at[block]]

    run_in_blocks(fill, len(at), _AT_ONCE)
    return found


LONGEST_PATH: Final = 16384
"""Bytes of a path, enough for Python's deepest stacks; a longer path lacks its innermost parts."""
MAX_LEVELS: Final = 1000
"""Names in a path, as Python's recursion limit; deeper intervals get the path of this depth."""
_MAX_TEXT: Final = 1 << 28
"""Bytes of all paths together."""
_LARGE_TABLE: Final = 1 << 16
"""Below this number of possible keys, a lookup table is faster than sorting."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The distinct paths from an outermost interval to an interval."""

    code: Indices
    """For each interval, the number of its path."""
    parent: Ints
    """For each path, the number of the path without its last name, or `NONE`."""
    name: Ints
    """For each path, the index of its last name."""
    depth: Ints
    """For each path, the number of names before the last."""
    cut: bool
    """Whether some intervals are deeper than the paths."""

    def texts(
        self, names: pl.Series, wanted: npt.NDArray[Any], separator: str, *, innermost_first: bool = False
    ) -> tuple[pl.Series, bool]:
        """Return the texts of paths.

        Args:
            names: The names by index.
            wanted: The numbers of the wanted paths, or `NONE`.
            separator: The text between names.
            innermost_first: Whether the last name comes first.

        Returns:
            A text for each of ``wanted``, categorical, null for `NONE`; and whether some texts are cut.
        """
        # `NONE` is -1: the last position.
        is_wanted = np.zeros(len(self.parent) + 1, np.bool_)
        for first in range(0, len(wanted), _AT_ONCE):
            is_wanted[wanted[first : first + _AT_ONCE]] = True
        distinct = np.flatnonzero(is_wanted[:-1])
        texts, cut = self._distinct_texts(names, distinct, separator, innermost_first=innermost_first)
        position = np.full(len(is_wanted), len(distinct), np.uint32)
        position[distinct] = np.arange(len(distinct))
        return texts.cast(NAME).extend_constant(None, 1).gather(pl.Series(taken(position, wanted))), cut

    def _distinct_texts(
        self, names: pl.Series, wanted: Ints, separator: str, *, innermost_first: bool
    ) -> tuple[pl.Series, bool]:
        by_level = list(levels(self.depth))
        needed = np.zeros(len(self.parent), np.bool_)
        needed[wanted] = True
        for codes in reversed(by_level[1:]):
            needed[self.parent[codes[needed[codes]]]] = True
        parts: list[pl.Series] = []
        position = np.full(len(self.parent), NONE, np.int64)
        size = count = 0
        cut = self.cut
        above_at = 0
        for level, of_level in enumerate(by_level):
            codes = of_level[needed[of_level]]
            if not len(codes):
                break
            last = names.gather(self.name[codes])
            if level:
                before = parts[-1].gather(position[self.parent[codes]] - above_at)
                joined = last + separator + before if innermost_first else before + separator + last
                fits = (joined.str.len_bytes() <= LONGEST_PATH) & (size < _MAX_TEXT)
                cut = cut or not fits.all()
                last = joined.zip_with(fits, before)
            position[codes] = count + np.arange(len(codes))
            above_at = count
            count += len(codes)
            size += int(last.str.len_bytes().sum())
            parts.append(last)
        texts = pl.concat(parts) if parts else pl.Series([], dtype=pl.String)
        return texts.gather(position[wanted]), cut


def paths(nesting: Nesting, name: npt.NDArray[Any], names: int, max_levels: int = MAX_LEVELS) -> Paths:
    """Assign numbers to the distinct paths of intervals, in bounded memory.

    Args:
        nesting: The nesting of the intervals.
        name: The index of the name of each interval.
        names: The number of names.
        max_levels: The most names in a path; deeper intervals get the path of this depth.
    """
    code = np.full(len(name), NONE, np.int32)
    parents, last_names, depths = [], [], []
    begin = end = 0
    for level, rows in enumerate(nesting.levels):
        if level >= max_levels:
            code[rows] = taken(code, taken(nesting.parent, rows))
            continue

        def keys_of(block: slice, rows: Indices = rows, begin: int = begin if level else NONE) -> Ints:
            # The path of a parent is one level up: one of those from `begin` to `end`.
            own = rows[block]
            keys: Ints = (code[nesting.parent[own]].astype(np.int64) - begin) * names + name[own]
            return keys

        distinct, which = _distinct(keys_of, len(rows), max(end - begin, 1) * names)
        parents.append(distinct // names + begin if level else np.full(len(distinct), NONE))
        last_names.append(distinct % names)
        depths.append(np.full(len(distinct), level))
        begin, end = end, end + len(distinct)
        code[rows] = begin + which
    cut = bool(nesting.depth.max(initial=0) >= max_levels)
    return Paths(code, np.concatenate(parents), np.concatenate(last_names), np.concatenate(depths), cut)


def _distinct(keys_of: Callable[[slice], Ints], count: int, below: int) -> tuple[Ints, Indices]:
    """Return the sorted distinct keys, and the index of each key among them.

    Args:
        keys_of: Returns some of the keys, which are at least 0 and less than ``below``.
        count: The number of keys.
        below: The number of possible keys.
    """
    which = np.empty(count, np.int32)
    if below > _LARGE_TABLE + count:
        found = run_in_blocks(lambda block: np.unique(keys_of(block)), count, _AT_ONCE)
        distinct = np.unique(np.concatenate([np.zeros(0, np.int64), *found]))

        def search(block: slice) -> None:
            which[block] = np.searchsorted(distinct, keys_of(block))

        run_in_blocks(search, count, _AT_ONCE)
        return distinct, which
    position = np.zeros(below, np.int32)

    def mark(block: slice) -> None:
        position[keys_of(block)] = 1

    def look_up(block: slice) -> None:
        which[block] = position[keys_of(block)]

    run_in_blocks(mark, count, _AT_ONCE)
    distinct = np.flatnonzero(position)
    position[distinct] = np.arange(len(distinct))
    run_in_blocks(look_up, count, _AT_ONCE)
    return distinct, which
