"""The number of cores to use, and patches of the runtime: numpy, glibc's malloc, garbage collection, standard error.

Each patch has its reason, its measured gain, and the version that it was checked with.

The system clears memory before a process gets it, which for large columns takes half as long as the work on them. So
freed memory is kept for reuse while it is needed, and released afterwards. Only glibc is configured.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_STDERR: Final = 2
_NUMPY_VARIABLE: Final = "NPY_DISABLE_CPU_FEATURES"
"""The environment variable that numpy reads when it is imported; child processes inherit it."""
_BLAS_VARIABLE: Final = "OPENBLAS_NUM_THREADS"
"""The same for OpenBLAS, a part of numpy."""
_NUMPY_AVX512: Final = "X86_V4 AVX512_ICL AVX512_SPR"
"""numpy's names of its loops with AVX-512."""
_CPUINFO: Final = "/proc/cpuinfo"
_CPUINFO_BYTES: Final = 4096
"""Bytes of ``/proc/cpuinfo`` that describe one processor; the whole file is slow to read on a large machine."""


def configure_numpy() -> None:
    """Make numpy start no threads, and sort with AVX2 on AMD's Zen 4; call it before importing numpy.

    Reason: OpenBLAS starts a thread for each core when numpy is imported, to multiply matrices, of which there are
    none here. Gain: on 16 cores, importing numpy takes 0.13 s of processor time instead of 1.2 s.

    Reason: on Zen 4, sorting with AVX-512 takes six times as long. Other processors keep AVX-512: six sorts of five
    million numbers take a Xeon (Emerald Rapids) 0.76 s with it and 1.17 s without.

    The names of the loops, and the library that multiplies matrices, are those of numpy 2.4.6.
    """
    os.environ.setdefault(_BLAS_VARIABLE, "1")
    try:
        descriptor = os.open(_CPUINFO, os.O_RDONLY)
    except OSError:  # not Linux
        return
    try:
        processor = os.read(descriptor, _CPUINFO_BYTES).decode("ascii", "replace")
    finally:
        os.close(descriptor)
    os.environ.update(numpy_environment(os.environ, processor))


def numpy_environment(env: Mapping[str, str], processor: str) -> dict[str, str]:
    r"""Return the changes of the environment for numpy; empty if the user has set numpy's features.

    On AMD's Zen 4, the AVX-512 instructions that numpy's sorting uses to compress a vector into memory are very slow.

    Args:
        env: The environment.
        processor: The first entry of ``/proc/cpuinfo``.

    >>> zen4 = "vendor_id : AuthenticAMD\ncpu family : 25\nflags : fpu avx2 avx512f\n"
    >>> numpy_environment({}, zen4)
    {'NPY_DISABLE_CPU_FEATURES': 'X86_V4 AVX512_ICL AVX512_SPR'}
    >>> numpy_environment({}, zen4.replace("avx512f", ""))
    {}
    """
    facts: dict[str, str] = {}
    for line in processor.splitlines():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    # Zen 3 has the same family number, but no AVX-512.
    is_zen4 = (facts.get("vendor_id"), facts.get("cpu family")) == ("AuthenticAMD", "25")
    slow = is_zen4 and "avx512f" in facts.get("flags", "").split()
    return {_NUMPY_VARIABLE: _NUMPY_AVX512} if slow and _NUMPY_VARIABLE not in env else {}


BLOCK_BYTES: Final = 32 << 20
"""The largest freed block that is kept while a file is read."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Parameters of glibc's ``mallopt``."""
_DEFAULT_BYTES: Final = 8 << 20
"""The largest freed block that is kept by default; twice as much is kept in all."""

_lock = Lock()
_active_limits: list[int] = []
"""The sizes of the active calls of `keep_freed_memory`."""


def use_one_arena() -> None:
    """Let all threads allocate from one arena; call it before threads start.

    Reason: memory that one thread frees is then reused by the others.

    Gain: the dashboard of five million launches takes 3.83 s of processor time with it and 4.04 s without (medians of
    six runs); of one million launches its peak memory is 525 MB with it and 591 MB without.

    Checked with glibc 2.36.
    """
    _set_options({M_ARENA_MAX: 1})


@contextmanager
def keep_freed_memory(largest_bytes: int) -> Iterator[None]:
    """Keep freed memory for reuse within this context; release it when the last context ends.

    Reason: the system clears memory before the process gets it again.

    Gain: reading a million rows of nvprof's text takes 1.07 s of processor time with it and 1.15 s without (medians of
    six runs each); nesting and linking the events of a PyTorch trace of 1 GB 0.5 s and 0.8 s, for 20 MB of memory.

    Checked with glibc 2.36.

    Args:
        largest_bytes: The largest freed block that is kept; twice as much is kept in all.
    """
    with _lock:
        _active_limits.append(largest_bytes)
        _set_limits(max(_active_limits))
    try:
        yield
    finally:
        with _lock:
            _active_limits.remove(largest_bytes)
            _set_limits(max(_active_limits, default=_DEFAULT_BYTES))
            if not _active_limits:
                release_freed_memory()


def release_freed_memory() -> None:
    """Return freed memory that the C library keeps to the system: hundreds of megabytes after a large file."""
    trim = _glibc_function("malloc_trim")
    if trim is not None:
        trim(0)


def _set_limits(largest_bytes: int) -> None:
    _set_options({M_MMAP_THRESHOLD: largest_bytes, M_TRIM_THRESHOLD: 2 * largest_bytes})


def _set_options(options: dict[int, int]) -> None:
    set_option = _glibc_function("mallopt")
    if set_option is not None:
        for option, value in options.items():
            set_option(option, value)


