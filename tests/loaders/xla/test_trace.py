from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tui.analysis.ranges import ranges_by_name
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile

RECORDING = Path(__file__).parents[3] / "sample_logs/jax_train_step.trace.json.gz"
"""Four steps of a small JAX model on an H200, with jax 0.11."""

CONV = "jit(train_step)/jvp(encoder)/conv_general_dilated"
BACK = "jit(train_step)/transpose(jvp(encoder))/conv_general_dilated"


def process(pid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}


def thread(pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}


def event(pid: int, tid: int, name: str, start_us: float, us: float, /, **args: str) -> dict[str, Any]:
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": start_us, "dur": us, "args": args}


def kernel(name: str, start_us: float, us: float, correlation: int, /, **args: str) -> dict[str, Any]:
    details = "regs:32 static_shared:16 dynamic_shared:512 grid:36,2,1 block:128,1,1 occ_pct:50"
    return event(
        2, 14, name, start_us, us, correlation_id=str(correlation), context_id="$$1", kernel_details=details, **args
    )


NAMES = (
    process(2, "/device:GPU:1"),
    thread(2, 14, "Stream #14(Memset,MemcpyD2D,Compute)"),
    thread(2, 15, "Stream #15(MemcpyH2D)"),
    process(701, "/host:CPU"),
    thread(701, 9, "python3"),
)
OF_CONV = {"hlo_module": "jit_train_step", "hlo_op": "cudnn-conv.1", "name": CONV, "tf_op": "XlaModule:"}
OF_BACK = {"hlo_module": "jit_train_step", "hlo_op": "cudnn-conv.2", "name": BACK, "tf_op": "XlaModule:"}
OF_GRAPH = {"hlo_module": "jit_train_step", "hlo_op": "command_buffer_3", "tf_op": "XlaModule:", "scope_range_id": "9"}
EVENTS = (
    event(701, 9, "train", 100, 50, step_num="7"),
    event(701, 9, "jit_train_step:XLA GPU module", 105, 40),
    event(701, 9, "cudnn-conv.1", 110, 8),
    event(701, 9, "void conv_kernel<float>(float*)", 112, 4, correlation_id="5", context_id="$$1"),
    event(701, 9, "command_buffer_3", 120, 10),
    event(701, 9, "command_buffer::execute", 121, 8),
    event(701, 9, "cuGraphLaunch (CudaGraph:19)", 122, 6, correlation_id="6"),
    event(701, 9, "train", 160, 50, step_num="8"),
    event(701, 9, "cudnn-conv.1", 170, 8),
    event(701, 9, "void conv_kernel<float>(float*)", 172, 4, correlation_id="7"),
    event(701, 9, "$train.py:3 step", 100, 100),
    kernel("void conv_kernel<float>(float*)", 130.5, 10.125, 5, scope_range_id="8", **OF_CONV),
    kernel("loop_fusion", 141, 2, 6, cuda_graph_id="19", cuda_graph_node_id="44", **OF_GRAPH),
    kernel("wrapped_add", 144, 2, 6, cuda_graph_id="19", cuda_graph_node_id="45", **OF_GRAPH),
    kernel("void conv_kernel<float>(float*)", 215, 10, 7, scope_range_id="18", **OF_CONV),
    kernel("_ZN4ours5wgradEPfi", 226, 4, 8, **OF_BACK),
    event(2, 15, "MemcpyH2D", 101, 3, correlation_id="1", memcpy_details="kind_src:pinned kind_dst:device size:4096"),
    event(2, 14, "Memset 3", 105, 1, correlation_id="2", Memset_details="kind:device num_bytes:64 async:1"),
)


def read(*events: dict[str, Any]) -> Profile:
    document = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*events, {}]}
    return load_input("trace.json", stream=io.BytesIO(json.dumps(document).encode()))


@pytest.fixture(scope="module")
def profile() -> Profile:
    return read(*NAMES, *EVENTS)


