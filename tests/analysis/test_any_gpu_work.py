"""Figures of GPU work without a GPU number, duration, start or launch agree with counting nanoseconds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import make_profile
from tui.analysis.gpu_time.breakdown import utilization
from tui.analysis.gpu_time.idle_gaps import busy_time, gaps, idle_time
from tui.analysis.gpus import gpu_summary, streams
from tui.analysis.kernels import kernels

ROW = st.fixed_dictionaries(
    {
        "session": st.integers(0, 1),
        "kind": st.sampled_from(("kernel", "memcpy", "memset", "um", "graph")),
        "name": st.sampled_from(("a", "b")),
        "start_ns": st.none() | st.integers(0, 30),
        "duration_ns": st.none() | st.integers(0, 8),
        "device": st.none() | st.integers(0, 1),
        "stream": st.none() | st.integers(7, 8),
        "correlation": st.none() | st.integers(0, 3),
    }
)


def _busy_instants(rows: list[dict[str, Any]]) -> set[int]:
    """Return the nanoseconds in which any of the activities ran."""
    return {instant for row in rows for instant in range(row["start_ns"], row["start_ns"] + row["duration_ns"])}


@given(st.lists(ROW, min_size=1, max_size=14))
def test_times_agree_with_counting_every_nanosecond(work: list[dict[str, Any]]) -> None:
    # Loaders sort activities by start time.
    work = sorted(work, key=lambda row: (row["start_ns"] is None, row["start_ns"] or 0))
    sessions = [{"session": number, "start_resolution_ns": 1} for number in range(2)]
    profile = make_profile(sessions=sessions, activities=work)
    timed = [row for row in work if row["start_ns"] is not None and row["duration_ns"] is not None]
    rows_by_gpu: dict[tuple[int, int | None], list[dict[str, Any]]] = {}
    for row in timed:
        rows_by_gpu.setdefault((row["session"], row["device"]), []).append(row)
    intervals = {
        number: [(row["start_ns"], row["start_ns"] + row["duration_ns"]) for row in timed if row["session"] == number]
        for number in range(2)
    }
    spans = {
        number: max(end for _, end in session_intervals) - min(start for start, _ in session_intervals)
        for number, session_intervals in intervals.items()
        if session_intervals
    }
    busy = {key: len(_busy_instants(rows)) for key, rows in rows_by_gpu.items()}

    busy_rows = busy_time(profile)
    assert {
        (s, d): (busy_ns, count)
        for s, d, busy_ns, count in busy_rows.select("session", "device", "busy_ns", "activities").iter_rows()
    } == {key: (busy[key], len(rows)) for key, rows in rows_by_gpu.items()}
    assert all(row["span_ns"] == spans[row["session"]] for row in busy_rows.iter_rows(named=True))
    assert all(row["busy_ns"] + row["idle_ns"] == row["span_ns"] for row in busy_rows.iter_rows(named=True))
    utilization_rows = utilization(profile)
    assert {
        (s, d): busy_ns for s, d, busy_ns in utilization_rows.select("session", "device", "busy_ns").iter_rows()
    } == busy
    for row in utilization_rows.iter_rows(named=True):
        wall_ns, busy_ns = row["wall_ns"], busy[row["session"], row["device"]]
        assert wall_ns == spans[row["session"]]
        assert row["busy_pct"] == (pytest.approx(100 * busy_ns / wall_ns) if wall_ns else None)

    idle = {(row["session"], row["device"]): row for row in idle_time(profile).iter_rows(named=True)}
    gap_rows = gaps(profile)
    for key, rows in rows_by_gpu.items():
        busy_instants = _busy_instants(rows)
        first, last = min(row["start_ns"] for row in rows), max(row["start_ns"] + row["duration_ns"] for row in rows)
        assert idle[key]["idle_ns"] == last - first - len(busy_instants)
        gpu_gaps = [row for row in gap_rows.iter_rows(named=True) if (row["session"], row["device"]) == key]
        idle_instants = {
            instant for row in gpu_gaps for instant in range(row["start_ns"], row["start_ns"] + row["duration_ns"])
        }
        assert idle_instants == set(range(first, last)) - busy_instants

    by_stream = {(row["session"], row["device"], row["stream"]): row for row in streams(profile).iter_rows(named=True)}
    expected_streams = {(row["session"], row["device"], row["stream"]) for row in timed}
    assert set(by_stream) == expected_streams
    for (session, device, stream), row in by_stream.items():
        gpu_rows = rows_by_gpu[session, device]
        stream_rows = [activity for activity in gpu_rows if activity["stream"] == stream]
        other_rows = [activity for activity in gpu_rows if activity["stream"] != stream]
        assert row["gpu_ns"] == sum(activity["duration_ns"] for activity in stream_rows)
        assert row["busy_ns"] == len(_busy_instants(stream_rows))
        beside_ns = len(_busy_instants(stream_rows) & _busy_instants(other_rows))
        assert row["beside_ns"] == (None if stream is None else beside_ns)

    for row in gpu_summary(profile).iter_rows(named=True):
        device_work = [
            activity
            for activity in work
            if (activity["session"], activity["device"]) == (row["session"], row["device"])
        ]
        durations = [activity["duration_ns"] for activity in device_work if activity["duration_ns"] is not None]
        assert row["gpu_ns"] == (sum(durations) if durations else None)
        assert row["busy_ns"] == busy.get((row["session"], row["device"]))
    kernel_rows = kernels(profile)
    assert kernel_rows["calls"].sum() == len(work)
    assert kernel_rows["timed_calls"].sum() == sum(row["duration_ns"] is not None for row in work)
    assert kernel_rows["total_ns"].sum() == sum(row["duration_ns"] or 0 for row in work)
