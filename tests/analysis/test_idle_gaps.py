from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import kernel, make_profile
from tests.profiles import load_one
from tui.analysis.gpu_time.breakdown import low_utilization, utilization_in_chunks
from tui.analysis.gpu_time.host_calls import NO_CALL
from tui.analysis.gpu_time.idle_gaps import GAPS, busy_time, gap_summary, gaps, idle_time


def call(name: str, start: int, duration: int, correlation: int | None = None) -> dict[str, Any]:
    return {"name": name, "start_ns": start, "duration_ns": duration, "correlation": correlation}


PROFILE = make_profile(
    sessions=[{"session": 0, "format": "nsys-sqlite", "start_resolution_ns": 1}],
    activities=[
        kernel("a", 100, start_ns=0, device=0),
        kernel("long", 150, start_ns=10, device=0),
        kernel("b", 100, start_ns=1160, device=0, correlation=1, iteration=1),
        kernel("c", 40, start_ns=1280, device=0, correlation=2, iteration=1),
        kernel("d", 0, start_ns=31_320, device=0, correlation=3),
        kernel("e", 80, start_ns=31_420, device=0),
    ],
    api_calls=[
        call("cudaLaunchKernel", 100, 10),
        call("cudaStreamSynchronize", 150, 700),
        call("cudaMemcpyAsync", 600, 150),
        call("cudaLaunchKernel", 1100, 20, 1),
        call("cudaLaunchKernel", 1150, 20, 2),
        call("cudaMalloc", 1330, 25_000),
        call("cuMemAlloc_v2", 1340, 20_000),
        call("cudaLaunchKernel", 31_000, 330, 3),
    ],
)


def test_a_gap_is_from_the_latest_end_before_to_the_next_start() -> None:
    rows = gaps(PROFILE).select("activity", "start_ns", "duration_ns", "before", "after", "iteration")
    assert rows.rows() == [
        (4, 1320, 30_000, "c", "d", None),
        (2, 160, 1000, "long", "b", 1),
        (5, 31_320, 100, "d", "e", None),
        (3, 1260, 20, "b", "c", 1),
    ]
    assert gaps(PROFILE)["span_pct"][0] == pytest.approx(100 * 30_000 / 31_500)
    assert {column.name for column in GAPS.columns} <= set(gaps(PROFILE).columns)


def test_the_span_of_a_gpu_is_that_of_all_gpus_of_its_session() -> None:
    work = kernel("a", 10, start_ns=0, device=0), kernel("b", 20, start_ns=80, device=1)
    busy = busy_time(make_profile(activities=[*work, kernel("c", 5, start_ns=7, device=0, session=1)]))
    columns = ("session", "device", "first_ns", "last_ns", "span_ns", "busy_ns", "idle_ns")
    assert busy.select(columns).rows() == [
        (0, 0, 0, 10, 100, 10, 90),
        (0, 1, 80, 100, 100, 20, 80),
        (1, 0, 7, 12, 5, 5, 0),
    ]


def test_a_gap_has_the_cause_of_the_wait_and_the_cpu_activity() -> None:
    rows = gaps(PROFILE).select("activity", "wait", "cpu_in", "call", "call_ns", "api_ns", "api_calls_begun").rows()
    assert rows == [
        (4, "host wait", "memory call", "cudaMalloc", 25_000, 25_320, 3),
        (2, "host wait", "sync", "cudaStreamSynchronize", 690, 690 + 30, 3),
        (5, None, NO_CALL, "cudaLaunchKernel", 10, 10, 0),
        (3, "kernel wait", NO_CALL, None, None, 0, 0),
    ]


def test_the_next_work_may_have_been_launched_long_before() -> None:
    profile = make_profile(
        activities=[kernel("a", 10, start_ns=50, device=0), kernel("b", 5, start_ns=160, device=0, correlation=1)],
        api_calls=[call("cudaLaunchKernel", 0, 10, 1)],
    )
    assert gaps(profile)["wait"].to_list() == ["other"]
    assert idle_time(profile).row(0, named=True)["other_wait_ns"] == 100


