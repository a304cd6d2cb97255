"""Reads the metrics and events of nvprof, by kernel and by launch, as text or CSV."""

from __future__ import annotations

import io
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.nvprof.numbers import csv_cells
from tui.loaders.nvprof.reader_state import is_message
from tui.loaders.text.section import MAX_STRAY_LINES
from tui.text import number_in

if TYPE_CHECKING:
    from tui.loaders.nvprof.reader_state import NvprofState
    from tui.loaders.text.block import Line
    from tui.loaders.text.section import Section


OVERFLOW: Final = "<OVERFLOW>"

_NUMBER: Final = r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?"
_SUFFIX: Final = r"%|[KMGT]?B(?:/s)?"
_LEVEL: Final = r"(?:Idle|Low|Mid|High|Max) \([0-9]{1,2}\)"
_NO_VALUE: Final = rf"{OVERFLOW}|-?nan%?|-?inf%?|[nN]/[aA]"

VALUE: Final = rf"(?:{_LEVEL}|(?:{_NUMBER})(?:{_SUFFIX})?|{_NO_VALUE})"
"""A regular expression of a value, without groups. A level has a blank in it: ``Low (1)``."""

_VALUE_PARTS: Final = re.compile(
    rf"(?P<number>{_NUMBER})(?P<suffix>{_SUFFIX})?|[A-Z][a-z]+ \((?P<level>[0-9]{{1,2}})\)|{_NO_VALUE}"
)
_POWERS: Final = {"": 0, "B": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True, slots=True)
class MeasuredValue:
    """A value in base units."""

    value: float | None
    unit: str | None
    """``%``, ``B/s``, ``B``, ``level`` (0 idle to 10 max), or null for counts and ratios."""

    @property
    def is_unknown(self) -> bool:
        """Whether nvprof reports that there is no value."""
        return self.value is None


def parse_metric_value(text: str) -> MeasuredValue:
    """Parse a value to base units: bytes per second, percent from 0 to 100, the number of a level.

    KB, MB and GB are powers of 1024: no version of nvprof printed metrics with decimal prefixes.

    Raises:
        ValueError: It is no value.

    >>> parse_metric_value("7.5000KB/s"), parse_metric_value("Low (2)")
    (MeasuredValue(value=7680.0, unit='B/s'), MeasuredValue(value=2.0, unit='level'))
    """
    match = _VALUE_PARTS.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a number, a level or a rate, found {text!r}")
    if match["level"]:
        return MeasuredValue(float(match["level"]), "level")
    if match["number"] is None:
        return MeasuredValue(None, None)
    suffix = match["suffix"] or ""
    value = float(match["number"]) * 1024.0 ** _POWERS.get(suffix[:1], 0)
    return MeasuredValue(value if isfinite(value) else None, suffix.lstrip("KMGT") or None)


def value_columns(column: str) -> tuple[pl.Expr, pl.Expr]:
    """Return the same for a column of texts: expressions ``value`` and ``unit``; null if it is no value."""
    text = pl.col(column)
    parts = text.str.extract_groups(rf"^(?P<number>{_NUMBER})(?P<suffix>{_SUFFIX})?$")
    number = parts.struct.field("number").cast(pl.Float64, strict=False)
    suffix = parts.struct.field("suffix").fill_null("")
    power = suffix.str.slice(0, 1).replace_strict(_POWERS, default=0, return_dtype=pl.Int64)
    level = number_in(text, r"^(?:Idle|Low|Mid|High|Max) \(([0-9]{1,2})\)$", dtype=pl.Float64)
    value = pl.coalesce(level, number * pl.lit(1024.0).pow(power))
    value = pl.when(value.is_finite()).then(value)
    unit = (
        pl.when(level.is_not_null())
        .then(pl.lit("level"))
        .when(number.is_not_null() & (suffix != ""))
        .then(suffix.str.strip_chars_start("KMGT"))
    )
    return value.alias("value"), unit.alias("unit")


COLUMNS: Final = ("device", "kernel", "invocations", "metric", "description")
VALUES: Final = ("min", "max", "avg", "total")
"""The columns of values, in the order of tables."""

MAX_ROW: Final = 2_000
"""Characters: rows of metrics are far shorter, and no longer line is tried as one."""


