"""Every grouping of ops, and every level of every tree, adds up to all GPU time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given, settings

from tests.analysis.frames import copy, kernel, make_profile, summary_row
from tests.analysis.op_profiles import op_profiles
from tui.analysis.dashboard import ops_over_sessions
from tui.analysis.kernels import kernels
from tui.analysis.ops import groupings, op_type_rules
from tui.analysis.ops.groupings import GROUPINGS, by_class, grouping_by_name, parse_classes
from tui.analysis.ops.op_costs import recorded_ops
from tui.analysis.ops.op_instances import instances
from tui.analysis.ops.op_trees import TREES, by_range
from tui.analysis.ops.op_types import gpu_time_by_op_type, op_type_summary, op_types
from tui.analysis.ops.ops_by_name import coverage, coverage_note, inferred_ops
from tui.model.errors import ProftuiError
from tui.model.forest import build_forest

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.profile import Profile


def gpu_time_by_session(profile: Profile) -> dict[int, int]:
    """Return the GPU time by session."""
    return weight_by_session(kernels(profile), "total_ns")


def weight_by_session(rows: pl.DataFrame, weight: str) -> dict[int, int]:
    """Return the sum of a weight by session, without rows of unknown weight."""
    sums = rows.group_by("session").agg(pl.col(weight).sum()).filter(pl.col(weight) > 0)
    return dict(sums.sort("session").rows())


def without_zeros(sums: dict[int, int]) -> dict[int, int]:
    return dict(sorted((session, value) for session, value in sums.items() if value))


@given(op_profiles())
def test_groupings_add_up_to_all_gpu_time(profile: Profile) -> None:
    total_ns = without_zeros(gpu_time_by_session(profile))
    for grouping in GROUPINGS:
        rows = grouping.rows(profile)
        assert weight_by_session(rows, grouping.spec.weight) == total_ns, grouping.name
        assert {column.name for column in grouping.spec.columns} <= set(rows.columns)
        assert rows.select(grouping.spec.key).is_duplicated().any() is False
    assert weight_by_session(op_type_summary(profile), "gpu_ns") == total_ns
    assert weight_by_session(instances(profile), "gpu_ns") == total_ns
    assert coverage(profile).total_ns == sum(total_ns.values())


# Each example computes the work of hundreds of rows.
@settings(max_examples=settings().max_examples // 3)
@given(op_profiles())
def test_kernels_and_launches_of_a_row_add_up_to_it(profile: Profile) -> None:
    for grouping in GROUPINGS:
        rows = grouping.rows(profile)
        grouped: list[int] = []
        for row in rows.to_dicts():
            group_kernels = grouping.kernels(profile, row)
            assert group_kernels["total_ns"].sum() == (row[grouping.spec.weight] or 0), (grouping.name, row)
            numbers = grouping.activities(profile, row).to_list()
            grouped += numbers
            if numbers:
                first = group_kernels.row(0, named=True)
                launches = grouping.launches(profile, row, kind=first["kind"], name=first["name"])
                assert launches["duration_ns"].sum() == (first["total_ns"] or 0)
        assert sorted(grouped) == profile["activities"]["activity"].to_list(), grouping.name


@given(op_profiles())
def test_every_level_of_every_tree_adds_up(profile: Profile) -> None:
    total_ns = without_zeros(gpu_time_by_session(profile))
    for tree in TREES:
        if tree.unavailable_reason(profile):
            continue
        rows = tree.tree(profile)
        assert weight_by_session(rows, "gpu_self_ns") == total_ns, tree.name
        assert weight_by_session(rows.filter(pl.col("level") == 1), "gpu_ns") == total_ns
        forest = build_forest(rows["parent"].to_numpy())
        self_ns, inclusive_ns = rows["gpu_self_ns"].fill_null(0).to_numpy(), rows["gpu_ns"].fill_null(0).to_numpy()
        assert (inclusive_ns == self_ns + forest.child_sums(inclusive_ns)).all()
        # Each row is followed by its children, sorted by time.
        assert rows["level"].to_list() == [
            1 if parent < 0 else rows["level"][parent] + 1 for parent in rows["parent"].to_list()
        ]
        by_parent = rows.filter(pl.col("parent") >= 0).group_by("parent").agg(pl.col("gpu_ns").fill_null(0))
        assert all(times == sorted(times, reverse=True) for times in by_parent["gpu_ns"].to_list())


def test_classes_are_defined_by_the_user_and_other_always_exists(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "kernel_classes.toml"
    monkeypatch.setattr(groupings, "classes_path", lambda: path)
    profile = make_profile(
        activities=[kernel("my_gemm", 5), kernel("my_gemm_relu", 7), kernel("flash", 3), copy("HtoD", 4)],
        summary=[summary_row("gpu", "my_gemm", 2, 30, session=1)],
    )
    assert grouping_by_name("class").unavailable_reason(profile) == f"no kernel classes defined in {path}"
    assert by_class(profile).select("session", "kernel_class", "total_ns").rows() == [
        (1, "other", 30),
        (0, "other", 19),
    ]
    path.write_text('[[class]]\nname = "fused"\npattern = "RELU"\n\n[[class]]\nname = "gemm"\npattern = "gemm"\n')
    assert grouping_by_name("class").unavailable_reason(profile) == ""
    # my_gemm_relu is only in the first matching class; other is last, with 0 if it is empty.
    assert by_class(profile).select("session", "kernel_class", "total_ns", "calls").rows() == [
        (1, "gemm", 30, 2),
        (0, "fused", 7, 1),
        (0, "gemm", 5, 1),
        (0, "other", 7, 2),
        (1, "other", 0, 0),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[class]", "not TOML"),
        ('[[class]]\nname = "a"', "expected name and pattern"),
        ('[[class]]\nname = "a"\npattern = 5', "must be strings"),
        ('[[class]]\nname = "a"\npattern = "("', "not a regular expression"),
        ('[[class]]\nname = "other"\npattern = "a"', "other is reserved for kernels that match no pattern"),
        ("[class]\nname = 1", "expected"),
        ("wrong = 1", "expected"),
    ],
)
def test_an_invalid_file_of_classes_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ProftuiError, match=message) as error:
        parse_classes(text, "kernel_classes.toml")
    assert "kernel_classes.toml" in str(error.value)


def test_unclassified_kernels_are_reported() -> None:
    profile = make_profile(activities=[kernel("volta_sgemm", 75, start_ns=0), kernel("qqq", 25, start_ns=90)])
    op_coverage = coverage(profile)
    assert (op_coverage.inferred_ns, op_coverage.unknown_ns) == (75, 25)
    assert coverage_note(profile) == ("Ops inferred from kernel names; 25 ns (25.0% of GPU time) unclassified")
    classified = make_profile(activities=[kernel("volta_sgemm", 75, start_ns=0)])
    assert coverage_note(classified) == "Ops inferred from kernel names; all classified"
    with_graphs = make_profile(
        activities=[
            kernel("volta_sgemm", 75, start_ns=0),
            {"kind": "graph", "name": "CUDA graph 4", "duration_ns": 20, "start_ns": 80},
            {"kind": "graph", "name": "[CUDA graph]", "duration_ns": 5, "start_ns": 100},
        ]
    )
    assert coverage(with_graphs).graph_ns == 25
    assert coverage_note(with_graphs) == (
        "Ops inferred from kernel names; all classified; 25.0% of GPU time is in CUDA graphs recorded as a whole"
    )
    assert coverage_note(make_profile()) == ""
    assert coverage_note(make_profile(activities=[copy("HtoD", 5)])) == "Only memcpy and memset"


def test_a_tree_of_work_with_unknown_durations_has_no_times() -> None:
    profile = make_profile(activities=[kernel("sgemm", None, device=0), kernel("relu", None, device=0)])
    rows = next(tree for tree in TREES if tree.name == "type").tree(profile)
    assert rows["gpu_ns"].null_count() == rows["gpu_self_ns"].null_count() == rows.height > 0


def test_averages_are_of_work_with_known_durations() -> None:
    fault = {"kind": "um", "name": "[Unified Memory CPU page faults]", "duration_ns": None}
    copy_row = {"kind": "um", "name": "[Unified Memory Memcpy HtoD]"}
    work = [{**copy_row, "duration_ns": 10, "start_ns": 0}, {**copy_row, "duration_ns": 30, "start_ns": 20}]
    profile = make_profile(activities=[*work, {**fault, "start_ns": 60}, {**fault, "start_ns": 70}])
    columns = pl.col("total_ns", "avg_ns")
    assert inferred_ops(profile).select("calls", columns).rows() == [(4, 40, 20)]
    assert grouping_by_name("config").rows(profile).select("calls", columns).rows() == [(4, 40, 20)]
    assert ops_over_sessions(profile).select("launches", columns).rows() == [(4, 40, 20)]
    printed = make_profile(summary=[summary_row("gpu", "a", 4, 40), summary_row("gpu", "a", 3, None)])
    assert kernels(printed).select("calls", columns).rows() == [(7, 40, 10)]


def test_configurations_with_equal_text_are_distinguished() -> None:
    shape = {"grid_x": 1, "grid_y": 1, "grid_z": 1, "block_x": 32, "block_y": 1, "block_z": 1, "registers": 8}
    sizes = [(1024, 0), (0, 1024), (1 << 20, 0), ((1 << 20) + 1, 0)]
    work = [
        kernel("k", 5, start_ns=start_ns, static_shared_bytes=static, dynamic_shared_bytes=dynamic, **shape)
        for start_ns, (static, dynamic) in enumerate(sizes)
    ]
    by_config = grouping_by_name("config")
    rows = by_config.rows(make_profile(activities=work))
    assert rows.height == 4
    assert rows["config"].n_unique() == 2
    assert not rows.select(by_config.spec.key).is_duplicated().any()


def test_the_time_of_ops_without_durations_is_unknown() -> None:
    work = [
        kernel("volta_sgemm", None, start_ns=0),
        copy("HtoD", 5, start_ns=10),
        kernel("volta_sgemm", 7, start_ns=20),
    ]
    rows = instances(make_profile(activities=work)).sort("start_ns")
    assert rows["gpu_ns"].to_list() == [None, 5, 7]
    assert rows["gpu_busy_ns"].to_list() == [None, 5, 7]
    assert rows["gpu_idle_ns"].to_list() == [None, None, None]


def test_op_types_of_equal_name_are_added_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "op_types.toml"
    path.write_text(
        '[[rule]]\nop_type = "fancy backward"\npattern = "^one"\n'
        '[[rule]]\nop_type = "fancy"\ndirection = "bprop"\npattern = "^two"\n'
        '[groups]\nfancy = ["fancy backward"]\n'
    )
    monkeypatch.setattr(op_type_rules, "op_type_rules_path", lambda: path)
    profile = make_profile(activities=[kernel("one", 3, start_ns=0), kernel("two", 5, start_ns=10)])
    assert inferred_ops(profile)["op"].to_list() == ["fancy backward", "fancy backward"]
    rows = next(rows for rows in TREES if rows.name == "type").tree(profile)
    op_nodes = rows.filter(pl.col("node_kind") == "op").select("path", "gpu_ns", "launches", "calls")
    assert op_nodes.rows() == [("fancy/fancy backward", 8, 2, 2)]
    assert rows["gpu_ns"][0] == 8


def test_steps_of_a_loop_are_one_range_with_a_descriptive_name() -> None:
    steps = [
        {"name": f"step {number}", "start_ns": 100 * number, "duration_ns": 90, "iteration": number, "tid": 1}
        for number in (0, 1)
    ]
    calls = [
        {"name": "cudaLaunchKernel", "start_ns": 100 * number, "duration_ns": 5, "tid": 1, "correlation": number}
        for number in (0, 1)
    ]
    work = [kernel("volta_sgemm", 5, start_ns=100 * number + 20, correlation=number) for number in (0, 1)]
    rows = by_range(make_profile(ranges=steps, api_calls=calls, activities=work))
    assert rows.filter(pl.col("node") == "step *")["launches"].to_list() == [2]


def test_rows_of_equal_time_have_a_stable_order() -> None:
    work = [kernel(f"volta_sgemm_{number}", 5, session=session) for session in range(9) for number in range(9)]
    profile = make_profile(activities=work)
    assert gpu_time_by_op_type(profile)["session"].to_list() == list(range(9))
    op = {"start_ns": 0, "duration_ns": 9, "op_source": "recorded"}
    ops = [{**op, "op": session, "session": session, "name": "aten::mm"} for session in range(9)]
    recorded = make_profile(ops=ops, activities=[{**row, "op": row["session"], "op_join": "launch"} for row in work])
    assert gpu_time_by_op_type(recorded)["session"].to_list() == list(range(9))
    assert op_types(recorded)["session"].to_list() == list(range(9))
    assert recorded_ops(recorded)["session"].to_list() == list(range(9))
    assert grouping_by_name("shapes").rows(recorded)["session"].to_list() == list(range(9))
