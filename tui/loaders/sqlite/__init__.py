"""Profiles that are SQLite databases: opening one safely, and which format reads it."""
