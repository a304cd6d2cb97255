"""Ops and Kernels: from the kind of operation to its kernels, to their launches, to the launch config."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tui.analysis.ops import OP_KERNELS, OPS, kernels_of_op, ops
from tui.screens.kernels import LAUNCH_LEVEL, LaunchScreen, no_kernels, short
from tui.screens.linked import Level, Row

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from tui.model.profile import Profile


def kernels_of_selected_op(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """The kernels of the selected op; none where no op is selected."""
    row = above.get("ops")
    if row is None:
        return kernels_of_op(profile, session=-1, op_type="", direction=None)
    return kernels_of_op(profile, session=row["session"], op_type=row["op_type"], direction=row["direction"])


class OpsAndKernelsScreen(LaunchScreen):
    """Ops, the kernels of the op under the cursor, and the launches of the kernel under the cursor."""

    VIEW = "ops-and-kernels"
    LEVELS: ClassVar = (
        Level("ops", OPS, lambda profile, _above: ops(profile), lambda row: str(row["op"]), no_kernels, 3),
        Level("kernels", OP_KERNELS, kernels_of_selected_op, short, no_kernels, 3),
        LAUNCH_LEVEL,
    )
    HELP: ClassVar = (
        "Ops, the kernels of the op under the cursor, and the launches of the kernel under the cursor.\n"
        "nvprof does not record ops: they are inferred from kernel names by rules (op_types.toml) you can extend.\n"
        "enter goes deeper, q comes back; enter on a launch shows its configuration and theoretical occupancy."
    )
