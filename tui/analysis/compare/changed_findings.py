"""What the rules of the Expert System find on one side and not on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert.findings import OURS, findings
from tui.analysis.expert.model import State
from tui.model.columns import Column, ColumnKind
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.analysis.compare.sides import Sides
    from tui.model.profile import Profile

K = ColumnKind
_SAID: Final = ("before", "now")

CHANGED_FINDINGS: Final = TableSpec(
    "changed_findings",
    "Findings",
    (
        Column("change", "Change", K.TEXT, "new, removed, or empty where both sides have it.", 1),
        Column("severity", "Severity", K.TEXT, "error, warning or info.", 2),
        Column("rule", "Rule", K.TEXT, "The rule of the Expert System.", 3),
        Column("before", "Baseline", K.TEXT, "What the rule found in the baseline.", 1, compared_with=_SAID),
        Column("now", "Candidate", K.TEXT, "What the rule found in the candidate.", 1, compared_with=_SAID),
    ),
    key=("rule",),
    pinned="now",
    pinned_least=30,
)
_CLEAN: Final = "clean"


def changed_findings(sides: Sides, *, gpu: str | None = None) -> pl.DataFrame:
    """The rules that found something on either side: what is new first, then what is removed, then the rest.

    Columns: change (new, removed or empty), severity (of what the candidate has, else the baseline), rule, before and
    now: what it found in the baseline and the candidate (of several sessions the first, and how many more), else
    ``clean``, or ``not applicable:`` and why. What does not apply to one side is neither new nor removed.
    """
    one, other = (_by_rule(side.profile, gpu) for side in (sides.a, sides.b))
    rows = one.join(other, on="rule", suffix="_now", maintain_order="left").filter(
        (pl.col("state") == State.FOUND.value) | (pl.col("state_now") == State.FOUND.value)
    )
    clean = pl.lit(State.CLEAN.value)
    rank = {"new": 0, "removed": 1, "": 2}
    change = (
        pl.when(pl.col("state") == clean)
        .then(pl.lit("new"))
        .when(pl.col("state_now") == clean)
        .then(pl.lit("removed"))
        .otherwise(pl.lit(""))
    )
    grave = {"error": 0, "warning": 1, "info": 2}
    return (
        rows.with_columns(
            change.alias("change"),
            pl.coalesce("severity_now", "severity").alias("severity"),
        )
        .sort(
            pl.col("change").replace_strict(rank, return_dtype=pl.Int8),
            pl.col("severity").replace_strict(grave, default=9, return_dtype=pl.Int8),
            maintain_order=True,
        )
        .select("change", "severity", "rule", pl.col("said").alias("before"), pl.col("said_now").alias("now"))
    )


def _by_rule(profile: Profile, gpu: str | None) -> pl.DataFrame:
    """One row per rule of ours: rule, state (found where any session has it), severity, said."""
    ours = findings(profile, gpu=gpu).filter(pl.col("tool") == OURS)
    first = ours.group_by("rule", maintain_order=True).agg(
        pl.col("state", "severity", "problem", "reason").first(),
        (pl.col("state") == State.FOUND.value).sum().alias("found"),
    )
    more = pl.when(pl.col("found") > 1).then(pl.format(" (and {} more)", pl.col("found") - 1)).otherwise(pl.lit(""))
    return first.select(
        "rule",
        "state",
        "severity",
        pl.when(pl.col("state") == State.FOUND.value)
        .then(pl.col("problem") + more)
        .when(pl.col("state") == State.CLEAN.value)
        .then(pl.lit(_CLEAN))
        .otherwise(pl.format("not applicable: {}", "reason"))
        .alias("said"),
    )
