"""Runs a program in a pseudo-terminal and measures the time from a key to the frames that follow.

The terminal announces synchronized output (mode 2026), as most do, so Textual ends each frame with a sequence that
marks the time. The program is at rest when it has drawn nothing for a moment and all its threads sleep.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

COLUMNS, LINES = 160, 50
QUIET_S = 0.12
"""Longer than all delays of the program; see `CURSOR_DELAY_S` and `TYPING_DELAY_S` of its widgets."""
QUIET_BARE_S = 0.03
"""The same for a program without delays."""
PROBE_AFTER_S = 0.04
"""Seconds after a frame until a busy program is asked for another one."""
PROBE = b"\x0c"
"""``ctrl+l``, which redraws the screen and changes nothing."""

BUSY = "working on"
"""The text on the screen while a view is computed."""

_ASKED = b"\x1b[?2026$p"
_SAID = b"\x1b[?2026;2$y"
_END = b"\x1b[?2026l"
_ESCAPES = re.compile(r"\x1b\[[0-9;?<>=]*[$ ]?[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)")


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame."""

    at_s: float
    """Seconds from the key to its last byte."""
    worked_s: float
    """Processor time of the drawing thread until then, which other programs on the machine affect less."""
    text: str


@dataclass(slots=True)
class KeyResponse:
    """The frames after a key."""

    pictures: list[Frame] = field(default_factory=list)
    cpu_s: float = 0.0
    """Processor time of all threads until rest."""
    frozen_s: float = 0.0
    """The longest time without a frame while one was requested."""
    rest_s: float = 0.0
    """Seconds until rest."""

    def first(self, shows: re.Pattern[str] | None = None) -> Frame | None:
        """The first frame that matches a pattern and is not a busy message; None if there is none."""
        for picture in self.pictures:
            if shows is None or (shows.search(picture.text) and BUSY not in picture.text):
                return picture
        return None


class Terminal:
    """Runs a program."""

    def __init__(self, command: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self._began = time.perf_counter()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ.update(environment or {})
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
            for name in ("COLUMNS", "LINES"):
                # Set by the terminal of the benchmark or by a test; programs prefer them to the size of the terminal.
                os.environ.pop(name, None)
            os.execvp(command[0], list(command))
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self._left = b""
        self.ended = False

    def press(
        self, keys: bytes, *, probe: bool = False, quiet_s: float = QUIET_S, limit_s: float = 120.0
    ) -> KeyResponse:
        """Press keys and wait until the program is at rest.

        Args:
            keys: The bytes to send; empty: only wait.
            probe: Request frames while the program works, to measure how long the screen is frozen.
            quiet_s: The time without a frame that counts as rest.
            limit_s: The maximum time to wait.
        """
        answer = KeyResponse()
        began, worked, used = time.perf_counter(), self._worked_s(), self._cpu_s()
        os.write(self._fd, keys)
        asked, latest, asleep = began if keys else None, began, 0
        while not self.ended and (now := time.perf_counter()) - began < limit_s:
            if select.select([self._fd], [], [], 0.004)[0]:
                asleep = 0
                for text in self._read():
                    latest = time.perf_counter()
                    answer.pictures.append(Frame(latest - began, self._worked_s() - worked, text))
                    if asked is not None:
                        answer.frozen_s = max(answer.frozen_s, latest - asked)
                        asked = None
                continue
            asleep = asleep + 1 if self._sleeps() else 0
            if asleep >= 5 and now - latest > quiet_s and (asked is None or now - latest > 1):
                break
            if probe and asked is None and asleep == 0 and now - latest > PROBE_AFTER_S:
                os.write(self._fd, PROBE)
                asked = time.perf_counter()
        answer.cpu_s = self._cpu_s() - used
        answer.rest_s = latest - began
        return answer

    def until(self, shows: re.Pattern[str], limit_s: float = 60.0) -> Frame:
        """Wait for a frame that matches a pattern; its time counts from the start of the program.

        Raises:
            TimeoutError: There was none, or the program has ended.
        """
        while not self.ended and time.perf_counter() - self._began < limit_s:
            if select.select([self._fd], [], [], 0.05)[0]:
                texts = self._read()
                now, worked = time.perf_counter() - self._began, self._worked_s()
                for text in (*texts, _ESCAPES.sub("", self._left.decode(errors="replace"))):
                    if shows.search(text):
                        return Frame(now, worked, text)
        raise TimeoutError(f"nothing was drawn that shows {shows.pattern}")

    def close(self) -> None:
        """End the program."""
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)
        os.close(self._fd)
        os.waitpid(self.pid, 0)

    def _read(self) -> list[str]:
        """The texts of the complete frames."""
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:  # on Linux: the program has ended
            data = b""
        if not data:
            self.ended = True
            return []
        if _ASKED in data:
            os.write(self._fd, _SAID)
        *whole, self._left = (self._left + data).split(_END)
        return [_ESCAPES.sub("", part.decode(errors="replace")) for part in whole]

    def _threads(self) -> list[Path]:
        try:
            return list(Path(f"/proc/{self.pid}/task").iterdir())
        except OSError:
            return []

    def _sleeps(self) -> bool:
        for thread in self._threads():
            try:
                state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:  # it has ended
                continue
            if state not in "SZ":
                return False
        return True

    def _cpu_s(self) -> float:
        try:
            values = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")

    def _worked_s(self) -> float:
        """Processor time of the main thread, which draws."""
        try:
            return int(Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text().split()[0]) / 1e9
        except (OSError, IndexError):
            return 0.0
