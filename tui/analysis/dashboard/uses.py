"""GPU time by what it went into: kernels by their use of tensor cores, copies, sets, unified memory."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.durations import share

if TYPE_CHECKING:
    from tui.analysis.tensor_cores.efficiency import TensorCoreUse


class Use(StrEnum):
    """What GPU time goes into."""

    TENSOR_CORES = "Using tensor cores"
    OTHER_KERNELS = "All other kernels"
    UNKNOWN_KERNELS = "Kernels, tensor cores unknown"
    MEMCPY = "Copies"
    MEMSET = "Memsets"
    UNIFIED_MEMORY = "Unified memory"


_KINDS = {"memcpy": Use.MEMCPY, "memset": Use.MEMSET, "um": Use.UNIFIED_MEMORY}


def gpu_uses_of(rows: pl.DataFrame, use: TensorCoreUse) -> pl.DataFrame:
    """GPU time by use: use, total_ns, time_pct, in the order of `Use`; those without time are left out.

    Whole CUDA graphs count as kernels. The rows add up to the GPU time.

    Args:
        rows: `tui.analysis.kernels.kernels`.
        use: What its kernels use of tensor cores.
    """
    times = {
        Use.TENSOR_CORES: use.using_ns,
        Use.OTHER_KERNELS: use.kernel_ns - use.using_ns - use.unknown_ns,
        Use.UNKNOWN_KERNELS: use.unknown_ns,
    }
    kind = pl.col("kind").cast(pl.String)
    for name, member in _KINDS.items():
        times[member] = int(rows.filter(kind == name)["total_ns"].sum())
    found = pl.DataFrame(
        [(str(member), time) for member, time in times.items() if time],
        schema={"use": pl.String, "total_ns": pl.Int64},
        orient="row",
    )
    return found.with_columns(share(of=None))
