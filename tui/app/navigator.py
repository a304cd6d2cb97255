"""Navigation between views, and idle work: creating views and collecting garbage."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual.screen import ModalScreen

from tui.model.history import History, Place
from tui.runtime import GarbageCollection
from tui.textual_patches import TooSmallScreen, is_too_small
from tui.views import VIEWS, view
from tui.widgets.app_services import call_after

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable, Mapping

    from textual.app import App
    from textual.geometry import Size
    from textual.screen import Screen

    from tui.app.profile_session import ProfileSession, ShowMessage
    from tui.options import OpenOptions
    from tui.screens.base import ViewScreen

IDLE_AFTER_S: Final = 0.1
"""After this time without a key, idle work runs, one step at a time."""
YOUNG_AFTER_S: Final = 0.25
"""After this time, the two younger generations of garbage are collected."""
NEW_AFTER_S: Final = 1.5
"""After this time, new widgets are excluded from collections; without any, all garbage is collected if that is due."""
ALL_AFTER_S: Final = 30.0
"""After this time, all garbage is collected, which takes 0.1 s with the widgets of all views."""
STEP_S: Final = 0.02
"""The pause between two steps of idle work."""


class IdleWork:
    """Runs work while the application is idle: no key is pressed and nothing is being drawn.

    Args:
        app: The application, whose loop runs the timers.
        prepare: Prepares something for later, and returns whether there may be more.
    """

    def __init__(self, app: App[None], prepare: Callable[[], bool]) -> None:
        self._app = app
        self._prepare = prepare
        self._garbage = GarbageCollection()
        self._busy_at = 0.0
        self._is_young_collected = False
        self._has_new_widgets = False
        self._is_all_collected = False
        self._next_check: TimerHandle | None = None

    def start(self) -> None:
        """Collect garbage in pauses, and rarely without one."""
        self._garbage.start()

    def stop(self) -> None:
        """Restore the collector: other applications of this process may need it."""
        self._cancel()
        self._garbage.stop()

    def busy(self) -> None:
        """Note that a key was pressed or a view is being shown, so that idle work waits."""
        self._busy_at = time.monotonic()
        self._is_young_collected = False
        self._check_after(IDLE_AFTER_S)

    def widgets_created(self) -> None:
        """Note that permanent widgets were created, which later collections will skip."""
        self._has_new_widgets = True
        self.check_idle_soon()

    def check_idle_soon(self) -> None:
        """Check soon whether the application is idle."""
        self._check_after(STEP_S)

    def _check_after(self, seconds: float) -> None:
        self._cancel()
        self._next_check = call_after(self._app, seconds, self._check_idle)

    def _cancel(self) -> None:
        if self._next_check is not None:
            self._next_check.cancel()
            self._next_check = None

    def _check_idle(self) -> None:
        self._cancel()
        idle_s = time.monotonic() - self._busy_at
        if idle_s < IDLE_AFTER_S:
            self._check_after(IDLE_AFTER_S - idle_s)
        elif self._prepare():
            self._check_after(STEP_S)
        elif idle_s < YOUNG_AFTER_S:
            self._check_after(YOUNG_AFTER_S - idle_s)
        elif idle_s < NEW_AFTER_S:
            if not self._is_young_collected:
                self._is_young_collected = True
                self._garbage.collect_young()
            self._check_after(NEW_AFTER_S - idle_s)
        elif idle_s < ALL_AFTER_S:
            if self._has_new_widgets:
                self._has_new_widgets = self._is_all_collected = False
                self._garbage.freeze_objects()
            else:
                self._garbage.collect_if_due()
            if not self._is_all_collected:
                self._check_after(ALL_AFTER_S - idle_s)
        elif not self._is_all_collected:
            self._is_all_collected = True
            self._garbage.collect_all()


def screen_class(name: str) -> type[ViewScreen]:
    """Return the class of a view's screen; its module is imported on first use."""
    module, _, class_name = view(name).screen.partition(":")
    class_: type[ViewScreen] = getattr(importlib.import_module(module), class_name)
    return class_


