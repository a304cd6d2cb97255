"""The findings of all rules for a profile, with those of the tool's own advisor, and the table that shows them."""

from __future__ import annotations

import json
import math
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.expert import rule as thresholds
from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert import rules
from tui.analysis.expert.case import Case
from tui.analysis.expert.finding_text import percent, use_vendor_terms
from tui.analysis.expert.rule import (
    EVIDENCE_ROWS,
    Cause,
    Clean,
    Found,
    NotApplicable,
    Severity,
    State,
    Verdict,
    declared_rules,
    default_cause,
)
from tui.analysis.expert.rules.one_time_costs import steady_iterations, warm_start
from tui.analysis.grouping import partition_by_session
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.ops_by_name import classified_kernels
from tui.cache.spill import low_memory, release_memory
from tui.fmt import brief_duration
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tui.analysis.expert.rule import Limits, Rule
    from tui.model.aggregation import Aggregation
    from tui.model.profile import Profile

for _module in iter_modules(rules.__path__):
    import_module(f"{rules.__name__}.{_module.name}")

_FAMILIES: Final = "QUTCALPI"
"""The first letters of rule ids, in order: rules that use others come after them."""

RULES: Final = tuple(
    sorted(declared_rules().values(), key=lambda rule: (_FAMILIES.index(rule.id[0]), int(rule.id[1:])))
)
"""Every rule."""
_JUDGED_LATER: Final = {"U3": "U6"}
"""Rules that use the verdict of a rule that comes after them in `RULES`, by that rule: they are judged after it."""
_PLACES: Final = {rule.id: place for place, rule in enumerate(RULES)}


OURS: Final = "proftui"
"""The ``tool`` of findings of proftui."""

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
        "cost_of": pl.String,
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
_RANKED: Final = pl.Schema([*FINDINGS.items(), ("rank_pct", pl.Float64())])
"""The same with the share of the time by which a finding is ranked; null where nothing is known about it."""

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
    "layers",
    "tool_figures",
    "tool_findings",
    "issues",
)
LARGE_PCT: Final = 10.0
"""Findings that cost this share of the wall time or more are at least warnings."""
SMALL_PCT: Final = 1.0
"""Findings that cost less than this share of the wall time are not warnings."""
MOST_PCT: Final = 50.0
"""Start-up that takes this share of the wall time or more is what to look at first; else it is one-time information."""
NEGLIGIBLE_PCT: Final = 0.05
"""Findings below this share of the wall time, and ten times this share of GPU time, are not shown."""
_UNKNOWN_PCT: Final = {Severity.ERROR.value: 101.0, Severity.WARNING.value: 1.0}
"""The rank of findings with unknown cost, as a share of the wall time, by severity."""
_DAMAGE: Final = "Q2"
_DAMAGE_PCT: Final = {True: 0.5, False: 2.0}
"""The rank of warnings about the input, by whether there is GPU work: without any, they say why."""
_ONE_TIME_RULES: Final = ("A10", "I10")
"""Rules about what a run does once, at its start."""
_FASTER_KERNELS: Final = frozenset(
    {
        Cause.SMALL_GRIDS.value,
        Cause.PRECISION.value,
        Cause.LAYOUT.value,
        Cause.FUSION.value,
        Cause.HOT_KERNEL.value,
        Cause.ROOF.value,
    }
)
"""Causes that cost time of kernels; a GPU that waits for the CPU would wait longer if its kernels were faster."""
_GRIDS_SHARE: Final = 0.6
"""The share of the time of free SMs that larger grids save, at a guess: they rarely fill all."""
_SUMMARIES: Final = ("U3", "U8", "U10", "L8", "L9", "I10")
"""Rules that summarize what others of the same cause explain: they are never listed first."""
MIN_ROWS_FOR_THREADS: Final = 200_000
"""The minimum number of rows for which two threads are faster."""

_RANK: Final = {severity: rank for rank, severity in enumerate(Severity)}
_STATES: Final = {state: rank for rank, state in enumerate(State)}


