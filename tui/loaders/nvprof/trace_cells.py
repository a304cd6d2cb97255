"""The columns of a trace by its header, and the cells of a single row: slow, but tolerant."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import polars as pl

from tui.loaders.nvprof.numbers import NS_PER_UNIT, csv_cells
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TEXT_HEADINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Start": "start",
        "Duration": "duration",
        "Grid Size": "grid",
        "Block Size": "block",
        "Regs*": "registers",
        "SSMem*": "static",
        "DSMem*": "dynamic",
        "Size": "size",
        "Throughput": "throughput",
        "SrcMemType": "src_memory",
        "DstMemType": "dst_memory",
        "Device": "device",
        "Context": "context",
        "Stream": "stream",
        "Src Dev": "src_device",
        "Src Ctx": "src_context",
        "Dst Dev": "dst_device",
        "Dst Ctx": "dst_context",
        "Unified Memory": "um",
        "Virtual Address": "address",
        "Name": "name",
    }
)
"""Column names by the headings of text tables."""

CSV_HEADINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **TEXT_HEADINGS,
        "Grid X": "grid_x",
        "Grid Y": "grid_y",
        "Grid Z": "grid_z",
        "Block X": "block_x",
        "Block Y": "block_y",
        "Block Z": "block_z",
        "Registers Per Thread": "registers",
        "Static SMem": "static",
        "Dynamic SMem": "dynamic",
        "Correlation_ID": "correlation",
    }
)
"""Column names by the headings of CSV tables."""

UNKNOWN_COLUMN_PREFIX: Final = "other_"
"""The prefix of the names of unknown columns; a number follows."""

SIZE_UNITS: Final = ("B", "KB", "MB", "GB", "TB")
"""The units of sizes; a unit's index is its power of the base (1024 or 1000)."""

_HEADING: Final = re.compile("|".join(re.escape(name) for name in sorted(TEXT_HEADINGS, key=len, reverse=True)))
_WORDS: Final = re.compile(r"\S+(?: \S+)*")
_TEXT_HEADER: Final = re.compile(r"(?P<prefix>.*?)[ \t]*Start[ \t]+Duration[ \t]+(?:.*[ \t])?Name[ \t]*")
_CSV_HEADER: Final = re.compile(r'(?P<prefix>.*?)"?Start"?,"?Duration"?,.*')
_UNIT: Final = re.compile(r"ns|us|ms|s|[KMGT]?B(?:/s)?")

# The column sets of tables without explicit copies, of old versions and of newer ones, for rows pasted without header.
_HEADERLESS_COLUMNS: Final = {
    11: "start duration grid block registers static dynamic device context stream name",
    13: "start duration grid block registers static dynamic size throughput device context stream name",
    15: "start duration grid block registers static dynamic size throughput src_memory dst_memory device context stream"
    " name",
}
_HEADERLESS_ROW: Final = re.compile(
    r"[ \t]*[0-9.]+(?:ns|us|ms|s)  +[0-9.]+(?:ns|us|ms|s)  +"
    r"(?:-|\([0-9]+ [0-9]+ [0-9]+\))  +(?:-|\([0-9]+ [0-9]+ [0-9]+\))  +\S.*"
)


