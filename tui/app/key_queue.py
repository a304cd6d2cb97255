"""Queue of keys: each key acts after the effect of the previous one.

Keys wait while files are read, while a screen opens, while a key or an entered line is being handled, and while a view
computes the data that the key acts on. Keys act in the order typed. Dropped are: cursor moves in a view that is being
left, keys waiting for work that esc stops or that fails, and keys beyond 200.
"""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from textual.events import Callback, Key, Paste
from textual.widgets import Input, TextArea

from tui.keys import ACTIONS, Scope, keys_of
from tui.keys.action import MOVE
from tui.widgets.app_services import call_after
from tui.widgets.input_bars import HasPendingEntry, PendingEntry

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Awaitable, Callable

    from textual.app import App
    from textual.dom import DOMNode
    from textual.screen import Screen

    from tui.app.navigator import Navigator
    from tui.screens.base import ViewScreen

Typed: TypeAlias = Key | Paste


class QueuedKey(NamedTuple):
    """A key press or paste that waits."""

    typed: Typed
    time_s: float
    """When it was pressed."""

    @property
    def name(self) -> str:
        """The name of the key."""
        return _name(self.typed)


NEVER_QUEUED: Final = frozenset({"ctrl+q", "ctrl+c", "ctrl+z"})
"""Keys that quit or stop at once."""
NOT_WAITING: Final = frozenset({"escape"}) | keys_of("app.undo", "app.back", "app.quit", "app.redraw") - NEVER_QUEUED
"""Keys that do not wait for files or for what a view computes: they stop it, leave it, or redraw."""
LETTERS_NOT_WAITING: Final = frozenset(key for key in NOT_WAITING if len(key) == 1)
"""Those of `NOT_WAITING` that are letters while a line is typed."""
LINE_START_KEYS: Final = keys_of(
    "app.command", "table.find", "log.find", "timeline.find", "table.filter", "table.filter-column"
)
"""Keys after which a text is typed: a command, a search, a filter."""
_MOVE_NAMES: Final = frozenset(
    {
        *("next-match", "previous-match", "next", "previous", "next-gap", "previous-gap"),
        *("zoom", "zoom-in", "zoom-out", "mark", "redraw"),
    }
)
"""Names of actions that only move what is shown, besides those of the group of movements."""


def move_keys() -> frozenset[str]:
    """Return the keys that move the cursor or scroll in every view that has them."""
    moves = [
        action
        for action in ACTIONS
        if (action.group == MOVE and action.scope is not Scope.APP) or action.id.partition(".")[2] in _MOVE_NAMES
    ]
    others = [action for action in ACTIONS if action not in moves and action.scope is not Scope.BAR]
    keys, other_keys = ({key for action in group for key in action.keys.split(",")} for group in (moves, others))
    return frozenset(filter(None, keys - other_keys))


MOVE_KEYS: Final = move_keys()
"""Keys for which the next key does not wait."""
LINE_END_KEYS: Final = frozenset({"enter", "escape", "tab", "shift+tab"})
"""Keys that end the typing of a line."""
BUBBLE_ROUNDS: Final = 3
"""A key bubbles from the focused widget up to the application, which runs its action; the messages that the action
posts bubble the same way, and may be passed on once more."""
MAX_WAIT_S: Final = 1.0
"""After this time a key counts as handled, even if a widget on its way was removed."""
MAX_QUEUED_KEYS: Final = 200
"""Further keys are dropped."""


