"""The base of all views: crumbs, details of a row, the command line, and the position to return to."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from textual import on
from textual.actions import parse
from textual.containers import Container
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, TextArea

from tui.analysis.issues import NO_LINE, issue_counts, row_source, severity_counts
from tui.analysis.iterations.chosen_iterations import existing_range_text, iterations_text
from tui.analysis.memo import once_per_profile
from tui.analysis.sessions import rank_texts
from tui.cache.spill import low_memory
from tui.model.errors import OUT_OF_MEMORY_HINT, CommandError
from tui.model.history import Place
from tui.runtime import release_freed_memory
from tui.text_width import clip_middle
from tui.textual_patches import ChangedLinesCompositor, draw_once, set_size_classes, skip_small_layouts
from tui.views import view
from tui.widgets.app_services import call_after
from tui.widgets.details import ROW_ACTIONS, DetailLoader, DetailPane, Details, row_details, sections, with_note
from tui.widgets.header_footer import Breadcrumbs, KeyFooter
from tui.widgets.input_bars import CommandBar
from tui.widgets.output_filters import DrawsAhead
from tui.widgets.panel import WarningLine
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import polars as pl
    from textual.app import ComposeResult
    from textual.css.query import DOMQuery
    from textual.dom import DOMNode
    from textual.events import ScreenResume

    from tui.keys import Action
    from tui.model.profile import Profile
    from tui.model.table_spec import TableState
    from tui.screens.explorer import Explorer


MAX_ROWS_WITHOUT_THREAD: Final = 300_000
"""With more launches, calls and ops, what a view shows is computed in a thread: it can take longer than 0.1 s."""
CHECK_EVERY_S: Final = 0.02
"""How often to check whether the rows of a view are computed."""
WORKING: Final = "Computing…"
WORKING_DETAILS: Final = sections([("", [("", WORKING, "")])])
ITERATION_KEY_CELLS: Final = 24
"""The width of the key that iterations end with, in the line of facts."""


def is_large(profile: Profile) -> bool:
    """Return whether computing what a view shows can take longer than a key may."""
    return sum(profile[name].height for name in ("activities", "api_calls", "ops")) > MAX_ROWS_WITHOUT_THREAD


@once_per_profile("issues")
def issue_summary(whole_profile: Profile) -> str:
    """Return the number of warnings and errors, the most severe first; empty if there are none."""
    numbers = issue_counts(whole_profile)
    counts = severity_counts({name: number for name, number in numbers.items() if name != "info"})
    return f"issues: {counts}" if counts else ""


class ViewBody(Widget):
    """The widgets of a view below its first line. A view owns one and asks it for the position of the user.

    This one is empty: it belongs to views that compose widgets of their own.
    """

    DEFAULT_CSS = """
    ViewBody { height: 1fr; width: 1fr; }
    """

    @property
    def view(self) -> ViewScreen:
        """The view that it belongs to."""
        return cast("ViewScreen", self.screen)

    def populate(self) -> None:
        """Fill the tables from the profile of the view."""

    @property
    def table(self) -> TablePane | None:
        """The table for keys and commands if none has the focus; None for the first shown one."""
        return None

    @property
    def is_filling(self) -> bool:
        """Whether rows of its tables are still being computed."""
        return False

    def show_failure(self, text: str) -> None:
        """Show why rows could not be computed."""

    def path(self) -> list[str]:
        """Return the crumbs below the view's own."""
        return []

    @property
    def level(self) -> str:
        """The table that the user is in, if there are several below each other."""
        return ""

    def restore_level(self, level: str) -> None:
        """Return to a table."""

    def restore_tab(self, level: str) -> None:
        """Return to the tab that a table is in, if there are several."""

    def pending_states(self) -> tuple[tuple[str, TableState], ...]:
        """Return the states of tables that have not been created yet, by the ids of their panes."""
        return ()

    def keep_pending_state(self, pane_id: str, state: TableState) -> bool:
        """Store the state of a table that has not been created yet; return whether that is so."""
        return False

    def show_first_tab(self) -> None:
        """Show the first tab with data, if there are several."""

    @property
    def has_level_above(self) -> bool:
        """Whether `leave_level` stays within the view."""
        return False

    def leave_level(self) -> bool:
        """Go up one level within the view; False at the top level."""
        return False


