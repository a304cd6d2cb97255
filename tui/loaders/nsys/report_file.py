"""Nsight's own reports (.nsys-rep, .qdrep): what their export holds, which nsys alone can write."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tui.loaders.base import Format, Report, keep_going
from tui.loaders.collector import Collector
from tui.loaders.notes import Note
from tui.loaders.nsys.database import FEEDS, NSYS_DATABASE, export_command
from tui.loaders.nsys.exporting import exported
from tui.loaders.nsys.reader import read_export
from tui.loaders.nsys.tables import CALLS, COPIES, GRAPHS, KERNELS, RANGES, STRINGS
from tui.loaders.raw_input import STANDARD_INPUT
from tui.loaders.scratch import Scratch
from tui.loaders.sqlite.database import Database
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.loaders.source import Source
    from tui.model.profile import Profile

MAGIC: Final = b"NVIDIA Tegra Profiler Report"

_NOT_IMPORTED: Final = ".qdstrm"
"""How the name of a recording ends that was not made a report yet."""


class NsysReportLoader:
    """Reads the export beside a report, or lets nsys make one."""

    formats: Final = (
        Format(
            name="nsys-report",
            title="Nsight Systems report",
            recognised_by=f"the first bytes {MAGIC.decode()}; read by way of nsys, or of the .sqlite beside it",
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
                f"{source.called}: a recording of Nsight Systems that is no report yet",
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
                f"{source.called}: a report of Nsight Systems, which nsys alone can read; no nsys is on the PATH",
                f"where there is one: {command}",
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
