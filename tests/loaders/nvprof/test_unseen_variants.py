"""Rare layouts: each a small log written for the test, its figures counted by hand."""

from __future__ import annotations

import json

import polars as pl
import pytest

from tests.loaders.nvprof.reading import issues, read, summary

OLD = "Time(%)      Time     Calls       Avg       Min       Max  Name"
NEW = "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name"
RUN = [
    "==5== NVPROF is profiling process 5, command: ./a",
    "==5== Profiling application: ./a",
    "==5== Profiling result:",
]
SUMMARY = [
    *RUN,
    NEW,
    " GPU activities:   90.00%  125.70us         5  25.139us  25.088us  25.281us  kern(int)",
    "                   10.00%  13.700us         1  13.700us  13.700us  13.700us  [CUDA memset]",
    "      API calls:  100.00%  30.000us         3  10.000us  5.0000us  15.000us  cudaMalloc",
]
CSV = [
    *RUN,
    '"Time(%)","Time","Calls","Avg","Min","Max","Name"',
    "%,us,,us,us,us,",
    '89.728410,172.790000,6,28.798000,2.330000,111.687000,"[CUDA memcpy HtoD]"',
    '10.271590,19.780000,1,19.780000,19.780000,19.780000,"kern(int, float)"',
]


def lines(*parts: str) -> bytes:
    return "\n".join((*parts, "")).encode()


def notebook(output: list[str]) -> list[str]:
    cell = {"cell_type": "code", "outputs": [{"name": "stdout", "text": [f"{line}\n" for line in output]}]}
    return json.dumps({"cells": [{"cell_type": "markdown", "source": ["# Runs\n"]}, cell]}, indent=1).split("\n")


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_notebook_holds_a_line_as_a_json_string(is_complete: bool) -> None:
    text = notebook(CSV)
    start = next(number for number, line in enumerate(text) if "NVPROF is" in line)
    profile = read(lines(*(text if is_complete else text[start:])))
    first = start if is_complete else 0
    assert summary(profile, "section", "name", "calls", "total_ns", "line") == [
        ("gpu", "[CUDA memcpy HtoD]", 6, 172_790, first + 6),
        ("gpu", "kern(int, float)", 1, 19_780, first + 7),
    ]
    assert profile["sessions"].select("pid", "command").rows() == [(5, "./a")]


def test_a_notebook_in_one_line_is_read_unless_it_comes_late_in_a_text() -> None:
    joined = json.dumps({"cells": [{"outputs": [{"text": "\n".join(SUMMARY)}]}]})
    profile = read(joined.encode())
    assert summary(profile, "section", "calls", "line") == [("gpu", 5, 5), ("gpu", 1, 6), ("api", 3, 7)]
    assert (profile["sessions"]["command"].to_list(), issues(profile)) == (["./a"], [])

    profile = read(lines(*["loss 0.5 of many, step by step"] * 3000, joined))
    assert (profile["summary"].height, issues(profile)) == (0, [(3001, "warning")])
    assert profile["sessions"]["command"].to_list() == ["./a"]


TRACE = (
    "   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput"
    "           Device   Context    Stream  Name"
)


def trace_row(
    start: str, name: str, *, duration: str = "2.1000us", device: str = "   TITAN Xp (0)", launch: bool = True
) -> str:
    """Return a row of `TRACE`; ``launch``: a kernel, otherwise a row without a launch configuration or a device."""
    cells = ("-",) * 10
    if launch:
        cells = ("(2 3 1)", "(32 4 1)", "12", "0B", "256B", "-", "-", device.strip(), "1", "7")
    widths = (19, 14, 8, 8, 8, 8, 10, 15, 8, 8)
    return "  ".join(
        [
            f"{start:>8}",
            f"{duration:>8}",
            *(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)),
            name,
        ]
    )


