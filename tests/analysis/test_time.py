from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import kernel, make_profile
from tui.analysis.gpu_time.breakdown import breakdown, busy_over_time
from tui.analysis.gpu_time.idle_gaps import busy_time
from tui.analysis.gpu_time.interval_sets import interval_union
from tui.analysis.gpu_time.overlap import estimated_savings
from tui.analysis.gpu_time.timelines import adjusted_timelines, timelines
from tui.analysis.iterations.times import iterations_with_uses
from tui.analysis.iterations.work import iteration_work
from tui.analysis.launch_calls import neighbors
from tui.analysis.sessions import session_times


def activity(number: int, start: int, duration: int | None, **fields: object) -> dict[str, object]:
    row = {"session": 0, "activity": number, "kind": "kernel", "name": f"k{number}", "start_ns": start}
    return {**row, "duration_ns": duration, "device": 0, "stream": 7, **fields}


OVERLAPPING = make_profile(
    sessions=[{"session": 0, "format": "nvprof-text", "start_resolution_ns": 1}],
    activities=[activity(0, 0, 100), activity(1, 50, 100, stream=8), activity(2, 300, 100), activity(3, 320, 10)],
)


def test_each_bin_has_the_busy_share_of_the_gpu() -> None:
    shares = busy_over_time(OVERLAPPING, session=0, device=0, first_ns=0, last_ns=400, bins=4)
    assert shares.tolist() == [1.0, 0.5, 0.0, 1.0]


def test_no_bins_without_times_or_work_of_the_gpu() -> None:
    assert busy_over_time(OVERLAPPING, session=0, device=0, first_ns=5, last_ns=5, bins=4).tolist() == []
    assert busy_over_time(OVERLAPPING, session=0, device=1, first_ns=0, last_ns=400, bins=2).tolist() == [0.0, 0.0]


@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 3_000)), min_size=1, max_size=40),
    st.integers(1, 50),
)
def test_the_bins_add_up_to_the_busy_time(intervals: list[tuple[int, int]], bins: int) -> None:
    rows = [activity(number, start, length) for number, (start, length) in enumerate(sorted(intervals))]
    profile = make_profile(
        sessions=[{"session": 0, "format": "nvprof-text", "start_resolution_ns": 0}],
        activities=rows,
    )
    busy = busy_time(profile).row(0, named=True)
    shares = busy_over_time(profile, session=0, device=0, first_ns=busy["first_ns"], last_ns=busy["last_ns"], bins=bins)
    if busy["span_ns"]:
        assert np.sum(shares) * busy["span_ns"] / bins == pytest.approx(busy["busy_ns"], abs=1)
    else:
        assert shares.tolist() == []


def test_neighbors_are_on_the_same_stream_with_the_gap_between() -> None:
    before, after = neighbors(OVERLAPPING, 2)
    assert before is not None
    assert (before.activity, before.name, before.gap_ns) == (0, "k0", 200)
    assert after is not None
    assert (after.activity, after.gap_ns) == (3, None)
    assert neighbors(OVERLAPPING, 1) == (None, None)
    with pytest.raises(KeyError):
        neighbors(OVERLAPPING, 9)


def test_a_gap_below_the_start_time_resolution_is_not_reported() -> None:
    rounded = make_profile(
        sessions=[{"session": 0, "format": "nvprof-text", "start_resolution_ns": 10_000}],
        activities=[activity(0, 0, 5_000), activity(1, 10_000, 5_000), activity(2, 30_000, 5_000)],
    )
    before, after = neighbors(rounded, 1)
    assert before is not None
    assert before.gap_ns is None
    assert after is not None
    assert after.gap_ns == 15_000


def test_sessions_keep_their_order_and_unknown_figures_are_null() -> None:
    profile = make_profile(
        sessions=[{"session": 0, "format": "nvprof-text", "pid": 5}, {"session": 1, "format": "paleo"}],
        activities=[activity(0, 0, 70), activity(1, 100, 30)],
    )
    assert session_times(profile).select("session", "pid", "gpu_ns").rows() == [(0, 5, 100), (1, None, None)]
    assert session_times(profile).schema["gpu_ns"] == pl.Int64