class MetricTable(ABC):
    """The base of all tables of metrics: stores rows."""

    def __init__(self, line: Line, state: NvprofState) -> None:
        self._state = state
        self._rows: dict[str, list[str | int | float | None]] = {}
        self._session = state.begin_table(line.number, {"metric"})

    def warn(self, line: Line, reason: str) -> None:
        """Report a row that could not be read completely."""
        self._state.collector.issue("warning", line.number, line.text, reason)

    def add(self, row: dict[str, str | int | None], texts: dict[str, str], line: Line) -> None:
        """Add a row: its identification, and its values as printed."""
        values: dict[str, MeasuredValue] = {}
        for column, text in texts.items():
            try:
                values[column] = parse_metric_value(text)
            except ValueError as error:
                self.warn(line, f"{error}; the value is unknown")
        for text in dict.fromkeys(texts[column] for column, value in values.items() if value.is_unknown):
            self.warn(line, f"{text} instead of a value: the counter has no result")
        units = {value.unit for value in values.values() if value.value is not None}
        if len(units) > 1:
            self.warn(line, "the values of this row have different units: row skipped")
            return
        all_values: dict[str, str | int | float | None] = {
            **row,
            **{column: value.value for column, value in values.items()},
            "unit": next(iter(units), None),
            "line": line.number,
        }
        for name in (*COLUMNS, *VALUES, "unit", "line"):
            self._rows.setdefault(name, []).append(all_values.get(name))

    @abstractmethod
    def is_row(self, text: str) -> bool:
        """Return whether a line looks like a row of this table."""

    @abstractmethod
    def take(self, line: Line) -> bool:
        """Read a line."""

    def is_next_row(self, line: Line) -> bool:
        """Read a row after program output."""
        is_own_row = self._state.collector.session is self._session and self.is_row(
            self._state.without_prefix(line.text)
        )
        return is_own_row and self.take(line)

    def close(self) -> None:
        """Add the rows; more may follow after program output."""
        if self._rows:
            self._state.collector.add_frame("metrics", pl.DataFrame(self._rows, infer_schema_length=None))
            self._rows = {}
        self._state.interrupted_metrics = self


_LAUNCH_CSV_ROW: Final = re.compile(r'\s*"[^"]+","[0-9]+","[0-9]+","')
_OTHER_TABLE: Final = re.compile(r"Time ?\(%\)|Start\s+Duration|Invocations\s|Device \"")
_CORRELATION: Final = r" \[[0-9]+\]$"
_CONTEXT_AND_STREAM: Final = re.compile(r"\S\s+[0-9]{1,9}\s+[0-9]{1,9}\s+\S")


