"""Costs of recorded ops, by call and by name: GPU time, CPU time, self time, CPU overhead and GPU idle time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.analysis.durations import complete_sum, sum_of_known, total, untimed_calls
from tui.analysis.gpu_time.interval_sets import RunningLatestEnd, blocks
from tui.analysis.grouping import group_rows
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.op_attribution import activity_op_rows, classified_work, op_classes, op_tree
from tui.analysis.tensor_core_efficiency import eligible_ops
from tui.cache.spill import filter_rows, gather_rows, release_memory, spill_to_disk
from tui.correlation.launches import enclosing_rows, nest, thread_codes
from tui.correlation.nesting import take
from tui.model.forest import NONE, Forest
from tui.model.profile import column_view, session_rows
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]


_AT_ONCE: Final = 1 << 20
"""Calls that are processed together, to bound the memory."""

_NO_THREAD: Final = 0xFFFF_FFFE


@once_per_profile("ops", "activities", "api_calls")
def op_instances(profile: Profile) -> pl.DataFrame:
    """Return the costs of each recorded op: one row per row of ``ops``, in its order.

    Columns: session, op, name, parent (as in ``ops``), call, launches, untimed_launches, gpu_self_ns, gpu_total_ns,
    cpu_total_ns, cpu_self_ns, api_ns, api_calls.

    - ``gpu_self_ns`` is the time of the GPU work whose innermost op it is, ``launches`` the number of these activities,
      ``gpu_total_ns`` the time including nested ops. They are 0 if it launched nothing and null if the session records
      no GPU work. Work of unknown duration counts in ``launches`` and ``untimed_launches`` but not in the times, which
      are null if there is no other work.
    - ``cpu_total_ns`` is its duration. ``cpu_self_ns`` is the duration without nested ops on its thread and without
      ``api_ns``, the CUDA calls that it made itself (null if the session records none with times and threads; their
      time is then in ``cpu_self_ns``). It is null if the duration of a nested op is unknown.
    - ``call`` is the op that it counts with: itself, or the enclosing op of the same name that only called it.
    """
    ops = profile["ops"]
    tree = spill_to_disk(op_tree(ops))
    release_memory()
    gpu = _gpu_costs(profile, tree)
    release_memory()
    cpu = spill_to_disk(_cpu_costs(profile, tree, gpu["launches"]))
    release_memory()
    recorded = ops.select("session", "op", "name", "parent", cpu_total_ns="duration_ns")
    return pl.concat([recorded, cpu.select("call"), gpu, cpu.drop("call")], how="horizontal")


def _gpu_costs(profile: Profile, tree: Forest) -> pl.DataFrame:
    """Return launches, untimed_launches, gpu_self_ns and gpu_total_ns of each op."""
    ops, activities = profile["ops"], profile["activities"]
    rows = activity_op_rows(profile)
    duration = activities["duration_ns"].filter(pl.Series(rows != NONE))
    rows = rows[rows != NONE]
    launches = np.bincount(rows, minlength=ops.height)
    untimed = np.bincount(rows[duration.is_null().to_numpy()], minlength=ops.height)
    gpu_self = np.zeros(ops.height, np.int64)
    np.add.at(gpu_self, rows, duration.fill_null(0).to_numpy())
    del rows, duration
    release_memory()
    has_time = pl.Series((launches > untimed) | (launches == 0))
    has_total = pl.Series((tree.subtree_sums(launches - untimed) > 0) | (tree.subtree_sums(untimed) == 0))
    with_gpu = ops["session"].is_in(column_view(activities, "session").unique().implode())
    return pl.DataFrame(
        [
            _column("launches", launches, with_gpu),
            _column("untimed_launches", untimed, with_gpu),
            _column("gpu_self_ns", gpu_self, with_gpu & has_time),
            _column("gpu_total_ns", tree.subtree_sums(gpu_self), with_gpu & has_total),
        ]
    )


def _column(name: str, values: Ints, is_known: pl.Series) -> pl.Series:
    """Return values as a column, null where unknown."""
    return spill_to_disk(pl.select(pl.when(is_known).then(pl.Series(values)).alias(name)).to_series())


def _cpu_costs(profile: Profile, tree: Forest, launches: pl.Series) -> pl.DataFrame:
    """Return call, cpu_self_ns, api_ns and api_calls of each op."""
    ops = profile["ops"]
    duration = ops["duration_ns"].fill_null(0).to_numpy()
    thread = thread_codes(ops["pid"], ops["tid"])
    same_thread = (tree.parent != NONE) & (thread[tree.parent] == thread)
    del thread
    api_ns, api_count = spill_to_disk(_api_time_by_op(profile))
    release_memory()
    works_alone = (launches.fill_null(0).to_numpy() == 0) & (api_count == 0)
    call = ops["op"].gather(pl.Series(_calls(ops, tree, same_thread & works_alone[tree.parent])))
    release_memory()
    cpu_self = duration - tree.child_sums(duration, same_thread) - api_ns
    is_untimed = ops["duration_ns"].is_null().to_numpy()
    is_known = pl.Series(~is_untimed & (tree.child_sums(is_untimed, same_thread) == 0))
    with_api = _has_api_times(profile)
    return pl.DataFrame(
        [
            call.alias("call"),
            _column("cpu_self_ns", cpu_self, is_known),
            _column("api_ns", api_ns, with_api),
            _column("api_calls", api_count, with_api),
        ]
    )


def _calls(ops: pl.DataFrame, tree: Forest, is_alone: Flags) -> Ints:
    """Return the row of the op that each op is counted with.

    PyTorch's `key_averages` counts an op and its only child of the same name once: ``aten::layer_norm`` is recorded
    when it is called and when it is dispatched.

    Args:
        ops: The ops.
        tree: Their tree.
        is_alone: Whether the op's parent launched no work itself.
    """
    call = np.arange(ops.height, dtype=np.int64)
    rows = np.flatnonzero((tree.parent != NONE) & is_alone)
    name = ops["name"].to_physical().fill_null(0).to_numpy()
    rows = rows[name[tree.parent[rows]] == name[rows]]
    if not len(rows):
        return call
    children = np.bincount(tree.parent[tree.parent != NONE], minlength=ops.height)
    rows = rows[children[tree.parent[rows]] == 1]
    call[rows] = tree.parent[rows]
    while True:
        further = call[call]
        if np.array_equal(further, call):
            return call
        call = further


def _api_time_by_op(profile: Profile) -> tuple[Ints, Ints]:
    """Return time and number of the CUDA calls made directly in each op."""
    ops, all_calls = profile["ops"], profile["api_calls"].select("session", "pid", "tid", "start_ns", "duration_ns")
    api_ns, call_counts = np.zeros(ops.height, np.int64), np.zeros(ops.height, np.int64)
    timed = _timed(ops.select("session", "pid", "tid", "start_ns", "duration_ns").with_row_index("row"))
    for session in timed["session"].unique(maintain_order=True):
        release_memory()
        calls, around = _timed(session_rows(all_calls, session)), session_rows(timed, session)
        if calls.is_empty():
            continue
        nesting = nest(around)
        release_memory()
        for chunk in _outermost(calls).iter_slices(_AT_ONCE):
            enclosing = enclosing_rows(nesting, chunk["pid"], chunk["tid"], chunk["start_ns"])
            inside = enclosing.is_not_null()
            rows = around["row"].gather(enclosing.filter(inside)).to_numpy().astype(np.int64)
            np.add.at(api_ns, rows, chunk["duration_ns"].filter(inside).to_numpy())
            np.add.at(call_counts, rows, 1)
    return api_ns, call_counts


def _has_api_times(profile: Profile) -> pl.Series:
    """Return for each op whether the CUDA calls made in it are known: its times and thread, and those of calls."""
    placed = pl.all_horizontal(pl.col("start_ns", "duration_ns", "tid").is_not_null())
    sessions = profile["api_calls"].lazy().filter(placed).select(pl.col("session").unique()).collect().to_series()
    return profile["ops"].select(placed & pl.col("session").is_in(sessions.implode())).to_series()


def _timed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with a start and a duration."""
    return filter_rows(rows, pl.col("start_ns").is_not_null(), pl.col("duration_ns").is_not_null())


