"""Tiny copies back to back, which one larger copy could do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.by_session import by_session
from tui.analysis.memo import once_per_profile
from tui.model.columns import columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

TINY_BYTES: Final = 64 << 10
"""Smaller copies cost what a call costs, whatever their size."""
TINY_NS: Final = 1_000_000
RUN_GAP_NS: Final = 1_000_000
"""Tiny copies closer than this follow each other."""
RUN_LEAST: Final = 3

TINY_RUNS: Final = TableSpec(
    "tiny_runs",
    "Runs of tiny copies",
    (
        replace(columns("start_ns")[0], help="When the first copy began, since the clock zero of the input."),
        replace(columns("duration_ns")[0], help="From the begin of the first copy to the end of the last."),
        *columns("calls", "size_bytes", "total_ns", "copy_kind", "device", "stream", "session", "activity"),
    ),
    key=("session", "activity"),
    sort=(("duration_ns", True),),
    weight="duration_ns",
    pinned="start_ns",
)


@once_per_profile("activities", "sessions")
def tiny_runs(profile: Profile) -> pl.DataFrame:
    """Runs of `RUN_LEAST` tiny copies or more back to back, the longest first: one larger copy could do.

    Of the work of one stream, copies of one direction follow each other with nothing else between, each smaller than
    `TINY_BYTES` and shorter than `TINY_NS`, less than `RUN_GAP_NS` apart.

    Columns: session, device, stream, copy_kind, activity (the first one), start_ns, duration_ns (to the end of the
    last), calls, size_bytes, total_ns (of the copies).
    """
    by = ("session", "device", "stream")
    end = pl.col("start_ns") + pl.col("duration_ns")
    tiny = (
        (pl.col("kind") == "memcpy")
        & pl.col("copy_kind").is_not_null()
        & (pl.col("size_bytes") < TINY_BYTES)
        & (pl.col("duration_ns") < TINY_NS)
    ).fill_null(False)
    same = pl.col("copy_kind").to_physical().eq_missing(pl.col("copy_kind").to_physical().shift(1))
    goes_on = tiny & tiny.shift(1) & same & (pl.col("start_ns") - end.shift(1) < RUN_GAP_NS)
    columns_ = ("activity", "kind", "copy_kind", "start_ns", "duration_ns", "size_bytes")
    timed = profile["activities"].select(*by, *columns_)
    parts = by_session(timed).values() if timed.select(tiny.any()).item() else [timed.clear()]
    runs = [
        part.drop_nulls(["start_ns", "duration_ns"])
        .sort(*by, "start_ns", maintain_order=True)
        .with_columns(
            goes_on=goes_on & ~pl.struct(by).ne_missing(pl.struct(by).shift(1)),
            tiny=tiny,
        )
        .with_columns((~pl.col("goes_on").fill_null(False)).cum_sum().alias("run"))
        .filter("tiny")
        .group_by("run", maintain_order=True)
        .agg(
            *(pl.col(name).first() for name in (*by, "copy_kind", "activity", "start_ns")),
            (end.max() - pl.col("start_ns").first()).alias("duration_ns"),
            pl.len().cast(pl.Int64).alias("calls"),
            pl.col("size_bytes").sum(),
            pl.col("duration_ns").sum().alias("total_ns"),
        )
        .filter(pl.col("calls") >= RUN_LEAST)
        .drop("run")
        for part in parts
    ]
    return pl.concat(runs).sort("duration_ns", descending=True, maintain_order=True)
