"""A tour by keys: to every view and back, and what stays as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from textual.command import CommandPalette
from textual.widgets import Input, OptionList

from tests.screens.explorer import app_of, messages_of, open_explorer, press, screen_of, settle, view_of
from tests.snapshots import screen_text
from tests.waiting import wait_until
from tui.screens.linked_tables import LinkedTables
from tui.screens.menus import MenuScreen
from tui.screens.timeline import TimelineScreen
from tui.text import begin_sentence
from tui.views import GROUPS, VIEWS
from tui.widgets.details import DetailPane

if TYPE_CHECKING:
    from textual.pilot import Pilot


LOG, TORCH = "resnet50_training.nvprof.log", "resnet50_training.pt.trace.json.gz"
ROWS: Final = {
    LOG: {
        "op-types": 18, "group-ops": 33, "ops-and-kernels": 23, "kernels-by-iteration": 6, "kernels-by-op": 6,
        "iterations": 6, "gpus": 1, "expert-systems": 9, "api-calls": 5, "kernels": 80, "memory": 2, "notes": 0,
        "issues": 0, "sql": 74, "critical-path": 5,
    },
    TORCH: {
        "op-types": 16, "group-ops": 34, "ops-and-kernels": 76, "kernels-by-iteration": 6, "kernels-by-op": 6,
        "iterations": 6, "gpus": 1, "expert-systems": 11, "api-calls": 17, "kernels": 80, "memory": 2, "ranges": 11,
        "roofline": 163, "critical-path": 5, "notes": 0, "issues": 0, "sql": 74,
    },
}  # fmt: skip
"""Rows that the first table of each view shows, by sample; the other views that can be gone to are no tables."""
VIEWS_WITHOUT_TABLE: Final = {LOG: {"dashboard", "timeline", "flame", "log"}, TORCH: {"dashboard", "timeline", "flame"}}
VIEWS_WITHOUT_DATA: Final = {
    LOG: {"roofline", "ranges", "metrics", "summaries", "layers", "tool-report"},
    TORCH: {"metrics", "summaries", "layers", "tool-report", "log"},
}


async def go_by_menu(pilot: Pilot[None], name: str) -> None:
    """Go to a view by the menu, which skips views without data."""
    await press(pilot, "m")
    assert isinstance(pilot.app.screen, MenuScreen)
    fed = [known for known in VIEWS if app_of(pilot).navigator.availability.get(known.name, "ok") == "ok"]
    names = [known.name for group in GROUPS for known in fed if known.group == group]
    await press(pilot, "g")
    await pilot.press(*["j"] * names.index(name), "enter")
    await settle(pilot)


def assert_arrived(pilot: Pilot[None], sample: str, name: str) -> None:
    """Check that the view shows its first level, unfiltered, with all of its rows."""
    assert view_of(pilot) == name
    assert pilot.app.screen is screen_of(pilot), "nothing lies above it"
    if name in VIEWS_WITHOUT_TABLE[sample]:
        return
    table = screen_of(pilot).first_table
    assert table is not None
    assert (table.model.shown_frame().height, table.state.filter, table.state.marks) == (
        ROWS[sample][name],
        "",
        frozenset(),
    )
    screen = screen_of(pilot)
    if screen.query(LinkedTables):
        assert screen.table is screen.query_one(LinkedTables).pane(0)


@pytest.mark.parametrize("sample", [LOG, pytest.param(TORCH, marks=pytest.mark.slow)])
async def test_every_view_is_reachable_and_back(sample: str) -> None:
    async with open_explorer(sample) as pilot:
        gone_to = ["dashboard"]
        for known in VIEWS[1:]:
            if known.name in VIEWS_WITHOUT_DATA[sample] | {"compare", "sql"}:
                continue
            if known.key:
                await press(pilot, known.key)
            else:
                await go_by_menu(pilot, known.name)
            assert_arrived(pilot, sample, known.name)
            gone_to.append(known.name)
        for name in gone_to[-2::-1]:
            await press(pilot, "left_square_bracket")
            assert_arrived(pilot, sample, name)
        for name in gone_to[1:]:
            await press(pilot, "right_square_bracket")
            assert view_of(pilot) == name
        for name in gone_to[-2::-1]:
            await press(pilot, "q")
            assert_arrived(pilot, sample, name)
        assert pilot.app.return_code is None
        await press(pilot, "q")
        assert pilot.app.return_code == 0


@pytest.mark.parametrize("sample", [LOG, pytest.param(TORCH, marks=pytest.mark.slow)])
async def test_views_without_data_are_skipped_and_say_why(sample: str) -> None:
    async with open_explorer(sample, notifications=True) as pilot:
        assert {
            name for name, why in app_of(pilot).navigator.availability.items() if why != "ok"
        } == VIEWS_WITHOUT_DATA[sample]
        for name in sorted(VIEWS_WITHOUT_DATA[sample]):
            await press(pilot, "colon")
            await pilot.press(*name, "enter")
            await settle(pilot)
            assert view_of(pilot) == "dashboard"
            messages = messages_of(pilot)
            assert messages[-1].endswith(app_of(pilot).navigator.availability[name])


async def test_the_path_to_a_launch_is_kept() -> None:
    async with open_explorer(TORCH) as pilot:
        await press(pilot, "4", "f")
        await pilot.press(*"conv", "enter")
        await press(pilot, "enter", "enter", "j", "j", "enter")
        screen = screen_of(pilot)
        tables = screen.query_one(LinkedTables)
        left = (
            tables.pane(0).state,
            screen.table,
            tables.pane(2).current_row,
            tables.pane(2).model.shown_frame().height,
        )
        launch = left[2]
        assert launch is not None
        assert left[0].filter == "conv"
        assert left[1] is tables.pane(2)
        assert screen.query_one(DetailPane).is_open

        def as_left() -> None:
            assert screen_of(pilot) is screen
            table = tables.pane(2)
            assert (tables.pane(0).state, screen.table, table.current_row, table.model.shown_frame().height) == left
            assert screen.query_one(DetailPane).is_open

        for away, home in (
            (("7",), ("minus",)),
            (("0", "8"), ("left_square_bracket", "left_square_bracket")),
            (("m", "G", "k", "enter"), ("q",)),
            (("colon", *"ranges", "enter"), ("4",)),
        ):
            await press(pilot, *away)
            assert view_of(pilot) != "ops-and-kernels"
            await press(pilot, *home)
            as_left()


async def test_the_palette_finds_views_and_actions() -> None:
    async with open_explorer(LOG) as pilot:
        await press(pilot, "ctrl+p")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, CommandPalette), "the palette")
        found = pilot.app.screen.query_one(OptionList)
        await wait_until(pilot, lambda: found.option_count > len(VIEWS), "all commands")
        assert "Go to Expert Systems  (9)" in screen_text(pilot.app)
        # A blinking cursor sends bytes for ever.
        assert not pilot.app.screen.query_one(Input).cursor_blink
        await pilot.press(*"timeline")
        await wait_until(pilot, lambda: 0 < found.option_count < len(VIEWS), "what it finds")
        await settle(pilot)
        await press(pilot, "enter")
        await wait_until(pilot, lambda: view_of(pilot) == "timeline", "the view")
        assert isinstance(screen_of(pilot), TimelineScreen)


async def test_the_menu_shows_its_last_line_and_every_reason_whole() -> None:
    async with open_explorer(LOG, size=(80, 24)) as pilot:
        await press(pilot, "m", "G")
        text = dialog_text(pilot)
        assert "problems found while reading the input" in text
        assert "Not recorded 6 views: Roofline, Ranges, Metrics, Other Summaries, Layers, Profiler Report" in text
        await press(pilot, "enter")
        for where in ("as it opens", "at its end"):
            text = dialog_text(pilot)
            assert "Not recorded in this profile" in text, where
            for name in sorted(VIEWS_WITHOUT_DATA[LOG]):
                assert begin_sentence(app_of(pilot).navigator.availability[name]) in text, where
            await press(pilot, "g", "G")
        await press(pilot, "enter")
        assert view_of(pilot) == "issues"


def dialog_text(pilot: Pilot[None]) -> str:
    """Return the words of a dialog, without its frame and scroll bar."""
    lines = [line.partition("│")[2].rpartition("│")[0] for line in screen_text(pilot.app).splitlines()]
    return " ".join(" ".join(line.rstrip("▁▂▃▄▅▆▇█") for line in lines).split())
