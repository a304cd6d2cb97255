"""The numbers of nvprof's text are read exactly."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.render_summary import time_cell
from tui.loaders.nvprof.numbers import parse_count, parse_percent, time_ns
from tui.loaders.nvprof.trace_bulk import Figures, read_dimensions, read_numbers


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("2.77606s", None, 2_776_060_000),
        ("2.4e+03s", None, 2_400_000_000_000),
        ("1.32e+03", "ms", 1_320_000_000),
        ("9.15e-03", "ms", 9_150),
        ("5.251200e-05", "s", 52_512),
        ("215155715.000000", "ns", 215_155_715),
        ("0ns", None, 0),
        ("274ns", None, 274),
        ("8.0251ms", None, 8_025_100),
        ("366.57us", "ms", 366_570),
    ],
)
def test_times(text: str, unit: str | None, expected: int) -> None:
    assert time_ns(text, unit) == expected


@pytest.mark.parametrize("text", ["", "1.5", "12%", "1.5m", "-3ns", "1e9999s", "1e40s", "1,5ms", "ms", "nan", "٣ns\n"])
def test_invalid_times_are_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected a time|too large"):
        time_ns(text)


@given(st.integers(0, 999_999 * 10**6))
def test_a_time_reads_back_within_its_printed_precision(nanoseconds: int) -> None:
    read = time_ns(time_cell(nanoseconds))
    assert abs(read - nanoseconds) <= max(Decimal(nanoseconds) * Decimal("0.00005"), Decimal("0.5"))


def test_bulk_times_equal_single_times() -> None:
    texts = ("1.5ns", "2.5ns", "1.499ns", "12.3456us", "8.0251ms", "1.23456789012s", "7ns")
    digits = np.array([15, 25, 1499, 123456, 80251, 123456789012, 7, 0], np.int64)
    decimals = np.array([1, 1, 3, 4, 4, 11, 0, 0], np.int8)
    unit = np.array([0, 0, 0, 3, 6, 9, 0, 0], np.int8)
    dash = np.arange(8) == 7
    bulk_times = Figures(digits, decimals, unit, dash, np.ones(8, bool)).nanoseconds().tolist()
    assert bulk_times == [2, 2, 1, 12_346, 8_025_100, 1_234_567_890, 7, -1]
    assert bulk_times[:-1] == [time_ns(text) for text in texts]


def test_right_aligned_numbers_and_dimensions_are_read_in_bulk() -> None:
    rows = [("1.2345ms", "79", "(65535 32 1)"), ("274ns", "-", "-"), ("1 2.5us", "7x", "4 (8 32 1)")]
    text = "".join(f"{time:>10}{count:>8}{grid:>20}" for time, count, grid in rows)
    cells = np.frombuffer(text.encode(), np.uint8).reshape(3, 38)
    times, counts = read_numbers(cells, [(0, 10)], b"s").column(0), read_numbers(cells, [(10, 18)], b"").column(0)
    assert times.is_valid.tolist() == counts.is_valid.tolist() == [True, True, False]
    assert (times.nanoseconds()[:2].tolist(), counts.integers()[:2].tolist()) == ([1_234_500, 274], [79, -1])
    parts, is_valid = read_dimensions(cells, [(18, 38)])
    assert is_valid.tolist() == [[True, True, False]]
    assert parts[0, :, :2].T.tolist() == [[65_535, 32, 1], [-1, -1, -1]]


def test_percentages_and_counts() -> None:
    assert parse_percent("100.00%") == 100.0
    assert parse_percent("63.3%") == 63.3
    assert parse_count("3094192") == 3_094_192
    for read, text in ((parse_percent, "5 %"), (parse_count, "1.5"), (parse_count, "1" * 19)):
        with pytest.raises(ValueError, match="expected"):
            read(text)
