"""Figures of two traces against those that TraceLens computed."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.corpus import corpus_file, shared_file
from tui.analysis.ops.op_costs import costs_by_name
from tui.loaders.registry import load_input

if TYPE_CHECKING:
    from tui.model.profile import Profile

TRACES = ("gaunernst_bert-small-uncased__1016001", "Qwen_Qwen1.5-0.5B-Chat__1016005")


@pytest.fixture(params=TRACES)
def trace(request: pytest.FixtureRequest) -> tuple[Profile, Path]:
    """Return a trace and the folder with the tables of TraceLens."""
    name = str(request.param)
    return load_input(corpus_file(f"kineto/{name}.json.gz")), Path(corpus_file(f"kineto/{name}_perf_report_csvs"))


def work_with_ops(profile: Profile) -> pl.DataFrame:
    """Return GPU work with the name and the shapes of its op."""
    ops = profile["ops"].select("op", "input_shapes", op_name=pl.col("name").cast(pl.String))
    return (
        profile["activities"]
        .join(ops, on="op", how="left")
        .with_columns(pl.col("name", "input_shapes").cast(pl.String))
    )


def shapes(text: str) -> str | None:
    """Return TraceLens's tuples as lists."""
    text_of_shapes = json.dumps(ast.literal_eval(text))
    return text_of_shapes if any(json.loads(text_of_shapes)) else None


def test_kernels_belong_to_the_same_ops(trace: tuple[Profile, Path]) -> None:
    profile, folder = trace
    expected = {
        (row["Parent cpu_op"], row["Kernel name"], row["Kernel stream"]): (
            row["Kernel duration (µs)_count"],
            round(row["Kernel duration (µs)_sum"] * 1000),
            round(row["Kernel duration (µs)_min"] * 1000),
            round(row["Kernel duration (µs)_max"] * 1000),
        )
        for row in pl.read_csv(folder / "kernel_summary.csv").iter_rows(named=True)
    }
    time = pl.col("duration_ns")
    kernels_by_op = {
        tuple(row[:3]): tuple(row[3:])
        for row in work_with_ops(profile)
        .filter(pl.col("kind") == "kernel")
        .group_by("op_name", "name", "stream")
        .agg(pl.len(), time.sum(), time.min().alias("min"), time.max().alias("max"))
        .iter_rows()
    }
    assert kernels_by_op == expected


def test_ops_have_the_same_gpu_time(trace: tuple[Profile, Path]) -> None:
    profile, folder = trace
    expected = pl.read_csv(folder / "ops_summary.csv").rows_by_key("name", named=True, unique=True)
    costs = costs_by_name(profile).filter(pl.col("gpu_self_ns") > 0).rows_by_key("op", named=True, unique=True)
    assert costs.keys() == expected.keys()
    for op, row in costs.items():
        # TraceLens rounds each time to a quarter of a nanosecond or so.
        near_us = 0.0005 * row["launches"]
        assert row["gpu_self_ns"] / 1e3 == pytest.approx(expected[op]["total_direct_kernel_time_sum"], abs=near_us)
        # aten::arange calls itself: PyTorch's table, as ours, has the inner call in the outer one too.
        times = 2 if op == "aten::arange" else 1
        assert row["gpu_total_ns"] / 1e3 / times == pytest.approx(
            expected[op]["total_subtree_kernel_time_sum"], abs=near_us
        )


def test_ops_are_distinguished_by_their_shapes(trace: tuple[Profile, Path]) -> None:
    profile, folder = trace
    expected: dict[tuple[str, str | None], int] = {}
    for row in pl.read_csv(folder / "ops_unique_args.csv").iter_rows(named=True):
        key = (row["name"], shapes(row["Input Dims"]))
        expected[key] = expected.get(key, 0) + row["operation_count"]
    times = {
        (op, shape): count
        for op, shape, count in work_with_ops(profile)
        .filter(pl.col("op").is_not_null())
        .group_by("op_name", "input_shapes")
        .agg(pl.col("op").n_unique())
        .iter_rows()
    }
    assert times == expected


