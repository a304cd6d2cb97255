from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import copy, kernel, make_profile
from tests.profiles import load_one
from tui.analysis.gpu_time.idle_gaps import busy_time
from tui.analysis.gpu_time.overlap import overlap
from tui.analysis.gpus import streams
from tui.model.profile import Profile


def only_row(profile: Profile) -> dict[str, Any]:
    return overlap(profile).row(0, named=True)


def test_work_without_overlap_is_exposed() -> None:
    profile = make_profile(
        activities=[
            kernel("gemm", 100, start_ns=0, device=0, stream=7),
            kernel("gemm", 100, start_ns=50, device=0, stream=9),
            kernel("ncclDevKernel_AllReduce", 100, start_ns=120, device=0, stream=8),
            copy("HtoD", 60, start_ns=200, device=0),
            copy("DtoH", 30, start_ns=250, device=0),
            {"kind": "memset", "name": "[CUDA memset]", "start_ns": 290, "duration_ns": 10, "device": 0, "stream": 7},
        ]
    )
    assert only_row(profile) == {
        "session": 0,
        "device": 0,
        "total_span_ns": 300,
        "compute_ns": 160,
        "exposed_comm_ns": 70,
        "exposed_copy_ns": 60,
        "busy_ns": 290,
        "idle_ns": 10,
        "comm_ns": 100,
        "copies_ns": 80,
        "kernels_ns": 230,
        "copies_hidden_ns": 20,
        "to_device_ns": 60,
        "from_device_ns": 30,
        "both_ways_ns": 10,
        "concurrent_ns": 80,
        "most_at_once": 2,
        "kernel_streams": 3,
        "comm_hidden_pct": 30.0,
        "copy_hidden_pct": 25.0,
        "both_ways_pct": pytest.approx(100 / 3),
        "concurrent_pct": pytest.approx(100 * 80 / 230),
    }


def test_times_of_copies_without_a_direction_are_unknown() -> None:
    unknown = {**copy("", 10, start_ns=0, device=0), "copy_kind": None}
    columns = ("copies_ns", "to_device_ns", "from_device_ns", "both_ways_ns", "both_ways_pct")
    rows = overlap(make_profile(activities=[unknown, copy("HtoD", 7, start_ns=5, device=0), kernel("k", 1)]))
    assert rows.select(columns).row(0) == (12, 7, None, None, None)
    known = overlap(make_profile(activities=[copy("PtoP", 10, start_ns=0, device=0)]))
    assert known.select(columns).row(0) == (10, 0, 0, 0, None)


def test_shares_of_zero_and_unnamed_streams_are_null() -> None:
    row = only_row(make_profile(activities=[kernel("gemm", 100, start_ns=0)]))
    shares = ("comm_hidden_pct", "copy_hidden_pct", "both_ways_pct", "kernel_streams", "device")
    assert [row[name] for name in shares] == [None] * 5
    assert row["concurrent_pct"] == 0
    assert overlap(make_profile(activities=[kernel("gemm", 100)])).is_empty()


def test_kernels_that_overlap_by_rounding_are_not_concurrent() -> None:
    profile = make_profile(
        sessions=[{"session": 0, "format": "nvprof-text", "start_resolution_ns": 10}],
        activities=[kernel("a", 25, start_ns=0), kernel("b", 25, start_ns=20), kernel("c", 25, start_ns=30)],
    )
    row = only_row(profile)
    assert (row["concurrent_ns"], row["most_at_once"]) == (6, 2)


def test_copies_with_rounded_starts_are_active_no_longer_than_the_gpu() -> None:
    profile = make_profile(
        sessions=[{"session": 0, "start_resolution_ns": 10}],
        activities=[
            kernel("k", 12, start_ns=30, device=0),
            copy("HtoD", 10, start_ns=28, device=0),
            copy("DtoD", 8, start_ns=30, device=0),
            copy("HtoD", 12, start_ns=38, device=0),
        ],
    )
    # The copies may follow each other for 30 ns, longer than from the first start to the last end.
    row = overlap(profile).row(0, named=True)
    assert (row["busy_ns"], row["copies_ns"], row["copies_hidden_ns"], row["copy_hidden_pct"]) == (22, 22, 12, 100.0)


