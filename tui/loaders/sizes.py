"""Sizes as the messages of loaders say them."""

from __future__ import annotations


def size_in_words(size: int) -> str:
    """A size for a message, in powers of 1024.

    >>> size_in_words(1), size_in_words(1 << 20), size_in_words(1_288_490_189)
    ('1 byte', '1 MB', '1.2 GB')
    """
    if size < 1024:
        return f"{size} byte" if size == 1 else f"{size} bytes"
    value, unit = float(size), 0
    while value >= 1024 and unit < 4:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f}".removesuffix(".0") + f" {' KMGT'[unit]}B"
