"""Summary tables in every layout: exact rows and exact issues."""

from __future__ import annotations

from tests.loaders.nvprof.reading import issues, read, summary

OLD = """
    ==711== NVPROF is profiling process 711, command: ./vectors 1024
    sum = 1024
    ==711== Profiling application: ./vectors 1024
    ==711== Profiling result:
    Time(%)      Time     Calls       Avg       Min       Max  Name
     75.00%  300.00us         2  150.00us  50.000us  250.00us  scale(float*, int)
     25.00%  100.00us         1  100.00us  100.00us  100.00us  [CUDA memset]

    ==711== API calls:
    Time(%)      Time     Calls       Avg       Min       Max  Name
     99.99%  2.77606s         4  694.01ms     900ns  2.77600s  cudaMalloc
      0.01%  277.60us         2  138.80us  100.00us  177.60us  cudaLaunch
"""


def test_old_layout_is_one_session_with_two_sections() -> None:
    profile = read(OLD)
    assert summary(profile) == [
        ("gpu", "scale(float*, int)", 2, 300_000, 150_000, 50_000, 250_000, 75.0, 6),
        ("gpu", "[CUDA memset]", 1, 100_000, 100_000, 100_000, 100_000, 25.0, 7),
        ("api", "cudaMalloc", 4, 2_776_060_000, 694_010_000, 900, 2_776_000_000, 99.99, 11),
        ("api", "cudaLaunch", 2, 277_600, 138_800, 100_000, 177_600, 0.01, 12),
    ]
    assert issues(profile) == []
    assert profile["summary"]["repaired"].to_list() == [False] * 4
    assert profile["sessions"].select("format", "pid", "command", "first_line", "last_line").rows() == [
        ("nvprof-text", 711, "./vectors 1024", 1, 12)
    ]


def test_new_layout_carries_the_label_down() -> None:
    profile = read("""
        ======== Profiling result:
                    Type  Time(%)      Time     Calls       Avg       Min       Max  Name
         GPU activities:   80.00%  8.0000ms        60  133.33us  73.312us  195.87us  [CUDA memcpy HtoD]
                           20.00%  2.0000ms         1  2.0000ms  2.0000ms  2.0000ms  add(int, int)
              API calls:  100.00%  624.30ms         1  624.30ms  624.30ms  624.30ms  cudaMallocHost
         OpenACC (excl):   58.57%  860.06ms      3600  238.90us  5.1460us  572.09us  acc_wait@layers.c:85
                           41.43%  37.937ms        12  3.1614ms  7.0610us  37.769ms  acc_launch@l.c:1 (_k_1_gpu)
         OpenMP (incl):   100.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  omp_parallel
        """)
    assert summary(profile, "section", "name", "calls") == [
        ("gpu", "[CUDA memcpy HtoD]", 60),
        ("gpu", "add(int, int)", 1),
        ("api", "cudaMallocHost", 1),
        ("openacc", "acc_wait@layers.c:85", 3600),
        ("openacc", "acc_launch@l.c:1 (_k_1_gpu)", 12),
        ("openmp", "omp_parallel", 1),
    ]
    assert issues(profile) == []
    assert profile["sessions"]["pid"].to_list() == [None]


def test_a_row_of_units_gives_units_to_bare_numbers() -> None:
    profile = read("""
        ==9== Profiling result:
        Time(%)      Time     Calls       Avg       Min       Max  Name
              %        ms                  ms        ms        ms
          99.22  1.32e+03         1  1.32e+03  1.32e+03  1.32e+03  matMul(float*, int)
           0.78  0.259009         1  0.259009  0.259009  0.259009  [CUDA memcpy HtoD]
        iteration 7 done
           0.01  9.15e-03         4  2.29e-03  2.02e-03  2.58e-03  tail(int)
        """)
    assert summary(profile, "name", "total_ns", "avg_ns", "line") == [
        ("matMul(float*, int)", 1_320_000_000, 1_320_000_000, 4),
        ("[CUDA memcpy HtoD]", 259_009, 259_009, 5),
        ("tail(int)", 9_150, 2_290, 7),
    ]
    assert issues(profile) == []


