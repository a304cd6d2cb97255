"""Tables below each other: lines that a table has no use for go to those below it, and its own edge stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.opening import app_of, opened, press, settled
from tests.snapshots import screen_text
from tui.screens.gpus import GpusScreen
from tui.widgets.frame_view import HEADER
from tui.widgets.table_pane import TablePane
from tui.widgets.table_stack import UNFED_LINES, shared_heights

if TYPE_CHECKING:
    from textual.pilot import Pilot

TRAINING, TOTALS = "resnet50_training.nvprof.log", "tracking_four_runs.nvprof.log"


def pane(pilot: Pilot[None], name: str) -> TablePane:
    """A table of the view that is shown."""
    return app_of(pilot).screen.query_one(f"#{name}", TablePane)


def lines_of(pilot: Pilot[None], name: str) -> tuple[int, int]:
    """Where a table begins on the screen, and how many lines it has."""
    region = pane(pilot, name).region
    return region.y, region.height


@given(
    st.integers(0, 200),
    st.lists(st.tuples(st.integers(1, 3), st.none() | st.integers(0, 60)), max_size=4),
    st.integers(1, 3),
)
def test_all_lines_are_given_out_and_none_has_more_than_it_can_use(
    room: int, upper: list[tuple[int, int | None]], last: int
) -> None:
    heights = shared_heights(room, [*upper, (last, None)])
    assert sum(heights) == room
    assert all(most is None or height <= most for height, (_, most) in zip(heights, upper, strict=False))
    assert min(heights) >= 0


@pytest.mark.parametrize("size", [(120, 40), (200, 50)])
async def test_one_gpu_and_one_stream_leave_the_screen_to_the_work(size: tuple[int, int]) -> None:
    async with opened(TRAINING, size=size) as pilot:
        await press(pilot, "8")
        used = HEADER + 1 + 1
        assert lines_of(pilot, "gpus")[1] == lines_of(pilot, "streams")[1] == used
        top, height = lines_of(pilot, "stream_work")
        assert top == lines_of(pilot, "gpus")[0] + 2 * used
        assert top + height == size[1] - 1


async def test_the_query_bar_has_a_line_of_its_own_above_a_short_table() -> None:
    async with opened(TRAINING) as pilot:
        await press(pilot, "8")
        before = lines_of(pilot, "gpus")[1]
        await press(pilot, "slash")
        assert lines_of(pilot, "gpus")[1] == before + 1
        assert pane(pilot, "gpus").table.region.height == HEADER + 1
        await press(pilot, "escape")
        assert lines_of(pilot, "gpus")[1] == before


async def test_going_through_the_rows_of_a_table_does_not_move_its_edge() -> None:
    async with opened(TRAINING) as pilot:
        await press(pilot, "4")
        upper = lines_of(pilot, "ops")
        edges = set()
        for _ in range(4):
            await press(pilot, "j")
            await settled(pilot)
            assert lines_of(pilot, "ops") == upper
            edges.add(lines_of(pilot, "kernels")[1])
        assert len(edges) > 1, "ops with few and many kernels"


async def test_alone_on_a_small_screen_a_table_has_all_of_it() -> None:
    async with opened(TRAINING, size=(80, 24)) as pilot:
        await press(pilot, "8")
        top, height = lines_of(pilot, "gpus")
        assert top + height == 23
        assert pane(pilot, "streams").region.height == 0


async def test_the_first_picture_of_a_view_on_a_small_screen_has_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    populate = GpusScreen.populate

    def looked_at(screen: GpusScreen) -> None:
        looks.append(screen.classes & {"-narrow", "-normal", "-wide", "-short", "-tall"})
        populate(screen)

    monkeypatch.setattr(GpusScreen, "populate", looked_at)
    for size, expected in (((80, 24), {"-narrow", "-short"}), ((200, 50), {"-wide", "-tall"})):
        looks.clear()
        async with opened(TRAINING, size=size) as pilot:
            await press(pilot, "8")
            assert looks[0] == expected


async def test_a_table_that_the_input_cannot_feed_leaves_its_lines_to_those_above() -> None:
    async with opened(TOTALS) as pilot:
        await press(pilot, "colon", *"kernels", "enter")
        assert lines_of(pilot, "launches")[1] == UNFED_LINES
        top, height = lines_of(pilot, "launches")
        assert top + height == 39
        assert "this input holds totals, not launches" in screen_text(pilot.app)


async def test_a_row_with_nothing_below_it_does_not_move_what_others_have() -> None:
    async with opened(TRAINING) as pilot:
        await press(pilot, "0")
        assert pane(pilot, "launched").frame.is_empty()
        assert lines_of(pilot, "launched")[1] == UNFED_LINES
        await press(pilot, "tab", "j", "j", "j", "j", "j")
        assert not pane(pilot, "launched").frame.is_empty()
        fed = lines_of(pilot, "launched")
        assert fed[1] > UNFED_LINES
        await press(pilot, "g")
        assert pane(pilot, "launched").frame.is_empty()
        assert lines_of(pilot, "launched") == fed
