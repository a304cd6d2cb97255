from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App
from textual.color import Color

from tests.snapshots import screen_text
from tui.text import to_ascii
from tui.text_width import cell_width
from tui.theme import theme_variables
from tui.widgets.charts.bar_list import BarList
from tui.widgets.charts.bars import (
    BarRow,
    bar_columns,
    bar_lines,
    histogram,
    histogram_line,
    shared_cells,
    sparkline,
    stacked_bar,
)
from tui.widgets.timeline.view import TopWork

if TYPE_CHECKING:
    from textual.app import ComposeResult

ROWS = (
    BarRow("dgrad", "void cudnn::detail::dgrad_engine<float, int=128>(int)", 1.0, "353.98 ms", 46.95, symbol=True),
    BarRow("sgemm", "sgemm_128x128x8_NT_vec", 0.594, "210.40 ms", 27.90),
    BarRow("memset", "[CUDA memset]", 0.001, "410 µs", 0.05),
    BarRow("evil", "evil\x1b[31m[red]", None, "–", None),
)


def lines(width: int) -> list[str]:
    columns = bar_columns(ROWS, width)
    return [line.plain for line in bar_lines(ROWS, columns)]


def test_bars_and_figures_are_aligned() -> None:
    drawn = lines(80)
    assert drawn[0].startswith("cudnn::detail::dgrad_engine ")
    assert {line.index("█") for line in drawn[:2]} == {drawn[0].index("█")}
    assert drawn[2][drawn[0].index("█")] == "▏"
    assert "█" not in drawn[3]
    assert "▏" not in drawn[3]
    assert {cell_width(line) for line in drawn} == {80}
    assert drawn[1].endswith("210.40 ms   27.9%")
    assert "evil·[31m[red]" in drawn[3]


def test_a_narrow_line_keeps_label_and_figures() -> None:
    drawn = lines(30)
    assert [line[:12] for line in drawn] == ["dgrad_engine", "sgemm_128x1…", "[CUDA memse…", "evil·[31m[r…"]
    assert "█" not in "".join(drawn)
    assert drawn[2].endswith("410 µs    0.1%")


def test_a_text_without_a_figure_gets_the_whole_line() -> None:
    rows = [
        BarRow("a", "two holes of 1 ms or more", None, "265.02 ms", sentence=True),
        BarRow("b", "one memset moves 24 MiB in 768 ns", None, "", sentence=True),
    ]
    drawn = [line.plain for line in bar_lines(rows, bar_columns(rows, 30))]
    assert drawn == ["two holes of 1 ms …  265.02 ms", "one memset moves 24 MiB in …  "]


def test_a_bar_gives_cells_to_a_cut_label() -> None:
    rows = [BarRow("a", "DLProf efficiency", 1.0, "8 of 9 ms", 88.9)]
    drawn = {width: bar_lines(rows, bar_columns(rows, width))[0].plain for width in (43, 42, 41, 40)}
    assert drawn[43] == "DLProf efficiency ███████ 8 of 9 ms   88.9%"
    assert drawn[42] == "DLProf efficiency ██████ 8 of 9 ms   88.9%"
    # Where that is not enough, the bar keeps what can be read at a glance.
    assert drawn[41] == "DLProf effici… ████████ 8 of 9 ms   88.9%"


@given(st.lists(st.floats(0, 1e12), max_size=12), st.integers(12, 200))
def test_the_parts_fill_the_line(values: list[float], width: int) -> None:
    cells = shared_cells(values, width)
    assert sum(cells) == (width if sum(values) > 0 else 0)
    assert all((count > 0) == (value > 0) for count, value in zip(cells, values, strict=True)) or sum(values) == 0


def test_a_stacked_bar_and_its_legend_use_the_same_fills() -> None:
    assert stacked_bar([75, 20, 5], 20).plain == "███████████████▓▓▓▓▒"
    assert to_ascii(stacked_bar([75, 20, 5], 20).plain) == "###############%%%%+"
    rows = [BarRow("a", "kernels", 1.0, "3 ms", part=0), BarRow("b", "copies", 0.5, "1 ms", part=1)]
    legend = [line.plain for line in bar_lines(rows, bar_columns(rows, 30))]
    assert legend == ["█ kernels ███████████████ 3 ms", "▓ copies  ███████▌        1 ms"]
    assert stacked_bar([0, 0], 20).plain == ""


