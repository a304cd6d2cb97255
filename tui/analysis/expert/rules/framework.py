"""How the framework is set up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.figures import whole
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.rules.communication import communication_of
from tui.analysis.expert.words import called, counted, named, ranked
from tui.analysis.inputs.recording import Tool, tools_of

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

MODEL_CONFIG: Final = "Model Config"
"""The section of ``tool_figures`` with DLProf's model configuration."""
_DEBUG_FLAGS: Final = (
    "detect_anomaly",
    "autograd_set_detect_anomaly",
    "gradcheck",
    "gradgradcheck",
    "autograd_profile",
)


def config_known(case: Case) -> str:
    """DLProf's model configuration."""
    if model_config(case):
        return ""
    if Tool.DLPROF in tools_of(case.profile):
        return "what DLProf wrote here holds no configuration of the model"
    return "only DLProf records the configuration of the model"


@rule("P6", "cudnn-benchmark", Family.PRECISION, config_known, link=links.DLPROF)
def benchmark_off(case: Case) -> Verdict:
    """CuDNN does not choose the fastest convolution."""
    config = model_config(case)
    disabled = config.get("cudnn_benchmark_disabled")
    if disabled is None:
        return CannotTell("DLProf does not tell whether cudnn.benchmark is on")
    convolutions = case.names("ops", "(?i)conv").len() or whole(case.kernels["op_type"].str.contains("convol").sum())
    numbers = {"disabled": disabled, "convolutions": convolutions}
    if not disabled or not convolutions:
        return Clean("cudnn.benchmark is on" if not disabled else "there are no convolutions", numbers)
    return Found(
        "There are convolutions, and torch.backends.cudnn.benchmark is not enabled.",
        "Set torch.backends.cudnn.benchmark = True if input shapes are stable.",
        numbers,
        None,
        "not estimated: it depends on the algorithm that would be chosen",
        view="ops-and-kernels",
        filter="conv",
    )


def model_config(case: Case) -> dict[str, float]:
    """What DLProf says of the model's configuration; empty where it says nothing."""
    rows = case.profile["tool_figures"].filter(pl.col("section") == MODEL_CONFIG).drop_nulls("value")
    return dict(rows.select("name", "value").iter_rows())


@rule("P9", "debug-modes", Family.PRECISION)
def debug_modes(case: Case) -> Verdict:
    """Debugging modes of the framework are on."""
    config = model_config(case)
    on = [name for name in _DEBUG_FLAGS if config.get(name)]
    ops = case.profile["ops"]
    if not config and ops.is_empty() and case.profile["ranges"].is_empty():
        return CannotTell(needs.ops_or_ranges(case))
    for frame in ("ops", "ranges"):
        on += case.names(frame, r"(?i)detect_anomaly|anomalymode|gradcheck").cast(pl.String).to_list()
    if not on:
        return Clean("no debugging mode is named")
    return Found(
        f"Debugging is on: {', '.join(map(called, sorted(set(on))[:5]))}.",
        "Switch it off for runs that count: it checks every op.",
        {"modes": len(set(on))},
        None,
        "not estimated",
    )


@rule("P13", "sync-batchnorm", Family.PRECISION, needs.ops, link=links.ADVISOR)
def sync_batch_norm(case: Case) -> Verdict:
    """Many layers of SyncBatchNorm."""
    rows = case.rows_named("ops", r"(?i)^sync_?batch_?norm", "name", "iteration")
    if rows.is_empty():
        return Clean("there is no SyncBatchNorm")
    inside = rows.drop_nulls("iteration")
    if rows.height > case.limit("P13", "ops") and inside.is_empty():
        return CannotTell(f"{counted(rows.height, 'call')} of SyncBatchNorm, in an unknown number of iterations")
    # Of those that are in none nobody knows how many an iteration has.
    rows = inside if inside.height else rows
    each = rows.height / max(inside["iteration"].n_unique(), 1)
    numbers = {"ops": rows.height, "per_iteration": each}
    if each <= case.limit("P13", "ops"):
        return Clean(f"{counted(each, 'SyncBatchNorm', 'SyncBatchNorm')} in an iteration", numbers)
    return Found(
        f"{counted(each, 'call')} of SyncBatchNorm in an iteration: each waits for all ranks.",
        "Use plain BatchNorm where the batch of one GPU is large enough, or synchronize in fewer layers.",
        numbers,
        None,
        "not estimated: the waits are part of the communication",
        ranked(rows.group_by("name").agg(pl.len().cast(pl.Int64).alias("calls")), "calls"),
        "ops-and-kernels",
        named(rows["name"].unique(maintain_order=True), "op"),
    )


@rule("I6", "loader-config", Family.ITERATIONS, config_known, severity=Severity.INFO, link=links.DLPROF)
def loader_config(case: Case) -> Verdict:
    """The data loader is set to do without workers or pinned memory."""
    config = model_config(case)
    workers, pinned = config.get("num_workers"), config.get("pin_memory")
    if workers is None and pinned is None:
        return CannotTell("DLProf does not tell how the data loader is set")
    numbers = {"num_workers": workers, "pin_memory": pinned}
    off = [name for name, value in numbers.items() if value == 0]
    if not off:
        return Clean("the data loader has workers and pinned memory", numbers)
    return Found(
        f"DLProf records {' and '.join(f'{name} = 0' for name in off)} for the data loader.",
        "Set num_workers to a few per GPU and pin_memory=True, if a data loader is used at all.",
        numbers,
        None,
        "not estimated: I5 counts waits for input",
        view="tool-report",
    )


@rule("C6", "data-parallel", Family.COMMUNICATION, needs.gpu_work, needs.ops_or_ranges, link=links.TENSORBOARD)
def data_parallel(case: Case) -> Verdict:
    """Several GPUs are used in a slow way."""
    plain, distributed = (
        any(case.names(frame, pattern).len() for frame in ("ops", "ranges"))
        for pattern in (r"(?:^|[^\w])DataParallel\b", "DistributedDataParallel")
    )
    devices = case.profile["activities"]["device"].drop_nulls().n_unique()
    talks = communication_of(case).height
    numbers = {"gpus": devices}
    if plain and devices > 1:
        return Found(
            f"DataParallel drives {devices} GPUs from one process.",
            "Use DistributedDataParallel with NCCL: one process for each GPU.",
            numbers,
            None,
            "not estimated",
            view="ops-and-kernels",
            filter="DataParallel",
        )
    if distributed and not talks and (hidden := needs.single_kernels(case)):
        return CannotTell(hidden)
    if distributed and not talks and (case.about["world_size"] or 1) > 1:
        return Found(
            "DistributedDataParallel runs without a kernel of NCCL: gradients go another way.",
            'Initialize with backend="nccl".',
            numbers,
            None,
            "not estimated",
            view="ops-and-kernels",
            filter="DistributedDataParallel",
        )
    return Clean("DistributedDataParallel with NCCL" if distributed else "no DataParallel", numbers)
