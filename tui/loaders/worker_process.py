"""Worker processes: functions of this program, or other programs, that end at the latest when this process ends.

`WorkerProcess` runs a function: it starts ``python -m tui.loaders.worker_process MODULE:FUNCTION``. The function is
called with a `Channel` and exchanges pickled messages with this process. The process ends when the function returns. A
message is the size of the pickled object, the number of its buffers and the size of each, in eight bytes each; then the
object and the buffers. Arrays travel as buffers, which the receiver uses without a copy.

`running_program` runs another program: it starts ``python -I worker_process.py --program PROGRAM ARGUMENT...``, which
ends the program's process group when its standard input, a pipe from this process, is closed.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import pickle
import re
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ROOT: Final = Path(__file__).parents[2]
_SIZE_BYTES: Final = 8
_PIPE_BYTES: Final = 1 << 20
"""The most that is written or read in one call; pipes get this size where the system allows it."""
_MAX_BUFFERS: Final = 1 << 16
_BUFFERS_PER_CALL: Final = 256
"""Buffers that one system call fills."""
_MAX_ANSWER_BYTES: Final = 1 << 32
_NICENESS: Final = 5
"""Lower priority than the user interface."""
_EXIT_S: Final = 5.0
"""The longest time to wait for the exit of a process that closed its end of the pipe."""
_TERMINATE_S: Final = 2.0
"""The time between SIGTERM and SIGKILL."""
_PROGRAM: Final = "--program"
_NOT_FOUND_STATUS: Final = 127


class WorkerLostError(Exception):
    """The process died or does not answer; the message describes how."""


def worker_command() -> tuple[str, ...]:
    """Return the command that runs this module.

    Without ``-P`` Python would search modules in the working directory first, which may belong to another user.
    """
    return sys.executable, "-P", "-m", "tui.loaders.worker_process"


@dataclass(frozen=True, slots=True)
class FileRange:
    """A part of a file, which another process reads itself; the file may have been replaced since."""

    path: str
    device: int
    inode: int
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin

    def read(self) -> bytes:
        """Return its bytes; fewer if the file has become shorter.

        Raises:
            OSError: The file is missing or was replaced.
        """
        file = self.open()
        try:
            return os.pread(file, len(self), self.begin)
        finally:
            os.close(file)

    def open(self) -> int:
        """Return a file descriptor open for reading; the caller closes it.

        Raises:
            OSError: The file is missing or was replaced.
        """
        file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(file)
        if (status.st_dev, status.st_ino) == (self.device, self.inode):
            return file
        os.close(file)
        raise FileNotFoundError(self.path)


_CGROUP: Final = Path("/sys/fs/cgroup")
_DEFAULT_FREE_BYTES: Final = 8 << 30
_FREE_MEMORY_DIVISOR: Final = 2
"""Loading takes at most this fraction of the free memory; the frames need the rest."""
MEMORY_VARIABLE: Final = "PROFTUI_MEMORY"
"""The environment variable with the memory that worker processes may take together, such as ``4G`` or ``800M``."""
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE: Final = re.compile(r"([0-9]{1,15})\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)


def memory_for_loading() -> int:
    """Return bytes of memory for all worker processes: by `MEMORY_VARIABLE`, otherwise half of the free memory."""
    configured = _SIZE.fullmatch(os.environ.get(MEMORY_VARIABLE, "").strip())
    if configured is not None:
        return int(configured[1]) * _UNITS[configured[2].upper()]
    free = [free_bytes for free_bytes in (_free_of_machine(), _free_of_group()) if free_bytes is not None]
    return min(free, default=_DEFAULT_FREE_BYTES) // _FREE_MEMORY_DIVISOR


def _free_of_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), None)


def _free_of_group() -> int | None:
    """Return the free memory within the limit of a container."""
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        return max(0, limit - int((_CGROUP / "memory.current").read_text()))
    except (OSError, ValueError):
        return None


class WorkerProcess:
    """A function in a worker process. One thread receives; any thread may send, kill or close."""

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
            function: The function to run, as ``module:function``.
            command: The command that runs this module; tests replace it.
            env: Environment variables to set.
            timeout_s: After this time without a read or a write the process counts as lost; None: wait until it ends.

        Raises:
            OSError: The process cannot be started.
        """
        self._timeout_s = timeout_s
        self._sending = threading.Lock()
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
        for pipe in (self._input, self._output):
            _widen(pipe)

    def send(self, message: object) -> None:
        """Send a message.

        Raises:
            WorkerLostError: The process has ended or does not read.
        """
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        head = _head(len(data), 0)
        with self._sending:
            try:
                for part in (memoryview(head + data[:_PIPE_BYTES]), memoryview(data)[_PIPE_BYTES:]):
                    while part:
                        self._wait(self._input, select.POLLOUT)
                        part = part[os.write(self._input, part[:_PIPE_BYTES]) :]
            except (OSError, ValueError) as error:
                raise WorkerLostError(self._exit_reason()) from error

    def receive(self, *, max_bytes: int = _MAX_ANSWER_BYTES) -> Any:
        """Return the next message of the process.

        Args:
            max_bytes: The maximum size of a message in bytes.

        Raises:
            WorkerLostError: The process has ended or does not answer, or the message is damaged.
        """
        try:
            size, count = self._numbers(2)
            if size > max_bytes or count > _MAX_BUFFERS:
                raise WorkerLostError(f"a message of {size:,} bytes exceeds the limit of {max_bytes:,}")
            sizes = self._numbers(count)
            if size + sum(sizes) > max_bytes:
                raise WorkerLostError(f"a message of {size + sum(sizes):,} bytes exceeds the limit of {max_bytes:,}")
            data, *buffers = parts = [bytearray(size) for size in (size, *sizes)]
            self._fill(parts)
            return pickle.loads(data, buffers=buffers)
        except (OSError, ValueError, LookupError, pickle.UnpicklingError) as error:
            raise WorkerLostError(str(error)) from error
        except EOFError as error:
            raise WorkerLostError(self._exit_reason()) from error

    def kill(self) -> None:
        """Kill the process; `receive` raises `WorkerLostError`."""
        self.process.kill()

    def close(self) -> None:
        """Kill the process and close its pipes; no thread may be in `receive`."""
        self.process.kill()
        self.process.wait()
        with self._sending:  # another thread must not write to the file that gets this descriptor next
            self._input = -1
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                # Flushing buffered output to a dead process fails.
                with suppress(OSError):
                    stream.close()

    def _numbers(self, count: int) -> list[int]:
        data = bytearray(_SIZE_BYTES * count)
        self._fill([data])
        return _numbers(data)

    def _fill(self, parts: Sequence[bytearray]) -> None:
        """Fill these buffers, one after the other."""
        left = [memoryview(part) for part in parts if part]
        left.reverse()
        while left:
            self._wait(self._output, select.POLLIN)
            size = os.readv(self._output, left[: -_BUFFERS_PER_CALL - 1 : -1])
            if not size:
                raise EOFError
            while left and size >= len(left[-1]):
                size -= len(left.pop())
            if size:
                left[-1] = left[-1][size:]

    def _wait(self, descriptor: int, event: int) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(None if self._timeout_s is None else 1000 * self._timeout_s):
            raise WorkerLostError(f"no answer for {self._timeout_s:g} s")

    def _exit_reason(self) -> str:
        try:
            status = self.process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            return "the worker process does not answer"
        if status == -signal.SIGKILL:
            return "the worker process was killed, probably because memory ran out"
        return f"the worker process ended {f'with signal {-status}' if status < 0 else f'with exit status {status}'}"


