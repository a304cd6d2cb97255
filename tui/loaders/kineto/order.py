"""Events put so that one that lies within another follows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.loaders.chrome.times import NULL

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]


def outer_first(rows: pl.DataFrame) -> Ints | None:
    """The rows by start, of those that begin together the longer first, of equal ones that whose id came first.

    Args:
        rows: With ``start_ns`` and ``duration_ns``, none of them null, and ``external_id``.

    Returns:
        The places of the rows; None where they are in order as they stand.
    """
    start = rows["start_ns"].to_numpy()
    # Profilers write nearly in order: this sort sees that.
    order = np.argsort(start, kind="stable")
    moments = start[order]
    together = moments[1:] == moments[:-1]
    if together.any():
        tied = np.append(together, False)
        tied[1:] |= together
        at = order[tied]
        duration = rows["duration_ns"].to_numpy()[at]
        ids = rows["external_id"].gather(pl.Series(at)).fill_null(NULL).to_numpy()
        order[tied] = at[np.lexsort((ids, -duration, moments[tied]))]
    return None if (order[1:] > order[:-1]).all() else order


def in_order(columns: list[pl.Series], order: Ints | None) -> pl.DataFrame:
    """The columns in another order, each in one piece; they are taken out of the list one by one.

    So no more than one column is there twice, where nobody else holds them. One of them has values at least.
    """
    places = None if order is None else pl.Series(order.astype(np.uint32))
    names = [column.name for column in columns]
    columns.reverse()
    made: list[pl.Series] = []
    empty: list[pl.Expr] = []
    while columns:
        column = columns.pop()
        if len(column) and column.null_count() == len(column):  # stays one value for all rows
            empty.append(pl.lit(None, column.dtype).alias(column.name))
        else:
            made.append(column.rechunk() if places is None else column.gather(places))
    return pl.DataFrame(made).with_columns(empty).select(names)