@pytest.mark.parametrize("copies", [1, 400])
def test_nvtx_marks_in_a_gpu_trace_are_ranges(copies: int) -> None:
    rows = []
    for step in range(copies):
        start = 100 + step
        rows += [
            trace_row(f"{start}.10ms", "[Range start] step (1) (Domain: <unnamed>)", duration="-", launch=False),
            trace_row(f"{start}.20ms", "[Range start] conv (Domain: NCCL)", duration="-", launch=False),
            trace_row(f"{start}.30ms", "k(int*) [7]"),
            trace_row(f"{start}.40ms", "cudaFree", launch=False, duration="1.0000us"),
            trace_row(f"{start}.50ms", "[Marker] here (Domain: <unnamed>)", duration="-", launch=False),
            trace_row(f"{start}.60ms", "[Range end] conv (Domain: NCCL)", duration="-", launch=False),
            trace_row(f"{start}.90ms", "[Range end] step (1) (Domain: <unnamed>)", duration="-", launch=False),
        ]
    profile = read(lines(*RUN, TRACE, *rows))
    assert profile["activities"].select("kind", "name", "duration_ns").unique().rows() == [("kernel", "k(int*)", 2100)]
    assert (profile["activities"].height, profile["api_calls"].height) == (copies, copies)
    assert profile["ranges"].select("name", "domain", "start_ns", "duration_ns", "depth").rows()[:3] == [
        ("step (1)", None, 100_100_000, 800_000, 0),
        ("conv", "NCCL", 100_200_000, 400_000, 1),
        ("here", None, 100_500_000, None, 2),
    ]
    assert (profile["ranges"].height, issues(profile)) == (3 * copies, [])


@pytest.mark.parametrize("copies", [1, 400])
def test_nvtx_marks_in_an_api_trace(copies: int) -> None:
    rows = []
    for step in range(copies):
        rows += [
            f"{100 + step}.10ms         -  [Range start] step (Domain: <unnamed>)",
            f"{100 + step}.20ms  4.1870us  cudaLaunchKernel (kern(int*) [129])",
            f"{100 + step}.90ms         -  [Range end] step (Domain: <unnamed>)",
        ]
    profile = read(lines(*RUN, "   Start  Duration  Name", *rows, "900.00ms         -  [Range start] open"))
    assert profile["api_calls"].select("name", "correlation").unique().rows() == [("cudaLaunchKernel", 129)]
    assert profile["ranges"].select("name", "duration_ns").unique(maintain_order=True).rows() == [
        ("step", 800_000),
        ("open", None),
    ]
    assert profile["issues"]["reason"].to_list() == [
        "1 NVTX range in this trace without a start or an end: duration unknown"
    ]


@pytest.mark.parametrize("copies", [1, 400])
def test_nvtx_marks_in_csv(copies: int) -> None:
    header = '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread",' + (
        '"Static SMem","Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream",'
        '"Name","Correlation_ID"'
    )
    rows = []
    for step in range(copies):
        rows += [
            f'{step}.100000,,,,,,,,,,,,,,,,,,"[Range start] step, seq = 3 (Domain: <unnamed>)",',
            f'{step}.200000,0.500000,2,1,1,32,1,1,16,0,0,,,,,"TITAN Xp (0)","1","7","k(int, int)",7',
            f'{step}.300000,0.250000,,,,,,,,,,,,,,,,,"cudaLaunchKernel",7',
            f'{step}.900000,,,,,,,,,,,,,,,,,,"[Range end] step, seq = 3 (Domain: <unnamed>)",',
        ]
    profile = read(lines(*RUN, header, "s,ms,,,,,,,,B,B,,,,,,,,,", *rows))
    assert profile["activities"].select("name", "duration_ns").unique().rows() == [("k(int, int)", 500_000)]
    assert profile["api_calls"].select("name", "duration_ns").unique().rows() == [("cudaLaunchKernel", 250_000)]
    assert profile["ranges"].select("name", "duration_ns").unique().rows() == [("step, seq = 3", 800_000_000)]
    assert (profile["ranges"].height, issues(profile)) == (copies, [])


@pytest.mark.parametrize("duration", ["-3.200us", "n/a"])
def test_a_row_with_an_invalid_duration_is_kept_and_reported(duration: str) -> None:
    rows = [trace_row("100.10ms", "k(int*) [7]", duration=duration), trace_row("100.20ms", "k(int*) [8]")]
    profile = read(lines(*RUN, TRACE, *rows))
    assert profile["activities"].select("line", "duration_ns", "correlation").rows() == [(5, None, 7), (6, 2100, 8)]
    assert issues(profile) == [(5, "warning")]


