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
        self._values: tuple[float, ...] = ()
        self._parts: tuple[int | str, ...] = ()

    def show(self, values: Sequence[float], parts: Sequence[int | str]) -> None:
        """Show other parts.

        Args:
            values: Of the parts.
            parts: What each is, as `tui.widgets.part_looks.look_of` takes it.
        """
        self._values, self._parts = tuple(values), tuple(parts)
        self.refresh()

    def render(self) -> Content:
        """Draw the parts."""
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        return stacked_bar(self._values, self.content_size.width, parts=self._parts, ascii_only=ascii_only)
