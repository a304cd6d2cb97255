"""Keys that are typed before the one before them has had its effect: kept for what that leads to, in order."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from textual.events import Callback, Key
from textual.widgets import Input, TextArea

from tui.app.typed_early import TypedEarlyApp
from tui.widgets.typed_ahead import TypedAhead

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from textual.dom import DOMNode
    from textual.events import Event
    from textual.screen import Screen

    from tui.options import OpenOptions

NEVER_HELD: Final = frozenset({"ctrl+q", "ctrl+c", "ctrl+z"})
"""What leaves, or stops, does so at once."""
LEAD_NOWHERE: Final = frozenset(
    {
        *("j", "k", "h", "l", "g", "G", "n", "N", "space"),
        *("up", "down", "left", "right", "home", "end", "pageup", "pagedown", "ctrl+d", "ctrl+u", "ctrl+l"),
        *("plus", "equals_sign", "underscore", "left_curly_bracket", "right_curly_bracket"),
    }
)
"""Keys that move about in what is there: what is typed after one of them is for the same, and waits for nothing."""
LEAVE_A_LINE: Final = frozenset({"enter", "escape", "tab", "shift+tab"})
"""Keys that end the typing of a line; any other is a letter of it, and is followed by the next at once."""
ROUNDS: Final = 3
"""A key goes from the focused widget up to the application, which looks what it is bound to; what the action tells
takes the same way, and may be told on once more."""
LONGEST_S: Final = 1.0
"""After so many seconds a key has had its effect, even where a widget on its way has gone."""


class HeldKeysApp(TypedEarlyApp):
    """Holds keys while one before them is under way, and while the screen that it opens gets its widgets."""

    def __init__(self, options: OpenOptions) -> None:
        super().__init__(options)
        self._opening: Screen[Any] | None = None
        """The screen that keys are held for."""
        self._followed: tuple[int, float] | None = None
        """The key that is under way, by its number, and since when."""
        self._keys = 0
        self._held: list[Key] = []
        self._line: tuple[TypedAhead, float] | None = None
        """The line that a key was last typed into, and when."""

    def on_mount(self) -> None:
        """From now on every screen is heard of."""
        self.screen_change_signal.subscribe(self, self._screen_changed, immediate=True)

    def _screen_changed(self, screen: Screen[Any]) -> None:
        if not screen.is_mounted or screen.focused is None:
            self._opening = screen
            # By way of the screen and then of the application, as what gives its widgets the focus.
            screen.call_after_refresh(self.call_later, self._opened, screen)

    async def _opened(self, screen: Screen[Any]) -> None:
        if self._opening is screen:
            self._opening = None
        await self._let_go()

    def _holds(self) -> bool:
        if self._followed is not None and time.monotonic() - self._followed[1] > LONGEST_S:
            self._followed = None
        return self._followed is not None or self._opens() or self._is_behind_a_line()

    def _opens(self) -> bool:
        return self._opening is not None and self._opening is self.screen

    def _is_behind_a_line(self) -> bool:
        """Whether a line that was left keeps what was typed before."""
        if self._line is None or self.focused is self._line[0] or not self._line[0].keeps_any:
            return False
        return time.monotonic() - self._line[1] <= LONGEST_S

    async def type_first(self, keys: Sequence[Key]) -> None:
        """Let keys act that were typed before all that are held: those that a line kept."""
        self._held[:0] = keys
        await self._let_go()

    async def on_event(self, event: Event) -> None:
        """Hold a key, or let it act."""
        if not isinstance(event, Key) or event.is_forwarded or event.key in NEVER_HELD:
            await super().on_event(event)
        elif self._held or self._holds():
            self._held.append(event)
            if not self._holds():
                await self._let_go()
        else:
            await self._act(event)

    async def _let_go(self) -> None:
        """Let the keys that were held act, until one of them is under way."""
        while self._held and not self._holds():
            await self._act(self._held.pop(0))

    async def _act(self, key: Key) -> None:
        focused = self.focused or self.screen
        await super().on_event(key)
        # Lines that keep what is typed after enter themselves know what to do with it.
        keeps = isinstance(focused, TypedAhead)
        if isinstance(focused, TypedAhead):
            self._line = focused, time.monotonic()
        is_typed = keeps or (isinstance(focused, Input | TextArea) and key.key not in LEAVE_A_LINE)
        if key.is_forwarded and not is_typed and key.key not in LEAD_NOWHERE:
            self._keys += 1
            self._followed = self._keys, time.monotonic()
            way = list(focused.ancestors_with_self)[::-1] * ROUNDS
            await _Follower(way, partial(self._arrived, self._keys)).go()

    async def _arrived(self, key: int) -> None:
        """A key has had its effect."""
        if self._followed is not None and self._followed[0] == key:
            self._followed = None
            await self._let_go()


class _Follower:
    """Goes the way of a key, behind it: from widget to widget, each when it has seen to what came before."""

    def __init__(self, way: list[DOMNode], arrived: Callable[[], Awaitable[None]]) -> None:
        self._way = way
        self._arrived = arrived

    async def go(self) -> None:
        """Take the next step."""
        while self._way:
            # `call_later` would have its parameters counted anew at each step, which takes as long as the step.
            if self._way.pop().post_message(Callback(self.go)):
                return
        await self._arrived()
