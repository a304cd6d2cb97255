"""AMD's rocprof: the CSV, JSON and databases (rocpd) of its first version and of rocprofv3."""

from tui.loaders.rocprof.rocprof_csv import ROCPROF_CSV, ROCPROFV3_CSV
from tui.loaders.rocprof.rocprof_database import ROCPD, ROCPROF_DATABASE

__all__ = ["ROCPD", "ROCPROFV3_CSV", "ROCPROF_CSV", "ROCPROF_DATABASE"]
