"""A table with the user's filter, sort order, find and limits applied; also tables of nested rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.model.table_spec import TableState
from tui.query.compile import Query, apply_global_filter, compile_query
from tui.query.facts import ColumnFacts, column_sum, frame_facts, share_base, small_rows, weight_pct
from tui.query.values import QueryError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tui.model.table_spec import Sort

    Keys = NDArray[np.uint64]
    Rows = NDArray[np.uint32]
    from tui.model.forest import Flags, Forest, Ints
    from tui.model.table_spec import TableSpec


MIN_CACHED_ROWS: Final = 20_000
"""The minimum number of rows for which an order is cached."""
MIN_PART_DIVISOR: Final = 8
"""If a filter keeps, or a search finds, less than 1/MIN_PART_DIVISOR of the rows, only those are sorted."""
KEY_BITS: Final = 64
"""Bits of the numbers that are sorted: numpy sorts those several times as fast as it finds the order of others."""


def sorted_rows(frame: pl.DataFrame, sort: Sort, mask: pl.Series | None) -> pl.Series | None:
    """Sort rows by some columns; ties keep their order, nulls are last either way.

    Texts sort in alphabetical order without regard to case.

    Args:
        frame: The frame.
        sort: Its columns, the most significant first; True sorts largest first.
        mask: A boolean for each row; None: all rows.

    Returns:
        The row numbers (UInt32); None: all rows in their order.
    """
    if mask is None:
        return _cached_order(frame, sort) if sort else None
    if not sort:
        return true_rows(mask)
    if int(mask.sum()) * MIN_PART_DIVISOR < frame.height and frame_facts(frame).order(sort) is None:
        return _sort_rows(frame, sort, true_rows(mask))
    order = _cached_order(frame, sort)
    return order.filter(mask.gather(order))


def true_rows(mask: pl.Series) -> pl.Series:
    """Return the row numbers (UInt32) for which a mask is true; slow in Polars itself."""
    return pl.arange(len(mask), dtype=pl.UInt32, eager=True).filter(mask)


def shown_positions(frame: pl.DataFrame, mask: pl.Series, rows: pl.Series | None) -> pl.Series:
    """Return the positions of the rows for which a mask is true among the shown rows.

    Args:
        frame: The frame.
        mask: A boolean for each of its rows.
        rows: The shown rows: the result of `sorted_rows`.

    Returns:
        Positions from 0 (UInt32), ascending.
    """
    if rows is None:
        return true_rows(mask)
    match_count = int(mask.sum())
    if match_count == frame.height:
        return pl.arange(len(rows), dtype=pl.UInt32, eager=True)
    # Looking up each row takes much longer than sorting a few positions.
    positions = frame_facts(frame).positions(rows) if match_count * MIN_PART_DIVISOR < frame.height else None
    return true_rows(mask.gather(rows)) if positions is None else positions.filter(mask).sort()


def _cached_order(frame: pl.DataFrame, sort: Sort) -> pl.Series:
    """Return all rows in order."""
    facts = frame_facts(frame)
    order = facts.order(sort)
    if order is None:
        order = _sort_rows(frame, sort, None)
        if frame.height >= MIN_CACHED_ROWS:
            facts.keep_order(sort, order)
    return order


def _sort_rows(frame: pl.DataFrame, sort: Sort, rows: pl.Series | None) -> pl.Series:
    """Return rows in order; ties keep their order.

    The keys and the position of each row are packed into one number, so that sorting is stable and the sorted numbers
    contain the positions. Keys that do not fit into one number are sorted by in turns, the last keys first.
    """
    facts = frame_facts(frame)
    count = frame.height if rows is None else len(rows)
    chosen: Rows | None = None if rows is None else rows.to_numpy()
    used_bits = position_bits = count.bit_length()
    packed = np.arange(count, dtype=np.uint64)
    for name, descending in reversed(sort):
        keys = _keys(facts[name], descending=descending)
        remaining_bits, packed_bits = int(keys.max(initial=0)).bit_length(), 0
        while remaining_bits:
            bits = min(remaining_bits, KEY_BITS - used_bits)
            row_keys = keys if chosen is None else keys[chosen]
            if packed_bits or bits < remaining_bits:
                row_keys = (row_keys >> np.uint64(packed_bits)) & np.uint64(2**bits - 1)
            packed |= row_keys << np.uint64(used_bits)
            used_bits, remaining_bits, packed_bits = used_bits + bits, remaining_bits - bits, packed_bits + bits
            if used_bits == KEY_BITS:
                chosen = _rows_by_keys(packed, position_bits, chosen)
                packed, used_bits = np.arange(count, dtype=np.uint64), position_bits
    return pl.Series(_rows_by_keys(packed, position_bits, chosen))


def _rows_by_keys(packed: Keys, position_bits: int, rows: Rows | None) -> Rows:
    """Return rows in the order of numbers whose last bits are the positions of the rows."""
    packed.sort()
    positions = (packed & np.uint64(2**position_bits - 1)).astype(np.uint32)
    return positions if rows is None else rows[positions]


def _keys(facts: ColumnFacts, *, descending: bool) -> Keys:
    """Return numbers from 0 that sort like the column; nulls have the largest."""
    values = facts.values
    if values.null_count() == len(values):
        return np.zeros(len(values), np.uint64)
    if isinstance(values.dtype, (pl.Categorical, pl.Enum, pl.String)):
        return _integer_keys(_ranks(facts), descending=descending)
    if values.dtype == pl.Boolean:
        return _integer_keys(values.cast(pl.UInt8), descending=descending)
    if values.dtype.is_integer():
        return _integer_keys(values, descending=descending)
    if values.dtype.is_float():
        return _integer_keys(_as_integers(values), descending=descending)
    # Types such as times: use their ranks.
    return _integer_keys(values.rank("dense"), descending=descending)


def _integer_keys(values: pl.Series, *, descending: bool) -> Keys:
    smallest, largest = values.min(), values.max()
    if smallest is None or largest is None:  # only NaN
        return np.zeros(len(values), np.uint64)
    assert isinstance(smallest, int)
    assert isinstance(largest, int)
    span = largest - smallest
    is_unknown = values.is_null().to_numpy() if values.null_count() else None
    # The difference of two 64-bit numbers may need all bits, and wraps to the right value.
    filled = values.fill_null(smallest).to_numpy()
    if not values.dtype.is_unsigned_integer():
        filled = filled.astype(np.int64, copy=False).view(np.uint64)
    filled = filled.astype(np.uint64, copy=False)
    base = np.uint64(largest % 2**64) if descending else np.uint64(smallest % 2**64)
    keys = base - filled if descending else filled - base
    if is_unknown is None:
        return keys
    if span == 2**64 - 1:
        # No number is free for nulls: use ranks.
        keys = np.unique(keys, return_inverse=True)[1].astype(np.uint64)
        span = int(keys.max())
    keys[is_unknown] = span + 1
    return keys


def _as_integers(values: pl.Series) -> pl.Series:
    """Return integers in the order of floats; NaN is null, both zeros are equal."""
    is_unknown = values.is_null() | values.is_nan().fill_null(False)
    floats = values.cast(pl.Float64).fill_null(0.0).to_numpy() + 0.0
    bits = floats.view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    integers = pl.Series(ordered)
    return integers.zip_with(~is_unknown, pl.Series([None], dtype=pl.Int64)) if is_unknown.any() else integers


def _ranks(facts: ColumnFacts) -> pl.Series:
    """Return the alphabetical positions of texts; null for null."""
    values = facts.values
    codes_and_texts = facts.texts
    if codes_and_texts is None:
        return _alphabetical_positions(values.cast(pl.String))
    coded = facts.coded
    assert coded is not None
    codes, texts = codes_and_texts[0].to_numpy(), codes_and_texts[1]
    rank_by_code = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.uint32)
    rank_by_code[codes] = _alphabetical_positions(texts).to_numpy()
    return pl.Series(rank_by_code).gather(coded.to_physical().cast(pl.UInt32))


def _alphabetical_positions(texts: pl.Series) -> pl.Series:
    """Return the position of each text among the distinct ones: case-insensitive, then by case."""
    by_alphabet = pl.DataFrame({"lower": texts.str.to_lowercase(), "name": texts}).select(
        pl.arg_sort_by("lower", "name")
    )
    order = by_alphabet.to_series()
    ordered = texts.gather(order)
    positions = np.empty(len(texts), np.uint32)
    positions[order.to_numpy()] = np.cumsum(ordered.ne_missing(ordered.shift(1)).to_numpy())
    return pl.Series(positions).zip_with(texts.is_not_null(), pl.Series([None], dtype=pl.UInt32))


def _no_rows() -> pl.Series:
    return pl.Series([], dtype=pl.UInt32)


@dataclass(frozen=True, slots=True)
class Applied:
    """The shown rows of a table, and the results of filter and search."""

    rows: pl.Series | None
    """Row numbers in the frame (UInt32), in the order shown; None: all rows, as the frame has them."""

    total: int
    """Rows of the frame."""

    shown: int
    """Rows that are shown."""

    weight_shown_pct: float | None = None
    """Share of the total of the table's weight that the shown rows hold; None if there is no weight or no total."""

    share_base: int | float | None = field(default=None, compare=False)
    """The weight of all rows, which shares are taken of; None if they must not be added up."""

    share_base_shown: int | float | None = field(default=None, compare=False)
    """The weight of the shown rows."""

    passed: int = 0
    """Rows that pass the filters, small ones among them, before all but the first are omitted."""

    small: int = 0
    """Rows that pass the filters and are omitted because they are small."""

    small_weight: int | float = 0
    """What those hold of the table's weight."""

    matches: pl.Series = field(default_factory=_no_rows)
    """Positions of search hits among the shown rows, from 0 (UInt32), ascending."""

    sort: Sort = ()
    """The current order: columns that the frame does not have are omitted."""

    reading: str = ""
    """How the filter was understood."""

    find_reading: str = ""
    """How the find was understood."""

    error: QueryError | None = None
    """Why the filter is not applied."""

    global_filter_reason: str = ""
    """Why the global filter does not apply to this table; empty if it does."""

    find_error: QueryError | None = None
    """Why nothing is found."""

    def take(self, frame: pl.DataFrame, start: int = 0, length: int | None = None) -> pl.DataFrame:
        """Return the shown rows of the frame from a position on, in the order shown."""
        return frame.slice(start, length) if self.rows is None else frame[self.rows.slice(start, length)]


