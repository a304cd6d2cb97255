r"""Reads reports of Nsight Compute (``.ncu-rep``) without Nsight Compute.

A report is the magic ``NVR\0``, a header, and blocks: each a size, a header message and its entries (a size and a
message each). Names of metrics are indices of a string table, which is in the first block with results and continues
in later blocks. The messages are protobuf; their fields were found by comparing reports of 2020 to 2025 with the
output of NVIDIA's own reader.

The rows are those of the raw page as CSV, so that the same views show them. The report has no units: values are in the
base units that the names of metrics imply. Code that was compiled with -lineinfo, as Triton does, has a table of source
lines (DWARF), by which stall samples are also summed.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.base import Format, Report, keep_going
from tui.loaders.collector import Collector
from tui.loaders.ncu.ncu_csv import LONG
from tui.loaders.ncu.ncu_launches import TOOL, add_launches, base_unit, with_grid_columns
from tui.loaders.protobuf_wire import FieldKind, WireReader
from tui.loaders.raw_input import read_bytes
from tui.model.errors import WHAT_OPENS, ProftuiError
from tui.model.names import short_name
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.loaders.collector import Value
    from tui.loaders.input_file import InputFile
    from tui.loaders.protobuf_wire import Fields
    from tui.model.profile import Profile

FORMAT: Final = Format(
    name="ncu-report",
    title="Nsight Compute report",
    recognized_by="the first bytes NVR and a zero",
    feeds=("sessions", "devices", "activities", "metrics", "tool_figures", "tool_findings", "issues"),
    record_with="ncu --set full -o report ./app",
)

MAGIC: Final = b"NVR\0"
_SIZE: Final = struct.Struct("<I")
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")

# Fields of the header of a block.
_SOURCES, _RESULTS, _SESSION, _TEXTS, _PAYLOAD = 1, 2, 3, 4, 5
# Fields of a result.
_PROCESS, _MANGLED, _FUNCTION, _DEMANGLED, _GRID, _BLOCK, _METRICS, _SECTIONS, _RULES = 1, 5, 6, 7, 10, 11, 13, 17, 19
# Field of a metric: its values by instruction, each an address and a value.
_INSTANCES = 3
# Field of a source: the code of a module, as an ELF file.
_CODE = 4
# Fields of a session.
_HOST, _DEVICES = 3, 6

_STALL: Final = re.compile(r"smsp__pcsamp_warps_issue_stalled_(\w+)(?<!_not_issued)")
"""Samples of warps by the reason that they wait for, with a value for each instruction."""
_MAX_STALLS: Final = 1000
"""The maximum number of rows of stall samples of a kernel; those with the most samples are shown."""
_FUNCTION_ADDRESSES: Final = "launch__function_pcs"
"""The metric with the addresses of the kernel and of functions that it calls, in no known order."""
_RULE_TYPES: Final = {1: "INF", 2: "WRN", 3: "ERR", 4: "OPT"}
_LONGEST_RULE: Final = 4000
_UNITS: Final = (
    (re.compile(r"\.pct\b|pct_of_|_pct$|\.pct_"), "%"),
    (re.compile(r"^gpu__time|__time_duration|time_active"), "ns"),
    (re.compile(r"bytes.*per_second"), "byte/second"),
    (re.compile(r"__registers_per_thread"), "register/thread"),
    (re.compile(r"shared_mem_(?:per_block|config_size)|bytes\b|_bytes_"), "byte"),
    (re.compile(r"_khz$"), "kHz"),
    (re.compile(r"cycles_elapsed.*per_second|frequency"), "cycle/second"),
    (re.compile(r"cycles(?!.*per_)"), "cycle"),
)
"""Base units by the name of a metric, the first that fits."""


class NcuReportLoader:
    """Reads reports of Nsight Compute."""

    @property
    def formats(self) -> tuple[Format, ...]:
        """The one format."""
        return (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Return certain by the first bytes."""
        return 1.0 if head.startswith(MAGIC) else 0.0

    def load(self, source: InputFile, report: Report = keep_going) -> Profile:
        """Read every result.

        Raises:
            ProftuiError: The report is cut before its first result, or holds none.
        """
        source.report_to(report)
        reading = _ReportReader(WireReader.from_bytes(read_bytes(source)))
        reading.read()
        if not reading.results:
            why = f"damaged ({reading.damage})" if reading.damage else "without a result"
            raise ProftuiError(f"{source.called}: no profile found: an Nsight Compute report {why}", WHAT_OPENS)
        collector = Collector(source.name)
        for pid in dict.fromkeys(result.pid for result in reading.results):
            results = [result for result in reading.results if result.pid == pid]
            session = collector.open_session(FORMAT.name, None, pid=pid)
            session.facts.update(tool=TOOL, host=reading.host)
            rows = _rows(results, reading)
            add_launches(with_grid_columns(rows), collector)
            _add_stalls(results, reading.modules, collector)
            reason = (
                "kernels were replayed one by one: their times are of isolated kernels and excluded from run totals"
            )
            collector.issue("info", None, "", reason)
        if reading.damage:
            collector.issue(
                "error", None, "", f"the report is damaged: {reading.damage}; the data before this point was read"
            )
        for note in source.notes:
            collector.issue(note.severity, note.line, note.text, note.reason)
        return collector.profile(partial=source.cut_short)


