"""Parses the cells of each report: times to nanoseconds, sizes to bytes."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.text.cell_values import by_value

if TYPE_CHECKING:
    from tui.loaders.nsys_stats.stats_reports import StatsHeader
    from tui.loaders.text.cell_values import CellValues

BYTES_PER_UNIT: Final = MappingProxyType(
    {
        **{"b": 1, "bytes": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12},
        **{"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30},
    }
)
"""Nsight Systems counts thousands in KB and MB."""

_SIZE_WITHOUT_UNIT: Final = 1 << 10
"""The oldest versions print sums of sizes in KiB and do not say so; their trace prints bytes."""

_MOST_DECIMALS: Final = 9
"""Of seconds; more would be finer than a nanosecond."""

_SUMMED: Final = MappingProxyType(
    {"total_ns": "totaltime", "avg_ns": "avg", "median_ns": "med", "min_ns": "min", "max_ns": "max", "std_ns": "stddev"}
)
"""Columns of ``summary``, and those of the reports that sum times by name."""

_DEVICE_NUMBER: Final = re.compile(r"(?P<name>.*\S) \((?P<number>[0-9]{1,4})\)")


def bytes_per(unit: str | None) -> int | None:
    """Bytes in a unit of sizes or, with ``/s`` or ``ps`` behind it, of rates."""
    return BYTES_PER_UNIT.get(re.sub(r"(?:/s|ps)$", "", (unit or "").lower()))


def device_number(text: str) -> tuple[str, int | None]:
    """Name and number of a device as nsys prints it.

    >>> device_number("Tesla V100-PCIE-32GB (0)")
    ('Tesla V100-PCIE-32GB', 0)
    """
    match = _DEVICE_NUMBER.fullmatch(text)
    return (match["name"], int(match["number"])) if match else (text, None)


def read_rows(report: str, header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """The rows of a report as numbers; the columns depend on the report."""
    if report == "gpu_trace":
        return _gpu_trace(header, cells)
    if report == "api_trace":
        return _api_trace(header, cells)
    if report == "kern_exec_trace":
        return _kern_exec_trace(header, cells)
    if report == "kern_exec_sum":
        return _kern_exec_sum(header, cells)
    if report in ("nvtx_pushpop_trace", "nvtx_gpu_proj_trace"):
        return _nvtx_trace(report, header, cells)
    if report == "nvtx_gpu_proj_sum":
        return _nvtx_gpu_proj_sum(header, cells)
    if report == "nvtx_kern_sum":
        return _nvtx_kern_sum(header, cells)
    if report == "mem_size_sum":
        return _mem_size_sum(header, cells)
    return _sum(header, cells)


def _times(header: StatsHeader, cells: CellValues, **columns: str) -> dict[str, pl.Series]:
    return {name: cells.time_ns(column, header.unit(column)) for name, column in columns.items()}


def _sum(header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Columns of ``summary``, and category where there is one."""
    name = next(column for column in ("name", "operation", "range") if column in cells)
    calls = next(column for column in ("instances", "numcalls", "count") if column in cells)
    return pl.DataFrame(
        {
            "name": cells.name(name),
            "category": cells.text("category"),
            "calls": cells.whole(calls),
            **_times(header, cells, **_SUMMED),
            "time_pct": cells.number("time"),
            "line": cells.line,
        }
    )


