"""Long columns processed block by block, so that intermediate results stay in the CPU cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

BLOCK: Final = 1 << 16
"""Rows that are examined together."""

FEW_STREAMS: Final = 16
"""Of more, rows are sorted into streams in one pass rather than searched once for each."""

NEVER: Final = int(np.iinfo(np.int64).min)
FOREVER: Final = int(np.iinfo(np.int64).max)


def blocks(length: int) -> Iterator[slice]:
    """The places of so many rows, some at a time."""
    return (slice(first, min(first + BLOCK, length)) for first in range(0, length, BLOCK))


class RunningLatestEnd:
    """The latest end of all intervals so far, carried from block to block."""

    def __init__(self) -> None:
        self.latest = NEVER

    def before(self, ends: Ints) -> tuple[Ints, Ints]:
        """For each interval of the next block the latest end of all before it, and of these and itself."""
        reached = np.empty(len(ends) + 1, np.int64)
        reached[0] = self.latest
        reached[1:] = ends
        np.maximum.accumulate(reached, out=reached)
        self.latest = int(reached[-1])
        return reached[:-1], reached[1:]


def distinct_values(column: Ints, chosen: npt.NDArray[np.bool_]) -> Iterator[int]:
    """The distinct values of the chosen rows of a column, as each is met first; quick where there are few."""
    seen: set[int] = set()
    for block in blocks(len(column)):
        left = column[block][chosen[block]]
        for value in seen:
            left = left[left != value]
        while len(left):
            value = int(left[0])
            seen.add(value)
            yield value
            left = left[left != value]


def find_gaps(starts: Ints, ends: Ints, least: int) -> tuple[Ints, Ints, int]:
    """The gaps of at least a given length between intervals in order of their starts.

    Args:
        starts: Of at least one interval.
        ends: Of the same.
        least: More than 0.

    Returns:
        The place of the first interval after each such gap, the latest end of all before it, and the end of all.
    """
    reached = RunningLatestEnd()
    # Memory that is never written to costs nothing: to join parts at the end would take as much again.
    places, begun = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
    number = 0
    for block in blocks(len(starts)):
        opened = starts[block]
        before, _ = reached.before(ends[block])
        if block.start == 0:
            # Nothing was active before the first one.
            before[0] = opened[0]
        found = np.flatnonzero(opened - before >= least)
        here = slice(number, number + len(found))
        np.add(found, block.start, out=places[here])
        begun[here] = before[found]
        number = here.stop
    return places[:number], begun[:number], reached.latest


def is_nondecreasing(values: Ints) -> bool:
    """Whether no value is below the one before it."""
    return not any(
        (values[block.start + 1 : block.stop + 1] < values[block]).any() for block in blocks(len(values) - 1)
    )
