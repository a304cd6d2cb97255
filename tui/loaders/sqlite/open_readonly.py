"""Opens a database read-only: the file is never changed, and SQL in its schema is not executed."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from tui.loaders.input_issues import InputIssue
from tui.loaders.temp_folders import Scratch
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from pathlib import Path

MAGIC: Final = b"SQLite format 3\0"

_HEADER_BYTES: Final = 100
_READ_VERSION: Final = 19
"""The byte of the header with the read version: 1 for a rollback journal, 2 for a write-ahead log."""
_NEWEST_READ_VERSION: Final = 2

_JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
_LOG_MAGIC: Final = bytes.fromhex("377f06")
"""The magic numbers of a write-ahead log; without one SQLite ignores the log."""

_LOCK_SECONDS: Final = 1.0
"""The longest time to wait for a writer."""
_COPY_ATTEMPTS: Final = 3

_ALLOWED_ACTIONS: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_TRANSACTION}
)
_ALLOWED_PRAGMAS: Final = frozenset({"table_xinfo", "encoding"})
_ALLOWED_FUNCTIONS: Final = frozenset({"count", "min", "max", "substr"})

_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    # The schema must parse, with the long views of rocprofv3, although no view is executed.
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}

DAMAGE: Final = (sqlite3.DatabaseError, UnicodeDecodeError)
"""Exceptions for a damaged database; messages that quote invalid text cannot be decoded by Python."""

SAFE_SETTINGS: Final = ("trusted_schema=OFF", "cell_size_check=ON", "query_only=ON", "mmap_size=0")
"""Settings of every connection: nothing in the schema is executed, pages are checked, nothing is written.

The file is not memory-mapped: truncation while it is read would crash the program.
"""


@dataclass(slots=True)
class OpenDatabaseFile:
    """An open database."""

    connection: sqlite3.Connection
    path: Path
    """The file that is read: the original or a copy."""
    is_damaged: bool
    """Whether it could only be opened without checks, because parts are missing."""
    notes: list[InputIssue]
    """Problems of the file."""
    folder: Scratch | None = None
    """The folder of the copy, if it is one."""
    _before: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self._before = _stamp(self.path)

    @property
    def size(self) -> int:
        """Its size when it was opened, in bytes."""
        return self._before[0]

    def has_changed(self) -> bool:
        """Return whether the file was written to since it was opened."""
        return _stamp(self.path) != self._before

    def close(self) -> None:
        """Close the file, and remove the copy."""
        self.connection.close()
        if self.folder is not None:
            self.folder.close()


def immutable_uri(path: Path) -> str:
    """Return the URI with which SQLite reads a file without locks and without auxiliary files."""
    return f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"


def open_database(path: Path, display_name: str) -> OpenDatabaseFile:
    """Open a database for reading.

    Args:
        path: Its path.
        display_name: Its name for messages.

    Raises:
        ProftuiError: It is no database, another process is writing to it, or it is damaged beyond reading.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header.startswith(MAGIC) or len(header) < _HEADER_BYTES:
        raise ProftuiError(f"{display_name}: incomplete SQLite database")
    if header[_READ_VERSION] > _NEWEST_READ_VERSION:
        raise ProftuiError(
            f"{display_name}: written by a newer SQLite version than this one ({sqlite3.sqlite_version})",
            "export it again in the current format",
        )
    log = _auxiliary_file(path, "-wal")
    if log is not None and header[_READ_VERSION] == _NEWEST_READ_VERSION and _has_header(log, _LOG_MAGIC):
        return _copy_with_log(path, log, display_name)
    notes: list[InputIssue] = []
    missing = _missing_bytes(header, path.stat().st_size)
    if missing:
        missing_text = "1 byte" if missing == 1 else f"{missing:,} bytes"
        reason = f"the file is {missing_text} shorter than its header claims (truncated); the readable part is shown"
        notes.append(InputIssue("error", None, path.name, reason))
    journal = _auxiliary_file(path, "-journal")
    # The journal of a finished transaction may remain, with a zeroed header.
    if journal is not None and _has_header(journal, _JOURNAL_MAGIC):
        notes.append(
            InputIssue(
                "error",
                None,
                f"{path.name}-journal",
                "the last write to the database is incomplete: data may be missing or inconsistent; export it "
                "again, or roll it back with sqlite3",
            )
        )
        return _open_with_checks(path, display_name, notes, locks=False)
    return _open_with_checks(path, display_name, notes, locks=header[_READ_VERSION] != _NEWEST_READ_VERSION)


def _missing_bytes(header: bytes, size: int) -> int:
    """Return the number of bytes missing according to the header, if the header is plausible."""
    page_size = int.from_bytes(header[16:18])
    page_size = 1 << 16 if page_size == 1 else page_size
    # Old versions of SQLite do not write the number of pages and leave the change counter outdated.
    is_current = header[24:28] == header[92:96]
    return max(int.from_bytes(header[28:32]) * page_size - size, 0) if is_current else 0


