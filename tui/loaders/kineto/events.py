"""The events of a trace by what they are, whichever version of PyTorch wrote them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.kineto.categories import matching, whole_numbers
from tui.loaders.kineto.order import in_order, outer_first
from tui.loaders.kineto.roles import ROLES, Era
from tui.loaders.linking.one_recording import of_one_recording
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.chrome.trace import Trace
    from tui.loaders.kineto.roles import Roles

STEP: Final = "ProfilerStep#"
"""How the annotation of a step of PyTorch's own profiler begins."""

_RANGE_AMONG_OPERATORS: Final = rf"^(?:{STEP}\d|Optimizer\.\w+#|enumerate\(DataLoader\)#)"
"""Annotations that the oldest versions put among the operators."""


@dataclass(frozen=True, slots=True)
class Events:
    """A trace, sorted out.

    Every frame has those columns of `tui.loaders.chrome.trace.Trace.complete` that its events need, with pid and tid as
    Int64 (null where they are no numbers).
    """

    era: Era
    ops: pl.DataFrame
    """By start, those around others before them."""
    ranges: pl.DataFrame
    """Annotations of the user and of PyTorch itself, in the same order."""
    python: pl.DataFrame
    """Python functions and modules, in the same order."""
    calls: pl.DataFrame
    """CUDA or HIP API calls, in the order of the file."""
    gpu: pl.DataFrame
    """Work of the GPU, with its ``kind``; of each kind in the order of the file."""
    overhead: pl.DataFrame
    """Work of the profiler itself."""
    far: int
    """How many events were left out because their time is far from that of all others."""
    begin_ns: int
    """What 0 of the start times is in those of the trace."""


def sort_out(trace: Trace, roles: Roles, *, called: str) -> Events:
    """Put the events of a trace into order.

    Args:
        trace: Of which ``roles`` has told the events apart. They are taken out of it: nothing else takes more memory.
        roles: What knows them all.
        called: What messages call the file.

    Raises:
        ProftuiError: The times are not those of a recording.
    """
    era = roles.era(trace.metadata)
    labels = _gpu_labels(trace.names)
    parts = {role: _with_numbers(trace.parts.pop(role)) for role in ROLES}
    known = sum(rows.height for rows in parts.values())
    parts, begin_ns = of_one_recording(parts, called=called)
    far = known - sum(rows.height for rows in parts.values())
    if era is Era.FIRST:
        is_range = matching(parts["op"]["name"], _RANGE_AMONG_OPERATORS)
        parts["range"] = pl.concat([parts["range"], parts["op"].filter(is_range).select(parts["range"].columns)])
        parts["op"] = parts["op"].filter(~is_range)
    work = [parts.pop(kind).with_columns(kind=pl.lit(kind, NAME)) for kind in ("kernel", "memcpy", "memset")]
    return Events(
        era=era,
        ops=_outer_first(parts, "op"),
        ranges=_outer_first(parts, "range"),
        python=_outer_first(parts, "python"),
        calls=parts["call"],
        gpu=_placed(pl.concat(work), labels),
        overhead=parts["overhead"],
        far=far,
        begin_ns=begin_ns,
    )


def _with_numbers(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(whole_numbers(rows["pid"]), whole_numbers(rows["tid"]))


def _gpu_labels(names: pl.DataFrame) -> pl.DataFrame:
    """The GPU that each process of the trace stands for, where it is labelled as one: gpu and pid."""
    return (
        names.filter(pl.col("name").cast(pl.String) == "process_labels")
        .select(
            pl.col("pid").cast(pl.String).cast(pl.Int64, strict=False),
            gpu=pl.col("value").str.extract(r"^GPU (\d{1,4})$").cast(pl.Int64),
        )
        .drop_nulls()
        .unique("pid", keep="first")
    )


def _placed(gpu: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """Fill device and stream of work whose arguments are lost: its process and thread stand for them."""
    return (
        gpu.join(labels, on="pid", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("device", "gpu").alias("device"),
            pl.when(pl.col("stream").is_null() & pl.col("gpu").is_not_null())
            .then("tid")
            .otherwise("stream")
            .alias("stream"),
        )
        .drop("gpu")
    )


def _outer_first(parts: dict[str, pl.DataFrame], role: str) -> pl.DataFrame:
    """The rows of a role, which are taken out, sorted so that one that lies within another follows it."""
    order = outer_first(parts[role])
    return in_order(parts.pop(role).get_columns(), order)
