"""Kinds of timeline items, found for millions of rows at once from their distinct names."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from tui.analysis.gpu_time.host_calls import ApiClass, api_classes
from tui.analysis.gpu_time.timelines import classify_values
from tui.analysis.gpu_time.work_kinds import GpuUse, WorkKind, gpu_uses, work_kinds

if TYPE_CHECKING:
    import numpy.typing as npt
    import polars as pl

    from tui.model.profile import Profile

    Looks = npt.NDArray[np.int8]


class ItemKind(IntEnum):
    """What is distinguished by glyph and color."""

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
    ItemKind.TENSOR: "tensor-core kernel",
    ItemKind.KERNEL: "other kernel",
    ItemKind.GRAPH: "CUDA graph",
    ItemKind.COMMUNICATION: "communication",
    ItemKind.TO_GPU: "copy to GPU",
    ItemKind.FROM_GPU: "copy from GPU",
    ItemKind.COPY: "other copy",
    ItemKind.MEMSET: "memset",
    ItemKind.LAUNCH: "launch",
    ItemKind.SYNC: "sync",
    ItemKind.COPY_CALL: "copy call",
    ItemKind.OTHER_CALL: "other call",
    ItemKind.OP: "op",
    ItemKind.RANGE: "range",
}
"""As the legend says it."""

COMPUTES: Final = (ItemKind.TENSOR, ItemKind.KERNEL, ItemKind.GRAPH)

_OF_CALL: Final = {
    ApiClass.SYNC: ItemKind.SYNC,
    ApiClass.COPY: ItemKind.COPY_CALL,
    ApiClass.LAUNCH: ItemKind.LAUNCH,
    ApiClass.MEMORY: ItemKind.OTHER_CALL,
    ApiClass.LOADING: ItemKind.OTHER_CALL,
    ApiClass.OTHER: ItemKind.OTHER_CALL,
}


def kinds_of_activities(profile: Profile) -> Looks:
    """The `ItemKind` of each row of ``activities``."""
    kinds, uses = work_kinds(profile), gpu_uses(profile)
    found = np.full(len(kinds), ItemKind.KERNEL, np.int8)
    found[uses == GpuUse.YES] = ItemKind.TENSOR
    found[kinds == WorkKind.COMMUNICATION] = ItemKind.COMMUNICATION
    found[kinds == WorkKind.MEMSET] = ItemKind.MEMSET
    activities = profile["activities"]
    copies = kinds == WorkKind.COPY
    if copies.any():
        found[copies] = classify_values(activities["copy_kind"], _of_copies)[copies]
    found[classify_values(activities["kind"], _is_graph) == 1] = ItemKind.GRAPH
    return found


def kinds_of_calls(calls: pl.DataFrame) -> Looks:
    """The `ItemKind` of each API call."""
    of_class = np.array([_OF_CALL[found] for found in ApiClass], np.int8)
    return classify_values(calls["name"], lambda names: of_class[api_classes(names)])


def _of_copies(directions: pl.Series) -> Looks:
    told = {"HtoD": ItemKind.TO_GPU, "DtoH": ItemKind.FROM_GPU}
    return np.array([told.get(direction, ItemKind.COPY) for direction in directions.to_list()], np.int8)


def _is_graph(kinds: pl.Series) -> Looks:
    return np.array([kind == "graph" for kind in kinds.to_list()], np.int8)
