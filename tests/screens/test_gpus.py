"""GPUs: bars, streams, their work, and ranks side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.screens.explorer import (
    app_of,
    assert_at_sizes,
    assert_rows_of_report,
    column_of,
    open_explorer,
    press,
    report_json,
    screen_of,
    table_of,
    tabs_of,
)
from tests.snapshots import assert_screen, screen_text
from tui.widgets.details import DetailPane

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

RANKS, TRAINING, SUMMARY = "ddp_ranks", "resnet50_training.nvprof.log", "gpt_summary.nvprof.log"
STATES = {
    "streams": (RANKS, "enter"),
    "work-of-a-stream": (RANKS, "enter enter"),
    "details-of-a-gpu": (RANKS, "i"),
    "ranks": (RANKS, "full_stop"),
    "one-session-has-no-ranks": (TRAINING, "full_stop"),
}


@pytest.mark.parametrize("state", STATES)
async def test_screen(state: str, snapshot: SnapshotAssertion) -> None:
    sample, keys = STATES[state]
    async with open_explorer(sample, view="gpus") as pilot:
        await press(pilot, *keys.split())
        await assert_at_sizes(pilot, snapshot)


@pytest.mark.parametrize(
    "options",
    [{"color": "none"}, {"color": "16"}, {"ascii_only": True}],
    ids=lambda given: next(iter(given)) + str(next(iter(given.values()))),
)
async def test_ranks_without_colors_and_in_ascii(options: dict[str, object], snapshot: SnapshotAssertion) -> None:
    async with open_explorer(RANKS, size=(120, 40), **options, view="gpus") as pilot:
        await press(pilot, "full_stop")
        assert_screen(pilot.app, snapshot)
        if "ascii_only" in options:
            assert screen_text(pilot.app).isascii()


async def test_links_lead_from_a_gpu_to_a_stream_to_a_launch_and_back() -> None:
    async with open_explorer(RANKS, view="gpus") as pilot:
        assert column_of(pilot, "gpus", "busy_ns") == [95_015_157, 106_081_232]
        assert column_of(pilot, "streams", "stream") == [7, 17]
        await press(pilot, "j")
        assert column_of(pilot, "streams", "stream_work") == [2844, 55]
        await press(pilot, "enter", "j")
        assert table_of(pilot, "stream_work").frame.height == 55
        assert set(column_of(pilot, "stream_work", "stream")) == {17}
        await press(pilot, "enter", "enter")
        assert app_of(pilot).screen.query_one(DetailPane).is_open
        assert "ncclDevKernel" in screen_text(pilot.app)
        await press(pilot, "q", "q", "q")
        assert screen_of(pilot).VIEW == "gpus"
        assert screen_of(pilot).path() == []


async def test_the_straggler_is_named_with_how_it_was_found() -> None:
    async with open_explorer(RANKS, size=(200, 50), view="gpus") as pilot:
        await press(pilot, "full_stop")
        text = screen_text(pilot.app)
        assert "Rank 1 is the straggler: it arrives last at the long collectives in 4 of 4 iterations" in text
        assert "spends the least time in a collective" in text
        assert column_of(pilot, "ranks", "came_last") == [4, 0]
        assert column_of(pilot, "rank_iterations", "behind_ns") == [672_287, -465_794, -204_530, -10_641]
        await press(pilot, "j")
        assert column_of(pilot, "rank_iterations", "behind_ns") == [-672_288, 465_794, 204_530, 10_641]
        await press(pilot, "comma")
        assert tabs_of(pilot).tab.name == "gpus"


async def test_a_single_session_has_no_ranks_and_says_what_to_do() -> None:
    async with open_explorer(RANKS) as pilot:
        app_of(pilot).profile_session.choose_session(1)
        await press(pilot, "8", "full_stop")
        assert "One session of 2 is shown: press S for all" in screen_text(pilot.app)
        app_of(pilot).profile_session.choose_session(None)
        await press(pilot, "g")
        assert column_of(pilot, "ranks", "who") == ["rank 1", "rank 0"]


async def test_the_tab_is_restored_when_returning_to_the_view() -> None:
    async with open_explorer(RANKS, view="gpus") as pilot:
        await press(pilot, "full_stop", "j", "0", "minus")
        assert tabs_of(pilot).tab.name == "ranks"
        assert table_of(pilot, "ranks").current_row is not None
        assert table_of(pilot, "ranks").current_row["who"] == "rank 0"


async def test_q_returns_to_the_first_tab_and_a_link_opens_another() -> None:
    async with open_explorer(RANKS, view="gpus") as pilot:
        await press(pilot, "full_stop", "enter", "q", "q")
        assert tabs_of(pilot).tab.name == "gpus"
        await press(pilot, "full_stop", "0", "colon", *"gpus", "space", *"h200", "enter")
        assert tabs_of(pilot).tab.name == "gpus"
        assert table_of(pilot, "gpus").state.filter == "h200"


async def test_tables_agree_with_the_report() -> None:
    async with open_explorer(RANKS, view="gpus") as pilot:
        from_report = report_json(pilot, "gpus")
        assert_rows_of_report(pilot, "gpus", from_report["rows"])
        assert_rows_of_report(pilot, "streams", from_report["streams"], parent="session")
        await press(pilot, "full_stop")
        assert_rows_of_report(pilot, "ranks", from_report["ranks"])
        assert_rows_of_report(pilot, "rank_iterations", from_report["rank_iterations"], parent="session")


async def test_an_input_without_start_times_shows_gpus_and_says_why_there_are_no_streams() -> None:
    async with open_explorer(TRAINING, view="gpus") as pilot:
        assert column_of(pilot, "streams", "stream_work") or "start times" in screen_text(pilot.app)


async def test_details_of_a_gpu_add_up_its_time_and_follow_the_cursor() -> None:
    async with open_explorer(RANKS, size=(200, 50), view="gpus") as pilot:
        await press(pilot, "i")
        assert "Time from its first start to its last end" in screen_text(pilot.app)
        assert "32.341 ms" in screen_text(pilot.app)
        await press(pilot, "j")
        assert "101.51 ms" in screen_text(pilot.app)
