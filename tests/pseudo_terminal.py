"""Runs the program in a pseudo-terminal: its output, its input, and its exit status."""

from __future__ import annotations

import sys

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("needs the pseudo-terminals of Linux", allow_module_level=True)

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from typing import TYPE_CHECKING, Any

from tests.waiting import TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_ESCAPES = re.compile(rb"\x1b\[[0-9;?<>=]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)")
PROGRAM = (sys.executable, "-m", "tui")


class TerminalProgram:
    """A program that runs in a pseudo-terminal.

    Args:
        command: The program and its arguments.
        environment: Variables to add to those of the test.
        size: Columns and lines of the terminal.
        setup: A function to call in the new process before the program starts.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        size: tuple[int, int] = (120, 40),
        setup: Callable[[], None] | None = None,
    ) -> None:
        self.output = b""
        """All of its output so far."""
        self.status: int | None = None
        """The exit status, or minus the number of the signal that ended it; None while it runs."""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            try:
                os.environ.update(environment or {})
                if setup is not None:
                    setup()
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
                os.execvp(command[0], list(command))
            finally:
                os._exit(127)
        self._open = True
        self.attributes: list[Any] = termios.tcgetattr(self._fd)
        """The settings of the terminal before the program changed them."""

    @property
    def text(self) -> str:
        """Return its output without escape sequences."""
        return _ESCAPES.sub(b"", self.output).decode(errors="replace")

    def wait_for_text(self, text: str, *, since: int = 0, timeout_s: float = TIMEOUT_S) -> None:
        """Wait for a text in the output; ``since``: after so many bytes."""
        self.wait_until(
            lambda: text in _ESCAPES.sub(b"", self.output[since:]).decode(errors="replace"), text, timeout_s
        )

    def wait_until(self, condition: Callable[[], bool], description: str, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until a condition holds, while the program runs."""
        end_s = time.monotonic() + timeout_s
        while not condition():
            if self.status is not None or time.monotonic() > end_s:
                raise AssertionError(
                    f"timed out waiting for: {description}; status {self.status}; output {self.text[-3000:]}"
                )
            self._step()

    def press(self, keys: bytes) -> None:
        """Send the bytes of keys to the program, all at once."""
        os.write(self._fd, keys)

    def run_for(self, seconds: float) -> None:
        """Let the program run for a time, and read its output."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s and self.status is None:
            self._step()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program."""
        os.kill(self.pid, number)

    def hang_up(self) -> None:
        """Close the terminal, like a dropped connection."""
        self._open = False
        os.close(self._fd)

    def wait_for_exit(self, timeout_s: float = TIMEOUT_S) -> int:
        """Wait until the program exits, and return its `status`."""
        self.wait_until(lambda: self.status is not None, "the end of the program", timeout_s)
        assert self.status is not None
        return self.status

    def is_terminal_restored(self) -> bool:
        """Return whether the settings, the screen and the cursor are as before, and the mouse is off."""
        return (
            termios.tcgetattr(self._fd) == self.attributes
            and self.output.rfind(b"\x1b[?1049l") > self.output.rfind(b"\x1b[?1049h")
            and self.output.rfind(b"\x1b[?25h") > self.output.rfind(b"\x1b[?25l")
            and self.output.rfind(b"\x1b[?1003l") >= self.output.rfind(b"\x1b[?1003h")
        )

    def close(self) -> None:
        """Kill the program if it still runs, and close the terminal."""
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self._open:
            os.close(self._fd)

    def __enter__(self) -> TerminalProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _step(self) -> None:
        """Read some output, and check whether the program has exited."""
        if self._open and select.select([self._fd], [], [], 0.02)[0]:
            try:
                data = os.read(self._fd, 1 << 16)
            except OSError:  # Linux: no process has the terminal open any more
                data = b""
            self.output += data
            if data:
                return
        elif not self._open:
            time.sleep(0.02)
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.status = os.waitstatus_to_exitcode(status)


def run_on_terminal(
    command: Sequence[str], environment: Mapping[str, str] | None = None, stdin: bytes | None = None
) -> tuple[int, str]:
    """Run a program with a terminal as standard output and error, and as input unless ``stdin`` is piped in.

    Returns:
        The exit status, and everything that the program wrote.
    """
    controller, terminal = os.openpty()
    reader, writer = os.pipe()
    try:
        process = subprocess.Popen(
            command,
            stdin=terminal if stdin is None else reader,
            stdout=terminal,
            stderr=terminal,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})},
            start_new_session=True,
        )
        os.write(writer, stdin or b"")
    finally:
        os.close(terminal)
        os.close(reader)
        os.close(writer)
    output = bytearray()
    try:
        while data := os.read(controller, 1 << 16):
            output += data
    except OSError:
        pass  # Linux: every process has closed the terminal.
    finally:
        os.close(controller)
    return process.wait(TIMEOUT_S), output.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
