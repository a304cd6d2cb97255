"""Reads nvprof's output in a text log: its messages, and the tables that they announce."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tui.loaders.base import Format
from tui.loaders.nvprof.metrics import open_metrics
from tui.loaders.nvprof.numbers import time_ns
from tui.loaders.nvprof.other_results import open_shares, open_unified_memory
from tui.loaders.nvprof.reader_state import APPLICATION, FORMAT_NAME, MESSAGE, RESULT, STARTED, NvprofState, Processes
from tui.loaders.nvprof.summary import SummarySection, open_summary, open_summary_csv, resume_summary_csv
from tui.loaders.nvprof.summary_figures import add_row, report_missing_rows
from tui.loaders.nvprof.trace import open_trace
from tui.loaders.nvprof.trace_cells import headerless_layout
from tui.loaders.text.block import Line
from tui.loaders.text.section import Section, TextFormat

if TYPE_CHECKING:
    from tui.loaders.collector import Collector


@dataclass(frozen=True, slots=True)
class Notice:
    """The issue for a message of nvprof."""

    severity: str
    """info, warning or error."""
    reason: str
    """The meaning for the figures, and what to do."""
    general: bool = False
    """Whether other tools print such messages too; it is nvprof's only within a session of nvprof."""


_SIGNALS: Final = MappingProxyType(
    {
        2: "an interrupt from the keyboard",
        6: "abort",
        9: "kill",
        11: "a segmentation fault",
        15: "terminate",
        134: "abort",
        137: "kill",
        139: "a segmentation fault",
    }
)

NO_KERNELS: Final = (
    "no kernels were profiled: nvprof saw no GPU work. End the program with cudaDeviceReset() or "
    "cudaProfilerStop(); if it starts other processes, add --profile-child-processes. Check --profile-from-start "
    "off, profiling permissions, and the GPU in use"
)
NO_API: Final = "no CUDA API calls were profiled: the program made none, or nvprof ran with --profile-api-trace none"
NO_METRICS: Final = (
    "no events or metrics were profiled: check that kernels ran, that the GPU has these metrics (--query-metrics), "
    "and that the user has permission to read the GPU's counters"
)
NO_OPENACC: Final = "no OpenACC activities were profiled: print the GPU work without --print-openacc-summary"


def _signal(match: re.Match[str]) -> str:
    number = int(match[1])
    name = _SIGNALS.get(number)
    return f"the program was killed by signal {number}{f' ({name})' if name else ''}: the last records may be missing"


def _with_count(singular: str, many: str) -> Callable[[re.Match[str]], str]:
    """Return a text that begins with the number in the message."""
    return lambda match: f"{match[1]} {singular if match[1] == '1' else many}"


_Words = str | Callable[[re.Match[str]], str]

