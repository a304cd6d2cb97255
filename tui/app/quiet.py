"""What is done while nobody presses a key: garbage is collected, and views are made before they are gone to."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Final

from textual.events import InputEvent

from tui.app.tables import TablesApp
from tui.widgets.later import later

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from textual.events import Event

    from tui.options import OpenOptions

QUIET_AFTER: Final = 0.1
"""Seconds without a key after which something can be made that is wanted later, step by step."""
YOUNG_AFTER: Final = 0.25
"""Seconds without a key after which what the last keys left behind is collected: they have been answered by then."""
NEW_AFTER: Final = 1.5
"""Seconds without a key after which garbage is collected among what has been made since the last time."""
ALL_AFTER: Final = 30.0
"""Seconds without a key after which it is collected everywhere: with the widgets of all views that takes a while."""
YOUNG_BEFORE_NEW: Final = 10
"""After so many of the first the second comes, not in every pause."""
STEP: Final = 0.02
"""Seconds between two things that are made ahead."""
THRESHOLDS: Final = (20_000, 10, 50)
"""How many objects bring on a collection where no pause comes for long, as while a key is held down."""


class QuietApp(TablesApp):
    """Knows when nobody waits for a picture.

    Left to itself Python collects garbage while pictures are made, most of all while a view is: of the hundred
    thousand objects of the widgets of all views and the lines that they keep, that takes a tenth of a second.
    """

    def __init__(self, options: OpenOptions) -> None:
        super().__init__(options)
        self._thresholds = gc.get_threshold()
        self._disturbed_at = 0.0
        self._is_young_collected = False
        self._has_new_widgets = False
        self._is_all_collected = False
        self._round: TimerHandle | None = None

    def on_mount(self) -> None:
        """From now on pauses decide."""
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*THRESHOLDS)

    def on_unmount(self) -> None:
        """Other applications of this process may want to be rid of what this one made."""
        self._look_no_more()
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    async def on_event(self, event: Event) -> None:
        """Take note of every key."""
        if isinstance(event, InputEvent):
            self.disturbed()
        await super().on_event(event)

    def disturbed(self) -> None:
        """Somebody waits for a picture."""
        self._disturbed_at = time.monotonic()
        self._is_young_collected = False
        self._look_in(QUIET_AFTER)

    def widgets_made(self) -> None:
        """Widgets have been made that stay: once all is quiet, the garbage collector is to look at them no more."""
        self._has_new_widgets = True
        self.look_soon()

    def look_soon(self) -> None:
        """Look whether it is quiet, however late the next look was to be."""
        self._look_in(STEP)

    def make_ahead(self) -> bool:
        """Called when it is quiet: make something that is wanted later, and say whether there may be more of it."""
        return False

    def _look_in(self, seconds: float) -> None:
        self._look_no_more()
        self._round = later(self, seconds, self._look)

    def _look_no_more(self) -> None:
        if self._round is not None:
            self._round.cancel()
            self._round = None

    def _look(self) -> None:
        self._look_no_more()
        quiet = time.monotonic() - self._disturbed_at
        if quiet < QUIET_AFTER:
            self._look_in(QUIET_AFTER - quiet)
        elif self.make_ahead():
            self._look_in(STEP)
        elif quiet < YOUNG_AFTER:
            self._look_in(YOUNG_AFTER - quiet)
        elif quiet < NEW_AFTER:
            if not self._is_young_collected:
                self._is_young_collected = True
                gc.collect(1)
            self._look_in(NEW_AFTER - quiet)
        elif quiet < ALL_AFTER:
            if self._has_new_widgets:
                # They stay, and looking at each of them would keep the next key waiting.
                self._has_new_widgets = self._is_all_collected = False
                gc.freeze()
            elif gc.get_count()[2] >= YOUNG_BEFORE_NEW:
                gc.collect()
            if not self._is_all_collected:
                self._look_in(ALL_AFTER - quiet)
        elif not self._is_all_collected:
            self._is_all_collected = True
            gc.unfreeze()
            gc.collect()
            gc.freeze()
