"""Facts about the columns of a frame, computed once: extent, total, distinct values, order, relevance, shares.

Sums over sessions exclude sessions with replayed kernels, whose times are not those of a run.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.model.columns import ColumnKind, columns_by_priority
from tui.model.table_spec import UNINFORMATIVE_PRIORITY

if TYPE_CHECKING:
    from tui.model.columns import Column
    from tui.model.table_spec import Sort, TableSpec

CODED_FROM: Final = 20_000
"""Rows from which texts are searched and sorted by their distinct values, where most rows repeat one."""
REPEATED: Final = 4
"""The minimum average number of occurrences of a text for which that pays."""
MAX_CACHED_ORDERS: Final = 6
"""The most cached orders of a frame: four bytes per row each, plus positions of the one searched last."""


class ColumnFacts:
    """Facts of one column.

    Args:
        values: The column. Frames are immutable, so cached facts stay valid.
    """

    def __init__(self, values: pl.Series) -> None:
        self.values = values

    @cached_property
    def extent(self) -> tuple[float | None, float | None]:
        """The smallest and the largest number; None for other types and columns of nulls."""
        if not self.values.dtype.is_numeric():
            return None, None
        smallest, largest = self.values.min(), self.values.max()
        if isinstance(smallest, (int, float)) and isinstance(largest, (int, float)):
            return smallest, largest
        return None, None

    @cached_property
    def total(self) -> int | float | None:
        """The sum of all numbers; None for other types."""
        return column_sum(self.values) if self.values.dtype.is_numeric() else None

    @cached_property
    def distinct_count(self) -> int:
        """The number of distinct values; nulls count as one."""
        return self.values.n_unique()

    @cached_property
    def _distinct(self) -> pl.Series:
        return (self.values if self.coded is None else self.coded).unique().drop_nulls()

    def distinct_values(self, limit: int) -> pl.Series | None:
        """Return the distinct known values; None if there are more than ``limit``.

        Args:
            limit: The maximum number of values.
        """
        if self.values.dtype.is_integer() and len(self.values) > CODED_FROM:
            smallest, largest = self.extent
            # The first values of a long column usually show that there are too many.
            head = self.values.head(CODED_FROM)
            if smallest != largest and head.n_unique() > limit + 1:
                return None
        distinct = self._distinct
        if len(distinct) > limit:
            return None
        return distinct.cast(pl.String) if isinstance(distinct.dtype, (pl.Categorical, pl.Enum)) else distinct

    @cached_property
    def coded(self) -> pl.Series | None:
        """The texts as codes of the distinct ones; None if there are few rows or few repetitions."""
        values = self.values
        if isinstance(values.dtype, (pl.Categorical, pl.Enum)):
            return values
        if values.dtype != pl.String or len(values) < CODED_FROM:
            return None
        different = values.alias("text").to_frame().select(pl.col("text").approx_n_unique()).item()
        return values.cast(pl.Categorical) if different * REPEATED <= len(values) else None

    @cached_property
    def texts(self) -> tuple[pl.Series, pl.Series] | None:
        """The codes that occur, and their texts; None if the column is not coded."""
        if self.coded is None:
            return None
        distinct = self._distinct
        return distinct.to_physical(), distinct.cast(pl.String)

    @cached_property
    def longest_bytes(self) -> int:
        """The number of bytes of the longest text."""
        longest = self._distinct.cast(pl.String).str.len_bytes().max()
        return longest if isinstance(longest, int) else 0

    @cached_property
    def counts(self) -> pl.DataFrame:
        """The distinct texts (``value``) without null, and the number of rows of each (``rows``)."""
        values = self.values if self.coded is None else self.coded
        counted = values.alias("value").drop_nulls().value_counts(name="rows")
        return counted.with_columns(pl.col("value").cast(pl.String))


class FrameFacts:
    """Facts of the columns of a frame, and cached sort orders of its rows.

    Args:
        frame: The frame.
    """

    def __init__(self, frame: pl.DataFrame) -> None:
        self._columns = {column.name: ColumnFacts(column) for column in frame.get_columns()}
        self._orders: OrderedDict[Sort, pl.Series] = OrderedDict()
        self._places: tuple[pl.Series, pl.Series] | None = None
        """The order that places were last asked of, and those."""
        self._lock = threading.Lock()

    def __getitem__(self, column: str) -> ColumnFacts:
        return self._columns[column]

    def order(self, sort: Sort) -> pl.Series | None:
        """Return a cached order as row numbers, or None."""
        with self._lock:
            rows = self._orders.get(sort)
            if rows is not None:
                self._orders.move_to_end(sort)
            return rows

    def positions(self, rows: pl.Series) -> pl.Series | None:
        """Return the position of each row of the frame in a cached order, or None.

        Args:
            rows: The row numbers in that order: the result of `order`.
        """
        with self._lock:
            if all(cached is not rows for cached in self._orders.values()):
                return None
            if self._places is None or self._places[0] is not rows:
                positions = np.empty(len(rows), np.uint32)
                positions[rows.to_numpy()] = np.arange(len(rows), dtype=np.uint32)
                self._places = rows, pl.Series(positions)
            return self._places[1]

    def keep_order(self, sort: Sort, rows: pl.Series) -> None:
        """Cache an order; the least recently used one is dropped."""
        with self._lock:
            self._orders[sort] = rows
            while len(self._orders) > MAX_CACHED_ORDERS:
                self._orders.popitem(last=False)


_FACTS_BY_FRAME: Final[dict[int, tuple[weakref.ref[pl.DataFrame], FrameFacts]]] = {}


def frame_facts(frame: pl.DataFrame) -> FrameFacts:
    """Return the cached facts of a frame, which live as long as the frame."""
    number = id(frame)
    cached = _FACTS_BY_FRAME.get(number)
    if cached is not None and cached[0]() is frame:
        return cached[1]

    def forget(reference: weakref.ref[pl.DataFrame]) -> None:
        # The id may have been reused for another frame.
        if number in _FACTS_BY_FRAME and _FACTS_BY_FRAME[number][0] is reference:
            del _FACTS_BY_FRAME[number]

    facts = FrameFacts(frame)
    _FACTS_BY_FRAME[number] = (weakref.ref(frame, forget), facts)
    return facts


def magnitude(frame: pl.DataFrame, column: Column) -> float | None:
    """Return the largest absolute value of a column and the columns that it is compared with, which decides the unit.

    Args:
        frame: The rows.
        column: One of its columns.

    Returns:
        None if no value is known.
    """
    facts = frame_facts(frame)
    extents = (facts[name].extent for name in {column.name, *column.compared_with} if name in frame.columns)
    return max((abs(value) for extent in extents for value in extent if value is not None), default=None)


def column_sum(values: pl.Series) -> int | float | None:
    """Return the sum of the known numbers; None, not 0, if there are values and none is known."""
    if len(values) and values.null_count() == len(values):
        return None
    total = values.sum()
    return total if isinstance(total, (int, float)) else None


CONTEXT_COLUMNS: Final = frozenset({"session", "kind"})
"""Columns that distinguish rows if they differ, and are uninformative otherwise."""

SESSION_NAME_COLUMN: Final = "who"
"""The column with the name of a row's session, if a table has it."""
SESSION_PRIORITY: Final = 0
"""The priority of a session if there are several: values are meaningless without it."""


