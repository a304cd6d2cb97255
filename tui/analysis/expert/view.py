"""The table of the Expert Systems view: what was found, then what could not be told, then what is clean."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.expert.model import Severity, State
from tui.analysis.timeline.under import Gap
from tui.model.columns import Column, ColumnKind, columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile

FEW: Final = 3
"""So many rules are named in the table; of more, their number."""

FOLDED: Final = "folded"
"""The ``state`` of the row that stands for all clean ones, and above them where they are shown."""

TOLD_IN_PART: Final = "told in part"
"""Of rules that can be told of some sessions and not of others."""

SESSION_CELLS: Final = 9
"""Cells of the column that tells sessions apart, with the blanks before it."""

EXPERT: Final = TableSpec(
    "findings",
    "Findings",
    (
        Column("verdict", "Verdict", ColumnKind.TEXT, "error, warning, info; cannot tell; clean.", 1),
        Column("rules", "Rule", ColumnKind.TEXT, "The rule, or all that could not be told for this reason.", 2),
        Column("message", "What", ColumnKind.TEXT, "What was found, or why nothing can be said.", 1, is_prose=True),
        Column(
            "cost_ns", "Cost", ColumnKind.DURATION, "What it costs at most; its basis is in the details.", 2, ("cost",)
        ),
        replace(columns("session")[0], priority=7),
        *columns("line"),
    ),
    key=("state", "rule", "message", "session"),
    pinned="message",
    pinned_least=40,
)


def spec_for(profile: Profile) -> TableSpec:
    """The table for a profile: sessions are told where there are several."""
    if profile["sessions"].height > 1:
        # The session takes its room from the message, not from the cost.
        return replace(EXPERT, pinned_least=EXPERT.pinned_least - SESSION_CELLS)
    return replace(EXPERT, columns=tuple(column for column in EXPERT.columns if column.name != "session"))


def expert_rows(findings: pl.DataFrame, *, unfolded: bool = False) -> pl.DataFrame:
    """The rows of the view: one per finding, one per reason why rules could not be told, and the clean ones.

    Args:
        findings: `tui.analysis.expert.findings.findings`.
        unfolded: Show each clean rule, below the row for all of them.

    Returns:
        The columns of `findings`, with verdict, rules, message and all_rules (of rows that stand for several).
    """
    found = findings.filter(pl.col("state") == State.FOUND.value).with_columns(
        pl.col("severity").fill_null("says").alias("verdict"),
        pl.coalesce("rule", "tool").alias("rules"),
        pl.col("problem").alias("message"),
    )
    untold = (
        findings.filter(pl.col("state") == State.CANNOT_TELL.value)
        .group_by("reason", maintain_order=True)
        .agg(
            pl.col("rule").unique(maintain_order=True).str.join(" ").alias("all_rules"),
            pl.when(pl.col("session").n_unique() == 1).then(pl.col("session").first()).alias("session"),
            pl.col("state", "tool").first(),
            pl.col("rule").n_unique().alias("number"),
        )
        .sort("number", descending=True, maintain_order=True)
        .with_columns(
            pl.lit(State.CANNOT_TELL.value).alias("verdict"),
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
            "message": f"{len(rules)} rules found nothing{of_some}: enter shows or hides them",
        }
    )
    each = clean.with_columns(
        pl.lit(State.CLEAN.value).alias("verdict"), pl.col("rule").alias("rules"), pl.col("reason").alias("message")
    )
    parts = [found, untold.drop("number"), heading.head(clean.height), each if unfolded else each.clear()]
    return pl.concat(parts, how="diagonal_relaxed")


def gap_of(row: Mapping[str, Any]) -> Gap | None:
    """The longest gap that a finding tells of; None where it is not of gaps.

    Args:
        row: Of `findings` or `expert_rows`.
    """
    rows = json.loads(row["evidence"] or "[]") if row["session"] is not None else []
    if not rows or not {"device", "start_ns", "gap_ns"} <= set(rows[0]):
        return None
    return Gap(row["session"], rows[0]["device"], rows[0]["start_ns"], rows[0]["gap_ns"])


def counts(findings: pl.DataFrame) -> Mapping[str, int]:
    """How many findings there are of each severity, and how many rules could not be told or are clean.

    Each rule counts once, for what it says of all sessions: clean where it found nothing in any and could be told of
    one, not to be told where it could be told of none, told in part where it could be told of some.

    Keys: error, warning, info, cannot tell, told in part, clean, says (findings of tools that give no severity).
    """
    rows = findings.filter(pl.col("state") == State.FOUND.value)
    by_severity = dict(rows.group_by(pl.col("severity").fill_null("says")).len().iter_rows())
    told, untold = _rules(findings, State.FOUND, State.CLEAN), _rules(findings, State.CANNOT_TELL)
    return {
        **{severity.value: by_severity.get(severity.value, 0) for severity in Severity},
        State.CANNOT_TELL.value: len(untold - told),
        TOLD_IN_PART: len(untold & told),
        State.CLEAN.value: len(clean_rules(findings)),
        "says": by_severity.get("says", 0),
    }


def clean_rules(findings: pl.DataFrame) -> list[str]:
    """The rules that found nothing in any session and could be told of one."""
    found = _rules(findings, State.FOUND)
    clean = findings.filter(pl.col("state") == State.CLEAN.value)["rule"].unique(maintain_order=True)
    return [rule for rule in clean if rule not in found]


def _rules(findings: pl.DataFrame, *states: State) -> set[str]:
    """The rules that answer so for any session."""
    rows = findings.filter(pl.col("state").is_in([state.value for state in states]))
    return set(rows["rule"].drop_nulls())
