"""The texts of a table's cells: values with suitable units, and the widths of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import polars as pl

from tui.fmt import PERCENT, column_unit, format_value, heading, metric, signed
from tui.labels import MAX_COMPARED_CHARACTERS, MAX_COMPARED_NAMES, Cutter, compact_shapes
from tui.model.columns import Column, ColumnKind
from tui.model.names import short_name
from tui.model.table_spec import TableState
from tui.query.facts import CODED_FROM, ColumnFacts, frame_facts, magnitude, prioritize
from tui.text import plain
from tui.text_width import cell_width

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tui.model.table_spec import TableSpec

MAX_MEASURED_CELLS: Final = 240
"""Longer texts do not widen a column; their details show them whole."""
MAX_SMALL_TIME_CELLS: Final = 7
"""The width of ``<0.0001``, the longest text of a value that is small for its column."""
MAX_MEASURE_CELLS: Final = 16
"""The width of a large number with the name of its unit."""
MAX_SIZE_CELLS: Final = 11
"""The width of ``1,023.9 KiB``, the longest text of a size."""
MAX_FRACTION_CELLS: Final = {ColumnKind.PERCENT: 6, ColumnKind.RATIO: MAX_SMALL_TIME_CELLS}
"""The width of shares and ratios that are close to none or all: ``<0.0001``, ``>99.99``."""
MAX_NUMBER_CELLS: Final = 10
"""The width of a fraction: ``0.00012345``."""
MAX_MEASURED_NUMBERS: Final = 2_048
"""If a column has more distinct numbers, its width is that of the longest possible number."""
MAX_MEASURED_SIZES: Final = 256
MAX_MEASURED_NAMES: Final = 2_048
"""If a column has more distinct names, the longest whole name decides its width, although it may be shown shortened."""
MAX_CACHED_TEXTS: Final = 4_096
MAX_CHARACTERS: Final = MAX_COMPARED_CHARACTERS
"""Texts are cut here before they are measured and shortened: names of megabytes must not slow every paint."""

UNIT_COLUMN: Final = "unit"
"""The column with the unit of the measures of a row."""

_TEXT_WIDTHS: Final[WeakKeyDictionary[ColumnFacts, dict[bool, int]]] = WeakKeyDictionary()
"""The width of the widest text of each column, by whether names are shortened."""
_TEXTS: Final = (ColumnKind.TEXT, ColumnKind.SYMBOL)
_TIMES: Final = (ColumnKind.DURATION, ColumnKind.TIME)
_BYTES: Final = (ColumnKind.SIZE, ColumnKind.RATE)


class CellWriter:
    """Writes the values of one column of one frame.

    Args:
        column: The column.
        facts: The facts of its values, which determine unit and width.
        state: The user's choice of units, shares and names.
        largest: The absolute value that decides the unit (`magnitude`); None: the column's own largest.
        total_ns: The total that shares of durations refer to; None if there is none.
        units: For measures, the unit of each value.
        is_pinned: Whether the column gets the remaining width.
    """

    def __init__(
        self,
        column: Column,
        facts: ColumnFacts,
        state: TableState,
        *,
        largest: float | None = None,
        total_ns: float | None = None,
        units: pl.Series | None = None,
        is_pinned: bool = False,
    ) -> None:
        self.column = column
        self._shortens_names = column.kind is ColumnKind.SYMBOL and not state.full_names
        # Parts of other texts, such as input lines or shapes, would mean nothing alone.
        are_distinct = (is_pinned and not (column.is_prose or column.is_path)) or column.kind is ColumnKind.SYMBOL
        self._cutter = Cutter(
            (lambda: _few_names(facts)) if are_distinct else tuple,
            # A full name that does not fit keeps the name of the function, not its return type.
            are_symbols=column.kind is ColumnKind.SYMBOL,
            are_sentences=column.is_prose,
            are_paths=column.is_path,
        )
        self._fitted: dict[tuple[str, int], str] = {}
        self.filled: dict[tuple[int, bool], dict[object, str]] = {}
        """Cached texts of values, by width and alignment."""
        self._share_total_ns = total_ns if state.as_share and column.kind is ColumnKind.DURATION else None
        self.is_text = column.kind in _TEXTS
        if largest is None and not self.is_text:
            largest = max((abs(value) for value in facts.extent if value is not None), default=None)
        self._unit = column_unit(column.kind, largest, unit=state.unit)
        if self._share_total_ns is not None:
            self._unit = PERCENT
        symbol = ""
        if self._unit is not None and (largest or column.kind not in _TIMES):
            symbol = self._unit.symbol
        self.title = heading(f"{column.title} {column.sign}".rstrip(), symbol)
        """The heading with its sign and the common unit of the column."""
        values = self._values_width(facts) if units is None else self._measures_width(facts.values, units)
        self.width = max(cell_width(self.title), values)
        """The width of the values and the heading."""

    def width_sorted_by(self, columns: int) -> int:
        """Return the width with the sort marker, and its number if the table is sorted by several columns."""
        return max(self.width, cell_width(self.title) + (2 if columns > 1 else 1))

    def _values_width(self, facts: ColumnFacts) -> int:
        kind = self.column.kind
        if self.is_text:
            absent_width = cell_width(self.column.absent) if facts.values.null_count() else 0
            return min(MAX_MEASURED_CELLS, max(absent_width, _text_width(facts, shorten=self._shortens_names)))
        if kind in _BYTES:
            sizes = facts.distinct_values(MAX_MEASURED_SIZES)
            if sizes is None:
                return MAX_SIZE_CELLS + (2 if kind is ColumnKind.RATE else 0)
            return self._max_width(sizes.to_list())
        if not facts.values.dtype.is_numeric():
            flags = facts.distinct_values(len(facts.values))
            return self._max_width([*([] if flags is None else flags), *([None] if facts.values.null_count() else [])])
        smallest = facts.extent[0]
        sign = 1 if smallest is not None and smallest < 0 else 0
        min_width = 1
        if kind in _TIMES or self._share_total_ns is not None:
            min_width = MAX_SMALL_TIME_CELLS + sign
        elif facts.values.dtype.is_float():
            # The widest number may be neither the smallest nor the largest: 0.33333 is between 0 and 10.
            distinct = facts.distinct_values(MAX_MEASURED_NUMBERS) if len(facts.values) <= CODED_FROM else None
            min_width = (
                MAX_FRACTION_CELLS.get(kind, MAX_NUMBER_CELLS) + sign if distinct is None else self._max_width(distinct)
            )
        if facts.values.null_count():
            min_width = max(min_width, cell_width(self.column.absent))
        return max(min_width, self._max_width(value for value in facts.extent if value is not None))

    def _measures_width(self, series: pl.Series, units: pl.Series) -> int:
        distinct = pl.DataFrame({"value": series, "unit": units}).unique()
        min_width = 1
        if distinct.height > MAX_MEASURED_SIZES:
            # Fractions take no more; of large numbers, the largest of a unit is the widest.
            min_width = MAX_MEASURE_CELLS
            extremes = pl.concat_list(pl.min("value"), pl.max("value"))
            distinct = distinct.group_by("unit").agg(extremes).explode("value").select("value", "unit")
            distinct = distinct.head(MAX_MEASURED_SIZES)
        return max(min_width, *(cell_width(self.measure(value, unit)) for value, unit in distinct.iter_rows()), 1)

    def measure(self, value: object, unit: object) -> str:
        """Return a value in the unit of its row."""
        number = value if isinstance(value, (int, float)) else None
        unit_name = None if unit is None else plain(str(unit))
        return metric(number, unit_name)

    def _max_width(self, values: Iterable[object]) -> int:
        return max((cell_width(self.full_text(value)) for value in values), default=1)

    def full_text(self, value: object) -> str:
        """Return a value in full, without control characters."""
        text = self._unsigned(value)
        return signed(text, value) if self.column.is_signed and isinstance(value, (int, float)) else text

    def _unsigned(self, value: object) -> str:
        if value is None and self.column.absent:
            return self.column.absent
        if self.is_text and value is not None:
            return plain(str(value))
        if self._share_total_ns is not None and isinstance(value, (int, float)):
            value = 100 * value / self._share_total_ns if self._share_total_ns else None
            return format_value(ColumnKind.PERCENT, value, unit=PERCENT, suffix=False)
        return format_value(self.column.kind, value, unit=self._unit, suffix=False)

    def with_unit(self, value: object) -> str:
        """Return a value with its own unit."""
        if self.is_text:
            return self.full_text(value)
        text = format_value(self.column.kind, value)
        return signed(text, value) if self.column.is_signed and isinstance(value, (int, float)) else text

    def fitted(self, value: object, width: int) -> str:
        """Return a value in at most ``width`` cells; a number that does not fit is shown as ``#``, never cut."""
        if not self.is_text or value is None:
            text = self.full_text(value)
            return text if cell_width(text) <= width else "#" * width
        text = str(value)
        fitted = self._fitted.get((text, width))
        if fitted is None:
            if len(self._fitted) >= MAX_CACHED_TEXTS:
                self._fitted.clear()
            fitted = self._fitted[text, width] = self._fit_text(text, width)
        return fitted

    def _fit_text(self, text: str, width: int) -> str:
        text = plain(text[:MAX_CHARACTERS])
        # If the shapes of one row are too long, those of all rows are written in the same way.
        if self.column.kind is ColumnKind.TEXT and (width < self.width or cell_width(text) > width):
            text = compact_shapes(text)
        return self._cutter.cut(text, width)


