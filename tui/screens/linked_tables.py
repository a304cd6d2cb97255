"""Linked tables: the selected row of one determines the rows of the next."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from textual import on
from textual.geometry import NULL_OFFSET, Region, Size, Spacing
from textual.layout import Layout, WidgetPlacement
from textual.worker import get_current_worker

from tui.analysis.sessions import replayed_sessions
from tui.cache.spill import spill_to_disk
from tui.screens.base import WORKING, ViewBody
from tui.tables import table
from tui.widgets.app_services import SHOW_BUSY_AFTER_S
from tui.widgets.table.cells import measure
from tui.widgets.table.pane import MIN_ROW_LINES, TablePane

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl
    from textual.app import ComposeResult
    from textual.layout import ArrangeResult
    from textual.screen import Screen
    from textual.timer import Timer
    from textual.widget import Widget

    from tui.model.profile import Profile
    from tui.model.table_spec import TableSpec


NO_ROW_ABOVE: Final = "No row above is selected."
CURRENT: Final = "-current"
"""The class of the table with the focus."""
NO_ROWS_LINES: Final = 6
"""The height of a table that has had no rows yet: its heading, the reason, and the command that records them."""
MIN_LINES_FOR_ALL: Final = 26
"""With fewer lines one table is open and the others are folded."""
PREVIEW_LINES: Final = 5
"""The height of the table below the open one: its heading, three rows, and their number."""
MIN_LINES_FOR_PREVIEW: Final = 16
"""With fewer lines the table below is folded, too."""


def shared_heights(lines: int, requests: Sequence[tuple[float, int | None]]) -> list[int]:
    """Return the lines of each table, which add up to all lines.

    Lines that a table does not need are given only to tables below it, so that moving through its rows never moves its
    edge.

    Args:
        lines: The number of lines.
        requests: For each table its share, and the maximum number of useful lines; None: no maximum.

    >>> shared_heights(30, [(2, None), (2, None), (1, None)]), shared_heights(30, [(2, 4), (2, 4), (2, None)])
    ([12, 12, 6], [4, 4, 22])
    """
    heights = []
    for index, (share, max_lines) in enumerate(requests):
        height = round(lines * share / sum(other_share for other_share, _ in requests[index:]))
        heights.append(height if max_lines is None else min(height, max_lines))
        lines -= heights[-1]
    return heights


def folded_heights(lines: int, max_lines_of: Sequence[int | None], current: int) -> list[int]:
    """Return the lines of each table if there are too few for all: most for the current one, one for others.

    The table below shows its first rows, if there is room. Lines that the current table does not need are given to
    those below it, then to those above.

    Args:
        lines: The number of lines.
        max_lines_of: The maximum number of useful lines of each table; None: no maximum.
        current: The index of the current table.

    >>> folded_heights(20, [None, None, None], 0), folded_heights(20, [None, 6, None], 1)
    ([14, 5, 1], [1, 6, 13])
    >>> folded_heights(20, [None, 9, 8], 2), folded_heights(11, [None, None, None], 0)
    ([3, 9, 8], [9, 1, 1])
    """
    spare_lines = lines - len(max_lines_of)
    if spare_lines < 0:
        return [lines if index == current else 0 for index in range(len(max_lines_of))]
    heights = [1] * len(max_lines_of)

    def enlarge(index: int, max_lines: int) -> int:
        """Give the table up to ``max_lines`` further lines; none if that is not enough for a row."""
        useful_lines = max_lines_of[index]
        added = max_lines if useful_lines is None else min(max_lines, useful_lines - heights[index])
        if added <= 0 or heights[index] + added < MIN_ROW_LINES:
            return 0
        heights[index] += added
        return added

    below = range(current + 1, len(max_lines_of))
    preview_lines = PREVIEW_LINES - 1 if below and lines >= MIN_LINES_FOR_PREVIEW else 0
    if preview_lines and (useful_lines := max_lines_of[below[0]]) is not None:
        preview_lines = min(preview_lines, useful_lines - 1)
    spare_lines -= enlarge(current, spare_lines - preview_lines)
    for index in (*below, *reversed(range(current))):
        spare_lines -= enlarge(index, spare_lines)
    # Unused lines stay empty below the last rows.
    heights[-1 if heights[-1] > 1 else current] += spare_lines
    return heights


class StackLayout(Layout):
    """Divides the lines among the shown tables by the ``fr`` of their heights."""

    name = "stack"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        """Place the tables."""
        parent.pre_layout(self)
        tables = [child for child in children if isinstance(child, TablePane)]
        useful = _tables_to_show(tables)
        shared = (
            _folded_lines(useful, size.height)
            if size.height < MIN_LINES_FOR_ALL
            else _shared_lines(useful, size.height)
        )
        heights = dict.fromkeys(tables, 0) | shared
        placements = []
        y = 0
        for pane in tables:
            region = Region(0, y, size.width, heights[pane])
            placements.append(WidgetPlacement(region, NULL_OFFSET, Spacing(), pane))
            y += heights[pane]
        return placements


def _tables_to_show(tables: Sequence[TablePane]) -> list[TablePane]:
    """Return the tables, without empty ones below an empty one, which shows the reason."""
    without_rows = [index for index, table in enumerate(tables) if table.has_had_no_rows]
    return [table for index, table in enumerate(tables) if index not in without_rows[1:] or table.has_class(CURRENT)]


def _shared_lines(tables: Sequence[TablePane], lines: int) -> dict[TablePane, int]:
    without_rows = (
        [table for table in tables if table.has_had_no_rows]
        if not all(table.has_had_no_rows for table in tables)
        else []
    )
    heights = dict.fromkeys(without_rows, min(NO_ROWS_LINES, lines // max(1, len(tables))))
    with_rows = [table for table in tables if table not in without_rows]
    requests = [(_share(table), table.lines_of_use if table is not with_rows[-1] else None) for table in with_rows]
    return heights | dict(zip(with_rows, shared_heights(lines - sum(heights.values()), requests), strict=True))


def _folded_lines(tables: Sequence[TablePane], lines: int) -> dict[TablePane, int]:
    current = next((index for index, table in enumerate(tables) if table.has_class(CURRENT)), 0)
    max_lines = [NO_ROWS_LINES if table.has_had_no_rows else table.lines_of_use for table in tables]
    return dict(zip(tables, folded_heights(lines, max_lines, current), strict=True))


def _share(table: TablePane) -> float:
    height = table.styles.height
    return height.value if height is not None else 1.0


Row = dict[str, Any]

HINT_UP: Final = "q: table above"
"""In the line of a folded table above."""
HINT_DOWN: Final = "tab: table below"
"""In the line of a folded table below."""


@dataclass(frozen=True, slots=True)
class Level:
    """One of the tables."""

    name: str
    """Its id, as ``kernels``."""

    spec: TableSpec

    rows: Callable[[Profile, Mapping[str, Row]], pl.DataFrame]
    """Its rows, from the profile and the selected row of every level above it (by level name)."""

    crumb: Callable[[Row], str]
    """What the path shows once a row of it has been opened."""

    empty: Callable[[Profile], str]
    """What to say if there are no rows: why, and what would record them."""

    share: int = 1
    """Its share of the height, where several levels are shown."""

    spec_for: Callable[[Profile], TableSpec] | None = None
    """A function that adapts the columns to a profile."""


def registered_level(name: str) -> tuple[TableSpec, Callable[[Profile, Mapping[str, Row]], pl.DataFrame]]:
    """Return columns and rows of a table of `tui.tables`, for a level independent of those above."""
    registered = table(name)
    return registered.table_spec(), lambda profile, _above: registered.rows(profile)


def linked_pane(level: Level) -> TablePane:
    """Return the pane of a level."""
    pane = TablePane(level.spec, id=level.name, title=level.spec.title)
    pane.styles.height = f"{level.share}fr"
    pane.add_class("linked")
    return pane


def linked_tables(screen: Screen[Any]) -> LinkedTables | None:
    """Return the linked tables of a view; None if it has none."""
    return next(iter(screen.query(LinkedTables)), None)


class LinkedTables(ViewBody):
    """Tables below each other; on a short screen all but the current one are folded.

    ``enter`` goes one level deeper, ``q`` and ``esc`` one up; the tables below follow the cursor.

    Args:
        levels: The tables, each depending on the previous one.
    """

    def __init__(self, levels: Sequence[Level]) -> None:
        super().__init__(id="tables")
        # Textual knows only its own layouts by name in CSS.
        self._layout = StackLayout()
        self.levels = tuple(levels)
        self.current = 0
        """The place of the level that the user is on."""
        self._selected: dict[str, Row] = {}
        self._rows_by_level: dict[str, pl.DataFrame] = {}
        """The rows that each level shows, by its name."""
        self._had_rows: set[str] = set()
        """The levels that have had rows: they keep their lines if a row has nothing below it."""
        self._fill_request = 0
        self._filling: Level | None = None
        """The level whose rows are being made; those from it on show what has been selected before."""
        self._busy_timer: Timer | None = None

    @property
    def layout(self) -> Layout:
        """The layout: one below the other."""
        return self._layout

    def compose(self) -> ComposeResult:
        """Yield one pane per level."""
        yield from map(linked_pane, self.levels)

    @property
    def table(self) -> TablePane | None:
        """The table of the current level."""
        name = self.levels[self.current].name
        return next((pane for pane in self.query_children(TablePane) if pane.id == name), None)

    @property
    def selected(self) -> Mapping[str, Row]:
        """The selected row of each level, by the level's name."""
        return self._selected

    def populate(self) -> None:
        """Fill the first table; the others follow its cursor."""
        self._selected.clear()
        self.fill(0)
        self.show_level(min(self.current, len(self.levels) - 1))

    def pane(self, index: int) -> TablePane:
        """Return the pane of a level."""
        return self.query_one(f"#{self.levels[index].name}", TablePane)

    def fill(self, index: int) -> None:
        """Compute the rows of a level; in a thread for many launches or calls."""
        level = self.levels[index]
        self._fill_request += 1
        self._filling = None
        if self._busy_timer is not None:
            self._busy_timer.stop()
        if not self.view.is_large:
            self._rows_computed(self._fill_request, level, level.rows(self.view.profile, self._selected))
            return
        self._filling = level
        if self.pane(index).frame.is_empty():
            self._show_working()
        else:
            # Rows that are quick to compute replace the old ones without an empty table in between.
            self._busy_timer = self.set_timer(SHOW_BUSY_AFTER_S, self._show_working)
        compute = partial(self._fill_in_thread, self._fill_request, level, self.view.profile, dict(self._selected))
        self.run_worker(compute, thread=True, exclusive=True, group="fill")

    def _show_working(self) -> None:
        """Remove rows of the previous selection."""
        for index in range(len(self.levels)):
            if self._shows_old_rows(index):
                self.pane(index).show(self.pane(index).frame.clear(), empty=WORKING, is_loading=True)

    def show_failure(self, text: str) -> None:
        """Remove the rows of the previous selection."""
        if self._busy_timer is not None:
            self._busy_timer.stop()
        for index in range(len(self.levels)):
            if self._shows_old_rows(index):
                self.pane(index).show(self.pane(index).frame.clear(), empty=text)
        self._filling = None

    def _fill_in_thread(self, request: int, level: Level, profile: Profile, selected: dict[str, Row]) -> None:
        if get_current_worker().is_cancelled:
            return
        rows = spill_to_disk(level.rows(profile, selected))
        measure(level.spec_for(profile) if level.spec_for is not None else level.spec, rows)
        self.app.call_from_thread(self._rows_computed, request, level, rows)

    def _rows_computed(self, request: int, level: Level, rows: pl.DataFrame) -> None:
        # The selection or the tables may have changed meanwhile.
        if request != self._fill_request or level not in self.levels or not self.is_attached:
            return
        self._filling = None
        self._show_rows(self.levels.index(level), rows)

    @property
    def is_filling(self) -> bool:
        """Whether rows of its tables are still being computed."""
        return not all(self._is_up_to_date(self.pane(index)) for index in range(len(self.levels)))

    def _is_up_to_date(self, pane: TablePane) -> bool:
        """Return whether the row under the cursor of a table is the selected one."""
        row, selected = pane.current_row, self._selected.get(pane.id or "")
        if row is None or selected is None:
            return row is selected
        return all(row.get(column) == selected.get(column) for column in pane.spec.key)

    def _shows_old_rows(self, index: int) -> bool:
        """Return whether a table still shows rows of the previous selection."""
        return self._filling in self.levels[: index + 1]

    def rows_below(self, name: str, row: Row) -> pl.DataFrame | None:
        """Return the rows below a level, if they belong to a given row of it."""
        index = next(index for index, level in enumerate(self.levels) if level.name == name)
        if self._selected.get(name) != row or self._shows_old_rows(index + 1):
            return None
        return self._rows_by_level.get(self.levels[index + 1].name)

    def _show_rows(self, index: int, rows: pl.DataFrame) -> None:
        level = self.levels[index]
        self._rows_by_level[level.name] = rows
        spec = level.spec_for(self.view.profile) if level.spec_for is not None else None
        pane = self.pane(index)
        if not rows.is_empty():
            self._had_rows.add(level.name)
        has_had_no_rows = level.name not in self._had_rows
        if pane.has_had_no_rows != has_had_no_rows:
            pane.has_had_no_rows = has_had_no_rows
            pane.refresh(layout=True)
        pane.model.excluded_sessions = replayed_sessions(self.view.profile)
        pane.show(rows, empty=self._empty_reason(index) if rows.is_empty() else "", spec=spec)
        if rows.is_empty() and index + 1 < len(self.levels):
            # No row will be selected: the tables below show an earlier selection.
            self.fill(index + 1)

    def _empty_reason(self, index: int) -> str:
        """Return why a table has no rows, unless a table above shows the same reason."""
        reason = self.levels[index].empty(self.view.profile)
        levels_above = (level for level in self.levels[:index] if self._rows_by_level[level.name].is_empty())
        return NO_ROW_ABOVE if any(level.empty(self.view.profile) == reason for level in levels_above) else reason

    @on(TablePane.RowHighlighted)
    def _follow_selection(self, event: TablePane.RowHighlighted) -> None:
        index = self._level_index(event.pane)
        if index is None:
            return
        name = self.levels[index].name
        has_no_row = event.row is None and event.pane.current_row is None
        if has_no_row and (name in self._selected or self._never_filled_below(index)):
            self._clear_selection(index)
        if self._shows_old_rows(index) or event.row is None or event.row == self._selected.get(name):
            return
        if event.row != event.pane.current_row:
            # The table may show other rows by now, even of another kind.
            return
        for below in self.levels[index:]:
            self._selected.pop(below.name, None)
        self._selected[name] = event.row
        if index + 1 < len(self.levels):
            self.fill(index + 1)
        self._describe_folded()
        self.view.show_crumbs()

    def _never_filled_below(self, index: int) -> bool:
        """Return whether a table below still waits for a row of this one, as if a filter hides all from the start."""
        is_ready = self._filling is None and not self.pane(index).is_loading
        return is_ready and any(self.pane(below).is_loading for below in range(index + 1, len(self.levels)))

    def _clear_selection(self, index: int) -> None:
        """Clear the selection of a level, for example if its filter hides all rows; the tables below become empty."""
        self._fill_request += 1
        self._filling = None
        for position in range(index, len(self.levels)):
            self._selected.pop(self.levels[position].name, None)
            if position > index:
                pane = self.pane(position)
                pane.show(pane.frame.clear(), empty=NO_ROW_ABOVE)
        self.view.show_crumbs()

    @on(TablePane.RowOpened)
    def _open_level(self, event: TablePane.RowOpened) -> None:
        index = self._level_index(event.pane)
        if index is None:
            return
        if index + 1 == len(self.levels) and not self._shows_old_rows(index):
            # The view shows its details.
            return
        event.stop()
        if self._shows_old_rows(index):
            return
        if event.row != self._selected.get(self.levels[index].name):
            self._selected[self.levels[index].name] = event.row
            self.fill(index + 1)
        self.show_level(index + 1)
        self.view.explorer.navigator.history.visit(self.view.place())

    def _level_index(self, pane: TablePane | None) -> int | None:
        """Return the index of the level that a pane shows; None if it is not one of the linked tables."""
        names = [level.name for level in self.levels]
        return names.index(pane.id) if pane is not None and pane.id in names else None

    def show_level(self, index: int) -> None:
        """Focus the table of a level."""
        self.current = index
        for position in range(len(self.levels)):
            self.pane(position).set_class(position == index, CURRENT)
        self._describe_folded()
        # Heights depend on the current level.
        self.pane(index).refresh(layout=True)
        self.pane(index).focus_table()
        self.view.show_crumbs()

    def _describe_folded(self) -> None:
        """Show the selected row, and the key to it, in the line of a folded table."""
        for position, level in enumerate(self.levels):
            row = self._selected.get(level.name) if position < self.current else None
            hint = HINT_UP if position < self.current else HINT_DOWN
            self.pane(position).describe_folded(
                selected=level.crumb(row) if row is not None else "", keys_to_reach=hint
            )

    def on_descendant_focus(self) -> None:
        """Make the focused table the current level."""
        focused = next((pane for pane in self.query_children(TablePane) if pane.has_focus_within), None)
        index = self._level_index(focused)
        if index not in (None, self.current):
            self.show_level(index)

    @property
    def has_level_above(self) -> bool:
        """Whether there is a level above."""
        return self.current > 0

    def leave_level(self) -> bool:
        """Go one level up."""
        if self.current == 0:
            return False
        self.show_level(self.current - 1)
        return True

    def path(self) -> list[str]:
        """Return the opened rows."""
        levels_above = self.levels[: self.current]
        crumbs = [level.crumb(self._selected[level.name]) for level in levels_above if level.name in self._selected]
        return [*crumbs, self.levels[self.current].spec.title.lower()] if self.current else []

    @property
    def level(self) -> str:
        """The name of the current level."""
        return self.levels[self.current].name

    def restore_level(self, level: str) -> None:
        """Return to a level."""
        names = [listed.name for listed in self.levels]
        self.show_level(names.index(level) if level in names else 0)

    # --- other tables ------------------------------------------------------------------------------------------------

    def clear_selections(self) -> None:
        """Clear all selections, because the tables show other kinds of rows."""
        self._selected.clear()

    @property
    def is_computing_rows(self) -> bool:
        """Whether a thread makes the rows of a level."""
        return self._filling is not None

    def switch(self, levels: Sequence[Level], current: int) -> None:
        """Replace the tables; new ones are created, and still have to be filled.

        Args:
            levels: The tables.
            current: The index of the current level.
        """
        self.levels, self.current = tuple(levels), current

    def make_panes(self) -> list[TablePane]:
        """Create the missing panes of the levels."""
        existing = {pane.id for pane in self.query_children(TablePane)}
        created = [linked_pane(level) for level in self.levels if level.name not in existing]
        for pane in created:
            pane.mount_in(self)
        return created
