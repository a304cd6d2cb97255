"""The most important figures of a profile, in as many columns as fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.fitting import cell_width, pad
from tui.fmt import format_value
from tui.keys import Scope, bindings_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.geometry import Size

    from tui.analysis.dashboard import Fact

COLUMN: Final = 36
"""Cells that a figure with its label wants."""
KEYS: Final = frozenset(
    {"table.down", "table.up", "table.left", "table.right", "table.top", "table.bottom", "table.open"}
)


class FactStrip(Widget, can_focus=True):
    """Labels and figures, then those that are unknown. ``enter`` goes to the rows behind the one under the cursor."""

    BINDINGS: ClassVar = [binding for binding in bindings_for(Scope.TABLE) if getattr(binding, "id", "") in KEYS]
    DEFAULT_CSS = """
    FactStrip { height: auto; padding: 0 2; margin: 1 0; }
    """

    class Opened(Message):
        """The user wants the rows behind a figure."""

        def __init__(self, fact: Fact) -> None:
            super().__init__()
            self.fact = fact

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._facts: tuple[Fact, ...] = ()
        self._unknown: tuple[Fact, ...] = ()
        self._cursor = 0

    def show(self, facts: Sequence[Fact]) -> None:
        """Show other figures."""
        self._facts = tuple(fact for fact in facts if fact.value is not None)
        self._unknown = tuple(fact for fact in facts if fact.value is None)
        self._cursor = min(self._cursor, max(0, len(self._facts) - 1))
        self.refresh(layout=True)

    def _columns(self, width: int) -> int:
        return max(1, min(5, width // COLUMN))

    def _lines(self, width: int) -> int:
        return -(-len(self._facts) // self._columns(width))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the columns need, and those of what is unknown."""
        return self._lines(width) + len(self._unknown_lines(width))

    def _unknown_lines(self, width: int) -> list[Content]:
        """What is unknown, with the reasons; as many lines as it takes."""
        reasons: dict[str, list[str]] = {}
        for fact in self._unknown:
            reasons.setdefault(fact.source, []).append(fact.label)
        said = "; ".join(f"{', '.join(labels)} ({reason})" for reason, labels in reasons.items())
        return Content.styled(f"unknown: {said}", "$text-muted").wrap(max(1, width)) if said else []

    def render(self) -> Content:
        """Read down the columns, left to right."""
        width = self.content_size.width
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        cells = width // self._columns(width)
        label = max((cell_width(fact.label) for fact in self._facts), default=0)
        height = self._lines(width)
        lines = []
        for row in range(height):
            pieces: list[Content] = []
            for place in range(row, len(self._facts), height):
                fact = self._facts[place]
                value = format_value(fact.kind, fact.value, ascii_only=ascii_only)
                piece = Content.assemble(
                    (pad(fact.label, label + 1), "$text-muted"), (pad(value, max(0, cells - label - 3)), "bold")
                )
                if place == self._cursor and self.has_focus:
                    piece = Content.styled(piece.plain, "$primary reverse")
                pieces += [piece, Content("  ")]
            lines.append(Content("").join(pieces))
        lines += self._unknown_lines(width)
        return Content("\n").join(lines)

    def _move_to(self, place: int) -> None:
        self._cursor = max(0, min(place, len(self._facts) - 1))
        self.refresh()

    def action_cursor_down(self) -> None:
        """The figure below."""
        self._move_to(self._cursor + 1)

    def action_cursor_up(self) -> None:
        """The figure above."""
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
        if self._facts:
            self.post_message(self.Opened(self._facts[self._cursor]))

    def on_click(self, event: events.Click) -> None:
        """Select a figure; go to the rows behind it on a double click."""
        at = event.get_content_offset(self)
        if at is None:
            return
        width = self.content_size.width
        place = at.x // (width // self._columns(width)) * self._lines(width) + at.y
        if place < len(self._facts):
            self._move_to(place)
            if event.chain == 2:
                self.action_open_row()
