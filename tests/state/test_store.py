from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tui.state.store import Store, files, state_folder


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "not" / "there" / "tables.json", version=3, max_entries=4)


def test_the_store_is_in_the_users_state_directory(state_directory: Path) -> None:
    assert state_folder() == state_directory


def test_a_new_store_is_empty_and_reading_creates_nothing(store: Store) -> None:
    assert store.read().entries == {}
    assert store.read().warning == ""
    assert not store.path.parent.parent.exists()


def test_entries_can_be_written_read_and_removed(store: Store) -> None:
    assert store.change({"a": {"sort": (("calls", True),)}, "b": 1}) == ""
    assert store.read().entries == {"a": {"sort": [["calls", True]]}, "b": 1}
    assert list(store.path.parent.iterdir()) == [store.path]
    store.change({"a": None})
    assert store.read().entries == {"b": 1}


def test_nothing_is_written_without_changes(store: Store) -> None:
    store.change({"a": {"sort": (("calls", True),)}})
    before = store.path.stat()
    assert store.change({"a": {"sort": (("calls", True),)}, "gone": None}) == ""
    assert store.path.stat() == before


def test_changes_of_another_run_are_preserved(store: Store) -> None:
    other = Store(store.path, version=3, max_entries=4)
    store.change({"a": 1})
    other.change({"b": 2})
    store.change({"a": 3})
    assert store.read().entries == {"b": 2, "a": 3}


def test_the_oldest_entries_are_removed_first(store: Store) -> None:
    for name in "abcd":
        store.change({name: name})
    store.change({"a": "again"})
    store.change({"e": "new"})
    assert list(store.read().entries) == ["c", "d", "a", "e"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[]", b'{"version": 3}', b'{"version": 3, "entries": []}', b"[" * 100_000],
)
def test_a_damaged_document_is_reported_and_replaced(store: Store, content: bytes) -> None:
    store.path.parent.mkdir(parents=True)
    store.path.write_bytes(content)
    document = store.read()
    assert document.entries == {}
    assert "tables.json is damaged" in document.warning
    assert store.change({"a": 1}) == ""
    assert store.read().entries == {"a": 1}


def test_a_document_of_another_version_is_not_changed(store: Store) -> None:
    store.path.parent.mkdir(parents=True)
    store.path.write_text('{"version": 4, "entries": {"a": 1}}')
    assert "by another version" in store.read().warning
    assert "by another version" in store.change({"b": 1})
    assert json.loads(store.path.read_text()) == {"version": 4, "entries": {"a": 1}}


def test_a_document_that_is_too_large_is_not_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.change({"a": "x" * 100})
    monkeypatch.setattr("tui.state.store.MAX_BYTES", 50)
    assert "is too large" in store.read().warning


def test_an_unwritable_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "tables.json", version=1, max_entries=1)
    assert "cannot be written" in store.change({"a": 1}) or "cannot be read" in store.change({"a": 1})


def test_files_are_identified_by_size_and_time(tmp_path: Path) -> None:
    log, ranks = tmp_path / "run.log", tmp_path / "ranks"
    ranks.mkdir()
    for path in (log, ranks / "0.json"):
        path.write_text("kernels")
        os.utime(path, ns=(5, 5))
        paths = [str(log), str(ranks)]
        before = files(paths)
        assert before is not None
        assert files(paths) == before
        os.utime(path, ns=(5, 6))
        later = files(paths)
        path.write_text("kernel")
        os.utime(path, ns=(5, 6))
        shorter = files(paths)
        assert later is not None
        assert shorter is not None
        assert len({before, later, shorter}) == 3
        assert {before.name, later.name, shorter.name} == {before.name}
    before = files([str(ranks)])
    os.utime(ranks, ns=(9, 9))
    assert files([str(ranks)]) == before, "an export beside the profiles changes nothing"
    assert files(["-"]) is None
