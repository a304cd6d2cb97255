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
PREFERRED_BAR_CELLS: Final = 8
"""Less important columns are omitted for a bar of this width."""
MIN_BAR_CELLS: Final = 5
"""The minimum width of each of several bars; they are drawn in eighths of a cell."""
MAX_BAR_CELLS: Final = 20
MIN_CELLS_WITH_BARS_FIRST: Final = 100
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


def _fitting_columns(
    columns: Sequence[Column],
    widths: Mapping[str, int],
    free_cells: int,
    bar_columns: Collection[str],
    name_missing: int,
    partners_missing: int,
    text_missing: Mapping[str, int],
) -> set[str]:
    """Return the most important columns, up to the first that does not fit; then others that fit next to a whole name.

    Uninformative columns are added only if all texts stay whole.

    Columns that belong together (`columns_by_priority`) are shown together or not at all.

    Args:
        columns: All columns except the pinned ones.
        widths: The width of each column.
        free_cells: The cells beside the name at its minimum width.
        bar_columns: Columns that a bar follows.
        name_missing: The cells that the name needs, beyond its minimum width, to be whole.
        partners_missing: The same for the texts that are compared with the name.
        text_missing: The same for each cut text.
    """
    chosen: set[str] = set()
    are_bars_reserved = are_names_reserved = is_full = are_texts_reserved = False
    for group in columns_by_priority(columns):
        priority = group[0].priority
        needed = sum(widths[column.name] + COLUMN_GAP for column in group)
        if not are_bars_reserved and (priority >= BAR_PRIORITY or needed > free_cells):
            free_cells -= (PREFERRED_BAR_CELLS + 1) * len(chosen.intersection(bar_columns))
            are_bars_reserved = True
        is_uninformative = priority >= UNINFORMATIVE_PRIORITY
        if not are_names_reserved and (needed > free_cells or is_uninformative):
            are_names_reserved = True
            free_cells -= name_missing + partners_missing
        if is_uninformative and is_full:
            # Uninformative columns come last.
            break
        if is_uninformative and not are_texts_reserved:
            are_texts_reserved = True
            free_cells -= sum(missing for name, missing in text_missing.items() if name in chosen)
        if needed <= free_cells:
            free_cells -= needed
            chosen.update(column.name for column in group)
        else:
            is_full = True
    return chosen


def _limit_texts(
    columns: Sequence[Column], name_column: Column | None, widths: Mapping[str, int], min_pinned: int
) -> Mapping[str, int]:
    """Return the widths with texts limited to their maximum; those compared with the name to ``min_pinned``."""
    partners = name_column.compared_with if name_column else ()
    texts = [column.name for column in columns if column.kind is ColumnKind.TEXT and column is not name_column]
    return {**widths, **{name: min(widths[name], min_pinned if name in partners else MAX_TEXT_CELLS) for name in texts}}


