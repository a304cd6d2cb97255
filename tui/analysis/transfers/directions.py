"""Where copies go from and to: as the input says it, else as their names do."""

from __future__ import annotations

from typing import Final

import polars as pl

_SHORT: Final = r"([HDPA]to[HDPA])\]?$"
"""At the end of a name, as ``[CUDA memcpy HtoD]``."""
_PLACE: Final = "(Host|Device|Peer|Array|HOST|DEVICE|PEER|ARRAY)"
_LONG: Final = rf"{_PLACE}[-_]?(?:to|To|TO)[-_]?{_PLACE}\]?$"
"""The same in words, as ``[CUDA memcpy Host-to-Device]``, ``CopyHostToDevice``, ``MEMORY_COPY_HOST_TO_DEVICE``."""


def direction_of_name() -> pl.Expr:
    """What the column ``name`` tells, as ``HtoD``; null where it tells nothing."""
    name = pl.col("name").cast(pl.String)
    places = [name.str.extract(_LONG, place).str.slice(0, 1) for place in (1, 2)]
    return pl.coalesce(name.str.extract(_SHORT), pl.format("{}to{}", *places))


def with_directions(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with ``copy_kind`` as text: where it is null, what ``name`` tells."""
    # Each name is looked at once, however many rows have it.
    untold = rows.filter(pl.col("copy_kind").is_null())["name"].unique().to_frame()
    named = untold.with_columns(direction_of_name().alias("named"))
    return (
        rows.join(named, on="name", how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pl.coalesce(pl.col("copy_kind").cast(pl.String), "named").alias("copy_kind"))
        .drop("named")
    )
