"""Summaries in nvprof's layout are read back; damaged ones never crash."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus import corpus_file, corpus_files_or_skip
from tests.loaders.nvprof.reading import read
from tests.render_summary import SummaryRow, csv_table, new_table, old_table, units_table
from tui.loaders import registry
from tui.loaders.nvprof.numbers import time_step_ns
from tui.model.errors import ProftuiError
from tui.model.schema import SECTIONS, SEVERITIES

if TYPE_CHECKING:
    from tui.model.profile import Profile

_NAMES = st.one_of(
    st.sampled_from(
        [
            "[CUDA memcpy HtoD]",
            "[CUDA memset]",
            "void cub::Device<cub::Policy<int=128>, float const *>(cub::Policy<int=128>, float const *, int, int)",
            "maxwell_scudnn_128x128_relu_small_nn",
            "_ZN2at6native29vectorized_elementwise_kernelILi4E",
            "mm$_omp_fn$0",
            "operator<<(int)",
            'f<"a, b">(char)',
            "julia_kernel [1] (2%) 3.5us",
            "[red]markup[/red]",
            "内核(int)",
        ]
    ),
    st.from_regex(r"[a-z_][a-z0-9_]{0,20}(<[a-z]{1,5}(, [a-z]{1,5}){0,3}>)?\([a-z]{1,6}\*?\)", fullmatch=True),
)


@st.composite
def _row(draw: st.DrawFn) -> SummaryRow:
    shortest, average, longest = sorted(draw(st.lists(st.integers(1, 10**9), min_size=3, max_size=3)))
    return SummaryRow(draw(_NAMES), draw(st.integers(1, 90_000)), shortest, average, longest)


_ROWS = st.lists(_row(), min_size=1, max_size=12)
_MESSAGE = "==12== Profiling result:\n"


def _assert_same_rows(
    profile: Profile, expected: Sequence[tuple[str, SummaryRow]], relative: float, absolute: float
) -> None:
    """Assert that the rows are those written, within a share of the printed figures."""
    read_rows = profile["summary"].sort("line", maintain_order=True)
    assert read_rows.select("section", "name", "calls").rows() == [
        (section, row.name, row.calls) for section, row in expected
    ]
    for values, (_, row) in zip(read_rows.iter_rows(named=True), expected, strict=True):
        for column in ("total_ns", "avg_ns", "min_ns", "max_ns"):
            written = getattr(row, column)
            # From 1000 seconds on, and below and above what fits with -u, fewer digits are left.
            allowed = relative if written < 10**12 else max(relative, 0.05)
            assert abs(values[column] - written) <= written * allowed + absolute, column
    assert profile["issues"].is_empty()
    assert profile["sessions"].height == 1


@given(_ROWS)
def test_old_layout(rows: list[SummaryRow]) -> None:
    _assert_same_rows(read((_MESSAGE + old_table(rows)).encode()), [("gpu", row) for row in rows], 0.00005, 0.5)


@given(_ROWS, _ROWS, st.sampled_from(["", "  ", "# ", "\t"]), st.sampled_from(["\n", "\r\n"]))
def test_new_layout(gpu: list[SummaryRow], api: list[SummaryRow], lead: str, end: str) -> None:
    text = _MESSAGE + new_table({"GPU activities": gpu, "API calls": api}) + "\ndone\n"
    text = "".join(lead + line + end for line in text.splitlines())
    expected = [*(("gpu", row) for row in gpu), *(("api", row) for row in api)]
    _assert_same_rows(read(text.encode()), expected, 0.00005, 0.5)


@given(_ROWS, st.sampled_from(["s", "ms", "us", "ns"]))
def test_normalised_units(rows: list[SummaryRow], unit: str) -> None:
    profile = read((_MESSAGE + units_table(rows, unit)).encode())
    _assert_same_rows(profile, [("gpu", row) for row in rows], 0.005, 0.5)


@given(_ROWS, _ROWS, st.lists(st.sampled_from(["s", "ms", "us", "ns"]), min_size=4, max_size=4), st.booleans())
def test_csv(gpu: list[SummaryRow], api: list[SummaryRow], units: list[str], typed: bool) -> None:
    step = float(max(time_step_ns("0.000001", unit) for unit in units))
    if typed:
        text = _MESSAGE + csv_table({"GPU activities": gpu, "API calls": api}, units, typed=True)
    else:
        first, second = (csv_table({"": rows}, units, typed=False) for rows in (gpu, api))
        text = f"{_MESSAGE}{first}\n==12== API calls:\n{second}"
    expected = [*(("gpu", row) for row in gpu), *(("api", row) for row in api)]
    _assert_same_rows(read(text.encode()), expected, 0.0, max(step, 0.5))


_LOG = (
    "==12== NVPROF is profiling process 12, command: ./a\n"
    + _MESSAGE
    + new_table(
        {
            "GPU activities": [SummaryRow("void f<int, g<float>>(int, char*)", 3, 10, 2_000, 90_000)],
            "API calls": [SummaryRow("cudaMalloc", 9, 1, 5, 9), SummaryRow("cudaFree", 1, 4, 4, 4)],
        }
    )
    + "\n==12== Unified Memory profiling result:\n"
    + 'Device "TITAN Xp (0)"\n   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name\n'
    + "      31  28.902KB  4.0000KB  64.000KB  896.0000KB  118.4320us  Host To Device\nTotal CPU Page faults: 4\n"
    + '==12== NVTX result:\n==12==       Range "r"\n'
    + new_table({"Range": [SummaryRow("r", 1, 7, 7, 7)]})
    + "==12== Dependency Analysis:\nCritical path(%)  Critical path  Waiting time  Name\n"
    + "          71.31%      4.751991s           0ns  <Other>\n"
    + "======== CPU profiling result (bottom up):\nTime(%)      Time  Name\n 80.50%  8.76899s  ???\n"
    + csv_table({"": [SummaryRow("h(int)", 2, 5, 6, 7)]}, ["ms", "us", "us", "us"], typed=False)
    + "======== Error: Application received signal 11\n"
).encode()


def _assert_read_or_declined(data: bytes) -> None:
    """Assert that a mutated log gives a consistent profile, or one clear line."""
    declined, profile = "", None
    try:
        profile = read(data)
    except ProftuiError as error:
        declined = error.message
    assert "\n" not in declined
    if profile is None:
        return
    assert set(profile["summary"]["section"].cast(str)) <= set(SECTIONS)
    assert set(profile["issues"]["severity"]) <= set(SEVERITIES)
    assert profile["summary"]["session"].is_null().sum() == 0
    assert "table that ends here could not be used" not in "".join(profile["issues"]["reason"])


@given(st.integers(0, len(_LOG)))
def test_a_log_may_end_anywhere(length: int) -> None:
    _assert_read_or_declined(_LOG[:length])


@given(st.randoms(use_true_random=False))
def test_lines_in_any_order(chance: random.Random) -> None:
    lines = _LOG.splitlines(keepends=True)
    chance.shuffle(lines)
    _assert_read_or_declined(b"".join(lines))


@given(st.lists(st.tuples(st.integers(0, len(_LOG) - 1), st.integers(0, 255)), min_size=1, max_size=40))
def test_damaged_bytes(flips: list[tuple[int, int]]) -> None:
    data = bytearray(_LOG)
    for position, value in flips:
        data[position] = value
    _assert_read_or_declined(bytes(data))


@given(
    st.lists(
        st.tuples(st.integers(0, len(_LOG)), st.sampled_from([b"\n", b" ", b"", b"1.5us ", b"%", b"\n\n"])), max_size=30
    )
)
def test_torn_lines(tears: list[tuple[int, bytes]]) -> None:
    data = _LOG
    for position, between in sorted(tears, reverse=True):
        data = data[:position] + between + data[position:]
    _assert_read_or_declined(data)


@pytest.mark.parametrize("filler", [" ", ".", "<", "(", "1 ", "1us ", "a b ", "%", "-", "`"])
def test_long_lines_are_read_fast(filler: str) -> None:
    line = "100.00%  125.70us  5  25.139us  25.088us  25.281us  void " + filler * (100_000 // len(filler)) + "x"
    text = _MESSAGE + old_table([]) + line + "\n" + filler * 9_999 + "x\n"
    profile = read(text.encode())
    assert profile["summary"].height == 1


def test_every_log_of_the_corpus_opens_or_is_declined_in_one_line() -> None:
    for path in corpus_files_or_skip("nvprof/*.txt"):
        declined, profile = "", None
        try:
            profile = registry.load_input(path)
        except ProftuiError as error:
            declined = error.message
        assert "\n" not in declined
        if profile is None:
            continue
        contradicting = profile["issues"].filter(profile["issues"]["reason"].str.contains("contradict"))
        assert contradicting.is_empty(), path


@pytest.mark.parametrize(
    ("name", "sessions", "gpu", "api"),
    [
        ("seeds/002_217dea74feb3b440.txt", 4, (355, 22_870, 28_872_402_525), (164, 199_686, 113_133_662_658)),
        ("nvprof/001-sankarmanoj-thrust2d-summary.txt", 1, (3, 6, 701_226), (19, 138, 145_797_929)),
        ("nvprof/036-Mlightsnow-llmc-nvtx-nccl.txt", 1, (30, 5_653, 11_190_621_329), (51, 20_770, 12_012_073_663)),
        ("nvprof/054-nanzifan-cfd-csv-summary-um.txt", 1, (7, 16_009, 393_499_279), (19, 132_151, 1_484_999_387)),
        ("nvprof/074-leimingyu-cke-csv-20runs-stdout.txt", 20, (20, 40, 2_472_131_848), (0, 0, 0)),
        ("nvprof_rendered/resnet50_amp.summary.txt", 1, (80, 4_630, 80_128_663), (5, 4_106, 26_026_083)),
    ],
)
def test_figures_of_real_logs(name: str, sessions: int, gpu: tuple[int, int, int], api: tuple[int, int, int]) -> None:
    profile = registry.load_input(corpus_file(name))
    assert profile["sessions"].height == sessions
    for section, (rows, calls, total) in (("gpu", gpu), ("api", api)):
        part = profile["summary"].filter(section=section)
        assert (part.height, part["calls"].sum()) == (rows, calls)
        assert abs(part["total_ns"].sum() - total) <= max(2, Decimal(total) / 100_000)
