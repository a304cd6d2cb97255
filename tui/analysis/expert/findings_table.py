"""The table of findings: a row for each cause, then rules that do not apply or found nothing; their numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.expert.rule import Severity, State
from tui.model.columns import Column, ColumnKind, columns
from tui.model.table_spec import UNINFORMATIVE_PRIORITY, TableSpec
from tui.text import begin_sentence, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.analysis.timeline.lookup import Gap
    from tui.model.profile import Profile

ANSWERS: Final = ("I11", "U6", "C5")
"""Rules that answer a question also where they find nothing: whether decode, or the run, is launch-bound, and whether
a rank is a straggler. Their clean verdicts are shown in words; that of U6 only where I11 has none and U1 is clean."""
HOT_KERNEL: Final = "P10"
"""The rule about most GPU time in one kernel, whose possible savings are unknown."""
SLOW_LAYERS: Final = "P16"
"""The same for layers."""
MEASURED_KERNELS: Final = ("P17", "P18")
"""The rules about kernels whose metrics were measured."""
MAX_LISTED: Final = 3
"""The most rules that are named in the table; of more, the number is shown."""

FOLDED: Final = "folded"
"""The ``state`` of summary rows, which replace several rows, or are above them."""

SAME_CAUSE: Final = "same cause"
"""The ``verdict`` of the summary row of findings whose cause already has a row."""

FOLDED_TABLE: Final = "table"
"""The name of the table with a row for each cause."""
EVERY_FINDING: Final = "every_finding"
"""The name of the table with a row for each finding."""
UNFOLDED: Final = "all_rules"
"""The name of the table with a row for each finding and rule."""

NOT_RATED: Final = "not rated"
"""The label of findings to which the profiler gives no severity."""

PARTLY_APPLICABLE: Final = "partly applicable"
"""The label of rules that apply to some sessions only."""

SESSION_CELLS: Final = 9
"""Width of the session column, with the blanks before it."""

EXPERT: Final = TableSpec(
    "findings",
    "Findings",
    (
        Column(
            "verdict",
            "Severity",
            ColumnKind.TEXT,
            "error, warning, info; not rated (findings of the profiler); not applicable; clean.",
            1,
        ),
        Column(
            "message", "Finding", ColumnKind.TEXT, "What was found, or why the rule does not apply.", 1, is_prose=True
        ),
        Column("cost_pct", "Cost%", ColumnKind.PERCENT, "Share of the wall time that it costs at most.", 2),
        # The sentence says it, too.
        replace(columns("cost_ns")[0], priority=UNINFORMATIVE_PRIORITY),
        *columns("session"),
        Column("cause", "Cause", ColumnKind.TEXT, "Why the time is lost; findings of one cause stand together.", 4),
        Column("rules", "Rule", ColumnKind.TEXT, "The rule, and how many more found the same cause.", 5),
        replace(columns("line")[0], priority=UNINFORMATIVE_PRIORITY),
    ),
    key=("state", "rule", "message", "session"),
    pinned="message",
    min_pinned_cells=48,
    trailing_columns=("cause", "rules"),
)


def spec_for(profile: Profile) -> TableSpec:
    """Return the table for a profile, with a session column if there are several sessions."""
    if profile["sessions"].height > 1:
        # The message, not the cost, makes room for the session.
        return replace(EXPERT, min_pinned_cells=EXPERT.min_pinned_cells - SESSION_CELLS)
    return replace(EXPERT, columns=tuple(column for column in EXPERT.columns if column.name != "session"))


def expert_rows(findings: pl.DataFrame, *, every_finding: bool = False, unfolded: bool = False) -> pl.DataFrame:
    """Return the rows of the view: one per cause, then one each for other findings, inapplicable and clean rules.

    Args:
        findings: `tui.analysis.expert.findings.findings`.
        every_finding: Show every finding of a cause below its first.
        unfolded: Also show why rules do not apply, a row per reason, and each clean rule; and every finding.

    Returns:
        The columns of `findings`, with verdict, rules, message and all_rules (of rows that represent several).
    """
    every_finding |= unfolded
    others = findings.filter((pl.col("state") == State.FOUND.value) & ~pl.col("is_lead"))
    answered = answers(findings).with_columns(
        pl.lit(State.CLEAN.value).alias("verdict"),
        pl.col("rule").alias("rules"),
        pl.col("rule").alias("all_rules"),
    )
    inapplicable = findings.filter(pl.col("state") == State.NOT_APPLICABLE.value)
    clean = findings.filter(pl.col("state") == State.CLEAN.value)
    frames = [
        _found_rows(findings, every_finding=every_finding),
        _same_cause_heading(others).head(others.height),
        # Of all rules, each clean one has a row.
        answered.clear() if unfolded else answered,
        _inapplicable_heading(findings, inapplicable).head(inapplicable.height),
        *([_rows_by_reason(inapplicable)] if unfolded else []),
        _clean_heading(findings, clean).head(clean.height),
        *([_clean_rows(clean)] if unfolded else []),
    ]
    return pl.concat(frames, how="diagonal_relaxed")


def _found_rows(findings: pl.DataFrame, *, every_finding: bool) -> pl.DataFrame:
    """Return the findings to show, with how many more rules found the same cause if they have no rows."""
    further_rules = pl.lit(0) if every_finding else pl.col("all_rules").str.split(" ").list.len() - 1
    shown = findings.filter(pl.col("state") == State.FOUND.value) if every_finding else first_findings(findings)
    return shown.with_columns(
        pl.col("severity").fill_null(NOT_RATED).alias("verdict"),
        (
            pl.coalesce("rule", "tool")
            + pl.when(further_rules > 0).then(pl.format(" +{}", further_rules)).otherwise(pl.lit(""))
        ).alias("rules"),
        pl.col("problem").alias("message"),
    )


def _heading(verdict: str, rules: pl.Series | list[str], message: str) -> pl.DataFrame:
    """Return a row that replaces rows of some rules, or is above them."""
    number = len(rules)
    return pl.DataFrame(
        {
            "state": FOLDED,
            "verdict": verdict,
            "rules": plural(number, "rule"),
            "all_rules": " ".join(rules),
            "message": f"{message}. Enter: show or hide.",
        }
    )


def _same_cause_heading(others: pl.DataFrame) -> pl.DataFrame:
    """Return the row of the findings whose cause already has a row."""
    has = "finding has" if others.height == 1 else "findings have"
    rules = others["rule"].drop_nulls().unique(maintain_order=True)
    return _heading(SAME_CAUSE, rules, f"{others.height} more {has} the same causes")


def _inapplicable_heading(findings: pl.DataFrame, inapplicable: pl.DataFrame) -> pl.DataFrame:
    """Return the row of the rules that do not apply."""
    applicable = _rules(findings, State.FOUND, State.CLEAN)
    rules = [rule for rule in inapplicable["rule"].unique(maintain_order=True) if rule not in applicable]
    do = "rule does" if len(rules) == 1 else "rules do"
    partly_text = _in_some_sessions(inapplicable["rule"].n_unique() - len(rules))
    return _heading(State.NOT_APPLICABLE.value, rules, f"{len(rules)} {do} not apply here{partly_text}")


def _rows_by_reason(inapplicable: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each reason why rules do not apply, the most frequent first."""
    return (
        inapplicable.group_by("reason", maintain_order=True)
        .agg(
            pl.col("rule").unique(maintain_order=True).str.join(" ").alias("all_rules"),
            pl.when(pl.col("session").n_unique() == 1).then(pl.col("session").first()).alias("session"),
            pl.col("state", "tool").first(),
            pl.col("rule").n_unique().alias("number"),
        )
        .sort("number", descending=True, maintain_order=True)
        .with_columns(
            pl.lit(State.NOT_APPLICABLE.value).alias("verdict"),
            _begin_sentences("reason").alias("message"),
            pl.when(pl.col("number") <= MAX_LISTED)
            .then("all_rules")
            .otherwise(pl.format("{} rules", "number"))
            .alias("rules"),
        )
        .drop("number")
    )


