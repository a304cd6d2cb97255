"""Reports with the same content in one run, and the issues about them."""

from __future__ import annotations

from tests.loaders.nsys_stats.test_sums import MEMORY
from tests.loaders.nsys_stats.test_text import HEADING, KERNELS
from tests.loaders.nsys_stats.test_traces import LAUNCHES, RANGES, TRACE_2023
from tests.loaders.reading import read, reasons, rows

PROJECTED = (
    "Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),Orig Duration (ns),Style,PID,TID,NumGPUOps,Lvl,"
    "NumChild,RangeId,ParentId,RangeStack\n"
    ":iteration 0,100,400,0,500,PushPop,9908,9909,3,0,1,1,,:1\n"
)
SUM_OF_RANGES = (
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range\n"
    "100.0,1000,2,500.0,500.0,500,500,0.0,PushPop,:iteration\n"
)
PROJECTED_SUM = (
    "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Proj Avg (ns),Proj Med (ns),Proj Min (ns),"
    "Proj Max (ns),Proj StdDev (ns),Total GPU Ops,Avg GPU Ops,Avg Range Lvl,Avg Num Child\n"
    ":iteration,PushPop,800,1000,2,400.0,400.0,400,400,0.0,6,3.0,0.0,1.0\n"
)


def test_ranges_come_from_one_report_and_the_unused_one_is_reported() -> None:
    profile = read("\n".join((TRACE_2023, RANGES, PROJECTED)))
    assert profile["ranges"].height == 3
    assert any("repeats the ranges of a report above" in reason for reason in reasons(profile))


def test_ranges_of_the_projected_trace_alone_have_their_own_times() -> None:
    assert rows(read(PROJECTED), "ranges", "name", "start_ns", "duration_ns", "pid", "depth") == [
        ("iteration 0", 0, 500, 9908, 0)
    ]


def test_sums_of_ranges_count_once_and_the_time_of_their_gpu_work_is_a_figure() -> None:
    profile = read(SUM_OF_RANGES + "\n" + PROJECTED_SUM)
    assert rows(profile, "summary", "section", "name", "total_ns") == [("nvtx", "iteration", 1000)]
    assert rows(profile, "tool_figures", "name", "value", "unit") == [("iteration", 800.0, "ns")]
    assert reasons(profile) == []


def test_single_kernels_replace_summaries_and_missing_copies_are_reported() -> None:
    profile = read(LAUNCHES + "\n" + MEMORY)
    assert set(profile["activities"]["kind"]) == {"kernel"}
    assert any("memcpys and memsets are in this summary alone" in reason for reason in reasons(profile))


def test_a_skipped_report_is_reported_and_ends_the_table_above() -> None:
    text = (
        "[4/8] Executing 'nvtx_sum' stats report SKIPPED: run.sqlite does not contain NV Tools Extension (NVTX) data.\n"
        + "[5/8] Executing 'cuda_gpu_kern_sum' stats report\n"
        + KERNELS.split(":\n", 1)[1]
        + "[6/8] Executing 'osrt_sum' stats report\n"
    )
    profile = read(text)
    assert rows(profile, "summary", "section", "total_ns") == [("gpu", 3_000_000), ("gpu", 1_000_000)]
    assert reasons(profile)[0].startswith("nsys skipped the report nvtx_sum: the recording does not contain NV Tools")


def test_an_export_that_names_no_script_is_not_a_report() -> None:
    text = "Exporting [run.sqlite] ...\n" + HEADING.format("run.sqlite", "cuda_gpu_kern_sum") + KERNELS
    assert read(text)["summary"].height == 2


def test_a_device_without_a_number_is_reported() -> None:
    profile = read(TRACE_2023.replace("NVIDIA A100 (0)", "NVIDIA A100"))
    assert profile["activities"]["device"].to_list() == [None, None]
    assert "device number not recorded: shown as unknown" in reasons(profile)


def test_a_table_right_below_another_is_read() -> None:
    table = KERNELS.split(":\n\n", 1)[1].rstrip()
    profile = read(f"{table}\n{table.replace('void f', 'void g')}\n")
    assert rows(profile, "summary", "session", "name") == [
        (0, "void f<int, 4>(int*)"),
        (0, "void at::native::vector…"),
        (1, "void g<int, 4>(int*)"),
        (1, "void at::native::vector…"),
    ]
