"""Times of several runs of the same thing, and which changes between two sets of runs are more than noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.compare.headline import Outcome
from tui.analysis.gpu_time.idle_gaps import busy_time
from tui.analysis.iterations.iteration_table import iterations, sources, unassigned_sessions, with_iterations
from tui.analysis.iterations.segments import WHOLE_RUN
from tui.analysis.iterations.work import activity_iterations
from tui.analysis.kernels import kernels
from tui.analysis.sessions import replayed_sessions, without_sessions

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Floats = npt.NDArray[np.float64]

ITERATION, RUN, GPU = "iteration", "run", "gpu work"
"""Kinds of times other than those of kernels, copies and memsets by name."""

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
"""Times of a run: of an iteration, or of the whole run if ``iteration`` is null."""

LEVEL: Final = 0.90
"""The confidence level: with 95% certainty a change is above the lower end of its interval."""
REPLICATES: Final = 1_000
MAX_DRAWN: Final = 60
"""Iterations of a run that are sampled in a replicate."""
SEED: Final = 20_261
"""A fixed seed, so that the same runs give the same interval."""
MIN_SHARE: Final = 0.01
"""Kernels below this share of GPU time on both sides are not judged."""
MIN_COMMON: Final = 5
"""The minimum number of kernels for a common change to be estimated."""
STUDENT: Final = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81)
"""The 95% quantiles of Student's t by degrees of freedom, from 1."""
NORMAL: Final = 1.645
MAX_FREEDOM: Final = 1_000
"""From this many degrees of freedom on, a variance counts as known."""
BATCH: Final = 250
"""Replicates that are drawn together."""


def run_times(profile: Profile, run: int, file: str) -> pl.DataFrame:
    """Return the times of one run, as `SCHEMA`: its iterations, and the whole run, each with its GPU work by name.

    Args:
        profile: The profile; sessions that Nsight Compute replayed are omitted.
        run: The number of the run.
        file: The label of its file.
    """
    profile = with_iterations(without_sessions(profile, replayed_sessions(profile)))
    names = [name for name in profile["devices"]["name"].unique().sort().to_list() if name]
    parts = [*_iteration_times(profile), *_whole_run_times(profile)]
    times = pl.concat([pl.DataFrame(schema=SCHEMA), *parts], how="diagonal_relaxed")
    return times.with_columns(
        pl.lit(run, pl.UInt16).alias("run"),
        pl.lit(file).alias("file"),
        pl.lit(", ".join(names) or profile.gpu, pl.String).alias("gpu"),
    ).cast(SCHEMA)


def _iteration_times(profile: Profile) -> list[pl.DataFrame]:
    """Return the times of iterations; no rows if a session has none, or if their work is unknown.

    GPU work is unknown in iterations with work of unknown duration.
    """
    session_sources = sources(profile)
    with_work = set(profile["activities"]["session"].unique().to_list())
    if not with_work or any(session_sources.get(session, WHOLE_RUN) == WHOLE_RUN for session in with_work):
        return []
    if unassigned_sessions(profile):
        return []
    keys = ["session", "iteration"]
    counted = iterations(profile).drop_nulls(["iteration", "duration_ns"]).select(*keys, "duration_ns")
    work = (
        profile["activities"]
        .select("session", pl.col("kind").cast(pl.String), pl.col("name").cast(pl.String), "duration_ns")
        .with_columns(activity_iterations(profile).alias("iteration"))
        .drop_nulls("iteration")
        .filter(pl.col("duration_ns").is_not_null().all().over(keys))
        .group_by(*keys, pl.col("kind").alias("what"), "name")
        .agg(pl.col("duration_ns").sum().alias("time_ns"))
    )
    gpu_work = work.group_by(keys).agg(pl.col("time_ns").sum()).with_columns(pl.lit(GPU).alias("what"))
    times = counted.rename({"duration_ns": "time_ns"}).with_columns(pl.lit(ITERATION).alias("what"))
    return [times, gpu_work.join(counted.select(keys), on=keys), work.join(counted.select(keys), on=keys)]