def apply(
    frame: pl.DataFrame,
    spec: TableSpec,
    state: TableState,
    *,
    units: Mapping[str, str] | None = None,
    excluded_sessions: Collection[int] = (),
    global_filter: str = "",
) -> Applied:
    """Filter, sort and search the rows of a table.

    Args:
        frame: The rows of the table, in the default order.
        spec: The table.
        state: The user's filter, search and order. An invalid filter is not applied, and ``error`` is the reason.
        units: For columns by name, the unit that bare numbers of a query are in.
        excluded_sessions: Sessions that are excluded from sums over sessions.
        global_filter: The global filter, applied in addition to the table's own if it is valid here.

        Sorting keeps rows of equal value in the order of the frame, puts unknown values last in either direction, and
            texts in alphabetical order without regard to case.
    """
    query, error = _compiled_filter(state.filter, frame, spec, state, units, excluded_sessions)
    find, find_error = _compiled_filter(state.find, frame, spec, state, units, excluded_sessions)
    mask = query.mask(frame) if query else None
    global_mask, global_filter_reason = apply_global_filter(global_filter, frame, spec, units, excluded_sessions)
    if global_mask is not None:
        mask = global_mask if mask is None else mask & global_mask
    passed = frame.height if mask is None else int(mask.sum())
    small = small_rows(frame, spec.weight, mask) if state.hides_small else None
    if small is not None:
        mask = ~small if mask is None else mask & ~small
    sort = tuple((name, descending) for name, descending in state.sort or () if name in frame.columns)
    rows = sorted_rows(frame, sort, mask)
    if state.max_rows is not None and state.max_rows < (frame.height if rows is None else len(rows)):
        rows = (pl.arange(state.max_rows, dtype=pl.UInt32, eager=True) if rows is None else rows).head(state.max_rows)
        mask = _mask(rows, frame.height)
    return Applied(
        rows=rows,
        total=frame.height,
        shown=frame.height if rows is None else len(rows),
        weight_shown_pct=weight_pct(frame, spec.weight, mask, excluded_sessions),
        share_base=share_base(frame, spec.weight, None, excluded_sessions) if state.as_share else None,
        share_base_shown=share_base(frame, spec.weight, mask, excluded_sessions) if state.as_share else None,
        passed=passed,
        small=0 if small is None else int(small.sum()),
        small_weight=0 if small is None else column_sum(frame[spec.weight].filter(small)) or 0,
        matches=_matches(frame, find, rows),
        sort=sort if state.sort is not None else spec.sort,
        reading=query.reading if query else "",
        find_reading=find.reading if find else "",
        error=error,
        global_filter_reason=global_filter_reason,
        find_error=find_error,
    )


