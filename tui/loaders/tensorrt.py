"""Reads the layer profiles of TensorRT: the log of ``trtexec --dumpProfile`` and the JSON of ``--exportProfile``.

Times are per inference: the mean over all iterations. Some layers (shape computations) take no GPU time: they have 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tui.loaders.base import Format, ProgressCallback, keep_going
from tui.loaders.collector import Collector
from tui.loaders.raw_input import read_json
from tui.loaders.text.section import MAX_STRAY_LINES, TextFormat
from tui.model.errors import FORMATS_HINT, ProftuiError
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.loaders.collector import Value
    from tui.loaders.input_file import InputFile
    from tui.loaders.text.block import Line
    from tui.loaders.text.section import Section
    from tui.model.profile import Profile

LOG_FORMAT: Final = Format(
    name="tensorrt-log",
    title="TensorRT layer profile (trtexec log)",
    recognized_by="the line '=== Profile (641 iterations ) ===' above a table of layers",
    feeds=("sessions", "devices", "layers", "issues"),
    record_with="trtexec --onnx=m.onnx --separateProfileRun --dumpProfile | tee run.log",
)
JSON_FORMAT: Final = Format(
    name="tensorrt-json",
    title="TensorRT layer profile (JSON)",
    recognized_by='a JSON list that begins with {"count": 641}, then layers with averageMs',
    feeds=("sessions", "layers", "issues"),
    record_with="trtexec --onnx=m.onnx --separateProfileRun --exportProfile=profile.json",
)

NS_PER_MS: Final = 1_000_000
_MAX_MS: Final = 10**12
"""The longest plausible time, over 30 years."""
_LONGEST: Final = 20_000
"""The longest row in characters."""

_PREFIX: Final = r"\s*(?:\[[0-9/: -]{6,30}\]\s)?(?:\[[A-Z]\]\s)?(?:\[TRT\]\s)?"
_TITLE: Final = re.compile(_PREFIX + r"=== Profile \((?P<iterations>[0-9]{1,12}) iterations ?\) ===\s*")
_RUN: Final = re.compile(r"\s*&&&& RUNNING TensorRT\.trtexec (?:\[[^\]]{1,40}\] )*# (?P<command>\S.*)")
_FACT: Final = re.compile(
    _PREFIX + r"(?P<name>Selected Device(?: ID)?|Compute Capability|SMs|Device Global Memory|Shared Memory per SM"
    r"|TensorRT version): (?P<value>\S.*)"
)
"""A line of trtexec on the GPU or the version."""
_MESSAGE: Final = re.compile(_PREFIX + r"(?P<text>.*\S)\s*")
_NAME, _TOTAL, _AVERAGE, _MEDIAN, _SHARE = "Layer", "total", "average", "median", "share"
_HEADINGS: Final = {
    "Layer": _NAME,
    "Time (ms)": _TOTAL,
    "Time(ms)": _TOTAL,
    "Avg. Time (ms)": _AVERAGE,
    "Avg.(ms)": _AVERAGE,
    "Median Time (ms)": _MEDIAN,
    "Median(ms)": _MEDIAN,
    "Time %": _SHARE,
    "Time(%)": _SHARE,
}
_LONGEST_HEADING: Final = 200
_HEADING: Final = re.compile("|".join(sorted(map(re.escape, _HEADINGS), key=len, reverse=True)))
_NUMBER: Final = r"-?[0-9]{1,15}(?:\.[0-9]{0,12})?(?:[eE][-+]?[0-9]{1,3})?|-?nan|-?inf"


@dataclass(slots=True)
class _Layer:
    """A layer as printed, times in milliseconds."""

    name: str
    total_ms: Decimal | None
    average_ms: Decimal | None
    median_ms: Decimal | None
    line: int | None


def _add_layers(collector: Collector, layers: list[_Layer], iterations: int | None) -> None:
    """Add the layers of one profile to the current session."""
    for position, layer in enumerate(layers):
        average = layer.average_ms
        if average is None and layer.total_ms is not None and iterations:
            average = layer.total_ms / iterations
        row: dict[str, Value] = {
            "position": position,
            "layer": layer.name,
            "phase": "forward",
            "executor": "tensorrt",
            "time_ns": _nanoseconds(average),
            "median_ns": _nanoseconds(layer.median_ms),
            "total_ns": _nanoseconds(layer.total_ms),
            "calls": iterations,
            "measured": True,
            "line": layer.line,
        }
        collector.add("layers", row)


def _nanoseconds(ms: Decimal | None) -> int | None:
    return None if ms is None or not 0 <= ms <= _MAX_MS else int((ms * NS_PER_MS).to_integral_value())


# --- the log ----------------------------------------------------------------------------------------------------------


class _Profile:
    """A table of layers below its title."""

    def __init__(self, collector: Collector, title: Line, iterations: int) -> None:
        self._collector = collector
        self._title = title
        self._iterations = iterations
        self._heading = ""
        self._columns: list[str] = []
        self._row: re.Pattern[str] | None = None
        self._layers: list[_Layer] = []
        self._total: re.Match[str] | None = None
        self._stray = 0
        self._broken = ""
        """The line before, if it may be the beginning of a row that was broken when pasted."""
        self._doubtful: tuple[re.Match[str], Line] | None = None
        """The row that this line is by itself, and the line, if it also is a complete row."""

    def take(self, line: Line) -> bool:
        text = _MESSAGE.fullmatch(line.text) if len(line.text) <= _LONGEST else None
        if text is None:
            return not line.text.strip() and self._total is None
        if self._total is not None or _TITLE.fullmatch(line.text):
            return False
        if self._row is None:
            # A pasted header can be broken into lines.
            self._heading = f"{self._heading} {text['text']}".strip()
            return self._header(self._heading) or self._may_continue_header()
        row_text = text["text"].lstrip()
        match, joined_match = (self._row.fullmatch(row) for row in (row_text, f"{self._broken} {row_text}"))
        if joined_match is not None and self._fits(joined_match) and not self._fits(match):
            self._doubtful, self._stray, self._broken = None, 0, ""
            self._add(joined_match, line)
            return True
        if self._add_doubtful():
            return False
        self._broken = "" if self._fits(match) else row_text
        if match is None:
            self._stray += 1
            return self._stray <= MAX_STRAY_LINES
        self._stray = 0
        if self._broken:
            self._doubtful = match, line
        else:
            self._add(match, line)
        return True

    def _fits(self, row: re.Match[str] | None) -> bool:
        """Return whether the average of a row is that of its total; otherwise a cell may be missing."""
        if row is None or not {_TOTAL, _AVERAGE} <= set(self._columns):
            return row is not None
        total, average = _decimal(row[_TOTAL]), _decimal(row[_AVERAGE])
        if total is None or average is None:
            return True
        return abs(total - self._iterations * average) <= _step(total) + self._iterations * _step(average)

    def _add_doubtful(self) -> bool:
        """Add the row in doubt; return whether it ends the table."""
        if self._doubtful is not None:
            self._add(*self._doubtful)
            self._doubtful = None
        return self._total is not None

    def _add(self, row: re.Match[str], line: Line) -> None:
        if row["name"].strip() == "Total":
            self._total = row
            return
        times = {name: _decimal(row[name]) for name in (_TOTAL, _AVERAGE, _MEDIAN) if name in self._columns}
        self._layers.append(
            _Layer(row["name"].strip(), times.get(_TOTAL), times.get(_AVERAGE), times.get(_MEDIAN), line.number)
        )

    def _may_continue_header(self) -> bool:
        """Return whether the text read so far can be the beginning of a header."""
        return len(self._heading) <= _LONGEST_HEADING and _HEADING.match(self._heading) is not None

    def _header(self, text: str) -> bool:
        """Read the header: the position of the name, and the columns of numbers."""
        columns = [_HEADINGS[heading] for heading in _HEADING.findall(text)]
        is_header = len(columns) == len(set(columns)) and _NAME in columns and {_TOTAL, _AVERAGE} & set(columns)
        if not is_header or _HEADING.sub("", text).strip() or _NAME not in (columns[0], columns[-1]):
            return False
        self._columns = columns
        name = r"(?P<name>\S.*?)" if columns[0] == _NAME else r"(?P<name>\S.*)"
        self._row = re.compile(
            r"\s+".join(name if column == _NAME else f"(?P<{column}>{_NUMBER})" for column in columns)
        )
        return True

    def close(self) -> None:
        """Add the layers, and compare them with the total."""
        self._add_doubtful()
        if not self._layers:
            self._collector.issue("warning", self._title.number, self._title.text, "no layers below this title")
            return
        _add_layers(self._collector, self._layers, self._iterations)
        if self._total is None:
            reason = "the table ends without a total: layers may be missing"
            self._collector.issue("warning", self._layers[-1].line, "", reason)
            return
        column = _TOTAL if _TOTAL in self._columns else _AVERAGE
        total = _decimal(self._total[column])
        times = [layer.total_ms if column == _TOTAL else layer.average_ms for layer in self._layers]
        layers_sum = sum((time for time in times if time is not None), Decimal(0))
        if total is not None and abs(total - layers_sum) > _step(total) * (len(times) + 1):
            reason = f"the layers add up to {layers_sum} ms, the table says {total} ms: rows may be missing"
            self._collector.issue("warning", self._layers[-1].line, "", reason)


def _step(value: Decimal) -> Decimal:
    """Return the step to which a printed number is rounded."""
    return Decimal(1).scaleb(value.as_tuple().exponent)  # type: ignore[arg-type]


def _decimal(text: str) -> Decimal | None:
    return None if "n" in text else Decimal(text)


_NO_NUMBER: Final = re.compile(rb'(?<=" : )-?(?:nan|inf)(?=\s*[,}])')
"""Shares of a run without GPU time, which are no JSON."""
_PASTED: Final = " \t,>#*|"
"""Characters around the elements of the JSON in a text."""
_OTHER_LINE: Final = re.compile(r"[\s\[>#*|]*")
_LONGEST_LIST: Final = 1 << 22
"""The longest line of JSON in characters."""


class _Elements:
    """The JSON of ``--exportProfile`` within a text: an element, or the whole list, in each line."""

    def __init__(self, open_session: Callable[[Line], None], collector: Collector) -> None:
        self._open_session = open_session
        self._collector = collector
        self._iterations: int | None = None
        self._layers: list[_Layer] = []
        self._first: Line | None = None

    def take(self, line: Line) -> bool:
        """Read a line; False at the end of the list, or at any other text."""
        elements = _elements(line.text)
        count = _count(elements[0]) if elements else None
        layers = [layer for row in elements if (layer := _json_layer(row)) is not None]
        if count is None and not layers:
            if self._first is not None and '"name"' in line.text:
                reason = "this looks like a layer of the JSON, but has no name or time: line skipped"
                self._collector.issue("warning", line.number, line.text, reason)
                return True
            return not elements and _OTHER_LINE.fullmatch(line.text) is not None
        if count is not None and self._first is not None:
            return False
        self._first = self._first or line
        self._iterations = count or self._iterations
        self._layers += [replace(layer, line=line.number) for layer in layers]
        return True

    def close(self) -> None:
        """Add the layers as a session."""
        if self._layers and self._first is not None:
            self._open_session(self._first)
            _add_layers(self._collector, self._layers, self._iterations)


def _elements(text: str) -> list[Any]:
    """Return the elements in a line of JSON; empty if it is something else."""
    text = text.strip(_PASTED)
    if len(text) > _LONGEST_LIST or "{" not in text:
        return []
    if not (text.startswith("[") and text.endswith("]")):
        text = f"[{text.lstrip('[').rstrip(']').strip(_PASTED)}]"
    try:
        rows = msgspec.json.decode(_NO_NUMBER.sub(b"null", text.encode()))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    return rows if isinstance(rows, list) else []


def _count(row: Any) -> int | None:
    """Return the number of iterations in the first element of the list."""
    count = row.get("count") if isinstance(row, dict) else None
    return count if type(count) is int and 0 < count < 1 << 53 else None


class _TrtexecReader:
    """Reads trtexec's lines in one text."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._facts: dict[str, str] = {}
        """What the log says of the run before its profile."""

    def begin(self, line: Line) -> Section | bool:
        """Begin a profile if the line is its title or a part of its JSON, or read a fact of the run."""
        elements = _Elements(self._open_session, self._collector)
        if "{" in line.text and elements.take(line):
            return elements
        if len(line.text) > _LONGEST:
            return False
        if run := _RUN.fullmatch(line.text):
            self._facts = {"command": run["command"]}
            return True
        if fact := _FACT.fullmatch(line.text):
            self._facts[fact["name"]] = fact["value"].rstrip()
            return True
        match = _TITLE.fullmatch(line.text)
        if match is None:
            return False
        self._open_session(line)
        return _Profile(self._collector, line, int(match["iterations"]))

    def _open_session(self, line: Line) -> None:
        """Open the session of a profile, with what the log says of its run."""
        session = self._collector.open_session(LOG_FORMAT.name, line.number, command=self._facts.get("command"))
        version = f" {self._facts['TensorRT version']}" if "TensorRT version" in self._facts else ""
        session.facts.update(tool="trtexec", framework=f"TensorRT{version}")
        if "Selected Device" in self._facts:
            self._collector.add("devices", _device(self._facts))

    def finish(self) -> None:
        """Do nothing: nothing is pending."""