def _open_with_checks(path: Path, display_name: str, notes: list[InputIssue], *, locks: bool) -> OpenDatabaseFile:
    """Open a file and read its schema with the strictest checks that it passes."""
    locking_uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        try:
            return OpenDatabaseFile(_connect(locking_uri if locks else immutable_uri(path)), path, False, notes)
        except sqlite3.OperationalError as error:
            if not locks:
                raise
            if _is_busy(error):
                raise ProftuiError(
                    f"{display_name}: another process is writing to it", "open it again when that process has finished"
                ) from error
            # The file system has no locks, or the folder is not readable.
            return OpenDatabaseFile(_connect(immutable_uri(path)), path, False, notes)
    except DAMAGE as error:
        try:
            connection = _connect(immutable_uri(path), accept_damaged=True)
        except (sqlite3.Error, *DAMAGE):
            raise ProftuiError(
                f"{display_name}: cannot be read as an SQLite database ({error})",
                "it is damaged, or was copied while being written; export or copy it again",
            ) from error
        if not any(note.text == path.name for note in notes):
            notes.append(
                InputIssue(
                    "error", None, str(error), "the database is damaged or truncated; the readable part is shown"
                )
            )
        return OpenDatabaseFile(connection, path, True, notes)


def _connect(uri: str, *, accept_damaged: bool = False) -> sqlite3.Connection:
    """Return a connection that has read the schema and is restricted to reading.

    Args:
        uri: The file and the mode.
        accept_damaged: Accept a file that is shorter than its header says.
    """
    connection = sqlite3.connect(uri, uri=True, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        for setting in (*SAFE_SETTINGS, "writable_schema=ON") if accept_damaged else SAFE_SETTINGS:
            connection.execute(f"PRAGMA {setting}")
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        connection.text_factory = _text
        connection.set_authorizer(_authorize)
        # One transaction for all reads, so that all tables are consistent.
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _authorize(
    action: int, argument: str | None, function: str | None, _database: str | None, trigger_or_view: str | None
) -> int:
    """Authorize the reading of tables, as an authorizer of SQLite; deny anything through views or triggers."""
    allowed = action in _ALLOWED_ACTIONS and trigger_or_view is None
    if action == sqlite3.SQLITE_PRAGMA:
        allowed = argument in _ALLOWED_PRAGMAS
    elif action == sqlite3.SQLITE_FUNCTION:
        allowed = (function or "").lower() in _ALLOWED_FUNCTIONS and trigger_or_view is None
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _text(raw: bytes) -> str:
    return str(raw, "utf-8", "replace")


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _auxiliary_file(path: Path, ending: str) -> Path | None:
    """Return an auxiliary file of SQLite beside a database, if it is not empty."""
    auxiliary = path.with_name(path.name + ending)
    try:
        return auxiliary if auxiliary.is_file() and auxiliary.stat().st_size else None
    except OSError:
        return None


def _has_header(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError:
        # Unreadable: assume the worst.
        return True


def _copy_with_log(path: Path, log: Path, display_name: str) -> OpenDatabaseFile:
    """Copy a database with the changes in its log; reading the log in place would write beside the file."""
    try:
        folder = Scratch()
    except OSError as error:
        raise _disk_full(display_name, error) from error
    copy = folder.path / "database"
    try:
        for _ in range(_COPY_ATTEMPTS):
            before = (_stamp(path), _stamp(log))
            shutil.copyfile(path, copy)
            shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
            if (_stamp(path), _stamp(log)) == before:
                break
        else:
            raise ProftuiError(
                f"{display_name}: another process is writing to it", "open it again when that process has finished"
            )
        # Opening the copy for writing applies the log.
        connection = sqlite3.connect(copy)
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            connection.close()
        database_file = _open_with_checks(copy, display_name, [], locks=False)
    except OSError as error:
        folder.close()
        raise _disk_full(display_name, error) from error
    except (sqlite3.Error, *DAMAGE) as error:
        folder.close()
        raise ProftuiError(f"{display_name}: cannot be read as an SQLite database ({error})") from error
    except ProftuiError:
        folder.close()
        raise
    database_file.folder = folder
    database_file.notes.append(
        InputIssue("info", None, log.name, "a copy that includes the latest changes in the write-ahead log was read")
    )
    return database_file


def _disk_full(display_name: str, error: OSError) -> ProftuiError:
    return ProftuiError(
        f"{display_name}: cannot be copied into {tempfile.gettempdir()} ({error.strerror or error})",
        "set TMPDIR to a folder with more free space",
    )


def _stamp(path: Path) -> tuple[int, int]:
    """Return size and modification time of a file."""
    try:
        status = path.stat()
    except OSError:
        return (-1, -1)
    return (status.st_size, status.st_mtime_ns)
