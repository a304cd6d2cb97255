"""The state that the readers of nvprof tables share: session, heading, line prefix."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from tui.loaders.text.section import Section

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from tui.loaders.collector import Collector, Session
    from tui.loaders.nvprof.trace_table import TraceTable
    from tui.loaders.text.block import Line

FORMAT_NAME: Final = "nvprof-text"

LEAD: Final = r"(?:[ \t]*+(?:[0-9]+,|(?:[#*>|%]|//)+)?[ \t]*+)"
"""Prefixes of the lines of a pasted log: indentation, comment and quotation marks, a script's column."""

_LEAD: Final = re.compile(LEAD)
_DEVICE: Final = re.compile(r"(?P<name>.*) \((?P<device>[0-9]{1,4})\)")

MESSAGE: Final = re.compile(LEAD + r"(?:==(?P<pid>[0-9]+)==|={8})(?: (?P<text>.*)|$)")
"""A line of nvprof itself, with its process; rulers of nine or more ``=`` are none."""


@dataclass(frozen=True, slots=True)
class Units:
    """The units of the time columns, if given by a row of units instead of the cells."""

    total: str | None = None
    avg: str | None = None
    min: str | None = None
    max: str | None = None


class InterruptedTrace(Section, Protocol):
    """A trace whose rows may continue after program output."""

    table: TraceTable

    def resume(self, line: Line) -> bool:
        """Continue if the line is a row of the trace; returns whether it is."""

    def new_trace_without_header(self, line: Line, new_table: Callable[[bool], TraceTable]) -> Section | None:
        """The next trace, if the line is the first row of one without a header."""


class InterruptedMetrics(Section, Protocol):
    """A table of metrics or events whose rows may continue after program output."""

    def is_next_row(self, line: Line) -> bool:
        """Whether a line is a row of the table."""


@dataclass(slots=True)
class NvprofState:
    """The state that the sections of one text share."""

    collector: Collector
    heading: str = "gpu"
    """The kind of the next table without a label: gpu, api, um, nvtx, metric, event, openacc, cpu or
    dependency."""
    heading_known: bool = False
    """Whether a line of nvprof announced the kind; otherwise it is inferred from the names in the table."""
    range_name: str | None = None
    """The NVTX range of the next table."""
    label: str = ""
    """The last label of a Type column, for rows that continue after program output."""
    units: Units = field(default_factory=Units)
    """The units of the last summary table, for rows that continue after program output."""
    csv_columns: Sequence[str] = ()
    """The columns of the last summary in CSV, for rows that continue after program output; empty without a header."""
    csv_units: Units | None = None
    """Its units."""
    lead: str = ""
    """The prefix of every line of the current paste except blanks (``#``, ``131072,``)."""
    sections_seen: set[str] = field(default_factory=set)
    """Sections that already have a table in the current result."""
    rows_seen: dict[tuple[object, ...], int] = field(default_factory=dict)
    """The lines of all summary rows, by session, figures and name."""
    shares: dict[tuple[int, str], list[tuple[int, float]]] = field(default_factory=dict)
    """Line and share of the rows of summaries, by session and section."""
    identifiers: set[str] = field(default_factory=set)
    """Identifiers with underscores in all names."""

    others_wait: Callable[[], bool] = lambda: False
    """Whether another process is waiting for its first table."""
    begin_waiting: Callable[[int], None] = lambda _line_number: None
    """Switches to a waiting process, at a line."""

    interrupted_metrics: InterruptedMetrics | None = None
    """The last table of metrics or events, whose rows may continue after program output."""
    interrupted_trace: InterruptedTrace | None = None
    """The last trace, whose rows may continue after program output."""

    def ensure_session(self, line_number: int) -> Session:
        """The current session, or a new one at this line for a table pasted without nvprof's own lines."""
        session = self.collector.session
        if session is not None and session.format == FORMAT_NAME:
            return session
        return self.open_session(line_number)

    def open_session(self, line_number: int, *, pid: int | None = None, command: str | None = None) -> Session:
        """Open a new session and reset the state of tables."""
        self.forget_tables()
        return self.collector.open_session(FORMAT_NAME, line_number, pid=pid, command=command)

    def forget_tables(self) -> None:
        """Reset the state of tables for the next result."""
        self.heading, self.heading_known = "gpu", False
        self.range_name = None
        self.label = ""
        self.units = Units()
        self.csv_columns, self.csv_units = (), None
        self.interrupted_metrics = None
        self.sections_seen.clear()

    def set_heading(self, heading: str) -> None:
        """Set the kind of the next table, from a line of nvprof."""
        self.heading, self.heading_known = heading, True
        self.range_name = None
        self.label = ""
        self.csv_columns, self.csv_units = (), None

    def next_session(self, line_number: int) -> Session:
        """The session of a second table of one kind: of a process that is waiting for one, or a new session."""
        if not self.others_wait():
            return self.open_session(line_number)
        self.begin_waiting(line_number)
        return self.ensure_session(line_number)

    def begin_table(self, line_number: int, sections: AbstractSet[str]) -> Session:
        """The session for a table with a header; a second table of one kind in a result belongs to another run."""
        session = self.ensure_session(line_number)
        if self.sections_seen & sections & {"gpu", "api"}:
            session = self.next_session(line_number)
        self.sections_seen |= sections
        return session

    def note_device(self, text: str) -> None:
        """Add a GPU named as in ``TITAN Xp (0)``."""
        if match := _DEVICE.fullmatch(text):
            self.collector.add_device(int(match["device"]), match["name"])

    def note_lead(self, text: str, start: int) -> None:
        """Store the prefix before index `start`, where a header or a message of nvprof begins."""
        self.lead = text[:start].strip(" \t")

    def bare(self, text: str) -> str:
        """The line without the prefix of the paste, with its indentation, so that columns stay aligned."""
        if not self.lead:
            return text
        start = text.find(self.lead)
        if start < 0 or text[:start].strip(" \t"):
            return text
        return text[:start] + text[start + len(self.lead) :]


def is_lead(text: str) -> bool:
    """Whether a text can be the prefix of the lines of a paste.

    >>> is_lead("  # "), is_lead("131072,"), is_lead("the column ")
    (True, True, False)
    """
    return _LEAD.fullmatch(text) is not None


def is_message(text: str) -> bool:
    """Whether a line is one of nvprof's own (``==PID== …`` or ``======== …``), which ends every table.

    >>> is_message("==42== API calls:"), is_message("# ======== Warning: x"), is_message("=" * 51)
    (True, True, False)
    """
    return MESSAGE.match(text) is not None
