"""Times of a database: nanoseconds of Unix time, 0 where the profiler had none."""

from __future__ import annotations

import polars as pl

from tui.loaders.possible_times import LONGEST_NS


def absolute(start: str = "start", end: str = "end") -> tuple[pl.Expr, pl.Expr]:
    """Columns ``start_ns``, still as Unix time, and ``duration_ns``; null where they are not known."""
    started = pl.when(pl.col(start) > 0).then(start)
    lasted = pl.when(pl.col(end) > 0).then(pl.col(end) - started)
    return started.alias("start_ns"), lasted.alias("duration_ns")


def relative(frames: tuple[pl.DataFrame, ...]) -> tuple[tuple[pl.DataFrame, ...], int | None, int]:
    """Count the times of frames from the earliest of them.

    Times that lie more than a week from the middle one are none: they become null.

    Returns:
        The frames, the Unix time that they now count from (None without any), and how many times were left out.
    """
    starts = pl.concat([frame["start_ns"] for frame in frames]).drop_nulls().sort()
    if starts.is_empty():
        return frames, None, 0
    middle = int(starts[len(starts) // 2])
    # As an expression: the ends may need more than 64 bits.
    there = pl.col("start_ns").is_between(middle - LONGEST_NS, middle + LONGEST_NS)
    near = starts.to_frame("start_ns").filter(there)["start_ns"]
    origin = int(near[0])
    counted = tuple(
        frame.with_columns(
            pl.when(there).then(pl.col("start_ns") - origin).alias("start_ns"),
            pl.when(there).then("duration_ns").alias("duration_ns"),
        )
        for frame in frames
    )
    return counted, origin, len(starts) - len(near)
