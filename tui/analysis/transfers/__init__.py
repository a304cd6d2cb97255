"""Copies and memsets: how many, how large, how fast."""
