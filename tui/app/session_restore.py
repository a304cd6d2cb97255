"""The user's position in a file: saved when the file is closed, offered when it is opened again."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from tui.model.aggregation import Aggregation
from tui.model.errors import CommandError
from tui.model.history import Place
from tui.text import plural
from tui.views import VIEWS, view

if TYPE_CHECKING:
    from tui.app.navigator import AppParts
    from tui.screens.base import ViewScreen
    from tui.state.store import Files
    from tui.state.workspace import Queries, SavedPlace, Workspace
    from tui.widgets.panel import OfferLine

SAVE_EVERY_S: Final = 20.0
"""The session is saved this often, in case the connection breaks."""
NO_FILE: Final = "Standard input cannot be reopened: nothing is saved for it."
CHANGED: Final = "The file has changed"


class SessionRestore:
    """Saves the position of the user in a file, and restores it on demand.

    Args:
        parts: The application and what it owns.
    """

    def __init__(self, parts: AppParts) -> None:
        self._app, self._options, self._session = parts.app, parts.options, parts.session
        self._navigator, self._views, self._say = parts.navigator, parts.views, parts.say
        self.previous_workspace: Workspace | None = None
        """The position at which the file was last closed."""
        self._saved: Workspace | None = None
        """The workspace that was written last."""
        self._is_forgotten = False
        self._offer: OfferLine | None = None
        """The line that offers to go back, until a key is pressed."""
        self._missing: list[str] = []
        """Messages about missing parts, until the missing rows are known too."""
        self._restoring: dict[str, SavedPlace] = {}
        """Views whose state is restored when they are shown."""

    @cached_property
    def files(self) -> Files | None:
        """The identity of the open files; None if they cannot be opened again."""
        from tui.state.store import files

        return files(self._options.paths)

    def files_changed(self) -> None:
        """Use the new state of the files, after they were read again."""
        from tui.state.store import files

        self.files = files(self._options.paths)

    # --- offering ----------------------------------------------------------------------------------------------------

    def offer(self) -> None:
        """Restore the user's position when the files are first opened, or offer to."""
        from tui.state import workspace

        if self.files is None:
            if self._options.resume:
                self._say(NO_FILE, severity="warning")
            return
        self.previous_workspace, warning = workspace.read_workspace(self.files)
        if warning:
            self._say(warning, severity="warning")
        if self._options.resume:
            self.resume()
        elif self.previous_workspace is not None and self._navigator.view_screen is not None:
            changed = f"{CHANGED}. " if self.previous_workspace.stamp != self.files.stamp else ""
            from tui.widgets.panel import OfferLine

            self._offer = OfferLine(
                f"{changed}Last time: {self._description(self.previous_workspace)}", "press ' to return"
            )
            self._navigator.view_screen.mount(self._offer)
        self._app.set_interval(SAVE_EVERY_S, self._save_regularly)

    def remove_offer(self) -> None:
        """Withdraw the offer when a key is pressed."""
        if self._offer is not None:
            self._offer.display = False
            self._offer.remove()
            self._offer = None

    @staticmethod
    def _description(workspace: Workspace) -> str:
        place = workspace.place
        titles = [listed.title for listed in VIEWS if listed.name == place.view]
        tables = place.tables
        filters = [table.filter for table in tables if table.filter]
        marks = sum(len(table.marks) for table in tables)
        parts = [
            titles[0] if titles else place.view,
            f"filter {' and '.join([*filters, *([workspace.global_filter] if workspace.global_filter else [])])}"
            if filters or workspace.global_filter
            else "",
            f"{marks} marked" if marks else "",
            workspace.aggregation.text,
            f"key {workspace.key}" if workspace.key else "",
            f"session {workspace.session}" if workspace.session is not None else "",
        ]
        return ", ".join(part for part in parts if part)

    # --- going back --------------------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Go back to the position at which the file was last closed."""
        if self.files is None:
            self._say(NO_FILE, severity="warning")
        elif self._session.whole_profile is not None and self.previous_workspace is None:
            self._say("Nothing is saved for this file yet.")
        elif self._session.whole_profile is not None and self.previous_workspace is not None:
            missing = [f"{CHANGED}."] if self.previous_workspace.stamp != self.files.stamp else []
            missing += self._choose_saved(self.previous_workspace)
            self._session.set_global_filter(self.previous_workspace.global_filter)
            missing += self._show_saved_view(self.previous_workspace)
            self._missing = missing
            if missing:
                self._say("\n".join(missing), severity="warning")

    def _choose_saved(self, workspace: Workspace) -> list[str]:
        """Show the saved session and iterations, unless the command line chose others; return what is missing."""
        assert self._session.whole_profile is not None
        missing: list[str] = []
        session = workspace.session if self._options.session is None else self._options.session
        if session is not None and session >= self._session.whole_profile["sessions"].height:
            missing.append(f"Session {session} no longer exists: showing all.")
            session = None
        aggregation = workspace.aggregation if self._options.aggregation == Aggregation() else self._options.aggregation
        if (session, aggregation) != (self._session.session, self._session.aggregation):
            try:
                self._session.choose(session, aggregation)
            except CommandError as error:
                missing.append(f"{error}; showing all iterations")
                self._session.choose(session, Aggregation())
        return missing

    def _show_saved_view(self, workspace: Workspace) -> list[str]:
        """Show the last view; the others are restored when they are shown."""
        missing = []
        names = {listed.name for listed in VIEWS if listed.screen}
        for saved in workspace.places:
            if saved.view not in names:
                missing.append(f"View {saved.view} no longer exists.")
            elif (reason := self._navigator.availability.get(saved.view, "ok")) != "ok":
                missing.append(f"{view(saved.view).title}: {reason}")
            else:
                self._restoring[saved.view] = saved
        if workspace.place.view in self._restoring:
            self._navigator.keep_place()
            screen = self._navigator.show(workspace.place.view)
            self._navigator.history.visit(screen.place())
        return missing

    def view_shown(self, screen: ViewScreen) -> None:
        """Restore the state of a view when it is first shown."""
        saved = self._restoring.pop(screen.VIEW, None)
        if saved is not None:
            screen.call_after_refresh(self._restore, screen, saved)

    def _restore(self, screen: ViewScreen, saved: SavedPlace) -> None:
        # Tables depend on the row that is selected in the table above, so they are restored afterwards.
        screen.restore(
            Place(
                saved.view,
                saved.level,
                line=saved.line,
                text=saved.text,
                timeline_position=self._timeline_position(saved),
            )
        )
        tables = {table.pane: table for table in saved.tables}
        table_states = tuple(
            (pane.id, tables[pane.id].apply_to(pane.state)) for pane in screen.panes if pane.id in tables
        )
        screen.restore(Place(saved.view, saved.level, table_states))
        self._navigator.history.keep(screen.place())
        screen.when_filled(partial(self._report_missing_rows, screen, saved))

    def _timeline_position(self, saved: SavedPlace) -> tuple[int, ...]:
        """Return a place in the timeline; places of another recording are meaningless."""
        is_unchanged = (
            self.previous_workspace is not None
            and self.files is not None
            and self.previous_workspace.stamp == self.files.stamp
        )
        return saved.spot if is_unchanged else ()

    def _report_missing_rows(self, screen: ViewScreen, saved: SavedPlace) -> None:
        tables = {table.pane: table for table in saved.tables}
        missing_rows = []
        for pane in screen.panes:
            if pane.id in tables and pane.display and pane.frame.height:
                cursor, marks = pane.model.missing_of(tables[pane.id].apply_to(pane.state))
                missing_rows += ["the row under the cursor"] if cursor else []
                missing_rows += [plural(marks, "marked row")] if marks else []
        # A message replaces the previous one.
        messages, self._missing = self._missing, []
        if missing_rows:
            self._say("\n".join([*messages, f"Not found: {', '.join(missing_rows)}."]), severity="warning")

    # --- queries ------------------------------------------------------------------------------------------------------

    @cached_property
    def queries(self) -> Queries:
        """The SQL queries of this run and earlier ones."""
        from tui.state.workspace import Queries

        return Queries()

    def keep_query(self, text: str) -> None:
        """Keep a query; queries on standard input, or after ``:forget``, are kept for this run only."""
        self._app.run_worker(partial(self._write_query, text), thread=True, group="remember")

    def _write_query(self, text: str) -> None:
        if self.files is None or self._is_forgotten:
            return
        if warning := self.queries.keep(text, self.files.name):
            self._app.call_from_thread(self._say, warning, severity="warning")

    # --- saving ------------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Save the current position at exit."""
        current = self._current_workspace()
        if current is not None and self.files is not None and current != self._saved:
            from tui.state import workspace

            workspace.save(self.files, current)

    def _save_regularly(self) -> None:
        current = self._current_workspace()
        if current is not None and current != self._saved:
            self._saved = current
            self._app.run_worker(partial(self._write_workspace, current), thread=True, group="remember")

    def _write_workspace(self, current: Workspace) -> None:
        # A home directory can be on a slow network: save in a thread.
        if self.files is not None:
            from tui.state import workspace

            workspace.save(self.files, current)

    def _current_workspace(self) -> Workspace | None:
        """Return the current position; None if there is none, so that the stored one stays."""
        screen = self._navigator.view_screen
        if self.files is None or self._session.whole_profile is None or screen is None or self._is_forgotten:
            return None
        places = {name: view_screen.place() for name, view_screen in self._views.items() if view_screen.is_mounted}
        place = places.pop(screen.VIEW, None)
        selection = (self._session.session, self._session.aggregation, self._session.global_filter)
        if place is None or (not places and selection == (self._options.session, self._options.aggregation, "")):
            return None
        from tui.state import workspace

        current = workspace.current_workspace(
            self.files,
            [*places.values(), place],
            session=self._session.session,
            aggregation=self._session.aggregation,
            global_filter=self._session.global_filter,
        )
        # Views that were not visited keep their saved state.
        unvisited = tuple(
            saved for name, saved in self._restoring.items() if name not in places and name != screen.VIEW
        )
        return workspace.with_earlier_views(current, unvisited)

    def forget(self) -> str:
        """Delete the saved position in these files, and their queries; return what failed."""
        from tui.state import workspace

        self._is_forgotten, self.previous_workspace = True, None
        self._restoring.clear()
        return (workspace.forget(self.files) or self.queries.forget(self.files.name)) if self.files is not None else ""
