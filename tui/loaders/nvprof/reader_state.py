"""The state that the readers of nvprof tables share: session, heading, line prefix; and the assignment to processes."""

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

LINE_PREFIX: Final = r"(?:[ \t]*+(?:[0-9]+,|(?:[#*>|%]|//)+)?[ \t]*+)"
"""Prefixes of the lines of a pasted log: indentation, comment and quotation marks, a script's column."""

_LINE_PREFIX: Final = re.compile(LINE_PREFIX)
_DEVICE: Final = re.compile(r"(?P<name>.*) \((?P<device>[0-9]{1,4})\)")

MESSAGE: Final = re.compile(LINE_PREFIX + r"(?:==(?P<pid>[0-9]+)==|={8})(?: (?P<text>.*)|$)")
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
        """Return the next trace, if the line is the first row of one without a header."""


class InterruptedMetrics(Section, Protocol):
    """A table of metrics or events whose rows may continue after program output."""

    def is_next_row(self, line: Line) -> bool:
        """Return whether a line is a row of the table."""


@dataclass(slots=True)
class NvprofState:
    """The state that the sections of one text share."""

    collector: Collector
    heading: str = "gpu"
    """The kind of the next table without a label: gpu, api, um, nvtx, metric, event, openacc, cpu or
    dependency."""
    is_heading_known: bool = False
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
    prefix: str = ""
    """The prefix of every line of the current paste except blanks (``#``, ``131072,``)."""
    sections_seen: set[str] = field(default_factory=set)
    """Sections that already have a table in the current result."""
    rows_seen: dict[tuple[object, ...], int] = field(default_factory=dict)
    """The lines of all summary rows, by session, figures and name."""
    shares: dict[tuple[int, str], list[tuple[int, float]]] = field(default_factory=dict)
    """Line and share of the rows of summaries, by session and section."""
    identifiers: set[str] = field(default_factory=set)
    """Identifiers with underscores in all names."""

    has_waiting_processes: Callable[[], bool] = lambda: False
    """Whether another process is waiting for its first table."""
    begin_waiting: Callable[[int], None] = lambda _line_number: None
    """Switches to a waiting process, at a line."""

    interrupted_metrics: InterruptedMetrics | None = None
    """The last table of metrics or events, whose rows may continue after program output."""
    interrupted_trace: InterruptedTrace | None = None
    """The last trace, whose rows may continue after program output."""

    def ensure_session(self, line_number: int) -> Session:
        """Return the current session, or a new one at this line for a table pasted without nvprof's own lines."""
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
        self.heading, self.is_heading_known = "gpu", False
        self.range_name = None
        self.label = ""
        self.units = Units()
        self.csv_columns, self.csv_units = (), None
        self.interrupted_metrics = None
        self.sections_seen.clear()

    def set_heading(self, heading: str) -> None:
        """Set the kind of the next table, from a line of nvprof."""
        self.heading, self.is_heading_known = heading, True
        self.range_name = None
        self.label = ""
        self.csv_columns, self.csv_units = (), None

    def next_session(self, line_number: int) -> Session:
        """Return the session of a second table of one kind: of a process that is waiting for one, or a new session."""
        if not self.has_waiting_processes():
            return self.open_session(line_number)
        self.begin_waiting(line_number)
        return self.ensure_session(line_number)

    def begin_table(self, line_number: int, sections: AbstractSet[str]) -> Session:
        """Return the session of a table with a header; a second table of a kind belongs to another run."""
        session = self.ensure_session(line_number)
        if self.sections_seen & sections & {"gpu", "api"}:
            session = self.next_session(line_number)
        self.sections_seen |= sections
        return session

    def note_device(self, text: str) -> None:
        """Add a GPU named as in ``TITAN Xp (0)``."""
        if match := _DEVICE.fullmatch(text):
            self.collector.add_device(int(match["device"]), match["name"])

    def note_prefix(self, text: str, start: int) -> None:
        """Store the prefix before index `start`, where a header or a message of nvprof begins."""
        self.prefix = text[:start].strip(" \t")

    def without_prefix(self, text: str) -> str:
        """Return the line without the prefix of the paste, with its indentation, so that columns stay aligned."""
        if not self.prefix:
            return text
        start = text.find(self.prefix)
        if start < 0 or text[:start].strip(" \t"):
            return text
        return text[:start] + text[start + len(self.prefix) :]


