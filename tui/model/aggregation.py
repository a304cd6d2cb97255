"""The aggregation: the iterations of a profile that the user chose to see."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from datetime import datetime

STEP_PHASES: Final = ("prefill", "decode", "mixed", "capture")
"""Phases of a step of an inference server: prefill, decode, both at once, or recording a CUDA graph."""

_PHASE: Final = re.compile(r"(?P<range>.*?)[\s,]*\bphase=(?P<phase>" + "|".join(STEP_PHASES) + r")\s*")
_RANGE: Final = re.compile(r"\s*(?:(?P<only>[0-9]{1,9})|(?P<first>[0-9]{1,9})?\s*:\s*(?P<last>[0-9]{1,9})?)\s*")


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A range of iterations, and the key that marks them."""

    first: int | None = None
    """The number of the first iteration; None: the first of the profile."""
    last: int | None = None
    """The number of the last iteration, inclusive; None: the last of the profile."""
    key: str | None = None
    """The end of an iteration: the name of a kernel, op, range or API call, or a loop such as ``loop of 54 launches``.
    None: as recorded, otherwise as detected."""
    phase: str | None = None
    """The phase of a server's steps: prefill, decode, mixed or capture. None: steps of every phase."""

    @property
    def is_part(self) -> bool:
        """Whether some iterations are omitted."""
        return self.first is not None or self.last is not None or self.phase is not None

    @property
    def text(self) -> str:
        """The range as text; empty for all iterations.

        >>> Aggregation(3, 7).text, Aggregation(4, 4).text, Aggregation(3).text, Aggregation(key="x").text
        ('iterations 3:7', 'iteration 4', 'iterations 3:', '')
        >>> Aggregation(phase="decode").text, Aggregation(3, 7, phase="decode").text
        ('iterations phase=decode', 'iterations 3:7 phase=decode')
        """
        if not self.is_part:
            return ""
        phase = f" phase={self.phase}" if self.phase else ""
        if self.first is None and self.last is None:
            return f"iterations{phase}"
        if self.first == self.last:
            return f"iteration {self.first}{phase}"
        first, last = ("" if number is None else str(number) for number in (self.first, self.last))
        return f"iterations {first}:{last}{phase}"


@dataclass(frozen=True, slots=True)
class AggregationChoice:
    """An earlier aggregation, to return to."""

    chosen: Aggregation
    iterations: int
    """The number of its iterations, over all sessions shown."""
    at: datetime | None
    """When it was chosen; None: when the files were opened."""


def is_range(text: str) -> bool:
    """Return whether a text is a range of iterations, such as ``3:7``.

    >>> is_range("3:7"), is_range("5"), is_range("step 5"), is_range(""), is_range("phase=decode")
    (True, True, False, False, True)
    """
    match = _PHASE.fullmatch(text)
    return _RANGE.fullmatch(text) is not None if match is None else not match["range"] or is_range(match["range"])


def phase_filter(text: str) -> str | None:
    """Return the phase, if a filter consists of it alone.

    >>> phase_filter("phase=decode"), phase_filter("phase=decode gemm"), phase_filter("gemm")
    ('decode', None, None)
    """
    match = _PHASE.fullmatch(text)
    return match["phase"] if match is not None and not match["range"] else None


def aggregation(iterations: str | None, key: str | None) -> Aggregation:
    """Return the aggregation of ``--iterations`` and ``--key``.

    >>> aggregation("3:7", None), aggregation("5", "step")
    (Aggregation(first=3, last=7, key=None, phase=None), Aggregation(first=5, last=5, key='step', phase=None))

    Raises:
        ProftuiError: ``iterations`` is no range, or ``key`` is empty.
    """
    if key is not None and not key.strip():
        raise ProftuiError("--key requires the name of a kernel, op, range or API call")
    phase = None
    if iterations is not None and (phase_match := _PHASE.fullmatch(iterations)) is not None:
        iterations, phase = phase_match["range"] or None, phase_match["phase"]
    if iterations is None:
        return Aggregation(key=key, phase=phase)
    range_match = _RANGE.fullmatch(iterations)
    if range_match is None:
        raise ProftuiError(
            f"iterations {iterations}: not a valid range of iterations", "use 3:7, 3:, :7, 5 or phase=decode"
        )
    ends = (range_match["only"] or range_match["first"], range_match["only"] or range_match["last"])
    first, last = (None if number is None else int(number) for number in ends)
    if first is not None and last is not None and first > last:
        raise ProftuiError(f"--iterations {iterations}: ends before it starts", "use 3:7, 3:, :7, 5 or phase=decode")
    return Aggregation(first, last, key, phase)
