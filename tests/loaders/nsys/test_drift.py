"""Exports that lack columns, have other types, or were copied by other programs."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.loaders.nsys import twin
from tui.loaders.registry import load_input

if TYPE_CHECKING:
    from tui.model.profile import Profile

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"


def read_changed(path: Path, *statements: str, generation: str = "2023.4") -> Profile:
    twin.write(path, generation)
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()
    return load_input(str(path))


def issues(profile: Profile) -> list[tuple[object, ...]]:
    return profile["issues"].select("session", "severity", "text", "reason").rows()


@pytest.mark.parametrize("generation", twin.GENERATIONS)
def test_no_missing_columns_are_reported_for_any_version(generation: str, tmp_path: Path) -> None:
    profile = read_changed(tmp_path / "run.sqlite", generation=generation)
    assert not any("missing from the table" in str(reason) for *_, reason in issues(profile))


def test_renamed_columns_are_reported(tmp_path: Path) -> None:
    profile = read_changed(
        tmp_path / "run.sqlite",
        f"ALTER TABLE {KERNELS} RENAME COLUMN correlationId TO correlation",
        f"ALTER TABLE {KERNELS} RENAME COLUMN streamId TO stream",
        "ALTER TABLE NVTX_EVENTS RENAME COLUMN globalTid TO thread",
    )
    reported = "columns missing from the table ({}): their values are unknown"
    assert (None, "warning", KERNELS, reported.format("streamId, correlationId")) in issues(profile)
    assert (None, "warning", "NVTX_EVENTS", reported.format("globalTid")) in issues(profile)


def test_calls_that_end_before_they_begin_are_reported(tmp_path: Path) -> None:
    profile = read_changed(tmp_path / "run.sqlite", f"UPDATE {CALLS} SET end = start - 5 WHERE correlationId = 3")
    reason = "1 API call with missing or reversed times; listed without a duration"
    assert [row for row in issues(profile) if row[3] == reason] == [
        (0, "warning", "", reason),
        (1, "warning", "", reason),
    ]
    assert profile["api_calls"]["duration_ns"].null_count() == 2


def test_numbers_converted_to_text_or_float_are_read(tmp_path: Path) -> None:
    plain = read_changed(tmp_path / "plain.sqlite")
    names = twin.columns("2023.4")[KERNELS]
    untyped = ", ".join(names)
    copied = read_changed(
        tmp_path / "run.sqlite",
        f"ALTER TABLE {KERNELS} RENAME TO old",
        f"CREATE TABLE {KERNELS} ({untyped})",
        f"INSERT INTO {KERNELS} SELECT {untyped} FROM old",
        "DROP TABLE old",
        f"UPDATE {KERNELS} SET start = CAST(start AS TEXT), globalPid = CAST(globalPid AS TEXT), gridX = gridX * 1.0",
    )
    assert copied["activities"].equals(plain["activities"])
    assert issues(copied) == issues(plain)
    converted = read_changed(
        tmp_path / "odd.sqlite",
        f"ALTER TABLE {KERNELS} RENAME TO old",
        f"CREATE TABLE {KERNELS} ({untyped})",
        f"INSERT INTO {KERNELS} SELECT {untyped} FROM old",
        "DROP TABLE old",
        f"UPDATE {KERNELS} SET gridX = '4x', gridY = 1.5, gridZ = '99999999999999999999'",
    )
    assert converted["activities"]["grid_x"].null_count() == converted["activities"].height
    assert {text for _, _, text, _ in issues(converted)} >= {f"{KERNELS}.grid{axis}" for axis in "XYZ"}


def test_messages_with_an_unknown_severity_are_reported(tmp_path: Path) -> None:
    profile = read_changed(
        tmp_path / "run.sqlite",
        "INSERT INTO DIAGNOSTIC_EVENT (severity, text) VALUES (NULL, 'lost it'), (9, 'of tomorrow')",
        generation="2025.5",
    )
    for text in ("lost it", "of tomorrow"):
        assert (None, "info", text, "reported by Nsight Systems") in issues(profile)


def test_a_truncated_file_is_reported(tmp_path: Path) -> None:
    path = twin.write(tmp_path / "run.sqlite", "2023.4")
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    reason = "the file is 1 byte shorter than its header claims (truncated); the readable part is shown"
    assert (None, "error", "run.sqlite", reason) in issues(load_input(str(path)))
    path.write_bytes(content)
    assert not any("shorter" in str(reason) for *_, reason in issues(load_input(str(path))))
