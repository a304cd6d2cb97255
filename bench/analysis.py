"""The analyses behind the screens, against one ``group_by`` over the same launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench.figures import Figure
from bench.generate_profile import stored_frames
from bench.measure import Case, Result

TITLE = "Analyses"
NOTE = (
    "launches of a training run with the API calls behind them; reading the frames is not measured, but each analysis "
    "makes what others would have left for it; peak is with the frames; growth is the time of all rows by that of a "
    "tenth of them"
)
MEASURES_GROWTH = True
"""Whether a tenth of the rows is measured too, to see growth that is not linear."""
ROWS, RUNS = 5_000_000, 1

SECONDS_GOAL, GROWTH_GOAL = 2.0, 12.0
DASHBOARD_PARTS = ("first figures of the Dashboard", "the whole Dashboard")
"""The first part of the Dashboard, and all of it."""

WORK = {
    "group_by of kind and name": "group_by",
    "kernels by name": "kernels",
    "busy time": "busy_time",
    "breakdown of wall time": "breakdown",
    "overlap and exposure": "overlap",
    "idle time by what it waits for": "idle_time",
    "use in chunks": "low_use",
    "every gap with what the CPU did": "gaps",
    "launch delays by name": "delays_by_name",
    "transfers": "transfers",
    "transfers by size": "transfer_sizes",
    "runs of tiny copies": "tiny_runs",
    "finding the iterations": "iterations_found",
    "first figures of the Dashboard": "dashboard",
    "the whole Dashboard": "whole_dashboard",
    "the time figures of the Dashboard together": "time_figures",
    "all rules of Expert Systems": "rules",
    "all rules, after the Dashboard": "rules_after_dashboard",
}
"""The measured analyses, with their function in `bench.analysis_work`."""


def cases(rows: int) -> Iterator[tuple[str, list[Case]]]:
    """One group: the analyses, with the ``group_by`` as the floor."""
    folder = stored_frames(rows)
    yield (
        f"{rows:,} activities and as many API calls",
        [
            Case(title, f"bench.analysis_work:{function}", folder / "activities.arrow", is_floor=function == "group_by")
            for title, function in WORK.items()
        ],
    )


def figures(_group: str, results: Mapping[str, Result], tenth: Mapping[str, float]) -> list[Figure]:
    """The seconds of each part of the Dashboard, and the largest growth."""
    floor = next(result for result in results.values() if result.case.is_floor)
    needed = [results[title] for title in DASHBOARD_PARTS]
    found = [
        Figure(
            f"analysis: {result.case.title}",
            result.seconds,
            SECONDS_GOAL,
            "s",
            floor.case.title,
            floor.seconds,
            result.seconds,
            result.peak_bytes,
        )
        for result in needed
    ]
    growth, steepest = max((result.fastest / tenth[title], title) for title, result in results.items())
    return [*found, Figure(f"analysis: ten times the launches ({steepest})", growth, GROWTH_GOAL, "x")]
