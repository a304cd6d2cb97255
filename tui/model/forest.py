"""Nested rows as a forest: subtree sums, ancestors, descendants and display order, without per-row Python."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]

NONE: Final = -1
"""The index for "no row"."""

_BLOCK: Final = 1 << 20
"""Rows processed together, to bound the memory."""


@dataclass(frozen=True, slots=True)
class Forest:
    """The rows of a frame with their parents."""

    parent: Ints
    """The parent of each row, or `NONE`."""
    levels: tuple[Ints, ...]
    """The rows of each depth, roots first."""

    def subtree_sums(self, values: Ints) -> Ints:
        """Return the sum of each row's value and those of its descendants."""
        totals = values.copy()
        for level in reversed(self.levels[1:]):
            np.add.at(totals, self.parent[level], totals[level])
        return totals

    def child_sums(self, values: Ints | Flags, counted: Flags | None = None) -> Ints:
        """Return the sum over the children of each row, or over those that are ``counted``."""
        totals = np.zeros(len(self.parent), np.int64)
        for first in range(0, len(self.parent), _BLOCK):
            block = slice(first, first + _BLOCK)
            inner = self.parent[block] != NONE
            if counted is not None:
                inner &= counted[block]
            np.add.at(totals, self.parent[block][inner], values[block][inner])
        return totals

    def with_descendants(self, flags: Flags) -> Flags:
        """Return the flagged rows and their descendants."""
        inside = flags.copy()
        for level in self.levels[1:]:
            inside[level] |= inside[self.parent[level]]
        return inside

    def with_ancestors(self, flags: Flags) -> Flags:
        """Return the flagged rows and their ancestors."""
        outside = flags.copy()
        for level in reversed(self.levels[1:]):
            outside[self.parent[level[outside[level]]]] = True
        return outside

    def visible(self, unfolded: Flags) -> Flags:
        """Return the rows whose ancestors are all unfolded."""
        seen = np.ones(len(self.parent), np.bool_)
        for level in self.levels[1:]:
            above = self.parent[level]
            seen[level] = seen[above] & unfolded[above]
        return seen

    def display_order(self, rank: Ints) -> Ints:
        """Return all rows depth first; siblings by ascending rank."""
        if not len(self.parent):
            return np.zeros(0, np.int64)
        sizes = self.subtree_sums(np.ones(len(self.parent), np.int64))
        place = np.zeros(len(self.parent), np.int64)
        for depth, level in enumerate(self.levels):
            above = self.parent[level]
            order = np.lexsort((rank[level], above))
            rows, above = level[order], above[order]
            before = np.cumsum(sizes[rows]) - sizes[rows]
            first = np.ones(len(rows), np.bool_)
            first[1:] = above[1:] != above[:-1]
            starts = before[first][np.cumsum(first) - 1]
            place[rows] = before - starts + (place[above] + 1 if depth else 0)
        return np.argsort(place, kind="stable")


def forest_of(parent: Ints) -> Forest:
    """Return the forest of these parents; rows in a cycle become roots."""
    depth = (parent != NONE).astype(np.int32)
    above = parent.copy()
    # Pointer doubling.
    for _ in range(len(parent).bit_length() + 1):
        inner = np.flatnonzero(above != NONE)
        if not len(inner):
            break
        depth[inner] += depth[above[inner]]
        above[inner] = above[above[inner]]
    circular = above != NONE
    if circular.any():
        parent, depth = np.where(circular, NONE, parent), np.where(circular, np.int32(0), depth)
    order = np.argsort(depth, kind="stable")
    edges = np.searchsorted(depth[order], np.arange(int(depth.max(initial=0)) + 2))
    return Forest(parent, tuple(order[first:last] for first, last in pairwise(edges.tolist())))
