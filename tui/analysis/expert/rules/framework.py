"""The framework: its settings, debug modes, the data loader, data parallelism."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert.finding_text import (
    ADVISOR,
    DLPROF,
    TENSORBOARD,
    duration,
    int_or_zero,
    label,
    name_filter,
    percent,
    sort_by_largest,
    totals_by_name,
)
from tui.analysis.expert.rule import Clean, Family, Found, NotApplicable, Severity, Verdict, rule
from tui.analysis.expert.rules.communication import (
    COLLECTIVES_UNKNOWN,
    communication_kernels,
    communication_ranges,
    knows_collectives,
)
from tui.analysis.gpu_time.host_calls import HostPhase, host_phases, host_phases_by_name
from tui.analysis.gpu_time.interval_sets import EMPTY, interval_union
from tui.analysis.needs import Tool, recording_tools
from tui.text import plural

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case
    from tui.analysis.gpu_time.interval_sets import IntervalSet


MODEL_CONFIG: Final = "Model Config"
"""The section of ``tool_figures`` with DLProf's model configuration."""
_DEBUG_FLAGS: Final = (
    "detect_anomaly",
    "autograd_set_detect_anomaly",
    "gradcheck",
    "gradgradcheck",
    "autograd_profile",
)


def needs_model_config(case: Case) -> str:
    """Require DLProf's model configuration."""
    if model_config(case):
        return ""
    if Tool.DLPROF in recording_tools(case.profile):
        return "this DLProf output has no model configuration"
    return "only DLProf records the model configuration"


@rule("P6", "cudnn-benchmark", Family.PRECISION, needs_model_config, link=DLPROF)
def benchmark_off(case: Case) -> Verdict:
    """CuDNN does not choose the fastest convolution."""
    config = model_config(case)
    disabled = config.get("cudnn_benchmark_disabled")
    if disabled is None:
        return NotApplicable("DLProf does not record whether cudnn.benchmark is on")
    convolutions = case.names("ops", "(?i)conv").len() or int_or_zero(
        case.kernels["op_type"].str.contains("convol").sum()
    )
    numbers = {"disabled": disabled, "convolutions": convolutions}
    if not disabled or not convolutions:
        return Clean("cudnn.benchmark is on" if not disabled else "there are no convolutions", numbers)
    return Found(
        "The model has convolutions, but torch.backends.cudnn.benchmark is not enabled.",
        "Set torch.backends.cudnn.benchmark = True if input shapes are stable.",
        numbers,
        None,
        "not estimated: it depends on the algorithm that would be chosen",
        view="ops-and-kernels",
        filter="conv",
    )


def model_config(case: Case) -> dict[str, float]:
    """Return DLProf's model configuration; empty if there is none."""
    rows = case.profile["tool_figures"].filter(pl.col("section") == MODEL_CONFIG).drop_nulls("value")
    return dict(rows.select("name", "value").iter_rows())


@rule("P9", "debug-modes", Family.PRECISION)
def debug_modes(case: Case) -> Verdict:
    """Debug modes of the framework are on."""
    config = model_config(case)
    enabled = [name for name in _DEBUG_FLAGS if config.get(name)]
    ops = case.profile["ops"]
    if not config and ops.is_empty() and case.profile["ranges"].is_empty():
        return NotApplicable(needs.ops_or_ranges(case) or "single ops and ranges are not recorded")
    for frame in ("ops", "ranges"):
        enabled += case.names(frame, r"(?i)detect_anomaly|anomalymode|gradcheck").cast(pl.String).to_list()
    if not enabled:
        return Clean("no debug mode is on")
    return Found(
        f"Debug mode is on: {', '.join(map(label, sorted(set(enabled))[:5]))}.",
        "Switch it off when you measure: it checks every op.",
        {"modes": len(set(enabled))},
        None,
        "not estimated",
    )


@rule("P13", "sync-batchnorm", Family.PRECISION, needs.ops, link=ADVISOR)
def sync_batch_norm(case: Case) -> Verdict:
    """Many layers of SyncBatchNorm."""
    rows = case.rows_named("ops", r"(?i)^sync_?batch_?norm", "name", "iteration")
    if rows.is_empty():
        return Clean("there is no SyncBatchNorm")
    inside = rows.drop_nulls("iteration")
    if rows.height > case.limit("P13", "ops") and inside.is_empty():
        return NotApplicable(f"{plural(rows.height, 'call')} of SyncBatchNorm, but no iterations")
    # Outside of iterations, the number per iteration is unknown.
    rows = inside if inside.height else rows
    per_iteration = rows.height / max(inside["iteration"].n_unique(), 1)
    numbers = {"ops": rows.height, "per_iteration": per_iteration}
    if per_iteration <= case.limit("P13", "ops"):
        return Clean(f"{plural(per_iteration, 'SyncBatchNorm', 'SyncBatchNorm')} per iteration", numbers)
    return Found(
        f"{plural(per_iteration, 'call')} of SyncBatchNorm per iteration; each waits for all ranks.",
        "Use plain BatchNorm if the batch of one GPU is large enough, or synchronize fewer layers.",
        numbers,
        None,
        "not estimated: the waits are part of the communication",
        sort_by_largest(rows.group_by("name").agg(pl.len().cast(pl.Int64).alias("calls")), "calls"),
        "ops-and-kernels",
        name_filter(rows["name"].unique(maintain_order=True), "op"),
    )


_LOADER_ADVICE: Final = {"num_workers": "num_workers to a few per GPU", "pin_memory": "pin_memory=True"}


