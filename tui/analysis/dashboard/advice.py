"""What is wrong, in a few words: how many findings there are, the gravest of them, and where to begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert.findings import findings
from tui.analysis.expert.model import Severity, State
from tui.analysis.expert.view import TOLD_IN_PART, counts
from tui.fmt import count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile

GRAVEST: Final = 3
"""So many findings are told in words."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What the rules found, in short."""

    counts: Mapping[str, int]
    """Number of findings by severity, and of rules that are clean or could not be told (`tui.analysis.expert.view`)."""

    gravest: pl.DataFrame
    """The `GRAVEST` findings, of each rule the gravest and dearest: rows of `tui.analysis.expert.findings.findings`."""

    guidance: str
    """What to do first, from the gravest finding; or why nothing can be said."""

    reasons: frozenset[str]
    """Why rules could not be told."""

    @property
    def summary(self) -> str:
        """How much there is of each, in words."""
        told = [(number, severity.value) for severity in Severity if (number := self.counts[severity.value])]
        words = [f"{count(number)} {name}{'s' if number > 1 and name != 'info' else ''}" for number, name in told]
        if says := self.counts["says"]:
            words.append(f"{count(says)} of the tool's own")
        if untold := self.counts[State.CANNOT_TELL.value]:
            words.append(f"{count(untold)} cannot be told")
        if partly := self.counts[TOLD_IN_PART]:
            words.append(f"{count(partly)} {TOLD_IN_PART}")
        return ", ".join(words)


def advice(profile: Profile, *, gpu: str | None = None) -> Advice:
    """The gravest findings and where to begin.

    Args:
        profile: What was read.
        gpu: The name of the GPU, as the user gives it.
    """
    rows = findings(profile, gpu=gpu)
    numbers = counts(rows)
    found = rows.filter(pl.col("state") == State.FOUND.value)
    gravest = found.unique(pl.coalesce("rule", "problem"), keep="first", maintain_order=True).head(GRAVEST)
    reasons = rows.filter(pl.col("state") == State.CANNOT_TELL.value)["reason"].drop_nulls()
    return Advice(numbers, gravest, _guidance(gravest, numbers), frozenset(reasons))


def _guidance(gravest: pl.DataFrame, numbers: Mapping[str, int]) -> str:
    clean, untold = numbers[State.CLEAN.value], numbers[State.CANNOT_TELL.value]
    if gravest.height:
        first = gravest.row(0, named=True)
        return f"Begin with {first['rule'] or first['tool']}: {first['recommendation'] or first['problem']}"
    if clean:
        found_nothing = f"{count(clean)} rule{'s' if clean != 1 else ''} found nothing"
        return f"{found_nothing}; {count(untold)} cannot be told from this input."
    return "No rule can be told from this input." if untold else ""
