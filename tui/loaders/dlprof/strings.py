"""Texts that DLProf keeps once, in its table ``dictionary``, and refers to by number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.collector import Collector
    from tui.loaders.sqlite.database import Database

_NOTHING: Final = ("", "null", '[""]')
"""How DLProf writes that it knows nothing; the latter two are JSON."""


class Strings:
    """The dictionary of a database."""

    def __init__(self, database: Database, collector: Collector) -> None:
        self._collector = collector
        texts = database.frame("dictionary", {"id": pl.Int64, "string": pl.String})
        text = pl.col("string").str.strip_chars()
        self._texts = (
            texts.drop_nulls()
            .unique("id", keep="first", maintain_order=True)
            .select("id", pl.when(~text.is_in(_NOTHING)).then(text).cast(NAME).alias("text"))
        )

    def put(self, data: pl.DataFrame, *columns: str, of: str) -> pl.DataFrame:
        """Add for each column ``<name>_id`` the text as ``<name>``; null where there is none.

        Args:
            data: With the columns of numbers.
            columns: The names of the texts.
            of: What the rows are, for the issue that tells of numbers that lead nowhere.
        """
        for name in columns:
            number = f"{name}_id"
            known = self._texts["id"].implode()
            lost = data.select((pl.col(number).is_not_null() & ~pl.col(number).is_in(known)).sum()).item()
            if lost:
                self._collector.issue(
                    "warning",
                    None,
                    f"{number} of {lost} {of}",
                    "the number is not in the database's dictionary, so this text stays unknown",
                )
            data = data.join(
                self._texts.rename({"id": number, "text": name}), on=number, how="left", maintain_order="left"
            )
        return data

    def text(self, number: int | None) -> str | None:
        """One text; None where there is none."""
        found = self._texts.filter(pl.col("id") == number)["text"] if number is not None else None
        return found.cast(pl.String).item() if found is not None and len(found) else None
