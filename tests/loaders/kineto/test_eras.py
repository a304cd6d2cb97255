"""Traces as the versions of PyTorch wrote them, from the oldest export to the newest."""

from __future__ import annotations

import json

import polars as pl
import pytest

from tests.corpus import corpus_file
from tests.loaders.kineto.traces import PROCESS, flow, read, read_bytes, texts
from tui.analysis.devices import session_vendor
from tui.loaders.registry import load_input


def test_the_first_versions_have_other_categories_threads_as_text_and_steps_among_the_operators() -> None:
    def operator(name: str, ts: int, dur: int, **args: object) -> dict[str, object]:
        arguments = {"Input dims": [[4, 4]], "Input type": [], "Device": 0, **args}
        return {
            "ph": "X",
            "cat": "Operator",
            "name": name,
            "pid": PROCESS,
            "tid": "100",
            "ts": ts,
            "dur": dur,
            "args": arguments,
        }

    runtime = {"cbid": 211, "correlation": 9, "external id": 21}
    work = {"device": 0, "context": 1, "stream": 7, "external id": 21, "grid": [2, 1, 1], "block": [64, 1, 1]}
    profile = read(
        [
            operator("ProfilerStep#5", 1_610_366_662_000_000, 900),
            operator("Optimizer.step#SGD.step", 1_610_366_662_000_500, 100),
            operator("aten::mm", 1_610_366_662_000_010, 50, **{"External id": 21}),
            {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": PROCESS, "tid": "100",
             "ts": 1_610_366_662_000_020, "dur": 8, "args": runtime},
            {"ph": "X", "cat": "Kernel", "name": "k", "pid": 0, "tid": "stream 7",
             "ts": 1_610_366_662_000_030, "dur": 100, "args": {**work, "correlation": 9}},
            {"ph": "X", "cat": "Kernel", "name": "k", "pid": 0, "tid": "stream 7",
             "ts": 1_610_366_662_000_140, "dur": 100, "args": {**work, "correlation": 10}},
            {"ph": "X", "cat": "Kernel", "name": "k", "pid": 0, "tid": "stream 7",
             "ts": 1_610_366_662_000_250, "dur": 100, "args": {**work, "correlation": 11, "external id": 0}},
        ],
        baseTimeNanoseconds=None,
    )  # fmt: skip
    assert texts(profile, "ranges", "name") == ["ProfilerStep#5", "Optimizer.step#SGD.step"]
    assert profile["ops"].select("tid", "iteration", pl.col("input_shapes").cast(pl.String)).rows() == [
        (100, 5, "[[4, 4]]")
    ]
    assert profile["activities"].select("op", pl.col("op_join").cast(pl.String), "iteration", "grid_x").rows() == [
        (0, "launch", 5, 2),
        (0, "external id", None, 2),
        (None, "launch not recorded", None, 2),
    ]
    assert profile["sessions"]["origin_ns"].to_list() == [1_610_366_662_000_000_000]


def legacy_trace(*events: dict[str, object]) -> bytes:
    return json.dumps(list(events)).encode()


def test_the_export_of_the_first_profiler_has_ops_and_their_gpu_work() -> None:
    cpu = {"ph": "X", "pid": "CPU functions", "tid": 1, "args": {}}
    work = {"ph": "X", "pid": "CUDA functions", "tid": 0, "args": {}}
    profile = read_bytes(
        legacy_trace(
            {**cpu, "name": "aten::linear", "ts": 100.5, "dur": 50},
            {**cpu, "name": "aten::mm", "ts": 110, "dur": 20},
            {**flow("s", 0, 110, cat="cpu_to_cuda", tid=1), "pid": "CPU functions"},
            {**flow("f", 0, 130, cat="cpu_to_cuda", tid=0), "pid": "CUDA functions"},
            {**work, "name": "volta_sgemm", "ts": 130, "dur": 12.25},
            {**work, "name": "Memcpy HtoD (Pageable -> Device)", "ts": 150, "dur": 1},
        ),
        name="legacy.json",
    )
    assert profile["ops"].select("op", "start_ns", "duration_ns", "parent").rows() == [
        (0, 0, 50_000, None),
        (1, 9500, 20_000, 0),
    ]
    assert texts(profile, "activities", "name") == ["volta_sgemm", "[CUDA memcpy HtoD]"]
    assert profile["activities"].select(
        pl.col("kind").cast(pl.String), "duration_ns", "device", "op", pl.col("op_join").cast(pl.String), "grid_x"
    ).rows() == [
        ("kernel", 12_250, 0, 1, "recorded", None),
        ("memcpy", 1000, 0, None, "launch not recorded", None),
    ]
    assert profile["issues"]["severity"].to_list() == ["info"]
    assert "no launch configuration" in profile["issues"]["reason"][0]


