from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui import fmt
from tui.fmt import column_unit, format_column, format_value
from tui.model.columns import ColumnKind
from tui.text import to_ascii

K = ColumnKind


@pytest.mark.parametrize(
    ("value_ns", "text"),
    [
        (0, "0 ns"),
        (1, "1 ns"),
        (999, "999 ns"),
        (1_000, "1.000 µs"),
        (1_025, "1.025 µs"),
        (24_576, "24.576 µs"),
        (999_994, "999.99 µs"),
        (999_996, "1.0000 ms"),
        (3_402_500, "3.4025 ms"),
        (35_898_400, "35.898 ms"),
        (353_980_000, "353.98 ms"),
        (753_580_086, "753.58 ms"),
        (999_999_999, "1.0000 s"),
        (2_723_649_313, "2.7236 s"),
        (12_345_678_900_000, "12,345.7 s"),
        (-1_500, "-1.500 µs"),
        (None, "–"),
    ],
)
def test_a_single_duration_has_five_significant_digits_and_its_own_unit(value_ns: int | None, text: str) -> None:
    assert fmt.duration(value_ns) == text


@pytest.mark.parametrize(
    ("unit", "text"),
    [("s", "0.754 s"), ("ms", "753.58 ms"), ("us", "753,580.09 µs"), ("ns", "753,580,086 ns")],
)
def test_a_duration_in_a_fixed_unit(unit: str, text: str) -> None:
    assert fmt.duration(753_580_086, unit=unit) == text


def test_a_column_has_one_unit_and_aligned_decimal_points() -> None:
    # The GPU summary of a Caffe run: from a gradient of 354 ms to a memset of 1 µs.
    values = [353_980_000, 84_561_000, 3_402_500, 24_576, 1_440, 1_025, None]
    assert format_column(K.DURATION, values) == ("ms", ["353.98", "84.56", "3.40", "0.025", "0.0014", "0.0010", "–"])


def test_a_column_of_start_times_keeps_microseconds() -> None:
    assert format_column(K.TIME, [0, 331_630_000, 331_631_000]) == ("ms", ["0", "331.630", "331.631"])
    assert format_column(K.TIME, [12_776_061_000])[1] == ["12.776061"]


@pytest.mark.parametrize(
    ("largest", "symbol"),
    [(None, "ns"), (0, "ns"), (999, "ns"), (1_000, "µs"), (1_000_000, "ms"), (9_999_000_000, "ms"), (10**10, "s")],
)
def test_the_unit_of_a_column_follows_its_largest_value(largest: int | None, symbol: str) -> None:
    unit = column_unit(K.DURATION, largest)
    assert unit is not None
    assert unit.symbol == symbol


def test_the_user_chooses_the_unit_of_a_column() -> None:
    for unit, values, symbol, texts in (
        ("us", [1_025, 24], "µs", ["1.025", "0.024"]),
        ("ns", [2_723_649_313], "ns", ["2,723,649,313"]),
    ):
        chosen = column_unit(K.DURATION, max(values), unit=unit)
        assert chosen is not None
        assert chosen.symbol == symbol
        assert [format_value(K.DURATION, value, unit=chosen, suffix=False) for value in values] == texts


@given(st.integers(1, 10**15), st.integers(1, 10**15), st.sampled_from(fmt.UNITS))
def test_a_nonzero_value_is_never_shown_as_zero(value: int, largest: int, unit: str) -> None:
    shared_unit = column_unit(K.DURATION, max(value, largest), unit=unit)
    text = format_value(K.DURATION, value, unit=shared_unit, suffix=False)
    assert any(digit in text for digit in "123456789")


@given(st.integers(1, 10**15))
def test_a_single_duration_is_exact_to_five_digits(value_ns: int) -> None:
    number, unit = fmt.duration(value_ns).split(" ")
    unit_ns = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
    assert float(number.replace(",", "")) * unit_ns == pytest.approx(value_ns, rel=5.1e-5)


@given(st.lists(st.integers(1, 10**13), min_size=2, max_size=8))
def test_a_column_is_exact_to_its_last_digit_or_shows_less_than(values: list[int]) -> None:
    symbol, texts = format_column(K.DURATION, values)
    unit_ns = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[symbol]
    for value, text in zip(values, texts, strict=True):
        if text.startswith("<"):
            assert value / unit_ns < float(text[1:])
        else:
            step = 10.0 ** -len(text.partition(".")[2])
            assert abs(float(text.replace(",", "")) - value / unit_ns) <= step / 2 * 1.0001


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (4, "4 B"),
        (1_023, "1023 B"),
        (1_024, "1 KiB"),
        (38_535, "37.632 KiB"),
        (49_152, "48 KiB"),
        (1_048_575, "1 MiB"),
        (684_392_448, "652.69 MiB"),
        (80 * 2**30, "80 GiB"),
        (None, "–"),
    ],
)
def test_sizes_are_powers_of_1024(value: int | None, text: str) -> None:
    assert fmt.size(value) == text


