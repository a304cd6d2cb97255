"""Reports of Nsight Systems (.nsys-rep, .qdrep): exported by nsys in the background, or by an export beside them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from tui.loaders.base import Format
from tui.loaders.collector import Collector
from tui.loaders.input_issues import Note
from tui.loaders.nsys.export_tables import CALLS, COPIES, GRAPHS, KERNELS, RANGES, STRINGS
from tui.loaders.nsys.nsys_export import FEEDS, NSYS_DATABASE, export_command, read_export
from tui.loaders.progress import Report, keep_going
from tui.loaders.raw_input import STANDARD_INPUT
from tui.loaders.sqlite.database import Database
from tui.loaders.sqlite.open_readonly import MAGIC as SQLITE_MAGIC
from tui.loaders.temp_folders import Scratch, exports_folder, is_private, make_private
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.source import Source
    from tui.model.profile import Profile


_GUARD: Final = (sys.executable, "-I", str(Path(__file__).parents[1] / "exit_with_parent.py"))
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
        make_private(folder)
        export = folder / f"{_key(report)}.sqlite"
        if _is_kept(export):
            os.utime(export)
            return export
        with Scratch(folder) as scratch:
            made = scratch / "export.sqlite"
            _run(nsys, report, made, source)
            made.chmod(0o600)
            made.replace(export)
        _make_room(folder, keep=export)
    except OSError as error:
        raise ProftuiError(
            f"{source.called}: cannot be exported ({(error.strerror or str(error)).lower()})",
            "set XDG_CACHE_HOME to a folder with more room",
        ) from error
    return export


def _is_kept(export: Path) -> bool:
    """Whether an export was made before; one that somebody else could have written is removed.

    Raises:
        OSError: It cannot be removed.
    """
    try:
        status = export.lstat()
    except FileNotFoundError:
        return False
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and is_private(status):
        return True
    export.unlink()
    return False


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
            if status == 0 and file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC:
                return
        raise ProftuiError(
            f"{source.called}: nsys export failed: {_last_messages(said) or f'exit status {status}'}",
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


def _last_messages(said: IO[bytes]) -> str:
    """What nsys said, the line that tells most, without signs that a terminal obeys."""
    said.seek(max(0, said.seek(0, os.SEEK_END) - _SAID_BYTES))
    lines = [_plain(line) for line in said.read().decode("utf-8", "replace").splitlines()]
    return _errors_of_nsys([line for line in lines if line])[:_SAID_LIMIT]


def _errors_of_nsys(lines: Sequence[str]) -> str:
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


MAGIC: Final = b"NVIDIA Tegra Profiler Report"

_NOT_IMPORTED: Final = ".qdstrm"
"""How the name of a recording ends that was not made a report yet."""


class NsysReportLoader:
    """Reads the export beside a report, or lets nsys make one."""

    formats: Final = (
        Format(
            name="nsys-report",
            title="Nsight Systems report",
            recognized_by=f"the first bytes {MAGIC.decode()}; read by way of nsys, or of the .sqlite beside it",
            feeds=FEEDS,
            record_with="nsys profile --trace cuda,nvtx -o run ./app",
        ),
    )

    def probe(self, head: bytes, name: str) -> float:
        """Sure by the first bytes."""
        return 1.0 if head.startswith(MAGIC) else 0.0

    def load(self, source: Source, report: Report = keep_going) -> Profile:
        """Read what the report's export holds.

        Raises:
            ProftuiError: There is no export and nsys cannot make one.
        """
        source.report_to(report)
        if source.name.endswith(_NOT_IMPORTED):
            raise ProftuiError(
                f"{source.called}: an unfinished Nsight Systems recording, not a report yet",
                f"make it one: {shlex.join(['QdstrmImporter', '-i', source.name])}",
            )
        notes: list[Note] = []
        named = Path(source.name)
        is_file = source.name != STANDARD_INPUT and source.compression is None and named.is_file()
        beside = _export_beside(named, notes) if is_file else None
        if beside is not None:
            notes.append(Note("info", None, beside.name, "read from this export, which lies beside the report"))
            return self._read(beside, source, notes)
        nsys = shutil.which("nsys")
        if nsys is None:
            command = export_command(source.name if is_file else "run.nsys-rep")
            raise ProftuiError(
                f"{source.called}: an Nsight Systems report, which only nsys can read; nsys is not on the PATH",
                f"on a machine with nsys: {command}",
            )
        if is_file:
            export = exported(nsys, named.absolute(), source)
            notes.append(Note("info", None, "nsys export", "exported by nsys; the export is kept in the cache"))
            return self._read(export, source, notes)
        # Read from a pipe, or packed: the copy gets the name that nsys wants.
        with Scratch() as folder:
            link = folder / "report.nsys-rep"
            link.symlink_to(source.file())
            return self._read(exported(nsys, link, source, into=folder), source, notes)

    def _read(self, export: Path, source: Source, notes: list[Note]) -> Profile:
        collector = Collector(source.name, source.preview)
        with Database(export, source.called, keep_going=source.keep_going) as database:
            again = export_command(source.called)
            read_export(database, collector, self.formats[0].name, source.keep_going, again=again)
        for note in (*source.notes, *notes, *database.notes):
            collector.session = None
            collector.issue(note.severity, note.line, note.text, note.reason)
        return collector.profile(partial="stopped before its end" if source.stopped else "")


def _export_beside(report: Path, notes: list[Note]) -> Path | None:
    """The export that nsys left beside a report, where it is whole and not older; else a note why not."""
    export = report.with_suffix(".sqlite")
    try:
        if not export.is_file():
            return None
        is_older = export.stat().st_mtime < report.stat().st_mtime
    except OSError:
        return None
    why = "it is older than the report" if is_older else "" if is_whole(export) else "it is empty or damaged"
    if not why:
        return export
    notes.append(Note("info", None, export.name, f"the export beside the report was not used: {why}"))
    return None


def is_whole(export: Path) -> bool:
    """Whether a file is an export with rows: one that failed has no bytes, or texts alone."""
    try:
        with Database(export, str(export)) as database:
            has_rows = any(database.has(table) for table in (KERNELS, COPIES, GRAPHS, CALLS, RANGES))
            return NSYS_DATABASE.claims(database) and database.has(STRINGS) and has_rows and not database.notes
    except (ProftuiError, OSError):
        return False


NSYS_REPORT: Final = NsysReportLoader()
