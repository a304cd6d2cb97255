"""Exports as documents, Excel workbooks and PDF files, which need optional packages."""

from __future__ import annotations

import importlib
import importlib.util
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

import polars as pl

from tui.model.columns import COLUMNS, Column, ColumnKind
from tui.model.errors import ProftuiError
from tui.output.text_table import WrittenColumn, write_columns
from tui.text import plain

if TYPE_CHECKING:
    from types import ModuleType

    from tui.output.export import About


NEEDED: Final = {
    "xlsx": ("xlsxwriter", "excel", "Excel files"),
    "pdf": ("reportlab.pdfgen.canvas", "pdf", "PDF files"),
}
"""For each such format the module, the extra of proftui that installs it, and its purpose."""


def load_writer(format_name: str) -> ModuleType:
    """Import the module that writes a format.

    Raises:
        ProftuiError: It is not installed; with the command.
    """
    try:
        return importlib.import_module(NEEDED[format_name][0])
    except ImportError:
        raise ProftuiError(*_missing_package_texts(format_name)) from None


def missing_package(format_name: str) -> str:
    """Return why a format cannot be written because its package is missing; empty if it can."""
    if format_name not in NEEDED:
        return ""
    try:
        is_installed = importlib.util.find_spec(NEEDED[format_name][0].partition(".")[0]) is not None
    except (ImportError, ValueError):
        is_installed = False
    return "" if is_installed else "; ".join(_missing_package_texts(format_name))


def _missing_package_texts(format_name: str) -> tuple[str, str]:
    module, extra, purpose = NEEDED[format_name]
    return f"{purpose} require the package {module.partition('.')[0]}", f"pip install 'proftui[{extra}]'"


ROWS: Final = 1_048_575
"""The maximum number of rows of a sheet, without the heading."""

CHARACTERS: Final = 32_767
"""The maximum length of a cell."""

MAX_DIGITS: Final = 10**15
"""Excel keeps 15 digits of a number; longer ones are written as text."""

HEADER_CHARACTERS: Final = 60
"""The maximum length of each part of a page's header; Excel accepts 255 in all."""

_NOT_IN_SHEET_NAMES: Final = re.compile(r"[\[\]:*?/\\']")
_MAX_SHEET_NAME: Final = 31
_MIN_WIDTH, _MAX_WIDTH, _BUTTON_WIDTH = 10, 60, 4
"""Characters of a column of a sheet, and of the filter button in its heading."""


def write_xlsx(frame: pl.DataFrame, stream: IO[bytes], about: About | None = None) -> None:
    """Write a workbook.

    The sheet of the rows has only a heading and the rows, for other programs.

    Args:
        frame: The rows.
        stream: The stream to write to.
        about: The description of the rows; None: no description.

    Raises:
        ProftuiError: The package is missing, or there are too many rows for a sheet.
    """
    xlsxwriter = load_writer("xlsx")
    if frame.height > ROWS:
        raise ProftuiError(
            f"this table has {frame.height:,} rows, more than an Excel sheet can hold ({ROWS:,})",
            "export it as csv or parquet",
        )
    # Texts stay texts: a kernel name that starts with = must not become a formula, nor one with :// a link.
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "nan_inf_to_errors": True}
    # Plain numbers: Polars would show thousands separators and round to three decimals.
    number_formats: Any = {dtype: "0" if dtype.is_integer() else "General" for dtype in set(frame.dtypes)}
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, options) as workbook:
        sheet = workbook.add_worksheet(sheet_name(about.title if about else ""))
        frame.with_columns(pl.col(pl.String).str.slice(0, CHARACTERS)).write_excel(
            workbook, worksheet=sheet, dtype_formats=number_formats, freeze_panes=(1, 0)
        )
        _write_long_numbers(frame, sheet)
        _set_widths(frame, sheet)
        if about is not None:
            _add_about_sheet(workbook, sheet, about)
    stream.write(buffer.getbuffer())


def _write_long_numbers(frame: pl.DataFrame, sheet: Any) -> None:
    """Rewrite as text the integers that Excel would round, as addresses and times of day in ns."""
    for index, column in enumerate(frame):
        if column.dtype.is_integer():
            # As floats, since small integer types cannot be compared with a number this large.
            too_long = (column.cast(pl.Float64).abs() >= MAX_DIGITS).arg_true()
            for row, value in zip(too_long, column.gather(too_long), strict=True):
                sheet.write_string(row + 1, index, str(value))


def _set_widths(frame: pl.DataFrame, sheet: Any) -> None:
    """Make columns as wide as their headings, which have a filter button, and as their texts up to `_MAX_WIDTH`."""
    for index, column in enumerate(frame):
        width = max(len(column.name) + _BUTTON_WIDTH, _MIN_WIDTH)
        if column.dtype == pl.String:
            longest = column.str.len_chars().max()
            width = max(width, min(longest if isinstance(longest, int) else 0, _MAX_WIDTH))
        sheet.set_column(index, index, width)


