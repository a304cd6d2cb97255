"""Short kernels, and chains and runs of them that one launch could replace."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert.finding_text import (
    ADVISOR,
    DLPROF,
    RATELPROF,
    TRACELENS,
    duration,
    evidence_by_name,
    known_sum,
    label,
    most_frequent_name,
    name_filter,
    percent,
    sort_by_largest,
    totals_by_name,
)
from tui.analysis.expert.in_use import larger_kernels
from tui.analysis.expert.rule import Cause, Clean, Family, Found, NotApplicable, Severity, Verdict, rule
from tui.analysis.gpu_time.host_calls import SYNCHRONIZING
from tui.analysis.gpu_time.interval_sets import blocks
from tui.analysis.grouping import group_rows
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tui.analysis.expert.case import Case, KernelSequence
    from tui.analysis.gpu_time.interval_sets import IntervalSet

    Ints = npt.NDArray[np.int64]


def short_kernel_cause(case: Case) -> Cause:
    """Return the cause of idle time before short kernels: their launches, if the GPU is known to wait for them."""
    if case.has_finding("U6"):
        return Cause.LAUNCH_BOUND
    if case.has_finding("U1") and case.inapplicable("U6") and case.cause("U1") in ("", Cause.IDLE):
        return Cause(case.cause("U1") or Cause.LAUNCH_BOUND)
    return Cause.SHORT_KERNELS


@rule("A2", "short-kernels", Family.LAUNCHES, needs.gpu_work, needs.kernels, link=TRACELENS)
def short_kernels(case: Case) -> Verdict:
    """Most kernels are short."""
    short = case.limit("A2", "short_ns")
    if case.profile["activities"].height:
        is_kernel, durations = pl.col("kind") == "kernel", pl.col("duration_ns")
        work = case.profile["activities"].lazy()
        launches = int(work.select((is_kernel & durations.is_not_null()).sum()).collect().item())
        brief = work.filter(durations < short, is_kernel).select("name", "duration_ns").collect()
        sums = [pl.len().cast(pl.Int64).alias("launches"), pl.col("duration_ns").sum().alias("total_ns")]
        by_name = group_rows(brief, ("name",), sums)
        number, total_ns, basis = known_sum(by_name["launches"]), known_sum(by_name["total_ns"]), ""
    else:
        rows = case.kernels.drop_nulls("calls")
        launches = known_sum(rows["calls"])
        short_rows = rows.filter(pl.col("avg_ns") < short)
        number, total_ns, basis = known_sum(short_rows["calls"]), known_sum(short_rows["total_ns"]), " on average"
        by_name = short_rows.select("name", pl.col("calls").alias("launches"), "total_ns")
    if not launches:
        return NotApplicable("numbers of launches are not recorded")
    if launches < case.limit("A2", "launches"):
        return NotApplicable(f"not enough data: {plural(launches, 'launch', 'launches')}")
    share, time_pct = 100 * number / launches, case.share(total_ns)
    idle = case.wall_pct(known_sum(case.busy["idle_ns"])) if case.span_ns else None
    numbers = {"short": number, "launches": launches, "short_pct": share, "time_pct": time_pct, "idle_pct": idle}
    matters = case.limit("A2", "time_pct")
    if share <= case.limit("A2", "launches_pct") or (time_pct <= matters and (idle is None or idle <= matters)):
        return Clean(
            f"{percent(share)} of {plural(launches, 'launch', 'launches')} take less than {duration(short)}{basis}: "
            f"{percent(time_pct)} of GPU time",
            numbers,
        )
    if not case.span_ns and 100 * total_ns < case.limit("A2", "whole_pct") * case.cost_basis_ns:
        return Clean(f"kernels below {duration(short)} take {duration(total_ns)}, little beside the API calls", numbers)
    wait_ns = known_sum(case.api_named(SYNCHRONIZING)["total_ns"])
    if not case.span_ns and 2 * wait_ns > case.all_gpu_ns and time_pct < case.limit("A2", "waits_pct"):
        return Clean(
            f"{percent(share)} of {plural(launches, 'launch', 'launches')} take less than {duration(short)}{basis}, "
            f"but the CPU waits for the GPU: {duration(wait_ns)} in synchronizing calls",
            numbers,
        )
    idle_before_ns = _idle_before(case, short) if case.span_ns else None
    if idle_before_ns is not None and case.wall_pct(idle_before_ns) < case.limit("A2", "idle_pct"):
        return Clean(
            f"{percent(share)} of {plural(launches, 'launch', 'launches')} take less than {duration(short)}, "
            f"but the GPU idles for {percent(case.wall_pct(idle_before_ns))} of the {case.wall_words} before them",
            numbers,
        )
    by_name = sort_by_largest(by_name, "launches", "total_ns")
    return Found(
        f"{percent(share)} of {plural(launches, 'launch', 'launches')} run for less than {duration(short)}{basis} "
        f"({percent(time_pct)} of GPU time){most_frequent_name(by_name, 'launches')}.",
        larger_kernels(case, are_launches_late=not case.is_clean("U6")),
        numbers,
        idle_before_ns,
        f"the idle time before them, without gaps of {duration(case.limit('U2', 'gap_ns'))} or more (U2)"
        if case.span_ns
        else "not estimated: start times are not recorded",
        *evidence_by_name(by_name),
        cause=short_kernel_cause(case),
        is_summed_over_gpus=True,
    )


def _idle_before(case: Case, short: float) -> int | None:
    """Return the GPU idle time right before short kernels, without the long gaps that U2 counts.

    None if no such gap is seen, as where starts are rounded to more than a gap lasts.
    """
    kernel, idle = case.is_kernel_timed, 0
    for timeline, gaps in case.device_gaps:
        for block in blocks(len(gaps.next_work)):
            next_work, lengths = gaps.next_work[block], gaps.ends[block] - gaps.starts[block]
            brief = (timeline.ends[next_work] - timeline.starts[next_work] < short) & kernel[
                timeline.rows_at(next_work)
            ]
            idle += int(lengths[brief & (lengths < case.limit("U2", "gap_ns"))].sum())
    return idle or None


@rule(
    "A7",
    "mergeable",
    Family.LAUNCHES,
    needs.start_times,
    needs.kernels,
    severity=Severity.INFO,
    link=RATELPROF,
)
def mergeable(case: Case) -> Verdict:
    """One short kernel runs many times in a row."""
    if not any((~sequence.is_communication).any() for sequence in case.sequences):
        return NotApplicable("no compute kernels are recorded")
    short, min_launches = case.limit("A7", "short_ns"), int(case.limit("A7", "run"))
    work = case.profile["activities"].select("name", "line")
    runs = pl.concat(
        [
            _runs(sequence, case.busy_intervals(sequence.timeline), work, short, min_launches)
            for sequence in case.sequences
        ]
    )
    total_ns = known_sum(runs["duration_ns"])
    share = case.share(total_ns)
    numbers = {"runs": runs.height, "launches": known_sum(runs["launches"]), "time_ns": total_ns, "time_pct": share}
    if share <= case.limit("A7", "time_pct"):
        return Clean(f"runs of one short kernel take {percent(share)} of GPU time", numbers)
    idle = known_sum(runs["idle_ns"])
    if case.share(idle) < case.limit("A7", "idle_pct"):
        return Clean(f"the GPU idles for only {duration(idle)} between the launches of such runs", numbers)
    by_name = sort_by_largest(totals_by_name(runs, "runs", "launches", "duration_ns"), "duration_ns")
    first = by_name.row(0, named=True)
    if _FOREACH in str(first["name"]) and case.in_use.fused_optimizer:
        return Clean("the runs are launches of a fused optimizer", numbers)
    return Found(
        f"{label(first['name'])} runs {first['launches'] / first['runs']:.0f} times in a row "
        f"({plural(first['runs'], 'such run')}). Runs of the same short kernel take {percent(share)} of GPU time.",
        _single_launch_advice(case, str(first["name"])),
        numbers,
        idle,
        "the idle time of the GPU between the launches of these runs",
        *evidence_by_name(by_name),
        cause=short_kernel_cause(case),
        is_summed_over_gpus=True,
    )


def _single_launch_advice(case: Case, name: str) -> str:
    """Return how to replace runs of a kernel by one launch, without what the program already does."""
    if name.startswith(RUNTIME_COPIES):
        return COPY_LESS_OFTEN
    if _FOREACH in name:
        return "A foreach optimizer is already in use. A fused one (fused=True) needs fewer launches."
    if not case.framework:
        return "Replace each run by one launch: a kernel that does the work of all of them."
    foreach_advice = " a foreach optimizer," if case.is_torch else ""
    return (
        f"Replace each run by one launch: a batched or grouped GEMM,{foreach_advice} a kernel over a list of tensors."
    )


def _runs(
    sequence: KernelSequence, working: IntervalSet, work: pl.DataFrame, short: float, min_launches: int
) -> pl.DataFrame:
    """Return runs of one short kernel in a stream: name, line, launches, duration_ns, idle_ns (of the whole GPU).

    Args:
        sequence: The kernels of the stream; those that communicate make no runs.
        working: The busy intervals of the GPU.
        work: name and line of each row of ``activities``.
        short: The duration below which kernels, and gaps between them, belong to a run.
        min_launches: The minimum number of launches in a run.
    """
    names, starts, ends = sequence.names, sequence.starts, sequence.ends
    # Most kernels are followed by a different one: examine only the few positions where one repeats.
    repeats = np.flatnonzero(names[1:] == names[:-1])
    continues = repeats[
        (starts[repeats + 1] - ends[repeats] < short) & (ends[repeats + 1] - starts[repeats + 1] < short)
        & (ends[repeats] - starts[repeats] < short)
        & ~sequence.is_communication[repeats]
    ]  # fmt: skip
    cuts = np.flatnonzero(np.diff(continues) > 1) + 1
    first = continues[np.concatenate(([0], cuts))] if len(continues) else continues
    last = continues[np.concatenate((cuts - 1, [-1]))] + 1 if len(continues) else continues
    is_long = last - first + 1 >= min_launches
    first, last = first[is_long], last[is_long]
    durations = ends - starts if len(first) else np.zeros(0, np.int64)
    sums = np.cumsum(durations, out=durations)
    rows = sequence.timeline.rows_at(sequence.positions[first])
    return work.select(pl.all().gather(pl.Series(rows))).with_columns(
        pl.Series("launches", last - first + 1, pl.Int64),
        pl.Series("duration_ns", sums[last] - sums[first] + ends[first] - starts[first], pl.Int64),
        pl.Series("idle_ns", ends[last] - starts[first] - working.covered_within(starts[first], ends[last]), pl.Int64),
    )


RUNTIME_COPIES: Final = "__amd_rocclr_"
"""The prefix of kernels with which the HIP runtime copies and fills memory."""
COPY_LESS_OFTEN: Final = (
    "Copy and fill memory less often, and more at a time: the HIP runtime does it with this kernel."
)
_FOREACH: Final = "multi_tensor_apply"
LENGTHS: Final = range(2, 11)
SHOWN: Final = 3
"""The number of kernels of a chain that are listed."""
WINDOW: Final = 1 << 18
"""Chains are searched in this number of launches in the middle of a long recording."""


_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
"""A multiplier for hashing: the highest bits of the product are nearly random."""
_SLOT_BITS: Final = 18


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of kernels that repeats, with what its repeats take together."""

    rows: Ints
    """The rows of ``activities`` that its first repeat is."""
    repeats: int
    elapsed_ns: int
    """The sum of the times from begin to end of each repeat."""
    busy_ns: int
    """The part of it in which the GPU had any work."""
    window_ns: int
    """The time from the first to the last of the examined launches."""

    @property
    def idle_ns(self) -> int:
        """What the GPU waits within it."""
        return self.elapsed_ns - self.busy_ns


