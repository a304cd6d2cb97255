"""The findings of all rules for a profile as one frame, with those of the recording tool's own advisor."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.expert import limits as thresholds
from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert import rules
from tui.analysis.expert.case import Case
from tui.analysis.expert.rule import (
    EVIDENCE_ROWS,
    CannotTell,
    Clean,
    Found,
    Severity,
    State,
    Verdict,
    cause_of,
    declared_rules,
)
from tui.analysis.grouping import partition_by_session
from tui.analysis.memo import once_per_profile
from tui.cache.spill import low_memory
from tui.fmt import brief_duration
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tui.analysis.expert.limits import Limits
    from tui.analysis.expert.rule import Rule
    from tui.model.profile import Profile


for _module in iter_modules(rules.__path__):
    import_module(f"{rules.__name__}.{_module.name}")

_FAMILIES: Final = "QUTCALPI"
"""The first letters of ids in that order: rules that build on others stand after them."""

RULES: Final = tuple(
    sorted(declared_rules().values(), key=lambda rule: (_FAMILIES.index(rule.id[0]), int(rule.id[1:])))
)
"""Every rule."""


OURS: Final = "proftui"
"""The ``tool`` of findings of our own."""

FINDINGS: Final = pl.Schema(
    {
        "rule": pl.String,
        "name": pl.String,
        "title": pl.String,
        "family": pl.String,
        "state": pl.String,
        "severity": pl.String,
        "session": pl.UInt32,
        "tool": pl.String,
        "problem": pl.String,
        "recommendation": pl.String,
        "reason": pl.String,
        "cause": pl.String,
        "is_lead": pl.Boolean,
        "cost_ns": pl.Int64,
        "cost_pct": pl.Float64,
        "cost_basis": pl.String,
        "numbers": pl.String,
        "thresholds": pl.String,
        "evidence": pl.String,
        "view": pl.String,
        "part": pl.String,
        "filter": pl.String,
        "link": pl.String,
        "line": pl.UInt32,
    }
)
"""The columns of `findings`."""

_FRAMES: Final = (
    "sessions",
    "devices",
    "activities",
    "api_calls",
    "ops",
    "ranges",
    "memory_events",
    "metrics",
    "summary",
    "tool_figures",
    "tool_findings",
    "issues",
)
LARGE_PCT: Final = 10.0
"""What costs this share of the wall time or more is at least a warning."""
SMALL_PCT: Final = 1.0
"""What costs less than this share of the wall time is no warning."""
NEGLIGIBLE_PCT: Final = 0.05
"""What costs less than this share of the wall time, and of GPU time ten times it, is not worth a line."""
_UNKNOWN_PCT: Final = {Severity.ERROR.value: 101.0, Severity.WARNING.value: 1.0}
"""Where findings of unknown cost stand among those whose share of the wall time is known, by severity."""
_SUMMARIES: Final = ("U3", "U8", "U10", "L8", "L9", "I10")
"""Rules that sum up what others of the same cause explain: they never stand first."""
MANY: Final = 200_000
"""Rows of which it is worth the while to have two threads."""

_RANK: Final = {severity: rank for rank, severity in enumerate(Severity)}
_STATES: Final = {state: rank for rank, state in enumerate(State)}


def findings(profile: Profile, *, gpu: str | None = None) -> pl.DataFrame:
    """The answer of every rule for every session, and the findings of the recording tools.

    One row per rule and session; of rules that compare sessions one row in all (session null). Found ones come first,
    then rules that do not apply, then clean ones. Findings of one cause stand together: causes are in order of what
    their most expensive finding costs of the wall time, after errors, which put the figures in doubt.

    Columns: rule (``U1``), name, title (what the rule finds), family, state (`State`), severity (of what was found),
    session, tool (`OURS`, or the tool whose own advisor found it: its rows have no rule), problem and recommendation
    (of what was found), reason (why it does not apply, or the figures that show that it is clean), cause (why the time
    is lost: `tui.analysis.expert.rule`), is_lead (whether it is the first of its cause), cost_ns (what it costs at
    most), cost_pct (its share of the wall time; of profiles without times, of GPU time), cost_basis (how that was
    estimated, or why not), numbers (JSON: figures by name, base units), thresholds (JSON: for each name, value,
    meaning, source), evidence (JSON: up to ten rows), view, part (of views that have several; null: the first) and
    filter (where the rows behind it are shown), link (where to read more), line (of the input, that of the first row of
    the evidence).

    Args:
        profile: What was read.
        gpu: The name of the GPU, as the user gives it.

    Raises:
        ProftuiError: The user's thresholds cannot be read, or nothing is known of ``gpu``.
    """
    return _memoized_findings(gpu, thresholds.stamp())(profile)


@lru_cache(maxsize=4)
def _memoized_findings(gpu: str | None, stamp: tuple[str, int] | None) -> Callable[[Profile], pl.DataFrame]:
    """`findings` for a GPU and a state of the user's file, which remembers its results."""

    @once_per_profile(*_FRAMES)
    def of_profile(profile: Profile) -> pl.DataFrame:
        limits = thresholds.limits(stamp)
        rows = [
            _row(rule, case, verdict, limits)
            for case, rules in _cases(profile, limits, gpu)
            for rule, verdict in zip(rules, _verdicts(rules, case), strict=True)
        ]
        ours = pl.DataFrame(rows, schema=FINDINGS, orient="row")
        return _in_order(pl.concat([ours, _of_tools(profile)]))

    return of_profile


