"""Lines of the dashboard's panels, and where each of them leads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tui.analysis.dashboard import Use
from tui.analysis.dashboard_facts import KINDS, definition
from tui.analysis.gpu_time.breakdown import Category
from tui.analysis.gpus import RECORDED
from tui.analysis.timeline.lookup import Gap
from tui.fmt import metric
from tui.model.columns import COLUMNS, ColumnKind
from tui.query.parse import equals_filter, quoted
from tui.widgets.details import Details, sections, whole_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui.analysis.dashboard_facts import Fact, Value
    from tui.screens.base import ViewScreen
    from tui.screens.explorer import Explorer

    Row = Mapping[str, Any]
    from tui.widgets.charts.bars import BarRow
    from tui.widgets.details import Line


KERNELS_ONLY: Final = "(kind=kernel | kind=graph)"
MEMORY_ONLY: Final = "(kind=memcpy | kind=memset | kind=um)"


@dataclass(frozen=True, slots=True)
class Link:
    """A view with the rows of a filter alone, a gap in the timeline, or one session in every view."""

    view: str = ""
    """Empty: the menu of sessions, or the one session."""
    filter: str = ""
    cursor: tuple[object, ...] | None = None
    """The key of the row that the cursor goes to."""
    session: int | None = None
    """The session to show."""
    gap: Gap | None = None
    """A gap in the timeline."""
    whole: bool = False
    """All of the timeline."""
    query: str = ""
    """What the view of SQL asks for."""

    def go(self, explorer: Explorer) -> None:
        """Go through it."""
        if self.view:
            explorer.go(self.view, self._arrange)
        elif self.session is not None:
            explorer.profile_session.choose_session(self.session)
        else:
            explorer.action_sessions_menu()

    def _arrange(self, screen: ViewScreen) -> None:
        if self.gap is not None or self.whole:
            from tui.screens.timeline import TimelineScreen

            assert isinstance(screen, TimelineScreen)
            if self.gap is not None:
                screen.show_gap(self.gap)
            else:
                screen.show_whole()
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


def link_of_fact(
    fact: Fact, facts: Sequence[Fact], *, left_out: Sequence[int] = (), iterated: int | None = None
) -> Link:
    """To the rows that a figure is computed from, and no others.

    Args:
        fact: The figure.
        facts: All figures of the profile.
        left_out: Sessions that the figures leave out.
        iterated: The session whose iterations the figures are of.
    """
    known = {other.name: other.value for other in facts if other.value is not None}
    link = _all_behind(fact, known, iterated)
    sessions = [f"!session={session}" for session in left_out] if link.view != "timeline" else []
    return replace(link, filter=" ".join(filter(None, (link.filter, *sessions))))


def _all_behind(fact: Fact, known: Mapping[str, Value], iterated: int | None) -> Link:
    match fact.name:
        case "wall_ns" if "busy_ns" in known:
            return Link("timeline", whole=True)
        case "api_ns" | "api_calls" | "wall_ns" if "api_calls" in known:
            return Link("api-calls")
        case "wall_ns" | "unlaunched_ns":
            return Link("ops-and-kernels")
        case "tc_efficiency_pct":
            return link_of_tensor_cores("yes" if fact.value else "no")
        case "launches" | "kernels":
            return Link("kernels", "kind=kernel")
        case "graph_launches":
            return Link("kernels", "kind=graph")
        case "mfu_pct" | "model_flops":
            return Link("roofline")
        case "tc_unknown_pct":
            return link_of_tensor_cores("?")
        case "api_outside_ns":
            return Link("api-calls")
        case name if name.startswith("phase_"):
            return Link("iterations", equals_filter("phase", name.removeprefix("phase_"), ColumnKind.TEXT))
        case "busy_pct":
            return Link("gpus", equals_filter("gpu_activity", RECORDED, ColumnKind.TEXT))
    counted = iteration_filter(known.get("iteration_first"), known.get("iteration_last"), iterated)
    match fact.name:
        case "iteration_p95_ns":
            return Link("iterations", f"{counted} duration_ns>={fact.value}ns")
        case name if name.startswith("iteration"):
            return Link("iterations", counted)
    assert fact.name == "gpu_ns", f"no rows are declared for {fact.name}"
    kinds = " | ".join(f"kind={kind}" for kind, _ in KINDS if f"{kind}_ns" in known)
    return Link("kernels", f"({kinds})" if " | " in kinds else kinds)


def link_of_tensor_cores(answer: str) -> Link:
    """To the kernels that use tensor cores (yes), do not (no), or of which that is unknown (?)."""
    return Link("kernels", f"{KERNELS_ONLY} uses_tensor_core={answer}")


def link_of_finding(row: Row) -> Link:
    """To a finding among all findings."""
    return Link("expert-systems", cursor=(row["state"], row["rule"], row["problem"], row["session"]))


def link_of_reason(reason: str) -> Link:
    """To the rules that do not apply for a reason."""
    return Link("expert-systems", equals_filter("message", reason, ColumnKind.TEXT))


def link_of_system(name: str) -> Link:
    """To the system of each session, a column of the frame of sessions: no other view has these rows."""
    if name == "sessions":
        return Link()
    return Link("sql", query=f"SELECT session, {name}, source FROM sessions")


def link_of_category(category: str, *, with_api: bool, with_ops: bool) -> Link | None:
    """To what wall time was used for; what is no GPU work and no call has no rows of its own.

    Args:
        category: One of `Category`.
        with_api: There are API calls to show.
        with_ops: There are ops to show.
    """
    match category:
        case Category.TENSOR_CORES:
            return link_of_tensor_cores("yes")
        case Category.OTHER_KERNELS:
            return link_of_tensor_cores("no")
        case Category.UNKNOWN_KERNELS:
            return link_of_tensor_cores("?")
        case Category.MEMORY:
            return Link("kernels", MEMORY_ONLY)
        case Category.CPU if with_ops:
            return Link("ops-and-kernels")
        case Category.CPU if with_api:
            return Link("api-calls")
    return None


def link_of_use(use: str) -> Link:
    """To the GPU work of a use."""
    kinds = {Use.MEMCPY: "memcpy", Use.MEMSET: "memset", Use.UNIFIED_MEMORY: "um"}
    if (kind := kinds.get(Use(use))) is not None:
        return Link("kernels", f"kind={kind}")
    return link_of_tensor_cores({Use.TENSOR_CORES: "yes", Use.OTHER_KERNELS: "no"}.get(Use(use), "?"))


def link_of_op(row: Row) -> Link:
    """To an op with its kernels."""
    return Link("ops-and-kernels", equals_filter("op", row["op"], ColumnKind.TEXT))


def link_of_group(row: Row, *, rest: str) -> Link:
    """To the ops of a kind of work, among others that they do; of the rest to all."""
    return Link("ops-and-kernels", "" if row["group"] == rest else f"group:{quoted(row['group'])}")


def link_of_name(view: str, row: Row) -> Link:
    """To a kernel or an API function."""
    return Link(view, equals_filter("name", row["name"], ColumnKind.SYMBOL))


def link_of_copies(row: Row) -> Link:
    """To the copies of a direction, by GPU and kinds of memory: names of copies need not have the direction."""
    return Link("memory", f"kind={row['kind']} {equals_filter('copy_kind', row['copy_kind'], ColumnKind.TEXT)}")


def link_of_gpu(row: Row) -> Link:
    """To a GPU of a session."""
    device = equals_filter("device", row["device"], ColumnKind.NUMBER)
    return Link("gpus", f"session={row['session']} {device}")


def link_of_gpu_name(row: Row) -> Link:
    """To the GPUs of a number and a name, of whichever sessions."""
    device = equals_filter("device", row["device"], ColumnKind.NUMBER)
    return Link("gpus", f"{device} {equals_filter('gpu_name', row['name'], ColumnKind.TEXT)}")


def link_of_gap(row: Row) -> Link:
    """To an idle gap in the timeline, with what ran before and after it."""
    return Link("timeline", gap=Gap(row["session"], row["device"], row["start_ns"], row["duration_ns"]))


def iteration_filter(first: object, last: object, session: int | None) -> str:
    """The iterations from one number to another, of a session where it is known."""
    return f"iteration>={first} iteration<={last}{'' if session is None else f' session={session}'}"


def link_of_iteration(row: Row) -> Link:
    """To one iteration among all."""
    return Link("iterations", f"iteration={row['iteration']} session={row['session']}")


def link_of_layers(row: Row) -> Link:
    """To the layers of a phase and executor."""
    columns = [column for column in ("phase", "executor") if row[column]]
    return Link("layers", " ".join(equals_filter(column, row[column], ColumnKind.TEXT) for column in columns))


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a panel."""

    row: BarRow
    link: Link | None = None
    """Where it leads; None: there are no rows behind it."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """What is known of it, by the names of columns, for the details."""
    metric: str = ""
    """The figure that it is, where that is not the panel's own."""


