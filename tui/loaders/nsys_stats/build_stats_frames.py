"""Builds the frames of the model from the reports of one run.

Several reports cover the same time: kernels are in ``cuda_gpu_kern_sum``, ``cuda_gpu_kern_gb_sum``,
``cuda_gpu_sum`` and ``cuda_api_gpu_sum``. One of them feeds each part of ``summary``; an issue names the others.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.collector import link_run
from tui.loaders.nsys_stats.stats_reports import bytes_per, device_number, strip_domain
from tui.loaders.text.section import NS_PER_UNIT
from tui.model.names import NO_NAME, copy_kind, kind_by_prefix, short_name
from tui.model.schema import NAME
from tui.text import map_distinct, plural

if TYPE_CHECKING:
    from tui.loaders.collector import Collector
    from tui.loaders.nsys_stats.stats_reports import StatsHeader, StatsReport, StatsRun
    from tui.loaders.text.section import CellValues


_SECTION: Final = "unified memory"

FIGURE_COLUMNS: Final = MappingProxyType(
    {
        "um_total_sum": (
            ("totalhtodmigrationsize", "migrated HtoD"),
            ("totaldtohmigrationsize", "migrated DtoH"),
            ("totalcpupagefaults", "CPU page faults"),
            ("totalgpupagefaults", "GPU page faults"),
        ),
        "um_sum": (
            ("htodmigrationsize", "migrated HtoD"),
            ("dtohmigrationsize", "migrated DtoH"),
            ("cpupagefaults", "CPU page faults"),
            ("gpupagefaults", "GPU page faults"),
        ),
        "um_cpu_page_faults_sum": (("cpupagefaults", "CPU page faults"),),
    }
)
"""The columns of each report that become figures, with the names of the figures."""

_ADDRESSES: Final = ("virtualaddress", "cpuinstructionaddress")


def figures_frame(report: str, header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Return columns of ``tool_figures``: sizes in bytes, faults as counts, by address if there is one."""
    address = next((column for column in _ADDRESSES if column in cells), None)
    frames = []
    for column, words in FIGURE_COLUMNS[report]:
        is_size = column.endswith("size")
        factor = bytes_per(header.unit(column)) if is_size else 1
        values = cells.number(column)
        frames.append(
            pl.DataFrame(
                {
                    "section": pl.Series([_SECTION if address is None else f"{_SECTION}, {words}"] * values.len()),
                    "name": pl.Series([words] * values.len()) if address is None else cells.text(address),
                    "value": (values * factor).round()
                    if factor
                    else pl.Series([None] * values.len(), dtype=pl.Float64),
                    "unit": pl.Series(["B" if is_size else None] * values.len(), dtype=pl.String),
                    "line": cells.line,
                }
            )
        )
    return pl.concat(frames)


_HALF_KB: Final = 500
"""The largest rounding error of a size in MB with three decimals."""


def add_kinds(activities: pl.DataFrame) -> pl.DataFrame:
    """Add kind, short_name and copy_kind, from the names."""
    names = activities["name"]
    return activities.with_columns(
        map_distinct(names, kind_by_prefix, NAME).alias("kind"),
        map_distinct(names, short_name, NAME).alias("short_name"),
        map_distinct(names, copy_kind, NAME).alias("copy_kind"),
    )


def build_activities(report: StatsReport, collector: Collector) -> pl.DataFrame:
    """Return the rows of ``cuda_gpu_trace`` as activities."""
    rows = report.frame
    devices = rows["device"]
    for text in devices.unique().drop_nulls().cast(pl.String).sort():
        name, number = device_number(text)
        if number is None:
            collector.issue("info", report.line, text, "device number not recorded: shown as unknown")
        else:
            collector.add_device(number, name)
    rows = rows.with_columns(
        map_distinct(devices, lambda text: device_number(text)[1], pl.Int32()).alias("device"),
        *(_lower(rows[column]) for column in ("src_memory", "dst_memory")),
    )
    collector.resolution(_step_ns(report.header.unit("start"), rows["decimals"]))
    activities = add_kinds(_sizes(rows.drop("decimals"), report, collector))
    # The direction of a copy whose name is truncated; a name between peers has the same kinds of memory.
    is_truncated = pl.col("name").cast(pl.String).str.contains(r"^\[CUDA memcpy (?:Host|Device|Array).*(?:…|\.\.\.)$")
    ends = [
        pl.col(column).cast(pl.String).replace_strict(dict(_MEMORY_LETTERS), default=None, return_dtype=pl.String)
        for column in ("src_memory", "dst_memory")
    ]
    by_memory = pl.when(is_truncated).then(pl.format("{}to{}", *ends))
    return activities.with_columns(pl.coalesce(pl.col("copy_kind").cast(pl.String), by_memory).cast(NAME))


