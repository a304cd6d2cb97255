"""What is typed after enter, before what was entered has been carried out: it is for where that leads."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.geometry import Size
from textual.reactive import Reactive

from tui.widgets.plain_line import PlainLine

if TYPE_CHECKING:
    from textual.widget import Widget
else:
    Widget = object


class TypedAhead(Widget):
    """Mixed into what is typed in: keys that follow enter in one go are kept, and passed on when the time has come.

    A plain class: Textual takes styles and keys from the first widget that a class is made of.
    """

    GIVES_UP: ClassVar[frozenset[str]] = frozenset()
    """Keys that are not kept: they end the waiting."""

    _is_entered = False
    _ahead: list[events.Key] | None = None
    """What was typed since enter; None where nobody waits any more."""

    @property
    def keeps_any(self) -> bool:
        """Whether it holds keys that were typed since enter."""
        return bool(self._ahead) and self.is_attached

    def begin(self) -> None:
        """Type into it; what was typed since enter is for nobody."""
        self._is_entered, self._ahead = False, None

    def keep_keys(self) -> None:
        """From now on keys are kept."""
        self._is_entered, self._ahead = True, []

    def pass_on(self) -> None:
        """What was entered has been carried out: what was typed since goes to what has the focus now."""
        # By the application: what a widget sends comes up from what lies in it no further than to itself.
        self.app.call_later(self._type_again)

    async def _type_again(self) -> None:
        kept, self._ahead = self._ahead or [], None
        keys = [events.Key(key.key, key.character) for key in kept]
        type_first = getattr(self.app, "type_first", None)
        if type_first is not None:
            await type_first(keys)
            return
        for key in keys:
            self.app.post_message(key)

    async def _on_key(self, event: events.Key) -> None:
        if not self._is_entered:
            return
        if event.key in self.GIVES_UP:
            self.begin()
            return
        event.stop()
        event.prevent_default()
        if self._ahead is not None:
            self._ahead.append(event)
        else:
            self.app.post_message(events.Key(event.key, event.character))


class EnteredLine(TypedAhead, PlainLine):
    """A line that enter hands on; where that leads, `pass_on` is to be called, or `begin` where it is typed on."""

    virtual_size = Reactive(Size(0, 0))
    """As Textual's, but that the screen is not laid out anew for every letter."""

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter" and not self._is_entered:
            # Here and now: as a binding it would come after the keys that follow.
            event.stop()
            event.prevent_default()
            self.keep_keys()
            await self.action_submit()
