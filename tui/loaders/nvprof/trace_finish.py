"""What the cells of a trace mean: kinds, devices, and whether sizes count 1024 or 1000 bytes to the KB."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import polars as pl
import polars.selectors as cs

from tui.model.compact import compact
from tui.model.names import kind_of, short_name
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.collector import Collector

_DEVICE: Final = re.compile(r"(?P<name>.*\S) \((?P<device>\d{1,4})(?P<end>\))?")
_NUMBER: Final = re.compile(r"\d{1,4}")
_COPY: Final = re.compile(r"\[(?:CUDA|Unified Memory) [Mm]emcpy (\w+)\]")

UNKNOWN: Final = -1
"""Stands for null in whole numbers while a trace is read, as NaN does in others."""

_BASES: Final = (1024, 1000)
_NEAR: Final = 0.008
"""A base is meant where sizes over durations come so near to it: 1024 and 1000 lie three times as far apart."""
_LARGEST: Final = float(2**62)


def activities_of(
    rows: pl.DataFrame, codes: npt.NDArray[np.int32], cells: pl.DataFrame, collector: Collector
) -> pl.DataFrame:
    """The ``activities`` of a table.

    Args:
        rows: line, start_ns, duration_ns, correlation.
        codes: For each row, the row of ``cells`` that belongs to it.
        cells: Columns of `tui.loaders.nvprof.trace_cells.CELLS`.
        collector: Told of devices, and of what had to be assumed.
    """
    first_line = int(rows["line"][0])
    cells = cells.with_columns(
        pl.when(cs.integer() != UNKNOWN).then(cs.integer()).name.keep(),
        cs.float().fill_nan(None),
    )
    base = _base(rows, codes, cells, collector)
    names = cells["name"].unique()
    known = cells.lazy().select(
        # Of rows whose name is lost, only kernels are kept: their launch configuration shows what they are.
        kind=_mapped("name", names, kind_of).fill_null(pl.lit("kernel", NAME)),
        name="name",
        short_name=_mapped("name", names, short_name),
        device=_devices(cells, first_line, collector),
        context="context",
        stream="stream",
        grid_x="grid_x",
        grid_y="grid_y",
        grid_z="grid_z",
        block_x="block_x",
        block_y="block_y",
        block_z="block_z",
        registers="registers",
        static_shared_bytes=_bytes("static", base),
        dynamic_shared_bytes=_bytes("dynamic", base),
        size_bytes=_bytes("size", base),
        throughput=_in_bytes("throughput", base),
        copy_kind=_mapped("name", names, _copy_kind),
        src_memory="src_memory",
        dst_memory="dst_memory",
    )
    read = known.collect()
    if len(codes) != read.height or not np.array_equal(codes, np.arange(len(codes))):
        # What all cells say alike need not be gathered.
        read = compact(read, 1)[codes]
    return pl.concat((rows, read), how="horizontal")


def _mapped(column: str, values: pl.Series, function: Callable[[str], str | None]) -> pl.Expr:
    """A categorical column, each of its values replaced by what a function says of it."""
    texts = values.cast(pl.String)
    replaced = pl.Series([None if text is None else function(text) for text in texts], dtype=pl.String).cast(NAME)
    return pl.col(column).replace_strict(values, replaced, default=None, return_dtype=NAME)


def _copy_kind(name: str) -> str | None:
    match = _COPY.fullmatch(name)
    return match[1] if match else None


def _in_bytes(column: str, base: int) -> pl.Expr:
    return pl.col(column) * pl.lit(base, pl.Float64).pow(pl.col(f"{column}_power"))


def _bytes(column: str, base: int) -> pl.Expr:
    value = _in_bytes(column, base).round(mode="half_to_even")
    return pl.when(value < _LARGEST).then(value).cast(pl.Int64)


def _base(rows: pl.DataFrame, codes: npt.NDArray[np.int32], cells: pl.DataFrame, collector: Collector) -> int:
    """Tell 1024 from 1000 by rows whose size and rate have different units: size / duration = rate."""
    telling = cells.with_row_index("code").filter(
        pl.col("size") > 0, pl.col("throughput") > 0, pl.col("size_power") != pl.col("throughput_power")
    )
    if telling.is_empty():
        return _BASES[0]
    # Some thousand rows are enough to tell; a log of copies has millions.
    is_telling = np.zeros(cells.height, np.bool_)
    is_telling[telling["code"]] = True
    places = np.flatnonzero(is_telling[codes])[:4096]
    power = pl.col("throughput_power") - pl.col("size_power")
    ratio = pl.col("size") / (pl.col("duration_ns") * 1e-9) / pl.col("throughput")
    found = (
        rows[places]
        .with_columns(code=pl.Series(codes[places], dtype=pl.UInt32))
        .filter(pl.col("duration_ns") > 0)
        .join(telling, on="code", how="left", maintain_order="left")
        .select("line", base=ratio.pow(1 / power.cast(pl.Float64)))
    )
    binary, decimal = (found.filter((pl.col("base") / base - 1).abs() < _NEAR) for base in _BASES)
    if decimal.is_empty() or binary.height >= 9 * decimal.height:
        return _BASES[0]
    is_decimal = decimal.height >= 9 * binary.height
    collector.issue(
        "info",
        int(decimal["line"][0]),
        "",
        "KB, MB and GB count 1000 in this trace (size / duration = throughput), as in nvprof's oldest versions"
        if is_decimal
        else f"size / duration = throughput holds with KB, MB and GB of 1000 in {decimal.height} rows, with 1024 in "
        f"{binary.height}; 1024 is taken",
    )
    return _BASES[is_decimal]


def _devices(cells: pl.DataFrame, first_line: int, collector: Collector) -> pl.Expr:
    """The number of each row's device, and their names to the collector.

    The device cell is cut at 15 characters, the number with it: where all rows name one GPU and one context, and no
    copy goes from one GPU to another, the only GPU is number 0; else nothing tells GPUs of one model apart. The oldest
    versions print the number alone.
    """
    used = cells.filter(pl.col("device").is_not_null()).select("device", "context").unique()
    texts = used["device"].unique()
    names = [text for text in texts.cast(pl.String).sort() if not text.startswith("CPU")]
    numbers: dict[str, int] = {}
    clipped = []
    for text in names:
        match = _DEVICE.fullmatch(text)
        # What follows the digits of "(1" may be cut off too; no number goes on after a 0.
        if match is not None and (match["end"] or match["device"] == "0"):
            numbers[text] = int(match["device"])
            collector.add_device(numbers[text], match["name"])
        elif _NUMBER.fullmatch(text):
            numbers[text] = int(text)
        else:
            clipped.append(text)
    if clipped:
        contexts = (
            used.filter(~pl.col("device").cast(pl.String).str.starts_with("CPU"))["context"].drop_nulls().n_unique()
        )
        peers = cells["name"].cast(pl.String).str.contains("PtoP", literal=True).any()
        single = len(names) == 1 and contexts <= 1 and not peers
        if single:
            numbers[clipped[0]] = 0
            collector.add_device(0, clipped[0])
        outcome = "it is taken as device 0: the trace names one GPU and one context" if single else "it stays unknown"
        collector.issue("info", first_line, clipped[0], f"nvprof cut the device's number off; {outcome}")
    known = pl.Series([numbers.get(text) for text in texts.cast(pl.String)], dtype=pl.Int32)
    if texts.is_empty():
        return pl.lit(None, pl.Int32)
    return pl.col("device").replace_strict(texts, known, default=None, return_dtype=pl.Int32)
