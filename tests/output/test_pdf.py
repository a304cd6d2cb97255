from __future__ import annotations

import base64
import io
import re
import zlib
from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.model.columns import columns
from tui.model.errors import ProftuiError
from tui.output import documents
from tui.output.documents import GAP, LINE_LETTERS, PAGE_LINES, lay_out_pages, letters
from tui.output.export import About, write_frame
from tui.output.text_table import write_columns

ABOUT = About(
    "run (1).nvprof.log",
    "Kernels",
    rows="2 of 9 rows",
    filter="gemm",
    when=datetime(2026, 11, 21, 16, 20, tzinfo=UTC),
)
FRAME = pl.DataFrame(
    {
        "name": ["void gemm<float>(int)", "行列積", "\x1b[31mred(", None],
        "total_ns": [353_980_000, 1_000, None, 0],
        "uses_tensor_core": [True, False, None, None],
        "my own": [1.5, None, 2.0, 3.0],
    }
)


def text_of_pdf(content: bytes) -> str:
    """Return the text of all pages of a PDF that proftui wrote."""
    streams = re.findall(rb"stream\r?\n(.*?)endstream", content, re.DOTALL)
    pages = [
        zlib.decompress(
            base64.a85decode(stream.strip(), adobe=False)
            if b"~>" not in stream
            else base64.a85decode(stream.strip()[:-2])
        )
        for stream in streams
    ]
    return "\n".join(page.decode("latin-1") for page in pages)


def exported_text(frame: pl.DataFrame) -> str:
    stream = io.BytesIO()
    write_frame(frame, stream, "pdf", about=ABOUT)
    assert stream.getvalue().startswith(b"%PDF-")
    return text_of_pdf(stream.getvalue()).replace("\\(", "(").replace("\\)", ")")


def test_header_units_and_hostile_names() -> None:
    text = exported_text(FRAME)
    assert "Kernels: run (1).nvprof.log" in text
    assert "2 of 9 rows, filter gemm" in text
    assert "2026-11-21 16:20 UTC" in text
    assert "1 / 1" in text
    assert re.search(r"Name +Total ms +TC +my own", text)
    assert re.search(r"void gemm<float>\(int\) +353\.98 +yes +1\.5", text)
    # Letters outside Latin-1 are written as escapes; control characters are removed.
    assert "\\\\u884c\\\\u5217\\\\u7a4d" in text
    assert "[31mred(" in text
    assert "\x1b" not in text


def test_long_names_are_wrapped_and_complete() -> None:
    name = "".join(f"{number:04}" for number in range(120))
    (page,) = lay_out_pages(
        write_columns(columns("name", "calls"), pl.DataFrame({"name": [name, "b"], "calls": [1, 2]}))
    )
    assert "".join(line[: documents.NAME_WIDEST].strip() for line in page.lines[:-1]).startswith(name)
    assert page.lines[0].endswith(" 1")
    assert page.shaded == (*[False] * 7, True)


def test_columns_that_do_not_fit_are_on_further_pages_with_the_name() -> None:
    names = [f"column {number:02}" for number in range(40)]
    frame = pl.DataFrame({"kind": "kernel", "name": ["a", "b"], **{name: [10**9, 1] for name in names}})
    text = exported_text(frame)
    assert all(name in text for name in names)
    assert text.count("Name  ") > 1


def test_every_page_of_many_rows_has_the_headings() -> None:
    pages = lay_out_pages(write_columns(columns("calls"), pl.DataFrame({"calls": list(range(PAGE_LINES * 2 + 1))})))
    assert [len(page.lines) for page in pages] == [PAGE_LINES, PAGE_LINES, 1]
    assert {page.headings.strip() for page in pages} == {"Calls"}


@given(st.lists(st.text(max_size=300), min_size=1, max_size=20), st.integers(1, 12))
def test_no_line_is_wider_than_the_page(names: list[str], column_count: int) -> None:
    frame = pl.DataFrame({"name": names, **{f"other {index}": names for index in range(column_count)}})
    pdf_columns = [documents._program_column(name, dtype) for name, dtype in frame.schema.items()]
    for page in lay_out_pages(write_columns(pdf_columns, frame)):
        assert len(page.headings) <= LINE_LETTERS
        assert all(len(line) <= LINE_LETTERS for line in page.lines)
        assert len(page.lines) <= PAGE_LINES
    assert GAP > 0
    assert all(ord(letter) < 256 for name in names for letter in letters(name))


def test_a_frame_without_rows_is_a_page_with_a_heading() -> None:
    assert re.search("Name +Total", exported_text(FRAME.clear()))


def test_too_many_rows_for_a_pdf_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_ROWS", 3)
    with pytest.raises(ProftuiError, match=r"this table has 4 rows; the limit of a PDF is 3; filter it, use :top 100"):
        exported_text(FRAME)


def test_without_its_package_pdf_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "reportlab.pdfgen.canvas", None)
    with pytest.raises(ProftuiError, match=r"PDF files require the package reportlab; pip install 'proftui\[pdf\]'"):
        exported_text(FRAME)