def _whole_run_times(profile: Profile) -> list[pl.DataFrame]:
    """Return the times of sessions; GPU work is unknown if a name has no time at all."""
    busy = busy_time(profile).drop_nulls("span_ns")
    spans = busy.group_by("session").agg(pl.col("span_ns").max().alias("time_ns"))
    work = kernels(profile).select(
        "session", pl.col("kind").cast(pl.String).alias("what"), pl.col("name").cast(pl.String), "total_ns"
    )
    is_known = pl.col("total_ns").is_not_null().all().over("session")
    work = work.filter(is_known).rename({"total_ns": "time_ns"})
    gpu_work = work.group_by("session").agg(pl.col("time_ns").sum()).with_columns(pl.lit(GPU).alias("what"))
    return [spans.with_columns(pl.lit(RUN).alias("what")), gpu_work, work]


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """A median (of several runs: the mean of their medians), and its confidence interval at `LEVEL`."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Change:
    """A time on both sides, and by how much it changed."""

    kind: str
    name: str
    baseline: ConfidenceInterval
    """Nanoseconds."""
    candidate: ConfidenceInterval
    change_pct: ConfidenceInterval
    """The change in percent of the baseline."""
    share: float
    """The share of the GPU time, on the side where it is larger; 1 for times that are not GPU work."""

    @property
    def is_noise(self) -> bool:
        """Whether the change may be noise."""
        return self.change_pct.low <= 0 <= self.change_pct.high


@dataclass(frozen=True, slots=True)
class RunComparison:
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
    """The common change of GPU work by name, in percent; None if it is not removed."""
    unmatched: tuple[tuple[str, ...], tuple[str, ...]]
    """Names of at least `MIN_SHARE` that are on the baseline's side alone, and on the candidate's."""

    def slower(self, than_pct: float) -> tuple[Change, ...]:
        """Return the changes that are slower than a limit: their whole interval is above it.

        Kernels count only if GPU work in total is not shorter, since work may have moved between kernels.
        """
        total_is_less = any(total.kind == GPU and total.change_pct.high < 0 for total in self.totals)
        judged = (*self.totals, *(() if total_is_less else self.work))
        return tuple(change for change in judged if change.change_pct.low > than_pct)

    def undecided(self, than_pct: float) -> tuple[Change, ...]:
        """Return the changes whose median is above a limit but whose interval is not: more runs would decide."""
        return tuple(
            change
            for change in (*self.totals, *self.work)
            if change.change_pct.low <= than_pct < change.change_pct.median and not change.is_noise
        )

    def outcome(self, than_pct: float) -> Outcome:
        """Return the outcome of the comparison."""
        if self.slower(than_pct):
            return Outcome.FAIL
        changed = [change for change in (*self.totals, *self.work) if not change.is_noise]
        return Outcome.PASS if changed else Outcome.NO_CHANGE


def compare_runs(baseline: pl.DataFrame, candidate: pl.DataFrame) -> RunComparison | None:
    """Compare two sets of runs, each as `SCHEMA`; None if they have no time in common.

    Times are per iteration if every run has iterations, else of whole runs.
    """
    selected = (baseline, candidate)
    per_iteration = all(_runs(side) == _runs(side.filter(pl.col("what") == ITERATION)) for side in selected)
    is_wanted = pl.col("iteration").is_not_null() if per_iteration else pl.col("iteration").is_null()
    selected = (baseline.filter(is_wanted), candidate.filter(is_wanted))
    totals = [
        _change(kind, "", _values(selected[0], kind), _values(selected[1], kind), 1.0)
        for kind in (ITERATION if per_iteration else RUN, GPU)
        if all(kind in side["what"] for side in selected)
    ]
    if not totals:
        return None
    shares = [_shares(side) for side in selected]
    judged = {key for side_shares in shares for key, share in side_shares.items() if share >= MIN_SHARE}
    common = sorted(key for key in judged if all(key in side_shares for side_shares in shares))
    counts = [side.select("run", "session", "iteration").unique().height for side in selected]
    times, common_pct = _without_common_change([[_times_with_zeros(side, *key) for key in common] for side in selected])
    noises = [None] * len(common) if common_pct is None else _noises(*times)
    work = [
        _change(*key, times[0][index], times[1][index], max(side_shares[key] for side_shares in shares), noises[index])
        for index, key in enumerate(common)
    ]
    work.sort(key=lambda change: (-abs(change.candidate.median - change.baseline.median), change.name))
    removed, new = (
        tuple(sorted(name for kind, name in judged if (kind, name) in own_shares and (kind, name) not in other_shares))
        for own_shares, other_shares in (shares, shares[::-1])
    )
    runs = (len(_runs(selected[0])), len(_runs(selected[1])))
    samples = (counts[0], counts[1])
    return RunComparison(runs, samples, per_iteration, tuple(totals), tuple(work), common_pct, (removed, new))


def _runs(side: pl.DataFrame) -> list[int]:
    return side["run"].unique().sort().to_list()


def _shares(side: pl.DataFrame) -> dict[tuple[str, str], float]:
    """Return the share of each kind and name in the GPU time."""
    work = side.filter(pl.col("name").is_not_null())
    total_ns = work["time_ns"].sum() or 1
    sums = work.group_by("what", "name").agg(pl.col("time_ns").sum())
    return {(kind, name): time / total_ns for kind, name, time in sums.iter_rows()}


def _values(side: pl.DataFrame, kind: str) -> list[Floats]:
    """Return the times of each run."""
    runs = side.filter(pl.col("what") == kind).partition_by("run", maintain_order=True)
    return [part["time_ns"].sort().to_numpy().astype(np.float64) for part in runs]


def _times_with_zeros(side: pl.DataFrame, kind: str, name: str) -> list[Floats]:
    """Return the times of some work in each run; 0 in iterations without it."""
    keys = ["run", "session", "iteration"]
    matching = side.filter(pl.col("what") == kind, pl.col("name") == name).select(*keys, "time_ns")
    gpu_keys = side.filter(pl.col("what") == GPU).select(keys)
    times = gpu_keys.join(matching, on=keys, how="left", nulls_equal=True).with_columns(pl.col("time_ns").fill_null(0))
    return _values(times.with_columns(pl.lit(kind).alias("what")).sort(keys), kind)


def _without_common_change(sides: list[list[list[Floats]]]) -> tuple[list[list[list[Floats]]], float | None]:
    """Return the times of kernels without the change that is common to all kernels of a run (clocks, temperature).

    Args:
        sides: The times of each run, by kernel, of each side.

    Returns:
        The times, and the common change of the candidate's kernels in percent; None, with unchanged times, for fewer
        than `MIN_COMMON` kernels.
    """
    medians = [np.array([[np.median(run) for run in runs] for runs in side]) for side in sides]
    all_medians = np.concatenate(medians, axis=1) if sides[0] else np.zeros((0, 1))
    all_medians = all_medians[(all_medians > 0).all(axis=1)]
    if len(all_medians) < MIN_COMMON:
        return sides, None
    factors = np.median(all_medians / all_medians.mean(axis=1, keepdims=True), axis=0)
    runs = medians[0].shape[1]
    adjusted = [
        [[run / factor for run, factor in zip(times, run_factors, strict=True)] for times in side]
        for side, run_factors in zip(sides, (factors[:runs], factors[runs:]), strict=True)
    ]
    return adjusted, 100 * (float(factors[runs:].mean() / factors[:runs].mean()) - 1)


@dataclass(frozen=True, slots=True)
class _Noise:
    """The variation of a kernel's time from run to run."""

    deviation: float
    """The standard deviation of the logarithm of the time."""
    freedom: float
    """Degrees of freedom of this estimate."""


