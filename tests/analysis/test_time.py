from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import kernel, profile
from tui.analysis.gpu_time.busy_over_time import busy_over_time
from tui.analysis.gpu_time.intervals import busy_time
from tui.analysis.launches.neighbours import neighbours
from tui.analysis.sessions import session_times


def activity(number: int, start: int, duration: int | None, **more: object) -> dict[str, object]:
    row = {"session": 0, "activity": number, "kind": "kernel", "name": f"k{number}", "start_ns": start}
    return {**row, "duration_ns": duration, "device": 0, "stream": 7, **more}


OVERLAPPING = profile(
    sessions=[{"session": 0, "format": "nvprof-text", "start_resolution_ns": 1}],
    activities=[activity(0, 0, 100), activity(1, 50, 100, stream=8), activity(2, 300, 100), activity(3, 320, 10)],
)


def test_each_step_holds_the_share_in_which_the_gpu_had_work() -> None:
    shares = busy_over_time(OVERLAPPING, session=0, device=0, first_ns=0, last_ns=400, bins=4)
    assert shares.tolist() == [1.0, 0.5, 0.0, 1.0]


def test_there_are_no_steps_without_time_and_no_work_on_another_gpu() -> None:
    assert busy_over_time(OVERLAPPING, session=0, device=0, first_ns=5, last_ns=5, bins=4).tolist() == []
    assert busy_over_time(OVERLAPPING, session=0, device=1, first_ns=0, last_ns=400, bins=2).tolist() == [0.0, 0.0]


@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 3_000)), min_size=1, max_size=40),
    st.integers(1, 50),
)
def test_the_steps_add_up_to_the_busy_time(intervals: list[tuple[int, int]], bins: int) -> None:
    rows = [activity(number, start, length) for number, (start, length) in enumerate(sorted(intervals))]
    made = profile(
        sessions=[{"session": 0, "format": "nvprof-text", "start_resolution_ns": 0}],
        activities=rows,
    )
    busy = busy_time(made).row(0, named=True)
    shares = busy_over_time(made, session=0, device=0, first_ns=busy["first_ns"], last_ns=busy["last_ns"], bins=bins)
    if busy["span_ns"]:
        assert np.sum(shares) * busy["span_ns"] / bins == pytest.approx(busy["busy_ns"], abs=1)
    else:
        assert shares.tolist() == []


def test_neighbours_are_those_on_the_same_stream_with_the_gap_between() -> None:
    before, after = neighbours(OVERLAPPING, 2)
    assert before is not None
    assert (before.activity, before.name, before.gap_ns) == (0, "k0", 200)
    assert after is not None
    assert (after.activity, after.gap_ns) == (3, None)
    assert neighbours(OVERLAPPING, 1) == (None, None)
    with pytest.raises(KeyError):
        neighbours(OVERLAPPING, 9)


def test_a_gap_below_what_the_start_times_tell_is_not_told() -> None:
    rounded = profile(
        sessions=[{"session": 0, "format": "nvprof-text", "start_resolution_ns": 10_000}],
        activities=[activity(0, 0, 5_000), activity(1, 10_000, 5_000), activity(2, 30_000, 5_000)],
    )
    before, after = neighbours(rounded, 1)
    assert before is not None
    assert before.gap_ns is None
    assert after is not None
    assert after.gap_ns == 15_000


def test_sessions_side_by_side_keep_their_order_and_say_nothing_where_nothing_is_known() -> None:
    made = profile(
        sessions=[{"session": 0, "format": "nvprof-text", "pid": 5}, {"session": 1, "format": "paleo"}],
        activities=[activity(0, 0, 70), activity(1, 100, 30)],
    )
    assert session_times(made).select("session", "pid", "gpu_ns").rows() == [(0, 5, 100), (1, None, None)]
    assert session_times(made).schema["gpu_ns"] == pl.Int64


def test_a_session_without_gpu_work_says_what_it_holds() -> None:
    made = profile(
        sessions=[{"session": 0, "pid": 5, "format": "nsys-sqlite"}, {"session": 1, "pid": 6, "format": "nsys-sqlite"}],
        activities=[kernel("k", 100), kernel("untimed", None, session=2)],
        api_calls=[{"name": "cuInit", "duration_ns": 1, "session": 1}],
        ranges=[{"name": name, "session": 1} for name in "ab"],
    )
    assert session_times(made).select("label", "gpu_ns", "holds").rows() == [
        ("process 5", 100, "no GPU times"),
        ("process 6", None, "no GPU work, 1 API call, 2 ranges"),
        (None, None, "no GPU times"),
    ]


def test_commands_are_told_apart_without_the_folders_of_their_paths() -> None:
    folder = "/home/someone/a/long/way/to"
    commands = [f"{folder}/bin/python {folder}/batch.py ./clip.avi"] * 2 + [
        "C:\\tools\\run.exe D:/x/y.avi",
        "./a --out b/c",
    ]
    made = profile(
        sessions=[
            {"session": number, "pid": 50 + number, "command": command, "format": "nvprof-text"}
            for number, command in enumerate(commands)
        ],
        activities=[kernel("k", 100)],
    )
    assert session_times(made)["short"].to_list() == [
        "pid 50 python batch.py ./clip.avi",
        "pid 51 python batch.py ./clip.avi",
        "run.exe y.avi",
        "./a --out b/c",
    ]
    assert session_times(made)["label"].to_list() == commands
