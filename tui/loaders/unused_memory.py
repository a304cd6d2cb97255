"""Memory that was needed while a file was read, and no longer is."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_KEEP_FREED, _FROM_SYSTEM = -1, -3
"""What ``mallopt`` of glibc calls them: M_TRIM_THRESHOLD and M_MMAP_THRESHOLD."""
_LARGEST: Final = 32 << 20
"""Bytes: the highest that glibc raises the second to by itself; it keeps twice as much."""


def keep_for_blocks() -> None:
    """Let the C library use memory again for the next block of a file: what comes fresh has to be cleared first.

    Glibc does the same by itself, in steps, once pieces of such sizes were freed; `give_back` empties what it keeps.
    """
    if sys.platform.startswith("linux"):
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)
        if set_option is not None:
            set_option(_FROM_SYSTEM, _LARGEST)
            set_option(_KEEP_FREED, 2 * _LARGEST)


def give_back() -> None:
    """Give the system back what the C library keeps of freed memory for later: of a large file hundreds of megabytes.

    Only glibc keeps it, and says how; elsewhere nothing is done.
    """
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
