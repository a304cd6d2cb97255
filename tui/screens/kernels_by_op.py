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
from tui.screens.kernels import launch_crumb
from tui.screens.kernels_by_iteration import ITERATION_LEVEL, IterationLaunchScreen, nothing_launched
from tui.screens.master_detail import Level, Row

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from tui.model.profile import Profile

OP_CRUMB = 40
"""Cells of an op in the path."""


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


class KernelsByOpScreen(IterationLaunchScreen):
    """Iterations, the ops of the one under the cursor, and the launches of the op under the cursor."""

    VIEW = "kernels-by-op"
    LEVELS: ClassVar = (
        ITERATION_LEVEL,
        Level("ops", ITERATION_OPS, ops_below, lambda row: clip_middle(str(row["op"]), OP_CRUMB), nothing_launched, 2),
        Level(
            "launches",
            ITERATION_LAUNCHES,
            launches_below,
            launch_crumb,
            nothing_launched,
            2,
        ),
    )
    HELP: ClassVar = (
        "Iterations, the ops of the one under the cursor, and the launches of the op under the cursor in it.\n"
        "Where ops are not recorded (From: inferred), kernel names tell them by rules (op_types.toml).\n"
        "enter goes deeper, q comes back; enter on a launch shows its configuration and theoretical occupancy."
    )

    def path(self) -> list[str]:
        """The rows that have been gone into, and whether ops are inferred."""
        inferred = not has_recorded_ops(self.profile)
        return [*super().path(), *(["ops inferred from kernel names"] if inferred and not self._level else [])]
