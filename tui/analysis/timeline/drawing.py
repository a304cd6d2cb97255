"""A timeline lane as characters: the contents of each cell, and names in bars that are wide enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

import numpy as np

from tui.analysis.timeline.lanes import TITLES, ItemKind
from tui.text import plain
from tui.text_width import cell_width, pad, shorten_symbol

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.analysis.timeline.lanes import Lane

    Ints = npt.NDArray[np.int64]
    Kinds = npt.NDArray[np.int8]
    Flags = npt.NDArray[np.bool_]


NO_ITEM: Final = -1
"""The number for no kind or no item."""
MAX_OVERLAPPING: Final = 16
"""The most items, by descending start, among which one that spans a slice is searched."""


@dataclass(frozen=True, slots=True)
class Bins:
    """The contents of consecutive time slices of a lane."""

    busy_ns: Ints
    """How much of each something was active."""
    item_kinds: Kinds
    """The item with most time in it, or the first one if none took time; `NO_ITEM` if there is none."""
    started: Ints
    """How many items started in each."""
    by_kind: Ints
    """The busy time of each of the lane's kinds, for each slice."""


def bins(lane: Lane, edges: Ints) -> Bins:
    """Return the contents of the slices between neighboring edges.

    The busy time of slices that cover all of a lane adds up to the lane's.

    Args:
        lane: The lane.
        edges: Moments, in order.
    """
    kind_times = np.diff(lane.segments.time_before(edges), axis=0)
    busy = kind_times.sum(axis=1)
    started = np.searchsorted(lane.starts, edges, side="left")
    item_kinds = np.full(len(edges) - 1, NO_ITEM, np.int8)
    if kind_times.shape[1]:
        item_kinds = np.where(busy > 0, lane.segments.kinds[kind_times.argmax(axis=1)], np.int8(NO_ITEM))
    count = np.diff(started)
    moments = np.flatnonzero((busy <= 0) & (count > 0))
    item_kinds[moments] = lane.item_kinds[started[moments]]
    return Bins(busy, item_kinds, count, kind_times)


def spanning_items(lane: Lane, edges: Ints, item_kinds: Kinds) -> Ints:
    """Return the item that spans each slice, of the slice's kind; `NO_ITEM` if there is none.

    Of several it is the latest started. Only the last `MAX_OVERLAPPING` that started before a slice are examined.

    Args:
        lane: The lane.
        edges: Moments, in order.
        item_kinds: The kind of each slice, as in `Bins`.
    """
    spanning = np.full(len(edges) - 1, NO_ITEM, np.int64)
    last_started, slice_ends = np.searchsorted(lane.starts, edges[:-1], side="right") - 1, edges[1:]
    pending = np.flatnonzero(last_started >= 0)
    for back in range(MAX_OVERLAPPING):
        items = last_started[pending] - back
        # If no item reaches the end of a slice, no earlier item does either.
        is_active = (items >= 0) & (lane.latest_ends[items] >= slice_ends[pending])
        pending, items = pending[is_active], items[is_active]
        if not len(pending):
            break
        spans = (lane.ends[items] >= slice_ends[pending]) & (lane.item_kinds[items] == item_kinds[pending])
        spanning[pending[spans]] = items[spans]
        pending = pending[~spans]
    return spanning


GLYPHS: Final = {
    ItemKind.TENSOR: "▁▂▃▄▅▆▇█",
    ItemKind.KERNEL: "░▒▓",
    ItemKind.GRAPH: "▤▦",
    ItemKind.COMMUNICATION: "◦○●",
    ItemKind.TO_GPU: "›»►",
    ItemKind.FROM_GPU: "‹«◄",
    ItemKind.COPY: "◇◆",
    ItemKind.MEMSET: "□■",
    ItemKind.LAUNCH: "▵▲",
    ItemKind.SYNC: "~≈",
    ItemKind.COPY_CALL: "▫▪",
    ItemKind.OTHER_CALL: "-=",
    ItemKind.OP: "▁▂▃▄▅▆▇█",
    ItemKind.RANGE: "▁▂▃▄▅▆▇█",
}
"""Glyphs from a hardly busy cell to a fully busy one."""

