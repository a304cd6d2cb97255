"""Single copies and sets: how large, how fast, and which of them cannot have been measured right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.inputs.devices import device_facts
from tui.analysis.memo import once_per_profile
from tui.analysis.transfers.directions import with_directions
from tui.model.columns import columns
from tui.model.schema import NAME
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

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
    "Copies and sets",
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
    (both size and a duration above 0 are), limit (bandwidth of the GPU's memory), impossible (null: cannot be told,
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
    """Copies and sets that moved faster than `IMPOSSIBLE` x the bandwidth of the GPU's memory, the fastest first.

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
