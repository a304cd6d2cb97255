"""Correlates GPU activities with the API calls that launched them, and with the op and iteration around the call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.correlation.nesting import NONE, Nesting, nest_by_thread
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

_MAX_SPARSITY: Final = 8
"""Above this ratio of the largest id to the number of ids a lookup table would be mostly empty."""

_BLOCK: Final = 1 << 16
"""Ids per lookup, so that temporary arrays fit the CPU cache."""
_BLOCK_ROWS: Final = 1 << 20
"""Rows that are looked up at once, to bound the memory."""

SLACK_NS: Final = 1000
"""Rounding to microseconds can make a call end this much after the op that contains it."""


def add_launch_columns(activities: pl.DataFrame, api_calls: pl.DataFrame) -> pl.DataFrame:
    """Add ``launch_ns``, ``launch_pid`` and ``launch_tid``: time and thread of each activity's launch; null if unknown.

    Args:
        activities: Of one session, with ``correlation``.
        api_calls: Of the same session. Where several calls share a correlation (a runtime call and the driver call
            within it), the one that began first counts.
    """
    call_rows = launching_calls(activities["correlation"], api_calls)
    columns = {"start_ns": "launch_ns", "pid": "launch_pid", "tid": "launch_tid"}
    return activities.with_columns(api_calls[column].gather(call_rows).alias(name) for column, name in columns.items())


def launching_calls(correlations: pl.Series, api_calls: pl.DataFrame) -> pl.Series:
    """Return the row of the call that launched each activity; null if unknown.

    Args:
        correlations: Of the activities of one session.
        api_calls: Of the same session. Of several calls that share a correlation, the one that began first counts;
            one without a start is none.
    """
    return pl.Series(launching_rows(correlations, api_calls), dtype=pl.UInt32, strict=False)


def launching_rows(correlations: pl.Series, api_calls: pl.DataFrame) -> npt.NDArray[np.int32]:
    """Like `launching_calls`, as an array with -1 for none."""
    calls = api_calls.select(pl.col("correlation").cast(pl.Int64), "start_ns")
    row_numbers = np.arange(calls.height, dtype=np.int32)
    if any(calls[name].null_count() for name in calls.columns):
        is_known = calls["correlation"].is_not_null() & calls["start_ns"].is_not_null()
        calls, row_numbers = calls.filter(is_known), row_numbers[is_known.to_numpy()]
    if calls.is_empty():
        return np.full(len(correlations), -1, np.int32)
    keys, start_ns = calls["correlation"].to_numpy(), calls["start_ns"].to_numpy()
    if not (keys[1:] > keys[:-1]).all():
        order = (
            np.argsort(keys, kind="stable") if (start_ns[1:] >= start_ns[:-1]).all() else np.lexsort((start_ns, keys))
        )
        keys = keys[order]
        first_of_key = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        keys, row_numbers = keys[first_of_key], row_numbers[order[first_of_key]]
    wanted = correlations.cast(pl.Int64)
    rows = _look_up(keys, row_numbers, wanted.fill_null(0).to_numpy())
    if wanted.null_count():
        rows[wanted.is_null().to_numpy()] = -1
    return rows


def _look_up(
    keys: npt.NDArray[np.int64], values: npt.NDArray[np.int32], wanted: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """Return the value of each wanted key among distinct sorted keys; -1 if it is missing."""
    lowest, highest = int(keys[0]), int(keys[-1])
    if highest - lowest >= _MAX_SPARSITY * len(keys):
        positions = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[positions] == wanted, values[positions], np.int32(-1))
    # Ids are mostly consecutive: a lookup table takes a third of the time.
    table = np.full(highest - lowest + 2, -1, np.int32)
    for start in range(0, len(keys), _BLOCK):
        table[keys[start : start + _BLOCK] - lowest] = values[start : start + _BLOCK]
    result = np.empty(len(wanted), np.int32)
    for start in range(0, len(wanted), _BLOCK):
        block = wanted[start : start + _BLOCK]
        in_range = (block >= lowest) & (block <= highest)
        result[start : start + _BLOCK] = table[np.where(in_range, block - lowest, highest - lowest + 1)]
    return result


WAITS: Final = ("wait_device", "waiting_stream", "awaited_stream", "awaited_call")
"""The columns of ``api_calls`` about synchronization."""


def add_wait_columns(
    api_calls: pl.DataFrame, waits: pl.DataFrame, keys: Sequence[str] = ("correlation",)
) -> pl.DataFrame:
    """Add what calls waited for.

    Args:
        api_calls: With the columns of ``keys``.
        waits: `WAITS` and the columns of ``keys``.
        keys: The columns that identify a call.
    """
    if waits.is_empty():
        return api_calls
    first_waits = waits.select(*keys, *WAITS).unique(keys, keep="first")
    return api_calls.join(first_waits, on=keys, how="left", maintain_order="left")


def thread_codes(pid: pl.Series, tid: pl.Series) -> npt.NDArray[np.int64]:
    """Return one number for each process and thread, the same in every call; -1 is an unknown thread."""
    process = pid.fill_null(-1).to_numpy().astype(np.int64, copy=False)
    thread = tid.fill_null(-1).to_numpy().astype(np.int64, copy=False)
    # Thread ids of Linux and Windows take 32 bits, process ids fewer than 31.
    codes = (process & 0x7FFFFFFF) << 32
    codes |= thread & 0xFFFFFFFF
    codes[thread == -1] = -1
    return codes


def nest(
    rows: pl.DataFrame,
    *,
    order: npt.NDArray[np.int32] | None = None,
    after_block: Callable[[], None] = lambda: None,
) -> Nesting:
    """Nest rows with ``pid``, ``tid``, ``start_ns`` and ``duration_ns`` (none of the times null), with `SLACK_NS`.

    Args:
        rows: The rows.
        order: Their order by start, if known; equal ones that come first enclose the others.
        after_block: Called after each block of rows, to release memory.
    """
    pid, tid = rows["pid"], rows["tid"]
    start, duration = (rows[name].to_numpy().astype(np.int64, copy=False) for name in ("start_ns", "duration_ns"))
    return nest_by_thread(
        lambda block: thread_codes(pid[block], tid[block]),
        start,
        duration,
        order=order,
        slack=SLACK_NS,
        after_block=after_block,
    )


def enclosing_rows(nesting: Nesting, pid: pl.Series, tid: pl.Series, time_ns: pl.Series) -> pl.Series:
    """Return the row number of the innermost row that encloses each time on a thread; null if there is none."""
    parts = [pl.Series([], dtype=pl.UInt32)]
    for start in range(0, len(time_ns), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        times = time_ns[block].fill_null(np.iinfo(np.int64).min).to_numpy().astype(np.int64, copy=False)
        parts.append(_null_if_none(nesting.innermost(thread_codes(pid[block], tid[block]), times)))
    return pl.concat(parts, rechunk=True)


def parents(nesting: Nesting) -> pl.Series:
    """Return the row number of each row's parent; null for the outermost."""
    return _null_if_none(nesting.parent)


