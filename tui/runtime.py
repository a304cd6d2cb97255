"""The cores that may be used, and patches of the runtime: numpy, glibc's malloc, garbage collection, standard error.

The system clears memory before it hands it out again. For large columns that takes half as long as the work on them,
so freed memory is kept for reuse while it is needed, and released afterwards. Only glibc is configured.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_STDERR: Final = 2
_VARIABLE: Final = "NPY_DISABLE_CPU_FEATURES"
"""What numpy reads as it is loaded; processes that are started from this one inherit it."""
_AVX512: Final = "X86_V4 AVX512_ICL AVX512_SPR"
"""The names that numpy has for its loops with AVX-512."""
_CPUINFO: Final = "/proc/cpuinfo"
_FIRST: Final = 4096
"""The bytes that describe one processor; on a large machine reading all of them is slow."""


def disable_slow_avx512() -> None:
    """Have numpy sort with AVX2 on AMD's Zen 4, which takes six times as long with AVX-512: before numpy is imported.

    Other processors keep AVX-512: six sorts of five million numbers take a Xeon (Emerald Rapids) 0.76 s with it and
    1.17 s without.
    """
    try:
        descriptor = os.open(_CPUINFO, os.O_RDONLY)
    except OSError:  # no Linux
        return
    try:
        processor = os.read(descriptor, _FIRST).decode("ascii", "replace")
    finally:
        os.close(descriptor)
    os.environ.update(environment_changes(os.environ, processor))


def environment_changes(env: Mapping[str, str], processor: str) -> dict[str, str]:
    r"""What must change in the environment; nothing where the user has set numpy's features.

    AMD's Zen 4 compresses a vector into memory, as numpy's sorting does with AVX-512, many times slower than others do.

    Args:
        env: The environment.
        processor: The first entry of ``/proc/cpuinfo``.

    >>> zen4 = "vendor_id : AuthenticAMD\ncpu family : 25\nflags : fpu avx2 avx512f\n"
    >>> environment_changes({}, zen4)
    {'NPY_DISABLE_CPU_FEATURES': 'X86_V4 AVX512_ICL AVX512_SPR'}
    >>> environment_changes({}, zen4.replace("avx512f", ""))
    {}
    """
    facts: dict[str, str] = {}
    for line in processor.splitlines():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    # Zen 3 is of the same family, and has no AVX-512.
    is_zen4 = (facts.get("vendor_id"), facts.get("cpu family")) == ("AuthenticAMD", "25")
    slow = is_zen4 and "avx512f" in facts.get("flags", "").split()
    return {_VARIABLE: _AVX512} if slow and _VARIABLE not in env else {}


BLOCK_BYTES: Final = 32 << 20
"""Pieces up to this size are kept while a file is read in blocks."""

_KEEP_FREED, _FROM_SYSTEM, _HEAPS = -1, -3, -8
"""What ``mallopt`` of glibc calls them: M_TRIM_THRESHOLD, M_MMAP_THRESHOLD and M_ARENA_MAX."""
_USUAL_BYTES: Final = 8 << 20
"""Pieces up to this size are kept for later, and twice as much in all, when nobody asks for more."""

_lock = Lock()
_kept: list[int] = []
"""The largest piece of each that is within `kept_for_next`."""


def use_one_arena() -> None:
    """Let all threads take memory from one place: what one of them freed the next one uses. Before any begins.

    Gain: the dashboard of five million launches takes 3.83 s of processor time with it and 4.04 s without (medians of
    six runs); of one million launches its peak memory is 525 MB with it and 591 MB without.
    """
    _set_options({_HEAPS: 1})


@contextmanager
def keep_freed_memory(largest_bytes: int) -> Iterator[None]:
    """Within it freed memory is used again by what comes next; when the last one leaves, it is given back.

    The system clears memory before it hands it out again. Gain: reading a million rows of nvprof's text takes 1.07 s of
    processor time with it and 1.15 s without (medians of six runs each).

    Args:
        largest_bytes: The largest piece that is kept; twice as much is kept in all.
    """
    with _lock:
        _kept.append(largest_bytes)
        _keep(max(_kept))
    try:
        yield
    finally:
        with _lock:
            _kept.remove(largest_bytes)
            _keep(max(_kept, default=_USUAL_BYTES))
            if not _kept:
                release_freed_memory()


def release_freed_memory() -> None:
    """Give the system back what the C library keeps of freed memory: of a large file hundreds of megabytes."""
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


def _keep(largest_bytes: int) -> None:
    _set_options({_FROM_SYSTEM: largest_bytes, _KEEP_FREED: 2 * largest_bytes})


def _set_options(options: dict[int, int]) -> None:
    set_option = _of_glibc("mallopt")
    if set_option is not None:
        for option, value in options.items():
            set_option(option, value)


def _of_glibc(name: str) -> Any:
    """A function of the C library; None where it has no such one."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes  # only where it is needed: `proftui --version` answers at once

    return getattr(ctypes.CDLL(None), name, None)


