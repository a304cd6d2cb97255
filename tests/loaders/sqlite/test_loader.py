"""Databases as inputs: progress, stops, compressed files, unknown tables."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.loaders.nsys import twin
from tui.loaders import input_file, raw_input
from tui.loaders.registry import load_input
from tui.loaders.sqlite import database, read_rows
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.loaders.base import LoadProgress


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an export with 3,000 kernels, read in small ranges, with a report after each."""
    monkeypatch.setattr(database, "_MIN_BULK_ROWS", 100)
    monkeypatch.setattr(read_rows, "RANGE_ROWS", 500)
    monkeypatch.setattr(raw_input, "_REPORT_EVERY_S", 0)
    monkeypatch.setattr(input_file, "_READ_BYTES", 4096)
    kernels = [twin.kernel(100, 10 * row, 10 * row + 5, row) for row in range(3_000)]
    tables = {"StringIds": twin.tables("2023.4")["StringIds"], "CUPTI_ACTIVITY_KIND_KERNEL": kernels}
    return twin.write(tmp_path / "run.sqlite", "2023.4", tables)


def test_progress_grows_and_never_passes_the_size(export: Path) -> None:
    progress_reports: list[LoadProgress] = []

    def report(progress: LoadProgress) -> bool:
        progress_reports.append(progress)
        return True

    assert load_input(str(export), on_progress=report)["activities"].height == 3_000
    read = [progress.bytes_read for progress in progress_reports]
    assert read == sorted(read)
    assert len(set(read)) > 3
    assert read[-1] <= export.stat().st_size == progress_reports[0].bytes_total
    assert max(progress.rows for progress in progress_reports) >= 3_000


def test_a_stop_keeps_what_was_read(export: Path) -> None:
    profile = load_input(str(export), on_progress=lambda progress: progress.rows < 1_000)
    assert profile["activities"]["start_ns"].to_list() == list(range(0, 10_000, 10))
    assert profile.partial == "stopped before its end"


def test_a_stop_during_decompression_is_an_error(export: Path) -> None:
    packed = export.with_suffix(".gz")
    packed.write_bytes(gzip.compress(export.read_bytes()))
    with pytest.raises(ProftuiError, match=r"run\.gz: "):
        load_input(str(packed), on_progress=lambda _: False)


def test_the_error_for_an_unknown_database_lists_its_tables(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("CREATE TABLE cats (name)")
    connection.commit()
    connection.close()
    with pytest.raises(
        ProftuiError, match=r"no profile found: an SQLite database with cats; proftui formats"
    ) as progress_reports:
        load_input(str(tmp_path / "a.db"))
    assert progress_reports.value.hint == "proftui formats lists the supported formats"


def test_a_damaged_database_without_a_profile_reports_the_damage(tmp_path: Path) -> None:
    """The recording is not at fault: the error must not suggest to record again."""
    tables = {"StringIds": twin.tables("2023.4")["StringIds"], "CUPTI_ACTIVITY_KIND_KERNEL": []}
    path = twin.write(tmp_path / "run.sqlite", "2023.4", tables)
    with pytest.raises(ProftuiError, match="an incomplete"):
        load_input(str(path))
    content = path.read_bytes()
    path.write_bytes(content[:-4096])
    with pytest.raises(
        ProftuiError, match=r"run\.sqlite: cannot be read: the file is 4,096 bytes shorter than"
    ) as error:
        load_input(str(path))
    assert "readable part" not in error.value.message
