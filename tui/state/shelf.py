"""A folder of documents, one for each set of files that was opened: so many at most, the oldest go."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tui.state.store import Document, Store, folder

if TYPE_CHECKING:
    from pathlib import Path

ENDINGS: Final = (".json", ".json.damaged")


@dataclass(frozen=True, slots=True)
class Shelf:
    """Documents of one kind."""

    kind: str
    """The folder below that of the program."""
    version: int
    """What is written, and the only version that is read."""
    most_entries: int
    """Entries of one document."""
    most_files: int
    """Documents; the oldest go first."""
    most_bytes: int
    """Bytes of all documents together; the oldest go first."""

    @property
    def folder(self) -> Path:
        """Where they lie."""
        return folder() / self.kind

    def _store(self, name: str) -> Store:
        return Store(self.folder / f"{name}.json", version=self.version, most=self.most_entries)

    def read(self, name: str) -> Document:
        """A document; empty where there is none."""
        return self._store(name).read()

    def change(self, name: str, changes: dict[str, object]) -> str:
        """Put entries into a document, as `Store.change` does, and make room for it.

        Returns:
            Why it could not be written; empty where it was.
        """
        store = self._store(name)
        complaint = store.change(changes)
        if not complaint:
            self._make_room(store.path.name)
        return complaint

    def drop(self, name: str) -> str:
        """Take a document away, of whatever version.

        Returns:
            Why that is not possible; empty where it is gone.
        """
        try:
            for ending in ENDINGS:
                (self.folder / f"{name}{ending}").unlink(missing_ok=True)
        except OSError as error:
            return f"{self.folder} cannot be changed: {error.strerror or error}"
        return ""

    def _make_room(self, written: str) -> None:
        with suppress(OSError):
            found = [path for path in self.folder.iterdir() if path.name.endswith(ENDINGS)]
            aged = []
            for path in found:
                with suppress(OSError):
                    status = path.stat()
                    aged.append((path.name == written, status.st_mtime_ns, status.st_size, path))
            number, size = 0, 0
            # The youngest first, and the one just written before all.
            for _is_written, _time, bytes_, path in sorted(aged, reverse=True):
                number, size = number + 1, size + bytes_
                if number > self.most_files or (size > self.most_bytes and number > 1):
                    with suppress(OSError):
                        path.unlink()