def _add_stalls(results: list[_KernelResult], modules: list[_Module], collector: Collector) -> None:
    """Add the stall samples of each instruction, and by source line where the code names them; most first."""
    for number, result in enumerate(results):
        lines = _Functions(result, modules)
        by_line: Counter[tuple[str, str]] = Counter()
        by_instruction: Counter[tuple[str, str]] = Counter()
        for address, reason, samples in sorted(result.stalls):
            line = lines.line(address)
            by_instruction[lines.place(address), f"{reason} ({line})" if line else reason] += samples
            if line:
                by_line[line, reason] += samples
        for title, found in ((" by source line", by_line), ("", by_instruction)):
            most = [(*key, samples) for key, samples in found.most_common() if samples > 0]
            section = f"stall samples{title}, launch {number}: {short_name(result.kernel)}"
            for place, reason, samples in most[:_MAX_STALLS]:
                row: dict[str, Value] = {"tool": TOOL, "section": section, "name": f"{place} {reason}"}
                collector.add("tool_figures", {**row, "value": samples})
            if len(most) > _MAX_STALLS:
                left_out = f"{plural(len(most) - _MAX_STALLS, 'row')} with the fewest stall samples skipped"
                collector.issue("info", None, result.kernel, left_out)


@dataclass(slots=True)
class _KernelResult:
    """One kernel that was profiled."""

    pid: int
    kernel: str
    function: str
    """The mangled name."""
    grid: str | None
    block: str | None
    metrics: list[tuple[int, str]]
    """Number of the name, and the value as text."""
    sections: dict[str, str] = field(default_factory=dict)
    """The section that shows a metric, by its name."""
    rules: list[tuple[str, str, str, str, float | None]] = field(default_factory=list)
    """Section, name, type, text and estimated speedup (percent)."""
    stalls: list[tuple[int, str, int]] = field(default_factory=list)
    """Address of an instruction, stall reason, and samples."""
    addresses: list[int] = field(default_factory=list)
    """The addresses of its function, and of those that it calls, ascending."""


