from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tui.cli.arguments import BINARY_FORMATS, EXPORT_FORMATS
from tui.model.errors import ProftuiError
from tui.output import documents, export
from tui.output.documents import missing_package
from tui.output.export import (
    About,
    for_clipboard,
    for_terminal,
    format_by_extension,
    formula_warning,
    markdown_table,
    write_frame,
)
from tui.output.json_document import JsonTable

NAMES = ['void f<float, 4>(int, "x")', "=SUM(A1)", "+a|b", "line\nend", "\x1b[31mred", None, "http://x"]


@pytest.fixture
def frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "name": pl.Series(NAMES, dtype=pl.Categorical()),
            "total_ns": pl.Series([753_580_086, None, 2**53 + 1, 0, 1, 2, 3], dtype=pl.Int64),
            "time_pct": [100.0, 0.1, None, 1 / 3, 5e-324, 1e300, -0.5],
            "uses_tensor_core": [True, False, None, None, None, None, None],
        }
    )


def written_bytes(frame: pl.DataFrame, format_name: str) -> bytes:
    stream = io.BytesIO()
    write_frame(frame, stream, format_name)
    return stream.getvalue()


def with_string_names(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("name").cast(pl.String))


def test_texts_that_a_spreadsheet_would_evaluate_give_a_warning(frame: pl.DataFrame) -> None:
    expected = "2 values start like formulas: for spreadsheets, use xlsx"
    assert [formula_warning(frame, name) for name in ("csv", "tsv", "xlsx", "json")] == [expected, expected, "", ""]
    harmless = pl.DataFrame({"name": ["gemm", "-", "a=b", None], "total_ns": [-1, 2, 3, 4]})
    assert formula_warning(harmless, "csv") == formula_warning(harmless.select("total_ns"), "csv") == ""


