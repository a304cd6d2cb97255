"""Tells what can only be a damaged row of a table, so that none is left out in silence."""

from __future__ import annotations

import re
from typing import Final

_TIME: Final = re.compile(r"(?<![\w.])\d[\d.]*(?:e[+-]?\d+)?(?:ns|us|ms|s)(?!\w)")
_NUMBER: Final = re.compile(r"(?<![\w.])\d[\d.]*(?:e[+-]?\d+)?(?:[num]?s)?(?!\S)")
_PERCENT: Final = re.compile(r"\d\.\d+%(?!\S)")
_LAUNCH: Final = re.compile(r"\(\d+ \d+ \d+\)")
_DASH: Final = re.compile(r"(?<!\S)-(?!\S)")
_API: Final = re.compile(r"(?<!\S)cu(?:da)?[A-Z]\w+")
_SECOND_ROW: Final = re.compile(
    r"(?:(?<=  )|(?<=[\])>\w]))\d[\d.]*(?:e[+-]?\d+)?"
    r"(?:(?:ns|us|ms|s) ++(?:\d[\d.]*(?:ns|us|ms|s)|-) ++(?:-|\(\d|cu|\[)"
    r"| ++\d[\d.e+-]* ++(?:- |\(\d+ \d+ \d+\) ))"
)
"""Its start, its duration and what follows; without units where a row of units stands above."""

SUMMARY: Final = "this looks like a row of a summary, but not all of its columns can be read; it was left out"
TRACE: Final = "this looks like a row of the trace, but not all of its columns can be read; it is left out"


def like_summary_row(text: str, *, with_units: bool) -> bool:
    """Whether a line between the rows of a summary looks like another that is damaged.

    Args:
        text: The line.
        with_units: Times carry their units; else a row of units stood above, and a row is numbers alone.

    >>> like_summary_row("0.0!%  110.00us  1  110.00us  110.0us  110.00us  f(int)", with_units=True)
    True
    >>> like_summary_row("epoch 3 took 12.1s, loss 0.5", with_units=True)
    False
    """
    if with_units:
        times = len(_TIME.findall(text))
        return times >= 3 or (times >= 1 and _PERCENT.search(text) is not None)
    return len(_NUMBER.findall(text)) >= 5


def like_trace_row(text: str) -> bool:
    r"""Whether a line between the rows of a trace looks like another that is damaged.

    >>> like_trace_row("1.5\ufffdms  2.1000us  cudaFree"), like_trace_row("step 3 took 12.1s")
    (True, False)
    """
    times = len(_TIME.findall(text))
    if _API.search(text):
        return times >= 1
    return len(_LAUNCH.findall(text)) + len(_DASH.findall(text)) >= (2 if times else 3)


def second_row(text: str, start: int = 0) -> int | None:
    """Where another row of a trace begins behind a name, because the end of a line was lost; None where none does.

    >>> second_row("cudaFree     0ns  4.1870us  cudaMalloc"), second_row("f(int, int)")
    (13, None)
    """
    found = _SECOND_ROW.search(text, start)
    return found.start() if found else None
