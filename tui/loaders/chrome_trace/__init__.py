"""Chrome's trace event JSON, which several profilers write: a fast parser, and a tolerant one for damaged files."""
