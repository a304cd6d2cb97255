"""Single values of the dashboard, with the source of each or why it is unknown; definitions of figures."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.capabilities import need_for_tools
from tui.analysis.devices import NO_VENDOR, session_vendor
from tui.analysis.gpu_time.breakdown import MIN_UNKNOWN_PCT, wall_bounds
from tui.analysis.gpu_time.timelines import COMMUNICATION
from tui.analysis.grouping import unique_values
from tui.analysis.iterations.iteration_table import iterations, sources
from tui.analysis.iterations.segments import WHOLE_RUN
from tui.analysis.iterations.serving import phases
from tui.analysis.iterations.times import iteration_times
from tui.analysis.kernels import NOT_PRINTED, unprinted_ns
from tui.analysis.needs import API_WORK, GPU_WORK, ITERATIONS, START_TIMES
from tui.analysis.ops.ops_by_name import classified_kernels
from tui.analysis.roofline import rooflines
from tui.analysis.sessions import rank_words
from tui.fmt import brief_duration, brief_percent, count, format_value, percent, step
from tui.model.columns import ColumnKind
from tui.model.profile import column_view
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.analysis.needs import Need
    from tui.analysis.tensor_core_efficiency import TensorCoreUse
    from tui.model.profile import Profile


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a figure."""

    name: str
    """The name in the JSON of a report."""
    title: str
    """The title for users."""
    unit: str
    """The unit of the exported value; empty if it has none."""
    means: str
    formula: str
    source: str
    """Who defines it so."""


@cache
def definitions() -> Mapping[str, Definition]:
    """Return all definitions of ``definitions.toml`` by name."""
    table = tomllib.loads(files("tui.data").joinpath("definitions.toml").read_text("utf-8"))
    return {entry["name"]: Definition(**entry) for entry in table["metric"]}


def definition(name: str) -> Definition:
    """Return the definition of a figure.

    >>> definition("busy_pct").unit
    '%'
    """
    return definitions()[name]


Value = int | float | str | None


@dataclass(frozen=True, slots=True)
class Fact:
    """One value of the dashboard, with its source or why it is unknown."""

    name: str
    """Stable, as ``busy_ns``: `tui.analysis.dashboard_facts` holds its definition."""
    label: str
    """The label for users, as ``GPU busy``."""
    value: Value
    """The value in base units; None if it is unknown."""
    kind: ColumnKind
    """How it is written."""
    source: str = ""
    """What it was computed from, or why it is unknown."""
    record: str = ""
    """The command that would record what is missing."""
    is_step: bool = False
    """It is the step that times are known to."""

    @property
    def formula(self) -> str:
        """How it is computed; a printed total is not."""
        return self.source if self.source.startswith(_PRINTED_TOTAL) else definition(self.name).formula

    def written(self) -> str:
        """Return the value as text."""
        if self.is_step and isinstance(self.value, int):
            return step(self.value)
        return format_value(self.kind, self.value)


_PRINTED_TOTAL: Final = "the total below the table"


def known_or_missing_fact(name: str, label: str, value: Value, kind: ColumnKind, source: str, need: Need) -> Fact:
    """Return a fact; without a value it is unknown because ``need`` is not recorded."""
    if value is None:
        return Fact(name, label, None, kind, f"no {need.name} recorded", need.record)
    return Fact(name, label, value, kind, source)


def sum_fact(name: str, label: str, values: pl.Series, kind: ColumnKind, source: str, need: Need) -> Fact:
    """Return the sum of the known values, one for each name; unknown if none is."""
    unknown = values.null_count()
    value = int(values.sum()) if values.len() > unknown else None
    if unknown:
        source = f"{source}; at least: unknown for {count(unknown)} of {plural(values.len(), 'name')}"
    return known_or_missing_fact(name, label, value, kind, source, need)


K = ColumnKind

DIFFERS_BY_SESSION: Final = "each session has its own"
"""Why a figure that cannot be summed has no value for several sessions."""
UNLAUNCHED: Final = "launch not recorded"
"""The ``op_join`` of GPU work whose launch is not recorded."""
OUTSIDE_PART: Final = 0.01
"""A smaller part of the API time outside the wall time is not shown."""

