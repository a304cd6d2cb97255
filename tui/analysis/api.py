"""CUDA API calls: by name, and call by call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import FIGURES, share
from tui.analysis.figures_by_key import figures_by
from tui.analysis.kernels import BY_NAME, FIGURES_SHOWN, aggregated
from tui.analysis.memo import once_per_profile
from tui.cache.parking import rows_where
from tui.model.columns import columns
from tui.model.schema import NAME
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

API: Final = TableSpec(
    "api",
    "API Calls",
    columns("name", *FIGURES_SHOWN, "session", "line"),
    key=("session", "name"),
    sort=(("total_ns", True),),
    weight="total_ns",
)

API_INSTANCES: Final = TableSpec(
    "api_instances",
    "Calls",
    columns("start_ns", "duration_ns", "pid", "tid", "result", "correlation", "line", "number"),
    key=("session", "number"),
    weight="duration_ns",
    pinned="start_ns",
)


@once_per_profile("api_calls", "summary")
def api(profile: Profile) -> pl.DataFrame:
    """CUDA API calls by name: one row per session and name, largest total first.

    The columns are those of `tui.analysis.kernels.kernels`; ``kind`` is api and ``uses_tensor_core`` is null.
    ``time_pct`` is the share of the session's API time, summed over all threads.
    """
    calls = profile["api_calls"]
    single = (
        figures_by(calls, ("session", "name"))
        .with_columns(pl.lit(None, pl.Boolean).alias("uses_tensor_core"), share())
        .select("session", "name", *FIGURES, "timed_calls", "uses_tensor_core", "line", "time_pct")
    )
    recorded = aggregated(profile, "api", without=calls["session"]).drop("kind")
    rows = pl.concat([single, recorded])
    return (
        rows.with_columns(pl.lit("api").cast(NAME).alias("kind"), pl.col("name").alias("short_name"))
        .select("session", "kind", "name", "short_name", *BY_NAME, "timed_calls", "line")
        .sort("total_ns", "name", "session", descending=[True, False, False], nulls_last=True)
    )


def api_instances(profile: Profile, *, session: int, name: str, which: pl.Expr | None = None) -> pl.DataFrame:
    """The single calls of one API function of one session, as the log orders them; ``number`` is the row of each.

    Args:
        profile: Where to look.
        session: Number of the session.
        name: The function.
        which: A further condition on the frame ``api_calls``.
    """
    wanted = (pl.col("session") == session) & (pl.col("name") == name)
    rows = profile["api_calls"].with_row_index("number")
    return rows_where(rows, wanted if which is None else wanted & which)