def _null_if_none(indices: npt.NDArray[np.int64] | npt.NDArray[np.int32]) -> pl.Series:
    return pl.Series(indices.astype(np.uint32)).set(pl.Series(indices == NONE), None)


def link_ops(activities: pl.DataFrame, ops: pl.DataFrame, nesting: Nesting) -> pl.DataFrame:
    """Fill ``op`` and ``op_join`` of activities: the innermost op of the launching thread that encloses the launch.

    Args:
        activities: With the columns of `add_launch_columns`.
        ops: With ``op``; `nesting` is theirs.
        nesting: `nest` of the ops.
    """
    row = enclosing_rows(nesting, activities["launch_pid"], activities["launch_tid"], activities["launch_ns"])
    op = ops["op"].gather(row) if ops.height else row
    reason = (
        pl.when(pl.col("op").is_not_null())
        .then(pl.lit("launch", NAME))
        .when(pl.col("launch_ns").is_null())
        .then(pl.lit("launch not recorded", NAME))
        .otherwise(pl.lit("launched outside any op", NAME))
    )
    return activities.with_columns(op.alias("op")).with_columns(reason.alias("op_join"))


def iterations_at_times(marks: pl.DataFrame, time_ns: pl.Series) -> pl.Series:
    """Return the iteration that contains each time, on any thread; null between iterations and for unknown times.

    Args:
        marks: Rows of ``ranges`` that mark iterations (``iteration`` not null), which do not overlap.
        time_ns: Times; for GPU work that of its launch, since the GPU is often an iteration behind.
    """
    steps = (
        marks.select("iteration", "start_ns", end_ns=pl.col("start_ns") + pl.col("duration_ns"))
        .drop_nulls(["start_ns", "end_ns"])
        .sort("start_ns", maintain_order=True)
    )
    if steps.is_empty():
        return pl.repeat(None, len(time_ns), dtype=pl.Int32, eager=True).alias("iteration")
    step_starts, step_ends, numbers = (
        steps["start_ns"].to_numpy(),
        steps["end_ns"].to_numpy(),
        steps["iteration"].cast(pl.Int32),
    )
    parts = [pl.Series([], dtype=pl.Int32)]
    for start in range(0, len(time_ns), _BLOCK_ROWS):
        times = time_ns.slice(start, _BLOCK_ROWS).fill_null(np.iinfo(np.int64).min).to_numpy()
        positions = np.searchsorted(step_starts, times, side="right") - 1
        is_inside = (positions >= 0) & (times <= step_ends[positions])
        row = pl.Series(np.where(is_inside, positions, 0).astype(np.uint32))
        parts.append(numbers.gather(row.set(pl.Series(~is_inside), None)))
    return pl.concat(parts, rechunk=True).alias("iteration")
