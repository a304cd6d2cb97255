"""Where a scrollbar's thumb stands: only a step that can be seen moves it."""

from __future__ import annotations

from typing import Final

STEPS: Final = 8
"""Places of a thumb within a cell."""


def thumb_position(top: float, last: float, lines: int, height: int) -> float:
    """The line to tell a scrollbar, the same for all lines whose thumb is drawn alike: others would be drawn in vain.

    Args:
        top: The first line on the screen.
        last: The largest that this can be.
        lines: How many lines there are.
        height: How many of them the screen shows.

    >>> [round(thumb_position(top, 999_980, 1_000_000, 20)) for top in (0, 20, 40, 999_980)]
    [0, 3289, 3289, 999980]
    """
    places = STEPS * (height - max(1, height * height / max(1, lines)))
    step = last / max(1, places)
    # The middle between two steps: rounding leads to neither.
    return top if step < 1 or top <= 0 or top >= last else (top // step + 0.5) * step
