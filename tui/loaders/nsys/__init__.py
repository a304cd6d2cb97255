"""NVIDIA Nsight Systems: SQLite exports, Parquet exports, and reports."""

from __future__ import annotations

from tui.loaders.nsys.nsys_export import NSYS_DATABASE as NSYS_DATABASE
from tui.loaders.nsys.parquet_export import NSYS_FOLDER as NSYS_FOLDER
from tui.loaders.nsys.parquet_export import is_parquetdir as is_parquetdir
from tui.loaders.nsys.report_file import NSYS_REPORT as NSYS_REPORT
