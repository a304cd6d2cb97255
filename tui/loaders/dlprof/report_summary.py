"""Reads the summary report of DLProf: parts with a title each, and a name and a value in every line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tui.loaders.dlprof.gpu_work import TOOL
from tui.loaders.text.table_rows import split_cells

if TYPE_CHECKING:
    from tui.loaders.collector import Collector, Value
    from tui.loaders.text.section import Line

PARTS: Final = ("System Config", "Summary Report", "Iterations", "All Ops", "All Kernels")
"""Their titles; the report begins with the first."""
_TABLES: Final = ("All Ops", "All Kernels")
"""Parts whose rows have several figures, below a header that names them."""

_FACTS: Final = {
    "Framework": "framework",
    "CUDA Version": "cuda_version",
    "cuDNN Version": "cudnn_version",
    "GPU Driver Version": "driver_version",
    "DLProf Version": "tool_version",
}
_NUMBER: Final = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?")
_UNIT: Final = re.compile(r"\s*(?:\((ns|%)\)|(%))$")


def name_and_unit(title: str) -> tuple[str, str | None]:
    """The name and the unit in the heading of a figure.

    >>> name_and_unit("Total GPU Time (ns)"), name_and_unit("CPU Duration %"), name_and_unit("# Ops")
    (('Total GPU Time', 'ns'), ('CPU Duration', '%'), ('# Ops', None))
    """
    found = _UNIT.search(title)
    return (title, None) if found is None else (title[: found.start()], found[1] or found[2])


class Summary:
    """The lines of one summary report, as a `tui.loaders.text.section.Section`."""

    def __init__(self, collector: Collector, format_name: str, line: Line, *, ends: re.Pattern[str]) -> None:
        """Begin with the line of the first title; ``ends`` matches the title of another report."""
        self._collector = collector
        self._ends = ends
        self._part = PARTS[0]
        self._columns: list[str] = []
        self._is_below_blank = False
        self._no_pair: Line | None = None
        """The line above, where it is neither a title nor a name and a value."""
        self._session = collector.open_session(format_name, line.number)
        self._session.facts["tool"] = TOOL

    def take(self, line: Line) -> bool:
        """Read a title, the header of a table, or a line with a name and what belongs to it."""
        text = line.text.strip()
        below_blank, self._is_below_blank = self._is_below_blank, not text
        if not text:
            return True
        above, self._no_pair = self._no_pair, None
        if text in PARTS:
            self._part, self._columns = text, []
            return text != PARTS[0]
        name, comma, rest = text.partition(",")
        if not comma:
            return self._take_no_pair(line, above, below_blank=below_blank)
        if above is not None and not below_blank:
            reason = f"expected one of the titles {', '.join(PARTS)}: the figures below it are left out"
            self._warn(above, reason)
            self._part = ""
        if not self._part:
            return True
        if not name:
            self._columns = [cell.strip() for cell in split_cells(rest)]
        elif self._part in _TABLES and not self._columns:
            self._warn(line, "the header above it that names its figures is missing or damaged; the row is left out")
        elif self._columns:
            self._add_row(name.strip('"'), split_cells(rest), line)
        else:
            self._add(name.strip('"'), rest.strip('"'), line)
        return True

    def _take_no_pair(self, line: Line, above: Line | None, *, below_blank: bool) -> bool:
        """Read a line without a comma: a damaged title or row, or what stands below the report."""
        if above is not None or self._ends.match(line.text.strip()):
            return False
        if below_blank:
            # What follows tells whether it is a title.
            self._no_pair = line
        else:
            self._warn(line, "expected a name and a value with a comma between; the line is left out")
        return True

    def _warn(self, line: Line, reason: str) -> None:
        self._collector.resume_session(self._session)
        self._collector.issue("warning", line.number, line.text.strip(), reason)

    def close(self) -> None:
        """Everything has been handed over."""

    def _add_row(self, name: str, cells: list[str], line: Line) -> None:
        if len(cells) != len(self._columns):
            reason = f"expected {len(self._columns)} figures, found {len(cells)}; the row is left out"
            self._warn(line, reason)
            return
        for column, cell in zip(self._columns, cells, strict=True):
            self._add(f"{name}: {column}", cell, line)

    def _add(self, title: str, cell: str, line: Line) -> None:
        cell = cell.strip()
        if not cell:
            return
        if self._part == PARTS[0] and title in _FACTS:
            self._session.facts[_FACTS[title]] = cell.removeprefix("v") if title == "DLProf Version" else cell
        name, unit = name_and_unit(title)
        row: dict[str, Value] = {"tool": TOOL, "section": self._part, "name": name, "line": line.number}
        if self._part != PARTS[0] and _NUMBER.fullmatch(cell):
            self._collector.add("tool_figures", {**row, "value": float(cell), "unit": unit})
        else:
            self._collector.add("tool_figures", {**row, "text": cell})
