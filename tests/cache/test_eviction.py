"""Limits of the cache, permissions, and writes that end early."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

from tests.cache.cached import assert_same_profile, entries, only_entry, reopen, small_file_cache, store
from tests.waiting import TIMEOUT_S
from tui.cache import cache as caching
from tui.cache import entry, frame_files, secure_files
from tui.cache.cache import Cache
from tui.cli.crash import STATUS
from tui.cli.main import main
from tui.loaders import raw_input
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

ROOT = Path(__file__).parents[2]


def copies_of(log: str, count: int) -> list[str]:
    """Write further logs, each different."""
    paths = [Path(log).with_name(f"{at}.log") for at in range(count)]
    for path in paths:
        path.write_bytes(Path(log).read_bytes())
    return [str(path) for path in paths]


def entry_of(path: str) -> bool:
    return reopen(path)[1]


def test_folders_and_files_are_private(log: str) -> None:
    store(log)
    assert secure_files.cache_folder().stat().st_mode & 0o777 == 0o700
    assert only_entry().stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in only_entry().iterdir()} == {0o600}


def test_small_and_quick_files_are_not_cached(log: str) -> None:
    for cache in (Cache(min_seconds=0), Cache(min_bytes=0, min_seconds=1e6)):
        load_input(log, cache=cache)
        cache.write()
    assert not entries()


def test_a_recently_changed_file_is_not_cached(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching, "_SETTLED_NS", 3600 * 10**9)
    Path(log).touch()
    store(log)
    assert not entries()


def test_a_partial_profile_is_not_cached(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = small_file_cache()

    def stop(_: object) -> bool:
        return False

    monkeypatch.setattr(raw_input, "_REPORT_EVERY_S", 0.0)
    with suppress(ProftuiError):
        assert load_input(log, cache=stopped, on_progress=stop).partial
    stopped.write()
    assert not entries()


def test_a_file_that_changes_while_it_is_read_is_not_cached(log: str) -> None:
    cache = small_file_cache()

    def load() -> object:
        profile = load_input(log)
        with Path(log).open("a") as file:
            file.write("x\n")
        return profile

    cache.profile(log, None, load)  # type: ignore[arg-type]
    cache.write()
    assert not entries()


def test_a_database_with_a_journal_is_not_cached(log: str) -> None:
    Path(f"{log}-wal").touch()
    store(log)
    assert not entries()


def test_standard_input_is_not_cached(monkeypatch: pytest.MonkeyPatch, log: str) -> None:
    with Path(log).open("rb") as stream:
        load_input("-", stream=stream, cache=small_file_cache())
    assert not entries()


def test_the_least_recently_used_entry_is_evicted(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = copies_of(log, 4)
    for at, path in enumerate(paths[:3]):
        store(path)
        newest = max(entries(), key=lambda entry: (entry / "entry.json").stat().st_mtime)
        os.utime(newest / "entry.json", (1_000 + at, 1_000 + at))
    size = entry.entries()[0].bytes
    assert entry_of(paths[0])
    monkeypatch.setattr(entry, "MAX_BYTES", int(3.5 * size))
    store(paths[3])
    assert [entry_of(path) for path in paths] == [True, False, True, True]
    assert sum(cached.bytes for cached in entry.entries()) <= 3.5 * size


def test_the_most_recently_opened_entry_is_evicted_last(log: str) -> None:
    for path in copies_of(log, 3):
        store(path)
    oldest = entry.entries()[-1]
    entry.evict(max_bytes=oldest.bytes, keep=oldest.name)
    assert [cached.name for cached in entry.entries()] == [oldest.name]


def test_an_entry_larger_than_the_limit_is_not_written(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "MAX_BYTES", 1000)
    store(log)
    assert not entries()


def test_the_limit_is_a_tenth_of_the_free_space(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store(log)
    (cached,) = entry.entries()
    disk = os.statvfs(log)
    full = os.statvfs_result((1, 1, 1000, 1000, 1000, *disk[5:10]))
    monkeypatch.setattr(entry.os, "fstatvfs", lambda _: full)
    assert entry.size_limit() == (1000 + cached.bytes) // 10


@pytest.mark.parametrize("after", range(0, 12, 2))
def test_a_full_disk_is_no_error(log: str, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real, created = secure_files.new_file, []

    def new_file(entry: int, name: str) -> int:
        created.append(name)
        if len(created) > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(entry, name)

    for module in ("tui.cache.frame_files", "tui.cache.secure_files", "tui.cache.entry"):
        monkeypatch.setattr(f"{module}.new_file", new_file)
    fresh = store(log)
    assert (entries() == []) == (len(created) > after)
    assert_same_profile(fresh, load_input(log))


def test_a_frame_that_polars_cannot_write_is_no_error(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_ipc", fail)
    store(log)
    assert not entries()


def test_a_stopped_write_leaves_nothing(log: str) -> None:
    cache = small_file_cache()
    load_input(log, cache=cache)
    cache.stop()
    cache.write()
    assert not entries()
    cache = small_file_cache()
    load_input(log, cache=cache)
    looked = iter([False, True])
    cache._stop.is_set = lambda: next(looked, True)  # type: ignore[method-assign]
    cache.write()
    assert not entries()


@pytest.mark.slow
def test_new_results_replace_those_of_an_entry(log: str) -> None:
    store(log)
    name, before = only_entry().name, entry.entries()[0].bytes
    for rows in (3, 40, 5):
        entry.add_results(name, {"made": pl.DataFrame({"a": range(rows)})}, lambda: False)
    (result,) = only_entry().glob("results.*")
    stored = entry.entries()[0]
    assert stored.manifest is not None
    assert stored.manifest.results["made"].name == result.name
    assert pl.read_ipc(result)["a"].to_list() == [0, 1, 2, 3, 4]
    assert stored.manifest.bytes == stored.bytes - (only_entry() / "entry.json").stat().st_size
    assert stored.bytes - before < 2 * result.stat().st_size


def test_results_whose_write_is_stopped_leave_nothing(log: str) -> None:
    store(log)
    before = sorted(only_entry().iterdir())
    calls = iter([False, False, True])
    with pytest.raises(secure_files.StoppedError):
        entry.add_results(
            only_entry().name, {name: pl.DataFrame({"a": [1]}) for name in ("made", "next")}, lambda: next(calls)
        )
    assert sorted(only_entry().iterdir()) == before
    assert entry_of(log)


def test_concurrent_writers_and_readers(log: str) -> None:
    fresh = load_input(log)
    wrong: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(4):
                store(log, renew=True)
                assert_same_profile(reopen(log)[0], fresh)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len([entry for entry in entries() if not entry.name.endswith(secure_files.UNFINISHED_SUFFIX)]) == 1
    assert entry_of(log)


_WRITE_WITH_LIMIT = """
import resource, sys
from tui.cache import cache
from tui.cache import frame_files
from tui.loaders import raw_input
from tui.loaders.registry import load_input
cache._SETTLED_NS = -(10**12)
frame_files.MAPPED_ROWS = 1
one = cache.Cache(min_bytes=0, min_seconds=0)
load_input(sys.argv[1], cache=one)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
one.write()
"""


@pytest.mark.parametrize("most", [0, 500, 3000, 10_000])
def test_a_file_size_limit_is_no_error(log: str, most: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WRITE_WITH_LIMIT, log, str(most)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert not entries()


_WRITE_FOREVER = """
import sys
from tui.cache import cache
from tui.cache import frame_files
from tui.loaders import raw_input
from tui.loaders.registry import load_input
cache._SETTLED_NS = -(10**12)
frame_files.MAPPED_ROWS, frame_files.MAPPED_FILE_BYTES = 1, 10_000
print("ready", flush=True)
while True:
    one = cache.Cache(renew=True, min_bytes=0, min_seconds=0)
    load_input(sys.argv[1], cache=one)
    one.write()
