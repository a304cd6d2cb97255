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
"""The longest query that is stored."""


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
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
        self._store = store or Store(folder() / "queries.json", version=1, most=MOST_QUERIES)
        self._writing = threading.Lock()

    def texts(self) -> list[str]:
        """All queries, oldest first."""
        return [query.text for query in self._read().values()]

    def keep(self, text: str, files: str) -> str:
        """Store a query as the latest; thread-safe.

        Args:
            text: The query.
            files: The files that were queried: `tui.state.store.Files.name`.

        Returns:
            Why it could not be stored; empty on success, and for a query longer than the limit.
        """
        if len(text) > MOST_CHARACTERS:
            return ""
        entry = msgspec.to_builtins(Query(text, files, time.time_ns()))
        with self._writing:
            return self._store.change({hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]: entry})

    def forget(self, files: str) -> str:
        """Remove the queries of these files.

        Returns:
            Why they could not be removed; empty on success.
        """
        with self._writing:
            of_them = [name for name, query in self._read().items() if query.files == files]
            return self._store.change(dict.fromkeys(of_them)) if of_them else ""

    def _read(self) -> dict[str, Query]:
        queries = {}
        for name, entry in self._store.read().entries.items():
            try:
                query = msgspec.convert(entry, Query)
            except (msgspec.ValidationError, RecursionError):
                # One invalid entry does not affect the others.
                continue
            if query.text.strip() and len(query.text) <= MOST_CHARACTERS:
                queries[name] = query
        return queries
