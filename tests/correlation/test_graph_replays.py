"""Ops of kernels that CUDA graphs replay: from their capture, from earlier equal kernels, or a reason for none."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.analysis.frames import kernel, make_profile
from tests.corpus import shared_file
from tui.analysis.roofline import op_work
from tui.correlation.graph_replays import has_replays, link_replayed_ops
from tui.loaders.registry import load, load_input
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.profile import Profile

GEMM, RELU = "gemm_kernel", "relu_kernel"


def call(name: str, start: int, correlation: int | None = None, **fields: Any) -> dict[str, Any]:
    return {"name": name, "start_ns": start, "duration_ns": 2, "pid": 1, "tid": 1, "correlation": correlation, **fields}


def capture(kernels: Sequence[str | None], *, start_ns: int, session: int = 1) -> dict[str, list[dict[str, Any]]]:
    """Return a capture of these kernels, each launched by its own op within ``aten::linear``."""
    first = start_ns + 1
    calls = [call("cudaStreamBeginCapture_v10000", start_ns)]
    ops = [{"op": None, "name": "aten::linear", "start_ns": first, "duration_ns": 10 * len(kernels), "pid": 1,
            "tid": 1}]  # fmt: skip
    for index, name in enumerate(kernels):
        op_start = first + 10 * index
        ops.append({"op": None, "name": f"aten::op{index}", "start_ns": op_start, "duration_ns": 9, "pid": 1, "tid": 1,
                    "parent": 0, "input_shapes": f"[[{index}]]", "group": "Net_0/Linear_0"})  # fmt: skip
        calls.append(call("cudaLaunchKernel", op_start + 1, 1000 + start_ns + index, kernel=name))
    calls.append(call("cudaStreamEndCapture_v10000", first + 10 * len(kernels)))
    return {
        "api_calls": [{**row, "session": session} for row in calls],
        "ops": [{**row, "session": session} for row in ops],
    }


def graph_replays(*kernels: Sequence[str], streams: Sequence[int] = (7,)) -> dict[str, list[dict[str, Any]]]:
    """Return replays of these kernels, each in an iteration of its own."""
    work, calls = [], []
    for number, names in enumerate(kernels):
        calls.append({**call("cudaGraphLaunch_v10000", 1000 * number, number + 1), "session": 0})
        work += [
            kernel(name, 5, start_ns=1000 * number + 10 * index, correlation=number + 1, iteration=number,
                   stream=streams[index % len(streams)], device=0, session=0, op_join="launched outside any op")
            for index, name in enumerate(names)
        ]  # fmt: skip
    return {"activities": work, "api_calls": calls}


def joined_profiles(*parts: dict[str, list[dict[str, Any]]]) -> Profile:
    frames: dict[str, list[dict[str, Any]]] = {}
    for part in parts:
        for name, rows in part.items():
            frames.setdefault(name, []).extend(map(dict, rows))
    ops = sorted(frames.get("ops", []), key=lambda row: row["session"])
    first: dict[int, int] = {}
    for number, row in enumerate(ops):
        row["op"] = number
        if "parent" not in row:
            first[row["session"]] = number
        row["parent"] = first[row["session"]] if "parent" in row else None
    return make_profile(**{**frames, **({"ops": ops} if ops else {})})


def replayed_kernel_rows(profile: Profile) -> list[tuple[Any, ...]]:
    """Return kernel, op, module, shapes, parent, iteration and join of each replayed kernel."""
    ops = profile["ops"]
    names = dict(ops.select("op", pl.col("name").cast(pl.String)).iter_rows())
    joined = profile["activities"].filter(pl.col("session") == 0).join(
        ops.select("op", "input_shapes", "parent", of="iteration"), on="op", how="left", maintain_order="left"
    )  # fmt: skip
    return [
        (row["name"], names.get(row["op"]), row["input_shapes"], names.get(row["parent"]), row["of"], row["op_join"])
        for row in joined.iter_rows(named=True)
    ]


def test_the_nth_launch_of_a_capture_is_the_nth_kernel_of_each_replay() -> None:
    profile = joined_profiles(graph_replays([GEMM, RELU], [GEMM, RELU]), capture([GEMM, RELU], start_ns=0))
    assert has_replays(profile)
    linked = link_replayed_ops(profile)
    assert replayed_kernel_rows(linked) == [
        (GEMM, "aten::op0", "[[0]]", "aten::linear", 0, "graph capture"),
        (RELU, "aten::op1", "[[1]]", "aten::linear", 0, "graph capture"),
        (GEMM, "aten::op0", "[[0]]", "aten::linear", 1, "graph capture"),
        (RELU, "aten::op1", "[[1]]", "aten::linear", 1, "graph capture"),
    ]
    ops = linked["ops"]
    assert ops["op"].to_list() == list(range(9))
    assert ops["session"].to_list() == [0] * 6 + [1] * 3
    assert ops.filter(pl.col("session") == 0).select("op_source", "start_ns").unique().rows() == [("graph", None)]
    assert linked["activities"]["op"].n_unique() == 4


def test_experts_of_a_replay_keep_the_shapes_of_their_weights() -> None:
    experts = capture([GEMM, None], start_ns=0)
    experts["ops"][0] |= {"name": "vllm::moe_forward", "input_shapes": "[[8, 64], [8, 4], [], []]"}
    shapes = ("[[4, 32, 96], []]", "[[4, 24, 64], []]", "[[1, 32, 96], []]", "[[8, 64], []]")
    experts["ops"] += [
        {**experts["ops"][1], "name": "aten::view", "duration_ns": 0, "input_shapes": shape} for shape in shapes
    ]
    ops = link_replayed_ops(joined_profiles(graph_replays([GEMM, RELU]), experts))["ops"].filter(pl.col("session") == 0)
    assert ops.select(pl.col("name", "input_shapes").cast(pl.String)).rows() == [
        ("vllm::moe_forward", "[[8, 64], [8, 4], [], []]"),
        ("aten::op0", "[[0]]"),
        ("aten::op1", "[[1]]"),
        *(("aten::view", shape) for shape in shapes[:2]),
    ]
    assert ops["parent"].to_list() == [None, 0, 0, 0, 0]


def test_interleaved_streams_are_distinguished_by_names() -> None:
    profile = joined_profiles(
        graph_replays([RELU, GEMM, GEMM], streams=(7, 8)), capture([GEMM, RELU, GEMM], start_ns=0)
    )
    assert [row[1] for row in replayed_kernel_rows(link_replayed_ops(profile))] == [
        "aten::op1",
        "aten::op0",
        "aten::op2",
    ]


def test_unnamed_launches_are_matched_by_count_in_one_stream() -> None:
    unnamed = capture([None, None], start_ns=0)
    assert [
        row[1] for row in replayed_kernel_rows(link_replayed_ops(joined_profiles(graph_replays([GEMM, RELU]), unnamed)))
    ] == [
        "aten::op0",
        "aten::op1",
    ]
    two_streams = joined_profiles(graph_replays([GEMM, RELU], streams=(7, 8)), unnamed)
    assert {row[-1] for row in replayed_kernel_rows(link_replayed_ops(two_streams))} == {
        "graph replay: capture not recorded"
    }


@pytest.mark.parametrize(
    "kernels",
    [[GEMM], [GEMM, GEMM], [GEMM, RELU, RELU], [GEMM, GEMM, None]],
    ids=["fewer", "others", "more", "more unnamed"],
)
def test_a_replay_without_a_matching_capture_has_a_reason(kernels: list[str]) -> None:
    linked = link_replayed_ops(joined_profiles(graph_replays([GEMM, RELU]), capture(kernels, start_ns=0)))
    assert {(row[1], row[-1]) for row in replayed_kernel_rows(linked)} == {(None, "graph replay: capture not recorded")}
    assert linked["ops"].filter(pl.col("session") == 0).is_empty()


def test_an_unnamed_launch_is_no_kernel_that_the_capture_names() -> None:
    # Which of the three is the launch without a name is unknown.
    profile = joined_profiles(graph_replays([GEMM, GEMM, GEMM]), capture([GEMM, GEMM, None], start_ns=0))
    assert {(row[1], row[-1]) for row in replayed_kernel_rows(link_replayed_ops(profile))} == {
        (None, "graph replay: capture not recorded")
    }


def test_graphs_of_equal_layers_are_distinguished_by_order() -> None:
    first, second = capture([GEMM], start_ns=0), capture([GEMM], start_ns=500)
    for row in second["ops"]:
        row["name"] += "_b"
    replays = graph_replays([GEMM], [GEMM])
    for row in replays["activities"]:
        row["iteration"] = 0
    assert [row[1] for row in replayed_kernel_rows(link_replayed_ops(joined_profiles(replays, first, second)))] == [
        "aten::op0",
        "aten::op0_b",
    ]
    # A single replay matches both captures.
    assert {
        row[-1]
        for row in replayed_kernel_rows(link_replayed_ops(joined_profiles(graph_replays([GEMM]), first, second)))
    } == {"graph replay: several captures match"}


def test_each_rank_has_the_ops_of_its_own_capture() -> None:
    first, second = capture([GEMM], start_ns=0, session=0), capture([GEMM], start_ns=0, session=1)
    second["ops"][1]["name"] = "aten::second"
    replays = graph_replays([GEMM])
    of_second = {
        name: [{**row, "session": 1, "correlation": 9} for row in rows] for name, rows in graph_replays([GEMM]).items()
    }
    linked = link_replayed_ops(joined_profiles(replays, of_second, first, second))
    assert linked["activities"].join(linked["ops"], on="op", suffix="_of_op").select(
        "session", "session_of_op", pl.col("name_of_op").cast(pl.String), "op_join"
    ).rows() == [(0, 0, "aten::op0", "graph capture"), (1, 1, "aten::second", "graph capture")]


def test_a_capture_of_the_same_rank_goes_before_those_of_other_ranks() -> None:
    profile = joined_profiles(
        graph_replays([GEMM]),
        capture([GEMM], start_ns=0, session=1),
        capture([GEMM], start_ns=0, session=2),
    )
    names = pl.when(pl.col("session") == 2).then(pl.lit("aten::same_rank").cast(NAME)).otherwise("name").alias("name")
    ranks = pl.Series("rank", [3, 2, 3], dtype=pl.Int32)
    frames = {"ops": profile["ops"].with_columns(names), "sessions": profile["sessions"].with_columns(ranks)}
    linked = link_replayed_ops(replace(profile, frames={**profile.frames, **frames}))
    assert [(row[1], row[-1]) for row in replayed_kernel_rows(linked)] == [("aten::same_rank", "graph capture")]


def test_ops_are_inferred_from_earlier_kernels_of_equal_order() -> None:
    replays = graph_replays([GEMM, RELU])
    for row in replays["activities"]:
        row["start_ns"] += 5000
    eager = [
        kernel(name, 5, start_ns=100 + index, op=index, op_join="launch", stream=3, device=0, session=0)
        for index, name in enumerate((RELU, GEMM, RELU))
    ]
    ops = [
        {"op": number, "name": f"aten::x{number}", "start_ns": number, "duration_ns": 1, "session": 0}
        for number in range(3)
    ]
    profile = make_profile(activities=[*eager, *replays["activities"]], api_calls=replays["api_calls"], ops=ops)
    rows = replayed_kernel_rows(link_replayed_ops(profile))
    assert [(row[1], row[-1]) for row in rows[3:]] == [
        ("aten::x1", "graph repeat (inferred)"),
        ("aten::x2", "graph repeat (inferred)"),
    ]
    assert [row[1] for row in rows[:3]] == ["aten::x0", "aten::x1", "aten::x2"]


@pytest.mark.parametrize("unnamed", ["replay", "work before"])
def test_kernels_without_a_name_repeat_no_others(unnamed: str) -> None:
    replays = graph_replays([GEMM, RELU])
    for row in replays["activities"]:
        row["start_ns"] += 5000
    replays["activities"][1]["name"] = None if unnamed == "replay" else RELU
    eager = [
        kernel(name, 5, start_ns=100 + index, op=0, op_join="launch", stream=3, device=0, session=0)
        for index, name in enumerate((GEMM, None))
    ]  # fmt: skip
    ops = [{"op": 0, "name": "aten::x", "start_ns": 0, "duration_ns": 1, "session": 0}]
    profile = make_profile(activities=[*eager, *replays["activities"]], api_calls=replays["api_calls"], ops=ops)
    rows = replayed_kernel_rows(link_replayed_ops(profile))
    assert [(row[1], row[-1]) for row in rows] == [
        *[("aten::x", "launch")] * 2,
        *[(None, "graph replay: capture not recorded")] * 2,
    ]


def test_annotations_of_graph_nodes_name_their_kernels() -> None:
    profile = joined_profiles(graph_replays([GEMM, RELU], [GEMM, RELU]), capture([GEMM, RELU], start_ns=0))
    nodes = pl.Series("graph_node", [41, 42, 41, 42], dtype=pl.Int64)
    work = profile["activities"].with_columns(nodes)
    linked = link_replayed_ops(
        replace(profile, frames={**profile.frames, "activities": work}), {41: "layers.0.wq", 7: "x"}
    )
    assert [(row[1], row[-2], row[-1]) for row in replayed_kernel_rows(linked)] == [
        ("layers.0.wq", 0, "graph node annotation"),
        (None, None, "launched outside any op"),
        ("layers.0.wq", 1, "graph node annotation"),
        (None, None, "launched outside any op"),
    ]
    assert linked["sessions"].equals(profile["sessions"])
    assert linked["ops"]["op"].to_list() == list(range(linked["ops"].height))
    assert linked["ops"].filter(pl.col("session") == 0).select("op_source", "start_ns").unique().rows() == [
        ("graph", None)
    ]


@pytest.mark.parametrize("kind", ["json", "pickle", "unsafe", "damaged", "other rank"])
def test_annotations_beside_a_trace(tmp_path: Path, kind: str) -> None:
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    kernel_event = {"ph": "X", "cat": "kernel", "name": GEMM, "pid": 0, "tid": 7, "ts": 5, "dur": 2}
    arguments = {"correlation": 3, "device": 0, "stream": 7, "context": 1, "graph node id": 4294967297}
    events = [{**launch, "args": {"correlation": 3}}, {**kernel_event, "args": arguments}]
    trace = tmp_path / "rank0.pt.trace.json"
    trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    nodes = {4294967297: [{"name": "outer"}, {"name": "layers.0.wq"}], "no number": ["x"], 5: 6}
    if kind == "json":
        (tmp_path / "kernel_annotations.json").write_text(json.dumps(nodes))
    elif kind == "pickle":
        (tmp_path / "rank0_annotations.pkl").write_bytes(pickle.dumps(nodes))
    elif kind == "unsafe":
        (tmp_path / "annotations.pkl").write_bytes(pickle.dumps(Path))
    elif kind == "damaged":
        (tmp_path / "annotations.pkl").write_bytes(pickle.dumps(nodes)[:-9])
    else:
        (tmp_path / "rank1_annotations.pkl").write_bytes(pickle.dumps(nodes))
    profile, errors = load((str(trace),))
    assert profile is not None
    assert not errors
    is_read = kind in ("json", "pickle")
    assert profile["ops"]["name"].cast(pl.String).to_list() == (["layers.0.wq"] if is_read else [])
    reasons = [
        reason for reason in profile["issues"]["reason"].to_list() if "nnotations" in reason or "nodes" in reason
    ]
    assert len(reasons) == (kind != "other rank"), reasons


def test_an_empty_folder_of_captures_is_reported(tmp_path: Path) -> None:
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    work = {"ph": "X", "cat": "kernel", "name": GEMM, "pid": 0, "tid": 7, "ts": 5, "dur": 2}
    events = [{**event, "args": {"correlation": 3}} for event in (launch, work)]
    trace, captures = tmp_path / "trace.json", tmp_path / "capture_traces"
    trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    captures.mkdir()
    profile, errors = load((str(trace),))
    assert profile is not None
    assert not errors
    assert profile["activities"]["duration_ns"].to_list() == [2000]
    assert profile["issues"].filter(pl.col("severity") == "warning").select("text", "reason").rows() == [
        (str(captures), f"{captures}: the directory has no files; open a profile, or a folder with profiles")
    ]


def test_without_graphs_nothing_changes() -> None:
    profile = make_profile(
        activities=[kernel(GEMM, 5, start_ns=0, correlation=1)], api_calls=[call("cudaLaunchKernel", 0, 1)]
    )
    assert not has_replays(profile)
    assert link_replayed_ops(profile) is profile


@pytest.mark.parametrize(
    ("name", "replayed", "kernels"), [("vllm_decode_full", 421, 425), ("vllm_prefilldecode_piecewise", 361, 413)]
)
def test_replays_of_vllm_have_the_ops_of_the_capture_trace(name: str, replayed: int, kernels: int) -> None:
    path = shared_file(f"corpus2/inference/{name}/graph_execution.json.gz")
    execution = load_input(path)
    profile, errors = load((path,))
    assert profile is not None
    assert not errors
    assert profile["sessions"].height == 1
    kernel_rows = profile["activities"].filter(pl.col("kind") == "kernel")
    assert kernel_rows.height == kernels
    replayed_kernels = kernel_rows.filter(pl.col("op_join") == "graph capture")
    assert replayed_kernels.height == replayed
    assert kernel_rows["op"].null_count() == 0
    assert execution["activities"].filter(pl.col("kind") == "kernel")["op"].null_count() == replayed
    named_ops = replayed_kernels.join(profile["ops"], on="op", how="left", suffix="_of_op")
    assert named_ops["group"].null_count() == 0
    assert named_ops["input_shapes"].null_count() < named_ops.height / 4
    assert op_work(profile).filter(pl.col("op").cast(pl.String) == "vllm::rocm_unquantized_gemm").height > 72
