"""Correlation of events: nested intervals, GPU work to its launch, op and iteration, NVTX ranges to ops."""
