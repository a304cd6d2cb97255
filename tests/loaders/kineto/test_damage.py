"""Traces with missing or impossible values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.loaders.kineto.traces import call, document, event, kernel, op, read, read_bytes, texts
from tui.loaders.kineto.kineto_loader import KinetoLoader
from tui.loaders.registry import load, load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from pathlib import Path


def reasons(events: list[dict[str, object]], **metadata: object) -> list[tuple[str, str]]:
    return read(events, **metadata)["issues"].select("severity", "reason").rows()


def test_launches_without_gpu_work_give_a_warning_with_a_remedy() -> None:
    ((severity, reason),) = reasons([op("aten::mm", 0, 10), call(1, 2), call(2, 5, name="cudaMemcpyAsync")])
    assert severity == "warning"
    assert reason.startswith("the trace has 2 launches and copies but no GPU work")
    assert "record again" in reason


def test_a_trace_without_gpu_work_opens_with_a_warning() -> None:
    profile = read([op("aten::mm", 0, 10), call(1, 2, name="cudaGetDeviceCount")])
    assert profile["ops"].height == 1
    assert profile["activities"].is_empty()
    assert profile["issues"]["severity"].to_list() == ["info"]
    assert "ProfilerActivity.CUDA" in profile["issues"]["reason"][0]


def test_events_that_are_not_read_are_reported() -> None:
    unknown = [event(f"odd_{number}", "x", number, 1) for number in range(6)]
    without = {key: value for key, value in event("", "Cast", 9, 1).items() if key != "cat"}
    known = [event("gpu_user_annotation", "step", 0, 9), event("cuda_sync", "Stream Wait Event", 3, 1)]
    profile = read([op("aten::mm", 0, 9), kernel(1, 1), *known, *unknown, unknown[5], without])
    assert profile["issues"].select("severity", "reason").rows() == [
        (
            "info",
            "8 events skipped: not recognized as ops, API calls or GPU work (`odd_5`, `odd_0`, `odd_1`, "
            "`odd_2`, `odd_3`, 1 more, no category)",
        )
    ]
    assert read([kernel(1, 1), *known])["issues"].is_empty()


def test_a_trace_of_another_accelerator_gets_no_warning_about_gpu_work() -> None:
    assert reasons([op("aten::mm", 0, 9), event("hpu_op", "matmul", 3, 2)]) == [
        (
            "warning",
            "no GPU work in the trace: the skipped events may belong to another kind of accelerator",
        ),
        ("info", "1 event skipped: not recognized as ops, API calls or GPU work (`hpu_op`)"),
    ]


def test_failed_allocations_are_reported() -> None:
    failed = {**event("cpu_instant_event", "[OutOfMemory]", 3, 0, Device_Id=0, Device_Type=1, Bytes=3 << 20), "ph": "i"}
    assert reasons([op("aten::mm", 0, 9), kernel(1, 1), failed, failed]) == [
        ("warning", "memory ran out: 2 allocations failed, first for 3 MiB")
    ]
    failed["args"]["Bytes"] = -3
    assert reasons([kernel(1, 1), failed]) == [("warning", "memory ran out: 1 allocation failed")]


def test_gpu_work_without_ops_gives_no_issue() -> None:
    assert reasons([kernel(1, 0)]) == []


def test_memory_events_without_a_size_are_counted() -> None:
    memory = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1, "args": {}}
    assert reasons([kernel(1, 0), memory, memory]) == [("warning", "2 memory events skipped: no size recorded")]


def test_profiler_overhead_is_a_figure() -> None:
    buffer = [event("overhead", "Activity Buffer Request", 10 * number, 2.5, tid=0) for number in (1, 2)]
    figures = read([kernel(1, 0), *buffer])["tool_figures"]
    assert figures.drop("session", "line").rows() == [
        ("PyTorch profiler", "overhead", "Activity Buffer Request", 5000.0, "ns", None)
    ]


def test_waits_of_cuda_are_not_profiler_overhead() -> None:
    profiler_event = event("overhead", "Activity Buffer Request", 5, 2.5, tid=0)
    cudas = event("overhead", "Command Buffer Full", 1, 6, tid=0)
    figures = read([kernel(1, 0), kernel(2, 20), profiler_event, cudas])["tool_figures"]
    assert figures.select("section", "name", "value").rows() == [
        ("overhead", "Activity Buffer Request", 2500.0),
        ("overhead during GPU work", "Activity Buffer Request", 2500.0),
        ("overhead of CUDA", "Command Buffer Full", 6000.0),
    ]


def test_outlier_events_are_skipped_and_the_origin_is_kept() -> None:
    profile = read([op("early", 1, 1), op("a", 2e12, 5), op("b", 2e12 + 10, 5), kernel(1, 2e12 + 20)])
    assert texts(profile, "ops", "name") == ["a", "b"]
    assert profile["ops"]["start_ns"].to_list() == [0, 10_000]
    assert profile["issues"]["severity"].to_list() == ["warning"]
    assert profile["sessions"]["origin_ns"].to_list() == [1_700_000_000_000_000_000 + 2 * 10**15]


def test_implausible_times_are_an_error() -> None:
    threads = [op("a", number, 5e11, tid=number) for number in range(5000)]
    with pytest.raises(
        ProftuiError, match=r"^run\.pt\.trace\.json: 5000 threads over .* are too many for one recording"
    ):
        read(threads)


@pytest.mark.parametrize(
    "events",
    [[], [{"ph": "X", "cat": "net", "name": "fetch", "pid": 1, "tid": 1, "ts": 0, "dur": 1, "args": {}}]],
    ids=["no events", "another tool's"],
)
def test_traces_of_other_tools_are_declined(events: list[dict[str, object]]) -> None:
    with pytest.raises(ProftuiError, match="no profile found"):
        read(events)


def test_events_without_names_threads_or_numbers_are_kept() -> None:
    minimal_event = {"ph": "X", "cat": "cpu_op", "ts": 5, "dur": 1}
    profile = read([minimal_event, {**minimal_event, "name": 7, "pid": "main", "tid": {}}, kernel(None, 9)])
    assert profile["ops"].select("pid", "tid").rows() == [(None, None), (None, None)]
    assert profile["activities"].height == 1


def test_paths_of_deeply_nested_ops_are_cut() -> None:
    depth = 3000
    ops = [op("f" * 40, number, 2 * (depth - number)) for number in range(depth)]
    profile = read(ops)
    assert profile["ops"]["parent"].to_list() == [None, *range(depth - 1)]
    longest = profile["ops"]["group"].cast(pl.String).str.len_bytes().max()
    assert isinstance(longest, int)
    assert 16_000 < longest <= 16_384
    assert any("exceed 16 KiB" in reason for reason in profile["issues"]["reason"])


@pytest.mark.parametrize(
    ("head", "sure"),
    [
        (b'{"schemaVersion": 1, "traceEvents": [', True),
        (b'[{"ph": "X", "cat": "cpu_op", "name": "a"', True),
        (b' [{"name": "a", "ph": "X", "pid": "CPU functions"', True),
        (b'{"traceEvents": [{"ph": "X", "name": "a"', False),
        (b"==1== Profiling application", False),
    ],
    ids=["PyTorch", "bare list", "legacy", "any trace", "text"],
)
def test_certainty_of_the_probe(head: bytes, sure: bool) -> None:
    assert (KinetoLoader().probe(head, "a.json") > 0.9) is sure


def test_ranks_opened_together_are_sessions(tmp_path: Path) -> None:
    paths = []
    for rank in (0, 1):
        path = tmp_path / f"rank{rank}.json"
        path.write_bytes(document([op("aten::mm", 0, 9), call(1, 1), kernel(1, 5 + rank)]))
        paths.append(str(path))
    profile, errors = load(paths)
    assert errors == []
    assert profile is not None
    assert profile["sessions"].select("session", "rank").rows() == [(0, 0), (1, 1)]
    assert profile["ops"]["op"].to_list() == [0, 1]
    assert profile["activities"].select("session", "op").rows() == [(0, 0), (1, 1)]
    assert load_input(paths[1])["sessions"]["rank"].to_list() == [1]


def test_a_truncated_trace_keeps_the_events_before_the_cut() -> None:
    content = document([op("aten::mm", 0, 9), call(1, 1), kernel(1, 5), kernel(2, 15)])
    profile = read_bytes(content[: content.rindex(b'"ph"') + 20])
    assert profile["activities"].height == 1
    assert profile.partial


def test_a_trace_without_categories_is_declined(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('[{"ph":"X","name":"f","ts":1,"dur":2,"pid":0,"tid":1,"args":{}}]')
    with pytest.raises(ProftuiError, match="trace events without categories, not from the PyTorch profiler"):
        load_input(str(path))
    path.write_text('[{"ph":"X","cat":"nvtx","name":"f","ts":1,"dur":2,"pid":"Device 0","tid":"NVTX 1","args":{}}]')
    with pytest.raises(ProftuiError, match="trace events of nvtx, none from the PyTorch profiler") as error:
        load_input(str(path))
    assert error.value.hint.startswith("if it was converted (nsys2json, nvprof2json, traceconv), open the profile")


def test_a_trace_of_pytorch_in_which_nothing_ran_is_declined(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    span = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "ts": 1, "dur": 2, "pid": "Spans", "tid": "x"}
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [span]}))
    with pytest.raises(ProftuiError, match="a trace of PyTorch's profiler without ops and GPU work") as error:
        load_input(str(path))
    assert error.value.hint.startswith("record while the program runs: with torch.profiler.profile()")