@dataclass(frozen=True, slots=True)
class TextLayout:
    """The columns of a text table with their positions; cells are right-aligned, the name begins below its heading."""

    line_prefix: str
    """The prefix of every line (``// ``)."""
    columns: tuple[str, ...]
    """Values of `TEXT_HEADINGS`, or columns that begin with `UNKNOWN_COLUMN_PREFIX`; the last is the name."""
    edges: tuple[int, ...]
    """The index after each column's last character, for all columns but the name."""
    name_start: int
    units: Mapping[str, str] = field(default_factory=dict)
    """Units of columns from a second header line."""

    @property
    def is_api(self) -> bool:
        """Whether the table lists API calls alone."""
        return self.columns == ("start", "duration", "name")

    def units_from(self, text: str) -> TextLayout | None:
        """Return the layout with the units of a second header line; None if the line is no such line."""
        units = {}
        start = len(self.line_prefix) if text.startswith(self.line_prefix) else 0
        for token in re.compile(r"\S+").finditer(text, start):
            if not _UNIT.fullmatch(token[0]) or token.end() not in self.edges:
                return None
            units[self.columns[self.edges.index(token.end())]] = token[0]
        if units.get("start") not in NS_PER_UNIT or units.get("duration") not in NS_PER_UNIT:
            return None
        return TextLayout(self.line_prefix, self.columns, self.edges, self.name_start, units)


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """The columns of a CSV table."""

    line_prefix: re.Pattern[str]
    """The prefix of every line; numbers in it may differ from line to line."""
    columns: tuple[str, ...]
    """Values of `CSV_HEADINGS`, or columns that begin with `UNKNOWN_COLUMN_PREFIX`."""
    units: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_api(self) -> bool:
        """Whether the table lists API calls alone."""
        return not {"grid_x", "device", "um"} & set(self.columns)

    def cells(self, text: str) -> list[str] | None:
        """Return the cells of a line; None unless there are as many as columns."""
        prefix = self.line_prefix.match(text)
        if prefix is None:
            return None
        row = csv_cells(text[prefix.end() :])
        return row if len(row) == len(self.columns) else None

    def units_from(self, text: str) -> CsvLayout | None:
        """Return the layout with the units of a second header line; None if the line is no such line."""
        row = self.cells(text)
        if row is None or any(cell and not _UNIT.fullmatch(cell) for cell in row):
            return None
        units = {column: cell for column, cell in zip(self.columns, row, strict=True) if cell}
        if units.get("start") not in NS_PER_UNIT or units.get("duration") not in NS_PER_UNIT:
            return None
        return CsvLayout(self.line_prefix, self.columns, units)


Layout = TypeVar("Layout", TextLayout, CsvLayout)


def repeated_units(layout: Layout, text: str) -> Layout | None:
    """Return the layout with other units if a line is a row of units of the same columns, otherwise None."""
    changed = layout.units_from(text)
    return changed if changed is not None and changed.units.keys() == layout.units.keys() else None


MISSING_SECOND_HEADER: Final = (
    "the header above this row of units is missing: the rows below are read as another run, with the columns of "
    "the trace above"
)


def text_header(text: str) -> TextLayout | None:
    """Return the layout of a text table's header line; None if the line is none.

    >>> layout = text_header("   Start  Duration  Name")
    >>> layout.columns, layout.edges, layout.name_start
    (('start', 'duration', 'name'), (8, 18), 20)
    """
    match = _TEXT_HEADER.fullmatch(text)
    if match is None:
        return None
    columns: list[str] = []
    ends: list[int] = []
    position = match.end("prefix")
    for heading in _HEADING.finditer(text, position):
        # An unknown column is not used, but its position is needed.
        for other in _WORDS.finditer(text, position, heading.start()):
            columns.append(f"{UNKNOWN_COLUMN_PREFIX}{len(columns)}")
            ends.append(other.end())
        columns.append(TEXT_HEADINGS[heading[0]])
        ends.append(heading.end())
        position = heading.end()
    if text[position:].strip() or not _are_trace_columns(columns) or columns[-1] != "name":
        return None
    return TextLayout(match["prefix"], tuple(columns), tuple(ends[:-1]), ends[-1] - len("Name"))


def _are_trace_columns(columns: Sequence[str]) -> bool:
    """Return whether columns are distinct, and enough of them known."""
    has_unknown = any(column.startswith(UNKNOWN_COLUMN_PREFIX) for column in columns)
    return len(set(columns)) == len(columns) and (not has_unknown or bool({"grid", "grid_x", "device"} & set(columns)))


def headerless_layout(text: str) -> TextLayout | None:
    """Return the layout of a row that was pasted without its header; None if uncertain."""
    if not _HEADERLESS_ROW.fullmatch(text):
        return None
    cells = list(_WORDS.finditer(text))
    # A name may contain two consecutive blanks; the columns before it do not.
    for count in sorted(_HEADERLESS_COLUMNS, reverse=True):
        columns = tuple(_HEADERLESS_COLUMNS[count].split())
        if len(cells) < count:
            continue
        cells_by_column = dict(zip(columns, (cell[0] for cell in cells), strict=False))
        if not (_is_number(cells_by_column["context"]) and _is_number(cells_by_column["stream"])):
            continue
        if all(_HEADERLESS_TYPES.get(column, _NON_EMPTY).fullmatch(cell) for column, cell in cells_by_column.items()):
            edges = tuple(cell.end() for cell in cells[: count - 1])
            return TextLayout("", columns, edges, cells[count - 1].start())
    return None


