"""Reads metrics and events by launch, which nvprof prints with ``--print-gpu-trace``: as CSV or as text."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.nvprof.csv_cells import csv_cells
from tui.loaders.nvprof.metric_table import MAX_ROW, MetricTable
from tui.loaders.nvprof.metric_values import OVERFLOW, VALUE, values_of
from tui.loaders.nvprof.state import is_message
from tui.loaders.text.table_rows import MAX_STRAY_LINES

if TYPE_CHECKING:
    from tui.loaders.nvprof.state import NvprofState
    from tui.loaders.text.section import Line

_CSV_ROW: Final = re.compile(r'\s*"[^"]+","\d+","\d+","')
_OTHER_CSV: Final = re.compile(r'"(?:Device|Start|Type|Time\(%\)|Count)","')
_OTHER_TABLE: Final = re.compile(r"Time ?\(%\)|Start\s+Duration|Invocations\s|Device \"")
_CORRELATION: Final = r" \[\d+\]$"
_CONTEXT_AND_STREAM: Final = re.compile(r"\S\s+\d{1,9}\s+\d{1,9}\s+\S")


class LaunchCsv(MetricTable):
    """One launch a line and one metric or event a column; there can be many of both, so Polars reads them at the end.

    A launch is an invocation: its value is the minimum, the maximum and the average of one.
    """

    def __init__(self, line: Line, state: NvprofState, header: str) -> None:
        super().__init__(line, state)
        self._fields = csv_cells(header)
        self._units: list[str] | None = None
        self._texts: list[str] = []
        self._numbers: list[int] = []

    def is_row(self, text: str) -> bool:
        """Whether a line begins with a device, a context and a stream."""
        return _CSV_ROW.match(text) is not None

    def take(self, line: Line) -> bool:
        """Keep a row."""
        text = self._state.bare(line.text).strip()
        if text.startswith('"'):
            if _OTHER_CSV.match(text):
                return False
            if text.count('"') % 2:
                self.warn(line, "a quotation mark of this launch has no end; it is left out")
            else:
                self._texts.append(text)
                self._numbers.append(line.number)
            return True
        if text.startswith(",,,,") and not self._texts:
            self._units = csv_cells(text)
            return True
        return not text

    def close(self) -> None:
        """Read the rows."""
        if not self._texts:
            return
        whole = self._whole_rows()
        names = {
            f"cell {index}": name
            for index, name in enumerate(self._fields)
            if index > 3 and name.lower() != "correlation_id"
        }
        long = (
            whole.unpivot(list(names), index=["cell 0", "cell 3", "line"], variable_name="cell", value_name="text")
            .filter(pl.col("text").is_not_null() & (pl.col("text") != ""))
            .with_columns(pl.col("cell").replace_strict(names, return_dtype=pl.String).alias("metric"))
        )
        if self._units is not None:
            units = dict(zip(self._fields, self._units, strict=False))
            suffix = pl.col("metric").replace_strict(units, default="", return_dtype=pl.String)
            long = long.with_columns(pl.col("text") + suffix)
        long = long.with_columns(values_of("text"))
        self._unknown(long)
        for device in whole["cell 0"].unique(maintain_order=True):
            self._state.note_device(device)
        rows = long.select(
            pl.col("cell 0").alias("device"),
            pl.col("cell 3").str.replace(_CORRELATION, "").alias("kernel"),
            pl.lit(1).alias("invocations"),
            "metric",
            *(pl.col("value").alias(column) for column in ("min", "max", "avg")),
            "unit",
            "line",
        )
        self._state.collector.add_frame("metrics", rows.sort("line", maintain_order=True))
        self._texts, self._numbers = [], []
        super().close()

    def _whole_rows(self) -> pl.DataFrame:
        """The rows with as many cells as the header; an issue for each other one."""
        width = len(self._fields)
        header = ",".join(f"cell {index}" for index in range(width + 1))
        text = io.StringIO("\n".join((header, *self._texts)))
        parsed = pl.read_csv(text, infer_schema=False, truncate_ragged_lines=True).with_columns(
            pl.Series("line", self._numbers, pl.UInt32), pl.Series("source", self._texts)
        )
        # An empty last cell is null as well, but then the line ends with a comma.
        whole = pl.col(f"cell {width}").is_null() & (
            pl.col(f"cell {width - 1}").is_not_null() | pl.col("source").str.ends_with(",")
        )
        for number, text in parsed.filter(~whole).select("line", "source").iter_rows():
            reason = f"expected a launch of {width} cells; it is left out"
            self._state.collector.issue("warning", number, text, reason)
        return parsed.filter(whole & pl.col("cell 0").is_not_null())

    def _unknown(self, long: pl.DataFrame) -> None:
        """One issue for each metric without a value in some launches."""
        unknown = long.filter(pl.col("value").is_null()).group_by("metric", "text", maintain_order=True)
        for metric, text, count, line in unknown.agg(pl.len(), pl.col("line").first().alias("at")).iter_rows():
            what = "the counter overflowed" if text == OVERFLOW else "that is no value"
            where = f"in {count} launches, here first" if count > 1 else "here"
            reason = f"{metric} is {text} {where}: {what}, and it stays unknown"
            self._state.collector.issue("warning", line, text, reason)


class LaunchText(MetricTable):
    """The same as text: cells are known by their kinds, as the name of a kernel can have blanks in it."""

    def __init__(self, line: Line, state: NvprofState, metrics: Sequence[str]) -> None:
        super().__init__(line, state)
        self._metrics = metrics
        self._stray = 0
        self._blank = False
        values = rf"\s+({VALUE})" * len(metrics)
        self._row = re.compile(rf"\s*(\S+(?: \S+)*+)\s{{2,}}(\d{{1,9}})\s{{2,}}(\d{{1,9}})\s{{2,}}(\S.*?){values}\s*")

    def is_row(self, text: str) -> bool:
        """Whether a line has all cells of a launch."""
        return len(text) <= MAX_ROW and self._row.fullmatch(text) is not None

    def take(self, line: Line) -> bool:
        """Read a launch."""
        text = self._state.bare(line.text)
        if is_message(line.text) or len(text) > MAX_ROW:
            return False
        if not text.strip():
            self._blank = True
            return True
        row = self._row.fullmatch(text)
        if row is None:
            return self._is_damaged(text, line) or self._is_stray(text)
        self._stray, self._blank = 0, False
        device, _, _, kernel = row.group(1, 2, 3, 4)
        self._state.note_device(device)
        for metric, value in zip(self._metrics, row.groups()[4:], strict=True):
            of = {"device": device, "kernel": re.sub(_CORRELATION, "", kernel), "invocations": 1, "metric": metric}
            self.add({**of, "description": None}, dict.fromkeys(("min", "max", "avg"), value), line)
        return True

    def _is_stray(self, text: str) -> bool:
        """Whether a line is output of the program between the rows."""
        self._stray += 1
        return not self._blank and self._stray <= MAX_STRAY_LINES and _OTHER_TABLE.search(text) is None

    def _is_damaged(self, text: str, line: Line) -> bool:
        """Whether a line that cannot be read is a launch all the same: it has a context and a stream."""
        if _CONTEXT_AND_STREAM.search(text) is None:
            return False
        self.warn(line, "this looks like a launch with its metrics, but not all of its columns can be read; left out")
        return True
