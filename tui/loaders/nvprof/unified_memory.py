"""Reads nvprof's unified memory result, as text or CSV."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tui.loaders.nvprof.numbers import count, csv_cells, size_bytes, time_ns
from tui.loaders.nvprof.reader_state import NvprofState, is_lead, is_message
from tui.loaders.nvprof.summary_figures import add_row

if TYPE_CHECKING:
    from tui.loaders.text.block import Line

_HEADER: Final = re.compile(
    r"\s*Count\s+Avg Size\s+Min Size\s+Max Size\s+Total Size\s+Total Time\s+(?:Bandwidth\s+)?Name\s*"
)
_CSV_HEADER: Final = ("Device", "Count", "Avg Size", "Min Size", "Max Size", "Total Size", "Total Time", "")
_DEVICE: Final = re.compile(r'\s*Device "(?P<device>[^"]*)"\s*')
_COUNT: Final = re.compile(r"[0-9]{1,18}")
_ROW: Final = re.compile(
    r"(?P<count>[0-9]+|-)" + r"\s+(\S+)" * 4 + r"\s+(?P<time>\S+)\s+(?:[0-9.]+[KMGT]?B/s\s+)?(?P<name>[A-Za-z].*)"
)
_FOOTER: Final = re.compile(r"\s*Total (?P<name>[A-Za-z][\w ]*?): (?P<count>[0-9]+)\s*")
_CELL: Final = re.compile(r"(?<!\S)(?:[0-9][0-9.]*(?:[KMGT]?B|[num]?s)|-)(?!\S)")
_LEAST_CELLS: Final = 3
_TOTAL: Final = re.compile(r"\s*Total (?:CPU|remote|GPU) ")


def open_unified_memory(line: Line, state: NvprofState) -> UnifiedMemorySection | MemoryCsvSection | None:
    """Open a table at its header, at the device above it, or at a total below a missing table."""
    text = state.bare(line.text)
    start = text.find('"')
    if start >= 0 and is_lead(text[:start]) and tuple(csv_cells(text[start:])) == _CSV_HEADER:
        state.note_lead(line.text, len(line.text) - len(text) + start)
        return MemoryCsvSection(line, state)
    if _HEADER.fullmatch(text) or (state.heading == "um" and (_DEVICE.fullmatch(text) or _FOOTER.fullmatch(text))):
        section = UnifiedMemorySection(line, state)
        section.take(line)
        return section
    return None


def _is_damaged(text: str, line: Line, state: NvprofState) -> bool:
    """Report an unreadable line that looks like a row: with several sizes and times."""
    if len(_CELL.findall(text)) < _LEAST_CELLS and not _TOTAL.match(text):
        return False
    reason = "this looks like a row of unified memory, but not all of its columns can be read; it was left out"
    state.collector.issue("warning", line.number, line.text.strip(), reason)
    return True


class UnifiedMemorySection:
    """One result, with a table for each GPU and totals below.

    Rows go to the ``summary`` frame with section ``um``: ``calls`` is the count, ``total_ns`` the total time. The sizes
    have no column there; they are only checked.
    """

    def __init__(self, line: Line, state: NvprofState) -> None:
        self._state = state
        state.ensure_session(line.number)

    def take(self, line: Line) -> bool:
        """Read a line of the result."""
        text = self._state.bare(line.text)
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
            add_row(self._state, "um", line, footer["name"], calls=count(footer["count"]))
            return True
        match = _ROW.fullmatch(text.strip())
        if match is None or len(_CELL.findall(match["name"])) >= _LEAST_CELLS:
            return _is_damaged(text, line, self._state)
        try:
            for cell in match.group(2, 3, 4, 5):
                if cell != "-":
                    size_bytes(cell)
            calls = None if match["count"] == "-" else count(match["count"])
            total_ns = None if match["time"] == "-" else time_ns(match["time"])
        except ValueError:
            return _is_damaged(text, line, self._state)
        add_row(self._state, "um", line, match["name"], calls=calls, total_ns=total_ns)
        return True

    def close(self) -> None:
        """All rows are in the collector already."""


class MemoryCsvSection:
    """The unified memory result in CSV: sizes have units, the total time has none.

    nvprof prints 0.000000 for every total time here: that is not a time, so it is unknown. It also prints the number
    of page fault groups as a size; their count is unknown.
    """

    def __init__(self, line: Line, state: NvprofState) -> None:
        self._state = state
        self._times_lost = 0
        self._first_line = line.number
        state.ensure_session(line.number)

    def take(self, line: Line) -> bool:
        """Read a row."""
        text = self._state.bare(line.text).strip()
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
        calls = count(cells[1]) if cells[1] else None
        add_row(self._state, "um", line, cells[-1], calls=calls, total_ns=total_ns)
        return True

    def close(self) -> None:
        """Report that the times are unknown."""
        if self._times_lost:
            self._state.collector.issue(
                "info",
                self._first_line,
                "Unified Memory profiling result",
                "nvprof's CSV gives no unit for the total time of unified memory and prints 0.000000: it is unknown. "
                "Record without --csv to see it",
            )
