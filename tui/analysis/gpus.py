"""GPUs: their properties and utilization."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import total
from tui.analysis.gpu_time.idle_gaps import busy_time
from tui.analysis.inputs.devices import device_facts
from tui.analysis.sessions import sessions_of_kernels_alone
from tui.model.columns import columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile


GPUS: Final = TableSpec(
    "gpus",
    "GPUs",
    (
        *columns("gpu_name", "session"),
        # Several GPUs of one name are distinguished by their numbers.
        replace(columns("device")[0], priority=2),
        *columns("gpu_activity"),
        replace(
            columns("busy_pct")[0],
            help="Busy time as a share of the span, from the session's first GPU work to its last; the dashboard and "
            "DLProf use wall time, which is at least as long.",
        ),
        *columns("busy_ns"),
        replace(columns("idle_ns")[0], help="Time of the span without work on this GPU."),
        *columns("gpu_ns", "kernel_ns", "copy_ns", "kernels_launched"),
        *columns("compute_capability", "sm_count", "memory_bytes", "memory_bandwidth", "shared_memory_per_sm_bytes"),
        *columns("registers_per_sm", "max_threads_per_sm", "span_ns", "facts_source", "vendor", "rank", "host"),
    ),
    key=("session", "device"),
    pinned="gpu_name",
    pinned_least=16,
)

RECORDED: Final = "recorded"
NONE_RECORDED: Final = "none recorded"


def gpus(profile: Profile, *, gpu: str | None = None) -> pl.DataFrame:
    """One row per GPU of each session that the session names or uses; those with work first.

    Columns: session, rank, host, device, gpu_name, those of `inputs.devices.device_facts`, gpu_activity (whether work
    of it is recorded, or none in a session that has work on other GPUs), kernels_launched, gpu_ns (summed durations of
    its work), kernel_ns, copy_ns (of which kernels and whole graphs, and copies and sets), busy_ns, idle_ns, busy_pct
    and span_ns (`gpu_time.intervals.busy_time`). All figures are null for a GPU without recorded work: the session
    names it, and nothing says that it was there to be used. A sum is null as well where none of the durations of such
    work is known, and copy_ns where the tool records kernels alone.

    Args:
        profile: Where to look.
        gpu: The name of the GPU, as the user gives it.
    """
    by = ("session", "device")
    is_kernel = (pl.col("kind") == "kernel") | (pl.col("kind") == "graph")
    work = (
        profile["activities"]
        .group_by(by)
        .agg(
            is_kernel.sum().cast(pl.Int64).alias("kernels_launched"),
            total().alias("gpu_ns"),
            _sum_of(is_kernel).alias("kernel_ns"),
            _sum_of(~is_kernel).alias("copy_ns"),
        )
    )
    tells_copies = ~pl.col("session").is_in(list(sessions_of_kernels_alone(profile)))
    has_work = pl.col("session").is_in(profile["activities"]["session"].unique().implode())
    is_used = pl.col("kernels_launched").is_not_null()
    busy = busy_time(profile)
    spans = busy.select("session", "span_ns").unique("session")
    return (
        device_facts(profile, gpu=gpu)
        .rename({"name": "gpu_name"})
        .join(profile["sessions"].select("session", "rank", "host"), on="session", how="left", maintain_order="left")
        .join(work, on=by, how="left", nulls_equal=True, maintain_order="left")
        .join(busy.select(*by, "busy_ns"), on=by, how="left", nulls_equal=True, maintain_order="left")
        .join(spans, on="session", how="left", maintain_order="left")
        .with_columns(
            pl.when(is_used).then(pl.lit(RECORDED)).when(has_work).then(pl.lit(NONE_RECORDED)).alias("gpu_activity"),
            pl.when(is_used).then("span_ns").alias("span_ns"),
            pl.when(tells_copies | (pl.col("copy_ns") > 0)).then("copy_ns").alias("copy_ns"),
        )
        .with_columns(
            (pl.col("span_ns") - pl.col("busy_ns")).alias("idle_ns"),
            pl.when(pl.col("span_ns") > 0).then(100 * pl.col("busy_ns") / pl.col("span_ns")).alias("busy_pct"),
        )
        .sort(pl.col("gpu_activity") == NONE_RECORDED, maintain_order=True, nulls_last=False)
        .select(column.name for column in GPUS.columns)
    )


def imbalance_pct(values: pl.Series) -> float | None:
    """How far apart figures are: 100 x (most - least) / mean; None where there are not two, or their mean is 0.

    >>> imbalance_pct(pl.Series([90, 110])), imbalance_pct(pl.Series([1])), imbalance_pct(pl.Series([0, 0]))
    (20.0, None, None)
    """
    known: list[float] = values.drop_nulls().cast(pl.Float64).to_list()
    if len(known) < 2 or not sum(known):
        return None
    return 100 * (max(known) - min(known)) * len(known) / sum(known)


def _sum_of(chosen: pl.Expr) -> pl.Expr:
    """Sum of the durations of some work: 0 where there is none of it, null where there is and no duration is known."""
    durations = pl.col("duration_ns").filter(chosen)
    return pl.when((durations.count() > 0) | (durations.len() == 0)).then(durations.sum())
