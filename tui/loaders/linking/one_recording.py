"""Events of one recording alone: those far from all others have broken times, and would spoil whatever is linked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from tui.loaders.possible_times import LONGEST_NS
from tui.model.errors import ProftuiError

_MOST_THREAD_TIME_NS: Final = 1 << 60
"""What `tui.loaders.linking.nesting` can count, with room to spare."""


def of_one_recording(parts: Mapping[str, pl.DataFrame], *, called: str) -> tuple[dict[str, pl.DataFrame], int]:
    """The rows without those far from all others, whose times begin anew at 0 then, and how much later that is.

    Args:
        parts: With ``start_ns`` and ``duration_ns``, neither of them null, and pid and tid.
        called: What messages call the file.

    Raises:
        ProftuiError: There are more threads over a longer time than a recording has.
    """
    begin_ns = 0
    first_ns, last_ns = _stretch(parts)
    if last_ns - first_ns > LONGEST_NS:
        # One that is there: between two halves that are far apart there is nothing.
        middle = pl.concat(rows["start_ns"] for rows in parts.values()).quantile(0.5, "lower")
        is_near = (pl.col("start_ns").cast(pl.Float64) - middle).abs() <= LONGEST_NS
        parts = {name: rows.filter(is_near) for name, rows in parts.items()}
        begin_ns = _stretch(parts)[0]
        parts = {name: rows.with_columns(pl.col("start_ns") - begin_ns) for name, rows in parts.items()}
    _check_size(parts, called)
    return dict(parts), begin_ns


def _stretch(parts: Mapping[str, pl.DataFrame]) -> tuple[int, int]:
    """When the first event begins and the last ends."""
    begin, end = pl.col("start_ns").min(), (pl.col("start_ns") + pl.col("duration_ns")).max()
    ends = pl.concat(rows.select(begin=begin, end=end) for rows in parts.values())
    first_ns, last_ns = ends["begin"].min(), ends["end"].max()
    assert not isinstance(first_ns, int) or isinstance(last_ns, int)
    return (first_ns, last_ns) if isinstance(first_ns, int) and isinstance(last_ns, int) else (0, 0)


def _check_size(parts: Mapping[str, pl.DataFrame], called: str) -> None:
    """See to it that threads times nanoseconds can be counted, as those of every recording can."""
    first_ns, last_ns = _stretch(parts)
    most_threads = sum(rows.height for rows in parts.values())
    if most_threads * (last_ns - first_ns + 2) < _MOST_THREAD_TIME_NS:
        return
    threads = pl.concat(rows.select("pid", "tid").unique() for rows in parts.values()).n_unique()
    if threads * (last_ns - first_ns + 2) >= _MOST_THREAD_TIME_NS:
        raise ProftuiError(
            f"{called}: {threads} threads over {(last_ns - first_ns) / 1e9:.0f} s cannot be of one recording",
            "the times in the file are damaged",
        )


def far_in_words(count: int) -> str:
    """What to say of events that were left out.

    >>> far_in_words(1)
    '1 event is left out: more than a week before or after all others'
    """
    events = "1 event is" if count == 1 else f"{count:,} events are"
    return f"{events} left out: more than a week before or after all others"