def _head(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(_SIZE_BYTES, "little") for number in numbers)


def _numbers(data: bytes | bytearray) -> list[int]:
    return [
        int.from_bytes(data[offset : offset + _SIZE_BYTES], "little") for offset in range(0, len(data), _SIZE_BYTES)
    ]


def _widen(pipe: int) -> None:
    """Enlarge the buffer of a pipe, to reduce the number of waits."""
    with suppress(OSError, AttributeError):  # not on Linux, or the user has many wide pipes
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


class Channel:
    """The worker's end of the connection: it receives messages and sends answers."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    def receive(self) -> Any:
        """Return the next message.

        Raises:
            EOFError: The parent process has ended or closed the connection.
        """
        size, count = _numbers(self._read(2 * _SIZE_BYTES))
        sizes = _numbers(self._read(_SIZE_BYTES * count))
        data, *buffers = [self._read(size) for size in (size, *sizes)]
        return pickle.loads(data, buffers=buffers)

    def send(self, message: object) -> None:
        """Send an answer.

        Raises:
            OSError: The parent process has ended.
        """
        buffers: list[pickle.PickleBuffer] = []
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
        raw = [buffer.raw() for buffer in buffers]
        self._outgoing.write(_head(len(data), len(raw), *(len(buffer) for buffer in raw)) + data)
        for buffer in raw:
            self._outgoing.write(buffer)
        self._outgoing.flush()

    def _read(self, size: int) -> bytes:
        data = self._incoming.read(size)
        if len(data) < size:
            raise EOFError
        return data


@contextmanager
def running_program(command: Sequence[str], *, cwd: Path, output: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Run another program; on leaving the context, end it and every process that it started.

    Args:
        command: The program and its arguments.
        cwd: Its working directory.
        output: The file for its standard output and standard error.

    Raises:
        OSError: The process cannot be started.
    """
    with subprocess.Popen(
        [sys.executable, "-I", __file__, _PROGRAM, *command],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs, with all processes of its group."""
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TERMINATE_S)
            return


def _run_program(command: Sequence[str]) -> int:
    """Run the program in the process that `running_program` starts, and return its exit status."""
    # SIGTERM is sent to the process group: this process stays, to send SIGKILL if the program does not end.
    signal.signal(signal.SIGTERM, lambda *_: None)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        # The child resets Python's signal handlers.
        return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    except OSError as error:
        print(error.strerror, file=sys.stderr)
        return _NOT_FOUND_STATUS


def _end_with_parent() -> None:
    """Wait until the parent closes the pipe, which it also does when it is killed; then end the process group."""
    with suppress(OSError):
        while os.read(0, 1):
            pass
    os.killpg(0, signal.SIGTERM)
    time.sleep(_TERMINATE_S)
    os.killpg(0, signal.SIGKILL)


def main() -> int:
    """Run the function or the program that the command line names."""
    if sys.argv[1] == _PROGRAM:
        return _run_program(sys.argv[2:])
    # Not above: as a program of its own, this file finds no other module.
    from tui.runtime import configure_numpy

    os.nice(_NICENESS)
    configure_numpy()
    # The parent decides when this process ends, also after Ctrl+C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    module, _, function = sys.argv[1].partition(":")
    outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # print() must not write between the messages
    serve = getattr(importlib.import_module(module), function)
    with suppress(EOFError):
        serve(Channel(sys.stdin.buffer, outgoing))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
