"""The frames of a profile: their columns, types and units.

Every loader returns these frames with exactly these columns (`conform` ensures this), so callers need no checks.
Times are int64 nanoseconds (``_ns``), sizes int64 bytes (``_bytes``), rates float64 bytes per second, percentages 0 to
100. A value that the input does not hold is null: never 0, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import polars as pl

NAME: Final[Any] = pl.Categorical()
"""Names repeat from launch to launch: as categories they cost four bytes a row and group ten times faster."""

SESSIONS: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "format": pl.String,
        "tool": pl.String,
        "tool_version": pl.String,
        "command": pl.String,
        "pid": pl.Int64,
        "rank": pl.Int32,
        "rank_source": pl.String,
        "host": pl.String,
        "framework": pl.String,
        "cuda_version": pl.String,
        "cudnn_version": pl.String,
        "driver_version": pl.String,
        "start_resolution_ns": pl.Int64,
        "origin_ns": pl.Int64,
        "world_size": pl.Int32,
        "iteration_source": pl.String,
        "source": pl.String,
        "first_line": pl.UInt32,
        "last_line": pl.UInt32,
    }
)
"""One row per profiled process or rank. ``start_resolution_ns`` is the coarsest step of its start times.

``origin_ns`` is the Unix time of its ``start_ns`` 0, null if the input does not record it. ``world_size`` is the
number of ranks. ``rank_source`` describes the source of the rank, null if the input itself records it.
``iteration_source`` describes the source of iterations (``PyTorch's ProfilerStep``, ``NVTX range
iteration #``), null if there are none.
"""

DEVICES: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "device": pl.Int32,
        "name": pl.String,
        "compute_capability": pl.String,
        "sm_count": pl.Int32,
        "memory_bytes": pl.Int64,
        "memory_bandwidth": pl.Float64,
        "max_threads_per_sm": pl.Int32,
        "registers_per_sm": pl.Int32,
        "shared_memory_per_sm_bytes": pl.Int64,
    }
)
"""One row per GPU of a session, with what the input itself records of it."""

ACTIVITIES: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "activity": pl.UInt32,
        "kind": NAME,
        "name": NAME,
        "short_name": NAME,
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "device": pl.Int32,
        "context": pl.Int32,
        "stream": pl.Int64,
        "grid_x": pl.Int32,
        "grid_y": pl.Int32,
        "grid_z": pl.Int32,
        "block_x": pl.Int32,
        "block_y": pl.Int32,
        "block_z": pl.Int32,
        "registers": pl.Int32,
        "static_shared_bytes": pl.Int64,
        "dynamic_shared_bytes": pl.Int64,
        "shared_bytes": pl.Int64,
        "size_bytes": pl.Int64,
        "throughput": pl.Float64,
        "copy_kind": NAME,
        "src_memory": NAME,
        "dst_memory": NAME,
        "correlation": pl.Int64,
        "graph_node": pl.Int64,
        "op": pl.UInt32,
        "op_join": NAME,
        "iteration": pl.Int32,
        "uses_tensor_core": pl.Boolean,
        "tensor_core_reason": NAME,
        "arguments": NAME,
        "line": pl.UInt32,
    }
)
"""One row per GPU activity, by session and start; ``kind`` is one of `KINDS`.

``shared_bytes`` is static and dynamic shared memory of a block together, filled where the input does not distinguish
them. ``op`` is the innermost op (``ops.op``) that the activity was launched in and ``op_join`` how that was found, or
why there is none: one of `OP_JOINS`, null if the input records no ops. ``tensor_core_reason`` is the source of the
verdict ``uses_tensor_core``. ``arguments`` are further facts in words, as recorded (``Collective name: allreduce;
...``).
"""

API_CALLS: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "name": NAME,
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "pid": pl.Int64,
        "tid": pl.Int64,
        "correlation": pl.Int64,
        "result": pl.Int64,
        "kernel": NAME,
        "wait_device": pl.Int32,
        "waiting_stream": pl.Int64,
        "awaited_stream": pl.Int64,
        "awaited_call": pl.Int64,
        "line": pl.UInt32,
    }
)
"""One row per CUDA API call; ``result`` is the code that it returned, 0 for success, and ``kernel`` what it launches,
where the call itself says that.

Of calls that synchronize, where it is recorded: ``wait_device``; ``waiting_stream``, the stream that waits (null: the
CPU); ``awaited_stream``, the stream that is waited for (null: all of the device); and ``awaited_call``, the correlation
of the call that recorded the event (null: all work launched before)."""

OPS: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "op": pl.UInt32,
        "op_id": NAME,
        "name": NAME,
        "op_type": NAME,
        "direction": NAME,
        "group": NAME,
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "pid": pl.Int64,
        "tid": pl.Int64,
        "parent": pl.UInt32,
        "forward": pl.UInt32,
        "dtype": NAME,
        "input_shapes": NAME,
        "input_types": NAME,
        "input_values": NAME,
        "stack": NAME,
        "iteration": pl.Int32,
        "tc_eligible": pl.Boolean,
        "op_source": NAME,
        "line": pl.UInt32,
    }
)
"""One row per op instance, by session and start; ``op`` is its row number over all sessions.

``duration_ns`` is CPU time, children included; ``op_source`` is recorded, nvtx, inferred or graph (a replay of a
captured op). ``parent`` is the op that it ran in and ``forward`` the forward op that a backward op belongs to, both as
``op``. ``group`` is the path of what it ran in, outermost first, without itself: modules where the input knows them,
else ranges and ops. ``stack`` is the source lines that called it, innermost first, with ``;`` between.

``input_shapes``, ``input_types`` and ``input_values`` are JSON lists over the arguments of the call: the shape of a
tensor, its element type, and the value of a number or a list of numbers as text. ``dtype`` is the distinct element
types in one text. ``input_values`` is kept only for ops whose FLOPs depend on it.
"""

RANGES: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "name": NAME,
        "domain": NAME,
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "pid": pl.Int64,
        "tid": pl.Int64,
        "depth": pl.Int32,
        "iteration": pl.Int32,
        "line": pl.UInt32,
    }
)
"""One row per NVTX range, user annotation or OpenACC construct.

``iteration`` is the number of the iteration that it marks, else null.
"""

SUMMARY: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "section": NAME,
        "name": NAME,
        "calls": pl.Int64,
        "total_ns": pl.Int64,
        "avg_ns": pl.Int64,
        "min_ns": pl.Int64,
        "max_ns": pl.Int64,
        "median_ns": pl.Int64,
        "std_ns": pl.Int64,
        "time_pct": pl.Float64,
        "size_bytes": pl.Int64,
        "line": pl.UInt32,
        "repaired": pl.Boolean,
        "range": NAME,
        "cpu_self_ns": pl.Int64,
        "gpu_self_ns": pl.Int64,
        "gpu_total_ns": pl.Int64,
        "cpu_memory_bytes": pl.Int64,
        "cpu_self_memory_bytes": pl.Int64,
        "gpu_memory_bytes": pl.Int64,
        "gpu_self_memory_bytes": pl.Int64,
        "flops": pl.Int64,
        "input_shapes": NAME,
        "stack": NAME,
    }
)
"""One row per row that the input itself aggregated; ``section`` is one of `SECTIONS`.

``median_ns`` and ``std_ns`` (standard deviation) are as the tool prints them, null if it does not. ``size_bytes`` is
what copies or unified memory moved in all, as rounded as it is printed.

``range`` names the NVTX range that a row of section ``nvtx`` lies in; it is null on the row of the range itself (so the
rows of section ``nvtx`` with a null ``range`` are the ranges, and each time is in one row only).

``repaired`` is true when the row had lost its shape and was put back together because its figures prove each other.

The columns from ``cpu_self_ns`` on are of rows of ops (section ``op``, whose ``total_ns`` is CPU total time): time in
itself and, on the GPU, with what it calls; bytes allocated less bytes released, with what it calls and in itself;
floating point operations; shapes of the inputs; source lines that called it, innermost first, with ``;`` between.
"""

METRICS: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "device": pl.String,
        "kernel": NAME,
        "grid_x": pl.Int32,
        "grid_y": pl.Int32,
        "grid_z": pl.Int32,
        "block_x": pl.Int32,
        "block_y": pl.Int32,
        "block_z": pl.Int32,
        "invocations": pl.Int64,
        "metric": NAME,
        "description": NAME,
        "min": pl.Float64,
        "max": pl.Float64,
        "avg": pl.Float64,
        "total": pl.Float64,
        "unit": NAME,
        "line": pl.UInt32,
    }
)
"""One row per metric or event of a kernel; values are in base units (bytes per second, percent, counts).

``unit`` is ``%`` (0 to 100), ``B/s``, ``B``, ``level`` (0 idle to 10 max) or null for counts and ratios; ``total`` is
over all invocations, where the input prints it (events of newer versions). Grid and block are known
of metrics that were measured launch by launch (Nsight Compute).
"""

LAYERS: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "model": pl.String,
        "position": pl.Int32,
        "layer": pl.String,
        "op_type": pl.String,
        "phase": pl.String,
        "output_shape": pl.String,
        "filter_shape": pl.String,
        "params": pl.Int64,
        "executor": pl.String,
        "algorithm": pl.String,
        "workspace_bytes": pl.Int64,
        "time_ns": pl.Int64,
        "median_ns": pl.Int64,
        "total_ns": pl.Int64,
        "calls": pl.Int64,
        "measured": pl.Boolean,
        "predicted_ns": pl.Int64,
        "predicted_algorithm": pl.String,
        "line": pl.UInt32,
    }
)
"""One row per layer, phase and executor; ``time_ns`` is null if the executor did not run the layer.

``executor`` is what ran the layers (caffe, caffe (CPU), cudnn, tensorflow) or, in a table of predictions alone, paleo:
``measured`` is then false and ``time_ns`` the prediction. A prediction made for a run stands next to its measurement,
in ``predicted_ns`` and ``predicted_algorithm``. ``workspace_bytes`` is what the predicted algorithm needs.
``time_ns`` is the mean of ``calls`` iterations, ``median_ns`` their median and ``total_ns`` their sum, where they are
recorded.
"""

TOOL_FIGURES: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "tool": pl.String,
        "section": pl.String,
        "name": pl.String,
        "value": pl.Float64,
        "unit": pl.String,
        "text": pl.String,
        "line": pl.UInt32,
    }
)
"""One row per figure that the recording tool itself computed of a session, as it reports it (DLProf's GPU utilization).

``value`` is in base units (``unit``: ns, %, B, or null for counts); ``text`` stands where it is no number. A row of
section `PRINTED_TOTALS` called `GPU_TOTAL` is the GPU time of a session whose input prints only some of its rows.
"""

PRINTED_TOTALS: Final = "Printed totals"
GPU_TOTAL: Final = "GPU time"

TOOL_FINDINGS: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "tool": pl.String,
        "severity": pl.String,
        "problem": pl.String,
        "recommendation": pl.String,
        "line": pl.UInt32,
    }
)
"""One row per finding of the recording tool's own advisor; ``severity`` is null if the tool gives none."""

MEMORY_EVENTS: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "place": NAME,
        "device": pl.Int32,
        "start_ns": pl.Int64,
        "delta_bytes": pl.Int64,
        "allocated_bytes": pl.Int64,
        "reserved_bytes": pl.Int64,
        "address": pl.Int64,
        "line": pl.UInt32,
        "action": NAME,
        "stream": pl.Int64,
        "size_bytes": pl.Int64,
        "active_bytes": pl.Int64,
        "call_site": NAME,
        "stack": NAME,
    }
)
"""One row per allocation or release of memory by the framework's allocator, by session and time.

``place`` is GPU or CPU, whose memory it is; ``device`` is the number of the GPU, null for the CPU. ``start_ns`` is of
the CPU's clock, null if the input has only the order of events; ``delta_bytes`` is negative for a release;
``allocated_bytes`` and ``reserved_bytes`` are all that is allocated, and held by the allocator, after it.

The columns from ``action`` on are of PyTorch's memory snapshots. ``action`` is alloc, free_requested, free_completed,
segment_alloc, segment_free, segment_map, segment_unmap, oom or snapshot; ``size_bytes`` is what it is about, as
requested; ``active_bytes`` is allocated, or released and waiting for other streams, after it. ``stack`` is the lines of
the program that led to it, innermost first, with ``;`` between, and ``call_site`` the first that is not of PyTorch.
"""

