"""The columns of a trace by its header, in text and CSV."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from tui.loaders.nvprof.numbers import NS_PER_UNIT, csv_cells

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

OTHER: Final = "other_"
"""The prefix of the names of unknown columns; a number follows."""

SIZE_UNITS: Final = ("B", "KB", "MB", "GB", "TB")
"""The units of sizes; a unit's index is its power of the base (1024 or 1000)."""

_HEADING: Final = re.compile("|".join(re.escape(name) for name in sorted(TEXT_HEADINGS, key=len, reverse=True)))
_WORDS: Final = re.compile(r"\S+(?: \S+)*")
_TEXT_HEADER: Final = re.compile(r"(?P<lead>.*?)[ \t]*Start[ \t]+Duration[ \t]+(?:.*[ \t])?Name[ \t]*")
_CSV_HEADER: Final = re.compile(r'(?P<lead>.*?)"?Start"?,"?Duration"?,.*')
_UNIT: Final = re.compile(r"ns|us|ms|s|[KMGT]?B(?:/s)?")

# The column sets of tables without explicit copies, of old versions and of newer ones, for rows pasted without header.
_BARE_COLUMNS: Final = {
    11: "start duration grid block registers static dynamic device context stream name",
    13: "start duration grid block registers static dynamic size throughput device context stream name",
    15: "start duration grid block registers static dynamic size throughput src_memory dst_memory device context stream"
    " name",
}
_BARE_ROW: Final = re.compile(
    r"[ \t]*[0-9.]+(?:ns|us|ms|s)  +[0-9.]+(?:ns|us|ms|s)  +"
    r"(?:-|\([0-9]+ [0-9]+ [0-9]+\))  +(?:-|\([0-9]+ [0-9]+ [0-9]+\))  +\S.*"
)


@dataclass(frozen=True, slots=True)
class TextLayout:
    """The columns of a text table with their positions; cells are right-aligned, the name begins below its heading."""

    lead: str
    """The prefix of every line (``// ``)."""
    columns: tuple[str, ...]
    """Values of `TEXT_HEADINGS`, or columns that begin with `OTHER`; the last is the name."""
    edges: tuple[int, ...]
    """The index after each column's last character, for all columns but the name."""
    name_start: int
    units: Mapping[str, str] = field(default_factory=dict)
    """Units of columns from a second header line."""

    @property
    def is_api(self) -> bool:
        """Whether the table lists API calls alone."""
        return self.columns == ("start", "duration", "name")

    def with_units(self, text: str) -> TextLayout | None:
        """The layout with the units of a second header line; None if the line is no such line."""
        found = {}
        for token in re.finditer(r"\S+", text[len(self.lead) :] if text.startswith(self.lead) else text):
            shift = len(self.lead) if text.startswith(self.lead) else 0
            if not _UNIT.fullmatch(token[0]) or token.end() + shift not in self.edges:
                return None
            found[self.columns[self.edges.index(token.end() + shift)]] = token[0]
        if found.get("start") not in NS_PER_UNIT or found.get("duration") not in NS_PER_UNIT:
            return None
        return TextLayout(self.lead, self.columns, self.edges, self.name_start, found)


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """The columns of a CSV table."""

    lead: re.Pattern[str]
    """The prefix of every line; numbers in it may differ from line to line."""
    columns: tuple[str, ...]
    """Values of `CSV_HEADINGS`, or columns that begin with `OTHER`."""
    units: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_api(self) -> bool:
        """Whether the table lists API calls alone."""
        return not {"grid_x", "device"} & set(self.columns)

    def cells(self, text: str) -> list[str] | None:
        """The cells of a line; None unless there are as many as columns."""
        lead = self.lead.match(text)
        if lead is None:
            return None
        row = csv_cells(text[lead.end() :])
        return row if len(row) == len(self.columns) else None

    def with_units(self, text: str) -> CsvLayout | None:
        """The layout with the units of a second header line; None if the line is no such line."""
        row = self.cells(text)
        if row is None or any(cell and not _UNIT.fullmatch(cell) for cell in row):
            return None
        units = {column: cell for column, cell in zip(self.columns, row, strict=True) if cell}
        if units.get("start") not in NS_PER_UNIT or units.get("duration") not in NS_PER_UNIT:
            return None
        return CsvLayout(self.lead, self.columns, units)


