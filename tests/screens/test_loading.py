"""The loading screen of several files: a line for each, of many the most relevant ones; esc keeps partial data."""

from __future__ import annotations

import shutil
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from tests.screens.explorer import FAST_VIEW, SAMPLES, app_of, assert_at_sizes, open_explorer, press, settle
from tests.snapshots import screen_text
from tests.waiting import WorkerGate, wait_until
from tui import opening
from tui.app import ProftuiApp
from tui.loaders.base import (
    DONE,
    READING,
    SKIPPED,
    STOPPED,
    WAITING,
    FileProgress,
    LoadPreview,
    LoadProgress,
    PreviewRow,
)
from tui.options import OpenOptions
from tui.screens.loading import LoadingScreen, files_lines, files_summary, state_text

if TYPE_CHECKING:
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion
    from textual.pilot import Pilot

    from tui.loaders.base import ProgressCallback
    from tui.opening import OpenedProfiles

KB = 1000


def eight_ranks() -> list[FileProgress]:
    """Return eight ranks, one in each state."""
    names = [FileProgress(f"traces/rank{rank}.pt.trace.json.gz", 100 * KB) for rank in range(8)]
    names[0] = replace(names[0], state=DONE, bytes_read=100 * KB, rank=0)
    names[1] = replace(names[1], state=DONE, bytes_read=100 * KB, rank=1)
    names[2] = replace(names[2], state=READING, bytes_read=100 * KB)
    names[3] = replace(names[3], state=READING, bytes_read=34 * KB)
    names[5] = replace(names[5], state=SKIPPED, reason="not a JSON document with trace events")
    return names


def line_texts(files: list[FileProgress], width: int, height: int, **options: bool) -> list[str]:
    return [line.plain.rstrip() for line in files_lines(files, width, height, **options)]


def test_a_line_for_each_file() -> None:
    lines = line_texts(eight_ranks(), 72, 10)
    assert len(lines) == 8
    assert lines[0].split() == ["rank0.pt.trace.json.gz", "read", "█" * 29, "rank", "0"]
    assert lines[2].split()[:2] == ["rank2.pt.trace.json.gz", "finishing"]
    assert lines[3].split()[:2] == ["rank3.pt.trace.json.gz", "34%"]
    assert lines[4].split() == ["rank4.pt.trace.json.gz", "waiting"]
    assert lines[5].endswith("skipped   not a JSON document with trace events")
    assert all(len(line) <= 72 for line in lines)


def test_many_files_show_those_in_progress_and_those_left_out() -> None:
    many = [FileProgress(f"rank{rank}.json", KB, DONE, KB, rank) for rank in range(200)]
    many[7] = replace(many[7], state=SKIPPED, rank=None, reason="odd")
    many[90] = replace(many[90], state=READING, bytes_read=500)
    many[199] = replace(many[199], state=WAITING)
    assert files_summary(many) == "197 of 200 files read, 1 skipped, 1 in progress, 1 waiting"
    assert [line.split()[:2] for line in line_texts(many, 72, 10)] == [
        ["rank90.json", "50%"],
        ["rank7.json", "skipped"],
    ]
    failed = [replace(file, state=SKIPPED, reason="odd") for file in many]
    assert line_texts(failed, 72, 10)[-1] == "and 191 more"
    assert len(line_texts(failed, 72, 10)) == 10
    assert [line_texts(failed, 72, height) for height in (1, 0, -5)] == [["and 200 more"], [], []]


@pytest.mark.parametrize("width", [10, 30, 44, 76, 106])
def test_lines_fit_the_width_and_hostile_names_are_plain(width: int) -> None:
    files = [replace(file, path=f"a/\x1b[31m[red]{'x' * 90}{at}") for at, file in enumerate(eight_ranks())]
    for line in line_texts(files, width, 10):
        assert len(line) <= max(width, 26)
        assert "\x1b" not in line


