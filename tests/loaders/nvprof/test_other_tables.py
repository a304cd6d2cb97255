"""CSV, unified memory, CPU samples and dependency analysis."""

from __future__ import annotations

import pytest

from tests.loaders.nvprof.reading import issues, read, summary
from tui.analysis.copies import unified_memory


def test_old_csv_has_a_unit_for_each_column() -> None:
    profile = read("""
        ==3== NVPROF is profiling process 3, command: ./a.out
        N,100000000
        ==3== Profiling result:
        "Time(%)","Time","Calls","Avg","Min","Max","Name"
        %,ms,,us,us,ms,
        89.728410,0.172790,6,28.798000,2.330000,0.111687,"void f<int, float>(int, char*)"
        10.271590,0.019780,1,19.780000,19.780000,0.019780,"[CUDA memcpy ""HtoD""]"

        ==3== API calls:
        "Time(%)","Time","Calls","Avg","Min","Max","Name"
        %,s,,s,s,s,
        100.000000,6.945000e-03,1,6.945000e-03,6.945000e-03,6.945000e-03,"cudaFree"
        1,2,3
        """)
    assert summary(profile) == [
        ("gpu", "void f<int, float>(int, char*)", 6, 172_790, 28_798, 2_330, 111_687, 89.72841, 6),
        ("gpu", '[CUDA memcpy "HtoD"]', 1, 19_780, 19_780, 19_780, 19_780, 10.27159, 7),
        ("api", "cudaFree", 1, 6_945_000, 6_945_000, 6_945_000, 6_945_000, 100.0, 12),
    ]
    assert issues(profile) == []
    assert profile["sessions"].height == 1


def test_new_csv_names_the_type_on_each_row() -> None:
    profile = read("""
        ======== Profiling result:
        "Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
        ,%,ms,,us,us,ms,
        "GPU activities",100.000000,271.148968,6000,45.191000,43.298000,1.938701,"flux(int, int*)"
        "API calls",100.000000,1.000000,1,1000.000000,1000.000000,1.000000,"cudaMalloc"
        "OpenACC (excl)",100.000000,1.000000,1,1000.000000,1000.000000,1.000000,"acc_wait@a.c:3"
        """)
    assert summary(profile, "section", "name", "total_ns") == [
        ("gpu", "flux(int, int*)", 271_148_968),
        ("api", "cudaMalloc", 1_000_000),
        ("openacc", "acc_wait@a.c:3", 1_000_000),
    ]
    assert issues(profile) == []


def test_csv_made_by_hand_or_with_a_column_in_front() -> None:
    profile = read("""
        Time(%),Time,Calls,Avg,Min,Max,Name
        47.79%,542.36ms,45,12.052ms,12.007ms,12.110ms,[CUDA memcpy HtoD]
        20.92%,237.43ms,150,1.5829ms,1.5103ms,2.1174ms,red_sor(float*, float*, int)""")
    assert summary(profile, "name", "total_ns") == [
        ("[CUDA memcpy HtoD]", 542_360_000),
        ("red_sor(float*, float*, int)", 237_430_000),
    ]
    profile = read("""
        131072,==8== Profiling result:
        131072,"Time(%)","Time","Calls","Avg","Min","Max","Name"
        131072,%,ns,,ns,ns,ns,
        131072,100.000000,215155715.000000,1,215155715.000000,215155715.000000,215155715.000000,"f(int)"
        """)
    assert summary(profile, "name", "total_ns") == [("f(int)", 215_155_715)]
    assert issues(profile) == []


def test_a_csv_cell_with_an_invalid_time_affects_only_its_row() -> None:
    profile = read("""
        "Time(%)","Time","Calls","Avg","Min","Max","Name"
        %,ms,,us,us,us,
        50.0,1.0,1,1000.0,<OVERFLOW>,1000.0,"f"
        50.0,1.0,1,1000.0,1000.0,1000.0,"g"
        """)
    assert summary(profile, "name") == [("g",)]
    assert issues(profile) == [(3, "warning"), (4, "warning")]
    assert "in column Min" in profile["issues"]["reason"][0]


def test_unified_memory() -> None:
    profile = read("""
        ==5== Profiling result:
        No kernels were profiled.
        ==5== Unified Memory profiling result:
        Device "TITAN Xp (0)"
           Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name
              31  28.902KB  4.0000KB  64.000KB  896.0000KB  118.4320us  Host To Device
              12         -         -         -           -  942.3680us  Gpu page fault groups
              32  4.0000KB  4.0000KB  4.0000KB  128.0000KB           -  Memory thrashes
        Device "TITAN Xp (1)"
           Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name
               1  4.0000KB  4.0000KB  4.0000KB  4.000000KB  3.648000us  Device To Host
        Total CPU Page faults: 154
        Total remote mappings to CPU: 7
        done in 3 s
        """)
    assert summary(profile, "section", "name", "calls", "total_ns", "size_bytes", "line") == [
        ("um", "Host To Device", 31, 118_432, 896 << 10, 6),
        ("um", "Gpu page fault groups", 12, 942_368, None, 7),
        ("um", "Memory thrashes", 32, None, 128 << 10, 8),
        ("um", "Device To Host", 1, 3_648, 4 << 10, 11),
        ("um", "CPU Page faults", 154, None, None, 12),
        ("um", "remote mappings to CPU", 7, None, None, 13),
    ]
    shown = unified_memory(profile)
    assert shown.select("name", "calls", "total_ns", "size_bytes").rows()[:2] == [
        ("Gpu page fault groups", 12, 942_368, None),
        ("Host To Device", 31, 118_432, 896 << 10),
    ]
    assert profile["devices"].select("device", "name").rows() == [(0, "TITAN Xp"), (1, "TITAN Xp")]
    assert issues(profile) == [(2, "warning")]


