"""Every benchmark runs, on little, and gives the figures that the table of goals needs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from bench import (
    figures,
    generate_kineto,
    generate_nsys,
    generate_nvprof,
    generate_profile,
    generate_protobuf,
    nsys_database,
)
from bench.__main__ import BENCHMARKS, main

if TYPE_CHECKING:
    from pathlib import Path

IN_TESTS_OF_THEIR_OWN = ("keys",)
QUICK = "nsys_database"
CASES = [
    name if name == QUICK else pytest.param(name, marks=pytest.mark.slow)
    for name in BENCHMARKS
    if name not in IN_TESTS_OF_THEIR_OWN
]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("name", CASES)
def test_a_benchmark_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generators = (generate_kineto, generate_nsys, generate_profile, generate_nvprof, generate_protobuf)
    for module in (*generators, nsys_database):
        monkeypatch.setattr(module, "DATA", tmp_path)
    out = tmp_path / "figures.json"
    found = main([name, "--rows", "5000", "--runs", "1", "--json", str(out)])
    assert found or name == "second_opening", "files this small are not kept"
    assert all(figure.measured is not None or name == "memory" for figure in found), "of so little nothing is left"
    assert all(figure.repeat_with.startswith(f"python -m bench {name} ") for figure in found)
    written = json.loads(out.read_text())
    assert [figure["what"] for figure in written["figures"]] == [figure.what for figure in found]
    assert written["machine"]["cores"] > 0


def test_the_page_holds_the_table_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{figures.BEGIN}\nold\n{figures.END}\n\nAfter.\n")
    found = [figures.Figure("reading", 0.5, 1.0, "x", "the floor", 2.0, 1.0, 30_000_000, "python -m bench a")]
    figures.write_page(page, found)
    figures.write_page(page, found)
    text = page.read_text()
    assert text.startswith("# Before\n\n")
    assert text.endswith("\n\nAfter.\n")
    assert "old" not in text
    row = "| reading | 1.00 x | **0.50 x** | met | 1.000 | the floor | 2.000 | 30 MB | `python -m bench a` |"
    assert text.count(row) == 1
    figures.write_page(page, [figures.Figure("opening", 2.0, 1.0, "x")], keeps_others=True)
    figures.write_page(page, [figures.Figure("reading", 0.7, 1.0, "x")], keeps_others=True)
    reported = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    assert [line[:34] for line in reported[2:]] == [
        "| reading | 1.00 x | **0.70 x** | ",
        "| opening | 1.00 x | **2.00 x** | ",
    ]
    assert tuple(reported[:2]) == figures.HEADING
    page.write_text("no marks")
    with pytest.raises(ValueError, match="must be in it"):
        figures.write_page(page, found)


def test_verdicts() -> None:
    assert figures.Figure("a", 0.9, 1.0, "x").verdict == "met"
    assert figures.Figure("a", 1.5, 1.0, "x").verdict == "above by 50%"
    assert figures.Figure("a", None, 1.0, "x").verdict == "not measured"
    assert figures.Figure("a", 1.5, None, "x").verdict == ""