def is_line_prefix(text: str) -> bool:
    """Return whether a text can be the prefix of the lines of a paste.

    >>> is_line_prefix("  # "), is_line_prefix("131072,"), is_line_prefix("the column ")
    (True, True, False)
    """
    return _LINE_PREFIX.fullmatch(text) is not None


def is_message(text: str) -> bool:
    """Return whether a line is one of nvprof's own (``==PID== …`` or ``======== …``), which ends every table.

    >>> is_message("==42== API calls:"), is_message("# ======== Warning: x"), is_message("=" * 51)
    (True, True, False)
    """
    return MESSAGE.match(text) is not None


STARTED: Final = "NVPROF is profiling"
APPLICATION: Final = "Profiling application"
RESULT: Final = "Profiling result"

_TABLE_LINES: Final = 2
"""The minimum number of lines of a table: a header and a row."""

_SEPARATE_LOGS_HINT: Final = "to write one log per process: nvprof --log-file profile.%p.log"
_UNCERTAIN_TABLE: Final = (
    f"{{}} were announced before their tables: this table may belong to another process; {_SEPARATE_LOGS_HINT}"
)
_UNCERTAIN_ROWS: Final = (
    "this row has no header above it and is between lines of {} and {}: its process is unknown, and it may be "
    f"in the wrong session; {_SEPARATE_LOGS_HINT}"
)


@dataclass(slots=True)
class Process:
    """A profiled process, and which of its unique lines were read."""

    session: Session
    marks_seen: set[str]
    rows_before: int
    issues_before: int
    sections: set[str] = field(default_factory=set)
    result_line: int | None = None
    """The first line of its result."""
    has_output: bool = False
    """Whether a part of its result was read or reported."""
    has_text: bool = False
    """Whether the line of its result is followed by enough lines for a table, which count as its output."""


