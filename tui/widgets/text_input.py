"""Lines and editors to type in, and how keys wait while what was entered is carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from textual.geometry import Size
from textual.message import Message
from textual.reactive import Reactive
from textual.widgets import Input, TextArea

if TYPE_CHECKING:
    from textual import events
    from textual.widget import Widget


class KeysReady(Message):
    """Sent to the application: what held keys may be over.

    Args:
        is_void: What the keys that wait were typed for has not come about.
    """

    def __init__(self, *, is_void: bool = False) -> None:
        super().__init__()
        self.is_void = is_void


class Entry:
    """What was entered into a widget: from `begin` on, keys wait in the application's queue until `done`.

    Args:
        widget: What is typed in.
    """

    def __init__(self, widget: Widget) -> None:
        self.widget = widget
        self.is_pending = False
        """Whether the text was entered and is being carried out."""

    def begin(self) -> None:
        """From now on keys wait."""
        self.is_pending = True

    def done(self) -> None:
        """What was entered has been carried out: keys that wait act on what has the focus now."""
        if self.is_pending:
            self.is_pending = False
            self.widget.app.post_message(KeysReady())

    def cancel(self) -> None:
        """The widget is typed into: keys that wait were for nothing."""
        if self.is_pending:
            self.is_pending = False
            self.widget.app.post_message(KeysReady(is_void=True))


@runtime_checkable
class HasEntry(Protocol):
    """A widget whose enter takes a while to be carried out."""

    entry: Entry


class PlainLine(Input):
    """Textual's own, with a cursor that stands still: a blinking one sends bytes for ever, over slow lines too."""

    cursor_blink = Reactive(False, init=False)


class EnteredLine(Input):
    """A line whose enter takes a while: `entry.done` is to be called once it is carried out."""

    cursor_blink = Reactive(False, init=False)
    virtual_size = Reactive(Size(0, 0))
    """As Textual's, but that the screen is not laid out again for every letter."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.entry = Entry(self)

    def begin(self) -> None:
        """Type into it."""
        self.entry.cancel()

    async def _on_key(self, event: events.Key) -> None:
        if self.entry.is_pending and event.key == "escape":
            self.entry.cancel()
        elif event.key == "enter" and not self.entry.is_pending:
            # Here and now: as a binding it would come after the keys that follow.
            event.stop()
            event.prevent_default()
            self.entry.begin()
            await self.action_submit()


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
