"""Streams of a GPU."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import copy, kernel, make_profile
from tui.analysis.gpu_time.overlap import overlap
from tui.analysis.gpus import STREAMS, streams


def test_streams_have_work_times_and_overlap_with_other_streams() -> None:
    profile = make_profile(
        activities=[
            kernel("a", 100, start_ns=0, device=0, stream=7),
            kernel("b", 100, start_ns=50, device=0, stream=8),
            copy("HtoD", 50, start_ns=250, device=0, stream=8),
            kernel("c", 10, start_ns=0, device=1, stream=7),
        ]
    )
    rows = streams(profile)
    assert {column.name for column in STREAMS.columns} <= set(rows.columns)
    columns = ("device", "stream", "stream_work", "kernels_launched", "gpu_ns", "busy_ns", "beside_ns", "beside_pct",
            "idle_ns", "copies_ns", "start_ns", "end_ns")  # fmt: skip
    assert rows.select(columns).rows() == [
        (0, 7, 1, 1, 100, 100, 50, 50.0, 200, 0, 0, 100),
        (0, 8, 2, 1, 150, 150, 50, 100 * 50 / 150, 150, 50, 50, 300),
        (1, 7, 1, 1, 10, 10, 0, 0.0, 290, 0, 0, 10),
    ]
    assert rows["busy_pct"].to_list() == [100 * 100 / 300, 50.0, 100 * 10 / 300]


def test_overlap_by_rounding_does_not_count() -> None:
    rows = [kernel("a", 1200, start_ns=0, device=0, stream=7), kernel("b", 500, start_ns=1000, device=0, stream=8)]
    rounded = make_profile(activities=rows, sessions=[{"session": 0, "start_resolution_ns": 1000}])
    assert streams(rounded)["beside_ns"].to_list() == [0, 0]
    assert streams(make_profile(activities=rows))["beside_ns"].to_list() == [200, 200]


def test_work_without_a_stream_and_work_without_times() -> None:
    profile = make_profile(activities=[kernel("a", 5, start_ns=0, device=0), kernel("b", 5, device=0, stream=7)])
    assert streams(profile).select("stream", "stream_work", "beside_ns", "beside_pct").rows() == [(None, 1, None, None)]
    assert streams(make_profile(activities=[kernel("b", 5, stream=7)])).is_empty()


@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 50), st.integers(1, 3), st.integers(0, 1)),
        min_size=1,
        max_size=20,
    )
)
def test_streams_of_a_gpu_cover_its_busy_time(rows: list[tuple[int, int, int, int]]) -> None:
    profile = make_profile(
        activities=[
            kernel("k", length, start_ns=start, stream=stream, device=device)
            for start, length, stream, device in sorted(rows)
        ]
    )
    stream_rows, gpu_rows = streams(profile), overlap(profile)
    assert stream_rows["stream_work"].sum() == len(rows)
    assert stream_rows["gpu_ns"].sum() == sum(length for _, length, _, _ in rows)
    for device, busy_ns in gpu_rows.select("device", "busy_ns").iter_rows():
        device_streams = stream_rows.filter(device=device)
        # Time of one stream alone is counted once, time of several streams at least twice.
        exclusive_ns = (device_streams["busy_ns"] - device_streams["beside_ns"]).sum()
        assert exclusive_ns <= busy_ns <= device_streams["busy_ns"].sum()
        assert (
            2 * (busy_ns - exclusive_ns)
            <= device_streams["beside_ns"].sum()
            <= device_streams.height * (busy_ns - exclusive_ns)
        )
