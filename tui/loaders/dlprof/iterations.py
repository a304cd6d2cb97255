"""The iterations of a DLProf database.

DLProf divides a recording into iterations by a key op, and aggregates some of them. Both can be done again, so that a
database holds several aggregations; iterations are taken from the latest, which its maker made last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.dlprof.times import duration
from tui.loaders.linking.launches import iteration_at
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.collector import Collector
    from tui.loaders.dlprof.strings import Strings
    from tui.loaders.sqlite.database import Database

_LIST: Final = {"aggr_id": pl.Int64, "iter_value": pl.Int64, "start_time": pl.Int64, "stop_time": pl.Int64}
_OF_KERNELS: Final = {"aggr_id": pl.Int64, "read_only_kernel_id": pl.Int64, "iter_value": pl.Int64}


@dataclass(frozen=True, slots=True)
class Iterations:
    """The iterations of one aggregation."""

    aggregation: int | None
    """Its number in the database; None where there is none."""
    ranges: pl.DataFrame
    """One row per iteration, with columns of the frame ``ranges``, by start."""
    of_kernels: pl.DataFrame
    """Columns kernel_id and iteration: as DLProf assigned them."""
    source: str | None
    """What divided the recording, in words; None where there are no iterations."""

    def put(self, data: pl.DataFrame, at: str) -> pl.DataFrame:
        """Add ``iteration``: DLProf's own for kernels, else the one that the time in column ``at`` lies in."""
        by_time = iteration_at(self.ranges, data[at]) if self.ranges.height else pl.lit(None, pl.Int32)
        if "kernel_id" not in data.columns:
            return data.with_columns(by_time.alias("iteration"))
        return (
            data.with_columns(by_time.alias("by_time"))
            .join(self.of_kernels, on="kernel_id", how="left", maintain_order="left")
            .with_columns(pl.coalesce("iteration", "by_time").alias("iteration"))
        )


def read_iterations(database: Database, strings: Strings, collector: Collector) -> Iterations:
    """Find the iterations, and tell of what is odd about them."""
    listed = database.frame("iteration_list", _LIST).drop_nulls(("aggr_id", "iter_value"))
    numbers = _aggregations(listed, database)
    latest = numbers[-1] if numbers else None
    of_latest = pl.col("aggr_id") == pl.lit(latest, pl.Int64)
    if len(numbers) > 1:
        collector.issue(
            "info",
            None,
            f"aggregations {', '.join(map(str, numbers[:8]))}",
            f"the database holds {len(numbers)} aggregations; iterations are those of the latest, number {latest}",
        )
    rows = listed.filter(of_latest)
    ranges = (
        rows.select(
            pl.format("iteration {}", "iter_value").cast(NAME).alias("name"),
            pl.lit("DLProf", NAME).alias("domain"),
            pl.col("start_time").alias("start_ns"),
            duration("start_time", "stop_time"),
            pl.lit(0, pl.Int32).alias("depth"),
            pl.col("iter_value").cast(pl.Int32, strict=False).alias("iteration"),
        )
        .unique("iteration", keep="first", maintain_order=True)
        .drop_nulls()
        .sort("start_ns", maintain_order=True)
    )
    if ranges.height < rows.height:
        collector.issue(
            "warning",
            None,
            f"{rows.height - ranges.height} of {rows.height} iterations",
            "they have no times that can be true, or a number that another has too; they were left out",
        )
    of_kernels = (
        database.frame("kernel_iteration_node", _OF_KERNELS)
        .filter(of_latest)
        .select(
            pl.col("read_only_kernel_id").alias("kernel_id"),
            pl.col("iter_value").cast(pl.Int32, strict=False).alias("iteration"),
        )
        .unique("kernel_id", keep="first", maintain_order=True)
    )
    key = database.frame("iteration_key", {"aggr_id": pl.Int64, "key_node_id": pl.Int64})
    key_id = key.filter(of_latest)["key_node_id"].to_list()[:1]
    any_found = bool(ranges.height or of_kernels.height)
    source = _source(ranges.height, strings.text(key_id[0]) if key_id else None) if any_found else None
    return Iterations(latest, ranges, of_kernels, source)


def _aggregations(listed: pl.DataFrame, database: Database) -> list[int]:
    """Their numbers, the latest last."""
    summed = database.frame("model_summary", {"aggr_id": pl.Int64})
    return sorted(pl.concat([listed["aggr_id"], summed["aggr_id"]]).drop_nulls().unique().to_list())


def _source(count: int, key_op: str | None) -> str:
    if key_op is not None:
        return f"DLProf's key op {key_op}"
    return "DLProf, which found no key op to divide by" if count == 1 else "DLProf"
