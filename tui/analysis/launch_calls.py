"""The API call that launched a GPU activity: its op, iteration and neighbors; delays and queue depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.activities import activity_row, activity_rows
from tui.analysis.gpu_time.timelines import timelines
from tui.analysis.grouping import is_constant, partition_by_session
from tui.analysis.memo import once_per_profile
from tui.analysis.tensor_core_use import with_verdicts
from tui.cache.spill import null_column
from tui.correlation.launches import add_launch_columns, launching_rows
from tui.model.profile import column_view
from tui.model.schema import NAME

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]


LATE_NS: Final = 100_000
"""A kernel is late if it starts this long after its call ended, while the GPU is idle."""


@once_per_profile("activities", "api_calls")
def launch_calls(profile: Profile) -> pl.DataFrame:
    """Return the launching call of each activity: one row per row of ``activities``.

    Columns: launch_ns and launch_end_ns (start and end of the call), launched_with (position by start among the
    activities of the same call, from 0; a call that replays a CUDA graph launches many). All are null if the call is
    unknown.
    """
    activities, calls = profile["activities"], profile["api_calls"]
    launch = _launching(activities, calls)
    call_rows = pl.Series("call", launch, dtype=pl.UInt32, strict=False)
    if call_rows.null_count() == len(call_rows):
        types = {"launch_ns": pl.Int64(), "launch_end_ns": pl.Int64(), "launched_with": pl.UInt32()}
        return pl.DataFrame([null_column(name, len(call_rows), dtype) for name, dtype in types.items()])
    if _all_differ(launch):
        with_others = pl.lit(0, pl.UInt32)
    else:
        with_others = (pl.col("start_ns").rank("ordinal").over("call") - 1).cast(pl.UInt32)
    if call_rows.null_count():
        with_others = pl.when(pl.col("call").is_not_null()).then(with_others)
    return pl.DataFrame([call_rows, activities["start_ns"]]).select(
        calls["start_ns"].gather(call_rows).alias("launch_ns"),
        (calls["start_ns"] + calls["duration_ns"]).gather(call_rows).alias("launch_end_ns"),
        with_others.alias("launched_with"),
    )


def _launching(activities: pl.DataFrame, calls: pl.DataFrame) -> npt.NDArray[np.int32]:
    """Return the row of the launching call of each activity, -1 if unknown."""
    linked_calls = calls.select("session", "correlation", "start_ns")
    calls_by_session, runs = partition_by_session(linked_calls), _runs(column_view(activities, "session"))
    if len(calls_by_session) == 1 and len(runs) == 1 and runs[0][0] in calls_by_session:
        return launching_rows(activities["correlation"], linked_calls)
    launch = np.full(activities.height, -1, np.int32)
    calls_by_session = partition_by_session(linked_calls.with_row_index("at"))
    for session, first, count in runs:
        if (session_calls := calls_by_session.get(session)) is not None:
            rows = launching_rows(activities["correlation"].slice(first, count), session_calls)
            call_indices = session_calls["at"].to_numpy().astype(np.int32)
            launch[first : first + count] = np.where(rows < 0, np.int32(-1), call_indices[rows])
    return launch


def _all_differ(calls: npt.NDArray[np.int32]) -> bool:
    """Return whether each call launched one activity at most; -1: unknown call."""
    if (calls[1:] > calls[:-1]).all():
        return True
    known_calls = calls[calls >= 0]
    return not len(known_calls) or int(np.bincount(known_calls).max()) == 1


def _runs(sessions: pl.Series) -> list[tuple[int, int, int]]:
    """Return number, first row and number of rows of each session in a frame sorted by session."""
    if is_constant(sessions):
        return [(sessions[0], 0, len(sessions))]
    runs = sessions.rle().struct.unnest()
    counts = runs["len"].to_numpy().astype(np.int64)
    firsts = np.cumsum(counts) - counts
    return list(zip(runs["value"].to_list(), firsts.tolist(), counts.tolist(), strict=True))


@once_per_profile("activities", "api_calls", "sessions")
def launch_delays(profile: Profile) -> pl.DataFrame:
    """Return the launch delay of every GPU activity whose launching call and times are known.

    Columns: session, activity, kind, name, device, stream, launch_ns and launch_end_ns (the call's start and end),
    start_ns, queue_ns, queue_idle_ns, queue_depth.

    - queue_ns is from the end of the call to the activity's begin (Nsight Systems: queue duration); it is negative if
      the activity started before the call returned. It is known for the first activity of a call: later ones in a
      replayed graph wait for each other.
    - queue_idle_ns is the part of it, right before the start, in which the device had no work.
    - queue_depth is the number of other activities of the device that were launched but not started when the call
      started.
    """
    calls = launch_calls(profile)
    activities = profile["activities"]
    frames = []
    for timeline in timelines(profile):
        rows = pl.Series(timeline.rows)
        frame = pl.concat(
            [
                activities.select("session", "activity", "kind", "name", "device", "stream", "start_ns").select(
                    pl.all().gather(rows)
                ),
                calls.select(pl.all().gather(rows)),
            ],
            how="horizontal",
        )
        frames.append(_delays(frame, np.concatenate((timeline.starts[:1], timeline.latest_ends()[:-1]))))
    if not frames:
        columns_alone = activities.select("session", "activity", "kind", "name", "device", "stream", "start_ns").clear()
        return _delays(pl.concat([columns_alone, calls.clear()], how="horizontal"), np.zeros(0, np.int64))
    return pl.concat(frames)


def _delays(rows: pl.DataFrame, previous_ends: Ints) -> pl.DataFrame:
    """Return rows of `launch_delays` from one device's activities by start, and the latest end before each."""
    rows = rows.with_columns(pl.Series("before_ns", previous_ends))
    launched = rows.filter(pl.col("launch_end_ns").is_not_null())
    starts, launch = launched["start_ns"].to_numpy(), launched["launch_ns"].to_numpy()
    # Work that starts before its call, by clocks that differ, never waits: it counts as launched just before its start.
    queued = np.sort(np.where(starts > launch, launch, starts - 1))
    depth = np.searchsorted(queued, launch, side="left") - np.searchsorted(starts, launch, side="right")
    is_first = pl.col("launched_with") == 0
    idle_since = pl.max_horizontal("before_ns", "launch_end_ns")
    return launched.select(
        "session",
        "activity",
        "kind",
        "name",
        "device",
        "stream",
        "launch_ns",
        "launch_end_ns",
        "start_ns",
        pl.when(is_first).then(pl.col("start_ns") - pl.col("launch_end_ns")).alias("queue_ns"),
        pl.when(is_first).then((pl.col("start_ns") - idle_since).clip(0)).alias("queue_idle_ns"),
        pl.lit(pl.Series(depth, dtype=pl.Int64)).alias("queue_depth"),
    )


def delays_by_name(profile: Profile) -> pl.DataFrame:
    """Return the launch delays of GPU work by name: one row per session, kind and name, most launches first.

    Columns: session, kind, name, launches (with a known delay), queue_median_ns, queue_p90_ns, queue_p99_ns,
    queue_max_ns (of the delays of `launch_delays` that are not negative; null if there are none), early (how many
    started before their call returned), late (how many waited more than `LATE_NS` while the GPU had nothing to do),
    late_pct, depth_median and depth_max (of queue_depth).
    """
    queue = pl.col("queue_ns")
    queued = queue.filter(queue >= 0)

    def quantile(share: float) -> pl.Expr:
        return queued.quantile(share, "linear").round().cast(pl.Int64)

    return (
        launch_delays(profile)
        .lazy()
        .filter(queue.is_not_null())
        .group_by("session", "kind", "name")
        .agg(
            pl.len().cast(pl.Int64).alias("launches"),
            quantile(0.5).alias("queue_median_ns"),
            quantile(0.9).alias("queue_p90_ns"),
            quantile(0.99).alias("queue_p99_ns"),
            queued.max().alias("queue_max_ns"),
            (queue < 0).sum().cast(pl.Int64).alias("early"),
            (pl.col("queue_idle_ns") > LATE_NS).sum().cast(pl.Int64).alias("late"),
            pl.col("queue_depth").median().round().cast(pl.Int64).alias("depth_median"),
            pl.col("queue_depth").max().alias("depth_max"),
        )
        .with_columns((100 * pl.col("late") / pl.col("launches")).alias("late_pct"))
        .sort("launches", "name", "session", "kind", descending=[True, False, False, False])
        .collect()
    )


@dataclass(frozen=True, slots=True)
class LaunchOrigin:
    """The launch of an activity, and its op and iteration; None if not recorded."""

    call: str | None
    """The API call that launched it."""
    call_reason: str | None
    """Why that is not known, in a session that records calls."""
    call_start_ns: int | None
    call_duration_ns: int | None
    delay_ns: int | None
    """The time from the start of the call to the start on the GPU."""
    pid: int | None
    tid: int | None
    op: str | None
    """The innermost op that the call was made in, by name."""
    op_path: str | None
    """What that op ran in, outermost first, with ``/`` between."""
    op_join: str | None
    """How the op was found, or why there is none (`tui.model.schema.OP_JOINS`)."""
    input_shapes: str | None
    """The input shapes of the op."""
    iteration: int | None
    graph_node: int | None
    """Node of the CUDA graph that it was launched from."""
    uses_tensor_core: bool | None
    tensor_core_reason: str | None
    """The source of the verdict, and the reason."""
    arguments: str | None
    """Further facts as text, as recorded."""


def launch_origin(profile: Profile, activity: int) -> LaunchOrigin:
    """Return the launch of an activity, and its op and iteration.

    Raises:
        KeyError: There is no such activity.
    """
    rows = activity_rows(profile, activity)
    row = with_verdicts(profile, with_launched_by(profile, rows)).row(0, named=True)
    calls = profile["api_calls"].filter(
        pl.col("session") == row["session"],
        pl.col("correlation") == pl.lit(row["correlation"], pl.Int64),
        pl.col("start_ns") == pl.lit(row["launch_ns"], pl.Int64),
    )
    call = calls.row(0, named=True) if calls.height else {}
    ops = profile["ops"].filter(pl.col("op") == pl.lit(row["op"], pl.UInt32))
    op = ops.row(0, named=True) if ops.height else {}
    return LaunchOrigin(
        call=call.get("name"),
        call_reason=None
        if call or not _records_calls(profile, row["session"])
        else "no API call with its correlation id recorded",
        call_start_ns=row["launch_ns"],
        call_duration_ns=call.get("duration_ns"),
        delay_ns=row["delay_ns"],
        pid=call.get("pid"),
        tid=call.get("tid"),
        op=op.get("name"),
        op_path=op.get("group"),
        op_join=row["op_join"],
        input_shapes=op.get("input_shapes"),
        iteration=row["iteration"],
        graph_node=row["graph_node"],
        uses_tensor_core=row["uses_tensor_core"],
        tensor_core_reason=row["tensor_core_reason"],
        arguments=row["arguments"],
    )


def _records_calls(profile: Profile, session: int) -> bool:
    return bool((profile["api_calls"]["session"] == session).any())


def with_launched_by(profile: Profile, activities: pl.DataFrame) -> pl.DataFrame:
    """Add launch_ns, delay_ns and launched_by (the name of the op) to activities of one session.

    Negative delays are kept: they show that clocks differ.
    """
    session = activities["session"].unique()
    correlations = activities["correlation"].drop_nulls().unique()
    calls = profile["api_calls"].filter(
        pl.col("session").is_in(session.implode()), pl.col("correlation").is_in(correlations.implode())
    )
    ops = (
        profile["ops"]
        .filter(pl.col("op").is_in(activities["op"].drop_nulls().unique().implode()))
        .select("op", pl.col("name").alias("launched_by"))
    )
    return (
        add_launch_columns(activities, calls)
        .drop("launch_pid", "launch_tid")
        .with_columns((pl.col("start_ns") - pl.col("launch_ns")).alias("delay_ns"))
        .join(ops, on="op", how="left", maintain_order="left")
        .with_columns(pl.col("launched_by").cast(NAME))
    )


@dataclass(frozen=True, slots=True)
class Neighbor:
    """An activity next to another one on the same stream."""

    activity: int
    """Its number, the column ``activity``."""
    name: str
    duration_ns: int | None
    """None if it is not recorded."""
    gap_ns: int | None
    """Time between the two; None if it is below what the start times of the log resolve, or they overlap."""


def neighbors(profile: Profile, activity: int) -> tuple[Neighbor | None, Neighbor | None]:
    """Return the previous and next activity on the session, device and stream of one; None if there is none.

    Raises:
        KeyError: There is no such activity.
    """
    activities = profile["activities"]
    row = activity_row(profile, activity)
    if row["stream"] is None or row["start_ns"] is None or row["duration_ns"] is None:
        return None, None
    same = activities.lazy().filter(
        pl.col("session") == row["session"],
        pl.col("device").eq_missing(pl.lit(row["device"], pl.Int32)),
        pl.col("stream") == row["stream"],
        pl.col("start_ns").is_not_null(),
    )
    chosen = ("activity", "name", "start_ns", "duration_ns")
    previous = same.filter(pl.col("activity") < activity).last().select(chosen).collect()
    following = same.filter(pl.col("activity") > activity).first().select(chosen).collect()
    resolution = profile["sessions"].filter(pl.col("session") == row["session"])["start_resolution_ns"].item() or 1

    def neighbor(candidate: pl.DataFrame, *, earlier: bool) -> Neighbor | None:
        if candidate.is_empty():
            return None
        neighbor_row = candidate.row(0, named=True)
        first, second = (neighbor_row, row) if earlier else (row, neighbor_row)
        gap = None if first["duration_ns"] is None else second["start_ns"] - first["start_ns"] - first["duration_ns"]
        known_gap = gap if gap is not None and gap >= resolution else None
        return Neighbor(neighbor_row["activity"], neighbor_row["name"], neighbor_row["duration_ns"], known_gap)

    return neighbor(previous, earlier=True), neighbor(following, earlier=False)
