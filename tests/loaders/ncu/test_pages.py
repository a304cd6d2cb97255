"""Incomplete pages of Nsight Compute, and text around them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

import pytest

from tests.loaders.ncu.test_ncu_csv import LAUNCH, PAGE, RAW, SHORT, SUMMARY
from tests.loaders.nsys_stats.test_sums import KERN_2023
from tests.loaders.reading import read, reasons, rows
from tui.analysis.kernels import kernels
from tui.model.errors import ProftuiError

EXPORTED = (
    '"ID","Estimated Speedup [%]","Function Name","Demangled Name","Process","Device Name","Duration [us]",'
    '"Compute Throughput [%]","Memory Throughput [%]","# Registers [register/thread]","Grid Size","Block Size [block]",'
    '"dram__bytes_read.sum [Mbyte]"\n'
    '"0","91.25","fill","fill(int *)","app","NVIDIA A2","3.20","0.55","12.50","16","     2,     1,     1",'
    '"   128,     1,     1","1.25"\n'
    '"1","7.50","gemm","void gemm<int, 4>(float *, int)","app","NVIDIA A2","1,272.16","67.32","67.33","90",'
    '"  4096,     8,     1","    32,     8,     1",""\n'
)


@pytest.mark.parametrize("begin", ["", "\ufeff"])
def test_a_table_that_the_graphical_interface_exported(begin: str) -> None:
    profile = read(begin + EXPORTED)

    columns = ("name", "duration_ns", "registers", "grid_x", "grid_y", "block_x", "block_y", "arguments")
    assert rows(profile, "activities", *columns) == [
        ("fill(int *)", 3200, 16, 2, 1, 128, 1, "Device Name: NVIDIA A2"),
        ("void gemm<int, 4>(float *, int)", 1_272_160, 90, 4096, 8, 32, 8, "Device Name: NVIDIA A2"),
    ]
    assert rows(profile, "metrics", "metric", "avg", "unit", "line")[:7] == [
        ("Estimated Speedup", 91.25, "%", 2),
        ("Duration", 3200.0, "ns", 2),
        ("Compute (SM) Throughput", 0.55, "%", 2),
        ("Memory Throughput", 12.5, "%", 2),
        ("Registers Per Thread", 16.0, "register/thread", 2),
        ("dram__bytes_read.sum", 1_250_000.0, "B", 2),
        ("Estimated Speedup", 7.5, "%", 3),
    ]
    assert rows(profile, "sessions", "command") == [("app",)]
    assert [reason for reason in reasons(profile) if "replays" not in reason] == []


def test_a_table_that_was_copied_has_tabs() -> None:
    cells = csv.reader(io.StringIO(EXPORTED))
    copied = "".join("\t".join(cell.strip() for cell in row) + "\n" for row in cells)

    for frame in ("activities", "metrics", "sessions"):
        assert (
            read(f"Slow:\n\n{copied}")[frame]
            .drop("line", "first_line", "last_line", strict=False)
            .equals(read(EXPORTED)[frame].drop("line", "first_line", "last_line", strict=False))
        )


def test_an_exported_table_may_have_short_names_alone_and_decimal_commas() -> None:
    profile = read(
        "ID,Issues Detected,Function Name,Cycles [cycle],Duration [msecond],Memory Throughput [%]\n"
        '0,3,gemm,1.234.567,"1,27","67,33"\n'
    )
    assert rows(profile, "activities", "name", "duration_ns") == [("gemm", 1_270_000)]
    assert rows(profile, "metrics", "metric", "avg")[1] == ("Elapsed Cycles", 1_234_567.0)


def test_function_names_without_units_are_no_page() -> None:
    with pytest.raises(ProftuiError):
        read("ID,Function Name,Calls\n0,main,3\n")


def test_a_repeated_header_is_one_page() -> None:
    header = next(line for line in PAGE.splitlines() if line.startswith('"ID"'))
    assert read(PAGE.replace(header, f"{header}\n{header}"))["activities"].height == 2


@pytest.mark.parametrize("comma", [True, False])
def test_a_raw_page_saved_with_semicolons_reads_the_same(*, comma: bool) -> None:
    long = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
    page = RAW.replace("dram__bytes.sum.per_second", long)
    saved = io.StringIO()
    for row in csv.reader(io.StringIO(page)):
        cells = [
            cell.translate(str.maketrans(",.", ".,")) if comma and re.fullmatch(r"[\d.,]+", cell) else cell
            for cell in row
        ]
        csv.writer(saved, delimiter=";").writerow(cells)
    profile, plain = read(saved.getvalue()), read(page)
    assert profile["activities"].height == 2
    for frame in ("activities", "devices", "metrics", "tool_figures"):
        assert profile[frame].equals(plain[frame])


@pytest.mark.parametrize("sign", ["", "//   ", "# "])
def test_lines_of_a_comment_may_be_filled_with_blanks(sign: str) -> None:
    for page in (PAGE, RAW, SUMMARY):
        profile = read("".join(f"{sign}{line}{' ' * 40}\n" for line in page.splitlines()))
        for frame in ("activities", "metrics", "summary", "devices"):
            assert profile[frame].equals(read(page)[frame])


def test_a_text_page_with_another_profile_is_reported() -> None:
    profile = read("==PROF== Connected to process 77 (/home/me/app)\n  f (1, 1, 1)x(1, 1, 1)\n" + KERN_2023)
    assert profile["summary"].height == 1
    assert "output of Nsight Compute (ncu) without a page of metrics: not read" in reasons(profile)


def test_a_summary_without_durations_has_only_metrics() -> None:
    profile = read(SUMMARY.replace('"Duration"', '"Another Time"'))
    assert profile["summary"].is_empty()
    assert profile["metrics"].height > 0


def test_unknown_columns_are_reported() -> None:
    profile = read(SHORT.replace("\n", ',"Of Tomorrow"\n') + '"0","k","gpu__time_duration.sum","nsecond","500","x"\n')
    assert rows(profile, "activities", "duration_ns") == [(500,)]
    assert "unknown columns, shown in the log only" in reasons(profile)


def test_a_table_of_launches_without_metrics_is_not_a_page() -> None:
    profile = read(f"{LAUNCH}\n" + RAW)
    assert profile["activities"].height == 2


def test_a_summary_of_gpus_gives_metrics_of_each_gpu_without_kernels() -> None:
    header = (
        '"Process ID","Process Name","Host Name","Device","CC","Invocations","Section Name","Metric Name",'
        '"Metric Unit","Minimum","Maximum","Average"'
    )
    start = '"123","app","127.0.0.1"'
    profile = read(
        f"==PROF== Connected to process 123 (/home/me/app)\n{header}\n"
        f'{start},"0","9.0","12","Speed Of Light","Duration","us","1.50","9.25","3.00"\n'
        f'{start},"1","9.0","1,003","Speed Of Light","Memory Throughput","%","10.5","20.5","15.0"\n'
    )
    assert rows(profile, "metrics", "device", "kernel", "invocations", "metric", "min", "max", "avg", "unit") == [
        ("0", None, 12, "Duration", 1500.0, 9250.0, 3000.0, "ns"),
        ("1", None, 1003, "Memory Throughput", 10.5, 20.5, 15.0, "%"),
    ]
    assert profile["summary"].is_empty()
    assert rows(profile, "sessions", "pid", "command") == [(123, "/home/me/app")]
    (reason,) = [text for text in reasons(profile) if "totals over all kernels" in text]
    assert reason.endswith("ncu --import run.ncu-rep --csv --print-summary per-kernel")


RANGES = (
    '"Domain","Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg","Kernel Name","Block Size","Grid Size","Device",'
    '"CC","Invocations","Section Name","Metric Name","Metric Unit","Minimum","Maximum","Average"'
)


def ranges_row(domain: str, ranges: Sequence[str], kernel: str, invocations: int, average: str) -> str:
    path = "".join(f' ""{name}:none:none:none:none:none:none"" ' for name in ranges)
    return (
        f'"{domain}","{path}","{kernel}","(128, 1, 1)","(8, 1, 1)","0","9.0","{invocations}",'
        f'"Command line profiler metrics","gpu__time_duration.sum","us","2.00","4.00","{average}"\n'
    )


def test_a_summary_by_range_gives_the_kernels_of_each_range() -> None:
    first = ranges_row("<default domain>", ("step 1", "mlp::up"), "gemm", 3, "3.00")
    second = ranges_row("<default domain>", ("step 2",), "gemm", 2, "2.50")
    profile = read(f"==PROF== Connected to process 321 (app)\n{RANGES}\n{first}{second}")
    assert rows(profile, "summary", "section", "range", "name", "calls", "total_ns") == [
        ("gpu", None, "gemm", 3, 9000),
        ("gpu", None, "gemm", 2, 5000),
        ("nvtx", "step 1/mlp::up", "gemm", 3, 9000),
        ("nvtx", "step 2", "gemm", 2, 5000),
    ]
    assert kernels(profile).select("name", "calls", "total_ns").rows() == [("gemm", 5, 14_000)]
    assert not [reason for reason in reasons(profile) if "unknown columns" in reason or "domains" in reason]
    other = read(f"{RANGES}\n{first}{first.replace('<default domain>', 'CCCL')}")
    assert any("several NVTX domains are listed for each" in reason for reason in reasons(other, "warning"))


def test_unknown_columns_of_a_summary_are_reported() -> None:
    table = SUMMARY.replace('"Invocations"', '"Invocations of Tomorrow"')
    assert "unknown columns, shown in the log only" in reasons(read(table))