def test_a_copy_between_gpus_proves_that_there_are_two() -> None:
    """The device's number is cut off, and the GPUs are of one model: none can be assumed to be number 0."""
    row = trace_row("100.10ms", "k(int*) [7]", device="Tesla P100-SXM2")
    assert read(lines(*RUN, TRACE, row))["activities"]["device"].to_list() == [0]
    copy = row.replace("100.10ms", "100.20ms").replace("k(int*) [7]", "[CUDA memcpy PtoP]")
    assert read(lines(*RUN, TRACE, row, copy))["activities"]["device"].to_list() == [None, None]


@pytest.mark.parametrize(
    "rest",
    ["  601.45u", "  601.45us         5  120.2", "", "  601.45us", "  601.45us         5  120.29us  100.00us  1"],
)
def test_a_truncated_last_row_is_reported(rest: str) -> None:
    profile = read(lines(*SUMMARY, f"                    0.00%{rest}").removesuffix(b"\n"))
    assert profile["summary"].height == 3
    assert issues(profile) == [(8, "warning")]


def test_spaces_within_numbers_and_names_are_removed() -> None:
    """As in a table copied cell by cell: a tab after the first character of each."""
    spaced = "0.00% 3\t.5050us\t2 1\t.7520us 1\t.4650us 2\t.0400us c\tudaFreeHost"
    profile = read(lines(*RUN, *SUMMARY[3:], spaced))
    assert summary(profile)[-1] == ("api", "cudaFreeHost", 2, 3505, 1752, 1465, 2040, 0.0, 8)
    assert issues(profile) == [(8, "info")]


def test_a_row_quoted_in_prose_counts_once() -> None:
    kernel = SUMMARY[4].removeprefix(" GPU activities:")
    profile = read(
        lines(*SUMMARY, "", "Look at this row again:", kernel, "and at this one:", SUMMARY[6], "It is slow.")
    )
    assert summary(profile, "section", "calls", "line") == [("gpu", 5, 5), ("gpu", 1, 6), ("api", 3, 7)]
    assert issues(profile) == [(10, "info"), (12, "info")]
    second_kernel = kernel.replace("kern", "more")
    assert summary(read(lines(*SUMMARY, "And this one:", second_kernel)), "section", "line")[-1] == ("gpu", 9)


@pytest.mark.parametrize("note", ["<-- slow!", "// see above", "# 90 %", "/* why? */"])
def test_text_after_a_row_is_not_read_as_its_name(note: str) -> None:
    profile = read(lines(*RUN, NEW, SUMMARY[4] + "   " + note, f"{SUMMARY[5]}  {note}", SUMMARY[6]))
    assert summary(profile, "name", "calls") == [("kern(int)", 5), ("[CUDA memset]", 1), ("cudaMalloc", 3)]
    assert issues(profile) == [(5, "info"), (6, "info")]


def test_unified_memory_with_a_bandwidth() -> None:
    table = [
        ' Device "X (0)"',
        "    Count  Avg Size  Min Size  Max Size  Total Size  Total Time    Bandwidth  Name",
        "",
        "       46  178.09KB  4.0000KB  0.9961MB  8.000000MB  2.123456ms    3.92GB/s  Host To Device",
    ]
    profile = read(lines("==5== Unified Memory profiling result:", *table))
    assert summary(profile, "name", "calls", "total_ns") == [("Host To Device", 46, 2_123_456)]


def test_two_rows_of_a_summary_on_one_line_are_both_read() -> None:
    """A line end is missing where two processes wrote at once, or after pasting."""
    joined = SUMMARY[4] + SUMMARY[5]
    profile = read(lines(*RUN, NEW, joined, SUMMARY[6]))
    assert summary(profile, "section", "name", "calls", "line") == [
        ("gpu", "kern(int)", 5, 5),
        ("gpu", "[CUDA memset]", 1, 5),
        ("api", "cudaMalloc", 3, 6),
    ]
    assert issues(profile) == [(5, "info")]


