"""Nesting of intervals per thread, as calls and ranges nest; vectorized, without a stack, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import polars as pl

from tui.model.schema import NAME
from tui.runtime import run_concurrently, run_in_blocks, thread_limit

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

_MAX_SINGLE_BLOCK: Final = 1 << 22
"""Up to this number, intervals are nested all at once."""
_BLOCK_SIZE: Final = 1 << 20
"""More intervals are nested, and searched, in blocks of this size, to bound the memory."""
_MIN_PARALLEL: Final = 1 << 16
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
        keys = np.empty(len(rows), np.int64)

        def fill(block: slice) -> None:
            block_rows = rows[block]
            keys[block] = self.code[block_rows] * np.int64(self.width) + 2 * (self.start[block_rows] - self.origin)

        run_in_blocks(fill, len(rows), _BLOCK_SIZE)
        return keys

    def keys(self, thread: Ints, time: Ints) -> tuple[Ints, Flags]:
        """Return thread and time in one number, and whether an interval is possible: a known thread, not too early."""
        code = np.minimum(np.searchsorted(self.threads, thread), len(self.threads) - 1)
        inside = (self.threads[code] == thread) & (time >= self.origin)
        # A time after all intervals becomes the last key of its thread.
        return code * self.width + 2 * np.clip(time - self.origin, 0, self.width // 2 - 1), inside


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
    _cut_ends: Ints
    """When each of these counts as ended."""

    @cached_property
    def levels(self) -> list[Indices]:
        """The intervals of each depth, from 0."""
        return levels(self.depth)

    def innermost(self, thread: Ints, time: Ints) -> Ints:
        """Return the index of the innermost interval that contains each time, both ends included, or `NONE`."""
        indices = np.full(len(thread), NONE, np.int64)
        if not len(self._order):
            return indices
        key, inside = self._intervals.keys(thread, time)
        blocks = [self._order[start : start + _BLOCK_SIZE] for start in range(0, len(self._order), _BLOCK_SIZE)]
        first_keys = self._intervals.start_keys(np.array([block[0] for block in blocks], np.int32))
        block_numbers = np.where(inside, np.searchsorted(first_keys, key, side="right") - 1, NONE)
        for number, block in enumerate(blocks):
            positions = np.flatnonzero(block_numbers == number)
            latest = np.searchsorted(self._intervals.start_keys(block), key[positions], side="right") - 1
            indices[positions] = block[latest]
        is_other = self._intervals.threads[self._intervals.code[indices]] != thread
        indices[is_other] = NONE
        searched = np.flatnonzero(indices != NONE)
        while len(searched):
            searched = searched[self._end(indices[searched]) < time[searched]]
            indices[searched] = self.parent[indices[searched]]
            searched = searched[indices[searched] != NONE]
        return indices

    def innermost_starting(self, thread: Ints, time: Ints, candidates: Flags) -> Ints:
        """Return the index of the innermost of some intervals that begins at each time, or `NONE`."""
        chosen = self._order[candidates[self._order]]
        if not len(chosen) or not len(thread):
            return np.full(len(thread), NONE, np.int64)
        keys = self._intervals.start_keys(chosen)
        wanted_keys, inside = self._intervals.keys(thread, time)
        positions = np.maximum(np.searchsorted(keys, wanted_keys, side="right") - 1, 0)
        return np.where(inside & (keys[positions] == wanted_keys), chosen[positions], NONE)

    def _end(self, row: Ints) -> Ints:
        end = self._intervals.start[row] + self._intervals.duration[row]
        if not len(self._cut):
            return end
        position = np.minimum(np.searchsorted(self._cut, row), len(self._cut) - 1)
        return np.where(self._cut[position] == row, self._cut_ends[position], end)


def nest_intervals(thread: Ints, start: Ints, duration: Ints, *, slack: int = 0) -> Nesting:
    """Find the parent of each interval, within each thread.

    Args:
        thread: A number that identifies the thread.
        start: When each interval begins.
        duration: How long each lasts, at least 0.
        slack: How much later than its parent a child may end because times were rounded. An interval that
            ends later than that overlaps the previous one, which then counts as ended where this one begins.
    """
    return nest_by_thread(thread.__getitem__, start, duration, slack=slack)


def nest_by_thread(
    threads_of: Callable[[slice], Ints],
    start: Ints,
    duration: Ints,
    *,
    order: Indices | None = None,
    slack: int = 0,
    after_block: Callable[[], None] = lambda: None,
) -> Nesting:
    """Find the parent of each interval as `nest_intervals`, in bounded memory.

    Args:
        threads_of: Returns the threads of some intervals.
        start: When each interval begins.
        duration: How long each lasts, at least 0.
        order: The order of the intervals by start, if known; equal ones that come first enclose the others.
        slack: As for `nest_intervals`.
        after_block: Called after each block of intervals, to release memory.
    """
    count = len(start)
    intervals, is_sorted = _intervals(threads_of, start, duration, after_block)
    if order is None and not is_sorted:
        order = np.argsort(start, kind="stable").astype(np.int32)
    order = _sort_by_thread(intervals, order)
    parent, depth = np.empty(count, np.int32), np.empty(count, np.int32)
    enclosing, enclosing_ends = np.zeros(0, np.int32), np.zeros(0, np.int64)
    cuts: list[tuple[Indices, Ints]] = []
    first, size = 0, count if count <= _MAX_SINGLE_BLOCK else _BLOCK_SIZE
    while first < count:
        new, starts, ends = _block(intervals, order, first, max(size, len(enclosing)))
        first += len(new)
        # What may enclose these intervals is nested with them again.
        rows, added = new, slice(len(enclosing), None)
        if len(enclosing):
            rows = np.concatenate((enclosing, new))
            starts = np.concatenate((intervals.start_keys(enclosing), starts))
            ends = np.concatenate((enclosing_ends, ends))
        ends_before = ends.copy()
        inner, level = _nest_block(starts, ends, slack)
        _fill(parent, depth, new, inner[added], level[added], rows)
        changed = np.flatnonzero(ends != ends_before)
        cuts.append((rows[changed], ends[changed] % intervals.width // 2 + intervals.origin))
        if first < count:
            continues = ends >= starts[-1]
            enclosing, enclosing_ends = rows[continues], ends[continues]
        after_block()
    return Nesting(parent, depth, intervals, order, *_latest_cuts(cuts))


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
        positions = inner[block]
        parent[new[block]] = np.where(positions == NONE, np.int32(NONE), rows[positions])
        depth[new[block]] = level[block]

    run_in_blocks(fill, len(new), _BLOCK_SIZE)


def _intervals(
    threads_of: Callable[[slice], Ints], start: Ints, duration: Ints, after_block: Callable[[], None]
) -> tuple[_Intervals, bool]:
    """Return the intervals, and whether they are sorted by start."""

    def summarize(block: slice) -> tuple[Ints, int, int, bool]:
        starts = start[max(block.start - 1, 0) : block.stop]
        is_sorted = bool((starts[1:] >= starts[:-1]).all())
        earliest, latest = int(starts.min()), int((start[block] + duration[block]).max())
        threads = pl.Series(threads_of(block)).unique().to_numpy()
        after_block()
        return threads, earliest, latest, is_sorted

    def assign_codes(block: slice) -> None:
        code[block] = np.searchsorted(threads, threads_of(block))
        after_block()

    summaries = run_in_blocks(summarize, len(start), _BLOCK_SIZE)
    threads = np.unique(np.concatenate([np.zeros(0, np.int64), *(block[0] for block in summaries)]))
    origin = min((block[1] for block in summaries), default=0)
    width = 2 * (max((block[2] for block in summaries), default=0) - origin + 2)
    if len(threads) * width >= 1 << 62:
        raise ValueError("the times span too long for one recording")
    code = np.zeros(len(start), np.min_scalar_type(len(threads)))
    if len(threads) > 1:
        run_in_blocks(assign_codes, len(start), _BLOCK_SIZE)
    return _Intervals(threads, code, start, duration, origin, width), all(block[3] for block in summaries)


def _sort_by_thread(intervals: _Intervals, order: Indices | None) -> Indices:
    """Return the indices sorted by thread, those of a thread in the given order; None: as they are."""
    if order is None:
        return group_indices(intervals.code, len(intervals.threads))[0]
    return take(order, group_indices(take(intervals.code, order), len(intervals.threads))[0])


def outer_first_order(start: Ints, duration: Ints, ids_of: Callable[[Indices], Ints] | None = None) -> Indices | None:
    """Return the order of intervals by start, then longer ones first, then by id; None if they are in this order.

    Args:
        start: When each begins.
        duration: How long each lasts.
        ids_of: Returns the ids of some intervals.
    """
    # Profilers write nearly in order, which makes a stable sort fast.
    is_sorted = bool((start[1:] >= start[:-1]).all())
    order = None if is_sorted else np.argsort(start, kind="stable").astype(np.int32)
    moments = start if order is None else take(start, order)
    is_tied = moments[1:] == moments[:-1]
    if is_tied.any():
        tied = np.append(is_tied, False)
        tied[1:] |= is_tied
        indices = np.flatnonzero(tied).astype(np.int32) if order is None else order[tied]
        keys = (
            (-duration[indices], moments[tied])
            if ids_of is None
            else (ids_of(indices), -duration[indices], moments[tied])
        )
        order = np.arange(len(start), dtype=np.int32) if order is None else order
        order[tied] = indices[np.lexsort(keys)]
    return None if order is None or (order[1:] > order[:-1]).all() else order


def group_indices(code: npt.NDArray[Any], groups: int) -> tuple[Indices, Ints]:
    """Return the indices sorted by code, those of equal codes in order, and the end of each group among them.

    Args:
        code: Numbers below ``groups``, of a small integer type for speed.
        groups: The number of groups.
    """
    if groups <= 1:
        return np.arange(len(code), dtype=np.int32), np.full(groups, len(code))
    blocks: list[tuple[slice, Ints]] = run_in_blocks(
        lambda block: (block, np.bincount(code[block], minlength=groups)), len(code), _BLOCK_SIZE
    )
    counts = np.array([count for _, count in blocks]).reshape(-1, groups)
    ends = np.cumsum(counts.sum(axis=0))
    first_positions = ends - counts.sum(axis=0) + np.cumsum(counts, axis=0) - counts
    order = np.empty(len(code), np.int32)

    def place(block: slice, first: Ints, count: Ints) -> None:
        # A sort of all at once would take several times the memory of its result.
        shift = np.repeat(first - np.cumsum(count) + count, count)
        order[np.arange(len(shift)) + shift] = np.argsort(code[block], kind="stable") + block.start

    run_concurrently(
        *(partial(place, block, first, count) for (block, count), first in zip(blocks, first_positions, strict=True))
    )
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
        run_ends = np.flatnonzero(keys[1:] != keys[:-1])
        if len(run_ends):
            rows, keys = rows[: run_ends[-1] + 1], keys[: run_ends[-1] + 1]
            break
        size *= 2
    duration = take(intervals.duration, rows)
    ties = np.flatnonzero(keys[1:] == keys[:-1])
    if (duration[ties + 1] > duration[ties]).any():
        rows[:] = rows[np.lexsort((-duration, keys))]
        duration = intervals.duration[rows]
    return rows, keys, keys + np.maximum(2 * duration, 1)


def _nest_block(starts: Ints, ends: Ints, slack: int) -> tuple[Ints, Ints]:
    """Return parent and depth of sorted intervals; the ends of overlapping ones are cut in place."""
    depth, parent = np.empty_like(starts), np.empty_like(starts)
    parts = _independent_slices(starts, ends, thread_limit())
    for _ in range(_ROUNDS):
        were_cut = run_concurrently(*(partial(_nest, starts, ends, slack, depth, parent, part) for part in parts))
        np.maximum(ends, starts + 1, out=ends)
        if not any(were_cut):
            break
    return parent, depth


def _independent_slices(starts: Ints, ends: Ints, max_parts: int) -> list[slice]:
    """Divide the sorted intervals into at most ``max_parts`` slices that do not overlap."""
    if max_parts == 1 or len(starts) < _MIN_PARALLEL:
        return [slice(0, len(starts))]
    free = np.flatnonzero(starts[1:] >= np.maximum.accumulate(ends)[:-1]) + 1
    targets = np.arange(1, max_parts) * len(starts) // max_parts
    cuts = np.unique(free[np.minimum(np.searchsorted(free, targets), len(free) - 1)]).tolist() if len(free) else []
    return [slice(*bounds) for bounds in pairwise([0, *cuts, len(starts)])]


def _nest(all_starts: Ints, all_ends: Ints, slack: int, depths: Ints, parents: Ints, slice_: slice) -> bool:
    """Fill depth and parent of a part of the sorted intervals; return whether overlapping ends were cut."""
    starts, ends = all_starts[slice_], all_ends[slice_]
    depth = depths[slice_]
    # Nearly sorted input: a stable sort is fast.
    np.subtract(np.arange(len(starts)), np.searchsorted(np.sort(ends, kind="stable"), starts, side="right"), out=depth)
    parent = _parents(depth)
    parents[slice_] = np.where(parent != NONE, parent + slice_.start, NONE)
    # Intervals without a parent are compared with themselves.
    enclosing_ends = ends.copy()
    inner = np.flatnonzero(parent != NONE)
    enclosing_ends[inner] = ends[parent[inner]]
    del inner
    overlapping = np.flatnonzero(ends > enclosing_ends + 2 * slack)
    late_ends = ends[overlapping]
    np.minimum(ends, enclosing_ends, out=ends)
    if len(overlapping):
        ends[overlapping] = late_ends
        np.minimum.at(ends, parent[overlapping], starts[overlapping])
    return len(overlapping) > 0


def _latest_cuts(cuts: list[tuple[Indices, Ints]]) -> tuple[Indices, Ints]:
    """Return the intervals that were cut, sorted, and the last end of each."""
    rows = np.concatenate([np.zeros(0, np.int32), *(rows for rows, _ in cuts)])
    ends = np.concatenate([np.zeros(0, np.int64), *(ends for _, ends in cuts)])
    order = np.argsort(rows, kind="stable")
    rows, ends = rows[order], ends[order]
    is_last = np.append(rows[1:] != rows[:-1], True) if len(rows) else np.zeros(0, np.bool_)
    return rows[is_last], ends[is_last]


def levels(depth: npt.NDArray[Any]) -> list[Indices]:
    """Return the indices of each depth, from 0, in their order."""
    deepest = int(depth.max(initial=0))
    by_depth, ends = group_indices(depth.astype(np.min_scalar_type(deepest)), deepest + 1)
    return np.split(by_depth, ends[:-1])


def _parents(depth: Ints) -> Ints:
    """Return the parent of each of the sorted intervals: the last one before it that is one level higher."""
    parent = np.full(len(depth), NONE, np.int64)
    by_depth = np.argsort(depth.astype(np.min_scalar_type(int(depth.max(initial=0)))), kind="stable")
    for above, members in pairwise(np.split(by_depth, np.cumsum(np.bincount(depth))[:-1])):
        if len(members) and len(above):
            parent[members] = above[np.searchsorted(above, members) - 1]
    return parent


def inherit(nesting: Nesting, own: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Return the value of each interval: its own, else that of the nearest enclosing interval with one, or `NONE`."""
    values = own.copy()

    def fill(rows: Indices, block: slice) -> None:
        inner = rows[block][values[rows[block]] == NONE]
        values[inner] = values[nesting.parent[inner]]

    for rows in nesting.levels[1:]:
        run_in_blocks(partial(fill, rows), len(rows), _BLOCK_SIZE)
    return values