_NON_EMPTY: Final = re.compile(r".+")
_HEADERLESS_TYPES: Final = {
    "registers": re.compile(r"-|[0-9]+"),
    "static": re.compile(r"-|[0-9.]+[KMG]?B"),
    "dynamic": re.compile(r"-|[0-9.]+[KMG]?B"),
    "size": re.compile(r"-|[0-9.]+[KMG]?B"),
    "throughput": re.compile(r"-|[0-9.e+]+[KMG]?B/s"),
    "src_memory": re.compile(r"-|[A-Za-z ]+"),
    "dst_memory": re.compile(r"-|[A-Za-z ]+"),
    "device": re.compile(r".*[A-Za-z].*"),
    "name": re.compile(r".*[A-Za-z].*"),
}


def _is_number(cell: str) -> bool:
    return cell.isdecimal()


def csv_header(text: str) -> CsvLayout | None:
    """Return the layout of a CSV table's header line; None if the line is none.

    >>> csv_header('131072,"Start","Duration","Name"').columns
    ('start', 'duration', 'name')
    """
    match = _CSV_HEADER.fullmatch(text)
    if match is None:
        return None
    headings = csv_cells(text[match.end("prefix") :])
    columns = tuple(
        CSV_HEADINGS.get(heading, f"{UNKNOWN_COLUMN_PREFIX}{number}") for number, heading in enumerate(headings)
    )
    if not _are_trace_columns(columns) or "name" not in columns:
        return None
    prefix = match["prefix"].strip()
    pattern = r"[ \t]*" + re.sub("[0-9]+", "[0-9]+", re.escape(prefix)) + r"[ \t]*"
    return CsvLayout(re.compile(pattern), columns)


class Cells(NamedTuple):
    """The cells of a GPU row except times and correlation id; equal for many launches of one kernel.

    Sizes are a number and a power of the base (1024 or 1000, by the whole table).
    """

    name: str | None = None
    device: str | None = None
    context: int | None = None
    stream: int | None = None
    grid_x: int | None = None
    grid_y: int | None = None
    grid_z: int | None = None
    block_x: int | None = None
    block_y: int | None = None
    block_z: int | None = None
    registers: int | None = None
    static: float | None = None
    static_power: int | None = None
    dynamic: float | None = None
    dynamic_power: int | None = None
    size: float | None = None
    size_power: int | None = None
    throughput: float | None = None
    throughput_power: int | None = None
    src_memory: str | None = None
    dst_memory: str | None = None


CELLS: Final = pl.Schema(
    {
        "name": NAME,
        "device": NAME,
        "context": pl.Int32,
        "stream": pl.Int64,
        **dict.fromkeys(("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers"), pl.Int32),
        "static": pl.Float64,
        "static_power": pl.Int8,
        "dynamic": pl.Float64,
        "dynamic_power": pl.Int8,
        "size": pl.Float64,
        "size_power": pl.Int8,
        "throughput": pl.Float64,
        "throughput_power": pl.Int8,
        "src_memory": NAME,
        "dst_memory": NAME,
    }
)
"""The columns of a frame of `Cells`."""

MISSING: Final = {
    name: math.nan if dtype == pl.Float64 else -1 if dtype.is_numeric() else None for name, dtype in CELLS.items()
}
"""The value for null in columns made by numpy; converted when the table is complete."""

NUMBER: Final = r"[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?"
"""A regular expression of a number in a trace."""
_DIMENSIONS: Final = re.compile(r"\(([0-9]{1,10}) ([0-9]{1,10}) ([0-9]{1,10})\)")
_SIZE: Final = re.compile(rf"({NUMBER})([KMGT]?B)?")
_RATE: Final = re.compile(rf"({NUMBER})(?:([KMGT]?B)/s)?")
_MEMORY_OPERATION_NAME: Final = re.compile(r"\[(?:CUDA|Unified Memory) [\w ]+\]$")
"""The name of an activity that is no kernel."""
_INTEGER: Final = re.compile(r"[0-9]{1,18}")
_CORRELATION: Final = re.compile(r" \[([0-9]{1,18})\]$")
_API_CORRELATION: Final = re.compile(r" \[([0-9]{1,18})\]\)?$")
_INT32: Final = 2**31

