"""The command line as a process: exit status, output and messages, terminals and pipes."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.cli.running import TOTAL_NS, TRACE, run, run_program
from tests.pseudo_terminal import PROGRAM, run_on_terminal
from tests.waiting import TIMEOUT_S
from tui.cli.main import main


def test_a_profile_is_read_from_standard_input() -> None:
    result = run_program("export", "-", "--frame", "kernels", "--format", "json", stdin=TRACE)
    assert result.returncode == 0
    assert sum(row["total_ns"] for row in json.loads(result.stdout)["rows"]) == TOTAL_NS


def test_without_a_terminal_the_report_is_printed_with_a_hint(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    status, text, _err = run(capfd, "report", log)
    assert status == 0
    assert text.startswith(f"{log}\n\nExpert Systems (")
    assert "\nPerformance summary\n" in text
    hint = "standard output is not a terminal: printing the text report; open the file in a terminal to explore it"
    assert run(capfd, log) == (0, text, f"proftui: {hint}\n")
    missing = log.with_name("gone.log")
    assert run(capfd, missing) == (2, "", f"proftui: {missing}: no such file\n")


@pytest.mark.slow
def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    rows = TRACE.splitlines()
    (tmp_path / "long.log").write_text("\n".join([*rows[:8], *(rows[7] for _ in range(20_000))]) + "\n")
    command = f"{sys.executable} -m tui export long.log --frame activities | head -n 1; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, timeout=TIMEOUT_S)
    assert result.stderr == ""
    assert result.stdout.splitlines()[1] == "0"


@pytest.mark.slow
def test_closed_standard_streams(log: Path) -> None:
    def run_with_closed(redirections: str) -> subprocess.CompletedProcess[str]:
        command = f"{sys.executable} -m tui export {log} --frame nosuch {redirections}"
        return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=TIMEOUT_S)

    result = run_with_closed(">&-")
    assert (result.returncode, result.stderr.splitlines()[0]) == (2, "proftui: standard output is closed")
    # Messages are not written to standard output.
    result = run_with_closed("2>&- <&-")
    assert (result.returncode, result.stdout) == (2, "")


def test_a_dumb_terminal_gets_the_report(log: Path) -> None:
    status, output = run_on_terminal([*PROGRAM, str(log)], {"TERM": "dumb"})
    assert status == 0
    assert output.splitlines()[-1].startswith("proftui: TERM=dumb: printing the text report")
    assert "\x1b" not in output


@pytest.mark.slow
def test_a_missing_file_is_reported_without_a_screen(tmp_path: Path) -> None:
    status, output = run_on_terminal([*PROGRAM, str(tmp_path / "gone.log")], {"TERM": "xterm"})
    assert status == 2
    assert output.startswith(f"proftui: {tmp_path / 'gone.log'}: no such file")
    assert "\x1b" not in output


@pytest.mark.slow
def test_standard_input_from_a_terminal_is_an_error() -> None:
    status, output = run_on_terminal([*PROGRAM, "-"], {"TERM": "xterm"})
    assert status == 2
    assert "proftui: standard input (-) is a terminal\n" in output


@pytest.mark.slow
def test_exploring_standard_input_needs_a_terminal_for_keys() -> None:
    # The new session has no controlling terminal, so that there is no /dev/tty.
    status, output = run_on_terminal([*PROGRAM, "-"], {"TERM": "xterm"}, TRACE.encode())
    assert status == 2
    assert "proftui: no terminal for input" in output


def test_with_a_terminal_keys_and_data_are_kept_separate() -> None:
    code = (
        "import os, sys\nfrom tui.cli.explore import _take_keys_from_terminal\n_take_keys_from_terminal()\n"
        "keys = sys.__stdin__.fileno()\n"
        "print(os.isatty(keys), sys.stdin.buffer.read(), os.read(keys, 10), flush=True)\n"
    )
    reader, writer = os.pipe()
    child, terminal = pty.fork()
    if child == 0:
        os.close(writer)
        os.dup2(reader, 0)
        os.execv(sys.executable, [sys.executable, "-c", code])
    os.close(reader)
    os.write(writer, b"data")
    os.close(writer)
    os.write(terminal, b"q\n")
    output = b""
    while b"q\\n" not in output:
        output += os.read(terminal, 4096)
    os.waitpid(child, 0)
    os.close(terminal)
    assert b"True b'data' b'q\\n'" in output


def test_a_profile_never_writes_escapes_to_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "hostile.log"
    path.write_text(TRACE.replace("relu<", "re\x1b]52;c;aGk=\x07\x1b[31mlu\u202e<"))
    runs = [
        ["export", str(path), "--frame", "activities"],
        ["export", str(path), "--frame", "kernels", "--format", "json"],
        ["report", str(path), "--view", "kernels", "--color", "never"],
        ["report", str(path), "--format", "json", "--color", "never"],
        ["report", str(path), "--color", "never"],
        ["inspect", str(path)],
    ]
    code = f"from tui.cli.main import main\nfor run in {runs!r}: assert main(run) == 0"
    status, output = run_on_terminal([sys.executable, "-c", code], {"TERM": "xterm"})
    assert status == 0
    assert output.count("lu") >= len(runs) - 1
    assert "\x1b" not in output
    assert "\x07" not in output
    assert "\u202e" not in output


def test_interrupting_is_status_130(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    def interrupted(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tui.loaders.registry.load_input", interrupted)
    assert main(["inspect", str(log)]) == 130


class PanicException(BaseException):
    """Has the name and module of the exception of a Rust panic."""

    __module__ = "pyo3_runtime"


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (BrokenPipeError(), 0, ""),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), 2, "proftui: not enough memory: close other programs"),
        (OSError(errno.EMFILE, "Too many open files"), 2, "proftui: too many open files\n         raise the li"),
        (OSError(errno.ENOSPC, "No space left"), 2, "proftui: standard output: No space left\n"),
        (PermissionError(errno.EACCES, "Permission denied", "a.log"), 2, "proftui: a.log: Permission denied\n"),
        (
            OSError(errno.EIO, "Input/output error"),
            70,
            "proftui: internal error: OSError: [Errno 5] Input/output error",
        ),
        (MemoryError(), 2, "proftui: not enough memory: close other programs"),
        (PanicException("index out of bounds"), 70, "proftui: internal error: PanicException: index out of bounds; "),
        (
            PanicException("memory allocation of 99000000 bytes failed"),
            2,
            "proftui: not enough memory (for 94.41 MiB more)",
        ),
        (PanicException("TooManyOpenFiles"), 2, "proftui: too many open files\n"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_error_has_one_message_and_a_status(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    log: Path,
    error: BaseException,
    status: int,
    message: str,
) -> None:
    def raise_error(*_arguments: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr("tui.loaders.registry.load_input", raise_error)
    assert main(["inspect", str(log)]) == status
    message_text = capfd.readouterr().err
    assert message_text.startswith(message)
    assert bool(message_text) == bool(message)


def test_other_base_exceptions_are_not_caught(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    def raise_generator_exit(*_arguments: object, **_options: object) -> None:
        raise GeneratorExit

    monkeypatch.setattr("tui.loaders.registry.load_input", raise_generator_exit)
    with pytest.raises(GeneratorExit):
        main(["inspect", str(log)])


def test_closed_streams_are_the_null_device(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["formats"]) == 2
    with sys.stdin, sys.stdout:
        assert sys.stdin.read() == ""
    assert capfd.readouterr().err.startswith("proftui: standard output is closed\n")


def test_an_unexpected_exception_is_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], log: Path
) -> None:
    def raise_error(*_arguments: object, **_options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("tui.loaders.registry.load_input", raise_error)
    assert main(["inspect", str(log)]) == 70
    assert capfd.readouterr().err.startswith("proftui: internal error: ZeroDivisionError; report: ")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_an_error_of_one_line(log: Path) -> None:
    with Path("/dev/full").open("wb") as device:
        for arguments in (["export", log, "--frame", "kernels"], ["report", log]):
            command = [sys.executable, "-m", "tui", *map(str, arguments)]
            result = subprocess.run(command, stdout=device, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S)
            assert (result.returncode, result.stderr) == (2, "proftui: standard output: No space left on device\n")


@pytest.mark.slow
def test_interrupting_the_wait_for_a_silent_pipe_is_status_130() -> None:
    command = [sys.executable, "-m", "tui", "report", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        sample = Path(__file__).parents[2] / "sample_logs" / "resnet50_training.nvprof.log"
        content = sample.read_bytes()[: 1 << 20]
        process.stdin.write(content)
        process.stdin.flush()
        # Everything is written; wait until the process has read all of it from the pipe.
        while int.from_bytes(fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4)), sys.byteorder):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
