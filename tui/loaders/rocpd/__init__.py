"""Databases of AMD's profilers: rocpd of rocprofv3, and what the first rocprof leaves beside its CSV files."""

from __future__ import annotations

from tui.loaders.rocpd.rocpd_database import ROCPD as ROCPD
from tui.loaders.rocpd.rocprof_v1_database import ROCPROF_DATABASE as ROCPROF_DATABASE
