"""XPlane and Perfetto files of about a gigabyte: memory, and time against Google's protobuf on a quarter of that."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping

from bench.figures import Figure, ratio
from bench.generate_protobuf import perfetto_of_slices, xplane_of_kernels
from bench.measure import Case, Result

TITLE = "XPlane and Perfetto files"
NOTE = (
    "1,000 bytes a row asked for; made-up events, kernels of one stream or slices of one thread; protobuf reads "
    "their fields as columns and does nothing else"
)
BYTES_PER_ROW = 1000
ROWS, RUNS = 1_000_000, 1
OURS, GOAL, MEMORY_GOAL = "proftui", 2.0, 1.5
_QUARTER = 4


def cases(rows: int) -> Iterator[tuple[str, list[Case]]]:
    """Groups of cases; generates the files first."""
    has_protobuf = all(importlib.util.find_spec(name) is not None for name in ("google", "google.protobuf"))
    for kind, generate in {"XPlane": xplane_of_kernels, "Perfetto": perfetto_of_slices}.items():
        for part in (1, _QUARTER):
            path = generate(rows * BYTES_PER_ROW // part)
            group = [
                Case("read the bytes", "bench.work:read_bytes", path, is_floor=part == 1 or not has_protobuf),
                Case(OURS, "bench.work:load_profile", path),
            ]
            if part == _QUARTER and has_protobuf:
                reader = f"bench.protobuf_work:read_{kind.lower()}"
                group.insert(1, Case("protobuf, the same columns", reader, path, is_floor=True))
            yield f"{kind}, {path.stat().st_size / 1e6:,.0f} MB", group


def figures(group: str, results: Mapping[str, Result], _tenth: Mapping[str, float]) -> list[Figure]:
    """Time relative to protobuf where it was measured, otherwise memory relative to the size of the file."""
    ours = results[OURS]
    floor = next(result for result in results.values() if result.case.is_floor)
    if floor.case.title.startswith("protobuf"):
        return [ratio(f"{group}: reading", ours, floor, GOAL)]
    size = ours.case.path.stat().st_size
    memory = Figure(
        f"{group}: peak memory",
        ours.peak_bytes / size,
        MEMORY_GOAL,
        "x",
        "size of the file",
        peak_bytes=ours.peak_bytes,
    )
    return [memory]
