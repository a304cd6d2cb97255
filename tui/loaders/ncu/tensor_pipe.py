"""Whether launches used tensor cores, by what Nsight Compute counted in the tensor pipe.

The pipe runs more than products of matrices: packed half precision (``HFMA2``), which compilers also take to load
constants. Measured on an H200 (Nsight Compute 2025.3, a training step of PyTorch): many kernels without such products
count instructions as ``pipe_tensor_op_hmma``, of 2 to 3 cycles each, and some count cycles as of matrix instructions,
at most 38 % of the pipe's. Kernels with products count all of the pipe's cycles so, 6 and more an instruction.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import polars as pl

_KINDS: Final = MappingProxyType(
    {
        "certain": r"__ops_path_tensor|pipe_tensor_op_(?:b|d|g|i|q)mma",
        "packed": r"pipe_tensor_op_hmma_type_hfma2",
        "matrix_cycles": r"pipe_tensor_(?:op_hmma_)?type_\w*mma\w*_cycles_active",
        "instructions": r"inst_executed_pipe_tensor(?:_op_hmma)?\.",
        "cycles": r"pipe_tensor(?:_op_hmma)?_cycles_active",
    }
)
"""What a metric tells, by its name, the first that fits: work of tensor cores alone; packed half precision; cycles of
matrix instructions; what counts packed half precision too, instructions and cycles."""

_MOST: Final = 0.5
"""Of the pipe's cycles, those of matrix instructions: more than other work counts, fewer than products do."""
_SEEN_PCT: Final = 0.1
"""Of shares of the peak, which have two digits, less than this makes no ratio."""
_BUSY_PCT: Final = 5.0
"""Of the peak: what nothing but products was seen to reach."""
_CYCLES: Final = 4
"""Of an instruction: more than packed half precision takes, fewer than products do."""


def tensor_cores(rows: pl.DataFrame, tool: str) -> pl.DataFrame:
    """Whether launches used tensor cores: id, uses_tensor_core (null: the metrics do not tell), tensor_core_reason.

    Args:
        rows: Metrics of launches in long form: id, metric, value_number. A launch without metrics of the tensor pipe
            has no row in the answer.
        tool: Goes before the metric in the reason.
    """
    kind = pl.coalesce(
        pl.when(pl.col("metric").str.contains(pattern)).then(pl.lit(kind)) for kind, pattern in _KINDS.items()
    )
    # A minimum is that of an SM without a block of the launch.
    told = pl.col("value_number").is_not_null() & ~pl.col("metric").str.contains(r"\.min\b")
    figures = rows.filter(told).with_columns(
        kind.alias("kind"), pl.col("metric").str.extract(r"(\..*)$").fill_null("").alias("roll_up")
    )
    alike = figures.filter(pl.col("kind").is_not_null()).group_by("id", "roll_up", maintain_order=True)
    values = alike.agg(
        *(pl.col("value_number").filter(pl.col("kind") == kind).max().alias(kind) for kind in _KINDS),
        *(pl.col("metric").filter(pl.col("kind") == kind).first().alias(f"{kind}_metric") for kind in _KINDS),
    )
    verdicts = values.select("id", *_verdict()).drop_nulls("rank")
    best = verdicts.filter(pl.col("rank") == pl.col("rank").min().over("id"))
    # One roll-up may be too small to tell what another tells; where none says yes, all must say no.
    uses = pl.col("uses")
    found = pl.when(uses.any()).then(pl.lit(True)).when(uses.is_null().any()).then(None).otherwise(pl.lit(False))
    said = pl.when(found.is_not_null()).then(pl.lit(f"{tool}: ") + pl.col("by").filter(uses.eq_missing(found)).first())
    return best.group_by("id", maintain_order=True).agg(
        found.alias("uses_tensor_core"), said.alias("tensor_core_reason")
    )


def _verdict() -> list[pl.Expr]:
    """Of the figures of one roll-up: uses (null: they do not tell), rank (1: the best evidence), by (the metric)."""
    certain, packed, matrix, instructions, cycles = (pl.col(kind) for kind in _KINDS)
    is_share = pl.col("roll_up").str.contains("pct")
    of_all = pl.max_horizontal(instructions, cycles)
    busy = is_share & (pl.max_horizontal(matrix, of_all) > _BUSY_PCT)
    most = (matrix >= _MOST * cycles) & (~is_share | (matrix >= _SEEN_PCT))
    metric_of_all = pl.coalesce("instructions_metric", "cycles_metric")
    evidence = (
        (certain > 0, pl.lit(True), pl.col("certain_metric"), 1),
        (instructions.is_not_null() & packed.is_not_null(), instructions > packed, pl.col("instructions_metric"), 2),
        # Double precision is not among the kinds that this metric adds up.
        ((matrix == 0) & ~(busy & certain.is_null()), pl.lit(False), pl.col("matrix_cycles_metric"), 3),
        (matrix > 0, _yes(most | (cycles.is_null() & busy)), pl.col("matrix_cycles_metric"), 3),
        (of_all == 0, pl.lit(False), metric_of_all, 4),
        (of_all > 0, _yes(busy | (~is_share & (cycles >= _CYCLES * instructions))), metric_of_all, 4),
    )
    # The first that applies, also where it cannot tell: weaker evidence must not decide what stronger leaves open.
    uses = rank = by = pl.lit(None)
    for applies, verdict, metric, place in reversed(evidence):
        chosen = pl.when(applies.fill_null(False))
        uses = chosen.then(verdict).otherwise(uses)
        rank = chosen.then(pl.lit(place)).otherwise(rank)
        by = chosen.then(metric).otherwise(by)
    return [uses.cast(pl.Boolean).alias("uses"), rank.alias("rank"), by.alias("by")]


def _yes(condition: pl.Expr) -> pl.Expr:
    """True where the condition is met, else null."""
    return pl.when(condition).then(pl.lit(True))
