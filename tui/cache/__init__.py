"""The cache: frames of large files, kept so that they open at once the next time, and checked before use."""
