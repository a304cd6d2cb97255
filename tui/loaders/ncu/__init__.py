"""The CSV that Nsight Compute prints."""

from tui.loaders.ncu.ncu_csv import NCU_CSV

__all__ = ["NCU_CSV"]
