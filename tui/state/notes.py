"""Notes on rows, stored by files, view and row key."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import TYPE_CHECKING, Final

import msgspec

from tui.state.store import MAX_TEXT, DocumentFolder, Key, is_storable_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.state.store import Files


MAX_NOTES: Final = 1_000
"""The maximum number of notes on one set of files; more are refused rather than evicted."""
MAX_CHARACTERS: Final = 2_000
"""The most characters of a note."""
MAX_LINES: Final = 40
"""The most lines of a note."""
MAX_LABEL_CHARACTERS: Final = 400
"""The longest label of a row, in characters."""
LATEST: Final = 2**37
"""The latest valid time, in seconds since 1970."""
NOTES_FOLDER: Final = DocumentFolder("notes", version=1, max_entries=MAX_NOTES, max_files=500, max_bytes=64 * 2**20)


class RowPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """A row of a table of a view."""

    view: str
    """The view, as `tui.views.View.name`."""
    level: str
    """The part of the view to focus, as `tui.model.history.Place.level`."""
    trail: tuple[tuple[str, str, Key], ...]
    """For each table on the path to the row, its own last: id of the pane, name of the table, key of the row."""

    @property
    def name(self) -> str:
        """The key in the store: a digest, so that no text of a profile is used as one."""
        return hashlib.sha256(msgspec.json.encode((self.view, self.trail))).hexdigest()[:32]

    @property
    def is_valid(self) -> bool:
        """Whether its size is within the limits of what this program writes."""
        texts = (self.view, self.level, *(text for pane, table, _ in self.trail for text in (pane, table)))
        return (
            0 < len(self.trail) <= 8
            and all(len(text) <= MAX_TEXT for text in texts)
            and all(is_storable_key(key) for _, _, key in self.trail)
        )


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """A note."""

    place: RowPlace
    words: str
    """The label of the row."""
    text: str
    at: int
    """When it was written, in seconds since 1970."""
    stamp: str
    """The state of the files then: `tui.state.store.Files.stamp`."""

    @property
    def is_valid(self) -> bool:
        """Whether this program could have written it."""
        return (
            self.place.is_valid
            and 0 <= self.at < LATEST
            and 0 < len(self.text) <= MAX_CHARACTERS
            and len(self.words) <= MAX_LABEL_CHARACTERS
        )


class Notes:
    """The notes on the rows of the open files, read on first use.

    Args:
        files: The open files; None: standard input, whose notes are not stored.
    """

    def __init__(self, files: Files | None) -> None:
        self.files = files
        self._known: dict[str, Note] | None = None
        self._changed: dict[str, Note | None] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._has_warned = False
        self.warning = ""
        """A message for the user; whoever shows it clears it."""

    @property
    def by_name(self) -> Mapping[str, Note]:
        """All notes by `RowPlace.name`, oldest first."""
        if self._known is None:
            self._known = self._read()
        return self._known

    def get(self, place: RowPlace) -> Note | None:
        """Return the note on a row."""
        return self.by_name.get(place.name)

    def keep(self, place: RowPlace, label: str, text: str) -> str:
        """Set the note on a row, or remove it if the text is blank; `write` stores the change.

        Returns:
            Why it was refused; empty on success.
        """
        assert self.files is not None, "notes need a file, not standard input"
        text = text.strip()
        if not text:
            self._put(place.name, None)
            return ""
        if error := length_error(text):
            return error
        if not place.is_valid:
            return "no note possible: this row has no stable key"
        if len(self.by_name) >= MAX_NOTES and place.name not in self.by_name:
            return f"this file has {MAX_NOTES:,} notes, the limit: delete one first"
        label = label if len(label) <= MAX_LABEL_CHARACTERS else f"{label[: MAX_LABEL_CHARACTERS - 1]}…"
        self._put(place.name, Note(place, label, text, int(time.time()), self.files.stamp))
        return ""

    def _put(self, name: str, note: Note | None) -> None:
        notes = {key: value for key, value in self.by_name.items() if key != name}
        if note is not None:
            notes[name] = note
        with self._lock:
            self._known = notes
            self._changed[name] = note

    def write(self) -> None:
        """Write the changes and read those of other runs; thread-safe."""
        with self._writing:
            with self._lock:
                changed, self._changed = self._changed, {}
            if not changed or self.files is None:
                return
            content: dict[str, object] = {
                name: None if note is None else msgspec.to_builtins(note) for name, note in changed.items()
            }
            warning = NOTES_FOLDER.change(self.files.name, content)
            self._warn_once(warning)
            if warning:
                # They stay in memory and are written with the next change.
                with self._lock:
                    self._changed = changed | self._changed
                return
            notes = self._read()
            with self._lock:
                for name, note in self._changed.items():
                    notes.pop(name, None)
                    if note is not None:
                        notes[name] = note
                self._known = notes

    def forget(self) -> str:
        """Remove all notes on these files.

        Returns:
            Why they could not be removed; empty on success.
        """
        with self._writing, self._lock:
            warning = NOTES_FOLDER.drop(self.files.name) if self.files is not None else ""
            if not warning:
                self._known, self._changed = {}, {}
            return warning

    def _read(self) -> dict[str, Note]:
        if self.files is None:
            return {}
        document = NOTES_FOLDER.read(self.files.name)
        self._warn_once(document.warning)
        notes: dict[str, Note] = {}
        for name, entry in document.entries.items():
            try:
                note = msgspec.convert(entry, Note)
            except (msgspec.ValidationError, RecursionError):
                # One invalid entry does not affect the others.
                continue
            if note.is_valid and note.place.name == name:
                notes[name] = note
        return notes

    def _warn_once(self, message: str) -> None:
        if message and not self._has_warned:
            self._has_warned = True
            self.warning = message


def length_error(text: str) -> str:
    """Return why a text is too long for a note; empty if it fits."""
    if len(text) > MAX_CHARACTERS:
        return f"a note has at most {MAX_CHARACTERS:,} characters, this one {len(text):,}"
    lines = text.count("\n") + 1
    return f"a note has at most {MAX_LINES} lines, this one {lines}" if lines > MAX_LINES else ""
