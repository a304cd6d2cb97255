"""Notes on rows, stored by files, view and row key."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import TYPE_CHECKING, Final

import msgspec

from tui.state.store import MOST_TEXT, DocumentFolder, Key, is_storable_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.state.store import Files


MOST_NOTES: Final = 1_000
"""Notes on the rows of one set of files; more are refused, so that none is lost unseen."""
MOST_CHARACTERS: Final = 2_000
"""Of one note."""
MOST_LINES: Final = 40
"""Of one note."""
MOST_WORDS: Final = 400
"""Characters of what a row is called."""
LATEST: Final = 2**37
"""Seconds since 1970: later moments were not written by this program."""
NOTES_FOLDER: Final = DocumentFolder("notes", version=1, most_entries=MOST_NOTES, most_files=500, most_bytes=64 * 2**20)


class RowPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """A row of a table of a view."""

    view: str
    """As `tui.views.View.name`."""
    level: str
    """The part of the view that has the focus when the row is gone to, as `tui.model.history.Place.level`."""
    trail: tuple[tuple[str, str, Key], ...]
    """For each table on the way to the row, its own as the last: id of the pane, name of the table, key of the row."""

    @property
    def name(self) -> str:
        """What it is kept under: a digest, so that no text of a profile becomes one."""
        return hashlib.sha256(msgspec.json.encode((self.view, self.trail))).hexdigest()[:32]

    @property
    def is_valid(self) -> bool:
        """Whether it is no larger than any that this program writes."""
        texts = (self.view, self.level, *(text for pane, table, _ in self.trail for text in (pane, table)))
        return (
            0 < len(self.trail) <= 8
            and all(len(text) <= MOST_TEXT for text in texts)
            and all(is_storable_key(key) for _, _, key in self.trail)
        )


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """A note."""

    place: RowPlace
    words: str
    """What the row is called, for people."""
    text: str
    at: int
    """When it was written, in seconds since 1970."""
    stamp: str
    """What the files held then: `tui.state.store.Files.stamp`."""

    @property
    def is_valid(self) -> bool:
        """Whether it is one that this program could have written."""
        return (
            self.place.is_valid
            and 0 <= self.at < LATEST
            and 0 < len(self.text) <= MOST_CHARACTERS
            and len(self.words) <= MOST_WORDS
        )


class Notes:
    """The notes on the rows of what is open, read when they are first asked for.

    Args:
        files: What is open; None: nothing that can be opened again, and nothing is kept.
    """

    def __init__(self, files: Files | None) -> None:
        self.files = files
        self._known: dict[str, Note] | None = None
        self._changed: dict[str, Note | None] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._complained = False
        self.complaint = ""
        """What is to be told to the user once; whoever tells it empties it."""

    @property
    def all(self) -> Mapping[str, Note]:
        """Every note, by the name of its row's place, the oldest first."""
        if self._known is None:
            self._known = self._read()
        return self._known

    def of(self, place: RowPlace) -> Note | None:
        """The note on a row."""
        return self.all.get(place.name)

    def keep(self, place: RowPlace, words: str, text: str) -> str:
        """Put a note on a row, or take it away where the text is blank; `write` must follow.

        Returns:
            Why that cannot be done; empty where it is.
        """
        assert self.files is not None, "notes need a file, not standard input"
        text = text.strip()
        if not text:
            self._put(place.name, None)
            return ""
        if why := too_much(text):
            return why
        if not place.is_valid:
            return "this row has no storable key: notes are not possible on it"
        if len(self.all) >= MOST_NOTES and place.name not in self.all:
            return f"this file has {MOST_NOTES:,} notes, the limit: delete one first"
        words = words if len(words) <= MOST_WORDS else f"{words[: MOST_WORDS - 1]}…"
        self._put(place.name, Note(place, words, text, int(time.time()), self.files.stamp))
        return ""

    def _put(self, name: str, note: Note | None) -> None:
        known = {key: value for key, value in self.all.items() if key != name}
        if note is not None:
            known[name] = note
        with self._lock:
            self._known = known
            self._changed[name] = note

    def write(self) -> None:
        """Write what has changed, and see what another run has written meanwhile. It can be called from any thread."""
        with self._writing:
            with self._lock:
                changed, self._changed = self._changed, {}
            if not changed or self.files is None:
                return
            content: dict[str, object] = {
                name: None if note is None else msgspec.to_builtins(note) for name, note in changed.items()
            }
            complaint = NOTES_FOLDER.change(self.files.name, content)
            self._complain(complaint)
            if complaint:
                # They stay for as long as the program runs, and are tried again with the next one.
                with self._lock:
                    self._changed = changed | self._changed
                return
            known = self._read()
            with self._lock:
                for name, note in self._changed.items():
                    known.pop(name, None)
                    if note is not None:
                        known[name] = note
                self._known = known

    def forget(self) -> str:
        """Take all notes on these files away.

        Returns:
            Why that is not possible; empty where they are gone.
        """
        with self._writing, self._lock:
            complaint = NOTES_FOLDER.drop(self.files.name) if self.files is not None else ""
            if not complaint:
                self._known, self._changed = {}, {}
            return complaint

    def _read(self) -> dict[str, Note]:
        if self.files is None:
            return {}
        document = NOTES_FOLDER.read(self.files.name)
        self._complain(document.complaint)
        known: dict[str, Note] = {}
        for name, entry in document.entries.items():
            try:
                note = msgspec.convert(entry, Note)
            except (msgspec.ValidationError, RecursionError):
                # The others can be used all the same.
                continue
            if note.is_valid and note.place.name == name:
                known[name] = note
        return known

    def _complain(self, words: str) -> None:
        if words and not self._complained:
            self._complained = True
            self.complaint = words


def too_much(text: str) -> str:
    """Why a text is too long for a note; empty where it is not."""
    if len(text) > MOST_CHARACTERS:
        return f"a note has at most {MOST_CHARACTERS:,} characters, this one {len(text):,}"
    lines = text.count("\n") + 1
    return f"a note has at most {MOST_LINES} lines, this one {lines}" if lines > MOST_LINES else ""
