"""How much of the time the GPUs have work, and what it is like when they have none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.expert import needs
from tui.analysis.expert.case import parts_of
from tui.analysis.expert.figures import real, whole
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.words import called, counted, gpu_called, named, rounded
from tui.analysis.gpu_time.interval_sets import IntervalSet, union_of
from tui.fmt import duration, percent

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.analysis.expert.case import Case
    from tui.analysis.expert.spans import GpuTime

UTILISATION: Final = Family.UTILISATION
TENSORBOARD: Final = "https://github.com/pytorch/kineto/blob/main/tb_plugin/torch_tb_profiler/profiler/data.py"
NSIGHT: Final = "https://docs.nvidia.com/nsight-systems/AnalysisGuide/index.html"
ROOT_CAUSES: Final = "https://github.com/GindaChen/nsys-ai"
HTA: Final = "https://github.com/facebookresearch/HolisticTraceAnalysis"
ADVISOR: Final = "https://github.com/Ascend/msprof-analyze"
SAGEMAKER: Final = "https://github.com/awslabs/sagemaker-debugger-rulesconfig"
VISUAL_PROFILER: Final = "https://docs.nvidia.com/cuda/profiler-users-guide/index.html"

CHUNKS: Final = 30
FINE_CHUNKS: Final = 100
_INPUT: Final = r"(?i)data_?loader|dataloading|enumerate\(|\bdata (?:load|wait)|next_batch|load_batch"


@rule("U1", "gpu-low-util", UTILISATION, needs.start_times, link=TENSORBOARD)
def low_utilisation(case: Case) -> Verdict:
    """A GPU has work for too little of the time."""
    worst = case.busy.sort("busy_pct").row(0, named=True)
    busy, gpus = worst["busy_pct"], case.busy.height
    gpu = gpu_called(worst["device"], gpus)
    numbers = {"busy_pct": busy, "busy_ns": worst["busy_ns"], "span_ns": worst["span_ns"], "device": worst["device"]}
    if busy >= case.limit("U1", "busy_pct"):
        return Clean(f"{gpu} has work for {percent(busy)} of {duration(worst['span_ns'])}", numbers)
    cause, advice = _idle_cause(case, worst["device"])
    return Found(
        f"{gpu[0].upper()}{gpu[1:]} has work for {percent(busy)} of {duration(worst['span_ns'])}: "
        f"it idles for {duration(worst['idle_ns'])}{cause}.",
        advice,
        numbers,
        worst["idle_ns"],
        "all of its idle time",
        case.busy.sort("busy_pct").select("device", "busy_pct", "busy_ns", "idle_ns", "span_ns"),
        "gpus",
    )


def _idle_cause(case: Case, device: int | None) -> tuple[str, str]:
    """What the CPU did while a GPU was idle: the largest part in words, and what to do about it."""
    gpu = next(gpu for gpu in case.gpus if gpu.device == device)
    idle = gpu.idle(case.resolution_ns)
    loading = input_time(case) & idle
    calls = case.profile["api_calls"].drop_nulls(["start_ns", "duration_ns"])
    in_calls = (_union(calls) & idle).length if calls.height else None
    if loading.length > idle.length / 2:
        return (
            f", {duration(loading.length)} of them while it waits for input data",
            "Load data in more workers, prefetch the next batch, and copy it with pin_memory and non_blocking.",
        )
    if in_calls is None:
        return "", "Give it more work at a time (larger batch), and load and copy input while it computes."
    if in_calls > idle.length / 2:
        return (
            f", {duration(in_calls)} of them while the CPU is in CUDA calls",
            "Launch less often and wait less: larger batches, CUDA graphs, no synchronize in the loop (see api-calls).",
        )
    return (
        f", {duration(idle.length - in_calls)} of them while the CPU is in no CUDA call",
        "The program itself is slow to launch: move its work (Python, input data, logging) off the launching thread.",
    )


def input_time(case: Case) -> IntervalSet:
    """When input data was waited for, by the names of ops and ranges."""
    parts = []
    for frame in ("ops", "ranges"):
        names = case.profile[frame]["name"].unique().drop_nulls()
        of_input = names.filter(names.cast(pl.String).str.contains(_INPUT))
        if of_input.len():
            parts.append(
                case.profile[frame]
                .filter(pl.col("name").is_in(of_input.implode()))
                .select("start_ns", "duration_ns")
                .drop_nulls()
            )
    return _union(pl.concat(parts)) if parts else _union(pl.DataFrame({"start_ns": [], "duration_ns": []}))


def _union(rows: pl.DataFrame) -> IntervalSet:
    start = rows["start_ns"].cast(pl.Int64).to_numpy()
    return union_of(start, start + rows["duration_ns"].cast(pl.Int64).to_numpy())


@rule("U2", "gpu-gaps", UTILISATION, needs.start_times, link=NSIGHT)
def long_gaps(case: Case) -> Verdict:
    """A GPU stands still for long."""
    least = case.limit("U2", "gap_ns")
    longest: list[tuple[int, int, GpuTime]] = []
    lengths_all = []
    for gpu in case.gpus:
        idle = gpu.idle(case.resolution_ns)
        lengths = idle.ends - idle.starts
        lengths_all.append(lengths[lengths >= least])
        order = np.argsort(-lengths)[:10]
        longest += [(int(lengths[at]), int(idle.starts[at]), gpu) for at in order if lengths[at] >= least]
    longest.sort(key=lambda hole: (-hole[0], hole[1]))
    holes, total = sum(map(len, lengths_all)), int(sum(part.sum() for part in lengths_all))
    largest = longest[0][0] if longest else 0
    share, of_one = case.of_span(total), 100 * largest / case.span_ns
    numbers = {"holes": holes, "idle_ns": total, "idle_pct": share, "longest_ns": largest, "longest_pct": of_one}
    many = holes >= case.limit("U2", "holes") and share >= case.limit("U2", "idle_pct")
    if not many and largest < case.limit("U2", "one_ns") and of_one < case.limit("U2", "one_pct"):
        return Clean(
            f"{counted(holes, 'hole')} of {rounded(least)} or more"
            + (f", the longest {duration(largest)}: {percent(of_one)} of the span" if holes else ""),
            numbers,
        )
    evidence = pl.DataFrame([_around(hole, start, gpu) for hole, start, gpu in longest[:10]])
    after = longest[0][2].rows.row(int(np.searchsorted(longest[0][2].start, longest[0][1] + 1)), named=True)
    return Found(
        f"{counted(holes, 'hole')} of {rounded(least)} or more between GPU work, {duration(total)} in all "
        f"({percent(share)} of the span); the longest is {duration(largest)} ({percent(of_one)}), "
        f"before {called(after['name'])}.",
        "Look at what the program does there (input, logging, checkpoints, allocation); name its phases with NVTX "
        "ranges, and record API calls, to see it here.",
        numbers,
        total,
        "all of these holes",
        evidence,
        "kernels",
        named(row["next"] for row in evidence.iter_rows(named=True)),
    )


def _around(length: int, start: int, gpu: GpuTime) -> dict[str, object]:
    at = min(int(np.searchsorted(gpu.start, start + 1)), gpu.rows.height - 1)
    following = gpu.rows.row(at, named=True)
    return {
        "start_ns": start,
        "gap_ns": length,
        "device": gpu.device,
        "next": following["name"],
        "activity": following["activity"],
        "line": following["line"],
    }


def shares_over_time(gpu: GpuTime, chunks: int, first: int, last: int) -> npt.NDArray[np.float64]:
    """For each of so many equal steps the share in which a GPU had work, in percent."""
    edges = np.linspace(first, last, chunks + 1).astype(np.int64)
    shares: npt.NDArray[np.float64] = np.clip(
        100 * np.diff(gpu.busy.until(edges)) / np.maximum(1, np.diff(edges)), 0, 100
    )
    return shares


@rule("U3", "util-chunks", UTILISATION, needs.start_times, severity=Severity.INFO, link=NSIGHT)
def low_stretches(case: Case) -> Verdict:
    """Parts of the run use a GPU little."""
    if case.span_ns < CHUNKS * max(case.resolution_ns, 1):
        return CannotTell(f"the span of {duration(case.span_ns)} is too short to be cut into {CHUNKS} parts")
    least = case.limit("U3", "busy_pct")
    first, last = whole(case.busy["first_ns"].min()), whole(case.busy["last_ns"].max())
    rows = []
    for gpu in case.gpus:
        shares = shares_over_time(gpu, CHUNKS, first, last)
        low = np.concatenate(([False], shares < least, [False]))
        begins, ends = np.flatnonzero(low[1:] & ~low[:-1]), np.flatnonzero(~low[1:] & low[:-1])
        step = (last - first) / CHUNKS
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            rows.append(
                {
                    "device": gpu.device,
                    "start_ns": int(first + begin * step),
                    "duration_ns": int((end - begin) * step),
                    "busy_pct": float(shares[begin:end].mean()),
                }
            )
    if not rows:
        return Clean(f"in each of {CHUNKS} equal parts of the run every GPU has work for {least:g}% or more")
    stretches = pl.DataFrame(rows).with_columns(
        (pl.col("duration_ns") * (1 - pl.col("busy_pct") / 100)).cast(pl.Int64).alias("idle_ns")
    )
    stretches = stretches.sort("idle_ns", descending=True)
    worst, idle = stretches.row(0, named=True), int(stretches["idle_ns"].sum())
    return Found(
        f"{counted(stretches.height, 'stretch', 'stretches')} of the run with a GPU busy less than {least:g}%: "
        f"the one "
        f"that idles longest takes {duration(worst['duration_ns'])} from {duration(worst['start_ns'])} on, "
        f"{percent(worst['busy_pct'])} busy.",
        "Leave start-up and shut-down out of what you judge; look at what the program does in the rest.",
        {"stretches": stretches.height, "idle_ns": idle, "busy_pct": worst["busy_pct"]},
        idle,
        "the idle time in these stretches",
        stretches,
        "gpus",
    )


@rule(
    "U4",
    "gpu-unused",
    UTILISATION,
    needs.gpu_work,
    link="https://docs.nvidia.com/deeplearning/frameworks/dlprof-user-guide/",
)
def unused_gpus(case: Case) -> Verdict:
    """A GPU that the program sees has no work."""
    seen = case.profile["devices"]
    if seen.is_empty():
        return CannotTell("the input does not say which GPUs the program saw, only which it used")
    source = case.about["source"]
    together = case.whole["sessions"].filter(pl.col("source").eq_missing(pl.lit(source, pl.String)))["session"].unique()
    used = case.whole["activities"].filter(pl.col("session").is_in(together.implode()))["device"].unique()
    idle = seen.filter(~pl.col("device").is_in(used.drop_nulls().implode()))
    if ((case.about["world_size"] or 1) > 1 or case.about["rank"] is not None) and idle.height:
        return CannotTell("this is one rank of several: the other GPUs are for the others to use")
    if not seen["device"].is_in(used.drop_nulls().implode()).any():
        return CannotTell("the input does not say which GPU its work ran on")
    numbers = {"gpus": seen["device"].n_unique(), "unused": idle["device"].n_unique()}
    if idle.is_empty():
        return Clean(f"{counted(seen['device'].n_unique(), 'GPU')} seen, and used", numbers)
    numbered = ", ".join(map(str, idle["device"].unique().sort()))
    return Found(
        f"{idle['device'].n_unique()} of {seen['device'].n_unique()} GPUs did nothing: {numbered}.",
        "Check what the container, the framework and the launcher are told (CUDA_VISIBLE_DEVICES, --gpus, nproc), or "
        "give the GPU to someone else.",
        numbers,
        None,
        "not estimated: it depends on how well the work can be divided",
        idle.select("device", "name"),
        "gpus",
        " | ".join(f"device={device}" for device in idle["device"].unique().sort()),
    )


@rule("U5", "gpu-imbalance", UTILISATION, needs.start_times)
def unequal_gpus(case: Case) -> Verdict:
    """GPUs have unequal work."""
    if case.busy.height < 2:
        return Clean("one GPU has work")
    ordered = case.busy.sort("busy_ns", descending=True)
    most, least = ordered.row(0, named=True), ordered.row(-1, named=True)
    spread = 100 * (most["busy_ns"] - least["busy_ns"]) / most["busy_ns"] if most["busy_ns"] else 0.0
    numbers = {"spread_pct": spread, "most_ns": most["busy_ns"], "least_ns": least["busy_ns"]}
    if spread <= case.limit("U5", "spread_pct"):
        return Clean(f"the GPU with least work has {percent(spread)} less than the one with most", numbers)
    return Found(
        f"{gpu_called(least['device'], 2)} is busy for {duration(least['busy_ns'])}, "
        f"{gpu_called(most['device'], 2)} for {duration(most['busy_ns'])}: {percent(spread)} less.",
        "Divide batches or pipeline stages by the time that they take, not by their number.",
        numbers,
        int(most["busy_ns"] - real(ordered["busy_ns"].mean())),
        "what the busiest GPU has more than the mean",
        ordered.select("device", "busy_ns", "busy_pct"),
        "gpus",
    )


@rule("U6", "host-bound", UTILISATION, needs.launches_linked, link=HTA)
def host_bound(case: Case) -> Verdict:
    """A GPU waits for the CPU to launch."""
    waits = []
    for part in parts_of(case.launched, "device"):
        rows = part.lazy().with_columns(pl.col("end_ns").cum_max().shift(1).alias("before_ns"))
        waits.append(
            rows.with_columns((pl.col("start_ns") - pl.col("before_ns")).alias("gap_ns"))
            .filter(pl.col("gap_ns") > case.resolution_ns, pl.col("launch_ns") > pl.col("before_ns"))
            .select("name", "gap_ns", "start_ns", "device", "activity", "line")
            .collect()
        )
    waiting = pl.concat(waits)
    total = min(int(waiting["gap_ns"].sum()), case.span_of_all_ns)
    share = case.of_span(total)
    numbers = {"host_wait_ns": total, "host_wait_pct": share, "waits": waiting.height}
    if share <= case.limit("U6", "host_wait_pct"):
        return Clean(f"{percent(share)} of the span is spent idle before work that was not launched yet", numbers)
    by_name = (
        waiting.group_by("name").agg(pl.len().alias("waits"), pl.col("gap_ns").sum()).sort("gap_ns", descending=True)
    )
    return Found(
        f"GPUs idle for {duration(total)} ({percent(share)} of the span) before work that the CPU had not launched "
        f"yet: "
        f"{counted(waiting.height, 'time')}, most before {called(by_name['name'][0])}.",
        "Make launches cheaper or fewer: CUDA graphs, torch.compile, fused kernels, larger batches, less Python "
        "between.",
        numbers,
        total,
        "all idle time before late launches",
        by_name.head(10),
        "kernels",
        named(by_name["name"].head(10).to_list()),
    )


@rule("U7", "micro-idle", UTILISATION, needs.fine_clock)
def micro_gaps(case: Case) -> Verdict:
    """Many tiny gaps between GPU work."""
    most = case.limit("U7", "gap_ns")
    total = number = 0
    for gpu in case.gpus:
        idle = gpu.idle(case.resolution_ns)
        lengths = idle.ends - idle.starts
        tiny = lengths[lengths < most]
        total, number = total + int(tiny.sum()), number + len(tiny)
    share = case.of_span(total)
    numbers = {"gaps": number, "idle_ns": total, "idle_pct": share}
    if share <= case.limit("U7", "idle_pct"):
        return Clean(f"gaps below {rounded(most)} take {percent(share)} of the span", numbers)
    return Found(
        f"{counted(number, 'gap')} of less than {rounded(most)} take {duration(total)}: {percent(share)} of the span.",
        "Fewer, larger kernels: capture the step in a CUDA graph, compile or fuse chains of small kernels.",
        numbers,
        total,
        "all of these gaps",
        view="kernels",
        filter="kind=kernel",
    )


@rule("U8", "low-compute", UTILISATION, needs.gpu_work, link=VISUAL_PROFILER)
def low_compute(case: Case) -> Verdict:
    """The GPU is busy, and not with computing."""
    if case.lacks.get("start times") or not case.span_ns:
        kernels, busy, how = case.kernel_ns, case.gpu_ns, "of the summed durations"
        communication = int(case.kernels.filter(pl.col("op_type") == "communication")["total_ns"].sum())
        compute = kernels - communication
    else:
        compute = sum(gpu.compute.length for gpu in case.gpus)
        busy, how = sum(gpu.busy.length for gpu in case.gpus), "of the busy time"
    if not busy:
        return CannotTell("no GPU work took any time")
    share = 100 * compute / busy
    numbers = {"compute_pct": share, "compute_ns": compute, "busy_ns": busy}
    if share >= case.limit("U8", "compute_pct"):
        return Clean(f"kernels that compute run in {percent(share)} {how}", numbers)
    other = case.work.filter(~pl.col("kind").is_in(["kernel", "graph"]) | (pl.col("op_type") == "communication"))
    largest = other.row(0, named=True) if other.height else None
    return Found(
        f"Kernels that compute run in only {percent(share)} {how}"
        + (f"; {called(largest['name'])} takes {duration(largest['total_ns'])}." if largest else "."),
        "Take copies and communication off the path: keep data on the device, overlap them with kernels.",
        numbers,
        busy - compute,
        "all busy time without a kernel that computes",
        other.head(10).select("name", "calls", "total_ns"),
        "kernels",
        named(other["name"].head(10).to_list()),
    )


@rule("U9", "host-silent", UTILISATION, needs.start_times, needs.api_trace, link=ADVISOR)
def silent_pauses(case: Case) -> Verdict:
    """GPU and CUDA calls are both quiet: the program does something else."""
    least = int(case.limit("U9", "gap_ns"))
    calls = case.profile["api_calls"].select("start_ns", "duration_ns").drop_nulls()
    in_calls, begins = _union(calls), np.sort(calls["start_ns"].to_numpy())
    rows = []
    for gpu in case.gpus:
        idle = gpu.idle(case.resolution_ns)
        starts, ends = idle.starts, idle.ends
        long = ends - starts >= least
        starts, ends = starts[long], ends[long]
        inside = in_calls.within(starts, ends)
        number = np.searchsorted(begins, ends) - np.searchsorted(begins, starts)
        quiet = (inside * 100 < case.limit("U9", "api_pct") * (ends - starts)) & (
            number * case.limit("U9", "call_every_ns") < (ends - starts)
        )
        rows += [
            {"device": gpu.device, "start_ns": int(start), "gap_ns": int(end - start)}
            for start, end in zip(starts[quiet], ends[quiet], strict=True)
        ]
    if not rows:
        return Clean(f"no hole of {rounded(least)} or more in which the CPU made no CUDA calls either")
    pauses = pl.DataFrame(rows).sort("gap_ns", descending=True)
    total = int(pauses["gap_ns"].sum())
    return Found(
        f"{counted(len(rows), 'pause')} of {rounded(least)} or more in which neither a GPU nor CUDA calls were "
        f"active, "
        f"{duration(total)} in all; the longest is {duration(pauses['gap_ns'][0])} at "
        f"{duration(pauses['start_ns'][0])}.",
        "Look for garbage collection (gc.freeze), checkpoints, logging, locks or slow input there; CPU stacks show it.",
        {"pauses": len(rows), "idle_ns": total},
        total,
        "all of these pauses",
        pauses,
        "gpus",
    )


@rule("U10", "fluctuating", UTILISATION, needs.start_times, severity=Severity.INFO, link=SAGEMAKER)
def fluctuating(case: Case) -> Verdict:
    """GPU use comes in bursts."""
    if case.span_ns < FINE_CHUNKS * max(case.resolution_ns, 1):
        return CannotTell(f"the span of {duration(case.span_ns)} is too short to be cut into {FINE_CHUNKS} parts")
    first, last = whole(case.busy["first_ns"].min()), whole(case.busy["last_ns"].max())
    spread = [
        (*np.percentile(shares_over_time(gpu, FINE_CHUNKS, first, last), [5, 50, 95]).tolist(), gpu)
        for gpu in case.gpus
    ]
    low, median, high, gpu = min(spread, key=lambda entry: entry[0] - entry[2])
    numbers = {"p5_pct": low, "p50_pct": median, "p95_pct": high}
    if high < case.limit("U10", "high_pct") or low >= case.limit("U10", "low_pct"):
        return Clean(f"use of {gpu_called(gpu.device, len(case.gpus))} is between {percent(low)} and {percent(high)} "
                     f"in nine of ten of {FINE_CHUNKS} equal parts", numbers)  # fmt: skip
    return Found(
        f"Use of {gpu_called(gpu.device, len(case.gpus))} swings between {percent(low)} and {percent(high)} (5th and "
        f"95th "
        f"percentile of {FINE_CHUNKS} equal parts of the run).",
        "Work comes in bursts: look whether input, synchronization or checkpoints come between (see iterations).",
        numbers,
        None,
        "not estimated: the idle time is counted by the rules on gaps",
        view="gpus",
    )