def test_python_calls_in_an_export_of_events_are_no_ops() -> None:
    cpu = {"ph": "X", "pid": "CPU functions", "tid": 1, "args": {}}
    python = ("train.py(7): step", "nn.Module: Linear_0", "<built-in function linear>")
    calls = [{**cpu, "name": name, "ts": 100 + depth, "dur": 50 - depth} for depth, name in enumerate(python)]
    profile = read_bytes(
        legacy_trace(*calls, {**cpu, "name": "aten::linear", "ts": 110, "dur": 20}), name="events.json"
    )
    assert profile["ops"].select("name", "duration_ns", "parent").rows() == [("aten::linear", 20_000, None)]
    assert "3 Python function calls skipped" in profile["issues"]["reason"].to_list()


def test_flows_of_pytorch_1_5_without_a_quotation_mark_lead_to_their_op() -> None:
    """PyTorch 1.5 wrote such a flow event to each of its kernels."""
    content = legacy_trace(
        {"ph": "X", "pid": "CPU functions", "tid": 1, "args": {}, "name": "add", "ts": 101.524, "dur": 134.49},
        {**flow("s", 0, 101.524, cat="cpu_to_cuda", tid=1), "pid": "CPU functions"},
        {**flow("f", 0, 102.95, cat="cpu_to_cuda", tid=0), "pid": "CUDA functions"},
        {"ph": "X", "pid": "CUDA functions", "tid": 0, "args": {}, "name": "add", "ts": 102.95, "dur": 134.17},
    )
    profile = read_bytes(content.replace(b', "tid": 0, "ts": 102.95}', b', tid": 0, "ts": 102.95}'), name="legacy.json")
    assert profile["activities"]["op"].to_list() == [0]
    assert texts(profile, "activities", "op_join") == ["recorded"]
    assert "info: 1 event has a key without its opening quotation mark: repaired" in [
        f"{severity}: {reason}" for severity, reason in profile["issues"].select("severity", "reason").rows()
    ]


FIGURES = {
    # Operators, GPU work, joined with an op by the launch, and by its id.
    "resnet50_2021early_nw0_worker0.pt.trace.json.gz": (33_360, 10_015, 9_180, 0),
    "resnet50_nw0_worker0.1623143089861.pt.trace.json.gz": (23_622, 9_096, 9_096, 0),
    "sampled_rank-0.json.gz": (2_329, 1_204, 1_188, 0),
    "rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz": (23_910, 6_095, 6_095, 0),
    "nccl_data.json.gz": (14_346, 3_774, 3_774, 0),
    "Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": (4_186, 1_707, 1_198, 0),
    "mi250_minitoy_train_ROCm6_2_kineto.json.gz": (70, 16, 16, 0),
}


@pytest.mark.parametrize("name", FIGURES)
def test_ops_and_joins_of_real_traces(name: str) -> None:
    profile = load_input(corpus_file(f"kineto/{name}"))
    joins = dict(profile["activities"].group_by(pl.col("op_join").cast(pl.String)).len().iter_rows())
    figures = (profile["ops"].height, profile["activities"].height, joins.get("launch", 0), joins.get("external id", 0))
    assert figures == FIGURES[name]


def test_each_step_of_a_real_trace_has_the_same_work() -> None:
    profile = load_input(corpus_file("kineto/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"))
    steps = profile["activities"].group_by("iteration").len().sort("iteration").rows()
    assert steps == [(number, 1219) for number in range(101, 106)]


def test_a_trace_of_torch_npu_says_where_the_work_of_the_npu_is() -> None:
    def cpu(name: str, ts: str, dur: float) -> dict[str, object]:
        args = {"Sequence number": -1, "Fwd thread id": 0}
        return {
            "ph": "X",
            "name": name,
            "pid": PROCESS,
            "tid": PROCESS,
            "ts": ts,
            "dur": dur,
            "cat": "cpu_op",
            "args": args,
        }

    events = [
        cpu("ProfilerStep#3", "1704161511420300.000", 900.0),
        cpu("aten::matmul", "1704161511420320.125", 100.5),
        {"name": "process_name", "pid": 7, "tid": 0, "args": {"name": "Ascend Hardware"}, "ph": "M"},
    ]  # fmt: skip
    profile = read_bytes(json.dumps(events).encode(), name="trace_view.json")
    assert profile["sessions"].select("tool", "framework").rows() == [("Ascend PyTorch Profiler", "PyTorch")]
    assert texts(profile, "ops", "name") == ["aten::matmul"]
    assert profile["ops"].select("start_ns", "duration_ns", "iteration").rows() == [(20_125, 100_500, 3)]
    assert profile["ranges"].select("duration_ns", "iteration").rows() == [(900_000, 3)]
    assert any("kernel_details.csv" in reason for reason in profile["issues"]["reason"])
    assert session_vendor(profile).name == "Huawei"
