"""Parts of a whole on one line of the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widget import Widget

from tui.widgets.bars import stacked_bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.content import Content


class StackedBar(Widget):
    """One line, as wide as there is room; its parts are told apart by fill and colour."""

    DEFAULT_CSS = """
    StackedBar { height: 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._parts: tuple[float, ...] = ()

    def show(self, parts: Sequence[float]) -> None:
        """Show other parts."""
        self._parts = tuple(parts)
        self.refresh()

    def render(self) -> Content:
        """Draw the parts."""
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        return stacked_bar(self._parts, self.content_size.width, ascii_only=ascii_only)
