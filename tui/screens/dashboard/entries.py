"""Lines of the dashboard's panels, their links, and the lines about the input: sessions, files, issues."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from textual.content import Content

from tui.analysis.allocator import allocated_by, allocations, allocators, is_memory, memory_devices, peak_by_call_site
from tui.analysis.dashboard import GpuTimeUse
from tui.analysis.dashboard_facts import KINDS, definition
from tui.analysis.expert.finding_text import percent, size, use_vendor_terms
from tui.analysis.gpu_time.breakdown import Category
from tui.analysis.gpus import RECORDED
from tui.analysis.issues import issues
from tui.analysis.layers import layer_totals
from tui.analysis.sessions import session_times
from tui.analysis.timeline.lookup import Gap
from tui.analysis.tool_report import extra_summaries
from tui.fmt import brief_duration, count, metric
from tui.model.columns import COLUMNS, ColumnKind
from tui.query.parse import equals_filter, quote
from tui.text import begin_sentence, plain, plural
from tui.widgets.charts.bars import BarRow
from tui.widgets.details import Details, full_value, sections

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tui.analysis.dashboard import Dashboard
    from tui.analysis.dashboard_facts import Fact, Value
    from tui.analysis.needs import Need
    from tui.model.profile import Profile
    from tui.screens.base import ViewScreen
    from tui.screens.explorer import Explorer
    from tui.widgets.details import Line

    Row = Mapping[str, Any]


KERNELS_ONLY: Final = "(kind=kernel | kind=graph)"
MEMORY_ONLY: Final = "(kind=memcpy | kind=memset | kind=um)"


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a view with only the rows of a filter, to a gap in the timeline, or to one session in every view."""

    view: str = ""
    """Empty: the menu of sessions, or the one session."""
    filter: str = ""
    cursor: tuple[object, ...] | None = None
    """The key of the row that the cursor goes to."""
    session: int | None = None
    """The session to show."""
    gap: Gap | None = None
    """A gap in the timeline."""
    shows_all: bool = False
    """Whether all of the timeline is shown."""
    query: str = ""
    """The query for the view of SQL."""

    def go(self, explorer: Explorer) -> None:
        """Go to the view of the link."""
        if self.view:
            explorer.go(self.view, self._arrange)
        elif self.session is not None:
            explorer.profile_session.choose_session(self.session)
        else:
            explorer.action_sessions_menu()

    def _arrange(self, screen: ViewScreen) -> None:
        if self.gap is not None or self.shows_all:
            from tui.screens.timeline import TimelineScreen

            assert isinstance(screen, TimelineScreen)
            if self.gap is not None:
                screen.show_gap(self.gap)
            else:
                screen.show_all()
            return
        if self.query:
            from tui.screens.sql import SqlScreen

            assert isinstance(screen, SqlScreen)
            screen.run(self.query)
            return
        screen.show_only(self.filter)
        pane = screen.first_table
        if pane is not None and self.cursor is not None:
            pane.state = replace(pane.state, cursor_key=self.cursor)


def fact_link(
    fact: Fact, facts: Sequence[Fact], *, omitted_sessions: Sequence[int] = (), iterated_session: int | None = None
) -> Link:
    """Return a link to the rows that a figure is computed from.

    Args:
        fact: The figure.
        facts: All figures of the profile.
        omitted_sessions: Sessions that the figures omit.
        iterated_session: The session whose iterations the figures describe.
    """
    values = {other.name: other.value for other in facts if other.value is not None}
    link = _link_to_rows(fact, values, iterated_session)
    sessions = [f"!session={session}" for session in omitted_sessions] if link.view != "timeline" else []
    return replace(link, filter=" ".join(filter(None, (link.filter, *sessions))))


