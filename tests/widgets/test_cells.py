from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from tests.widgets.tables import DGRAD, HOSTILE, KERNELS, SPEC, WIDE
from tui.model.columns import COLUMNS, ColumnKind, columns
from tui.model.view import TableState
from tui.query.facts import ColumnFacts
from tui.widgets.cells import CellWriter, units_of, writers


def writer(name: str, values: object = None, **state: object) -> CellWriter:
    series = KERNELS[name] if values is None else pl.Series(values)  # type: ignore[arg-type]
    return CellWriter(COLUMNS[name], ColumnFacts(series), TableState(**state), total_ns=754_000_000)  # type: ignore[arg-type]


def test_one_unit_for_a_column_of_durations() -> None:
    total = writer("total_ns")
    assert total.title == "Total ms"
    assert total.whole(353_980_000) == "353.98"
    assert total.whole(209_360) == "0.21"


def test_the_unit_that_the_user_wants() -> None:
    assert (writer("total_ns", unit="us").title, writer("total_ns", unit="s").title) == ("Total µs", "Total s")
    assert writer("total_ns", unit="ns").whole(353_980_000) == "353,980,000"
    assert units_of(SPEC.columns, KERNELS, TableState())["min_ns"] == "ms"


def test_durations_as_shares_of_the_total() -> None:
    total = writer("total_ns", as_share=True)
    assert total.title == "Total %"
    assert total.whole(377_000_000) == "50.00"
    assert writer("calls", as_share=True).whole(48) == "48"


def test_unknown_is_never_a_number() -> None:
    assert writer("registers").fitted(None, 5) == "–"
    assert writer("total_ns", as_share=True).whole(None) == "–"
    assert (
        CellWriter(COLUMNS["uses_tensor_core"], ColumnFacts(pl.Series([None, True])), TableState()).whole(None) == "?"
    )
    assert CellWriter(COLUMNS["std_ns"], ColumnFacts(pl.Series([None], dtype=pl.Float64)), TableState()).title == "Std"


def test_names_are_harmless_shortened_and_as_wide_as_they_look() -> None:
    name = writer("name")
    assert name.fitted(HOSTILE, 40) == "evil·[31m[red]kernel[/red]·"
    assert name.fitted(DGRAD, 12) == "dgrad_engine"
    assert writer("name", full_names=True).fitted(DGRAD, 20) == "void cudnn::detail:…"
    assert writer("name", [WIDE]).width == 15
    # As wide as the longest short name, not as the longest full one.
    assert name.width == len("maxwell_scudnn_128x64_relu_small_nn_v1")
    assert writer("name", full_names=True).width == len(DGRAD)


def test_a_number_is_never_cut() -> None:
    assert writer("total_ns").fitted(353_980_000, 4) == "####"


def test_a_name_of_a_hundred_thousand_characters_costs_a_cell() -> None:
    name = writer("name", ["k" * 100_000])
    assert name.width == 240
    assert name.fitted("k" * 100_000, 10) == "kkkkk…kkkk"


@pytest.mark.parametrize("name", [column.name for column in SPEC.columns])
def test_every_value_fits_the_width_of_its_column(name: str) -> None:
    written = writers(SPEC.columns, KERNELS, TableState())[name]
    for value in KERNELS[name].to_list():
        assert "#" not in written.fitted(value, written.width)
        if written.column.kind is not ColumnKind.SYMBOL:
            assert written.fitted(value, written.width) == written.whole(value)


def test_what_is_absent_may_have_a_word_and_the_room_for_it() -> None:
    column = replace(columns("iteration")[0], title="#", absent="outside")
    cells = CellWriter(column, ColumnFacts(pl.Series([3, None], dtype=pl.Int32)), TableState())
    assert (cells.whole(None), cells.whole(3), cells.width) == ("outside", "3", len("outside"))
    assert CellWriter(column, ColumnFacts(pl.Series([3], dtype=pl.Int32)), TableState()).width == 1
