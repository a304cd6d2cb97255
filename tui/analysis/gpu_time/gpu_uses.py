"""Whether each GPU activity is a kernel that uses tensor cores, one that does not, an unknown one, or memory work."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.analysis.gpu_time.timelines import classes_of
from tui.analysis.memo import once_per_profile
from tui.analysis.tensor_cores.verdicts import tensor_cores_by_device, tensor_cores_by_name

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile


class GpuUse(IntEnum):
    """What an activity is, in the order in which the breakdown of wall time counts it."""

    YES = 0
    NO = 1
    UNKNOWN = 2
    MEMORY = 3


@once_per_profile("activities", "devices", "sessions", "api_calls")
def gpu_uses(profile: Profile) -> npt.NDArray[np.int8]:
    """The `GpuUse` of each row of ``activities``.

    The verdicts are those of `tensor_cores.verdicts.with_verdicts`, found for millions of launches at once: what
    the input says stands; else the GPU decides, else the kernel's name. Of a whole CUDA graph it is not known.
    """
    activities = profile["activities"]
    kind = classes_of(activities["kind"], _kind)
    use = np.where(kind == GpuUse.NO, classes_of(activities["name"], _by_name), kind)
    gpus = tensor_cores_by_device(profile)
    without = gpus.filter(pl.col("has_tensor_cores").eq(False))
    if without.height:
        gpu = pl.struct("session", "device")
        # To ask for the GPU of every launch takes long, and mostly all are alike.
        all_ = without.height == gpus.height
        is_of_them = pl.lit(True) if all_ else gpu.is_in(without.select(gpu).to_series().implode())
        of_them = activities.select(is_of_them).to_series().to_numpy()
        use = np.where((kind == GpuUse.NO) & of_them, np.int8(GpuUse.NO), use)
    told = activities["uses_tensor_core"]
    if told.null_count() < len(told):
        recorded = told.cast(pl.Int8).fill_null(-1).to_numpy()
        verdict = np.where(recorded == 1, np.int8(GpuUse.YES), np.int8(GpuUse.NO))
        use = np.where((kind != GpuUse.MEMORY) & (recorded >= 0), verdict, use)
    found: npt.NDArray[np.int8] = use.astype(np.int8, copy=False)
    return found


def _by_name(names: pl.Series) -> npt.NDArray[np.int8]:
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


def _kind(kinds: pl.Series) -> npt.NDArray[np.int8]:
    told = {"kernel": GpuUse.NO, "graph": GpuUse.UNKNOWN}
    return np.array([told.get(kind, GpuUse.MEMORY) for kind in kinds.to_list()], np.int8)
