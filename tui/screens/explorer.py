"""The protocols of the application for views, so that no view depends on its classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from textual.dom import DOMNode

    from tui.analysis.compare.sides import Sides
    from tui.model.aggregation import Aggregation
    from tui.model.history import History
    from tui.model.profile import Profile
    from tui.options import OpenOptions
    from tui.screens.base import ViewScreen
    from tui.state.notes import Note, Notes, RowPlace
    from tui.state.store import Files
    from tui.state.workspace import Queries
    from tui.widgets.table.model import Key, Row
    from tui.widgets.table.pane import TablePane

Severity = Literal["information", "warning", "error"]


class ShownProfile(Protocol):
    """The open profile, and the session and iterations that the views show."""

    session: int | None
    aggregation: Aggregation
    global_filter: str
    progress: dict[str, str]

    @property
    def whole_profile(self) -> Profile | None:
        """The whole profile; None while files are read."""

    @property
    def profile(self) -> Profile:
        """The shown profile."""

    @property
    def all_iterations(self) -> Profile:
        """The session that is shown, with all its iterations."""

    @property
    def is_choosing(self) -> bool:
        """Whether a thread is computing the part to show."""

    @property
    def profile_name(self) -> str:
        """The name of the open profile, for headings."""

    def choose_session(self, session: int | None) -> None:
        """Show one session, or all."""

    def choose_iterations(self, aggregation: Aggregation) -> None:
        """Show some iterations, or iterations by another key."""


class Navigation(Protocol):
    """Navigation between views."""

    history: History
    availability: dict[str, str]

    def go_to_line(self, line: int, session: int | None = None) -> None:
        """Show a line of the input in the log."""

    def widgets_created(self) -> None:
        """Note that a view has created widgets that it keeps."""


class NotesService(Protocol):
    """The notes on rows and other places."""

    @property
    def store(self) -> Notes:
        """The notes, as they are stored."""

    def note_on(self, pane: TablePane, row: Row) -> Note | None:
        """Return the note on a row."""

    def note_at(self, place: RowPlace) -> Note | None:
        """Return the note on a place."""

    def place_of_item(self, kind: str, key: Key, view: str = "") -> RowPlace:
        """Return the place of an item outside of tables."""

    def note_origin(self, note: Note) -> str:
        """Return when a note was written."""

    def write_note(self, place: RowPlace, label: str) -> None:
        """Open the dialog for a note on something outside of tables."""

    def go_to_note(self, name: str) -> None:
        """Go to the row of a note."""

    def go_to_row(self, place: RowPlace) -> None:
        """Go to a row of a view."""


class FileState(Protocol):
    """The saved state of the open files."""

    @property
    def files(self) -> Files | None:
        """The identity of the open files; None if they cannot be opened again."""

    @property
    def queries(self) -> Queries:
        """The SQL that was run."""

    def keep_query(self, text: str) -> None:
        """Keep a query for later runs."""


class ComparisonService(Protocol):
    """The comparison that the Compare view shows."""

    sides: Sides | None
    is_swapped: bool

    @property
    def request(self) -> str:
        """The text of the latest request."""

    @property
    def is_running(self) -> bool:
        """Whether a comparison is being computed."""

    def compare(self, text: str) -> None:
        """Compare as requested."""

    def renew(self) -> None:
        """Compare again if the shown profile has changed."""

    def recall(self, request: str) -> None:
        """Repeat an earlier request and stay in the view."""

    def swap(self) -> None:
        """Swap baseline and candidate."""


class Explorer(Protocol):
    """The application, as views and commands see it."""

    options: OpenOptions
    theme: Any

    @property
    def profile_session(self) -> ShownProfile:
        """The open profile and the shown part of it."""

    @property
    def navigator(self) -> Navigation:
        """Navigation between views."""

    @property
    def notes(self) -> NotesService:
        """Notes on rows."""

    @property
    def session_restore(self) -> FileState:
        """The saved state."""

    @property
    def comparison(self) -> ComparisonService:
        """The comparison that is shown."""

    @property
    def view_screen(self) -> ViewScreen | None:
        """The view that is shown, below any dialog; None while files are read."""

    def go(self, name: str, arrange: Callable[[ViewScreen], None] | None = None) -> None:
        """Go to a view; ``arrange`` is called with its screen once that is shown."""

    def say(self, message: str, *, severity: Severity = "information") -> None:
        """Show a message for a few seconds; the text is never markup."""

    def run_line(self, line: str) -> None:
        """Run a line of the ``:`` command line."""

    def command_names(self) -> list[str]:
        """Return the first words of all commands."""

    def open_file(self, path: str) -> None:
        """Open another file in place of this one."""

    def open_files(self, paths: tuple[str, ...]) -> None:
        """Open other files together in place of the current ones."""

    def stop_opening(self) -> bool:
        """Stop reading another file; False if none is being read."""

    def forget(self) -> None:
        """Delete what is saved for these files."""

    def run_action(
        self, action: str, default_namespace: DOMNode | None = None, namespaces: Mapping[str, DOMNode] | None = None
    ) -> Awaitable[bool]:
        """Run an action by its name."""

    def call_later(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        """Call a function after the waiting messages."""

    def exit(self, result: Any = None, return_code: int = 0, message: Any = None) -> None:
        """End the program."""

    def action_write_note(self) -> None:
        """Say where notes can be written."""

    def action_sessions_menu(self) -> None:
        """Open the menu of sessions."""
