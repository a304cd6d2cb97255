"""rocprofv3's JSON: dispatches, copies, calls, markers and counters of every process."""

from __future__ import annotations

import copy
import io
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus import shared_file
from tests.loaders.damage import load_damaged
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile

CPU, GPU = {"handle": 10}, {"handle": 20}
KINDS = {"HIP_RUNTIME_API": ["hipLaunchKernel", "hipMemcpy"], "KERNEL_DISPATCH": ["NONE", "DISPATCH"]}
KINDS |= {"MEMORY_COPY": ["NONE", "MEMORY_COPY_HOST_TO_DEVICE"], "MARKER_CORE_API": ["roctxRangePop"]}


def record(kind: str, operation: int, start: int, end: int, correlation: int, **fields: Any) -> dict[str, Any]:
    times = {"start_timestamp": 1_000_000 + start, "end_timestamp": 1_000_000 + end, "thread_id": 7}
    common = {"kind": list(KINDS).index(kind), "operation": operation, "correlation_id": {"internal": correlation}}
    return {**common, **times, **fields}


def sizes(x: int, y: int = 1, z: int = 1) -> dict[str, int]:
    return {"x": x, "y": y, "z": z}


DISPATCH = {
    "agent_id": GPU,
    "queue_id": {"handle": 16},
    "kernel_id": 5,
    "dispatch_id": 1,
    "private_segment_size": 0,
    "group_segment_size": 512,
    "workgroup_size": sizes(256),
    "grid_size": sizes(1000, 4),
}
PROCESS = {
    "metadata": {"pid": 77, "command": ["python", "train.py"], "node": {"hostname": "box"}},
    "agents": [
        {"id": CPU, "type": 1},
        {"id": GPU, "type": 2, "name": "gfx950", "product_name": "AMD Instinct MI350X", "cu_count": 256},
    ],
    "strings": {
        "buffer_records": [{"kind": kind, "operations": operations} for kind, operations in KINDS.items()],
        "marker_api": [{"key": 9, "value": "forward"}],
    },
    "kernel_symbols": [
        {"kernel_id": 5, "formatted_kernel_name": "f<int>(A)", "arch_vgpr_count": 32, "sgpr_count": 48},
        {"kernel_id": 6, "formatted_kernel_name": "never"},
    ],
    "counters": [{"id": {"handle": 3}, "name": "SQ_WAVES"}],
    "buffer_records": {
        "kernel_dispatch": [record("KERNEL_DISPATCH", 1, 500, 900, 1, dispatch_info=DISPATCH)],
        "hip_api": [record("HIP_RUNTIME_API", 0, 100, 150, 1)],
        "memory_copy": [record("MEMORY_COPY", 1, 200, 300, 2, src_agent_id=CPU, dst_agent_id=GPU, bytes=4096)],
        "marker_api": [record("MARKER_CORE_API", 0, 0, 400, 9)],
    },
    "callback_records": {
        "counter_collection": [
            {
                "dispatch_data": {"dispatch_info": DISPATCH},
                "records": [{"counter_id": {"handle": 3}, "value": 8.0}, {"counter_id": {"handle": 3}, "value": 4.0}],
            }
        ]
    },
}


def read(*processes: dict[str, Any], indent: int | None = None) -> Profile:
    text = json.dumps({"rocprofiler-sdk-tool": list(processes)}, indent=indent)
    return load_input("1_results.json", stream=io.BytesIO(text.encode()))


@pytest.mark.parametrize("indent", [None, 1])
def test_a_process_has_its_calls_and_gpu_work(indent: int | None) -> None:
    profile = read(PROCESS, indent=indent)
    activities = profile["activities"].select(
        pl.col("kind", "name", "copy_kind").cast(str), "start_ns", "duration_ns", "device", "stream", "size_bytes"
    )
    assert activities.rows() == [
        ("memcpy", "MEMORY_COPY_HOST_TO_DEVICE", "HtoD", 200, 100, 0, None, 4096),
        ("kernel", "f<int>(A)", None, 500, 400, 0, 16, None),
    ]
    kernel = profile["activities"].row(1, named=True)
    # The grid is recorded in work items.
    assert [kernel[f"grid_{axis}"] for axis in "xyz"] == [4, 4, 1]
    assert (kernel["registers"], kernel["shared_bytes"], kernel["op"]) == (32, 512, 0)
    assert profile["api_calls"].select(pl.col("name").cast(str), "start_ns", "duration_ns").rows() == [
        ("hipLaunchKernel", 100, 50)
    ]
    assert profile["ranges"].select(pl.col("name").cast(str), "duration_ns").rows() == [("forward", 400)]
    assert profile["metrics"].select(pl.col("kernel", "metric").cast(str), "avg").rows() == [
        ("f<int>(A)", "SQ_WAVES", 12.0)
    ]
    assert profile["devices"].select("name", "sm_count").rows() == [("AMD Instinct MI350X", 256)]
    assert profile["sessions"].select("pid", "command", "host").rows() == [(77, "python train.py", "box")]


