"""The data that rules need: each function returns what is not recorded, or an empty text if all is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis import needs as data_needs
from tui.analysis.capabilities import recording_advice
from tui.analysis.devices import is_newer_than_nvprof_supports
from tui.analysis.expert.finding_text import known_sum, percent
from tui.analysis.expert.rule import Clean, NotApplicable
from tui.analysis.needs import Tool
from tui.fmt import step

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case


GRAPH_SHARE_PCT: Final = 5.0
"""If whole CUDA graphs take more of the kernel time, the other kernels do not represent the run."""

SETTLED: Final = 0.5
"""If a figure (occupancy, verdicts) is known for less of the time, the rule does not apply."""


_RECORDED_ALONE: Final = {
    "metrics": "only hardware metrics are recorded (see Metrics)",
    "memory_segments": "only a memory snapshot is recorded (see Memory)",
}
"""What a profile without GPU work has instead, by frame."""


def gpu_work(case: Case) -> str:
    """Require GPU work of a run at its own speed, not replayed by a profiler."""
    if case.tool is Tool.NCU:
        return (
            "Nsight Compute replays each kernel, so its times are not those of a run (see Metrics): "
            "record the run with nsys profile --trace=cuda ./app"
        )
    missing = any_gpu_work(case)
    if missing or case.gpu_ns:
        return missing
    return f"durations of GPU work are not recorded: {recording_advice(case.profile, data_needs.START_TIMES)}"


def any_gpu_work(case: Case) -> str:
    """Require GPU work, replayed or not."""
    missing = case.missing.get(data_needs.GPU_WORK.name, "")
    if not missing or data_needs.API_WORK.name not in case.missing:
        return missing
    for frame, recorded in _RECORDED_ALONE.items():
        if case.profile[frame].height:
            return f"{recorded}, {missing}"
    return missing


def start_times(case: Case) -> str:
    """Require start times of GPU work."""
    if case.tool is Tool.NCU:
        return gpu_work(case)
    if case.are_kernels_repeated:
        return (
            "nvprof serializes kernels to measure metrics, so gaps between them mean nothing: record without --metrics"
        )
    missing = any_gpu_work(case) or case.missing.get(data_needs.START_TIMES.name, "")
    return missing or ("" if case.span_ns else "all GPU work starts and ends at the same time")


def kernel_starts(case: Case) -> str:
    """Require start times of GPU work that includes kernels: a table of copies alone does not show idle time."""
    missing = start_times(case)
    return missing or ("" if case.kernel_ns else "no kernels are recorded, so how busy the GPU was is unknown")


def api_work(case: Case) -> str:
    """Require API calls, single or summed."""
    return case.missing.get(data_needs.API_WORK.name, "")


def api_times(case: Case) -> str:
    """Require durations of API calls, single or summed."""
    missing = api_work(case)
    return missing or ("" if case.api["total_ns"].count() else "durations of API calls are not recorded")


def clean_unless_cut(case: Case, verdict: Clean) -> Clean | NotApplicable:
    """Return a verdict on totals of API calls; none if rows of the printed tables are missing."""
    if case.is_table_cut and case.profile["api_calls"].is_empty():
        return NotApplicable("rows of the printed table are missing")
    return verdict


def api_trace(case: Case) -> str:
    """Require API calls with their times."""
    return api_work(case) or case.missing.get(data_needs.API_TRACE.name, "")


def launches_linked(case: Case) -> str:
    """Require the launching call of most GPU work."""
    missing = api_trace(case) or start_times(case)
    if missing:
        return missing
    kernels, linked = int(case.is_kernel_timed.sum()), case.launches
    if not kernels:
        return "no kernels are recorded"
    if linked < SETTLED * kernels:
        share = percent(100 - 100 * linked / kernels)
        if case.profile["api_calls"]["correlation"].null_count():
            return f"{share} of kernels are not linked to their launch call: many calls have no correlation id"
        return f"launch calls of {share} of kernels are not recorded"
    return ""


def launch_configs(case: Case) -> str:
    """Require grids and blocks."""
    return case.missing.get(data_needs.LAUNCH_CONFIGS.name, "") or single_kernels(case)


def single_kernels(case: Case) -> str:
    """Require single kernels, not hidden in CUDA graphs that are recorded as a whole."""
    graphs = case.kind_time_ns("graph")
    if graphs * 100 > GRAPH_SHARE_PCT * case.kernel_ns:
        return (
            f"{percent(100 * graphs / case.kernel_ns)} of the kernel time is in CUDA graphs that are recorded whole: "
            "record with nsys profile --cuda-graph-trace=node"
        )
    return ""


def kernels(case: Case) -> str:
    """Require single kernels that took time."""
    missing = any_gpu_work(case) or single_kernels(case)
    if missing or case.kernels["total_ns"].sum():
        return missing
    return _untimed_kernels(case) if case.kernels["total_ns"].null_count() else "no kernels are recorded"


def several_launches(case: Case) -> str:
    """Require several single launches with their times."""
    missing = kernels(case)
    return missing or ("" if case.profile["activities"].height else case.missing.get(data_needs.START_TIMES.name, ""))


def kernel_times(case: Case) -> str:
    """Require times of compute kernels, as weights."""
    configs = case.configs
    if configs.is_empty():
        return "no compute kernels are recorded"
    return _untimed_kernels(case) if configs["total_ns"].null_count() == configs.height else ""


def _untimed_kernels(case: Case) -> str:
    """Return the sentence about kernels without times."""
    advice = ": record with ncu --set full --csv --page raw ./app" if case.tool is Tool.NCU else ""
    return f"times of kernels are not recorded{advice}"


def _configs_with_times(case: Case) -> str:
    """Require grids and blocks of compute kernels, and their times as weights."""
    return any_gpu_work(case) or launch_configs(case) or kernel_times(case)


def _is_settled(case: Case, figure: str) -> bool:
    """Return whether a figure of launch configs is known for enough of the kernel time."""
    known_ns = known_sum(case.configs.filter(pl.col(figure).is_not_null())["total_ns"])
    return bool(known_ns) and known_ns >= SETTLED * known_sum(case.configs["total_ns"])


def occupancies(case: Case) -> str:
    """Require the theoretical occupancy of most of the kernel time."""
    missing = _configs_with_times(case)
    if missing or _is_settled(case, "occupancy_pct"):
        return missing
    unknown_rows = case.configs.filter(pl.col("occupancy_pct").is_null()).drop_nulls("occupancy_reason")
    return str(unknown_rows["occupancy_reason"][0]) if unknown_rows.height else "no compute kernels are recorded"


def sm_counts(case: Case) -> str:
    """Require the number of SMs of the GPU that did most of the work."""
    missing = _configs_with_times(case)
    if missing or _is_settled(case, "sm_efficiency_pct"):
        return missing
    return unknown_gpu_fact(case, "number of SMs")


def unknown_gpu_fact(case: Case, fact: str) -> str:
    """Return that a fact about the GPU is unknown, and to name the GPU if --gpu has facts of its manufacturer."""
    return f"unknown {fact}" + (": name the GPU with --gpu" if case.vendor in ("NVIDIA", "") else " of this GPU")


def copies_recorded(case: Case) -> str:
    """Require copies, or the certainty that there were none."""
    missing = gpu_work(case)
    if missing or case.kind_time_ns("memcpy", "um"):
        return missing
    if (case.work["kind"] == "memcpy").any():
        return "durations of copies are not recorded"
    if case.is_table_cut:
        return "rows of the printed table are missing"
    if data_needs.records_copies(case.profile):
        return ""
    if case.tool is Tool.ROCPROF:
        return "copies are not recorded: record with rocprofv3 --memory-copy-trace"
    return case.missing.get(data_needs.COPIES.name, "copies are not recorded")


def timed_copies(case: Case) -> str:
    """Require copies with start times."""
    return start_times(case) or copies_recorded(case)


def sizes(case: Case) -> str:
    """Require sizes of copies, if there are any."""
    missing = copies_recorded(case)
    if missing:
        return missing
    copies = case.copies
    if not copies.height:
        return "" if case.profile["activities"].height else case.missing.get(data_needs.START_TIMES.name, "")
    return "" if copies["size_bytes"].count() else "sizes of copies are not recorded"


def copy_directions(case: Case) -> str:
    """Require the directions of copies, if there are any."""
    missing, copies = copies_recorded(case), case.copies
    if missing or not copies.height or copies["copy_kind"].count():
        return missing
    return "directions of copies are not recorded"


def streams(case: Case) -> str:
    """Require the streams of GPU work."""
    missing = start_times(case)
    return missing or ("" if case.profile["activities"]["stream"].count() else "streams are not recorded")


def iterations(case: Case) -> str:
    """Require iterations: recorded, found or by a key."""
    if case.iterations.height:
        return ""
    return case.missing.get(data_needs.ITERATIONS.name, "") or "times of iterations are not recorded"


def ops(case: Case) -> str:
    """Require ops."""
    return case.missing.get(data_needs.OPS.name, "")


def shapes(case: Case) -> str:
    """Require the input shapes of ops."""
    return ops(case) or case.missing.get(data_needs.SHAPES.name, "")


def ops_or_ranges(case: Case) -> str:
    """Require the names of ops or ranges."""
    missing = case.missing.get(data_needs.OPS.name, "")
    return (
        "" if not missing or case.profile["ranges"].height else case.missing.get(data_needs.RANGES.name, "") or missing
    )


def fine_clock(case: Case) -> str:
    """Require start times to the microsecond or finer."""
    missing = start_times(case)
    if not missing and case.resolution_ns > 1000:
        finer = "nsys profile" if is_newer_than_nvprof_supports(case.profile) else "nvprof --csv or nsys profile"
        return f"start times are rounded to {step(case.resolution_ns)}: record with {finer}"
    return missing
