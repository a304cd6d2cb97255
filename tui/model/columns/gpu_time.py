"""Columns of busy and idle time, delays and streams."""

from __future__ import annotations

from typing import Final

from tui.model.columns.column import Column, ColumnKind

K = ColumnKind


GPU_TIME: Final = (
    Column("kernel_ns", "Kernel time", K.DURATION, "Summed durations of kernels and whole CUDA graphs.", 5),
    Column("copy_ns", "Other work", K.DURATION, "Summed durations of copies, sets and unified memory work.", 5),
    Column("busy_ns", "Busy", K.DURATION, "Time in which a GPU had any work, whatever it was.", 3, ("busy",)),
    Column("busy_pct", "Busy%", K.PERCENT, "Busy time as a share of the time in question.", 2, ("utilisation",)),
    Column("idle_ns", "Idle", K.DURATION, "The rest of that time: no GPU had any work.", 4, ("idle",)),
    Column(
        "gpu_activity",
        "Activity",
        K.TEXT,
        "recorded, or none recorded: the session names the GPU and other GPUs have work, this one has none.",
        3,
    ),
    Column("span_ns", "Span", K.DURATION, "From the first start to the last end of GPU work in the session.", 6),
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
    Column("calls_pct", "Calls%", K.PERCENT, "Share of the calls of this direction.", 4),
    Column("api_total_ns", "API calls", K.DURATION, "CPU time of the API calls made in it and in ops within it.", 5),
    Column("cpu_overhead_ns", "CPU overhead", K.DURATION, "CPU total without the time of API calls.", 2),
    Column("overhead_pct", "Overhead%", K.PERCENT, "CPU overhead as a share of CPU total.", 3),
    Column(
        "gpu_idle_ns",
        "GPU idle",
        K.DURATION,
        "Time between the first and the last GPU work of a call in which none of its work ran; unknown where inferred.",
        3,
    ),
    Column("stream_work", "Work", K.COUNT, "Kernels, copies and sets.", 3),
    Column("beside_ns", "Beside others", K.DURATION, "Busy time in which another stream of the GPU had work too.", 4),
    Column("beside_pct", "Beside%", K.PERCENT, "The same as a share of the stream's busy time.", 4),
    Column("end_ns", "End", K.TIME, "When the last of it ended.", 4),
)
