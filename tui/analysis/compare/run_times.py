"""Times of several runs of the same thing, and which changes between two sets of runs are more than noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.compare.headline import Outcome
from tui.analysis.gpu_time.idle_gaps import busy_time
from tui.analysis.iterations.iteration_table import iterations, sources, with_iterations
from tui.analysis.iterations.work import iteration_of_activities
from tui.analysis.kernels import kernels
from tui.analysis.sessions import replayed_sessions, without_sessions

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Floats = npt.NDArray[np.float64]

ITERATION, RUN, GPU = "iteration", "run", "gpu work"
"""What a time is of, if not of a kernel, a copy or a memset of some name."""
_WHOLE_RUN: Final = "whole run"

SCHEMA: Final = pl.Schema(
    {
        "run": pl.UInt16,
        "file": pl.String,
        "gpu": pl.String,
        "session": pl.UInt32,
        "iteration": pl.Int32,
        "what": pl.String,
        "name": pl.String,
        "time_ns": pl.Int64,
    }
)
"""A time of a run: of an iteration, or where ``iteration`` is null of the whole run."""

LEVEL: Final = 0.95
REPLICATES: Final = 1_000
MAX_DRAWN: Final = 60
"""Iterations that are drawn of a run in a replicate."""
SEED: Final = 20_261
"""The same runs give the same interval each time."""
MIN_SHARE: Final = 0.01
"""Kernels below this share of GPU time on both sides are not judged."""
MIN_COMMON: Final = 5
"""Of fewer kernels nothing can be told to be common to all."""
STUDENT: Final = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""The 97.5% quantiles of Student's t by degrees of freedom, from 1."""
NORMAL: Final = 1.96
BATCH: Final = 250
"""Replicates that are drawn at once."""


def run_times(profile: Profile, run: int, file: str) -> pl.DataFrame:
    """The times of one run, as `SCHEMA`: its iterations, and the whole run, each with its GPU work by name.

    Args:
        profile: What was read; sessions that Nsight Compute replayed take no part.
        run: Its number.
        file: What it is called.
    """
    profile = with_iterations(without_sessions(profile, replayed_sessions(profile)))
    names = [name for name in profile["devices"]["name"].unique().sort().to_list() if name]
    parts = [*_iteration_times(profile), *_whole_run_times(profile)]
    found = pl.concat([pl.DataFrame(schema=SCHEMA), *parts], how="diagonal_relaxed")
    return found.with_columns(
        pl.lit(run, pl.UInt16).alias("run"),
        pl.lit(file).alias("file"),
        pl.lit(", ".join(names) or profile.gpu, pl.String).alias("gpu"),
    ).cast(SCHEMA)


def _iteration_times(profile: Profile) -> list[pl.DataFrame]:
    """Nothing where a session has no iterations."""
    known = sources(profile)
    with_work = set(profile["activities"]["session"].unique().to_list())
    if not with_work or any(known.get(session, _WHOLE_RUN) == _WHOLE_RUN for session in with_work):
        return []
    counted = iterations(profile).drop_nulls(["iteration", "duration_ns"]).select("session", "iteration", "duration_ns")
    work = (
        profile["activities"]
        .select("session", pl.col("kind").cast(pl.String), pl.col("name").cast(pl.String), "duration_ns")
        .with_columns(iteration_of_activities(profile).alias("iteration"))
        .drop_nulls("iteration")
        .group_by("session", "iteration", pl.col("kind").alias("what"), "name")
        .agg(pl.col("duration_ns").sum().alias("time_ns"))
    )
    keys = ["session", "iteration"]
    of_gpu = work.group_by(keys).agg(pl.col("time_ns").sum()).with_columns(pl.lit(GPU).alias("what"))
    times = counted.rename({"duration_ns": "time_ns"}).with_columns(pl.lit(ITERATION).alias("what"))
    return [times, of_gpu.join(counted.select(keys), on=keys), work.join(counted.select(keys), on=keys)]


def _whole_run_times(profile: Profile) -> list[pl.DataFrame]:
    busy = busy_time(profile).drop_nulls("span_ns")
    spans = busy.group_by("session").agg(pl.col("span_ns").max().alias("time_ns"))
    work = kernels(profile).select(
        "session", pl.col("kind").cast(pl.String).alias("what"), pl.col("name").cast(pl.String), "total_ns"
    )
    work = work.rename({"total_ns": "time_ns"}).drop_nulls("time_ns")
    of_gpu = work.group_by("session").agg(pl.col("time_ns").sum()).with_columns(pl.lit(GPU).alias("what"))
    return [spans.with_columns(pl.lit(RUN).alias("what")), of_gpu, work]


