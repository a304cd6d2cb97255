"""Kernels by Iteration and Kernels by Op: the work of one iteration, by launch or by op."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tui.analysis.capabilities import missing_data_text
from tui.analysis.iterations.iteration_table import reasons
from tui.analysis.iterations.segments import WHOLE_RUN
from tui.analysis.iterations.work import (
    ITERATION_LAUNCHES,
    ITERATION_OPS,
    iteration_launches,
    iteration_op_launches,
    iteration_ops,
)
from tui.analysis.needs import START_TIMES
from tui.analysis.ops.ops_by_name import has_recorded_ops
from tui.screens.base import ViewScreen
from tui.screens.kernels import launch_crumb, work_details
from tui.screens.linked_tables import Level, LinkedTables, Row, registered_level
from tui.text_width import clip_middle

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from tui.model.profile import Profile
    from tui.widgets.details import Details
    from tui.widgets.table.pane import TablePane


KEY_CRUMB: Final = 32
"""The maximum width of a key in the path."""


def iteration_crumb(row: Row) -> str:
    """Return an iteration for the path."""
    return "outside" if row["iteration"] is None else f"iteration {row['iteration']}"


def why_no_iterations(profile: Profile) -> str:
    """Return why there are no iterations to show."""
    return missing_data_text(profile, START_TIMES)


def nothing_launched(_profile: Profile) -> str:
    """Return why an iteration has no rows."""
    return "this iteration launched no GPU work"


ITERATION_LEVEL = Level("iterations", *registered_level("iteration_work"), iteration_crumb, why_no_iterations, 2)


def launches_below(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the launches of the selected iteration; none if none is selected."""
    row = selected.get("iterations")
    if row is None:
        return iteration_launches(profile, session=-1, iteration=None)
    return iteration_launches(profile, session=row["session"], iteration=row["iteration"])


def open_iteration(tables: LinkedTables, session: int, iteration: int | None) -> None:
    """Put the cursor on an iteration, and show its work.

    Args:
        tables: The tables; the first lists iterations.
        session: Number of its session.
        iteration: The number of the iteration; None: work launched outside of iterations.
    """
    pane = tables.pane(0)
    pane.state = replace(pane.state, filter="", cursor_key=(session, iteration))

    def open_row() -> None:
        row = pane.current_row
        if row is not None and (row["session"], row["iteration"]) == (session, iteration):
            pane.action_open_row()

    if pane.frame.is_empty():
        tables.view.when_filled(open_row)
    else:
        open_row()


def iterations_crumb(profile: Profile) -> list[str]:
    """Return how iterations were found, if they are not recorded, shortened."""
    explanations = list(reasons(profile).values())
    if profile.aggregation.key:
        return [f"by {clip_middle(profile.aggregation.key, KEY_CRUMB)}"]
    if len(explanations) != 1:
        return [f"detected in {len(explanations)} sessions"] if explanations else []
    explanation = explanations[0].partition(",")[0]
    # The number of launches without repetition does not fit into the line.
    return [explanation.partition(" in ")[0] if explanation.startswith(WHOLE_RUN) else explanation]


class KernelsByIterationScreen(ViewScreen):
    """Iterations, and the launches of the iteration under the cursor."""

    VIEW = "kernels-by-iteration"
    HELP: ClassVar = (
        "Iterations; below, the GPU work of the selected iteration, in time order.\nGPU% and TC%: share of the "
        "iteration in which a kernel, or a tensor-core kernel, ran; mean over GPUs.\nenter on a launch shows its "
        "configuration and theoretical occupancy. q goes back."
    )

    LEVELS: ClassVar = (
        ITERATION_LEVEL,
        Level("launches", ITERATION_LAUNCHES, launches_below, launch_crumb, nothing_launched, 3),
    )

    def make_body(self) -> LinkedTables:
        """Return iterations and launches."""
        return LinkedTables(self.LEVELS)

    def path(self) -> list[str]:
        """Return the opened rows; before that how iterations were found."""
        return super().path() or iterations_crumb(self.profile)

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return the launch configuration of a launch, or the values of an iteration."""
        return work_details(self, pane, row)


OP_CRUMB = 40
"""The maximum width of an op in the path."""


def op_crumb(row: Row) -> str:
    """Return an op for the path."""
    return clip_middle(str(row["op"]), OP_CRUMB)


def ops_below(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the ops of the selected iteration; none if none is selected."""
    row = selected.get("iterations")
    if row is None:
        return iteration_ops(profile, session=-1, iteration=None)
    return iteration_ops(profile, session=row["session"], iteration=row["iteration"])


def launches_of_op_below(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the launches of the selected op in the selected iteration."""
    row = selected.get("ops")
    if row is None:
        return iteration_launches(profile, session=-1, iteration=None)
    op_columns: dict[str, Any] = {name: row[name] for name in ("op", "op_type", "direction", "why_no_op")}
    return iteration_op_launches(profile, session=row["session"], iteration=row["iteration"], **op_columns)


class KernelsByOpScreen(ViewScreen):
    """Iterations, the ops of the selected iteration, and the launches of the selected op."""

    VIEW = "kernels-by-op"
    HELP: ClassVar = (
        "Iterations, the ops of the selected iteration, and the launches of the selected op in it.\n"
        "Where ops are not recorded, they are inferred from kernel names by the rules of op_types.toml.\n"
        "enter on a launch shows its configuration and theoretical occupancy. q goes back."
    )

    LEVELS: ClassVar = (
        ITERATION_LEVEL,
        Level("ops", ITERATION_OPS, ops_below, op_crumb, nothing_launched, 2),
        Level("launches", ITERATION_LAUNCHES, launches_of_op_below, launch_crumb, nothing_launched, 2),
    )

    def make_body(self) -> LinkedTables:
        """Return iterations, ops and launches."""
        return LinkedTables(self.LEVELS)

    def path(self) -> list[str]:
        """Return the opened rows; before that how iterations were found, and whether ops are inferred."""
        opened_rows = super().path()
        if opened_rows:
            return opened_rows
        inferred = [] if has_recorded_ops(self.profile) else ["ops inferred from kernel names"]
        return [*iterations_crumb(self.profile), *inferred]

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return the launch configuration of a launch, or the values of other rows."""
        return work_details(self, pane, row)