def findings(profile: Profile) -> pl.DataFrame:
    """Judge every rule for every session, and add the findings of the recording tools.

    There is one row per rule and session, and one row for each rule that compares sessions (session null). Found rules
    come first, then rules that do not apply, then clean ones. Findings of one cause are adjacent; causes are sorted by
    what their most expensive finding can save (`_rank_pct`), after errors, which put the figures in doubt.

    Columns: rule (``U1``), name, title (what the rule finds), family, state (`State`), severity (of a finding),
    session, tool (`OURS`, or the tool whose advisor found it: its rows have no rule), problem and recommendation (of a
    finding), reason (why it does not apply, or the figures that show that it is clean), cause (why the time is lost:
    `tui.analysis.expert.rule`), is_lead (whether it is the first of its cause), cost_ns (the maximum cost), cost_pct
    (its share of the wall time; without times, of GPU or API time, whichever is longer), cost_of (the total that
    cost_pct refers to, such as ``wall time``), cost_basis (how the cost was estimated, or why not), numbers (JSON:
    figures by name, base units), thresholds (JSON: for each name, value, meaning, source), evidence (JSON: up to ten
    rows), view, part (of a view with several; null: the first) and filter (which show the rows of the finding), link
    (further reading), line (of the input, that of the first row of the evidence).

    Args:
        profile: The profile.

    Raises:
        ProftuiError: The user's thresholds cannot be read, or the GPU is unknown.
    """
    return _memoized_findings(thresholds.user_limits_stamp())(profile)


@lru_cache(maxsize=4)
def _memoized_findings(stamp: tuple[str, int] | None) -> Callable[[Profile], pl.DataFrame]:
    """Return `findings` for a state of the user's file, memoized."""

    @once_per_profile(*_FRAMES)
    def profile_findings(profile: Profile) -> pl.DataFrame:
        limits = thresholds.limits(stamp)
        classified_kernels(profile)  # All names at once: the results for a name serve every session.
        rows, basis_ns = [], {}
        for case, judged in _cases(profile, limits):
            rows += [
                _row(rule, case, verdict, limits) for rule, verdict in zip(judged, _verdicts(judged, case), strict=True)
            ]
            basis_ns[case.session] = case.cost_basis_ns
        ours = pl.DataFrame(rows, schema=_RANKED, orient="row")
        has_work = profile["activities"].height > 0 or (profile["summary"]["section"] == "gpu").any()
        found = pl.concat([ours, _tool_findings(profile)])
        return _sort_by_cause(found, _session_weights(basis_ns), damage_pct=_DAMAGE_PCT[has_work])

    return profile_findings


def _cases(profile: Profile, limits: Limits) -> Iterator[tuple[Case, list[Rule]]]:
    """Yield every session with its rules, and all sessions together with the rules that compare them."""
    session_rules = [rule for rule in RULES if not rule.across]
    for session, session_profile in session_profiles(profile):
        yield Case(session_profile, session, limits, full_profile=profile), session_rules
    yield Case(profile, None, limits), [rule for rule in RULES if rule.across]


def iterations_after_start_up(profile: Profile, session: int) -> Aggregation | None:
    """Return the steady iterations of a session, else all after warm-up; None if there are none to choose."""
    case = next(
        case
        for case, _ in _cases(profile, thresholds.limits(thresholds.user_limits_stamp()))
        if case.session == session
    )
    if (start := warm_start(case)) is None:
        return None
    first, last = steady_iterations(case, start[0], start[2])
    return replace(profile.aggregation, first=first, last=last)


def session_profiles(profile: Profile) -> Iterator[tuple[int, Profile]]:
    """Yield the number and the rows of each session; issues without a session are in none."""
    numbers = profile["sessions"]["session"].to_list()
    if len(numbers) == 1:
        yield numbers[0], profile
        return
    rows_by_session = {name: partition_by_session(data) for name, data in profile.frames.items()}
    for number in numbers:
        frames = {name: rows_by_session[name].get(number, data.clear()) for name, data in profile.frames.items()}
        steps = None if profile.steps is None else profile.steps.filter(pl.col("session") == number)
        yield number, replace(profile, frames=frames, steps=steps)


