"""The bars of the chart of iterations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.analysis.iterations.times import Bar
from tui.text import to_ascii
from tui.widgets.charts import iteration_bars as drawing
from tui.widgets.charts.bars import KIND_STYLES
from tui.widgets.charts.iteration_bars import CELL_LEVELS, BarStyle, bar_width, column, visible_parts


def bar(mean: float | None, longest: int | None = None, parts: tuple[float, ...] = (), rows: int = 1) -> Bar:
    return Bar(0, rows - 1, 0, longest if longest is not None else None if mean is None else int(mean), mean, parts,
               True)  # fmt: skip


def bar_text(shown_bar: Bar, look: BarStyle) -> str:
    """Return a bar from the bottom to the top, as text."""
    return "".join(character for character, _ in column(shown_bar, look))


def test_parts_are_stacked() -> None:
    look = BarStyle(10, 100)
    stacked = bar(100, parts=(20.0, 10.0, 10.0, 10.0, 10.0, 10.0, 20.0, 10.0))
    assert bar_text(stacked, look) == "██▓▞▒▤▧▚▚░"
    assert [part for _, part in column(stacked, look)][:3] == ["tensor", "tensor", "other"]
    assert to_ascii(bar_text(stacked, BarStyle(10, 100, smooth=False))) == "##%k+dfcc."


def test_the_axis_is_not_the_fill_of_a_part() -> None:
    below = {*map(to_ascii, (drawing.CHOSEN, drawing.NOT_CHOSEN, drawing.SPAN)), *drawing.MARKS.values()}
    assert below.isdisjoint(to_ascii(look.fill) for look in KIND_STYLES.values())


def test_the_top_of_a_bar_is_a_partial_cell_with_colors() -> None:
    shown_bar = bar(55, parts=(0.0, 55.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    assert bar_text(shown_bar, BarStyle(10, 100)) == "▓▓▓▓▓▄    "
    assert bar_text(shown_bar, BarStyle(10, 100, smooth=False)) == "▓▓▓▓▓▓    "
    assert bar_text(bar(52, parts=shown_bar.parts_ns), BarStyle(10, 100, smooth=False)) == "▓▓▓▓▓     "


def test_two_parts_share_a_cell_with_colors() -> None:
    look = BarStyle(5, 100)
    shown_bar = bar(100, parts=(16.0, 37.0, 0.0, 3.0, 0.0, 0.0, 38.0, 6.0))
    assert column(shown_bar, look) == [
        ("▆", "tensor on other"), ("▓", "other"), ("▆", "other on cpu"), ("▚", "cpu"), ("▆", "cpu on idle"),
    ]  # fmt: skip
    assert visible_parts([column(shown_bar, look)]) == {"tensor", "other", "cpu", "idle"}


def test_small_parts_have_a_whole_line_with_patterns() -> None:
    shown_bar = bar(28.7, parts=(4.6, 10.6, 0.0, 0.8, 0.0, 0.0, 10.9, 1.8))
    parts = [part for _, part in column(shown_bar, BarStyle(6, 60, smooth=False))]
    assert parts == ["tensor", "other", "cpu", "", "", ""]
    # A line is no fair picture of less than a quarter of one.
    thin = bar(100, parts=(97.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0))
    assert {part for _, part in column(thin, BarStyle(5, 100, smooth=False))} == {"tensor"}


def test_the_longest_of_several_is_marked_and_outliers_are_cut() -> None:
    assert bar_text(bar(20, 60, (20.0, 0, 0, 0, 0, 0, 0, 0), rows=3), BarStyle(10, 100)) == "██││││    "
    assert bar_text(bar(400, parts=(400.0, 0, 0, 0, 0, 0, 0, 0)), BarStyle(10, 100)) == "█" * 9 + "↑"
    assert bar_text(bar(20, 900, (20.0, 0, 0, 0, 0, 0, 0, 0), rows=2), BarStyle(5, 100)) == "█│││↑"


def test_unknown_times_have_no_height() -> None:
    assert bar_text(bar(None), BarStyle(4, 100)) == "?   "
    assert bar_text(bar(50), BarStyle(4, 100)) == "▥▥  "
    assert bar_text(bar(0), BarStyle(4, 0)) == "    "


@given(st.floats(0, 1e12), st.integers(1, 20), st.booleans())
def test_heights_of_times(time: float, lines: int, smooth: bool) -> None:
    cells = column(bar(time, parts=(time, 0, 0, 0, 0, 0, 0, 0)), BarStyle(lines, 10**12, smooth=smooth))
    assert len(cells) == lines
    filled = sum(character != " " for character, _ in cells)
    assert filled == pytest.approx(time / 1e12 * lines, abs=1 + 1 / CELL_LEVELS)
    assert (filled > 0) == (time > 0)


@given(st.integers(0, 500), st.integers(0, 300))
def test_bars_fit_their_cells(number: int, cells: int) -> None:
    assert number > cells or bar_width(number, cells) * number <= max(cells, number)
