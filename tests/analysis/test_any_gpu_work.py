"""Any GPU work: without a GPU number, a length, times or a launch; figures agree with counting by hand."""

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
    """Return the nanoseconds in which any of these was active."""
    return {at for row in rows for at in range(row["start_ns"], row["start_ns"] + row["duration_ns"])}


@given(st.lists(ROW, min_size=1, max_size=14))
def test_times_agree_with_counting_every_nanosecond(work: list[dict[str, Any]]) -> None:
    # As loaders give them: in order of start.
    work = sorted(work, key=lambda row: (row["start_ns"] is None, row["start_ns"] or 0))
    sessions = [{"session": number, "start_resolution_ns": 1} for number in range(2)]
    profile = make_profile(sessions=sessions, activities=work)
    timed = [row for row in work if row["start_ns"] is not None and row["duration_ns"] is not None]
    on: dict[tuple[int, int | None], list[dict[str, Any]]] = {}
    for row in timed:
        on.setdefault((row["session"], row["device"]), []).append(row)
    ends = {
        number: [(row["start_ns"], row["start_ns"] + row["duration_ns"]) for row in timed if row["session"] == number]
        for number in range(2)
    }
    spans = {number: max(b for _, b in own) - min(a for a, _ in own) for number, own in ends.items() if own}
    busy = {key: len(_busy_instants(rows)) for key, rows in on.items()}

    found = busy_time(profile)
    assert {
        (s, d): (b, n) for s, d, b, n in found.select("session", "device", "busy_ns", "activities").iter_rows()
    } == {key: (busy[key], len(rows)) for key, rows in on.items()}
    assert all(row["span_ns"] == spans[row["session"]] for row in found.iter_rows(named=True))
    assert all(row["busy_ns"] + row["idle_ns"] == row["span_ns"] for row in found.iter_rows(named=True))
    used = utilization(profile)
    assert {(s, d): b for s, d, b in used.select("session", "device", "busy_ns").iter_rows()} == busy
    for row in used.iter_rows(named=True):
        wall, own = row["wall_ns"], busy[row["session"], row["device"]]
        assert wall == spans[row["session"]]
        assert row["busy_pct"] == (pytest.approx(100 * own / wall) if wall else None)

    idle = {(row["session"], row["device"]): row for row in idle_time(profile).iter_rows(named=True)}
    holes = gaps(profile)
    for key, rows in on.items():
        moments = _busy_instants(rows)
        first, last = min(row["start_ns"] for row in rows), max(row["start_ns"] + row["duration_ns"] for row in rows)
        assert idle[key]["idle_ns"] == last - first - len(moments)
        of_gpu = [row for row in holes.iter_rows(named=True) if (row["session"], row["device"]) == key]
        gone = {at for row in of_gpu for at in range(row["start_ns"], row["start_ns"] + row["duration_ns"])}
        assert gone == set(range(first, last)) - moments

    by_stream = {(row["session"], row["device"], row["stream"]): row for row in streams(profile).iter_rows(named=True)}
    wanted = {(row["session"], row["device"], row["stream"]) for row in timed}
    assert set(by_stream) == wanted
    for (session, device, stream), row in by_stream.items():
        of_all = on[session, device]
        mine = [activity for activity in of_all if activity["stream"] == stream]
        others = [activity for activity in of_all if activity["stream"] != stream]
        assert row["gpu_ns"] == sum(activity["duration_ns"] for activity in mine)
        assert row["busy_ns"] == len(_busy_instants(mine))
        assert row["beside_ns"] == len(_busy_instants(mine) & _busy_instants(others))

    for row in gpu_summary(profile).iter_rows(named=True):
        whole = [
            activity
            for activity in work
            if (activity["session"], activity["device"]) == (row["session"], row["device"])
        ]
        known = [activity["duration_ns"] for activity in whole if activity["duration_ns"] is not None]
        assert row["gpu_ns"] == (sum(known) if known else None)
        assert row["busy_ns"] == busy.get((row["session"], row["device"]))
    result = kernels(profile)
    assert result["calls"].sum() == len(work)
    assert result["timed_calls"].sum() == sum(row["duration_ns"] is not None for row in work)
    assert result["total_ns"].sum() == sum(row["duration_ns"] or 0 for row in work)
