"""A titled part of a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from tui.widgets.details import sections

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.widget import Widget

    from tui.widgets.details import Line


class Panel(Vertical):
    """A title on a rule, and what it heads.

    Args:
        title: Our own words.
        children: What it heads.
        note: Smaller words at the right of the rule.
        id: The widget's id.
    """

    DEFAULT_CSS = """
    Panel {
        height: auto;
        border-top: solid $panel;
        border-title-color: $accent;
        border-title-style: bold;
        border-subtitle-color: $text-muted;
        padding: 0 1;
        margin: 0 0 1 0;
        &:focus-within { border-top: solid $primary; }
    }
    """

    def __init__(self, title: str, *children: Widget, note: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(*children, id=id)
        self.border_title = Content.assemble(title, (f"  {note}", "not bold $text-muted")) if note else Content(title)


class TextPanel(Panel):
    """A panel of labels and values.

    Args:
        title: Our own words.
        id: The widget's id.
    """

    def __init__(self, title: str, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(title, Static(), id=id)

    def show(self, lines: Sequence[Line] | Content) -> None:
        """Show labels and values, or a text."""
        content = lines if isinstance(lines, Content) else sections([("", lines)])
        self.query_one(Static).update(content)
