from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tui.state.store import Store
from tui.state.workspace import MAX_CHARACTERS, MAX_QUERIES, Queries

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "queries.json", version=1, max_entries=MAX_QUERIES)


def test_queries_are_unique_and_the_latest_is_last(store: Store) -> None:
    for text in ("select 1", "select 2", "select 1", "select \ud800", "x" * (MAX_CHARACTERS + 1)):
        assert Queries(store).keep(text.encode("utf-8", "replace").decode(), "a") == ""
    assert Queries(store).texts() == ["select 2", "select 1", "select ?"]


def test_the_history_is_limited_and_queries_of_a_file_can_be_deleted(store: Store) -> None:
    for number in range(MAX_QUERIES + 2):
        Queries(store).keep(f"select {number}", "a" if number % 2 else "b")
    assert Queries(store).texts() == [f"select {number}" for number in range(2, MAX_QUERIES + 2)]
    assert Queries(store).forget("a") == Queries(store).forget("none") == ""
    assert Queries(store).texts() == [f"select {number}" for number in range(2, MAX_QUERIES + 2, 2)]


def test_invalid_entries_are_ignored(store: Store) -> None:
    Queries(store).keep("select 1", "a")
    content = json.loads(store.path.read_text())
    content["entries"] |= {"x": 1, "y": {"text": 3}, "z": {"text": " ", "files": "", "at_ns": 1}}
    content["entries"]["long"] = {"text": "x" * (MAX_CHARACTERS + 1), "files": "", "at_ns": 2}
    store.path.write_text(json.dumps(content))
    assert Queries(store).texts() == ["select 1"]
    store.path.write_text("{")
    assert Queries(store).texts() == []
