"""Several files at once: each is read by its own process if that is faster."""
