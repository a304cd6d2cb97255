"""Tables of PyTorch's profiler: every set of columns, line prefixes, and reports of damage."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from tests.corpus import shared_file
from tests.loaders.damage import load_contents, load_damaged
from tests.loaders.reading import read, reasons, rows
from tui.analysis.capabilities import views
from tui.analysis.dashboard import dashboard
from tui.analysis.kernels import kernels
from tui.analysis.ops.op_trees import by_type
from tui.analysis.ops.op_types import op_type_summary
from tui.analysis.ops.ops_by_name import coverage_note, ops
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

TITLES = [
    "Self CPU %",
    "Self CPU",
    "CPU total %",
    "CPU total",
    "CPU time avg",
    "Self CUDA",
    "Self CUDA %",
    "CUDA total",
    "CUDA time avg",
    "CPU Mem",
    "Self CPU Mem",
    "CUDA Mem",
    "Self CUDA Mem",
    "# of Calls",
]

ROWS = (
    ("aten::mm", "30.00%,300.000us,50.00%,500.000us,250.000us,800.000us,80.00%,800.000us,400.000us", "2"),
    ("ampere_sgemm_128x64_nn", "0.00%,0.000us,0.00%,0.000us,0.000us,800.000us,80.00%,800.000us,400.000us", "2"),
    ("Memcpy HtoD (Pinned -> Device)", "0.00%,0.000us,0.00%,0.000us,0.000us,200.000us,20.00%,200.000us,200.000us", "1"),
    ("cudaLaunchKernel", "20.00%,200.000us,20.00%,200.000us,100.000us,0.000us,0.00%,0.000us,0.000us", "2"),
    ("ProfilerStep*", "0.00%,0.000us,0.00%,0.000us,0.000us,1.500ms,150.00%,1.500ms,1.500ms", "1"),
    ("ProfilerStep*", "50.00%,500.000us,100.00%,1.000ms,1.000ms,0.000us,0.00%,1.000ms,1.000ms", "1"),
)
MEMORY = "1.50 KB,-512 B,2.00 MB,0 B"
TOTALS = ("Self CPU time total: 1.000ms", "Self CUDA time total: 1.000ms")


def table(
    titles: Sequence[str],
    cells: Sequence[Sequence[str]],
    *,
    totals: Sequence[str] = TOTALS,
    prefix: str = "",
    width: int = 12,
    name_width: int = 55,
) -> str:
    """Return a table as PyTorch prints it; the text columns at the end are 40 wide."""
    widths = [name_width, *(40 if title in ("Input Shapes", "Source Location") else width for title in titles)]
    rule = "  ".join("-" * width for width in widths) + "  "
    lines = [
        rule,
        row(("Name", *titles), widths),
        rule,
        *(row(row_cells, widths) for row_cells in cells),
        rule,
        *totals,
    ]
    return "".join(f"{prefix}{line}\n" for line in lines)


def row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)) + "  "


def usual_table(**options: object) -> str:
    cells = [(name, *figures.split(","), *MEMORY.split(","), calls) for name, figures, calls in ROWS]
    return table(TITLES, cells, **options)  # type: ignore[arg-type]


SUMMARY = [
    ("op", "aten::mm", 2, 500_000, 250_000, 300_000, 800_000, 800_000),
    ("gpu", "ampere_sgemm_128x64_nn", 2, 800_000, 400_000, None, 800_000, 800_000),
    ("gpu", "Memcpy HtoD (Pinned -> Device)", 1, 200_000, 200_000, None, 200_000, 200_000),
    ("api", "cudaLaunchKernel", 2, 200_000, 100_000, 200_000, 0, 0),
    ("op", "ProfilerStep*", 1, 0, 0, 0, 1_500_000, 1_500_000),
    ("op", "ProfilerStep*", 1, 1_000_000, 1_000_000, 500_000, 0, 1_000_000),
]
FIGURES = ("section", "name", "calls", "total_ns", "avg_ns", "cpu_self_ns", "gpu_self_ns", "gpu_total_ns")


def test_ops_kernels_and_calls_have_their_figures() -> None:
    profile = read(usual_table())

    assert rows(profile, "summary", *FIGURES) == SUMMARY
    assert rows(profile, "sessions", "format", "framework", "first_line", "last_line") == [
        ("torch-table", "PyTorch", 2, 12)
    ]
    memory = ("cpu_memory_bytes", "cpu_self_memory_bytes", "gpu_memory_bytes", "gpu_self_memory_bytes")
    assert rows(profile, "summary", *memory)[0] == (1536, -512, 2 << 20, 0)
    assert rows(profile, "summary", "time_pct")[1:4] == [(80.0,), (20.0,), (None,)]
    assert rows(profile, "summary", "line")[0] == (4,)
    assert reasons(profile) == []


OP_FIGURES = ("op", "op_type", "calls", "gpu_self_ns", "time_pct", "gpu_total_ns", "cpu_total_ns", "cpu_self_ns")


def test_ops_of_a_table_are_ops_with_self_and_total_times() -> None:
    profile = read(usual_table())

    assert ops(profile).select(OP_FIGURES).rows() == [
        ("aten::mm", "gemm", 2, 800_000, 80.0, 800_000, 500_000, 300_000),
        ("(unattributed: totals only)", None, None, 200_000, 20.0, None, None, None),
    ]
    types = ("op_type", "ops", "calls", "gpu_ns", "gpu_avg_ns", "time_pct", "cpu_own_ns", "op_source")
    assert op_type_summary(profile).select(types).rows() == [
        ("gemm", 1, 2, 800_000, 400_000, 80.0, 300_000, "recorded"),
        ("(unattributed: totals only)", None, None, 200_000, None, 20.0, None, None),
    ]
    assert kernels(profile)["kind"].to_list() == ["kernel", "memcpy"]
    assert kernels(profile)["total_ns"].sum() == ops(profile)["gpu_self_ns"].sum() == 1_000_000
    assert coverage_note(profile) == "Ops recorded; 200 µs (20.0% of GPU time) not attributed to any op"
    groups = by_type(profile).select("node", "gpu_ns", "calls", "cpu_own_ns").rows()
    assert groups[:3] == [
        ("all", 1_000_000, 2, 300_000),
        ("gemm", 800_000, 2, 300_000),
        ("aten::mm", 800_000, 2, 300_000),
    ]
    answers = views(profile)
    assert [answers[name] for name in ("ops-and-kernels", "op-types", "group-ops")] == ["ok"] * 3


def test_a_table_of_the_cpu_alone_has_ops_without_gpu_time() -> None:
    titles = ("Self CPU %", "Self CPU", "CPU total", "# of Calls")
    cells = (("aten::relu", "75.00%", "3.000us", "4.000us", "2"), ("aten::add", "25.00%", "1.000us", "1.000us", "1"))
    profile = read(table(titles, cells, totals=("Self CPU time total: 4.000us",)))

    assert sorted(ops(profile).select("op", "calls", "gpu_self_ns", "cpu_total_ns", "cpu_self_ns").rows()) == [
        ("aten::add", 1, None, 1_000, 1_000),
        ("aten::relu", 2, None, 4_000, 3_000),
    ]
    assert views(profile)["op-types"] == "ok"


@pytest.mark.parametrize(
    "prefix", ["# ", "    ", "g43: ", "> ", "(EngineCore_DP0 pid=3317) ", "[rank0]:[I 11:02:03.123456] ", "| "]
)
def test_a_common_line_prefix_is_not_part_of_names(prefix: str) -> None:
    assert rows(read(usual_table(prefix=prefix)), "summary", *FIGURES) == SUMMARY


def test_times_in_front_of_lines_differ() -> None:
    lines = usual_table().splitlines()
    text = "".join(f"2026-02-03T09:12:{44 + i}.{i * 7919:09d}Z stdout F {line}\n" for i, line in enumerate(lines))

    assert rows(read(text), "summary", *FIGURES) == SUMMARY


def test_tables_of_two_processes_alternate_line_by_line() -> None:
    first, second = (usual_table(prefix=f"(Worker_TP{rank} pid={rank + 7}) ").splitlines() for rank in (0, 1))
    text = "\n".join(line for pair in zip(first, second, strict=True) for line in pair)
    profile = read(text)

    for session in (0, 1):
        assert profile["summary"].filter(session=session).select(FIGURES).rows() == SUMMARY


def test_the_first_rule_and_the_totals_may_be_missing() -> None:
    profile = read("\n".join(usual_table().splitlines()[1:10]))

    assert rows(profile, "summary", *FIGURES) == SUMMARY
    assert reasons(profile, "info") == [
        "the total CPU time below the table is missing: the percentages are not verified",
        "the total GPU time below the table is missing: the percentages are not verified",
    ]


def test_a_truncated_table_is_reported() -> None:
    profile = read("\n".join(usual_table().splitlines()[:5]))

    assert rows(profile, "summary", "name") == [("aten::mm",), ("ampere_sgemm_128x64_nn",)]
    assert "the table ends without its closing line of dashes: rows may be missing" in reasons(profile, "warning")


def test_a_table_of_pytorch_0_4_has_calls_and_averages_and_no_line_of_dashes_at_its_end() -> None:
    text = (
        "---------------------  ---------------  ---------------  -------  -------------  --------------\n"
        "Name                          CPU time        CUDA time    Calls      CPU total      CUDA total\n"
        "---------------------  ---------------  ---------------  -------  -------------  --------------\n"
        "scale, seq=3                33.250us         10.000us        4      133.000us        40.000us\n"
        "detach_                      6.500us          0.000us        2       13.000us         0.000us\n"
    )
    profile = read(text)
    assert rows(profile, "summary", "name", "calls", "total_ns", "gpu_total_ns") == [
        ("scale, seq=3", 4, 133000, 40000),
        ("detach_", 2, 13000, 0),
    ]
    assert rows(profile, "summary", "avg_ns") == [(33250,), (6500,)]
    assert ops(profile)["calls"].to_list() == [4, 2]
    assert reasons(profile, "warning") == []


def test_a_notebook_holds_the_table_as_strings() -> None:
    output = [f"{line}\n" for line in usual_table().splitlines()]
    notebook = {"cells": [{"cell_type": "code", "outputs": [{"text": output}]}], "metadata": {}, "nbformat": 4}

    assert rows(read(json.dumps(notebook, indent=1)), "summary", *FIGURES) == SUMMARY


def test_shapes_stacks_flops_and_overloads() -> None:
    titles = ("Overload Name", "CPU total", "# of Calls", "Input Shapes", "Source Location", "Total KFLOPs")
    cells = (
        ("aten::add", "Tensor", "5.000us", "2", "[[2, 3], []]", "model.py(7): forward", "1.500"),
        ("", "", "", "", "", "train.py(3): step", ""),
        ("", "", "", "", "", "", ""),
        ("aten::relu", "", "1.250us", "1", "", "model.py(8): forward", "--"),
        ("## load  batch", "", "0.500us", "1", "", "", "--"),
    )
    profile = read(table(titles, cells, totals=("Self CPU time total: 9.000us",)))

    assert rows(profile, "summary", "name", "total_ns", "calls", "input_shapes", "stack", "flops") == [
        ("aten::add.Tensor", 5_000, 2, "[[2, 3], []]", "model.py(7): forward;train.py(3): step", 1_500),
        ("aten::relu", 1_250, 1, None, "model.py(8): forward", None),
        ("## load  batch", 500, 1, None, None, None),
    ]


def test_kernels_of_torch_compile_have_the_names_of_their_ops() -> None:
    titles = ["Self CPU %", "Self CPU", "CPU total", "Self CUDA", "Self CUDA %", "CUDA total", "# of Calls"]
    cells = [
        ("CompiledFunction", "60.00%", "600.000us", "1.000ms", "0.000us", "0.00%", "8.000us", "2"),
        ("triton_per_fused_sum_0", "40.00%", "400.000us", "400.000us", "8.000us", "80.00%", "8.000us", "2"),
        ("triton_per_fused_sum_0", "0.00%", "0.000us", "0.000us", "8.000us", "80.00%", "8.000us", "2"),
        ("Memset (Device)", "0.00%", "0.000us", "0.000us", "2.000us", "20.00%", "2.000us", "1"),
        ("step", "0.00%", "0.000us", "5.000us", "0.000us", "0.00%", "8.000us", "1"),
        ("step", "0.00%", "0.000us", "0.000us", "90.000us", "900.00%", "90.000us", "1"),
    ]
    profile = read(table(titles, cells, totals=("Self CPU time total: 1.000ms", "Self CUDA time total: 10.000us")))
    gpu = profile["summary"].filter(section="gpu")
    assert gpu.select("name", "calls", "total_ns").rows() == [
        ("triton_per_fused_sum_0", 2, 8000),
        ("Memset (Device)", 1, 2000),
    ]
    assert profile["issues"].is_empty()


def test_shapes_that_the_table_cuts_are_marked() -> None:
    cells = [(f"aten::{name}", "5.000us", "2", shapes) for name, shapes in (
        ("conv2d", "[[2, 3, 16, 16], [8, 3, 3, 3],"),
        ("relu", "[[2, 3, 16, 16]]"),
    )]  # fmt: skip
    profile = read(table(("CPU total", "# of Calls", "Input Shapes"), cells))
    assert profile["summary"]["input_shapes"].to_list() == ["[[2, 3, 16, 16], [8, 3, 3, 3],...", "[[2, 3, 16, 16]]"]


def test_flops_printed_below_the_title_of_the_stack() -> None:
    """PyTorch's table has the titles of stack and FLOPs in one order, and their cells in the other."""
    cells = ("30.00%", "300.000us", "2", "[[2, 3], [3, 4]]")
    titles = ("Self CPU %", "Self CPU", "# of Calls", "Input Shapes", "Source Location", "Total KFLOPs")
    stack = ("",) * 6 + ("", "model.py(7): __call__")
    lines = [
        (f"aten::{name}", *cells, *last)
        for name, last in (("mm", ("   1.234", "train.py(12): forward")), ("relu", ("--", "")))
    ]
    profile = read(table(titles, [lines[0], stack[1:], lines[1]], totals=TOTALS[:1]))
    assert rows(profile, "summary", "name", "input_shapes", "stack", "flops") == [
        ("aten::mm", "[[2, 3], [3, 4]]", "train.py(12): forward;model.py(7): __call__", 1234),
        ("aten::relu", "[[2, 3], [3, 4]]", None, None),
    ]


