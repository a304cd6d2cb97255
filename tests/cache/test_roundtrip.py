"""Cached profiles are restored as they were read."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cache.cached import assert_same_profile, entries, reopen, sample_paths, store
from tests.parameters import others_slow
from tests.screens.explorer import SAMPLES, open_explorer
from tests.waiting import wait_until
from tui.analysis.iterations.chosen_iterations import select_iterations
from tui.app import profile_loading
from tui.cache import frame_files, secure_files
from tui.cache.cache import Cache
from tui.cache.frame_files import ColumnWriter, mapped_column
from tui.cache.secure_files import UNFINISHED_SUFFIX
from tui.loaders.registry import load, load_input
from tui.model.aggregation import Aggregation
from tui.opening import open_profiles
from tui.options import OpenOptions


@pytest.mark.parametrize("mapped_rows", [1, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", others_slow(sample_paths(), sample_paths()[::3]), ids=lambda path: Path(path).name)
def test_every_sample_is_restored_as_it_was_read(path: str, mapped_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_files, "MAPPED_ROWS", mapped_rows)
    monkeypatch.setattr(frame_files, "MAPPED_FILE_BYTES", 50_000)
    store(path)
    if not entries():
        # What has an error in it is read again each time.
        assert "error" in set(load_input(path)["issues"]["severity"])
        return
    profile, was_kept = reopen(path)
    assert was_kept
    assert_same_profile(profile, load_input(path))


def test_frames_of_mapped_columns_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_files, "MAPPED_ROWS", 1)
    path = str(SAMPLES / "resnet50_training.nvprof.log")
    store(path)
    profile, was_kept = reopen(path)
    assert was_kept
    fresh = load_input(path)
    for column in ("name", "start_ns", "size_bytes"):
        assert profile["activities"].sort(column).equals(fresh["activities"].sort(column))
    grouped = [p["activities"].group_by("name").agg(pl.col("duration_ns").sum()).sort("name") for p in (profile, fresh)]
    assert grouped[0].equals(grouped[1])
    shown = [select_iterations(p, Aggregation(1, 2)) for p in (profile, fresh)]
    assert shown[0]["activities"].equals(shown[1]["activities"])


def test_files_of_a_folder_are_cached_separately() -> None:
    folder = str(SAMPLES / "ddp_ranks")
    fresh = load_input(folder)
    store(folder)
    assert len(entries()) == fresh["sessions"].height
    profile, was_kept = reopen(folder)
    assert was_kept
    assert_same_profile(profile, fresh)


def test_cached_files_are_joined_like_files_that_were_read() -> None:
    paths = [str(SAMPLES / name) for name in ("resnet50_training.nvprof.log", "resnet50_training.pt.trace.json.gz")]
    store(paths[0])
    cache = Cache(min_bytes=0, min_seconds=0)
    mixed, _ = load(paths, cache=cache)
    fresh, _ = load(paths)
    assert list(cache.used) == paths[:1]
    assert mixed is not None
    assert fresh is not None
    assert_same_profile(mixed, fresh)


@pytest.mark.parametrize(
    "name", ["resnet50_training.nvprof.log", "resnet50_training.pt.trace.json.gz", "gpt_cudagraph.nsys.sqlite.gz"]
)
def test_reopening_gives_the_same_profile(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tui.analysis.ops.op_costs import recorded_ops
    from tui.cache import cache

    monkeypatch.setattr(cache, "MIN_BYTES", 0)
    small = {"min_bytes": 0, "min_seconds": 0}
    monkeypatch.setattr(Cache.__init__, "__kwdefaults__", {"renew": False, **small})
    options = OpenOptions(paths=(str(SAMPLES / name),))
    first = open_profiles(options, lambda _: True, session=None, aggregation=Aggregation())
    assert first.cache is not None
    first.cache.write()
    second = open_profiles(options, lambda _: True, session=None, aggregation=Aggregation())
    assert second.cache is not None
    assert second.cache.used
    assert {"steps", "reasons"} <= set(second.cache.used[options.paths[0]].results)
    assert first.shown is not None
    assert second.shown is not None
    assert first.availability == second.availability
    for frame, data in first.shown.frames.items():
        assert data.equals(second.shown[frame], null_equal=True), frame
    assert first.shown.steps is not None
    assert first.shown.steps.equals(second.shown.steps)
    assert recorded_ops(first.shown).equals(recorded_ops(second.shown))
    for do in second.deferred_results:
        do()


@given(
    st.lists(st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62)), max_size=40), max_size=5),
    st.sampled_from([pl.Int64, pl.Boolean, pl.Float64]),
)
def test_columns_on_disk_contain_the_appended_parts(parts: list[list[int | None]], dtype: type) -> None:
    series = [
        pl.Series("c", [None if v is None else v % 2 if dtype == pl.Boolean else v for v in part], pl.Int64).cast(dtype)
        for part in parts
    ]
    added = pl.concat([pl.Series("c", [], dtype), *series])
    with secure_files.unnamed_file() as file:
        file.write(b"before")
        writer = ColumnWriter("c", lambda: file)
        for part in series:
            writer.add(part)
        written = writer.close()
        file.flush()
        assert (written is None) == (added.null_count() == len(added))
        if written is not None:
            found = mapped_column(secure_files.map_file(file.fileno()), written, len(added), dtype())
            assert found.equals(added, null_equal=True)


async def test_the_app_opens_the_cached_profile_and_reads_the_file_on_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cache.__init__, "__kwdefaults__", {"renew": False, "min_bytes": 0, "min_seconds": 0})
    monkeypatch.setattr(profile_loading, "CACHE_AFTER_S", 0.01)
    path = str(SAMPLES / "resnet50_training.nvprof.log")
    async with open_explorer(path, is_shared=False) as pilot:
        assert not pilot.app.profile_loading._cache.used  # type: ignore[attr-defined]
        await wait_until(pilot, lambda: len(entry_inodes()) == 1, "an entry")
    async with open_explorer(path, is_shared=False) as pilot:
        app = pilot.app
        assert list(app.profile_loading._cache.used) == [path]  # type: ignore[attr-defined]
        before = entry_inodes()
        await pilot.press("r")
        await wait_until(pilot, lambda: not app.profile_loading._cache.used, "what was read again")  # type: ignore[attr-defined]
        await wait_until(pilot, lambda: entry_inodes() not in ([], before), "a new entry")
    async with open_explorer(path, is_shared=False, cache=False) as pilot:
        assert pilot.app.profile_loading._cache is None  # type: ignore[attr-defined]


def entry_inodes() -> list[int]:
    """Return the inodes of complete entries."""
    found = []
    for entry in entries():
        # Another may take its place just now.
        with suppress(FileNotFoundError):
            found += [entry.stat().st_ino] if not entry.name.endswith(UNFINISHED_SUFFIX) else []
    return found
