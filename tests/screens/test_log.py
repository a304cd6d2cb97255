"""The log: the lines of the input, what was parsed from them, and searching."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.screens.explorer import app_of, go_to, messages_of, open_explorer, press, sample_path, screen_of, settle
from tests.snapshots import screen_text
from tests.waiting import wait_until
from tui.screens.log import LogScreen
from tui.widgets.details import DetailPane

if TYPE_CHECKING:
    from textual.pilot import Pilot

CAFFE, RUNS = "caffe_conv1.nvprof.log", "tracking_four_runs.nvprof.log"


def status_text(pilot: Pilot[None]) -> str:
    return str(screen_of(pilot, LogScreen).query_one("#log-status").render())


async def test_keys_and_mouse_move_in_the_log_and_esc_clears_the_search() -> None:
    async with open_explorer(CAFFE, view="log", notifications=True) as pilot:
        log = screen_of(pilot, LogScreen)
        view = log.log_view
        last, height = view.line_count, view.size.height
        moves = (("G", last), ("k", last - 1), ("ctrl+u", last - 1 - round((height - 1) / 2)), ("g", 1), ("j", 2),
                 ("pagedown", 2 + height - 1), ("pageup", 2))  # fmt: skip
        for key, line in moves:
            await press(pilot, key)
            assert view.cursor_line == line, key
        await press(pilot, "g")
        await pilot.click(view, offset=(30, 4))
        assert view.cursor_line == 5
        await press(pilot, "n")
        assert messages_of(pilot)[-1] == "Nothing searched yet. Press /."
        with patch("tui.screens.log.copy_text", return_value="Copied.") as copied:
            await press(pilot, "y")
        assert copied.call_args.args == (pilot.app, 'input: "data"')
        await press(pilot, "slash", *"no such text", "enter")
        await wait_until(pilot, lambda: "no match for 'no such text'" in status_text(pilot), "the answer")
        assert view.cursor_line == 5
        await press(pilot, "escape")
        await press(pilot, "n")
        assert messages_of(pilot)[-1] == "Nothing searched yet. Press /."
        await press(pilot, "slash")
        await press(pilot, "escape")
        assert pilot.app.focused is view


async def test_details_follow_the_line_and_notes_lead_back_to_it() -> None:
    async with open_explorer(CAFFE, view="log", notifications=True) as pilot:
        log = screen_of(pilot, LogScreen)
        await press(pilot, "p", "enter")
        detail = log.query_one(DetailPane)
        assert detail.is_open
        await press(pilot, "g")
        assert "No values were read from this line." in screen_text(pilot.app)
        log.action_toggle_line_detail()
        assert not detail.is_open
        source = log.profile.sources[0]
        log.show_item("lines", (source, 7))
        await settle(pilot)
        assert log.log_view.cursor_line == 7
        log.show_item("lines", (source, 10**6))
        await settle(pilot)
        assert messages_of(pilot)[-1] == "The line is no longer in the file."
        assert log.log_view.cursor_line == 7


async def test_the_history_and_the_chosen_session_lead_to_their_file() -> None:
    async with open_explorer(CAFFE, RUNS, view="log") as pilot:
        log, session = screen_of(pilot, LogScreen), app_of(pilot).profile_session
        log.log_view.go_to(12)
        await go_to(pilot, "issues")
        app_of(pilot).navigator.go_to_line(30, 1)
        await settle(pilot)
        assert (log.path(), log.log_view.cursor_line) == ([sample_path(RUNS)], 30)
        await press(pilot, "left_square_bracket", "left_square_bracket")
        assert (log.path(), log.log_view.cursor_line) == ([sample_path(CAFFE)], 12)
        await press(pilot, "right_square_bracket", "right_square_bracket")
        assert (log.path(), log.log_view.cursor_line) == ([sample_path(RUNS)], 30)
        session.choose_session(0)
        await settle(pilot)
        assert log.path() == [sample_path(CAFFE)]
        log.show_line(30, 1)
        assert log.path() == [sample_path(RUNS)], "a line of another session can be shown"
        session.choose_session(None)
        await settle(pilot)
        assert log.path() == [sample_path(RUNS)]


async def test_a_line_of_another_file_opens_that_file() -> None:
    async with open_explorer(CAFFE, RUNS, view="log") as pilot:
        log = screen_of(pilot, LogScreen)
        assert log.path() == [sample_path(CAFFE)]
        log.show_line(30, 1)
        await settle(pilot)
        assert (log.path(), log.log_view.cursor_line) == ([sample_path(RUNS)], 30)
        log.show_item("lines", (sample_path(CAFFE), 12))
        await settle(pilot)
        assert (log.path(), log.log_view.cursor_line) == ([sample_path(CAFFE)], 12)
