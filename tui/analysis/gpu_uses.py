"""Whether each GPU activity is a kernel that uses tensor cores, one that does not, an unknown one, or memory work."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.devices import device_facts
from tui.analysis.memo import once_per_profile
from tui.analysis.tensor_cores import tensor_cores_by_name
from tui.analysis.timelines import classes_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

FIRST_WITH_TENSOR_CORES: Final = 7.0
"""Compute capability: GPUs below it have none."""


class TensorCoreUse(IntEnum):
    """What an activity is, in the order in which the breakdown of wall time counts it."""

    YES = 0
    NO = 1
    UNKNOWN = 2
    MEMORY = 3


@once_per_profile("activities", "devices", "sessions", "api_calls")
def tensor_core_use(profile: Profile) -> npt.NDArray[np.int8]:
    """The `TensorCoreUse` of each row of ``activities``.

    What the input says stands; else the compute capability of the GPU, else the kernel's name. Of a whole CUDA graph
    it is not known.
    """
    activities = profile["activities"]
    by_name = classes_of(activities["name"], _by_name)
    kind = classes_of(activities["kind"], _kind)
    without = _without_tensor_cores(profile)
    use = np.where(kind == TensorCoreUse.NO, by_name, kind)
    is_kernel = (kind == TensorCoreUse.NO) | (kind == TensorCoreUse.UNKNOWN)
    if without.height:
        code = pl.struct("session", "device")
        none = activities.select(code.is_in(without.select(code).to_series().implode())).to_series().to_numpy()
        use = np.where(is_kernel & none, np.int8(TensorCoreUse.NO), use)
    told = activities["uses_tensor_core"]
    if told.null_count() < len(told):
        recorded = told.cast(pl.Int8).fill_null(-1).to_numpy()
        verdict = np.where(recorded == 1, np.int8(TensorCoreUse.YES), np.int8(TensorCoreUse.NO))
        use = np.where(is_kernel & (recorded >= 0), verdict, use)
    found: npt.NDArray[np.int8] = use.astype(np.int8, copy=False)
    return found


def _by_name(names: pl.Series) -> npt.NDArray[np.int8]:
    verdicts = tensor_cores_by_name(names).select(
        pl.col("name").cast(pl.String),
        pl.when("uses_tensor_core")
        .then(int(TensorCoreUse.YES))
        .when(~pl.col("uses_tensor_core"))
        .then(int(TensorCoreUse.NO))
        .cast(pl.Int8)
        .alias("use"),
    )
    found = names.alias("name").to_frame().join(verdicts, on="name", how="left", maintain_order="left")["use"]
    return found.fill_null(int(TensorCoreUse.UNKNOWN)).to_numpy()


def _kind(kinds: pl.Series) -> npt.NDArray[np.int8]:
    told = {"kernel": TensorCoreUse.NO, "graph": TensorCoreUse.UNKNOWN}
    return np.array([told.get(kind, TensorCoreUse.MEMORY) for kind in kinds.to_list()], np.int8)


def _without_tensor_cores(profile: Profile) -> pl.DataFrame:
    """The GPUs that have none: session and device."""
    capability = pl.col("compute_capability").cast(pl.Float64, strict=False)
    return device_facts(profile).filter(capability < FIRST_WITH_TENSOR_CORES).select("session", "device")
