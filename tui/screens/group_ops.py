"""Group Ops: the tree of modules, ranges, callers, layers or types, with the cost of each node."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import polars as pl

from tui.analysis.ops.op_trees import OP_FOREST, TREES, GroupingT, TreeGrouping, find_grouping, first_tree
from tui.analysis.ops.ops_by_name import coverage_note
from tui.analysis.sessions import replayed_sessions
from tui.keys import Scope, bindings_for
from tui.model.columns import ColumnKind
from tui.model.errors import CommandError
from tui.query.parse import equals_filter
from tui.screens.base import ViewScreen
from tui.screens.kernels import no_kernels
from tui.screens.table_screen import RowsInBackground
from tui.widgets.header_footer import TabBar
from tui.widgets.panel import NoteLine
from tui.widgets.table.tree import TreePane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual.widget import Widget

    from tui.analysis.ops.op_trees import NamedGrouping
    from tui.model.history import Place
    from tui.model.profile import Profile
    from tui.widgets.table.pane import TablePane


class GroupingChoice(Generic[GroupingT]):
    """The grouping of a view: the user's choice if it applies to the profile, else the default.

    Args:
        screen: The view.
        groupings: All groupings, in the order of the tabs.
        default: Returns the default grouping of a profile.
    """

    def __init__(
        self,
        screen: ViewScreen,
        groupings: Sequence[GroupingT],
        default: Callable[[Profile], NamedGrouping] = first_tree,
    ) -> None:
        self._screen, self._groupings, self._default = screen, groupings, default
        self.chosen: GroupingT | None = None
        """The user's choice; None: nothing yet."""

    @property
    def current(self) -> GroupingT:
        """The current grouping."""
        profile = self._screen.profile
        if self.chosen is not None and not self.chosen.unavailable_reason(profile):
            return self.chosen
        return self._named(self._default(profile).name)

    def choose(self, name: str) -> None:
        """Choose the grouping with a name."""
        self.chosen = self._named(name)

    def applies(self, name: str) -> bool:
        """Return whether there is a grouping of this name that applies to the profile."""
        return any(grouping.name == name for grouping in self._applicable())

    def find(self, text: str) -> str:
        """Return the name of the grouping that starts with a text.

        Raises:
            CommandError: There is none, or it does not apply to the profile.
        """
        chosen = find_grouping(text, self._groupings)
        if chosen is None:
            names = ", ".join(grouping.name for grouping in self._groupings)
            raise CommandError(f"Unknown grouping {text or '(no name)'}: choose {names}")
        if reason := chosen.unavailable_reason(self._screen.profile):
            raise CommandError(f"{chosen.title}: {reason}")
        return chosen.name

    def neighbor(self, step: int) -> str:
        """Return the name of the grouping ``step`` places further, among those that apply."""
        applicable, current = [grouping.name for grouping in self._applicable()], self.current
        chosen = applicable[(applicable.index(current.name) + step) % len(applicable)]
        if chosen == current.name:
            unavailable = [grouping for grouping in self._groupings if grouping.name not in applicable]
            reasons = "; ".join(
                f"{grouping.title}: {grouping.unavailable_reason(self._screen.profile)}" for grouping in unavailable
            )
            self._screen.explorer.say(f"Only the grouping {current.title} is available; {reasons}")
        return chosen

    def click(self, index: int) -> None:
        """Group by the tab at an index."""
        try:
            self._screen.choose_grouping(self._groupings[index].name)
        except CommandError as error:
            self._screen.explorer.say(str(error), severity="warning")

    def show(self, tabs: TabBar) -> None:
        """Show the current grouping, and those that apply, in the tabs."""
        names, applicable = [grouping.name for grouping in self._groupings], self._applicable()
        tabs.show(names.index(self.current.name), [grouping in applicable for grouping in self._groupings])

    def _applicable(self) -> list[GroupingT]:
        return [grouping for grouping in self._groupings if not grouping.unavailable_reason(self._screen.profile)]

    def _named(self, name: str) -> GroupingT:
        return next(grouping for grouping in self._groupings if grouping.name == name)


class GroupedView(Generic[GroupingT]):
    """Changes the grouping of a view, which implements `group_by`, by key, command and click."""

    _groupings: GroupingChoice[GroupingT]

    def group_by(self, name: str) -> None:
        """Group by the grouping of a name."""
        raise NotImplementedError

    def choose_grouping(self, text: str) -> None:
        """Group by a grouping that the user names.

        Raises:
            CommandError: There is none, or it does not apply to the profile.
        """
        self.group_by(self._groupings.find(text))

    def action_next_grouping(self) -> None:
        """Go to the next grouping."""
        self.group_by(self._groupings.neighbor(1))

    def action_previous_grouping(self) -> None:
        """Go to the previous grouping."""
        self.group_by(self._groupings.neighbor(-1))

    def on_tab_bar_chosen(self, event: TabBar.Chosen) -> None:
        """Group by the tab that was clicked."""
        self._groupings.click(event.index)


