"""The benchmark of keys runs, and every key that it presses is answered."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from bench import generate_nsys
from bench.keys import (
    VIEWS,
    KeyBenchmark,
    charts,
    first_openings,
    print_heading,
    print_rows,
    reopened_views,
    row_display,
    tables,
)

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 20_000


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_every_key_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(generate_nsys, "DATA", tmp_path)
    run = KeyBenchmark(ROWS, presses=2, slow_presses=3)
    try:
        for part in (first_openings, tables, row_display, charts, reopened_views):
            part(run)
    finally:
        run.close()
    print_heading()
    print_rows(list(run.rows.values()))
    said = capsys.readouterr().out
    assert all(f"first opening: {view}" in said for view in VIEWS if view != "Dashboard")
    assert [row.title for row in run.rows.values() if not row.seconds or not row.floor] == []
