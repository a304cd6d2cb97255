"""Reading the files while the shell is on the screen, and reading them again."""

from __future__ import annotations

import gc
from functools import partial
from typing import TYPE_CHECKING, Final

from textual import work
from textual.worker import get_current_worker

from tui.app.faults import LOADING
from tui.app.held_keys import HeldKeysApp
from tui.app.navigation import screen_class
from tui.model.aggregation import Aggregation
from tui.model.errors import ProftuiError
from tui.screens.loading import LoadingScreen
from tui.screens.too_small import TooSmallScreen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.events import Resize
    from textual.geometry import Size

    from tui.cache.cache import Cache
    from tui.loaders.base import LoadProgress
    from tui.model.profile import Profile
    from tui.opening import Opened
    from tui.options import OpenOptions

FIRST_VIEW: Final = "dashboard"
"""What is shown once the files are read."""
MIN_WIDTH: Final = 60
MIN_HEIGHT: Final = 15
"""Below this size nothing but a request for more room is drawn."""


KEEP_AFTER: Final = 1.0
"""Seconds after which what was read is kept: the first screen comes first."""


class LoadingApp(HeldKeysApp):
    """Reads files in a thread, and shows the dashboard once there is something to show."""

    def __init__(self, options: OpenOptions) -> None:
        super().__init__(options)
        self.reading_again = ""
        """How far a reload has come, in words; empty where there is none."""
        self.load_errors: tuple[ProftuiError, ...] = ()
        """What could not be opened, of several files."""
        self._cache: Cache | None = None

    def on_mount(self) -> None:
        """Show the shell, then start to read."""
        self.push_screen(LoadingScreen(self.options.paths))
        self.call_after_refresh(self.load)

    @work(thread=True, exclusive=True, group=LOADING)
    def load(self) -> None:
        """Read the files in a thread; the outcome comes back to `_loaded`."""
        from tui.opening import open_profiles

        # Switched off for the start: see `tui.cli.app.open_app`.
        gc.enable()
        worker = get_current_worker()

        def report(progress: LoadProgress) -> bool:
            self.call_later(self._show_progress, progress)
            return not worker.is_cancelled and not self._stop_requested

        first_time = self.whole_profile is None
        opened = open_profiles(
            self.options,
            report,
            session=self.session if first_time else None,
            aggregation=self.aggregation if first_time else None,
            renew=not first_time,
        )
        if opened.profile is not None:
            # Imported here, where the loading screen still answers.
            screen_class(FIRST_VIEW)
            # A long list of objects that stay would be looked through at every collection: keys would lag.
            gc.collect()
            gc.freeze()
        self.call_from_thread(self._loaded, opened)

    _stop_requested = False

    def stop_loading(self) -> None:
        """Keep what has been read so far."""
        self._stop_requested = True
        for screen in self.screen_stack:
            if isinstance(screen, LoadingScreen):
                screen.show_stopping()

    def _show_progress(self, progress: LoadProgress) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, LoadingScreen):
                screen.show_progress(progress)
        if self.reading_again:
            share = f" {100 * progress.bytes_read // progress.bytes_total}%" if progress.bytes_total else ""
            self._show_reading(f"reading again{share}, esc stops")

    def _show_reading(self, words: str) -> None:
        self.reading_again = words
        if self.view_screen is not None:
            self.view_screen.show_crumbs()

    def _loaded(self, opened: Opened) -> None:
        profile, errors = opened.profile, opened.errors
        if self.reading_again:
            self._show_reading("")
            if self._stop_requested:
                self.say("stopped: what was read before stays")
                return
        if profile is None:
            if self.whole_profile is None:
                self.load_errors = errors
                self.exit(return_code=2)
                return
            self.say(f"{_lines(errors)}\nwhat was read before stays", severity="error")
            return
        self.load_errors = errors
        self._work_behind(opened)
        first_time = self.whole_profile is None
        self.whole_profile = profile
        self.availability = opened.availability
        news = ["read again"] if not first_time else []
        if self.session is not None and self.session >= profile["sessions"].height:
            news.append(f"there is no session {self.session} any more: showing all")
            self.session = None
        self._profile = opened.shown if first_time else None
        try:
            _ = self.profile
        except ProftuiError as error:
            news.append(f"{error}: showing all iterations")
            self.aggregation = Aggregation()
        self.look_at_files()
        if first_time:
            self.go(FIRST_VIEW)
            self.call_after_refresh(self.type_again)
            self._ask_for_room(self.size)
            self.offer_to_resume()
        else:
            for screen in self._screens.values():
                screen.profile_changed()
        news += [_lines(errors)] if errors else []
        others = _left_out(profile, errors)
        news += [others] if others else []
        if profile.partial:
            again = "" if "-" in self.options.paths else "; r reads the file again"
            news.append(f"{profile.partial}: totals are partial{again}")
        if news:
            severity = "error" if errors else "warning" if profile.partial or others else "information"
            self.say("\n".join(news), severity=severity)

    def _work_behind(self, opened: Opened) -> None:
        """Keep what was read for the next time, once the screen shows it."""
        if self._cache is not None:
            self._cache.stop()
        self._cache = cache = opened.cache
        if cache is not None:
            self.set_timer(KEEP_AFTER, partial(cache.write_behind, *opened.later))

    def on_unmount(self) -> None:
        """Leave nothing half written."""
        self.stop_keeping()

    def stop_keeping(self) -> None:
        """Write no more of what was read."""
        if self._cache is not None:
            self._cache.stop()

    def action_undo_smallest(self) -> None:
        """Undo the smallest thing; never quits."""
        if self.whole_profile is None or self.reading_again:
            self.stop_loading()
            return
        screen = self.view_screen
        if screen is None or screen.undo_smallest() or screen.leave_level() or self._leave_view():
            return
        self.say("nothing to undo; q quits")

    def on_resize(self, event: Resize) -> None:
        """Ask for room where there is too little of it."""
        self._ask_for_room(event.size)

    def _ask_for_room(self, size: Size) -> None:
        small = size.width < MIN_WIDTH or size.height < MIN_HEIGHT
        asking = isinstance(self.screen, TooSmallScreen)
        if small and not asking:
            self.push_screen(TooSmallScreen(MIN_WIDTH, MIN_HEIGHT))
        elif not small and asking:
            self.pop_screen()


def _left_out(profile: Profile, told: Iterable[ProftuiError]) -> str:
    """The files of folders that could not be read."""
    from tui.loaders.folder import left_out

    found = [why for why in left_out(profile) if why not in set(map(str, told))]
    if not found:
        return ""
    return f"left out: {found[0]}" if len(found) == 1 else f"{len(found)} files are left out: the issues name them"


def _lines(errors: Iterable[ProftuiError]) -> str:
    return "\n".join(str(error) for error in errors)
