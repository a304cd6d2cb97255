"""Ops of kernels that CUDA graphs replay: by their capture, by equal work before, and why there are none."""

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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.profile import Profile

GEMM, RELU = "gemm_kernel", "relu_kernel"


def call(name: str, start: int, correlation: int | None = None, **fields: Any) -> dict[str, Any]:
    return {"name": name, "start_ns": start, "duration_ns": 2, "pid": 1, "tid": 1, "correlation": correlation, **fields}


def capture(kernels: Sequence[str | None], *, at: int, session: int = 1) -> dict[str, list[dict[str, Any]]]:
    """Return a capture of these kernels, each launched by its own op within ``aten::linear``."""
    first = at + 1
    calls = [call("cudaStreamBeginCapture_v10000", at)]
    ops = [{"op": None, "name": "aten::linear", "start_ns": first, "duration_ns": 10 * len(kernels), "pid": 1,
            "tid": 1}]  # fmt: skip
    for place, name in enumerate(kernels):
        start = first + 10 * place
        ops.append({"op": None, "name": f"aten::op{place}", "start_ns": start, "duration_ns": 9, "pid": 1, "tid": 1,
                    "parent": 0, "input_shapes": f"[[{place}]]", "group": "Net_0/Linear_0"})  # fmt: skip
        calls.append(call("cudaLaunchKernel", start + 1, 1000 + at + place, kernel=name))
    calls.append(call("cudaStreamEndCapture_v10000", first + 10 * len(kernels)))
    return {
        "api_calls": [{**row, "session": session} for row in calls],
        "ops": [{**row, "session": session} for row in ops],
    }