def fraction(value: float | None, most: object) -> float | None:
    """The length of a bar; None where it is unknown."""
    return value / most if value is not None and isinstance(most, int | float) and most else None


def aligned(*columns: Sequence[str]) -> list[str]:
    """Figures of several columns as one text a line, each column as wide as its widest."""
    widths = [max(map(len, column), default=0) for column in columns]
    return [
        "  ".join(text.rjust(width) for text, width in zip(texts, widths, strict=True))
        for texts in zip(*columns, strict=True)
    ]


def meaning(name: str) -> list[Line]:
    """What a figure means, for the details."""
    known = definition(name)
    return [
        ("Means", known.means, ""),
        ("Formula", known.formula, ""),
        *([("Unit", known.unit, "when exported")] if known.unit else []),
        ("Defined by", known.source, ""),
    ]


def entry_details(entry: Entry, name: str) -> Details:
    """Every value of a line, whole, and what its figure means."""
    lines: list[Line] = [("", entry.row.label, "")]
    for column, value in entry.values.items():
        if value is None:
            continue
        known = COLUMNS.get(column)
        kind = known.kind if known is not None else ColumnKind.TEXT
        text = metric(value, entry.values.get("unit")) if kind is ColumnKind.MEASURE else whole_value(kind, value)
        lines.append((known.title if known is not None else column, text, ""))
    of = entry.metric or name
    return sections([("", lines), *([(definition(of).title, meaning(of))] if of else [])])