_MESSAGES: Final[tuple[tuple[re.Pattern[str], str, _Words], ...]] = tuple(
    (re.compile(pattern), severity, words)
    for pattern, severity, words in (
        (
            r"(?:Warning: )?Some kernel\(s\) will be replayed on device ([0-9]+)",
            "info",
            r"kernels on device \1 were replayed to collect all metrics: times of this run are not comparable",
        ),
        (
            r"Generated result file: (.+)",
            "info",
            r"nvprof wrote its records to a file, not to this log: open that file",
        ),
        (
            r"Warning: ([0-9]{4,}) records have invalid timestamps",
            "error",
            r"\1 records have invalid timestamps, because the device buffer was too small: most of the run may be "
            "missing. Profile again with a larger --device-buffer-size",
        ),
        (
            r"Warning: ([0-9]+) records have invalid timestamps",
            "warning",
            _with_count(
                "record has invalid timestamps, because the device buffer was too small: it is missing. Profile "
                "again with a larger --device-buffer-size",
                "records have invalid timestamps, because the device buffer was too small: they are missing. "
                "Profile again with a larger --device-buffer-size",
            ),
        ),
        (
            r"Warning: ([0-9]+) API trace records have same start and end timestamps",
            "info",
            _with_count(
                "API call has the same start and end: it was shorter than the clock resolution and counts as 0 ns",
                "API calls have the same start and end: they were shorter than the clock resolution and count as 0 ns",
            ),
        ),
        (
            r"Warning: Found ([0-9]+) invalid records in the result",
            "warning",
            _with_count(
                "record is invalid and missing: the device ran out of memory, or an assertion stopped a kernel",
                "records are invalid and missing: the device ran out of memory, or an assertion stopped a kernel",
            ),
        ),
        (
            r"Warning: Found ([0-9]+) invalid range marker",
            "warning",
            _with_count(
                "NVTX range marker has no matching start or end: its range is missing",
                "NVTX range markers have no matching start or end: their ranges are missing",
            ),
        ),
        (
            r"Warning: Some profiling data are not recorded",
            "warning",
            "some records were lost: call cudaProfilerStop() or cudaDeviceReset() before the program ends, so that "
            "nvprof can flush its buffers",
        ),
        (
            r"Warning: Unified Memory Profiling is not supported on",
            "warning",
            "unified memory was not profiled: nvprof does not support this combination of GPUs. Profiling one GPU "
            "(CUDA_VISIBLE_DEVICES) may work",
        ),
        (
            r"Warning: Profiling results might be incorrect with current version of nvcc",
            "warning",
            "nvprof does not support the nvcc version that built the program: results may be wrong. Build it with "
            "nvcc 9.0 or later",
        ),
        (
            r"Warning: The following aggregate event values were extrapolated",
            "warning",
            "some event values are estimates, extrapolated from part of the GPU",
        ),
        (
            r"Warning: One or more events or metrics can't be profiled",
            "warning",
            "some events or metrics could not be profiled: record with --print-gpu-trace to see which kernel",
        ),
        (
            r"Execution timeout, stopping the application",
            "warning",
            "nvprof stopped the program at the time limit set with -t: the profile ends there",
        ),
        (
            r"Error: Internal profiling error ([\w:]+)",
            "error",
            r"nvprof failed with internal error \1: results are missing or incomplete. Profile again with fewer "
            r"metrics or another version of nvprof",
        ),
        (
            r"Warning: No CUDA application was profiled",
            "error",
            "no CUDA application was profiled: the command made no CUDA call. If it starts the program in another "
            "process, add --profile-child-processes",
        ),
        (
            r"Warning: (?:nvprof is not supported on|This version of nvprof doesn't support the underlying) device",
            "error",
            "nvprof cannot profile this GPU: it supports compute capability 7.5 at most. Profile with Nsight "
            "Systems (nsys profile) and, for metrics, Nsight Compute (ncu)",
        ),
        (
            r"Warning: (?:ERR_NVGPUCTRPERM|The user does not have permission to profile)",
            "error",
            "the user has no permission to profile this GPU: kernels or metrics are missing. The administrator can "
            "grant it (developer.nvidia.com/ERR_NVGPUCTRPERM)",
        ),
        (r"Error: Application received signal ([0-9]+)", "error", _signal),
        (
            r"Error: Application returned non-zero code (\S+)",
            "warning",
            r"the program ended with exit status \1: it may have failed, and the profile may be incomplete",
        ),
        (r"Error: CUDA profiling error", "error", "CUDA reported a profiling error: results are missing"),
        (
            r"Error: unable to locate profiling library (\S*?)\.?$",
            "error",
            r"nvprof did not find its library \1 and profiled nothing: add the CUDA toolkit's lib64 to LD_LIBRARY_PATH",
        ),
        (
            r"(?:Error: )?Unable to profile application\. Unified Memory profiling failed",
            "error",
            "unified memory profiling failed: profile again with --unified-memory-profiling off",
        ),
    )
)
_GENERAL: Final = re.compile(r"(Error|Warning): (?!This can happen)\S")

MISSING_EVENT: Final = re.compile(r'Warning: (?:Event|Metric) "[^"]*" cannot be found on device')
"""Repeated for each event: reported once, with the count."""


