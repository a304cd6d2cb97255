"""Reads reports of Nsight Systems (.nsys-rep, .qdrep) through an export: an existing one, or one that nsys makes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from tui.cache.secure_files import is_private, make_private_folder
from tui.loaders.base import Format, ProgressCallback, keep_going
from tui.loaders.collector import Collector
from tui.loaders.input_issues import InputIssue
from tui.loaders.nsys.export_tables import CALLS, COPIES, GRAPHS, KERNELS, RANGES, STRINGS
from tui.loaders.nsys.nsys_export import FEEDS, NSYS_DATABASE, export_command, read_export
from tui.loaders.raw_input import STANDARD_INPUT
from tui.loaders.sqlite.database import Database
from tui.loaders.sqlite.open_readonly import MAGIC as SQLITE_MAGIC
from tui.loaders.temp_folders import Scratch, exports_folder
from tui.loaders.worker_process import running_program
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.loaders.input_file import InputFile
    from tui.model.profile import Profile


_POLL_SECONDS: Final = 0.1
_MAX_EXPORTS: Final = 16
_MAX_EXPORT_BYTES: Final = 16 << 30
"""Limits of the folder of exports; the least recently used are removed first."""
_OUTPUT_BYTES: Final = 1 << 16
"""Bytes at the end of nsys's output that are searched for a message."""
_MESSAGE_CHARACTERS: Final = 300


def export_report(nsys: str, report: Path, source: InputFile, *, into: Path | None = None) -> Path:
    """Return the SQLite export of a report: from the cache, or made by nsys now.

    Args:
        nsys: The path of nsys.
        report: The absolute path of the report, so that its name cannot be read as an option.
        source: Gets the progress; stopping it stops the export.
        into: A folder for the export, instead of the user's cache.

    Raises:
        ProftuiError: nsys failed (with its error message), the user stopped it, or the disk is full.
    """
    try:
        folder = into or exports_folder()
        make_private_folder(folder)
        export = folder / f"{_key(report)}.sqlite"
        if _is_cached(export):
            os.utime(export)
            return export
        with Scratch(folder) as scratch:
            export_path = scratch / "export.sqlite"
            _run(nsys, report, export_path, source)
            export_path.chmod(0o600)
            export_path.replace(export)
    except OSError as error:
        raise ProftuiError(
            f"{source.display_name}: cannot be exported ({(error.strerror or str(error)).lower()})",
            "set XDG_CACHE_HOME to a writable folder with enough free space",
        ) from error
    _evict_exports(folder, keep=export)
    return export


def _is_cached(export: Path) -> bool:
    """Return whether the export exists already; one that another user could have written is removed.

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


def _run(nsys: str, report: Path, export_path: Path, source: InputFile) -> None:
    command = [nsys, "export", "--type=sqlite", "--force-overwrite=true", f"--output={export_path}", str(report)]
    with tempfile.TemporaryFile() as output:
        with running_program(command, cwd=export_path.parent, output=output) as process:
            status = _exit_status(process, export_path, source)
        if status is None:
            raise ProftuiError(f"{source.display_name}: stopped while nsys exported it")
        with contextlib.suppress(OSError), export_path.open("rb") as file:
            if status == 0 and file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC:
                return
        raise ProftuiError(
            f"{source.display_name}: nsys export failed: {_error_message(output) or f'exit status {status}'}",
            "use the version of nsys that recorded the report, or a newer one",
        )


def _exit_status(process: subprocess.Popen[bytes], export_path: Path, source: InputFile) -> int | None:
    """Wait for the export and report progress; None when the user stopped it."""
    while True:
        try:
            return process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                # An export is about as large as its report.
                source.bytes_read = max(source.bytes_read, min(export_path.stat().st_size, source.size or 0))
            if not source.keep_going():
                return None


def _error_message(output: IO[bytes]) -> str:
    """Return the most informative line of nsys's output: the last about an error or a version, else the last."""
    output.seek(max(0, output.seek(0, os.SEEK_END) - _OUTPUT_BYTES))
    lines = [line for text in output.read().decode("utf-8", "replace").splitlines() if (line := _printable(text))]
    errors = [line for line in lines if any(word in line.lower() for word in ("error", "newer", "version", "fail"))]
    return (errors or lines or [""])[-1][:_MESSAGE_CHARACTERS]


def _printable(line: str) -> str:
    """Return the line without control characters, blanks collapsed."""
    return " ".join("".join(character if character.isprintable() else " " for character in line).split())


