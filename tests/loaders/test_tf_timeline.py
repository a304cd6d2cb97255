from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile

PROCESSES = (
    "/job:localhost/replica:0/task:0/device:GPU:0 Compute",
    "/job:localhost/replica:0/task:0/device:GPU:0 Tensors",
    "/device:GPU:0/stream:13 Compute",
    "/device:GPU:0/stream:all Compute",
    "/device:GPU:0/memcpy Compute",
    "/job:localhost/replica:0/task:0/device:CPU:0 Compute",
)
DISPATCH, TENSORS, STREAM, ALL, MEMCPY, CPU = range(len(PROCESSES))
CONV, GRADIENT = "tower/conv1/Conv2D", "gradients/tower/conv1/Conv2D_grad/Conv2DBackpropFilter"


def row(pid: int, op: str, node: str, start_us: int, us: int, tid: int = 0) -> dict[str, Any]:
    args = {"name": node, "op": op, "input0": "^other"}
    return {"name": op, "cat": "Op", "ph": "X", "pid": pid, "tid": tid, "ts": start_us, "dur": us, "args": args}


ROWS = (
    row(CPU, "VariableV2", "global_step", 1_000_005, 2, 1),
    row(DISPATCH, "Conv2D", CONV, 1_000_010, 30),
    row(DISPATCH, "Conv2DBackpropFilter", GRADIENT, 1_000_050, 20),
    row(STREAM, "Conv2D", CONV, 1_000_060, 100),
    row(STREAM, "Conv2D", f"edge_12_{CONV}", 1_000_170, 4),
    row(STREAM, "Conv2DBackpropFilter", GRADIENT, 1_000_200, 300),
    row(STREAM, "MEMCPYHtoD", "edge_3_input", 1_000_020, 7),
    row(ALL, "Conv2D", CONV, 1_000_060, 100),
    row(ALL, "Conv2D", f"edge_12_{CONV}", 1_000_170, 4),
    row(ALL, "Conv2DBackpropFilter", GRADIENT, 1_000_200, 300),
    row(MEMCPY, "MEMCPYHtoD", "edge_3_input", 1_000_020, 7),
    row(MEMCPY, "MEMCPYDtoH", "edge_4_loss", 1_000_520, 5),
)


def read(*rows: dict[str, Any], processes: tuple[str, ...] = PROCESSES) -> Profile:
    names = [
        {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}} for pid, name in enumerate(processes)
    ]
    document = json.dumps({"traceEvents": [*names, *rows]}, indent=4)
    return load_input("timeline.ctf.json", stream=io.BytesIO(document.encode()))


def test_work_of_the_gpu_is_counted_once() -> None:
    activities = read(*ROWS)["activities"]
    assert activities.select("kind", "name", "start_ns", "duration_ns", "device", "stream", "copy_kind").rows() == [
        ("memcpy", "input", 15_000, 7_000, 0, 13, "HtoD"),
        ("kernel", CONV, 55_000, 100_000, 0, 13, None),
        ("kernel", CONV, 165_000, 4_000, 0, 13, None),
        ("kernel", GRADIENT, 195_000, 300_000, 0, 13, None),
        ("memcpy", "loss", 515_000, 5_000, 0, None, "DtoH"),
    ]


def test_the_track_of_all_streams_is_used_if_there_are_no_others() -> None:
    activities = read(*(event for event in ROWS if event["pid"] != STREAM))["activities"]
    assert activities["duration_ns"].sum() == 416_000
    assert activities["stream"].null_count() == 5


def test_ops_are_from_the_cpu_and_otherwise_from_the_gpu() -> None:
    ops = read(*ROWS)["ops"]
    columns = ("op", "name", "op_type", "direction", "group", "start_ns", "duration_ns", "tid", "iteration")
    gradient = "gradients/tower/conv1/Conv2D_grad"
    assert ops.select(columns).rows() == [
        (0, "global_step", "VariableV2", None, None, 0, 2_000, 1, 0),
        (1, "Conv2D", "Conv2D", None, "tower/conv1", 5_000, 30_000, 0, 0),
        (2, "Conv2DBackpropFilter", "Conv2DBackpropFilter", "bprop", gradient, 45_000, 20_000, 0, 0),
        (3, "input", "MEMCPYHtoD", None, None, None, None, None, 0),
        (4, "loss", "MEMCPYDtoH", None, None, None, None, None, 0),
    ]


def test_work_belongs_to_the_op_with_its_name() -> None:
    activities = read(*ROWS)["activities"]
    assert activities.select("op", "op_join").rows() == [
        (3, "recorded"),
        (1, "recorded"),
        (1, "recorded"),
        (2, "recorded"),
        (4, "recorded"),
    ]


def test_work_belongs_to_the_last_earlier_run_of_its_op() -> None:
    second_run = (row(DISPATCH, "Conv2D", CONV, 1_000_180, 5), row(STREAM, "Conv2D", CONV, 1_000_600, 50))
    activities = read(*ROWS, *second_run)["activities"].filter(pl.col("name") == CONV)
    assert activities["op"].to_list() == [1, 1, 3]


def test_a_file_is_one_iteration() -> None:
    profile = read(*ROWS)
    assert profile["ranges"].select("name", "start_ns", "duration_ns", "iteration").rows() == [
        ("session.run", 0, 520_000, 0)
    ]
    assert profile["activities"]["iteration"].unique().to_list() == [0]
    (session,) = profile["sessions"].to_dicts()
    assert (session["format"], session["framework"], session["start_resolution_ns"]) == (
        "tf-timeline",
        "TensorFlow",
        1000,
    )


def test_older_names_of_processes_are_recognized() -> None:
    processes = ("/job:worker/replica:0/task:0/gpu:1 Compute", "/gpu:1/stream:22 Compute", "/gpu:1/stream:all Compute")
    profile = read(
        row(0, "MatMul", "dense/MatMul", 1_000_000, 5),
        row(1, "MatMul", "dense/MatMul", 1_000_010, 9),
        row(2, "MatMul", "dense/MatMul", 1_000_010, 9),
        processes=processes,
    )
    assert profile["activities"].select("device", "stream", "duration_ns", "op").rows() == [(1, 22, 9_000, 0)]


def test_a_run_on_the_cpu_only_is_reported() -> None:
    profile = read(ROWS[0])
    assert profile["ops"].height == 1
    assert profile["issues"]["severity"].to_list() == ["warning"]


def test_a_timeline_without_ops_is_an_error() -> None:
    with pytest.raises(ProftuiError, match=r"^timeline\.ctf\.json: no profile found"):
        read()