def test_two_rows_of_csv_on_one_line_are_both_read() -> None:
    profile = read(lines(*CSV[:5], CSV[5] + CSV[6]))
    assert summary(profile, "name", "calls", "total_ns") == [
        ("[CUDA memcpy HtoD]", 6, 172_790),
        ("kern(int, float)", 1, 19_780),
    ]


@pytest.mark.parametrize("rows", [3, 600])
def test_two_rows_of_a_trace_on_one_line_are_both_read(rows: int) -> None:
    trace = [trace_row(f"{100 + index}.10ms", f"k(int*) [{index}]") for index in range(rows)]
    calls = [f"{100 + index}.10ms  1.0000us  cudaLaunchKernel (k(int*) [{index}])" for index in range(rows)]
    for header, rows_of_frame, frame in (
        (TRACE, trace, "activities"),
        ("   Start  Duration  Name", calls, "api_calls"),
    ):
        profile = read(lines(*RUN, header, rows_of_frame[0] + rows_of_frame[1], *rows_of_frame[2:]))
        assert profile[frame]["correlation"].to_list() == list(range(rows))
        assert profile[frame]["line"].to_list()[:3] == [5, 5, 6]
        assert profile[frame]["name"].n_unique() == 1
        assert issues(profile) == [(5, "warning")]


def test_damaged_rows_of_every_table_are_reported() -> None:
    memory = [
        "==5== Unified Memory profiling result:",
        'Device "TITAN Xp (0)"',
        "   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name",
        "      3x  28.902KB  4.0000KB  64.000KB  896.0000KB  118.4320us  Host To Device",
        "      12  28.902KB  4.0000KB  64.000KB  896.0000KB  118.4320us  Device To Host",
    ]
    dependency = [
        "==5== Dependency Analysis:",
        "Critical path(%)  Critical path  Waiting time  Name",
        "          1?.00%     10.000000ms           0ns  f(int)",
        "          20.00%     20.000000ms           0ns  g(int)",
    ]
    summary_row = "  0.0x%  110.00us         1  110.00us  110.00us  110.00us  cudaFree"
    profile = read(lines(*SUMMARY, summary_row, "", *memory, *dependency))
    assert summary(profile, "section", "line")[3:] == [("um", 14), ("dependency", 18)]
    assert issues(profile) == [(8, "warning"), (13, "warning"), (17, "warning")]
    trace = read(lines(*RUN, TRACE, trace_row("100.x0ms", "k [1]"), trace_row("101.10ms", "k [2]")))
    assert (trace["activities"].height, issues(trace)) == (1, [(5, "warning")])
    csv = read(lines(*CSV[:4], "%,u$,,us,us,us,", *CSV[5:]))
    assert (csv["summary"].height, len(issues(csv)) > 0) == (0, True)


def test_csv_continues_after_program_output() -> None:
    profile = read(lines(*CSV[:6], "N,100000000", "step 3", CSV[6]))
    assert summary(profile, "name", "total_ns", "line")[1:] == [("kern(int, float)", 19_780, 9)]
    headless = read(lines(*RUN, *CSV[5:]))
    assert (headless["summary"].height, issues(headless)) == (0, [(4, "warning")])


METRICS = [*RUN, "==5== Metric result:"]
METRIC_HEADER = '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"'


