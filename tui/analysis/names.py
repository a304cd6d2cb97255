"""Short names of many kernels at once."""

from __future__ import annotations

import polars as pl

from tui.model.names import short_name
from tui.model.schema import NAME

__all__ = ["short_name", "short_names"]


def short_names(names: pl.Series) -> pl.DataFrame:
    """For each distinct name its short form (`tui.model.names.short_name`): columns ``name`` and ``short_name``."""
    distinct = names.unique().drop_nulls()
    texts = distinct.cast(pl.String).to_list()
    return pl.DataFrame(
        {"name": distinct, "short_name": pl.Series([short_name(text) for text in texts], dtype=pl.String)},
        schema={"name": names.dtype, "short_name": NAME},
    )
