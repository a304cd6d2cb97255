"""Painting the timeline, against one numpy pass over the same launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench.figures import Figure
from bench.generate_profile import stored_frames
from bench.measure import Case, Result

TITLE = "Timeline"
NOTE = (
    "every lane is drawn in 170 cells; seconds are of one drawing, the mean of a hundred that pan; making the lanes "
    "is done once, in a thread; the floor adds up busy time in as many cells with reduceat; peak is with the frames"
)
ROWS, RUNS = 5_000_000, 1

PAINT_GOAL_MS = 16.0
"""The goal for a movement key."""

WORK = {
    "one numpy pass: busy time in 170 cells": "numpy_pass",
    "drawing the whole time": "paint_all",
    "drawing a thousandth of it": "paint_near",
    "drawing 1 µs per cell": "paint_close",
    "making the lanes": "make_lanes",
    "finding a name in all lanes": "find_gemm",
    "the next gap, where there is none": "no_gap",
}
"""The measured parts, with their function in `bench.timeline_work`."""


def cases(rows: int) -> Iterator[tuple[str, list[Case]]]:
    """One group: painting and preparation, with one pass over the launches as the floor."""
    folder = stored_frames(rows)
    yield (
        f"{rows:,} activities and as many API calls",
        [
            Case(title, f"bench.timeline_work:{name}", folder / "activities.arrow", is_floor=name == "numpy_pass")
            for title, name in WORK.items()
        ],
    )


def figures(_group: str, results: Mapping[str, Result], _tenth: Mapping[str, float]) -> list[Figure]:
    """Milliseconds of each paint."""
    floor = next(result for result in results.values() if result.case.is_floor)
    return [
        Figure(
            f"timeline: {title}",
            1000 * result.seconds,
            PAINT_GOAL_MS,
            "ms",
            floor.case.title,
            floor.seconds,
            result.seconds,
            result.peak_bytes,
        )
        for title, result in results.items()
        if title.startswith("drawing")
    ]
