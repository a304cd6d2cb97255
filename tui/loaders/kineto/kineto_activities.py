"""GPU activities of a trace: kernels, memcpys and memsets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.correlation.launches import with_launch
from tui.loaders.kineto.event_roles import COLLECTIVE, GRID
from tui.loaders.kineto.events import map_names
from tui.model.names import short_name, without_descriptor
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.kineto.events import KinetoEvents


_COPY: Final = re.compile(r"Memcpy (\w+)(?: \((?:(\w[\w ]*?) -> (\w[\w ]*?)|[^()]*)\))?")
_OF_INTEL: Final = re.compile(r"([MHD])2([MHD])")
"""A direction as traces of Intel's GPUs have it; M is memory of the system, H such that the GPU reaches."""
_MEMSET: Final = re.compile(r"Memset(?: \(([\w ]+)\))?")
_LARGEST_RATE: Final = 1e15
"""Bytes per second; no memory is so fast, what says so divided by next to nothing."""


def activities_of(events: KinetoEvents, *, is_of_cuda: bool) -> pl.DataFrame:
    """Make ``activities`` of the GPU work of a trace, with the columns of `with_launch` and ``external_id``.

    Args:
        events: Of the trace.
        is_of_cuda: Whether copies and memsets are CUDA's.
    """
    named = plain_name if is_of_cuda else without_descriptor
    work = with_launch(_plausible_memory(events.gpu), events.calls)
    if events.calls["bytes"].count() or events.calls["grid_x"].count():
        work = with_facts_of_launches(work, events.calls)
    else:
        work = work.with_columns(dynamic_shared_bytes=pl.lit(None, pl.Int64))
    names = work["name"]
    return work.select(
        "kind",
        map_names(names, named).alias("name"),
        map_names(names, lambda name: _short(named(name))).alias("short_name"),
        "start_ns",
        "duration_ns",
        pl.col("device", "context").cast(pl.Int32, strict=False),
        "stream",
        pl.col(*GRID, "registers").cast(pl.Int32, strict=False),
        "dynamic_shared_bytes",
        "shared_bytes",
        pl.col("bytes").alias("size_bytes"),
        _rate().alias("throughput"),
        map_names(names, _copy_kind).alias("copy_kind"),
        map_names(names, lambda name: _memory(name, 2)).alias("src_memory"),
        map_names(names, lambda name: _memory(name, 3)).alias("dst_memory"),
        "correlation",
        pl.when(pl.col("graph_node") > 0).then("graph_node").alias("graph_node"),
        _arguments(work),
        "line",
        "launch_ns",
        "launch_pid",
        "launch_tid",
        "external_id",
    )


def plain_name(name: str) -> str:
    """What nvprof calls CUDA's copy or memset, so that all formats have one name for it; other names as they are.

    >>> plain_name("Memcpy HtoD (Pageable -> Device)"), plain_name("Memset (Device)"), plain_name("Memcpy M2D")
    ('[CUDA memcpy HtoD]', '[CUDA memset]', 'Memcpy M2D')
    """
    copy = _COPY.fullmatch(name)
    if copy is not None and not _OF_INTEL.fullmatch(copy[1]):
        return f"[CUDA memcpy {copy[1]}]"
    return "[CUDA memset]" if _MEMSET.fullmatch(name) else name


def _short(name: str) -> str:
    return name if _COPY.fullmatch(name) or _MEMSET.fullmatch(name) else short_name(name)


def _copy_kind(name: str) -> str | None:
    """The direction of a copy, as ``HtoD``.

    >>> _copy_kind("Memcpy DtoD (Device -> Device)"), _copy_kind("Memcpy M2D (Memory -> Device)")
    ('DtoD', 'HtoD')
    """
    copy = _COPY.fullmatch(name)
    return None if copy is None else _OF_INTEL.sub(_full_name, copy[1])


def _full_name(direction: re.Match[str]) -> str:
    source, target = ("D" if one == "D" else "H" for one in direction.groups())
    return f"{source}to{target}"


def _memory(name: str, group: int) -> str | None:
    """The memory that a copy comes from (group 2) or goes to (3), or that a memset writes."""
    copy = _COPY.fullmatch(name)
    if copy is not None:
        memory: str | None = copy[group]
    else:
        memset = _MEMSET.fullmatch(name) if group == 3 else None
        memory = None if memset is None else memset[1]
    return None if memory is None else memory.lower()


def _plausible_memory(gpu: pl.DataFrame) -> pl.DataFrame:
    """The rows with what cannot be true of them taken out."""
    return gpu.with_columns(
        pl.col("kind").cast(NAME),
        pl.when(pl.col("duration_ns") >= 0).then("duration_ns").alias("duration_ns"),
        pl.when(pl.col("correlation") >= 1).then("correlation").alias("correlation"),
        *launch_sizes(),
        *(
            pl.when(pl.col(name) >= 0).then(name).alias(name)
            for name in ("device", "context", "stream", "registers", "shared_bytes", "bytes")
        ),
    )


