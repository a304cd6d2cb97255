from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tui.loaders.digits import EXACT_BELOW_US, NULL, us_floats_to_ns, us_texts_to_ns, us_to_ns

EPOCH_US = 1_712_195_495_519_689
decimals = st.text("0123456789", max_size=3)


def decimal_text(integer_part: int, fraction: str) -> str:
    return f"{integer_part}.{fraction}" if fraction else str(integer_part)


def exact_ns(text: str) -> int:
    return round(Fraction(text) * 1000)


@given(st.lists(st.tuples(st.integers(-EPOCH_US, 2 * EPOCH_US), decimals), max_size=20))
def test_texts_of_up_to_three_decimals_are_exact(numbers: list[tuple[int, str]]) -> None:
    texts = [decimal_text(*number) for number in numbers]
    expected = [exact_ns(text) for text in texts]
    assert us_texts_to_ns([text.encode() for text in texts]).tolist() == expected
    assert [us_to_ns(text) for text in texts] == expected


@given(st.lists(st.tuples(st.integers(0, int(EXACT_BELOW_US) - 1), decimals), min_size=1, max_size=20))
@example([(7_999_999_999_999, "999"), (8_796_093_022_207, "001")])
def test_floats_below_the_bound_are_exact(numbers: list[tuple[int, str]]) -> None:
    texts = [decimal_text(*number) for number in numbers]
    assert us_floats_to_ns(np.array([float(text) for text in texts])).tolist() == [exact_ns(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0.0005", 0),
        ("0.0015", 2),
        ("1.23456789", 1235),
        ("1e3", 1_000_000),
        ("-2.5", -2500),
        ('"123.456"', 123_456),
        ("1712195495519689.123", 1_712_195_495_519_689_123),
        ("8999999999999999.999", 8_999_999_999_999_999_999),
        ("9000000000000000", NULL),
        ("1e300", NULL),
        ("1e-999999", 0),
        ("-9e-99999999999", 0),
        ("123456789012345678901234567890", NULL),
        ("null", NULL),
        ("true", NULL),
        ("[1]", NULL),
        ('"12\\n3"', NULL),
        ("", NULL),
        ("1" * 5000, NULL),
    ],
)
def test_texts_become_times_or_null(text: str, ns: int) -> None:
    assert us_texts_to_ns([b"1.5", text.encode(), b"2"]).tolist() == [1500, ns, 2000]


@pytest.mark.parametrize("value", [None, True, [], {}, float("nan"), float("inf"), 10**400, "x", "1" * 5000])
def test_invalid_times_are_null(value: object) -> None:
    assert us_to_ns(value) == NULL