def test_shares_of_a_total_of_zero_are_not_a_number() -> None:
    cells = [(name, "NaN", "0.000us", "NaN", "0.000us", "0.000us", *rest.split(",")) for name, rest in (
        ("ProfilerStep*", "1.000ms,100.00%,1.000ms,1.000ms,1"),
        ("f<int>", "1.000ms,100.00%,1.000ms,500.000us,2"),
    )]  # fmt: skip
    profile = read(table([*TITLES[:9], "# of Calls"], cells, totals=("Self CPU time total: 0.000us", TOTALS[1])))
    assert rows(profile, "summary", "section", "name", "gpu_self_ns") == [
        ("op", "ProfilerStep*", 1_000_000),
        ("gpu", "f<int>", 1_000_000),
    ]
    assert reasons(profile) == []


@pytest.mark.parametrize("last", ["<", ">", "*", "|", "%"])
def test_the_first_name_keeps_its_last_letter(last: str) -> None:
    cells = [(f"aten::f{last}", "100.00%", "1.000ms", "1"), (f"aten::g{last}", "0.00%", "0.000us", "1")]
    for prefix in ("", "# ", "> > "):
        profile = read(table(["Self CPU %", "Self CPU", "# of Calls"], cells, totals=TOTALS[:1], prefix=prefix))
        assert rows(profile, "summary", "name") == [(f"aten::f{last}",), (f"aten::g{last}",)]


