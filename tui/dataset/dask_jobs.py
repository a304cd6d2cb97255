"""Converting many files on a Dask cluster: each file exactly once, whatever workers die.

A file is a task. Few are under way at a time, so thousands are no burden to the scheduler; a task that fails is given
out again; a worker that dies has its tasks given to others by the scheduler. A part has its name from its input and is
put in place whole (`tui.dataset.write_dataset`), so doing a task twice leaves it there once.
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
from tui.dataset.write_dataset import MAKING, part_name, write_part
from tui.loaders.chrome_trace.decoder_pool import share_cores
from tui.loaders.dataset_loader import LAYOUT, MANIFEST, PARTS, Part
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from distributed import Client, Future


PER_THREAD: Final = 4
"""Files under way for each thread of the cluster: none waits for this machine, and few are lost with it."""

RETRIES: Final = 2
"""How often a file is tried again."""

_LOOK_EVERY_S: Final = 0.5
_HOPELESS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of the place where the dataset is written, which every other file would meet as well."""


@dataclass(slots=True)
class Standing:
    """How far the conversion has come."""

    files: int
    parts: dict[str, Part] = field(default_factory=dict)
    """By file."""
    left_out: dict[str, str] = field(default_factory=dict)
    """By file, with the reason."""
    were_there: int = 0
    """Of the parts, those that had been converted before."""
    retried: set[str] = field(default_factory=set)
    """Files that were tried more than once, by the end or not."""
    workers: int = 0

    @property
    def done(self) -> int:
        """Files that need no more work."""
        return len(self.parts) + len(self.left_out)


class SchedulerLostError(Exception):
    """The scheduler went away."""


class Spread:
    """The conversion of some files."""

    def __init__(self, client: Client, files: Sequence[str], out_dir: str, format_in: str | None) -> None:
        """Prepare it.

        Args:
            client: Of the cluster.
            files: Their whole paths, each once.
            out_dir: The whole path of the dataset's folder.
            format_in: As for `tui.dataset.write_dataset.write_part`.
        """
        self.standing = Standing(len(files))
        self._client = client
        # All of it plain: what a worker without proftui cannot read, it does not answer to.
        self._given = (out_dir, format_in, dataclasses.astuple(versions()))
        self._waiting = deque(files)
        self._run, self._number = secrets.token_hex(4), itertools.count()
        self._tries: dict[str, int] = {}
        self._running: dict[str, tuple[Future[Any], str]] = {}
        self._ended: SimpleQueue[Future[Any]] = SimpleQueue()
        self._threads, self._looked_s = 0, 0.0

    def run(self, told: Callable[[Standing], None], left_out: Callable[[str, str], None]) -> None:
        """Do all of it; `standing` tells what came of it, also after an exception.

        Args:
            told: Called a few times a second.
            left_out: Called with each file that is left out, and the reason.

        Raises:
            SchedulerLostError: The scheduler went away.
            ProftuiError: Nothing can be written to the dataset.
        """
        with self._moved():
            try:
                while self._waiting or self._running:
                    self._look()
                    while self._waiting and len(self._running) < PER_THREAD * max(1, self._threads):
                        self._submit(self._waiting.popleft())
                    told(self.standing)
                    with contextlib.suppress(Empty):
                        future = self._ended.get(timeout=_LOOK_EVERY_S)
                        self._take(future, left_out)
                        while True:
                            self._take(self._ended.get_nowait(), left_out)
                told(self.standing)
                assert self.standing.done == self.standing.files, "each file is a part or is left out"
            finally:
                with contextlib.suppress(Exception):
                    self._client.cancel([future for future, _ in self._running.values()])

    def _look(self) -> None:
        """See whether the scheduler is there, and how many workers are."""
        if self._client.status != "running":
            raise SchedulerLostError
        if time.monotonic() - self._looked_s < _LOOK_EVERY_S:
            return
        try:
            there = self._client.nthreads()
        except (OSError, TimeoutError) as error:
            raise SchedulerLostError from error
        self._threads, self.standing.workers = sum(there.values()), len(there)
        self._looked_s = time.monotonic()

    def _submit(self, file: str) -> None:
        self._tries[file] = self._tries.get(file, 0) + 1
        key = f"proftui-convert-{self._run}-{next(self._number)}"
        # The tries are counted here, so that the end can be told with its reason; Dask counts them for itself alone.
        future = self._client.submit(_task(), file, *self._given, key=key, pure=False, retries=0)
        self._running[key] = future, file
        future.add_done_callback(self._ended.put)

    def _take(self, future: Future[Any], left_out: Callable[[str, str], None]) -> None:
        """See what came of a file."""
        if future.key not in self._running:
            return
        try:
            error = future.exception()
            answer = future.result() if error is None else None
        except CancelledError as lost:
            raise SchedulerLostError from lost
        _, file = self._running.pop(future.key)
        if error is None:
            if isinstance(answer, Converted):
                self.standing.parts[file] = answer.part
                self.standing.were_there += answer.was_there and file not in self.standing.retried
                return
            assert isinstance(answer, LeftOut)
            reason = answer.reason
        else:
            if isinstance(error, OSError) and error.errno in _HOPELESS:
                raise ProftuiError(f"the dataset cannot be written: {error.strerror}") from error
            from distributed import KilledWorker

            if not isinstance(error, KilledWorker) and self._tries[file] <= RETRIES:
                self.standing.retried.add(file)
                self._waiting.append(file)
                return
            reason = f"{file}: {_failure_text(error)}"
        self.standing.left_out[file] = reason
        left_out(file, reason)

    @contextlib.contextmanager
    def _moved(self) -> Iterator[None]:
        """Learn of files whose worker died, which the scheduler gives to another one."""

        def heard(event: tuple[float, Any]) -> None:
            message = event[1]
            if isinstance(message, dict) and message.get("action") == "remove-worker":
                keys = {*message.get("processing-tasks", ()), *message.get("lost-computed-tasks", ())}
                self.standing.retried.update(file for key, (_, file) in list(self._running.items()) if key in keys)

        self._client.subscribe_topic("all", heard)
        try:
            yield
        finally:
            with contextlib.suppress(Exception):
                self._client.unsubscribe_topic("all")