def _nvtx_kern_sum(header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Kernels within each NVTX range: columns of ``summary``."""
    return pl.DataFrame(
        {
            "name": cells.name("kernelname"),
            "range": cells.name("nvtxrange"),
            "calls": cells.whole("kerninst"),
            **_times(header, cells, **_SUMMED),
            "line": cells.line,
        }
    )


def _nvtx_gpu_proj_sum(header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """NVTX ranges, their own time (total_ns) and that of the GPU work launched in them (projected_ns)."""
    return pl.DataFrame(
        {
            "name": cells.name("range"),
            "calls": cells.whole("rangeinstances"),
            **_times(header, cells, total_ns="totalrangetime", projected_ns="totalprojtime"),
            "line": cells.line,
        }
    )


def _mem_size_sum(header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Sizes of copies and memsets by name, in bytes."""
    unit = header.unit("total")
    factor = _SIZE_WITHOUT_UNIT if unit is None else bytes_per(unit)
    sizes = {
        f"{name}_bytes": cells.number(name) * factor if factor else None for name in ("total", "avg", "min", "max")
    }
    name = "operation" if "operation" in cells else "name"
    return pl.DataFrame({"name": cells.name(name), "calls": cells.whole("count"), **sizes, "line": cells.line})


def _shape(cells: CellValues, column: str, prefix: str) -> dict[str, pl.Series]:
    """The three numbers of a cell as ``  22    1    1``."""
    parts = cells.text(column).str.extract_all(r"[0-9]+")
    whole = parts.set(parts.list.len() != 3, None) if (parts.list.len() != 3).any() else parts
    return {
        f"{prefix}_{axis}": whole.list.get(i, null_on_oob=True).cast(pl.Int32, strict=False)
        for i, axis in enumerate("xyz")
    }


def _gpu_trace(header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Columns of ``activities``; device is text, shared memory and sizes are as rounded as they are printed."""
    wholes = {
        f"{shape}_{axis}": cells.whole(f"{shape}{axis}", pl.Int32()) for shape in ("grid", "block") for axis in "xyz"
    }
    sizes = {
        name: _size(header, cells, column)
        for name, column in (
            ("static_shared_bytes", "stcsmem"),
            ("dynamic_shared_bytes", "dymsmem"),
            ("size_bytes", "bytes"),
        )
    }
    rate = bytes_per(header.unit("throughput"))
    decimals = min(cells.decimals("start"), _MOST_DECIMALS)
    return pl.DataFrame(
        {
            "name": cells.name("name"),
            **_times(header, cells, start_ns="start", duration_ns="duration"),
            "device": cells.name("device"),
            "context": cells.whole("ctx", pl.Int32()),
            "stream": cells.whole("strm"),
            **wholes,
            "registers": cells.whole("reg/trd", pl.Int32()),
            **sizes,
            "throughput": cells.number("throughput") * (rate or 1),
            "src_memory": cells.name("srcmemkd"),
            "dst_memory": cells.name("dstmemkd"),
            "correlation": cells.whole("correlationid"),
            "line": cells.line,
            "decimals": pl.Series([decimals], dtype=pl.Int8).new_from_index(0, cells.cells.height),
        }
    )


def _size(header: StatsHeader, cells: CellValues, column: str) -> pl.Series:
    unit = header.unit(column)
    factor = 1 if unit is None else bytes_per(unit)
    return cells.scaled(column, factor) if factor else cells.whole(column).clear(cells.cells.height)


def _api_trace(header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Columns of ``api_calls``."""
    return pl.DataFrame(
        {
            "name": cells.name("name"),
            **_times(header, cells, start_ns="start", duration_ns="duration"),
            "pid": cells.whole("pid"),
            "tid": cells.whole("tid"),
            "correlation": cells.whole("correlationid"),
            "line": cells.line,
        }
    )


def _kern_exec_trace(header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """A launch, its wait and its kernel in each row."""
    return pl.DataFrame(
        {
            **_times(
                header,
                cells,
                api_start_ns="apistart",
                api_ns="apidur",
                queue_ns="qdur",
                start_ns="kernelstart",
                duration_ns="kerneldur",
            ),
            "pid": cells.whole("pid"),
            "tid": cells.whole("tid"),
            "device": cells.whole("devid", pl.Int32()),
            "api": cells.name("apifunction"),
            "name": cells.name("kernelname"),
            **_shape(cells, "gridxyz", "grid"),
            **_shape(cells, "blockxyz", "block"),
            "line": cells.line,
        }
    )


def _kern_exec_sum(header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Launches by thread, call and kernel: how long the calls, the waits and the kernels took on average."""
    return pl.DataFrame(
        {
            "name": cells.name("kernelname"),
            "api": cells.name("apiname"),
            "calls": cells.whole("count"),
            "queued": cells.whole("qcount"),
            **_times(
                header,
                cells,
                api_avg_ns="aavg",
                queue_avg_ns="qavg",
                queue_max_ns="qmax",
                avg_ns="kavg",
                median_ns="kmed",
                min_ns="kmin",
                max_ns="kmax",
                std_ns="kstddev",
            ),
            "line": cells.line,
        }
    )


def _nvtx_trace(report: str, header: StatsHeader, cells: CellValues) -> pl.DataFrame:
    """Columns of ``ranges``; those of the default domain lose the colon that newer versions put in front."""
    begin, length = ("start", "duration") if report == "nvtx_pushpop_trace" else ("origstart", "origduration")
    names = cells.text("name")
    return pl.DataFrame(
        {
            "name": without_domain(names),
            **_times(header, cells, start_ns=begin, duration_ns=length),
            "pid": cells.whole("pid"),
            "tid": cells.whole("tid"),
            "depth": cells.whole("lvl", pl.Int32()),
            "line": cells.line,
        }
    )


def without_domain(names: pl.Series) -> pl.Series:
    """Names of NVTX ranges, without the colon of newer versions that separates an empty domain."""
    return by_value(names, lambda name: name[1:] if name[:1] == ":" != name[1:2] else name, pl.String())
