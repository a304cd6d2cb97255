"""Op instances of sessions that record no ops: consecutive launches of one op type, inferred from kernel names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.memo import once_per_profile
from tui.analysis.ops.op_attribution import recorded_sessions
from tui.analysis.ops.op_type_rules import UNKNOWN, classify
from tui.analysis.ops.ops_by_name import op_name
from tui.model.schema import NAME

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]


_KINDS: Final = pl.DataFrame(
    [
        ("Convolution", "forward", "convolution"),
        ("Convolution", "backward", "convolution backward filter"),
        ("Convolution", "backward", "convolution backward data"),
        ("Convolution", "backward", "convolution backward bias"),
        ("Pooling", "forward", "pooling"),
        ("Pooling", "backward", "pooling"),
        ("LRN", "forward", "normalization"),
        ("LRN", "backward", "normalization"),
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
"""The most GPU work of a layer, as a multiple of the layer's measured time: both are rounded and vary."""

_PHASE: Final = {"fprop": "forward", "bprop": "backward"}


def with_layers(profile: Profile, instances: pl.DataFrame) -> pl.DataFrame:
    """Return inferred op instances with ``layer``: the name of the layer of each, null if it is ambiguous.

    A layer is certain if it is the only one of its type in that direction, or if every iteration has as many instances
    of the op type as there are layers of the type: the first instance belongs to the first layer (backward: the last).
    Otherwise, or if the instances of a layer take longer on the GPU than the layer's measured time, it is null.

    Args:
        profile: The profile.
        instances: In time order within a stream: session, iteration, op_type, direction, ordinal, gpu_ns.
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
        # With a single layer the direction does not matter.
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
    # Streams run in parallel: the work in one of them cannot take longer than the layer.
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


NO_INSTANCE: Final = -1
"""The number for no instance: the type or the time of the launch is unknown."""

_MIX: Final = np.uint64(0x9E3779B97F4A7C15)

_SCHEMA: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "iteration": pl.Int32,
        "op_id": pl.String,
        "op": pl.String,
        "op_type": NAME,
        "direction": NAME,
        "ordinal": pl.UInt32,
        "layer": pl.String,
        "device": pl.Int32,
        "stream": pl.Int64,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "launches": pl.Int64,
        "gpu_ns": pl.Int64,
        "gpu_busy_ns": pl.Int64,
        "gpu_idle_ns": pl.Int64,
        "cpu_own_ns": pl.Int64,
        "cpu_overhead_ns": pl.Int64,
        "kernels_code": pl.UInt64,
        "op_source": NAME,
        "line": pl.UInt32,
    }
)


@once_per_profile("activities", "ops", "layers")
def inferred_instances(profile: Profile) -> pl.DataFrame:
    """Return the op instances of sessions without recorded ops, by session, GPU, stream and time.

    One row per run of launches that follow one another in a stream of an iteration and are of one op type and
    direction. A launch of an unclassified kernel, or with an unknown start, belongs to none and ends the run before it.

    Columns: session, iteration (null outside of the iterations, or if there are none), op_id (type, ordinal within the
    iteration, ``BPROP``; null outside of the iterations, where there is no ordinal), op (type and direction in words),
    op_type, direction, ordinal, layer (`with_layers`), device, stream, start_ns, end_ns, launches, gpu_ns (null if no
    duration is known), gpu_busy_ns (the same, since launches of a stream do not overlap), gpu_idle_ns (null: launches
    with a gap between them may be several ops), cpu_own_ns and cpu_overhead_ns (null: not recorded), kernels_code (a
    number that two instances share if they launched the same kernels), op_source, line.
    """
    return _instances_and_rows(profile)[0]


def activity_instances(profile: Profile) -> Ints:
    """Return for each row of ``activities`` its row of `inferred_instances`, or `NO_INSTANCE`."""
    return _instances_and_rows(profile)[1]


@once_per_profile("activities", "ops", "layers")
def _instances_and_rows(profile: Profile) -> tuple[pl.DataFrame, Ints]:
    activities = profile["activities"]
    inside = np.full(activities.height, NO_INSTANCE, np.int64)
    types, code = _distinct_types(activities["name"])
    open_session = ~activities["session"].is_in(recorded_sessions(profile).implode())
    usable = (open_session & activities["start_ns"].is_not_null()).to_numpy()
    if not usable.any():
        return pl.DataFrame(schema=_SCHEMA), inside
    rows = _by_stream(activities, usable)
    code = code[rows]
    keys = [activities[name].fill_null(-1).to_numpy()[rows] for name in ("session", "device", "stream", "iteration")]
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = code[1:] != code[:-1]
    for key in keys:
        begins[1:] |= key[1:] != key[:-1]
    run = np.cumsum(begins) - 1
    has_type = code != NO_INSTANCE
    # Drop runs of unknown types; renumber the others.
    number = np.cumsum(has_type[begins]) - 1
    inside[rows[has_type]] = number[run[has_type]]
    first = np.flatnonzero(begins & has_type)
    if not len(first):
        return pl.DataFrame(schema=_SCHEMA), inside
    starts = np.flatnonzero(begins)
    work = activities.select("start_ns", "duration_ns", "line")[rows]
    duration = work["duration_ns"].fill_null(0).to_numpy()
    timed = work["duration_ns"].is_not_null().to_numpy().astype(np.int64)
    begin = work["start_ns"].to_numpy()
    names = activities["name"].to_physical().fill_null(0).to_numpy()[rows].astype(np.uint64)
    index = (np.arange(len(rows)) - starts[run]).astype(np.uint64)
    mixed = (names + np.uint64(1)) * _MIX * (np.uint64(2) * index + np.uint64(1))
    mixed ^= mixed >> np.uint64(29)
    instances = has_type[starts]

    def reduce_runs(function: np.ufunc, values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        reduced: npt.NDArray[np.generic] = function.reduceat(values, starts)[instances]
        return reduced

    lines = work["line"].fill_null(np.iinfo(np.uint32).max).to_numpy()
    table = pl.DataFrame(
        {
            "session": keys[0][first],
            "device": keys[1][first],
            "stream": keys[2][first],
            "iteration": keys[3][first],
            "code": code[first],
            "start_ns": begin[first],
            "end_ns": reduce_runs(np.maximum, begin + duration),
            "launches": reduce_runs(np.add, np.ones(len(rows), np.int64)),
            "timed": reduce_runs(np.add, timed),
            "gpu_ns": reduce_runs(np.add, duration),
            "kernels_code": reduce_runs(np.add, mixed),
            "line": reduce_runs(np.minimum, lines),
        }
    )
    return _with_ids(profile, table, types), inside


def _distinct_types(names: pl.Series) -> tuple[pl.DataFrame, Ints]:
    """Return the distinct op types with direction, and the row of each name's type; `NO_INSTANCE` if unknown."""
    classes = classify(names)
    types = (
        classes.filter(pl.col("op_type").cast(pl.String) != UNKNOWN)
        .select(pl.col("op_type", "direction").cast(pl.String))
        .unique()
        .sort("op_type", "direction")
        .with_row_index("code")
    )
    with_types = classes.with_columns(pl.col("op_type", "direction").cast(pl.String)).join(
        types, on=["op_type", "direction"], how="left", nulls_equal=True, maintain_order="left"
    )
    physical = with_types["name"].to_physical().to_numpy()
    by_name = np.full(int(physical.max(initial=0)) + 1, NO_INSTANCE, np.int64)
    by_name[physical] = with_types["code"].cast(pl.Int64).fill_null(NO_INSTANCE).to_numpy()
    codes = by_name[names.to_physical().fill_null(0).to_numpy()]
    codes[names.is_null().to_numpy()] = NO_INSTANCE
    return types, codes


