"""The events of a trace by what they are, whichever version of PyTorch wrote them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.loaders.kineto.categories import matching
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.loaders.chrome.trace import Trace

STEP: Final = "ProfilerStep#"
"""How the annotation of a step of PyTorch's own profiler begins."""

_ROLES: Final = {
    "cpu_op": "op",
    "operator": "op",
    "user_annotation": "range",
    "python_function": "python",
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "overhead": "overhead",
}
_CALL: Final = re.compile(r"(?:\w+_)?(?:runtime|driver)")
_RANGE_AMONG_OPERATORS: Final = rf"^(?:{STEP}\d|Optimizer\.\w+#|enumerate\(DataLoader\)#)"
"""Annotations that the oldest versions put among the operators."""
_FAR_NS: Final = 7 * 24 * 3600 * 1_000_000_000
"""An event so far from the middle of all others has a broken time; recordings last minutes."""

_MOST_THREAD_TIME_NS: Final = 1 << 60


class Era(Enum):
    """What versions of the profiler differ in: how far the ids of events can be trusted."""

    FIRST = "PyTorch 1.8 and 1.9"
    """Operators and GPU work share an id; 0 is none."""
    MIDDLE = "PyTorch 1.10 to 2.1"
    """The id of GPU work is its correlation number and no op's, though it looks like one (until the last of them)."""
    LATE = "PyTorch 2.2 or later"
    """The id of GPU work is that of its op."""


@dataclass(frozen=True, slots=True)
class Events:
    """A trace, sorted out.

    Every frame has the columns of `tui.loaders.chrome.trace.Trace.complete`, with pid and tid as Int64 (null where they
    are no numbers).
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
    """Work of the GPU, with its ``kind``, in the order of the file."""
    overhead: pl.DataFrame
    """Work of the profiler itself."""
    far: int
    """How many events were left out because their time is far from that of all others."""
    begin_ns: int
    """What 0 of the start times is in those of the trace."""


def sort_out(trace: Trace, *, called: str) -> Events:
    """Tell the events of a trace apart by their categories.

    Args:
        trace: With the columns of `tui.loaders.kineto.args.WANTED`.
        called: What messages call the file.

    Raises:
        ProftuiError: The times are not those of a recording.
    """
    rows = trace.complete
    era = _era(rows, trace.metadata)
    labels = _gpu_labels(trace.names)
    categories = rows["cat"].unique().drop_nulls().cast(pl.String)
    roles = pl.Series([_role(category) for category in categories], dtype=pl.String)
    role = pl.col("cat").cast(pl.String).replace_strict(categories, roles, default=None, return_dtype=pl.String)
    known = rows.with_columns(role.alias("kind"), _number("pid"), _number("tid")).filter(pl.col("kind").is_not_null())
    timed, begin_ns = of_one_recording(known, called=called)
    parts = timed.partition_by("kind", as_dict=True, include_key=True, maintain_order=True)

    def of(kind: str) -> pl.DataFrame:
        return parts.get((kind,), timed.clear())

    ops, ranges = of("op"), of("range")
    if era is Era.FIRST:
        is_range = matching(ops["name"], _RANGE_AMONG_OPERATORS)
        ranges = pl.concat([ranges, ops.filter(is_range)])
        ops = ops.filter(~is_range)
    return Events(
        era=era,
        ops=_outer_first(ops),
        ranges=_outer_first(ranges),
        python=_outer_first(of("python")),
        calls=of("call"),
        gpu=_placed(pl.concat([of("kernel"), of("memcpy"), of("memset")]), labels),
        overhead=of("overhead"),
        far=known.height - timed.height,
        begin_ns=begin_ns,
    )


def _era(rows: pl.DataFrame, metadata: Any) -> Era:
    categories = set(rows["cat"].unique().drop_nulls().cast(pl.String))
    if categories & {"Kernel", "Operator", "Runtime", "Memcpy", "Memset"}:
        return Era.FIRST
    is_late = "baseTimeNanoseconds" in metadata or rows["record_function"].count() > 0
    return Era.LATE if is_late else Era.MIDDLE


def _role(category: str) -> str | None:
    lower = category.lower()
    return "call" if _CALL.fullmatch(lower) else _ROLES.get(lower)


def _gpu_labels(names: pl.DataFrame) -> pl.DataFrame:
    """The GPU that each process of the trace stands for, where it is labelled as one: gpu and pid."""
    return (
        names.filter(pl.col("name").cast(pl.String) == "process_labels")
        .select(_number("pid"), gpu=pl.col("value").str.extract(r"^GPU (\d{1,4})$").cast(pl.Int64))
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


def _number(column: str) -> pl.Expr:
    """A categorical column as whole numbers, null where it is none."""
    return pl.col(column).cast(pl.String).cast(pl.Int64, strict=False).alias(column)


def of_one_recording(rows: pl.DataFrame, *, called: str) -> tuple[pl.DataFrame, int]:
    """The rows without those far from all others, whose times begin anew at 0 then, and how much later that is.

    Raises:
        ProftuiError: There are more threads over a longer time than a recording has.
    """
    middle = rows["start_ns"].median()
    if not isinstance(middle, int | float):
        return rows, 0
    begin_ns = 0
    away = (pl.col("start_ns").cast(pl.Float64) - middle).abs()
    if rows.select((away > _FAR_NS).any()).item():
        rows = rows.filter((away <= _FAR_NS) | pl.col("start_ns").is_null())
        first_ns = rows["start_ns"].min()
        assert isinstance(first_ns, int)
        begin_ns = first_ns
        rows = rows.with_columns(pl.col("start_ns") - begin_ns)
    _check_size(rows, called)
    return rows, begin_ns


def _check_size(timed: pl.DataFrame, called: str) -> None:
    """See to it that threads times nanoseconds can be counted, as those of every recording can."""
    end_ns = (pl.col("start_ns") + pl.col("duration_ns")).max()
    threads, first_ns, last_ns = timed.select(
        pl.struct("pid", "tid").n_unique(), pl.col("start_ns").min(), end_ns.alias("end")
    ).row(0)
    if first_ns is not None and last_ns is not None and threads * (last_ns - first_ns + 2) >= _MOST_THREAD_TIME_NS:
        raise ProftuiError(
            f"{called}: {threads} threads over {(last_ns - first_ns) / 1e9:.0f} s cannot be of one recording",
            "the times in the file are damaged",
        )


def _outer_first(rows: pl.DataFrame) -> pl.DataFrame:
    """Only rows with a place in time, sorted so that one that lies within another follows it."""
    return rows.filter(pl.col("start_ns").is_not_null(), pl.col("duration_ns") >= 0).sort(
        "start_ns", "duration_ns", "external_id", descending=[False, True, False], maintain_order=True
    )