def test_a_session_without_gpu_work_lists_its_content() -> None:
    profile = make_profile(
        sessions=[{"session": 0, "pid": 5, "format": "nsys-sqlite"}, {"session": 1, "pid": 6, "format": "nsys-sqlite"}],
        activities=[kernel("k", 100), kernel("untimed", None, session=2)],
        api_calls=[{"name": "cuInit", "duration_ns": 1, "session": 1}],
        ranges=[{"name": name, "session": 1} for name in "ab"],
        metrics=[{"metric": "ipc", "kernel": "k", "session": 3}],
    )
    assert session_times(profile).select("label", "gpu_ns", "holds").rows() == [
        ("process 5", 100, "no GPU times"),
        ("process 6", None, "no GPU work, 1 API call, 2 ranges"),
        (None, None, "no GPU times"),
        (None, None, "no GPU times, 1 metric"),
    ]


def test_commands_are_distinguished_without_the_folders_of_their_paths() -> None:
    folder = "/home/someone/a/long/way/to"
    commands = [f"{folder}/bin/python {folder}/batch.py ./clip.avi"] * 2 + [
        "C:\\tools\\run.exe D:/x/y.avi",
        "./a --out b/c",
    ]
    profile = make_profile(
        sessions=[
            {"session": number, "pid": 50 + number, "command": command, "format": "nvprof-text"}
            for number, command in enumerate(commands)
        ],
        activities=[kernel("k", 100)],
    )
    assert session_times(profile)["short"].to_list() == [
        "pid 50 python batch.py ./clip.avi",
        "pid 51 python batch.py ./clip.avi",
        "run.exe y.avi",
        "./a --out b/c",
    ]
    assert session_times(profile)["label"].to_list() == commands


ROUNDED = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 25), st.sampled_from([7, 8])), min_size=1, max_size=25)


@given(ROUNDED)
def test_rounded_starts_are_adjusted_to_the_reported_busy_time(work: list[tuple[int, int, int]]) -> None:
    rows = [
        activity(number, 10 * start, length, stream=stream)
        for number, (start, length, stream) in enumerate(sorted(work))
    ]
    profile = make_profile(sessions=[{"session": 0, "start_resolution_ns": 10}], activities=rows)
    (timeline,), (adjusted,) = timelines(profile), adjusted_timelines(profile)
    starts, lengths = (np.array([row[name] for row in rows]) for name in ("start_ns", "duration_ns"))
    ends = starts + lengths
    latest_ends = np.maximum.accumulate(np.concatenate((starts[:1], ends[:-1])))
    adjusted_starts = np.where(latest_ends - starts < 10, starts, latest_ends)
    expected_ns = min(int((np.maximum(ends, adjusted_starts) - adjusted_starts).sum()), int(ends.max() - starts[0]))
    assert interval_union(adjusted.starts, adjusted.ends).length_ns == busy_time(profile)["busy_ns"][0] == expected_ns
    assert adjusted.starts.min() >= timeline.starts[0]
    assert adjusted.ends.max() <= timeline.ends.max()
    assert (np.diff(adjusted.starts) >= 0).all()
    assert sorted(adjusted.rows.tolist()) == timeline.rows.tolist()


def test_iterations_and_wall_time_count_overlap_by_rounding() -> None:
    work = [(start, name) for start in (0, 2_000, 4_000) for name in ("relu", "volta_h884gemm_128x128", "relu")]
    rows = [
        {**activity(number, start, 300), "name": name, "iteration": start // 2_000}
        for number, (start, name) in enumerate([*work, (5_000, "relu")])
    ]
    profile = make_profile(
        sessions=[{"session": 0, "format": "nvprof-text", "start_resolution_ns": 1_000}],
        devices=[{"device": 0, "name": "Tesla V100", "compute_capability": "7.0"}],
        activities=rows,
        ranges=[
            {"name": f"step {step}", "start_ns": 2_000 * step, "duration_ns": 2_000, "iteration": step}
            for step in range(3)
        ],
    )
    uses = iterations_with_uses(profile).select("busy_ns", "tensor_core_ns", "other_kernel_ns", "idle_ns")
    assert uses.rows() == [(900, 300, 600, 1_100), (900, 300, 600, 1_100), (1_200, 300, 900, 800)]
    assert iteration_work(profile)["kernel_pct"].to_list() == [45, 45, 60]
    assert breakdown(profile)["time_ns"].drop_nulls().to_list() == [900, 2_100, 0, 3_000]
    assert busy_time(profile)["busy_ns"].to_list() == [3_000]
    (saving,) = estimated_savings(profile, pl.Series([1, 4, 7], dtype=pl.UInt32))
    assert (saving.time_ns, saving.alone_ns, saving.half_ns, saving.busy_ns) == (900, 900, 450, 3_000)
