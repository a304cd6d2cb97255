"""Benchmarks of speed and memory, relative to floors measured in the same run: ``python -m bench``."""
