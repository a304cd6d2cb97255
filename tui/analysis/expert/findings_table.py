"""The table of the Expert Systems view: what was found, then rules that do not apply, then clean ones."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.expert.rule import Severity, State
from tui.analysis.timeline.lookup import Gap
from tui.model.columns import Column, ColumnKind, columns
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile

FEW: Final = 3
"""So many rules are named in the table; of more, their number."""

FOLDED: Final = "folded"
"""The ``state`` of the row that stands for all clean ones, and above them where they are shown."""

PARTLY_APPLICABLE: Final = "partly applicable"
"""Of rules that apply to some sessions and not to others."""

SESSION_CELLS: Final = 9
"""Width of the session column, with the blanks before it."""

EXPERT: Final = TableSpec(
    "findings",
    "Findings",
    (
        Column("verdict", "Severity", ColumnKind.TEXT, "error, warning, info; not applicable; clean.", 1),
        Column(
            "message", "Finding", ColumnKind.TEXT, "What was found, or why the rule does not apply.", 1, is_prose=True
        ),
        Column("cost_pct", "Cost %", ColumnKind.PERCENT, "Share of the wall time that it costs at most.", 2),
        *columns("cost_ns"),
        Column("cause", "Cause", ColumnKind.TEXT, "Why the time is lost; findings of one cause stand together.", 4),
        Column("rules", "Rule", ColumnKind.TEXT, "The rule, or all that do not apply for this reason.", 5),
        replace(columns("session")[0], priority=7),
        *columns("line"),
    ),
    key=("state", "rule", "message", "session"),
    pinned="message",
    pinned_least=52,
)


def spec_for(profile: Profile) -> TableSpec:
    """The table for a profile: with a session column where there are several sessions."""
    if profile["sessions"].height > 1:
        # The session takes its room from the message, not from the cost.
        return replace(EXPERT, pinned_least=EXPERT.pinned_least - SESSION_CELLS)
    return replace(EXPERT, columns=tuple(column for column in EXPERT.columns if column.name != "session"))


def expert_rows(findings: pl.DataFrame, *, unfolded: bool = False) -> pl.DataFrame:
    """The rows of the view: one per finding, then one for all rules that do not apply and one for all clean ones.

    Args:
        findings: `tui.analysis.expert.findings.findings`.
        unfolded: Also show why rules do not apply, a row per reason, and each clean rule.

    Returns:
        The columns of `findings`, with verdict, rules, message and all_rules (of rows that stand for several).
    """
    found = findings.filter(pl.col("state") == State.FOUND.value).with_columns(
        pl.col("severity").fill_null("says").alias("verdict"),
        pl.coalesce("rule", "tool").alias("rules"),
        pl.col("problem").alias("message"),
    )
    inapplicable = (
        findings.filter(pl.col("state") == State.NOT_APPLICABLE.value)
        .group_by("reason", maintain_order=True)
        .agg(
            pl.col("rule").unique(maintain_order=True).str.join(" ").alias("all_rules"),
            pl.when(pl.col("session").n_unique() == 1).then(pl.col("session").first()).alias("session"),
            pl.col("state", "tool").first(),
            pl.col("rule").n_unique().alias("number"),
        )
        .sort("number", descending=True, maintain_order=True)
        .with_columns(
            pl.lit(State.NOT_APPLICABLE.value).alias("verdict"),
            pl.col("reason").alias("message"),
            pl.when(pl.col("number") <= FEW)
            .then("all_rules")
            .otherwise(pl.format("{} rules", "number"))
            .alias("rules"),
        )
    )
    clean = findings.filter(pl.col("state") == State.CLEAN.value)
    rules = clean_rules(findings)
    partly = clean["rule"].n_unique() - len(rules)
    of_some = f", {partly} more in some sessions" if partly else ""
    heading = pl.DataFrame(
        {
            "state": FOLDED,
            "verdict": State.CLEAN.value,
            "rules": f"{len(rules)} rules",
            "all_rules": " ".join(rules),
            "message": f"{len(rules)} rules found nothing{of_some}. Enter: show or hide.",
        }
    )
    open_rules = findings.filter(pl.col("state") == State.NOT_APPLICABLE.value)["rule"].unique(maintain_order=True)
    number = open_rules.len()
    not_applicable = pl.DataFrame(
        {
            "state": FOLDED,
            "verdict": State.NOT_APPLICABLE.value,
            "rules": f"{number} rule{'s' if number != 1 else ''}",
            "all_rules": " ".join(open_rules),
            "message": f"{number} rule{' does' if number == 1 else 's do'} not apply here. Enter: show or hide.",
        }
    )
    each = clean.with_columns(
        pl.lit(State.CLEAN.value).alias("verdict"), pl.col("rule").alias("rules"), pl.col("reason").alias("message")
    )
    reasons = inapplicable.drop("number")
    parts = [
        found,
        not_applicable.head(inapplicable.height),
        reasons if unfolded else reasons.clear(),
        heading.head(clean.height),
        each if unfolded else each.clear(),
    ]
    return pl.concat(parts, how="diagonal_relaxed")


def leads(findings: pl.DataFrame) -> pl.DataFrame:
    """The first finding of each cause, with all_rules: the rules that found the same cause, itself first.

    Args:
        findings: `tui.analysis.expert.findings.findings`.
    """
    found = findings.filter(pl.col("state") == State.FOUND.value)
    cause = pl.coalesce("cause", pl.format("{}: {}", "tool", "problem")).alias("of_cause")
    rules = (
        found.group_by(cause, maintain_order=True)
        .agg(pl.col("rule").drop_nulls().unique(maintain_order=True))
        .select("of_cause", pl.col("rule").list.join(" ").alias("all_rules"))
    )
    return (
        found.filter("is_lead").with_columns(cause).join(rules, on="of_cause", how="left", maintain_order="left")
    ).drop("of_cause")


def summary(findings: pl.DataFrame) -> str:
    """How many causes were found by severity, and how many rules do not apply or are clean, in words."""
    severities = leads(findings)["severity"].to_list()
    parts = [
        f"{number} {severity.value}{'s' if number > 1 and severity is not Severity.INFO else ''}"
        for severity in Severity
        if (number := severities.count(severity.value))
    ]
    numbers = counts(findings)
    tools = findings.filter(pl.col("severity").is_null() & (pl.col("state") == State.FOUND.value))["tool"].unique()
    parts += [f"{numbers['says']} of {', '.join(tools.sort())}"] if numbers["says"] else []
    rest = [
        (State.NOT_APPLICABLE.value, State.NOT_APPLICABLE.value),
        (PARTLY_APPLICABLE, PARTLY_APPLICABLE),
        (State.CLEAN.value, "clean"),
    ]
    parts = parts or ["nothing found"]
    return ", ".join([*parts, *(f"{numbers[key]} {name}" for key, name in rest if numbers[key])])


IDLE_RULES: Final = ("U1", "U2", "U3", "U6", "U7", "U9", "U10")
"""Rules of idle time: what is behind them are gaps."""


def gap_of(row: Mapping[str, Any]) -> Gap | None:
    """The longest gap of a finding; None where it is not of gaps.

    Args:
        row: Of `findings` or `expert_rows`.
    """
    rows = json.loads(row["evidence"] or "[]") if row["session"] is not None else []
    if not rows or not {"device", "start_ns", "gap_ns"} <= set(rows[0]):
        return None
    return Gap(row["session"], rows[0]["device"], rows[0]["start_ns"], rows[0]["gap_ns"])


def counts(findings: pl.DataFrame) -> Mapping[str, int]:
    """How many findings there are of each severity, and how many rules do not apply or are clean.

    Each rule counts once, for its answers in all sessions: clean where it found nothing in any and applies to one, not
    applicable where it applies to none, partly applicable where it applies to some.

    Keys: error, warning, info, not applicable, partly applicable, clean, says (findings of tools without a severity).
    """
    rows = findings.filter(pl.col("state") == State.FOUND.value)
    by_severity = dict(rows.group_by(pl.col("severity").fill_null("says")).len().iter_rows())
    applicable, inapplicable = _rules(findings, State.FOUND, State.CLEAN), _rules(findings, State.NOT_APPLICABLE)
    return {
        **{severity.value: by_severity.get(severity.value, 0) for severity in Severity},
        State.NOT_APPLICABLE.value: len(inapplicable - applicable),
        PARTLY_APPLICABLE: len(inapplicable & applicable),
        State.CLEAN.value: len(clean_rules(findings)),
        "says": by_severity.get("says", 0),
    }


def clean_rules(findings: pl.DataFrame) -> list[str]:
    """The rules that found nothing in any session and apply to one."""
    found = _rules(findings, State.FOUND)
    clean = findings.filter(pl.col("state") == State.CLEAN.value)["rule"].unique(maintain_order=True)
    return [rule for rule in clean if rule not in found]


def _rules(findings: pl.DataFrame, *states: State) -> set[str]:
    """The rules that answer so for any session."""
    rows = findings.filter(pl.col("state").is_in([state.value for state in states]))
    return set(rows["rule"].drop_nulls())
