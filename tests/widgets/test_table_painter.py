from __future__ import annotations

import re
from dataclasses import replace

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from tests.widgets.tables import KERNELS, SPEC
from tui.model.columns import COLUMNS
from tui.model.table_spec import TableState
from tui.widgets.table.cells import writers
from tui.widgets.table.layout import lay_out
from tui.widgets.table.painter import RowState, TablePainter, TableStyles

STYLES = TableStyles(**{name: Style(color=f"color({place + 16})") for place, name in enumerate(TableStyles.__slots__)})


def painter_of(frame: pl.DataFrame, width: int, *, full_names: bool = False) -> TablePainter:
    state = TableState(full_names=full_names)
    written = writers(SPEC.columns, frame, state)
    layout = lay_out(
        SPEC.columns,
        {name: one.width_sorted_by(1) for name, one in written.items()},
        width,
        pinned="name",
        bar_columns=("time_pct",),
    )
    positions = {name: place for place, name in enumerate(frame.columns)}
    return TablePainter(layout, written, positions, STYLES, width)


@given(
    names=st.lists(st.text(max_size=60), min_size=1, max_size=4),
    width=st.integers(1, 240),
    state=st.builds(RowState, st.sampled_from([None, "name", "calls"]), st.booleans(), st.booleans(), st.booleans()),
    full_names=st.booleans(),
)
def test_any_name_keeps_one_line(names: list[str], width: int, state: RowState, full_names: bool) -> None:
    frame = KERNELS.head(len(names)).with_columns(name=pl.Series(names, dtype=pl.String).cast(pl.Categorical))
    drawn = painter_of(frame, width, full_names=full_names)
    for row in frame.rows():
        strip = drawn.row(row, state, re.compile("a|\\["))
        assert strip.cell_length == width == cell_len(strip.text)
        assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in strip.text)


def test_the_sort_mark_moves_no_column() -> None:
    # The blank before the sign takes a cell of the gap behind its column.
    drawn = painter_of(KERNELS, 120)
    unsorted = drawn.header((), "").text
    for name, descending, title in (("total_ns", True, "Total ms ▼ "), ("avg_ns", False, "Avg ms ▲ ")):
        header = drawn.header(((name, descending),), "").text
        assert title in header
        assert header.find("Max ms") == unsorted.find("Max ms") > 0


def test_a_plain_row_is_one_segment() -> None:
    # Every style costs time and bytes on the way to the terminal.
    row = KERNELS.with_columns(pl.col("registers", "size_bytes").fill_null(0)).rows()[1]
    assert len(painter_of(KERNELS, 100).row(row, RowState())._segments) == 1


def test_matches_are_highlighted() -> None:
    strip = painter_of(KERNELS, 100).row(KERNELS.rows()[1], RowState(is_found=True), re.compile("gemm"))
    assert [segment.text for segment in strip if segment.style == STYLES.hit] == ["gemm"]


def test_a_match_in_the_cut_part_underlines_the_row() -> None:
    strip = painter_of(KERNELS, 100).row(KERNELS.rows()[0], RowState(is_found=True), re.compile("float const"))
    assert all(segment.style is not None and segment.style.underline for segment in strip)


def test_only_the_cursor_cell_differs_on_its_row() -> None:
    strip = painter_of(KERNELS, 100).row(KERNELS.rows()[0], RowState("calls", is_focused=True))
    styles = {segment.text.strip(): segment.style for segment in strip if segment.text.strip()}
    assert styles["48"] == STYLES.cursor_cell
    assert {style for text, style in styles.items() if text != "48"} == {STYLES.cursor_row}


def test_the_bar_of_the_largest_share_fills_its_cells() -> None:
    drawn, shares = painter_of(KERNELS, 160), KERNELS["time_pct"].to_list()
    positions = {name: place for place, name in enumerate(KERNELS.columns)}
    scaled = TablePainter(drawn.layout, drawn.writers, positions, STYLES, 160, {"time_pct": max(shares)})
    lengths = [scaled.row(row, RowState()).text.count("█") for row in KERNELS.rows()]
    assert lengths == [int(20 * share / max(shares)) for share in shares]


def test_a_bar_is_the_same_under_the_cursor() -> None:
    bar, row = "█████████▍          ", KERNELS.rows()[0]
    drawn = painter_of(KERNELS, 160)

    def styles_of_bar(state: RowState) -> list[Style | None]:
        return [segment.style for segment in drawn.row(row, state) if segment.text == bar]

    assert styles_of_bar(RowState()) == [STYLES.bar]
    # On the ground of the row, in its own color.
    drawn.styles = replace(STYLES, cursor_row=Style(bgcolor="red"), blurred_row=Style(bgcolor="blue"))
    assert styles_of_bar(RowState("calls", is_focused=True)) == [Style(bgcolor="red") + STYLES.bar]
    assert styles_of_bar(RowState("calls", is_focused=False)) == [Style(bgcolor="blue") + STYLES.bar]
    # Where the row is in reverse, as its text, and shaded: a solid bar would be a hole.
    drawn.styles = replace(STYLES, cursor_row=Style(reverse=True))
    cells = list(drawn.row(row, RowState("calls", is_focused=True)))
    assert [segment.style for segment in cells if "▒▒▒▒▒▒▒▒▒▍          " in segment.text] == [Style(reverse=True)]


def test_headings_show_sort_order_and_unit() -> None:
    drawn = painter_of(KERNELS, 100)
    text = drawn.header((("total_ns", True),), "calls").text
    assert text.split()[:5] == ["Name", "Total", "ms", "▼", "Time%"]
    underlined = [s.text for s in drawn.header((), "calls") if s.style == STYLES.header_cursor]
    assert underlined == ["Calls"]


def test_the_text_of_an_empty_table_wraps() -> None:
    words = "No kernels: record with nvprof --print-gpu-trace"
    drawn = painter_of(KERNELS, 24)

    def lines(room: int) -> list[str]:
        return [drawn.message(words, line, room).text.strip() for line in range(room)]

    # A command can be copied: it is not broken at its hyphens.
    assert lines(5) == ["", "No kernels: record", "with nvprof", "--print-gpu-trace", ""]
    # In little room they begin at once.
    assert lines(3) == ["No kernels: record", "with nvprof", "--print-gpu-trace"]
    assert lines(1) == ["No kernels: record"]


def test_bars_of_changes_are_left_for_decreases_and_right_for_increases() -> None:
    delta = replace(COLUMNS["delta_ns"], compared_with=())
    frame = pl.DataFrame({"name": ["one", "two", "three"], "delta_ns": [-4_000, 2_000, None]})
    spec_columns = (COLUMNS["name"], delta)
    written = writers(spec_columns, frame, TableState())
    widths = {name: one.width for name, one in written.items()}
    layout = lay_out(spec_columns, widths, 60, pinned="name", bar_columns=("delta_ns",))
    drawn = TablePainter(layout, written, {"name": 0, "delta_ns": 1}, STYLES, 60, {"delta_ns": 4_000})
    drawn_rows = [drawn.row(row, RowState()) for row in frame.rows()]
    bars = [[(one.text.strip(), one.style) for one in row if set(one.text) & set("█▌│")] for row in drawn_rows]
    line = ("│", STYLES.unknown)
    assert bars == [[("█" * 9, STYLES.shrank), line], [line, ("████▌", STYLES.grew)], [line]]
