"""The tables of a comparison, for the view and for what is written of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tui.analysis.compare.findings import CHANGED_FINDINGS, changed_findings
from tui.analysis.compare.tables import (
    CHANGED_API,
    CHANGED_KERNELS,
    CHANGED_OP_TYPES,
    CHANGED_OPS,
    changed_api,
    changed_kernels,
    changed_op_types,
    changed_ops,
)

if TYPE_CHECKING:
    import polars as pl

    from tui.analysis.compare.sides import Sides
    from tui.model.view import TableSpec


@dataclass(frozen=True, slots=True)
class How:
    """How two sides are compared."""

    tolerant: bool = False
    """Kernels, ops and API calls that only one side has match without what versions change in their names."""
    gpu: str | None = None
    """The name of the GPU, as the user gives it."""


@dataclass(frozen=True, slots=True)
class Part:
    """One table."""

    spec: TableSpec
    rows: Callable[[Sides, How], pl.DataFrame]


PARTS: Final = (
    Part(CHANGED_KERNELS, lambda sides, how: changed_kernels(sides, tolerant=how.tolerant)),
    Part(CHANGED_OPS, lambda sides, how: changed_ops(sides, tolerant=how.tolerant)),
    Part(CHANGED_OP_TYPES, lambda sides, _: changed_op_types(sides)),
    Part(CHANGED_API, lambda sides, how: changed_api(sides, tolerant=how.tolerant)),
    Part(CHANGED_FINDINGS, lambda sides, how: changed_findings(sides, gpu=how.gpu)),
)
"""In the order that they are shown."""
