"""Going from view to view, and back."""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual import work

from tui.app.quiet import QuietApp
from tui.model.history import History, Place
from tui.screens.too_small import TooSmallScreen
from tui.views import VIEWS, view
from tui.widgets.later import later

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.options import OpenOptions
    from tui.screens.base import ViewScreen


LOOK_AGAIN_AFTER: Final = 0.05
"""Seconds between two looks whether the tables of a view are filled."""


def screen_class(name: str) -> type[ViewScreen]:
    """The class of a view's screen; its module is imported when it is first asked for."""
    module, _, class_name = view(name).screen.partition(":")
    found: type[ViewScreen] = getattr(importlib.import_module(module), class_name)
    return found


class NavigatingApp(QuietApp):
    """Moves between views, and knows where the user has been."""

    MAKES_AHEAD: ClassVar = True
    """Whether views are made before they are gone to, while nobody presses a key."""

    def __init__(self, options: OpenOptions) -> None:
        super().__init__(options)
        self.history = History()
        self._ahead: list[str] | None = None
        """The views that are still to be made ahead; None where it was not begun."""
        self._made_ahead: dict[str, ViewScreen] = {}
        """Views that were made before anyone went to them."""
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
            made = self._made_ahead.pop(name, None)
            self._screens[name] = made or screen_class(name)()
            if made is None:
                self.install_screen(self._screens[name], name)
            self.widgets_made()
        self.disturbed()
        screen = self._screens[name]
        screen.is_ahead = False
        if self.screen is not screen:
            if isinstance(self.screen, TooSmallScreen):
                self.pop_screen()
            self.switch_screen(name)
        screen.catch_up()
        return screen

    def make_ahead(self) -> bool:
        """Draw what the next key may show, or make the next view that can be gone to."""
        if not self.MAKES_AHEAD or self._profile is None or not self._screens:
            return False
        screen = self.view_screen
        return (screen is not None and screen.draw_ahead()) or self._make_view()

    def _make_view(self) -> bool:
        """Make a view without its rows: most of a first look is making its widgets."""
        if self._ahead is None:
            if any(worker.is_running for worker in self.workers):
                return True
            self._ahead = []
            self._import_ahead([each.name for each in VIEWS if self.availability.get(each.name, "ok") == "ok"])
        if not all(screen.is_mounted for screen in self._made_ahead.values()):
            return True
        while self._ahead:
            name = self._ahead.pop(0)
            if name not in self._screens:
                screen = self._made_ahead[name] = screen_class(name)()
                screen.is_ahead = True
                self.install_screen(screen, name)
                # A piece at a time: `App.get_screen` would hold up the keys until all of it is made.
                self._register(self, screen)
                self.widgets_made()
                return True
        return False

    @work(thread=True, group="ahead")
    def _import_ahead(self, names: list[str]) -> None:
        """Import what the views and the first filter need."""
        from tui.query.parse import make_parser

        make_parser()
        for name in names:
            screen_class(name)
        self.call_from_thread(self._go_ahead, names)

    def _go_ahead(self, names: list[str]) -> None:
        self._ahead = names
        self.look_soon()

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

    def once_filled(self, screen: ViewScreen, do: Callable[[], None]) -> None:
        """Do something as soon as the tables of a view have the rows that they are to have; not if it is left before.

        Args:
            screen: The view, as it is shown.
            do: What to do.
        """
        if self.view_screen is not screen:
            return
        if self.is_choosing or screen.is_filling:
            later(self, LOOK_AGAIN_AFTER, partial(self.once_filled, screen, do))
        else:
            do()

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
        if not self._goes_back():
            self.exit()

    def action_go_back(self) -> None:
        """Up a level, or back to the view before."""
        if not self._goes_back():
            self.say("this is the first view: q quits")

    def _goes_back(self) -> bool:
        screen = self.view_screen
        return screen is not None and (screen.leave_level() or self._leave_view())

    def _leave_view(self) -> bool:
        """Back to the view that the user came from; False at the first one."""
        self._remember()
        place = self.history.leave_view()
        if place is not None:
            self._return_to(place, "")
        return place is not None
