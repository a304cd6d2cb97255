"""Single copies and memsets: direction, size, throughput, impossible rates, and bursts of small copies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import share, total, whole
from tui.analysis.grouping import partition_by_session
from tui.analysis.inputs.devices import device_facts
from tui.analysis.kernels import aggregated
from tui.analysis.memo import once_per_profile
from tui.model.columns import columns
from tui.model.schema import NAME
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile


_SHORT: Final = r"([HDPA]to[HDPA])\]?$"
"""At the end of a name, as ``[CUDA memcpy HtoD]``."""
_PLACE: Final = "(Host|Device|Peer|Array|HOST|DEVICE|PEER|ARRAY)"
_LONG: Final = rf"{_PLACE}[-_]?(?:to|To|TO)[-_]?{_PLACE}\]?$"
"""The same in words, as ``[CUDA memcpy Host-to-Device]``, ``CopyHostToDevice``, ``MEMORY_COPY_HOST_TO_DEVICE``."""


def direction_of_name() -> pl.Expr:
    """What the column ``name`` tells, as ``HtoD``; null where it tells nothing."""
    name = pl.col("name").cast(pl.String)
    places = [name.str.extract(_LONG, place).str.slice(0, 1) for place in (1, 2)]
    return pl.coalesce(name.str.extract(_SHORT), pl.format("{}to{}", *places))


def with_directions(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with ``copy_kind`` as text: where it is null, what ``name`` tells."""
    # Each name is examined once, however many rows have it.
    untold = rows.filter(pl.col("copy_kind").is_null())["name"].unique().to_frame()
    named = untold.with_columns(direction_of_name().alias("named"))
    return (
        rows.join(named, on="name", how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pl.coalesce(pl.col("copy_kind").cast(pl.String), "named").alias("copy_kind"))
        .drop("named")
    )


SET: Final = "set"
"""The direction of a memset."""

IMPOSSIBLE: Final = 1.05
"""What moves faster than so many times the bandwidth of the GPU's memory was not measured right."""

SIZE_CLASSES: Final = (
    (0, "< 4 KiB"),
    (4 << 10, "4 to 64 KiB"),
    (64 << 10, "64 KiB to 1 MiB"),
    (1 << 20, "1 to 16 MiB"),
    (16 << 20, "16 to 256 MiB"),
    (256 << 20, "256 MiB and more"),
)
"""The least size of each class, and its name."""

NO_SIZE: Final = "not recorded"
"""The class of what the input does not tell the size of."""

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


