"""The identity of a set of open files, under which the user's state of them is stored."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MOST_IN_FOLDER: Final = 5_000
"""Files of a folder that are asked for their size; more say nothing more."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files that are open together."""

    name: str
    """A digest of their paths: what is remembered lies under it, and it tells nothing of the paths."""
    stamp: str
    """A digest of their sizes and times of change: another one means that they hold something else."""


def files(paths: Sequence[str]) -> Files | None:
    """What is open, or None where that cannot be opened again (standard input)."""
    if not paths or "-" in paths:
        return None
    real = [os.path.realpath(path) for path in paths]
    stamps = [str(stamp) for path in real for stamp in _stamps(path)]
    return Files(_digest(real), _digest(stamps))


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        content = os.fsencode(text)
        digest.update(f"{len(content)}:".encode() + content)
    return digest.hexdigest()[:32]


def _stamps(path: str) -> Iterator[tuple[str, int, int]]:
    """Name, size and time of change of a file, or of all files of a folder."""
    yield _stamp(path, "")
    if os.path.isdir(path):  # noqa: PTH112 (paths that are no text stay as they are)
        found = 0
        for folder, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                found += 1
                if found > MOST_IN_FOLDER:
                    return
                yield _stamp(os.path.join(folder, name), name)  # noqa: PTH118


def _stamp(path: str, name: str) -> tuple[str, int, int]:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return name, -1, -1
    # A folder changes with what is put beside the profiles, as an export: its files tell.
    is_folder = os.path.isdir(path)  # noqa: PTH112
    return (name, 0, 0) if is_folder else (name, status.st_size, status.st_mtime_ns)
