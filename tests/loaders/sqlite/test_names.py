"""SQLite ignores the letter case of names, and other programs change it when they copy databases."""

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


def _write_nsys(path: Path) -> None:
    nsys.write(path, "2025.5")


def _write_nvprof(path: Path) -> None:
    rows = {"CONCURRENT_KERNEL": [nvprof.kernel(2, 21, 1000, 1500)], "RUNTIME": [nvprof.call(211, 21, 500, 510)]}
    nvprof.write(path, rows, strings=["_Z3addPfi"])


def _write_dlprof(path: Path) -> None:
    dlprof.write(path)


def _write_rocpd(path: Path) -> None:
    ids = {"pid": 1, "tid": 1, "agent_id": 1, "kernel_id": 1, "event_id": 1}
    rocpd.write(
        path,
        {
            "string": [{"id": 1, "string": "KERNEL_DISPATCH"}],
            "info_process": [{"id": 1, "pid": 7}],
            "info_kernel_symbol": [{"id": 1, "kernel_name": "add"}],
            "event": [{"id": 1, "category_id": 1, "stack_id": 1}],
            "kernel_dispatch": [{"id": 1, "start": 10, "end": 15, **ids}],
        },
    )


def _copy_with_case(path: Path, target_path: Path, case: Callable[[str], str]) -> None:
    """Copy the tables of a database, with table and column names in another letter case."""
    source, target = sqlite3.connect(path), sqlite3.connect(target_path)
    for (table,) in source.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"):
        columns = source.execute(f"PRAGMA table_info('{table}')").fetchall()
        target.execute(
            f'CREATE TABLE "{case(table)}" ({", ".join(f"{case(column[1])!r} {column[2]}" for column in columns)})'
        )
        marks = ", ".join("?" * len(columns))
        target.executemany(f'INSERT INTO "{case(table)}" VALUES ({marks})', source.execute(f'SELECT * FROM "{table}"'))
    target.commit()
    source.close()
    target.close()


def _issue_texts(profile: Profile) -> list[tuple[str, str]]:
    return [(text.lower(), reason.lower()) for text, reason in profile["issues"].select("text", "reason").rows()]


@pytest.mark.parametrize("write", [_write_nsys, _write_nvprof, _write_dlprof, _write_rocpd])
@pytest.mark.parametrize("case", [str.upper, str.lower])
def test_letter_case_of_names_is_ignored(
    write: Callable[[Path], None], case: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "copy").mkdir()
    first, copy = tmp_path / "run.sqlite", tmp_path / "copy" / "run.sqlite"
    write(first)
    _copy_with_case(first, copy, case)
    original, recased = load_input(str(first)), load_input(str(copy))
    assert original["activities"].height
    for frame in ("activities", "api_calls", "ops", "ranges", "devices", "tool_figures", "tool_findings", "summary"):
        assert recased[frame].equals(original[frame]), frame
    assert _issue_texts(recased) == _issue_texts(original)


def test_only_ascii_letters_are_case_folded() -> None:
    names = CaselessNames(("StringIds", "\u212aind", "\u00c4"))
    assert "STRINGIDS" in names
    assert "Kind" not in names
    assert "\u00e4" not in names
    values = CaselessMapping({"StringIds": 1})
    assert (values["stringids"], list(values), len(values)) == (1, ["StringIds"], 1)
