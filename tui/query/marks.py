"""What the marked rows of a table add up to."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from tui.model.view import TableSpec


@dataclass(frozen=True, slots=True)
class MarkedSummary:
    """Figures of the marked rows; of the table's weight, which is a duration or another quantity that adds up."""

    rows: int
    """Marked rows that the table holds."""

    known: int
    """Those of them whose weight is known: the figures are of these."""

    total: int | float | None
    """In the unit of the frame; None where no weight is known, or the table has none."""

    average: float | None
    share_pct: float | None
    """Of the weight of all rows of the table."""


def marked_summary(frame: pl.DataFrame, spec: TableSpec, marks: Collection[tuple[object, ...]]) -> MarkedSummary:
    """Count and add up the marked rows.

    Args:
        frame: The rows of the table, shown or not.
        spec: Says what identifies a row and what its weight is.
        marks: For each marked row the values of ``spec.key``.
    """
    keys = pl.DataFrame(list(marks), schema={name: frame.schema[name] for name in spec.key}, orient="row", strict=False)
    marked = frame.join(keys, on=list(spec.key), how="semi", nulls_equal=True)
    if spec.weight not in frame.columns:
        return MarkedSummary(marked.height, 0, None, None, None)
    weights = marked[spec.weight].drop_nulls()
    total, whole = weights.sum(), frame[spec.weight].sum()
    if not len(weights) or not isinstance(total, (int, float)) or not isinstance(whole, (int, float)):
        return MarkedSummary(marked.height, 0, None, None, None)
    share = 100.0 * total / whole if whole else None
    return MarkedSummary(marked.height, len(weights), total, total / len(weights), share)
