"""The figures that sum up both sides of a comparison; whether the candidate is slower, by how much and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.api_calls import api
from tui.analysis.capabilities import missing_data_text, recording_advice
from tui.analysis.devices import session_vendor
from tui.analysis.expert.finding_text import duration
from tui.analysis.expert.finding_text import percent as sentence_percent
from tui.analysis.expert.findings import LARGE_PCT, OURS, findings
from tui.analysis.expert.findings_table import first_findings
from tui.analysis.expert.rule import Cause
from tui.analysis.gpu_time.breakdown import MIN_UNKNOWN_PCT
from tui.analysis.gpu_time.idle_gaps import busy_time
from tui.analysis.iterations.iteration_table import iterations
from tui.analysis.kernels import kernels
from tui.analysis.layers import layer_totals
from tui.analysis.needs import API_WORK, COPIES, GPU_WORK, ITERATIONS, LAYERS, METRICS, START_TIMES, records_copies
from tui.analysis.sessions import kernel_only_sessions
from tui.analysis.tensor_core_efficiency import tensor_core_time, tensor_core_use
from tui.fmt import NULL, brief_change, column_unit, count, format_value, percent, signed
from tui.model.columns import COLUMNS, Column, ColumnKind
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tui.analysis.compare.sides import Side, Sides
    from tui.analysis.needs import Need
    from tui.model.profile import Profile

KINDS: Final = {"kernel": "kernels", "memcpy": "copies", "memset": "memsets"}
"""Kinds of GPU work whose time is a figure, with their plural."""


def absence_reason(side: Side, key_columns: tuple[str, ...], section: str) -> pl.Expr:
    """Return why it is unknown whether a side without rows of a name had none of it; null if it had none.

    Args:
        side: A side that has rows of other names.
        key_columns: The columns that identify a row, which may include the kind of GPU work.
        section: gpu or api.
    """
    if _is_cut(side):
        return pl.lit("may be in the part that was not read")
    if lost_rows(side.profile, section):
        return pl.lit("may be in rows missing from the printed table")
    if "kind" not in key_columns:
        return pl.lit(None, pl.String)
    return pl.when(pl.col("kind").is_in(kinds_maybe_unrecorded(side))).then(pl.lit("may not have been recorded"))


def kinds_maybe_unrecorded(side: Side) -> tuple[str, ...]:
    """Return the kinds of GPU work that are absent and may not have been recorded, if there is any GPU work."""
    kinds = kernels(side.profile)["kind"].cast(pl.String).unique().to_list()
    if not kinds or (records_copies(side.profile) and not _is_cut(side) and not lost_rows(side.profile, "gpu")):
        return ()
    return tuple(kind for kind in KINDS if kind not in kinds)


def lost_rows(profile: Profile, section: str) -> bool:
    """Return whether the printed percentages of a table add up to less than 100, so that rows are missing.

    `tui.analysis.kernels.summary_rows` then uses the printed shares.
    """
    frame = "activities" if section == "gpu" else "api_calls"
    single = profile[frame]["session"].unique()
    printed = profile["summary"].filter(pl.col("section") == section, ~pl.col("session").is_in(single.implode()))
    sums = printed.group_by("session").agg(pl.col("time_pct").sum())
    return not sums.filter(pl.col("time_pct").is_between(1, 99, closed="left")).is_empty()


def _is_cut(side: Side) -> bool:
    """Return whether a part of the run is missing; a selection of iterations is not."""
    return bool(side.profile.partial) and not side.iterations


@dataclass(frozen=True, slots=True)
class SideFigure:
    """A figure of one side."""

    value: float | None
    unknown_reason: str = ""
    """Why it is unknown, and what records it; of a known one what it omits, if anything."""


def side_figures(side: Side) -> dict[str, SideFigure]:
    """Return the figures of one side by the names of `tui.analysis.compare.headline.FIGURES`.

    Times are nanoseconds, shares percent; sums are per iteration where the side is.
    """
    tensor_cores = {"tc_share_pct": _tensor_cores(side.profile)}
    return _times(side) | _work(side) | tensor_cores | _calls(side) | {"layer_ns": _layers(side)}


def _times(side: Side) -> dict[str, SideFigure]:
    """Return the duration and GPU busy share of the iterations, else of the whole run."""
    profile = side.profile
    if not side.iterations:
        return _run_times(profile)
    counted = iterations(profile).drop_nulls("iteration")
    timed = counted.drop_nulls("duration_ns")
    durations = timed["duration_ns"]
    unknown_reason = ""
    if durations.is_empty():
        unknown_reason = f"no iteration has an end: {recording_advice(profile, ITERATIONS)}"
    elif timed.height < counted.height:
        unknown_reason = f"of {count(timed.height)} of {count(counted.height)} iterations: the others have no end"
    figures = {
        "avg_iteration_ns": durations.mean(),
        "median_iteration_ns": durations.median(),
        "p95_iteration_ns": durations.quantile(0.95, "linear"),
    }
    times = {name: SideFigure(_number(value), unknown_reason) for name, value in figures.items()}
    busy_pct = _share(timed["busy_ns"], durations)
    no_work = f"work of an iteration has no times: {recording_advice(profile, START_TIMES)}"
    reason = no_work if busy_pct is None and durations.len() else unknown_reason
    idle = None if busy_pct is None else (durations - timed["busy_ns"]).mean()
    return times | {"busy_pct": SideFigure(busy_pct, reason), "idle_ns": SideFigure(_number(idle), reason)}


def _run_times(profile: Profile) -> dict[str, SideFigure]:
    busy = busy_time(profile)
    reason = missing_data_text(profile, START_TIMES)
    sessions = busy["session"].n_unique()
    span = _number(busy["span_ns"].max()) if sessions == 1 else None
    if sessions > 1:
        span_reason = f"the spans of {sessions} sessions do not add up: compare one session with another"
    else:
        span_reason = reason
    busy_pct = _share(busy["busy_ns"], busy["span_ns"])
    idle = None if span is None or busy_pct is None else span * (1 - busy_pct / 100)
    return {
        "span_ns": SideFigure(span, span_reason if span is None else ""),
        "busy_pct": SideFigure(busy_pct, reason if busy_pct is None else ""),
        "idle_ns": SideFigure(idle, span_reason if idle is None else ""),
    }


def _work(side: Side) -> dict[str, SideFigure]:
    """Return time and launches of GPU work, in total and by kind."""
    work = kernels(side.profile)
    if work.is_empty():
        unknown = SideFigure(None, missing_data_text(side.profile, GPU_WORK))
        return dict.fromkeys(("gpu_ns", "launches", *(f"{kind}_ns" for kind in KINDS)), unknown)
    rows_by_kind = {kind: work.filter(pl.col("kind") == kind) for kind in KINDS}
    sums = {f"{kind}_ns": _kind_sum(side, kind, rows, "total_ns") for kind, rows in rows_by_kind.items()}
    maybe_unrecorded = kinds_maybe_unrecorded(side)
    gpu = _sum(side, work, "total_ns", GPU_WORK, "gpu")
    if gpu.value is not None:
        without_kinds = (
            f"without {' and '.join(KINDS[kind] for kind in maybe_unrecorded)}, which may not have been recorded"
        )
        replayed = "of kernels that Nsight Compute replayed, not those of a run"
        is_replayed = bool(kernel_only_sessions(side.profile))
        gpu = SideFigure(
            gpu.value,
            "; ".join(
                filter(None, (gpu.unknown_reason, without_kinds * bool(maybe_unrecorded), replayed * is_replayed))
            ),
        )
    return {**sums, "gpu_ns": gpu, "launches": _kind_sum(side, "kernel", rows_by_kind["kernel"], "calls")}


def _kind_sum(side: Side, kind: str, rows: pl.DataFrame, column: str) -> SideFigure:
    """Return a sum over the work of a kind: 0 if there is other work only and this kind would have been recorded."""
    if rows.height:
        return _sum(side, rows, column, GPU_WORK, "gpu")
    if kind not in kinds_maybe_unrecorded(side):
        return SideFigure(0.0)
    advice = recording_advice(side.profile, GPU_WORK if kind == "kernel" else COPIES)
    return SideFigure(None, f"no {KINDS[kind]}, which may not have been recorded: {advice}")


def _calls(side: Side) -> dict[str, SideFigure]:
    """Return time and number of API calls."""
    rows = api(side.profile)
    if rows.is_empty():
        return dict.fromkeys(("api_ns", "api_calls"), SideFigure(None, missing_data_text(side.profile, API_WORK)))
    columns = {"api_ns": "total_ns", "api_calls": "calls"}
    return {name: _sum(side, rows, column, API_WORK, "api") for name, column in columns.items()}


def _layers(side: Side) -> SideFigure:
    """Return the measured time of all layers; the tools that measure layers print averages per iteration."""
    measured = layer_totals(side.profile).drop_nulls("measured_ns")
    if measured.is_empty() or side.iterations:
        return SideFigure(None, missing_data_text(side.profile, LAYERS))
    executors = measured["executor"].n_unique()
    if executors > 1:
        return SideFigure(None, f"times of {executors} executors of the layers do not add up")
    return SideFigure(float(measured["measured_ns"].sum()))


def _sum(side: Side, rows: pl.DataFrame, column: str, need: Need, section: str) -> SideFigure:
    """Return a sum over sessions, each divided by its iterations; unknown if a value is unknown."""
    is_time = column == "total_ns"
    if unknown := rows[column].null_count():
        label = "time" if is_time else "number of calls"
        missing = f"no {label} of {count(unknown)} of {count(rows.height)} names"
        return SideFigure(None, f"{missing}: {recording_advice(side.profile, need)}")
    values = rows[column]
    if side.iterations:
        divided = rows.join(side.divisors, on="session", how="left")
        values = divided[column] / divided["per"]
        if values.null_count():
            return SideFigure(None, f"no iterations in some sessions: {recording_advice(side.profile, ITERATIONS)}")
    untimed = int((rows["calls"] - rows["timed_calls"].fill_null(rows["calls"])).sum()) if is_time else 0
    lost = lost_rows(side.profile, section)
    incomplete = (
        f"calls without time: {count(untimed)}" * bool(untimed),
        "rows of the printed table are missing" * lost,
    )
    lower_bound = "; ".join(filter(None, incomplete))
    return SideFigure(float(values.sum()), f"at least ({lower_bound})" if lower_bound else "")


def _tensor_cores(profile: Profile) -> SideFigure:
    """Return the share of kernel time on tensor cores, of the kernel time whose tensor-core use is known."""
    use = tensor_core_use(tensor_core_time(profile), vendor=session_vendor(profile).name)
    open_time = f"{percent(use.unknown_pct)} of the kernel time"
    if use.share_pct is not None:
        is_open = (use.unknown_pct or 0) >= MIN_UNKNOWN_PCT
        return SideFigure(use.share_pct, f"without {open_time} of unknown tensor-core use" if is_open else "")
    if not use.kernel_ns:
        return SideFigure(None, _no_kernel_time(profile))
    if use.untimed:
        return SideFigure(None, f"{use.reason}: {recording_advice(profile, START_TIMES)}")
    return SideFigure(
        None, use.reason or f"tensor-core use unknown for {open_time}: {recording_advice(profile, METRICS)}"
    )


def _no_kernel_time(profile: Profile) -> str:
    if kernels(profile).is_empty():
        return missing_data_text(profile, GPU_WORK)
    return f"no kernel time: {recording_advice(profile, GPU_WORK)}"


def _share(part: pl.Series, whole: pl.Series) -> float | None:
    total = float(whole.sum())
    return 100 * float(part.sum()) / total if total and part.null_count() == 0 else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


K = ColumnKind
HEADLINE: Final = TableSpec(
    "headline",
    "Summary",
    (
        Column("figure", "Metric", K.TEXT, "A metric of the whole profile.", 1),
        Column("baseline", "Baseline", K.TEXT, "Of the baseline, the first profile.", 1, ends_right=True),
        Column("candidate", "Candidate", K.TEXT, "Of the candidate, the second profile.", 1, ends_right=True),
        Column("diff", "Diff", K.TEXT, "Candidate minus baseline.", 1, ends_right=True),
        Column(
            "diff_pct",
            "Diff%",
            K.PERCENT,
            "The difference as a share of the baseline.",
            1,
            is_signed=True,
            is_growth=True,
        ),
        Column(
            "unknown_reason",
            COLUMNS["unknown_reason"].title,
            K.TEXT,
            "Why a value is unknown and how to record it; for known values, what they exclude.",
            3,
        ),
    ),
    key=("figure",),
    pinned="figure",
    bars=("diff_pct",),
)
FIGURES: Final = (
    ("avg_iteration_ns", "Average iteration", K.DURATION),
    ("median_iteration_ns", "Median iteration", K.DURATION),
    ("p95_iteration_ns", "95th percentile", K.DURATION),
    ("span_ns", "Span", K.DURATION),
    ("busy_pct", "GPU busy", K.PERCENT),
    ("idle_ns", "GPU idle", K.DURATION),
    ("gpu_ns", "GPU time", K.DURATION),
    ("kernel_ns", "Kernel time", K.DURATION),
    ("memcpy_ns", "Copy time", K.DURATION),
    ("memset_ns", "Memset time", K.DURATION),
    ("launches", "Kernel launches", K.COUNT),
    ("tc_share_pct", "TC share (TensorBoard)", K.PERCENT),
    ("api_ns", "API time", K.DURATION),
    ("api_calls", "API calls", K.COUNT),
    ("layer_ns", "Layer time", K.DURATION),
)
"""The name, label and kind of every figure, in the order in which they are shown."""
_SIDE_NAMES: Final = ("baseline", "candidate")


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of both sides."""

    name: str
    label: str
    kind: ColumnKind
    baseline: float | None
    candidate: float | None
    reasons: tuple[str, str] = ("", "")
    """For each side: why it is unknown and what records it, or what a known figure omits; empty if nothing."""

    @property
    def sentence_label(self) -> str:
        """The label within a sentence."""
        return self.label if self.label[:2].isupper() else f"{self.label[:1].lower()}{self.label[1:]}"

    @property
    def unknown_reason(self) -> str | None:
        """Why it is unknown on either side, as in `tui.analysis.compare.changes.changes`."""
        reasons = [
            f"{side_name}: {reason}" for side_name, reason in zip(_SIDE_NAMES, self.reasons, strict=True) if reason
        ]
        return "; ".join(reasons) or None

    @property
    def delta(self) -> float | None:
        """Candidate minus baseline."""
        return None if self.baseline is None or self.candidate is None else self.candidate - self.baseline

    @property
    def delta_pct(self) -> float | None:
        """The difference as a share of the baseline; None for shares, whose difference is in points."""
        if self.delta is None or not self.baseline or self.kind is K.PERCENT:
            return None
        return 100 * self.delta / self.baseline if self.candidate else -100.0

    @property
    def texts(self) -> tuple[str, str, str]:
        """Baseline, candidate and their difference as text; times all in one unit."""
        delta = NULL if self.delta is None else signed(self._write(self.delta), self.delta)
        points = " points" if self.kind is K.PERCENT and self.delta is not None else ""
        return self._write(self.baseline), self._write(self.candidate), delta.replace("%", points) if points else delta

    def _write(self, value: float | None) -> str:
        known = [abs(number) for number in (self.baseline, self.candidate) if number is not None]
        unit = column_unit(self.kind, max(known, default=None)) if self.kind is K.DURATION else None
        return format_value(self.kind, value, unit=unit)