def _few_names(facts: ColumnFacts) -> list[str]:
    """Return the distinct names of a column; none if there are too many to compare."""
    names = facts.distinct_values(MAX_COMPARED_NAMES)
    if names is None:
        return []
    return [plain(name[:MAX_CHARACTERS]) for name in names.cast(pl.String).to_list()]


def units_of(columns: Iterable[Column], frame: pl.DataFrame, state: TableState) -> dict[str, str]:
    """Return the unit of each column of times, such as ``{"total_ns": "ms"}``."""
    units: dict[str, str] = {}
    for column in columns:
        if column.kind in _TIMES and column.name in frame.columns:
            unit = column_unit(column.kind, magnitude(frame, column), unit=state.unit)
            if unit is not None:
                units[column.name] = unit.symbol
    return units


def _text_width(facts: ColumnFacts, *, shorten: bool) -> int:
    widths = _TEXT_WIDTHS.setdefault(facts, {})
    if shorten not in widths:
        names = facts.distinct_values(MAX_MEASURED_NAMES)
        if names is None:
            # A character that is not ASCII takes three bytes and at most two cells: bytes are never too few.
            widths[shorten] = facts.longest_bytes
        else:
            texts = (text[:MAX_CHARACTERS] for text in names.cast(pl.String).to_list())
            widths[shorten] = max((cell_width(short_name(text) if shorten else text) for text in texts), default=1)
    return widths[shorten]


