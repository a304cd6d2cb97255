"""Loads XLA's trace for trace viewers (JAX, TensorFlow 2): host calls, ranges and iterations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.correlation.iteration_ranges import Steps, mark_steps
from tui.correlation.launches import iteration_at, nest, parents, with_launch
from tui.correlation.plausible_times import dropped_events_text
from tui.loaders.base import Format
from tui.loaders.chrome_trace.read_trace import looks_like_trace, read_trace
from tui.loaders.collector import Collector, Session
from tui.loaders.progress import Report, keep_going
from tui.loaders.xla.xla_events import WANTED, XlaEvents, activities_of, ops_of, sort_out
from tui.model.errors import WHAT_OPENS, ProftuiError
from tui.model.schema import FRAMES, NAME, RANGES
from tui.text import number_in

if TYPE_CHECKING:
    from tui.loaders.chrome_trace.event_batches import Trace
    from tui.loaders.collector import Session
    from tui.loaders.source import Source
    from tui.model.profile import Profile


LAUNCH: Final = "[kernel launch]"
"""A call that launched a kernel: the trace gives it the name of the kernel."""

_NAMED_CALL: Final = r"^(?:cu|cuda|hip)[A-Z]\w*"
_NAMED_WORK: Final = r"^Mem[a-z]+\w*"


def with_parents(host: pl.DataFrame) -> pl.DataFrame:
    """Number the events of the CPU (``row``) and add ``parent``, the row of the event around each, and ``depth``."""
    nesting = nest(host)
    return host.with_row_index("row").with_columns(
        parents(nesting).alias("parent"), pl.Series("depth", nesting.depth, pl.Int32)
    )


def is_call() -> pl.Expr:
    """Whether an event is a call into CUDA or HIP: it has a correlation, or such a name."""
    name = pl.col("name").cast(pl.String)
    return (pl.col("correlation").is_not_null() | name.str.contains(_NAMED_CALL)).fill_null(False)


def calls_of(host: pl.DataFrame) -> pl.DataFrame:
    """API calls, with columns of the model. The number of the graph that a call launched is not part of its name.

    Copies and memsets are called by what they do (``MemcpyD2D``), and whether the call was asynchronous stands beside
    the name: it is put into it, as it is in names of CUDA's own.
    """
    name = pl.col("name").cast(pl.String)
    details = pl.coalesce("memcpy_details", "memset_details").cast(pl.String)
    is_async = details.str.contains(r"\basync:1\b").fill_null(False)
    work = name.str.extract(f"({_NAMED_WORK})", 1) + pl.when(is_async).then(pl.lit("Async")).otherwise(pl.lit(""))
    plain = pl.coalesce(name.str.extract(f"({_NAMED_CALL})", 1), work)
    return host.filter(is_call()).select(
        plain.fill_null(LAUNCH).cast(NAME).alias("name"), "start_ns", "duration_ns", "pid", "tid", "correlation", "line"
    )


def ranges_of(host: pl.DataFrame) -> pl.DataFrame:
    """Annotations of the program and of the runtime, with columns of the model."""
    return host.filter(~is_call()).select(
        "name",
        pl.lit(None, NAME).alias("domain"),
        "start_ns",
        "duration_ns",
        pl.col("pid"),
        pl.col("tid"),
        "depth",
        pl.lit(None, RANGES["iteration"]).alias("iteration"),
        "line",
        "step",
    )


def steps_of(ranges: pl.DataFrame, derived: pl.DataFrame) -> Steps:
    """Find the ranges that mark iterations.

    Those are, in this order: the program's own step annotations, which have a number; the line ``Steps`` that a
    converter made of them; the runs of the XLA module that took longest, where there are several; else what
    `tui.correlation.iteration_ranges.mark_steps` finds.

    Args:
        ranges: As `tui.loaders.xla.xla_loader.ranges_of` makes them.
        derived: The derived lines of GPUs.
    """
    plain = ranges.drop("step")
    annotated = ranges.filter(pl.col("step").is_between(0, (1 << 31) - 1), pl.col("name").is_not_null())
    if annotated.height:
        name = annotated.select(_without_number()).to_series().mode().sort()[0]
        own = (_without_number() == name) & pl.col("step").is_between(0, (1 << 31) - 1)
        marked = ranges.with_columns(pl.when(own).then("step").cast(pl.Int32).alias("iteration")).drop("step")
        return Steps(marked, f"step annotation {name}")
    for line, source in (("Steps", "the profiler's line Steps"), ("XLA Modules", "runs of the XLA module")):
        marks, what = _of_line(derived, line)
        if marks is not None:
            return Steps(pl.concat([plain, marks.select(plain.columns)]), f"{source} {what}".rstrip())
    return mark_steps(plain, kind="annotation")


def _without_number() -> pl.Expr:
    """The name of a step without its number, which a converter writes behind it (``train 7``)."""
    return pl.col("name").cast(pl.String).str.replace(r"[ #]*[0-9]+$", "")


def _of_line(derived: pl.DataFrame, line: str) -> tuple[pl.DataFrame | None, str]:
    """The rows of a derived line of the first GPU that has it, as ranges that mark iterations; and whose they are."""
    rows = derived.filter(pl.col("thread").str.starts_with(line), pl.col("name").is_not_null()).sort("start_ns")
    if rows.is_empty():
        return None, ""
    first = rows.row(0, named=True)
    rows = rows.filter(device=first["device"], thread=first["thread"])
    what = ""
    if line == "XLA Modules":
        # The number in brackets is that of the program: jit_step(123).
        rows = rows.with_columns(pl.col("name").cast(pl.String).str.replace(r"\([0-9]+\)$", "").alias("module"))
        longest = rows.group_by("module").agg(pl.col("duration_ns").sum()).sort("duration_ns", "module")["module"][-1]
        rows = rows.filter(module=longest)
        what = str(longest)
        if rows.height < 2:
            return None, ""
    numbers = number_in(rows["name"].cast(pl.String), r"([0-9]+)$", dtype=pl.Int32)
    counted = numbers.null_count() > 0 or numbers.n_unique() < len(numbers)
    return rows.select(
        "name",
        pl.lit(line, NAME).alias("domain"),
        "start_ns",
        "duration_ns",
        pl.lit(None, pl.Int64).alias("pid"),
        pl.lit(None, pl.Int64).alias("tid"),
        pl.lit(0, pl.Int32).alias("depth"),
        (pl.int_range(pl.len(), dtype=pl.Int32) if counted else pl.lit(numbers)).alias("iteration"),
        "line",
    ), what


FORMAT: Final = Format(
    name="xla-trace",
    title="XLA trace (JAX, TensorFlow 2)",
    recognized_by='trace events of processes called "/device:GPU:0" or "/host:CPU", with threads "Stream #14(...)"',
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
        convert(events, collector, FORMAT.name)
        _report_issues(trace, events, collector)
        for note in (*source.notes, *trace.notes):
            collector.issue(note.severity, note.line, note.text, note.reason)
        return collector.profile(partial=trace.partial)


def convert(events: XlaEvents, collector: Collector, format_name: str) -> Session:
    """Put the events of a recording into a session of their own, which is returned."""
    session = collector.open_session(format_name, None)
    host = with_parents(events.host)
    calls = calls_of(host)
    steps = steps_of(ranges_of(host), events.derived)
    activities = activities_of(events)
    if "group" in events.gpu.columns:
        activities = activities.with_columns(events.gpu["group"])
    ops, activities = ops_of(activities, host)
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
            "activities": _fit_to_model(
                "activities", _with_groups(activities.with_columns(iteration_at(marks, at_ns)), events)
            ),
            "api_calls": calls,
            "ops": _fit_to_model("ops", op_iterations),
            "ranges": steps.ranges,
        }
    )
    return session


def _with_groups(activities: pl.DataFrame, events: XlaEvents) -> pl.DataFrame:
    """Activities with the iteration of their group, where the profiler grouped them and numbered the groups."""
    if "group" not in activities.columns:
        return activities
    number = number_in(pl.col("name").cast(pl.String), r"([0-9]{1,9})$", dtype=pl.Int32)
    steps = (
        events.derived.filter(pl.col("thread").str.starts_with("Steps"))
        .select("group", number.alias("number"))
        .drop_nulls()
        .unique("group", keep="first", maintain_order=True)
    )
    grouped = activities.join(steps, on="group", how="left", maintain_order="left")
    return grouped.with_columns(pl.coalesce("number", "iteration").alias("iteration"))


def _report_issues(trace: Trace, events: XlaEvents, collector: Collector) -> None:
    if (events.host["correlation"].is_not_null()).any():
        reason = f"the trace names launch calls after their kernels: such calls are listed as {LAUNCH}"
        collector.issue("info", None, LAUNCH, reason)
    if events.derived.height:
        threads = ", ".join(sorted({str(name) for name in events.derived["thread"].drop_nulls().unique()})[:6])
        reason = f"{events.derived.height:,} events on lines that repeat the streams are not counted"
        collector.issue("info", None, threads, reason)
    if events.far:
        collector.issue("warning", None, "", dropped_events_text(events.far))
    if events.python_calls:
        reason = f"{events.python_calls:,} calls of Python functions are left out"
        collector.issue("info", None, "", reason)
    if events.gpu.is_empty():
        reason = "no GPU work in the trace: the program used no GPU, or its work was not recorded"
        collector.issue("warning", None, "", reason)
    if trace.complete.height >= _MOST_EVENTS:
        reason = f"the profiler writes about {_MOST_EVENTS:,} events at most, so some are missing: record fewer steps"
        collector.issue("warning", None, f"{trace.complete.height:,} events", reason)


def _fit_to_model(frame: str, data: pl.DataFrame) -> pl.DataFrame:
    return data.select(column for column in FRAMES[frame] if column in data.columns)