def _device(facts: dict[str, str]) -> dict[str, Value]:
    """Return the GPU of a run."""
    device, sm_count = (facts.get(name, "") for name in ("Selected Device ID", "SMs"))
    return {
        "device": int(device) if re.fullmatch("[0-9]{1,4}", device) else None,
        "name": facts["Selected Device"],
        "compute_capability": facts.get("Compute Capability"),
        "sm_count": int(sm_count) if re.fullmatch("[0-9]{1,5}", sm_count) else None,
        "memory_bytes": _bytes(facts.get("Device Global Memory", "")),
        "shared_memory_per_sm_bytes": _bytes(facts.get("Shared Memory per SM", "")),
    }


def _bytes(text: str) -> int | None:
    match = re.fullmatch("([0-9]{1,9}) ([KM])iB", text)
    return int(match[1]) << (10 if match[2] == "K" else 20) if match else None


TENSORRT_LOG: Final = TextFormat(
    LOG_FORMAT,
    (
        rb"=== Profile \([0-9]+ iterations ?\) ===|^[ \t]*&&&& RUNNING TensorRT|^(?:\[[0-9/: -]{6,30}\] )?(?:\[I\] )?"
        rb"(?:Selected Device(?: ID)?|Compute Capability|SMs|Device Global Memory|Shared Memory per SM"
        rb'|TensorRT version): |\{\s*"count"\s*:\s*[0-9]+\s*\}|"timeMs"\s*:'
    ),
    _TrtexecReader,
)
"""The format, for the list of text formats."""