KINDS: Final = (
    ("kernel", "Kernel time"),
    ("memcpy", "Copy time"),
    ("memset", "Memset time"),
    ("um", "Unified memory time"),
    ("graph", "CUDA graph time"),
)
_PERIOD: Final = "recorded iterations, each to the end of the GPU work launched in it"
_ITERATION_FACTS: Final = (
    ("iterations", "iterations", "Iterations", K.COUNT),
    ("iteration_first", "first", "First iteration", K.NUMBER),
    ("iteration_last", "last", "Last iteration", K.NUMBER),
    ("iteration_avg_ns", "avg_ns", "Average iteration", K.DURATION),
    ("iteration_std_ns", "std_ns", "Std deviation", K.DURATION),
    ("iteration_median_ns", "median_ns", "Median iteration", K.DURATION),
    ("iteration_p95_ns", "p95_ns", "95th percentile", K.DURATION),
)
"""The names, columns of `iteration_times`, labels and kinds of facts."""


def performance(
    profile: Profile, rows: pl.DataFrame, calls: pl.DataFrame, busy: pl.DataFrame, use: TensorCoreUse
) -> tuple[Fact, ...]:
    """Return all facts of the performance summary.

    Args:
        profile: The profile, without the sessions that are omitted.
        rows: Its `tui.analysis.kernels.kernels`.
        calls: Its `tui.analysis.api_calls.api`.
        busy: Its `tui.analysis.gpu_time.breakdown.utilization`.
        use: The tensor-core use of its kernels.
    """
    gpu_work, api_work, start_times, recorded_iterations = (
        need_for_tools(profile, need) for need in (GPU_WORK, API_WORK, START_TIMES, ITERATIONS)
    )
    # Recorded work may have no kernels, or no durations.
    kernel_work = replace(gpu_work, name="kernels", record="") if rows.height else gpu_work
    durations = replace(start_times, name="durations of GPU work") if rows.height else gpu_work
    gpu_source = _source(profile, "activities", "gpu")
    api_source = _source(profile, "api_calls", "api")
    facts = [
        _wall_fact(profile, start_times),
        *_time_facts(busy, start_times if rows.height else gpu_work, sessions=rows["session"].n_unique()),
        *_iteration_facts(profile, recorded_iterations),
        *_gpu_time_facts(profile, rows["total_ns"], gpu_source, durations),
        *_unlaunched_facts(profile),
    ]
    for kind, label in KINDS:
        kind_times = rows.filter(pl.col("kind") == kind)["total_ns"]
        if kind_times.len():
            facts.append(sum_fact(f"{kind}_ns", label, kind_times, K.DURATION, gpu_source, durations))
    only_kernels = rows.filter(pl.col("kind") == "kernel")
    facts.append(sum_fact("launches", "Kernel launches", only_kernels["calls"], K.COUNT, gpu_source, kernel_work))
    graphs = rows.filter(pl.col("kind") == "graph")["calls"]
    if graphs.len():
        facts.append(sum_fact("graph_launches", "Graph launches", graphs, K.COUNT, gpu_source, gpu_work))
    names = only_kernels["name"].n_unique() if only_kernels.height else None
    facts.append(known_or_missing_fact("kernels", "Distinct kernels", names, K.COUNT, gpu_source, kernel_work))
    facts += _tensor_core_facts(use, may_be_unknown=session_vendor(profile) is NO_VENDOR)
    facts += _roofline_facts(profile)
    facts.append(sum_fact("api_ns", "API time", calls["total_ns"], K.DURATION, api_source, api_work))
    facts += _outside_fact(profile)
    facts.append(sum_fact("api_calls", "API calls", calls["calls"], K.COUNT, api_source, api_work))
    return tuple(facts)


_PREFIXES: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def _flop(flops: float) -> str:
    """Return FLOPs with three significant digits and a prefix.

    >>> _flop(36.7e12), _flop(13_800_000), _flop(0)
    ('36.7 TFLOP', '13.8 MFLOP', '0 FLOP')
    """
    scale, prefix = next(((scale, prefix) for scale, prefix in _PREFIXES if flops >= scale), (1.0, ""))
    return f"{flops / scale:.3g} {prefix}FLOP"


_MIN_COVERED: Final = 0.5
"""If ops with a formula take less of the compute time, the FLOPs of the others are most of all."""


