"""Rows of separated values: bulk reading equals reading row by row."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tui.loaders.text.block import Block
from tui.loaders.text.csv_table import CsvTable
from tui.loaders.text.section import unique_names

if TYPE_CHECKING:
    from tui.loaders.text.block import Line

HEADER = re.compile("first")
ENDS = re.compile("==")


class Sink:
    """Stores all rows."""

    def __init__(self) -> None:
        self.parts: list[pl.DataFrame] = []
        self.bad: list[int] = []

    def add(self, cells: pl.DataFrame) -> None:
        self.parts.append(cells.cast({name: pl.String for name in cells.columns if name != "line"}))

    def damaged(self, line: Line, reason: str) -> None:
        self.bad.append(line.number)

    def close(self) -> None:
        pass

    @property
    def rows(self) -> list[tuple[object, ...]]:
        return pl.concat(self.parts).rows() if self.parts else []


def read(text: str, *, bulk: bool, width: int = 3, whole: tuple[str, ...] = (), last_is_text: bool = False) -> Sink:
    """Read all lines of a text as a table; with ``bulk`` off, one by one."""
    sink = Sink()
    columns = ["a", "b", "c", "d"][:width]
    table = CsvTable(columns, sink, header=HEADER, end_pattern=ENDS, integer_columns=whole, last_is_text=last_is_text)
    block = Block.from_data(text.encode(), 1)
    index = 0
    while index < block.line_count:
        if bulk:
            index = table.take_block(block, index)
        if index < block.line_count and not table.take(block.line(index)):
            break
        index += 1
    table.close()
    return sink


CELLS = st.text(st.sampled_from('ab1,"\n é'), max_size=6)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=90))
def test_rows_written_by_csv_writers_are_read_back(rows: list[tuple[str, str, str]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerows([("x" + a, b, c) for a, b, c in rows])
    expected = [("x" + a, b or None, c or None) for a, b, c in rows]
    for bulk in (True, False):
        sink = read(text.getvalue(), bulk=bulk)
        assert [row[:3] for row in sink.rows] == expected
        assert sink.bad == []
    assert read(text.getvalue(), bulk=True).rows == read(text.getvalue(), bulk=False).rows


@given(st.lists(st.text(st.sampled_from('ab1,"=- é\t'), max_size=12), max_size=200))
def test_garbage_reads_the_same_in_bulk_and_row_by_row(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    bulk, single = (read(text, bulk=bulk, whole=("a",) if bulk else ()) for bulk in (True, False))
    assert bulk.rows == single.rows
    assert bulk.bad == single.bad


def test_rows_read_in_bulk_have_their_lines_and_an_irregular_row_is_read_alone() -> None:
    lines = [f"{n},x{n},{2 * n}" for n in range(1000)]
    lines[400] = '400,"two\nlines",800'
    sink = read("\n".join(lines) + "\n", bulk=True, whole=("a", "c"))
    assert [row[0] for row in sink.rows] == [str(n) for n in range(1000)]
    assert sink.rows[400] == ("400", "two\nlines", "800", 401)
    assert sink.rows[401][3] == 403
    assert sink.bad == []
    digits_as_text = read("1,007,2\n3,008,4\n", bulk=True, whole=("a", "c"))
    assert digits_as_text.rows == [("1", "007", "2", 1), ("3", "008", "4", 2)]


def test_a_column_with_late_non_integers_is_text() -> None:
    sink = read("".join(f"{n},x,{n}\n" for n in range(200)) + "n/a,x,1.5\n", bulk=True, whole=("a", "c"))
    assert sink.rows[-1] == ("n/a", "x", "1.5", 201)
    assert len(sink.rows) == 201


def test_another_header_or_line_ends_the_table() -> None:
    rows = "".join(f"{n},x,{n}\n" for n in range(300))
    for end in ("first,b,c\n", "== the end ==\n"):
        for bulk in (True, False):
            assert len(read(rows + end + rows, bulk=bulk).rows) == 300


def test_a_missing_quotation_mark_hides_no_other_header() -> None:
    for bulk in (True, False):
        sink = read('1,x,2\n3,"x,4\nfirst,b,c\n5,x,6\n', bulk=bulk)
        assert (sink.rows, sink.bad) == ([("1", "x", "2", 1)], [2])


def test_rows_with_missing_or_surplus_cells_are_reported() -> None:
    text = "1,2,3\n4,5\n1,2,3,4,5\n7,8,9\n"
    sink = read(text, bulk=True)
    assert [row[3] for row in sink.rows] == [1, 4]
    assert sink.bad == [2, 3]
    assert read('1,2,3\n"a, b",2\n4,5,6\n', bulk=True).bad == [2]
    assert read(text, bulk=True, last_is_text=True).rows[1] == ("1", "2", "3,4,5", 3)


def test_program_output_between_rows_is_skipped_and_much_of_it_ends_the_table() -> None:
    few_lines = read("1,2,3\n" + "hello\n" * 20 + "4,5,6\n", bulk=True)
    assert [row[3] for row in few_lines.rows] == [1, 22]
    assert few_lines.bad == []
    assert len(read("1,2,3\n" + "hello\n" * 21 + "4,5,6\n", bulk=True).rows) == 1
    assert len(read("1,2,3\n\nhello\n4,5,6\n", bulk=True).rows) == 1


def test_names_of_columns_are_distinct() -> None:
    assert unique_names(["a", "a", "a 1", "", "line"]) == ["a", "a 1", "a 1 2", "column 3", "line 4"]
