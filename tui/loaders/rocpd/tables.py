"""The tables of a rocpd database.

Their names end in the id of the recording (``rocpd_region_00003fdc_92cb_...``); what has the plain name is a view, and
views are not asked. A database can hold several recordings.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.loaders.sqlite.names import folded
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tui.loaders.sqlite.database import Database

_BASE: Final = "rocpd_"
_KEY: Final = "rocpd_string"
"""A table that every recording has."""
_MOST_RECORDINGS: Final = 1000
_JSON_LIMIT: Final = 1 << 20


def recordings(database: Database) -> list[str]:
    """What the table names of each recording end in; empty text where they have plain names."""
    return sorted(name[len(_KEY) :] for name in database.tables if folded(name).startswith(_KEY))[:_MOST_RECORDINGS]


class Recording:
    """The tables of one recording."""

    def __init__(self, database: Database, ending: str) -> None:
        self._database = database
        self._ending = ending
        self._strings = self.frame("string", {"id": pl.Int64, "string": pl.String}).unique("id", keep="first")

    def frame(self, table: str, schema: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
        """Columns of a table, told by its name without ``rocpd_`` and the ending."""
        return self._database.frame(f"{_BASE}{table}{self._ending}", schema)

    def count(self, table: str) -> int:
        """Rows of a table."""
        return self._database.count(f"{_BASE}{table}{self._ending}")

    def texts(self, numbers: pl.Series) -> pl.Series:
        """The strings of these numbers as names; null where there is none, or an empty one."""
        used = self._strings.filter(pl.col("id").is_in(numbers.unique().drop_nulls().implode()), pl.col("string") != "")
        names = used.with_columns(pl.col("string").cast(NAME))
        return numbers.to_frame("id").join(names, on="id", how="left", maintain_order="left")["string"]

    def events(self) -> pl.DataFrame:
        """What calls and GPU work have in common: event, category, stack (null where it is 0), extdata.

        The stack is the number that a call shares with what it launched.
        """
        rows = self.frame(
            "event",
            {"id": pl.Int64, "category_id": pl.Int64, "stack_id": pl.Int64, "correlation_id": pl.Int64}
            | {"extdata": pl.String},
        ).unique("id", keep="first", maintain_order=True)
        stack = pl.coalesce(*(pl.when(pl.col(name) != 0).then(name) for name in ("stack_id", "correlation_id")))
        return rows.select(
            pl.col("id").alias("event_id"),
            self.texts(rows["category_id"]).cast(pl.String).alias("category"),
            stack.alias("stack"),
            "extdata",
        )

    def ids(self, table: str, number: str) -> pl.DataFrame:
        """Of processes or threads: their ids in the tables, and those of the system."""
        rows = self.frame(f"info_{table}", {"id": pl.Int64, number: pl.Int64})
        return rows.unique("id", keep="first").rename({"id": f"{table}_row", number: f"{table}_id"})


def from_json(texts: pl.Series, pick: Callable[[Mapping[str, Any]], object]) -> list[object]:
    """What is picked from each JSON object of a column; None where it is none. Each distinct text is read once."""
    found: dict[str, object] = {}
    for text in texts.unique().drop_nulls():
        try:
            value = json.loads(text) if len(text) <= _JSON_LIMIT else None
        except (ValueError, RecursionError):
            value = None
        found[text] = pick(value) if isinstance(value, dict) else None
    return [found.get(text) for text in texts]
