"""The most important figures of a profile, in as many columns as fit."""

from __future__ import annotations

import bisect
import itertools
from typing import TYPE_CHECKING, ClassVar, Final

from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.fitting import cell_width, pad
from tui.fmt import brief, format_value
from tui.keys import Scope, bindings_for
from tui.widgets.panel import EdgePassed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.geometry import Size

    from tui.analysis.dashboard_facts import Fact

MOST_COLUMNS: Final = 4
APART: Final = 3
"""Cells between columns."""
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
    """Labels and figures, then those that are unknown. ``enter`` goes to the rows behind the one under the cursor."""

    BINDINGS: ClassVar = [binding for binding in bindings_for(Scope.TABLE) if getattr(binding, "id", "") in KEYS]
    DEFAULT_CSS = """
    StatStrip { height: auto; }
    """

    class _OfFact(Message):
        def __init__(self, fact: Fact) -> None:
            super().__init__()
            self.fact = fact

    class Opened(_OfFact):
        """The user wants the rows behind a figure."""

    class Highlighted(_OfFact):
        """The cursor is on another figure."""

    class DetailRequested(_OfFact):
        """The user wants to know what a figure is."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._facts: tuple[Fact, ...] = ()
        self._unknown: tuple[Fact, ...] = ()
        self._cursor = 0

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The figures that are known."""
        return self._facts

    @property
    def has_lines(self) -> bool:
        """Whether there is anything that the cursor can be on."""
        return bool(self._facts)

    @property
    def current(self) -> Fact | None:
        """The figure under the cursor."""
        return self._facts[self._cursor] if self._facts else None

    def show(self, facts: Sequence[Fact]) -> None:
        """Show other figures."""
        self._facts = tuple(fact for fact in facts if fact.value is not None)
        self._unknown = tuple(fact for fact in facts if fact.value is None)
        self._cursor = min(self._cursor, max(0, len(self._facts) - 1))
        self.refresh(layout=True)

    def _columns(self, width: int) -> list[tuple[int, int]]:
        """The cells of labels and of values in each column: as many columns as fit."""
        texts = [(fact.label, self._value(fact)) for fact in self._facts]
        for number in range(MOST_COLUMNS, 0, -1):
            height = -(-len(texts) // number)
            columns = [texts[place : place + height] for place in range(0, len(texts), max(1, height))]
            widths = [
                (max(cell_width(label) for label, _ in part), max(cell_width(value) for _, value in part))
                for part in columns
            ]
            if sum(label + 1 + value for label, value in widths) + APART * (len(widths) - 1) <= width:
                return widths
        return widths[:1]

    def _value(self, fact: Fact) -> str:
        return brief(format_value(fact.kind, fact.value))

    def _lines(self, width: int) -> int:
        return -(-len(self._facts) // max(1, len(self._columns(width))))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the columns need, and those of what is unknown."""
        return self._lines(width) + len(self._unknown_lines(width))

    def _unknown_lines(self, width: int) -> list[Content]:
        """What is unknown, with the reasons; as many lines as it takes."""
        reasons: dict[str, list[str]] = {}
        for fact in self._unknown:
            reasons.setdefault(fact.source, []).append(fact.label)
        words = "; ".join(f"{', '.join(labels)} ({reason})" for reason, labels in reasons.items())
        return Content.styled(f"unknown: {words}", "$text-muted").wrap(max(1, width)) if words else []

    def render(self) -> Content:
        """Read down the columns, left to right."""
        width = self.content_size.width
        columns = self._columns(width)
        height = self._lines(width)
        lines = []
        for row in range(height):
            pieces: list[Content] = []
            for place, (label, value) in zip(range(row, len(self._facts), height), columns, strict=False):
                fact = self._facts[place]
                piece = Content.assemble(
                    (pad(fact.label, label + 1), "$text-muted"), (pad(self._value(fact), value, right=True), "bold")
                )
                if place == self._cursor and self.has_focus:
                    look = "$primary reverse" if self.has_pseudo_class("ansi") else "bold on $selection"
                    piece = Content.styled(piece.plain, look)
                pieces += [piece, Content(" " * APART)]
            lines.append(Content("").join(pieces[:-1]))
        lines += self._unknown_lines(width)
        return Content("\n").join(lines)

    def _move_to(self, place: int) -> None:
        before = self._cursor
        self._cursor = max(0, min(place, len(self._facts) - 1))
        self.refresh()
        if self.current is not None and self._cursor != before:
            self.post_message(self.Highlighted(self.current))

    def action_cursor_down(self) -> None:
        """The figure below; from the last one to what stands below them all."""
        if self._cursor + 1 >= len(self._facts):
            self.post_message(EdgePassed(1))
        self._move_to(self._cursor + 1)

    def action_cursor_up(self) -> None:
        """The figure above; from the first one to what stands above them all."""
        if not self._cursor:
            self.post_message(EdgePassed(-1))
        self._move_to(self._cursor - 1)

    def action_cursor_right(self) -> None:
        """The figure at the right."""
        self._sideways(1)

    def action_cursor_left(self) -> None:
        """The figure at the left."""
        self._sideways(-1)

    def _sideways(self, columns: int) -> None:
        place = self._cursor + columns * self._lines(self.content_size.width)
        if 0 <= place < len(self._facts):
            self._move_to(place)

    def action_cursor_top(self) -> None:
        """The first figure."""
        self._move_to(0)

    def action_cursor_bottom(self) -> None:
        """The last figure."""
        self._move_to(len(self._facts) - 1)

    def action_open_row(self) -> None:
        """Go to the rows behind the figure."""
        if self.current is not None:
            self.post_message(self.Opened(self.current))

    def action_toggle_detail(self) -> None:
        """Ask what the figure under the cursor is."""
        if self.current is not None:
            self.post_message(self.DetailRequested(self.current))

    def on_click(self, event: events.Click) -> None:
        """Select a figure; go to the rows behind it on a double click."""
        at = event.get_content_offset(self)
        if at is None:
            return
        columns = self._columns(self.content_size.width)
        edges = list(itertools.accumulate(label + 1 + value + APART for label, value in columns))
        column = min(bisect.bisect_right(edges, at.x), len(columns) - 1)
        place = column * self._lines(self.content_size.width) + at.y
        if place < len(self._facts):
            self._move_to(place)
            if event.chain == 2:
                self.action_open_row()
