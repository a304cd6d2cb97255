"""The tree of Group Ops: groups within groups down to single ops, with what each part of it spent in all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.durations import total_of_parts
from tui.model.columns import COLUMNS, columns
from tui.model.forest import NONE, Forest, forest_of
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

SEPARATOR: Final = "\x1f"
"""Between the groups of a place: names of ops can hold slashes."""

LEVELS_MOST: Final = 100
"""Groups that lie deeper are told in one row: programs of people lie a few dozen deep."""

SUMMED: Final = (
    *("calls", "launches", "untimed_launches", "gpu_ns", "cpu_own_ns", "cpu_overhead_ns", "gpu_idle_ns"),
    *("eligible_ops", "tc_ops"),
)
"""What a group has of all that lies in it."""

LEAVES: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "place": pl.String,
        "node": pl.String,
        **dict.fromkeys(SUMMED, pl.Int64),
        "op": pl.String,
        "op_type": pl.String,
        "op_source": pl.String,
    }
)
"""Ops where they ran: the groups around each, outermost first, with `SEPARATOR` between; empty: in none."""

OP_FOREST: Final = TableSpec(
    "op_groups",
    "Groups and ops",
    (
        *columns("node", "gpu_ns", "time_pct", "calls", "cpu_own_ns", "cpu_overhead_ns", "launches", "gpu_idle_ns"),
        replace(COLUMNS["gpu_self_ns"], priority=6, help="GPU time of the row itself, without what lies in it."),
        *columns("eligible_ops", "tc_ops", "level", "what", "op_type", "op_source"),
        *columns("untimed_launches", "session", "path"),
    ),
    key=("session", "path", "what"),
    sort=(("gpu_ns", True),),
    weight="gpu_self_ns",
    pinned="node",
    pinned_least=40,
)


def op_forest(profile: Profile, leaves: pl.DataFrame) -> pl.DataFrame:
    """Ops with the groups that they lie in: one row a node, each followed by what lies in it, the largest first.

    Columns: session, node (its name), path (names from the outermost on, ``/`` between), what (group or op), level
    (1: all of a session), parent (the row that it lies in, -1: none), `SUMMED` (of all that lies in it), time_pct
    (its share of the session's GPU time), gpu_self_ns (what no row below it has), op, op_type and op_source (of ops).

    Args:
        profile: Where the sessions are from.
        leaves: As `LEAVES`; rows of one place and node are added up.
    """
    own = _added_up(leaves)
    groups = _groups(own, several=profile["sessions"].height > 1)
    # An op that others ran in is a group with work of its own.
    also = own.join(groups.filter(pl.col("key") != ""), on=["session", "key"], how="semi")
    groups = groups.join(
        also.select("session", "key", *SUMMED, "op", "op_type", "op_source"), on=["session", "key"], how="left",
        maintain_order="left",
    )  # fmt: skip
    own = own.join(also, on=["session", "key"], how="anti", maintain_order="left")
    rows = pl.concat([groups, own], how="diagonal_relaxed").with_columns(pl.col("level").cast(pl.Int64))
    if rows.is_empty():
        return _empty()
    rows = rows.with_row_index("row")
    around = (
        rows.filter(pl.col("what") == "group")
        .select("session", pl.col("key").alias("place"), pl.col("row").cast(pl.Int64).alias("parent"))
    )  # fmt: skip
    rows = rows.join(around, on=["session", "place"], how="left", maintain_order="left", nulls_equal=True)
    forest = forest_of(rows["parent"].fill_null(NONE).to_numpy().astype(np.int64))
    # A group without work of its own has none, if the time of what lies in it is known.
    not_told = rows.select(pl.col("gpu_ns").is_null() & (pl.col("launches").fill_null(0) > 0)).to_series()
    self_ns = rows["gpu_ns"].fill_null(0).to_numpy().astype(np.int64)
    sums = [_sum(forest, rows[name], not_told if name == "gpu_ns" else None) for name in SUMMED]
    rows = rows.with_columns(*sums).with_columns(
        pl.when(pl.col("gpu_ns").is_not_null() & ~pl.lit(not_told))
        .then(pl.Series("gpu_self_ns", self_ns))
        .alias("gpu_self_ns"),
    )
    rank = rows.select(
        pl.struct(
            pl.col("gpu_ns").fill_null(0).neg(), pl.col("cpu_own_ns").fill_null(0).neg(), "session", "node", "what"
        )
        .rank("ordinal")
        .cast(pl.Int64)
    ).to_series()
    order = forest.in_order(rank.to_numpy())
    moved = np.empty(len(order), np.int64)
    moved[order] = np.arange(len(order))
    above = rows["parent"].fill_null(NONE).to_numpy().astype(np.int64)
    parent = np.where(above == NONE, NONE, moved[above])
    whole = pl.col("gpu_self_ns").sum().over("session")
    return (
        rows.with_columns(pl.Series("parent", parent))
        .with_columns(pl.when(whole > 0).then(100 * pl.col("gpu_ns") / whole).alias("time_pct"))
        .select("session", "node", "path", "what", "level", "parent", *SUMMED, "time_pct", "gpu_self_ns",
                "op", "op_type", "op_source")
        [order]
    )  # fmt: skip


def _empty() -> pl.DataFrame:
    return pl.DataFrame(
        schema={
            "session": pl.UInt32, "node": pl.String, "path": pl.String, "what": pl.String, "level": pl.Int64,
            "parent": pl.Int64, **dict.fromkeys(SUMMED, pl.Int64), "time_pct": pl.Float64, "gpu_self_ns": pl.Int64,
            "op": pl.String, "op_type": pl.String, "op_source": pl.String,
        }
    )  # fmt: skip


def _added_up(leaves: pl.DataFrame) -> pl.DataFrame:
    """The ops by session, place and name, with their level and path."""
    sums = (total_of_parts(name).alias(name) for name in SUMMED)
    parts = pl.col("place").str.split(SEPARATOR)
    too_deep = parts.list.len() > LEVELS_MOST
    cut = pl.concat_list(parts.list.head(LEVELS_MOST - 1), parts.list.slice(LEVELS_MOST - 1).list.join("/")).list.join(
        SEPARATOR
    )
    place = pl.when(too_deep).then(cut).otherwise("place")
    depth = (
        pl.when(pl.col("place") == "").then(0).otherwise(pl.col("place").str.count_matches(SEPARATOR, literal=True) + 1)
    )
    return (
        leaves.with_columns(place.alias("place"))
        .group_by("session", "place", "node", maintain_order=True)
        .agg(*sums, pl.col("op", "op_type", "op_source").first())
        .with_columns(
            pl.lit("op").alias("what"),
            pl.concat_str(
                pl.when(pl.col("place") != "").then("place"), "node", separator=SEPARATOR, ignore_nulls=True
            ).alias("key"),
            (depth + 2).alias("level"),
            pl.concat_str(pl.when(pl.col("place") != "").then("place"), "node", separator="/", ignore_nulls=True)
            .str.replace_all(SEPARATOR, "/", literal=True)
            .alias("path"),
        )
    )


def _groups(own: pl.DataFrame, *, several: bool) -> pl.DataFrame:
    """All places of ops and the places around those, with the place that each lies in; all of a session around them.

    ``place`` is where a group lies and ``key`` the place that it is; null for all of a session, whose place is "".
    """
    places = own.select("session", "place").unique(maintain_order=True)
    roots = places.select("session").unique(maintain_order=True).with_columns(
        pl.lit(None, pl.String).alias("place"), pl.lit("").alias("key"), pl.lit("").alias("path"),
        (pl.format("all of session {}", "session") if several else pl.lit("all")).alias("node"),
        pl.lit(1).alias("level"),
    )  # fmt: skip
    parts = pl.col("place").str.split(SEPARATOR)
    within = (
        places.filter(pl.col("place") != "")
        .with_columns(pl.int_ranges(1, parts.list.len() + 1).alias("depth"))
        .explode("depth")
        .with_columns(parts.list.head("depth").alias("names"))
        .select(
            "session",
            pl.col("names").list.head(pl.col("depth") - 1).list.join(SEPARATOR).alias("place"),
            pl.col("names").list.join(SEPARATOR).alias("key"),
            pl.col("names").list.join("/").alias("path"),
            pl.col("names").list.last().alias("node"),
            (pl.col("depth") + 1).alias("level"),
        )
        .unique(["session", "key"], maintain_order=True)
    )
    return pl.concat([roots, within], how="vertical_relaxed").with_columns(pl.lit("group").alias("what"))


def _sum(forest: Forest, values: pl.Series, not_told: pl.Series | None = None) -> pl.Series:
    """Of each row and all below it; null where nothing of that is known, or no more than 0 beside what is not told.

    Args:
        forest: The rows.
        values: What is summed; null also of a row that has none of its own.
        not_told: Where a row has some, and it is not known how much.
    """
    sums = forest.sums(values.fill_null(0).to_numpy().astype(np.int64))
    total = pl.Series(values.name, sums)
    known = forest.sums(values.is_not_null().to_numpy().astype(np.int64)) > 0
    if not_told is not None:
        known &= (sums != 0) | (forest.sums(not_told.to_numpy().astype(np.int64)) == 0)
    return pl.select(pl.when(pl.lit(pl.Series(known))).then(pl.lit(total)).alias(values.name)).to_series()