@pytest.mark.parametrize("prefix", ["", "# ", "    ", "g43: "])
def test_the_first_name_keeps_its_number_signs(prefix: str) -> None:
    """The GPU time of a compiled graph is that of its kernels."""
    region = "## Call CompiledFxGraph fqx ##"
    cells = [(name, "0.00%", "0.000us", "1.000ms", "100.00%", "1") for name in (region, "f<int>")]
    titles = ["Self CPU %", "Self CPU", "Self CUDA", "Self CUDA %", "# of Calls"]
    profile = read(table(titles, cells, totals=TOTALS, prefix=prefix, name_width=len(region)))
    assert rows(profile, "summary", "section", "name") == [("op", region), ("gpu", "f<int>")]


def test_times_in_a_chosen_unit_are_compared_within_their_digits() -> None:
    """With table(time_unit="s"), times have three decimals whatever their size."""
    titles = ["Self CPU %", "Self CPU", "# of Calls"]
    cells = [("aten::mm", "42.17%", "0.001s", "1"), ("aten::add", "57.83%", "0.002s", "1")]
    assert reasons(read(table(titles, cells, totals=["Self CPU time total: 0.003s"]))) == []
    of_nothing = [("aten::mm", "42.17%", "0.000s", "1"), ("aten::add", "57.83%", "0.000s", "1")]
    assert reasons(read(table(titles, of_nothing, totals=["Self CPU time total: 0.000s"]))) == []
    contradictory = [("aten::mm", "92.17%", "0.100s", "1"), ("aten::add", "7.83%", "0.100s", "1")]
    reported = reasons(read(table(titles, contradictory, totals=["Self CPU time total: 0.200s"])))
    assert [reason.split(" but ")[1] for reason in reported] == 2 * ["is 50.00%"]


