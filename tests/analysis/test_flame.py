"""The flame graph: sums agree with Group Ops, and the children of a node add up to it."""

from __future__ import annotations

import polars as pl
import pytest

from tests.profiles import SAMPLES, load_one
from tui.analysis.iterations.iteration_table import with_iterations
from tui.analysis.ops.flame import FLAME, GROUPINGS, exported_flame, flame, flame_by, matching_nodes, with_growth
from tui.analysis.ops.op_trees import group_ops


@pytest.mark.parametrize("name", ["resnet50_training", "caffe_conv1", "gpt_summary", "tracking_four_runs"])
def test_every_grouping_adds_up_to_group_ops(name: str) -> None:
    profile = with_iterations(load_one(str(SAMPLES / f"{name}.nvprof.log")))
    totals = group_ops(profile).filter(pl.col("parent") == -1).sort("session")["gpu_ns"].to_list()
    for grouping in GROUPINGS:
        if grouping.unavailable_reason(profile):
            continue
        rows = flame_by(profile, grouping.name)
        assert rows.filter(pl.col("parent") == -1).sort("session")["gpu_ns"].to_list() == totals
        numbered = rows.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
        children = rows.group_by("parent").agg(pl.col("gpu_ns").sum().alias("inside"))
        with_children = numbered.join(children, left_on="row", right_on="parent", how="left").fill_null(0)
        is_kernel = pl.col("node_kind") == "kernel"
        assert with_children.filter(~is_kernel, pl.col("gpu_self_ns") + pl.col("inside") != pl.col("gpu_ns")).is_empty()
        assert rows["gpu_self_ns"].sum() == sum(totals)
        with_parents = numbered.join(numbered, left_on="parent", right_on="row", suffix="_around")
        end_ns = pl.col("offset_ns") + pl.col("gpu_ns")
        is_outside = (pl.col("offset_ns") < pl.col("offset_ns_around")) | (
            end_ns > pl.col("offset_ns_around") + pl.col("gpu_ns_around")
        )
        assert with_parents.filter(is_outside).is_empty()


def test_exact_nodes_search_and_growth() -> None:
    profile = with_iterations(load_one(str(SAMPLES / "caffe_conv1.nvprof.log")))
    rows = flame(profile)
    assert rows.select("node", "node_kind", "level", "gpu_ns", "offset_ns").rows()[4:8] == [
        ("convolution backward data", "op", 3, 260_020_000, 281_640_000),
        ("cudnn_dgrad_sm35_ldg_nt_64x16x64x16x16", "kernel", 4, 260_020_000, 281_640_000),
        ("convolution", "op", 3, 168_208_777, 541_660_000),
        ("cudnn_convolve_precomputed_sgemm_sm35_ldg_nn_64x16x128x8x32", "kernel", 4, 168_197_000, 541_660_000),
    ]
    assert rows["kernel_kind"].value_counts(sort=True).rows() == [
        (None, 12),
        ("other", 9),
        ("memset", 1),
        ("memory", 1),
    ]
    assert {column.name for column in FLAME.columns} <= set(rows.columns)
    assert "parent" not in exported_flame(profile).columns
    # Nested matches count once.
    matches, gpu_ns = matching_nodes(rows, "conv")
    assert gpu_ns == 730_138_777
    assert matches.sum() > 5
    assert matching_nodes(rows, "CONV")[1] == matching_nodes(rows, "")[1] == 0
    compared = with_growth(rows, rows.with_columns(pl.col("gpu_ns") * 2), (1, 4))
    assert compared["growth_pct"].unique().to_list() == [100.0]
    assert compared["growth_ns"][0] == 753_580_086 // 2
    assert with_growth(rows, rows.clear())["growth_pct"].null_count() == rows.height
