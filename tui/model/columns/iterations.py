"""Columns of iterations and ranges."""

from __future__ import annotations

from typing import Final

from tui.model.columns.column import Column, ColumnKind

K = ColumnKind


ITERATIONS: Final = (
    Column("range", "Range", K.TEXT, "NVTX range that the row lies in.", 4),
    Column("launch_ns", "Launched", K.TIME, "When the API call that launched it began.", 7, ("launch",)),
    Column(
        "delay_ns",
        "Delay",
        K.DURATION,
        "From the begin of the API call that launched it to its own begin on the GPU.",
        6,
        ("delay",),
    ),
    Column("launched_by", "Launched by", K.TEXT, "Op that it was launched in, the innermost one.", 6),
    Column(
        "iteration",
        "Iteration",
        K.NUMBER,
        "Iteration, by the number that the input gives it; from 0 where it was found.",
        4,
        ("iter",),
    ),
    Column(
        "piece",
        "Piece",
        K.TEXT,
        "recorded, whole, left over (of one that began before the recording), warm-up, tail, not repeated or outside.",
        3,
    ),
    Column("arguments", "Arguments", K.TEXT, "What else the input says of the launch, as a collective's sizes.", 8),
    Column("graph_node", "Node", K.NUMBER, "Node of the CUDA graph that it was launched from.", 8),
    Column(
        "range_gpu_ns",
        "GPU time",
        K.DURATION,
        "Summed durations of the GPU work that its own thread launched within.",
        2,
    ),
    Column(
        "range_kernels", "Kernels", K.COUNT, "Kernels, and whole CUDA graphs, that its own thread launched within.", 4
    ),
    Column(
        "meanwhile_gpu_ns",
        "Others' GPU time",
        K.DURATION,
        "Summed durations of GPU work that other threads of its process launched in its time: told by time alone.",
        4,
        ("meanwhile",),
        tells_above_zero=True,
    ),
    Column(
        "meanwhile_kernels",
        "Others' kernels",
        K.COUNT,
        "Kernels, and whole CUDA graphs, that other threads of its process launched in its time: told by time alone.",
        6,
        tells_above_zero=True,
    ),
    Column(
        "iteration_by",
        "Told by",
        K.TEXT,
        "How its iteration is known: recorded (it marks it), or time (it lies between its start and its end).",
        8,
    ),
    Column("domain", "Domain", K.TEXT, "NVTX domain: which library or program named the range.", 4),
    Column("depth", "Depth", K.NUMBER, "How many ranges of its thread lie around it.", 7),
    Column("number", "#", K.NUMBER, "Row in the input's own order, from 0.", 9),
    Column("gpu_ns", "GPU time", K.DURATION, "Summed durations of its GPU work; work can overlap in time.", 2),
    Column("kernels_launched", "Kernels", K.COUNT, "Launches of kernels; a whole CUDA graph counts as one.", 3),
    Column("tensor_core_ns", "TC busy", K.DURATION, "Time in which a kernel that uses tensor cores ran.", 4),
    Column("other_kernel_ns", "Other kernels", K.DURATION, "Time in which other kernels ran, and none of those.", 5),
    Column(
        "unknown_kernel_ns",
        "TC unknown",
        K.DURATION,
        "Time in which only kernels ran of which nothing says whether they use tensor cores.",
        4,
        tells_above_zero=True,
    ),
    Column("memory_ns", "Memory", K.DURATION, "Time in which a copy or a memset ran, and no kernel.", 6),
    Column(
        "dataloader_ns", "Data loading", K.DURATION, "No GPU work: the host loaded data, by names of ops and ranges.", 7
    ),
    Column("io_ns", "Files", K.DURATION, "No GPU work: the host read or wrote files, by names of ops and ranges.", 7),
    Column("cpu_ns", "CPU", K.DURATION, "No GPU work: the host was in an op or an API call.", 6),
    Column("other_ns", "Other", K.DURATION, "None of these: nothing recorded was on.", 6),
    Column(
        "aggregated", "Chosen", K.FLAG, "Whether it is one of the chosen iterations, which all other views show.", 3
    ),
    Column("tc_kernels", "TC kernels", K.COUNT, "Launches of kernels that use tensor cores, as far as is known.", 4),
    Column(
        "tc_unknown",
        "TC?",
        K.COUNT,
        "Kernels of which nothing says whether they use tensor cores.",
        7,
        tells_above_zero=True,
    ),
    Column(
        "kernel_pct",
        "GPU%",
        K.PERCENT,
        "Share of its time in which a kernel ran, whichever iteration launched it: the mean over the GPUs.",
        2,
    ),
    Column("tc_ns", "TC time", K.DURATION, "Summed durations of kernels that use tensor cores, as far as is known.", 4),
    Column("tc_pct", "TC%", K.PERCENT, "Share of its time in which a kernel that uses tensor cores ran, as GPU%.", 3),
    Column("data_type", "Data type", K.TEXT, "Of the op's inputs; several where its calls differ.", 5),
    Column("why_no_op", "Why no op", K.TEXT, "Why work belongs to no op.", 6),
    Column("key_kind", "What", K.TEXT, "op, range, kernel (or copy) or API call.", 2),
    Column(
        "ended",
        "Iterations",
        K.COUNT,
        "How many it ends, in the stream or thread that it is most in; one less where the first began before.",
        1,
    ),
    Column(
        "per_iteration", "Per iteration", K.NUMBER, "How often it comes in every present iteration, if as often.", 3
    ),
    Column("spacing_ns", "Spacing", K.DURATION, "Mean time from one end of it to the next.", 2),
    Column("spacing_cv_pct", "Varies", K.PERCENT, "Standard deviation of the spacing / its mean: 0 is a clock.", 3),
    Column("coverage_pct", "Covers", K.PERCENT, "From its first end to its last, as a share of the whole run.", 2),
)
