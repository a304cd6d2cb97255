"""The figures of millions of durations by name: one sort of numbers rather than a selection for each quantile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.durations import FIGURES, figures, timed
from tui.analysis.gpu_time.blocks import are_rising, blocks
from tui.analysis.grouping import grouped, is_constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

MANY: Final = 200_000
"""Of fewer rows it makes no difference."""

_KEYS: Final = 1 << 16
"""Of more keys that could be, a table of all would be mostly empty."""
_SMALL, _LARGE = 1 << 32, 1 << 62
_QUANTILES: Final = {"median_ns": 0.50, "p90_ns": 0.90, "p99_ns": 0.99}


def figures_by(rows: pl.DataFrame, keys: Sequence[str], *first: str, many: int = MANY) -> pl.DataFrame:
    """What `grouped` gives of `tui.analysis.durations.figures`, in no particular order.

    Columns: ``keys``, `FIGURES`, timed_calls, line (the lowest), and ``first``: those of the first row of each group.

    Args:
        rows: With ``duration_ns`` and ``line``.
        keys: Whole numbers or categories.
        first: Further columns.
        many: From so many rows on they are sorted.
    """
    found = _sorted(rows, keys, first) if rows.height >= many else None
    if found is not None:
        return found
    return grouped(rows, keys, [*figures(), timed(), pl.col("line").min(), *(pl.col(name).first() for name in first)])


def _sorted(rows: pl.DataFrame, keys: Sequence[str], first: Sequence[str]) -> pl.DataFrame | None:
    """None where rows cannot be told apart by one small number each, or their lowest line is not their first one."""
    durations, line = rows["duration_ns"], rows.select("line").to_series()
    if durations.null_count() or not (is_constant(line) or _rises(line)):
        return None
    low, high = durations.min(), durations.max()
    if not isinstance(low, int) or not isinstance(high, int) or low < 0:
        return None
    varying = [key for key in keys if not is_constant(rows.select(key).to_series())]
    digits, count = _digits(rows, varying)
    if not count or count > _KEYS or count * (high + 1) > _LARGE:
        return None
    ordered, firsts = _packed(digits, durations.to_numpy(), count, high + 1)
    codes = np.flatnonzero(firsts >= 0)
    ends = np.append(
        np.searchsorted(ordered, ordered.dtype.type(high + 1) * codes[1:].astype(ordered.dtype)), len(ordered)
    )
    at = pl.Series(firsts[codes])
    described = rows.select(pl.col(*keys, *first, "line").gather(at))
    return (
        _figures(ordered, codes * (high + 1), ends)
        .hstack(described)
        .select(*keys, *FIGURES, pl.col("calls").alias("timed_calls"), "line", *first)
    )


def _rises(line: pl.Series) -> bool:
    return not line.null_count() and are_rising(line.to_numpy())


def _digits(rows: pl.DataFrame, keys: Sequence[str]) -> tuple[list[tuple[npt.NDArray[np.integer], int, int]], int]:
    """Of each key its numbers, the lowest of them and what it counts in a joint number; how many there can be, or 0."""
    digits, count = [], 1
    for key in keys:
        column = rows[key].to_physical()
        low, high = column.min(), column.max()
        if column.null_count() or not isinstance(low, int) or not isinstance(high, int):
            return [], 0
        digits.append((column.to_numpy(), low, count))
        count *= high - low + 1
    return digits, count


def _packed(
    digits: Sequence[tuple[npt.NDArray[np.integer], int, int]], durations: Ints, count: int, scale: int
) -> tuple[npt.NDArray[np.integer], Ints]:
    """Key and duration of each row as one number, in order; and the first row of each key, -1 of one that has none."""
    dtype = np.uint32 if count * scale <= _SMALL else np.int64
    packed: npt.NDArray[np.integer] = np.empty(len(durations), dtype)
    firsts = np.full(count, -1, np.int64)
    # From the last row on, and each block backwards: what is written last stays.
    for block in reversed(list(blocks(len(durations)))):
        code = np.zeros(block.stop - block.start, np.int64)
        for numbers, low, weight in digits:
            code += (numbers[block].astype(np.int64) - low) * weight
        firsts[code[::-1]] = np.arange(block.stop - 1, block.start - 1, -1)
        code *= scale
        code += durations[block]
        packed[block] = code
    packed.sort()
    return packed, firsts


def _figures(ordered: npt.NDArray[np.integer], bases: Ints, ends: Ints) -> pl.DataFrame:
    """`FIGURES` of groups that follow each other.

    Args:
        ordered: The durations, on top of the number of their group.
        bases: That number of each group.
        ends: Where each ends.
    """
    calls = np.diff(ends, prepend=0)
    firsts = ends - calls
    totals, squares = np.empty(len(ends), np.int64), np.empty(len(ends), np.float64)
    for group, (begin, end, base) in enumerate(zip(firsts.tolist(), ends.tolist(), bases.tolist(), strict=True)):
        own = ordered[begin:end] - ordered.dtype.type(base)
        totals[group] = own.sum(dtype=np.int64)
        apart = own - totals[group] / (end - begin)
        apart *= apart
        squares[group] = apart.sum()
    rounded = {"avg_ns": totals / calls}
    for name, share in _QUANTILES.items():
        place = (calls - 1) * share
        low = np.floor(place).astype(np.int64)
        lower, upper = (ordered[firsts + at].astype(np.int64) - bases for at in (low, np.ceil(place).astype(np.int64)))
        rounded[name] = (place - low) * (upper - lower) + lower
    rounded["std_ns"] = np.sqrt(squares / np.maximum(calls - 1, 1))
    columns = {
        "calls": calls,
        "total_ns": totals,
        "min_ns": ordered[firsts].astype(np.int64) - bases,
        "max_ns": ordered[ends - 1].astype(np.int64) - bases,
        **rounded,
    }
    return (
        pl.DataFrame(columns)
        .with_columns(pl.col(*rounded).round().cast(pl.Int64))
        .with_columns(pl.when(pl.col("calls") > 1).then("std_ns").alias("std_ns"))
        .select(pl.col(name).cast(dtype) for name, dtype in FIGURES.items())
    )