def _link_to_rows(fact: Fact, values: Mapping[str, Value], iterated_session: int | None) -> Link:
    match fact.name:
        case "wall_ns" if "busy_ns" in values:
            return Link("timeline", shows_all=True)
        case "api_ns" | "api_calls" | "wall_ns" if "api_calls" in values:
            return Link("api-calls")
        case "wall_ns" | "unlaunched_ns":
            return Link("ops-and-kernels")
        case "tc_efficiency_pct":
            return tensor_cores_link("yes" if fact.value else "no")
        case "unprinted_ns":
            return Link("issues")
        case "launches" | "kernels":
            return Link("kernels", "kind=kernel")
        case "graph_launches":
            return Link("kernels", "kind=graph")
        case "mfu_pct" | "model_flops":
            return Link("roofline")
        case "tc_unknown_pct":
            return tensor_cores_link("?")
        case "api_outside_ns":
            return Link("api-calls")
        case name if name.startswith("phase_"):
            return Link("iterations", equals_filter("phase", name.removeprefix("phase_"), ColumnKind.TEXT))
        case "busy_pct":
            return Link("gpus", equals_filter("gpu_activity", RECORDED, ColumnKind.TEXT))
    iterations = iteration_filter(values.get("iteration_first"), values.get("iteration_last"), iterated_session)
    match fact.name:
        case "iteration_p95_ns":
            return Link("iterations", f"{iterations} duration_ns>={fact.value}ns")
        case name if name.startswith("iteration"):
            return Link("iterations", iterations)
    assert fact.name == "gpu_ns", f"no rows are declared for {fact.name}"
    kinds = " | ".join(f"kind={kind}" for kind, _ in KINDS if f"{kind}_ns" in values)
    return Link("kernels", f"({kinds})" if " | " in kinds else kinds)


def tensor_cores_link(answer: str) -> Link:
    """Return a link to the kernels that use tensor cores (yes), do not (no), or are unknown (?)."""
    return Link("kernels", f"{KERNELS_ONLY} uses_tensor_core={answer}")


def finding_link(row: Row) -> Link:
    """Return a link to a finding among all findings."""
    return Link("expert-systems", cursor=(row["state"], row["rule"], row["problem"], row["session"]))


def reason_link(reason: str) -> Link:
    """Return a link to the rules that do not apply for a reason."""
    return Link("expert-systems", equals_filter("message", begin_sentence(reason), ColumnKind.TEXT))


def system_link(name: str) -> Link:
    """Return a link to a column of the frame of sessions in SQL: no other view has these rows."""
    if name == "sessions":
        return Link()
    return Link("sql", query=f"SELECT session, {name}, source FROM sessions")


def category_link(category: str, *, has_api_calls: bool, has_ops: bool) -> Link | None:
    """Return a link to the rows of a category of wall time; some categories have none.

    Args:
        category: One of `Category`.
        has_api_calls: Whether there are API calls.
        has_ops: Whether there are ops.
    """
    match category:
        case Category.TENSOR_CORES:
            return tensor_cores_link("yes")
        case Category.OTHER_KERNELS:
            return tensor_cores_link("no")
        case Category.UNKNOWN_KERNELS:
            return tensor_cores_link("?")
        case Category.MEMORY:
            return Link("kernels", MEMORY_ONLY)
        case Category.CPU if has_ops:
            return Link("ops-and-kernels")
        case Category.CPU if has_api_calls:
            return Link("api-calls")
    return None


def use_link(use: str) -> Link:
    """Return a link to the GPU work of a use; for work that is not printed, to the message about it."""
    if use == GpuTimeUse.NOT_PRINTED:
        return Link("issues")
    kinds = {GpuTimeUse.MEMCPY: "memcpy", GpuTimeUse.MEMSET: "memset", GpuTimeUse.UNIFIED_MEMORY: "um"}
    if (kind := kinds.get(GpuTimeUse(use))) is not None:
        return Link("kernels", f"kind={kind}")
    return tensor_cores_link({GpuTimeUse.TENSOR_CORES: "yes", GpuTimeUse.OTHER_KERNELS: "no"}.get(GpuTimeUse(use), "?"))


def op_link(row: Row) -> Link:
    """Return a link to an op with its kernels."""
    return Link("ops-and-kernels", equals_filter("op", row["op"], ColumnKind.TEXT))


def group_link(row: Row, *, remainder: str) -> Link:
    """Return a link to the ops of a kind of work; for the rest, to all ops."""
    if row["group"] == GpuTimeUse.NOT_PRINTED:
        return use_link(row["group"])
    return Link("ops-and-kernels", "" if row["group"] == remainder else f"group:{quote(row['group'])}")


def name_link(view: str, row: Row) -> Link:
    """Return a link to a kernel or an API function."""
    return Link(view, equals_filter("name", row["name"], ColumnKind.SYMBOL))


def copies_link(row: Row) -> Link:
    """Return a link to the copies of a direction, by GPU and kinds of memory."""
    return Link("memory", f"kind={row['kind']} {equals_filter('copy_kind', row['copy_kind'], ColumnKind.TEXT)}")


def gpu_link(row: Row) -> Link:
    """Return a link to a GPU of a session."""
    device = equals_filter("device", row["device"], ColumnKind.NUMBER)
    return Link("gpus", f"session={row['session']} {device}")


