"""Ops and Kernels: from the op to its kernels, to their launches, to the launch config."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl

from tui.analysis.capabilities import missing_data_text, missing_needs
from tui.analysis.durations import average
from tui.analysis.gpu_time.overlap import estimated_savings
from tui.analysis.kernels import LAUNCHES, kernels
from tui.analysis.needs import GPU_WORK
from tui.analysis.ops.groupings import GROUPINGS, Grouping
from tui.analysis.ops.op_attribution import recorded_sessions
from tui.analysis.ops.op_instances import (
    RECORDED_OP_KERNELS,
    op_calls,
    recorded_op_activities,
    recorded_op_kernels,
    recorded_op_launches,
)
from tui.analysis.ops.ops_by_name import OP_KERNELS, has_recorded_ops, inferred_op_kernels, kernels_in_scopes
from tui.analysis.ops.work_groups import GROUP_KERNELS, NO_GROUP, kernels_in
from tui.analysis.roofline import RATES, has_rates, ops_with_rates_spec, spec_with_rates
from tui.keys import Scope, bindings_for
from tui.model.table_spec import TableState
from tui.screens.base import ViewScreen
from tui.screens.group_ops import GroupedView, GroupingChoice, GroupOpsScreen
from tui.screens.kernels import (
    kernel_crumb,
    kernel_details,
    launch_crumb,
    launches_of_kernel,
    no_kernels,
    no_launches,
    work_details,
)
from tui.screens.linked_tables import Level, LinkedTables, Row, registered_level
from tui.screens.table_screen import RowsInBackground
from tui.text_width import clip_middle
from tui.widgets.details import gain_lines, op_details, with_blocks
from tui.widgets.header_footer import TabBar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from textual.widget import Widget

    from tui.model.history import Place
    from tui.model.profile import Profile
    from tui.model.table_spec import TableSpec
    from tui.widgets.details import Details
    from tui.widgets.table.pane import TablePane

OP_CRUMB: Final = 40
"""The maximum width of an op in the path."""


def is_recorded_op(row: Row) -> bool:
    """Return whether a row of ops comes from a session that records ops."""
    return "why_no_op" in row and row["op_source"] != "inferred"


def op_arguments(row: Row) -> dict[str, Any]:
    """Return the arguments of `tui.analysis.ops.op_instances` for a recorded op, or for work without one."""
    reason = row["why_no_op"]
    return {"session": row["session"], "op": None if reason else row["op"], "why_no_op": reason}


def kernels_of_selected_op(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the kernels of the selected op; none if no op is selected."""
    row = selected.get("ops")
    if row is not None and is_recorded_op(row):
        rows = recorded_op_kernels(profile, **op_arguments(row))
        if row["session"] in recorded_sessions(profile).to_list():
            return rows
        # Totals do not link kernels to ops; Proton's are listed below its scopes.
        total_ns = kernels(profile).filter(session=row["session"])["total_ns"].sum()
        scope_rows = (
            kernels_in_scopes(profile)
            .filter(session=row["session"], op=row["op"])
            .with_columns(
                avg_ns=average(pl.col("total_ns"), pl.col("calls")),
                time_pct=100 * pl.col("total_ns") / (total_ns or None),
            )
            .sort("total_ns", descending=True, nulls_last=True)
        )
        kernel_columns = kernels(profile).select("session", "name", "kind", "short_name", "uses_tensor_core")
        return pl.concat(
            [
                rows.clear(),
                scope_rows.join(kernel_columns, on=["session", "name"], how="left", maintain_order="left")
                .rename({"calls": "launches"} if "launches" in rows.columns else {})
                .select(pl.selectors.by_name(*rows.columns, require_all=False)),
            ],
            how="diagonal_relaxed",
        )
    if row is None:
        rows = inferred_op_kernels(profile, session=-1, op_type="", direction=None)
    else:
        rows = inferred_op_kernels(profile, session=row["session"], op_type=row["op_type"], direction=row["direction"])
    return rows.with_columns(pl.lit(None).alias(name) for name in RATES)


