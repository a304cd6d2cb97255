"""The profile itself: what makes its figures doubtful."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis import needs as data_needs
from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert.finding_text import (
    duration,
    float_or_zero,
    known_sum,
    label,
    largest_rows,
    name_filter,
    percent,
    rate,
    size,
)
from tui.analysis.expert.rule import Cause, Clean, Family, Found, NotApplicable, Severity, Verdict, rule
from tui.analysis.gpu_time.interval_sets import row_intervals
from tui.analysis.needs import Tool
from tui.loaders.cupti import OVERHEAD_DURING_WORK, TOTAL_OVERHEAD
from tui.text import begin_sentence, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.analysis.expert.case import Case


_OVERHEAD: Final = r"(?i)profiler[ _]?overhead|cupti|activity buffer|instrumentation overhead"


@rule("Q1", "impossible-rate", Family.QUALITY, needs.sizes)
def impossible_copy_rates(case: Case) -> Verdict:
    """Copies are faster than the memory allows."""
    rows = (
        case.profile["activities"]
        .lazy()
        .filter(pl.col("kind").is_in(["memcpy", "memset"]), pl.col("size_bytes") > 0, pl.col("duration_ns") > 0)
        .select("session", "device", "activity", "name", "size_bytes", "duration_ns", "line")
        .collect()
    )
    if rows.is_empty():
        return Clean("no copy or memset has a size and a duration")
    facts = case.facts.select("session", "device", "memory_bandwidth")
    known_limits = rows.join(
        facts, on=["session", "device"], how="left", nulls_equal=True, maintain_order="left"
    ).filter(pl.col("memory_bandwidth") > 0)
    if known_limits.is_empty():
        return NotApplicable(needs.unknown_gpu_fact(case, "memory bandwidth"))
    slack = case.limit("Q1", "times")
    rates = known_limits.with_columns((1e9 * pl.col("size_bytes") / pl.col("duration_ns")).alias("rate"))
    # A copy within the device reads and writes; its bytes are counted once, so that no possible rate is reported.
    impossible = rates.filter(pl.col("rate") > slack * pl.col("memory_bandwidth"))
    numbers = {
        "rows": impossible.height,
        "checked": known_limits.height,
        "largest_rate": float_or_zero(rates["rate"].max()),
    }
    if impossible.is_empty():
        return Clean(
            f"{plural(known_limits.height, 'transfer', 'transfers')} stay below the memory's bandwidth", numbers
        )
    shown = largest_rows(
        impossible, "rate", "activity", "name", "size_bytes", "duration_ns", "rate", "memory_bandwidth", "line"
    )
    worst = shown.row(0, named=True)
    return Found(
        f"{label(worst['name'])} moves {size(worst['size_bytes'])} in {duration(worst['duration_ns'])}: "
        f"{rate(worst['rate'])}, above the peak of {rate(worst['memory_bandwidth'])}."
        + (
            f" {plural(impossible.height - 1, 'more row is', 'more rows are')} also impossible."
            if impossible.height > 1
            else ""
        ),
        "The times or sizes of these rows are wrong. Ignore their rates.",
        numbers,
        None,
        "none: a fault of the profile, not of the program",
        shown,
        "kernels",
        name_filter(impossible["name"].unique(maintain_order=True)),
        Severity.INFO if case.share(known_sum(impossible["duration_ns"])) < case.limit("Q1", "time_pct") else None,
    )


@rule("Q2", "truncated", Family.QUALITY, across=True)
def damaged_input(case: Case) -> Verdict:
    """The input is truncated, damaged or incomplete."""
    issues = case.profile["issues"].filter(pl.col("severity").is_in(["warning", "error"]))
    partial = case.profile.partial
    errors = issues.filter(pl.col("severity") == "error")
    numbers = {"errors": errors.height, "warnings": issues.height - errors.height}
    if issues.is_empty() and not partial:
        return Clean("everything that looked like a profile was read", numbers)
    first = errors.row(0, named=True) if errors.height else issues.row(0, named=True) if issues.height else None
    problems = [f"Not all of the input was read ({partial})."] if partial else []
    problems += [_issue_sentence(first)] if first is not None else []
    problems += [f"{plural(issues.height - 1, 'more problem')}: see Issues."] if issues.height > 1 else []
    advice = "Fix the cause and record again."
    if any(case.profile[frame].height for frame in ("activities", "api_calls", "summary", "metrics")):
        advice = "Some values may be missing or wrong. If they matter, fix the cause and record again."
    return Found(
        " ".join(problems),
        advice,
        numbers,
        None,
        "what was lost is not counted",
        issues.select("session", "line", "severity", "reason"),
        "issues" if issues.height else "",
        "",
        Severity.ERROR if errors.height or partial else Severity.WARNING,
    )


def _issue_sentence(issue: Mapping[str, Any]) -> str:
    """Return what an issue says as a sentence."""
    reason = str(issue["reason"]).rstrip(".")
    text = str(issue["text"] or "").rstrip(".: ") if reason.startswith("reported by") else ""
    return begin_sentence((f"{reason}: {text}" if text else reason)[:400]) + "."


@rule("Q3", "no-wall-time", Family.QUALITY, needs.gpu_work, severity=Severity.INFO)
def no_wall_time(case: Case) -> Verdict:
    """No start times: only totals are recorded."""
    missing = case.missing.get(data_needs.START_TIMES.name)
    if missing is None:
        return Clean("GPU work has start times")
    if case.are_kernels_repeated:
        return NotApplicable(needs.start_times(case))
    calls = known_sum(case.work["calls"])
    launch_clause = f" of {plural(calls, 'launch or copy', 'launches and copies')}" if calls else ""
    recorded = f"Only totals{launch_clause} are recorded"
    if case.profile["activities"].height:
        recorded = "Start times of GPU work are not recorded"
    return Found(
        f"{recorded}: utilization, gaps and overlap are unknown.",
        missing.partition(": ")[2][:1].upper() + missing.partition(": ")[2][1:] + ".",
        {"calls": calls},
        None,
        "none",
        view="kernels",
    )


@rule("Q4", "profiler-overhead", Family.QUALITY)
def profiler_overhead(case: Case) -> Verdict:
    """The profiler slowed the run."""
    measured = case.profile["metrics"] if "metrics" in case.profile.frames else pl.DataFrame()
    if measured.height and case.session_row["format"] and "nvprof" in case.session_row["format"]:
        if not case.gpu_ns:
            return NotApplicable("only metrics are recorded: there are no times that measuring could distort")
        return Found(
            f"nvprof serialized the kernels to measure hardware metrics ({plural(measured.height, 'row')}): gaps and "
            "overlap are not those of a run.",
            "Record without --metrics and --events to get the times of a run.",
            {"metrics": measured.height},
            None,
            "not estimated: the number of replays is not recorded",
            view="metrics",
            part="metrics",
            cause=Cause.INCOMPLETE,
        )
    missing = needs.start_times(case)
    if missing:
        return NotApplicable(missing)
    shown = ("name", "start_ns", "duration_ns", "line")
    overhead = pl.concat([case.rows_named(frame, _OVERHEAD, *shown) for frame in ("ranges", "ops")])
    figures = case.profile["tool_figures"].filter(pl.col("unit") == "ns")
    by_tool = figures.filter(pl.col("section") == OVERHEAD_DURING_WORK)
    if (
        overhead.is_empty()
        and figures.filter(pl.col("section").is_in([TOTAL_OVERHEAD, OVERHEAD_DURING_WORK])).is_empty()
    ):
        return NotApplicable("profiler overhead is not recorded")
    if by_tool.height and case.profile.aggregation.is_part:
        return NotApplicable("profiler overhead is known of the whole run only")
    if overhead.height:
        # Concurrent overhead of threads counts once; overhead outside of the wall time does not count.
        overhead_ns = row_intervals(overhead).clip_to(*case.wall).length_ns
        total_ns, basis = case.wall_ns, "wall time"
    else:
        overhead_ns, total_ns, basis = round(by_tool["value"].sum()), case.span_ns, "GPU span"
    share = 100 * overhead_ns / total_ns if total_ns else 0.0
    numbers = {"overhead_ns": overhead_ns, "overhead_pct": share}
    if share <= case.limit("Q4", "overhead_pct"):
        return Clean(f"profiler overhead is {percent(share)} of the {basis}", numbers)
    return Found(
        f"Profiler overhead is {duration(overhead_ns)} ({percent(share)} of the {basis}).",
        "Record fewer steps, without stacks, shapes and memory."
        if case.tool is Tool.PYTORCH
        else "Record less: a part of the run (cudaProfilerStart and cudaProfilerStop), and fewer kinds of events.",
        numbers,
        overhead_ns,
        "what the profiler records of its own work",
        largest_rows(overhead, "duration_ns", *shown)
        if overhead.height
        else by_tool.select("name", pl.col("value").cast(pl.Int64).alias("duration_ns"), "line"),
        "ranges" if overhead.height else "tool-report",
    )


@rule("Q5", "percentages", Family.QUALITY)
def percentages(case: Case) -> Verdict:
    """The percentages of a printed table do not add up."""
    printed = case.profile["summary"].filter(pl.col("section").is_in(["gpu", "api"]), pl.col("time_pct").is_not_null())
    if printed.is_empty():
        return NotApplicable("not applicable: no printed summary")
    slack = case.limit("Q5", "slack_pct")
    # Tools other than nvprof print kernels and copies, or several APIs, in tables of 100% each.
    is_nvprof = case.tool is Tool.NVPROF
    table_count = pl.lit(1.0) if is_nvprof else (pl.col("sum_pct") / 100).round().clip(1)
    sums = (
        printed.group_by("section")
        .agg(pl.col("time_pct").sum().alias("sum_pct"), pl.len().cast(pl.Int64).alias("rows"), pl.col("line").min())
        .with_columns((pl.col("sum_pct") - 100 * table_count).alias("off_pct"))
        .sort("section")
    )
    # Each printed figure is rounded, by nvprof to 0.01, by nsys to 0.1: many rows may be off by as many half steps.
    half_step = 0.005 if is_nvprof else 0.05
    wrong_sums = sums.filter(pl.col("sum_pct") > 0, pl.col("off_pct").abs() > slack + half_step * pl.col("rows"))
    numbers = {f"{section}_pct": total for section, total in sums.select("section", "sum_pct").iter_rows()}
    if wrong_sums.is_empty():
        return Clean("the percentages of each table add up to 100", numbers)
    worst = wrong_sums.sort(pl.col("off_pct").abs(), descending=True).row(0, named=True)
    is_small = 0 < -worst["off_pct"] < case.limit("Q5", "warn_pct")
    work = "GPU activities" if worst["section"] == "gpu" else "API calls"
    if case.tool is Tool.PYTORCH and worst["sum_pct"] < 100:
        return Found(
            f"The printed kernels add up to {percent(worst['sum_pct'])} of GPU time: the table shows some rows only.",
            "Print all rows: key_averages().table(row_limit=-1).",
            numbers,
            None,
            "none",
            wrong_sums.drop("off_pct"),
            "kernels",
        )
    tables = round((worst["sum_pct"] - worst["off_pct"]) / 100)
    table_clause = "the table of" if tables == 1 else f"{tables} tables of"
    return Found(
        f"The percentages in {table_clause} {work} add up to {percent(worst['sum_pct'])}, not {100 * tables}%: "
        "rows are missing or misread.",
        "Compare with the log. Shares are as printed; totals cover only the rows that were read.",
        numbers,
        None,
        "none",
        wrong_sums.drop("off_pct"),
        "kernels" if worst["section"] == "gpu" else "api-calls",
        severity=Severity.INFO if is_small else None,
    )


@rule("Q6", "rolled-up-graphs", Family.QUALITY, needs.any_gpu_work)
def rolled_up_graphs(case: Case) -> Verdict:
    """CUDA graphs are recorded as a whole."""
    graphs = case.work.filter(pl.col("kind") == "graph")
    if graphs.is_empty():
        return Clean("no CUDA graph is recorded as a whole")
    graph_ns, calls = known_sum(graphs["total_ns"]), known_sum(graphs["calls"])
    share = 100 * graph_ns / case.kernel_ns if case.kernel_ns else 0.0
    are, they, count = ("is", "it", "counts") if calls == 1 else ("are", "they", "count")
    return Found(
        f"{plural(calls, 'CUDA graph replay')} {are} recorded without {'its' if calls == 1 else 'their'} kernels: "
        f"{duration(graph_ns)}, {percent(share)} of kernel time. {they.capitalize()} {count} as busy time.",
        "Record with nsys profile --cuda-graph-trace=node.",
        {"replays": calls, "graph_ns": graph_ns, "graph_pct": share},
        None,
        "none",
        graphs.select("name", "calls", "total_ns", "line"),
        "kernels",
        "kind=graph",
    )