@rule("I6", "loader-config", Family.ITERATIONS, needs_model_config, severity=Severity.INFO, link=DLPROF)
def loader_config(case: Case) -> Verdict:
    """The data loader has no workers or no pinned memory."""
    config = model_config(case)
    workers, pinned = config.get("num_workers"), config.get("pin_memory")
    if workers is None and pinned is None:
        return NotApplicable("DLProf recorded no settings of the data loader")
    numbers = {"num_workers": workers, "pin_memory": pinned}
    disabled = [name for name, value in numbers.items() if value == 0]
    if not disabled:
        return Clean("the data loader has workers and pinned memory", numbers)
    return Found(
        f"The data loader has {' and '.join(f'{name} = 0' for name in disabled)}.",
        "If a data loader is used, set " + " and ".join(_LOADER_ADVICE[name] for name in disabled) + ".",
        numbers,
        None,
        "not estimated: I5 counts waits for input",
        view="tool-report",
    )


@rule("C6", "data-parallel", Family.COMMUNICATION, needs.gpu_work, needs.ops_or_ranges, link=TENSORBOARD)
def data_parallel(case: Case) -> Verdict:
    """Several GPUs run without DistributedDataParallel or NCCL."""
    plain, distributed = (
        any(case.names(frame, pattern).len() for frame in ("ops", "ranges"))
        for pattern in (r"(?:^|[^\w])DataParallel\b", "DistributedDataParallel")
    )
    devices = case.profile["activities"]["device"].drop_nulls().n_unique()
    communicates = communication_kernels(case).height > 0 or communication_ranges(case).length_ns > 0
    numbers = {"gpus": devices}
    if plain and devices > 1:
        return Found(
            f"DataParallel drives {devices} GPUs from one process.",
            "Use DistributedDataParallel with NCCL: one process per GPU.",
            numbers,
            None,
            "not estimated",
            view="ops-and-kernels",
            filter="DataParallel",
        )
    if distributed and not communicates and (hidden := needs.single_kernels(case)):
        return NotApplicable(hidden)
    if distributed and not communicates and not knows_collectives(case):
        return NotApplicable(COLLECTIVES_UNKNOWN)
    if distributed and not communicates and (case.session_row["world_size"] or 1) > 1:
        return Found(
            "DistributedDataParallel runs without NCCL kernels.",
            'Initialize with backend="nccl".',
            numbers,
            None,
            "not estimated",
            view="ops-and-kernels",
            filter="DistributedDataParallel",
        )
    return Clean("DistributedDataParallel with NCCL" if distributed else "no DataParallel", numbers)


def load_faster(case: Case) -> str:
    """Return advice to load input data faster, by what is known of the data loader."""
    config = model_config(case)
    workers = case.in_use.loader_workers
    if workers is None and config.get("num_workers") is not None:
        workers = config["num_workers"] > 0
    if workers is False:
        return "The data loader has no workers: set num_workers to a few per GPU, with pin_memory=True."
    workers_advice = "more workers than now" if workers else "more workers (num_workers)"
    pinned = "" if case.in_use.pinned_memory else ", pin_memory=True"
    return f"Try {workers_advice}, a larger prefetch_factor{pinned}, or decoding and augmenting on the GPU (DALI)."


def loading_within(case: Case, idle: IntervalSet) -> int:
    """Return how much of some time the program loads input data in, by names of ops and ranges, ns."""
    return (host_phases(case.profile, case.session or 0).get(HostPhase.DATALOADER, EMPTY) & idle).length_ns


@rule("I5", "dataloader", Family.ITERATIONS, needs.start_times, needs.ops_or_ranges, link=TENSORBOARD)
def dataloader(case: Case) -> Verdict:
    """The GPU waits for input data."""
    loading = host_phases(case.profile, case.session or 0).get(HostPhase.DATALOADER)
    if loading is None:
        return NotApplicable("no op or range has the name of a data loader")
    busy = EMPTY
    for timeline in case.gpu_timelines:
        busy = busy | interval_union(timeline.starts, timeline.ends)
    waited = (loading & busy.gaps(int(busy.starts[0]), int(busy.ends[-1]))).length_ns
    share = 100 * waited / case.wall_ns
    numbers = {"wait_ns": waited, "wait_pct": share, "load_ns": loading.length_ns}
    if share <= case.limit("I5", "span_pct"):
        return Clean(f"the GPU idles {percent(share)} of the wall time while input is loaded", numbers)
    return Found(
        f"GPU idle {duration(waited)} ({percent(share)} of the wall time) while the program loads input data.",
        load_faster(case),
        numbers,
        waited,
        "loading while no GPU is busy",
        *_loading_evidence(case),
    )


def _loading_evidence(case: Case) -> tuple[pl.DataFrame, str, str]:
    """Return evidence, view and filter: the ranges that load data by name, longest first, else the ops."""
    evidence = case.profile["ranges"].clear(), "ranges", ""
    for frame, view, column in (("ops", "ops-and-kernels", "op"), ("ranges", "ranges", "name")):
        names = case.names(frame, "")
        loads = names.filter(pl.Series(host_phases_by_name(names) == HostPhase.DATALOADER))
        if loads.len():
            rows = case.profile[frame].filter(pl.col("name").is_in(loads.implode()))
            by_name = sort_by_largest(totals_by_name(rows, "calls", "duration_ns"), "duration_ns")
            evidence = by_name, view, name_filter(by_name["name"], column)
    return evidence
