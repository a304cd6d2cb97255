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
    absent: str = ""
    """What a screen shows where there is no value, if that means more than that it is unknown."""


def _of_calls(stem: str, title: str, what: str) -> tuple[Column, ...]:
    """The average, the least and the most of what one call of an op has."""
    words = (("avg", "Average"), ("min", "The least"), ("max", "The most"))
    return tuple(
        Column(f"{stem}_{figure}_ns", f"{title} {figure}", ColumnKind.DURATION, f"{word} {what} of a call.", 8)
        for figure, word in words
    )


K = ColumnKind

_ALL: Final = (
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
    Column("start_ns", "Start", K.TIME, "When it began, since the clock zero of the log.", 2, ("start",)),
    Column("duration_ns", "Duration", K.DURATION, "How long it ran.", 1, ("dur", "duration")),
    Column("device", "Dev", K.NUMBER, "GPU, by the number the log gives it.", 7),
    Column("context", "Ctx", K.NUMBER, "CUDA context.", 9),
    Column("stream", "Stream", K.NUMBER, "CUDA stream.", 5),
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
    Column("throughput", "Rate", K.RATE, "Size divided by duration, as the log prints it.", 5, ("rate",)),
    Column("copy_kind", "Copy", K.TEXT, "Direction: HtoD, DtoH, DtoD, PtoP; set for memsets.", 6),
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
    Column("op", "Op", K.TEXT, "Op by its recorded name; where none is recorded, op type and direction.", 1),
    Column("op_type", "Type", K.TEXT, "What the op does: convolution, gemm, pooling, ...", 5),
    Column("direction", "Dir", K.TEXT, "fprop, bprop, or mixed where its calls differ; ? where it cannot be told.", 7),
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
        "CPU total without the ops and CUDA calls that it made, where they are recorded (key_averages: Self CPU).",
        4,
        ("cpu_self", "self_cpu"),
    ),
    Column("cpu_avg_ns", "CPU avg", K.DURATION, "CPU total divided by calls.", 8, ("cpu_avg",)),
    Column("api_ns", "CUDA calls", K.DURATION, "CPU time of the CUDA calls that it made itself.", 8, ("api",)),
    Column("launches", "Launches", K.COUNT, "Kernels and memory operations that it launched itself.", 5),
    Column("ops", "Ops", K.COUNT, "Distinct ops by name.", 5),
    Column("tc_eligible", "TC ok", K.FLAG, "Whether the op could use tensor cores, as far as is known.", 8),
    Column("op_source", "From", K.TEXT, "recorded, nvtx (a range), or inferred from the names of kernels.", 7),
    Column("rule", "Rule", K.TEXT, "The pattern of op_types.toml that told the op type from the kernel's name.", 9),
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
    Column("metric", "Metric", K.TEXT, "Metric or event, by the profiler's name.", 1),
    Column("avg", "Avg", K.MEASURE, "Mean over the invocations, in the unit beside it.", 2),
    Column("min", "Min", K.MEASURE, "Smallest, in the unit beside it.", 4),
    Column("max", "Max", K.MEASURE, "Largest, in the unit beside it.", 4),
    Column("total", "Total", K.MEASURE, "Over all invocations, where the input has it (events).", 6),
    Column("unit", "Unit", K.TEXT, "%, B/s, B, level (0 idle to 10 max); counts and ratios have none.", 8),
    Column("invocations", "Calls", K.NUMBER, "How often the kernel ran.", 5),
    Column("description", "Description", K.TEXT, "What the metric says, in the profiler's words.", 6),
    Column("device_name", "GPU", K.TEXT, "GPU, as the input names it.", 8),
    Column(
        "section",
        "Section",
        K.TEXT,
        "um (unified memory), os (calls of the operating system), openacc, openmp, nvtx, cpu or dependency.",
        3,
    ),
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
    Column("range_gpu_ns", "GPU time", K.DURATION, "Summed durations of the GPU work that was launched within.", 2),
    Column("range_kernels", "Kernels", K.COUNT, "Kernels, and whole CUDA graphs, that were launched within.", 4),
    Column("domain", "Domain", K.TEXT, "NVTX domain: which library or program named the range.", 4),
    Column("depth", "Depth", K.NUMBER, "How many ranges of its thread lie around it.", 7),
    Column("number", "#", K.NUMBER, "Row in the input's own order, from 0.", 9),
    Column("gpu_ns", "GPU time", K.DURATION, "Summed durations of its GPU work; work can overlap in time.", 2),
    Column("kernels_launched", "Kernels", K.COUNT, "Launches of kernels; a whole CUDA graph counts as one.", 3),
    Column("kernel_ns", "Kernel time", K.DURATION, "Summed durations of kernels and whole CUDA graphs.", 5),
    Column("copy_ns", "Other work", K.DURATION, "Summed durations of copies, sets and unified memory work.", 5),
    Column("busy_ns", "Busy", K.DURATION, "Time in which a GPU had any work, whatever it was.", 3, ("busy",)),
    Column("busy_pct", "Busy%", K.PERCENT, "Busy time as a share of the time in question.", 2, ("utilisation",)),
    Column("idle_ns", "Idle", K.DURATION, "The rest of that time: no GPU had any work.", 4, ("idle",)),
    Column("span_ns", "Span", K.DURATION, "From the first start to the last end of GPU work in the session.", 6),
    Column("rank", "Rank", K.NUMBER, "Rank of the process among those that worked together.", 6),
    Column("host", "Host", K.TEXT, "Machine that it ran on.", 8),
    Column("gpu_name", "GPU", K.TEXT, "As the input names it.", 1),
    Column("memory_bytes", "Memory", K.SIZE, "Of the GPU.", 4),
    Column("memory_bandwidth", "Bandwidth", K.RATE, "Of the GPU's memory, at most.", 5),
    Column("max_threads_per_sm", "Threads/SM", K.COUNT, "Threads that an SM holds at most.", 8),
    Column("registers_per_sm", "Regs/SM", K.COUNT, "Registers of an SM.", 8),
    Column("shared_memory_per_sm_bytes", "Shared/SM", K.SIZE, "Shared memory of an SM.", 7),
    Column("facts_source", "Facts from", K.TEXT, "file, table (by the GPU's name), option (--gpu) or unknown.", 8),
    Column("vendor", "Vendor", K.TEXT, "Who made it, where it is not NVIDIA.", 7),
    Column("tool", "Tool", K.TEXT, "The recording tool that says so.", 7),
    Column("tool_name", "What it says", K.TEXT, "A figure or a problem, in the tool's own words.", 1),
    Column("tool_value", "Value", K.MEASURE, "As the tool worked it out, in its unit.", 1),
    Column("category", "Used for", K.TEXT, "What wall time was used for; of several at once the first one counts.", 1),
    Column("time_ns", "Time", K.DURATION, "Wall time of it alone, the mean over the GPUs.", 2),
    Column("wall_ns", "Wall", K.DURATION, "From the first begin to the last end of what is looked at.", 7),
    Column("wall_pct", "Wall%", K.PERCENT, "Share of the wall time.", 1),
    Column("why", "Why not", K.TEXT, "Why it cannot be told, or what else is to be known of it.", 5),
    Column("total_span_ns", "Span", K.DURATION, "From the first start to the last end of work on this GPU.", 3),
    Column("compute_ns", "Compute", K.DURATION, "Time in which a kernel ran that does not communicate.", 2),
    Column("exposed_comm_ns", "Exposed comm", K.DURATION, "Communication that no computation ran beside.", 2),
    Column("exposed_copy_ns", "Exposed copies", K.DURATION, "Copies that no kernel ran beside.", 2),
    Column("comm_ns", "Comm", K.DURATION, "Time in which a kernel of NCCL, RCCL or NVSHMEM ran.", 5),
    Column("comm_hidden_pct", "Comm hidden%", K.PERCENT, "Share of communication that computation ran beside.", 5),
    Column("copies_ns", "Copies", K.DURATION, "Time in which a copy ran.", 5),
    Column("copy_hidden_pct", "Copies hidden%", K.PERCENT, "Copies and kernels at once, as a share of the shorter.", 5),
    Column("both_ways_pct", "Both ways%", K.PERCENT, "Copies to and from the GPU at once, of the shorter.", 7),
    Column("concurrent_ns", "Concurrent", K.DURATION, "Time in which two kernels or more ran at once.", 6),
    Column("concurrent_pct", "Concurrent%", K.PERCENT, "The same as a share of the time of kernels.", 6),
    Column("most_at_once", "Most at once", K.NUMBER, "Kernels that ran at the same time.", 8),
    Column("kernel_streams", "Streams", K.NUMBER, "Streams that kernels ran in.", 7),
    Column("queue_median_ns", "Queue p50", K.DURATION, "Half waited no longer between the call's end and begin.", 2),
    Column("queue_p90_ns", "Queue p90", K.DURATION, "Nine of ten waited no longer than this.", 4),
    Column("queue_p99_ns", "Queue p99", K.DURATION, "99 of 100 waited no longer than this.", 5),
    Column("queue_max_ns", "Queue max", K.DURATION, "The longest wait.", 3),
    Column("early", "Early", K.COUNT, "Launches that began before the call returned.", 6),
    Column("late", "Late", K.COUNT, "Launches that waited over 100 us while the GPU had nothing to do.", 3),
    Column("late_pct", "Late%", K.PERCENT, "Share of the launches that were late.", 4),
    Column(
        "depth_median", "Depth", K.NUMBER, "Work that was launched and had not begun at the call, in the median.", 5
    ),
    Column("depth_max", "Deepest", K.NUMBER, "The most work that was launched and had not begun at a call.", 7),
    Column("span_pct", "Span%", K.PERCENT, "Share of the time from the GPU's first start to its last end.", 2),
    Column(
        "wait",
        "GPU waits for",
        K.TEXT,
        "host wait (the next work had not been launched), kernel wait (under 30 ns), other; ? where it cannot be told.",
        2,
    ),
    Column(
        "cpu_in",
        "CPU in",
        K.TEXT,
        "The kind of API call that was on longest, on any thread: sync, copy call, launch, ...; or no call.",
        3,
    ),
    Column("call", "Call", K.SYMBOL, "The API call that was on longest.", 3),
    Column("call_ns", "In call", K.DURATION, "How long that call was on.", 5),
    Column("before", "After", K.SYMBOL, "The work that ended last before it.", 4),
    Column("after", "Before", K.SYMBOL, "The work that began then.", 4),
    Column("api_calls_begun", "Calls begun", K.COUNT, "API calls that began in it.", 8),
    Column(
        "achieved",
        "Achieved",
        K.RATE,
        "Size / duration of those of which both are known; impossible rates are left out.",
        3,
    ),
    Column(
        "ceiling", "Ceiling", K.RATE, "The most that the hardware can do; a copy within the GPU reads and writes.", 5
    ),
    Column("ceiling_pct", "Of ceiling", K.PERCENT, "Achieved rate as a share of the ceiling.", 5),
    Column(
        "impossible",
        "Impossible",
        K.COUNT,
        "How many were faster than the GPU's memory (by over 5 %): their times or sizes are wrong.",
        7,
    ),
    Column("size_class", "Size", K.TEXT, "Bytes of one copy or set.", 1),
    Column("calls_pct", "Calls%", K.PERCENT, "Share of the calls of this direction.", 4),
    Column("api_total_ns", "CUDA calls", K.DURATION, "CPU time of the CUDA calls made in it and in ops within it.", 5),
    Column("cpu_overhead_ns", "CPU overhead", K.DURATION, "CPU total without the time of CUDA calls.", 2),
    Column("overhead_pct", "Overhead%", K.PERCENT, "CPU overhead as a share of CPU total.", 3),
    Column(
        "gpu_idle_ns",
        "GPU idle",
        K.DURATION,
        "Time between the first and the last GPU work of a call in which none of its work ran.",
        3,
    ),
    Column("who", "Who", K.TEXT, "Rank, or session and process where the input tells no rank.", 1),
    Column("gpus", "GPUs", K.NUMBER, "GPUs that it used.", 7),
    Column("iterations", "Iterations", K.NUMBER, "Iterations whose time is known.", 6),
    Column("iteration_avg_ns", "Iteration", K.DURATION, "Mean time of an iteration.", 2),
    Column("iteration_std_ns", "Iteration std", K.DURATION, "Standard deviation of the iterations' times (n - 1).", 6),
    Column("iteration_max_ns", "Longest iteration", K.DURATION, "The longest iteration.", 6),
    Column(
        "came_last",
        "Came last",
        K.COUNT,
        "Iterations in which it was in the long collectives for the shortest time: the others waited for it.",
        3,
    ),
    Column("waited_ns", "Waited", K.DURATION, "Time in long collectives above the rank that came last.", 3),
    Column("behind_ns", "Above mean", K.DURATION, "The rank's iteration less the mean over the ranks.", 3),
    Column("mean_ns", "Mean", K.DURATION, "Mean over the ranks.", 3),
    Column("spread_pct", "Spread%", K.PERCENT, "Longest less shortest rank, as a share of the mean.", 2),
    Column("longest_rank", "Longest", K.TEXT, "Rank whose iteration is the longest.", 4),
    Column("last_rank", "Last to collectives", K.TEXT, "Rank that came last to the long collectives.", 2),
    Column("wait_ns", "Waits", K.DURATION, "What the rank that waited longest was in them above the last one.", 3),
    Column("shortest_ns", "Shortest", K.DURATION, "Shortest over the ranks.", 6),
    Column("longest_ns", "Longest", K.DURATION, "Longest over the ranks.", 6),
    Column("ranks", "Ranks", K.NUMBER, "How many ranks have it.", 7),
    Column("stream_work", "Work", K.COUNT, "Kernels, copies and sets.", 3),
    Column("beside_ns", "Beside others", K.DURATION, "Busy time in which another stream of the GPU had work too.", 4),
    Column("beside_pct", "Beside%", K.PERCENT, "The same as a share of the stream's busy time.", 4),
    Column("end_ns", "End", K.TIME, "When the last of it ended.", 4),
    Column("rate", "Rate", K.RATE, "Size divided by duration.", 4),
    Column("is_impossible", "Impossible", K.FLAG, "Faster than the GPU's memory by over 5 %: left out of rates.", 5),
    Column("place", "Of", K.TEXT, "GPU or CPU, whose memory it is.", 2),
    Column("events", "Events", K.COUNT, "Allocations and releases.", 4),
    Column("peak_bytes", "Peak", K.SIZE, "The most that was allocated at once, after any of the events.", 1),
    Column("peak_at_ns", "Peak at", K.TIME, "When the peak was reached first, on the CPU's clock.", 3),
    Column("peak_iteration", "Peak in", K.NUMBER, "Iteration in which the peak was reached first.", 3),
    Column("reserved_peak_bytes", "Reserved", K.SIZE, "The most that the allocator held of the device at once.", 3),
    Column("first_bytes", "At first", K.SIZE, "Allocated before the first event.", 5),
    Column("last_bytes", "At last", K.SIZE, "Allocated after the last event.", 4),
    Column("growth_bytes", "Growth", K.SIZE, "Allocated at last less at first.", 4),
    Column("gained_bytes", "Allocated", K.SIZE, "Sum of all allocations in it.", 5),
    Column("delta_bytes", "Change", K.SIZE, "Bytes allocated, or released where negative.", 1),
    Column("allocated_bytes", "Allocated", K.SIZE, "Allocated in all after it.", 2),
    Column("reserved_bytes", "Reserved", K.SIZE, "What the allocator held of the device then.", 4),
    Column("address", "Address", K.NUMBER, "Where the block lies.", 7),
    Column("result", "Returned", K.NUMBER, "The code that the call returned; 0 is success.", 4, ("code",)),
    Column("result_name", "Code", K.TEXT, "What CUDA calls that code, where one name is sure.", 3),
    Column("functions", "Functions", K.NUMBER, "Distinct functions that were called.", 4),
    Column("function", "Function", K.SYMBOL, "The API function.", 1),
    Column("self_ns", "Self", K.DURATION, "Total without the ranges inside it on its thread.", 4),
    Column("names", "Names", K.NUMBER, "Distinct names.", 3),
    Column("thread", "Thread", K.TEXT, "Process and thread.", 1),
    Column("tensor_core_ns", "TC busy", K.DURATION, "Time in which a kernel that uses tensor cores ran.", 4),
    Column("other_kernel_ns", "Other kernels", K.DURATION, "Time in which other kernels ran, and none of those.", 5),
    Column(
        "unknown_kernel_ns",
        "TC unknown",
        K.DURATION,
        "Time in which only kernels ran of which nothing says whether they use tensor cores.",
        8,
    ),
    Column("memory_ns", "Memory", K.DURATION, "Time in which a copy or a memset ran, and no kernel.", 6),
    Column(
        "dataloader_ns", "Data loading", K.DURATION, "No GPU work: the host loaded data, by names of ops and ranges.", 7
    ),
    Column("io_ns", "Files", K.DURATION, "No GPU work: the host read or wrote files, by names of ops and ranges.", 7),
    Column("cpu_ns", "CPU", K.DURATION, "No GPU work: the host was in an op or an API call.", 6),
    Column("other_ns", "Other", K.DURATION, "None of these: nothing recorded was on.", 6),
    Column("aggregated", "In", K.FLAG, "Whether it is one of the chosen iterations, which all other views show.", 3),
    Column("tc_kernels", "TC kernels", K.COUNT, "Launches of kernels that use tensor cores, as far as is known.", 4),
    Column("tc_unknown", "TC?", K.COUNT, "Kernels of which nothing says whether they use tensor cores.", 7),
    Column(
        "kernel_pct",
        "GPU%",
        K.PERCENT,
        "Kernel time, the mean over the GPUs, as a share of the duration; above 100 where kernels overlap or run on.",
        2,
    ),
    Column("tc_ns", "TC time", K.DURATION, "Summed durations of kernels that use tensor cores, as far as is known.", 4),
    Column("tc_pct", "TC%", K.PERCENT, "TC time, the mean over the GPUs, as a share of the duration.", 3),
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
    Column(
        "gpu_busy_ns",
        "GPU busy",
        K.DURATION,
        "Time in which its own GPU work ran, work at once counted once (what DLProf calls GPU time).",
        5,
    ),
    *_of_calls("gpu_busy", "busy", "GPU busy time"),
    Column(
        "cpu_own_ns",
        "CPU time",
        K.DURATION,
        "CPU time of its calls, CUDA calls among it, without the ops that they called on their thread.",
        3,
    ),
    *_of_calls("cpu_own", "CPU", "CPU time"),
    *_of_calls("cpu_overhead", "overhead", "CPU overhead"),
    *_of_calls("gpu_idle", "idle", "GPU idle time"),
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
    Column("eligible_ops", "TC ok", K.COUNT, "Ops in it, by name, that could use tensor cores.", 6),
    Column("tc_ops", "On TC", K.COUNT, "Ops in it, by name, with a kernel that uses tensor cores.", 6),
    Column("repaired", "Repaired", K.FLAG, "Whether the row had lost its shape and was put back together.", 8),
    Column("view", "View", K.TEXT, "The view that it is in.", 2),
    Column("row", "Row", K.TEXT, "The row that the note is on, with those that were gone into on the way to it.", 1),
    Column("note", "Note", K.TEXT, "What was written.", 1),
    Column("written", "Written", K.TEXT, "When, in the time of this machine.", 4),
    Column("written_of", "Of", K.TEXT, "The file as it is now, or as it was before it changed.", 3),
    Column("change", "Change", K.TEXT, "new or gone; empty where both sides have it.", 4),
    Column(
        "a_total_ns", "Before", K.DURATION, "Time of the first profile, per iteration where both have iterations.", 2
    ),
    Column("b_total_ns", "Now", K.DURATION, "Time of the second profile, per iteration where both have iterations.", 2),
    Column("delta_ns", "Diff", K.DURATION, "Now less before; what is new or gone counts as 0 on the other side.", 1),
    Column("delta_pct", "Diff%", K.PERCENT, "Difference as a share of the time before.", 3),
    Column("a_calls", "Calls before", K.RATIO, "Calls of the first profile, per iteration as the times are.", 6),
    Column("b_calls", "Calls now", K.RATIO, "Calls of the second profile, per iteration as the times are.", 6),
    Column("a_avg_ns", "Avg before", K.DURATION, "Time of one call of the first profile.", 7),
    Column("b_avg_ns", "Avg now", K.DURATION, "Time of one call of the second profile.", 7),
    Column(
        "avg_delta_pct", "Avg diff%", K.PERCENT, "Difference of the time of one call, as a share of that before.", 5
    ),
)

COLUMNS: Final[dict[str, Column]] = {column.name: column for column in _ALL}


def columns(*names: str) -> tuple[Column, ...]:
    """The columns of these names, in this order.

    >>> [column.title for column in columns("name", "calls")]
    ['Name', 'Calls']
    """
    return tuple(COLUMNS[name] for name in names)