MEMORY_SEGMENTS: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "segment": pl.UInt32,
        "device": pl.Int32,
        "address": pl.Int64,
        "reserved_bytes": pl.Int64,
        "allocated_bytes": pl.Int64,
        "active_bytes": pl.Int64,
        "requested_bytes": pl.Int64,
        "stream": pl.Int64,
        "segment_type": NAME,
        "pool": pl.String,
        "is_expandable": pl.Boolean,
        "stack": NAME,
    }
)
"""One row per segment that PyTorch's allocator holds at the end of a recording; ``segment`` numbers those of a session.

``allocated_bytes`` and ``active_bytes`` are rounded up to blocks, ``requested_bytes`` is what the program asked for.
``pool`` is the private pool that it is of (CUDA graphs), null for the default one; ``stack`` is where it was obtained.
"""

MEMORY_BLOCKS: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "segment": pl.UInt32,
        "device": pl.Int32,
        "address": pl.Int64,
        "size_bytes": pl.Int64,
        "requested_bytes": pl.Int64,
        "state": NAME,
        "call_site": NAME,
        "stack": NAME,
    }
)
"""One row per block of a segment: ``state`` is active_allocated, active_awaiting_free or inactive.

``size_bytes`` is rounded up; ``call_site`` and ``stack`` are of its allocation, as in ``memory_events``.
"""