ROOFLINE_COLUMNS: Final = frozenset({"tflops_per_s", "tb_per_s", "flops_per_byte", "roof_pct", "bound"})
"""Columns that are unknown in many rows: not every op has a formula."""
SPARSE_PRIORITY: Final = 6
"""The highest priority of one that most rows lack: the bar of shares is more important."""


def informative_columns(spec: TableSpec, rows: pl.DataFrame) -> tuple[list[Column], list[Column]]:
    """Return the informative columns of a table, and those that are unknown in every row.

    Session and kind are omitted if they are the same in all rows, and columns that are informative only above 0 if no
    value is above 0.
    """
    shown, unknown_columns = [], []
    for column in spec.columns:
        if column.name != spec.pinned and rows[column.name].null_count() == rows.height:
            unknown_columns.append(column)
        elif _is_informative(column, frame_facts(rows)[column.name]):
            shown.append(column)
    return shown, unknown_columns


def _is_informative(column: Column, facts: ColumnFacts) -> bool:
    """Return whether a column with known values is informative."""
    if column.only_above_zero:
        return (facts.extent[1] or 0) > 0
    return column.name not in CONTEXT_COLUMNS or facts.distinct_count > 1


def prioritize(spec: TableSpec, rows: pl.DataFrame) -> tuple[Column, ...]:
    """Return the columns of a table that the rows have, with their priority for these rows.

    Uninformative columns come last, unless they are compared with informative ones. If there are several sessions and
    no other column names them, the session stays next to the names, as do columns that distinguish equal names.
    Roofline columns that most rows lack are less important than figures that all rows have.
    """
    present = replace(spec, columns=tuple(column for column in spec.columns if column.name in rows.columns))
    if rows.is_empty():
        return present.columns
    informative = {column.name for column in informative_columns(present, rows)[0]}
    groups = columns_by_priority(present.columns)
    shown_names = {
        column.name for group in groups for column in group if any(member.name in informative for member in group)
    }
    is_named = any(column.name == SESSION_NAME_COLUMN for column in present.columns)
    first = _between_namesakes(spec, rows) | (set() if is_named else {"session"})
    return tuple(
        replace(column, priority=UNINFORMATIVE_PRIORITY)
        if column.name not in shown_names
        else replace(column, priority=SESSION_PRIORITY)
        if column.name in first
        else replace(column, priority=max(column.priority, SPARSE_PRIORITY))
        if column.name in ROOFLINE_COLUMNS and 2 * rows[column.name].null_count() > rows.height
        else column
        for column in present.columns
    )


