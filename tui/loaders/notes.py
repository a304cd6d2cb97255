"""What is odd about an input itself, whatever its format: a loader makes an issue of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tui.loaders.sizes import size_in_words


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
    "the file changed while it was read, so figures may be missing or not belong together; open it again when nothing "
    "writes to it",
)


def ended_early(why: str, bytes_read: int, size: int | None) -> Note:
    """An input that could not be read to its end.

    Args:
        why: In words.
        bytes_read: How much of it was read.
        size: All of it; None where that is not known.
    """
    where = f"{size_in_words(bytes_read)} of {size_in_words(size) if size else 'the input'}"
    return Note("error", None, "", f"{why}, at about {where}; what came before is shown")


def line_cut(line: int, text: str, size: int, limit: int) -> Note:
    """A line that is too long.

    Args:
        line: Its number.
        text: How it begins.
        size: Its bytes.
        limit: How many of them were read.
    """
    reason = f"the line is {size_in_words(size)} long; only its first {size_in_words(limit)} was read"
    return Note("warning", line, text, reason)


def others_left_out(tag: bytes, count: int) -> Note:
    """Lines that are of another process than those read, as what is in front of them says.

    Args:
        tag: What is in front of the first.
        count: How many there are.
    """
    name = tag.decode("utf-8", "replace").strip()
    reason = (
        f"{count:,} lines are of other processes, as what is in front of them says: they are left out, since tables of "
        "several that alternate cannot be told apart; read each alone (grep its tag FILE | proftui -)"
    )
    return Note("warning", None, name, reason)
