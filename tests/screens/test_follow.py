"""``--follow``: new data is read when it is complete, and the view stays."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock, patch

import pytest

from tests.cli.running import TRACE as NVPROF_LOG
from tests.cli.running import run
from tests.profiles import SAMPLES
from tests.pseudo_terminal import PROGRAM, TerminalProgram
from tests.screens.explorer import press
from tests.waiting import wait_until
from tui.app import ProftuiApp, follow
from tui.app.follow import FileChange, FileWatch, lacks_end, stamps
from tui.options import OpenOptions
from tui.screens.loading import LoadingScreen
from tui.widgets.table.view import FrameTable

if TYPE_CHECKING:
    from collections.abc import Callable

TRACE = gzip.decompress((SAMPLES / "mlp_modules.pt.trace.json.gz").read_bytes())


def test_a_change_is_complete_when_no_file_changes_any_more(tmp_path: Path) -> None:
    first, second, log = tmp_path / "a.pt.trace.json", tmp_path / "b.pt.trace.json", tmp_path / "run.log"
    first.write_text("{}\n")
    watch = FileWatch([str(tmp_path)], unchanged_s=2, max_wait_s=30)
    watch.mark_read(watch.current_stamps())
    assert watch.change(watch.current_stamps(), 0) is FileChange.NOTHING
    second.write_text('{"traceEvents": [')
    assert watch.change(watch.current_stamps(), 1) is FileChange.GROWING
    assert watch.change(watch.current_stamps(), 60) is FileChange.GROWING, "its end is missing, however long it rests"
    second.write_text('{"traceEvents": []}\n')
    assert watch.change(watch.current_stamps(), 61) is FileChange.GROWING
    assert watch.change(watch.current_stamps(), 63) is FileChange.COMPLETE
    watch.mark_read(watch.current_stamps())
    assert watch.change(watch.current_stamps(), 64) is FileChange.NOTHING
    for second_s in range(30):
        log.write_text("x" * second_s)
        assert watch.change(watch.current_stamps(), 100 + second_s) is FileChange.GROWING
    log.write_text("x" * 30)
    assert watch.change(watch.current_stamps(), 130) is FileChange.COMPLETE, (
        "a log that never rests is read all the same"
    )
    watch.mark_read(watch.current_stamps())
    watch.pause_reading(130, duration_s=4)
    log.write_text("x")
    assert watch.change(watch.current_stamps(), 131) is FileChange.GROWING
    assert watch.change(watch.current_stamps(), 165) is FileChange.GROWING, (
        "a tenth of the time goes into reading, not more"
    )
    assert watch.change(watch.current_stamps(), 166) is FileChange.COMPLETE
    assert lacks_end(str(tmp_path / "none.json")) is False
    assert stamps([str(tmp_path / "none")]) == {}


def test_files_in_subfolders_are_watched(tmp_path: Path) -> None:
    below = tmp_path / "node0" / "rank0.json"
    below.parent.mkdir()
    below.write_text("{}\n")
    status = below.stat()
    assert stamps([str(tmp_path)]) == {str(below): (3, status.st_mtime_ns)}


def test_files_are_not_checked_while_they_are_read_or_checked(tmp_path: Path) -> None:
    app, is_reading = Mock(), [True]
    following = follow.Following(app, [str(tmp_path)], Mock(), lambda: is_reading[0], Mock())
    following.check()
    assert app.run_worker.call_count == 0
    is_reading[0] = False
    following.check()
    following.check()
    assert app.run_worker.call_count == 1


async def test_a_folder_is_reloaded_when_complete_and_the_view_stays(tmp_path: Path) -> None:
    app = ProftuiApp(OpenOptions(paths=(str(tmp_path),), follow=True, cache=False))
    path = tmp_path / "rank0.pt.trace.json"
    with patch.multiple(follow, POLL_S=3600.0, UNCHANGED_S=0.01, PAUSE_FACTOR=0):
        async with app.run_test(size=(120, 40)) as pilot:
            shown, following = app.profile_session, app.profile_loading.following
            assert following is not None

            def looked(condition: Callable[[], bool]) -> Callable[[], bool]:
                def is_so() -> bool:
                    following.check()
                    return condition()

                return is_so

            await wait_until(pilot, lambda: "following" in shown.progress, "that nothing is there is said")
            assert isinstance(app.screen, LoadingScreen)
            path.write_bytes(TRACE[:-2000])
            await wait_until(pilot, looked(lambda: "is growing" in shown.progress["following"]), "growth is said")
            assert shown.whole_profile is None
            path.write_bytes(TRACE)
            await wait_until(
                pilot, looked(lambda: app.view_screen is not None and app.view_screen.is_mounted), "the first view"
            )
            assert shown.whole_profile is not None
            assert shown.whole_profile["sessions"].height == 1
            await press(pilot, "K", "j", "j")
            view = app.view_screen
            assert view is not None
            key = view.query(FrameTable).first().model.cursor_key()
            assert key is not None
            (tmp_path / "rank1.pt.trace.json").write_bytes(TRACE.replace(b'"rank": 0', b'"rank": 1'))
            await wait_until(pilot, looked(lambda: shown.whole_profile["sessions"].height == 2), "a second file")
            assert app.view_screen is view
            assert view.query(FrameTable).first().model.cursor_key() == key
            await wait_until(pilot, lambda: shown.progress["following"].startswith("following, read at "), "it is said")


def test_follow_needs_a_file(capfd: pytest.CaptureFixture[str]) -> None:
    with patch("tui.cli.explore.detect_terminal") as known:
        known.return_value.obstacle = ""
        assert run(capfd, "--follow", "-")[2].startswith("proftui: --follow needs a file or a folder\n")


WRITER = """
import sys, time
path, head, row, number = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
with open(path, "a") as log:
    log.write(head)
    for place in range(number):
        log.write(row.replace("353.98ms ", f"{400 + place}.00ms ", 1))
        log.flush()
        time.sleep(0.02)
"""


@pytest.mark.slow
def test_a_growing_log_is_reloaded_when_it_is_at_rest(tmp_path: Path) -> None:
    """In a terminal, beside a process that writes its log row by row."""
    log = tmp_path / "run.log"
    head, _, rest = NVPROF_LOG.partition("353.98ms")
    row = "353.98ms" + rest.partition("\n")[0] + "\n"
    writes = [sys.executable, "-c", WRITER, str(log)]
    with TerminalProgram([*PROGRAM, "--no-cache", "--follow", str(log)]) as program:
        program.wait_for_text("read when there is more")
        with subprocess.Popen([*writes, head, row, "40"]):
            program.wait_for_text("following, read at ")
            program.press(b"K")
            program.wait_for_text("sorted by Total")
        begun = len(program.output)
        with subprocess.Popen([*writes, "", row, "60"]):
            program.wait_for_text("the file is growing", since=begun)
            # 40 and 60 rows of the one kernel, beside one of each other kind.
            program.wait_for_text(" 100 ", since=begun)
        program.press(b"Q")
        assert program.wait_for_exit() == 0