def _clean_heading(findings: pl.DataFrame, clean: pl.DataFrame) -> pl.DataFrame:
    """Return the row of the rules that found nothing."""
    rules = clean_rules(findings)
    partly_text = _in_some_sessions(clean["rule"].n_unique() - len(rules))
    noun = "rule" if len(rules) == 1 else "rules"
    return _heading(State.CLEAN.value, rules, f"{len(rules)} {noun} found nothing{partly_text}")


def _in_some_sessions(number: int) -> str:
    """Return how many more rules have a state only in some sessions; empty if none."""
    return f", {number} more in some sessions" if number else ""


def _clean_rows(clean: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each clean rule."""
    return clean.with_columns(
        pl.lit(State.CLEAN.value).alias("verdict"),
        pl.col("rule").alias("rules"),
        _begin_sentences("reason").alias("message"),
    )


def answers(findings: pl.DataFrame) -> pl.DataFrame:
    """Return the clean verdicts that answer a question (`ANSWERS`), each as a sentence in the column ``message``.

    Args:
        findings: `tui.analysis.expert.findings.findings`.
    """
    first, second, third = ANSWERS
    judged = findings.filter(pl.col("state") != State.NOT_APPLICABLE.value)
    decoding = judged.filter(pl.col("rule") == first)["session"].unique()
    busy = judged.filter(pl.col("rule") == "U1", pl.col("state") == State.CLEAN.value)["session"].unique()
    in_doubt = pl.col("session").is_in(busy.implode()) & ~pl.col("session").is_in(decoding.implode())
    shown = pl.col("rule").is_in([first, third]) | ((pl.col("rule") == second) & in_doubt)
    return judged.filter(pl.col("state") == State.CLEAN.value, shown).with_columns(
        (_begin_sentences("reason") + ".").alias("message")
    )


def _begin_sentences(column: str) -> pl.Expr:
    """Return texts, each with a capital first letter."""
    return pl.col(column).map_elements(begin_sentence, pl.String)


def first_findings(findings: pl.DataFrame) -> pl.DataFrame:
    """Return the first finding of each cause, with all_rules: the rules that found the same cause.

    Args:
        findings: `tui.analysis.expert.findings.findings`.
    """
    found_rows = findings.filter(pl.col("state") == State.FOUND.value)
    cause = pl.coalesce("cause", pl.format("{}: {}", "tool", "problem")).alias("of_cause")
    rules = (
        found_rows.group_by(cause, maintain_order=True)
        .agg(pl.col("rule").drop_nulls().unique(maintain_order=True))
        .select("of_cause", pl.col("rule").list.join(" ").alias("all_rules"))
    )
    return (
        found_rows.filter("is_lead").with_columns(cause).join(rules, on="of_cause", how="left", maintain_order="left")
    ).drop("of_cause")


def findings_summary(findings: pl.DataFrame) -> str:
    """Return how many causes were found by severity, and how many rules do not apply or are clean, in words."""
    severities = first_findings(findings)["severity"].to_list()
    texts = [
        f"{number} {severity.value}{'s' if number > 1 and severity is not Severity.INFO else ''}"
        for severity in Severity
        if (number := severities.count(severity.value))
    ]
    numbers = counts(findings)
    tools = findings.filter(pl.col("severity").is_null() & (pl.col("state") == State.FOUND.value))["tool"].unique()
    texts += [f"{numbers[NOT_RATED]} from {', '.join(tools.sort())}"] if numbers[NOT_RATED] else []
    other_states = [
        (State.NOT_APPLICABLE.value, State.NOT_APPLICABLE.value),
        (PARTLY_APPLICABLE, PARTLY_APPLICABLE),
        (State.CLEAN.value, "clean"),
    ]
    texts = texts or ["nothing found"]
    return ", ".join([*texts, *(f"{numbers[key]} {name}" for key, name in other_states if numbers[key])])


IDLE_RULES: Final = ("U1", "U2", "U3", "U6", "U7", "U9", "U10")
"""Rules of idle time, whose evidence is gaps."""


def longest_finding_gap(row: Mapping[str, Any]) -> Gap | None:
    """Return the longest gap of a finding; None if the finding is not about gaps.

    Args:
        row: A row of `findings` or `expert_rows`.
    """
    rows = json.loads(row["evidence"] or "[]") if row["session"] is not None else []
    if not rows or not {"device", "start_ns", "gap_ns"} <= set(rows[0]):
        return None
    from tui.analysis.timeline.lookup import Gap  # a report needs no timeline

    return Gap(row["session"], rows[0]["device"], rows[0]["start_ns"], rows[0]["gap_ns"])


def counts(findings: pl.DataFrame) -> Mapping[str, int]:
    """Count findings by severity, and rules that do not apply or are clean.

    Each rule counts once for all sessions: clean if it found nothing and applies to at least one, not applicable if it
    applies to none, partly applicable if it applies to some.

    Keys: error, warning, info, not applicable, partly applicable, clean, not rated (findings of tools without a
    severity).
    """
    rows = findings.filter(pl.col("state") == State.FOUND.value)
    by_severity = dict(rows.group_by(pl.col("severity").fill_null(NOT_RATED)).len().iter_rows())
    applicable, inapplicable = _rules(findings, State.FOUND, State.CLEAN), _rules(findings, State.NOT_APPLICABLE)
    return {
        **{severity.value: by_severity.get(severity.value, 0) for severity in Severity},
        State.NOT_APPLICABLE.value: len(inapplicable - applicable),
        PARTLY_APPLICABLE: len(inapplicable & applicable),
        State.CLEAN.value: len(clean_rules(findings)),
        NOT_RATED: by_severity.get(NOT_RATED, 0),
    }


def clean_rules(findings: pl.DataFrame) -> list[str]:
    """Return the rules that apply to a session and found nothing in any."""
    found_rules = _rules(findings, State.FOUND)
    clean = findings.filter(pl.col("state") == State.CLEAN.value)["rule"].unique(maintain_order=True)
    return [rule for rule in clean if rule not in found_rules]


def _rules(findings: pl.DataFrame, *states: State) -> set[str]:
    """Return the rules that have one of these states in any session."""
    rows = findings.filter(pl.col("state").is_in([state.value for state in states]))
    return set(rows["rule"].drop_nulls())