ISSUES: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "line": pl.UInt32,
        "column": pl.UInt32,
        "severity": pl.String,
        "text": pl.String,
        "reason": pl.String,
    }
)
"""One row per thing in the input that could not be used as recorded; ``severity`` is info, warning or error."""

FRAMES: Final[Mapping[str, pl.Schema]] = MappingProxyType(
    {
        "sessions": SESSIONS,
        "devices": DEVICES,
        "activities": ACTIVITIES,
        "api_calls": API_CALLS,
        "ops": OPS,
        "ranges": RANGES,
        "summary": SUMMARY,
        "metrics": METRICS,
        "layers": LAYERS,
        "tool_figures": TOOL_FIGURES,
        "tool_findings": TOOL_FINDINGS,
        "memory_events": MEMORY_EVENTS,
        "memory_segments": MEMORY_SEGMENTS,
        "memory_blocks": MEMORY_BLOCKS,
        "issues": ISSUES,
    }
)

KINDS: Final = ("kernel", "memcpy", "memset", "um", "graph")
"""Kinds of activities: kernel, copy, memset, unified memory work, or a CUDA graph whose kernels are not recorded."""

OP_JOINS: Final = (
    "launch",
    "external id",
    "recorded",
    "launch not recorded",
    "launched outside any op",
    "graph node annotation",
    "graph capture",
    "graph repeat (inferred)",
    "graph replay: capture not recorded",
    "graph replay: several captures match",
)
"""How the op of an activity was found (its launch is within the op on the same thread, by the profiler's id of the op,
or as recorded), or why there is none."""

