"""Going from view to view, and back."""

from __future__ import annotations

import gc
import importlib
from typing import TYPE_CHECKING, Final

from textual import work

from tui.app.tables import TablesApp
from tui.model.history import History, Place
from tui.screens.too_small import TooSmallScreen
from tui.views import view

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.timer import Timer

    from tui.options import OpenOptions
    from tui.screens.base import ViewScreen

FREEZE_AFTER: Final = 1.5
"""Seconds after which new widgets are left out of garbage collection."""


def screen_class(name: str) -> type[ViewScreen]:
    """The class of a view's screen; its module is imported when it is first asked for."""
    module, _, class_name = view(name).screen.partition(":")
    found: type[ViewScreen] = getattr(importlib.import_module(module), class_name)
    return found


class NavigatingApp(TablesApp):
    """Moves between views, and knows where the user has been."""

    def __init__(self, options: OpenOptions) -> None:
        super().__init__(options)
        self.history = History()
        self._freeze_timer: Timer | None = None
        self._is_ready = False
        self.availability: dict[str, str] = {}
        """For each view ``ok``, or why this input cannot feed it."""

    # --- navigation --------------------------------------------------------------------------------------------------

    @property
    def view_screen(self) -> ViewScreen | None:
        """The screen of the view that is shown, below any dialog."""
        if not self._screens:
            # While the files are read, no key is to wait for the import of what it cannot find.
            return None
        from tui.screens.base import ViewScreen

        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, ViewScreen)), None)

    def go(self, name: str, arrange: Callable[[ViewScreen], None] | None = None) -> None:
        """Go to a view.

        Args:
            name: The view's name.
            arrange: Called with its screen once that is shown (to filter it, or to select a row).
        """
        target = view(name)
        reason = self.availability.get(name, "ok")
        if reason != "ok":
            self.say(f"{target.title}: {reason}", severity="warning")
            return
        self._remember()
        screen = self._show(name)
        if arrange is not None:
            # What is to be arranged is the view as it opens, wherever in it the user was.
            screen.call_after_refresh(screen.to_first_part)
            screen.call_after_refresh(arrange, screen)
        self.history.visit(screen.place())

    def _show(self, name: str) -> ViewScreen:
        """Put a view's screen on top; it is made on first use and kept."""
        if name not in self._screens:
            self._screens[name] = screen_class(name)()
            self.install_screen(self._screens[name], name)
            self.widgets_made()
        screen = self._screens[name]
        if self.screen is not screen:
            if isinstance(self.screen, TooSmallScreen):
                self.pop_screen()
            self.switch_screen(name)
        screen.catch_up()
        return screen

    def widgets_made(self) -> None:
        """Widgets have been made that stay: once all is quiet, the garbage collector is to look at them no more.

        There are a hundred thousand objects in the widgets of all views: whatever key a full collection falls upon
        would take a quarter of a second.
        """
        if self._freeze_timer is not None:
            self._freeze_timer.stop()
        self._freeze_timer = self.set_timer(FREEZE_AFTER, self._freeze)

    @work(thread=True, group="ready")
    def _make_ready(self) -> None:
        """Make what the first filter needs while nobody waits for it: the parser takes as long as ten keys may."""
        from tui.query.parse import make_parser

        make_parser()

    def _freeze(self) -> None:
        self._freeze_timer = None
        if not self._is_ready:
            self._is_ready = True
            self._make_ready()
        gc.collect()
        gc.freeze()

    def on_unmount(self) -> None:
        """Other applications of this process may want to be rid of what this one made."""
        gc.unfreeze()

    def _remember(self) -> None:
        screen = self.view_screen
        if screen is not None:
            self.history.keep(screen.place())

    def _return_to(self, place: Place | None, nothing: str) -> None:
        if place is None:
            self.say(nothing)
            return
        screen = self._show(place.view)
        screen.call_after_refresh(screen.restore, place)

    def go_to_line(self, line: int, session: int | None = None) -> None:
        """Show a line of the input in the log.

        Args:
            line: From 1.
            session: The session whose source it is a line of; None: the source that the log shows now.
        """

        def arrange(screen: ViewScreen) -> None:
            from tui.screens.log import LogScreen

            assert isinstance(screen, LogScreen)
            screen.show_line(line, session if session is not None else self.session)

        self.go("log", arrange)

    def visit(self, place: Place) -> None:
        """A screen tells that the user has moved within it."""
        self.history.visit(place)

    def action_go(self, name: str) -> None:
        """Go to a view by its name."""
        self.go(name)

    def action_history_back(self) -> None:
        """Back through the history."""
        self._remember()
        self._return_to(self.history.step(-1), "this is the beginning of the history")

    def action_history_forward(self) -> None:
        """Forward through the history."""
        self._remember()
        self._return_to(self.history.step(1), "this is the end of the history")

    def action_last_view(self) -> None:
        """The view before this one."""
        self._remember()
        previous = self.history.previous
        if previous is None:
            self.say("there is no view before this one")
            return
        self.history.visit(previous)
        self._return_to(previous, "")

    def action_leave(self) -> None:
        """Up a level, or back to the view before; at the first view, quit."""
        screen = self.view_screen
        if screen is None or (not screen.leave_level() and not self._leave_view()):
            self.exit()

    def _leave_view(self) -> bool:
        """Back to the view that the user came from; False at the first one."""
        self._remember()
        place = self.history.leave_view()
        if place is not None:
            self._return_to(place, "")
        return place is not None
