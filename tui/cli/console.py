"""Console output: data and text on standard output, messages and errors on standard error."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from tui.model.errors import ProftuiError, out_of_memory_message
from tui.terminal import is_utf8

if TYPE_CHECKING:
    from tui.terminal import Terminal


BAD_INPUT: Final = 2
"""The exit status where an input cannot be read."""

PIPE_WIDTH: Final = 100
"""Columns of a text report without a terminal."""


def memory_error(error: BaseException) -> ProftuiError:
    """Return the message that memory ran out, in one line."""
    return ProftuiError(
        f"{out_of_memory_message(error)}: close other programs, or open a dataset written by proftui convert"
    )


def detect_terminal(color: str) -> Terminal:
    """Return the capabilities of the terminal, given the option ``--color``."""
    from tui.terminal import terminal

    return terminal(os.environ, stdout_is_tty=sys.stdout.isatty(), color=color)


def width() -> int:
    """Return the columns for text on standard output."""
    import shutil

    return shutil.get_terminal_size((PIPE_WIDTH, 24)).columns if sys.stdout.isatty() else _columns_or(PIPE_WIDTH)


def _columns_or(default: int) -> int:
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and len(columns) < 6 and int(columns) else default


def write_data(text: str) -> None:
    """Write data as UTF-8, whatever the locale; control characters are kept unless it is a terminal."""
    from tui.text import printable

    shown = printable(text) if sys.stdout.isatty() else text
    sys.stdout.buffer.write(shown.encode("utf-8", "replace"))


def write_text(text: str) -> None:
    """Write text in the encoding of the terminal; in ASCII if its locale is not UTF-8."""
    from tui.text import printable, to_ascii

    shown = printable(text) if is_utf8(os.environ) else to_ascii(printable(text))
    sys.stdout.buffer.write(shown.encode(sys.stdout.encoding or "utf-8", "replace"))


def info(message: str, *further_lines: str) -> None:
    """Print a message on standard error, with further lines below it; empty lines are omitted."""
    from tui.text import plain

    print(f"proftui: {plain(message)}", file=sys.stderr)
    for line in filter(None, further_lines):
        print(f"         {plain(line)}", file=sys.stderr)


def error(fault: ProftuiError) -> None:
    """Print an error and its hint on standard error."""
    info(fault.message, fault.hint)
