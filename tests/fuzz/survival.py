"""Damaged inputs may be declined with a message, or be shown; nothing else."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError
from tui.output import report
from tui.output.check import Check
from tui.output.export import for_terminal
from tui.output.report_dashboard import DashboardReport
from tui.tables import EXPORTED, REPORTS, frame
from tui.text import plain

if TYPE_CHECKING:
    from tui.model.profile import Profile

MAX_CPU_S = 10.0
"""Seconds of processor time to read an input, or to show a view of it; a view has one more for each session."""
RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
STYLE = report.Style(100, bold=False)


def read_and_show(path: Path, *, everything: bool = True) -> bool:
    """Return whether an input can be read, after all of it has been shown.

    Any error but `ProftuiError` fails the test, as do more than `MAX_CPU_S` of processor time and a raw escape.
    """
    with cpu_time_limit(MAX_CPU_S):
        try:
            profile = load_input(str(path))
        except ProftuiError as error:
            # As the console prints it.
            assert_harmless(plain(error.message), may_hold_lines=False)
            return False
    for text in texts(profile, everything=everything):
        assert_harmless(text, may_hold_lines=True)
    return True


def texts(profile: Profile, *, everything: bool) -> Iterator[str]:
    """Yield what commands print of a profile."""
    max_cpu_s = MAX_CPU_S + profile["sessions"].height
    with cpu_time_limit(max_cpu_s):
        yield DashboardReport(profile).as_text(STYLE)
    with cpu_time_limit(max_cpu_s):
        yield Check(profile).as_text(STYLE)
    if not everything:
        return
    for name in REPORTS:
        with cpu_time_limit(max_cpu_s):
            yield report.as_text(profile, name, STYLE)
    for name in EXPORTED:
        with cpu_time_limit(max_cpu_s):
            rows = for_terminal(frame(profile, name).head(50))
            yield "\t".join(map(str, [*rows.columns, *(cell for row in rows.rows() for cell in row)]))


def assert_harmless(text: str, *, may_hold_lines: bool) -> None:
    """Fail if a text has characters that a terminal interprets."""
    escape = RAW.search(text)
    assert escape is None, f"{escape[0]!r} in {text[max(0, escape.start() - 60) : escape.end() + 20]!r}"
    assert may_hold_lines or "\n" not in text


@contextmanager
def cpu_time_limit(seconds: float) -> Iterator[None]:
    """Fail if the block takes more CPU time, or thirty times as long in wall time."""

    def fail(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"takes more than {seconds:g} s of processor time, or waits")

    before = {number: signal.signal(number, fail) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 30 * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