def test_metrics_continue_after_program_output() -> None:
    row = '"TITAN Xp (0)","k(int, int)",3,"{}","Something",1,2,1.5'
    output = ["loss 0.5", "N,100", "", "done", "really", "yes"]
    profile = read(lines(*METRICS, METRIC_HEADER, row.format("a_b"), *output, row.format("c_d")))
    assert profile["metrics"].select("metric", "line").rows() == [("a_b", 6), ("c_d", 13)]
    text = [
        "Invocations      Metric Name        Metric Description         Min         Max         Avg",
        'Device "TITAN Xp (0)"',
        "    Kernel: k(int, int)",
        "          3              a_b                 Something           1           2         1.5",
        *output,
        "          3              c_d                 Something         n/a         n/a         n/a",
    ]
    profile = read(lines(*METRICS, *text))
    assert profile["metrics"].select("kernel", "metric", "avg").rows() == [
        ("k(int, int)", "a_b", 1.5),
        ("k(int, int)", "c_d", None),
    ]
    launches = ['"Device","Context","Stream","Kernel","e_1"', '"TITAN Xp (0)","1","7","k [1]",12']
    profile = read(lines(*METRICS, *launches, *output, launches[1].replace("12", "13")))
    assert profile["metrics"].select("metric", "avg").rows() == [("e_1", 12.0), ("e_1", 13.0)]


def test_a_table_of_metrics_without_its_header_is_reported() -> None:
    profile = read(lines(*METRICS, 'Device "TITAN Xp (0)"', "    Kernel: k(int)", "    3  a_b  Some thing  1  2  1.5"))
    assert (profile["metrics"].height, issues(profile)) == (0, [(5, "warning")])


def test_rows_of_a_trace_without_its_header_or_units_are_reported() -> None:
    text = trace_row("100.1000", "k(int*) [7]", duration="2.10000")
    csv = '2.005179,5.251200e-05,,,,,,,,,,512.000000,9.298470,"Tesla K40c (0)","1","7","[CUDA memcpy HtoD]"'
    assert issues(read(lines(*RUN, text, csv))) == [(4, "warning"), (5, "warning")]


def test_calls_of_a_trace_without_its_header_are_reported() -> None:
    calls = ["     0ns  4.1870us  cuDeviceGetPCIBusId", '// 0.000000,2.866000,"cuDeviceGetPCIBusId",1']
    assert issues(read(lines(*RUN, *calls))) == [(4, "warning"), (5, "warning")]


def test_trace_rows_without_a_header_are_reported() -> None:
    csv = ('2.005179,5.251200,,,,,,,,,,512.000000,9.298470,"Tesla K40c (0)","1","7","[CUDA memcpy HtoD]"',) * 2
    profile = read(lines("ms,ms,,,,,,,,,,KB,GB/s,,,,", *csv, *RUN, TRACE, trace_row("100.10ms", "k(int*) [7]")))
    assert profile["issues"].select("line", "reason").rows() == [
        (2, "2 trace rows from here without a header above: skipped")
    ]


CSV_TRACE = (
    "Start,Duration,Grid X,Grid Y,Grid Z,Block X,Block Y,Block Z,Registers Per Thread,Static SMem,Dynamic SMem,"
    "Size,Throughput,Device,Context,Stream,Name"
)
CSV_UNITS = "ms,us,,,,,,,,KB,B,{0},GB/s,,,,"
CSV_COPY = '{0}.000000,2.500000,,,,,,,,,,512.000000,9.250000,"Tesla K40c (0)","1","7","[CUDA memcpy HtoD]"'


@pytest.mark.parametrize(("unit", "size"), [("KB", 524_288), ("MB", 536_870_912)])
def test_rows_below_a_row_of_units_without_its_header_are_of_another_run(unit: str, size: int) -> None:
    tables = (CSV_UNITS.format("KB"), CSV_COPY.format(1), CSV_UNITS.format(unit), CSV_COPY.format(2))
    profile = read(lines(*RUN, CSV_TRACE, *tables))
    assert profile["activities"].select("session", "size_bytes", "line").rows() == [(0, 524_288, 6), (1, size, 8)]
    reported = profile["issues"].filter(pl.col("line") == 7)["reason"].to_list()
    assert reported == [
        "the header above this row of units is missing: the rows below are read as another run, with the columns "
        "of the trace above"
    ]


def test_rows_are_not_read_by_the_columns_of_another_table() -> None:
    other_header = CSV_UNITS.format("").replace("GB/s", "MB")
    tables = (CSV_UNITS.format("KB"), CSV_COPY.format(1), other_header, CSV_COPY.format(2))
    profile = read(lines(*RUN, CSV_TRACE, *tables))
    assert profile["activities"].select("size_bytes", "line").rows() == [(524_288, 6)]
    assert [line for line, _ in issues(profile)] == [8]


