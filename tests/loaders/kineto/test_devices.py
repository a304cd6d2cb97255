"""Agents of AMD's runtime and the GPUs that they are; what an op takes over from the one around it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tui.correlation.nesting import NONE, nested
from tui.loaders.kineto.kineto_activities import device_numbers
from tui.loaders.kineto.ops import inherit


@pytest.mark.parametrize(
    ("used", "listed", "numbers"),
    [([2, 3], [0, 1], {2: 0, 3: 1}), ([0, 2], [0, 1], {0: 0, 2: 1}), ([0, 1], [0, 1], {}), ([1, 2, 3], [0, 1], {})],
)
def test_agents_are_taken_in_their_order(used: list[int], listed: list[int], numbers: dict[int, int]) -> None:
    work, calls = pl.DataFrame({"device": used}), pl.DataFrame({"grid_x": [1]})
    assert device_numbers(work, calls, listed) == numbers


def test_a_value_of_its_own_comes_before_that_of_what_lies_around() -> None:
    thread, start, end = (np.array(values, np.int64) for values in ([1, 1, 1, 2], [0, 1, 2, 0], [9, 8, 3, 9]))
    nesting = nested(thread, start, end)
    assert inherit(nesting, np.array([5, 7, NONE, NONE])).tolist() == [5, 7, 7, NONE]
    assert inherit(nesting, np.array([5, NONE, NONE, NONE])).tolist() == [5, 5, 5, NONE]
