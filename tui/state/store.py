"""JSON documents in the user's state directory: written atomically, validated when read, bounded in number and size."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import platformdirs

from tui.cache.secure_files import make_private_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


MAX_BYTES: Final = 4 * 2**20
"""A larger document was not written by this program."""
WAIT_SECONDS: Final = 1.0
"""The longest time to wait for another run that is changing the same directory."""


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a document."""

    entries: dict[str, object]
    """The entries by key, oldest first; not validated. Empty if there is no document."""
    warning: str = ""
    """Why it could not be used, for the user; empty if it was used or there is none."""
    is_foreign: bool = False
    """Another version of the program wrote it: it must not be replaced."""


def state_folder() -> Path:
    """Return the directory of the user's state; it may not exist yet."""
    return platformdirs.user_state_path("proftui", appauthor=False)


class Store:
    """One document: entries by key, under a version.

    Args:
        path: The path of the file.
        version: The version that this program writes, and the only one that it reads.
        max_entries: The maximum number of entries; the oldest are dropped first.
    """

    def __init__(self, path: Path, *, version: int, max_entries: int) -> None:
        self.path = path
        self.version = version
        self.max_entries = max_entries

    def read(self) -> Document:
        """Read the document; damage becomes `Document.warning`, never an exception."""
        try:
            if self.path.stat().st_size > MAX_BYTES:
                return self._unusable("too large")
            content = msgspec.json.decode(self.path.read_bytes())
        except FileNotFoundError:
            return Document({})
        except OSError as error:
            return Document({}, f"{self.path} cannot be read: {error.strerror or error}", is_foreign=True)
        except (msgspec.DecodeError, RecursionError):
            return self._unusable("damaged")
        if not isinstance(content, dict) or not isinstance(content.get("entries"), dict):
            return self._unusable("damaged")
        if content.get("version") != self.version:
            return Document(
                {},
                f"{self.path} was written by another version of proftui: left unchanged and not used",
                is_foreign=True,
            )
        return Document(content["entries"])

    def _unusable(self, reason: str) -> Document:
        return Document({}, f"{self.path} is {reason}: not used")

    def change(self, changes: dict[str, object]) -> str:
        """Set entries, or remove those whose new value is None.

        The document is read again just before, so changes of other runs are preserved.
        An unchanged document is not written.

        Returns:
            Why it could not be written, for the user; empty on success.
        """
        with _locked(self.path.parent):
            return self._change(changes)

    def _change(self, changes: dict[str, object]) -> str:
        stored = self.read()
        if stored.is_foreign:
            return stored.warning
        entries = dict(stored.entries)
        # As JSON returns them (lists for tuples), so that equal entries compare equal.
        as_json = msgspec.json.decode(msgspec.json.encode(changes))
        for key, value in as_json.items():
            if value is None or entries.get(key) != value:
                entries.pop(key, None)
            if value is not None:
                # A changed entry becomes the newest.
                entries.setdefault(key, value)
        for key in list(entries)[: max(0, len(entries) - self.max_entries)]:
            del entries[key]
        if entries == stored.entries:
            return ""
        content = msgspec.json.encode({"version": self.version, "entries": entries})
        if len(content) > MAX_BYTES:
            return f"{self.path} is full: delete entries to store more"
        return self._write(content, stored)

    def _write(self, content: bytes, stored: Document) -> str:
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            make_state_folder(self.path.parent)
            if stored.warning:
                # A damaged file may be repaired by hand: it is renamed, not deleted.
                self.path.replace(self.path.with_name(f"{self.path.name}.damaged"))
            try:
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                temporary.replace(self.path)
            finally:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
        except OSError as error:
            return f"{self.path} cannot be written: {error.strerror or error}"
        return ""


