"""Tables of rocprof together with others of the same run, and issues about tables without a view."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loaders.reading import read, reasons, rows
from tests.loaders.rocprof.test_rocprof_csv import AGENTS, COUNTERS, NEW_KERNELS, STATS_V3
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

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


FIRST_V2 = (
    "Dispatch_ID,GPU_ID,Queue_ID,Queue_Index,PID,TID,GRD,WGR,LDS,SCR,Arch_VGPR,ACCUM_VGPR,SGPR,Wave_Size,SIG,OBJ,"
    "Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID,SQ_WAVES,FETCH_SIZE\n\n"
    '1,64700,1,0,353,354,4096,64,512,0,8,4,16,64,140356026185088,1,"add(int*) (.kd)",7,30064771072,0,64.000000,12.5\n'
)
V2_CALLS = (
    "Domain,Function,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID\n\n"
    "HIP_API_DOMAIN,hipMalloc,,316678000000100,316678000000350,2\n"
    "HIP_API_DOMAIN,hipLaunchKernel,,316678000000400,316678000000450,3\n"
)
V2_WORK = (
    "Domain,Operation,Kernel_Name,Start_Timestamp,Stop_Timestamp,Correlation_ID\n\n"
    'HIP_OPS_DOMAIN,"KernelExecution","void add<int>(int*)",316678000000500,316678000000900,3\n'
    'HIP_OPS_DOMAIN,"CopyDeviceToHost",,316678000001000,316678000001030,4\n'
    'HIP_OPS_DOMAIN,"FillBuffer",,316678000001100,316678000001110,5\n'
    'HIP_OPS_DOMAIN,"MarkerCommand",,316678000001100,316678000001200,6\n'
)
V2_MARKS = 'Domain,ROCTX_ID,Message,Timestamp\n\nROCTX_DOMAIN,1,"forward",316678000000000\n'


def test_counters_of_the_first_releases_of_rocprofv2_have_ids_in_place_of_times() -> None:
    profile = read(FIRST_V2)
    columns = ("name", "start_ns", "duration_ns", "device", "stream", "registers", "shared_bytes", "arguments", "line")
    facts = "Grid: 4096 threads; Workgroup: 64 threads; Accumulation VGPRs: 4; SGPRs: 16"
    assert rows(profile, "activities", *columns) == [("add(int*)", None, None, 64700, 1, 8, 512, facts, 3)]
    assert rows(profile, "metrics", "kernel", "metric", "avg") == [
        ("add(int*)", "SQ_WAVES", 64.0),
        ("add(int*)", "FETCH_SIZE", 12.5),
    ]
    assert any("no times" in reason for reason in reasons(profile))
    timed = read(FIRST_V2.replace(",7,30064771072,", ",316678000000500,316678000000900,"))
    assert rows(timed, "activities", "start_ns", "duration_ns") == [(0, 400)]


def test_traces_of_rocprofv2_are_linked() -> None:
    profile = read(V2_CALLS + V2_WORK + V2_MARKS)
    assert rows(profile, "activities", "kind", "name", "short_name", "copy_kind", "start_ns", "duration_ns") == [
        ("kernel", "void add<int>(int*)", "add", None, 400, 400),
        ("memcpy", "CopyDeviceToHost", "CopyDeviceToHost", "DtoH", 900, 30),
        ("memset", "FillBuffer", "FillBuffer", None, 1000, 10),
    ]
    assert rows(profile, "api_calls", "name", "start_ns", "duration_ns", "correlation") == [
        ("hipMalloc", 0, 250, 2),
        ("hipLaunchKernel", 300, 50, 3),
    ]
    assert rows(profile, "sessions", "format", "tool") == [("rocprof-csv", "rocprof")]
    assert any("marks of roctx" in reason for reason in reasons(profile))


def test_kernels_of_a_trace_and_of_its_counters_count_once() -> None:
    of_trace = rows(read(V2_WORK), "activities", "name", "start_ns", "duration_ns")
    assert rows(read(FIRST_V2 + V2_WORK), "activities", "name", "start_ns", "duration_ns") == of_trace
    timed = FIRST_V2.replace(",7,30064771072,", ",316678000000500,316678000000900,")
    kernels = rows(read(timed + V2_WORK), "activities", "kind", "name", "duration_ns")
    assert kernels[0] == ("kernel", "add(int*)", 400)
    assert [kind for kind, _, _ in kernels] == ["kernel", "memcpy", "memset"]


def test_a_kernel_trace_without_sizes_of_workgroups() -> None:
    text = (
        '"Kind","Agent_Id","Queue_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"KERNEL_DISPATCH",1,1,42,"copy(float*, long)",1,1000000,1512480\n'
    )
    assert rows(read(text), "activities", "name", "duration_ns", "grid_x", "block_x") == [
        ("copy(float*, long)", 512_480, None, None)
    ]


def test_results_without_an_index() -> None:
    text = (
        "KernelName,gpu-id,pid,grd,wgr,lds,BeginNs,EndNs,SQ_WAVES\n" + '"add(int*) [clone .kd]",0,7,64,64,0,10,40,3\n'
    )
    profile = read(text)
    assert rows(profile, "activities", "name", "duration_ns") == [("add(int*)", 30)]
    assert rows(profile, "metrics", "metric", "avg") == [("SQ_WAVES", 3.0)]


MIXED = (
    "Dispatch_ID,Kernel_Name,GPU_ID,queue-id,queue-index,pid,tid,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,"
    "Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,SGPR,wave_size,sig,obj,SQ_WAVES,DispatchNs,Start_Timestamp,"
    "End_Timestamp,CompleteNs\n"
    '0,"add(int*) [clone .kd]",2,0,0,11,11,4096,64,0,0,8,0,16,64,0x0,0x7f,64,1000100,1000200,1000250,1000300\n'
)
COMPUTE = (
    "GPU_ID,Dispatch_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,SGPR,"
    "Kernel_Name,Start_Timestamp,End_Timestamp,Kernel_ID,Counter_Name,Counter_Value\n"
    "3,0,256,64,512,20,8,4,16,add,1000,1040,0,SQ_WAVES,4\n3,0,256,64,512,20,8,4,16,add,1000,1040,0,SQ_BUSY_CYCLES,100\n"
)
PRINTED = """
    ROCPROFV3 SUMMARY:

    |          NAME          |   DOMAIN    | CALLS | DURATION (nsec) | AVERAGE (nsec) | PERCENT (INC) | MIN (nsec) |
    |------------------------|-------------|-------|-----------------|----------------|---------------|------------|
    | hipMemcpy              | HIP_API     |     3 |         4000001 |      1.333e+06 |     66.666666 |     100000 |
    | void add<int>(int*, int) | KERNEL_DISPATCH | 2 |       1500000 |      7.500e+05 |     25.000000 |     700000 |
    | MEMORY_COPY_HOST_TO_DEVICE | MEMORY_COPY | 1 |          500000 |      5.000e+05 |      8.333333 |     500000 |
    | MEMORY_ALLOCATION_ALLOCATE | MEMORY_ALLOCATION | 1 |       500 |      5.000e+02 |      0.000000 |        500 |

    ROCPROFV3 KERNEL_DISPATCH SUMMARY:

    | NAME | DOMAIN | CALLS | DURATION (nsec) | AVERAGE (nsec) | PERCENT (INC) | MIN (nsec) |
    |------|--------|-------|-----------------|----------------|---------------|------------|
    | void add<int>(int*, int) | KERNEL_DISPATCH | 2 | 1500000 | 7.500e+05 | 100.000000 | 700000 |
