"""Layers of a model: measured and predicted times, and how they compare."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.analysis.activities import filtered_activities
from tui.analysis.durations import total
from tui.analysis.ops.inferred_ops import activity_instances, inferred_instances
from tui.model.columns import COLUMNS, columns
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile


LAYERS: Final = TableSpec(
    "layers",
    "Layers",
    (
        *columns("layer", "phase", "executor", "measured_ns", "predicted_ns", "ratio"),
        # The executor and the prediction are more informative than the share.
        replace(COLUMNS["time_pct"], priority=6),
        *columns(
            "op_type",
            "algorithm",
            "predicted_algorithm",
            "workspace_bytes",
            "output_shape",
            "filter_shape",
            "params",
            "position",
            "median_ns",
            "total_ns",
            "calls",
            "model",
            "session",
            "line",
        ),
    ),
    key=("session", "line", "executor"),
    weight="measured_ns",
    pinned="layer",
)

LAYER_TOTALS: Final = TableSpec(
    "layer_totals",
    "Totals by phase",
    (
        *columns("phase", "executor", "layers", "measured_ns"),
        replace(COLUMNS["predicted_ns"], help="Sum of all predictions, including layers that were not measured."),
        replace(COLUMNS["ratio"], help="Predicted / measured, over layers with both times."),
        *columns("model", "session"),
    ),
    key=("session", "model", "phase", "executor"),
    pinned="phase",
)

_RUN: Final = ("session", "model", "phase", "executor")
"""The key of a total."""


def layers(profile: Profile) -> pl.DataFrame:
    """Return measured and predicted times of layers side by side, in the order of the input.

    One row per layer, phase and executor, with measured_ns, predicted_ns, ratio (predicted / measured; null unless both
    are known), time_pct (share of the time of its phase and executor: measured if known, else predicted) and the other
    columns of the frame ``layers``.
    """
    measured = pl.when(pl.col("measured").fill_null(True)).then("time_ns")
    predicted = pl.when(~pl.col("measured")).then("time_ns")
    shown = pl.coalesce("measured_ns", "predicted_ns")
    any_measured = pl.col("measured_ns").count().over(_RUN) > 0
    counted = pl.when(any_measured).then("measured_ns").otherwise(shown)
    run_total = counted.sum().over(_RUN)
    return (
        profile["layers"]
        .with_columns(measured.alias("measured_ns"), pl.coalesce("predicted_ns", predicted).alias("predicted_ns"))
        .with_columns(_ratio(), pl.when(run_total > 0).then(100 * counted / run_total).alias("time_pct"))
        .select(
            "session",
            "model",
            "position",
            "layer",
            "op_type",
            "phase",
            "executor",
            "measured_ns",
            "predicted_ns",
            "ratio",
            "time_pct",
            "algorithm",
            "predicted_algorithm",
            "workspace_bytes",
            "output_shape",
            "filter_shape",
            "params",
            "median_ns",
            "total_ns",
            "calls",
            "line",
        )
    )


def layer_totals(profile: Profile) -> pl.DataFrame:
    """Return sums of `layers` by session, model, phase and executor, in the order of the input.

    Columns: those four, layers (rows), measured_ns, predicted_ns, ratio. The ratio is over the layers that are both
    measured and predicted.
    """
    has_both = pl.col("measured_ns").is_not_null() & pl.col("predicted_ns").is_not_null()
    measured, predicted = (pl.col(name).filter(has_both).sum() for name in ("measured_ns", "predicted_ns"))
    return (
        layers(profile)
        .group_by(_RUN, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("layers"),
            total("measured_ns").alias("measured_ns"),
            total("predicted_ns").alias("predicted_ns"),
            pl.when(measured > 0).then(predicted / measured).alias("ratio"),
        )
    )


def total_layers(profile: Profile, row: Mapping[str, Any]) -> pl.DataFrame:
    """Return the layers of a total.

    Args:
        profile: The profile.
        row: A row of `layer_totals`.
    """
    return layers(profile).filter(pl.col(name).eq_missing(pl.lit(row[name])) for name in _RUN)


def layer_work(profile: Profile, row: Mapping[str, Any]) -> pl.DataFrame:
    """Return the GPU work of a layer, in time order.

    Layers record no kernels. If ops or NVTX ranges are recorded, it is the work launched in one with the layer's name;
    else the work of the layer's type (`tui.analysis.ops.inferred_ops`) and phase.

    Args:
        profile: The profile.
        row: A row of `layers`.
    """
    layer, ops = row["layer"], profile["ops"]
    if layer is None:
        return filtered_activities(profile)
    if ops.is_empty():
        return _inferred_work(profile, row)
    is_in_layer = pl.col("group").cast(pl.String).str.split("/").list.contains(layer)
    op_numbers = ops.lazy().filter((pl.col("name").cast(pl.String) == layer) | is_in_layer).select("op").collect()["op"]
    return filtered_activities(profile, pl.col("op").is_in(op_numbers.implode()))


def _inferred_work(profile: Profile, row: Mapping[str, Any]) -> pl.DataFrame:
    backward = pl.col("direction").cast(pl.String).eq_missing(pl.lit("bprop"))
    is_in_phase = {"forward": ~backward, "backward": backward}.get(row["phase"] or "", pl.lit(value=True))
    instance_rows = inferred_instances(profile).select(
        ((pl.col("session") == row["session"]) & (pl.col("layer") == row["layer"]) & is_in_phase)
        .fill_null(value=False)
        .alias("own")
    )["own"]
    if not instance_rows.any():
        return filtered_activities(profile)
    inside = activity_instances(profile)
    return filtered_activities(profile, pl.lit(pl.Series(np.append(instance_rows.to_numpy(), False)[inside])))


def _ratio() -> pl.Expr:
    return pl.when(pl.col("measured_ns") > 0).then(pl.col("predicted_ns") / pl.col("measured_ns")).alias("ratio")