def sheet_name(title: str) -> str:
    """Return a valid name for a sheet.

    >>> sheet_name("Ops/Kernels: [all]"), sheet_name("")
    ('Ops Kernels all', 'proftui')
    """
    text = " ".join(_NOT_IN_SHEET_NAMES.sub(" ", plain(title)).split())[:_MAX_SHEET_NAME].strip()
    # Excel keeps these two for itself.
    return text if text.lower() not in ("", "history", "about") else "proftui"


def _add_about_sheet(workbook: Any, sheet: Any, about: About) -> None:
    left, middle, right = (_header_part(text) for text in (about.profile, about.title, about.date))
    sheet.set_header(f"&L{left}&C{middle}&R{right}")
    sheet.set_footer("&R&P / &N")
    sheet.set_landscape()
    sheet.repeat_rows(0)
    about_sheet = workbook.add_worksheet("About")
    about_sheet.set_column(0, 0, 12)
    about_sheet.set_column(1, 1, 80)
    for row, (name, value) in enumerate(about.facts().items()):
        about_sheet.write_string(row, 0, name.replace("_", " "))
        about_sheet.write_string(row, 1, plain(value)[:CHARACTERS])
    workbook.set_properties({"title": plain(about.title)[:255], "subject": plain(about.profile)[:255]})


def _header_part(text: str) -> str:
    # An ampersand starts a code of Excel; a digit would be read as a font size.
    return plain(text)[:HEADER_CHARACTERS].replace("&", "&&")


MAX_ROWS: Final = 20_000
"""Hundreds of pages; more are not useful."""

PAGE: Final = (841.89, 595.28)
"""A4, landscape, in points."""
MARGIN: Final = 30.0
FONT, BOLD, FONT_SIZE = "Courier", "Courier-Bold", 7.0
LEADING: Final = 8.6
LETTER: Final = 0.6 * FONT_SIZE
"""The width of a letter of Courier."""
LINE_LETTERS: Final = int((PAGE[0] - 2 * MARGIN) / LETTER)
HEADER_LINES: Final = 4
"""The lines of a page's header: title, rows, a blank line, headings."""
PAGE_LINES: Final = int((PAGE[1] - 2 * MARGIN) / LEADING) - HEADER_LINES - 1
GAP: Final = 2
NAME_WIDEST: Final = 72
TEXT_WIDEST: Final = 28
REPEATED_WIDEST: Final = 40
"""The maximum width of the first column when it is repeated on further pages."""
MAX_CELL: Final = 2_000
"""The maximum length of a cell; longer texts end in ``...``."""


@dataclass(frozen=True, slots=True)
class PdfPage:
    """The contents of a page below its header."""

    headings: str
    lines: tuple[str, ...]
    shaded: tuple[bool, ...]
    """Whether each line belongs to a shaded row, which is every second one."""


def write_pdf(frame: pl.DataFrame, stream: IO[bytes], about: About | None = None) -> None:
    """Write a PDF.

    Args:
        frame: The rows; known columns are written with their units.
        stream: The stream to write to.
        about: The header of every page.

    Raises:
        ProftuiError: The package is missing, or there are too many rows to read.
    """
    canvas_module = load_writer("pdf")
    if frame.height > MAX_ROWS:
        raise ProftuiError(
            f"this table has {frame.height:,} rows; the limit of a PDF is {MAX_ROWS:,}",
            "filter it, use :top 100, or export it as csv",
        )
    columns = [_program_column(name, dtype) for name, dtype in frame.schema.items()]
    pages = lay_out_pages(write_columns(columns, frame))
    canvas = canvas_module.Canvas(stream, pagesize=PAGE, pageCompression=1)
    canvas.setCreator("proftui")
    if about is not None:
        canvas.setTitle(letters(f"{about.title}: {about.profile}"))
    for number, page in enumerate(pages, 1):
        _draw(canvas, page, about, f"{number} / {len(pages)}")
        canvas.showPage()
    canvas.save()


def letters(text: str) -> str:
    r"""Convert a text to the characters that every PDF reader has (Latin-1); others become numbers.

    >>> letters("µs 行\n")
    'µs \\u884c·'
    """
    return plain(text).encode("latin-1", "backslashreplace").decode("latin-1")


def lay_out_pages(columns: Sequence[WrittenColumn]) -> list[PdfPage]:
    """Lay out pages: all rows of the columns that fit side by side, then all rows of the others."""
    pages = []
    for strip in _strips(columns):
        blocks = _rows(strip)
        headings = _line(
            [letters(column.heading)[:width] for column, width in strip], [(column, width) for column, width in strip]
        )
        lines: list[str] = []
        shaded: list[bool] = []
        for number, block in enumerate(blocks):
            if lines and len(lines) + len(block) > PAGE_LINES:
                pages.append(PdfPage(headings, tuple(lines), tuple(shaded)))
                lines, shaded = [], []
            for line in block:
                if len(lines) == PAGE_LINES:
                    pages.append(PdfPage(headings, tuple(lines), tuple(shaded)))
                    lines, shaded = [], []
                lines.append(line)
                shaded.append(number % 2 == 1)
        pages.append(PdfPage(headings, tuple(lines), tuple(shaded)))
    return pages