class LaunchCsvTable(MetricTable):
    """One launch per line and one metric or event per column; there can be many, so Polars parses them at the end.

    A launch is an invocation: its value is the minimum, the maximum and the average of one.
    """

    def __init__(self, line: Line, state: NvprofState, header: str) -> None:
        super().__init__(line, state)
        self._fields = csv_cells(header)
        self._units: list[str] | None = None
        self._texts: list[str] = []
        self._numbers: list[int] = []

    def is_row(self, text: str) -> bool:
        """Return whether a line begins with a device, a context and a stream."""
        return _LAUNCH_CSV_ROW.match(text) is not None

    def take(self, line: Line) -> bool:
        """Keep a row."""
        text = self._state.without_prefix(line.text).strip()
        if text.startswith('"'):
            if _OTHER_CSV.match(text):
                return False
            if text.count('"') % 2:
                self.warn(line, "unclosed quotation mark in this launch: row skipped")
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
        rows_complete = self._complete_rows()
        names = {
            f"cell {index}": name
            for index, name in enumerate(self._fields)
            if index > 3 and name.lower() != "correlation_id"
        }
        long = (
            rows_complete.unpivot(
                list(names), index=["cell 0", "cell 3", "line"], variable_name="cell", value_name="text"
            )
            .filter(pl.col("text").is_not_null() & (pl.col("text") != ""))
            .with_columns(pl.col("cell").replace_strict(names, return_dtype=pl.String).alias("metric"))
        )
        if self._units is not None:
            units = dict(zip(self._fields, self._units, strict=False))
            suffix = pl.col("metric").replace_strict(units, default="", return_dtype=pl.String)
            is_number = pl.col("text") != OVERFLOW
            long = long.with_columns(pl.when(is_number).then(pl.col("text") + suffix).otherwise("text").alias("text"))
        long = long.with_columns(value_columns("text"))
        self._report_missing_values(long)
        for device in rows_complete["cell 0"].unique(maintain_order=True):
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

    def _complete_rows(self) -> pl.DataFrame:
        """Return the rows with as many cells as the header; an issue for each other one."""
        width = len(self._fields)
        header = ",".join(f"cell {index}" for index in range(width + 1))
        text = io.StringIO("\n".join((header, *self._texts)))
        parsed = pl.read_csv(text, infer_schema=False, truncate_ragged_lines=True).with_columns(
            pl.Series("line", self._numbers, pl.UInt32), pl.Series("source", self._texts)
        )
        # An empty last cell is null as well, but then the line ends with a comma.
        is_complete = pl.col(f"cell {width}").is_null() & (
            pl.col(f"cell {width - 1}").is_not_null() | pl.col("source").str.ends_with(",")
        )
        for number, text in parsed.filter(~is_complete).select("line", "source").iter_rows():
            reason = f"expected a launch of {width} cells: row skipped"
            self._state.collector.issue("warning", number, text, reason)
        return parsed.filter(is_complete & pl.col("cell 0").is_not_null())

    def _report_missing_values(self, long: pl.DataFrame) -> None:
        """Report one issue for each metric that has no value in some launches."""
        missing = long.filter(pl.col("value").is_null()).group_by("metric", "text", maintain_order=True)
        for metric, text, count, line in missing.agg(pl.len(), pl.col("line").first().alias("at")).iter_rows():
            cause = "the counter overflowed" if text == OVERFLOW else "not a value"
            scope = f"in {count} launches, here first" if count > 1 else "here"
            reason = f"{metric} is {text} {scope}: {cause}, shown as unknown"
            self._state.collector.issue("warning", line, text, reason)


class LaunchTextTable(MetricTable):
    """The same as text; cells are identified by their kinds, because names of kernels can contain blanks.

    A row of units may be below the header; each ends at the same column as the metric above it.
    """

    def __init__(self, line: Line, state: NvprofState) -> None:
        super().__init__(line, state)
        titles = list(_TITLE.finditer(state.without_prefix(line.text)))[4:]
        self._metrics = [title[0] for title in titles]
        self._ends = [title.end() for title in titles]
        self._units = [""] * len(titles)
        self._is_first = True
        self._stray = 0
        self._blank = False

    def is_row(self, text: str) -> bool:
        """Return whether a line has all cells of a launch."""
        return self._cells(text) is not None

    def _cells(self, text: str) -> tuple[str, str, list[str]] | None:
        """Return the device, the kernel and the values; None if the line is no launch."""
        launch = _LAUNCH.fullmatch(text) if len(text) <= _MAX_LAUNCH else None
        if launch is None:
            return None
        kernel, *values = _LEVEL_GAP.sub(r"\1\0\2", launch["cells"]).rsplit(None, len(self._metrics))
        values = [value.replace("\0", " ") for value in values]
        if len(values) < len(self._metrics) or not all(map(_VALUE_PARTS.fullmatch, values)):
            return None
        return launch["device"], re.sub(_CORRELATION, "", kernel), values

    def take(self, line: Line) -> bool:
        """Read a launch."""
        text = self._state.without_prefix(line.text)
        if is_message(line.text) or len(text) > _MAX_LAUNCH:
            return False
        if not text.strip():
            self._blank = True
            return True
        is_first, self._is_first = self._is_first, False
        cells = self._cells(text)
        if cells is None:
            return (
                (is_first and self._take_units(text)) or self._is_damaged(text[:MAX_ROW], line) or self._is_stray(text)
            )
        self._stray, self._blank = 0, False
        device, kernel, values = cells
        self._state.note_device(device)
        for metric, value, unit in zip(self._metrics, values, self._units, strict=True):
            row: dict[str, str | int | None] = {"device": device, "kernel": kernel, "invocations": 1, "metric": metric}
            with_unit = value + unit if value[-1].isdecimal() else value
            self.add(row, dict.fromkeys(("min", "max", "avg"), with_unit), line)
        return True

    def _take_units(self, text: str) -> bool:
        """Read the row of units, if the line is one."""
        units = {unit.end(): unit[0] for unit in re.finditer(r"\S+", text)}
        if not units.keys() <= set(self._ends) or not all(map(_UNIT.fullmatch, units.values())):
            return False
        self._units = [units.get(end, "") for end in self._ends]
        return True

    def _is_stray(self, text: str) -> bool:
        """Return whether a line is output of the program between the rows."""
        self._stray += 1
        return not self._blank and self._stray <= MAX_STRAY_LINES and _OTHER_TABLE.search(text) is None

    def _is_damaged(self, text: str, line: Line) -> bool:
        """Return whether an unreadable line is a damaged launch: it has a context and a stream."""
        if _CONTEXT_AND_STREAM.search(text) is None:
            return False
        self.warn(line, "this looks like a launch with its metrics, but some columns are unreadable: row skipped")
        return True