def _cases(profile: Profile, limits: Limits, gpu: str | None) -> Iterator[tuple[Case, list[Rule]]]:
    """Every session with the rules that look at it, and all of them with those that compare."""
    partition_by_session = [rule for rule in RULES if not rule.across]
    for session, part in sessions_of(profile):
        yield Case(part, session, limits, gpu=gpu, whole=profile), partition_by_session
    yield Case(profile, None, limits, gpu=gpu), [rule for rule in RULES if rule.across]


def sessions_of(profile: Profile) -> Iterator[tuple[int, Profile]]:
    """Each session by its number, with its own rows; issues that belong to no session are in none."""
    numbers = profile["sessions"]["session"].to_list()
    if len(numbers) == 1:
        yield numbers[0], profile
        return
    parts = {name: partition_by_session(data) for name, data in profile.frames.items()}
    for number in numbers:
        frames = {name: parts[name].get(number, data.clear()) for name, data in profile.frames.items()}
        steps = None if profile.steps is None else profile.steps.filter(pl.col("session") == number)
        yield number, replace(profile, frames=frames, steps=steps)


def _verdicts(rules: Sequence[Rule], case: Case) -> list[Verdict]:
    """The answers of some rules, in order; with very many launches, of two rules at a time."""
    if case.profile["activities"].height + case.profile["api_calls"].height < MANY:
        return [_judged(rule, case) for rule in rules]
    with ThreadPoolExecutor(1 if low_memory() else 2, "rules") as pool:
        # A rule that builds on others stands after them: those it waits for are judged, or being judged.
        for rule in rules:
            case.judging[rule.id] = pool.submit(_judged, rule, case)
        return [case.judging[rule.id].result() for rule in rules]


def _judged(rule: Rule, case: Case) -> Verdict:
    """The verdict of a rule; a rule that fails costs its own answer alone."""
    try:
        verdict = rule.judge(case)
    except (ProftuiError, MemoryError):
        raise
    except Exception as error:
        verdict = CannotTell(f"the rule failed on this profile ({type(error).__name__}): please report it")
    case.verdicts[rule.id] = verdict
    return verdict


def _row(rule: Rule, case: Case, verdict: Verdict, limits: Limits) -> tuple[Any, ...]:
    values: dict[str, Any] = {
        "rule": rule.id,
        "name": rule.name,
        "title": rule.title,
        "family": rule.family.value,
        "session": case.session,
        "tool": OURS,
        "link": rule.link or None,
        "thresholds": _json([{"name": t.name, "value": t.value, "says": t.says, "source": t.source}
                             for t in limits.of(rule.id)]),
    }  # fmt: skip
    note = case.iterations_are if needs.iterations in rule.needs else ""
    verdict = _unless_negligible(rule, verdict, case)
    match verdict:
        case Found():
            cost_pct = _cost_pct(verdict, case)
            severity = _severity(verdict.severity or rule.severity, cost_pct if case.wall_ns else None)
            evidence = verdict.evidence.head(EVIDENCE_ROWS) if verdict.evidence is not None else None
            values |= {
                "state": State.FOUND.value,
                "severity": limits.severity(rule.id, severity).value,
                "problem": f"{verdict.problem} Iterations are {note}." if note else verdict.problem,
                "recommendation": verdict.advice,
                "cause": verdict.cause or cause_of(rule.id, rule.name),
                "cost_ns": verdict.cost_ns,
                "cost_pct": cost_pct,
                "cost_basis": verdict.basis or None,
                "numbers": _json(dict(verdict.numbers)),
                "evidence": _json(evidence.to_dicts()) if evidence is not None and evidence.height else None,
                "view": verdict.view or None,
                "part": verdict.part or None,
                "filter": _of_session(verdict, case),
                "line": evidence["line"].first() if evidence is not None and "line" in evidence.columns else None,
            }
        case CannotTell():
            values |= {"state": State.NOT_APPLICABLE.value, "reason": verdict.reason}
        case Clean():
            values |= {
                "state": State.CLEAN.value,
                "reason": f"{verdict.why}; iterations are {note}" if note else verdict.why,
                "numbers": _json(dict(verdict.numbers)) if verdict.numbers else None,
            }
    return tuple(values.get(column) for column in FINDINGS)