def headline_rows(sides: Sides) -> pl.DataFrame:
    """Return `headline` as rows of `HEADLINE`, without the column ``unknown_reason`` if it would be empty."""
    texts = dict.fromkeys(("figure", "baseline", "candidate", "diff"), pl.String)
    rows = pl.DataFrame(
        [(figure.label, *figure.texts, figure.delta_pct, figure.unknown_reason) for figure in headline(sides)],
        schema={**texts, "diff_pct": pl.Float64, "unknown_reason": pl.String},
        orient="row",
    )
    return rows if rows["unknown_reason"].count() else rows.drop("unknown_reason")


def headline(sides: Sides) -> tuple[Figure, ...]:
    """Return the figures that summarize two profiles; `Sides.basis` says what sums are divided by.

    Times of iterations are over the iterations of all sessions; spans of sessions do not add up, and are reported where
    each side has one. GPU busy is a share: of the time of the iterations, else of the spans. Kinds of GPU work and
    layers that neither side has are omitted, and all else where layers are all that both sides have; there are no
    figures if nothing is known.
    """
    baseline_figures, candidate_figures = side_figures(sides.a), side_figures(sides.b)
    optional = (*(f"{kind}_ns" for kind in KINDS), "layer_ns")
    absent = {name for name in optional if not baseline_figures[name].value and not candidate_figures[name].value}
    figures = tuple(
        Figure(name, label, kind, baseline.value, candidate.value, (baseline.unknown_reason, candidate.unknown_reason))
        for name, label, kind in FIGURES
        if name not in absent
        and (baseline := baseline_figures.get(name)) is not None
        and (candidate := candidate_figures.get(name)) is not None
    )
    known = tuple(figure for figure in figures if figure.baseline is not None or figure.candidate is not None)
    return known if all(figure.name == "layer_ns" for figure in known) else figures


