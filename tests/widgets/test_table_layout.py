from __future__ import annotations

from dataclasses import replace

import polars as pl

from tui.analysis.compare.changes import CHANGED_FINDINGS
from tui.analysis.expert.findings_table import EXPERT
from tui.analysis.hardware_metrics import METRICS
from tui.model.columns import columns
from tui.model.table_spec import MIN_PINNED, UNINFORMATIVE_PRIORITY
from tui.widgets.table.layout import COLUMN_GAP, GUTTER_CELLS, PREFERRED_BAR_CELLS, TableLayout, _grow_texts, lay_out
from tui.widgets.table.model import MAX_SINGLE_LOOKUPS, TableRows

COLUMNS = columns("name", "total_ns", "time_pct", "calls", "avg_ns", "min_ns")
WIDTHS = {"name": 100, "total_ns": 9, "time_pct": 6, "calls": 6, "avg_ns": 8, "min_ns": 8}


def placed_names(layout: TableLayout) -> list[str]:
    return [placed.column.name for placed in layout.placed]


def test_all_columns_fit_in_order_and_the_name_takes_the_rest() -> None:
    layout = lay_out(COLUMNS, WIDTHS, 120, pinned="name")
    assert placed_names(layout) == ["name", "total_ns", "time_pct", "calls", "avg_ns", "min_ns"]
    assert (layout.before, layout.after) == (0, 0)
    # 120 - gutter 2 - (9 + 6 + 6 + 8 + 8) - 5 gaps of 2
    assert layout.placed[0].width == 71
    assert layout.placed[-1].end == 120


def test_figures_are_beside_a_short_name() -> None:
    layout = lay_out(COLUMNS, {**WIDTHS, "name": 10}, 200, pinned="name")
    assert layout.placed[0].width == 10
    assert layout.placed[1].x == GUTTER_CELLS + 10 + COLUMN_GAP


def test_the_least_important_columns_are_dropped_first_and_can_be_scrolled_to() -> None:
    # name 1, total 1, time% 2, calls 2, avg 3, min 5: room for three besides the name.
    layout = lay_out(COLUMNS, WIDTHS, GUTTER_CELLS + MIN_PINNED + 9 + 6 + 6 + 3 * COLUMN_GAP, pinned="name")
    assert placed_names(layout) == ["name", "total_ns", "time_pct", "calls"]
    assert layout.placed[0].width == MIN_PINNED
    assert layout.sequence == ("name", "total_ns", "time_pct", "calls", "avg_ns", "min_ns")
    assert layout.after == 2
    scrolled = lay_out(COLUMNS, WIDTHS, 55, pinned="name", scrolled_out=3)
    assert placed_names(scrolled) == ["name", "avg_ns", "min_ns"]
    assert (scrolled.before, scrolled.after) == (3, 0)


def test_a_column_of_zeros_that_is_relevant_above_zero_is_last_and_not_counted() -> None:
    silent = replace(columns("untimed_launches")[0], priority=UNINFORMATIVE_PRIORITY)
    widths = {**WIDTHS, "untimed_launches": 7}
    layout = lay_out((silent, *COLUMNS), widths, 55, pinned="name")
    assert layout.sequence[-1] == "untimed_launches"
    assert layout.after == lay_out(COLUMNS, WIDTHS, 55, pinned="name").after == 2


def test_a_dropped_column_is_not_replaced_by_a_less_important_one() -> None:
    widths = {**WIDTHS, "avg_ns": 40}
    layout = lay_out(COLUMNS, widths, GUTTER_CELLS + MIN_PINNED + 9 + 6 + 6 + 3 * COLUMN_GAP + 30, pinned="name")
    assert "min_ns" not in placed_names(layout)


def test_the_share_bar_takes_the_room_that_names_leave() -> None:
    layout = lay_out(COLUMNS, {**WIDTHS, "name": 30}, 120, pinned="name", bar_columns=("time_pct",))
    share = layout.find("time_pct")
    assert share is not None
    assert share.bar == 20
    assert layout.placed[3].x == share.end + COLUMN_GAP
    narrow = lay_out(COLUMNS, WIDTHS, 84, pinned="name", bar_columns=("time_pct",)).find("time_pct")
    assert narrow is not None
    assert narrow.bar == 0