def test_rows_of_another_text_trace_below_its_units_are_of_another_run() -> None:
    units = f"{'ms':>8}{'us':>10}{'B':>57}{'B':>10}"
    row = trace_row("100.1000", "k(int*) [7]", duration="2.10000").replace("  0B", "   0").replace("256B", " 256")
    profile = read(lines(*RUN, TRACE, units, row, units.replace("us", "ms"), row))
    columns = ("session", "duration_ns", "line")
    assert profile["activities"].select(columns).rows() == [(0, 2_100, 6), (1, 2_100_000, 8)]


@pytest.mark.parametrize("text", [False, True])
def test_a_trace_may_have_blank_lines_between_rows(*, text: bool) -> None:
    units = f"{'ms':>8}{'us':>10}{'B':>57}{'B':>10}"
    row = trace_row("100.1000", "k(int*) [7]", duration="2.10000").replace("  0B", "   0").replace("256B", " 256")
    table = (TRACE, units, row, row) if text else (CSV_TRACE, CSV_UNITS.format("KB"), CSV_COPY.format(1))
    spaced = [part for line in (*RUN, *table) for part in (line, "")]
    columns = ("start_ns", "duration_ns", "size_bytes", "name")
    plain = read(lines(*RUN, *table))["activities"].select(columns)
    assert read(lines(*spaced))["activities"].select(columns).equals(plain)


@pytest.mark.parametrize("count", [3, 600])
def test_rows_with_decreasing_start_times_are_reported(count: int) -> None:
    copies = [CSV_COPY.format(start) for start in range(10, 10 + count)]
    profile = read(lines(*RUN, CSV_TRACE, CSV_UNITS.format("KB"), *copies, *copies))
    assert profile["activities"].height == 2 * count
    back = profile["issues"].filter(pl.col("reason").str.starts_with("the row starts before the row above,"))
    assert back["line"].to_list() == [6 + count]
    assert issues(read(lines(*RUN, CSV_TRACE, CSV_UNITS.format("KB"), *copies))) == []


@pytest.mark.parametrize("rows", [2, 600])
def test_an_unknown_column_is_ignored(rows: int) -> None:
    header = TRACE.replace("    Stream", "    Stream  Parent Id")
    text = [trace_row(f"{100 + index}.10ms", f"k(int*) [{index}]") for index in range(rows)]
    text[1] = trace_row("101.10ms", "[CUDA memset]")
    text = [row.replace("         7  ", f"         7  {index:>9}  ") for index, row in enumerate(text)]
    profile = read(lines(*RUN, header, *text))
    assert profile["activities"]["name"].value_counts().sort("name").rows() == [
        ("[CUDA memset]", 1),
        ("k(int*)", rows - 1),
    ]
    assert profile["activities"]["stream"].unique().to_list() == [7]
    assert issues(profile) == []


def test_a_row_is_not_read_by_the_columns_of_another_table() -> None:
    row = trace_row("100.10ms", "k(int*) [7]").replace("         7  ", "         7          -  ")
    profile = read(lines(*RUN, row))
    assert (profile["activities"].height, issues(profile)) == (0, [(4, "warning")])


@pytest.mark.parametrize("rows", [1, 600])
def test_an_unknown_csv_column_is_ignored(rows: int) -> None:
    header = '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread",' + (
        '"Static SMem","Dynamic SMem","Size","Throughput","Device","Context","Stream","Parent Id","Name"'
    )
    text = [
        f'{index}.5,1.25,2,1,1,32,1,1,12,0,0,,,"TITAN Xp (0)","1","7",{index},"k(int, int) [{index}]"'
        for index in range(rows)
    ]
    profile = read(lines(*RUN, header, "s,ms,,,,,,,,B,B,,,,,,,", *text))
    assert profile["activities"].select("name", "stream", "duration_ns").unique().rows() == [
        ("k(int, int)", 7, 1_250_000)
    ]
    assert (profile["activities"]["correlation"].to_list(), issues(profile)) == ([*range(rows)], [])


