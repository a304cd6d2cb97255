"""Stale, damaged and foreign entries, and those of another version, are never used and do no harm."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cache.cached import assert_same_profile, entries, only_entry, reopen, store
from tui.cache import entry, frame_files, secure_files
from tui.cache import entry as entries_of
from tui.loaders.registry import load_input

OTHER_USER = 12345


def is_cached(path: str) -> bool:
    """Return whether the cached profile is used; the opened profile is correct in any case."""
    profile, was_kept = reopen(path)
    assert_same_profile(profile, load_input(path))
    return was_kept


def test_a_cached_profile_is_used(log: str) -> None:
    store(log)
    assert is_cached(log)


def test_a_file_that_grew_is_read_again(log: str) -> None:
    store(log)
    with Path(log).open("a") as file:
        file.write("\n")
    assert not is_cached(log)


def test_a_file_with_another_time_is_read_again(log: str) -> None:
    store(log)
    os.utime(log, (1, 1))
    assert not is_cached(log)


def test_a_file_changed_in_the_middle_with_its_old_time_is_read_again(log: str) -> None:
    store(log)
    before = Path(log).stat()
    with Path(log).open("r+b") as file:
        file.seek(before.st_size // 2)
        file.write(b"7")
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not is_cached(log)


def test_a_replaced_file_is_read_again(log: str) -> None:
    store(log)
    shutil.copy2(log, f"{log}.new")
    Path(f"{log}.new").replace(log)
    assert not is_cached(log)


def test_another_path_or_format_is_another_entry(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store(log)
    monkeypatch.chdir(Path(log).parent)
    assert not reopen(Path(log).name)[1]
    assert not reopen(log, "nvprof-text")[1]
    assert reopen(log)[1]


def test_an_entry_of_another_version_is_not_used(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store(log)
    monkeypatch.setattr(entries_of, "program_fingerprint", lambda: "another")
    assert not is_cached(log)
    store(log)
    assert is_cached(log)
    assert len(entries()) == 1


def test_an_entry_of_another_layout_is_not_used(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store(log)
    monkeypatch.setattr(entries_of, "LAYOUT", 3)
    assert not is_cached(log)


def test_a_changed_loader_is_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loaders").mkdir()
    (tmp_path / "loaders" / "one.py").write_text("1")
    (tmp_path / "__init__.py").write_text("")
    monkeypatch.setattr(entry.tui, "__file__", str(tmp_path / "__init__.py"))
    before = entry.program_fingerprint.__wrapped__()
    (tmp_path / "loaders" / "one.py").write_text("22")
    after = entry.program_fingerprint.__wrapped__()
    assert after != before
    (tmp_path / "screens").mkdir()
    (tmp_path / "screens" / "one.py").write_text("1")
    assert entry.program_fingerprint.__wrapped__() == after
    (tmp_path / "text.py").write_text("1")
    assert entry.program_fingerprint.__wrapped__() != after


@pytest.mark.parametrize("part", ["folder", "entry", "file"])
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o644])
def test_entries_accessible_to_others_are_not_used(log: str, part: str, mode: int) -> None:
    store(log)
    path = {"folder": secure_files.cache_folder(), "entry": only_entry(), "file": only_entry() / "entry.json"}[part]
    path.chmod(mode)
    assert not is_cached(log)


def test_a_folder_that_others_can_read_is_restricted_when_an_entry_is_stored(log: str) -> None:
    store(log)
    secure_files.cache_folder().chmod(0o755)
    with (
        pytest.raises(secure_files.InsecureFileError, match="accessible to other users"),
        secure_files.open_cache_folder(),
    ):
        pass
    store(log)
    assert secure_files.cache_folder().stat().st_mode & 0o777 == 0o700
    assert is_cached(log)


@pytest.mark.parametrize("part", ["folder", "entry", "file"])
def test_entries_of_another_user_are_not_used(log: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store(log)
    path = {"folder": secure_files.cache_folder(), "entry": only_entry(), "file": only_entry() / "sessions.arrow"}[part]
    real, inode = os.fstat, path.stat().st_ino

    def fstat(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        return os.stat_result((*status[:4], OTHER_USER, *status[5:])) if status.st_ino == inode else status

    monkeypatch.setattr(secure_files.os, "fstat", fstat)
    _, was_kept = reopen(log)
    assert not was_kept


@pytest.mark.parametrize("part", ["folder", "entry", "file"])
def test_symbolic_links_are_not_followed(log: str, part: str, tmp_path: Path) -> None:
    store(log)
    path = {"folder": secure_files.cache_folder(), "entry": only_entry(), "file": only_entry() / "sessions.arrow"}[part]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert not is_cached(log)


def test_hard_links_are_not_used(log: str, tmp_path: Path) -> None:
    store(log)
    os.link(only_entry() / "sessions.arrow", tmp_path / "second")
    assert not is_cached(log)


def test_a_pipe_in_place_of_a_file_does_not_block(log: str) -> None:
    store(log)
    (only_entry() / "sessions.arrow").unlink()
    os.mkfifo(only_entry() / "sessions.arrow", 0o600)
    assert not is_cached(log)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(draw=st.data())
def test_damage_at_any_place_is_detected(log: str, draw: st.DataObject) -> None:
    frame_files.MAPPED_ROWS, before = 1, frame_files.MAPPED_ROWS  # type: ignore[misc]
    try:
        if not entries():
            store(log)
        entry = only_entry()
        path = draw.draw(st.sampled_from(sorted(entry.iterdir())))
        content = path.read_bytes()
        at = draw.draw(st.integers(0, len(content) - 1))
        damage = draw.draw(st.sampled_from(["flip", "cut", "insert", "append", "zero", "gone"]))
        changed = {
            "flip": content[:at] + bytes([content[at] ^ draw.draw(st.integers(1, 255))]) + content[at + 1 :],
            "cut": content[:at],
            "insert": content[:at] + b"\0" + content[at:],
            "append": content + b"\0",
            "zero": bytes(len(content)),
            "gone": None,
        }[damage]
        path.unlink() if changed is None else path.write_bytes(changed)
        try:
            _, was_kept = reopen(log)
            assert not was_kept
        finally:
            path.touch(mode=0o600)
            path.write_bytes(content)
    finally:
        frame_files.MAPPED_ROWS = before  # type: ignore[misc]


def test_text_of_a_compressed_log_is_cached_and_checked(log: str, tmp_path: Path) -> None:
    import gzip

    packed = tmp_path / "run.log.gz"
    packed.write_bytes(gzip.compress(Path(log).read_bytes()))
    store(str(packed))
    assert is_cached(str(packed))
    text = only_entry() / "text"
    text.write_bytes(text.read_bytes().replace(b"0", b"1", 1))
    assert not is_cached(str(packed))


def test_a_file_that_becomes_unreadable_stays_not_open(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store(log)
    fingerprint = entry.file_fingerprint(log)
    assert fingerprint is not None
    opened = []

    def fail(_path: str, descriptor: int) -> None:
        opened.append(descriptor)
        raise OSError

    monkeypatch.setattr(entry, "open_file_fingerprint", fail)
    assert entry.read_entry(entry.entry_name(log, None), log, fingerprint, {}) is None
    (descriptor,) = opened
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_named_pipes_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that waits to write to one would find no reader and end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    opened = []
    open_really = os.open

    def noted(path: str, *arguments: int) -> int:
        opened.append(path)
        return open_really(path, *arguments)

    monkeypatch.setattr(os, "open", noted)
    assert entry.file_fingerprint(str(pipe)) is None
    assert opened == []


@pytest.mark.parametrize("rows", [0, 2, 4])
def test_a_column_of_another_length_than_its_frame_is_damage(rows: int, tmp_path: Path) -> None:
    """As in an entry whose list of files was changed along with their digests."""
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        data = pl.DataFrame({"a": [1, 2, 3]})
        stored = frame_files.FrameWriter(folder, lambda: False).write_frame("made", data)
        reader = frame_files.FrameReader(folder, None)
        assert reader.read_frame(stored, data.schema).equals(data)
        with pytest.raises(secure_files.DamagedError, match="another type or length"):
            reader.read_frame(msgspec.structs.replace(stored, rows=rows), data.schema)
        with pytest.raises(secure_files.DamagedError, match="another type or length"):
            reader.read_frame(stored, pl.Schema({"a": pl.Float64}))
    finally:
        os.close(folder)


def test_a_stopped_writer_writes_nothing(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(secure_files.StoppedError):
            frame_files.FrameWriter(folder, lambda: True).write_unmapped("made", pl.DataFrame({"a": [1]}))
    finally:
        os.close(folder)
    assert list(tmp_path.iterdir()) == []
