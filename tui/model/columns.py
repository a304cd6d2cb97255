"""What every column is called on a screen and in a report, how it is written, and what it means.

One registry for all views: a column means the same wherever it appears.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ColumnKind(StrEnum):
    """How the values of a column are written and compared."""

    TEXT = "text"
    SYMBOL = "symbol"
    """A C++ name: can be shortened by dropping template arguments and parameters."""
    DURATION = "duration"
    """Nanoseconds."""
    TIME = "time"
    """Nanoseconds since the clock zero of the input."""
    SIZE = "size"
    """Bytes."""
    RATE = "rate"
    """Bytes per second."""
    COUNT = "count"
    """A number of things: can be summed."""
    NUMBER = "number"
    """An identifier or a plain quantity: is not summed."""
    PERCENT = "percent"
    """0 to 100."""
    RATIO = "ratio"
    MEASURE = "measure"
    """A value in the unit that the column ``unit`` of its row names."""
    FLAG = "flag"
    """True, false or unknown."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a view."""

    name: str
    """Its name in the frame and in exports."""
    title: str
    """Its heading."""
    kind: ColumnKind
    help: str
    """Definition, unit and, where there is one, formula."""
    priority: int = 5
    """1 stays longest when the screen is narrow, 9 goes first."""
    aliases: tuple[str, ...] = ()
    """Further names in the filter language (``dur`` for ``duration_ns``)."""


K = ColumnKind

