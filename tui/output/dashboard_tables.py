"""The tables of the dashboard's report."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tui.analysis.gpu_time.gaps import GAPS
from tui.analysis.layers import LAYER_TOTALS
from tui.model.columns import Column, ColumnKind, columns
from tui.model.view import TableSpec

OPS: Final = TableSpec(
    "top_ops",
    "Top ops",
    columns(
        "op",
        "total_ns",
        "time_pct",
        "calls",
        "launches",
        "avg_ns",
        "kernels",
        "op_type",
        "direction",
        "tc_eligible",
        "uses_tensor_core",
    ),
    key=("op",),
    pinned="op",
)
KERNELS: Final = TableSpec(
    "top_kernels",
    "Top kernels",
    columns("total_ns", "time_pct", "calls", "avg_ns", "uses_tensor_core", "name"),
    key=("name",),
)
API: Final = TableSpec(
    "top_api", "Top API calls", columns("total_ns", "time_pct", "calls", "avg_ns", "name"), key=("name",)
)
COPIES: Final = TableSpec(
    "copies",
    "Copies",
    (
        *columns("copy_kind", "total_ns"),
        replace(columns("time_pct")[0], title="Of copies", help="Share of the time of all copies and sets."),
        *columns("calls", "size_bytes"),
        replace(columns("throughput")[0], help="Size / duration over the copies of which both are known."),
        *columns("kind"),
    ),
    key=("kind", "copy_kind"),
    pinned="copy_kind",
)
DEVICES: Final = TableSpec(
    "devices",
    "GPUs",
    (
        *columns("session", "device", "compute_capability", "sm_count"),
        Column("busy_ns", "Busy", ColumnKind.DURATION, "Time in which the GPU had any work.", 2),
        Column("idle_ns", "Idle", ColumnKind.DURATION, "Wall time in which it had none.", 3),
        Column("busy_pct", "Busy%", ColumnKind.PERCENT, "Busy time as a share of the wall time.", 2),
        *columns("name"),
    ),
    key=("session", "device"),
)
USES: Final = TableSpec(
    "gpu_uses",
    "Total GPU time",
    (Column("use", "Used for", ColumnKind.TEXT, "What GPU time went into.", 1), *columns("total_ns", "time_pct")),
    key=("use",),
    pinned="use",
)
ITERATIONS: Final = TableSpec(
    "iteration_times",
    "Iteration times",
    (
        *columns("session"),
        Column("iterations", "Iterations", ColumnKind.COUNT, "How many.", 1),
        Column("first", "First", ColumnKind.NUMBER, "Number of the first.", 2),
        Column("last", "Last", ColumnKind.NUMBER, "Number of the last.", 2),
        *columns("avg_ns", "median_ns"),
        Column("p95_ns", "p95", ColumnKind.DURATION, "95 % took no longer.", 2),
        *columns("min_ns", "max_ns", "std_ns"),
        Column("steady_first", "Steady from", ColumnKind.NUMBER, "Where the longest steady stretch begins.", 6),
        Column("steady_last", "to", ColumnKind.NUMBER, "Where it ends.", 6),
        Column("steady_avg_ns", "Mean of it", ColumnKind.DURATION, "Its mean time.", 6),
    ),
    key=("session",),
    pinned="iterations",
)
LONGEST: Final = replace(GAPS, name="longest_gaps", title="Longest idle gaps")
TOOL: Final = TableSpec(
    "tool_says",
    "As the recording tool says",
    columns("tool_name", "tool_value", "unit", "text"),
    key=("number",),
    pinned="tool_name",
)
LAYERS: Final = replace(LAYER_TOTALS, title="Layer times by phase")