def test_the_first_of_two_kinds_of_devices_is_read() -> None:
    titles = ["Self CPU %", "Self CPU", "Self CUDA", "Self CUDA %", "Self XPU", "Self XPU %", "# of Calls"]
    cells = [("f<int>", "0.00%", "0.000us", "1.000ms", "100.00%", "7.000ms", "100.00%", "2")]
    assert rows(read(table(titles, cells)), "summary", "name", "gpu_self_ns", "calls") == [("f<int>", 1_000_000, 2)]


def test_ops_by_shape_are_rows_of_one_name() -> None:
    titles = ("Self CPU", "CPU total", "Self CUDA", "# of Calls", "Input Shapes")
    cells = (
        ("aten::mm", "1.000us", "2.000us", "5.000us", "2", "[[8, 4], [4, 2]]"),
        ("aten::mm", "3.000us", "4.000us", "7.000us", "3", "[[16, 4], [4, 2]]"),
        ("aten::item", "1.000us", "1.000us", "0.000us", "1", ""),
    )
    profile = read(table(titles, cells, totals=("Self CPU time total: 5.000us",)))

    assert rows(profile, "summary", "name", "calls", "total_ns", "gpu_self_ns", "input_shapes") == [
        ("aten::mm", 2, 2_000, 5_000, "[[8, 4], [4, 2]]"),
        ("aten::mm", 3, 4_000, 7_000, "[[16, 4], [4, 2]]"),
        ("aten::item", 1, 1_000, 0, None),
    ]