_ALL: Final = (
    Column("name", "Name", K.SYMBOL, "Kernel, memory operation or API call, as the input names it.", 1),
    Column("short_name", "Short name", K.SYMBOL, "The name without return type, template arguments and parameters.", 9),
    Column("kind", "Kind", K.TEXT, "kernel, memcpy, memset or um (unified memory).", 6),
    Column("calls", "Calls", K.COUNT, "How often it ran.", 2, ("count",)),
    Column("total_ns", "Total", K.DURATION, "Sum of the durations of all calls.", 1, ("total", "time")),
    Column("avg_ns", "Avg", K.DURATION, "Total divided by calls.", 3, ("avg", "mean")),
    Column("min_ns", "Min", K.DURATION, "Shortest call.", 5, ("min",)),
    Column("max_ns", "Max", K.DURATION, "Longest call.", 4, ("max",)),
    Column("median_ns", "p50", K.DURATION, "Half of the calls were no longer than this.", 6, ("median", "p50")),
    Column(
        "p90_ns",
        "p90",
        K.DURATION,
        "Nine of ten calls were no longer than this (linear between the nearest two).",
        8,
        ("p90",),
    ),
    Column(
        "p99_ns",
        "p99",
        K.DURATION,
        "99 of 100 calls were no longer than this (linear between the nearest two).",
        6,
        ("p99",),
    ),
    Column("std_ns", "Std", K.DURATION, "Standard deviation of the durations (n - 1).", 7, ("std",)),
    Column(
        "time_pct",
        "Time%",
        K.PERCENT,
        "Share of the summed time of the session: of its GPU work, or of its API calls.",
        2,
        ("pct", "share"),
    ),
    Column(
        "uses_tensor_core", "TC", K.FLAG, "Whether the kernel uses tensor cores; ? where it cannot be told.", 6, ("tc",)
    ),
    Column("start_ns", "Start", K.TIME, "When it began, since the clock zero of the log.", 2, ("start",)),
    Column("duration_ns", "Duration", K.DURATION, "How long it ran.", 1, ("dur", "duration")),
    Column("device", "Dev", K.NUMBER, "GPU, by the number the log gives it.", 7),
    Column("context", "Ctx", K.NUMBER, "CUDA context.", 9),
    Column("stream", "Stream", K.NUMBER, "CUDA stream.", 5),
    Column("registers", "Regs", K.NUMBER, "Registers per thread.", 5, ("regs",)),
    Column("static_shared_bytes", "SSMem", K.SIZE, "Static shared memory per block.", 6, ("ssmem",)),
    Column("dynamic_shared_bytes", "DSMem", K.SIZE, "Dynamic shared memory per block.", 6, ("dsmem",)),
    Column("size_bytes", "Size", K.SIZE, "Bytes copied or set.", 4, ("size",)),
    Column("throughput", "Rate", K.RATE, "Size divided by duration, as the log prints it.", 5, ("rate",)),
    Column("copy_kind", "Copy", K.TEXT, "Direction: HtoD, DtoH, DtoD, PtoP.", 6),
    Column("src_memory", "From", K.TEXT, "Kind of the source memory: pageable, pinned, device, array, managed.", 8),
    Column("dst_memory", "To", K.TEXT, "Kind of the destination memory.", 8),
    Column("correlation", "Corr", K.NUMBER, "Links a launch on the CPU to its work on the GPU.", 8, ("corr",)),
    Column("line", "Line", K.NUMBER, "Line of the input that this row comes from (the first one).", 9),
    Column("session", "Session", K.NUMBER, "Profiled process, numbered from 0 in the order of the input.", 7),
    Column("severity", "Severity", K.TEXT, "info, warning or error.", 1),
    Column("reason", "What and why", K.TEXT, "What could not be used as it stood, and what became of it.", 1),
    Column("text", "Text", K.TEXT, "The line in question, cut at 200 characters.", 6),
    Column("column", "Column", K.NUMBER, "Where in the line, from 1.", 8),
    Column("grid", "Grid", K.TEXT, "Blocks of the launch, as (x y z).", 4),
    Column("block", "Block", K.TEXT, "Threads per block, as (x y z).", 4),
    Column("activity", "#", K.NUMBER, "Number of the GPU activity, from 0 in time order.", 9),
    Column("pid", "PID", K.NUMBER, "Process that made the call.", 8),
    Column("tid", "TID", K.NUMBER, "Thread that made the call.", 8),
    Column("op", "Op", K.TEXT, "Op type and direction, as convolution backward filter.", 1),
    Column("op_type", "Type", K.TEXT, "What the kernels do: convolution, gemm, pooling, ...", 5),
    Column("direction", "Dir", K.TEXT, "fprop or bprop; ? where it cannot be told.", 7),
    Column("group", "Group", K.TEXT, "The kind of work that the op type counts as: convolution, gemm, memory, ...", 7),
    Column("kernels", "Kernels", K.COUNT, "Distinct kernels and memory operations by name.", 5),
    Column("op_source", "From", K.TEXT, "recorded, nvtx, or inferred: told from the names of the kernels.", 7),
    Column("rule", "Rule", K.TEXT, "The pattern of op_types.toml that told the op type from the name.", 9),
    Column("compute_capability", "CC", K.TEXT, "Compute capability, as 3.5.", 3),
    Column("sm_count", "SMs", K.NUMBER, "Streaming multiprocessors.", 3),
    Column(
        "occupancy_pct",
        "Occ%",
        K.PERCENT,
        "Theoretical occupancy, an upper bound: resident warps of this launch configuration / warps that an SM holds.",
        4,
        ("occupancy",),
    ),
    Column(
        "limiter",
        "Limited by",
        K.TEXT,
        "What keeps more blocks from an SM: warps, blocks, registers, shared memory.",
        6,
    ),
    Column("waves", "Waves", K.RATIO, "Blocks of the grid / (blocks per SM x SMs).", 7),
    Column("layer", "Layer", K.TEXT, "Layer of the model, as the input names it.", 1),
    Column("phase", "Phase", K.TEXT, "forward, backward, backward data or backward filter.", 2),
    Column(
        "executor",
        "Run by",
        K.TEXT,
        "What ran the layer (caffe, cudnn, tensorflow); paleo where it is predicted alone.",
        1,
    ),
    Column("measured_ns", "Measured", K.DURATION, "How long the layer took.", 1, ("measured",)),
    Column("predicted_ns", "Predicted", K.DURATION, "How long the model says that it takes.", 2, ("predicted",)),
    Column("ratio", "Ratio", K.RATIO, "Predicted / measured: above 1 the layer was faster than predicted.", 2),
    Column("algorithm", "Algorithm", K.TEXT, "Convolution algorithm that was run.", 5),
    Column("predicted_algorithm", "Predicted algorithm", K.TEXT, "Convolution algorithm that the prediction is of.", 7),
    Column("workspace_bytes", "Workspace", K.SIZE, "What the predicted algorithm needs.", 7),
    Column("output_shape", "Output", K.TEXT, "Shape of the layer's output.", 6),
    Column("filter_shape", "Filter", K.TEXT, "Shape of the layer's weights.", 7),
    Column("params", "Params", K.COUNT, "Weights of the layer.", 7),
    Column("position", "#", K.NUMBER, "Place in the model, from 0.", 8),
    Column("model", "Model", K.TEXT, "As the input names it.", 8),
    Column("layers", "Layers", K.COUNT, "How many were timed or predicted.", 5),
    Column("kernel", "Kernel", K.SYMBOL, "What the metric was measured on.", 1),
    Column("metric", "Metric", K.TEXT, "Metric or event, by nvprof's name.", 1),
    Column("avg", "Avg", K.MEASURE, "Mean over the invocations, in the unit beside it.", 2),
    Column("min", "Min", K.MEASURE, "Smallest, in the unit beside it.", 4),
    Column("max", "Max", K.MEASURE, "Largest, in the unit beside it.", 4),
    Column("total", "Total", K.MEASURE, "Over all invocations, where the input has it (events).", 6),
    Column("unit", "Unit", K.TEXT, "%, B/s, B, level (0 idle to 10 max); counts and ratios have none.", 8),
    Column("invocations", "Calls", K.NUMBER, "How often the kernel ran.", 5),
    Column("description", "Description", K.TEXT, "What the metric says, in nvprof's words.", 6),
    Column("device_name", "GPU", K.TEXT, "GPU, as the input names it.", 8),
    Column("section", "Section", K.TEXT, "um (unified memory), openacc, openmp, nvtx, cpu or dependency.", 3),
    Column("range", "Range", K.TEXT, "NVTX range that the row lies in.", 4),
    Column("repaired", "Repaired", K.FLAG, "Whether the row had lost its shape and was put back together.", 8),
)

COLUMNS: Final[dict[str, Column]] = {column.name: column for column in _ALL}


def columns(*names: str) -> tuple[Column, ...]:
    """The columns of these names, in this order.

    >>> [column.title for column in columns("name", "calls")]
    ['Name', 'Calls']
    """
    return tuple(COLUMNS[name] for name in names)
