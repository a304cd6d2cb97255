"""Reads DLProf's summary report: titled parts with a name and a value in each line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tui.loaders.dlprof.dlprof_activities import TOOL
from tui.loaders.dlprof.dlprof_figures import CONFIG, KERNELS, OPS
from tui.loaders.text.section import split_cells

if TYPE_CHECKING:
    from tui.loaders.collector import Collector, Value
    from tui.loaders.text.block import Line

PARTS: Final = ("System Config", "Summary Report", "Iterations", "All Ops", "All Kernels")
"""Their titles; the report begins with the first."""
_TABLES: Final = ("All Ops", "All Kernels")
"""Parts whose rows have several figures, below a header that names them."""
_ROWS: Final = {
    "System Config": ("GPU Name(s)", *(name for name, _ in CONFIG)),
    "Summary Report": (
        *("Wall Clock Time (ns)", "Tensor Core Kernel Utilization %", "GPU Utilization %"),
        *("Tensor Core Kernel Duration %", "Non-Tensor Core Kernel Duration %"),
        *(f"{what} Duration %" for what in ("Memory", "Dataloader", "IO", "CPU", "Other")),
    ),
    "Iterations": (
        *("Total Iterations", "Aggregated Iterations", "Start Iteration", "Stop Iteration"),
        *("Average Iteration Time (ns)", "Iteration Time Standard Deviation"),
    ),
}
"""What the rows of a part are called: they tell the part also where its title is lost."""
_PART_OF: Final = {
    **{name: part for part, names in _ROWS.items() for name in names},
    **dict.fromkeys(("# Ops", *(name for name, _ in OPS)), "All Ops"),
    **dict.fromkeys(("# Kernels", "All kernels", *(name for name, _ in KERNELS)), "All Kernels"),
}
"""By the name of a row, and by the last title in the header of a table."""
_TABLE_HEADER: Final = r'(?:"")?,"?GPU Time \(ns\)"?,"?CPU Time \(ns\)"?,"?# (?:Ops|Kernels)'
OURS: Final = re.compile(
    rf'\s*(?:"?(?:DLProf Version|DLProf Build|Wall Clock Time \(ns\)|Aggregated Iterations)"?,|{_TABLE_HEADER})'
)
"""A line that no other tool writes."""
CUE: Final = "|".join(
    (
        rf'"?(?:{"|".join(PARTS)})["\s,]*$',
        rf'"?(?:{"|".join(re.escape(name) for names in _ROWS.values() for name in names)})"?,'.replace(r"\ ", " "),
        _TABLE_HEADER,
    )
)
"""Finds titles, and rows that are told by their names."""

_FACTS: Final = {
    "Framework": "framework",
    "CUDA Version": "cuda_version",
    "cuDNN Version": "cudnn_version",
    "GPU Driver Version": "driver_version",
    "DLProf Version": "tool_version",
}
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?")
_UNIT: Final = re.compile(r"\s*(?:\((ns|%)\)|(%))$")


def name_and_unit(title: str) -> tuple[str, str | None]:
    """The name and the unit in the heading of a figure.

    >>> name_and_unit("Total GPU Time (ns)"), name_and_unit("CPU Duration %"), name_and_unit("# Ops")
    (('Total GPU Time', 'ns'), ('CPU Duration', '%'), ('# Ops', None))
    """
    found = _UNIT.search(title)
    return (title, None) if found is None else (title[: found.start()], found[1] or found[2])


def bare(text: str) -> str:
    """A title without the quotation marks and the empty cells that a spreadsheet gives it.

    >>> bare('"System Config",,')
    'System Config'
    """
    return text.strip(' ",')


def part_of(text: str) -> str | None:
    """The part that a line is the title of, or a row by its name; None of other lines.

    >>> part_of("Iterations"), part_of('"GPU Count","2"'), part_of(",GPU Time (ns),CPU Time (ns),# Ops"), part_of("GPU")
    ('Iterations', 'System Config', 'All Ops', None)
    """
    if bare(text) in PARTS:
        return bare(text)
    cells = split_cells(text)
    if len(cells) < 2:
        return None
    return _PART_OF.get(cells[0] or next((cell for cell in reversed(cells) if cell), ""))


def _without_filling(cells: list[str], *, least: int = 0) -> list[str]:
    """Cells without the empty ones at the end that fill a line up; at least so many of them."""
    filled = max((place for place, cell in enumerate(cells, 1) if cell.strip()), default=0)
    return cells[: max(filled, least)]


class DlprofSummary:
    """The lines of one summary report, as a `tui.loaders.text.section.Section`."""

    def __init__(
        self, collector: Collector, format_name: str, line: Line, *, ends: re.Pattern[str], has_title: bool = True
    ) -> None:
        """Begin with the line of the first title, or, without it, in any part.

        Args:
            collector: Gets the figures.
            format_name: The session's.
            line: The first line.
            ends: Matches the title of another report.
            has_title: Whether the first line is the first title; it needs no `take` then.
        """
        self._collector = collector
        self._ends = ends
        self._part = part_of(line.text.strip()) or PARTS[0]
        self._columns: list[str] = []
        self._is_below_blank = False
        self._no_pair: Line | None = None
        """The line above, where it is neither a title nor a name and a value."""
        self._session = collector.open_session(format_name, line.number)
        self._session.facts["tool"] = TOOL
        if not has_title:
            reason = f"expected the title {PARTS[0]!r} above: this report has lost its beginning, and what stood there"
            self._warn(line, reason)

    def take(self, line: Line) -> bool:
        """Read a title, the header of a table, or a line with a name and what belongs to it."""
        text = line.text.strip()
        below_blank, self._is_below_blank = self._is_below_blank, not bare(text)
        if not bare(text):
            return True
        above, self._no_pair = self._no_pair, None
        part = part_of(text)
        if bare(text) == part:
            self._part, self._columns = part, []
            return part != PARTS[0]
        if "," not in text.rstrip(","):
            return self._take_no_pair(line, above, below_blank=below_blank)
        self._see_part(part, line, above if not below_blank else None)
        if self._part:
            self._take_pair(text, line)
        return True

    def _see_part(self, part: str | None, line: Line, damaged_title: Line | None) -> None:
        """Go to the part that a row is of by its name, where it stands below the title of another or a damaged one."""
        if part is not None and part != self._part:
            reason = f"expected the title {part!r}: the rows below are read as its own, by their names"
            self._warn(damaged_title or line, reason)
            self._part, self._columns = part, []
        elif damaged_title is not None:
            reason = f"expected one of the titles {', '.join(PARTS)}: the figures below it are left out"
            self._warn(damaged_title, reason)
            self._part = ""

    def _take_pair(self, text: str, line: Line) -> None:
        """Read the header of a table, or a name and what belongs to it."""
        name, *cells = split_cells(text)
        if not name:
            self._columns = [cell.strip() for cell in _without_filling(cells)]
        elif self._part in _TABLES and not self._columns:
            self._warn(line, "the header above it that names its figures is missing or damaged; the row is left out")
        elif self._columns:
            self._add_row(name, _without_filling(cells, least=len(self._columns)), line)
        else:
            # Commas between the names of GPUs stand outside of quotation marks.
            self._add(name, ",".join(_without_filling(cells)), line)

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