class Processes:
    """The processes of one text; the lines of several may alternate."""

    def __init__(self, state: NvprofState, before_next: Callable[[], None]) -> None:
        """Start without processes; ``before_next`` is called before another one begins."""
        self.current: Process | None = None
        """The process of the next table."""
        self._state = state
        self._before_next = before_next
        self._by_pid: dict[int, Process] = {}
        self._processes: list[Process] = []
        self._last_read: Process | None = None
        """The process of the last table."""
        self._announced: Process | None = None
        """The process whose result nvprof announced last."""
        state.has_waiting_processes = lambda: bool(self._other_waiting())
        state.begin_waiting = self._begin_waiting

    def note_message(self, line_number: int) -> None:
        """Note a line of nvprof, to measure the distance to a result announced above."""
        process, self._announced = self._announced, None
        if process is not None and process.result_line is not None:
            process.has_text |= line_number - process.result_line > _TABLE_LINES

    def note_mark(self, line_number: int, pid: int | None, mark: str, command: str | None) -> None:
        """Note a unique line of a process; a second one belongs to another run."""
        current = self.current
        process = current if pid is None else self._by_pid.get(pid)
        if process is None and mark == APPLICATION and current is not None and command == current.session.command:
            # A mistyped process id: the command is the same.
            process = current
        if process is None or mark in process.marks_seen or self._has_rows(process):
            process = self._begin(line_number, pid, command, mark)
        process.marks_seen.add(mark)
        if process.session.command is None:
            process.session.command = command
        if pid is not None:
            self._by_pid[pid] = process
        self._switch_to(process)
        if mark == RESULT:
            process.result_line = line_number
            self._announced = process

    def resume(self, line_number: int, pid: int | None) -> None:
        """Assign the next tables to the process of a line."""
        process = self._by_pid.get(pid) if pid is not None else self.current
        if process is not None:
            self._switch_to(process)
        elif self._state.collector.session is None:
            self._begin(line_number, pid, None, "")
        else:
            self._state.ensure_session(line_number)

    @property
    def is_current_waiting(self) -> bool:
        """Whether the next table is the first of the current process."""
        return self.current is not None and self._is_waiting(self.current)

    def check_table(self, line: Line, *, is_first: bool, has_header: bool) -> None:
        """Report a table that may belong to another process.

        Args:
            line: Its first line.
            is_first: Whether the current process was waiting for it.
            has_header: Whether that line is a header; else it is a row.
        """
        current, previous = self.current, self._last_read
        if current is not None and is_first:
            other_waiting = self._other_waiting()
            if has_header and other_waiting and previous is not current:
                self._warn(
                    line.number,
                    "",
                    _UNCERTAIN_TABLE.format(f"the results of {_process_names([current, *other_waiting])}"),
                )
            elif not has_header and previous is not None and previous is not current:
                self._warn(
                    line.number,
                    line.text.strip(),
                    _UNCERTAIN_ROWS.format(_process_names([previous]), _process_names([current])),
                )
                # A header below belongs to the process's own table.
                current.sections.clear()
        self._last_read = current

    def _other_waiting(self) -> list[Process]:
        return [process for process in self._processes if process is not self.current and self._is_waiting(process)]

    def _begin_waiting(self, line_number: int) -> None:
        """Assign a second table of one kind to the first process that is waiting for one."""
        waiting = self._other_waiting()
        candidates = [process for process in (self.current, *waiting) if process is not None]
        self._switch_to(waiting[0])
        self._warn(line_number, "", _UNCERTAIN_TABLE.format(f"the results of {_process_names(candidates)}"))

    def _is_waiting(self, process: Process) -> bool:
        """Return whether the result of a process was announced, and no part of it read or reported."""
        if process is self.current and (self._row_count() > process.rows_before or process.sections):
            return False
        return process.result_line is not None and not process.has_output and not process.has_text

    def _warn(self, line_number: int, text: str, reason: str) -> None:
        self._state.collector.issue("warning", line_number, text, reason)

    def finish(self) -> None:
        """Report results without a readable table."""
        self._leave()
        for process in self._processes:
            if process.result_line is not None and not process.has_output:
                self._state.collector.resume_session(process.session)
                reason = "no nvprof table found below this line: it is missing or in an unknown format"
                self._state.collector.issue("warning", process.result_line, "", reason)

    def _begin(self, line_number: int, pid: int | None, command: str | None, mark: str) -> Process:
        self._before_next()
        self._leave()
        session = self._state.open_session(line_number, pid=pid, command=command)
        self.current = process = Process(session, {mark}, self._row_count(), self._state.collector.count("issues"))
        self._processes.append(process)
        self._state.sections_seen = process.sections
        if pid is not None:
            self._by_pid[pid] = process
        return process

    def _has_rows(self, process: Process) -> bool:
        """Return whether tables of the process were read."""
        return process is self.current and self._row_count() > process.rows_before

    def _row_count(self) -> int:
        """Return the number of rows of nvprof's tables, without layers that the program itself logs."""
        return self._state.collector.row_count - self._state.collector.count("layers")

    def _switch_to(self, process: Process) -> None:
        if self.current is not process:
            self._leave()
            self._state.collector.resume_session(process.session)
            self.current = process
            self._state.sections_seen = process.sections
            process.rows_before = self._row_count()
            process.issues_before = self._state.collector.count("issues")

    def _leave(self) -> None:
        """Note whether a part of the current process's result was read or reported."""
        process = self.current
        if process is not None:
            has_issues = self._state.collector.count("issues") > process.issues_before
            process.has_output |= has_issues or bool(process.sections) or self._row_count() > process.rows_before


def _process_names(processes: list[Process]) -> str:
    """Return the ids of processes as text, as ``processes 11 and 12``.

    Processes without a known id are omitted.
    """
    numbers = sorted({str(process.session.pid) for process in processes if process.session.pid is not None})
    if len(numbers) < 2:
        return f"process {numbers[0]}" if numbers else "an unnamed process"
    return f"processes {', '.join(numbers[:-1])} and {numbers[-1]}"
