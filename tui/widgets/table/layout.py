"""Chooses the columns of a table that fit on a line, and their widths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tui.model.columns import ColumnKind, columns_by_priority
from tui.model.table_spec import MIN_PINNED, UNINFORMATIVE_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tui.model.columns import Column

GUTTER_CELLS: Final = 2
"""The width before the first column: the mark of a marked row, and a blank."""
COLUMN_GAP: Final = 2
"""Blanks between two columns."""
PINNED_SHARE: Final = 0.3
"""The share of a wide line that the pinned column keeps: a readable name is worth more than another column."""
MIN_PINNED_CELLS_WITH_BAR: Final = 32
"""The pinned column is not made narrower than this for the share bar."""
MAX_USER_PINNED_SHARE: Final = 0.6
"""The share of the width beside the name that columns pinned by the user may take, so that the others can scroll."""
GOOD_BAR_CELLS: Final = 8
"""Less important columns are omitted for a bar of this width."""
MIN_BAR_CELLS: Final = 5
"""The minimum width of each of several bars; they are drawn in eighths of a cell."""
MAX_BAR_CELLS: Final = 20
BARS_FIRST_CELLS: Final = 100
"""On narrower lines, figures have their room before bars."""
MAX_TEXT_CELLS: Final = 28
"""The maximum width of a text other than the name, until all columns, names and bars have their width."""
BAR_PRIORITY: Final = 6
"""Columns of this priority or a lower one get only the width that the share bar leaves."""

LEFT_ALIGNED: Final = frozenset({ColumnKind.TEXT, ColumnKind.SYMBOL, ColumnKind.FLAG})


@dataclass(frozen=True, slots=True)
class PlacedColumn:
    """A column and its position on the line."""

    column: Column
    x: int
    """The first cell, from the left edge of the table."""
    width: int
    bar: int = 0
    """The width of the share bar after the value, or 0."""

    @property
    def end(self) -> int:
        """The cell after the last one."""
        return self.x + self.width + (self.bar + 1 if self.bar else 0)

    @property
    def is_left_aligned(self) -> bool:
        """Texts start at the left; numbers end at the right, so that their digits line up."""
        return self.column.kind in LEFT_ALIGNED and not self.column.ends_right


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns on the line, and those that do not fit."""

    placed: tuple[PlacedColumn, ...]
    sequence: tuple[str, ...]
    """All columns that the cursor can reach: first those that fit, from the left, then the others."""
    before: int
    """The number of columns scrolled out on the left."""
    after: int
    """The number of columns that do not fit on the right, without uninformative ones."""
    still: int = 0
    """The number of columns at the beginning of the sequence that do not scroll."""

    def column_at(self, x: int) -> PlacedColumn | None:
        """Return the column at a cell of the line, or the last one that starts before it."""
        candidates = [placed for placed in self.placed if placed.x <= x]
        return candidates[-1] if candidates else (self.placed[0] if self.placed else None)

    def find(self, name: str) -> PlacedColumn | None:
        """Return the placed column; None if it is not on the line."""
        return next((placed for placed in self.placed if placed.column.name == name), None)


def _columns_that_fit(
    columns: Sequence[Column],
    widths: Mapping[str, int],
    room: int,
    bar_columns: Collection[str],
    name_more: int,
    partners_more: int,
    text_more: Mapping[str, int],
) -> set[str]:
    """Return the most important columns, up to the first that does not fit; then others that fit next to a whole name.

    What says nothing comes beside whole texts only.

    Those that belong together (`columns_by_priority`) are there together or not at all.

    Args:
        columns: All but the pinned ones.
        widths: Cells that each needs.
        room: Cells beside the least of the name.
        bar_columns: Columns that a bar follows.
        name_more: Cells that the name needs above its least to be whole.
        partners_more: Cells that the texts read against the name need to be whole, too.
        text_more: Cells that each cut text needs to be whole.
    """
    chosen: set[str] = set()
    are_barred = is_filling = is_full = is_silent_reached = False
    for group in columns_by_priority(columns):
        priority = group[0].priority
        needs = sum(widths[column.name] + COLUMN_GAP for column in group)
        if not are_barred and (priority >= BAR_PRIORITY or needs > room):
            room -= (GOOD_BAR_CELLS + 1) * len(chosen.intersection(bar_columns))
            are_barred = True
        is_silent = priority >= UNINFORMATIVE_PRIORITY
        if not is_filling and (needs > room or is_silent):
            is_filling = True
            room -= name_more + partners_more
        if is_silent and is_full:
            # Uninformative columns come last.
            break
        if is_silent and not is_silent_reached:
            is_silent_reached = True
            room -= sum(more for name, more in text_more.items() if name in chosen)
        if needs <= room:
            room -= needs
            chosen.update(column.name for column in group)
        else:
            is_full = True
    return chosen


