"""Reads what Intel's unitrace prints: times of kernels and API calls, kernel properties and metrics, a device timeline.

Its predecessors onetrace, ze_tracer and cl_tracer print the same tables below other titles. One run prints several of
these, which belong to one session. Rows are split from the right, since names hold commas:
``"f<int, 4>[SIMD16 {56; 1; 1} {64; 8; 1}]", 1, 4706560, ...`` (before 2025 without the quotes).
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from tui.loaders.base import Format
from tui.loaders.text.section import MAX_STRAY_LINES, TextFormat
from tui.model.names import short_name

if TYPE_CHECKING:
    from tui.loaders.collector import Collector, Session, Value
    from tui.loaders.text.block import Line
    from tui.loaders.text.section import Section

FORMAT: Final = Format(
    name="unitrace",
    title="Intel unitrace",
    recognized_by="'=== Device Timing Summary ===', '=== API Timing Summary ===', or lines 'Thread … Device … [ns]'",
    feeds=("sessions", "activities", "summary", "metrics", "issues"),
    record_with="unitrace -d -h -t ./app 2> run.log",
)

_LONGEST: Final = 20_000
"""The longest row in characters."""

_TITLE: Final = re.compile(
    r"\s*={2,3} (?:(?P<timing>Device|API) Timing (?:Summary|Results:)"
    r"|(?P<submission>Kernel Submission) (?:Summary|Results:)|(?P<properties>Kernel Properties)"
    r"|(?P<metrics>Kernel Metrics|Device #(?P<device>[0-9]{1,4}) Metrics)) ={2,3}\s*"
)
_BACKEND: Final = re.compile(r"\s*== (?:[\w ]{1,40}? Backend|Backend [\w ]{1,40}?):? ==\s*")
_TOTAL: Final = re.compile(r"\s*Total (?P<what>[\w ]{1,60}) \(ns\):\s+(?P<ns>[0-9]{1,19})\s*")
_HEADER: Final = re.compile(r"\s*(?:Kernel|Function)\s*,(?P<columns>.+)")
_COLUMNS: Final = {
    "Calls": "calls",
    "Time(ns)": "total_ns",
    "Execute(ns)": "total_ns",
    "Time(%)": "time_pct",
    "Execute(%)": "time_pct",
    "Average(ns)": "avg_ns",
    "Min(ns)": "min_ns",
    "Max(ns)": "max_ns",
}
"""Columns of a table of times in ``summary``, by their title without blanks."""
_SUBMISSION: Final = {"Append(ns)": "append time", "Submit(ns)": "submit time", "Execute(ns)": "execution time"}
_HANDLE: Final = r"(?:0x[0-9a-fA-F]{1,16}|[0-9]{1,19})"
_TIMELINE: Final = re.compile(
    rf"\s*(?:<PID:[0-9]{{1,9}}> )?"
    rf"(?:Thread [0-9]{{1,19}} Device (?P<device>{_HANDLE}[^:]{{0,40}}?) : "
    rf"|Device Timeline \(queue: (?P<queue>{_HANDLE})\): )"
    r'(?P<name>"?.+?"?) \[ns\] (?:= )?'
    r"(?P<append>[0-9]{1,19}) \((?:append|queued)\) (?P<submit>[0-9]{1,19}) \(submit\) "
    r"(?P<start>[0-9]{1,19}) \(start\) (?P<end>[0-9]{1,19}) \(end\)\s*"
)
"""unitrace names thread and device, which may be a part of one (a tile); its predecessors the queue."""
_LAUNCH_NUMBER: Final = re.compile(r"(?:<[0-9]+(?:\.[0-9]+)?>|\([0-9]+(?:\.[0-9]+)?\))$")
"""What the predecessors put behind the name of a kernel in the timeline: a number for each launch."""
_LAUNCHED: Final = re.compile(
    r"(?P<name>.+)\[SIMD[0-9]{1,4},? \{(?P<grid>[0-9;, ]{5,60})\},? \{(?P<block>[0-9;, ]{5,60})\}\]"
)
_COPIED: Final = re.compile(
    r"(?P<name>(?:zeCommandListAppendMemoryCopy|zeCommandListAppendMemoryFill|clEnqueue\w*(?:Buffer|Copy|Fill)\w*)[^\[]*)"
    r"(?:\[(?P<bytes>[0-9]{1,18})(?: bytes)?\])?"
)
_OPENCL_COPY: Final = re.compile(r"clEnqueue(?P<way>Write|Read)Buffer")
_OPENCL_COPIES: Final = {"Write": "HtoD", "Read": "DtoH"}
_DIRECTION: Final = re.compile(r"\((?P<from>[MDS])2(?P<to>[MDS])\)")
_MEMORY: Final = {"M": "H", "D": "D", "S": "D"}
"""Kinds of memory in Level Zero: host (M), device (D), shared (S)."""
_UNIT: Final = re.compile(r"(?P<name>[^\[]+)(?:\[(?P<unit>[^\]]*)\])?")
_NUMBER: Final = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][-+]?[0-9]{1,3})?")


_NO_METRICS: Final = frozenset({"", "Device", "SubDeviceId", "SubDevice", "GlobalInstanceId", "IP[Address]"})
"""Columns of a table of metrics that are none."""


def _unquoted(name: str) -> str:
    """Return a name without its quotes."""
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"[0-9]{1,18}", text)]


def _kind(name: str) -> str:
    if _COPIED.fullmatch(name):
        return "memset" if "Fill" in name else "memcpy"
    return "kernel"


class _Table:
    """A part of unitrace's output, from its title to the next one."""

    def __init__(self, title: Line, found: re.Match[str], reader: _UnitraceReader) -> None:
        self._title = title
        self._kind = found.lastgroup
        self._is_gpu = found["timing"] != "API"
        self._device = found["device"]
        self._reader = reader
        self._columns: list[str] = []
        self._totals: list[int] = []
        self._times: list[int] = []
        self._measured: dict[tuple[str, str, str | None], list[float]] = {}
        self._last_line = title.number
        self._stray = 0

    def take(self, line: Line) -> bool:
        """Read a total, a header, a row, or a line of the program in between."""
        text = line.text
        if len(text) > _LONGEST or _TITLE.fullmatch(text) or _TIMELINE.fullmatch(text):
            return False
        if total := _TOTAL.fullmatch(text):
            if total["what"] != "Execution Time" and total["what"] != "Total Execution Time":
                self._totals.append(int(total["ns"]))
            return True
        if not text.strip() or _BACKEND.fullmatch(text):
            return True
        if header := _HEADER.fullmatch(text):
            columns = [column.strip() for column in header["columns"].split(",")]
            if self._kind in ("properties", "metrics") or "Calls" in columns:
                self._columns = columns
                return True
        if self._row(line):
            self._last_line, self._stray = line.number, 0
            return True
        self._stray += 1
        return bool(self._columns) and self._stray <= MAX_STRAY_LINES

    def _row(self, line: Line) -> bool:
        cells = line.text.rsplit(",", len(self._columns))
        if len(cells) != len(self._columns) + 1 or not self._columns:
            return False
        values = dict(zip(self._columns, map(str.strip, cells[1:]), strict=True))
        name = _unquoted(cells[0].strip())
        if self._kind in ("properties", "metrics"):
            if not any(_NUMBER.fullmatch(value) for value in values.values()):
                return False
            self._measure(name, values)
            return True
        figures = {title.replace(" ", ""): value for title, value in values.items() if title}
        if not name or not all(_NUMBER.fullmatch(value) for value in figures.values()):
            return False
        row: dict[str, Value] = {"name": name, "repaired": False, "line": line.number}
        row |= {_COLUMNS[title]: _figure(title, value) for title, value in figures.items() if title in _COLUMNS}
        if isinstance(total := row.get("total_ns"), int):
            self._times.append(total)
        if self._kind == "submission":
            self._reader.submitted.append({"section": "gpu", **row})
            self._submission(name, figures, line)
        else:
            self._reader.collector.add("summary", {"section": "gpu" if self._is_gpu else "api", **row})
            self._reader.has_gpu_times |= self._is_gpu
        return True

    def _submission(self, kernel: str, figures: dict[str, str], line: Line) -> None:
        calls = _int(figures.get("Calls", ""))
        for title, metric in _SUBMISSION.items():
            if title in figures:
                total = float(figures[title])
                row: dict[str, Value] = {"kernel": kernel, "metric": metric, "unit": "ns", "invocations": calls}
                average = total / calls if calls else None
                self._reader.collector.add("metrics", {**row, "avg": average, "total": total, "line": line.number})

    def _measure(self, kernel: str, values: dict[str, str]) -> None:
        """Add the values of one row to those of its kernel."""
        device = values.get("Device", self._device)
        for title, text in values.items():
            if title not in _NO_METRICS and _NUMBER.fullmatch(text):
                key = (kernel, title, device)
                value, (count, least, most, total) = float(text), self._measured.get(key, (0, math.inf, -math.inf, 0))
                self._measured[key] = [count + 1, min(least, value), max(most, value), total + value]

    def close(self) -> None:
        """Add the measured values, and compare the rows with the totals above them."""
        for (kernel, title, device), (count, least, most, total) in self._measured.items():
            named = _UNIT.fullmatch(title)
            unit = named["unit"] if named else None
            row: dict[str, Value] = {
                "device": device,
                "kernel": kernel,
                "invocations": int(count),
                "metric": named["name"] if named else title,
                "unit": "%" if unit == "%" else None,
                **{"min": least, "max": most, "avg": total / count},
                "line": self._title.number,
            }
            self._reader.collector.add("metrics", row)
        if self._times and sum(self._times) < sum(self._totals):
            reason = f"the rows add up to {sum(self._times)} ns, the totals above them to {sum(self._totals)} ns: "
            self._reader.collector.issue("warning", self._last_line, "", f"{reason}rows may be missing")


