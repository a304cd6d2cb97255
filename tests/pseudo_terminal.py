"""The real program in a pseudo-terminal of its own: what it draws, what it is sent, how it ends."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from typing import TYPE_CHECKING, Any

from tests.waiting import TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_ESCAPES = re.compile(rb"\x1b\[[0-9;?<>=]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)")
PROGRAM = (sys.executable, "-m", "tui")


class Program:
    """A program that runs.

    Args:
        command: The program and its arguments.
        environment: What is added to the test's own.
        size: Columns and lines.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        size: tuple[int, int] = (120, 40),
        setup: Callable[[], None] | None = None,
    ) -> None:
        self.output = b""
        """All that it has written."""
        self.status: int | None = None
        """How it ended: the exit status, or minus the number of the signal; None while it runs."""
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
        """How the terminal was set before the program changed it."""

    @property
    def text(self) -> str:
        """What it has written, without escapes."""
        return _ESCAPES.sub(b"", self.output).decode(errors="replace")

    def shows(self, words: str, *, since: int = 0, limit_s: float = TIMEOUT_S) -> None:
        """Wait until it has written some words, after so many bytes."""
        self.until(lambda: words in _ESCAPES.sub(b"", self.output[since:]).decode(errors="replace"), words, limit_s)

    def until(self, is_so: Callable[[], bool], what: str, limit_s: float = TIMEOUT_S) -> None:
        """Wait until something is so while it runs."""
        until = time.monotonic() + limit_s
        while not is_so():
            if self.status is not None or time.monotonic() > until:
                raise AssertionError(f"never came: {what}; status {self.status}; it wrote {self.text[-3000:]}")
            self._step()

    def press(self, keys: bytes) -> None:
        """Send what a terminal sends for keys, all at once."""
        os.write(self._fd, keys)

    def run_for(self, seconds: float) -> None:
        """Let it run."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.status is None:
            self._step()

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def hang_up(self) -> None:
        """Take the terminal away, as where a connection drops."""
        self._open = False
        os.close(self._fd)

    def ended(self, limit_s: float = TIMEOUT_S) -> int:
        """Wait until it has ended: its status, as `status`."""
        self.until(lambda: self.status is not None, "the end", limit_s)
        assert self.status is not None
        return self.status

    def is_terminal_restored(self) -> bool:
        """Whether the terminal is as before: its settings, its screen, its cursor, no mouse."""
        return (
            termios.tcgetattr(self._fd) == self.attributes
            and self.output.rfind(b"\x1b[?1049l") > self.output.rfind(b"\x1b[?1049h")
            and self.output.rfind(b"\x1b[?25h") > self.output.rfind(b"\x1b[?25l")
            and self.output.rfind(b"\x1b[?1003l") >= self.output.rfind(b"\x1b[?1003h")
        )

    def close(self) -> None:
        """End it, if it still runs."""
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self._open:
            os.close(self._fd)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _step(self) -> None:
        """Read a little, and see whether it has ended."""
        if self._open and select.select([self._fd], [], [], 0.02)[0]:
            try:
                data = os.read(self._fd, 1 << 16)
            except OSError:  # Linux says so when nobody has the terminal open any more
                data = b""
            self.output += data
            if data:
                return
        elif not self._open:
            time.sleep(0.02)
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.status = os.waitstatus_to_exitcode(status)
