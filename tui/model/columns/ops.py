"""Columns of ops."""

from __future__ import annotations

from typing import Final

from tui.model.columns.column import Column, ColumnKind

K = ColumnKind


def _of_calls(stem: str, title: str, what: str) -> tuple[Column, ...]:
    """The average, the least and the most of what one call of an op has."""
    words = (("avg", "Average"), ("min", "The least"), ("max", "The most"))
    return tuple(
        Column(f"{stem}_{figure}_ns", f"{title} {figure}", ColumnKind.DURATION, f"{word} {what} of a call.", 8)
        for figure, word in words
    )


OPS: Final = (
    Column("op", "Op", K.TEXT, "Op by its recorded name; where none is recorded, op type and direction.", 1),
    Column("op_type", "Type", K.TEXT, "What the op does: convolution, gemm, pooling, ...", 5),
    Column(
        "direction", "Dir", K.TEXT, "fprop, bprop, or mixed where its calls differ; unknown where that is not told.", 7
    ),
    Column(
        "group",
        "Group",
        K.TEXT,
        "The kinds of work that its GPU time is, most first: convolution, gemm, memory, ...",
        7,
    ),
    Column("kernels", "Kernels", K.COUNT, "Distinct kernels and memory operations by name.", 5),
    Column(
        "gpu_self_ns",
        "GPU self",
        K.DURATION,
        "GPU time that it launched itself, without what ops within it launched (key_averages: Self CUDA).",
        1,
        ("gpu_self", "self_cuda"),
    ),
    Column(
        "gpu_total_ns",
        "GPU total",
        K.DURATION,
        "GPU time that it and all ops within it launched (key_averages: CUDA total). An op that calls itself counts "
        "in both calls.",
        3,
        ("gpu_total", "cuda_total"),
    ),
    Column("gpu_avg_ns", "GPU avg", K.DURATION, "GPU self divided by calls.", 8, ("gpu_avg",)),
    Column("gpu_min_ns", "GPU min", K.DURATION, "The least GPU self of a call.", 9, ("gpu_min",)),
    Column("gpu_max_ns", "GPU max", K.DURATION, "The most GPU self of a call.", 9, ("gpu_max",)),
    Column(
        "cpu_total_ns",
        "CPU total",
        K.DURATION,
        "CPU time of all calls from begin to end, with what they called (key_averages: CPU total).",
        3,
        ("cpu_total",),
    ),
    Column(
        "cpu_self_ns",
        "CPU self",
        K.DURATION,
        "CPU total without the ops and API calls that it made, where they are recorded (key_averages: Self CPU).",
        4,
        ("cpu_self", "self_cpu"),
    ),
    Column("cpu_avg_ns", "CPU avg", K.DURATION, "CPU total divided by calls.", 8, ("cpu_avg",)),
    Column("api_ns", "API calls", K.DURATION, "CPU time of the API calls that it made itself.", 8, ("api",)),
    Column("launches", "Launches", K.COUNT, "Kernels and memory operations that it launched itself.", 5),
    Column(
        "untimed_launches",
        "Untimed",
        K.COUNT,
        "Launches among them whose duration the input does not tell: they are not in its GPU times.",
        6,
        tells_above_zero=True,
    ),
    Column("ops", "Ops", K.COUNT, "Distinct ops by name.", 5),
    Column("tc_eligible", "TC ok", K.FLAG, "Whether the op could use tensor cores, as far as is known.", 8),
    Column("op_source", "From", K.TEXT, "recorded, nvtx (a range), or inferred from the names of kernels.", 7),
    Column("rule", "Rule", K.TEXT, "The pattern of op_types.toml that told the op type from the kernel's name.", 9),
    Column(
        "gpu_busy_ns",
        "GPU busy",
        K.DURATION,
        "Time in which its own GPU work ran, work at once counted once (what DLProf calls GPU time).",
        5,
    ),
    *_of_calls("gpu_busy", "Busy", "GPU busy time"),
    Column(
        "cpu_own_ns",
        "CPU time",
        K.DURATION,
        "CPU time of its calls, API calls among it, without the ops that they called on their thread.",
        3,
    ),
    *_of_calls("cpu_own", "CPU", "CPU time"),
    *_of_calls("cpu_overhead", "Overhead", "CPU overhead"),
    *_of_calls("gpu_idle", "Idle", "GPU idle time"),
    Column("op_id", "Op ID", K.TEXT, "As DLProf gives it, else type or name with its place in the iteration.", 2),
    Column(
        "same_kernels",
        "Same",
        K.FLAG,
        "Whether it launched the same kernels in the same order in every iteration.",
        6,
    ),
    Column("config", "Config", K.TEXT, "Grid, block, registers and shared memory of a block.", 1),
    Column("kernel_class", "Class", K.TEXT, "The first class of kernel_classes.toml whose pattern the name has.", 1),
    Column("input_shapes", "Input shapes", K.TEXT, "Of the tensors that the op was called with.", 2, ("shapes",)),
    Column("dtype", "Types", K.TEXT, "Data types of the tensors that the op was called with.", 6),
    Column("stack", "Called from", K.TEXT, "Source lines that called it, the innermost first.", 8),
    Column("path", "Path", K.TEXT, "Names from the outermost to the row itself.", 9),
    Column("node", "Group or op", K.TEXT, "A group (module, range, layer, op that calls others) or an op in it.", 1),
    Column("level", "Level", K.NUMBER, "How deep it lies: 1 is all of a session.", 7),
    Column("what", "Is", K.TEXT, "group or op.", 8),
    Column("eligible_ops", "TC ok", K.COUNT, "Ops in it, by id or else by name, that could use tensor cores.", 6),
    Column("tc_ops", "On TC", K.COUNT, "Ops in it, by id or else by name, with a kernel that uses tensor cores.", 6),
)
