"""Whether the candidate is slower than the baseline, by how much and why, and how much iterations vary anyway."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tui.analysis.expert.findings import LARGE_PCT, OURS, findings
from tui.analysis.expert.findings_table import leads
from tui.analysis.expert.rule import Cause
from tui.analysis.expert.words import duration, percent
from tui.analysis.iterations.iteration_table import iterations
from tui.model.columns import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.analysis.compare.headline import Figure
    from tui.analysis.compare.sides import Side, Sides

OF_ITERATIONS: Final = "median_iteration_ns"
JUDGED: Final = (OF_ITERATIONS, "span_ns", "gpu_ns")
"""Figures that decide whether a profile is slower, the best first."""
MIN_SPREAD: Final = 4
"""The minimum number of iterations for a middle half."""
DEFAULT_PCT: Final = 5.0
"""By how much a candidate may be slower where no limit is given."""
UNCHANGED_PCT: Final = 1.0
"""A smaller difference is no change."""
_POINTS: Final = 3.0
"""A change of the busy share by fewer points is not worth words."""


class Outcome(StrEnum):
    """What a comparison comes to."""

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
    """The first of `JUDGED` that both sides have."""
    than_pct: float
    """It is slower where this figure is more by a larger share than this."""
    others: tuple[Figure, ...]
    """Times that are not judged, and longer by a larger share all the same."""

    @property
    def outcome(self) -> Outcome:
        """What it comes to."""
        if self.fails:
            return Outcome.FAIL
        return Outcome.NO_CHANGE if abs(self.figure.delta_pct or 0) < UNCHANGED_PCT else Outcome.PASS

    @property
    def fails(self) -> bool:
        """Whether it is slower."""
        return (self.figure.delta_pct or 0) > self.than_pct


def judged(figures: Sequence[Figure], than_pct: float) -> Judgment | None:
    """Judge whether the second profile took longer by more than a share of the first.

    Args:
        figures: From `tui.analysis.compare.headline.headline`.
        than_pct: The share, in per cent.

    Returns:
        None where there is no figure to judge by that both sides have.
    """
    by_name = {figure.name: figure for figure in figures}
    known = [by_name[name] for name in JUDGED if name in by_name and by_name[name].delta_pct is not None]
    if not known:
        return None
    # Of one iteration the average is the median.
    own = (known[0].baseline, known[0].candidate)
    others = [
        figure
        for figure in figures
        if figure.kind is ColumnKind.DURATION and (figure.baseline, figure.candidate) != own
    ]
    longer = tuple(figure for figure in others if (figure.delta_pct or 0) > than_pct)
    return Judgment(known[0], than_pct, longer)


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
        """Whether the middle halves of both have a duration in common."""
        if self.low_ns is None or self.high_ns is None or other.low_ns is None or other.high_ns is None:
            return False
        return self.low_ns <= other.high_ns and other.low_ns <= self.high_ns


def spread(side: Side) -> IterationSpread:
    """The middle half of the iterations of a side that is compared per iteration; percentiles are interpolated."""
    taken = iterations(side.profile).drop_nulls(["iteration", "duration_ns"])["duration_ns"]
    if taken.len() < MIN_SPREAD:
        return IterationSpread(taken.len(), None, None)
    return IterationSpread(taken.len(), taken.quantile(0.25, "linear"), taken.quantile(0.75, "linear"))


def verdict_sentence(sides: Sides, figures: Sequence[Figure], *, gpu: str | None = None) -> str:
    """What changed, as a sentence: by how much, in which work, and what limits the candidate now.

    Such as ``REGRESSION +23% (median iteration, 33.2 ms to 41 ms). GPU work -50%, GPU busy 95 to 38%: now
    launch-bound.`` Empty where no time is known of both.

    Args:
        sides: What is compared.
        figures: From `tui.analysis.compare.headline.headline`.
        gpu: The name of the GPU, as the user gives it.
    """
    judgment = judged(figures, DEFAULT_PCT)
    if judgment is None or (sides.in_part and not sides.per_iteration):
        return ""
    figure = judgment.figure
    change = figure.delta_pct or 0.0
    what = "NO CHANGE" if abs(change) < UNCHANGED_PCT else "REGRESSION" if change > 0 else "IMPROVEMENT"
    times = f"{duration(figure.baseline or 0)} to {duration(figure.candidate or 0)}"
    sentence = f"{what} {_signed(change)} ({figure.words}, {times})."
    by_name = {one.name: one for one in figures}
    work, busy = by_name.get("gpu_ns"), by_name.get("busy_pct")
    parts = []
    if work is not None and work is not figure and abs(work.delta_pct or 0) >= UNCHANGED_PCT:
        parts.append(f"GPU work {_signed(work.delta_pct or 0)}")
    both = None if busy is None or busy.baseline is None or busy.candidate is None else (busy.baseline, busy.candidate)
    if both is not None and abs(both[1] - both[0]) >= _POINTS:
        parts.append(f"GPU busy {percent(both[0]).removesuffix('%')} to {percent(both[1])}")
    if not parts:
        return sentence
    return f"{sentence} {', '.join(parts)}{_limit(sides, gpu) if what != 'NO CHANGE' else ''}."


def _limit(sides: Sides, gpu: str | None) -> str:
    """What limits the candidate and did not limit the baseline, as the end of a sentence; empty where nothing new."""
    baseline, candidate = (_first_cause(side, gpu) for side in (sides.a, sides.b))
    if not candidate or candidate == baseline:
        return ""
    return f": now {candidate}" if candidate == Cause.LAUNCH_BOUND else f"; largest cost now: {candidate}"


def _first_cause(side: Side, gpu: str | None) -> str:
    """The most expensive cause that the rules find on a side, where it costs much of the time."""
    first = leads(findings(side.profile, gpu=gpu)).head(1)
    if first.is_empty() or first["tool"][0] != OURS or (first["cost_pct"][0] or 0) < LARGE_PCT:
        return ""
    return str(first["cause"][0])


def _signed(change: float) -> str:
    """A change in percent, with its sign; without one where it is too small to be written."""
    text = percent(abs(change))
    return text if text.startswith("<") else f"{'+' if change > 0 else '-' if change < 0 else ''}{text}"
