"""Letting nsys export a report: in the background, stopped with the user, kept for the next time."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from tui.loaders.scratch import Scratch, exports_folder
from tui.loaders.sqlite.opening import MAGIC
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.loaders.source import Source

_GUARD: Final = (sys.executable, "-I", str(Path(__file__).parents[1] / "guard.py"))
"""It ends nsys where this process is killed."""
_POLL_SECONDS: Final = 0.1
_GRACE_SECONDS: Final = 2.0
"""So long nsys may take to end when it is asked to."""
_MOST_EXPORTS: Final = 16
_MOST_BYTES: Final = 16 << 30
"""So many exports, and so much of them, are kept; the ones not used for longest go first."""
_SAID_BYTES: Final = 1 << 16
_SAID_LIMIT: Final = 300


def exported(nsys: str, report: Path, source: Source, *, into: Path | None = None) -> Path:
    """The SQLite export of a report, made by nsys if it was not made before.

    Args:
        nsys: The program.
        report: An absolute path, so that no name is taken for an option.
        source: Told of progress; ends the export when it is stopped.
        into: A folder for the export, instead of the user's cache.

    Raises:
        ProftuiError: nsys failed, with what it said; or it was stopped; or there is no room.
    """
    try:
        folder = into or exports_folder()
        folder.mkdir(parents=True, exist_ok=True)
        export = folder / f"{_key(report)}.sqlite"
        if export.is_file():
            os.utime(export)
            return export
        with Scratch(folder) as scratch:
            made = scratch / "export.sqlite"
            _run(nsys, report, made, source)
            made.replace(export)
        _make_room(folder, keep=export)
    except OSError as error:
        raise ProftuiError(
            f"{source.called}: cannot be exported ({(error.strerror or str(error)).lower()})",
            "set XDG_CACHE_HOME to a folder with more room",
        ) from error
    return export


def _run(nsys: str, report: Path, made: Path, source: Source) -> None:
    command = [*_GUARD, nsys, "export", "--type=sqlite", "--force-overwrite=true", f"--output={made}", str(report)]
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=made.parent,
            start_new_session=True,
        ) as process,
    ):
        try:
            status = _waited(process, made, source)
        finally:
            _end(process)
        if status is None:
            raise ProftuiError(f"{source.called}: stopped while nsys exported it")
        with contextlib.suppress(OSError), made.open("rb") as file:
            if status == 0 and file.read(len(MAGIC)) == MAGIC:
                return
        raise ProftuiError(
            f"{source.called}: nsys could not export it: {_last_words(said) or f'exit status {status}'}",
            "a report needs the nsys that recorded it, or a newer one",
        )


def _waited(process: subprocess.Popen[bytes], made: Path, source: Source) -> int | None:
    """The exit status; None where the user stopped it."""
    while True:
        try:
            return process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                # Exports are of about the size of their reports.
                source.bytes_read = max(source.bytes_read, min(made.stat().st_size, source.size or 0))
            if not source.keep_going():
                return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it, and what it started."""
    if process.poll() is not None:
        return
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
            return


def _last_words(said: IO[bytes]) -> str:
    """What nsys said, the line that tells most, without signs that a terminal obeys."""
    said.seek(max(0, said.seek(0, os.SEEK_END) - _SAID_BYTES))
    lines = [_plain(line) for line in said.read().decode("utf-8", "replace").splitlines()]
    return _telling([line for line in lines if line])[:_SAID_LIMIT]


def _telling(lines: Sequence[str]) -> str:
    """The last line that speaks of an error or a version, else the last."""
    found = [line for line in lines if any(word in line.lower() for word in ("error", "newer", "version", "fail"))]
    return (found or lines or [""])[-1]


def _plain(line: str) -> str:
    return " ".join("".join(sign if sign.isprintable() else " " for sign in line).split())


def _key(report: Path) -> str:
    """Another for another file, and for the same one when it was written again."""
    status = report.stat()
    told = f"{report.resolve()}\0{status.st_size}\0{status.st_mtime_ns}"
    return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _make_room(folder: Path, *, keep: Path) -> None:
    """Remove the exports that were not used for longest."""
    exports = sorted(
        ((file.stat(), file) for file in folder.glob("*.sqlite") if file != keep),
        key=lambda one: one[0].st_mtime,
        reverse=True,
    )
    size = keep.stat().st_size
    for place, (status, file) in enumerate(exports, start=1):
        size += status.st_size
        if place >= _MOST_EXPORTS or size > _MOST_BYTES:
            with contextlib.suppress(OSError):
                file.unlink()