# --- the JSON ---------------------------------------------------------------------------------------------------------

_HEAD: Final = re.compile(rb'\s*\[\s*\{\s*(?:"count"\s*:\s*[0-9]+\s*\}|"name"\s*:\s*"[^"]*"\s*,\s*"timeMs"\s*:)')


class TensorRtJsonLoader:
    """Reads the JSON of ``trtexec --exportProfile``."""

    formats: Final = (JSON_FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Return certain by the first element: the number of iterations, or a layer."""
        return 0.95 if _HEAD.match(head) else 0.0

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read the profile.

        Raises:
            ProftuiError: It is not JSON, or holds no layers.
        """
        source.set_on_progress(on_progress)
        document = read_json(source, _NO_NUMBER)
        rows = document if isinstance(document, list) else []
        iterations = _count(rows[0]) if rows else None
        if rows and isinstance(rows[0], dict) and "count" in rows[0]:
            rows = rows[1:]
        layers = [layer for row in rows if (layer := _json_layer(row)) is not None]
        if not layers:
            raise ProftuiError(
                f"{source.display_name}: no profile found: a JSON list without layers of TensorRT", FORMATS_HINT
            )
        collector = Collector(source.name)
        collector.open_session(JSON_FORMAT.name, None).facts.update(tool="trtexec", framework="TensorRT")
        _add_layers(collector, layers, iterations)
        if len(layers) < len(rows):
            reason = f"{plural(len(rows) - len(layers), 'element')} without a name or a time skipped"
            collector.issue("warning", None, "", reason)
        collector.add_issues(source.notes)
        return collector.profile()


def _json_layer(row: Any) -> _Layer | None:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        return None
    total, average, median = (_json_number(row.get(key)) for key in ("timeMs", "averageMs", "medianMs"))
    return None if total is None and average is None else _Layer(row["name"], total, average, median, None)


def _json_number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return Decimal(str(value))
