"""Damaged tables: rows proven by their figures, names proven by C++ syntax, and issues for the rest."""

from __future__ import annotations

import re
import time
from itertools import permutations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus import corpus_file
from tests.loaders.nvprof.reading import issues, read, summary
from tests.render_summary import SummaryRow, time_cell
from tui.loaders import registry
from tui.loaders.nvprof.summary_figures import is_cut, join_name, restore_underscores
from tui.model.errors import ProftuiError


def test_cells_on_separate_lines_are_joined() -> None:
    profile = read("""
        ==310== Profiling result:
        Time(%) Time Calls
                                       Avq
                                                Min
                                                          Max Name
        58.70% 1.20757s
                              1 1.20757s 1.20757s 1.20757s void
        op::forward kernel<gpu, float>(float*, op::forward kernel<gpu,
        float> const *, int)
                          13 581.60us 1.5670us 5.3588ms [CUDA memcpy HtoD]
        40.58% 7.5608ms
         0.72% 433.18us
                               2 216.59us 16.671us 416.51us sgemm sm35 ldg tn 32x16x64x8x16
        ==310== API calls:
        Time(%)
        Time Calls Ava Min Max Name
                                927ns
        99.00% 5.5620us
                           6
                                         420ns 1.7820us cuDeviceGetCount
             2.3760us
         1.00%
                            1 2.3760us 2.3760us 2.3760us cudaUnbindTexture
        """)
    forward = "void op::forward_kernel<gpu, float>(float*, op::forward_kernel<gpu, float> const *, int)"
    assert summary(profile, "section", "name", "calls", "total_ns", "min_ns", "max_ns", "line") == [
        ("gpu", forward, 1, 1_207_570_000, 1_207_570_000, 1_207_570_000, 7),
        ("gpu", "[CUDA memcpy HtoD]", 13, 7_560_800, 1_567, 5_358_800, 10),
        ("gpu", "sgemm_sm35_ldg_tn_32x16x64x8x16", 2, 433_180, 16_671, 416_510, 13),
        ("api", "cuDeviceGetCount", 6, 5_562, 420, 1_782, 20),
        ("api", "cudaUnbindTexture", 1, 2_376, 2_376, 2_376, 23),
    ]
    assert profile["summary"]["repaired"].to_list() == [True] * 5
    assert issues(profile) == [(7, "info"), (10, "info"), (13, "info"), (20, "info"), (23, "info")]
    assert "6 x 927ns = 5.5620us" in profile["issues"].filter(line=20)["reason"][0]
    assert "1 x 2.3760us = 2.3760us" in profile["issues"].filter(line=23)["reason"][0]


def test_columns_of_several_rows_printed_one_after_another_are_joined() -> None:
    profile = read("""
        ==308== API calls:
        Time(%) Time Calls Avg Min Max Name
        4 392.29us 338.48us 437.54us cuDeviceTotalMem
          0.03% 1.5692ms
                          352 2.6990us
        114 8.0530us
        23 28.305us
                                              247ns 75.594us cuDeviceGetAttribute
        942ns 327.22us cudaEventCreateWithFlags
          0.02% 950.37us
          0.02% 918.04us
                               23 28.305us 10.582us 106.39us cudaLaunch
          0.01% 651.03us
        """)
    assert summary(profile, "name", "calls", "total_ns", "avg_ns", "min_ns", "max_ns") == [
        ("cuDeviceTotalMem", 4, 1_569_200, 392_290, 338_480, 437_540),
        ("cuDeviceGetAttribute", 352, 950_370, 2_699, 247, 75_594),
        ("cudaEventCreateWithFlags", 114, 918_040, 8_053, 942, 327_220),
        ("cudaLaunch", 23, 651_030, 28_305, 10_582, 106_390),
    ]


def test_two_rows_on_one_line_and_a_duplicate_fragment() -> None:
    profile = read("""
        ==314== API calls:
        Time(%) Time Calls Avg Min Max Name
        4 342.17us 338.67us 349.83us cuDeviceTotalMem 352 2.7700us 245ns 157.86us cuDeviceGetAttrib
          0.02%
                1.3687ms
                                                245ns 157.86us cuDeviceGetAttribute
          0.01% 975.15us
        """)
    assert summary(profile, "name", "calls", "total_ns") == [
        ("cuDeviceTotalMem", 4, 1_368_700),
        ("cuDeviceGetAttribute", 352, 975_150),
    ]