@dataclass(frozen=True, slots=True)
class Interval:
    """A median (the mean of those of several runs), and between what it lies with a certainty of `LEVEL`."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Change:
    """A time on both sides, and by how much it changed."""

    what: str
    name: str
    baseline: Interval
    """Nanoseconds."""
    candidate: Interval
    change_pct: Interval
    """In per cent of the baseline."""
    share: float
    """Of the GPU time, on the side where it is larger; of times that are no such work 1."""

    @property
    def is_noise(self) -> bool:
        """Whether it may be as it was."""
        return self.change_pct.low <= 0 <= self.change_pct.high


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sets of runs."""

    runs: tuple[int, int]
    """How many of each side."""
    samples: tuple[int, int]
    """How many iterations of each side; of whole runs as many as sessions."""
    per_iteration: bool
    totals: tuple[Change, ...]
    """The iteration or run, and all GPU work."""
    work: tuple[Change, ...]
    """GPU work by name, the largest change in time first; what all of it has in common is taken out."""
    common_pct: float | None
    """By how much GPU work by name changed in common; None where it is not taken out."""
    unmatched: tuple[tuple[str, ...], tuple[str, ...]]
    """Names of at least `MIN_SHARE` that are on the baseline's side alone, and on the candidate's."""

    def slower(self, than_pct: float) -> tuple[Change, ...]:
        """What is slower by more than a limit: its whole interval lies above.

        A kernel counts unless all GPU work is shorter: there work may have moved to it.
        """
        total_is_less = any(one.what == GPU and one.change_pct.high < 0 for one in self.totals)
        judged = (*self.totals, *(() if total_is_less else self.work))
        return tuple(one for one in judged if one.change_pct.low > than_pct)

    def outcome(self, than_pct: float) -> Outcome:
        """What it comes to."""
        if self.slower(than_pct):
            return Outcome.FAIL
        changed = [one for one in (*self.totals, *self.work) if not one.is_noise]
        return Outcome.PASS if changed else Outcome.NO_CHANGE


def compared(baseline: pl.DataFrame, candidate: pl.DataFrame) -> Comparison | None:
    """Compare two sets of runs, each as `SCHEMA`; None where they have no time in common.

    Per iteration where every run of both has iterations, else of whole runs.
    """
    both = (baseline, candidate)
    per_iteration = all(_runs(side) == _runs(side.filter(pl.col("what") == ITERATION)) for side in both)
    is_wanted = pl.col("iteration").is_not_null() if per_iteration else pl.col("iteration").is_null()
    both = (baseline.filter(is_wanted), candidate.filter(is_wanted))
    totals = [
        _change(what, "", _values(both[0], what), _values(both[1], what), 1.0)
        for what in (ITERATION if per_iteration else RUN, GPU)
        if all(what in side["what"] for side in both)
    ]
    if not totals:
        return None
    shares = [_shares(side) for side in both]
    judged = {key for of in shares for key, share in of.items() if share >= MIN_SHARE}
    common = sorted(key for key in judged if all(key in of for of in shares))
    counts = [side.select("run", "session", "iteration").unique().height for side in both]
    times, common_pct = _without_common_change([[_filled(side, *key) for key in common] for side in both])
    work = [
        _change(
            *key,
            times[0][place],
            times[1][place],
            max(of[key] for of in shares),
            has_common=common_pct is None,
        )
        for place, key in enumerate(common)
    ]
    work.sort(key=lambda one: (-abs(one.candidate.median - one.baseline.median), one.name))
    gone, new = (
        tuple(sorted(name for what, name in judged if (what, name) in mine and (what, name) not in others))
        for mine, others in (shares, shares[::-1])
    )
    runs = (len(_runs(both[0])), len(_runs(both[1])))
    samples = (counts[0], counts[1])
    return Comparison(runs, samples, per_iteration, tuple(totals), tuple(work), common_pct, (gone, new))


def _runs(side: pl.DataFrame) -> list[int]:
    return side["run"].unique().sort().to_list()


def _shares(side: pl.DataFrame) -> dict[tuple[str, str], float]:
    """The share of each kind and name in the GPU time."""
    work = side.filter(pl.col("name").is_not_null())
    whole = work["time_ns"].sum() or 1
    sums = work.group_by("what", "name").agg(pl.col("time_ns").sum())
    return {(what, name): time / whole for what, name, time in sums.iter_rows()}


def _values(side: pl.DataFrame, what: str) -> list[Floats]:
    """The times of each run."""
    parts = side.filter(pl.col("what") == what).partition_by("run", maintain_order=True)
    return [part["time_ns"].sort().to_numpy().astype(np.float64) for part in parts]