def test_a_copy_with_a_truncated_name_is_not_an_api_call() -> None:
    header = '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread",' + (
        '"Static SMem","Dynamic SMem","Size","Throughput","Device","Context","Stream","Name"'
    )
    row = '2.5,1.0,,,,,,,,,,512.000000,9.298470,"Tesla K40c (0)","1","7","'
    profile = read(lines(*RUN, header, "s,ms,,,,,,,,B,B,KB,GB/s,,,,", row + '[CUDA memcpy HtoD]"', row))
    assert (profile["activities"].height, profile["api_calls"].height, issues(profile)) == (1, 0, [(7, "warning")])


TAGS = [
    *("2020-05-01T10:11:12.1234567Z ", "[1,{}]<stderr>:", "{}: ", "[2020-05-01T10:11:{:02}.123Z] ", "gpu{} | ", "+"),
    *("[rank{}]: ", "node0{}: ", "INFO:root:", "> > ", "May 01 10:11:1{} node run[77]: ", " {}\t", "[stderr] ", "- "),
]
"""What job runners, containers, diffs and editors write in front of a line."""


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("lines_before", [0, 5_000])
def test_prefixes_of_all_lines_are_removed(tag: str, lines_before: int) -> None:
    output = [tag.format(7) + "compiling something.cu"] * lines_before
    is_rank = tag in ("[1,{}]<stderr>:", "{}: ")  # the lines of one process have one rank
    number = 0 if is_rank else 1
    text = [*output, *(tag.format(index % 2 * number) + line for index, line in enumerate([*SUMMARY, "", "done"]))]
    profile = read(lines(*text))
    assert summary(profile, "section", "calls", "line") == [
        *(("gpu", 5, lines_before + 5), ("gpu", 1, lines_before + 6), ("api", 3, lines_before + 7)),
    ]
    assert profile["sessions"].select("pid", "command").rows() == [(5, "./a")]
    assert issues(profile) == []


@pytest.mark.parametrize("tag", ["[1,{}]<stderr>:", "{}: ", "[rank{}]: ", "trainer-{}  | ", "(Worker pid=4{}) "])
@pytest.mark.parametrize("lines_before", [0, 5_000])
def test_interleaved_summaries_of_ranks_are_separated(tag: str, lines_before: int) -> None:
    ranks = [[line.replace("=5=", f"={5 + rank}=") for line in SUMMARY] for rank in range(3)]
    output = [tag.format(7) + "compiling something.cu"] * lines_before
    text = [*output, *(tag.format(rank) + line for row in zip(*ranks, strict=True) for rank, line in enumerate(row))]
    profile = read(lines(*text))
    first = lines_before + 1
    assert sorted(summary(profile, "session", "line", "section", "calls")) == [
        (rank, first + 3 * number + rank, section, calls)
        for rank in range(3)
        for number, section, calls in ((4, "gpu", 5), (5, "gpu", 1), (6, "api", 3))
    ]
    assert profile["sessions"]["pid"].to_list() == [5, 6, 7]
    named = "rank" in tag or tag.startswith("[1,")
    assert profile["sessions"]["rank"].to_list() == ([0, 1, 2] if named else [None] * 3)
    assert issues(profile) == []


@pytest.mark.parametrize(
    ("before", "after"), [("<pre>", "<br>"), ('<span class="go">', "</span>"), ("<pre><code>", "</code></pre>")]
)
def test_html_tags_around_lines_are_removed(before: str, after: str) -> None:
    rows = [line.replace("kern(int)", "kern&lt;int&gt;(T &amp;)") for line in SUMMARY]
    profile = read(lines(*(before + row + after for row in rows)))
    assert summary(profile, "section", "name", "calls", "line") == [
        *(("gpu", "kern<int>(T &)", 5, 5), ("gpu", "[CUDA memset]", 1, 6), ("api", "cudaMalloc", 3, 7)),
    ]
    assert (profile["sessions"]["command"].to_list(), issues(profile)) == (["./a"], [])