def _compiled_filter(
    text: str,
    frame: pl.DataFrame,
    spec: TableSpec,
    state: TableState,
    units: Mapping[str, str] | None,
    excluded_sessions: Collection[int],
) -> tuple[Query | None, QueryError | None]:
    if not text.strip():
        return None, None
    visible = [column.name for column in spec.columns if column.name not in state.hidden]
    try:
        query = compile_query(
            text,
            columns=spec.columns,
            frame=frame,
            units=units,
            weight=spec.weight,
            searched=visible,
            excluded_sessions=excluded_sessions,
        )
    except QueryError as error:
        return None, error
    return query, None


def _mask(rows: pl.Series, height: int) -> pl.Series:
    mask = np.zeros(height, dtype=bool)
    mask[rows.to_numpy()] = True
    return pl.Series(mask)


def _matches(frame: pl.DataFrame, find: Query | None, rows: pl.Series | None) -> pl.Series:
    return _no_rows() if find is None else shown_positions(frame, find.mask(frame), rows)


def tree_order(frame: pl.DataFrame, forest: Forest, spec: TableSpec, state: TableState) -> Ints:
    """Return all rows of a tree depth first; siblings are sorted as the user chose."""
    order = apply(frame, spec, TableState(sort=state.sort)).rows
    rank = np.arange(frame.height)
    if order is not None:
        rank[order.to_numpy()] = np.arange(frame.height)
    return forest.display_order(rank)


