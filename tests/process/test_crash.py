"""An internal error: the terminal is restored, one sentence is printed, and a report that can be sent is written."""

from __future__ import annotations

import gzip
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pseudo_terminal import TerminalProgram
from tests.screens.explorer import sample_path
from tui.cli import crash
from tui.cli import main as cli
from tui.cli.crash import STATUS, report_crash, report_lines

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
def test_the_explorer_prints_one_sentence_and_restores_the_terminal(
    code: str, kind: str, state_directory: Path
) -> None:
    with TerminalProgram([sys.executable, "-c", code, sample_path(LOG)]) as program:
        if code is FAILS_IN_A_VIEW:
            program.wait_for_text("m views")
            program.press(b":memory\r")
        assert program.wait_for_exit() == STATUS
        assert program.is_terminal_restored()
        message = program.output[program.output.rindex(b"\x1b[?1049l") :].decode()
    assert "Traceback" not in program.text
    assert f"proftui: internal error: {kind}: " in message
    (report,) = reports(state_directory)
    assert str(report) in message.replace("\r\n", "")
    assert message.count("\r\n") == 1
    written = report.read_text()
    assert kind in written
    assert SECRET not in written
    assert f"command line: proftui {LOG}\n" in written
    assert str(Path(cli.__file__).parents[2]) not in written
    assert "sample_logs" not in written
    assert "terminal 120x40" in written
    assert "on_mount" in written or "open_profiles" in written


def test_a_command_prints_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state_directory: Path
) -> None:
    from tui.cli import headless

    def fails(_options: object) -> int:
        raise ValueError(SECRET + "\x1b[31m")

    monkeypatch.setattr(headless, "report", fails)
    assert cli.main(["report", "/data/project/run.log"]) == STATUS
    message = capsys.readouterr().err
    assert message.startswith(f"proftui: internal error: ValueError: {SECRET}")
    assert "\x1b" not in message
    (report,) = reports(state_directory)
    assert "command line: proftui report run.log\n" in report.read_text()
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert stat.S_IMODE(report.parent.stat().st_mode) == 0o700


def test_only_the_newest_crash_reports_are_kept(state_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state_directory / "crashes").mkdir(parents=True)
    for number in range(14):
        (state_directory / "crashes" / f"20200101-0000{number:02}-1.txt").touch()
    assert report_crash(ValueError("x"), ["run.log"]) == STATUS
    capsys.readouterr()
    names = [path.name for path in reports(state_directory)]
    assert len(names) == 10
    assert names[-1][:4] > "2020"


def test_without_a_crash_report_the_location_of_the_error_is_printed(
    state_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state_directory.mkdir()
    (state_directory / "crashes").touch()
    with pytest.raises(LookupError) as caught:
        {}["key"]
    assert report_crash(caught.value, []) == STATUS
    message = capsys.readouterr().err
    assert message.startswith("proftui: internal error: KeyError: 'key'; no report could be written (")
    assert "test_crash.py:" in message


def test_causes_of_an_error_are_in_the_crash_report() -> None:
    try:
        try:
            raise OSError("first")
        except OSError as cause:
            raise RuntimeError("second") from cause
    except RuntimeError as error:
        text = "\n".join(report_lines(error, []))
    assert text.index("\nOSError (") < text.index("\nRuntimeError (")


def test_a_crash_report_is_written_without_metadata_of_the_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash, "_LIBRARIES", ("numpy", "no-such-library"))
    with pytest.raises(LookupError) as caught:
        {}["key"]
    assert ", no-such-library of unknown version\n" in "\n".join(report_lines(caught.value, []))


def test_developers_get_the_traceback() -> None:
    with TerminalProgram(
        [sys.executable, "-X", "dev", "-c", FAILS_WHILE_READING, sample_path(LOG)], os.environ
    ) as program:
        assert program.wait_for_exit() == 1
    assert "Traceback" in program.text


def test_a_panic_of_a_library_is_a_readable_error() -> None:
    command = [sys.executable, "-m", "tui", "sql", sample_path(LOG)]
    query = "SELECT CAST(total_ns AS DECIMAL(99, 99)) FROM kernels"
    ended = subprocess.run([*command, query], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("proftui: SQL: ")
    assert "panicked" not in ended.stderr
    assert len(ended.stderr.splitlines()) == 2


def test_an_unexpected_panic_is_a_crash_with_a_report(state_directory: Path) -> None:
    code = """
from tui.cli import headless
import polars as pl
def report(options):
    raise pl.exceptions.PanicException("panicked")
headless.report = report
from tui.cli.main import main
raise SystemExit(main(["report", "x"]))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == STATUS
    assert ended.stderr.startswith("proftui: internal error: PanicException: panicked; report: ")
    assert len(reports(state_directory)) == 1


@pytest.mark.parametrize("limit", [8, 10, 12])
def test_too_few_file_handles_are_a_readable_error(limit: int, tmp_path: Path) -> None:
    database = tmp_path / "run.sqlite"
    database.write_bytes(gzip.decompress(Path(sample_path("gpt_cudagraph.nsys.sqlite.gz")).read_bytes()))
    code = (
        "import resource, sys; from tui.cli.main import main; "
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit})); "
        f"sys.exit(main(['report', {str(database)!r}, '--no-cache']))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode in (0, 2), ended.stderr
    assert not ended.returncode or ("open files" in ended.stderr or "open files" in ended.stderr)
