"""nvprof's databases."""

from __future__ import annotations

import sqlite3
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.expert.rule_verdicts import verdict_of
from tests.loaders.nvprof.nvprof_database_build import call, kernel, marks, thread, write
from tui.analysis.expert.rule import NotApplicable
from tui.correlation.plausible_times import MAX_NS
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError
from tui.text import plural

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.profile import Profile

T0 = 1_600_000_000_000_000_000
"""The Unix time, in nanoseconds, at which these recordings begin."""

STRINGS = ("./program --fast", "Tesla V100", "_Z3addPfi", "iteration 4", "iteration 5", "aten::add, seq = 3", "NCCL")
DEVICE = {
    "id": 0,
    "name": 2,
    "computeCapabilityMajor": 7,
    "computeCapabilityMinor": 0,
    "numMultiprocessors": 80,
    "globalMemorySize": 16 << 30,
    "globalMemoryBandwidth": 898_048_000,
    "maxWarpsPerMultiprocessor": 64,
    "numThreadsPerWarp": 32,
    "maxRegistersPerMultiprocessor": 65536,
    "maxSharedMemoryPerMultiprocessor": 98304,
}


def texts(profile: Profile, frame: str, *columns: str) -> list[tuple[object, ...]]:
    return profile[frame].select(columns).rows()


def training_tables() -> dict[str, list[dict[str, object]]]:
    """Return two iterations with an op and a kernel each, and a copy and a memset before them."""
    return {
        "CONCURRENT_KERNEL": [
            kernel(3, 21, T0 + 1000, T0 + 1500),
            # It runs while the next iteration has begun, or after the last.
            kernel(3, 22, T0 + 2600, T0 + 2700, graphNodeId=9),
        ],
        "MEMCPY": [
            {
                "copyKind": 1,
                "srcKind": 1,
                "dstKind": 3,
                "bytes": 4096,
                "start": T0 + 100,
                "end": T0 + 300,
                "streamId": 7,
            }
            | {"correlationId": 11}
        ],
        "MEMSET": [{"bytes": 64, "start": T0 + 310, "end": T0 + 320, "memoryKind": 3, "correlationId": 12}],
        "RUNTIME": [
            call(41, 11, T0, T0 + 50),
            call(211, 21, T0 + 500, T0 + 510, tid=-5),
            call(211, 22, T0 + 1700, T0 + 1710, tid=-5),
            call(99999, 23, T0 + 1720, T0 + 1730),
        ],
        "DRIVER": [call(307, 21, T0 + 502, T0 + 508, tid=-5)],
        "MARKER": [
            *marks(1, 4, T0 + 400, T0 + 1600, tid=0xFFFFFFFB),
            *marks(2, 6, T0 + 450, T0 + 600, tid=0xFFFFFFFB),
            *marks(3, 5, T0 + 1600, T0 + 2500, tid=0xFFFFFFFB),
            *marks(4, 6, T0 + 1650, None, tid=0xFFFFFFFB),
        ],
        "DEVICE": [DEVICE],
        "NAME": [{"objectKind": 1, "objectId": thread(7, 0), "name": 1}],
        "OVERHEAD": [{"start": T0, "end": T0 + 5, "objectId": b""}],
    }


def training(path: Path, version: int) -> Profile:
    return load_input(write(path, training_tables(), version=version, strings=STRINGS))


def test_profiler_overhead_is_a_figure_of_its_process(tmp_path: Path) -> None:
    def work(kind: int, start: int, end: int, pid: int) -> dict[str, object]:
        return {"overheadKind": kind, "objectKind": 1, "objectId": thread(pid, 0), "start": T0 + start, "end": T0 + end}

    tables = {
        "CONCURRENT_KERNEL": [kernel(2, 21, T0 + 1000, T0 + 2000), kernel(2, 31, T0 + 1000, T0 + 2000)],
        "RUNTIME": [call(211, 21, T0, T0 + 10), call(211, 31, T0, T0 + 10, pid=8)],
        "OVERHEAD": [
            work(2 << 16, -500, 1100, 7),
            work(1 << 16, 1900, 1950, 8),
            work(1, 1000, 1900, 8),
            work(0, 1940, 1960, 8),
            {**work(3 << 16, 0, 1, 7), "objectId": b"\x07"},
        ],
    }
    profile = load_input(write(tmp_path / "run.nvprof", tables, strings=STRINGS))
    assert profile["sessions"]["origin_ns"].to_list() == [T0, T0]
    assert texts(profile, "tool_figures", "session", "section", "name", "value") == [
        (0, "overhead", "CUPTI instrumentation", 1600.0),
        (0, "overhead during GPU work", "CUPTI instrumentation", 100.0),
        (1, "overhead", "CUPTI buffer flush", 50.0),
        (1, "overhead", "Unknown", 20.0),
        (1, "overhead during GPU work", "CUPTI buffer flush", 50.0),
        (1, "overhead during GPU work", "Unknown", 10.0),
        (1, "overhead of CUDA", "Driver compiler", 900.0),
    ]
    reasons = profile["issues"]["reason"].to_list()
    assert "1 overhead record of no process with calls or ranges skipped: overhead is higher than shown" in reasons