_TEXT_HEADER: Final = re.compile(
    r"Invocations\s+(?:Metric Name\s+Metric Description|Event Name)\s+Min\s+Max\s+Avg(?P<total>\s+Total)?\s*"
)
_CSV_HEADER: Final = re.compile(
    r'"Device","Kernel","Invocations","(?:Metric Name","Metric Description|Event Name)",'
    r'"Min","Max","Avg"(?:,"Total")?\s*'
)
_LAUNCH_CSV_HEADER: Final = re.compile(r'"Device","Context","Stream","Kernel",.+')
_LAUNCH_TEXT_HEADER: Final = re.compile(r"Device\s+Context\s+Stream\s+Kernel\s+\S.*")
_TITLE: Final = re.compile(r"\S+(?: \S+)*")
"""The title of a column; the number of an instance is part of it: ``local_load (0)``."""
_LAUNCH: Final = re.compile(r"\s*(?P<device>\S+(?: \S+)*+)\s{2,}[0-9]{1,9}\s{2,}[0-9]{1,9}\s{2,}(?P<cells>\S.*?)\s*+")
_MAX_LAUNCH: Final = 20_000
"""Characters: a launch has all its metrics in one line."""
_LEVEL_GAP: Final = re.compile(r"(Idle|Low|Mid|High|Max) (\([0-9]{1,2}\))")
_UNIT: Final = re.compile(_SUFFIX)

_CSV_ROW: Final = re.compile(r'\s*"[^"]+","[^"]+",[0-9]+,"')
_OTHER_CSV: Final = re.compile(r'"(?:Device|Start|Type|Time\(%\)|Count)","')
"""The header of a table, which ends the one above it."""

_DEVICE: Final = re.compile(r'\s*Device "(?P<device>[^"]*)"\s*(?P<rest>.*)')
_KERNEL: Final = re.compile(r"\s*Kernel: (?P<kernel>.*)")
_ROW: Final = {
    count: re.compile(
        r"\s*(?P<invocations>[0-9]{1,18})\s+(?P<metric>[A-Za-z]\w*(?: \([0-9]+\))?)(?P<description>\s.*?)??"
        + rf"\s+({VALUE})" * count
    )
    for count in (3, 4)
}
_INSTANCES: Final = re.compile(r"\s*[0-9]{1,18}\s+\w+ \([0-9]+ instances\)\s.*")
"""A row with the value of each instance, below the row with those over all instances."""
_TORN_HEAD: Final = re.compile(r"\s*[0-9]+\s+[a-z]\w*_\w+\s.*")
_TORN_TAIL: Final = re.compile(rf"(?:\s+{VALUE}){{2,4}}")
_INVOCATIONS: Final = re.compile(r"[0-9]{1,18}")
_OTHER_PROCESS: Final = re.compile(r"==(?P<pid>[0-9]+)==")


def open_metrics(line: Line, state: NvprofState) -> Section | None:
    """Return the section that the header of a table of metrics or events opens, or None."""
    text = state.without_prefix(line.text)
    start = len(text) - len(text.lstrip(" \t"))
    header = text[start:]
    if match := _TEXT_HEADER.fullmatch(header):
        return _TextTable(line, state, 4 if match["total"] else 3)
    if _CSV_HEADER.fullmatch(header):
        return _CsvTable(line, state, header)
    if _LAUNCH_CSV_HEADER.fullmatch(header):
        return LaunchCsvTable(line, state, header)
    if _LAUNCH_TEXT_HEADER.fullmatch(header):
        return LaunchTextTable(line, state)
    if state.interrupted_metrics is not None and state.interrupted_metrics.is_next_row(line):
        return state.interrupted_metrics
    return None


