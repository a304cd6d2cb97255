"""Numbers for rows with the same values."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tui.cache.spill
from tui.cache.spill import number_distinct, row_codes
from tui.model.schema import NAME

_NAMES = st.one_of(st.none(), st.sampled_from("abcd"))
_ROWS = st.lists(st.tuples(_NAMES, _NAMES, st.one_of(st.none(), st.integers(0, 3)), st.integers(0, 4)))


@pytest.mark.parametrize("largest_table", [0, 1 << 26])
@given(rows=_ROWS)
def test_distinct_values_are_numbered_by_first_occurrence(largest_table: int, rows: list[tuple[object, ...]]) -> None:
    frame = pl.DataFrame(
        [row[:3] for row in rows], schema={"op": NAME, "module": NAME, "device": pl.Int32}, orient="row"
    )
    numbers: dict[tuple[object, ...], int] = {}
    expected = [numbers.setdefault(row, len(numbers)) for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tui.cache.spill, "_LARGEST_TABLE", largest_table)
        patch.setattr(tui.cache.spill, "_BLOCK_ROWS", 3)
        first, actual = number_distinct(frame, np.array([row[3] for row in rows], np.int64))
        codes, count = row_codes(frame)
    assert actual.tolist() == expected
    assert first.tolist() == [expected.index(number) for number in range(len(numbers))]
    pairs = set(zip(codes.tolist(), (row[:3] for row in rows), strict=True))
    assert len(pairs) == len({code for code, _ in pairs}) == len({row for _, row in pairs})
    assert count == max(len(pairs), 1)