def _between_namesakes(spec: TableSpec, rows: pl.DataFrame) -> set[str]:
    """Return the columns of text that distinguish rows of the same name in a session, in a table of few rows."""
    name_columns = [name for name in (spec.pinned, "session") if name in rows.columns]
    texts = {column.name for column in spec.columns if column.kind is ColumnKind.TEXT}
    distinguishing = texts.intersection(spec.key).difference(name_columns)
    if (
        spec.pinned not in spec.key
        or not distinguishing
        or rows.height > FEW_ROWS
        or rows.select(name_columns).n_unique() == rows.height
    ):
        return set()
    texts_frame = rows.select(pl.col(list(distinguishing)).cast(pl.String))
    return {
        name
        for name in distinguishing
        if texts_frame[name].n_unique() > 1 and not (texts_frame[name].str.len_chars() > SHORT).any()
    }


FEW_ROWS: Final = 1_000
"""In larger tables names are not compared."""
SHORT: Final = 12
"""The most characters of a text that takes the room of a figure."""
SMALL_PCT: Final = 1.0
"""The smallest rows of a session are small as long as they hold at most this share of its weight together."""
SAMPLED: Final = 1 << 14
"""The size of the sample that estimates where small weights end."""
NEAR_BOUND: Final = 0.9
"""The part of the estimated bound below which weights are summed without sorting."""


def share_total(frame: pl.DataFrame, weight: str, excluded_sessions: Collection[int] = ()) -> int | float | None:
    """Return the sum that shares of a table refer to; None if there is none.

    Args:
        frame: The rows.
        weight: The column that is summed.
        excluded_sessions: Sessions that are excluded from sums, unless the frame has only one session.
    """
    if weight not in frame.columns:
        return None
    counted = _summable(frame, None, excluded_sessions)
    return (
        None
        if isinstance(counted, bool)
        else column_sum(frame[weight] if counted is None else frame[weight].filter(counted))
    )


def weight_pct(
    frame: pl.DataFrame, weight: str, mask: pl.Series | None, excluded_sessions: Collection[int] = ()
) -> float | None:
    """Return the share of the weight in some rows, of the sessions that may be summed; None if unknown.

    Args:
        frame: The rows.
        weight: The column that holds their weight.
        mask: Which of the rows; None for all.
        excluded_sessions: Sessions that are excluded from sums.
    """
    if weight not in frame.columns:
        return None
    counted = _summable(frame, mask, excluded_sessions)
    if isinstance(counted, bool):
        return None
    if counted is not None:
        mask = None if mask is None else mask.filter(counted)
        frame = frame.filter(counted)
    total = frame_facts(frame)[weight].total if counted is None else column_sum(frame[weight])
    shown = total if mask is None else column_sum(frame[weight].filter(mask))
    return 100.0 * shown / total if total and shown is not None else None


