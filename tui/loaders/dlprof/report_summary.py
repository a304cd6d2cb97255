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

    def __init__(self, collector: Collector, format_name: str, line: Line) -> None:
        """Begin with the line of the first title."""
        self._collector = collector
        self._part = PARTS[0]
        self._columns: list[str] = []
        self._session = collector.open_session(format_name, line.number)
        self._session.facts["tool"] = TOOL

    def take(self, line: Line) -> bool:
        """Read a title, the header of a table, or a line with a name and what belongs to it."""
        text = line.text.strip()
        if not text:
            return True
        if text in PARTS:
            self._part, self._columns = text, []
            return text != PARTS[0]
        name, comma, rest = text.partition(",")
        if not comma:
            return False
        if not name:
            self._columns = [cell.strip() for cell in split_cells(rest)]
        elif self._columns:
            self._add_row(name.strip('"'), split_cells(rest), line)
        else:
            self._add(name.strip('"'), rest.strip('"'), line)
        return True

    def close(self) -> None:
        """Everything has been handed over."""

    def _add_row(self, name: str, cells: list[str], line: Line) -> None:
        if len(cells) != len(self._columns):
            reason = f"expected {len(self._columns)} figures, found {len(cells)}; the row is left out"
            self._collector.issue("warning", line.number, line.text, reason)
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
