"""What a thing on the timeline is, told for millions of rows at once from their few distinct names."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from tui.analysis.gpu_time.api_classes import ApiClass, api_classes
from tui.analysis.gpu_time.communication import WorkKind, work_kinds
from tui.analysis.gpu_time.gpu_uses import GpuUse, gpu_uses
from tui.analysis.gpu_time.timelines import classes_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import polars as pl

    from tui.model.profile import Profile

    Looks = npt.NDArray[np.int8]


class Look(IntEnum):
    """What is told apart by glyph and colour."""

    TENSOR = 0
    """A kernel that uses tensor cores."""
    KERNEL = 1
    """A kernel that does not, or of which it is not known."""
    GRAPH = 2
    """A whole CUDA graph."""
    COMMUNICATION = 3
    TO_GPU = 4
    FROM_GPU = 5
    COPY = 6
    """A copy within a GPU or between GPUs, of unified memory, or of which the direction is not known."""
    MEMSET = 7
    LAUNCH = 8
    SYNC = 9
    COPY_CALL = 10
    OTHER_CALL = 11
    OP = 12
    RANGE = 13


TITLES: Final = {
    Look.TENSOR: "tensor-core kernel",
    Look.KERNEL: "other kernel",
    Look.GRAPH: "CUDA graph",
    Look.COMMUNICATION: "communication",
    Look.TO_GPU: "copy to GPU",
    Look.FROM_GPU: "copy from GPU",
    Look.COPY: "other copy",
    Look.MEMSET: "memset",
    Look.LAUNCH: "launch",
    Look.SYNC: "sync",
    Look.COPY_CALL: "copy call",
    Look.OTHER_CALL: "other call",
    Look.OP: "op",
    Look.RANGE: "range",
}
"""As the legend says it."""

COMPUTES: Final = (Look.TENSOR, Look.KERNEL, Look.GRAPH)

_OF_CALL: Final = {
    ApiClass.SYNC: Look.SYNC,
    ApiClass.COPY: Look.COPY_CALL,
    ApiClass.LAUNCH: Look.LAUNCH,
    ApiClass.MEMORY: Look.OTHER_CALL,
    ApiClass.LOADING: Look.OTHER_CALL,
    ApiClass.OTHER: Look.OTHER_CALL,
}


def looks_of_work(profile: Profile) -> Looks:
    """The `Look` of each row of ``activities``."""
    kinds, uses = work_kinds(profile), gpu_uses(profile)
    found = np.full(len(kinds), Look.KERNEL, np.int8)
    found[uses == GpuUse.YES] = Look.TENSOR
    found[kinds == WorkKind.COMMUNICATION] = Look.COMMUNICATION
    found[kinds == WorkKind.MEMSET] = Look.MEMSET
    activities = profile["activities"]
    copies = kinds == WorkKind.COPY
    if copies.any():
        found[copies] = classes_of(activities["copy_kind"], _of_copies)[copies]
    found[classes_of(activities["kind"], _is_graph) == 1] = Look.GRAPH
    return found


def looks_of_calls(calls: pl.DataFrame) -> Looks:
    """The `Look` of each API call."""
    of_class = np.array([_OF_CALL[found] for found in ApiClass], np.int8)
    return classes_of(calls["name"], lambda names: of_class[api_classes(names)])


def _of_copies(directions: pl.Series) -> Looks:
    told = {"HtoD": Look.TO_GPU, "DtoH": Look.FROM_GPU}
    return np.array([told.get(direction, Look.COPY) for direction in directions.to_list()], np.int8)


def _is_graph(kinds: pl.Series) -> Looks:
    return np.array([kind == "graph" for kind in kinds.to_list()], np.int8)