def test_the_share_bar_is_dropped_before_less_important_columns() -> None:
    some = columns("name", "time_pct", "min_ns", "line")
    widths = {"name": 90, "time_pct": 6, "min_ns": 8, "line": 6}
    room = GUTTER_CELLS + 36 + 6 + 8 + 2 * COLUMN_GAP
    assert placed_names(lay_out(some, widths, room, pinned="name", bar_columns=("time_pct",))) == [
        "name",
        "time_pct",
        "min_ns",
    ]
    barred = lay_out(some, widths, 120, pinned="name", bar_columns=("time_pct",)).find("time_pct")
    assert barred is not None
    assert barred.bar == 8


def test_bars_are_narrowed_before_one_is_dropped() -> None:
    some = columns("iteration", "kernel_pct", "tc_pct")
    widths = {"iteration": 9, "kernel_pct": 5, "tc_pct": 5}
    room = GUTTER_CELLS + 9 + 5 + 5 + 2 * COLUMN_GAP

    def bars(spare: int) -> list[int]:
        layout = lay_out(some, widths, room + spare, pinned="iteration", bar_columns=("kernel_pct", "tc_pct"))
        return [placed.bar for placed in layout.placed[1:]]

    assert [bars(spare) for spare in (18, 17, 12, 11, 8)] == [[8, 8], [7, 7], [5, 5], [10, 0], [0, 0]]


def test_any_width_has_a_layout() -> None:
    for width in range(60):
        layout = lay_out(COLUMNS, WIDTHS, width, pinned="name")
        assert all(placed.width > 0 for placed in layout.placed)
        assert len(layout.sequence) == len(COLUMNS)
        assert layout.after + len(placed_names(layout)) - 1 == 5


def test_a_table_without_a_pinned_column() -> None:
    layout = lay_out(COLUMNS[1:], WIDTHS, 30, pinned="name")
    assert placed_names(layout) == ["total_ns", "time_pct", "calls"]
    assert layout.placed[0].x == GUTTER_CELLS


def test_the_column_below_the_mouse() -> None:
    layout = lay_out(COLUMNS, WIDTHS, 120, pinned="name")
    total = layout.find("total_ns")
    assert total is not None
    assert layout.column_at(0) is layout.placed[0]
    assert layout.column_at(total.x) is total
    assert layout.column_at(total.end) is total


def test_columns_of_nulls_are_last_and_not_counted() -> None:
    width = GUTTER_CELLS + MIN_PINNED + 9 + 6 + 2 * COLUMN_GAP
    layout = lay_out(COLUMNS, WIDTHS, width, pinned="name", unknown={"calls", "min_ns"})
    assert placed_names(layout) == ["name", "total_ns", "time_pct"]
    assert layout.sequence[3:] == ("avg_ns", "calls", "min_ns")
    assert layout.after == 1
    assert lay_out(COLUMNS, WIDTHS, width, pinned="name", unknown={"calls", "avg_ns", "min_ns"}).after == 0


def test_free_room_beside_a_whole_name_goes_to_columns_that_fit() -> None:
    widths = {**WIDTHS, "name": 10, "avg_ns": 40}
    layout = lay_out(COLUMNS, widths, GUTTER_CELLS + 10 + 9 + 6 + 6 + 8 + 4 * COLUMN_GAP, pinned="name")
    assert placed_names(layout) == ["name", "total_ns", "time_pct", "calls", "min_ns"]
    assert layout.placed[0].width == 10
    assert layout.after == 1
    one_less = lay_out(COLUMNS, widths, GUTTER_CELLS + 10 + 9 + 6 + 6 + 8 + 4 * COLUMN_GAP - 1, pinned="name")
    assert placed_names(one_less) == ["name", "total_ns", "time_pct", "calls"]


