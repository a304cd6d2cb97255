"""The line below a table: the shown, found and marked rows, and hidden columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from textual.content import Content
from textual.widget import Widget

from tui.fmt import count, format_value, percent
from tui.model.columns import ColumnKind
from tui.query.facts import weight_pct
from tui.text import plain
from tui.text_width import cell_width, clip

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from textual.visual import Visual

    from tui.model.table_spec import Sort, TableSpec
    from tui.query.apply import Applied
    from tui.widgets.table.model import TableModel
    from tui.widgets.table.view import FrameTable


SEPARATOR: Final = " · "
FILTER: Final = "filter "
MIN_FILTER_CELLS: Final = len(FILTER) + 12
"""In fewer cells a filter cannot be read."""
REDUNDANT_IMPORTANCE: Final = 5
"""The importance of parts that the headings or a key show too: other parts have priority."""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """The contents of the status line."""

    title: str = ""
    """The title of the table, if the screen has several."""
    shown: int = 0
    total: int = 0
    is_loading: bool = False
    """Whether the number of rows is not known yet."""
    weight_share: float | None = None
    """The share of the weight in the shown rows, 0 to 100; None if all rows are shown or it is unknown."""
    weight_title: str = ""
    """The name of the weight: ``time``."""
    is_cut: bool = False
    """Whether only the first rows are shown."""
    small: str = ""
    """The number and the sum of hidden small rows; empty if there are none."""
    shares_of: str = ""
    """What shares of durations refer to: ``all`` or ``shown``."""
    filter: str = ""
    global_filter: str = ""
    """The filter of all views."""
    global_filter_reason: str = ""
    """Why it does not apply here."""
    find: str = ""
    found: int = 0
    found_at: int | None = None
    """The number of the selected row among the found ones, from 1."""
    sorted_by: str = ""
    marks: str = ""
    """The number and the sum of marked rows."""
    marks_average: str = ""
    busy: str = ""
    """A description of the running work."""
    selected: str = ""
    """The selected row of a folded table."""
    keys_to_reach: str = ""
    """The keys that lead to a folded table."""
    columns_before: int = 0
    columns_after: int = 0

    def parts(self) -> list[tuple[int, str]]:
        """Importance (1 is dropped last) and text of each part, in order of display."""
        is_filtered = self.shown != self.total or bool(self.filter)
        prefix = "first " if self.is_cut else ""
        rows = (
            f"{prefix}{count(self.shown)} of {count(self.total)} rows" if is_filtered else f"{count(self.total)} rows"
        )
        if self.total == 1 and not is_filtered:
            rows = "1 row"
        if self.is_loading:
            rows = "loading…"
        parts = [(1, rows)]
        if self.selected:
            parts.append((2, f"at {self.selected}"))
        if self.weight_share is not None and is_filtered:
            parts.append((3, f"{percent(self.weight_share)} of {self.weight_title}"))
        if self.busy:
            parts.append((1, self.busy))
        if self.small:
            parts.append((2, f"{self.small} hidden: x shows"))
        if self.global_filter:
            text = f"not here: {self.global_filter_reason}" if self.global_filter_reason else self.global_filter
            parts.append((1, f"filter of all views {text}"))
        if self.find:
            match_text = (
                f"{count(self.found_at)}/{count(self.found)}" if self.found_at else f"{count(self.found)} found"
            )
            parts.append((2, f"find {match_text}" if self.found else "find: no match"))
        if self.marks:
            parts.append((2, self.marks))
        if self.marks_average:
            parts.append((REDUNDANT_IMPORTANCE, f"avg {self.marks_average}"))
        if self.shares_of:
            parts.append((2, f"% of {self.shares_of}"))
        if self.filter:
            parts.append((4, f"{FILTER}{self.filter}"))
        if self.sorted_by and self.total:
            parts.append((REDUNDANT_IMPORTANCE, f"sorted by {self.sorted_by}"))
        return parts

    def hidden_columns_text(self, *, short: bool = False) -> str:
        """Return the number of columns that do not fit on each side."""
        unit = "" if short else " column" if self.columns_after == 1 else " columns"
        after = f"+{self.columns_after}{unit} →"
        sides = [f"← {self.columns_before}" if self.columns_before else "", after if self.columns_after else ""]
        return SEPARATOR.join(side for side in sides if side)

    def fitted_line(self, width: int) -> str:
        """Return the whole line.

        If there is too little room, parts that are visible elsewhere are dropped first; then column counts are
        shortened, a long filter is cut, the title is dropped, and then the least important of the other parts.
        """
        title = f"{self.title}: " if self.title else ""
        long_end = self.keys_to_reach or self.hidden_columns_text()
        short_end = self.keys_to_reach or self.hidden_columns_text(short=True)
        parts = self.parts()
        while True:
            last_part = max(parts, key=lambda part: part[0])
            is_shown_elsewhere = last_part[0] == REDUNDANT_IMPORTANCE
            heads = (title,) if is_shown_elsewhere or len(parts) == 1 else (title, "")
            ends = (long_end,) if is_shown_elsewhere else (long_end, short_end)
            for start_title in heads:
                for end in ends:
                    free_cells = width - (cell_width(end) + 2 if end else 0)
                    missing_cells = cell_width(start_title + SEPARATOR.join(text for _, text in parts)) - free_cells
                    cells = cell_width(last_part[1]) - missing_cells
                    if (
                        missing_cells > 0
                        and end == ends[-1]
                        and last_part[1].startswith(FILTER)
                        and cells >= MIN_FILTER_CELLS
                    ):
                        parts[parts.index(last_part)] = (last_part[0], clip(last_part[1], cells))
                        missing_cells = 0
                    if missing_cells <= 0 or (len(parts) == 1 and end == ends[-1]):
                        start = start_title + SEPARATOR.join(text for _, text in parts)
                        start = clip(start, max(0, free_cells))
                        return start + " " * max(0, width - cell_width(start) - cell_width(end)) + end
            parts.remove(last_part)


class StatusLine(Widget):
    """Shows a `TableStatus` on one line."""

    DEFAULT_CSS = """
    StatusLine { height: 1; padding: 0 1; color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._status = TableStatus()

    @property
    def status(self) -> TableStatus:
        """What the line shows."""
        return self._status

    @status.setter
    def status(self, status: TableStatus) -> None:
        if status != self._status:
            self._status = status
            self.refresh()

    def render(self) -> Visual:
        """Render the line."""
        return Content(self._status.fitted_line(self.content_size.width))


class StatusWriter:
    """Computes the contents of a table's status line.

    Args:
        model: The table.
        has_title: Whether to name the table, because there are several on the screen.
    """

    def __init__(self, model: TableModel, *, has_title: bool) -> None:
        self._model = model
        self._has_title = has_title
        self._folded = ("", "")
        self._marks: tuple[set[int], pl.DataFrame, tuple[str, str]] | None = None

    def describe_folded(self, selected: str, keys_to_reach: str) -> bool:
        """Set the selected row and the keys that lead to the folded table; return whether they changed.

        Args:
            selected: The selected row, or empty.
            keys_to_reach: The keys that lead to the table.
        """
        former, self._folded = self._folded, (selected, keys_to_reach)
        return former != self._folded

    def status(
        self, table: FrameTable, global_filter: str, busy: str, *, is_folded: bool, is_loading: bool
    ) -> TableStatus:
        """Return the contents of the line.

        Args:
            table: The view of the table.
            global_filter: The filter of all views.
            busy: The running work, or empty.
            is_folded: Whether only this line of the table is shown.
            is_loading: Whether rows are being computed.
        """
        model = self._model
        layout, applied = table.table_layout, model.applied
        if self._marks is None or self._marks[0] is not model.marks or self._marks[1] is not model.frame:
            texts = marks_text(model.frame, model.marks, model.spec, model.excluded_sessions, model.total_weight)
            self._marks = (model.marks, model.frame, texts)
        marks, average = self._marks[2]
        selected, keys_to_reach = self._folded if is_folded else ("", "")
        return TableStatus(
            # The model may show another table by now, such as other groups of ops.
            title=model.spec.title if self._has_title else "",
            shown=len(model.rows),
            total=model.frame.height,
            is_loading=is_loading and model.frame.is_empty(),
            weight_share=model.shown_pct,
            weight_title=weight_title(model.spec),
            is_cut=model.shows_first_only,
            small=small_rows_text(applied, model.spec) if applied else "",
            shares_of=model.shares_of,
            filter=plain(model.valid_filter),
            global_filter=plain(global_filter),
            global_filter_reason=plain(applied.global_filter_reason) if applied else "",
            find=plain(model.state.find),
            found=model.found_count,
            found_at=model.found_at(model.cursor_row),
            sorted_by="" if is_folded else sorted_by(model.spec, model.sort),
            selected=selected,
            keys_to_reach=keys_to_reach,
            marks=marks,
            marks_average=average,
            busy=busy,
            columns_before=layout.before,
            columns_after=layout.after,
        )


def sorted_by(spec: TableSpec, sort: Sort, *, with_words: bool = False) -> str:
    """Return the sort columns, with their directions as signs or words."""
    titles = {column.name: column.title for column in spec.columns}
    down, up = ("descending", "ascending") if with_words else ("▼", "▲")
    return ", ".join(f"{titles.get(name, name)} {down if is_descending else up}" for name, is_descending in sort)


def weight_title(spec: TableSpec) -> str:
    """Return the name of the weight: ``time`` for durations."""
    kind = weight_kind(spec)
    return "time" if kind is ColumnKind.DURATION else _title(spec).lower()


def weight_kind(spec: TableSpec) -> ColumnKind:
    """Return the kind of the weight."""
    return next((column.kind for column in spec.columns if column.name == spec.weight), ColumnKind.COUNT)


def _title(spec: TableSpec) -> str:
    return next((column.title for column in spec.columns if column.name == spec.weight), spec.weight)


def marks_text(
    frame: pl.DataFrame,
    marks: Collection[int],
    spec: TableSpec,
    excluded_sessions: Collection[int],
    get_total: Callable[[], int | float | None],
) -> tuple[str, str]:
    """Return the number of marked rows, the sum of their weight with its share, and their average.

    Args:
        frame: All rows.
        marks: Row numbers of the marked ones.
        spec: The table.
        excluded_sessions: Sessions that are excluded from sums.
        get_total: Returns the weight of all rows, if no session is excluded.
    """
    if not marks:
        return "", ""
    text = f"{count(len(marks))} marked"
    if spec.weight not in frame.columns:
        return text, ""
    picked = pl.Series(sorted(marks), dtype=pl.UInt32)
    values = frame[spec.weight][picked].drop_nulls().to_list()
    if not values:
        return text, ""
    kind = weight_kind(spec)
    total, average = (format_value(kind, value) for value in (sum(values), sum(values) / len(values)))
    share = (
        _marked_share(frame, picked, spec.weight, excluded_sessions)
        if excluded_sessions
        else _percentage(sum(values), get_total())
    )
    share_text = f", {percent(share)} of all" if share is not None else ""
    return f"{text}: {total}{share_text}", average if len(values) > 1 else ""


def _percentage(part: float, total: float | None) -> float | None:
    return 100 * part / total if total else None


def _marked_share(
    frame: pl.DataFrame, picked: pl.Series, weight: str, excluded_sessions: Collection[int]
) -> float | None:
    mask = np.zeros(frame.height, dtype=bool)
    mask[picked.to_numpy()] = True
    return weight_pct(frame, weight, pl.Series(mask), excluded_sessions)


def small_rows_text(applied: Applied, spec: TableSpec) -> str:
    """Return the number and the sum of hidden small rows; empty if there are none."""
    if not applied.small:
        return ""
    total = format_value(weight_kind(spec), applied.small_weight)
    return f"{count(applied.small)} small ({total})"
