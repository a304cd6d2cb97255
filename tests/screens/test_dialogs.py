"""Dialogs and the screen for small terminals: opened and closed once, whatever happens meanwhile."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from textual import events
from textual.app import App
from textual.drivers.headless_driver import HeadlessDriver
from textual.screen import ModalScreen
from textual.widgets import Input

from tests.screens.explorer import app_of, open_explorer, press, run_line, sample_path, screen_of, settle, type_at_once
from tests.snapshots import screen_text
from tests.waiting import WorkerGate, wait_until
from tui.app import ProftuiApp, comparison
from tui.app.shutdown import run_app_loop
from tui.screens.compare import CompareDialog
from tui.screens.help import HelpScreen
from tui.screens.menus import MenuScreen
from tui.textual_patches import TooSmallScreen
from tui.widgets.dialogs.export import ExportDialog
from tui.widgets.dialogs.texts import NoteDialog

if TYPE_CHECKING:
    from textual.pilot import Pilot

LOG = "caffe_conv1.nvprof.log"


def dialog_types(pilot: Pilot[None]) -> list[type[object]]:
    """Return the types of the dialogs on the screen stack, the topmost last."""
    return [type(screen) for screen in pilot.app.screen_stack if isinstance(screen, ModalScreen)]


async def test_enter_pressed_twice_saves_a_note_once() -> None:
    async with open_explorer(LOG, view="ops-and-kernels") as pilot:
        await type_at_once(pilot, "Mhere\r\r")
        # The second enter opened the row.
        assert dialog_types(pilot) == []
        assert [note.text for note in app_of(pilot).notes.store.by_name.values()] == ["here"]
        screen = screen_of(pilot)
        assert screen.place().level == "name/kernels"


async def test_no_message_covers_a_dialog() -> None:
    async with open_explorer(LOG, view="kernels", notifications=True) as pilot:
        await press(pilot, "l", "H")
        assert [note.message for note in pilot.app._notifications] == ["Total is hidden: c shows it again"]
        await press(pilot, "c")
        assert list(pilot.app._notifications) == []
        assert "is hidden" not in screen_text(pilot.app)


async def test_closing_a_dialog_twice_gives_one_result() -> None:
    async with open_explorer(LOG, view="ops-and-kernels") as pilot:
        await press(pilot, "M", "x")
        dialog = pilot.app.screen
        assert isinstance(dialog, NoteDialog)
        dialog.dismiss("once")
        dialog.dismiss("twice")
        await settle(pilot)
        assert [note.text for note in app_of(pilot).notes.store.by_name.values()] == ["once"]


async def test_only_one_dialog_opens() -> None:
    async with open_explorer(LOG) as pilot:
        app = app_of(pilot)
        app.action_help()
        app.action_views_menu()
        app.action_compare()
        await settle(pilot)
        assert dialog_types(pilot) == [HelpScreen]


async def test_a_late_result_does_not_switch_the_view_below_a_dialog(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = WorkerGate()
    compare = comparison.Comparison._comparison

    def slow(self: comparison.Comparison, request: str) -> object:
        make = compare(self, request)
        return lambda: (go_on.wait(), make())[1]

    monkeypatch.setattr(comparison.Comparison, "_comparison", slow)
    async with open_explorer("ddp_ranks") as pilot:
        app = app_of(pilot)
        app.run_line("compare sessions 0 1")
        await pilot.pause()
        await pilot.press("question_mark")
        await wait_until(pilot, lambda: isinstance(app.screen, HelpScreen), "help")
        go_on.set()
        await wait_until(pilot, lambda: app.comparison.sides is not None, "the comparison")
        await settle(pilot)
        assert dialog_types(pilot) == [HelpScreen]
        assert app.view_screen is not None
        assert app.view_screen.VIEW == "dashboard"
        await press(pilot, "escape")
        await wait_until(pilot, lambda: app.view_screen is not None and app.view_screen.VIEW == "compare", "the view")


async def test_a_dialog_that_ends_on_a_small_terminal_closes_when_it_is_enlarged() -> None:
    async with open_explorer(LOG, size=(100, 30), notifications=True, view="ops-and-kernels") as pilot:
        await press(pilot, "e")
        dialog = pilot.app.screen
        assert isinstance(dialog, ExportDialog)
        await pilot.resize_terminal(40, 10)
        await settle(pilot)
        dialog.dismiss("Wrote 2 rows")
        await settle(pilot)
        assert dialog_types(pilot) == [ExportDialog, TooSmallScreen]
        await pilot.resize_terminal(100, 30)
        await settle(pilot)
        assert dialog_types(pilot) == []
        assert "Wrote 2 rows" in screen_text(pilot.app)


async def test_a_terminal_four_cells_wide_does_not_freeze_the_dashboard_below_a_dialog() -> None:
    async with open_explorer("ddp_ranks") as pilot:
        await press(pilot, "d")
        assert dialog_types(pilot) == [CompareDialog]
        await pilot.resize_terminal(4, 300)
        await settle(pilot)
        await press(pilot, "j", "tab", "enter")
        assert dialog_types(pilot) == [CompareDialog, TooSmallScreen]
        await pilot.resize_terminal(120, 40)
        await press(pilot, "escape")
        assert dialog_types(pilot) == []


async def test_any_text_can_be_typed_as_the_file_to_compare() -> None:
    async with open_explorer(LOG, notifications=True) as pilot:
        for text in ("x" * 5_000, "~nobody-of-this-name/run.log", "/" + "y" * 300 + "/z"):
            await press(pilot, "d")
            line = pilot.app.screen.query_one(Input)
            line.post_message(events.Paste(text))
            await press(pilot, "enter")
            await wait_until(pilot, lambda: "! " in screen_text(pilot.app), "the error")
            assert app_of(pilot).internal_error is None
            assert dialog_types(pilot) == [CompareDialog]
            await press(pilot, "escape")
        assert app_of(pilot).comparison.sides is None


async def test_the_menu_of_views_unfolds_views_without_data() -> None:
    async with open_explorer(LOG) as pilot:
        await press(pilot, "m", "G", "enter")
        assert dialog_types(pilot) == [MenuScreen]
        assert "Not recorded in this profile" in screen_text(pilot.app)


async def test_another_file_is_shown_when_it_is_loaded(tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    async with open_explorer(LOG, notifications=True) as pilot:
        app = app_of(pilot)
        app.run_line(f"open {other}")
        await settle(pilot)
        assert "No such file:" in screen_text(app)
        other.write_text("x")
        app.run_line(f"open {other}")
        await settle(pilot)
        assert "no profile found" in screen_text(app)
        assert app.next_input is None
        assert app.return_code is None
        other.write_bytes(Path(sample_path(LOG)).read_bytes())
        app.run_line(f"open {other}")
        await wait_until(pilot, lambda: app.return_code is not None, "the end")
    assert app.next_input is not None
    options, read = app.next_input
    assert (options.paths, app.return_code) == ((str(other),), 0)
    # What was read is shown without being read again.
    other.unlink()
    next_app = ProftuiApp(options, read)
    async with next_app.run_test() as pilot:
        await wait_until(pilot, lambda: next_app.view_screen is not None, "the dashboard")
        assert next_app.profile_session.whole_profile is read.profile


def test_idle_threads_do_not_end_the_process_before_the_next_file() -> None:
    class Ends(App[None]):
        def on_mount(self) -> None:
            self.exit(return_code=3)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        app = Ends(driver_class=HeadlessDriver)
        status = run_app_loop(app, mouse=False, save=int, finish=lambda: app.return_code or 0, is_last=lambda: False)
    assert status == 3


async def test_a_file_that_cannot_be_opened_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other.log"
    other.write_text("x")

    open_any = os.open

    def refuse(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if str(path) == str(other):
            raise PermissionError(13, "Permission denied", path)
        return open_any(path, flags, *arguments, **options)

    async with open_explorer(LOG, notifications=True) as pilot:
        monkeypatch.setattr(os, "open", refuse)
        await run_line(pilot, f"open {other}")
        assert "permission denied" in screen_text(app_of(pilot)).lower()
        assert app_of(pilot).return_code is None


@pytest.mark.parametrize("number", ["9" * 5_000, "9" * 19, "٢"])
async def test_invalid_numbers_are_refused_with_a_reason(number: str) -> None:
    messages = {
        f":{number}": "Not a line number",
        f":top {number}": "Enter a number of rows",
        f":session {number}": "Not a session",
        f":line {number}": "Not a line number",
        f":iterations {number}": "",
        f":compare session {number}": "",
        f":compare {number} {number}": "",
    }
    async with open_explorer(LOG, notifications=True) as pilot:
        for line, words in messages.items():
            await run_line(pilot, line)
            assert words in screen_text(pilot.app)
            assert app_of(pilot).internal_error is None