def notice(message: str) -> Notice | None:
    """Return the issue for a line of nvprof without its prefix; None if it is no warning or error.

    >>> notice("Warning: 12 records have invalid timestamps due to insufficient device buffer space.").reason[:35]
    '12 records have invalid timestamps,'
    >>> notice("Error: Application received signal 11").severity, notice("API calls:")
    ('error', None)
    """
    for pattern, severity, words in _MESSAGES:
        match = pattern.match(message)
        if match is not None:
            return Notice(severity, words(match) if callable(words) else match.expand(words))
    general = _GENERAL.match(message)
    if general is not None:
        severity = general[1].lower()
        return Notice(severity, f"nvprof reported this {severity} while profiling", general=True)
    return None


_UNPREFIXED: Final = MappingProxyType(
    {
        "No kernels were profiled.": Notice("warning", NO_KERNELS),
        "No API activities were profiled.": Notice("info", NO_API),
        "No events/metrics were profiled.": Notice("warning", NO_METRICS),
        "No OpenACC activities were profiled.": Notice("info", NO_OPENACC),
    }
)


def empty_table_notice(text: str) -> Notice | None:
    """Return the issue for a line in place of a table.

    >>> empty_table_notice("No kernels were profiled.").severity, empty_table_notice("No kernels here")
    ('warning', None)
    """
    return _UNPREFIXED.get(text.strip())


Opener = Callable[[Line, NvprofState], Section | None]
"""Takes a line; returns the section that it opens, or None."""

TABLES: Final[tuple[Opener, ...]] = (
    open_summary,
    open_trace,
    open_metrics,
    open_summary_csv,
    open_unified_memory,
    open_shares,
    resume_summary_csv,
)

CUE: Final = b"|".join(
    (
        rb"==\d+==",
        rb"========\x20",
        rb"Profiling (?:application|result):",
        rb"Time ?\(%\)",
        rb"Critical path\(%\)",
        rb"No (?:kernels|(?:API|OpenACC) activities|events/metrics) were profiled",
        # Rows without a header: percent and time; start, duration and a grid; three times; plain numbers.
        rb"%[ \t|]+\d[\d.e+]*[num]?s[ \t|]",
        rb"s[ \t]+\d[\d.]*[num]?s[ \t]+(?:\(|-[ \t]|cu(?:da)?[A-Z]|\d[\d.]*[num]?s[ \t])",
        rb'\d,\d[\d.e+-]*,"cu(?:da)?[A-Z]',
        rb"\.\d\d[ \t]+\d\S*[ \t]+\d+[ \t]+\d\S*[ \t]+\d\S*[ \t]+\d\S*[ \t]+\S",
        rb"\d[ \t]+\d[\d.e+]*[ \t]+(?:-[ \t]+-[ \t]|\(\d+ \d+ \d+\)[ \t]+\(\d)",
        rb'\d,[\d.e+-]*(?:,\d*){7},[\d.,e+-]*"',
        rb'\d,\d[\d.e+-]*,\d+,\d[\d.e+-]*,\d[\d.e+-]*,\d[\d.e+-]*,"|^[ \t]*\d[\d.]*,(?:\d[\d.e+-]*,){1,2}"',
        rb'Start"?[ \t,]+"?Duration',
        # A row of units.
        rb'^[^\w"]*(?:\d+,)?(?:"?[num]?s"?,){2}|^\W*[num]?s[ \t]+[num]?s(?:[ \t]|$)',
        rb"Invocations[ \t]+(?:Metric|Event) Name",
        rb'"Device","(?:Kernel|Context|Count)|^[ \t]*Device[ \t]+Context[ \t]+Stream[ \t]',
        rb'Device "',
        rb'^[^\w"]{0,8}"[^"]+","[^"]+",(?:\d+|"\d+"),"|^[^\w"]*\d+[ \t]+[a-z]\w*_\w+[ \t]+\S',
        rb"Count[ \t]+Avg Size",
        rb"Total (?:CPU Page faults|CPU thrashes|remote mappings)",
    )
)
"""Matches in every line that `NvprofReader.begin` could read."""