def chosen_tree(profile: Profile, chosen: TreeGrouping | None) -> pl.DataFrame:
    """Return the tree that the user chose if it applies, else the default."""
    return (chosen if chosen is not None and not chosen.unavailable_reason(profile) else first_tree(profile)).tree(
        profile
    )


def position_message(gpu_ns: pl.Series) -> str:
    """Return a message about which of several positions of an op is shown, by GPU time.

    >>> position_message(pl.Series([9, 4, None]))
    '3 places in the tree: this one has most GPU time'
    >>> position_message(pl.Series([None, None], dtype=pl.Int64))
    '2 places in the tree: this is the first of them'
    """
    return f"{len(gpu_ns)} places in the tree: this {'one has most GPU time' if gpu_ns[0] else 'is the first of them'}"


class GroupOpsScreen(GroupedView[TreeGrouping], ViewScreen):
    """The tree; ``enter`` unfolds a group and goes from an op to its kernels."""

    VIEW = "group-ops"
    BINDINGS: ClassVar = bindings_for(Scope.OPS)
    HELP: ClassVar = (
        "Ops by module, caller, range, layer or type; a group shows the sum of its ops. , and . change the "
        "grouping.\n"
        "h and l fold and unfold, z and Z all of a level. left and right change the column; enter opens the op.\n"
        "Sorting applies within each group. A filter keeps the groups around its matches."
    )

    def __init__(self) -> None:
        super().__init__()
        self._groupings = GroupingChoice(self, TREES)
        self._background = RowsInBackground(self)

    def compose_body(self) -> Iterable[Widget]:
        """Yield the groupings, the attributed share of time, and the tree."""
        yield TabBar([tree.title.removeprefix("by ") for tree in TREES], hint=", .", id="groupings")
        yield NoteLine(id="coverage")
        yield TreePane(OP_FOREST, id="tree")

    @property
    def pane(self) -> TreePane:
        """The tree."""
        return self.query_one("#tree", TreePane)

    @property
    def grouping(self) -> TreeGrouping:
        """The current grouping."""
        return self._groupings.current

    def populate(self) -> None:
        """Fill the tree."""
        chosen = self._groupings.chosen
        name = chosen.name if chosen is not None else ""
        if not self._background.ensure_computed(self.pane, name, lambda profile: chosen_tree(profile, chosen)):
            return
        profile, grouping = self.profile, self.grouping
        rows = grouping.tree(profile)
        self._groupings.show(self.query_one("#groupings", TabBar))
        self.query_one("#coverage", NoteLine).show(coverage_note(profile))
        self.pane.model.excluded_sessions = replayed_sessions(profile)
        self.pane.show(rows, empty=no_kernels(profile) if rows.is_empty() else "")
        self.pane.focus_table()

    # --- groupings ---------------------------------------------------------------------------------------------------

    def group_by(self, name: str) -> None:
        """Group by one of `TREES`."""
        if name != self.grouping.name:
            self._groupings.choose(name)
            self.populate()
            self.show_crumbs()
            self.explorer.navigator.history.visit(self.place())

    # --- navigation --------------------------------------------------------------------------------------------------

    def reveal(self, *, session: int, op: str, group: str | None = None) -> None:
        """Go to the position of an op, the one with most GPU time, when the tree is filled.

        Args:
            session: Number of the session.
            op: The name of the op.
            group: The group that it ran in; by default any.
        """
        self.when_filled(partial(self._reveal, session, op, group))

    def _reveal(self, session: int, op: str, group: str | None) -> None:
        frame = self.pane.frame
        condition = (pl.col("session") == session) & (pl.col("op") == op)
        if group is not None and self.grouping.name == "module":
            condition &= pl.col("path") == f"{group}/{op}"
        rows = (
            frame.with_row_index("row")
            .filter(condition)
            .sort("gpu_self_ns", descending=True, nulls_last=True, maintain_order=True)
        )
        if rows.is_empty():
            self.explorer.say(f"{op} is not in the tree {self.grouping.title}.", severity="warning")
            return
        self.pane.reveal(int(rows["row"][0]))
        if rows.height > 1:
            self.explorer.say(position_message(rows["gpu_self_ns"]))

    def open_row(self, pane: TablePane, row: dict[str, Any]) -> None:
        """Unfold a group; go from an op to its kernels."""
        if row["node_kind"] == "group":
            self.pane.action_unfold()
            return
        if row["op"] is None:
            super().open_row(pane, row)
            return
        terms = [equals_filter("op", row["op"], ColumnKind.TEXT)]
        if self.profile["sessions"].height > 1:
            terms.append(equals_filter("session", row["session"], ColumnKind.NUMBER))
        self.explorer.go("ops-and-kernels", lambda screen: screen.show_only(" ".join(terms)))

    def path(self) -> list[str]:
        """Return the title of the grouping."""
        return [self.grouping.title]

    def place(self) -> Place:
        """Return the position, including the grouping."""
        return replace(super().place(), level=self.grouping.name)

    def restore(self, place: Place) -> None:
        """Return to a position, including the grouping."""
        if place.level is not None and self._groupings.applies(place.level):
            self.group_by(place.level)
        super().restore(place)