def gpu_name_link(row: Row) -> Link:
    """Return a link to the GPUs with a number and a name, of any session."""
    device = equals_filter("device", row["device"], ColumnKind.NUMBER)
    return Link("gpus", f"{device} {equals_filter('gpu_name', row['name'], ColumnKind.TEXT)}")


def gap_link(row: Row) -> Link:
    """Return a link to an idle gap in the timeline, with the work before and after it."""
    return Link("timeline", gap=Gap(row["session"], row["device"], row["start_ns"], row["duration_ns"]))


def iteration_filter(first: object, last: object, session: int | None) -> str:
    """Return a filter for a range of iterations, of a session if that is known."""
    return f"iteration>={first} iteration<={last}{'' if session is None else f' session={session}'}"


def iteration_link(row: Row) -> Link:
    """Return a link to one iteration among all."""
    return Link("iterations", f"iteration={row['iteration']} session={row['session']}")


def layers_link(row: Row) -> Link:
    """Return a link to the layers of a phase and executor."""
    columns = [column for column in ("phase", "executor") if row[column]]
    return Link("layers", " ".join(equals_filter(column, row[column], ColumnKind.TEXT) for column in columns))


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a panel."""

    row: BarRow
    link: Link | None = None
    """The link; None if there are no rows behind it."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Its values by column, for the details."""
    metric: str = ""
    """The name of its figure, if different from that of the panel."""


def bar_fraction(value: float | None, maximum: object) -> float | None:
    """Return the length of a bar; None if it is unknown."""
    return value / maximum if value is not None and isinstance(maximum, int | float) and maximum else None


def align_columns(*columns: Sequence[str]) -> list[str]:
    """Align figures of several columns and return one text per line."""
    widths = [max(map(len, column), default=0) for column in columns]
    return [
        "  ".join(text.rjust(width) for text, width in zip(texts, widths, strict=True))
        for texts in zip(*columns, strict=True)
    ]


def meaning_lines(name: str) -> list[Line]:
    """Return the meaning of a figure, for the details."""
    meaning = definition(name)
    return [
        ("Means", meaning.means, ""),
        ("Formula", meaning.formula, ""),
        *([("Unit", meaning.unit, "when exported")] if meaning.unit else []),
        ("Defined by", meaning.source, ""),
    ]


def entry_details(entry: Entry, name: str) -> Details:
    """Return every value of a line in full, and the meaning of its figure."""
    lines: list[Line] = [("", entry.row.label, "")]
    for column, value in entry.values.items():
        if value is None:
            continue
        known_column = COLUMNS.get(column)
        kind = known_column.kind if known_column is not None else ColumnKind.TEXT
        text = metric(value, entry.values.get("unit")) if kind is ColumnKind.MEASURE else full_value(kind, value)
        lines.append((known_column.title if known_column is not None else column, text, ""))
    figure = entry.metric or name
    return sections([("", lines), *([(definition(figure).title, meaning_lines(figure))] if figure else [])])


def need_details(need: Need) -> Details:
    """Return what is missing, what it would show, and how to record it."""
    gives = (f": {plain(need.gives)}" if need.gives else "", "$text-muted")
    heading = Content.assemble((begin_sentence(plain(need.name)), "bold $warning-ink on $warning-background"), gives)
    return Details(((4, heading), (4, Content(f"  {plain(need.record)}"))))


SESSION_ROWS: Final = 6
"""The number of sessions on the dashboard; the menu of sessions lists all."""
ISSUE_ROWS: Final = 3
"""The number of issues on the dashboard; the Issues view lists all."""


def session_entries(profile: Profile) -> list[Entry]:
    """Return the sessions with most GPU time, in order; the last line links to all."""
    times = session_times(profile)
    max_ns = times["gpu_ns"].max()
    largest = times.sort("gpu_ns", descending=True, nulls_last=True, maintain_order=True).head(SESSION_ROWS)
    entries = [
        Entry(
            BarRow(
                str(row["session"]),
                " ".join(part for part in (str(row["session"]), row["rank_words"] or "", row["short"]) if part),
                bar_fraction(row["gpu_ns"], max_ns),
                brief_duration(row["gpu_ns"]) if row["gpu_ns"] is not None else str(row["holds"]).partition(",")[0],
            ),
            Link(session=row["session"]),
            row,
        )
        for row in largest.sort("session").iter_rows(named=True)
    ]
    if times.height > len(entries):
        entries.append(Entry(BarRow("all", f"and {times.height - len(entries)} shorter ones", None, "S: all"), Link()))
    return entries


