"""Agents of AMD's runtime and the numbers of their GPUs."""

from __future__ import annotations

import polars as pl
import pytest

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
