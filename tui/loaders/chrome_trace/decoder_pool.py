"""Decoding in worker processes, so that several cores decode and the screen stays responsive."""

from __future__ import annotations

import gc
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from tui.loaders.chrome_trace.decoder import Decoder
from tui.loaders.chrome_trace.event_batches import PackedBatch, Packer
from tui.loaders.worker_process import (
    FileRange,
    WorkerLostError,
    WorkerProcess,
    available_cores,
    memory_for_loading,
    shared_cores,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tui.loaders.chrome_trace.event_batches import Arg, EventBatch, Split
    from tui.loaders.worker_process import Channel

TIMEOUT_S: Final = 60.0
"""A process that does not answer for so long is lost; a block takes it a tenth of a second."""
_KEEP_MEMORY: Final = {"MALLOC_TRIM_THRESHOLD_": str(1 << 28), "MALLOC_MMAP_THRESHOLD_": str(1 << 28)}
"""Tells the C library to reuse the memory of one block for the next, instead of giving it back in between."""
_WORKER_BYTES: Final = 128 << 20
"""What a process takes at most, with the block that it decodes and its answer."""
_FEW_CORES: Final = 4
_PAYS_BYTES: Final = 16 << 20
"""So much text has to be there for another process to be worth its start."""


@dataclass(frozen=True, slots=True)
class Task:
    """What worker processes make of events."""

    args: Sequence[Arg]
    """Which arguments become columns."""
    split: Split | None = None
    flow_categories: Collection[str] | None = None
    """The arrows that are wanted; None for all."""


class Decoding:
    """Decodes texts to packed batches, in this process."""

    def __init__(self, task: Task) -> None:
        self._decoder = Decoder(task.args)
        self._packer = Packer(task.args, task.split, task.flow_categories)

    def decode(self, data: bytes) -> PackedBatch | None:
        """What `Decoder.decode` makes of a text, packed."""
        batch = self._decoder.decode(data)
        return None if batch is None else self._packer.pack(batch)

    def pack(self, batch: EventBatch) -> PackedBatch:
        """Pack a batch that was made otherwise."""
        return self._packer.pack(batch)


def serve(channel: Channel) -> None:
    """Decode for another process: its `Task` comes first, then texts or `FileRange`s; answer with packed batches."""
    gc.disable()  # decoding makes no cycles, but millions of objects
    decoding = Decoding(channel.receive())
    while True:
        data = channel.receive()
        channel.send(decoding.decode(data.read() if isinstance(data, FileRange) else data))
        del data


class DecoderProcess:
    """One worker process. Any thread may use it, one at a time."""

    def __init__(self, task: Task, command: Sequence[str] | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """Start it.

        Raises:
            OSError: It cannot be started.
        """
        self.process = WorkerProcess(f"{__name__}:serve", command=command, env=_KEEP_MEMORY, timeout_s=timeout_s)
        self._task: Task | None = task

    def decode(self, data: bytes | FileRange) -> PackedBatch | None:
        """As `Decoding.decode`, of a text or of a part of a file.

        Raises:
            WorkerLostError: The process is of no use any longer.
        """
        if self._task is not None:
            self.process.send(self._task)
            self._task = None
        self.process.send(data)
        batch: PackedBatch | None = self.process.receive(at_most=64 * len(data) + (1 << 20))
        return batch


Answer = tuple[PackedBatch | None, object]
"""What was decoded, and who packed it."""


class DecoderPool:
    """Several worker processes. What one of them leaves undone is done here."""

    def __init__(
        self,
        task: Task,
        count: int,
        *,
        command: Sequence[str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.size = count
        self._task = task
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="decode")
        self._free: SimpleQueue[DecoderProcess] = SimpleQueue()
        self.workers: list[DecoderProcess] = []
        for _ in range(count):
            try:
                worker = DecoderProcess(task, command, timeout_s)
            except OSError:  # no more processes: the work is done here
                break
            self.workers.append(worker)
            self._free.put(worker)

    def decode(self, data: bytes | FileRange) -> Future[Answer]:
        """What `Decoding.decode` makes of a text or of a part of a file, later, and who did it."""
        return self._threads.submit(self._decode, data)

    def _decode(self, data: bytes | FileRange) -> Answer:
        try:
            worker = self._free.get_nowait()
        except Empty:
            return self._decoded_here(data)
        try:
            batch = worker.decode(data)
        except WorkerLostError:
            return self._decoded_here(data)
        self._free.put(worker)
        return batch, worker

    def _decoded_here(self, data: bytes | FileRange) -> Answer:
        decoding = Decoding(self._task)
        try:
            return decoding.decode(data if isinstance(data, bytes) else data.read()), decoding
        except OSError:  # the file is another one now
            return None, decoding

    def close(self) -> None:
        """End all processes and threads, whatever they are doing."""
        for worker in self.workers:
            worker.process.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self.workers:
            worker.process.close()


def most_workers(size: int | None) -> int:
    """How many worker processes to start for a text: as many as there are cores and memory, and work for.

    Args:
        size: About so many bytes of text are left; None where that is not known.

    Returns:
        0 where other processes read other files at the same time and there is one core for this one.
    """
    shared = shared_cores()
    if shared is not None and shared <= 1:
        return 0
    cores = shared or available_cores()
    # This process assembles what they decode.
    wanted = cores if cores <= _FEW_CORES else cores - 1
    enough = wanted if size is None else 1 + size // _PAYS_BYTES
    return max(1, min(wanted, enough, memory_for_loading() // _WORKER_BYTES))
