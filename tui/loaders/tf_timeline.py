"""Loads the timeline of one ``session.run`` of TensorFlow 1, as Chrome trace events.

It names ops, not kernels, also for the GPU. Every row of a GPU appears twice: on its own stream and
on ``stream:all``; copies appear a third time on ``memcpy``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.base import Format, ProgressCallback, keep_going
from tui.loaders.chrome_trace.event_batches import Arg, ArgKind
from tui.loaders.chrome_trace.stream import looks_like_trace
from tui.loaders.collector import Collector
from tui.model.errors import FORMATS_HINT, ProftuiError
from tui.model.schema import FRAMES, NAME
from tui.text import number_in

if TYPE_CHECKING:
    from tui.loaders.chrome_trace.event_batches import Trace
    from tui.loaders.input_file import InputFile
    from tui.model.profile import Profile

FORMAT: Final = Format(
    name="tf-timeline",
    title="TensorFlow 1 timeline",
    recognized_by='trace events of processes called "/device:GPU:0/stream:13 Compute"',
    feeds=("sessions", "activities", "ops", "ranges", "issues"),
    record_with="session.run(..., options=RunOptions(trace_level=FULL_TRACE), run_metadata=M), then "
    "timeline.Timeline(M.step_stats).generate_chrome_trace_format()",
)

_WANTED_ARGS: Final = (
    Arg("node", ("name",), ArgKind.TEXT),
    Arg("op", ("op",), ArgKind.TEXT),
)

_PROCESS_NAME: Final = re.compile(
    rb'"name"\s*:\s*"[^"]*/(?:stream:(?:\d+|all)|(?:device:)?[cg]pu:\d+) Compute"', re.IGNORECASE
)
_DEVICE: Final = r"(?i)\bgpu:([0-9]{1,9})"
_STREAM: Final = r"(?i)/stream:([0-9]{1,18}|all) Compute$"
_EDGE: Final = r"^edge_[0-9]+_"
"""The prefix of the name of a node that waited for another."""


class TfTimelineLoader:
    """Reads timelines of TensorFlow 1."""

    formats: Final = (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Return a high confidence by the names of processes, which precede all events."""
        return 0.95 if looks_like_trace(head) and _PROCESS_NAME.search(head) else 0.0

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read the timeline.

        Raises:
            ProftuiError: It has no op of TensorFlow's timeline.
        """
        from tui.loaders.chrome_trace.read_trace import read_trace  # not needed to recognize a file

        trace = read_trace(source, _WANTED_ARGS, on_progress)
        rows = _events_with_devices(trace)
        gpu = _gpu_rows(rows)
        ops = _ops(rows, gpu)
        if ops.is_empty():
            raise ProftuiError(
                f"{source.display_name}: no profile found: trace events without TensorFlow ops",
                FORMATS_HINT,
            )
        collector = Collector(source.name)
        session = collector.open_session(FORMAT.name, None)
        source_of_iterations = "the file: a timeline covers one session.run"
        session.facts.update(tool="TensorFlow timeline", framework="TensorFlow", iteration_source=source_of_iterations)
        collector.resolution(1000)
        collector.add_frames(
            {
                "activities": _activities(gpu, ops),
                "ops": ops.select(column for column in FRAMES["ops"] if column in ops.columns),
                "ranges": _run(ops, gpu),
            }
        )
        _report_issues(gpu, collector)
        collector.add_issues([*source.notes, *trace.notes])
        return collector.profile(partial=trace.partial)


def _events_with_devices(trace: Trace) -> pl.DataFrame:
    """Return the events of computing processes with ``device``, ``stream`` (number, ``all``, null) and ``is_memcpy``.

    Names of nodes are without the prefix for waiting.
    """
    process_names = trace.names.filter(pl.col("name") == "process_name").select(pl.col("pid").cast(pl.String), "value")
    process = pl.col("value")
    processes = (
        process_names.unique("pid", keep="first", maintain_order=True)
        .filter(process.str.ends_with(" Compute"))
        .select(
            "pid",
            number_in(process, _DEVICE, dtype=pl.Int32).alias("device"),
            process.str.extract(_STREAM, 1).str.to_lowercase().alias("stream"),
            process.str.ends_with("/memcpy Compute").alias("is_memcpy"),
        )
    )
    node = pl.coalesce(pl.col("node").cast(pl.String), pl.col("name").cast(pl.String)).str.replace(_EDGE, "")
    op = pl.coalesce("op", "name")
    return (
        trace.complete.with_columns(
            pl.col("pid").cast(pl.String),
            pl.col("tid").cast(pl.String).cast(pl.Int64, strict=False),
            node.alias("node"),
            op.cast(NAME).alias("op_type"),
        )
        .drop("op")
        .join(processes, on="pid", how="inner", maintain_order="left")
    )


def _gpu_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Return GPU rows without duplicates: rows of single streams, and rows of other processes that no stream has."""
    streams = rows.filter(pl.col("stream").str.contains(r"^[0-9]+$"))
    key = ["device", "node", "start_ns", "duration_ns"]
    copies = rows.filter(pl.col("is_memcpy")).join(streams, on=key, how="anti", nulls_equal=True, maintain_order="left")
    known = pl.concat([streams, copies])
    others = rows.filter(pl.col("stream") == "all")
    return pl.concat([known, others.join(known, on=key, how="anti", nulls_equal=True, maintain_order="left")]).sort(
        "start_ns", maintain_order=True
    )


