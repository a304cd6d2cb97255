"""The text that Nsight Compute prints, of every version: launches, summaries and findings; comments and quotes."""

from __future__ import annotations

import polars as pl
import pytest

from tests.loaders.damage import load_damaged
from tests.loaders.nsys_stats.test_sums import KERN_2023
from tests.loaders.reading import read, reasons, rows
from tui.analysis.hardware_metrics import measured_kernels
from tui.model.errors import ProftuiError

PAGE = """\
==PROF== Connected to process 77 (/home/me/app)
==PROF== Profiling "scale" - 0: 0%....50%....100% - 9 passes
sums are right
==PROF== Disconnected from process 77
[77] app@127.0.0.1
  void scale<2, float>(T2 *, int) (64, 2, 1)x(16, 16, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    SM Frequency                    Ghz         1.50
    Memory Throughput                 %        80.25
    Duration                         us       205.22
    Compute (SM) Throughput           %        12.50
    ----------------------- ----------- ------------

    OPT   Est. Local Speedup: 21.5%
          The memory is busier than the SMs: look for
          uncoalesced accesses.
    ----- ------------------------------------------
    INF   Roofline is below 1%.

    Section: Launch Statistics
    -------------------------------- --------------- ---------------
    Metric Name                          Metric Unit    Metric Value
    -------------------------------- --------------- ---------------
    Block Size                                                   256
    Function Cache Configuration                     CachePreferNone
    Registers Per Thread             register/thread              40
    Static Shared Memory Per Block       Kbyte/block            2.05
    -------------------------------- --------------- ---------------

  fill(int *) (1, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: Command line profiler metrics
    ------------------- ----------- ------------
    Metric Name         Metric Unit Metric Value
    ------------------- ----------- ------------
    dram__bytes_read.sum_of_everything_wide       Mbyte       1.25
    smsp__inst_executed                    1,016,796.00
    ------------------- ----------- ------------
"""
METRICS = ("metric", "avg", "unit", "kernel", "description", "line")


def test_launches_metrics_and_findings() -> None:
    profile = read(PAGE)
    columns = ("name", "duration_ns", "grid_x", "grid_y", "block_x", "stream", "registers", "static_shared_bytes")
    scale, fill = "void scale<2, float>(T2 *, int)", "fill(int *)"
    assert rows(profile, "activities", *columns) == [
        (scale, 205_220, 64, 2, 16, 7, 40, 2_050),
        (fill, None, 1, 1, 32, 7, None, None),
    ]
    speed, launch, command_line = (
        "GPU Speed Of Light Throughput",
        "Launch Statistics",
        "Command line profiler metrics",
    )
    assert rows(profile, "metrics", *METRICS) == [
        ("SM Frequency", 1.5e9, "Hz", scale, speed, 11),
        ("Memory Throughput", 80.25, "%", scale, speed, 12),
        ("Duration", 205_220.0, "ns", scale, speed, 13),
        ("Compute (SM) Throughput", 12.5, "%", scale, speed, 14),
        ("Block Size", 256.0, None, scale, launch, 27),
        ("Registers Per Thread", 40.0, "register/thread", scale, launch, 29),
        ("Static Shared Memory Per Block", 2050.0, "B", scale, launch, 30),
        ("dram__bytes_read.sum_of_everything_wide", 1.25e6, "B", fill, command_line, 38),
        ("smsp__inst_executed", 1_016_796.0, None, fill, command_line, 39),
    ]
    assert profile["activities"]["arguments"][0] == "Function Cache Configuration: CachePreferNone"
    assert rows(profile, "devices", "device", "compute_capability") == [(0, "9.0")]
    session = ("format", "pid", "command", "host", "first_line", "last_line")
    assert rows(profile, "sessions", *session) == [("ncu-csv", 77, "/home/me/app", "127.0.0.1", 5, 39)]
    problem = "GPU Speed Of Light Throughput in scale (launch 0)"
    assert rows(profile, "tool_findings", "severity", "problem", "recommendation") == [
        (
            "warning",
            problem,
            "The memory is busier than the SMs: look for uncoalesced accesses. (estimated speedup, local: 21.5 %)",
        ),
        ("info", problem, "Roofline is below 1%."),
    ]
    assert reasons(profile, "warning") == []


