"""Reads what Intel's unitrace prints: times of kernels and API calls, kernel properties and metrics, a device timeline.

One run prints several of these, which belong to one session. Rows are split from the right, since
names hold commas: ``"f<int, 4>[SIMD16 {56; 1; 1} {64; 8; 1}]", 1, 4706560, ...`` (before 2025 without the quotes).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tui.loaders.base import Format
from tui.loaders.text.section import TextFormat
from tui.model.names import short_name

if TYPE_CHECKING:
    from collections.abc import Iterable

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

_TITLE: Final = re.compile(r"\s*=== (?P<title>(?:Device|API) Timing Summary|Kernel Properties) ===\s*")
_BACKEND: Final = re.compile(r"\s*== [\w ]{1,40}? Backend ==\s*")
_METRICS: Final = re.compile(r"\s*== Kernel Metrics ==\s*")
_TOTAL: Final = re.compile(r"\s*Total (?P<what>[\w ]{1,60}) \(ns\):\s+(?P<ns>[0-9]{1,19})\s*")
_TIMES_HEADER: Final = re.compile(r"\s*(?:Kernel|Function),\s+Calls,\s+Time \(ns\),\s+Time \(%\),.*")
_TIMES_ROW: Final = re.compile(
    r"\s*(?P<name>.+?),\s+(?P<calls>[0-9]{1,18}),\s+(?P<total>[0-9]{1,18}),\s+(?P<pct>[0-9]{1,3}(?:\.[0-9]{1,12})?),"
    r"\s+(?P<avg>[0-9]{1,18}),\s+(?P<min>[0-9]{1,18}),\s+(?P<max>[0-9]{1,18})\s*"
)
_PROPERTIES_HEADER: Final = re.compile(r"\s*Kernel,\s+(?P<columns>(?:[A-Z][\w ]+,\s+)*[A-Z][\w ]+?)\s*")
_METRICS_HEADER: Final = re.compile(r"\s*Kernel,\s*Device,\s*SubDeviceId,.*")
_TIMELINE: Final = re.compile(
    r'\s*Thread (?P<thread>[0-9]{1,19}) Device (?P<device>[0-9]{1,19}) : (?P<name>"?.+?"?) \[ns\] '
    r"(?P<append>[0-9]{1,19}) \(append\) (?P<submit>[0-9]{1,19}) \(submit\) "
    r"(?P<start>[0-9]{1,19}) \(start\) (?P<end>[0-9]{1,19}) \(end\)\s*"
)
_LAUNCHED: Final = re.compile(
    r"(?P<name>.+)\[SIMD[0-9]{1,4} \{(?P<grid>[0-9; ]{5,60})\} \{(?P<block>[0-9; ]{5,60})\}\]"
)
_COPIED: Final = re.compile(
    r"(?P<name>(?:zeCommandListAppendMemoryCopy|zeCommandListAppendMemoryFill|clEnqueue\w*(?:Buffer|Copy|Fill)\w*)[^\[]*)"
    r"(?:\[(?P<bytes>[0-9]{1,18})\])?"
)
_DIRECTION: Final = re.compile(r"\((?P<from>[MDS])2(?P<to>[MDS])\)")
_MEMORY: Final = {"M": "H", "D": "D", "S": "D"}
"""Kinds of memory in Level Zero: host (M), device (D), shared (S)."""
_UNIT: Final = re.compile(r"(?P<name>[^\[]+)(?:\[(?P<unit>[^\]]*)\])?")
_NUMBER: Final = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][-+]?[0-9]{1,3})?")


def _bare(name: str) -> str:
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

    def __init__(self, title: str, reader: _UnitraceReader) -> None:
        self._title = title
        self._reader = reader
        self._columns: list[str] | None = None

    def take(self, line: Line) -> bool:
        text = line.text
        if len(text) > _LONGEST:
            return False
        if not text.strip() or _TOTAL.fullmatch(text):
            return True
        if _TITLE.fullmatch(text) or _METRICS.fullmatch(text) or _TIMELINE.fullmatch(text):
            return False
        if _BACKEND.fullmatch(text):
            return True
        if self._title == "Kernel Properties":
            return self._property(line)
        if self._title == "Kernel Metrics":
            return self._metric(line)
        return self._time(line)

    def _time(self, line: Line) -> bool:
        if _TIMES_HEADER.fullmatch(line.text):
            self._columns = []
            return True
        match = _TIMES_ROW.fullmatch(line.text) if self._columns is not None else None
        if match is None:
            return False
        is_gpu = self._title.startswith("Device")
        self._reader.collector.add(
            "summary",
            {
                "section": "gpu" if is_gpu else "api",
                "name": _bare(match["name"]),
                "calls": int(match["calls"]),
                "total_ns": int(match["total"]),
                "avg_ns": int(match["avg"]),
                "min_ns": int(match["min"]),
                "max_ns": int(match["max"]),
                "time_pct": float(match["pct"]),
                "repaired": False,
                "line": line.number,
            },
        )
        return True

    def _property(self, line: Line) -> bool:
        if self._columns is None:
            header = _PROPERTIES_HEADER.fullmatch(line.text)
            if header is None:
                return False
            self._columns = [column.strip() for column in header["columns"].split(",")]
            return True
        cells = line.text.rsplit(",", len(self._columns))
        if len(cells) != len(self._columns) + 1:
            return False
        self._add_metrics(line, _bare(cells[0].strip()), zip(self._columns, map(str.strip, cells[1:]), strict=True))
        return True

    def _metric(self, line: Line) -> bool:
        if _METRICS_HEADER.fullmatch(line.text):
            self._columns = [column.strip() for column in line.text.split(",")][1:]
            return True
        if self._columns is None:
            return False
        cells = line.text.rsplit(",", len(self._columns))
        if len(cells) != len(self._columns) + 1:
            return False
        values = dict(zip(self._columns, map(str.strip, cells[1:]), strict=True))
        no_arguments = {"Device", "SubDeviceId", ""}
        self._add_metrics(
            line,
            _bare(cells[0].strip()),
            ((name, value) for name, value in values.items() if name not in no_arguments),
            device=values.get("Device"),
        )
        return True

    def _add_metrics(
        self, line: Line, kernel: str, values: Iterable[tuple[str, str]], device: str | None = None
    ) -> None:
        for title, text in values:
            if not _NUMBER.fullmatch(text):
                continue
            named = _UNIT.fullmatch(title)
            unit = named["unit"] if named else None
            row: dict[str, Value] = {
                "device": device,
                "kernel": kernel,
                "invocations": 1,
                "metric": named["name"] if named else title,
                "unit": "%" if unit == "%" else None,
                **dict.fromkeys(("min", "max", "avg"), float(text)),
                "line": line.number,
            }
            self._reader.collector.add("metrics", row)

    def close(self) -> None:
        """Do nothing: rows are added as they are read."""


class _UnitraceReader:
    """unitrace's part in one text."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self._session: Session | None = None
        self._titles: set[str] = set()
        self._devices: dict[str, int] = {}
        self._zero: int | None = None

    def begin(self, line: Line) -> Section | bool:
        """Return a title, or a line of the timeline."""
        if len(line.text) > _LONGEST:
            return False
        if match := _TIMELINE.fullmatch(line.text):
            self._activity(match, line)
            return True
        if _METRICS.fullmatch(line.text):
            return self._open("Kernel Metrics", line)
        if match := _TITLE.fullmatch(line.text):
            return self._open(match["title"], line)
        return False

    def _open(self, title: str, line: Line) -> _Table:
        if self._session is None or title in self._titles:
            self._begin_session(line)
        self._titles.add(title)
        assert self._session is not None
        self.collector.resume_session(self._session)
        return _Table(title, self)

    def _begin_session(self, line: Line) -> None:
        self._session = self.collector.open_session(FORMAT.name, line.number)
        self._session.facts["tool"] = "unitrace"
        self._titles, self._devices, self._zero = set(), {}, None

    def _activity(self, match: re.Match[str], line: Line) -> None:
        if self._session is None:
            self._begin_session(line)
        assert self._session is not None
        self.collector.resume_session(self._session)
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
                **_launch(_bare(match["name"])),
                "start_ns": start - self._zero,
                "duration_ns": end - start if end >= start else None,
                # Devices are identified by handles, which are numbered in the order of the file.
                "device": self._devices.setdefault(match["device"], len(self._devices)),
                "line": line.number,
            },
        )

    def finish(self) -> None:
        """Nothing is pending."""


