"""Reads nvprof's other results, as text or CSV: unified memory, CPU samples, the dependency analysis."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tui.loaders.nvprof.numbers import NS_PER_UNIT, csv_cells, parse_count, parse_percent, time_ns
from tui.loaders.nvprof.reader_state import NvprofState, is_line_prefix, is_message
from tui.loaders.nvprof.summary_figures import add_row
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.text.block import Line
    from tui.loaders.text.section import Section

_HEADER: Final = re.compile(
    r"\s*Count\s+Avg Size\s+Min Size\s+Max Size\s+Total Size\s+Total Time\s+(?:Bandwidth\s+)?Name\s*"
)
_CSV_HEADER: Final = ("Device", "Count", "Avg Size", "Min Size", "Max Size", "Total Size", "Total Time", "")
_DEVICE: Final = re.compile(r'\s*Device "(?P<device>[^"]*)"\s*')
_COUNT: Final = re.compile(r"[0-9]{1,18}")
_ROW: Final = re.compile(
    r"(?P<count>[0-9]+|-)" + r"\s+(\S+)" * 4 + r"\s+(?P<time>\S+)\s+(?:[0-9.]+[KMGT]?B/s\s+)?(?P<name>[A-Za-z].*)"
)
_SIZE: Final = re.compile(r"-|(?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?)(?P<unit>[KMGT]?)B")
_UNITS: Final = ("", "K", "M", "G", "T")
"""The units of sizes; a unit's index is its power of 1024."""
_FOOTER: Final = re.compile(r"\s*Total (?P<name>[A-Za-z][\w ]*?): (?P<count>[0-9]+)\s*")
_CELL: Final = re.compile(r"(?<!\S)(?:[0-9][0-9.]*(?:[KMGT]?B|[num]?s)|-)(?!\S)")
_MIN_CELLS: Final = 3
_TOTAL: Final = re.compile(r"\s*Total (?:CPU|remote|GPU) ")


def open_unified_memory(line: Line, state: NvprofState) -> UnifiedMemorySection | MemoryCsvSection | None:
    """Open a table at its header, at the device above it, or at a total below a missing table."""
    text = state.without_prefix(line.text)
    start = text.find('"')
    if start >= 0 and is_line_prefix(text[:start]) and tuple(csv_cells(text[start:])) == _CSV_HEADER:
        state.note_prefix(line.text, len(line.text) - len(text) + start)
        return MemoryCsvSection(line, state)
    if _HEADER.fullmatch(text) or (state.heading == "um" and (_DEVICE.fullmatch(text) or _FOOTER.fullmatch(text))):
        section = UnifiedMemorySection(line, state)
        section.take(line)
        return section
    return None


def _bytes(cell: str) -> int | None:
    """Return a size; None if the cell has none, or an implausible one.

    >>> _bytes("1.156250MB"), _bytes("-"), _bytes("9e300TB")
    (1212416, None, None)
    """
    match = _SIZE.fullmatch(cell)
    if match is None or not match["number"]:
        return None
    size = float(match["number"]) * 1024.0 ** _UNITS.index(match["unit"])
    return round(size) if size < 1 << 62 else None


def _is_damaged(text: str, line: Line, state: NvprofState) -> bool:
    """Report an unreadable line that looks like a row: with several sizes and times."""
    if len(_CELL.findall(text)) < _MIN_CELLS and not _TOTAL.match(text):
        return False
    reason = "this looks like a unified memory row, but some columns are unreadable: row skipped"
    state.collector.issue("warning", line.number, line.text.strip(), reason)
    return True


class UnifiedMemorySection:
    """One result, with a table for each GPU and totals below.

    Rows go to the ``summary`` frame with section ``um``: ``calls`` is the count, ``total_ns`` the total time,
    ``size_bytes`` the total size; the other sizes are only checked.
    """

    def __init__(self, line: Line, state: NvprofState) -> None:
        self._state = state
        state.ensure_session(line.number)

    def take(self, line: Line) -> bool:
        """Read a line of the result."""
        text = self._state.without_prefix(line.text)
        if is_message(line.text):
            return False
        if not text.strip() or _HEADER.fullmatch(text):
            return True
        device = _DEVICE.fullmatch(text)
        if device is not None:
            self._state.note_device(device["device"])
            return True
        footer = _FOOTER.fullmatch(text)
        if footer is not None:
            add_row(self._state, "um", line, footer["name"], calls=parse_count(footer["count"]))
            return True
        match = _ROW.fullmatch(text.strip())
        if match is None or len(_CELL.findall(match["name"])) >= _MIN_CELLS:
            return _is_damaged(text, line, self._state)
        if not all(_SIZE.fullmatch(cell) for cell in match.group(2, 3, 4, 5)):
            return _is_damaged(text, line, self._state)
        try:
            calls = None if match["count"] == "-" else parse_count(match["count"])
            total_ns = None if match["time"] == "-" else time_ns(match["time"])
        except ValueError:
            return _is_damaged(text, line, self._state)
        add_row(self._state, "um", line, match["name"], calls=calls, total_ns=total_ns, size_bytes=_bytes(match[5]))
        return True

    def close(self) -> None:
        """Do nothing: all rows are in the collector already."""


