from __future__ import annotations

import polars as pl
import pytest

from tests.query.tables import FRAME, TABLE
from tui.model.columns import columns
from tui.model.table_spec import TableSpec, TableState
from tui.query.apply import apply
from tui.query.compile import apply_global_filter, as_global_filter

LAUNCHES = TableSpec(
    "launches", "Launches", columns("start_ns", "duration_ns", "stream", "src_memory"), ("start_ns",), pinned="start_ns"
)
LAUNCH_FRAME = pl.DataFrame(
    {"start_ns": [1, 2], "duration_ns": [10, 2_000_000], "stream": [7, 14], "src_memory": ["gemm", None]}
)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("gemm", "gemm"),
        ("total>100", "total_ns>100ms"),
        ("TOTAL>100us", "total_ns>100us"),
        ("total=1..2", "total_ns=1ms..2ms"),
        ("total=1..2s", "total_ns=1..2s"),
        ("total=..2", "total_ns=..2ms"),
        ("time>5%", "time>5%"),
        ("calls<10k", "calls<10k"),
        ("(gemm | conv) !total<1", "(gemm | conv) !total_ns<1ms"),
        ("total=?", "total_ns=?"),
        ("name~^void", "name~/^void/"),
        ("nothing:x", "nothing:x"),
    ],
)
def test_a_global_filter_means_the_same_in_every_table(typed: str, expected: str) -> None:
    assert as_global_filter(typed, columns=TABLE.columns, units={"total_ns": "ms"}) == expected


@pytest.mark.parametrize("text", ["gemm", "total>1", "total=1..2", "time>5% | gemm", "tc=1", "!tc=0"])
def test_a_global_filter_keeps_the_same_rows(text: str) -> None:
    global_filter = as_global_filter(text, columns=TABLE.columns, units={"total_ns": "ms"})
    filtered = apply(FRAME, TABLE, TableState(filter=text), units={"total_ns": "ms"})
    globally_filtered = apply(FRAME, TABLE, TableState(), units={"total_ns": "us"}, global_filter=global_filter)
    assert filtered.take(FRAME)["id"].to_list() == globally_filtered.take(FRAME)["id"].to_list()
    assert globally_filtered.global_filter_reason == ""


def test_a_global_filter_is_applied_in_addition_to_the_filter_of_the_table() -> None:
    result = apply(FRAME, TABLE, TableState(filter="calls<10"), global_filter="gemm")
    assert (
        result.take(FRAME)["id"].to_list()
        == apply(FRAME, TABLE, TableState(filter="gemm calls<10")).take(FRAME)["id"].to_list()
    )
    assert 0 < result.shown < FRAME.height


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gemm", "no names"),
        ("!gemm stream=7", "no names"),
        ("calls>3", "no column calls"),
    ],
)
def test_a_global_filter_that_does_not_apply_keeps_all_rows(text: str, reason: str) -> None:
    result = apply(LAUNCH_FRAME, LAUNCHES, TableState(), global_filter=text)
    assert result.rows is None
    assert result.global_filter_reason == reason


@pytest.mark.parametrize(
    ("name", "pinned"), [("src_memory", "src_memory"), ("name", "start_ns")], ids=["pinned text", "symbol"]
)
def test_a_filter_by_name_needs_a_pinned_text_or_a_symbol(name: str, pinned: str) -> None:
    spec = TableSpec("launches", "Launches", columns("start_ns", name), ("start_ns",), pinned=pinned)
    frame = pl.DataFrame({"start_ns": [1, 2], name: ["gemm", "relu"]})
    mask, reason = apply_global_filter("gemm", frame, spec)
    assert mask is not None
    assert (mask.to_list(), reason) == ([True, False], "")


def test_a_global_filter_needs_only_its_own_columns() -> None:
    mask, reason = apply_global_filter("stream=7", LAUNCH_FRAME, LAUNCHES)
    assert mask is not None
    assert (mask.to_list(), reason) == ([True, False], "")
