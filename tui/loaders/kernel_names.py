"""Names of kernels as people read them: mangled ones spelt out, and short ones beside them."""

from __future__ import annotations

import polars as pl

from tui.loaders.demangle import demangled
from tui.model.names import short_name
from tui.model.schema import NAME


def with_short_names(kernels: pl.DataFrame) -> pl.DataFrame:
    """Spell out mangled names in ``name`` (a category), and add ``short_name``; each distinct name is read once."""
    names = kernels["name"].unique().drop_nulls().cast(pl.String).to_list()
    plain = demangled(names)
    full = [plain.get(name, name) for name in names]
    known = pl.DataFrame(
        {
            "recorded": pl.Series(names, dtype=pl.String).cast(NAME),
            "name": pl.Series(full, dtype=pl.String).cast(NAME),
            "short_name": pl.Series([short_name(name) for name in full], dtype=pl.String).cast(NAME),
        }
    )
    return (
        kernels.rename({"name": "recorded"})
        .join(known, on="recorded", how="left", maintain_order="left")
        .drop("recorded")
    )