def writers(
    columns: Iterable[Column],
    frame: pl.DataFrame,
    state: TableState,
    *,
    share_total_ns: float | None = None,
    pinned: str = "",
) -> dict[str, CellWriter]:
    """Return a writer for each column of a frame, by name.

    Args:
        columns: The columns; the frame has them all.
        frame: The rows.
        state: The user's choice of units, shares and names.
        share_total_ns: The total that shares refer to, in nanoseconds; None if there is none.
        pinned: The column that gets the remaining width.
    """
    units = frame[UNIT_COLUMN] if UNIT_COLUMN in frame.columns else None
    facts = frame_facts(frame)
    return {
        column.name: CellWriter(
            column,
            facts[column.name],
            state,
            largest=None if column.kind in _TEXTS else magnitude(frame, column),
            total_ns=share_total_ns,
            units=units if column.kind is ColumnKind.MEASURE else None,
            is_pinned=pinned in (column.name, *column.compared_with),
        )
        for column in columns
    }


def measure(spec: TableSpec, frame: pl.DataFrame) -> None:
    """Compute and cache the facts about all rows that rendering a table needs.

    Args:
        spec: The table.
        frame: Its rows.
    """
    writers(prioritize(spec, frame), frame, TableState(), pinned=spec.pinned)
    if spec.weight in frame.columns:
        # The first mark shows its share of the whole.
        _ = frame_facts(frame)[spec.weight].total
