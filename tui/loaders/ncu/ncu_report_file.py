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
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.loaders.base import Format, ProgressCallback, keep_going
from tui.loaders.collector import Collector
from tui.loaders.ncu.ncu_csv import LONG
from tui.loaders.ncu.ncu_launches import (
    ISOLATED_TIMES,
    TOOL,
    add_launches,
    base_unit,
    grids_in_blocks,
    implied_unit,
    with_grid_columns,
)
from tui.loaders.protobuf_wire import BYTES, FIXED32, FIXED64, VARINT, FieldKind, WireReader
from tui.loaders.raw_input import read_bytes
from tui.model.errors import FORMATS_HINT, ProftuiError
from tui.model.names import short_name
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.loaders.collector import Value
    from tui.loaders.digits import Mask
    from tui.loaders.input_file import InputFile
    from tui.loaders.protobuf_wire import Fields, Integers
    from tui.model.profile import Profile

FORMAT: Final = Format(
    name="ncu-report",
    title="Nsight Compute report",
    recognized_by="the first bytes NVR and a zero, also compressed (.ncu-repz)",
    feeds=("sessions", "devices", "activities", "metrics", "tool_figures", "tool_findings", "issues"),
    record_with="ncu --set full -o report ./app",
)

MAGIC: Final = b"NVR\0"
_SIZE: Final = struct.Struct("<I")

# Fields of the header of a block.
_SOURCES, _RESULTS, _SESSION, _TEXTS, _PAYLOAD, _PROCESS = 1, 2, 3, 4, 5, 6
# Fields of a result; Nsight Compute prints the process of the block, whose number may differ.
_PID, _MANGLED, _FUNCTION, _DEMANGLED, _GRID, _BLOCK, _METRICS, _SECTIONS, _RULES = 1, 5, 6, 7, 10, 11, 13, 17, 19
_CONTEXT, _STREAM = 22, 23
# Field of a metric: its values by instruction, each an address and a value.
_INSTANCES = 3
# Field of a source: the code of a module, as an ELF file.
_CODE = 4
# Fields of a session.
_HOST, _DEVICES, _VERSION = 3, 6, 8
_VERSIONS: Final = {"CUDA": "cuda_version", "Display Driver": "driver_version", "Nsight Compute Target": "tool_version"}

_STALL: Final = re.compile(r"smsp__pcsamp_warps_issue_stalled_(\w+)(?<!_not_issued)")
"""Samples of warps by the reason that they wait for, with a value for each instruction."""
_MAX_STALLS: Final = 1000
"""The maximum number of rows of stall samples of a kernel; those with the most samples are shown."""
_FUNCTION_ADDRESSES: Final = "launch__function_pcs"
"""The metric with the addresses of the kernel and of functions that it calls, in no known order."""
_RULE_TYPES: Final = {1: "INF", 2: "WRN", 3: "ERR", 4: "OPT"}
_SPEEDUP_TYPES: Final = {1: "local", 2: "global"}
_LONGEST_RULE: Final = 4000


