"""What each call of a recorded op cost, on the GPU and on the CPU."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.memo import once_per_profile
from tui.analysis.ops.tree import op_tree
from tui.analysis.ops.work import op_row_of_activities
from tui.loaders.linking.launches import SLACK_NS, nest, rows_around, thread_codes
from tui.model.compact import looked_at
from tui.model.forest import NONE, Forest
from tui.model.profile import rows_of_session

if TYPE_CHECKING:
    from tui.model.forest import Flags, Ints
    from tui.model.profile import Profile

_AT_ONCE: Final = 1 << 20
"""Calls that are looked at together: each takes some numbers for as long as that lasts."""

_TIMES: Final = ("start_ns", "duration_ns")
_NO_THREAD: Final = 0xFFFF_FFFE


@once_per_profile("ops", "activities", "api_calls")
def op_instances(profile: Profile) -> pl.DataFrame:
    """What each recorded op cost: one row per row of ``ops``, in its order.

    Columns: session, op, name, parent (as in ``ops``), call, launches, untimed_launches, gpu_self_ns, gpu_total_ns,
    cpu_total_ns, cpu_self_ns, api_ns, api_calls.

    - ``gpu_self_ns`` is the time of the GPU work that it launched itself (whose innermost op it is), ``launches`` the
      number of it, ``gpu_total_ns`` the same with all ops that ran in it. They are 0 where it launched nothing and null
      where no GPU work of the session is recorded. Work whose duration is not known counts in ``launches`` and in
      ``untimed_launches``, and adds nothing to the times; these are null where there is no other work.
    - ``cpu_total_ns`` is its duration. ``cpu_self_ns`` is that less the ops that it called on its own thread and less
      the CUDA calls that it made itself, ``api_ns`` (null where the session records none; their time is then in
      ``cpu_self_ns``). It is null where the duration of one of these ops is not known.
    - ``call`` is the op that it counts with: itself, or the op of the same name around it that did nothing but call it.
    """
    ops, activities = profile["ops"], profile["activities"]
    tree = op_tree(ops)
    rows = op_row_of_activities(profile)
    here = rows != NONE
    launches = np.bincount(rows[here], minlength=ops.height).astype(np.int64)
    untimed = np.bincount(rows[here & activities["duration_ns"].is_null().to_numpy()], minlength=ops.height)
    untimed = untimed.astype(np.int64)
    timed = launches - untimed
    gpu_self = np.zeros(ops.height, np.int64)
    np.add.at(gpu_self, rows[here], activities["duration_ns"].fill_null(0).to_numpy()[here])
    duration = ops["duration_ns"].fill_null(0).to_numpy().astype(np.int64)
    thread = thread_codes(ops["pid"], ops["tid"])
    same_thread = (tree.parent != NONE) & (thread[tree.parent] == thread)
    api_ns, api_count = _api_within(profile)
    with_gpu = ops["session"].is_in(looked_at(activities, "session").unique().implode())
    with_api = ops["session"].is_in(looked_at(profile["api_calls"], "session").unique().implode())
    cpu_self = duration - tree.children_sums(duration, same_thread) - api_ns
    call = _calls(ops, tree, same_thread & ((launches + api_count)[tree.parent] == 0))
    unknown = ops["duration_ns"].is_null().to_numpy()
    known = ~pl.lit(pl.Series(unknown | (tree.children_sums(unknown.astype(np.int64), same_thread) > 0)))
    return (
        ops.select(
            "session",
            "op",
            "name",
            "parent",
            pl.col("duration_ns").alias("cpu_total_ns"),
            with_gpu=with_gpu,
            api=with_api,
        )
        .with_columns(
            ops["op"].gather(pl.Series(call)).alias("call"),
            pl.when("with_gpu").then(pl.Series(launches)).alias("launches"),
            pl.when("with_gpu").then(pl.Series(untimed)).alias("untimed_launches"),
            pl.when(pl.col("with_gpu") & pl.Series((timed > 0) | (launches == 0)))
            .then(pl.Series(gpu_self))
            .alias("gpu_self_ns"),
            pl.when(pl.col("with_gpu") & pl.Series((tree.sums(timed) > 0) | (tree.sums(untimed) == 0)))
            .then(pl.Series(tree.sums(gpu_self)))
            .alias("gpu_total_ns"),
            pl.when(known).then(pl.Series(cpu_self)).alias("cpu_self_ns"),
            pl.when("api").then(pl.Series(api_ns)).alias("api_ns"),
            pl.when("api").then(pl.Series(api_count)).alias("api_calls"),
        )
        .drop("with_gpu", "api")
    )


def _calls(ops: pl.DataFrame, tree: Forest, alone: Flags) -> Ints:
    """The row that each op counts with.

    PyTorch's `key_averages` takes an op and its only child of the same name for one: ``aten::layer_norm`` is recorded
    once where it is called and once where it is dispatched.

    Args:
        ops: The ops.
        tree: Their tree.
        alone: Whether the op's parent did nothing itself.
    """
    itself = np.arange(ops.height, dtype=np.int64)
    name = ops["name"].to_physical().fill_null(0).to_numpy()
    children = tree.children_sums(np.ones(ops.height, np.int64))
    again = (tree.parent != NONE) & alone & (name[tree.parent] == name) & (children[tree.parent] == 1)
    call = np.where(again, tree.parent, itself)
    while True:
        further = call[call]
        if np.array_equal(further, call):
            return call
        call = further


def _api_within(profile: Profile) -> tuple[Ints, Ints]:
    """For each op the time of the CUDA calls that were made in it, and not in an op within it, and their number."""
    ops, all_calls = profile["ops"], profile["api_calls"].select("session", "pid", "tid", "start_ns", "duration_ns")
    spent, made = np.zeros(ops.height, np.int64), np.zeros(ops.height, np.int64)
    timed = (
        ops.select("session", "pid", "tid", "start_ns", "duration_ns")
        .with_row_index("row")
        .drop_nulls(["start_ns", "duration_ns"])
    )
    for session in timed["session"].unique(maintain_order=True):
        calls, around = (rows_of_session(rows, session).drop_nulls(_TIMES) for rows in (all_calls, timed))
        if calls.is_empty():
            continue
        nesting = nest(around, slack_ns=SLACK_NS)
        for here in _outermost(calls).iter_slices(_AT_ONCE):
            found = rows_around(nesting, here["pid"], here["tid"], here["start_ns"])
            inside = found.is_not_null()
            rows = around["row"].gather(found.filter(inside)).to_numpy().astype(np.int64)
            np.add.at(spent, rows, here["duration_ns"].filter(inside).to_numpy())
            made += np.bincount(rows, minlength=ops.height)
    return spent, made


def _outermost(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls of a session that lie in no other: a driver call within a runtime call is in its time already."""
    # Calls of a thread that is not known are apart by their process.
    thread = thread_codes(calls["pid"], calls["tid"].fill_null(_NO_THREAD))
    start, end = calls["start_ns"].to_numpy(), (calls["start_ns"] + calls["duration_ns"]).to_numpy()
    order = np.lexsort((start, thread))
    thread, start, end = thread[order], start[order], end[order]
    first = np.flatnonzero(np.concatenate(([True], thread[1:] != thread[:-1])))
    outer = np.ones(len(order), np.bool_)
    for begin, until in pairwise([*first.tolist(), len(order)]):
        outer[begin + 1 : until] = start[begin + 1 : until] >= np.maximum.accumulate(end[begin:until])[:-1]
    return calls if outer.all() and len(first) == 1 else calls[order[outer]]
