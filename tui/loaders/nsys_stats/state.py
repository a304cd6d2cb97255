"""What the parts of the reader of ``nsys stats`` share: the reports of each profiled run, until all are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from tui.loaders.collector import Collector, Session
    from tui.loaders.nsys_stats.header import Header

FORMAT_NAME: Final = "nsys-stats"


@dataclass(slots=True)
class Report:
    """One table."""

    header: Header
    kind: str
    """What it is of: ``header.report``, or what the line above says where the header alone leaves it open."""
    title: str
    """The report by nsys's own name where a line above it says so, else `kind`."""
    line: int
    """Of its header."""
    rows: list[pl.DataFrame] = field(default_factory=list)
    """In the columns that its kind asks for."""

    @property
    def frame(self) -> pl.DataFrame:
        """All rows."""
        return pl.concat(self.rows) if self.rows else pl.DataFrame()


@dataclass(slots=True)
class Run:
    """What was read of one profiled run."""

    session: Session
    database: str | None
    """Its exported file, as the lines above the reports name it."""
    reports: list[Report] = field(default_factory=list)

    def of(self, *kinds: str) -> list[Report]:
        """Its reports of some kinds that have rows, in the order of the kinds."""
        return [report for kind in kinds for report in self.reports if report.kind == kind and report.rows]


@dataclass(slots=True)
class State:
    """Shared by the sections of one text."""

    collector: Collector
    runs: list[Run] = field(default_factory=list)
    current: Run | None = None
    database: str | None = None
    """The file that the next report is of."""
    title: str | None = None
    """The name of the next report."""
    tool_version: str | None = None

    def run(self, line: int, kind: str) -> Run:
        """The run that a report of a kind belongs to, which may begin with it.

        Reports of one file belong together. Where no line says which file they are of, a report that comes a second
        time is of another one.
        """
        found = next((run for run in self.runs if run.database == self.database), None)
        if self.database is None:
            found = self.current if self.current is not None and self.current.database is None else None
            if found is not None and any(report.kind == kind and report.rows for report in found.reports):
                found = None
        if found is None:
            session = self.collector.open_session(FORMAT_NAME, line)
            session.facts["tool"] = "Nsight Systems"
            if self.tool_version:
                session.facts["tool_version"] = self.tool_version
            found = Run(session, self.database)
            self.runs.append(found)
        self.current = found
        self.collector.resume_session(found.session)
        return found
