"""The CSV that Nsight Compute prints."""
