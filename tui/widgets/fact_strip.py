"""The most important figures of a profile, in as many columns as fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.fmt import cell_width, format_value, pad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType
    from textual.geometry import Size

    from tui.analysis.dashboard import Fact

COLUMN: Final = 36
"""Cells that a figure with its label wants."""


class FactStrip(Widget, can_focus=True):
    """Labels and figures; an unknown one says so. ``enter`` goes to the rows behind them."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "open", "open")]
    DEFAULT_CSS = """
    FactStrip { height: auto; padding: 0 2; margin: 1 0; }
    """

    class Opened(Message):
        """The user wants the rows behind the figures."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._facts: tuple[Fact, ...] = ()

    def show(self, facts: Sequence[Fact]) -> None:
        """Show other figures."""
        self._facts = tuple(facts)
        self.refresh(layout=True)

    def _columns(self, width: int) -> int:
        return max(1, min(5, width // COLUMN))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the columns need."""
        return -(-len(self._facts) // self._columns(width))

    def render(self) -> Content:
        """Read down the columns, left to right."""
        width = self.content_size.width
        columns = self._columns(width)
        rows = -(-len(self._facts) // columns)
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        cells = width // columns
        label = max((cell_width(fact.label) for fact in self._facts), default=0)
        lines = []
        for row in range(rows):
            pieces: list[Content] = []
            for fact in self._facts[row::rows]:
                known = fact.value is not None
                value = format_value(fact.kind, fact.value, ascii_only=ascii_only) if known else "unknown"
                room = max(0, cells - label - 3)
                pieces += [
                    Content.styled(pad(fact.label, label + 1), "$text-muted"),
                    Content.styled(pad(value, room), "bold" if known else "$text-muted"),
                    Content("  "),
                ]
            lines.append(Content("").join(pieces))
        return Content("\n").join(lines)

    def action_open(self) -> None:
        """Go to the rows behind the figures."""
        self.post_message(self.Opened())