def test_overhead_of_a_process_without_a_session_is_reported(tmp_path: Path) -> None:
    tables = {
        "RUNTIME": [call(211, 21, T0, T0 + 10), call(211, 31, T0, T0 + 10, pid=8)],
        "OVERHEAD": [{"objectId": thread(pid, 0), "start": T0, "end": T0 + 5} for pid in (7, 8, 9, 9)],
    }
    profile = load_input(write(tmp_path / "run.nvprof", tables, strings=STRINGS))
    assert texts(profile, "tool_figures", "session", "name", "value") == [(0, "Unknown", 5.0), (1, "Unknown", 5.0)]
    reasons = profile["issues"]["reason"].to_list()
    assert "2 overhead records of no process with calls or ranges skipped: overhead is higher than shown" in reasons


@pytest.mark.parametrize("version", [8, 11, 17])
def test_kernels_copies_calls_and_ranges_of_each_version(version: int, tmp_path: Path) -> None:
    profile = training(tmp_path / "run.nvprof", version)
    session = profile["sessions"].row(0, named=True)
    assert (session["format"], session["tool"], session["pid"]) == ("nvprof-database", "nvprof", 7)
    assert (session["command"], session["origin_ns"]) == ("./program --fast", T0)
    assert session["iteration_source"] == "NVTX range iteration"
    columns = (
        "kind",
        "name",
        "start_ns",
        "duration_ns",
        "stream",
        "size_bytes",
        "copy_kind",
        "src_memory",
        "dst_memory",
    )
    assert texts(profile, "activities", *columns) == [
        ("memcpy", "[CUDA memcpy HtoD]", 100, 200, 7, 4096, "HtoD", "pageable", "device"),
        ("memset", "[CUDA memset]", 310, 10, 0, 64, None, None, "device"),
        ("kernel", "add(float*, int)", 1000, 500, 13, None, None, None, None),
        ("kernel", "add(float*, int)", 2600, 100, 13, None, None, None, None),
    ]
    assert profile["activities"].row(2, named=True) | {"tensor_core_reason": None, "uses_tensor_core": None} == {
        **dict.fromkeys(profile["activities"].columns),
        **{"session": 0, "activity": 2, "kind": "kernel", "name": "add(float*, int)", "short_name": "add"},
        **{"start_ns": 1000, "duration_ns": 500, "device": 0, "context": 1, "stream": 13, "correlation": 21},
        **{"grid_x": 2, "grid_y": 3, "grid_z": 4, "block_x": 5, "block_y": 6, "block_z": 7},
        **{"registers": 32, "static_shared_bytes": 48, "dynamic_shared_bytes": 64},
        **{"op": 0, "op_join": "launch", "iteration": 4},
    }
    last = profile["activities"].row(3, named=True)
    assert (last["op"], last["op_join"], last["iteration"]) == (None, "launched outside any op", 5)
    assert last["graph_node"] == (9 if version == 17 else None)
    assert texts(profile, "api_calls", "name", "start_ns", "duration_ns", "pid", "tid", "correlation") == [
        ("cudaMemcpyAsync", 0, 50, 7, 70, 11),
        ("cudaLaunchKernel", 500, 10, 7, 0xFFFFFFFB, 21),
        ("cudaLaunchKernel", 1700, 10, 7, 0xFFFFFFFB, 22),
        ("runtime call 99999", 1720, 10, 7, 70, 23),
        ("cuLaunchKernel", 502, 6, 7, 0xFFFFFFFB, 21),
    ]
    assert texts(profile, "ranges", "name", "start_ns", "duration_ns", "pid", "tid", "depth", "iteration") == [
        ("iteration 4", 400, 1200, 7, 0xFFFFFFFB, 0, 4),
        ("aten::add, seq = 3", 450, 150, 7, 0xFFFFFFFB, 1, None),
        ("iteration 5", 1600, 900, 7, 0xFFFFFFFB, 0, 5),
        ("aten::add, seq = 3", 1650, None, 7, 0xFFFFFFFB, None, None),
    ]
    assert texts(profile, "ops", "name", "start_ns", "iteration", "op_source") == [("aten::add", 450, 4, "nvtx")]
    assert profile["issues"].is_empty()


