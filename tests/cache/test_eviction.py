"""How much is kept, who writes it, and what comes of writing that ends early."""

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

from tests.cache.keeping import a_cache, again, entries, keep, only_entry, same
from tests.waiting import TIMEOUT_S
from tui.cache import cache as caching
from tui.cache import entry, frame_files, secure_files
from tui.cache.cache import Cache
from tui.cli.crash import STATUS
from tui.cli.main import main
from tui.loaders import raw_input
from tui.loaders.registry import load_one
from tui.model.errors import ProftuiError

ROOT = Path(__file__).parents[2]


def copies(log: str, count: int) -> list[str]:
    """Further logs, each on its own."""
    paths = [Path(log).with_name(f"{at}.log") for at in range(count)]
    for path in paths:
        path.write_bytes(Path(log).read_bytes())
    return [str(path) for path in paths]


def kept_of(path: str) -> bool:
    return again(path)[1]


def test_folders_and_files_are_the_users_alone(log: str) -> None:
    keep(log)
    assert secure_files.cache_folder().stat().st_mode & 0o777 == 0o700
    assert only_entry().stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in only_entry().iterdir()} == {0o600}


def test_small_and_quick_files_are_not_cached(log: str) -> None:
    for cache in (Cache(least_seconds=0), Cache(least_bytes=0, least_seconds=1e6)):
        load_one(log, cache=cache)
        cache.write()
    assert not entries()


def test_a_file_that_changed_just_now_is_not_cached(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching, "_SETTLED_NS", 3600 * 10**9)
    Path(log).touch()
    keep(log)
    assert not entries()


