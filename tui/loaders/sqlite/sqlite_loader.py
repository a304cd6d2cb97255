"""Recognizes the format of an SQLite database by its tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tui.loaders.collector import Collector
from tui.loaders.progress import keep_going
from tui.loaders.sqlite.database import MAGIC, Database
from tui.model.errors import WHAT_OPENS, ProftuiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.base import Format
    from tui.loaders.progress import Report
    from tui.loaders.source import Source
    from tui.model.profile import Profile


class DatabaseFormat(Protocol):
    """A format whose files are SQLite databases."""

    @property
    def format(self) -> Format:
        """The description of the format."""

    def claims(self, database: Database) -> bool:
        """Whether the tables are of this format."""

    def read(self, database: Database, collector: Collector, source: Source) -> None:
        """Add the database to the collector as one or more sessions.

        It calls ``source.keep_going(rows)`` between tables and stops reading if that returns False.

        Raises:
            ProftuiError: The tables hold no profile.
        """


class DatabaseLoader:
    """Reads SQLite databases of any number of formats."""

    def __init__(self, database_formats: Sequence[DatabaseFormat]) -> None:
        self._database_formats = tuple(database_formats)

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats that this loader recognizes."""
        return tuple(one.format for one in self._database_formats)

    def only(self, format_name: str) -> DatabaseLoader | None:
        """A loader restricted to one of its formats, or None."""
        chosen = [one for one in self._database_formats if one.format.name == format_name]
        return DatabaseLoader(chosen) if chosen else None

    def probe(self, head: bytes, name: str) -> float:
        """Certain by the first bytes."""
        return 1.0 if head.startswith(MAGIC) else 0.0

    def load(self, source: Source, report: Report = keep_going) -> Profile:
        """Read the database.

        Raises:
            ProftuiError: It cannot be read, or no format claims it.
        """
        source.report_to(report)
        path = source.file()
        unpacked = path != Path(source.name)

        def keep_going(rows: int) -> bool:
            if not unpacked and source.size is not None:
                # The position in the file is unknown; the size of the rows read is an estimate.
                source.bytes_read = max(source.bytes_read, min(database.bytes_read, source.size))
            return source.keep_going(rows)

        database = Database(path, source.called, keep_going=source.keep_going)
        with database:
            database.keep_going = keep_going
            chosen = next((one for one in self._database_formats if one.claims(database)), None)
            if chosen is None:
                tables = ", ".join(sorted(database.tables)[:8]) or "no tables"
                looked_for = ", ".join(one.title for one in self.formats)
                raise ProftuiError(
                    f"{source.called}: no profile found: an SQLite database with {tables}; looked for {looked_for}",
                    WHAT_OPENS,
                )
            collector = Collector(source.name, source.preview)
            try:
                chosen.read(database, collector, source)
            except ProftuiError as error:
                raise _in_full(error, source, database) from error
        for note in (*source.notes, *database.notes):
            collector.issue(note.severity, note.line, note.text, note.reason)
        return collector.profile(partial="stopped before its end" if source.stopped else source.cut_short)


def _in_full(error: ProftuiError, source: Source, database: Database) -> ProftuiError:
    """The error for an unusable database; for a damaged one it names the damage."""
    damage = next((note for note in (*source.notes, *database.notes) if note.severity == "error"), None)
    if damage is None:
        return error
    why = damage.reason.partition("; what ")[0]
    return ProftuiError(f"{source.called}: nothing can be read: {why}", "copy it again, whole, or export it again")