def test_rows_that_the_figures_do_not_prove_are_skipped_and_reported() -> None:
    profile = read("""
        ==1== API calls:
        Time(%) Time Calls Avg Min Max Name
        50.00% 3.0000ms
                  1 2.0000ms 2.0000ms 2.0000ms cudaMalloc
        50.00% 3.0000ms         1 3.0000ms 3.0000ms 3.0000ms cudaFree
        """)
    assert summary(profile, "name") == [("cudaFree",)]
    assert issues(profile) == [(3, "warning"), (5, "warning")]
    assert profile["issues"]["reason"][0].startswith("lines 3 to 4 seem to be parts of summary rows")


def test_names_cut_at_the_width_of_a_terminal() -> None:
    name = "void sum_kernel<thrust::permutation<thrust::normal<double>>, thrust::transform<thrust::count<long>>>(int)"
    row = f" GPU activities:   99.61%  17.498ms      2010  8.7050us  7.9040us  19.904us  {name}"
    lines = [row[start : start + 100] for start in range(0, len(row), 100)]
    assert len(lines) > 1
    profile = read(
        "\n".join(
            [
                "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name",
                *lines,
                "                    0.39%  14.102ms         8  1.7627ms  1.1336ms  2.2644ms  maxwell_dgemm_64x64_nn",
                "",
            ]
        ).encode()
    )
    assert summary(profile, "name", "line") == [(name, 2), ("maxwell_dgemm_64x64_nn", 2 + len(lines))]
    assert profile["summary"]["repaired"].to_list() == [True, False]
    assert issues(profile) == [(2, "info")]


def test_one_name_cut_between_words_keeps_its_blank() -> None:
    profile = read("""
        Time(%)      Time     Calls       Avg       Min       Max  Name
        100.00%  17.498ms      2010  8.7050us  7.9040us  19.904us  void sum(float const *, unsigned
        long)
        """)
    assert summary(profile, "name") == [("void sum(float const *, unsigned long)",)]
    assert issues(profile) == [(2, "info")]


def test_a_cut_name_takes_nothing_from_the_text_below() -> None:
    profile = read("""
        ==10== Profiling result:
        Time(%)      Time     Calls       Avg       Min       Max  Name
        100.00%  69.832ms         2  34.916ms  34.910ms  34.922ms  kernel(float*, unsig
        ```
        Test passed
        """)
    assert summary(profile, "name") == [("kernel(float*, unsig",)]
    assert issues(profile) == []


def test_an_api_name_with_a_line_break_is_reported() -> None:
    profile = read("""
        ==10== API calls:
        Time(%)      Time     Calls       Avg       Min       Max  Name
         60.00%  3.0000us         2  1.5000us  1.0000us  2.0000us  cudaH
        ostGetDevicePointer
         40.00%  2.0000us         1  2.0000us  2.0000us  2.0000us  cudaFree
        """)
    assert summary(profile, "name") == [("cudaH",), ("cudaFree",)]
    assert issues(profile) == [(4, "warning")]


def test_blanks_within_numbers() -> None:
    profile = read("""
        ==10== API calls:
        Time(%) Time Calls Avg Min Max Name
         3.78% 142 0.36ms 1 142 0.36ms 142 0.36ms 142 0.36ms cuDevicePrimaryCtxRetain
        """)
    assert summary(profile, "calls", "total_ns", "max_ns") == [(1, 142_360_000, 142_360_000)]
    assert issues(profile) == [(3, "info"), (3, "warning")]


@pytest.mark.parametrize(
    ("name", "restored"),
    [
        ("unsigned int f(unsigned long long, float const *)", "unsigned int f(unsigned long long, float const *)"),
        ("void f<Reason t=0>(Reason t)", "void f<Reason_t=0>(Reason_t)"),
        ("thing make<int>(int)", "thing make<int>(int)"),
        ("volta 4d kernel(int)", "volta_4d kernel(int)"),
        ("(anonymous namespace)::f a(int)", "(anonymous namespace)::f a(int)"),
        ("f(int) [clone .isra.0]", "f(int) [clone .isra.0]"),
        ("[CUDA memcpy DtoH]", "[CUDA memcpy DtoH]"),
        ("void f<__int64 const>(struct point)", "void f<__int64 const>(struct point)"),
    ],
)
def test_underscores_are_restored_only_where_a_blank_is_impossible(name: str, restored: str) -> None:
    assert restore_underscores(name, []) == restored


