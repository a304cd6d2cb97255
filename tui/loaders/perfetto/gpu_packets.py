"""What GPU drivers write into a Perfetto trace: stages of work on hardware queues, and samples of counters."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tui.loaders.perfetto.track_events import COUNTERS, STAGE, Packets
from tui.loaders.protobuf import Integers, Kind, Parts
from tui.model.schema import NAME

_STAGE: Final = {**dict.fromkeys((1, 2, 5, 11, 13, 14, 19, 20), Kind.INT), 17: Kind.PART, 21: Kind.PART}
_CONTEXTS, _SPECS, _KERNELS, _NAMES = 23, 24, 1000, 2
_XYZ: Final = dict.fromkeys((1, 2, 3), Kind.INT)


def render_stages(packets: Packets) -> pl.DataFrame:
    """Stages as activities: name, start_ns, duration_ns, device, context, stream, correlation, pid, grid and block."""
    wire = packets.wire
    rows, begins, ends = packets.of(STAGE)
    fields = wire.messages(begins, ends, _STAGE)
    state = packets.state[rows]

    def named(number: int, field: int, part: int = 2) -> pl.Series:
        return packets.named(number, state, fields.ints(field), fields.has(field), part)

    own = pl.Series(wire.texts(*fields.parts(17).first(fields.count)), dtype=pl.String).cast(NAME)
    contexts = packets.entries(_CONTEXTS, 2)
    keys = zip(state.tolist(), fields.ints(5).tolist(), strict=True)
    launch = wire.messages(*_first(fields.parts(21), fields.count), {1: Kind.PART, 2: Kind.PART})
    shapes = {}
    for shape, number in (("grid", 1), ("block", 2)):
        sizes = wire.messages(*_first(launch.parts(number), launch.count), _XYZ)
        for place, axis in enumerate("xyz", 1):
            shapes[f"{shape}_{axis}"] = pl.select(
                pl.when(pl.Series(sizes.has(place))).then(pl.Series(sizes.ints(place)))
            ).to_series()
    frame = pl.DataFrame(
        {
            "demangled": named(_KERNELS, 19, 3),
            "kernel": named(_KERNELS, 19),
            "own": own,
            "interned": named(_NAMES, 20),
            "stage": named(_SPECS, 14),
            "queue": named(_SPECS, 13),
            "start_ns": packets.time_ns[rows],
            "duration_ns": fields.ints(2),
            "device": fields.ints(11),
            "stream": pl.select(pl.when(pl.Series(fields.has(13))).then(pl.Series(fields.ints(13)))).to_series(),
            "pid": pl.Series([contexts.get(key) for key in keys], dtype=pl.Int64),
            **shapes,
        }
    )
    return frame.with_columns(
        name=pl.coalesce("demangled", "kernel", "own", "interned", "stage"),
        arguments=pl.concat_str(pl.lit("queue: "), pl.col("queue").cast(pl.String)),
    )


def _first(parts: Parts, count: int) -> tuple[Integers, Integers]:
    """Where one message of each owner begins and ends; one of no length where there is none."""
    begins, ends = parts.first(count)
    return np.maximum(begins, 0), np.maximum(ends, 0)


def gpu_counters(packets: Packets) -> tuple[pl.DataFrame, int]:
    """Counters of GPUs (device, metric, description, count, min, max, mean), and how many counters are declared."""
    wire = packets.wire
    _, begins, ends = packets.of(COUNTERS)
    events = wire.messages(begins, ends, {1: Kind.PART, 2: Kind.PART, 3: Kind.INT})
    heads = events.parts(1)
    specs = wire.messages(heads.begin, heads.end, {1: Kind.PART}).parts(1)
    told = wire.messages(specs.begin, specs.end, {1: Kind.INT, 2: Kind.PART, 3: Kind.PART})
    declared = pl.DataFrame(
        {
            "device": events.ints(3)[heads.owner[specs.owner]],
            "id": told.ints(1),
            "metric": pl.Series(wire.texts(*told.parts(2).first(told.count)), dtype=pl.String),
            "description": pl.Series(wire.texts(*told.parts(3).first(told.count)), dtype=pl.String),
        }
    ).unique(["device", "id"], keep="last", maintain_order=True)
    parts = events.parts(2)
    values = wire.messages(parts.begin, parts.end, {1: Kind.INT, 2: Kind.INT, 3: Kind.DOUBLE})
    value = pl.col("value")
    samples = pl.DataFrame(
        {
            "device": events.ints(3)[parts.owner],
            "id": values.ints(1),
            "value": np.where(values.has(3), values.values(3), values.ints(2).astype(np.float64)),
        }
    )
    found = (
        samples.group_by("device", "id", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("invocations"),
            value.min().alias("min"),
            value.max().alias("max"),
            value.mean().alias("avg"),
        )
        .join(declared, on=["device", "id"], how="left", maintain_order="left")
        .with_columns(pl.coalesce("metric", pl.format("counter {}", "id")).alias("metric"))
    )
    return found, declared.height
