"""Ops within ops, as a forest of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.model.forest import NONE, forest_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.forest import Forest

    Ints = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]


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


def op_tree(ops: pl.DataFrame) -> Forest:
    """The tree of a frame of ops.

    A parent of another session, or one that leads back to the op itself, is taken for none: no input makes this loop.
    """
    parent = rows_of_ops(ops["parent"], ops)
    session = ops["session"].to_numpy()
    parent = np.where((parent != NONE) & (session[parent] == session), parent, NONE)
    return forest_of(parent)