def _ops(rows: pl.DataFrame, gpu: pl.DataFrame) -> pl.DataFrame:
    """Return ops that the CPU ran or launched; an op without times for each that only the GPU recorded."""
    dispatched = rows.filter(pl.col("stream").is_null(), ~pl.col("is_memcpy"))
    only_on_gpu = gpu.join(dispatched, on="node", how="anti", maintain_order="left")
    only_on_gpu = only_on_gpu.unique("node", keep="first", maintain_order=True).with_columns(
        pl.lit(None, pl.Int64).alias("start_ns"),
        pl.lit(None, pl.Int64).alias("duration_ns"),
        pl.lit(None, pl.Int64).alias("tid"),
    )
    node = pl.col("node")
    return (
        pl.concat([dispatched, only_on_gpu])
        .sort("start_ns", nulls_last=True, maintain_order=True)
        .with_row_index("op")
        .select(
            "op",
            "node",
            node.str.extract(r"([^/]+)/*$", 1).cast(NAME).alias("name"),
            "op_type",
            # tf.gradients gives this name to all ops that it adds.
            pl.when(node.str.contains(r"(?:^|/)gradients(?:_[0-9]+)?/"))
            .then(pl.lit("bprop"))
            .cast(NAME)
            .alias("direction"),
            node.str.extract(r"^/*(.+?)/+[^/]+/*$", 1).cast(NAME).alias("group"),
            "start_ns",
            "duration_ns",
            "tid",
            pl.lit(0, pl.Int32).alias("iteration"),
            pl.lit("recorded", NAME).alias("op_source"),
            "line",
        )
    )


def _activities(gpu: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Return GPU work with its op: the last run of the node that began earlier."""
    timed = ops.filter(pl.col("start_ns").is_not_null()).select("node", "op", "start_ns")
    alone = ops.unique("node", keep="none", maintain_order=True).select("node", pl.col("op").alias("only_op"))
    linked = (
        gpu.join_asof(timed, on="start_ns", by="node", strategy="backward", check_sortedness=False)
        .join(alone, on="node", how="left", maintain_order="left")
        .with_columns(pl.coalesce("op", "only_op").alias("op"))
    )
    label = pl.col("op_type").cast(pl.String)
    copied = label.str.extract(r"(?i)^MEMCPY([HDP]to[HDP])", 1)
    is_copy = pl.col("is_memcpy") | label.str.contains(r"(?i)^MEMCPY")
    kind = pl.when(is_copy).then(pl.lit("memcpy")).when(label.str.contains(r"(?i)^MEMSET")).then(pl.lit("memset"))
    return linked.select(
        kind.otherwise(pl.lit("kernel")).cast(NAME).alias("kind"),
        pl.col("node").cast(NAME).alias("name"),
        pl.col("node").str.extract(r"([^/]+)/*$", 1).cast(NAME).alias("short_name"),
        "start_ns",
        "duration_ns",
        "device",
        pl.col("stream").cast(pl.Int64, strict=False),
        copied.cast(NAME).alias("copy_kind"),
        "op",
        pl.when(pl.col("op").is_not_null())
        .then(pl.lit("recorded"))
        .otherwise(pl.lit("launch not recorded"))
        .cast(NAME)
        .alias("op_join"),
        pl.lit(0, pl.Int32).alias("iteration"),
        "line",
    )


def _run(ops: pl.DataFrame, gpu: pl.DataFrame) -> pl.DataFrame:
    """Return the whole run as a range that marks the only iteration; no row if no time is known."""
    times = pl.concat([part.select("start_ns", "duration_ns").drop_nulls() for part in (ops, gpu)])
    begin = pl.col("start_ns").min()
    return times.filter(pl.len() > 0).select(
        pl.lit("session.run", NAME).alias("name"),
        begin.alias("start_ns"),
        ((pl.col("start_ns") + pl.col("duration_ns")).max() - begin).alias("duration_ns"),
        pl.lit(0, pl.Int32).alias("depth"),
        pl.lit(0, pl.Int32).alias("iteration"),
    )


def _report_issues(gpu: pl.DataFrame, collector: Collector) -> None:
    if gpu.height:
        reason = "the timeline records ops, not kernels: GPU activities have the names of their ops"
        collector.issue("info", None, "", reason)
    else:
        reason = "no GPU work in the timeline: the program used no GPU, or tracing was not FULL_TRACE"
        collector.issue("warning", None, "", reason)