def _verdicts(rules: Sequence[Rule], case: Case) -> list[Verdict]:
    """Return the answers of some rules, in order; with very many launches, of two rules at a time."""
    # Rules are judged after the rules that they use, so those have been judged or are being judged.
    in_judging_order = sorted(rules, key=_judging_place)
    if case.profile["activities"].height + case.profile["api_calls"].height < MIN_ROWS_FOR_THREADS:
        for rule in in_judging_order:
            _judge(rule, case)
        return [case.verdicts[rule.id] for rule in rules]
    with ThreadPoolExecutor(1 if low_memory() else 2, "rules") as pool:
        for rule in in_judging_order:
            case.judging[rule.id] = pool.submit(_judge, rule, case)
        return [case.judging[rule.id].result() for rule in rules]


def _judging_place(rule: Rule) -> tuple[int, bool]:
    """Return when a rule is judged: right after the last rule that it uses, if that comes after it in `RULES`."""
    return _PLACES[_JUDGED_LATER.get(rule.id, rule.id)], rule.id in _JUDGED_LATER


def _judge(rule: Rule, case: Case) -> Verdict:
    """Return the verdict of a rule; a rule that raises loses only its own verdict."""
    try:
        verdict = rule.judge(case)
    except (ProftuiError, MemoryError):
        raise
    except Exception as error:
        verdict = NotApplicable(f"the rule failed on this profile ({type(error).__name__}): please report it")
    case.verdicts[rule.id] = verdict
    release_memory()
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
        "thresholds": _json([{"name": t.name, "value": t.value, "meaning": t.meaning, "source": t.source}
                             for t in limits.for_rule(rule.id)]),
    }  # fmt: skip
    note = case.iterations_note if needs.iterations in rule.needs else ""
    verdict = _unless_negligible(rule, verdict, case)
    in_vendor_terms = partial(use_vendor_terms, case.vendor)
    match verdict:
        case Found():
            cost_pct, rank_pct = _cost_pct(verdict.cost_ns, verdict, case), _rank_pct(rule, verdict, case)
            severity = _severity(rule, verdict, case, rank_pct if cost_pct is not None else None)
            evidence = verdict.evidence.head(EVIDENCE_ROWS) if verdict.evidence is not None else None
            values |= {
                "state": State.FOUND.value,
                "severity": limits.severity(rule.id, severity).value,
                "problem": in_vendor_terms(f"{verdict.problem} Iterations are {note}." if note else verdict.problem),
                "recommendation": in_vendor_terms(verdict.advice),
                "cause": verdict.cause or default_cause(rule.id, rule.name),
                "cost_ns": _cost_ns(verdict, case),
                "cost_pct": cost_pct,
                "rank_pct": rank_pct,
                "cost_of": _cost_of(verdict, case) if cost_pct is not None else None,
                "cost_basis": in_vendor_terms(_cost_basis(rule, verdict, case)) or None,
                "numbers": _json(dict(verdict.numbers)),
                "evidence": _json(evidence.to_dicts()) if evidence is not None and evidence.height else None,
                "view": verdict.view or None,
                "part": verdict.part or None,
                "filter": _session_filter(verdict, case),
                "line": evidence["line"].first() if evidence is not None and "line" in evidence.columns else None,
            }
        case NotApplicable():
            values |= {"state": State.NOT_APPLICABLE.value, "reason": in_vendor_terms(verdict.reason)}
        case Clean():
            values |= {
                "state": State.CLEAN.value,
                "reason": in_vendor_terms(f"{verdict.reason}; iterations are {note}" if note else verdict.reason),
                "numbers": _json(dict(verdict.numbers)) if verdict.numbers else None,
            }
    return tuple(values.get(column) for column in _RANKED)