_HEADINGS: Final = MappingProxyType(
    {
        "API calls:": "api",
        "Unified Memory profiling result:": "um",
        "NVTX result:": "nvtx",
        "Metric result:": "metric",
        "Event result:": "event",
        "Dependency Analysis:": "dependency",
        "CPU profiling result (bottom up):": "cpu",
        "CPU profiling result (top down):": "cpu",
        "CPU profiling result (flat):": "cpu",
        "OpenACC (excl):": "openacc",
        "OpenACC (incl):": "openacc",
        "OpenMP (excl):": "openmp",
        "OpenMP (incl):": "openmp",
    }
)
_ANCHORS: Final = (
    r"(?:NV|PG)PROF is profiling|Profiling application:|Profiling result:|(?:API calls|Metric result|Event result):"
)
_MESSAGE_WITHIN_LINE: Final = re.compile(rf"==(?P<pid>[0-9]+)== (?P<text>(?:{_ANCHORS}).*)")
"""A line of nvprof after program output on the same line, when both were written at the same time."""

_UNPREFIXED_MESSAGE: Final = re.compile(r"\s*(?P<text>Profiling (?:application: .+|result:))\s*")
"""A line of nvprof whose prefix is on the line above, followed by program output."""

_OTHER_RESULT: Final = re.compile(r"[A-Z][A-Za-z ]{,60} result(?: \([\w ]{,40}\))?:")
"""The title of a result that is not one of `_HEADINGS`."""

_PROFILING: Final = re.compile(
    r"(?:NV|PG)PROF is profiling(?: process (?P<pid>[0-9]+), command: (?P<command>.*)| (?P<program>.*))"
)
_DEVICE: Final = re.compile(r'\s*Device "')
"""The line above the summary of one GPU; the summary of another GPU may follow."""

_RANGE: Final = re.compile(
    r'\s*(?:Range|NVTX range) "(?P<name>.*)"'
    r"(?: \((?P<calls>[0-9]{1,18}) times, total time: (?P<total>[0-9]+(?:\.[0-9]+)?(?:e\+?[0-9]{1,2})?[num]?s)\))?"
)
"""The line above the rows of a range; old versions print the range's own figures there."""

_JOINED_LINES: Final = re.compile(r"\\n.*==[0-9]+== |\\n.*Time ?\(%\)")

_DAMAGED_ROW: Final = re.compile(r"[0-9]%\s+[0-9][0-9.]*[num]?s\s+[0-9]+\s+[0-9][0-9.]*[num]?s\s")
"""Percent, time, calls and average, which only nvprof prints."""

_SHORT_ROW_START: Final = re.compile(
    r'[0-9]{1,3}\.[0-9]+%\s+[0-9][0-9.]*[num]?s(?:\s|$)|[0-9]{1,3}\.[0-9]+,(?:[0-9][0-9.e+-]*,){1,2}"'
)
"""A row of such results; elsewhere a program's progress output can look the same."""

_SHORT_ROWS: Final = ("cpu", "dependency")
_UNITLESS_ROW: Final = re.compile(
    r"[0-9]{1,3}\.[0-9][0-9]\s+[0-9][0-9.e+-]*\s+[0-9]+(?:\s+[0-9][0-9.e+-]*){3}\s+[A-Za-z_\[]"
)
"""A row of a summary without its row of units; only after a message of nvprof."""

_TRACE_ROW: Final = re.compile(
    r"[0-9][0-9.]*(?:e[+-]?[0-9]+)?(?:[num]?s)?\s+\S+\s+(?:-\s+-|\([0-9]+ [0-9]+ [0-9]+\)\s+\([0-9]+ [0-9]+ [0-9]+\))\s"
    r"|[0-9][0-9.]*[num]?s\s+[0-9][0-9.]*[num]?s\s+cu(?:da)?[A-Z]\w+"
)
_CSV_TRACE_ROW: Final = re.compile(
    r'[0-9],(?:[0-9][0-9.]*(?:e[+-]?[0-9]+)?)?(?:(?:,[0-9]*){7},[0-9.,e+-]*"|,"cu(?:da)?[A-Z])',
)
"""Start, duration and the launch configuration or an API call; only after a message of nvprof."""