def _by_stream(activities: pl.DataFrame, usable: npt.NDArray[np.bool_]) -> Ints:
    """Return the usable rows by session, GPU and stream, in time order."""
    rows = np.flatnonzero(usable)
    keys = activities.select("session", "device", "stream")
    if all(keys[name].n_unique() == 1 for name in keys.columns):
        return rows
    order = keys[rows].select(pl.arg_sort_by("session", "device", "stream", maintain_order=True)).to_series()
    by_stream: Ints = rows[order.to_numpy()]
    return by_stream


def _with_ids(profile: Profile, table: pl.DataFrame, types: pl.DataFrame) -> pl.DataFrame:
    """Return instances with their ids and derived columns."""
    # A run without iterations is numbered as one.
    with_iterations = profile["activities"]["session"].filter(profile["activities"]["iteration"].is_not_null()).unique()
    outside = (pl.col("iteration") == -1) & pl.col("session").is_in(with_iterations.implode())
    no_id = np.iinfo(np.uint32).max
    named = _with_words(types)
    described = (
        table.with_columns(pl.col("session").cast(pl.UInt32))
        .join(named, on="code", how="left", maintain_order="left")
        .with_columns(
            pl.int_range(1, pl.len() + 1, dtype=pl.UInt32).over("session", "iteration", "word_code").alias("ordinal"),
            outside.alias("outside"),
        )
        .with_columns(
            pl.when("outside").then(None).otherwise("ordinal").alias("ordinal"),
            *(pl.when(pl.col("timed") > 0).then("gpu_ns").alias(name) for name in ("gpu_ns", "gpu_busy_ns")),
            *(pl.lit(None, pl.Int64).alias(name) for name in ("gpu_idle_ns", "cpu_own_ns", "cpu_overhead_ns")),
            *(pl.when(pl.col(name) == -1).then(None).otherwise(pl.col(name)).alias(name)
              for name in ("device", "stream", "iteration")),
            pl.when(pl.col("line") == no_id).then(None).otherwise("line").alias("line"),
        )
    )  # fmt: skip
    # Ids repeat from iteration to iteration: each is written once.
    ids = (
        described.select("word_code", "ordinal")
        .unique()
        .join(named.select("word_code", "word", "suffix").unique(), on="word_code")
        .select("word_code", "ordinal", pl.format("{}_{}{}", "word", "ordinal", "suffix").alias("op_id"))
    )
    described = described.join(ids, on=["word_code", "ordinal"], how="left", maintain_order="left")
    return with_layers(profile, described).select(pl.col(name).cast(dtype) for name, dtype in _SCHEMA.items())


def _with_words(types: pl.DataFrame) -> pl.DataFrame:
    """Return op types with the words of ids and phrases; types that are numbered together share a ``word_code``."""
    type_word = (
        pl.col("op_type")
        .str.replace_all(r"\b(?:forward|backward)\b ?", "")
        .str.to_uppercase()
        .str.replace_all("[^A-Z0-9]+", "_")
        .str.strip_chars("_")
    )
    suffix = pl.when(pl.col("direction") == "bprop").then(pl.lit("_BPROP")).otherwise(pl.lit(""))
    return types.with_columns(
        pl.col("code").cast(pl.Int64),
        type_word.alias("word"),
        suffix.alias("suffix"),
        op_name(),
        pl.when(_is_memory()).then(pl.lit("recorded")).otherwise(pl.lit("inferred")).alias("op_source"),
    ).with_columns(
        pl.struct("word", "suffix").rank("dense").alias("word_code"),
        pl.col("op_type", "direction", "op_source").cast(NAME),
    )


def _is_memory() -> pl.Expr:
    """Return the condition for op types that are kinds of recorded work."""
    return pl.col("op_type").str.contains("^(?:memcpy|memset|unified memory|whole CUDA graph)")