_MEMORY_LETTERS: Final = MappingProxyType({"pageable": "H", "pinned": "H", "device": "D", "array": "A"})


def _step_ns(unit: str | None, decimals: pl.Series) -> int:
    """Return the resolution of start times, by their unit and decimals."""
    max_decimals = decimals.max()
    return max(1, NS_PER_UNIT.get(unit or "ns", 1) // int(10 ** (max_decimals if isinstance(max_decimals, int) else 0)))


def _lower(values: pl.Series) -> pl.Series:
    return map_distinct(values, str.lower, NAME)


def _sizes(rows: pl.DataFrame, report: StatsReport, collector: Collector) -> pl.DataFrame:
    """Return sizes printed in MB with three decimals, refined by the other figures of the row."""
    if report.header.unit("bytes") is None:
        return rows
    exact = (pl.col("throughput") * pl.col("duration_ns") * 1e-9).round()
    is_within_rounding = (exact - pl.col("size_bytes")).abs() <= _HALF_KB + 1e-6 * pl.col("size_bytes") + 1
    size = pl.when(is_within_rounding & (exact > 0)).then(exact.cast(pl.Int64)).otherwise("size_bytes")
    done = rows.with_columns(
        pl.when(size > 0).then(size).alias("size_bytes"),
        *(pl.when(pl.col(name) > 0).then(name).alias(name) for name in ("static_shared_bytes", "dynamic_shared_bytes")),
    )
    if rows["size_bytes"].count():
        reason = (
            f"{report.title} rounds sizes to 0.001 MB: where throughput x duration agrees, that product is the size "
            "of a copy"
        )
        collector.issue("info", report.line, "", reason)
    if rows["static_shared_bytes"].count() or rows["dynamic_shared_bytes"].count():
        reason = (
            f"{report.title} rounds shared memory to 0.001 MB: sizes can be 500 bytes off, and 0.000 (0 to 499 "
            "bytes) is unknown, as is occupancy; the .sqlite export has exact sizes"
        )
        collector.issue("info", report.line, "", reason)
    return done


def kernels_from_launches(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels of ``cuda_kern_exec_trace``, with their launch for `tui.loaders.collector`."""
    wait = pl.format("Waited in the queue: {} ns", pl.col("queue_ns"))
    columns = ("name", "start_ns", "duration_ns", "device", "line")
    shapes = tuple(f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz")
    return add_kinds(
        rows.select(
            *columns,
            *shapes,
            wait.alias("arguments"),
            launch_ns="api_start_ns",
            launch_pid="pid",
            launch_tid="tid",
        )
    )


def calls_from_launches(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the API calls of ``cuda_kern_exec_trace``; a call that launched several kernels is listed once."""
    calls = rows.select(
        "pid",
        "tid",
        "line",
        name="api",
        start_ns="api_start_ns",
        duration_ns="api_ns",
        correlation=pl.lit(None, pl.Int64),
    )
    return calls.unique(["pid", "tid", "name", "start_ns", "duration_ns"], keep="first", maintain_order=True).select(
        "name", "start_ns", "duration_ns", "pid", "tid", "correlation", "line"
    )


_SUMMARY: Final = (
    *("name", "calls", "total_ns", "avg_ns", "median_ns", "min_ns", "max_ns", "std_ns", "time_pct", "size_bytes"),
    "line",
)

_KERNELS: Final = ("kern_sum", "kern_gb_sum", "gpu_sum")
_MEMORY: Final = ("mem_time_sum", "gpu_sum")
_OTHER_SECTIONS: Final = (("os_sum", "os"), ("openacc_sum", "openacc"), ("openmp_sum", "openmp"))

_MEMORY_CATEGORY: Final = r"(?i)mem"
"""Categories of work on memory: MEMORY_OPER, CUDA_GPU_MEMOPS."""
_API_CATEGORY: Final = r"(?i)api"
_CUDA_CALL_PREFIX: Final = "cu"
"""The prefix of all API calls of the CUDA runtime and driver."""
_TOOL: Final = "Nsight Systems"
_START_END: Final = re.compile(r"(?i)start.?end|nvtxss")
"""Titles of sums over NVTX's start/end ranges, which those over push/pop ranges do not have."""


def build_frames(run: StatsRun, collector: Collector) -> None:
    """Add the rows of a run to the collector."""
    _gpu_sums(run, collector)
    _api_sums(run, collector)
    _nvtx_sums(run, collector)
    for kind, section in _OTHER_SECTIONS:
        _feed(run, collector, section, [(report, report.frame) for report in run.with_rows(kind)])
    _figures(run, collector)
    _traces(run, collector)
    for report in run.with_rows("other", "mpi_event_sum", "count_sum"):
        other_rows = report.frame.filter(~_is_memory()) if report.kind == "count_sum" else report.frame
        if other_rows.height:
            unread_text = f"no view shows the report {report.title}: {plural(other_rows.height, 'row')} in the log only"
            collector.issue("info", report.line, "", unread_text)
    _cut_names(run, collector)


def _gpu_sums(run: StatsRun, collector: Collector) -> None:
    kernels, memory = [], []
    for report in run.with_rows(*_KERNELS):
        frame = report.frame
        if report.kind == "gpu_sum":
            category = pl.col("category").fill_null("")
            frame = frame.filter(~category.str.contains(_API_CATEGORY) & ~category.str.contains(_MEMORY_CATEGORY))
        kernels.append((report, frame))
    for report in run.with_rows(*_MEMORY):
        frame = report.frame
        if report.kind == "gpu_sum":
            category = pl.col("category").fill_null("")
            frame = frame.filter(category.str.contains(_MEMORY_CATEGORY) & ~category.str.contains(r"(?i)_api"))
        memory.append((report, frame))
    # The oldest versions have the heading "Name" for copies, too.
    memory += [(report, report.frame.filter(_is_memory())) for report in run.with_rows("count_sum")]
    if not kernels:
        kernels = [(report, _kernels_from_averages(report, collector)) for report in run.with_rows("kern_exec_sum")]
    _feed(run, collector, "gpu", kernels)
    _feed(run, collector, "gpu", [(report, _with_sizes(run, frame)) for report, frame in memory])


def _with_sizes(run: StatsRun, frame: pl.DataFrame) -> pl.DataFrame:
    """Add the total size of copies and memsets, from the run's report of sizes if that has as many calls of them."""
    reports = run.with_rows("mem_size_sum")
    if not reports:
        return frame
    sizes = reports[0].frame.select("name", "calls", size_bytes=pl.col("total_bytes").round().cast(pl.Int64))
    # A printed 0 may be a size below the last digit: unknown.
    sizes = sizes.filter(pl.col("size_bytes") > 0).unique(["name", "calls"], keep="none")
    return frame.join(sizes, on=["name", "calls"], how="left", maintain_order="left")


def _is_memory() -> pl.Expr:
    return pl.col("name").cast(pl.String).str.starts_with("[CUDA ").fill_null(False)


def _kernels_from_averages(report: StatsReport, collector: Collector) -> pl.DataFrame:
    """Return kernels of ``cuda_kern_exec_sum``, which prints only averages."""
    collector.issue(
        "info",
        report.line,
        "",
        f"{report.title} prints no totals: kernel totals are calls x average, rounded to 0.1 ns",
    )
    total = (pl.col("avg_ns") * pl.col("calls")).alias("total_ns")
    return report.frame.with_columns(total, pl.lit(None, pl.Float64).alias("time_pct"))


def _api_sums(run: StatsRun, collector: Collector) -> None:
    candidates = []
    for report in run.with_rows("api_sum"):
        if report.frame["name"].cast(pl.String).str.starts_with(_CUDA_CALL_PREFIX).any():
            candidates.append((report, report.frame))
        else:
            unread_text = "the names are not CUDA calls, and the API is not recorded: they are in the log only"
            collector.issue("info", report.line, "", unread_text)
    for report in run.with_rows("gpu_sum"):
        rows = report.frame.filter(pl.col("category").fill_null("").str.contains(_API_CATEGORY))
        if rows.height:
            candidates.append((report, rows))
    _feed(run, collector, "api", candidates)


def _nvtx_sums(run: StatsRun, collector: Collector) -> None:
    groups: tuple[list[StatsReport], list[StatsReport]] = ([], [])
    sums_both = bool(run.with_rows("nvtx_sum"))
    for report in run.with_rows("nvtx_sum", "nvtx_pushpop_sum", "nvtx_gpu_proj_sum"):
        groups[not sums_both and _START_END.search(report.title) is not None].append(report)
    for reports in groups:
        _feed(run, collector, "nvtx", [(report, _strip_domain(report.frame, "name")) for report in reports])
    for report in run.with_rows("nvtx_kern_sum"):
        frame = _strip_domain(report.frame, "range").with_columns(pl.lit("nvtx").alias("section"))
        collector.add_frame("summary", frame)


def _strip_domain(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    return frame.with_columns(strip_domain(frame[column]).alias(column))


def _feed(
    run: StatsRun, collector: Collector, section: str, candidates: list[tuple[StatsReport, pl.DataFrame]]
) -> None:
    """Feed a section of ``summary`` from the first report with rows, and report the others as not used."""
    candidates = [(report, frame) for report, frame in candidates if frame.height]
    if not candidates:
        return
    chosen, rows = candidates[0]
    if section == "gpu":
        rows = rows.with_columns(pl.col("name").fill_null(pl.lit(NO_NAME, NAME)))
    columns = [pl.col(name) for name in _SUMMARY if name in rows.columns]
    collector.add_frame("summary", rows.select(*columns, pl.lit(section).alias("section")))
    for report, frame in candidates[1:]:
        if report.kind == "nvtx_gpu_proj_sum":
            # Its own columns are added as figures.
            continue
        reason = f"{report.title} covers the same time as {chosen.title} in line {chosen.line}, which is used"
        totals = frame["total_ns"].sum(), rows["total_ns"].sum()
        if totals[0] != totals[1]:
            reason += f"; totals {totals[0]} and {totals[1]} ns"
        collector.issue("info", report.line, "", f"{reason}: {plural(frame.height, 'row')} in the log only")


def _figures(run: StatsRun, collector: Collector) -> None:
    """Add figures without a column in the model: sizes of copies, unified memory, launch delays, GPU time of ranges."""
    for report in run.with_rows(*FIGURE_COLUMNS):
        _add_figures(collector, [report.frame.with_columns(pl.lit(_TOOL).alias("tool")).drop_nulls("value")])
    for report in run.with_rows("mem_size_sum"):
        frame = report.frame
        parts = [
            _figure(frame, f"size of memory ops, {statistic}", f"{statistic}_bytes", "B")
            for statistic in ("total", "avg", "min", "max")
        ]
        _add_figures(collector, parts)
    for report in run.with_rows("kern_exec_sum"):
        frame = report.frame.with_columns(pl.concat_str("name", "api", separator=" by "))
        parts = [
            _figure(frame, f"launches, {statistic}", column, "ns")
            for statistic, column in (
                ("average time of the call", "api_avg_ns"),
                ("average wait of the kernel", "queue_avg_ns"),
                ("longest wait of the kernel", "queue_max_ns"),
            )
        ]
        _add_figures(collector, parts)
    for report in run.with_rows("nvtx_gpu_proj_sum"):
        frame = _strip_domain(report.frame, "name")
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


def _add_figures(collector: Collector, frames: list[pl.DataFrame]) -> None:
    collector.add_frame("tool_figures", pl.concat(frames))


def _traces(run: StatsRun, collector: Collector) -> None:
    """Add single activities, calls and ranges, linked if the reports allow it."""
    launches = [report.frame for report in run.with_rows("kern_exec_trace")]
    activities = [build_activities(report, collector) for report in run.with_rows("gpu_trace")]
    calls = [report.frame for report in run.with_rows("api_trace")]
    has_launches_only = not activities
    if launches and has_launches_only:
        activities = [kernels_from_launches(frame) for frame in launches]
        _only_kernels(run, collector)
    if launches and not calls:
        calls = [calls_from_launches(frame) for frame in launches]
    ranges = [
        report.frame for report in run.with_rows("nvtx_pushpop_trace")[:1] or run.with_rows("nvtx_gpu_proj_trace")[:1]
    ]
    for report in run.with_rows("nvtx_pushpop_trace", "nvtx_gpu_proj_trace")[1:]:
        reason = f"{report.title} repeats the ranges of a report above: its rows are in the log only"
        collector.issue("info", report.line, "", reason)
    frames = link_run(
        pl.concat(activities, how="diagonal") if activities else None,
        pl.concat(calls) if calls else None,
        pl.concat(ranges) if ranges else None,
        run.session,
        collector,
    )
    collector.add_frames(frames)


def _only_kernels(run: StatsRun, collector: Collector) -> None:
    """Use single kernels instead of the summaries, copies included."""
    memory = run.with_rows("mem_time_sum")
    if memory:
        reason = (
            f"single kernels ({run.with_rows('kern_exec_trace')[0].title}) replace this summary, but memcpys and "
            "memsets are in this summary alone (frame summary); print cuda_gpu_trace as well"
        )
        collector.issue("info", memory[0].line, "", reason)


def _cut_names(run: StatsRun, collector: Collector) -> None:
    """Report names cut by text tables: kernels with the same beginning become one."""
    for report in run.with_rows("kern_sum", "kern_gb_sum", "gpu_sum"):
        names = report.frame["name"].cast(pl.String)
        cut = names.filter(names.str.contains(r"(?:…|\.\.\.)$"))
        if cut.len():
            duplicates = cut.len() - cut.n_unique()
            also = f"; {duplicates} of them share their first characters and are merged" if duplicates else ""
            reason = f"nsys truncated {plural(cut.len(), 'name')}{also}; print full names with --format csv"
            collector.issue("info", report.line, str(cut[0]), reason)
    for report in run.with_rows("gpu_trace", "kern_exec_trace"):
        names = report.frame["name"].cast(pl.String)
        cut = names.filter(names.str.contains(r"(?:…|\.\.\.)$"))
        if cut.len():
            reason = (
                f"nsys truncated the names of {plural(cut.len(), 'row')}: kernels with the same first characters are "
                "merged; print full names with --format csv"
            )
            collector.issue("info", report.line, str(cut[0]), reason)
