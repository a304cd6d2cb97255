"""nvprof traces with many rows, compared with Polars reading the same rows as plain CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.figures import Figure, ratio
from bench.generate_nvprof import csv_log, text_log
from bench.measure import Case, Result

TITLE = "nvprof traces"
NOTE = "grown from a recording: starts, durations, sizes and ids vary; names and launch configurations repeat"
ROWS, RUNS = 1_000_000, 3

FLOOR, OURS = "pl.read_csv of the same rows", "proftui"
GOALS = {"GPU trace, text": 1.0, "GPU and API trace, text": 1.0}


def cases(rows: int) -> Iterator[tuple[str, list[Case]]]:
    """Groups of cases; generates the files first."""
    yield "GPU trace, text", _group(*text_log(rows))
    yield "GPU and API trace, text", _group(*text_log(rows, with_api=True))
    yield "GPU trace, CSV", _group(*csv_log(rows))
    yield "GPU trace, text, every launch distinct", _group(*text_log(rows, distinct=True))


def figures(group: str, results: Mapping[str, Result], _tenth: Mapping[str, float]) -> list[Figure]:
    """Time relative to reading plain CSV; there is no goal for rows that never repeat, and for quoted rows."""
    return [ratio(f"nvprof {group}: reading", results[OURS], results[FLOOR], GOALS.get(group))]


def _group(log: Path, clean: Path) -> list[Case]:
    return [
        Case("read the bytes", "bench.work:read_bytes", log),
        Case(FLOOR, "bench.work:read_csv", clean, is_floor=True),
        Case(OURS, "bench.work:load_profile", log),
    ]
