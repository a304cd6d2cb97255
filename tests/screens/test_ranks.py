"""The tabs of the GPUs view over ranks: iterations, ops and collectives, with their links."""

from __future__ import annotations

import time
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
    run_line,
    screen_of,
    table_of,
    tabs_of,
)
from tests.snapshots import assert_screen, screen_text

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

RANKS = "ddp_ranks"
MORE = "full_stop"
STATES = {
    "iterations": f"{MORE} {MORE}",
    "ops": f"{MORE} {MORE} {MORE}",
    "collectives": f"{MORE} {MORE} {MORE} {MORE}",
    "ranks-of-a-collective": f"{MORE} {MORE} {MORE} {MORE} enter enter",
}


@pytest.mark.parametrize("state", STATES)
async def test_screen(state: str, snapshot: SnapshotAssertion) -> None:
    async with open_explorer(RANKS, view="gpus") as pilot:
        await press(pilot, *STATES[state].split())
        await assert_at_sizes(pilot, snapshot)


async def test_collectives_in_ascii(snapshot: SnapshotAssertion) -> None:
    async with open_explorer(RANKS, size=(120, 40), ascii_only=True, view="gpus") as pilot:
        await press(pilot, *STATES["collectives"].split())
        assert screen_text(pilot.app).isascii()
        assert_screen(pilot.app, snapshot)


async def test_details_of_a_rank_name_the_straggler() -> None:
    async with open_explorer(RANKS, size=(120, 40), view="gpus") as pilot:
        await press(pilot, MORE, "i")
        text = screen_text(pilot.app)
        assert "\n Rank               rank 1 " in text
        assert "\n Straggler  Rank 1 is the straggler: it arrives last at the long collectives in 4 of 4 it" in text


async def test_links_lead_from_a_rank_and_an_iteration_to_its_work() -> None:
    async with open_explorer(RANKS, view="gpus") as pilot:
        await press(pilot, MORE, "enter", "j", "enter")
        assert screen_of(pilot).path() == ["Ranks", "rank 1", "iteration 4", "gpu work"]
        assert set(column_of(pilot, "rank_work", "session")) == {1}
        assert set(column_of(pilot, "rank_work", "iteration")) == {4}
        assert table_of(pilot, "rank_work").frame.height == 581
        await press(pilot, "q", "q", "q")
        assert tabs_of(pilot).tab.name == "gpus"


async def test_links_lead_from_an_iteration_to_its_slowest_rank_and_its_work() -> None:
    async with open_explorer(RANKS, view="gpus") as pilot:
        await press(pilot, MORE, MORE)
        assert column_of(pilot, "slowest_ranks", "longest_rank") == ["rank 1", "rank 0", "rank 0", "rank 0"]
        assert "Rank 1 arrives last at collectives in 4 of 4 iterations" in screen_text(pilot.app)
        await press(pilot, "j", "enter")
        assert column_of(pilot, "iteration_ranks", "who") == ["rank 0", "rank 1"]
        await press(pilot, "enter")
        assert set(column_of(pilot, "iteration_work", "session")) == {0}
        assert set(column_of(pilot, "iteration_work", "iteration")) == {4}


async def test_links_lead_from_an_op_type_to_an_op_to_its_ranks() -> None:
    async with open_explorer(RANKS, size=(200, 50), view="gpus") as pilot:
        await press(pilot, MORE, MORE, MORE)
        assert "Besides communication, gemm differs most: rank 1 takes 15.6 ms longer per iteration" in screen_text(
            pilot.app
        )
        await press(pilot, "j", "enter")
        assert column_of(pilot, "op_ranks", "op") == ["aten::mm", "aten::addmm"]
        await press(pilot, "enter")
        assert column_of(pilot, "ranks_of_op", "who") == ["rank 1", "rank 0"]


async def test_waits_are_shown_with_the_clock_that_measured_them() -> None:
    async with open_explorer(RANKS, size=(200, 50), view="gpus") as pilot:
        await press(pilot, *[MORE] * 4)
        text = screen_text(pilot.app)
        assert "77.4% of the time in matched collectives is waiting for the last rank: 64.5 ms of 83.4 ms" in text
        assert "Clocks agree: ranks leave collectives within 13.6 µs" in text
        assert "Unmatched: 21 communication kernels (6.67 ms): outside iterations" in text
        assert column_of(pilot, "collective_kinds", "comm_unmatched_ns") == [0, 6_665_838]
        assert column_of(pilot, "collectives", "last_rank")[:4] == ["rank 1"] * 4
        assert column_of(pilot, "collective_ranks", "comm_wait_ns") == [0, 14_892_806]


async def test_tables_agree_with_the_report() -> None:
    async with open_explorer(RANKS, view="gpus") as pilot:
        from_report = report_json(pilot, "ranks")
        await press(pilot, MORE)
        assert_rows_of_report(pilot, "ranks", from_report["rows"])
        await press(pilot, MORE)
        assert_rows_of_report(pilot, "slowest_ranks", from_report["slowest_ranks"])
        await press(pilot, MORE)
        assert_rows_of_report(pilot, "op_type_ranks", from_report["op_type_ranks"])
        assert_rows_of_report(pilot, "op_ranks", from_report["op_ranks"], parent="op_type")
        await press(pilot, MORE)
        assert_rows_of_report(pilot, "collective_kinds", from_report["collective_kinds"])


async def test_the_straggler_is_named_if_iterations_take_equally_long() -> None:
    async with open_explorer(RANKS, view="gpus") as pilot:
        await run_line(pilot, "iterations 3:4")
        await press(pilot, "8", MORE, MORE)
        assert column_of(pilot, "slowest_ranks", "longest_rank") == ["rank 1", "rank 0"]
        text = screen_text(pilot.app)
        assert "Rank 1 arrives last at collectives in 2 of 2 iterations" in text
        assert "Iteration times of ranks differ by at most 5.2%" in text


async def test_a_single_rank_has_no_tabs_of_ranks() -> None:
    async with open_explorer(RANKS, view="gpus") as pilot:
        app_of(pilot).profile_session.choose_session(0)
        for times in range(1, 5):
            await press(pilot, MORE)
            assert "One session of 2 is shown: press S for all" in screen_text(pilot.app), times


@pytest.mark.slow
async def test_the_dashboard_of_several_sessions_needs_limited_cpu_time() -> None:
    # Of the processor's time: on a loaded machine minutes go by until it has had as much.
    begun_s = time.process_time()
    async with open_explorer(RANKS, is_shared=False) as pilot:
        assert screen_of(pilot).VIEW == "dashboard"
        assert not any(worker.is_running for worker in pilot.app.workers)
        assert "2 sessions" in screen_text(pilot.app)
    assert time.process_time() - begun_s < 40