def test_busy_time_with_rounded_starts_agrees_with_the_gpu() -> None:
    profile = make_profile(
        sessions=[{"session": 0, "format": "nvprof-text", "start_resolution_ns": 10}],
        activities=[
            kernel("a", 8, start_ns=0, device=0, stream=7),
            kernel("b", 8, start_ns=0, device=0, stream=7),
            copy("HtoD", 8, start_ns=10, device=0, stream=7),
            kernel("c", 5, start_ns=95, device=0, stream=7),
        ],
    )
    busy_ns = busy_time(profile)["busy_ns"].item()
    assert busy_ns == 8 + 8 + 8 + 5
    assert streams(profile)["busy_ns"].to_list() == [busy_ns]
    row = only_row(profile)
    times = [row[name] for name in ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")]
    assert (row["busy_ns"], times) == (busy_ns, [21, 0, 8, 71])


@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(0, 30), st.sampled_from(["a", "nccl", "HtoD"])), min_size=1),
    st.integers(1, 12),
)
def test_compute_exposed_and_idle_time_add_up_to_the_span(work: list[tuple[int, int, str]], resolution_ns: int) -> None:
    profile = make_profile(
        sessions=[{"session": 0, "format": "nvprof-text", "start_resolution_ns": resolution_ns}],
        activities=[
            copy(name, length, start_ns=start, device=0)
            if name == "HtoD"
            else kernel(name, length, start_ns=start, device=0)
            for start, length, name in work
        ],
    )
    row = only_row(profile)
    times = [row[name] for name in ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")]
    assert sum(times) == row["total_span_ns"]
    assert min(times) >= 0
    assert min(row["copies_hidden_ns"], row["both_ways_ns"]) >= 0
    assert row["busy_ns"] == busy_time(profile)["busy_ns"].item()


def test_gpus_and_sessions_are_separate() -> None:
    profile = make_profile(
        activities=[
            kernel("a", 10, start_ns=0, device=1),
            kernel("nccl", 10, start_ns=5, device=0),
            kernel("nccl", 30, start_ns=5, device=0, session=1),
        ]
    )
    assert overlap(profile).select("session", "device", "compute_ns", "exposed_comm_ns").rows() == [
        (0, 0, 0, 10),
        (0, 1, 10, 0),
        (1, 0, 0, 30),
    ]


NAMES = ("gemm", "ncclKernel", "HtoD", "DtoH")


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12), st.sampled_from(NAMES)), min_size=1, max_size=10),
)
def test_overlap_agrees_with_counting_instants(work: list[tuple[int, int, str]]) -> None:
    profile = make_profile(
        activities=[
            (copy(name, length, start_ns=start) if name.endswith(("H", "D")) else kernel(name, length, start_ns=start))
            for start, length, name in work
        ]
    )
    row = only_row(profile)
    active_names = [
        [name for start, length, name in work if start <= instant < start + length] for instant in range(100)
    ]
    kernel_counts = [sum(name in ("gemm", "ncclKernel") for name in names) for names in active_names]
    assert row["compute_ns"] == sum("gemm" in names for names in active_names)
    assert row["exposed_comm_ns"] == sum("ncclKernel" in names and "gemm" not in names for names in active_names)
    assert row["exposed_copy_ns"] == sum(
        bool(names) and not count for names, count in zip(active_names, kernel_counts, strict=True)
    )
    assert row["both_ways_ns"] == sum({"HtoD", "DtoH"} <= set(names) for names in active_names)
    assert row["concurrent_ns"] == sum(count >= 2 for count in kernel_counts)
    assert row["most_at_once"] == max(
        [*kernel_counts, min(1, sum(name in ("gemm", "ncclKernel") for *_, name in work))]
    )
    columns = ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")
    assert sum(row[column] for column in columns) == row["total_span_ns"]


@pytest.mark.parametrize("name", ["gaunernst_bert-small-uncased__1016001", "Qwen_Qwen1.5-0.5B-Chat__1016005"])
def test_overlap_agrees_with_tracelens(corpus: Callable[[str], str], name: str) -> None:
    report = pl.read_csv(corpus(f"kineto/{name}_perf_report_csvs/gpu_timeline.csv"))
    tracelens_ms = dict(report.select("type", "time ms").iter_rows())
    profile = load_one(corpus(f"kineto/{name}.json.gz"))
    # TraceLens excludes work without a recorded launch, from the step before the recording.
    launched = profile["activities"].filter(pl.col("iteration").is_not_null())
    row = only_row(Profile({**profile.frames, "activities": launched}, profile.sources))
    for tracelens_name, column in (
        ("computation_time", "compute_ns"),
        ("exposed_comm_time", "exposed_comm_ns"),
        ("exposed_memcpy_time", "exposed_copy_ns"),
        ("busy_time", "busy_ns"),
        ("idle_time", "idle_ns"),
        ("total_time", "total_span_ns"),
        ("total_memcpy_time", "copies_ns"),
    ):
        assert row[column] / 1e6 == pytest.approx(tracelens_ms[tracelens_name], abs=2e-5)