def _rate() -> pl.Expr:
    rate = pl.col("bandwidth") * 1e9
    return pl.when(rate.is_finite() & (rate >= 0) & (rate < _LARGEST_RATE)).then(rate)


def _arguments(work: pl.DataFrame) -> pl.Series:
    """What a collective operation is and works on, as ``key: value; ...``."""
    columns = [arg.column for arg in COLLECTIVE]
    told = work.select(columns).with_row_index("row").filter(pl.col("collective").is_not_null())
    distinct = told.select(columns).unique()
    titles = {arg.column: arg.keys[0].capitalize() for arg in COLLECTIVE}
    texts = [
        "; ".join(f"{titles[column]}: {value}" for column, value in row.items() if value not in (None, "", "[]"))
        for row in distinct.cast(pl.String).iter_rows(named=True)
    ]
    lines = told.join(
        distinct.with_columns(pl.Series("arguments", texts, dtype=pl.String).cast(NAME)), on=columns, nulls_equal=True
    ).select("row", "arguments")
    rows = pl.DataFrame({"row": pl.int_range(work.height, dtype=pl.UInt32, eager=True)})
    return rows.join(lines, on="row", how="left", maintain_order="left")["arguments"]


_GRID_IN_THREADS: Final = ("hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel")
"""The HIP launches whose grid counts threads, not blocks."""
_MAX_GRID_AXIS: Final = (1 << 31) - 1
"""The largest grid size along one axis that CUDA and HIP allow."""


def launch_sizes() -> list[pl.Expr]:
    """Grid and block columns; all three axes become null when one is outside the valid range."""
    return [
        pl.when(pl.all_horizontal(pl.col(axis).is_between(1, _MAX_GRID_AXIS) for axis in axes)).then(name).alias(name)
        for axes in (GRID[:3], GRID[3:])
        for name in axes
    ]


def with_facts_of_launches(work: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Fill grid, block, dynamic shared memory and bytes from the HIP call, where older AMD traces record them.

    Newer traces copy grid and block from the call to the kernel, so there too the grid may count threads.
    """
    axes = [pl.col(name) for name in GRID]
    launches = (
        calls.filter(pl.col("correlation") >= 1)
        .sort("start_ns", maintain_order=True)
        .unique("correlation", keep="first", maintain_order=True)
        .with_columns(launch_sizes())
        .select(
            "correlation",
            *(pl.col(name).alias(f"launch_{name}") for name in GRID),
            pl.col("name").cast(pl.String).is_in(_GRID_IN_THREADS).alias("grid_is_in_threads"),
            # A launch sets dynamic shared memory only; static shared memory is not recorded.
            pl.when(pl.col("shared_bytes") >= 0).then("shared_bytes").alias("dynamic_shared_bytes"),
            pl.when(pl.col("bytes") >= 0).then("bytes").alias("launch_bytes"),
        )
    )
    is_kernel = pl.col("kind") == "kernel"
    # A graph launch runs many kernels; its own grid belongs to none of them.
    is_single = pl.col("correlation").is_first_distinct() & pl.col("correlation").is_last_distinct()
    takes_launch_grid = is_kernel & is_single & pl.all_horizontal(axis.is_null() for axis in axes)
    work = work.join(launches, on="correlation", how="left", maintain_order="left").with_columns(
        pl.when(takes_launch_grid).then(f"launch_{name}").otherwise(name).alias(name) for name in GRID
    )
    return work.with_columns(
        *(
            pl.when(is_kernel & is_single & pl.col("grid_is_in_threads"))
            .then((pl.col(f"grid_{axis}") + pl.col(f"block_{axis}") - 1) // pl.col(f"block_{axis}"))
            .otherwise(f"grid_{axis}")
            .alias(f"grid_{axis}")
            for axis in "xyz"
        ),
        pl.when(is_kernel & is_single & pl.col("shared_bytes").is_null())
        .then("dynamic_shared_bytes")
        .alias("dynamic_shared_bytes"),
        pl.when(~is_kernel).then(pl.coalesce("bytes", "launch_bytes")).otherwise("bytes").alias("bytes"),
    )


def device_numbers(work: pl.DataFrame, calls: pl.DataFrame, listed: Sequence[int]) -> dict[int, int]:
    """Map agent numbers of AMD traces to the device numbers in ``deviceProperties``; empty where they agree.

    The runtime numbers CPUs and GPUs together: GPU 0 may be agent 2. A trace with grids on its launch calls uses agent
    numbers; they are matched to device numbers in ascending order.

    Args:
        work: The GPU work, with ``device``.
        calls: The API calls.
        listed: The numbers in ``deviceProperties``.
    """
    used = sorted(work["device"].unique().drop_nulls().to_list())
    is_agent = calls["grid_x"].count() > 0 or not set(used) <= set(listed)
    if not is_agent or len(used) > len(listed):
        return {}
    numbers = dict(zip(used, sorted(listed), strict=False))
    return {} if all(agent == number for agent, number in numbers.items()) else numbers
