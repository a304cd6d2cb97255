"""Input lines: editors, and the bars at the foot of a view for searches and the ``:`` command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.geometry import Size
from textual.keys import KEY_NAME_REPLACEMENTS
from textual.message import Message
from textual.reactive import Reactive
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static, TextArea

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widget import Widget


class KeysReady(Message):
    """Message to the application that the keys in its queue may be handled now.

    Args:
        is_cancelled: Whether the work that waiting keys depend on was cancelled.
    """

    def __init__(self, *, is_cancelled: bool = False) -> None:
        super().__init__()
        self.is_cancelled = is_cancelled


class PendingEntry:
    """An entered text that is being processed: keys wait between `block_keys` and `release_keys`.

    Args:
        widget: The widget of the text.
    """

    def __init__(self, widget: Widget) -> None:
        self.widget = widget
        self.is_pending = False
        """Whether an entered text is still being processed."""

    def block_keys(self) -> None:
        """Make keys wait from now on."""
        self.is_pending = True

    def release_keys(self) -> None:
        """Let waiting keys act on the focused widget: the entered text was processed."""
        if self.is_pending:
            self.is_pending = False
            self.widget.app.post_message(KeysReady())

    def cancel(self) -> None:
        """Drop waiting keys: the user types into the widget again."""
        if self.is_pending:
            self.is_pending = False
            self.widget.app.post_message(KeysReady(is_cancelled=True))


@runtime_checkable
class HasPendingEntry(Protocol):
    """A widget whose entered text takes a while to process."""

    entry: PendingEntry


class PlainLine(Input):
    """Textual's input with a cursor that does not blink: blinking sends bytes over slow connections all the time."""

    cursor_blink = Reactive(False, init=False)


class EnteredLine(Input):
    """An input whose entered text takes a while; call `entry.release_keys` once it has been processed."""

    cursor_blink = Reactive(False, init=False)
    virtual_size = Reactive(Size(0, 0))
    """As in Textual, without a layout of the screen for every letter."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.entry = PendingEntry(self)

    def start_typing(self) -> None:
        """Type into it."""
        self.entry.cancel()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Whether the key is typed. Textual does not know the characters of keys that it renames, as ``plus``."""
        return key in KEY_NAME_REPLACEMENTS.values() or super().check_consume_key(key, character)

    async def _on_key(self, event: events.Key) -> None:
        if self.entry.is_pending and event.key == "escape":
            self.entry.cancel()
        elif event.key == "enter" and not self.entry.is_pending:
            # Not as a binding, which would run after the following keys.
            event.stop()
            event.prevent_default()
            self.entry.block_keys()
            await self.action_submit()


class PlainEditor(TextArea):
    """An editor that wraps text, without line numbers.

    Args:
        text: The initial text.
        placeholder: The text that is shown while it is empty.
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
        # A blinking cursor would send bytes over slow connections all the time.
        self.cursor_blink = False


class _FindInput(EnteredLine):
    # For the footer.
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "find", key_display="enter")]


class FindBar(Horizontal):
    """The search bar: hidden until it is opened, and after a text is entered or it is left."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "cancel", key_display="esc")]
    DEFAULT_CSS = """
    FindBar {
        height: 1; display: none; background: $panel;
        &.-open { display: block; }
        Static { width: 7; color: $accent; text-style: bold; padding: 0 1; }
        Input { border: none; height: 1; padding: 0; background: $panel; width: 1fr; }
        Input:focus { border: none; background: $panel; }
    }
    """

    class Entered(Message):
        """A text was entered; call `FindBar.entry_done` after the search."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Closed(Message):
        """The bar was left without a text."""

    def compose(self) -> ComposeResult:
        """Yield a label and an input."""
        yield Static(Content("find"))
        yield _FindInput(compact=True, select_on_focus=True)

    @property
    def is_open(self) -> bool:
        """Whether the bar is shown."""
        return self.has_class("-open")

    def open(self, text: str) -> None:
        """Show the bar and type into it."""
        self.add_class("-open")
        line = self.query_one(EnteredLine)
        line.start_typing()
        line.value = text
        # Immediately, not after the waiting messages: keys typed ahead belong here.
        self.screen.set_focus(line)

    def close(self) -> None:
        """Hide the bar."""
        self.remove_class("-open")

    def entry_done(self) -> None:
        """Let the keys typed after the text act where it was found."""
        self.query_one(EnteredLine).entry.release_keys()

    def action_cancel(self) -> None:
        """Close without a text."""
        self.close()
        self.post_message(self.Closed())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Post the entered text."""
        event.stop()
        self.close()
        self.post_message(self.Entered(event.value))