class NvprofReader:
    """Reads nvprof's lines and tables in one text.

    The lines "NVPROF is profiling", "Profiling application" and "Profiling result" of one process make one session,
    in any order and number. A second line of one kind begins another session, as does such a line below tables. Lines
    of several processes may alternate: each goes to the session of its process.
    """

    def __init__(self, collector: Collector) -> None:
        self.state = NvprofState(collector)
        self._processes = Processes(self.state, self._report_missing_events)
        self._missing_events: list[int] = []
        self._first_orphan: Line | None = None
        self._orphans = 0
        """The number of trace rows without a header, above all messages of nvprof."""

    def begin(self, line: Line) -> Section | bool:
        """Read one of nvprof's own lines, or open the table that begins here."""
        message = MESSAGE.match(line.text) or _MESSAGE_WITHIN_LINE.search(line.text)
        if message is not None:
            start = message.start("pid") - 2 if message["pid"] else line.text.find("========")
            self.state.note_prefix(line.text, start if message.re is MESSAGE else 0)
            return self._read_message(line, message["text"] or "", int(message["pid"]) if message["pid"] else None)
        torn = _UNPREFIXED_MESSAGE.fullmatch(self.state.without_prefix(line.text))
        if torn is not None and self._processes.current is not None:
            return self._read_message(line, torn["text"], None)
        empty_notice = empty_table_notice(self.state.without_prefix(line.text))
        if empty_notice is not None:
            self.state.ensure_session(line.number)
            self.state.collector.issue(empty_notice.severity, line.number, line.text.strip(), empty_notice.reason)
            return True
        if self.state.heading in ("gpu", "api") and _DEVICE.match(self.state.without_prefix(line.text)):
            self.state.sections_seen.clear()
        is_first = self._processes.is_current_waiting
        section = next((section for opener in TABLES if (section := opener(line, self.state)) is not None), None)
        if section is not None:
            has_header = (
                headerless_layout(line.text) is None if not isinstance(section, SummarySection) else section.has_header
            )
            self._processes.check_table(line, is_first=is_first, has_header=has_header)
            return section
        return self._read_headless(line)

    def finish(self) -> None:
        """Report what was counted, and results without a readable table."""
        self._report_missing_events()
        if self._first_orphan is not None and self.state.collector.sessions:
            self.state.collector.resume_session(self.state.collector.sessions[0])
            rows_text = f"{self._orphans} trace rows from here" if self._orphans > 1 else "trace row"
            reason = f"{rows_text} without a header above: skipped"
            self.state.collector.issue("warning", self._first_orphan.number, self._first_orphan.text.strip(), reason)
        self._processes.finish()
        report_missing_rows(self.state)

    def _read_message(self, line: Line, text: str, pid: int | None) -> bool:
        """Read a message of nvprof: a mark of a process, a heading, or a notice; return whether it is one of them."""
        text = text.rstrip()
        self._processes.note_message(line.number)
        if _JOINED_LINES.search(text):
            text = self._first_joined_line(line, text, pid)
        profiling = _PROFILING.match(text)
        if profiling is not None:
            pid = int(profiling["pid"]) if profiling["pid"] and pid is None else pid
            self._processes.note_mark(line.number, pid, STARTED, profiling["command"] or profiling["program"])
        elif text.startswith("Profiling application:"):
            self._processes.note_mark(
                line.number, pid, APPLICATION, text.removeprefix("Profiling application:").strip()
            )
        elif text.startswith("Profiling result:"):
            self._processes.note_mark(line.number, pid, RESULT, None)
            self.state.forget_tables()
        elif text in _HEADINGS:
            self._processes.resume(line.number, pid)
            self.state.set_heading(_HEADINGS[text])
        elif (range_match := _RANGE.match(text)) is not None and self.state.heading == "nvtx":
            self.state.range_name = range_match["name"]
            if range_match["calls"]:
                total_ns = time_ns(range_match["total"])
                add_row(
                    self.state, "nvtx", line, range_match["name"], calls=int(range_match["calls"]), total_ns=total_ns
                )
        elif _DEVICE.match(text):
            self.state.sections_seen.clear()
        elif text.startswith("Command: ") and pid is None and (process := self._processes.current) is not None:
            process.session.command = text.removeprefix("Command: ")
        elif _OTHER_RESULT.fullmatch(text):
            self._processes.resume(line.number, pid)
            reason = "this kind of nvprof table is not supported: see the log"
            self.state.collector.issue("info", line.number, text, reason)
        else:
            return self._read_notice(line, text, pid)
        session = self.state.collector.session
        if session is not None:
            session.last_line = max(session.last_line or 0, line.number)
        return True

    def _first_joined_line(self, line: Line, text: str, pid: int | None) -> str:
        """Return the first of many lines that are joined by escaped newlines, as in JSON; the others cannot be read."""
        self._processes.resume(line.number, pid)
        reason = (
            "this line contains many nvprof lines joined by \\n: only the first was read. Save the output as a "
            "plain text file"
        )
        self.state.collector.issue("warning", line.number, line.text.strip(), reason)
        return text.partition("\\n")[0]

    def _read_notice(self, line: Line, text: str, pid: int | None) -> bool:
        """Report a warning or error as an issue of its session."""
        if MISSING_EVENT.match(text):
            self._processes.resume(line.number, pid)
            self._missing_events.append(line.number)
            return True
        issue = notice(text)
        if issue is None:
            return False
        if issue.general and self.state.collector.session is None:
            return False
        self._processes.resume(line.number, pid)
        self.state.collector.issue(issue.severity, line.number, text, issue.reason)
        return True

    def _read_headless(self, line: Line) -> bool:
        """Report the rows of a table whose header is missing or damaged."""
        device = self.state.heading in ("metric", "event") and _DEVICE.match(self.state.without_prefix(line.text))
        if device and self.state.interrupted_metrics is None:
            reason = "the header of this metrics table is missing or damaged: its rows are skipped"
            self.state.collector.issue("warning", line.number, line.text.strip(), reason)
            return True
        return self._read_damaged_row(line)

    def _read_damaged_row(self, line: Line) -> bool:
        """Report a line that can only be a row of a summary or trace but has unreliable figures."""
        text = self.state.without_prefix(line.text).strip()
        has_session = self.state.collector.session is not None
        if _TRACE_ROW.match(text) or _CSV_TRACE_ROW.search(text):
            if not has_session:
                # Without other lines of nvprof they may be program output.
                self._first_orphan = self._first_orphan or line
                self._orphans += 1
                return False
            reason = "this looks like a trace row, but its header or units are missing or damaged: row skipped"
        elif (
            _DAMAGED_ROW.search(line.text)
            or (has_session and _UNITLESS_ROW.match(text))
            or (self.state.heading in _SHORT_ROWS and _SHORT_ROW_START.match(text))
        ):
            reason = (
                "this looks like a summary row, but columns are missing or its values contradict each other (calls "
                "x average is not the total): row skipped"
            )
        else:
            return False
        self.state.ensure_session(line.number)
        self.state.collector.issue("warning", line.number, line.text.strip(), reason)
        return True

    def _report_missing_events(self) -> None:
        if self._missing_events:
            self.state.collector.issue(
                "warning",
                self._missing_events[0],
                "",
                f"{len(self._missing_events)} events or metrics do not exist on this GPU: not recorded; to list "
                "those available: nvprof --query-events --query-metrics",
            )
            self._missing_events.clear()


NVPROF: Final = TextFormat(
    Format(
        name=FORMAT_NAME,
        title="nvprof text output",
        recognized_by="lines such as ==1234== Profiling result:, or the header and rows of its tables",
        feeds=("sessions", "devices", "activities", "api_calls", "summary", "metrics"),
        record_with="nvprof --print-gpu-trace --print-api-trace --log-file run.nvprof.log ./app",
    ),
    CUE,
    NvprofReader,
)
"""The format, for the list of text formats."""
