"""Reports with a row for each activity, call or range."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from tests.loaders.reading import read, reasons, rows
from tui.loaders.registry import load_input
from tui.model.names import copy_kind

TRACE_2020 = (
    "Start(sec),Duration(nsec),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem,DymSMem,Bytes,Thru(MB/s),SrcMemKd,"
    "DstMemKd,Device,Ctx,Strm,Name\n"
    "0.274000,1405,52,,,,,,,,,,4,2.847,Pageable,Device,Tesla V100-PCIE-32GB (0),1,7,[CUDA memcpy HtoD]\n"
    "0.283557,517760,125,1024,1,1,256,1,1,48,946,0,,,,,Tesla V100-PCIE-32GB (0),1,15,k\n"
)
TRACE_2022 = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),"
    "Throughput (MBps),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name\n"
    "100,641,133,None,None,None,None,None,None,None,None,None,0.000,37.441,Pageable,Device,A100 (1),1,7,"
    "[CUDA memcpy HtoD]\n"
    '900,8704,534,29,1,1,8,8,1,63,0.002,0.000,None,,None,None,A100 (1),1,7,"void f<int, 4>(int*)"\n'
)
TRACE_2023 = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),"
    "Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n"
    "900,8704,534,29,1,1,8,8,1,63,0.002,0.049,,,,,NVIDIA A100 (0),1,,7,k\n"
    "100,2752,293,,,,,,,,,,0.008,2790.697,Device,,NVIDIA A100 (0),1,,21,[CUDA memset]\n"
)
CALLS = (
    "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name\n"
    "850,20,cudaLaunchKernel,0,534,9908,9909,20,python3\n"
    "20,50,cudaMemsetAsync,0,293,9908,9909,20,python3\n"
)
RANGES = (
    "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,RangeId,ParentId,"
    "RangeStack,NameTree\n"
    "0,500,500,0,500,:iteration 0,9908,9909,0,1,1,,:1,:iteration 0\n"
    "500,1000,500,0,500,:iteration 1,9908,9909,0,1,2,,:2,:iteration 1\n"
    '840,900,60,0,60,"aten::mm, seq = 0",9908,9909,1,0,3,2,:2:3,"--aten::mm, seq = 0"\n'
)
LAUNCHES = (
    "API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),Total Dur (ns),PID,"
    "TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name\n"
    '850,20,870,30,900,8704,8754,9908,9909,0,cudaLaunchKernel,  29    1    1,   8    8    1,"void f<int, 4>(int*)"\n'
    "850,20,,,990,100,240,9908,9909,0,cudaLaunchKernel,2147483647    1    1,   8    8    1,g\n"
)


def test_a_trace_of_2020_has_seconds_and_bytes() -> None:
    profile = read(TRACE_2020)
    columns = (
        "kind",
        "start_ns",
        "duration_ns",
        "device",
        "stream",
        "size_bytes",
        "throughput",
        "copy_kind",
        "src_memory",
    )
    assert rows(profile, "activities", *columns) == [
        ("memcpy", 274_000_000, 1405, 0, 7, 4, 2_847_000.0, "HtoD", "pageable"),
        ("kernel", 283_557_000, 517_760, 0, 15, None, None, None, None),
    ]
    columns = ("grid_x", "block_x", "registers", "static_shared_bytes", "dynamic_shared_bytes", "correlation", "line")
    assert rows(profile, "activities", *columns)[1] == (1024, 256, 48, 946, 0, 125, 3)
    assert rows(profile, "sessions", "start_resolution_ns") == [(1000,)]
    assert rows(profile, "devices", "device", "name") == [(0, "Tesla V100-PCIE-32GB")]
    assert reasons(profile) == []


def test_a_start_with_too_many_digits_is_unknown() -> None:
    profile = read(TRACE_2020.replace("0.274000", "0.274000" + "0" * 200))
    assert rows(profile, "activities", "start_ns") == [(274_000_000,), (283_557_000,)]
    assert rows(profile, "sessions", "start_resolution_ns") == [(1,)]


def test_a_trace_of_2022_has_rounded_sizes_and_no_warning() -> None:
    profile = read(TRACE_2022)
    columns = ("name", "size_bytes", "static_shared_bytes", "dynamic_shared_bytes", "grid_x", "device", "line")
    assert rows(profile, "activities", *columns) == [
        ("[CUDA memcpy HtoD]", 24, None, None, None, 1, 2),
        ("void f<int, 4>(int*)", None, 2000, None, 29, 1, 3),
    ]
    assert len(reasons(profile, "info")) == 2
    assert reasons(profile, "warning") == []
    assert rows(profile, "sessions", "start_resolution_ns") == [(1,)]


def test_a_trace_of_2023_is_sorted_by_time_with_its_lines() -> None:
    profile = read(TRACE_2023)
    columns = ("kind", "start_ns", "stream", "size_bytes", "dynamic_shared_bytes", "src_memory", "dst_memory", "line")
    assert rows(profile, "activities", *columns) == [
        ("memset", 100, 21, 7680, None, "device", None, 3),
        ("kernel", 900, 7, None, 49000, None, None, 2),
    ]


def test_a_size_that_contradicts_the_rate_stays_as_printed() -> None:
    profile = read(TRACE_2023.replace("2790.697", "9790.697"))
    assert rows(profile, "activities", "size_bytes")[0] == (8000,)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("[CUDA memcpy Device-to-Host]", "DtoH"),
        ("[CUDA memcpy Peer-to-Peer]", "PtoP"),
        ("[CUDA memcpy PtoP]", "PtoP"),
        ("[CUDA Unified Memory memcpy HtoD]", "HtoD"),
        ("[CUDA memset]", None),
        ("memcpy", None),
    ],
)
def test_directions_of_copies(name: str, kind: str | None) -> None:
    assert copy_kind(name) == kind


def test_calls() -> None:
    assert rows(read(CALLS), "api_calls", "name", "start_ns", "duration_ns", "pid", "tid", "correlation", "line") == [
        ("cudaLaunchKernel", 850, 20, 9908, 9909, 534, 2),
        ("cudaMemsetAsync", 20, 50, 9908, 9909, 293, 3),
    ]


@pytest.mark.parametrize("separator", [",", "\t"])
def test_calls_of_versions_until_2021_have_a_start_time(separator: str) -> None:
    text = CALLS.replace("Start (ns)", "Start Time (ns)").replace(",", separator)
    assert rows(read(text), "api_calls", "name", "start_ns", "duration_ns") == [
        ("cudaLaunchKernel", 850, 20),
        ("cudaMemsetAsync", 20, 50),
    ]
    assert read(text)["issues"].is_empty()


def test_a_trace_of_2021_has_the_exact_sizes_of_copies() -> None:
    copy = "100,864,124,,,,,,,,,,0.004,4740.741,Pageable,Device,RTX 3060 (0),1,13,[CUDA memcpy HtoD]\n"
    header = TRACE_2023.splitlines()[0].replace("Throughput (MB/s)", "Thruput (MBps)").replace("GreenCtx,", "")
    profile = read(f"{header}\n{copy}")
    assert rows(profile, "activities", "size_bytes", "throughput") == [(4096, 4_740_741_000.0)]


def test_ranges_have_their_depth_and_mark_iterations() -> None:
    profile = read(RANGES)
    assert rows(profile, "ranges", "name", "start_ns", "duration_ns", "pid", "tid", "depth", "iteration", "line") == [
        ("iteration 0", 0, 500, 9908, 9909, 0, 0, 2),
        ("iteration 1", 500, 500, 9908, 9909, 0, 1, 3),
        ("aten::mm, seq = 0", 840, 60, 9908, 9909, 1, None, 4),
    ]
    assert rows(profile, "sessions", "iteration_source") == [("NVTX range iteration",)]


def test_kernels_have_an_op_and_an_iteration_by_calls_and_ranges() -> None:
    profile = read("\n".join((TRACE_2023, CALLS, RANGES)))
    assert rows(profile, "activities", "kind", "op", "op_join", "iteration") == [
        ("memset", None, "launched outside any op", 0),
        ("kernel", 0, "launch", 1),
    ]
    assert rows(profile, "ops", "op", "name", "op_source") == [(0, "aten::mm", "nvtx")]


def test_launches_are_calls_and_kernels_on_one_line_without_an_invented_id() -> None:
    profile = read(LAUNCHES + "\n" + RANGES)
    assert rows(profile, "api_calls", "name", "start_ns", "duration_ns", "correlation", "line") == [
        ("cudaLaunchKernel", 850, 20, None, 2)
    ]
    columns = (
        "name",
        "start_ns",
        "duration_ns",
        "grid_x",
        "block_y",
        "correlation",
        "op",
        "iteration",
        "arguments",
        "line",
    )
    assert rows(profile, "activities", *columns) == [
        ("void f<int, 4>(int*)", 900, 8704, 29, 8, None, 0, 1, "Waited in the queue: 30 ns", 2),
        ("g", 990, 100, 2147483647, 8, None, 0, 1, None, 3),
    ]


def test_a_grid_without_three_numbers_is_unknown() -> None:
    profile = read(LAUNCHES.replace("2147483647    1    1", "2147483647    1"))
    assert rows(profile, "activities", "grid_x", "grid_y", "grid_z", "block_x") == [
        (29, 1, 1, 8),
        (None, None, None, 8),
    ]


def test_a_trace_of_activities_is_preferred_to_launches() -> None:
    profile = read("\n".join((LAUNCHES, TRACE_2023)))
    assert rows(profile, "activities", "line") == [(7,), (6,)]
    assert rows(profile, "api_calls", "line") == [(2,)]


@pytest.mark.parametrize("version", ["nsys2022", "2023.4_dlprof"])
def test_a_real_trace_equals_its_database(version: str, corpus: Callable[[str], str]) -> None:
    name = "report_gputrace.csv" if version == "nsys2022" else "report_cuda_gpu_trace.csv"
    report = load_input(corpus(f"nsys_stats/{version}/{name}"))["activities"]
    database = load_input(corpus("nsys/dlprof_nsys_profile.sqlite"))["activities"]
    columns = (
        "start_ns",
        "duration_ns",
        "stream",
        "grid_x",
        "grid_y",
        "grid_z",
        "registers",
        "correlation",
        "size_bytes",
    )
    assert report.select(columns).rows() == database.select(columns).rows()
    printed = report.filter(pl.col("static_shared_bytes").is_not_null())
    exact = database.filter(pl.col("activity").is_in(printed["activity"].implode()))
    assert printed.height > 0
    assert ((printed["static_shared_bytes"] - exact["static_shared_bytes"]).abs() <= 500).all()


def test_many_rows_are_read_like_few() -> None:
    header, *lines = TRACE_2022.splitlines()
    many_rows = read("\n".join([header, *lines * 1000]))
    assert many_rows["activities"].height == 2000
    assert many_rows["activities"]["line"].sort().to_list() == list(range(2, 2002))
    assert many_rows["activities"]["duration_ns"].sum() == 1000 * (641 + 8704)


@pytest.mark.parametrize("boxed", [False, True])
def test_numbers_that_nsys_truncates_are_unknown_and_so_are_all_start_times(boxed: bool) -> None:
    titles = ("Start (ns)", "Duration (ns)", "CorrId", "GrdX", "BlkX", "Device", "Name")
    rows_printed = [
        ("99999991", "100", "1", "8", "64", "H200 (0)", "f(int)"),
        ("1000000…", "300", "2", "188…", "64", "H200 (1)", "a very lo…"),
        ("1000000…", "50", "3", "2", "64", "H200 (0)", "f(int)"),
    ]
    cells = [titles, *rows_printed] if boxed else [titles, ("-" * 13,) * len(titles), *rows_printed]
    lines = [" " + "  ".join(f"{cell:<13}" for cell in row) for row in cells]
    if boxed:
        lines = ["| " + " | ".join(f"{cell:<13}" for cell in row) + " |" for row in cells]
        lines.insert(1, "|" + "+".join(["-" * 15] * len(titles)) + "|")
    profile = read("\n".join((" ** CUDA GPU Trace (cuda_gpu_trace):", "", *lines, "")))
    assert rows(profile, "activities", "start_ns", "duration_ns", "device", "grid_x") == [
        (None, 100, 0, 8),
        (None, 300, 1, None),
        (None, 50, 0, 2),
    ]
    (reason,) = reasons(profile, "warning")
    assert "nsys truncated the names of 1 row: kernels with the same first characters are" in str(reasons(profile))
    assert reason.startswith("nsys truncated 3 numbers of this table, here first: shown as unknown, as are all start")


def test_a_copy_with_a_truncated_name_has_the_direction_of_its_memory() -> None:
    header = "Start (ns),Duration (ns),CorrId,GrdX,BlkX,SrcMemKd,DstMemKd,Device,Name\n"
    copies = [
        ("Device", "Device", "[CUDA memcpy Device-to-…"),
        ("Device", "Pinned", "[CUDA memcpy Device-to-…"),
        ("Pageable", "Device", "[CUDA memcpy Host-to-De…"),
        ("Device", "Device", "[CUDA memcpy Peer-to-Pe…"),
        ("Managed", "Device", "[CUDA memcpy Host-to-De…"),
        ("Device", "Device", "[CUDA memcpy Device-to-Device]"),
    ]
    text = "".join(f"{start},1,{start},,,{a},{b},H200 (0),{name}\n" for start, (a, b, name) in enumerate(copies))
    kinds = ["DtoD", "DtoH", "HtoD", None, None, "DtoD"]
    assert [kind for (kind,) in rows(read(header + text), "activities", "copy_kind")] == kinds


def test_times_that_are_rounded_to_zero_are_unknown() -> None:
    header = "Start (sec),Duration (sec),CorrId,GrdX,BlkX,Device,Name\n"
    profile = read(f"{header}0.0000,0.0138,1,1,64,H200 (0),f\n4.1,0.0000,2,1,64,H200 (0),g\n")
    assert rows(profile, "activities", "name", "start_ns", "duration_ns") == [
        ("f", 0, 13_800_000),
        ("g", 4_100_000_000, None),
    ]
    reason = "cuda_gpu_trace has rounded times (sec): those printed as 0 are unknown; print nanoseconds: nsys stats"
    assert [text[: len(reason)] for text in reasons(profile, "warning")] == [reason]
    header = "Time (%),Total Time (ms),Instances,Avg (ms),Min (ms),Max (ms),StdDev (ms),Name\n"
    sums = f"{header}100.0,5.0000,1,5.0,5.0,5.0,0.0,f\n"
    assert rows(read(sums), "summary", "total_ns", "std_ns") == [(5_000_000, 0)]
    assert reasons(read(sums)) == []