class _CommandInput(EnteredLine):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "run", key_display="enter"),
        Binding("right", "cursor_right", "complete", key_display="right"),
        Binding("up", "recall(-1)", "previous", key_display="up"),
        Binding("down", "recall(1)", "after", key_display="down", show=False),
        # As in a shell; ctrl+p and ctrl+n do not leave the line.
        Binding("tab", "cursor_right", "complete", show=False),
    ]

    def __init__(self, suggestions: Sequence[str]) -> None:
        super().__init__(
            placeholder="a view and a filter (kernels gemm total>1ms), or what a key does (export)",
            suggester=SuggestFromList(suggestions),
            compact=True,
            select_on_focus=False,
        )
        self._lines: list[str] = []
        self._recalled = 0

    def start_typing(self) -> None:
        """Focus the line and clear it."""
        super().start_typing()
        self._recalled = len(self._lines)
        self.value = ""

    def keep(self, line: str) -> None:
        """Add a line to the history."""
        self._lines.append(line)

    def action_recall(self, step: int) -> None:
        """Recall an earlier command."""
        if self._lines:
            self._recalled = max(0, min(len(self._lines) - 1, self._recalled + step))
            self.value = self._lines[self._recalled]
            self.cursor_position = len(self.value)


class CommandBar(Horizontal):
    """The command line: hidden until it is opened, and after a command is entered or it is left.

    Args:
        command_names: The names to complete.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "cancel", key_display="esc"),
    ]
    DEFAULT_CSS = """
    CommandBar {
        dock: bottom; layer: offer; height: 1; margin: 0 0 1 0; display: none; background: $panel;
        &.-open { display: block; }
        #prompt { width: 1; color: $accent; text-style: bold; }
        Input { border: none; height: 1; padding: 0; background: $panel; width: 1fr; }
        Input:focus { border: none; background: $panel; }
    }
    """

    class Entered(Message):
        """A command was entered, or nothing; call `CommandBar.entry_done` after it has run."""

        def __init__(self, line: str) -> None:
            super().__init__()
            self.line = line

    class Closed(Message):
        """The bar was left, with or without a command."""

    def __init__(self, command_names: Sequence[str], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._command_names = command_names

    def compose(self) -> ComposeResult:
        """Yield a colon and an input."""
        yield Static(Content(":"), id="prompt")
        yield _CommandInput(self._command_names)

    def open(self) -> None:
        """Show the empty bar and focus it."""
        self.add_class("-open")
        line = self.query_one(_CommandInput)
        line.start_typing()
        # Immediately, not after the waiting messages: keys typed ahead belong here.
        self.screen.set_focus(line)

    def action_close(self) -> None:
        """Leave without a command."""
        self.remove_class("-open")
        self.post_message(self.Closed())

    def entry_done(self) -> None:
        """Let the keys typed after the line act on the view that it opened."""
        self.query_one(_CommandInput).entry.release_keys()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Post the entered command."""
        event.stop()
        line = event.value.strip()
        self.action_close()
        if line:
            self.query_one(_CommandInput).keep(line)
        self.post_message(self.Entered(line))

    def on_descendant_blur(self, _event: events.DescendantBlur) -> None:
        """Hide the bar when it loses the focus."""
        self.remove_class("-open")
