"""The order of rows by the values of columns: sorted by radix, and kept for as long as the frame is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.query.facts import ColumnFacts, facts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tui.model.view import Sort

    Keys = NDArray[np.unsignedinteger[Any]]
    Rows = NDArray[np.uint32]

KEPT_FROM: Final = 20_000
"""Rows from which an order is worth keeping."""
PART: Final = 8
"""Where a filter leaves less than this part of the rows, those alone are sorted."""
DIGIT: Final = 16
"""Bits that are sorted by at a time: numpy sorts numbers of so many by radix, stable, and lets other threads run."""


def in_order(frame: pl.DataFrame, sort: Sort, rows: Rows | None) -> Rows | None:
    """Rows of a frame in the order of some columns; equal ones as they come, unknown values last either way.

    Texts sort in alphabetical order without regard to case.

    Args:
        frame: The frame.
        sort: Its columns, the most significant first; True sorts largest first.
        rows: Row numbers in ascending order; None: all.

    Returns:
        The row numbers; None: all rows as they come.
    """
    if not sort:
        return rows
    if rows is not None and len(rows) * PART < frame.height and facts_of(frame).order(sort) is None:
        return _sorted(frame, sort, rows)
    order = _whole(frame, sort)
    if rows is None:
        return order
    wanted = np.zeros(frame.height, np.bool_)
    wanted[rows] = True
    return order[wanted[order]]


def _whole(frame: pl.DataFrame, sort: Sort) -> Rows:
    """All rows in order."""
    facts = facts_of(frame)
    order = facts.order(sort)
    if order is None:
        # What is sorted by a further column begins with the order by that one.
        order = _sorted(frame, sort[:1], _whole(frame, sort[1:]) if len(sort) > 1 else None)
        if frame.height >= KEPT_FROM:
            facts.keep_order(sort, order)
    return order


def _sorted(frame: pl.DataFrame, sort: Sort, rows: Rows | None) -> Rows:
    # Stable sorts from the least significant column to the most.
    facts = facts_of(frame)
    for name, descending in reversed(sort):
        rows = _by_digits(_keys(facts[name], descending=descending), rows)
    return np.arange(frame.height, dtype=np.uint32) if rows is None else rows


def _by_digits(keys: Keys, rows: Rows | None) -> Rows:
    """Rows in the order of their keys, equal ones as they were."""
    most = int(keys.max(initial=0))
    shift = 0
    while True:
        digits = ((keys >> keys.dtype.type(shift)) if shift else keys).astype(np.uint16)
        order = np.argsort(digits if rows is None else digits[rows], kind="stable")
        rows = order.astype(np.uint32) if rows is None else rows[order]
        shift += DIGIT
        if not most >> shift:
            return rows


def _keys(facts: ColumnFacts, *, descending: bool) -> Keys:
    """Numbers from 0 that sort as the column should; unknown values have the largest."""
    values = facts.values
    if values.null_count() == len(values):
        return np.zeros(len(values), np.uint16)
    if isinstance(values.dtype, (pl.Categorical, pl.Enum, pl.String)):
        return _whole_numbers(_ranks(facts), descending=descending)
    if values.dtype == pl.Boolean:
        return _whole_numbers(values.cast(pl.UInt8), descending=descending)
    if values.dtype.is_integer():
        return _whole_numbers(values, descending=descending)
    if values.dtype.is_float():
        return _whole_numbers(_as_integers(values), descending=descending)
    # Times and the like: by their places among the different ones.
    return _whole_numbers(values.rank("dense"), descending=descending)


def _whole_numbers(values: pl.Series, *, descending: bool) -> Keys:
    smallest, largest = values.min(), values.max()
    if smallest is None or largest is None:  # NaN alone
        return np.zeros(len(values), np.uint16)
    assert isinstance(smallest, int)
    assert isinstance(largest, int)
    span = largest - smallest
    unknown = values.is_null().to_numpy() if values.null_count() else None
    # The difference of two numbers of 64 bits may need all of them, and wraps to what it should be.
    known = values.fill_null(smallest).to_numpy()
    if not values.dtype.is_unsigned_integer():
        known = known.astype(np.int64, copy=False).view(np.uint64)
    known = known.astype(np.uint64, copy=False)
    base = np.uint64(largest % 2**64) if descending else np.uint64(smallest % 2**64)
    keys = base - known if descending else known - base
    if span + 1 < 2**DIGIT:
        keys = keys.astype(np.uint16)
    if unknown is None:
        return keys
    if span == 2**64 - 1:
        # No number is left for what is unknown: ranks leave one.
        keys = np.unique(keys, return_inverse=True)[1].astype(np.uint64)
        span = int(keys.max())
    keys[unknown] = span + 1
    return keys


def _as_integers(values: pl.Series) -> pl.Series:
    """Integers in the order of floats; NaN is unknown, and both zeros are one number."""
    unknown = values.is_null() | values.is_nan().fill_null(False)
    floats = values.cast(pl.Float64).fill_null(0.0).to_numpy() + 0.0
    bits = floats.view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    whole = pl.Series(ordered)
    return whole.zip_with(~unknown, pl.Series([None], dtype=pl.Int64)) if unknown.any() else whole


def _ranks(facts: ColumnFacts) -> pl.Series:
    """The places of texts in the alphabet; unknown where the text is."""
    values = facts.values
    found = facts.texts
    if found is None:
        return _places(values.cast(pl.String))
    coded = facts.coded
    assert coded is not None
    codes, texts = found[0].to_numpy(), found[1]
    place_by_code = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.uint32)
    place_by_code[codes] = _places(texts).to_numpy()
    return pl.Series(place_by_code).gather(coded.to_physical().cast(pl.UInt32))


def _places(texts: pl.Series) -> pl.Series:
    """The place of each text among the different ones: without regard to case, those alike but for it told apart."""
    by_alphabet = pl.DataFrame({"lower": texts.str.to_lowercase(), "name": texts}).select(
        pl.arg_sort_by("lower", "name")
    )
    order = by_alphabet.to_series()
    ordered = texts.gather(order)
    places = np.empty(len(texts), np.uint32)
    places[order.to_numpy()] = np.cumsum(ordered.ne_missing(ordered.shift(1)).to_numpy())
    return pl.Series(places).zip_with(texts.is_not_null(), pl.Series([None], dtype=pl.UInt32))