def launches_of_selected_kernel(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the launches of the selected kernel in the selected op."""
    op, kernel = selected.get("ops"), selected.get("kernels")
    if op is None or kernel is None or not is_recorded_op(op):
        return launches_of_kernel(profile, selected)
    return recorded_op_launches(
        profile, **op_arguments(op), kind=kernel["kind"], name=kernel["name"], launched_by=kernel["launched_by"]
    )


def kernels_spec(profile: Profile) -> TableSpec:
    """Return the table of the kernels of an op."""
    if not has_recorded_ops(profile):
        return OP_KERNELS
    return spec_with_rates(RECORDED_OP_KERNELS, after="launched_by") if has_rates(profile) else RECORDED_OP_KERNELS


def kernels_of_group_spec(profile: Profile) -> TableSpec:
    """Return the table of the kernels of a group."""
    return spec_with_rates(GROUP_KERNELS) if has_rates(profile) else GROUP_KERNELS


def no_kernels_of_op(profile: Profile) -> str:
    """Return why an op has no kernels."""
    if not has_recorded_ops(profile):
        return no_kernels(profile)
    if any(need.name == GPU_WORK.name for need in missing_needs(profile)):
        return missing_data_text(profile, GPU_WORK)
    if profile["ops"].is_empty():
        return "the profile has only totals, not the kernels of each op"
    return "this op launched no GPU work"


class ByName:
    """The default grouping: recorded ops including their nested ops."""

    name = "name"
    title = "by name"

    def unavailable_reason(self, _profile: Profile) -> str:
        """Return an empty text: this grouping always applies."""
        return ""


BY_NAME: Final = ByName()
GROUPING_TABS: Final[tuple[ByName | Grouping, ...]] = (BY_NAME, *GROUPINGS)

NAME_LEVELS: Final = (
    Level(
        "ops",
        *registered_level("ops"),
        lambda row: clip_middle(str(row["op"]), OP_CRUMB),
        no_kernels,
        3,
        ops_with_rates_spec,
    ),
    Level("kernels", OP_KERNELS, kernels_of_selected_op, kernel_crumb, no_kernels_of_op, 3, kernels_spec),
    Level(
        "launches",
        LAUNCHES,
        launches_of_selected_kernel,
        launch_crumb,
        no_launches,
        2,
    ),
)


def levels_of(grouping: Grouping) -> tuple[Level, ...]:
    """Return the tables of a grouping other than by name."""

    def kernels(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
        row = selected.get("ops")
        if row is None:
            return kernels_in(profile, grouping.groups(profile), NO_GROUP)
        return grouping.kernels(profile, row)

    def launches(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
        row, kernel = selected.get("ops"), selected.get("kernels")
        if row is None or kernel is None:
            return launches_of_kernel(profile, {})
        return grouping.launches(profile, row, kind=kernel["kind"], name=kernel["name"])

    name_levels = NAME_LEVELS
    pinned = grouping.spec.pinned
    return (
        replace(
            name_levels[0],
            rows=lambda profile, _above: grouping.rows(profile),
            crumb=lambda row: clip_middle(str(row[pinned]), OP_CRUMB),
            spec_for=lambda _profile: grouping.spec,
        ),
        replace(name_levels[1], rows=kernels, spec_for=kernels_of_group_spec),
        replace(name_levels[2], rows=launches),
    )


def _reveal(screen: ViewScreen, session: int, op: str, group: str | None) -> None:
    assert isinstance(screen, GroupOpsScreen)
    screen.reveal(session=session, op=op, group=group)


class OpsAndKernelsScreen(GroupedView[ByName | Grouping], ViewScreen):
    """Ops, the kernels of the op under the cursor, and the launches of the kernel under the cursor.

    The first table can have other groupings than by name; each has its own filter and order.
    """

    VIEW = "ops-and-kernels"
    BINDINGS: ClassVar = bindings_for(Scope.OPS)
    HELP: ClassVar = (
        "Ops, the kernels of the selected op, and the launches of the selected kernel.\n. groups the ops by input "
        "shape, launch config, kernel class (kernel_classes.toml) or op instance.\nIf ops are not recorded, they "
        "are inferred from kernel names; op_types.toml extends the rules."
    )

    def __init__(self) -> None:
        super().__init__()
        self._groupings = GroupingChoice(self, GROUPING_TABS, lambda _profile: BY_NAME)
        self._shown_grouping: str = BY_NAME.name
        """The grouping that the tables are arranged for."""
        self._states_by_grouping: dict[str, TableState] = {}
        """How the first table was left, by grouping."""
        self._background = RowsInBackground(self)

    def make_body(self) -> LinkedTables:
        """Return the tables of ops by name, their kernels and launches."""
        return LinkedTables(NAME_LEVELS)

    @property
    def grouping(self) -> Grouping | None:
        """The current grouping; None: by name."""
        current = self._groupings.current
        return current if isinstance(current, Grouping) else None

    @property
    def tables(self) -> LinkedTables:
        """The tables."""
        return self.query_one(LinkedTables)

    def compose_body(self) -> Iterable[Widget]:
        """Yield the groupings and the tables."""
        yield TabBar([grouping.title.removeprefix("by ") for grouping in GROUPING_TABS], hint=", .", id="groupings")
        yield from super().compose_body()

    def populate(self) -> None:
        """Fill the tables of the current grouping."""
        self._arrange()
        self._groupings.show(self.query_one("#groupings", TabBar))
        grouping = self.grouping
        pane = self.tables.pane(0)
        if grouping is not None and not self._background.ensure_computed(pane, grouping.name, grouping.make):
            return
        super().populate()

    # --- groupings ---------------------------------------------------------------------------------------------------

    def _arrange(self) -> None:
        """Restore the arrangement of the first table for its grouping; its rows are filled later."""
        name, grouping = self._groupings.current.name, self.grouping
        if name == self._shown_grouping:
            return
        pane = self.tables.pane(0)
        self._states_by_grouping[self._shown_grouping] = pane.state
        self._shown_grouping = name
        self.tables.levels = levels_of(grouping) if grouping is not None else NAME_LEVELS
        pane.state = self._states_by_grouping.get(
            name, TableState(unit=pane.state.unit, full_names=pane.state.full_names)
        )
        # The tables below show rows of another kind.
        self.tables.clear_selections()
        for index in range(1, len(self.tables.levels)):
            self.tables.fill(index)

    def group_by(self, name: str) -> None:
        """Group the first table by one of `GROUPING_TABS`."""
        if name != self._groupings.current.name:
            self._groupings.choose(name)
            self.tables.current = 0
            self.populate()
            self.explorer.navigator.history.visit(self.place())

    def action_show_in_tree(self) -> None:
        """Go to the position of the op in Group Ops; for a launch, of the op that launched it."""
        pane = self.table
        if pane is not None and pane.id == "launches" and pane.current_row is not None:
            activity = self.profile["activities"].filter(pl.col("activity") == pane.current_row["activity"])
            launcher = self.profile["ops"].join(activity.select("op"), on="op", how="semi")
            if launcher.height:
                session, name, group = launcher.select("session", "name", "group").row(0)
                self.explorer.go("group-ops", lambda screen: _reveal(screen, session, name, group))
                return
        op = self.tables.selected.get("ops")
        if op is None or op.get("op") is None:
            self.explorer.say("Not an op. The tree contains ops only.", severity="warning")
            return
        self.explorer.go("group-ops", lambda screen: _reveal(screen, op["session"], op["op"], None))

    def show_only(self, query: str) -> None:
        """Show the ops of a filter in the table by name, for which other views write filters."""
        self.group_by(BY_NAME.name)
        super().show_only(query)

    def path(self) -> list[str]:
        """Return the grouping, and the opened rows."""
        return [*([self.grouping.title] if self.grouping is not None else []), *super().path()]

    def place(self) -> Place:
        """Return the position, including the grouping."""
        place = super().place()
        return replace(place, level=f"{self._groupings.current.name}/{place.level}")

    def restore(self, place: Place) -> None:
        """Return to a position, including the grouping."""
        name, _, level = place.level.partition("/")
        if name != self._groupings.current.name and self._groupings.applies(name):
            self._groupings.choose(name)
            self.populate()
        super().restore(replace(place, level=level))

    # --- details -----------------------------------------------------------------------------------------------------

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return the calls of a recorded op, the gains of other groups, or the details of a launch."""
        if pane.id == "ops" and self.grouping is not None:
            gains = estimated_savings(self.profile, self.grouping.activities(self.profile, row))
            return with_blocks(
                work_details(self, pane, row), [("Estimated savings of its GPU work", gain_lines(gains))]
            )
        if pane.id == "kernels":
            return kernel_details(self, pane, row, self._launches_of(row))
        has_calls = row.get("session") in recorded_sessions(self.profile).to_list()
        if pane.id != "ops" or not is_recorded_op(row) or row["why_no_op"] or not has_calls:
            return work_details(self, pane, row)
        arguments = op_arguments(row)
        kernels_ns = recorded_op_kernels(self.profile, **arguments)["total_ns"].sum()
        calls = op_calls(self.profile, session=row["session"], op=row["op"])
        gains = estimated_savings(self.profile, recorded_op_activities(self.profile, **arguments))
        details = op_details(pane.spec, row, calls, kernels_ns=int(kernels_ns))
        return with_blocks(details, [("Estimated savings, with nested ops", gain_lines(gains))])

    def _launches_of(self, row: Row) -> pl.DataFrame:
        """Return the launches of a kernel in the selected op."""
        tables = self.tables
        rows_below = tables.rows_below("kernels", row)
        return (
            tables.levels[2].rows(self.profile, {**tables.selected, "kernels": row})
            if rows_below is None
            else rows_below
        )
