"""The benchmark of keys runs, and every key that it presses is answered."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from bench import grow_nsys
from bench.keys import VIEWS, Run, again, charts, first_looks, looks, print_heading, print_rows, tables

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 20_000


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_every_key_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(grow_nsys, "DATA", tmp_path)
    run = Run(ROWS, presses=2, few=3)
    try:
        for part in (first_looks, tables, looks, charts, again):
            part(run)
    finally:
        run.close()
    print_heading()
    print_rows(list(run.rows.values()))
    said = capsys.readouterr().out
    assert all(f"first look: {view}" in said for view in VIEWS if view != "Dashboard")
    assert [row.title for row in run.rows.values() if not row.seconds or not row.floor] == []