def make_state_folder(directory: Path) -> None:
    """Make a directory of the state with access for the user alone, and its parents up to the program's own.

    Raises:
        OSError: It cannot be made, or belongs to another user.
    """
    top = state_folder()
    for folder in [*(parent for parent in reversed(directory.parents) if parent.is_relative_to(top)), directory]:
        make_private_folder(folder.resolve())  # the user may have linked it to another disk


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Lock the directory against changes by other runs, if the file system supports locks."""
    descriptor = None
    try:
        import fcntl

        make_state_folder(directory)
        descriptor = os.open(directory, os.O_RDONLY)
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # A lock held longer belongs to a hanging run: at worst one of two changes is lost.
                if time.monotonic() > deadline:
                    break
                time.sleep(0.01)
    except (ImportError, OSError):
        # Some systems and network file systems have no locks.
        pass
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


DOCUMENT_SUFFIXES: Final = (".json", ".json.damaged")


@dataclass(frozen=True, slots=True)
class DocumentFolder:
    """Documents of one kind."""

    kind: str
    """The name of the folder below `state_folder`."""
    version: int
    """The version that is written, and the only one that is read."""
    max_entries: int
    """The maximum number of entries of one document."""
    max_files: int
    """The maximum number of documents; the oldest are removed first."""
    max_bytes: int
    """The maximum number of bytes of all documents together; the oldest are removed first."""

    @property
    def folder(self) -> Path:
        """The folder of the documents."""
        return state_folder() / self.kind

    def _store(self, name: str) -> Store:
        return Store(self.folder / f"{name}.json", version=self.version, max_entries=self.max_entries)

    def read(self, name: str) -> Document:
        """Return a document; empty if there is none."""
        return self._store(name).read()

    def change(self, name: str, changes: dict[str, object]) -> str:
        """Change entries of a document, as `Store.change` does, and remove the oldest documents above the limits.

        Returns:
            Why it could not be written; empty on success.
        """
        store = self._store(name)
        warning = store.change(changes)
        if not warning:
            self._evict(store.path.name)
        return warning

    def drop(self, name: str) -> str:
        """Delete a document, whatever its version.

        Returns:
            Why it could not be deleted; empty on success.
        """
        try:
            for suffix in DOCUMENT_SUFFIXES:
                (self.folder / f"{name}{suffix}").unlink(missing_ok=True)
        except OSError as error:
            return f"{self.folder} cannot be changed: {error.strerror or error}"
        return ""

    def _evict(self, written: str) -> None:
        with suppress(OSError):
            paths = [path for path in self.folder.iterdir() if path.name.endswith(DOCUMENT_SUFFIXES)]
            by_age = []
            for path in paths:
                with suppress(OSError):
                    status = path.stat()
                    by_age.append((path.name == written, status.st_mtime_ns, status.st_size, path))
            number, size = 0, 0
            # Newest first, starting with the one just written.
            for _is_written, _time, bytes_, path in sorted(by_age, reverse=True):
                number, size = number + 1, size + bytes_
                if number > self.max_files or (size > self.max_bytes and number > 1):
                    with suppress(OSError):
                        path.unlink()


Scalar = str | int | float | bool | None
"""The types of the values of a row's key."""
Key = tuple[Scalar, ...]
"""Identifies a row by values: `tui.model.table_spec.TableSpec.key`."""

MAX_TEXT: Final = 16_384
"""The longest text in a key; C++ names of several thousand characters exist."""
MAX_VALUES: Final = 32
"""The maximum number of values of a key; tables have up to eleven."""


def is_storable_key(key: Sequence[object]) -> bool:
    """Return whether a key can be stored and is valid when it is read.

    >>> [is_storable_key(key) for key in ((0, "kernel", None), (float("nan"),), (["list"],), ("x" * 20_000,))]
    [True, False, False, False]
    """
    return len(key) <= MAX_VALUES and all(map(_is_storable_value, key))


def _is_storable_value(value: object) -> bool:
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, str):
        return len(value) <= MAX_TEXT
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    return isinstance(value, float) and abs(value) < float("inf")


MAX_FILES_IN_FOLDER: Final = 5_000
"""The maximum number of files of a folder whose size and time count."""


@dataclass(frozen=True, slots=True)
class Files:
    """The identity of the files that are open together."""

    name: str
    """A digest of their paths, under which state is stored without revealing them."""
    stamp: str
    """A digest of their sizes and modification times; it changes with their content."""


def files(paths: Sequence[str]) -> Files | None:
    """Return the identity of open files; None for standard input, which cannot be opened again."""
    if not paths or "-" in paths:
        return None
    real = [os.path.realpath(path) for path in paths]
    stamps = [str(stamp) for path in real for stamp in _stamps(path)]
    return Files(_digest(real), _digest(stamps))


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        content = os.fsencode(text)
        digest.update(f"{len(content)}:".encode() + content)
    return digest.hexdigest()[:32]


def _stamps(path: str) -> Iterator[tuple[str, int, int]]:
    """Yield name, size and modification time of a file, or of all files of a folder."""
    yield _stamp(path, "")
    if os.path.isdir(path):  # noqa: PTH112 (paths may be no valid text)
        count = 0
        for folder, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                count += 1
                if count > MAX_FILES_IN_FOLDER:
                    return
                yield _stamp(os.path.join(folder, name), name)  # noqa: PTH118


def _stamp(path: str, name: str) -> tuple[str, int, int]:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return name, -1, -1
    # A folder's own time changes when an export is written beside a profile: only its files count.
    is_folder = os.path.isdir(path)  # noqa: PTH112
    return (name, 0, 0) if is_folder else (name, status.st_size, status.st_mtime_ns)
