"""Writing a Parquet dataset: part by part, each atomically, the manifest last.

`prepare` checks the folder, `write_part` reads one input and writes its part, `finish` writes the manifest. Parts can
be written in any order and by several processes or machines at once; an existing part of an unchanged input
is not written again, so an interrupted conversion is completed by running it again.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl
import xxhash

import tui
from tui.loaders.dataset_loader import (
    LAYOUT,
    MANIFEST,
    PARTS,
    RANK_NAME,
    ROW_GROUP_ROWS,
    UNDECODABLE,
    DatasetPart,
    Manifest,
    PartFile,
    part_file_path,
    part_problem,
)
from tui.loaders.raw_input import STANDARD_INPUT
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError, path_text
from tui.model.schema import FRAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tui.model.profile import Profile


_FILE_SUFFIXES: Final = (".parquet", ".json", ".making")


def remove_dataset(folder: Path) -> None:
    """Remove a dataset, its manifest first.

    Raises:
        OSError: A file cannot be removed.
    """
    (folder / MANIFEST).unlink(missing_ok=True)
    for path in _written_files(folder):
        path.unlink(missing_ok=True)
    _remove_empty(folder)


def remove_stale_files(folder: Path, parts: Sequence[DatasetPart]) -> None:
    """Remove files of parts that are no longer in the dataset, and unfinished files.

    Raises:
        OSError: A file cannot be removed.
    """
    keep = {f"{PARTS}/{part.name}.json" for part in parts}
    keep |= {part_file_path(part, file) for part in parts for file in part.files}
    for path in _written_files(folder):
        if path.relative_to(folder).as_posix() not in keep:
            path.unlink(missing_ok=True)
    _remove_empty(folder)


def remove_empty_parts(folder: Path) -> None:
    """Remove the folder of parts if it is empty."""
    with suppress(OSError):
        (folder / PARTS).rmdir()


def _written_files(folder: Path) -> Iterator[Path]:
    """Yield the files written by proftui, by path and name."""
    yield from (path for path in _files(folder) if path.name.startswith(MANIFEST) and path.name.endswith(".making"))
    yield from _files(folder / PARTS)
    for frame in FRAMES:
        for rank_folder in _folders(folder / frame):
            yield from (path for path in _files(rank_folder) if path.name.startswith("part-"))


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir() or folder.is_symlink():
        return []
    return [path for path in sorted(folder.iterdir()) if path.name.endswith(_FILE_SUFFIXES) and not path.is_dir()]


def _folders(folder: Path) -> list[Path]:
    if not folder.is_dir() or folder.is_symlink():
        return []
    return [path for path in sorted(folder.iterdir()) if path.is_dir() and RANK_NAME.fullmatch(path.name)]


def _remove_empty(folder: Path) -> None:
    for frame in FRAMES:
        for subfolder in (*_folders(folder / frame), folder / frame):
            # The folder is not empty, or missing.
            with suppress(OSError):
                subfolder.rmdir()


UNFINISHED_SUFFIX: Final = ".making"
"""The ending of files that are being written."""

_EDGE: Final = 1 << 16
_BLOCK: Final = 1 << 20


def prepare(out_dir: str, inputs: Sequence[str], *, format_in: str | None = None, overwrite: bool = False) -> None:
    """Prepare the folder for parts; the manifest is removed if a part will be written again.

    Args:
        out_dir: The folder, created if it is missing.
        inputs: All inputs of the dataset.
        format_in: The format, if the user chose it.
        overwrite: Whether to replace a dataset of other inputs.

    Raises:
        ProftuiError: It is a file, or contains other files or a dataset of other inputs.
        OSError: It cannot be created or written to.
    """
    folder = Path(out_dir)
    if folder.exists() and not folder.is_dir():
        raise ProftuiError(f"{out_dir}: is a file", "a dataset is a folder; choose a new or empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    has_manifest = (folder / MANIFEST).exists()
    if not has_manifest and not (folder / PARTS).is_dir() and any(folder.iterdir()):
        raise ProftuiError(f"{out_dir}: contains other files", "choose a new or empty folder")
    if has_manifest:
        parts = {path.stem for path in (folder / PARTS).glob("*.json")}
        if not parts <= {part_name(path) for path in inputs}:
            if not overwrite:
                raise ProftuiError(f"{out_dir}: contains a dataset of other files", "use --overwrite to replace it")
            remove_dataset(folder)
        elif any(_existing_part(folder, path, format_in) is None for path in inputs):
            (folder / MANIFEST).unlink()
    (folder / PARTS).mkdir(exist_ok=True)


def write_part(path: str, out_dir: str, *, format_in: str | None = None) -> DatasetPart:
    """Read an input and write its part; an existing part is replaced.

    The frames are sorted by session and time and split by rank (`tui.loaders.dataset_loader`); lines of a text are
    not included.

    Args:
        path: A file, a folder that is one profile, or ``-``.
        out_dir: The folder of the dataset.
        format_in: The format, if the user chose it.

    Returns:
        The part, for `finish`.

    Raises:
        ProftuiError: The input cannot be read.
        OSError: The part cannot be written.
    """
    folder = Path(out_dir)
    if (existing := _existing_part(folder, path, format_in)) is not None:
        return existing
    identity_before = _identity(path)
    profile = load_input(path, format_in=format_in)
    size, modified_ns, digest = identity_before if identity_before == _identity(path) else (None, None, None)
    part = msgspec.structs.replace(
        write_frames(profile, path, out_dir), size=size, modified_ns=modified_ns, digest=digest, format_in=format_in
    )
    _replace(folder / PARTS / f"{part.name}.json", msgspec.json.encode(part))
    return part


def write_frames(profile: Profile, path: str, out_dir: str) -> DatasetPart:
    """Write the frames of a profile.

    Args:
        profile: The profile.
        path: The path of its input.
        out_dir: The folder of the dataset.

    Returns:
        The part, without a fingerprint of the input.

    Raises:
        OSError: It cannot be written.
    """
    folder, name = Path(out_dir), part_name(path)
    (folder / PARTS).mkdir(parents=True, exist_ok=True)
    return DatasetPart(
        name=name,
        source=path_text(path),
        size=None,
        modified_ns=None,
        digest=None,
        format_in=None,
        program=tui.__version__,
        formats=tuple(profile["sessions"]["format"].unique(maintain_order=True)),
        sessions=profile["sessions"].height,
        rows={name: data.height for name, data in profile.frames.items() if data.height},
        has_text=bool(profile.texts),
        files=tuple(_write_frames(folder, name, profile)),
    )


def finish(out_dir: str, parts: Sequence[DatasetPart]) -> Manifest:
    """Write the manifest, and remove files that do not belong to the dataset.

    Args:
        out_dir: The folder of the dataset.
        parts: Its parts, in the order in which their sessions are numbered.

    Raises:
        ProftuiError: There are no parts.
        OSError: It cannot be written.
    """
    folder = Path(out_dir)
    if not parts:
        remove_empty_parts(folder)
        raise ProftuiError(f"{out_dir}: no dataset written: none of the files could be read")
    rows: dict[str, int] = {}
    for part in parts:
        for name, count in part.rows.items():
            rows[name] = rows.get(name, 0) + count
    manifest = Manifest(
        layout=LAYOUT,
        program=tui.__version__,
        sessions=sum(part.sessions for part in parts),
        formats=tuple(dict.fromkeys(name for part in parts for name in part.formats)),
        rows=rows,
        parts=tuple(parts),
    )
    _replace(folder / MANIFEST, msgspec.json.encode(manifest) + b"\n")
    remove_stale_files(folder, parts)
    return manifest


def part_name(path: str) -> str:
    """Return the name of the part of an input, by its path.

    >>> part_name("/runs/rank 0.nsys-rep")
    'rank_0.nsys-rep-502fb6692c73'
    """
    real = path if path == STANDARD_INPUT or "://" in path else os.path.realpath(path)
    file_name = "stdin" if path == STANDARD_INPUT else os.path.basename(real)  # noqa: PTH119 (a name may be no text)
    safe_name = re.sub(r"[^A-Za-z0-9_.-]", "_", file_name)[:60].lstrip(".-") or "part"
    return f"{safe_name}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:12]}"


def _existing_part(folder: Path, path: str, format_in: str | None) -> DatasetPart | None:
    """Return the existing part of an input, if it is complete and the input is unchanged."""
    size, modified_ns, digest = _identity(path)
    if digest is None:
        return None
    name = part_name(path)
    try:
        part = msgspec.json.decode((folder / PARTS / f"{name}.json").read_bytes(), type=DatasetPart)
        if part.name != name or part_problem(part):
            return None
        is_unchanged = (part.size, part.modified_ns, part.digest) == (size, modified_ns, digest)
        is_complete = all((folder / part_file_path(part, file)).stat().st_size == file.size for file in part.files)
    except (OSError, *UNDECODABLE):
        return None
    return (
        part
        if is_unchanged and is_complete and (part.format_in, part.program) == (format_in, tui.__version__)
        else None
    )


def _identity(path: str) -> tuple[int | None, int | None, str | None]:
    """Size, modification time and a digest of an input; None if unavailable.

    A database with a journal may be being written to, so it has none.
    """
    if path == STANDARD_INPUT or any(os.path.exists(path + suffix) for suffix in ("-wal", "-journal")):  # noqa: PTH110
        return None, None, None
    try:
        status = os.stat(path)  # noqa: PTH116 (a name may be no text)
        if stat.S_ISDIR(status.st_mode):
            files = sorted((entry.name, entry.stat()) for entry in os.scandir(path) if entry.is_file())
            entries = [(name, status.st_size, status.st_mtime_ns) for name, status in files]
            size, modified = (
                sum(size for _, size, _ in entries),
                max((modified_ns for _, _, modified_ns in entries), default=0),
            )
            return size, modified, hashlib.sha256(repr(entries).encode(errors="replace")).hexdigest()
        if not stat.S_ISREG(status.st_mode):
            return None, None, None
        with open(path, "rb") as file:  # noqa: PTH123
            digest = hashlib.sha256(file.read(_EDGE))
            file.seek(max(0, status.st_size - _EDGE))
            digest.update(file.read(_EDGE))
        return status.st_size, status.st_mtime_ns, digest.hexdigest()
    except (OSError, ValueError):
        return None, None, None


def _write_frames(folder: Path, name: str, profile: Profile) -> list[PartFile]:
    ranks = profile["sessions"].select("session", run=pl.col("rank").rle_id(), rank="rank")
    runs = ranks.group_by("run", maintain_order=True).agg(pl.col("rank").first(), last=pl.col("session").max()).rows()
    part_files: list[PartFile] = []
    for frame, data in profile.frames.items():
        if not data.height:
            continue
        data = _sort_rows(frame, data)
        # Rows of no session (issues) come last.
        ends = [*(int((data["session"] <= last_session).sum()) for _, _, last_session in runs[:-1]), data.height]
        for (run, rank, _), begin, end in zip(runs, [0, *ends[:-1]], ends, strict=True):
            if end > begin:
                part_files.append(_write_file(folder, name, frame, run, rank, data.slice(begin, end - begin)))
    return part_files


def _write_file(folder: Path, name: str, frame: str, run: int, rank: int | None, data: pl.DataFrame) -> PartFile:
    def part_file(size: int, digest: str) -> PartFile:
        return PartFile(frame, rank, run, data.height, size, digest)

    empty = DatasetPart(name, "", None, None, None, None, "", (), 0, {}, False, ())
    path = folder / part_file_path(empty, part_file(0, ""))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_path(path)
    try:
        data.write_parquet(temporary, compression="zstd", statistics=True, row_group_size=ROW_GROUP_ROWS)
        digest = xxhash.xxh3_128()
        with temporary.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
            size = file.tell()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return part_file(size, digest.hexdigest())


def _sort_rows(frame: str, data: pl.DataFrame) -> pl.DataFrame:
    """Sort rows by session and start; keep the order of rows without start times."""
    # Activities and ops are sorted already: they are numbered by time.
    is_timed = "start_ns" in data.columns and frame not in ("activities", "ops")
    if not is_timed and data["session"].is_sorted(nulls_last=True):
        return data
    return data.sort(["session", "start_ns"] if is_timed else "session", nulls_last=True, maintain_order=True)


def _temporary_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}{UNFINISHED_SUFFIX}")


def _replace(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    temporary = _temporary_path(path)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
