"""The roofline plot as text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui.screens.roofline import Mark, plot_lines

H200 = [("bf16", 989.4, 4.8)]


def test_plot_with_roof_and_marks() -> None:
    marks = [Mark(693, 610, 4000), Mark(10, 30, 300), Mark(0.5, 1.2, 10)]
    lines = [line.plain for line in plot_lines(marks, H200, 60, 9)]
    assert len(lines) == 9
    # 610 TFLOP/s below a roof of 989, which begins at 989 / 4.8 = 206 FLOP/byte.
    assert [line.count("●") + line.count("•") + line.count("·") for line in lines] == [0, 1, 0, 0, 1, 0, 0, 1, 0]
    assert lines[0].count("─") > 0
    assert lines[1].startswith("TFLOP/s ")
    assert [line.plain.count("◆") for line in plot_lines(marks, H200, 60, 9, marks[1])] == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert lines[-1].split() == ["FLOP/B", "0.1", "1", "10", "100", "1000"]


def test_the_roof_is_dotted_with_colors() -> None:
    lines = [line.plain for line in plot_lines([Mark(693, 610, 4000)], H200, 60, 9, in_dots=True)]
    # Flat from 206 FLOP/byte on.
    assert lines[0].endswith("⠉" * 9)
    assert "//" not in "".join(lines)


def test_without_room_or_marks_there_is_no_plot() -> None:
    assert plot_lines([], H200, 60, 9) == []
    assert plot_lines([Mark(1, 1, 1)], H200, 60, 3) == []
    assert plot_lines([Mark(1, 1, 1)], H200, 12, 9) == []


def test_without_a_roof_the_marks_are_shown() -> None:
    assert sum(line.plain.count("●") for line in plot_lines([Mark(1, 1, 1)], [], 40, 8)) == 1


@given(
    st.lists(
        st.builds(Mark, st.floats(1e-6, 1e9), st.floats(1e-9, 1e6), st.integers(0, 1 << 60)), min_size=1, max_size=9
    ),
    st.lists(st.tuples(st.just("x"), st.floats(1e-3, 1e5), st.floats(1e-3, 1e3)), max_size=3),
    st.integers(1, 200),
    st.integers(1, 40),
)
def test_any_plot_fits(marks: list[Mark], roofs: list[tuple[str, float, float]], width: int, height: int) -> None:
    for fine in (False, True):
        lines = plot_lines(marks, roofs, width, height, in_dots=fine)
        assert len(lines) in (0, height)
        assert all(len(line.plain) <= width for line in lines)