def test_percent_without_sign_and_collapsed_blanks() -> None:
    profile = read("""
        ======== Profiling result:
        Time(%) Time Calls Avg Min Max Name
         99.52 9.36ms 101 92.68us 92.31us 94.31us CUDAkernel2DCT(float*, float*, int)
         0.48 22.59us 1 22.59us 22.59us 22.59us [CUDA memcpy DtoA]
        """)
    assert summary(profile, "calls", "total_ns", "time_pct") == [(101, 9_360_000, 99.52), (1, 22_590, 0.48)]
    assert issues(profile) == []


def test_line_prefixes_of_tables_in_prose_are_removed() -> None:
    table = [
        "Time(%)      Time     Calls       Avg       Min       Max  Name",
        "100.00%  125.70us         5  25.139us  25.088us  25.281us  kernel_dummy",
    ]
    for lead in ("    ", "# ", "// ", " * ", "> ", "\t", "131072,", "  ** "):
        profile = read("".join(f"{lead}{line}\n" for line in ["==1== Profiling result:", *table, ""]).encode())
        assert summary(profile, "section", "name", "total_ns", "line") == [("gpu", "kernel_dummy", 125_700, 3)], lead
        assert issues(profile) == [], lead


def test_a_markdown_table_with_omitted_rows() -> None:
    profile = read("""
        |Type |Time(%)|Time|Calls|Avg|Min|Max|Name|
        |-----|-------|----|-----|---|---|---|----|
        |GPU activities:|60.00%|60.000us|2|30.000us|20.000us|40.000us|f(int)|
        | |40.00%|40.000us|1|40.000us|40.000us|40.000us|g(int)|
        ...
        < snip >
        |API calls:|100.00%|7.0000us|1|7.0000us|7.0000us|7.0000us|cudaFree|
        """)
    assert summary(profile, "section", "name", "total_ns") == [
        ("gpu", "f(int)", 60_000),
        ("gpu", "g(int)", 40_000),
        ("api", "cudaFree", 7_000),
    ]
    assert issues(profile) == []


def test_rows_without_a_header_are_recognized_by_their_figures() -> None:
    profile = read("""
        It took so long:
          5.17%  191.78ms       141  1.3602ms  1.3120us  1.6409ms  [CUDA memcpy HtoD]
        and the API:
         92.65%  3.49314s        62  56.341ms  1.8850us  70.771ms  cuStreamSynchronize
        but not 93% 1.2s of the rest
        """)
    assert summary(profile, "section", "name", "calls", "line") == [
        ("gpu", "[CUDA memcpy HtoD]", 141, 2),
        ("api", "cuStreamSynchronize", 62, 4),
    ]
    assert issues(profile) == [(2, "warning"), (4, "warning")]


def test_lost_rows_are_reported_by_the_remaining_shares() -> None:
    text = """\
==1== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   66.67%  2.0000ms         1  2.0000ms  2.0000ms  2.0000ms  f(int)
                   33.33%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  g(int)
      API calls:  100.00%  3.0000ms         1  3.0000ms  3.0000ms  3.0000ms  cudaFree
"""
    assert issues(read(text.encode())) == []
    lines = text.splitlines(keepends=True)
    profile = read("".join([*lines[:3], *lines[4:]]).encode())
    assert profile["issues"].select("severity", "line", "reason").rows() == [
        (
            "warning",
            3,
            "the shares of the gpu rows here add up to 66.67%: rows are missing, and totals and shares cover the rest",
        )
    ]


def test_an_unproven_row_without_a_header_is_reported() -> None:
    profile = read("""
        ==1== Profiling result:
        some output
          5.17%  191.78ms       141  1.9999ms  1.3120us  1.6409ms  [CUDA memcpy HtoD]
        """)
    assert summary(profile) == []
    assert issues(profile) == [(3, "warning")]
    assert "contradict each other" in profile["issues"]["reason"][0]


def test_contradictory_figures_are_kept_and_reported() -> None:
    profile = read("""
        ==1== Profiling result:
        Time(%)      Time     Calls       Avg       Min       Max  Name
        100.00%  125.70us         4  25.139us  25.088us  25.281us  edited_by_hand
        """)
    assert summary(profile, "total_ns", "calls") == [(125_700, 4)]
    assert issues(profile) == [(3, "warning")]
    assert "4 calls, average 25.139us" in profile["issues"]["reason"][0]


