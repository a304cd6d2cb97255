"""A session cut into consecutive phases: the phase of each GPU activity, and the table of phases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.durations import total
from tui.correlation.launches import add_launch_columns

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Rows = npt.NDArray[np.uint32]
    PhaseNumbers = npt.NDArray[np.int32]


WHOLE: Final = "whole"
PARTIAL: Final = "partial"
WARM_UP: Final = "warm-up"
TAIL: Final = "tail"
NOT_REPEATED: Final = "not repeated"
RECORDED: Final = "recorded"
OUTSIDE: Final = "outside"
PHASES: Final = (WHOLE, PARTIAL, WARM_UP, TAIL, NOT_REPEATED, RECORDED, OUTSIDE)
"""What a phase can be: an iteration from begin to end; what is left of one that began before the recording; work before
the iterations, or after them; a whole run in which nothing repeats; an iteration that the input records; work outside
of those."""

DETECTED: Final = "detected"
"""The source of iterations that were found by repeating work."""
WHOLE_RUN: Final = "whole run"
"""The source of an iteration that is the whole run."""

NO_PHASE: Final = -1
"""The number for no phase or no iteration."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The phases of a session, in time order."""

    kinds: Ints
    """The kind of each phase, as its index in `PHASES`."""
    numbers: Ints
    """The iteration number of each phase; `NO_PHASE` if it is not counted."""
    gpu_edges: Ints
    """The start times that divide GPU work into phases: one fewer than the phases."""
    cpu_edges: Ints | None
    """The same for CPU activity, including launches; None if the input does not record it."""
    source: str
    """The source of the phases: ``detected``, ``key`` or ``whole run``."""
    reason: str
    """How the phases were found."""
    name: str | None = None
    """The name that marks the ends of phases, if it is a single one."""

    @classmethod
    def whole_run(cls, reason: str) -> Cut:
        """Return a cut with one phase: nothing repeats."""
        return cls(
            np.array([PHASES.index(NOT_REPEATED)]),
            np.zeros(1, np.int64),
            np.zeros(0, np.int64),
            None,
            WHOLE_RUN,
            reason,
        )


def matching_rows(condition: pl.Series) -> Rows:
    """Return the rows that meet a condition."""
    return condition.arg_true().to_numpy()


def take_rows(frame: pl.DataFrame, rows: Rows) -> pl.DataFrame:
    """Return rows of a frame by ascending index; a slice if they are consecutive."""
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1:
        return frame.slice(int(rows[0]), len(rows))
    return frame[rows]


def launch_times(work: pl.DataFrame, calls: pl.DataFrame) -> pl.Series:
    """Return when each activity of a session was launched; null if that is not recorded.

    Args:
        work: Activities, with ``correlation``.
        calls: The API calls of the session.
    """
    correlations = work["correlation"].drop_nulls().unique()
    if correlations.is_empty() or calls.is_empty():
        return pl.Series([None], dtype=pl.Int64).new_from_index(0, work.height)
    linked_calls = (
        calls.filter(pl.col("correlation").is_in(correlations.implode()))
        if len(correlations) < calls.height // 2
        else calls
    )
    return add_launch_columns(work.select("correlation"), linked_calls)["launch_ns"]


def strictly_increasing(times: pl.Series) -> Ints | None:
    """Return times as numbers if all are known and strictly increasing; else None."""
    if times.null_count() or not len(times):
        return None
    numbers = times.to_numpy().astype(np.int64)
    return numbers if (numbers[1:] > numbers[:-1]).all() else None


def activity_phases(work: pl.DataFrame, calls: pl.DataFrame, gpu_edges: Ints, cpu_edges: Ints | None) -> PhaseNumbers:
    """Return the phase of each activity: by its launch if that is known, else by its start.

    Args:
        work: Activities of one session: start_ns, correlation.
        calls: The API calls of the session.
        gpu_edges: As in `Cut`.
        cpu_edges: As in `Cut`.
    """
    start = work["start_ns"]
    phases = np.searchsorted(gpu_edges, start.fill_null(0).to_numpy(), side="right").astype(np.int32)
    phases[start.is_null().to_numpy()] = NO_PHASE
    if cpu_edges is not None:
        launch = launch_times(work, calls)
        by_launch = np.searchsorted(cpu_edges, launch.fill_null(0).to_numpy(), side="right")
        phases = np.where(launch.is_not_null().to_numpy(), by_launch.astype(np.int32), phases)
    return phases


