"""Times that no recording can have: left out before anybody adds them up, and told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import polars as pl

LONGEST_NS: Final = 7 * 24 * 3600 * 10**9
"""A week: what lasts longer, or lies farther from all else, is damage."""
LONGEST_SUM_NS: Final = 1 << 53
"""About a hundred days: so much no table of a run adds up to."""

_WORDS: Final = {
    "activities": "GPU activities",
    "api_calls": "API calls",
    "ops": "ops",
    "ranges": "ranges",
    "summary": "rows of the summary",
}
_TIMED: Final = ("activities", "api_calls", "ops", "ranges")
DURATIONS: Final = {
    **dict.fromkeys(_TIMED, ("duration_ns",)),
    "summary": ("total_ns", "avg_ns", "min_ns", "max_ns", "median_ns", "std_ns"),
}

Tell = Callable[[int, int | None, str], None]
"""Told of a session, the first line, and what was left out."""


def leave_out_impossible(frames: dict[str, pl.DataFrame], tell: Tell) -> None:
    """Make durations and start times null that cannot be true.

    Those are durations that are negative, or longer than a week; and starts more than a week from the middle one of
    their session, over all frames. The rows stay.

    Args:
        frames: Of the model, by name; changed in place.
        tell: Told of each session and frame with such times.
    """
    for name, columns in DURATIONS.items():
        longest = LONGEST_SUM_NS if name == "summary" else LONGEST_NS
        possible = {column: pl.col(column).is_between(0, longest) for column in columns}
        bad = ~pl.all_horizontal(one.fill_null(True) for one in possible.values())
        if not frames[name].select(bad.any()).item():
            continue
        reason = f"{_WORDS[name]} with times that cannot be (negative, or longer than a recording), which were left out"
        _tell_of(frames[name].filter(bad), reason, tell)
        known = {column: pl.when(one).then(column) for column, one in possible.items()}
        if name == "activities":  # a rate of an impossible duration is none
            known["throughput"] = pl.when(~bad).then("throughput")
        frames[name] = frames[name].with_columns(**known)
    _leave_out_far_starts(frames, tell)


def _leave_out_far_starts(frames: dict[str, pl.DataFrame], tell: Tell) -> None:
    start = pl.col("start_ns")
    ends = pl.concat(
        frames[name].group_by("session").agg(start.min().alias("first"), start.max().alias("last")) for name in _TIMED
    ).drop_nulls()
    spans: dict[int, tuple[int, int]] = {}
    for session, first, last in ends.iter_rows():
        known = spans.get(session, (first, last))
        spans[session] = (min(first, known[0]), max(last, known[1]))
    for session in sorted(session for session, (first, last) in spans.items() if last - first > LONGEST_NS):
        own = pl.col("session") == session
        starts = pl.concat(frames[name].filter(own)["start_ns"] for name in _TIMED).drop_nulls().sort()
        middle = int(starts[len(starts) // 2])
        far = own & ~start.is_between(middle - LONGEST_NS, middle + LONGEST_NS)
        for name in _TIMED:
            if frames[name].select(far.any()).item():
                reason = f"{_WORDS[name]} with a start more than a week from the others, which was left out"
                _tell_of(frames[name].filter(far), reason, tell)
                frames[name] = frames[name].with_columns(pl.when(~far).then(start).alias("start_ns"))


def _tell_of(rows: pl.DataFrame, reason: str, tell: Tell) -> None:
    found = rows.group_by("session", maintain_order=True).agg(pl.len(), pl.col("line").min())
    for session, count, line in found.iter_rows():
        tell(session, line, f"{reason}: {count:,}")
