"""Tensor cores, precision, layout and fusion: whether kernels do the work in the cheapest way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.expert import needs
from tui.analysis.expert.case import parts_of
from tui.analysis.expert.figures import total, whole
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.utilisation import ADVISOR, ROOT_CAUSES
from tui.analysis.expert.words import called, counted, named
from tui.analysis.tensor_cores.efficiency import tensor_core_time, tensor_core_use
from tui.analysis.tensor_cores.verdicts import tensor_cores_by_device
from tui.fmt import duration, percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case
    from tui.analysis.tensor_cores.efficiency import TensorCoreUse

PRECISION: Final = Family.PRECISION
DLPROF: Final = "https://docs.nvidia.com/deeplearning/frameworks/dlprof-user-guide/"
LAYOUT: Final = "https://docs.nvidia.com/deeplearning/performance/dl-performance-convolutional/index.html"

ELEMENTWISE: Final = (
    "elementwise", "activation", "bias add", "bias", "dropout", "cast", "batch norm", "layer norm", "normalisation",
)  # fmt: skip
ALGORITHMS: Final = r"^(?:convolution|gemm)"
CHAIN_LENGTHS: Final = range(2, 11)
CHAIN_WINDOW: Final = 1 << 18
"""Chains are looked for in so many launches of the middle of a long recording."""
MODEL_CONFIG: Final = "Model Config"
"""The section of ``tool_figures`` with DLProf's model configuration."""

_DOUBLE: Final = r"(?i)(?:^|[_:\s<])[dz](?:gemm|gemv|trsm|syrk|symm)|<\s*(?:const )?double\b|\bdouble\s*(?:const\s*)?\*"
_COMPLEX: Final = r"(?i)complex\s*<|cu(?:float|double)?complex|(?:^|_)[cz]gemm"
_OPTIMIZER_OPS: Final = r"(?i)addcdiv|addcmul|lerp_|_foreach|fused_?(?:adam|sgd)|adam|\bsgd|momentum|multi_tensor"


def _use(case: Case) -> tuple[pl.DataFrame, TensorCoreUse]:
    rows = tensor_core_time(case.profile)
    return rows, tensor_core_use(rows)


def _unsettled(case: Case, use: TensorCoreUse) -> str:
    """Why nothing can be said of tensor cores."""
    devices = tensor_cores_by_device(case.profile)
    if not use.using_ns and devices.height == devices["has_tensor_cores"].null_count():
        return "nothing is known of this GPU, which may have no tensor cores: name it with --gpu"
    unknown = use.eligible_unknown_pct or 0.0
    if unknown > case.limit("P2", "unknown_pct"):
        return f"of {percent(unknown)} of the time that is or may be eligible, names do not tell"
    return ""


@rule("P1", "no-tensor-cores", PRECISION, needs.gpu_work, needs.kernels, link=DLPROF)
def no_tensor_cores(case: Case) -> Verdict:
    """Nothing uses the tensor cores."""
    rows, use = _use(case)
    numbers = {"eligible_ns": use.eligible_ns, "using_ns": use.using_ns, "kernel_ns": use.kernel_ns}
    if use.reason:
        return Clean(f"tensor cores do not apply: {use.reason}", numbers)
    if use.using_ns:
        return Clean(f"{duration(use.using_ns)} of {duration(use.kernel_ns)} of kernel time use tensor cores", numbers)
    unsettled = _unsettled(case, use)
    if unsettled:
        return CannotTell(unsettled)
    if not use.eligible_ns:
        return Clean("no kernel does work for tensor cores", numbers)
    could = rows.filter(pl.col("eligible").fill_null(False)).sort("total_ns", descending=True)
    return Found(
        f"{duration(use.eligible_ns)} ({percent(case.share(use.eligible_ns))} of GPU time) is work for tensor cores, "
        f"and "
        f"none runs on them; most of it {called(could['name'][0])}.",
        "Use mixed precision (torch.autocast with bfloat16 or float16), or allow TF32 "
        "(torch.set_float32_matmul_precision('high')).",
        numbers,
        use.eligible_ns // 2,
        "half of this work's time: tensor cores are at least twice as fast",
        could.select("name", "launches", "total_ns", "tensor_core_reason").head(10),
        "kernels",
        named(could["name"].head(10).to_list()),
    )


