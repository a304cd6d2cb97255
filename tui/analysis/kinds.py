"""Which kind of GPU work the rows of a summary are."""

from __future__ import annotations

import polars as pl

from tui.model.names import KIND_BY_PREFIX


def kind_by_name() -> pl.Expr:
    """`tui.model.names.kind_of` of the column ``name``, as ``kind``."""
    name = pl.col("name").cast(pl.String)
    found = (pl.when(name.str.starts_with(prefix)).then(pl.lit(kind)) for prefix, kind in KIND_BY_PREFIX.items())
    return pl.coalesce(*found, pl.lit("kernel")).alias("kind")