def test_program_output_between_rows_does_not_end_the_table() -> None:
    profile = read("""
        ==1== Profiling result:
                    Type  Time(%)      Time     Calls       Avg       Min       Max  Name
              API calls:   75.00%  3.0000ms         1  3.0000ms  3.0000ms  3.0000ms  cudaMalloc
        Epoch 12: 100%|######| 3/3 [00:01<00:00, 2.01it/s]
                           25.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  cudaFree
        """)
    assert summary(profile, "section", "name") == [("api", "cudaMalloc"), ("api", "cudaFree")]
    assert issues(profile) == []


def test_the_last_row_may_be_truncated() -> None:
    profile = read("""
        ==1== Profiling result:
        Time(%)      Time     Calls       Avg       Min       Max  Name
         75.00%  3.0000ms         1  3.0000ms  3.0000ms  3.0000ms  f(int)
         25.00%  601.45u""")
    assert summary(profile, "name") == [("f(int)",)]
    profile = read("""
        ==1== Profiling result:
        Time(%)      Time     Calls       Avg       Min       Max  Name
         69.64%  993.41us
        """)
    assert summary(profile) == []
    assert issues(profile) == [(3, "warning")]


def test_a_truncated_last_csv_row_is_reported() -> None:
    text = (
        '==1== Profiling result:\n"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,us,,us,us,us,\n'
        '"GPU activities",75.000000,30.000000,1,30.000000,30.000000,30.000000,"f(int)"\n'
        '"GPU activities",25.000000,10.000000,2,5.000000,5.000000,5.000000,"g(int, float)"\n'
    )
    cut_off = (5, "warning")
    for end, names, reported in (
        ("5.0000", ["f(int)"], [(4, "warning"), cut_off]),
        ('"g(int', ["f(int)", "g(int"], [cut_off]),
    ):
        profile = read(text[: text.rindex(end) + len(end)].encode())
        assert [name for (name,) in summary(profile, "name")] == names
        assert issues(profile) == reported


def test_a_second_pasted_table_is_another_session() -> None:
    table = """
        Time(%)      Time     Calls       Avg       Min       Max  Name
        100.00%  125.70us         5  25.139us  25.088us  25.281us  kernel_dummy
        """
    profile = read(f"first:\n{table}\nthen:\n{table}".encode())
    assert summary(profile, "total_ns") == [(125_700,), (125_700,)]
    assert profile["summary"]["session"].to_list() == [0, 1]


def test_nvtx_ranges_are_not_counted_in_gpu_or_api() -> None:
    profile = read("""
        ==10== Profiling result:
                    Type  Time(%)      Time     Calls       Avg       Min       Max  Name
         GPU activities:  100.00%  69.832ms         2  34.916ms  34.910ms  34.922ms  kernel(float*, unsigned long)
              API calls:  100.00%  70.187ms         2  35.093ms  35.088ms  35.099ms  cudaFree

        ==10== NVTX result:
        ==10== Warning: Found 1 invalid range marker(s)
        ==10==   Thread "<unnamed>" (id = 2564218880)
        ==10==     Domain "my_domain"
        ==10==       Range "outer step"
                    Type  Time(%)      Time     Calls       Avg       Min       Max  Name
                  Range:  100.00%  1.22693s         1  1.22693s  1.22693s  1.22693s  outer step
         GPU activities:  100.00%  34.910ms         1  34.910ms  34.910ms  34.910ms  kernel(float*, unsigned long)

        ==10==       Range "inner"
        No kernels were profiled in this range.
                    Type  Time(%)      Time     Calls       Avg       Min       Max  Name
                  Range:  100.00%  4.0000us         2  2.0000us  1.0000us  3.0000us  inner
              API calls:  100.00%  1.0000us         1  1.0000us  1.0000us  1.0000us  cudaSetDevice
        """)
    assert summary(profile, "section", "range", "name", "calls") == [
        ("gpu", None, "kernel(float*, unsigned long)", 2),
        ("api", None, "cudaFree", 2),
        ("nvtx", None, "outer step", 1),
        ("nvtx", "outer step", "kernel(float*, unsigned long)", 1),
        ("nvtx", None, "inner", 2),
        ("nvtx", "inner", "cudaSetDevice", 1),
    ]
    assert profile["sessions"].height == 1
    assert issues(profile) == [(7, "warning")]
    assert profile["ranges"].height == 0
