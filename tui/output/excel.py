"""Excel export: rows on one sheet, metadata on another and in the print header."""

from __future__ import annotations

import io
import re
from typing import IO, TYPE_CHECKING, Any, Final

import polars as pl

from tui.model.errors import ProftuiError
from tui.output.packages import load
from tui.text import plain

if TYPE_CHECKING:
    from tui.output.about import About

ROWS: Final = 1_048_575
"""Rows of a sheet, less the heading."""

CHARACTERS: Final = 32_767
"""Characters of a cell."""

DIGITS_MOST: Final = 10**15
"""Excel keeps 15 digits of a number: what has more is written as a text."""

HEADER_CHARACTERS: Final = 60
"""Characters of a part of a page's header: Excel takes 255 for all of it, and refuses more."""

_NOT_IN_SHEET_NAMES: Final = re.compile(r"[\[\]:*?/\\']")
_SHEET_NAME_MOST: Final = 31


def write_xlsx(frame: pl.DataFrame, stream: IO[bytes], about: About | None = None) -> None:
    """Write a workbook.

    The sheet of the rows holds nothing but a heading and the rows: other programs read it as it is.

    Args:
        frame: The rows.
        stream: Where to.
        about: What the rows are of; None: nothing is said of it.

    Raises:
        ProftuiError: The package is missing, or there are too many rows for a sheet.
    """
    xlsxwriter = load("xlsx")
    if frame.height > ROWS:
        raise ProftuiError(
            f"an Excel sheet holds {ROWS:,} rows, this table has {frame.height:,}", "export csv or parquet"
        )
    # Texts stay texts: a kernel name that starts with = must not become a formula, nor one with :// a link.
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "nan_inf_to_errors": True}
    # Numbers as they are: polars would show thousands separators and round to three decimals.
    number_formats: Any = {dtype: "0" if dtype.is_integer() else "General" for dtype in set(frame.dtypes)}
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, options) as workbook:
        sheet = workbook.add_worksheet(sheet_name(about.title if about else ""))
        frame.with_columns(pl.col(pl.String).str.slice(0, CHARACTERS)).write_excel(
            workbook, worksheet=sheet, dtype_formats=number_formats, freeze_panes=(1, 0)
        )
        _write_long_numbers(frame, sheet)
        if about is not None:
            _say(workbook, sheet, about)
    stream.write(buffer.getbuffer())


def _write_long_numbers(frame: pl.DataFrame, sheet: Any) -> None:
    """Write anew, as texts, the whole numbers that Excel would round, as addresses and times of day in ns."""
    for place, column in enumerate(frame):
        if column.dtype.is_integer():
            # As fractions, which any whole number can be: short ones cannot be compared with one so large.
            too_long = (column.cast(pl.Float64).abs() >= DIGITS_MOST).arg_true()
            for row, value in zip(too_long, column.gather(too_long), strict=True):
                sheet.write_string(row + 1, place, str(value))


def sheet_name(title: str) -> str:
    """A name that Excel takes for a sheet.

    >>> sheet_name("Ops/Kernels: [all]"), sheet_name("")
    ('Ops Kernels all', 'proftui')
    """
    words = " ".join(_NOT_IN_SHEET_NAMES.sub(" ", plain(title)).split())[:_SHEET_NAME_MOST].strip()
    # Excel keeps these two for itself.
    return words if words.lower() not in ("", "history", "about") else "proftui"


def _say(workbook: Any, sheet: Any, about: About) -> None:
    left, middle, right = (_header_part(text) for text in (about.profile, about.title, about.date))
    sheet.set_header(f"&L{left}&C{middle}&R{right}")
    sheet.set_footer("&R&P / &N")
    sheet.set_landscape()
    sheet.repeat_rows(0)
    told = workbook.add_worksheet("About")
    told.set_column(0, 0, 12)
    told.set_column(1, 1, 80)
    for row, (name, value) in enumerate(about.facts().items()):
        told.write_string(row, 0, name.replace("_", " "))
        told.write_string(row, 1, plain(value)[:CHARACTERS])
    workbook.set_properties({"title": plain(about.title)[:255], "subject": plain(about.profile)[:255]})


def _header_part(text: str) -> str:
    # An ampersand starts one of Excel's own signs; a digit would be read as a size of letters.
    return plain(text)[:HEADER_CHARACTERS].replace("&", "&&")
