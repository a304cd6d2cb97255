"""Facts of a trace: its process, ranks, versions and GPUs."""

from __future__ import annotations

import pytest

from tests.loaders.kineto.traces import BASE_NS, kernel, op, read

H200 = {
    "id": 0,
    "name": "NVIDIA H200",
    "totalGlobalMem": 150_000_000_000,
    "computeMajor": 9,
    "computeMinor": 0,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerBlock": 65536,
    "regsPerMultiprocessor": 65536,
    "warpSize": 32,
    "sharedMemPerBlock": 49152,
    "sharedMemPerMultiprocessor": 233472,
    "numSms": 132,
}


def test_a_session_of_a_rank() -> None:
    profile = read(
        [op("aten::mm", 10, 5)],
        distributedInfo={"backend": "nccl", "rank": 3, "world_size": 8},
        cuda_runtime_version=12040,
        cuda_driver_version=13000,
        torch_version="2.4.0",
        host_name="node-7",
    )
    (session,) = profile["sessions"].to_dicts()
    assert {key: value for key, value in session.items() if value is not None} == {
        "session": 0,
        "format": "pytorch-trace",
        "tool": "PyTorch profiler",
        "framework": "PyTorch 2.4.0",
        "pid": 100,
        "rank": 3,
        "world_size": 8,
        "host": "node-7",
        "cuda_version": "12.4",
        "driver_version": "for CUDA 13.0",
        "start_resolution_ns": 1000,
        "origin_ns": BASE_NS + 10_000,
        "source": "run.pt.trace.json",
        "last_line": session["last_line"],
    }


def test_a_gpu_has_only_recorded_properties() -> None:
    older = {key: value for key, value in H200.items() if key not in ("regsPerMultiprocessor", "totalGlobalMem")}
    invalid_properties = [
        7,
        {"id": "two"},
        {**H200, "name": "again"},
        {"id": 2, "name": " ", "numSms": 0, "computeMajor": 9, "maxSharedMemoryPerMultiProcessor": 0},
    ]
    profile = read([kernel(1, 0)], deviceProperties=[H200, {**older, "id": 1}, *invalid_properties])
    assert profile["devices"].drop("session").rows() == [
        (0, "NVIDIA H200", "9.0", 132, 150_000_000_000, None, 2048, 65536, 233472),
        (1, "NVIDIA H200", "9.0", 132, None, None, 2048, None, 233472),
        (2, None, None, None, None, None, None, None, None),
    ]


@pytest.mark.parametrize(
    ("name", "reported", "rank"),
    [
        ("rank-12.trace.json", None, 12),
        ("rank_3.json", {"rank": 5}, 5),
        ("a/rank4/host_1.pt.trace.json", None, None),
        ("ddp_rank1.pt.trace.json", {"rank": -1}, 1),
        ("run.json", {"rank": "two"}, None),
        ("run.json", ["rank"], None),
    ],
    ids=["name", "info first", "not the folder", "impossible", "text", "no object"],
)
def test_the_rank_is_from_the_trace_or_the_file_name(name: str, reported: object, rank: int | None) -> None:
    assert read([op("a", 0, 1)], name=name, distributedInfo=reported)["sessions"]["rank"].to_list() == [rank]


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("node-7.example.org_100.1700000000000.pt.trace.json.gz", "node-7.example.org"),
        ("worker_7.1700000000000.pt.trace.json", None),
        ("run.pt.trace.json", None),
    ],
    ids=["host and process", "a number that is no process", "neither"],
)
def test_the_host_is_read_from_a_default_file_name(name: str, host: str | None) -> None:
    assert read([op("a", 0, 1)], name=name)["sessions"]["host"].to_list() == [host]


@pytest.mark.parametrize(
    ("base", "ts", "origin_ns"),
    [
        (BASE_NS, 5, BASE_NS + 5000),
        (None, 1_623_142_623_460_016, 1_623_142_623_460_016_000),
        (None, 4_203_669_604_595, None),
        ("junk", 5, None),
        (1 << 80, 5, None),
    ],
    ids=["base", "Unix time", "time since the machine started", "junk", "too large"],
)
def test_the_recording_start_is_known_if_the_clock_is_absolute(base: object, ts: int, origin_ns: int | None) -> None:
    profile = read([op("a", ts, 1)], baseTimeNanoseconds=base)
    assert profile["sessions"]["origin_ns"].to_list() == [origin_ns]
    assert profile["ops"]["start_ns"].to_list() == [0]


@pytest.mark.parametrize(
    ("first", "ts", "step_ns"),
    [(1_000_000, 1_000_005, 1000), (1_000_000, 1_000_005.25, 1), (1_000_000.25, 1_000_005.25, 1)],
    ids=["µs", "ns", "whole µs apart"],
)
def test_the_resolution_of_times(first: float, ts: float, step_ns: int) -> None:
    profile = read([op("a", first, 1), op("b", ts, 1)])
    assert profile["sessions"]["start_resolution_ns"].to_list() == [step_ns]


def test_driver_versions_of_amd() -> None:
    profile = read([op("a", 0, 1)], hip_driver_version=60_342_131, hip_runtime_version=60_342_131)
    assert profile["sessions"].select("cuda_version", "driver_version").rows() == [(None, "for HIP 6.3.42131")]