"""


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.15, 0.31, 0.47])
def test_a_killed_writer_leaves_a_complete_entry_or_none(log: str, after_s: float) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _WRITE_FOREVER, log], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(after_s)
        writer.send_signal(signal.SIGKILL)
    profile, _ = reopen(log)
    assert_same_profile(profile, load_input(log))
    for cached in entries():
        if cached.name.endswith(secure_files.UNFINISHED_SUFFIX):
            os.utime(cached, (1, 1))
    store(log)
    assert entry_of(log)
    entry.evict(max_bytes=1 << 40)
    assert not [entry for entry in entries() if entry.name.endswith(secure_files.UNFINISHED_SUFFIX)]


def test_listing_and_clearing_the_cache(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    store(log)
    assert main(["cache", "list"]) == 0
    shown = capfd.readouterr()
    assert log in shown.out
    assert "good" in shown.out
    assert str(secure_files.cache_folder()) in shown.err
    Path(log).touch()
    assert main(["cache", "list", "--format", "json"]) == 0
    assert '"state": "stale"' in capfd.readouterr().out
    (only_entry() / "entry.json").write_bytes(b"x")
    main(["cache", "list"])
    assert "damaged" in capfd.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert "cleared 1 file " in capfd.readouterr().err
    assert not entries()
    assert main(["cache", "clear"]) == 0
    assert main(["cache", "list"]) == 0


def test_a_folder_accessible_to_others_is_reported(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    store(log)
    secure_files.cache_folder().chmod(0o777)
    for action in ("list", "clear"):
        assert main(["cache", action]) == 2
        assert "accessible to other users" in capfd.readouterr().err


def test_open_entries_stay_when_the_cache_is_cleared(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_files, "MAPPED_ROWS", 1)
    store(log)
    profile, was_kept = reopen(log)
    assert was_kept
    assert main(["cache", "clear"]) == 0
    assert not entries()
    assert_same_profile(profile, load_input(log))


def test_a_report_is_the_same_with_and_without_the_cache(
    log: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cache.__init__, "__kwdefaults__", {"renew": False, "min_bytes": 0, "min_seconds": 0})
    monkeypatch.setattr(frame_files, "MAPPED_ROWS", 1)
    store(log)
    reports = []
    for options in ([], ["--no-cache"]):
        for view in ("dashboard", "kernels", "iterations", "ops", "findings"):
            assert main(["report", log, "--view", view, *options]) == 0
        assert main(["export", log, "--frame", "activities", *options]) == 0
        reports.append(capfd.readouterr().out)
    assert reports[0] == reports[1]


def test_no_cache_reads_the_file(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("the cache was asked")

    monkeypatch.setattr(Cache, "profile", fail)
    assert main(["report", log, "--no-cache"]) == 0
    assert main(["report", log]) == STATUS


@pytest.mark.parametrize("failure", [MemoryError(), pl.exceptions.ComputeError("no"), ProftuiError("no")])
def test_a_failed_computation_does_not_prevent_caching(log: str, failure: Exception) -> None:
    def fail() -> None:
        raise failure

    used = small_file_cache()
    load_input(log, cache=used)
    used.write_behind(fail)
    for thread in threading.enumerate():
        if thread.name == "cache":
            thread.join(TIMEOUT_S)
            assert not thread.is_alive()
    assert entry_of(log)
