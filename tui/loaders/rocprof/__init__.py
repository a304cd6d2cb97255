"""The CSV files of AMD's rocprof, of its first version and of rocprofv3."""

from tui.loaders.rocprof.rocprof_csv import ROCPROF_CSV, ROCPROFV3_CSV

__all__ = ["ROCPROFV3_CSV", "ROCPROF_CSV"]