LEVELS: Final = "▁▂▃▄▅▆▇█"
_FILLS: Final = dict.fromkeys(ItemKind, LEVELS)
"""The fills if colors distinguish kinds."""
_FILL_TITLES: Final = {
    ItemKind.TO_GPU: "memory copy",
    ItemKind.FROM_GPU: "memory copy",
    ItemKind.COPY: "memory copy",
    ItemKind.COPY_CALL: "memory copy",
    ItemKind.LAUNCH: "API call",
    ItemKind.OTHER_CALL: "API call",
    ItemKind.SYNC: "API call that waits",
}
"""The titles of kinds that share a color."""
_BRIEF_TITLES: Final = {
    "tensor-core kernel": "TC kernel",
    "other kernel": "kernel",
    "communication": "comm",
    "CUDA graph": "graph",
    "memory copy": "memcpy",
    "API call": "call",
    "API call that waits": "wait",
}
"""Short titles, for narrow screens."""


class GlyphSet(Enum):
    """The characters that distinguish kinds of items."""

    PATTERNS = "patterns"
    """Kinds differ by glyph: with sixteen colors or none."""
    FILLS = "fills"
    """Kinds differ by color; the height of a block shows how busy a cell is."""

    def glyphs(self, kind: ItemKind) -> str:
        """The glyphs of each kind, from hardly busy to always busy."""
        return (_FILLS if self is GlyphSet.FILLS else GLYPHS)[kind]


_HEADS: Final = {ItemKind.TENSOR: "▐", ItemKind.OP: "▐", ItemKind.RANGE: "▐"}
"""The first character of a named bar, if it differs from the glyph of a busy cell: it separates adjacent bars."""

SHOWN_GLYPHS: Final = 3
"""The number of glyphs of a kind that are listed individually if there is little room."""
MIN_NAME: Final = 4
"""The minimum width of a name."""

