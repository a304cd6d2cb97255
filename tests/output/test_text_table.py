from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import kernel, make_profile
from tui.analysis.ops.op_types import OP_TYPE_SUMMARY, op_type_summary
from tui.model.columns import columns
from tui.model.table_spec import TableState
from tui.output.report import Style, table_lines
from tui.output.text_table import lay_out_table, write_columns
from tui.query.facts import ColumnFacts
from tui.text import to_ascii
from tui.text_width import cell_width
from tui.widgets.table.cells import CellWriter

COLUMNS = columns("name", "total_ns", "time_pct", "calls", "avg_ns", "max_ns", "kind")
ROWS = pl.DataFrame(
    {
        "name": ["void cudnn::detail::dgrad_engine<float, int=128>(int, float const *)", "[CUDA memset]\x1b[2J"],
        "total_ns": [353_980_000, 1_025],
        "time_pct": [99.9997, 0.0003],
        "calls": [1_200, 1],
        "avg_ns": [294_983, 1_025],
        "max_ns": [300_000, 1_025],
        "kind": ["kernel", "memset"],
    }
)


def test_numbers_are_aligned_and_the_name_comes_last() -> None:
    table = lay_out_table(write_columns(COLUMNS, ROWS), name="name", width=100)
    assert table.lines == (
        "Total ms   Time%  Calls  Avg µs  Max µs  Kind    Name",
        "  353.98  >99.99  1,200  294.98  300.00  kernel  cudnn::detail::dgrad_engine<float, int=128>",
        "  0.0010   <0.01      1    1.02    1.02  memset  [CUDA memset]·[2J",
    )
    assert table.left_out == ()


def test_columns_of_low_priority_are_left_out_first() -> None:
    table = lay_out_table(write_columns(COLUMNS, ROWS), name="name", width=50)
    assert table.lines[0] == "Total ms   Time%  Calls  Name"
    assert table.lines[1] == "  353.98  >99.99  1,200  detail::dgrad_engine"
    assert table.left_out == ("Avg µs", "Max µs", "Kind")


def test_columns_are_left_out_only_if_they_do_not_fit() -> None:
    written = write_columns(COLUMNS, ROWS.with_columns(pl.Series("name", ["gemm", "relu"])))
    table = lay_out_table(written, name="name", width=200)
    width = max(map(cell_width, table.lines))
    assert table.lines[1].endswith("kernel  gemm")
    assert (lay_out_table(written, name="name", width=width).lines, table.left_out) == (table.lines, ())
    assert lay_out_table(written, name="name", width=width - 1).left_out == ("Kind",)


def test_text_tables_in_ascii() -> None:
    table = lay_out_table(write_columns(COLUMNS, ROWS), name="name", width=60)
    assert "?" not in to_ascii("".join(table.lines))
    assert "Avg us" in map(to_ascii, (*table.left_out, *table.lines[0].split("  ")))


@given(st.integers(30, 200), st.lists(st.text("行aß<,>:", min_size=1, max_size=80), min_size=1, max_size=5))
def test_no_line_is_wider_than_the_table(width: int, names: list[str]) -> None:
    rows = ROWS.sample(len(names), with_replacement=True).with_columns(pl.Series("name", names))
    table = lay_out_table(write_columns(COLUMNS, rows), name="name", width=width)
    assert all(cell_width(line) <= width for line in table.lines)
    assert len(table.lines) == 1 + len(names)


def test_a_name_that_is_not_a_symbol_comes_first() -> None:
    rows = pl.DataFrame({"op": ["convolution forward", "pooling"], "total_ns": [353_980_000, 1_440_000]})
    assert lay_out_table(write_columns(columns("op", "total_ns"), rows), name="op", width=80).lines == (
        "Op                   Total ms",
        "convolution forward    353.98",
        "pooling                  1.44",
    )


