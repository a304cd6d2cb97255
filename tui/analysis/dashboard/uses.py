"""GPU time by what it went into: kernels by their use of tensor cores, copies, sets, unified memory."""

from __future__ import annotations

from enum import StrEnum

import polars as pl

from tui.analysis.durations import share, whole


class Use(StrEnum):
    """What GPU time goes into."""

    TENSOR_CORES = "Using tensor cores"
    OTHER_KERNELS = "All other kernels"
    UNKNOWN_KERNELS = "Kernels, tensor cores unknown"
    MEMCPY = "Copies"
    MEMSET = "Memsets"
    UNIFIED_MEMORY = "Unified memory"


_KINDS = {"memcpy": str(Use.MEMCPY), "memset": str(Use.MEMSET), "um": str(Use.UNIFIED_MEMORY)}


def gpu_uses_of(rows: pl.DataFrame, kernel_time: pl.DataFrame) -> pl.DataFrame:
    """GPU time by use: use, calls, total_ns, time_pct, in the order of `Use`; those without time are left out.

    Whole CUDA graphs count as kernels. The rows add up to the GPU time. ``calls`` is null where it is not known of all.

    Args:
        rows: `tui.analysis.kernels.kernels`.
        kernel_time: `tui.analysis.tensor_cores.efficiency.tensor_core_time`.
    """
    uses, kind = pl.col("uses_tensor_core"), pl.col("kind").cast(pl.String)
    told = pl.when(uses).then(pl.lit(str(Use.TENSOR_CORES))).otherwise(pl.lit(str(Use.OTHER_KERNELS)))
    of_kernels = kernel_time.select(
        pl.when(uses.is_null()).then(pl.lit(str(Use.UNKNOWN_KERNELS))).otherwise(told).alias("use"),
        pl.col("launches").alias("calls"),
        "total_ns",
    )
    others = rows.filter(kind.is_in(list(_KINDS))).select(kind.replace_strict(_KINDS).alias("use"), "calls", "total_ns")
    found = pl.concat([of_kernels, others]).group_by("use").agg(whole("calls"), pl.col("total_ns").sum())
    in_order = pl.DataFrame({"use": [str(use) for use in Use]})
    shown = in_order.join(found, on="use", how="left", maintain_order="left").filter(pl.col("total_ns") > 0)
    return shown.with_columns(share(of=None))
