"""The rows of a frame session by session, however many sessions there are."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tui.analysis.grouping import is_constant
from tui.model.compact import looked_at

if TYPE_CHECKING:
    import polars as pl


def by_session(frame: pl.DataFrame) -> dict[int, pl.DataFrame]:
    """The rows of each session that a frame has rows of, in the frame's order.

    To filter a frame for one session after another takes as many passes as there are sessions; this takes one.

    >>> import polars as pl
    >>> {key: rows.height for key, rows in by_session(pl.DataFrame({"session": [1, 0, 1]})).items()}
    {1: 2, 0: 1}
    """
    if frame.is_empty():
        return {}
    sessions = looked_at(frame, "session")
    if is_constant(sessions):
        return {sessions[0]: frame}
    if not sessions.null_count() and sessions.is_sorted():
        # Where the rows of each session lie together, they stay where they lie.
        numbers = sessions.unique(maintain_order=True)
        firsts = [*sessions.set_sorted().search_sorted(numbers, side="left"), frame.height]
        return {
            number: frame.slice(first, end - first)
            for number, (first, end) in zip(numbers, pairwise(firsts), strict=True)
        }
    parts = frame.partition_by("session", as_dict=True, maintain_order=True)
    return {key[0]: rows for key, rows in parts.items()}
