"""The command line: options, help and errors."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.running import TRACE, run
from tui import __version__
from tui.cli import explore, headless
from tui.cli.arguments import COMMANDS
from tui.cli.crash import report_crash
from tui.cli.main import main
from tui.model.errors import ProftuiError


def test_version_and_help(capfd: pytest.CaptureFixture[str]) -> None:
    for arguments, text in ((["--version"], f"proftui {__version__}\n"), (["--help"], "proftui COMMAND [options]")):
        with pytest.raises(SystemExit) as exit_info:
            main(arguments)
        assert exit_info.value.code == 0
        assert text in capfd.readouterr().out


def test_help_names_every_command(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capfd.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [],
            "proftui: no input file\n"
            "         usage: proftui FILE..., for example proftui run.nvprof.log; see proftui --help\n",
        ),
        (["--nonsense"], "proftui: unrecognized arguments: --nonsense\n         proftui --help\n"),
        (["report"], "proftui: the following arguments are required: FILE\n         proftui report --help\n"),
        (
            ["export", "x"],
            "proftui: choose a table with --frame\n         or --format folded, speedscope or chrome\n",
        ),
        (["report", "-", "-"], "proftui: standard input (-) can be read only once\n"),
        (["diff", "-", "-"], "proftui: standard input (-) can be read only once\n"),
        (["inspect", "a.log", "--gpu", "abacus"], "proftui: --gpu abacus: unknown GPU\n"),
        (["inspect", "no/such.log"], ""),
        (["formats", "x"], "proftui: unrecognized arguments: x\n         proftui formats --help\n"),
        (["diff", "x"], "proftui: diff needs two files, A and B\n"),
        (["report", "-"], "proftui: standard input (-) is a terminal\n         for example: nvprof ./app 2>&1 | "),
        (
            ["report", ".", "--view", "profiles", "--format", "html"],
            "proftui: the list of profiles is not available as HTML\n",
        ),
        (["report", "a.log", "--view", "profiles"], "proftui: --view profiles lists one folder\n"),
        (
            ["report", "LOG", "--format", "html", "--limit", "1"],
            "proftui: an HTML page always contains the whole view\n",
        ),
        (["report", "LOG", "--limit", "0"], "proftui: argument --limit: 0: expected a number from 1\n"),
        (["report", "LOG", "--view", "kernels", "--filter", "calls>"], "proftui: --filter calls>: "),
        (
            ["report", "LOG", "--view", "kernels", "--table", "launches", "--row", "x"],
            "proftui: --row x: no such row in",
        ),
        (
            ["report", "LOG", "--view", "kernels", "--table", "launches"],
            "proftui: --table launches requires one --row KEY for each table above it: kernels\n",
        ),
        (["report", "LOG", "--view", "group-ops", "--unfold", "x"], "proftui: --unfold x: no such row\n"),
        (
            ["export", "LOG", "--format", "chrome", "--limit", "1"],
            "proftui: chrome accepts only --iterations, --from and --to",
        ),
        (
            ["export", "LOG", "--format", "chrome", "--from", "1.x5ms"],
            "proftui: argument --from: 1.x5ms: expected a time",
        ),
        (
            ["export", "LOG", "--frame", "kernels", "--format", "parquet"],
            "proftui: parquet cannot be written to a term",
        ),
        (
            ["diff", "LOG", "LOG", "--sort", "name"],
            "proftui: --filter, --sort, --columns and --limit apply to one table",
        ),
        (["diff", "--baseline", "x", "LOG", "--sort", "name"], "proftui: --filter, --sort and --columns do not apply"),
        (["baseline", "save", "x", "a.log"], "proftui: a.log: no such file\n"),
        (
            ["report", "LOG", "--across", "kind"],
            "proftui: --across needs --values\n         for example: --values kind --across device\n",
        ),
        (
            ["report", "LOG", "--max-bytes", "10000"],
            "proftui: --max-bytes does not apply to text\n         use --format json, or --limit\n",
        ),
        (
            ["export", "LOG", "--frame", "kernels", "--from", "1ms"],
            "proftui: --from and --to do not apply to tables\n         use --filter 'start>1ms', or --format chrome\n",
        ),
        (
            ["export", "LOG", "--frame", "kernels", "--format", "chrome"],
            "proftui: chrome always contains the whole trace\n         remove --frame\n",
        ),
        (
            ["diff", "LOG", "LOG", "--frame", "kernels", "--format", "text"],
            "proftui: text always contains the whole comparison\n         remove --frame, or use --format csv\n",
        ),
        (
            ["diff", "LOG", "LOG", "--format", "json", "-o", "x"],
            (
                "proftui: -o writes one table, not the whole comparison as json\n         choose it with --frame, or "
                "use > PATH\n"
            ),
        ),
        (
            ["diff", "--baseline", "x", "LOG", "--format", "csv"],
            "proftui: --baseline prints text, markdown or json\n         remove --frame and -o\n",
        ),
        (["mcp", "no/such"], "proftui: no/such: no such folder\n"),
    ],
)
def test_a_wrong_command_line_is_an_error_with_status_2(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, log: Path, arguments: list[str], message: str
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    if "parquet" in arguments:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    status, _out, err = run(capfd, *(str(log) if argument == "LOG" else argument for argument in arguments))
    assert status == 2
    assert err.startswith(message)
    assert "Traceback" not in err


def test_a_command_that_is_not_first_is_an_error(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    status, _out, err = run(capfd, "--color", "never", "report", log)
    assert status == 2
    assert "proftui: report is a command and must come first\n         usage: proftui report FILE\n" in err


def test_a_file_name_with_a_leading_dash_can_be_opened(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "-run.log").write_text(TRACE)
    monkeypatch.chdir(tmp_path)
    assert run(capfd, "inspect", "--format", "json", "--", "-run.log")[0] == 0
    assert run(capfd, "inspect", "--format", "json", "./-run.log")[0] == 0


def test_a_file_with_the_name_of_a_command_can_be_opened(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "report").write_text(TRACE)
    monkeypatch.chdir(tmp_path)
    status, out, _err = run(capfd, "inspect", "--format", "json", "report")
    assert status == 0
    assert json.loads(out)["source"] == "report"


def test_formats_lists_each_with_its_command(capfd: pytest.CaptureFixture[str]) -> None:
    from tui.loaders.registry import formats

    status, out, err = run(capfd, "formats")
    assert (status, err) == (0, "")
    for format_ in formats():
        assert f"{format_.name}  {format_.title}\n" in out
    assert out.count("record with") == len(formats())


def test_keys_lists_each_action(capfd: pytest.CaptureFixture[str]) -> None:
    from tui.keys import ACTIONS

    status, out, _err = run(capfd, "--keys")
    assert status == 0
    text = " ".join(out.split())
    assert all(action.help in text for action in ACTIONS)


def test_an_empty_file_name_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    expected = "proftui: empty file name\n         is a shell variable unset?\n"
    assert run(capfd, "report", "") == (2, "", expected)
    assert run(capfd, "") == (2, "", expected)


def test_a_mistyped_command_has_a_suggestion(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    status, out, err = run(capfd, "repport", log)
    assert (status, out) == (2, "")
    assert err == "proftui: repport: no such file or command\n         did you mean: proftui report\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main([command, "--help"])
    assert exit_info.value.code == 0
    assert capfd.readouterr().out.startswith(f"usage: proftui {command} ")


class Panic(BaseException):
    """Stands for a panic of a Rust library, which is not an ``Exception``."""


Panic.__name__ = "PanicException"


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (KeyboardInterrupt(), 130, ""),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "proftui: standard output: No space left on device\n"),
        (PermissionError(errno.EACCES, "Permission denied", "run.log"), 2, "proftui: run.log: Permission denied\n"),
        (
            OSError(errno.EMFILE, "Too many open files"),
            2,
            "proftui: too many open files\n         raise the limit: ulimit -n 1024\n",
        ),
        (
            OSError(errno.ENOMEM, "Cannot allocate memory"),
            2,
            "proftui: not enough memory: close other programs, or open a dataset written by proftui convert\n",
        ),
        (
            MemoryError("Unable to allocate 7.63 MiB for an array with shape (1000000,)"),
            2,
            "proftui: not enough memory (for 7.63 MiB more): close other programs, or open a dataset written by "
            "proftui convert\n",
        ),
        (OSError(errno.EIO, "I/O error"), 70, "proftui: internal error: OSError: [Errno 5] I/O error; report: "),
        (ValueError("odd"), 70, "proftui: internal error: ValueError: odd; report: "),
        (Panic("index"), 70, "proftui: internal error: PanicException: index; report: "),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_each_kind_of_error_has_its_status_and_one_message(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
    message: str,
) -> None:
    def raise_error(_options: object) -> int:
        raise error

    monkeypatch.setattr(headless, "report", raise_error)
    exit_status, out, err = run(capfd, "report", "run.log")
    assert (exit_status, out) == (status, "")
    assert err == message if status != 70 else err.startswith(message)


def test_system_exit_is_not_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def exit_with_3(_options: object) -> int:
        raise SystemExit(3)

    monkeypatch.setattr(headless, "report", exit_with_3)
    with pytest.raises(SystemExit) as exit_info:
        main(["report", "run.log"])
    assert exit_info.value.code == 3


def test_a_closed_standard_output_is_reported(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert main(["formats"]) == 2
    sys.stdout.close()
    assert capfd.readouterr().err == (
        "proftui: standard output is closed\n         for example: proftui report FILE > report.txt\n"
    )


def test_a_crash_without_a_writable_report_or_traceback(
    state_directory: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state_directory.mkdir()
    (state_directory / "crashes").touch()
    assert report_crash(ValueError(), []) == 70
    assert capfd.readouterr().err == (
        "proftui: internal error: ValueError; no report could be written (Not a directory); the error is in unknown "
        "location\n"
    )


def test_errors_of_the_explorer_are_reported_by_kind(capfd: pytest.CaptureFixture[str]) -> None:
    assert explore._report_error(ProftuiError("rules.toml: damaged", "mend it")) == 2
    assert capfd.readouterr().err == "proftui: rules.toml: damaged\n         mend it\n"
    assert explore._report_error(MemoryError()) == 2
    assert capfd.readouterr().err.startswith("proftui: not enough memory: close other programs")
    assert explore._report_error(ValueError("odd")) == 70
    assert capfd.readouterr().err.startswith("proftui: internal error: ValueError: odd; report: ")


def test_a_cache_that_others_have_access_to_is_not_used(capfd: pytest.CaptureFixture[str]) -> None:
    folder = Path(os.environ["XDG_CACHE_HOME"], "proftui", "frames")
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    status, out, err = run(capfd, "cache", "list")
    assert (status, out) == (2, "")
    assert err == f"proftui: {folder}: not used: it is accessible to other users\n         remove it\n"


@pytest.mark.parametrize("action", ["list", "clear"])
def test_an_empty_cache(capfd: pytest.CaptureFixture[str], action: str) -> None:
    folder = Path(os.environ["XDG_CACHE_HOME"], "proftui", "frames")
    message = f"0 files, 0 B, in {folder}" if action == "list" else f"cleared 0 files from {folder}"
    assert run(capfd, "cache", action) == (0, "", f"proftui: {message}\n")
