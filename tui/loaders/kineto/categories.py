"""Columns of names, looked at one distinct name at a time: a million rows have a few hundred."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tui.model.schema import NAME


def mapped(values: pl.Series, function: Callable[[str], str | None]) -> pl.Series:
    """A categorical column, each of its values replaced by what a function says of it."""
    distinct = values.unique().drop_nulls()
    texts = pl.Series([function(text) for text in distinct.cast(pl.String)], dtype=pl.String).cast(NAME)
    return values.replace_strict(distinct, texts, default=None, return_dtype=NAME)


def matching(values: pl.Series, pattern: str) -> pl.Series:
    """Which values of a categorical column a regular expression is found in; not the missing ones."""
    distinct = values.unique().drop_nulls()
    found = distinct.filter(distinct.cast(pl.String).str.contains(pattern))
    return values.is_in(found.implode()).fill_null(False)


def whole_numbers(values: pl.Series) -> pl.Series:
    """A categorical column as whole numbers (Int64), null where it is none."""
    distinct = values.unique().drop_nulls()
    numbers = distinct.cast(pl.String).cast(pl.Int64, strict=False)
    return values.replace_strict(distinct, numbers, default=None, return_dtype=pl.Int64)