OLD = """\
// [5] app@127.0.0.1
//   add(int, float*), 2020-Oct-28 10:36:31, Context 1, Stream 13
//     Section: GPU Speed Of Light
//     ---------------------------------- --------------- ------------------------------
//     Elapsed Cycles                               cycle                          9,729
//     Memory [%]                                       %                          47.36
//     Duration                                   msecond                           3.42
//     Compute (SM) [%]                                 %                           2.68
//     ---------------------------------- --------------- ------------------------------
//     WRN   Low throughput.

// and more of the same launch:
//     Section: Occupancy
//     ---------------------------------- --------------- ------------------------------
//     Achieved Occupancy                               %                          73.53
"""


@pytest.mark.parametrize("prefix", ["// ", "", ">  ", "# "])
def test_a_page_of_older_versions_in_a_comment_or_a_quote(prefix: str) -> None:
    profile = read(OLD.replace("// ", prefix).replace(f"{prefix}and", "and"))
    assert rows(profile, "activities", "name", "duration_ns", "stream", "grid_x") == [
        ("add(int, float*)", 3_420_000, 13, None)
    ]
    assert [row[:2] for row in rows(profile, "metrics", *METRICS)] == [
        ("Elapsed Cycles", 9729.0),
        ("Memory [%]", 47.36),
        ("Duration", 3_420_000.0),
        ("Compute (SM) [%]", 2.68),
        ("Achieved Occupancy", 73.53),
    ]
    assert measured_kernels(profile).select("sm_pct", "memory_pct", "achieved_pct").rows() == [(2.68, 47.36, 73.53)]
    assert profile["tool_findings"]["recommendation"].to_list() == ["Low throughput."]


def test_a_comma_before_three_digits_is_no_decimal_separator_in_the_text() -> None:
    page = """\
  fill(int *) (1, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: Command line profiler metrics
    ------------------- ----------- ------------
    smsp__inst_executed        inst        1,024
    ------------------- ----------- ------------
"""
    assert rows(read(page), "metrics", "metric", "avg") == [("smsp__inst_executed", 1024.0)]
    assert reasons(read(page), "warning") == []
    assert rows(read(page.replace("1,024", "1.024")), "metrics", "avg") == []


@pytest.mark.parametrize("remark", ["  # five waves", " // why?", "  <-- 5 waves"])
def test_remarks_behind_metrics_are_not_values(remark: str) -> None:
    page = PAGE.replace("       205.22\n", f"       205.22{remark}\n").replace("      256\n", f"      256{remark}\n")
    profile = read(page)

    assert rows(profile, "metrics", *METRICS) == rows(read(PAGE), "metrics", *METRICS)
    assert rows(profile, "activities", "duration_ns")[0] == (205_220,)


def test_a_summary_of_kernels() -> None:
    profile = read(
        """\
  fill(int *) (4096, 1, 1)x(256, 1, 1), Device 0, CC 11.0, Invocations 14
    Section: Speed
    ----------------- ----------- ------- ------- -------
    Metric Name       Metric Unit Minimum Maximum Average
    ----------------- ----------- ------- ------- -------
    ...
    Duration                   us    1.50    9.25    3.00
    l1tex__data.sum               1,016.5 1,016.9 1,016.7
    ----------------- ----------- ------- ------- -------
"""
    )
    columns = ("kernel", "grid_x", "invocations", "metric", "min", "max", "avg", "unit")
    assert rows(profile, "metrics", *columns) == [
        ("fill(int *)", 4096, 14, "Duration", 1500.0, 9250.0, 3000.0, "ns"),
        ("fill(int *)", 4096, 14, "l1tex__data.sum", 1016.5, 1016.9, 1016.7, None),
    ]
    assert rows(profile, "summary", "name", "calls", "total_ns") == [("fill(int *)", 14, 42_000)]
    assert reasons(profile, "warning") == []


