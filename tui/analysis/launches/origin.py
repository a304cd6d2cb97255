"""Origin of a GPU activity: the launching API call, its op and iteration; its neighbors on the stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.activities import activity_row, activity_rows
from tui.analysis.tensor_core_use import with_verdicts
from tui.correlation.launches import with_launch
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.model.profile import Profile


@dataclass(frozen=True, slots=True)
class LaunchOrigin:
    """What is known of how an activity came to be; None where it is not recorded."""

    call: str | None
    """The API call that launched it."""
    call_reason: str | None
    """Why that is not known, in a session that records calls."""
    call_start_ns: int | None
    call_duration_ns: int | None
    delay_ns: int | None
    """From the start of the call to the start on the GPU."""
    pid: int | None
    tid: int | None
    op: str | None
    """The innermost op that the call was made in, by name."""
    op_path: str | None
    """What that op ran in, outermost first, with ``/`` between."""
    op_join: str | None
    """How the op was found, or why there is none (`tui.model.schema.OP_JOINS`)."""
    input_shapes: str | None
    """Of the op."""
    iteration: int | None
    graph_node: int | None
    """Node of the CUDA graph that it was launched from."""
    uses_tensor_core: bool | None
    tensor_core_reason: str | None
    """The source of the verdict, and the reason."""
    arguments: str | None
    """Further facts in words, as recorded."""


def launch_origin(profile: Profile, activity: int) -> LaunchOrigin:
    """Where an activity came from.

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

    A delay below 0 is kept: it shows that clocks do not agree.
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
        with_launch(activities, calls)
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
    """None where it is not recorded."""
    gap_ns: int | None
    """Time between the two; None where it is below what the start times of the log resolve, or they overlap."""


def neighbors(profile: Profile, activity: int) -> tuple[Neighbor | None, Neighbor | None]:
    """The activities before and after one on its session, device and stream; None at the ends, or without a stream.

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
    before = same.filter(pl.col("activity") < activity).last().select(chosen).collect()
    after = same.filter(pl.col("activity") > activity).first().select(chosen).collect()
    resolution = profile["sessions"].filter(pl.col("session") == row["session"])["start_resolution_ns"].item() or 1

    def neighbor(found: pl.DataFrame, *, earlier: bool) -> Neighbor | None:
        if found.is_empty():
            return None
        other = found.row(0, named=True)
        first, second = (other, row) if earlier else (row, other)
        gap = None if first["duration_ns"] is None else second["start_ns"] - first["start_ns"] - first["duration_ns"]
        known_gap = gap if gap is not None and gap >= resolution else None
        return Neighbor(other["activity"], other["name"], other["duration_ns"], known_gap)

    return neighbor(before, earlier=True), neighbor(after, earlier=False)