def unknown_sentences(figures: Iterable[Figure]) -> tuple[str, ...]:
    """Return a sentence for each reason why figures are unknown or incomplete.

    >>> figure = Figure("span_ns", "Span", ColumnKind.DURATION, None, 5.0, ("no start times", ""))
    >>> unknown_sentences([figure])
    ('Span of the baseline is unknown: no start times.',)
    """
    by_reason: dict[tuple[str, bool], tuple[list[Figure], list[Figure]]] = {}
    for figure in figures:
        for index, (value, reason) in enumerate(zip((figure.baseline, figure.candidate), figure.reasons, strict=True)):
            if reason:
                by_reason.setdefault((reason, value is None), ([], []))[index].append(figure)
    sentences = []
    for (reason, is_unknown), (baseline, candidate) in by_reason.items():
        groups = (
            [("both", baseline)]
            if baseline == candidate
            else [("the baseline", baseline), ("the candidate", candidate)]
        )
        for side_label, members in groups:
            if members:
                verb = "" if not is_unknown else " are unknown" if len(members) > 1 else " is unknown"
                sentences.append(f"{_join_with_and(members)} of {side_label}{verb}: {reason}.")
    return tuple(sentences)


def _join_with_and(figures: list[Figure]) -> str:
    *first, last = [figures[0].label, *(figure.sentence_label for figure in figures[1:])]
    return f"{', '.join(first)} and {last}" if first else last