def _share_cells(names: Sequence[str], full_widths: Mapping[str, int], free_cells: int) -> Mapping[str, int]:
    """Return equal widths for the name and the texts compared with it, but none wider than it needs."""
    shares: dict[str, int] = {}
    for index, name in enumerate(sorted(names, key=full_widths.__getitem__)):
        shares[name] = min(full_widths[name], free_cells // (len(names) - index))
        free_cells -= shares[name]
    return shares


def _grow_texts(
    names: Sequence[str], widths: Mapping[str, int], full_widths: Mapping[str, int], free_cells: int
) -> Mapping[str, int]:
    """Return the widths with the remaining cells given to cut texts; those that need the fewest cells come first."""
    grown_widths = dict(widths)
    missing = {name: full_widths[name] - widths[name] for name in names}
    for index, name in enumerate(sorted(missing, key=missing.__getitem__)):
        added = min(missing[name], max(0, free_cells) // (len(missing) - index))
        grown_widths[name] += added
        free_cells -= added
    return grown_widths


def _pinned_that_fit(columns: Sequence[Column], widths: Mapping[str, int], free_cells: int) -> list[Column]:
    """Return the columns pinned by the user that leave room for others; the rest of them scroll."""
    fitting: list[Column] = []
    for column in columns:
        free_cells -= widths[column.name] + COLUMN_GAP
        if free_cells < 0:
            break
        fitting.append(column)
    return fitting


def _cells_beside_main_figure(
    columns: Sequence[Column], name_column: Column | None, widths: Mapping[str, int], width: int
) -> int:
    """Return the cells that the most important figure leaves to the name: a name without a figure means little."""
    figures = [column for column in columns if column is not name_column]
    figure = min(figures, key=lambda column: column.priority, default=None)
    return width - GUTTER_CELLS - (widths[figure.name] + COLUMN_GAP if figure else 0)


def _fitting_first(
    columns: Sequence[Column], fitting: Collection[str], moved_back: Collection[str], uninformative: Collection[str]
) -> list[str]:
    """Return the order of scrolling columns.

    Args:
        columns: The columns.
        fitting: Those that fit, which come first.
        moved_back: Columns that come last among those that fit.
        uninformative: Columns that come last among the others.
    """
    fit = [column.name for column in columns if column.name in fitting]
    others = [column.name for column in columns if column.name not in fitting]
    return [
        *sorted(fit, key=lambda name: name in moved_back),
        *sorted(others, key=lambda name: name in uninformative),
    ]


def _columns_from(
    first: int, ordered: Sequence[str], fitting: int, widths: Mapping[str, int], free_cells: int
) -> list[str]:
    """Return the scrolling columns on the line: those that fit, or after scrolling as many as there is room for.

    Args:
        first: The number of columns scrolled out at the left.
        ordered: All scrolling columns, those that fit first.
        fitting: The number of columns that fit.
        widths: The width of each column.
        free_cells: The room for them.
    """
    shown: list[str] = []
    for name in ordered[first:] if first else ordered[:fitting]:
        free_cells -= widths[name] + COLUMN_GAP
        # A column wider than the line can be scrolled to, and is cut.
        if free_cells < 0 and (shown or not first):
            break
        shown.append(name)
    return shown


def _bars(names: Sequence[str], spare_cells: int, pinned_cells: int, full_texts_cells: int) -> tuple[list[str], int]:
    """Return the columns that a share bar follows, and the width of a bar.

    Args:
        names: The shown columns that can have a bar; if there is little room, the last ones have none.
        spare_cells: The cells that the columns leave to the pinned column and the bars.
        pinned_cells: The cells of the pinned column before bars.
        full_texts_cells: The cells of the pinned column and of cut texts if they are whole.
    """
    barred = list(names)
    while barred:
        min_cells = MIN_BAR_CELLS if len(barred) > 1 else PREFERRED_BAR_CELLS
        if spare_cells - (min_cells + 1) * len(barred) >= pinned_cells:
            break
        barred.pop()
    if not barred:
        return [], 0
    preferred_cells = min(PREFERRED_BAR_CELLS, (spare_cells - pinned_cells) // len(barred) - 1)
    beside_full_texts = (spare_cells - full_texts_cells) // len(barred) - 1
    # A shorter bar is good enough where it leaves all texts whole.
    cells = beside_full_texts if beside_full_texts >= MIN_BAR_CELLS else max(preferred_cells, beside_full_texts)
    return barred, min(MAX_BAR_CELLS, cells)


def _place(
    columns: Sequence[Column], widths: Mapping[str, int], width: int, bars: tuple[Collection[str], int], pinned: str
) -> tuple[PlacedColumn, ...]:
    """Return the columns at their cells of a line; the last one is cut at the end of the line.

    Args:
        columns: The shown columns, in order.
        widths: The width of each column.
        width: Cells of the line.
        bars: The columns that a share bar follows, and the width of a bar.
        pinned: The name column, which is not cut if it is the first.
    """
    barred, bar_cells = bars
    placed: list[PlacedColumn] = []
    x = GUTTER_CELLS
    for column in columns:
        is_first_name = column.name == pinned and not placed
        cells = widths[column.name] if is_first_name else min(widths[column.name], width - x)
        if cells <= 0:
            break
        placed.append(PlacedColumn(column, x, cells, bar_cells if column.name in barred else 0))
        x = placed[-1].end + COLUMN_GAP
    return tuple(placed)


def lay_out(
    columns: Sequence[Column],
    widths: Mapping[str, int],
    width: int,
    *,
    pinned: str = "",
    min_pinned_cells: int = MIN_PINNED,
    preferred_pinned_cells: int = 0,
    also_pinned: Sequence[str] = (),
    name_last: bool = False,
    trailing_columns: Collection[str] = (),
    shows_full_name: bool = False,
    scrolled_out: int = 0,
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
        min_pinned_cells: Its minimum width, if its texts are that long, before any other column is shown.
        preferred_pinned_cells: The same, if bars have priority over less important columns, too.
        also_pinned: Further columns that do not scroll; as many as leave room for others.
        name_last: The pinned column is last, and gets all spare width.
        trailing_columns: With ``name_last``: columns that come after it, if there is room for them.
        shows_full_name: With ``name_last``: all columns but one are hidden until the pinned one is whole.
        scrolled_out: The number of columns that are scrolled out at the left, without the pinned ones.
        bar_columns: Columns that a share bar follows if there is room, in order of priority.
        unknown: Columns without values, and columns that are informative only above 0 without a value above 0. They
            come last, and are not counted if they do not fit.
        keeps_order: The user has ordered the columns: columns without values are not moved either.
    """
    columns_by_name = {column.name: column for column in columns}
    uninformative = {
        *unknown,
        *(column.name for column in columns if column.only_above_zero and column.priority >= UNINFORMATIVE_PRIORITY),
    }
    moved_back = {*uninformative, *(column.name for column in columns if column.priority >= UNINFORMATIVE_PRIORITY)}
    name_column = columns_by_name.get(pinned)
    full_widths = widths
    widths = _limit_texts(columns, name_column, widths, min_pinned_cells)
    name_and_partners = (pinned, *name_column.compared_with) if name_column else ()
    max_name_cells = max(min_pinned_cells, preferred_pinned_cells, round(width * PINNED_SHARE))
    if name_last and shows_full_name:
        max_name_cells = max(max_name_cells, _cells_beside_main_figure(columns, name_column, widths, width))
    min_name_cells = min(widths[pinned], max_name_cells, width) if name_column else 0
    free_cells = width - GUTTER_CELLS - min_name_cells + (0 if name_column else COLUMN_GAP)

    user_pinned = [columns_by_name[name] for name in also_pinned if name in columns_by_name and name != pinned]
    fixed = _pinned_that_fit(user_pinned, widths, round(free_cells * MAX_USER_PINNED_SHARE))
    free_cells -= sum(widths[column.name] + COLUMN_GAP for column in fixed)
    scrolling = [column for column in columns if column is not name_column and column not in fixed]

    are_bars_first = preferred_pinned_cells and width >= MIN_CELLS_WITH_BARS_FIRST
    cells_for_bars = (
        (PREFERRED_BAR_CELLS + 1) * len(set(bar_columns).intersection(columns_by_name)) if are_bars_first else 0
    )
    name_missing = widths[pinned] - min_name_cells if name_column else 0
    text_missing = {
        column.name: full_widths[column.name] - widths[column.name]
        for column in columns
        if column.name not in name_and_partners
    }
    partners_missing = sum(
        max(0, full_widths[name] - widths[name]) for name in name_and_partners[1:] if name in widths and name != pinned
    )
    late_bar_columns = () if cells_for_bars else bar_columns
    fitting = _fitting_columns(
        scrolling, widths, free_cells - cells_for_bars, late_bar_columns, name_missing, partners_missing, text_missing
    )
    trailing = [
        column.name for column in scrolling if name_last and column.name in trailing_columns and column.name in fitting
    ]
    free_cells -= sum(widths[name] + COLUMN_GAP for name in trailing)
    scrolling, fitting = [column for column in scrolling if column.name not in trailing], fitting.difference(trailing)
    # Dashes, and values that are the same in every row, would separate the figures.
    ordered = _fitting_first(scrolling, fitting, () if keeps_order else moved_back, uninformative)
    scrolled_out = max(0, min(scrolled_out, len(ordered) - 1))
    shown = _columns_from(scrolled_out, ordered, len(fitting), widths, free_cells)

    spare_cells = free_cells + min_name_cells - sum(widths[name] + COLUMN_GAP for name in shown)
    pinned_target = widths.get(pinned, 0)
    if not name_last and (are_bars_first or not preferred_pinned_cells):
        pinned_target = min(pinned_target, max(MIN_PINNED_CELLS_WITH_BAR, preferred_pinned_cells))
    names = [*(column.name for column in fixed), *shown, *trailing]
    full_texts_cells = widths.get(pinned, 0) + sum(text_missing.get(name, 0) for name in names)
    barred, bar_cells = _bars(
        [name for name in names if name in bar_columns], spare_cells, pinned_target, full_texts_cells
    )
    spare_cells -= (bar_cells + 1) * len(barred)
    if name_column:
        partners = [name for name in names if name in name_column.compared_with]
        shared_cells = max(1, min(spare_cells, width - GUTTER_CELLS)) + sum(widths[name] for name in partners)
        shares = _share_cells([pinned, *partners], full_widths, shared_cells)
        spare_cells += sum(widths[name] for name in partners) - sum(shares.values())
        widths = {**widths, **shares}
    texts = [name for name in names if columns_by_name[name].kind is ColumnKind.TEXT]
    widths = _grow_texts(texts, widths, full_widths, spare_cells)

    if name_column:
        names.insert(len(names) - len(trailing) if name_last else 0, pinned)
    placed = _place([columns_by_name[name] for name in names], widths, width, (barred, bar_cells), pinned)
    fixed_names = [column.name for column in fixed]
    name_columns = [name_column.name] if name_column else []
    sequence = (
        (*fixed_names, *ordered, *name_columns, *trailing) if name_last else (*name_columns, *fixed_names, *ordered)
    )
    omitted = ordered[scrolled_out + len(shown) :]
    return TableLayout(
        placed,
        sequence,
        scrolled_out,
        sum(name not in uninformative for name in omitted),
        len(fixed_names) if name_last else len(name_columns) + len(fixed_names),
    )
