"""NVIDIA DLProf: its database and the CSV reports of its command line."""

from __future__ import annotations

from tui.loaders.dlprof.database import DLPROF_DATABASE as DLPROF_DATABASE
from tui.loaders.dlprof.reports import DLPROF_CSV as DLPROF_CSV
