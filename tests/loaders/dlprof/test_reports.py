from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tui.loaders.registry import load, load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.profile import Profile

PATH = "/module/Net::forward/conv2d"
STACK = "\n".join(["train.py:9", *(f"/lib/module.py:{number}" for number in range(60)), "conv.py:4"])

ITERATION = f'''Iteration Report
Iteration,Op ID,Op Name,Direction,Op Type,Kernel Name,Device ID,GPU Start Time (ns),GPU Duration (ns),\
API Call Start (ns),API Call Time (ns),Uses TC,Grid X,Grid Y,Grid Z,Block X,Block Y,Block Z,Data Types,\
Input Shapes,Parameters,Output Shapes,Long Kernel Name
5,"CONV2D_1","{PATH}",fprop,"conv2d","conv_kernel",0,1200,100,1100,20,yes,8,2,1,128,1,1,float16,"<N:8, C:3>; <6>","",\
"<N:8, K:6>","void ours::conv_kernel<float>(T1 *, int)"
5,"CONV2D_1","{PATH}",fprop,"conv2d","copy_kernel",0,1400,50,1150,10,no,1,1,1,64,1,1,float16,"<N:8, C:3>; <6>","",\
"<N:8, K:6>","_ZN4ours11copy_kernelEPf"
6,"CONV2D_1","{PATH}",fprop,"conv2d","conv_kernel",0,3200,120,3100,30,yes,8,2,1,128,1,1,float16,"<N:8, C:3>; <6>","",\
"<N:8, K:6>","void ours::conv_kernel<float>(T1 *, int)"
'''
KERNEL = f'''Kernel Report
Kernel Name,Op ID,Op Name,Direction,Uses TC,Total GPU Time (ns),Avg GPU Time (ns),Min GPU Time (ns),Max GPU Time (ns),\
Total API Time (ns),Avg API Time (ns),Min API Time (ns),Max API Time (ns)
"conv_kernel","CONV2D_1","{PATH}",fprop,yes,220,110.0,100,120,50,25.0,20,30
"conv_kernel","CONV2D_2","{PATH}",fprop,yes,1000,333.3,300,400,50,16.7,10,20
"copy_kernel","CONV2D_1","{PATH}",fprop,no,1000000,2.0,1,9,0,0.0,0,0
'''
DETAILED = f'''All Iterations
Op ID,Op Name,Direction,Op Type,No. Calls,TC Eligible,Using TC,Total CPU Time (ns),Avg. CPU Time (ns),\
Data Type,Stack Trace
"CONV2D_1","{PATH}",fprop,"conv2d",1,yes,no,400,400.0,float16,"{STACK}"
"CONV2D_2","{PATH}",bprop,"conv2d",3,no,no,900,300.0,,""
'''
SUMMARY = """System Config
GPU Name(s),Tesla T4, Tesla T4
Framework,PyTorch 1.9
DLProf Version,v1.8.0
GPU Driver Version,470.57

Summary Report
Wall Clock Time (ns),3200
GPU Utilization %,27.5

Iterations
Total Iterations,2

All Ops
,GPU Time (ns),CPU Time (ns),# Ops
All ops,870,1450,3
Ops using TC,0,0

All Kernels
,GPU Time (ns),CPU Time (ns),# Kernels
Memory,50,40,2
"""
EXPERT = '''Expert Systems Feedback
Problem,Recommendation
"1 op, [not] eligible","Try ""AMP"""
"No DALI",""
'''


def read(text: str) -> Profile:
    return load_input("report.csv", stream=io.BytesIO(text.encode()))


