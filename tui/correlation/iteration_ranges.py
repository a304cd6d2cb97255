"""Which ranges mark the iterations of a training or inference loop."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import polars as pl

from tui.correlation.plausible_times import is_plausible_duration
from tui.correlation.server_steps import SERVER_STEP

_PREFERENCE: Final = (
    re.compile(r"^ProfilerStep##$"),
    re.compile(r"step|iter", re.IGNORECASE),
    re.compile(r"batch", re.IGNORECASE),
    re.compile(r"epoch", re.IGNORECASE),
)
"""Patterns of names, digits written as ``#``, by confidence."""

_NOT_A_STEP: Final = re.compile(r"nccl|optimizer|zero_grad|dataloader|scheduler|memcpy", re.IGNORECASE)
"""Ranges of parts of iterations, although their names may contain ``step`` (``Optimizer.step#SGD.step``)."""

_SERVER: Final = "server step"
"""The family of the steps of servers, in whose names requests and tokens are counted: they are numbered by place."""

_SERVER_RANK: Final = -1
"""They are the surest."""

_LEAST_COVERED: Final = 0.5
"""The ranges of a family cover at least this share of the time from the first to the last."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The ranges that mark iterations."""

    ranges: pl.DataFrame
    """The ranges given, with ``iteration`` filled for those that mark one."""
    source: str | None
    """The source of the iterations, for people; None if there are none."""


def mark_steps(ranges: pl.DataFrame, *, kind: str = "NVTX range") -> Steps:
    """Find the family of ranges that marks iterations, and number them.

    A family is the ranges of one thread whose names differ only in their numbers. It marks iterations if its
    ranges do not overlap, there are two or more (one is enough for PyTorch's own ``ProfilerStep#``), and its name says
    step, iteration, batch or epoch. Steps of an inference server are one family, whatever they do; where they are
    annotated they mark the iterations, a single one as well, and however long the server waits between them.
    The number of an iteration is the number in the name if it increases from each to the next; otherwise iterations
    count from 0.

    Args:
        ranges: Of one session, columns of the model.
        kind: The kind of range, for `Steps.source`.
    """
    none = Steps(ranges.with_columns(pl.lit(None, pl.Int32).alias("iteration")), None)
    if ranges.is_empty():
        return none
    numbered = ranges.with_row_index("row").filter(pl.col("start_ns").is_not_null(), is_plausible_duration())
    names = numbered["name"].unique().drop_nulls().cast(pl.String)
    families_of_names = names.str.replace_all(r"[0-9]+", "#")
    families_of_names = families_of_names.zip_with(~names.str.contains(SERVER_STEP), pl.Series([_SERVER]))
    ranks = {family: _rank(family) for family in families_of_names.unique()}
    rank = families_of_names.replace_strict(ranks, return_dtype=pl.Int64) if ranks else families_of_names.cast(pl.Int64)
    table = pl.DataFrame({"text": names, "family": families_of_names, "rank": rank}).drop_nulls("rank")
    rows = numbered.with_columns(pl.col("name").cast(pl.String).alias("text")).join(table, on="text").sort("start_ns")
    families = (
        rows.with_columns(end_ns=pl.col("start_ns") + pl.col("duration_ns"))
        .group_by("family", "rank", "pid", "tid", maintain_order=True)
        .agg(
            pl.len().alias("count"),
            (pl.col("start_ns") < pl.col("end_ns").shift(1)).any().alias("overlap"),
            pl.col("duration_ns").sum().alias("covered"),
            (pl.col("end_ns").max() - pl.col("start_ns").min()).alias("span"),
        )
        .filter(
            ~pl.col("overlap").fill_null(False),
            (pl.col("count") >= 2) | (pl.col("rank") <= 0),
            (pl.col("covered") >= _LEAST_COVERED * pl.col("span")) | (pl.col("rank") == _SERVER_RANK),
        )
        .sort("rank", "covered", descending=[False, True], maintain_order=True)
    )
    if families.is_empty():
        return none
    family = families.row(0, named=True)
    chosen = rows.filter(
        pl.col("family") == family["family"],
        pl.col("pid").eq_missing(pl.lit(family["pid"], pl.Int64)),
        pl.col("tid").eq_missing(pl.lit(family["tid"], pl.Int64)),
    )
    marks = pl.DataFrame({"row": chosen["row"], "iteration": _numbers(chosen["text"], family["family"])})
    marked = (
        ranges.drop("iteration")
        .with_row_index("row")
        .join(marks, on="row", how="left", maintain_order="left")
        .select(ranges.columns)
    )
    name = family["family"].rstrip("# ") or family["family"]
    if family["rank"] == _SERVER_RANK:
        return Steps(marked, "the server's annotations of its steps")
    return Steps(marked, "PyTorch's ProfilerStep" if family["rank"] == 0 else f"{kind} {name}")


def _rank(family: str) -> int | None:
    if family == _SERVER:
        return _SERVER_RANK
    if _NOT_A_STEP.search(family):
        return None
    return next((rank for rank, pattern in enumerate(_PREFERENCE) if pattern.search(family)), None)


def _numbers(names: pl.Series, family: str) -> pl.Series:
    """The first number in the ordered names that increases with each; otherwise their positions."""
    parts = names.str.extract_all(r"[0-9]+")
    places = 0 if family == _SERVER else min(parts.list.len().to_list(), default=0)
    for place in range(places):
        numbers = parts.list.get(place).cast(pl.Int32, strict=False)
        if numbers.null_count() == 0 and (numbers.diff().drop_nulls() > 0).all():
            return numbers
    return pl.Series(range(len(names)), dtype=pl.Int32)
