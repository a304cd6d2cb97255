"""What ran on the GPU, as XLA's trace tells it: launch configurations and sizes stand in texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.kernel_names import with_short_names
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.xla.events import Events

_MEMORY: Final = ("pinned", "pageable", "device", "array", "managed")
"""Kinds of memory that are passed on; the trace says ``unknown``, too."""


def activities_of(events: Events) -> pl.DataFrame:
    """Columns of the model, and those that ops are found by: hlo_module, hlo_op, op_path, tf_op, source, scope."""
    rows = events.gpu
    rows = _with_details(rows, "kernel_details", _kernel_columns())
    rows = _with_details(rows, "memcpy_details", _copy_columns())
    rows = _with_details(rows, "memset_details", _memset_columns())
    name = pl.col("name").cast(pl.String)
    kind = (
        pl.when(pl.col("kernel_details").is_not_null())
        .then(pl.lit("kernel"))
        .when(pl.col("memcpy_details").is_not_null() | name.str.starts_with("Memcpy"))
        .then(pl.lit("memcpy"))
        .when(pl.col("memset_details").is_not_null() | name.str.starts_with("Memset"))
        .then(pl.lit("memset"))
        .otherwise(pl.lit("kernel"))
    )
    ends = ((name.str.extract(r"^Memcpy([HDP])2([HDP])", part)) for part in (1, 2))
    return with_short_names(rows).select(
        kind.cast(NAME).alias("kind"),
        "name",
        "short_name",
        "start_ns",
        "duration_ns",
        "device",
        pl.col("context_id").cast(pl.String).str.extract(r"(\d{1,9})$", 1).cast(pl.Int32).alias("context"),
        "stream",
        *(f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz"),
        "registers",
        "static_shared_bytes",
        "dynamic_shared_bytes",
        pl.coalesce("copied_bytes", "set_bytes").alias("size_bytes"),
        pl.concat_str([*ends], separator="to").cast(NAME).alias("copy_kind"),
        "src_memory",
        pl.coalesce("dst_memory", "set_memory").alias("dst_memory"),
        "correlation",
        "graph_node",
        pl.when(pl.col("registers").is_null()).then("kernel_details").alias("arguments"),
        "line",
        *("hlo_module", "hlo_op", "op_path", "tf_op", "source", "scope"),
    )


def _with_details(rows: pl.DataFrame, details: str, columns: list[pl.Expr]) -> pl.DataFrame:
    """Add what a text says as columns; each distinct text is read once."""
    texts = rows.select(details).drop_nulls().unique()
    read = texts.with_columns(pl.col(details).cast(pl.String).alias("text")).select(details, *columns)
    return rows.join(read, on=details, how="left", maintain_order="left")


def _kernel_columns() -> list[pl.Expr]:
    """Launch configuration of a text like ``regs:32 static_shared:0 dynamic_shared:0 grid:12,1,1 block:256,1,1``.

    Where it has no registers it is of an AMD GPU, and whether its grid counts blocks or threads is not documented.
    """
    registers = _number("regs", pl.Int32)
    is_clear = registers.is_not_null()
    axes = [
        pl.when(is_clear)
        .then(pl.col("text").str.extract(rf"\b{shape}:(\d+),(\d+),(\d+)", place).cast(pl.Int32, strict=False))
        .alias(f"{shape}_{axis}")
        for shape in ("grid", "block")
        for place, axis in enumerate("xyz", 1)
    ]
    return [
        registers.alias("registers"),
        _number("static_shared", pl.Int64).alias("static_shared_bytes"),
        _number("dynamic_shared", pl.Int64).alias("dynamic_shared_bytes"),
        *axes,
    ]


def _copy_columns() -> list[pl.Expr]:
    """Size and memory of a text like ``kind_src:pinned kind_dst:device size:16384 dest:0 async:1``."""
    return [
        _number("size", pl.Int64).alias("copied_bytes"),
        _memory("kind_src").alias("src_memory"),
        _memory("kind_dst").alias("dst_memory"),
    ]


def _memset_columns() -> list[pl.Expr]:
    """Size and memory of a text like ``kind:device num_bytes:1216512 async:1``."""
    return [_number("num_bytes", pl.Int64).alias("set_bytes"), _memory("kind").alias("set_memory")]


def _number(key: str, dtype: type[pl.DataType]) -> pl.Expr:
    return pl.col("text").str.extract(rf"\b{key}:(\d+)", 1).cast(dtype, strict=False)


def _memory(key: str) -> pl.Expr:
    found = pl.col("text").str.extract(rf"\b{key}:(\w+)", 1).str.to_lowercase()
    return pl.when(found.is_in(_MEMORY)).then(found).cast(NAME)