class MemoryCsvSection:
    """The unified memory result in CSV: sizes have units, the total time has none.

    nvprof prints 0.000000 for every total time here: that is not a time, so it is unknown. It also prints the number
    of page fault groups and of throttles as a size, 16B for 16, which is exact below 1 MB.
    """

    def __init__(self, line: Line, state: NvprofState) -> None:
        self._state = state
        self._times_lost = 0
        self._first_line = line.number
        state.ensure_session(line.number)

    def take(self, line: Line) -> bool:
        """Read a row."""
        text = self._state.without_prefix(line.text).strip()
        if is_message(line.text) or _FOOTER.fullmatch(text):
            return False
        if not text:
            return True
        cells = csv_cells(text)
        if len(cells) != len(_CSV_HEADER) or not cells[-1] or not (cells[1] == "" or _COUNT.fullmatch(cells[1])):
            return _is_damaged(text.replace(",", " "), line, self._state)
        self._state.note_device(cells[0])
        try:
            total_ns = time_ns(cells[-2])
        except ValueError:
            total_ns = None
            self._times_lost += 1
        total = _bytes(cells[-3])
        calls = parse_count(cells[1]) if cells[1] else total if total is not None and total < 1 << 20 else None
        size_bytes = total if cells[2] else None
        add_row(self._state, "um", line, cells[-1], calls=calls, total_ns=total_ns, size_bytes=size_bytes)
        return True

    def close(self) -> None:
        """Report that the times are unknown."""
        if self._times_lost:
            self._state.collector.issue(
                "info",
                self._first_line,
                "Unified Memory profiling result",
                "nvprof's CSV prints the total time of unified memory as 0.000000 without a unit: it is unknown. "
                "Profile without --csv to see it",
            )


_TABLES: Final = MappingProxyType(
    {
        "Time(%) Name": ("cpu", 0),
        "Time(%) Time Name": ("cpu", 1),
        "Critical path(%) Critical path Waiting time Name": ("dependency", 2),
    }
)
"""The header of each table, the section of its rows, and the number of times in a row besides the share."""

_CALLED: Final = MappingProxyType({"cpu": "the CPU samples", "dependency": "the dependency analysis"})

_TIME: Final = r"\s+([0-9][0-9.]*(?:e[+-]?[0-9]+)?(?:[num]?s)?)"
_ROWS: Final = tuple(
    re.compile(r"([0-9]+(?:\.[0-9]+)?%?)" + _TIME * times + r"(?: {1,2}|\t)(.+)")
    for times in range(max(times for _, times in _TABLES.values()) + 1)
)
"""Rows by the number of times. More blanks before a name are its indentation in the tree of CPU samples."""

_IGNORED_LINE: Final = re.compile(r"[\s.]*|\s*\[\.\.\.\]\s*")
_DAMAGED: Final = re.compile(
    r"[0-9]\.[0-9]*%(?!\w)|(?<!\S)[0-9][0-9.]*[num]?s\s+[0-9][0-9.]*[num]?s\s|[0-9]%?\s+[0-9][0-9.]*[num]?s\s"
)
_ROW_START: Final = re.compile(r"[0-9]{1,3}\.[0-9]+(?:[\s,]|$)")
"""A truncated row without units."""


def open_shares(line: Line, state: NvprofState) -> Section | None:
    """Open a table at its header."""
    text = state.without_prefix(line.text)
    start = text.find('"')
    is_csv = start >= 0 and is_line_prefix(text[:start])
    header = " ".join(csv_cells(text[start:]) if is_csv else text.split())
    if header == "Start Duration Critical path Waiting time Name":
        return DependencyTrace(line, state)
    table = _TABLES.get(header)
    return None if table is None else ShareSection(line, state, *table, is_csv=is_csv)


