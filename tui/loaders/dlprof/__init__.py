"""NVIDIA DLProf: its database and the CSV reports of its command line."""

from __future__ import annotations

from tui.loaders.dlprof.csv_reports import DLPROF_CSV as DLPROF_CSV
from tui.loaders.dlprof.dlprof_database import DLPROF_DATABASE as DLPROF_DATABASE