def test_uninformative_columns_take_no_room_from_names() -> None:
    silent = [
        replace(column, priority=UNINFORMATIVE_PRIORITY) if column.name == "min_ns" else column for column in COLUMNS
    ]
    cut = lay_out(silent, {**WIDTHS, "name": 60}, GUTTER_CELLS + 59 + 9 + 6 + 6 + 8 + 8 + 5 * COLUMN_GAP, pinned="name")
    assert placed_names(cut) == ["name", "total_ns", "time_pct", "calls", "avg_ns"]
    assert cut.placed[0].width == 60
    whole = lay_out(
        silent, {**WIDTHS, "name": 60}, GUTTER_CELLS + 60 + 9 + 6 + 6 + 8 + 8 + 5 * COLUMN_GAP, pinned="name"
    )
    assert placed_names(whole)[-1] == "min_ns"


def test_uninformative_columns_are_last() -> None:
    silent = [
        replace(column, priority=UNINFORMATIVE_PRIORITY) if column.name == "min_ns" else column for column in COLUMNS
    ]
    widths = {**WIDTHS, "name": 10, "avg_ns": 40}
    layout = lay_out(silent, widths, GUTTER_CELLS + 10 + 9 + 6 + 6 + 8 + 4 * COLUMN_GAP, pinned="name")
    assert placed_names(layout) == ["name", "total_ns", "time_pct", "calls"]


def test_grouped_columns_are_shown_together_or_not_at_all() -> None:
    compared = columns("name", "delta_ns", "a_calls", "b_calls", "avg_delta_pct")
    widths = {"name": 10, "delta_ns": 9, "a_calls": 12, "b_calls": 9, "avg_delta_pct": 8}
    enough = GUTTER_CELLS + 10 + 9 + 8 + 12 + 9 + 4 * COLUMN_GAP
    assert placed_names(lay_out(compared, widths, enough, pinned="name"))[2:] == ["a_calls", "b_calls", "avg_delta_pct"]
    assert placed_names(lay_out(compared, widths, enough - 1, pinned="name"))[2:] == ["avg_delta_pct"]


def test_texts_that_are_compared_share_the_room() -> None:
    widths = {"change": 6, "severity": 8, "rule": 4, "baseline": 200, "candidate": 200}
    spec = CHANGED_FINDINGS

    def shown(width: int, **others: int) -> dict[str, int]:
        layout = lay_out(
            spec.columns,
            {**widths, **others},
            width,
            pinned="candidate",
            min_pinned_cells=spec.min_pinned_cells,
            name_last=True,
        )
        return {placed.column.name: placed.width for placed in layout.placed}

    assert shown(120) == {"change": 6, "severity": 8, "rule": 4, "baseline": 46, "candidate": 46}
    assert shown(80) == {"change": 6, "baseline": 34, "candidate": 34}
    assert shown(120, candidate=5)["baseline"] == 87
    assert shown(120, baseline=5)["candidate"] == 87


def test_codes_are_after_a_trailing_name() -> None:
    widths = {"verdict": 14, "message": 200, "cost_pct": 6, "cost_ns": 7, "cause": 15, "rules": 8}
    held = tuple(column for column in EXPERT.columns if column.name in widths)

    def shown(width: int) -> list[str]:
        layout = lay_out(
            held,
            widths,
            width,
            pinned="message",
            min_pinned_cells=48,
            name_last=True,
            trailing_columns=EXPERT.trailing_columns,
        )
        return [placed.column.name for placed in layout.placed]

    assert shown(80) == ["verdict", "cost_pct", "message"]
    assert shown(120) == ["verdict", "cost_pct", "message", "cause", "rules"]


def test_metrics_share_the_room_with_their_kernels() -> None:
    widths = {"kernel": 120, "metric": 60, "avg": 18, "min": 18, "max": 18, "unit": 11, "invocations": 5}

    def shown(width: int) -> list[int]:
        held = tuple(column for column in METRICS.columns if column.name in widths)
        return [placed.width for placed in lay_out(held, widths, width, pinned="kernel").placed]

    assert shown(80) == [28, 28, 18]
    assert shown(120) == [38, 38, 18, 18]
    # What a metric does not need is the kernel's.
    assert shown(240) == [96, 60, 18, 18, 18, 11, 5]


