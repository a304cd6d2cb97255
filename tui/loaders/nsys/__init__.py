"""NVIDIA Nsight Systems: its SQLite export, its export as a folder of Parquet files, its own reports."""

from __future__ import annotations

from tui.loaders.nsys.nsys_export import NSYS_DATABASE as NSYS_DATABASE
from tui.loaders.nsys.parquet_export import NSYS_FOLDER as NSYS_FOLDER
from tui.loaders.nsys.parquet_export import is_parquetdir as is_parquetdir
from tui.loaders.nsys.report_file import NSYS_REPORT as NSYS_REPORT
