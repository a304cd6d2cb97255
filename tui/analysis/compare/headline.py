"""The whole of two profiles in a few figures, and whether the second is slower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.api import api
from tui.analysis.gpu_time.intervals import busy_time
from tui.analysis.inputs.capabilities import how_to_record
from tui.analysis.inputs.needs import GPU_WORK, METRICS, START_TIMES
from tui.analysis.inputs.recording import records_copies
from tui.analysis.iterations.tables import iterations
from tui.analysis.kernels import kernels
from tui.analysis.tensor_cores.efficiency import tensor_core_time, tensor_core_use
from tui.fmt import NULL, column_unit, format_value, percent, signed
from tui.model.columns import Column, ColumnKind
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.analysis.compare.sides import Side, Sides

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
    ),
    key=("figure",),
    pinned="figure",
)
JUDGED: Final = ("median_iteration_ns", "span_ns", "gpu_ns")
"""Figures that can tell whether a profile is slower, the best first."""
_KINDS: Final = (("kernel", "Kernel time"), ("memcpy", "Copy time"), ("memset", "Memset time"))


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of both sides."""

    name: str
    label: str
    kind: ColumnKind
    before: float | None
    now: float | None

    @property
    def words(self) -> str:
        """The label within a sentence."""
        return self.label if self.label[:2].isupper() else f"{self.label[:1].lower()}{self.label[1:]}"

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
    """`headline` as the rows of `HEADLINE`."""
    return pl.DataFrame(
        [(figure.label, *figure.texts, figure.delta_pct) for figure in headline(sides)],
        schema={**dict.fromkeys(("figure", "before", "now", "diff"), pl.String), "diff_pct": pl.Float64},
        orient="row",
    )


def headline(sides: Sides) -> tuple[Figure, ...]:
    """The figures that sum two profiles up; sums are per iteration where the sides are, as `Sides.why` says.

    Times of iterations are over the iterations of all sessions; spans of sessions do not add up, and are told where
    each side has one. GPU busy is a share: of the time of the iterations, else of the spans. A kind of GPU work that
    neither side has is left out.
    """
    one, other = (_of(side) for side in (sides.a, sides.b))
    none = {f"{kind}_ns" for kind, _ in _KINDS if not one.get(f"{kind}_ns") and not other.get(f"{kind}_ns")}
    return tuple(
        Figure(name, label, kind, one.get(name), other.get(name))
        for name, label, kind in _FIGURES
        if (name in one or name in other) and name not in none
    )


def tensor_cores_apart(sides: Sides) -> str:
    """A sentence where the time on tensor cores is known of one side alone: why, and what records it; else empty."""
    uses = [tensor_core_use(tensor_core_time(side.profile)) for side in (sides.a, sides.b)]
    known = [use.share_pct is not None for use in uses]
    if known[0] == known[1]:
        return ""
    when, side, use = ("now", sides.b, uses[1]) if known[0] else ("before", sides.a, uses[0])
    why = use.reason or f"kernel names leave {percent(use.unknown_pct)} of the kernel time open"
    need = GPU_WORK if not use.kernel_ns else START_TIMES if use.untimed else METRICS
    how = "" if use.reason and need is METRICS else f": {how_to_record(side.profile, need)}"
    return f"Time on tensor cores {when} is unknown: {why}{how}."


_FIGURES: Final = (
    ("avg_iteration_ns", "Average iteration", K.DURATION),
    ("median_iteration_ns", "Median iteration", K.DURATION),
    ("p95_iteration_ns", "95th percentile", K.DURATION),
    ("span_ns", "Span", K.DURATION),
    ("busy_pct", "GPU busy", K.PERCENT),
    ("gpu_ns", "GPU time", K.DURATION),
    *((f"{kind}_ns", label, K.DURATION) for kind, label in _KINDS),
    ("launches", "Kernel launches", K.COUNT),
    ("tc_share_pct", "Time on tensor cores", K.PERCENT),
    ("api_ns", "API time", K.DURATION),
    ("api_calls", "API calls", K.COUNT),
)


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
        figures: From `headline`.
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
    others = [figure for figure in figures if figure.kind is K.DURATION and (figure.before, figure.now) != own]
    longer = tuple(figure for figure in others if (figure.delta_pct or 0) > than_pct)
    return Judgement(known[0], than_pct, longer)


def _of(side: Side) -> dict[str, float]:
    """The figures of one side that are known."""
    profile = side.profile
    work, calls = kernels(profile), api(profile)
    of_kinds = {kind: work.filter(pl.col("kind") == kind) for kind, _ in _KINDS}
    use = tensor_core_use(tensor_core_time(profile))
    found: dict[str, float | None] = {
        "gpu_ns": _sum(side, work, "total_ns"),
        "launches": _of_kind(side, work, of_kinds["kernel"], "calls"),
        "tc_share_pct": use.share_pct,
        "api_ns": _sum(side, calls, "total_ns"),
        "api_calls": _sum(side, calls, "calls"),
        **{f"{kind}_ns": _of_kind(side, work, rows, "total_ns") for kind, rows in of_kinds.items()},
    }
    if side.iterations:
        times = iterations(profile).drop_nulls(["iteration", "duration_ns"])
        taken = times["duration_ns"]
        found |= {
            "avg_iteration_ns": _number(taken.mean()),
            "median_iteration_ns": _number(taken.median()),
            "p95_iteration_ns": _number(taken.quantile(0.95, "linear")),
            "busy_pct": _share(times["busy_ns"], taken),
        }
    else:
        busy = busy_time(profile)
        span = busy["span_ns"] if busy["session"].n_unique() == 1 else None
        found |= {
            "span_ns": None if span is None else _number(span.max()),
            "busy_pct": _share(busy["busy_ns"], busy["span_ns"]),
        }
    return {name: value for name, value in found.items() if value is not None}


def _of_kind(side: Side, work: pl.DataFrame, rows: pl.DataFrame, column: str) -> float | None:
    """A sum over the work of a kind: 0 where there is other work alone, and this would have been recorded with it."""
    if rows.is_empty() and work.height and records_copies(side.profile):
        return 0.0
    return _sum(side, rows, column)


def _sum(side: Side, rows: pl.DataFrame, column: str) -> float | None:
    """A sum over sessions, each divided by its iterations; unknown where the part of any row is."""
    if rows.is_empty() or rows[column].null_count():
        return None
    if not side.iterations:
        return float(rows[column].sum())
    divided = rows.join(side.divisors, on="session", how="left")
    parts = divided[column] / divided["per"]
    return None if parts.null_count() else float(parts.sum())


def _share(part: pl.Series, whole: pl.Series) -> float | None:
    total = float(whole.sum())
    return 100 * float(part.sum()) / total if total and part.null_count() == 0 else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
