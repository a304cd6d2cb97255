"""Summary reports: every version's header, CSV and text, and which of several is counted."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.corpus import oracle_file, recording_file
from tests.loaders.reading import read, reasons, rows
from tui.analysis.api_calls import api
from tui.analysis.copies import copies, transfers
from tui.analysis.dashboard import dashboard
from tui.analysis.kernels import kernels
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

KERN_2020 = "Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name\n99.4,2500,2,1250.5,500,2000,k_1...\n"
KERN_2021 = (
    "Time(%),Total Time (ns),Instances,Average (ns),Minimum (ns),Maximum (ns),StdDev (ns),Name\n"
    '60.0,300,3,100.0,90,110,8.2,"void f<int, 4>(int*)"\n'
)
GB = (
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),GridXYZ,BlockXYZ,Name\n"
    '75.0,300,3,100.0,95.0,90,115,10.9,  22    1    1,   8    8    1,"void f<int, 4>(int*)"\n'
    '25.0,100,1,100.0,100.0,100,100,0.0,2147483647    1    1,   8    8    1,"void f<int, 4>(int*)"\n'
)
KERN_2023 = (
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    '100.0,400,4,100.0,97.5,90,115,9.0,"void f<int, 4>(int*)"\n'
)
MEMORY = (
    "Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation\n"
    "100.0,600,2,300.0,300.0,200,400,141.4,[CUDA memcpy Host-to-Device]\n"
)
API = (
    "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    "90.0,9000,3,3000.0,2000.0,1000,6000,2645.8,cudaMalloc\n"
)
API_AND_GPU = (
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Category,Operation\n"
    "90.0,9000,3,3000.0,2000.0,1000,6000,2645.8,CUDA_API,cudaMalloc\n"
    '4.0,400,4,100.0,97.5,90,115,9.0,CUDA_KERNEL,"void f<int, 4>(int*)"\n'
    "6.0,600,2,300.0,300.0,200,400,141.4,MEMORY_OPER,[CUDA memcpy Host-to-Device]\n"
)
FIGURES = ("name", "calls", "total_ns", "avg_ns", "median_ns", "min_ns", "max_ns", "std_ns", "time_pct", "line")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(KERN_2020, ("k_1...", 2, 2500, 1250, None, 500, 2000, None, 99.4, 2), id="2020"),
        pytest.param(KERN_2021, ("void f<int, 4>(int*)", 3, 300, 100, None, 90, 110, 8, 60.0, 2), id="2021"),
        pytest.param(KERN_2023, ("void f<int, 4>(int*)", 4, 400, 100, 98, 90, 115, 9, 100.0, 2), id="2023"),
        pytest.param(MEMORY, ("[CUDA memcpy Host-to-Device]", 2, 600, 300, 300, 200, 400, 141, 100.0, 2), id="memory"),
    ],
)
def test_a_summary_of_each_version(text: str, expected: tuple[object, ...]) -> None:
    profile = read(text)
    assert rows(profile, "summary", *FIGURES) == [expected]
    assert rows(profile, "sessions", "format", "tool", "first_line", "last_line") == [
        ("nsys-stats", "Nsight Systems", 1, 2)
    ]
    assert profile["summary"]["section"].to_list() == ["gpu"]


def test_median_and_deviation_are_unknown_for_names_on_several_rows() -> None:
    assert rows_of(kernels(read(KERN_2023))) == [("kernel", 4, 400, 100, 98, None, 9)]
    assert rows_of(kernels(read(GB))) == [("kernel", 4, 400, 100, None, None, None)]
    assert rows_of(api(read(API))) == [("api", 3, 9000, 3000, 2000, None, 2646)]


def rows_of(frame: pl.DataFrame) -> list[tuple[object, ...]]:
    return frame.select("kind", "calls", "total_ns", "avg_ns", "median_ns", "p90_ns", "std_ns").rows()


def test_time_counts_once_in_any_order_of_reports() -> None:
    for text in ("\n".join((GB, KERN_2023, MEMORY, API, API_AND_GPU)), API_AND_GPU + API + MEMORY + KERN_2023 + GB):
        profile = read(text)
        assert len(profile["sessions"]) == 1
        sums = profile["summary"].group_by("section").agg(pl.col("total_ns").sum()).sort("section")
        assert sums.rows() == [("api", 9000), ("gpu", 1000)]
        reported = reasons(profile, "info")
        assert len(reported) == 4
        assert (
            sum(
                reason.startswith("cuda_gpu_kern_gb_sum covers the same time as cuda_gpu_kern_sum")
                for reason in reported
            )
            == 1
        )
        assert not any("totals" in reason for reason in reported)


def test_contradictory_summaries_are_reported_with_both_values() -> None:
    (reason,) = reasons(read(KERN_2023 + GB.replace("25.0,100,1,", "25.0,101,1,")))
    assert reason.endswith("totals 401 and 400 ns: 2 rows in the log only")


def test_cuda_calls_and_kernels_share_a_report() -> None:
    profile = read(API_AND_GPU)
    assert rows(profile, "summary", "section", "name", "total_ns", "line") == [
        ("gpu", "void f<int, 4>(int*)", 400, 3),
        ("gpu", "[CUDA memcpy Host-to-Device]", 600, 4),
        ("api", "cudaMalloc", 9000, 2),
    ]


@pytest.mark.parametrize("unit", ["us", "usec", "\N{MICRO SIGN}s", "\N{GREEK SMALL LETTER MU}s"])
def test_times_in_another_unit_and_thousands_with_commas(unit: str) -> None:
    text = (
        f"Time (%),Total Time ({unit}),Num Calls,Avg ({unit}),Med ({unit}),"
        f"Min ({unit}),Max ({unit}),StdDev ({unit}),Name\n"
        '90.0,"1,234.567",3,411.522,400.001,1.000,800.000,1.5,cuLaunchKernel\n'
    )
    assert rows(read(text), "summary", *FIGURES) == [
        ("cuLaunchKernel", 3, 1234567, 411522, 400001, 1000, 800000, 1500, 90.0, 2)
    ]


def test_sizes_of_copies_are_figures_in_bytes_by_the_unit_of_the_version() -> None:
    old = read("Total,Operations,Average,Minimum,Maximum,Operation\n121.5,3,40.5,0.001,100.0,[CUDA memcpy DtoH]\n")
    new = read(
        "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation\n"
        "0.259,12,0.022,0.001,0.000,0.192,0.055,[CUDA memcpy Host-to-Device]\n"
    )
    assert rows(old, "tool_figures", "section", "name", "value", "unit", "line")[0] == (
        "size of memory ops, total",
        "[CUDA memcpy DtoH]",
        121.5 * 1024,
        "B",
        2,
    )
    assert rows(new, "tool_figures", "value") == [(259000.0,), (22000.0,), (0.0,), (192000.0,)]


def test_nvtx_ranges_and_the_kernels_in_them() -> None:
    text = (
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range\n"
        '80.0,800,2,400.0,400.0,300,500,141.4,PushPop,":step"\n'
        "\n"
        "NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),"
        "Kernel Name\n"
        ":step,PushPop,1,1,2,4,100,25.0,25.0,20,30,4.1,k\n"
    )
    assert rows(read(text), "summary", "section", "name", "range", "calls", "total_ns", "line") == [
        ("nvtx", "step", None, 2, 800, 2),
        ("nvtx", "k", "step", 4, 100, 5),
    ]


RANGES_2023 = (
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Range\n"
    "100.0,600,2,300.0,300.0,200,400,141.4,:{}\n\n"
)
PUSH_POP = "** NVTX Push/Pop Range Summary (nvtx_pushpop_sum):\n\n" + RANGES_2023.format("step")
START_END = "** NVTX Start/End Range Summary (nvtx_startend_sum):\n\n" + RANGES_2023.format("ncclAllReduce")
VULKAN = "** Vulkan Range Summary (vulkan_marker_sum):\n\n" + RANGES_2023.format("shadows")
PIX = "** DX12 PIX Range Summary (dx12_pix_sum):\n\n" + RANGES_2023.format("lights")


@pytest.mark.parametrize("heading", ["", "Processing [run.sqlite] with [reports/nvtx_sums.py]...\n"])
def test_ranges_of_both_kinds_of_nvtx_are_those_of_one_run(heading: str) -> None:
    profile = read(heading + VULKAN + PIX + PUSH_POP + START_END)

    assert rows(profile, "summary", "session", "section", "name", "calls", "total_ns") == [
        (0, "nvtx", "step", 2, 600),
        (0, "nvtx", "ncclAllReduce", 2, 600),
    ]
    assert reasons(profile) == [
        "no view shows the report vulkan_marker_sum: 1 row in the log only",
        "no view shows the report dx12_pix_sum: 1 row in the log only",
    ]


def test_the_same_report_of_nvtx_again_is_of_another_run() -> None:
    assert rows(read(PUSH_POP + START_END + PUSH_POP), "summary", "session") == [(0,), (0,), (1,)]


def test_a_kernel_without_a_name_is_a_kernel() -> None:
    profile = read(KERN_2023.replace('"void f<int, 4>(int*)"', ""))
    assert rows(profile, "summary", "name", "total_ns") == [("(name not recorded)", 400)]


def test_the_gpu_time_of_nvtx_ranges_is_a_figure() -> None:
    text = (
        "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Proj Avg (ns)\n"
        '"aten::mm, seq = 0",PushPop,2028538,2467257,1,2028538.0\n'
    )
    profile = read(text)
    assert rows(profile, "summary", "section", "name", "calls", "total_ns", "avg_ns") == [
        ("nvtx", "aten::mm, seq = 0", 1, 2467257, None)
    ]
    assert rows(profile, "tool_figures", "name", "value", "unit") == [("aten::mm, seq = 0", 2028538.0, "ns")]


def test_a_summary_of_launches_has_waits_and_computed_totals() -> None:
    text = (
        "PID,TID,DevId,Count,QCount,TAvg (ns),AAvg (ns),QAvg (ns),QMax (ns),KAvg (ns),KMed (ns),KMin (ns),KMax (ns),"
        "KStdDev (ns),API Name,Kernel Name\n"
        "9,9,0,6,6,45421.7,10793.2,25988.5,114245,8640.0,9760.0,5152,11008,2773.6,cudaLaunchKernel,k\n"
    )
    profile = read(text)
    assert rows(profile, "summary", "name", "calls", "total_ns", "median_ns") == [("k", 6, 51840, 9760)]
    assert rows(profile, "tool_figures", "name", "value") == [
        ("k by cudaLaunchKernel", 10793.0),
        ("k by cudaLaunchKernel", 25988.0),
        ("k by cudaLaunchKernel", 114245.0),
    ]
    assert reasons(profile) == [
        "cuda_kern_exec_sum prints no totals: kernel totals are calls x average, rounded to 0.1 ns"
    ]


SIZES = (
    "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation\n"
    "1.537,2,0.768,0.768,0.001,1.536,1.085,[CUDA memcpy Host-to-Device]\n"
    "0.000,3,0.000,0.000,0.000,0.000,0.000,[CUDA memset]\n"
)


def test_sizes_of_copies_reach_their_rows() -> None:
    memory = MEMORY + "10.0,60,3,20.0,20.0,20,20,0.0,[CUDA memset]\n"
    profile = read(f"{memory}\n{SIZES}")
    assert rows(profile, "summary", "name", "calls", "total_ns", "size_bytes") == [
        ("[CUDA memcpy Host-to-Device]", 2, 600, 1_537_000),
        # Less than the digits printed.
        ("[CUDA memset]", 3, 60, None),
    ]
    figures = ("copy_kind", "calls", "total_ns", "size_bytes", "throughput")
    assert copies(profile).select(figures).rows() == [("HtoD", 2, 600, 1_537_000, None)]
    assert dashboard(profile).copies.select(figures).rows() == [("HtoD", 2, 600, 1_537_000, None)]
    assert transfers(profile).select("copy_kind", "size_bytes", "achieved").rows() == [
        ("HtoD", 1_537_000, None),
        ("set", None, None),
    ]


def test_sizes_of_another_number_of_copies_are_figures_only() -> None:
    profile = read(f"{MEMORY}\n{SIZES.replace('1.537,2,', '1.537,7,')}")
    assert rows(profile, "summary", "name", "calls", "size_bytes") == [("[CUDA memcpy Host-to-Device]", 2, None)]
    assert profile["tool_figures"].filter(section="size of memory ops, total")["value"].max() == 1_537_000


def test_calls_of_the_operating_system_have_the_header_of_api_calls() -> None:
    heading = "Processing [x.sqlite] with [/opt/nvidia/nsight-systems/2023.4.4/target/reports/osrt_sum.py]... \n"
    profile = read(heading + API.replace("cudaMalloc", "poll") + "\n" + API)
    assert rows(profile, "summary", "section", "name") == [("api", "cudaMalloc"), ("os", "poll")]
    assert rows(profile, "sessions", "tool_version") == [("2023.4.4",)]


@pytest.mark.parametrize(
    ("file", "sections"),
    [
        ("run_osrt_sum.csv", {"os"}),
        ("run_osrtsum.csv", {"os"}),
        ("run_openacc_sum.csv", {"openacc"}),
        ("run_syscall_sum.csv", set()),
        ("run_nvvideo_api_sum.csv", set()),
        ("run_vulkan_api_sum_nvtx=step.csv", set()),
        ("mpi_app_cuda_api_sum.csv", {"api"}),
        ("vulkan_cuda_api_sum.csv", {"api"}),
    ],
)
def test_the_process_of_calls_is_read_from_the_file_name(file: str, sections: set[str], tmp_path: Path) -> None:
    (tmp_path / file).write_text(API)
    assert set(load_input(str(tmp_path / file))["summary"]["section"]) == sections


def test_calls_of_an_unknown_api_are_reported() -> None:
    profile = read(API.replace("cudaMalloc", "futex"))
    assert profile["summary"].is_empty()
    assert reasons(profile) == ["the names are not CUDA calls, and the API is not recorded: they are in the log only"]


def test_events_of_mpi_are_not_kernels() -> None:
    profile = read(
        KERN_2023.replace("StdDev (ns),Name", "StdDev (ns),Source,Name").replace(
            '"void f<int, 4>(int*)"', "MPI,MPI_Send"
        )
    )
    assert profile["summary"].is_empty()
    assert reasons(profile) == ["no view shows the report mpi_event_sum: 1 row in the log only"]


@pytest.mark.parametrize("name", ["gpu_kern_sum", "gpu_kern_gb_sum", "api_gpu_sum"])
def test_kernels_of_a_report_equal_those_of_the_database(name: str, corpus: Callable[[str], str]) -> None:
    report = kernels(load_input(corpus(f"nsys_stats/2023.4_dlprof/report_cuda_{name}.csv")))
    database = kernels(load_input(corpus("nsys/dlprof_nsys_profile.sqlite")))
    columns = ["name", "calls", "total_ns", "min_ns", "max_ns"]
    kernel_rows = [
        summary_rows.filter(kind="kernel").with_columns(pl.col("name").cast(pl.String))
        for summary_rows in (report, database)
    ]
    assert kernel_rows[0].select(columns).sort(columns).rows() == kernel_rows[1].select(columns).sort(columns).rows()


@pytest.mark.parametrize("name", ["resnet50_amp", "ddp", "gpt_cudagraph"])
def test_the_text_of_a_recording_adds_up_to_the_recording(name: str) -> None:
    text = load_input(oracle_file(f"{name}.nsys-stats.txt"))
    recording = load_input(recording_file(f"{name}.nsys.sqlite.gz"))
    total = recording["activities"].filter(pl.col("kind") != "graph")["duration_ns"].sum()
    assert text["summary"].filter(section="gpu")["total_ns"].sum() == total
    figures = ("copy_kind", "calls", "size_bytes")
    printed, recorded = (
        dashboard(profile).copies.select(figures).sort("copy_kind").rows() for profile in (text, recording)
    )
    assert printed == [(kind, calls, pytest.approx(size, abs=500)) for kind, calls, size in recorded]
    assert reasons(text, "warning") == []


def as_json(text: str) -> str:
    """Return reports as nsys prints them with ``--format json``, from its CSV."""
    header, *lines = csv.reader(text.splitlines())
    cells = [[cell if re.fullmatch(r"[0-9.]+", cell) else json.dumps(cell) for cell in line] for line in lines]
    objects = [
        ",\n".join(f"    {json.dumps(title)}: {cell}" for title, cell in zip(header, row, strict=True)) for row in cells
    ]
    return "[\n" + ",\n".join(f"  {{\n{row}\n  }}" for row in objects) + "\n]\n"


SIZES_2020 = "Total,Operations,Average,Minimum,Maximum,Operation\n121.5,3,40.5,0.001,100.0,[CUDA memcpy DtoH]\n"


def test_sizes_of_2020_as_json_read_the_same() -> None:
    printed = read(as_json(SIZES_2020))["tool_figures"].drop("line")
    assert printed.height > 0
    assert printed.equals(read(SIZES_2020)["tool_figures"].drop("line"))


@pytest.mark.parametrize("text", [GB, KERN_2020, KERN_2021, KERN_2023, API, API_AND_GPU, MEMORY])
def test_a_report_as_json_reads_the_same(text: str) -> None:
    printed = as_json(text)
    expected = read(text)["summary"].drop("line")
    assert read(printed)["summary"].drop("line").equals(expected)
    assert read(f"Processing [a.sqlite] with [b/x.py]... \n{printed}\n")["summary"].drop("line").equals(expected)


def test_reports_as_json_after_each_other_and_a_damaged_row() -> None:
    text = as_json(API_AND_GPU.replace("int*", "int*, \\ \N{GREEK SMALL LETTER MU}"))
    damaged = text.replace('    "Instances": 4,\n', "")
    profile = read(f"{damaged}{as_json(MEMORY)}training is done\n")
    assert rows(profile, "summary", "section", "name", "total_ns") == [
        ("gpu", "[CUDA memcpy Host-to-Device]", 600),
        ("api", "cudaMalloc", 9000),
    ]
    assert reasons(profile, "warning") == ["expected a row of 10 cells: row skipped"]
    assert rows(read(text), "summary", "name", "line")[0] == ("void f<int, 4>(int*, \\ \N{GREEK SMALL LETTER MU})", 15)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "Processing [a.sqlite] with [x/cuda_gpu_kern_sum.py]... \nSKIPPED: a.sqlite does not contain CUDA data.\n",
            "the recording does not contain CUDA data.",
        ),
        (
            "\n ** NVTX Start/End Range Summary (nvtx_startend_sum):\n\n"
            "Report was successfully run, but no data was returned.\n\n",
            "the recording has no data for it",
        ),
    ],
)
def test_output_without_a_row_says_why(text: str, reason: str) -> None:
    with pytest.raises(ProftuiError, match=re.escape(f"nsys stats printed no rows of a report: {reason}")):
        read(text)


def test_reports_with_arguments_are_of_the_run_above() -> None:
    heading = "Processing [a.sqlite] with [/opt/reports/cuda_gpu_kern_sum.py]{}... \n"
    text = "".join(heading.format(argument) + KERN_2023 + "\n" for argument in ("(base)", "(nvtx-name:mangled)", ""))
    profile = read(text)
    assert profile["sessions"].height == 1
    assert rows(profile, "summary", "name", "total_ns", "line") == [("void f<int, 4>(int*)", 400, 3)]
    repeated = "cuda_gpu_kern_sum covers the same time as cuda_gpu_kern_sum in line 2, which is used"
    assert reasons(profile) == [f"{repeated}: 1 row in the log only"] * 2


EARLY_2019 = """\
Generating cuda Kernel and Memory Operation Statistics...
cuda Kernel Statistics

