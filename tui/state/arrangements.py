"""Table arrangements (columns and units) of each view, remembered between runs."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from tui.fmt import UNITS
from tui.state.store import Store, folder

if TYPE_CHECKING:
    from tui.model.table_spec import TableState

VERSION: Final = 1
MOST_TABLES: Final = 300
"""The most tables in the file; the program has a few dozen."""
MOST_COLUMNS: Final = 500
"""The most columns of an arrangement; a larger one was not written by this program."""


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
    def of(cls, state: TableState) -> Arrangement:
        """The part of a state to store."""
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
        """The state with this arrangement; filter, search, cursor and marks stay."""
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
        return all(len(names) <= MOST_COLUMNS for names in named)


PLAIN: Final = Arrangement()
"""A table that the user has not arranged; it is not stored."""


class Arrangements:
    """The arrangements of all tables: read once; changes are written together.

    Args:
        store: Where they are stored; None: in the user's state directory.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._store = store or Store(folder() / "tables.json", version=VERSION, most=MOST_TABLES)
        self._known: dict[str, Arrangement] | None = None
        self._changed: dict[str, object] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._has_warned = False
        self.warning = ""
        """A message for the user; whoever shows it clears it."""

    def of(self, table: str) -> Arrangement:
        """The last arrangement of a table."""
        return self._all().get(table, PLAIN)

    def keep(self, table: str, arrangement: Arrangement) -> bool:
        """Set the arrangement of a table, to be stored by `write`; False if it is unchanged."""
        if self.of(table) == arrangement:
            return False
        self._all()[table] = arrangement
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

    def _all(self) -> dict[str, Arrangement]:
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

    def _warn_once(self, words: str) -> None:
        # Once a run: an unwritable directory must not cause a message at every key.
        if words and not self._has_warned:
            self._has_warned = True
            self.warning = words