Strip = list[tuple[WrittenColumn, int]]
"""Columns side by side, with their widths in characters."""


def _strips(columns: Sequence[WrittenColumn]) -> list[Strip]:
    widths = {id(column): _width(column) for column in columns}
    if sum(widths.values()) + GAP * (len(columns) - 1) <= LINE_LETTERS:
        return [[(column, widths[id(column)]) for column in columns]]
    texts = [column for column in columns if column.is_text]
    named = [column for column in texts if column.column.kind is ColumnKind.SYMBOL]
    name = next(iter((*named, *texts, *columns)))
    first = (name, min(widths[id(name)], REPEATED_WIDEST))
    strips: list[Strip] = [[first]]
    room = LINE_LETTERS - first[1]
    for column in columns:
        if column is name:
            continue
        width = min(widths[id(column)], LINE_LETTERS - first[1] - GAP)
        if room < width + GAP:
            strips.append([first])
            room = LINE_LETTERS - first[1]
        strips[-1].append((column, width))
        room -= width + GAP
    return strips


def _width(column: WrittenColumn) -> int:
    widest = max((len(letters(cell[:MAX_CELL])) for cell in (column.heading, *column.cells)), default=1)
    if column.column.kind is ColumnKind.SYMBOL:
        return min(widest, NAME_WIDEST)
    return min(widest, TEXT_WIDEST) if column.is_text else widest


def _rows(strip: Strip) -> list[list[str]]:
    """Return the lines of each row: long cells are wrapped."""
    blocks = []
    for cells in zip(*(column.cells for column, _ in strip), strict=True):
        wrapped = [_wrap(cell, width) for cell, (_, width) in zip(cells, strip, strict=True)]
        height = max(map(len, wrapped))
        blocks.append(
            [_line([cell[line] if line < len(cell) else "" for cell in wrapped], strip) for line in range(height)]
        )
    return blocks


def _wrap(cell: str, width: int) -> list[str]:
    text = letters(cell if len(cell) <= MAX_CELL else f"{cell[:MAX_CELL]}...")
    return [text[start : start + width] for start in range(0, len(text), width)] or [""]


def _line(cells: Sequence[str], strip: Strip) -> str:
    padded = (
        cell.ljust(width) if column.is_text else cell.rjust(width)
        for cell, (column, width) in zip(cells, strip, strict=True)
    )
    return (" " * GAP).join(padded).rstrip()


def _program_column(name: str, dtype: pl.DataType) -> Column:
    """Return the program's column for a name, if the frame has values of its type."""
    column = COLUMNS.get(name)
    is_text = not dtype.is_numeric() and dtype != pl.Boolean
    if column is not None and is_text is (column.kind in (ColumnKind.TEXT, ColumnKind.SYMBOL)):
        return column
    kind = ColumnKind.TEXT if is_text else ColumnKind.FLAG if dtype == pl.Boolean else ColumnKind.NUMBER
    return Column(name, name, kind, "")


def _draw(canvas: Any, page: PdfPage, about: About | None, number: str) -> None:
    width, height = PAGE
    y = height - MARGIN - FONT_SIZE
    canvas.setFont(BOLD, FONT_SIZE + 2)
    if about is not None:
        canvas.drawString(MARGIN, y, letters(f"{about.title}: {about.profile}")[:120])
        canvas.setFont(FONT, FONT_SIZE)
        canvas.drawRightString(width - MARGIN, y, letters(about.date))
        canvas.drawString(MARGIN, y - LEADING, letters(about.rows_text)[:LINE_LETTERS])
    canvas.setFont(FONT, FONT_SIZE)
    canvas.drawRightString(width - MARGIN, MARGIN - LEADING, number)
    y -= (HEADER_LINES - 1) * LEADING
    canvas.setFont(BOLD, FONT_SIZE)
    canvas.drawString(MARGIN, y, page.headings)
    canvas.setLineWidth(0.5)
    canvas.line(MARGIN, y - 2, width - MARGIN, y - 2)
    canvas.setFont(FONT, FONT_SIZE)
    for line, is_shaded in zip(page.lines, page.shaded, strict=True):
        y -= LEADING
        if is_shaded:
            canvas.setFillGray(0.93)
            canvas.rect(MARGIN, y - 2, width - 2 * MARGIN, LEADING, stroke=0, fill=1)
            canvas.setFillGray(0)
        canvas.drawString(MARGIN, y, line)
