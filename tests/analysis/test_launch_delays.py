from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import kernel, make_profile
from tests.corpus import recording_file
from tests.profiles import load_one
from tui.analysis.launch_calls import delays_by_name, launch_calls, launch_delays


def call(correlation: int | None, start: int, duration: int, **fields: Any) -> dict[str, Any]:
    row = {"name": "cudaLaunchKernel", "correlation": correlation, "start_ns": start, "duration_ns": duration}
    return {**row, **fields}


PROFILE = make_profile(
    activities=[
        kernel("a", 100, start_ns=20, device=0, correlation=1),
        kernel("b", 50, start_ns=130, device=0, correlation=2),
        kernel("a", 50, start_ns=400_000, device=0, correlation=3),
        kernel("c", 50, start_ns=400_060, device=0, correlation=9),
        kernel("a", 10, start_ns=5, device=1, correlation=4),
    ],
    api_calls=[
        call(1, 0, 25),
        call(1, 3, 5, name="cuLaunchKernel"),
        call(2, 30, 10),
        call(3, 60, 20),
        call(4, 70, 5),
        call(None, 80, 5),
    ],
)


def test_the_delay_is_from_the_end_of_the_call_to_the_start_of_the_work() -> None:
    delays = launch_delays(PROFILE)
    assert delays.select(
        "activity", "launch_ns", "launch_end_ns", "queue_ns", "queue_idle_ns", "queue_depth"
    ).rows() == [
        (0, 0, 25, -5, 0, 0),
        (1, 30, 40, 90, 10, 0),
        (2, 60, 80, 399_920, 399_820, 1),
        (4, 70, 75, -70, 0, 0),
    ]


def test_work_that_starts_before_its_call_returns_has_no_delay() -> None:
    rows = delays_by_name(PROFILE)
    assert rows.row(0, named=True) == {
        "session": 0,
        "kind": "kernel",
        "name": "a",
        "launches": 3,
        "queue_median_ns": 399_920,
        "queue_p90_ns": 399_920,
        "queue_p99_ns": 399_920,
        "queue_max_ns": 399_920,
        "early": 2,
        "late": 1,
        "depth_median": 0,
        "depth_max": 1,
        "late_pct": 100 / 3,
    }
    assert rows["name"].cast(pl.String).to_list() == ["a", "b"]


def test_only_the_first_kernel_of_a_graph_waits_for_the_launch() -> None:
    profile = make_profile(
        activities=[kernel("a", 10, start_ns=start, device=0, correlation=1) for start in (100, 120, 140)],
        api_calls=[call(1, 0, 25, name="cudaGraphLaunch")],
    )
    assert launch_delays(profile)["queue_ns"].to_list() == [75, None, None]
    assert launch_calls(profile)["launched_with"].to_list() == [0, 1, 2]


def test_correlations_are_per_session() -> None:
    profile = make_profile(
        activities=[
            kernel("a", 10, start_ns=100, device=0, correlation=1, session=0),
            kernel("a", 10, start_ns=100, device=0, correlation=1, session=1),
            kernel("a", 10, start_ns=200, device=0, correlation=2, session=1),
        ],
        api_calls=[call(1, 0, 10, session=0), call(1, 50, 10, session=1)],
    )
    assert launch_calls(profile)["launch_ns"].to_list() == [0, 50, None]
    assert launch_delays(profile)["queue_ns"].to_list() == [90, 40]


def test_without_calls_or_times_there_are_no_delays() -> None:
    for profile in (
        make_profile(activities=[kernel("a", 10, start_ns=0, correlation=1)]),
        make_profile(activities=[kernel("a", 10, correlation=1)], api_calls=[call(1, 0, 5)]),
    ):
        assert launch_delays(profile).is_empty()
        assert delays_by_name(profile).is_empty()


def test_delays_of_an_nsight_systems_recording() -> None:
    delays = launch_delays(load_one(recording_file("resnet50_amp.nsys.sqlite.gz")))
    assert delays.height == 5738
    # The call that copies the first batch returns after the copy began.
    assert delays.row(0, named=True)["queue_ns"] == 3_334_518_591 - 3_334_519_146
    deepest = delays.sort("queue_depth").row(-1, named=True)
    is_waiting = (pl.col("launch_ns") < deepest["launch_ns"]) & (pl.col("start_ns") > deepest["launch_ns"])
    assert deepest["queue_depth"] == delays.filter(is_waiting).height > 1


def test_work_that_starts_before_its_call_hides_no_waiting_work() -> None:
    profile = make_profile(
        activities=[
            kernel("early", 5, start_ns=90, device=0, correlation=1),
            kernel("waiting", 5, start_ns=300, device=0, correlation=2),
            kernel("last", 5, start_ns=400, device=0, correlation=3),
        ],
        api_calls=[call(2, 80, 2), call(3, 95, 2), call(1, 100, 2)],
    )
    # By call: 80 nothing waits, 95 the second kernel, 100 the second and the third.
    assert launch_delays(profile).select("name", "queue_depth").rows() == [("early", 2), ("waiting", 0), ("last", 1)]


LAUNCHES = st.tuples(st.integers(0, 50), st.integers(0, 9), st.integers(-30, 30), st.integers(0, 9))


@given(st.lists(LAUNCHES, max_size=12))
def test_the_queue_length_counts_launched_work_that_has_not_started(launches: list[tuple[int, int, int, int]]) -> None:
    rows = sorted(launches, key=lambda row: row[0] + row[2])
    profile = make_profile(
        activities=[
            kernel("a", duration_ns, start_ns=call_start + wait_ns, device=0, correlation=number)
            for number, (call_start, _, wait_ns, duration_ns) in enumerate(rows)
        ],
        api_calls=[call(number, call_start, call_ns) for number, (call_start, call_ns, _, _) in enumerate(rows)],
    )
    delays = launch_delays(profile)
    assert delays["queue_ns"].to_list() == [wait_ns - call_ns for _, call_ns, wait_ns, _ in rows]
    assert delays["queue_depth"].to_list() == [
        sum(other[0] < call_start < other[0] + other[2] for other in rows) for call_start, *_ in rows
    ]
