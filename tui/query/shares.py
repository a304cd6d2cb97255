"""Shares of a table's weight: how much the shown rows hold, and which rows are negligible.

Sessions that are excluded from sums (kernels replayed for metrics) are left out of sums over sessions.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import polars as pl

from tui.query.facts import facts_of, sum_of

SMALL_PCT: Final = 1.0
"""The smallest rows of a session are small as long as they hold at most this share of its weight together."""
SAMPLED: Final = 1 << 14
"""The size of the sample that estimates where small weights end."""
NEAR: Final = 0.9
"""Of the place in the sample where they end: what is smaller than the weight there is added up without being sorted."""


def total_of(frame: pl.DataFrame, weight: str, excluded_sessions: Collection[int] = ()) -> int | float | None:
    """The sum that shares of a table are taken of; None where there is none.

    Args:
        frame: The rows.
        weight: The column that is summed.
        excluded_sessions: Sessions that are excluded from sums: they are left out unless one of them is all there is.
    """
    if weight not in frame.columns:
        return None
    counted = _counted(frame, None, excluded_sessions)
    return (
        None
        if isinstance(counted, bool)
        else sum_of(frame[weight] if counted is None else frame[weight].filter(counted))
    )


def weight_pct(
    frame: pl.DataFrame, weight: str, mask: pl.Series | None, excluded_sessions: Collection[int] = ()
) -> float | None:
    """Share of the weight that some rows hold, of the sessions that may be added up; None where it is unknown.

    Args:
        frame: The rows.
        weight: The column that holds their weight.
        mask: Which of the rows; None for all.
        excluded_sessions: Sessions that are excluded from sums.
    """
    if weight not in frame.columns:
        return None
    counted = _counted(frame, mask, excluded_sessions)
    if isinstance(counted, bool):
        return None
    if counted is not None:
        mask = None if mask is None else mask.filter(counted)
        frame = frame.filter(counted)
    total = facts_of(frame)[weight].total if counted is None else sum_of(frame[weight])
    shown = total if mask is None else sum_of(frame[weight].filter(mask))
    return 100.0 * shown / total if total and shown is not None else None


def share_base(
    frame: pl.DataFrame, weight: str, mask: pl.Series | None = None, excluded_sessions: Collection[int] = ()
) -> int | float | None:
    """What each of some rows is a share of: the weight of them all; None where they must not be added up.

    Args:
        frame: The rows.
        weight: The column that holds their weight.
        mask: Which of the rows; None for all.
        excluded_sessions: Sessions that are excluded from sums.
    """
    if weight not in frame.columns:
        return None
    if excluded_sessions and "session" in frame.columns:
        sessions = (frame["session"] if mask is None else frame["session"].filter(mask)).unique()
        if len(sessions) > 1 and sessions.is_in(list(excluded_sessions)).any():
            return None
    return sum_of(frame[weight] if mask is None else frame[weight].filter(mask))


def small_rows(frame: pl.DataFrame, weight: str, mask: pl.Series | None) -> pl.Series | None:
    """Which rows are too small to matter: the smallest of each session, `SMALL_PCT` of its weight at most together.

    Rows of equal weight are small together or not at all; a row of unknown weight is not small.

    Args:
        frame: The rows.
        weight: The column that holds their weight.
        mask: The rows to judge, and to share out over; None for all.

    Returns:
        One boolean a row, never null; None where the table has no such column.
    """
    if weight not in frame.columns or not frame.schema[weight].is_numeric():
        return None
    values = frame[weight] if mask is None else frame.select(pl.when(mask).then(pl.col(weight))).to_series()
    if "session" not in frame.columns or _is_one(frame["session"]):
        least = _least_that_matters(values)
        return pl.Series(np.zeros(len(values), np.bool_)) if least is None else (values < least).fill_null(False)
    rows = pl.DataFrame({"weight": values, "session": frame["session"]})
    groups = rows.group_by("session").agg("weight")
    leasts = pl.Series("least", [_least_that_matters(weights) for weights in groups["weight"]], values.dtype)
    groups = groups.select("session", leasts)
    rows = rows.join(groups, on="session", how="left", maintain_order="left", nulls_equal=True)
    return rows.select((pl.col("weight") < pl.col("least")).fill_null(False)).to_series()


def _is_one(sessions: pl.Series) -> bool:
    """Whether all are the same session."""
    return not len(sessions) or (not sessions.null_count() and sessions.min() == sessions.max())


def _least_that_matters(weights: pl.Series) -> int | float | None:
    """The smallest weight that, with all smaller ones, is more than `SMALL_PCT` of all; None where there is none."""
    known = weights.drop_nulls()
    total = sum_of(known)
    if not len(known) or total is None:
        return None
    # A sample estimates the bound of small weights; where it was wrong, larger ones are examined as well.
    sample = np.sort(known.gather_every(len(known) // SAMPLED + 1).to_numpy())
    place = int(np.searchsorted(np.cumsum(sample), SMALL_PCT / 100 * sample.sum(), side="right"))
    bound: int | float = sample[min(place, len(sample) - 1)].item()
    bound += type(bound)(bound / 16)
    smallest = known.filter(known <= bound)
    while len(smallest) < len(known) and (sum_of(smallest) or 0) * 100 <= SMALL_PCT * total:
        bound = 2 * bound if bound > 0 else float("inf")
        smallest = known.filter(known <= bound)
    # Weights that are far from the bound by the sample are added up and not sorted, if it was right.
    least_near = sample[int(NEAR * min(place, len(sample) - 1))].item()
    far = sum_of(smallest.filter(smallest < least_near)) or 0
    if far * 100 <= SMALL_PCT * total:
        smallest = smallest.filter(smallest >= least_near)
    else:
        far = 0
    ascending = np.sort(smallest.to_numpy())
    enough = (far + np.cumsum(ascending)) * 100 > SMALL_PCT * total
    if not enough.any():
        return None
    least: int | float = ascending[np.argmax(enough)].item()
    return least


def _counted(
    frame: pl.DataFrame, mask: pl.Series | None, excluded_sessions: Collection[int]
) -> pl.Series | bool | None:
    """Which rows may be added up: None for all; False where the shown ones must not be added at all."""
    if not excluded_sessions or "session" not in frame.columns:
        return None
    shown = (frame["session"] if mask is None else frame["session"].filter(mask)).unique()
    if len(shown) and shown.is_in(list(excluded_sessions)).all():
        return False if len(shown) > 1 else frame["session"].is_in(shown.implode())
    return ~frame["session"].is_in(list(excluded_sessions))