def test_what_was_read_in_part_is_not_cached(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = a_cache()

    def stop(_: object) -> bool:
        return False

    monkeypatch.setattr(raw_input, "_REPORT_EVERY_S", 0.0)
    with suppress(ProftuiError):
        assert load_one(log, cache=stopped, report=stop).partial
    stopped.write()
    assert not entries()


def test_a_file_that_changes_while_it_is_read_is_not_cached(log: str) -> None:
    cache = a_cache()

    def load() -> object:
        profile = load_one(log)
        with Path(log).open("a") as file:
            file.write("x\n")
        return profile

    cache.profile(log, None, load)  # type: ignore[arg-type]
    cache.write()
    assert not entries()


def test_a_database_with_a_part_beside_it_is_not_cached(log: str) -> None:
    Path(f"{log}-wal").touch()
    keep(log)
    assert not entries()


def test_standard_input_is_not_cached(monkeypatch: pytest.MonkeyPatch, log: str) -> None:
    with Path(log).open("rb") as stream:
        load_one("-", stream=stream, cache=a_cache())
    assert not entries()


def test_what_was_not_used_for_longest_goes_first(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = copies(log, 4)
    for at, path in enumerate(paths[:3]):
        keep(path)
        newest = max(entries(), key=lambda entry: (entry / "entry.json").stat().st_mtime)
        os.utime(newest / "entry.json", (1_000 + at, 1_000 + at))
    size = entry.entries()[0].bytes
    assert kept_of(paths[0])
    monkeypatch.setattr(entry, "MAX_BYTES", int(3.5 * size))
    keep(paths[3])
    assert [kept_of(path) for path in paths] == [True, False, True, True]
    assert sum(kept.bytes for kept in entry.entries()) <= 3.5 * size


def test_what_is_kept_by_name_goes_last_though_it_was_not_used_for_longest(log: str) -> None:
    for path in copies(log, 3):
        keep(path)
    oldest = entry.entries()[-1]
    entry.evict(max_bytes=oldest.bytes, keep=oldest.name)
    assert [one.name for one in entry.entries()] == [oldest.name]


def test_what_is_larger_than_all_room_is_not_written(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "MAX_BYTES", 1000)
    keep(log)
    assert not entries()


def test_a_tenth_of_what_is_free_is_the_most(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(log)
    (kept,) = entry.entries()
    disk = os.statvfs(log)
    full = os.statvfs_result((1, 1, 1000, 1000, 1000, *disk[5:10]))
    monkeypatch.setattr(entry.os, "fstatvfs", lambda _: full)
    assert entry.limit() == (1000 + kept.bytes) // 10


@pytest.mark.parametrize("after", range(0, 12, 2))
def test_a_full_disk_is_a_quiet_no(log: str, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real, made = secure_files.new_file, []

    def new_file(entry: int, name: str) -> int:
        made.append(name)
        if len(made) > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(entry, name)

    for module in ("tui.cache.frame_files", "tui.cache.secure_files", "tui.cache.entry"):
        monkeypatch.setattr(f"{module}.new_file", new_file)
    fresh = keep(log)
    assert (entries() == []) == (len(made) > after)
    same(fresh, load_one(log))


def test_what_polars_cannot_write_is_a_quiet_no(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_ipc", fail)
    keep(log)
    assert not entries()


def test_writing_that_is_stopped_leaves_nothing(log: str) -> None:
    cache = a_cache()
    load_one(log, cache=cache)
    cache.stop()
    cache.write()
    assert not entries()
    cache = a_cache()
    load_one(log, cache=cache)
    looked = iter([False, True])
    cache._stop.is_set = lambda: next(looked, True)  # type: ignore[method-assign]
    cache.write()
    assert not entries()


@pytest.mark.slow
def test_many_write_and_read_at_once(log: str) -> None:
    fresh = load_one(log)
    wrong: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(4):
                keep(log, renew=True)
                same(again(log)[0], fresh)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len([entry for entry in entries() if not entry.name.endswith(secure_files.PART)]) == 1
    assert kept_of(log)


_WITH_LITTLE_ROOM = """
import resource, sys
from tui.cache import cache
from tui.cache import frame_files
from tui.loaders import raw_input
from tui.loaders.registry import load_one
cache._SETTLED_NS = -(10**12)
frame_files.MAPPED_ROWS = 1
one = cache.Cache(least_bytes=0, least_seconds=0)
load_one(sys.argv[1], cache=one)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
one.write()
"""


@pytest.mark.parametrize("most", [0, 500, 3000, 10_000])
def test_files_that_cannot_grow_are_a_quiet_no(log: str, most: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITH_LITTLE_ROOM, log, str(most)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert not entries()


_WRITE_FOR_EVER = """
import sys
from tui.cache import cache
from tui.cache import frame_files
from tui.loaders import raw_input
from tui.loaders.registry import load_one
cache._SETTLED_NS = -(10**12)
frame_files.MAPPED_ROWS, frame_files.PIECE_BYTES = 1, 10_000
print("ready", flush=True)
while True:
    one = cache.Cache(renew=True, least_bytes=0, least_seconds=0)
    load_one(sys.argv[1], cache=one)
    one.write()
"""


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.15, 0.31, 0.47])
def test_what_a_killed_writer_leaves_is_not_believed_or_is_whole(log: str, after_s: float) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _WRITE_FOR_EVER, log], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(after_s)
        writer.send_signal(signal.SIGKILL)
    profile, _ = again(log)
    same(profile, load_one(log))
    for cached in entries():
        if cached.name.endswith(secure_files.PART):
            os.utime(cached, (1, 1))
    keep(log)
    assert kept_of(log)
    entry.evict(max_bytes=1 << 40)
    assert not [entry for entry in entries() if entry.name.endswith(secure_files.PART)]


def test_list_and_clear(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    keep(log)
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


def test_a_folder_that_others_can_write_to_is_reported_of(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    keep(log)
    secure_files.cache_folder().chmod(0o777)
    for action in ("list", "clear"):
        assert main(["cache", action]) == 2
        assert "writable by other users" in capfd.readouterr().err


def test_what_is_open_stays_when_the_cache_is_cleared(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_files, "MAPPED_ROWS", 1)
    keep(log)
    profile, was_kept = again(log)
    assert was_kept
    assert main(["cache", "clear"]) == 0
    assert not entries()
    same(profile, load_one(log))


def test_a_report_is_the_same_from_what_is_kept_and_without(
    log: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cache.__init__, "__kwdefaults__", {"renew": False, "least_bytes": 0, "least_seconds": 0})
    monkeypatch.setattr(frame_files, "MAPPED_ROWS", 1)
    keep(log)
    said = []
    for more in ([], ["--no-cache"]):
        for view in ("dashboard", "kernels", "iterations", "ops", "findings"):
            assert main(["report", log, "--view", view, *more]) == 0
        assert main(["export", log, "--frame", "activities", *more]) == 0
        said.append(capfd.readouterr().out)
    assert said[0] == said[1]


def test_no_cache_reads_the_file(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("the cache was asked")

    monkeypatch.setattr(Cache, "profile", fail)
    assert main(["report", log, "--no-cache"]) == 0
    assert main(["report", log]) == STATUS


@pytest.mark.parametrize("failure", [MemoryError(), pl.exceptions.ComputeError("no"), ProftuiError("no")])
def test_what_cannot_be_worked_out_behind_keeps_nothing_else_from_being_kept(log: str, failure: Exception) -> None:
    def fail() -> None:
        raise failure

    used = a_cache()
    load_one(log, cache=used)
    used.write_behind(fail)
    for thread in threading.enumerate():
        if thread.name == "cache":
            thread.join(TIMEOUT_S)
            assert not thread.is_alive()
    assert kept_of(log)
