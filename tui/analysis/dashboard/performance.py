"""The performance summary: wall time, use of the GPU, iterations, tensor cores, sums of GPU and API time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.dashboard.facts import Fact, Value, fact_of, sum_of
from tui.analysis.gpu_time.breakdown import wall_bounds
from tui.analysis.grouping import present
from tui.analysis.inputs.devices import tools_to_record
from tui.analysis.inputs.needs import API_WORK, GPU_WORK, ITERATIONS, START_TIMES
from tui.analysis.iterations.tables import sources
from tui.analysis.iterations.times import iteration_times
from tui.fmt import percent
from tui.model.columns import ColumnKind
from tui.model.compact import looked_at

if TYPE_CHECKING:
    from tui.analysis.inputs.recording import Need
    from tui.analysis.tensor_cores.efficiency import TensorCoreUse
    from tui.model.profile import Profile

K = ColumnKind

OF_EACH: Final = "each session has its own"
"""Why a figure that does not add up has no value over several sessions."""
LEAST_TOLD_PCT: Final = 0.05
"""Less of the time that is left out is not worth words."""
WHOLE_RUN: Final = "whole run"
"""The source of an iteration that is the whole run: there is nothing to compare it with."""

KINDS: Final = (
    ("kernel", "Kernel time"),
    ("memcpy", "Copy time"),
    ("memset", "Memset time"),
    ("um", "Unified memory time"),
    ("graph", "CUDA graph time"),
)
_ITERATION_FACTS: Final = (
    ("iterations", "iterations", "Iterations", K.COUNT),
    ("iteration_first", "first", "First iteration", K.NUMBER),
    ("iteration_last", "last", "Last iteration", K.NUMBER),
    ("iteration_avg_ns", "avg_ns", "Average iteration", K.DURATION),
    ("iteration_std_ns", "std_ns", "Std deviation", K.DURATION),
    ("iteration_median_ns", "median_ns", "Median iteration", K.DURATION),
    ("iteration_p95_ns", "p95_ns", "95th percentile", K.DURATION),
)
"""The names of facts, the columns of `iteration_times` that they are, their labels and kinds."""


def performance(
    profile: Profile, rows: pl.DataFrame, calls: pl.DataFrame, busy: pl.DataFrame, use: TensorCoreUse
) -> tuple[Fact, ...]:
    """All facts of the performance summary.

    Args:
        profile: What was read, without the sessions that are left out.
        rows: Its `tui.analysis.kernels.kernels`.
        calls: Its `tui.analysis.api.api`.
        busy: Its `tui.analysis.gpu_time.utilisation.utilisation`.
        use: What its kernels use of tensor cores.
    """
    tools = tools_to_record(profile)
    gpu_work, api_work = GPU_WORK.with_tools(tools), API_WORK.with_tools(tools)
    start_times = START_TIMES.with_tools(tools)
    gpu_source = _source(profile, "activities", "gpu")
    api_source = _source(profile, "api_calls", "api")
    facts = [
        _wall_fact(profile, start_times),
        *_time_facts(busy, start_times, sessions=rows["session"].n_unique()),
        *_iteration_facts(profile, ITERATIONS.with_tools(tools)),
        sum_of("gpu_ns", "GPU time", rows["total_ns"], K.DURATION, gpu_source, gpu_work),
    ]
    for kind, label in KINDS:
        part = rows.filter(pl.col("kind") == kind)["total_ns"]
        if part.len():
            facts.append(sum_of(f"{kind}_ns", label, part, K.DURATION, gpu_source, gpu_work))
    only_kernels = rows.filter(pl.col("kind") == "kernel")
    facts.append(sum_of("launches", "Kernel launches", only_kernels["calls"], K.COUNT, gpu_source, gpu_work))
    graphs = rows.filter(pl.col("kind") == "graph")["calls"]
    if graphs.len():
        facts.append(sum_of("graph_launches", "Graph launches", graphs, K.COUNT, gpu_source, gpu_work))
    names = only_kernels["name"].n_unique() if only_kernels.height else None
    facts.append(fact_of("kernels", "Distinct kernels", names, K.COUNT, gpu_source, gpu_work))
    facts += _tensor_core_facts(use)
    facts.append(sum_of("api_ns", "API time", calls["total_ns"], K.DURATION, api_source, api_work))
    facts.append(sum_of("api_calls", "API calls", calls["calls"], K.COUNT, api_source, api_work))
    return tuple(facts)


def _wall_fact(profile: Profile, need: Need) -> Fact:
    """The wall time; sessions ran beside or after each other, so that theirs do not add up."""
    bounds = wall_bounds(profile)
    if len(bounds) > 1:
        return Fact("wall_ns", "Wall time", None, K.DURATION, OF_EACH)
    value = next((last - first for first, last in bounds.values()), None)
    source = "first begin to last end of ops, iterations and GPU activities, else of API calls"
    return fact_of("wall_ns", "Wall time", value, K.DURATION, source, need)


def _time_facts(busy: pl.DataFrame, need: Need, *, sessions: int) -> tuple[Fact, ...]:
    """Utilisation, span, busy and idle time; unknown where not every session with GPU work has start times.

    Utilisation and idle time are of the wall time, as DLProf's. Busy and idle time add up over GPUs, spans of sessions
    do not: they can have run at once.
    """
    timed = busy["session"].n_unique()
    partly = 0 < timed < sessions
    span: Value = None
    if busy.is_empty() or partly:
        values: tuple[Value, ...] = (None, None, None)
    else:
        available, working = int(busy["wall_ns"].sum()), int(busy["busy_ns"].sum())
        mean = busy["busy_pct"].mean()
        values = (mean if isinstance(mean, float) else None, working, available - working)
        span = int(busy["span_ns"][0]) if timed == 1 else None
    source = "start times and durations of the GPU activities"
    if busy.height > 1:
        source += f", over {busy.height} GPUs" if timed == 1 else ", over all sessions and GPUs"
    named = (
        ("busy_pct", "GPU utilisation", K.PERCENT, values[0]),
        ("span_ns", "GPU span", K.DURATION, span),
        ("busy_ns", "GPU busy", K.DURATION, values[1]),
        ("idle_ns", "GPU idle", K.DURATION, values[2]),
    )
    facts = []
    for name, label, kind, value in named:
        if partly:
            facts.append(
                Fact(name, label, None, kind, f"start times in only {timed} of {sessions} sessions", need.record)
            )
        elif value is None and timed > 1:
            facts.append(Fact(name, label, None, kind, OF_EACH))
        else:
            facts.append(fact_of(name, label, value, kind, source, need))
    return tuple(facts)


def _iteration_facts(profile: Profile, need: Need) -> tuple[Fact, ...]:
    """How many iterations there are and how long they take; of several sessions each has its own."""
    times, known = iteration_times(profile), sources(profile)
    times = times.filter([known.get(session) != WHOLE_RUN for session in times["session"]])
    if times.height > 1:
        return tuple(Fact(name, label, None, kind, OF_EACH) for name, _, label, kind in _ITERATION_FACTS)
    if times.is_empty():
        return tuple(fact_of(name, label, None, kind, "", need) for name, _, label, kind in _ITERATION_FACTS)
    row = times.row(0, named=True)
    how = known.get(row["session"], "recorded")
    words = "times of the recorded iterations" if how == "recorded" else f"times of the iterations, {how} in the work"
    return tuple(
        Fact(name, label, row[column], kind, words if row[column] is not None else "a single iteration has none")
        for name, column, label, kind in _ITERATION_FACTS
    )


def _tensor_core_facts(use: TensorCoreUse) -> list[Fact]:
    """The two figures that tools call by nearly the same name, under their own names, and what cannot be told."""
    if not use.kernel_ns:
        return []
    told = (
        (
            "tc_efficiency_pct",
            "TC efficiency (DLProf)",
            use.efficiency_pct,
            "time of kernels that use tensor cores / kernel time of ops that could",
            use.eligible_unknown_pct,
            "ops that could",
            "no work that could use tensor cores",
        ),
        (
            "tc_share_pct",
            "TC share (TensorBoard)",
            use.share_pct,
            "time of kernels that use tensor cores / time of all kernels",
            use.unknown_pct,
            "all kernels",
            "",
        ),
    )
    facts = []
    for name, label, value, formula, unknown, of_what, nothing in told:
        untold = f"{percent(unknown)} of the time of {of_what}" if unknown and unknown >= LEAST_TOLD_PCT else ""
        if value is None:
            open_time = f"not told of {untold}" if untold else ""
            facts.append(Fact(name, label, None, K.PERCENT, use.reason or open_time or nothing))
        else:
            left_out = f"; left out: {untold}, of which it is not told" if untold else ""
            facts.append(Fact(name, label, value, K.PERCENT, formula + left_out))
    if use.unknown_ns and not use.reason:
        source = "kernel time of which it cannot be told whether it uses tensor cores"
        facts.append(Fact("tc_unknown_pct", "TC unknown", use.unknown_pct, K.PERCENT, source))
    return facts


def _source(profile: Profile, frame: str, section: str) -> str:
    """Where the figures of a kind of work come from, in words."""
    single = profile[frame].height > 0
    own = set(present(looked_at(profile[frame], "session")))
    sessions = profile["summary"].filter(pl.col("section") == section)["session"].unique().to_list()
    printed = any(session not in own for session in sessions)
    parts = ["the single records of the trace"] if single else []
    return " and ".join([*parts, "the summary that the input holds"] if printed else parts)