def test_free_room_goes_to_cut_texts() -> None:
    listed = columns("name", "calls", "reason")
    widths = {"name": 20, "calls": 6, "reason": 90}
    assert [placed.width for placed in lay_out(listed, widths, 200, pinned="name").placed] == [20, 6, 90]
    # 100 - gutter 2 - (20 + 6) - 2 gaps of 2
    assert [placed.width for placed in lay_out(listed, widths, 100, pinned="name").placed] == [20, 6, 68]
    # A name comes first: of 70 cells it needs 30, and the text keeps those that it has at least.
    long = lay_out(listed, {**widths, "name": 60}, 70, pinned="name")
    assert [placed.width for placed in long.placed] == [30, 6, 28]


def test_texts_get_room_before_the_share_bar_and_uninformative_columns() -> None:
    shown = (*columns("name", "time_pct", "reason"), replace(columns("min_ns")[0], priority=UNINFORMATIVE_PRIORITY))
    widths = {"name": 10, "time_pct": 6, "reason": 50, "min_ns": 8}
    least = GUTTER_CELLS + 10 + 6 + 50 + 2 * COLUMN_GAP
    layout = lay_out(shown, widths, least + PREFERRED_BAR_CELLS + 1, pinned="name", bar_columns=("time_pct",))
    assert [(placed.column.name, placed.width, placed.bar) for placed in layout.placed] == [
        ("name", 10, 0),
        ("time_pct", 6, PREFERRED_BAR_CELLS),
        ("reason", 50, 0),
    ]
    wide = lay_out(
        shown, widths, least + PREFERRED_BAR_CELLS + 1 + 8 + COLUMN_GAP, pinned="name", bar_columns=("time_pct",)
    )
    assert [(placed.column.name, placed.width) for placed in wide.placed][2:] == [
        ("reason", 50),
        ("min_ns", 8),
    ]


def test_cut_texts_share_the_free_room() -> None:
    widths, whole = {"a": 5, "b": 5, "c": 5}, {"a": 7, "b": 50, "c": 50}
    assert _grow_texts(["a", "b", "c"], widths, whole, 20) == {"a": 7, "b": 14, "c": 14}
    assert _grow_texts(["a", "b", "c"], widths, whole, -3) == widths


def test_rows_are_found_by_their_keys_in_any_order() -> None:
    """The first of equal ones, one by one and many at once, also those without a name."""
    frame = pl.DataFrame({"name": ["a", "b", None, "a", "b", "c", "d"], "number": [1, 1, 1, 1, 2, 3, 4]})
    rows = TableRows(frame, pl.Series([6, 3, 0, 2], dtype=pl.UInt32))
    assert [rows.source_row(place) for place in range(4)] == [6, 3, 0, 2]
    assert [rows.shown_row(row) for row in (6, 3, 0, 2, 1)] == [0, 1, 2, 3, None]
    assert rows.record(1) == {"name": "a", "number": 1}
    columns = ("name", "number")
    few = [("a", 1), (None, 1), ("b", 2), ("x", 9)]
    assert rows.find_keys(few, columns) == [0, 2, 4]
    many = [*few, ("c", 3), ("d", 4), ("b", 1)]
    assert len(many) > MAX_SINGLE_LOOKUPS >= len(few)
    assert sorted(rows.find_keys(many, columns)) == [0, 1, 2, 4, 5, 6]
    assert rows.find_keys([("a",), (7, 1)], columns) == []
    assert [rows.key(row, columns) for row in (0, 2)] == [("a", 1), (None, 1)]


def test_columns_of_nulls_are_last_unless_the_user_ordered_them() -> None:
    room = sum(WIDTHS.values()) + 40
    names = [column.name for column in COLUMNS]
    silent = names[1]
    behind = lay_out(COLUMNS, WIDTHS, room, pinned="name", unknown={silent})
    assert [placed.column.name for placed in behind.placed] == [name for name in names if name != silent] + [silent]
    ordered = lay_out(COLUMNS, WIDTHS, room, pinned="name", unknown={silent}, keeps_order=True)
    assert [placed.column.name for placed in ordered.placed] == names
