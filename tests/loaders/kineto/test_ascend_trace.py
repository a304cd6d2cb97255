"""Traces of Ascend's profilers: the work of NPUs, its launches and ops, and the tables of the same run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

from tests.loaders.kineto.traces import read_bytes, texts
from tui.analysis.devices import session_vendor
from tui.analysis.ops.ops_by_name import ops
from tui.loaders.registry import load

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.profile import Profile

PROGRAM, WORKER = 4001, 4002
CANN, NPU, HCCL, OVERLAP = (
    PROGRAM * 1024 + layer * 32 + device for layer, device in ((7, 31), (13, 3), (16, 3), (29, 3))
)
BEGIN = 1_704_161_511_420_000_000
"""In nanoseconds."""


def event(name: str, pid: int, tid: int, start_us: float, duration_us: float, **args: object) -> dict[str, object]:
    times = {"ts": f"{BEGIN // 1000 + int(start_us)}.{round(start_us % 1 * 1000):03d}", "dur": duration_us}
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, **times, "args": args}


def op(name: str, start_us: float, duration_us: float) -> dict[str, object]:
    return {**event(name, PROGRAM, PROGRAM, start_us, duration_us), "cat": "cpu_op"}


def task(name: str, stream: int, start_us: float, duration_us: float, kind: str, connection: int) -> dict[str, object]:
    args = {"Model Id": 4294967295, "Task Type": kind, "Physic Stream Id": stream, "connection_id": connection}
    return event(name, NPU, stream, start_us, duration_us, **args)


def call(name: str, tid: int, start_us: float, duration_us: float, connection: int) -> dict[str, object]:
    return event(name, CANN, tid, start_us, duration_us, level="node", connection_id=connection)


def process(name: str, pid: int) -> dict[str, object]:
    return {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}


def flow(op_us: int, stream: int, task_us: int) -> list[dict[str, object]]:
    common = {"name": "torch_to_npu", "cat": "async_npu", "id": str(BEGIN + task_us * 1000)}
    return [
        {**common, "ph": "s", "pid": PROGRAM, "tid": PROGRAM, "ts": f"{BEGIN // 1000 + op_us}.000"},
        {**common, "ph": "f", "bp": "e", "pid": NPU, "tid": stream, "ts": f"{BEGIN // 1000 + task_us}.000"},
    ]


DEVICE_EVENTS = [
    task("aclnnMatmul_MatMulV2", 2, 200, 85.504, "AI_CORE", 12),
    task("EVENT_WAIT", 2, 290, 50, "EVENT_WAIT", 13),
    task("MEMCPY_ASYNC", 5, 300, 7.25, "PCIE_DMA_SQE", 14),
    task("aclnnAdd_Add", 2, 400, 3.125, "KERNEL_AIVEC", 15),
    task("hcom_allReduce__586_0_1", 5, 410, 60, "AI_VECTOR_CORE", 16),
    call("Node@launch", WORKER, 130, 8, 12),
    call("Runtime@KernelLaunch", WORKER, 131, 6, 112),
    call("Node@launch", PROGRAM, 155, 4, 15),
    event("hcom_allReduce__586_0_1", HCCL, 0, 405, 70, connection_id=16),
    event("Notify_Wait", HCCL, 1, 405, 30, connection_id=16),
    event("Computing", OVERLAP, 2, 200, 85.504),
    event("Free", OVERLAP, 3, 290, 110),
    process("CANN", CANN),
    process("Ascend Hardware", NPU),
    process("Communication", HCCL),
    process("Overlap Analysis", OVERLAP),
]
OPS = [
    op("ProfilerStep#3", 90, 500),
    op("aten::linear", 100, 40),
    op("aten::matmul", 110, 20),
    op("aten::add", 150, 30),
]
TRACE = json.dumps([*OPS, process("python", PROGRAM), *flow(110, 2, 200), *DEVICE_EVENTS]).encode()
KERNELS = (
    "Step Id,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us)\n"
    '3,2,aclnnMatmul_MatMulV2,MatMulV2,AI_CORE,"1704161511420200.000\t",85.504\n'
    '3,2,aclnnAdd_Add,Add,AI_VECTOR_CORE,"1704161511420400.000\t",3.125\n'
    '3,N/A,hcom_allReduce__586_0_1,hcom_allReduce_,HCCL,"1704161511420405.000\t",70.0\n'
)
CALLED_OPS = (
    "Name,Input Shapes,Call Stack,Host Self Duration(us),Host Total Duration(us),Device Self Duration(us),"
    'Device Total Duration(us)\naten::matmul,"16,32","",20.0,20.0,85.504,85.504\n'
)


def _work(profile: Profile) -> list[tuple[object, ...]]:
    columns = ("kind", "name", "start_ns", "duration_ns", "device", "stream", "correlation")
    return profile["activities"].select(columns).rows()


def test_work_of_the_npu_belongs_to_ops() -> None:
    profile = read_bytes(TRACE, name="trace_view.json")
    assert profile["sessions"].select("tool", "framework", "pid").rows() == [
        ("Ascend PyTorch Profiler", "PyTorch", PROGRAM)
    ]
    assert session_vendor(profile).name == "Huawei"
    assert _work(profile) == [
        ("kernel", "aclnnMatmul_MatMulV2", 110_000, 85_504, 3, 2, 12),
        ("memcpy", "MEMCPY_ASYNC", 210_000, 7_250, 3, 5, 14),
        ("kernel", "aclnnAdd_Add", 310_000, 3_125, 3, 2, 15),
    ]
    assert texts(profile, "ops", "name") == ["aten::linear", "aten::matmul", "aten::add"]
    assert profile["activities"].select("op", "op_join", "iteration").rows() == [
        (1, "launch", 3),  # by the flow event: the call is of another thread
        (None, "launch not recorded", None),
        (2, "launch", 3),  # by the call
    ]
    assert profile["api_calls"].select("name", "start_ns", "duration_ns", "pid", "tid", "correlation").rows() == [
        ("Node@launch", 40_000, 8_000, PROGRAM, WORKER, 12),
        ("Runtime@KernelLaunch", 41_000, 6_000, PROGRAM, WORKER, 112),
        ("Node@launch", 65_000, 4_000, PROGRAM, PROGRAM, 15),
    ]
    assert profile["ranges"].select("name", "domain", "start_ns", "duration_ns").rows() == [
        ("ProfilerStep#3", None, 0, 500_000),
        ("hcom_allReduce__586_0_1", "HCCL", 315_000, 70_000),
    ]
    assert profile["issues"]["reason"].to_list() == [
        "1 task of the NPU skipped: not kernels or copies",
        "collective operations (1) overlap the kernels: shown as HCCL ranges, not kernels",
    ]


def test_a_timeline_of_msprof_has_no_ops() -> None:
    profile = read_bytes(json.dumps(DEVICE_EVENTS).encode(), name="msprof_20240102.json")
    assert profile["sessions"].select("tool", "framework", "pid").rows() == [("Ascend msprof", None, PROGRAM)]
    assert session_vendor(profile).name == "Huawei"
    assert [row[1:4] for row in _work(profile)] == [
        ("aclnnMatmul_MatMulV2", 70_000, 85_504),
        ("MEMCPY_ASYNC", 170_000, 7_250),
        ("aclnnAdd_Add", 270_000, 3_125),
    ]


def test_the_tables_of_the_same_run_do_not_count_its_work_again(tmp_path: Path) -> None:
    (tmp_path / "trace_view.json").write_bytes(TRACE)
    (tmp_path / "kernel_details.csv").write_text(KERNELS)
    (tmp_path / "operator_details.csv").write_text(CALLED_OPS)
    (tmp_path / "api_statistic.csv").write_text("Level,API Name,Time(us),Count,Avg(us)\nnode,launch,12.0,2,6.0\n")
    profile, _ = load([str(tmp_path)])
    assert profile is not None
    assert [source.rpartition("/")[2] for source in profile["sessions"]["source"]] == ["trace_view.json"]
    assert _work(profile) == _work(read_bytes(TRACE))
    assert profile["ranges"].height == 2
    assert ops(profile).select(pl.col("op").cast(str), "gpu_self_ns").rows() == [
        ("aten::matmul", 85_504),
        ("(unattributed: launch not recorded)", 7_250),
        ("aten::add", 3_125),
        ("aten::linear", 0),
    ]
    assert profile["summary"].select("section", "name", "total_ns").rows() == [("api", "launch", 12_000)]
    (tmp_path / "kernel_details.csv").write_text(KERNELS.replace("17041615114", "17041615115"))
    other, _ = load([str(tmp_path)])
    assert other is not None
    assert sorted(other["sessions"]["format"]) == ["ascend-csv", "pytorch-trace"]


def test_events_without_a_category_are_no_work_in_other_traces() -> None:
    events = [op("aten::add", 1, 2), event("MatMul", NPU, 2, 3, 1, **{"Task Type": "AI_CORE"})]
    profile = read_bytes(json.dumps({"traceEvents": events}).encode())
    assert profile["activities"].is_empty()
    assert any("1 event skipped: not recognized" in reason for reason in profile["issues"]["reason"])