def phase_table(cut: Cut, work: pl.DataFrame, phases: PhaseNumbers) -> pl.DataFrame:
    """Return one row per phase, and a last one for activities without a known time.

    Columns: iteration, phase, name, start_ns, duration_ns (phases follow one another from the first start to
    the last end of GPU work), cpu_start_ns, cpu_end_ns (between which calls, ops and ranges belong to the phase, by
    their start; null: no limit), kernels_launched, gpu_ns (null if no duration of such work is known).

    Args:
        cut: The phases.
        work: Activities of one session: kind, start_ns, duration_ns.
        phases: The phase of each of them.
    """
    work_rows = work.select("kind", "start_ns", "duration_ns", phase=pl.Series(phases, dtype=pl.Int32))
    is_kernel = (pl.col("kind") == "kernel") | (pl.col("kind") == "graph")
    sums = work_rows.group_by("phase").agg(
        is_kernel.sum().cast(pl.Int64).alias("kernels_launched"),
        total().alias("gpu_ns"),
        pl.len().alias("activities"),
    )
    begin = work["start_ns"].min()
    end = (work["start_ns"] + work["duration_ns"].fill_null(0)).max()
    assert isinstance(begin, int), "a session without start times is not cut"
    assert isinstance(end, int), "a session without start times is not cut"
    edges = np.clip(cut.gpu_edges, begin, end)
    starts, ends = np.append(begin, edges), np.append(edges, end)
    cpu = cut.gpu_edges if cut.cpu_edges is None else cut.cpu_edges
    first, last = pl.Series([None], dtype=pl.Int64), pl.Series([end if cut.numbers[-1] != NO_PHASE else None])
    last = last.cast(pl.Int64) if len(cut.kinds) > 1 else first
    numbers = pl.Series(cut.numbers, dtype=pl.Int32)
    rows = pl.DataFrame(
        {
            "phase": np.arange(len(cut.kinds), dtype=np.int32),
            "iteration": numbers.set(numbers == NO_PHASE, None),
            "kind": pl.Series(PHASES).gather(pl.Series(cut.kinds)),
            "start_ns": starts,
            "duration_ns": ends - starts,
            "cpu_start_ns": pl.concat([first, pl.Series(cpu)]),
            "cpu_end_ns": pl.concat([pl.Series(cpu), last]),
        }
    )
    unassigned = pl.DataFrame({"phase": [NO_PHASE], "kind": [OUTSIDE]}, schema_overrides={"phase": pl.Int32})
    # There may be nothing before the first phase or after the last.
    empty_end = pl.col("iteration").is_null() & pl.col("activities").is_null()
    return (
        pl.concat([rows, unassigned], how="diagonal")
        .join(sums, on="phase", how="left", maintain_order="left")
        .filter(~empty_end)
        .with_columns(
            *(
                pl.when(pl.col("activities").is_null()).then(0).otherwise(column).alias(column)
                for column in ("kernels_launched", "gpu_ns")
            ),
            pl.lit(cut.name, pl.String).alias("name"),
        )
        .select(
            "iteration",
            pl.col("kind").alias("phase"),
            "name",
            "start_ns",
            "duration_ns",
            "cpu_start_ns",
            "cpu_end_ns",
            "kernels_launched",
            "gpu_ns",
        )
    )


def iteration_at(table: pl.DataFrame, session: pl.Series, at_ns: pl.Series) -> pl.Series:
    """Return the iterations in which events began on the CPU; null outside of iterations.

    Args:
        table: As `Profile.steps`.
        session: The session of each.
        at_ns: When each began.
    """
    iteration_numbers = np.full(len(session), NO_PHASE, np.int64)
    sessions, moments = session.to_numpy(), at_ns.fill_null(np.iinfo(np.int64).min).to_numpy()
    is_unknown = at_ns.is_null().to_numpy()
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    for (number,), rows in table.group_by("session", maintain_order=True):
        # Only the first and the last phase without own times extend to the ends.
        spans = rows.filter(pl.col("cpu_start_ns").is_not_null() | pl.col("cpu_end_ns").is_not_null() | (pl.len() == 1))
        spans = spans.with_columns(pl.col("cpu_start_ns").fill_null(low), pl.col("cpu_end_ns").fill_null(high))
        spans = spans.sort("cpu_start_ns", maintain_order=True)
        if spans.is_empty():
            continue
        indices = np.flatnonzero((sessions == number) & ~is_unknown)
        span_index = np.searchsorted(spans["cpu_start_ns"].to_numpy(), moments[indices], side="right") - 1
        inside = (span_index >= 0) & (moments[indices] < spans["cpu_end_ns"].to_numpy()[span_index])
        iteration_numbers[indices] = np.where(
            inside, spans["iteration"].fill_null(NO_PHASE).to_numpy()[span_index], NO_PHASE
        )
    numbers = pl.Series("iteration", iteration_numbers, dtype=pl.Int32)
    return numbers.set(numbers == NO_PHASE, None)


def iteration_between(table: pl.DataFrame, session: pl.Series, start_ns: pl.Series, end_ns: pl.Series) -> pl.Series:
    """Return the iteration that contains an interval; null if there is none or several.

    Args:
        table: As `Profile.steps`; an undivided run is not an iteration.
        session: The session of each.
        start_ns: When each began.
        end_ns: When each ended.
    """
    cut = table.filter(pl.col("source") != WHOLE_RUN)
    first = iteration_at(cut, session, start_ns)
    # Ends are exclusive; an interval without length is its start.
    moment = pl.select(pl.when(end_ns.is_not_null()).then(pl.max_horizontal(start_ns, end_ns - 1))).to_series()
    return first.set((first != iteration_at(cut, session, moment)).fill_null(True), None)