class NcuReportLoader:
    """Reads reports of Nsight Compute."""

    formats: Final = (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Return certain by the first bytes."""
        return 1.0 if head.startswith(MAGIC) else 0.0

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read every result.

        Raises:
            ProftuiError: The report is cut before its first result, or holds none.
        """
        source.set_on_progress(on_progress)
        reading = _ReportReader(WireReader.from_bytes(read_bytes(source)))
        reading.read()
        if not reading.results:
            problem = f"damaged ({reading.damage})" if reading.damage else "without a result"
            raise ProftuiError(
                f"{source.display_name}: no profile found: an Nsight Compute report {problem}", FORMATS_HINT
            )
        collector = Collector(source.name)
        results_by_process: defaultdict[tuple[int | None, str], list[_KernelResult]] = defaultdict(list)
        for result in reading.results:
            results_by_process[result.pid, result.command].append(result)
        for (pid, command), results in results_by_process.items():
            session = collector.open_session(FORMAT.name, None, pid=pid, command=command or None)
            session.facts.update(tool=TOOL, **reading.facts)
            rows = _rows(results, reading)
            add_launches(with_grid_columns(rows), collector)
            _add_stalls(results, reading.modules, collector)
            collector.issue("info", None, "", ISOLATED_TIMES)
        if reading.damage:
            collector.issue(
                "error", None, "", f"the report is damaged: {reading.damage}; the data before this point was read"
            )
        collector.add_issues(source.notes)
        return collector.profile(partial=source.cut_short)


def _add_stalls(results: list[_KernelResult], modules: list[_Module], collector: Collector) -> None:
    """Add the stall samples of each instruction, and by source line where the code names them; most first."""
    tables = [module.lines for module in modules] if any(result.stalls for result in results) else []
    placed = [function for table in tables for function in table.values() if function.address]
    placed.sort(key=lambda function: function.address)
    for number, result in enumerate(results):
        locator = _InstructionLocator(result, tables, placed)
        by_line: Counter[tuple[str, str]] = Counter()
        by_instruction: Counter[tuple[str, str]] = Counter()
        for address, reason, samples in sorted(result.stalls):
            line = locator.line(address)
            by_instruction[locator.location(address), f"{reason} ({line})" if line else reason] += samples
            if line:
                by_line[line, reason] += samples
        for title, counts in ((" by source line", by_line), ("", by_instruction)):
            rows = [(*key, samples) for key, samples in counts.most_common() if samples > 0]
            section = f"stall samples{title}, launch {number}: {short_name(result.kernel)}"
            for location, reason, samples in rows[:_MAX_STALLS]:
                row: dict[str, Value] = {"tool": TOOL, "section": section, "name": f"{location} {reason}"}
                collector.add("tool_figures", {**row, "value": samples})
            if len(rows) > _MAX_STALLS:
                skipped = f"{plural(len(rows) - _MAX_STALLS, 'row')} with the fewest stall samples skipped"
                collector.issue("info", None, result.kernel, skipped)


@dataclass(slots=True)
class _KernelResult:
    """One kernel that was profiled."""

    pid: int | None
    command: str
    """The path of the program; empty if unknown."""
    kernel: str
    function: str
    """The mangled name."""
    grid: str | None
    block: str | None
    context: int | None
    stream: int | None
    metrics: list[tuple[int, str]] = field(default_factory=list)
    """Number of the name, and the value as text."""
    sections: dict[str, str] = field(default_factory=dict)
    """The section that shows a metric, by its name."""
    rules: list[tuple[str | None, ...]] = field(default_factory=list)
    """Section, name, type, text, estimated speedup (percent) and its type."""
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
        self._result_fields: list[Fields] = []
        self.modules: list[_Module] = []
        """The code of the kernels."""
        self.devices: list[dict[str, str]] = []
        """Attributes of each GPU, with ``name``."""
        self.facts: dict[str, str] = {}
        self.damage = ""

    def read(self) -> None:
        """Read block by block, up to the end or the first cut block."""
        position = len(MAGIC)
        try:
            position = self._message_end(position, "header")
            while position < self._wire.size:
                end = self._message_end(position, "header of a block")
                header = self._wire.split(position + _SIZE.size, end)
                position = self._read_block(header, end)
        except _CutError as error:
            self.damage = str(error)
        self._read_metrics()
        self._read_sections()

    def _message_end(self, position: int, label: str) -> int:
        """Return the end of the message whose size is at a position."""
        if position + _SIZE.size > self._wire.size:
            raise _CutError(f"it ends inside the {label} at byte {position:,}")
        (size,) = _SIZE.unpack(self._wire.data[position : position + _SIZE.size])
        end: int = position + _SIZE.size + size
        if end > self._wire.size:
            raise _CutError(f"the {label} at byte {position:,} claims {size:,} bytes, past the end of the file")
        return end

    def _read_block(self, header: Fields, offset: int) -> int:
        """Read the entries of a block; return the position of the next block."""
        for begin, end in zip(*header.positions(_TEXTS), strict=True):
            table = self._wire.split(int(begin), int(end))
            self.texts += [text or "" for text in self._wire.texts(*table.positions(1))]
        for begin, end in zip(*header.positions(_SESSION), strict=True):
            self._read_session(self._wire.split(int(begin), int(end)))
        size = header.ints.get(_PAYLOAD, 0)
        if size < 0:
            raise _CutError(f"the block at byte {offset:,} claims {size:,} bytes")
        block_end = offset + size
        process = next(self._spans(header, _PROCESS), None)
        first_result = header.ints.get(_SOURCES, 0)
        end_result = first_result + header.ints.get(_RESULTS, 0)
        entry = 0
        while offset < min(block_end, self._wire.size):
            end = self._message_end(offset, "entry")
            if first_result <= entry < end_result:
                fields = self._wire.split(offset + _SIZE.size, end)
                self._result_fields.append(fields)
                self.results.append(self._result(fields, process))
            elif entry < first_result:
                codes = self._wire.split(offset + _SIZE.size, end).positions(_CODE)
                self.modules += [
                    _Module(self._wire.data[begin:code_end]) for begin, code_end in zip(*codes, strict=True)
                ]
            entry, offset = entry + 1, end
        if block_end > self._wire.size:
            raise _CutError("its last block is truncated")
        return block_end

    def _spans(self, fields: Fields, number: int) -> Iterator[Fields]:
        for begin, end in zip(*fields.positions(number), strict=True):
            yield self._wire.split(int(begin), int(end))

    def _text(self, fields: Fields, number: int) -> str:
        begins, ends = fields.positions(number)
        return self._wire.text(int(begins[0]), int(ends[0])) if len(begins) else ""

    def _result(self, fields: Fields, process: Fields | None) -> _KernelResult:
        function = self._text(fields, _MANGLED)
        result = _KernelResult(
            process.ints.get(1) if process else fields.ints.get(_PID),
            self._text(process, 3).rstrip("\0") if process else "",
            self._text(fields, _DEMANGLED) or self._text(fields, _FUNCTION) or function,
            function,
            self._shape(fields, _GRID),
            self._shape(fields, _BLOCK),
            fields.ints.get(_CONTEXT),
            fields.ints.get(_STREAM),
        )
        for rule in self._spans(fields, _RULES):
            self._read_rule(rule, result)
        return result

    def _read_metrics(self) -> None:
        """Read the values of the metrics of all results at once, and those by instruction of some metrics."""
        owner, begins, ends = _positions(self._result_fields, _METRICS)
        kinds = {1: FieldKind.INT, 2: FieldKind.SPAN, _INSTANCES: FieldKind.SPAN}
        metrics = self._wire.messages(begins, ends, kinds)
        numbers, values = metrics.ints(1), self._values(*metrics.spans(2).last_by_owner(metrics.count))
        for result, number, value in zip(owner.tolist(), numbers.tolist(), values, strict=True):
            if value is not None:
                self.results[result].metrics.append((number, value))
        stalls = {number: match[1] for number, name in enumerate(self.texts) if (match := _STALL.fullmatch(name))}
        addresses = [number for number, name in enumerate(self.texts) if name == _FUNCTION_ADDRESSES]
        instances = metrics.spans(_INSTANCES)
        wanted = np.flatnonzero(np.isin(numbers[instances.owner], [*stalls, *addresses]))
        first, second, is_known = self._instruction_values(instances.begin[wanted], instances.end[wanted])
        rows = instances.owner[wanted][is_known]
        for result, number, address, value in zip(
            owner[rows].tolist(), numbers[rows].tolist(), first.tolist(), second.tolist(), strict=True
        ):
            if number in stalls:
                self.results[result].stalls.append((address % (1 << 64), stalls[number], value))
            else:
                self.results[result].addresses.append(value % (1 << 64))
        for kernel_result in self.results:
            kernel_result.addresses.sort()

    def _instruction_values(self, begins: Integers, ends: Integers) -> tuple[Integers, Integers, Mask]:
        """Return the addresses of instructions and the values there of a metric, and which instances have both."""
        pairs = self._wire.messages(begins, ends, {1: FieldKind.SPAN, 2: FieldKind.SPAN})
        numbers = []
        for number in (1, 2):
            begin, end = pairs.spans(number).last_by_owner(pairs.count)
            numbers.append(self._wire.messages(np.maximum(begin, 0), np.maximum(end, 0), {5: FieldKind.INT}))
        is_known = numbers[0].has(5) & numbers[1].has(5)
        return numbers[0].ints(5)[is_known], numbers[1].ints(5)[is_known], is_known

    def _read_sections(self) -> None:
        """Read which section shows each metric of all results, the first of several."""
        owner, begins, ends = _positions(self._result_fields, _SECTIONS)
        sections = self._wire.messages(begins, ends, dict.fromkeys((1, 2, 4), FieldKind.SPAN))
        names, titles = (self._wire.texts(*sections.spans(number).last_by_owner(sections.count)) for number in (1, 2))
        tables = sections.spans(4)
        rows = self._wire.messages(tables.begin, tables.end, {2: FieldKind.SPAN}).spans(2)
        shown = self._wire.messages(rows.begin, rows.end, {1: FieldKind.SPAN})
        metrics = self._wire.texts(*shown.spans(1).last_by_owner(shown.count))
        for section, metric in zip(tables.owner[rows.owner].tolist(), metrics, strict=True):
            title = titles[section] or names[section] or ""
            self.results[owner[section]].sections.setdefault(metric or "", title)

    def _shape(self, fields: Fields, number: int) -> str | None:
        for shape in self._spans(fields, number):
            return f"({shape.ints.get(1, 0)}, {shape.ints.get(2, 0)}, {shape.ints.get(3, 0)})"
        return None

    def _values(self, begins: Integers, ends: Integers) -> list[str | None]:
        """Return the values of metrics as texts, by the positions of messages with one field of any type.

        It is None without a position, as for a metric with instances only.
        """
        begins, ends = np.maximum(begins, 0), np.maximum(ends, 0)
        octets = self._wire.octets
        wires = np.where(ends > begins, octets[begins].astype(np.int8) & 7, -1)
        sizes = ends - begins
        values: list[str | None] = [None] * len(begins)
        for wire, dtype in ((FIXED32, np.dtype("<f4")), (FIXED64, np.dtype("<f8"))):
            rows = np.flatnonzero((wires == wire) & (sizes == 1 + dtype.itemsize))
            data = octets[begins[rows, None] + 1 + np.arange(dtype.itemsize)]
            for row, number in zip(rows.tolist(), data.view(dtype).astype(np.float64).ravel().tolist(), strict=True):
                values[row] = repr(number)
        rows = np.flatnonzero((wires == VARINT) | (wires == BYTES))
        numbers, number_ends = self._wire.varints(begins[rows] + 1)
        is_text = wires[rows] == BYTES
        value_ends = np.where(is_text, number_ends + numbers, number_ends)
        for row, number, is_string, text_begin, value_end in zip(
            *(column.tolist() for column in (rows, numbers, is_text, number_ends, value_ends)), strict=True
        ):
            if text_begin <= value_end <= ends[row]:
                values[row] = self._wire.text(text_begin, value_end) if is_string else str(number % (1 << 64))
        return values

    def _read_rule(self, rule: Fields, result: _KernelResult) -> None:
        name = self._text(rule, 2) or self._text(rule, 1)
        section = self._text(rule, 4)
        for outcome in self._spans(rule, 3):
            for body in self._spans(outcome, 1):
                estimates = self._wire.messages(*body.positions(10), {1: FieldKind.INT, 2: FieldKind.DOUBLE})
                speedup: tuple[str | None, str | None] = (None, None)
                if estimates.count and estimates.has(2)[0]:
                    speedup = f"{estimates.values(2)[0]:.4g}", _SPEEDUP_TYPES.get(int(estimates.ints(1)[0]))
                for message in self._spans(body, 1):
                    kind = _RULE_TYPES.get(message.ints.get(2, 0))
                    text = self._text(message, 1)[:_LONGEST_RULE]
                    if text and kind is not None:
                        result.rules.append((section, name, kind, text, *speedup))

    def _read_session(self, session: Fields) -> None:
        for host in self._spans(session, _HOST):
            if name := self._text(host, 5):
                self.facts["host"] = name
        for version in self._spans(session, _VERSION):
            if column := _VERSIONS.get(self._text(version, 1).removesuffix(" Version")):
                self.facts[column] = self._text(version, 2).partition(" ")[0]
        for device in self._spans(session, _DEVICES):
            metrics = self._wire.messages(*device.positions(3), {1: FieldKind.SPAN, 2: FieldKind.SPAN})
            names = self._wire.texts(*metrics.spans(1).last_by_owner(metrics.count))
            values = self._values(*metrics.spans(2).last_by_owner(metrics.count))
            attributes = {name or "": value for name, value in zip(names, values, strict=True) if value is not None}
            attributes.setdefault("device__attribute_display_name", self._text(device, 2))
            self.devices.append(attributes)


_HEADER_SIZE, _SECTION, _SYMBOL = 64, struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
"""Of ELF files of 64 bits: the size of the header, and the layouts of a section and of a symbol."""
_RELOCATION: Final = struct.Struct("<QII")
_ADDRESS: Final = struct.Struct("<Q")
_LARGEST_TABLE: Final = 1 << 22
"""Bytes of a table of lines that are read."""
_LONGEST_NAME: Final = 4096
"""Bytes of the name of a section, a folder or a file that are read."""
_MAX_PATHS: Final = 1 << 24
"""Characters of all paths of source files in a module that are read."""
_DAMAGED_CODE_ERRORS: Final = (struct.error, ValueError, IndexError, ZeroDivisionError)
"""The exceptions for code that is damaged."""
_LONGEST_NUMBER: Final = 70
"""Bits of a number of variable length."""
_DWARF_VERSIONS: Final = (2, 3, 4)
"""Versions of DWARF's table of lines with this layout."""
_OPERATIONS_VERSION: Final = 4
"""The first version whose header has the maximum number of operations of an instruction."""
_COPY, _ADVANCE_ADDRESS, _ADVANCE_LINE, _SET_FILE, _ADVANCE_CONST_PC, _ADVANCE_FIXED_PC = 1, 2, 3, 4, 8, 9
_END, _SET_ADDRESS = 1, 2
"""Operations of a table of lines, and extended ones."""


@dataclass(slots=True)
class _SourceLines:
    """The source lines of a function."""

    offsets: list[int]
    """Offsets of instructions at which a line begins, ascending."""
    lines: list[tuple[str, int] | None]
    """The file and the line; None where no line is known."""
    address: int
    """Where the function was when the report was made; 0 if the code does not tell."""
    size: int

    def line(self, offset: int) -> str | None:
        """Return the file and the line of an instruction, as ``gemm.cu:12``."""
        index = bisect_right(self.offsets, offset) - 1
        line = self.lines[index] if index >= 0 and offset < self.size else None
        return None if line is None else f"{line[0]}:{line[1]}"


class _InstructionLocator:
    """The function and the line of the instructions of a kernel."""

    def __init__(
        self, result: _KernelResult, tables: list[dict[str, _SourceLines]], placed: list[_SourceLines]
    ) -> None:
        """Locate instructions.

        Args:
            result: The kernel.
            tables: The source lines of the functions of each module, by section.
            placed: The functions whose address is known, by address.
        """
        self._addresses = result.addresses or [min((address for address, _, _ in result.stalls), default=0)]
        self._functions = placed
        matching = [table[name] for table in tables if (name := f".text.{result.function}") in table]
        if len(matching) == len(result.addresses) == 1 and not matching[0].address:
            self._functions = [*placed, replace(matching[0], address=result.addresses[0])]
            self._functions.sort(key=lambda function: function.address)

    def line(self, address: int) -> str | None:
        """Return the source line of an instruction; None if unknown."""
        index = bisect_right(self._functions, address, key=lambda function: function.address) - 1
        return self._functions[index].line(address - self._functions[index].address) if index >= 0 else None

    def location(self, address: int) -> str:
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
    def lines(self) -> dict[str, _SourceLines]:
        """The source lines of each function, by the name of its section."""
        lines_by_section: dict[str, _SourceLines] = {}
        with suppress(*_DAMAGED_CODE_ERRORS):
            self._read(lines_by_section)
        return lines_by_section

    def _read(self, lines_by_section: dict[str, _SourceLines]) -> None:
        """Read the sections, symbols and relocations of the ELF file, and the table of lines."""
        (sections_offset,) = struct.unpack_from("<Q", self._data, 40)
        count, names_index = struct.unpack_from("<HH", self._data, 60)
        rows = [_SECTION.unpack_from(self._data, sections_offset + _HEADER_SIZE * number) for number in range(count)]
        # Sections can overlap, so only what is needed is copied.
        contents = [self._data[row[4] : row[4] + row[5]] if row[1] != 8 else self._data[:0] for row in rows]
        names = contents[names_index]
        section_names = [
            bytes(names[row[0] : row[0] + _LONGEST_NAME]).split(b"\0", 1)[0].decode("utf-8", "replace") for row in rows
        ]
        section_numbers = {title: number for number, title in enumerate(section_names)}
        table = section_numbers.get(".debug_line")
        if table is None or len(contents[table]) > _LARGEST_TABLE or ".symtab" not in section_numbers:
            return
        symbols = contents[section_numbers[".symtab"]]
        # Which function an address in the table is of, and its offset there.
        relocated: dict[int, tuple[int, int]] = {}
        addresses: dict[int, int] = {}
        for title, width in ((".rel.debug_line", 16), (".rela.debug_line", 24)):
            relocations = contents[section_numbers[title]] if title in section_numbers else self._data[:0]
            for entry_offset in range(0, len(relocations) - width + 1, width):
                position, _, symbol = _RELOCATION.unpack_from(relocations, entry_offset)
                *_, section, value, _ = _SYMBOL.unpack_from(symbols, _SYMBOL.size * symbol)
                stored_address = (
                    relocations[entry_offset + 16 : entry_offset + width] or contents[table][position : position + 8]
                )
                (offset,) = _ADDRESS.unpack(stored_address)
                if value >= rows[section][5]:
                    # Loaded code: the value and the stored address are both absolute.
                    addresses[section] = value
                    offset -= value if offset >= value else 0
                else:
                    offset += value
                relocated[position] = section, offset
        by_section: dict[int, list[tuple[int, tuple[str, int] | None]]] = defaultdict(list)
        for section, offset, line in _line_table_rows(bytes(contents[table]), relocated):
            if 0 <= section < count:
                by_section[section].append((offset, line))
        for section, entries in by_section.items():
            entries.sort(key=lambda row: row[0])
            offsets, lines = [row[0] for row in entries], [row[1] for row in entries]
            lines_by_section[section_names[section]] = _SourceLines(
                offsets, lines, addresses.get(section, 0), rows[section][5]
            )


class _Cursor:
    """Reads numbers and texts one after the other."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self.position = position

    def number(self, size: int) -> int:
        self.position += size
        if self.position > len(self.data):
            raise IndexError
        return int.from_bytes(self.data[self.position - size : self.position], "little")

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
        end = self.data.index(b"\0", self.position, self.position + _LONGEST_NAME + 1)
        text, self.position = self.data[self.position : end].decode("utf-8", "replace"), end + 1
        return text


def _line_table_rows(
    data: bytes, relocated: dict[int, tuple[int, int]]
) -> Iterator[tuple[int, int, tuple[str, int] | None]]:
    """Yield section, offset and line of each row of DWARF tables of lines; the line is None at the end of a part."""
    next_unit = path_characters = 0
    while next_unit < len(data):
        cursor = _Cursor(data, next_unit)
        next_unit = cursor.number(4) + cursor.position
        version, body = cursor.number(2), cursor.number(4) + cursor.position
        if version not in _DWARF_VERSIONS:
            continue
        min_instruction_length = cursor.number(2 if version >= _OPERATIONS_VERSION else 1) & 255
        cursor.number(1)
        line_base, line_range, opcode_base = (cursor.number(1) ^ 128) - 128, cursor.number(1), cursor.number(1)
        operands = [cursor.number(1) for _ in range(opcode_base - 1)]
        folders, files = list(iter(cursor.text, "")), []
        while name := cursor.text():
            folder, _, _ = (cursor.varint() for _ in range(3))
            files.append(f"{folders[folder - 1]}/{name}" if 0 < folder <= len(folders) else name)
            path_characters += len(files[-1])
            if path_characters > _MAX_PATHS:
                raise ValueError
        short_names = {path: path.replace("\\", "/").rpartition("/")[2] for path in files}
        name_counts = Counter(short_names.values())
        labels = ["?", *(short_names[path] if name_counts[short_names[path]] == 1 else path for path in files)]
        cursor.position = body
        section, offset, file, line = -1, 0, 1, 1
        while cursor.position < min(next_unit, len(data)):
            opcode, is_row = cursor.number(1), False
            if opcode >= opcode_base:
                offset += (opcode - opcode_base) // line_range * min_instruction_length
                line += line_base + (opcode - opcode_base) % line_range
                is_row = True
            elif opcode == 0:
                size = cursor.varint()
                end, extended_opcode = cursor.position + size, cursor.number(1)
                if extended_opcode == _END:
                    yield section, offset, None
                    section, offset, file, line = -1, 0, 1, 1
                elif extended_opcode == _SET_ADDRESS:
                    section, offset = relocated.get(cursor.position, (-1, 0))
                cursor.position = end
            elif opcode == _COPY:
                is_row = True
            elif opcode == _ADVANCE_ADDRESS:
                offset += cursor.varint() * min_instruction_length
            elif opcode == _ADVANCE_LINE:
                line += cursor.varint(signed=True)
            elif opcode == _SET_FILE:
                file = cursor.varint()
            elif opcode == _ADVANCE_CONST_PC:
                offset += (255 - opcode_base) // line_range * min_instruction_length
            elif opcode == _ADVANCE_FIXED_PC:
                offset += cursor.number(2)
            else:
                for _ in range(operands[opcode - 1]):
                    cursor.varint()
            if is_row:
                yield section, offset, (labels[file] if file < len(labels) else "?", line)


def _positions(messages: list[Fields], number: int) -> tuple[Integers, Integers, Integers]:
    """Return the fields with a number in some messages: the index of the message, begin and end."""
    positions = [fields.positions(number) for fields in messages]
    owner = np.repeat(np.arange(len(positions)), [len(begins) for begins, _ in positions])
    empty = np.zeros(0, np.int64)
    begins, ends = (np.concatenate([empty, *(position[end] for position in positions)]) for end in (0, 1))
    return owner, begins, ends


class _CutError(Exception):
    """The report is truncated; the message gives the position."""


def _rows(results: list[_KernelResult], report: _ReportReader) -> pl.DataFrame:
    """Return the results as rows in long form, with values as numbers in base units."""
    launches: list[dict[str, str | None]] = []
    metrics: dict[str, list[str | None]] = {name: [] for name in ("id", "metric", "value", "section")}
    rules: list[tuple[str | None, ...]] = []
    for number, result in enumerate(results):
        launch, values = _launch_and_metrics(str(number), result, report)
        launches.append(launch)
        metrics["id"] += [launch["id"]] * len(values)
        metrics["metric"] += values
        metrics["value"] += values.values()
        metrics["section"] += map(result.sections.get, values)
        rules += [(launch["id"], *rule) for rule in result.rules]
    texts = dict.fromkeys((name for name in LONG if name != "line"), pl.String)
    metric_rows = pl.DataFrame(metrics, schema=dict.fromkeys(metrics, pl.String))
    units = {name: implied_unit(name) for name in metric_rows["metric"].unique()}
    unit = metric_rows["metric"].replace_strict(units, return_dtype=pl.String) if units else pl.lit(None, pl.String)
    rule_rows = pl.DataFrame(rules, schema={name: texts[name] for name in _RULE_COLUMNS}, orient="row")
    rows = pl.concat([metric_rows.with_columns(unit.alias("unit")), rule_rows], how="diagonal").join(
        pl.DataFrame(launches, schema={name: texts[name] for name in _LAUNCH_COLUMNS}),
        on="id",
        how="left",
        maintain_order="left",
    )
    missing = (pl.lit(None, dtype).alias(name) for name, dtype in texts.items() if name not in rows.columns)
    rows = grids_in_blocks(rows.with_columns(*missing, pl.lit(None, pl.UInt32).alias("line")).select(LONG))
    base_units = {unit: base_unit(unit) for unit in ("", *units.values())}
    number_value = pl.col("value").cast(pl.Float64, strict=False)
    factor, base = (
        pl.col("unit").replace_strict(
            list(base_units), [found[index] for found in base_units.values()], default=None, return_dtype=dtype
        )
        for index, dtype in ((0, pl.Float64), (1, pl.String))
    )
    return rows.with_columns(
        base.alias("base_unit"),
        (pl.when(number_value.is_finite()).then(number_value) * factor).alias("value_number"),
    )


def _launch_and_metrics(
    number: str, result: _KernelResult, report: _ReportReader
) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return what identifies a launch, and its metrics by name, those of its GPU included."""
    names = {
        report.texts[index] if 0 <= index < len(report.texts) else f"metric {index}": value
        for index, value in result.metrics
    }
    device = names.get("device__attribute_device_index", "0")
    device_attributes = next(
        (
            attributes
            for attributes in report.devices
            if attributes.get("device__attribute_device_index", "0") == device
        ),
        {},
    )
    values = {**device_attributes, **names}
    major, minor = (values.get(f"device__attribute_compute_capability_{level}") for level in ("major", "minor"))
    numbers = {"pid": result.pid, "context": result.context, "stream": result.stream}
    launch = {
        "id": number,
        **{name: None if number is None else str(number) for name, number in numbers.items()},
        "kernel": result.kernel,
        "grid": result.grid,
        "block": result.block,
        "device": device,
        "cc": f"{major.partition('.')[0]}.{minor.partition('.')[0]}" if major and minor else None,
    }
    return launch, values


_LAUNCH_COLUMNS: Final = ("id", "pid", "kernel", "grid", "block", "context", "stream", "device", "cc")
_RULE_COLUMNS: Final = ("id", "section", "rule", "rule_type", "rule_text", "speedup", "speedup_type")
