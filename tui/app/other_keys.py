"""Keys that do nothing where they are pressed, but do elsewhere: what they are, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding

from tui.app.navigation import NavigatingApp
from tui.keys import keys_of_some_places, told_of

if TYPE_CHECKING:
    from textual.binding import BindingType


class OtherKeysApp(NavigatingApp):
    """Says of a key that nothing nearer is bound to where it works."""

    # What is bound here comes last: of the focused widget, its screen and the application, the nearest is asked first.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, f"tell_of_key('{key}')", show=False) for key in keys_of_some_places()
    ]

    def action_tell_of_key(self, key: str) -> None:
        """Say that a key does nothing here, and what it does where."""
        if self.view_screen is self.screen:
            self.say(told_of(key), severity="warning")
