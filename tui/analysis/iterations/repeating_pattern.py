"""Loops in a sequence of launches: their period, their bounds, and how regular they are."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.gpu_time.interval_sets import BLOCK, RunningLatestEnd, blocks
from tui.analysis.iterations.segments import (
    DETECTED,
    NO_PHASE,
    OUTSIDE,
    PARTIAL,
    PHASES,
    TAIL,
    WARM_UP,
    WHOLE,
    Cut,
    activity_phases,
    launch_times,
    matching_rows,
    strictly_increasing,
    take_rows,
)
from tui.cache.spill import release_memory, spill_to_disk
from tui.correlation.nesting import take
from tui.fmt import count
from tui.runtime import run_concurrently

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.analysis.iterations.segments import Ints, PhaseNumbers, Rows

    Codes = npt.NDArray[np.int32]


WINDOW: Final = 1 << 18
"""The pattern is searched in this number of launches in the middle, then followed to both ends."""

MIN_PERIOD: Final = 2
"""A single repeated kernel is no pattern."""

MIN_MATCH: Final = 0.5
"""The minimum share of all launches that are followed by the same kernel one period later."""

MIN_ROUNDS: Final = 3
LONG_PERIOD: Final = 32
"""From this length on, two rounds are a repetition; shorter patterns need three."""

_EXACT: Final = 8
_PROJECTIONS: Final = 4
_LIKELY: Final = 16
_CLOSE: Final = 0.02
"""A shorter pattern that matches nearly as well as the best is preferred: the best is a multiple of it."""
_TRIED: Final = 256
_MIN_MATCH: Final = 0.95
"""If more than a twentieth of a period differs from the next one, the repetition has not begun or has ended."""
_FEWER: Final = 3
"""A longer pattern is a loop around a shorter one if it is interrupted this number of times less often."""
_AS_COVERED: Final = 0.9
"""... and its repetitions have at least this share of the launches of the shorter one's."""
_OUTER_TRIED: Final = 64
_MIN_COVERED: Final = 0.5
"""A loop is offered if its repetitions have at least this share of the launches."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """A pattern of launches that repeats; positions are those in the sequence."""

    period: int
    """Launches of one repetition."""
    first: int
    """Position of the first launch of the first whole repetition."""
    count: int
    """Whole repetitions."""
    match: float
    """Share of the launches in them that are the same kernel one repetition later."""
    gap_ns: int
    """Median idle time before the first launch of a repetition."""
    pattern_start: int
    """Position from which the pattern holds: what lies before is warm-up, and from there to `first` the rest of a
    repetition that was not recorded from its beginning."""
    interrupted: Loop | None = field(default=None, compare=False)
    """The begin of each repetition, if they are not all consecutive."""

    @property
    def boundaries(self) -> Ints:
        """The begin of each whole repetition and the end of the last; repetitions are consecutive."""
        return self.first + self.period * np.arange(self.count + 1)


@dataclass(frozen=True, slots=True)
class Loop:
    """One of the loops of a sequence of launches."""

    period: int
    """Launches of one repetition."""
    starts: Ints
    """Position of the first launch of each whole repetition."""

    @property
    def stretches(self) -> int:
        """The number of uninterrupted stretches."""
        return int((np.diff(self.starts) != self.period).sum()) + min(len(self.starts), 1)

    @property
    def covered(self) -> int:
        """The number of launches in its repetitions."""
        return self.period * len(self.starts)


def find_repetition(codes: Codes, start: Ints, end: Ints) -> Repetition | None:
    """Find the pattern that a sequence of launches repeats.

    The length is the lag at which most launches are followed by the same kernel (autocorrelation). If a few launches
    interrupt a short pattern regularly, such as a copy at the end of a step, the longer pattern from one interruption
    to the next is the repetition, if it occurs at least three times and covers most launches. If the pattern continues
    to the end of the recording, the last repetition ends there: a recording can begin in the middle of a step, but the
    GPU finishes its work. Otherwise, of the starts that give most whole repetitions, the one after the longest idle
    time is chosen: there the program begins its next step.

    Args:
        codes: The launched kernels as numbers from 0, in order of start.
        start: The start of each launch, ns.
        end: The end of each, ns.

    Returns:
        The repetition, or None if there is none.
    """
    middle = _middle(codes)
    period = _best_lag(middle, _autocorrelation(middle))
    return None if period is None else _longest_frequent(codes, start, end, [period, *_outer_periods(middle, period)])


def find_loops(codes: Codes, start: Ints, end: Ints) -> list[Loop]:
    """Return all loops of a sequence of launches, the outermost first.

    Args:
        codes: As for `find_repetition`.
        start: As for `find_repetition`.
        end: As for `find_repetition`.
    """
    loops: dict[int, Loop] = {}
    proposed = find_repetition(codes, start, end)
    if proposed is not None:
        loops[proposed.period] = proposed.interrupted or Loop(proposed.period, proposed.boundaries[:-1])
    # A pattern within one repetition of a loop is an inner loop.
    remaining = _middle(codes)
    while (period := _best_lag(remaining, _autocorrelation(remaining))) is not None:
        periods = [period, *_outer_periods(remaining, period)]
        for length in periods:
            loop = _loop(codes, length)
            if len(loop.starts) >= MIN_ROUNDS and loop.covered >= _MIN_COVERED * len(codes):
                loops.setdefault(length, loop)
        rounds = _loop(remaining, periods[-1]).starts
        if not len(rounds):
            # Similar at this lag, but without consecutive repetitions.
            break
        remaining = remaining[int(rounds[0]) :][: periods[-1]]
    return sorted(loops.values(), key=lambda loop: -loop.period)


def _middle(codes: Codes) -> Codes:
    return codes[max(0, (len(codes) - WINDOW) // 2) :][:WINDOW]


def _longest_frequent(codes: Codes, start: Ints, end: Ints, periods: list[int]) -> Repetition | None:
    """Return the repetition of the longest pattern that is frequent enough; the first is the fallback."""
    for outer in reversed(periods[1:]):
        loop = _loop(codes, outer)
        if len(loop.starts) < MIN_ROUNDS or loop.covered < _MIN_COVERED * len(codes):
            continue
        if loop.stretches == 1:
            return _uninterrupted(codes, start, end, outer)
        first = int(loop.starts[0])
        return Repetition(outer, first, len(loop.starts), 1.0, 0, first, loop)
    return _uninterrupted(codes, start, end, periods[0])


def _uninterrupted(codes: Codes, start: Ints, end: Ints, period: int) -> Repetition | None:
    """Return the repetition of the pattern of a length without interruptions."""
    low, high = _pattern_range(codes, period)
    rounds = (high - low) // period
    if rounds < (MIN_ROUNDS if period < LONG_PERIOD else 2):
        return None
    gaps = _gaps_before(start, end)[low : low + rounds * period].reshape(rounds, period)
    spare = min(high - low - rounds * period, period - 1)
    gaps_by_offset = _column_medians(gaps[:, : spare + 1])
    offset = spare if high == len(codes) else int(np.argmax(gaps_by_offset))
    first = low + offset
    stretch = codes[first : first + rounds * period]
    match = float(np.mean(stretch[period:] == stretch[:-period]))
    return Repetition(period, first, rounds, match, int(gaps_by_offset[offset]), low)


def _gaps_before(start: Ints, end: Ints) -> Ints:
    """Return the time between each start and the latest end before it, negative if they overlap; 0 for the first."""
    gaps = np.empty(len(start), np.int64)
    latest_end = RunningLatestEnd()
    for block in blocks(len(start)):
        previous_ends, _ = latest_end.latest_before(end[block])
        np.subtract(start[block], previous_ends, out=gaps[block])
    gaps[0] = 0
    return gaps


def _column_medians(values: Ints) -> npt.NDArray[np.float64]:
    """Return the median of each column; some columns at a time, because a median copies its values."""
    rows, columns = values.shape
    width = max(1, BLOCK // rows)
    return np.concatenate([np.median(values[:, first : first + width], axis=0) for first in range(0, columns, width)])


def _loop(codes: Codes, period: int) -> Loop:
    """Return the repetitions of a pattern with interruptions; at least two are consecutive."""
    same = np.concatenate(([False], codes[period:] == codes[:-period], [False]))
    turns = np.flatnonzero(same[1:] != same[:-1])
    first, end = turns[::2], turns[1::2] + period
    first = np.maximum(first, np.concatenate(([0], end[:-1])))
    rounds = (end - first) // period
    is_kept = rounds >= 2
    first, rounds = first[is_kept], rounds[is_kept]
    offsets = np.arange(rounds.sum()) - np.repeat(np.cumsum(rounds) - rounds, rounds)
    return Loop(period, np.repeat(first, rounds) + period * offsets)


def _outer_periods(codes: Codes, period: int) -> list[int]:
    """Return longer patterns around a loop: the periods of what interrupts it, the shortest first."""
    periods: list[int] = []
    n = len(codes)
    while True:
        inner = _loop(codes, period)
        longest = min(n // MIN_ROUNDS, n - period - 1)
        if inner.stretches < MIN_ROUNDS or longest < 2 * period:
            return periods
        # Interruptions of an inner loop repeat with the period of the outer loop.
        differs = codes[period:] != codes[:-period]
        size = 1 << (2 * len(differs) - 1).bit_length()
        power = np.abs(np.fft.rfft(differs.astype(np.float64), size)) ** 2
        correlation = np.rint(np.fft.irfft(power, size)[: longest + 1]) / (len(differs) - np.arange(longest + 1))
        correlation[: 2 * period] = 0
        likely = np.argsort(-correlation, kind="stable")[:_OUTER_TRIED]
        around = (_loop(codes, lag) for lag in np.sort(likely[correlation[likely] > 0]).tolist())
        outer = next(
            (
                loop.period
                for loop in around
                if 0 < loop.stretches <= max(1, inner.stretches // _FEWER)
                and loop.covered >= _AS_COVERED * inner.covered
            ),
            None,
        )
        if outer is None:
            return periods
        period = outer
        periods.append(period)


def _best_lag(codes: Codes, correlation: npt.NDArray[np.float64]) -> int | None:
    """Return the shortest lag with nearly maximal autocorrelation, or None.

    Args:
        codes: The sequence.
        correlation: The result of `_autocorrelation`.
    """
    longest = len(codes) // 2
    if longest < MIN_PERIOD or codes.min() == codes.max():
        return None
    scores = correlation[: longest + 1].copy()
    scores[:MIN_PERIOD] = -np.inf
    likely = np.argsort(-scores, kind="stable")[:_LIKELY].tolist()
    best, best_lag = max((_match(codes, lag), -lag) for lag in likely if lag >= MIN_PERIOD)
    if best < MIN_MATCH:
        return None
    # The autocorrelation is an estimate: compute it exactly for lags that may be the best, the shortest first.
    for lag in np.flatnonzero(scores >= best - 5 * _CLOSE)[:_TRIED].tolist():
        if _match(codes, lag) >= best - _CLOSE:
            return int(lag)
    return int(-best_lag)


def _autocorrelation(codes: Codes) -> npt.NDArray[np.float64]:
    """Estimate for each lag the share of launches that are followed by the same kernel at that lag.

    The share is exact for the most frequent kernels: the autocorrelation of their positions. Each other kernel gets a
    random sign; the autocorrelation of the signs, averaged over several draws, approximates the share, since different
    kernels cancel out.
    """
    n = len(codes)
    if not n:
        return np.zeros(0)
    counts = np.bincount(codes)
    frequent = np.argsort(-counts, kind="stable")[:_EXACT]
    size = 1 << (2 * n - 1).bit_length()
    weights = [np.equal(np.arange(len(counts)), code).astype(np.float64) for code in frequent.tolist()]
    if len(counts) > _EXACT:
        draws = random.Random(0)
        for _ in range(_PROJECTIONS):
            signs = np.array(draws.choices((-1.0, 1.0), k=len(counts))) / _PROJECTIONS**0.5
            signs[frequent] = 0
            weights.append(signs)
    powers = run_concurrently(*(partial(_power_spectrum, codes, code_weights, size) for code_weights in weights))
    correlation: npt.NDArray[np.float64] = np.fft.irfft(sum(powers), size)[:n] / (n - np.arange(n))
    return correlation


def _power_spectrum(codes: Codes, weights: npt.NDArray[np.float64], size: int) -> npt.NDArray[np.float64]:
    """Return the power spectrum of a sequence in which each code has its weight, padded with zeros to a size."""
    spectrum = np.fft.rfft(weights[codes], size)
    power: npt.NDArray[np.float64] = spectrum.real**2 + spectrum.imag**2
    return power


def _match(codes: Codes, lag: int) -> float:
    return float(np.mean(codes[lag:] == codes[:-lag]))


def _pattern_range(codes: Codes, period: int) -> tuple[int, int]:
    """Return the first and last position (exclusive) of the pattern, without warm-up and tail."""
    same = np.zeros(len(codes) - period + 1, np.int32)
    np.cumsum(codes[period:] == codes[:-period], out=same[1:])
    matches = same[period:] - same[:-period] >= _MIN_MATCH * period
    if not matches.any():
        return 0, 0
    low, high = int(matches.argmax()), len(matches) - 1 - int(matches[::-1].argmax()) + 2 * period
    # Launches around the ends count while they match.
    while low > 0 and codes[low - 1] == codes[low - 1 + period]:
        low -= 1
    while high < len(codes) and codes[high] == codes[high - period]:
        high += 1
    return low, high


STREAMS: Final = 3
"""The number of streams in which a pattern is searched, those with most kernels first."""


def pattern_cut(work: pl.DataFrame, calls: pl.DataFrame) -> tuple[Cut, PhaseNumbers]:
    """Divide a session by the pattern that its launches repeat.

    The pattern is looked for in the main stream: the one with most kernels on the GPU that worked longest. Copies and
    memsets in it are launches like any other, and so are whole CUDA graphs. Work in this stream belongs to an iteration
    by its position in the sequence; other work by its launch, if recorded, else by its start.

    Args:
        work: Activities of one session in order of start: kind, name, start_ns, duration_ns, device, stream,
            correlation.
        calls: The API calls of the session.

    Returns:
        The phases, and the phase of each activity.
    """
    streams = _streams(work)
    reason = "no kernel with a start time"
    for stream_index, (device, stream) in enumerate(streams):
        release_memory()
        rows, main = _stream_launches(work, device, stream)
        repetition = find_repetition(*launches) if (launches := _launches(main)) is not None else None
        del launches
        release_memory()
        if repetition is not None:
            loop = repetition.interrupted
            cut, positions = _cut(repetition, main, calls) if loop is None else _loop_cut(loop, main, calls)
            stream_clause = "" if len(streams) == 1 else f" on stream {stream}" if stream is not None else ""
            return _with_reason(cut, repetition, stream_clause), _phases(work, calls, cut, rows, positions)
        if stream_index == 0:
            reason = _no_pattern_reason(main)
            if len(streams) > 1 and stream is not None:
                reason += f" of stream {stream}, which has the most kernels"
    return Cut.whole_run(reason), np.zeros(work.height, np.int32)


def session_loops(work: pl.DataFrame) -> tuple[Rows, pl.DataFrame, list[Loop]]:
    """Return the loops of a session: the rows of their stream, its launches, and the loops, outermost first.

    Args:
        work: As of `pattern_cut`.
    """
    for device, stream in _streams(work):
        rows, main = _stream_launches(work, device, stream)
        launches = _launches(main)
        loops = [] if launches is None else find_loops(*launches)
        if loops:
            return rows, main, loops
    return np.zeros(0, np.uint32), work.clear(), []


def loop_cut(work: pl.DataFrame, calls: pl.DataFrame, period: int) -> tuple[Cut, PhaseNumbers] | None:
    """Divide a session by one of its loops, one iteration per repetition; None if there is no such loop.

    Args:
        work: As for `pattern_cut`.
        calls: As for `pattern_cut`.
        period: The number of launches of one repetition.
    """
    rows, main, loops = session_loops(work)
    loop = next((candidate for candidate in loops if candidate.period == period), None)
    if loop is None:
        return None
    cut, positions = _loop_cut(loop, main, calls)
    reason = f"{count(period)} launches repeat {count(len(loop.starts))} times, as chosen"
    return replace(cut, source="key", reason=reason), _phases(work, calls, cut, rows, positions)


def _loop_cut(loop: Loop, main: pl.DataFrame, calls: pl.DataFrame) -> tuple[Cut, Ints]:
    """Return the phases of a loop with interruptions, and the position where each but the first begins."""
    # Launches between two repetitions belong to none.
    ends = loop.starts + loop.period
    between = ends[:-1][ends[:-1] < loop.starts[1:]]
    positions = np.concatenate((loop.starts, between, ends[-1:][ends[-1:] < main.height]))
    order = np.argsort(positions, kind="stable")
    is_whole = np.concatenate(([False], (np.arange(len(positions)) < len(loop.starts))[order]))
    numbers = np.where(is_whole, np.cumsum(is_whole) - 1, NO_PHASE)
    kinds = np.where(is_whole, PHASES.index(WHOLE), PHASES.index(OUTSIDE))
    firsts = main[positions[order]]
    gpu = firsts["start_ns"].to_numpy().astype(np.int64)
    return Cut(kinds, numbers, gpu, strictly_increasing(launch_times(firsts, calls)), DETECTED, ""), positions[order]


def _phases(work: pl.DataFrame, calls: pl.DataFrame, cut: Cut, rows: Rows, positions: Ints) -> PhaseNumbers:
    """Return the phase of each activity: by position in the stream, for others by launch or start."""
    begins = np.zeros(len(rows), np.int32)
    np.add.at(begins, positions[positions < len(rows)], 1)
    phases = np.empty(work.height, np.int32)
    phases[rows] = np.cumsum(begins, out=begins)
    if len(rows) < work.height:
        others = np.delete(np.arange(work.height), rows)
        phases[others] = activity_phases(work[others], calls, cut.gpu_edges, cut.cpu_edges)
    return phases


def _streams(work: pl.DataFrame) -> list[tuple[int | None, int | None]]:
    """Return device and stream of the streams to examine, in order, of the GPU with most work."""
    kernels = (
        work.lazy()
        .filter((pl.col("kind") == "kernel") | (pl.col("kind") == "graph"), pl.col("start_ns").is_not_null())
        .group_by("device", "stream")
        .agg(pl.len(), pl.col("duration_ns").sum())
        .with_columns(pl.col("duration_ns").sum().over("device").alias("device_ns"))
        .collect()
    )
    longest = kernels.filter(pl.col("device_ns") == pl.col("device_ns").max())
    ordered = longest.sort("len", "duration_ns", "device", "stream", descending=[True, True, False, False])
    first = ordered.head(1)
    device_launches = (
        ordered.filter(pl.col("device").eq_missing(pl.lit(first["device"][0], pl.Int32))) if first.height else ordered
    )
    return [(device, stream) for device, stream in device_launches.head(STREAMS).select("device", "stream").iter_rows()]


def _in_order(work: pl.DataFrame, device: int | None, stream: int | None) -> Rows:
    """Return the rows of a stream, in order of start."""
    is_in_stream = (
        work["device"].eq_missing(pl.Series([device], dtype=pl.Int32))
        & work["stream"].eq_missing(pl.Series([stream], dtype=pl.Int64))
        & work["start_ns"].is_not_null()
        & work["duration_ns"].is_not_null()
        & (work["kind"] != "um")
    )
    rows = matching_rows(is_in_stream)
    start = take_rows(work.select("start_ns"), rows)["start_ns"].to_numpy()
    return rows if (start[1:] >= start[:-1]).all() else rows[np.argsort(start, kind="stable")]


def _stream_launches(work: pl.DataFrame, device: int | None, stream: int | None) -> tuple[Rows, pl.DataFrame]:
    """Return the rows of a stream, and its launches in order of start."""
    rows = _in_order(work, device, stream)
    return rows, take_rows(work.select("name", "start_ns", "duration_ns", "correlation"), rows)


def _launches(main: pl.DataFrame) -> tuple[Codes, Ints, Ints] | None:
    """Return the launched kernels as numbers, with starts and ends; None if there are none, or names are missing."""
    if main.is_empty() or main["name"].null_count():
        return None
    codes = _codes(main["name"])
    release_memory()
    start = main["start_ns"].to_numpy()
    end = spill_to_disk(start + main["duration_ns"].to_numpy())
    release_memory()
    return codes, start, end


def _codes(names: pl.Series) -> Codes:
    """Return names as numbers from 0."""
    distinct = names.unique().to_physical().sort().to_numpy()
    number = np.zeros(int(distinct.max(initial=0)) + 1, np.int32)
    number[distinct] = np.arange(len(distinct))
    return take(number, names.to_physical().to_numpy())


def _cut(repetition: Repetition, main: pl.DataFrame, calls: pl.DataFrame) -> tuple[Cut, Ints]:
    """Return the phases, and the position where each but the first begins."""
    bounds = repetition.boundaries
    positions = bounds[:-1]
    kinds_before = [PARTIAL] if repetition.pattern_start == 0 < repetition.first else [WARM_UP]
    if 0 < repetition.pattern_start < repetition.first:
        kinds_before = [WARM_UP, PARTIAL]
        positions = np.append(repetition.pattern_start, positions)
    kinds_after = [TAIL] if bounds[-1] < main.height else []
    if kinds_after:
        positions = np.append(positions, bounds[-1])
    kinds = np.concatenate(
        (
            [PHASES.index(kind) for kind in kinds_before],
            np.full(repetition.count, PHASES.index(WHOLE)),
            [PHASES.index(kind) for kind in kinds_after],
        )
    ).astype(np.int64)
    numbers = np.full(len(kinds), NO_PHASE, np.int64)
    numbers[len(kinds_before) : len(kinds_before) + repetition.count] = np.arange(repetition.count)
    firsts = main[positions]
    gpu = firsts["start_ns"].to_numpy().astype(np.int64)
    return Cut(kinds, numbers, gpu, strictly_increasing(launch_times(firsts, calls)), DETECTED, ""), positions


def _with_reason(cut: Cut, repetition: Repetition, stream_clause: str) -> Cut:
    """Return the cut with a sentence about how it was found."""
    spread_text = (
        "identical kernels in every iteration"
        if repetition.match == 1
        else f"{100 * repetition.match:.1f}% identical to the previous iteration"
    )
    reason = f"{count(repetition.period)} launches repeat {count(repetition.count)} times{stream_clause}, {spread_text}"
    return replace(cut, reason=reason)


def _no_pattern_reason(main: pl.DataFrame) -> str:
    """Return why no pattern was found in a stream."""
    if main.height < MIN_PERIOD * MIN_ROUNDS:
        return f"too few launches for a pattern: {main.height}"
    if main["name"].null_count():
        return f"{count(main['name'].null_count())} of {count(main.height)} launches have no name"
    if main["name"].n_unique() == 1:
        return f"all {count(main.height)} launches are of the same kernel"
    return f"no pattern repeats in {count(main.height)} launches"
