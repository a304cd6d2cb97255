"""How much memory was allocated over time, with the iterations below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content

from tui.fitting import cell_width, pad
from tui.fmt import duration, size
from tui.text import plain
from tui.widgets.busy_chart import area

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

TALL: Final = 4
"""Lines of the curve of a single memory."""
MOST: Final = 6
"""More memories than this are in the table below alone."""


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """One memory."""

    label: str
    peak_bytes: int
    first_ns: int
    last_ns: int
    most: Callable[[int], npt.NDArray[np.float64]]
    """For a number of steps, the most that was allocated in each."""
    marks: tuple[tuple[int, int], ...]
    """Number and start of each iteration."""


def memory_lines(curves: Sequence[MemoryCurve], width: int, *, ascii_only: bool) -> list[Content]:
    """The curves, from nothing to their own peak; below a single one the iterations, where they begin.

    Args:
        curves: The memories.
        width: Cells of a line.
        ascii_only: ASCII characters alone.
    """
    shown = curves[:MOST]
    lines = TALL if len(shown) == 1 else 1
    heads = [[plain(curve.label), size(curve.peak_bytes)] for curve in shown]
    texts = [head if lines > 1 else [" ".join(head)] for head in heads]
    label = max((cell_width(text) for head in texts for text in head), default=0)
    room = max(8, width - label - 1)
    drawn: list[Content] = []
    for curve, head in zip(shown, texts, strict=True):
        held = curve.most(room) / max(1, curve.peak_bytes)
        for place, line in enumerate(area(held.tolist(), lines, ascii_only=ascii_only)):
            text = pad(head[place] if place < len(head) else "", label)
            drawn.append(Content.assemble((text, "$text-muted"), " ", (line, "$primary")))
    if len(shown) == 1:
        drawn.append(Content.styled(" " * (label + 1) + _axis(shown[0], room, ascii_only=ascii_only), "$text-muted"))
    elif len(curves) > MOST:
        drawn.append(Content.styled(f"and {len(curves) - MOST} more below", "$text-muted"))
    return drawn


def _axis(curve: MemoryCurve, room: int, *, ascii_only: bool) -> str:
    """Where iterations begin, as far as their numbers have room; else how long it all took."""
    span = curve.last_ns - curve.first_ns
    mark = "|" if ascii_only else "╵"
    cells = [" "] * room
    free = 0
    for number, start_ns in curve.marks:
        at = max(0, round((start_ns - curve.first_ns) / span * room)) if span else 0
        text = f"{mark}{number}"
        if free <= at and at + len(text) <= room:
            cells[at : at + len(text)] = text
            free = at + len(text) + 1
    note = (
        f" iterations; {duration(span, ascii_only=ascii_only)} in all"
        if curve.marks
        else duration(span, ascii_only=ascii_only)
    )
    line = "".join(cells).rstrip()
    if len(line) + cell_width(note) <= room:
        return line + " " * (room - len(line) - cell_width(note)) + note
    return line
