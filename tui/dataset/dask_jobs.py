"""Conversion of many files on a Dask cluster: each file exactly once, even if workers die.

Each file is a task. Only a few are submitted at a time, so thousands do not burden the scheduler; a task that fails is
retried; the scheduler moves the tasks of a worker that dies. A part is named after its input and
written atomically (`tui.dataset.write_dataset`), so running a task twice leaves one part.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import itertools
import logging
import os
import pkgutil
import platform
import secrets
import socket
import time
import warnings
from collections import deque
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import polars as pl

import tui
from tui.dataset.write_dataset import UNFINISHED_SUFFIX, part_name, write_part
from tui.loaders.dataset_loader import LAYOUT, MANIFEST, PARTS, DatasetPart
from tui.model.errors import ProftuiError
from tui.runtime import set_core_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from distributed import Client, Future


PER_THREAD: Final = 4
"""Submitted files per thread of the cluster: enough to keep it busy."""

RETRIES: Final = 2
"""How often a file is tried again."""

_POLL_INTERVAL_S: Final = 0.5
_FATAL_ERRNOS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of the output disk, which would affect every other file too."""


@dataclass(slots=True)
class ConversionProgress:
    """The progress of a conversion."""

    files: int
    parts: dict[str, DatasetPart] = field(default_factory=dict)
    """The converted parts by file."""
    skipped: dict[str, str] = field(default_factory=dict)
    """The reasons for skipped files, by file."""
    existing_parts: int = 0
    """The parts that had been converted before."""
    retried: set[str] = field(default_factory=set)
    """Files that were tried more than once."""
    workers: int = 0

    @property
    def done(self) -> int:
        """The number of files that are finished."""
        return len(self.parts) + len(self.skipped)


class SchedulerLostError(Exception):
    """The connection to the scheduler was lost."""


class DaskConversion:
    """The conversion of a list of files."""

    def __init__(self, client: Client, files: Sequence[str], out_dir: str, format_in: str | None) -> None:
        """Prepare it.

        Args:
            client: Of the cluster.
            files: Their absolute paths, each once.
            out_dir: The absolute path of the dataset's folder.
            format_in: As for `tui.dataset.write_dataset.write_part`.
        """
        self.progress = ConversionProgress(len(files))
        self._client = client
        # Only builtin types: a worker without proftui could not unpickle others and would never answer.
        self._task_arguments = (out_dir, format_in, dataclasses.astuple(versions()))
        self._waiting = deque(files)
        self._run, self._number = secrets.token_hex(4), itertools.count()
        self._tries: dict[str, int] = {}
        self._running: dict[str, tuple[Future[Any], str]] = {}
        self._ended: SimpleQueue[Future[Any]] = SimpleQueue()
        self._threads, self._checked_s = 0, 0.0

    def run(self, on_progress: Callable[[ConversionProgress], None], on_skipped: Callable[[str, str], None]) -> None:
        """Run the conversion; `progress` holds the result, also after an exception.

        Args:
            on_progress: Called a few times a second.
            on_skipped: Called with each file that is omitted, and the reason.

        Raises:
            SchedulerLostError: The connection to the scheduler was lost.
            ProftuiError: Nothing can be written to the dataset.
        """
        with self._watch_moved_tasks():
            try:
                while self._waiting or self._running:
                    self._check_cluster()
                    while self._waiting and len(self._running) < PER_THREAD * max(1, self._threads):
                        self._submit(self._waiting.popleft())
                    on_progress(self.progress)
                    with contextlib.suppress(Empty):
                        future = self._ended.get(timeout=_POLL_INTERVAL_S)
                        self._collect(future, on_skipped)
                        while True:
                            self._collect(self._ended.get_nowait(), on_skipped)
                on_progress(self.progress)
                assert self.progress.done == self.progress.files, "each file is a part or is omitted"
            finally:
                with contextlib.suppress(Exception):
                    self._client.cancel([future for future, _ in self._running.values()])

    def _check_cluster(self) -> None:
        """Check the connection to the scheduler, and count the workers."""
        if self._client.status != "running":
            raise SchedulerLostError
        if time.monotonic() - self._checked_s < _POLL_INTERVAL_S:
            return
        try:
            threads_by_worker = self._client.nthreads()
        except (OSError, TimeoutError) as error:
            raise SchedulerLostError from error
        self._threads, self.progress.workers = sum(threads_by_worker.values()), len(threads_by_worker)
        self._checked_s = time.monotonic()

    def _submit(self, file: str) -> None:
        self._tries[file] = self._tries.get(file, 0) + 1
        key = f"proftui-convert-{self._run}-{next(self._number)}"
        # Retries are counted here, to report the last reason; Dask does not expose its count.
        future = self._client.submit(_task(), file, *self._task_arguments, key=key, pure=False, retries=0)
        self._running[key] = future, file
        future.add_done_callback(self._ended.put)

    def _collect(self, future: Future[Any], on_skipped: Callable[[str, str], None]) -> None:
        """Take the result of a file."""
        if future.key not in self._running:
            return
        try:
            error = future.exception()
            answer = future.result() if error is None else None
        except CancelledError as cancelled:
            raise SchedulerLostError from cancelled
        _, file = self._running.pop(future.key)
        if error is None:
            if isinstance(answer, ConvertedFile):
                self.progress.parts[file] = answer.part
                self.progress.existing_parts += answer.already_existed and file not in self.progress.retried
                return
            assert isinstance(answer, SkippedFile)
            reason = answer.reason
        else:
            if isinstance(error, OSError) and error.errno in _FATAL_ERRNOS:
                raise ProftuiError(f"the dataset cannot be written: {error.strerror}") from error
            from distributed import KilledWorker

            if not isinstance(error, KilledWorker) and self._tries[file] <= RETRIES:
                self.progress.retried.add(file)
                self._waiting.append(file)
                return
            reason = f"{file}: {_failure_text(error)}"
        self.progress.skipped[file] = reason
        on_skipped(file, reason)

    @contextlib.contextmanager
    def _watch_moved_tasks(self) -> Iterator[None]:
        """Count files whose worker died, which the scheduler moves to another worker."""

        def on_event(event: tuple[float, Any]) -> None:
            message = event[1]
            if isinstance(message, dict) and message.get("action") == "remove-worker":
                keys = {*message.get("processing-tasks", ()), *message.get("lost-computed-tasks", ())}
                self.progress.retried.update(file for key, (_, file) in list(self._running.items()) if key in keys)

        self._client.subscribe_topic("all", on_event)
        try:
            yield
        finally:
            with contextlib.suppress(Exception):
                self._client.unsubscribe_topic("all")


