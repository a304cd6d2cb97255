"""Traces of XLA's profiler (JAX, TensorFlow 2), as JSON for trace viewers."""
