"""What is wrong with a query, and where."""

from __future__ import annotations

from tui.model.errors import ProftuiError


class QueryError(ProftuiError):
    """A query that cannot be understood.

    Args:
        message: One short line.
        start: Where the fault begins in the query, in characters from 0.
        end: Where it ends; never before ``start``.
        hint: What to write instead, or empty.
    """

    def __init__(self, message: str, start: int, end: int, *, hint: str = "") -> None:
        super().__init__(message, hint)
        self.start = start
        self.end = max(start, end)

    @property
    def column(self) -> int:
        """Where the fault begins, counted from 1."""
        return self.start + 1
