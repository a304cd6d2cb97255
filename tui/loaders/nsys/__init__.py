"""NVIDIA Nsight Systems: its SQLite export, its export as a folder of Parquet files, its own reports."""

from __future__ import annotations

from tui.loaders.nsys.database import NSYS_DATABASE as NSYS_DATABASE
