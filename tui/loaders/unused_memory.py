"""Memory that was needed while a file was read, and no longer is."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_KEEP_FREED, _FROM_SYSTEM = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc, which raises the second to what is freed and keeps twice as much."""
_LARGEST: Final = 32 << 20
"""Bytes: higher it goes by itself never."""
_AFTERWARDS: Final = 8 << 20


@contextmanager
def kept_for_blocks() -> Iterator[None]:
    """Let the C library use memory again for the next block of a file: what comes fresh has to be cleared first.

    The last block is to be freed after this: what was kept in its thread goes with it.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None

    def keep(size: int) -> None:
        if set_option is not None:
            set_option(_FROM_SYSTEM, size)
            set_option(_KEEP_FREED, 2 * size)

    keep(_LARGEST)
    try:
        yield
    finally:
        keep(_AFTERWARDS)


def give_back() -> None:
    """Give the system back what the C library keeps of freed memory for later: of a large file hundreds of megabytes.

    Only glibc keeps it, and says how; elsewhere nothing is done.
    """
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