@rule("P2", "low-tensor-cores", PRECISION, needs.gpu_work, needs.kernels, link=LAYOUT)
def few_tensor_cores(case: Case) -> Verdict:
    """Part of the work for tensor cores does not run on them."""
    rows, use = _use(case)
    if use.reason:
        return Clean(f"tensor cores do not apply: {use.reason}")
    unsettled = _unsettled(case, use)
    if unsettled:
        return CannotTell(unsettled)
    efficiency = use.efficiency_pct
    if efficiency is None or not use.using_ns:
        return Clean("nothing uses tensor cores: see P1" if use.eligible_ns else "no kernel does work for tensor cores")
    numbers = {"efficiency_pct": efficiency, "eligible_ns": use.eligible_ns, "using_ns": use.eligible_using_ns}
    if efficiency >= case.limit("P2", "info_pct"):
        return Clean(f"{percent(efficiency)} of the work for tensor cores runs on them", numbers)
    could = rows.filter(pl.col("eligible").fill_null(False), ~pl.col("uses_tensor_core")).sort(
        "total_ns", descending=True
    )
    left = total(could["total_ns"])
    return Found(
        f"{percent(efficiency)} of the work for tensor cores runs on them; {duration(left)} does not, most of it "
        f"{called(could['name'][0])}.",
        "Look at these ops: their type (float32 without TF32?) and their sizes (multiples of 8 in half precision).",
        numbers,
        left // 2,
        "half of that time: tensor cores are at least twice as fast",
        could.select("name", "launches", "total_ns", "tensor_core_reason").head(10),
        "kernels",
        named(could["name"].head(10).to_list()),
        Severity.INFO if efficiency >= case.limit("P2", "warn_pct") else None,
    )


@rule("P3", "double-precision", PRECISION, needs.gpu_work, needs.kernels)
def double_precision(case: Case) -> Verdict:
    """Kernels compute in double precision or with complex numbers."""
    names = case.kernels["name"].cast(pl.String)
    wide = case.kernels.filter(
        (names.str.contains(_DOUBLE) | names.str.contains(_COMPLEX)) & ~names.str.contains("(?i)gcgemm|fft")
    )
    taken = total(wide["total_ns"])
    share = case.share(taken)
    numbers = {"time_ns": taken, "time_pct": share}
    if share <= case.limit("P3", "time_pct"):
        return Clean(f"kernels in double precision or complex take {percent(share)} of the GPU time", numbers)
    return Found(
        f"Kernels in double precision or complex take {percent(share)} of GPU time, most of it "
        f"{called(wide['name'][0])}.",
        "If it is not meant: look for a Python float or NumPy array that makes tensors float64, and cast at the "
        "source.",
        numbers,
        taken // 2,
        "half of that time: single precision is at least twice as fast",
        wide.select("name", "calls", "total_ns", "line").head(10),
        "kernels",
        named(wide["name"].head(10).to_list()),
    )


@rule("P4", "layout", PRECISION, needs.gpu_work, needs.kernels, link=LAYOUT)
def layout(case: Case) -> Verdict:
    """Kernels only change the layout of data."""
    rows = case.kernels.filter(pl.col("op_type") == "layout")
    taken = total(rows["total_ns"])
    share = case.share(taken)
    numbers = {"time_ns": taken, "time_pct": share}
    if share <= case.limit("P4", "time_pct"):
        return Clean(f"changes of layout take {percent(share)} of the GPU time", numbers)
    first = rows.row(0, named=True)
    return Found(
        f"{called(first['name'])} and the like only change the layout: {percent(share)} of GPU time, "
        f"{counted(total(rows['calls']), 'launch', 'launches')}.",
        "Keep one layout from end to end: model and input .to(memory_format=torch.channels_last) with half precision.",
        numbers,
        taken,
        "all of these kernels",
        rows.select("name", "calls", "total_ns", "line").head(10),
        "kernels",
        named(rows["name"].head(10).to_list()),
    )


