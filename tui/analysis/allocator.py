"""Memory of the framework's allocator: peak, growth by iteration, and the contents of a snapshot."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.durations import complete_sum
from tui.analysis.iterations.iteration_table import with_iterations
from tui.analysis.iterations.segments import iteration_at
from tui.analysis.memo import once_per_profile
from tui.model.columns import columns
from tui.model.schema import NAME
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile


ALLOCATORS: Final = TableSpec(
    "allocators",
    "Allocator",
    columns(
        "place",
        "device",
        "peak_bytes",
        "peak_at_ns",
        "peak_iteration",
        "active_peak_bytes",
        "reserved_peak_bytes",
        "first_bytes",
        "last_bytes",
        "growth_bytes",
        "memory_bytes",
        "events",
        "session",
    ),
    key=("session", "place", "device"),
    pinned="place",
    min_pinned_cells=4,
)

ALLOCATOR_ITERATIONS: Final = TableSpec(
    "allocator_iterations",
    "By iteration",
    (
        replace(columns("iteration")[0], absent="outside"),
        *columns("peak_bytes", "peak_at_ns", "first_bytes", "last_bytes", "growth_bytes", "gained_bytes", "events"),
        *columns("place", "device", "session"),
    ),
    key=("session", "place", "device", "iteration", "number"),
    pinned="iteration",
    min_pinned_cells=10,
)

ALLOCATION_EVENTS: Final = TableSpec(
    "allocation_events",
    "Allocations",
    columns(
        *("start_ns", "action", "delta_bytes", "allocated_bytes", "active_bytes", "reserved_bytes", "call_site"),
        *("address", "stream", "place", "device", "stack", "session", "line"),
    ),
    key=("session", "number"),
    pinned="start_ns",
)

_MEMORY_KEYS: Final = ("session", "place", "device")


@once_per_profile("memory_events", "ranges", "activities", "ops", "api_calls", "sessions")
def allocations(profile: Profile) -> pl.DataFrame:
    """Return the frame ``memory_events`` with ``number`` (its row) and ``iteration`` (null outside of iterations)."""
    rows = profile["memory_events"].with_row_index("number")
    steps = with_iterations(profile).steps
    if rows.is_empty() or steps is None:
        return rows.with_columns(pl.lit(None, pl.Int32).alias("iteration"))
    return rows.with_columns(iteration_at(steps, rows["session"], rows["start_ns"]))


def _figures() -> list[pl.Expr]:
    """Return the aggregations of the events of one memory, in time order."""
    after_bytes, before_bytes = pl.col("allocated_bytes"), pl.col("allocated_bytes") - pl.col("delta_bytes")
    peak = after_bytes.arg_max()
    return [
        pl.len().cast(pl.Int64).alias("events"),
        after_bytes.max().alias("peak_bytes"),
        pl.col("start_ns").get(peak).alias("peak_at_ns"),
        pl.col("iteration").get(peak).alias("peak_iteration"),
        pl.col("active_bytes").max().alias("active_peak_bytes"),
        pl.col("reserved_bytes").max().alias("reserved_peak_bytes"),
        before_bytes.first().alias("first_bytes"),
        after_bytes.last().alias("last_bytes"),
        (after_bytes.last() - before_bytes.first()).alias("growth_bytes"),
        pl.col("delta_bytes").filter(pl.col("delta_bytes") > 0).sum().alias("gained_bytes"),
    ]


@once_per_profile("memory_events", "ranges", "activities", "ops", "api_calls", "sessions", "devices")
def allocators(profile: Profile) -> pl.DataFrame:
    """Return one row per memory (of a GPU, or of the CPU) of each session that the allocator worked on.

    Columns: session, place, device, events, peak_bytes (the most allocated after any event), peak_at_ns (when first),
    peak_iteration, active_peak_bytes, reserved_peak_bytes, first_bytes (allocated before the first event), last_bytes
    (after the last), growth_bytes (last - first: the sum of all changes), memory_bytes (of the GPU). Totals are null
    where the input has none.
    """
    sizes = profile["devices"].select("session", "device", "memory_bytes")
    return (
        allocations(profile)
        .group_by(_MEMORY_KEYS, maintain_order=True)
        .agg(_figures())
        .join(sizes, on=["session", "device"], how="left", nulls_equal=True, maintain_order="left")
        .select(column.name for column in ALLOCATORS.columns)
        .sort("session", "place", "device", descending=[False, True, False])
    )


def allocator_iterations(
    profile: Profile, *, session: int | None = None, place: str | None = None, device: int | None = None
) -> pl.DataFrame:
    """Return the columns of `allocators` for each iteration, in time order, and for the time outside of iterations.

    ``number`` is that of the first event (`allocations`).

    Args:
        profile: The profile.
        session: Of which session; None: of all memories.
        place: Of the GPU or the CPU.
        device: Of which GPU.
    """
    rows = allocations(profile)
    if session is not None:
        rows = rows.filter(is_memory(session, place, device))
    # The time between two iterations is a row of its own, apart from the time after the last one.
    interval = pl.col("iteration").ne_missing(pl.col("iteration").shift(1)).fill_null(True).cum_sum().over(_MEMORY_KEYS)
    return (
        rows.with_columns(interval.alias("interval"))
        .group_by(*_MEMORY_KEYS, "iteration", "interval", maintain_order=True)
        .agg(*_figures(), pl.col("number").first())
        .select(*(column.name for column in ALLOCATOR_ITERATIONS.columns), "number")
    )


def is_memory(session: int, place: str | None, device: int | None) -> pl.Expr:
    """Return the condition for the rows of one memory."""
    is_in_place = pl.col("place").cast(pl.String).eq_missing(pl.lit(place, pl.String))
    return (pl.col("session") == session) & is_in_place & pl.col("device").eq_missing(pl.lit(device, pl.Int32))


def memory_curve(
    profile: Profile, *, session: int, place: str | None, device: int | None, steps: int
) -> npt.NDArray[np.float64]:
    """Return the maximum of allocated bytes in each of ``steps`` equal steps, from the first event to the last.

    NaN if the input has no totals; empty if there are fewer than two events.

    >>> from tui.model.profile import build_profile
    >>> events = {"session": [0, 0, 0], "start_ns": [0, 10, 100], "allocated_bytes": [5, 9, 2]}
    >>> rows = build_profile({"memory_events": pl.DataFrame({**events, "delta_bytes": [5, 4, -7]})}, source="")
    >>> memory_curve(rows, session=0, place=None, device=None, steps=4).tolist()
    [9.0, 9.0, 9.0, 9.0]
    """
    rows = profile["memory_events"].filter(is_memory(session, place, device))
    # Without times, events are spaced evenly.
    times_ns = (
        rows["start_ns"].drop_nulls().to_numpy()
        if rows["start_ns"].null_count() < rows.height
        else np.arange(rows.height)
    )
    rows = rows.filter(pl.col("start_ns").is_not_null() | pl.col("start_ns").is_null().all())
    if len(times_ns) < 2 or times_ns[-1] <= times_ns[0] or steps < 1:
        return np.zeros(0)
    allocated = rows["allocated_bytes"].cast(pl.Float64).to_numpy()
    step_index = np.minimum(
        ((times_ns - times_ns[0]) * (steps / (times_ns[-1] - times_ns[0]))).astype(np.int64), steps - 1
    )
    # A step starts with the memory that the step before it ended with.
    maxima = np.full(steps, -1.0)
    np.maximum.at(maxima, step_index, allocated)
    last_before = np.searchsorted(step_index, np.arange(steps)) - 1
    carried = np.where(last_before >= 0, allocated[np.maximum(last_before, 0)], -1.0)
    curve: npt.NDArray[np.float64] = np.maximum(maxima, carried)
    return curve


def iteration_starts(profile: Profile, *, session: int) -> list[tuple[int, int]]:
    """Return number and start of each iteration of a session, by the clock of its CPU."""
    steps = with_iterations(profile).steps
    if steps is None:
        return []
    session_steps = (
        steps.filter(pl.col("session") == session).drop_nulls(["iteration", "cpu_start_ns"]).sort("cpu_start_ns")
    )
    return list(session_steps.select("iteration", "cpu_start_ns").iter_rows())


ALLOCATED_BY: Final = replace(columns("call_site")[0], absent="Python line not recorded")
MEMORY_PEAK: Final = TableSpec(
    "memory_peak",
    "Live memory",
    (
        ALLOCATED_BY,
        *columns("device", "size_bytes", "peak_pct", "allocations", "largest_bytes", "stack", "session"),
    ),
    key=("session", "device", "call_site", "stack"),
    weight="size_bytes",
    pinned="call_site",
    bars=("peak_pct",),
)

MEMORY_ALLOCATIONS: Final = TableSpec(
    "memory_allocations",
    "Single allocations",
    (
        ALLOCATED_BY,
        *columns(
            "size_bytes", "lived_ns", "lived_events", "allocated_event", "freed_event", "start_ns",
            "at_peak", "address", "device", "stack", "session",
        ),
    ),
    key=("session", "allocation"),
    weight="size_bytes",
    pinned="call_site",
)  # fmt: skip

MEMORY_DEVICES: Final = TableSpec(
    "memory_devices",
    "Reserved at the end",
    columns(
        "device", "reserved_bytes", "allocated_bytes", "active_bytes", "requested_bytes", "free_bytes",
        "largest_free_bytes", "fragmentation_pct", "segments", "blocks", "session",
    ),
    key=("session", "device"),
    pinned="device",
    min_pinned_cells=4,
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
    min_pinned_cells=5,
)  # fmt: skip

MEMORY_BLOCKS: Final = TableSpec(
    "segment_blocks",
    "Blocks",
    columns("address", "state", "size_bytes", "requested_bytes", "call_site", "stack", "device", "segment", "session"),
    key=("session", "segment", "address"),
    weight="size_bytes",
    pinned="address",
    min_pinned_cells=15,
)

_FRAMES: Final = ("memory_events", "memory_segments", "memory_blocks")
_BY_GPU: Final = ("session", "device")
_BY_ADDRESS: Final = (*_BY_GPU, "address")
_INACTIVE: Final = "inactive"


@once_per_profile(*_FRAMES)
def memory_allocations(profile: Profile) -> pl.DataFrame:
    """Return single allocations of the sessions that have a memory snapshot, largest first.

    Columns: session, device, allocation (a number), address, size_bytes (as requested), allocated_event and freed_event
    (places in the trace of the device, from 0; null: before the trace, or not by its end), start_ns, lived_ns (null if
    the trace lacks an end, or has no times), lived_events (events between them), at_peak (whether it was allocated at
    the peak of active memory), call_site, stack (null if the allocation is not in the trace).
    """
    events = (
        profile["memory_events"]
        .filter(pl.col("action").is_not_null())
        .with_columns(number=pl.int_range(pl.len()).over(_BY_GPU), known=pl.lit(True))
    )
    allocated, orphans = _pair_events(events)
    active = _active_blocks(profile).join(
        allocated.filter(pl.col("freed_event").is_null()),
        on=_BY_ADDRESS,
        how="anti",
        nulls_equal=True,
        maintain_order="left",
    )
    peaks = (
        events.drop_nulls("active_bytes")
        .group_by(_BY_GPU)
        .agg(peak_event=pl.col("number").get(pl.col("active_bytes").arg_max()))
    )
    number, freed = pl.col("allocated_event"), pl.col("freed_event")
    alive = (number.is_null() | (number <= pl.col("peak_event"))) & (freed.is_null() | (freed > pl.col("peak_event")))
    return (
        pl.concat([allocated, orphans, active], how="diagonal")
        .with_columns(
            pl.col(name).cast(pl.Int64) if name in _COUNTS else pl.col(name)
            for name in (*_COUNTS, "size_bytes")
            if name in {*allocated.columns, *orphans.columns}
        )
        .join(peaks, on=_BY_GPU, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(
            at_peak=pl.when(pl.col("peak_event").is_null()).then(freed.is_null()).otherwise(alive),
            lived_events=freed - number,
        )
        .sort("size_bytes", descending=True, nulls_last=True, maintain_order=True)
        .with_columns(allocation=pl.int_range(pl.len()).over("session"))
        .select(
            "session",
            "device",
            "allocation",
            *(column.name for column in MEMORY_ALLOCATIONS.columns if column.name not in _BY_GPU),
        )
    )


def _pair_events(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the allocations with the next release of their address, and the releases of earlier allocations."""
    action = pl.col("action").cast(pl.String)
    paired = (
        events.with_columns(action=action)
        .filter(pl.col("action").is_in(["alloc", "free_completed"]))
        .sort(*_BY_ADDRESS, "number")
        .with_columns(
            before=pl.col("action").shift(1).over(_BY_ADDRESS),
            after=pl.col("action").shift(-1).over(_BY_ADDRESS),
            next_number=pl.col("number").shift(-1).over(_BY_ADDRESS),
            next_ns=pl.col("start_ns").shift(-1).over(_BY_ADDRESS),
        )
    )
    is_freed = pl.col("after") == "free_completed"
    allocated = paired.filter(pl.col("action") == "alloc").with_columns(
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
    return allocated, orphans


def largest_allocations(profile: Profile) -> pl.DataFrame:
    """Return the first rows of `memory_allocations`, for a report."""
    return memory_allocations(profile).head(_LARGEST)


_LARGEST: Final = 20
_COUNTS: Final = ("allocated_event", "freed_event", "lived_ns")


def _active_blocks(profile: Profile) -> pl.DataFrame:
    """Return the blocks in use at the end of the recording."""
    blocks = profile["memory_blocks"]
    return blocks.filter(pl.col("state").cast(pl.String) != _INACTIVE).select(
        *_BY_GPU, "address", pl.coalesce("requested_bytes", "size_bytes").alias("size_bytes"), "call_site", "stack"
    )


@once_per_profile(*_FRAMES)
def memory_peak(profile: Profile) -> pl.DataFrame:
    """Return the memory at the peak of active memory by the stack that allocated it, largest first.

    Columns: session, device, call_site, stack, size_bytes, peak_pct (of all memory at the peak), allocations,
    largest_bytes. Without a trace these are the final blocks.
    """
    size = pl.col("size_bytes")
    return (
        memory_allocations(profile)
        .filter("at_peak")
        .group_by("session", "device", "call_site", "stack", maintain_order=True)
        .agg(size.sum(), pl.len().cast(pl.Int64).alias("allocations"), size.max().alias("largest_bytes"))
        .with_columns(peak_pct=100 * size / size.sum().over(_BY_GPU))
        .sort("size_bytes", descending=True, maintain_order=True)
        .select(column.name for column in MEMORY_PEAK.columns)
    )


AT_THE_END: Final = "at the end"


def peak_words(profile: Profile) -> str:
    """Return the time of `memory_peak` as words: a snapshot without a trace has only the state at its end."""
    return "at the peak" if (profile["memory_events"]["delta_bytes"] != 0).any() else AT_THE_END


_OP_FRAME: Final = r"at::_ops::(\w+)::call|wrapper_CUDA_(\w+)\("
"""The frame of a C++ call stack with the name of the op."""


@once_per_profile(*_FRAMES)
def peak_by_call_site(profile: Profile) -> pl.DataFrame:
    """Return `memory_peak` with the stacks of one call site together, largest first.

    Call sites are as in `allocated_by`. Columns: those of `memory_peak`, with the largest of the stacks.
    """
    stack = pl.col("stack").cast(pl.String)
    op = pl.coalesce(stack.str.extract(_OP_FRAME, 1), stack.str.extract(_OP_FRAME, 2))
    is_recorded = stack.is_not_null()
    other = pl.when(pl.col("call_site").is_null()).then(pl.struct(op.alias("op"), is_recorded.alias("is_recorded")))
    return (
        memory_peak(profile)
        .group_by(*_BY_GPU, "call_site", other.alias("other"), maintain_order=True)
        .agg(
            pl.col("stack").first(),
            pl.col("size_bytes", "peak_pct", "allocations").sum(),
            pl.col("largest_bytes").max(),
        )
        .sort("size_bytes", descending=True, maintain_order=True)
        .select(column.name for column in MEMORY_PEAK.columns)
    )


def allocated_by(call_site: str | None, stack: str | None) -> str:
    """Return a short name of what allocated memory: a line of Python, else the op, as in the backward pass.

    >>> allocated_by("/home/user/model.py(190): forward", None)
    'model.py(190): forward'
    >>> allocated_by(None, "RegisterCUDA.cpp(?): at::(anonymous namespace)::wrapper_CUDA_bmm(at::Tensor const&)")
    'bmm (C++, no Python frame)'
    """
    if call_site:
        return PurePath(call_site).name
    if not stack:
        return "call stack not recorded"
    op = re.search(_OP_FRAME, stack)
    return f"{op[1] or op[2]} (C++, no Python frame)" if op else "no Python frame"


@once_per_profile(*_FRAMES)
def allocator_segments(profile: Profile) -> pl.DataFrame:
    """Return the segments of the allocator with their free blocks, largest first.

    ``free_bytes`` is reserved - active, ``largest_free_bytes`` the largest free block and ``fragmentation_pct`` the
    share of free bytes outside of it: 100 * (1 - largest / free).
    """
    blocks = profile["memory_blocks"]
    is_free = pl.col("state").cast(pl.String) == _INACTIVE
    blocks_by_segment = blocks.group_by("session", "segment").agg(
        pl.len().cast(pl.Int64).alias("blocks"),
        pl.col("size_bytes").filter(is_free).max().fill_null(0).alias("largest_free_bytes"),
    )
    return (
        profile["memory_segments"]
        .join(blocks_by_segment, on=["session", "segment"], how="left", maintain_order="left")
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
    """Return the allocator's memory of each GPU at the end of the recording: sums of `allocator_segments`.

    A sum is null if it is unknown of a segment: the first snapshots do not record the bytes that were requested.
    """
    sums = ("reserved_bytes", "allocated_bytes", "active_bytes", "requested_bytes", "free_bytes", "blocks")
    return (
        allocator_segments(profile)
        .group_by(_BY_GPU)
        .agg(
            *(complete_sum(name).alias(name) for name in sums),
            pl.col("largest_free_bytes").max(),
            pl.len().cast(pl.Int64).alias("segments"),
        )
        .with_columns(_fragmentation())
        .select(column.name for column in MEMORY_DEVICES.columns)
        .sort(_BY_GPU)
    )


def segment_blocks(profile: Profile, session: int, segment: int) -> pl.DataFrame:
    """Return the blocks of a segment, by address."""
    rows = profile["memory_blocks"].filter(pl.col("session") == session, pl.col("segment") == segment)
    return rows.sort("address").select(column.name for column in MEMORY_BLOCKS.columns)
