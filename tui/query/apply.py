"""A table as the user has arranged it: which rows of its frame are shown, and in which order.

The frame is never copied: what comes out is a list of row numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.query.carry import applied_here
from tui.query.compile import Query, compile_query
from tui.query.errors import QueryError
from tui.query.facts import sum_of
from tui.query.order import in_order, places_of
from tui.query.shares import shared_out, small_rows, weight_pct

if TYPE_CHECKING:
    from tui.model.view import Sort, TableSpec, TableState


def _no_rows() -> pl.Series:
    return pl.Series([], dtype=pl.UInt32)


@dataclass(frozen=True, slots=True)
class Applied:
    """What a table shows."""

    rows: pl.Series | None
    """Row numbers in the frame (UInt32), in the order shown; None: all rows, as the frame has them."""

    total: int
    """Rows of the frame."""

    shown: int
    """Rows that are shown."""

    weight_shown_pct: float | None = None
    """Share of the total of the table's weight that the shown rows hold; None where there is no weight or no total."""

    shared_out: int | float | None = field(default=None, compare=False)
    """The weight of all rows, which shares are taken of; None where they must not be added up."""

    shared_out_shown: int | float | None = field(default=None, compare=False)
    """The weight of the shown rows."""

    passed: int = 0
    """Rows that pass the filters, small ones among them, before all but the first are left out."""

    small: int = 0
    """Rows that pass the filters and are left out because they are small."""

    small_weight: int | float = 0
    """What those hold of the table's weight."""

    matches: pl.Series = field(default_factory=_no_rows)
    """Where the find's hits are among the shown rows: positions from 0 (UInt32), ascending."""

    sort: Sort = ()
    """The order in force: columns that the frame does not have are left out."""

    reading: str = ""
    """How the filter was understood."""

    find_reading: str = ""
    """How the find was understood."""

    error: QueryError | None = None
    """Why the filter is not applied."""

    carried_reason: str = ""
    """Why the filter that is carried from view to view does not apply to this table; empty where it does."""

    find_error: QueryError | None = None
    """Why nothing is found."""

    def take(self, frame: pl.DataFrame, start: int = 0, length: int | None = None) -> pl.DataFrame:
        """The shown rows of the frame from a position on, in the order shown."""
        return frame.slice(start, length) if self.rows is None else frame[self.rows.slice(start, length)]


def apply(
    frame: pl.DataFrame,
    spec: TableSpec,
    state: TableState,
    *,
    units: Mapping[str, str] | None = None,
    apart: Collection[int] = (),
    carried: str = "",
) -> Applied:
    """Filter and sort the rows of a table, and find in them.

    Args:
        frame: The rows of the table, in the order that the table comes in.
        spec: What the table is.
        state: The filter, the find and the order that the user chose. Where the filter cannot be understood, it is
            not applied and ``error`` says why.
        units: For columns by name, the unit that bare numbers of a query are in.
        apart: Sessions whose weight is added to that of no other.
        carried: A filter that is carried from view to view: applied besides the table's own where it can be understood.

    Sorting keeps rows of equal value in the order of the frame, puts unknown values last in either direction, and
    texts in alphabetical order without regard to case.
    """
    query, error = _understood(state.filter, frame, spec, state, units, apart)
    find, find_error = _understood(state.find, frame, spec, state, units, apart)
    mask = query.mask(frame) if query else None
    carried_mask, carried_reason = applied_here(carried, frame, spec, units, apart)
    if carried_mask is not None:
        mask = carried_mask if mask is None else mask & carried_mask
    passed = frame.height if mask is None else int(mask.sum())
    small = small_rows(frame, spec.weight, mask) if state.hides_small else None
    if small is not None:
        mask = ~small if mask is None else mask & ~small
    sort = tuple((name, descending) for name, descending in state.sort or () if name in frame.columns)
    rows = in_order(frame, sort, mask)
    if state.most_rows is not None and state.most_rows < (frame.height if rows is None else len(rows)):
        rows = (pl.arange(state.most_rows, dtype=pl.UInt32, eager=True) if rows is None else rows).head(state.most_rows)
        mask = _mask_of(rows, frame.height)
    return Applied(
        rows=rows,
        total=frame.height,
        shown=frame.height if rows is None else len(rows),
        weight_shown_pct=weight_pct(frame, spec.weight, mask, apart),
        shared_out=shared_out(frame, spec.weight, None, apart) if state.as_share else None,
        shared_out_shown=shared_out(frame, spec.weight, mask, apart) if state.as_share else None,
        passed=passed,
        small=0 if small is None else int(small.sum()),
        small_weight=0 if small is None else sum_of(frame[spec.weight].filter(small)) or 0,
        matches=_matches(frame, find, rows),
        sort=sort if state.sort is not None else spec.sort,
        reading=query.reading if query else "",
        find_reading=find.reading if find else "",
        error=error,
        carried_reason=carried_reason,
        find_error=find_error,
    )


def _understood(
    text: str,
    frame: pl.DataFrame,
    spec: TableSpec,
    state: TableState,
    units: Mapping[str, str] | None,
    apart: Collection[int],
) -> tuple[Query | None, QueryError | None]:
    if not text.strip():
        return None, None
    visible = [column.name for column in spec.columns if column.name not in state.hidden]
    try:
        query = compile_query(
            text, columns=spec.columns, frame=frame, units=units, weight=spec.weight, searched=visible, apart=apart
        )
    except QueryError as error:
        return None, error
    return query, None


def _mask_of(rows: pl.Series, height: int) -> pl.Series:
    mask = np.zeros(height, dtype=bool)
    mask[rows.to_numpy()] = True
    return pl.Series(mask)


def _matches(frame: pl.DataFrame, find: Query | None, rows: pl.Series | None) -> pl.Series:
    return _no_rows() if find is None else places_of(frame, find.mask(frame), rows)