def test_the_iteration_report_covers_single_kernels() -> None:
    profile = read(ITERATION)
    columns = ("kind", "name", "short_name", "start_ns", "duration_ns", "device", "grid_x", "grid_y", "block_x", "line")
    conv = ("kernel", "void ours::conv_kernel<float>(T1 *, int)", "ours::conv_kernel")
    assert profile["activities"].select(columns).rows() == [
        (*conv, 1200, 100, 0, 8, 2, 128, 3),
        ("kernel", "ours::copy_kernel(float*)", "ours::copy_kernel", 1400, 50, 0, 1, 1, 64, 4),
        (*conv, 3200, 120, 0, 8, 2, 128, 5),
    ]
    columns = ("op", "op_join", "iteration", "uses_tensor_core", "tensor_core_reason", "correlation", "arguments")
    assert profile["activities"].select(columns).rows() == [
        (0, "recorded", 5, True, "DLProf", 1, "Output Shapes: <N:8, K:6>"),
        (0, "recorded", 5, False, "DLProf", 2, "Output Shapes: <N:8, K:6>"),
        (1, "recorded", 6, True, "DLProf", 3, "Output Shapes: <N:8, K:6>"),
    ]
    assert profile["api_calls"].select("name", "start_ns", "duration_ns", "correlation", "line").rows() == [
        ("[kernel launch]", 1100, 20, 1, 3),
        ("[kernel launch]", 1150, 10, 2, 4),
        ("[kernel launch]", 3100, 30, 3, 5),
    ]
    columns = ("op", "op_id", "name", "op_type", "direction", "group", "dtype", "input_shapes", "iteration", "line")
    conv_op = ("CONV2D_1", "conv2d", "conv2d", "fprop", "module/Net::forward", "float16", "<N:8, C:3>; <6>")
    assert profile["ops"].select(columns).rows() == [(0, *conv_op, 5, 3), (1, *conv_op, 6, 5)]
    assert profile["ops"]["start_ns"].null_count() == 2
    assert profile["sessions"].select("format", "tool", "first_line", "last_line").rows() == [
        ("dlprof-csv", "DLProf", 2, 5)
    ]


@pytest.mark.parametrize(
    ("report", "removed", "kept_frame"),
    [
        (ITERATION, {"Grid X": 12, "Uses TC": 11}, "activities"),
        (KERNEL, {"Min GPU Time (ns)": 7}, "summary"),
        (DETAILED, {"TC Eligible": 5}, "ops"),
    ],
)
def test_removed_columns_are_reported(report: str, removed: dict[str, int], kept_frame: str) -> None:
    title, *lines = report.splitlines()
    rows = list(csv.reader(io.StringIO("\n".join(lines))))
    removed_positions = sorted(removed.values())
    assert [rows[0][position] for position in removed_positions] == sorted(removed, key=lambda name: removed[name])
    text = io.StringIO()
    csv.writer(text).writerows(
        [cell for index, cell in enumerate(row) if index not in removed_positions] for row in rows
    )
    profile = read(f"{title}\n{text.getvalue()}")
    assert profile[kept_frame].height == read(report)[kept_frame].height
    column_issues = profile["issues"].filter(pl.col("reason").str.starts_with("columns of DLProf are missing"))
    assert [set(text.split(", ")) for text in column_issues["text"]] == [removed.keys()]


def test_the_kernel_report_is_a_summary_with_calls_only_if_unambiguous() -> None:
    columns = ("section", "name", "calls", "total_ns", "avg_ns", "min_ns", "max_ns", "line")
    assert read(KERNEL)["summary"].select(columns).rows() == [
        ("gpu", "conv_kernel", 2, 220, 110, 100, 120, 3),
        ("gpu", "conv_kernel", 3, 1000, 333, 300, 400, 4),
        # 2.0 can be any average from 1.95 to 2.05.
        ("gpu", "copy_kernel", None, 1_000_000, 2, 1, 9, 5),
        ("api", "[kernel launch]", 2, 50, 25, 20, 30, 3),
        ("api", "[kernel launch]", 3, 50, 17, 10, 20, 4),
        ("api", "[kernel launch]", None, 0, 0, 0, 0, 5),
    ]


def test_the_detailed_report_gives_ops_and_figures() -> None:
    profile = read(DETAILED)
    columns = ("op_id", "name", "direction", "duration_ns", "dtype", "tc_eligible", "line")
    assert profile["ops"].select(columns).rows() == [
        ("CONV2D_1", "conv2d", "fprop", 400, "float16", True, 3),
        ("CONV2D_2", "conv2d", "bprop", None, None, False, 65),
    ]
    stack = profile["ops"]["stack"].cast(pl.String)[0].split(";")
    assert (stack[0], stack[-1], len(stack)) == ("conv.py:4", "train.py:9", 62)
    figures = profile["tool_figures"].filter(pl.col("line") == 3).select("section", "name", "value", "unit", "text")
    assert figures.rows() == [
        ("Ops", "CONV2D_1: No. Calls", 1.0, None, None),
        ("Ops", "CONV2D_1: TC Eligible", None, None, "yes"),
        ("Ops", "CONV2D_1: Using TC", None, None, "no"),
        ("Ops", "CONV2D_1: Total CPU Time", 400.0, "ns", None),
        ("Ops", "CONV2D_1: Avg. CPU Time", 400.0, "ns", None),
    ]
    assert profile["issues"]["severity"].to_list() == ["info"]


