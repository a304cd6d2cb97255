"""Reports printed as text, several in a text with other text around."""

from __future__ import annotations

import time

import pytest

from tests.loaders.reading import read, reasons, rows
from tui.model.errors import ProftuiError

HEADING = "Processing [{}] with [/opt/nvidia/nsight-systems/2023.4.4/target-linux-x64/reports/{}.py]... \n"


def as_text(title: str, columns: dict[str, list[str]]) -> str:
    """Return a table as nsys prints it: numbers aligned right, column edges given by dashes."""
    widths = [max(map(len, (name, *cells))) for name, cells in columns.items()]
    lines = ["  ".join(name.center(width) for name, width in zip(columns, widths, strict=True))]
    lines.append("  ".join("-" * width for width in widths))
    for cells in zip(*columns.values(), strict=True):
        *numbers, name = zip(cells, widths, strict=True)
        lines.append("  ".join([*(cell.rjust(width) for cell, width in numbers), name[0].ljust(name[1])]))
    return f"\n ** {title}:\n\n" + "".join(f" {line} \n" for line in lines) + "\n"


KERNELS = as_text(
    "CUDA GPU Kernel Summary (cuda_gpu_kern_sum)",
    {
        "Time (%)": ["75.0", "25.0"],
        "Total Time (ns)": ["3,000,000", "1,000,000"],
        "Instances": ["3", "1"],
        "Avg (ns)": ["1,000,000.0", "1,000,000.0"],
        "Min (ns)": ["900,000", "1,000,000"],
        "Max (ns)": ["1,150,000", "1,000,000"],
        "GridXYZ": ["  22    1    1", "2147483647    1    1"],
        "BlockXYZ": ["   8    8    1", "1024    1    1"],
        "Name": ["void f<int, 4>(int*)", "void at::native::vector…"],
    },
)
OLD = """\
Using run.sqlite export for stats reports.
Exporting [/usr/lib/reports/gpukernsum.py run.sqlite] to console...

 Time(%)  Total Time (ns)  Instances   Average   Minimum   Maximum                  Name
 -------  ---------------  ---------  ---------  -------  ---------  -----------------------------------
    99.4       2527853625       2404  1051519.8   480420  252098765  __omp_offloading_31_18a80bc__Z_2...
     0.6         15425255         15  1028350.3   240195    2994355  __omp_offloading_31_18a80bc__Z_1...

Exporting [/usr/lib/reports/nvtxppsum.py run.sqlite] to console... SKIPPED: run.sqlite does not contain NV Tools data
"""
BOXED = """\
+----------+-----------------+-----------+----------+----------+----------+-----------------------+
| Time (%) | Total Time (ns) | Num Calls | Avg (ns) | Min (ns) | Max (ns) | Name                  |
+----------+-----------------+-----------+----------+----------+----------+-----------------------+
|     90.0 |           9,000 |         3 |  3,000.0 |    1,000 |    6,000 | cudaMalloc            |
+----------+-----------------+-----------+----------+----------+----------+-----------------------+
"""


def test_columns_are_cut_at_the_dashes() -> None:
    profile = read("epoch 1 done\n" + HEADING.format("run.sqlite", "cuda_gpu_kern_sum") + KERNELS + "epoch 2 done\n")
    assert rows(profile, "summary", "name", "calls", "total_ns", "avg_ns", "max_ns", "line") == [
        ("void f<int, 4>(int*)", 3, 3_000_000, 1_000_000, 1_150_000, 8),
        ("void at::native::vector…", 1, 1_000_000, 1_000_000, 1_000_000, 9),
    ]
    assert reasons(profile) == ["nsys truncated 1 name; print full names with --format csv"]
    assert profile.texts


@pytest.mark.parametrize("remark", ["# reads A once, B n times", "// (2.6 ms)", "<-- the slow one"])
def test_remarks_behind_rows_are_not_names(remark: str) -> None:
    lines = [f"{line.rstrip()}  {remark}" if "f<" in line else line for line in KERNELS.splitlines()]
    assert read("\n".join(lines))["summary"].equals(read(KERNELS)["summary"])


