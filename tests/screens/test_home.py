"""The home screen: `proftui` without arguments, and a folder of profiles of different runs."""

from __future__ import annotations

import os
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.screens.explorer import SAMPLES, app_of, message_of, press, settle
from tests.snapshots import screen_text
from tests.waiting import wait_until
from tui.app import ProftuiApp
from tui.options import OpenOptions
from tui.screens.home import HomeScreen, PathLine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from textual.pilot import Pilot


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change into a folder with two profiles of different runs."""
    for name, hours in (("caffe_conv1", 1), ("gpt_summary", 2)):
        shutil.copy(SAMPLES / f"{name}.nvprof.log", tmp_path / f"{name}.log")
        at = (tmp_path / f"{name}.log").stat().st_mtime - 3600 * hours
        os.utime(tmp_path / f"{name}.log", (at, at))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@asynccontextmanager
async def home(*paths: str, size: tuple[int, int] = (120, 30)) -> AsyncIterator[Pilot[None]]:
    """Open the home screen, and wait for its list."""
    app = ProftuiApp(OpenOptions(paths=paths))
    async with app.run_test(size=size, notifications=True) as pilot:
        await wait_until(pilot, lambda: isinstance(app.screen, HomeScreen) and app.screen.is_mounted, "the home screen")
        await settle(pilot)
        yield pilot


async def test_a_profile_is_found_previewed_and_opened(folder: Path) -> None:
    async with home() as pilot:
        text = screen_text(pilot.app)
        assert "2 profiles" in text
        assert "caffe_conv1.log" in text
        assert "Duration  994 ms" in text
        await press(pilot, "1")
        assert "Dashboard: open a profile first" in screen_text(pilot.app)
        await press(pilot, "full_stop")
        assert "nvprof --print-gpu-trace" in screen_text(pilot.app)
        await press(pilot, "comma", "question_mark")
        assert "recognized by content" in screen_text(pilot.app)
        await press(pilot, "escape", "j")
        assert "Duration  not recorded" in screen_text(pilot.app)
        await press(pilot, "enter")
        await wait_until(pilot, lambda: app_of(pilot).next_input is not None, "the next input")
        assert app_of(pilot).next_input is not None
        options, opened = app_of(pilot).next_input
        assert options.paths == (str(folder / "gpt_summary.log"),)
        assert opened.profile is not None


async def test_a_path_can_be_typed_and_an_invalid_one_is_reported(folder: Path) -> None:
    (folder / "none.txt").write_text("no profile at all")
    (folder / "below").mkdir()
    shutil.copy(folder / "gpt_summary.log", folder / "below/inner.log")
    async with home() as pilot:
        await press(pilot, "o", *"none.txt", "enter")
        assert "none.txt: no profile found" in screen_text(pilot.app)
        await press(pilot, "o", *"nowhere", "enter")
        assert "No such file: nowhere" in screen_text(pilot.app)
        await press(pilot, "o", "b")
        await press(pilot, "tab", "enter")
        text = screen_text(pilot.app)
        assert "1 profile" in text
        assert "inner.log" in text
        await press(pilot, "space", "enter")
        await wait_until(pilot, lambda: app_of(pilot).next_input is not None, "the next input")


async def test_a_folder_of_different_runs_is_listed_and_can_be_opened_as_one(folder: Path) -> None:
    async with home(str(folder), size=(80, 24)) as pilot:
        assert "Profiles of different runs." in screen_text(pilot.app)
        await press(pilot, "a")
        await wait_until(pilot, lambda: app_of(pilot).next_input is not None, "the next input")
        assert app_of(pilot).next_input is not None
        options, opened = app_of(pilot).next_input
        assert options.paths == (str(folder),)
        assert opened.profile is not None
        assert opened.profile["sessions"].height == 2


async def test_a_row_of_a_format_says_how_to_record_it(folder: Path) -> None:
    async with home() as pilot:
        await press(pilot, "full_stop", *"/xplane", "enter", "enter")
        text = screen_text(pilot.app)
        assert "XLA profiler XSpace (xplane.pb)" in text
        assert "Record it with:" in text
        assert "Recognized by: Protocol Buffers" in text
        await press(pilot, "escape", "comma", "i")
        assert message_of(pilot) == "Open a profile first. Enter opens the profile under the cursor."
        await press(pilot, "o", "enter")
        assert isinstance(pilot.app.screen, HomeScreen)
        assert not pilot.app.screen.query_one(PathLine).has_class("-open")


@pytest.mark.parametrize("key", ["a", "enter"])
@pytest.mark.usefixtures("folder")
async def test_a_file_that_was_found_to_be_no_profile_is_not_opened(key: str) -> None:
    async with home() as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, HomeScreen)
        # As the thread that reads the first figures does, before the list is drawn again.
        screen._profiles_by_key.clear()
        await press(pilot, key)
        assert pilot.app.screen is screen
        assert app_of(pilot).next_input is None
        assert message_of(pilot) == "No profile here."


async def test_a_folder_is_searched_again(folder: Path) -> None:
    async with home() as pilot:
        (folder / "gpt_summary.log").unlink()
        assert "2 profiles" in screen_text(pilot.app)
        await press(pilot, "r")
        assert "1 profile\n" in screen_text(pilot.app)
        assert "gpt_summary" not in screen_text(pilot.app)


async def test_an_empty_folder_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with home(size=(80, 24)) as pilot:
        text = screen_text(pilot.app)
        assert "0 profiles" in text
        assert "No profile in" in text
        await press(pilot, "a")
        assert message_of(pilot) == "No profile here."
        await press(pilot, "escape")
        assert message_of(pilot) == "Nothing to undo. q quits."
        await press(pilot, "colon")
        assert message_of(pilot) == "Open a profile first."
        await press(pilot, "enter", "a", "d", "S", "r", "minus", "left_square_bracket", "M", "T", "escape")
        assert isinstance(pilot.app.screen, HomeScreen)
        await pilot.press("q")
        assert pilot.app.return_code == 0