def test_without_calls_the_cpu_activity_is_unknown() -> None:
    profile = make_profile(activities=[kernel("a", 10, start_ns=0, device=0), kernel("b", 5, start_ns=60, device=0)])
    row = gaps(profile).row(0, named=True)
    assert (row["duration_ns"], row["before"], row["after"]) == (50, "a", "b")
    for column in ("wait", "cpu_in", "call", "call_ns", "api_ns", "api_calls_begun"):
        assert row[column] is None
    assert idle_time(profile)["unknown_wait_ns"].to_list() == [50]


def test_sums_of_gaps_by_reason() -> None:
    assert gap_summary(PROFILE).rows() == [
        (0, 0, "macro", "host wait", "memory call", 1, 30_000, pytest.approx(95.238095), 30_000),
        (0, 0, "micro", "host wait", "sync", 1, 1000, pytest.approx(3.174603), 1000),
        (0, 0, "micro", None, NO_CALL, 1, 100, pytest.approx(100 * 100 / 31_500), 100),
        (0, 0, "micro", "kernel wait", NO_CALL, 1, 20, pytest.approx(100 * 20 / 31_500), 20),
    ]
    assert idle_time(PROFILE).row(0, named=True) == {
        "session": 0,
        "device": 0,
        "span_ns": 31_500,
        "busy_ns": 160 + 100 + 40 + 80,
        "idle_ns": 31_120,
        "gaps": 4,
        "longest_ns": 30_000,
        "macro_ns": 30_000,
        "micro_ns": 1120,
        "host_wait_ns": 31_000,
        "kernel_wait_ns": 20,
        "other_wait_ns": 0,
        "unknown_wait_ns": 100,
        "unresolved_ns": 0,
    }


def test_the_share_of_gaps_is_that_of_their_sum() -> None:
    work = [kernel("k", 7, start_ns=10 * number) for number in range(10)] + [kernel("k", 903, start_ns=97)]
    row = gap_summary(make_profile(activities=work)).row(0, named=True)
    assert (row["gaps"], row["total_ns"], row["span_pct"]) == (9, 27, 2.7)


def test_gaps_shorter_than_the_resolution_are_not_reported() -> None:
    profile = make_profile(
        sessions=[{"session": 0, "format": "nvprof-text", "start_resolution_ns": 10}],
        activities=[kernel("a", 5, start_ns=start_ns, device=0) for start_ns in (0, 10, 20, 40)],
    )
    assert gaps(profile)["duration_ns"].to_list() == [15]
    assert idle_time(profile).select("idle_ns", "micro_ns", "unresolved_ns").row(0) == (25, 15, 10)


def test_gaps_are_per_gpu_and_session() -> None:
    profile = make_profile(
        activities=[
            kernel("a", 10, start_ns=0, device=0),
            kernel("b", 10, start_ns=50, device=0),
            kernel("x", 10, start_ns=20, device=1),
            kernel("y", 10, start_ns=0, device=0, session=1),
            kernel("z", 10, start_ns=100, device=0, session=1),
        ],
        api_calls=[{**call("cudaFree", 10, 80), "session": 1}],
    )
    assert gaps(profile).select("session", "device", "duration_ns", "cpu_in").rows() == [
        (1, 0, 90, "memory call"),
        (0, 0, 40, None),
    ]


def test_a_profile_without_work_has_no_gaps() -> None:
    for profile in (make_profile(activities=[kernel("a", 10)]), make_profile(activities=[kernel("a", 10, start_ns=0)])):
        assert gaps(profile).is_empty()
        assert gap_summary(profile).is_empty()
    assert idle_time(make_profile(activities=[kernel("a", 10)])).is_empty()
    assert utilization_in_chunks(make_profile(activities=[kernel("a", 10)])).is_empty()


def test_idle_gap_of_a_real_log(corpus: Callable[[str], str]) -> None:
    profile = load_one(corpus("seeds/000_eb78dec59201d654.txt"))
    longest = gaps(profile).row(0, named=True)
    assert longest["duration_ns"] / 1e6 == pytest.approx(263.8, abs=0.05)
    assert longest["span_pct"] == pytest.approx(26.5, abs=0.05)
    assert gaps(profile)["duration_ns"][1] < 2_000_000
    idle = idle_time(profile).row(0, named=True)
    assert 100 * idle["busy_ns"] / idle["span_ns"] == pytest.approx(73.2, abs=0.05)
    assert longest["wait"] is longest["cpu_in"] is None


