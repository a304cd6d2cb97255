"""Reads the nvprof parts of a text: nvprof's own lines, and the tables that they announce."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tui.loaders.base import Format
from tui.loaders.collector import Collector
from tui.loaders.nvprof.metrics import open_metrics
from tui.loaders.nvprof.state import NvprofState
from tui.loaders.nvprof.trace import open_trace
from tui.loaders.section import Line, Section

Opener = Callable[[Line, NvprofState], Section | None]
"""Looks at a line; returns the section that it opens, or None where the line is not the beginning of one."""

TABLES: Final[tuple[Opener, ...]] = (open_trace, open_metrics)
