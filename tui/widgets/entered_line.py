"""Lines and editors whose enter takes a while to be carried out: the keys that follow wait for where it leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.geometry import Size
from textual.message import Message
from textual.reactive import Reactive

from tui.widgets.text_input import PlainLine

if TYPE_CHECKING:
    from textual import events
    from textual.widget import Widget
else:
    Widget = object


class KeysReady(Message):
    """Sent to the application: what held keys may be over.

    Args:
        is_void: What the keys that wait were typed for has not come about.
    """

    def __init__(self, *, is_void: bool = False) -> None:
        super().__init__()
        self.is_void = is_void


class EntersText(Widget):
    """Mixed into what is typed in: after enter, keys wait in the application's queue until `entry_done`.

    A plain class: Textual takes styles and keys from the first widget among the bases of a class.
    """

    is_entered = False
    """Whether the text was entered and is being carried out."""

    def begin(self) -> None:
        """Type into it; keys that wait since enter were for nothing."""
        if self.is_entered:
            self.is_entered = False
            self.app.post_message(KeysReady(is_void=True))

    def entry_begun(self) -> None:
        """From now on keys wait."""
        self.is_entered = True

    def entry_done(self) -> None:
        """What was entered has been carried out: keys that wait act on what has the focus now."""
        if self.is_entered:
            self.is_entered = False
            self.app.post_message(KeysReady())

    async def _on_key(self, event: events.Key) -> None:
        if self.is_entered and event.key == "escape":
            self.begin()


class EnteredLine(EntersText, PlainLine):
    """A line that enter hands on; `entry_done` is to be called where that leads, or `begin` where it is typed on."""

    virtual_size = Reactive(Size(0, 0))
    """As Textual's, but that the screen is not laid out anew for every letter."""

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter" and not self.is_entered:
            # Here and now: as a binding it would come after the keys that follow.
            event.stop()
            event.prevent_default()
            self.entry_begun()
            await self.action_submit()
