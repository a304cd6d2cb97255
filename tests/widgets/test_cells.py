from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from tests.widgets.tables import DGRAD, HOSTILE, KERNELS, SPEC, WIDE
from tui.model.columns import COLUMNS, ColumnKind, columns
from tui.model.table_spec import TableState
from tui.query.facts import ColumnFacts
from tui.text_width import cell_width
from tui.widgets.table.cells import CellWriter, units_of, writers


def writer(name: str, values: object = None, **state: object) -> CellWriter:
    series = KERNELS[name] if values is None else pl.Series(values)  # type: ignore[arg-type]
    return CellWriter(COLUMNS[name], ColumnFacts(series), TableState(**state), total_ns=754_000_000)  # type: ignore[arg-type]


def test_one_unit_for_a_column_of_durations() -> None:
    total = writer("total_ns")
    assert total.title == "Total ms"
    assert total.full_text(353_980_000) == "353.98"
    assert total.full_text(209_360) == "0.21"


def test_the_unit_that_the_user_selected() -> None:
    assert (writer("total_ns", unit="us").title, writer("total_ns", unit="s").title) == ("Total µs", "Total s")
    assert writer("total_ns", unit="ns").full_text(353_980_000) == "353,980,000"
    assert units_of(SPEC.columns, KERNELS, TableState())["min_ns"] == "ms"


def test_durations_as_shares_of_the_total() -> None:
    total = writer("total_ns", as_share=True)
    assert total.title == "Total%"
    assert total.full_text(377_000_000) == "50.00"
    assert writer("calls", as_share=True).full_text(48) == "48"


def test_differences_have_a_sign_within_their_width() -> None:
    share = writer("delta_pct", [250.0, -1.0, 0.0, None])
    assert [share.full_text(value) for value in (250.0, -1.0, 0.0, None)] == ["+250.00", "-1.00", "0.00", "–"]
    assert share.width == len("+250.00")
    assert writer("delta_ns", [15_969_000, -5]).with_unit(15_969_000) == "+15.969 ms"


def test_unknown_values_are_no_numbers() -> None:
    assert writer("registers").fitted(None, 5) == "–"
    assert writer("total_ns", as_share=True).full_text(None) == "–"
    assert (
        CellWriter(COLUMNS["uses_tensor_core"], ColumnFacts(pl.Series([None, True])), TableState()).full_text(None)
        == "?"
    )
    assert CellWriter(COLUMNS["std_ns"], ColumnFacts(pl.Series([None], dtype=pl.Float64)), TableState()).title == "Std"


def test_names_are_plain_shortened_and_measured_in_cells() -> None:
    name = writer("name")
    assert name.fitted(HOSTILE, 40) == "evil·[31m[red]kernel[/red]·"
    assert name.fitted(DGRAD, 12) == "dgrad_engine"
    assert writer("name", full_names=True).fitted(DGRAD, 20) == "detail::dgrad_engine"
    assert writer("name", [WIDE]).width == 15
    # As wide as the longest short name, not as the longest full one.
    assert name.width == len("maxwell_scudnn_128x64_relu_small_nn_v1")
    assert writer("name", full_names=True).width == len(DGRAD)


def test_names_that_differ_in_the_cut_part_are_distinguished() -> None:
    way = "autograd::engine::evaluate_function: "
    ops = [f"{way}{name}" for name in ("AddBackward0", "MulBackward0", "torch::autograd::AccumulateGrad")]
    shown = CellWriter(COLUMNS["op"], ColumnFacts(pl.Series(ops)), TableState(), is_pinned=True)
    assert [shown.fitted(op, 30) for op in ops] == [
        "engine: AddBackward0",
        "engine: MulBackward0",
        "engine: AccumulateGrad",
    ]
    assert shown.fitted("aten::add", 30) == "aten::add"


def test_sentences_are_cut_at_their_end_after_names_in_them() -> None:
    sentences = [
        "`batch_norm_collect_statistics` launches 16 blocks",
        "`batch_norm_collect_statistics` takes 2.02 waves",
    ]
    shown = CellWriter(COLUMNS["reason"], ColumnFacts(pl.Series(sentences)), TableState(), is_pinned=True)
    assert [shown.fitted(each, 34) for each in sentences] == [
        "`batch_nor…atistics` launches 16 …",
        "`batch_nor…atistics` takes 2.02 …",
    ]


def test_a_number_is_never_cut() -> None:
    assert writer("total_ns").fitted(353_980_000, 4) == "####"


def test_a_very_long_name_is_cut_quickly() -> None:
    name = writer("name", ["k" * 100_000])
    assert name.width == 240
    assert name.fitted("k" * 100_000, 10) == "kkkkk…kkkk"