_TABLES: Final = {
    glyph_set: np.array(
        [
            [" ", *(glyphs[min(level * len(glyphs) // 8, len(glyphs) - 1)] for level in range(8))]
            for glyphs in map(glyph_set.glyphs, ItemKind)
        ]
    )
    for glyph_set in GlyphSet
}
"""For each kind a blank, and the glyph of each eighth."""


@dataclass(frozen=True, slots=True)
class LaneCells:
    """A lane as it is drawn."""

    texts: list[str]
    """A character for each cell; a wide one is followed by an empty text."""
    item_kinds: Kinds
    """What each cell is colored by; `NO_ITEM` where it is blank."""
    solid: Flags
    """Which cells are part of a bar with a name: drawn in reverse."""
    items: Ints
    """The item that is active throughout each cell, `NO_ITEM` if there is none."""
    shares: npt.NDArray[np.float64]
    """The busy share of each of the lane's kinds, for each cell."""
    kinds: Kinds
    """The lane's kinds."""
    glyph_set: GlyphSet

    def tall(self, lines: int) -> list[tuple[list[str], Kinds]]:
        """Return the texts and kinds of each line of a tall lane, from the top: stacked kinds.

        Args:
            lines: The height of the lane.
        """
        if lines == 1:
            return [(self.texts, self.item_kinds)]
        # The top eighth stays free, to separate lanes.
        tops = np.ceil(np.cumsum(self.shares, axis=1) * (8 * lines - 1) - 1e-9)
        bases = 8 * np.arange(lines - 1, -1, -1)
        inside = np.diff(np.clip(tops - bases[:, None, None], 0, 8), axis=2, prepend=0)
        levels = inside.sum(axis=2).astype(np.int64)
        item_kinds = np.full(levels.shape, NO_ITEM, np.int8)
        if len(self.kinds):
            item_kinds = np.where(levels > 0, self.kinds[inside.argmax(axis=2)], np.int8(NO_ITEM))
        moments = (levels[-1] == 0) & (self.item_kinds != NO_ITEM)
        levels[-1, moments], item_kinds[-1, moments] = 1, self.item_kinds[moments]
        texts: list[list[str]] = _TABLES[self.glyph_set][item_kinds, levels].tolist()
        in_name = self.in_name
        for cell in np.flatnonzero(in_name).tolist():
            is_head = not self.solid[cell]
            for number, characters in enumerate(texts):
                characters[cell] = self.texts[cell] if is_head or number == (lines - 1) // 2 else " "
        item_kinds[:, in_name] = self.item_kinds[in_name]
        return list(zip(texts, item_kinds, strict=True))

    @property
    def in_name(self) -> Flags:
        """Which cells are part of a bar with a name, its head included."""
        is_named = self.solid.copy()
        is_named[:-1] |= self.solid[1:]
        return is_named


def lane_cells(
    lane: Lane, edges: Ints, name: Callable[[int], str] | None = None, *, glyph_set: GlyphSet = GlyphSet.PATTERNS
) -> LaneCells:
    """Draw a lane.

    Args:
        lane: The lane.
        edges: The edges of its cells.
        name: Returns the name of an item, for the bars; None: no names.
        glyph_set: The characters of the kinds.
    """
    contents = bins(lane, edges)
    cells = np.diff(edges)
    levels = np.where(contents.item_kinds == NO_ITEM, 0, np.clip(-(-8 * contents.busy_ns // cells), 1, 8))
    texts: list[str] = _TABLES[glyph_set][contents.item_kinds, levels].tolist()
    solid = np.zeros(len(texts), np.bool_)
    items = spanning_items(lane, edges, contents.item_kinds)
    if name is not None:
        for first, last in _runs(items):
            kind = ItemKind(int(lane.item_kinds[items[first]]))
            full = glyph_set.glyphs(kind)[-1]
            head = "▐" if glyph_set is GlyphSet.FILLS else _HEADS.get(kind, full)
            room = last - first - 1
            label = plain(name(int(items[first]))) if room >= MIN_NAME else ""
            label = shorten_symbol(label, room)
            texts[first:last] = [head, *_in_cells(pad(label, room))]
            solid[first + 1 : last] = True
    shares = contents.by_kind / cells[:, None]
    return LaneCells(texts, contents.item_kinds, solid, items, shares, lane.segments.kinds, glyph_set)


def _runs(items: Ints) -> list[tuple[int, int]]:
    """Return the first cell and the one after the last of each item that spans at least two cells."""
    if len(items) < 2:
        return []
    changes = np.flatnonzero(items[1:] != items[:-1]) + 1
    firsts, lasts = np.concatenate(([0], changes)), np.concatenate((changes, [len(items)]))
    chosen = (items[firsts] != NO_ITEM) & (lasts - firsts >= 2)
    return list(zip(firsts[chosen].tolist(), lasts[chosen].tolist(), strict=True))


def _in_cells(text: str) -> list[str]:
    """Return one text per terminal cell; combining characters stay with the previous character."""
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


def integer_percent(part: int, total: int) -> str:
    """Format a percentage without decimals; only exactly 0 and 100 are written as 0 and 100.

    >>> integer_percent(1, 1000), integer_percent(999, 1000), integer_percent(5, 10), integer_percent(0, 0)
    ('<1%', '>99%', '50%', '')
    """
    if total <= 0:
        return ""
    share = 100 * part / total
    return "<1%" if 0 < share < 1 else ">99%" if 99 < share < 100 else f"{min(share, 100):.0f}%"


def legend(
    lanes: Iterable[Lane], glyph_set: GlyphSet = GlyphSet.PATTERNS, *, brief: bool = False
) -> list[tuple[ItemKind, str, str]]:
    """Return kind, glyphs and meaning of the items in some lanes.

    Args:
        lanes: The lanes that are drawn.
        glyph_set: The characters of the kinds.
        brief: Use short texts.
    """
    kinds = map(ItemKind, sorted({int(kind) for lane in lanes for kind in lane.segments.kinds}))
    if glyph_set is not GlyphSet.FILLS:
        return [(kind, glyph_set.glyphs(kind), _brief(TITLES[kind]) if brief else TITLES[kind]) for kind in kinds]
    by_title: dict[str, ItemKind] = {}
    for kind in kinds:
        by_title.setdefault(_FILL_TITLES.get(kind, TITLES[kind]), kind)
    return [(kind, "█", _brief(meaning) if brief else meaning) for meaning, kind in by_title.items()]


def _brief(meaning: str) -> str:
    return _BRIEF_TITLES.get(meaning, meaning)


def glyph_range(glyphs: str) -> str:
    """Return a few glyphs, or the first and last of many.

    >>> glyph_range("◦○●"), glyph_range("▁▂▃▄▅▆▇█")
    ('◦○●', '▁…█')
    """
    return glyphs if len(glyphs) <= SHOWN_GLYPHS else f"{glyphs[0]}…{glyphs[-1]}"


def extra_symbols() -> list[tuple[str, str]]:
    """Return the other symbols of the timeline, and their meanings."""
    return [
        (
            "╷ ▼ M",
            "ruler: a time or the start of an iteration; the cursor; the start of a measurement",
        ),
        ("> 12%", "before a lane: the cursor's lane; its busy share of the visible time"),
        (
            "▐name",
            "a bar: one item over several cells; bright among dim ones, or underlined: a search hit, or the other end "
            "of a launch",
        ),
    ]