def test_the_summary_gives_figures_part_by_part() -> None:
    profile = read(SUMMARY)
    columns = ("section", "name", "value", "unit", "text", "line")
    assert profile["tool_figures"].select(columns).rows() == [
        ("System Config", "GPU Name(s)", None, None, "Tesla T4, Tesla T4", 2),
        ("System Config", "Framework", None, None, "PyTorch 1.9", 3),
        ("System Config", "DLProf Version", None, None, "v1.8.0", 4),
        ("System Config", "GPU Driver Version", None, None, "470.57", 5),
        ("Summary Report", "Wall Clock Time", 3200.0, "ns", None, 8),
        ("Summary Report", "GPU Utilization", 27.5, "%", None, 9),
        ("Iterations", "Total Iterations", 2.0, None, None, 12),
        ("All Ops", "All ops: GPU Time", 870.0, "ns", None, 16),
        ("All Ops", "All ops: CPU Time", 1450.0, "ns", None, 16),
        ("All Ops", "All ops: # Ops", 3.0, None, None, 16),
        ("All Kernels", "Memory: GPU Time", 50.0, "ns", None, 21),
        ("All Kernels", "Memory: CPU Time", 40.0, "ns", None, 21),
        ("All Kernels", "Memory: # Kernels", 2.0, None, None, 21),
    ]
    assert profile["devices"].select("device", "name").rows() == [(0, "Tesla T4"), (1, "Tesla T4")]
    (session,) = profile["sessions"].to_dicts()
    assert (session["framework"], session["tool_version"], session["driver_version"]) == (
        "PyTorch 1.9",
        "1.8.0",
        "470.57",
    )
    assert profile["issues"].select("line", "reason").rows() == [(17, "expected 3 values, found 2: row skipped")]


def test_advice_is_shown_verbatim() -> None:
    assert read(EXPERT)["tool_findings"].select("tool", "problem", "recommendation", "line").rows() == [
        ("DLProf", "1 op, [not] eligible", 'Try "AMP"', 3),
        ("DLProf", "No DALI", None, 4),
    ]


def test_reports_of_other_frameworks_have_no_directions() -> None:
    text = "Tensor Core Report\nOp ID,Op Name,Op Type,Uses TC,Total GPU Time (ns)\nMATMUL_1,a/b,MatMul,yes,7\n"
    assert read(text)["tool_figures"].select("name", "value", "text").rows() == [
        ("MATMUL_1: Op Name", None, "a/b"),
        ("MATMUL_1: Op Type", None, "MatMul"),
        ("MATMUL_1: Uses TC", None, "yes"),
        ("MATMUL_1: Total GPU Time", 7.0, None),
    ]


def test_reports_of_the_first_versions_have_no_ids_of_ops() -> None:
    detailed = """All Iterations
Op Name,Op Type,No. Calls,TC Eligible,Using TC,Total CPU Time (ns),Avg. CPU Time (ns),Data Type,Input Shapes
"cluster/xla_run",_XlaRun,1,yes,yes,400,400.0,float16,"start: <64, 512>, c: <8>"
"_SOURCE",NoOp,3,no,no,900,300.0,,""
"""
    profile = read(detailed)
    assert profile["ops"].select(
        pl.col("name", "group", "op_type", "dtype").cast(str), "op_id", "duration_ns", "tc_eligible", "line"
    ).rows() == [
        ("xla_run", "cluster", "_XlaRun", "float16", None, 400, True, 3),
        ("_SOURCE", None, "NoOp", None, None, None, False, 4),
    ]
    assert profile["tool_figures"].filter(line=3).select("name", "value", "unit", "text").rows() == [
        ("cluster/xla_run: No. Calls", 1.0, None, None),
        ("cluster/xla_run: TC Eligible", None, None, "yes"),
        ("cluster/xla_run: Using TC", None, None, "yes"),
        ("cluster/xla_run: Total CPU Time", 400.0, "ns", None),
        ("cluster/xla_run: Avg. CPU Time", 400.0, "ns", None),
        ("cluster/xla_run: Input Shapes", None, None, "start: <64, 512>, c: <8>"),
    ]
    iteration = read(ITERATION.replace("Op ID,", "").replace('"CONV2D_1",', ""))
    with_ids = read(ITERATION)
    for name, column in (("ops", "name"), ("activities", "op")):
        assert iteration[name][column].cast(str).to_list() == with_ids[name][column].cast(str).to_list()