_TEXT_CELL: Final = r"\S+(?: \S+)*"
_PATTERNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "grid": r"-|\([0-9]+ [0-9]+ [0-9]+\)",
        "block": r"-|\([0-9]+ [0-9]+ [0-9]+\)",
        "registers": r"-|[0-9]+",
        "static": rf"-|{NUMBER}(?:[KMGT]?B)?",
        "dynamic": rf"-|{NUMBER}(?:[KMGT]?B)?",
        "size": rf"-|{NUMBER}(?:[KMGT]?B)?",
        "throughput": rf"-|{NUMBER}(?:[KMGT]?B/s)?",
        "src_memory": r"-|[A-Za-z]+(?: [A-Za-z]+)*",
        "dst_memory": r"-|[A-Za-z]+(?: [A-Za-z]+)*",
        "device": r"-|\S+(?: \S+)*",
        "context": r"-|[0-9]+",
        "stream": r"-|[0-9]+",
        "src_device": r"-|\S+(?: \S+)*",
        "src_context": r"-|[0-9]+",
        "dst_device": r"-|\S+(?: \S+)*",
        "dst_context": r"-|[0-9]+",
        "um": r"-|PC 0x[0-9a-f]+|[0-9.]+(?: ?[KMGT]?B)?",
        "address": r"-|0x[0-9a-f]+",
    }
)


class RowError(ValueError):
    """A row is too damaged to read; the message gives the reason."""


def text_values(layout: TextLayout, text: str) -> tuple[dict[str, str], str]:
    """Return the cells of a text row behind its times.

    Args:
        layout: The table's columns.
        text: The whole line.

    Returns:
        Cells by column, and the problem of the row, empty if it has none. Cells are taken by the positions of the
        header, else by their kinds; of a damaged row only those that fit.

    Raises:
        RowError: The row does not show the kind of activity.
    """
    values, problem = _cells_at_edges(layout, text)
    if not problem:
        return values, ""
    for gap in (r"[ \t]{2,}", r"[ \t]+"):
        match = _kinds_pattern(layout.columns, gap).fullmatch(text.rstrip())
        if match is not None:
            return match.groupdict(), ""
    is_kernel = values.get("grid", "-") != "-" and "block" in values
    operation = _MEMORY_OPERATION_NAME.search(text.rstrip())
    if operation is not None and not is_kernel:
        values["name"] = operation[0]
    if not is_kernel and not values.get("name", "").startswith("["):
        raise RowError(problem)
    return values, problem


def fits_by_kinds(layout: TextLayout, text: str) -> bool:
    """Return whether a line has a cell of the right kind for every column, at any position."""
    return _kinds_pattern(layout.columns, r"[ \t]{2,}").fullmatch(text.rstrip()) is not None


def _cells_at_edges(layout: TextLayout, text: str) -> tuple[dict[str, str], str]:
    """Return the cells in the columns of the header, and the first problem, empty if there is none."""
    values: dict[str, str] = {}
    problem = ""
    left = layout.edges[1]
    for column, edge in zip(layout.columns[2:-1], layout.edges[2:], strict=True):
        cell = text[left:edge]
        fits = (
            len(cell) == edge - left
            and cell[0] in " \t"
            and re.fullmatch(_PATTERNS.get(column, _TEXT_CELL), cell.strip())
        )
        if fits and not cell.endswith(" ") and text[edge : edge + 1] in (" ", "\t", ""):
            values[column] = cell.strip()
        elif not problem:
            heading = column.replace("_", " ")
            problem = (
                f"the row is truncated before its {heading}" if len(text) < edge else f"the {heading} does not fit"
            )
        left = edge
    name = text[layout.name_start :].rstrip()
    if name and name[0] not in " \t" and not text[left : layout.name_start].strip():
        values["name"] = name
    elif not problem:
        problem = "the row is truncated before its name" if not name else "the name does not fit"
    return values, problem


@lru_cache(maxsize=64)
def _kinds_pattern(columns: tuple[str, ...], gap: str) -> re.Pattern[str]:
    kinds = [rf"(?P<{column}>{_PATTERNS.get(column, _TEXT_CELL)})" for column in columns[2:-1]]
    return re.compile(gap.join((r".*?\S", r"\S+", *kinds, r"(?P<name>\S.*)")))


