"""Whether the second profile is slower than the first, and how far iterations lie apart anyway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tui.analysis.iterations.tables import iterations
from tui.model.columns import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.analysis.compare.headline import Figure
    from tui.analysis.compare.sides import Side

OF_ITERATIONS: Final = "median_iteration_ns"
JUDGED: Final = (OF_ITERATIONS, "span_ns", "gpu_ns")
"""Figures that can tell whether a profile is slower, the best first."""
LEAST_SPREAD: Final = 4
"""Of fewer iterations a middle half says nothing."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether the second profile is slower, by one figure."""

    figure: Figure
    """The first of `JUDGED` that both sides have."""
    than_pct: float
    """It is slower where this figure is more by a larger share than this."""
    others: tuple[Figure, ...]
    """Times that are not judged, and longer by a larger share all the same."""

    @property
    def fails(self) -> bool:
        """Whether it is slower."""
        return (self.figure.delta_pct or 0) > self.than_pct


def judged(figures: Sequence[Figure], than_pct: float) -> Judgement | None:
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
    own = (known[0].before, known[0].now)
    others = [figure for figure in figures if figure.kind is ColumnKind.DURATION and (figure.before, figure.now) != own]
    longer = tuple(figure for figure in others if (figure.delta_pct or 0) > than_pct)
    return Judgement(known[0], than_pct, longer)


@dataclass(frozen=True, slots=True)
class Spread:
    """How far the iterations of a side lie apart."""

    iterations: int
    """How many have a duration."""
    low_ns: float | None
    """The 25th percentile of their durations; None of fewer than `LEAST_SPREAD`."""
    high_ns: float | None
    """The 75th."""

    def overlaps(self, other: Spread) -> bool:
        """Whether the middle halves of both have a duration in common."""
        if self.low_ns is None or self.high_ns is None or other.low_ns is None or other.high_ns is None:
            return False
        return self.low_ns <= other.high_ns and other.low_ns <= self.high_ns


def spread(side: Side) -> Spread:
    """The middle half of the iterations of a side that is compared per iteration; percentiles are interpolated."""
    taken = iterations(side.profile).drop_nulls(["iteration", "duration_ns"])["duration_ns"]
    if taken.len() < LEAST_SPREAD:
        return Spread(taken.len(), None, None)
    return Spread(taken.len(), taken.quantile(0.25, "linear"), taken.quantile(0.75, "linear"))
