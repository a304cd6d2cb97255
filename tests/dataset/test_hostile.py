"""Datasets that are damaged, made up or of another version: the problem is reported, the rest opens."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
import xxhash

from tests.dataset.converting import RANKS, assert_same_rows, convert
from tui.cli.main import main
from tui.loaders import dataset_loader
from tui.loaders.dataset_loader import MANIFEST
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(convert(tmp_path_factory.mktemp("made"), *RANKS))


@pytest.fixture(params=[True, False], ids=["in memory", "mapped"])
def dataset(original: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not request.param:
        monkeypatch.setattr(dataset_loader, "IN_MEMORY_BYTES", 0)
    shutil.copytree(original, tmp_path / "run")
    return tmp_path / "run"


def change_manifest(dataset: Path, change: Callable[[Any], object]) -> None:
    manifest = json.loads((dataset / MANIFEST).read_bytes())
    change(manifest)
    (dataset / MANIFEST).write_text(json.dumps(manifest))


def file_of(dataset: Path, frame: str, rank: int = 0) -> Path:
    return next((dataset / frame / f"rank={rank}").iterdir())


def replace_file(dataset: Path, frame: str, data: pl.DataFrame) -> None:
    """Replace a file of rank 0, and update the manifest."""
    path = file_of(dataset, frame)
    data.write_parquet(path)

    def update_manifest(manifest: Any) -> None:
        part = manifest["parts"][0]
        entry = next(file for file in part["files"] if file["frame"] == frame)
        entry["size"], entry["digest"] = path.stat().st_size, xxhash.xxh3_128(path.read_bytes()).hexdigest()
        part["rows"][frame] += data.height - entry["rows"]
        entry["rows"] = data.height

    change_manifest(dataset, update_manifest)


@cache
def other_rank() -> Profile:
    """Return the profile of the trace of rank 1."""
    return load_input(RANKS[1])


def skip_reason(dataset: Path) -> str:
    """Return why the part of rank 0 is skipped; rank 1 must be unaffected."""
    profile = load_input(str(dataset))
    assert_same_rows(other_rank(), profile)
    (row,) = profile["issues"].filter(pl.col("severity") == "error").iter_rows(named=True)
    assert "rank0" in row["text"]
    return str(row["reason"])


def test_a_missing_file(dataset: Path) -> None:
    file_of(dataset, "activities").unlink()
    assert "is missing" in skip_reason(dataset)


def test_a_truncated_file(dataset: Path) -> None:
    path = file_of(dataset, "ops")
    path.write_bytes(path.read_bytes()[:-100])
    assert "bytes, not" in skip_reason(dataset)


def test_a_flipped_bit(dataset: Path) -> None:
    path = file_of(dataset, "ops")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert "has changed since it was written" in skip_reason(dataset)


def test_a_file_that_is_not_parquet(dataset: Path) -> None:
    path = file_of(dataset, "ops")
    path.write_bytes(bytes(path.stat().st_size))
    change_manifest(dataset, lambda manifest: [
        file.update(digest=xxhash.xxh3_128(path.read_bytes()).hexdigest())
        for file in manifest["parts"][0]["files"] if file["frame"] == "ops"
    ])  # fmt: skip
    assert "cannot be read" in skip_reason(dataset)


@pytest.mark.parametrize(
    ("frame", "change", "reason"),
    [
        ("activities", pl.lit("x").alias("planted"), "has an unknown column: planted"),
        ("activities", pl.col("start_ns").cast(pl.String), "has an unknown column: start_ns"),
        ("activities", pl.lit(7, pl.UInt32).alias("session"), "an unknown session"),
        ("activities", pl.lit(None, pl.UInt32).alias("session"), "an unknown session"),
        ("activities", pl.lit(1 << 31, pl.UInt32).alias("op"), "an unknown op"),
        ("ops", pl.lit(1 << 31, pl.UInt32).alias("parent"), "an unknown op"),
        ("activities", pl.lit(-1, pl.Int64).alias("duration_ns"), "has impossible times"),
        ("api_calls", pl.lit(1 << 62, pl.Int64).alias("duration_ns"), "has impossible times"),
        ("activities", pl.when(pl.int_range(pl.len()) == 0).then(-(1 << 62)).otherwise("start_ns").alias("start_ns"),
         "times that are too far apart"),
        ("activities", pl.lit("evil").cast(pl.Categorical).alias("kind"), "GPU work of an unknown kind"),
        ("activities", pl.lit(None).cast(pl.Categorical).alias("kind"), "GPU work of an unknown kind"),
        ("ops", pl.col("start_ns") + (1 << 60), "times that are too far apart"),
        ("devices", pl.lit(0, pl.Int32).alias("device"), "lists a GPU twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_impossible_values(dataset: Path, frame: str, change: pl.Expr, reason: str) -> None:
    replace_file(dataset, frame, pl.read_parquet(file_of(dataset, frame), hive_partitioning=False).with_columns(change))
    assert reason in skip_reason(dataset)


def test_a_row_count_that_differs_from_the_manifest(dataset: Path) -> None:
    def raise_row_count(manifest: Any) -> None:
        part = manifest["parts"][0]
        entry = next(file for file in part["files"] if file["frame"] == "ops")
        entry["rows"] += 1
        part["rows"]["ops"] += 1

    change_manifest(dataset, raise_row_count)
    assert "rows, not" in skip_reason(dataset)


def test_a_row_count_too_large_for_the_file(dataset: Path) -> None:
    replace_file(dataset, "ranges", pl.read_parquet(file_of(dataset, "ranges"), hive_partitioning=False))

    def raise_row_count(manifest: Any) -> None:
        part = manifest["parts"][0]
        entry = next(file for file in part["files"] if file["frame"] == "ranges")
        part["rows"]["ranges"] += (1 << 31) - entry["rows"]
        entry["rows"] = 1 << 31

    change_manifest(dataset, raise_row_count)
    assert "claims 2,147,483,648 rows in" in skip_reason(dataset)


@pytest.mark.parametrize("name", ["../../etc", "..", "/etc", "a/b", ""])
def test_no_path_leaves_the_folder(dataset: Path, name: str) -> None:
    change_manifest(dataset, lambda manifest: manifest["parts"][0].update(name=name))
    profile = load_input(str(dataset))
    assert profile["sessions"]["rank"].to_list() == [1]
    assert "invalid name" in "".join(profile["issues"]["reason"])


def test_no_link_leaves_the_folder(dataset: Path, tmp_path: Path) -> None:
    path = file_of(dataset, "ops")
    path.rename(tmp_path / "elsewhere.parquet")
    path.symlink_to(tmp_path / "elsewhere.parquet")
    assert "is outside the folder" in skip_reason(dataset)


def test_an_unknown_frame(dataset: Path) -> None:
    change_manifest(dataset, lambda manifest: manifest["parts"][0]["files"][0].update(frame="../x"))
    assert "an unknown frame" in skip_reason(dataset)


def test_a_newer_layout_is_an_error(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dataset / MANIFEST).write_text('{"layout": 99, "program": "9.0.0\\u001b[31m", "shape": "spherical"}')
    assert main(["inspect", str(dataset)]) == 2
    printed = capsys.readouterr().out + capsys.readouterr().err
    assert "9.0.0" in printed
    assert "\x1b" not in printed
    with pytest.raises(ProftuiError, match="cannot read"):
        load_input(str(dataset))


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"\xff\xfe", b'{"layout": 1, "program": "1", "parts": {}}', b"null"),
        *(b'{"layout": 1, "program": "\xff"}', b'{"layout": 1, "program": "1", "parts": ' + b"[" * 100_000),
    ],
    ids=lambda content: repr(content[:50]),
)
def test_an_invalid_manifest_is_an_error(dataset: Path, content: bytes) -> None:
    (dataset / MANIFEST).write_bytes(content)
    with pytest.raises(ProftuiError, match="damaged manifest"):
        load_input(str(dataset))


def test_a_folder_with_an_undecodable_name_is_an_error(dataset: Path) -> None:
    renamed = dataset.rename(dataset.with_name("run \udcff"))
    with pytest.raises(ProftuiError, match="run \ufffd: the name of a dataset folder must be valid text"):
        load_input(str(renamed))


def test_an_input_with_an_undecodable_name_is_converted(tmp_path: Path) -> None:
    path = shutil.copy(RANKS[0], tmp_path / "rank \udcff.json.gz")
    profile = load_input(convert(tmp_path / "out", str(path)))
    assert profile["sessions"]["source"].to_list() == [str(tmp_path / "rank \ufffd.json.gz")]


def test_a_dataset_without_a_readable_part_is_an_error(dataset: Path) -> None:
    for rank in (0, 1):
        file_of(dataset, "sessions", rank).unlink()
    with pytest.raises(ProftuiError, match="no part of the dataset can be read"):
        load_input(str(dataset))


def test_files_missing_from_the_manifest_are_not_read(dataset: Path) -> None:
    before = load_input(str(dataset))
    (dataset / "activities/rank=0/part-planted.0.parquet").write_bytes(file_of(dataset, "activities", 1).read_bytes())
    assert load_input(str(dataset))["activities"].equals(before["activities"], null_equal=True)