def test_properties_of_a_gpu(tmp_path: Path) -> None:
    assert training(tmp_path / "run.nvvp", 12)["devices"].row(0, named=True) == {
        "session": 0,
        "device": 0,
        "name": "Tesla V100",
        "compute_capability": "7.0",
        "sm_count": 80,
        "memory_bytes": 16 << 30,
        "memory_bandwidth": 898_048_000_000.0,
        "max_threads_per_sm": 2048,
        "registers_per_sm": 65536,
        "shared_memory_per_sm_bytes": 98304,
    }


def read_metrics_run(path: Path) -> Profile:
    """Read a run with metrics: no calls, kernels one after another."""
    double, unsigned = (lambda value: struct.pack("<d", value)), (lambda value: struct.pack("<Q", value))
    tables = {
        "KERNEL": [kernel(3, 1, T0, T0 + 10), kernel(3, 2, T0 + 50, T0 + 80), kernel(3, 3, T0 + 90, T0 + 99, gridX=8)],
        "METRIC": [
            {"id": 128, "value": double(12.5), "correlationId": 1},
            {"id": 128, "value": double(37.5), "correlationId": 2},
            {"id": 128, "value": unsigned(0), "correlationId": 3},
            {"id": 130, "value": unsigned(95_256_385), "correlationId": 1},
            {"id": 131, "value": b"short", "correlationId": 1},
        ],
        "METRIC_INSTANCE": [
            {"id": 109, "value": double(90), "instance": 0, "correlationId": 1},
            {"id": 109, "value": double(100), "instance": 1, "correlationId": 1},
            {"id": 130, "value": unsigned(1), "instance": 0, "correlationId": 1},
        ],
        "EVENT": [{"id": 5, "value": 40, "correlationId": 1}, {"id": 5, "value": 60, "correlationId": 2}],
        "DEVICE": [DEVICE],
        "NAME": [{"objectKind": 1, "objectId": thread(17643, 0), "name": 1}],
        "BRANCH": [{}, {}],
    }
    return load_input(write(path, tables, version=8, strings=STRINGS))


def test_metrics_and_events_of_replayed_kernels(tmp_path: Path) -> None:
    profile = read_metrics_run(tmp_path / "metrics.nvprof")
    columns = ("device", "kernel", "grid_x", "block_z", "invocations", "metric", "description", "min", "max", "avg")
    gpu, add = "Tesla V100 (0)", "add(float*, int)"
    assert texts(profile, "metrics", *columns, "total", "unit") == [
        (gpu, add, 2, 7, 2, "metric 128", None, 12.5, 37.5, 25.0, None, None),
        (gpu, add, 8, 7, 1, "metric 128", None, 0.0, 0.0, 0.0, None, None),
        (gpu, add, 2, 7, 1, "metric 130", None, 95_256_385.0, 95_256_385.0, 95_256_385.0, None, None),
        (gpu, add, 2, 7, 1, "metric 131", None, None, None, None, None, None),
        (gpu, add, 2, 7, 1, "metric 109", "of the units of the GPU", 90.0, 100.0, 95.0, None, None),
        (gpu, add, 2, 7, 2, "event 5", None, 40.0, 60.0, 50.0, 100.0, None),
    ]
    assert profile["sessions"]["pid"].to_list() == [17643]
    assert profile["activities"]["duration_ns"].to_list() == [10, 30, 9]
    assert profile["activities"]["start_ns"].to_list() == [None] * 3  # the gaps between replays are the profiler's
    assert isinstance(verdict_of("Q3", profile), NotApplicable)
    assert profile["activities"]["op_join"].to_list() == [None] * 3
    reasons = profile["issues"]["reason"].to_list()
    assert ["form no timeline" in reasons[0], "numbers metrics" in reasons[1]] == [True, True]
    assert reasons[2] == "in the database but not in any view: branches by source line (2)"


