"""The lines of each panel of the dashboard, from the figures of the profile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.dashboard import ORDERS, REMAINING, GpuTimeUse, top_rows
from tui.analysis.gpu_time.breakdown import Category
from tui.analysis.iterations.segments import DETECTED
from tui.analysis.ops.op_type_rules import UNKNOWN, classify
from tui.fmt import brief_duration, brief_percent, brief_rate, brief_size, count
from tui.labels import distinct_symbols
from tui.screens.dashboard.entries import (
    Entry,
    Link,
    align_columns,
    bar_fraction,
    category_link,
    copies_link,
    finding_link,
    gap_link,
    gpu_link,
    group_link,
    iteration_filter,
    iteration_link,
    name_link,
    op_link,
    tensor_cores_link,
    use_link,
)
from tui.text import plain
from tui.widgets.charts.bars import BarRow
from tui.widgets.charts.iteration_bars import PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tui.analysis.dashboard import Advice, Dashboard, IterationCourse
    from tui.model.profile import Profile

SEVERITY_SIGNS: Final = {
    "error": ("!!", "bold $error"),
    "warning": ("! ", "bold $warning-ink on $warning-background"),
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


USES: Final = "T"
"""The sign of ops that use tensor cores."""
COULD: Final = "t"
"""The sign of ops that could use them and do not."""
_USE_STYLES: Final = ("tensor", "other", "unknown", "memory", "memset", "um", "whole")
KIND_BY_USE: Final[Mapping[str, str]] = dict(zip(GpuTimeUse, _USE_STYLES, strict=True))
"""The style of each use of GPU time."""
UNKNOWN_DIRECTION: Final = "unknown direction"
UNCLASSIFIED: Final = "unclassified"
UNKNOWN_CALLS: Final = "–"
"""Instead of a number of calls that is not recorded."""


def op_entries(board: Dashboard, order: str) -> list[Entry]:
    """Return the first ops in an order."""
    return _top_entries(board.ops, order, board.counted_ops, "op", op_link)


def kernel_entries(board: Dashboard, order: str) -> list[Entry]:
    """Return the first kernels in an order."""

    def link(row: dict[str, Any]) -> Link:
        return name_link("kernels", row)

    return _top_entries(board.kernels, order, "calls", "name", link)


def _top_entries(
    all_rows: pl.DataFrame,
    order: str,
    counted: str,
    label: str,
    link: Callable[[dict[str, Any]], Link],
    *,
    is_gpu_work: bool = True,
) -> list[Entry]:
    """Return lines with counts, the figure that they are sorted by, and the tensor-core symbol.

    Args:
        all_rows: The rows, largest total first.
        order: One of `ORDERS`.
        counted: The column of counts.
        label: The column of names.
        link: Returns the link of a row.
        is_gpu_work: Whether they are GPU work, whose bars have the color of its kind.
    """
    sort_column = counted if order == "calls" else order
    time_column = order if order != "calls" else "total_ns"
    rows = top_rows(all_rows, sort_column)
    if "op_type" not in rows.columns:
        types = classify(rows["name"]).select(pl.col("name").cast(rows.schema["name"]), "op_type")
        rows = rows.join(types, on="name", how="left", maintain_order="left")
    maximum = rows[sort_column].max()
    records = list(rows.iter_rows(named=True))
    figures = align_columns(
        *([[_sign(row) for row in records]] if any(map(_sign, records)) else []),
        [_times(row[counted]) for row in records],
        [brief_duration(row[time_column]) for row in records],
    )
    return [
        Entry(
            BarRow(
                f"{row[label]} {row.get('op_source', '')}",
                str(row[label]),
                bar_fraction(row[sort_column], maximum),
                figure,
                row["time_pct"],
                symbol=label == "name",
                kind=_style(row) if is_gpu_work else "",
            ),
            link(row),
            row,
        )
        for row, figure in zip(records, figures, strict=True)
    ]


def _sign(row: dict[str, Any]) -> str:
    return USES if row.get("uses_tensor_core") else COULD if row.get("tc_eligible") else ""


_STYLE_BY_TYPE: Final = {
    "communication": "communication",
    "copy": "memory",
    "memset": "memset",
    "unified memory": "um",
}


def _style(row: dict[str, Any]) -> str:
    """Return the style of the kind of work of an op or kernel."""
    op_type = str(row.get("op_type"))
    if op_type.startswith("memcpy"):
        return "memory"
    if op_type in _STYLE_BY_TYPE:
        return _STYLE_BY_TYPE[op_type]
    uses = row["uses_tensor_core"]
    return "unknown" if uses is None else "tensor" if uses else "other"


def _times(number: int | None) -> str:
    if number is None:
        return plain(UNKNOWN_CALLS)
    return f"{count(number)}{times_symbol()}"


def times_symbol() -> str:
    """Return the symbol after a count."""
    return "×"


def ops_subtitle(board: Dashboard, order: str) -> str:
    """Return the source of the ops, their unit of counting, and their order."""
    source = "recorded, GPU self time"
    if not board.ops_recorded:
        source = "inferred from kernel names"
    elif board.ops_inferred:
        source = f"recorded in {board.ops_recorded} of {board.ops_recorded + board.ops_inferred} sessions"
    return ", ".join((source, counted_subtitle(board.counted_ops, order)))


def counted_subtitle(counted: str, order: str) -> str:
    """Return the unit of counting, and the order."""
    order_text = {ORDERS[1]: f"by {counted}", ORDERS[2]: "by average"}.get(order, "")
    return ", ".join(filter(None, (f"{times_symbol()} {counted}", order_text)))


def split_entries(board: Dashboard) -> list[Entry]:
    """Return GPU time by kind of work."""
    return _parts(
        board.split,
        "group",
        lambda row: group_link(row, remainder=REMAINING),
        labels={UNKNOWN: UNCLASSIFIED},
    )


def use_entries(board: Dashboard) -> list[Entry]:
    """Return GPU time by use."""
    return _parts(board.gpu_uses, "use", lambda row: use_link(row["use"]), styles=KIND_BY_USE)


def _parts(
    rows: pl.DataFrame,
    label: str,
    link: Callable[[dict[str, Any]], Link],
    *,
    labels: Mapping[str, str] | None = None,
    styles: Mapping[str, str] | None = None,
) -> list[Entry]:
    """Return parts of a whole with distinct fills."""
    max_ns = rows["total_ns"].max()
    return [
        Entry(
            BarRow(
                row[label],
                (labels or {}).get(row[label], row[label]),
                bar_fraction(row["total_ns"], max_ns),
                brief_duration(row["total_ns"]),
                row["time_pct"],
                part=(styles or {}).get(row[label], index),
            ),
            link(row),
            row,
        )
        for index, row in enumerate(rows.iter_rows(named=True))
    ]


def tensor_core_entries(board: Dashboard) -> list[Entry]:
    """Return tensor core efficiency and share, each with the total that it is a share of."""
    use, facts = board.tensor_cores, {fact.name: fact for fact in board.performance}
    shares = (
        ("tc_efficiency_pct", "TC efficiency (DLProf)", use.eligible_using_ns, use.eligible_known_ns),
        ("tc_share_pct", "TC share (TensorBoard)", use.using_ns, use.kernel_ns - use.unknown_ns),
        ("tc_unknown_pct", "unknown", use.unknown_ns, use.kernel_ns),
    )
    recorded = [
        (*share, value) for share in shares if (value := getattr(facts.get(share[0]), "value", None)) is not None
    ]
    figures = [f"{brief_duration(part)} of {brief_duration(total)}" for _, _, part, total, _ in recorded]
    return [
        Entry(
            BarRow(name, label, value / 100, figure, value, kind="unknown" if name == "tc_unknown_pct" else "tensor"),
            tensor_cores_link("?" if name == "tc_unknown_pct" else "yes" if part else "no"),
            {"total_ns": part, "why": facts[name].source},
            name,
        )
        for (name, label, part, _total, value), figure in zip(recorded, figures, strict=True)
    ]


def tensor_core_subtitle(board: Dashboard) -> str:
    """Return why nothing is known; else the totals of the shares."""
    if board.tensor_cores.reason:
        return board.tensor_cores.reason
    return "share of eligible; of all kernel time"


def copy_entries(board: Dashboard) -> list[Entry]:
    """Return copies by direction."""
    max_ns = board.copies["total_ns"].max()
    records = list(board.copies.iter_rows(named=True))
    columns = [
        [brief_size(row["size_bytes"]) if row["size_bytes"] is not None else "" for row in records],
        [brief_duration(row["total_ns"]) for row in records],
        [brief_rate(row["throughput"]) if row["throughput"] is not None else "" for row in records],
    ]
    figures = align_columns(*(column for column in columns if any(column)))
    symbol = times_symbol()
    return [
        Entry(
            BarRow(
                f"{row['kind']} {row['copy_kind']}",
                f"{_direction(row)} {symbol}{count(row['calls'])}",
                bar_fraction(row["total_ns"], max_ns),
                figure,
                kind="um" if row["kind"] == "um" else "memory",
            ),
            copies_link(row),
            row,
        )
        for row, figure in zip(records, figures, strict=True)
    ]


def _direction(row: dict[str, Any]) -> str:
    return f"{'unified memory ' if row['kind'] == 'um' else ''}{row['copy_kind'] or UNKNOWN_DIRECTION}"


def api_entries(board: Dashboard) -> list[Entry]:
    """Return API functions by time."""
    return _top_entries(
        board.top_api, ORDERS[0], "calls", "name", lambda row: name_link("api-calls", row), is_gpu_work=False
    )