GC_THRESHOLDS: Final = (20_000, 10, 50)
"""How many objects start a collection where no pause comes for long, as while a key is held down."""
YOUNG_BEFORE_FULL: Final = 10
"""A full collection comes after so many of the middle generation, not in every pause."""


class GarbageCollection:
    """Collects garbage on request: in pauses, not while a frame is drawn.

    Reason: left to itself Python looks through the hundred thousand objects of all views while the next frame is drawn.

    Gain: of 600 row steps with eight views open, the slowest takes 36 ms of processor time with it and 270 ms without,
    and all together, with what follows them, 4.8 s with it and 7.7 s without (runs in turns).

    Checked with CPython 3.11 to 3.13.
    """

    def __init__(self) -> None:
        self._thresholds = gc.get_threshold()

    def start(self) -> None:
        """From now on collect in pauses."""
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*GC_THRESHOLDS)

    def stop(self) -> None:
        """Collect as before."""
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def collect_young(self) -> None:
        """Collect what the last keys left."""
        gc.collect(1)

    def collect_if_due(self) -> None:
        """Collect everything made since the last time, where that is much."""
        if gc.get_count()[2] >= YOUNG_BEFORE_FULL:
            gc.collect()

    def skip_present(self) -> None:
        """Skip all present objects in later collections: the widgets of views stay."""
        gc.freeze()

    def collect_all(self) -> None:
        """Collect everything, also what was skipped."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()


def skip_read_profile() -> None:
    """Collect once, then skip what a file was read into: long lists that every collection would look through."""
    gc.collect()
    gc.freeze()


@contextmanager
def native_stderr_hidden() -> Iterator[None]:
    """Keep off the terminal what libraries write to standard error by themselves, such as a panic of Rust.

    Polars raises a panic as an exception, too, and prints it with its place before, over whatever is on the screen.
    Python's own standard error goes where it went; with Python's development mode nothing is hidden.
    """
    shown = sys.stderr
    try:
        is_native = shown is not None and shown.fileno() == _STDERR and not sys.flags.dev_mode
        saved = os.dup(_STDERR) if is_native else None
    except (OSError, ValueError):
        saved = None
    if saved is None:
        yield
        return
    before = sys.__stderr__
    shown.flush()
    # Of Python's stream everything but the number of its descriptor stays.
    stream = os.fdopen(saved, "w", buffering=1, encoding=shown.encoding, errors=shown.errors)
    sys.stderr = sys.__stderr__ = stream  # type: ignore[misc]
    try:
        _redirect(os.devnull)
        yield
    finally:
        stream.flush()
        os.dup2(saved, _STDERR)
        sys.stderr, sys.__stderr__ = shown, before  # type: ignore[misc]


def _redirect(path: str) -> None:
    """Have the descriptor of standard error lead to a file, where there is a descriptor left to open it."""
    with suppress(OSError):
        target = os.open(path, os.O_WRONLY)
        try:
            os.dup2(target, _STDERR)
        finally:
            os.close(target)


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_SHARE: Final[list[int]] = []
"""How many cores this process may use, where it was limited."""


def share_cores(cores: int) -> None:
    """Let this process use so many cores alone: others read other files at the same time."""
    _SHARE[:] = [cores]


def shared_cores() -> int | None:
    """How many cores this process may use, where it was limited."""
    return _SHARE[0] if _SHARE else None


_FEW_CORES: Final = 4
_T = TypeVar("_T")


def thread_limit() -> int:
    """Into how many threads work on large columns may be divided: 1 where there are few cores."""
    cores = shared_cores() or available_cores()
    return cores if cores > _FEW_CORES else 1


def run_together(*works: Callable[[], _T]) -> list[_T]:
    """What several pieces of work give, most of whose time numpy and Polars take.

    They run in threads where there are many cores, else one after the other, which takes less memory.
    """
    if len(works) == 1 or thread_limit() == 1:
        return [work() for work in works]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(works), thread_name_prefix="build") as threads:
        return [one.result() for one in [threads.submit(work) for work in works]]
