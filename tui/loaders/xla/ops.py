"""The ops of an XLA trace: HLO instructions as they were compiled, with the path of the framework's own name."""

from __future__ import annotations

from typing import Final

import polars as pl

from tui.model.schema import NAME

_LEVELS: Final = 6
"""So many events of the CPU can lie between a launch and the op that made it."""

_NUMBER: Final = r"[._]\d+$"
"""Behind the name of an HLO instruction: ``copy.1``, ``command_buffer_3``."""

_OF_OP: Final = ("device", "hlo_module", "hlo_op", "op_path", "tf_op", "source")
_KEY: Final = ("device", "hlo_module", "hlo_op", "tf_op", "instance", "by_scope")


def ops_of(activities: pl.DataFrame, host: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Ops, and the activities with ``op`` and ``op_join``.

    An instance is what the trace gives one number (``scope_range_id``), else what one event of the CPU launched, else
    what one call launched. Its times are those of the event of the CPU that has its name and is around the launch.

    Args:
        activities: As `tui.loaders.xla.gpu_work.activities_of` makes them.
        host: With ``row`` and ``parent``.
    """
    calls = (
        host.filter(pl.col("correlation").is_not_null())
        .unique("correlation", keep="first", maintain_order=True)
        .select("correlation", call="row", around="parent")
    )
    has_name = pl.col("hlo_op").is_not_null() | _tf_path().is_not_null()
    work = (
        activities.with_row_index("work")
        .join(calls, on="correlation", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce(
                pl.col("scope"), pl.col("around").cast(pl.Int64), pl.col("call").cast(pl.Int64), pl.col("work")
            ).alias("instance"),
            pl.col("scope").is_not_null().alias("by_scope"),
        )
    )
    found = (
        work.filter(has_name)
        .group_by(_KEY, maintain_order=True)
        .agg(
            pl.col("op_path", "source").drop_nulls().first(),
            pl.col("around").first(),
            pl.col("start_ns").min().alias("gpu_ns"),
        )
    )
    ops = _with_cpu_times(found, host).sort("start_ns", "gpu_ns", nulls_last=True, maintain_order=True)
    ops = ops.with_row_index("op")
    linked = (
        work.join(ops.select(*_KEY, "op"), on=_KEY, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pl.when(has_name).then("op"))
        .with_columns(
            pl.when(pl.col("op").is_not_null())
            .then(pl.lit("recorded"))
            .when(pl.col("call").is_null())
            .then(pl.lit("no launch record"))
            .otherwise(pl.lit("no op around the launch"))
            .cast(NAME)
            .alias("op_join")
        )
    )
    return _of_model(ops), linked


def _with_cpu_times(ops: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """Climb from the event around the launch to the one that is called like the op."""
    events = host.select(
        pl.col("row").alias("around"), pl.col("name").alias("around_name"), pl.col("parent").alias("next")
    )
    climbing = ops.select("hlo_op", "around").with_columns(pl.lit(None, pl.UInt32).alias("own"))
    for _ in range(_LEVELS):
        climbing = (
            climbing.join(events, on="around", how="left", maintain_order="left")
            .with_columns(
                pl.when(pl.col("around_name").cast(pl.String) == pl.col("hlo_op").cast(pl.String))
                .then("around")
                .alias("here")
            )
            .select("hlo_op", pl.coalesce("own", "here").alias("own"), pl.col("next").alias("around"))
        )
    times = host.select(pl.col("row").alias("own"), "start_ns", "duration_ns", "pid", "tid")
    return ops.with_columns(climbing["own"]).join(times, on="own", how="left", maintain_order="left")


def _of_model(ops: pl.DataFrame) -> pl.DataFrame:
    hlo = pl.col("hlo_op").cast(pl.String)
    # A path that is no path is the name of an argument or of the whole program.
    jax = pl.col("op_path").cast(pl.String)
    path = pl.coalesce(pl.when(jax.str.contains("/", literal=True)).then(jax), _tf_path())
    last = path.str.extract(r"(?s)([^/]+)/*$", 1)
    before = path.str.extract(r"(?s)^/*(.+?)/+[^/]+/*$", 1)
    group = pl.concat_str([pl.col("hlo_module").cast(pl.String), before], separator="/", ignore_nulls=True)
    tf_type = pl.col("tf_op").cast(pl.String).str.extract(r":([\w.]+)$", 1)
    # JAX writes what it differentiated as jvp(...), and the way back as transpose(jvp(...)).
    direction = (
        pl.when(path.str.contains("transpose(jvp(", literal=True))
        .then(pl.lit("bprop"))
        .when(path.str.contains("jvp(", literal=True))
        .then(pl.lit("fprop"))
    )
    return ops.select(
        "op",
        hlo.alias("op_id"),
        pl.coalesce(last, hlo).cast(NAME).alias("name"),
        pl.coalesce(tf_type, last, hlo.str.replace(_NUMBER, "")).cast(NAME).alias("op_type"),
        direction.cast(NAME).alias("direction"),
        pl.when(group != "").then(group).cast(NAME).alias("group"),
        "start_ns",
        "duration_ns",
        "pid",
        "tid",
        pl.col("source").cast(pl.String).str.strip_chars().str.replace_all("\n", ";").cast(NAME).alias("stack"),
        pl.lit("recorded", NAME).alias("op_source"),
    )


def _tf_path() -> pl.Expr:
    """The path of a TensorFlow op, which is written ``path:type``; none where XLA compiled it (``XlaModule:``)."""
    path = pl.col("tf_op").cast(pl.String).str.extract(r"(?s)^(.*?)(?::[\w.]*)?$", 1)
    return pl.when(~path.is_in(("", "XlaModule"))).then(path)
