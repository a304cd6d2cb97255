"""Several files at once: each read by a process of its own where that is quicker, as the ranks of a job are."""
