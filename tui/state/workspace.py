"""State between runs: workspaces of sets of files, arrangements of tables, SQL queries, opened profiles.

A workspace holds the views, tables, cursors and marks as the user left them.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from tui.fmt import UNITS
from tui.model.aggregation import STEP_PHASES, Aggregation
from tui.state.store import MAX_TEXT, DocumentFolder, Key, Store, is_storable_key, state_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tui.model.history import Place
    from tui.model.table_spec import TableState
    from tui.state.store import Files

MAX_OPENED: Final = 200
"""The maximum number of files that are remembered."""
MAX_KERNELS: Final = 5
"""The maximum number of kernels of the first figures."""


class KernelTotal(msgspec.Struct, frozen=True):
    """A kernel, copy or memset with its total."""

    name: str
    calls: int | None
    total_ns: int | None


class FirstFigures(msgspec.Struct, frozen=True, omit_defaults=True):
    """The figures of a profile on the home screen; None if not recorded."""

    format: str
    gpu: str | None = None
    duration_ns: int | None = None
    sessions: int = 1
    launches: int | None = None
    gpu_ns: int | None = None
    ops: int = 0
    api_calls: int = 0
    top: tuple[KernelTotal, ...] = ()


class OpenedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a file when it was last opened."""

    opened: int
    """Seconds since 1970."""
    size: int
    modified_ns: int
    figures: FirstFigures | None = None


def _store() -> Store:
    return Store(state_folder() / "opened.json", version=1, max_entries=MAX_OPENED)


def opened_files() -> dict[str, OpenedFile]:
    """Return the files that were opened before, by path, the latest last."""
    opened: dict[str, OpenedFile] = {}
    for path, entry in _store().read().entries.items():
        with suppress(msgspec.ValidationError, RecursionError):
            opened[path] = msgspec.convert(entry, OpenedFile)
    return dict(sorted(opened.items(), key=lambda item: item[1].opened))


def remember_opened(path: str, figures: FirstFigures | None) -> str:
    """Remember that a file was opened now.

    Args:
        path: The file, or a folder of profiles.
        figures: Its first figures; None if they are unknown.

    Returns:
        Why it could not be stored, for the user; empty on success.
    """
    absolute = os.path.abspath(path)  # noqa: PTH100 (paths may be no valid text)
    try:
        absolute.encode()
        status = os.stat(absolute)  # noqa: PTH116
    except (OSError, UnicodeEncodeError):
        return ""
    if len(absolute) > MAX_TEXT:
        return ""
    entry = OpenedFile(int(time.time()), status.st_size, status.st_mtime_ns, figures)
    return _store().change({absolute: msgspec.to_builtins(entry)})


ARRANGEMENTS_VERSION: Final = 1
MAX_ARRANGEMENTS: Final = 300
"""The maximum number of tables in the file; the program has a few dozen."""
MAX_COLUMNS: Final = 500
"""The maximum number of columns of an arrangement; a larger one was not written by this program."""


class Arrangement(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=False):
    """The part of a `TableState` that is remembered, of one table.

    Sort order and row limit depend on the file, so they are not stored.
    """

    hidden: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    name_last: bool = False
    unit: str = "auto"
    full_names: bool = False
    as_share: bool = False
    share_of_shown: bool = False

    @classmethod
    def from_state(cls, state: TableState) -> Arrangement:
        """Return the part of a state to store."""
        return cls(
            hidden=tuple(sorted(state.hidden)),
            order=state.order,
            pinned=state.pinned,
            name_last=state.name_last,
            unit=state.unit,
            full_names=state.full_names,
            as_share=state.as_share,
            share_of_shown=state.share_of_shown,
        )

    def apply_to(self, state: TableState) -> TableState:
        """Return the state with this arrangement; filter, search, cursor and marks stay."""
        return replace(
            state,
            hidden=frozenset(self.hidden),
            order=self.order,
            pinned=self.pinned,
            name_last=self.name_last,
            unit=self.unit if self.unit in UNITS else "auto",
            full_names=self.full_names,
            as_share=self.as_share,
            share_of_shown=self.share_of_shown,
        )

    @property
    def is_valid(self) -> bool:
        """Whether its size is within the limits of what this program writes."""
        named = (self.hidden, self.order, self.pinned)
        return all(len(names) <= MAX_COLUMNS for names in named)


PLAIN: Final = Arrangement()
"""A table that the user has not arranged; it is not stored."""


