"""Chrome's trace event JSON, which several profilers write: reading it fast, and whatever state it is in."""