def apply_tree(
    frame: pl.DataFrame, forest: Forest, order: Ints, unfolded: Flags, spec: TableSpec, applied: Applied
) -> Applied:
    """Return the shown rows of a tree, in the order shown.

    A filter keeps the matching rows and their ancestors, unfolded; so does a search with the found rows. The share of
    the weight is that of the matching rows with their descendants.

    Args:
        frame: The rows.
        forest: The parents of the rows.
        order: The result of `tree_order`.
        unfolded: The rows whose children are shown.
        spec: The table; its weight is that of each row without its descendants.
        applied: The result of `tui.query.apply.apply` for the rows as a flat table, without an order.
    """
    all_rows = np.ones(frame.height, np.bool_)
    matching = all_rows
    if applied.rows is not None and len(applied.rows) < frame.height:
        matching = _flags(applied.rows.to_numpy(), frame.height)
    is_kept, is_open = all_rows, unfolded
    if matching is not all_rows:
        is_kept = forest.with_ancestors(matching)
        is_open = is_open | forest.with_ancestors(_parent_flags(forest, matching))
    is_found = np.zeros(frame.height, np.bool_)
    if len(applied.matches):
        flat = np.arange(frame.height) if applied.rows is None else applied.rows.to_numpy()
        is_found = _flags(flat[applied.matches.to_numpy()], frame.height)
        is_open = is_open | forest.with_ancestors(_parent_flags(forest, is_found))
    shown = is_kept & forest.visible(is_open)
    rows = order[shown[order]]
    return replace(
        applied,
        rows=pl.Series(rows, dtype=pl.UInt32),
        shown=len(rows),
        weight_shown_pct=_share(frame, spec.weight, forest.with_descendants(matching))
        if matching is not all_rows
        else None,
        matches=pl.Series(np.flatnonzero(is_found[rows]), dtype=pl.UInt32),
    )


def _flags(rows: Ints, height: int) -> Flags:
    flags = np.zeros(height, np.bool_)
    flags[rows] = True
    return flags


def _parent_flags(forest: Forest, flags: Flags) -> Flags:
    """Return the parents of flagged rows."""
    is_parent = np.zeros(len(flags), np.bool_)
    parents = forest.parent[flags]
    is_parent[parents[parents >= 0]] = True
    return is_parent


def _share(frame: pl.DataFrame, weight: str, inside: Flags) -> float | None:
    """Return the share of the weight in the flagged rows."""
    values = frame[weight].fill_null(0).to_numpy()
    total = float(values.sum())
    return 100 * float(values[inside].sum()) / total if total else None
