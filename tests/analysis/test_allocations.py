"""The framework's allocator: peaks, growth, curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import make_profile
from tui.analysis.allocator import (
    ALLOCATOR_ITERATIONS,
    allocations,
    allocator_iterations,
    allocators,
    iteration_starts,
    memory_curve,
)
from tui.analysis.iterations.chosen_iterations import select_iterations
from tui.analysis.iterations.iteration_table import with_iterations
from tui.model.aggregation import aggregation

if TYPE_CHECKING:
    from tui.model.profile import Profile


def allocator_profile(changes: list[int], *, first: int = 100, step: int = 10) -> Profile:
    """Return a GPU with one allocator event per ns, and iterations of ``step`` ns."""
    total, events = first, []
    for time_ns, change in enumerate(changes):
        total += change
        events.append({"place": "GPU", "device": 0, "start_ns": time_ns, "delta_bytes": change,
                       "allocated_bytes": total, "reserved_bytes": 1000})  # fmt: skip
    ranges: list[dict[str, Any]] = [
        {"name": f"step {number}", "start_ns": start_ns, "duration_ns": step, "iteration": number, "pid": 1, "tid": 1}
        for number, start_ns in enumerate(range(0, len(changes), step))
    ]
    work = [{"name": "k", "start_ns": 0, "duration_ns": 1, "device": 0, "iteration": 0}]
    devices = [{"device": 0, "memory_bytes": 5000}]
    return with_iterations(make_profile(memory_events=events, ranges=ranges, activities=work, devices=devices))


def test_peak_memory_its_time_and_growth() -> None:
    profile = allocator_profile([50, -20, 70, -90], step=2)
    assert allocators(profile).drop("session", "active_peak_bytes").rows() == [
        ("GPU", 0, 200, 2, 1, 1000, 100, 110, 10, 5000, 4),
    ]
    rows = allocator_iterations(profile, session=0, place="GPU", device=0)
    columns = ("iteration", "peak_bytes", "peak_at_ns", "first_bytes", "last_bytes", "growth_bytes", "gained_bytes")
    assert rows.select(columns).rows() == [(0, 150, 0, 100, 130, 30, 50), (1, 200, 2, 130, 110, -20, 70)]


def test_memory_of_devices_is_separate() -> None:
    events = [
        {"place": place, "device": device, "start_ns": 1, "delta_bytes": size, "allocated_bytes": size}
        for place, device, size in (("CPU", None, 8), ("GPU", 0, 16), ("GPU", 1, 32))
    ]
    rows = allocators(with_iterations(make_profile(memory_events=events)))
    assert rows.select("place", "device", "peak_bytes").rows() == [("GPU", 0, 16), ("GPU", 1, 32), ("CPU", None, 8)]


def test_without_totals_peaks_are_unknown() -> None:
    events = [{"place": "GPU", "device": 0, "start_ns": 1, "delta_bytes": 8}]
    profile = with_iterations(make_profile(memory_events=events))
    row = allocators(profile).row(0, named=True)
    assert (row["peak_bytes"], row["peak_at_ns"], row["growth_bytes"], row["events"]) == (None, None, None, 1)


def test_intervals_between_iterations_are_separate_without_totals() -> None:
    ranges = [
        {"name": "step", "start_ns": time_ns, "duration_ns": 5, "iteration": time_ns, "pid": 1, "tid": 1}
        for time_ns in (10, 30, 50)
    ]
    events = [{"place": "CPU", "start_ns": time_ns, "delta_bytes": 8} for time_ns in (5, 12, 20, 32, 40, 52)]
    work = [{"name": "k", "start_ns": 12, "duration_ns": 1, "device": 0, "iteration": 10}]
    rows = allocator_iterations(with_iterations(make_profile(memory_events=events, ranges=ranges, activities=work)))
    assert rows["iteration"].to_list() == [None, 10, None, 30, None, 50]
    assert not rows.select(ALLOCATOR_ITERATIONS.key).is_duplicated().any()


def test_selected_iterations_keep_their_own_allocations() -> None:
    selected = select_iterations(allocator_profile([1] * 30), aggregation("1", None))
    assert selected["memory_events"]["start_ns"].to_list() == list(range(10, 20))
    assert allocations(selected)["iteration"].unique().to_list() == [1]


def test_marks_are_at_the_starts_of_iterations() -> None:
    assert iteration_starts(allocator_profile([1] * 30), session=0) == [(0, 0), (1, 10), (2, 20)]


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=40), st.integers(1, 12))
def test_growth_and_peaks_agree_between_allocators_iterations_and_curve(changes: list[int], steps: int) -> None:
    profile = allocator_profile(changes, first=10_000)
    row = allocators(profile).row(0, named=True)
    assert row["growth_bytes"] == sum(changes)
    by_step = allocator_iterations(profile, session=0, place="GPU", device=0)
    assert by_step["growth_bytes"].sum() == sum(changes)
    assert by_step["events"].sum() == len(changes)
    assert by_step["peak_bytes"].max() == row["peak_bytes"]
    curve = memory_curve(profile, session=0, place="GPU", device=0, steps=steps)
    assert len(curve) == steps
    assert curve.max() == row["peak_bytes"]
    assert not np.isnan(curve).any()
