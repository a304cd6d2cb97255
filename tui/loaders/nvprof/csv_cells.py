"""Splits the lines that nvprof writes with ``--csv``."""

from __future__ import annotations

import csv


def csv_cells(text: str) -> list[str]:
    """The cells of one line, without blanks around them; none where it cannot be split.

    >>> csv_cells('1.5,, "f(int, int) [7]"')
    ['1.5', '', 'f(int, int) [7]']
    """
    try:
        return [cell.strip() for cell in next(csv.reader([text], skipinitialspace=True), [])]
    except csv.Error:
        return []
