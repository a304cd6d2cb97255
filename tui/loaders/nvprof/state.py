"""What the parts of the nvprof reader share while one text is read: the session, the heading, the lead of the lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from tui.loaders.collector import Collector, Session

FORMAT_NAME: Final = "nvprof-text"

LEAD: Final = r"(?:[ \t]*(?:\d+,|(?:[#*>|%]|//)+)?[ \t]*)"
"""What can stand in front of the lines of a pasted log: indentation, comment and quotation marks, a script's column."""

MESSAGE: Final = re.compile(LEAD + r"(?:==(?P<pid>\d+)==|={8})(?: (?P<text>.*)|$)")
"""A line that nvprof itself wrote, with the process it is about; rulers of nine and more ``=`` are not."""

_LEAD: Final = re.compile(LEAD)


@dataclass(slots=True)
class NvprofState:
    """Shared by the sections of one text."""

    collector: Collector
    heading: str = "gpu"
    """What the next table without a label of its own is about: gpu, api, um, nvtx, metric, event, openacc, cpu or
    dependency."""
    range_name: str | None = None
    """The NVTX range whose table comes next."""
    lead: str = ""
    """What stands in front of every line of the current paste beside blanks (``# ``, ``131072,``)."""
    implicit: bool = True
    """No line of nvprof's own has begun the current session: it was only inferred from a table."""
    sections_seen: set[str] = field(default_factory=set)
    """Sections of the current session that already have a table."""

    @property
    def session(self) -> Session | None:
        """The session that rows now belong to, or None."""
        return self.collector.session

    def ensure_session(self, line_number: int) -> Session:
        """The current session, or a new one at this line: a table pasted without nvprof's own lines is one too."""
        session = self.collector.session
        if session is not None and session.format == FORMAT_NAME:
            return session
        return self.open_session(line_number)

    def open_session(self, line_number: int, *, pid: int | None = None, command: str | None = None) -> Session:
        """Begin a new session; what is known of tables begins anew."""
        self.heading = "gpu"
        self.range_name = None
        self.sections_seen.clear()
        return self.collector.open_session(FORMAT_NAME, line_number, pid=pid, command=command)

    def note_lead(self, text: str, start: int) -> None:
        """Remember what stands before index `start`, where a header or a message of nvprof's begins."""
        self.lead = text[:start].rstrip(" \t") if text[:start].strip(" \t") else ""

    def bare(self, text: str) -> str:
        """The line without the lead of the paste; its indentation stays, so that columns keep their places."""
        if not self.lead:
            return text
        if text.startswith(self.lead):
            return text[len(self.lead) :]
        return "" if text.rstrip(" \t") == self.lead.rstrip(" \t") else text


def is_message(text: str) -> bool:
    """Whether a line is one of nvprof's own (``==PID== …`` or ``======== …``), which ends every table.

    >>> is_message("==42== API calls:"), is_message("# ======== Warning: x"), is_message("=" * 51)
    (True, True, False)
    """
    return MESSAGE.match(text) is not None


def lead_length(text: str) -> int:
    """How many characters of a line are lead."""
    match = _LEAD.match(text)
    return match.end() if match else 0
