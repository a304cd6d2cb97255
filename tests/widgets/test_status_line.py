from __future__ import annotations

from tui.widgets.table.status_line import TableStatus

FULL = TableStatus(
    shown=128,
    total=4096,
    weight_share=37.2,
    weight_title="time",
    find="gemm",
    found=12,
    found_at=3,
    filter="dur>1ms",
    sorted_by="Total ▼",
    columns_after=5,
)


def test_a_full_status_line() -> None:
    line = FULL.fitted_line(120)
    assert line.startswith("128 of 4,096 rows · 37.20% of time · find 3/12 · filter dur>1ms · sorted by Total ▼")
    assert line.endswith("+5 columns →")
    assert len(line) == 120


def test_the_least_important_parts_are_dropped_first() -> None:
    assert FULL.fitted_line(64) == "128 of 4,096 rows · 37.20% of time · find 3/12      +5 columns →"
    assert FULL.fitted_line(34) == "128 of 4,096 rows     +5 columns →"


def test_empty_parts_are_left_out() -> None:
    assert TableStatus(shown=4096, total=4096).fitted_line(30).rstrip() == "4,096 rows"
    assert TableStatus(is_loading=True, title="Ops").fitted_line(30).rstrip() == "Ops: loading…"
    assert TableStatus(shown=1, total=1).fitted_line(30).rstrip() == "1 row"
    assert (
        TableStatus(shown=0, total=8, filter="x", weight_share=None)
        .fitted_line(40)
        .startswith("0 of 8 rows · filter x")
    )
    assert "find: no match" in TableStatus(shown=8, total=8, find="zzz").fitted_line(60)
    assert "find 12 found" in TableStatus(shown=20, total=20, find="a", found=12).fitted_line(60)


def test_a_title_is_before_the_rows() -> None:
    assert TableStatus(title="Kernels", shown=3, total=3).fitted_line(30).rstrip() == "Kernels: 3 rows"


def test_hidden_columns_on_either_side() -> None:
    status = TableStatus(shown=2, total=2, columns_before=3, columns_after=1)
    assert status.hidden_columns_text() == "← 3 · +1 column →"


def test_a_long_filter_is_cut_before_it_is_dropped() -> None:
    status = TableStatus(shown=33, total=80, filter='name~"implicit gemm" | kind=memcpy')
    assert status.fitted_line(48).rstrip() == '33 of 80 rows · filter name~"implicit gemm" | k…'
    assert status.fitted_line(30).rstrip() == "33 of 80 rows"


def test_marks_and_filter_are_kept_longer_than_title_and_columns() -> None:
    marked = TableStatus(
        title="Launches in time order",
        shown=32,
        total=32,
        marks="3 marked: 365.22 ms, 48.46% of all",
        marks_average="121.74 ms",
        sorted_by="Duration ▼",
        columns_after=15,
    )
    assert marked.fitted_line(75) == "Launches in time order: 32 rows · 3 marked: 365.22 ms, 48.46% of all  +15 →"
    assert marked.fitted_line(74) == "32 rows · 3 marked: 365.22 ms, 48.46% of all" + " " * 17 + "+15 columns →"
    filtered = TableStatus(
        title="Launches in time order",
        shown=2,
        total=32,
        weight_share=37.37,
        weight_title="time",
        filter="dur>1ms stream=22",
        columns_after=15,
    )
    assert filtered.fitted_line(78).startswith("2 of 32 rows · 37.37% of time · filter dur>1ms stream=22 ")
    assert filtered.fitted_line(78).endswith(" +15 columns →")
