"""Reads an XSpace (``xplane.pb``), which XLA's profiler writes for JAX, TensorFlow 2 and PyTorch/XLA."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.base import Format
from tui.loaders.collector import Collector
from tui.loaders.progress import Report, keep_going
from tui.loaders.protobuf import Wire
from tui.loaders.xla.xla_loader import LAUNCH, convert
from tui.loaders.xla.xplane_events import Space, read_space
from tui.model.errors import WHAT_OPENS, ProftuiError
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.source import Source
    from tui.model.profile import Profile

FORMAT: Final = Format(
    name="xplane",
    title="XSpace of XLA's profiler (xplane.pb)",
    recognized_by="Protocol Buffers that begin with a plane called '/host:CPU', '/device:GPU:0' or 'Task Environment'",
    feeds=("sessions", "devices", "activities", "api_calls", "ops", "ranges", "issues"),
    record_with="jax.profiler.start_trace(FOLDER) or tf.profiler.experimental.start(FOLDER), then open "
    "FOLDER/plugins/profile/*/*.xplane.pb",
)

_PLANE: Final = rb"\x0a[\x80-\xff]{0,9}[\x00-\x7f]"
_NAMED: Final = rb"\x12.(?:/host:|/device:|/task:|Task Environment)"
_SURE: Final = re.compile(_PLANE + rb"(?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?" + _NAMED, re.DOTALL)
_LATER: Final = re.compile(_NAMED, re.DOTALL)
_AS_TEXT: Final = "\N{REPLACEMENT CHARACTER}".encode()


class XplaneLoader:
    """Reads XSpaces."""

    @property
    def formats(self) -> tuple[Format, ...]:
        """The one format."""
        return (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Sure by the name of the first plane, which can stand behind its lines."""
        if _SURE.match(head):
            return 0.97
        is_plane = re.match(_PLANE, head) is not None and head[:1] == b"\x0a"
        return 0.9 if is_plane and (name.endswith(".xplane.pb") or _LATER.search(head)) else 0.0

    def load(self, source: Source, report: Report = keep_going) -> Profile:
        """Read the space.

        Raises:
            ProftuiError: It holds no plane.
        """
        source.report_to(report)
        if source.head.count(_AS_TEXT) > len(source.head) // 64:
            raise ProftuiError(
                f"{source.called}: was copied as text, which replaced bytes: it cannot be read",
                "copy it again as a binary file",
            )
        wire = Wire.read(source.chunks(), source.unpacked_size)
        space = read_space(wire, lambda _at: source.keep_going(0))
        if all(rows.is_empty() for rows in (space.events.gpu, space.events.host, space.accelerators)):
            raise ProftuiError(
                f"{source.called}: no profile found: Protocol Buffers without an event of a plane", WHAT_OPENS
            )
        collector = Collector(source.name, source.preview)
        session = convert(space.events, collector, FORMAT.name)
        session.facts.update(host=", ".join(space.hosts) or None, origin_ns=space.origin_ns)
        if space.devices.height:
            collector.add_frame("devices", space.devices)
        _add_accelerators(space, collector)
        _tell(space, wire, collector)
        for note in source.notes:
            collector.issue(note.severity, note.line, note.text, note.reason)
        return collector.profile(partial="stopped before its end" if source.stopped else source.cut_short)


XPLANE: Final = XplaneLoader()
"""The loader, for the list of loaders."""


def _add_accelerators(space: Space, collector: Collector) -> None:
    """Show events of TPUs as ranges: each line of a device is a domain."""
    rows = space.accelerators
    if rows.is_empty():
        return
    lines = rows["thread"].unique(maintain_order=True)
    # Lines of a device are no threads: numbers tell them apart from those of the CPU.
    numbers = pl.Series(range(-len(lines), 0), dtype=pl.Int64)
    placed = rows.with_columns(
        pl.col("thread").cast(NAME).alias("domain"),
        tid=pl.col("thread").replace_strict(lines, numbers, return_dtype=pl.Int64),
    )
    collector.add_frame("ranges", placed.select("name", "domain", "start_ns", "duration_ns", "tid"))
    reason = "the file has no GPU: what ran on other accelerators (TPU) is shown as ranges"
    if space.events.gpu.is_empty():
        collector.issue("warning", None, "", reason)


def _tell(space: Space, wire: Wire, collector: Collector) -> None:
    events = space.events
    for severity, text in space.messages:
        collector.issue(severity, None, text, "the profiler says so of its own work")
    if events.host["correlation"].is_not_null().any():
        reason = f"a call that launched a kernel can bear the kernel's name: such calls are listed as {LAUNCH}"
        collector.issue("info", None, LAUNCH, reason)
    if events.derived.height:
        threads = ", ".join(sorted({str(name) for name in events.derived["thread"].drop_nulls().unique()})[:6])
        reason = f"{events.derived.height:,} events on lines that repeat the streams are not counted"
        collector.issue("info", None, threads, reason)
    if events.python_calls:
        reason = f"{events.python_calls:,} calls of Python functions are left out"
        collector.issue("info", None, "", reason)
    if events.gpu.is_empty() and space.accelerators.is_empty():
        reason = "no GPU work in the file: the program used no GPU, or its work was not recorded"
        collector.issue("warning", None, "", reason)
    if wire.damaged:
        reason = f"the file is cut or damaged: {wire.damaged:,} messages end early; what could be read is shown"
        collector.issue("error", None, "", reason)
