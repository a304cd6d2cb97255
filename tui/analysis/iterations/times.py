"""Durations of iterations: mean, spread, the steady stretch, the use of their time; the bars of their chart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from tui.analysis.gpu_time.breakdown import HOST_CATEGORIES, host_times, records_memory
from tui.analysis.gpu_time.interval_sets import EMPTY, interval_union
from tui.analysis.gpu_time.timelines import GpuUse, adjusted_timelines, gpu_uses
from tui.analysis.iterations.iteration_table import ITERATIONS, cpu_leads, iterations
from tui.analysis.iterations.serving import STEP_COLUMNS, serving_steps, without_phases
from tui.analysis.memo import once_per_profile
from tui.analysis.roofline import FRAMES as OP_WORK_FRAMES
from tui.analysis.roofline import op_work
from tui.model.columns import columns
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from tui.analysis.gpu_time.breakdown import Category
    from tui.analysis.gpu_time.interval_sets import IntervalSet
    from tui.analysis.gpu_time.timelines import Timeline
    from tui.model.aggregation import Aggregation
    from tui.model.profile import Profile

    Floats = npt.NDArray[np.float64]


STEADY_CV: Final = 0.1
"""Iterations are steady if the standard deviation of their times is below this share of the mean."""

RUNS_AHEAD: Final = 0.1
"""The CPU runs ahead if it finishes an iteration this share of the median before the GPU."""

MIN_STEADY: Final = 3
"""The minimum number of iterations of a steady stretch."""

_ALL_LENGTHS: Final = 2048
"""Up to this number of iterations every stretch is tried; of more, lengths are halved until one is steady."""

_LOWER_BITS: Final = 20
"""Bits of the lower part of a time: squares of such parts add up without overflow for millions of iterations, and those
of the upper parts for weeks."""


@once_per_profile("sessions", "activities", "ops", "ranges")
def iteration_times(profile: Profile) -> pl.DataFrame:
    """Return one row per session with iterations whose times are known; those that are not counted are omitted.

    Columns: session, iterations (the count), first and last (their numbers), total_ns, avg_ns, median_ns, p95_ns
    (interpolated linearly), min_ns, max_ns, slowest and fastest (their numbers, the first of several), std_ns (divided
    by n - 1; null for a single one), cv (std / mean), cpu_avg_ns (mean time of the recorded step on the CPU),
    gpu_avg_ns (mean time of the GPU work launched in one), runs_ahead (whether the CPU ends its part more than
    `RUNS_AHEAD` of the median before the GPU does), steady_first, steady_last and steady_iterations (the longest
    stretch of iterations one after the other whose cv is below `STEADY_CV`, the first of several; null if there is none
    of `MIN_STEADY`), steady_avg_ns, steady_cv.
    """
    rows = iterations(profile).drop_nulls(["iteration", "duration_ns"])
    time = pl.col("duration_ns")
    integer = pl.Int64
    table = (
        rows.group_by("session", maintain_order=True)
        .agg(
            pl.len().cast(integer).alias("iterations"),
            pl.col("iteration").min().alias("first"),
            pl.col("iteration").max().alias("last"),
            time.sum().alias("total_ns"),
            time.mean().round().cast(integer).alias("avg_ns"),
            time.quantile(0.5, "linear").round().cast(integer).alias("median_ns"),
            time.quantile(0.95, "linear").round().cast(integer).alias("p95_ns"),
            time.min().alias("min_ns"),
            time.max().alias("max_ns"),
            pl.col("iteration").get(time.arg_max()).alias("slowest"),
            pl.col("iteration").get(time.arg_min()).alias("fastest"),
            time.std(ddof=1).round().cast(integer).alias("std_ns"),
            pl.when(time.mean() > 0).then(time.std(ddof=1) / time.mean()).alias("cv"),
            pl.col("iteration_cpu_ns").mean().round().cast(integer).alias("cpu_avg_ns"),
            pl.col("gpu_ns").mean().round().cast(integer).alias("gpu_avg_ns"),
        )
        .join(cpu_leads(profile), on="session", how="left", maintain_order="left")
        .with_columns((pl.col("cpu_lead_ns") > RUNS_AHEAD * pl.col("median_ns")).fill_null(False).alias("runs_ahead"))
        .drop("cpu_lead_ns")
        .sort("session")
    )
    steady = []
    for session in table["session"].to_list():
        session_rows = rows.filter(pl.col("session") == session).sort("iteration")
        stretch = steady_stretch(session_rows["duration_ns"].cast(pl.Float64).to_numpy())
        if stretch is not None:
            steady_rows = session_rows[stretch[0] : stretch[1]]
            times = steady_rows["duration_ns"].cast(pl.Float64).to_numpy()
            mean = float(times.mean())
            numbers = steady_rows["iteration"]
            steady.append(
                (session, numbers[0], numbers[-1], steady_rows.height, round(mean), float(times.std(ddof=1)) / mean)
            )
    stretches = pl.DataFrame(
        steady,
        schema={
            "session": pl.UInt32,
            "steady_first": pl.Int32,
            "steady_last": pl.Int32,
            "steady_iterations": pl.Int64,
            "steady_avg_ns": pl.Int64,
            "steady_cv": pl.Float64,
        },
        orient="row",
    )
    return table.join(stretches, on="session", how="left", maintain_order="left")


def steady_stretch(times: Floats) -> tuple[int, int] | None:
    """Return the longest run of times with a relative deviation below `STEADY_CV`: first and last (exclusive) position.

    For up to 2,048 times this is exact; for more, lengths are searched as if every length below a possible one were
    possible, so the result can be shorter than the longest run.

    >>> steady_stretch(np.array([90.0, 10, 11, 10, 11, 10, 60]))
    (1, 6)
    """
    n = len(times)
    if n < MIN_STEADY:
        return None
    # Subtract the median and square in parts: integer sums are exact, even with long pauses.
    middle = int(np.median(times))
    centered = np.rint(times - middle).astype(np.int64)
    upper, lower = np.divmod(np.abs(centered), 1 << _LOWER_BITS)
    sums, upper_sums, mixed, lower_sums = (
        np.concatenate(([0], np.cumsum(values))) for values in (centered, upper**2, upper * lower, lower**2)
    )

    def first_position(length: int) -> int | None:
        total = (sums[length:] - sums[:-length]).astype(np.float64)
        squares = (lower_sums[length:] - lower_sums[:-length]).astype(np.float64)
        squares += (mixed[length:] - mixed[:-length]) * 2.0 ** (_LOWER_BITS + 1)
        squares += (upper_sums[length:] - upper_sums[:-length]) * 4.0**_LOWER_BITS
        deviation = np.sqrt(np.clip(squares - total**2 / length, 0, None) / (length - 1))
        positions = np.flatnonzero(deviation < STEADY_CV * (middle + total / length))
        return int(positions[0]) if len(positions) else None

    if n <= _ALL_LENGTHS:
        for length in range(n, MIN_STEADY - 1, -1):
            position = first_position(length)
            if position is not None:
                return position, position + length
        return None
    if (position := first_position(n)) is not None:
        return position, position + n
    low, high = MIN_STEADY, n
    best = first_position(MIN_STEADY)
    if best is None:
        return None
    while high - low > 1:
        length = (low + high) // 2
        position = first_position(length)
        if position is None:
            high = length
        else:
            low, best = length, position
    return best, best + low


GPU_USES: Final = ("tensor_core_ns", "other_kernel_ns", "unknown_kernel_ns", "memory_ns")
"""The parts of the time in which a GPU had work."""
HOST_USES: Final = ("dataloader_ns", "io_ns", "cpu_ns")
"""The parts of the rest in which the host is known to have done something; null if the input does not record it."""
USES: Final = (*GPU_USES, *HOST_USES, "other_ns")
"""The parts of the time of an iteration in the order in which an instant counts as one of them; last the rest."""

MODEL_FLOPS: Final = ("mfu_pct", "model_tflops_per_s")
"""The columns that `with_mfu` adds."""

_KEYS: Final = ("session", "iteration", "phase")
_USE_COLUMNS: Final = dict(zip(GpuUse, GPU_USES, strict=True))
_HOST_COLUMNS: Final = dict(zip(HOST_CATEGORIES, HOST_USES, strict=True))

ITERATIONS_WITH_USES: Final = TableSpec(
    ITERATIONS.name,
    ITERATIONS.title,
    (
        *ITERATIONS.columns,
        *columns(*STEP_COLUMNS),
        *columns(*MODEL_FLOPS),
        *columns(*USES),
        replace(columns("aggregated")[0], absent=""),
    ),
    key=ITERATIONS.key,
    weight=ITERATIONS.weight,
    bars=("busy_pct",),
    pinned=ITERATIONS.pinned,
    min_pinned_cells=ITERATIONS.min_pinned_cells,
)
"""The table of the Iterations view and of its report."""


def iterations_spec(profile: Profile) -> TableSpec:
    """Return the table of the iterations of a profile: those of a server have more columns."""
    is_server = serving_steps(profile)["phase_by"].count() > 0
    return ITERATIONS_WITH_USES if is_server else without_phases(ITERATIONS_WITH_USES)


def iterations_with_uses(profile: Profile, chosen: Aggregation | None = None) -> pl.DataFrame:
    """Return the rows of `iterations`, each with what its time was used for.

    Columns: those of `iterations` (phase: that of the step of a server, where it is one), requests, query_tokens,
    kv_tokens, tokens_per_s and phase_by (`serving.with_phases`), tensor_core_ns, other_kernel_ns, unknown_kernel_ns
    (kernels with unknown tensor-core use) and memory_ns, which add up to busy_ns; dataloader_ns,
    io_ns and cpu_ns (the host, as in `gpu_time.breakdown`) and other_ns, which add up to idle_ns; mfu_pct and
    model_tflops_per_s (`with_mfu`); aggregated (whether it is one of those chosen; null if no range is chosen).

    Each instant of an iteration counts for the first of these that is active on any GPU of the session, whatever its
    iteration; they are null where busy_ns is. Uses that are not recorded are null, too: host activity, whose time is in
    other_ns; copies, if the tool records only kernels; tensor-core use, if it is unknown for all kernels of an
    iteration.

    Args:
        profile: The profile with the iterations to report.
        chosen: The iterations that the other views show.
    """
    rows, full_profile = iterations(profile), profile.all_iterations or profile
    steps = serving_steps(profile)
    rows, phase = rows.hstack(steps.select(STEP_COLUMNS)), steps["phase"]
    if full_profile is profile:
        rows = rows.hstack(_uses(profile))
    else:
        all_uses = iterations(full_profile).select(_KEYS).hstack(_uses(full_profile))
        rows = rows.join(all_uses, on=_KEYS, how="left", nulls_equal=True, maintain_order="left")
    if chosen is None or not chosen.is_part:
        inside = pl.lit(None, pl.Boolean)
    else:
        number = pl.col("iteration")
        inside = number.is_not_null()
        inside &= True if chosen.first is None else number >= chosen.first
        inside &= True if chosen.last is None else number <= chosen.last
        inside &= True if chosen.phase is None else pl.lit(phase).eq_missing(pl.lit(chosen.phase))
    return with_mfu(full_profile, rows).with_columns(pl.lit(phase).alias("phase"), inside.alias("aggregated"))


def exported_iterations(profile: Profile) -> pl.DataFrame:
    """Return `iterations_with_uses` without the mark of the aggregation."""
    return iterations_with_uses(profile).drop("aggregated")


@once_per_profile(*OP_WORK_FRAMES)
def iteration_rates(profile: Profile) -> pl.DataFrame:
    """Return the model FLOPs of each iteration by session and iteration, and their time at peak.

    Columns: session, iteration, flops, peak_ns (null if the peak of a call with FLOPs is not known), gpus.
    """
    with_flops = op_work(profile).filter(
        pl.col("flops") > 0, ~pl.col("is_recomputed"), pl.col("iteration").is_not_null()
    )
    gpus = profile["activities"].group_by("session").agg(pl.col("device").drop_nulls().n_unique().clip(1).alias("gpus"))
    peak_s = pl.col("flops") / pl.col("peak_flops_per_s")
    return (
        with_flops.group_by("session", "iteration")
        .agg(
            pl.col("flops").sum(),
            pl.when(peak_s.null_count() == 0).then(1e9 * peak_s.sum()).alias("peak_ns"),
        )
        .join(gpus, on="session", how="left")
    )


def with_mfu(profile: Profile, rows: pl.DataFrame) -> pl.DataFrame:
    """Return iterations with model FLOPs per second (in 10^12) and MFU, over the duration of the iteration.

    Args:
        profile: The profile.
        rows: session, iteration and duration_ns.
    """
    rates = iteration_rates(profile)
    gpu_time_ns = pl.col("duration_ns") * pl.col("gpus")
    with_flops = (
        rows.select("session", "iteration", "duration_ns")
        .join(rates, on=["session", "iteration"], how="left", maintain_order="left")
        .select(
            pl.when(gpu_time_ns > 0).then(100 * pl.col("peak_ns") / gpu_time_ns).alias("mfu_pct"),
            pl.when(gpu_time_ns > 0).then(pl.col("flops") / gpu_time_ns / 1e3).alias("model_tflops_per_s"),
        )
    )
    return rows.hstack(with_flops)


@once_per_profile("sessions", "devices", "activities", "api_calls", "ops", "ranges")
def _uses(profile: Profile) -> pl.DataFrame:
    """Return the time of each use of the GPUs, for each row of `iterations`."""
    rows = iterations(profile).select("session", "start_ns", "duration_ns", "busy_ns")
    use = gpu_uses(profile)
    timelines_by_session: dict[int, list[Timeline]] = {}
    for timeline in adjusted_timelines(profile):
        timelines_by_session.setdefault(timeline.session, []).append(timeline)
    host, with_memory = host_times(profile), records_memory(profile)
    # Rows of a session are adjacent.
    frames = [
        _session_uses(
            session_rows,
            timelines_by_session.get(session, []),
            use,
            host.get(session, {}),
            memory_is_recorded=session in with_memory,
        )
        for (session,), session_rows in rows.group_by("session", maintain_order=True)
    ]
    schema = dict.fromkeys(USES, pl.Int64)
    return pl.concat(frames) if frames else pl.DataFrame(schema=schema)


def _session_uses(
    rows: pl.DataFrame,
    session_timelines: Sequence[Timeline],
    use: npt.NDArray[np.int8],
    host: Mapping[Category, IntervalSet],
    *,
    memory_is_recorded: bool,
) -> pl.DataFrame:
    starts = rows["start_ns"].fill_null(0).to_numpy()
    ends = starts + rows["duration_ns"].fill_null(0).to_numpy()
    is_known = rows["busy_ns"].is_not_null()
    columns_by_use: dict[str, pl.Series] = {}
    covered, covered_ns = EMPTY, np.zeros(rows.height, np.int64)
    present = {kind: any((timeline.take(use) == kind).any() for timeline in session_timelines) for kind in GpuUse}
    unrecorded = set() if memory_is_recorded else {GpuUse.MEMORY}
    for kind, name in _USE_COLUMNS.items():
        if kind in unrecorded:
            columns_by_use[name] = _unknown_column(name, rows.height)
            continue
        covered_now_ns = covered_ns
        if present[kind]:
            covered = _union(session_timelines, use, kind)
            covered_now_ns = covered.covered_within(starts, ends)
        columns_by_use[name] = _known_values(is_known, name, covered_now_ns - covered_ns)
        covered_ns = covered_now_ns
    if any(present[kind] for kind in unrecorded):
        covered = _union(session_timelines, use, max(GpuUse))
    for category, name in _HOST_COLUMNS.items():
        if category not in host:
            columns_by_use[name] = _unknown_column(name, rows.height)
            continue
        covered = covered | host[category]
        covered_now_ns = covered.covered_within(starts, ends)
        columns_by_use[name] = _known_values(is_known, name, covered_now_ns - covered_ns)
        covered_ns = covered_now_ns
    columns_by_use[USES[-1]] = _known_values(is_known, USES[-1], ends - starts - covered_ns)
    yes, no, unknown_ns = (pl.col(_USE_COLUMNS[kind]) for kind in (GpuUse.YES, GpuUse.NO, GpuUse.UNKNOWN))
    is_unknown = (unknown_ns > 0) & (yes == 0) & (no == 0)
    return pl.DataFrame(columns_by_use).with_columns(pl.when(~is_unknown).then(use) for use in (yes, no))


def _union(timelines: Sequence[Timeline], use: npt.NDArray[np.int8], kind: GpuUse) -> IntervalSet:
    """Return when any work of some timelines ran whose use is ``kind`` or one that precedes it."""
    starts, ends = [], []
    for timeline in timelines:
        is_counted = timeline.take(use) <= kind
        # There may be millions: they are copied only if some are omitted.
        rows = slice(None) if is_counted.all() else is_counted
        starts.append(timeline.starts[rows])
        ends.append(timeline.ends[rows])
    if len(timelines) == 1:
        return interval_union(starts[0], ends[0])
    return interval_union(np.concatenate(starts), np.concatenate(ends)) if timelines else EMPTY


def _unknown_column(name: str, height: int) -> pl.Series:
    return pl.Series(name, [None], dtype=pl.Int64).new_from_index(0, height)


def _known_values(is_known: pl.Series, name: str, values: npt.NDArray[np.int64]) -> pl.Series:
    return pl.select(pl.when(is_known).then(pl.Series(name, values, dtype=pl.Int64)).alias(name)).to_series()


CUT_FROM: Final = 4.0
"""Bars longer than this multiple of the median are cut and marked, so that the others stay distinguishable."""


class Bar(NamedTuple):
    """One bar of the chart: an iteration, or several if there are more of them than cells."""

    first: int
    """Its first row, counted from the first of the chart."""
    last: int
    """Its last row."""
    slowest: int
    """The row that took longest."""
    max_ns: int | None
    """How long that took; None if no time is known."""
    mean_ns: float | None
    """The mean over its rows."""
    parts_ns: tuple[float, ...]
    """The mean time of each of `USES`; empty if that is not known."""
    is_numbered: bool
    """Whether it holds an iteration, not only work before or after them."""
    is_chosen: bool = True
    """Whether the other views show any of it."""


def chart_rows(rows: pl.DataFrame, session: int) -> pl.DataFrame:
    """Return the rows of a session that the chart draws: those with a position in time, in its order.

    Args:
        rows: The result of `iterations_with_uses`.
        session: The session.
    """
    session_rows = rows.filter(pl.col("session") == session)
    # Iterations without own times are ordered by number.
    return session_rows.filter(pl.col("start_ns").is_not_null() | pl.col("iteration").is_not_null()).sort(
        pl.col("start_ns").fill_null(pl.col("start_ns").max()), "iteration", nulls_last=True, maintain_order=True
    )


class BarRows:
    """The rows of the chart, as columns for its bars."""

    def __init__(self, rows: pl.DataFrame) -> None:
        """Store rows of `chart_rows`."""
        self._height = rows.height
        if rows.is_empty():
            return
        self._known = rows["duration_ns"].is_not_null().to_numpy().astype(np.int64)
        self._times = rows["duration_ns"].fill_null(0).to_numpy()
        # A row without a time is never the slowest in a bar.
        self._ordered = np.where(self._known, self._times, -1)
        self._uses_known = rows[USES[-1]].is_not_null().to_numpy().astype(np.int64)
        self._parts = np.stack([rows[use].fill_null(0).to_numpy() for use in USES], axis=1)
        self._numbered = rows["iteration"].is_not_null().to_numpy().astype(np.int64)
        self._chosen = rows["aggregated"].fill_null(True).to_numpy().astype(np.int64)

    def bars(self, first: int, count: int, max_bars: int) -> list[Bar]:
        """Return the bars for a range of rows: one per row if there is room, else of about equally many rows.

        Args:
            first: The first row to draw.
            count: The number of rows.
            max_bars: The maximum number of bars.
        """
        count = min(count, self._height - first)
        if count <= 0 or max_bars <= 0:
            return []
        number = min(count, max_bars)
        edges = np.arange(number) * count // number
        ends = np.append(edges[1:], count)
        rows = slice(first, first + count)

        def sums(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return np.add.reduceat(column[rows], edges)

        ordered = self._ordered[rows]
        largest = np.maximum.reduceat(ordered, edges)
        indices = np.arange(count)
        slowest = np.minimum.reduceat(np.where(ordered == np.repeat(largest, ends - edges), indices, count), edges)
        known_counts = sums(self._uses_known)
        parts_ns = sums(self._parts) / np.maximum(known_counts, 1)[:, None]
        columns = edges, ends, slowest, largest, sums(self._known), sums(self._times), parts_ns, known_counts
        return [
            Bar(
                first + edge,
                first + end - 1,
                first + longest_at,
                longest if timed_rows else None,
                total / timed_rows if timed_rows else None,
                tuple(uses) if has_uses else (),
                bool(iterations),
                bool(is_selected),
            )
            for edge, end, longest_at, longest, timed_rows, total, uses, has_uses, iterations, is_selected in zip(
                *(column.tolist() for column in (*columns, sums(self._numbered), sums(self._chosen))), strict=True
            )
        ]


def scale_ns(shown: Sequence[Bar]) -> int:
    """Return the time at full height of the chart: the longest iteration, unless it is an outlier.

    Work before and after the iterations never sets the scale if there are iterations.
    """
    times = [bar.max_ns for bar in shown if bar.max_ns is not None and bar.is_numbered]
    times = times or [bar.max_ns for bar in shown if bar.max_ns is not None]
    if not times:
        return 0
    values: npt.NDArray[np.float64] = np.array(times, float)
    usual = values[values <= CUT_FROM * np.median(values)]
    return int(values.max()) if len(usual) == len(values) else round(1.1 * float(usual.max()))
