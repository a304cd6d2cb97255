"""What is done while no key is pressed: views are made before they are gone to, and garbage is collected."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from tui.runtime import GarbageCollection
from tui.widgets.app_services import later

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable

    from textual.app import App

IDLE_AFTER_S: Final = 0.1
"""Without a key for so long, something can be prepared that is wanted later, one step at a time."""
YOUNG_AFTER_S: Final = 0.25
"""Then the garbage of the last keys is collected."""
NEW_AFTER_S: Final = 1.5
"""Then that among everything made since the last time."""
ALL_AFTER_S: Final = 30.0
"""Then all of it: with the widgets of all views that takes 0.1 s."""
STEP_S: Final = 0.02
"""Between two things that are prepared."""


class IdleWork:
    """Knows when nobody waits for a picture.

    Args:
        app: Whose loop runs the timers.
        prepare: Prepares something that is wanted later, and returns whether there may be more of it.
    """

    def __init__(self, app: App[None], prepare: Callable[[], bool]) -> None:
        self._app = app
        self._prepare = prepare
        self._garbage = GarbageCollection()
        self._busy_at = 0.0
        self._is_young_collected = False
        self._has_new_widgets = False
        self._is_all_collected = False
        self._next_look: TimerHandle | None = None

    def start(self) -> None:
        """Collect garbage in pauses only."""
        self._garbage.start()

    def stop(self) -> None:
        """Leave the collector as it was: other applications of this process may need it."""
        self._cancel()
        self._garbage.stop()

    def busy(self) -> None:
        """A key was pressed, or a view is being shown: somebody waits for a picture."""
        self._busy_at = time.monotonic()
        self._is_young_collected = False
        self._look_in(IDLE_AFTER_S)

    def widgets_made(self) -> None:
        """Widgets were made that stay: once idle, the collector skips them."""
        self._has_new_widgets = True
        self.look_soon()

    def look_soon(self) -> None:
        """Look whether nothing is going on, however late the next look was to be."""
        self._look_in(STEP_S)

    def _look_in(self, seconds: float) -> None:
        self._cancel()
        self._next_look = later(self._app, seconds, self._look)

    def _cancel(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None

    def _look(self) -> None:
        self._cancel()
        idle_s = time.monotonic() - self._busy_at
        if idle_s < IDLE_AFTER_S:
            self._look_in(IDLE_AFTER_S - idle_s)
        elif self._prepare():
            self._look_in(STEP_S)
        elif idle_s < YOUNG_AFTER_S:
            self._look_in(YOUNG_AFTER_S - idle_s)
        elif idle_s < NEW_AFTER_S:
            if not self._is_young_collected:
                self._is_young_collected = True
                self._garbage.collect_young()
            self._look_in(NEW_AFTER_S - idle_s)
        elif idle_s < ALL_AFTER_S:
            if self._has_new_widgets:
                self._has_new_widgets = self._is_all_collected = False
                self._garbage.skip_present()
            else:
                self._garbage.collect_if_due()
            if not self._is_all_collected:
                self._look_in(ALL_AFTER_S - idle_s)
        elif not self._is_all_collected:
            self._is_all_collected = True
            self._garbage.collect_all()
