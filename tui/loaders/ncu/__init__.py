"""The CSV that Nsight Compute prints."""

from tui.loaders.ncu.reader import NCU_CSV

__all__ = ["NCU_CSV"]