def share_base(
    frame: pl.DataFrame, weight: str, mask: pl.Series | None = None, excluded_sessions: Collection[int] = ()
) -> int | float | None:
    """Return the total weight that rows are shares of; None if they must not be summed.

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
    return column_sum(frame[weight] if mask is None else frame[weight].filter(mask))


def small_rows(frame: pl.DataFrame, weight: str, mask: pl.Series | None) -> pl.Series | None:
    """Return a mask of negligible rows: the smallest of each session, together at most `SMALL_PCT` of its weight.

    Of rows with equal weight all are small or none; a row of unknown weight is not small.

    Args:
        frame: The rows.
        weight: The column of their weight.
        mask: The rows to judge, whose weight is the total; None for all.

    Returns:
        One boolean a row, never null; None if the table has no such column.
    """
    if weight not in frame.columns or not frame.schema[weight].is_numeric():
        return None
    values = frame[weight] if mask is None else frame.select(pl.when(mask).then(pl.col(weight))).to_series()
    if "session" not in frame.columns or _is_one_session(frame["session"]):
        threshold = _significance_threshold(values)
        return (
            pl.Series(np.zeros(len(values), np.bool_)) if threshold is None else (values < threshold).fill_null(False)
        )
    rows = pl.DataFrame({"weight": values, "session": frame["session"]})
    groups = rows.group_by("session").agg("weight")
    thresholds = pl.Series("least", [_significance_threshold(weights) for weights in groups["weight"]], values.dtype)
    groups = groups.select("session", thresholds)
    rows = rows.join(groups, on="session", how="left", maintain_order="left", nulls_equal=True)
    return rows.select((pl.col("weight") < pl.col("least")).fill_null(False)).to_series()


def _is_one_session(sessions: pl.Series) -> bool:
    """Return whether all rows are of one session."""
    return not len(sessions) or (not sessions.null_count() and sessions.min() == sessions.max())


def _significance_threshold(weights: pl.Series) -> int | float | None:
    """Return the smallest weight above the `SMALL_PCT` that is negligible; None if there is none."""
    known_weights = weights.drop_nulls()
    total = column_sum(known_weights)
    if not len(known_weights) or total is None:
        return None
    # A sample estimates the bound of small weights; if it was too low, examine larger ones too.
    sample = np.sort(known_weights.gather_every(len(known_weights) // SAMPLED + 1).to_numpy())
    position = int(np.searchsorted(np.cumsum(sample), SMALL_PCT / 100 * sample.sum(), side="right"))
    bound: int | float = sample[min(position, len(sample) - 1)].item()
    bound += type(bound)(bound / 16)
    smallest = known_weights.filter(known_weights <= bound)
    while len(smallest) < len(known_weights) and (column_sum(smallest) or 0) * 100 <= SMALL_PCT * total:
        bound = 2 * bound if bound > 0 else float("inf")
        smallest = known_weights.filter(known_weights <= bound)
    # Weights far from the estimated bound are summed without sorting.
    near_bound = sample[int(NEAR_BOUND * position)].item()
    far_sum = column_sum(smallest.filter(smallest < near_bound)) or 0
    if far_sum * 100 <= SMALL_PCT * total:
        smallest = smallest.filter(smallest >= near_bound)
    else:
        far_sum = 0
    ascending = np.sort(smallest.to_numpy())
    enough = (far_sum + np.cumsum(ascending)) * 100 > SMALL_PCT * total
    if not enough.any():
        return None
    threshold: int | float = ascending[np.argmax(enough)].item()
    return threshold


def _summable(
    frame: pl.DataFrame, mask: pl.Series | None, excluded_sessions: Collection[int]
) -> pl.Series | bool | None:
    """Return a mask of the rows that may be summed: None for all; False if none may."""
    if not excluded_sessions or "session" not in frame.columns:
        return None
    shown = (frame["session"] if mask is None else frame["session"].filter(mask)).unique()
    if len(shown) and shown.is_in(list(excluded_sessions)).all():
        return False if len(shown) > 1 else frame["session"].is_in(shown.implode())
    return ~frame["session"].is_in(list(excluded_sessions))