ITERATION_FIGURE: Final = "median_iteration_ns"
VERDICT_FIGURES: Final = (ITERATION_FIGURE, "span_ns", "gpu_ns", "kernel_ns", "layer_ns")
"""Figures that decide whether a profile is slower, the best first."""
MIN_SPREAD: Final = 4
"""The minimum number of iterations for quartiles."""
DEFAULT_PCT: Final = 5.0
"""The largest slowdown of a candidate that passes by default."""
MIN_RELEVANT_PCT: Final = 1.0
"""Other times are named only if they grew by at least this share of the judged one."""
UNCHANGED_PCT: Final = 1.0
"""Smaller differences count as no change."""
_MIN_BUSY_POINTS: Final = 3.0
"""Smaller changes of the busy share are not mentioned."""


class Outcome(StrEnum):
    """The outcome of a comparison."""

    FAIL = "FAIL"
    """The candidate is slower by more than the limit."""
    PASS = "PASS"
    """It is faster, or slower by no more than the limit."""
    NO_CHANGE = "NO CHANGE"
    """The difference is less than `UNCHANGED_PCT`."""


@dataclass(frozen=True, slots=True)
class Judgment:
    """Whether the second profile is slower, by one figure."""

    figure: Figure
    """The first of `VERDICT_FIGURES` that both sides have."""
    limit_pct: float
    """The candidate is slower if the figure grew by more than this share."""
    others: tuple[Figure, ...]
    """Times that are not judged, although they grew by a larger share."""

    @property
    def outcome(self) -> Outcome:
        """The outcome."""
        if self.fails:
            return Outcome.FAIL
        return Outcome.NO_CHANGE if abs(self.figure.delta_pct or 0) < UNCHANGED_PCT else Outcome.PASS

    @property
    def fails(self) -> bool:
        """Whether the candidate is slower."""
        return (self.figure.delta_pct or 0) > self.limit_pct