def test_runs_of_several_processes_are_sessions() -> None:
    profile = read(PAGE + PAGE.replace("77", "78"))
    assert profile["sessions"]["pid"].to_list() == [77, 78]
    assert profile["activities"].group_by("session", maintain_order=True).len()["len"].to_list() == [2, 2]


def test_a_metric_that_does_not_fit_its_columns_is_reported() -> None:
    profile = read(PAGE.replace("    Memory Throughput      ", "    Memory Throughput of It "))
    assert profile["metrics"].filter(pl.col("line") == 12).is_empty()
    assert profile["issues"].filter(severity="warning")["line"].to_list() == [12]


def test_a_table_of_another_tool_below_a_launch_is_read() -> None:
    profile = read(PAGE + "\n" + KERN_2023)
    assert profile["summary"].height == 1
    assert sorted(profile["sessions"]["format"]) == ["ncu-csv", "nsys-stats"]


def test_output_of_the_program_ends_an_unfinished_table_and_a_finding() -> None:
    output = "".join(f"epoch {number} begins\n" for number in range(100))
    table_begins = PAGE.index("    Memory Throughput")
    finding_ends = PAGE.index("    ----- --", table_begins)
    for end in (table_begins, finding_ends):
        profile = read(PAGE[:end] + output + KERN_2023)
        assert sorted(profile["sessions"]["format"]) == ["ncu-csv", "nsys-stats"]
        assert "epoch 99" not in str(rows(profile, "tool_findings", "problem", "recommendation"))


def test_damaged_pages_are_read_or_declined() -> None:
    for profile in load_damaged(PAGE, 120):
        assert profile["metrics"]["line"].is_between(1, 60).all()


def test_a_section_without_a_launch_is_not_read() -> None:
    with pytest.raises(ProftuiError):
        read("    Section: Occupancy\n    ---- ---- ----\n    Block Size  1\n")


RAW = """\
[77] app@127.0.0.1
  fill(int *) (8, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 7.5
  Metric Name                                        Metric Unit       Metric Value
  -------------------------------------------------- ----------- ------------------
  device__attribute_display_name                                           Tesla T4
  device__attribute_multiprocessor_count                                         40
  gpu__time_duration.sum                                 usecond              12.50
  launch__func_cache_config                                         CachePreferNone
  lts__t_sectors.sum.per_second                   sector/usecond               2.50
  lts__t_sector_hit_rate.pct                                   %
  smsp__inst_executed.sum                                   inst 1024 (512; 256;
                                                                       128; 128)
  smsp__pcsamp_interval                                                    (0; 4;
                                                                               8)

  fill(int *) (16, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 7.5
  Metric Name                                        Metric Unit       Metric Value
  -------------------------------------------------- ----------- ------------------
  gpu__time_duration.sum                                 msecond                  2

"""


def test_a_raw_page_has_its_titles_above_its_only_dashes() -> None:
    profile = read(RAW)
    assert rows(profile, "activities", "name", "duration_ns", "grid_x", "context", "stream", "arguments") == [
        ("fill(int *)", 12_500, 8, 1, 7, "launch__func_cache_config: CachePreferNone"),
        ("fill(int *)", 2_000_000, 16, 1, 7, None),
    ]
    assert rows(profile, "devices", "name", "sm_count", "compute_capability") == [("Tesla T4", 40, "7.5")]
    assert rows(profile, "metrics", "metric", "avg", "unit", "line") == [
        ("gpu__time_duration.sum", 12_500.0, "ns", 7),
        ("lts__t_sectors.sum.per_second", 2.5e6, "sector/s", 9),
        ("smsp__inst_executed.sum", 1024.0, "inst", 11),
        ("gpu__time_duration.sum", 2e6, "ns", 19),
    ]
    assert reasons(profile, "warning") == []


