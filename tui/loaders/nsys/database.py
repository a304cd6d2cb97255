"""The SQLite export of Nsight Systems, of every version."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tui.loaders.base import Format
from tui.loaders.nsys.reader import read_export
from tui.loaders.nsys.tables import CALLS, COPIES, KERNELS, RANGES, STRINGS
from tui.loaders.sqlite.names import Names

if TYPE_CHECKING:
    from tui.loaders.collector import Collector
    from tui.loaders.source import Source
    from tui.loaders.sqlite.database import Database

FEEDS: Final = ("devices", "activities", "api_calls", "ops", "ranges", "tool_figures")

REPORT_ENDINGS: Final = (".nsys-rep", ".qdrep")
_PACKED: Final = (".gz", ".bz2", ".xz", ".zst")

RECORD: Final = "nsys profile --trace cuda,nvtx -o run ./app; nsys export --type sqlite -o run.sqlite run.nsys-rep"


class NsysDatabase:
    """Reads it."""

    format: Final = Format(
        name="nsys-sqlite",
        title="Nsight Systems SQLite export",
        recognised_by="an SQLite database with the table StringIds and tables of CUPTI activities or NVTX_EVENTS",
        feeds=FEEDS,
        record_with=RECORD,
    )

    def claims(self, database: Database) -> bool:
        """Whether the tables are Nsight's; a failed export may have the texts alone."""
        names = Names((*database.tables, *database.views, *database.virtual_tables))
        return (STRINGS in names and "StringTable" not in names) or all(
            table in names for table in (KERNELS, COPIES, CALLS, RANGES)
        )

    def read(self, database: Database, collector: Collector, source: Source) -> None:
        """Put what it holds into the collector.

        Raises:
            ProftuiError: It holds nothing: the export failed, or nothing was traced.
        """
        read_export(database, collector, self.format.name, source.keep_going, again=export_command(source.called))
        report = newer_report(Path(source.name))
        if report is not None:
            collector.session = None
            reason = (
                f"it is newer than this export, which may be of an earlier recording; export again: "
                f"{export_command(str(report))}"
            )
            collector.issue("warning", None, report.name, reason)


def newer_report(export: Path) -> Path | None:
    """The report beside an export that is newer than it."""
    for ending in REPORT_ENDINGS:
        try:
            report = export.with_suffix(ending)
            if report != export and report.stat().st_mtime > export.stat().st_mtime:
                return report
        except (OSError, ValueError):
            continue
    return None


def export_command(name: str) -> str:
    """The command that writes the export of a report; the name is the report's or the export's.

    >>> export_command("runs/a.sqlite.gz")
    'nsys export --type sqlite --force-overwrite true -o runs/a.sqlite runs/a.nsys-rep'
    >>> export_command("-a b.qdrep")
    "nsys export --type sqlite --force-overwrite true -o './-a b.sqlite' './-a b.qdrep'"
    """
    path = Path(name)
    if path.suffix in _PACKED:
        path = path.with_suffix("")
    report = path if path.suffix in REPORT_ENDINGS else path.with_suffix(REPORT_ENDINGS[0])
    names = [f"./{one}" if str(one).startswith("-") else str(one) for one in (path.with_suffix(".sqlite"), report)]
    return shlex.join(["nsys", "export", "--type", "sqlite", "--force-overwrite", "true", "-o", *names])


NSYS_DATABASE: Final = NsysDatabase()
