"""The numbers in an interval."""

from __future__ import annotations

from fractions import Fraction

import polars as pl
import pytest

from tui.model.errors import did_you_mean
from tui.query.values import NumberRange

NUMBERS = [1, 2, 3, None]


@pytest.mark.parametrize("dtype", [pl.Float64, pl.Float32, pl.Int64, pl.UInt8])
def test_open_bounds_are_excluded_and_closed_bounds_included(dtype: pl.DataType) -> None:
    values = pl.Series(NUMBERS, dtype=dtype)
    low, middle, high = map(Fraction, (1, 2, 3))
    assert NumberRange(low=middle).holds(values).to_list() == [False, True, True, False]
    assert NumberRange(low=middle, low_open=True).holds(values).to_list() == [False, False, True, False]
    assert NumberRange(high=middle).holds(values).to_list() == [True, True, False, False]
    assert NumberRange(high=middle, high_open=True).holds(values).to_list() == [True, False, False, False]
    assert NumberRange(low=low, high=high, low_open=True, high_open=True).holds(values).to_list() == [
        False,
        True,
        False,
        False,
    ]


def test_nan_is_in_no_interval() -> None:
    values = pl.Series([float("nan"), None, 1.0, float("inf")])
    assert NumberRange().holds(values).to_list() == [False, False, True, True]


def test_two_letters_have_no_suggestion() -> None:
    assert did_you_mean("ke", ["kernels"]) == ""
    assert did_you_mean("ker", ["kernels"]) == "did you mean kernels?"