class _ReportReader:
    """Reads the results of a report."""

    def __init__(self, wire: WireReader) -> None:
        self._wire = wire
        self.texts: list[str] = []
        self.results: list[_KernelResult] = []
        self.modules: list[_Module] = []
        """The code of the kernels."""
        self.devices: list[dict[str, str]] = []
        """Attributes of each GPU, with ``name``."""
        self.host: str | None = None
        self.damage = ""

    def read(self) -> None:
        """Read block by block, up to the end or the first cut block."""
        at = len(MAGIC)
        try:
            at = self._end(at, "header")
            while at < self._wire.size:
                end = self._end(at, "header of a block")
                header = self._wire.split(at + _SIZE.size, end)
                at = self._block(header, end)
        except _CutError as error:
            self.damage = str(error)

    def _end(self, at: int, what: str) -> int:
        """Return the end of the message whose size is at a position."""
        if at + _SIZE.size > self._wire.size:
            raise _CutError(f"it ends inside the {what} at byte {at:,}")
        (size,) = _SIZE.unpack(self._wire.data[at : at + _SIZE.size])
        end: int = at + _SIZE.size + size
        if end > self._wire.size:
            raise _CutError(f"the {what} at byte {at:,} claims {size:,} bytes, past the end of the file")
        return end

    def _block(self, header: Fields, at: int) -> int:
        """Read the entries of a block; return the position of the next block."""
        for begin, end in zip(*header.positions(_TEXTS), strict=True):
            table = self._wire.split(int(begin), int(end))
            self.texts += [text or "" for text in self._wire.texts(*table.positions(1))]
        for begin, end in zip(*header.positions(_SESSION), strict=True):
            self._session(self._wire.split(int(begin), int(end)))
        stop = at + header.ints.get(_PAYLOAD, 0)
        first = header.ints.get(_SOURCES, 0)
        last = first + header.ints.get(_RESULTS, 0)
        position = 0
        while at < min(stop, self._wire.size):
            end = self._end(at, "entry")
            if first <= position < last:
                self.results.append(self._result(self._wire.split(at + _SIZE.size, end)))
            elif position < first:
                codes = self._wire.split(at + _SIZE.size, end).positions(_CODE)
                self.modules += [_Module(self._wire.data[begin:stop]) for begin, stop in zip(*codes, strict=True)]
            position, at = position + 1, end
        if stop > self._wire.size:
            raise _CutError("its last block is truncated")
        return stop

    def _spans(self, fields: Fields, number: int) -> Iterator[Fields]:
        for begin, end in zip(*fields.positions(number), strict=True):
            yield self._wire.split(int(begin), int(end))

    def _text(self, fields: Fields, number: int) -> str:
        begins, ends = fields.positions(number)
        return self._wire.text(int(begins[0]), int(ends[0])) if len(begins) else ""

    def _result(self, fields: Fields) -> _KernelResult:
        kernel = self._text(fields, _DEMANGLED) or self._text(fields, _FUNCTION) or self._text(fields, _MANGLED)
        metrics, stalls, addresses = [], [], []
        for metric in self._spans(fields, _METRICS):
            number, value = metric.ints.get(1, 0), self._value(metric)
            if value is not None:
                metrics.append((number, value))
            name = self.texts[number] if 0 <= number < len(self.texts) else ""
            if reason := _STALL.fullmatch(name):
                stalls += [(at, reason[1], samples) for at, samples in self._by_instruction(metric)]
            elif name == _FUNCTION_ADDRESSES:
                addresses = sorted(address % (1 << 64) for _, address in self._by_instruction(metric))
        grid, block_size = self._shape(fields, _GRID), self._shape(fields, _BLOCK)
        function = self._text(fields, _MANGLED)
        result = _KernelResult(fields.ints.get(_PROCESS, 0), kernel, function, grid, block_size, metrics)
        result.stalls, result.addresses = stalls, addresses
        for section in self._spans(fields, _SECTIONS):
            title = self._text(section, 2) or self._text(section, 1)
            for table in self._spans(section, 4):
                for shown in self._spans(table, 2):
                    result.sections.setdefault(self._text(shown, 1), title)
        for rule in self._spans(fields, _RULES):
            self._rule(rule, result)
        return result

    def _by_instruction(self, metric: Fields) -> list[tuple[int, int]]:
        """Return the addresses of instructions with a value of a metric, and the value."""
        found = []
        for instance in self._spans(metric, _INSTANCES):
            pair = [next((part.ints.get(5) for part in self._spans(instance, number)), None) for number in (1, 2)]
            if pair[0] is not None and pair[1] is not None:
                found.append((pair[0] % (1 << 64), pair[1]))
        return found

    def _shape(self, fields: Fields, number: int) -> str | None:
        for shape in self._spans(fields, number):
            return f"({shape.ints.get(1, 0)}, {shape.ints.get(2, 0)}, {shape.ints.get(3, 0)})"
        return None

    def _value(self, metric: Fields) -> str | None:
        """Return the value of a metric as text; None for a metric with instances only."""
        begins, ends = metric.positions(2)
        if not len(begins):
            return None
        begin, end = int(begins[0]), int(ends[0])
        data = bytes(self._wire.data[begin:end])
        if not data:
            return None
        kind, wire = data[0] >> 3, data[0] & 7
        if wire == 2:
            return self._text(self._wire.split(begin, end), kind)
        if wire == 5 and len(data) == 1 + _FLOAT.size:
            return repr(_FLOAT.unpack(data[1:])[0])
        if wire == 1 and len(data) == 1 + _DOUBLE.size:
            return repr(_DOUBLE.unpack(data[1:])[0])
        found = self._wire.split(begin, end).ints.get(kind)
        return None if found is None else str(found % (1 << 64))

    def _rule(self, rule: Fields, result: _KernelResult) -> None:
        name = self._text(rule, 2) or self._text(rule, 1)
        section = self._text(rule, 4)
        for outcome in self._spans(rule, 3):
            for body in self._spans(outcome, 1):
                begins, ends = body.positions(10)
                estimates = self._wire.messages(begins, ends, {2: FieldKind.DOUBLE})
                speedup = float(estimates.values(2)[0]) if estimates.count and estimates.has(2)[0] else None
                for message in self._spans(body, 1):
                    kind = _RULE_TYPES.get(message.ints.get(2, 0))
                    text = self._text(message, 1)[:_LONGEST_RULE]
                    if text and kind is not None:
                        result.rules.append((section, name, kind, text, speedup))

    def _session(self, session: Fields) -> None:
        for host in self._spans(session, _HOST):
            self.host = self._text(host, 5) or self.host
        for device in self._spans(session, _DEVICES):
            attributes = {
                self._text(metric, 1): value
                for metric in self._spans(device, 3)
                if (value := self._value(metric)) is not None
            }
            attributes.setdefault("device__attribute_display_name", self._text(device, 2))
            self.devices.append(attributes)


