"""Textual widgets that are independent of screens."""