loss 0.5
"""


def test_the_tables_of_rocprof_compute() -> None:
    mixed = read(MIXED)
    assert rows(mixed, "activities", "name", "duration_ns", "device", "stream", "registers") == [
        ("add(int*)", 50, 2, 0, 8)
    ]
    assert rows(mixed, "metrics", "metric", "avg") == [("SQ_WAVES", 64.0)]
    counters = read(COMPUTE)
    facts = "Grid: 256 threads; Workgroup: 64 threads; Accumulation VGPRs: 4; SGPRs: 16; Scratch bytes: 20"
    columns = ("name", "duration_ns", "device", "registers", "shared_bytes", "arguments")
    assert rows(counters, "activities", *columns) == [("add", 40, 3, 8, 512, facts)]
    assert rows(counters, "metrics", "metric", "avg") == [("SQ_WAVES", 4.0), ("SQ_BUSY_CYCLES", 100.0)]


def test_times_that_a_spreadsheet_rounded_are_unknown() -> None:
    profile = read(MIXED.replace("1000200,1000250", "8.1097E+14,8.1097E+14"))
    assert rows(profile, "activities", "name", "start_ns", "duration_ns") == [("add(int*)", None, None)]
    assert any("a spreadsheet rounded them" in reason for reason in reasons(profile))


def test_a_begin_that_is_the_end_of_the_kernel_before_is_wrong() -> None:
    header = "Index,KernelName,gpu-id,queue-id,pid,grd,wgr,SQ_INSTS_SMEM,DispatchNs,BeginNs,EndNs,CompleteNs\n"
    kernels = ["0,a,0,0,7,64,64,3,5000,100,5100,5200\n", "1,b,0,0,7,64,64,3,5300,5100,5400,5500\n"]
    profile = read(header + "".join([*kernels, "2,c,0,0,7,64,64,3,5600,5700,5750,5800\n"]))
    assert rows(profile, "activities", "name", "duration_ns") == [("c", 50), ("a", None), ("b", None)]
    assert rows(profile, "issues", "severity", "line")[0] == ("warning", 2)
    assert reasons(profile)[0].startswith("2 kernels begin before being dispatched, which rocprof writes with some")
    gapless = [line.replace(",5000,100,", ",50,100,").replace(",5300,5100,", ",5050,5100,") for line in kernels]
    assert rows(read(header + "".join(gapless)), "activities", "duration_ns") == [(5000,), (300,)]


def test_printed_sums_of_rocprofv3() -> None:
    profile = read(PRINTED)
    assert rows(profile, "summary", "section", "name", "calls", "total_ns", "avg_ns", "min_ns", "time_pct", "line") == [
        ("api", "hipMemcpy", 3, 4_000_001, 1_333_334, 100_000, None, 6),
        ("gpu", "void add<int>(int*, int)", 2, 1_500_000, 750_000, 700_000, None, 7),
        ("gpu", "MEMORY_COPY_HOST_TO_DEVICE", 1, 500_000, 500_000, 500_000, None, 8),
    ]
    assert reasons(profile) == [
        "sums of memory allocations and scratch memory are in no view: they are in the log only"
    ]
    assert rows(profile, "sessions", "format", "tool") == [("rocprofv3-csv", "rocprofv3")]
    in_ms = read(PRINTED.replace("nsec", "msec").replace(" 1500000 ", " 1.5 "))
    assert ("void add<int>(int*, int)", 1_500_000) in rows(in_ms, "summary", "name", "total_ns")
    with pytest.raises(ProftuiError, match="no profile found"):  # times of several units are no such table
        read(PRINTED.replace("DURATION (nsec)", "DURATION (sec)"))


def test_printed_sums_of_two_runs_are_two_sessions() -> None:
    again = PRINTED.replace(" 1500000 ", " 1600000 ")
    profile = read(PRINTED + again)
    assert rows(profile, "summary", "session", "total_ns")[:2] == [(0, 4_000_001), (0, 1_500_000)]
    assert (1, 1_600_000) in rows(profile, "summary", "session", "total_ns")
