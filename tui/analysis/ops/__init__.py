"""Ops, recorded or inferred: by name, by type, by call, as a tree."""