def _noises(baseline: Sequence[Sequence[Floats]], candidate: Sequence[Sequence[Floats]]) -> list[_Noise | None]:
    """Return the noise of each kernel; None if unknown.

    Three runs say little about the noise of one kernel but much about that of all kernels, so each variance is shrunk
    towards the common one, the more the less the kernels differ (moderated t, Smyth 2004).
    """
    variances = [_variance(*sides) for sides in zip(baseline, candidate, strict=True)]
    known_variances = np.array([variance for variance in variances if variance])
    freedom = sum(len(side[0]) - 1 for side in (baseline, candidate) if side)
    if len(known_variances) < MIN_COMMON:
        return [None] * len(variances)
    logs = np.log(known_variances) - _digamma(freedom / 2) + np.log(freedom / 2)
    excess = float(np.var(logs, ddof=1)) - _trigamma(freedom / 2)
    prior = 2 * _inverse_trigamma(excess) if excess > 0 else MAX_FREEDOM
    prior = min(prior, MAX_FREEDOM)
    common_variance = float(np.exp(np.mean(logs) + _digamma(prior / 2) - np.log(prior / 2)))
    total = prior + freedom
    return [
        None if variance is None else _Noise(((prior * common_variance + freedom * variance) / total) ** 0.5, total)
        for variance in variances
    ]


def _variance(*sides: Sequence[Floats]) -> float | None:
    """Return the variance between runs of a time's logarithm; None without two runs, or if a time is 0."""
    medians = [np.array([np.median(run) for run in runs]) for runs in sides]
    if any((side <= 0).any() for side in medians) or min(map(len, medians)) < 2:
        return None
    squares = sum(float(((np.log(side) - np.log(side).mean()) ** 2).sum()) for side in medians)
    return squares / sum(len(side) - 1 for side in medians)


def _digamma(x: float) -> float:
    """Return the derivative of the logarithm of the gamma function.

    >>> round(_digamma(1), 6), round(_digamma(2.5), 6)
    (-0.577216, 0.703157)
    """
    below = 0.0
    while x < 6:
        below, x = below + 1 / x, x + 1
    return float(np.log(x)) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6) - below


