"""Reads the files in the background, and reads them again on demand."""

from __future__ import annotations

import gc
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from textual.worker import get_current_worker

from tui.app.follow import FOLLOWING, Following
from tui.app.navigator import screen_class
from tui.app.shutdown import LOADING
from tui.model.aggregation import Aggregation
from tui.model.errors import ProftuiError
from tui.options import path_exists
from tui.runtime import freeze_profile_objects
from tui.screens.loading import LoadingScreen
from tui.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tui.app.navigator import AppParts
    from tui.cache.cache import Cache
    from tui.loaders.base import LoadProgress
    from tui.model.profile import Profile
    from tui.opening import OpenedProfiles
    from tui.options import OpenOptions
    from tui.screens.home import HomeScreen

OPENING: Final = "opening"
"""The group of the worker that reads another file."""
CACHE_AFTER_S: Final = 1.0
"""The profile is cached this long after its first screen."""


class ProfileLoading:
    """Reads the files in a thread.

    Args:
        parts: The application, which exits if nothing could be read, and its objects.
        on_loaded: Called when the files have been read; True for the first time.
        opened: The content of the files, if they have been read already.
        on_home: Called when the home screen is shown instead of a profile.
    """

    def __init__(
        self,
        parts: AppParts,
        on_loaded: Callable[[bool], None],
        opened: OpenedProfiles | None = None,
        on_home: Callable[[], None] = lambda: None,
    ) -> None:
        self._app, self._options, self._session = parts.app, parts.options, parts.session
        self._navigator, self._views, self._say = parts.navigator, parts.views, parts.say
        self._on_loaded, self._opened, self._on_home = on_loaded, opened, on_home
        self.is_reading_again = False
        """Whether the files are read while a profile is shown."""
        self.errors: tuple[ProftuiError, ...] = ()
        """The files that could not be opened, with reasons."""
        self._is_stopping = False
        self.is_reading = False
        """Whether the files are being read."""
        self._is_follow_up = False
        self.following = (
            Following(self._app, self._options.paths, self._session, lambda: self.is_reading, self.follow_up)
            if self._options.follow
            else None
        )
        self._cache: Cache | None = None
        self._home: HomeScreen | None = None

    def start(self) -> None:
        """Show the shell, then read the files; without files, show the home screen."""
        if not self._options.paths:
            self._show_home(".", "")
            return
        self._app.push_screen(LoadingScreen(self._options.paths))
        if self.following is not None:
            self.following.start()
        self._app.call_after_refresh(self.load)

    def is_home(self, screen: object) -> bool:
        """Return whether a screen is the home screen."""
        return screen is self._home and screen is not None

    def _show_home(self, folder: str, note: str) -> None:
        """Show the profiles in a folder and below."""
        from tui.screens.home import HomeScreen

        # Garbage collection is off during start-up: see `tui.cli.explore.open_app`.
        gc.enable()
        self._home = HomeScreen(folder, note)
        self._navigator.availability = dict.fromkeys((view.name for view in VIEWS), "open a profile first")
        if isinstance(self._app.screen, LoadingScreen):
            self._app.switch_screen(self._home)
        else:
            self._app.push_screen(self._home)
        self._on_home()

    def load(self) -> None:
        """Read the files in a thread."""
        self.is_reading = True
        self._app.run_worker(self._read, thread=True, exclusive=True, group=LOADING)

    def follow_up(self) -> None:
        """Read the files again because they have grown, or for the first time if nothing could be read so far."""
        self._is_stopping, self._is_follow_up = False, True
        if self._session.whole_profile is None:
            self.load()
        else:
            self.load_again()

    def load_again(self) -> None:
        """Read the files again; the previous content is shown meanwhile."""
        if "-" in self._options.paths:
            self._say("Standard input cannot be read twice.", severity="warning")
        elif self._session.whole_profile is not None:
            self._is_stopping, self.is_reading_again = False, True
            self._session.show_progress("reading", "reading again…")
            self.load()

    def open_other(self, paths: tuple[str, ...], show: Callable[[OpenOptions, OpenedProfiles], None]) -> None:
        """Read other files; the current profile stays until they have been read, or if they cannot be.

        Args:
            paths: The files.
            show: Called with the new profile.
        """
        options = replace(self._options, paths=paths, format_in=None, session=None, aggregation=Aggregation())
        self._app.run_worker(partial(self._read_other, options, show), thread=True, exclusive=True, group=OPENING)

    def _read_other(self, options: OpenOptions, show: Callable[[OpenOptions, OpenedProfiles], None]) -> None:
        from tui.opening import open_profiles

        worker = get_current_worker()

        def report(progress: LoadProgress) -> bool:
            share = f" {100 * progress.bytes_read // progress.bytes_total}%" if progress.bytes_total else ""
            self._app.call_later(self._show_opening, f"reading {Path(options.paths[0]).name}{share} (esc stops)")
            return not worker.is_cancelled

        try:
            opened = open_profiles(options, report, session=None)
        finally:
            if not worker.is_cancelled:
                self._app.call_from_thread(self._set_opening_text, "")
        if worker.is_cancelled:
            return
        if opened.profile is None:
            self._app.call_from_thread(self._say, _lines(opened.errors), severity="error")
        else:
            self._app.call_from_thread(show, options, opened)

    def _show_opening(self, text: str) -> None:
        if self._is_opening:
            self._set_opening_text(text)

    def _set_opening_text(self, text: str) -> None:
        self._session.show_progress(OPENING, text)
        if self._home is not None:
            self._home.show_opening(text)

    @property
    def _is_opening(self) -> bool:
        return any(worker.group == OPENING and not worker.is_finished for worker in self._app.workers)

    def stop(self) -> bool:
        """Stop reading and keep partial data; False if nothing is being read."""
        if self._is_opening:
            self._app.workers.cancel_group(self._app, OPENING)
            self._set_opening_text("")
            self._say("Stopped. No other profile was opened.")
            return True
        if self._home is not None or (self._session.whole_profile is not None and not self.is_reading_again):
            return False
        self._is_stopping = True
        for screen in self._app.screen_stack:
            if isinstance(screen, LoadingScreen):
                screen.show_stopping()
        return True

    def stop_caching(self) -> None:
        """Stop writing to the cache."""
        if self._cache is not None:
            self._cache.stop()

    def _read(self) -> None:
        from tui.opening import open_profiles

        # Garbage collection is off during start-up: see `tui.cli.explore.open_app`.
        gc.enable()
        worker = get_current_worker()

        def report(progress: LoadProgress) -> bool:
            self._app.call_later(self._show_progress, progress)
            return not worker.is_cancelled and not self._is_stopping

        is_first = self._session.whole_profile is None
        opened, self._opened = self._opened, None
        paths = self._options.paths
        may_list = is_first and opened is None and not self._options.follow and len(paths) == 1
        if may_list and self._lists_profiles(paths[0]):
            note = "Profiles of different runs. space marks profiles to open together; a opens a folder as one job."
            self._app.call_from_thread(self._show_home, paths[0], note)
            return
        opened = opened or open_profiles(
            self._options,
            report,
            session=self._session.session if is_first else None,
            aggregation=self._session.aggregation if is_first else None,
            # For a followed folder, the cache serves all but new files.
            renew=not is_first and not self._is_follow_up,
        )
        if opened.profile is not None:
            # Imported here, while the loading screen still responds.
            screen_class("dashboard")
            freeze_profile_objects()
        self._app.call_from_thread(self._show_opened, opened)

    def _lists_profiles(self, path: str) -> bool:
        """Return whether a path is a folder of profiles to choose from."""
        if self._options.format_in is not None or not path_exists(path) or not Path(path).is_dir():
            return False
        from tui.analysis.found_profiles import lists_profiles

        return lists_profiles(path)

    def _remember(self, opened: OpenedProfiles) -> None:
        """Store what was opened, for the home screen."""
        from tui.analysis.found_profiles import first_figures
        from tui.state.workspace import remember_opened

        paths = self._options.paths
        if opened.profile is not None and len(paths) == 1 and path_exists(paths[0]):
            remember_opened(paths[0], first_figures(opened.profile))

    def _show_progress(self, progress: LoadProgress) -> None:
        for screen in self._app.screen_stack:
            if isinstance(screen, LoadingScreen):
                screen.show_progress(progress)
        if self.is_reading_again:
            share = f" {100 * progress.bytes_read // progress.bytes_total}%" if progress.bytes_total else "…"
            self._session.show_progress("reading", f"reading again{share} (esc stops)")

    def _show_opened(self, opened: OpenedProfiles) -> None:
        """Show the profile that was read, and report errors."""
        profile, errors = opened.profile, opened.errors
        follows_up, self.is_reading, self._is_follow_up = self._is_follow_up, False, False
        if self.is_reading_again:
            self.is_reading_again = False
            self._session.show_progress("reading", "")
            if self._is_stopping:
                self._say("Stopped. The profile is unchanged.")
                return
        is_first = self._session.whole_profile is None
        if profile is None and self.following is not None and not self._is_stopping:
            self._wait_for_more(errors)
            return
        if profile is None and is_first:
            self.errors = errors
            self._app.exit(return_code=2)
            return
        if profile is None:
            self._say(f"{_lines(errors)}\nThe profile is unchanged.", severity="error")
            return
        self.errors = errors
        self._cache_later(opened)
        messages = [] if is_first or follows_up else ["File read again."]
        if self._session.session is not None and self._session.session >= profile["sessions"].height:
            messages.append(f"Session {self._session.session} no longer exists: showing all.")
            self._session.session = None
        self._session.take(profile, opened.shown if is_first else None)
        self._navigator.availability = opened.availability
        try:
            _ = self._session.profile
        except ProftuiError as error:
            messages.append(f"{error}: showing all iterations.")
            self._session.aggregation = Aggregation()
        self._on_loaded(is_first)
        if not is_first:
            for screen in self._views.values():
                screen.profile_changed()
        if self.following is not None:
            self.following.loaded()
        self._say_results(profile, errors, messages)

    def _wait_for_more(self, errors: Sequence[ProftuiError]) -> None:
        """Report that followed files cannot be read yet."""
        self._session.show_progress(FOLLOWING, f"following: {errors[-1].message if errors else 'nothing to read'}")
        for screen in self._app.screen_stack:
            if isinstance(screen, LoadingScreen):
                screen.show_waiting(errors[-1].message if errors else "")

    def _say_results(self, profile: Profile, errors: Iterable[ProftuiError], messages: list[str]) -> None:
        error_text = _lines(errors)
        unread = _unread_files(profile, errors)
        hint = "" if "-" in self._options.paths else " r reads the file again."
        partial_text = f"{profile.partial}: totals are partial.{hint}" if profile.partial else ""
        messages = [*messages, *(text for text in (error_text, unread, partial_text) if text)]
        if messages:
            severity = "error" if error_text else "warning" if profile.partial or unread else "information"
            self._say("\n".join(messages), severity=severity)  # type: ignore[arg-type]

    def _cache_later(self, opened: OpenedProfiles) -> None:
        """Write the profile to the cache, after the screen shows it."""
        self.stop_caching()
        self._cache = cache = opened.cache
        if cache is not None:
            remember = partial(self._remember, opened)
            self._app.set_timer(CACHE_AFTER_S, partial(cache.write_behind, remember, *opened.deferred_results))


def _unread_files(profile: Profile, reported_errors: Iterable[ProftuiError]) -> str:
    """Return the files of folders that could not be read."""
    from tui.loaders.multi_file.load_together import skipped_files

    reasons = [reason for reason in skipped_files(profile) if reason not in set(map(str, reported_errors))]
    if not reasons:
        return ""
    return f"Not read: {reasons[0]}" if len(reasons) == 1 else f"{len(reasons)} files could not be read: see Issues."


def _lines(errors: Iterable[ProftuiError]) -> str:
    return "\n".join(str(error) for error in errors)