@pytest.mark.parametrize("sign", ["// ", "# ", " * ", "> ", "    // ", "#"])
def test_tables_in_comments_and_quotes_are_read(sign: str) -> None:
    for text in (OLDEST, KERNELS, OLD):
        commented = "".join(f"{sign}{line}".rstrip() + "\n" for line in text.splitlines())
        assert (
            read(f"int main() {{}}\n{commented}\n")["summary"].drop("line").equals(read(text)["summary"].drop("line"))
        )


def test_a_header_behind_an_unknown_sign_is_no_header() -> None:
    with pytest.raises(ProftuiError):
        read("".join(f";; {line}\n" for line in OLDEST.splitlines()))


def test_tables_shortened_by_hand_have_what_they_show() -> None:
    api = {"Num Calls": ["3"], "Name": ["cudaMalloc"]}
    copies = {"Count": ["2"], "Avg (ns)": ["300.0"], "Operation": ["[CUDA memcpy Host-to-Device]"]}
    text = "".join(
        as_text(title, {"Time (%)": ["100.0"], "Total Time (ns)": ["600"], **columns})
        for title, columns in (
            ("CUDA API Summary (cuda_api_sum)", api),
            ("CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum)", copies),
        )
    )
    profile = read(text)
    assert sorted(rows(profile, "summary", "section", "name", "calls", "total_ns", "avg_ns", "max_ns")) == [
        ("api", "cudaMalloc", 3, 600, None, None),
        ("gpu", "[CUDA memcpy Host-to-Device]", 2, 600, 300, None),
    ]
    assert reasons(profile) == []


def test_a_row_with_shifted_cells_is_reported() -> None:
    rough = KERNELS.replace("  3,000,000", "3,000,0 00")
    profile = read(rough)
    assert rows(profile, "summary", "line") == [(7,)]
    assert reasons(profile, "warning") == ["expected 9 columns, but the cells are not aligned with them: row skipped"]


def test_the_text_of_2020_with_a_skipped_report() -> None:
    profile = read(OLD)
    assert rows(profile, "summary", "name", "calls", "total_ns", "line") == [
        ("__omp_offloading_31_18a80bc__Z_2...", 2404, 2527853625, 6),
        ("__omp_offloading_31_18a80bc__Z_1...", 15, 15425255, 7),
    ]
    assert reasons(profile) == [
        "nsys skipped the report nvtxppsum: the recording does not contain NV Tools data",
        "nsys truncated 2 names; print full names with --format csv",
    ]


def test_tables_with_box_characters_and_tabs() -> None:
    assert rows(read(BOXED), "summary", "name", "calls", "total_ns", "line") == [("cudaMalloc", 3, 9000, 4)]
    tabs = BOXED.splitlines()[1].strip("| ").replace(" | ", "\t") + "\n90.0\t9000\t3\t3000.0\t1000\t6000\tcudaFree\n"
    assert rows(read(tabs), "summary", "name", "calls", "total_ns", "line") == [("cudaFree", 3, 9000, 2)]


def test_each_file_is_a_session_and_its_reports_belong_to_it() -> None:
    text = "".join(
        HEADING.format(database, report) + table.format(calls)
        for database, report, calls, table in (
            ("a.sqlite", "cuda_api_sum", 1, _API),
            ("b.sqlite", "cuda_api_sum", 2, _API),
            ("a.sqlite", "cuda_gpu_mem_time_sum", 3, _MEMORY),
        )
    )
    profile = read(text)
    assert rows(profile, "summary", "session", "section", "calls", "line") == [
        (0, "gpu", 3, 9),
        (0, "api", 1, 3),
        (1, "api", 2, 6),
    ]
    assert rows(profile, "sessions", "session", "tool_version") == [(0, "2023.4.4"), (1, "2023.4.4")]


_API = "Time (%),Total Time (ns),Num Calls,Avg (ns),Min (ns),Max (ns),Name\n90.0,9000,{},3000.0,1000,6000,cudaMalloc\n"
_MEMORY = "Time (%),Total Time (ns),Count,Avg (ns),Min (ns),Max (ns),Operation\n90.0,9000,{},3000,10,60,[CUDA memset]\n"


def test_without_a_file_name_the_same_report_again_is_another_run() -> None:
    profile = read(_API.format(1) + "\n" + _MEMORY.format(5) + "\n" + _API.format(2))
    assert rows(profile, "summary", "session", "section", "calls") == [(0, "gpu", 5), (0, "api", 1), (1, "api", 2)]