def _unless_negligible(rule: Rule, verdict: Verdict, case: Case) -> Verdict:
    """Return a verdict; clean if the finding costs a negligible share of the wall time and of GPU time."""
    if not isinstance(verdict, Found) or verdict.cost_ns is None or not case.wall_ns or not case.gpu_ns:
        return verdict
    cost_pct = _cost_pct(verdict.cost_ns, verdict, case) or 0.0
    severity = verdict.severity or rule.severity
    if (
        severity is Severity.ERROR
        or cost_pct >= NEGLIGIBLE_PCT
        or 100 * verdict.cost_ns >= 10 * NEGLIGIBLE_PCT * case.gpu_ns
    ):
        return verdict
    return Clean(f"{verdict.problem.rstrip('.')}: costs {brief_duration(verdict.cost_ns)} at most", verdict.numbers)


def _cost_pct(cost_ns: int | None, verdict: Found, case: Case) -> float | None:
    """Return the cost of a finding as a share of the wall time, else of `Case.cost_basis_ns`; None where unknown.

    A cost that is summed over several GPUs is compared with the wall time of all of them.
    """
    total_ns = _cost_total_ns(verdict, case)
    return min(100.0, 100 * cost_ns / total_ns) if cost_ns is not None and total_ns else None


def _cost_ns(verdict: Found, case: Case) -> int | None:
    """Return the cost of a finding, at most all of the time: work of several streams or threads can take longer."""
    total_ns = _cost_total_ns(verdict, case)
    return min(verdict.cost_ns, round(total_ns)) if verdict.cost_ns is not None and total_ns else verdict.cost_ns


def _cost_total_ns(verdict: Found, case: Case) -> float:
    """Return the time that the cost of a finding is a share of, 0 where unknown."""
    gpus = max(case.busy.height, 1) if case.wall_ns and verdict.is_summed_over_gpus else 1
    return case.cost_basis_ns * gpus


def _cost_of(verdict: Found, case: Case) -> str:
    """Return the name of the time that `_cost_pct` refers to."""
    return case.wall_words if case.wall_ns and verdict.is_summed_over_gpus else case.cost_basis_text


def _cost_basis(rule: Rule, verdict: Found, case: Case) -> str:
    """Return how the cost of a finding was estimated, with the number of GPUs over which it is summed."""
    if verdict.cost_ns is None:
        return verdict.basis
    basis = verdict.basis
    if verdict.is_summed_over_gpus and case.busy.height > 1:
        basis = re.sub(r"(?=[;:]|$)", f", of {case.busy.height} GPUs together", basis, count=1)
    if _saves_kernel_time(rule, verdict) and (kept := case.saving_by_faster_kernels) < 1:
        idle = f"the GPU is idle {percent(100 - 100 * kept)} of the time"
        basis = f"{basis}; {idle}, so faster kernels shorten the run by less"
    return basis


def _saves_kernel_time(rule: Rule, verdict: Found) -> bool:
    """Return whether a finding is about kernels that could be faster."""
    return (verdict.cause or default_cause(rule.id, rule.name)) in _FASTER_KERNELS


def _is_one_time(rule: Rule, verdict: Found, case: Case) -> bool:
    """Return whether a finding is about start-up, and start-up is not most of the recording."""
    is_start_up = rule.id in _ONE_TIME_RULES or verdict.cause == Cause.START_UP
    is_most = case.wall_ns and (_cost_pct(verdict.cost_ns, verdict, case) or 0.0) >= MOST_PCT
    return is_start_up and not is_most


def _rank_pct(rule: Rule, verdict: Found, case: Case) -> float | None:
    """Return the share of the time by which a finding is ranked: what can be saved of its cost; None where unknown."""
    rank_ns = verdict.rank_ns if verdict.cost_ns is None else verdict.cost_ns
    pct = _cost_pct(rank_ns, verdict, case)
    if pct is None:
        return None
    if _saves_kernel_time(rule, verdict):
        is_small_grid = (verdict.cause or default_cause(rule.id, rule.name)) == Cause.SMALL_GRIDS
        return pct * case.saving_by_faster_kernels * (_GRIDS_SHARE if is_small_grid else 1)
    return min(pct, SMALL_PCT) if _is_one_time(rule, verdict, case) else pct