@pytest.mark.parametrize("without_rules", [False, True])
def test_a_table_pasted_from_a_spreadsheet(without_rules: bool) -> None:
    lines = [re.sub(" {2,}", "\t", line.strip()) for line in usual_table().splitlines()]
    kept_lines = [line for line in lines if not (without_rules and line.startswith("---"))]
    text = "".join(f"{line}\n" for line in kept_lines)

    assert rows(read(text), "summary", *FIGURES) == SUMMARY
    with_commas = read(text.replace(".00%", ",00%"))
    assert rows(with_commas, "summary", "time_pct") == rows(read(usual_table()), "summary", "time_pct")
    assert reasons(with_commas) == []


@pytest.mark.parametrize("rule", ["---", ":---:", "-"])
def test_a_table_rewritten_in_markdown(rule: str) -> None:
    header, *cells = (re.sub(" {2,}", " | ", line.strip()) for line in usual_table().splitlines() if line[:2] == "  ")
    cells[0] = cells[0].replace("aten::mm", "`aten::mm`").replace("30.00%", "**30.00%**")
    rules = "|".join([rule] * header.count("|"))
    text = f"# One step\n\n| {header} |\n|{rules}|{rule}|\n" + "".join(f"| {line} |\n" for line in cells) + "\nSlow.\n"
    commented = "".join(f"# {line}\n" for line in text.splitlines())
    assert rows(read(commented), "summary", *FIGURES) == SUMMARY
    profile = read(text)

    assert rows(profile, "summary", *FIGURES) == SUMMARY
    assert rows(profile, "summary", "line")[0] == (5,)
    assert reasons(profile) == [
        f"the total {device} time below the table is missing: the percentages are not verified"
        for device in ("CPU", "GPU")
    ]


def test_a_column_of_full_names_gives_the_names_that_are_cut() -> None:
    titles = [*TITLES[:9], "# of Calls", "Full Name"]
    cells = [(name, *figures.split(","), calls, "") for name, figures, calls in ROWS]
    cells[1] = (f"{cells[1][0][:12]}...", *cells[1][1:-1], cells[1][0])
    text = table(titles, [[cell or " " for cell in row_cells] for row_cells in cells])
    assert rows(read(text), "summary", "section", "name", "calls") == [
        ("op", "aten::mm", 2),
        ("gpu", "ampere_sgemm_128x64_nn", 2),
        ("gpu", "Memcpy HtoD (Pinned -> Device)", 1),
        ("api", "cudaLaunchKernel", 2),
        ("op", "ProfilerStep*", 1),
        ("op", "ProfilerStep*", 1),
    ]


def test_an_unknown_last_column_may_be_empty() -> None:
    titles = [*TITLES[:9], "# of Calls", "Remark"]
    cells = [
        (name, *figures.split(","), calls, remark)
        for (name, figures, calls), remark in zip(ROWS, "x xx ", strict=False)
    ]
    assert rows(read(table(titles, cells)), "summary", "calls") == [(2,), (2,), (1,), (2,), (1,)]


def test_a_table_of_only_names_and_stacks() -> None:
    text = (
        "---------  ------------------------\n"
        "     Name  Source Location         \n"
        "---------  ------------------------\n"
        "aten::add  model.py(7): forward    \n"
        "           train.py(3): step       \n"
        "aten::mul  model.py(8): forward    \n"
        "---------  ------------------------\n"
    )
    assert rows(read(text), "summary", "name", "stack") == [
        ("aten::add", "model.py(7): forward;train.py(3): step"),
        ("aten::mul", "model.py(8): forward"),
    ]


@pytest.mark.parametrize("device", ["XPU", "HPU", "MTIA", "PrivateUse1"])
def test_any_device_can_be_named(device: str) -> None:
    profile = read(usual_table(width=16).replace("CUDA", device))

    assert rows(profile, "summary", *FIGURES) == SUMMARY
    assert rows(profile, "sessions", "framework") == [(f"PyTorch ({device})",)]


@pytest.mark.parametrize("prefix", ["", "# ", "[rank0]: "])
def test_kernels_that_the_table_leaves_without_a_name_are_kernels(prefix: str) -> None:
    profile = read(usual_table(prefix=prefix).replace("ampere_sgemm_128x64_nn", " " * 22))

    named = [
        tuple(
            cell.replace("ampere_sgemm_128x64_nn", "(name not recorded)") if isinstance(cell, str) else cell
            for cell in row
        )
        for row in SUMMARY
    ]
    assert rows(profile, "summary", *FIGURES) == named
    assert reasons(profile) == []