def test_matrix_products_have_the_same_sizes_and_kernels(trace: tuple[Profile, Path]) -> None:
    profile, folder = trace
    work = work_with_ops(profile).filter(pl.col("kind") == "kernel")
    rows = pl.read_csv(folder / "GEMM.csv").rows(named=True)
    assert rows
    for row in rows:
        m, n, k = row["param: M"], row["param: N"], row["param: K"]
        listed = re.findall(
            r"'name': '([^']*)', 'stream': 7, 'count': (\d+)", row["kernel_details__summarize_kernel_stats"]
        )
        kernels = work.filter(
            pl.col("op_name") == row["name"],
            pl.col("input_shapes").str.contains(rf"\b{m}, {k}\], \[(\d+, )?{k}, {n}\]"),
        )
        kernel_counts = [(name, str(count)) for name, count in kernels.group_by("name").len().sort("name").iter_rows()]
        assert kernel_counts == sorted(kernel_count for kernel_count in listed if not kernel_count[0].startswith("Mem"))


def test_ops_have_the_same_gpu_busy_time(trace: tuple[Profile, Path]) -> None:
    profile, folder = trace
    # TraceLens leaves out what it finds no op for. All of it ran on one stream, one after another.
    linked = profile["activities"].filter(pl.col("op").is_not_null())
    assert linked["stream"].unique().to_list() == [7]
    times = dict(pl.read_csv(folder / "gpu_timeline.csv").select("type", "time ms").iter_rows())
    is_copy = pl.col("kind") == "memcpy"
    assert linked["duration_ns"].sum() / 1e6 == pytest.approx(times["busy_time"], abs=1e-4)
    assert linked.filter(is_copy)["duration_ns"].sum() / 1e6 == pytest.approx(times["total_memcpy_time"], abs=1e-4)


PLUGIN = {
    "corpus/kineto/resnet50_nw0_worker0.1623143089861.pt.trace.json.gz": {"kernel": (8_772, 591_532_000)},
    "corpus/kineto/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": {"kernel": (1_465, 45_432_698)},
    "recordings/resnet50_amp.pt.trace.json.gz": {"kernel": (4_453, 76_368_165)},
    "recordings/gpt_cudagraph.pt.trace.json.gz": {"kernel": (4_538, 17_087_552)},
    "recordings/tiny_kernels.pt.trace.json.gz": {"kernel": (6_408, 6_156_261)},
}
"""Number and time (ns) of the kernels of whole traces, by TensorBoard's plugin (torch-tb-profiler 0.4.3)."""


def count_and_time_by_kind(rows: pl.DataFrame) -> dict[str, tuple[int, int]]:
    sums = rows.group_by(pl.col("kind").cast(pl.String)).agg(pl.len(), pl.col("duration_ns").sum())
    return {kind: (number, time_ns) for kind, number, time_ns in sums.iter_rows()}


@pytest.mark.parametrize("name", PLUGIN)
def test_kernels_equal_those_of_the_tensorboard_plugin(name: str) -> None:
    assert count_and_time_by_kind(load_input(shared_file(name))["activities"])["kernel"] == PLUGIN[name]["kernel"]


def test_work_of_steps_equals_that_of_the_plugin_and_hta() -> None:
    work = load_input(corpus_file("kineto/resnet50_nw0_worker0.1623143089861.pt.trace.json.gz"))["activities"]
    kernels = [count_and_time_by_kind(work.filter(iteration=step))["kernel"][1] for step in (5, 6, 7)]
    assert kernels == [98_598_000, 98_570_000, 98_596_000]
    # HTA 0.5.0 leaves out the last step.
    known = count_and_time_by_kind(work.filter(pl.col("iteration") < 10))
    assert known["kernel"][1] == 492_891_000
    assert known["memcpy"][1] + known["memset"][1] == 10_140_000


def test_work_without_a_launch_record_counts_in_totals_and_in_no_step() -> None:
    work = load_input(corpus_file("kineto/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"))["activities"]
    step = count_and_time_by_kind(work.filter(iteration=6))
    assert (step["kernel"][1], step["memset"][1], step["memcpy"][1]) == (31_760_058, 143_047, 2_368)
    unlaunched = work.filter(pl.col("op_join").cast(pl.String) == "launch not recorded")
    assert (unlaunched.height, unlaunched["duration_ns"].sum()) == (509, 13_741_827)