class Arrangements:
    """The arrangements of all tables: read once; changes are written together.

    Args:
        store: Where they are stored; None: in the user's state directory.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._store = store or Store(
            state_folder() / "tables.json", version=ARRANGEMENTS_VERSION, max_entries=MAX_ARRANGEMENTS
        )
        self._known: dict[str, Arrangement] | None = None
        self._changed: dict[str, object] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._has_warned = False
        self.warning = ""
        """A message for the user; whoever shows it clears it."""

    def get(self, table: str) -> Arrangement:
        """Return the last arrangement of a table."""
        return self._read_all().get(table, PLAIN)

    def keep(self, table: str, arrangement: Arrangement) -> bool:
        """Set the arrangement of a table, to be stored by `write`; False if it is unchanged."""
        if self.get(table) == arrangement:
            return False
        self._read_all()[table] = arrangement
        with self._lock:
            self._changed[table] = None if arrangement == PLAIN else msgspec.to_builtins(arrangement)
        return True

    def write(self) -> None:
        """Write the changes; thread-safe."""
        with self._writing:
            with self._lock:
                changed, self._changed = self._changed, {}
            if changed:
                self._warn_once(self._store.change(changed))

    def _read_all(self) -> dict[str, Arrangement]:
        if self._known is None:
            document = self._store.read()
            self._warn_once(document.warning)
            self._known = {}
            for table, entry in document.entries.items():
                try:
                    arrangement = msgspec.convert(entry, Arrangement)
                except msgspec.ValidationError:
                    # One invalid entry does not affect the others.
                    continue
                if arrangement.is_valid:
                    self._known[table] = arrangement
        return self._known

    def _warn_once(self, message: str) -> None:
        # Once a run: an unwritable directory must not cause a message at every key.
        if message and not self._has_warned:
            self._has_warned = True
            self.warning = message


MAX_QUERIES: Final = 100
MAX_CHARACTERS: Final = 10_000
"""The longest query that is stored."""


class StoredQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """A query that was run."""

    text: str
    files: str
    """The files that were queried: `tui.state.store.Files.name`."""
    at_ns: int
    """The time of the query, since 1970."""


class Queries:
    """The queries of this run and of earlier runs.

    Args:
        store: Where they are stored; None: in the user's state directory.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._store = store or Store(state_folder() / "queries.json", version=1, max_entries=MAX_QUERIES)
        self._writing = threading.Lock()

    def texts(self) -> list[str]:
        """Return all queries, oldest first."""
        return [query.text for query in self._read().values()]

    def keep(self, text: str, files: str) -> str:
        """Store a query as the latest; thread-safe.

        Args:
            text: The query.
            files: The files that were queried: `tui.state.store.Files.name`.

        Returns:
            Why it could not be stored; empty on success, and for a query longer than the limit.
        """
        if len(text) > MAX_CHARACTERS:
            return ""
        entry = msgspec.to_builtins(StoredQuery(text, files, time.time_ns()))
        with self._writing:
            return self._store.change({hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]: entry})

    def forget(self, files: str) -> str:
        """Remove the queries of these files.

        Returns:
            Why they could not be removed; empty on success.
        """
        with self._writing:
            names = [name for name, query in self._read().items() if query.files == files]
            return self._store.change(dict.fromkeys(names)) if names else ""

    def _read(self) -> dict[str, StoredQuery]:
        queries = {}
        for name, entry in self._store.read().entries.items():
            try:
                query = msgspec.convert(entry, StoredQuery)
            except (msgspec.ValidationError, RecursionError):
                # One invalid entry does not affect the others.
                continue
            if query.text.strip() and len(query.text) <= MAX_CHARACTERS:
                queries[name] = query
        return queries


MAX_MARKS: Final = 5_000
"""The most marked rows of a table; of a table with more, none are stored."""
MAX_PLACES: Final = 64
"""The maximum number of views that are stored; there are about twenty."""
MAX_TABLES: Final = 32
"""The maximum number of tables of a view."""
MAX_NUMBER: Final = 2**62
"""The largest valid line number, lane or time."""
WORKSPACES: Final = DocumentFolder("left-off", version=1, max_entries=1, max_files=200, max_bytes=16 * 2**20)
ENTRY: Final = "last"


class SavedTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a `TableState` that depends on the file; the rest is an `Arrangement`."""

    pane: str
    filter: str = ""
    find: str = ""
    sort: tuple[tuple[str, bool], ...] | None = None
    max_rows: int | None = None
    hides_small: bool = False
    cursor_key: Key | None = None
    cursor_column: str = ""
    marks: tuple[Key, ...] = ()

    @classmethod
    def from_state(cls, pane: str, state: TableState) -> SavedTable:
        """Return the part of a table's state to store."""
        marks = state.marks if len(state.marks) <= MAX_MARKS and all(map(is_storable_key, state.marks)) else ()
        cursor = state.cursor_key if state.cursor_key is not None and is_storable_key(state.cursor_key) else None
        return cls(
            pane=pane,
            filter=state.filter[:MAX_TEXT],
            find=state.find[:MAX_TEXT],
            sort=state.sort,
            max_rows=state.max_rows,
            hides_small=state.hides_small,
            cursor_key=cursor,  # type: ignore[arg-type]
            cursor_column=state.cursor_column,
            marks=tuple(sorted(marks, key=repr)),  # type: ignore[arg-type]
        )

    def apply_to(self, state: TableState) -> TableState:
        """Return the state with this filter, sort order, cursor and marks; columns and units stay."""
        return replace(
            state,
            filter=self.filter,
            find=self.find,
            sort=self.sort,
            max_rows=self.max_rows,
            hides_small=self.hides_small,
            cursor_key=self.cursor_key,
            cursor_column=self.cursor_column,
            marks=frozenset(self.marks),
        )

    @property
    def is_valid(self) -> bool:
        """Whether this program could have written it."""
        texts = (self.pane, self.filter, self.find, self.cursor_column, *(name for name, _ in self.sort or ()))
        keys = [*self.marks, *([self.cursor_key] if self.cursor_key is not None else [])]
        return (
            all(len(text) <= MAX_TEXT for text in texts)
            and len(self.sort or ()) <= MAX_TABLES
            and len(self.marks) <= MAX_MARKS
            and all(map(is_storable_key, keys))
            and (self.max_rows is None or 0 < self.max_rows < MAX_NUMBER)
        )


class SavedPlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """A `Place`."""

    view: str
    level: str = ""
    tables: tuple[SavedTable, ...] = ()
    line: int | None = None
    spot: tuple[int, ...] = ()
    text: str = ""

    @classmethod
    def from_place(cls, place: Place) -> SavedPlace:
        """Return the part of a place to store."""
        tables = tuple(SavedTable.from_state(pane, state) for pane, state in place.states)
        level, text = (text if len(text) <= MAX_TEXT else "" for text in (place.level, place.text))
        return cls(place.view, level, tables, place.line, place.timeline_position, text)

    @property
    def is_valid(self) -> bool:
        """Whether this program could have written it."""
        numbers = (*self.spot, *([self.line] if self.line is not None else []))
        return (
            len(self.view) <= MAX_TEXT
            and len(self.level) <= MAX_TEXT
            and len(self.text) <= MAX_TEXT
            and len(self.tables) <= MAX_TABLES
            and all(table.is_valid for table in self.tables)
            and len(self.spot) in (0, 5)
            and all(-MAX_NUMBER < number < MAX_NUMBER for number in numbers)
            and (self.line is None or self.line > 0)
            and all(number >= 0 for number in self.spot[:2])
        )


class Workspace(msgspec.Struct, frozen=True, omit_defaults=True):
    """The views, session and filter of the last run."""

    stamp: str
    """The state of the files: `tui.state.store.Files.stamp`."""
    places: tuple[SavedPlace, ...]
    """The views that were open, the current one last."""
    session: int | None = None
    first: int | None = None
    last: int | None = None
    key: str | None = None
    global_filter: str = ""
    phase: str | None = None

    @property
    def aggregation(self) -> Aggregation:
        """The iterations that were shown."""
        return Aggregation(self.first, self.last, self.key, self.phase)

    @property
    def place(self) -> SavedPlace:
        """The current view."""
        return self.places[-1]

    @property
    def is_valid(self) -> bool:
        """Whether this program could have written it."""
        numbers = [number for number in (self.session, self.first, self.last) if number is not None]
        return (
            0 < len(self.places) <= MAX_PLACES
            and all(place.is_valid for place in self.places)
            and all(0 <= number < MAX_NUMBER for number in numbers)
            and len(self.key or "") <= MAX_TEXT
            and self.phase in (None, *STEP_PHASES)
            and len(self.global_filter) <= MAX_TEXT
        )


def current_workspace(
    files: Files, places: Iterable[Place], *, session: int | None, aggregation: Aggregation, global_filter: str
) -> Workspace:
    """Return the workspace as it is now.

    Args:
        files: The open files.
        places: The views that were open, each once, the current one last.
        session: The session that is shown; None: all.
        aggregation: The iterations that are shown.
        global_filter: The global filter.
    """
    saved = tuple(SavedPlace.from_place(place) for place in places)[-MAX_PLACES:]
    return Workspace(
        files.stamp,
        saved,
        session,
        aggregation.first,
        aggregation.last,
        aggregation.key,
        global_filter[:MAX_TEXT],
        aggregation.phase,
    )


def with_earlier_views(workspace: Workspace, places: tuple[SavedPlace, ...]) -> Workspace:
    """Return the workspace with further views before its own."""
    return msgspec.structs.replace(workspace, places=(*places, *workspace.places)[-MAX_PLACES:])


def read_workspace(files: Files) -> tuple[Workspace | None, str]:
    """Return the workspace of these files, or None; and a warning for the user, or an empty text."""
    document = WORKSPACES.read(files.name)
    try:
        workspace = msgspec.convert(document.entries[ENTRY], Workspace) if ENTRY in document.entries else None
    except (msgspec.ValidationError, RecursionError):
        return None, document.warning
    return (workspace if workspace is not None and workspace.is_valid else None), document.warning


def save(files: Files, workspace: Workspace) -> str:
    """Store the workspace; return why that failed, or an empty text."""
    return WORKSPACES.change(files.name, {ENTRY: msgspec.to_builtins(workspace)})


def forget(files: Files) -> str:
    """Delete the workspace of these files; return why that failed, or an empty text."""
    return WORKSPACES.drop(files.name)
