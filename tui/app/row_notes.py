"""Notes on rows: writing, showing, and jumping to them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from tui.app.session_restore import NO_FILE
from tui.model.history import Place
from tui.text import plain, plural
from tui.widgets.app_services import HostsTables

if TYPE_CHECKING:
    from tui.app.navigator import AppParts
    from tui.app.session_restore import SessionRestore
    from tui.screens.base import ViewScreen
    from tui.state.notes import Note, Notes, RowPlace
    from tui.widgets.table.model import Key, Row
    from tui.widgets.table.pane import TablePane

VIEWS_WITHOUT_NOTES: Final = {"sql": "Query results have no notes. Add the note in the view of the row."}
"""Views whose rows cannot have notes, with the reason."""

NO_TABLE: Final = ""
"""Instead of a table's name: the note is not on a row."""

COMPARED: Final = "compared"
"""Instead of a table's name: the note is on a row of a comparison."""

Trail = tuple[tuple[str, str, tuple[object, ...]], ...]


@runtime_checkable
class ShowsItems(Protocol):
    """A view with items outside of tables that can have notes: lines of the log, items of the timeline, panels."""

    def show_item(self, kind: str, key: Key) -> None:
        """Go to the item of a note."""


@runtime_checkable
class ShowsComparison(Protocol):
    """A view whose rows belong to a comparison."""

    @property
    def compared_key(self) -> Key:
        """The request of the comparison and the labels of its sides; empty if there is no comparison."""


