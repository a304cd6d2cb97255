"""Converted profiles equal the originals: every frame, in memory or mapped, by ranks, in one folder or in steps."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.dataset.converting import RANKS, assert_same_rows, convert, files, samples
from tests.profiles import load as load_once
from tests.profiles import load_one
from tui.cache.cache import Cache
from tui.cli.main import main
from tui.dataset.write_dataset import part_name, write_part
from tui.loaders import dataset_loader, registry
from tui.loaders.dataset_loader import MANIFEST
from tui.loaders.registry import load
from tui.model.errors import ProftuiError
from tui.model.profile import merge_profiles
from tui.model.schema import FRAMES


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a dataset of two ranks, which no test changes."""
    return Path(convert(tmp_path_factory.mktemp("ranks") / "run", *RANKS))


@pytest.mark.parametrize("path", samples(), ids=lambda path: Path(path).name)
def test_a_sample_is_the_same_after_a_round_trip(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = load_one(path)
    folder = convert(tmp_path / "run", path)
    assert_same_rows(read, load_one(folder))
    monkeypatch.setattr(dataset_loader, "IN_MEMORY_BYTES", 0)
    assert_same_rows(read, load_one(folder))


def test_several_files_keep_their_sessions_apart(tmp_path: Path) -> None:
    paths = [*RANKS, *samples()[:3]]
    read = merge_profiles([load_one(path) for path in paths])
    profile = load_one(convert(tmp_path / "run", *paths))
    assert_same_rows(read, profile)
    assert profile["sessions"]["source"].to_list() == read["sessions"]["source"].to_list()
    assert profile.sources == (str(tmp_path / "run"),)


def test_ranks_are_partitions(ranks: Path) -> None:
    assert [path.name for path in sorted((ranks / "activities").iterdir())] == ["rank=0", "rank=1"]
    by_others = pl.scan_parquet(ranks / "activities/**/*.parquet", hive_partitioning=True).group_by("rank").len()
    counts = dict(by_others.collect().iter_rows())
    assert counts == {rank: load_one(path)["activities"].height for rank, path in enumerate(RANKS)}


def test_rows_are_sorted(ranks: Path) -> None:
    written = [pl.read_parquet(path) for path in ranks.glob("api_calls/**/*.parquet")]
    assert len(written) == 2
    assert all(rows["start_ns"].is_sorted() for rows in written)


def test_names_are_dictionary_encoded(ranks: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow, of the dependency group bench, is not installed")
    group = parquet.ParquetFile(next(ranks.glob("activities/**/*.parquet"))).metadata.row_group(0)
    columns = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
    assert columns["name"].has_dictionary_page
    assert columns["start_ns"].statistics.has_min_max
    assert {column.compression for column in columns.values()} == {"ZSTD"}


def test_empty_frames_have_no_files(tmp_path: Path) -> None:
    convert(tmp_path, samples()[0])
    manifest = json.loads((tmp_path / MANIFEST).read_bytes())
    assert {path.name for path in tmp_path.iterdir()} == {MANIFEST, "proftui-parts", *manifest["rows"]}
    assert 0 not in manifest["rows"].values()


def test_an_issue_says_that_the_log_text_is_not_stored(tmp_path: Path) -> None:
    text = next(path for path in samples() if path.endswith(".nvprof.log"))
    issues = load_one(convert(tmp_path / "run", text))["issues"]
    assert issues.filter(pl.col("reason").str.contains("open the log to read them"))["text"].to_list() == [text]


@pytest.mark.parametrize("is_told", [True, False])
def test_logs_among_other_files_are_reported(is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = next(path for path in samples() if path.endswith(".nvprof.log"))
    main(["convert", *RANKS, *([text] if is_told else []), "-o", str(tmp_path / "run")])
    assert ("log text is not included" in capsys.readouterr().err) is is_told


def test_part_names_begin_with_neither_a_dot_nor_a_dash() -> None:
    begins = [part_name(f"/runs/{name}").rpartition("-")[0] for name in (".hidden.log", "--help", "...", "a" * 100)]
    assert begins == ["hidden.log", "help", "part", "a" * 60]


def test_existing_parts_are_not_written_again(tmp_path: Path) -> None:
    convert(tmp_path, *RANKS)
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*.parquet")}
    convert(tmp_path, *RANKS)
    assert {path: path.stat().st_ino for path in tmp_path.rglob("*.parquet")} == before


def test_a_part_whose_record_has_wrong_row_counts_is_written_again(tmp_path: Path) -> None:
    manifest = Path(convert(tmp_path, RANKS[0]), MANIFEST).read_bytes()
    (record,) = (tmp_path / "proftui-parts").iterdir()
    part = json.loads(record.read_bytes())
    part["rows"]["sessions"] += 1
    record.write_text(json.dumps(part))
    convert(tmp_path, RANKS[0])
    assert (tmp_path / MANIFEST).read_bytes() == manifest


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(Path(next(path for path in samples() if path.endswith("gpt_summary.nvprof.log"))).read_bytes())
    convert(tmp_path / "out", str(log))
    log.write_bytes(Path(next(path for path in samples() if path.endswith("caffe_conv1.nvprof.log"))).read_bytes())
    profile = load_one(convert(tmp_path / "out", str(log)))
    assert_same_rows(load_one(str(log)), profile)
    straight = convert(tmp_path / "straight", str(log))
    assert set(files(tmp_path / "out")) == set(files(Path(straight)))


def test_other_files_need_overwrite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "run")
    assert main(["convert", RANKS[0], "-o", folder]) == 0
    assert main(["convert", RANKS[1], "-o", folder]) == 2
    assert "use --overwrite to replace it" in capsys.readouterr().err
    assert main(["convert", RANKS[1], "-o", folder, "--overwrite"]) == 0
    assert_same_rows(load_one(RANKS[1]), load_one(folder))


def test_a_folder_with_other_files_is_not_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    assert main(["convert", RANKS[0], "-o", str(tmp_path), "--overwrite"]) == 2
    assert "contains other files" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_as_output_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thesis = tmp_path / "thesis.tex"
    thesis.write_text("years of work")
    assert main(["convert", RANKS[0], "-o", str(thesis), "--overwrite"]) == 2
    assert capsys.readouterr().err.startswith(f"proftui: {thesis}: is a file\n         a dataset is a folder")
    assert thesis.read_text() == "years of work"


def test_an_unreadable_file_does_not_stop_the_conversion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unreadable = tmp_path / "bad.bin"
    unreadable.write_bytes(b"\x00\x01" * 100)
    assert main(["convert", str(unreadable), RANKS[0], "-o", str(tmp_path / "run")]) == 2
    assert "bad.bin" in capsys.readouterr().err
    assert_same_rows(load_one(RANKS[0]), load_one(str(tmp_path / "run")))


def test_no_dataset_is_written_if_all_files_are_unreadable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unreadable = tmp_path / "bad.bin"
    unreadable.write_bytes(b"\x00\x01" * 100)
    folder = tmp_path / "run"
    assert main(["convert", str(unreadable), "-o", str(folder)]) == 2
    assert "none of the files could be read" in capsys.readouterr().err
    assert list(folder.iterdir()) == []
    # A part that an interrupted conversion left stays.
    write_part(RANKS[0], str(folder))
    existing = files(folder)
    assert main(["convert", str(unreadable), "-o", str(folder)]) == 2
    assert files(folder) == existing
    with pytest.raises(ProftuiError, match="incomplete dataset"):
        load_one(str(folder))


def test_a_folder_is_converted_with_all_its_profiles(tmp_path: Path) -> None:
    assert main(["convert", str(Path(RANKS[0]).parent), "-o", str(tmp_path)]) == 0
    assert load_one(str(tmp_path))["sessions"]["rank"].to_list() == [0, 1]


def test_reports_equal_those_of_the_original_files(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "load", load_once)
    path = next(path for path in samples() if path.endswith("resnet50_training.pt.trace.json.gz"))
    folder = convert(tmp_path / "run", path)
    for view in ("op-types", "kernels", "iterations", "api"):
        assert main(["report", "--view", view, "--format", "json", path]) == 0
        expected = json.loads(capsysbinary.readouterr().out)
        assert main(["report", "--view", view, "--format", "json", folder]) == 0
        actual = json.loads(capsysbinary.readouterr().out)
        assert {**actual, "source": None, "sources": None} == {**expected, "source": None, "sources": None}


def test_a_second_opening_uses_the_cache(ranks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_loader, "IN_MEMORY_BYTES", 0)
    folder = str(ranks)
    first, _ = load([folder], cache=(first_cache := Cache()))
    second, _ = load([folder], cache=(second_cache := Cache()))
    assert first is not None
    assert second is not None
    assert (bool(first_cache.used), bool(second_cache.used)) == (False, True)
    for name in FRAMES:
        assert first[name].equals(second[name], null_equal=True)
    third, _ = load([folder], cache=None)
    assert third is not None
    assert third["ops"].equals(first["ops"], null_equal=True)


def test_a_stopped_opening_keeps_the_rows_read(ranks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_loader, "IN_MEMORY_BYTES", 0)
    folder = str(ranks)
    seen = []

    def stop(progress: object) -> bool:
        seen.append(progress)
        return len(seen) < 6

    profile = load_one(folder, on_progress=stop)
    assert profile.partial.startswith("stopped at ")
    rows, all_rows = (sum(loaded[name].height for name in FRAMES) for loaded in (profile, load_one(folder)))
    assert 0 < rows < all_rows