def test_the_figures_of_a_wrapped_row_are_no_row() -> None:
    lines = usual_table().splitlines(keepends=True)
    lines[4] = lines[4].replace("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn\n").replace("\n  0.00%", "\n0.00%")
    profile = read("".join(lines))

    assert rows(profile, "summary", "name")[1] == ("Memcpy HtoD (Pinned -> Device)",)
    assert "this looks like a row of the table, but its values do not match the columns: line skipped" in reasons(
        profile
    )


def test_a_header_wider_than_its_column_does_not_move_cells() -> None:
    profile = read(usual_table(width=9))

    assert rows(profile, "summary", *FIGURES) == SUMMARY


def test_the_oldest_layout_is_left_aligned_and_has_no_calls() -> None:
    text = (
        "---------------------  ---------------  ---------------  \n"
        "Name                   Self CPU total %  Self CPU total  \n"
        "---------------------  ---------------  ---------------  \n"
        "addmm                  25.00%           1.000ms          \n"
        "t                      75.00%           3.000ms          \n"
        "---------------------  ---------------  ---------------  \n"
        "CPU time total: 4.000ms\nCUDA time total: 0.000us\n"
    )
    profile = read(text)

    assert rows(profile, "summary", "name", "cpu_self_ns", "time_pct", "calls") == [
        ("addmm", 1_000_000, 25.0, None),
        ("t", 3_000_000, 75.0, None),
    ]
    assert reasons(profile) == []


def test_percentages_of_a_negative_total_agree_with_it_as_printed() -> None:
    text = (
        "-----  ------------  ------------  ------------  ------------  ------------  ------------  \n"
        "Name     Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls  \n"
        "-----  ------------  ------------  ------------  ------------  ------------  ------------  \n"
        "addmm       -14.27%       3.000ms       -95.10%      20.000ms      20.000ms             1  \n"
        "t            -4.75%       1.100ms        -4.75%       1.100ms       1.100ms             1  \n"
        "-----  ------------  ------------  ------------  ------------  ------------  ------------  \n"
        "Self CPU time total: -21030.000us\n"
    )
    profile = read(text)

    assert rows(profile, "summary", "name", "cpu_self_ns", "calls") == [
        ("addmm", 3_000_000, 1),
        ("t", 1_100_000, 1),
    ]
    assert reasons(profile, "warning") == [
        "CPU self time is printed as -4.75% of the total below, but is -5.23%",
    ]


def test_a_percentage_that_disagrees_with_the_total_is_reported() -> None:
    profile = read(usual_table().replace("30.00%", "31.00%"))

    assert reasons(profile, "warning") == ["CPU self time is printed as 31% of the total below, but is 30.00%"]


def test_rows_that_a_limit_left_out_are_reported() -> None:
    text = usual_table(totals=("Self CPU time total: 1.000ms", "Self CUDA time total: 4.000ms"))
    text = text.replace("80.00%", "20.00%").replace("20.00%,", "5.00%,")

    profile = read(text)
    reported = reasons(profile, "info")
    assert reported == [
        (
            "the rows cover 25.0% of the GPU time of kernels: the table was limited to its first rows; print all rows "
            "with row_limit=-1"
        )
    ]
    # The whole is the total that is printed; what the rows lack is a part of it.
    board = dashboard(profile)
    facts = {fact.name: fact.value for fact in board.performance}
    assert (facts["gpu_ns"], facts["unprinted_ns"], facts["kernel_ns"]) == (4_000_000, 3_000_000, 800_000)
    assert board.gpu_uses.select("use", "total_ns", "time_pct").rows() == [
        ("All other kernels", 800_000, 20.0),
        ("Copies", 200_000, 5.0),
        ("Rows not printed", 3_000_000, 75.0),
    ]
    assert board.split.select("group", "time_pct").rows() == [
        ("gemm", 20.0),
        ("memory", 5.0),
        ("Rows not printed", 75.0),
    ]
    assert board.top_kernels["time_pct"].to_list() == [20.0]
    of_ops = [("(unattributed: no op printed)", 80.0), ("aten::mm", 20.0)]
    assert board.top_ops.select("op", "time_pct").rows() == of_ops
    assert ops(profile).filter(pl.col("gpu_self_ns") > 0).select("op", "time_pct").rows() == of_ops


def test_a_table_with_all_rows_has_no_unprinted_part() -> None:
    board = dashboard(read(usual_table()))
    assert "unprinted_ns" not in {fact.name for fact in board.performance}
    assert board.gpu_uses["total_ns"].sum() == 1_000_000


