"""Databases of AMD's profilers: rocpd of rocprofv3, and what the first rocprof leaves beside its CSV files."""

from __future__ import annotations

from tui.loaders.rocpd.database import ROCPD as ROCPD
from tui.loaders.rocpd.first_rocprof import ROCPROF_DATABASE as ROCPROF_DATABASE