def test_incomplete_names() -> None:
    assert [is_cut(name) for name in ("void", "f<a,", "f(", "ns::")] == [True] * 4
    assert [is_cut(name) for name in ("f(int)", "a->b", "operator<<(x)", "f(a, ...", "[CUDA memset]")] == [False] * 5
    assert join_name(["void", "f(float const", "* , int)"], is_hard_wrapped=False) == "void f(float const * , int)"


@st.composite
def _torn(draw: st.DrawFn) -> tuple[list[SummaryRow], list[str]]:
    """Draw one to three rows, each torn into a head and a tail, or cell by cell."""
    rows, lines = [], []
    for index in range(draw(st.integers(1, 3))):
        times = sorted(draw(st.lists(st.integers(1_000, 900_000_000), min_size=3, max_size=3)))
        row = SummaryRow(f"cudaCall{'ABC'[index]}", draw(st.integers(1, 5_000)), *times)
        head = [f"1.00% {time_cell(row.total_ns)}"]
        tail = f"{row.calls} {time_cell(row.avg_ns)} {time_cell(row.min_ns)} {time_cell(row.max_ns)} {row.name}"
        lines += draw(st.sampled_from(list(permutations([*head, f"   {tail}"]))))
        rows.append(row)
    return rows, lines


@given(_torn())
def test_torn_rows_are_restored_exactly_or_skipped(rows_and_lines: tuple[list[SummaryRow], list[str]]) -> None:
    rows, lines = rows_and_lines
    profile = read("\n".join(["==1== API calls:", "Time(%) Time Calls Avg Min Max Name", *lines]).encode())
    by_name = {name: (calls, total) for name, calls, total in summary(profile, "name", "calls", "total_ns")}
    for row in rows:
        assert row.name in by_name
        calls, total = by_name[row.name]
        assert calls == row.calls
        assert isinstance(total, int)
        assert abs(total - row.total_ns) <= row.total_ns * (0.00005 if row.total_ns < 10**12 else 0.05) + 1


def test_a_report_with_wrapped_and_torn_tables_is_complete() -> None:
    profile = registry.load_input(corpus_file("seeds/003_c168b99af706e402.txt"))
    rows = profile["summary"]
    gpu, api = rows.filter(section="gpu"), rows.filter(section="api")
    assert (gpu.height, gpu["calls"].sum(), gpu["total_ns"].sum()) == (36, 111, 2_723_649_313)
    assert api.group_by("session", maintain_order=True).len().rows() == [(0, 32), (1, 31), (2, 31)]
    shares = rows.group_by("session", "section").agg(pl.col("time_pct").sum())
    assert all(99.9 < share < 100.1 for share in shares["time_pct"])
    assert not any(re.search(r"\w (?:kernel|func|fw|ldg|tn|t=)", name) for name in gpu["name"])
    assert set(profile["issues"]["severity"]) == {"info"}


@pytest.mark.parametrize(
    "output",
    ["{0}.5% {0}.5s\n", "{0}.5ms step_{0}\n", "{0}.5% {0}.5s 3 1.2ms\n2ms 3ms step_{0}\n", "{0} 1.5s\n"],
)
def test_program_output_similar_to_fragments_is_read_fast(output: str) -> None:
    row = "100.00%  125.70us  5  25.139us  25.088us  25.281us  kern(int)\n"
    header = "==5== Profiling result:\nTime(%)      Time     Calls       Avg       Min       Max  Name\n"
    text = header + row + "".join(output.format(step % 100) for step in range(3_000))
    start_s = time.process_time()
    assert summary(read(text.encode()), "name", "calls") == [("kern(int)", 5)]
    assert time.process_time() - start_s < 20


def test_a_table_of_wall_times_is_not_a_profile() -> None:
    with pytest.raises(ProftuiError, match="no profile found"):
        read("""
            Run\tReal\tUser\tSys\tAccuracy
            1\t21.514s\t0.352s\t0.070s\t0.8673
            2\t1.381s\t0.381s\t14.226s\t0.8673
            Item\tTime percentage\tTime consumed
            cudaFree\t29.94%\t1.46489s
            3 21.514s 0.352s 30.070s 0.8673
            """)
