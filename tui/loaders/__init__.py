"""Readers of profiles: one format a module; each gives a `Profile`."""