_DEPENDENCY: Final = re.compile(r"\s*(?:[0-9][0-9.]*(?:e[+-]?[0-9]+)?(?:[num]?s)?|[num]?s)[,\s]")


class DependencyTrace:
    """The calls and kernels of a dependency analysis one by one, which are not read."""

    def __init__(self, line: Line, state: NvprofState) -> None:
        self._state = state
        self._first_line = line.number
        self._rows = 0
        state.ensure_session(line.number)

    def take(self, line: Line) -> bool:
        """Count a row."""
        text = self._state.without_prefix(line.text)
        is_row = not is_message(line.text) and _DEPENDENCY.match(text) is not None
        self._rows += is_row and text.strip()[0].isdecimal()
        return is_row or not text.strip()

    def close(self) -> None:
        """Report the rows."""
        reason = (
            f"{plural(self._rows, 'row')} of the trace of the dependency analysis not read; for its summary by name, "
            "profile without --print-dependency-analysis-trace"
        )
        self._state.collector.issue("info", self._first_line, "Dependency Analysis", reason)


class ShareSection:
    """The functions of CPU samples, or the share of each function in the critical path.

    Rows go to the ``summary`` frame, section ``cpu`` or ``dependency``. Of the CPU samples only the functions at the
    root of the tree do: the lines below one divide its time among callers (bottom up) or callees (top down), so
    adding them would count it twice.
    """

    def __init__(self, line: Line, state: NvprofState, section: str, times: int, *, is_csv: bool) -> None:
        self._state = state
        self._section = section
        self._times = times
        self._is_csv = is_csv
        self._unit: str | None = None
        self._below = 0
        self._first_line = self._last_line = line.number
        state.ensure_session(line.number)

    def take(self, line: Line) -> bool:
        """Read a line: a row, or the units below the header."""
        text = self._state.without_prefix(line.text).strip()
        if is_message(line.text):
            return False
        cells = self._cells(text)
        is_read = cells is not None or _IGNORED_LINE.fullmatch(text) or self._take_units(text)
        if not is_read and not self._is_damaged(text, line):
            return False
        self._last_line = line.number
        if cells is not None:
            self._take_row(cells, line)
        return True

    def _take_row(self, cells: Sequence[str], line: Line) -> None:
        share, *times, name = cells
        total_ns = time_ns(times[0], self._unit) if times else None
        if self._section == "cpu" and name[0] in " |":
            self._below += 1
            return
        add_row(self._state, self._section, line, name.strip(), total_ns=total_ns, time_pct=parse_percent(share))

    def _take_units(self, text: str) -> bool:
        """Return the units of the times, from a row of units."""
        words = [word for word in (text.split(",") if self._is_csv else text.split()) if word]
        if words[:1] != ["%"] or len(words) != self._times + 1 or not set(words[1:]) <= set(NS_PER_UNIT):
            return False
        self._unit = words[1] if self._times else ""
        return True

    def _cells(self, text: str) -> Sequence[str] | None:
        """Return the share, the times and the name of a row; None if the line is no row."""
        if self._is_csv:
            cells = csv_cells(text)
            # An unquoted name is split at its commas.
            cells[self._times + 1 :] = [",".join(cells[self._times + 1 :])]
            return cells if all(cell[:1].isdecimal() for cell in cells[:-1]) and cells[-1] else None
        match = _ROWS[self._times].fullmatch(text)
        if match is None or _DAMAGED.search(match[match.lastindex or 0]):
            return None
        return match.groups() if match[1].endswith("%") or self._unit is not None else None

    def _is_damaged(self, text: str, line: Line) -> bool:
        """Report an unreadable line that looks like a row: with a percentage, or times in columns."""
        below_row = self._unit is not None and self._last_line == line.number - 1
        if not _DAMAGED.search(text) and not (below_row and _ROW_START.match(text)):
            return False
        reason = f"this looks like a row of {_CALLED[self._section]}, but some columns are unreadable"
        self._state.collector.issue("warning", line.number, text, f"{reason}: row skipped")
        return True

    def close(self) -> None:
        """Report that the tree of CPU samples has more lines than rows."""
        if self._below:
            self._state.collector.issue(
                "info",
                self._first_line,
                "CPU profiling result",
                f"{self._below} lines split the CPU sample times among callers or callees: their times are already "
                "in the rows above, so they are in the log only",
            )
