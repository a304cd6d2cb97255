"""The keys that a user can choose from, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.iterations.candidate_keys import candidate_keys
from tui.model.columns import columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

KEY_CHOICES: Final = TableSpec(
    "keys",
    "Keys",
    columns("name", "key_kind", "ended", "per_iteration", "spacing_ns", "spacing_cv_pct", "coverage_pct", "session"),
    key=("session", "key_kind", "name"),
)

_KINDS: Final = ("op", "range", "kernel", "API call")
"""Of a name that is several things the first of these is the key."""


def key_choices(profile: Profile) -> pl.DataFrame:
    """Names that iterations could end with, the most regular first, as `candidate_keys` orders them.

    Columns: session, key_kind, name, ended (how many iterations it ends), per_iteration, spacing_ns, spacing_cv_pct,
    coverage_pct. A name that is several things is there once in a session: as what it would be taken for.
    """
    rows = candidate_keys(profile)
    kind = pl.col("key_kind").replace_strict({kind: at for at, kind in enumerate(_KINDS)}, return_dtype=pl.Int64)
    return rows.filter(kind == kind.min().over("session", "name")).select(
        "session",
        "key_kind",
        "name",
        pl.col("calls").alias("ended"),
        "per_iteration",
        "spacing_ns",
        (100 * pl.col("spacing_cv")).alias("spacing_cv_pct"),
        "coverage_pct",
    )


def holding(rows: pl.DataFrame, text: str) -> pl.DataFrame:
    """The rows whose name or kind holds every word of a text, in any case."""
    wanted = pl.lit(True)
    for word in text.lower().split():
        in_name = pl.col("name").str.to_lowercase().str.contains(word, literal=True)
        wanted &= in_name | pl.col("key_kind").str.to_lowercase().str.contains(word, literal=True)
    return rows.filter(wanted)