def test_kernels_serialized_without_metrics_keep_their_times(tmp_path: Path) -> None:
    """As with --concurrent-kernels off."""
    profile = load_input(write(tmp_path / "run.nvprof", {"KERNEL": [kernel(3, 1, T0, T0 + 10)]}, strings=STRINGS))
    assert texts(profile, "activities", "start_ns", "duration_ns") == [(0, 10)]
    assert profile["issues"]["reason"].to_list() == []


def test_an_event_without_a_value_has_no_total(tmp_path: Path) -> None:
    path = write(tmp_path / "run.nvprof", {"KERNEL": [kernel(3, 1, T0, T0 + 10)]}, version=8, strings=STRINGS)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE CUPTI_ACTIVITY_KIND_EVENT")
        connection.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_EVENT(id INT, value INT, correlationId INT)")
        connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_EVENT VALUES (5, NULL, 1)")
    connection.close()
    assert texts(load_input(path), "metrics", "metric", "invocations", "avg", "total") == [("event 5", 1, None, None)]


def test_kernels_rerun_for_metrics_count_once(tmp_path: Path) -> None:
    tables = {
        "CONCURRENT_KERNEL": [kernel(3, 1, T0, T0 + 10)],
        "KERNEL": [kernel(3, 1, T0 + 500, T0 + 530), kernel(3, 2, T0 + 600, T0 + 640)],
    }
    profile = load_input(write(tmp_path / "both.nvvp", tables, strings=STRINGS))
    assert texts(profile, "activities", "correlation", "duration_ns") == [(1, 10), (2, 40)]
    assert profile["issues"]["reason"].to_list() == [
        "1 kernel of the timeline ran again for metrics: their time counts once"
    ]


def test_each_process_is_a_session(tmp_path: Path) -> None:
    tables = {
        "CONCURRENT_KERNEL": [kernel(3, 1, T0 + 10, T0 + 20), kernel(3, 2, T0 + 30, T0 + 44), kernel(3, 9, T0, T0 + 1)],
        "RUNTIME": [call(211, 1, T0 + 5, T0 + 6, pid=7), call(211, 2, T0 + 25, T0 + 26, pid=8)],
        "MARKER": [*marks(1, 6, T0 + 20, T0 + 29, pid=8), *marks(1, 6, T0 + 4, T0 + 8, pid=7)],
        "UNIFIED_MEMORY_COUNTER": [
            {"counterKind": 1, "value": 4096, "start": T0 + 50, "end": T0 + 60, "dstId": 1, "processId": 8},
            {"counterKind": 3, "value": 12, "start": T0 + 61, "end": T0 + 62, "dstId": 0, "processId": 8},
        ],
    }
    profile = load_input(write(tmp_path / "two.nvprof", tables, strings=STRINGS))
    assert profile["sessions"]["pid"].to_list() == [7, 8]
    assert texts(profile, "activities", "session", "kind", "name", "duration_ns", "op", "op_join", "size_bytes") == [
        (0, "kernel", "add(float*, int)", 1, None, "launch not recorded", None),
        (0, "kernel", "add(float*, int)", 10, 0, "launch", None),
        (1, "kernel", "add(float*, int)", 14, 1, "launch", None),
        (1, "um", "[Unified Memory Memcpy HtoD]", 10, None, "launch not recorded", 4096),
        (1, "um", "[Unified Memory CPU page faults]", 1, None, "launch not recorded", None),
    ]
    assert profile["activities"]["arguments"].to_list()[-1] == "count: 12"
    assert texts(profile, "ops", "session", "op", "start_ns") == [(0, 0, 4), (1, 1, 20)]
    assert texts(profile, "api_calls", "session", "pid") == [(0, 7), (1, 8)]


