"""Small profiles of iterations, for tests of critical paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.analysis.frames import kernel, make_profile
from tui.analysis.critical_path import base_profile, paths_by_iteration
from tui.analysis.critical_path_slack import Graph, earliest_times
from tui.analysis.critical_path_trace import traces
from tui.analysis.iterations.iteration_table import with_iterations

if TYPE_CHECKING:
    from tui.model.profile import Profile

US = 1000


def launch(
    correlation: int, start: int, duration: int = 2, *, name: str = "cudaLaunchKernel", tid: int = 1
) -> dict[str, Any]:
    return {
        "name": name,
        "correlation": correlation,
        "start_ns": start * US,
        "duration_ns": duration * US,
        "pid": 1,
        "tid": tid,
    }


def work(name: str, start: int, duration: int, correlation: int, *, stream: int = 7, **fields: Any) -> dict[str, Any]:
    columns = {"start_ns": start * US, "correlation": correlation, "stream": stream, "device": 0, "iteration": 0}
    return kernel(name, duration * US, **{**columns, **fields})


def op(name: str, start: int, duration: int, *, tid: int = 1) -> dict[str, Any]:
    return {"name": name, "start_ns": start * US, "duration_ns": duration * US, "pid": 1, "tid": tid}


def step(start: int, duration: int, **fields: Any) -> dict[str, Any]:
    times = {"start_ns": start * US, "duration_ns": duration * US, "pid": 1, "tid": 1, "iteration": 0}
    return {"name": "ProfilerStep#0", **times, **fields}


def profile_with_iterations(**frames: Any) -> Profile:
    """Return a profile with numbered ops and its iterations."""
    frames["ops"] = [{**row, "op": number} for number, row in enumerate(frames.get("ops", []))]
    return with_iterations(make_profile(**frames))


def assert_recorded_times_are_reproduced(profile: Profile) -> None:
    """Check that the graph with the recorded durations reproduces all recorded times."""
    base = base_profile(profile)
    for window, segments in paths_by_iteration(base).values():
        graph = Graph(traces(base), window, sorted({window.session, *(segment.on_session for segment in segments)}))
        assert len(graph.order()) == len(graph.times)
        times = earliest_times(graph, np.array([[weight] for *_, weight in graph.edges]))
        assert times[:, 0].tolist() == graph.times


def serial_profile() -> Profile:
    """Return work in which a waits for its launch, b for a, and c for the call that waited for b."""
    return profile_with_iterations(
        ranges=[step(0, 100)],
        ops=[op("first", 0, 30), op("second", 62, 18), op("inner", 64, 12)],
        api_calls=[
            launch(1, 10),
            launch(2, 14),
            launch(9, 31, 30, name="cudaDeviceSynchronize"),
            launch(3, 70),
        ],
        activities=[
            work("a", 15, 20, 1),
            work("b", 37, 21, 2),
            work("c", 76, 24, 3),
        ],
    )
