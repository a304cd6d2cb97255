"""Keys that are typed before there is a view: kept, in order, for the view that comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.events import Key

from tui.app.noting import NotingApp

if TYPE_CHECKING:
    from textual.events import Event

    from tui.options import OpenOptions

ACT_AT_ONCE: Final = frozenset({"escape", "q", "Q", "ctrl+q", "ctrl+c", "ctrl+z", "ctrl+l"})
"""What stops, quits or draws anew is not kept."""
LETTERS: Final = frozenset({"q", "Q"})
"""Those of them that are letters of a line once one has been begun."""
BEGIN_A_LINE: Final = frozenset({"colon", "slash", "f", "ampersand", "F"})
"""What is typed after these is a text: a command, what is sought, a filter."""
MOST: Final = 200
"""Keys that are kept: nobody means more, but a cat on the keyboard."""


class TypedEarlyApp(NotingApp):
    """Keeps what is typed while the files are read and until all of it has been typed again."""

    def __init__(self, options: OpenOptions) -> None:
        super().__init__(options)
        self._early: list[Key] | None = []
        """What was typed so far; None once keys act as they come."""
        self._again: list[Key] = []
        """What is being typed again."""

    async def on_event(self, event: Event) -> None:
        """Keep a key, or let it act."""
        if self._early is not None and isinstance(event, Key) and not event.is_forwarded:
            if any(event is key for key in self._again):
                self._again.remove(event)
            elif event.key not in ACT_AT_ONCE or (event.key in LETTERS and self._is_of_a_line()):
                if len(self._early) < MOST:
                    self._early.append(event)
                return
        await super().on_event(event)

    def _is_of_a_line(self) -> bool:
        """Whether a letter belongs to what was typed before it: a line was begun and not entered, or is typed again."""
        if self._again:
            return True
        keys = [key.key for key in self._early or [] if key.key in BEGIN_A_LINE or key.key == "enter"]
        return bool(keys) and keys[-1] != "enter"

    def type_again(self) -> None:
        """Let what was kept act now, and then what is typed meanwhile: no key overtakes another."""
        if not self._early:
            self._early = None
            return
        self._again, self._early = [Key(key.key, key.character) for key in self._early], []
        for key in self._again:
            self.post_message(key)
        self.call_later(self.type_again)