def replays_of(*kernels: Sequence[str], streams: Sequence[int] = (7,)) -> dict[str, list[dict[str, Any]]]:
    """Return replays of these kernels, in iterations of their own."""
    work, calls = [], []
    for number, names in enumerate(kernels):
        calls.append({**call("cudaGraphLaunch_v10000", 1000 * number, number + 1), "session": 0})
        work += [
            kernel(name, 5, start_ns=1000 * number + 10 * place, correlation=number + 1, iteration=number,
                   stream=streams[place % len(streams)], device=0, session=0, op_join="launched outside any op")
            for place, name in enumerate(names)
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


def named_kernels(profile: Profile) -> list[tuple[Any, ...]]:
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
    profile = joined_profiles(replays_of([GEMM, RELU], [GEMM, RELU]), capture([GEMM, RELU], at=0))
    assert has_replays(profile)
    found = link_replayed_ops(profile)
    assert named_kernels(found) == [
        (GEMM, "aten::op0", "[[0]]", "aten::linear", 0, "graph capture"),
        (RELU, "aten::op1", "[[1]]", "aten::linear", 0, "graph capture"),
        (GEMM, "aten::op0", "[[0]]", "aten::linear", 1, "graph capture"),
        (RELU, "aten::op1", "[[1]]", "aten::linear", 1, "graph capture"),
    ]
    ops = found["ops"]
    assert ops["op"].to_list() == list(range(9))
    assert ops["session"].to_list() == [0] * 6 + [1] * 3
    assert ops.filter(pl.col("session") == 0).select("op_source", "start_ns").unique().rows() == [("graph", None)]
    assert found["activities"]["op"].n_unique() == 4


def test_experts_of_a_replay_keep_the_shapes_of_their_weights() -> None:
    experts = capture([GEMM, None], at=0)
    experts["ops"][0] |= {"name": "vllm::moe_forward", "input_shapes": "[[8, 64], [8, 4], [], []]"}
    shapes = ("[[4, 32, 96], []]", "[[4, 24, 64], []]", "[[1, 32, 96], []]", "[[8, 64], []]")
    experts["ops"] += [
        {**experts["ops"][1], "name": "aten::view", "duration_ns": 0, "input_shapes": shape} for shape in shapes
    ]
    found = link_replayed_ops(joined_profiles(replays_of([GEMM, RELU]), experts))["ops"].filter(pl.col("session") == 0)
    assert found.select(pl.col("name", "input_shapes").cast(pl.String)).rows() == [
        ("vllm::moe_forward", "[[8, 64], [8, 4], [], []]"),
        ("aten::op0", "[[0]]"),
        ("aten::op1", "[[1]]"),
        *(("aten::view", shape) for shape in shapes[:2]),
    ]
    assert found["parent"].to_list() == [None, 0, 0, 0, 0]


def test_interleaved_streams_are_distinguished_by_names() -> None:
    profile = joined_profiles(replays_of([RELU, GEMM, GEMM], streams=(7, 8)), capture([GEMM, RELU, GEMM], at=0))
    assert [row[1] for row in named_kernels(link_replayed_ops(profile))] == ["aten::op1", "aten::op0", "aten::op2"]


def test_unnamed_launches_are_matched_by_count_in_one_stream() -> None:
    unnamed = capture([None, None], at=0)
    assert [row[1] for row in named_kernels(link_replayed_ops(joined_profiles(replays_of([GEMM, RELU]), unnamed)))] == [
        "aten::op0",
        "aten::op1",
    ]
    several = joined_profiles(replays_of([GEMM, RELU], streams=(7, 8)), unnamed)
    assert {row[-1] for row in named_kernels(link_replayed_ops(several))} == {"graph replay: capture not recorded"}


@pytest.mark.parametrize("kernels", [[GEMM], [GEMM, GEMM], [GEMM, RELU, RELU]], ids=["fewer", "others", "more"])
def test_a_replay_without_a_matching_capture_says_so(kernels: list[str]) -> None:
    found = link_replayed_ops(joined_profiles(replays_of([GEMM, RELU]), capture(kernels, at=0)))
    assert {(row[1], row[-1]) for row in named_kernels(found)} == {(None, "graph replay: capture not recorded")}
    assert found["ops"].filter(pl.col("session") == 0).is_empty()


def test_graphs_of_equal_layers_are_distinguished_by_order() -> None:
    first, second = capture([GEMM], at=0), capture([GEMM], at=500)
    for row in second["ops"]:
        row["name"] += "_b"
    pieces = replays_of([GEMM], [GEMM])
    for row in pieces["activities"]:
        row["iteration"] = 0
    assert [row[1] for row in named_kernels(link_replayed_ops(joined_profiles(pieces, first, second)))] == [
        "aten::op0",
        "aten::op0_b",
    ]
    # A third of them could be either.
    assert {
        row[-1] for row in named_kernels(link_replayed_ops(joined_profiles(replays_of([GEMM]), first, second)))
    } == {"graph replay: several captures match"}


def test_ops_are_inferred_from_equal_work_before() -> None:
    profile = replays_of([GEMM, RELU])
    for row in profile["activities"]:
        row["start_ns"] += 5000
    eager = [
        kernel(name, 5, start_ns=100 + place, op=place, op_join="launch", stream=3, device=0, session=0)
        for place, name in enumerate((RELU, GEMM, RELU))
    ]
    ops = [{"op": at, "name": f"aten::x{at}", "start_ns": at, "duration_ns": 1, "session": 0} for at in range(3)]
    whole = make_profile(activities=[*eager, *profile["activities"]], api_calls=profile["api_calls"], ops=ops)
    rows = named_kernels(link_replayed_ops(whole))
    assert [(row[1], row[-1]) for row in rows[3:]] == [
        ("aten::x1", "graph repeat (inferred)"),
        ("aten::x2", "graph repeat (inferred)"),
    ]
    assert [row[1] for row in rows[:3]] == ["aten::x0", "aten::x1", "aten::x2"]


def test_annotations_of_graph_nodes_name_their_kernels() -> None:
    profile = joined_profiles(replays_of([GEMM, RELU], [GEMM, RELU]), capture([GEMM, RELU], at=0))
    nodes = pl.Series("graph_node", [41, 42, 41, 42], dtype=pl.Int64)
    work = profile["activities"].with_columns(nodes)
    found = link_replayed_ops(
        replace(profile, frames={**profile.frames, "activities": work}), {41: "layers.0.wq", 7: "x"}
    )
    assert [(row[1], row[-2], row[-1]) for row in named_kernels(found)] == [
        ("layers.0.wq", 0, "graph node annotation"),
        (None, None, "launched outside any op"),
        ("layers.0.wq", 1, "graph node annotation"),
        (None, None, "launched outside any op"),
    ]
    assert found["sessions"].equals(profile["sessions"])
    assert found["ops"]["op"].to_list() == list(range(found["ops"].height))
    assert found["ops"].filter(pl.col("session") == 0).select("op_source", "start_ns").unique().rows() == [
        ("graph", None)
    ]


@pytest.mark.parametrize("kind", ["json", "pickle", "unsafe", "damaged", "other rank"])
def test_annotations_beside_a_trace(tmp_path: Path, kind: str) -> None:
    call_ = {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    work = {"ph": "X", "cat": "kernel", "name": GEMM, "pid": 0, "tid": 7, "ts": 5, "dur": 2}
    arguments = {"correlation": 3, "device": 0, "stream": 7, "context": 1, "graph node id": 4294967297}
    events = [{**call_, "args": {"correlation": 3}}, {**work, "args": arguments}]
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


def test_without_graphs_nothing_changes() -> None:
    profile = make_profile(
        activities=[kernel(GEMM, 5, start_ns=0, correlation=1)], api_calls=[call("cudaLaunchKernel", 0, 1)]
    )
    assert not has_replays(profile)
    assert link_replayed_ops(profile) is profile


@pytest.mark.parametrize(
    ("name", "replayed", "kernels"), [("vllm_decode_full", 421, 425), ("vllm_prefilldecode_piecewise", 361, 413)]
)
def test_replays_of_vllm_have_the_ops_of_the_capture_beside_them(name: str, replayed: int, kernels: int) -> None:
    path = shared_file(f"corpus2/inference/{name}/graph_execution.json.gz")
    alone = load_input(path)
    profile, errors = load((path,))
    assert profile is not None
    assert not errors
    assert profile["sessions"].height == 1
    work = profile["activities"].filter(pl.col("kind") == "kernel")
    assert work.height == kernels
    of_graph = work.filter(pl.col("op_join") == "graph capture")
    assert of_graph.height == replayed
    assert work["op"].null_count() == 0
    assert alone["activities"].filter(pl.col("kind") == "kernel")["op"].null_count() == replayed
    named_ops = of_graph.join(profile["ops"], on="op", how="left", suffix="_of_op")
    assert named_ops["group"].null_count() == 0
    assert named_ops["input_shapes"].null_count() < named_ops.height / 4
    assert op_work(profile).filter(pl.col("op").cast(pl.String) == "vllm::rocm_unquantized_gemm").height > 72
