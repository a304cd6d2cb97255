"""Calls and roctx ranges of a rocpd recording, which are one table: the category of a row tells them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.rocpd.tables import from_json
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.rocpd.tables import Recording

_REGION: Final = dict.fromkeys(("pid", "tid", "start", "end", "name_id", "event_id"), pl.Int64)
_SAMPLE: Final = {"track_id": pl.Int64, "timestamp": pl.Int64, "event_id": pl.Int64}
_TRACK: Final = {"id": pl.Int64, "pid": pl.Int64, "tid": pl.Int64, "name_id": pl.Int64}
_MARKERS: Final = r"(?i)marker|roctx"
_PROCESS_WIDE: Final = r"(?i)roctxRangeSt(?:art|op)"
"""Ranges that may begin and end on different threads, in any order."""


def read_calls(recording: Recording, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Calls and ranges, each with columns of the model, times as recorded, and ``process_row``."""
    regions = recording.frame("region", _REGION)
    # What has no length is kept as a sample of a track.
    tracks = recording.frame("track", _TRACK).unique("id", keep="first").rename({"id": "track_id"})
    samples = (
        recording.frame("sample", _SAMPLE)
        .join(tracks, on="track_id", how="left", maintain_order="left")
        .select("pid", "tid", start="timestamp", end="timestamp", name_id="name_id", event_id="event_id")
    )
    rows = pl.concat([regions, samples])
    threads = recording.ids("thread", "tid").rename({"thread_row": "tid", "thread_id": "thread"})
    processes = recording.ids("process", "pid").rename({"process_row": "pid", "process_id": "process"})
    rows = (
        rows.with_columns(name=recording.texts(rows["name_id"]))
        .join(events, on="event_id", how="left", maintain_order="left")
        .join(threads, on="tid", how="left", maintain_order="left")
        .join(processes, on="pid", how="left", maintain_order="left")
        .with_columns(
            start_ns=pl.col("start"),
            duration_ns=pl.col("end") - pl.col("start"),
            process_row=pl.col("pid"),
            correlation=pl.col("stack"),
        )
        .with_columns(pid=pl.col("process"), tid=pl.col("thread"))
    )
    is_marker = pl.col("category").str.contains(_MARKERS).fill_null(False)
    columns = ("name", "start_ns", "duration_ns", "pid", "tid", "process_row")
    calls = rows.filter(~is_marker).select(*columns, "correlation")
    marked = rows.filter(is_marker)
    said = pl.Series(from_json(marked["extdata"], lambda value: _message(value.get("message"))), dtype=pl.String)
    of_thread = ~pl.col("name").cast(pl.String).str.contains(_PROCESS_WIDE).fill_null(False)
    ranges = marked.with_columns(tid=pl.when(of_thread).then("tid"), said=said).with_columns(
        name=pl.coalesce("said", pl.col("name").cast(pl.String)).cast(NAME)
    )
    return calls, ranges.select(columns)


def _message(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
