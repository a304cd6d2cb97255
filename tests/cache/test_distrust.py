"""What is stale, damaged, of another version or of somebody else is never believed, and nothing comes of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cache.keeping import again, entries, keep, only_entry, same
from tui.cache import entry, frame_files, secure_files
from tui.cache import entry as entries_of
from tui.loaders.registry import load_one

OTHER_MAN = 12345


def believed(path: str) -> bool:
    """Whether what is kept is used; what is opened is right in any case."""
    profile, was_kept = again(path)
    same(profile, load_one(path))
    return was_kept


def test_what_is_kept_is_believed(log: str) -> None:
    keep(log)
    assert believed(log)


def test_a_file_that_grew_is_read(log: str) -> None:
    keep(log)
    with Path(log).open("a") as file:
        file.write("\n")
    assert not believed(log)


def test_a_file_of_another_time_is_read(log: str) -> None:
    keep(log)
    os.utime(log, (1, 1))
    assert not believed(log)


def test_a_file_changed_in_its_middle_with_its_old_time_is_read(log: str) -> None:
    keep(log)
    before = Path(log).stat()
    with Path(log).open("r+b") as file:
        file.seek(before.st_size // 2)
        file.write(b"7")
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not believed(log)


def test_a_file_put_in_its_place_is_read(log: str) -> None:
    keep(log)
    shutil.copy2(log, f"{log}.new")
    Path(f"{log}.new").replace(log)
    assert not believed(log)


def test_the_same_file_by_another_path_or_format_is_another(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(log)
    monkeypatch.chdir(Path(log).parent)
    assert not again(Path(log).name)[1]
    assert not again(log, "nvprof-text")[1]
    assert again(log)[1]


def test_another_version_is_not_believed(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(log)
    monkeypatch.setattr(entries_of, "program", lambda: "another")
    assert not believed(log)
    keep(log)
    assert believed(log)
    assert len(entries()) == 1


def test_another_layout_is_not_believed(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(log)
    monkeypatch.setattr(entries_of, "LAYOUT", 3)
    assert not believed(log)


def test_a_touched_loader_is_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loaders").mkdir()
    (tmp_path / "loaders" / "one.py").write_text("1")
    (tmp_path / "__init__.py").write_text("")
    monkeypatch.setattr(entry.tui, "__file__", str(tmp_path / "__init__.py"))
    before = entry.program.__wrapped__()
    (tmp_path / "loaders" / "one.py").write_text("22")
    assert entry.program.__wrapped__() != before


@pytest.mark.parametrize("what", ["folder", "entry", "file"])
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o644])
def test_what_others_may_touch_is_not_believed(log: str, what: str, mode: int) -> None:
    keep(log)
    path = {"folder": secure_files.cache_folder(), "entry": only_entry(), "file": only_entry() / "entry.json"}[what]
    path.chmod(mode)
    assert not believed(log)


@pytest.mark.parametrize("what", ["folder", "entry", "file"])
def test_what_belongs_to_somebody_else_is_not_believed(log: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(log)
    path = {"folder": secure_files.cache_folder(), "entry": only_entry(), "file": only_entry() / "sessions.arrow"}[what]
    real, inode = os.fstat, path.stat().st_ino

    def fstat(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        return os.stat_result((*status[:4], OTHER_MAN, *status[5:])) if status.st_ino == inode else status

    monkeypatch.setattr(secure_files.os, "fstat", fstat)
    _, was_kept = again(log)
    assert not was_kept


@pytest.mark.parametrize("what", ["folder", "entry", "file"])
def test_a_link_is_not_followed(log: str, what: str, tmp_path: Path) -> None:
    keep(log)
    path = {"folder": secure_files.cache_folder(), "entry": only_entry(), "file": only_entry() / "sessions.arrow"}[what]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert not believed(log)


def test_a_file_with_a_second_name_is_not_believed(log: str, tmp_path: Path) -> None:
    keep(log)
    os.link(only_entry() / "sessions.arrow", tmp_path / "second")
    assert not believed(log)


def test_a_pipe_in_place_of_a_file_is_not_waited_for(log: str) -> None:
    keep(log)
    (only_entry() / "sessions.arrow").unlink()
    os.mkfifo(only_entry() / "sessions.arrow", 0o600)
    assert not believed(log)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(draw=st.data())
def test_damage_at_any_place_is_seen(log: str, draw: st.DataObject) -> None:
    frame_files.MAPPED_ROWS, before = 1, frame_files.MAPPED_ROWS  # type: ignore[misc]
    try:
        if not entries():
            keep(log)
        entry = only_entry()
        path = draw.draw(st.sampled_from(sorted(entry.iterdir())))
        content = path.read_bytes()
        at = draw.draw(st.integers(0, len(content) - 1))
        how = draw.draw(st.sampled_from(["flip", "cut", "insert", "append", "zero", "gone"]))
        changed = {
            "flip": content[:at] + bytes([content[at] ^ draw.draw(st.integers(1, 255))]) + content[at + 1 :],
            "cut": content[:at],
            "insert": content[:at] + b"\0" + content[at:],
            "append": content + b"\0",
            "zero": bytes(len(content)),
            "gone": None,
        }[how]
        path.unlink() if changed is None else path.write_bytes(changed)
        try:
            _, was_kept = again(log)
            assert not was_kept
        finally:
            path.touch(mode=0o600)
            path.write_bytes(content)
    finally:
        frame_files.MAPPED_ROWS = before  # type: ignore[misc]


def test_text_of_a_packed_log_is_kept_and_checked(log: str, tmp_path: Path) -> None:
    import gzip

    packed = tmp_path / "run.log.gz"
    packed.write_bytes(gzip.compress(Path(log).read_bytes()))
    keep(str(packed))
    assert believed(str(packed))
    text = only_entry() / "text"
    text.write_bytes(text.read_bytes().replace(b"0", b"1", 1))
    assert not believed(str(packed))


def test_a_named_pipe_is_not_opened_to_see_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits to write to it would be let in, find nobody reading and end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    opened = []
    open_really = os.open

    def noted(path: str, *arguments: int) -> int:
        opened.append(path)
        return open_really(path, *arguments)

    monkeypatch.setattr(os, "open", noted)
    assert entry.fingerprint_of(str(pipe)) is None
    assert opened == []


@pytest.mark.parametrize("rows", [0, 2, 4])
def test_a_column_that_is_longer_or_shorter_than_its_frame_is_damage(rows: int, tmp_path: Path) -> None:
    """As an entry has it whose list of files was changed along with their digests."""
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        data = pl.DataFrame({"a": [1, 2, 3]})
        stored = frame_files.FrameWriter(folder, lambda: False).frame("made", data)
        reader = frame_files.FrameReader(folder, None)
        assert reader.frame(stored, data.schema).equals(data)
        with pytest.raises(secure_files.DamagedError, match="another type or length"):
            reader.frame(msgspec.structs.replace(stored, rows=rows), data.schema)
        with pytest.raises(secure_files.DamagedError, match="another type or length"):
            reader.frame(stored, pl.Schema({"a": pl.Float64}))
    finally:
        os.close(folder)


def test_nothing_is_written_once_writing_is_to_stop(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(secure_files.StoppedError):
            frame_files.FrameWriter(folder, lambda: True).whole("made", pl.DataFrame({"a": [1]}))
    finally:
        os.close(folder)
    assert list(tmp_path.iterdir()) == []
