"""Notes on rows: written, shown, gone to."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from textual import work

from tui.app.remembering import NO_FILE, RememberingApp
from tui.model.history import Place
from tui.text import plain

if TYPE_CHECKING:
    from tui.options import OpenOptions
    from tui.screens.base import ViewScreen
    from tui.state.notes import Note, Notes, RowPlace
    from tui.widgets.table_pane import TablePane
    from tui.widgets.table_rows import Key, Row

WITHOUT_NOTES: Final = {
    "sql": "a row of a query cannot be told from others in the next run: write the note on the row in its own view"
}
"""Views whose rows cannot be found again, and why."""

SPOT: Final = ""
"""In place of a table's pane: what the note is on is in no table."""

COMPARED: Final = "compared"
"""In place of a table's pane: what is compared, which the rows of a comparison are of."""

Trail = tuple[tuple[str, str, tuple[object, ...]], ...]


@runtime_checkable
class ShowsSpots(Protocol):
    """A view with things in no table that notes can be on."""

    def show_spot(self, table: str, key: Key) -> None:
        """Go to one of them."""


@runtime_checkable
class ShowsComparison(Protocol):
    """A view whose rows are of what is compared."""

    @property
    def compared_key(self) -> Key:
        """In what words was asked for it, and what that was then; nothing where nothing is compared."""


