"""Copies and memsets: single ones, bursts of small ones, and their sums by direction, memory kind and size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.devices import device_facts
from tui.analysis.durations import complete_sum, share, total, total_where
from tui.analysis.grouping import partition_by_session
from tui.analysis.kernels import kernels, summary_rows
from tui.analysis.memo import once_per_profile
from tui.model.columns import ColumnKind, columns
from tui.model.names import copy_kind
from tui.model.schema import NAME
from tui.model.table_spec import TableSpec
from tui.text import map_distinct

if TYPE_CHECKING:
    from tui.model.profile import Profile


def with_directions(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with ``copy_kind`` as text; where it is null, the direction in ``name``."""
    recorded = pl.col("copy_kind").cast(pl.String)
    return rows.with_columns(pl.coalesce(recorded, _name_directions(rows)).alias("copy_kind"))


def _name_directions(rows: pl.DataFrame) -> pl.Series:
    """Return the direction in each ``name``, as ``HtoD``; null if there is none."""
    return map_distinct(rows["name"], copy_kind, NAME).cast(pl.String)


SET: Final = "set"
"""The direction of a memset."""

IMPOSSIBLE: Final = 1.05
"""A rate above this multiple of the GPU's memory bandwidth is a measurement error."""

SIZE_CLASSES: Final = (
    (0, "< 4 KiB"),
    (4 << 10, "4 to 64 KiB"),
    (64 << 10, "64 KiB to 1 MiB"),
    (1 << 20, "1 to 16 MiB"),
    (16 << 20, "16 to 256 MiB"),
    (256 << 20, "256 MiB and more"),
)
"""The minimum size and the name of each class."""

NO_SIZE: Final = "not recorded"
"""The class of work of unknown size."""

SINGLE_TRANSFERS: Final = TableSpec(
    "single_transfers",
    "Memcpy and memset",
    columns(
        "start_ns",
        "duration_ns",
        "size_bytes",
        "rate",
        "is_impossible",
        "copy_kind",
        "src_memory",
        "dst_memory",
        "stream",
        "iteration",
        "correlation",
        "name",
        "kind",
        "device",
        "session",
        "line",
        "activity",
    ),
    key=("session", "activity"),
    weight="duration_ns",
    pinned="start_ns",
)


_ACTIVITY_COLUMNS: Final = (
    "session",
    "activity",
    "kind",
    "name",
    "start_ns",
    "duration_ns",
    "device",
    "stream",
    "iteration",
    "correlation",
    "line",
    "size_bytes",
)
"""Columns taken from the frame ``activities``."""