def _task() -> Callable[[str, str, str | None, tuple[Any, ...]], object]:
    """What a worker is given to do.

    A function within a function is sent as its code. One that is sent by its name would leave a worker without proftui
    (a cluster can get others at any time) trying to read the message for ever.
    """

    def convert(file: str, out_dir: str, format_in: str | None, wanted: tuple[Any, ...]) -> object:
        from tui.dataset.dask_jobs import Versions, convert_one

        return convert_one(file, out_dir, format_in, Versions(*wanted))

    return convert


def _failure_text(error: BaseException) -> str:
    """Why a file could not be converted in all its tries."""
    from distributed import KilledWorker

    if isinstance(error, KilledWorker):
        return (
            f"{error.allowed_failures + 1} workers died of it, one after the other; "
            "the usual reason is memory: workers with more of it, or with fewer threads"
        )
    if isinstance(error, UnableError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == "tui":
        return "a worker has no proftui, or another version of it"
    first = str(error).strip().split(os.linesep)[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


TIMEOUT_S: Final = 5
"""A scheduler that does not answer for so long is not there."""

_VERSION: Final = "tui:__version__"
_MOST_NAMED: Final = 3


@contextlib.contextmanager
def connected(address: str) -> Iterator[Client]:
    """A client of the scheduler, which is closed in the end.

    Raises:
        ProftuiError: There is no Dask here, or no scheduler there.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ProftuiError("a cluster needs Dask, which is not installed", "pip install 'proftui[dask]'") from error
    # It logs and warns of what is said here in a line, or is nothing to worry about.
    for name in [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("distributed", "tornado")]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    from distributed.versions import VersionMismatchWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VersionMismatchWarning)
        try:
            # Of a client that cannot connect, threads and complaints would be left.
            asyncio.run(_reach(address))
            client = Client(address, timeout=TIMEOUT_S, set_as_default=False, name="proftui-convert")
        except Exception as error:
            why = str(error).strip().split("\n")[0] or type(error).__name__
            raise ProftuiError(f"no Dask scheduler is reached at {address}: {why}", _hint(address)) from error
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
        return "certificates are named in Dask's own configuration: distributed.comm.tls"
    return "as dask scheduler prints it: tcp://HOST:8786"


def check(client: Client, folders: Sequence[str], out_dir: str) -> int:
    """See that scheduler and workers have what runs here, and see the same files.

    Args:
        client: Of the cluster.
        folders: Where the files lie.
        out_dir: The folder of the dataset, which is there.

    Returns:
        How many workers there are; none where the cluster starts them when there is something to do.

    Raises:
        ProftuiError: One of them differs.
    """
    _check_python(client)
    _check_proftui(client)
    found = client.run(versions, on_error="return")
    wanted = versions()
    _refuse({worker: _unable_text(there) or there.other_than(wanted) for worker, there in found.items()}, "has {}")
    marker = Path(out_dir) / f"{MANIFEST}.{secrets.token_hex(4)}{MAKING}"
    marker.touch()
    try:
        seen = client.run(unseen, [*folders, str(marker)], on_error="return")
    finally:
        marker.unlink(missing_ok=True)
    missing = {worker: out_dir if path == str(marker) else path for worker, path in seen.items()}
    _refuse(missing, "does not see {}", "all machines must have the files and the dataset at the same paths")
    return len(found)


def _check_python(client: Client) -> None:
    here = platform.python_version_tuple()[:2]
    others = {}
    for worker, there in client.run(platform.python_version_tuple, on_error="return").items():
        others[worker] = _unable_text(there) or (".".join(there[:2]) if tuple(there[:2]) != here else "")
    _refuse(others, f"has Python {{}} (here {'.'.join(here)})")


def _check_proftui(client: Client) -> None:
    # By a function of Python's own: one of ours cannot be asked where proftui may not be.
    found: dict[str, Any] = client.run(pkgutil.resolve_name, _VERSION, on_error="return")
    hint = f"pip install 'proftui[dask]=={tui.__version__}' there"
    without = {one: "no" if isinstance(there, ModuleNotFoundError) else "" for one, there in found.items()}
    _refuse(without, "has {} proftui", hint)
    others = {one: _unable_text(there) or ("" if there == tui.__version__ else there) for one, there in found.items()}
    _refuse(others, f"has proftui {{}} (here {tui.__version__})", hint)


def _unable_text(answer: object) -> str:
    """What is wrong where a worker answers with an error."""
    return f"{type(answer).__name__}: {answer}" if isinstance(answer, Exception) else ""


def _refuse(faults: dict[str, str], words: str, hint: str = "") -> None:
    """Name the workers that are not as they must be, if there are any."""
    bad = {worker: fault for worker, fault in faults.items() if fault}
    if not bad:
        return
    named = ", ".join(list(bad)[:_MOST_NAMED])
    more = f" and {len(bad) - _MOST_NAMED} more" if len(bad) > _MOST_NAMED else ""
    fault = next(iter(bad.values()))
    raise ProftuiError(f"worker {named}{more} {words.format(fault)}", hint)


CORES_EACH: Final = 1
"""A worker has as many threads as it may use cores, and each converts a file."""


@dataclass(frozen=True, slots=True)
class Versions:
    """What must be the same wherever parts of one dataset are written: the same bytes come of the same file then."""

    proftui: str
    layout: int
    polars: str

    def other_than(self, wanted: Versions) -> str:
        """How they differ, in words; empty where they are the same."""
        pairs = (
            ("proftui", self.proftui, wanted.proftui),
            ("layout of datasets", self.layout, wanted.layout),
            ("polars", self.polars, wanted.polars),
        )
        return ", ".join(f"{what} {there} (here {here})" for what, there, here in pairs if there != here)


@dataclass(frozen=True, slots=True)
class Converted:
    """A file of which a part is in the dataset."""

    part: Part
    was_there: bool
    """Whether it had been converted before."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file of which nothing is in the dataset."""

    reason: str


class UnableError(Exception):
    """This worker cannot convert the file; another one may."""


def versions() -> Versions:
    """Of what runs here."""
    return Versions(tui.__version__, LAYOUT, pl.__version__)


def unseen(paths: Iterable[str]) -> str | None:
    """The first path that is not there for this machine, or None."""
    return next((path for path in paths if not os.path.exists(path)), None)  # noqa: PTH110 (a name may be no text)


def convert_one(path: str, out_dir: str, format_in: str | None, wanted: Versions) -> Converted | LeftOut:
    """Convert a file, in one process.

    Args:
        path: The file, which is there for the one that asks.
        out_dir: The folder of the dataset.
        format_in: As for `tui.dataset.write_dataset.write_part`.
        wanted: The versions of the one that asks.

    Raises:
        UnableError: The versions are others here, or the paths lead nowhere.
        OSError: The part cannot be written.
    """
    if differs := versions().other_than(wanted):
        raise UnableError(f"{socket.gethostname()} has {differs}")
    parts = os.path.join(out_dir, PARTS)  # noqa: PTH118
    if (missing := unseen((parts, path))) is not None:
        raise UnableError(f"{socket.gethostname()} does not see {out_dir if missing == parts else missing}")
    share_cores(CORES_EACH)
    told = os.path.join(parts, f"{part_name(path)}.json")  # noqa: PTH118
    before = _written_at(told)
    try:
        part = write_part(path, out_dir, format_in=format_in)
    except ProftuiError as error:
        return LeftOut(str(error))
    return Converted(part, was_there=before is not None and before == _written_at(told))


def _written_at(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
