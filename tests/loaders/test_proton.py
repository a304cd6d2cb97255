"""Proton's trees: kernels, scopes around them, FLOPs and bytes, devices."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.corpus import shared_file
from tests.loaders.damage import load_damaged
from tui.analysis.ops.op_trees import group_ops
from tui.analysis.ops.ops_by_name import coverage_note, ops
from tui.loaders import proton
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError
from tui.screens.ops_and_kernels import kernels_of_selected_op

if TYPE_CHECKING:
    from tui.model.profile import Profile


def node(name: str, *children: dict[str, Any], **metrics: Any) -> dict[str, Any]:
    named = {key.replace("time_ns", "time (ns)"): value for key, value in metrics.items()}
    return {"children": list(children), "frame": {"name": name, "type": "function"}, "metrics": named}


LEAF = {"device_id": "0", "device_type": "CUDA"}
TREE = [
    node(
        "ROOT",
        node("step", node("matmul", node("gemm", count=2, time_ns=400, **LEAF), flops8=1e9, bytes=64)),
        node("gemm", count=1, time_ns=250, **LEAF),
        node("relu", count=5, time_ns=50, **LEAF),
    ),
    {"CUDA": {"0": {"arch": "90", "bus_width": 6144, "memory_clock_rate": 2619000, "num_sms": 132}}},
]


def read(document: Any) -> Profile:
    text = document if isinstance(document, str) else json.dumps(document)
    return load_input("run.hatchet", stream=BytesIO(text.encode()))


def test_scopes_give_the_groups_of_ops() -> None:
    tree = group_ops(read(TREE))

    assert tree.select("level", "node", "gpu_ns", "launches").rows() == [
        (1, "all", 700, 8),
        (2, "step", 400, 2),
        (3, "matmul", 400, 2),
        (4, "gemm", 400, 2),
        (2, "(outside ranges)", 300, 6),
        (3, "gemm", 250, 1),
        (3, "relu", 50, 5),
    ]


def test_launches_of_which_a_part_is_unknown_are_unknown() -> None:
    tree = node("ROOT", node("a", node("gemm", count=2, time_ns=400)), node("b", node("gemm", time_ns=200)))

    rows = read([tree])["summary"].select("section", "name", "range", "calls", "total_ns", "avg_ns").rows()
    assert rows == [
        ("gpu", "gemm", None, None, 600, None),
        ("nvtx", "a", None, 2, 400, 200),
        ("nvtx", "b", None, None, 200, None),
        ("nvtx", "gemm", "a", 2, 400, 200),
        ("nvtx", "gemm", "b", None, 200, None),
    ]


def test_innermost_scopes_are_ops_with_their_kernels() -> None:
    profile = read(TREE)

    assert ops(profile).select("op", "op_type", "launches", "gpu_self_ns", "op_source").rows() == [
        ("matmul", "gemm", 2, 400, "nvtx"),
        ("(unattributed: totals only)", None, None, 300, None),
    ]
    assert coverage_note(profile) == "Scopes recorded; 300 ns (42.9% of GPU time) not attributed to any scope"
    chosen = next(ops(profile).iter_rows(named=True))
    kernels = kernels_of_selected_op(profile, {"ops": chosen})
    assert kernels.select(pl.col("name").cast(str), "total_ns", "avg_ns", pl.col("time_pct").round(2)).rows() == [
        ("gemm", 400, 200, 57.14)
    ]


def test_scopes_that_are_nested_too_deep_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proton, "_MAX_DEPTH", 2)

    profile = read(TREE)
    assert profile["summary"].filter(section="gpu").select(pl.col("name").cast(str), "total_ns").rows() == [
        ("gemm", 250),
        ("relu", 50),
    ]
    assert profile["issues"].filter(severity="warning")["reason"].to_list() == [
        "1 scope nested deeper than 2 levels skipped"
    ]


def test_kernels_and_scopes() -> None:
    profile = read(TREE)
    columns = (pl.col("section", "name", "range").cast(str), "calls", "total_ns", "avg_ns")
    assert profile["summary"].select(columns).rows() == [
        ("gpu", "gemm", None, 3, 650, 216),
        ("gpu", "relu", None, 5, 50, 10),
        ("nvtx", "step", None, 2, 400, 200),
        ("nvtx", "step / matmul", None, 2, 400, 200),
        ("nvtx", "gemm", "step / matmul", 2, 400, 200),
    ]
    assert profile["metrics"].select(pl.col("kernel", "metric").cast(str), "total").rows() == [
        ("step / matmul", "flops8", 1e9),
        ("step / matmul", "flops8 per second", None),
        ("step / matmul", "bytes", 64),
        ("step / matmul", "bytes per second", None),
    ]
    assert profile["metrics"]["unit"].cast(str).to_list() == [None, "FLOP/s", "B", "B/s"]
    # Over 400 ns of GPU time.
    assert profile["metrics"]["avg"].to_list() == [1e9, 2.5e15, 64, 1.6e8]
    facts = ("device", "compute_capability", "sm_count", "memory_bandwidth")
    assert profile["devices"].select(facts).rows() == [(0, "9.0", 132, 4_022_784_000_000)]


def test_rates_of_a_scope_count_the_work_in_it() -> None:
    inner = node("inner", node("_Z6squarePfi", count=1, time_ns=100, **LEAF), flops16=30.0)
    profile = read([node("ROOT", node("outer", inner, node("relu", count=1, time_ns=100, **LEAF), flops16=10.0))])
    rates = profile["metrics"].filter(pl.col("metric").cast(str).str.ends_with("per second"))
    assert sorted(rates.select(pl.col("kernel").cast(str), "avg").rows()) == [("outer", 2e8), ("outer / inner", 3e8)]
    assert profile["summary"].filter(section="gpu")["name"].cast(str).to_list() == ["square(float*, int)", "relu"]


def test_names_of_metrics_of_2024() -> None:
    leaf = {
        "children": [],
        "frame": {"name": "k", "type": "function"},
        "metrics": {"Count": 1, "Time (ns)": 204800, "DeviceId": "0", "DeviceType": "HIP"},
    }
    assert read([node("ROOT", leaf)])["summary"].select("calls", "total_ns").rows() == [(1, 204800)]


def test_lines_of_a_kernel_are_parts_of_it() -> None:
    """With mode=pcsampling, a kernel has its source lines below it, with samples and no time."""
    lines = [node(f"gemm.py:{line}", num_samples=samples, stalled_wait=0) for line, samples in ((12, 30), (14, 5))]
    zero = {"count": 0, "time_ns": 0, "num_samples": 0}
    profile = read([node("ROOT", node("step", node("gemm", *lines, count=2, time_ns=400, **LEAF)), **zero)])
    assert profile["summary"].select(pl.col("section", "name", "range").cast(str), "calls", "total_ns").rows() == [
        ("gpu", "gemm", None, 2, 400),
        ("nvtx", "step", None, 2, 400),
        ("nvtx", "gemm", "step", 2, 400),
    ]
    assert profile["metrics"].select(pl.col("kernel", "metric").cast(str), "total").rows() == [
        ("step / gemm / gemm.py:12", "num_samples", 30.0),
        ("step / gemm / gemm.py:14", "num_samples", 5.0),
    ]


def test_cycles_of_scopes_in_a_kernel_are_metrics() -> None:
    """The instrumentation backend counts cycles instead of times."""
    load = node("load", cycles=900, normalized_cycles=7.5, device_id="0", device_type="1")
    profile = read([node("ROOT", node("gemm", load), cycles=0, normalized_cycles=0)])
    assert profile["summary"].height == 0
    assert profile["metrics"].select(pl.col("kernel", "metric").cast(str), "total").rows() == [
        ("gemm / load", "cycles", 900.0),
        ("gemm / load", "normalized_cycles", 7.5),
    ]


def test_a_scope_without_work_is_not_a_kernel() -> None:
    profile = read([node("ROOT", node("idle", count=0, time_ns=0), node("relu", count=5, time_ns=50, **LEAF))])
    assert profile["summary"]["name"].cast(str).to_list() == ["relu"]


@pytest.mark.parametrize("is_large", [False, True])
def test_the_same_tree_as_messagepack(is_large: bool) -> None:
    """Output format hatchet_msgpack; its writer starts nodes with their frame."""
    tree = [{key: part[key] for key in ("frame", "metrics", "children") if key in part} or part for part in TREE]
    packed = msgspec.msgpack.encode([*tree, *([{}] * 15 if is_large else [])])
    profile = load_input("run.hatchet_msgpack", stream=BytesIO(packed))
    for frame in ("summary", "metrics", "devices"):
        assert profile[frame].rows() == read(TREE)[frame].rows()
    with pytest.raises(ProftuiError, match="not valid MessagePack") as raised:
        load_input("run.hatchet_msgpack", stream=BytesIO(packed[:90]))
    assert raised.value.hint == "record it again"


@pytest.mark.parametrize("document", [[node("ROOT")], [node("ROOT", node("scope"))], '[{"children": [ "metrics" }'])
def test_a_tree_without_times_is_declined(document: Any) -> None:
    with pytest.raises(ProftuiError):
        read(document)


@pytest.mark.parametrize(
    "name", ["htyu_matmul.hatchet", "triton_cuda.json", "triton_frame_old.json", "triton_leaf_nodes.json"]
)
def test_real_trees_add_up(name: str) -> None:
    expected = json.loads(Path(shared_file("corpus2/expected.json")).read_text())["proton"][name]
    summary = load_input(shared_file(f"corpus2/proton/{name}"))["summary"].filter(pl.col("section") == "gpu")
    assert summary["total_ns"].sum() == expected["leaf_time_ns"]
    assert summary["calls"].sum() == expected["leaf_count_sum"]


def test_a_file_that_is_not_json_is_declined_in_one_line() -> None:
    with pytest.raises(ProftuiError, match="not valid JSON") as raised:
        load_input(shared_file("corpus2/proton/htyu_matmul_ws.hatchet"))
    assert "\n" not in str(raised.value).splitlines()[0]


def kernel(start_us: float, duration_us: float, *stack: str, tid: int = 7) -> dict[str, Any]:
    args = {"call_stack": ["ROOT", *stack]}
    return {"args": args, "cat": "kernel", "dur": duration_us, "name": stack[-1], "ph": "X", "tid": tid, "ts": start_us}


TRACE = {
    "displayTimeUnit": "us",
    "traceEvents": [
        kernel(110.5, 4.25, "step", "matmul", "gemm"),
        kernel(116.0, 2.0, "step", "matmul", "gemm"),
        kernel(120.0, 1.0, "step", "act", "_Z4reluPf"),
        kernel(130.0, 3.0, "step", "matmul", "gemm"),
        kernel(102.0, 5.0, "fill", tid=13),
    ],
}


def test_kernels_of_a_trace_are_linked_to_their_scopes() -> None:
    profile = read(TRACE)
    names = profile["ops"]["name"].to_list()
    columns = ("kind", "name", "start_ns", "duration_ns", "stream", "op", "op_join")
    assert profile["activities"].select(columns).rows() == [
        ("kernel", "fill", 0, 5000, 13, None, "launched outside any op"),
        ("kernel", "gemm", 8500, 4250, 7, 0, "recorded"),
        ("kernel", "gemm", 14_000, 2000, 7, 0, "recorded"),
        ("kernel", "relu(float*)", 18_000, 1000, 7, 1, "recorded"),
        ("kernel", "gemm", 28_000, 3000, 7, 2, "recorded"),
    ]
    assert names == ["matmul", "act", "matmul"]
    assert profile["ops"]["group"].to_list() == ["step"] * 3
    assert ops(profile).select("op", "calls", "launches", "gpu_self_ns").rows() == [
        ("matmul", 2, 3, 9250),
        ("(unattributed: launched outside any op)", None, 1, 5000),
        ("act", 1, 1, 1000),
    ]
    tree = group_ops(profile)
    assert tree.select("path", "gpu_ns").rows()[:2] == [("", 15_250), ("step", 10_250)]
    assert profile["summary"].select("section", "name", "calls", "total_ns", "range").rows() == [
        ("nvtx", "step", 4, 10_250, None),
        ("nvtx", "step / matmul", 3, 9250, None),
        ("nvtx", "step / act", 1, 1000, None),
    ]
    assert profile["issues"].select("severity", "reason").rows() == [
        ("info", "the trace has the scopes of kernels, not their calls: calls are inferred from the order of kernels")
    ]


def test_scopes_streams_and_metrics_of_newer_traces() -> None:
    work = {"flops": "3000.500000", "bytes": "64", "note": "x"}
    scope = {"cat": "scope", "ph": "X", "pid": 0, "tid": 2, "args": {"call_stack": ["ROOT", "step"]}}
    metric = {**scope, "cat": "metric", "args": {"call_stack": ["ROOT", "step", "matmul"], "metrics": work}}
    lanes = [(2, "CPU Thread 2"), (1007, "GPU Stream 7")]
    events = [
        *({"ph": "M", "name": "thread_name", "pid": 0, "tid": tid, "args": {"name": name}} for tid, name in lanes),
        {**scope, "name": "step", "ts": 0.0, "dur": 40.0},
        {**metric, "name": "matmul: <bytes, 64>, <flops, 3000.500000>", "ts": 1.0, "dur": 9.5},
        {**kernel(12.0, 3.0, "step", "matmul", "gemm", tid=1007), "pid": 0},
    ]
    profile = read({"baseTimeNanoseconds": 1_700_000_000_000_000_000, "displayTimeUnit": "us", "traceEvents": events})
    assert profile["ranges"].select("name", "start_ns", "duration_ns", "tid", "depth").rows() == [
        ("step", 0, 40_000, 2, 0),
        ("matmul", 1000, 9500, 2, 1),
    ]
    assert profile["activities"].select("name", "start_ns", "stream").rows() == [("gemm", 12_000, 7)]
    metrics = profile["metrics"].filter(~pl.col("metric").cast(pl.String).str.contains("per second"))
    assert metrics.select("kernel", "metric", "total").rows() == [
        ("step / matmul", "flops", 3000.5),
        ("step / matmul", "bytes", 64.0),
    ]


def test_streams_of_a_trace_are_documents_of_their_own() -> None:
    def document(stream: int, *names: str) -> str:
        events = [kernel(10 * number + stream, 2, "step", name, tid=stream) for number, name in enumerate(names)]
        return json.dumps({"displayTimeUnit": "us", "traceEvents": events}) + "\n"

    profile = read(document(7, "a", "b", "b", "a", "b") + document(13, "c", "c"))
    assert profile["activities"].select("name", "start_ns", "stream", "op", "line").rows() == [
        ("a", 0, 7, 0, 1),
        ("c", 6000, 13, 1, 2),
        ("b", 10_000, 7, 0, 1),
        ("c", 16_000, 13, 1, 2),
        ("b", 20_000, 7, 0, 1),
        ("a", 30_000, 7, 2, 1),
        ("b", 40_000, 7, 2, 1),
    ]
    assert profile["issues"]["severity"].to_list() == ["info"]


def test_source_lines_of_a_trace_are_call_stacks() -> None:
    frames = ("run.py:30@<module>", "model.py:12@forward")
    profile = read({"traceEvents": [kernel(1, 2, frames[0], "step", frames[1], "k"), kernel(4, 2, *frames, "k")]})
    assert profile["ops"].select("name", "group", "stack").rows() == [
        ("step", None, "model.py:12@forward;run.py:30@<module>"),
        ("model.py:12@forward", None, "model.py:12@forward;run.py:30@<module>"),
    ]


def test_traces_without_kernel_times_are_declined() -> None:
    with pytest.raises(ProftuiError, match="a Proton trace without events"):
        read({"traceEvents": [{**kernel(1, 2, "k"), "cat": "call_path"}]})


def test_damaged_traces_are_read_or_declined() -> None:
    for profile in load_damaged(json.dumps(TRACE), 200, at_least=0.01):
        assert (profile["activities"]["duration_ns"].drop_nulls() >= 0).all()


def test_damaged_files_are_read_or_declined() -> None:
    for profile in load_damaged(json.dumps(TREE), 400, at_least=0.01):
        assert (profile["summary"]["total_ns"].drop_nulls() >= 0).all()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, JSON, JSON)
@example(7, {}, {})
@example(True, {}, {})
def test_any_tree_is_read_or_declined(children: Any, metrics: Any, devices: Any) -> None:
    tree = [{**node("ROOT", node("k", count=1, time_ns=1), {"children": children, "metrics": metrics})}, devices]
    try:
        profile = read(tree)
    except ProftuiError:
        return
    assert profile["summary"].height >= 1
