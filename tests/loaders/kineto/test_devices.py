"""Agents of AMD's runtime and the numbers of their GPUs."""

from __future__ import annotations

import polars as pl
import pytest

from tests.loaders.kineto.traces import kernel, read
from tui.loaders.kineto.kineto_activities import device_numbers


@pytest.mark.parametrize(
    ("used", "listed", "numbers"),
    [([2, 3], [0, 1], {2: 0, 3: 1}), ([0, 2], [0, 1], {0: 0, 2: 1}), ([0, 1], [0, 1], {}), ([1, 2, 3], [0, 1], {})],
)
def test_agents_are_matched_to_gpus_in_ascending_order(
    used: list[int], listed: list[int], numbers: dict[int, int]
) -> None:
    work, calls = pl.DataFrame({"device": used}), pl.DataFrame({"grid_x": [1]})
    assert device_numbers(work, calls, listed) == numbers


@pytest.mark.parametrize("is_amd", [True, False])
def test_durations_beyond_later_work_of_the_stream_are_unknown_on_amd(*, is_amd: bool) -> None:
    """The profiler of AMD notices some ends late; on other GPUs, branches of a graph may share a stream."""
    late = [kernel(1, 0, 1_600_000), kernel(2, 10, 5), kernel(3, 20, 5), kernel(4, 30, 5), kernel(5, 40, 5)]
    # Work of another stream, short work and the last work may overlap.
    possible = [kernel(6, 50, 2_000_000, stream=9), kernel(7, 60, 9_000), kernel(8, 70, 20_000)]
    profile = read(
        [*late, *possible, kernel(9, 80, 1), kernel(10, 90, 1), kernel(11, 100, 1)],
        **({"deviceProperties": [{"id": 0, "name": "AMD Instinct MI355X"}]} if is_amd else {}),
    )
    durations = dict(profile["activities"].select("correlation", "duration_ns").iter_rows())
    assert durations[1] == (None if is_amd else 1_600_000_000)
    assert [durations[number] for number in (2, 6, 7, 8)] == [5_000, 2_000_000_000, 9_000_000, 20_000_000]
    warnings = profile["issues"].filter(severity="warning")["reason"].to_list()
    assert [text.partition(" after")[0] for text in warnings] == (["1 GPU activity ends"] if is_amd else [])