Layout = TypeVar("Layout", TextLayout, CsvLayout)


def units_again(layout: Layout, text: str) -> Layout | None:
    """The layout with other units if a line is a row of units of the same columns, otherwise None."""
    again = layout.with_units(text)
    return again if again is not None and again.units.keys() == layout.units.keys() else None


HEADLESS_AGAIN: Final = (
    "the header above this row of units is missing: the rows below are read with the columns of the trace above, as "
    "another run"
)


def text_header(text: str) -> TextLayout | None:
    """The layout of a text table's header line; None if the line is none.

    >>> layout = text_header("   Start  Duration  Name")
    >>> layout.columns, layout.edges, layout.name_start
    (('start', 'duration', 'name'), (8, 18), 20)
    """
    match = _TEXT_HEADER.fullmatch(text)
    if match is None:
        return None
    columns: list[str] = []
    ends: list[int] = []
    position = match.end("lead")
    for heading in _HEADING.finditer(text, position):
        # An unknown column is not used, but its position is needed.
        for other in _WORDS.finditer(text, position, heading.start()):
            columns.append(f"{OTHER}{len(columns)}")
            ends.append(other.end())
        columns.append(TEXT_HEADINGS[heading[0]])
        ends.append(heading.end())
        position = heading.end()
    if text[position:].strip() or not _are_of_a_trace(columns) or columns[-1] != "name":
        return None
    return TextLayout(match["lead"], tuple(columns), tuple(ends[:-1]), ends[-1] - len("Name"))


def _are_of_a_trace(columns: Sequence[str]) -> bool:
    """Whether columns are distinct, and enough of them known."""
    others = any(column.startswith(OTHER) for column in columns)
    return len(set(columns)) == len(columns) and (not others or bool({"grid", "grid_x", "device"} & set(columns)))


def bare_row(text: str) -> TextLayout | None:
    """The layout of a row that was pasted without its header; None if uncertain."""
    if not _BARE_ROW.fullmatch(text):
        return None
    cells = list(_WORDS.finditer(text))
    # A name may contain two consecutive blanks; the columns before it do not.
    for count in sorted(_BARE_COLUMNS, reverse=True):
        columns = tuple(_BARE_COLUMNS[count].split())
        if len(cells) < count:
            continue
        by_name = dict(zip(columns, (cell[0] for cell in cells), strict=False))
        if not (_is_number(by_name["context"]) and _is_number(by_name["stream"])):
            continue
        if all(_BARE_TYPES.get(column, _ANYTHING).fullmatch(cell) for column, cell in by_name.items()):
            edges = tuple(cell.end() for cell in cells[: count - 1])
            return TextLayout("", columns, edges, cells[count - 1].start())
    return None


_ANYTHING: Final = re.compile(r".+")
_BARE_TYPES: Final = {
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
    """The layout of a CSV table's header line; None if the line is none.

    >>> csv_header('131072,"Start","Duration","Name"').columns
    ('start', 'duration', 'name')
    """
    match = _CSV_HEADER.fullmatch(text)
    if match is None:
        return None
    headings = csv_cells(text[match.end("lead") :])
    columns = tuple(CSV_HEADINGS.get(heading, f"{OTHER}{place}") for place, heading in enumerate(headings))
    if not _are_of_a_trace(columns) or "name" not in columns:
        return None
    lead = match["lead"].strip()
    pattern = r"[ \t]*" + re.sub("[0-9]+", "[0-9]+", re.escape(lead)) + r"[ \t]*"
    return CsvLayout(re.compile(pattern), columns)