def _outermost(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the calls of a session that are not nested in another: their time includes nested driver calls."""
    # Calls of unknown threads are grouped by process.
    thread = thread_codes(calls["pid"], calls["tid"].fill_null(_NO_THREAD))
    start, duration = calls["start_ns"].to_numpy(), calls["duration_ns"].to_numpy()
    order = np.lexsort((start, thread)).astype(np.uint32)
    thread = take(thread, order)
    thread_starts = np.flatnonzero(np.concatenate(([True], thread[1:] != thread[:-1]))).tolist()
    del thread
    is_outer = np.empty(len(order), np.bool_)
    for first, last in pairwise([*thread_starts, len(order)]):
        latest_end = RunningLatestEnd()
        for block in blocks(last - first):
            rows = order[first:last][block]
            starts = start[rows]
            previous_ends, _ = latest_end.latest_before(starts + duration[rows])
            is_outer[first:last][block] = starts >= previous_ends
    return calls if is_outer.all() and len(thread_starts) == 1 else gather_rows(calls, pl.Series(order[is_outer]))


WORK_LIMIT: Final = 100
"""The number of levels for which memory is sufficient even if each op has all GPU work; deeper ops have less."""

_OPS_AT_ONCE: Final = 1 << 18
"""Spans sorted together."""


@once_per_profile("ops", "activities", "api_calls")
def op_overheads(profile: Profile) -> pl.DataFrame:
    """Return the costs of each recorded op other than GPU work: one row per row of ``ops``, in its order.

    Columns: session, op, name, cpu_total_ns, api_total_ns, cpu_overhead_ns, gpu_total_ns, gpu_idle_ns.

    - api_total_ns is the CPU time of the CUDA calls in it and in nested ops; cpu_overhead_ns is the rest of its CPU
      time (DLProf: CPU time - CUDA API time). Both are null in sessions that record no calls.
    - gpu_idle_ns is the time from the first start to the last end of its GPU work (nested ops included) in which none
      of that work ran, summed over the GPUs, as in DLProf. It is 0 if the op launched nothing; null if times of its
      work are unknown, and for outermost ops with so deep a nesting that it would take too long (`WORK_LIMIT`).
    """
    ops = profile["ops"]
    tree = op_tree(ops)
    instances = op_instances(profile)
    api = tree.subtree_sums(instances["api_ns"].fill_null(0).to_numpy().astype(np.int64))
    idle, is_known = _gpu_idle(profile, tree)
    timed = (profile["activities"].lazy().drop_nulls(["start_ns", "duration_ns"]).select("session").unique().collect())[
        "session"
    ]
    return (
        instances.select("session", "op", "name", "cpu_total_ns", "gpu_total_ns", "api_ns")
        .with_columns(
            pl.when(pl.col("api_ns").is_not_null()).then(pl.lit(pl.Series(api))).alias("api_total_ns"),
            pl.when(pl.col("session").is_in(timed.implode()) & pl.lit(pl.Series(is_known)))
            .then(pl.lit(pl.Series(idle)))
            .alias("gpu_idle_ns"),
        )
        .with_columns((pl.col("cpu_total_ns") - pl.col("api_total_ns")).clip(0).alias("cpu_overhead_ns"))
        .select(
            "session",
            "op",
            "name",
            "cpu_total_ns",
            "api_total_ns",
            "cpu_overhead_ns",
            "gpu_total_ns",
            "gpu_idle_ns",
        )
    )


def overheads_by_name(profile: Profile) -> pl.DataFrame:
    """Return `op_overheads` by session and name of the op, most CPU overhead first.

    Columns: session, op (the name), calls, cpu_total_ns, api_total_ns, cpu_overhead_ns, overhead_pct (of cpu_total_ns),
    gpu_total_ns, gpu_idle_ns. An op that calls itself counts in both calls.
    """
    sums = ("cpu_total_ns", "api_total_ns", "cpu_overhead_ns", "gpu_total_ns", "gpu_idle_ns")
    cpu = pl.col("cpu_total_ns")
    return (
        op_overheads(profile)
        .lazy()
        .group_by("session", pl.col("name").alias("op"))
        .agg(pl.len().cast(pl.Int64).alias("calls"), *(sum_of_known(column).alias(column) for column in sums))
        .with_columns(pl.when(cpu > 0).then(100 * pl.col("cpu_overhead_ns") / cpu).alias("overhead_pct"))
        .select("session", "op", "calls", *sums[:3], "overhead_pct", *sums[3:])
        .sort("cpu_overhead_ns", "cpu_total_ns", "op", descending=[True, True, False], nulls_last=True)
        .collect()
    )


def _gpu_idle(profile: Profile, tree: Forest) -> tuple[Ints, Flags]:
    """Return the time between first and last GPU work of each op in which none of it ran; and whether it is known.

    From the innermost ops outwards, each passes the busy intervals of its work to the enclosing op.
    """
    activities = profile["activities"]
    rows = activity_op_rows(profile)
    timed = (activities["start_ns"].is_not_null() & activities["duration_ns"].is_not_null()).to_numpy() & (rows != NONE)
    untimed = np.bincount(rows[~timed & (rows != NONE)], minlength=len(tree.parent)).astype(np.int64)
    start = activities["start_ns"].fill_null(0).to_numpy()[timed]
    spans = pl.DataFrame(
        {
            "op": rows[timed],
            "device": activities["device"].filter(pl.Series(timed)),
            "start": start,
            "end": start + activities["duration_ns"].fill_null(0).to_numpy()[timed],
        }
    )
    depth = np.zeros(len(tree.parent), np.int64)
    for level, ops in enumerate(tree.levels):
        depth[ops] = level
    by_level = spans.with_columns(pl.Series("level", depth[spans["op"].to_numpy()]))
    spans_by_level = {
        level: part.drop("level") for (level,), part in by_level.partition_by("level", as_dict=True).items()
    }
    idle, is_known = np.zeros(len(tree.parent), np.int64), tree.subtree_sums(untimed) == 0
    remaining_work = WORK_LIMIT * (spans.height + 1000)
    child_spans = spans.clear()
    for level in range(len(tree.levels) - 1, -1, -1):
        level_spans = pl.concat([spans_by_level.get(level, spans.clear()), child_spans])
        if level_spans.is_empty():
            continue
        remaining_work -= level_spans.height
        if remaining_work < 0:
            is_known[np.concatenate(tree.levels[: level + 1])] = False
            break
        intervals = merged_spans(level_spans)
        sums = intervals.group_by("op", "device").agg(
            (pl.col("end").max() - pl.col("start").min() - (pl.col("end") - pl.col("start")).sum()).alias("idle")
        )
        np.add.at(idle, sums["op"].to_numpy(), sums["idle"].to_numpy())
        around = tree.parent[intervals["op"].to_numpy()]
        child_spans = intervals.with_columns(pl.Series("op", around)).filter(pl.Series(around != NONE))
    return idle, is_known


def merged_spans(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the union of the spans of each op and device."""
    return pl.concat([_merged(part) for part in spans_by_thread(spans)])


def spans_by_thread(spans: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield spans in chunks that are small enough to sort and group in memory; all spans of an op are in one."""
    if spans.height <= _OPS_AT_ONCE:
        yield spans
        return
    op = spans["op"].to_numpy()
    edges = np.unique(np.quantile(op, np.linspace(0, 1, 2 + spans.height // _OPS_AT_ONCE), method="nearest"))
    edges[-1] += 1
    for first, end in pairwise(edges.tolist()):
        yield spans.filter(pl.Series((op >= first) & (op < end)))


def _merged(spans: pl.DataFrame) -> pl.DataFrame:
    op, device = spans["op"].to_numpy(), spans["device"].fill_null(-1).to_numpy()
    start, end = spans["start"].to_numpy(), spans["end"].to_numpy()
    order = np.lexsort((start, device, op))
    if not len(order):
        return spans
    op, device, start, end = op[order], device[order], start[order], end[order]
    is_new = np.concatenate(([True], (op[1:] != op[:-1]) | (device[1:] != device[:-1])))
    # Ends are replaced by their ranks, so that group and end fit into one number.
    by_end = np.argsort(end, kind="stable")
    position = np.empty_like(by_end)
    position[by_end] = np.arange(len(end))
    offset = np.cumsum(is_new) * len(end)
    latest_ends = end[by_end[np.maximum.accumulate(offset + position) - offset]]
    first = np.flatnonzero(is_new | np.concatenate(([True], start[1:] > latest_ends[:-1])))
    return (
        spans[order[first]]
        .select("op", "device")
        .with_columns(pl.Series("start", start[first]), pl.Series("end", np.maximum.reduceat(end, first)))
    )


TIMES = ("gpu_ns", "gpu_busy_ns", "cpu_own_ns", "cpu_overhead_ns", "gpu_idle_ns")
"""The times of a call."""


@once_per_profile("ops", "activities", "api_calls")
def self_times(profile: Profile) -> pl.DataFrame:
    """Return the self times of each recorded op: one row per row of ``ops``, in its order.

    Columns: session, op, name, call, launches, untimed_launches (as in `op_instances`), and

    - ``gpu_ns``, summed durations of the GPU work that it launched itself; ``gpu_busy_ns``, the union of their
      intervals (per GPU); ``gpu_idle_ns``, the time from the first start to the last end of that work in which none of
      it ran. They are 0 if it launched nothing; null in sessions without timed GPU work. Work without times is not
      included in the first two, which are null if there is no other work, and makes the idle time null.
    - ``cpu_own_ns``, its CPU time without nested ops on its thread; ``cpu_overhead_ns``, the same without its CUDA
      calls, null in sessions that record none. For ops that are not nested in another (as DLProf counts them), they are
      the CPU and GPU time, overhead and idle time.
    """
    instances, activities = op_instances(profile), profile["activities"]
    rows = activity_op_rows(profile)
    timed = activities["start_ns"].is_not_null() & activities["duration_ns"].is_not_null()
    has_op = timed.to_numpy() & (rows != NONE)
    work = spill_to_disk(
        activities.lazy()
        .select(
            pl.Series("op", rows),
            "device",
            pl.col("start_ns").alias("start"),
            (pl.col("start_ns") + pl.col("duration_ns")).alias("end"),
        )
        .filter(pl.Series(has_op))
        .collect()
    )
    busy, idle = np.zeros(instances.height, np.int64), np.zeros(instances.height, np.int64)
    per_gpu = pl.concat(
        [
            merged_spans(thread_spans)
            .group_by("op", "device")
            .agg(
                (pl.col("end") - pl.col("start")).sum().alias("busy"), span=pl.col("end").max() - pl.col("start").min()
            )
            for thread_spans in spans_by_thread(work)
        ]
    )
    op_rows = per_gpu["op"].to_numpy()
    np.add.at(busy, op_rows, per_gpu["busy"].to_numpy())
    np.add.at(idle, op_rows, (per_gpu["span"] - per_gpu["busy"]).to_numpy())
    with_times = pl.col("session").is_in(activities["session"].filter(timed).unique().implode())
    untimed = np.bincount(rows[~timed.to_numpy() & (rows != NONE)], minlength=instances.height)
    is_unknown = (untimed > 0) & (untimed == instances["launches"].fill_null(0).to_numpy())
    return instances.select(
        "session",
        "op",
        "name",
        "call",
        "launches",
        "untimed_launches",
        pl.col("gpu_self_ns").alias("gpu_ns"),
        pl.when(with_times & ~pl.lit(pl.Series(is_unknown))).then(pl.lit(pl.Series(busy))).alias("gpu_busy_ns"),
        (pl.col("cpu_self_ns") + pl.col("api_ns").fill_null(0)).alias("cpu_own_ns"),
        pl.when(pl.col("api_ns").is_not_null()).then(pl.col("cpu_self_ns").clip(0)).alias("cpu_overhead_ns"),
        pl.when(with_times & pl.lit(pl.Series(untimed == 0))).then(pl.lit(pl.Series(idle))).alias("gpu_idle_ns"),
    )


def call_times(profile: Profile) -> pl.DataFrame:
    """Return `self_times` with one row per call; an op that only calls an op of its name counts once with it."""
    op_times = self_times(profile)
    if (op_times["call"] == op_times["op"]).all():
        return op_times
    sums = op_times.group_by("call").agg(
        *(total(name).alias(name) for name in ("launches", "untimed_launches")),
        *(sum_of_known(name).alias(name) for name in TIMES),
    )
    return (
        op_times.filter(pl.col("call") == pl.col("op"))
        .select("session", "op", "name", "call")
        .join(sums, on="call", how="left", maintain_order="left")
    )


NO_OP: Final = "(unattributed: {})"
"""The name of a row of work without an op."""

MIXED: Final = "mixed"
"""The direction of a name whose calls have several."""


RECORDED: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "session": pl.UInt32,
        "op": NAME,
        "op_type": NAME,
        "direction": NAME,
        "group": NAME,
        "calls": pl.Int64,
        "gpu_self_ns": pl.Int64,
        "time_pct": pl.Float64,
        "gpu_total_ns": pl.Int64,
        "gpu_avg_ns": pl.Int64,
        "gpu_min_ns": pl.Int64,
        "gpu_max_ns": pl.Int64,
        "cpu_total_ns": pl.Int64,
        "cpu_self_ns": pl.Int64,
        "cpu_avg_ns": pl.Int64,
        "api_ns": pl.Int64,
        "timed_calls": pl.Int64,
        "launches": pl.Int64,
        "untimed_launches": pl.Int64,
        "kernels": pl.Int64,
        "tc_eligible": pl.Boolean,
        "uses_tensor_core": pl.Boolean,
        "dtype": NAME,
        "stack": NAME,
        "op_source": NAME,
        "line": pl.UInt32,
        "why_no_op": pl.String,
    }
)
"""The columns of `recorded_ops`."""


def costs_by_name(profile: Profile, *also: str) -> pl.DataFrame:
    """Return the costs of recorded ops by session, name and further columns of ``ops`` (``input_shapes``).

    Columns: session, op (the name), the further columns, calls, gpu_self_ns, gpu_total_ns, gpu_avg_ns, gpu_min_ns,
    gpu_max_ns (of the calls' own GPU work), timed_calls (those whose GPU work has known times), cpu_total_ns,
    cpu_self_ns, cpu_avg_ns, api_ns, launches, untimed_launches (those whose duration is not known), tc_eligible,
    direction and dtype (of its calls; `MIXED` where they differ), stack (of its calls; the number of stacks if they
    differ), op_source, line.

    As in PyTorch's `key_averages`, an op that only calls one of the same name counts once with it (see `op_instances`),
    and the time of other recursive calls counts in both calls.
    """
    instances = op_instances(profile)
    further = tuple(dict.fromkeys(("direction", "dtype", "stack", "op_source", "line", *also)))
    call_costs = [
        common
        for common in (
            _common_value_or("direction", pl.lit(MIXED)),
            _common_value_or("dtype", pl.lit(MIXED)),
            _common_value_or("stack", pl.format("{} different", pl.col("stack").n_unique())),
        )
        if common.meta.output_name() not in also
    ]
    self_columns = ("gpu_self_ns", "cpu_self_ns", "api_ns", "launches", "untimed_launches")
    eligible = eligible_ops(profile).select("tc_eligible")
    rows = pl.concat([instances, profile["ops"].select(further), eligible], how="horizontal")
    repeated = pl.col("call") != pl.col("op")
    calls = filter_rows(rows, ~repeated)
    if calls.height < rows.height:
        outer = rows.lazy().filter(repeated).select(pl.col("call").unique()).collect().to_series()
        parts = rows.lazy().filter(pl.col("call").is_in(outer.implode())).group_by("call")
        totals = parts.agg(sum_of_known(column).alias(column) for column in self_columns).collect()
        at = calls["op"].search_sorted(totals["call"])
        for column in self_columns:
            calls = calls.with_columns(spill_to_disk(calls[column].scatter(at, totals[column])))
    gpu = pl.col("gpu_self_ns")
    sums = [
        pl.len().cast(pl.Int64).alias("calls"),
        sum_of_known("gpu_self_ns").alias("gpu_self_ns"),
        sum_of_known("gpu_total_ns").alias("gpu_total_ns"),
        gpu.count().cast(pl.Int64).alias("timed_calls"),
        gpu.mean().round().cast(pl.Int64).alias("gpu_avg_ns"),
        gpu.min().alias("gpu_min_ns"),
        gpu.max().alias("gpu_max_ns"),
        total("cpu_total_ns").alias("cpu_total_ns"),
        total("cpu_self_ns").alias("cpu_self_ns"),
        pl.col("cpu_total_ns").mean().round().cast(pl.Int64).alias("cpu_avg_ns"),
        total("api_ns").alias("api_ns"),
        total("launches").alias("launches"),
        total("untimed_launches").alias("untimed_launches"),
        pl.col("tc_eligible").any(ignore_nulls=False),
        *call_costs,
        pl.col("op_source").first(),
        pl.col("line").min(),
    ]
    return group_rows(calls, ("session", "name", *also), sums).rename({"name": "op"})


def _common_value_or(column: str, default: pl.Expr) -> pl.Expr:
    """Return the value of a column that all rows share, as text; else a given text."""
    values = pl.col(column)
    return (
        pl.when(values.n_unique() == 1).then(values.first().cast(pl.String)).otherwise(default).cast(NAME).alias(column)
    )


@once_per_profile("sessions", "devices", "ops", "activities", "api_calls", "summary")
def recorded_ops(profile: Profile) -> pl.DataFrame:
    """Return recorded ops by name, and GPU work without an op by reason; largest GPU time first.

    Columns: session, op, op_type, direction, group, calls, gpu_self_ns, time_pct, gpu_total_ns, gpu_avg_ns, gpu_min_ns,
    gpu_max_ns, cpu_total_ns, cpu_self_ns, cpu_avg_ns, api_ns, timed_calls, launches, untimed_launches (as
    `costs_by_name`), kernels (distinct names of what it launched itself), tc_eligible
    (`tui.analysis.tensor_core_efficiency.eligible_ops`, of any of its calls), uses_tensor_core (whether any of its own
    kernels does), dtype, stack, op_source, line. ``why_no_op`` is why work has no op, null for ops.

    ``gpu_self_ns`` of all rows of a session adds up to its GPU time; ``time_pct`` is the share of that. ``op_type`` is
    as recorded, else inferred from its name, else the type of all its own kernels; null if they differ. ``group`` lists
    the kinds of its GPU work, most time first.
    """
    work = classified_work(profile)
    groups = (
        work.group_by("session", "op", "why_no_op", "group")
        .agg(total("total_ns").alias("total_ns"))
        .sort("total_ns", "group", descending=[True, False], nulls_last=True)
        .group_by("session", "op", "why_no_op", maintain_order=True)
        .agg(pl.col("group").cast(pl.String).str.join(", ").alias("groups"))
    )
    kernel_costs = work.group_by("session", "op", "why_no_op").agg(
        pl.col("name").n_unique().cast(pl.Int64).alias("kernels"),
        pl.col("uses_tensor_core").any(ignore_nulls=False),
        pl.when(pl.col("kernel_type").n_unique() == 1).then(pl.col("kernel_type").first()).alias("kernel_type"),
        complete_sum("launches").alias("work_launches"),
        untimed_calls("launches").alias("work_untimed"),
        total("total_ns").alias("work_ns"),
        pl.col("line").min().alias("work_line"),
    )
    kernel_costs = kernel_costs.join(groups, on=["session", "op", "why_no_op"], how="left", nulls_equal=True)
    classes = op_classes(profile).rename({"direction": "named_direction"})
    ops = (
        costs_by_name(profile)
        .join(classes, on=["session", "op"], how="left")
        .join(kernel_costs.filter(pl.col("op").is_not_null()), on=["session", "op"], how="left")
        .with_columns(
            pl.coalesce("op_type", "kernel_type"),
            pl.coalesce("direction", "named_direction"),
            pl.coalesce("groups", pl.col("group").cast(pl.String)).cast(NAME).alias("group"),
            pl.when(pl.col("launches").is_not_null()).then(pl.col("kernels").fill_null(0)).alias("kernels"),
        )
    )
    unattributed = kernel_costs.filter(pl.col("op").is_null()).select(
        "session",
        pl.format(NO_OP, "why_no_op").cast(NAME).alias("op"),
        pl.col("kernel_type").alias("op_type"),
        pl.col("groups").cast(NAME).alias("group"),
        pl.col("work_ns").alias("gpu_self_ns"),
        pl.col("work_launches").alias("launches"),
        pl.col("work_untimed").alias("untimed_launches"),
        "kernels",
        "uses_tensor_core",
        pl.col("work_line").alias("line"),
        "why_no_op",
    )
    session_ns = pl.col("gpu_self_ns").sum().over("session")
    return (
        pl.concat([ops, unattributed], how="diagonal")
        .with_columns(pl.when(session_ns > 0).then(100 * pl.col("gpu_self_ns") / session_ns).alias("time_pct"))
        .select(*RECORDED)
        .sort(
            "gpu_self_ns",
            "gpu_total_ns",
            "cpu_total_ns",
            "op",
            "session",
            descending=[True, True, True, False, False],
            nulls_last=True,
        )
    )