@pytest.mark.parametrize(("format_name", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_separated_values_keep_every_byte_and_digit(frame: pl.DataFrame, format_name: str, delimiter: str) -> None:
    text = written_bytes(frame, format_name).decode()
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    assert rows[0] == ["name", "total_ns", "time_pct", "uses_tensor_core"]
    assert [row[0] for row in rows[1:]] == [name or "" for name in NAMES]
    assert [row[1] for row in rows[1:]] == ["753580086", "", "9007199254740993", "0", "1", "2", "3"]
    assert [float(row[2]) if row[2] else None for row in rows[1:]] == frame["time_pct"].to_list()
    assert [row[3] for row in rows[1:]] == ["true", "false", "", "", "", "", ""]
    assert "\r" not in text


def test_json_is_a_list_of_objects(frame: pl.DataFrame) -> None:
    assert json.loads(written_bytes(frame, "json")) == frame.to_dicts()
    assert [json.loads(line) for line in written_bytes(frame, "ndjson").splitlines()] == frame.to_dicts()


def test_parquet_reads_back_with_its_types(frame: pl.DataFrame) -> None:
    assert_frame_equal(pl.read_parquet(io.BytesIO(written_bytes(frame, "parquet"))), with_string_names(frame))


def test_columns_of_a_sheet_are_as_wide_as_headings_and_names() -> None:
    frame = pl.DataFrame({"uses_tensor_core": [True], "n": [1], "name": ["k" * 30], "long": ["k" * 900]})
    with zipfile.ZipFile(io.BytesIO(written_bytes(frame, "xlsx"))) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml").decode()
    # Excel adds 5 pixels to a width of 7 pixels per character.
    widths = [round(float(width)) for width in re.findall(r'<col [^>]*width="([0-9.]+)"', sheet)]
    assert widths == [21, 11, 31, 61]


def test_excel_cells_are_texts_and_numbers_but_no_formulas(frame: pl.DataFrame) -> None:
    with zipfile.ZipFile(io.BytesIO(written_bytes(frame, "xlsx"))) as archive:
        sheet = ElementTree.fromstring(archive.read("xl/worksheets/sheet1.xml"))
        shared_strings = ElementTree.fromstring(archive.read("xl/sharedStrings.xml"))
        styles = archive.read("xl/styles.xml").decode()
    namespaces = {"x": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}
    texts = ["".join(item.itertext()) for item in shared_strings.findall("x:si", namespaces)]
    assert "=SUM(A1)" in texts
    assert "http://x" in texts
    assert sheet.find(".//x:f", namespaces) is None
    assert sheet.find(".//x:hyperlink", namespaces) is None
    cell = sheet.find(".//x:c[@r='B2']/x:v", namespaces)
    assert cell is not None
    assert cell.text == "753580086"
    assert "#,##0" not in styles
    # Excel keeps 15 digits of a number, and all digits of a text.
    long_cell = sheet.find(".//x:c[@r='B4']", namespaces)
    assert long_cell is not None
    assert long_cell.get("t") == "s"
    assert texts[int(long_cell.findtext("x:v", "", namespaces))] == str(2**53 + 1)


@pytest.mark.parametrize(
    ("value", "cell_type"), [(10**15, "s"), (-(10**15), "s"), (10**15 - 1, None), (1 - 10**15, None)]
)
def test_excel_numbers_of_more_than_15_digits_are_texts(value: int, cell_type: str | None) -> None:
    with zipfile.ZipFile(io.BytesIO(written_bytes(pl.DataFrame({"n": [value]}), "xlsx"))) as archive:
        sheet = ElementTree.fromstring(archive.read("xl/worksheets/sheet1.xml"))
    cell = sheet.find(".//x:c[@r='A2']", {"x": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"})
    assert cell is not None
    assert cell.get("t") == cell_type


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt8, pl.Int16, pl.UInt16, pl.Int32, pl.UInt32, pl.Int64, pl.UInt64])
def test_excel_accepts_integers_of_every_width(dtype: pl.DataType) -> None:
    assert written_bytes(pl.DataFrame({"n": [0, 100, None]}, schema={"n": dtype}), "xlsx").startswith(b"PK")


def test_a_table_too_long_for_excel_is_an_error(monkeypatch: pytest.MonkeyPatch, frame: pl.DataFrame) -> None:
    monkeypatch.setattr(documents, "ROWS", 6)
    with pytest.raises(ProftuiError, match=r"more than an Excel sheet can hold \(6\); export it as csv or parquet"):
        written_bytes(frame, "xlsx")


def test_excel_without_its_package_names_the_command(monkeypatch: pytest.MonkeyPatch, frame: pl.DataFrame) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xlsxwriter", None)
    with pytest.raises(ProftuiError, match=r"pip install 'proftui\[excel\]'"):
        written_bytes(frame, "xlsx")


def test_markdown_cells_escape_markup(frame: pl.DataFrame) -> None:
    lines = written_bytes(frame, "markdown").decode().splitlines()
    assert lines[:3] == [
        "| name | total_ns | time_pct | uses_tensor_core |",
        "| --- | ---: | ---: | --- |",
        '| void f\\<float, 4>(int, "x") | 753580086 | 100.0 | true |',
    ]
    assert lines[4].startswith("| +a\\|b | 9007199254740993 |")
    assert lines[5].startswith("| line·end | 0 |")
    assert len(lines) == 2 + len(NAMES)


def test_markdown_escapes() -> None:
    markdown = markdown_table(["a_b", "n"], [["__x__ *y* `z` [l](u) &amp; <b>", "1"]], [False, True])
    assert markdown.splitlines()[2] == "| \\_\\_x\\_\\_ \\*y\\* \\`z\\` \\[l](u) &amp;amp; \\<b> | 1 |"


def test_control_characters_are_replaced_for_a_terminal(frame: pl.DataFrame) -> None:
    assert for_terminal(frame)["name"].to_list()[3:6] == ["line·end", "·[31mred", None]


def test_a_failed_write_leaves_no_file(tmp_path: Path, frame: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out.csv"

    def write_half(_frame: pl.DataFrame, stream: io.BytesIO, _about: object) -> None:
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(export.FORMATS, "csv", write_half)
    with pytest.raises(ProftuiError, match=r"out\.csv cannot be written: No space left on device"):
        write_frame(frame, target, "csv")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_only_on_request(tmp_path: Path, frame: pl.DataFrame) -> None:
    target = tmp_path / "out.tsv"
    target.write_text("mine")
    with pytest.raises(ProftuiError, match=r"out\.tsv exists; .*--overwrite"):
        write_frame(frame, target, "tsv")
    assert target.read_text() == "mine"
    write_frame(frame, target, "tsv", overwrite=True)
    assert target.read_bytes() == written_bytes(frame, "tsv")
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path, frame: pl.DataFrame) -> None:
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    write_frame(frame, tmp_path / "link.csv", "csv", overwrite=True)
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_bytes() == written_bytes(frame, "csv")
    write_frame(frame, Path("/dev/null"), "csv")
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("name", ["", "missing/out.csv"])
def test_a_path_that_cannot_be_written_is_an_error(tmp_path: Path, frame: pl.DataFrame, name: str) -> None:
    with pytest.raises(ProftuiError, match=r"is a directory|cannot be written: No such file"):
        write_frame(frame, tmp_path / name, "csv")


def test_an_unknown_format_is_an_error_that_lists_the_formats() -> None:
    with pytest.raises(ProftuiError, match=r"cannot export docx; formats: csv, tsv"):
        write_frame(pl.DataFrame(), io.BytesIO(), "docx")


def test_the_extension_of_a_path_gives_the_format() -> None:
    assert [format_by_extension(path) for path in ("a.CSV", "a.jsonl", "a.md", "a.xlsx", "csv", "a.txt")] == [
        "csv",
        "ndjson",
        "markdown",
        "xlsx",
        None,
        None,
    ]


def test_the_command_line_offers_every_format() -> None:
    assert tuple(export.FORMATS) == EXPORT_FORMATS
    assert set(BINARY_FORMATS) < set(EXPORT_FORMATS)


ABOUT = About(
    "a&b [1].log",
    "Ops/Kernels",
    "kernels",
    of="session 1",
    aggregation="iterations 3:7",
    rows="5 of 7 rows",
    filter="x|y",
    when=datetime(2026, 11, 21, 16, 20, tzinfo=UTC),
)
SELECTION = "session 1, iterations 3:7, 5 of 7 rows, filter x|y"


def exported_bytes(frame: pl.DataFrame, format_name: str) -> bytes:
    stream = io.BytesIO()
    write_frame(frame, stream, format_name, about=ABOUT)
    return stream.getvalue()


@pytest.mark.parametrize("format_name", ["csv", "tsv", "ndjson"])
def test_formats_for_programs_have_no_metadata(frame: pl.DataFrame, format_name: str) -> None:
    assert exported_bytes(frame, format_name) == written_bytes(frame, format_name)


def test_json_of_a_view_has_metadata_and_rows(frame: pl.DataFrame) -> None:
    assert json.loads(exported_bytes(frame, "json")) == {
        "profile": "a&b [1].log",
        "view": "kernels",
        "title": "Ops/Kernels",
        "of": "session 1",
        "aggregation": "iterations 3:7",
        "shown": "5 of 7 rows",
        "filter": "x|y",
        "exported": "2026-11-21 16:20 UTC",
        "rows": json.loads(written_bytes(frame, "json")),
    }
    hostile = replace(ABOUT, profile='a"}\x1b]52;c;eA==\x07\n.log')
    stream = io.BytesIO()
    write_frame(frame.head(0), stream, "json", about=hostile)
    assert b"\x1b" not in stream.getvalue()
    assert json.loads(stream.getvalue()) | {"exported": ""} == {**hostile.facts(), "rows": [], "exported": ""}


def test_the_clipboard_has_a_line_of_metadata_above_the_rows(frame: pl.DataFrame) -> None:
    line, blank, table = for_clipboard(frame, replace(ABOUT, profile="a\tb\x1b]0;x\x07\n.log")).split("\n", 2)
    assert line == f"a·b·]0;x··.log: Ops/Kernels ({SELECTION})"
    assert (blank, table) == ("", written_bytes(frame, "tsv").decode())


def test_parquet_has_metadata_and_rows(frame: pl.DataFrame) -> None:
    content = exported_bytes(frame, "parquet")
    assert_frame_equal(pl.read_parquet(io.BytesIO(content)), with_string_names(frame))
    metadata = pl.read_parquet_metadata(io.BytesIO(content))
    assert metadata["proftui.profile"] == "a&b [1].log"
    assert (metadata["proftui.shown"], metadata["proftui.filter"]) == ("5 of 7 rows", "x|y")
    # The file depends on the rows alone, not on the time of the export.
    assert "proftui.exported" not in metadata


def test_markdown_begins_with_metadata(frame: pl.DataFrame) -> None:
    lines = exported_bytes(frame, "markdown").decode().splitlines()
    assert lines[0] == "### Ops/Kernels: a&amp;b \\[1].log"
    assert lines[2] == SELECTION.replace("|", "\\|") + ", 2026-11-21 16:20 UTC"
    assert "\n".join(lines[4:]) + "\n" == written_bytes(frame, "markdown").decode()


def test_excel_has_rows_and_metadata_on_separate_sheets(frame: pl.DataFrame) -> None:
    with zipfile.ZipFile(io.BytesIO(exported_bytes(frame, "xlsx"))) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml").decode()
        names = re.findall(r'<sheet name="([^"]*)"', archive.read("xl/workbook.xml").decode())
        texts = archive.read("xl/sharedStrings.xml").decode()
    assert names == ["Ops Kernels", "About"]
    assert re.search(r'<row r="1"[^>]*><c r="A1"', sheet)
    assert "&amp;La&amp;&amp;b [1].log&amp;COps/Kernels&amp;R2026-11-21 16:20 UTC" in sheet
    assert all(f">{text}<" in texts for text in ("a&amp;b [1].log", "5 of 7 rows", "x|y", "iterations 3:7"))


def test_a_missing_package_is_reported_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [missing_package(name) for name in EXPORT_FORMATS] == [""] * len(EXPORT_FORMATS)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert missing_package("pdf") == "PDF files require the package reportlab; pip install 'proftui[pdf]'"
    assert missing_package("csv") == ""


def test_nan_and_infinity_are_null_in_json() -> None:
    rows = pl.DataFrame({"name": ["a", "b", "c", "d"], "rate": [1.5, float("nan"), float("inf"), None]})
    objects = JsonTable(rows, key=("name",)).objects(None)
    assert [(row["name"], row["rate"]) for row in objects] == [("a", 1.5), ("b", None), ("c", None), ("d", None)]
    assert len(JsonTable(rows).objects(2)) == 2
