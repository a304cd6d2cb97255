"""A lane as characters: one a cell, names in bars that are wide enough for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tui.analysis.timeline.bins import NOTHING, bins, spanning
from tui.analysis.timeline.looks import TITLES, Look
from tui.fitting import cell_width, pad, shorten_symbol
from tui.text import plain

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.analysis.timeline.lanes import Lane

    Ints = npt.NDArray[np.int64]
    Looks = npt.NDArray[np.int8]
    Flags = npt.NDArray[np.bool_]

GLYPHS: Final = {
    Look.TENSOR: "▁▂▃▄▅▆▇█",
    Look.KERNEL: "░▒▓",
    Look.GRAPH: "▤▦",
    Look.COMMUNICATION: "◦○●",
    Look.TO_GPU: "›»►",
    Look.FROM_GPU: "‹«◄",
    Look.COPY: "◇◆",
    Look.MEMSET: "□■",
    Look.LAUNCH: "▵▲",
    Look.SYNC: "~≈",
    Look.COPY_CALL: "▫▪",
    Look.OTHER_CALL: "-=",
    Look.OP: "▁▂▃▄▅▆▇█",
    Look.RANGE: "▁▂▃▄▅▆▇█",
}
"""From a cell that is hardly busy to one that is busy all the time."""

ASCII_GLYPHS: Final = {
    Look.TENSOR: ",tT",
    Look.KERNEL: ".+#",
    Look.GRAPH: "gG",
    Look.COMMUNICATION: "oO@",
    Look.TO_GPU: "}>",
    Look.FROM_GPU: "{<",
    Look.COPY: ":X",
    Look.MEMSET: "zZ",
    Look.LAUNCH: "'^",
    Look.SYNC: "-~",
    Look.COPY_CALL: "cC",
    Look.OTHER_CALL: ".%",
    Look.OP: ".+#",
    Look.RANGE: ".-=",
}

_HEADS: Final = {Look.TENSOR: "▐", Look.OP: "▐", Look.RANGE: "▐"}
"""What a bar with a name begins with, where that is not the glyph of a busy cell: bars that touch stay apart."""

SHOWN_GLYPHS: Final = 3
"""So many glyphs of a look are told one by one where there is little room."""
NAME_LEAST: Final = 4
"""A name of fewer cells says nothing."""

_TABLES: Final = {
    ascii_only: np.array(
        [
            [glyphs[look][min(level * len(glyphs[look]) // 8, len(glyphs[look]) - 1)] for level in range(8)]
            for look in Look
        ]
    )
    for ascii_only, glyphs in ((False, GLYPHS), (True, ASCII_GLYPHS))
}
"""For each look the glyph of each eighth."""


@dataclass(frozen=True, slots=True)
class LaneCells:
    """A lane as it is drawn."""

    texts: list[str]
    """A character for each cell; a wide one is followed by an empty text."""
    looks: Looks
    """What each cell is coloured by; `NOTHING` where it is blank."""
    solid: Flags
    """Which cells are part of a bar with a name: drawn in reverse."""
    items: Ints
    """The item that is on throughout each cell, `NOTHING` where there is none."""


def lane_cells(
    lane: Lane, edges: Ints, name: Callable[[int], str] | None = None, *, ascii_only: bool = False
) -> LaneCells:
    """Draw a lane.

    Args:
        lane: The lane.
        edges: Where its cells begin and end.
        name: The name of an item, to be written into bars; None: no names.
        ascii_only: Use ASCII characters alone.
    """
    found = bins(lane, edges)
    cells = np.diff(edges)
    levels = np.clip(-(-8 * found.busy_ns // cells) - 1, 0, 7)
    texts: list[str] = np.where(found.looks == NOTHING, " ", _TABLES[ascii_only][found.looks, levels]).tolist()
    solid = np.zeros(len(texts), np.bool_)
    items = spanning(lane, edges, found.looks)
    if name is not None:
        for first, last in _runs(items):
            look = Look(int(lane.looks[items[first]]))
            glyphs = ASCII_GLYPHS if ascii_only else GLYPHS
            head = glyphs[look][-1] if ascii_only else _HEADS.get(look, glyphs[look][-1])
            room = last - first - 1
            label = plain(name(int(items[first])), ascii_only=ascii_only) if room >= NAME_LEAST else ""
            label = shorten_symbol(label, room, ascii_only=ascii_only)
            texts[first:last] = [head, *_in_cells(pad(label, room))]
            solid[first + 1 : last] = True
    return LaneCells(texts, found.looks, solid, items)


def _runs(items: Ints) -> list[tuple[int, int]]:
    """The first cell and the one after the last of each item that takes two cells or more."""
    if len(items) < 2:
        return []
    changes = np.flatnonzero(items[1:] != items[:-1]) + 1
    firsts, lasts = np.concatenate(([0], changes)), np.concatenate((changes, [len(items)]))
    chosen = (items[firsts] != NOTHING) & (lasts - firsts >= 2)
    return list(zip(firsts[chosen].tolist(), lasts[chosen].tolist(), strict=True))


def _in_cells(text: str) -> list[str]:
    """A character for each cell; what combines with the character before it stays with that."""
    if text.isascii():
        return list(text)
    cells: list[str] = []
    for character in text:
        width = cell_width(character)
        if width == 0 and cells:
            cells[-1 if cells[-1] else -2] += character
        elif width:
            cells += [character, *[""] * (width - 1)]
    return cells


def whole_percent(part: int, whole: int) -> str:
    """A share in few cells; only what is exactly nothing or all is written as 0 or 100.

    >>> whole_percent(1, 1000), whole_percent(999, 1000), whole_percent(5, 10), whole_percent(0, 0)
    ('<1%', '>99%', '50%', '')
    """
    if whole <= 0:
        return ""
    share = 100 * part / whole
    return "<1%" if 0 < share < 1 else ">99%" if 99 < share < 100 else f"{min(share, 100):.0f}%"


def legend(lanes: Iterable[Lane], *, ascii_only: bool = False) -> list[tuple[Look, str, str]]:
    """The glyphs of each look that is in some lanes, from hardly to always busy, and what it means."""
    glyphs = ASCII_GLYPHS if ascii_only else GLYPHS
    kinds = sorted({int(kind) for lane in lanes for kind in lane.segments.kinds})
    return [(look, glyphs[look], TITLES[look]) for look in map(Look, kinds)]


def in_short(glyphs: str) -> str:
    """Some glyphs, or the first and the last of many.

    >>> in_short("◦○●"), in_short("▁▂▃▄▅▆▇█")
    ('◦○●', '▁…█')
    """
    return glyphs if len(glyphs) <= SHOWN_GLYPHS else f"{glyphs[0]}…{glyphs[-1]}"


def signs(*, ascii_only: bool = False) -> list[tuple[str, str]]:
    """The other signs of the timeline, and what they mean."""
    tick, cursor = ("|", "v") if ascii_only else ("╷", "▼")
    return [
        (
            f"{tick} {cursor} M",
            "on the ruler: a moment or the begin of an iteration; the cursor; where you measure from",
        ),
        ("> 12%", "before a lane: the cursor's lane; how much of the time on the screen it is busy"),
        (
            "name" if ascii_only else "▐name",
            "a bar: one thing that takes several cells; underlined: found, or at the other end of a launch",
        ),
    ]
