"""Times that no recording can have, taken away before anything is linked by them: one such time costs its row alone."""

from __future__ import annotations

import polars as pl

from tui.loaders.possible_times import LONGEST_NS


def without_astray(*frames: pl.DataFrame) -> tuple[tuple[pl.DataFrame, ...], int]:
    """The same frames, without the times that lie more than a week from the middle one, or last longer than a week.

    Args:
        frames: With ``start_ns`` and ``duration_ns``, of one run. Times that are null stay so.

    Returns:
        The frames with null in place of such times, and how many rows that are.
    """
    starts = [frame["start_ns"] for frame in frames if frame["start_ns"].null_count() < frame.height]
    if not starts:
        return frames, 0
    ends = [(series.min(), series.max()) for series in starts]
    lasting = pl.concat([frame["duration_ns"] for frame in frames]).max()
    # Python's integers, so that no difference can wrap around.
    first, last = (pick(int(pair[place]) for pair in ends) for place, pick in ((0, min), (1, max)))  # type: ignore[arg-type]
    if last - first <= LONGEST_NS and (not isinstance(lasting, int) or lasting <= LONGEST_NS):
        return frames, 0
    middle = int(
        pl.concat(starts).drop_nulls().sort()[sum(len(series) - series.null_count() for series in starts) // 2]
    )
    least, most = (max(min(middle + way * LONGEST_NS, (1 << 63) - 1), -(1 << 63)) for way in (-1, 1))
    is_near = pl.col("start_ns").is_between(least, most).fill_null(True)
    lasts = (pl.col("duration_ns") <= LONGEST_NS).fill_null(True)
    count = sum(frame.select((~is_near | ~lasts).sum()).item() for frame in frames)
    kept = tuple(
        frame.with_columns(
            pl.when(is_near).then("start_ns").alias("start_ns"),
            pl.when(is_near & lasts).then("duration_ns").alias("duration_ns"),
        )
        for frame in frames
    )
    return kept, count


def astray_in_words(count: int) -> str:
    """What to say of rows whose times were taken away.

    >>> astray_in_words(2)
    '2 rows have times that lie more than a week from all others, or last longer: these times are taken for unknown'
    """
    have = "1 row has" if count == 1 else f"{count:,} rows have"
    return f"{have} times that lie more than a week from all others, or last longer: these times are taken for unknown"
