"""The application: themes, loading, navigation between views, and the actions that work everywhere."""

from __future__ import annotations

import gc
import importlib
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from textual import work
from textual.app import App
from textual.binding import Binding
from textual.scrollbar import ScrollBar
from textual.widgets import Input
from textual.worker import get_current_worker

from tui.commands import CommandError, ProftuiProvider, run_command
from tui.keys import Scope, bindings_for
from tui.model.aggregation import Aggregation
from tui.model.errors import ProftuiError
from tui.model.history import History, Place
from tui.opening import Opened, open_profiles
from tui.screens.loading import LoadingScreen
from tui.screens.too_small import TooSmallScreen
from tui.theme import DARK, LIGHT, theme_name
from tui.views import NOT_IN_THIS_VERSION, VIEWS, view
from tui.widgets.ascii_scrollbar import AsciiScrollBarRender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import PurePath

    from textual.events import Resize
    from textual.geometry import Size

    from tui.loaders.base import LoadProgress
    from tui.model.profile import Profile
    from tui.options import OpenOptions
    from tui.screens.base import ViewScreen

MIN_WIDTH: Final = 60
MIN_HEIGHT: Final = 15
"""Below this size nothing but a request for more room is drawn."""
MESSAGE_SECONDS: Final = 3.0
WARNING_SECONDS: Final = 8.0
"""How long a message stays on the screen."""
TYPED_INSTEAD: Final = frozenset({"help", "views_menu", "leave"})
"""Actions of printable keys in the footer."""


