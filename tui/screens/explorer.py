"""What the views ask of the application: protocols, so that no view depends on its classes."""

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
    """What was read, and the session and iterations of it that the views show."""

    session: int | None
    aggregation: Aggregation
    global_filter: str
    progress: dict[str, str]

    @property
    def whole_profile(self) -> Profile | None:
        """Everything that was read; None while it is read."""

    @property
    def profile(self) -> Profile:
        """What the views show."""

    @property
    def all_iterations(self) -> Profile:
        """The session that is shown, with all its iterations."""

    @property
    def profile_name(self) -> str:
        """The name of what is open, for headings."""

    def choose_session(self, session: int | None) -> None:
        """Show one session, or all."""

    def choose_iterations(self, wanted: Aggregation) -> None:
        """Show some iterations, or iterations by another key."""


class Navigation(Protocol):
    """Going from view to view."""

    history: History
    availability: dict[str, str]

    def go_to_line(self, line: int, session: int | None = None) -> None:
        """Show a line of the input in the log."""

    def widgets_made(self) -> None:
        """Note that a view has created widgets that it keeps."""


class NotesService(Protocol):
    """The notes on rows and on other things that views show."""

    @property
    def store(self) -> Notes:
        """The notes, as they are stored."""

    def note_on(self, pane: TablePane, row: Row) -> Note | None:
        """Return the note on a row."""

    def note_at(self, place: RowPlace) -> Note | None:
        """Return the note on a place."""

    def note_spot(self, table: str, key: Key, view: str = "") -> RowPlace:
        """Return the place of something that is in no table."""

    def note_origin(self, note: Note) -> str:
        """Return when a note was written."""

    def write_note(self, place: RowPlace, words: str) -> None:
        """Open the dialog for a note on something that is in no table."""

    def go_to_note(self, name: str) -> None:
        """Go to the row of a note."""

    def go_to_row(self, place: RowPlace) -> None:
        """Go to a row of a view."""


class FileState(Protocol):
    """What is saved between runs for the files that are open."""

    @property
    def files(self) -> Files | None:
        """What is open, where it can be opened again."""

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
        """The words by which the latest comparison was asked for."""

    @property
    def is_running(self) -> bool:
        """Whether a comparison is being computed."""

    def compare(self, what: str) -> None:
        """Compare with what a person names."""

    def renew(self) -> None:
        """Compare again where something else is shown since."""

    def recall(self, words: str) -> None:
        """Compare by an earlier request and stay in the view."""

    def swap(self) -> None:
        """Swap baseline and candidate."""


class Explorer(Protocol):
    """The application, as views and commands see it."""

    options: OpenOptions
    theme: Any

    @property
    def profile_session(self) -> ShownProfile:
        """What was read and what of it is shown."""

    @property
    def navigator(self) -> Navigation:
        """Going from view to view."""

    @property
    def notes(self) -> NotesService:
        """Notes on rows."""

    @property
    def session_restore(self) -> FileState:
        """What is saved between runs."""

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

    def command_words(self) -> list[str]:
        """Return the first words of all commands."""

    def open_file(self, path: str) -> None:
        """Open another file in place of this one."""

    def open_files(self, paths: tuple[str, ...]) -> None:
        """Open other files together in place of what is open."""

    def stop_opening(self) -> bool:
        """Stop reading another file; False if none is read."""

    def forget(self) -> None:
        """Delete what is saved for these files."""

    def run_action(
        self, action: str, default_namespace: DOMNode | None = None, namespaces: Mapping[str, DOMNode] | None = None
    ) -> Awaitable[bool]:
        """Run an action by its name."""

    def call_later(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        """Call a function after the messages that wait."""

    def exit(self, result: Any = None, return_code: int = 0, message: Any = None) -> None:
        """End the program."""

    def action_write_note(self) -> None:
        """Say where notes can be written."""

    def action_sessions_menu(self) -> None:
        """Open the menu of sessions."""
