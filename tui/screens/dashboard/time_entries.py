"""Lines of the panels about time: wall time, utilization, iterations, idle gaps, findings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.gpu_time.breakdown import Category
from tui.analysis.iterations.segments import DETECTED
from tui.fmt import brief_duration, brief_percent, count
from tui.labels import distinct_symbols
from tui.screens.dashboard.entries import (
    Entry,
    Link,
    align_columns,
    bar_fraction,
    category_link,
    finding_link,
    gap_link,
    gpu_link,
    iteration_filter,
    iteration_link,
)
from tui.widgets.charts.bars import BarRow
from tui.widgets.charts.iteration_bars import PARTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.analysis.dashboard import Advice, IterationCourse
    from tui.model.profile import Profile

SEVERITY_SIGNS: Final = {
    "error": ("!!", "bold $error"),
    "warning": ("! ", "bold $warning-ink on $warning-ground"),
    "info": ("i ", "$text-muted"),
}
"""The severity of a finding if there is no room for words; the findings of a tool have none."""
KIND_BY_CATEGORY: Final = dict(zip(Category, PARTS, strict=True))
"""The style of each use of wall time."""
TOOL_SIGN: Final = ("> ", "$text-muted")
MAX_DETAILED_SESSIONS: Final = 3
"""If there are more sessions, each has one line."""
WORK_CELLS: Final = 30
"""The width of the name of the work after a gap."""
MAX_UNKNOWN_WITH_OF: Final = 2
"""Beside more kinds of unknown use there is no room for the word."""


def findings_subtitle(advice: Advice) -> str:
    """Return what costs are shares of, and the number of causes of each severity."""
    totals = advice.top_findings["cost_of"].drop_nulls().unique(maintain_order=True).to_list()
    return f"% of {' or '.join(totals)}; {advice.summary}" if totals else advice.summary


def finding_entries(advice: Advice) -> list[Entry]:
    """Return the most expensive findings, one per cause."""
    lines = []
    for row in advice.top_findings.iter_rows(named=True):
        sign = SEVERITY_SIGNS.get(row["severity"] or "", TOOL_SIGN)
        cost = brief_percent(row["cost_pct"]) if row["cost_pct"] is not None else ""
        lines.append(
            Entry(
                BarRow(
                    f"{row['rule']} {row['problem']}",
                    advice.with_session(row),
                    None,
                    cost,
                    sign=sign,
                    sentence=True,
                ),
                finding_link(row),
                {
                    name: row[name]
                    for name in ("severity", "recommendation", "cost_ns", "cost_basis", "all_rules", "session")
                },
            )
        )
    return lines


def wall_entries(rows: pl.DataFrame, profile: Profile) -> list[Entry]:
    """Return the uses of the wall time of one session, without those that are not recorded."""
    recorded = rows.drop_nulls("time_ns")
    max_ns = recorded["time_ns"].max()
    has_ops, has_api_calls = profile["ops"].height > 0, profile["api_calls"].height > 0
    return [
        Entry(
            BarRow(
                row["category"],
                row["category"],
                bar_fraction(row["time_ns"], max_ns),
                brief_duration(row["time_ns"]),
                row["wall_pct"],
                part=KIND_BY_CATEGORY[Category(row["category"])],
            ),
            category_link(row["category"], has_api_calls=has_api_calls, has_ops=has_ops) if row["time_ns"] else None,
            {**row, "total_ns": row["time_ns"]},
        )
        for row in recorded.iter_rows(named=True)
    ]


def wall_subtitle(rows: pl.DataFrame) -> str:
    """Return the wall time, and its uses that are not recorded."""
    if rows.is_empty():
        return ""
    unknown = rows.filter(rows["time_ns"].is_null())["category"].to_list()
    wall_time = f"{'of ' if len(unknown) <= MAX_UNKNOWN_WITH_OF else ''}{brief_duration(rows['wall_ns'][0])}"
    return f"{wall_time}; not recorded: {', '.join(unknown)}" if unknown else wall_time


def wall_of_sessions(rows: pl.DataFrame, profile: Profile) -> list[Entry]:
    """Return the share of GPU work in each session's wall time; for few sessions also its uses.

    Wall times of several sessions are never added up: every share refers to its own session.
    """
    gpu = {str(c) for c in (Category.TENSOR_CORES, Category.OTHER_KERNELS, Category.UNKNOWN_KERNELS, Category.MEMORY)}
    sessions = rows.partition_by("session", as_dict=True, maintain_order=True)
    has_ops, has_api_calls = profile["ops"].height > 0, profile["api_calls"].height > 0
    entries = []
    for (session,), part in sessions.items():
        gpu_ns = int(part.filter(part["category"].is_in(gpu))["time_ns"].sum())
        wall = part["wall_ns"][0]
        entries.append(
            Entry(
                BarRow(
                    str(session),
                    f"session {session}: GPU work",
                    bar_fraction(gpu_ns, wall),
                    f"of {brief_duration(wall)}",
                    100 * gpu_ns / wall if wall else None,
                ),
                Link(session=int(str(session))),
                {"session": session, "wall_ns": wall},
            )
        )
        for row in part.drop_nulls("time_ns").iter_rows(named=True) if len(sessions) <= MAX_DETAILED_SESSIONS else ():
            link = (
                category_link(row["category"], has_api_calls=has_api_calls, has_ops=has_ops) if row["time_ns"] else None
            )
            entries.append(
                Entry(
                    BarRow(
                        f"{session} {row['category']}",
                        row["category"],
                        bar_fraction(row["time_ns"], wall),
                        brief_duration(row["time_ns"]),
                        row["wall_pct"],
                        part=KIND_BY_CATEGORY[Category(row["category"])],
                    ),
                    replace(link, filter=f"{link.filter} session={session}".strip()) if link is not None else None,
                    row,
                )
            )
    return entries


def utilization_entries(devices: pl.DataFrame, *, several_sessions: bool) -> list[Entry]:
    """Return the busy time of each GPU; of a single one also its idle time."""
    recorded = devices.drop_nulls("busy_ns")
    entries = []
    for row in recorded.iter_rows(named=True):
        name = f"GPU {row['device'] if row['device'] is not None else '?'}"
        if several_sessions:
            name = f"session {row['session']} {name}"
        parts = [("busy", "busy_ns", row["busy_pct"])]
        if recorded.height == 1:
            parts.append(("idle", "idle_ns", 100 - row["busy_pct"] if row["busy_pct"] is not None else None))
        entries += [
            Entry(
                BarRow(
                    f"{name} {state}",
                    f"{name} {state}",
                    bar_fraction(share, 100),
                    brief_duration(row[column]),
                    share,
                ),
                gpu_link(row),
                {name: row[name] for name in ("session", "device", "busy_ns", "idle_ns", "busy_pct")},
                "busy_pct" if column == "busy_ns" else "idle_ns",
            )
            for state, column, share in parts
        ]
    return entries


def iteration_entries(courses: Sequence[IterationCourse]) -> list[Entry]:
    """Return longest, shortest and steady iterations of one session; for several sessions their means."""
    if len(courses) != 1:
        return _means(courses)
    times = courses[0].times.sort("duration_ns", descending=True, maintain_order=True)
    max_ns = times["duration_ns"][0]
    ends = [("longest", times.row(0, named=True)), ("shortest", times.row(-1, named=True))]
    entries = [
        Entry(
            BarRow(
                label,
                f"{label}: iteration {row['iteration']}",
                bar_fraction(row["duration_ns"], max_ns),
                brief_duration(row["duration_ns"]),
            ),
            iteration_link(row),
            row,
        )
        for label, row in ends[: times.height]
    ]
    spread: dict[str, Any] = courses[0].spread
    if spread["steady_first"] is not None and spread["steady_iterations"] < times.height:
        steady_first, steady_last, mean = spread["steady_first"], spread["steady_last"], spread["steady_avg_ns"]
        entries.append(
            Entry(
                BarRow(
                    "steady",
                    f"steady: {steady_first} to {steady_last}, mean",
                    bar_fraction(mean, max_ns),
                    brief_duration(mean),
                ),
                Link("iterations", iteration_filter(steady_first, steady_last, courses[0].session)),
                {"iterations": spread["steady_iterations"], "avg_ns": mean},
            )
        )
    return entries


def _means(courses: Sequence[IterationCourse]) -> list[Entry]:
    spreads: list[dict[str, Any]] = [course.spread for course in courses]
    max_ns = max((spread["avg_ns"] for spread in spreads), default=None)
    figures = align_columns(
        [f"{count(spread['iterations'])} ×" for spread in spreads],
        [brief_duration(spread["avg_ns"]) for spread in spreads],
    )
    return [
        Entry(
            BarRow(
                str(spread["session"]),
                f"session {spread['session']}: mean",
                bar_fraction(spread["avg_ns"], max_ns),
                figure,
            ),
            Link("iterations", f"session={spread['session']}"),
            spread,
        )
        for spread, figure in zip(spreads, figures, strict=True)
    ]


def iteration_subtitle(courses: Sequence[IterationCourse], shown: IterationCourse | None) -> str:
    """Return the number of iterations and their source; for several sessions, which one is drawn."""
    if shown is None:
        return ""
    spread = shown.spread
    source = {"recorded": "", DETECTED: ", detected", "key": ", by key"}.get(shown.source, "")
    prefix = f"session {shown.session}: " if len(courses) > 1 else ""
    if spread["iterations"] == 1:
        return f"{prefix}only iteration {spread['first']}{source}"
    return f"{prefix}{spread['iterations']}, from {spread['first']} to {spread['last']}{source}"


def gap_entries(rows: pl.DataFrame, *, has_several_sessions: bool) -> list[Entry]:
    """Return the longest idle gaps with the next work and the CPU's activity, else with their iteration."""
    if rows.is_empty():
        return []
    max_ns = rows["duration_ns"].max()
    arrow = " → "
    names = distinct_symbols(rows["after"].cast(pl.String).drop_nulls().to_list(), WORK_CELLS)
    has_no_cpu_activity = not rows["cpu_in"].count()
    return [
        Entry(
            BarRow(
                f"{row['session']} {row['activity']}",
                f"{_gpu_text(row) if has_several_sessions else ''}"
                f"{_iteration_text(row) if has_no_cpu_activity else row['cpu_in'] or ''}{arrow}"
                f"{names.get(row['after'], '?')}".strip(),
                bar_fraction(row["duration_ns"], max_ns),
                brief_duration(row["duration_ns"]),
                row["wall_pct"],
            ),
            gap_link(row),
            row,
        )
        for row in rows.iter_rows(named=True)
    ]


def gaps_subtitle(rows: pl.DataFrame) -> str:
    """Return the meaning of the texts around the arrow of a gap."""
    activity = "CPU activity " if rows["cpu_in"].count() else ""
    return f"{activity}→ next GPU work"


def _iteration_text(row: dict[str, Any]) -> str:
    return "" if row["iteration"] is None else f"iteration {row['iteration']}"


def _gpu_text(row: dict[str, Any]) -> str:
    return f"s{row['session']} GPU {row['device'] if row['device'] is not None else '?'} "
