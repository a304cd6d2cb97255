"""Where a GPU activity came from: the call that launched it, its op and iteration, and what else the input says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.launches.row import activity_rows
from tui.analysis.tensor_cores.verdicts import with_verdicts
from tui.loaders.linking.launches import with_launch
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.model.profile import Profile


@dataclass(frozen=True, slots=True)
class LaunchOrigin:
    """What is known of how an activity came to be; None where the input does not say."""

    call: str | None
    """The API call that launched it."""
    call_reason: str | None
    """Why that is not known, in a session that records calls."""
    call_start_ns: int | None
    call_duration_ns: int | None
    delay_ns: int | None
    """From the begin of the call to the begin on the GPU."""
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
    """Who says so, and why."""
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
        else "no call of its correlation is recorded",
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

    A delay below 0 is kept: it tells of clocks that do not agree.
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
