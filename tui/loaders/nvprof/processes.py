"""Which process nvprof's lines are about, and so which session its tables belong to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tui.loaders.collector import Session
    from tui.loaders.nvprof.state import NvprofState

STARTED: Final = "NVPROF is profiling"
APPLICATION: Final = "Profiling application"
RESULT: Final = "Profiling result"


@dataclass(slots=True)
class Process:
    """A profiled process, and which of the lines that stand once in its output have come."""

    session: Session
    seen: set[str]
    rows_before: int
    issues_before: int
    sections: set[str] = field(default_factory=set)
    result_line: int | None = None
    """Where its result begins."""
    has_said: bool = False
    """Something of its result was read, or told of."""


class Processes:
    """The processes of one text; the lines of several may alternate."""

    def __init__(self, state: NvprofState, before_next: Callable[[], None]) -> None:
        """Begin without any; ``before_next`` is called when another one begins."""
        self.current: Process | None = None
        """The process that tables now belong to."""
        self._state = state
        self._before_next = before_next
        self._by_pid: dict[int, Process] = {}
        self._begun: list[Process] = []

    def reach(self, line_number: int, pid: int | None, mark: str, command: str | None) -> None:
        """A process came to one of its lines; one that it has had already is another run's."""
        current = self.current
        process = current if pid is None else self._by_pid.get(pid)
        if process is None and mark == APPLICATION and current is not None and command == current.session.command:
            # A process number that was mistyped: the command is the same.
            process = current
        if process is None or mark in process.seen or self._has_rows(process):
            process = self._begin(line_number, pid, command, mark)
        process.seen.add(mark)
        if process.session.command is None:
            process.session.command = command
        if pid is not None:
            self._by_pid[pid] = process
        self._switch_to(process)
        if mark == RESULT:
            process.result_line = line_number

    def resume(self, line_number: int, pid: int | None) -> None:
        """Let tables belong to the process that a line is about."""
        process = self._by_pid.get(pid) if pid is not None else self.current
        if process is not None:
            self._switch_to(process)
        elif pid is not None and self._state.collector.session is None:
            self._begin(line_number, pid, None, RESULT)
        else:
            self._state.ensure_session(line_number)

    def finish(self) -> None:
        """Tell of results of which nothing was read."""
        self._leave()
        for process in self._begun:
            if process.result_line is not None and not process.has_said:
                self._state.collector.resume_session(process.session)
                reason = (
                    "no table of nvprof's could be read below this line: it is missing, or in a form that proftui does "
                    "not know"
                )
                self._state.collector.issue("warning", process.result_line, "", reason)

    def _begin(self, line_number: int, pid: int | None, command: str | None, mark: str) -> Process:
        self._before_next()
        self._leave()
        session = self._state.open_session(line_number, pid=pid, command=command)
        self.current = process = Process(session, {mark}, self._row_count(), self._state.collector.count("issues"))
        self._begun.append(process)
        self._state.sections_seen = process.sections
        if pid is not None:
            self._by_pid[pid] = process
        return process

    def _has_rows(self, process: Process) -> bool:
        """Whether tables of the process were read."""
        return process is self.current and self._row_count() > process.rows_before

    def _row_count(self) -> int:
        """Rows of nvprof's tables; the layers that a profiled program logs itself stand above them."""
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
        """Note of the current process whether something of its result was read or told of."""
        process = self.current
        if process is not None:
            told = self._state.collector.count("issues") > process.issues_before
            process.has_said |= told or bool(process.sections) or self._row_count() > process.rows_before
