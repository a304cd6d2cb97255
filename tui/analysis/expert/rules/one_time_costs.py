"""What belongs to start-up and warm-up: allocation, loading, tuning."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert.finding_text import (
    ADVISOR,
    HTA,
    ROOT_CAUSES,
    duration,
    evidence_by_name,
    float_or_zero,
    int_or_zero,
    known_sum,
    label,
    name_filter,
    percent,
    select_iterations_advice,
    sort_by_largest,
    totals_by_name,
)
from tui.analysis.expert.in_use import LAUNCH_CALLS
from tui.analysis.expert.rule import Cause, Clean, Family, Found, NotApplicable, Severity, Verdict, rule
from tui.analysis.gpu_time.interval_sets import interval_union, row_intervals
from tui.text import plural

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case
    from tui.analysis.gpu_time.interval_sets import IntervalSet
    from tui.analysis.gpu_time.timelines import Timeline


ALLOCATIONS: Final = (
    r"(?i)^(?:cuda|cu|hip)_?(?:ext_?)?(?:(?:mem|host)_?){0,2}(?:malloc|alloc|free)|^(?:cu|hip)mem(?:create|release)"
    r"|^zemem(?:alloc|free)|^aclrt(?:malloc|free)"
)
LOADING: Final = r"(?i)moduleload|libraryload|nvrtc|linkcomplete|hiprtc|^zemodulecreate$|^opcompile$"
STARTING: Final = (
    r"(?i)^(?:cuda|cu|hip)(?:free|malloc|hostalloc|init|streamcreate|memgetinfo|setdevice|devicegetattribute|ctxcreate"
    r"|getdevice|deviceprimaryctxre|memcpytosymbol|streamiscapturing|devicegetstreampriorityrange)"
)
"""Calls in which CUDA starts if they come first, and whose own work is short or done once."""
ALGORITHMS: Final = r"^(?:convolution|gemm)"

_CONFIG: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_LAUNCH: Final = ("session", "device", "stream", "start_ns", "name", "op")


@rule("A8", "malloc-in-loop", Family.LAUNCHES, needs.api_times, link=HTA)
def allocation_in_loop(case: Case) -> Verdict:
    """GPU memory is allocated in the loop."""
    if missing := needs.api_trace(case):
        return _allocation_in_totals(case) or NotApplicable(missing)
    if missing := needs.iterations(case):
        return NotApplicable(missing)
    # The first iteration may allocate; a selection of iterations may not contain it.
    later = case.profile.aggregation.first is not None
    steps = case.iterations if later else case.iterations.slice(1)
    if steps.is_empty():
        return NotApplicable("only one iteration, and the first one may allocate")
    begin, end = steps["start_ns"][0], int_or_zero((steps["start_ns"] + steps["duration_ns"]).max())
    calls = case.calls_named(ALLOCATIONS, "line").filter(pl.col("start_ns").is_between(begin, end))
    # Calls of several threads, and driver calls within runtime calls, are on at the same time.
    total_ns, span = row_intervals(calls).length_ns, end - begin
    share = 100 * total_ns / span if span else 0.0
    calls_per_iteration = calls.height / steps.height
    location = "in these iterations" if later else "after the first iteration"
    numbers = {"calls": calls.height, "per_iteration": calls_per_iteration, "call_ns": total_ns, "share_pct": share}
    too_long = share > case.limit("A8", "span_pct") or total_ns > case.limit("A8", "total_ns")
    if calls_per_iteration < 1 or not too_long:
        return Clean(f"{plural(calls.height, 'call')} {location}, {percent(share)} of their time", numbers)
    by_name = sort_by_largest(totals_by_name(calls, "calls", "duration_ns"), "duration_ns")
    return Found(
        f"Allocating and freeing GPU memory takes {duration(total_ns)} {location} ({percent(share)} of their time): "
        f"{plural(calls_per_iteration, 'call')} per iteration, mostly {label(by_name['name'][0])}."
        + (f" Iterations are {case.iterations_note}." if case.iterations_note else ""),
        _allocation_advice(case),
        numbers,
        total_ns,
        "all of these calls",
        *evidence_by_name(by_name, view="api-calls"),
    )


def _allocation_in_totals(case: Case) -> Found | None:
    """Return what functions that allocate often cost by printed totals; None if it is little.

    The longest call of each is omitted: CUDA can start in it.
    """
    is_frequent = pl.col("calls") > case.limit("A10", "calls")
    rows = case.api_named(ALLOCATIONS).drop_nulls(["calls", "total_ns"]).filter(is_frequent)
    later = rows.with_columns(total_ns=pl.col("total_ns") - pl.col("max_ns").fill_null(0))
    calls, total_ns = known_sum(rows["calls"]), known_sum(later["total_ns"])
    share = 100 * total_ns / max(case.api_ns, 1)
    if share <= case.limit("A8", "totals_pct"):
        return None
    by_name = sort_by_largest(later.select("name", "calls", "total_ns", "line"), "total_ns")
    return Found(
        f"Allocating and freeing GPU memory takes {duration(total_ns)} ({percent(share)} of the API time) in "
        f"{plural(calls, 'call')}, mostly {label(by_name['name'][0])}.",
        _allocation_advice(case),
        {"calls": calls, "call_ns": total_ns, "share_pct": share},
        total_ns,
        "all of these calls but the longest of each function, in which CUDA can start",
        *evidence_by_name(by_name, view="api-calls"),
    )


def _allocation_advice(case: Case) -> str:
    """Return advice on allocation."""
    if case.is_torch:
        suspects = "growing shapes, empty_cache, other libraries"
        return f"PyTorch's allocator keeps memory: find what still allocates ({suspects})."
    return "Allocate once before the loop, or use a caching allocator: cudaMallocAsync."


@rule("A9", "module-load", Family.LAUNCHES, needs.gpu_work, needs.api_times, link=ROOT_CAUSES)
def loading(case: Case) -> Verdict:
    """Kernels are loaded or compiled during the run."""
    rows, basis = case.api_named(LOADING).select("name", "calls", "total_ns", "line"), case.cost_basis_text
    if case.span_ns and rows.height and not needs.api_trace(case):
        first, last = case.busy["first_ns"].min(), case.busy["last_ns"].max()
        calls_in_run = case.calls_named(LOADING, "line").filter(pl.col("start_ns").is_between(first, last))
        by_name = totals_by_name(calls_in_run, "calls", "duration_ns").rename({"duration_ns": "total_ns"})
        rows = sort_by_largest(by_name.with_columns(pl.col("name").cast(pl.String)), "total_ns")
        in_calls = row_intervals(calls_in_run)
        # A call can last longer than the wall time, which is that of the ops.
        total_ns = (in_calls.clip_to(*case.wall) if case.wall_ns else in_calls).length_ns
    else:
        total_ns = known_sum(rows["total_ns"])
    share = 100 * total_ns / case.cost_basis_ns
    numbers = {"load_ns": total_ns, "share_pct": share}
    if share <= case.limit("A9", "span_pct"):
        text = f"loading and compiling kernels takes {percent(share)} of the {basis}"
        return needs.clean_unless_cut(case, Clean(text, numbers))
    return Found(
        f"Loading and compiling kernels takes {duration(total_ns)} ({percent(share)} of the {basis}), mostly in "
        f"{label(rows['name'][0])}.",
        "Warm up before you measure, or leave the first iterations out. CUDA_MODULE_LOADING=EAGER loads at the start.",
        numbers,
        total_ns,
        "all of these calls",
        *evidence_by_name(rows, view="api-calls"),
    )


@rule("A10", "start-up", Family.LAUNCHES, needs.api_work, severity=Severity.INFO)
def start_up(case: Case) -> Verdict:
    """CUDA starts up during the run."""
    if case.api.drop_nulls(["total_ns", "max_ns", "calls"]).is_empty() or not case.api_ns:
        return NotApplicable("durations of the longest API calls are not recorded")
    heavy = start_up_calls(case)
    if heavy.is_empty():
        return Clean("no call made once at the start takes much of the API time")
    first, others = heavy.row(0, named=True), [label(name) for name in heavy["name"][1:]]
    total_ns = min(known_sum(heavy["total_ns"]), case.wall_ns or known_sum(heavy["total_ns"]))
    longest = f" The longest takes {duration(first['max_ns'])}." if first["calls"] > 1 else ""
    return Found(
        f"{case.api_name} initialization: {label(first['name'])} takes {duration(first['total_ns'])} in "
        f"{plural(first['calls'], 'call')}, {percent(first['api_pct'])} of the API time.{longest}"
        + (f" {' and '.join(others)} {'belongs' if len(others) == 1 else 'belong'} to it." if others else ""),
        "Initialization is a one-time cost. Profile more iterations, or exclude it from comparisons.",
        {"api_pct": first["api_pct"], "calls": first["calls"], "max_ns": first["max_ns"]},
        total_ns,
        "these calls, which a longer run makes only once",
        *evidence_by_name(heavy, "calls", "total_ns", "max_ns", "api_pct", "line", view="api-calls"),
    )


def start_up_calls(case: Case) -> pl.DataFrame:
    """API functions called a few times whose longest call shows CUDA starting: rows of `Case.api`, with api_pct."""
    rows = case.api.drop_nulls(["total_ns", "max_ns", "calls"])
    return rows.with_columns((100 * pl.col("total_ns") / max(case.api_ns, 1)).alias("api_pct")).filter(
        pl.col("name").str.contains(STARTING),
        pl.col("api_pct") > case.limit("A10", "api_pct"),
        pl.col("calls") <= case.limit("A10", "calls"),
        (pl.col("max_ns") * pl.col("calls") >= case.limit("A10", "max_per_avg") * pl.col("total_ns"))
        | (100 * pl.col("max_ns") >= case.limit("A10", "longest_pct") * pl.col("total_ns")),
    )


def longest_start_up_call(case: Case, until_ns: int) -> str:
    """Return a text about the longest call before the first GPU work; empty if it took less than half of that time.

    Args:
        case: The run.
        until_ns: When that work starts.
    """
    calls = case.profile["api_calls"].select("name", "start_ns", "duration_ns").drop_nulls()
    end = pl.min_horizontal(pl.col("start_ns") + pl.col("duration_ns"), until_ns)
    early = calls.filter(pl.col("start_ns") < until_ns).select("name", took=end - pl.col("start_ns"))
    if early.is_empty():
        return ""
    longest = early.sort("took", descending=True).row(0, named=True)
    if 2 * longest["took"] < until_ns - case.wall[0]:
        return ""
    return f"{label(longest['name'])} took {duration(longest['took'])} of it"


_CAPTURE_BEGINS: Final = r"(?i)stream_?begincapture"
_CAPTURE_ENDS: Final = r"(?i)stream_?endcapture|graphinstantiate"


def loading_and_captures(case: Case) -> tuple[IntervalSet, IntervalSet]:
    """Return when kernels were loaded or compiled, and when they were captured in graphs.

    Launch calls that take long load their kernel, unless the queue is full: then the GPU is busy.
    """
    _, slow = case.calls_longer_than(LAUNCH_CALLS, case.limit("A4", "call_ns"))
    loads = case.calls_named(LOADING)
    captures = case.calls_named(_CAPTURE_BEGINS)["start_ns"].sort().to_numpy()
    ends = case.calls_named(_CAPTURE_ENDS).select(pl.col("start_ns") + pl.col("duration_ns")).to_series().sort()
    end_indices = np.searchsorted(ends.to_numpy(), captures)
    has_end = end_indices < len(ends)
    captured = interval_union(captures[has_end], ends.to_numpy()[end_indices[has_end]])
    return row_intervals(slow) | row_intervals(loads), captured


@rule("P5", "autotuning", Family.PRECISION, needs.gpu_work, needs.several_launches, severity=Severity.INFO)
def autotuning(case: Case) -> Verdict:
    """Algorithms are tried out during the run."""
    checkers = case.kernels.filter(pl.col("name").cast(pl.String).str.contains("(?i)redzone_checker"))
    once = case.kernels.filter(pl.col("op_type").str.contains(ALGORITHMS), pl.col("calls") == 1)
    min_algorithms = int(case.limit("P5", "algorithms"))
    if checkers.is_empty() and once.height < min_algorithms:
        return Clean("no op tries several algorithms")
    rows = case.profile["activities"].lazy().filter(pl.col("kind") == "kernel").select(_LAUNCH).collect()
    single = rows["name"].is_in(once["name"].implode())
    if rows["op"].count():
        by_op = rows.filter(single & rows["op"].is_not_null()).group_by("op").agg(pl.col("name").unique())
        tried = by_op.filter(pl.col("name").list.len() >= min_algorithms)
        names = tried["name"].explode().unique().sort().to_list()
    else:
        names = _adjacent_single_runs(rows, single, min_algorithms) if _repeats(case) else []
    if checkers.is_empty() and not names:
        if not rows["op"].count() and not _repeats(case) and once.height >= min_algorithms:
            return NotApplicable("most kernels run only once or twice, as when algorithms are tried out")
        return Clean("no op tries several algorithms")
    shown = checkers["name"].to_list() + names
    tried_rows = case.kernels.filter(pl.col("name").is_in(shown))
    total_ns = known_sum(tried_rows["total_ns"])
    return Found(
        f"Autotuning runs during the profile: {plural(len(shown), 'kernel')}, {duration(total_ns)}"
        + (f", including {label(shown[0])}." if checkers.height else "."),
        "Warm up before you measure. With fixed shapes each algorithm is tried only once.",
        {"kernels": len(shown), "time_ns": total_ns},
        total_ns,
        "all of these kernels",
        *evidence_by_name(tried_rows, "calls", "total_ns", "line"),
        is_summed_over_gpus=True,
    )


def _repeats(case: Case) -> bool:
    """Return whether other kernels run often: only then are kernels that run once suspicious."""
    calls = case.kernels["calls"].drop_nulls()
    return bool(calls.len()) and float(calls.median() or 0) >= 3  # type: ignore[arg-type]


def _adjacent_single_runs(rows: pl.DataFrame, single: pl.Series, min_launches: int) -> list[str]:
    """Return names of kernels that run once each, at least ``min_launches`` in a row."""
    ordered = rows.with_columns(single.alias("once")).sort("session", "device", "stream", "start_ns")
    runs = ordered.with_columns(pl.col("once").rle_id().alias("run")).filter("once")
    long = runs.group_by("run").agg(pl.col("name").unique()).filter(pl.col("name").list.len() >= min_launches)
    return [str(name) for name in long["name"].explode().unique().sort()] if long.height else []


@rule("P12", "dynamic-shapes", Family.PRECISION, needs.gpu_work, needs.several_launches, link=ADVISOR)
def dynamic_shapes(case: Case) -> Verdict:
    """Changing shapes make kernels load or tune again."""
    causing_rules = [rule for rule in ("P5", "A9") if case.has_finding(rule)]
    ops = case.profile["ops"].filter(pl.col("input_shapes").is_not_null())
    if ops.height:
        counts = ops.group_by("name").agg(pl.col("input_shapes").n_unique().alias("shapes"), pl.len().alias("calls"))
        subject, view = "input shapes", "ops-and-kernels"
    else:
        rows = case.configs.drop_nulls("grid_x")
        if rows.is_empty():
            return NotApplicable("neither shapes nor grids are recorded")
        counts = rows.group_by("name").agg(pl.struct("grid", "block").n_unique().alias("shapes"), pl.col("calls").sum())
        subject, view = "launch configurations", "kernels"
    varied = counts.filter(pl.col("shapes") >= case.limit("P12", "shapes"))
    numbers = {"names": varied.height, "shapes": int_or_zero(counts["shapes"].max())}
    if varied.height and not causing_rules and (reason := case.inapplicable("P5", "A9")):
        return NotApplicable(reason)
    if varied.is_empty() or not causing_rules:
        return Clean(
            f"at most {plural(numbers['shapes'], subject[:-1], subject)} of one {'op' if ops.height else 'kernel'}"
            + ("" if causing_rules else ", and nothing is tuned or loaded during the run"),
            numbers,
        )
    changing = _changing_shapes(case, varied["name"], of_ops=bool(ops.height))
    if changing is None:
        subjects = "ops" if ops.height else "kernels"
        return NotApplicable(needs.iterations(case) or f"{subjects} are recorded in fewer than three iterations")
    varied = sort_by_largest(changing.filter(pl.col("shapes") >= case.limit("P12", "shapes")), "shapes")
    numbers["names"], numbers["shapes"] = varied.height, int_or_zero(changing["shapes"].max())
    if varied.is_empty():
        return Clean(
            f"all but {plural(numbers['shapes'], subject[:-1], subject)} of each are in every iteration", numbers
        )
    first = varied.row(0, named=True)
    return Found(
        f"{label(first['name'])} has {first['shapes']} {subject} that differ between iterations. "
        f"Kernels are tuned or loaded for them during the run ({', '.join(causing_rules)}).",
        "Pad or bucket inputs to few shapes. Tell the compiler which dimensions change (mark_dynamic).",
        numbers,
        None,
        f"counted by {' and '.join(causing_rules)}",
        varied.head(10),
        view,
        name_filter(varied["name"].head(10).to_list(), "op" if ops.height else "name"),
    )


def _changing_shapes(case: Case, names: pl.Series, *, of_ops: bool) -> pl.DataFrame | None:
    """Shapes, or launch configurations, that only some iterations have: name, shapes (their number), calls of them.

    The first iteration is omitted: it may try out algorithms. None if there are fewer than three iterations.
    """
    frame = case.profile["ops" if of_ops else "activities"].lazy()
    shape = ("input_shapes",) if of_ops else _CONFIG
    is_relevant = (
        pl.col("name").is_in(names.implode()) & pl.col("iteration").is_not_null() & pl.col(shape[0]).is_not_null()
    )
    rows = frame.filter(is_relevant).select("name", "iteration", *shape).collect()
    if rows.is_empty():
        return None
    later = rows.filter(pl.col("iteration") > rows["iteration"].min())
    steps = later["iteration"].n_unique()
    if steps < 2:
        return None
    by_shape = later.group_by("name", *shape).agg(
        pl.col("iteration").n_unique().alias("steps"), pl.len().alias("calls")
    )
    return (
        by_shape.filter(pl.col("steps") < steps)
        .group_by("name")
        .agg(pl.len().cast(pl.Int64).alias("shapes"), pl.col("calls").sum().cast(pl.Int64))
    )


def warm_start(case: Case) -> tuple[int, int, int] | None:
    """Return the first iteration after warm-up (as in I10), when it begins, and the last iteration.

    None where fewer than two are left, or where iterations were chosen already.
    """
    steps = case.iterations
    if case.profile.aggregation.is_part or steps.height < 2:
        return None
    durations = steps["duration_ns"]
    is_first_warm_up = durations[0] > case.limit("I10", "median") * float_or_zero(durations[1:].median())
    if steps.height - is_first_warm_up < 2:
        return None
    first = steps.row(int(is_first_warm_up), named=True)
    return first["iteration"], first["start_ns"], steps["iteration"][-1]


def steady_iterations_advice(case: Case, first: int, last: int) -> str:
    """Return advice to judge the run without start-up: the steady iterations, else all after warm-up.

    Args:
        case: The run.
        first: Number of the first iteration that is warm.
        last: Number of the last.
    """
    proposed = _has_steady_iterations(case, first)
    selection = "the steady iterations" if proposed else "the iterations after start-up"
    command = select_iterations_advice(*steady_iterations(case, first, last), proposed=proposed)
    return f"Start-up is a one-time cost. Look at {selection}: {command}."


def steady_iterations(case: Case, first: int, last: int) -> tuple[int, int]:
    """Return the first and the last of the steady iterations, else of all iterations after warm-up."""
    steady = case.steady
    if steady is None or not _has_steady_iterations(case, first):
        return first, last
    return steady["steady_first"], steady["steady_last"]


def _has_steady_iterations(case: Case, first: int) -> bool:
    """Return whether a stretch of steady iterations begins after warm-up."""
    return case.steady is not None and case.steady["steady_first"] >= first


ONE_TIME: Final = "Start-up is a one-time cost. Profile more iterations, or exclude it from comparisons."


def idle_before_first_kernel(case: Case, timeline: Timeline, idle: IntervalSet) -> int:
    """Return how much of the idle time of a GPU is before its first kernel."""
    starts = [int(sequence.starts[0]) for sequence in case.sequences if sequence.timeline is timeline and len(sequence)]
    return int(idle.covered_before(np.array([min(starts)]))[0]) if starts else 0


def as_start_up(case: Case, finding: Found, rows: pl.DataFrame) -> Found:
    """Return a finding as one of start-up, if most of its time is before the first warm iteration.

    Args:
        case: The run.
        finding: What a rule found.
        rows: The work that it is about, with start_ns and duration_ns.
    """
    if (start := warm_start(case)) is None:
        return finding
    first, warm_ns, last = start
    start_up_ns = known_sum(rows.filter(pl.col("start_ns") < warm_ns)["duration_ns"])
    if 2 * start_up_ns <= known_sum(rows["duration_ns"]):
        return finding
    problem = f"{finding.problem} {duration(start_up_ns)} of it is before iteration {first}."
    return replace(finding, problem=problem, advice=steady_iterations_advice(case, first, last), cause=Cause.START_UP)
