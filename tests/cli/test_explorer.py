"""The explorer from the command line to the end of the process, in this one, with a screen that only Textual sees."""

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


class Ended(list[int]):
    """The statuses with which the process would have ended at once."""


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ended]:
    """A terminal that can show the explorer; nothing ends this process, and nothing is forced after a while."""
    statuses = Ended()
    monkeypatch.setattr(explore, "detect_terminal", lambda _color: Terminal("", "truecolor", False, "", True))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(shutdown, "end_now", statuses.append)
    monkeypatch.setattr(shutdown, "_MAX_CLOSING_S", 1e6)
    with patch.dict(os.environ):
        yield statuses


def played(monkeypatch: pytest.MonkeyPatch, *stories: Callable[[Pilot[None]], Awaitable[None]]) -> None:
    """Have the explorers that are opened one after the other used by these stories."""
    waiting = iter(stories)

    async def run_async(app: ProftuiApp, *, mouse: bool) -> Any:
        story = next(waiting)

        async def play(pilot: Pilot[None]) -> None:
            # What cannot be read ends it before.
            await wait_until(
                pilot, lambda: app._exit or (app.view_screen is not None and app.view_screen.is_mounted), "it"
            )
            if not app._exit:
                await settle(pilot)
                await story(pilot)

        return await App.run_async(app, headless=True, size=(120, 40), mouse=mouse, auto_pilot=play)

    monkeypatch.setattr(ProftuiApp, "run_async", run_async)


def says(pilot: Pilot[None]) -> list[str]:
    return messages_of(pilot)


def test_one_file_after_the_other_is_looked_at_and_gone_back_to(
    monkeypatch: pytest.MonkeyPatch, ended: Ended, capfd: pytest.CaptureFixture[str]
) -> None:
    async def first(pilot: Pilot[None]) -> None:
        await press(pilot, "ctrl+c")
        assert says(pilot) == ["Q quits, q goes back."]
        await run_line(pilot, "kernels")
        await press(pilot, "ctrl+l")
        assert view_of(pilot) == "kernels"
        app_of(pilot).run_line(f"open {sample_path(OTHER)}")
        await wait_until(pilot, lambda: app_of(pilot).next_input is not None, "the other file")

    async def second(pilot: Pilot[None]) -> None:
        whole = app_of(pilot).profile_session.whole_profile
        assert whole is not None
        assert whole.sources == (sample_path(OTHER),)
        await press(pilot, "Q")

    async def third(pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: view_of(pilot) == "kernels", "the view that was left")
        await press(pilot, "Q")

    played(monkeypatch, first, second, third)
    assert run(capfd, sample_path(LOG)) == (0, "", "")
    assert run(capfd, "--resume", "--ascii", sample_path(LOG)) == (0, "", "")
    # Threads that are still busy on a loaded machine are not waited for.
    assert set(ended) <= {0}


async def nothing(_pilot: Pilot[None]) -> None:
    """A story that never begins."""


def test_what_cannot_be_read_is_reported_when_the_terminal_is_back(
    monkeypatch: pytest.MonkeyPatch, ended: Ended, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    played(monkeypatch, nothing)
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
    ("fault", "status", "said"),
    [
        (KeyError("secret"), 70, "proftui: internal error: KeyError: 'secret'; report: "),
        (ProftuiError("rules.toml: not TOML", "mend it"), 2, "proftui: rules.toml: not TOML\n         mend it\n"),
        (MemoryError(), 2, "proftui: not enough memory: close other programs, or open a dataset"),
        (None, 70, "proftui: internal error: RuntimeError: the thread that reads the terminal failed; report: "),
    ],
    ids=["own", "of a file", "memory", "of Textual"],
)
def test_a_fault_ends_it_with_one_message(
    monkeypatch: pytest.MonkeyPatch,
    ended: Ended,
    capfd: pytest.CaptureFixture[str],
    fault: Exception | None,
    status: int,
    said: str,
) -> None:
    async def fails(pilot: Pilot[None]) -> None:
        if fault is None:
            pilot.app.panic("the terminal")
        else:
            pilot.app._handle_exception(fault)

    played(monkeypatch, fails)
    found, out, err = run(capfd, sample_path(LOG))
    assert (found, out) == (status, "")
    assert err.startswith(said)
    assert "Traceback" not in err


def test_signals_end_it_as_keys_do(
    monkeypatch: pytest.MonkeyPatch, ended: Ended, capfd: pytest.CaptureFixture[str]
) -> None:
    async def told_to_end(pilot: Pilot[None]) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0)

    async def without_terminal(pilot: Pilot[None]) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        await wait_until(pilot, lambda: bool(ended), "the end")
        await press(pilot, "Q")

    timers: list[tuple[object, ...]] = []

    def timer(seconds: float, call: Callable[..., None], arguments: tuple[Any, ...]) -> SimpleNamespace:
        assert seconds == 1e6
        timers.append((call, *arguments))
        return SimpleNamespace(start=lambda: None, daemon=False)

    played(monkeypatch, told_to_end, without_terminal)
    monkeypatch.setattr("threading.Timer", timer)
    assert run(capfd, sample_path(LOG))[0] == 128 + signal.SIGTERM
    # Should the screen not go, the terminal is restored by force.
    ((force, attributes, status),) = timers
    assert (force, status) == (shutdown._force, 128 + signal.SIGTERM)
    shutdown._force(attributes, status)
    assert capfd.readouterr().err.endswith("\x1b[?1049l\x1b[?25h\x1b[0m")
    assert ended[-1] == 128 + signal.SIGTERM
    ended.clear()
    assert run(capfd, sample_path(LOG))[0] == 0
    assert ended[0] == 128 + signal.SIGHUP


def test_data_comes_through_a_pipe_and_keys_from_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    keyboard, terminal = os.openpty()
    reads, writes = os.pipe()
    os.write(writes, b"==1== NVPROF\n")
    before = os.dup(0)
    os.dup2(reads, 0)
    monkeypatch.setattr(sys, "stdin", None)
    real = {name: getattr(os, name) for name in ("dup", "dup2", "close", "O_RDWR")}
    monkeypatch.setattr(explore, "os", SimpleNamespace(**real, open=lambda _path, _flags: os.dup(terminal)))
    try:
        explore._take_keys_from_terminal()
        os.close(writes)
        with sys.stdin as data:
            assert data.read() == "==1== NVPROF\n"
        assert os.isatty(0)
    finally:
        os.dup2(before, 0)
        for descriptor in (before, keyboard, terminal, reads):
            os.close(descriptor)

    def none(_path: str, _flags: int) -> int:
        raise OSError(6, "No such device")

    monkeypatch.setattr(explore, "os", SimpleNamespace(**real, open=none))
    with pytest.raises(ProftuiError, match="no terminal for input"):
        explore._take_keys_from_terminal()


def test_keys_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    keys = tmp_path / "proftui" / "keys.toml"
    keys.mkdir(parents=True)
    status, _out, err = run(capfd, "--keys")
    assert status == 2
    assert err.startswith(f"proftui: {keys}: cannot be read: ")