BODY = """\
[77] app@127.0.0.1
  fill(int *) (8, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 7.5
    Section: GPU Speed Of Light Throughput
    Throughput Chart
    Table Name : Breakdown
    ------------------- ----------- ------------
    Metric Name         Metric Unit Metric Value
    ------------------- ----------- ------------
    Memory [%]                    %        80.50
                               inst           12
    ------------------- ----------- ------------

    Table Name : Roofline
    Peak Work
    ------------------- ----------- ------------
    Metric Name         Metric Unit Metric Value
    ------------------- ----------- ------------
    SM Frequency                Ghz         1.50
    dram__bytes.sum            byte           64
    ------------------- ----------- ------------

    # Warps Graphs
    Table Name : Chart
    ------------------- ----------- ------------
    Metric Name         Metric Unit Metric Value
    ------------------- ----------- ------------
    # Warps                    warp 64 (32; 32;
                                            0)
    dram__bytes.sum            byte           64
    ------------------- ----------- ------------

    Table Name : NUMA Affinity
    ------ -------- ------------ -------- --------
    GPU ID GPU Name NUMA ID      Affinity NUMA ID
    ------ -------- ------------ -------- --------
         0 Tesla T4            0      0-1        0
    ------ -------- ------------ -------- --------

    Section: Launch Statistics
    ------------------- ----------- ------------
    Metric Name         Metric Unit Metric Value
    ------------------- ----------- ------------
    SM Frequency                Ghz         1.25
    Duration                     us         5.50
    ------------------- ----------- ------------
    OPT   More blocks.
"""
BODY_METRICS = [
    ("Breakdown: Memory [%]", 80.5, "%"),
    ("Roofline: SM Frequency", 1.5e9, "Hz"),
    ("dram__bytes.sum", 64.0, "B"),
    ("Chart: # Warps", 64.0, "warp"),
    ("SM Frequency", 1.25e9, "Hz"),
]


def test_labels_in_the_body_of_a_section_have_the_name_of_their_table() -> None:
    profile = read(BODY)
    assert rows(profile, "metrics", "metric", "avg", "unit") == [*BODY_METRICS, ("Duration", 5500.0, "ns")]
    assert profile["activities"]["duration_ns"].to_list() == [5500]
    assert profile["tool_findings"]["recommendation"].to_list() == ["More blocks."]
    assert reasons(profile, "warning") == []


def test_a_blank_line_can_be_as_long_as_the_margin() -> None:
    page = BODY.replace("    Throughput Chart\n", "    Throughput Chart\n    \n")
    assert rows(read(page), "metrics", "metric") == rows(read(BODY), "metrics", "metric")


def test_kernels_below_their_gpu_have_its_number() -> None:
    profile = read(
        """\
[77] app@127.0.0.1
  Device 1, CC 9.0
  Metric Name                    Metric Unit Metric Value
  ------------------------------ ----------- ------------
  device__attribute_architecture             352

  fill(int *) (8, 1, 1)x(256, 1, 1), Invocations 2
  Metric Name                    Metric Unit     Minimum                Maximum                Average
  ------------------------------ --------------- ---------------------- ---------------------- ----------------------
  device__attribute_chip                                                                       356
  gpu__time_duration.sum         usecond         1.500000               4.500000               3.000000
"""
    )
    assert rows(profile, "metrics", "device", "kernel", "metric", "min", "avg") == [
        ("1", "fill(int *)", "device__attribute_chip", None, 356.0),
        ("1", "fill(int *)", "gpu__time_duration.sum", 1500.0, 3000.0),
    ]
    assert rows(profile, "summary", "name", "calls", "total_ns") == [("fill(int *)", 2, 6000)]
    assert reasons(profile, "warning") == []


