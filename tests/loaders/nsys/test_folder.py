"""The export as a folder of Parquet files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.loaders.damage import sample
from tests.loaders.nsys import twin
from tests.parameters import others_slow
from tui.loaders.nsys.parquet_export import NSYS_FOLDER, is_parquetdir
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.loaders.base import LoadProgress

FRAMES = ("activities", "api_calls", "ops", "ranges", "devices")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "run")


def write(path: Path) -> Path:
    """Write a folder as Nsight does: ids are unsigned, names are numbers."""
    path.mkdir()
    known = twin.columns("2023.4")
    for table, rows in twin.tables("2023.4").items():
        data = pl.DataFrame([{name: row.get(name) for name in known[table]} for row in rows], infer_schema_length=None)
        ids = [name for name in ("globalPid", "globalTid") if name in data.columns]
        data.with_columns(pl.col(ids).cast(pl.UInt64)).write_parquet(path / f"{table}.parquet")
    return path


def test_the_folder_reads_the_same_as_the_database(folder: Path, tmp_path: Path) -> None:
    profile = load_input(str(folder))
    database = load_input(str(twin.write(tmp_path / "run.sqlite", "2023.4")))
    for frame in FRAMES:
        assert profile[frame].equals(database[frame]), frame
    assert profile["sessions"]["format"].to_list() == ["nsys-parquet"] * 2
    assert profile.sources == (str(folder),)
    assert profile["issues"].height == 5


def test_only_folders_with_parquet_tables_are_recognized(folder: Path, tmp_path: Path) -> None:
    assert is_parquetdir(folder)
    assert not is_parquetdir(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "StringIds.parquet").write_bytes(b"text")
    assert not is_parquetdir(tmp_path / "other")
    assert not is_parquetdir(tmp_path / "missing")


def test_a_damaged_table_affects_no_other_table(folder: Path) -> None:
    file = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    file.write_bytes(file.read_bytes()[:200])
    profile = load_input(str(folder))
    assert profile["activities"]["kind"].unique(maintain_order=True).to_list() == ["memcpy", "memset"]
    [(severity, text, reason)] = (
        profile["issues"].filter(pl.col("severity") == "error").select("severity", "text", "reason").rows()
    )
    assert (severity, text) == ("error", "CUPTI_ACTIVITY_KIND_KERNEL")
    assert reason.startswith("the table cannot be read (")


@pytest.mark.parametrize("position", range(20, 1400, 60))
def test_overwritten_bytes_raise_no_unexpected_exception(folder: Path, position: int) -> None:
    file = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    content = bytearray(file.read_bytes())
    content[position : position + 40] = b"\xff" * len(content[position : position + 40])
    file.write_bytes(content)
    assert load_input(str(folder))["api_calls"].height == 12


def test_a_table_that_claims_more_rows_than_its_bytes_can_hold_is_not_read(folder: Path) -> None:
    rows = pl.DataFrame({"start": [7]}).select(pl.col("start").repeat_by(2_000_000).explode())
    rows.write_parquet(folder / "CUPTI_ACTIVITY_KIND_MEMSET.parquet", compression="zstd")
    profile = load_input(str(folder))
    assert "memset" not in profile["activities"]["kind"].to_list()
    assert "claims 2,000,000 rows" in "".join(profile["issues"]["reason"])


def test_columns_of_another_type_are_null(folder: Path) -> None:
    file = folder / "CUPTI_ACTIVITY_KIND_MEMSET.parquet"
    data = pl.read_parquet(file)
    data.with_columns(pl.lit("many").alias("bytes"), pl.lit([1, 2]).alias("streamId")).write_parquet(file)
    memsets = load_input(str(folder))["activities"].filter(pl.col("kind") == "memset")
    assert memsets.select("start_ns", "duration_ns", "size_bytes", "stream").row(0) == (1720, 5, None, None)


def test_a_stop_keeps_what_was_read(folder: Path) -> None:
    progress_reports: list[LoadProgress] = []

    def report(progress: LoadProgress) -> bool:
        progress_reports.append(progress)
        return len(progress_reports) < 6

    profile = NSYS_FOLDER.load_folder(folder, report)
    assert profile.partial == "stopped before its end"
    assert profile["activities"]["kind"].unique(maintain_order=True).to_list() == ["kernel", "memcpy"]
    assert progress_reports[0].bytes_total == sum(file.stat().st_size for file in folder.iterdir())


def test_a_stop_before_anything_was_read_is_an_error(folder: Path) -> None:
    with pytest.raises(ProftuiError, match="stopped before anything was read"):
        NSYS_FOLDER.load_folder(folder, lambda _: False)


def test_an_empty_export_is_declined(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    pl.DataFrame({"id": [1], "value": ["x"]}).write_parquet(path / "StringIds.parquet")
    with pytest.raises(ProftuiError, match="an incomplete Nsight Systems export"):
        load_input(str(path))


STRANGE = {
    "struct": pl.struct(pl.lit(1).alias("a")),
    "list": pl.concat_list(pl.lit(1)),
    "nested": pl.concat_list(pl.struct(pl.concat_list(pl.lit("x")).alias("a"))),
    "bytes": pl.lit(b"\xff"),
    "time": pl.lit(1).cast(pl.Datetime("us")),
    "duration": pl.lit(1).cast(pl.Duration("ns")),
    "decimal": pl.lit(1).cast(pl.Decimal(38, 2)),
    "text": pl.lit("\x1b]0;x٢"),
    "huge": pl.lit(2**63).cast(pl.UInt64),
    "fraction": pl.lit(float("nan")),
    "flag": pl.lit(True),
    "nothing": pl.lit(None),
}


@pytest.mark.parametrize("strange", others_slow(STRANGE, ("struct", "list", "text", "nothing")))
def test_columns_of_unexpected_types_are_skipped_and_reported(strange: str, tmp_path: Path) -> None:
    source = write(tmp_path / "whole")
    changes = [(file, [column]) for file in source.glob("*KERNEL*") for column in pl.read_parquet_schema(file)]
    changes = changes if strange == "struct" else []
    changes += [(file, list(pl.read_parquet_schema(file))) for file in sorted(source.iterdir())]
    for number, (file, columns) in enumerate(sample(changes, 6, strange)):
        folder = tmp_path / str(number)
        folder.mkdir()
        for path in set(source.iterdir()) - {file}:
            (folder / path.name).hardlink_to(path)
        table = pl.read_parquet(file)
        table.with_columns(STRANGE[strange].alias(column) for column in columns).write_parquet(folder / file.name)
        with suppress(ProftuiError):  # any other error fails the test
            profile = load_input(str(folder))
            if strange in ("struct", "list", "nested", "bytes", "time", "duration", "decimal"):
                reason_text = profile["issues"].filter(pl.col("text") == file.stem)["reason"].str.join(" ").item()
                assert f"columns that are neither numbers nor strings: {columns[0]} (" in reason_text