def _cut(columns: Sequence[Column], head: Column | None, widths: Mapping[str, int], least: int) -> Mapping[str, int]:
    """Return the widths with texts limited to their maximum; texts that are compared with the name to ``least``."""
    partners = head.compared_with if head else ()
    texts = [column.name for column in columns if column.kind is ColumnKind.TEXT and column is not head]
    return {**widths, **{name: min(widths[name], least if name in partners else MAX_TEXT_CELLS) for name in texts}}


def _shared(names: Sequence[str], whole: Mapping[str, int], room: int) -> Mapping[str, int]:
    """Return equal widths for the name and the texts compared with it, but none wider than it needs."""
    shares: dict[str, int] = {}
    for place, name in enumerate(sorted(names, key=whole.__getitem__)):
        shares[name] = min(whole[name], room // (len(names) - place))
        room -= shares[name]
    return shares


def _grown(names: Sequence[str], widths: Mapping[str, int], whole: Mapping[str, int], spare: int) -> Mapping[str, int]:
    """Return the widths with the remaining cells given to cut texts, those that need least first."""
    grown = dict(widths)
    missing = {name: whole[name] - widths[name] for name in names}
    for place, name in enumerate(sorted(missing, key=missing.__getitem__)):
        more = min(missing[name], max(0, spare) // (len(missing) - place))
        grown[name] += more
        spare -= more
    return grown


def _held(columns: Sequence[Column], widths: Mapping[str, int], room: int) -> list[Column]:
    """Return the columns pinned by the user that leave room for others; the rest of them scroll."""
    held: list[Column] = []
    for column in columns:
        room -= widths[column.name] + COLUMN_GAP
        if room < 0:
            break
        held.append(column)
    return held


def lay_out(
    columns: Sequence[Column],
    widths: Mapping[str, int],
    width: int,
    *,
    pinned: str = "",
    pinned_least: int = MIN_PINNED,
    whole_least: int = 0,
    also_pinned: Sequence[str] = (),
    name_last: bool = False,
    behind: Collection[str] = (),
    whole_name: bool = False,
    first: int = 0,
    bar_columns: Collection[str] = (),
    unknown: Collection[str] = (),
    keeps_order: bool = False,
) -> TableLayout:
    """Return the layout of columns on a line of ``width`` cells.

    The pinned column gets the width that the others leave, and cut texts the rest. If there is not enough room for all,
    the least important columns (the largest ``priority``) move to the end, out of sight, until the table is scrolled.

    Args:
        columns: The columns to show, in order.
        widths: The width of the contents and the heading of each column.
        width: Cells of the line.
        pinned: The column that never scrolls.
        pinned_least: Its minimum width, if its texts are that long, before any other column is shown.
        whole_least: The same, if bars have priority over less important columns, too.
        also_pinned: Further columns that do not scroll; as many as leave room for others.
        name_last: The pinned column is last, and gets all spare width.
        behind: With ``name_last``: columns that come after it, if there is room for them.
        whole_name: With ``name_last``: all columns but one are hidden until the pinned one is whole.
        first: The number of columns that are scrolled out at the left, without the pinned ones.
        bar_columns: Columns that a share bar follows if there is room, in order of priority.
        unknown: Columns without values, and columns that are informative only above 0 without a value above 0. They
            come last, and are not counted if they do not fit.
        keeps_order: The user has ordered the columns: columns without values are not moved either.
    """
    by_name = {column.name: column for column in columns}
    silent = {
        *unknown,
        *(one.name for one in columns if one.only_above_zero and one.priority >= UNINFORMATIVE_PRIORITY),
    }
    later = {*silent, *(one.name for one in columns if one.priority >= UNINFORMATIVE_PRIORITY)}
    head = by_name.get(pinned)
    whole = widths
    widths = _cut(columns, head, widths, pinned_least)
    own = (pinned, *head.compared_with) if head else ()
    least = max(pinned_least, whole_least, round(width * PINNED_SHARE))
    if name_last and whole_name:
        # A name without a figure means little: the most important figure stays.
        figure = min((column for column in columns if column is not head), key=lambda each: each.priority, default=None)
        least = max(least, width - GUTTER_CELLS - (widths[figure.name] + COLUMN_GAP if figure else 0))
    head_least = min(widths[pinned], least, width) if head else 0
    room = width - GUTTER_CELLS - head_least + (0 if head else COLUMN_GAP)

    wanted = [by_name[name] for name in also_pinned if name in by_name and name != pinned]
    held = _held(wanted, widths, round(room * MAX_USER_PINNED_SHARE))
    room -= sum(widths[column.name] + COLUMN_GAP for column in held)
    rest = [column for column in columns if column is not head and column not in held]

    are_first = whole_least and width >= BARS_FIRST_CELLS
    for_bars = (GOOD_BAR_CELLS + 1) * len(set(bar_columns).intersection(by_name)) if are_first else 0
    name_more = widths[pinned] - head_least if head else 0
    text_more = {column.name: whole[column.name] - widths[column.name] for column in columns if column.name not in own}
    partners_more = sum(max(0, whole[name] - widths[name]) for name in own[1:] if name in widths and name != pinned)
    barred_later = () if for_bars else bar_columns
    fitting = _columns_that_fit(rest, widths, room - for_bars, barred_later, name_more, partners_more, text_more)
    last = [column.name for column in rest if name_last and column.name in behind and column.name in fitting]
    room -= sum(widths[name] + COLUMN_GAP for name in last)
    rest, fitting = [column for column in rest if column.name not in last], fitting.difference(last)
    ordered = [column.name for column in rest if column.name in fitting]
    if not keeps_order:
        # Dashes, and values that are the same in every row, would separate the figures.
        ordered.sort(key=lambda name: name in later)
    ordered += sorted((column.name for column in rest if column.name not in fitting), key=lambda name: name in silent)
    first = max(0, min(first, len(ordered) - 1))
    shown: list[str] = []
    used = 0
    for name in ordered[first:] if first else ordered[: len(fitting)]:
        used += widths[name] + COLUMN_GAP
        if used > room and (shown or not first):
            used -= widths[name] + COLUMN_GAP
            break
        shown.append(name)

    head_width = 0
    bar = 0
    spare = room + head_least - used
    pinned_target = widths.get(pinned, 0)
    if not name_last and (are_first or not whole_least):
        pinned_target = min(pinned_target, max(MIN_PINNED_CELLS_WITH_BAR, whole_least))
    names = [*(column.name for column in held), *shown, *last]
    barred = [name for name in names if name in bar_columns]
    while barred and spare - ((MIN_BAR_CELLS if len(barred) > 1 else GOOD_BAR_CELLS) + 1) * len(barred) < pinned_target:
        barred.pop()
    if barred:
        least = min(GOOD_BAR_CELLS, (spare - pinned_target) // len(barred) - 1)
        whole_texts = widths.get(pinned, 0) + sum(text_more.get(name, 0) for name in names)
        beside = (spare - whole_texts) // len(barred) - 1
        # A shorter bar is good enough where it leaves all texts whole.
        bar = min(MAX_BAR_CELLS, beside if beside >= MIN_BAR_CELLS else max(least, beside))
        spare -= (bar + 1) * len(barred)
    if head:
        partners = [name for name in names if name in head.compared_with]
        both = max(1, min(spare, width - GUTTER_CELLS)) + sum(widths[name] for name in partners)
        shares = _shared([pinned, *partners], whole, both)
        spare += sum(widths[name] for name in partners) - sum(shares.values())
        widths = {**widths, **shares}
        head_width = shares[pinned]
    texts = [name for name in names if by_name[name].kind is ColumnKind.TEXT]
    widths = _grown(texts, widths, whole, spare)

    line = [(by_name[name], widths[name]) for name in names]
    if head:
        line.insert(len(line) - len(last) if name_last else 0, (head, head_width))
    placed: list[PlacedColumn] = []
    x = GUTTER_CELLS
    for column, wide in line:
        column_width = wide if column is head and not placed else min(wide, width - x)
        if column_width <= 0:
            break
        placed.append(PlacedColumn(column, x, column_width, bar if column.name in barred else 0))
        x = placed[-1].end + COLUMN_GAP
    still = [column.name for column in held]
    heads = [head.name] if head else []
    sequence = (*still, *ordered, *heads, *last) if name_last else (*heads, *still, *ordered)
    left_out = ordered[first + len(shown) :]
    return TableLayout(
        tuple(placed),
        sequence,
        first,
        sum(name not in silent for name in left_out),
        len(still) if name_last else len(heads) + len(still),
    )
