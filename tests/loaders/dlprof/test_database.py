from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.loaders.dlprof.twin import ID, TABLES, changed_tables, read, write
from tui.loaders.registry import formats, load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.profile import Profile


@pytest.fixture
def twin(tmp_path: Path) -> Profile:
    return read(write(tmp_path / "dlprof_dldb.sqlite"))


def reasons(profile: Profile) -> list[str]:
    return profile["issues"]["reason"].to_list()


def test_the_session_names_what_was_profiled(twin: Profile) -> None:
    (session,) = twin["sessions"].to_dicts()
    assert {name: session[name] for name in session if session[name] is not None and name != "source"} == {
        "session": 0,
        "format": "dlprof-database",
        "tool": "DLProf",
        "tool_version": "1.8.0",
        "command": "dlprof python train.py",
        "pid": 70,
        "framework": "PyTorch 1.9",
        "cuda_version": "11.4",
        "driver_version": "470.57",
        "iteration_source": "DLProf key op global_step",
    }
    assert twin["devices"].select("device", "name", "compute_capability", "sm_count").rows() == [
        (0, "Tesla T4", "7.5", 40)
    ]


def test_kernels_have_their_launch_and_the_instance_of_their_op(twin: Profile) -> None:
    kernels = twin["activities"].filter(pl.col("kind") == "kernel")
    columns = ("start_ns", "duration_ns", "device", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
    assert kernels.select(columns).rows() == [
        (1_200, 100, 0, 8, 2, 1, 128, 1, 1),
        (2_100, 300, 0, 16, 1, 1, 128, 1, 1),
        (3_200, 120, 0, 8, 2, 1, 128, 1, 1),
        (3_800, 300, 0, 16, 1, 1, 128, 1, 1),
    ]
    ops = twin["ops"].select("op", "op_id", pl.col("start_ns").alias("op_start_ns"))
    columns = ("op_id", "op_start_ns", "op_join", "iteration", "uses_tensor_core", "tensor_core_reason")
    assert kernels.join(ops, on="op", maintain_order="left").select(columns).rows() == [
        ("CONV2D_1", 1_000, "recorded", 5, True, "DLProf"),
        ("CONV2D_1_BPROP", 1_500, "recorded", 5, False, "DLProf"),
        ("CONV2D_1", 3_000, "recorded", 6, True, "DLProf"),
        ("CONV2D_1_BPROP", 3_600, "recorded", 6, False, "DLProf"),
    ]
    assert kernels["name"].to_list()[:2] == [
        "void ours::conv_kernel<float, (int)4>(T1 *, int)",
        "void ours::<unnamed>::wgrad_kernel<float>(T1 *)",
    ]
    assert kernels["short_name"].to_list()[:2] == ["ours::conv_kernel", "ours::(anonymous namespace)::wgrad_kernel"]


def test_copies_and_memsets(twin: Profile) -> None:
    columns = ("kind", "name", "start_ns", "duration_ns", "size_bytes", "copy_kind", "iteration", "uses_tensor_core")
    assert twin["activities"].filter(pl.col("kind") != "kernel").select(columns).rows() == [
        ("memset", "[CUDA memset]", 1_530, 10, 64, None, 5, None),
        ("memcpy", "[CUDA memcpy HtoD]", 3_050, 40, 4_096, "HtoD", 6, None),
    ]
    assert twin["activities"]["throughput"].drop_nulls().to_list() == [6.4e9, 102.4e9]


def test_values_missing_from_the_database_are_null(twin: Profile) -> None:
    columns = ("context", "stream", "registers", "static_shared_bytes", "dynamic_shared_bytes", "shared_bytes")
    for column in (*columns, "src_memory", "line"):
        assert twin["activities"][column].null_count() == twin["activities"].height
    assert twin["ops"]["parent"].null_count() == twin["ops"].height


def test_every_launch_has_an_api_call(twin: Profile) -> None:
    calls = twin["api_calls"].select("name", "start_ns", "duration_ns", "pid", "tid")
    assert calls.rows() == [
        ("cudaFree", 905, 40, 70, 71),
        ("[kernel launch]", 1_100, 20, 70, 71),
        ("cudaStreamSynchronize", 1_130, 260, 70, 71),
        ("cudaMemsetAsync", 1_510, 10, 70, 72),
        ("[kernel launch]", 1_600, 10, 70, 72),
        ("cudaMemcpyAsync", 3_010, 30, 70, 71),
        ("[kernel launch]", 3_100, 30, 70, 71),
        ("[kernel launch]", 3_700, 15, 70, 72),
    ]
    launched = twin["activities"].join(twin["api_calls"], on="correlation", suffix="_call", maintain_order="left")
    assert launched.select("start_ns", "start_ns_call").rows() == [
        (1_200, 1_100),
        (1_530, 1_510),
        (2_100, 1_600),
        (3_050, 3_010),
        (3_200, 3_100),
        (3_800, 3_700),
    ]


def test_ops_are_reported_instance_by_instance(twin: Profile) -> None:
    columns = ("op", "op_id", "name", "op_type", "direction", "group", "start_ns", "duration_ns", "tid", "iteration")
    group = "module/Net::_call_impl/Conv2d::forward"
    free = ("CUDAFREE_V3020_1", "unassociated_cudaFree_v3020", "cudaFree_v3020", None, None)
    assert twin["ops"].select(columns).rows() == [
        (0, *free, 900, 50, 71, 5),
        (1, "CONV2D_1", "conv2d", "conv2d", "fprop", group, 1_000, 400, 71, 5),
        (2, "CONV2D_1_BPROP", "conv2d", "conv2d", "bprop", group, 1_500, 200, 72, 5),
        (3, "CONV2D_1", "conv2d", "conv2d", "fprop", group, 3_000, 500, 71, 6),
        (4, "CONV2D_1_BPROP", "conv2d", "conv2d", "bprop", group, 3_600, 300, 72, 6),
    ]
    assert twin["ops"].head(3).select("dtype", "input_shapes", "stack", "tc_eligible", "op_source").rows() == [
        (None, None, None, None, "recorded"),
        ("float16", "[[8,3,32,32],[6,3,3,3]]", "net.py:4;train.py:9", True, "recorded"),
        ("float16", None, None, False, "recorded"),
    ]


def test_iterations_are_ranges(twin: Profile) -> None:
    columns = ("name", "domain", "start_ns", "duration_ns", "iteration")
    assert twin["ranges"].select(columns).rows() == [
        ("iteration 5", "DLProf", 900, 1_100, 5),
        ("iteration 6", "DLProf", 2_000, 2_100, 6),
    ]


def test_figures_are_those_of_dlprof(twin: Profile) -> None:
    figures = twin["tool_figures"]
    assert figures["tool"].unique().to_list() == ["DLProf"]
    assert figures["section"].unique(maintain_order=True).to_list() == [
        "System Config",
        "GPUs",
        "Performance Summary",
        "Resource Usage Breakdown",
        "All Ops",
        "All Kernels",
        "Op Types",
        "Iterations",
    ]

    def rows_of_section(section: str) -> list[tuple[object, ...]]:
        return figures.filter(section=section).select("name", "value", "unit", "text").rows()

    assert rows_of_section("Performance Summary") == [
        ("Wall Clock Time", 3_200.0, "ns", None),
        ("Tensor Core Kernel Efficiency", 84.6, "%", None),
        ("GPU Utilization", 27.5, "%", None),
        ("Total Iterations", 2.0, None, None),
        ("Profiled Iterations", 2.0, None, None),
        ("Start Iteration", 5.0, None, None),
        ("Stop Iteration", 6.0, None, None),
        ("Average Iteration Time", 1_600.0, "ns", None),
        ("Iteration Time Standard Deviation", 500.0, "ns", None),
        ("Key Op", None, None, "global_step"),
    ]
    assert rows_of_section("Resource Usage Breakdown")[-2:] == [("CPU", 28.1, "%", None), ("Other", 44.6, "%", None)]
    assert rows_of_section("All Kernels")[:6] == [
        ("All kernels: GPU Time", 870.0, "ns", None),
        ("All kernels: CPU Time", 115.0, "ns", None),
        ("All kernels: # Kernels", 4.0, None, None),
        ("Kernels using TC: GPU Time", 220.0, "ns", None),
        ("Kernels using TC: CPU Time", 50.0, "ns", None),
        ("Kernels using TC: # Kernels", 1.0, None, None),
    ]
    assert rows_of_section("GPUs") == [
        ("GPU 0: GPU Utilization", 27.5, "%", None),
        ("GPU memory 1: Total", 16_000.0, "B", None),
        ("GPU memory 1: Used", 4_000.0, "B", None),
    ]
    assert ("conv2d: Avg. GPU Time", 217.5, "ns", None) in rows_of_section("Op Types")
    assert ("Iteration 6: Memory", 40.0, "ns", None) in rows_of_section("Iterations")
    assert len(rows_of_section("Iterations")) == 2 * 9
    assert ("Mode", None, None, "pytorch") in rows_of_section("System Config")


def test_advice_is_shown_verbatim(twin: Profile) -> None:
    assert twin["tool_findings"].select("tool", "severity", "problem", "recommendation").rows() == [
        ("DLProf", None, "1 op [not] eligible", "Try AMP")
    ]


def test_the_only_issue_is_about_launches_without_names(twin: Profile) -> None:
    assert twin["issues"].select("severity", "text").rows() == [("info", "[kernel launch]")]


def test_the_latest_aggregation_defines_the_iterations(tmp_path: Path) -> None:
    listed = [*TABLES["iteration_list"][1], (3, 2, 0, 0, 4_100)]
    summaries = [*TABLES["model_summary"][1], (2, 2, 1, 4_100, *TABLES["model_summary"][1][0][4:])]
    path = write(
        tmp_path / "a", changed_tables(iteration_list=listed, model_summary=summaries, iteration_key=[(1, 2, None)])
    )
    profile = read(path)
    assert profile["ranges"]["iteration"].to_list() == [0]
    assert profile["activities"]["iteration"].unique().to_list() == [0]
    assert profile["sessions"]["iteration_source"].to_list() == ["DLProf (no key op found)"]
    assert "the database has 2 aggregations; the iterations of the latest, number 2, are shown" in reasons(profile)
    walls = profile["tool_figures"].filter(name="Wall Clock Time").select("section", "value").rows()
    assert walls == [("Performance Summary (aggregation 1)", 3_200.0), ("Performance Summary", 4_100.0)]


def test_figures_of_the_latest_of_many_aggregations_are_shown(tmp_path: Path) -> None:
    aggregations = range(1, 151)
    changed = changed_tables(
        iteration_list=[(number, number, 5, 900, 2_000) for number in aggregations],
        device_gpu_utilizations=[(number, number, 1, 1, number / 2) for number in aggregations],
        expert_systems_feedback=[(number, number, "", f"problem {number}", "", "", "") for number in aggregations],
        model_summary=[(number, number, 1, 1_000 + number, *[None] * 20) for number in aggregations],
    )
    profile = read(write(tmp_path / "many.sqlite", changed))
    figures = profile["tool_figures"].select("section", "name", "value").rows()
    assert ("GPUs", "GPU 0: GPU Utilization", 75.0) in figures
    assert ("Performance Summary", "Wall Clock Time", 1_150.0) in figures
    assert profile["tool_findings"]["problem"].to_list() == ["problem 150"]


def test_rows_above_the_limit_of_a_table_are_reported(tmp_path: Path) -> None:
    feedback = [(number, 1, "", f"problem {number}", "", "", "") for number in range(1_001)]
    profile = read(write(tmp_path / "many.sqlite", changed_tables(expert_systems_feedback=feedback)))
    assert profile["tool_findings"].height == 1_000
    issue = ("expert_systems_feedback", "only the first 1,000 of 1,001 rows were read")
    assert issue in profile["issues"].select("text", "reason").rows()


def test_without_kernels_the_ops_are_shown(tmp_path: Path) -> None:
    path = write(tmp_path / "a", changed_tables(read_only_kernels=(), read_only_memcpys=(), read_only_memsets=None))
    profile = read(path)
    assert profile["activities"].height == 0
    assert profile["ops"].height == 5
    assert profile["api_calls"]["name"].to_list() == ["cudaFree", "cudaStreamSynchronize"]
    (issue,) = profile["issues"].to_dicts()
    assert issue["severity"] == "warning"
    assert issue["reason"].startswith("the database has ops but no kernels or memcpys")


@pytest.mark.parametrize("table", sorted(TABLES.keys() - {"dictionary"}))
def test_a_missing_table_affects_no_other_table(table: str, tmp_path: Path, twin: Profile) -> None:
    profile = read(write(tmp_path / "a", changed_tables(**{table: None})))
    if table == "read_only_ops":
        assert profile["ops"]["op_id"].null_count() == profile["ops"].height == 5
    elif table == "read_only_op_instances":
        assert profile["ops"].height == 3
        assert profile["ops"]["start_ns"].null_count() == 3
    else:
        assert profile["ops"].drop("iteration").equals(twin["ops"].drop("iteration"))
    # Ops or GPU work alone also have the number of the process.
    assert profile["sessions"]["pid"].to_list() == [70]
    missing = {"read_only_kernels": 4, "read_only_memcpys": 1, "read_only_memsets": 1}.get(table, 0)
    assert profile["activities"].height == 6 - missing


def test_kernels_of_an_op_without_instances_belong_to_the_op(tmp_path: Path) -> None:
    profile = read(write(tmp_path / "a", changed_tables(read_only_op_instances=None)))
    kernels = profile["activities"].filter(pl.col("kind") == "kernel")
    assert kernels.join(profile["ops"], on="op", maintain_order="left")["op_id"].to_list() == [
        "CONV2D_1",
        "CONV2D_1_BPROP",
        "CONV2D_1",
        "CONV2D_1_BPROP",
    ]


def test_instance_numbers_that_contradict_the_times_are_ignored(tmp_path: Path) -> None:
    """Here instance numbers count from 1."""
    shifted = [(*row[:2], row[2] + 1, *row[3:]) for row in TABLES["read_only_kernels"][1]]  # type: ignore[operator]
    tables = changed_tables(read_only_kernels=shifted, read_only_memcpys=None, read_only_memsets=None)
    profile = read(write(tmp_path / "a", tables))
    starts = profile["activities"].join(profile["ops"], on="op", maintain_order="left")["start_ns_right"]
    assert starts.to_list() == [1_000, 1_500, 3_000, 3_600]
    assert profile["activities"]["op_join"].unique().to_list() == ["launch"]
    assert profile["issues"].filter(pl.col("severity") == "warning")["text"].to_list() == ["4 GPU activities"]


def test_an_instance_need_not_enclose_its_launch(tmp_path: Path) -> None:
    """Work launched outside of all instances belongs to the one in the database."""
    moved = [(*row[:6], 50_000 + row[6], 50_000 + row[7], *row[8:]) for row in TABLES["read_only_kernels"][1]]  # type: ignore[operator]
    profile = read(write(tmp_path / "a", changed_tables(read_only_kernels=moved)))
    kernels = profile["activities"].filter(pl.col("kind") == "kernel")
    starts = kernels.join(profile["ops"], on="op", maintain_order="left")["start_ns_right"]
    assert starts.to_list() == [1_000, 1_500, 3_000, 3_600]


def test_dangling_ids_become_unknown(tmp_path: Path) -> None:
    first, *others = TABLES["read_only_kernels"][1]
    lost = (first[0], 99, 0, 98, 97, 7, *first[6:10], 96, 95, *first[12:])
    profile = read(write(tmp_path / "a", changed_tables(read_only_kernels=[lost, *others])))
    kernel = profile["activities"].filter(pl.col("start_ns") == 1_200).to_dicts()[0]
    unknown = ("name", "short_name", "op", "grid_x", "block_x", "uses_tensor_core", "tensor_core_reason")
    assert [kernel[column] for column in unknown] == [None] * len(unknown)
    assert kernel["duration_ns"] == 100
    assert kernel["op_join"] == "launched outside any op"
    texts = profile["issues"].filter(pl.col("severity") == "warning")["text"].to_list()
    assert texts == [
        *("name_id of 1 kernels", "long_name_id of 1 kernels", "1 GPU activities", "1 of 4 kernels"),
    ]


def test_impossible_times_are_unknown(tmp_path: Path) -> None:
    first, second, third, fourth = TABLES["read_only_kernels"][1]
    backwards = (*first[:8], 1_300, 1_200, *first[10:])
    endless = (*second[:8], 3_200, 1 << 62, *second[10:])
    without = (*third[:8], 0, 0, *third[10:])
    profile = read(write(tmp_path / "a", changed_tables(read_only_kernels=[backwards, endless, without, fourth])))
    kernels = profile["activities"].filter(pl.col("kind") == "kernel").select("start_ns", "duration_ns").rows()
    assert kernels == [(1_300, None), (3_200, None), (3_800, 300), (None, None)]
    assert "3 of 6 GPU activities" in profile["issues"]["text"].to_list()


def test_values_out_of_range_are_unknown(tmp_path: Path) -> None:
    shapes = ((1, 1 << 40, 2, 1), (2, "many", None, b"x"), (3, 16, 1, 1))
    gpus = ((1, 1 << 40, "Tesla T4", 7, 5, 40), (2, 1, b"\xff", "x", None, 1 << 50))
    lists = ((1, 1, 1 << 40, 900, 2_000), (2, 1, "six", 2_000, 4_100))
    path = write(
        tmp_path / "a", changed_tables(read_only_grid_block=shapes, read_only_gpu_infos=gpus, iteration_list=lists)
    )
    profile = read(path)
    kernel = profile["activities"].filter(pl.col("start_ns") == 1_200).to_dicts()[0]
    assert [kernel[f"grid_{axis}"] for axis in "xyz"] == [None, 2, 1]
    assert profile["devices"]["device"].to_list() == [1]
    assert profile["activities"].height == 6


def test_work_of_an_op_listed_twice_counts_once(tmp_path: Path, twin: Profile) -> None:
    listed = TABLES["read_only_ops"][1]
    profile = read(write(tmp_path / "a", changed_tables(read_only_ops=[*listed, *listed])))
    columns = ["start_ns", "duration_ns", "op", "name"]
    assert profile["activities"].select(columns).equals(twin["activities"].select(columns))
    assert f"ops with a duplicate number skipped: {len(listed)}" in reasons(profile)


def test_hostile_texts_are_not_interpreted(tmp_path: Path) -> None:
    name = "[red]'; DROP TABLE metric; --\x1b[2J" + "x" * 10_000
    strings = [(number, name if text == "conv2d" else text) for number, text in TABLES["dictionary"][1]]
    profile = read(write(tmp_path / "a", changed_tables(dictionary=strings)))
    assert profile["ops"]["op_type"].cast(pl.String).to_list()[1] == name


def test_views_are_never_queried(tmp_path: Path) -> None:
    path = write(tmp_path / "a", changed_tables(read_only_kernels=None))
    connection = sqlite3.connect(path)
    connection.execute("CREATE VIEW read_only_kernels AS SELECT 1 AS id, 2 AS gpu_start, 3 AS gpu_stop")
    connection.commit()
    connection.close()
    assert read(path)["activities"]["kind"].cast(pl.String).to_list() == ["memset", "memcpy"]


def test_an_empty_database_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {name: (columns, ()) for name, (columns, _) in TABLES.items()})
    with pytest.raises(ProftuiError, match="without ops, kernels or values") as caught:
        read(path)
    assert caught.value.message.startswith(str(path))


