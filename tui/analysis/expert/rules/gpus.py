"""GPUs of a run: those without work or with unequal work, and their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.allocator import allocated_by, allocator_iterations, allocators
from tui.analysis.capabilities import missing_data_text
from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert.finding_text import (
    DLPROF,
    SAGEMAKER,
    TENSORBOARD,
    duration,
    float_or_zero,
    gpu_label,
    percent,
    size,
)
from tui.analysis.expert.rule import Clean, Family, Found, NotApplicable, Severity, Verdict, rule
from tui.analysis.gpu_time.timelines import COMMUNICATION
from tui.analysis.needs import ALLOCATIONS
from tui.text import plural

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case


_MAX_BATCH_FACTOR: Final = 4
_FULL: Final = 0.9


def needs_memory_use(case: Case) -> str:
    """Require the used and the total memory."""
    if memory_use(case).height:
        return ""
    if _allocator_peaks(case).height:
        return "unknown GPU memory size"
    return "GPU memory use is not recorded"


@rule("I7", "memory-underused", Family.ITERATIONS, needs_memory_use, severity=Severity.INFO, link=DLPROF)
def memory_underused(case: Case) -> Verdict:
    """Most of the GPU's memory is free."""
    fullest = memory_use(case).row(0, named=True)
    numbers = {
        "memory_pct": fullest["used_pct"],
        "used_bytes": int(fullest["used"]),
        "total_bytes": int(fullest["total"]),
    }
    if fullest["used_pct"] >= case.limit("I7", "memory_pct"):
        return Clean(f"{percent(fullest['used_pct'])} of the memory is {_in_use(case)}", numbers)
    factor = (
        min(_MAX_BATCH_FACTOR, int(_FULL * 100 / fullest["used_pct"])) if fullest["used_pct"] else _MAX_BATCH_FACTOR
    )
    return Found(
        f"At most {size(int(fullest['used']))} of {size(int(fullest['total']))} GPU memory "
        f"({percent(fullest['used_pct'])}) is {_in_use(case)}.",
        f"Try a {factor}x larger batch: fewer, longer kernels.",
        {**numbers, "factor": factor},
        None,
        "not estimated: it depends on how throughput grows with the batch",
        *_evidence(case),
    )


def memory_use(case: Case) -> pl.DataFrame:
    """Return the memory of each GPU as recorded, else the allocator's: gpu, total, used, used_pct."""
    rows = _recorded_memory(case)
    name = pl.col("name").str
    values = rows.select(
        name.extract(r"^GPU memory (.*): (?:Total|Used)$").alias("gpu"),
        pl.when(name.ends_with("Total")).then("value").alias("total"),
        pl.when(name.ends_with("Used")).then("value").alias("used"),
    )
    split = values if rows.height else _allocator_peaks(case)
    return (
        split.group_by("gpu")
        .agg(pl.col("total", "used").max())
        .filter(pl.col("total") > 0, pl.col("used").is_not_null())
        .with_columns((100 * pl.col("used") / pl.col("total")).alias("used_pct"))
        .sort("used_pct", "gpu", descending=[True, False])
    )


def _recorded_memory(case: Case) -> pl.DataFrame:
    """Return the memory of GPUs as the tool recorded it."""
    rows = case.profile["tool_figures"]
    return rows.filter(pl.col("name").str.starts_with("GPU memory "), pl.col("value").is_not_null())


def _allocator_peaks(case: Case) -> pl.DataFrame:
    """Return the peak of allocated memory of each GPU: gpu, total (null: unknown), used."""
    return (
        allocators(case.profile)
        .with_columns(used=pl.max_horizontal("reserved_peak_bytes", "peak_bytes"))
        .filter(pl.col("place").cast(pl.String) == "GPU", pl.col("used").is_not_null())
        .select(pl.format("GPU {}", "device").alias("gpu"), pl.col("memory_bytes").alias("total"), "used")
    )


def _in_use(case: Case) -> str:
    """Return the word for memory in use, by how it is recorded."""
    return "used" if _recorded_memory(case).height else "reserved by the framework's allocator"


def _evidence(case: Case) -> tuple[pl.DataFrame, str, str, Severity | None, str]:
    """Return evidence, view, filter, severity and part of findings about GPU memory."""
    rows = memory_use(case)
    if _recorded_memory(case).height:
        return rows, "tool-report", "memory", None, ""
    return rows, "memory", "", None, "allocator"


def needs_memory_use_or_failures(case: Case) -> str:
    """Require failed allocations, or the used and the total memory."""
    return "" if _failed(case).height else needs_memory_use(case)


