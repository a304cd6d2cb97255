"""Memory that arrays of millions of rows were freed from is used again for the next ones."""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Final

from tui.loaders.unused_memory import give_back

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEEP_FREED, _FROM_SYSTEM, _HEAPS = -1, -3, -8
"""What ``mallopt`` of glibc calls them: M_TRIM_THRESHOLD, M_MMAP_THRESHOLD and M_ARENA_MAX."""
_MOST_KEPT: Final = 512 << 20
"""Bytes of freed memory that `kept_for_arrays` keeps, and the largest piece that it keeps any of."""
_LARGEST: Final = 32 << 20
"""Bytes: the highest that glibc raises the second to by itself; it keeps twice as much."""

_lock = Lock()
_keeping: list[object] = []
"""Who is within `kept_for_arrays`."""


def one_heap() -> None:
    """Let all threads take memory from one place: what one of them freed the next one uses. Before any begins."""
    _set_options({_HEAPS: 1})


@contextmanager
def kept_for_arrays() -> Iterator[None]:
    """Within it columns of millions of rows take the memory of those before them; at its end it is given back.

    What the system hands out anew it clears first: of large columns that takes as long as half of the work on them.
    """
    me = object()
    with _lock:
        _keeping.append(me)
        _set_options({_FROM_SYSTEM: _MOST_KEPT, _KEEP_FREED: _MOST_KEPT})
    try:
        yield
    finally:
        with _lock:
            _keeping.remove(me)
            if not _keeping:
                _set_options({_FROM_SYSTEM: _LARGEST, _KEEP_FREED: 2 * _LARGEST})
                give_back()


def _set_options(options: dict[int, int]) -> None:
    """Tell glibc; elsewhere nothing is done."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    if set_option is not None:
        for option, value in options.items():
            set_option(option, value)
