"""A table of rows within rows as the user has arranged it: siblings sorted, matches with what they lie in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.model.view import TableState
from tui.query.apply import Applied, apply

if TYPE_CHECKING:
    from tui.model.forest import Flags, Forest, Ints
    from tui.model.view import TableSpec


def tree_order(frame: pl.DataFrame, forest: Forest, spec: TableSpec, state: TableState) -> Ints:
    """All rows of a tree, each followed by those in it; rows that lie in the same one sorted as the user wants it."""
    order = apply(frame, spec, TableState(sort=state.sort)).rows
    rank = np.arange(frame.height)
    if order is not None:
        rank[order.to_numpy()] = np.arange(frame.height)
    return forest.in_order(rank)


def apply_tree(
    frame: pl.DataFrame, forest: Forest, order: Ints, unfolded: Flags, spec: TableSpec, applied: Applied
) -> Applied:
    """The rows that are shown of a tree, in the order shown.

    A filter keeps the rows that match and all that they lie in, unfolded; so does a search with what it found. The
    share of the weight is that of the matching rows with all that lies in them.

    Args:
        frame: The rows.
        forest: The row that each lies in.
        order: As `tree_order`.
        unfolded: The rows of which those in them are shown.
        spec: What the table is; its weight is what each row has without the rows in it.
        applied: What `tui.query.apply.apply` makes of filter and search for rows that lie in none, without an order.
    """
    everything = np.ones(frame.height, np.bool_)
    matching = everything
    if applied.rows is not None and len(applied.rows) < frame.height:
        matching = _flags(applied.rows.to_numpy(), frame.height)
    kept, opened = everything, unfolded
    if matching is not everything:
        kept = forest.around(matching)
        opened = opened | forest.around(_above(forest, matching))
    found = np.zeros(frame.height, np.bool_)
    if len(applied.matches):
        flat = np.arange(frame.height) if applied.rows is None else applied.rows.to_numpy()
        found = _flags(flat[applied.matches.to_numpy()], frame.height)
        opened = opened | forest.around(_above(forest, found))
    shown = kept & forest.visible(opened)
    rows = order[shown[order]]
    return replace(
        applied,
        rows=pl.Series(rows, dtype=pl.UInt32),
        shown=len(rows),
        weight_shown_pct=_share(frame, spec.weight, forest.below(matching)) if matching is not everything else None,
        matches=pl.Series(np.flatnonzero(found[rows]), dtype=pl.UInt32),
    )


def _flags(rows: Ints, height: int) -> Flags:
    flags = np.zeros(height, np.bool_)
    flags[rows] = True
    return flags


def _above(forest: Forest, flags: Flags) -> Flags:
    """The rows that flagged ones lie right in."""
    above = np.zeros(len(flags), np.bool_)
    parents = forest.parent[flags]
    above[parents[parents >= 0]] = True
    return above


def _share(frame: pl.DataFrame, weight: str, inside: Flags) -> float | None:
    """Share of the weight in the flagged rows."""
    values = frame[weight].fill_null(0).to_numpy()
    total = float(values.sum())
    return 100 * float(values[inside].sum()) / total if total else None