def judge(figures: Sequence[Figure], limit_pct: float) -> Judgment | None:
    """Judge whether the second profile took longer by more than a share of the first.

    Args:
        figures: From `tui.analysis.compare.headline.headline`.
        limit_pct: The share, in percent.

    Returns:
        None if the sides have no such figure in common.
    """
    by_name = {figure.name: figure for figure in figures}
    known = [by_name[name] for name in VERDICT_FIGURES if name in by_name and by_name[name].delta_pct is not None]
    if not known:
        return None
    # The average of a single iteration is its median.
    judged_values = (known[0].baseline, known[0].candidate)
    others = [
        figure
        for figure in figures
        if figure.kind is ColumnKind.DURATION and (figure.baseline, figure.candidate) != judged_values
    ]
    min_delta_ns = abs(known[0].baseline or 0) * MIN_RELEVANT_PCT / 100
    longer = tuple(
        other for other in others if (other.delta_pct or 0) > limit_pct and (other.delta or 0) >= min_delta_ns
    )
    return Judgment(known[0], limit_pct, longer)


@dataclass(frozen=True, slots=True)
class IterationSpread:
    """The spread of the iterations of a side."""

    iterations: int
    """How many have a duration."""
    low_ns: float | None
    """The 25th percentile of their durations; None of fewer than `MIN_SPREAD`."""
    high_ns: float | None
    """The 75th."""

    def overlaps(self, other: IterationSpread) -> bool:
        """Return whether the ranges of both have a duration in common."""
        if self.low_ns is None or self.high_ns is None or other.low_ns is None or other.high_ns is None:
            return False
        return self.low_ns <= other.high_ns and other.low_ns <= self.high_ns


