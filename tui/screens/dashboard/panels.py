"""Panels of the dashboard: lines that are links, and the figures with their definitions."""

from __future__ import annotations

import bisect
import itertools
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from tui.analysis.dashboard_facts import definition
from tui.fmt import brief_value, format_value
from tui.keys import Scope, bindings_for
from tui.screens.dashboard.entries import Entry, entry_details, meaning_lines
from tui.text import plain
from tui.text_width import cell_width, pad
from tui.widgets.charts.bar_list import BarList, SortableBarList, TextList
from tui.widgets.charts.bars import StackedBar
from tui.widgets.details import Details, sections
from tui.widgets.panel import EdgePassed, Panel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.geometry import Size

    from tui.analysis.dashboard_facts import Fact


MAX_COLUMNS: Final = 4
COLUMN_GAP: Final = 3
"""Blanks between columns."""
MAX_FIGURE_CELLS: Final = 24
"""Longer figures have lines of their own below the columns."""
KEYS: Final = frozenset(
    {
        "table.down",
        "table.up",
        "table.left",
        "table.right",
        "table.top",
        "table.bottom",
        "table.open",
        "table.detail",
    }
)


class StatStrip(Widget, can_focus=True):
    """Labels and figures, then unknown ones. ``enter`` opens the rows behind the figure under the cursor."""

    BINDINGS: ClassVar = [binding for binding in bindings_for(Scope.TABLE) if getattr(binding, "id", "") in KEYS]
    DEFAULT_CSS = """
    StatStrip { height: auto; }
    """

    class _FactMessage(Message):
        def __init__(self, fact: Fact) -> None:
            super().__init__()
            self.fact = fact

    class Opened(_FactMessage):
        """The user asked for the rows behind a figure."""

    class Highlighted(_FactMessage):
        """The cursor moved to another figure."""

    class DetailRequested(_FactMessage):
        """The user asked for the meaning of a figure."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._facts: tuple[Fact, ...] = ()
        self._unknown: tuple[Fact, ...] = ()
        self._columns_count = 0
        """The number of figures, from the first, that are in columns."""
        self._cursor = 0

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The known figures."""
        return self._facts

    @property
    def has_lines(self) -> bool:
        """Whether there are figures for the cursor."""
        return bool(self._facts)

    @property
    def current(self) -> Fact | None:
        """The figure under the cursor."""
        return self._facts[self._cursor] if self._facts else None

    def show(self, facts: Sequence[Fact]) -> None:
        """Show other figures."""
        known = [fact for fact in facts if fact.value is not None]
        long_facts = [fact for fact in known if cell_width(self._value(fact)) > MAX_FIGURE_CELLS]
        self._facts = (*(fact for fact in known if fact not in long_facts), *long_facts)
        self._columns_count = len(known) - len(long_facts)
        self._unknown = tuple(fact for fact in facts if fact.value is None)
        self._cursor = min(self._cursor, max(0, len(self._facts) - 1))
        self.refresh(layout=True)

    def _columns(self, width: int) -> list[tuple[int, int]]:
        """Return the cells of labels and values in each column: as many columns as fit."""
        texts = [(fact.label, self._value(fact)) for fact in self._facts[: self._columns_count]]
        for number in range(MAX_COLUMNS, 0, -1):
            height = -(-len(texts) // number)
            columns = [texts[start : start + height] for start in range(0, len(texts), max(1, height))]
            widths = [
                (max(cell_width(label) for label, _ in part), max(cell_width(value) for _, value in part))
                for part in columns
            ]
            if sum(label + 1 + value for label, value in widths) + COLUMN_GAP * (len(widths) - 1) <= width:
                return widths
        return widths[:1]

    def _value(self, fact: Fact) -> str:
        return brief_value(fact.kind, fact.value)

    def _lines(self, width: int) -> int:
        return -(-self._columns_count // max(1, len(self._columns(width))))

    def _long_lines(self, width: int) -> list[list[Content]]:
        """Return the lines of each figure below the columns."""
        return [
            Content.assemble((f"{fact.label} ", "$text-muted"), (plain(self._value(fact)), "bold")).wrap(max(1, width))
            for fact in self._facts[self._columns_count :]
        ]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the lines that the columns and the unknown figures need."""
        return self._lines(width) + sum(map(len, self._long_lines(width))) + len(self._unknown_lines(width))

    def _unknown_lines(self, width: int) -> list[Content]:
        """Return the unknown figures with reasons, wrapped."""
        reasons: dict[str, list[str]] = {}
        for fact in self._unknown:
            reasons.setdefault(fact.source, []).append(fact.label)
        text = "; ".join(f"{', '.join(labels)} ({reason})" for reason, labels in reasons.items())
        return Content.styled(f"Not available: {text}", "$text-muted").wrap(max(1, width)) if text else []

    def render(self) -> Content:
        """Render the figures, read down the columns."""
        width = self.content_size.width
        columns = self._columns(width)
        height = self._lines(width)
        lines = []
        for row in range(height):
            pieces: list[Content] = []
            for index, (label, value) in zip(range(row, self._columns_count, height), columns, strict=False):
                fact = self._facts[index]
                piece = Content.assemble(
                    (pad(fact.label, label + 1), "$text-muted"), (pad(self._value(fact), value, right=True), "bold")
                )
                pieces += [self._selected(piece, index), Content(" " * COLUMN_GAP)]
            lines.append(Content("").join(pieces[:-1]))
        for index, long in enumerate(self._long_lines(width), self._columns_count):
            lines += [self._selected(line, index) for line in long]
        lines += self._unknown_lines(width)
        return Content("\n").join(lines)

    def _selected(self, piece: Content, index: int) -> Content:
        """Return a figure with the style of the cursor if it is selected."""
        if index != self._cursor or not self.has_focus:
            return piece
        return Content.styled(piece.plain, "reverse" if self.has_pseudo_class("ansi") else "bold on $selection")

    def _move_to(self, index: int) -> None:
        former = self._cursor
        self._cursor = max(0, min(index, len(self._facts) - 1))
        self.refresh()
        if self.current is not None and self._cursor != former:
            self.post_message(self.Highlighted(self.current))

    def action_cursor_down(self) -> None:
        """Go to the figure below; from the last one to the widget below."""
        if self._cursor + 1 >= len(self._facts):
            self.post_message(EdgePassed(1))
        self._move_to(self._cursor + 1)

    def action_cursor_up(self) -> None:
        """Go to the figure above; from the first one to the widget above."""
        if not self._cursor:
            self.post_message(EdgePassed(-1))
        self._move_to(self._cursor - 1)

    def action_cursor_right(self) -> None:
        """Go to the figure at the right."""
        self._move_columns(1)

    def action_cursor_left(self) -> None:
        """Go to the figure at the left."""
        self._move_columns(-1)

    def _move_columns(self, columns: int) -> None:
        index = self._cursor + columns * self._lines(self.content_size.width)
        if 0 <= index < self._columns_count and self._cursor < self._columns_count:
            self._move_to(index)

    def action_cursor_top(self) -> None:
        """Go to the first figure."""
        self._move_to(0)

    def action_cursor_bottom(self) -> None:
        """Go to the last figure."""
        self._move_to(len(self._facts) - 1)

    def action_open_row(self) -> None:
        """Go to the rows behind the figure."""
        if self.current is not None:
            self.post_message(self.Opened(self.current))

    def action_toggle_detail(self) -> None:
        """Request details of the figure under the cursor."""
        if self.current is not None:
            self.post_message(self.DetailRequested(self.current))

    def on_click(self, event: events.Click) -> None:
        """Select a figure; go to the rows behind it on a double click."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        width = self.content_size.width
        columns, lines = self._columns(width), self._lines(width)
        edges = list(itertools.accumulate(label + 1 + value + COLUMN_GAP for label, value in columns))
        column = min(bisect.bisect_right(edges, offset.x), len(columns) - 1)
        line_ends = list(itertools.accumulate(map(len, self._long_lines(width)), initial=lines))
        index = (
            column * lines + offset.y
            if offset.y < lines
            else self._columns_count + bisect.bisect_right(line_ends, offset.y) - 1
        )
        if index < len(self._facts):
            self._move_to(index)
            if event.chain == 2:
                self.action_open_row()


PLACEHOLDER: Final = "…"
"""Instead of figures that are still being computed."""


class ChartPanel(Panel):
    """A title and lines; the keys of lines are numbers.

    Args:
        title: Plain text that needs no escaping.
        metric: The name of the figure, in `tui.analysis.dashboard_facts`.
        stacked: Whether a stacked bar of all lines is drawn above them.
        sortable: Whether the user can sort the lines.
        as_text: Labels and values instead of bars.
        above: The text above the lines.
        below: The text below the lines.
        id: The widget's id; the id of its lines is the same without ``-panel``.
    """

    DEFAULT_CSS = """
    ChartPanel StackedBar { margin: 0; }
    """

    class _LineMessage(Message):
        def __init__(self, panel: ChartPanel, entry: Entry) -> None:
            super().__init__()
            self.panel = panel
            self.entry = entry

        @property
        def details(self) -> Details:
            """All facts about the line."""
            return entry_details(self.entry, self.panel.metric)

    class Opened(_LineMessage):
        """The user opened a line."""

    class Highlighted(_LineMessage):
        """The cursor moved to another line."""

    class DetailRequested(_LineMessage):
        """The user asked for the details of a line."""

    class SortRequested(Message):
        """The user asked for another order."""

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
        as_text: bool = False,
        above: Widget | None = None,
        below: Widget | None = None,
    ) -> None:
        kind = TextList if as_text else SortableBarList if sortable else BarList
        self.bars: BarList = kind(id=id.removesuffix("-panel"))
        self._stack = StackedBar() if stacked else None
        super().__init__(
            title, *(widget for widget in (above, self._stack, self.bars, below) if widget is not None), id=id
        )
        self.metric = metric
        self.entries: Sequence[Entry] = ()
        """The lines."""
        self._order = 0

    def next_order(self, orders: Sequence[str]) -> str:
        """Return the order after the current one."""
        self._order = (self._order + 1) % len(orders)
        return orders[self._order]

    def wait(self, lines: int = 1) -> None:
        """Show a placeholder of some lines while the panel is being computed."""
        self.fill([])
        self._order = 0
        self.bars.wait(PLACEHOLDER + "\n" * (lines - 1))
        self.display = True

    def fill(self, entries: Sequence[Entry], *, subtitle: str = "") -> None:
        """Show other lines; a panel without lines is hidden."""
        self.entries = tuple(entries)
        self.bars.show([entry.row for entry in self.entries])
        if self._stack is not None:
            parts = [entry for entry in self.entries if entry.row.part is not None]
            self._stack.show(
                [entry.values.get("total_ns") or 0 for entry in parts],
                [entry.row.part for entry in parts if entry.row.part is not None],
            )
            self._stack.display = any("total_ns" in entry.values for entry in self.entries)
        self.change_subtitle(subtitle)
        self.display = bool(self.entries)

    def fill_texts(self, entries: Sequence[Entry], texts: Sequence[Details]) -> None:
        """Show other lines, with the full text of each."""
        self.fill(entries)
        if isinstance(self.bars, TextList):
            self.bars.show_texts([entry.row for entry in entries], texts)

    @property
    def current(self) -> Entry | None:
        """The line under the cursor."""
        return self.entries[self.bars.cursor] if self.entries else None

    @property
    def details(self) -> Details | None:
        """All facts about the line under the cursor."""
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
    def _sort_requested(self, event: SortableBarList.SortRequested) -> None:
        event.stop()
        self.post_message(self.SortRequested(self))

    @on(BarList.DetailRequested)
    def _detail_requested(self, event: BarList.DetailRequested) -> None:
        event.stop()
        self.post_message(self.DetailRequested(self, self._entry(event.key)))


PANEL_FIGURES: Final = (
    "wall_ns",
    "busy_pct",
    "tc_efficiency_pct",
    "mfu_pct",
    "model_flops",
    "gpu_ns",
    "unprinted_ns",
    "unlaunched_ns",
    "launches",
    "graph_launches",
    "kernels",
    "iterations",
    "iteration_avg_ns",
    "iteration_cpu_ns",
    "iteration_gpu_ns",
    "iteration_std_ns",
    "iteration_median_ns",
    "iteration_p95_ns",
    "phase_prefill",
    "phase_decode",
    "phase_mixed",
    "phase_capture",
    "api_ns",
    "api_outside_ns",
    "api_calls",
)
"""The figures of this panel, in order; the others have panels of their own."""
ITERATION_PREFIX: Final = "iteration_"
"""The prefix of figures that are omitted if there are no iterations."""


class StatPanel(Panel):
    """A title and the figures.

    Args:
        title: Plain text that needs no escaping.
        id: The widget's id.
    """

    class _LineMessage(Message):
        def __init__(self, fact: Fact, details: Details) -> None:
            super().__init__()
            self.fact = fact
            self.details = details

    class Opened(_LineMessage):
        """The user asked for the rows behind a figure."""

    class Highlighted(_LineMessage):
        """The cursor moved to another figure."""

    class DetailRequested(_LineMessage):
        """The user asked for the meaning of a figure."""

    def __init__(self, title: str, *, id: str) -> None:  # noqa: A002
        self._strip = StatStrip(id=id.removesuffix("-panel"))
        super().__init__(title, self._strip, id=id)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The known figures."""
        return self._strip.facts

    @property
    def current(self) -> Fact | None:
        """The figure under the cursor."""
        return self._strip.current

    @property
    def details(self) -> Details | None:
        """The details of the figure under the cursor."""
        return fact_details(self.current) if self.current is not None else None

    def wait(self) -> None:
        """Show a placeholder while the figures are being computed."""
        self._strip.show([])
        self.change_subtitle(PLACEHOLDER)

    def show(self, facts: Sequence[Fact]) -> None:
        """Show other figures."""
        facts_by_name = {fact.name: fact for fact in facts}
        facts_shown = [facts_by_name[name] for name in PANEL_FIGURES if name in facts_by_name]
        self._strip.show([f for f in facts_shown if f.value is not None or not f.name.startswith(ITERATION_PREFIX)])
        self.change_subtitle("")

    @on(StatStrip.Opened)
    @on(StatStrip.Highlighted)
    @on(StatStrip.DetailRequested)
    def _forward(self, event: StatStrip.Opened | StatStrip.Highlighted | StatStrip.DetailRequested) -> None:
        event.stop()
        kinds = {
            StatStrip.Opened: StatPanel.Opened,
            StatStrip.Highlighted: StatPanel.Highlighted,
            StatStrip.DetailRequested: StatPanel.DetailRequested,
        }
        self.post_message(kinds[type(event)](event.fact, fact_details(event.fact)))


def fact_details(fact: Fact) -> Details:
    """Return a figure with its source and its meaning."""
    meaning = definition(fact.name)
    value = format_value(fact.kind, fact.value)
    return sections(
        [
            ("", [(fact.label, value, ""), ("From", fact.source, "")]),
            (meaning.title, meaning_lines(fact.name)),
        ]
    )


class Guidance(Static):
    """The first step to take, above the most severe findings."""

    DEFAULT_CSS = """
    Guidance { height: auto; text-style: bold; }
    """

    def show(self, text: str) -> None:
        """Show the first step, or why it is unknown; hidden without a text."""
        self.update(Content(plain(text)))
        self.display = bool(text)
