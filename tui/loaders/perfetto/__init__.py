"""Perfetto's own trace format: of rocprofv3, PyTorch, rocprofiler-systems, THAPI, and of GPU drivers."""

from __future__ import annotations

from tui.loaders.perfetto.perfetto_loader import PERFETTO as PERFETTO