class RowNotes:
    """Holds the notes on the open files.

    Args:
        parts: The application and its objects.
        restore: Has the identity of the open files.
    """

    def __init__(self, parts: AppParts, restore: SessionRestore) -> None:
        self._app, self._session, self._navigator = parts.app, parts.session, parts.navigator
        self._restore, self._views, self._say = restore, parts.views, parts.say
        self._is_warned = False
        """Whether the user was shown how many notes `:forget` deletes."""

    @cached_property
    def store(self) -> Notes:
        """The stored notes."""
        from tui.state.notes import Notes

        return Notes(self._restore.files)

    def files_changed(self) -> None:
        """Use the current content of the files for new notes, after they were read."""
        self.store.files = self._restore.files

    # --- which rows --------------------------------------------------------------------------------------------------

    def noted_keys(self, pane: TablePane) -> list[Key]:
        """Return the keys of the rows of a table that have notes."""
        screen = pane.screen
        if self._restore.files is None or not self.store.by_name:
            return []
        above = self._above(pane)
        view_places = [
            note.place
            for note in self.store.by_name.values()
            if note.place.view == (screen.VIEW if isinstance(screen, HostsTables) else "")
        ]
        return [
            place.trail[-1][2]
            for place in view_places
            if place.trail[-1][:2] == (pane.id, pane.spec.name) and place.trail[:-1] == above
        ]

    def note_place(self, pane: TablePane, row: Row) -> RowPlace | None:
        """Return the place of a row, under which a note is stored; None if the row is not unique."""
        from tui.state.notes import RowPlace

        above = self._above(pane)
        screen, key = self._navigator.view_screen, pane.model.row_key(row)
        if above is None or screen is None or not key:
            return None
        trail = (*above, (pane.id or "", pane.spec.name, key))
        return RowPlace(screen.VIEW, screen.place().level, trail)  # type: ignore[arg-type]

    @staticmethod
    def _above(pane: TablePane) -> Trail | None:
        """Return the rows that determine the content of a table; None if one is not known yet."""
        from tui.screens.linked_tables import linked_tables

        screen = pane.screen
        if isinstance(screen, ShowsComparison):
            return ((COMPARED, "", tuple(screen.compared_key)),) if screen.compared_key else None
        tables = linked_tables(screen)
        names = [level.name for level in tables.levels] if tables is not None else []
        if tables is None or pane.id not in names:
            return ()
        trail = []
        for index, name in enumerate(names[: names.index(pane.id)]):
            if name not in tables.selected:
                return None
            above = tables.pane(index)
            trail.append((name, above.spec.name, above.model.row_key(tables.selected[name])))
        return tuple(trail)

    def note_on(self, pane: TablePane, row: Row) -> Note | None:
        """Return the note on a row."""
        if self._restore.files is None or not self.store.by_name:
            return None
        place = self.note_place(pane, row)
        return None if place is None or not place.is_valid else self.store.get(place)

    # --- writing -----------------------------------------------------------------------------------------------------

    def write_row_note(self, pane: TablePane, row: Row) -> None:
        """Open the dialog for a note on a row."""
        screen = self._navigator.view_screen
        if screen is None:
            return
        reason = NO_FILE if self._restore.files is None else VIEWS_WITHOUT_NOTES.get(screen.VIEW, "")
        if screen.VIEW == "notes":
            note = self.store.by_name.get(str(row["note_id"]))
            place, label = (note.place, note.words) if note is not None else (None, "")
        else:
            place = self.note_place(pane, row)
            label = self._row_label(screen, pane, row) if place is not None else ""
        if not reason and place is None:
            reason = "No note possible: this row has no stable key."
        if reason or place is None:
            self._say(reason, severity="warning")
        else:
            self._open_note_dialog(place, label)

    def place_of_item(self, kind: str, key: Key, view: str = "") -> RowPlace:
        """Return the place of an item outside of tables: a line of the log, an item of the timeline, a panel.

        Args:
            kind: The kind of item.
            key: Its key.
            view: The view's name; empty: the shown one.
        """
        from tui.state.notes import RowPlace

        screen = self._navigator.view_screen
        assert view or screen is not None, "a view asks"
        return RowPlace(view or screen.VIEW, "", ((NO_TABLE, kind, key),))  # type: ignore[arg-type, union-attr]

    def note_at(self, place: RowPlace) -> Note | None:
        """Return the note on a place."""
        return (
            self.store.get(place) if self._restore.files is not None and self.store.by_name and place.is_valid else None
        )

    def write_note(self, place: RowPlace, label: str) -> None:
        """Ask for the text of a note on something outside of tables."""
        if self._restore.files is None:
            self._say(NO_FILE, severity="warning")
        else:
            self._open_note_dialog(place, label)

    def _open_note_dialog(self, place: RowPlace, label: str) -> None:
        from tui.widgets.dialogs.base import open_dialog
        from tui.widgets.dialogs.texts import NoteDialog

        note = self.store.get(place) if place.is_valid else None
        origin = f"Written {self.note_origin(note)}. Save an empty note to delete it." if note is not None else ""
        dialog = NoteDialog(label, note.text if note is not None else "", origin)
        open_dialog(self._app, dialog, partial(self._keep_note, place, label))

    def note_origin(self, note: Note) -> str:
        """Return when a note was written, and whether the file has changed since."""
        from tui.analysis.notes_table import written_at

        is_old = self._restore.files is None or note.stamp != self._restore.files.stamp
        return f"{written_at(note)}{', before the file changed' if is_old else ''}"

    def _row_label(self, screen: ViewScreen, pane: TablePane, row: Row) -> str:
        from tui.analysis.notes_table import note_title
        from tui.screens.linked_tables import linked_tables

        with_session = self._session.whole_profile is not None and self._session.whole_profile["sessions"].height > 1
        above = []
        if isinstance(screen, ShowsComparison):
            above.append(" and ".join(str(side) for side in screen.compared_key[1:]))
        tables = linked_tables(screen)
        if tables is not None and pane.id in [level.name for level in tables.levels]:
            for index, level in enumerate(tables.levels):
                if level.name == pane.id:
                    break
                above.append(note_title(tables.pane(index).spec, tables.selected[level.name]))
        return " > ".join([*above, note_title(pane.spec, row, with_session=with_session)])

    def _keep_note(self, place: RowPlace, label: str, text: str | None) -> None:
        if text is None or (not text.strip() and self.store.get(place) is None):
            return
        if error := self.store.keep(place, label, text):
            self._say(error, severity="warning")
            return
        self._notes_changed()
        self._app.run_worker(self._write_notes, thread=True, group="remember")

    def _write_notes(self) -> None:
        # A home directory can be on a slow network: write in a thread.
        self.store.write()
        self._app.call_from_thread(self._notes_changed)

    def _notes_changed(self) -> None:
        if self.store.warning:
            warning, self.store.warning = self.store.warning, ""
            self._say(f"{warning}. Notes are kept until you quit.", severity="warning")
        for screen in self._views.values():
            if not screen.is_mounted:
                continue
            if screen.VIEW == "notes":
                screen.profile_changed()
                continue
            for pane in screen.panes:
                pane.show_notes()
        if self._navigator.view_screen is not None and self._navigator.view_screen.has_widgets:
            self._navigator.view_screen.show_details_again()

    def forget(self) -> None:
        """Delete the state of these files; if there are notes, only at the second request."""
        if self._restore.files is None:
            self._say(NO_FILE)
            return
        number = len(self.store.by_name)
        if number and not self._is_warned:
            self._is_warned = True
            self._say(
                f"This deletes {plural(number, 'note')}. Repeat :forget to confirm.",
                severity="warning",
            )
            return
        self._is_warned = False
        warning = self.store.forget() or self._restore.forget()
        self._notes_changed()
        self._say(
            warning or "Deleted: notes, queries, and the last place in this file.",
            severity="error" if warning else "information",
        )

    # --- going to the row of a note ----------------------------------------------------------------------------------

    def go_to_note(self, name: str) -> None:
        """Go to the row of a note."""
        note = self.store.by_name.get(name)
        if note is not None:
            self.go_to_row(note.place)

    def go_to_row(self, place: RowPlace) -> None:
        """Go to a row of a view."""

        def arrange(screen: ViewScreen) -> None:
            pane, table, key = place.trail[0]
            if pane == NO_TABLE:
                if isinstance(screen, ShowsItems):
                    screen.show_item(table, key)
                return
            is_compared = pane == COMPARED
            screen.restore(Place(place.view, place.level, text=str(key[0]) if is_compared and key else ""))
            screen.when_filled(partial(self._select_row, screen, place, 1 if is_compared else 0))

        self._navigator.go(place.view, arrange)

    def _select_row(self, screen: ViewScreen, place: RowPlace, step: int) -> None:
        """Move the cursor of each table on the way to a row, each after the previous one has loaded."""
        if isinstance(screen, ShowsComparison) and screen.compared_key[:1] != place.trail[0][2][:1]:
            # A message has explained why there is no such comparison.
            return
        pane_id, table, key = place.trail[step]
        pane = next((pane for pane in screen.panes if pane.id == pane_id and pane.spec.name == table), None)
        is_found = pane is not None and self._above(pane) == place.trail[:step] and pane.reach(key)
        if pane is not None and is_found is None and self._remove_hiding_filters(pane):
            screen.when_filled(partial(self._select_row, screen, place, step))
        elif pane is None or not is_found:
            self._say(f"Row not found{self._selection_text()}", severity="warning")
        else:
            pane.cursor_settled()
            if step + 1 < len(place.trail):
                screen.when_filled(partial(self._select_row, screen, place, step + 1))
            else:
                pane.focus_table()

    def _selection_text(self) -> str:
        parts = [
            f"session {self._session.session}" if self._session.session is not None else "",
            self._session.aggregation.text,
        ]
        text = ", ".join(part for part in parts if part)
        return f" in {text}. S and A change what is shown." if text else "."

    def _remove_hiding_filters(self, pane: TablePane) -> bool:
        """Remove the filters that hide a row; False if there are none."""
        state = pane.state
        reasons = [
            f"the filter {plain(state.filter)}" if state.filter else "",
            f"the filter of all views, {plain(self._session.global_filter)}" if self._session.global_filter else "",
            "hiding small rows" if state.hides_small else "",
            f"showing only the first {state.max_rows} rows" if state.max_rows is not None else "",
        ]
        pane.state = replace(state, filter="", hides_small=False, max_rows=None)
        self._session.set_global_filter("")
        filters = " and ".join(reason for reason in reasons if reason)
        if filters:
            self._say(f"The row was hidden by {filters}: removed.")
        return bool(filters)
