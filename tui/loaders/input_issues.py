"""Issues that any input can have, and texts that issues of several formats share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def size_text(size: int) -> str:
    """A size for a message, in powers of 1024.

    >>> size_text(1), size_text(1 << 20), size_text(1_288_490_189)
    ('1 byte', '1 MB', '1.2 GB')
    """
    if size < 1024:
        return f"{size} byte" if size == 1 else f"{size} bytes"
    value, unit = float(size), 0
    while value >= 1024 and unit < 4:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f}".removesuffix(".0") + f" {' KMGT'[unit]}B"


@dataclass(frozen=True, slots=True)
class Note:
    """Something about the input itself that the user should know; a loader makes it an issue."""

    severity: str
    """info, warning or error."""
    line: int | None
    """From 1; None where it is about the whole input."""
    text: str
    """What stands there."""
    reason: str
    """What is odd, in words."""


FILE_CHANGED: Final = Note(
    "warning",
    None,
    "",
    "the file changed while it was read: figures may be missing or inconsistent; open it again when nothing "
    "writes to it",
)


def ended_early(why: str, bytes_read: int, size: int | None) -> Note:
    """An input that could not be read to its end.

    Args:
        why: In words.
        bytes_read: How much of it was read.
        size: All of it; None where that is not known.
    """
    where = f"{size_text(bytes_read)} of {size_text(size) if size else 'the input'}"
    return Note("error", None, "", f"{why}, at about {where}; what came before is shown")


def long_line_cut(line: int, text: str, size: int, limit: int) -> Note:
    """A line that is too long.

    Args:
        line: Its number.
        text: How it begins.
        size: Its bytes.
        limit: How many of them were read.
    """
    reason = f"the line is {size_text(size)} long; only its first {size_text(limit)} was read"
    return Note("warning", line, text, reason)


def later_results_left_out(tag: bytes, count: int) -> Note:
    """Lines that are of another process than those read, as what is in front of them says.

    Args:
        tag: What is in front of the first.
        count: How many there are.
    """
    name = tag.decode("utf-8", "replace").strip()
    reason = (
        f"{count:,} lines of other processes (by their tags) were left out: interleaved tables cannot be "
        "separated; read each process alone (grep its tag FILE | proftui -)"
    )
    return Note("warning", None, name, reason)


class HasTables(Protocol):
    """Tables with columns and rows."""

    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table."""

    def count(self, table: str) -> int:
        """Rows of a table."""


def missing_columns(held: HasTables, always: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Each table with rows that lacks columns, and what to say of them.

    Args:
        held: What the input holds.
        always: The columns that each table has as the profiler writes it.
    """
    for table, columns in always.items():
        lacking = [column for column in columns if column not in held.tables.get(table, columns)]
        if lacking and held.count(table):
            yield (
                table,
                f"columns that the profiler writes are missing from the table ({', '.join(lacking)}): their "
                "values are unknown",
            )