def test_a_report_without_a_view_is_reported() -> None:
    unknown = (
        HEADING.format("x.sqlite", "um_sum") + "\n Virtual Address  HtoD Migration Size (MB)\n -----  -----\n 1  2\n"
    )
    profile = read(_API.format(1) + "\n" + unknown + "\n")
    assert reasons(profile) == ["the report um_sum is not supported: see the log"]


def test_names_of_the_program_are_not_interpreted() -> None:
    text = _API.format(1) + '1.0,10,1,10.0,10,10,"[red]x[/red] ""quoted"" \x1b[31m=cmd()"\n'
    assert rows(read(text), "summary", "name")[1] == ('[red]x[/red] "quoted" =cmd()',)


def test_nsys_tables_below_an_nvprof_log_are_read_too() -> None:
    nvprof = (
        "==5== NVPROF is profiling process 5, command: ./app\n==5== Profiling application: ./app\n"
        "==5== Profiling result:\nTime(%)      Time     Calls       Avg       Min       Max  Name\n"
        "100.00%  2.0000us         1  2.0000us  2.0000us  2.0000us  f(int*)\n\n"
    )
    profile = read(nvprof + KERNELS)
    assert rows(profile, "sessions", "format") == [("nvprof-text",), ("nsys-stats",)]
    assert sorted(rows(profile, "summary", "session", "total_ns")) == [(0, 2000), (1, 1_000_000), (1, 3_000_000)]


OLDEST = """\
Generating CUDA API Statistics...
CUDA API Statistics (nanoseconds)

Time(%)      Total Time       Calls         Average         Minimum         Maximum  Name
-------  --------------  ----------  --------------  --------------  --------------  ----------------
   85.3       323223522           4      80805880.5          128957       322811927  cudaMalloc

Generating CUDA Kernel Statistics...

Generating CUDA Memory Operation Statistics...
CUDA Kernel Statistics (nanoseconds)

Time(%)      Total Time   Instances         Average         Minimum         Maximum  Name
-------  --------------  ----------  --------------  --------------  --------------  ----------------
  100.0           22912           1         22912.0           22912           22912  f(int*)


CUDA Memory Operation Statistics (nanoseconds)

Time(%)      Total Time  Operations         Average         Minimum         Maximum  Name
-------  --------------  ----------  --------------  --------------  --------------  ------------------
   79.0         2022300           3        674100.0          663903          692095  [CUDA memcpy HtoD]


CUDA Memory Operation Statistics (KiB)

              Total      Operations              Average            Minimum              Maximum  Name
-------------------  --------------  -------------------  -----------------  -------------------  ------------------
             1024.0               3               341.33            250.000              500.000  [CUDA memcpy HtoD]

Generating Operating System Runtime API Statistics...
Operating System Runtime API Statistics (nanoseconds)

Time(%)      Total Time       Calls         Average         Minimum         Maximum  Name
-------  --------------  ----------  --------------  --------------  --------------  ----
   50.0             900           2           450.0             400             500  poll
"""


def test_the_statistics_of_the_oldest_versions() -> None:
    profile = read("Test batch size: 10000\n" + OLDEST)
    assert rows(profile, "summary", "section", "name", "calls", "total_ns", "line") == [
        ("gpu", "f(int*)", 1, 22912, 16),
        ("gpu", "[CUDA memcpy HtoD]", 3, 2022300, 23),
        ("api", "cudaMalloc", 4, 323223522, 7),
        ("os", "poll", 2, 900, 37),
    ]
    assert rows(profile, "tool_figures", "value")[0] == (1024.0 * 1024,)
    assert reasons(profile) == []


def test_numbered_reports() -> None:
    text = (
        "[5/8] Executing 'osrtsum' stats report\n\nOperating System Runtime API Statistics:\n\n"
        + _API.format(2)
        + "\n[6/8] Executing 'openaccsum' stats report\nSKIPPED: /tmp/x.sqlite does not contain OpenACC event data.\n"
        + "[7/8] Executing 'cudaapisum' stats report\n\nCUDA API Statistics:\n\n"
        + _API.format(3)
    )
    profile = read(text)
    assert rows(profile, "summary", "section", "calls", "line") == [("api", 3, 15), ("os", 2, 6)]
    assert reasons(profile) == [
        "nsys skipped the report openaccsum: the recording does not contain OpenACC event data."
    ]