def _filled(side: pl.DataFrame, what: str, name: str) -> list[Floats]:
    """The times of some work in each run; 0 in iterations without it."""
    keys = ["run", "session", "iteration"]
    own = side.filter(pl.col("what") == what, pl.col("name") == name).select(*keys, "time_ns")
    every = side.filter(pl.col("what") == GPU).select(keys)
    times = every.join(own, on=keys, how="left", nulls_equal=True).with_columns(pl.col("time_ns").fill_null(0))
    return _values(times.with_columns(pl.lit(what).alias("what")).sort(keys), what)


def _without_common_change(sides: list[list[list[Floats]]]) -> tuple[list[list[list[Floats]]], float | None]:
    """Times of kernels without what all kernels of a run have in common, as clocks and temperature change them.

    Args:
        sides: Of each side for each kernel the times of each run.

    Returns:
        The times, and by how many per cent kernels of the candidate changed in common; None of fewer than
        `MIN_COMMON` kernels, whose times stay as they are.
    """
    medians = [np.array([[np.median(run) for run in runs] for runs in side]) for side in sides]
    together = np.concatenate(medians, axis=1) if sides[0] else np.zeros((0, 1))
    together = together[(together > 0).all(axis=1)]
    if len(together) < MIN_COMMON:
        return sides, None
    factors = np.median(together / together.mean(axis=1, keepdims=True), axis=0)
    runs = medians[0].shape[1]
    adjusted = [
        [[run / factor for run, factor in zip(times, own, strict=True)] for times in side]
        for side, own in zip(sides, (factors[:runs], factors[runs:]), strict=True)
    ]
    return adjusted, 100 * (float(factors[runs:].mean() / factors[:runs].mean()) - 1)


def _change(
    what: str,
    name: str,
    baseline: Sequence[Floats],
    candidate: Sequence[Floats],
    share: float,
    *,
    has_common: bool = True,
) -> Change:
    """A time on both sides, and by how much it changed.

    Args:
        what: What it is of.
        name: The name of GPU work, else empty.
        baseline: The times of each run.
        candidate: The same.
        share: Of the GPU time.
        has_common: The times hold what runs have in common, as clocks: few runs say little of how that varies, so
            that the interval is wider.
    """
    one, other = _medians(baseline, SEED), _medians(candidate, SEED + 1)
    before, now = _median(baseline), _median(candidate)
    with np.errstate(divide="ignore", invalid="ignore"):
        replicates = np.nan_to_num(100 * (other / one - 1), nan=0.0, posinf=np.inf)
    change = 100 * (now / before - 1) if before else 0.0 if not now else float("inf")
    freedom = [len(baseline) - 1, len(candidate) - 1]
    widenings = [_widening(of) if has_common else 1.0 for of in (*freedom, sum(freedom))]
    return Change(
        what,
        name,
        _interval(before, one, widenings[0]),
        _interval(now, other, widenings[1]),
        _interval(change, replicates, widenings[2]),
        share,
    )


def _median(runs: Sequence[Floats]) -> float:
    """The mean over runs of the median of each."""
    return float(np.mean([np.median(run) for run in runs]))


def _widening(freedom: int) -> float:
    """How much wider the interval of few runs is than that of many; of single runs nothing is known of others."""
    if freedom <= 0:
        return 1.0
    return (STUDENT[freedom - 1] if freedom <= len(STUDENT) else NORMAL + 2.4 / freedom) / NORMAL


def _interval(median: float, replicates: Floats, widening: float) -> Interval:
    edge = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(replicates, [edge, 100 - edge])
    below, above = max(0.0, median - float(low)), max(0.0, float(high) - median)
    return Interval(median, median - widening * below, median + widening * above)


def _medians(runs: Sequence[Floats], seed: int) -> Floats:
    """`_median` of each bootstrap replicate: runs are drawn, then as many iterations of each, with replacement."""
    random = np.random.default_rng(seed)
    drawn = min(MAX_DRAWN, max(map(len, runs)))
    lengths = np.array([len(run) for run in runs])
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    values = np.concatenate(runs)
    parts = []
    for _ in range(REPLICATES // BATCH):
        chosen = random.integers(len(runs), size=(BATCH, len(runs), 1))
        places = (random.random((BATCH, len(runs), drawn)) * lengths[chosen]).astype(np.int64) + starts[chosen]
        parts.append(np.median(values[places], axis=2).mean(axis=1))
    medians: Floats = np.concatenate(parts)
    return medians