def test_two_processes_are_two_sessions() -> None:
    second_process = copy.deepcopy(PROCESS)
    second_process["metadata"]["pid"] = 78
    profile = read(PROCESS, second_process)
    assert profile["sessions"]["pid"].to_list() == [77, 78]
    assert profile["activities"]["session"].to_list() == [0, 0, 1, 1]
    # Both have the same correlation ids.
    assert profile["ops"]["session"].to_list() == [0, 1]
    assert profile["activities"].filter(pl.col("kind") == "kernel")["op"].to_list() == [0, 1]


def test_kind_numbers_differ_between_versions() -> None:
    process = copy.deepcopy(PROCESS)
    process["strings"]["buffer_records"].insert(1, {"kind": "NEW", "operations": ["new"]})
    for records in process["buffer_records"].values():
        for record_ in records:
            record_["kind"] += record_["kind"] > 0
    before, after = read(PROCESS), read(process)
    for frame in ("activities", "api_calls", "ranges"):
        assert after[frame].equals(before[frame]), frame


def test_dispatches_in_any_order_on_several_gpus_and_streams() -> None:
    def dispatch(start: int, gpu: int, stream: int) -> dict[str, Any]:
        info = {**DISPATCH, "agent_id": {"handle": gpu}, "dispatch_id": start}
        return record("KERNEL_DISPATCH", 1, start, start + 10, start, dispatch_info=info, stream_id={"handle": stream})

    process = copy.deepcopy(PROCESS)
    process["agents"].append({"id": {"handle": 30}, "type": 2, "name": "gfx950"})
    process["buffer_records"] = {
        "kernel_dispatch": [dispatch(800, 30, 567), dispatch(500, 20, 5), dispatch(600, 30, 567)],
        "hip_api": [],
        "memory_copy": [],
    }
    process["callback_records"] = {"counter_collection": []}
    profile = read(process)
    assert profile["activities"].select("start_ns", "duration_ns", "device", "stream").rows() == [
        (0, 10, 0, 5),
        (100, 10, 1, 567),
        (300, 10, 1, 567),
    ]
    assert profile["devices"]["name"].to_list() == ["AMD Instinct MI350X", "gfx950"]


def test_kernels_of_a_run_with_only_counters() -> None:
    """With --pmc and no trace, kernels have the times of dispatches with counters, which have several records."""
    process = copy.deepcopy(PROCESS)
    common = {"correlation_id": {"internal": 1}, "start_timestamp": 2_000_000, "end_timestamp": 2_000_750}
    first, second = ({"dispatch_info": {**DISPATCH, "dispatch_id": number}, **common} for number in (1, 2))
    value = [{"counter_id": {"handle": 3}, "value": 8.0}]
    process["buffer_records"] = {"kernel_dispatch": []}
    process["callback_records"]["counter_collection"] = [
        {"thread_id": 7, "dispatch_data": dispatch, "records": value} for dispatch in (first, second, second)
    ]
    profile = read(process)
    assert profile["activities"].select(
        pl.col("name").cast(str), "start_ns", "duration_ns", "device", "grid_x", "registers"
    ).rows() == 2 * [("f<int>(A)", 0, 750, 0, 4, 32)]
    assert profile["metrics"].select(pl.col("kernel", "metric").cast(str), "invocations", "min", "max").rows() == [
        ("f<int>(A)", "SQ_WAVES", 2, 8.0, 16.0)
    ]


def test_counters_without_a_value_or_a_name() -> None:
    process = copy.deepcopy(PROCESS)
    process["counters"].append({"id": {"handle": 4}})
    values = [{"counter_id": {"handle": 3}, "value": None}, {"counter_id": {"handle": 4}, "value": 2.0}]
    process["callback_records"]["counter_collection"][0]["records"] = values
    assert read(process)["metrics"].select(pl.col("metric").cast(str), "invocations", "min", "avg").rows() == [
        ("SQ_WAVES", 1, None, None),
        ("counter 4", 1, 2.0, 2.0),
    ]


@pytest.mark.parametrize("indent", [None, 1])
def test_counters_divided_by_zero_are_unknown(indent: int | None) -> None:
    """A sum with such a value is unknown as well; names of kernels are not changed."""
    process = copy.deepcopy(PROCESS)
    process["counters"] += [{"id": {"handle": 4}, "name": "OCCUPANCY"}, {"id": {"handle": 5}, "name": "LDS"}]
    process["kernel_symbols"][0]["formatted_kernel_name"] = 'f<"x":NaN>(A)'
    numbers = ((3, float("nan")), (4, float("inf")), (4, 2.0), (5, float("-inf")), (3, 8.0))
    values = [{"counter_id": {"handle": handle}, "value": value} for handle, value in numbers]
    process["callback_records"]["counter_collection"][0]["records"] = values
    profile = read(process, indent=indent)
    assert profile["metrics"].select(pl.col("kernel", "metric").cast(str), "invocations", "avg").rows() == [
        ('f<"x":NaN>(A)', name, 1, None) for name in ("SQ_WAVES", "OCCUPANCY", "LDS")
    ]
    assert "3 values are NaN or infinite: shown as unknown" in profile["issues"]["reason"].to_list()


