"""History of SQL queries, shared by all runs; forgotten with the file that was queried."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import Final

import msgspec

from tui.state.store import Store, folder

MOST_QUERIES: Final = 100
MOST_CHARACTERS: Final = 10_000
"""Of a query that is kept."""


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """A query that was run."""

    text: str
    files: str
    """Of what it was asked: `tui.state.store.Files.name`."""
    at_ns: int
    """When, since 1970."""


class Queries:
    """What was run, here and in runs before.

    Args:
        store: Where it is kept; None: in the user's state directory.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._store = store or Store(folder() / "queries.json", version=1, most=MOST_QUERIES)
        self._writing = threading.Lock()

    def texts(self) -> list[str]:
        """Every query, the latest last."""
        return [query.text for query in self._read().values()]

    def keep(self, text: str, files: str) -> str:
        """Remember a query as the latest. It can be called from any thread.

        Args:
            text: The query.
            files: Of what it was asked: `tui.state.store.Files.name`.

        Returns:
            Why it could not be written; empty where it was, or is too long to be kept.
        """
        if len(text) > MOST_CHARACTERS:
            return ""
        entry = msgspec.to_builtins(Query(text, files, time.time_ns()))
        with self._writing:
            return self._store.change({hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]: entry})

    def forget(self, files: str) -> str:
        """Take away what was asked of these files.

        Returns:
            Why that is not possible; empty where it is gone.
        """
        with self._writing:
            of_them = [name for name, query in self._read().items() if query.files == files]
            return self._store.change(dict.fromkeys(of_them)) if of_them else ""

    def _read(self) -> dict[str, Query]:
        known = {}
        for name, entry in self._store.read().entries.items():
            try:
                query = msgspec.convert(entry, Query)
            except (msgspec.ValidationError, RecursionError):
                # The others can be used all the same.
                continue
            if query.text.strip() and len(query.text) <= MOST_CHARACTERS:
                known[name] = query
        return known
