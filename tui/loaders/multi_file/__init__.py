"""Several files at once: each is read by a process of its own where that is faster."""