def _session_weights(basis_ns: Mapping[int | None, float]) -> pl.Expr:
    """Return the time of each session as a share of that of the longest: a cost counts by the time it takes.

    Args:
        basis_ns: `Case.cost_basis_ns` by session.
    """
    longest = max(basis_ns.values(), default=0)
    shares = {session: ns / longest for session, ns in basis_ns.items() if session is not None and longest and ns}
    session = pl.col("session")
    return session.replace_strict(shares, default=1.0, return_dtype=pl.Float64) if shares else pl.lit(1.0)


def _severity(rule: Rule, verdict: Found, case: Case, saved_pct: float | None) -> Severity:
    """Return the severity by what can be saved: much is at least a warning, little is info, and so is start-up."""
    severity = verdict.severity or rule.severity
    if severity is Severity.ERROR:
        return severity
    if _is_one_time(rule, verdict, case):
        return Severity.INFO
    if saved_pct is None:
        return severity
    if saved_pct >= LARGE_PCT:
        return Severity.WARNING
    return Severity.INFO if saved_pct < SMALL_PCT else severity


def _session_filter(verdict: Found, case: Case) -> str | None:
    """Return the filter of a finding, restricted to its session if there are several."""
    if not verdict.view or case.session is None or case.full_profile["sessions"].height == 1:
        return verdict.filter or None
    session = f"session={case.session}"
    return f"({verdict.filter}) {session}" if verdict.filter else session


def _json(value: object) -> str:
    return json.dumps(_finite(value), ensure_ascii=False, default=str)


def _finite(value: Any) -> Any:
    """Return the value without NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value


def names_in_evidence(row: Mapping[str, Any]) -> set[str]:
    """Return the names of the work behind a finding."""
    return {str(item["name"]) for item in json.loads(row["evidence"] or "[]") if item.get("name")}


def _tool_findings(profile: Profile) -> pl.DataFrame:
    """Return the findings of the recording tools, as the tools word them."""
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
        for name, dtype in _RANKED.items()
    )


_TOOLS_IN_TIME_ORDER: Final = ("Nsight Compute",)
"""Tools whose findings are ordered by the time of their kernels."""


def _sort_by_cause(rows: pl.DataFrame, session_weights: pl.Expr, damage_pct: float) -> pl.DataFrame:
    """Sort findings by cause, causes by what they can save; then inapplicable and clean rules."""
    state = pl.col("state").replace_strict({s.value: rank for s, rank in _STATES.items()}, return_dtype=pl.Int8)
    rank = pl.col("severity").replace_strict(
        {s.value: rank for s, rank in _RANK.items()}, default=len(_RANK), return_dtype=pl.Int8
    )
    unknown_pct = (
        pl.when(pl.col("rule") == _DAMAGE)
        .then(damage_pct)
        .otherwise(pl.col("severity").replace_strict(_UNKNOWN_PCT, default=-1.0, return_dtype=pl.Float64))
    )
    is_error = pl.col("severity") == Severity.ERROR.value
    is_found = pl.col("state") == State.FOUND.value
    with_ranks = rows.with_columns(
        # A finding of a tool is its own cause.
        pl.when(is_found).then(pl.coalesce("cause", pl.format("{}: {}", "tool", "problem"))).alias("_cause"),
        pl.when(is_error)
        .then(_UNKNOWN_PCT["error"])
        .otherwise(pl.coalesce("rank_pct", unknown_pct) * session_weights)
        .alias("_weight"),
        rank.alias("_rank"),
    )
    sums_up = pl.col("rule").is_in(_SUMMARIES).fill_null(False)
    heaviest = pl.coalesce(pl.col("_weight").filter(~sums_up).max(), pl.col("_weight").max()).over("_cause")
    worst_rank = pl.col("_rank").min().over("_cause")
    is_ranked = is_found & ~pl.col("tool").is_in(_TOOLS_IN_TIME_ORDER)
    sort_keys = {
        "_state": state,
        "_of_tool": pl.col("tool") != OURS,
        **{
            name: pl.when(is_ranked).then(value)
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
    ordered = with_ranks.with_columns(**sort_keys).sort(list(sort_keys), maintain_order=True, nulls_last=True)
    is_lead = is_found & pl.col("_cause").is_first_distinct()
    return ordered.with_columns(is_lead.alias("is_lead")).select(list(FINDINGS))
