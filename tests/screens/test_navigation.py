"""Keys, links, history and commands that lead from view to view."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from textual import events
from textual.widgets import Input
from textual.widgets._toast import Toast

from tests.screens.explorer import (
    FAST_VIEW,
    app_of,
    go_to,
    messages_of,
    open_explorer,
    press,
    run_line,
    screen_of,
    settle,
    view_of,
)
from tests.snapshots import screen_text
from tests.waiting import wait_until
from tui.app.navigator import screen_class
from tui.commands import CommandPaletteProvider
from tui.keys import ACTIONS, Scope
from tui.screens import base
from tui.screens.help import HelpScreen
from tui.screens.linked_tables import LinkedTables
from tui.screens.log import LogScreen
from tui.screens.menus import BORDER_CELLS, TITLE_CELLS, MenuScreen, menu_width
from tui.textual_patches import TooSmallScreen
from tui.views import VIEWS, view
from tui.widgets.charts.flame import FlameChart
from tui.widgets.details import DetailPane
from tui.widgets.dialogs.base import MenuLines
from tui.widgets.input_bars import CommandBar
from tui.widgets.table.pane import TablePane
from tui.widgets.timeline.view import TimelineView

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.pilot import Pilot

    from tui.screens.base import ViewScreen

CAFFE = "caffe_conv1.nvprof.log"
RUNS = "tracking_four_runs.nvprof.log"


def linked_screen(pilot: Pilot[None]) -> ViewScreen:
    screen = screen_of(pilot)
    assert screen.query(LinkedTables)
    return screen


async def test_links_lead_from_an_op_to_a_kernel_to_a_source_line_and_back() -> None:
    async with open_explorer(CAFFE, view="ops-and-kernels") as pilot:
        ops = linked_screen(pilot).query_one("#ops", TablePane)
        assert ops.current_row is not None
        assert (ops.current_row["op"], ops.current_row["total_ns"]) == ("convolution backward filter", 281_640_000)

        await press(pilot, "enter")
        kernels = linked_screen(pilot).query_one("#kernels", TablePane)
        assert linked_screen(pilot).table is kernels
        assert kernels.current_row is not None
        assert kernels.current_row["calls"] == 2

        await press(pilot, "enter")
        launches = linked_screen(pilot).query_one("#launches", TablePane)
        assert linked_screen(pilot).table is launches
        assert launches.frame["duration_ns"].to_list() == [140_090_000, 141_550_000]

        await press(pilot, "enter")
        assert linked_screen(pilot).query_one(DetailPane).is_open
        shown = screen_text(pilot.app)
        assert "(6 1 128)  768 blocks" in shown
        assert "(8 32 1)  256 threads" in shown

        await press(pilot, "L")
        log = screen_of(pilot, LogScreen)
        assert launches.current_row is not None
        assert log.log_view.cursor_line == launches.current_row["line"]
        assert "140.09ms" in screen_text(pilot.app)

        await press(pilot, "q")
        assert (view_of(pilot), linked_screen(pilot).table) == ("ops-and-kernels", launches)
        await press(pilot, "q")
        assert not linked_screen(pilot).query_one(DetailPane).is_open
        await press(pilot, "q")
        assert linked_screen(pilot).table is linked_screen(pilot).query_one("#kernels", TablePane)
        await press(pilot, "q")
        assert linked_screen(pilot).table is linked_screen(pilot).query_one("#ops", TablePane)
        await press(pilot, "q")
        assert view_of(pilot) == "dashboard"
        await press(pilot, "q")
        assert pilot.app.return_code == 0


async def test_backspace_goes_back_and_never_quits() -> None:
    async with open_explorer(CAFFE, notifications=True, view="ops-and-kernels") as pilot:
        await press(pilot, "enter", "backspace")
        assert linked_screen(pilot).table is linked_screen(pilot).query_one("#ops", TablePane)
        await press(pilot, "backspace")
        assert view_of(pilot) == "dashboard"
        await press(pilot, "backspace")
        assert pilot.app.is_running
        assert "This is the first view. q quits." in screen_text(pilot.app)


async def test_linked_tables_follow_the_cursor() -> None:
    async with open_explorer(CAFFE, view="ops-and-kernels") as pilot:
        await press(pilot, "j")
        kernels = linked_screen(pilot).query_one("#kernels", TablePane)
        assert kernels.frame["name"].to_list() == ["cudnn_dgrad_sm35_ldg_nt_64x16x64x16x16"]
        assert linked_screen(pilot).query_one("#launches", TablePane).frame["duration_ns"].sum() == 260_020_000


async def test_escape_undoes_one_thing_at_a_time_and_never_quits() -> None:
    async with open_explorer(CAFFE, view="ops-and-kernels") as pilot:
        await press(pilot, "f")
        await pilot.press(*"convolution", "enter")
        await settle(pilot)
        ops = linked_screen(pilot).query_one("#ops", TablePane)
        assert ops.state.filter == "convolution"
        await press(pilot, "space")
        assert len(ops.state.marks) == 1
        await press(pilot, "escape")
        assert not ops.state.marks
        await press(pilot, "escape")
        assert ops.state.filter == ""
        await press(pilot, "escape")
        assert view_of(pilot) == "dashboard"
        await press(pilot, "escape", "escape")
        assert view_of(pilot) == "dashboard"
        assert pilot.app.return_code is None


async def test_history_and_last_view_keys() -> None:
    async with open_explorer("resnet50_training.nvprof.log", view="ops-and-kernels") as pilot:
        await press(pilot, "0")
        assert view_of(pilot) == "api-calls"
        await press(pilot, "left_square_bracket")
        assert view_of(pilot) == "ops-and-kernels"
        await press(pilot, "left_square_bracket")
        assert view_of(pilot) == "dashboard"
        await press(pilot, "right_square_bracket", "right_square_bracket")
        assert view_of(pilot) == "api-calls"
        await press(pilot, "minus")
        assert view_of(pilot) == "ops-and-kernels"
        await press(pilot, "minus")
        assert view_of(pilot) == "api-calls"


def latest_message(pilot: Pilot[None]) -> tuple[str, str]:
    """Return the latest message and its severity."""
    *_, latest = pilot.app._notifications
    return latest.message, latest.severity


async def test_a_key_without_effect_shows_a_message() -> None:
    async with open_explorer(CAFFE, notifications=True) as pilot:
        for key, words in (
            ("left_square_bracket", "This is the start of the history."),
            ("right_square_bracket", "This is the end of the history."),
            ("minus", "No earlier view."),
            ("escape", "Nothing to undo. q quits."),
            ("backspace", "This is the first view. q quits."),
            ("S", "This profile has only one session."),
            ("apostrophe", "Nothing is saved for this file yet."),
        ):
            await press(pilot, key)
            assert latest_message(pilot) == (words, "information"), key
        assert view_of(pilot) == "dashboard"
        await press(pilot, "4")
        await run_line(pilot, "log")
        assert view_of(pilot) == "log"
        app_of(pilot).action_jump()
        await settle(pilot)
        assert latest_message(pilot) == ("This screen has one panel.", "information")


async def test_a_missing_session_is_refused() -> None:
    async with open_explorer(RUNS, notifications=True) as pilot:
        await run_line(pilot, "session 4")
        assert latest_message(pilot) == ("No session 4. Sessions are 0 to 3.", "error")
        assert app_of(pilot).profile_session.session is None


async def test_a_view_keeps_its_state() -> None:
    async with open_explorer(CAFFE, view="ops-and-kernels") as pilot:
        await press(pilot, "j", "j", "m")
        await press(pilot, "escape", "enter", "1", "4")
        row = linked_screen(pilot).query_one("#ops", TablePane).current_row
        assert row is not None
        assert row["op"] == "convolution"


async def test_the_menu_of_views_says_why_a_view_has_no_data() -> None:
    async with open_explorer(CAFFE) as pilot:
        await press(pilot, "m")
        assert isinstance(pilot.app.screen, MenuScreen)
        assert "6 views: Roofline, API Calls, Ranges" in screen_text(pilot.app)
        await press(pilot, "G", "enter")
        assert isinstance(pilot.app.screen, MenuScreen)
        await press(pilot, "G")
        assert "No API calls: record with nvprof --print-api-trace" in screen_text(pilot.app)
        await press(pilot, "j", "j", "j", "enter")
        assert not isinstance(pilot.app.screen, MenuScreen)
        assert view_of(pilot) == "expert-systems"


async def test_the_menu_line_under_the_cursor_has_one_color() -> None:
    async with open_explorer(CAFFE) as pilot:
        await press(pilot, "m")
        lines = pilot.app.screen.query_one(MenuLines)

        def colors(row: int) -> set[object]:
            strip = lines.render_line(row)
            return {segment.style.color for segment in strip if segment.style and segment.text.strip()}

        # Below a heading.
        assert len(colors(1)) == 1
        assert len(colors(2)) > 1
        await press(pilot, "j")
        assert len(colors(1)) > 1
        assert len(colors(2)) == 1


async def test_a_view_without_data_is_refused_with_a_reason() -> None:
    async with open_explorer(CAFFE, notifications=True) as pilot:
        await press(pilot, "0")
        assert view_of(pilot) == "dashboard"
        assert "no API calls" in screen_text(pilot.app)


async def test_help_lists_the_keys_of_the_view_and_the_app_and_can_be_searched() -> None:
    async with open_explorer(CAFFE, size=(140, 60), view="ops-and-kernels") as pilot:
        await press(pilot, "question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        shown = screen_text(pilot.app)
        assert "Sort by this column" in shown
        assert "Open the menu of views." in shown
        await press(pilot, "slash", *"durations")
        assert "Sum of the durations of all calls." in screen_text(pilot.app)
        await press(pilot, "escape", "slash", *"clipboard")
        narrowed = screen_text(pilot.app)
        assert "Copy the cell to the clipboard." in narrowed
        assert "Sort by this column" not in narrowed
        await press(pilot, "escape", "escape")
        assert view_of(pilot) == "ops-and-kernels"
        await press(pilot, "7", "question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        local_actions = [action.id for action in pilot.app.screen._local_actions]
        assert {"iterations.zoom-in", "iterations.zoom-out", "table.open"} <= set(local_actions)
        assert "chart.open" not in local_actions, "the table has the focus"
        assert local_actions.index("table.filter") < local_actions.index("table.down"), "what only moves comes last"
        assert "table.write-note" in local_actions
        assert "app.write-note" not in [action.id for action in pilot.app.screen._global_actions]


@pytest.mark.parametrize(
    ("name", "is_colored"), [("dashboard", True), ("iterations", True), ("flame", True), ("log", False)]
)
async def test_help_explains_colors_only_of_views_that_have_them(name: str, is_colored: bool) -> None:
    async with open_explorer(CAFFE, size=(100, 60), view=name) as pilot:
        await press(pilot, "question_mark")
        assert ("kernels that use tensor cores" in screen_text(pilot.app)) is is_colored
        assert ("Legend" in screen_text(pilot.app)) is is_colored


async def test_commands_open_views_filter_and_sort_and_errors_are_reported() -> None:
    async with open_explorer(CAFFE, notifications=True) as pilot:

        async def command(line: str) -> None:
            await press(pilot, "colon")
            for character in line:
                await pilot.press({" ": "space", ">": "greater_than_sign", "-": "minus"}.get(character, character))
            await press(pilot, "enter")

        await command("kernels wgrad")
        table = linked_screen(pilot).query_one("#kernels", TablePane)
        assert (view_of(pilot), table.state.filter) == ("kernels", "wgrad")
        await command("sort calls")
        assert table.state.sort == (("calls", False),)
        await command("nonsense")
        assert "Unknown command: nonsense." in screen_text(pilot.app)
        with patch.object(app_of(pilot), "say") as say:
            await command("kernals")
        assert say.call_args.args == ("Unknown command: kernals. Did you mean kernels?",)
        await command("export away")
        assert ":export takes no argument." in screen_text(pilot.app)
        await command("83")
        log = screen_of(pilot, LogScreen)
        assert log.log_view.cursor_line == 83
        await command("q")
        assert pilot.app.return_code == 0


async def test_one_of_several_sessions_can_be_selected() -> None:
    async with open_explorer(RUNS) as pilot:
        app = app_of(pilot)
        assert app.profile_session.profile["sessions"].height == 4
        await press(pilot, "S", "j", "j", "enter")
        assert app.profile_session.session == 1
        assert app.profile_session.profile["sessions"]["pid"].to_list() == [14932]
        assert app.profile_session.profile["summary"]["session"].unique().to_list() == [1]
        await press(pilot, "S", "g", "enter")
        assert app.profile_session.session is None


async def test_panels_of_the_dashboard_link_to_views() -> None:
    async with open_explorer(CAFFE) as pilot:
        pilot.app.screen.query_one("#kernels").focus()
        await press(pilot, "j", "enter")
        table = linked_screen(pilot).query_one("#kernels", TablePane)
        assert view_of(pilot) == "kernels"
        await wait_until(pilot, lambda: table.model.shown_frame().height == 1, "the table is filtered")
        assert table.model.shown_frame()["name"].to_list() == ["cudnn_dgrad_sm35_ldg_nt_64x16x64x16x16"]


async def test_find_in_the_log_wraps_around_and_marks_lines() -> None:
    async with open_explorer(CAFFE, view="log") as pilot:
        log = screen_of(pilot, LogScreen)
        await press(pilot, "slash", *"memset", "enter")
        await wait_until(pilot, lambda: log.log_view.cursor_line > 1, "the first match")
        first = log.log_view.cursor_line
        lines = log.profile.texts[log.profile.sources[0]].lines(first, 1)
        assert "[CUDA memset]" in lines[0]
        await press(pilot, "N")
        await wait_until(pilot, lambda: log.log_view.cursor_line != first, "the last match, round the end")
        assert log.log_view.cursor_line > first
        await press(pilot, "n")
        await wait_until(pilot, lambda: log.log_view.cursor_line == first, "the first match again")
        await press(pilot, "i")
        assert "activities" in screen_text(pilot.app)


@pytest.mark.parametrize(
    "comes",
    [
        lambda app: app.profile_session.show_progress("reading", "reading again 5%"),
        lambda app: app.profile_session.show_progress("choosing", "aggregating"),
        lambda app: app.profile_session.choose_session(1),
        lambda app: app.profile_session.set_global_filter("gemm"),
        lambda app: app.notes._notes_changed(),
        lambda app: app.view_screen.show_failure("not enough memory"),
    ],
)
async def test_events_before_a_view_is_composed_take_effect_afterwards(comes: Callable[[Any], None]) -> None:
    async with open_explorer("ddp_ranks") as pilot:
        app = app_of(pilot)
        app.go("kernels")
        comes(app)
        await settle(pilot)
        assert app.internal_error is None
        crumbs = screen_text(app).splitlines()[0]
        assert ("session 1 of 2" if app.profile_session.session == 1 else "all 2 sessions") in crumbs
        assert all(
            words in crumbs for words in (*app.profile_session.progress.values(), app.profile_session.global_filter)
        )
        if app.profile_session.session == 1:
            shown = linked_screen(pilot).query_one(LinkedTables).pane(0).frame["session"].unique().to_list()
            assert shown == [1]


def test_descriptions_of_views_fit_the_menu_of_a_narrow_terminal() -> None:
    room = menu_width(80) - TITLE_CELLS - BORDER_CELLS
    assert {view.name: len(view.description) for view in VIEWS if len(view.description) > room} == {}


async def test_the_log_counts_marked_lines_and_names_their_keys() -> None:
    async with open_explorer("cnn_report_wrapped.md", size=(80, 24), view="log") as pilot:
        screen = screen_of(pilot, LogScreen)
        read = len(screen.log_view.parsed_lines)
        assert read > 1
        assert f"· {read} lines parsed  p: next block  E: next issue  …\n" in screen_text(pilot.app)
        await press(pilot, "p")
        assert screen.log_view.cursor_line == screen.log_view.parsed_lines[0]


@pytest.mark.parametrize(("ascii_only", "sign"), [(False, "…"), (True, "~")], ids=["usual", "ascii"])
async def test_a_cut_line_of_the_log_is_marked_at_its_cut_ends(ascii_only: bool, sign: str) -> None:
    async with open_explorer("gpt_summary.nvprof.log", size=(80, 24), ascii_only=ascii_only, view="log") as pilot:

        def lines() -> list[str]:
            return [line[5:] for line in screen_text(pilot.app).splitlines()[1:4]]

        first = [
            "======== Profiling result:",
            f"            Type  Time(%)      Time     Calls       Avg       Min       Ma{sign}",
            f" GPU activities:   15.80%  2.7488ms       817  3.3640us  3.1680us  4.2560u{sign}",
        ]
        assert lines() == first
        status = screen_text(pilot.app).splitlines()[22]
        dot = "." if ascii_only else "·"
        assert status == f" line 1 of 16 {dot} 14 lines parsed  p: first parsed line  left right: scroll"
        await press(pilot, "l")
        assert lines() == [
            f"{sign}sult:",
            f"{sign}e(%)      Time     Calls       Avg       Min       Max  Name",
            f"{sign}.80%  2.7488ms       817  3.3640us  3.1680us  4.2560us  void at::native::{sign}",
        ]
        await press(pilot, "h", "slash", *"native::", "enter")
        assert "native::" in lines()[2]


async def test_the_log_of_a_session_without_text_is_that_of_another() -> None:
    async with open_explorer("resnet50_training.nvprof.log", "resnet50_training.pt.trace.json.gz") as pilot:
        app_of(pilot).profile_session.choose_session(1)
        await go_to(pilot, "log")
        assert "line 1 of 8,744" in screen_text(pilot.app)
        await press(pilot, "slash", *"gemm", "enter")
        assert app_of(pilot).internal_error is None
        screen = screen_of(pilot, LogScreen)
        assert screen.log_view.cursor_line > 1


@pytest.mark.parametrize("key", ["1", "4"])
async def test_details_that_hide_a_table_take_the_focus_and_return_it(key: str) -> None:
    async with open_explorer(CAFFE) as pilot:
        await press(pilot, key, "i")
        had = pilot.app.focused
        await pilot.resize_terminal(80, 24)
        await settle(pilot)
        assert pilot.app.focused is pilot.app.screen.query_one(DetailPane)
        assert "i close" in screen_text(pilot.app).splitlines()[-1]
        await pilot.resize_terminal(120, 40)
        await settle(pilot)
        assert pilot.app.focused is had is not None


async def test_a_terminal_that_is_too_small_asks_for_more_room() -> None:
    async with open_explorer(CAFFE) as pilot:
        await pilot.resize_terminal(48, 12)
        await settle(pilot)
        assert isinstance(pilot.app.screen, TooSmallScreen)
        lines = [line.strip() for line in screen_text(pilot.app).splitlines() if line.strip()]
        assert lines == ["Terminal too small: 48×12 (need 60×15)", "Q quits"]
        await pilot.resize_terminal(80, 24)
        await settle(pilot)
        assert view_of(pilot) == "dashboard"
        assert not isinstance(pilot.app.screen, TooSmallScreen)


async def test_ctrl_c_names_the_key_that_quits_and_copies_a_selection() -> None:
    async with open_explorer(CAFFE, theme="light", notifications=True) as pilot:
        app = app_of(pilot)
        with patch.object(type(app), "say", autospec=True) as say:
            for key in ("m", "question_mark", "ctrl+p"):
                await press(pilot, key)
                say.reset_mock()
                await press(pilot, "ctrl+c")
                say.assert_called_once_with(app, "ctrl+q quits, esc closes this.")
                await press(pilot, "escape")
            await press(pilot, "2", "e", "down", "down", "down")
            path = app.focused
            assert isinstance(path, Input)
            path.select_all()
            say.reset_mock()
            await press(pilot, "ctrl+c")
            assert app.clipboard == path.value
            say.assert_not_called()
        await press(pilot, "home", "ctrl+c")
        toast = app.screen.query_one(Toast)
        assert toast.styles.background.brightness < app.screen.styles.background.brightness - 0.1


@pytest.mark.parametrize("name", [listed.name for listed in VIEWS])
def test_lines_of_help_are_whole_sentences(name: str) -> None:
    # A line that breaks within a sentence is ragged in a narrow terminal.
    lines = (screen_class(name).HELP or view(name).help).splitlines()
    assert [line for line in lines if not line.endswith(".")] == []
    assert lines


async def test_the_command_line_has_the_focus_at_once() -> None:
    async with open_explorer(CAFFE) as pilot:
        screen = screen_of(pilot)
        screen.open_command_line()
        assert isinstance(pilot.app.focused, Input)


async def test_when_filled_calls_once_the_view_is_filled_unless_that_fails_or_it_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A check after that long does not count as being at work.
    monkeypatch.setattr(base, "CHECK_EVERY_S", 0.05)
    async with open_explorer(CAFFE, view="ops-and-kernels") as pilot:
        screen = app_of(pilot).view_screen
        assert screen is not None
        done: list[str] = []
        screen.when_filled(lambda: done.append("now"))
        assert done == ["now"]
        with patch.object(type(screen), "is_filling", True):
            screen.when_filled(lambda: done.append("later"))
            await settle(pilot)
            assert done == ["now"]
        await wait_until(pilot, lambda: done == ["now", "later"], "the second call")
        with patch.object(type(screen), "is_filling", True):
            screen.when_filled(lambda: done.append("failed"))
            screen.show_failure("not enough memory")
        await asyncio.sleep(2 * base.CHECK_EVERY_S)
        assert done == ["now", "later"]
        screen.catch_up()
        with patch.object(type(screen), "is_filling", True):
            screen.when_filled(lambda: done.append("never"))
            app_of(pilot).go(FAST_VIEW)
            await settle(pilot)
        await asyncio.sleep(2 * base.CHECK_EVERY_S)
        assert done == ["now", "later"]


async def test_keys_typed_ahead_reach_the_command_line() -> None:
    async with open_explorer(CAFFE, view="ops-and-kernels") as pilot:
        for key, character in (("colon", ":"), *((letter, letter) for letter in "memory"), ("enter", "\r")):
            pilot.app.post_message(events.Key(key, character))
        await settle(pilot)
        assert view_of(pilot) == "memory"


async def test_digits_and_colons_are_text_in_inputs_and_no_keys_of_dialogs() -> None:
    async with open_explorer(CAFFE, view="ops-and-kernels") as pilot:
        await press(pilot, "f", "1", "colon")
        assert view_of(pilot) == "ops-and-kernels"
        bar = app_of(pilot).focused
        assert isinstance(bar, Input)
        assert bar.value == "1:"
        await press(pilot, "escape", "m", "colon")
        assert isinstance(pilot.app.screen, MenuScreen)
        await press(pilot, "escape")
        assert view_of(pilot) == "ops-and-kernels"


async def test_a_digit_in_the_menu_of_views_opens_its_view_or_says_why_not() -> None:
    async with open_explorer(CAFFE) as pilot:
        await press(pilot, "m", "4")
        assert not isinstance(pilot.app.screen, MenuScreen)
        assert view_of(pilot) == "ops-and-kernels"
        with patch.object(app_of(pilot).navigator, "_say") as say:
            await press(pilot, "m", "0")
            await wait_until(pilot, lambda: say.called)
        assert say.call_args.args == ("API Calls: no API calls: record with nvprof --print-api-trace",)
        assert view_of(pilot) == "ops-and-kernels"


async def test_a_key_of_another_view_names_that_view() -> None:
    async with open_explorer(CAFFE) as pilot:
        assert view_of(pilot) == "dashboard"
        with patch.object(app_of(pilot), "say") as say:
            await press(pilot, "f")
            await wait_until(pilot, lambda: say.called)
            assert say.call_args.args == ("f does nothing here (in a table: filter). ? lists the keys.",)
            say.reset_mock()
            # What moves the cursor is not spoken of, and what a dialog does not know is its own affair.
            await press(pilot, "l", "m", "f")
            assert isinstance(pilot.app.screen, MenuScreen)
            await press(pilot, "escape", "4", "f", "escape")
            assert not say.called


async def test_commands_run_the_action_of_their_name_that_the_view_has() -> None:
    async with open_explorer(CAFFE, notifications=True) as pilot:
        log = await go_to(pilot, "log")
        assert isinstance(log, LogScreen)
        for line, says in ((":next-match", "Nothing searched yet. Press /."), (":rows", "Not in this view; only in")):
            await run_line(pilot, line)
            assert messages_of(pilot)[-1].startswith(says), line
        for line, number in ((":find layer", 14), (":next-match", 38), (":previous-match", 14)):
            await run_line(pilot, line)
            assert log.log_view.cursor_line == number, line
        await run_line(pilot, ":detail")
        assert log.query_one(DetailPane).is_open
        await run_line(pilot, ":detail")
        with patch("tui.screens.log.copy_text", return_value="Copied.") as copied:
            await run_line(pilot, ":copy")
        assert copied.call_args.args[1] == "layer {"


async def test_commands_with_arguments_in_their_actions_move_in_the_timeline_and_the_flame() -> None:
    async with open_explorer(CAFFE, notifications=True) as pilot:
        canvas = (await go_to(pilot, "timeline")).query_one(TimelineView)
        await press(pilot, "g")
        times = [canvas.cursor_ns]
        for line in (":next", ":previous", ":next-gap"):
            await run_line(pilot, line)
            times.append(canvas.cursor_ns)
        assert times[0] == times[2] < min(times[1], times[3])
        await press(pilot, "G")
        assert canvas.cursor_ns > times[3]
        await run_line(pilot, ":previous-gap")
        assert canvas.cursor_ns == times[3], "the lane has one gap that is visible"
        chart = (await go_to(pilot, "flame")).query_one(FlameChart)
        await press(pilot, "slash", *"conv", "enter")
        await run_line(pilot, ":next")
        assert chart.cursor == chart.marked_rows[0]
        await run_line(pilot, ":previous")
        assert chart.cursor == chart.marked_rows[-1]
        await run_line(pilot, ":rows")
        assert view_of(pilot) in ("ops-and-kernels", "kernels")
        await go_to(pilot, "expert-systems")
        await run_line(pilot, ":rows")
        assert view_of(pilot) != "expert-systems"


async def test_help_and_palette_of_the_flame_list_each_of_its_keys_once() -> None:
    async with open_explorer(CAFFE, view="flame") as pilot:
        titles = [title for title, _action, _description in CommandPaletteProvider(pilot.app.screen)._entries()]
        assert len(titles) == len(set(titles))
        assert {"Find  (/)", "Next  (n)", "Group  (b .)", "Rows  (t)"} <= set(titles)
        await press(pilot, "question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        local_actions = {action.id for action in pilot.app.screen._local_actions}
        flame_actions = {action.id for action in ACTIONS if action.scope is Scope.FLAME}
        assert flame_actions <= local_actions
        assert not {"table.find", "log.find"} & local_actions


async def test_earlier_commands_are_recalled() -> None:
    async with open_explorer(CAFFE, view="kernels") as pilot:
        for key in "tu":
            await press(pilot, "colon", *f"sort {key}".replace(" ", "_"), "enter")
        await press(pilot, "colon")
        line = screen_of(pilot).query_one(CommandBar).query_one(Input)
        recalled = []
        for key in ("up", "up", "up", "down", "down"):
            await press(pilot, key)
            recalled.append(line.value)
        assert recalled == ["sort_u", "sort_t", "sort_t", "sort_u", "sort_u"]
