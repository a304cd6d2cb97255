"""Errors that a person reads."""

from __future__ import annotations

from typing import Final

from tui.model.readable import readable

WHAT_OPENS: Final = "proftui formats lists what opens"
"""What to do where an input holds no profile."""


class ProftuiError(Exception):
    """Something the user can act on: bad input, a bad query, a bad command line.

    Args:
        message: One line that names the file (and line) and what was expected.
        hint: One line that says what to do next, or empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        # They name files.
        self.message, self.hint = readable(message), readable(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message