WIDE_CELLS: Final = 100
"""From this width on, a screen has room for details beside the rows."""


@draw_once
@skip_small_layouts
class ViewScreen(Screen[None]):
    """A view of the profile.

    A subclass makes its body, or composes its own widgets and fills them in `populate`. It provides texts for the help.
    """

    VIEW: ClassVar[str]
    """The name of the view in `tui.views`."""

    HELP: ClassVar[str] = ""
    """Three lines for the help: what the view shows and where its numbers come from."""

    @classmethod
    def for_view(cls, name: str) -> ViewScreen:
        """Return the screen of a view; a class that serves several views needs its name."""
        del name
        return cls()

    is_prepared: bool = False
    """Whether it was created in advance; it is filled when it is shown."""

    has_widgets: bool = False
    """Whether its widgets are mounted."""

    _is_outdated: bool = False
    """Whether another profile has been chosen since it was filled."""

    _focus_to_restore: Widget | None = None
    """The focused widget before a command was typed."""

    _has_opened_details: bool = False
    """Whether the details opened by themselves."""

    _details_source: tuple[pl.DataFrame, dict[str, Any]] | None = None
    """The table and the row that the details describe."""

    _styled_for: tuple[object, ...] = ()
    """The state on which the styles of widgets depended when they were last computed."""

    def __init__(self) -> None:
        super().__init__()
        self._compositor = ChangedLinesCompositor()
        self._detail_loader = DetailLoader(self, WORKING_DETAILS)
        self.body = self.make_body()

    @property
    def explorer(self) -> Explorer:
        """The application."""
        return cast("Explorer", self.app)

    @property
    def profile(self) -> Profile:
        """The profile to show."""
        return self.explorer.profile_session.profile

    @property
    def is_large(self) -> bool:
        """Whether computing what it shows can take longer than a key may."""
        return is_large(self.profile)

    @property
    def panes(self) -> DOMQuery[TablePane]:
        """Its tables, including hidden ones."""
        return self.query(TablePane)

    @property
    def is_filling(self) -> bool:
        """Whether what it shows is still being computed."""
        is_computing = any(
            not worker.is_finished and self in worker.node.ancestors_with_self for worker in self.workers
        )
        return self.explorer.profile_session.is_choosing or is_computing or self.body.is_filling

    def when_filled(self, call: Callable[[], None]) -> None:
        """Call a function now, or when what the view shows is computed; never if that fails or the view is left."""
        if not self.is_attached or self.explorer.view_screen is not self or self._is_outdated:
            return
        if self.is_filling:
            call_after(self, CHECK_EVERY_S, partial(self.when_filled, call))
        else:
            call()

    @property
    def table(self) -> TablePane | None:
        """The table for keys and commands: the focused one, else that of the body, else the first shown."""
        focused: DOMNode | None = self.focused
        while focused is not None:
            if isinstance(focused, TablePane):
                return focused
            focused = focused.parent
        return self.body.table or self.first_table

    def compose(self) -> ComposeResult:
        """Yield the crumbs, the body with the details, the command line and the footer."""
        set_size_classes(self, self.app.size)
        yield Breadcrumbs(id="crumbs")
        yield WarningLine(id="warning")
        with Container(id="work"):
            with Container(id="body"):
                yield from self.compose_body()
            yield DetailPane(id="detail")
        yield CommandBar(self.explorer.command_names(), id="command-bar")
        yield KeyFooter(self._leaving_quits)

    def make_body(self) -> ViewBody:
        """Return the body of the view; an empty one if the view composes widgets of its own."""
        return ViewBody()

    def compose_body(self) -> Iterable[Widget]:
        """Yield the widgets of the view."""
        yield self.body

    def populate(self) -> None:
        """Fill the widgets from `profile`."""
        self.body.populate()

    def on_mount(self) -> None:
        """Fill the view when its widgets are mounted; each has computed its styles by then."""
        self._styled_for = self._style_state()
        self.has_widgets = True
        self._is_outdated = self.is_prepared
        # An application that is shutting down mounts no widgets.
        if not self.is_prepared and self.app.return_code is None:
            self._show_profile()

    def _show_profile(self) -> None:
        """Fill the view, with the details that open by themselves."""
        self.populate()
        self.show_crumbs()
        pane = self.first_table
        if pane is not None and pane.current_row is not None:
            self._open_initial_details(pane, pane.current_row)

    def on_screen_resume(self, event: ScreenResume) -> None:
        """Update styles only if they may have changed: that takes as long as drawing everything."""
        event.refresh_styles = event.refresh_styles and self._style_state() != self._styled_for

    def _style_state(self) -> tuple[object, ...]:
        return self.app.theme, self.app.app_focus, self.app.size, self.app.classes

    def on_screen_suspend(self) -> None:
        """Release drawn lines of a hidden view, if the input may exceed memory."""
        self._styled_for = self._style_state()
        if low_memory():
            for widget in self.walk_children(Widget):
                widget.refresh()
            release_freed_memory()

    def profile_changed(self) -> None:
        """Show another profile: at once if the view is on the screen, else when it is shown."""
        self._is_outdated = True
        if self.explorer.view_screen is self:
            self.catch_up()

    def catch_up(self) -> None:
        """Show the current profile, if an earlier one is shown."""
        if self._is_outdated and self.has_widgets and self.is_attached:
            self._is_outdated = False
            self.query_one(WarningLine).show("")
            self._show_profile()

    def draw_ahead(self) -> bool:
        """Draw a part of what the next key may show; return whether there is more."""
        focused: object = self.focused
        return isinstance(focused, DrawsAhead) and focused.draw_ahead()

    def must_wait(self, key: str) -> bool:
        """Return whether a key has to wait because the view is still computing what it acts on.

        Args:
            key: Its name.
        """
        return False

    def show_failure(self, text: str) -> None:
        """Show why something of the view could not be computed; the next visit retries.

        Args:
            text: The missing resource, such as memory.
        """
        if not (self.has_widgets and self.is_attached):
            return
        self.body.show_failure(text)
        self._is_outdated = True
        self.query_one(WarningLine).show(f"{view(self.VIEW).title}: {text}; {OUT_OF_MEMORY_HINT}")

    def global_filter_changed(self) -> None:
        """Apply another global filter, or none."""
        if self.has_widgets and self.is_attached:
            for pane in self.panes:
                pane.apply_again()
            self.show_crumbs()

    def _leaving_quits(self) -> bool:
        return not self.explorer.navigator.history.has_view_before and self.has_widgets and not self.has_level_above

    # --- position ----------------------------------------------------------------------------------------------------

    def path(self) -> list[str]:
        """Return the crumbs below the view's own."""
        return self.body.path()

    def show_crumbs(self) -> None:
        """Update the first line."""
        whole_profile = self.explorer.profile_session.whole_profile
        if whole_profile is None or not self.has_widgets:
            return
        self.query_one(Breadcrumbs).show(
            [self.explorer.profile_session.profile_name, view(self.VIEW).title, *self.path()],
            self._facts(whole_profile),
        )

    def _facts(self, whole_profile: Profile) -> list[str]:
        profile_session = self.explorer.profile_session
        sessions, session = whole_profile["sessions"].height, profile_session.session
        return [
            *profile_session.progress.values(),
            f"filter: {profile_session.global_filter} (all views)" if profile_session.global_filter else "",
            f"partial: {whole_profile.partial}" if whole_profile.partial else "",
            issue_summary(whole_profile),
            ""
            if sessions == 1
            else f"all {sessions} sessions"
            if session is None
            else f"session {session} of {sessions}",
            existing_range_text(profile_session.profile),
            f"key {clip_middle(profile_session.aggregation.key, ITERATION_KEY_CELLS)}"
            if profile_session.aggregation.key
            else "",
            self._rank(whole_profile, session if sessions > 1 else 0),
        ]

    def about(self, title: str) -> dict[str, str]:
        """Return the description of a table for exports, as arguments of `tui.output.export.About`."""
        whole_profile, session = self.explorer.profile_session.whole_profile, self.explorer.profile_session.session
        has_several_sessions = whole_profile is not None and whole_profile["sessions"].height > 1
        path = " > ".join(crumb for crumb in self.path() if crumb.lower() != title.lower())
        parts = (path, f"session {session}" if has_several_sessions and session is not None else "")
        return {
            "of": ", ".join(part for part in parts if part),
            "aggregation": iterations_text(self.profile),
            "partial": whole_profile.partial if whole_profile is not None else "",
        }

    @staticmethod
    def _rank(whole_profile: Profile, session: int | None) -> str:
        """Return the rank of the shown session."""
        if session is None or not 0 <= session < whole_profile["sessions"].height:
            return ""
        return rank_texts(whole_profile)[session] or ""

    def place(self) -> Place:
        """Return the current position in this view, to return to later."""
        states = [(pane.id or "", pane.state) for pane in self.panes]
        return Place(self.VIEW, self.body.level, (*states, *self.body.pending_states()))

    def restore(self, place: Place) -> None:
        """Return to a position."""
        self.body.restore_tab(place.level)
        for pane_id, state in place.states:
            if self.body.keep_pending_state(pane_id, state):
                continue
            pane = self.query_one(f"#{pane_id}", TablePane)
            # A table in the same state needs no redraw.
            if pane.state != state:
                pane.state = state
        self.body.restore_level(place.level)

    @property
    def has_level_above(self) -> bool:
        """Whether `leave_level` stays within the view."""
        return (self.query_one(DetailPane).is_open and not self._has_own_details) or self.body.has_level_above

    def leave_level(self) -> bool:
        """Go up one level within the view; False at the top level."""
        detail = self.query_one(DetailPane)
        if detail.is_open and not self._has_own_details:
            detail.close()
            self.focus_table()
            return True
        return self.body.leave_level()

    def opens_details(self, pane: TablePane) -> bool:
        """Return whether details of the table's rows are open from the start, if there is room."""
        del pane
        return False

    @property
    def _has_own_details(self) -> bool:
        """Whether the details are part of the view, and close with it."""
        return self._has_opened_details and self.app.size.width >= WIDE_CELLS

    def on_detail_pane_covered(self) -> None:
        """Close details that opened by themselves before they cover the table."""
        detail = self.query_one(DetailPane)
        if self._has_opened_details and detail.is_open:
            self._has_opened_details = False
            detail.close()
            self.focus_table()

    def on_detail_pane_uncovered(self) -> None:
        """Return the focus to the table when the details are beside it again."""
        self.focus_table()

    def undo_smallest(self) -> bool:
        """Clear marks, search or filter within the view; False if there is nothing to clear."""
        if self.query_one("#command-bar").has_class("-open"):
            self.query_one(CommandBar).action_close()
            return True
        pane = self.table
        return pane is not None and pane.undo_smallest()

    def help_entries(self) -> list[tuple[str, str]]:
        """Return the first entries of the help: what is under the cursor, and what that means."""
        return []

    def legend(self) -> list[tuple[str, str, str]]:
        """Return the symbols of the view, their meanings and colors, for the help."""
        return []

    # --- tables ------------------------------------------------------------------------------------------------------

    def chosen_iterations(self) -> list[int]:
        """Return the iterations of the marked rows, if the table lists iterations."""
        pane = self.table
        if pane is None or "iteration" not in pane.spec.key:
            return []
        marked = pane.model.marked_rows(all_columns=True)
        return marked["iteration"].drop_nulls().to_list() if "iteration" in marked.columns else []

    def focus_table(self) -> None:
        """Give the focus to the table that keys are for."""
        if self.table is not None:
            self.table.focus_table()

    def action_target(self, action: str) -> DOMNode | None:
        """Return the widget that runs a Textual action: the screen if it is named, else the first that has it."""
        namespace, name, _ = parse(action)
        nodes = [self] if namespace == "screen" else self._action_nodes()
        return next((node for node in nodes if hasattr(node, f"action_{name}") and node is not self.app), None)

    def reachable_actions(self, actions: Sequence[Action]) -> list[Action]:
        """Return the actions that have a key here, without those whose keys run others of them."""
        active = {bound.binding.id for bound in self.active_bindings.values()}
        # An action of the screen may have a key only at another widget, in another view.
        actions = [action for action in actions if action.id in active or not action.method.startswith("screen.")]
        actions_by_key: dict[str, Action] = {}
        for action in sorted(actions, key=lambda action: action.id not in active):
            for key in filter(None, action.keys.split(",")):
                actions_by_key.setdefault(key, action)
        return [action for action in actions if action in actions_by_key.values()]

    def _action_nodes(self) -> list[DOMNode]:
        """Return the widgets that may run an action: from the focused one outwards, then those of the main table."""
        focused = self.focused
        ancestors = list(focused.ancestors_with_self) if focused is not None else []
        table_widgets = list(self.table.walk_children(with_self=True)) if self.table is not None else []
        return [*ancestors, *table_widgets]

    def main_table(self) -> TablePane:
        """Return the table that commands are for.

        Raises:
            CommandError: There is none.
        """
        if self.table is None:
            raise CommandError("No table in this view.")
        return self.table

    def filter_table(self, text: str) -> None:
        """Filter the main table."""
        self.main_table().set_filter(text)

    def show_only(self, query: str) -> None:
        """Show only the rows of a filter in the first table, for links from other views."""
        while self.leave_level():
            pass
        if self.first_table is not None:
            self.first_table.set_filter(query)
        elif query:
            self.filter_table(query)

    @property
    def first_table(self) -> TablePane | None:
        """The first shown table, even before it has the focus."""
        return next((pane for pane in self.panes if pane.display), None)

    def choose_grouping(self, text: str) -> None:
        """Group the first table by a grouping that the user names."""
        raise CommandError(f"Cannot group by {text} here. Ops and Kernels and Group Ops can.")

    def find_in_table(self, text: str) -> None:
        """Find in the main table."""
        self.main_table().set_find(text)

    @on(TablePane.RowOpened)
    def _row_opened(self, event: TablePane.RowOpened) -> None:
        self.open_row(event.pane, event.row)

    def open_row(self, pane: TablePane, row: dict[str, Any]) -> None:
        """Open a row; by default, show its details."""
        self._toggle_row_details(pane, row)

    # --- details of a row --------------------------------------------------------------------------------------------

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return the details of a row: all values in full. Called in a thread for large profiles."""
        return row_details(pane.spec, row, frame=pane.frame)

    @on(TablePane.DetailRequested)
    def _detail_requested(self, event: TablePane.DetailRequested) -> None:
        self._toggle_row_details(event.pane, event.row)

    def _toggle_row_details(self, pane: TablePane, row: dict[str, Any]) -> None:
        detail = self.query_one(DetailPane)
        if detail.is_open:
            detail.close()
            return
        if self.is_large:
            detail.open(WORKING_DETAILS)
        self._load_details(pane, row, self._open_details_pane)

    def _open_details_pane(self, details: Details) -> None:
        detail = self.query_one(DetailPane)
        if detail.is_open:
            detail.show(details)
        elif not self.is_large:
            detail.open(details)

    @on(TablePane.RowHighlighted)
    def _follow_row(self, event: TablePane.RowHighlighted) -> None:
        if event.row is None:
            return
        pane, row = event.pane, event.row
        if self.query_one(DetailPane).is_open and pane is self.table:
            frame, shown_row = self._details_source or (None, None)
            if frame is not pane.frame or shown_row != row:
                self._load_details(pane, row, self.query_one(DetailPane).show)
        else:
            self._open_initial_details(pane, row)

    def on_resize(self) -> None:
        """Open the details if there is room for them now."""
        if (pane := self.table) is not None and pane.current_row is not None:
            self.call_after_refresh(self._open_initial_details, pane, pane.current_row)

    def _open_initial_details(self, pane: TablePane, row: dict[str, Any]) -> None:
        """Open the details of a row in a view that opens with details."""
        if self.app.size.width >= WIDE_CELLS and not self._has_opened_details and self.opens_details(pane):
            self._has_opened_details = True
            self._details_source = pane.frame, row
            self.set_class(True, "-below", update=False)
            self.query_one(DetailPane).open(self.details(pane, row))

    def show_details_again(self) -> None:
        """Update open details, because the note on the row has changed."""
        detail, pane = self.query_one(DetailPane), self.table
        if detail.is_open and pane is not None and pane.current_row is not None:
            self._load_details(pane, pane.current_row, detail.show)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let printable keys be typed while a text input has the focus; a table handles the keys of its row itself."""
        if action in ROW_ACTIONS:
            return isinstance(self.focused, DetailPane) and self.table is not None
        return not (action == "find" and isinstance(self.focused, (Input, TextArea)))

    def action_show_in_timeline(self) -> None:
        """Show the row of the details in the timeline."""
        cast("TablePane", self.table).action_show_in_timeline()

    def action_source_line(self) -> None:
        """Show the line of the row of the details in the log."""
        cast("TablePane", self.table).action_source_line()

    def _load_details(self, pane: TablePane, row: dict[str, Any], show: Callable[[Details], None]) -> None:
        """Compute and show the details of a row, below the user's note on it."""
        self._details_source = pane.frame, row
        note = self.explorer.notes.note_on(pane, row)
        note_text = None if note is None else (note.text, self.explorer.notes.note_origin(note))
        self._detail_loader.load(lambda: with_note(note_text, self.details(pane, row)), show, in_thread=self.is_large)

    # --- source lines ------------------------------------------------------------------------------------

    @on(TablePane.SourceLineRequested)
    def _show_source_line(self, event: TablePane.SourceLineRequested) -> None:
        row = event.row or {}
        reason = row_source(self.explorer.profile_session.whole_profile or self.profile, row)
        if reason or event.line is None:
            self.explorer.say(reason or NO_LINE, severity="warning")
            return
        session = row.get("session")
        self.explorer.navigator.go_to_line(int(event.line), session if isinstance(session, int) else None)

    @on(TablePane.TimelineRequested)
    def _show_in_timeline(self, event: TablePane.TimelineRequested) -> None:
        row = event.row
        self.explorer.go("timeline", lambda timeline: timeline.show_row(row))

    def show_row(self, row: dict[str, Any]) -> None:
        """Show a row of another view; the timeline can show rows of every view."""
        raise NotImplementedError

    # --- the command line --------------------------------------------------------------------------------------------

    def open_command_line(self) -> None:
        """Open the ``:`` line."""
        self._focus_to_restore = self.focused
        self.query_one(CommandBar).open()

    @on(CommandBar.Entered)
    def _run_command(self, event: CommandBar.Entered) -> None:
        if event.line:
            self.explorer.run_line(event.line)
        self.call_after_refresh(self.query_one(CommandBar).entry_done)

    @on(CommandBar.Closed)
    def _bar_closed(self) -> None:
        if self._focus_to_restore is not None and self._focus_to_restore.focusable:
            self._focus_to_restore.focus()
        else:
            self.focus_table()
