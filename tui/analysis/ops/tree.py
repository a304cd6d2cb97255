"""Ops within ops: what is summed upwards, and what lies below, level by level and never row by row."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]

NONE: Final = -1
"""In place of a row: there is none."""


@dataclass(frozen=True, slots=True)
class OpTree:
    """The rows of a frame of ops, with the row that each lies in."""

    parent: Ints
    """The row of the op that each ran in, or `NONE`."""
    levels: tuple[Ints, ...]
    """The rows of each depth, the outermost first."""

    def sums(self, values: Ints) -> Ints:
        """For each op the sum of its value and those of all ops below it."""
        totals = values.copy()
        for level in reversed(self.levels[1:]):
            np.add.at(totals, self.parent[level], totals[level])
        return totals

    def children_sums(self, values: Ints, counted: Flags | None = None) -> Ints:
        """For each op the sum over its direct children, or those of them that count."""
        inner = self.parent != NONE
        if counted is not None:
            inner &= counted
        totals = np.zeros(len(self.parent), np.int64)
        np.add.at(totals, self.parent[inner], values[inner])
        return totals

    def below(self, flags: Flags) -> Flags:
        """The flagged ops and all ops below them."""
        inside = flags.copy()
        for level in self.levels[1:]:
            inside[level] |= inside[self.parent[level]]
        return inside


def rows_of_ops(numbers: pl.Series, ops: pl.DataFrame) -> Ints:
    """The row of each op number in a frame of ops, `NONE` where there is none; op numbers rise from row to row."""
    wanted = numbers.cast(pl.Int64).fill_null(NONE).to_numpy()
    known = ops["op"].to_numpy().astype(np.int64)
    if not len(known):
        return np.full(len(wanted), NONE, np.int64)
    if known[-1] - known[0] == len(known) - 1:
        rows = wanted - known[0]
        return np.where((wanted != NONE) & (rows >= 0) & (rows < len(known)), rows, NONE)
    rows = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[rows] == wanted, rows, NONE)


def op_tree(ops: pl.DataFrame) -> OpTree:
    """The tree of a frame of ops.

    A parent of another session, or one that leads back to the op itself, is taken for none: no input makes this loop.
    """
    parent = rows_of_ops(ops["parent"], ops)
    session = ops["session"].to_numpy()
    parent = np.where((parent != NONE) & (session[parent] == session), parent, NONE)
    depth = (parent != NONE).astype(np.int64)
    above = parent.copy()
    # Each round doubles how far up every op looks.
    for _ in range(len(parent).bit_length() + 1):
        inner = np.flatnonzero(above != NONE)
        if not len(inner):
            break
        depth[inner] += depth[above[inner]]
        above[inner] = above[above[inner]]
    circular = above != NONE
    parent = np.where(circular, NONE, parent)
    depth = np.where(circular, 0, depth)
    order = np.argsort(depth, kind="stable")
    edges = np.searchsorted(depth[order], np.arange(int(depth.max(initial=0)) + 2))
    return OpTree(parent, tuple(order[first:last] for first, last in pairwise(edges.tolist())))