def _figure(title: str, value: str) -> Value:
    if title.endswith("(%)"):
        return float(value)
    return _int(value)


def _int(value: str) -> int | None:
    return int(value) if re.fullmatch("[0-9]+", value) else None


class _UnitraceReader:
    """Reads unitrace's lines in one text."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.submitted: list[dict[str, Value]] = []
        """Rows of times of submission, for runs without a table of kernels."""
        self.has_gpu_times = False
        """Whether the session has a table of kernels."""
        self._session: Session | None = None
        self._titles: set[str] = set()
        self._devices: dict[str, int] = {}
        self._queues: dict[str, int] = {}
        self._zero: int | None = None

    def begin(self, line: Line) -> Section | bool:
        """Open the table that a title begins, or read a line of the timeline."""
        if len(line.text) > _LONGEST:
            return False
        if match := _TIMELINE.fullmatch(line.text):
            self._activity(match, line)
            return True
        if match := _TITLE.fullmatch(line.text):
            return self._open(match, line)
        return False

    def _open(self, found: re.Match[str], line: Line) -> _Table:
        title = line.text.strip()
        if self._session is None or title in self._titles:
            self._begin_session(line)
        self._titles.add(title)
        assert self._session is not None
        self.collector.resume_session(self._session)
        return _Table(line, found, self)

    def _begin_session(self, line: Line) -> None:
        self.finish()
        self._session = self.collector.open_session(FORMAT.name, line.number)
        self._session.facts["tool"] = "unitrace"
        self._titles, self._devices, self._queues, self._zero = set(), {}, {}, None
        self.has_gpu_times = False

    def _activity(self, match: re.Match[str], line: Line) -> None:
        if self._session is None:
            self._begin_session(line)
        assert self._session is not None
        self.collector.resume_session(self._session)
        queue = match["queue"]
        start, end = int(match["start"]), int(match["end"])
        if self._zero is None:
            self._zero = min(start, int(match["append"]))
            reason = f"times count from the first event, at {self._zero} ns of the device's own clock"
            self.collector.issue("info", line.number, "", reason)
            self.collector.resolution(1)
        if end < start:
            self.collector.issue("warning", line.number, line.text, "the end is before the start: duration unknown")
        self.collector.add(
            "activities",
            {
                **_launch(_unquoted(_LAUNCH_NUMBER.sub("", match["name"]) if queue else match["name"])),
                "start_ns": start - self._zero,
                "duration_ns": end - start if end >= start else None,
                # Devices and queues are identified by handles, which are numbered in the order of the file.
                "device": None if queue else self._devices.setdefault(match["device"], len(self._devices)),
                "stream": self._queues.setdefault(queue, len(self._queues)) if queue else None,
                "line": line.number,
            },
        )

    def finish(self) -> None:
        """Add the kernels of a run that reports only their submission."""
        if self.submitted and not self.has_gpu_times and self._session is not None:
            self.collector.resume_session(self._session)
            for row in self.submitted:
                self.collector.add("summary", row)
        self.submitted = []


def _launch(name: str) -> dict[str, Value]:
    """Return kind, name and configuration of a line of the timeline."""
    kind = _kind(name)
    if kind != "kernel":
        copied = _COPIED.fullmatch(name)
        size = copied["bytes"] if copied else None
        bare = copied["name"] if copied else name
        direction, opencl = _DIRECTION.search(name), _OPENCL_COPY.match(name)
        return {
            "kind": kind,
            "name": bare,
            "short_name": bare,
            "size_bytes": int(size) if size else None,
            "copy_kind": f"{_MEMORY[direction['from']]}to{_MEMORY[direction['to']]}"
            if direction
            else _OPENCL_COPIES.get(opencl["way"] if opencl else ""),
        }
    launched = _LAUNCHED.fullmatch(name)
    bare = launched["name"] if launched else name
    found: dict[str, Value] = {"kind": kind, "name": bare, "short_name": short_name(bare)}
    if launched and all(_numbers(launched["block"])):
        for shape in ("grid", "block"):
            sizes = _numbers(launched[shape])
            if len(sizes) == 3:
                found |= {f"{shape}_{axis}": size for axis, size in zip("xyz", sizes, strict=True)}
    return found


UNITRACE: Final = TextFormat(
    FORMAT,
    (
        rb"^[ \t]*(?:=== (?:(?:Device|API) Timing|Kernel Submission|Kernel Properties|Device #[0-9]+ Metrics)"
        rb"|== Kernel Metrics ==)"
        rb"|^[ \t]*(?:<PID:[0-9]+> )?(?:Thread [0-9]+ Device |Device Timeline \(queue: ).* \[ns\] (?:= )?[0-9]+ \("
    ),
    _UnitraceReader,
)
"""The format, for the list of text formats."""
