"""Traces of the PyTorch profiler (Kineto), in Chrome's trace event format."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tui.loaders.base import Format, Report, keep_going
from tui.loaders.chrome.reader import looks_like_trace, read_trace
from tui.loaders.collector import Collector
from tui.loaders.kineto.args import FLOWS, WANTED
from tui.loaders.kineto.convert import convert
from tui.loaders.kineto.facts import FORMAT_NAME
from tui.loaders.kineto.roles import GPU_ROLES, Roles
from tui.loaders.preview import summed

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from tui.loaders.source import Source
    from tui.model.profile import Profile

FORMAT: Final = Format(
    name=FORMAT_NAME,
    title="PyTorch profiler trace",
    recognised_by='a JSON document with "traceEvents" whose events have the categories of PyTorch\'s profiler',
    feeds=("devices", "activities", "api_calls", "ops", "ranges", "tool_figures", "memory_events"),
    record_with="torch.profiler.profile(activities=[CPU, CUDA], record_shapes=True), then export_chrome_trace(FILE)",
)

_SURE: Final = re.compile(
    rb'"(?:schemaVersion|deviceProperties|baseTimeNanoseconds|traceName)"\s*:'
    rb'|"cat"\s*:\s*"(?:cpu_op|user_annotation|python_function|cuda_runtime|gpu_memcpy|Operator|Runtime|Kernel)"'
    rb'|"pid"\s*:\s*"(?:CPU|CUDA) functions"'
)


_OTHERS: Final = MappingProxyType({"op": "CPU ops", "python": "Python functions", "call": "API calls"})
"""What stands beside GPU work, mostly before it: what is told of it while the rest is read."""


class KinetoLoader:
    """Reads the traces that PyTorch's profiler writes."""

    @property
    def formats(self) -> tuple[Format, ...]:
        """The one format."""
        return (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Sure by what only PyTorch's profiler writes; hardly for other trace events, which other tools write too."""
        if head.lstrip()[:1] in (b"{", b"[") and _SURE.search(head):
            return 0.95
        return 0.3 if looks_like_trace(head) else 0.0

    def load(self, source: Source, report: Report = keep_going) -> Profile:
        """Read the trace.

        Raises:
            ProftuiError: It holds nothing of PyTorch's profiler.
        """
        roles = Roles()

        def split(events: pl.DataFrame) -> Mapping[str, pl.DataFrame]:
            parts = roles.split(events)
            if source.preview.is_wanted:
                for role in GPU_ROLES:
                    source.preview.add(summed(parts[role]))
                for role, what in _OTHERS.items():
                    source.preview.count(what, parts[role].height)
            return parts

        trace = read_trace(source, WANTED, report, split=split, flow_categories=FLOWS)
        collector = Collector(source.name)
        convert(trace, roles, collector, called=source.called)
        for note in (*source.notes, *trace.notes):
            collector.issue(note.severity, note.line, note.text, note.reason)
        return collector.profile(partial=trace.partial)
