"""The rows of a table: a frame, the order its rows are shown in, and the few that become Python values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

PAGE: Final = 128
"""Rows made into Python values at a time: two tall screens, so that a page down mostly finds them made."""
PAGES_KEPT: Final = 16
LOOKED_FOR: Final = 4
"""Up to so many keys are looked for one by one."""

Key = tuple[object, ...]
Row = dict[str, object]


class TableRows:
    """A frame seen through an optional index of its rows; only the pages that are looked at become Python values.

    Args:
        frame: The data.
        order: Row numbers of the frame in the order shown, or None for all rows as they come.
    """

    def __init__(self, frame: pl.DataFrame, order: pl.Series | None = None) -> None:
        self.frame = frame
        self.order = order
        self._pages: dict[int, list[tuple[object, ...]]] = {}
        self._positions = {name: position for position, name in enumerate(frame.columns)}

    def __len__(self) -> int:
        return self.frame.height if self.order is None else len(self.order)

    def row(self, row: int) -> tuple[object, ...]:
        """The values of a shown row, in the order of the frame's columns."""
        page, offset = divmod(row, PAGE)
        rows = self._pages.get(page)
        if rows is None:
            if len(self._pages) >= PAGES_KEPT:
                self._pages.pop(next(iter(self._pages)))
            rows = self._pages[page] = self.slice(page * PAGE, PAGE).rows()
        return rows[offset]

    def value(self, row: int, column: str) -> object:
        """One value of a shown row."""
        return self.row(row)[self._positions[column]]

    def record(self, row: int) -> dict[str, object]:
        """A shown row by column name."""
        return dict(zip(self.frame.columns, self.row(row), strict=True))

    def slice(self, start: int, count: int) -> pl.DataFrame:
        """Some of the shown rows."""
        if self.order is None:
            return self.frame.slice(start, count)
        return self.frame[self.order.slice(start, count)]

    def shown(self) -> pl.DataFrame:
        """All shown rows."""
        return self.frame if self.order is None else self.frame[self.order]

    def source_row(self, row: int) -> int:
        """The row number in the frame of a shown row."""
        return row if self.order is None else int(self.order[row])

    def shown_row(self, source_row: int) -> int | None:
        """Where a row of the frame is shown, or None when it is left out."""
        if self.order is None:
            return source_row if 0 <= source_row < self.frame.height else None
        places = (self.order == source_row).arg_true()
        return int(places[0]) if len(places) else None

    def key(self, source_row: int, columns: Sequence[str]) -> Key:
        """What identifies a row of the frame."""
        return tuple(self.frame[column][source_row] for column in columns)

    def keys(self, source_rows: Iterable[int], columns: Sequence[str]) -> frozenset[Key]:
        """What identifies several rows of the frame."""
        wanted = [column for column in columns if column in self._positions]
        picked = pl.Series(list(source_rows), dtype=pl.UInt32)
        return frozenset(self.frame.select(wanted)[picked].rows()) if wanted else frozenset()

    def _find_key(self, key: Key, columns: Sequence[str]) -> int | None:
        """The first row with a key: numbers of rows, which stand last in keys, leave the fewest."""
        found: np.ndarray[Any, np.dtype[np.intp]] | None = None
        for column, value in reversed(list(zip(columns, key, strict=True))):
            values = self.frame[column]
            values = values if found is None else values.gather(pl.Series(found))
            try:
                same = (values.is_null() if value is None else values == value).fill_null(False).to_numpy()
            except (pl.exceptions.PolarsError, TypeError, OverflowError):
                # Keys that were kept from another input can hold values of another type: they match nothing here.
                return None
            found = np.flatnonzero(same) if found is None else found[same]
        return int(found[0]) if found is not None and len(found) else None

    def find_keys(self, keys: Collection[Key], columns: Sequence[str]) -> list[int]:
        """Row numbers in the frame of the rows with these keys (the first of equal ones); unknown keys are skipped."""
        known = [key for key in keys if len(key) == len(columns)]
        if not known or not columns or any(column not in self._positions for column in columns):
            return []
        if len(known) <= LOOKED_FOR:
            return sorted({row for key in known if (row := self._find_key(key, columns)) is not None})
        schema = {column: self.frame.schema[column] for column in columns}
        try:
            wanted = pl.DataFrame(known, schema=schema, orient="row")
        except (pl.exceptions.PolarsError, TypeError, OverflowError):
            # Keys that were kept from another input can hold values of another type: they match nothing here.
            half = len(known) // 2
            if not half:
                return []
            return sorted({*self.find_keys(known[:half], columns), *self.find_keys(known[half:], columns)})
        numbered = self.frame.select(columns).with_row_index("row number")
        found = numbered.join(wanted, on=list(columns), how="semi", nulls_equal=True)
        return found.unique(subset=list(columns), keep="first", maintain_order=True)["row number"].to_list()
