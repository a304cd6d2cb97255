"""The Op Type Summary: sums, and agreement with DLProf's report of the same recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from tests.analysis.frames import kernel, make_profile, summary_row
from tests.analysis.test_op_instances import load_with_iterations
from tui.analysis.ops.op_types import FOLDS, OP_TYPE_SUMMARY, op_type_summary
from tui.analysis.ops.ops_by_name import OPS, ops
from tui.model.table_spec import TableState
from tui.query.apply import apply

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMN_BY_DLPROF_FIGURE = {
    "CPU Time": "cpu_own",
    "GPU Time": "gpu_busy",
    "CPU Overhead": "cpu_overhead",
    "GPU Idle": "gpu_idle",
}


def test_figures_agree_with_dlprofs_report(corpus: Callable[[str], str]) -> None:
    rows = op_type_summary(load_with_iterations(corpus("dlprof/dlprof_dldb.sqlite")))
    report = pl.read_csv(corpus("dlprof/no_relu/dlprof_op_type.csv"), skip_lines=1)
    assert rows["op_type"].cast(pl.String).sort().to_list() == report["Op Type"].sort().to_list()
    row_by_type = {row["op_type"]: row for row in rows.to_dicts()}
    for expected in report.to_dicts():
        row = row_by_type[expected["Op Type"]]
        assert (row["ops"], row["calls"]) == (expected["# Ops"], expected["# Calls"])
        for figure, column in COLUMN_BY_DLPROF_FIGURE.items():
            assert row[f"{column}_ns"] == expected[f"Total {figure} (ns)"]
            assert row[f"{column}_min_ns"] == expected[f"Min {figure} (ns)"]
            assert row[f"{column}_max_ns"] == expected[f"Max {figure} (ns)"]
            assert abs(row[f"{column}_avg_ns"] - expected[f"Avg. {figure} (ns)"]) <= 0.5


def op(number: int, name: str, start_ns: int, duration_ns: int, **fields: Any) -> dict[str, Any]:
    columns = {"pid": 9, "tid": 1, "op_source": "recorded"}
    return {**columns, "op": number, "name": name, "start_ns": start_ns, "duration_ns": duration_ns, **fields}


def test_nested_ops_count_their_self_time() -> None:
    profile = make_profile(
        ops=[op(0, "aten::linear", 0, 100), op(1, "aten::addmm", 10, 60, parent=0), op(2, "aten::mm", 200, 30)],
        api_calls=[{"pid": 9, "tid": 1, "name": "cudaLaunchKernel", "start_ns": 20, "duration_ns": 15}],
        activities=[
            kernel("sgemm", 500, start_ns=100, op=1, op_join="launch", device=0),
            kernel("sgemm", 300, start_ns=700, op=1, op_join="launch", device=0),
            kernel("sgemm", 200, start_ns=800, op=1, op_join="launch", device=0),
        ],
    )
    (row,) = op_type_summary(profile).to_dicts()
    assert (row["op_type"], row["ops"], row["calls"], row["launches"]) == ("gemm", 3, 3, 3)
    assert (row["cpu_own_ns"], row["cpu_own_min_ns"], row["cpu_own_max_ns"]) == (130, 30, 60)
    assert row["cpu_overhead_ns"] == 115
    # Two of the kernels run at once: busy is less than the sum, idle is the gap between.
    assert (row["gpu_ns"], row["gpu_busy_ns"], row["gpu_idle_ns"]) == (1000, 800, 100)
    assert (row["gpu_min_ns"], row["gpu_avg_ns"], row["gpu_max_ns"]) == (0, 333, 1000)


def test_unrecorded_values_are_unknown() -> None:
    (totals,) = op_type_summary(make_profile(summary=[summary_row("gpu", "sgemm", 4, 100)])).to_dicts()
    assert (totals["gpu_ns"], totals["launches"], totals["time_pct"]) == (100, 4, 100.0)
    known_columns = {"op_type", "gpu_ns", "time_pct", "launches", "untimed_launches", "op_source", "session"}
    assert {name for name, value in totals.items() if value is not None} == known_columns
    (trace,) = op_type_summary(make_profile(activities=[kernel("sgemm", 9, start_ns=0, stream=7)])).to_dicts()
    assert (trace["ops"], trace["calls"], trace["gpu_avg_ns"], trace["gpu_idle_ns"]) == (1, 1, 9, None)
    assert trace["cpu_own_ns"] is None


def test_ops_outside_iterations_are_counted_by_name() -> None:
    steps = [
        {"name": f"step {number}", "start_ns": 100 * number, "duration_ns": 50, "iteration": number}
        for number in (1, 2)
    ]
    names = {100: "sgemm", 110: "relu", 120: "sgemm", 210: "sgemm", 220: "relu", 230: "sgemm"}
    inside = [
        kernel(name, 5, start_ns=start_ns, stream=7, iteration=start_ns // 100) for start_ns, name in names.items()
    ]
    outside = [
        kernel(name, 5, start_ns=start_ns, stream=7)
        for start_ns, name in ((10, "sgemm"), (20, "softmax"), (30, "sgemm"))
    ]
    rows = op_type_summary(make_profile(ranges=steps, activities=[*inside, *outside]))
    assert {row["op_type"]: (row["ops"], row["calls"]) for row in rows.to_dicts()} == {
        "gemm": (2, 6),
        "activation": (1, 2),
        "softmax": (1, 1),
    }


def test_every_figure_belongs_to_one_group_of_columns() -> None:
    figures = [name for fold in FOLDS for name in (fold.total, *fold.others)]
    assert len(figures) == len(set(figures)) == 20
    assert {column.name for column in OP_TYPE_SUMMARY.columns} >= set(figures)
    assert all(fold.holds(fold.total) and fold.holds(fold.others[0]) for fold in FOLDS)
    assert not FOLDS[0].holds("op_type")


def test_launches_and_calls_of_ops_have_separate_columns() -> None:
    profile = load_with_iterations("sample_logs/resnet50_training.nvprof.log")
    column_by_title = {column.title: column.name for column in OPS.columns}
    assert "Calls" not in column_by_title
    by_op = ops(profile).group_by("op_type").agg(pl.col(column_by_title["Launches"]).sum().alias("launches"))
    by_type = op_type_summary(profile).select("op_type", "launches")
    assert by_op.sort("op_type").rows() == by_type.sort("op_type").rows()
    filtered = apply(ops(profile), OPS, TableState(filter="launches<6"), units={})
    assert filtered.error is None
    assert 0 < filtered.passed == (ops(profile)["calls"] < 6).sum() < ops(profile).height
