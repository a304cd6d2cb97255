"""The application: themes, loading, navigation between views, and the actions that work everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.actions import SkipAction
from textual.binding import Binding
from textual.scrollbar import ScrollBar, ScrollBarRender

from tui.app.comparing import ComparingApp
from tui.app.faults import FaultsApp, is_developing
from tui.app.styles import KeptStylesheet
from tui.commands import CommandError, ProftuiProvider, run_command
from tui.keys import Scope, bindings_for
from tui.model.aggregation import Aggregation
from tui.screens.too_small import TooSmallScreen
from tui.theme import DARK, LIGHT, PLAIN, SIXTEEN_DARK, theme_name
from tui.views import VIEWS
from tui.widgets.ascii_scrollbar import AsciiScrollBarRender

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.options import OpenOptions

TYPED_INSTEAD: Final = frozenset({"help", "views_menu", "leave"})
"""Actions of printable keys in the footer."""
AT_ONCE: Final = frozenset({"go", "command_line"})
"""Actions that are carried out before the next key is looked at: what is typed ahead belongs to where they lead."""


class ProftuiApp(FaultsApp, ComparingApp):
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
        # Over dialogs only keys that come before theirs are the application's.
        Binding("ctrl+c", "help_quit", "How to quit", show=False, system=True, priority=True),
        *(
            Binding(v.key, f"go('{v.name}')", v.title, show=False, id=f"view.{v.name}", priority=True)
            for v in VIEWS
            if v.key
        ),
    ]

    def __init__(self, options: OpenOptions) -> None:
        super().__init__(options)
        for theme in (DARK, LIGHT, SIXTEEN_DARK, *PLAIN):
            self.register_theme(theme)
        self.theme = theme_name(options.theme, options.color)
        self.stylesheet = KeptStylesheet(self.get_css_variables())
        ScrollBar.renderer = AsciiScrollBarRender if self.ascii_only else ScrollBarRender
        if self.ascii_only:
            self.add_class("-ascii")

    def action_help_quit(self) -> None:
        """Say how to quit, to those who press ctrl+c: by a key that does so where they are. What is selected is copied.

        Raises:
            SkipAction: Something is selected.
        """
        if getattr(self.focused, "selected_text", "") or self.screen.get_selected_text():
            raise SkipAction
        if isinstance(self.screen, TooSmallScreen):
            self.say("Q quits")
        elif self.screen.is_modal:
            self.say("ctrl+q quits, esc leaves this")
        elif self.whole_profile is None:
            self.say("Q quits, esc stops and keeps what is there")
        elif self._is_typed_into:
            self.say("ctrl+q quits, esc ends the typing")
        else:
            self.say("Q quits, q goes back")

    @property
    def _is_typed_into(self) -> bool:
        """Whether a printable key is a letter of something that is being typed."""
        from textual.widgets import Input, TextArea

        return isinstance(self.focused, (Input, TextArea))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While something is typed, the footer leaves out the keys that would only be typed.

        Keys that act before the focused widget sees them are for views alone, not for dialogs over them.
        """
        if action in AT_ONCE and self.screen is not self.view_screen:
            return False
        return action not in TYPED_INSTEAD | AT_ONCE or self.focused is None or not self._is_typed_into

    def action_command_palette(self) -> None:
        """Find any action by its name."""
        from tui.screens.palette import Palette

        if not Palette.is_open(self):
            self.push_screen(Palette(in_reverse=self.options.color == "none"))

    def action_views_menu(self) -> None:
        """Menu of all views."""
        from tui.screens.views_menu import views_menu

        screen = self.view_screen
        if screen is None:
            return

        def chosen(name: str | None) -> None:
            if name:
                self.go(name)

        self.push_screen(views_menu(self.availability, screen.VIEW, width=self.size.width), chosen)

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

    def action_aggregations_menu(self) -> None:
        """Choose one of the aggregations made so far."""
        from tui.screens.aggregations_menu import ALL, aggregations_menu

        if self.whole_profile is None:
            return
        self.remember_aggregation(None)

        def chosen(place: str | None) -> None:
            if place is not None:
                self.choose_iterations(Aggregation() if place == ALL else self.aggregations[int(place)].chosen)

        self.push_screen(aggregations_menu(self.aggregations, self.aggregation), chosen)

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


def run_app(options: OpenOptions, tell_of_fault: Callable[[Exception], int]) -> int:
    """Open the explorer.

    Args:
        options: What the command line asked for.
        tell_of_fault: Called, when the terminal is as it was, with what failed in the program itself; gives the status.

    Returns:
        The exit status: 0, or 2 where nothing could be opened (the reasons are printed on standard error).
    """
    import sys

    from tui.app.ending import run_to_end
    from tui.text import plain

    app = ProftuiApp(options)

    def save() -> None:
        app.stop_keeping()
        app.arrangements.write()
        app.notes.write()

    def finish() -> int:
        save()
        for error in app.load_errors:
            print(f"proftui: {plain(str(error))}", file=sys.stderr)
        if app.fault is not None and not is_developing():
            return tell_of_fault(app.fault)
        return app.return_code or (2 if app.load_errors else 0)

    return run_to_end(app, mouse=options.mouse, save=save, finish=finish)