@rule("P5", "autotuning", PRECISION, needs.gpu_work, needs.several_launches, severity=Severity.INFO)
def autotuning(case: Case) -> Verdict:
    """Algorithms are tried out while the run is measured."""
    checkers = case.kernels.filter(pl.col("name").cast(pl.String).str.contains("(?i)redzone_checker"))
    once = case.kernels.filter(pl.col("op_type").str.contains(ALGORITHMS), pl.col("calls") == 1)
    least = int(case.limit("P5", "algorithms"))
    if checkers.is_empty() and once.height < least:
        return Clean("no op tries several algorithms")
    rows = case.profile["activities"].filter(pl.col("kind") == "kernel")
    single = rows["name"].is_in(once["name"].implode())
    if rows["op"].count():
        by_op = rows.filter(single & rows["op"].is_not_null()).group_by("op").agg(pl.col("name").unique())
        tried = by_op.filter(pl.col("name").list.len() >= least)
        names = tried["name"].explode().unique().to_list()
    else:
        names = _adjacent(rows, single, least) if _repeats(case) else []
    if checkers.is_empty() and not names:
        if not rows["op"].count() and not _repeats(case) and once.height >= least:
            return CannotTell("kernels run once each: trying out algorithms looks no different")
        return Clean("no op tries several algorithms")
    shown = checkers["name"].to_list() + names
    tried_rows = case.kernels.filter(pl.col("name").is_in(shown))
    taken = total(tried_rows["total_ns"])
    return Found(
        (f"{called(shown[0])} runs: " if checkers.height else "")
        + f"algorithms are tried out ({counted(len(shown), 'kernel')}, {duration(taken)}).",
        "Leave these iterations out (warm up first), and keep shapes fixed, so that each is tried once only.",
        {"kernels": len(shown), "time_ns": taken},
        taken,
        "all of these kernels",
        tried_rows.select("name", "calls", "total_ns", "line").head(10),
        "kernels",
        named(shown),
    )


def _repeats(case: Case) -> bool:
    """Whether other kernels run often: then what ran once is worth a second look."""
    calls = case.kernels["calls"].drop_nulls()
    return bool(calls.len()) and float(calls.median() or 0) >= 3  # type: ignore[arg-type]


def _adjacent(rows: pl.DataFrame, single: pl.Series, least: int) -> list[str]:
    """Names of kernels that run once each, so many in a row."""
    ordered = rows.with_columns(single.alias("once")).sort("session", "device", "stream", "start_ns")
    runs = ordered.with_columns(pl.col("once").rle_id().alias("run")).filter("once")
    long = runs.group_by("run").agg(pl.col("name").unique()).filter(pl.col("name").list.len() >= least)
    return [str(name) for name in long["name"].explode().unique().to_list()] if long.height else []


def model_config(case: Case) -> dict[str, float]:
    """What DLProf says of the model's configuration; empty where it says nothing."""
    rows = case.profile["tool_figures"].filter(pl.col("section") == MODEL_CONFIG).drop_nulls("value")
    return dict(rows.select("name", "value").iter_rows())


def config_known(case: Case) -> str:
    """DLProf's model configuration."""
    return "" if model_config(case) else "only DLProf records the configuration of the model"


@rule("P6", "cudnn-benchmark", PRECISION, config_known, link=DLPROF)
def benchmark_off(case: Case) -> Verdict:
    """CuDNN does not choose the fastest convolution."""
    config = model_config(case)
    disabled = config.get("cudnn_benchmark_disabled")
    if disabled is None:
        return CannotTell("DLProf does not tell whether cudnn.benchmark is on")
    ops = case.profile["ops"]["name"].unique().cast(pl.String)
    convolutions = (
        ops.filter(ops.str.contains("(?i)conv")).len() or case.kernels["op_type"].str.contains("convol").sum()
    )
    numbers = {"disabled": disabled, "convolutions": whole(convolutions)}
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


