"""Kinds of GPU work: computation or communication, with or without tensor cores, memory work."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.gpu_time.timelines import classify_values
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.op_type_rules import classify
from tui.analysis.tensor_core_use import tensor_cores_by_device, tensor_cores_by_name

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
    kind = classify_values(activities["kind"], _kind)
    by_name = classify_values(activities["name"], _by_name)
    found: npt.NDArray[np.int8] = np.where(kind == WorkKind.COMPUTE, by_name, kind)
    return found


def _kind(kinds: pl.Series) -> npt.NDArray[np.int8]:
    by_name = {"memcpy": WorkKind.COPY, "um": WorkKind.COPY, "memset": WorkKind.MEMSET}
    return np.array([by_name.get(kind, WorkKind.COMPUTE) for kind in kinds.to_list()], np.int8)


def _by_name(names: pl.Series) -> npt.NDArray[np.int8]:
    types = classify(names).select(pl.col("name").cast(pl.String), talks=pl.col("op_type") == COMMUNICATION)
    found = names.alias("name").to_frame().join(types, on="name", how="left", maintain_order="left")["talks"]
    return found.fill_null(False).cast(pl.Int8).to_numpy()


class GpuUse(IntEnum):
    """What an activity is, in the order in which the breakdown of wall time counts it."""

    YES = 0
    NO = 1
    UNKNOWN = 2
    MEMORY = 3


@once_per_profile("activities", "devices", "sessions", "api_calls")
def gpu_uses(profile: Profile) -> npt.NDArray[np.int8]:
    """The `GpuUse` of each row of ``activities``.

    The verdicts are those of `tensor_core_use.with_verdicts`, found for millions of launches at once: what
    the input records is kept; else the GPU decides, else the kernel's name. Of a whole CUDA graph it is not known.
    """
    activities = profile["activities"]
    kind = classify_values(activities["kind"], _use_of_kind)
    use = np.where(kind == GpuUse.NO, classify_values(activities["name"], _uses_by_name), kind)
    gpus = tensor_cores_by_device(profile)
    without = gpus.filter(pl.col("has_tensor_cores").eq(False))
    if without.height:
        gpu = pl.struct("session", "device")
        # Looking up the GPU of every launch is slow, and usually all are the same.
        all_ = without.height == gpus.height
        is_of_them = pl.lit(True) if all_ else gpu.is_in(without.select(gpu).to_series().implode())
        of_them = activities.select(is_of_them).to_series().to_numpy()
        use = np.where((kind == GpuUse.NO) & of_them, np.int8(GpuUse.NO), use)
    recorded_use = activities["uses_tensor_core"]
    if recorded_use.null_count() < len(recorded_use):
        recorded = recorded_use.cast(pl.Int8).fill_null(-1).to_numpy()
        verdict = np.where(recorded == 1, np.int8(GpuUse.YES), np.int8(GpuUse.NO))
        use = np.where((kind != GpuUse.MEMORY) & (recorded >= 0), verdict, use)
    found: npt.NDArray[np.int8] = use.astype(np.int8, copy=False)
    return found


def _uses_by_name(names: pl.Series) -> npt.NDArray[np.int8]:
    verdicts = tensor_cores_by_name(names).select(
        pl.col("name").cast(pl.String),
        pl.when("uses_tensor_core")
        .then(int(GpuUse.YES))
        .when(~pl.col("uses_tensor_core"))
        .then(int(GpuUse.NO))
        .cast(pl.Int8)
        .alias("use"),
    )
    found = names.alias("name").to_frame().join(verdicts, on="name", how="left", maintain_order="left")["use"]
    return found.fill_null(int(GpuUse.UNKNOWN)).to_numpy()


def _use_of_kind(kinds: pl.Series) -> npt.NDArray[np.int8]:
    by_kind = {"kernel": GpuUse.NO, "graph": GpuUse.UNKNOWN}
    return np.array([by_kind.get(kind, GpuUse.MEMORY) for kind in kinds.to_list()], np.int8)
