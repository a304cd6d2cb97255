"""Row order by column values: sorted as integers, and cached with the frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.query.facts import ColumnFacts, facts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tui.model.view import Sort

    Keys = NDArray[np.uint64]
    Rows = NDArray[np.uint32]

KEPT_FROM: Final = 20_000
"""Rows from which an order is worth keeping."""
PART: Final = 8
"""Where a filter leaves, or a find hits, less than this part of the rows, those alone are sorted."""
WORD: Final = 64
"""Bits of the numbers that are sorted: numpy sorts those several times as fast as it finds the order of others."""


def sorted_rows(frame: pl.DataFrame, sort: Sort, mask: pl.Series | None) -> pl.Series | None:
    """Rows of a frame in the order of some columns; equal ones as they come, unknown values last either way.

    Texts sort in alphabetical order without regard to case.

    Args:
        frame: The frame.
        sort: Its columns, the most significant first; True sorts largest first.
        mask: Which rows are wanted, a boolean for each; None: all.

    Returns:
        The row numbers (UInt32); None: all rows as they come.
    """
    if mask is None:
        return _whole(frame, sort) if sort else None
    if not sort:
        return rows_of(mask)
    if int(mask.sum()) * PART < frame.height and facts_of(frame).order(sort) is None:
        return _sorted(frame, sort, rows_of(mask))
    order = _whole(frame, sort)
    return order.filter(mask.gather(order))


def rows_of(mask: pl.Series) -> pl.Series:
    """The row numbers (UInt32) for which a mask is true; Polars is slow to tell them itself."""
    return pl.arange(len(mask), dtype=pl.UInt32, eager=True).filter(mask)


def places_of(frame: pl.DataFrame, mask: pl.Series, rows: pl.Series | None) -> pl.Series:
    """Where the rows for which a mask is true stand among those that are shown.

    Args:
        frame: The frame.
        mask: A boolean for each of its rows.
        rows: The shown rows, as `sorted_rows` gave them.

    Returns:
        Positions from 0 (UInt32), ascending.
    """
    if rows is None:
        return rows_of(mask)
    found = int(mask.sum())
    if found == frame.height:
        return pl.arange(len(rows), dtype=pl.UInt32, eager=True)
    # To look each row of an order up takes much longer than to sort the places of a few.
    places = facts_of(frame).places(rows) if found * PART < frame.height else None
    return rows_of(mask.gather(rows)) if places is None else places.filter(mask).sort()


def _whole(frame: pl.DataFrame, sort: Sort) -> pl.Series:
    """All rows in order."""
    facts = facts_of(frame)
    order = facts.order(sort)
    if order is None:
        order = _sorted(frame, sort, None)
        if frame.height >= KEPT_FROM:
            facts.keep_order(sort, order)
    return order


def _sorted(frame: pl.DataFrame, sort: Sort, rows: pl.Series | None) -> pl.Series:
    """Rows in order, those that are equal as they come.

    Keys and the place of a row are put together into one number: sorting those leaves equal keys as they were, and the
    places say which rows they were. What does not fit into one number is sorted by in turns, the last keys first.
    """
    facts = facts_of(frame)
    count = frame.height if rows is None else len(rows)
    chosen: Rows | None = None if rows is None else rows.to_numpy()
    taken = place_bits = count.bit_length()
    words = np.arange(count, dtype=np.uint64)
    for name, descending in reversed(sort):
        keys = _keys(facts[name], descending=descending)
        left, done = int(keys.max(initial=0)).bit_length(), 0
        while left:
            bits = min(left, WORD - taken)
            own = keys if chosen is None else keys[chosen]
            if done or bits < left:
                own = (own >> np.uint64(done)) & np.uint64(2**bits - 1)
            words |= own << np.uint64(taken)
            taken, left, done = taken + bits, left - bits, done + bits
            if taken == WORD:
                chosen = _by_words(words, place_bits, chosen)
                words, taken = np.arange(count, dtype=np.uint64), place_bits
    return pl.Series(_by_words(words, place_bits, chosen))


def _by_words(words: Keys, place_bits: int, rows: Rows | None) -> Rows:
    """Rows in the order of numbers whose last bits are the places of the rows."""
    words.sort()
    places = (words & np.uint64(2**place_bits - 1)).astype(np.uint32)
    return places if rows is None else rows[places]


def _keys(facts: ColumnFacts, *, descending: bool) -> Keys:
    """Numbers from 0 that sort as the column should; unknown values have the largest."""
    values = facts.values
    if values.null_count() == len(values):
        return np.zeros(len(values), np.uint64)
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
        return np.zeros(len(values), np.uint64)
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