_HEADER_SIZE, _SECTION, _SYMBOL = 64, struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
"""Of ELF files of 64 bits: the size of the header, and the layouts of a section and of a symbol."""
_RELOCATION: Final = struct.Struct("<QII")
_ADDRESS: Final = struct.Struct("<Q")
_LARGEST_TABLE: Final = 1 << 22
"""Bytes of a table of lines that are read."""
_NO_TABLE: Final = (struct.error, ValueError, IndexError, ZeroDivisionError)
"""The exceptions for code that is damaged."""
_LONGEST_NUMBER: Final = 70
"""Bits of a number of variable length."""
_LINE_VERSIONS: Final = (2, 3, 4)
"""Versions of DWARF's table of lines with this layout."""
_WITH_OPERATIONS: Final = 4
"""The first version whose header has the maximum number of operations of an instruction."""
_COPY, _ADVANCE_ADDRESS, _ADVANCE_LINE, _SET_FILE, _ADVANCE_MOST, _ADVANCE_FIXED = 1, 2, 3, 4, 8, 9
_END, _SET_ADDRESS = 1, 2
"""Operations of a table of lines, and extended ones."""


@dataclass(slots=True)
class _Lines:
    """The source lines of a function."""

    offsets: list[int]
    """Offsets of instructions at which a line begins, ascending."""
    names: list[str | None]
    """The file and the line, as ``gemm.cu:12``; None where no line is known."""
    address: int
    """Where the function was when the report was made; 0 if the code does not tell."""
    size: int

    def line(self, offset: int) -> str | None:
        """Return the line of an instruction."""
        at = bisect_right(self.offsets, offset) - 1
        return self.names[at] if at >= 0 and offset < self.size else None


class _Functions:
    """The function and the line of the instructions of a kernel."""

    def __init__(self, result: _KernelResult, modules: list[_Module]) -> None:
        self._addresses = result.addresses or [min((address for address, _, _ in result.stalls), default=0)]
        tables = [module.lines for module in modules] if result.stalls else []
        self._found = [(own.address, own) for table in tables for own in table.values() if own.address]
        named = [table[name] for table in tables if (name := f".text.{result.function}") in table]
        if len(named) == len(result.addresses) == 1 and not named[0].address:
            self._found.append((result.addresses[0], named[0]))
        self._found.sort(key=lambda found: found[0])
        self._begins = [begin for begin, _ in self._found]

    def line(self, address: int) -> str | None:
        """Return the source line of an instruction; None if unknown."""
        at = bisect_right(self._begins, address) - 1
        return self._found[at][1].line(address - self._begins[at]) if at >= 0 else None

    def place(self, address: int) -> str:
        """Return the offset of an instruction in its function, or its address if that is unknown."""
        number = bisect_right(self._addresses, address) - 1
        if number < 0:
            return f"0x{address:x}"
        offset = f"+0x{address - self._addresses[number]:04x}"
        return offset if len(self._addresses) == 1 else f"function {number} {offset}"