def test_durations_on_a_logarithmic_scale() -> None:
    durations = pl.Series([1_000, 1_000, 1_000, 40_000, None, 1_000_000])
    assert histogram(durations, 2) == [3, 2]
    assert histogram(pl.Series([5, 5, 5]), 10) == [3]
    assert histogram(pl.Series([], dtype=pl.Int64), 10) == []
    assert histogram_line(pl.Series([5, 5]), 30) == "5 ns"
    assert histogram_line(pl.Series([None], dtype=pl.Int64), 30) == "–"
    assert cell_width(histogram_line(durations, 60)) == 60


def test_peaks_are_never_lost() -> None:
    values = [1.0] * 1000
    values[567] = 50.0
    assert sparkline(values, 40).count("█") == 1
    assert sparkline([0.0, 0.0], 5) == "▁▁"
    assert sparkline([], 5) == ""


class BarsApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.bars = BarList(ROWS)
        self.opened: list[str] = []

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return theme_variables()

    def compose(self) -> ComposeResult:
        yield self.bars

    def on_bar_list_row_opened(self, event: BarList.RowOpened) -> None:
        self.opened.append(event.key)


async def test_enter_and_click_open_the_row_of_a_line() -> None:
    app = BarsApp()
    async with app.run_test(size=(80, 10)) as pilot:
        assert app.bars.size.height == 4
        app.bars.focus()
        await pilot.press("j", "enter", "G", "k", "enter", "g", "k", "enter")
        assert app.opened == ["sgemm", "memset", "dgrad"]
        await pilot.click(BarList, offset=(3, 1), times=2)
        await pilot.pause()
        assert app.opened[-1] == "sgemm"
        app.bars.show(ROWS[1:])
        assert app.bars.rows[app.bars.cursor].key == "sgemm"


async def test_the_selection_covers_bars_and_keeps_their_colors() -> None:
    app = BarsApp()
    async with app.run_test(size=(40, 10)) as pilot:
        app.bars.focus()
        app.bars.show([BarRow("a", "conv", 0.5, "1.2 ms", 50.0, part="tensor"), BarRow("b", "evil", None, "–")])
        await pilot.pause()
        segments = [segment for segment in app.bars.render_line(0) if segment.style and segment.text]
        selected = Color.parse(theme_variables()["selection"]).rich_color
        assert {segment.style.bgcolor for segment in segments} == {selected}
        assert segments[0].text == "█"
        assert segments[0].style.color == Color.parse(theme_variables()["kind-tensor"]).rich_color
        assert "".join(segment.text for segment in segments).endswith(" 1.2 ms   50.0%")


async def test_an_empty_list_says_why() -> None:
    app = BarsApp()
    async with app.run_test(size=(80, 10)) as pilot:
        app.bars.show((), empty="no kernels [here]")
        await pilot.press("tab", "j", "enter")
        assert "no kernels [here]" in screen_text(app)
        assert app.opened == []


async def test_top_work_shown_before_layout_uses_the_whole_width() -> None:
    rows = pl.DataFrame({"name": ["conv", "relu"], "kind": [1, 1], "time_ns": [6_000_000, 3_000_000], "count": [2, 1]})

    class Panel(App[None]):
        def get_theme_variable_defaults(self) -> dict[str, str]:
            return theme_variables()

        def compose(self) -> ComposeResult:
            yield TopWork()

    app = Panel()
    async with app.run_test(size=(60, 10)) as pilot:
        panel = app.query_one(TopWork)
        assert panel.content_size.width == 0
        panel.make_room(4)
        panel.show(rows)
        await pilot.pause()
        drawn = [line.strip() for line in screen_text(app).splitlines()[1:3]]
        assert [(line.split()[1], cell_width(line)) for line in drawn] == [("conv", 58), ("relu", 58)]


def test_a_bar_has_the_color_of_its_kind_of_work() -> None:
    rows = [BarRow("a", "gemm", 1.0, "3 ms", kind="tensor"), BarRow("b", "add", 0.5, "1 ms")]
    first, second = bar_lines(rows, bar_columns(rows, 40))
    assert [span.style for span in first.spans] == ["$kind-tensor"]
    assert [span.style for span in second.spans] == ["$bar"]
    assert first.plain.startswith("gemm ")