def _key(report: Path) -> str:
    """Return a digest of path, size and modification time."""
    status = report.stat()
    identity = f"{report.resolve()}\0{status.st_size}\0{status.st_mtime_ns}"
    return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _evict_exports(folder: Path, *, keep: Path) -> None:
    """Remove the least recently used exports above the limits; another run may be doing the same."""
    exports: list[tuple[bool, float, int, Path]] = []
    for file in folder.glob("*.sqlite"):
        with contextlib.suppress(OSError):
            status = file.stat()
            exports.append((file == keep, status.st_mtime, status.st_size, file))
    total_size = 0
    for position, (is_kept, _, size, file) in enumerate(sorted(exports, reverse=True)):
        total_size += size
        if not is_kept and (position >= _MAX_EXPORTS or total_size > _MAX_EXPORT_BYTES):
            with contextlib.suppress(OSError):
                file.unlink()


MAGIC: Final = b"NVIDIA Tegra Profiler Report"

_UNIMPORTED_SUFFIX: Final = ".qdstrm"
"""The ending of a recording that was not imported into a report yet."""


class NsysReportLoader:
    """Reads the export in the report's folder, or runs nsys to make one."""

    formats: Final = (
        Format(
            name="nsys-report",
            title="Nsight Systems report",
            recognized_by=f"the first bytes {MAGIC.decode()}; read through nsys or the .sqlite export next to it",
            feeds=FEEDS,
            record_with="nsys profile --trace cuda,nvtx -o run ./app",
        ),
    )

    def probe(self, head: bytes, name: str) -> float:
        """Return certain by the first bytes."""
        return 1.0 if head.startswith(MAGIC) else 0.0

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read the export of the report.

        Raises:
            ProftuiError: There is no export and nsys cannot make one.
        """
        source.set_on_progress(on_progress)
        if source.name.endswith(_UNIMPORTED_SUFFIX):
            raise ProftuiError(
                f"{source.display_name}: an unprocessed Nsight Systems recording, not a report",
                f"import it: {shlex.join(['QdstrmImporter', '-i', source.name])}",
            )
        notes: list[InputIssue] = []
        report_path = Path(source.name)
        is_file = source.name != STANDARD_INPUT and source.compression is None and report_path.is_file()
        adjacent = _adjacent_export(report_path, notes) if is_file else None
        if adjacent is not None:
            notes.append(InputIssue("info", None, adjacent.name, "read from this export, next to the report"))
            return self._read(adjacent, source, notes)
        nsys = shutil.which("nsys")
        if nsys is None:
            command = export_command(source.name if is_file else "run.nsys-rep")
            raise ProftuiError(
                f"{source.display_name}: reading an Nsight Systems report requires nsys, which is not on the PATH",
                f"export it on a machine with nsys: {command}",
            )
        if is_file:
            export = export_report(nsys, report_path.absolute(), source)
            notes.append(InputIssue("info", None, "nsys export", "exported by nsys; the export is in the cache"))
            return self._read(export, source, notes)
        # A pipe or a compressed file: nsys needs a file with the ending of a report.
        with Scratch() as folder:
            link = folder / "report.nsys-rep"
            link.symlink_to(source.file())
            return self._read(export_report(nsys, link, source, into=folder), source, notes)

    def _read(self, export: Path, source: InputFile, notes: list[InputIssue]) -> Profile:
        collector = Collector(source.name, source.preview)
        with Database(export, source.display_name, keep_going=source.keep_going) as database:
            command = export_command(source.display_name)
            read_export(database, collector, self.formats[0].name, source.keep_going, export_hint=command)
        collector.session = None
        collector.add_issues([*source.notes, *notes, *database.notes])
        return collector.profile(partial="stopped before its end" if source.stopped else "")


def _adjacent_export(report: Path, notes: list[InputIssue]) -> Path | None:
    """Return the export beside a report, if it is complete and not older; otherwise a note gives the reason."""
    export = report.with_suffix(".sqlite")
    try:
        if not export.is_file():
            return None
        is_older = export.stat().st_mtime < report.stat().st_mtime
    except OSError:
        return None
    reason = (
        "it is older than the report" if is_older else "" if is_complete_export(export) else "it is empty or damaged"
    )
    if not reason:
        return export
    notes.append(InputIssue("info", None, export.name, f"the export next to the report was not used: {reason}"))
    return None


def is_complete_export(export: Path) -> bool:
    """Return whether a file is an export with events: a failed export is empty or has only the string table."""
    try:
        with Database(export, str(export)) as database:
            has_rows = any(database.has(table) for table in (KERNELS, COPIES, GRAPHS, CALLS, RANGES))
            return NSYS_DATABASE.claims(database) and database.has(STRINGS) and has_rows and not database.notes
    except (ProftuiError, OSError):
        return False


NSYS_REPORT: Final = NsysReportLoader()