def iteration_spread(side: Side) -> IterationSpread:
    """Return the quartiles of the iterations of a side, interpolated."""
    durations = iterations(side.profile).drop_nulls(["iteration", "duration_ns"])["duration_ns"]
    if durations.len() < MIN_SPREAD:
        return IterationSpread(durations.len(), None, None)
    return IterationSpread(durations.len(), durations.quantile(0.25, "linear"), durations.quantile(0.75, "linear"))


def verdict_sentence(sides: Sides, figures: Sequence[Figure], *, with_limit: bool = True) -> str:
    """Return what changed: `verdict_sentences` as one text; empty if no time is known on both sides."""
    return " ".join(verdict_sentences(sides, figures, with_limit=with_limit))


def verdict_sentences(sides: Sides, figures: Sequence[Figure], *, with_limit: bool = True) -> tuple[str, ...]:
    """Return how much slower or faster it is, and, if that changed, in which work, and what limits the candidate now.

    Such as ``SLOWER +23% (median iteration, 33.2 ms to 41.0 ms).`` and ``GPU work -50%, GPU busy 95 to 37% (idle
    1.62 ms to 26.4 ms): now launch-bound.`` None if no time is known on both sides.

    Args:
        sides: What is compared.
        figures: From `tui.analysis.compare.headline.headline`.
        with_limit: Whether to say what limits the candidate now, for which the findings of both sides are computed.
    """
    judgment = judge(figures, DEFAULT_PCT)
    if judgment is None or (sides.partial_sentence and not sides.per_iteration):
        return ()
    figure = judgment.figure
    change = figure.delta_pct or 0.0
    baseline_text, candidate_text = duration(figure.baseline or 0), duration(figure.candidate or 0)
    if abs(change) < UNCHANGED_PCT:
        verdict, share = "NO CHANGE", _signed_percent(change) if baseline_text != candidate_text else ""
    else:
        verdict, share = "SLOWER" if change > 0 else "FASTER", _signed_percent(change)
    times = (
        brief_change(figure.baseline or 0, figure.candidate or 0)
        if baseline_text != candidate_text
        else f"{candidate_text} on both sides"
    )
    sentence = f"{' '.join(filter(None, (verdict, share)))} ({figure.sentence_label}, {times})."
    by_name = {item.name: item for item in figures}
    gpu_work, busy = by_name.get("gpu_ns"), by_name.get("busy_pct")
    changes = []
    if gpu_work is not None and gpu_work is not figure and abs(gpu_work.delta_pct or 0) >= UNCHANGED_PCT:
        changes.append(f"GPU work {_signed_percent(gpu_work.delta_pct or 0)}")
    busy_pcts = (
        None if busy is None or busy.baseline is None or busy.candidate is None else (busy.baseline, busy.candidate)
    )
    if busy_pcts is not None and abs(busy_pcts[1] - busy_pcts[0]) >= _MIN_BUSY_POINTS:
        idle = by_name["idle_ns"]
        times = ""
        if idle.baseline is not None and idle.candidate is not None:
            # One long iteration makes the average idle time longer than the median iteration.
            is_longer = idle.baseline > (figure.baseline or 0) or idle.candidate > (figure.candidate or 0)
            mean = " on average" if is_longer else ""
            times = f" (idle {brief_change(idle.baseline, idle.candidate)}{mean})"
        changes.append(
            f"GPU busy {sentence_percent(busy_pcts[0]).removesuffix('%')} to {sentence_percent(busy_pcts[1])}{times}"
        )
    if not changes:
        return (sentence,)
    limit_clause = _limit_clause(sides) if with_limit and verdict != "NO CHANGE" else ""
    return sentence, f"{', '.join(changes)}{limit_clause}."


