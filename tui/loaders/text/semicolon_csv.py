"""Tables saved by a spreadsheet with semicolons between cells and a decimal comma."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.loaders.text.block import Block
from tui.loaders.text.cell_values import decimal_sign
from tui.loaders.text.section import split_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.text.block import Cues

_LEAST: Final = 3
"""Semicolons in a line of a table."""
_MOST_HEADERS: Final = 50
"""So many lines of the beginning that may be a header are looked at."""
_TITLE: Final = re.compile(r"[^,]{1,60}|[^,\s]{1,160}")
"""The title of a column: a few words, or the name of a metric."""
_NUMBER: Final = r"^[+-]?[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?$"
_OF_COMMA: Final = r"^[+-]?(?:[0-9]+|[0-9]{1,3}(?:\.[0-9]{3})+)(?:,[0-9]*)?(?:[eE][+-]?[0-9]+)?$"
"""A number with a decimal comma, maybe with points between thousands."""


@dataclass(frozen=True, slots=True)
class Semicolons:
    """How a text writes its tables."""

    has_comma: bool | None
    """Whether numbers have a decimal comma; None where they prove neither: nothing is read of them then."""

    @property
    def words(self) -> str:
        """What to say of it."""
        if self.has_comma is None:
            return (
                "cells are separated by semicolons, and it is ambiguous whether numbers have a decimal comma: save the "
                "table with commas between cells and decimal points"
            )
        numbers = "a decimal comma" if self.has_comma else "a decimal point"
        return f"cells are separated by semicolons, as spreadsheets save them, and numbers have {numbers}: read as such"

    def with_commas(self, block: Block) -> Block:
        """The same lines, those of tables with commas between cells and decimal points."""
        if self.has_comma is None:
            return block
        lines = block.data.split(b"\n")[:-1]
        counts = np.array([line.count(b";") for line in lines])
        for count in np.unique(counts[counts >= _LEAST]):
            places = np.flatnonzero(counts == count)
            for place, line in zip(places, self._rewritten([lines[place] for place in places]), strict=True):
                lines[place] = line
        made = Block.of(b"".join(line + b"\n" for line in lines), block.first_line)
        made.bytes_read = block.bytes_read
        return made

    def _rewritten(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """Lines with as many semicolons; as they are where they are no cells."""
        cells = _cells(lines)
        if cells is None:
            # One of them is damaged, which costs it alone.
            halves = (lines[: len(lines) // 2], lines[len(lines) // 2 :])
            return lines if len(lines) == 1 else [line for half in halves for line in self._rewritten(half)]
        if self.has_comma:
            plain = pl.all().str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
            cells = cells.with_columns(pl.when(pl.all().str.contains(_OF_COMMA)).then(plain).otherwise(pl.all()))
        is_row = cells.select(pl.any_horizontal(pl.all().str.contains(_NUMBER).fill_null(False))).to_series()
        written = [
            cells.write_csv(include_header=False, quote_style=style).encode().split(b"\n")[:-1]
            for style in ("always", "necessary")
        ]
        if any(len(one) != len(lines) for one in written):
            return lines
        # Headers are quoted, as tools write them.
        return [rows if row else headers for headers, rows, row in zip(*written, is_row, strict=True)]


def semicolons_in(head: bytes, cues: Cues) -> Semicolons | None:
    """How the tables of a text are written, where a header with semicolons proves it; None elsewhere.

    Args:
        head: The beginning of the text.
        cues: Find headers with commas.
    """
    if head.count(b";") < _LEAST:
        return None
    lines = [line for line in head.splitlines() if line.count(b";") >= _LEAST]
    for place, line in enumerate(lines[:_MOST_HEADERS]):
        cells = split_cells(line.decode("utf-8", "replace"), ";")
        header = ",".join('"' + cell.replace('"', '""') + '"' for cell in cells).encode()
        names = {cell for cell in cells if _TITLE.fullmatch(cell)}
        if not _LEAST < len(names) == len(cells) or line.startswith(b"==") or not cues.are_in(header):
            continue
        # The last line may be cut.
        whole = lines if head.endswith(b"\n") else lines[:-1]
        rows = [split_cells(row.decode("utf-8", "replace"), ";") for row in whole[place + 1 :] or lines[place + 1 :]]
        texts = pl.Series([cell for row in rows for cell in row], dtype=pl.String)
        numbers = texts.filter(texts.str.contains(_NUMBER))
        sign = decimal_sign(numbers)
        is_open = sign is None and numbers.str.contains(r"[.,]").any()
        return Semicolons(None if is_open else sign == ",")
    return None


def _cells(lines: Sequence[bytes]) -> pl.DataFrame | None:
    """The cells of lines, a column each, all text; None where not each line is a row with all cells."""
    width = len(split_cells(lines[0].decode("utf-8", "replace"), ";"))
    if width <= _LEAST:
        return None
    data = b"".join(line + b"\n" for line in lines).decode("utf-8", "replace").encode()
    schema = {f"cell {number}": pl.String() for number in range(width)}
    try:
        cells = pl.read_csv(data, has_header=False, separator=";", schema=schema)
    except pl.exceptions.PolarsError:
        return None
    # Quotation marks that have no end take other lines in, and a name may hold a semicolon.
    is_whole = cells.height == len(lines) and not data.count(b'"') % 2
    return cells if is_whole and cells.to_series(width - 1).null_count() < max(len(lines), 2) else None
