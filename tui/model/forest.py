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
        is_visible = np.ones(len(self.parent), np.bool_)
        for level in self.levels[1:]:
            parents = self.parent[level]
            is_visible[level] = is_visible[parents] & unfolded[parents]
        return is_visible

    def display_order(self, rank: Ints) -> Ints:
        """Return all rows depth first; siblings by ascending rank."""
        if not len(self.parent):
            return np.zeros(0, np.int64)
        sizes = self.subtree_sums(np.ones(len(self.parent), np.int64))
        positions = np.zeros(len(self.parent), np.int64)
        for depth, level in enumerate(self.levels):
            parents = self.parent[level]
            order = np.lexsort((rank[level], parents))
            rows, parents = level[order], parents[order]
            earlier_sizes = np.cumsum(sizes[rows]) - sizes[rows]
            first = np.ones(len(rows), np.bool_)
            first[1:] = parents[1:] != parents[:-1]
            starts = earlier_sizes[first][np.cumsum(first) - 1]
            positions[rows] = earlier_sizes - starts + (positions[parents] + 1 if depth else 0)
        return np.argsort(positions, kind="stable")


def build_forest(parent: Ints) -> Forest:
    """Return the forest of these parents; rows in a cycle become roots."""
    has_parent = parent != NONE
    if not has_parent.any():
        return Forest(parent, (np.arange(len(parent)),))
    depth = has_parent.astype(np.int32)
    ancestors = parent.copy()
    # Pointer doubling.
    for _ in range(len(parent).bit_length() + 1):
        inner = np.flatnonzero(ancestors != NONE)
        if not len(inner):
            break
        depth[inner] += depth[ancestors[inner]]
        ancestors[inner] = ancestors[ancestors[inner]]
    circular = ancestors != NONE
    if circular.any():
        parent, depth = np.where(circular, NONE, parent), np.where(circular, np.int32(0), depth)
    order = np.argsort(depth, kind="stable")
    edges = np.searchsorted(depth[order], np.arange(int(depth.max(initial=0)) + 2))
    return Forest(parent, tuple(order[first:last] for first, last in pairwise(edges.tolist())))
