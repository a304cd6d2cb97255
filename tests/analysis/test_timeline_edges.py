"""The timeline of items without duration, with rounded starts, and with overlapping streams."""

from __future__ import annotations

import numpy as np

from tests.analysis.frames import copy, kernel, make_profile
from tui.analysis.gpu_time.idle_gaps import gaps
from tui.analysis.gpus import streams
from tui.analysis.iterations.iteration_table import with_iterations
from tui.analysis.timeline.drawing import bins, lane_cells
from tui.analysis.timeline.lanes import ItemKind, lanes
from tui.analysis.timeline.lookup import find_name, longest_lane_gaps, names_around
from tui.analysis.timeline.shown import iteration_marks, shown_lanes, timeline_lanes
from tui.analysis.timeline.window import full_window


def test_items_without_duration_are_in_the_cell_of_their_start() -> None:
    profile = make_profile(activities=[copy("HtoD", 0, start_ns=50, device=0, stream=1)])
    matches = find_name(profile, shown_lanes(profile), "htod").by_lane[0]
    assert matches.in_cells(np.array([49, 50, 51, 52])).tolist() == [False, True, False]
    assert matches.in_cells(np.array([40, 50, 60])).tolist() == [False, True]


def test_an_item_without_duration_at_the_end_is_visible() -> None:
    profile = make_profile(activities=[kernel("k", 10, start_ns=0, device=0), copy("DtoH", 0, start_ns=10, device=0)])
    visible = shown_lanes(profile)
    assert (visible.end_ns, visible.window_end_ns) == (10, 11)
    window = full_window(visible.begin_ns, visible.window_end_ns, 5, min_cell_ns=1)
    assert bins(visible.lanes[0], window.edges()).started.tolist() == [1, 0, 0, 1, 0]
    assert timeline_lanes(profile)["busy_pct"].to_list() == [100.0]


def test_a_stream_is_busy_no_longer_than_its_span() -> None:
    kernels = [kernel("k", 60, start_ns=0, device=0, stream=7)] * 2
    profile = make_profile(
        sessions=[{"session": 0, "start_resolution_ns": 100}],
        activities=[*kernels, kernel("k", 10, start_ns=1000, device=0, stream=20)],
    )
    rows = timeline_lanes(profile)
    assert rows.select("lane", "busy_ns").rows() == [("GPU 0", 130), ("GPU 0 stream 7", 60), ("GPU 0 stream 20", 10)]
    assert rows["busy_ns"].to_list()[1:] == streams(profile)["busy_ns"].to_list()


def test_the_name_of_a_bar_is_that_of_the_work_in_its_cells() -> None:
    profile = make_profile(
        activities=[
            kernel("relu", 100, start_ns=0, device=0, stream=7, uses_tensor_core=False),
            kernel("ncclDevKernel_AllReduce_Sum_f32", 90, start_ns=20, device=0, stream=20),
        ]
    )
    cells = lane_cells(lanes(profile)[0], np.arange(0, 121, 10), lambda item: ["relu", "nccl"][item])
    assert "".join(cells.texts) == "▓relu     ● "
    assert cells.item_kinds.tolist() == [ItemKind.KERNEL] * 10 + [ItemKind.COMMUNICATION, -1]


def test_every_view_names_the_same_work_before_a_gap() -> None:
    profile = make_profile(
        activities=[
            kernel("long", 100, start_ns=0, device=0, stream=7),
            kernel("short", 20, start_ns=80, device=0, stream=20),
            kernel("next", 5, start_ns=200, device=0, stream=7),
        ]
    )
    gpu = lanes(profile)[0]
    assert [names_around(profile, gpu, gap) for gap in longest_lane_gaps(gpu, 9)] == [("short", "next")]
    assert gaps(profile).select("before", "after").rows() == [("short", "next")]


def test_iteration_marks_include_ends_before_gaps() -> None:
    steps = [(0, 50), (50, 30), (200, 100), (220, 10), (400, None), (500, 7)]
    profile = make_profile(
        ranges=[
            {"name": f"step {number}", "start_ns": start, "duration_ns": length, "iteration": number}
            for number, (start, length) in enumerate(steps)
        ]
    )
    assert iteration_marks(with_iterations(profile), 0, 1000) == (
        (1000, "0"),
        (1050, "1"),
        (1080, ""),
        (1200, "2"),
        (1220, "3"),
        (1300, ""),
        (1400, "4"),
        (1500, "5"),
        (1507, ""),
    )