def _failed(case: Case) -> pl.DataFrame:
    """Return the allocations that failed because the GPU's memory was full."""
    return case.profile["memory_events"].filter(pl.col("action") == "oom")


@rule("I8", "memory-full", Family.ITERATIONS, needs_memory_use_or_failures, link=TENSORBOARD)
def memory_full(case: Case) -> Verdict:
    """GPU memory is full, or nearly so."""
    if (failed := _failed(case)).height:
        return _failed_allocation_finding(failed)
    fullest = memory_use(case).row(0, named=True)
    numbers = {
        "memory_pct": fullest["used_pct"],
        "used_bytes": int(fullest["used"]),
        "total_bytes": int(fullest["total"]),
    }
    if fullest["used_pct"] <= case.limit("I8", "memory_pct"):
        return Clean(f"{percent(fullest['used_pct'])} of the memory is {_in_use(case)}", numbers)
    if case.in_use.inference_server:
        return Clean(
            f"{percent(fullest['used_pct'])} of the memory is {_in_use(case)}: servers reserve it once", numbers
        )
    return Found(
        f"{percent(fullest['used_pct'])} of GPU memory is {_in_use(case)} ({size(int(fullest['used']))} of "
        f"{size(int(fullest['total']))}). Allocations may fail or wait.",
        _USE_LESS,
        numbers,
        None,
        "not estimated",
        *_evidence(case),
    )


_USE_LESS: Final = "Use activation checkpointing, mixed precision, or a smaller batch with gradient accumulation."


def _failed_allocation_finding(failed: pl.DataFrame) -> Found:
    """Return the finding on failed allocations, about the first of them."""
    first = failed.row(0, named=True)
    requested, allocated, reserved = (first[name] or 0 for name in ("size_bytes", "allocated_bytes", "reserved_bytes"))
    call_site_clause = (
        f" by {allocated_by(first['call_site'], first['stack'])}" if first["call_site"] or first["stack"] else ""
    )
    is_fragmented = reserved - allocated >= requested > 0
    return Found(
        f"Out of memory {plural(failed.height, 'time')}: {size(requested)} requested{call_site_clause}, while "
        f"{size(allocated)} of the "
        f"{size(reserved)} reserved were in use.",
        "Free memory was in pieces too small: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
        if is_fragmented
        else f"{_USE_LESS} Memory lists what was allocated at the peak.",
        {
            "failures": failed.height,
            "requested_bytes": requested,
            "allocated_bytes": allocated,
            "reserved_bytes": reserved,
        },
        None,
        "not estimated: the program stops, or frees memory and tries again",
        failed.select("device", "size_bytes", "allocated_bytes", "reserved_bytes", "call_site"),
        "memory",
        part="peak",
    )


def needs_allocations(case: Case) -> str:
    """Require allocations of GPU memory by the framework."""
    gpu_events = case.profile["memory_events"].filter(pl.col("place") == "GPU", pl.col("allocated_bytes").is_not_null())
    return "" if gpu_events.height else missing_data_text(case.profile, ALLOCATIONS)


@rule("I9", "memory-grows", Family.ITERATIONS, needs_allocations, link=SAGEMAKER)
def memory_grows(case: Case) -> Verdict:
    """Allocated memory grows."""
    window = int(case.limit("I9", "iterations"))
    sizes = allocators(case.profile).filter(pl.col("place") == "GPU").select("device", "memory_bytes")
    last_bytes = pl.col("last_bytes")
    steps = (
        allocator_iterations(case.profile)
        .filter(pl.col("place") == "GPU")
        .drop_nulls("iteration")
        .with_columns(last_bytes.rolling_mean(window).over("device").alias("mean_bytes"))
        .with_columns((pl.col("mean_bytes") - pl.col("mean_bytes").shift(window).over("device")).alias("rise_bytes"))
        .join(sizes, on="device", how="left", nulls_equal=True, maintain_order="left")
        .with_columns((100 * pl.col("rise_bytes") / pl.col("memory_bytes")).alias("rise_pct"))
    )
    max_iterations = max(steps.group_by("device").len()["len"].to_list(), default=0)
    if max_iterations < 2 * window:
        return NotApplicable(
            f"not enough data: memory of {plural(max_iterations, 'iteration')} recorded, {2 * window} needed"
        )
    rising = steps.drop_nulls("rise_pct").sort("rise_pct", "iteration", descending=[True, False])
    if rising.is_empty():
        return NotApplicable("unknown GPU memory size")
    first = rising.row(0, named=True)
    device_steps = steps.filter(pl.col("device").eq_missing(pl.lit(first["device"], pl.Int32)))
    growth = device_steps["last_bytes"][-1] - device_steps["first_bytes"][0]
    numbers = {"rise_pct": first["rise_pct"], "growth_bytes": growth, "iterations": device_steps.height}
    if first["rise_pct"] < case.limit("I9", "rise_pct"):
        return Clean(f"allocated memory rises by {percent(max(0.0, first['rise_pct']))} of the capacity", numbers)
    return Found(
        f"Allocated memory grows by {size(growth)} in {plural(device_steps.height, 'iteration')}; by "
        f"{percent(first['rise_pct'])} of the GPU's memory within {window} iterations up to {first['iteration']}.",
        "Find what is never freed: losses without .detach(), growing caches, hidden states. "
        "torch.cuda.memory._record_memory_history() names the lines.",
        numbers,
        None,
        "no cost until memory runs out",
        rising.select("iteration", "last_bytes", "rise_bytes", "rise_pct"),
        "memory",
        part="allocator",
    )


