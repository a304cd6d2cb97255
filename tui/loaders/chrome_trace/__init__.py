"""Chrome's trace event JSON, which several profilers write: read fast, and in whatever state it is."""