def test_damaged_raw_pages_and_bodies_are_read_or_declined() -> None:
    for text in (RAW, BODY):
        for profile in load_damaged(text, 60):
            assert profile["metrics"]["line"].is_between(1, 60).all()


OLD_SUMMARY = """\
[77] app@127.0.0.1
  Device 1
    scale(int*), Block Size 256, Grid Size 128, 3 invocations
      Section: GPU Speed Of Light
      Metric Name                 Metric Unit Minimum  Maximum  Average
      --------------------------- ----------- -------- -------- --------
      gpu__time_duration.sum      usecond     1.500000 2.500000 2.000000
      sm__throughput.avg          %           3.000000 5.000000 4.000000

    scale(int*), Block Size 256, Grid Size 128, 3 invocations
      Section: Occupancy
      Metric Name                 Metric Unit Minimum  Maximum  Average
      --------------------------- ----------- -------- -------- --------
      gpu__time_duration.sum      usecond     1.500000 2.500000 2.000000
      sm__throughput.avg          %           3.000000 5.000000 4.000000
      launch__registers           register    8        8        8
"""


@pytest.mark.parametrize("is_per_kernel", [False, True])
def test_a_summary_until_2021_that_repeats_its_sections_counts_once(*, is_per_kernel: bool) -> None:
    text = OLD_SUMMARY
    if is_per_kernel:
        text = text.replace("  Device 1\n", "").replace("128, 3 inv", "128, Device 1, 3 inv")
    profile = read(text)
    kernel = "scale(int*)"
    assert rows(profile, "summary", "name", "calls", "total_ns", "min_ns", "max_ns") == [(kernel, 3, 6000, 1500, 2500)]
    assert rows(profile, "metrics", "metric", "device", "invocations", "avg", "description") == [
        ("gpu__time_duration.sum", "1", 3, 2000.0, "GPU Speed Of Light"),
        ("sm__throughput.avg", "1", 3, 4.0, "GPU Speed Of Light"),
        ("launch__registers", "1", 3, 8.0, "Occupancy"),
    ]


OLD_DETAILS = """\
[77] @127.0.0.1
  scale(int*), 2020-Dec-03 17:12:24, Context 1, Stream 7
    Section: Memory Chart
==WARNING== Failed to detect compute capability, assuming 40
    ---------------------------------------- --------------- ---------------
    Duration                                         usecond            2.50
    l1tex__data_pipe_lsu_wavefronts_mem_shar               %            1.25
    ed.sum.pct
    L2 Hit Rate                                            %           50.00
    ---------------------------------------- --------------- ---------------
    OK    The kernel is balanced. To improve
          it, start with the memory.

    Section: Occupancy
    ---------------------------------------- --------------- ---------------
    Block Limit SM                                     block              16
    ---------------------------------------- --------------- ---------------
"""


def test_long_names_findings_and_warnings_of_versions_until_2021() -> None:
    profile = read(OLD_DETAILS)
    assert rows(profile, "activities", "name", "duration_ns", "stream") == [("scale(int*)", 2500, 7)]
    assert rows(profile, "metrics", "metric", "avg", "description", "line") == [
        ("Duration", 2500.0, "Memory Chart", 6),
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct", 1.25, "Memory Chart", 7),
        ("L2 Hit Rate", 50.0, "Memory Chart", 9),
        ("Block Limit SM", 16.0, "Occupancy", 16),
    ]
    assert rows(profile, "tool_findings", "severity", "recommendation") == [
        ("info", "The kernel is balanced. To improve it, start with the memory.")
    ]
    assert reasons(profile)[0] == "Nsight Compute: Failed to detect compute capability, assuming 40"
    assert profile["sessions"].select("pid", "command", "host").row(0) == (77, None, "127.0.0.1")