def test_unified_memory_in_csv_has_no_times() -> None:
    profile = read("""
        ==5== Unified Memory profiling result:
        "Device","Count","Avg Size","Min Size","Max Size","Total Size","Total Time",""
        "TITAN Xp (0)",149,31.463087KB,4.000000KB,64.000000KB,4.578125MB,0.000000,"Host To Device"
        "TITAN Xp (0)",,,,,16B,0.000000,"Gpu page fault groups"
        Total CPU Page faults: 49
        """)
    assert summary(profile, "name", "calls", "total_ns", "size_bytes") == [
        ("Host To Device", 149, None, 4_800_512),
        # The number of groups is printed as a size, 16B.
        ("Gpu page fault groups", 16, None, None),
        ("CPU Page faults", 49, None, None),
    ]
    assert profile["devices"].select("device", "name").rows() == [(0, "TITAN Xp")]
    assert issues(profile) == [(2, "info")]


def test_a_damaged_row_of_unified_memory_in_csv_affects_only_itself() -> None:
    profile = read("""
        ==5== Unified Memory profiling result:
        "Device","Count","Avg Size","Min Size","Max Size","Total Size","Total Time",""
        "TITAN Xp (0)",3,4.000000KB,4.000000KB,4.000000KB,12.000000KB,0.000000,"Host To Device"
        "TITAN Xp (0)",4,4.000000KB,4.000000KB,16.000000KB,0.000000,"Device To Host"
        "TITAN Xp (0)",5,4.000000KB,4.000000KB,4.000000KB,20.000000KB,0.000000,"Memory thrashes"
        Total CPU Page faults: 2
        """)
    assert summary(profile, "name", "calls", "line") == [
        ("Host To Device", 3, 3),
        ("Memory thrashes", 5, 5),
        ("CPU Page faults", 2, 6),
    ]
    assert issues(profile) == [(2, "info"), (4, "warning")]


def test_cpu_samples_count_each_function_once() -> None:
    profile = read("""

        ======== CPU profiling result (bottom up):
        Time(%)      Time  Name
         80.50%  8.76899s  ???
         80.04%  8.71888s  | start_thread
         80.04%  8.71888s  | | __clone
          2.85%   310.7ms  cuMemcpyDtoD_v2
          2.85%   310.7ms   memcpy_dispatch(void*, unsigned long)

        ======== Data collected at 100Hz frequency
        """)
    assert summary(profile, "section", "name", "calls", "total_ns", "time_pct") == [
        ("cpu", "???", None, 8_768_990_000, 80.5),
        ("cpu", "cuMemcpyDtoD_v2", None, 310_700_000, 2.85),
    ]
    assert [severity for _, severity in issues(profile)] == ["info"]
    assert profile["issues"]["reason"][0].startswith("3 lines split")


def test_dependency_analysis() -> None:
    profile = read("""
        ==1001== Dependency Analysis:
        ==1001== Analysis progress: 100%
        Critical path(%)  Critical path  Waiting time  Name
                  71.31%      4.751991s           0ns  <Other>

                   5.54%   369.095123ms           0ns  cudaMallocManaged_v6000
                   0.00%            0ns     1.483397s  cudaDeviceSynchronize
                     ...            ...           ...  ...
        """)
    assert summary(profile, "section", "name", "total_ns", "time_pct") == [
        ("dependency", "<Other>", 4_751_991_000, 71.31),
        ("dependency", "cudaMallocManaged_v6000", 369_095_123, 5.54),
        ("dependency", "cudaDeviceSynchronize", 0, 0.0),
    ]
    assert issues(profile) == []


@pytest.mark.parametrize(
    "table",
    [
        """\
   Start  Duration  Critical path  Waiting time  Name
1.7e+09s  6.8430us     6.843000us           0ns  cuDeviceGet
1.7e+09s     232ns          232ns           0ns  f(int *)
""",
        """\
"Start","Duration","Critical path","Waiting time","Name"
ns,us,us,us,
1674127034246925824.000000,6.843000,6.843000,0.000000,"cuDeviceGet"
1674127034279602176.000000,0.232000,0.232000,0.000000,"f(int *)"
""",
    ],
)
def test_the_trace_of_a_dependency_analysis_is_reported(table: str) -> None:
    profile = read(f"==7== Dependency Analysis:\n{table}".encode())
    assert profile["api_calls"].is_empty()
    assert issues(profile) == [(2, "info")]
    assert profile["issues"]["reason"][0].startswith("2 rows of the trace of the dependency analysis not read")


