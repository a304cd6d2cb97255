"""Reads the trace that XLA's profiler writes for trace viewers: of JAX, or of TensorFlow 2 through xprof."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.base import Format, Report, keep_going
from tui.loaders.chrome.reader import looks_like_trace, read_trace
from tui.loaders.collector import Collector
from tui.loaders.linking.launches import iteration_at, with_launch
from tui.loaders.linking.one_recording import far_in_words
from tui.loaders.xla.events import WANTED, Events, sort_out
from tui.loaders.xla.gpu_work import activities_of
from tui.loaders.xla.host import LAUNCH, calls_of, ranges_of, with_parents
from tui.loaders.xla.iterations import steps_of
from tui.loaders.xla.ops import ops_of
from tui.model.errors import WHAT_OPENS, ProftuiError
from tui.model.schema import FRAMES

if TYPE_CHECKING:
    from tui.loaders.chrome.trace import Trace
    from tui.loaders.source import Source
    from tui.model.profile import Profile

FORMAT: Final = Format(
    name="xla-trace",
    title="XLA trace (JAX, TensorFlow 2)",
    recognised_by='trace events of processes called "/device:GPU:0" or "/host:CPU", with threads "Stream #14(...)"',
    feeds=("sessions", "activities", "api_calls", "ops", "ranges", "issues"),
    record_with="jax.profiler.start_trace(FOLDER) ... stop_trace(), then open FOLDER/plugins/profile/*/*.trace.json.gz",
)

_SURE: Final = re.compile(
    rb'"name"\s*:\s*"Stream #\d+|"name"\s*:\s*"[^"]*/(?:device:(?:GPU|TPU):\d+|host:CPU)"', re.IGNORECASE
)
_MOST_EVENTS: Final = 1_000_000
"""So many events the exporter writes at most."""


class XlaTraceLoader:
    """Reads the traces of XLA's profiler."""

    @property
    def formats(self) -> tuple[Format, ...]:
        """The one format."""
        return (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Sure by the names of processes and threads, which stand before all events."""
        return 0.9 if looks_like_trace(head) and _SURE.search(head) else 0.0

    def load(self, source: Source, report: Report = keep_going) -> Profile:
        """Read the trace.

        Raises:
            ProftuiError: It holds nothing of XLA's profiler.
        """
        trace = read_trace(source, WANTED, report)
        events = sort_out(trace, called=source.called)
        if events.gpu.is_empty() and events.host.is_empty():
            raise ProftuiError(
                f"{source.called}: no profile found: trace events without a stream of a GPU or a thread of the CPU",
                WHAT_OPENS,
            )
        collector = Collector(source.name)
        _convert(events, collector)
        _tell(trace, events, collector)
        for note in (*source.notes, *trace.notes):
            collector.issue(note.severity, note.line, note.text, note.reason)
        return collector.profile(partial=trace.partial)


def _convert(events: Events, collector: Collector) -> None:
    session = collector.open_session(FORMAT.name, None)
    host = with_parents(events.host)
    calls = calls_of(host)
    steps = steps_of(ranges_of(host), events.derived)
    ops, activities = ops_of(activities_of(events), host)
    marks = steps.ranges.filter(pl.col("iteration").is_not_null())
    activities = with_launch(activities, calls)
    is_jax = host["name"].cast(pl.String).str.starts_with("PjitFunction(").any()
    session.facts.update(
        tool="XLA profiler",
        framework="JAX" if is_jax else None,
        iteration_source=steps.source if marks.height else None,
    )
    # Where the launch is not known, nothing but the time on the GPU tells the iteration.
    at_ns = activities.select(pl.coalesce("launch_ns", "start_ns")).to_series()
    op_iterations = ops.with_columns(iteration_at(marks, ops["start_ns"]))
    collector.add_frames(
        {
            "activities": _of_model("activities", activities.with_columns(iteration_at(marks, at_ns))),
            "api_calls": calls,
            "ops": _of_model("ops", op_iterations),
            "ranges": steps.ranges,
        }
    )


def _tell(trace: Trace, events: Events, collector: Collector) -> None:
    if (events.host["correlation"].is_not_null()).any():
        reason = f"the trace gives a call that launched a kernel the kernel's name: such calls are listed as {LAUNCH}"
        collector.issue("info", None, LAUNCH, reason)
    if events.derived.height:
        threads = ", ".join(sorted({str(name) for name in events.derived["thread"].drop_nulls().unique()})[:6])
        reason = f"{events.derived.height:,} events of lines that repeat what is on the streams are not counted"
        collector.issue("info", None, threads, reason)
    if events.far:
        collector.issue("warning", None, "", far_in_words(events.far))
    if events.python_calls:
        reason = f"{events.python_calls:,} calls of Python functions are left out: they say nothing of the GPU"
        collector.issue("info", None, "", reason)
    if events.gpu.is_empty():
        reason = "the trace holds no work of a GPU: the program used none, or it was recorded without one"
        collector.issue("warning", None, "", reason)
    if trace.complete.height >= _MOST_EVENTS:
        reason = f"the profiler writes about {_MOST_EVENTS:,} events at most, so some are missing: record fewer steps"
        collector.issue("warning", None, f"{trace.complete.height:,} events", reason)


def _of_model(frame: str, data: pl.DataFrame) -> pl.DataFrame:
    return data.select(column for column in FRAMES[frame] if column in data.columns)