def test_the_format_is_recognized_by_content(tmp_path: Path) -> None:
    path = write(tmp_path / "run.log")
    assert load_input(str(path))["activities"].height == 6
    assert load_input(str(path), format_in="dlprof-database")["ops"].height == 5
    assert "dlprof-database" in [format_.name for format_ in formats()]


def test_an_older_database_has_fewer_columns(tmp_path: Path) -> None:
    """Direction and stack were added with PyTorch support; without their dictionary ids there is nothing to report."""
    columns = "id, op_id_id, op_id STRING, op_name STRING, op_type_id, tc_support_status"
    rows = [(1, ID["CONV2D_1"], "CONV2D_1", "tower/conv2d", ID["conv2d"], 2)]
    tables = {**changed_tables(), "read_only_ops": (columns, rows)}
    ops = read(write(tmp_path / "a", tables))["ops"].filter(pl.col("op_id") == "CONV2D_1")
    assert ops.select("name", "group", "op_type", "direction", "dtype", "stack", "tc_eligible").rows()[0] == (
        "conv2d",
        "tower",
        "conv2d",
        None,
        None,
        None,
        None,
    )


def test_grids_missing_from_the_database_are_reported(tmp_path: Path) -> None:
    columns, rows = TABLES["read_only_kernels"]
    names = columns.replace(" grid_id,", "").replace(" block_id,", "")
    rows_without_grids = [(*row[:10], *row[12:]) for row in rows]
    profile = read(write(tmp_path / "a", {**TABLES, "read_only_kernels": (names, rows_without_grids)}))
    assert profile["activities"]["grid_x"].null_count() == profile["activities"].height
    assert "columns missing from the table (grid_id, block_id): their values are unknown" in reasons(profile)
    for sizes, lost in ((None, 4), (((1, 8, 2, 1), (2, 128, 1, 1)), 2)):
        profile = read(write(tmp_path / "b", changed_tables(read_only_grid_block=sizes)))
        reported = profile["issues"].filter(pl.col("reason").str.contains("grid and block IDs are missing"))
        assert reported["text"].to_list() == [f"{lost} of 4 kernels"]