def _task() -> Callable[[str, str, str | None, tuple[Any, ...]], object]:
    """Return the function that a worker runs.

    A nested function is pickled by value. One pickled by name would make a worker without proftui
    (a cluster can get new workers at any time) fail to unpickle it again and again.
    """

    def convert(file: str, out_dir: str, format_in: str | None, client_versions: tuple[Any, ...]) -> object:
        from tui.dataset.dask_jobs import Versions, convert_file

        return convert_file(file, out_dir, format_in, Versions(*client_versions))

    return convert


def _failure_text(error: BaseException) -> str:
    """Return why a file could not be converted."""
    from distributed import KilledWorker

    if isinstance(error, KilledWorker):
        return (
            f"{error.allowed_failures + 1} workers died while converting it, probably out of memory; use workers "
            "with more memory or fewer threads"
        )
    if isinstance(error, UnsuitableWorkerError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == "tui":
        return "a worker has no proftui or a different version"
    first_line = str(error).strip().split(os.linesep)[0]
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__


TIMEOUT_S: Final = 5
"""How long to wait for the scheduler."""

_VERSION: Final = "tui:__version__"
_MAX_LISTED_WORKERS: Final = 3


@contextlib.contextmanager
def connect_client(address: str) -> Iterator[Client]:
    """Connect to the scheduler; the client is closed at the end of the context.

    Raises:
        ProftuiError: Dask is not installed, or the scheduler does not answer.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ProftuiError(
            "converting on a cluster needs Dask, which is not installed", "pip install 'proftui[dask]'"
        ) from error
    # Dask's logs and warnings repeat our one-line errors or are harmless.
    for name in [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("distributed", "tornado")]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    from distributed.versions import VersionMismatchWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VersionMismatchWarning)
        try:
            # A client that cannot connect would leave threads and log messages.
            asyncio.run(_reach(address))
            client = Client(address, timeout=TIMEOUT_S, set_as_default=False, name="proftui-convert")
        except Exception as error:
            reason = str(error).strip().split("\n")[0] or type(error).__name__
            raise ProftuiError(f"no response from a Dask scheduler at {address}: {reason}", _hint(address)) from error
        try:
            yield client
        finally:
            with contextlib.suppress(Exception):
                client.close(timeout=2)


async def _reach(address: str) -> None:
    from distributed import Security
    from distributed.comm.addressing import parse_address, parse_host_port
    from distributed.comm.core import connect

    parse_host_port(parse_address(address)[1])  # it has a port
    comm = await connect(address, timeout=TIMEOUT_S, **Security().get_connection_args("client"))
    await comm.close()


def _hint(address: str) -> str:
    if address.startswith(("tls:", "wss:")):
        return "configure certificates in Dask: distributed.comm.tls"
    return "use the address that dask scheduler prints: tcp://HOST:8786"


def check_cluster(client: Client, folders: Sequence[str], out_dir: str) -> int:
    """Check that scheduler and workers run the same versions and see the same files.

    Args:
        client: Of the cluster.
        folders: The folders of the files.
        out_dir: The existing folder of the dataset.

    Returns:
        The number of workers; 0 if the cluster starts them on demand.

    Raises:
        ProftuiError: A worker differs.
    """
    _check_python(client)
    _check_proftui(client)
    worker_versions = client.run(versions, on_error="return")
    own_versions = versions()
    _raise_for_workers(
        {worker: _error_text(reply) or reply.differences(own_versions) for worker, reply in worker_versions.items()},
        "has {}",
    )
    marker = Path(out_dir) / f"{MANIFEST}.{secrets.token_hex(4)}{UNFINISHED_SUFFIX}"
    marker.touch()
    try:
        missing_paths = client.run(first_missing_path, [*folders, str(marker)], on_error="return")
    finally:
        marker.unlink(missing_ok=True)
    missing = {worker: out_dir if path == str(marker) else path for worker, path in missing_paths.items()}
    _raise_for_workers(
        missing, "cannot access {}", "all machines must have the files and the dataset at the same paths"
    )
    return len(worker_versions)


def _check_python(client: Client) -> None:
    own_version = platform.python_version_tuple()[:2]
    differing = {}
    for worker, worker_version in client.run(platform.python_version_tuple, on_error="return").items():
        differing[worker] = _error_text(worker_version) or (
            ".".join(worker_version[:2]) if tuple(worker_version[:2]) != own_version else ""
        )
    _raise_for_workers(differing, f"has Python {{}} (here {'.'.join(own_version)})")


def _check_proftui(client: Client) -> None:
    # A function of the standard library: a worker without proftui could not run one of ours.
    worker_versions: dict[str, Any] = client.run(pkgutil.resolve_name, _VERSION, on_error="return")
    hint = f"pip install 'proftui[dask]=={tui.__version__}' there"
    missing = {
        worker: "no" if isinstance(version, ModuleNotFoundError) else "" for worker, version in worker_versions.items()
    }
    _raise_for_workers(missing, "has {} proftui", hint)
    differing = {
        worker: _error_text(version) or ("" if version == tui.__version__ else version)
        for worker, version in worker_versions.items()
    }
    _raise_for_workers(differing, f"has proftui {{}} (here {tui.__version__})", hint)


def _error_text(answer: object) -> str:
    """Return the error that a worker answered with; empty if it succeeded."""
    return f"{type(answer).__name__}: {answer}" if isinstance(answer, Exception) else ""


def _raise_for_workers(problems: dict[str, str], words: str, hint: str = "") -> None:
    """Raise an error that names the workers with a problem, if there are any."""
    affected = {worker: problem for worker, problem in problems.items() if problem}
    if not affected:
        return
    listed = ", ".join(list(affected)[:_MAX_LISTED_WORKERS])
    more = f" and {len(affected) - _MAX_LISTED_WORKERS} more" if len(affected) > _MAX_LISTED_WORKERS else ""
    problem = next(iter(affected.values()))
    raise ProftuiError(f"worker {listed}{more} {words.format(problem)}", hint)


CORES_PER_CONVERSION: Final = 1
"""Cores per conversion: each thread of a worker converts one file."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions that must agree on all machines, so that the same file gives the same bytes."""

    proftui: str
    layout: int
    polars: str

    def differences(self, expected: Versions) -> str:
        """Return the differences, for people; empty if there are none."""
        pairs = (
            ("proftui", self.proftui, expected.proftui),
            ("layout of datasets", self.layout, expected.layout),
            ("polars", self.polars, expected.polars),
        )
        return ", ".join(
            f"{label} {value} (here {expected_value})"
            for label, value, expected_value in pairs
            if value != expected_value
        )


@dataclass(frozen=True, slots=True)
class ConvertedFile:
    """A file that has a part in the dataset."""

    part: DatasetPart
    already_existed: bool
    """Whether it had been converted before."""


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that has no part in the dataset."""

    reason: str


class UnsuitableWorkerError(Exception):
    """This worker cannot convert files; another worker may."""


def versions() -> Versions:
    """Return the versions of this process."""
    return Versions(tui.__version__, LAYOUT, pl.__version__)


def first_missing_path(paths: Iterable[str]) -> str | None:
    """Return the first path that does not exist on this machine, or None."""
    return next((path for path in paths if not os.path.exists(path)), None)  # noqa: PTH110 (a name may be no valid text)


def convert_file(
    path: str, out_dir: str, format_in: str | None, client_versions: Versions
) -> ConvertedFile | SkippedFile:
    """Convert a file in this process.

    Args:
        path: The file, which the client sees.
        out_dir: The folder of the dataset.
        format_in: As for `tui.dataset.write_dataset.write_part`.
        client_versions: The versions of the client.

    Raises:
        UnsuitableWorkerError: The versions differ here, or the paths do not exist here.
        OSError: The part cannot be written.
    """
    if differences := versions().differences(client_versions):
        raise UnsuitableWorkerError(f"{socket.gethostname()} has {differences}")
    parts = os.path.join(out_dir, PARTS)  # noqa: PTH118
    if (missing := first_missing_path((parts, path))) is not None:
        raise UnsuitableWorkerError(f"{socket.gethostname()} cannot access {out_dir if missing == parts else missing}")
    set_core_limit(CORES_PER_CONVERSION)
    part_file = os.path.join(parts, f"{part_name(path)}.json")  # noqa: PTH118
    identity_before = _file_identity(part_file)
    try:
        part = write_part(path, out_dir, format_in=format_in)
    except ProftuiError as error:
        return SkippedFile(str(error))
    return ConvertedFile(
        part, already_existed=identity_before is not None and identity_before == _file_identity(part_file)
    )


def _file_identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
