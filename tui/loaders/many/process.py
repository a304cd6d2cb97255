"""The other side of `tui.loaders.many.worker`: a process that is given files to read, one after the other."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from tui.loaders.many.worker import STOP, Answer, Order, Progress
from tui.loaders.own_process import command_of, end, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COMMAND: Final = command_of("tui.loaders.many.worker")


class WorkerLostError(Exception):
    """A process ended without an answer; the text says how."""


class Worker:
    """One process. One thread gives it files; any may stop or end it."""

    def __init__(self, cores: int, command: Sequence[str] = COMMAND) -> None:
        """Start it.

        Args:
            cores: How many it may use.
            command: What to run.

        Raises:
            OSError: It cannot be started, or has no folder to write to.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="proftui-read-"))
        self._number = 0
        try:
            self._process = subprocess.Popen(
                [*command, str(self._folder), str(cores)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment() | {"POLARS_MAX_THREADS": str(cores)},
            )
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def read(
        self, path: str, format_in: str | None, *, may_be_none: bool, report: Callable[[Progress], None]
    ) -> tuple[Answer, Path]:
        """Have it read a file.

        Args:
            path: The file.
            format_in: The name of the format to read it as, where that is not to be recognised.
            may_be_none: Whether it is passed over where it does not begin as a profile does.
            report: Told how far it has come.

        Returns:
            What it answered in the end, and the folder with the frames, which is there until it reads the next one.

        Raises:
            WorkerLostError: It ended before.
        """
        self._number += 1
        folder = self._folder / str(self._number)
        # What is in use of the one before is mapped, and stays.
        shutil.rmtree(self._folder / str(self._number - 1), ignore_errors=True)
        try:
            folder.mkdir(mode=0o700)
            self._say(msgspec.json.encode(Order(path, format_in, may_be_none, str(folder))))
            assert self._process.stdout is not None
            for line in self._process.stdout:
                answer = msgspec.json.decode(line, type=Answer)
                if not isinstance(answer, Progress):
                    return answer, folder
                report(answer)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise WorkerLostError(str(error)) from error
        raise WorkerLostError(self._how_it_ended())

    def _how_it_ended(self) -> str:
        status = self._process.wait()
        if status == -9:
            return "the process that read it was killed, as happens where the memory is used up"
        return f"the process that read it ended by {f'signal {-status}' if status < 0 else f'itself ({status})'}"

    def stop(self) -> None:
        """Let it keep what it has of the present file."""
        try:
            self._say(STOP)
        except (OSError, ValueError):
            return

    def _say(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """End it; who waits for its answer learns so."""
        self._process.kill()

    def close(self) -> None:
        """End it and take away what it left; nobody may be waiting for it."""
        end(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)