@dataclass(frozen=True, slots=True)
class AppParts:
    """The application and what it owns, for parts of it that use several of these."""

    app: App[None]
    """Runs threads and timers, and shows screens."""
    options: OpenOptions
    """The options of the command line."""
    session: ProfileSession
    """The profile that the views show."""
    navigator: Navigator
    """Goes from view to view."""
    views: Mapping[str, ViewScreen]
    """The views that have been opened, by name."""
    say: ShowMessage
    """Shows a message."""


class Navigator:
    """Moves between views, and keeps the history of visited places.

    The screen stack is: Textual's own screen, one view, then at most one dialog, then at most the request for a larger
    terminal.

    Args:
        app: The application with the screen stack.
        session: The profile that the views show.
        views: The opened views by name; it adds to them.
        say: Shows a message.
    """

    PREPARES_VIEWS: ClassVar = True
    """Whether views are created in advance while the application is idle."""

    def __init__(self, app: App[None], session: ProfileSession, views: dict[str, ViewScreen], say: ShowMessage) -> None:
        self._app, self._session, self._views, self._say = app, session, views, say
        self.idle = IdleWork(app, self._prepare)
        self.history = History()
        self.availability: dict[str, str] = {}
        """For each view ``ok``, or why this input cannot feed it."""
        self.on_shown: Callable[[ViewScreen], None] = lambda _screen: None
        """Called with each view that is shown."""
        self._views_to_prepare: list[str] | None = None
        """The views that have not been created yet; None before the first call of `_make_view`."""
        self._prepared: dict[str, ViewScreen] = {}
        """Views that were created before they were shown, by name."""
        self._postponed: Callable[[], None] | None = None
        """The request for a view, made while a dialog was open."""

    # --- the screen stack --------------------------------------------------------------------------------------------

    @property
    def view_screen(self) -> ViewScreen | None:
        """The view that is shown, below any dialog; None while files are read."""
        if not self._views:
            # While files are read there is no view: avoid importing it.
            return None
        from tui.screens.base import ViewScreen

        return next((screen for screen in reversed(self._app.screen_stack) if isinstance(screen, ViewScreen)), None)

    @property
    def is_covered(self) -> bool:
        """Whether a dialog covers the view."""
        return any(
            isinstance(screen, ModalScreen) and not isinstance(screen, TooSmallScreen) for screen in self._stack()
        )

    def _stack(self) -> list[Screen[object]]:
        return list(self._app.screen_stack) if self._app.is_running else []

    def screen_changed(self, screen: Screen[object]) -> None:
        """Go to a view that was requested while a dialog was open."""
        if self._postponed is not None and screen is self.view_screen:
            go, self._postponed = self._postponed, None
            self._app.call_later(go)

    def fit(self, size: Size) -> None:
        """Show a request for a larger terminal while it is too small."""
        is_request_shown = isinstance(self._app.screen, TooSmallScreen)
        if is_too_small(size) and not is_request_shown:
            self._app.push_screen(TooSmallScreen())
        elif not is_too_small(size) and is_request_shown:
            self._app.pop_screen()

    # --- going -------------------------------------------------------------------------------------------------------

    def go(self, name: str, arrange: Callable[[ViewScreen], None] | None = None) -> None:
        """Go to a view; if a dialog is open, as soon as it is closed.

        Args:
            name: The view's name.
            arrange: Called with its screen once that is shown (to filter it, or to select a row).
        """
        target = view(name)
        reason = self.availability.get(name, "ok")
        if reason != "ok":
            self._say(f"{target.title}: {reason}", severity="warning")
            return
        if self.is_covered:
            self._postponed = partial(self.go, name, arrange)
            return
        self.keep_place()
        screen = self.show(name)
        if arrange is not None:
            # The function expects the view in its initial state.
            screen.call_after_refresh(screen.body.show_first_tab)
            screen.call_after_refresh(arrange, screen)
        self.history.visit(screen.place())

    def show(self, name: str) -> ViewScreen:
        """Put a view on the screen; it is created on first use, and reused."""
        if name not in self._views:
            prepared = self._prepared.pop(name, None)
            self._views[name] = prepared or screen_class(name).for_view(name)
            if prepared is None:
                self._app.install_screen(self._views[name], name)
            self.idle.widgets_created()
        self.idle.busy()
        screen = self._views[name]
        screen.is_prepared = False
        if self.view_screen is not screen or self._app.screen is not screen:
            if self.view_screen not in (None, screen):
                # A message about the view before would cover rows of this one.
                self._app.clear_notifications()
            if isinstance(self._app.screen, TooSmallScreen):
                self._app.pop_screen()
            if self._app.screen is not screen:
                self._app.switch_screen(name)
            self.fit(self._app.size)
        screen.catch_up()
        self.on_shown(screen)
        return screen

    def keep_place(self) -> None:
        """Store the current position in the view in the history."""
        screen = self.view_screen
        if screen is not None:
            self.history.keep(screen.place())

    def go_to_line(self, line: int, session: int | None = None) -> None:
        """Show a line of the input in the log.

        Args:
            line: The line, from 1.
            session: The session of the source; None: the source that the log shows now.
        """

        def arrange(screen: ViewScreen) -> None:
            from tui.screens.log import LogScreen

            assert isinstance(screen, LogScreen)
            screen.show_line(line, session if session is not None else self._session.session)

        self.go("log", arrange)

    # --- going back --------------------------------------------------------------------------------------------------

    def back(self) -> None:
        """Go back in the history."""
        self.keep_place()
        self._go_to_place(self.history.step(-1), "This is the start of the history.")

    def forward(self) -> None:
        """Go forward in the history."""
        self.keep_place()
        self._go_to_place(self.history.step(1), "This is the end of the history.")

    def last_view(self) -> None:
        """Return to the view before this one."""
        self.keep_place()
        previous = self.history.previous
        if previous is None:
            self._say("No earlier view.")
            return
        self.history.visit(previous)
        self._go_to_place(previous, "")

    def leave(self) -> bool:
        """Go up a level, or back to the previous view; False at the first view."""
        screen = self.view_screen
        return screen is not None and (screen.leave_level() or self.leave_view())

    def leave_view(self) -> bool:
        """Go back to the previous view; False at the first one."""
        self.keep_place()
        place = self.history.leave_view()
        if place is not None:
            self._go_to_place(place, "")
        return place is not None

    def undo(self) -> bool:
        """Clear marks, search or filter in the view, or leave it; False if there is nothing to undo."""
        screen = self.view_screen
        return screen is None or screen.undo_smallest() or screen.leave_level() or self.leave_view()

    def _go_to_place(self, place: Place | None, message: str) -> None:
        if place is None:
            self._say(message)
            return
        screen = self.show(place.view)
        screen.call_after_refresh(screen.restore, place)

    # --- while idle --------------------------------------------------------------------------------------------------

    def widgets_created(self) -> None:
        """Note that a view has created widgets that it keeps."""
        self.idle.widgets_created()

    def _prepare(self) -> bool:
        """Draw what the next key may show, or create the next likely view."""
        if not self.PREPARES_VIEWS or not self._session.is_shown or not self._views:
            return False
        screen = self.view_screen
        return (screen is not None and screen.draw_ahead()) or self._make_view()

    def _make_view(self) -> bool:
        """Create a view without its rows: its widgets take most of the time of opening it."""
        if self._views_to_prepare is None:
            if any(worker.is_running for worker in self._app.workers):
                return True
            self._views_to_prepare = []
            names = [listed.name for listed in VIEWS if self.availability.get(listed.name, "ok") == "ok"]
            self._app.run_worker(partial(self._import_views, names), thread=True, group="prepare")
        if not all(screen.is_mounted for screen in self._prepared.values()):
            return True
        while self._views_to_prepare:
            name = self._views_to_prepare.pop(0)
            if name not in self._views:
                screen = self._prepared[name] = screen_class(name).for_view(name)
                screen.is_prepared = True
                self._app.install_screen(screen, name)
                # In steps: `App.get_screen` would block keys until all of it is created.
                self._app._register(self._app, screen)
                self.idle.widgets_created()
                return True
        return False

    def _import_views(self, names: list[str]) -> None:
        """Import what the views and the first filter need."""
        from tui.query.parse import make_parser

        make_parser()
        for name in names:
            screen_class(name)
        self._app.call_from_thread(self._views_imported, names)

    def _views_imported(self, names: list[str]) -> None:
        self._views_to_prepare = names
        self.idle.check_idle_soon()
