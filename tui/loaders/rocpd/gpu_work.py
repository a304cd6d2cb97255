"""Kernels and copies of a rocpd recording.

AMD counts the grid in threads: blocks are grid / workgroup, rounded up. Registers are the vector registers of a thread,
shared memory the LDS of a workgroup, of which the kernel itself asks for the static part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.demangle import demangled
from tui.model.names import DESCRIPTOR, short_name
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.rocpd.tables import Recording

_WORK: Final = dict.fromkeys(
    ("pid", "tid", "start", "end", "queue_id", "stream_id", "region_name_id", "event_id"), pl.Int64
)
_DISPATCH: Final = {
    **_WORK,
    "agent_id": pl.Int64,
    "kernel_id": pl.Int64,
    "private_segment_size": pl.Int64,
    "group_segment_size": pl.Int64,
    **{f"{what}_size_{axis}": pl.Int64 for what in ("workgroup", "grid") for axis in "xyz"},
}
_SYMBOL: Final = {
    "id": pl.Int64,
    "kernel_name": pl.String,
    "display_name": pl.String,
    "group_segment_size": pl.Int64,
    "arch_vgpr_count": pl.Int64,
    "accum_vgpr_count": pl.Int64,
    "sgpr_count": pl.Int64,
}
_COPY: Final = {**_WORK, "name_id": pl.Int64, "size": pl.Int64, "dst_agent_id": pl.Int64, "src_agent_id": pl.Int64}


def read_kernels(recording: Recording, events: pl.DataFrame, agents: pl.DataFrame) -> pl.DataFrame:
    """Kernels with columns of the model, times as recorded; ``event_id`` and ``process_row`` besides."""
    rows = recording.frame("kernel_dispatch", _DISPATCH)
    symbols = recording.frame("info_kernel_symbol", _SYMBOL).unique("id", keep="first")
    # The display name is spelt out already; what has none is named as it is linked.
    raw = pl.coalesce(pl.col("display_name").replace("", None), "kernel_name").str.replace(DESCRIPTOR, "")
    symbols = symbols.with_columns(raw.alias("display_name"))
    spelt = demangled(symbols["display_name"].drop_nulls())
    names = symbols["display_name"].replace(spelt) if spelt else symbols["display_name"]
    short = pl.Series([None if name is None else short_name(name) for name in names], dtype=pl.String)
    symbols = symbols.select(
        pl.col("id").alias("kernel_id"),
        names.cast(NAME).alias("name"),
        short.cast(NAME).alias("short_name"),
        pl.col("group_segment_size").alias("static"),
        "arch_vgpr_count",
        _facts().cast(NAME).alias("told"),
    )
    joined = _joined(rows, events, agents, "agent_id").join(symbols, on="kernel_id", how="left", maintain_order="left")
    total, static = pl.col("group_segment_size"), pl.col("static")
    split = total >= static
    return joined.select(
        pl.lit("kernel").cast(NAME).alias("kind"),
        "name",
        "short_name",
        *_common(),
        *(
            (pl.col(f"grid_size_{axis}") / pl.when(pl.col(f"workgroup_size_{axis}") > 0).then(f"workgroup_size_{axis}"))
            .ceil()
            .cast(pl.Int64, strict=False)
            .alias(f"grid_{axis}")
            for axis in "xyz"
        ),
        *(pl.col(f"workgroup_size_{axis}").alias(f"block_{axis}") for axis in "xyz"),
        registers=pl.col("arch_vgpr_count"),
        static_shared_bytes=pl.when(split).then(static),
        dynamic_shared_bytes=pl.when(split).then(total - static),
        shared_bytes=pl.when(~split.fill_null(False)).then(total),
        arguments=_with_region(recording, joined),
    )


def read_copies(recording: Recording, events: pl.DataFrame, agents: pl.DataFrame) -> pl.DataFrame:
    """Copies, like the kernels; the GPU of one is that of its two ends that is a GPU, the target first."""
    rows = recording.frame("memory_copy", _COPY)
    name = recording.texts(rows["name_id"])
    source = agents.select(pl.col("agent_id").alias("src_agent_id"), pl.col("device").alias("source"))
    joined = _joined(rows.with_columns(name=name), events, agents, "dst_agent_id").join(
        source, on="src_agent_id", how="left", maintain_order="left"
    )
    ends = pl.col("name").cast(pl.String).str.extract_groups(r"(HOST|DEVICE)_TO_(HOST|DEVICE)")
    sides = [ends.struct.field(side).str.slice(0, 1) for side in ("1", "2")]
    return joined.with_columns(device=pl.coalesce("device", "source")).select(
        pl.lit("memcpy").cast(NAME).alias("kind"),
        pl.col("name"),
        pl.col("name").alias("short_name"),
        *_common(),
        size_bytes=pl.col("size"),
        copy_kind=(sides[0] + "to" + sides[1]).cast(NAME),
        arguments=_with_region(recording, joined.with_columns(told=pl.lit(None, NAME))),
    )


def _joined(rows: pl.DataFrame, events: pl.DataFrame, agents: pl.DataFrame, agent: str) -> pl.DataFrame:
    """Rows with the stack of their event and the device of an agent."""
    device = agents.select(pl.col("agent_id").alias(agent), "device")
    return rows.join(events.select("event_id", "stack"), on="event_id", how="left", maintain_order="left").join(
        device, on=agent, how="left", maintain_order="left"
    )


def _common() -> tuple[pl.Expr, ...]:
    return (
        pl.col("start").alias("start_ns"),
        (pl.col("end") - pl.col("start")).alias("duration_ns"),
        pl.col("device"),
        pl.coalesce("stream_id", "queue_id").alias("stream"),
        pl.col("stack").alias("correlation"),
        pl.col("event_id"),
        pl.col("pid").alias("process_row"),
    )


def _facts() -> pl.Expr:
    """What has no column of its own, in words."""
    told = (
        pl.when(pl.col(column) > 0).then(pl.format(f"{words}: {{}}", column))
        for words, column in (("Accumulation VGPRs", "accum_vgpr_count"), ("SGPRs", "sgpr_count"))
    )
    return pl.concat_str(*told, separator="; ", ignore_nulls=True).replace("", None)


def _with_region(recording: Recording, rows: pl.DataFrame) -> pl.Series:
    """Facts, and the roctx range that the recording itself names for the work."""
    table = pl.DataFrame({"told": rows["told"], "region": recording.texts(rows["region_name_id"])})
    distinct = table.unique(maintain_order=True)
    text = pl.concat_str(
        pl.col("told").cast(pl.String),
        pl.format("roctx range: {}", pl.col("region").cast(pl.String)),
        separator="; ",
        ignore_nulls=True,
    )
    texts = distinct.with_columns(text.replace("", None).cast(NAME).alias("text"))
    return table.join(texts, on=["told", "region"], how="left", nulls_equal=True, maintain_order="left")["text"]
