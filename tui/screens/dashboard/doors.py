"""Where the figures of the dashboard lead: the rows behind each, already filtered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tui.analysis.dashboard.performance import KINDS
from tui.analysis.dashboard.uses import Use
from tui.analysis.gpu_time.breakdown import Category
from tui.analysis.gpus import RECORDED
from tui.analysis.timeline.under import Gap
from tui.model.columns import ColumnKind
from tui.query.write import equals_filter, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui.analysis.dashboard import Fact
    from tui.analysis.dashboard.facts import Value
    from tui.app import ProftuiApp
    from tui.screens.base import ViewScreen

    Row = Mapping[str, Any]

KERNELS_ONLY: Final = "(kind=kernel | kind=graph)"
MEMORY_ONLY: Final = "(kind=memcpy | kind=memset | kind=um)"


@dataclass(frozen=True, slots=True)
class Door:
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

    def go(self, program: ProftuiApp) -> None:
        """Go through it."""
        if self.view:
            program.go(self.view, self._arrange)
        elif self.session is not None:
            program.choose_session(self.session)
        else:
            program.action_sessions_menu()

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


def door_of_fact(
    fact: Fact, facts: Sequence[Fact], *, left_out: Sequence[int] = (), iterated: int | None = None
) -> Door:
    """To the rows that a figure is worked out from, and no others.

    Args:
        fact: The figure.
        facts: All figures of the profile: they tell what there is.
        left_out: Sessions that the figures leave out.
        iterated: The session whose iterations the figures are of.
    """
    known = {other.name: other.value for other in facts if other.value is not None}
    door = _all_behind(fact, known, iterated)
    sessions = [f"!session={session}" for session in left_out] if door.view != "timeline" else []
    return replace(door, filter=" ".join(filter(None, (door.filter, *sessions))))


def _all_behind(fact: Fact, known: Mapping[str, Value], iterated: int | None) -> Door:
    match fact.name:
        case "wall_ns" if "busy_ns" in known:
            return Door("timeline", whole=True)
        case "api_ns" | "api_calls" | "wall_ns" if "api_calls" in known:
            return Door("api-calls")
        case "wall_ns":
            return Door("ops-and-kernels")
        case "tc_efficiency_pct":
            return door_of_tensor_cores("yes" if fact.value else "no")
        case "launches" | "kernels":
            return Door("kernels", "kind=kernel")
        case "graph_launches":
            return Door("kernels", "kind=graph")
        case "busy_pct":
            return Door("gpus", equals_filter("gpu_activity", RECORDED, ColumnKind.TEXT))
    counted = iteration_filter(known.get("iteration_first"), known.get("iteration_last"), iterated)
    match fact.name:
        case "iteration_p95_ns":
            return Door("iterations", f"{counted} duration_ns>={fact.value}ns")
        case name if name.startswith("iteration"):
            return Door("iterations", counted)
    assert fact.name == "gpu_ns", f"nobody said which rows are behind {fact.name}"
    kinds = " | ".join(f"kind={kind}" for kind, _ in KINDS if f"{kind}_ns" in known)
    return Door("kernels", f"({kinds})" if " | " in kinds else kinds)


def door_of_tensor_cores(answer: str) -> Door:
    """To the kernels that use tensor cores (yes), do not (no), or of which that is unknown (?)."""
    return Door("kernels", f"{KERNELS_ONLY} uses_tensor_core={answer}")


def door_of_finding(row: Row) -> Door:
    """To a finding among all findings."""
    return Door("expert-systems", cursor=(row["state"], row["rule"], row["problem"], row["session"]))


def door_of_reason(reason: str) -> Door:
    """To the rules that cannot be told for a reason."""
    return Door("expert-systems", equals_filter("message", reason, ColumnKind.TEXT))


def door_of_system(name: str) -> Door:
    """To what each session says of the system, a column of the frame of sessions: no other view has these rows."""
    if name == "sessions":
        return Door()
    return Door("sql", query=f"SELECT session, {name}, source FROM sessions")


def door_of_category(category: str, *, with_api: bool, with_ops: bool) -> Door | None:
    """To what wall time was used for; what is no GPU work and no call has no rows of its own.

    Args:
        category: One of `Category`.
        with_api: There are API calls to show.
        with_ops: There are ops to show.
    """
    match category:
        case Category.TENSOR_CORES:
            return door_of_tensor_cores("yes")
        case Category.OTHER_KERNELS:
            return door_of_tensor_cores("no")
        case Category.UNKNOWN_KERNELS:
            return door_of_tensor_cores("?")
        case Category.MEMORY:
            return Door("kernels", MEMORY_ONLY)
        case Category.CPU if with_ops:
            return Door("ops-and-kernels")
        case Category.CPU if with_api:
            return Door("api-calls")
    return None


def door_of_use(use: str) -> Door:
    """To the GPU work of a use."""
    kinds = {Use.MEMCPY: "memcpy", Use.MEMSET: "memset", Use.UNIFIED_MEMORY: "um"}
    if (kind := kinds.get(Use(use))) is not None:
        return Door("kernels", f"kind={kind}")
    return door_of_tensor_cores({Use.TENSOR_CORES: "yes", Use.OTHER_KERNELS: "no"}.get(Use(use), "?"))


def door_of_op(row: Row) -> Door:
    """To an op with its kernels."""
    return Door("ops-and-kernels", equals_filter("op", row["op"], ColumnKind.TEXT))


def door_of_group(row: Row, *, rest: str) -> Door:
    """To the ops of a kind of work, among others that they do; of the rest to all."""
    return Door("ops-and-kernels", "" if row["group"] == rest else f"group:{quoted(row['group'])}")


def door_of_name(view: str, row: Row) -> Door:
    """To a kernel or an API function."""
    return Door(view, equals_filter("name", row["name"], ColumnKind.SYMBOL))


def door_of_copies(row: Row) -> Door:
    """To the copies of a direction, by GPU and kinds of memory: names of copies need not tell the direction."""
    return Door("memory", f"kind={row['kind']} {equals_filter('copy_kind', row['copy_kind'], ColumnKind.TEXT)}")


def door_of_gpu(row: Row) -> Door:
    """To a GPU of a session."""
    device = equals_filter("device", row["device"], ColumnKind.NUMBER)
    return Door("gpus", f"session={row['session']} {device}")


def door_of_gpu_name(row: Row) -> Door:
    """To the GPUs of a number and a name, of whichever sessions."""
    device = equals_filter("device", row["device"], ColumnKind.NUMBER)
    return Door("gpus", f"{device} {equals_filter('gpu_name', row['name'], ColumnKind.TEXT)}")


def door_of_gap(row: Row) -> Door:
    """To an idle gap in the timeline, with what ran before and after it."""
    return Door("timeline", gap=Gap(row["session"], row["device"], row["start_ns"], row["duration_ns"]))


def iteration_filter(first: object, last: object, session: int | None) -> str:
    """The iterations from one number to another, of a session where it is told."""
    return f"iteration>={first} iteration<={last}{'' if session is None else f' session={session}'}"


def door_of_iteration(row: Row) -> Door:
    """To one iteration among all."""
    return Door("iterations", f"iteration={row['iteration']} session={row['session']}")


def door_of_layers(row: Row) -> Door:
    """To the layers of a phase and executor."""
    columns = [column for column in ("phase", "executor") if row[column]]
    return Door("layers", " ".join(equals_filter(column, row[column], ColumnKind.TEXT) for column in columns))
