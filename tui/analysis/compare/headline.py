"""The whole of two profiles in a few figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.compare.absence import KINDS
from tui.analysis.compare.figures import figures_of
from tui.fmt import NULL, column_unit, format_value, signed
from tui.model.columns import COLUMNS, Column, ColumnKind
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.analysis.compare.sides import Sides

K = ColumnKind
HEADLINE: Final = TableSpec(
    "headline",
    "Summary",
    (
        Column("figure", "Figure", K.TEXT, "A figure that sums the profile up.", 1),
        Column("before", "Before", K.TEXT, "Of the first profile.", 1, ends_right=True),
        Column("now", "Now", K.TEXT, "Of the second profile.", 1, ends_right=True),
        Column("diff", "Diff", K.TEXT, "Now less before.", 1, ends_right=True),
        Column("diff_pct", "Diff%", K.PERCENT, "The difference as a share of what was before.", 1, is_signed=True),
        Column(
            "untold",
            COLUMNS["untold"].title,
            K.TEXT,
            "Why a figure is unknown, and what records it; of a known one what it leaves out.",
            3,
        ),
    ),
    key=("figure",),
    pinned="figure",
)
FIGURES: Final = (
    ("avg_iteration_ns", "Average iteration", K.DURATION),
    ("median_iteration_ns", "Median iteration", K.DURATION),
    ("p95_iteration_ns", "95th percentile", K.DURATION),
    ("span_ns", "Span", K.DURATION),
    ("busy_pct", "GPU busy", K.PERCENT),
    ("gpu_ns", "GPU time", K.DURATION),
    ("kernel_ns", "Kernel time", K.DURATION),
    ("memcpy_ns", "Copy time", K.DURATION),
    ("memset_ns", "Memset time", K.DURATION),
    ("launches", "Kernel launches", K.COUNT),
    ("tc_share_pct", "Time on tensor cores", K.PERCENT),
    ("api_ns", "API time", K.DURATION),
    ("api_calls", "API calls", K.COUNT),
)
"""Name, label and kind of every figure, in the order that they are shown."""
_SIDES: Final = ("before", "now")


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of both sides."""

    name: str
    label: str
    kind: ColumnKind
    before: float | None
    now: float | None
    reasons: tuple[str, str] = ("", "")
    """Of each side why it is unknown, and what records it; of a known one what it leaves out. Empty where nothing."""

    @property
    def words(self) -> str:
        """The label within a sentence."""
        return self.label if self.label[:2].isupper() else f"{self.label[:1].lower()}{self.label[1:]}"

    @property
    def untold(self) -> str | None:
        """What is not told of it on either side, as in `tui.analysis.compare.tables.changes`."""
        told = [f"{when}: {why}" for when, why in zip(_SIDES, self.reasons, strict=True) if why]
        return "; ".join(told) or None

    @property
    def delta(self) -> float | None:
        """Now less before."""
        return None if self.before is None or self.now is None else self.now - self.before

    @property
    def delta_pct(self) -> float | None:
        """The difference as a share of what was before; of shares none: their difference is in points."""
        if self.delta is None or not self.before or self.kind is K.PERCENT:
            return None
        return 100 * self.delta / self.before if self.now else -100.0

    @property
    def texts(self) -> tuple[str, str, str]:
        """Before, now and their difference, written for people: of times all three in one unit."""
        delta = NULL if self.delta is None else signed(self._write(self.delta), self.delta)
        points = " points" if self.kind is K.PERCENT and self.delta is not None else ""
        return self._write(self.before), self._write(self.now), delta.replace("%", points) if points else delta

    def _write(self, value: float | None) -> str:
        known = [abs(one) for one in (self.before, self.now) if one is not None]
        unit = column_unit(self.kind, max(known, default=None)) if self.kind is K.DURATION else None
        return format_value(self.kind, value, unit=unit)


def headline_rows(sides: Sides) -> pl.DataFrame:
    """`headline` as the rows of `HEADLINE`, without the column ``untold`` where it would be empty."""
    texts = dict.fromkeys(("figure", "before", "now", "diff"), pl.String)
    rows = pl.DataFrame(
        [(figure.label, *figure.texts, figure.delta_pct, figure.untold) for figure in headline(sides)],
        schema={**texts, "diff_pct": pl.Float64, "untold": pl.String},
        orient="row",
    )
    return rows if rows["untold"].count() else rows.drop("untold")


def headline(sides: Sides) -> tuple[Figure, ...]:
    """The figures that sum two profiles up; sums are per iteration where the sides are, as `Sides.why` says.

    Times of iterations are over the iterations of all sessions; spans of sessions do not add up, and are told where
    each side has one. GPU busy is a share: of the time of the iterations, else of the spans. A kind of GPU work that
    neither side has is left out; where nothing at all is known there are no figures.
    """
    one, other = figures_of(sides.a), figures_of(sides.b)
    none = {f"{kind}_ns" for kind in KINDS if not one[f"{kind}_ns"].value and not other[f"{kind}_ns"].value}
    figures = tuple(
        Figure(name, label, kind, before.value, now.value, (before.untold, now.untold))
        for name, label, kind in FIGURES
        if name not in none and (before := one.get(name)) is not None and (now := other.get(name)) is not None
    )
    return figures if any(figure.before is not None or figure.now is not None for figure in figures) else ()


def untold_words(figures: Iterable[Figure]) -> tuple[str, ...]:
    """A sentence for each reason for which figures are unknown, or leave something out.

    >>> figure = Figure("span_ns", "Span", ColumnKind.DURATION, None, 5.0, ("no start times", ""))
    >>> untold_words([figure])
    ('Span before is unknown: no start times.',)
    """
    by_reason: dict[tuple[str, bool], tuple[list[Figure], list[Figure]]] = {}
    for figure in figures:
        for place, (value, why) in enumerate(zip((figure.before, figure.now), figure.reasons, strict=True)):
            if why:
                by_reason.setdefault((why, value is None), ([], []))[place].append(figure)
    sentences = []
    for (why, is_unknown), (before, now) in by_reason.items():
        same = [("before and now", before)] if before == now else [("before", before), ("now", now)]
        for when, some in same:
            if some:
                is_what = "" if not is_unknown else " are unknown" if len(some) > 1 else " is unknown"
                sentences.append(f"{_listed(some)} {when}{is_what}: {why}.")
    return tuple(sentences)


def _listed(figures: list[Figure]) -> str:
    *first, last = [figures[0].label, *(figure.words for figure in figures[1:])]
    return f"{', '.join(first)} and {last}" if first else last
