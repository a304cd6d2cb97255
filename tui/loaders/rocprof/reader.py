"""Reads the CSV files that rocprof and rocprofv3 write, one table a file; a text can hold several tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from tui.loaders.base import Format
from tui.loaders.rocprof.handing_over import Run, Table, hand_over, is_of_another_run
from tui.loaders.rocprof.header import CUE, FIRST_CELL, V1, V3, WHOLE, Header, header_of
from tui.loaders.rocprof.rows import read_rows
from tui.loaders.text.cell_values import CellValues
from tui.loaders.text.csv_table import CsvTable
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    import polars as pl

    from tui.loaders.collector import Collector
    from tui.loaders.text.section import Line, Section, TextReader

FORMAT_V3: Final = Format(
    name=V3,
    title="rocprofv3 CSV",
    recognised_by="""the header '"Kind","Agent_Id",…', '"Domain","Function",…' or '"Name","Calls",…,"MinNs"'""",
    feeds=("sessions", "devices", "activities", "api_calls", "ops", "ranges", "summary", "metrics", "issues"),
    record_with=(
        "rocprofv3 --kernel-trace --hip-trace --memory-copy-trace --marker-trace --output-format csv -d out -- ./app"
    ),
)
FORMAT_V1: Final = Format(
    name=V1,
    title="rocprof CSV",
    recognised_by="""the header 'Index,KernelName,gpu-id,…' or '"Name","Calls","TotalDurationNs",…'""",
    feeds=("sessions", "activities", "summary", "metrics", "issues"),
    record_with="rocprof --stats --hip-trace ./app",
)

_ENDS: Final = re.compile(r"\s*(?:==\w+==|={8}|[IWEF]\d{4} \d\d:)")
_JSON: Final = re.compile(r'\s*(?:\{\s*)?"rocprofiler-sdk-tool": *\[')
_PID: Final = re.compile(r"(?:out_?|results_?)?(\d{1,10})_")
_ALONE: Final = ("kernel_trace", "memory_copy_trace", "counters", "results")
"""Tables that a run has once: a second one is another run's."""


class _Sink:
    """Takes the rows of one table as they are read, and keeps them as numbers."""

    def __init__(self, reader: _Reader, run: Run, table: Table) -> None:
        self._reader = reader
        self._collector = reader.collector
        self._run = run
        self._table = table

    def add(self, cells: pl.DataFrame) -> None:
        self._collector.resume_session(self._run.session)
        rows = read_rows(self._table.header, CellValues(cells, self._collector))
        if not self._table.rows and is_of_another_run(self._table, rows, self._run):
            self._run = self._reader.moved(self._table, self._run)
        self._table.rows.append(rows)
        self._run.session.last_line = max(self._run.session.last_line or 0, int(cells["line"][-1]))

    def damaged(self, line: Line, reason: str) -> None:
        self._collector.resume_session(self._run.session)
        self._collector.issue("warning", line.number, line.text, reason)

    def close(self) -> None:
        """Rows wait until all tables are read."""


class _Reader:
    """The part of one version in one text."""

    def __init__(self, collector: Collector, version: str) -> None:
        self.collector = collector
        self._version = version
        self._runs: list[Run] = []
        self._file = PurePosixPath(collector.source).name

    def begin(self, line: Line) -> Section | bool:
        """A header."""
        if self._version == V3 and _JSON.match(line.text) and not self.collector.sessions:
            raise ProftuiError(
                f"{self.collector.source}: is a JSON file of rocprofv3, which is not read",
                f"record CSV: {FORMAT_V3.record_with} (--output-format rocpd records a database, from ROCm 7 on)",
            )
        header = header_of(line.text)
        if header is None or header.format != self._version:
            return False
        run = self._run(header, line)
        table = Table(header, line.number, self._file)
        if run.tables and not run.tables[-1].rows:
            # A table without rows.
            run.tables.pop()
        run.tables.append(table)
        return CsvTable(header.columns, _Sink(self, run, table), header=FIRST_CELL, ends=_ENDS, whole=WHOLE)

    def _run(self, header: Header, line: Line) -> Run:
        run = self._runs[-1] if self._runs else None
        if run is None or (
            header.table in _ALONE and any(one.header.table == header.table and one.rows for one in run.tables)
        ):
            run = self._opened(header, line.number)
        self.collector.resume_session(run.session)
        return run

    def _opened(self, header: Header, line: int) -> Run:
        pid = _PID.match(self._file)
        session = self.collector.open_session(header.format, line, pid=int(pid[1]) if pid else None)
        session.facts["tool"] = "rocprofv3" if header.format == V3 else "rocprof"
        self._runs.append(Run(session))
        return self._runs[-1]

    def moved(self, table: Table, run: Run) -> Run:
        """A run of its own for a table that the run before was thought to have."""
        run.tables.remove(table)
        own = self._opened(table.header, table.line)
        own.tables.append(table)
        return own

    def finish(self) -> None:
        """All tables are read."""
        for run in self._runs:
            self.collector.resume_session(run.session)
            hand_over(run, self.collector)


@dataclass(frozen=True, slots=True)
class _RocprofFormat:
    """The files of one version as a format of text logs."""

    format: Format
    cue: bytes = CUE + rb'|^[ \t]*(?:\{[ \t]*)?"rocprofiler-sdk-tool": *\['

    def reader(self, collector: Collector) -> TextReader:
        return _Reader(collector, self.format.name)


ROCPROFV3_CSV: Final = _RocprofFormat(FORMAT_V3)
"""The files of rocprofv3, for the list of text formats."""

ROCPROF_CSV: Final = _RocprofFormat(FORMAT_V1)
"""The files of rocprof's first version (and rocprofv2), for the list of text formats."""