def test_names_that_differ_at_the_end_are_cut_in_the_middle() -> None:
    ops = [f"transformer decoder attention block {end}" for end in ("forward", "backward")]
    rows = pl.DataFrame({"op": ops, "total_ns": [2_000, 1_000]})
    assert lay_out_table(write_columns(columns("op", "total_ns"), rows), name="op", width=40).lines == (
        "Op                              Total µs",
        "transformer decoder at…forward     2.000",
        "transformer decoder a…backward     1.000",
    )


@pytest.mark.parametrize("width", [80, 120])
def test_a_table_without_rows_is_its_heading(width: int) -> None:
    assert lay_out_table(write_columns(COLUMNS, ROWS.clear()), name="name", width=width).lines == (
        "Total ns  Time%  Calls  Avg ns  Max ns  Kind  Name",
    )


def test_text_columns_use_the_width_that_the_name_does_not_need() -> None:
    reason = "data loading not recorded: no op or range has such a name"
    rows = pl.DataFrame({"op": ["Dataloader"], "why_no_op": [reason]})
    table = {
        width: lay_out_table(write_columns(columns("op", "why_no_op"), rows), name="op", width=width)
        for width in (80, 50)
    }
    assert table[80].lines[1] == f"Dataloader  {reason}"
    assert table[50].lines[1] == "Dataloader  data loading not recorded: no op or r…"


def test_the_meaning_of_a_missing_value_is_stated() -> None:
    rows = pl.DataFrame({"name": ["gemm", "copy"], "iteration": [3, None], "duration_ns": [None, 7]})
    texts = write_columns(
        (columns("name")[0], replace(columns("iteration")[0], absent="outside"), *columns("duration_ns")), rows
    )
    assert [text.cells for text in texts] == [["gemm", "copy"], ["3", "outside"], ["–", "7"]]


def test_a_report_of_several_sessions_has_the_session_first() -> None:
    profile = make_profile(activities=[kernel("sgemm", 10, session=0), kernel("sgemm", 20, session=1)])
    assert table_lines(OP_TYPE_SUMMARY, op_type_summary(profile), Style(40))[:3] == [
        "Type  GPU time ns   Time%  Session",
        "gemm           20  100.00        1",
        "gemm           10  100.00        0",
    ]


COMPARED = pl.DataFrame(
    {
        "op": ["gemm", "copy"],
        "a_total_ns": [1_500.0, None],
        "b_total_ns": [2_500_000.0, 30.0],
        "a_avg_ns": [750.0, None],
        "b_avg_ns": [20_000.0, 30.0],
    }
)


def test_compared_columns_have_one_unit() -> None:
    assert lay_out_table(write_columns(columns(*COMPARED.columns), COMPARED), name="op", width=80).lines == (
        "Op    Baseline ms  Candidate ms  Baseline avg µs  Candidate avg µs",
        "gemm       0.0015         2.500            0.750            20.000",
        "copy            –       <0.0001                –             0.030",
    )


def test_compared_columns_are_shown_together_or_not_at_all() -> None:
    table = lay_out_table(write_columns(columns(*COMPARED.columns), COMPARED), name="op", width=40)
    assert table.lines[0] == "Op    Baseline ms  Candidate ms"
    assert table.left_out == ("Baseline avg µs", "Candidate avg µs")


def test_names_with_equal_beginnings_are_distinguished_as_on_a_screen() -> None:
    names = [
        f"void at::native::vectorized_kernel<4, at::native::{functor}Functor<float> >(int)"
        for functor in ("Add", "Mul")
    ]
    rows = pl.DataFrame({"name": names, "total_ns": [2, 1]})
    lines = lay_out_table(write_columns(columns("name", "total_ns"), rows), name="name", width=36).lines
    cells = CellWriter(columns("name")[0], ColumnFacts(rows["name"]), TableState(), is_pinned=True)
    assert [line.split(maxsplit=1)[1] for line in lines[1:]] == [cells.fitted(name, 26) for name in names]
    assert ["Add" in line for line in lines[1:]] == [True, False]
