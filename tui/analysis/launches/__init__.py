"""One launch: its configuration, where it came from, how long it waited, how to profile it next."""
