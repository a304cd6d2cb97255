"""Taking away what does not belong to a dataset; what proftui did not write is never touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tui.loaders.dataset.manifest import MANIFEST, PARTS, RANK_NAME, Part, path_of
from tui.model.schema import FRAMES

_ENDINGS: Final = (".parquet", ".json", ".making")


def remove_all(folder: Path) -> None:
    """Take a dataset away, its manifest first.

    Raises:
        OSError: Something cannot be taken away.
    """
    (folder / MANIFEST).unlink(missing_ok=True)
    for path in _own(folder):
        path.unlink(missing_ok=True)
    _remove_empty(folder)


def remove_others(folder: Path, parts: Sequence[Part]) -> None:
    """Take away the files of parts that the dataset no longer has, and what was left half written.

    Raises:
        OSError: Something cannot be taken away.
    """
    keep = {f"{PARTS}/{part.name}.json" for part in parts}
    keep |= {path_of(part, file) for part in parts for file in part.files}
    for path in _own(folder):
        if path.relative_to(folder).as_posix() not in keep:
            path.unlink(missing_ok=True)
    _remove_empty(folder)


def remove_empty_parts(folder: Path) -> None:
    """Take away the place of parts where there are none: the folder is then as it was before."""
    with suppress(OSError):
        (folder / PARTS).rmdir()


def _own(folder: Path) -> Iterator[Path]:
    """The files that proftui writes, by where they lie and how they are called."""
    yield from (path for path in _files(folder) if path.name.startswith(MANIFEST) and path.name.endswith(".making"))
    yield from _files(folder / PARTS)
    for frame in FRAMES:
        for within in _folders(folder / frame):
            yield from (path for path in _files(within) if path.name.startswith("part-"))


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir() or folder.is_symlink():
        return []
    return [path for path in sorted(folder.iterdir()) if path.name.endswith(_ENDINGS) and not path.is_dir()]


def _folders(folder: Path) -> list[Path]:
    if not folder.is_dir() or folder.is_symlink():
        return []
    return [path for path in sorted(folder.iterdir()) if path.is_dir() and RANK_NAME.fullmatch(path.name)]


def _remove_empty(folder: Path) -> None:
    for frame in FRAMES:
        for within in (*_folders(folder / frame), folder / frame):
            # One that is not empty, or not there, stays as it is.
            with suppress(OSError):
                within.rmdir()
