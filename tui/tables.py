"""The registry of tables: each is declared once, with its function, columns, reports and needs.

Export, SQL, reports, capabilities and screens read it. It imports nothing of the program: modules are named as text and
imported when a table is requested, so that the command line lists tables before Polars is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import polars as pl

    from tui.model.profile import Profile
    from tui.model.table_spec import TableSpec

MODEL_FRAMES: Final = (
    "sessions",
    "devices",
    "activities",
    "api_calls",
    "ops",
    "ranges",
    "summary",
    "metrics",
    "layers",
    "tool_figures",
    "tool_findings",
    "memory_events",
    "memory_segments",
    "memory_blocks",
    "issues",
)
"""The frames of `tui.model.schema`, which are exported as they are."""

VIEW_OF_REPORT: Final = {"ops": "ops-and-kernels", "api": "api-calls", "findings": "expert-systems", "ranks": "gpus"}
"""Reports whose view has another name."""


def _resolve(reference: str) -> Any:
    module, name = reference.split(":")
    return getattr(import_module(f"tui.analysis.{module}"), name)


class Table(NamedTuple):
    """A table that is computed from a profile.

    References to code are ``module:name`` below `tui.analysis`.
    """

    name: str
    """Its name in export and in SQL."""
    function: str
    """The function of a profile that computes its rows."""
    spec: str = ""
    """The `TableSpec`: its columns in reports and on screens. Empty: it is only exported."""
    reports: tuple[str, ...] = ()
    """The reports that print it: the first table of each always, the others if they have rows."""
    needs: str = ""
    """The `Need` that the profile must meet for a view whose first table this is. Empty: none."""
    is_exported: bool = True
    """It can be exported and queried."""
    export_function: str = ""
    """The function that computes the rows for export, if different."""
    is_summed: bool = False
    """The sum of its weights is meaningful."""
    spec_function: str = ""
    """The function that adapts the `TableSpec` to a profile."""
    title: str = ""
    """Its title in reports, if different from that of the `TableSpec`."""

    def rows(self, profile: Profile) -> pl.DataFrame:
        """Return the rows for reports and screens."""
        rows: pl.DataFrame = _resolve(self.function)(profile)
        return rows

    def exported_rows(self, profile: Profile) -> pl.DataFrame:
        """Return the rows for export and SQL."""
        rows: pl.DataFrame = _resolve(self.export_function or self.function)(profile)
        return rows

    def table_spec(self, profile: Profile | None = None) -> TableSpec:
        """Return the columns, adapted to a profile if given."""
        spec: TableSpec = _resolve(self.spec)
        if profile is not None and self.spec_function:
            spec = _resolve(self.spec_function)(profile)
        if not self.title:
            return spec
        from dataclasses import replace  # here: `--help` imports the registry

        return replace(spec, title=self.title)


TABLES: Final = (
    # GPU work and API calls by name.
    Table(
        "kernels",
        "roofline:kernels_with_rates",
        "kernels:KERNELS",
        ("kernels",),
        needs="GPU_WORK",
        export_function="kernels:exported_kernels",
        is_summed=True,
        spec_function="roofline:kernels_with_rates_spec",
    ),
    Table(
        "api",
        "api_calls:api",
        "api_calls:API",
        ("api",),
        needs="API_WORK",
        export_function="api_calls:exported_api",
        is_summed=True,
    ),
    # Ops: by name, by type, one by one, as a tree; kernels with their ops.
    Table(
        "ops",
        "roofline:ops_with_rates",
        "ops.ops_by_name:OPS",
        ("ops",),
        needs="GPU_WORK",
        is_exported=False,
        is_summed=True,
        spec_function="roofline:ops_with_rates_spec",
    ),
    Table("ops_by_name", "roofline:ops_by_name_with_rates"),
    Table("op_types", "ops.op_types:op_types"),
    Table(
        "op_type_summary",
        "ops.op_types:op_type_summary",
        "ops.op_types:OP_TYPE_SUMMARY",
        ("op-types",),
        needs="GPU_WORK",
        is_summed=True,
    ),
    Table("op_instances", "ops.op_instances:instances"),
    Table(
        "op_forest",
        "ops.op_trees:group_ops",
        "ops.op_trees:OP_FOREST",
        ("group-ops",),
        needs="GPU_WORK",
        export_function="ops.op_trees:exported_forest",
    ),
    Table(
        "flame",
        "ops.flame:flame",
        "ops.flame:FLAME",
        ("flame",),
        needs="GPU_WORK",
        export_function="ops.flame:exported_flame",
    ),
    Table("op_kernels", "ops.ops_by_name:kernels_with_ops"),
    # FLOPs, bytes and distance from the GPU's peaks.
    Table(
        "op_work_by_shape",
        "roofline:op_work_by_shape",
        "roofline:ROOFLINE",
        ("roofline",),
        needs="SHAPES",
        export_function="roofline:exported_op_work_by_shape",
        is_summed=True,
    ),
    Table("op_work", "roofline:exported_op_work"),
    Table("kernel_rates", "roofline:kernel_rates"),
    Table("op_work_unknown", "roofline:op_work_unknown", "roofline:UNKNOWN_WORK", ("roofline",)),
    # Critical path of iterations.
    Table(
        "critical_paths",
        "critical_path:critical_paths",
        "critical_path:CRITICAL_PATHS",
        ("critical-path",),
        needs="START_TIMES",
        spec_function="critical_path:critical_paths_spec",
    ),
    Table(
        "critical_path",
        "critical_path_slack:critical_path",
        "critical_path_slack:CRITICAL_PATH",
        ("critical-path",),
        is_summed=True,
    ),
    Table("path_segments", "critical_path:path_segments"),
    # Launch configurations with their theoretical occupancy.
    Table("occupancy", "occupancy:occupancy"),
    # Iterations: their times and uses, their kernels and ops, and what could be their key.
    Table(
        "iterations",
        "iterations.times:iterations_with_uses",
        "iterations.times:ITERATIONS_WITH_USES",
        ("iterations",),
        needs="START_TIMES",
        export_function="iterations.times:exported_iterations",
        is_summed=True,
        spec_function="iterations.times:iterations_spec",
    ),
    Table("phases", "iterations.serving:phases", "iterations.serving:PHASES_SPEC", ("iterations",)),
    Table(
        "iteration_work",
        "iterations.work:iteration_work",
        "iterations.work:ITERATION_WORK",
        ("kernels-by-iteration", "kernels-by-op"),
        needs="START_TIMES",
        is_summed=True,
    ),
    Table(
        "slowest_iteration_launches",
        "iterations.work:slowest_iteration_launches",
        "iterations.work:ITERATION_LAUNCHES",
        ("kernels-by-iteration",),
        is_exported=False,
        title="Launches of the slowest iteration",
    ),
    Table(
        "slowest_iteration_ops",
        "iterations.work:slowest_iteration_ops",
        "iterations.work:ITERATION_OPS",
        ("kernels-by-op",),
        is_exported=False,
        title="Ops of the slowest iteration",
    ),
    Table("iteration_times", "iterations.times:iteration_times"),
    Table("key_choices", "iterations.candidate_keys:key_choices"),
    # NVTX ranges and annotations.
    Table("ranges_by_name", "ranges:ranges_by_name", "ranges:RANGES", ("ranges",), needs="RANGES"),
    Table("range_instances", "ranges:range_instances"),
    Table("gpus", "gpus:gpu_summary", "gpus:GPUS", ("gpus",), needs="DEVICES"),
    # Layers: measured and predicted times.
    Table("layer_times", "layers:layers", "layers:LAYERS", ("layers",), needs="LAYERS"),
    Table("layer_totals", "layers:layer_totals", "layers:LAYER_TOTALS", ("layers",)),
    # What the rules of Expert Systems find; printed by `tui.output.check`.
    Table("findings", "expert.findings:findings", reports=("findings",), needs="GPU_WORK"),
    # GPU time: breakdown, idle gaps, overlap, launch delays, CPU overhead of ops.
    Table("breakdown", "gpu_time.breakdown:breakdown"),
    Table("idle_time", "gpu_time.idle_gaps:idle_time"),
    Table("gaps", "gpu_time.idle_gaps:gaps"),
    Table("gap_summary", "gpu_time.idle_gaps:gap_summary"),
    Table("overlap", "gpu_time.overlap:overlap"),
    Table("launch_delays", "launch_calls:launch_delays"),
    Table("delays_by_name", "launch_calls:delays_by_name"),
    Table("op_overheads", "ops.op_costs:overheads_by_name"),
    # Memory: copies and memsets, unified memory, memory snapshots, allocations.
    Table(
        "transfers",
        "copies:transfers",
        "copies:TRANSFERS",
        ("memory",),
        needs="COPIES",
        is_summed=True,
    ),
    Table("transfer_sizes", "copies:transfer_sizes", "copies:TRANSFER_SIZES", ("memory",)),
    Table("tiny_runs", "copies:tiny_runs", "copies:TINY_RUNS", ("memory",)),
    Table(
        "timeline_lanes",
        "timeline.shown:timeline_lanes",
        "timeline.shown:TIMELINE_LANES",
        ("timeline",),
        needs="START_TIMES",
    ),
    Table("single_transfers", "copies:single_transfers"),
    Table("unified_memory", "copies:unified_memory", "copies:UNIFIED", ("memory",)),
    Table(
        "memory_devices",
        "allocator:memory_devices",
        "allocator:MEMORY_DEVICES",
        ("memory",),
    ),
    Table(
        "memory_peak",
        "allocator:memory_peak",
        "allocator:MEMORY_PEAK",
        ("memory",),
        is_summed=True,
    ),
    Table(
        "memory_allocations",
        "allocator:largest_allocations",
        "allocator:MEMORY_ALLOCATIONS",
        ("memory",),
        export_function="allocator:memory_allocations",
    ),
    Table(
        "segments_held",
        "allocator:allocator_segments",
        "allocator:MEMORY_SEGMENTS",
        ("memory",),
        is_summed=True,
    ),
    Table("allocators", "allocator:allocators", "allocator:ALLOCATORS", ("memory",)),
    Table("allocator_iterations", "allocator:allocator_iterations", "allocator:ALLOCATOR_ITERATIONS", ("memory",)),
    # Streams and ranks.
    Table("streams", "gpus:streams", "gpus:STREAMS", ("gpus",)),
    Table("ranks", "rank_summary:ranks", "rank_summary:RANKS", ("gpus", "ranks")),
    Table("rank_iterations", "rank_summary:rank_iterations", "rank_summary:RANK_ITERATIONS", ("gpus",)),
    Table("slowest_ranks", "rank_summary:slowest_ranks", "rank_summary:SLOWEST_RANKS", ("ranks",)),
    Table("op_type_ranks", "rank_summary:op_type_ranks", "rank_summary:OP_TYPE_RANKS", ("ranks",)),
    Table("op_ranks", "rank_summary:op_ranks", "rank_summary:OP_RANKS", ("ranks",)),
    Table("ranks_of_op", "rank_summary:ranks_by_op"),
    Table("collective_kinds", "collectives:collective_kinds", "collectives:COLLECTIVE_KINDS", ("ranks",)),
    Table("collectives", "collective_details:collectives_with_causes"),
    Table(
        "collective_sizes",
        "collective_details:collective_sizes",
        "collective_details:COLLECTIVE_SIZES",
        ("ranks",),
    ),
    Table("collective_ranks", "collectives:collective_ranks"),
    # API calls by thread, and those that failed; ranges by depth.
    Table("api_threads", "api_calls:api_threads", "api_calls:API_THREADS", ("api",)),
    Table("api_errors", "api_calls:api_errors", "api_calls:API_ERRORS", ("api",)),
    Table("cuda_graphs", "cuda_graphs:cuda_graphs", "cuda_graphs:GRAPHS", ("ranges",), is_summed=True),
    Table("graph_replays", "cuda_graphs:graph_replays"),
    Table("ranges_by_depth", "ranges:ranges_by_depth", "ranges:RANGE_DEPTHS", ("ranges",)),
    # Tables of the input, as recorded.
    Table(
        "measured_kernels",
        "hardware_metrics:measured_kernels",
        "hardware_metrics:MEASURED_KERNELS",
        ("metrics",),
        needs="METRICS",
    ),
    Table(
        "hardware_metrics",
        "hardware_metrics:metrics",
        "hardware_metrics:METRICS",
        ("metrics",),
        needs="METRICS",
        is_exported=False,
    ),
    Table(
        "other_summaries",
        "tool_report:extra_summaries",
        "tool_report:EXTRA_SUMMARIES_SPEC",
        ("summaries",),
        needs="EXTRA_SUMMARIES",
        is_exported=False,
    ),
    Table(
        "tool_report",
        "tool_report:tool_report",
        "tool_report:TOOL_REPORT",
        ("tool-report",),
        needs="TOOL_REPORT",
        is_exported=False,
    ),
    Table("issue_list", "issues:issues", "issues:ISSUES", ("issues",), is_exported=False),
)
"""Every table, in the order in which export and SQL list them and in which a report prints them."""

_BY_NAME: Final = {table.name: table for table in TABLES}

COMPUTED: Final = tuple(table.name for table in TABLES if table.is_exported)
"""The tables that are computed from the frames, by their names in export and SQL."""

REPORTS: Final = tuple(dict.fromkeys(report for table in TABLES if table.spec for report in table.reports))
"""Every report that consists of tables."""

ALL_REPORTS: Final = (
    "dashboard",
    *dict.fromkeys(report for table in TABLES for report in table.reports),
    "notes",
)
"""What ``proftui report --view`` prints: the dashboard, what is made of tables, and the user's notes."""

