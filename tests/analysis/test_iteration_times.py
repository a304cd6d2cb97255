"""Durations of iterations, and the steady interval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import kernel, make_profile
from tui.analysis.iterations import times as module
from tui.analysis.iterations.times import iteration_times, steady_stretch


def step_ranges(*times: int, session: int = 0) -> list[dict[str, object]]:
    starts = np.cumsum([0, *times[:-1]]).tolist()
    return [
        {
            "session": session,
            "name": f"step {number}",
            "start_ns": start,
            "duration_ns": duration_ns,
            "iteration": number + 10,
        }
        for number, (start, duration_ns) in enumerate(zip(starts, times, strict=True))
    ]


def test_times_and_steady_iterations_of_each_session() -> None:
    profile = make_profile(ranges=[*step_ranges(900, 100, 110, 100, 110, 500), *step_ranges(50, session=1)])
    first, second = iteration_times(profile).iter_rows(named=True)
    assert {name: first[name] for name in ("iterations", "first", "last", "total_ns", "avg_ns", "median_ns")} == {
        "iterations": 6,
        "first": 10,
        "last": 15,
        "total_ns": 1820,
        "avg_ns": 303,
        "median_ns": 110,
    }
    assert (first["p95_ns"], first["min_ns"], first["max_ns"], first["std_ns"]) == (800, 100, 900, 332)
    assert first["cv"] == pytest.approx(np.std([900, 100, 110, 100, 110, 500], ddof=1) / (1820 / 6))
    assert (first["steady_first"], first["steady_last"], first["steady_iterations"]) == (11, 14, 4)
    assert (first["steady_avg_ns"], first["steady_cv"]) == (105, pytest.approx(np.std([1, 1.1, 1, 1.1], ddof=1) / 1.05))
    assert (second["iterations"], second["std_ns"], second["cv"], second["steady_first"]) == (1, None, None, None)


def test_work_outside_iterations_is_not_timed() -> None:
    names = ["b", *"ab" * 4]
    profile = make_profile(activities=[kernel(name, 5, start_ns=10 * index) for index, name in enumerate(names)])
    row = iteration_times(profile).row(0, named=True)
    assert (row["iterations"], row["first"], row["last"], row["total_ns"]) == (4, 0, 3, 75)
    assert iteration_times(make_profile()).is_empty()


def longest_steady_length(times: list[float]) -> int:
    """Return the length of the longest steady interval, by testing every one."""
    return max(
        (
            end - start
            for start in range(len(times))
            for end in range(start + 3, len(times) + 1)
            if np.std(times[start:end], ddof=1) < 0.1 * np.mean(times[start:end])
        ),
        default=0,
    )


@given(st.lists(st.integers(90, 130).map(float) | st.integers(1, 500).map(float), max_size=25))
def test_no_steady_interval_is_longer(times: list[float]) -> None:
    interval = steady_stretch(np.array(times))
    assert (0 if interval is None else interval[1] - interval[0]) == longest_steady_length(times)


@pytest.mark.parametrize("pause", [6e11, 3.6e12, 6e14])
def test_a_long_pause_does_not_change_the_steady_interval(pause: float) -> None:
    # Iterations of 20 us after ten minutes, an hour and a week.
    times = [10_000.0, 20_000, 30_000] * 9 + [20_000.0, 20_400] * 6 + [10_000.0, 20_000, 30_000] * 9
    interval = steady_stretch(np.array(times))
    assert interval is not None
    assert steady_stretch(np.array([pause, *times])) == (interval[0] + 1, interval[1] + 1)
    assert steady_stretch(np.array([pause, *[10_000.0, 20_000, 30_000] * 9])) is None


def test_steady_iterations_of_many_are_found_without_testing_every_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_ALL_LENGTHS", 20)
    times = np.array([500.0] * 20 + [100.0, 101.0] * 40 + [300.0] * 10)
    interval = steady_stretch(times)
    assert interval is not None
    assert interval[1] - interval[0] >= 80
    assert steady_stretch(np.full(100, 7.0)) == (0, 100)
    assert steady_stretch(np.array([1.0, 9.0] * 30)) is None
