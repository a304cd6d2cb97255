"""Prefixes that job runners and containers write on every line, for tables of other tools than nvprof."""

from __future__ import annotations

import pytest

from tests.loaders import test_tensorrt, test_unitrace
from tests.loaders.ncu.test_text_page import PAGE
from tests.loaders.nsys_stats.test_sums import KERN_2023
from tests.loaders.nsys_stats.test_text import KERNELS, OLD
from tests.loaders.reading import read, reasons, rows
from tests.loaders.rocprof.test_rocprof_csv import NEW_KERNELS, STATS_V3
from tests.loaders.text.test_json_text import figures

SUMMARY = ("section", "name", "calls", "total_ns", "avg_ns", "line")
TAGS = ("2024-05-03T10:11:12.{:09}Z ", "[1,0]<stdout>:", "0: ", "trainer-1  | ", "[rank0]: ", "> ")


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("output", [0, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("report", [KERNELS, OLD, KERN_2023])
def test_tagged_reports_read_the_same_as_untagged_ones(report: str, output: int, tag: str) -> None:
    text = "loss 0.5 of many, step by step\n" * output + report
    plain = read(text)
    tagged = read("".join(f"{tag.format(index)}{line}\n" for index, line in enumerate(text.splitlines())))
    assert plain["summary"].height > 0
    assert rows(tagged, "summary", *SUMMARY) == rows(plain, "summary", *SUMMARY)
    assert reasons(tagged) == reasons(plain)


def test_interleaved_tables_of_two_processes_are_separated() -> None:
    first, second = KERNELS.splitlines(), KERNELS.replace("3,000,000", "5,000,000").splitlines()
    interleaved = [f"{rank}: {line}" for pair in zip(first, second, strict=True) for rank, line in enumerate(pair)]
    profile = read("\n".join((*interleaved, "")))
    assert rows(profile, "summary", "session", "total_ns") == [
        *((0, 3_000_000), (0, 1_000_000)),
        *((1, 5_000_000), (1, 1_000_000)),
    ]
    assert reasons(profile, "warning") == []


OF_JOBS = (
    *("2026-02-03T09:12:{:02}.123456789Z stdout F ", "2026-02-03T09:12:{:02}.1+02:00 stderr F ", "[pod/train-0/main] "),
    *("Feb 03 09:12:{:02} gpu-7 python3[48123]: ", "2026-02-03T09:12:{:02}+0100 gpu-7 app[48123]: ", "[0] ", " 3: "),
    *("[1,2]<stdout>: ", "trainer-1  | ", "(RayTrainWorker pid=3317, ip=10.0.0.7) ", "[rank0]: ", "[default0]:", "> "),
    *("2026-02-03 09:12:44,{:03} - INFO - ", "INFO:root:", "+", "2026-02-03T09:12:{:02}.5Z ", "run.log:{}:", "# "),
)
"""What container runtimes, the journal, job runners, loggers, diffs and grep write in front of a line."""


@pytest.mark.parametrize("tag", OF_JOBS)
@pytest.mark.parametrize("output", [0, pytest.param(3000, marks=pytest.mark.slow)])
def test_tagged_tables_of_other_tools_are_read(tag: str, output: int) -> None:
    for result in (test_unitrace.SUMMARY, test_unitrace.TIMELINE, test_tensorrt.NAME_LAST, test_tensorrt.NAME_FIRST):
        lines = ["loss 0.5 of many, step by step"] * output + result.splitlines()
        tagged = read("".join(f"{tag.format(10 + index % 50)}{line}\n" for index, line in enumerate(lines)))
        assert figures(tagged) == figures(read("".join(f"{line}\n" for line in lines)))


NCU_PAGE = f"==PROF== Connected to process 77 (/app)\n==PROF== Disconnected from process 77\n{PAGE}"
NSYS_CSV = "Time (%),Total Time (ns),Instances,Avg (ns),Name\n66.7,2500,2,1250.0,scale(int)\n33.3,1250,1,1250.0,copy\n"
NVPROF_METRICS = """\
==64== NVPROF is profiling process 64, command: ./app
==64== Profiling application: ./app
==64== Profiling result:
==64== Metric result:
Invocations          Metric Name     Metric Description         Min         Max         Avg
Device "GeForce GTX TITAN (0)"
    Kernel: scale(float*, int)
          3                  ipc           Executed IPC    1.282576    1.299736    1.291500
"""
ROCPROF_SUMMARY = """\
ROCPROFV3 SUMMARY:

|        NAME        |     DOMAIN      | CALLS | DURATION (nsec) | AVERAGE (nsec) | PERCENT (INC) | MIN (nsec) | MAX (nsec) | STDDEV |
|--------------------|-----------------|-------|-----------------|----------------|---------------|------------|------------|--------|
| scale(float*, int) | KERNEL_DISPATCH |     2 |            1700 |      8.500e+02 |    100.000000 |        800 |        900 | 70.710 |
"""  # noqa: E501


@pytest.mark.parametrize("tag", [*OF_JOBS, "    ", "-- ", "{:4}  ", "{}: ", "{:6}\t", "> > "])
@pytest.mark.parametrize("result", [NCU_PAGE, NSYS_CSV, STATS_V3, NEW_KERNELS, NVPROF_METRICS, ROCPROF_SUMMARY])
def test_tagged_pages_metrics_and_csv_tables_are_read(result: str, tag: str) -> None:
    tagged = read("".join(f"{tag.format(10 + index % 50)}{line}\n" for index, line in enumerate(result.splitlines())))
    plain = read(result)
    assert any(figures(plain))
    assert figures(tagged) == figures(plain)


@pytest.mark.parametrize(
    "tags",
    [
        *(["[0] ", "[1] ", "[2] "], ["[rank0]: ", "[rank1]: ", "[rank2]: "], ["[1,0]<stdout>:", "[1,1]<stdout>:"]),
        ["app-7f9c-qx7kz main ", "app-7f9c-zb4mw main ", "app-88d1-p9kfh main "],
        ["2026-02-03 09:{:02}:44 [rank0] ", "2026-02-03 09:{:02}:44 [rank1] "],
    ],
    ids=lambda tags: tags[0],
)
def test_interleaved_tables_of_ranks_are_separated(tags: list[str]) -> None:
    totals = [9_865_200 + rank for rank in range(len(tags))]
    texts = [test_unitrace.SUMMARY.replace("9865200", str(total)).splitlines() for total in totals]
    rounds = enumerate(zip(*texts, strict=True))
    text = "".join(
        f"{tag.format(number)}{line}\n" for number, row in rounds for tag, line in zip(tags, row, strict=True)
    )
    profile = read(text)
    assert sorted(rows(profile, "summary", "session", "total_ns")) == [
        (rank, total_ns) for rank, total in enumerate(totals) for total_ns in (4_706_560, total, 19_911_548)
    ]
    assert reasons(profile, "warning") == []