def layer_entries(profile: Profile) -> list[Entry]:
    """Return the time of all layers by phase and executor; `layers_subtitle` explains predicted times."""
    totals = layer_totals(profile)
    max_ns = max((value for value in totals["measured_ns"] if value is not None), default=None)
    columns = ("measured_ns", "predicted_ns") if layers_subtitle(profile) else ("measured_ns",)
    entries = []
    for row in totals.iter_rows(named=True):
        figures = "  ".join(brief_duration(row[name]) for name in columns)
        label = f"{row['phase']}, {row['executor']}"
        entries.append(
            Entry(BarRow(label, label, bar_fraction(row["measured_ns"], max_ns), figures), layers_link(row), row)
        )
    return entries


_CALL_SITES: Final = 3
"""The number of call sites on the dashboard; the Memory view lists all stacks."""


def memory_entries(profile: Profile) -> list[Entry]:
    """Return peak, final state, largest call sites and failures of memory snapshots."""
    if profile["memory_segments"].is_empty():
        return []
    link = Link("memory")
    entries = []
    peaks = allocators(profile).drop_nulls("peak_bytes")
    devices = memory_devices(profile)
    has_several_sessions = devices["session"].n_unique() > 1
    for row in peaks.iter_rows(named=True):
        gpu = _gpu_text(row, has_several_sessions=has_several_sessions)
        time = brief_duration(row["peak_at_ns"]) if row["peak_at_ns"] is not None else _peak_event(profile, row)
        share = bar_fraction(row["peak_bytes"], row["reserved_peak_bytes"])
        entries.append(Entry(BarRow(f"peak {gpu}", f"{gpu} peak ({time})", share, size(row["peak_bytes"])), link, row))
    for row in devices.iter_rows(named=True):
        gpu = _gpu_text(row, has_several_sessions=has_several_sessions)
        label = f"{gpu} in use, of {size(row['reserved_bytes'])} reserved"
        share = bar_fraction(row["allocated_bytes"], row["reserved_bytes"])
        entries.append(Entry(BarRow(f"held {gpu}", label, share, size(row["allocated_bytes"])), link, row))
        if row["free_bytes"] and (fragmentation_pct := row["fragmentation_pct"]) is not None:
            label_free = f"{gpu} free memory, fragmented"
            entries.append(
                Entry(BarRow(f"free {gpu}", label_free, fragmentation_pct / 100, percent(fragmentation_pct)), link, row)
            )
    for number, row in enumerate(peak_by_call_site(profile).head(_CALL_SITES).iter_rows(named=True), 1):
        gpu = f"{_gpu_text(row, has_several_sessions=has_several_sessions)}, " if devices.height > 1 else ""
        name = gpu + allocated_by(row["call_site"], row["stack"])
        figure = f"{size(row['size_bytes'])}  {percent(row['peak_pct'])}"
        entries.append(Entry(BarRow(f"call site {number}", plain(name), row["peak_pct"] / 100, figure), link, row))
    failed = profile["memory_events"].filter(pl.col("action").cast(pl.String) == "oom").height
    if failed:
        entries.append(Entry(BarRow("oom", "Out of memory", None, plural(failed, "time")), link))
    return entries


def _gpu_text(row: Mapping[str, Any], *, has_several_sessions: bool) -> str:
    gpu = f"GPU {row['device']}" if row["device"] is not None else "GPU"
    return f"session {row['session']} {gpu}" if has_several_sessions else gpu


def _peak_event(profile: Profile, row: Mapping[str, Any]) -> str:
    """Return the event with the peak of memory, if events have no times."""
    rows = allocations(profile).filter(is_memory(row["session"], row["place"], row["device"]))
    position = rows["allocated_bytes"].arg_max()
    return f"event {count(rows['number'][position])} of {count(rows.height)}" if position is not None else "the end"


def layers_subtitle(profile: Profile) -> str:
    """Return the meaning of the two figures of a line of layers; empty if there is one."""
    return "measured, predicted" if layer_totals(profile)["predicted_ns"].count() else ""


