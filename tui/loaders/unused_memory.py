"""Memory that was needed while a file was read, and no longer is."""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Give the system back what the C library keeps of freed memory for later: of a large file hundreds of megabytes.

    Only glibc keeps it, and says how; elsewhere nothing is done.
    """
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
