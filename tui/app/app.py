"""The application: it owns the objects of this package, and has the actions that work in every view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.actions import SkipAction
from textual.app import App
from textual.binding import Binding
from textual.events import InputEvent, Key, MouseDown, Paste
from textual.widgets import Input, TextArea

from tui.app.comparison import Comparison
from tui.app.key_queue import KeyQueue
from tui.app.navigator import AppParts, Navigator
from tui.app.profile_loading import ProfileLoading
from tui.app.profile_session import ProfileSession
from tui.app.row_notes import RowNotes
from tui.app.session_restore import SessionRestore
from tui.app.shutdown import failure_of, handle_worker_memory_error, is_developing
from tui.commands import CommandPaletteProvider, command_names, run_command
from tui.keys import Scope, bindings_for, local_keys, unused_key_message
from tui.model.aggregation import Aggregation
from tui.model.errors import CommandError, ProftuiError
from tui.options import expand_user_path, path_exists
from tui.text import plain
from tui.textual_patches import TooSmallScreen, use_escape_parser, use_single_layouts
from tui.theme import DARK, LIGHT, PLAIN, SIXTEEN_DARK, SIXTEEN_LIGHT, theme_name, theme_variables
from tui.views import VIEWS
from tui.widgets.app_services import AppServices, copy_text, provide_services
from tui.widgets.dialogs.base import open_dialog
from tui.widgets.output_filters import output_filters
from tui.widgets.panel import Panel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType
    from textual.events import Event, Resize
    from textual.filter import LineFilter
    from textual.screen import Screen

    from tui.opening import OpenedProfiles
    from tui.options import OpenOptions
    from tui.screens.base import ViewScreen
    from tui.screens.explorer import Severity
    from tui.state.workspace import Arrangements
    from tui.widgets.input_bars import KeysReady
    from tui.widgets.table.pane import TablePane

MESSAGE_SECONDS: Final = 3.0
WARNING_SECONDS: Final = 8.0
"""How long a warning stays on the screen."""
MAX_MESSAGE_CHARACTERS: Final = 1_000
"""Longer messages are cut: they may quote typed text or the file."""
FIRST_VIEW: Final = "dashboard"
"""The view that opens once the files are read."""
PRINTABLE_FOOTER_ACTIONS: Final = frozenset({"help", "views_menu", "leave"})
"""Footer actions whose keys are printable: while a text is typed, they are letters."""
VIEW_KEYS: Final = frozenset(key for view in VIEWS for key in view.all_keys.split(",") if key)
IMMEDIATE_ACTIONS: Final = frozenset({"go", "command_line"})
"""Actions that run before the next key is handled: keys typed ahead belong to the view that they open."""


class _WidgetServices(AppServices):
    """The services of this application for tables and charts."""

    def __init__(self, app: ProftuiApp) -> None:
        self._app = app
        self.color = app.options.color

    @property
    def opened_name(self) -> str:  # type: ignore[override]
        """The open files as the user named them, for exports."""
        return self._app.profile_session.opened_name

    @property
    def global_filter(self) -> str:  # type: ignore[override]
        """The filter that applies to every view."""
        return self._app.profile_session.global_filter

    @property
    def arrangements(self) -> Arrangements:  # type: ignore[override]
        """The saved arrangements of tables."""
        return self._app.profile_session.arrangements

    def set_global_filter(self, text: str) -> bool:
        """Filter every view; an empty text removes the filter. Return whether it was applied."""
        try:
            self._app.profile_session.set_global_filter(text)
        except CommandError as error:
            self._app.say(str(error), severity="warning")
            return False
        return True

    def noted_keys(self, pane: TablePane) -> Sequence[tuple[object, ...]]:
        """Return the keys of the rows of a table that have notes."""
        return self._app.notes.noted_keys(pane)


class ProftuiApp(App[None]):
    """Opens profiles and moves between their views.

    Args:
        options: The options of the command line.
        opened: The content of its files, if they have been read already.
    """

    TITLE = "proftui"
    # The base class declares these two as variables of the instance.
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal"), (160, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012
    COMMANDS: ClassVar = {CommandPaletteProvider}
    BINDINGS: ClassVar = [
        *bindings_for(Scope.APP),
        # Over dialogs, only priority bindings are the application's.
        Binding("ctrl+c", "help_quit", "How to quit", show=False, system=True, priority=True),
        *(
            # A letter acts only if no nearer widget handles it: T in a table shows its row.
            Binding(key, f"go('{view.name}')", view.title, show=False, id=f"view.{view.name}", priority=key.isdecimal())
            for view in VIEWS
            for key in view.all_keys.split(",")
            if key
        ),
        # Last: the nearest binding of a key is used, of the focused widget, its screen or the application.
        *(Binding(key, f"explain_unused_key('{key}')", show=False) for key in local_keys() if key not in VIEW_KEYS),
    ]

    def __init__(self, options: OpenOptions, opened: OpenedProfiles | None = None) -> None:
        super().__init__(css_path="app.tcss", ansi_color=True if options.color == "none" else None)
        self.options = options
        self.next_input: tuple[OpenOptions, OpenedProfiles] | None = None
        """The input to open after this application ends."""
        views: dict[str, ViewScreen] = {}
        say = self.say
        self.profile_session = ProfileSession(self, options, views, say)
        self.navigator = Navigator(self, self.profile_session, views, say)
        self.key_queue = KeyQueue(self, self.navigator, super().on_event)
        parts = AppParts(self, options, self.profile_session, self.navigator, views, say)
        self.session_restore = SessionRestore(parts)
        self.notes = RowNotes(parts, self.session_restore)
        self.comparison = Comparison(parts)
        self.profile_loading = ProfileLoading(parts, self._files_loaded, opened, self._home_shown)
        self.navigator.on_shown = self.session_restore.view_shown
        provide_services(self, _WidgetServices(self))
        self._output_filters = output_filters(options.color, ascii_only=options.ascii_only)
        self._use_theme()

    def _use_theme(self) -> None:
        for theme in (DARK, LIGHT, SIXTEEN_DARK, SIXTEEN_LIGHT, *PLAIN):
            self.register_theme(theme)
        self.theme = theme_name(self.options.theme, self.options.color)
        use_escape_parser()
        use_single_layouts()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the colors of kinds of work and of the selection, for every theme."""
        return theme_variables()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return Textual's filters, and those that adapt drawing to the terminal."""
        return [*super().get_line_filters(), *self._output_filters]

    # --- events ------------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        """Show the shell, and read the files."""
        self.screen_change_signal.subscribe(self, self._screen_changed, immediate=True)
        self.navigator.idle.start()
        self.profile_loading.start()

    def on_unmount(self) -> None:
        """Finish or abort pending writes."""
        self.profile_loading.stop_caching()
        self.navigator.idle.stop()

    async def on_event(self, event: Event) -> None:
        """Queue every key, so that keys act in their order."""
        if isinstance(event, InputEvent):
            self.navigator.idle.busy()
            if isinstance(event, Key | MouseDown):
                self.session_restore.remove_offer()
        if isinstance(event, Key | Paste) and not event.is_forwarded:
            await self.key_queue.receive(event)
        else:
            await super().on_event(event)

    async def on_keys_ready(self, event: KeysReady) -> None:
        """Release keys whose wait has ended."""
        if event.is_cancelled:
            self.key_queue.discard()
        await self.key_queue.release()

    def on_resize(self, event: Resize) -> None:
        """Ask for a larger terminal if there is too little room."""
        self.navigator.fit(event.size)

    def on_table_pane_note_requested(self, event: TablePane.NoteRequested) -> None:
        """Ask for the text of a note."""
        self.notes.write_row_note(event.pane, event.row)

    def _screen_changed(self, screen: Screen[Any]) -> None:
        self.key_queue.screen_changed(screen)
        self.navigator.screen_changed(screen)

    def _home_shown(self) -> None:
        self.key_queue.loaded()
        self.call_after_refresh(self.key_queue.release)

    def _files_loaded(self, is_first: bool) -> None:
        self.session_restore.files_changed()
        self.notes.files_changed()
        if is_first:
            self.go(FIRST_VIEW)
            self.key_queue.loaded()
            self.call_after_refresh(self.key_queue.release)
            self.session_restore.offer()

    # --- interface for views and commands ----------------------------------------------------------------------------

    @property
    def view_screen(self) -> ViewScreen | None:
        """The view that is shown, below any dialog; None while files are read."""
        return self.navigator.view_screen

    def go(self, name: str, arrange: Callable[[ViewScreen], None] | None = None) -> None:
        """Go to a view.

        Args:
            name: The view's name.
            arrange: Called with its screen once that is shown (to filter it, or to select a row).
        """
        self.navigator.go(name, arrange)

    def notify(self, message: str, **options: Any) -> None:
        """Show a message in place of the previous one, so that messages never cover the rows."""
        self.clear_notifications()
        super().notify(message, **{"timeout": MESSAGE_SECONDS, **options})

    def say(self, message: str, *, severity: Severity = "information") -> None:
        """Show a message for a few seconds; the text is not markup, and its beginning is always visible."""
        if len(message) > MAX_MESSAGE_CHARACTERS:
            message = f"{message[: MAX_MESSAGE_CHARACTERS - 1]}…"
        seconds = MESSAGE_SECONDS if severity == "information" else WARNING_SECONDS
        self.notify(message, severity=severity, markup=False, timeout=seconds)

    def run_line(self, line: str) -> None:
        """Run a line of the command line; an error is shown."""
        try:
            run_command(self, line)
        except CommandError as error:
            self.say(str(error), severity="error")

    def command_names(self) -> list[str]:
        """Return the first words of all commands."""
        return command_names()

    def open_file(self, path: str) -> None:
        """Read another file and open it in place of this one; if it cannot be read, report why.

        Raises:
            CommandError: There is no such file.
        """
        if not path_exists(path):
            raise CommandError(f"No such file: {plain(path)}")

        self.open_files((str(expand_user_path(path).absolute()),))

    def open_files(self, paths: tuple[str, ...]) -> None:
        """Read other files together and open them in place of the current ones."""

        def show(options: OpenOptions, opened: OpenedProfiles) -> None:
            self.next_input = options, opened
            self.exit()

        self.profile_loading.open_other(paths, show)

    def stop_opening(self) -> bool:
        """Stop reading another file; False if none is being read."""
        return self.profile_loading.stop()

    def forget(self) -> None:
        """Delete what is saved for these files."""
        self.notes.forget()

    def exit(self, *arguments: Any, **keywords: Any) -> None:
        """Save the current position, then exit."""
        self.session_restore.save()
        super().exit(*arguments, **keywords)

    def save(self) -> None:
        """Stop caching, and write arrangements and notes."""
        self.profile_loading.stop_caching()
        self.arrangements.write()
        self.notes.store.write()

    @property
    def arrangements(self) -> Arrangements:
        """How tables were arranged."""
        return self.profile_session.arrangements

    # --- actions -----------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide footer keys that would be typed into a text input.

        Priority keys are only for views, not for dialogs over them.
        """
        if (
            action in IMMEDIATE_ACTIONS
            and self.screen is not self.view_screen
            and not self.profile_loading.is_home(self.screen)
        ):
            return False
        if action == "views_menu" and self.profile_session.whole_profile is None:
            return False
        return action not in PRINTABLE_FOOTER_ACTIONS | IMMEDIATE_ACTIONS or self.focused is None or not self._is_typing

    @property
    def _is_typing(self) -> bool:
        """Return whether a printable key is being typed into a text input."""
        return isinstance(self.focused, Input | TextArea)

    def action_go(self, name: str) -> None:
        """Go to a view by its name."""
        self.go(name)

    def action_leave(self) -> None:
        """Go up a level, or back to the previous view; at the first view, quit."""
        if not self.navigator.leave():
            self.exit()

    def action_go_back(self) -> None:
        """Go up a level, or back to the previous view."""
        if not self.navigator.leave():
            self.say("This is the first view. q quits.")

    def action_history_back(self) -> None:
        """Go back in the history."""
        self.navigator.back()

    def action_history_forward(self) -> None:
        """Go forward in the history."""
        self.navigator.forward()

    def action_last_view(self) -> None:
        """Go to the previous view."""
        self.navigator.last_view()

    def action_undo_smallest(self) -> None:
        """Stop what is running, else clear marks, search or filter; never quits."""
        if not (self.comparison.stop() or self.profile_loading.stop() or self.navigator.undo()):
            self.say("Nothing to undo. q quits.")

    def action_reload(self) -> None:
        """Read the files again."""
        self.profile_loading.load_again()

    def action_resume(self) -> None:
        """Go back to the position at which the file was last closed."""
        self.session_restore.resume()

    def action_compare(self) -> None:
        """Choose what to compare with."""
        self.comparison.ask()

    def action_write_note(self) -> None:
        """Explain where notes can be written: there are no rows here."""
        self.say("Notes attach to rows and to dashboard panels.")

    def action_command_line(self) -> None:
        """Open the ``:`` command line."""
        screen = self.view_screen
        if screen is not None:
            screen.open_command_line()
        else:
            self.say("Open a profile first.")

    def action_help(self) -> None:
        """Show help for the focused pane."""
        from tui.screens.help import HelpScreen

        screen = self.view_screen
        if screen is not None:
            open_dialog(self, HelpScreen(screen, self.navigator.availability))

    def action_command_palette(self) -> None:
        """Find any action by its name."""
        from tui.screens.menus import Palette

        if not isinstance(self.screen, Palette):
            open_dialog(self, Palette(in_reverse=self.options.color == "none"))

    def action_views_menu(self) -> None:
        """Show a menu of all views."""
        self._open_views_menu(is_unfolded=False)

    def _open_views_menu(self, *, is_unfolded: bool) -> None:
        from tui.screens.menus import SHOW_UNRECORDED, views_menu

        screen = self.view_screen
        if screen is None:
            return

        def chosen(name: str | None) -> None:
            if name == SHOW_UNRECORDED:
                self._open_views_menu(is_unfolded=True)
            elif name:
                self.go(name)

        views = self.navigator.availability
        menu = views_menu(views, screen.VIEW, width=self.size.width, is_unfolded=is_unfolded)
        open_dialog(self, menu, chosen)

    def action_jump(self) -> None:
        """Label every panel and table of the screen with a letter to jump to."""
        from tui.screens.menus import JumpLabels

        screen = self.screen
        if screen.is_modal:
            return
        widgets = [
            widget for widget in screen.focus_chain if widget.region.area and not isinstance(widget, Input | TextArea)
        ]
        if len(widgets) == 1:
            self.say("This screen has one panel.")
            return

        def chosen(index: int | None) -> None:
            if index is not None:
                screen.set_focus(widgets[index])

        targets = [
            next((node for node in widget.ancestors_with_self if isinstance(node, Panel)), widget) for widget in widgets
        ]
        open_dialog(self, JumpLabels([target.region for target in targets]), chosen)

    def action_sessions_menu(self) -> None:
        """Choose the session that the views show."""
        from tui.screens.menus import ALL, sessions_menu

        profile = self.profile_session.whole_profile
        if profile is None:
            return
        if profile["sessions"].height == 1:
            self.say("This profile has only one session.")
            return

        def chosen(session: str | None) -> None:
            if session is not None:
                self.profile_session.choose_session(None if session == ALL else int(session))

        open_dialog(self, sessions_menu(profile, self.profile_session.session), chosen)

    def action_aggregations_menu(self) -> None:
        """Choose one of the aggregations made so far."""
        from tui.screens.menus import ALL, aggregations_menu

        session = self.profile_session
        if session.whole_profile is None:
            return
        session.remember_aggregation(None)

        def chosen(index: str | None) -> None:
            if index is not None:
                session.choose_iterations(Aggregation() if index == ALL else session.aggregations[int(index)].chosen)

        open_dialog(self, aggregations_menu(session.aggregations, session.aggregation), chosen)

    def action_explain_unused_key(self, key: str) -> None:
        """Explain that a key does nothing here, and where it works."""
        if self.view_screen is self.screen:
            self.say(unused_key_message(key), severity="warning")

    def action_help_quit(self) -> None:
        """Explain how to quit after ctrl+c; if text is selected, copy it.

        Raises:
            SkipAction: Something is selected.
        """
        if getattr(self.focused, "selected_text", "") or self.screen.get_selected_text():
            raise SkipAction
        if isinstance(self.screen, TooSmallScreen):
            self.say("Q quits.")
        elif self.screen.is_modal:
            self.say("ctrl+q quits, esc closes this.")
        elif self.profile_session.whole_profile is None:
            self.say("Q quits, esc stops and keeps partial data.")
        elif self._is_typing:
            self.say("ctrl+q quits, esc ends typing.")
        else:
            self.say("Q quits, q goes back.")

    def action_copy_command(self) -> None:
        """Copy the command that prints what is on the screen."""
        from tui.screens.copied_command import copied_command

        screen = self.view_screen
        if screen is None:
            return
        try:
            command = copied_command(screen, getattr(self.screen, "command_options", ()))
        except (CommandError, ProftuiError) as error:
            self.say(str(error), severity="warning")
        else:
            self.say(f"{command}\n{copy_text(self, command)}")

    def action_redraw(self) -> None:
        """Draw the whole screen again."""
        self.refresh(layout=True)
        self.screen.refresh(layout=True)

    # --- errors ------------------------------------------------------------------------------------------------------

    @property
    def internal_error(self) -> Exception | None:
        """The internal error, if there was one."""
        return failure_of(self._exception)

    def _handle_exception(self, error: Exception) -> None:
        """Keep the exception for the caller, and exit."""
        if handle_worker_memory_error(self, error):
            return
        if is_developing():
            super()._handle_exception(error)
            return
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self._close_messages_no_wait()

    def panic(self, *renderables: RenderableType) -> None:
        """Handle a failure in one of Textual's own threads."""
        if is_developing():
            super().panic(*renderables)
            return
        self._handle_exception(RuntimeError("the thread that reads the terminal failed"))


def run_app(options: OpenOptions, report_failure: Callable[[Exception], int]) -> int:
    """Open the explorer.

    Args:
        options: The options of the command line.
        report_failure: Called with an internal error after the terminal is restored; returns the exit status.

    Returns:
        The exit status: 0, or 2 if nothing could be opened (the reasons are printed on standard error).
    """
    app = ProftuiApp(options)
    status = _run(app, report_failure)
    while app.next_input is not None:
        app = ProftuiApp(*app.next_input)
        status = _run(app, report_failure)
    return status


def _run(app: ProftuiApp, report_failure: Callable[[Exception], int]) -> int:
    import sys

    from tui.app.shutdown import run_app_loop

    def finish() -> int:
        app.save()
        for error in app.profile_loading.errors:
            print(f"proftui: {plain(str(error))}", file=sys.stderr)
        if app.internal_error is not None and not is_developing():
            app.next_input = None
            return report_failure(app.internal_error)
        return app.return_code or (2 if app.profile_loading.errors else 0)

    return run_app_loop(
        app, mouse=app.options.mouse, save=app.save, finish=finish, is_last=lambda: app.next_input is None
    )