def test_only_streams_are_counted(profile: Profile) -> None:
    columns = ("kind", "short_name", "start_ns", "duration_ns", "device", "stream", "context")
    assert profile["activities"].select(columns).rows() == [
        ("memcpy", "MemcpyH2D", 1_000, 3_000, 1, 15, None),
        ("memset", "Memset 3", 5_000, 1_000, 1, 14, None),
        ("kernel", "conv_kernel", 30_500, 10_125, 1, 14, 1),
        ("kernel", "loop_fusion", 41_000, 2_000, 1, 14, 1),
        ("kernel", "wrapped_add", 44_000, 2_000, 1, 14, 1),
        ("kernel", "conv_kernel", 115_000, 10_000, 1, 14, 1),
        ("kernel", "ours::wgrad", 126_000, 4_000, 1, 14, 1),
    ]


def test_launch_configurations_are_read_from_their_text(profile: Profile) -> None:
    kernel = profile["activities"].filter(pl.col("kind") == "kernel").to_dicts()[0]
    assert [kernel[f"{shape}_{axis}"] for shape in ("grid", "block") for axis in "xyz"] == [36, 2, 1, 128, 1, 1]
    assert (kernel["registers"], kernel["static_shared_bytes"], kernel["dynamic_shared_bytes"]) == (32, 16, 512)


def test_copies_and_memsets_have_sizes_and_memory(profile: Profile) -> None:
    rows = profile["activities"].head(2).select("size_bytes", "copy_kind", "src_memory", "dst_memory").rows()
    assert rows == [(4096, "HtoD", "pinned", "device"), (64, None, None, "device")]


def test_every_kernel_has_the_instance_of_its_op(profile: Profile) -> None:
    ops = profile["ops"].select("op", "op_id", pl.col("start_ns").alias("op_start_ns"))
    joined = profile["activities"].join(ops, on="op", how="left", maintain_order="left")
    assert joined.select("op_id", "op_start_ns", "op_join").rows() == [
        (None, None, "launch not recorded"),
        (None, None, "launch not recorded"),
        ("cudnn-conv.1", 10_000, "recorded"),
        ("command_buffer_3", 20_000, "recorded"),
        ("command_buffer_3", 20_000, "recorded"),
        ("cudnn-conv.1", 70_000, "recorded"),
        ("cudnn-conv.2", None, "recorded"),
    ]


def test_ops_have_the_names_of_the_framework(profile: Profile) -> None:
    columns = ("op_id", "name", "op_type", "direction", "group", "start_ns", "duration_ns", "iteration")
    conv = ("cudnn-conv.1", "conv_general_dilated", "conv_general_dilated", "fprop")
    group = "jit_train_step/jit(train_step)/jvp(encoder)"
    back = ("cudnn-conv.2", "conv_general_dilated", "conv_general_dilated", "bprop")
    assert profile["ops"].select(columns).rows() == [
        (*conv, group, 10_000, 8_000, 7),
        ("command_buffer_3", "command_buffer_3", "command_buffer", None, "jit_train_step", 20_000, 10_000, 7),
        (*conv, group, 70_000, 8_000, 8),
        (*back, "jit_train_step/jit(train_step)/transpose(jvp(encoder))", None, None, None),
    ]


def test_work_belongs_to_the_step_that_launched_it(profile: Profile) -> None:
    """The last convolution ran after its step had ended."""
    kernels = profile["activities"].filter(pl.col("kind") == "kernel")
    assert kernels["iteration"].to_list() == [7, 7, 7, 8, None]
    marks = profile["ranges"].drop_nulls("iteration").select("name", "start_ns", "duration_ns", "iteration").rows()
    assert marks == [("train", 0, 50_000, 7), ("train", 60_000, 50_000, 8)]
    assert profile["sessions"]["iteration_source"].to_list() == ["step annotation train"]


def test_step_numbers_after_the_name_are_read(profile: Profile) -> None:
    numbered = [
        {**event_, "name": f"train {event_['args']['step_num']}"} if "step_num" in event_["args"] else event_
        for event_ in EVENTS
    ]
    converted = read(*NAMES, *numbered)
    assert converted["activities"]["iteration"].equals(profile["activities"]["iteration"])
    assert converted["sessions"]["iteration_source"].to_list() == ["step annotation train"]