def test_a_rounded_total_of_ops_without_kernels_has_no_remainder() -> None:
    titles = ("Self CPU %", "Self CPU", "Self CUDA", "Self CUDA %", "# of Calls")
    cells = (
        ("aten::mm", "50.00%", "5.000us", "1.230ms", "61.50%", "2"),
        ("aten::add", "50.00%", "5.000us", "769.000us", "38.45%", "4"),
    )
    profile = read(table(titles, cells, totals=("Self CPU time total: 10.000us", "Self CUDA time total: 2.000ms")))
    fact = next(fact for fact in dashboard(profile).performance if fact.name == "gpu_ns")
    assert fact.value == 2_000_000
    assert ops(profile)["op"].to_list() == ["aten::mm", "aten::add"]
    assert reasons(profile) == []


def test_kernels_with_equal_truncated_names_stay_separate() -> None:
    kernel = ("void at::native::elementwise_kernel<128...", "0.000us", "0.000us", "1.000us", "1.000us", "1")
    text = table(("Self CPU", "CPU total", "Self CUDA", "CUDA total", "# of Calls"), (kernel, kernel), totals=())

    profile = read(text)
    assert rows(profile, "summary", "name") == [(kernel[0],), (f"{kernel[0]} #2",)]
    assert "the table truncates names, and 1 name is ambiguous: " in profile["issues"]["reason"][0]


@pytest.mark.parametrize(
    "text",
    [
        "| Name | Self CPU % | Self CPU |\n| --- | --- | --- |\n| aten::mm | 30.00% | fast |\n",
        "Self CPU time total: 52.389ms\nSelf CUDA time total: 52.545ms\n",
        "  Name    Self CPU %      Self CPU\n aten::mm   30.00%   300.000us\n",
    ],
)
def test_other_tables_are_not_read(text: str) -> None:
    assert load_contents([text.encode()]) == []


@pytest.mark.parametrize("kept", [(), (0,), (2,), (2, 9), (0, 9)])
def test_a_table_without_some_lines_of_dashes_is_read(kept: Sequence[int]) -> None:
    lines = usual_table().splitlines(keepends=True)
    text = "".join(line for number, line in enumerate(lines) if number not in {0, 2, 9} - set(kept))

    profile = read(text + "\n" + text)
    assert rows(profile, "summary", *FIGURES) == SUMMARY * 2
    assert profile["sessions"].height == 2
    assert [reason for reason in reasons(profile) if "both are probably of one run" not in reason] == []


def test_tables_with_the_same_totals_are_probably_of_one_run() -> None:
    """As sorted by CPU time, then by GPU time."""
    other = usual_table(totals=("Self CPU time total: 1.000ms", "Self CUDA time total: 1.001ms"))
    profile = read(f"{usual_table()}\n{other}\n{usual_table()}")
    first, _, third = profile["sessions"]["first_line"].to_list()
    assert rows(profile, "issues", "severity", "line", "reason") == [
        (
            "warning",
            third,
            f"the totals equal those of the table in line {first}: both are probably of one run, and sums over all "
            "sessions count it twice; choose a session with --session",
        )
    ]
    ranks = [usual_table(prefix=f"[rank{rank}]: ") for rank in range(2)]
    assert reasons(read("\n".join(ranks)), "warning") == []


def test_a_name_can_end_one_space_before_its_figures() -> None:
    text = usual_table().replace(
        "  Memcpy HtoD (Pinned -> Device)         0.00%", "  Memcpy HtoD (Pinned -> Device) 0.00%", 1
    )
    assert rows(read(text), "summary", *FIGURES) == SUMMARY


def test_a_total_of_another_table_is_not_taken() -> None:
    """Tables with memory but no time of GPUs end with one total; a table whose header was lost has two."""
    titles = ("Self CPU %", "Self CPU", "CPU Mem", "CUDA Mem", "# of Calls")
    cells = (("aten::empty", "100.00%", "5.000us", "8 B", "1.00 KB", "3"),)
    text = table(titles, cells, totals=("Self CPU time total: 5.000us",))

    profile = read(text + "\n" + "".join(f"{total}\n" for total in TOTALS))
    assert rows(profile, "summary", "cpu_self_ns", "gpu_memory_bytes") == [(5_000, 1024)]
    assert reasons(profile) == []
    assert profile["sessions"]["last_line"].to_list() == [6]