class KeyQueue:
    """Queues all key presses and pastes.

    Args:
        app: The application.
        navigator: Holds the current view.
        dispatch: Dispatches an event to the application.
    """

    def __init__(self, app: App[None], navigator: Navigator, dispatch: Callable[[Typed], Awaitable[None]]) -> None:
        self._app, self._navigator, self._dispatch = app, navigator, dispatch
        self._queue: deque[QueuedKey] = deque()
        self._is_loading = True
        self._opening: Screen[Any] | None = None
        """The top screen, if it has no widgets or no focus yet."""
        self._running_key: tuple[int, float] | None = None
        """The number of the key that is being handled, and its start time."""
        self._key_number = 0
        self._line: tuple[PendingEntry, float] | None = None
        """The input bar that received the last key, and when."""
        self._waiting_view: ViewScreen | None = None
        """The view whose computation the first key in the queue waits for."""
        self._late_release: TimerHandle | None = None
        """Releases the keys that wait for a key that is never reported as handled."""

    async def receive(self, typed: Typed) -> None:
        """Handle a typed key: it acts now, or as soon as nothing blocks it."""
        name = _name(typed)
        if name in NEVER_QUEUED:
            await self._act(typed)
            return
        if name in NOT_WAITING and self._may_skip(name):
            if not self._is_loading:
                self._queue.clear()
            await self._act(typed)
            return
        if self._waiting_view is not None and self._waiting_view is not self._app.screen:
            # The view was left by mouse.
            self._queue.clear()
            self._waiting_view = None
        if len(self._queue) < MAX_QUEUED_KEYS:
            self._queue.append(QueuedKey(typed, time.monotonic()))
        await self.release()

    async def release(self) -> None:
        """Let waiting keys act, as far as nothing blocks them."""
        self._waiting_view = None
        self._drop_moves()
        while self._queue and not self._is_blocked(self._queue[0].time_s) and not self._waits_for_view():
            await self._act(self._queue.popleft().typed)
            self._drop_moves()
        if self._queue and not self._is_blocked(self._queue[0].time_s):
            self._waiting_view = self._navigator.view_screen
        if self._queue and self._is_handling_key and self._late_release is None:
            self._late_release = call_after(self._app, MAX_WAIT_S, self._release_late)

    async def _release_late(self) -> None:
        self._late_release = None
        await self.release()

    def discard(self) -> None:
        """Drop the waiting keys, because the work that they waited for failed."""
        self._queue.clear()

    def loaded(self) -> None:
        """Release keys after the files have been read and the first view is shown."""
        self._is_loading = False

    def screen_changed(self, screen: Screen[Any]) -> None:
        """Hold keys until a new top screen has its widgets and its focus."""
        if not screen.is_mounted or screen.focused is None:
            self._opening = screen
            # Through the queues of the screen and the application, like the message that sets the focus.
            screen.call_after_refresh(self._app.call_later, self._screen_ready, screen)

    async def _screen_ready(self, screen: Screen[Any]) -> None:
        if self._opening is screen:
            self._opening = None
        await self.release()

    # --- what blocks a key -------------------------------------------------------------------------------------------

    def _is_blocked(self, time_s: float) -> bool:
        """Return whether a key that was pressed at a time has to wait, whichever it is."""
        return self._is_loading or self._is_handling_key or self._is_opening or self._is_running_line(time_s)

    @property
    def _is_handling_key(self) -> bool:
        return self._running_key is not None and time.monotonic() - self._running_key[1] <= MAX_WAIT_S

    @property
    def _is_opening(self) -> bool:
        return self._opening is not None and self._opening is self._app.screen

    def _is_running_line(self, time_s: float) -> bool:
        """Return whether an entered line is still running: following keys belong to the screen it opens.

        Args:
            time_s: When the following key was pressed; long after the line, it belongs to what is on the screen.
        """
        if self._line is None:
            return False
        entry, entered_s = self._line
        return entry.is_pending and entry.widget.is_attached and time_s - entered_s <= MAX_WAIT_S

    def _waits_for_view(self, index: int = 0) -> bool:
        """Return whether a key in the queue, by default the first, waits for what the view is computing."""
        screen = self._navigator.view_screen
        return screen is not None and screen is self._app.screen and screen.must_wait(self._queue[index].name)

    def _drop_moves(self) -> None:
        """Drop waiting cursor moves in a view that is being left."""
        for index, queued in enumerate(self._queue):
            if queued.name == "enter" or (index == 0 and not self._waits_for_view()):
                return
            if not self._waits_for_view(index):
                for _ in range(index):
                    self._queue.popleft()
                return

    def _may_skip(self, name: str) -> bool:
        """Return whether a key that stops work or leaves a view acts before all waiting keys."""
        if self._is_loading:
            return not (name in LETTERS_NOT_WAITING and self._is_typed_into_line())
        if self._is_handling_key or self._is_opening:
            return False
        if self._is_running_line(self._queue[0].time_s if self._queue else time.monotonic()):
            return name == "escape"
        return bool(self._queue) and self._waits_for_view()

    def _is_typed_into_line(self) -> bool:
        """Return whether a letter belongs to an unfinished line in the queue."""
        ends = [queued.name for queued in self._queue if queued.name in LINE_START_KEYS or queued.name == "enter"]
        return bool(ends) and ends[-1] != "enter"

    # --- acting ------------------------------------------------------------------------------------------------------

    async def _act(self, typed: Typed) -> None:
        focused = self._app.focused or self._app.screen
        if isinstance(focused, HasPendingEntry):
            self._line = focused.entry, time.monotonic()
        await self._dispatch(typed)
        if isinstance(typed, Paste):
            return
        is_letter = isinstance(focused, Input | TextArea) and typed.key not in LINE_END_KEYS
        if not is_letter and typed.key not in MOVE_KEYS:
            self._key_number += 1
            self._running_key = self._key_number, time.monotonic()
            path = list(focused.ancestors_with_self)[::-1] * BUBBLE_ROUNDS
            await _KeyFollower(path, partial(self._key_handled, self._key_number)).go()

    async def _key_handled(self, number: int) -> None:
        """Count a key as handled."""
        if self._running_key is not None and self._running_key[0] == number:
            self._running_key = None
            await self.release()


class _KeyFollower:
    """Posts a message after a key to each widget that the key bubbles to, to detect when it has been handled."""

    def __init__(self, path: list[DOMNode], key_handled: Callable[[], Awaitable[None]]) -> None:
        self._path = path
        self._key_handled = key_handled

    async def go(self) -> None:
        """Post a message to the next widget, or report that the key was handled."""
        while self._path:
            # `call_later` would inspect the callback's parameters at each step, which doubles the time.
            if self._path.pop().post_message(Callback(self.go)):
                return
        await self._key_handled()


def _name(typed: Typed) -> str:
    return typed.key if isinstance(typed, Key) else "<paste>"
