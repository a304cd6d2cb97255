"""The first tasks of a new user, by keys that the footer or the help names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl
import pytest

from tests.screens.explorer import app_of, open_explorer, press, screen_of
from tests.snapshots import screen_text
from tests.waiting import wait_until
from tui.analysis.gpu_time.idle_gaps import gaps
from tui.screens.help import HelpScreen
from tui.screens.linked_tables import LinkedTables
from tui.screens.menus import MenuScreen
from tui.views import VIEWS

if TYPE_CHECKING:
    from textual.pilot import Pilot

LOG, TORCH = "resnet50_training.nvprof.log", "resnet50_training.pt.trace.json.gz"
TERMINAL_SIZES: Final = ((80, 24), (120, 40))


async def press_named(pilot: Pilot[None], *keys: str) -> None:
    """Press keys, each of which the footer or the help must name."""
    written = {"m": "m", "question_mark": "?"}
    for key in keys:
        label = written.get(key, key)
        if f"{label} " not in screen_text(pilot.app).splitlines()[-1]:
            await press(pilot, "question_mark")
            assert isinstance(pilot.app.screen, HelpScreen)
            listed = {name for action in pilot.app.screen._local_actions for name in action.keys.split(",")}
            assert key in listed
            await press(pilot, "escape")
        await press(pilot, key)


async def go_by_menu(pilot: Pilot[None], title: str) -> None:
    """Go to a view by the menu, reading its lines from the top."""
    await press_named(pilot, "m")
    assert isinstance(pilot.app.screen, MenuScreen)
    lines = [
        next((known.title for known in VIEWS if f"│ {known.key or ' '}  {known.title} " in line), "")
        for line in screen_text(pilot.app).splitlines()
    ]
    place = [line for line in lines if line].index(title)
    await press(pilot, *["down"] * place, "enter")
    screen = screen_of(pilot)
    assert next(known.title for known in VIEWS if known.name == screen.VIEW) == title


@pytest.mark.parametrize(
    ("sample", "total_ns", "size"),
    [(LOG, 11_282_017, TERMINAL_SIZES[0]), (TORCH, 11_281_981, TERMINAL_SIZES[1])],
    ids=["log", "trace"],
)
async def test_the_launch_config_of_the_slowest_kernel(sample: str, total_ns: int, size: tuple[int, int]) -> None:
    async with open_explorer(sample, size=size) as pilot:
        await go_by_menu(pilot, "Kernels")
        screen = screen_of(pilot)
        tables = screen.query_one(LinkedTables)
        slowest = tables.pane(0).current_row
        assert slowest is not None
        name = "batch_norm_collect_statistics_channels_last_kernel"
        assert name in slowest["name"]
        assert (slowest["calls"], slowest["total_ns"]) == (265, total_ns)
        await press_named(pilot, "enter", "l", "s", "enter")
        launch = tables.pane(1).current_row
        assert launch is not None
        config = (
            app_of(pilot)
            .profile_session.profile["activities"]
            .filter(pl.col("name").cast(pl.String) == slowest["name"])
        )
        assert launch["duration_ns"] == config["duration_ns"].max()
        text = screen_text(pilot.app)
        assert "186.21 µs" in text
        for fact in ("(2 128 1)  256 blocks", "(32 16 1)  512 threads", "40  per thread"):
            assert fact in text


@pytest.mark.parametrize("size", TERMINAL_SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_longest_idle_gap(size: tuple[int, int]) -> None:
    async with open_explorer(LOG, size=size) as pilot:
        longest = gaps(app_of(pilot).profile_session.profile).sort("duration_ns", descending=True).row(0, named=True)
        await go_by_menu(pilot, "Timeline")
        await press_named(pilot, "I")
        await press(pilot, "enter")
        assert (longest["start_ns"], longest["duration_ns"]) == (169_458_656, 5_291_344)
        assert "gap of 5.29 ms from 169.458656 ms in GPU 0 stream 7" in screen_text(pilot.app)


async def test_a_command_goes_to_the_longest_idle_gap_from_any_view() -> None:
    async with open_explorer(LOG, size=(80, 24), view="ops-and-kernels") as pilot:
        await press(pilot, "colon", *"gaps", "enter")
        assert isinstance(pilot.app.screen, MenuScreen)
        assert "Longest gaps in GPU 0 stream 7" in screen_text(pilot.app)
        await press(pilot, "enter")
        assert "gap of 5.29 ms from 169.458656 ms in GPU 0 stream 7" in screen_text(pilot.app)
        await press(pilot, "1", "ctrl+p", *"gaps")
        await wait_until(pilot, lambda: "Timeline: Longest gaps  (I)" in screen_text(pilot.app), "the command is found")


async def test_the_key_of_a_view_without_data_says_why() -> None:
    async with open_explorer("gpt_summary.nvprof.log", notifications=True) as pilot:
        await press(pilot, "colon", *"gaps", "enter")
        assert "Timeline: no start times: record with nvprof" in screen_text(pilot.app)


@pytest.mark.parametrize(
    ("sample", "worst", "time", "size"),
    [
        (LOG, 4, "53.2 ms, 1.29x the median  other 64%", TERMINAL_SIZES[1]),
        (TORCH, 7, "53.7 ms, 1.31x the median  CPU 52%", TERMINAL_SIZES[0]),
    ],
    ids=["log", "trace"],
)
async def test_the_worst_iteration(sample: str, worst: int, time: str, size: tuple[int, int]) -> None:
    async with open_explorer(sample, size=size) as pilot:
        await go_by_menu(pilot, "Iterations")
        await press_named(pilot, "t")
        assert f"iteration {worst}: {time}" in screen_text(pilot.app)
        await press_named(pilot, "enter")
        screen = screen_of(pilot)
        tables = screen.query_one(LinkedTables)
        assert screen.VIEW == "kernels-by-iteration"
        row, launches = tables.pane(0).current_row, tables.pane(1)
        assert row is not None
        assert screen.table is launches
        assert (row["iteration"], launches.frame.height) == (worst, 923)
