"""CUPTI records, as NVIDIA profilers store them: enumerations, callback names, and overhead."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.loaders.collector import Collector


COPY_KINDS: Final = MappingProxyType(
    {
        1: "HtoD",
        2: "DtoH",
        3: "HtoA",
        4: "AtoH",
        5: "AtoA",
        6: "AtoD",
        7: "DtoA",
        8: "DtoD",
        9: "HtoH",
        10: "PtoP",
    }
)
"""Directions of copies: host, device, array, peer."""

MEMORY_KINDS: Final = MappingProxyType(
    {
        1: "pageable",
        2: "pinned",
        3: "device",
        4: "array",
        5: "managed",
        6: "device static",
        7: "managed static",
    }
)

UNIFIED_MEMORY: Final = MappingProxyType(
    {
        1: "[Unified Memory Memcpy HtoD]",
        2: "[Unified Memory Memcpy DtoH]",
        3: "[Unified Memory CPU page faults]",
        4: "[Unified Memory GPU page faults]",
        5: "[Unified Memory thrashing]",
        6: "[Unified Memory throttling]",
        7: "[Unified Memory remote map]",
        8: "[Unified Memory Memcpy DtoD]",
    }
)
"""Counters of unified memory, with their names in nvprof's traces."""


@cache
def call_names(api: str) -> Mapping[int, str]:
    """Return names of calls by their callback number.

    Args:
        api: runtime or driver.

    >>> call_names("runtime")[211], call_names("driver")[307]
    ('cudaLaunchKernel', 'cuLaunchKernel')
    """
    tables = tomllib.loads(files("tui.data").joinpath("cupti_callbacks.toml").read_text("utf-8"))
    return MappingProxyType({int(number): name for number, name in tables[api].items()})


TOTAL_OVERHEAD: Final = "overhead"
"""The section of the profiler's overhead over the whole recording."""
OVERHEAD_DURING_WORK: Final = "overhead during GPU work"
"""The section of the overhead from the first to the last GPU work, overlaps counted once."""
CUDA_OVERHEAD: Final = "overhead of CUDA"
"""The section of overhead of the CUDA driver, which CUPTI records in the same table."""

_DRIVER_OVERHEAD: Final = r"(?i)lazy function loading|module loading|driver (?:jit )?compiler|command buffer full"


def add_overhead(rows: pl.DataFrame, work: pl.DataFrame, tool: str, collector: Collector) -> None:
    """Add the duration of each kind of overhead to the tool figures of a session.

    Args:
        rows: The overhead: ``name``, ``start_ns``, ``duration_ns``, ``line``; rows without one of the first three
            are ignored.
        work: The GPU work of the session: ``start_ns``, ``duration_ns``.
        tool: The profiler that recorded it.
        collector: Gets the figures.
    """
    rows = rows.select(pl.col("name").cast(pl.String), "start_ns", "duration_ns", "line").drop_nulls(
        ["name", "start_ns", "duration_ns"]
    )
    is_driver = pl.col("name").str.contains(_DRIVER_OVERHEAD)
    profiler_rows = rows.filter(~is_driver)
    rows_by_section = {
        TOTAL_OVERHEAD: profiler_rows,
        OVERHEAD_DURING_WORK: _remove_overlaps(_clip_to_work(profiler_rows, work)),
        CUDA_OVERHEAD: rows.filter(is_driver),
    }
    for section, section_rows in rows_by_section.items():
        sums = section_rows.group_by("name", maintain_order=True).agg(pl.col("duration_ns").sum(), pl.col("line").min())
        for name, total_ns, line in sums.iter_rows():
            figure = {"tool": tool, "section": section, "name": name, "value": float(total_ns), "unit": "ns"}
            collector.add("tool_figures", {**figure, "line": line})


def _clip_to_work(rows: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """Return the rows, clipped to the time from the first to the last GPU work."""
    timed = work.select("start_ns", end_ns=pl.col("start_ns") + pl.col("duration_ns")).drop_nulls()
    if timed.is_empty():
        return rows.clear()
    begin = pl.col("start_ns").clip(timed["start_ns"].min())  # type: ignore[arg-type]
    end = (pl.col("start_ns") + pl.col("duration_ns")).clip(upper_bound=timed["end_ns"].max())  # type: ignore[arg-type]
    return rows.with_columns(begin, (end - begin).alias("duration_ns")).filter(pl.col("duration_ns") > 0)


def _remove_overlaps(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows without time that an earlier row covers."""
    rows = rows.sort("start_ns", pl.col("duration_ns"), descending=[False, True], maintain_order=True)
    end = pl.col("start_ns") + pl.col("duration_ns")
    begin = pl.max_horizontal("start_ns", end.cum_max().shift(1))
    return rows.with_columns(begin, (end - begin).alias("duration_ns")).filter(pl.col("duration_ns") > 0)