def _roofline_facts(profile: Profile) -> list[Fact]:
    """Return model FLOPs and their utilization, if shapes are recorded; of one session, since they do not add up."""
    session_rooflines = rooflines(profile)
    if len(session_rooflines) != 1 or not session_rooflines[0].flops:
        return []
    (roofline,) = session_rooflines
    computes = (pl.col("kind") == "kernel") & (pl.col("op_type") != COMMUNICATION)
    compute_ns = int(classified_kernels(profile).filter(computes)["total_ns"].sum())
    if roofline.gpu_ns < _MIN_COVERED * compute_ns:
        unknown = brief_percent(100 - 100 * roofline.gpu_ns / compute_ns)
        reason = f"FLOPs unknown for {unknown} of the time of compute kernels"
        return [
            Fact("mfu_pct", "MFU", None, K.PERCENT, reason),
            Fact("model_flops", "Model FLOP/s", None, K.TEXT, reason),
        ]
    covered = f"inferred from shapes and types; covers {brief_percent(roofline.covered_pct)} of the GPU time"
    facts = [
        Fact(
            "mfu_pct",
            "MFU",
            roofline.mfu_pct,
            K.PERCENT,
            covered if roofline.mfu_pct is not None else "peaks of this GPU unknown",
        )
    ]
    if roofline.tflops_per_s is not None:
        text = f"{_flop(1e12 * roofline.tflops_per_s)}/s"
        facts.append(Fact("model_flops", "Model FLOP/s", text, K.TEXT, f"{_flop(roofline.flops)} in total; {covered}"))
    return facts


def _gpu_time_facts(profile: Profile, times: pl.Series, source: str, need: Need) -> list[Fact]:
    """Return the GPU time; if the input prints only some rows, also its own total and the rest."""
    unprinted = unprinted_ns(profile)
    if not unprinted:
        return [sum_fact("gpu_ns", "GPU time", times, K.DURATION, source, need)]
    total = unprinted + int(times.sum())
    if times.is_empty():
        return [Fact("gpu_ns", "GPU time", total, K.DURATION, f"{_PRINTED_TOTAL}, which lists no kernels")]
    source = f"{_PRINTED_TOTAL}; its kernels and copies add up to {percent(100 - 100 * unprinted / total)}"
    note = "GPU time of kernels and copies missing from the table; print all rows with row_limit=-1"
    return [
        Fact("gpu_ns", "GPU time", total, K.DURATION, source),
        Fact("unprinted_ns", NOT_PRINTED, unprinted, K.DURATION, note),
    ]


def _unlaunched_facts(profile: Profile) -> list[Fact]:
    """Return the GPU time whose launches are not recorded, if it is more than 1% of all GPU time."""
    with_calls = profile["api_calls"]["session"].unique()
    work = profile["activities"].filter(pl.col("session").is_in(with_calls.implode()))
    total = int(work["duration_ns"].sum())
    value = int(work.filter(pl.col("op_join") == UNLAUNCHED)["duration_ns"].sum())
    if 100 * value <= total:
        return []
    source = (
        f"{percent(100 * value / total)} of the GPU time: work launched before recording began, or with a lost "
        "launch record; it counts in GPU time and GPU busy but is not attributed to any op"
    )
    return [Fact("unlaunched_ns", "Launch not recorded", value, K.DURATION, source)]


def _wall_fact(profile: Profile, need: Need) -> Fact:
    """Return the wall time; sessions can overlap, so that their wall times do not add up."""
    bounds = wall_bounds(profile)
    if len(bounds) > 1:
        return Fact("wall_ns", "Wall time", None, K.DURATION, DIFFERS_BY_SESSION)
    value = next((last - first for first, last in bounds.values()), None)
    source = "first start to last end of ops, iterations and GPU activities, else of API calls"
    return known_or_missing_fact("wall_ns", "Wall time", value, K.DURATION, source, need)


def _outside_fact(profile: Profile) -> list[Fact]:
    """Return the API time before and after the wall time if it is significant: shares of the wall time omit it."""
    bounds = wall_bounds(profile)
    calls = profile["api_calls"].select("session", "start_ns", "duration_ns").drop_nulls()
    if len(bounds) != 1 or calls.is_empty():
        return []
    first, last = next(iter(bounds.values()))
    end = pl.col("start_ns") + pl.col("duration_ns")
    before_ns = (pl.min_horizontal(end, first) - pl.col("start_ns")).clip(0)
    after_ns = (end - pl.max_horizontal("start_ns", last)).clip(0)
    outside, total = calls.select((before_ns + after_ns).sum(), pl.col("duration_ns").sum()).row(0)
    if outside <= OUTSIDE_PART * total:
        return []
    source = "API calls before the first or after the last op, iteration or GPU activity"
    return [Fact("api_outside_ns", "API time outside wall time", int(outside), K.DURATION, source)]


