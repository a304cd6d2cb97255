"""What a damaged input may do: be declined in words, or be shown; nothing else."""

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

LONGEST_S = 10.0
"""Seconds of processor time to read an input, or to show a view of it; a view has one more for each session."""
RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
STYLE = report.Style(100, bold=False)


def survives(path: Path, *, everything: bool = True) -> bool:
    """Whether an input can be read, after all of it has been shown.

    Any error but `ProftuiError` fails the test, as do more than `LONGEST_S` of processor time and a raw escape.
    """
    with at_most(LONGEST_S):
        try:
            profile = load_input(str(path))
        except ProftuiError as error:
            # As the console prints it.
            shown(plain(error.message), may_hold_lines=False)
            return False
    for text in texts(profile, everything=everything):
        shown(text, may_hold_lines=True)
    return True


def texts(profile: Profile, *, everything: bool) -> Iterator[str]:
    """What commands print of a profile."""
    longest_s = LONGEST_S + profile["sessions"].height
    with at_most(longest_s):
        yield DashboardReport(profile).as_text(STYLE)
    with at_most(longest_s):
        yield Check(profile).as_text(STYLE)
    if not everything:
        return
    for name in REPORTS:
        with at_most(longest_s):
            yield report.as_text(profile, name, STYLE)
    for name in EXPORTED:
        with at_most(longest_s):
            rows = for_terminal(frame(profile, name).head(50))
            yield "\t".join(map(str, [*rows.columns, *(cell for row in rows.rows() for cell in row)]))


def shown(text: str, *, may_hold_lines: bool) -> None:
    """Fail where a terminal would act upon a text."""
    found = RAW.search(text)
    assert found is None, f"{found[0]!r} in {text[max(0, found.start() - 60) : found.end() + 20]!r}"
    assert may_hold_lines or "\n" not in text


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail what takes more processor time, or waits thirty times as long."""

    def fail(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"takes more than {seconds:g} s of processor time, or waits")

    before = {which: signal.signal(which, fail) for which in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 30 * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for which, handler in before.items():
            signal.signal(which, handler)