def test_calls_of_any_library() -> None:
    process = copy.deepcopy(PROCESS)
    process["buffer_records"]["rocdecode_api"] = [record("HIP_RUNTIME_API", 1, 40, 90, 3)]
    calls = read(process)["api_calls"]
    assert calls.select(pl.col("name").cast(str), "duration_ns").rows() == [("hipLaunchKernel", 50), ("hipMemcpy", 50)]


def test_bytes_that_are_no_text_cost_no_rows() -> None:
    """The pointer of hipModuleLoadData is written as the text that it is not."""
    process = copy.deepcopy(PROCESS)
    process["buffer_records"]["hip_api"][0]["args"] = [{"type": "PKc", "name": "fname", "value": "POINTER"}]
    document = json.dumps({"rocprofiler-sdk-tool": [process]}).encode()
    document = document.replace(b"POINTER", b"@\xa8\xec\\u0016").replace(b"f<int>(A)", b"f<\xe9>(A)")
    profile = load_input("1_results.json", stream=io.BytesIO(document))
    assert profile["api_calls"].select(pl.col("name").cast(str), "duration_ns").rows() == [("hipLaunchKernel", 50)]
    kernels = profile["activities"].filter(kind="kernel")
    assert kernels.select(pl.col("name").cast(str), "duration_ns").rows() == [("f<�>(A)", 400)]
    assert [reason for reason in profile["issues"]["reason"] if "UTF-8" in reason] == [
        "texts have bytes that are not UTF-8, shown as �"
    ]
    assert "error" not in profile["issues"]["severity"].to_list()


def test_damaged_files_are_read_or_declined() -> None:
    for profile in load_damaged(json.dumps({"rocprofiler-sdk-tool": [PROCESS]}), 400, at_least=0.02):
        assert (profile["activities"]["duration_ns"].drop_nulls() >= 0).all()


def test_a_list_of_another_shape_affects_only_itself() -> None:
    process = copy.deepcopy(PROCESS)
    process["buffer_records"]["memory_copy"] = {"not": "a list"}
    profile = read(process)
    assert profile["activities"]["kind"].cast(str).to_list() == ["kernel"]
    assert "unreadable list" in profile["issues"].filter(severity="error")["reason"][0]


@pytest.mark.parametrize(
    "text", ['{"rocprofiler-sdk-tool": [', '{"rocprofiler-sdk-tool": [{}]}', '{"rocprofiler-sdk-tool": 1}']
)
def test_documents_without_records_are_declined(text: str) -> None:
    with pytest.raises(ProftuiError):
        load_input("1_results.json", stream=io.BytesIO(text.encode()))


@pytest.mark.parametrize("name", ["908_results.json.gz", "made_all_domains_rocm6_results.json"])
def test_real_files_add_up(name: str) -> None:
    expected = json.loads(Path(shared_file("corpus2/expected.json")).read_text())["rocprofv3_json"][name]
    kernels = load_input(shared_file(f"corpus2/rocprofv3_json/{name}"))["activities"].filter(pl.col("kind") == "kernel")
    (process,) = expected["processes"]
    assert (kernels.height, kernels["duration_ns"].sum()) == (
        process["kernel_dispatches"],
        process["kernel_total_ns"],
    )
    assert kernels["name"].n_unique() == process["distinct_kernels"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(PROCESS)), JSON, st.sampled_from(sorted(PROCESS["buffer_records"])), JSON)
def test_any_document_is_read_or_declined(key: str, value: Any, record_list: str, rows: Any) -> None:
    process = copy.deepcopy(PROCESS)
    process["buffer_records"][record_list] = rows
    if key != "buffer_records":
        process[key] = value
    try:
        read(process)
    except ProftuiError:
        return


