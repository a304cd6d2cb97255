"""SQLite takes names in any letter case, and other programs write copies of databases in theirs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.loaders.dlprof import twin as dlprof
from tests.loaders.nsys import twin as nsys
from tests.loaders.nvprof import nvprof_database_build as nvprof
from tests.loaders.rocprof import rocpd_build as rocpd
from tui.loaders.registry import load_input
from tui.loaders.sqlite.database import CaselessMapping, CaselessNames

if TYPE_CHECKING:
    from tui.model.profile import Profile


def _of_nsys(path: Path) -> None:
    nsys.write(path, "2025.5")


def _of_nvprof(path: Path) -> None:
    rows = {"CONCURRENT_KERNEL": [nvprof.kernel(2, 21, 1000, 1500)], "RUNTIME": [nvprof.call(211, 21, 500, 510)]}
    nvprof.write(path, rows, strings=["_Z3addPfi"])


def _of_dlprof(path: Path) -> None:
    dlprof.write(path)


def _of_rocpd(path: Path) -> None:
    where = {"pid": 1, "tid": 1, "agent_id": 1, "kernel_id": 1, "event_id": 1}
    rocpd.write(
        path,
        {
            "string": [{"id": 1, "string": "KERNEL_DISPATCH"}],
            "info_process": [{"id": 1, "pid": 7}],
            "info_kernel_symbol": [{"id": 1, "kernel_name": "add"}],
            "event": [{"id": 1, "category_id": 1, "stack_id": 1}],
            "kernel_dispatch": [{"id": 1, "start": 10, "end": 15, **where}],
        },
    )


def _in_case(path: Path, to: Path, case: Callable[[str], str]) -> None:
    """Copy the tables of a database, their names and those of their columns in another letter case."""
    found, made = sqlite3.connect(path), sqlite3.connect(to)
    for (table,) in found.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"):
        columns = found.execute(f"PRAGMA table_info('{table}')").fetchall()
        made.execute(f'CREATE TABLE "{case(table)}" ({", ".join(f"{case(one[1])!r} {one[2]}" for one in columns)})')
        marks = ", ".join("?" * len(columns))
        made.executemany(f'INSERT INTO "{case(table)}" VALUES ({marks})', found.execute(f'SELECT * FROM "{table}"'))
    made.commit()
    found.close()
    made.close()


def _told(profile: Profile) -> list[tuple[str, str]]:
    return [(text.lower(), reason.lower()) for text, reason in profile["issues"].select("text", "reason").rows()]


@pytest.mark.parametrize("write", [_of_nsys, _of_nvprof, _of_dlprof, _of_rocpd])
@pytest.mark.parametrize("case", [str.upper, str.lower])
def test_letter_case_of_names_is_ignored(
    write: Callable[[Path], None], case: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "copy").mkdir()
    first, copy = tmp_path / "run.sqlite", tmp_path / "copy" / "run.sqlite"
    write(first)
    _in_case(first, copy, case)
    one, other = load_input(str(first)), load_input(str(copy))
    assert one["activities"].height
    for frame in ("activities", "api_calls", "ops", "ranges", "devices", "tool_figures", "tool_findings", "summary"):
        assert other[frame].equals(one[frame]), frame
    assert _told(other) == _told(one)


def test_only_ascii_letters_are_case_folded() -> None:
    names = CaselessNames(("StringIds", "\u212aind", "\u00c4"))
    assert "STRINGIDS" in names
    assert "Kind" not in names
    assert "\u00e4" not in names
    values = CaselessMapping({"StringIds": 1})
    assert (values["stringids"], list(values), len(values)) == (1, ["StringIds"], 1)
