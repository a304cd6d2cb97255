"""The SQL view: typing, running and recalling queries, and their result as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from textual.widgets import Input, Static

from tests.screens.explorer import FAST_VIEW, app_of, assert_at_sizes, open_explorer, press, run_sql, settle
from tests.snapshots import screen_text
from tests.waiting import wait_until
from tui.screens.sql import SqlEditor, SqlScreen
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

CAFFE = "caffe_conv1.nvprof.log"
ASKED = "SELECT name, calls, total_ns FROM kernels ORDER BY total_ns DESC LIMIT 3"


def answer_text(screen: SqlScreen) -> str:
    return str(screen.query_one("#sql-answer", Static).content)


async def test_a_query_on_the_command_line_shows_its_rows() -> None:
    async with open_explorer(CAFFE, view=FAST_VIEW) as pilot:
        screen = await run_sql(pilot, ASKED)
        pane = screen.query_one("#result", TablePane)
        assert pane.frame.columns == ["#", "name", "calls", "total_ns"]
        assert pane.frame["total_ns"].is_sorted(descending=True)
        assert answer_text(screen).startswith("3 rows in ")
        screen._show("select 1", pl.DataFrame({"one": [1]}), 123.4)
        assert answer_text(screen).startswith("1 row in 123 s")


@pytest.mark.parametrize(
    ("sample", "example"),
    [
        (CAFFE, "SELECT name, total_ns FROM kernels ORDER BY total_ns DESC LIMIT 10"),
        ("metrics_and_events.nvprof.log", "SELECT device, kernel, grid_x FROM metrics LIMIT 10"),
        ("paleo_vgg16.txt", "SELECT model, position, layer FROM layers LIMIT 10"),
    ],
)
async def test_the_example_query_fits_the_input(sample: str, example: str) -> None:
    async with open_explorer(sample, view=FAST_VIEW) as pilot:
        screen = await run_sql(pilot, "")
        assert screen.query_one(SqlEditor).placeholder == example
        await press(pilot, "enter")
        editor = screen.query_one(SqlEditor)
        assert (editor.text, editor.cursor_location) == (example, (0, len(example)))
        await pilot.app.workers.wait_for_complete()
        await settle(pilot)
        assert answer_text(screen).startswith("10 rows in ")


async def test_enter_on_a_table_shows_its_first_rows() -> None:
    async with open_explorer(CAFFE, view=FAST_VIEW) as pilot:
        screen = await run_sql(pilot, "")
        pane = screen.query_one("#result", TablePane)
        assert pane.frame["table"].to_list()[:3] == ["sessions", "devices", "activities"]
        await press(pilot, "tab", "j", "j", "enter")
        await pilot.app.workers.wait_for_complete()
        await settle(pilot)
        assert screen.query_one(SqlEditor).text == "SELECT * FROM activities LIMIT 100"
        assert pane.frame.height == 32


async def test_an_error_is_reported_at_its_place_and_the_rows_stay() -> None:
    async with open_explorer(CAFFE, view=FAST_VIEW) as pilot:
        screen = await run_sql(pilot, ASKED)
        screen.query_one("#result", TablePane).focus_table()
        await run_sql(pilot, "SELECT nope FROM kernels")
        assert answer_text(screen).startswith("! unknown column nope; columns: session, kind, name")
        assert screen.query_one("#result", TablePane).frame.height == 3
        assert screen.focused is screen.query_one(SqlEditor)


async def test_a_command_typed_as_a_query_names_the_key_that_leads_to_commands() -> None:
    async with open_explorer(CAFFE, view=FAST_VIEW) as pilot:
        screen = await run_sql(pilot, ASKED)
        await run_sql(pilot, ":kernels")
        assert answer_text(screen) == "! Here : is part of the query. Press esc, then : for a command."
        assert app_of(pilot).session_restore.queries.texts()[-1] == ASKED
        await press(pilot, "escape", "colon")
        assert isinstance(pilot.app.focused, Input)


async def test_the_command_without_a_query_focuses_the_editor() -> None:
    async with open_explorer(CAFFE, view=FAST_VIEW) as pilot:
        screen = await run_sql(pilot, ASKED)
        screen.query_one("#result", TablePane).focus_table()
        await run_sql(pilot, "")
        await wait_until(pilot, lambda: screen.focused is screen.query_one(SqlEditor), "the query")
        assert screen.query_one(SqlEditor).text == ASKED


async def test_an_error_before_any_rows_ends_the_loading_state() -> None:
    async with open_explorer(CAFFE, view=FAST_VIEW) as pilot:
        screen = await run_sql(pilot, "")
        # As it is where the list of tables gives way to a query before it is there.
        screen.query_one("#result", TablePane).is_loading = True
        await run_sql(pilot, "SELECT nothing FROM kernels")
        assert answer_text(screen).startswith("! ")
        assert not screen.query_one("#result", TablePane).is_loading
        assert "loading…" not in screen_text(pilot.app)


async def test_queries_are_recalled_and_completed() -> None:
    async with open_explorer(CAFFE, view=FAST_VIEW) as pilot:
        screen = await run_sql(pilot, "SELECT 1 AS a")
        await run_sql(pilot, "SELECT 2 AS b")
        editor = screen.query_one(SqlEditor)
        editor.focus()
        await press(pilot, "up", "up")
        assert editor.text == "SELECT 1 AS a"
        await press(pilot, "down")
        assert editor.text == "SELECT 2 AS b"
        editor.put("")
        await press(pilot, *"SELECT na", "right")
        assert editor.text == "SELECT name"


async def test_queries_are_recalled_in_the_next_run_until_forgotten(state_directory: Path) -> None:
    async with open_explorer(CAFFE, view=FAST_VIEW) as pilot:
        await run_sql(pilot, "SELECT 1 AS a")
        await run_sql(pilot, "SELECT 'ü' AS b")
        await run_sql(pilot, "SELECT 1 AS a")
    assert (state_directory / "queries.json").stat().st_mode & 0o777 == 0o600
    async with open_explorer("gpt_summary.nvprof.log") as pilot:
        screen = await run_sql(pilot, "")
        editor = screen.query_one(SqlEditor)
        assert editor.queries == ["SELECT 'ü' AS b", "SELECT 1 AS a"]
        editor.focus()
        await press(pilot, "up", "up")
        assert editor.text == "SELECT 'ü' AS b"
        await run_sql(pilot, "SELECT 3 AS c")
        app_of(pilot).forget()
        assert app_of(pilot).session_restore.queries.texts() == ["SELECT 'ü' AS b", "SELECT 1 AS a"]
        await run_sql(pilot, "SELECT 4 AS d")
        assert app_of(pilot).session_restore.queries.texts() == ["SELECT 'ü' AS b", "SELECT 1 AS a"]


async def test_the_view_follows_the_session() -> None:
    async with open_explorer("tracking_four_runs.nvprof.log") as pilot:
        screen = await run_sql(pilot, "SELECT COUNT(*) AS n FROM sessions")
        pane = screen.query_one("#result", TablePane)
        assert pane.frame["n"].to_list() == [4]
        app_of(pilot).profile_session.choose_session(1)
        await pilot.app.workers.wait_for_complete()
        await settle(pilot)
        assert pane.frame["n"].to_list() == [1]


async def test_screen(snapshot: SnapshotAssertion) -> None:
    async with open_explorer(CAFFE, view=FAST_VIEW) as pilot:
        screen = await run_sql(pilot, ASKED)
        screen.query_one("#sql-answer", Static).update("3 rows")  # the time differs from run to run
        await settle(pilot)
        await assert_at_sizes(pilot, snapshot)
