"""The rows of a frame session by session, however many sessions there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    if frame["session"].n_unique() == 1:
        return {frame["session"][0]: frame}
    parts = frame.partition_by("session", as_dict=True, maintain_order=True)
    return {key[0]: rows for key, rows in parts.items()}
