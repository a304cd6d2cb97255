"""Everyday use: the position of the cursor, the keys in the footer, and what stays after an error."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Input
from textual.widgets._toast import Toast

from tests.analysis.frames import kernel, make_profile
from tests.screens.explorer import app_of, open_explorer, press, sample_path, screen_of, settle
from tests.screens.made_profiles import open_profile
from tests.snapshots import screen_text
from tests.waiting import wait_until
from tui.app import ProftuiApp
from tui.options import OpenOptions
from tui.screens.dashboard.panels import StatStrip
from tui.screens.help import HelpScreen
from tui.screens.log import LogScreen
from tui.textual_patches import TooSmallScreen
from tui.widgets.charts.bar_list import BarList
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from pathlib import Path

CAFFE, TRAINING, RUNS = "caffe_conv1.nvprof.log", "resnet50_training.nvprof.log", "tracking_four_runs.nvprof.log"
GRAPHS = "gpt_cudagraph.nsys.sqlite.gz"


async def test_the_dashboard_focuses_its_first_chart() -> None:
    async with open_explorer(TRAINING, size=(80, 24)) as pilot:
        assert isinstance(pilot.app.focused, BarList)
        assert pilot.app.focused.id == "findings"
        assert app_of(pilot).view_screen.query_one("#dashboard").scroll_offset.y == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("file", "fact", "view", "text"),
    [
        (TRAINING, "Kernel launches", "kernels", "kind=kernel"),
        (TRAINING, "GPU utilization", "gpus", 'gpu_activity="recorded"'),
        (TRAINING, "TC efficiency (DLProf)", "kernels", "(kind=kernel | kind=graph) uses_tensor_core=yes"),
        (TRAINING, "API calls", "api-calls", ""),
        (GRAPHS, "Graph launches", "kernels", "kind=graph"),
    ],
)
async def test_figures_of_the_dashboard_link_to_their_rows(file: str, fact: str, view: str, text: str) -> None:
    async with open_explorer(file) as pilot:
        strip = app_of(pilot).view_screen.query_one(StatStrip)  # type: ignore[union-attr]
        strip.focus()
        labels = [known.label for known in strip.facts]
        await press(pilot, *["j"] * labels.index(fact), "enter")
        screen = screen_of(pilot)
        assert view == screen.VIEW
        assert screen.query(TablePane).first().state.filter == text
        await press(pilot, "q")
        assert app_of(pilot).view_screen.VIEW == "dashboard"  # type: ignore[union-attr]


async def test_unknown_figures_are_listed_once_with_the_reason() -> None:
    async with open_explorer(RUNS) as pilot:
        text = screen_text(pilot.app)
        assert "Not available: Wall time, GPU utilization (no start times recorded)" in " ".join(text.split())
        assert text.count("Not available:") == 1


async def test_kernels_of_one_template_are_distinguished() -> None:
    async with open_explorer(TRAINING) as pilot:
        drawn = pilot.app.screen.query_one("#kernels", BarList).render()
        kernels = [line for line in str(drawn).splitlines() if line.startswith("vecto")]
        labels = [line.split("  ")[0].split("█")[0].strip() for line in kernels]
        assert len(set(labels)) == len(labels) == 3
        assert any("CUDAF" in label for label in labels)


async def test_the_command_line_is_visible_and_returns_the_focus() -> None:
    async with open_explorer(TRAINING, size=(80, 24)) as pilot:
        before = pilot.app.focused
        await press(pilot, "colon", *"kern")
        assert "kern" in screen_text(pilot.app).splitlines()[-2]
        await press(pilot, "escape")
        assert pilot.app.focused is before


async def test_an_error_in_a_command_is_reported_and_the_focus_stays() -> None:
    async with open_explorer(TRAINING, notifications=True) as pilot:
        before = pilot.app.focused
        await press(pilot, "colon", *"nosuch", "enter")
        assert pilot.app.focused is before
        assert "Unknown command: nosuch. ? lists the keys, m the views." in screen_text(pilot.app)


async def test_the_find_command_goes_to_the_match() -> None:
    async with open_explorer(TRAINING, view="ops-and-kernels") as pilot:
        await press(pilot, "colon", *"find elementwise", "enter")
        pane = app_of(pilot).view_screen.query(TablePane).first()  # type: ignore[union-attr]
        assert pane.current_row is not None
        assert pane.current_row["op"] == "elementwise"


async def test_messages_do_not_pile_up_and_leave_the_status_line_free() -> None:
    async with open_explorer(TRAINING, size=(80, 24), notifications=True, view="ops-and-kernels") as pilot:
        await press(pilot, "N", "u", "u")
        await wait_until(pilot, lambda: len(pilot.app.screen.query(Toast)) == 1, "one message")
        lines = screen_text(pilot.app).splitlines()
        status = next(line for line in lines if "Ops: 23 rows" in line)
        assert status.endswith("columns →")
        assert lines[-2].endswith("tab: table below")


async def test_the_footer_names_the_keys_of_the_query_bar() -> None:
    async with open_explorer(TRAINING, view="ops-and-kernels") as pilot:
        await press(pilot, "f")
        foot = screen_text(pilot.app).splitlines()[-1]
        for words in ("enter keep", "esc undo", "tab find/filter"):
            assert words in foot
        assert "? help" not in foot
        await press(pilot, "escape")
        assert "? help" in screen_text(pilot.app).splitlines()[-1]


async def test_help_lists_only_what_works_here() -> None:
    async with open_explorer(TRAINING) as pilot:
        await press(pilot, "question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        assert {action.id for action in pilot.app.screen._local_actions} >= {"table.down", "table.open"}
        assert "table.sort" not in {action.id for action in pilot.app.screen._local_actions}
        await press(pilot, "escape")
        pilot.app.screen.query_one("#ops").focus()
        await press(pilot, "question_mark")
        assert "table.sort" in {action.id for action in pilot.app.screen._local_actions}
        await press(pilot, "escape", "4", "question_mark")
        assert "table.sort" in {action.id for action in pilot.app.screen._local_actions}


async def test_q_quits_on_a_terminal_that_is_too_small_from_the_start() -> None:
    async with open_explorer(TRAINING, size=(48, 12)) as pilot:
        assert isinstance(pilot.app.screen, TooSmallScreen)
        # With room for a letter, nothing is laid out again and again.
        await pilot.resize_terminal(1, 1)
        await pilot.resize_terminal(100, 30)
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, TooSmallScreen), "room")
        assert "Dashboard" in screen_text(pilot.app)
        await pilot.resize_terminal(48, 12)
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, TooSmallScreen), "too little room")
        await press(pilot, "Q")
    assert pilot.app.return_code == 0


async def test_a_dialog_survives_a_terminal_that_is_too_small() -> None:
    async with open_explorer(TRAINING, view="ops-and-kernels") as pilot:
        await press(pilot, "e")
        dialog = pilot.app.screen
        await pilot.resize_terminal(48, 12)
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, TooSmallScreen), "too little room")
        await pilot.resize_terminal(100, 30)
        await wait_until(pilot, lambda: pilot.app.screen is dialog, "the dialog")


async def test_a_failed_reload_keeps_the_profile(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    shutil.copy(sample_path(CAFFE), log)
    async with open_explorer(str(log), notifications=True) as pilot:
        app = app_of(pilot)
        before = app.profile_session.whole_profile
        await press(pilot, "4", "j")
        for ruin in (log.unlink, lambda: log.write_bytes(bytes(range(256)) * 20)):
            ruin()
            await pilot.press("r")
            await wait_until(
                pilot, lambda: not app.profile_loading.is_reading_again and bool(app.screen.query(Toast)), "an answer"
            )
            assert "The profile is unchanged." in screen_text(app)
            assert app.profile_session.whole_profile is before
            app.clear_notifications()
            await settle(pilot)
        shutil.copy(sample_path(CAFFE), log)
        await pilot.press("r")
        await wait_until(pilot, lambda: app.profile_session.whole_profile is not before, "the new profile")
        await settle(pilot)
        pane = app.view_screen.query(TablePane).first()  # type: ignore[union-attr]
        assert pane.current_row is not None
        assert pane.current_row["op"] == "convolution backward data"


async def test_a_missing_session_on_the_command_line_is_an_error() -> None:
    app = ProftuiApp(OpenOptions(paths=(sample_path(CAFFE),), session=9))
    async with app.run_test() as pilot:
        await wait_until(pilot, lambda: app.return_code is not None, "the end")
    assert app.return_code == 2
    assert [str(error) for error in app.profile_loading.errors] == ["no session 9; the only session is 0"]


async def test_several_files_are_named_and_an_unreadable_one_is_reported() -> None:
    async with open_explorer(TRAINING, "gpt_summary.nvprof.log", "/nowhere/missing.log", notifications=True) as pilot:
        text = screen_text(pilot.app)
        assert "0 resnet50_training" in text
        assert "1 gpt_summary" in text
        await wait_until(pilot, lambda: "/nowhere/missing.log: no such file" in screen_text(pilot.app), "the message")


async def test_issues_are_shown_in_full_if_the_dashboard_is_empty(tmp_path: Path) -> None:
    log = tmp_path / "nothing.log"
    log.write_text("==12== NVPROF is profiling process 12, command: ./app\n==12== Warning: No kernels were profiled.\n")
    async with open_explorer(str(log)) as pilot:
        text = screen_text(pilot.app)
        assert "issues: " in text
        assert "No kernels were profiled" in text


async def test_a_match_far_to_the_right_is_scrolled_into_view() -> None:
    async with open_explorer(TRAINING, size=(80, 24), view="log") as pilot:
        await press(pilot, "slash", *"cudaMemset", "enter")
        assert isinstance(screen_of(pilot), LogScreen)
        await wait_until(pilot, lambda: "cudaMemset" in screen_text(pilot.app), "the match")


async def test_the_path_of_an_export_stays_editable_after_changing_the_format() -> None:
    async with open_explorer(CAFFE, view="ops-and-kernels") as pilot:
        await press(pilot, "e", "right", "right")
        path = pilot.app.screen.query_one("#export-path", Input)
        assert path.value == "caffe_conv1.nvprof-ops.json"
        assert path.cursor_position == len(path.value)


async def test_details_of_a_kernel_show_how_its_durations_spread() -> None:
    async with open_explorer(TRAINING, size=(200, 50), view="kernels") as pilot:
        await press(pilot, "i")
        text = screen_text(pilot.app)
        assert "Durations   8.86 µs " in text
        assert "logarithmic" in text
    same = make_profile(activities=[kernel("k", 9, start_ns=start) for start in (1, 20)])
    async with open_profile(same, view="kernels") as pilot:
        await press(pilot, "i")
        assert "Durations   9 ns  each of its launches" in screen_text(pilot.app)


async def test_ascii_mode_in_every_view() -> None:
    async with open_explorer(TRAINING, size=(80, 24), ascii_only=True) as pilot:
        for keys in ("", "m", "escape 4 e", "escape c", "escape enter enter i"):
            await press(pilot, *keys.split())
            text = screen_text(pilot.app)
            assert text.isascii(), [character for character in text if not character.isascii()]
        assert "> launches" in text
