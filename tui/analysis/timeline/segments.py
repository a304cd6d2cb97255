"""How much time of each kind lies before a moment, for any moments, without looking at what lies between them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from tui.analysis.gpu_time.interval_sets import EMPTY, IntervalSet, overlaps, union_of
from tui.analysis.gpu_time.intervals import busy_parts
from tui.analysis.gpu_time.timelines import Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Looks = npt.NDArray[np.int8]

BLOCK: Final = 32
"""Sums are kept for so many segments together; what is left over is added up when it is asked for."""

AT_ONCE: Final = 1 << 17
"""Intervals that are cut at each other together: each takes some dozen numbers for as long as that lasts."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Stretches of time, each of one look, in order; they lie apart, but for overlaps shorter than the resolution."""

    starts: Ints
    ends: Ints
    looks: Looks
    kinds: Looks
    """The looks that there are."""
    _of_kind: Looks
    """Where in ``kinds`` each look stands."""
    _sums: Ints
    """For each block and kind the time of all segments of the blocks before it."""

    @property
    def length(self) -> int:
        """All of them together."""
        return int(self._sums[-1].sum()) if len(self._sums) else 0

    def until(self, moments: Ints) -> Ints:
        """For each moment and each of ``kinds`` how much of its time lies before."""
        count = len(self.kinds)
        if not count:
            return np.zeros((len(moments), 0), np.int64)
        begun = np.searchsorted(self.starts, moments, side="left")
        block = np.maximum(begun - 1, 0) // BLOCK
        places = block[:, None] * BLOCK + np.arange(BLOCK)
        inside = places < begun[:, None]
        places = np.minimum(places, len(self.starts) - 1)
        lengths = np.minimum(self.ends[places], moments[:, None]) - self.starts[places]
        cells = np.arange(len(moments))[:, None] * count + self._of_kind[self.looks[places]]
        # The sums of a block are far below 2**53: as floats they are exact.
        rest = np.bincount(cells.ravel(), np.where(inside, lengths, 0).ravel(), minlength=len(moments) * count).astype(
            np.int64
        )
        found: Ints = self._sums[block] + rest.reshape(len(moments), count)
        return found


def segments_of(starts: Ints, ends: Ints, looks: Looks) -> Segments:
    """Segments that are in order and apart."""
    kinds = np.flatnonzero(np.bincount(looks, minlength=1)).astype(np.int8) if len(looks) else np.zeros(0, np.int8)
    of_kind = np.zeros(int(kinds.max(initial=0)) + 1, np.int8)
    of_kind[kinds] = np.arange(len(kinds))
    sums = np.zeros((-(-len(starts) // BLOCK) + 1, len(kinds)), np.int64)
    # Some whole blocks at a time: what each step leaves for the next then takes little memory.
    for first in range(0, len(starts), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        lengths, here = ends[part] - starts[part], looks[part]
        firsts = np.arange(0, len(lengths), BLOCK)
        of_part = sums[1 + first // BLOCK :][: len(firsts)]
        for place, kind in enumerate(kinds):
            of_part[:, place] = np.add.reduceat(np.where(here == kind, lengths, 0), firsts)
    np.cumsum(sums, axis=0, out=sums)
    return Segments(starts, ends, looks, kinds, of_kind, sums)


def flattened(
    starts: Ints, ends: Ints, looks: Looks, *, resolution_ns: int, before: Sequence[Sequence[int]] = ()
) -> Segments:
    """Intervals in order of their starts as segments: of several at once the first one counts.

    Together they are as long as `busy_time` says that the intervals are.

    Args:
        starts: In order.
        ends: Of each.
        looks: Of each.
        resolution_ns: Overlaps shorter than this may be none.
        before: Looks that count before others that were on earlier, the most important first.
    """
    reached = np.maximum.accumulate(ends) if len(ends) else ends
    if not len(starts) or not (reached[:-1] - starts[1:] >= resolution_ns).any():
        return segments_of(starts, ends, looks)
    if resolution_ns > 1 or not before:
        return segments_of(*_parts(starts, ends, looks, resolution_ns))
    found = [
        _by_importance(starts[part], ends[part], looks[part], before) for part in _parts_between_pauses(starts, reached)
    ]
    del reached
    joined = [np.concatenate(values) for values in zip(*found, strict=True)]
    del found
    return segments_of(*joined)


def _parts_between_pauses(starts: Ints, reached: Ints) -> Iterator[slice]:
    """Intervals that follow each other, about `AT_ONCE` together, where none is on from one part to the next.

    Args:
        starts: In order.
        reached: The latest end of each interval and all before it.
    """
    pauses = np.flatnonzero(starts[1:] >= reached[:-1]) + 1
    wanted = np.searchsorted(pauses, np.arange(AT_ONCE, len(starts), AT_ONCE))
    edges = np.unique(pauses[wanted[wanted < len(pauses)]]).tolist()
    yield from (slice(first, last) for first, last in pairwise([0, *edges, len(starts)]))


def _parts(starts: Ints, ends: Ints, looks: Looks, resolution_ns: int) -> tuple[Ints, Ints, Looks]:
    line = Timeline(0, None, resolution_ns, np.zeros(0, np.int64), starts, ends)
    first, last = busy_parts(line)
    there = last > first
    first, last, looks = first[there], last[there], looks[there]
    if (first[1:] < first[:-1]).any():
        order = np.argsort(first, kind="stable")
        first, last, looks = first[order], last[order], looks[order]
    return first, last, looks


def _by_importance(starts: Ints, ends: Ints, looks: Looks, before: Sequence[Sequence[int]]) -> tuple[Ints, Ints, Looks]:
    """The same where some looks come first; what is left of the others is cut out of what those leave."""
    importance = np.full(int(looks.max()) + 1, len(before), np.int8)
    for rank, group in enumerate(before):
        importance[[look for look in group if look < len(importance)]] = rank
    rank_of = importance[looks]
    covered, found = EMPTY, []
    for rank in range(len(before) + 1):
        chosen = rank_of == rank
        if not chosen.any():
            continue
        first, last, look = _parts(starts[chosen], ends[chosen], looks[chosen], 1)
        if len(covered.starts) and len(first):
            free = covered.gaps(int(first[0]), int(last[-1]))
            mine, theirs = overlaps(IntervalSet(first, last, np.cumsum(last - first)), free)
            first = np.maximum(first[mine], free.starts[theirs])
            last = np.minimum(last[mine], free.ends[theirs])
            look = look[mine]
        covered = covered | union_of(first, last)
        found.append((first, last, look))
    first, last, look = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(first, kind="stable")
    return first[order], last[order], look[order]
