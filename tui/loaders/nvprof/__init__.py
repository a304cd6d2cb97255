"""The text that nvprof prints: summaries, traces, metrics, and its messages."""
