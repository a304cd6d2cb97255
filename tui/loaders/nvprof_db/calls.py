"""CUDA calls: tables of the runtime's and of the driver's, which hold numbers instead of names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.cupti import call_names
from tui.loaders.nvprof_db.times import absolute
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.sqlite.database import Database

_COLUMNS: Final = {
    "cbid": pl.Int64,
    "start": pl.Int64,
    "end": pl.Int64,
    "processId": pl.Int64,
    "threadId": pl.Int64,
    "correlationId": pl.Int64,
    "returnValue": pl.Int64,
}
_TABLES: Final = {"runtime": "CUPTI_ACTIVITY_KIND_RUNTIME", "driver": "CUPTI_ACTIVITY_KIND_DRIVER"}


def read_calls(database: Database) -> pl.DataFrame:
    """API calls with columns of the model, times still absolute; a call of an unknown number is named by it."""
    parts = []
    for api, table in _TABLES.items():
        rows = database.frame(table, _COLUMNS)
        known = call_names(api)
        numbers = rows["cbid"].unique().drop_nulls()
        names = pl.DataFrame(
            {"cbid": numbers, "name": [known.get(number, f"{api} call {number}") for number in numbers]},
            schema={"cbid": pl.Int64, "name": pl.String},
        ).with_columns(pl.col("name").cast(NAME))
        parts.append(
            rows.join(names, on="cbid", how="left", maintain_order="left").select(
                "name",
                *absolute(),
                pid=pl.col("processId"),
                # The number is stored with a sign.
                tid=pl.col("threadId") & 0xFFFFFFFF,
                correlation=pl.col("correlationId"),
                result=pl.col("returnValue"),
            )
        )
    return pl.concat(parts)