def test_dependency_analysis_with_a_row_of_units() -> None:
    profile = read("""
        ==1001== Dependency Analysis:
        ==1001== Analysis progress: 100%
        Critical path(%)  Critical path  Waiting time  Name
                       %              s             s
                   96.60       4.061817      0.000000  spin(long*, long)
                    3.27   5.727328e-03      0.000000  cudaMalloc_v3020
                    0.13
                    0.00       0.000000      4.062506  pthread_join
        """)
    assert summary(profile, "section", "name", "total_ns", "time_pct", "line") == [
        ("dependency", "spin(long*, long)", 4_061_817_000, 96.6, 5),
        ("dependency", "cudaMalloc_v3020", 5_727_328, 3.27, 6),
        ("dependency", "pthread_join", 0, 0.0, 8),
    ]
    assert issues(profile) == [(7, "warning")]


def test_dependency_analysis_in_csv() -> None:
    profile = read("""
        ==1001== Dependency Analysis:
        "Critical path(%)","Critical path","Waiting time","Name"
        %,ms,us,
        92.060000,4061.817000,0.000000,"spin(long*, long)"
        4.540000,"cudaFree"
        3.400000,150.012000,12.000000,cudaMalloc_v3020
        """)
    assert summary(profile, "section", "name", "total_ns", "time_pct", "line") == [
        ("dependency", "spin(long*, long)", 4_061_817_000, 92.06, 4),
        ("dependency", "cudaMalloc_v3020", 150_012_000, 3.4, 6),
    ]
    assert issues(profile) == [(5, "warning")]


@pytest.mark.parametrize(
    "table",
    [
        ["Time(%)      Time  Name", "      %        ms  ", "  72.73  80.00000  cuInit", "  27.27  30.00000  | main"],
        ['"Time(%)","Time","Name"', "%,ms,", '72.727273,80.000000,"cuInit"', '27.272727,30.000000,"| main"'],
    ],
)
def test_cpu_samples_with_a_row_of_units(table: list[str]) -> None:
    profile = read("\n".join(("==1== CPU profiling result (bottom up):", *table, "")))
    assert summary(profile, "section", "name", "total_ns", "line") == [("cpu", "cuInit", 80_000_000, 4)]
    assert issues(profile) == [(2, "info")]


def test_shares_whose_units_are_damaged_are_reported() -> None:
    row = '72.727273,80.000000,"cuInit"'
    profile = read("\n".join(("==1== CPU profiling result (flat):", '"Time(%)","Time","Name"', "%,m$,", row, "")))
    assert (profile["summary"].height, issues(profile)) == (0, [(4, "warning")])


def test_openacc_sections_in_the_old_layout() -> None:
    profile = read("""
        ======== API calls:
        Time(%)      Time     Calls       Avg       Min       Max  Name
         92.65%  3.49314s        62  56.341ms  1.8850us  70.771ms  cuStreamSynchronize
        ...
        ======== OpenACC (excl):
        Time(%)      Time     Calls       Avg       Min       Max  Name
         36.27%  1.41470s        20  70.735ms  70.704ms  70.773ms  acc_wait@swim.f:223
         63.3%  1.15449s        18  64.138ms  64.114ms  64.159ms  acc_wait@swim.f:302
        """)
    assert summary(profile, "section", "calls") == [("api", 62), ("openacc", 20), ("openacc", 18)]
    assert profile["sessions"].height == 1
    assert issues(profile) == [(3, "warning")]


def test_ranges_of_old_versions_have_their_figures_above_their_kernels() -> None:
    header = "Time(%)      Time     Calls       Avg       Min       Max  Name"
    profile = read("\n".join([
        "======== Profiling result:",
        header,
        "100.00%  3.0000us         3  1.0000us  1.0000us  1.0000us  add(int*)",
        "",
        "======== NVTX result:",
        "========   Thread <unnamed> (id = 7)",
        '========     NVTX range "step" (2 times, total time: 20.500us)',
        header,
        "100.00%  2.0000us         2  1.0000us  1.0000us  1.0000us  add(int*)",
        "========     API calls:",
        header,
        "100.00%  8.0000us         2  4.0000us  3.0000us  5.0000us  cudaLaunch",
        '========     NVTX range "idle" (1 times, total time: 7.0000us)',
        "No kernels were profiled in this range.",
        "",
    ]))  # fmt: skip
    assert summary(profile, "section", "name", "range", "calls", "total_ns") == [
        ("gpu", "add(int*)", None, 3, 3000),
        ("nvtx", "step", None, 2, 20_500),
        ("nvtx", "add(int*)", "step", 2, 2000),
        ("nvtx", "cudaLaunch", "step", 2, 8000),
        ("nvtx", "idle", None, 1, 7000),
    ]
    assert profile["sessions"].height == 1
    assert profile["issues"].is_empty()