SECTIONS: Final = ("gpu", "api", "os", "openacc", "openmp", "nvtx", "um", "cpu", "dependency", "op")
"""The sections of summary rows. Rows within an NVTX range have ``nvtx``, because they repeat rows of ``gpu``."""

SEVERITIES: Final = ("info", "warning", "error")


OP_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"activities": ("op",), "ops": ("op", "parent", "forward")}
)
"""The columns of each frame that hold the number of an op."""


def empty(frame: str) -> pl.DataFrame:
    """Return an empty frame of the model.

    >>> empty("issues").columns
    ['session', 'line', 'column', 'severity', 'text', 'reason']
    """
    return pl.DataFrame(schema=FRAMES[frame])


def conform(frame: str, data: pl.DataFrame) -> pl.DataFrame:
    """Give data the exact schema of a frame: columns in order, missing ones null, types cast strictly.

    Raises:
        ValueError: A column is not one of the frame's.
        polars.exceptions.InvalidOperationError: A value does not fit its column.
    """
    schema = FRAMES[frame]
    unknown_columns = set(data.columns) - set(schema)
    if unknown_columns:
        raise ValueError(f"{frame} has no column {', '.join(sorted(unknown_columns))}")
    present = set(data.columns)
    if not present:
        return empty(frame)
    return data.select(
        pl.col(name).cast(dtype) if name in present else pl.lit(None, dtype).alias(name)
        for name, dtype in schema.items()
    )