def inherit_bits(nesting: Nesting, bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return the bits of each interval together with those of all that enclose it."""
    values = bits.copy()

    def fill(rows: Indices, block: slice) -> None:
        block_rows = rows[block]
        values[block_rows] |= values[nesting.parent[block_rows]]

    for rows in nesting.levels[1:]:
        run_in_blocks(partial(fill, rows), len(rows), _BLOCK_SIZE)
    return values


def parent_values(nesting: Nesting, values: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Return the value of the parent of each interval, or `NONE`; in bounded memory."""
    result = take(values, nesting.parent) if len(values) else values
    result[nesting.parent == NONE] = NONE
    return result


def take(values: npt.NDArray[_Number], indices: npt.NDArray[Any]) -> npt.NDArray[_Number]:
    """Return values by index; numpy alone would copy all small indices as large ones first."""
    result = np.empty(len(indices), values.dtype)

    def fill(block: slice) -> None:
        result[block] = values[indices[block]]

    run_in_blocks(fill, len(indices), _BLOCK_SIZE)
    return result


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
        for start in range(0, len(wanted), _BLOCK_SIZE):
            is_wanted[wanted[start : start + _BLOCK_SIZE]] = True
        distinct = np.flatnonzero(is_wanted[:-1])
        texts, cut = self._distinct_texts(names, distinct, separator, innermost_first=innermost_first)
        position = np.full(len(is_wanted), len(distinct), np.uint32)
        position[distinct] = np.arange(len(distinct))
        return texts.cast(NAME).extend_constant(None, 1).gather(pl.Series(take(position, wanted))), cut

    def _distinct_texts(
        self, names: pl.Series, wanted: Ints, separator: str, *, innermost_first: bool
    ) -> tuple[pl.Series, bool]:
        """Return the texts of some paths, built level by level from their parents'; and whether some are cut."""
        by_level = list(levels(self.depth))
        needed = np.zeros(len(self.parent), np.bool_)
        needed[wanted] = True
        for codes in reversed(by_level[1:]):
            needed[self.parent[codes[needed[codes]]]] = True
        parts: list[pl.Series] = []
        position = np.full(len(self.parent), NONE, np.int64)
        size = count = 0
        cut = self.cut
        parent_offset = 0
        for level, level_codes in enumerate(by_level):
            codes = level_codes[needed[level_codes]]
            if not len(codes):
                break
            level_texts = names.gather(self.name[codes])
            if level:
                parent_texts = parts[-1].gather(position[self.parent[codes]] - parent_offset)
                joined = (
                    level_texts + separator + parent_texts
                    if innermost_first
                    else parent_texts + separator + level_texts
                )
                fits = (joined.str.len_bytes() <= LONGEST_PATH) & (size < _MAX_TEXT)
                cut = cut or not fits.all()
                level_texts = joined.zip_with(fits, parent_texts)
            position[codes] = count + np.arange(len(codes))
            parent_offset = count
            count += len(codes)
            size += int(level_texts.str.len_bytes().sum())
            parts.append(level_texts)
        texts = pl.concat(parts) if parts else pl.Series([], dtype=pl.String)
        return texts.gather(position[wanted]), cut


def number_paths(nesting: Nesting, name: npt.NDArray[Any], names: int, max_levels: int = MAX_LEVELS) -> Paths:
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
            code[rows] = take(code, take(nesting.parent, rows))
            continue

        def keys_of(block: slice, rows: Indices = rows, begin: int = begin if level else NONE) -> Ints:
            # The path of a parent is one level up: one of those from `begin` to `end`.
            block_rows = rows[block]
            keys: Ints = (code[nesting.parent[block_rows]].astype(np.int64) - begin) * names + name[block_rows]
            return keys

        distinct, codes_of_rows = _distinct(keys_of, len(rows), max(end - begin, 1) * names)
        parents.append(distinct // names + begin if level else np.full(len(distinct), NONE))
        last_names.append(distinct % names)
        depths.append(np.full(len(distinct), level))
        begin, end = end, end + len(distinct)
        code[rows] = begin + codes_of_rows
    cut = bool(nesting.depth.max(initial=0) >= max_levels)
    return Paths(code, np.concatenate(parents), np.concatenate(last_names), np.concatenate(depths), cut)


def _distinct(keys_of: Callable[[slice], Ints], count: int, key_count: int) -> tuple[Ints, Indices]:
    """Return the sorted distinct keys, and the index of each key among them.

    Args:
        keys_of: Returns some of the keys, which are at least 0 and less than ``key_count``.
        count: The number of keys.
        key_count: The number of possible keys.
    """
    indices = np.empty(count, np.int32)
    if key_count > _LARGE_TABLE + count:
        parts = run_in_blocks(lambda block: np.unique(keys_of(block)), count, _BLOCK_SIZE)
        distinct = np.unique(np.concatenate([np.zeros(0, np.int64), *parts]))

        def search(block: slice) -> None:
            indices[block] = np.searchsorted(distinct, keys_of(block))

        run_in_blocks(search, count, _BLOCK_SIZE)
        return distinct, indices
    position = np.zeros(key_count, np.int32)

    def mark(block: slice) -> None:
        position[keys_of(block)] = 1

    def look_up(block: slice) -> None:
        indices[block] = position[keys_of(block)]

    run_in_blocks(mark, count, _BLOCK_SIZE)
    distinct = np.flatnonzero(position)
    position[distinct] = np.arange(len(distinct))
    run_in_blocks(look_up, count, _BLOCK_SIZE)
    return distinct, indices