def _launch(name: str) -> dict[str, Value]:
    """Kind, name and configuration of a line of the timeline."""
    kind = _kind(name)
    if kind != "kernel":
        copied = _COPIED.fullmatch(name)
        size = copied["bytes"] if copied else None
        bare = copied["name"] if copied else name
        direction = _DIRECTION.search(name)
        return {
            "kind": kind,
            "name": bare,
            "short_name": bare,
            "size_bytes": int(size) if size else None,
            "copy_kind": f"{_MEMORY[direction['from']]}to{_MEMORY[direction['to']]}" if direction else None,
        }
    launched = _LAUNCHED.fullmatch(name)
    bare = launched["name"] if launched else name
    found: dict[str, Value] = {"kind": kind, "name": bare, "short_name": short_name(bare)}
    if launched:
        for shape in ("grid", "block"):
            sizes = _numbers(launched[shape])
            if len(sizes) == 3:
                found |= {f"{shape}_{axis}": size for axis, size in zip("xyz", sizes, strict=True)}
    return found


UNITRACE: Final = TextFormat(
    FORMAT,
    (
        rb"^[ \t]*(?:=== (?:(?:Device|API) Timing Summary|Kernel Properties) ===|== Kernel Metrics ==)"
        rb"|^[ \t]*Thread [0-9]+ Device [0-9]+ : .* \[ns\] [0-9]+ \(append\)"
    ),
    _UnitraceReader,
)
"""The format, for the list of text formats."""