def test_several_reports_are_several_sessions(tmp_path: Path) -> None:
    """They contain the same times, so they are never added up: in one text or in several files."""
    profile = read(ITERATION + "\n" + KERNEL + "\n" + SUMMARY + "\n" + EXPERT)
    assert profile["sessions"]["format"].to_list() == ["dlprof-csv"] * 4
    assert profile["activities"]["session"].unique().to_list() == [0]
    assert profile["summary"]["session"].unique().to_list() == [1]
    assert profile["tool_figures"]["session"].unique().to_list() == [2]
    assert profile["tool_findings"].select("session", "problem").rows() == [(3, "1 op, [not] eligible"), (3, "No DALI")]
    (tmp_path / "a.csv").write_text(ITERATION)
    (tmp_path / "b.csv").write_text(KERNEL)
    two_reports, errors = load([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")])
    assert two_reports is not None
    assert (two_reports["sessions"].height, errors) == (2, [])


def test_reports_of_one_run_in_a_text_are_reported() -> None:
    kernels = KERNEL.replace(",yes,1000,", ",yes,30,").replace("no,1000000,", "no,20,")
    repeated = read(f"{ITERATION}\n{kernels}")["issues"].filter(severity="warning")
    assert repeated.select("session", "line", "reason").rows() == [
        (
            1,
            8,
            "the total kernel time equals that of the report in line 2: both are probably of one run, and sums over "
            "all sessions count it twice; choose a session with --session",
        )
    ]
    assert read(f"{ITERATION}\n{KERNEL}")["issues"].filter(severity="warning").is_empty()


def test_a_damaged_row_affects_no_other_row() -> None:
    rows = KERNEL.splitlines()
    damaged = "\n".join([*rows[:3], rows[3][:40], rows[4]]) + "\n"
    profile = read(damaged)
    assert profile["summary"].filter(section="gpu")["line"].to_list() == [3, 5]
    assert profile["issues"].select("severity", "line").rows() == [("warning", 4)]


def test_invalid_numbers_become_unknown() -> None:
    profile = read(ITERATION.replace(",1200,100,", ",soon,inf,").replace(",8,2,1,128,1,1,", f",{1 << 40},2,1,128,1,1,"))
    first = profile["activities"].filter(pl.col("line") == 3).to_dicts()[0]
    assert (first["start_ns"], first["duration_ns"], first["grid_x"], first["grid_y"]) == (None, None, None, 2)
    assert {3} <= set(profile["issues"]["line"].to_list())
    figures = read(DETAILED.replace(",400,400.0,", ",nan,400.0,"))["tool_figures"]
    assert figures.filter(pl.col("text") == "nan")["value"].to_list() == [None]


def test_a_title_alone_is_not_a_report() -> None:
    profile = read("Kernel Report\nof today: none\n" + EXPERT)
    assert profile["sessions"].height == 1


REPORTS = ("detailed", "expert_systems", "group_op", "iteration", "kernel", "op_type", "summary", "tensor_core")


@pytest.mark.parametrize("name", REPORTS)
def test_a_real_report_loses_nothing(name: str, corpus: Callable[[str], str]) -> None:
    """Every figure of every row is in a frame, with its line."""
    path = corpus(f"dlprof/no_relu/dlprof_{name}.csv")
    profile = load_input(path)
    assert profile["issues"].filter(pl.col("severity") != "info").height == 0
    if name == "summary":
        assert profile["tool_figures"].height == 9 + 10 + 6 + 2 * 4 * 3
        return
    expected = pl.read_csv(path, skip_lines=1, infer_schema=False)
    if name == "iteration":
        assert profile["activities"].height == expected.height == 51
        assert profile["activities"]["duration_ns"].sum() == expected["GPU Duration (ns)"].cast(pl.Int64).sum()
        assert profile["api_calls"]["duration_ns"].sum() == expected["API Call Time (ns)"].cast(pl.Int64).sum()
    elif name == "kernel":
        gpu = profile["summary"].filter(section="gpu")
        assert gpu["name"].cast(pl.String).to_list() == expected["Kernel Name"].to_list()
        assert gpu["total_ns"].to_list() == expected["Total GPU Time (ns)"].cast(pl.Int64).to_list()
        assert gpu["calls"].sum() == 51
    elif name == "expert_systems":
        assert profile["tool_findings"].select("problem", "recommendation").rows() == expected.rows()
    else:
        figures = profile["tool_figures"]
        reported = sum(value is not None for value in figures["value"])
        numbers = expected.select(pl.all().cast(pl.Float64, strict=False).is_not_null().sum())
        assert reported == sum(numbers.row(0))
        total = expected["Total GPU Time (ns)"].cast(pl.Float64)
        assert figures.filter(pl.col("name").str.ends_with(": Total GPU Time"))["value"].to_list() == total.to_list()


@pytest.mark.parametrize(
    ("line", "damaged", "lost", "reported"),
    [
        ("Framework,PyTorch 1.9", "Framew", 1, [3]),
        ("GPU Utilization %,27.5", "GPU Utilization % 27.5", 1, [9]),
        ("Summary Report", "Summary Rep\ufffd", 0, [7]),
        ("All ops,870,1450,3", "All ops 870", 3, [16]),
        (",GPU Time (ns),CPU Time (ns),# Ops", "GPU Time (ns)", 3, [15, 16]),
    ],
)
def test_a_damaged_summary_line_loses_only_its_value_and_is_reported(
    line: str, damaged: str, lost: int, reported: list[int]
) -> None:
    assert SUMMARY.count(line) == 1
    intact, profile = read(SUMMARY), read(SUMMARY.replace(line, damaged))
    assert profile["tool_figures"].height == intact["tool_figures"].height - lost
    # A row of it lacks a figure.
    lines = [*reported, *intact["issues"]["line"]]
    assert profile["issues"].select("severity", "line").rows() == [("warning", number) for number in lines]


def save_again(text: str, *, quoting: bool, filled: bool) -> str:
    """Return the same report with every cell quoted, or with all lines padded to the same number of cells."""
    rows = list(csv.reader(io.StringIO(text)))
    width = max(len(row) for row in rows) if filled else 0
    saved = io.StringIO()
    writer = csv.writer(saved, quoting=csv.QUOTE_ALL if quoting else csv.QUOTE_MINIMAL)
    writer.writerows([*row, *[""] * (width - len(row))] for row in rows)
    return saved.getvalue()


WHOLE_SUMMARY = SUMMARY.replace("Ops using TC,0,0", "Ops using TC,0,0,0")


@pytest.mark.parametrize("report", [ITERATION, KERNEL, DETAILED, WHOLE_SUMMARY, f"{EXPERT}\n{WHOLE_SUMMARY}"])
@pytest.mark.parametrize(("quoting", "filled"), [(True, False), (False, True), (True, True)])
def test_a_report_saved_by_a_spreadsheet_reads_the_same(report: str, *, quoting: bool, filled: bool) -> None:
    profile, plain = read(save_again(report, quoting=quoting, filled=filled)), read(report)
    for frame in ("activities", "summary", "ops", "tool_figures", "tool_findings", "issues"):
        assert profile[frame].equals(plain[frame])


def test_a_summary_without_its_first_lines_is_read_and_the_loss_reported() -> None:
    expected = read(WHOLE_SUMMARY)["tool_figures"]
    lines = WHOLE_SUMMARY.splitlines(keepends=True)
    for first in (1, 3, 5, 14):
        profile = read("".join(lines[first:]))
        figures = profile["tool_figures"]
        assert figures.drop("line").equals(expected.filter(pl.col("line") > first).drop("line"))
        reason = "expected the title 'System Config' above: the start of this report is missing"
        # Of line 7 on the first is blank.
        reported = [("warning", 2 if first == 5 else 1, reason)]
        assert profile["issues"].select("severity", "line", "reason").rows() == reported


@pytest.mark.parametrize("title", ["Summary Report", "Iterations", "All Ops", "All Kernels"])
def test_rows_below_a_missing_title_go_to_their_part(title: str) -> None:
    profile, intact = read(WHOLE_SUMMARY.replace(f"{title}\n", "")), read(WHOLE_SUMMARY)
    assert profile["tool_figures"].drop("line").equals(intact["tool_figures"].drop("line"))
    assert profile["issues"]["reason"].to_list() == [
        f"expected the title {title!r}: the rows below are assigned to it by their names"
    ]


def test_common_words_as_row_names_are_not_a_summary() -> None:
    with pytest.raises(ProftuiError, match="no profile found"):
        read("Iterations\nGPU Count,2\nFramework,ours\nTotal Iterations,7\n")


def test_text_below_the_summary_is_not_part_of_it() -> None:
    profile = read(f"{SUMMARY}\nAll is done.\nBye, then.\n")
    assert profile["tool_figures"].height == read(SUMMARY)["tool_figures"].height
