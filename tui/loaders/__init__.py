"""Readers of profiles: one file or folder for each format; each reads an input into a `Profile`."""
