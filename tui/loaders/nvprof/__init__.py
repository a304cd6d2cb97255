"""The text that nvprof prints: summaries, traces, metrics, and its messages."""

from __future__ import annotations

from tui.loaders.nvprof.nvprof_reader import NVPROF as NVPROF