@pytest.mark.parametrize(
    ("group", "mark"),
    [(".", ","), ("\u202f", ","), (" ", ","), ("\u2019", "."), ("'", ".")],
    ids=["German", "French", "Swedish", "Swiss", "Swiss typed"],
)
def test_numbers_are_written_as_the_locale_of_the_user(group: str, mark: str) -> None:
    signs = str.maketrans({",": group, ".": mark})
    lines = (line.partition("void") for line in KERNELS.splitlines(keepends=True))
    text = "".join((numbers.translate(signs) if name else numbers) + name + rest for numbers, name, rest in lines)

    assert text.count(f"3{group}000{group}000") == 1
    assert read(text)["summary"].equals(read(KERNELS)["summary"])
    assert reasons(read(text)) == reasons(read(KERNELS))


def test_reports_of_windows_have_their_names_and_version() -> None:
    script = r"C:\Program Files\NVIDIA Corporation\Nsight Systems 2021.3.2\target-windows-x64\reports\%s.py"
    table = (
        " Time(%)  Total Time (ns)  Count  Average (ns)  Minimum (ns)  Maximum (ns)  StdDev (ns)  Name\n"
        "   100.0              500      2         250.0           200           300          0.0  acc_wait\n\n"
    )
    profile = read(
        rf"Processing [run.sqlite] with [{script % 'openaccsum'}]..." + f"\n\n{table}"
        rf"Processing [run.sqlite] with [{script % 'nvtxppsum'}]... SKIPPED: run.sqlite does not contain NVTX."
    )
    assert rows(profile, "summary", "section", "name", "calls", "total_ns") == [("openacc", "acc_wait", 2, 500)]
    assert rows(profile, "sessions", "tool_version") == [("2021.3.2",)]
    assert reasons(profile) == ["nsys skipped the report nvtxppsum: the recording does not contain NVTX."]


def test_a_line_of_dashes_behind_the_header_is_no_name() -> None:
    header = "Time(%)      Total Time   Instances         Average         Minimum         Maximum  Name"
    rule = "-------  --------------  ----------  --------------  --------------  --------------  ----------"
    profile = read(
        f"{header:200}{rule}\n   45.3          175132           1        175132.0     175132     175132  f\n"
    )
    assert rows(profile, "summary", "name", "calls", "total_ns") == [("f", 1, 175_132)]


@pytest.mark.parametrize(
    "line", [f"{' ' * 4000}x", f"Time  Total Time{' ' * 4000}x", f"Time Total Time{' --' * 1300} x"]
)
def test_long_lines_that_are_no_rows_are_skipped_at_once(line: str) -> None:
    start_s = time.process_time()
    assert read(KERNELS + 50 * f"{line}\n")["summary"].equals(read(KERNELS)["summary"])
    assert time.process_time() - start_s < 2


def test_bold_numbers_and_code_in_markdown_are_plain() -> None:
    profile = read(
        "| Time (%) | Total Time (ns) | Num Calls | Name |\n| :--- | ---: | ---: | --- |\n"
        "| **90.5** | **9,050** | 3 | `cudaMalloc` |\n| 9.5% | 950 | 1 | cudaFree |\n"
    )
    assert rows(profile, "summary", "name", "calls", "total_ns", "time_pct") == [
        ("cudaMalloc", 3, 9050, 90.5),
        ("cudaFree", 1, 950, 9.5),
    ]


COPIED = (
    ("Time", "Total Time", "Instances", "Avg", "Med", "Min", "Max", "StdDev", "Name"),
    (
        "69.7%",
        "93.457 ms",
        "146",
        "640.117 \u03bcs",
        "296.692 \u03bcs",
        "812 ns",
        "1.129 ms",
        "404.363 \u03bcs",
        "sgemm_tn",
    ),
    ("30.3%", "40.628 s", "24", "1.693 s", "1.500 s", "1.250 s", "2.000 s", "0 ns", "void f<int, 4>(int*)"),
)
"""A report as copied from the window of Nsight Systems: each cell has its own unit."""
COPIED_SUMS = [
    ("sgemm_tn", 146, 93_457_000, 640_117, 296_692, 812, 1_129_000, 404_363, 69.7),
    ("void f<int, 4>(int*)", 24, 40_628_000_000, 1_693_000_000, 1_500_000_000, 1_250_000_000, 2_000_000_000, 0, 30.3),
]
SUMS = ("name", "calls", "total_ns", "avg_ns", "median_ns", "min_ns", "max_ns", "std_ns", "time_pct")