@rule("P7", "not-fused", PRECISION, needs.gpu_work, needs.kernels, link=DLPROF)
def not_fused(case: Case) -> Verdict:
    """Elementwise work and normalisation run as many small kernels."""
    rows = case.kernels.filter(pl.col("op_type").is_in(ELEMENTWISE))
    taken, launches = total(rows["total_ns"]), total(rows["calls"])
    share, mean = case.share(taken), taken / launches if launches else 0.0
    numbers = {"time_ns": taken, "time_pct": share, "launches": launches, "mean_ns": mean}
    if share <= case.limit("P7", "time_pct") or mean >= case.limit("P7", "mean_ns"):
        return Clean(f"elementwise work and normalisation take {percent(share)} of the GPU time", numbers)
    return Found(
        f"Elementwise work and normalisation take {percent(share)} of GPU time in "
        f"{counted(launches, 'launch', 'launches')} "
        f"of {duration(mean)} each; most {called(rows['name'][0])}.",
        "Fuse them: torch.compile, XLA, or fused layers (LayerNorm, activation with bias, dropout with add).",
        numbers,
        taken // 2,
        "half of that time: fused kernels read and write the data once instead of each time",
        rows.select("name", "calls", "total_ns", "avg_ns", "line").head(10),
        "kernels",
        named(rows["name"].head(10).to_list()),
    )


@rule("P8", "unfused-optimizer", PRECISION, needs.gpu_work, needs.several_launches, needs.recorded_iterations)
def unfused_optimizer(case: Case) -> Verdict:
    """The optimizer launches one kernel for each parameter."""
    ops = case.profile["ops"]
    names = ops["name"].unique().drop_nulls()
    of_optimizer = names.filter(names.cast(pl.String).str.contains(_OPTIMIZER_OPS))
    op_numbers = ops.filter(pl.col("name").is_in(of_optimizer.implode()))["op"]
    kernel_names = case.kernels.filter(pl.col("op_type") == "optimizer")["name"]
    rows = case.profile["activities"].filter(
        pl.col("kind") == "kernel",
        pl.col("name").is_in(kernel_names.implode()) | pl.col("op").is_in(op_numbers.implode()).fill_null(False),
    )
    if rows.is_empty():
        return CannotTell("no op or kernel is named as an optimizer's")
    inside = rows.drop_nulls("iteration")
    if inside.is_empty():
        return CannotTell("the input does not tell which iteration the optimizer's kernels belong to")
    steps = inside["iteration"].n_unique()
    each, mean = inside.height / steps, total(inside["duration_ns"]) / inside.height
    numbers = {"per_iteration": each, "mean_ns": mean, "iterations": steps}
    if each <= case.limit("P8", "launches") or mean >= case.limit("P8", "mean_ns"):
        return Clean(f"{counted(each, 'launch', 'launches')} an iteration, {duration(mean)} each", numbers)
    by = inside.group_by("name").agg(
        pl.len().cast(pl.Int64).alias("launches"), pl.col("duration_ns").sum(), pl.col("line").min()
    ).sort("launches", descending=True)  # fmt: skip
    return Found(
        f"The optimizer launches {counted(each, 'kernel')} of {duration(mean)} in each iteration, most often "
        f"{called(by['name'][0])}.",
        "Use fused=True or foreach=True of torch.optim, or a fused optimizer (Apex, DeepSpeed).",
        numbers,
        total(inside["duration_ns"]),
        "all of these kernels, and what the CPU spends on their launches on top",
        by.head(10),
        "kernels",
        named(by["name"].head(10).to_list()),
    )


_DEBUG_FLAGS: Final = (
    "detect_anomaly",
    "autograd_set_detect_anomaly",
    "gradcheck",
    "gradgradcheck",
    "autograd_profile",
)


@rule("P9", "debug-modes", PRECISION)
def debug_modes(case: Case) -> Verdict:
    """Debugging modes of the framework are on."""
    config = model_config(case)
    on = [name for name in _DEBUG_FLAGS if config.get(name)]
    ops = case.profile["ops"]
    if not config and ops.is_empty() and case.profile["ranges"].is_empty():
        return CannotTell(needs.ops_or_ranges(case))
    for frame in ("ops", "ranges"):
        names = case.profile[frame]["name"].unique().cast(pl.String).drop_nulls()
        on += names.filter(names.str.contains(r"(?i)detect_anomaly|anomalymode|gradcheck")).to_list()
    if not on:
        return Clean("no debugging mode is named")
    return Found(
        f"Debugging is on: {', '.join(map(called, sorted(set(on))[:5]))}.",
        "Switch it off for runs that count: it checks every op.",
        {"modes": len(set(on))},
        None,
        "not estimated",
    )


