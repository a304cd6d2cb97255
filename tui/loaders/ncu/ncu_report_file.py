r"""Reads reports of Nsight Compute (``.ncu-rep``) without Nsight Compute.

A report is the magic ``NVR\0``, a header, and blocks: each a size, a header message and its entries (a size and a
message each). Names of metrics are indices of a string table, which is in the first block with results and continues
in later blocks. The messages are protobuf; their fields were found by comparing reports of 2020 to 2025 with the
output of NVIDIA's own reader.

The rows are those of the raw page as CSV, so that the same views show them. The report has no units: values are in the
base units that the names of metrics imply.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
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

if TYPE_CHECKING:
    from collections.abc import Iterator

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
# Fields of a session.
_HOST, _DEVICES = 3, 6

_STALL: Final = re.compile(r"smsp__pcsamp_warps_issue_stalled_(\w+)(?<!_not_issued)")
"""Samples of warps by the reason that they wait for, with a value for each instruction."""
_MAX_STALLS: Final = 1000
"""The maximum number of rows of stall samples of a kernel; those with the most samples are shown."""
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
            raise ProftuiError(f"{source.called}: no profile found: a report of Nsight Compute, {why}", WHAT_OPENS)
        collector = Collector(source.name)
        for pid in dict.fromkeys(result.pid for result in reading.results):
            results = [result for result in reading.results if result.pid == pid]
            session = collector.open_session(FORMAT.name, None, pid=pid)
            session.facts.update(tool=TOOL, host=reading.host)
            rows = _rows(results, reading)
            add_launches(with_grid_columns(rows), collector)
            _add_stalls(results, collector)
            reason = "kernels were replayed one by one: their times are measured alone, and count in no total of a run"
            collector.issue("info", None, "", reason)
        if reading.damage:
            collector.issue("error", None, "", f"the report is damaged: {reading.damage}; what lies before was read")
        for note in source.notes:
            collector.issue(note.severity, note.line, note.text, note.reason)
        return collector.profile(partial=source.cut_short)


def _add_stalls(results: list[_KernelResult], collector: Collector) -> None:
    """Add the stall samples of each instruction, most first; addresses count from the first instruction listed."""
    for number, result in enumerate(results):
        if not result.stalls:
            continue
        base = min(address for address, _, _ in result.stalls)
        most = sorted((stall for stall in result.stalls if stall[2] > 0), key=lambda stall: (-stall[2], stall[0]))
        section = f"stall samples, launch {number}: {short_name(result.kernel)}"
        for address, reason, samples in most[:_MAX_STALLS]:
            name = f"+0x{address - base:04x} {reason}"
            collector.add("tool_figures", {"tool": TOOL, "section": section, "name": name, "value": samples})
        if len(most) > _MAX_STALLS:
            left_out = f"stall samples with the fewest samples were left out: {len(most) - _MAX_STALLS:,} rows"
            collector.issue("info", None, result.kernel, left_out)


@dataclass(slots=True)
class _KernelResult:
    """One kernel that was profiled."""

    pid: int
    kernel: str
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


class _ReportReader:
    """Reads the results of a report."""

    def __init__(self, wire: WireReader) -> None:
        self._wire = wire
        self.texts: list[str] = []
        self.results: list[_KernelResult] = []
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
            raise _CutError(f"it ends within the {what} at byte {at:,}")
        (size,) = _SIZE.unpack(self._wire.data[at : at + _SIZE.size])
        end: int = at + _SIZE.size + size
        if end > self._wire.size:
            raise _CutError(f"the {what} at byte {at:,} is said to be {size:,} bytes long, which is past the end")
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
            # Sources, at the beginning of a report, are most of its bytes.
            if first <= position < last:
                self.results.append(self._result(self._wire.split(at + _SIZE.size, end)))
            position, at = position + 1, end
        if stop > self._wire.size:
            raise _CutError("its last block is cut")
        return stop

    def _spans(self, fields: Fields, number: int) -> Iterator[Fields]:
        for begin, end in zip(*fields.positions(number), strict=True):
            yield self._wire.split(int(begin), int(end))

    def _text(self, fields: Fields, number: int) -> str:
        begins, ends = fields.positions(number)
        return self._wire.text(int(begins[0]), int(ends[0])) if len(begins) else ""

    def _result(self, fields: Fields) -> _KernelResult:
        kernel = self._text(fields, _DEMANGLED) or self._text(fields, _FUNCTION) or self._text(fields, _MANGLED)
        metrics, stalls = [], []
        for metric in self._spans(fields, _METRICS):
            number, value = metric.ints.get(1, 0), self._value(metric)
            if value is not None:
                metrics.append((number, value))
            if 0 <= number < len(self.texts) and (reason := _STALL.fullmatch(self.texts[number])):
                stalls += [(address, reason[1], samples) for address, samples in self._by_instruction(metric)]
        result = _KernelResult(
            fields.ints.get(_PROCESS, 0), kernel, self._shape(fields, _GRID), self._shape(fields, _BLOCK), metrics
        )
        result.stalls = stalls
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


class _CutError(Exception):
    """The report is cut off; the message gives the position."""


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
