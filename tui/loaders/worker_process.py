"""Worker processes: a function of this program runs in a process of its own and exchanges pickled messages with it.

`WorkerProcess` is the side of the program: it starts ``python -m tui.loaders.worker_process MODULE:FUNCTION``. The
function is called with a `Channel`, and the process ends when the function returns, at the latest when the program
ends. A message is its size in eight bytes, followed by the pickled object.
"""

from __future__ import annotations

import importlib
import os
import pickle
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ROOT: Final = Path(__file__).parents[2]
_SIZE_BYTES: Final = 8
_PIPE_BYTES: Final = 1 << 20
"""At most so much is written or read at once."""
_MAX_ANSWER_BYTES: Final = 1 << 32
_NICENESS: Final = 5
"""Lower priority than the screen."""
_EXIT_S: Final = 5.0
"""A process that closed its end of the pipe has so long to exit."""


class WorkerLostError(Exception):
    """The process died or does not answer; the text says how."""


def worker_command() -> tuple[str, ...]:
    """The command that runs this module.

    Without ``-P`` Python would look for modules in the working directory first, which may be anybody's.
    """
    return sys.executable, "-P", "-m", "tui.loaders.worker_process"


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class WorkerProcess:
    """The program's side of a worker process. One thread receives; any thread may send, kill or close."""

    def __init__(
        self,
        function: str,
        *,
        command: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Start the process.

        Args:
            function: What it runs, as ``module:function``.
            command: What runs this module; tests give another one.
            env: Environment variables to set.
            timeout_s: A process that neither reads nor writes for so long is lost; None: wait for as long as it lives.

        Raises:
            OSError: The process cannot be started.
        """
        self._timeout_s = timeout_s
        self._sending = Lock()
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [*(command or worker_command()), function],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | dict(env or {}),
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input, self._output = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self._input, False)

    def send(self, message: object) -> None:
        """Send a message.

        Raises:
            WorkerLostError: The process no longer reads.
        """
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        head = len(data).to_bytes(_SIZE_BYTES, "little")
        with self._sending:
            try:
                for part in (memoryview(head + data[:_PIPE_BYTES]), memoryview(data)[_PIPE_BYTES:]):
                    while part:
                        self._wait(self._input, select.POLLOUT)
                        part = part[os.write(self._input, part[:_PIPE_BYTES]) :]
            except (OSError, ValueError) as error:
                raise WorkerLostError(self._how_it_ended()) from error

    def receive(self, *, at_most: int = _MAX_ANSWER_BYTES) -> Any:
        """The next message of the process.

        Args:
            at_most: The size in bytes that a message can have.

        Raises:
            WorkerLostError: There is none, or it is damaged.
        """
        try:
            size = int.from_bytes(self._read(_SIZE_BYTES), "little")
            if size > at_most:
                raise WorkerLostError("a message of an impossible size")
            return pickle.loads(self._read(size))
        except (OSError, ValueError, LookupError, pickle.UnpicklingError) as error:
            raise WorkerLostError(str(error)) from error
        except EOFError as error:
            raise WorkerLostError(self._how_it_ended()) from error

    def kill(self) -> None:
        """End the process; whoever waits for its answer gets a `WorkerLostError`."""
        self.process.kill()

    def close(self) -> None:
        """End the process and close its pipes; nobody may be waiting for it."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                # What was not sent yet has nowhere to go.
                with suppress(OSError):
                    stream.close()

    def _read(self, size: int) -> bytearray:
        data = bytearray()
        while len(data) < size:
            self._wait(self._output, select.POLLIN)
            part = os.read(self._output, min(size - len(data), _PIPE_BYTES))
            if not part:
                raise EOFError
            data += part
        return data

    def _wait(self, descriptor: int, event: int) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(None if self._timeout_s is None else 1000 * self._timeout_s):
            raise WorkerLostError(f"no answer for {self._timeout_s:g} s")

    def _how_it_ended(self) -> str:
        try:
            status = self.process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            return "the worker process no longer answers"
        if status == -signal.SIGKILL:
            return "the worker process was killed, as happens when memory is used up"
        return f"the worker process ended {f'by signal {-status}' if status < 0 else f'with exit status {status}'}"


class Channel:
    """The worker's side: messages from the program, and answers to it."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    def receive(self) -> Any:
        """The next message.

        Raises:
            EOFError: The program has ended, or wants no more.
        """
        size = int.from_bytes(self._read(_SIZE_BYTES), "little")
        return pickle.loads(self._read(size))

    def send(self, message: object) -> None:
        """Answer.

        Raises:
            OSError: The program has ended.
        """
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self._outgoing.write(len(data).to_bytes(_SIZE_BYTES, "little"))
        self._outgoing.write(data)
        self._outgoing.flush()

    def _read(self, size: int) -> bytes:
        data = self._incoming.read(size)
        if len(data) < size:
            raise EOFError
        return data


def main() -> None:
    """Run the function that is named on the command line."""
    os.nice(_NICENESS)
    # The program ends this process, when and as it wants.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    module, _, function = sys.argv[1].partition(":")
    outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else may come between the messages
    serve = getattr(importlib.import_module(module), function)
    with suppress(EOFError):
        serve(Channel(sys.stdin.buffer, outgoing))


if __name__ == "__main__":
    main()