def _time_facts(busy: pl.DataFrame, need: Need, *, sessions: int) -> tuple[Fact, ...]:
    """Return utilization, span, busy and idle time; unknown if a session with GPU work has no start times.

    Utilization and idle time are of the wall time, as DLProf's. Busy and idle time add up over GPUs and sessions, and
    utilization is the share of both together; spans of sessions do not add up: they can have run at once.
    """
    timed = busy["session"].n_unique()
    partly = 0 < timed < sessions
    span: Value = None
    if busy.is_empty() or partly:
        values: tuple[Value, ...] = (None, None, None)
    else:
        available, working = int(busy["wall_ns"].sum()), int(busy["busy_ns"].sum())
        values = (100 * working / available if available else None, working, available - working)
        span = int(busy["span_ns"][0]) if timed == 1 else None
    source = "start times and durations of the GPU activities"
    if busy.height > 1:
        source += f", over {busy.height} GPUs" if timed == 1 else ", over all sessions and GPUs"
    named = (
        ("busy_pct", "GPU utilization", K.PERCENT, values[0]),
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
            facts.append(Fact(name, label, None, kind, DIFFERS_BY_SESSION))
        else:
            facts.append(known_or_missing_fact(name, label, value, kind, source, need))
    return tuple(facts)


def _iteration_facts(profile: Profile, need: Need) -> tuple[Fact, ...]:
    """Return how many iterations there are and how long they take, for each session.

    If the CPU runs ahead of the GPU, also the CPU time of an iteration and the GPU work that it launches.
    """
    times, session_sources = iteration_times(profile), sources(profile)
    times = times.filter([session_sources.get(session) != WHOLE_RUN for session in times["session"]])
    if times.height > 1:
        return tuple(Fact(name, label, None, kind, DIFFERS_BY_SESSION) for name, _, label, kind in _ITERATION_FACTS)
    if times.is_empty():
        return _untimed_iteration_facts(profile, need)
    row = times.row(0, named=True)
    iteration_source = session_sources.get(row["session"], "recorded")
    note = _PERIOD if iteration_source == "recorded" else f"times of the iterations, {iteration_source} in the work"
    facts = [
        Fact(name, label, row[column], kind, note if row[column] is not None else "only one iteration")
        for name, column, label, kind in _ITERATION_FACTS
    ]
    if row["runs_ahead"]:
        cpu_fact = (
            Fact("iteration_cpu_ns", "CPU time (runs ahead)", row["cpu_avg_ns"], K.DURATION, "the recorded steps"),
            Fact("iteration_gpu_ns", "GPU work per iteration", row["gpu_avg_ns"], K.DURATION, "launched in the steps"),
        )
        index = next(index for index, fact in enumerate(facts) if fact.name == "iteration_avg_ns") + 1
        facts[index:index] = cpu_fact
    return (*facts, *_phase_facts(profile))


def _untimed_iteration_facts(profile: Profile, need: Need) -> tuple[Fact, ...]:
    """Return how many iterations there are without their times, if a profile of one session has any."""
    numbers = iterations(profile).drop_nulls("iteration")["iteration"]
    if any(source != WHOLE_RUN for source in sources(profile).values()):
        need = replace(need, name="times of iterations", record="")
    if numbers.is_empty() or profile["sessions"].height > 1 or WHOLE_RUN in sources(profile).values():
        return tuple(
            known_or_missing_fact(name, label, None, kind, "", need) for name, _, label, kind in _ITERATION_FACTS
        )
    ordered = numbers.sort()
    known: dict[str, Value] = {"iterations": ordered.len(), "first": ordered[0], "last": ordered[-1]}
    return tuple(
        Fact(
            name,
            label,
            known.get(column),
            kind,
            "recorded numbers" if column in known else "no times of iterations recorded",
        )
        for name, column, label, kind in _ITERATION_FACTS
    )


def _phase_facts(profile: Profile) -> list[Fact]:
    """Return the sums of the steps of a server by phase."""
    facts = []
    for row in phases(profile).iter_rows(named=True):
        steps = row["steps"]
        texts = [plural(steps, "step"), brief_duration(row["step_avg_ns"]) + (" each" if steps > 1 else "")]
        texts.append(f"{brief_percent(row['time_pct'])} of the time")
        if row["busy_pct"] is not None:
            texts.append(f"GPU busy {brief_percent(row['busy_pct'])}")
        if row["ns_per_token"] is not None:
            texts += [f"{count(row['query_tokens'])} tokens", f"{brief_duration(row['ns_per_token'])} per token"]
        label = f"{row['phase'].capitalize()} steps"
        facts.append(Fact(f"phase_{row['phase']}", label, ", ".join(texts), K.TEXT, row["phase_by"]))
    return facts


def _tensor_core_facts(use: TensorCoreUse, *, may_be_unknown: bool) -> list[Fact]:
    """Return tensor core efficiency and share, which have similar names in other tools, and the unknown part.

    Args:
        use: The tensor-core use of the kernels.
        may_be_unknown: Whether to list unknown figures: DLProf and TensorBoard show them for NVIDIA's GPUs only.
    """
    if not use.kernel_ns:
        return []
    recorded = (
        (
            "tc_efficiency_pct",
            "TC efficiency (DLProf)",
            use.efficiency_pct,
            "time of kernels that use tensor cores / kernel time of eligible ops",
            use.eligible_unknown_pct,
            "the kernel time of eligible ops",
            "no work that could use tensor cores",
        ),
        (
            "tc_share_pct",
            "TC share (TensorBoard)",
            use.share_pct,
            "time of kernels that use tensor cores / time of all kernels",
            use.unknown_pct,
            "the kernel time",
            "",
        ),
    )
    facts = []
    for name, label, value, formula, unknown_pct, basis, empty_reason in recorded:
        is_part_unknown = unknown_pct is not None and unknown_pct >= MIN_UNKNOWN_PCT
        unknown_part = f"{brief_percent(unknown_pct)} of {basis}" if is_part_unknown else ""
        if value is None and not may_be_unknown:
            continue
        if value is None:
            open_time = f"tensor-core use unknown for {unknown_part}" if unknown_part else ""
            facts.append(Fact(name, label, None, K.PERCENT, use.reason or open_time or empty_reason))
        else:
            exclusion = f"; without {unknown_part}, whose tensor-core use is unknown" if unknown_part else ""
            facts.append(Fact(name, label, value, K.PERCENT, formula + exclusion))
    if use.unknown_ns and not use.reason and (facts or may_be_unknown):
        source = "kernel time with unknown tensor-core use"
        facts.append(Fact("tc_unknown_pct", "TC unknown", use.unknown_pct, K.PERCENT, source))
    return facts


def _source(profile: Profile, frame: str, section: str) -> str:
    """Return a text about where the figures of a kind of work come from."""
    single = profile[frame].height > 0
    single_sessions = set(unique_values(column_view(profile[frame], "session")))
    sessions = profile["summary"].filter(pl.col("section") == section)["session"].unique().to_list()
    printed = any(session not in single_sessions for session in sessions)
    texts = ["the single records of the trace"] if single else []
    return " and ".join([*texts, "the summary in the input"] if printed else texts)


_SYSTEM: Final = (
    ("command", "Command"),
    ("pid", "Process"),
    ("format", "Format"),
    ("tool", "Profiler"),
    ("tool_version", "Profiler version"),
    ("framework", "Framework"),
    ("driver_version", "Driver"),
    ("cuda_version", "CUDA"),
    ("cudnn_version", "cuDNN"),
    ("host", "Host"),
)


def system(profile: Profile) -> tuple[Fact, ...]:
    """Return the system as recorded: each value once, those of several sessions joined by commas."""
    facts = []
    for column, label in _SYSTEM:
        values = profile["sessions"][column].drop_nulls().unique(maintain_order=True).cast(pl.String).to_list()
        if values:
            facts.append(Fact(column, label, ", ".join(values), ColumnKind.TEXT, "as recorded"))
    ranks = profile["sessions"].select(rank_words())["rank_words"].drop_nulls().unique(maintain_order=True).to_list()
    if ranks:
        rank_list = ", ".join(rank_text.removeprefix("rank ") for rank_text in ranks)
        facts.append(Fact("rank", "Rank", rank_list, ColumnKind.TEXT, "as recorded"))
    sessions = profile["sessions"].height
    if sessions > 1:
        facts.insert(0, Fact("sessions", "Sessions", sessions, ColumnKind.COUNT, "profiled processes in the input"))
    step = profile["sessions"]["start_resolution_ns"].max()
    if isinstance(step, int) and step > 1:
        source = "the recorded digits"
        facts.append(
            Fact("start_resolution_ns", "Start time resolution", step, ColumnKind.DURATION, source, is_step=True)
        )
    return tuple(facts)
