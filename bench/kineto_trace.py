"""PyTorch traces of about a gigabyte, against orjson reading the same bytes."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from bench.grow_kineto import kineto_trace
from bench.measure import Case

TITLE = "PyTorch (Kineto) traces"
NOTE = (
    "1,000 bytes a row asked for; the events of a recording are repeated: times, correlation numbers and ids go on; "
    "names, shapes, launch configurations and durations repeat"
)
BYTES_PER_ROW = 1000


def cases(rows: int) -> Iterator[tuple[str, list[Case]]]:
    """Groups of cases; the files they need are made first."""
    path = kineto_trace(rows * BYTES_PER_ROW)
    has_orjson = importlib.util.find_spec("orjson") is not None
    parser = "orjson" if has_orjson else "json"
    yield (
        "trace events, JSON",
        [
            Case("read the bytes", "bench.work:read_bytes", path),
            Case(f"{parser}.loads of the same bytes", f"bench.work:parse_with_{parser}", path, is_floor=True),
            Case("its events alone, as columns", "bench.work:read_trace_events", path),
            Case("proftui", "bench.work:load_profile", path),
        ],
    )
