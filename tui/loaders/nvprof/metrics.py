"""Reads the metrics and events of nvprof: tables over all launches of a kernel, as text or as CSV."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tui.loaders.nvprof.csv_cells import csv_cells
from tui.loaders.nvprof.metric_table import MAX_ROW, VALUES, MetricTable
from tui.loaders.nvprof.metric_values import VALUE
from tui.loaders.nvprof.metrics_by_launch import LaunchCsv, LaunchText
from tui.loaders.nvprof.state import is_message

if TYPE_CHECKING:
    from tui.loaders.nvprof.state import NvprofState
    from tui.loaders.text.section import Line, Section

_TEXT_HEADER: Final = re.compile(
    r"Invocations\s+(?:Metric Name\s+Metric Description|Event Name)\s+Min\s+Max\s+Avg(?P<total>\s+Total)?\s*"
)
_CSV_HEADER: Final = re.compile(
    r'"Device","Kernel","Invocations","(?:Metric Name","Metric Description|Event Name)",'
    r'"Min","Max","Avg"(?:,"Total")?\s*'
)
_LAUNCH_CSV_HEADER: Final = re.compile(r'"Device","Context","Stream","Kernel",.+')
_LAUNCH_TEXT_HEADER: Final = re.compile(r"Device\s+Context\s+Stream\s+Kernel\s+(?P<metrics>\S.*)")
_GAP: Final = re.compile(r"\s{2,}|\s(?!\()")
"""Between two metrics; the number of an instance is part of a name: ``local_load (0)``."""

_CSV_ROW: Final = re.compile(r'\s*"[^"]+","[^"]+",\d+,"')
_OTHER_CSV: Final = re.compile(r'"(?:Device|Start|Type|Time\(%\)|Count)","')
"""The header of a table, which ends the one above it."""

_DEVICE: Final = re.compile(r'\s*Device "(?P<device>[^"]*)"\s*(?P<rest>.*)')
_KERNEL: Final = re.compile(r"\s*Kernel: (?P<kernel>.*)")
_ROW: Final = {
    count: re.compile(
        r"\s*(?P<invocations>\d{1,18})\s+(?P<metric>[A-Za-z]\w*(?: \(\d+\))?)(?P<description>\s.*?)??"
        + rf"\s+({VALUE})" * count
    )
    for count in (3, 4)
}
_TORN_HEAD: Final = re.compile(r"\s*\d+\s+[a-z]\w*_\w+\s.*")
_TORN_TAIL: Final = re.compile(rf"(?:\s+{VALUE}){{2,4}}")
_INVOCATIONS: Final = re.compile(r"\d{1,18}")
_OTHER_PROCESS: Final = re.compile(r"==(?P<pid>\d+)==")


def open_metrics(line: Line, state: NvprofState) -> Section | None:
    """The section that the header of a table of metrics or events opens, or None."""
    text = state.bare(line.text)
    start = len(text) - len(text.lstrip(" \t"))
    header = text[start:]
    if match := _TEXT_HEADER.fullmatch(header):
        return _TextTable(line, state, 4 if match["total"] else 3)
    if _CSV_HEADER.fullmatch(header):
        return _CsvTable(line, state, header)
    if _LAUNCH_CSV_HEADER.fullmatch(header):
        return LaunchCsv(line, state, header)
    if match := _LAUNCH_TEXT_HEADER.fullmatch(header):
        return LaunchText(line, state, _GAP.split(match["metrics"].rstrip()))
    if state.interrupted_metrics is not None and state.interrupted_metrics.goes_on(line):
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
        """Whether a line is a row, or the device or kernel above rows."""
        if len(text) > MAX_ROW:
            return False
        return bool(_ROW[self._value_count].fullmatch(text) or _DEVICE.fullmatch(text) or _TORN_HEAD.fullmatch(text))

    def take(self, line: Line) -> bool:
        """Read a line: a device, a kernel, a row, or what is left of a torn one."""
        if is_message(line.text):
            return False
        text = self._state.bare(line.text).rstrip()
        if device := _DEVICE.fullmatch(text):
            self._device, self._kernel = device["device"], None
            self._state.note_device(device["device"])
            # A careless paste glues the kernel's line to the device's.
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
        return self._take_torn(text, line)

    def _take_row(self, row: re.Match[str], line: Line) -> None:
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
        """A row that another process or the program itself wrote into: its values cannot be told from theirs."""
        if _TORN_HEAD.fullmatch(text):
            other = _OTHER_PROCESS.search(text)
            whose = f": process {other['pid']} writes into it" if other else ""
            self.warn(line, f"this row of metrics is torn{whose}; it is left out")
            return True
        if _TORN_TAIL.fullmatch(text):
            self.warn(line, "values without the metric that they are of: the rest of a torn row; left out")
            return True
        return False


class _CsvTable(MetricTable):
    """One row a line, with its device and kernel."""

    def __init__(self, line: Line, state: NvprofState, header: str) -> None:
        super().__init__(line, state)
        self._fields = csv_cells(header)

    def is_row(self, text: str) -> bool:
        """Whether a line begins with a device, a kernel and a count."""
        return _CSV_ROW.match(text) is not None

    def take(self, line: Line) -> bool:
        """Read a row."""
        text = self._state.bare(line.text).strip()
        if not text:
            return True
        if not text.startswith('"') or _OTHER_CSV.match(text):
            damaged = text.count('","') > 1 and not _OTHER_CSV.search(text)
            if damaged:
                self.warn(line, f"expected a row of {len(self._fields)} cells; it is left out")
            return damaged
        cells = csv_cells(text)
        row = dict(zip(self._fields, cells, strict=False))
        if len(cells) != len(self._fields) or not _INVOCATIONS.fullmatch(row["Invocations"]):
            self.warn(line, f"expected a row of {len(self._fields)} cells, found {len(cells)}; it is left out")
            return True
        self._state.note_device(row["Device"])
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
