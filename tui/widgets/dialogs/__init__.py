"""Dialogs: what they share, and those that belong to a table."""