def _trigamma(x: float) -> float:
    """Return the derivative of `_digamma`.

    >>> round(_trigamma(1), 7), round(_trigamma(2.5), 7)
    (1.6449341, 0.4903578)
    """
    below = 0.0
    while x < 6:
        below, x = below + 1 / x**2, x + 1
    return 1 / x + 1 / (2 * x**2) + 1 / (6 * x**3) - 1 / (30 * x**5) + 1 / (42 * x**7) + below


def _inverse_trigamma(value: float) -> float:
    """Return the argument at which `_trigamma` has a value.

    >>> round(_inverse_trigamma(1.644934), 4)
    1.0
    """
    low, high = 1e-3, float(MAX_FREEDOM)
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if _trigamma(middle) > value else (low, middle)
    return low


def _change(
    kind: str,
    name: str,
    baseline: Sequence[Floats],
    candidate: Sequence[Floats],
    share: float,
    noise: _Noise | None = None,
) -> Change:
    """Return a time on both sides, and by how much it changed.

    Args:
        kind: The kind of time.
        name: The name of GPU work, else empty.
        baseline: The times of each run.
        candidate: The same.
        share: The share of the GPU time.
        noise: The variation from run to run, if it is known; else the interval is from a bootstrap, widened for few
            runs.
    """
    baseline_median, candidate_median = _median(baseline), _median(candidate)
    change = (
        100 * (candidate_median / baseline_median - 1)
        if baseline_median
        else 0.0
        if not candidate_median
        else float("inf")
    )
    if noise is not None:
        shares = [1 / len(baseline), 1 / len(candidate)]
        error = [noise.deviation * weight**0.5 * _quantile(noise.freedom) for weight in (*shares, sum(shares))]
        ratio = _around(1 + change / 100, error[2])
        changed = ConfidenceInterval(change, 100 * (ratio.low - 1), 100 * (ratio.high - 1))
        return Change(
            kind, name, _around(baseline_median, error[0]), _around(candidate_median, error[1]), changed, share
        )
    baseline_replicates, candidate_replicates = _medians(baseline, SEED), _medians(candidate, SEED + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        replicates = np.nan_to_num(100 * (candidate_replicates / baseline_replicates - 1), nan=0.0, posinf=np.inf)
    freedom = [len(baseline) - 1, len(candidate) - 1]
    widenings = [_widening(degrees) for degrees in (*freedom, sum(freedom))]
    return Change(
        kind,
        name,
        _interval(baseline_median, baseline_replicates, widenings[0]),
        _interval(candidate_median, candidate_replicates, widenings[1]),
        _interval(change, replicates, widenings[2]),
        share,
    )


def _around(value: float, error: float) -> ConfidenceInterval:
    """Return a value with an interval of equal relative size on both sides."""
    return ConfidenceInterval(value, float(value * np.exp(-error)), float(value * np.exp(error)))


def _median(runs: Sequence[Floats]) -> float:
    """Return the mean over runs of the median of each."""
    return float(np.mean([np.median(run) for run in runs]))


def _widening(freedom: int) -> float:
    """Return the factor by which the interval of few runs is wider than that of many; 1 for a single run."""
    return 1.0 if freedom <= 0 else _quantile(freedom) / NORMAL


def _quantile(freedom: float) -> float:
    """Return the 95% quantile of Student's t."""
    degrees = int(freedom)
    return STUDENT[degrees - 1] if degrees <= len(STUDENT) else NORMAL + 1.6 / freedom


def _interval(median: float, replicates: Floats, widening: float) -> ConfidenceInterval:
    edge = 100 * (1 - LEVEL) / 2
    if np.isinf(median):  # the time was 0
        return ConfidenceInterval(median, median, median)
    with np.errstate(invalid="ignore"):  # both are infinite
        low, high = np.nan_to_num(np.percentile(replicates, [edge, 100 - edge]), nan=np.inf, posinf=np.inf)
    below, above = max(0.0, median - float(low)), max(0.0, float(high) - median)
    return ConfidenceInterval(median, median - widening * below, median + widening * above)


def _medians(runs: Sequence[Floats], seed: int) -> Floats:
    """Return `_median` of each bootstrap replicate: draws runs, then as many iterations of each, with replacement."""
    random = np.random.default_rng(seed)
    drawn = min(MAX_DRAWN, max(map(len, runs)))
    lengths = np.array([len(run) for run in runs])
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    values = np.concatenate(runs)
    batches = []
    for _ in range(REPLICATES // BATCH):
        chosen = random.integers(len(runs), size=(BATCH, len(runs), 1))
        positions = (random.random((BATCH, len(runs), drawn)) * lengths[chosen]).astype(np.int64) + starts[chosen]
        batches.append(np.median(values[positions], axis=2).mean(axis=1))
    medians: Floats = np.concatenate(batches)
    return medians
