"""What PyTorch's allocator holds: what was alive at the peak, single allocations, segments and their free blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.memo import once_per_profile
from tui.model.columns import columns
from tui.model.schema import NAME
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

MEMORY_PEAK: Final = TableSpec(
    "memory_peak",
    "At the peak",
    columns("call_site", "device", "size_bytes", "peak_pct", "allocations", "largest_bytes", "stack", "session"),
    key=("session", "device", "call_site", "stack"),
    weight="size_bytes",
    pinned="call_site",
    bars=("peak_pct",),
)

MEMORY_ALLOCATIONS: Final = TableSpec(
    "memory_allocations",
    "Single allocations",
    columns(
        "call_site", "size_bytes", "lived_ns", "lived_events", "allocated_event", "freed_event", "start_ns",
        "at_peak", "address", "device", "stack", "session",
    ),
    key=("session", "allocation"),
    weight="size_bytes",
    pinned="call_site",
)  # fmt: skip

MEMORY_DEVICES: Final = TableSpec(
    "memory_devices",
    "Held at last",
    columns(
        "device", "reserved_bytes", "allocated_bytes", "active_bytes", "requested_bytes", "free_bytes",
        "largest_free_bytes", "fragmentation_pct", "segments", "blocks", "session",
    ),
    key=("session", "device"),
    pinned="device",
    pinned_least=4,
)  # fmt: skip

MEMORY_SEGMENTS: Final = TableSpec(
    "segments_held",
    "Segments",
    columns(
        "segment", "device", "segment_type", "reserved_bytes", "allocated_bytes", "active_bytes", "requested_bytes",
        "free_bytes", "largest_free_bytes", "fragmentation_pct", "blocks", "stream", "pool", "is_expandable", "address",
        "stack", "session",
    ),
    key=("session", "segment"),
    weight="reserved_bytes",
    pinned="segment",
    pinned_least=5,
)  # fmt: skip

MEMORY_BLOCKS: Final = TableSpec(
    "segment_blocks",
    "Blocks",
    columns("address", "state", "size_bytes", "requested_bytes", "call_site", "stack", "device", "segment", "session"),
    key=("session", "segment", "address"),
    weight="size_bytes",
    pinned="address",
    pinned_least=15,
)

_FRAMES: Final = ("memory_events", "memory_segments", "memory_blocks")
_OF: Final = ("session", "device")
_INACTIVE: Final = "inactive"


@once_per_profile(*_FRAMES)
def memory_allocations(profile: Profile) -> pl.DataFrame:
    """Single allocations of the sessions that have a memory snapshot, largest first.

    Columns: session, device, allocation (a number), address, size_bytes (as requested), allocated_event and freed_event
    (places in the trace of the device, from 0; null: before the trace, or not by its end), start_ns, lived_ns (null
    where the trace does not hold both ends, or has no times), lived_events (events between them), at_peak (whether it
    was alive when most was active), call_site, stack (null of what was released without being allocated in the trace).
    """
    events = (
        profile["memory_events"]
        .filter(pl.col("action").is_not_null())
        .with_columns(number=pl.int_range(pl.len()).over(_OF), known=pl.lit(True))
    )
    place = [*_OF, "address"]
    action = pl.col("action").cast(pl.String)
    paired = (
        events.with_columns(action=action)
        .filter(pl.col("action").is_in(["alloc", "free_completed"]))
        .sort(*place, "number")
        .with_columns(
            before=pl.col("action").shift(1).over(place),
            after=pl.col("action").shift(-1).over(place),
            next_number=pl.col("number").shift(-1).over(place),
            next_ns=pl.col("start_ns").shift(-1).over(place),
        )
    )
    is_freed = pl.col("after") == "free_completed"
    made = paired.filter(pl.col("action") == "alloc").with_columns(
        allocated_event=pl.col("number"),
        freed_event=pl.when(is_freed).then("next_number"),
        lived_ns=pl.when(is_freed).then(pl.col("next_ns") - pl.col("start_ns")),
    )
    orphans = paired.filter(pl.col("action") == "free_completed", pl.col("before").ne_missing("alloc")).with_columns(
        freed_event=pl.col("number"),
        start_ns=pl.lit(None, pl.Int64),
        call_site=pl.lit(None, NAME),
        stack=pl.lit(None, NAME),
    )
    held = _active_blocks(profile).join(
        made.filter(pl.col("freed_event").is_null()), on=place, how="anti", nulls_equal=True, maintain_order="left"
    )
    peaks = (
        events.drop_nulls("active_bytes")
        .group_by(_OF)
        .agg(peak_event=pl.col("number").get(pl.col("active_bytes").arg_max()))
    )
    number, freed = pl.col("allocated_event"), pl.col("freed_event")
    alive = (number.is_null() | (number <= pl.col("peak_event"))) & (freed.is_null() | (freed > pl.col("peak_event")))
    return (
        pl.concat([made, orphans, held], how="diagonal")
        .with_columns(
            pl.col(name).cast(pl.Int64) if name in _COUNTS else pl.col(name)
            for name in (*_COUNTS, "size_bytes")
            if name in {*made.columns, *orphans.columns}
        )
        .join(peaks, on=_OF, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(
            at_peak=pl.when(pl.col("peak_event").is_null()).then(freed.is_null()).otherwise(alive),
            lived_events=freed - number,
        )
        .sort("size_bytes", descending=True, nulls_last=True, maintain_order=True)
        .with_columns(allocation=pl.int_range(pl.len()).over("session"))
        .select(
            "session", "device", "allocation", *(one.name for one in MEMORY_ALLOCATIONS.columns if one.name not in _OF)
        )
    )


def largest_allocations(profile: Profile) -> pl.DataFrame:
    """The first rows of `memory_allocations`, for a report."""
    return memory_allocations(profile).head(_LARGEST)


_LARGEST: Final = 20
_COUNTS: Final = ("allocated_event", "freed_event", "lived_ns")


def _active_blocks(profile: Profile) -> pl.DataFrame:
    """Blocks in use at the end of the recording."""
    blocks = profile["memory_blocks"]
    return blocks.filter(pl.col("state").cast(pl.String) != _INACTIVE).select(
        *_OF, "address", pl.coalesce("requested_bytes", "size_bytes").alias("size_bytes"), "call_site", "stack"
    )


@once_per_profile(*_FRAMES)
def memory_peak(profile: Profile) -> pl.DataFrame:
    """What was alive when most was active, by the stack that allocated it, largest first.

    Columns: session, device, call_site, stack, size_bytes, peak_pct (of all that was alive), allocations,
    largest_bytes. Where there is no trace it is what the allocator holds at last.
    """
    size = pl.col("size_bytes")
    return (
        memory_allocations(profile)
        .filter("at_peak")
        .group_by("session", "device", "call_site", "stack", maintain_order=True)
        .agg(size.sum(), pl.len().cast(pl.Int64).alias("allocations"), size.max().alias("largest_bytes"))
        .with_columns(peak_pct=100 * size / size.sum().over(_OF))
        .sort("size_bytes", descending=True, maintain_order=True)
        .select(column.name for column in MEMORY_PEAK.columns)
    )


@once_per_profile(*_FRAMES)
def segments_held(profile: Profile) -> pl.DataFrame:
    """The segments of the allocator with their free blocks, largest first.

    ``free_bytes`` is reserved - active, ``largest_free_bytes`` the largest free block and ``fragmentation_pct`` the
    share of free bytes outside of it: 100 * (1 - largest / free).
    """
    blocks = profile["memory_blocks"]
    is_free = pl.col("state").cast(pl.String) == _INACTIVE
    of_segment = blocks.group_by("session", "segment").agg(
        pl.len().cast(pl.Int64).alias("blocks"),
        pl.col("size_bytes").filter(is_free).max().fill_null(0).alias("largest_free_bytes"),
    )
    return (
        profile["memory_segments"]
        .join(of_segment, on=["session", "segment"], how="left", maintain_order="left")
        .with_columns(free_bytes=pl.col("reserved_bytes") - pl.col("active_bytes"))
        .with_columns(_fragmentation())
        .sort("reserved_bytes", descending=True, nulls_last=True, maintain_order=True)
        .select(column.name for column in MEMORY_SEGMENTS.columns)
    )


def _fragmentation() -> pl.Expr:
    free, largest = pl.col("free_bytes"), pl.col("largest_free_bytes")
    return pl.when(free > 0).then(100 * (1 - largest / free)).clip(0, 100).alias("fragmentation_pct")


@once_per_profile(*_FRAMES)
def memory_devices(profile: Profile) -> pl.DataFrame:
    """What the allocator holds of each GPU at the end of the recording: sums of `segments_held`."""
    sums = ("reserved_bytes", "allocated_bytes", "active_bytes", "requested_bytes", "free_bytes", "blocks")
    return (
        segments_held(profile)
        .group_by(_OF)
        .agg(
            *(pl.col(name).sum() for name in sums),
            pl.col("largest_free_bytes").max(),
            pl.len().cast(pl.Int64).alias("segments"),
        )
        .with_columns(_fragmentation())
        .select(column.name for column in MEMORY_DEVICES.columns)
        .sort(_OF)
    )


def segment_blocks(profile: Profile, session: int, segment: int) -> pl.DataFrame:
    """The blocks of a segment, by address."""
    rows = profile["memory_blocks"].filter(pl.col("session") == session, pl.col("segment") == segment)
    return rows.sort("address").select(column.name for column in MEMORY_BLOCKS.columns)