def test_gpu_time_of_ops_without_kernels_is_shared_out_of_the_printed_total() -> None:
    """As from PyTorch 1.6 and Intel's extension, whose tables have no rows of kernels."""
    titles = ("Self CPU %", "Self CPU", "Self XPU", "Self XPU %", "XPU total", "# of Calls")
    cells = (
        ("aten::mm", "50.00%", "5.000us", "60.000us", "30.00%", "60.000us", "2"),
        ("aten::linear", "30.00%", "3.000us", "0.000us", "0.00%", "60.000us", "2"),
        ("ProfilerStep*", "0.00%", "0.000us", "190.000us", "95.00%", "190.000us", "1"),
        ("aten::add", "20.00%", "2.000us", "20.000us", "10.00%", "20.000us", "4"),
    )
    profile = read(table(titles, cells, totals=("Self CPU time total: 10.000us", "XPU time total: 200.000us")))

    expected = [
        ("(unattributed: no op printed)", 120_000, 60.0),
        ("aten::mm", 60_000, 30.0),
        ("aten::add", 20_000, 10.0),
    ]
    assert ops(profile).filter(pl.col("gpu_self_ns") > 0).select("op", "gpu_self_ns", "time_pct").rows() == expected
    board = dashboard(profile)
    assert board.top_ops.select("op", "total_ns", pl.col("time_pct").round(9)).rows() == expected
    assert (board.ops_recorded, board.ops_inferred) == (1, 0)
    fact = next(fact for fact in board.performance if fact.name == "gpu_ns")
    assert (fact.value, fact.source) == (200_000, "the total below the table, which lists no kernels")
    assert fact.formula == fact.source
    assert board.split.is_empty()
    assert board.gpu_uses.is_empty()
    assert reasons(profile, "info") == [
        (
            "the rows cover 40.0% of the GPU time: the table was limited to its first rows; print all rows with "
            "row_limit=-1"
        )
    ]


def test_truncated_calls_and_overhead_are_no_ops_and_kernels_no_calls() -> None:
    titles = ("Self CPU", "CPU total", "Self CUDA", "CUDA total", "# of Calls")
    cells = (
        ("aten::mm", "5.000us", "9.000us", "70.000us", "70.000us", "1"),
        ("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFla...", "4.000us", "4.000us", "0.000us", "0.000us", "5"),
        ("Activity Buffer Request", "800.000us", "800.000us", "0.000us", "0.000us", "1"),
        ("Runtime Triggered Module Loading", "30.000us", "30.000us", "0.000us", "0.000us", "2"),
        ("cuComputeNorm", "0.000us", "0.000us", "70.000us", "70.000us", "1"),
    )
    totals = ("Self CPU time total: 839.000us", "Self CUDA time total: 70.000us")
    profile = read(table(titles, cells, totals=totals))
    assert profile["summary"]["section"].to_list() == ["op", "api", "op", "op", "gpu"]
    assert ops(profile)["op"].to_list() == ["aten::mm"]
    assert kernels(profile).select("name", "total_ns").rows() == [("cuComputeNorm", 70_000)]


def test_damaged_tables_are_read_or_declined() -> None:
    profiles = load_damaged(usual_table(prefix="w0: "), 120)
    assert all(profile["summary"]["line"].is_between(1, 40).all() for profile in profiles)


def test_row_counts_of_real_tables() -> None:
    expected = json.loads(Path(shared_file("corpus2/expected.json")).read_text("utf-8"))["torch_table"]
    columns = {
        "Self CPU": "cpu_self_ns",
        "Self CUDA": "gpu_self_ns",
        "CUDA total": "gpu_total_ns",
        "# of Calls": "calls",
    }
    checked = 0
    for name, counted in expected.items():
        if not counted["tables"]:
            continue
        profile = load_input(shared_file(f"corpus2/torch_table/{name}"))
        assert profile["sessions"].height == counted["tables"], name
        for session, session_counts in enumerate(counted["read"]):
            rows_ = profile["summary"].filter(session=session)
            assert rows_.height == session_counts["rows"], name
            for title, figure in session_counts["sums"].items():
                # The other reader misses rows of one file, whose lines have times in front.
                if title in columns and session_counts["rows_read_by_oracle"] == session_counts["rows"]:
                    known = rows_.select(pl.col(columns[title]).sum()).item()
                    gpu_cpu = rows_.filter(section="gpu").height and title == "Self CPU"
                    assert known == figure["sum"] or gpu_cpu, (name, session, title)
                    checked += 1
    assert checked > 50


def test_times_of_cuda_events_that_include_cpu_times_are_reported() -> None:
    remark = "\tthe CUDA time column reports approximately max(cuda_time, cpu_time).\n"
    profile = read(f"{usual_table(totals=TOTALS[:1])}\n{remark}\n{usual_table()}")
    (issue,) = rows(profile.only_session(1), "issues", "severity", "line", "reason")[:1]
    assert issue[:2] == ("warning", 13)
    assert "approximately the larger of GPU and CPU time" in issue[2]
    with pytest.raises(ProftuiError, match="no profile found"):
        read(remark)