class NotingApp(RememberingApp):
    """Holds the notes on the rows of what is open."""

    def __init__(self, options: OpenOptions) -> None:
        super().__init__(options)
        self._is_warned = False
        """Whether it was said how many notes `:forget` deletes."""

    @cached_property
    def notes(self) -> Notes:
        """The notes on what is open."""
        from tui.state.notes import Notes

        return Notes(self.files)

    def look_at_files(self) -> None:
        """The files were read: notes from now on are on what they hold now."""
        super().look_at_files()
        self.notes.files = self.files

    # --- which rows --------------------------------------------------------------------------------------------------

    def noted_keys(self, pane: TablePane) -> list[Key]:
        """The rows of a table that have notes."""
        screen = pane.screen
        if self.files is None or not self.notes.all:
            return []
        above = self._above(pane)
        own = [note.place for note in self.notes.all.values() if note.place.view == getattr(screen, "VIEW", "")]
        return [
            place.trail[-1][2]
            for place in own
            if place.trail[-1][:2] == (pane.id, pane.spec.name) and place.trail[:-1] == above
        ]

    def note_place(self, pane: TablePane, row: Row) -> RowPlace | None:
        """Where a row is, as a note is kept by it; None where it cannot be told from others."""
        from tui.state.notes import RowPlace

        above = self._above(pane)
        screen, key = self.view_screen, pane.row_key(row)
        if above is None or screen is None or not key:
            return None
        trail = (*above, (pane.id or "", pane.spec.name, key))
        return RowPlace(screen.VIEW, screen.place().level, trail)  # type: ignore[arg-type]

    @staticmethod
    def _above(pane: TablePane) -> Trail | None:
        """The rows that decide what a table shows; None where one of them is not known yet."""
        from tui.screens.linked import LinkedTablesScreen

        screen = pane.screen
        if isinstance(screen, ShowsComparison):
            return ((COMPARED, "", tuple(screen.compared_key)),) if screen.compared_key else None
        names = [level.name for level in screen.levels] if isinstance(screen, LinkedTablesScreen) else []
        if not isinstance(screen, LinkedTablesScreen) or pane.id not in names:
            return ()
        trail = []
        for index, name in enumerate(names[: names.index(pane.id)]):
            if name not in screen.selected:
                return None
            above = screen.pane(index)
            trail.append((name, above.spec.name, above.row_key(screen.selected[name])))
        return tuple(trail)

    def note_on(self, pane: TablePane, row: Row) -> Note | None:
        """The note on a row."""
        if self.files is None or not self.notes.all:
            return None
        place = self.note_place(pane, row)
        return None if place is None or not place.is_sane else self.notes.of(place)

    # --- writing -----------------------------------------------------------------------------------------------------

    def on_table_pane_note_requested(self, event: TablePane.NoteRequested) -> None:
        """Ask for the text of a note."""
        screen = self.view_screen
        if screen is None:
            return
        why_not = NO_FILE if self.files is None else WITHOUT_NOTES.get(screen.VIEW, "")
        row, pane = event.row, event.pane
        if screen.VIEW == "notes":
            note = self.notes.all.get(str(row["note_id"]))
            place, words = (note.place, note.words) if note is not None else (None, "")
        else:
            place = self.note_place(pane, row)
            words = self._row_in_words(screen, pane, row)
        if not why_not and place is None:
            why_not = "this row cannot be told from others: there is no note on it"
        if why_not or place is None:
            self.say(why_not, severity="warning")
        else:
            self._ask_for_note(place, words)

    def action_write_note(self) -> None:
        """What has no rows has no notes."""
        self.say("notes are on rows and on panels of the dashboard: enter goes to the rows behind this")

    def note_spot(self, table: str, key: Key, view: str = "") -> RowPlace:
        """The place of what a view shows in no table: a line of the log, a thing in the timeline.

        Args:
            table: What kind of thing.
            key: Which of them.
            view: The view's name; empty: the one that is shown.
        """
        from tui.state.notes import RowPlace

        screen = self.view_screen
        assert view or screen is not None, "a view asks"
        return RowPlace(view or screen.VIEW, "", ((SPOT, table, key),))  # type: ignore[arg-type, union-attr]

    def note_at(self, place: RowPlace) -> Note | None:
        """The note on a place."""
        return self.notes.of(place) if self.files is not None and self.notes.all and place.is_sane else None

    def write_note(self, place: RowPlace, words: str) -> None:
        """Ask for the text of a note on what is in no table."""
        if self.files is None:
            self.say(NO_FILE, severity="warning")
        else:
            self._ask_for_note(place, words)

    def _ask_for_note(self, place: RowPlace, words: str) -> None:
        from tui.widgets.note_dialog import NoteDialog

        note = self.notes.of(place) if place.is_sane else None
        about = f"written {self.note_origin(note)}; an empty text deletes it" if note is not None else ""
        dialog = NoteDialog(words, note.text if note is not None else "", about)
        self.push_screen(dialog, partial(self._keep_note, place, words))

    def note_origin(self, note: Note) -> str:
        """When a note was written, and whether of what the file holds now."""
        from tui.analysis.notes import written_at

        is_old = self.files is None or note.stamp != self.files.stamp
        return f"{written_at(note)}{', before the file changed' if is_old else ''}"

    def _row_in_words(self, screen: ViewScreen, pane: TablePane, row: Row) -> str:
        from tui.analysis.notes import note_title
        from tui.screens.linked import LinkedTablesScreen

        several = self.whole_profile is not None and self.whole_profile["sessions"].height > 1
        above = []
        if isinstance(screen, ShowsComparison):
            above.append(" and ".join(str(one) for one in screen.compared_key[1:]))
        if isinstance(screen, LinkedTablesScreen) and pane.id in [level.name for level in screen.levels]:
            for index, level in enumerate(screen.levels):
                if level.name == pane.id:
                    break
                above.append(note_title(screen.pane(index).spec, screen.selected[level.name]))
        return " > ".join([*above, note_title(pane.spec, row, with_session=several)])

    def _keep_note(self, place: RowPlace, words: str, text: str | None) -> None:
        if text is None or (not text.strip() and self.notes.of(place) is None):
            return
        if why := self.notes.keep(place, words, text):
            self.say(why, severity="warning")
            return
        self._notes_changed()
        self._write_notes()

    @work(thread=True, group="remember")
    def _write_notes(self) -> None:
        # A home directory can lie on a slow network: no key waits for it.
        self.notes.write()
        self.call_from_thread(self._notes_changed)

    def _notes_changed(self) -> None:
        if self.notes.complaint:
            said, self.notes.complaint = self.notes.complaint, ""
            self.say(f"{said}; notes stay until you quit", severity="warning")
        for screen in self._screens.values():
            if not screen.is_mounted:
                continue
            if screen.VIEW == "notes":
                screen.profile_changed()
                continue
            for pane in screen.panes:
                pane.show_notes()
        if self.view_screen is not None and self.view_screen.is_there:
            self.view_screen.show_details_again()

    def forget(self) -> None:
        """Delete what is remembered of these files; where there are notes, when asked a second time."""
        if self.files is None:
            self.say(NO_FILE)
            return
        number = len(self.notes.all)
        if number and not self._is_warned:
            self._is_warned = True
            self.say(
                f"this deletes {number} note{'' if number == 1 else 's'}: once more :forget does so", severity="warning"
            )
            return
        self._is_warned = False
        complaint = self.notes.forget() or self.forget_place()
        self._notes_changed()
        self.say(
            complaint or "forgotten: notes, queries, and where you left off",
            severity="error" if complaint else "information",
        )

    # --- going to the row of a note ----------------------------------------------------------------------------------

    def go_to_note(self, name: str) -> None:
        """Go to the row of a note."""
        note = self.notes.all.get(name)
        if note is not None:
            self.go_to_row(note.place)

    def go_to_row(self, place: RowPlace) -> None:
        """Go to a row of a view."""

        def arrange(screen: ViewScreen) -> None:
            pane, table, key = place.trail[0]
            if pane == SPOT:
                if isinstance(screen, ShowsSpots):
                    screen.show_spot(table, key)
                return
            is_compared = pane == COMPARED
            screen.restore(Place(place.view, place.level, text=str(key[0]) if is_compared and key else ""))
            self.once_filled(screen, partial(self._step_to, screen, place, 1 if is_compared else 0))

        self.go(place.view, arrange)

    def _step_to(self, screen: ViewScreen, place: RowPlace, step: int) -> None:
        """Put the cursor of the tables on the way to a row on its place, each once it has followed the one before."""
        if isinstance(screen, ShowsComparison) and screen.compared_key[:1] != place.trail[0][2][:1]:
            # It was said why there is no such comparison.
            return
        pane_id, table, key = place.trail[step]
        pane = next((pane for pane in screen.panes if pane.id == pane_id and pane.spec.name == table), None)
        is_reached = pane is not None and self._above(pane) == place.trail[:step] and pane.reach(key)
        if pane is not None and is_reached is None and self._let_in(pane):
            self.once_filled(screen, partial(self._step_to, screen, place, step))
        elif pane is None or not is_reached:
            self.say(f"the row is not there{self._shown_in_words()}", severity="warning")
        else:
            pane.cursor_settled()
            if step + 1 < len(place.trail):
                self.once_filled(screen, partial(self._step_to, screen, place, step + 1))
            else:
                pane.focus_table()

    def _shown_in_words(self) -> str:
        chosen = [
            f"session {self.session}" if self.session is not None else "",
            self.aggregation.words,
        ]
        words = ", ".join(part for part in chosen if part)
        return f" in what is shown ({words}): S and A choose otherwise" if words else " any more"

    def _let_in(self, pane: TablePane) -> bool:
        """Take away what leaves rows of a table out; False where nothing does."""
        state = pane.state
        reasons = [
            f"the filter {plain(state.filter)}" if state.filter else "",
            f"the carried filter {plain(self.carried)}" if self.carried else "",
            "leaving out small rows" if state.hides_small else "",
            f"showing the first {state.most_rows} alone" if state.most_rows is not None else "",
        ]
        pane.state = replace(state, filter="", hides_small=False, most_rows=None)
        self.carry_filter("")
        hidden_by = " and ".join(reason for reason in reasons if reason)
        if hidden_by:
            self.say(f"{hidden_by} hid the row: taken away")
        return bool(hidden_by)
