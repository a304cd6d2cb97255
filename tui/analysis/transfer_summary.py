"""Memcpy and memset by direction, memory kind and size, against the hardware's bandwidth; unified memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.copies import NO_SIZE, SET, SIZE_CLASSES, direction_of_name, moves
from tui.analysis.durations import share, total, whole
from tui.analysis.kernels import aggregated, kernels
from tui.model.columns import ColumnKind, columns
from tui.model.schema import NAME
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile


NO_BANDWIDTH: Final = "GPU memory bandwidth unknown"
NO_LINK: Final = "host link bandwidth not recorded"
NO_PEER_LINK: Final = "GPU-to-GPU link bandwidth not recorded"
NO_CEILING: Final = "peak rate of this kind of copy unknown"
NODIRECTION: Final = "copy direction not recorded"

_OF_COPIES: Final = replace(
    columns("time_pct")[0], title="Of copies", help="Share of the session's memcpy and memset time."
)

TRANSFERS: Final = TableSpec(
    "transfers",
    "Transfers",
    (
        columns("copy_kind")[0],
        # Whether host memory is pinned says most of a slow copy.
        *(replace(column, priority=3) for column in columns("src_memory", "dst_memory")),
        *columns("calls", "total_ns"),
        _OF_COPIES,
        *columns("size_bytes", "achieved", "ceiling", "ceiling_pct", "impossible"),
        replace(columns("why")[0], title="No peak because", help="Why the peak rate is unknown."),
        *columns("kind", "device", "session"),
    ),
    key=("session", "device", "kind", "copy_kind", "src_memory", "dst_memory"),
    sort=(("total_ns", True),),
    weight="total_ns",
    pinned="copy_kind",
    pinned_least=5,
)

TRANSFER_SIZES: Final = TableSpec(
    "transfer_sizes",
    "Transfers by size",
    (
        *columns("copy_kind", "size_class", "calls", "calls_pct", "total_ns"),
        _OF_COPIES,
        *columns("size_bytes", "achieved", "impossible", "session"),
    ),
    key=("session", "copy_kind", "size_class"),
    weight="total_ns",
    pinned="copy_kind",
    pinned_least=5,
)


def _transfer_sums() -> list[pl.Expr]:
    """calls, total_ns, size_bytes, achieved (without impossible rates), impossible."""
    counted = pl.col("known") & ~pl.col("impossible").fill_null(False)
    return [
        pl.len().cast(pl.Int64).alias("calls"),
        total().alias("total_ns"),
        total("size_bytes").alias("size_bytes"),
        pl.when(counted.any())
        .then(1e9 * pl.col("size_bytes").filter(counted).sum() / pl.col("duration_ns").filter(counted).sum())
        .alias("achieved"),
        # Those of no known size or duration have no rate; of one with a rate but no limit it is unknown.
        pl.when(pl.col("known").any() & pl.col("impossible").filter("known").is_not_null().all())
        .then(pl.col("impossible").sum().cast(pl.Int64))
        .alias("impossible"),
    ]


def transfers(profile: Profile) -> pl.DataFrame:
    """Copies and sets by direction and kinds of memory, most time first.

    One row per session, device, kind (memcpy, memset or um), copy_kind (HtoD, ..., `SET`), src_memory and dst_memory.
    Columns: those, and calls, total_ns, time_pct (share of the session's copies and sets), size_bytes, achieved (bytes
    per second: size / duration over those of which both are known), ceiling (what the hardware can do), ceiling_pct,
    impossible (how many of these moved faster than `IMPOSSIBLE` x the bandwidth of the GPU's memory: they are left
    out of ``achieved``; null where there are none of these, or the bandwidth is not known), why (there is no ceiling).

    The ceiling of a memset is the bandwidth of the GPU's memory, that of a copy within it half of that, since every
    byte is read and written. A session without single activities has its rows from the log's own table: without sizes.
    """
    activities = profile["activities"]
    by = ("session", "device", "kind", "copy_kind", "src_memory", "dst_memory")
    single = moves(profile).lazy().group_by(by).agg(*_transfer_sums(), pl.col("limit").first()).collect()
    recorded = (
        aggregated(profile, "gpu", without=activities["session"])
        .filter(pl.col("kind").cast(pl.String).is_in(["memcpy", "memset"]))
        .with_columns(
            pl.when(pl.col("kind") == "memset").then(pl.lit(SET)).otherwise(direction_of_name()).alias("copy_kind")
        )
        .group_by("session", "kind", "copy_kind")
        .agg(whole("calls").alias("calls"), total("total_ns").alias("total_ns"))
    )
    direction, limit = pl.col("copy_kind"), pl.col("limit")
    within = direction == "DtoD"
    return (
        pl.concat([single, recorded], how="diagonal")
        .with_columns(
            share(),
            pl.when(direction == SET).then(limit).when(within).then(limit / 2).alias("ceiling"),
            pl.when((within | (direction == SET)) & limit.is_null())
            .then(pl.lit(NO_BANDWIDTH))
            .when(direction.is_in(["HtoD", "DtoH", "HtoA", "AtoH"]))
            .then(pl.lit(NO_LINK))
            .when(direction == "PtoP")
            .then(pl.lit(NO_PEER_LINK))
            .when(direction.is_null())
            .then(pl.lit(NODIRECTION))
            .when(~(within | (direction == SET)))
            .then(pl.lit(NO_CEILING))
            .alias("why"),
        )
        .with_columns((100 * pl.col("achieved") / pl.col("ceiling")).alias("ceiling_pct"))
        .with_columns(pl.col("copy_kind", "src_memory", "dst_memory").cast(NAME))
        .select(
            *by,
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
        .sort("total_ns", *by, descending=[True] + [False] * len(by), nulls_last=True)
    )


def transfer_sizes(profile: Profile) -> pl.DataFrame:
    """Copies and sets by direction and size: one row per session, copy_kind and class of `SIZE_CLASSES`, by size.

    Columns: session, copy_kind, size_class (`NO_SIZE` where the input does not tell sizes), least_bytes (of the
    class), calls, calls_pct (share of those of this direction), total_ns, time_pct (share of the session's copies and
    sets), size_bytes, achieved, impossible (see `transfers`).
    """
    size, least = pl.col("size_bytes"), [bytes_ for bytes_, _ in SIZE_CLASSES]
    at = pl.sum_horizontal((size >= bound).cast(pl.Int64) for bound in least) - 1
    names = pl.DataFrame(
        {"class": range(len(SIZE_CLASSES)), "least_bytes": least, "size_class": [name for _, name in SIZE_CLASSES]},
        schema_overrides={"class": pl.Int64, "least_bytes": pl.Int64},
    )
    of_direction = pl.col("calls").sum().over("session", "copy_kind")
    return (
        moves(profile)
        .with_columns(pl.when(size >= 0).then(at).alias("class"))
        .group_by("session", "copy_kind", "class")
        .agg(*_transfer_sums())
        .join(names, on="class", how="left")
        .with_columns(share(), (100 * pl.col("calls") / of_direction).alias("calls_pct"))
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
    """How much of its GPU time each session spends in copies: from single activities, or the log's own totals.

    Columns: session, gpu_ns (summed durations of all GPU work), kernels_ns, copies_ns (memcpy), sets_ns, copies_pct (of
    gpu_ns).
    """
    of_kind = {
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
            *(pl.col("total_ns").filter(kind.is_in(kinds)).sum().alias(name) for name, kinds in of_kind.items()),
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
    # The input's own sums do not tell the GPU: of several, their lines tell them apart.
    key=("session", "device", "name", "line"),
)


def unified_memory(profile: Profile) -> pl.DataFrame:
    """Unified memory by name, most time first: from single work, else as the input summed it up.

    Columns: session, device, name, calls, total_ns, size_bytes, avg_ns, min_ns, max_ns, line. A session that has single
    work of unified memory has its rows from that alone.
    """
    by = ("session", "device", "name")
    single = (
        profile["activities"]
        .filter(pl.col("kind") == "um")
        .group_by(by)
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
        .select("session", "name", "calls", "total_ns", "avg_ns", "min_ns", "max_ns", "line")
    )
    return (
        pl.concat([single, summed], how="diagonal")
        .select(*by, "calls", "total_ns", "size_bytes", "avg_ns", "min_ns", "max_ns", "line")
        .sort("total_ns", *by, descending=[True, False, False, False], nulls_last=True)
    )
