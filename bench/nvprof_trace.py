"""nvprof traces of many rows, against Polars reading the same rows as a clean CSV."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.grow_trace import csv_log, text_log
from bench.measure import Case

TITLE = "nvprof traces"
NOTE = "grown from a recording: starts, durations, sizes and ids vary; names and launch configurations repeat"


def cases(rows: int) -> Iterator[tuple[str, list[Case]]]:
    """Groups of cases; the files they need are made first."""
    yield "GPU trace, text", _group(*text_log(rows))
    yield "GPU and API trace, text", _group(*text_log(rows, with_api=True))
    yield "GPU trace, CSV", _group(*csv_log(rows))
    yield "GPU trace, text, every launch distinct", _group(*text_log(rows, distinct=True))


def _group(log: Path, clean: Path) -> list[Case]:
    return [
        Case("read the bytes", "bench.work:read_bytes", log),
        Case("pl.read_csv of the same rows", "bench.work:read_csv", clean, is_floor=True),
        Case("proftui", "bench.work:load_profile", log),
    ]
