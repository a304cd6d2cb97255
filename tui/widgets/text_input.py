"""A line to type in, as every dialog and bar has it."""

from __future__ import annotations

from textual.reactive import Reactive
from textual.widgets import Input, TextArea


class PlainLine(Input):
    """Textual's own, with a cursor that stands still: a blinking one sends bytes for ever, over slow lines too."""

    cursor_blink = Reactive(False, init=False)


class PlainEditor(TextArea):
    """Text that wraps, without numbers of lines.

    Args:
        text: What stands there at first.
        placeholder: What is shown where nothing stands.
        id: The widget's id.
    """

    DEFAULT_CSS = """
    PlainEditor {
        & .text-area--placeholder, & .text-area--suggestion { color: $text-muted; }
        &:ansi .text-area--placeholder, &:ansi .text-area--suggestion { text-style: dim; }
    }
    """

    def __init__(self, text: str, *, placeholder: str, id: str | None = None) -> None:  # noqa: A002
        super().__init__(
            text,
            id=id,
            soft_wrap=True,
            show_line_numbers=False,
            tab_behavior="focus",
            compact=True,
            highlight_cursor_line=False,
            placeholder=placeholder,
        )
        # A blinking cursor sends bytes for ever: not over a slow line.
        self.cursor_blink = False
