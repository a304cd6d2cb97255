"""Keys that are typed before there is what they are for: kept, in order, for the view that comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.events import Key

from tui.app.noting import NotingApp

if TYPE_CHECKING:
    from textual.events import Event

    from tui.options import OpenOptions
    from tui.screens.base import ViewScreen

ACT_AT_ONCE: Final = frozenset({"escape", "q", "Q", "ctrl+q", "ctrl+c", "ctrl+z", "ctrl+l"})
"""What stops, quits or draws anew is not kept."""
LETTERS: Final = frozenset({"q", "Q"})
"""Those of them that are letters of a line once one has been begun."""
BEGIN_A_LINE: Final = frozenset({"colon", "slash", "f", "ampersand", "F"})
"""What is typed after these is a text: a command, what is sought, a filter."""
MOST: Final = 200
"""Keys that are kept: nobody means more, but a cat on the keyboard."""


class TypedEarlyApp(NotingApp):
    """Keeps what is typed while the files are read, or before a view has what the key is for, and types it again."""

    def __init__(self, options: OpenOptions) -> None:
        super().__init__(options)
        self._early: list[Key] | None = []
        """What was typed so far; None once keys act as they come."""
        self._again: list[Key] = []
        """What is being typed again."""
        self._waits_for: ViewScreen | None = None
        """The view that the first of what was typed is for, and that has nothing yet that it could act on."""

    async def on_event(self, event: Event) -> None:
        """Keep a key, or let it act."""
        if not isinstance(event, Key) or event.is_forwarded or not self._is_kept(event):
            await super().on_event(event)

    def _is_kept(self, event: Key) -> bool:
        if any(event is key for key in self._again):
            self._again.remove(event)
            return False
        if event.key in ACT_AT_ONCE and not (event.key in LETTERS and self._is_of_a_line()):
            self._forget_what_waits()
            return False
        if self._waits_for is not self.screen:
            # Left with the mouse.
            self._forget_what_waits()
        if self._early is None:
            if not self._has_to_wait(event):
                return False
            self._early, self._waits_for = [], self.view_screen
        elif self._waits_for is not None:
            self.call_later(self.type_again)
        if len(self._early) < MOST:
            self._early.append(event)
        return True

    def _forget_what_waits(self) -> None:
        if self._waits_for is not None:
            self._early = self._waits_for = None

    def _has_to_wait(self, key: Key) -> bool:
        """Whether the view that is shown has nothing yet that a key could act on."""
        screen = self.view_screen
        return screen is not None and screen is self.screen and screen.has_to_wait(key.key)

    def _is_of_a_line(self) -> bool:
        """Whether a letter belongs to what was typed before it: a line was begun and not entered, or is typed again."""
        if self._again:
            return True
        keys = [key.key for key in self._early or [] if key.key in BEGIN_A_LINE or key.key == "enter"]
        return bool(keys) and keys[-1] != "enter"

    def type_again(self) -> None:
        """Let the first key that was kept act now, and then the next one: no key overtakes another."""
        self._waits_for = None
        self._forget_moves()
        if not self._early:
            self._early = None
        elif self._has_to_wait(self._early[0]):
            self._waits_for = self.view_screen
        else:
            kept = self._early.pop(0)
            key = Key(kept.key, kept.character)
            self._again.append(key)
            self.post_message(key)
            # Where enter leads is on the screen before what follows is typed.
            (self.call_after_refresh if key.key == "enter" else self.call_later)(self.type_again)

    def _forget_moves(self) -> None:
        """Where a view is left anyway, what would move about in it holds nothing up."""
        keys = self._early or []
        for place, key in enumerate(keys):
            if key.key == "enter":
                return
            if not self._has_to_wait(key):
                del keys[:place]
                return
