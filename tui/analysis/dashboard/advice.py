"""What is wrong, in a few words: the most expensive causes that the rules found, and where to start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert.findings import findings
from tui.analysis.expert.findings_table import counts, leads, summary
from tui.analysis.expert.model import Severity, State
from tui.fmt import count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile

GRAVEST: Final = 3
"""So many findings are shown."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What the rules found, in short."""

    counts: Mapping[str, int]
    """Number of findings by severity, and of rules that are clean or could not be told (`findings_table.counts`)."""

    gravest: pl.DataFrame
    """The first finding of each of the `GRAVEST` most expensive causes: rows of `findings_table.leads`."""

    guidance: str
    """What to do first, about the most expensive cause; or why there is nothing to say."""

    summary: str
    """How many causes there are of each severity, in words."""

    reasons: frozenset[str]
    """Why rules do not apply."""


def advice(profile: Profile, *, gpu: str | None = None) -> Advice:
    """The most expensive findings, at most one a cause, and where to start.

    Args:
        profile: What was read.
        gpu: The name of the GPU, as the user gives it.
    """
    rows = findings(profile, gpu=gpu)
    numbers = counts(rows)
    first = leads(rows).head(GRAVEST)
    reasons = rows.filter(pl.col("state") == State.CANNOT_TELL.value)["reason"].drop_nulls()
    return Advice(numbers, first, _guidance(first, numbers), summary(rows), frozenset(reasons))


def _guidance(first: pl.DataFrame, numbers: Mapping[str, int]) -> str:
    clean, not_applicable = numbers[State.CLEAN.value], numbers[State.CANNOT_TELL.value]
    if first.height:
        row = first.row(0, named=True)
        if row["severity"] == Severity.INFO.value:
            return "No large cost found."
        return f"Start here: {row['recommendation'] or row['problem']}"
    if clean:
        found_nothing = f"{count(clean)} rule{'s' if clean != 1 else ''} found nothing"
        return f"{found_nothing}; {count(not_applicable)} do not apply to this profile."
    return "No rule applies to this profile." if not_applicable else ""
