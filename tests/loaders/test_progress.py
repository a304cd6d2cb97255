"""Previews of an input while the rest of it is read."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.corpus import recording_file
from tests.profiles import SAMPLES
from tui.loaders import base, input_file, raw_input, registry
from tui.loaders.chrome_trace import read_trace
from tui.loaders.sqlite import read_rows

if TYPE_CHECKING:
    from tui.loaders.base import LoadPreview, LoadProgress
    from tui.model.profile import Profile


@pytest.fixture(autouse=True)
def immediate_previews(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no preview be postponed."""
    monkeypatch.setattr(base, "_EVERY_S", 0.0)
    monkeypatch.setattr(raw_input, "_REPORT_EVERY_S", 0.0)


def read(path: Path) -> tuple[Profile, list[LoadPreview]]:
    """Return the profile, and all previews before it."""
    previews: list[LoadPreview] = []

    def report(progress: LoadProgress) -> bool:
        if progress.preview is not None:
            previews.append(progress.preview)
        return True

    return registry.load_input(str(path), on_progress=report), previews


def by_name(profile: Profile) -> dict[str, tuple[int, int]]:
    sums = profile["activities"].group_by(pl.col("name").cast(pl.String)).agg(pl.len(), pl.col("duration_ns").sum())
    return {name: (calls, total_ns) for name, calls, total_ns in sums.iter_rows()}


def check(profile: Profile, previews: list[LoadPreview], *, least: int) -> None:
    """Assert that previews grow up to the final figures, and never exceed them."""
    assert len(previews) >= least
    calls = [preview.calls for preview in previews]
    assert calls == sorted(calls)
    assert len(set(calls)) >= least
    truth = by_name(profile)
    last = previews[-1]
    assert last.calls <= profile["activities"].height
    for row in last.names:
        if row.name.startswith("Mem"):  # Kineto's names of copies become those that all tools share
            continue
        assert row.calls <= truth[row.name][0]
        assert row.total_ns <= truth[row.name][1]
    assert [row.total_ns for row in last.names] == sorted((row.total_ns for row in last.names), reverse=True)


@pytest.mark.parametrize("pack", [False, True])
def test_progress_of_an_nvprof_trace_is_reported_by_block(
    tmp_path: Path, pack: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_file.InputFile.blocks, "__kwdefaults__", {"block_size": 1 << 14, "line_limit": 1 << 20})
    data = (SAMPLES / "resnet50_training.nvprof.log").read_bytes()
    path = tmp_path / ("run.log.gz" if pack else "run.log")
    path.write_bytes(gzip.compress(data) if pack else data)
    profile, previews = read(path)
    check(profile, previews, least=3)
    preview = previews[-1]
    assert preview.calls == profile["activities"].height
    assert preview.total_ns == profile["activities"]["duration_ns"].sum()
    starts = profile["activities"]["start_ns"]
    assert preview.span_ns == starts.max() - starts.min()
    assert {row.name: (row.calls, row.total_ns) for row in preview.names}.items() <= by_name(profile).items()


def test_a_preview_of_several_clocks_has_no_span(tmp_path: Path) -> None:
    path = tmp_path / "runs.log"
    path.write_bytes(2 * (SAMPLES / "resnet50_training.nvprof.log").read_bytes())
    profile, previews = read(path)
    assert profile["sessions"].height == 2
    assert previews[-1].span_ns is None


def test_no_preview_is_built_unless_requested() -> None:
    source = input_file.InputFile.open(str(SAMPLES / "resnet50_training.nvprof.log"))
    assert not source.preview.is_wanted
    source.preview.add(pl.DataFrame({"name": ["x"], "calls": [1], "total_ns": [1], "first_ns": [0], "last_ns": [0]}))
    assert source.preview.current() is None


def test_a_new_preview_is_built_after_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    previews = base.PreviewBuilder()
    previews.is_wanted = True
    previews.add(base.sum_by_name(pl.DataFrame({"name": ["a"], "start_ns": [0], "duration_ns": [5]})))
    monkeypatch.setattr(base, "_EVERY_S", 1e6)
    assert previews.current() is None
    monkeypatch.setattr(base, "_EVERY_S", 0.0)
    preview = previews.current()
    assert preview is not None
    assert (preview.calls, preview.total_ns) == (1, 5.0)


def test_impossible_times_do_not_fail_the_preview() -> None:
    previews = base.PreviewBuilder()
    previews.is_wanted = True
    huge = (1 << 63) - 1
    rows = pl.DataFrame({"name": ["a", "a", None], "start_ns": [-huge, huge, None], "duration_ns": [huge, huge, None]})
    previews.add(base.sum_by_name(rows))
    preview = previews.current()
    assert preview is not None
    assert preview.calls == 3
    assert preview.total_ns == 2.0 * huge
    assert preview.names[-1].name == ""


def test_a_preview_of_a_pytorch_trace_shows_ops_before_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_trace, "_WATCHED_CHUNK_ROWS", 1 << 10)
    profile, previews = read(Path(recording_file("resnet50_amp.pt.trace.json.gz")))
    assert previews[0].calls == 0
    assert dict(previews[0].others)["CPU ops"] > 0
    check(profile, previews, least=2)


def test_progress_of_an_nsight_export_is_reported_by_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_rows, "RANGE_ROWS", 500)
    profile, previews = read(Path(recording_file("resnet50_amp.nsys.sqlite.gz")))
    check(profile, previews, least=3)
    assert previews[-1].calls == profile["activities"].height


def test_a_stopped_pytorch_trace_keeps_what_was_read() -> None:
    report_count = 0

    def report(_progress: LoadProgress) -> bool:
        nonlocal report_count
        report_count += 1
        return report_count < 6

    profile = registry.load_input(recording_file("resnet50_amp.pt.trace.json.gz"), on_progress=report)
    assert profile.partial.startswith("stopped at ")
    assert 0 < profile["ops"].height < 20_000