def test_calls_into_cuda(profile: Profile) -> None:
    assert profile["api_calls"].select("name", "start_ns", "duration_ns", "correlation").rows() == [
        ("[kernel launch]", 12_000, 4_000, 5),
        ("cuGraphLaunch", 22_000, 6_000, 6),
        ("[kernel launch]", 72_000, 4_000, 7),
    ]
    assert profile["activities"]["graph_node"].to_list() == [None, None, None, 44, 45, None, None]
    threads = profile["api_calls"].select("pid", "tid").unique().rows()
    assert threads == profile["ranges"].select("pid", "tid").unique().rows() == [(701, 9)]
    (reported,) = profile["issues"].filter(text="[kernel launch]")["reason"]
    assert reported.endswith("they are listed as [kernel launch]")


def test_asynchronous_calls_are_recognized_by_name() -> None:
    details = ("kind_src:unknown kind_dst:unknown size:64 dest:0 async:1", "kind_src:unknown size:64 dest:0 async:0")
    copies = [
        event(701, 9, "MemcpyD2D", 10 * n, 5, correlation_id=str(n), memcpy_details=text)
        for n, text in enumerate(details, 1)
    ]
    memset = event(701, 9, "Memset", 30, 5, correlation_id="3", Memset_details="kind:unknown num_bytes:64 async:1")
    undirected = event(701, 9, "MemcpyH2D", 40, 5, correlation_id="4")
    assert read(*NAMES, *copies, memset, undirected)["api_calls"]["name"].to_list() == [
        "MemcpyD2DAsync",
        "MemcpyD2D",
        "MemsetAsync",
        "MemcpyH2D",
    ]


def test_ranges_have_the_work_that_was_launched_in_them(profile: Profile) -> None:
    ranges = ranges_by_name(profile).with_columns(pl.col("name").cast(pl.String))
    of_name = {name: work for name, *work in ranges.select("name", "range_gpu_ns", "range_kernels").iter_rows()}
    assert of_name["train"] == [10_125 + 2_000 + 2_000 + 10_000, 4]
    assert of_name["command_buffer_3"] == [4_000, 2]


def test_annotations_are_nested_and_python_functions_skipped(profile: Profile) -> None:
    rows = profile["ranges"].select("name", "depth").head(3).rows()
    assert rows == [("train", 0), ("jit_train_step:XLA GPU module", 1), ("cudnn-conv.1", 2)]
    assert "1 Python function call skipped" in " ".join(profile["issues"]["reason"])


DERIVED = (
    thread(2, 90, "XLA Modules"),
    thread(2, 91, "XLA Ops"),
    event(2, 90, "jit_train_step(12)", 130, 30),
    event(2, 90, "jit_init(11)", 100, 20),
    event(2, 90, "jit_train_step(12)", 214, 40),
    event(2, 91, "cudnn-conv.1", 130.5, 10.125),
)


def test_lines_that_repeat_the_streams_are_never_counted(profile: Profile) -> None:
    with_lines = read(*NAMES, *EVENTS, *DERIVED)
    assert with_lines["activities"].equals(
        profile["activities"].drop("line").with_columns(line=with_lines["activities"]["line"])
    )
    (issue,) = with_lines["issues"].filter(pl.col("reason").str.contains("duplicate")).to_dicts()
    assert (issue["text"], issue["reason"][:9]) == ("XLA Modules, XLA Ops", "4 events ")


def test_without_annotations_runs_of_the_longest_module_are_iterations() -> None:
    unannotated = [event_ for event_ in EVENTS if event_["name"] != "train"]
    profile = read(*NAMES, *unannotated, *DERIVED)
    marks = profile["ranges"].drop_nulls("iteration").select("name", "domain", "iteration").rows()
    assert marks == [("jit_train_step(12)", "XLA Modules", 0), ("jit_train_step(12)", "XLA Modules", 1)]
    assert profile["sessions"]["iteration_source"].to_list() == ["XLA module runs jit_train_step"]


