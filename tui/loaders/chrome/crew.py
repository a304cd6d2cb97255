"""Decoding in processes of their own, so that two cores work and the screen stays quick."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from tui.loaders.chrome.decoding import Decoder
from tui.loaders.chrome.worker import RANGE, SIZE_BYTES, TEXT
from tui.loaders.own_process import command_of, end, environment

if TYPE_CHECKING:
    from tui.loaders.chrome.file_range import Range
    from tui.loaders.chrome.pieces import Piece
    from tui.loaders.chrome.trace import Arg

COMMAND: Final = command_of("tui.loaders.chrome.worker")
SILENCE_S: Final = 60.0
"""A worker that neither reads nor answers for so long does so no more; a piece takes it a tenth of a second."""
_KEEP_MEMORY: Final = {"MALLOC_TRIM_THRESHOLD_": str(1 << 28), "MALLOC_MMAP_THRESHOLD_": str(1 << 28)}
"""Tells the C library to use the memory of one piece again for the next, instead of giving it back in between."""
_MOST_WORKERS: Final = 4
_PIPE_PIECE: Final = 1 << 20


class WorkerLostError(Exception):
    """A worker died, or does not answer."""


class Worker:
    """One process. Any thread may use it, one at a time."""

    def __init__(self, args: Sequence[Arg], command: Sequence[str] = COMMAND, silence_s: float = SILENCE_S) -> None:
        """Start it.

        Raises:
            OSError: It cannot be started.
        """
        self._silence_s = silence_s
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=_KEEP_MEMORY | environment(),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._into, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._into, False)
        self._greeting: bytes | None = pickle.dumps(tuple(args))

    def decode(self, data: bytes | Range) -> Piece | None:
        """As `Decoder.decode`, of a text or of a part of a file.

        Raises:
            WorkerLostError: It is of no use any longer.
        """
        try:
            if self._greeting is not None:
                self._send(self._greeting)
                self._greeting = None
            kind, content = (TEXT, data) if isinstance(data, bytes) else (RANGE, pickle.dumps(data))
            self._send(content, kind)
            answer = self._receive(
                int.from_bytes(self._receive(SIZE_BYTES), "little"), at_most=64 * _size(data) + (1 << 20)
            )
            piece: Piece | None = pickle.loads(answer)
        except (OSError, EOFError, ValueError, LookupError, pickle.UnpicklingError) as error:
            raise WorkerLostError(str(error)) from error
        return piece

    def kill(self) -> None:
        """End it; who waits for its answer learns so."""
        self._process.kill()

    def close(self) -> None:
        """Give back what it took; nobody may be waiting for it."""
        end(self._process)

    def _send(self, data: bytes, kind: bytes = b"") -> None:
        left = memoryview(kind + len(data).to_bytes(SIZE_BYTES, "little") + data[: _PIPE_PIECE - SIZE_BYTES])
        rest = memoryview(data)[_PIPE_PIECE - SIZE_BYTES :]
        while left or rest:
            if not left:
                left, rest = rest, rest[:0]
            self._wait(self._into, to_write=True)
            left = left[os.write(self._into, left) :]

    def _receive(self, size: int, *, at_most: int = SIZE_BYTES) -> bytearray:
        if size > at_most:
            raise EOFError("an answer of no possible size")
        data = bytearray()
        while len(data) < size:
            self._wait(self._out, to_write=False)
            part = os.read(self._out, min(size - len(data), _PIPE_PIECE))
            if not part:
                raise EOFError
            data += part
        return data

    def _wait(self, fd: int, *, to_write: bool) -> None:
        poll = select.poll()
        poll.register(fd, select.POLLOUT if to_write else select.POLLIN)
        if not poll.poll(1000 * self._silence_s):
            raise EOFError("no answer")


def _size(data: bytes | Range) -> int:
    return len(data) if isinstance(data, bytes) else data.end - data.begin


class Crew:
    """Several workers. What one of them leaves undone is done here."""

    def __init__(
        self,
        args: Sequence[Arg],
        count: int,
        *,
        command: Sequence[str] = COMMAND,
        silence_s: float = SILENCE_S,
    ) -> None:
        self.size = count
        self._args = args
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="decode")
        self._free: SimpleQueue[Worker] = SimpleQueue()
        self.workers: list[Worker] = []
        for _ in range(count):
            try:
                worker = Worker(args, command, silence_s)
            except OSError:  # no more processes: the work is done here
                break
            self.workers.append(worker)
            self._free.put(worker)

    def decode(self, data: bytes | Range) -> Future[Piece | None]:
        """What `Decoder.decode` makes of a text or of a part of a file, later."""
        return self._threads.submit(self._decode, data)

    def _decode(self, data: bytes | Range) -> Piece | None:
        try:
            worker = self._free.get_nowait()
        except Empty:
            return self._decoded_here(data)
        try:
            piece = worker.decode(data)
        except WorkerLostError:
            return self._decoded_here(data)
        self._free.put(worker)
        return piece

    def _decoded_here(self, data: bytes | Range) -> Piece | None:
        try:
            return Decoder(self._args).decode(data if isinstance(data, bytes) else data.read())
        except OSError:  # the file is another one now
            return None

    def close(self) -> None:
        """End all processes and threads, whatever they are doing."""
        for worker in self.workers:
            worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self.workers:
            worker.close()


_SHARE: Final[list[int]] = []
"""How many cores this process may use, where it was told."""


def share_cores(cores: int) -> None:
    """Let this process use so many cores alone: others read other files at the same time."""
    _SHARE[:] = [cores]


def most_workers() -> int:
    """Processes that leave the screen room on a machine of many cores, and use both of one that has two.

    None where others read other files at the same time and there is one core for this one.
    """
    if _SHARE:
        return min(_SHARE[0], _MOST_WORKERS) if _SHARE[0] > 1 else 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _MOST_WORKERS))
