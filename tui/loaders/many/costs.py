"""What reading a file costs, before it is read; and what the machine has."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tui.loaders.decompress import compression_of
from tui.model.readable import readable

_PACKED: Final = 12
"""Traces in JSON are packed to about so small a part; texts and databases to a larger one."""
_BASE_BYTES: Final = 200 << 20
"""What a process takes with the libraries loaded."""
_SHARE: Final = 2
"""Files under way take at most this part of the memory: what has been read needs room, too."""
_UNKNOWN_BYTES: Final = 8 << 30
_CGROUP: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a file may cost."""

    size: int
    """Bytes on the disk."""
    unpacked: int
    """About so many bytes of text or tables."""
    is_file: bool
    """Whether another process can open it, too, and from its beginning."""

    @property
    def memory(self) -> int:
        """About so many bytes are in use while a process reads it."""
        return self.unpacked + _BASE_BYTES


def costs(path: str) -> Cost:
    """What a file may cost; nothing where it cannot be looked at."""
    try:
        status = os.stat(path)  # noqa: PTH116 (a name that is no text stays as it is)
        if not stat.S_ISREG(status.st_mode):
            # Of a pipe nothing may be read twice; a folder that is one profile finds its own way.
            return Cost(0, 0, is_file=False)
        with open(path, "rb") as file:  # noqa: PTH123
            packed = compression_of(file.read(8)) is not None
    except (OSError, ValueError):
        return Cost(0, 0, is_file=False)
    # A name that is no text cannot be told to another process.
    return Cost(status.st_size, status.st_size * (_PACKED if packed else 1), is_file=readable(path) == path)


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def room() -> int:
    """Bytes of memory that the files under way may take together."""
    free = [found for found in (_free_of_machine(), _free_of_group()) if found is not None]
    return min(free, default=_UNKNOWN_BYTES) // _SHARE


def _free_of_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), None)


def _free_of_group() -> int | None:
    """What is left of the limit of a container."""
    try:
        most = int((_CGROUP / "memory.max").read_text())
        return max(0, most - int((_CGROUP / "memory.current").read_text()))
    except (OSError, ValueError):
        return None
