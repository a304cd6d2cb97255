"""Reads several files in parallel, as many as cores and free memory allow."""

from __future__ import annotations

import os
import stat
import threading
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.cache.secure_files import DamagedError
from tui.loaders.base import DONE, READING, SKIPPED, STOPPED, WAITING, FileProgress, LoadProgress
from tui.loaders.input_file import detect_compression
from tui.loaders.multi_file.reader_process import Done, Failed, ReaderProcess, unpack
from tui.loaders.raw_input import STANDARD_INPUT
from tui.loaders.worker_process import WorkerLostError, memory_for_loading
from tui.model.errors import ProftuiError, path_text
from tui.runtime import available_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui.loaders.base import ProfileCache, ProgressCallback
    from tui.loaders.multi_file.reader_process import Progress
    from tui.model.profile import Profile


_JSON_COMPRESSION_RATIO: Final = 12
"""The compression ratio of JSON traces; text and databases compress less."""
_BASE_BYTES: Final = 200 << 20
"""The memory of a process with the libraries loaded."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The estimated cost of reading a file."""

    size: int
    """Size on disk."""
    unpacked: int
    """Estimated size when decompressed."""
    is_file: bool
    """Whether another process can open it from the beginning."""

    @property
    def memory(self) -> int:
        """Estimated memory while a process reads it."""
        return self.unpacked + _BASE_BYTES


def estimate_cost(path: str) -> Cost:
    """Estimate the cost of a file; zero if it cannot be inspected."""
    try:
        status = os.stat(path)  # noqa: PTH116 (a name may be no valid text)
        if not stat.S_ISREG(status.st_mode):
            # A pipe can be read only once; a folder that is one profile has its own loader.
            return Cost(0, 0, is_file=False)
        with open(path, "rb") as file:  # noqa: PTH123
            packed = detect_compression(file.read(8)) is not None
    except (OSError, ValueError):
        return Cost(0, 0, is_file=False)
    # A name that is no valid text cannot be sent to another process.
    return Cost(
        status.st_size, status.st_size * (_JSON_COMPRESSION_RATIO if packed else 1), is_file=path_text(path) == path
    )


MIN_WORKER_BYTES: Final = 48 << 20
"""A worker process pays off from this much decompressed data."""

STOP_TIMEOUT_S: Final = 20.0
"""The longest time for a stopped process to return its partial profile."""

