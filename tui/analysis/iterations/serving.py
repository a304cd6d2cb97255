"""Steps of an inference server: the phase of each iteration, its requests and tokens, and the sums by phase."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import total
from tui.analysis.iterations.iteration_table import iterations
from tui.analysis.memo import once_per_profile
from tui.correlation.iteration_ranges import DECODE, MIXED, PREFILL, server_steps
from tui.model.columns import columns
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile

ANNOTATION: Final = "annotation"
SHAPES: Final = "inferred from shapes"
"""The source of an iteration's phase."""

STEP_COLUMNS: Final = ("requests", "query_tokens", "kv_tokens", "tokens_per_s", "phase_by")
"""The columns of iterations that are steps of a server."""

_KEYS: Final = ("session", "iteration")
_ATTENTION: Final = "scaled_dot_product|flash_attn|flash_attention|_efficient_attention|_cudnn_attention"
_QUERY_AND_KEYS: Final = r"^\[+([0-9]+), ([0-9]+), ([0-9]+), [0-9]+\], \[[0-9]+, [0-9]+, ([0-9]+), [0-9]+\]"
"""Shapes of query and key: batch, heads, tokens, size of a head."""


def with_phases(profile: Profile, steps: pl.DataFrame) -> pl.DataFrame:
    """Return iterations with the batch that a server ran in each.

    Columns added: step_phase (prefill, decode, mixed or capture), requests, prefill_requests, decode_requests,
    query_tokens (of the step), prefill_tokens, decode_tokens, kv_tokens (keys that they attend to), captured_batch (the
    batch size of a captured graph), phase_by (``annotation``: the name of the step; ``inferred from shapes``: the
    attention of an iteration has one query token in decode and several in prefill). All are null in iterations of other
    programs.

    Args:
        profile: The profile.
        steps: session, iteration and name of each.
    """
    names = steps["name"].cast(pl.String).unique()
    step_batches = pl.DataFrame({"name": names}).hstack(server_steps(names).rename({"phase": "step_phase"}))
    rows = steps.with_columns(pl.col("name").cast(pl.String).alias("_name")).join(
        step_batches, left_on="_name", right_on="name", how="left", nulls_equal=True, maintain_order="left"
    )
    by_name = pl.when(pl.col("step_phase").is_not_null()).then(pl.lit(ANNOTATION))
    shapes = _phases_by_shapes(profile)
    if shapes.is_empty():
        return rows.drop("_name").with_columns(by_name.alias("phase_by"))
    shapes = shapes.rename({"phase": "phase_of_shapes", "requests": "requests_of_shapes"})
    rows = rows.join(shapes, on=_KEYS, how="left", maintain_order="left")
    inferred = pl.when(pl.col("phase_of_shapes").is_not_null()).then(pl.lit(SHAPES))
    return rows.with_columns(
        pl.coalesce(by_name, inferred).alias("phase_by"),
        pl.coalesce("step_phase", "phase_of_shapes").alias("step_phase"),
        pl.coalesce("requests", "requests_of_shapes").alias("requests"),
    ).drop("_name", "phase_of_shapes", "requests_of_shapes")


@once_per_profile("sessions", "ops", "ranges", "activities")
def _phases_by_shapes(profile: Profile) -> pl.DataFrame:
    """Return phase and requests of the iterations of sessions that generate tokens and do not name their steps.

    A session generates tokens if some attention has a single query token and several keys, and no op is backward.
    """
    name = pl.col("name").cast(pl.String)
    shapes = (
        profile["ops"]
        .lazy()
        .filter(pl.col("iteration").is_not_null(), pl.col("input_shapes").is_not_null(), name.str.contains(_ATTENTION))
        .group_by("session", "iteration", "input_shapes")
        .agg()
        .with_columns(pl.col("input_shapes").cast(pl.String).str.extract_groups(_QUERY_AND_KEYS).alias("of"))
        .select(
            *_KEYS,
            pl.col("of").struct.field("1").cast(pl.Int64, strict=False).alias("requests"),
            pl.col("of").struct.field("3").cast(pl.Int64, strict=False).alias("queries"),
            pl.col("of").struct.field("4").cast(pl.Int64, strict=False).alias("keys"),
        )
        .drop_nulls()
        .collect()
    )
    generating = shapes.filter((pl.col("queries") == 1) & (pl.col("keys") > 1))["session"].unique()
    if generating.is_empty():
        return pl.DataFrame(
            schema={"session": pl.UInt32, "iteration": pl.Int32, "phase": pl.String, "requests": pl.Int64}
        )
    backward = profile["ops"].filter(name.str.contains("Backward"))["session"].unique()
    is_single_query = pl.col("queries") == 1
    return (
        shapes.filter(pl.col("session").is_in(generating.implode()), ~pl.col("session").is_in(backward.implode()))
        .group_by(_KEYS)
        .agg(
            pl.when(is_single_query.all())
            .then(pl.lit(DECODE))
            .when(is_single_query.any())
            .then(pl.lit(MIXED))
            .otherwise(pl.lit(PREFILL))
            .alias("phase"),
            pl.when(pl.col("requests").n_unique() == 1).then(pl.col("requests").first()).alias("requests"),
        )
    )


