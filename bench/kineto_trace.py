"""PyTorch traces of about a gigabyte and of a quarter of that, against orjson reading the same bytes."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping

from bench.figures import Figure, ratio
from bench.generate_kineto import kineto_trace
from bench.measure import Case, Result

TITLE = "PyTorch (Kineto) traces"
NOTE = (
    "1,000 bytes a row asked for; the events of a recording are repeated: times, correlation numbers and ids go on; "
    "names, shapes, launch configurations and durations repeat"
)
BYTES_PER_ROW = 1000
ROWS, RUNS = 1_024_000, 1
SIZES = (1, 4)
"""Divisors of the size: also a quarter of it, where fixed costs weigh more."""

OURS, GOAL, MEMORY_GOAL = "proftui", 0.25, 1.0
FIRST_LOOKS = {
    "critical paths of all iterations": "critical_paths",
    "critical path of one iteration": "critical_path",
    "roofline": "roofline",
    "ops by module": "group_ops",
    "flame": "flame",
    "collectives of two ranks, with causes": "collectives",
    "steps of a server by phase": "server_steps",
    "CUDA graphs": "graphs",
    "loops within loops": "loops",
    "list of profiles in its folder": "home",
}
"""The views measured when first opened, with their function in `bench.work`."""
FIRST_LOOK_GOAL = 1.0
"""Seconds for a trace of 256 MB, proportional for others; no view is computed while the file opens."""


def cases(rows: int) -> Iterator[tuple[str, list[Case]]]:
    """Groups of cases; generates the files first."""
    has_orjson = importlib.util.find_spec("orjson") is not None
    parser = "orjson" if has_orjson else "json"
    for part in SIZES:
        path = kineto_trace(rows * BYTES_PER_ROW // part)
        yield (
            f"trace events, {path.stat().st_size / 1e6:,.0f} MB of JSON",
            [
                Case("read the bytes", "bench.work:read_bytes", path),
                Case(f"{parser}.loads of the same bytes", f"bench.work:parse_with_{parser}", path, is_floor=True),
                Case("its events alone, as columns", "bench.work:read_trace_events", path),
                Case(OURS, "bench.work:load_profile", path),
                *(Case(title, f"bench.work:{function}", path) for title, function in FIRST_LOOKS.items()),
            ],
        )


def figures(_group: str, results: Mapping[str, Result], _tenth: Mapping[str, float]) -> list[Figure]:
    """Time relative to the parser, and memory relative to the size of the file."""
    ours = results[OURS]
    floor = next(result for result in results.values() if result.case.is_floor)
    size = ours.case.path.stat().st_size
    title = f"PyTorch trace, {size / 1e6:,.0f} MB"
    return [
        ratio(f"{title}: reading", ours, floor, GOAL),
        Figure(
            f"{title}: peak memory",
            ours.peak_bytes / size,
            MEMORY_GOAL,
            "x",
            "size of the file, unpacked",
            peak_bytes=ours.peak_bytes,
        ),
        *(
            Figure(f"{title}: {look}", results[look].seconds, FIRST_LOOK_GOAL * size / 256e6, "s")
            for look in FIRST_LOOKS
        ),
    ]