_POLL_INTERVAL_S: Final = 0.05
_MAX_PROCESSES: Final = 64


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file to read."""

    path: str
    may_be_none: bool = False
    """Whether it is skipped if it does not begin like a profile."""


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """The outcome of a file: a profile, an error, or neither if it holds no profile or was not read."""

    profile: Profile | None = None
    error: ProftuiError | None = None
    was_stopped: bool = False
    """It was waiting when loading was stopped."""


class _NoProfileError(Exception):
    """The file is skipped."""


def read_files(
    files: Sequence[WantedFile],
    read_file: Callable[[WantedFile, ProgressCallback], Profile | None],
    *,
    format_in: str | None,
    on_progress: ProgressCallback,
    cache: ProfileCache | None,
) -> list[FileOutcome]:
    """Read files, in worker processes if that is faster.

    Args:
        files: The files.
        read_file: Reads a file in this process; returns None if it is skipped.
        format_in: The name of the format, if the user chose it.
        on_progress: Gets the progress of each file; if it returns False, loading stops and the profile is partial.
        cache: The cache of profiles.

    Returns:
        The outcome of each, in their order.
    """
    if len(files) == 1:
        return [_outcome(files[0].path, lambda: read_file(files[0], on_progress), format_in, cache)]
    return _ParallelReader(files, read_file, format_in, on_progress, cache).outcomes()


def _outcome(
    path: str, load: Callable[[], Profile | None], format_in: str | None, cache: ProfileCache | None
) -> FileOutcome:
    """Return the outcome of a file, read or from the cache."""

    def profile() -> Profile:
        loaded = load()
        if loaded is None:
            raise _NoProfileError
        return loaded

    try:
        if cache is None or path == STANDARD_INPUT:
            return FileOutcome(profile())
        return FileOutcome(cache.profile(path, format_in, profile))
    except ProftuiError as error:
        return FileOutcome(error=error)
    except _NoProfileError:
        return FileOutcome()


@dataclass(slots=True)
class _State:
    """The state shared by the threads; guarded by the lock."""

    files: list[FileProgress]
    outcomes: list[FileOutcome | None]
    rows: list[int]
    memory_in_use: int = 0
    """The memory that files being read may use, in bytes."""
    reading: int = 0
    next_index: int = 0
    stopped: bool = False
    workers: set[ReaderProcess] = field(default_factory=set)


class _ReadingThread(threading.local):
    """What each reading thread has of its own."""

    worker: ReaderProcess | None = None


class _ParallelReader:
    """Reads several files; each thread reads one file at a time, in a process of its own or in this one."""

    def __init__(
        self,
        wanted: Sequence[WantedFile],
        read_file: Callable[[WantedFile, ProgressCallback], Profile | None],
        format_in: str | None,
        on_progress: ProgressCallback,
        cache: ProfileCache | None,
    ) -> None:
        self._files, self._read_file, self._format_in, self._cache = wanted, read_file, format_in, cache
        self._on_progress = on_progress
        folders = {os.path.dirname(file.path) for file in wanted}  # noqa: PTH120 (as it was given)
        self._called = folders.pop() if len(folders) == 1 else wanted[0].path
        self._costs: list[Cost] = [estimate_cost(file.path) for file in wanted]
        self._free_bytes = memory_for_loading()
        self._threads = min(available_cores(), len(wanted), _MAX_PROCESSES)
        files = [FileProgress(file.path, cost.size) for file, cost in zip(wanted, self._costs, strict=True)]
        self._state = _State(files, [None] * len(files), [0] * len(files))
        self._changed = threading.Condition()
        self._local_lock = threading.Lock()
        """Guards reading in this process: two files at once take longer than one after the other."""
        self._unpacking = threading.Lock()
        self._thread = _ReadingThread()

    def outcomes(self) -> list[FileOutcome]:
        """Read them all."""
        threads = [threading.Thread(target=self._work, name="read", daemon=True) for _ in range(self._threads)]
        for thread in threads:
            thread.start()
        deadline: float | None = None
        try:
            while any(thread.is_alive() for thread in threads):
                if not self._report_progress() and deadline is None:
                    deadline = time.monotonic() + STOP_TIMEOUT_S
                    self._stop()
                if deadline is not None and time.monotonic() > deadline:
                    self._kill()
                with self._changed:
                    self._changed.wait(_POLL_INTERVAL_S)
        except BaseException:
            self._stop()
            self._kill()
            raise
        self._report_progress()
        return [outcome if outcome is not None else FileOutcome(was_stopped=True) for outcome in self._state.outcomes]

    # --- in the caller's thread ---------------------------------------------------------------------------------------

    def _report_progress(self) -> bool:
        with self._changed:
            files, rows = tuple(self._state.files), sum(self._state.rows)
        done = sum(file.bytes_total if file.state in (DONE, SKIPPED) else file.bytes_read for file in files)
        return self._on_progress(
            LoadProgress(self._called, done, sum(file.bytes_total for file in files), rows, files=files)
        )

    def _stop(self) -> None:
        """Take no further files; have the worker processes return what they have read."""
        with self._changed:
            self._state.stopped = True
            self._state.files = [
                replace(file, state=STOPPED) if file.state == WAITING else file for file in self._state.files
            ]
            workers = tuple(self._state.workers)
            self._changed.notify_all()
        for worker in workers:
            worker.stop()

    def _kill(self) -> None:
        with self._changed:
            workers = tuple(self._state.workers)
        for worker in workers:
            worker.kill()

    # --- in the reading threads, each with at most one process --------------------------------------------------------

    def _work(self) -> None:
        """Read one file after the other until none is left."""
        try:
            while (index := self._take()) is not None:
                path = self._files[index].path
                try:
                    outcome = _outcome(path, partial(self._load, index), self._format_in, self._cache)
                except (Exception, pl.exceptions.PanicException) as error:  # one file must not stop the others
                    outcome = FileOutcome(error=ProftuiError(f"{path}: cannot be read ({error!r})"))
                self._finish(index, outcome)
        finally:
            self._discard_worker()

    def _take(self) -> int | None:
        """Wait for memory and take the next file; None if there is none."""
        with self._changed:
            while True:
                state = self._state
                if state.stopped or state.next_index == len(self._files):
                    return None
                memory = self._costs[state.next_index].memory
                if not state.reading or state.memory_in_use + memory <= self._free_bytes:
                    break
                self._changed.wait()
            index = state.next_index
            state.next_index += 1
            state.reading += 1
            state.memory_in_use += memory
            state.files[index] = replace(state.files[index], state=READING)
            return index

    def _finish(self, index: int, outcome: FileOutcome) -> None:
        """Store the outcome of a file, and free its memory for the next."""
        profile = outcome.profile
        rank = None if profile is None else profile["sessions"]["rank"].max()
        with self._changed:
            state, file = self._state, self._state.files[index]
            if outcome.error is not None and state.stopped:
                # The part that was read is no profile; the file itself may be one.
                outcome = FileOutcome(was_stopped=True)
            state.outcomes[index] = outcome
            state.reading -= 1
            state.memory_in_use -= self._costs[index].memory
            reason = (
                "contains no profile" if outcome.error is None else str(outcome.error).removeprefix(f"{file.path}: ")
            )
            if profile is not None:
                read = file.bytes_read if profile.partial else file.bytes_total
                file = replace(file, state=DONE, bytes_read=read, rank=rank if isinstance(rank, int) else None)
            else:
                file = (
                    replace(file, state=STOPPED) if outcome.was_stopped else replace(file, state=SKIPPED, reason=reason)
                )
            state.files[index] = file
            self._changed.notify_all()

    def _load(self, index: int) -> Profile | None:
        """Read a file in the thread's worker process, or in this process if that is as fast."""
        file = self._files[index]
        if not self._costs[index].is_file:
            return self._load_locally(index)
        if self._thread.worker is None and self._is_worth_a_worker():
            self._thread.worker = self._started()
        worker = self._thread.worker
        if worker is None:
            return self._load_locally(index)
        try:
            answer, folder = worker.read(
                file.path,
                self._format_in,
                may_be_none=file.may_be_none,
                on_progress=lambda progress: self._note(index, progress),
            )
        except WorkerLostError as error:
            self._discard_worker()
            words = "no result after loading was stopped" if self._state.stopped else str(error)
            raise ProftuiError(f"{file.path}: {words}") from error
        if isinstance(answer, Failed):
            raise ProftuiError(answer.message, answer.hint)
        if not isinstance(answer, Done):
            return None
        try:
            # Polars has one table of categories for all profiles.
            with self._unpacking:
                return unpack(answer.packed, folder)
        except (OSError, DamagedError, ValueError, pl.exceptions.PolarsError):
            return self._load_locally(index)

    def _load_locally(self, index: int) -> Profile | None:
        with self._local_lock:
            return self._read_file(self._files[index], lambda progress: self._note(index, progress))

    def _is_worth_a_worker(self) -> bool:
        """Return whether enough is left to read that starting another process pays off."""
        if self._threads == 1:
            return False
        with self._changed:
            unread = [
                cost.unpacked
                for cost, file in zip(self._costs, self._state.files, strict=True)
                if file.state in (WAITING, READING)
            ]
        return len(unread) > 1 and sum(unread) >= MIN_WORKER_BYTES

    def _started(self) -> ReaderProcess | None:
        """Return a new worker process; None if it cannot be started."""
        try:
            worker = ReaderProcess(max(1, available_cores() // self._threads))
        except OSError:  # no more processes, or the disk is full: read in this process
            return None
        with self._changed:
            self._state.workers.add(worker)
            if self._state.stopped:
                worker.stop()
        return worker

    def _discard_worker(self) -> None:
        """End the thread's worker process, if it has one."""
        worker, self._thread.worker = self._thread.worker, None
        if worker is not None:
            with self._changed:
                self._state.workers.discard(worker)
            worker.close()

    def _note(self, index: int, progress: LoadProgress | Progress) -> bool:
        """Note the progress of a file; return whether to go on."""
        with self._changed:
            self._state.files[index] = replace(self._state.files[index], bytes_read=progress.bytes_read)
            self._state.rows[index] = progress.rows
            return not self._state.stopped