def test_step_numbers_are_from_the_line_of_steps() -> None:
    steps = (thread(2, 92, "Steps"), event(2, 92, "train 31", 130, 30), event(2, 92, "train 32", 214, 40))
    profile = read(*NAMES, *(event_ for event_ in EVENTS if event_["name"] != "train"), *DERIVED, *steps)
    assert profile["ranges"].drop_nulls("iteration").select("domain", "iteration").rows() == [
        ("Steps", 31),
        ("Steps", 32),
    ]


def test_names_of_tensorflow_give_op_and_type() -> None:
    conv = kernel("sm80_kernel", 10, 2, 3, tf_op="model/gradients/conv1/Conv2D:Conv2DBackpropFilter")
    profile = read(*NAMES, conv)
    assert profile["ops"].select("op_id", "name", "op_type", "group", "start_ns").rows() == [
        (None, "Conv2D", "Conv2DBackpropFilter", "model/gradients/conv1", None)
    ]
    assert profile["activities"]["op"].to_list() == [0]


def test_the_grid_of_an_amd_gpu_has_no_documented_unit() -> None:
    details = "private_mem:0 group_mem:512 grid:1024,1,1 block:256,1,1"
    profile = read(*NAMES, event(2, 14, "gemm", 1, 2, kernel_details=details))
    columns = ("kind", "grid_x", "block_x", "registers", "arguments")
    assert profile["activities"].select(columns).rows() == [("kernel", None, None, None, details)]


def test_impossible_numbers_are_unknown() -> None:
    details = f"regs:{1 << 40} static_shared:0 dynamic_shared:0 grid:{1 << 40},1,1 block:x,1,1"
    kernel = event(2, 14, "k", 1, 2, kernel_details=details, correlation_id="soon", context_id="$$" + "9" * 30)
    profile = read(*NAMES, kernel, event(701, 9, "train", 0, 9, step_num=str(1 << 40)))
    columns = ("registers", "grid_x", "block_x", "correlation", "iteration")
    assert profile["activities"].select(columns).rows() == [(None, None, None, None, None)]


def test_a_trace_without_a_gpu_is_reported() -> None:
    profile = read(process(701, "/host:CPU"), thread(701, 9, "python3"), event(701, 9, "PjitFunction(f)", 1, 2))
    assert profile["sessions"]["framework"].to_list() == ["JAX"]
    assert profile["activities"].height == 0
    assert profile["issues"]["severity"].to_list() == ["warning"]


def test_a_trace_without_events_is_an_error() -> None:
    with pytest.raises(ProftuiError, match=r"^trace\.json: no profile found"):
        read(*NAMES)


def test_a_real_recording_agrees_with_another_reader() -> None:
    """The sums are those of JAX's own reader for the xplane that was written with the trace."""
    profile = load_input(str(RECORDING))
    sums = profile["activities"].group_by("stream").agg(pl.len(), pl.col("duration_ns").sum()).sort("stream")
    assert sums.rows() == [(14, 96, 279_477), (15, 8, 266_143), (19, 1, 1_600)]
    steps = profile["activities"].group_by("iteration").agg(pl.len()).sort("iteration", nulls_last=True)
    assert steps.rows() == [(7, 26), (8, 26), (9, 26), (10, 26), (None, 1)]
    # Copies that were not launched by a compiled program have no op.
    assert profile["activities"]["op_join"].value_counts().sort("count").rows() == [
        ("launched outside any op", 9),
        ("recorded", 96),
    ]
    assert profile["ops"]["start_ns"].null_count() == 0
    assert profile["ops"].filter(pl.col("direction") == "bprop")["op_id"].to_list() == ["cudnn-conv-bw-filter.1"] * 4
    assert profile["sessions"].select("format", "framework").rows() == [("xla-trace", "JAX")]


def test_streams_without_a_device_of_xla_are_of_another_profiler() -> None:
    events = [thread(2, 1, "Stream #1"), event(2, 1, "Default/network/Conv2D-op12", 100.5, 3.25)]
    with pytest.raises(ProftuiError, match="trace events without categories, not from the PyTorch profiler"):
        load_input("timeline.json", stream=io.BytesIO(json.dumps({"traceEvents": events}).encode()))
