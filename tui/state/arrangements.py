"""Table arrangements (columns and units) of each view, remembered between runs."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from tui.fmt import UNITS
from tui.state.store import Store, folder

if TYPE_CHECKING:
    from tui.model.view import TableState

VERSION: Final = 1
MOST_TABLES: Final = 300
"""Tables that are remembered; there are some tens in the program."""
MOST_COLUMNS: Final = 500
"""Columns that an arrangement names; more were not written by this program."""


class Arrangement(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=False):
    """The part of a `TableState` that is remembered, of one table.

    Sort order and number of rows belong to one file: they are not carried to the next.
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
    def of(cls, state: TableState) -> Arrangement:
        """What is to be remembered of a state."""
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

    def on(self, state: TableState) -> TableState:
        """A state arranged like this; filter, search, cursor and marks stay."""
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
        """Whether it is no larger than any that this program writes."""
        named = (self.hidden, self.order, self.pinned)
        return all(len(names) <= MOST_COLUMNS for names in named)


PLAIN: Final = Arrangement()
"""A table that the user has not arranged: nothing is remembered of it."""


class Arrangements:
    """The arrangements of all tables, read once; changes are gathered and written together.

    Args:
        store: Where they are kept; None: in the user's state directory.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._store = store or Store(folder() / "tables.json", version=VERSION, most=MOST_TABLES)
        self._known: dict[str, Arrangement] | None = None
        self._changed: dict[str, object] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._complained = False
        self.complaint = ""
        """What is to be told to the user once; whoever tells it empties it."""

    def of(self, table: str) -> Arrangement:
        """How a table was arranged last."""
        return self._all().get(table, PLAIN)

    def keep(self, table: str, arrangement: Arrangement) -> bool:
        """Remember how a table is arranged; `write` must follow. False where that is how it was already."""
        if self.of(table) == arrangement:
            return False
        self._all()[table] = arrangement
        with self._lock:
            self._changed[table] = None if arrangement == PLAIN else msgspec.to_builtins(arrangement)
        return True

    def write(self) -> None:
        """Write what has changed. It can be called from any thread."""
        with self._writing:
            with self._lock:
                changed, self._changed = self._changed, {}
            if changed:
                self._complain(self._store.change(changed))

    def _all(self) -> dict[str, Arrangement]:
        if self._known is None:
            document = self._store.read()
            self._complain(document.complaint)
            self._known = {}
            for table, entry in document.entries.items():
                try:
                    arrangement = msgspec.convert(entry, Arrangement)
                except msgspec.ValidationError:
                    # The others can be used all the same.
                    continue
                if arrangement.is_valid:
                    self._known[table] = arrangement
        return self._known

    def _complain(self, words: str) -> None:
        # Once a run: a directory that cannot be written to must not be told of at every key.
        if words and not self._complained:
            self._complained = True
            self.complaint = words