class _TextTable(MetricTable):
    """Rows under a line for each device and kernel."""

    def __init__(self, line: Line, state: NvprofState, value_count: int) -> None:
        super().__init__(line, state)
        self._device: str | None = None
        self._kernel: str | None = None
        self._value_count = value_count

    def is_row(self, text: str) -> bool:
        """Return whether a line is a row, or the device or kernel above rows."""
        if len(text) > MAX_ROW:
            return False
        return bool(_ROW[self._value_count].fullmatch(text) or _DEVICE.fullmatch(text) or _TORN_HEAD.fullmatch(text))

    def take(self, line: Line) -> bool:
        """Read a line: a device, a kernel, a row, or the rest of a torn row."""
        if is_message(line.text):
            return False
        text = self._state.without_prefix(line.text).rstrip()
        if device := _DEVICE.fullmatch(text):
            self._device, self._kernel = device["device"], None
            self._state.note_device(device["device"])
            # In some pastes the line of the kernel follows on the line of the device.
            text = device["rest"]
        if kernel := _KERNEL.fullmatch(text):
            self._kernel = kernel["kernel"]
            return True
        if not text:
            return True
        if len(text) > MAX_ROW:
            return False
        if row := _ROW[self._value_count].fullmatch(text):
            self._take_row(row, line)
            return True
        if _INSTANCES.fullmatch(text):
            return True
        return self._take_torn(text, line)

    def _take_row(self, row: re.Match[str], line: Line) -> None:
        """Add a row that the pattern of rows matched, with the device and kernel above it."""
        texts = dict(zip(VALUES, row.groups()[3:], strict=False))
        description = (row["description"] or "").strip() or None
        self.add(
            {
                "device": self._device,
                "kernel": self._kernel,
                "invocations": int(row["invocations"]),
                "metric": row["metric"],
                "description": description,
            },
            texts,
            line,
        )

    def _take_torn(self, text: str, line: Line) -> bool:
        """Report a row interrupted by output of another process or the program: its values are uncertain."""
        if _TORN_HEAD.fullmatch(text):
            other = _OTHER_PROCESS.search(text)
            whose = f" by output of process {other['pid']}" if other else ""
            self.warn(line, f"this metric row is interrupted{whose}: row skipped")
            return True
        if _TORN_TAIL.fullmatch(text):
            self.warn(line, "values without a metric name, the rest of an interrupted row: row skipped")
            return True
        return False


class _CsvTable(MetricTable):
    """One row per line, with its device and kernel."""

    def __init__(self, line: Line, state: NvprofState, header: str) -> None:
        super().__init__(line, state)
        self._fields = csv_cells(header)

    def is_row(self, text: str) -> bool:
        """Return whether a line begins with a device, a kernel and a count."""
        return _CSV_ROW.match(text) is not None

    def take(self, line: Line) -> bool:
        """Read a row."""
        text = self._state.without_prefix(line.text).strip()
        if not text:
            return True
        if not text.startswith('"') or _OTHER_CSV.match(text):
            damaged = text.count('","') > 1 and not _OTHER_CSV.search(text)
            if damaged:
                self.warn(line, f"expected {len(self._fields)} cells: row skipped")
            return damaged
        cells = csv_cells(text)
        row = dict(zip(self._fields, cells, strict=False))
        if len(cells) != len(self._fields) or not _INVOCATIONS.fullmatch(row["Invocations"]):
            self.warn(line, f"expected {len(self._fields)} cells, found {len(cells)}: row skipped")
            return True
        self._state.note_device(row["Device"])
        if _INSTANCES.fullmatch(f"1 {row.get('Metric Name') or row.get('Event Name')} "):
            return True
        self.add(
            {
                "device": row["Device"],
                "kernel": row["Kernel"],
                "invocations": int(row["Invocations"]),
                "metric": row.get("Metric Name") or row.get("Event Name"),
                "description": row.get("Metric Description"),
            },
            {name.lower(): row[name] for name in self._fields[-4:] if name.lower() in VALUES},
            line,
        )
        return True
