"""A folder of profiles."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tui.loaders.multi_file.load_together import profile_files
from tui.loaders.registry import load, load_input
from tui.model.errors import ProftuiError

SAMPLE = Path(__file__).parents[2] / "sample_logs" / "tracking_four_runs.nvprof.log"
CAFFE = SAMPLE.with_name("caffe_conv1.nvprof.log")


def test_every_profile_of_a_folder_is_opened_and_other_files_are_reported(tmp_path: Path) -> None:
    shutil.copy(SAMPLE, tmp_path / "rank10.log")
    shutil.copy(CAFFE, tmp_path / "rank2.log")
    (tmp_path / "notes.txt").write_text("nothing\n")
    (tmp_path / "empty.log").touch()
    (tmp_path / ".hidden").write_text("nothing\n")
    (tmp_path / "sub").mkdir()
    shutil.copy(SAMPLE, tmp_path / "sub" / "other.log")

    profile = load_input(str(tmp_path))

    assert profile.sources == (str(tmp_path / "rank2.log"), str(tmp_path / "rank10.log"))
    assert (
        profile["sessions"].height
        == load_input(str(SAMPLE))["sessions"].height + load_input(str(CAFFE))["sessions"].height
    )
    reported = (
        profile["issues"].filter(profile["issues"]["session"].is_null()).select("severity", "text", "reason").rows()
    )
    assert ("info", "notes.txt", "no profile found in 1 file") in reported
    assert [reason.split(":")[0] for severity, _, reason in reported if severity == "error"] == ["skipped"]


def test_folders_and_files_open_together(tmp_path: Path) -> None:
    shutil.copy(SAMPLE, tmp_path / "a.log")
    profile, errors = load([str(tmp_path), str(CAFFE)])
    assert not errors
    assert profile is not None
    assert profile.sources == (str(tmp_path / "a.log"), str(CAFFE))


def test_a_folder_without_profiles_is_reported(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing\n")
    with pytest.raises(ProftuiError, match="no profile found in 1 file"):
        load_input(str(tmp_path))


def test_a_folder_with_too_many_files_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.loaders.multi_file.load_together.MAX_FILES", 2)
    for number in range(3):
        (tmp_path / f"{number}.log").write_text("nothing\n")
    with pytest.raises(ProftuiError, match="contains 3 files"):
        load_input(str(tmp_path))


def test_reports_with_a_valid_export_are_not_read(tmp_path: Path) -> None:
    for name in ("a.nsys-rep", "a.sqlite", "b.nsys-rep", "c.qdrep", "c.sqlite"):
        (tmp_path / name).touch()
    (tmp_path / "a.sqlite").write_bytes(b"SQLite format 3\0")
    # The export of c failed: what the report says of it is more than that it is empty.
    assert [Path(file).name for file in profile_files(str(tmp_path))] == ["a.sqlite", "b.nsys-rep", "c.qdrep"]


def test_tables_of_one_run_are_separate_sessions_and_reported(tmp_path: Path) -> None:
    header = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    for name in ("a", "b"):
        (tmp_path / f"{name}_cuda_gpu_kern_sum.csv").write_text(header + "100.0,50,2,25.0,25.0,20,30,7.1,f\n")
    profile = load_input(str(tmp_path))
    assert profile["sessions"].height == 2
    warnings = profile["issues"].filter(severity="warning")["reason"].to_list()
    assert [reason.split(":")[0] for reason in warnings] == [
        "2 files are single tables of a run, and each is a separate session"
    ]


def test_tables_of_one_run_given_one_by_one_are_reported_by_their_names(tmp_path: Path) -> None:
    header = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    names = ("a_cuda_gpu_kern_sum", "a_cuda_gpu_kern_gb_sum", "b_gpukernsum", "other")
    paths = [tmp_path / f"{name}.csv" for name in names]
    for path in paths:
        path.write_text(header + "100.0,50,2,25.0,25.0,20,30,7.1,f\n")

    def warnings(paths: list[Path]) -> list[str]:
        profile, _errors = load([str(path) for path in paths])
        assert profile is not None
        return [reason.split(":")[0] for reason in profile["issues"].filter(severity="warning")["reason"]]

    assert warnings(paths) == ["2 files are single tables of a run, and each is a separate session"]
    assert warnings(paths[1:]) == []
    assert warnings(paths[:1]) == []
    reports = [tmp_path / f"dlprof_{name}.csv" for name in ("op_type", "group_op")]
    reports[0].write_text("Op Type Summary Report\nOp Type,# Ops,# Calls\nconv,1,2\n")
    reports[1].write_text("Group Op Report\nName,Num Calls Aggregated\nconv,2\n")
    assert warnings(reports) == ["2 files are single tables of a run, and each is a separate session"]
    profile, _errors = load([str(path) for path in reports])
    assert profile is not None
    # In one file, the reports are separate sessions, too.
    assert profile["issues"]["reason"][-1].endswith("count the run once per table; choose a session with --session")
