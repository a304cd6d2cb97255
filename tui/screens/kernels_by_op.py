"""Kernels by Op: iteration, op of the iteration, launches of the op in the iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tui.analysis.iterations.work import (
    ITERATION_LAUNCHES,
    ITERATION_OPS,
    launches_of_iteration,
    launches_of_iteration_op,
    ops_of_iteration,
)
from tui.analysis.ops.ops_by_name import has_recorded_ops
from tui.fitting import clip_middle
from tui.screens.base import ViewScreen
from tui.screens.kernels import launch_crumb, work_details
from tui.screens.kernels_by_iteration import ITERATION_LEVEL, found_words, nothing_launched
from tui.screens.linked_tables import Level, LinkedTables, Row

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from tui.model.profile import Profile
    from tui.widgets.details.pane import Details
    from tui.widgets.table.pane import TablePane

OP_CRUMB = 40
"""Cells of an op in the path."""


def op_crumb(row: Row) -> str:
    """An op in the path."""
    return clip_middle(str(row["op"]), OP_CRUMB)


def ops_below(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """The ops of the selected iteration; none where none is selected."""
    row = above.get("iterations")
    if row is None:
        return ops_of_iteration(profile, session=-1, iteration=None)
    return ops_of_iteration(profile, session=row["session"], iteration=row["iteration"])


def launches_below(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """The launches of the selected op in the selected iteration."""
    row = above.get("ops")
    if row is None:
        return launches_of_iteration(profile, session=-1, iteration=None)
    chosen: dict[str, Any] = {name: row[name] for name in ("op", "op_type", "direction", "why_no_op")}
    return launches_of_iteration_op(profile, session=row["session"], iteration=row["iteration"], **chosen)


class KernelsByOpScreen(ViewScreen):
    """Iterations, the ops of the one under the cursor, and the launches of the op under the cursor."""

    VIEW = "kernels-by-op"
    HELP: ClassVar = (
        "Iterations, the ops of the one under the cursor, and the launches of the op under the cursor in it.\n"
        "Where ops are not recorded (From: inferred), rules on kernel names infer them (op_types.toml).\n"
        "enter goes deeper, q comes back; enter on a launch shows its configuration and theoretical occupancy."
    )

    def make_body(self) -> LinkedTables:
        """Iterations, ops and launches."""
        return LinkedTables(
            (
                ITERATION_LEVEL,
                Level("ops", ITERATION_OPS, ops_below, op_crumb, nothing_launched, 2),
                Level("launches", ITERATION_LAUNCHES, launches_below, launch_crumb, nothing_launched, 2),
            )
        )

    def path(self) -> list[str]:
        """The rows that have been gone into; before that how iterations were found, and whether ops are inferred."""
        gone_into = super().path()
        if gone_into:
            return gone_into
        inferred = [] if has_recorded_ops(self.profile) else ["ops inferred from kernel names"]
        return [*found_words(self.profile), *inferred]

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """The launch config of a launch; the values of other rows."""
        return work_details(self, pane, row)