_VISIBLE: Final = {"AMD": "HIP_VISIBLE_DEVICES", "Huawei": "ASCEND_RT_VISIBLE_DEVICES", "Intel": "ZE_AFFINITY_MASK"}


@rule(
    "U4",
    "gpu-unused",
    Family.UTILIZATION,
    needs.gpu_work,
    severity=Severity.INFO,
    link=DLPROF,
)
def unused_gpus(case: Case) -> Verdict:
    """A GPU that the program sees has no work."""
    devices = case.profile["devices"]
    if devices.is_empty():
        return NotApplicable("the GPUs that the program saw are not recorded")
    source = case.session_row["source"]
    same_file_sessions = (
        case.full_profile["sessions"].filter(pl.col("source").eq_missing(pl.lit(source, pl.String)))["session"].unique()
    )
    used_devices = (
        case.full_profile["activities"].filter(pl.col("session").is_in(same_file_sessions.implode()))["device"].unique()
    )
    idle = devices.filter(~pl.col("device").is_in(used_devices.drop_nulls().implode()))
    if ((case.session_row["world_size"] or 1) > 1 or case.session_row["rank"] is not None) and idle.height:
        return NotApplicable("one rank of several: the other ranks use the other GPUs")
    if idle.height and case.work.filter(pl.col("op_type") == COMMUNICATION).height:
        return NotApplicable("the program communicates with other ranks, which can use the other GPUs")
    if not devices["device"].is_in(used_devices.drop_nulls().implode()).any():
        return NotApplicable("the GPU of the work is not recorded")
    numbers = {"gpus": devices["device"].n_unique(), "unused": idle["device"].n_unique()}
    if idle.is_empty():
        return Clean(f"{plural(devices['device'].n_unique(), 'GPU')} seen, and used", numbers)
    numbered = ", ".join(map(str, idle["device"].unique().sort()))
    return Found(
        f"{idle['device'].n_unique()} of {devices['device'].n_unique()} GPUs did nothing: {numbered}.",
        "If they are meant to work, check the number of processes of the launcher, --gpus of the container and "
        f"{_VISIBLE.get(case.vendor, 'CUDA_VISIBLE_DEVICES')}. Otherwise leave them to other jobs.",
        numbers,
        None,
        "not estimated: it depends on how well the work can be divided",
        idle.select("device", "name"),
        "gpus",
        " | ".join(f"device={device}" for device in idle["device"].unique().sort()),
    )


@rule("U5", "gpu-imbalance", Family.UTILIZATION, needs.start_times)
def unequal_gpus(case: Case) -> Verdict:
    """GPUs have unequal work."""
    if case.busy.height < 2:
        return Clean("one GPU has work")
    ordered = case.busy.sort("busy_ns", descending=True)
    busiest, idlest = ordered.row(0, named=True), ordered.row(-1, named=True)
    spread = 100 * (busiest["busy_ns"] - idlest["busy_ns"]) / busiest["busy_ns"] if busiest["busy_ns"] else 0.0
    numbers = {"spread_pct": spread, "most_ns": busiest["busy_ns"], "least_ns": idlest["busy_ns"]}
    if spread <= case.limit("U5", "spread_pct"):
        return Clean(f"the least busy GPU is busy {percent(spread)} less than the busiest", numbers)
    return Found(
        f"{gpu_label(idlest['device'], 2)} is busy for {duration(idlest['busy_ns'])}, "
        f"{gpu_label(busiest['device'], 2)} "
        f"for {duration(busiest['busy_ns'])}: {percent(spread)} less.",
        "Divide batches or pipeline stages by their time, not by their number.",
        numbers,
        int(busiest["busy_ns"] - float_or_zero(ordered["busy_ns"].mean())),
        "what the busiest GPU has more than the mean",
        ordered.select("device", "busy_ns", "busy_pct"),
        "gpus",
    )