@rule("P10", "hotspot", PRECISION, needs.gpu_work, needs.kernels, severity=Severity.INFO, link=ROOT_CAUSES)
def hotspot(case: Case) -> Verdict:
    """One kernel takes most of the time."""
    if case.computing.is_empty():
        return Clean("no kernel computes")
    first = case.computing.row(0, named=True)
    share = case.share(first["total_ns"])
    numbers = {"time_pct": share, "total_ns": first["total_ns"], "calls": first["calls"]}
    if share <= case.limit("P10", "time_pct"):
        return Clean(f"the longest kernel, {called(first['name'])}, takes {percent(share)} of the GPU time", numbers)
    calls = f" in {counted(first['calls'], 'launch', 'launches')}" if first["calls"] else ""
    return Found(
        f"{called(first['name'])} takes {percent(share)} of GPU time: {duration(first['total_ns'])}{calls}.",
        "Look at this kernel first; ncu --set full shows what limits it.",
        numbers,
        first["total_ns"] // 2,
        "half of its time, if it were twice as fast",
        case.computing.select("name", "calls", "total_ns", "line").head(3),
        "kernels",
        named([first["name"]]),
    )


@rule("P11", "fusible-chain", PRECISION, needs.start_times, needs.kernels, link=ADVISOR)
def fusible_chain(case: Case) -> Verdict:
    """The same short chain of kernels comes again and again, and the GPU waits inside it."""
    best: tuple[int, list[str], int, int, int] | None = None
    for part in parts_of(case.timed.filter(pl.col("is_kernel")), "device", "stream"):
        middle = part.slice(max(0, (part.height - CHAIN_WINDOW) // 2), CHAIN_WINDOW)
        found = _best_chain(middle, case.limit("P11", "busy_pct") / 100, int(case.limit("P11", "repeats")))
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    share = 100 * best[3] / case.span_ns if best is not None else 0.0
    if best is None or share <= case.limit("P11", "total_pct"):
        return Clean("no chain of kernels comes again and again with the GPU waiting inside it")
    idle, names, repeats, taken, running = best
    busy = 100 * running / taken if taken else 0.0
    distinct = list(dict.fromkeys(map(called, names)))
    shown = ", ".join(distinct[:3]) + (", ..." if len(distinct) > 3 else "")
    return Found(
        f"A chain of {len(names)} kernels ({shown}) comes {repeats:,} times and keeps the GPU busy for "
        f"{percent(busy)} of "
        f"its {duration(taken)}.",
        "Capture exactly this chain in a CUDA graph, or fuse it (torch.compile, one kernel of your own).",
        {"kernels": len(names), "repeats": repeats, "busy_pct": busy, "chain_ns": taken, "idle_ns": idle},
        idle,
        "the idle time within the chain",
        pl.DataFrame({"name": names}),
        "kernels",
        named(names),
    )


def _best_chain(rows: pl.DataFrame, busy: float, repeats: int) -> tuple[int, list[str], int, int, int] | None:
    """The repeated chain that wastes most: idle time, names, repeats, time from begin to end, time of its kernels."""
    n = rows.height
    names = rows["name"].to_physical().cast(pl.UInt64).fill_null(0).to_numpy()
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    running = np.concatenate(([0], np.cumsum(rows["duration_ns"].to_numpy())))
    talks = np.concatenate(([0], np.cumsum(rows["is_communication"].to_numpy())))
    best: tuple[int, list[str], int, int, int] | None = None
    code = names.copy()
    for length in CHAIN_LENGTHS:
        if n < length:
            break
        code = code[: n - length + 1] * np.uint64(0x9E3779B97F4A7C15) + names[length - 1 :] + np.uint64(1)
        taken = end[length - 1 :] - start[: n - length + 1]
        own = running[length:] - running[:-length]
        held = np.flatnonzero((own < busy * taken) & (talks[length:] == talks[:-length]))
        if len(held) <= repeats:
            continue
        by = (
            pl.DataFrame({"code": code[held], "idle": (taken - own)[held]})
            .group_by("code")
            .agg(pl.len().alias("times"), pl.col("idle").sum())
            .filter(pl.col("times") > repeats)
            .sort("idle", "code", descending=[True, False])
        )
        if by.is_empty() or (best is not None and by["idle"][0] <= best[0]):
            continue
        places = _apart(held[code[held] == np.uint64(by["code"][0])], length)
        idle = int((taken - own)[places].sum())
        if len(places) > repeats and (best is None or idle > best[0]):
            chain = rows["name"][int(places[0]) : int(places[0]) + length].cast(pl.String).to_list()
            best = (idle, chain, len(places), int(taken[places].sum()), int(own[places].sum()))
    return best


def _apart(places: np.ndarray, length: int) -> np.ndarray:
    """Of places in order those that do not overlap, taken greedily."""
    kept, free = [], -1
    for place in places.tolist():
        if place >= free:
            kept.append(place)
            free = place + length
    return np.array(kept, np.int64)


@rule("P12", "dynamic-shapes", PRECISION, needs.gpu_work, needs.several_launches, link=ADVISOR)
def dynamic_shapes(case: Case) -> Verdict:
    """Shapes change, and kernels are tuned or loaded for each."""
    cause = [rule for rule in ("P5", "A9") if case.found(rule)]
    ops = case.profile["ops"].filter(pl.col("input_shapes").is_not_null())
    if ops.height:
        by = ops.group_by("name").agg(pl.col("input_shapes").n_unique().alias("shapes"), pl.len().alias("calls"))
        what, view = "input shapes", "ops-and-kernels"
    else:
        rows = case.configs.drop_nulls("grid_x")
        if rows.is_empty():
            return CannotTell("the input has no shapes and no grids")
        by = rows.group_by("name").agg(pl.struct("grid", "block").n_unique().alias("shapes"), pl.col("calls").sum())
        what, view = "launch configurations", "kernels"
    many = by.filter(pl.col("shapes") >= case.limit("P12", "shapes")).sort("shapes", descending=True)
    numbers = {"names": many.height, "shapes": whole(by["shapes"].max())}
    if many.is_empty() or not cause:
        return Clean(
            f"at most {counted(numbers['shapes'], what[:-1], what)} of one {'op' if ops.height else 'kernel'}"
            + ("" if cause else ", and nothing is tuned or loaded in the run"),
            numbers,
        )
    first = many.row(0, named=True)
    return Found(
        f"{called(first['name'])} has {first['shapes']} {what} in {counted(first['calls'], 'call')}, and kernels are "
        f"tuned or "
        f"loaded in the run ({', '.join(cause)}).",
        "Pad or bucket inputs to few shapes; tell the compiler which dimensions change (mark_dynamic).",
        numbers,
        None,
        f"counted by {' and '.join(cause)}",
        many.head(10),
        view,
        named(many["name"].head(10).to_list(), "op" if ops.height else "name"),
    )


@rule("P13", "sync-batchnorm", PRECISION, needs.ops, link=ADVISOR)
def sync_batch_norm(case: Case) -> Verdict:
    """Many layers of SyncBatchNorm."""
    ops = case.profile["ops"]
    names = ops["name"].unique().drop_nulls()
    sync = names.filter(names.cast(pl.String).str.contains(r"(?i)^sync_?batch_?norm"))
    rows = ops.filter(pl.col("name").is_in(sync.implode()))
    if rows.is_empty():
        return Clean("there is no SyncBatchNorm")
    steps = rows.drop_nulls("iteration")["iteration"].n_unique() or 1
    each = rows.height / steps
    numbers = {"ops": rows.height, "per_iteration": each}
    if each <= case.limit("P13", "ops"):
        return Clean(f"{counted(each, 'SyncBatchNorm', 'SyncBatchNorm')} in an iteration", numbers)
    return Found(
        f"{counted(each, 'call')} of SyncBatchNorm in an iteration: each waits for all ranks.",
        "Use plain BatchNorm where the batch of one GPU is large enough, or synchronize in fewer layers.",
        numbers,
        None,
        "not estimated: the waits are part of the communication",
        rows.group_by("name").len().sort("len", descending=True),
        "ops-and-kernels",
        named(sync.to_list(), "op"),
    )