@rule("P11", "fusible-chain", Family.PRECISION, needs.start_times, needs.kernels, link=ADVISOR)
def fusible_chain(case: Case) -> Verdict:
    """The same short chain of kernels repeats, and the GPU is idle inside it."""
    busy, repeats, gap = (
        case.limit("P11", "busy_pct") / 100,
        int(case.limit("P11", "repeats")),
        case.limit("P11", "gap_ns"),
    )
    chains = (
        worst_chain(sequence, case.busy_intervals(sequence.timeline), busy, repeats, gap) for sequence in case.sequences
    )
    worst = max((chain for chain in chains if chain is not None), key=lambda chain: chain.idle_ns, default=None)
    if worst is None:
        return Clean("no repeated chain of kernels has the GPU idle inside it")
    share = 100 * worst.elapsed_ns / worst.window_ns
    if share <= case.limit("P11", "total_pct"):
        return Clean(f"the chain with most idle time takes {percent(share)} of the time")
    names = case.profile["activities"]["name"].gather(pl.Series(worst.rows)).cast(pl.String).to_list()
    busy_pct = 100 * worst.busy_ns / worst.elapsed_ns if worst.elapsed_ns else 0.0
    is_sampled = any(len(sequence) > WINDOW for sequence in case.sequences)
    sample_note = f" in the {WINDOW:,} launches in the middle" if is_sampled else ""
    return Found(
        f"A chain of {len(names)} kernels repeats {worst.repeats:,} times{sample_note}: {kernel_order_text(names)}. "
        f"The GPU is busy for {percent(busy_pct)} of its {duration(worst.elapsed_ns)}.",
        _chain_advice(case),
        {
            "kernels": len(names),
            "repeats": worst.repeats,
            "busy_pct": busy_pct,
            "chain_ns": worst.elapsed_ns,
            "idle_ns": worst.idle_ns,
        },
        worst.idle_ns,
        f"the idle time within the chain{sample_note}",
        pl.DataFrame({"name": names}),
        "kernels",
        name_filter(names),
        cause=short_kernel_cause(case),
    )