class SlowOpening:
    """Stands for opening files until it is told to stop."""

    def __init__(self, files: list[FileProgress], so_far: LoadPreview | None = None) -> None:
        self.files = files
        self.so_far = so_far
        self.go_on = WorkerGate()

    def __call__(self, options: OpenOptions, on_progress: ProgressCallback, **_how: Any) -> OpenedProfiles:
        done = sum(file.bytes_read for file in self.files)
        total = sum(file.bytes_total for file in self.files)
        while on_progress(LoadProgress("traces", done, total, 12_345, self._so_far(), files=self.files)):
            if self.go_on.wait(0.1):
                break
        else:
            self.files = [replace(file, state=STOPPED) if file.state == WAITING else file for file in self.files]
        on_progress(LoadProgress("traces", done, total, 12_345, files=self.files))
        return _opened(options)

    def _so_far(self) -> LoadPreview | None:
        """Another one each time, as a loader gives it."""
        return None if self.so_far is None else replace(self.so_far)


def _opened(options: OpenOptions) -> OpenedProfiles:
    return _read(options, lambda _progress: True, session=None)


_read = opening.open_profiles


async def test_screen(snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowOpening(eight_ranks())
    app = ProftuiApp(OpenOptions(paths=(str(SAMPLES / "ddp_ranks"),)))
    # No time passes.
    monkeypatch.setattr("tui.screens.loading.time", SimpleNamespace(monotonic=lambda: 0.0))
    with patch.object(opening, "open_profiles", slow):
        async with app.run_test() as pilot:
            await wait_until(pilot, lambda: "2 of 8 files read" in screen_text(app), "progress")
            await assert_at_sizes(pilot, snapshot)
            slow.go_on.set()
            await wait_until(pilot, lambda: app.view_screen is not None, "a view")


async def test_each_rank_shows_its_progress_and_esc_keeps_partial_data() -> None:
    slow = SlowOpening(eight_ranks())
    app = ProftuiApp(OpenOptions(paths=(str(SAMPLES / "ddp_ranks"),)))
    with patch.object(opening, "open_profiles", slow):
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_until(pilot, lambda: "2 of 8 files read" in screen_text(app), "progress")
            assert isinstance(app.screen, LoadingScreen)
            text = screen_text(app)
            assert all(f"rank{rank}.pt.trace.json.gz" in text for rank in range(8))
            assert "34%" in text
            assert "skipped not a JSON document with trace events" in " ".join(text.split())
            await pilot.press("escape")
            await wait_until(pilot, lambda: app.view_screen is not None, "a view")
            assert [file.state for file in slow.files].count(STOPPED) == 3
            assert app.profile_session.whole_profile is not None


def test_the_speed_does_not_fall_after_the_last_byte() -> None:
    read, total = 30 << 20, 40 << 20
    half = LoadProgress("run.log", read, total, 7_000)
    assert (
        state_text(half, 10, 10.2, is_outdated=False)
        == "30 MiB of 40 MiB   3 MiB/s   about 3 s left   7,000 rows   10 s"
    )
    all_of_it = replace(half, bytes_read=total)
    for seconds in (14, 28):
        assert (
            state_text(all_of_it, seconds, seconds, is_outdated=False)
            == f"40 MiB   file read; step 2 of 2: building tables…   7,000 rows   {seconds} s"
        )
    piped = replace(half, bytes_total=None)
    assert "3 MiB/s" in state_text(piped, 10, 10, is_outdated=False)
    assert "step 2 of 2" in state_text(piped, 10, 12, is_outdated=True)


async def test_ctrl_c_names_the_key_that_quits() -> None:
    slow = SlowOpening(eight_ranks())
    app = ProftuiApp(OpenOptions(paths=(str(SAMPLES / "ddp_ranks"),)))
    with patch.object(opening, "open_profiles", slow), patch.object(ProftuiApp, "say", autospec=True) as say:
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_until(pilot, lambda: "2 of 8 files read" in screen_text(app), "progress")
            await pilot.press("ctrl+c")
            assert say.call_args.args[1] == "Q quits, esc stops and keeps partial data."
            slow.go_on.set()
            await wait_until(pilot, lambda: app.view_screen is not None, "a view")
            await pilot.press("ctrl+c")
            assert say.call_args.args[1] == "Q quits, q goes back."
            await press(pilot, "9", "f", "ctrl+c")
            assert say.call_args.args[1] == "ctrl+q quits, esc ends typing."
            await pilot.press("ctrl+q")
    assert app.return_code == 0


async def test_a_rank_that_is_left_out_is_reported(tmp_path: Any) -> None:
    for file in (SAMPLES / "ddp_ranks").iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "ddp_rank1.pt.trace.json.gz").write_bytes(b"\x1f\x8b\x08\x00not gzip at all")
    with patch.object(ProftuiApp, "say", autospec=True) as say:
        app = ProftuiApp(OpenOptions(paths=(str(tmp_path),), cache=False))
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_until(pilot, lambda: app.view_screen is not None, "a view")
            messages = " ".join(str(call.args[1]) for call in say.call_args_list)
            assert "Not read: " in messages
            assert "ddp_rank1.pt.trace.json.gz" in messages
            assert "issues: 1 error" in screen_text(app).splitlines()[0]