EXPORTED: Final = (*MODEL_FRAMES, *COMPUTED)
"""Every name that can be exported and queried."""


def table(name: str) -> Table:
    """Return the table with a name.

    >>> table("kernels").reports
    ('kernels',)
    """
    return _BY_NAME[name]


def frame(profile: Profile, name: str) -> pl.DataFrame:
    """Return a frame to export or to query.

    Args:
        profile: The profile.
        name: One of `EXPORTED`.
    """
    return profile[name] if name in MODEL_FRAMES else table(name).exported_rows(profile)


def tables_of_report(report: str) -> tuple[Table, ...]:
    """Return the tables of a report, the main one first.

    >>> [table.name for table in tables_of_report("ranges")]
    ['ranges_by_name', 'cuda_graphs', 'ranges_by_depth']
    """
    return tuple(table for table in TABLES if report in table.reports)


def view_of_report(report: str) -> str:
    """Return the name of the view of a report.

    >>> view_of_report("api"), view_of_report("kernels")
    ('api-calls', 'kernels')
    """
    return VIEW_OF_REPORT.get(report, report)


def report_of_view(name: str) -> str:
    """Return the report of a view, or the name itself.

    >>> report_of_view("api-calls"), report_of_view("gpus")
    ('api', 'gpus')
    """
    names = {screen: report for report, screen in VIEW_OF_REPORT.items() if screen not in ALL_REPORTS}
    return names.get(name, name)


def needs_of_views() -> dict[str, str]:
    """Return the name of the need of each view's main table.

    >>> needs_of_views()["kernels"]
    'GPU_WORK'
    """
    needs: dict[str, str] = {}
    for table in TABLES:
        for report in table.reports:
            needs.setdefault(view_of_report(report), table.needs)
    return {view: need for view, need in needs.items() if need}