def busy_and_idle_sentence(figures: Iterable[Figure]) -> str:
    """Return how much of a longer or shorter iteration, or run, is GPU work and how much is idle time.

    Such as ``Average iteration +9.08 ms: GPU busy -15.7 ms, GPU idle +24.8 ms.`` Empty where either is unknown.
    """
    by_name = {figure.name: figure for figure in figures}
    total = by_name.get("avg_iteration_ns") or by_name.get("span_ns")
    idle = by_name.get("idle_ns")
    if total is None or total.delta is None or idle is None or idle.delta is None:
        return ""
    # Means are not exact, and no profiler records less than a nanosecond.
    deltas = {
        total.label: round(total.delta),
        "GPU busy": round(total.delta - idle.delta),
        idle.label: round(idle.delta),
    }
    texts = [f"{label} {signed(duration(delta), delta)}" for label, delta in deltas.items()]
    return f"{texts[0]}: {', '.join(texts[1:])}."


def _limit_clause(sides: Sides) -> str:
    """Return the limit of the candidate that the baseline does not have, as the end of a sentence; else empty."""
    baseline, candidate = (_first_cause(side) for side in (sides.a, sides.b))
    if not candidate or candidate == baseline:
        return ""
    return f": now {candidate}" if candidate == Cause.LAUNCH_BOUND else f"; largest cost now: {candidate}"


def _first_cause(side: Side) -> str:
    """Return the most expensive cause that the rules find on a side, if it costs much of the time."""
    first = first_findings(findings(side.profile)).head(1)
    if first.is_empty() or first["tool"][0] != OURS or (first["cost_pct"][0] or 0) < LARGE_PCT:
        return ""
    return str(first["cause"][0])


def _signed_percent(change: float) -> str:
    """Return a change in percent with its sign; without a sign if it rounds to zero."""
    text = sentence_percent(abs(change))
    return text if text.startswith("<") else f"{'+' if change > 0 else '-' if change < 0 else ''}{text}"
