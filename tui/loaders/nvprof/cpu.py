"""Reads the CPU samples and the dependency analysis of nvprof's text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tui.loaders.nvprof.numbers import percent, time_ns
from tui.loaders.nvprof.state import NvprofState, is_message
from tui.loaders.nvprof.summary_rows import add_row

if TYPE_CHECKING:
    from tui.loaders.text.section import Line

_CPU_HEADER: Final = re.compile(r"\s*Time\(%\)(?:\s+Time)?\s+Name\s*")
_CPU_ROW: Final = re.compile(
    r"(?P<time_pct>\d+(?:\.\d+)?%)(?:\s+(?P<time>\d[\d.e+-]*[num]?s))?(?: {1,2}|\t)(?P<name>.+)"
)
_DEPENDENCY_HEADER: Final = re.compile(r"\s*Critical path\(%\)\s+Critical path\s+Waiting time\s+Name\s*")
_DEPENDENCY_ROW: Final = re.compile(
    r"(?P<time_pct>\d+(?:\.\d+)?%)\s+(?P<time>\d[\d.e+-]*[num]?s)\s+(?P<waiting>\d[\d.e+-]*[num]?s)\s+(?P<name>\S.*)"
)
_LEFT_OUT: Final = re.compile(r"[\s.]*|\s*\[\.\.\.\]\s*")
_DAMAGED: Final = re.compile(r"\d\.\d*%(?!\w)|(?<!\S)\d[\d.]*[num]?s\s+\d[\d.]*[num]?s\s|\d%?\s+\d[\d.]*[num]?s\s")


def _is_damaged(text: str, line: Line, state: NvprofState, what: str) -> bool:
    """Whether a line that cannot be read is a row all the same: it has a percentage, or times in columns."""
    if _DAMAGED.search(text) is None:
        return False
    reason = f"this looks like a row of {what}, but not all of its columns can be read; it was left out"
    state.collector.issue("warning", line.number, text.strip(), reason)
    return True


def open_cpu(line: Line, state: NvprofState) -> CpuSection | None:
    """Begin with the header of the CPU samples."""
    if _CPU_HEADER.fullmatch(state.bare(line.text)):
        return CpuSection(line, state)
    return None


class CpuSection:
    """The functions in which the CPU was sampled.

    Only the functions at the root of the tree become rows of the ``summary`` frame, section ``cpu``: the lines below
    one divide its time among callers (bottom up) or callees (top down), and to add them would count it again.
    """

    def __init__(self, line: Line, state: NvprofState) -> None:
        self._state = state
        self._below = 0
        self._first_line = line.number
        state.ensure_session(line.number)

    def take(self, line: Line) -> bool:
        """Read a line of the tree."""
        text = self._state.bare(line.text)
        if is_message(line.text):
            return False
        if _LEFT_OUT.fullmatch(text):
            return True
        match = _CPU_ROW.fullmatch(text.strip())
        if match is None or _DAMAGED.search(match["name"]):
            return _is_damaged(text, line, self._state, "the CPU samples")
        name = match["name"]
        if name[0] in " |":
            self._below += 1
            return True
        total_ns = time_ns(match["time"]) if match["time"] else None
        add_row(self._state, "cpu", line, name, total_ns=total_ns, time_pct=percent(match["time_pct"]))
        return True

    def close(self) -> None:
        """Say that the tree holds more than the rows."""
        if self._below:
            self._state.collector.issue(
                "info",
                self._first_line,
                "CPU profiling result",
                f"{self._below} lines below the functions of the CPU samples divide their time among callers or "
                "callees: they are in the text only, as their times are in the rows above them already",
            )


def open_dependency(line: Line, state: NvprofState) -> DependencySection | None:
    """Begin with the header of the dependency analysis."""
    if _DEPENDENCY_HEADER.fullmatch(state.bare(line.text)):
        return DependencySection(line, state)
    return None


class DependencySection:
    """The time that each function has on the critical path, as rows of section ``dependency``."""

    def __init__(self, line: Line, state: NvprofState) -> None:
        self._state = state
        state.ensure_session(line.number)

    def take(self, line: Line) -> bool:
        """Read a row."""
        text = self._state.bare(line.text)
        if is_message(line.text):
            return False
        if _LEFT_OUT.fullmatch(text):
            return True
        match = _DEPENDENCY_ROW.fullmatch(text.strip())
        if match is None or _DAMAGED.search(match["name"]):
            return _is_damaged(text, line, self._state, "the dependency analysis")
        total_ns, time_pct = time_ns(match["time"]), percent(match["time_pct"])
        add_row(self._state, "dependency", line, match["name"], total_ns=total_ns, time_pct=time_pct)
        return True

    def close(self) -> None:
        """Every line was handed over as it came."""
