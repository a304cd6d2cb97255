"""Decoding in worker processes, so that several cores decode and the screen stays responsive."""

from __future__ import annotations

import gc
import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from tui.loaders.chrome_trace.decoder import Decoder
from tui.loaders.worker_process import WorkerLostError, WorkerProcess, available_cores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.chrome_trace.event_batches import Arg, EventBatch
    from tui.loaders.worker_process import Channel

TIMEOUT_S: Final = 60.0
"""A process that does not answer for so long is lost; a block takes it a tenth of a second."""
_KEEP_MEMORY: Final = {"MALLOC_TRIM_THRESHOLD_": str(1 << 28), "MALLOC_MMAP_THRESHOLD_": str(1 << 28)}
"""Tells the C library to reuse the memory of one block for the next, instead of giving it back in between."""
_MOST_WORKERS: Final = 4


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
        """Its bytes; fewer where the file has become shorter.

        Raises:
            OSError: The file is gone, or another one.
        """
        file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = os.fstat(file)
            if (status.st_dev, status.st_ino) != (self.device, self.inode):
                raise FileNotFoundError(self.path)
            return os.pread(file, len(self), self.begin)
        finally:
            os.close(file)


def serve(channel: Channel) -> None:
    """Decode for another process: the wanted arguments come first, then texts or `FileRange`s; answer with batches."""
    gc.disable()  # decoding makes no cycles, but millions of objects
    decoder = Decoder(channel.receive())
    while True:
        data = channel.receive()
        channel.send(decoder.decode(data.read() if isinstance(data, FileRange) else data))
        del data


class DecoderProcess:
    """One worker process. Any thread may use it, one at a time."""

    def __init__(self, args: Sequence[Arg], command: Sequence[str] | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """Start it.

        Raises:
            OSError: It cannot be started.
        """
        self.process = WorkerProcess(f"{__name__}:serve", command=command, env=_KEEP_MEMORY, timeout_s=timeout_s)
        self._args: Sequence[Arg] | None = tuple(args)

    def decode(self, data: bytes | FileRange) -> EventBatch | None:
        """As `Decoder.decode`, of a text or of a part of a file.

        Raises:
            WorkerLostError: The process is of no use any longer.
        """
        if self._args is not None:
            self.process.send(self._args)
            self._args = None
        self.process.send(data)
        batch: EventBatch | None = self.process.receive(at_most=64 * len(data) + (1 << 20))
        return batch


class DecoderPool:
    """Several worker processes. What one of them leaves undone is done here."""

    def __init__(
        self,
        args: Sequence[Arg],
        count: int,
        *,
        command: Sequence[str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.size = count
        self._args = args
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="decode")
        self._free: SimpleQueue[DecoderProcess] = SimpleQueue()
        self.workers: list[DecoderProcess] = []
        for _ in range(count):
            try:
                worker = DecoderProcess(args, command, timeout_s)
            except OSError:  # no more processes: the work is done here
                break
            self.workers.append(worker)
            self._free.put(worker)

    def decode(self, data: bytes | FileRange) -> Future[EventBatch | None]:
        """What `Decoder.decode` makes of a text or of a part of a file, later."""
        return self._threads.submit(self._decode, data)

    def _decode(self, data: bytes | FileRange) -> EventBatch | None:
        try:
            worker = self._free.get_nowait()
        except Empty:
            return self._decoded_here(data)
        try:
            batch = worker.decode(data)
        except WorkerLostError:
            return self._decoded_here(data)
        self._free.put(worker)
        return batch

    def _decoded_here(self, data: bytes | FileRange) -> EventBatch | None:
        try:
            return Decoder(self._args).decode(data if isinstance(data, bytes) else data.read())
        except OSError:  # the file is another one now
            return None

    def close(self) -> None:
        """End all processes and threads, whatever they are doing."""
        for worker in self.workers:
            worker.process.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self.workers:
            worker.process.close()


_SHARE: Final[list[int]] = []
"""How many cores this process may use, where it was told."""


def share_cores(cores: int) -> None:
    """Let this process use so many cores alone: others read other files at the same time."""
    _SHARE[:] = [cores]


def most_workers() -> int:
    """How many worker processes to start: as many as there are cores, up to a limit.

    0 where other processes read other files at the same time and there is one core for this one.
    """
    if _SHARE:
        return min(_SHARE[0], _MOST_WORKERS) if _SHARE[0] > 1 else 0
    return max(1, min(available_cores(), _MOST_WORKERS))
