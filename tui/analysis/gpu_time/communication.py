"""Which GPU work is communication between GPUs: kernels of a communication library, told by their names."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.gpu_time.timelines import classes_of
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.rules import classify

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

COMMUNICATION: Final = "communication"
"""The op type of the kernels of NCCL, RCCL, NVSHMEM and the like (``op_types.toml``, and what users add to it)."""


class WorkKind(IntEnum):
    """What an activity is."""

    COMPUTE = 0
    """A kernel that does not communicate, or a whole CUDA graph."""
    COMMUNICATION = 1
    MEMSET = 2
    COPY = 3
    """A copy, or work of unified memory."""


@once_per_profile("activities")
def work_kinds(profile: Profile) -> npt.NDArray[np.int8]:
    """The `WorkKind` of each row of ``activities``."""
    activities = profile["activities"]
    kind = classes_of(activities["kind"], _kind)
    by_name = classes_of(activities["name"], _by_name)
    found: npt.NDArray[np.int8] = np.where(kind == WorkKind.COMPUTE, by_name, kind)
    return found


def _kind(kinds: pl.Series) -> npt.NDArray[np.int8]:
    told = {"memcpy": WorkKind.COPY, "um": WorkKind.COPY, "memset": WorkKind.MEMSET}
    return np.array([told.get(kind, WorkKind.COMPUTE) for kind in kinds.to_list()], np.int8)


def _by_name(names: pl.Series) -> npt.NDArray[np.int8]:
    types = classify(names).select(pl.col("name").cast(pl.String), talks=pl.col("op_type") == COMMUNICATION)
    found = names.alias("name").to_frame().join(types, on="name", how="left", maintain_order="left")["talks"]
    return found.fill_null(False).cast(pl.Int8).to_numpy()
