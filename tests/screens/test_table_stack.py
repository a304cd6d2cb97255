"""Tables below each other: lines that a table does not need go to those below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.explorer import app_of, open_explorer, press, settle, table_of
from tests.snapshots import screen_text
from tui.screens.gpus import GpusScreen
from tui.screens.linked_tables import NO_ROWS_LINES, folded_heights, shared_heights
from tui.widgets.details import DetailPane
from tui.widgets.table.view import HEADER_LINES

if TYPE_CHECKING:
    from textual.pilot import Pilot

TRAINING, TOTALS = "resnet50_training.nvprof.log", "tracking_four_runs.nvprof.log"


def lines_of_table(pilot: Pilot[None], name: str) -> tuple[int, int]:
    """Return the first line of a table on the screen, and its height."""
    region = table_of(pilot, name).region
    return region.y, region.height


@given(
    st.integers(0, 200),
    st.lists(st.tuples(st.integers(1, 3), st.none() | st.integers(0, 60)), max_size=4),
    st.integers(1, 3),
)
def test_all_lines_are_distributed_and_no_table_has_more_than_it_can_use(
    room: int, upper: list[tuple[int, int | None]], last: int
) -> None:
    heights = shared_heights(room, [*upper, (last, None)])
    assert sum(heights) == room
    assert all(most is None or height <= most for height, (_, most) in zip(heights, upper, strict=False))
    assert min(heights) >= 0


@pytest.mark.parametrize("size", [(120, 40), (200, 50)])
async def test_small_tables_leave_their_lines_to_the_last_one(size: tuple[int, int]) -> None:
    async with open_explorer(TRAINING, size=size, view="gpus") as pilot:
        used = HEADER_LINES + 1 + 1
        assert lines_of_table(pilot, "gpus")[1] == lines_of_table(pilot, "streams")[1] == used
        top, height = lines_of_table(pilot, "stream_work")
        assert top == lines_of_table(pilot, "gpus")[0] + 2 * used
        assert top + height == size[1] - 1


async def test_the_query_bar_has_its_own_line_above_a_short_table() -> None:
    async with open_explorer(TRAINING, view="gpus") as pilot:
        before = lines_of_table(pilot, "gpus")[1]
        await press(pilot, "slash")
        assert lines_of_table(pilot, "gpus")[1] == before + 1
        assert table_of(pilot, "gpus").table.region.height == HEADER_LINES + 1
        await press(pilot, "escape")
        assert lines_of_table(pilot, "gpus")[1] == before


async def test_moving_the_cursor_does_not_resize_the_table() -> None:
    async with open_explorer(TRAINING, view="ops-and-kernels") as pilot:
        upper = lines_of_table(pilot, "ops")
        edges = set()
        for _ in range(4):
            await press(pilot, "j")
            await settle(pilot)
            assert lines_of_table(pilot, "ops") == upper
            edges.add(lines_of_table(pilot, "kernels")[1])
        assert len(edges) > 1, "ops with few and many kernels"


async def test_a_filter_leaves_the_lines_of_hidden_rows_to_the_table_below() -> None:
    async with open_explorer(TRAINING, view="kernels") as pilot:
        top, height = lines_of_table(pilot, "kernels")
        below = lines_of_table(pilot, "launches")
        await press(pilot, "f", *"name:batch", "enter")
        await settle(pilot)
        shown = len(table_of(pilot, "kernels").model.rows)
        assert 0 < shown < height - HEADER_LINES - 1
        assert lines_of_table(pilot, "kernels") == (top, HEADER_LINES + shown + 1)
        assert sum(lines_of_table(pilot, "launches")) == sum(below)
        await press(pilot, "escape")
        assert lines_of_table(pilot, "kernels") == (top, height)
        assert lines_of_table(pilot, "launches") == below


@given(st.integers(0, 25), st.lists(st.none() | st.integers(2, 60), min_size=1, max_size=4), st.data())
def test_a_short_screen_has_rows_for_the_current_table_and_a_line_for_others(
    room: int, needed: list[int | None], data: st.DataObject
) -> None:
    current = data.draw(st.integers(0, len(needed) - 1))
    heights = folded_heights(room, needed, current)
    assert sum(heights) == room
    assert min(heights) >= (1 if room >= len(needed) else 0)
    if room >= len(needed) + 2:
        assert heights[current] >= min(3, needed[current] or 3)


async def test_a_short_screen_has_a_line_with_content_and_key_of_every_table() -> None:
    async with open_explorer(TRAINING, size=(80, 24), view="ops-and-kernels") as pilot:
        assert [lines_of_table(pilot, name)[1] for name in ("ops", "kernels", "launches")] == [15, 5, 1]
        assert screen_text(pilot.app).splitlines()[22].split() == ["Launches:", "265", "rows", "tab:", "table", "below"]
        op = table_of(pilot, "ops").current_row
        assert op is not None
        await press(pilot, "tab")
        assert lines_of_table(pilot, "ops")[1] == 1
        line = screen_text(pilot.app).splitlines()[2]
        assert line.split("  ")[0] == f" Ops: {table_of(pilot, 'ops').frame.height} rows · at {op['op']}"
        assert line.endswith("q: table above")
        assert table_of(pilot, "kernels").table.has_focus
        await press(pilot, "tab")
        assert [lines_of_table(pilot, name)[1] for name in ("ops", "kernels")] == [1, 1]
        assert table_of(pilot, "launches").table.has_focus
        await press(pilot, "q", "q")
        assert table_of(pilot, "ops").table.has_focus
        assert lines_of_table(pilot, "ops")[1] == 15


async def test_a_short_screen_shows_the_row_of_the_cursor_when_a_table_opens_again() -> None:
    async with open_explorer(TRAINING, size=(80, 24), view="ops-and-kernels") as pilot:
        await press(pilot, *"jjjjjjjjjj", "tab", "tab", "tab")
        table = table_of(pilot, "ops").table
        assert table.has_focus
        assert table.scroll_offset.y <= table.model.cursor_row < table.scroll_offset.y + table.page_rows


async def test_a_short_screen_opens_all_tables_with_few_rows() -> None:
    async with open_explorer(TRAINING, size=(80, 24), view="gpus") as pilot:
        used = HEADER_LINES + 1 + 1
        assert lines_of_table(pilot, "gpus")[1] == lines_of_table(pilot, "streams")[1] == used
        top, height = lines_of_table(pilot, "stream_work")
        assert top + height == 23


async def test_a_row_without_children_shows_no_rows_of_another() -> None:
    async with open_explorer("resnet50_training.pt.trace.json.gz", view="ops-and-kernels") as pilot:
        assert not table_of(pilot, "launches").frame.is_empty()
        await press(pilot, "G")
        assert table_of(pilot, "kernels").frame.is_empty()
        assert table_of(pilot, "launches").frame.is_empty()


async def test_the_first_frame_of_a_view_fits_a_small_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    populate = GpusScreen.populate

    def looked_at(screen: GpusScreen) -> None:
        looks.append(screen.classes & {"-narrow", "-normal", "-wide", "-short", "-tall"})
        populate(screen)

    monkeypatch.setattr(GpusScreen, "populate", looked_at)
    for size, expected in (((80, 24), {"-narrow", "-short"}), ((200, 50), {"-wide", "-tall"})):
        looks.clear()
        async with open_explorer(TRAINING, size=size, view="gpus"):
            assert looks[0] == expected


async def test_a_table_without_data_leaves_its_lines_to_the_tables_above() -> None:
    async with open_explorer(TOTALS, view="kernels") as pilot:
        assert lines_of_table(pilot, "launches")[1] == NO_ROWS_LINES
        top, height = lines_of_table(pilot, "launches")
        assert top + height == 39
        assert "This input has totals, not launches" in screen_text(pilot.app)


async def test_a_row_without_children_does_not_change_the_layout() -> None:
    async with open_explorer(TRAINING, view="api-calls") as pilot:
        assert table_of(pilot, "launched").frame.is_empty()
        assert lines_of_table(pilot, "launched")[1] == NO_ROWS_LINES
        await press(pilot, "tab", "j", "j", "j", "j", "j")
        assert not table_of(pilot, "launched").frame.is_empty()
        fed = lines_of_table(pilot, "launched")
        assert fed[1] > NO_ROWS_LINES
        await press(pilot, "g")
        assert table_of(pilot, "launched").frame.is_empty()
        assert lines_of_table(pilot, "launched") == fed


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_details_are_of_the_table_that_they_were_opened_from(size: tuple[int, int]) -> None:
    async with open_explorer(TRAINING, size=size, view="ops-and-kernels") as pilot:
        await press(pilot, "enter", "enter", "i")
        screen = app_of(pilot).screen
        screen.query_one(DetailPane).focus()
        await settle(pilot)
        assert screen.query_one(DetailPane).has_focus
        assert screen.query_one(".-current").id == "launches"


async def test_only_the_first_empty_table_says_why_it_is_empty() -> None:
    async with open_explorer(TRAINING, size=(120, 40), view="memory") as pilot:
        await press(pilot, "full_stop", "full_stop")
        await settle(pilot)
        _, runs = lines_of_table(pilot, "tiny_runs")
        assert lines_of_table(pilot, "copies_of_run")[1] == 0
        assert runs > NO_ROWS_LINES
        text = screen_text(pilot.app)
        assert "No bursts of at least three consecutive copies" in text
        assert "nothing above" not in text
        assert "sorted by" not in text
