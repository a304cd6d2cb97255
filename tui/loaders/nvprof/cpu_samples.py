"""Reads the CPU samples and the dependency analysis of nvprof, as text or CSV."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tui.loaders.nvprof.numbers import NS_PER_UNIT, csv_cells, percent, time_ns
from tui.loaders.nvprof.reader_state import NvprofState, is_lead, is_message
from tui.loaders.nvprof.summary_figures import add_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.text.block import Line

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

_LEFT_OUT: Final = re.compile(r"[\s.]*|\s*\[\.\.\.\]\s*")
_DAMAGED: Final = re.compile(
    r"[0-9]\.[0-9]*%(?!\w)|(?<!\S)[0-9][0-9.]*[num]?s\s+[0-9][0-9.]*[num]?s\s|[0-9]%?\s+[0-9][0-9.]*[num]?s\s"
)
_BEGINS: Final = re.compile(r"[0-9]{1,3}\.[0-9]+(?:[\s,]|$)")
"""A truncated row without units."""


def open_shares(line: Line, state: NvprofState) -> ShareSection | None:
    """Open a table at its header."""
    text = state.bare(line.text)
    start = text.find('"')
    in_csv = start >= 0 and is_lead(text[:start])
    table = _TABLES.get(" ".join(csv_cells(text[start:]) if in_csv else text.split()))
    return None if table is None else ShareSection(line, state, *table, in_csv=in_csv)


class ShareSection:
    """The functions of CPU samples, or the share of each function in the critical path.

    Rows go to the ``summary`` frame, section ``cpu`` or ``dependency``. Of the CPU samples only the functions at the
    root of the tree do: the lines below one divide its time among callers (bottom up) or callees (top down), so
    adding them would count it twice.
    """

    def __init__(self, line: Line, state: NvprofState, section: str, times: int, *, in_csv: bool) -> None:
        self._state = state
        self._section = section
        self._times = times
        self._in_csv = in_csv
        self._unit: str | None = None
        self._below = 0
        self._first_line = self._last_line = line.number
        state.ensure_session(line.number)

    def take(self, line: Line) -> bool:
        """Read a line: a row, or the units below the header."""
        text = self._state.bare(line.text).strip()
        if is_message(line.text):
            return False
        cells = self._cells(text)
        taken = cells is not None or _LEFT_OUT.fullmatch(text) or self._take_units(text)
        if not taken and not self._is_damaged(text, line):
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
        add_row(self._state, self._section, line, name.strip(), total_ns=total_ns, time_pct=percent(share))

    def _take_units(self, text: str) -> bool:
        """The units of the times, from a row of units."""
        words = [word for word in (text.split(",") if self._in_csv else text.split()) if word]
        if words[:1] != ["%"] or len(words) != self._times + 1 or not set(words[1:]) <= set(NS_PER_UNIT):
            return False
        self._unit = words[1] if self._times else ""
        return True

    def _cells(self, text: str) -> Sequence[str] | None:
        """The share, the times and the name of a row; None if the line is no row."""
        if self._in_csv:
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
        if not _DAMAGED.search(text) and not (below_row and _BEGINS.match(text)):
            return False
        reason = f"this looks like a row of {_CALLED[self._section]}, but not all of its columns can be read"
        self._state.collector.issue("warning", line.number, text, f"{reason}; it was left out")
        return True

    def close(self) -> None:
        """Report that the tree of CPU samples has more lines than rows."""
        if self._below:
            self._state.collector.issue(
                "info",
                self._first_line,
                "CPU profiling result",
                f"{self._below} lines below the functions of the CPU samples divide their time among callers or "
                "callees: they are in the text only, as their times are in the rows above them already",
            )
