"""A small table of kernels and copies for the tests of queries."""

from __future__ import annotations

import math

import polars as pl

from tui.model.columns import Column, ColumnKind, columns
from tui.model.table_spec import TableSpec

COLUMNS = (
    *columns(
        "name",
        "kind",
        "calls",
        "total_ns",
        "time_pct",
        "uses_tensor_core",
        "device",
        "stream",
        "size_bytes",
        "throughput",
    ),
    Column("grid", "Grid Size", ColumnKind.TEXT, "Blocks in x, y and z."),
)

TABLE = TableSpec("kernels", "Kernels", COLUMNS, ("name",), weight="total_ns")

UNITS = {"total_ns": "ms", "size_bytes": "", "throughput": ""}

# id, name, kind, calls, total_ns, time_pct, tc, device, stream, size, throughput, grid
_ROWS = [
    (0, "volta_sgemm_128x64_tn", "kernel", 3, 6_000_000, 60.0, False, 0, 7, None, None, "(128 1 1)"),
    (
        1,
        "void relu_kernel<float, 4>(int, float*)",
        "kernel",
        10,
        1_500_000,
        15.0,
        False,
        0,
        7,
        None,
        None,
        "(64 128 1)",
    ),
    (2, "volta_h884gemm_64x64_ldg8_nn", "kernel", 2, 1_000_000, 10.0, True, 1, 14, None, None, "(128 2 1)"),
    (3, "Conv2D_Forward", "kernel", 1, 1_000_001, 10.0, None, None, 14, None, None, None),
    (4, "[CUDA memcpy HtoD]", "memcpy", 20, 499_999, 5.0, None, 0, 7, 4_194_304, 1.5e9, None),
    (5, "[CUDA memset]", "memset", 4, 0, 0.0, None, 1, None, 4_000_000, math.nan, None),
    (6, None, None, None, None, None, None, None, None, 0, math.inf, None),
]

_SCHEMA = {
    "id": pl.UInt32,
    "name": pl.Categorical(),
    "kind": pl.Categorical(),
    "calls": pl.Int64,
    "total_ns": pl.Int64,
    "time_pct": pl.Float64,
    "uses_tensor_core": pl.Boolean,
    "device": pl.Int32,
    "stream": pl.UInt64,
    "size_bytes": pl.Int64,
    "throughput": pl.Float64,
    "grid": pl.String,
}

FRAME = pl.DataFrame(_ROWS, schema=_SCHEMA, orient="row")
"""The names and kinds are categories, as in the model's frames."""

STRINGS = FRAME.with_columns(pl.col("name", "kind").cast(pl.String))
"""The same with texts as strings."""