def test_a_rate_has_the_digits_that_nvprof_prints() -> None:
    # 652.69 MB in 3.4025 ms is printed as 187.33GB/s.
    assert fmt.rate(684_392_448 / 3.4025e-3) == "187.33 GiB/s"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.0, "0.00%"), (0.0049, "<0.01%"), (46.98, "46.98%"), (99.99, "99.99%"), (99.996, ">99.99%")),
        *((100.0, "100.00%"), (-0.0049, "~0%"), (-99.996, "<-99.99%"), (-100.0, "-100.00%")),
    ],
)
def test_only_zero_is_0_percent_and_only_the_total_is_100_percent(value: float, text: str) -> None:
    assert fmt.percent(value) == text


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (K.COUNT, 1_000_000, "1,000,000"),
        (K.NUMBER, 20_482, "20482"),
        (K.NUMBER, 1.5, "1.5"),
        (K.NUMBER, 32_000.0, "32,000"),
        (K.NUMBER, 0.000012345, "1.2345e-05"),
        (K.COUNT, 12_345.678, "12,346"),
        (K.COUNT, 109_890.34, "109,890"),
        (K.COUNT, 19_999.99, "20,000"),
        (K.NUMBER, 100_000.4, "100,000"),
        (K.NUMBER, 1_939_392_090.4, "1,939,392,090"),
        (K.RATIO, 1.0836, "1.08×"),
        (K.RATIO, 0.0123, "0.012×"),
        (K.FLAG, True, "yes"),
        (K.FLAG, False, "no"),
        (K.FLAG, None, "?"),
        (K.TEXT, None, "–"),
        (K.DURATION, math.nan, "–"),
        (K.NUMBER, math.inf, "inf"),
        (K.TEXT, "HtoD", "HtoD"),
    ],
)
def test_values_of_other_kinds(kind: ColumnKind, value: object, text: str) -> None:
    assert format_value(kind, value) == text


BASE_UNITS = {
    **{"": 1.0, "%": 1.0, "×": 1.0, "cycle": 1.0, "cycles": 1.0, "ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9},
    **{"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9},
    **{f"{prefix}B": 1024.0**power for power, prefix in enumerate(("", "Ki", "Mi", "Gi", "Ti"))},
}


@given(
    st.one_of(
        st.floats(-1e16, 1e16), st.integers(-(10**16), 10**16), st.integers(1, 10**9).map(lambda tenths: tenths * 10.1)
    ),
    st.one_of(st.sampled_from(list(ColumnKind)), st.sampled_from(["Hz", "cycle", "ns", "%", "B", "B/s"])),
)
def test_a_formatted_number_parses_to_the_value_within_its_digits(value: float, kind: ColumnKind | str) -> None:
    text = format_value(kind, value) if isinstance(kind, ColumnKind) else fmt.metric(value, kind)
    match = re.fullmatch(r"([<>]?)(-?[\d,]+(?:\.(\d+))?(?:e([-+]\d+))?) ?(\D*)", text)
    assert match is not None, text
    bound, number, decimals, exponent, unit = match.groups()
    scaled = value / BASE_UNITS[unit.removesuffix("/s") if len(unit) > 1 else unit]
    parsed = float(number.replace(",", ""))
    if bound:
        assert scaled < parsed if bound == "<" else scaled > parsed
    else:
        step = 10.0 ** (int(exponent or 0) - len(decimals or ""))
        # Zeros at the end of decimals are left out, never those of a whole number.
        assert abs(parsed - scaled) <= step / 2 * 1.0001 + abs(scaled) * 1e-15
    assert re.fullmatch(r"\d{1,3}(,\d{3})*|\d+", number.lstrip("-").partition(".")[0].partition("e")[0]), text


@pytest.mark.parametrize("kind", list(ColumnKind))
@pytest.mark.parametrize("value", [None, 0, 1_025, 753_580_086, 0.5])
def test_ascii_mode_formats_only_ascii_characters(kind: ColumnKind, value: float | None) -> None:
    assert "?" not in to_ascii(format_value(kind, value)) or (kind is ColumnKind.FLAG and value is None)