def test_work_without_a_certain_process_is_reported(tmp_path: Path) -> None:
    tables = {
        "RUNTIME": [
            call(13, 1, T0, T0 + 5),
            call(13, 1, T0 + 1, T0 + 6, pid=8),
            call(13, 2, T0 + 20, T0 + 22, pid=8),
        ],
        "MARKER": [{"flags": 2, "timestamp": T0 + 2, "id": 4, "objectKind": 2, "objectId": b"abc", "name": 6}],
        "CONCURRENT_KERNEL": [kernel(3, 1, T0 + 7, T0 + 9), kernel(3, 2, T0 + 25, T0 + 29)],
    }
    profile = load_input(write(tmp_path / "two.nvprof", tables, strings=STRINGS))
    assert texts(profile, "activities", "session", "correlation") == [(0, 1), (1, 2)]
    reported = texts(profile, "issues", "severity", "text", "reason")
    unsure = "their launching process is unknown: assigned to the first process"
    assert ("warning", "GPU activities: 1", unsure) in reported
    assert ("warning", "", "1 call or range without a process skipped") in reported


def test_graph_launches_count_as_gpu_work(tmp_path: Path) -> None:
    graph = {"correlationId": 4, "start": T0, "end": T0 + 70, "graphId": 6, "streamId": 2}
    profile = load_input(write(tmp_path / "graph.nvprof", {"GRAPH_TRACE": [graph]}, version=17))
    assert texts(profile, "activities", "kind", "name", "duration_ns") == [("graph", "CUDA graph 6", 70)]


def test_impossible_times_and_numbers_are_left_out_and_reported(tmp_path: Path) -> None:
    tables = {
        "CONCURRENT_KERNEL": [
            kernel(3, 1, T0, T0 + 10),
            kernel(3, 2, T0 + 20, T0 + 15),
            kernel(3, 3, 0, 0),
            kernel(3, 4, T0 + 2 * MAX_NS, T0 + 2 * MAX_NS + 5),
            kernel(99, 5, T0 + 30, T0 + 34, gridX=1 << 40, streamId=0xFFFFFFFF),
        ],
        "MARKER": [*marks(1, 6, T0, T0 + 3), marks(2, 6, T0, T0 + 5)[1]],
        "DEVICE": [DEVICE, DEVICE | {"id": 1 << 40, "numMultiprocessors": 1 << 40}],
    }
    profile = load_input(write(tmp_path / "odd.nvprof", tables, strings=STRINGS))
    assert texts(profile, "devices", "device", "name", "sm_count") == [
        (0, "Tesla V100", 80),
        (None, "Tesla V100", None),
    ]
    kernels = texts(profile, "activities", "correlation", "name", "start_ns", "duration_ns", "grid_x", "stream")
    add = "add(float*, int)"
    assert kernels == [
        (1, add, 0, 10, 2, 13),
        (2, add, 20, None, 2, 13),
        (5, None, 30, 4, None, None),
        (3, add, None, None, 2, 13),
        (4, add, None, 5, 2, 13),
    ]
    assert profile["issues"]["reason"].to_list() == [
        "2 GPU activities without times",
        "1 GPU activity without a name",
        "1 number out of range: shown as unknown",
        "2 rows have an implausible time (over a week long or over a week from the median start): shown as unknown",
        "1 NVTX range without a start: recording began inside them",
    ]


def test_marks_domains_and_ranges_of_processes(tmp_path: Path) -> None:
    tables = {
        "MARKER": [
            {"flags": 1, "timestamp": T0 + 5, "id": 1, "objectKind": 2, "objectId": thread(7, 70), "name": 4},
            *marks(2, 6, T0, T0 + 9, domain=7),
            {"flags": 2, "timestamp": T0 + 1, "id": 3, "objectKind": 1, "objectId": thread(7, 0), "name": 5},
            {"flags": 4, "timestamp": T0 + 4, "id": 3, "objectKind": 1, "objectId": thread(7, 0)},
            {"flags": 2, "timestamp": T0 + 2, "id": 4, "objectKind": 2, "objectId": b"abc", "name": 6},
        ]
    }
    profile = load_input(write(tmp_path / "marks.nvprof", tables, strings=STRINGS))
    assert texts(profile, "ranges", "name", "domain", "start_ns", "duration_ns", "pid", "tid") == [
        ("iteration 4", None, 5, None, 7, 70),
        ("aten::add, seq = 3", "NCCL", 0, 9, 7, 70),
        ("iteration 5", None, 1, 3, 7, None),
        ("aten::add, seq = 3", None, 2, None, None, None),
    ]
    assert profile["ops"]["name"].to_list() == ["aten::add"]


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 4, 6, 0]), st.integers(1, 3), st.integers(0, 20), st.sampled_from([7, 8])),
        max_size=12,
    )
)
def test_any_markers_give_one_range_for_each_start(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int, int]]
) -> None:
    markers = [
        {
            "flags": flags,
            "id": number,
            "timestamp": T0 + offset_ns,
            "objectKind": 2,
            "objectId": thread(7, tid),
            "name": 6,
        }
        for flags, number, offset_ns, tid in rows
    ]
    tables = {"MARKER": markers, "CONCURRENT_KERNEL": [kernel(3, 1, T0, T0 + 1)]}
    path = tmp_path_factory.mktemp("marks") / "run.nvprof"
    profile = load_input(write(path, tables, strings=STRINGS))
    ranges = profile["ranges"]
    assert ranges.height == sum(flags in (1, 2, 6) for flags, *_ in rows)
    starts = [number for flags, number, *_ in rows if flags in (2, 6)]
    ends = [number for flags, number, *_ in rows if flags == 4]
    closed = sum(min(starts.count(number), ends.count(number)) for number in set(starts))
    assert ranges["duration_ns"].count() <= closed
    assert (ranges["duration_ns"].drop_nulls() >= 0).all()
    alone = len(ends) - closed
    reasons = " ".join(profile["issues"]["reason"])
    assert (f"{plural(alone, 'NVTX range')} without a start" in reasons) == (alone > 0)