class ProftuiApp(App[None]):
    """Opens profiles and moves between their views.

    Args:
        options: What the command line asked for.
    """

    TITLE = "proftui"
    # The base class declares these two as variables of the instance.
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal"), (160, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012
    COMMANDS: ClassVar = {ProftuiProvider}
    BINDINGS: ClassVar = [
        *bindings_for(Scope.APP),
        *(Binding(v.key, f"go('{v.name}')", v.title, show=False, id=f"view.{v.name}") for v in VIEWS if v.key),
    ]

    def __init__(self, options: OpenOptions) -> None:
        styles: list[str | PurePath] = ["app.tcss", *(["ascii.tcss"] if options.ascii_only else [])]
        super().__init__(css_path=styles, ansi_color=True if options.color == "none" else None)
        self.options = options
        self.ascii_only = options.ascii_only
        self.whole_profile: Profile | None = None
        """Everything that was read."""
        self.reading_again = ""
        """How far a reload has come, in words; empty where there is none."""
        self.session = options.session
        """The only session that the views show, or None for all."""
        self.aggregation = options.aggregation
        """The iterations that the views show."""
        self.history = History()
        self.load_errors: tuple[ProftuiError, ...] = ()
        """What could not be opened, of several files."""
        self.availability: dict[str, str] = {}
        """For each view ``ok``, or why this input cannot feed it."""
        self._screens: dict[str, ViewScreen] = {}
        self._profile: Profile | None = None
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = theme_name(options.theme, options.color)
        if self.ascii_only:
            ScrollBar.renderer = AsciiScrollBarRender
            self.add_class("-ascii")

    # --- loading -----------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        """Show the shell, then start to read."""
        self.push_screen(LoadingScreen(self.options.paths))
        self.call_after_refresh(self.load)

    @work(thread=True, exclusive=True, group="load")
    def load(self) -> None:
        """Read the files in a thread; the outcome comes back to `_loaded`."""
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
        )
        if opened.profile is not None:
            # A long list of objects that stay would be looked through at every collection: keys would lag.
            gc.collect()
            gc.freeze()
        self.call_from_thread(self._loaded, opened)

    _stop_requested = False

    def stop_loading(self) -> None:
        """Keep what has been read so far."""
        self._stop_requested = True

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
        if first_time:
            self.go("dashboard")
            self._ask_for_room(self.size)
        else:
            for screen in self._screens.values():
                screen.profile_changed()
        news += [_lines(errors)] if errors else []
        if profile.partial:
            again = "" if "-" in self.options.paths else "; r reads the file again"
            news.append(f"{profile.partial}: totals are partial{again}")
        if news:
            severity = "error" if errors else "warning" if profile.partial else "information"
            self.say("\n".join(news), severity=severity)

    @property
    def profile(self) -> Profile:
        """What the views show: the session and the iterations that were chosen, of everything read."""
        assert self.whole_profile is not None, "views open only after a profile is there"
        if self._profile is None:
            whole = self.whole_profile
            self._profile = self._chosen(whole, self.session, self.aggregation)
        return self._profile

    def choose_session(self, session: int | None) -> None:
        """Show one session in every view, or all of them."""
        assert self.whole_profile is not None
        if session is not None and not 0 <= session < self.whole_profile["sessions"].height:
            raise CommandError(
                f"there is no session {session}: they run from 0 to {self.whole_profile['sessions'].height - 1}"
            )
        self._choose(session, self.aggregation)

    def choose_iterations(self, wanted: Aggregation) -> None:
        """Show some iterations in every view, or iterations by another key."""
        self._choose(self.session, wanted)

    def _choose(self, session: int | None, wanted: Aggregation) -> None:
        assert self.whole_profile is not None
        try:
            profile = self._chosen(self.whole_profile, session, wanted)
        except ProftuiError as error:
            raise CommandError(str(error)) from error
        self._profile, self.session, self.aggregation = profile, session, wanted
        for screen in self._screens.values():
            screen.profile_changed()

    @staticmethod
    def _chosen(whole: Profile, session: int | None, wanted: Aggregation) -> Profile:
        """What is to be shown.

        Raises:
            ProftuiError: The iterations or their key are not there.
        """
        from tui.analysis.iterations.aggregation import aggregated

        return aggregated(whole if session is None else whole.only_session(session), wanted)

    # --- navigation --------------------------------------------------------------------------------------------------

    @property
    def view_screen(self) -> ViewScreen | None:
        """The screen of the view that is shown, below any dialog."""
        from tui.screens.base import ViewScreen

        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, ViewScreen)), None)

    def go(self, name: str, arrange: Callable[[ViewScreen], None] | None = None) -> None:
        """Go to a view.

        Args:
            name: The view's name.
            arrange: Called with its screen once that is shown (to filter it, or to select a row).
        """
        target = view(name)
        if not target.screen:
            self.say(f"{target.title}: {NOT_IN_THIS_VERSION}", severity="warning")
            return
        reason = self.availability.get(name, "ok")
        if reason != "ok":
            self.say(f"{target.title}: {reason}", severity="warning")
            return
        self._remember()
        screen = self._show(name)
        if arrange is not None:
            screen.call_after_refresh(arrange, screen)
        self.history.visit(screen.place())

    def _show(self, name: str) -> ViewScreen:
        """Put a view's screen on top; it is made on first use and kept."""
        if name not in self._screens:
            module, _, class_name = view(name).screen.partition(":")
            screen_class = getattr(importlib.import_module(module), class_name)
            self._screens[name] = screen_class()
            self.install_screen(self._screens[name], name)
        screen = self._screens[name]
        if self.screen is not screen:
            if isinstance(self.screen, TooSmallScreen):
                self.pop_screen()
            self.switch_screen(name)
        return screen

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

    def action_undo_smallest(self) -> None:
        """Undo the smallest thing; never quits."""
        if self.whole_profile is None or self.reading_again:
            self.stop_loading()
            return
        screen = self.view_screen
        if screen is None or screen.undo_smallest() or screen.leave_level() or self._leave_view():
            return
        self.say("nothing to undo; q quits")

    # --- everywhere --------------------------------------------------------------------------------------------------

    def notify(self, message: str, **how: Any) -> None:
        """A passing message; the one before it goes, so that they never pile up over the rows."""
        self.clear_notifications()
        super().notify(message, **{"timeout": MESSAGE_SECONDS, **how})

    def say(self, message: str, *, severity: str = "information") -> None:
        """A passing message; the text is never markup."""
        seconds = MESSAGE_SECONDS if severity == "information" else WARNING_SECONDS
        self.notify(message, severity=cast("Any", severity), markup=False, timeout=seconds)

    def action_help_quit(self) -> None:
        """Say how to quit, to those who press ctrl+c."""
        self.say("Q quits, q goes back")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While something is typed, the footer leaves out the keys that would only be typed."""
        return not (isinstance(self.focused, Input) and action in TYPED_INSTEAD)

    def action_views_menu(self) -> None:
        """Menu of all views."""
        from tui.screens.views_menu import views_menu

        screen = self.view_screen
        if screen is None:
            return

        def chosen(name: str | None) -> None:
            if name:
                self.go(name)

        self.push_screen(views_menu(self.availability, screen.VIEW), chosen)

    def action_sessions_menu(self) -> None:
        """Choose the session that the views show."""
        from tui.screens.sessions_menu import ALL, sessions_menu

        if self.whole_profile is None:
            return
        if self.whole_profile["sessions"].height == 1:
            self.say("this input holds one session")
            return

        def chosen(session: str | None) -> None:
            if session is not None:
                self.choose_session(None if session == ALL else int(session))

        self.push_screen(sessions_menu(self.whole_profile, self.session), chosen)

    def action_help(self) -> None:
        """Help for the focused pane."""
        from tui.screens.help import HelpScreen

        screen = self.view_screen
        if screen is not None:
            self.push_screen(HelpScreen(screen, self.availability))

    def action_command_line(self) -> None:
        """Open the ``:`` command line."""
        screen = self.view_screen
        if screen is not None:
            screen.open_command_line()

    def run_line(self, line: str) -> None:
        """Run what was typed on the command line; a fault is said in words."""
        try:
            run_command(self, line)
        except CommandError as error:
            self.say(str(error), severity="error")

    def action_reload(self) -> None:
        """Read the files again."""
        if "-" in self.options.paths:
            self.say("standard input cannot be read twice", severity="warning")
            return
        if self.whole_profile is not None:
            self._stop_requested = False
            self._show_reading("reading again")
            self.load()

    def action_redraw(self) -> None:
        """Draw the whole screen anew."""
        self.refresh(layout=True)
        self.screen.refresh(layout=True)

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


def _lines(errors: Iterable[ProftuiError]) -> str:
    return "\n".join(str(error) for error in errors)


def run_app(options: OpenOptions) -> int:
    """Open the explorer.

    Returns:
        The exit status: 0, or 2 where nothing could be opened (the reasons are printed on standard error).
    """
    import sys

    from tui.text import plain

    app = ProftuiApp(options)
    app.run(mouse=options.mouse)
    for error in app.load_errors:
        print(f"proftui: {plain(str(error))}", file=sys.stderr)
    return app.return_code or (2 if app.load_errors else 0)
