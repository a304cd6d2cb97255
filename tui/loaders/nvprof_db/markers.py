"""NVTX ranges: table of markers, a row for each start and each end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.nvprof_db.times import absolute

if TYPE_CHECKING:
    from tui.loaders.nvprof_db.strings import Strings
    from tui.loaders.sqlite.database import Database

_COLUMNS: Final = {
    "flags": pl.Int64,
    "timestamp": pl.Int64,
    "id": pl.Int64,
    "objectKind": pl.Int64,
    "objectId": pl.Binary,
    "name": pl.Int64,
    "domain": pl.Int64,
}
_INSTANT: Final = 1
_START: Final = 2
_END: Final = 4
_THREAD: Final = 2
"""Kind of the object that a marker belongs to; others are processes and devices."""


def read_ranges(database: Database, strings: Strings) -> tuple[pl.DataFrame, int]:
    """Ranges with columns of the model, times still absolute, and how many ends have no start.

    A start and an end belong together by their number; the name is that of the start, an end has none. A mark and a
    range that was never closed have no duration.
    """
    rows = database.frame("CUPTI_ACTIVITY_KIND_MARKER", _COLUMNS)
    words = pl.col("objectId").bin.slice(0, 8)
    whole = pl.when(words.bin.size() == 8).then(words.bin.reinterpret(dtype=pl.UInt64, endianness="little"))
    rows = rows.with_columns(
        pid=(whole & 0xFFFFFFFF).cast(pl.Int64),
        tid=pl.when(pl.col("objectKind") == _THREAD).then(whole // (1 << 32)).cast(pl.Int64),
    )
    starts = rows.filter((pl.col("flags") & (_START | _INSTANT)) != 0)
    ends = rows.filter((pl.col("flags") & _END) != 0, (pl.col("flags") & _START) == 0)
    # A number that is used again belongs to the starts and ends in their order.
    again = pl.int_range(pl.len()).over("id", "pid").alias("again")
    keys = ["id", "pid", "again", "is_range"]
    starts = starts.with_columns(is_range=(pl.col("flags") & _START) != 0).with_columns(
        pl.int_range(pl.len()).over("id", "pid", "is_range").alias("again")
    )
    ends = ends.with_columns(again, is_range=pl.lit(True)).select(*keys, end="timestamp")
    paired = starts.join(ends, on=keys, how="left", nulls_equal=True, maintain_order="left")
    alone = ends.height - int(paired["end"].is_not_null().sum())
    ranges = paired.select(
        strings.texts(paired["name"]).alias("name"),
        strings.texts(paired["domain"]).alias("domain"),
        *absolute("timestamp"),
        "pid",
        "tid",
    )
    return ranges, max(alone, 0)
