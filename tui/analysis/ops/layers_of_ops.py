"""Which layer of a network inferred ops belong to, where the log of the same process names its layers (Caffe)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from tui.model.profile import Profile

_KINDS: Final = pl.DataFrame(
    [
        ("Convolution", "forward", "convolution"),
        ("Convolution", "backward", "convolution backward filter"),
        ("Convolution", "backward", "convolution backward data"),
        ("Convolution", "backward", "convolution backward bias"),
        ("Pooling", "forward", "pooling"),
        ("Pooling", "backward", "pooling"),
        ("LRN", "forward", "normalisation"),
        ("LRN", "backward", "normalisation"),
        ("ReLU", "forward", "activation"),
        ("ReLU", "backward", "activation"),
        ("BatchNorm", "forward", "batch norm"),
        ("BatchNorm", "backward", "batch norm"),
        ("Dropout", "forward", "dropout"),
        ("Dropout", "backward", "dropout"),
        ("SoftmaxWithLoss", "forward", "softmax"),
        ("Softmax", "forward", "softmax"),
    ],
    schema=["layer_type", "phase", "op_type"],
    orient="row",
)
"""Types of layers with the op types that do their work and that of no other type. A matrix product can be a
fully-connected layer or a convolution, so it is none of them."""

SLACK: Final = 1.05
"""A layer's GPU work can take so much of the time that was measured for the layer: both are rounded and vary."""

_PHASE: Final = {"fprop": "forward", "bprop": "backward"}


def with_layers(profile: Profile, instances: pl.DataFrame) -> pl.DataFrame:
    """Inferred op instances with ``layer``: the name of the layer that each belongs to, null where that is not sure.

    A layer is taken for sure where it is the only one of its type that runs in that direction, or where every
    iteration has as many instances of the op type as there are layers of the type: the first belongs to the first
    layer, backward to the last. Else, or where the instances of a layer take longer on the GPU than the layer was
    measured to take, nothing is claimed.

    Args:
        profile: Where the instances are from.
        instances: In order of time within a stream: session, iteration, op_type, direction, ordinal, gpu_ns.
    """
    layers = profile["layers"].filter(pl.col("measured"), pl.col("executor") == "caffe")
    if layers.is_empty() or instances.is_empty():
        return instances.with_columns(pl.lit(None, pl.String).alias("layer"))
    backward = pl.col("phase") == "backward"
    slots = (
        layers.select("session", "position", "layer", "phase", pl.col("op_type").alias("layer_type"), pl.col("time_ns"))
        .join(_KINDS, on=["layer_type", "phase"])
        .with_columns(pl.len().over("session", "op_type", "phase").alias("of_kind"))
        .with_columns(
            pl.col("position")
            .rank("ordinal", descending=False)
            .over("session", "op_type", "phase")
            .alias("forward_place")
        )
        .with_columns(
            pl.when(backward)
            .then(pl.col("of_kind") + 1 - pl.col("forward_place"))
            .otherwise("forward_place")
            .cast(pl.UInt32)
            .alias("place")
        )
        .select("session", "op_type", "phase", "place", "layer", "of_kind", "time_ns")
    )
    per_iteration = pl.len().over("session", "iteration", "op_type", "direction").alias("in_iteration")
    rows = (
        instances.with_row_index("row")
        .with_columns(pl.col("op_type", "direction").cast(pl.String))
        # With one layer alone it does not matter that the name does not say the direction.
        .with_columns(
            pl.col("direction").replace_strict(_PHASE, default="forward").alias("phase"),
            pl.col("direction").is_null().alias("silent"),
            per_iteration,
        )
        .select(
            *("row", "session", "iteration", "device", "stream", "op_type", "phase"),
            *("silent", "ordinal", "in_iteration", "gpu_ns"),
        )
        .join(slots.select("session", "op_type", "phase", "of_kind").unique(), on=["session", "op_type", "phase"])
        .with_columns(
            (pl.col("in_iteration") == pl.col("of_kind")).all().over("session", "op_type", "phase").alias("lines_up")
        )
        .filter((pl.col("of_kind") == 1) | (pl.col("lines_up") & pl.col("ordinal").is_not_null() & ~pl.col("silent")))
        .with_columns(pl.when(pl.col("of_kind") == 1).then(1).otherwise("ordinal").cast(pl.UInt32).alias("place"))
        .join(slots.drop("of_kind"), on=["session", "op_type", "phase", "place"])
    )
    # Streams work side by side: what is in one of them cannot take longer than the layer.
    a_pass = rows.group_by("session", "layer", "phase", "time_ns", "device", "stream", "op_type").agg(
        pl.col("gpu_ns").mean()
    )
    too_long = (
        a_pass.group_by("session", "layer", "phase", "device", "stream")
        .agg(pl.col("gpu_ns").sum(), pl.col("time_ns").first())
        .filter(pl.col("gpu_ns") > SLACK * pl.col("time_ns"))
    )
    sure = rows.join(too_long, on=["session", "layer", "phase"], how="anti").select("row", "layer")
    return instances.with_row_index("row").join(sure, on="row", how="left", maintain_order="left").drop("row")
