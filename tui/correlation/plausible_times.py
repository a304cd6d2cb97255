"""The rule for implausible times, which are dropped before any sum or correlation.

A recording lasts at most a week. A start more than a week from the median start of its recording is dropped, and so is
a duration that is negative or longer than a week. Dropped times become null; the other values of the row stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_NS: Final = 7 * 24 * 3600 * 10**9
"""A week, in nanoseconds: the longest recording."""
MAX_SUM_NS: Final = 1 << 53
"""About a hundred days: the largest sum of times in a table of one run."""
_MAX_THREAD_TIME_NS: Final = 1 << 60
"""The maximum product of threads and nanoseconds, well within what `tui.correlation.nesting` can represent."""
_INT64: Final = (-(1 << 63), (1 << 63) - 1)

_TIMED: Final = ("activities", "api_calls", "ops", "ranges")
DURATIONS: Final = {
    **dict.fromkeys(_TIMED, ("duration_ns",)),
    "summary": ("total_ns", "avg_ns", "min_ns", "max_ns", "median_ns", "std_ns"),
}
"""The columns of each frame that hold durations."""
_LABELS: Final = {
    "activities": "GPU activities",
    "api_calls": "API calls",
    "ops": "ops",
    "ranges": "ranges",
    "summary": "summary rows",
}

Report = Callable[[int, int | None, str], None]
"""Called with the session, the first line, and a description of what was dropped."""


def is_plausible_duration(column: str = "duration_ns", longest_ns: int = MAX_NS) -> pl.Expr:
    """Return whether a duration is plausible; null if the duration is null."""
    return pl.col(column).is_between(0, longest_ns)


def start_bounds(starts: Iterable[pl.Series]) -> tuple[int, int] | None:
    """Return the first and the last plausible start of a recording; None if all starts are plausible.

    Args:
        starts: The start times of one recording, in any order, in one or several columns.
    """
    with_values = [series for series in starts if series.null_count() < len(series)]
    if not with_values:
        return None
    # Python's integers, so that no difference can wrap around.
    earliest = min(int(series.min()) for series in with_values)  # type: ignore[arg-type]
    latest = max(int(series.max()) for series in with_values)  # type: ignore[arg-type]
    if latest - earliest <= MAX_NS:
        return None
    ordered = pl.concat(with_values).drop_nulls().sort()
    median = int(ordered[(len(ordered) - 1) // 2])
    return max(median - MAX_NS, _INT64[0]), min(median + MAX_NS, _INT64[1])


def drop_outlier_times(*frames: pl.DataFrame) -> tuple[tuple[pl.DataFrame, ...], int]:
    """Drop the implausible times of one recording.

    Args:
        frames: With ``start_ns`` and ``duration_ns``.

    Returns:
        The frames with null in place of such times, and the number of rows that had one.
    """
    bounds = start_bounds(frame["start_ns"] for frame in frames)
    # Conditions are null if a time is unknown, and unknown times stay so.
    is_near = pl.lit(True) if bounds is None else pl.col("start_ns").is_between(*bounds)
    is_plausible = is_near.fill_null(True) & is_plausible_duration().fill_null(True)
    count = sum(frame.select((~is_plausible).sum()).item() for frame in frames)
    if not count:
        return frames, 0
    dropped = tuple(
        frame.with_columns(
            pl.when(is_near).then("start_ns").alias("start_ns"),
            pl.when(is_plausible_duration()).then("duration_ns").alias("duration_ns"),
        )
        for frame in frames
    )
    return dropped, count


def dropped_times_text(count: int) -> str:
    """Return the text of the issue on rows whose times were dropped.

    >>> dropped_times_text(2)
    '2 rows have an implausible time (over a week long or over a week from the median start): shown as unknown'
    """
    rows = "1 row has" if count == 1 else f"{count:,} rows have"
    return f"{rows} an implausible time (over a week long or over a week from the median start): shown as unknown"


def drop_outlier_events(
    frames: Mapping[str, pl.DataFrame], *, display_name: str
) -> tuple[dict[str, pl.DataFrame], int]:
    """Drop whole events whose start is implausible; the start times of the others then count from the first of them.

    Args:
        frames: With ``start_ns`` and ``duration_ns``, neither of them null, and pid and tid.
        display_name: The name of the file for messages.

    Returns:
        The events, and how many nanoseconds were subtracted from their start times.

    Raises:
        ProftuiError: There are too many threads over too long a time for one recording.
    """
    begin_ns = 0
    bounds = start_bounds(rows["start_ns"] for rows in frames.values())
    if bounds is not None:
        frames = {name: rows.filter(pl.col("start_ns").is_between(*bounds)) for name, rows in frames.items()}
        begin_ns = _span(frames)[0]
        frames = {name: rows.with_columns(pl.col("start_ns") - begin_ns) for name, rows in frames.items()}
    _check_size(frames, display_name)
    return dict(frames), begin_ns


def dropped_events_text(count: int) -> str:
    """Return the text of the issue on dropped events.

    >>> dropped_events_text(1)
    '1 event skipped: its start is more than a week from the median start'
    """
    if count == 1:
        return "1 event skipped: its start is more than a week from the median start"
    return f"{count:,} events skipped: their starts are more than a week from the median start"


def drop_outlier_times_of_sessions(frames: dict[str, pl.DataFrame], report: Report) -> None:
    """Drop the implausible times of all sessions of a profile.

    Args:
        frames: Of the model, by name; changed in place.
        report: Called for each session and frame with such times.
    """
    for name, columns in DURATIONS.items():
        max_ns = MAX_SUM_NS if name == "summary" else MAX_NS
        plausible = {column: is_plausible_duration(column, max_ns) for column in columns}
        is_implausible = ~pl.all_horizontal(condition.fill_null(True) for condition in plausible.values())
        if not frames[name].select(is_implausible.any()).item():
            continue
        reason = f"{_LABELS[name]} with an implausible duration (negative or too long), shown as unknown"
        _report(frames[name].filter(is_implausible), reason, report)
        plausible_columns = {column: pl.when(condition).then(column) for column, condition in plausible.items()}
        if name == "activities":  # a rate over an implausible duration is meaningless
            plausible_columns["throughput"] = pl.when(~is_implausible).then("throughput")
        frames[name] = frames[name].with_columns(**plausible_columns)
    for session in _sessions_with_outliers(frames):
        in_session = pl.col("session") == session
        bounds = start_bounds(frames[name].filter(in_session)["start_ns"] for name in _TIMED)
        if bounds is None:
            continue
        is_outlier = in_session & ~pl.col("start_ns").is_between(*bounds)
        for name in _TIMED:
            if frames[name].select(is_outlier.any()).item():
                reason = f"{_LABELS[name]} with a start more than a week from the median start, shown as unknown"
                _report(frames[name].filter(is_outlier), reason, report)
                frames[name] = frames[name].with_columns(pl.when(~is_outlier).then("start_ns").alias("start_ns"))


def _sessions_with_outliers(frames: Mapping[str, pl.DataFrame]) -> list[int]:
    """Return the sessions whose starts span more than a week."""
    start = pl.col("start_ns")
    bounds = pl.concat(
        frames[name].group_by("session").agg(start.min().alias("first"), start.max().alias("last")) for name in _TIMED
    ).drop_nulls()
    spans: dict[int, tuple[int, int]] = {}
    for session, first, last in bounds.iter_rows():
        previous = spans.get(session, (first, last))
        spans[session] = (min(first, previous[0]), max(last, previous[1]))
    return sorted(session for session, (first, last) in spans.items() if last - first > MAX_NS)


def _report(rows: pl.DataFrame, reason: str, report: Report) -> None:
    counts = rows.group_by("session", maintain_order=True).agg(pl.len(), pl.col("line").min())
    for session, count, line in counts.iter_rows():
        report(session, line, f"{reason}: {count:,}")


def _span(frames: Mapping[str, pl.DataFrame]) -> tuple[int, int]:
    """Return when the first event begins and the last ends."""
    begin, end = pl.col("start_ns").min(), (pl.col("start_ns") + pl.col("duration_ns")).max()
    bounds = pl.concat(rows.select(begin=begin, end=end) for rows in frames.values())
    first_ns, last_ns = bounds["begin"].min(), bounds["end"].max()
    return (first_ns, last_ns) if isinstance(first_ns, int) and isinstance(last_ns, int) else (0, 0)


def _check_size(frames: Mapping[str, pl.DataFrame], display_name: str) -> None:
    """Check that threads times nanoseconds are within the range of `tui.correlation.nesting`."""
    # Events without threads are not nested.
    nested = {name: rows for name, rows in frames.items() if rows.height and "tid" in rows.columns}
    if not nested:
        return
    max_threads = sum(rows["pid"].n_unique() * rows["tid"].n_unique() for rows in nested.values())
    if max_threads * (_max_span_ns(nested.values()) + 2) < _MAX_THREAD_TIME_NS:
        return
    first_ns, last_ns = _span(nested)
    threads = pl.concat(rows.select("pid", "tid").unique() for rows in nested.values()).n_unique()
    if threads * (last_ns - first_ns + 2) >= _MAX_THREAD_TIME_NS:
        raise ProftuiError(
            f"{display_name}: {threads} threads over {(last_ns - first_ns) / 1e9:.0f} s are too many for one recording",
            "the times in the file are damaged",
        )


def _max_span_ns(frames: Iterable[pl.DataFrame]) -> int:
    """Return an upper limit of the time from the first start to the last end, without a sum for each row."""
    start, duration = pl.col("start_ns"), pl.col("duration_ns")
    bounds = pl.concat(rows.select(first=start.min(), last=start.max(), longest=duration.max()) for rows in frames)
    span_ns: int = bounds.select(pl.max("last") - pl.min("first") + pl.max("longest")).item()
    return span_ns