_OF_ACTIVITY: Final = (
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
"""What is told of each as the frame ``activities`` has it."""


@once_per_profile("activities", "devices", "sessions", "api_calls")
def moves(profile: Profile) -> pl.DataFrame:
    """Every copy and memset, and every migration of unified memory whose direction is known, by session and start.

    Columns: those of ``activities`` that tell of it, copy_kind (`SET` for memsets), src_memory, dst_memory, known
    (both size and a duration above 0 are), limit (bandwidth of the GPU's memory), impossible (null: is unknown,
    since the limit, the size or the duration is not known).
    """
    is_set = pl.col("kind") == "memset"
    limits = device_facts(profile).select("session", "device", pl.col("memory_bandwidth").alias("limit"))
    rate = 1e9 * pl.col("size_bytes") / pl.col("duration_ns")
    known = pl.col("size_bytes").is_not_null() & (pl.col("duration_ns") > 0).fill_null(False)
    rows = profile["activities"].select(*_OF_ACTIVITY, "copy_kind", "src_memory", "dst_memory")
    return (
        with_directions(rows.filter((pl.col("kind") == "memcpy") | is_set | (pl.col("kind") == "um")))
        .lazy()
        .select(
            *_OF_ACTIVITY,
            pl.when(is_set).then(pl.lit(SET)).otherwise("copy_kind").alias("copy_kind"),
            pl.when(~is_set).then(pl.col("src_memory").cast(pl.String)).alias("src_memory"),
            pl.when(is_set)
            .then(pl.coalesce(pl.col("dst_memory").cast(pl.String), pl.col("src_memory").cast(pl.String)))
            .otherwise(pl.col("dst_memory").cast(pl.String))
            .alias("dst_memory"),
        )
        .filter((pl.col("kind") == "memcpy") | is_set | ((pl.col("kind") == "um") & pl.col("copy_kind").is_not_null()))
        .join(limits.lazy(), on=["session", "device"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(known.alias("known"))
        .with_columns(
            pl.when("known").then(rate > IMPOSSIBLE * pl.col("limit")).alias("impossible"),
        )
        .collect()
    )


def single_transfers(profile: Profile, *which: pl.Expr, size_class: str | None = None) -> pl.DataFrame:
    """Single copies and sets, in time order.

    Columns: session, activity, kind, name, start_ns, duration_ns, device, stream, iteration, correlation, line,
    size_bytes, copy_kind (`SET` for memsets), src_memory, dst_memory, rate (bytes per second: size / duration, null
    where one of them is not known), is_impossible (as `moves`).

    Args:
        profile: Where to look.
        which: Conditions on these columns; none: all of them.
        size_class: One of `SIZE_CLASSES`, or `NO_SIZE`; None: of any size.
    """
    found = moves(profile).filter(*which) if which else moves(profile)
    if size_class is not None:
        found = found.filter(_of_class(size_class))
    return found.select(
        *_OF_ACTIVITY,
        pl.col("copy_kind", "src_memory", "dst_memory").cast(NAME),
        pl.when("known").then(1e9 * pl.col("size_bytes") / pl.col("duration_ns")).alias("rate"),
        pl.col("impossible").alias("is_impossible"),
    )


def _of_class(name: str) -> pl.Expr:
    """Whether the size of a copy is in a class."""
    size = pl.col("size_bytes")
    names = [own for _, own in SIZE_CLASSES]
    if name not in names:
        return size.is_null() | (size < 0)
    place = names.index(name)
    inside: pl.Expr = size >= SIZE_CLASSES[place][0]
    return inside & (size < SIZE_CLASSES[place + 1][0]) if place + 1 < len(SIZE_CLASSES) else inside


def impossible_rates(profile: Profile) -> pl.DataFrame:
    """Memcpy and memset that moved faster than `IMPOSSIBLE` x the bandwidth of the GPU's memory, the fastest first.

    Columns: session, activity, kind, name, copy_kind, device, start_ns, duration_ns, size_bytes, rate (bytes per
    second), limit (the bandwidth), factor (rate / limit).
    """
    rate = 1e9 * pl.col("size_bytes") / pl.col("duration_ns")
    return (
        moves(profile)
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
    """Copies by direction, the longest first: one row per session, kind (memcpy or um) and copy_kind.

    Columns: session, kind, copy_kind (HtoD, DtoH, ...; null where it is not recorded), calls, total_ns, time_pct
    (share of the session's copy time), size_bytes, throughput (size / duration over the copies of which both are known,
    in bytes per second). A session without single activities has its rows from the log's own table: without sizes.
    """
    return (
        copy_sums(profile)
        .select("session", "kind", "copy_kind", "calls", "total_ns", "size_bytes", throughput())
        .with_columns(share())
        .sort("total_ns", "copy_kind", "kind", "session", descending=[True, False, False, False], nulls_last=True)
    )


def throughput() -> pl.Expr:
    """Bytes per second of the columns moved_bytes and moving_ns; null where no copy has both."""
    return (1e9 * pl.col("moved_bytes") / pl.col("moving_ns")).alias("throughput")


def copy_sums(profile: Profile) -> pl.DataFrame:
    """What adds up over rows of `copies`: one row per session, kind and copy_kind, in no order.

    Columns: those, calls, total_ns, size_bytes, moved_bytes and moving_ns (size and duration of the copies of which
    both are known; null where there are none).
    """
    activities = profile["activities"]
    both = pl.col("size_bytes").is_not_null() & (pl.col("duration_ns") > 0)
    # By name first: what tells the direction is examined once for each.
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
                pl.when(both.any()).then(pl.col(name).filter(both).sum()).alias(moved)
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
    recorded = (
        aggregated(profile, "gpu", without=activities["session"])
        .filter(pl.col("kind") == "memcpy")
        .with_columns(direction_of_name().alias("copy_kind"))
        .group_by("session", "kind", "copy_kind")
        .agg(
            whole("calls").alias("calls"),
            total("total_ns").alias("total_ns"),
            *(pl.lit(None, pl.Int64).alias(name) for name in ("size_bytes", "moved_bytes", "moving_ns")),
        )
    )
    return pl.concat([single, recorded])


TINY_BYTES: Final = 64 << 10
"""Smaller copies cost what a call costs, whatever their size."""
TINY_NS: Final = 1_000_000
RUN_GAP_NS: Final = 1_000_000
"""Tiny copies closer than this follow each other."""
RUN_LEAST: Final = 3

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
    parts = partition_by_session(timed).values() if timed.select(tiny.any()).item() else [timed.clear()]
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
