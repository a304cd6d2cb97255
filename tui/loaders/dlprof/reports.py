"""Reads the CSV reports of DLProf's command line (``dlprof --reports=all --formats=csv``).

The first line of a report is its title, the second its header; the summary alone has parts of its own instead. A report
is a session: several of one run tell the same times, each in its way.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.base import Format
from tui.loaders.dlprof import report_frames as frames
from tui.loaders.dlprof.gpu_work import TOOL
from tui.loaders.dlprof.report_summary import CUE, OURS, PARTS, Summary, bare, part_of
from tui.loaders.text.cell_values import CellValues
from tui.loaders.text.csv_table import CsvTable
from tui.loaders.text.table_rows import LINE, split_cells

if TYPE_CHECKING:
    from tui.loaders.collector import Collector, Session
    from tui.loaders.text.section import Line, Section, TextReader

FORMAT: Final = Format(
    name="dlprof-csv",
    title="DLProf CSV report",
    recognised_by="the header of a report below its title: 'Kernel Report', 'Iteration Report', 'System Config', ...",
    feeds=("sessions", "activities", "api_calls", "ops", "summary", "tool_figures", "tool_findings", "issues"),
    record_with="dlprof --mode=pytorch --reports=all --formats=csv python train.py",
)

HandOver = Callable[[CellValues, "Collector"], None]

_REPORTS: Final[Mapping[tuple[str, ...], HandOver]] = {
    ("Iteration", "Op ID", "Op Name"): frames.iteration_report,
    ("Kernel Name", "Op ID", "Op Name"): frames.kernel_report,
    ("Op ID", "Op Name", "Direction", "Op Type", "No. Calls"): frames.detailed_report,
    ("Op ID", "Op Name", "Op Type", "No. Calls"): frames.detailed_report,
    ("Op ID", "Op Name", "Direction", "Op Type", "Uses TC"): frames.tensor_core_report,
    ("Op ID", "Op Name", "Op Type", "Uses TC"): frames.tensor_core_report,
    ("Op Type", "# Ops", "# Calls"): frames.op_type_report,
    ("Name", "Num Calls Aggregated"): frames.group_report,
    ("Problem", "Recommendation"): frames.expert_systems_report,
}
"""How the header of each report begins, and what becomes of its rows. Only PyTorch has directions."""

_TITLES: Final = (
    r"(?:Iteration|Kernel|Op Type Summary|Group Op|Group Node|Tensor Core) Report|Expert Systems Feedback"
    r"|All Iterations|System Config"
)
_ENDS: Final = re.compile(rf'"?(?:{_TITLES})["\s,]*$')
_FIRST_CELL: Final = re.compile("|".join((_TITLES, *sorted({re.escape(header[0]) for header in _REPORTS}))))
_CUE: Final = "|".join(
    sorted(",".join(f'"?{re.escape(cell)}"?' for cell in header).replace(r"\ ", " ") for header in _REPORTS)
)
"""A tool that saves a report again may quote every cell, and fill lines up with empty ones."""

_MOST_BETWEEN: Final = 2
"""Lines from one line of a summary to the next: a blank one can stand between."""
_MOST_LINES: Final = 64
"""Lines that a summary has, at most."""


class _Sink:
    """Takes the rows of one report, and hands them over when all are there."""

    def __init__(self, collector: Collector, session: Session, hand_over: HandOver) -> None:
        self._collector = collector
        self._session = session
        self._hand_over = hand_over
        self._parts: list[pl.DataFrame] = []

    def add(self, cells: pl.DataFrame) -> None:
        # A blank line of a spreadsheet is a row of empty cells.
        self._parts.append(cells.filter(~pl.all_horizontal(pl.exclude(LINE).is_null())))

    def damaged(self, line: Line, reason: str) -> None:
        self._collector.resume_session(self._session)
        self._collector.issue("warning", line.number, line.text, reason)

    def close(self) -> None:
        self._collector.resume_session(self._session)
        if self._parts:
            self._hand_over(CellValues(pl.concat(self._parts), self._collector), self._collector)
        self._parts = []


class _Reader:
    """DLProf's part in one text."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._headless: deque[Line] = deque(maxlen=_MOST_LINES)
        """Lines of a summary whose first title has not been seen, until one comes that is DLProf's alone."""

    def begin(self, line: Line) -> Section | bool:
        """The header of a report, or the beginning of the summary."""
        text = line.text.strip()
        if bare(text) == PARTS[0]:
            return Summary(self._collector, FORMAT.name, line, ends=_ENDS)
        if part_of(text) is not None:
            return self._begin_headless(line)
        columns = [cell.strip() for cell in split_cells(text)]
        for header, hand_over in _REPORTS.items():
            if tuple(columns[: len(header)]) == header:
                session = self._collector.open_session(FORMAT.name, line.number)
                session.facts["tool"] = TOOL
                sink = _Sink(self._collector, session, hand_over)
                return CsvTable(columns, sink, header=_FIRST_CELL, ends=_ENDS)
        return False

    def _begin_headless(self, line: Line) -> Section | bool:
        """A line of a summary that stands below no title of one: alone it may be anyone's."""
        if self._headless and line.number - self._headless[-1].number > _MOST_BETWEEN:
            self._headless.clear()
        self._headless.append(line)
        if not OURS.match(line.text):
            return False
        lines = list(self._headless)
        self._headless.clear()
        summary = Summary(self._collector, FORMAT.name, lines[0], ends=_ENDS, has_title=False)
        for one in lines:
            summary.take(one)
        return summary

    def finish(self) -> None:
        """Every report has handed over its rows."""


@dataclass(frozen=True, slots=True)
class _DlprofCsv:
    """DLProf's reports as a format of text logs."""

    format: Format = FORMAT
    cue: bytes = rf"^\s*(?:{_CUE}|{CUE})".encode()

    def reader(self, collector: Collector) -> TextReader:
        return _Reader(collector)


DLPROF_CSV: Final = _DlprofCsv()
"""The format, for the list of text formats."""
