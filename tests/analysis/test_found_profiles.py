"""The list of profiles: which are found, in which order, with which figures, and which folders are listed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.profiles import SAMPLES, load_one
from tui.analysis.found_profiles import (
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


def copy_of_sample(sample: str, path: Path, hours_ago: float) -> Path:
    """Copy a sample, as written so long ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(SAMPLES / sample, path)
    os.utime(path, (NOW - 3600 * hours_ago,) * 2)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two profiles, one of them in a subfolder, and other files."""
    copy_of_sample("caffe_conv1.nvprof.log", tmp_path / "runs/deep/conv.txt", 1)
    copy_of_sample("gpt_summary.nvprof.log", tmp_path / "runs/gpt.log", 50)
    copy_of_sample("gpt_summary.nvprof.log", tmp_path / "runs/.hidden/gpt.log", 1)
    (tmp_path / "runs/notes.md").write_text("no profile")
    (tmp_path / "runs/empty.log").touch()
    return tmp_path / "runs"


def test_profiles_are_found_by_content_the_newest_first(folder: Path) -> None:
    found = find_profiles(str(folder))
    assert [(Path(profile.path).name, profile.format, profile.size) for profile in found.profiles] == [
        ("conv.txt", "nvprof-text", 10_053),
        ("gpt.log", "nvprof-text", 3_626),
    ]
    assert found.left_out == ""
    looked = [with_figures(profile) for profile in found.profiles]
    rows = profiles_frame([profile for profile in looked if profile is not None], str(folder), now=NOW)
    shown = ["file", "format", "gpu", "duration_ns", "age", "opened", "notes"]
    assert rows.select(shown).rows() == [
        ("deep/conv.txt", "nvprof-text", "Tesla K40c", 993_831_536, "1 h", None, 0),
        ("gpt.log", "nvprof-text", None, None, "2 d", None, 0),
    ]
    assert {column.name for column in PROFILES.columns} | {"path"} == set(rows.columns)
    assert profiles_frame([], "").columns == rows.columns


def test_source_code_and_texts_about_profiles_are_not_found(tmp_path: Path) -> None:
    text = (SAMPLES / "caffe_conv1.nvprof.log").read_text()
    (tmp_path / "reader.py").write_text(text)
    (tmp_path / "page.md").write_text("# How to read it\n\nTime(%)  Time  Calls  Avg  Min  Max  Name\nand so on\n")
    (tmp_path / "cut.json").write_text('{"schemaVersion": 1, "traceEvents": [{"ph": "X", ')
    found = find_profiles(str(tmp_path)).profiles
    assert sorted(Path(profile.path).name for profile in found) == ["cut.json", "page.md"]
    looked = {Path(profile.path).name: with_figures(profile) for profile in found}
    assert looked["page.md"] is None
    damaged = looked["cut.json"]
    assert damaged is not None
    assert damaged.figures is None
    lines = profile_preview(damaged, 200, 9, is_looked=True)
    assert lines[-1].startswith("Cannot be read: ")


def test_file_names_that_are_no_valid_text(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/run \xff.log"))
    copy_of_sample("caffe_conv1.nvprof.log", odd, 1)
    (profile,) = find_profiles(str(tmp_path)).profiles
    assert profile.path == str(odd)
    looked = with_figures(profile)
    assert looked is not None
    rows = profiles_frame([looked], str(tmp_path), now=NOW)
    assert rows.select("path", "file", "duration_ns").rows() == [
        (f"{tmp_path}/run \\xff.log", "run ?.log", 993_831_536)
    ]


def test_files_opened_before_are_listed_wherever_they_are(folder: Path, tmp_path: Path) -> None:
    far = copy_of_sample("caffe_conv1.nvprof.log", tmp_path / "elsewhere/far.log", 100)
    figures = first_figures(load_one(str(SAMPLES / "caffe_conv1.nvprof.log")))
    assert remember_opened(str(far), figures) == ""
    assert remember_opened(str(tmp_path / "gone.log"), figures) == ""
    found = find_profiles(str(folder)).profiles
    assert [Path(profile.path).name for profile in found] == ["conv.txt", "gpt.log", "far.log"]
    assert found[-1].figures == figures
    assert found[-1].opened is not None
    # What was known of it is of another content.
    far.write_text("another")
    assert [Path(profile.path).name for profile in find_profiles(str(folder)).profiles] == ["conv.txt", "gpt.log"]
    assert isinstance(opened_files()[str(far)], OpenedFile)


def test_figures_of_a_profile_and_their_preview() -> None:
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


def test_which_folders_list_their_profiles(folder: Path, tmp_path: Path) -> None:
    for rank in range(3):
        copy_of_sample("gpt_summary.nvprof.log", tmp_path / f"job/rank{rank}.log", 1)
    assert not lists_profiles(str(tmp_path / "job"))
    assert not lists_profiles(str(folder / "gpt.log"))
    assert not lists_profiles(str(folder))  # one profile of its own
    copy_of_sample("caffe_conv1.nvprof.log", folder / "other.log", 1)
    assert lists_profiles(str(folder))
    assert lists_profiles(str(tmp_path))  # all of them are below
    assert lists_profiles(str(folder / "deep")) is False
    # Alike names are no evidence of one job; the time of the same command is, as are the names of PyTorch's handler.
    for number in (1, 2):
        copy_of_sample("gpt_summary.nvprof.log", tmp_path / f"runs/run{number}.log", 1)
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
        copy_of_sample("mlp_modules.pt.trace.json.gz", tmp_path / f"handler/{name}.pt.trace.json.gz", 1)
    assert not lists_profiles(str(tmp_path / "handler"))
    copy_of_sample("mlp_modules.pt.trace.json.gz", tmp_path / "handler/a_14.1700000990000.pt.trace.json.gz", 1)
    assert lists_profiles(str(tmp_path / "handler"))
    (tmp_path / "nothing").mkdir()
    assert not lists_profiles(str(tmp_path / "nothing"))


def test_paths_are_completed(folder: Path) -> None:
    assert complete_path("g", str(folder)) == "gpt.log"
    assert complete_path("de", str(folder)) == "deep/"
    assert complete_path("deep/", str(folder)) == "deep/conv.txt"
    assert complete_path(f"{folder}/g", "/") == f"{folder}/gpt.log"
    assert [complete_path(text, str(folder)) for text in ("", "x", "gpt.log", "no/such", "a\0b", ".h")] == [
        None, None, None, None, None, ".hidden/",
    ]  # fmt: skip


def test_every_format_with_its_command() -> None:
    rows = formats_frame()
    assert rows.height == len(registry.formats())
    assert {column.name for column in FORMATS.columns} == set(rows.columns)
    assert all(rows["record_with"].str.len_chars() > 5)
