"""The time of one GPU by what it did."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tui.analysis.gpu_time.interval_sets import EMPTY, IntervalSet, at_least, union_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl

    Ints = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class GpuTime:
    """The GPU activities of one device of a session whose start and duration are known, by start."""

    device: int | None
    rows: pl.DataFrame
    """Columns of `tui.analysis.expert.case.Case.timed`."""

    @cached_property
    def start(self) -> Ints:
        """When each began."""
        return self.rows["start_ns"].to_numpy()

    @cached_property
    def end(self) -> Ints:
        """When each ended."""
        return self.rows["end_ns"].to_numpy()

    @cached_property
    def is_kernel(self) -> Flags:
        """Which are kernels or whole CUDA graphs."""
        return self.rows["is_kernel"].to_numpy()

    @cached_property
    def is_communication(self) -> Flags:
        """Which are kernels of a communication library."""
        return self.rows["is_communication"].to_numpy()

    def of(self, which: Flags) -> IntervalSet:
        """When any of some of them was on."""
        return union_of(self.start[which], self.end[which])

    @cached_property
    def busy(self) -> IntervalSet:
        """Any work."""
        return union_of(self.start, self.end)

    @cached_property
    def compute(self) -> IntervalSet:
        """Kernels that do not communicate."""
        if not self.is_communication.any():
            return self.kernels
        return self.of(self.is_kernel & ~self.is_communication)

    @cached_property
    def kernels(self) -> IntervalSet:
        """Kernels of any sort."""
        return self.of(self.is_kernel)

    @cached_property
    def communication(self) -> IntervalSet:
        """Kernels of a communication library."""
        return self.of(self.is_communication) if self.is_communication.any() else EMPTY

    @cached_property
    def copies(self) -> IntervalSet:
        """Copies."""
        return self.of(self.rows["is_copy"].to_numpy())

    @cached_property
    def overlapping_kernels(self) -> IntervalSet:
        """When two kernels or more were on."""
        return at_least(self.start[self.is_kernel], self.end[self.is_kernel], 2)

    def copies_of(self, direction: str) -> IntervalSet:
        """Copies of one direction."""
        return self.of((self.rows["copy_kind"] == direction).fill_null(False).to_numpy())

    def idle(self, resolution_ns: int) -> IntervalSet:
        """Idle stretches between its first and last work; none as short as the clock's own step."""
        if len(self.busy.starts) < 2:
            return EMPTY
        starts, ends = self.busy.ends[:-1], self.busy.starts[1:]
        longer = ends - starts > resolution_ns
        return union_of(starts[longer], ends[longer])
