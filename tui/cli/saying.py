"""What goes to standard output, as data or for people, and what is told beside it on standard error."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from tui.model.errors import ProftuiError
from tui.model.lacking_memory import memory_words

if TYPE_CHECKING:
    from tui.terminal import Terminal

BAD_INPUT: Final = 2
"""The exit status where an input cannot be read."""

PIPE_WIDTH: Final = 100
"""Columns of a text report where no terminal says how wide it is."""


def no_memory(error: BaseException) -> ProftuiError:
    """What is said where memory was lacking, in one line."""
    return ProftuiError(
        f"{memory_words(error)}: close other programs, or open what proftui convert wrote of this input"
    )


def terminal_of(color: str) -> Terminal:
    """What the terminal can show, given what the user says of ``color``."""
    from tui.terminal import terminal

    return terminal(os.environ, stdout_is_tty=sys.stdout.isatty(), color=color)


def width() -> int:
    """Columns for text on standard output."""
    import shutil

    return shutil.get_terminal_size((PIPE_WIDTH, 24)).columns if sys.stdout.isatty() else _columns_or(PIPE_WIDTH)


def _columns_or(default: int) -> int:
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) > 0 else default


def write_data(text: str) -> None:
    """Write data: UTF-8 whatever the locale."""
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def say(text: str) -> None:
    """Write text for people, in the encoding of their terminal."""
    sys.stdout.buffer.write(text.encode(sys.stdout.encoding or "utf-8", "replace"))


def tell(message: str, *more: str) -> None:
    """Say something beside the data, and more on lines below; what is empty is left out."""
    from tui.text import plain

    print(f"proftui: {plain(message)}", file=sys.stderr)
    for line in filter(None, more):
        print(f"         {plain(line)}", file=sys.stderr)


def complain(error: ProftuiError) -> None:
    """Say what is wrong, and what to do, on standard error."""
    tell(error.message, error.hint)