def markdown(table: tuple[tuple[str, ...], ...]) -> str:
    header, *cells = (f"| {' | '.join(row)} |\n" for row in table)
    return header + "|:---|" + "---:|" * (len(table[0]) - 1) + "\n" + "".join(cells)


def test_reports_copied_from_the_window_have_units_in_cells() -> None:
    tabs = "".join("\t".join(row) + "\n" for row in COPIED)
    commas = tabs.replace("int, 4", "int;4").translate(str.maketrans(".", ",")).replace("int;4", "int, 4")
    code = tuple((*row[:-1], row[-1] if row is COPIED[0] else f"`{row[-1]}`") for row in COPIED)
    quoted = "".join(f"> {line}\n" for line in markdown(COPIED).splitlines())
    commented = "".join(f"# {line}\n" for line in markdown(COPIED).splitlines())
    for text in (tabs, commas, markdown(COPIED), markdown(code), quoted, commented, tabs.replace("\u03bc", "\u00b5")):
        profile = read(f"forward pass\n{text}\nbackward pass\n")
        assert rows(profile, "summary", *SUMS) == COPIED_SUMS
        assert reasons(profile) == []


def test_copied_sizes_calls_and_ranges() -> None:
    profile = read(
        "Time\tTotal Time\tNum Calls\tAvg\tName\n80.0%\t2.5 ms\t2\t1.25 ms\tcudaMalloc\n\n"
        "Time\tTotal Time\tInstances\tAvg\tMed\tMin\tMax\tStdDev\tStyle\tRange\n"
        "50.0%\t200.301 s\t1\t200.301 s\t200.301 s\t200.301 s\t200.301 s\t0 ns\tPushPop\t:step\n\n"
        "Total\tCount\tAvg\tMed\tMin\tMax\tStdDev\tOperation\n"
        "1.500 MiB\t2\t768.000 KiB\t768.000 KiB\t4 B\t1.500 MiB\t0 B\t[CUDA memcpy Host-to-Device]\n"
    )
    assert rows(profile, "summary", "section", "name", "calls", "total_ns") == [
        ("api", "cudaMalloc", 2, 2_500_000),
        ("nvtx", "step", 1, 200_301_000_000),
    ]
    assert rows(profile, "tool_figures", "value", "unit") == [
        (1_572_864.0, "B"),
        (786_432.0, "B"),
        (4.0, "B"),
        (1_572_864.0, "B"),
    ]


def test_copied_gpu_time_of_ranges() -> None:
    profile = read(
        "Range\tStyle\tTotal Proj Time\tTotal Range Time\tRange Instances\tProj Avg\n"
        ":step\tPushPop\t5.250 ms\t2.000 ms\t3\t1.750 ms\n"
    )
    assert rows(profile, "summary", "section", "name", "calls", "total_ns") == [("nvtx", "step", 3, 2_000_000)]
    assert rows(profile, "tool_figures", "name", "value", "unit") == [("step", 5_250_000.0, "ns")]


def test_a_long_copied_report_has_units_in_all_of_its_blocks() -> None:
    count = 20_000
    row = "\t".join(COPIED[1][:-1])
    profile = read("\t".join(COPIED[0]) + "\n" + "".join(f"{row}\tkernel_{number}\n" for number in range(count)))
    assert profile["summary"].height == count
    assert profile["summary"]["total_ns"].unique().to_list() == [93_457_000]


def test_a_copied_cell_in_an_unknown_unit_is_unknown() -> None:
    profile = read("Time\tTotal Time\tInstances\tAvg\tName\n60.0%\t2 ms\t2\t1 fs\tf\n40.0%\t1 ms\t2\t1 ms\tg\n")
    assert rows(profile, "summary", "total_ns", "avg_ns") == [(2_000_000, None), (1_000_000, 1_000_000)]
    assert reasons(profile) == ["not a number in the column 'avg': shown as unknown"]
