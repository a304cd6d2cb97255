"""From the reports of one run to the frames of the model, when all are read.

Several reports tell of the same time: kernels stand in ``cuda_gpu_kern_sum``, ``cuda_gpu_kern_gb_sum``,
``cuda_gpu_sum`` and ``cuda_api_gpu_sum``. One of them feeds each part of ``summary``; an issue names the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.linking.whole_run import linked
from tui.loaders.nsys_stats.rows import without_domain
from tui.loaders.nsys_stats.traces import activities_of, calls_of_launches, kernels_of_launches
from tui.loaders.nsys_stats.unified_memory import FIGURES

if TYPE_CHECKING:
    from tui.loaders.collector import Collector
    from tui.loaders.nsys_stats.state import Report, Run

_SUMMARY: Final = (
    *("name", "calls", "total_ns", "avg_ns", "median_ns", "min_ns", "max_ns", "std_ns", "time_pct", "line"),
)

_KERNELS: Final = ("kern_sum", "kern_gb_sum", "gpu_sum")
_MEMORY: Final = ("mem_time_sum", "gpu_sum")
_OTHER_SECTIONS: Final = (("os_sum", "os"), ("openacc_sum", "openacc"), ("openmp_sum", "openmp"))

_OF_MEMORY: Final = r"(?i)mem"
"""Categories of work on memory: MEMORY_OPER, CUDA_GPU_MEMOPS."""
_OF_API: Final = r"(?i)api"
_CALL_OF_CUDA: Final = "cu"
"""How the names of all calls of the runtime and of the driver begin."""
_TOOL: Final = "Nsight Systems"


def hand_over(run: Run, collector: Collector) -> None:
    """Give the rows of a run to the collector."""
    _gpu_sums(run, collector)
    _api_sums(run, collector)
    _nvtx_sums(run, collector)
    for kind, section in _OTHER_SECTIONS:
        _feed(run, collector, section, [(report, report.frame) for report in run.of(kind)])
    _figures(run, collector)
    _traces(run, collector)
    for report in run.of("other", "mpi_event_sum", "count_sum"):
        rest = report.frame.filter(~_is_memory()) if report.kind == "count_sum" else report.frame
        if rest.height:
            what = f"the report {report.title} has no view here: its {rest.height} rows are in the log alone"
            collector.issue("info", report.line, "", what)
    _cut_names(run, collector)


def _gpu_sums(run: Run, collector: Collector) -> None:
    kernels, memory = [], []
    for report in run.of(*_KERNELS):
        frame = report.frame
        if report.kind == "gpu_sum":
            category = pl.col("category").fill_null("")
            frame = frame.filter(~category.str.contains(_OF_API) & ~category.str.contains(_OF_MEMORY))
        kernels.append((report, frame))
    for report in run.of(*_MEMORY):
        frame = report.frame
        if report.kind == "gpu_sum":
            category = pl.col("category").fill_null("")
            frame = frame.filter(category.str.contains(_OF_MEMORY) & ~category.str.contains(r"(?i)_api"))
        memory.append((report, frame))
    # The oldest versions head the names of copies like any others.
    memory += [(report, report.frame.filter(_is_memory())) for report in run.of("count_sum")]
    if not kernels:
        kernels = [(report, _from_launches(report, collector)) for report in run.of("kern_exec_sum")]
    _feed(run, collector, "gpu", kernels)
    _feed(run, collector, "gpu", memory)


def _is_memory() -> pl.Expr:
    return pl.col("name").cast(pl.String).str.starts_with("[CUDA ").fill_null(False)


def _from_launches(report: Report, collector: Collector) -> pl.DataFrame:
    """Kernels of ``cuda_kern_exec_sum``, which prints averages alone."""
    collector.issue(
        "info",
        report.line,
        "",
        f"{report.title} prints no totals: those of its kernels are calls x average, which is printed to 0.1 ns",
    )
    total = (pl.col("avg_ns") * pl.col("calls")).alias("total_ns")
    return report.frame.with_columns(total, pl.lit(None, pl.Float64).alias("time_pct"))


def _api_sums(run: Run, collector: Collector) -> None:
    candidates = []
    for report in run.of("api_sum"):
        if report.frame["name"].cast(pl.String).str.starts_with(_CALL_OF_CUDA).any():
            candidates.append((report, report.frame))
        else:
            what = "its names are none of CUDA's, and nothing says which calls these are: they are in the log alone"
            collector.issue("info", report.line, "", what)
    for report in run.of("gpu_sum"):
        rows = report.frame.filter(pl.col("category").fill_null("").str.contains(_OF_API))
        if rows.height:
            candidates.append((report, rows))
    _feed(run, collector, "api", candidates)


def _nvtx_sums(run: Run, collector: Collector) -> None:
    sums = [(report, report.frame) for report in run.of("nvtx_sum", "nvtx_pushpop_sum", "nvtx_gpu_proj_sum")]
    _feed(run, collector, "nvtx", [(report, _without_domain(frame, "name")) for report, frame in sums])
    for report in run.of("nvtx_kern_sum"):
        frame = _without_domain(report.frame, "range").with_columns(pl.lit("nvtx").alias("section"))
        collector.add_frame("summary", frame)


def _without_domain(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    return frame.with_columns(without_domain(frame[column]).alias(column))


def _feed(run: Run, collector: Collector, section: str, candidates: list[tuple[Report, pl.DataFrame]]) -> None:
    """Let the first report that has rows feed a part of ``summary``, and tell of the others."""
    candidates = [(report, frame) for report, frame in candidates if frame.height]
    if not candidates:
        return
    chosen, rows = candidates[0]
    columns = [pl.col(name) for name in _SUMMARY if name in rows.columns]
    collector.add_frame("summary", rows.select(*columns, pl.lit(section).alias("section")))
    for report, frame in candidates[1:]:
        if report.kind == "nvtx_gpu_proj_sum":
            # What it alone tells is in the figures.
            continue
        reason = f"{report.title} tells of the same time as {chosen.title} in line {chosen.line}, which is counted"
        totals = frame["total_ns"].sum(), rows["total_ns"].sum()
        if totals[0] != totals[1]:
            reason += f"; it adds up to {totals[0]} ns, that one to {totals[1]} ns"
        collector.issue("info", report.line, "", f"{reason}: its {frame.height} rows are in the log alone")


def _figures(run: Run, collector: Collector) -> None:
    """What has no column of its own: sizes of copies, unified memory, waits of launches, GPU time of NVTX ranges."""
    for report in run.of(*FIGURES):
        _add_figures(collector, [report.frame.with_columns(pl.lit(_TOOL).alias("tool")).drop_nulls("value")])
    for report in run.of("mem_size_sum"):
        frame = report.frame
        parts = [
            _figure(frame, f"size of memory operations, {what}", f"{what}_bytes", "B")
            for what in ("total", "avg", "min", "max")
        ]
        _add_figures(collector, parts)
    for report in run.of("kern_exec_sum"):
        frame = report.frame.with_columns(pl.concat_str("name", "api", separator=" by "))
        parts = [
            _figure(frame, f"launches, {what}", column, "ns")
            for what, column in (
                ("average time of the call", "api_avg_ns"),
                ("average wait of the kernel", "queue_avg_ns"),
                ("longest wait of the kernel", "queue_max_ns"),
            )
        ]
        _add_figures(collector, parts)
    for report in run.of("nvtx_gpu_proj_sum"):
        frame = _without_domain(report.frame, "name")
        _add_figures(collector, [_figure(frame, "NVTX ranges, time of their GPU work", "projected_ns", "ns")])


def _figure(frame: pl.DataFrame, section: str, column: str, unit: str) -> pl.DataFrame:
    return frame.select(
        pl.lit(_TOOL).alias("tool"),
        pl.lit(section).alias("section"),
        pl.col("name").cast(pl.String),
        pl.col(column).cast(pl.Float64).alias("value"),
        pl.lit(unit).alias("unit"),
        "line",
    ).filter(pl.col("value").is_not_null())


def _add_figures(collector: Collector, parts: list[pl.DataFrame]) -> None:
    collector.add_frame("tool_figures", pl.concat(parts))


def _traces(run: Run, collector: Collector) -> None:
    """Single activities, calls and ranges, linked where the reports allow it."""
    launches = [report.frame for report in run.of("kern_exec_trace")]
    activities = [activities_of(report, collector) for report in run.of("gpu_trace")]
    calls = [report.frame for report in run.of("api_trace")]
    from_launches = not activities
    if launches and from_launches:
        activities = [kernels_of_launches(frame) for frame in launches]
        _only_kernels(run, collector)
    if launches and not calls:
        calls = [calls_of_launches(frame) for frame in launches]
    ranges = [report.frame for report in run.of("nvtx_pushpop_trace")[:1] or run.of("nvtx_gpu_proj_trace")[:1]]
    for report in run.of("nvtx_pushpop_trace", "nvtx_gpu_proj_trace")[1:]:
        reason = f"{report.title} has the ranges that another report above has: its rows are in the log alone"
        collector.issue("info", report.line, "", reason)
    frames = linked(
        pl.concat(activities, how="diagonal") if activities else None,
        pl.concat(calls) if calls else None,
        pl.concat(ranges) if ranges else None,
        run.session,
        collector,
    )
    collector.add_frames(frames)


def _only_kernels(run: Run, collector: Collector) -> None:
    """Single kernels take the place of what the summaries add up, copies included."""
    memory = run.of("mem_time_sum")
    if memory:
        reason = (
            f"single kernels ({run.of('kern_exec_trace')[0].title}) take the place of the sums; no report has single "
            "copies and memsets, so they are in this sum alone (frame summary): print cuda_gpu_trace as well"
        )
        collector.issue("info", memory[0].line, "", reason)


def _cut_names(run: Run, collector: Collector) -> None:
    """Text tables cut names: kernels whose names begin alike become one."""
    for report in run.of("kern_sum", "kern_gb_sum", "gpu_sum"):
        names = report.frame["name"].cast(pl.String)
        cut = names.filter(names.str.contains(r"(?:…|\.\.\.)$"))
        if cut.len():
            same = cut.len() - cut.n_unique()
            also = f"; {same} of them begin like another one and count with it" if same else ""
            reason = f"nsys cut {cut.len()} names{also}: print with --format csv to have them whole"
            collector.issue("info", report.line, str(cut[0]), reason)