WORK = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 20), st.integers(0, 1)), min_size=1, max_size=15
)  # fmt: skip


@given(WORK, st.lists(st.tuples(st.integers(0, 200), st.integers(0, 30)), max_size=8), st.integers(1, 9))
def test_gaps_and_busy_time_add_up_to_the_span(
    work: list[tuple[int, int, int]], calls: list[tuple[int, int]], chunk_count: int
) -> None:
    names = ("cudaFree", "cudaLaunchKernel", "cudaStreamSynchronize")
    profile = make_profile(
        sessions=[{"session": 0, "format": "nsys-sqlite", "start_resolution_ns": 1}],
        activities=[
            kernel("k", length, start_ns=start, device=device, correlation=index % 4)
            for index, (start, length, device) in enumerate(sorted(work))
        ],
        api_calls=[call(names[index % 3], start, length, index) for index, (start, length) in enumerate(sorted(calls))],
    )
    by_gpu = gaps(profile).group_by("device").agg(pl.col("duration_ns").sum().alias("in_gaps"))
    idle_rows = idle_time(profile).join(by_gpu, on="device", how="left").fill_null(0)
    for row in idle_rows.iter_rows(named=True):
        intervals = [(start, start + length) for start, length, device in work if device == row["device"]]
        first, last = min(start for start, _ in intervals), max(end for _, end in intervals)
        assert row["span_ns"] == last - first
        busy_instants = sum(any(start <= instant < end for start, end in intervals) for instant in range(first, last))
        assert row["busy_ns"] == busy_instants
        assert row["busy_ns"] + row["in_gaps"] == row["span_ns"]
        assert row["macro_ns"] + row["micro_ns"] + row["unresolved_ns"] == row["idle_ns"] == row["in_gaps"]
        waits = ("host_wait_ns", "kernel_wait_ns", "other_wait_ns", "unknown_wait_ns")
        assert sum(row[wait] for wait in waits) == row["in_gaps"]
    assert gap_summary(profile)["total_ns"].sum() == gaps(profile)["duration_ns"].sum()
    for gap in gaps(profile).drop_nulls("api_ns").iter_rows(named=True):
        gap_instants = range(gap["start_ns"], gap["start_ns"] + gap["duration_ns"])
        assert gap["api_ns"] == sum(
            any(call_start <= instant < call_start + length for call_start, length in calls) for instant in gap_instants
        )
        assert gap["call_ns"] is None or gap["call_ns"] <= gap["api_ns"]
    shares = utilization_in_chunks(profile, chunk_count)
    assert shares.group_by("device", maintain_order=True).agg(pl.col("busy_ns", "duration_ns").sum()).rows() == (
        idle_rows.select("device", "busy_ns", "span_ns").rows()
    )


def test_chunks_are_exact_for_times_since_1970() -> None:
    start_ns = 1_764_000_000_123_456_789
    profile = make_profile(
        activities=[
            kernel("a", 10, start_ns=start_ns, device=0),
            kernel("b", 300, start_ns=start_ns + 700, device=0),
        ]
    )
    chunks = utilization_in_chunks(profile, 4)
    assert (chunks["start_ns"] - start_ns).to_list() == [0, 250, 500, 750]
    assert chunks.select("duration_ns", "busy_ns").rows() == [(250, 10), (250, 0), (250, 50), (250, 250)]


def test_adjacent_chunks_of_low_use_are_merged() -> None:
    profile = make_profile(
        activities=[
            kernel("a", 600, start_ns=0, device=0),
            kernel("b", 40, start_ns=1_000, device=0),
            kernel("c", 300, start_ns=2_700, device=0),
        ]
    )
    chunks = [100] * 6 + [0] * 4 + [40] + [0] * 16 + [100] * 3
    assert utilization_in_chunks(profile)["busy_pct"].to_list() == chunks
    assert low_utilization(profile, 50).rows() == [(0, 0, 600, 2_100, 40, pytest.approx(100 * 40 / 2_100))]
    assert low_utilization(profile, 40).rows() == [(0, 0, 600, 400, 0, 0), (0, 0, 1_100, 1_600, 0, 0)]
    assert low_utilization(make_profile(activities=[kernel("a", 10, start_ns=0)]), 50).is_empty()
