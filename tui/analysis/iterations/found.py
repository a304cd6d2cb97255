"""Iterations of a session that records none: the pattern of launches that repeats, or one iteration where none does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.iterations.cutting import (
    LEFT_OVER,
    NO_PIECE,
    PIECES,
    TAIL,
    WARM_UP,
    WHOLE,
    Cut,
    launch_times,
    pieces_of,
    rising,
    rows_of,
)
from tui.analysis.iterations.repetition import LEAST_PERIOD, LEAST_ROUNDS, Repetition, find_repetition
from tui.fmt import count

if TYPE_CHECKING:
    from tui.analysis.iterations.cutting import Ints

STREAMS: Final = 3
"""A pattern is looked for in so many streams, those with most kernels first."""


def found_cut(work: pl.DataFrame, calls: pl.DataFrame) -> tuple[Cut, Ints]:
    """Cut a session by the pattern that its launches repeat.

    The pattern is looked for in the main stream: the one with most kernels on the GPU that worked longest. Copies and
    memsets in it are launches like any other, and so are whole CUDA graphs. Work in this stream belongs to an
    iteration by its place in the sequence; other work by its launch, where the input tells that, else by its start.

    Args:
        work: Activities of one session in order of start: kind, name, start_ns, duration_ns, device, stream,
            correlation.
        calls: The API calls of the session.

    Returns:
        The pieces, and the piece of each activity.
    """
    streams = _streams(work)
    reason = "no kernel with a start time"
    for at, (device, stream) in enumerate(streams):
        rows = _in_order(work, device, stream)
        main = rows_of(work.select("name", "start_ns", "duration_ns", "correlation"), rows)
        repetition = _repetition(main)
        if repetition is not None:
            cut, places = _cut(repetition, main, calls)
            pieces = np.empty(work.height, np.int64)
            pieces[rows] = np.searchsorted(places, np.arange(len(rows)), side="right")
            if len(rows) < work.height:
                others = np.delete(np.arange(work.height), rows)
                pieces[others] = pieces_of(work[others], calls, cut.gpu_edges, cut.cpu_edges)
            where = "" if len(streams) == 1 else f" on stream {stream}" if stream is not None else ""
            return _worded(cut, repetition, where), pieces
        if at == 0:
            reason = _why_not(main)
            if len(streams) > 1 and stream is not None:
                reason += f" of stream {stream}, which has most kernels"
    return Cut.whole_run(reason), np.zeros(work.height, np.int64)


def _streams(work: pl.DataFrame) -> list[tuple[int | None, int | None]]:
    """Device and stream of the first of the streams to look at: those of the GPU that worked longest."""
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
    own = ordered.filter(pl.col("device").eq_missing(pl.lit(first["device"][0], pl.Int32))) if first.height else ordered
    return [(device, stream) for device, stream in own.head(STREAMS).select("device", "stream").iter_rows()]


def _in_order(work: pl.DataFrame, device: int | None, stream: int | None) -> Ints:
    """The rows of a stream, in order of start."""
    own = (
        work["device"].eq_missing(pl.Series([device], dtype=pl.Int32))
        & work["stream"].eq_missing(pl.Series([stream], dtype=pl.Int64))
        & work["start_ns"].is_not_null()
        & work["duration_ns"].is_not_null()
        & (work["kind"] != "um")
    )
    rows = np.flatnonzero(own.to_numpy())
    start = rows_of(work.select("start_ns"), rows)["start_ns"].to_numpy()
    return rows if (start[1:] >= start[:-1]).all() else rows[np.argsort(start, kind="stable")]


def _repetition(main: pl.DataFrame) -> Repetition | None:
    if main.is_empty() or main["name"].null_count():
        return None
    start = main["start_ns"].to_numpy()
    return find_repetition(_codes(main["name"]), start, start + main["duration_ns"].to_numpy())


def _codes(names: pl.Series) -> Ints:
    """Names as numbers from 0, as many as there are names."""
    numbers = names.to_physical().cast(pl.Int64).to_numpy()
    used = np.bincount(numbers) > 0
    codes: Ints = (np.cumsum(used) - 1)[numbers]
    return codes


def _cut(repetition: Repetition, main: pl.DataFrame, calls: pl.DataFrame) -> tuple[Cut, Ints]:
    """The pieces, and the place in the sequence where each but the first begins."""
    bounds = repetition.boundaries
    places = bounds[:-1]
    before = [LEFT_OVER] if repetition.held_from == 0 < repetition.first else [WARM_UP]
    if 0 < repetition.held_from < repetition.first:
        before = [WARM_UP, LEFT_OVER]
        places = np.append(repetition.held_from, places)
    after = [TAIL] if bounds[-1] < main.height else []
    if after:
        places = np.append(places, bounds[-1])
    kinds = np.concatenate(
        (
            [PIECES.index(kind) for kind in before],
            np.full(repetition.count, PIECES.index(WHOLE)),
            [PIECES.index(kind) for kind in after],
        )
    ).astype(np.int64)
    numbers = np.full(len(kinds), NO_PIECE, np.int64)
    numbers[len(before) : len(before) + repetition.count] = np.arange(repetition.count)
    firsts = main[places]
    gpu = firsts["start_ns"].to_numpy().astype(np.int64)
    return Cut(kinds, numbers, gpu, rising(launch_times(firsts, calls)), "found", ""), places


def _worded(cut: Cut, repetition: Repetition, where: str) -> Cut:
    """With how it was found in words."""
    alike = (
        "the same kernels in every one"
        if repetition.match == 1
        else f"{100 * repetition.match:.1f}% of them the same kernel as one iteration before"
    )
    reason = f"{count(repetition.period)} launches repeat {count(repetition.count)} times{where}, {alike}"
    return Cut(cut.kinds, cut.numbers, cut.gpu_edges, cut.cpu_edges, cut.source, reason)


def _why_not(main: pl.DataFrame) -> str:
    """Why no pattern was found in a stream."""
    if main.height < LEAST_PERIOD * LEAST_ROUNDS:
        return f"no pattern can repeat in {main.height} launch{'es' if main.height != 1 else ''}"
    if main["name"].null_count():
        return f"{count(main['name'].null_count())} of {count(main.height)} launches have no name"
    if main["name"].n_unique() == 1:
        return f"nothing but the same kernel in {count(main.height)} launches"
    return f"no pattern repeats in {count(main.height)} launches"