def tool_entries(board: Dashboard) -> list[Entry]:
    """Return the report of the recording tool: its figures, then its findings."""
    link = Link("tool-report")
    entries = []
    for row in board.tool_headlines.iter_rows(named=True):
        value = row["tool_value"]
        share = value / 100 if row["unit"] == "%" and value is not None else None
        figure = metric(value, row["unit"]) if value is not None else ""
        entries.append(Entry(BarRow(str(row["number"]), row["tool_name"] or "", share, figure), link, row))
    if entries and board.tool_rows > len(entries):
        label = f"and {count(board.tool_rows - len(entries))} more"
        entries.append(Entry(BarRow("more", label, None, ""), link))
    return entries


def input_entries(board: Dashboard, profile: Profile) -> list[Entry]:
    """Return lines about the input: issues, metrics, other summaries, ranges without GPU work, the log."""
    entries = []
    if board.left_out:
        entries.append(Entry(BarRow("left-out", "replayed kernels are excluded", None, "see System"), Link("metrics")))
    counts = [
        plural(number, severity, "info" if severity == "info" else "")
        for severity, number in board.issues.items()
        if number
    ]
    if counts:
        entries.append(Entry(BarRow("issues", f"issues: {', '.join(counts)}", None, ""), Link("issues")))
    # The most severe issue in full: a log without times has little else to show.
    for index, row in enumerate(issues(profile).head(ISSUE_ROWS).iter_rows(named=True)):
        line = f"line {count(row['line'])}" if row["line"] is not None else ""
        # The text of the input is below the reason, as in the report: on one line they would be cut.
        texts = [(row["reason"] or "", line), *([(f"| {row['text']}", "")] if row["text"] else [])]
        entries += [
            Entry(BarRow(f"issue {index} {number}", f"  {text}", None, value, sentence=True), Link("issues"), row)
            for number, (text, value) in enumerate(texts)
        ]
    if metrics := profile["metrics"].height:
        entries.append(Entry(BarRow("metrics", "metrics and events", None, plural(metrics, "row")), Link("metrics")))
    if summaries := extra_summaries(profile).height:
        bar_row = BarRow("summaries", "other summaries", None, plural(summaries, "row"))
        entries.append(Entry(bar_row, Link("summaries")))
    if (ranges := profile["ranges"].height) and profile["activities"].is_empty():
        entries.append(Entry(BarRow("ranges", "ranges", None, plural(ranges, "row")), Link("ranges")))
    for source, text in list(profile.texts.items())[:1]:
        bar_row = BarRow("log", f"log: {source.rsplit('/', 1)[-1]}", None, plural(text.line_count, "line"))
        entries.append(Entry(bar_row, Link("log")))
    return entries


def system_entries(board: Dashboard) -> tuple[list[Entry], list[Details]]:
    """Return the recorded facts about the system, the GPUs first, as lines and texts."""
    entries: dict[Line, Entry] = {}

    def add(line: Line, link: Link, values: Mapping[str, Any]) -> None:
        label, value, _ = line
        entries.setdefault(line, Entry(BarRow(f"{len(entries)} {label}", f"{label} {value}", None, ""), link, values))

    for row in board.devices.iter_rows(named=True):
        facts = []
        if row["compute_capability"]:
            facts.append(f"cc {row['compute_capability']}")
        if row["sm_count"]:
            facts.append(use_vendor_terms(row["vendor"] or "", f"{row['sm_count']} SMs"))
        if row["facts_source"] == "table":
            facts.append("from its name")
        name = f"GPU {row['device'] if row['device'] is not None else '?'}"
        add((name, row["name"] or "unknown", ", ".join(facts)), gpu_name_link(row), row)
    for fact in board.system:
        add((fact.label, fact.written(), ""), system_link(fact.name), {})
    if board.left_out:
        add(("Excluded", board.left_out, ""), Link("metrics"), {})
    return list(entries.values()), [Details((line,)) for line in sections([("", list(entries))]).lines]


def need_entries(needs: Sequence[Need], reasons: Collection[str]) -> tuple[list[Entry], list[Details]]:
    """Return the data that is not recorded, as lines and texts.

    Args:
        needs: The missing data.
        reasons: Why rules do not apply, as far as computed.
    """
    needs_by_command: dict[str, list[Need]] = {}
    for need in needs:
        needs_by_command.setdefault(need.record, []).append(need)
    entries, texts = [], []
    for group in needs_by_command.values():
        links = [reason_link(need.missing) for need in group if need.missing in reasons]
        need = (
            group[0]
            if len(group) == 1
            else replace(group[0], name=", ".join(need.name for need in group), gives="", unknown_text="")
        )
        entries.append(Entry(BarRow(need.name, need.missing, None, ""), links[0] if links else None))
        texts.append(need_details(need))
    return entries, texts
