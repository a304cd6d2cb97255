"""The events of an XLA trace, sorted by where they happened: on a GPU's stream or on a thread of the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.chrome.trace import Arg, ArgKind
from tui.loaders.linking.one_recording import of_one_recording

if TYPE_CHECKING:
    from tui.loaders.chrome.trace import Trace

WANTED: Final = (
    Arg("context_id", ("context_id",), ArgKind.TEXT),
    Arg("correlation", ("correlation_id",), ArgKind.INTEGER),
    Arg("graph_node", ("cuda_graph_node_id",), ArgKind.INTEGER),
    Arg("scope", ("scope_range_id",), ArgKind.INTEGER),
    Arg("step", ("step_num",), ArgKind.INTEGER),
    Arg("hlo_module", ("hlo_module",), ArgKind.TEXT),
    Arg("hlo_op", ("hlo_op",), ArgKind.TEXT),
    Arg("op_path", ("name",), ArgKind.TEXT),
    Arg("tf_op", ("tf_op",), ArgKind.TEXT),
    Arg("source", ("source_stack", "source"), ArgKind.TEXT),
    Arg("kernel_details", ("kernel_details",), ArgKind.TEXT),
    Arg("memcpy_details", ("memcpy_details",), ArgKind.TEXT),
    Arg("memset_details", ("memset_details",), ArgKind.TEXT),
)
"""The arguments of events that are read."""

_GPU: Final = r"/device:GPU:(\d{1,9})\b"
_STREAM: Final = r"(?i)^stream #(\d{1,18})"
_PYTHON: Final = "$"
"""How names of Python functions begin, which are traced one by one where that was asked for."""


@dataclass(frozen=True, slots=True)
class Events:
    """What happened, with the columns of `tui.loaders.chrome.trace.Trace.complete`."""

    gpu: pl.DataFrame
    """On streams, with ``device`` and ``stream``."""
    derived: pl.DataFrame
    """Lines that a viewer's converter adds to a GPU (``XLA Modules``, ``Steps``, ...), with ``device`` and ``thread``:
    they repeat what is on the streams, and are never counted."""
    host: pl.DataFrame
    """On threads of the CPU, by start, pid and tid as Int64."""
    python_calls: int
    """How many calls of Python functions there are beside."""
    far: int
    """How many events were left out because their time is far from that of all others."""


def sort_out(trace: Trace, *, called: str) -> Events:
    """Tell the events of GPUs from those of the CPU, by the names of their processes and threads.

    Args:
        trace: As it was read.
        called: What messages call the file.

    Raises:
        ProftuiError: The times are not those of a recording.
    """
    names = trace.names.with_columns(pl.col("pid", "tid").cast(pl.String))
    processes = names.filter(pl.col("name") == "process_name").unique("pid", keep="first", maintain_order=True)
    threads = names.filter(pl.col("name") == "thread_name").unique(("pid", "tid"), keep="first", maintain_order=True)
    gpus = processes.select(
        "pid", pl.col("value").str.extract(_GPU, 1).cast(pl.Int32, strict=False).alias("device")
    ).drop_nulls("device")
    streams = threads.select(
        "pid",
        "tid",
        pl.col("value").alias("thread"),
        pl.col("value").str.extract(_STREAM, 1).cast(pl.Int64, strict=False).alias("stream"),
    )
    near = of_one_recording({"all": trace.complete}, called=called)[0]["all"]
    events = near.with_columns(pl.col("pid", "tid").cast(pl.String))
    placed = events.join(gpus, on="pid", how="left", maintain_order="left").join(
        streams, on=["pid", "tid"], how="left", maintain_order="left"
    )
    on_gpu = placed.filter(pl.col("device").is_not_null())
    host = placed.filter(pl.col("device").is_null()).with_columns(pl.col("pid", "tid").cast(pl.Int64, strict=False))
    is_python = pl.col("name").cast(pl.String).str.starts_with(_PYTHON)
    python = host.select(is_python.fill_null(False).alias("is_python")).to_series()
    return Events(
        on_gpu.filter(pl.col("stream").is_not_null()),
        on_gpu.filter(pl.col("stream").is_null()),
        host.filter(~python).sort("start_ns", maintain_order=True),
        int(python.sum()),
        trace.complete.height - near.height,
    )
