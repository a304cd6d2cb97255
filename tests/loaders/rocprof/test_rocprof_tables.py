"""Tables of rocprof together with others of the same run, and issues about tables without a view."""

from __future__ import annotations

from pathlib import Path

from tests.loaders.reading import read, reasons, rows
from tests.loaders.rocprof.test_rocprof_csv import AGENTS, COUNTERS, NEW_KERNELS, STATS_V3
from tui.loaders.registry import load_input

TIMED = COUNTERS.replace('"Counter_Value"', '"Counter_Value","Start_Timestamp","End_Timestamp"')
PASS_1 = "\n".join(TIMED.splitlines()[:1] + [f"{line},1000,5000" for line in TIMED.splitlines()[1:3]]) + "\n"
PASS_2 = PASS_1.replace(",70,70,", ",71,71,").replace("1000,5000", "901000,905100")
ALLOCATIONS = (
    '"Kind","Operation","Agent_Id","Allocation_Size","Address","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    '"MEMORY_ALLOCATION","MEMORY_ALLOCATION_ALLOCATE","Agent 4",1024,"0x7f",1,1000,2000\n'
)
KERNEL_STATS = STATS_V3.replace("hipMalloc", "gemm").replace("hipSetDevice", "relu")


def test_each_counter_pass_is_a_separate_run() -> None:
    profile = read(PASS_1 + PASS_2)
    assert rows(profile, "activities", "session", "name", "start_ns", "duration_ns") == [
        (0, "gemm", 0, 4000),
        (1, "gemm", 0, 4100),
    ]
    assert rows(profile, "metrics", "session", "metric") == [
        (0, "SQ_WAVES"),
        (0, "SQ_INSTS_VALU_MFMA_MOPS_F16"),
        (1, "SQ_WAVES"),
        (1, "SQ_INSTS_VALU_MFMA_MOPS_F16"),
    ]


def test_a_trace_of_allocations_is_reported() -> None:
    profile = read(NEW_KERNELS + ALLOCATIONS)
    assert profile["activities"].height == 2
    assert any("no view shows" in reason for reason in reasons(profile))


def test_sums_with_a_trace_of_the_same_kernels_are_reported() -> None:
    profile = read(NEW_KERNELS + KERNEL_STATS)
    assert profile["activities"].height == 2
    assert set(profile["summary"]["section"]) == {"gpu"}
    assert any("totals of activities that are traced" in reason for reason in reasons(profile))


def test_sums_of_markers_are_ranges(tmp_path: Path) -> None:
    file = tmp_path / "123_marker_api_stats.csv"
    file.write_text(STATS_V3.replace("hipMalloc", "step"))
    profile = load_input(str(file))
    assert rows(profile, "summary", "section", "name", "calls") == [("nvtx", "step", 4), ("nvtx", "hipSetDevice", 1)]
    assert rows(profile, "sessions", "pid") == [(123,)]


def test_gpus_numbered_without_cpu_agents() -> None:
    profile = read(AGENTS + NEW_KERNELS.replace('"Agent 4"', '"GPU 0"'))
    assert rows(profile, "devices", "device", "name") == [(0, "AMD Instinct MI300X")]
    assert profile["activities"]["device"].to_list() == [0, 0]


def test_registers_missing_from_a_kernel_trace_are_unknown() -> None:
    columns = ("Scratch_Size", "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count")
    text = NEW_KERNELS
    for column in columns:
        text = text.replace(f'"{column}"', f'"{column.lower()}_of_another_version"')
    profile = read(text)
    assert rows(profile, "activities", "registers", "arguments", "grid_x") == [(None, None, 256), (None, None, 2)]


def test_a_header_without_rows_gives_no_activities() -> None:
    profile = read(NEW_KERNELS.splitlines()[0] + "\n" + STATS_V3)
    assert profile["activities"].is_empty()
    assert profile["summary"].height == 2


def test_sums_of_two_runs_in_one_text_are_two_sessions() -> None:
    header = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
    first = [f'{header}"add(int*)",2,200,100,100.0\n', f'{header}"hipMalloc",3,30,10,100.0\n']
    first += [f'{header}"CopyDeviceToHost",1,50,50,100.0\n', f'{header}"hsa_init",1,7,7,100.0\n']
    second = [f'{header}"scale(int*)",4,400,100,100.0\n', f'{header}"hipFree",1,5,5,100.0\n']
    profile = read("".join([*first, *second]))
    assert rows(profile, "sessions", "first_line", "last_line") == [(1, 8), (9, 12)]
    assert rows(profile, "summary", "session", "section", "name", "total_ns") == [
        (0, "gpu", "add(int*)", 200),
        (0, "api", "hipMalloc", 30),
        (0, "gpu", "CopyDeviceToHost", 50),
        (0, "api", "hsa_init", 7),
        (1, "gpu", "scale(int*)", 400),
        (1, "api", "hipFree", 5),
    ]
    of_v3 = read(KERNEL_STATS + STATS_V3 + KERNEL_STATS)
    assert rows(of_v3, "summary", "session", "name") == [
        (0, "gemm"),
        (0, "relu"),
        (0, "hipMalloc"),
        (0, "hipSetDevice"),
        (1, "gemm"),
        (1, "relu"),
    ]