def test_an_empty_database_is_declined(tmp_path: Path) -> None:
    path = write(tmp_path / "empty.nvvp", {"DEVICE": [DEVICE]}, version=11)
    with pytest.raises(ProftuiError, match="an empty nvprof database of version 11") as error:
        load_input(path)
    assert "\n" not in str(error.value)
    assert "nvprof -o" in (error.value.hint or "")


def test_the_binary_format_before_databases_is_named(tmp_path: Path) -> None:
    path = tmp_path / "old.nvvp"
    path.write_bytes(bytes.fromhex("00040000050000000104000001000000070000 00") + b"program\0")
    with pytest.raises(ProftuiError, match="binary format of CUDA 5 and 6") as error:
        load_input(str(path))
    assert "nvprof --import-profile FILE --print-gpu-trace --csv" in str(error.value) + (error.value.hint or "")


def test_missing_or_mistyped_tables_affect_no_other_table(tmp_path: Path) -> None:
    path = write(tmp_path / "part.nvprof", {"CONCURRENT_KERNEL": [kernel(3, 1, T0, T0 + 10)]}, strings=STRINGS)
    with sqlite3.connect(path) as connection:
        for table in ("RUNTIME", "MARKER", "DEVICE", "METRIC", "NAME"):
            connection.execute(f"DROP TABLE CUPTI_ACTIVITY_KIND_{table}")
        connection.execute("UPDATE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL SET gridX = 'wide', streamId = x'00'")
    connection.close()
    profile = load_input(path)
    assert texts(profile, "activities", "name", "duration_ns", "grid_x", "grid_y") == [
        ("add(float*, int)", 10, None, 3)
    ]


def test_times_near_the_integer_limit_are_read(tmp_path: Path) -> None:
    end = (1 << 63) - 1
    tables = {"CONCURRENT_KERNEL": [kernel(1, 1, end - 10, end), kernel(1, 2, end - 30, end - 20), kernel(1, 3, 5, 6)]}
    profile = load_input(write(tmp_path / "late.nvprof", tables, strings=STRINGS))
    assert profile["activities"]["start_ns"].to_list() == [0, 20, None]
    assert (
        "1 row has an implausible time (over a week long or over a week from the median start): shown as unknown"
        in profile["issues"]["reason"].to_list()
    )


def test_missing_columns_and_times_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "run.nvprof", {"CONCURRENT_KERNEL": [kernel(2, 21, T0, T0 + 9)]}, strings=STRINGS)
    with sqlite3.connect(path) as database:
        for column in ("end", "name"):
            database.execute(
                f'ALTER TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL RENAME COLUMN "{column}" TO "{column}_x"'
            )
    database.close()
    reported = texts(load_input(path), "issues", "severity", "text", "reason")
    assert reported == [
        ("warning", "", "1 GPU activity without times"),
        ("warning", "", "1 GPU activity without a name"),
        (
            "warning",
            "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL",
            "columns missing from the table (end, name): their values are unknown",
        ),
    ]
