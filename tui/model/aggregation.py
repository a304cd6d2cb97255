"""The aggregation: which iterations of a profile are shown, as the user chose them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from datetime import datetime

_RANGE: Final = re.compile(r"\s*(?:(?P<only>[0-9]{1,9})|(?P<first>[0-9]{1,9})?\s*:\s*(?P<last>[0-9]{1,9})?)\s*")


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A range of iterations, and what marks them."""

    first: int | None = None
    """Number of the first iteration, None: from the first on."""
    last: int | None = None
    """Number of the last one, which is part of the range; None: to the last."""
    key: str | None = None
    """What an iteration ends with: the name of a kernel, op, range or API call; or a loop, as ``loop of 54 launches``.
    None: as recorded, else as found."""

    @property
    def is_part(self) -> bool:
        """Whether work can be left out."""
        return self.first is not None or self.last is not None

    @property
    def words(self) -> str:
        """The range for people; empty where all iterations are meant.

        >>> Aggregation(3, 7).words, Aggregation(4, 4).words, Aggregation(3).words, Aggregation(key="x").words
        ('iterations 3:7', 'iteration 4', 'iterations 3:', '')
        """
        if not self.is_part:
            return ""
        if self.first == self.last:
            return f"iteration {self.first}"
        first, last = ("" if number is None else str(number) for number in (self.first, self.last))
        return f"iterations {first}:{last}"


@dataclass(frozen=True, slots=True)
class MadeAggregation:
    """An aggregation that was looked at, to be gone back to."""

    chosen: Aggregation
    iterations: int
    """How many iterations it holds, over all sessions that were shown."""
    at: datetime | None
    """When it was made; None: as the files were opened."""


def is_range(text: str) -> bool:
    """Whether a text names iterations, as ``3:7``.

    >>> is_range("3:7"), is_range("5"), is_range("step 5"), is_range("")
    (True, True, False, False)
    """
    return _RANGE.fullmatch(text) is not None


def aggregation(iterations: str | None, key: str | None) -> Aggregation:
    """What ``--iterations`` and ``--key`` ask for.

    >>> aggregation("3:7", None), aggregation("5", "step")
    (Aggregation(first=3, last=7, key=None), Aggregation(first=5, last=5, key='step'))

    Raises:
        ProftuiError: ``iterations`` is no range, or ``key`` is empty.
    """
    if key is not None and not key.strip():
        raise ProftuiError("--key needs the name of a kernel, op, range or API call")
    if iterations is None:
        return Aggregation(key=key)
    found = _RANGE.fullmatch(iterations)
    if found is None:
        raise ProftuiError(f"--iterations {iterations}: not a range of iterations", "as 3:7, 3:, :7 or 5")
    ends = (found["only"] or found["first"], found["only"] or found["last"])
    first, last = (None if number is None else int(number) for number in ends)
    if first is not None and last is not None and first > last:
        raise ProftuiError(f"--iterations {iterations}: ends before it starts", "as 3:7, 3:, :7 or 5")
    return Aggregation(first, last, key)
