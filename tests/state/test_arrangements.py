from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tui.model.table_spec import TableState
from tui.state.workspace import ARRANGEMENTS_VERSION, PLAIN, Arrangement, Arrangements

ARRANGED = TableState(
    filter="gemm",
    sort=(("calls", True), ("name", False)),
    hidden=frozenset({"line", "avg_ns"}),
    order=("name", "calls"),
    pinned=("calls",),
    name_last=True,
    max_rows=25,
    unit="us",
    full_names=True,
    as_share=True,
    share_of_shown=True,
)


def test_an_arrangement_is_restored_in_the_next_run(state_directory: Path) -> None:
    first = Arrangements()
    assert first.keep("kernels/kernels/kernels", Arrangement.from_state(ARRANGED))
    first.write()
    assert (state_directory / "tables.json").is_file()
    found = Arrangements().get("kernels/kernels/kernels").apply_to(TableState(filter="conv"))
    assert found == msgspec.structs.replace(Arrangement.from_state(ARRANGED)).apply_to(TableState(filter="conv"))
    assert (found.hidden, found.pinned) == (ARRANGED.hidden, ARRANGED.pinned)
    assert (found.unit, found.name_last, found.filter) == ("us", True, "conv")
    # The order and the number of rows belong to the file that they were chosen for.
    assert (found.sort, found.max_rows) == (None, None)
    assert Arrangement.from_state(found) == Arrangement.from_state(ARRANGED)


def test_a_default_arrangement_is_not_stored(state_directory: Path) -> None:
    memory = Arrangements()
    assert not memory.keep("a", PLAIN)
    memory.write()
    assert not state_directory.exists()
    memory.keep("a", Arrangement(unit="s"))
    memory.write()
    assert not memory.keep("a", Arrangement(unit="s"))
    assert memory.keep("a", PLAIN)
    memory.write()
    assert (state_directory / "tables.json").read_text() == f'{{"version":{ARRANGEMENTS_VERSION},"entries":{{}}}}'


@pytest.mark.parametrize("entry", ['"text"', '{"unit": 7}', '{"hidden": "all"}', '{"order": [1, 2]}', "null"])
def test_one_bad_entry_does_not_spoil_the_others(state_directory: Path, entry: str) -> None:
    state_directory.mkdir()
    content = (
        f'{{"version": {ARRANGEMENTS_VERSION}, "entries": {{"bad": {entry}, "good": {{"unit": "ms", "later": 1}}}}}}'
    )
    (state_directory / "tables.json").write_text(content)
    memory = Arrangements()
    assert memory.get("bad") == PLAIN
    assert memory.get("good") == Arrangement(unit="ms")
    assert memory.warning == ""


def test_meaningless_values_are_left_out() -> None:
    assert Arrangement(unit="weeks").apply_to(TableState()).unit == "auto"
    assert not Arrangement(order=tuple(map(str, range(501)))).is_valid


def test_a_warning_is_shown_once(state_directory: Path) -> None:
    state_directory.mkdir()
    (state_directory / "tables.json").write_text('{"version": 99, "entries": {}}')
    memory = Arrangements()
    assert memory.get("a") == PLAIN
    assert "another version" in memory.warning
    memory.warning = ""
    memory.keep("a", Arrangement(unit="s"))
    memory.write()
    assert memory.warning == ""
    assert memory.get("a") == Arrangement(unit="s")