def _chain_advice(case: Case) -> str:
    """Return advice about a chain of kernels, without what the program already does."""
    in_use = case.in_use
    may_be_late = not case.is_clean("U6")
    options = [f"capture this chain in a CUDA graph{in_use.except_graphs}"] * (may_be_late and not in_use.cuda_graphs)
    options += [f"fuse it ({case.compiler})" if case.compiler and not in_use.compiler else "fuse it in one kernel"]
    text = ", or ".join(options)
    return f"{text[0].upper()}{text[1:]}."


def kernel_order_text(names: Sequence[str]) -> str:
    """Return a text with the kernels in order of execution: the first three distinct ones, and the number of others.

    >>> kernel_order_text(["f", "g", "g"])
    '`f`, 2 x `g`'
    >>> kernel_order_text(["f", "g", "f", "h", "h"])
    '`f`, `g`, `f` and 2 more'
    """
    runs = [(name, len(list(same))) for name, same in groupby(map(label, names))]
    texts = [f"{times} x {name}" if times > 1 else name for name, times in runs[:SHOWN]]
    remaining = sum(times for _, times in runs[SHOWN:])
    return ", ".join(texts) + f" and {remaining} more" * bool(remaining)


def worst_chain(
    sequence: KernelSequence, working: IntervalSet, busy: float, repeats: int, gap_ns: float
) -> Chain | None:
    """Return the chain of a stream that wastes most time, of those that are frequent and leave the GPU idle.

    Args:
        sequence: The kernels of the stream; no chain holds one that communicates.
        working: When the GPU had any work, of other streams as well.
        busy: It has some for less than this share of each repeat, from begin to end.
        repeats: It comes more often than this.
        gap_ns: A gap this long ends a chain: to launch its kernels as one would not close it.
    """
    first = max(0, (len(sequence) - WINDOW) // 2)
    middle = sequence.sliced(slice(first, first + WINDOW))
    names, starts, ends = middle.names.astype(np.uint64), middle.starts, middle.ends
    opened, closed = working.covered_before(starts), working.covered_before(ends)
    communication_before = np.concatenate(([0], np.cumsum(middle.is_communication)))
    breaks = np.concatenate(([0], np.cumsum(starts[1:] - ends[:-1] >= gap_ns)))
    best: Chain | None = None
    code, n = names, len(names)
    may_repeat = np.ones(n, np.bool_)
    for length in LENGTHS:
        if n < length:
            break
        code = code[: n - length + 1] * _MIX + names[length - 1 :] + np.uint64(1)
        elapsed = ends[length - 1 :] - starts[: n - length + 1]
        busy_ns = closed[length - 1 :] - opened[: n - length + 1]
        may_repeat = _may_be_frequent(code, may_repeat[: len(code)], repeats)
        unbroken = (communication_before[length:] == communication_before[:-length]) & (
            breaks[length - 1 :] == breaks[: n - length + 1]
        )
        candidates = np.flatnonzero((busy_ns < busy * elapsed) & unbroken & may_repeat)
        if len(candidates) <= repeats:
            continue
        by_code = (
            pl.DataFrame({"code": code[candidates], "idle": (elapsed - busy_ns)[candidates]})
            .group_by("code")
            .agg(pl.len().alias("times"), pl.col("idle").sum())
            .filter(pl.col("times") > repeats)
            .sort("idle", "code", descending=[True, False])
        )
        if by_code.is_empty() or (best is not None and by_code["idle"][0] <= best.idle_ns):
            continue
        positions = _without_overlaps(candidates[code[candidates] == np.uint64(by_code["code"][0])], length)
        chain = Chain(
            middle.rows[positions[0] : positions[0] + length],
            len(positions),
            int(elapsed[positions].sum()),
            int(busy_ns[positions].sum()),
            int(ends.max() - starts[0]),
        )
        if len(positions) > repeats and (best is None or chain.idle_ns > best.idle_ns):
            best = chain
    return best


def _may_be_frequent(
    code: npt.NDArray[np.uint64], candidates: npt.NDArray[np.bool_], repeats: int
) -> npt.NDArray[np.bool_]:
    """Return where chains may begin that repeat more than ``repeats`` times: all of them, and few others.

    Args:
        code: A hash of each chain of a length.
        candidates: The same of chains that are shorter by one: no chain comes more often than its beginning.
        repeats: How often a chain may come.
    """
    # Counting hash buckets is quicker than counting codes, and leaves few codes to count.
    slot = ((code * _MIX) >> np.uint64(64 - _SLOT_BITS)).astype(np.int64)
    is_frequent: npt.NDArray[np.bool_] = candidates & (
        np.bincount(slot[candidates], minlength=1 << _SLOT_BITS)[slot] > repeats
    )
    return is_frequent


def _without_overlaps(positions: Ints, length: int) -> Ints:
    """Return positions that do not overlap, chosen greedily in order."""
    chosen, free = [], -1
    for position in positions.tolist():
        if position >= free:
            chosen.append(position)
            free = position + length
    return np.array(chosen, np.int64)


ELEMENTWISE: Final = (
    "elementwise", "activation", "bias add", "bias", "dropout", "cast", "batch norm", "layer norm", "normalization",
)  # fmt: skip
_OPTIMIZER_OPS: Final = r"(?i)addcdiv|addcmul|lerp_|_foreach|fused_?(?:adam|sgd)|adam|\bsgd|momentum|multi_tensor"


@rule("P7", "not-fused", Family.PRECISION, needs.gpu_work, needs.kernels, link=DLPROF)
def not_fused(case: Case) -> Verdict:
    """Elementwise and normalization work runs as many kernels."""
    rows = case.kernels.filter(pl.col("op_type").is_in(ELEMENTWISE))
    total_ns, launches = known_sum(rows["total_ns"]), known_sum(rows["calls"])
    share, mean = case.share(total_ns), total_ns / launches if launches else 0.0
    numbers = {"time_ns": total_ns, "time_pct": share, "launches": launches, "mean_ns": mean}
    is_few = launches < case.limit("P7", "launches") or rows.height < case.limit("P7", "kernels")
    if is_few or share <= case.limit("P7", "time_pct") or mean >= case.limit("P7", "mean_ns"):
        return Clean(f"elementwise and normalization kernels take {percent(share)} of GPU time", numbers)
    return Found(
        f"Elementwise and normalization kernels take {percent(share)} of GPU time: "
        f"{plural(launches, 'launch', 'launches')} of {duration(mean)} on average, mostly {label(rows['name'][0])}.",
        _fuse(case),
        numbers,
        total_ns // 2,
        "half of that time: fused kernels read and write the data once instead of each time",
        *evidence_by_name(rows, "calls", "total_ns", "avg_ns", "line"),
        is_summed_over_gpus=True,
    )


def _fuse(case: Case) -> str:
    """Return how to fuse small kernels, without what the program already does."""
    if not case.session_row["framework"] and not case.is_torch:
        return "Fuse elementwise kernels: one that does several of their steps reads and writes the data once."
    return (
        f"Fuse elementwise and normalization kernels: {case.compiler}, or"
        if case.compiler and not case.in_use.compiler
        else "Use"
    ) + " fused layers (LayerNorm, activation with bias, dropout with add)."


@rule("P8", "unfused-optimizer", Family.PRECISION, needs.gpu_work, needs.several_launches, needs.iterations)
def unfused_optimizer(case: Case) -> Verdict:
    """The optimizer launches one kernel per parameter."""
    op_numbers = case.rows_named("ops", _OPTIMIZER_OPS, "op")["op"]
    kernel_names = case.kernels.filter(pl.col("op_type") == "optimizer")["name"]
    rows = case.profile["activities"].filter(
        pl.col("kind") == "kernel",
        pl.col("name").is_in(kernel_names.implode()) | pl.col("op").is_in(op_numbers.implode()).fill_null(False),
    )
    if rows.is_empty():
        return NotApplicable("no op or kernel has the name of an optimizer")
    inside = rows.drop_nulls("iteration")
    if inside.is_empty():
        return NotApplicable("iterations of the optimizer's kernels are not recorded")
    steps = inside["iteration"].n_unique()
    launches_per_step, mean = inside.height / steps, known_sum(inside["duration_ns"]) / inside.height
    numbers = {"per_iteration": launches_per_step, "mean_ns": mean, "iterations": steps}
    if launches_per_step <= case.limit("P8", "launches") or mean >= case.limit("P8", "mean_ns"):
        return Clean(
            f"{plural(launches_per_step, 'launch', 'launches')} per iteration, {duration(mean)} on average", numbers
        )
    by_name = sort_by_largest(totals_by_name(inside, "launches", "duration_ns"), "launches")
    return Found(
        f"The optimizer launches {plural(launches_per_step, 'kernel')} per iteration, {duration(mean)} on average, "
        "mostly "
        f"{label(by_name['name'][0])}.",
        "foreach is already in use. Set fused=True, or use a fused optimizer (Apex, DeepSpeed)."
        if case.in_use.foreach_optimizer
        else "Set fused=True or foreach=True of torch.optim, or use a fused optimizer (Apex, DeepSpeed).",
        numbers,
        known_sum(inside["duration_ns"]),
        "all of these kernels; launching them costs CPU time as well",
        *evidence_by_name(by_name),
        is_summed_over_gpus=True,
    )
