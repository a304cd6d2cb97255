"""What becomes of memory that large arrays and blocks of files were freed from: used again meanwhile, then given back.

Memory that the system hands out anew it clears first; of large columns that takes as long as half of the work on them.
All of this is told to glibc; elsewhere nothing is done.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_BYTES: Final = 32 << 20
"""Pieces up to this size are kept while a file is read in blocks."""
COLUMN_BYTES: Final = 256 << 20
"""Pieces up to this size are kept while columns of millions of rows are worked out."""

_KEEP_FREED, _FROM_SYSTEM, _HEAPS = -1, -3, -8
"""What ``mallopt`` of glibc calls them: M_TRIM_THRESHOLD, M_MMAP_THRESHOLD and M_ARENA_MAX."""
_USUAL_BYTES: Final = 8 << 20
"""Pieces up to this size are kept for later, and twice as much in all, when nobody asks for more."""

_lock = Lock()
_kept: list[int] = []
"""The largest piece of each that is within `kept_for_next`."""


def one_heap() -> None:
    """Let all threads take memory from one place: what one of them freed the next one uses. Before any begins."""
    _set_options({_HEAPS: 1})


@contextmanager
def kept_for_next(largest_bytes: int) -> Iterator[None]:
    """Within it freed memory is used again by what comes next; when the last one leaves, it is given back.

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
                give_back()


def give_back() -> None:
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
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
