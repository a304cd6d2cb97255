"""A fault of the program itself: the terminal as it was, one sentence, a report that can be sent."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from tests.pseudo_terminal import Program
from tests.screens.opening import sample
from tui.cli import main as cli
from tui.cli.crash import STATUS, report_lines, tell_of_crash

if not sys.platform.startswith("linux"):
    pytest.skip("pseudo-terminals as Linux has them", allow_module_level=True)

LOG = "caffe_conv1.nvprof.log"
SECRET = "void secret_kernel<float>"

FAILS_IN_A_VIEW = f"""
from tui.screens.memory import MemoryScreen
def on_mount(self):
    raise KeyError("{SECRET}")
MemoryScreen.on_mount = on_mount
from tui.cli.main import main
raise SystemExit(main())
"""
FAILS_WHILE_READING = f"""
from tui import opening
def open_profiles(*args, **kwargs):
    raise ZeroDivisionError("{SECRET}")
opening.open_profiles = open_profiles
from tui.cli.main import main
raise SystemExit(main())
"""


def reports(state_directory: Path) -> list[Path]:
    return sorted((state_directory / "crashes").glob("*"))


@pytest.mark.parametrize(("code", "kind"), [(FAILS_IN_A_VIEW, "KeyError"), (FAILS_WHILE_READING, "ZeroDivisionError")])
def test_the_explorer_says_one_sentence_and_restores_the_terminal(code: str, kind: str, state_directory: Path) -> None:
    with Program([sys.executable, "-c", code, sample(LOG)]) as program:
        if code is FAILS_IN_A_VIEW:
            program.shows("m views")
            program.press(b":memory\r")
        assert program.ended() == STATUS
        assert program.is_terminal_restored()
        said = program.output[program.output.rindex(b"\x1b[?1049l") :].decode()
    assert "Traceback" not in program.text
    assert f"proftui stopped: {kind}: " in said
    (report,) = reports(state_directory)
    assert str(report) in said.replace("\r\n", "")
    assert said.count("\r\n") == 1
    written = report.read_text()
    assert kind in written
    assert SECRET not in written
    assert f"command line: proftui {LOG}\n" in written
    assert str(Path(cli.__file__).parents[2]) not in written
    assert "sample_logs" not in written
    assert "terminal 120x40" in written
    assert "on_mount" in written or "open_profiles" in written


def test_a_command_says_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state_directory: Path
) -> None:
    from tui.cli import headless

    def fails(_options: object) -> int:
        raise ValueError(SECRET + "\x1b[31m")

    monkeypatch.setattr(headless, "report", fails)
    assert cli.main(["report", "/data/project/run.log"]) == STATUS
    said = capsys.readouterr().err
    assert said.startswith(f"proftui stopped: ValueError: {SECRET}")
    assert "\x1b" not in said
    (report,) = reports(state_directory)
    assert "command line: proftui report run.log\n" in report.read_text()
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert stat.S_IMODE(report.parent.stat().st_mode) == 0o700


def test_so_many_reports_are_kept(state_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state_directory / "crashes").mkdir(parents=True)
    for number in range(14):
        (state_directory / "crashes" / f"20200101-0000{number:02}-1.txt").touch()
    assert tell_of_crash(ValueError("x"), ["run.log"]) == STATUS
    capsys.readouterr()
    names = [path.name for path in reports(state_directory)]
    assert len(names) == 10
    assert names[-1][:4] > "2020"


def test_where_no_report_can_be_written_the_place_is_said(
    state_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state_directory.mkdir()
    (state_directory / "crashes").touch()
    with pytest.raises(LookupError) as caught:
        {}["key"]
    assert tell_of_crash(caught.value, []) == STATUS
    said = capsys.readouterr().err
    assert said.startswith("proftui stopped: KeyError: 'key'; no report could be written (")
    assert "test_crash.py:" in said


def test_what_led_to_a_fault_is_in_the_report() -> None:
    try:
        try:
            raise OSError("first")
        except OSError as cause:
            raise RuntimeError("second") from cause
    except RuntimeError as error:
        text = "\n".join(report_lines(error, []))
    assert text.index("\nOSError (") < text.index("\nRuntimeError (")


def test_developers_get_the_traceback() -> None:
    with Program([sys.executable, "-X", "dev", "-c", FAILS_WHILE_READING, sample(LOG)], os.environ) as program:
        assert program.ended() == 1
    assert "Traceback" in program.text