def test_no_break_spaces() -> None:
    profile = read(lines(*(line.replace(" ", "\N{NO-BREAK SPACE}") for line in SUMMARY)))
    assert summary(profile, "section", "name", "calls", "line")[1] == ("gpu", "[CUDA memset]", 1, 6)
    assert profile["sessions"].select("pid", "command").rows() == [(5, "./a")]
    rows = [trace_row(f"{100 + index}.10ms", f"k(int*) [{index}]") for index in range(600)]
    for text in ([*RUN, TRACE, *rows], ["\x1b[1mhello", *RUN, TRACE, *rows]):
        profile = read(lines(*(line.replace(" ", "\N{NO-BREAK SPACE}") for line in text)))
        assert profile["activities"].select(pl.len(), pl.col("duration_ns").sum()).row(0) == (600, 600 * 2_100)
        assert issues(profile) == []


def test_labels_of_a_table_made_by_hand_have_no_colon() -> None:
    header = "| Type | Time(%) | Time | Calls | Avg | Min | Max | Name |"
    cells = ["GPU activities | 100.00% | 125.70us | 5 | 25.139us | 25.088us | 25.281us | kern(int)"]
    cells += ["API calls | 100.00% | 30.000us | 3 | 10.000us | 5.0000us | 15.000us | cudaMalloc"]
    profile = read(lines(*RUN, header, "|---|---|---|---|---|---|---|---|", *(f"| {row} |" for row in cells)))
    assert summary(profile, "section", "name", "calls") == [("gpu", "kern(int)", 5), ("api", "cudaMalloc", 3)]
    assert issues(profile) == []


def test_program_output_before_a_title_is_not_a_line_prefix() -> None:
    text = ["loss 0.5" + RUN[0], "loss 0.4" + RUN[1], "loss 0.3" + RUN[2], *SUMMARY[3:], "loss 0.25 of 12"]
    profile = read(lines(*text))
    assert summary(profile, "section", "calls", "line") == [("gpu", 5, 5), ("gpu", 1, 6), ("api", 3, 7)]
    assert profile["sessions"]["pid"].to_list() == [5]


def test_tables_without_their_units_are_reported() -> None:
    row = "  99.22  1.32e+03         1  1.32e+03  1.32e+03  1.32e+03  matMul(float*, int)"
    profile = read(lines(*RUN, OLD + " % ms ms ms ms", row))
    assert (profile["summary"].height, issues(profile)) == (0, [(5, "warning")])


def test_progress_lines_of_a_program_are_not_damaged_rows() -> None:
    progress = [f" {percent}.50% 3.2s  12 img/s" for percent in range(10, 60)]
    assert issues(read(lines(RUN[0], *progress, *RUN[1:], *SUMMARY[3:], "", *progress))) == []


def test_two_rows_on_one_line_of_a_trace_with_a_row_of_units() -> None:
    units = f"{'ms':>8}{'us':>10}{'B':>57}{'B':>10}"
    first, second = (
        trace_row(start, f"k(int*) [{index}]", duration="2.10000")
        for index, start in ((7, "100.1000"), (8, "101.1000"))
    )
    without_units = [row.replace("  0B", "   0").replace("256B", " 256") for row in (first, second)]
    profile = read(lines(*RUN, TRACE, units, without_units[0] + without_units[1]))
    assert profile["activities"].select("start_ns", "duration_ns", "correlation", "dynamic_shared_bytes").rows() == [
        (100_100_000, 2100, 7, 256),
        (101_100_000, 2100, 8, 256),
    ]


def test_two_numbers_begin_a_row_below_units_only_with_all_cells() -> None:
    units = f"{'ms':>8}{'us':>10}{'B':>57}{'B':>10}"
    row = "   100.1000  2.10000  (2 3 1)  (32 4 1)  12  0  256  -  -  TITAN Xp (0)  1  7  k(int*)"
    profile = read(lines(*RUN, TRACE, units, "3  17  images left", row))
    columns = ("start_ns", "duration_ns", "grid_y", "stream", "name", "line")
    assert profile["activities"].select(columns).rows() == [(100_100_000, 2_100, 3, 7, "k(int*)", 7)]
    assert issues(profile) == []
