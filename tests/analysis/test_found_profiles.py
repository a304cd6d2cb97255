"""The list of profiles: its files, order and figures, and the folders that are listed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.loaders.kineto.test_ascend_trace import TRACE as ASCEND_TRACE
from tests.profiles import SAMPLES, load_one
from tui.analysis.found_profiles import (
    DEEPEST,
    FORMATS,
    PROFILES,
    FoundProfile,
    complete_path,
    find_profiles,
    first_figures,
    formats_frame,
    lists_profiles,
    profile_preview,
    profiles_frame,
    with_figures,
)
from tui.loaders import registry
from tui.state.workspace import OpenedFile, opened_files, remember_opened

NOW = 1_700_000_000


def copy_sample(sample: str, path: Path, age_hours: float) -> Path:
    """Copy a sample, and set its modification time to some hours ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(SAMPLES / sample, path)
    os.utime(path, (NOW - 3600 * age_hours,) * 2)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two profiles, one of them in a subfolder, and other files."""
    copy_sample("caffe_conv1.nvprof.log", tmp_path / "runs/deep/conv.txt", 1)
    copy_sample("gpt_summary.nvprof.log", tmp_path / "runs/gpt.log", 50)
    copy_sample("gpt_summary.nvprof.log", tmp_path / "runs/.hidden/gpt.log", 1)
    (tmp_path / "runs/notes.md").write_text("no profile")
    (tmp_path / "runs/empty.log").touch()
    return tmp_path / "runs"


def test_profiles_are_found_by_content_and_sorted_by_age(folder: Path) -> None:
    listing = find_profiles(str(folder))
    assert [(Path(profile.path).name, profile.format, profile.size) for profile in listing.profiles] == [
        ("conv.txt", "nvprof-text", 10_053),
        ("gpt.log", "nvprof-text", 3_626),
    ]
    assert listing.left_out == ""
    with_contents = [with_figures(profile) for profile in listing.profiles]
    rows = profiles_frame([profile for profile in with_contents if profile is not None], str(folder), now=NOW)
    columns = ["file", "format", "gpu", "duration_ns", "age", "opened", "notes"]
    assert rows.select(columns).rows() == [
        ("deep/conv.txt", "nvprof-text", "Tesla K40c", 993_831_536, "1 h", None, 0),
        ("gpt.log", "nvprof-text", None, None, "2 d", None, 0),
    ]
    assert {column.name for column in PROFILES.columns} | {"path"} == set(rows.columns)
    assert profiles_frame([], "").columns == rows.columns


def test_folders_are_searched_to_the_deepest_level(tmp_path: Path) -> None:
    folder = tmp_path
    for level in range(1, DEEPEST + 2):
        folder = folder / f"level{level}"
        copy_sample("caffe_conv1.nvprof.log", folder / f"{level}.log", 1)
    found = {Path(profile.path).name for profile in find_profiles(str(tmp_path)).profiles}
    assert found == {f"{level}.log" for level in range(1, DEEPEST + 1)}


def test_source_code_and_documents_about_profiles_are_not_found(tmp_path: Path) -> None:
    text = (SAMPLES / "caffe_conv1.nvprof.log").read_text()
    (tmp_path / "reader.py").write_text(text)
    (tmp_path / "page.md").write_text("# How to read it\n\nTime(%)  Time  Calls  Avg  Min  Max  Name\nand so on\n")
    (tmp_path / "cut.json").write_text('{"schemaVersion": 1, "traceEvents": [{"ph": "X", ')
    profiles = find_profiles(str(tmp_path)).profiles
    assert sorted(Path(profile.path).name for profile in profiles) == ["cut.json", "page.md"]
    by_name = {Path(profile.path).name: with_figures(profile) for profile in profiles}
    assert by_name["page.md"] is None
    damaged = by_name["cut.json"]
    assert damaged is not None
    assert damaged.figures is None
    lines = profile_preview(damaged, 200, 9, is_looked=True)
    assert lines[2].startswith("Cannot be read: ")


def test_file_names_that_are_not_valid_utf8(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/run \xff.log"))
    copy_sample("caffe_conv1.nvprof.log", path, 1)
    (profile,) = find_profiles(str(tmp_path)).profiles
    assert profile.path == str(path)
    with_content = with_figures(profile)
    assert with_content is not None
    rows = profiles_frame([with_content], str(tmp_path), now=NOW)
    assert rows.select("path", "file", "duration_ns").rows() == [
        (f"{tmp_path}/run \\xff.log", "run ?.log", 993_831_536)
    ]


def test_files_opened_before_are_listed_from_any_folder(folder: Path, tmp_path: Path) -> None:
    other = copy_sample("caffe_conv1.nvprof.log", tmp_path / "elsewhere/far.log", 100)
    figures = first_figures(load_one(str(SAMPLES / "caffe_conv1.nvprof.log")))
    assert remember_opened(str(other), figures) == ""
    assert remember_opened(str(tmp_path / "gone.log"), figures) == ""
    profiles = find_profiles(str(folder)).profiles
    assert [Path(profile.path).name for profile in profiles] == ["conv.txt", "gpt.log", "far.log"]
    assert profiles[-1].figures == figures
    assert profiles[-1].opened is not None
    # The remembered figures are of the previous content.
    other.write_text("another")
    assert [Path(profile.path).name for profile in find_profiles(str(folder)).profiles] == ["conv.txt", "gpt.log"]
    assert isinstance(opened_files()[str(other)], OpenedFile)


def test_figures_and_preview_of_a_profile() -> None:
    path = str(SAMPLES / "caffe_conv1.nvprof.log")
    figures = first_figures(load_one(path))
    assert (figures.gpu, figures.duration_ns, figures.launches, figures.gpu_ns) == (
        "Tesla K40c", 993_831_536, 32, 753_580_086,
    )  # fmt: skip
    assert [(row.calls, row.total_ns) for row in figures.top][:2] == [(2, 281_640_000), (2, 260_020_000)]
    row = FoundProfile(path, "nvprof-text", 10_053, 0, figures=figures)
    lines = profile_preview(row, 42, 20, is_looked=True)
    assert lines[:5] == [
        "caffe_conv1.nvprof.log",
        "GPU       Tesla K40c",
        "Duration  994 ms",
        "GPU work  754 ms",
        "32 launches",
    ]
    assert lines[7] == "cudnn_dgrad_sm3…_64x16x64x16x16     260 ms"
    assert len(profile_preview(row, 42, 4, is_looked=True)) == 4
    large = FoundProfile("/x/big.json", "pytorch-trace", 5 << 30, 0)
    assert profile_preview(large, 42, 9, is_looked=True)[1:] == [
        "pytorch-trace, 5 GiB",
        "Not read yet. Enter opens it.",
    ]


def test_folders_with_profiles_of_different_jobs_list_them(folder: Path, tmp_path: Path) -> None:
    for rank in range(3):
        copy_sample("gpt_summary.nvprof.log", tmp_path / f"job/rank{rank}.log", 1)
    assert not lists_profiles(str(tmp_path / "job"))
    assert not lists_profiles(str(folder / "gpt.log"))
    assert not lists_profiles(str(folder))  # one profile of its own
    copy_sample("caffe_conv1.nvprof.log", folder / "other.log", 1)
    assert lists_profiles(str(folder))
    assert lists_profiles(str(tmp_path))  # all of them are below
    assert lists_profiles(str(folder / "deep")) is False
    # Similar names are not evidence of one job; equal commands at one time or the names of PyTorch's trace handler are.
    for number in (1, 2):
        copy_sample("gpt_summary.nvprof.log", tmp_path / f"runs/run{number}.log", 1)
    assert lists_profiles(str(tmp_path / "runs"))
    for number in (0, 1):
        text = f"==4{number}== NVPROF is profiling process 4{number}, command: ./train\n"
        log = tmp_path / f"command/out.4{number}.log"
        log.parent.mkdir(exist_ok=True)
        log.write_text(text + (SAMPLES / "caffe_conv1.nvprof.log").read_text())
    assert not lists_profiles(str(tmp_path / "command"))
    os.utime(log, (1, 1))
    assert lists_profiles(str(tmp_path / "command"))
    for name in ("a_12.1700000000123", "a_13.1700000009123"):
        copy_sample("mlp_modules.pt.trace.json.gz", tmp_path / f"handler/{name}.pt.trace.json.gz", 1)
    assert not lists_profiles(str(tmp_path / "handler"))
    copy_sample("mlp_modules.pt.trace.json.gz", tmp_path / "handler/a_14.1700000990000.pt.trace.json.gz", 1)
    assert lists_profiles(str(tmp_path / "handler"))
    (tmp_path / "nothing").mkdir()
    assert not lists_profiles(str(tmp_path / "nothing"))
    # Ascend's profilers write a trace next to their tables.
    ascend = tmp_path / "ascend"
    for trace in ("trace_view.json", "msprof_20240102.json"):
        ascend.mkdir()
        (ascend / trace).write_bytes(ASCEND_TRACE)
        copy_sample("formats/kernel_details.csv", ascend / "kernel_details.csv", 1)
        assert not lists_profiles(str(ascend))
        (ascend / "other.json").write_bytes(ASCEND_TRACE)
        assert lists_profiles(str(ascend))
        shutil.rmtree(ascend)
    # rocprofv3 writes a run in several formats.
    copy_sample("formats/hip_app.pftrace", tmp_path / "hip/7_results.pftrace", 1)
    copy_sample("formats/hip_app_results.json", tmp_path / "hip/7_results.json", 1)
    assert not lists_profiles(str(tmp_path / "hip"))
    copy_sample("formats/hip_app.pftrace", tmp_path / "hip/other.pftrace", 1)
    assert lists_profiles(str(tmp_path / "hip"))


def test_paths_are_completed(folder: Path) -> None:
    assert complete_path("g", str(folder)) == "gpt.log"
    assert complete_path("de", str(folder)) == "deep/"
    assert complete_path("deep/", str(folder)) == "deep/conv.txt"
    assert complete_path(f"{folder}/g", "/") == f"{folder}/gpt.log"
    assert [complete_path(text, str(folder)) for text in ("", "x", "gpt.log", "no/such", "a\0b", ".h")] == [
        None, None, None, None, None, ".hidden/",
    ]  # fmt: skip


def test_every_format_has_a_recording_command() -> None:
    rows = formats_frame()
    assert rows.height == len(registry.formats())
    assert {column.name for column in FORMATS.columns} == set(rows.columns)
    assert all(rows["record_with"].str.len_chars() > 5)
