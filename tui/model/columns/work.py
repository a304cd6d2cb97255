"""Columns of kernels, launches and API calls."""

from __future__ import annotations

from typing import Final

from tui.model.columns.column import Column, ColumnKind

K = ColumnKind


WORK: Final = (
    Column("name", "Name", K.SYMBOL, "Kernel, memory operation or API call, as the input names it.", 1),
    Column("short_name", "Short name", K.SYMBOL, "The name without return type, template arguments and parameters.", 9),
    Column(
        "kind",
        "Kind",
        K.TEXT,
        "kernel, memcpy, memset, um (unified memory) or graph (a CUDA graph of which no kernels are recorded).",
        6,
    ),
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
    Column("tensor_core_reason", "TC because", K.TEXT, "What tells whether the kernel uses tensor cores.", 9),
    Column("start_ns", "Start", K.TIME, "When it began, since the clock zero of the input.", 2, ("start",)),
    Column("duration_ns", "Duration", K.DURATION, "How long it ran.", 1, ("dur", "duration")),
    Column("device", "Dev", K.NUMBER, "GPU, by the number the input gives it.", 7),
    Column("context", "Ctx", K.NUMBER, "Context of CUDA.", 9),
    Column("stream", "Stream", K.NUMBER, "Stream, or queue, of the GPU.", 5),
    Column("registers", "Regs", K.NUMBER, "Registers per thread.", 5, ("regs",)),
    Column("static_shared_bytes", "SSMem", K.SIZE, "Static shared memory per block.", 6, ("ssmem",)),
    Column("dynamic_shared_bytes", "DSMem", K.SIZE, "Dynamic shared memory per block.", 6, ("dsmem",)),
    Column(
        "shared_bytes",
        "Shared",
        K.SIZE,
        "Shared memory per block, static and dynamic together, where the input does not tell them apart.",
        6,
        ("shared",),
    ),
    Column("size_bytes", "Size", K.SIZE, "Bytes copied or set.", 4, ("size",)),
    Column("throughput", "Rate", K.RATE, "As the input says; where it does not, size by duration.", 5, ("rate",)),
    Column("copy_kind", "Copy", K.TEXT, "Direction: HtoD, DtoH, DtoD, PtoP; set for memsets.", 6),
    Column(
        "src_memory",
        "From",
        K.TEXT,
        "Kind of the source memory: pageable, pinned, device, array, managed; of a single memset what is set.",
        8,
    ),
    Column("dst_memory", "To", K.TEXT, "Kind of the destination memory.", 8),
    Column("correlation", "Corr", K.NUMBER, "Links a launch on the CPU to its work on the GPU.", 8, ("corr",)),
    Column("line", "Line", K.NUMBER, "Line of the input that this row comes from (the first one).", 9),
    Column("session", "Session", K.NUMBER, "Profiled process, numbered from 0 in the order of the input.", 7),
    Column("severity", "Severity", K.TEXT, "info, warning or error.", 1),
    Column("recommendation", "Do", K.TEXT, "What to do about a finding.", 2),
    Column("cost_basis", "Cost is", K.TEXT, "How the cost of a finding was estimated, or why not.", 3),
    Column("use", "Use", K.TEXT, "What GPU time was used for.", 1),
    Column("members", "Op types", K.NUMBER, "Distinct op types that are summed.", 4),
    Column("after_kind", "Kind after", K.TEXT, "What kind of work came after a gap.", 6),
    Column(
        "reason", "What and why", K.TEXT, "What could not be used as it stood, and what became of it.", 1, is_prose=True
    ),
    Column("text", "Text", K.TEXT, "The line in question, cut at 200 characters.", 6),
    Column("column", "Column", K.NUMBER, "Where in the line, from 1.", 8),
    Column("grid", "Grid", K.TEXT, "Blocks of the launch, as (x y z).", 4),
    Column("block", "Block", K.TEXT, "Threads per block, as (x y z).", 4),
    Column("activity", "#", K.NUMBER, "Number of the GPU activity, from 0 in time order.", 9),
    Column("pid", "PID", K.NUMBER, "Process that made the call.", 8),
    Column("tid", "TID", K.NUMBER, "Thread that made the call.", 8),
    Column("result", "Returned", K.NUMBER, "The code that the call returned; 0 is success.", 4, ("code",)),
    Column("result_name", "Code", K.TEXT, "What CUDA calls that code, where one name is sure.", 3),
    Column("functions", "Functions", K.NUMBER, "Distinct functions that were called.", 4),
    Column("function", "Function", K.SYMBOL, "The API function.", 1),
    Column("self_ns", "Self", K.DURATION, "Total without the ranges inside it on its thread.", 4),
    Column("names", "Names", K.NUMBER, "Distinct names.", 3),
    Column("thread", "Thread", K.TEXT, "Process and thread.", 1),
)