async def test_the_preview_is_left_out_on_a_small_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.screens.loading._PREVIEW_AFTER_S", -1.0)
    read = LoadPreview((PreviewRow("gemm", 3, 7.5e9),), 1, 3, 7.5e9, 12_000_000_000, ())
    slow = SlowOpening(eight_ranks(), read)
    app = ProftuiApp(OpenOptions(paths=(str(SAMPLES / "ddp_ranks"),)))
    with patch.object(opening, "open_profiles", slow):
        async with app.run_test(size=(20, 5)) as pilot:
            await wait_until(pilot, lambda: "need 60×15" in screen_text(app), "a request for room")
            await pilot.resize_terminal(80, 24)
            await wait_until(pilot, lambda: "3 kernels and copies" in screen_text(app), "what is read so far")
            slow.go_on.set()
            await wait_until(pilot, lambda: app.view_screen is not None, "a view")


def messages_and_severities(pilot: Pilot[None]) -> list[tuple[str, str]]:
    """Return the messages on the screen and their severity."""
    return [(note.message, note.severity) for note in pilot.app._notifications]


async def test_reloading_reports_what_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    shutil.copy(SAMPLES / "tracking_four_runs.nvprof.log", path)
    async with open_explorer(str(path), view=FAST_VIEW, notifications=True, cache=False) as pilot:
        app = app_of(pilot)
        await press(pilot, "r")
        assert messages_and_severities(pilot) == [("File read again.", "information")]
        app.run_line("session 3")
        shutil.copy(SAMPLES / "caffe_conv1.nvprof.log", path)
        await press(pilot, "r")
        assert messages_and_severities(pilot) == [
            ("File read again.\nSession 3 no longer exists: showing all.", "information")
        ]
        assert app.profile_session.session is None
        known = app.profile_session.whole_profile
        path.write_text("nothing that a profiler writes\n")
        await press(pilot, "r")
        ((words, severity),) = messages_and_severities(pilot)
        assert words.startswith(f"{path}: no profile found")
        assert words.endswith("\nThe profile is unchanged.")
        assert severity == "error"
        assert app.profile_session.whole_profile is known


