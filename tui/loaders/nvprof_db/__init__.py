"""nvprof's databases: what ``nvprof -o`` writes and the Visual Profiler saves."""

from __future__ import annotations

from tui.loaders.nvprof_db.nvprof_database import NVPROF_DATABASE as NVPROF_DATABASE