PHASES_SPEC: Final = TableSpec(
    "phases",
    "Phases of the server",
    columns(
        "phase",
        "steps",
        "duration_ns",
        "time_pct",
        "step_avg_ns",
        "gpu_ns",
        "busy_pct",
        "requests_avg",
        "query_tokens",
        "kv_tokens",
        "tokens_per_s",
        "ns_per_token",
        "phase_by",
        "session",
    ),
    key=("session", "phase"),
    weight="duration_ns",
    pinned="phase",
    min_pinned_cells=7,
)


def phases(profile: Profile) -> pl.DataFrame:
    """Return the steps of a server by phase; empty if there are none.

    Columns: session, phase, phase_by, steps, duration_ns (summed), time_pct (of the durations of all steps),
    step_avg_ns, gpu_ns (of the work launched in them), busy_pct (share of the time of the steps with known busy time),
    requests_avg (a step), query_tokens and kv_tokens (summed; null if a step does not record them), tokens_per_s,
    ns_per_token (time of the phase / query tokens; both of the steps with known times).
    """
    rows = serving_steps(profile).filter(pl.col("step_phase").is_not_null(), pl.col("iteration").is_not_null())
    sums = {
        name: pl.when(pl.col(name).null_count() == 0).then(pl.col(name).sum()) for name in ("query_tokens", "kv_tokens")
    }
    tokens, durations = pl.col("timed_tokens"), pl.col("duration_ns")
    order = pl.col("phase").replace_strict({PREFILL: 0, DECODE: 1, MIXED: 2}, default=3, return_dtype=pl.Int64)
    return (
        rows.group_by("session", "phase")
        .agg(
            pl.col("phase_by").first(),
            pl.len().cast(pl.Int64).alias("steps"),
            total(),
            durations.mean().round().cast(pl.Int64).alias("step_avg_ns"),
            total("gpu_ns").alias("gpu_ns"),
            total("busy_ns").alias("busy_ns"),
            durations.filter(pl.col("busy_ns").is_not_null()).sum().alias("known_ns"),
            pl.col("requests").mean().alias("requests_avg"),
            *sums.values(),
            pl.when(pl.col("query_tokens").null_count() == 0)
            .then(pl.col("query_tokens").filter(durations.is_not_null()).sum())
            .alias("timed_tokens"),
        )
        .with_columns(
            (100 * durations / durations.sum().over("session")).alias("time_pct"),
            pl.when(pl.col("known_ns") > 0).then(100 * pl.col("busy_ns") / pl.col("known_ns")).alias("busy_pct"),
            pl.when(durations > 0).then(tokens / durations * 1e9).alias("tokens_per_s"),
            pl.when(tokens > 0).then((durations / tokens).round().cast(pl.Int64)).alias("ns_per_token"),
        )
        .sort("session", order)
        .select(column.name for column in PHASES_SPEC.columns)
    )


@once_per_profile("sessions", "activities", "ops", "ranges")
def serving_steps(profile: Profile) -> pl.DataFrame:
    """Return `iterations` with the columns of `with_phases` and tokens_per_s; ``phase`` is that of the step."""
    rows = with_phases(profile, iterations(profile))
    duration_ns = pl.col("duration_ns")
    return rows.with_columns(
        pl.coalesce("step_phase", "phase").alias("phase"),
        pl.when(duration_ns > 0).then(pl.col("query_tokens") / duration_ns * 1e9).alias("tokens_per_s"),
    )


@once_per_profile("ops")
def captured_tokens(profile: Profile) -> pl.DataFrame:
    """Return the tokens that the graphs of each step were captured for: session, iteration, captured.

    It is the number of rows of the matrix products that a graph replays; of several sizes, the most frequent one.
    """
    name = pl.col("name").cast(pl.String)
    rows = pl.col("input_shapes").cast(pl.String).str.extract(r"^\[+([0-9]{1,12}), ").cast(pl.Int64, strict=False)
    return (
        profile["ops"]
        .filter(
            pl.col("op_source").cast(pl.String) == "graph",
            pl.col("iteration").is_not_null(),
            name.str.contains(r"::(?:mm|linear|addmm|_scaled_mm|\w*gemm)$"),
        )
        .with_columns(rows.alias("captured"))
        .drop_nulls("captured")
        .group_by("session", "iteration", "captured")
        .agg(pl.len().alias("products"))
        .sort("products", "captured", descending=True)
        .unique(["session", "iteration"], keep="first", maintain_order=True)
        .select("session", "iteration", "captured")
    )


def without_phases(spec: TableSpec) -> TableSpec:
    """Return a table of iterations without the columns of server steps."""
    return replace(spec, columns=tuple(column for column in spec.columns if column.name not in STEP_COLUMNS))