async def test_reloading_can_be_stopped(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    shutil.copy(SAMPLES / "caffe_conv1.nvprof.log", path)
    slow = SlowOpening(eight_ranks())
    async with open_explorer(str(path), view=FAST_VIEW, notifications=True, cache=False) as pilot:
        app = app_of(pilot)
        known = app.profile_session.whole_profile
        with patch.object(opening, "open_profiles", slow):
            await pilot.press("r")
            await wait_until(pilot, lambda: "reading again 41% (esc stops)" in screen_text(app), "progress")
            await pilot.press("escape")
            await wait_until(pilot, lambda: not app.profile_loading.is_reading_again, "the end")
            await settle(pilot)
        assert messages_and_severities(pilot) == [("Stopped. The profile is unchanged.", "information")]
        assert app.profile_session.whole_profile is known


async def test_opening_another_file_can_be_stopped(tmp_path: Path) -> None:
    slow = SlowOpening(eight_ranks())
    async with open_explorer("caffe_conv1.nvprof.log", view=FAST_VIEW, notifications=True) as pilot:
        app = app_of(pilot)
        other = tmp_path / "other.log"
        other.touch()
        with patch.object(opening, "open_profiles", slow):
            app.run_line(f"open {other}")
            await wait_until(pilot, lambda: "reading other.log 41% (esc stops)" in screen_text(app), "progress")
            await press(pilot, "escape")
        assert messages_and_severities(pilot) == [("Stopped. No other profile was opened.", "information")]
        assert app.next_input is None
        assert "reading other.log" not in screen_text(app)


async def test_standard_input_cannot_be_reloaded() -> None:
    async with open_explorer("caffe_conv1.nvprof.log", view=FAST_VIEW, notifications=True) as pilot:
        loading = app_of(pilot).profile_loading
        loading._options = replace(loading._options, paths=("-",))
        await press(pilot, "r")
        assert messages_and_severities(pilot) == [("Standard input cannot be read twice.", "warning")]


async def test_partial_and_unreadable_files_are_reported(tmp_path: Path) -> None:
    for file in (SAMPLES / "ddp_ranks").iterdir():
        shutil.copy(file, tmp_path)
    for rank in (0, 1):
        (tmp_path / f"ddp_rank{rank}.pt.trace.json.gz").write_bytes(b"\x1f\x8b\x08\x00not gzip at all")
    shutil.copy(SAMPLES / "caffe_conv1.nvprof.log", tmp_path / "run.log")
    async with open_explorer(str(tmp_path), view=FAST_VIEW, notifications=True, cache=False) as pilot:
        assert messages_and_severities(pilot) == [("2 files could not be read: see Issues.", "warning")]
        profile = app_of(pilot).profile_session.whole_profile
        assert profile is not None
        app_of(pilot).profile_loading._say_results(replace(profile, partial="stopped at 27%"), (), [])
        await settle(pilot)
        ((words, severity),) = messages_and_severities(pilot)
        assert words.endswith("stopped at 27%: totals are partial. r reads the file again.")
        assert severity == "warning"


async def test_a_selection_during_a_reload_is_refused() -> None:
    async with open_explorer("tracking_four_runs.nvprof.log", view=FAST_VIEW, notifications=True) as pilot:
        session = app_of(pilot).profile_session
        assert session.whole_profile is not None
        before, session._request = replace(session.whole_profile, partial=""), 5
        session._take_choice(5, before, lambda: session.choose_session(1))
        await settle(pilot)
        assert messages_and_severities(pilot) == [("The file was reloaded. Choose again.", "warning")]
        assert session.session is None


async def test_figures_of_several_files_are_not_stored_for_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered: list[str] = []
    monkeypatch.setattr("tui.state.workspace.remember_opened", lambda path, _figures: remembered.append(path))
    log, other = (str(SAMPLES / f"{name}.nvprof.log") for name in ("caffe_conv1", "gpt_summary"))
    async with open_explorer(log, view=FAST_VIEW) as pilot:
        loading = app_of(pilot).profile_loading
        held = opening.OpenedProfiles(app_of(pilot).profile_session.whole_profile, ())
        for paths in ((log,), (log, other), ("-",)):
            loading._options = replace(loading._options, paths=paths)
            loading._remember(held)
    assert remembered == [log]
