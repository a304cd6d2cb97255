"""The strings of a database, which its other tables give the numbers of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.demangle import demangled
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.sqlite.database import Database

_NO_STRING: Final = "-- null --"


class Strings:
    """Table ``StringTable``."""

    def __init__(self, database: Database) -> None:
        self._table = (
            database.frame("StringTable", {"_id_": pl.Int64, "value": pl.String})
            .rename({"_id_": "number", "value": "text"})
            .filter(pl.col("text") != _NO_STRING)
            .unique("number", keep="first")
        )

    def texts(self, numbers: pl.Series) -> pl.Series:
        """The strings as names; null where there is none of a number."""
        return self._named(numbers, self._of(numbers))

    def kernel_names(self, numbers: pl.Series) -> pl.Series:
        """The strings as names, those of C++ spelt out."""
        found = self._of(numbers)
        spelt = demangled(found["text"])
        return self._named(numbers, found.with_columns(pl.col("text").replace(spelt) if spelt else pl.col("text")))

    def text(self, number: int | None) -> str | None:
        """One string."""
        return next(iter(self._of(pl.Series([number], dtype=pl.Int64))["text"]), None)

    def _of(self, numbers: pl.Series) -> pl.DataFrame:
        return self._table.filter(pl.col("number").is_in(numbers.unique().drop_nulls().implode()))

    def _named(self, numbers: pl.Series, found: pl.DataFrame) -> pl.Series:
        names = found.with_columns(pl.col("text").cast(NAME))
        return numbers.to_frame("number").join(names, on="number", how="left", maintain_order="left")["text"]
