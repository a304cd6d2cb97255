"""The explorer from the command line to its exit status, run in this process with Textual's headless driver."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from textual.app import App

from tests.cli.running import run
from tests.screens.explorer import app_of, messages_of, press, run_line, sample_path, settle, view_of
from tests.waiting import wait_until
from tui.app import ProftuiApp, shutdown
from tui.cli import explore
from tui.model.errors import ProftuiError
from tui.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from textual.pilot import Pilot

LOG, OTHER = "caffe_conv1.nvprof.log", "tracking_four_runs.nvprof.log"


class ExitStatuses(list[int]):
    """The statuses with which the process would have exited at once."""


@pytest.fixture
def exit_statuses(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStatuses]:
    """Replace the terminal by one that can show the explorer, and record exit statuses instead of exiting."""
    statuses = ExitStatuses()
    monkeypatch.setattr(explore, "detect_terminal", lambda _color: Terminal("", "truecolor", False, "", True))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(shutdown, "end_now", statuses.append)
    monkeypatch.setattr(shutdown, "_MAX_CLOSING_S", 1e6)
    with patch.dict(os.environ):
        yield statuses


def play_scripts(monkeypatch: pytest.MonkeyPatch, *scripts: Callable[[Pilot[None]], Awaitable[None]]) -> None:
    """Drive the explorers that are opened one after another by these scripts."""
    remaining = iter(scripts)

    async def run_async(app: ProftuiApp, *, mouse: bool) -> Any:
        script = next(remaining)

        async def play(pilot: Pilot[None]) -> None:
            # An unreadable input exits before.
            await wait_until(
                pilot, lambda: app._exit or (app.view_screen is not None and app.view_screen.is_mounted), "it"
            )
            if not app._exit:
                await settle(pilot)
                await script(pilot)

        return await App.run_async(app, headless=True, size=(120, 40), mouse=mouse, auto_pilot=play)

    monkeypatch.setattr(ProftuiApp, "run_async", run_async)


def test_another_file_can_be_opened_and_left_again(
    monkeypatch: pytest.MonkeyPatch, exit_statuses: ExitStatuses, capfd: pytest.CaptureFixture[str]
) -> None:
    async def first(pilot: Pilot[None]) -> None:
        await press(pilot, "ctrl+c")
        assert messages_of(pilot) == ["Q quits, q goes back."]
        await run_line(pilot, "kernels")
        await press(pilot, "ctrl+l")
        assert view_of(pilot) == "kernels"
        app_of(pilot).run_line(f"open {sample_path(OTHER)}")
        await wait_until(pilot, lambda: app_of(pilot).next_input is not None, "the other file")

    async def second(pilot: Pilot[None]) -> None:
        profile = app_of(pilot).profile_session.whole_profile
        assert profile is not None
        assert profile.sources == (sample_path(OTHER),)
        await press(pilot, "Q")

    async def third(pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: view_of(pilot) == "kernels", "the view that was left")
        await press(pilot, "Q")

    play_scripts(monkeypatch, first, second, third)
    assert run(capfd, sample_path(LOG)) == (0, "", "")
    assert run(capfd, "--resume", "--ascii", sample_path(LOG)) == (0, "", "")
    # On a loaded machine, threads may still be busy: the process then exits with status 0 at once.
    assert set(exit_statuses) <= {0}


async def never_called(_pilot: Pilot[None]) -> None:
    """Stand for a script that is not run."""


def test_unreadable_inputs_are_reported_after_the_terminal_is_restored(
    monkeypatch: pytest.MonkeyPatch, exit_statuses: ExitStatuses, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    play_scripts(monkeypatch, never_called)
    status, out, err = run(capfd, "--color", "never", empty)
    assert (status, out) == (2, "")
    assert err.startswith(f"proftui: {empty}: ")
    missing = tmp_path / "missing.log"
    assert run(capfd, missing) == (2, "", f"proftui: {missing}: no such file\n")
    assert run(capfd, "--follow", "s3://runs/a.log")[2].startswith("proftui: --follow needs a file or a folder\n")
    assert run(capfd, "inspct") == (
        2, "", "proftui: inspct: no such file or command\n         did you mean: proftui inspect\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (KeyError("secret"), 70, "proftui: internal error: KeyError: 'secret'; report: "),
        (ProftuiError("rules.toml: not TOML", "mend it"), 2, "proftui: rules.toml: not TOML\n         mend it\n"),
        (MemoryError(), 2, "proftui: not enough memory: close other programs, or open a dataset"),
        (None, 70, "proftui: internal error: RuntimeError: the thread that reads the terminal failed; report: "),
    ],
    ids=["own", "of a file", "memory", "of Textual"],
)
def test_an_error_ends_the_explorer_with_one_message(
    monkeypatch: pytest.MonkeyPatch,
    exit_statuses: ExitStatuses,
    capfd: pytest.CaptureFixture[str],
    error: Exception | None,
    status: int,
    message: str,
) -> None:
    async def raise_fault(pilot: Pilot[None]) -> None:
        if error is None:
            pilot.app.panic("the terminal")
        else:
            pilot.app._handle_exception(error)

    play_scripts(monkeypatch, raise_fault)
    exit_status, out, err = run(capfd, sample_path(LOG))
    assert (exit_status, out) == (status, "")
    assert err.startswith(message)
    assert "Traceback" not in err


def test_signals_end_the_explorer_as_keys_do(
    monkeypatch: pytest.MonkeyPatch, exit_statuses: ExitStatuses, capfd: pytest.CaptureFixture[str]
) -> None:
    async def terminate(pilot: Pilot[None]) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0)

    async def hang_up(pilot: Pilot[None]) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        await wait_until(pilot, lambda: bool(exit_statuses), "the end")
        await press(pilot, "Q")

    timers: list[tuple[object, ...]] = []

    def timer(seconds: float, callback: Callable[..., None], arguments: tuple[Any, ...]) -> SimpleNamespace:
        assert seconds == 1e6
        timers.append((callback, *arguments))
        return SimpleNamespace(start=lambda: None, daemon=False)

    play_scripts(monkeypatch, terminate, hang_up)
    monkeypatch.setattr("threading.Timer", timer)
    assert run(capfd, sample_path(LOG))[0] == 128 + signal.SIGTERM
    # If the screen does not close, the terminal is restored by force.
    ((function, attributes, status),) = timers
    assert (function, status) == (shutdown._force, 128 + signal.SIGTERM)
    shutdown._force(attributes, status)
    assert capfd.readouterr().err.endswith("\x1b[?1049l\x1b[?25h\x1b[0m")
    assert exit_statuses[-1] == 128 + signal.SIGTERM
    exit_statuses.clear()
    assert run(capfd, sample_path(LOG))[0] == 0
    assert exit_statuses[0] == 128 + signal.SIGHUP


def test_data_is_read_from_a_pipe_and_keys_from_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    keyboard, terminal = os.openpty()
    read_end, write_end = os.pipe()
    os.write(write_end, b"==1== NVPROF\n")
    saved_stdin = os.dup(0)
    os.dup2(read_end, 0)
    monkeypatch.setattr(sys, "stdin", None)
    os_functions = {name: getattr(os, name) for name in ("dup", "dup2", "close", "O_RDWR")}
    monkeypatch.setattr(explore, "os", SimpleNamespace(**os_functions, open=lambda _path, _flags: os.dup(terminal)))
    try:
        explore._take_keys_from_terminal()
        os.close(write_end)
        with sys.stdin as data:
            assert data.read() == "==1== NVPROF\n"
        assert os.isatty(0)
    finally:
        os.dup2(saved_stdin, 0)
        for descriptor in (saved_stdin, keyboard, terminal, read_end):
            os.close(descriptor)

    def fail_to_open(_path: str, _flags: int) -> int:
        raise OSError(6, "No such device")

    monkeypatch.setattr(explore, "os", SimpleNamespace(**os_functions, open=fail_to_open))
    with pytest.raises(ProftuiError, match="no terminal for input"):
        explore._take_keys_from_terminal()


def test_an_unreadable_keys_file_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    keys = tmp_path / "proftui" / "keys.toml"
    keys.mkdir(parents=True)
    status, _out, err = run(capfd, "--keys")
    assert status == 2
    assert err.startswith(f"proftui: {keys}: cannot be read: ")
