"""Launch configurations as rules weigh them: by their share of the GPU time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert.figures import real, total
from tui.analysis.gpu_time.communication import COMMUNICATION

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

SHOWN: Final = ("grid", "block", "registers", "calls", "total_ns", "occupancy_pct", "limiter", "waves")
"""What of a configuration stands among the rows behind a finding."""


def known(case: Case) -> pl.DataFrame:
    """Launch configurations whose occupancy is known, the most time first, with ``share_pct`` of the GPU time."""
    return with_share(case, case.configs.filter(pl.col("occupancy_pct").is_not_null(), pl.col("total_ns") > 0))


def kernel_time(case: Case) -> str:
    """What the times of `known` are parts of, in words: kernels that communicate are not among them."""
    talks = (case.kernels["op_type"] == COMMUNICATION).any()
    return "the time of kernels that compute" if talks else "the kernel time"


def with_share(case: Case, rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``share_pct``, of the GPU time."""
    return rows.with_columns((100 * pl.col("total_ns") / max(case.gpu_ns, 1)).alias("share_pct"))


def weighted(rows: pl.DataFrame, column: str) -> float:
    """The mean of a column over the time of kernels; 0 where there is none."""
    taken = total(rows["total_ns"])
    return real(rows.select((pl.col(column) * pl.col("total_ns")).sum()).item()) / taken if taken else 0.0


def filled_pct(case: Case) -> float:
    """SMs that the grids of kernels reach, by kernel time, as a share of all SMs."""
    return weighted(case.configs.drop_nulls("sm_efficiency_pct"), "sm_efficiency_pct")
