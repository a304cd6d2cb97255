"""Keys typed at once, across an enter: the rest reaches what the enter opened."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from textual import events

from tests.screens.explorer import KEY_NAMES, app_of, open_explorer, press, sample_path, settle, type_at_once, view_of
from tests.snapshots import screen_text
from tests.waiting import WorkerGate, wait_until
from tui import opening
from tui.analysis.dashboard import dashboard_parts
from tui.app import ProftuiApp
from tui.opening import open_profiles
from tui.options import OpenOptions
from tui.screens.dashboard import screen as dashboard_screen
from tui.screens.loading import LoadingScreen
from tui.screens.log import LogScreen
from tui.screens.timeline import TimelineScreen
from tui.widgets.charts.bar_list import BarList
from tui.widgets.table.pane import TablePane
from tui.widgets.table.view import FrameTable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from textual.pilot import Pilot


@pytest.mark.parametrize("begins", ["f", "/"])
async def test_keys_after_the_query_bar_reach_the_rows(begins: str) -> None:
    async with open_explorer("resnet50_training.nvprof.log", view="kernels") as pilot:
        await type_at_once(pilot, f"{begins}gemm\r")
        table = pilot.app.screen.query(FrameTable).first()
        at, rows = table.model.cursor_row, len(table.model.rows)
        await press(pilot, "escape")
        await press(pilot, "g")
        await type_at_once(pilot, f"{begins}gemm\rjj")
        assert pilot.app.focused is table
        assert (table.model.cursor_row, len(table.model.rows)) == (at + 2, rows)


async def test_keys_after_a_wrong_filter_are_dropped() -> None:
    async with open_explorer("resnet50_training.nvprof.log", view="kernels") as pilot:
        await type_at_once(pilot, "fgemm|\rjj")
        bar = pilot.app.screen.query(TablePane).first().search.bar
        assert (bar.is_open, bar.text) == (True, "gemm|")
        await type_at_once(pilot, "relu\rj")
        table = pilot.app.screen.query(FrameTable).first()
        assert (bar.is_open, table.model.cursor_row) == (False, 1)


async def test_a_second_search_can_follow_at_once() -> None:
    async with open_explorer("resnet50_training.nvprof.log", view="kernels") as pilot:
        await type_at_once(pilot, "fgemm\r/cudnn\r")
        state = pilot.app.screen.query(TablePane).first().state
        assert (state.filter, state.find) == ("gemm", "cudnn")


async def test_keys_after_a_search_in_the_log_continue_from_the_match() -> None:
    async with open_explorer("resnet50_training.nvprof.log", view="log") as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, LogScreen)
        await type_at_once(pilot, "/gemm\r")
        hit = screen.log_view.cursor_line
        await press(pilot, "escape", "g")
        assert screen.log_view.cursor_line != hit
        await type_at_once(pilot, "/gemm\rjj")
        assert screen.log_view.cursor_line == hit + 2


async def test_keys_after_a_search_in_the_timeline_continue_from_the_match() -> None:
    async with open_explorer("resnet50_training.nvprof.log", view="timeline") as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, TimelineScreen)
        await type_at_once(pilot, "/gemm\r")
        hit = screen.lanes.item
        await press(pilot, "escape", "home")
        await type_at_once(pilot, "/gemm\rn")
        assert hit is not None
        assert screen.lanes.item is not None
        assert screen.lanes.item > hit


async def test_keys_after_a_query_reach_its_rows() -> None:
    async with open_explorer("resnet50_training.nvprof.log") as pilot:
        app_of(pilot).go("sql")
        await wait_until(pilot, lambda: getattr(pilot.app.focused, "id", "") == "sql", "the editor")
        await type_at_once(pilot, "select * from kernels\r\tjj")
        table = pilot.app.screen.query(FrameTable).first()
        assert pilot.app.focused is table
        assert (table.model.cursor_row, len(table.model.rows)) == (2, 80)


def slow_open_profiles(go_on: WorkerGate) -> Any:
    """Block the opening of files until the gate is set."""

    def read(*arguments: Any, **options: Any) -> opening.OpenedProfiles:
        go_on.wait()
        return open_profiles(*arguments, **options)

    return patch.object(opening, "open_profiles", read)


@pytest.mark.parametrize("late", ["before", "after"])
async def test_keys_typed_around_the_end_of_loading_keep_their_order(late: str) -> None:
    """Some are typed while the files are read, others just before or after the first view is shown."""
    app = ProftuiApp(OpenOptions(paths=(sample_path("resnet50_training.nvprof.log"),)))
    go_on, seen = WorkerGate(), []
    loaded = app.profile_loading._show_opened

    def arrive(opened_: opening.OpenedProfiles) -> None:
        if late == "before":
            post("3")
        loaded(opened_)
        if late == "after":
            post("3")
        post("4")

    def post(key: str) -> None:
        app.post_message(events.Key(key, key))

    go = app.go

    def note(name: str, *arguments: Any) -> None:
        seen.append(name)
        go(name, *arguments)

    with (
        slow_open_profiles(go_on),
        patch.object(app.profile_loading, "_show_opened", arrive),
        patch.object(app, "go", note),
    ):
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_until(pilot, lambda: isinstance(app.screen, LoadingScreen), "the loading screen")
            post("7")
            post("2")
            await pilot.pause()
            go_on.set()
            await wait_until(pilot, lambda: len(seen) == 5, "all keys")
    assert seen == ["dashboard", "iterations", "op-types", "group-ops", "ops-and-kernels"]


@pytest.mark.parametrize(
    ("keys", "is_open"), [(":sql SELECT q FROM Q", True), ("/sq", True), (":kernels\rq", False), ("4q", False)]
)
async def test_q_typed_while_loading_is_text_in_inputs_and_quits_elsewhere(keys: str, is_open: bool) -> None:
    app = ProftuiApp(OpenOptions(paths=(sample_path("resnet50_training.nvprof.log"),)))
    go_on = WorkerGate()
    with slow_open_profiles(go_on), patch.object(app.profile_loading, "_show_opened", lambda _opened: None):
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_until(pilot, lambda: isinstance(app.screen, LoadingScreen), "the loading screen")
            for key in keys:
                app.post_message(events.Key(KEY_NAMES.get(key, key), key))
            await pilot.pause()
            assert app.is_running == is_open
            go_on.set()


async def test_a_late_focus_request_does_not_take_keys_from_the_query_bar() -> None:
    async with open_explorer("resnet50_training.nvprof.log", view="kernels") as pilot:
        pane = pilot.app.screen.query(TablePane).first()
        pane.focus_table()
        pane.action_filter()
        await type_at_once(pilot, "name:a1")
        assert (pane.search.bar.is_open, pane.search.bar.text) == (True, "name:a1")
        assert "esc undo" in screen_text(pilot.app).splitlines()[-1]
        await type_at_once(pilot, "\r")
        assert pilot.app.focused is pane.table


@asynccontextmanager
async def dashboard_without_lines(*, while_reading: str = "") -> AsyncIterator[tuple[Pilot[None], WorkerGate]]:
    """Open the dashboard with its lines blocked until the gate is set; ``while_reading``: keys typed during loading."""
    app, is_worked_out = ProftuiApp(OpenOptions(paths=(sample_path("resnet50_training.nvprof.log"),))), WorkerGate()

    def late(*arguments: Any, **options: Any) -> Iterator[Any]:
        assert is_worked_out.wait()
        yield from dashboard_parts(*arguments, **options)

    with patch.object(dashboard_screen, "dashboard_parts", late):
        async with app.run_test(size=(80, 24)) as pilot:
            try:
                for key in while_reading:
                    app.post_message(events.Key(KEY_NAMES.get(key, key), key))
                await wait_until(
                    pilot, lambda: app.view_screen is not None and app.focused is not None, "the dashboard"
                )
                yield pilot, is_worked_out
            finally:
                is_worked_out.set()


def list_and_line(pilot: Pilot[None]) -> tuple[str | None, int]:
    """Return the list of the dashboard that has the focus, and its line under the cursor."""
    bars = pilot.app.focused
    assert isinstance(bars, BarList)
    return bars.id, bars.cursor


@pytest.mark.parametrize("while_reading", [True, False], ids=["while-reading", "while-working-out"])
@pytest.mark.parametrize(("keys", "line"), [("G", 2), ("jj", 2), ("Gk", 1), ("j\x1bG", 2)])
async def test_keys_for_lines_of_the_dashboard_wait_for_lines(keys: str, line: int, while_reading: bool) -> None:
    keys = keys.replace("\x1b", "" if while_reading else "\x1b")
    async with dashboard_without_lines(while_reading=keys if while_reading else "") as (pilot, is_worked_out):
        if not while_reading:
            for key in keys:
                pilot.app.post_message(events.Key(KEY_NAMES.get(key, key), key))
        await pilot.pause()
        assert list_and_line(pilot) == ("findings", 0)
        is_worked_out.set()
        await settle(pilot)
        assert list_and_line(pilot) == ("findings", line)
        await press(pilot, "k")
        assert list_and_line(pilot) == ("findings", line - 1)


async def test_enter_on_a_line_that_is_being_computed_opens_it_later_unless_escape_cancels() -> None:
    for keys, view in (("enter",), "expert-systems"), (("enter", "escape"), "dashboard"):
        async with dashboard_without_lines() as (pilot, is_worked_out):
            await pilot.press(*keys)
            is_worked_out.set()
            await settle(pilot)
            await wait_until(pilot, lambda view=view: view_of(pilot) == view, view)  # type: ignore[misc]
            await settle(pilot)
            assert view_of(pilot) == view


async def test_leaving_the_dashboard_does_not_wait_for_its_lines() -> None:
    async with dashboard_without_lines() as (pilot, is_worked_out):
        await pilot.press("G", "7")
        await wait_until(pilot, lambda: view_of(pilot) == "iterations", "the iterations")
        assert not is_worked_out.is_set()
        await pilot.press("j")
        is_worked_out.set()
        await settle(pilot)
        assert pilot.app.screen.query(FrameTable).first().model.cursor_row == 2