def parse_cells(values: Mapping[str, str], units: Mapping[str, str]) -> Cells:
    """Return the cells of a row as values; ``-`` and empty cells are null.

    Raises:
        ValueError: A cell is invalid.
    """
    grid, block = _dimensions(values, "grid"), _dimensions(values, "block")
    size, size_power = _size(values.get("size", ""), units.get("size"))
    # The oldest versions print 4096 B.
    um = values.get("um", "").replace(" ", "")
    if size is None and ("B" in um or ("." in um and "um" in units)):
        # The column also has program counters and page counts.
        size, size_power = _size(um, units.get("um"))
    static, dynamic = (_size(values.get(kind, ""), units.get(kind)) for kind in ("static", "dynamic"))
    throughput = _size(values.get("throughput", ""), units.get("throughput"), _RATE)
    return Cells(
        name=values.get("name") or None,
        device=_word(values.get("device", "")),
        context=parse_integer(values.get("context", ""), _INT32),
        stream=parse_integer(values.get("stream", "")),
        grid_x=grid[0],
        grid_y=grid[1],
        grid_z=grid[2],
        block_x=block[0],
        block_y=block[1],
        block_z=block[2],
        registers=parse_integer(values.get("registers", ""), _INT32),
        static=static[0],
        static_power=static[1],
        dynamic=dynamic[0],
        dynamic_power=dynamic[1],
        size=size,
        size_power=size_power,
        throughput=throughput[0],
        throughput_power=throughput[1],
        src_memory=_memory(values.get("src_memory", "")),
        dst_memory=_memory(values.get("dst_memory", "")),
    )


def is_api(values: Mapping[str, str]) -> bool:
    """Return whether a row of a GPU trace is an API call: no grid, no device, and not a name of nvprof's own.

    A trace of API calls alone has neither column, but one for unified memory if the program uses that.
    """
    empty = values.get("grid", values.get("grid_x", "-")) in ("-", "") and values.get("device", "-") in ("-", "")
    return empty and not values.get("name", "").startswith("[")


def split_correlation(name: str, *, api: bool) -> tuple[str, int | None]:
    """Return a name without the correlation id at its end, and the id.

    >>> split_correlation("f(int*) [17]", api=False), split_correlation("cudaLaunch (f(int*) [17])", api=True)
    (('f(int*)', 17), ('cudaLaunch', 17))
    >>> split_correlation("f(int (*) [16])", api=False)
    ('f(int (*) [16])', None)
    """
    match = (_API_CORRELATION if api else _CORRELATION).search(name)
    stripped = name[: match.start()] if match else name
    return api_name(stripped) if api else stripped, int(match[1]) if match else None


def api_name(text: str) -> str:
    """Return the name of an API call without the kernel that it launches; NVTX marks stay unchanged.

    >>> api_name("cudaLaunchKernel (f(int*)"), api_name("[Marker] done (Domain: NCCL)")
    ('cudaLaunchKernel', '[Marker] done (Domain: NCCL)')
    """
    return text if text.startswith("[") else text.partition(" (")[0]


def _dimensions(values: Mapping[str, str], shape: str) -> tuple[int | None, int | None, int | None]:
    if shape in values:
        cell = values[shape]
        if cell in ("-", ""):
            return None, None, None
        match = _DIMENSIONS.fullmatch(cell)
        if match is None:
            raise ValueError(f"expected dimensions such as (16 16 1), found {cell!r}")
        x, y, z = match.groups()
    else:
        x, y, z = (values.get(f"{shape}_{axis}", "") for axis in "xyz")
    return parse_integer(x, _INT32), parse_integer(y, _INT32), parse_integer(z, _INT32)


def parse_integer(cell: str, limit: int = 2**63) -> int | None:
    """Return the whole number of a cell; None if it is empty or ``-``.

    Raises:
        ValueError: It is no whole number, or not below the limit.
    """
    if cell in ("-", ""):
        return None
    if not _INTEGER.fullmatch(cell) or int(cell) >= limit:
        raise ValueError(f"expected a whole number, found {cell!r}")
    return int(cell)


def _size(cell: str, unit: str | None, pattern: re.Pattern[str] = _SIZE) -> tuple[float, int] | tuple[None, None]:
    if cell in ("-", ""):
        return None, None
    match = pattern.fullmatch(cell)
    unit = (match[2] if match else None) or (unit or "").removesuffix("/s")
    if match is None or unit not in SIZE_UNITS:
        raise ValueError(f"expected a size with its unit (B, KB, MB or GB), found {cell!r}")
    return float(match[1]), SIZE_UNITS.index(unit)


def _memory(cell: str) -> str | None:
    return None if cell in ("-", "") else cell.lower()


def _word(cell: str) -> str | None:
    return None if cell in ("-", "") else cell