class _Module:
    """The code of a module, an ELF file with a table of source lines if it was compiled with -lineinfo."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    @cached_property
    def lines(self) -> dict[str, _Lines]:
        """The source lines of each function, by the name of its section."""
        found: dict[str, _Lines] = {}
        with suppress(*_NO_TABLE):
            self._read(found)
        return found

    def _read(self, found: dict[str, _Lines]) -> None:
        (sections,) = struct.unpack_from("<Q", self._data, 40)
        count, names = struct.unpack_from("<HH", self._data, 60)
        rows = [_SECTION.unpack_from(self._data, sections + _HEADER_SIZE * number) for number in range(count)]
        contents = [bytes(self._data[row[4] : row[4] + row[5]]) if row[1] != 8 else b"" for row in rows]
        titles = [contents[names][row[0] :].split(b"\0", 1)[0].decode("utf-8", "replace") for row in rows]
        numbers = {title: number for number, title in enumerate(titles)}
        table = numbers.get(".debug_line")
        if table is None or len(contents[table]) > _LARGEST_TABLE or ".symtab" not in numbers:
            return
        symbols = contents[numbers[".symtab"]]
        # Which function an address in the table is of, and its offset there.
        places: dict[int, tuple[int, int]] = {}
        addresses: dict[int, int] = {}
        for title, width in ((".rel.debug_line", 16), (".rela.debug_line", 24)):
            relocations = contents[numbers[title]] if title in numbers else b""
            for at in range(0, len(relocations) - width + 1, width):
                position, _, symbol = _RELOCATION.unpack_from(relocations, at)
                *_, section, value, _ = _SYMBOL.unpack_from(symbols, _SYMBOL.size * symbol)
                stored = relocations[at + 16 : at + width] or contents[table][position : position + 8]
                (offset,) = _ADDRESS.unpack(stored)
                if value >= rows[section][5]:
                    # Code as it was loaded: the value is the address of the function, and so is what is stored.
                    addresses[section] = value
                    offset -= value if offset >= value else 0
                else:
                    offset += value
                places[position] = section, offset
        by_section: dict[int, list[tuple[int, str | None]]] = defaultdict(list)
        for section, offset, line in _rows_of_lines(contents[table], places):
            if 0 <= section < count:
                by_section[section].append((offset, line))
        for section, own in by_section.items():
            own.sort(key=lambda row: row[0])
            offsets, names_of_lines = [row[0] for row in own], [row[1] for row in own]
            found[titles[section]] = _Lines(offsets, names_of_lines, addresses.get(section, 0), rows[section][5])


class _Cursor:
    """Reads numbers and texts one after the other."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def number(self, size: int) -> int:
        self.at += size
        if self.at > len(self.data):
            raise IndexError
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def varint(self, *, signed: bool = False) -> int:
        value = shift = 0
        while shift < _LONGEST_NUMBER:
            byte = self.number(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value - (1 << shift) if signed and byte & 64 else value
        raise ValueError

    def text(self) -> str:
        end = self.data.index(b"\0", self.at)
        text, self.at = self.data[self.at : end].decode("utf-8", "replace"), end + 1
        return text


def _rows_of_lines(data: bytes, places: dict[int, tuple[int, int]]) -> Iterator[tuple[int, int, str | None]]:
    """Yield section, offset and line of each row of DWARF tables of lines; the line is None at the end of a part."""
    at = 0
    while at < len(data):
        cursor = _Cursor(data, at)
        at = cursor.number(4) + cursor.at
        version, body = cursor.number(2), cursor.number(4) + cursor.at
        if version not in _LINE_VERSIONS:
            continue
        least = cursor.number(2 if version >= _WITH_OPERATIONS else 1) & 255
        cursor.number(1)
        base, span, first = (cursor.number(1) ^ 128) - 128, cursor.number(1), cursor.number(1)
        operands = [cursor.number(1) for _ in range(first - 1)]
        folders, files = list(iter(cursor.text, "")), []
        while name := cursor.text():
            folder, _, _ = (cursor.varint() for _ in range(3))
            files.append(f"{folders[folder - 1]}/{name}" if 0 < folder <= len(folders) else name)
        named = {path: path.replace("\\", "/").rpartition("/")[2] for path in files}
        unique = Counter(named.values())
        shown = ["?", *(named[path] if unique[named[path]] == 1 else path for path in files)]
        cursor.at = body
        section, offset, file, line = -1, 0, 1, 1
        while cursor.at < min(at, len(data)):
            code, is_row = cursor.number(1), False
            if code >= first:
                offset += (code - first) // span * least
                line += base + (code - first) % span
                is_row = True
            elif code == 0:
                size = cursor.varint()
                end, extended = cursor.at + size, cursor.number(1)
                if extended == _END:
                    yield section, offset, None
                    section, offset, file, line = -1, 0, 1, 1
                elif extended == _SET_ADDRESS:
                    section, offset = places.get(cursor.at, (-1, 0))
                cursor.at = end
            elif code == _COPY:
                is_row = True
            elif code == _ADVANCE_ADDRESS:
                offset += cursor.varint() * least
            elif code == _ADVANCE_LINE:
                line += cursor.varint(signed=True)
            elif code == _SET_FILE:
                file = cursor.varint()
            elif code == _ADVANCE_MOST:
                offset += (255 - first) // span * least
            elif code == _ADVANCE_FIXED:
                offset += cursor.number(2)
            else:
                for _ in range(operands[code - 1]):
                    cursor.varint()
            if is_row:
                yield section, offset, f"{shown[file] if file < len(shown) else '?'}:{line}"


class _CutError(Exception):
    """The report is truncated; the message gives the position."""


def _unit(metric: str) -> str:
    return next((unit for pattern, unit in _UNITS if pattern.search(metric)), "")


def _rows(results: list[_KernelResult], reading: _ReportReader) -> pl.DataFrame:
    """Return the results as rows in long form, with values as numbers in base units."""
    columns: dict[str, list[str | None]] = {name: [] for name in LONG if name != "line"}

    def add(launch: dict[str, str | None], **more: str | None) -> None:
        for name, column in columns.items():
            column.append(more.get(name, launch.get(name)))

    for number, result in enumerate(results):
        names = {
            reading.texts[at] if at < len(reading.texts) else f"metric {at}": value for at, value in result.metrics
        }
        device = names.get("device__attribute_device_index", "0")
        major, minor = (names.get(f"device__attribute_compute_capability_{part}") for part in ("major", "minor"))
        own = next(
            (
                attributes
                for attributes in reading.devices
                if attributes.get("device__attribute_device_index", "0") == device
            ),
            {},
        )
        major = major or own.get("device__attribute_compute_capability_major")
        minor = minor or own.get("device__attribute_compute_capability_minor")
        launch = {
            "id": str(number),
            "pid": str(result.pid),
            "kernel": result.kernel,
            "grid": result.grid,
            "block": result.block,
            "device": device,
            "cc": f"{_whole(major)}.{_whole(minor)}" if major and minor else None,
        }
        for name, value in {**own, **names}.items():
            add(launch, metric=name, value=value, unit=_unit(name), section=result.sections.get(name))
        for section, name, kind, text, speedup in result.rules:
            estimate = f"{speedup:.4g}" if speedup is not None else None
            add(launch, section=section, rule=name, rule_type=kind, rule_text=text, speedup=estimate)
    rows = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String)).with_columns(
        pl.lit(None, pl.UInt32).alias("line")
    )
    rows = _with_blocks(rows)
    # Results may have no metrics: without a unit Polars would give the columns another type.
    units = {unit: base_unit(unit) for unit in ("", *rows["unit"].unique())}
    number_of = pl.col("value").cast(pl.Float64, strict=False)
    factor = rows["unit"].replace_strict(list(units), [units[unit][0] for unit in units], return_dtype=pl.Float64)
    base = rows["unit"].replace_strict(list(units), [units[unit][1] for unit in units], return_dtype=pl.String)
    return rows.with_columns(
        base.alias("base_unit"),
        (pl.when(number_of.is_finite()).then(number_of) * factor).alias("value_number"),
    )


def _whole(text: str) -> str:
    return text.partition(".")[0]


def _with_blocks(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the grid in blocks; some reports count threads there, which the metric of all threads shows."""
    blocks = rows.filter(pl.col("metric") == "launch__grid_size").select(
        "id", pl.col("value").cast(pl.Float64, strict=False).alias("_blocks")
    )
    threads = pl.col("grid").str.extract_all("[0-9]+").list.eval(pl.element().cast(pl.Int64, strict=False)).list
    sizes = pl.col("block").str.extract_all("[0-9]+").list.eval(pl.element().cast(pl.Int64, strict=False)).list
    counted = threads.get(0) * threads.get(1) * threads.get(2)
    divided = [(threads.get(axis) + sizes.get(axis) - 1) // sizes.get(axis) for axis in range(3)]
    in_threads = (counted != pl.col("_blocks")) & (divided[0] * divided[1] * divided[2] == pl.col("_blocks"))
    return (
        rows.join(blocks.unique("id"), on="id", how="left", maintain_order="left")
        .with_columns(
            pl.when(in_threads.fill_null(False))
            .then(pl.format("({}, {}, {})", *divided))
            .otherwise("grid")
            .alias("grid")
        )
        .drop("_blocks")
    )