Time(%)     Time (ns)     Instances   Avg (ns)        Min (ns)      Max (ns)      Name
----------  ------------  ----------  --------------  ------------  ------------  --------------
75.0        300           3           100.0           90            110           scale
25.0        100           1           100.0           100           100           fill_with_ones


cuda Memory Operation Statistics (time)

Time(%)     Time (ns)     Operations  Avg (ns)        Min (ns)      Max (ns)      Name
----------  ------------  ----------  --------------  ------------  ------------  ------------------
100.0       600           2           300.0           200           400           [CUDA memcpy HtoD]


cuda Memory Operation Statistics (bytes)

Total Bytes (KB)  Operations      Avg (KB)          Min (bytes)       Max (KB)          Name
----------------  --------------  ----------------  ----------------  ----------------  ------------------
6.0               2               3.0               512               5.5               [CUDA memcpy HtoD]


Generating cuda API Statistics...
cuda API Statistics

Time(%)     Time (ns)     Calls       Avg (ns)        Min (ns)      Max (ns)      Name
----------  ------------  ----------  --------------  ------------  ------------  ----------
100.0       9000          3           3000.0          1000          6000          cudaMalloc
"""


def test_statistics_of_early_2019() -> None:
    profile = read(EARLY_2019)
    assert rows(profile, "summary", "section", "name", "calls", "total_ns", "min_ns", "max_ns") == [
        ("gpu", "scale", 3, 300, 90, 110),
        ("gpu", "fill_with_ones", 1, 100, 100, 100),
        ("gpu", "[CUDA memcpy HtoD]", 2, 600, 200, 400),
        ("api", "cudaMalloc", 3, 9000, 1000, 6000),
    ]
    assert [row[0] for row in rows(profile, "tool_figures", "value")] == [6144.0, 3072.0, 512.0, 5632.0]
    assert profile["sessions"].height == 1
    assert profile["issues"].is_empty()