@pytest.mark.parametrize("name", [column.name for column in SPEC.columns])
def test_every_value_fits_the_width_of_its_column(name: str) -> None:
    written = writers(SPEC.columns, KERNELS, TableState())[name]
    for value in KERNELS[name].to_list():
        assert "#" not in written.fitted(value, written.width)
        if written.column.kind is not ColumnKind.SYMBOL:
            assert written.fitted(value, written.width) == written.full_text(value)


def test_absent_values_can_have_a_text_within_the_width() -> None:
    column = replace(columns("iteration")[0], title="#", absent="outside")
    cells = CellWriter(column, ColumnFacts(pl.Series([3, None], dtype=pl.Int32)), TableState())
    assert (cells.full_text(None), cells.full_text(3), cells.width) == ("outside", "3", len("outside"))
    assert CellWriter(column, ColumnFacts(pl.Series([3], dtype=pl.Int32)), TableState()).width == 1


CHANGED = pl.DataFrame(
    {
        "name": ["slower", "new", "gone"],
        "a_total_ns": [1_500.0, None, 40.0],
        "b_total_ns": [2_500_000.0, 30.0, None],
        "delta_ns": [2_498_500.0, 30.0, -40.0],
        "delta_pct": [166_566.67, None, -100.0],
        "a_calls": [1 / 3, None, 1.0],
        "b_calls": [2.0, 9.0, None],
    }
)
CHANGED_COLUMNS = columns(*CHANGED.columns)


def test_columns_that_are_compared_have_one_unit() -> None:
    written = writers(CHANGED_COLUMNS, CHANGED, TableState())
    assert [written[name].title for name in ("a_total_ns", "b_total_ns", "delta_ns")] == [
        "Baseline ms",
        "Candidate ms",
        "Diff ms",
    ]
    assert [written[name].full_text(CHANGED[name][0]) for name in ("a_total_ns", "b_total_ns")] == ["0.0015", "2.500"]
    units = units_of(CHANGED_COLUMNS, CHANGED, TableState())
    assert {units[name] for name in ("a_total_ns", "b_total_ns", "delta_ns")} == {"ms"}


def test_hidden_columns_count_for_the_common_unit() -> None:
    alone = writers(columns("a_total_ns"), CHANGED, TableState())["a_total_ns"]
    assert alone.title == "Baseline ms"
    assert (
        writers(columns("a_total_ns"), CHANGED.drop("b_total_ns", "delta_ns"), TableState())["a_total_ns"].title
        == "Baseline µs"
    )


@pytest.mark.parametrize("name", CHANGED.columns[1:])
def test_differences_and_fractions_fit_the_width_of_their_column(name: str) -> None:
    # What is small for its column is longer than the smallest and the largest.
    small = CHANGED.with_columns(pl.Series("delta_ns", [9e6, 30.0, -40.0]), pl.Series("delta_pct", [-0.5, -0.001, 0.5]))
    for frame in (CHANGED, small):
        written = writers(CHANGED_COLUMNS, frame, TableState())[name]
        for value in frame[name].to_list():
            assert written.fitted(value, written.width) == written.full_text(value)
            assert cell_width(written.full_text(value)) <= max(written.width, 1)


def test_the_width_of_many_fractions_fits_any_of_them() -> None:
    many = pl.Series([place + 0.00012345 * (place % 2) for place in range(30_000)]).replace(1.00012345, 0.00012345)
    calls = CellWriter(COLUMNS["a_calls"], ColumnFacts(many), TableState())
    assert calls.fitted(0.00012345, calls.width) == "0.00012345"


def test_the_width_of_many_measures_fits_the_largest_with_its_unit() -> None:
    frame = pl.DataFrame({"avg": [float(place) for place in range(600)], "unit": ["%/register", "inst"] * 300})
    assert writers(columns("avg", "unit"), frame, TableState())["avg"].width == len("598 %/register") + 2
    long = frame.vstack(pl.DataFrame({"avg": [15_515_136_719.0], "unit": ["inst"]}))
    avg = writers(columns("avg", "unit"), long, TableState())["avg"]
    assert avg.width == len("15,515,136,719 insts")
    assert avg.measure(15_515_136_719.0, "inst") == "15,515,136,719 insts"


def test_shapes_that_do_not_fit_lose_their_brackets_in_the_whole_column() -> None:
    long, short = "[[4096, 1024], [1024, 32000], []]", "[[8, 16]]"
    shapes = writer("input_shapes", [long, short])
    assert [shapes.fitted(text, 33) for text in (long, short)] == [long, short]
    assert [shapes.fitted(text, 25) for text in (long, short)] == ["4096x1024, 1024x32000, []", "8x16"]
    assert shapes.fitted(long, 20) == "4096x1024, 1024x320…"