def _unless_negligible(rule: Rule, verdict: Verdict, case: Case) -> Verdict:
    """A verdict, but clean where what was found costs next to nothing of the wall time and of GPU time."""
    if not isinstance(verdict, Found) or verdict.cost_ns is None or not case.wall_ns or not case.gpu_ns:
        return verdict
    cost_pct = _cost_pct(verdict, case) or 0.0
    severity = verdict.severity or rule.severity
    if (
        severity is Severity.ERROR
        or cost_pct >= NEGLIGIBLE_PCT
        or 100 * verdict.cost_ns >= 10 * NEGLIGIBLE_PCT * case.gpu_ns
    ):
        return verdict
    return Clean(f"{verdict.problem.rstrip('.')}: costs {brief_duration(verdict.cost_ns)} at most", verdict.numbers)


def _cost_pct(verdict: Found, case: Case) -> float | None:
    """The cost of a finding as a share of the wall time, of GPU time where no times are known; None where unknown.

    A cost that is summed over several GPUs is compared with the wall time of all of them.
    """
    if verdict.cost_ns is None:
        return None
    whole = case.wall_ns or case.gpu_ns
    if case.wall_ns and case.together_words and case.together_words in verdict.basis:
        whole *= case.busy.height
    return min(100.0, 100 * verdict.cost_ns / whole) if whole else None


def _severity(own: Severity, cost_pct: float | None) -> Severity:
    """The severity of a finding by its share of the wall time: a large cost is never info, a small one no warning."""
    if own is Severity.ERROR or cost_pct is None:
        return own
    if cost_pct >= LARGE_PCT:
        return Severity.WARNING
    return Severity.INFO if cost_pct < SMALL_PCT else own


def _of_session(verdict: Found, case: Case) -> str | None:
    """The filter of a finding, for the rows of its session alone where there are several."""
    if not verdict.view or case.session is None or case.whole["sessions"].height == 1:
        return verdict.filter or None
    session = f"session={case.session}"
    return f"({verdict.filter}) {session}" if verdict.filter else session


def _json(value: object) -> str:
    return json.dumps(_finite(value), ensure_ascii=False, default=str)


def _finite(value: Any) -> Any:
    """The same without NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value


def _of_tools(profile: Profile) -> pl.DataFrame:
    """The findings of the recording tools, in their own words."""
    rows = profile["tool_findings"].select(
        pl.lit(State.FOUND.value).alias("state"),
        "severity",
        "session",
        "tool",
        "problem",
        "recommendation",
        pl.lit("tool-report").alias("view"),
        "line",
    )
    return rows.select(
        pl.col(name).cast(dtype) if name in rows.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in FINDINGS.items()
    )


def _in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Findings by cause, causes by what they cost of the wall time; then what does not apply, then what is clean."""
    state = pl.col("state").replace_strict({s.value: rank for s, rank in _STATES.items()}, return_dtype=pl.Int8)
    rank = pl.col("severity").replace_strict(
        {s.value: rank for s, rank in _RANK.items()}, default=len(_RANK), return_dtype=pl.Int8
    )
    unknown = pl.col("severity").replace_strict(_UNKNOWN_PCT, default=-1.0, return_dtype=pl.Float64)
    is_error = pl.col("severity") == Severity.ERROR.value
    is_found = pl.col("state") == State.FOUND.value
    with_ranks = rows.with_columns(
        # A tool's own finding is a cause of its own.
        pl.when(is_found).then(pl.coalesce("cause", pl.format("{}: {}", "tool", "problem"))).alias("_cause"),
        pl.when(is_error).then(_UNKNOWN_PCT["error"]).otherwise(pl.coalesce("cost_pct", unknown)).alias("_weight"),
        rank.alias("_rank"),
    )
    sums_up = pl.col("rule").is_in(_SUMMARIES).fill_null(False)
    heaviest = pl.coalesce(pl.col("_weight").filter(~sums_up).max(), pl.col("_weight").max()).over("_cause")
    worst_rank = pl.col("_rank").min().over("_cause")
    by = {
        "_state": state,
        "_of_tool": pl.col("tool") != OURS,
        **{
            name: pl.when(is_found).then(value)
            for name, value in (
                ("_heaviest", -heaviest),
                ("_worst_rank", worst_rank),
                ("_together", pl.col("_cause")),
                ("_sums_up", sums_up),
                ("_explains_less", pl.col("rule") != "U1"),
                ("_own", pl.col("_rank")),
                ("_own_weight", -pl.col("_weight")),
            )
        },
    }
    ordered = with_ranks.with_columns(**by).sort(list(by), maintain_order=True, nulls_last=True)
    is_lead = is_found & pl.col("_cause").is_first_distinct()
    return ordered.with_columns(is_lead.alias("is_lead")).select(list(FINDINGS))