def _glibc_function(name: str) -> Any:
    """Return a function of glibc; None with another C library."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes  # here, because `proftui --version` does not need it

    return getattr(ctypes.CDLL(None), name, None)


GC_THRESHOLDS: Final = (20_000, 10, 50)
"""Thresholds for collections if there is no pause for long, as while a key is held down."""
MIN_YOUNG_COLLECTIONS: Final = 10
"""The number of collections of the middle generation after which a full one is due."""


class GarbageCollection:
    """Collects garbage on request, in pauses; without a pause, Python rarely collects by itself.

    Reason: by default, Python scans the hundred thousand objects of all views while a frame is drawn.

    Gain: of 600 row steps with eight views open, the slowest takes 36 ms of processor time with it and 270 ms without,
    and all together, with what follows them, 4.8 s with it and 7.7 s without (runs in turns).

    Checked with CPython 3.11 to 3.13.
    """

    def __init__(self) -> None:
        self._thresholds = gc.get_threshold()

    def start(self) -> None:
        """Make collections without a pause rare."""
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*GC_THRESHOLDS)

    def stop(self) -> None:
        """Restore Python's default."""
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def collect_young(self) -> None:
        """Collect the two younger generations."""
        gc.collect(1)

    def collect_if_due(self) -> None:
        """Collect all generations if enough objects were created since the last time."""
        if gc.get_count()[2] >= MIN_YOUNG_COLLECTIONS:
            gc.collect()

    def freeze_objects(self) -> None:
        """Exclude all existing objects, such as widgets, from later collections."""
        gc.freeze()

    def collect_all(self) -> None:
        """Collect everything, including excluded objects."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()


def freeze_profile_objects() -> None:
    """Collect once, then exclude the profile that was read from later collections.

    Reason: every full collection would scan its objects and those of all imported modules.

    Gain: with a log of 8,738 lines, a full collection takes less than 0.1 ms of processor time with it and 55 ms
    without.

    Checked with CPython 3.11.
    """
    gc.collect()
    gc.freeze()


@contextmanager
def native_stderr_hidden() -> Iterator[None]:
    """Hide the output of native libraries to standard error, such as a panic of Rust, from the terminal.

    Reason: Polars raises a panic as an exception, but prints it first, which would overwrite the screen. Python's own
    standard error is unchanged; with Python's development mode nothing is hidden.

    Checked with Polars 2.1.0.
    """
    stderr = sys.stderr
    try:
        is_descriptor = stderr is not None and stderr.fileno() == _STDERR and not sys.flags.dev_mode
        saved = os.dup(_STDERR) if is_descriptor else None
    except (OSError, ValueError):
        saved = None
    if saved is None:
        yield
        return
    original = sys.__stderr__
    stderr.flush()
    # Python's stream keeps everything but the number of its descriptor.
    stream = os.fdopen(saved, "w", buffering=1, encoding=stderr.encoding, errors=stderr.errors)
    sys.stderr = sys.__stderr__ = stream  # type: ignore[misc]
    try:
        _redirect(os.devnull)
        yield
    finally:
        stream.flush()
        os.dup2(saved, _STDERR)
        sys.stderr, sys.__stderr__ = stderr, original  # type: ignore[misc]


def _redirect(path: str) -> None:
    """Redirect the descriptor of standard error to a file, if a descriptor is left to open it."""
    with suppress(OSError):
        target = os.open(path, os.O_WRONLY)
        try:
            os.dup2(target, _STDERR)
        finally:
            os.close(target)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_CORE_LIMIT: Final[list[int]] = []
"""The number of cores for this process, if limited."""


def set_core_limit(cores: int) -> None:
    """Limit this process to this number of cores, because other processes read other files at the same time."""
    _CORE_LIMIT[:] = [cores]


def core_limit() -> int | None:
    """Return the number of cores that this process is limited to; None without a limit."""
    return _CORE_LIMIT[0] if _CORE_LIMIT else None


_FEW_CORES: Final = 4
"""With this number of cores or fewer, work on large columns uses one thread."""
_THREADS: Final = 3
"""With more cores, three threads: numpy needs the GIL between its steps, for which more threads wait longer. Ops of a
PyTorch trace of 1 GB take 0.36 s on 16 cores with three threads, and 0.47 s with sixteen."""
_T = TypeVar("_T")


def thread_limit() -> int:
    """Return the most threads for work on large columns; 1 with few cores."""
    return _THREADS if (core_limit() or available_cores()) > _FEW_CORES else 1


def run_concurrently(*functions: Callable[[], _T]) -> list[_T]:
    """Run functions that spend their time in numpy and Polars, without the GIL; return their results in order.

    They run in threads if there are many cores, otherwise one after the other, which takes less memory.
    """
    if len(functions) <= 1 or thread_limit() == 1:
        return [function() for function in functions]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(len(functions), thread_limit()), thread_name_prefix="build") as threads:
        return [future.result() for future in [threads.submit(function) for function in functions]]


_MIN_BLOCK_ROWS: Final = 1 << 16
"""The rows of a block from which on a thread saves more time than it costs."""


def run_in_blocks(function: Callable[[slice], _T], count: int, max_rows: int) -> list[_T]:
    """Run a function on blocks of rows as `run_concurrently`, and return its results in the order of the rows.

    Args:
        function: Gets the rows of a block.
        count: The number of rows.
        max_rows: The maximum number of rows of a block; all threads together work on four times as many.
    """
    threads = thread_limit()
    max_block = max_rows if threads == 1 else max(4 * max_rows // threads, 1)
    size = min(max_block, max(-(-count // threads), _MIN_BLOCK_ROWS))
    blocks = [slice(first, min(first + size, count)) for first in range(0, count, size)]
    return run_concurrently(*(partial(function, block) for block in blocks))
