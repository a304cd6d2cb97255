"""The text that nvprof prints: summaries, traces, metrics, and its messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tui.loaders.base import Format
from tui.loaders.nvprof.nvprof_reader import CUE, NvprofReader
from tui.loaders.nvprof.reader_state import FORMAT_NAME

if TYPE_CHECKING:
    from tui.loaders.collector import Collector
    from tui.loaders.text.section import TextFormat


@dataclass(frozen=True, slots=True)
class _NvprofText:
    """nvprof's text, as a format of text logs."""

    format: Format
    cue: bytes

    def reader(self, collector: Collector) -> NvprofReader:
        """A reader for one text."""
        return NvprofReader(collector)


NVPROF: Final[TextFormat] = _NvprofText(
    Format(
        name=FORMAT_NAME,
        title="nvprof text output",
        recognized_by="lines such as ==1234== Profiling result:, or the header and rows of its tables",
        feeds=("sessions", "devices", "activities", "api_calls", "summary", "metrics"),
        record_with="nvprof --print-gpu-trace --print-api-trace --log-file run.nvprof.log ./app",
    ),
    CUE,
)