@once_per_profile("activities", "devices", "sessions", "api_calls")
def transfer_activities(profile: Profile) -> pl.DataFrame:
    """Return every memcpy, memset and unified memory migration with a known direction, by session and start.

    Columns: those of ``activities``, copy_kind (`SET` for memsets), src_memory, dst_memory, known (both size and a
    duration above 0 are), limit (bandwidth of the GPU's memory), impossible (null if the limit, the size or the
    duration is unknown).
    """
    is_set = pl.col("kind") == "memset"
    limits = device_facts(profile).select("session", "device", pl.col("memory_bandwidth").alias("limit"))
    rate = 1e9 * pl.col("size_bytes") / pl.col("duration_ns")
    is_known = pl.col("size_bytes").is_not_null() & (pl.col("duration_ns") > 0).fill_null(False)
    rows = profile["activities"].select(*_ACTIVITY_COLUMNS, "copy_kind", "src_memory", "dst_memory")
    return (
        with_directions(rows.filter((pl.col("kind") == "memcpy") | is_set | (pl.col("kind") == "um")))
        .lazy()
        .select(
            *_ACTIVITY_COLUMNS,
            pl.when(is_set).then(pl.lit(SET)).otherwise("copy_kind").alias("copy_kind"),
            pl.when(~is_set).then(pl.col("src_memory").cast(pl.String)).alias("src_memory"),
            pl.when(is_set)
            .then(pl.coalesce(pl.col("dst_memory").cast(pl.String), pl.col("src_memory").cast(pl.String)))
            .otherwise(pl.col("dst_memory").cast(pl.String))
            .alias("dst_memory"),
        )
        .filter((pl.col("kind") == "memcpy") | is_set | ((pl.col("kind") == "um") & pl.col("copy_kind").is_not_null()))
        .join(limits.lazy(), on=["session", "device"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(is_known.alias("known"))
        .with_columns(
            pl.when("known").then(rate > IMPOSSIBLE * pl.col("limit")).alias("impossible"),
        )
        .collect()
    )


def single_transfers(profile: Profile, *conditions: pl.Expr, size_class: str | None = None) -> pl.DataFrame:
    """Return single memcpy and memset activities, in time order.

    Columns: session, activity, kind, name, start_ns, duration_ns, device, stream, iteration, correlation, line,
    size_bytes, copy_kind (`SET` for memsets), src_memory, dst_memory, rate (bytes per second: size / duration, null
    where one of them is not known), is_impossible (as `transfer_activities`).

    Args:
        profile: The profile.
        *conditions: Conditions on these columns; none: all of them.
        size_class: One of `SIZE_CLASSES`, or `NO_SIZE`; None: of any size.
    """
    rows = transfer_activities(profile).filter(*conditions) if conditions else transfer_activities(profile)
    if size_class is not None:
        rows = rows.filter(_is_in_size_class(size_class))
    return rows.select(
        *_ACTIVITY_COLUMNS,
        pl.col("copy_kind", "src_memory", "dst_memory").cast(NAME),
        pl.when("known").then(1e9 * pl.col("size_bytes") / pl.col("duration_ns")).alias("rate"),
        pl.col("impossible").alias("is_impossible"),
    )


def _is_in_size_class(name: str) -> pl.Expr:
    """Return the condition for copies whose size is in a class."""
    size = pl.col("size_bytes")
    names = [class_name for _, class_name in SIZE_CLASSES]
    if name not in names:
        return size.is_null() | (size < 0)
    index = names.index(name)
    inside: pl.Expr = size >= SIZE_CLASSES[index][0]
    return inside & (size < SIZE_CLASSES[index + 1][0]) if index + 1 < len(SIZE_CLASSES) else inside


def impossible_rates(profile: Profile) -> pl.DataFrame:
    """Return memcpy and memset that were faster than `IMPOSSIBLE` times the GPU's memory bandwidth, fastest first.

    Columns: session, activity, kind, name, copy_kind, device, start_ns, duration_ns, size_bytes, rate (bytes per
    second), limit (the bandwidth), factor (rate / limit).
    """
    rate = 1e9 * pl.col("size_bytes") / pl.col("duration_ns")
    return (
        transfer_activities(profile)
        .filter(pl.col("impossible").fill_null(False))
        .with_columns(rate.alias("rate"), (rate / pl.col("limit")).alias("factor"))
        .select(
            "session",
            "activity",
            "kind",
            "name",
            "copy_kind",
            "device",
            "start_ns",
            "duration_ns",
            "size_bytes",
            "rate",
            "limit",
            "factor",
        )
        .sort("factor", "activity", descending=[True, False])
    )


def copies(profile: Profile) -> pl.DataFrame:
    """Return copies by direction, the longest first: one row per session, kind (memcpy or um) and copy_kind.

    Columns: session, kind, copy_kind (HtoD, DtoH, ...; null if it is not recorded), calls, total_ns, time_pct
    (share of the session's copy time), size_bytes, throughput (size / duration over the copies of which both are known,
    in bytes per second). A session without single activities has its rows from the log's own table: without throughput,
    since printed sizes are rounded.
    """
    return (
        copy_sums(profile)
        .select("session", "kind", "copy_kind", "calls", "total_ns", "size_bytes", throughput())
        .with_columns(share())
        .sort("total_ns", "copy_kind", "kind", "session", descending=[True, False, False, False], nulls_last=True)
    )


def throughput() -> pl.Expr:
    """Return bytes per second of the columns moved_bytes and moving_ns; null if no copy has both."""
    return (1e9 * pl.col("moved_bytes") / pl.col("moving_ns")).alias("throughput")


def copy_sums(profile: Profile) -> pl.DataFrame:
    """Return the additive columns of `copies`: one row per session, kind and copy_kind, in no order.

    Columns: those, calls, total_ns, size_bytes, moved_bytes and moving_ns (size and duration of the copies of which
    both are known; null if there are none).
    """
    activities = profile["activities"]
    has_rate = pl.col("size_bytes").is_not_null() & (pl.col("duration_ns") > 0)
    # By name first: each distinct name is examined once.
    by_name = (
        activities.lazy()
        .select("session", "kind", "copy_kind", "name", "duration_ns", "size_bytes")
        .filter((pl.col("kind") == "memcpy") | (pl.col("kind") == "um"))
        .group_by("session", "kind", "copy_kind", "name")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            total().alias("total_ns"),
            total("size_bytes").alias("size_bytes"),
            *(
                pl.when(has_rate.any()).then(pl.col(name).filter(has_rate).sum()).alias(moved)
                for name, moved in (("size_bytes", "moved_bytes"), ("duration_ns", "moving_ns"))
            ),
        )
        .collect()
    )
    single = (
        with_directions(by_name)
        .filter((pl.col("kind") == "memcpy") | pl.col("copy_kind").is_not_null())
        .group_by("session", "kind", "copy_kind")
        .agg(
            pl.col("calls").sum(),
            total("total_ns").alias("total_ns"),
            total("size_bytes").alias("size_bytes"),
            total("moved_bytes").alias("moved_bytes"),
            total("moving_ns").alias("moving_ns"),
        )
    )
    copied = summary_rows(profile, "gpu", excluded=activities["session"]).filter(pl.col("kind") == "memcpy")
    recorded = (
        copied.with_columns(_name_directions(copied).alias("copy_kind"))
        .group_by("session", "kind", "copy_kind")
        .agg(
            complete_sum("calls").alias("calls"),
            total("total_ns").alias("total_ns"),
            complete_sum("size_bytes").alias("size_bytes"),
            *(pl.lit(None, pl.Int64).alias(name) for name in ("moved_bytes", "moving_ns")),
        )
    )
    return pl.concat([single, recorded])


TINY_BYTES: Final = 64 << 10
"""The cost of smaller copies does not depend on their size."""
TINY_NS: Final = 1_000_000
RUN_GAP_NS: Final = 1_000_000
"""Tiny copies closer than this belong to the same burst."""
MIN_RUN: Final = 3

TINY_RUNS: Final = TableSpec(
    "tiny_runs",
    "Small-copy bursts",
    (
        replace(columns("start_ns")[0], help="Start of the first copy, since the clock zero of the input."),
        replace(columns("duration_ns")[0], help="From the start of the first copy to the end of the last."),
        *columns("calls", "size_bytes", "total_ns", "copy_kind", "device", "stream", "session", "activity"),
    ),
    key=("session", "activity"),
    sort=(("duration_ns", True),),
    weight="duration_ns",
    pinned="start_ns",
)


@once_per_profile("activities", "sessions")
def tiny_runs(profile: Profile) -> pl.DataFrame:
    """Return runs of at least `MIN_RUN` tiny copies back to back, the longest first; one copy could replace each.

    Copies of one direction follow each other in a stream without other work between them, each smaller than
    `TINY_BYTES` and shorter than `TINY_NS`, less than `RUN_GAP_NS` apart.

    Columns: session, device, stream, copy_kind, activity (the first one), start_ns, duration_ns (to the end of the
    last), calls, size_bytes, total_ns (of the copies).
    """
    keys = ("session", "device", "stream")
    end = pl.col("start_ns") + pl.col("duration_ns")
    tiny = (
        (pl.col("kind") == "memcpy")
        & pl.col("copy_kind").is_not_null()
        & (pl.col("size_bytes") < TINY_BYTES)
        & (pl.col("duration_ns") < TINY_NS)
    ).fill_null(False)
    same = pl.col("copy_kind").to_physical().eq_missing(pl.col("copy_kind").to_physical().shift(1))
    continues_run = tiny & tiny.shift(1) & same & (pl.col("start_ns") - end.shift(1) < RUN_GAP_NS)
    columns_ = ("activity", "kind", "copy_kind", "start_ns", "duration_ns", "size_bytes")
    timed = profile["activities"].select(*keys, *columns_)
    session_frames = partition_by_session(timed).values() if timed.select(tiny.any()).item() else [timed.clear()]
    runs = [
        rows.drop_nulls(["start_ns", "duration_ns"])
        .sort(*keys, "start_ns", maintain_order=True)
        .with_columns(
            goes_on=continues_run & ~pl.struct(keys).ne_missing(pl.struct(keys).shift(1)),
            tiny=tiny,
        )
        .with_columns((~pl.col("goes_on").fill_null(False)).cum_sum().alias("run"))
        .filter("tiny")
        .group_by("run", maintain_order=True)
        .agg(
            *(pl.col(name).first() for name in (*keys, "copy_kind", "activity", "start_ns")),
            (end.max() - pl.col("start_ns").first()).alias("duration_ns"),
            pl.len().cast(pl.Int64).alias("calls"),
            pl.col("size_bytes").sum(),
            pl.col("duration_ns").sum().alias("total_ns"),
        )
        .filter(pl.col("calls") >= MIN_RUN)
        .drop("run")
        for rows in session_frames
    ]
    return pl.concat(runs).sort("duration_ns", descending=True, maintain_order=True)


NO_BANDWIDTH: Final = "GPU memory bandwidth unknown"
NO_LINK: Final = "host link bandwidth not recorded"
NO_PEER_LINK: Final = "GPU-to-GPU link bandwidth not recorded"
NO_CEILING: Final = "peak rate of this kind of copy unknown"
NO_DIRECTION: Final = "copy direction not recorded"

_SHARE_OF_COPIES: Final = replace(
    columns("time_pct")[0], title="Share", help="Share of the session's memcpy and memset time."
)

TRANSFERS: Final = TableSpec(
    "transfers",
    "Transfers",
    (
        columns("copy_kind")[0],
        # Whether host memory is pinned explains most slow copies.
        *(replace(column, priority=3) for column in columns("src_memory", "dst_memory")),
        *columns("calls", "total_ns"),
        _SHARE_OF_COPIES,
        *columns("size_bytes", "achieved", "ceiling", "ceiling_pct", "impossible"),
        replace(columns("why")[0], title="Why no peak", help="Why the peak rate is unknown."),
        *columns("kind", "device", "session"),
    ),
    key=("session", "device", "kind", "copy_kind", "src_memory", "dst_memory"),
    sort=(("total_ns", True),),
    weight="total_ns",
    pinned="copy_kind",
    min_pinned_cells=5,
)

TRANSFER_SIZES: Final = TableSpec(
    "transfer_sizes",
    "Transfers by size",
    (
        *columns("copy_kind", "size_class", "calls", "calls_pct", "total_ns"),
        _SHARE_OF_COPIES,
        *columns("size_bytes", "achieved", "impossible", "session"),
    ),
    key=("session", "copy_kind", "size_class"),
    weight="total_ns",
    pinned="copy_kind",
    min_pinned_cells=5,
)


def _transfer_sums() -> list[pl.Expr]:
    """Return the aggregations calls, total_ns, size_bytes, achieved (without impossible rates) and impossible."""
    counted = pl.col("known") & ~pl.col("impossible").fill_null(False)
    return [
        pl.len().cast(pl.Int64).alias("calls"),
        total().alias("total_ns"),
        total("size_bytes").alias("size_bytes"),
        pl.when(counted.any())
        .then(1e9 * pl.col("size_bytes").filter(counted).sum() / pl.col("duration_ns").filter(counted).sum())
        .alias("achieved"),
        # Copies without size or duration have no rate; without a limit it is unknown whether a rate is possible.
        pl.when(pl.col("known").any() & pl.col("impossible").filter("known").is_not_null().all())
        .then(pl.col("impossible").sum().cast(pl.Int64))
        .alias("impossible"),
    ]


def transfers(profile: Profile) -> pl.DataFrame:
    """Return memcpy and memset by direction and kinds of memory, most time first.

    One row per session, device, kind (memcpy, memset or um), copy_kind (HtoD, ..., `SET`), src_memory and dst_memory.
    Columns: those, and calls, total_ns, time_pct (share of such time in the session), size_bytes, achieved (bytes
    per second: size / duration over those of which both are known), ceiling (what the hardware can do), ceiling_pct,
    impossible (the number that moved faster than `IMPOSSIBLE` x the bandwidth of the GPU's memory and are excluded from
    ``achieved``; null if there are none, or the bandwidth is unknown), why (there is no ceiling).

    The ceiling of a memset is the bandwidth of the GPU's memory, that of a copy within it half of that, since every
    byte is read and written. A session without single activities has its rows from the log's own table: without rates,
    since printed sizes are rounded.
    """
    activities = profile["activities"]
    keys = ("session", "device", "kind", "copy_kind", "src_memory", "dst_memory")
    single = (
        transfer_activities(profile).lazy().group_by(keys).agg(*_transfer_sums(), pl.col("limit").first()).collect()
    )
    moved = summary_rows(profile, "gpu", excluded=activities["session"]).filter(
        pl.col("kind").cast(pl.String).is_in(["memcpy", "memset"])
    )
    recorded = (
        moved.with_columns(
            pl.when(pl.col("kind") == "memset").then(pl.lit(SET)).otherwise(_name_directions(moved)).alias("copy_kind")
        )
        .group_by("session", "kind", "copy_kind")
        .agg(
            complete_sum("calls").alias("calls"),
            total("total_ns").alias("total_ns"),
            complete_sum("size_bytes").alias("size_bytes"),
        )
    )
    direction, limit = pl.col("copy_kind"), pl.col("limit")
    is_device_copy = direction == "DtoD"
    return (
        pl.concat([single, recorded], how="diagonal")
        .with_columns(
            share(),
            pl.when(direction == SET).then(limit).when(is_device_copy).then(limit / 2).alias("ceiling"),
            pl.when((is_device_copy | (direction == SET)) & limit.is_null())
            .then(pl.lit(NO_BANDWIDTH))
            .when(direction.is_in(["HtoD", "DtoH", "HtoA", "AtoH"]))
            .then(pl.lit(NO_LINK))
            .when(direction == "PtoP")
            .then(pl.lit(NO_PEER_LINK))
            .when(direction.is_null())
            .then(pl.lit(NO_DIRECTION))
            .when(~(is_device_copy | (direction == SET)))
            .then(pl.lit(NO_CEILING))
            .alias("why"),
        )
        .with_columns((100 * pl.col("achieved") / pl.col("ceiling")).alias("ceiling_pct"))
        .with_columns(pl.col("copy_kind", "src_memory", "dst_memory").cast(NAME))
        .select(
            *keys,
            "calls",
            "total_ns",
            "time_pct",
            "size_bytes",
            "achieved",
            "ceiling",
            "ceiling_pct",
            "impossible",
            "why",
        )
        .sort("total_ns", *keys, descending=[True] + [False] * len(keys), nulls_last=True)
    )


def transfer_sizes(profile: Profile) -> pl.DataFrame:
    """Return memcpy and memset by direction and size: one row per session, copy_kind and class of `SIZE_CLASSES`.

    Columns: session, copy_kind, size_class (`NO_SIZE` where the input does not record sizes), least_bytes (of the
    class), calls, calls_pct (share of those of this direction), total_ns, time_pct (share of the session's copies and
    sets), size_bytes, achieved, impossible (see `transfers`).
    """
    size, lower_bounds = pl.col("size_bytes"), [bytes_ for bytes_, _ in SIZE_CLASSES]
    class_index = pl.sum_horizontal((size >= bound).cast(pl.Int64) for bound in lower_bounds) - 1
    names = pl.DataFrame(
        {
            "class": range(len(SIZE_CLASSES)),
            "least_bytes": lower_bounds,
            "size_class": [name for _, name in SIZE_CLASSES],
        },
        schema_overrides={"class": pl.Int64, "least_bytes": pl.Int64},
    )
    direction_calls = pl.col("calls").sum().over("session", "copy_kind")
    return (
        transfer_activities(profile)
        .with_columns(pl.when(size >= 0).then(class_index).alias("class"))
        .group_by("session", "copy_kind", "class")
        .agg(*_transfer_sums())
        .join(names, on="class", how="left")
        .with_columns(share(), (100 * pl.col("calls") / direction_calls).alias("calls_pct"))
        .with_columns(pl.col("size_class").fill_null(NO_SIZE), pl.col("copy_kind").cast(NAME))
        .sort("session", "copy_kind", "least_bytes", nulls_last=True)
        .select(
            "session",
            "copy_kind",
            "size_class",
            "least_bytes",
            "calls",
            "calls_pct",
            "total_ns",
            "time_pct",
            "size_bytes",
            "achieved",
            "impossible",
        )
    )


def transfer_share(profile: Profile) -> pl.DataFrame:
    """Return the share of copies in the GPU time of each session, from single activities or the log's own totals.

    Columns: session, gpu_ns (summed durations of all GPU work), kernels_ns, copies_ns (memcpy), sets_ns (null if no
    duration of such work is known), copies_pct (of gpu_ns).
    """
    kinds_by_column = {
        "kernels_ns": ("kernel", "graph"),
        "copies_ns": ("memcpy",),
        "sets_ns": ("memset",),
    }
    kind = pl.col("kind").cast(pl.String)
    return (
        kernels(profile)
        .group_by("session")
        .agg(
            total("total_ns").alias("gpu_ns"),
            *(total_where(kind.is_in(kinds), "total_ns").alias(name) for name, kinds in kinds_by_column.items()),
        )
        .with_columns(
            pl.when(pl.col("gpu_ns") > 0).then(100 * pl.col("copies_ns") / pl.col("gpu_ns")).alias("copies_pct")
        )
        .sort("session")
    )


UNIFIED: Final = TableSpec(
    "unified_memory",
    "Unified memory",
    (
        replace(columns("name")[0], kind=ColumnKind.TEXT, help="Migration or page fault, as named by the input."),
        *columns("calls", "total_ns", "size_bytes", "avg_ns", "min_ns", "max_ns", "line", "device", "session"),
    ),
    # The input's own sums do not name the GPU: if there are several, their lines distinguish them.
    key=("session", "device", "name", "line"),
)


def unified_memory(profile: Profile) -> pl.DataFrame:
    """Return unified memory activity by name, most time first: from single activities, else the input's own sums.

    Columns: session, device, name, calls, total_ns, size_bytes, avg_ns, min_ns, max_ns, line. If a session records
    single activities of unified memory, its rows are sums of those.
    """
    keys = ("session", "device", "name")
    single = (
        profile["activities"]
        .filter(pl.col("kind") == "um")
        .group_by(keys)
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            total().alias("total_ns"),
            total("size_bytes").alias("size_bytes"),
            pl.col("duration_ns").mean().round().cast(pl.Int64).alias("avg_ns"),
            pl.col("duration_ns").min().alias("min_ns"),
            pl.col("duration_ns").max().alias("max_ns"),
            pl.col("line").min(),
        )
    )
    summed = (
        profile["summary"]
        .filter(pl.col("section") == "um", ~pl.col("session").is_in(single["session"].unique().implode()))
        .select("session", "name", "calls", "total_ns", "size_bytes", "avg_ns", "min_ns", "max_ns", "line")
    )
    return (
        pl.concat([single, summed], how="diagonal")
        .select(*keys, "calls", "total_ns", "size_bytes", "avg_ns", "min_ns", "max_ns", "line")
        .sort("total_ns", *keys, descending=[True, False, False, False], nulls_last=True)
    )
