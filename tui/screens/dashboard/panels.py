"""What the panels of the dashboard have in common: lines that are doors, with what each of them means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from textual import on
from textual.message import Message

from tui.analysis.definitions import definition
from tui.fmt import metric
from tui.model.columns import COLUMNS, ColumnKind
from tui.widgets.bar_list import BarList, SortableBarList
from tui.widgets.details import Details, sections, whole_value
from tui.widgets.panel import Panel
from tui.widgets.stacked import StackedBar

if TYPE_CHECKING:
    from textual.widget import Widget

    from tui.screens.dashboard.doors import Door
    from tui.widgets.bars import BarRow
    from tui.widgets.details import Line

WAITING: Final = "…"
"""What stands where something is still being worked out."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a panel."""

    row: BarRow
    door: Door | None = None
    """Where it leads; None: there are no rows behind it."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """What is known of it, by the names of columns, for the details."""
    metric: str = ""
    """The figure that it is, where that is not the panel's own."""


class ChartPanel(Panel):
    """A title and lines; the keys of lines are numbers.

    Args:
        title: Our own words.
        metric: The name of the figure, in `tui.analysis.definitions`.
        stacked: A bar of all lines as parts of a whole stands above them.
        sortable: The lines can be had in several orders.
        bars: What shows the lines, where it is not a bar chart.
        id: The widget's id: that of its lines has ``-panel`` taken off.
    """

    DEFAULT_CSS = """
    ChartPanel StackedBar { margin: 0; }
    """

    class _Of(Message):
        def __init__(self, panel: ChartPanel, entry: Entry) -> None:
            super().__init__()
            self.panel = panel
            self.entry = entry

        @property
        def details(self) -> Details:
            """Everything that is known of the line."""
            return entry_details(self.entry, self.panel.metric)

    class Opened(_Of):
        """The user goes into a line."""

    class Highlighted(_Of):
        """The cursor is on another line."""

    class DetailRequested(_Of):
        """The user wants the details of a line."""

    class SortRequested(Message):
        """The user wants the lines in another order."""

        def __init__(self, panel: ChartPanel) -> None:
            super().__init__()
            self.panel = panel

    def __init__(
        self,
        title: str,
        metric: str,
        *,
        id: str,  # noqa: A002
        stacked: bool = False,
        sortable: bool = False,
        bars: BarList | None = None,
    ) -> None:
        self.bars = bars or (SortableBarList if sortable else BarList)(id=id.removesuffix("-panel"))
        self._stack = StackedBar() if stacked else None
        super().__init__(title, *self.above(), self.bars, id=id)
        self.metric = metric
        self.entries: Sequence[Entry] = ()
        """The lines."""
        self._order = 0

    def above(self) -> Sequence[Widget]:
        """What stands above the lines."""
        return [self._stack] if self._stack is not None else []

    def next_order(self, orders: Sequence[str]) -> str:
        """The order after the one that the lines are in."""
        self._order = (self._order + 1) % len(orders)
        return orders[self._order]

    def wait(self, lines: int = 1) -> None:
        """Say that it is being worked out, in the room of so many lines."""
        self.fill([])
        self._order = 0
        self.bars.wait(WAITING + "\n" * (lines - 1))
        self.display = True

    def fill(self, entries: Sequence[Entry], *, note: str = "") -> None:
        """Show other lines; a panel without any goes away."""
        self.entries = tuple(entries)
        self.bars.show([entry.row for entry in self.entries])
        if self._stack is not None:
            parts = [entry for entry in self.entries if entry.row.part is not None]
            self._stack.show(
                [entry.values.get("total_ns") or 0 for entry in parts],
                [entry.row.part for entry in parts if entry.row.part is not None],
            )
            self._stack.display = any("total_ns" in entry.values for entry in self.entries)
        self.annotate(note)
        self.display = bool(self.entries)

    @property
    def current(self) -> Entry | None:
        """The line under the cursor."""
        return self.entries[self.bars.cursor] if self.entries else None

    @property
    def details(self) -> Details | None:
        """Everything that is known of the line under the cursor."""
        return entry_details(self.current, self.metric) if self.current is not None else None

    def _entry(self, key: str) -> Entry:
        return next(entry for entry in self.entries if entry.row.key == key)

    @on(BarList.RowOpened)
    def _opened(self, event: BarList.RowOpened) -> None:
        event.stop()
        self.post_message(self.Opened(self, self._entry(event.key)))

    @on(BarList.RowHighlighted)
    def _highlighted(self, event: BarList.RowHighlighted) -> None:
        event.stop()
        self.post_message(self.Highlighted(self, self._entry(event.key)))

    @on(SortableBarList.SortRequested)
    def _other_order(self, event: SortableBarList.SortRequested) -> None:
        event.stop()
        self.post_message(self.SortRequested(self))

    @on(BarList.DetailRequested)
    def _asked(self, event: BarList.DetailRequested) -> None:
        event.stop()
        self.post_message(self.DetailRequested(self, self._entry(event.key)))


def fraction(value: float | None, most: object) -> float | None:
    """The length of a bar; None where it is unknown."""
    return value / most if value is not None and isinstance(most, int | float) and most else None


def aligned(*columns: Sequence[str]) -> list[str]:
    """Figures of several columns as one text a line, each column as wide as its widest."""
    widths = [max(map(len, column), default=0) for column in columns]
    return [
        "  ".join(text.rjust(width) for text, width in zip(texts, widths, strict=True))
        for texts in zip(*columns, strict=True)
    ]


def meaning(name: str) -> list[Line]:
    """What a figure means, for the details."""
    known = definition(name)
    return [
        ("Means", known.means, ""),
        ("Formula", known.formula, ""),
        *([("Unit", known.unit, "when exported")] if known.unit else []),
        ("Defined by", known.source, ""),
    ]


def entry_details(entry: Entry, name: str) -> Details:
    """Every value of a line, whole, and what its figure means."""
    lines: list[Line] = [("", entry.row.label, "")]
    for column, value in entry.values.items():
        if value is None:
            continue
        known = COLUMNS.get(column)
        kind = known.kind if known is not None else ColumnKind.TEXT
        text = metric(value, entry.values.get("unit")) if kind is ColumnKind.MEASURE else whole_value(kind, value)
        lines.append((known.title if known is not None else column, text, ""))
    of = entry.metric or name
    return sections([("", lines), *([(definition(of).title, meaning(of))] if of else [])])