def event(name: str, pid: int, begin: int, end: int, arguments: str = "", **args: object) -> dict[str, Any]:
    """Return an event as rocprof writes it: numbers are texts, and the time is cut to microseconds."""
    numbers = {"BeginNs": begin, "EndNs": end, "pid": 77, "tid": 78, **args}
    texts = {key.replace("_", "-"): str(value) for key, value in numbers.items()}
    thread = args.get("stream_id", 78)
    times = {"ts": str(begin // 1000), "dur": str((end - begin) // 1000)}
    return {"ph": "X", "name": name, "pid": str(pid), "tid": str(thread), **times, "args": {**texts, "args": arguments}}


def flow(phase: str, number: int, pid: int, tid: int, at: int) -> dict[str, Any]:
    return {"ts": at, "ph": phase, "cat": "DataFlow", "id": number, "pid": pid, "tid": tid, "name": "dep"}


NAMES = {2: "CPU HIP API", 1: "COPY", 6: "GPU0", 5: "Markers and Ranges"}
TRACE = {
    "traceEvents": [
        {},
        *({"args": {"name": name}, "ph": "M", "pid": pid, "name": "process_name"} for pid, name in NAMES.items()),
        event("CopyHostToDevice", 1, 5_010_250, 5_030_250, dev_id=0, queue_id=0, stream_id=0),
        event("hipMemcpy", 2, 5_000_100, 5_040_100, "( dst(0x1) src(0x2) sizeBytes(4096) kind(1))"),
        event("hipLaunchKernel", 2, 5_050_500, 5_060_500, "( kernel(gemm))"),
        event("gemm(float*) [clone .kd]", 6, 5_070_125, 5_170_625, dev_id=0, queue_id=3, stream_id=1),
        event("step", 5, 5_000_000, 5_200_000),
        *(flow("s", 0, 2, 78, 5020), flow("t", 0, 1, 0, 5010), flow("s", 4, 2, 78, 5055), flow("t", 4, 6, 1, 5070)),
    ],
    "otherData": {"Agent1.Name": "gfx90a"},
}


def test_the_trace_of_the_first_version_has_exact_times_and_launches(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(TRACE))
    profile = load_input(str(path))

    columns = ("kind", "name", "start_ns", "duration_ns", "device", "stream", "size_bytes", "copy_kind", "correlation")
    assert profile["activities"].sort("start_ns").select(columns).rows() == [
        ("memcpy", "CopyHostToDevice", 10_250, 20_000, 0, 0, 4096, "HtoD", 0),
        ("kernel", "gemm(float*)", 70_125, 100_500, 0, 1, None, None, 4),
    ]
    assert profile["api_calls"].select("name", "start_ns", "duration_ns", "pid", "tid", "correlation").rows() == [
        ("hipMemcpy", 100, 40_000, 77, 78, 0),
        ("hipLaunchKernel", 50_500, 10_000, 77, 78, 4),
    ]
    assert profile["ranges"].select("name", "duration_ns").rows() == [("step", 200_000)]
    assert profile["sessions"].select("format", "tool", "pid").rows() == [("rocprof-json", "rocprof", 77)]
    assert profile["issues"]["reason"].to_list() == [
        "times count from the first event, at 5000000 ns of the machine clock"
    ]


def test_a_trace_of_very_many_processes_is_read_in_part(tmp_path: Path) -> None:
    calls = [event("hipMalloc", 2, 5_000 + number, 6_000 + number) for number in range(300)]
    for number, call in enumerate(calls):
        call["args"]["pid"] = str(number)
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"traceEvents": [*TRACE["traceEvents"][:2], *calls]}))
    profile = load_input(str(path))
    assert profile["sessions"].select("pid", "origin_ns").rows() == [(pid, None) for pid in range(256)]
    assert profile["issues"].select("severity", "text", "reason").row(0) == (
        "error",
        "300 processes",
        "only the first 256 processes are shown",
    )


def test_an_event_without_a_process_is_of_the_only_one(tmp_path: Path) -> None:
    with_process, without = (event("hipMalloc", 2, begin, begin + 500) for begin in (5_000, 7_000))
    del without["args"]["pid"]
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"traceEvents": [*TRACE["traceEvents"][:2], with_process, without]}))
    profile = load_input(str(path))
    assert profile["sessions"]["pid"].to_list() == [77]
    assert profile["api_calls"].select("start_ns", "pid").rows() == [(0, 77), (2_000, None)]


def test_a_flow_that_begins_and_ends_very_often_links_nothing(tmp_path: Path) -> None:
    flows = [flow(phase, 0, pid, 78, at) for phase, pid in (("s", 2), ("t", 6)) for at in range(6000)]
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"traceEvents": [*TRACE["traceEvents"], *flows]}))
    start_s = time.process_time()
    profile = load_input(str(path))
    assert time.process_time() - start_s < 1
    assert profile["api_calls"]["correlation"].to_list() == [None, 4]


def test_a_trace_of_the_first_version_without_events_is_declined(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"traceEvents": [{}, event("f", 9, 5_000, 6_000)]}))
    with pytest.raises(ProftuiError, match="a trace of rocprof without events"):
        load_input(str(path))


def test_damaged_traces_of_the_first_version_are_read_or_declined() -> None:
    for profile in load_damaged(json.dumps(TRACE), 200, at_least=0.02):
        assert profile["activities"].height <= 2
