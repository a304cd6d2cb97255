"""Ops and Kernels: from the op to its kernels, to their launches, to the launch config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from tui.analysis.inputs.capabilities import missing, why_none
from tui.analysis.inputs.needs import GPU_WORK
from tui.analysis.kernels import LAUNCHES
from tui.analysis.ops.drill import (
    KERNELS_OF_OP,
    activities_of_recorded_op,
    kernels_of_recorded_op,
    launches_of_recorded_op,
    op_calls,
)
from tui.analysis.ops.tables import OP_KERNELS, OPS, has_recorded_ops, kernels_of_op, ops, ops_spec
from tui.analysis.what_if import what_if
from tui.fitting import clip_middle
from tui.screens.kernels import LaunchScreen, launches_of_kernel, no_kernels, no_launches, short
from tui.screens.linked import Level, Row
from tui.widgets.kernel_details import below, gain_lines
from tui.widgets.op_details import op_details

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from tui.model.profile import Profile
    from tui.model.view import TableSpec
    from tui.widgets.details import Details
    from tui.widgets.table_pane import TablePane

OP_CRUMB: Final = 40
"""Cells of an op in the path."""


def is_recorded(row: Row) -> bool:
    """Whether a row of the ops is of a session that records ops."""
    return "why_no_op" in row and row["op_source"] != "inferred"


def selection(row: Row) -> dict[str, Any]:
    """What tells a recorded op, or work without an op, apart: arguments of `tui.analysis.ops.drill`."""
    reason = row["why_no_op"]
    return {"session": row["session"], "op": None if reason else row["op"], "why_no_op": reason}


def kernels_of_selected_op(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """The kernels of the selected op; none where no op is selected."""
    row = above.get("ops")
    if row is None:
        return kernels_of_op(profile, session=-1, op_type="", direction=None)
    if is_recorded(row):
        return kernels_of_recorded_op(profile, **selection(row))
    return kernels_of_op(profile, session=row["session"], op_type=row["op_type"], direction=row["direction"])


def launches_of_selected_kernel(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """The launches of the selected kernel in the selected op."""
    op, kernel = above.get("ops"), above.get("kernels")
    if op is None or kernel is None or not is_recorded(op):
        return launches_of_kernel(profile, above)
    return launches_of_recorded_op(
        profile, **selection(op), kind=kernel["kind"], name=kernel["name"], launched_by=kernel["launched_by"]
    )


def kernels_spec(profile: Profile) -> TableSpec:
    """How the kernels of an op are shown."""
    return KERNELS_OF_OP if has_recorded_ops(profile) else OP_KERNELS


def no_kernels_of_op(profile: Profile) -> str:
    """Why an op has no kernels."""
    if not has_recorded_ops(profile):
        return no_kernels(profile)
    if any(need.name == GPU_WORK.name for need in missing(profile)):
        return why_none(profile, GPU_WORK)
    return "this op launched nothing on the GPU"


class OpsAndKernelsScreen(LaunchScreen):
    """Ops, the kernels of the op under the cursor, and the launches of the kernel under the cursor."""

    VIEW = "ops-and-kernels"
    LEVELS: ClassVar = (
        Level(
            "ops",
            OPS,
            lambda profile, _above: ops(profile),
            lambda row: clip_middle(str(row["op"]), OP_CRUMB),
            no_kernels,
            3,
            ops_spec,
        ),
        Level("kernels", OP_KERNELS, kernels_of_selected_op, short, no_kernels_of_op, 3, kernels_spec),
        Level(
            "launches",
            LAUNCHES,
            launches_of_selected_kernel,
            lambda row: f"launch {row['activity']}",
            no_launches,
            2,
        ),
    )
    HELP: ClassVar = (
        "Ops, the kernels of the op under the cursor, and the launches of the kernel under the cursor.\n"
        "Where ops are not recorded (nvprof), kernel names tell them by rules (op_types.toml) that you can extend.\n"
        "enter goes deeper, q comes back; enter on a launch shows its configuration and theoretical occupancy."
    )

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Of a recorded op what its calls were like; the rest as for all launches."""
        if pane.id != "ops" or not is_recorded(row) or row["why_no_op"]:
            return super().details(pane, row)
        chosen = selection(row)
        kernels_ns = kernels_of_recorded_op(self.profile, **chosen)["total_ns"].sum()
        calls = op_calls(self.profile, session=row["session"], op=row["op"])
        gains = what_if(self.profile, activities_of_recorded_op(self.profile, **chosen))
        told = op_details(pane.spec, row, calls, kernels_ns=int(kernels_ns))
        return below(told, [("If its GPU work, with that of ops within it, were", gain_lines(gains))])

    def launches_behind(self, row: Row) -> pl.DataFrame:
        """The launches of a kernel in the op that is looked at."""
        return launches_of_selected_kernel(self.profile, {**self.selected, "kernels": row})
