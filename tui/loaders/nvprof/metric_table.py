"""What the tables of metrics and events have in common: the rows, and where they go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.nvprof.metric_values import Measured, measured

if TYPE_CHECKING:
    from tui.loaders.nvprof.state import NvprofState
    from tui.loaders.text.section import Line

COLUMNS: Final = ("device", "kernel", "invocations", "metric", "description")
VALUES: Final = ("min", "max", "avg", "total")
"""What the values of a row can be called, in their order in a table."""

MAX_ROW: Final = 2_000
"""Characters: rows of metrics are far shorter, and no longer line is tried as one."""


class MetricTable(ABC):
    """What the tables have in common: the rows, and where they go."""

    def __init__(self, line: Line, state: NvprofState) -> None:
        self._state = state
        self._rows: dict[str, list[str | int | float | None]] = {}
        self._session = state.begin_table(line.number, {"metric"})

    def warn(self, line: Line, reason: str) -> None:
        """Tell of a row that could not be used as it stood."""
        self._state.collector.issue("warning", line.number, line.text, reason)

    def add(self, row: dict[str, str | int | None], texts: dict[str, str], line: Line) -> None:
        """Add a row: what it is of, and its values as printed."""
        values: dict[str, Measured] = {}
        for column, text in texts.items():
            try:
                values[column] = measured(text)
            except ValueError as error:
                self.warn(line, f"{error}; the value stays unknown")
        for text in dict.fromkeys(texts[column] for column, value in values.items() if value.unknown):
            self.warn(line, f"{text} in place of a value: the counter has no result")
        units = {value.unit for value in values.values() if value.value is not None}
        if len(units) > 1:
            self.warn(line, "the values of this row have different units; the row is left out")
            return
        full: dict[str, str | int | float | None] = {
            **row,
            **{column: value.value for column, value in values.items()},
            "unit": next(iter(units), None),
            "line": line.number,
        }
        for name in (*COLUMNS, *VALUES, "unit", "line"):
            self._rows.setdefault(name, []).append(full.get(name))

    @abstractmethod
    def is_row(self, text: str) -> bool:
        """Whether a line is a row of this table by its looks."""

    @abstractmethod
    def take(self, line: Line) -> bool:
        """Read a line."""

    def goes_on(self, line: Line) -> bool:
        """Read a row behind program output."""
        is_ours = self._state.collector.session is self._session and self.is_row(self._state.bare(line.text))
        return is_ours and self.take(line)

    def close(self) -> None:
        """Hand the rows over; more may come behind program output."""
        if self._rows:
            self._state.collector.add_frame("metrics", pl.DataFrame(self._rows, infer_schema_length=None))
            self._rows = {}
        self._state.interrupted_metrics = self
