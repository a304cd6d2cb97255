"""Reads the unified memory result of nvprof's text: what was moved, how often, and how long it took."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tui.loaders.nvprof.numbers import count, size_bytes, time_ns
from tui.loaders.nvprof.state import NvprofState, is_message
from tui.loaders.nvprof.summary_rows import add_row

if TYPE_CHECKING:
    from tui.loaders.text.section import Line

_HEADER: Final = re.compile(r"\s*Count\s+Avg Size\s+Min Size\s+Max Size\s+Total Size\s+Total Time\s+Name\s*")
_DEVICE: Final = re.compile(r'\s*Device "(?P<name>[^"]*?)(?: \((?P<device>\d+)\))?"\s*')
_ROW: Final = re.compile(r"(?P<count>\d+|-)" + r"\s+(\S+)" * 4 + r"\s+(?P<time>\S+)\s+(?P<name>[A-Za-z].*)")
_FOOTER: Final = re.compile(r"\s*Total (?P<name>[A-Za-z][\w ]*?): (?P<count>\d+)\s*")
_CELL: Final = re.compile(r"(?<!\S)(?:\d[\d.]*(?:[KMGT]?B|[num]?s)|-)(?!\S)")
_LEAST_CELLS: Final = 3
_TOTAL: Final = re.compile(r"\s*Total (?:CPU|remote|GPU) ")


def open_unified_memory(line: Line, state: NvprofState) -> UnifiedMemorySection | None:
    """Begin with the header, with the device above it, or with a total below a table that is missing."""
    text = state.bare(line.text)
    if _HEADER.fullmatch(text) or (state.heading == "um" and (_DEVICE.fullmatch(text) or _FOOTER.fullmatch(text))):
        section = UnifiedMemorySection(line, state)
        section.take(line)
        return section
    return None


class UnifiedMemorySection:
    """One result, with a table for each GPU and totals below.

    Rows go to the ``summary`` frame with section ``um``: ``calls`` is the count, ``total_ns`` the total time. The sizes
    have no column there; they are checked, and stay in the text.
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
            if device["device"]:
                self._state.collector.add_device(int(device["device"]), device["name"])
            return True
        footer = _FOOTER.fullmatch(text)
        if footer is not None:
            add_row(self._state, "um", line, footer["name"], calls=count(footer["count"]))
            return True
        match = _ROW.fullmatch(text.strip())
        if match is None or len(_CELL.findall(match["name"])) >= _LEAST_CELLS:
            return self._is_damaged(text, line)
        try:
            for cell in match.group(2, 3, 4, 5):
                if cell != "-":
                    size_bytes(cell)
            calls = None if match["count"] == "-" else count(match["count"])
            total_ns = None if match["time"] == "-" else time_ns(match["time"])
        except ValueError:
            return self._is_damaged(text, line)
        add_row(self._state, "um", line, match["name"], calls=calls, total_ns=total_ns)
        return True

    def _is_damaged(self, text: str, line: Line) -> bool:
        """Whether a line that cannot be read is a row all the same: it has several sizes and times."""
        if len(_CELL.findall(text)) < _LEAST_CELLS and not _TOTAL.match(text):
            return False
        reason = "this looks like a row of unified memory, but not all of its columns can be read; it was left out"
        self._state.collector.issue("warning", line.number, text.strip(), reason)
        return True

    def close(self) -> None:
        """Every line was handed over as it came."""
