"""Lanes of the timeline: the content of time slices, and sums that agree with other figures."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import copy, kernel, make_profile
from tests.analysis.path_profiles import serial_profile
from tests.profiles import load_one
from tui.analysis.gpu_time.idle_gaps import busy_time
from tui.analysis.gpu_time.interval_sets import interval_union
from tui.analysis.gpu_time.timelines import timelines
from tui.analysis.timeline import lanes as lanes_module
from tui.analysis.timeline.drawing import GLYPHS, NO_ITEM, GlyphSet, bins, lane_cells
from tui.analysis.timeline.lanes import BLOCK, COVERING_KINDS, GAP_BLOCK, ItemKind, Lane, LaneKind, flatten, lanes
from tui.analysis.timeline.lookup import (
    TimeInterval,
    find_critical_path,
    find_name,
    gap_at,
    item_name,
    lane_activity,
    linked_rows,
    longest_gpu_work,
    longest_lane_gaps,
    main_item,
    names_in_slice,
    next_gap,
    row_items,
)
from tui.analysis.timeline.shown import fitting_lanes, lane_label, lane_title, shown_lanes, timeline_lanes
from tui.analysis.timeline.window import full_window, ruler, tracks
from tui.text import to_ascii
from tui.widgets.timeline.view import lane_heights

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.profile import Profile

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas"


def recorded_profile() -> Profile:
    """Return two streams of a GPU, the calls that launched their work, nested ops and a range."""
    thread = {"pid": 9, "tid": 4}
    return make_profile(
        sessions=[{"session": 0, "start_resolution_ns": 1}],
        activities=[
            copy("HtoD", 40, start_ns=100, device=0, stream=7, correlation=1),
            kernel(GEMM, 100, start_ns=150, device=0, stream=7, correlation=2, uses_tensor_core=True),
            kernel("relu", 10, start_ns=250, device=0, stream=7, correlation=3),
            copy("DtoH", 200, start_ns=200, device=0, stream=20, correlation=4),
            kernel("relu", 50, start_ns=900, device=0, stream=7, correlation=5),
            kernel("never timed", None, start_ns=None, device=0, stream=7),
        ],
        api_calls=[
            {"name": name, "start_ns": start, "duration_ns": 5, "correlation": number, **thread}
            for number, (name, start) in enumerate(
                [("cudaMemcpyAsync", 10), ("cudaLaunchKernel", 20), ("cudaDeviceSynchronize", 30)], start=1
            )
        ],
        ops=[
            {"op": 0, "name": "aten::linear", "start_ns": 15, "duration_ns": 20, **thread},
            {"op": 1, "name": "aten::addmm", "start_ns": 18, "duration_ns": 10, **thread},
        ],
        ranges=[{"name": "step", "start_ns": 0, "duration_ns": 60, "depth": 0, **thread}],
    )


def lane_of(profile: Profile, kind: LaneKind, stream: int | None = None) -> Lane:
    return next(lane for lane in lanes(profile) if (lane.kind, lane.stream) == (kind, stream))


def test_lanes_are_gpus_with_streams_then_threads_from_the_outermost_level() -> None:
    all_lanes = lanes(recorded_profile())
    assert [lane_title(lane) for lane in all_lanes] == [
        "GPU 0",
        "GPU 0 stream 7",
        "GPU 0 stream 20",
        "thread 4 ranges",
        "thread 4 ops",
        "thread 4 ops 2",
        "thread 4 API calls",
    ]
    assert [lane_label(lane, above) for above, lane in zip([None, *all_lanes], all_lanes, strict=False)] == [
        "GPU 0",
        "  stream 7",
        "  stream 20",
        "thread 4 ranges",
        "  ops",
        "  ops 2",
        "  API calls",
    ]
    assert [len(lane.starts) for lane in all_lanes] == [5, 4, 1, 1, 1, 1, 3]


def test_a_slice_has_its_main_kind_and_its_busy_share() -> None:
    stream = lane_of(recorded_profile(), LaneKind.STREAM, 7)
    slices = bins(stream, np.array([0, 100, 200, 300, 900, 1000]))
    assert slices.busy_ns.tolist() == [0, 90, 60, 0, 50]
    assert slices.item_kinds.tolist() == [NO_ITEM, ItemKind.TENSOR, ItemKind.TENSOR, NO_ITEM, ItemKind.KERNEL]
    assert slices.started.tolist() == [0, 2, 1, 0, 1]


def test_a_kernel_precedes_an_overlapping_copy_where_streams_share_a_lane() -> None:
    gpu = lane_of(recorded_profile(), LaneKind.GPU)
    slices = bins(gpu, np.array([200, 250, 260, 400]))
    assert slices.item_kinds.tolist() == [ItemKind.TENSOR, ItemKind.KERNEL, ItemKind.FROM_GPU]
    assert slices.busy_ns.tolist() == [50, 10, 140]


def test_items_without_duration_are_visible() -> None:
    profile = make_profile(activities=[copy("HtoD", 0, start_ns=50, device=0, stream=1)])
    (lane,) = lanes(profile)
    assert lane_cells(lane, np.array([0, 40, 80])).texts == [" ", "›"]


@pytest.mark.parametrize("to_shown", [str, to_ascii], ids=["usual", "ascii"])
def test_no_two_styles_of_a_lane_share_a_glyph(to_shown: Callable[[str], str]) -> None:
    for lane_kinds in (list(ItemKind)[: ItemKind.LAUNCH], list(ItemKind)[ItemKind.LAUNCH : ItemKind.OP]):
        glyphs = [set(to_shown(GLYPHS[kind])) for kind in lane_kinds]
        assert sum(map(len, glyphs)) == len(set().union(*glyphs))


def test_a_partly_busy_cell_is_lighter_and_a_wide_one_shows_its_name() -> None:
    profile = recorded_profile()
    stream = lane_of(profile, LaneKind.STREAM, 7)
    edges = np.arange(140, 280, 10)
    cells = lane_cells(stream, edges, lambda item: item_name(profile, stream, item))
    assert "".join(cells.texts) == " ▐sm90…blas▓ "
    assert np.flatnonzero(cells.solid).tolist() == list(range(2, 11))
    partly_busy = lane_cells(stream, np.array([0, 1000, 2000]))
    assert partly_busy.texts == ["▂", " "]


@st.composite
def gpu_work(draw: st.DrawFn) -> tuple[Profile, int]:
    resolution_ns = draw(st.sampled_from([1, 1, 7]))
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 400), st.integers(0, 90), st.integers(0, 2), st.sampled_from("kcd")), max_size=40
        )
    )
    activities = [
        kernel(f"k{start % 3}", length, start_ns=start * resolution_ns, device=0, stream=stream)
        if kind == "k"
        else copy("HtoD" if kind == "c" else "DtoH", length, start_ns=start * resolution_ns, device=0, stream=stream)
        for start, length, stream, kind in sorted(rows)
    ]
    sessions = [{"session": 0, "start_resolution_ns": resolution_ns}]
    return make_profile(sessions=sessions, **({"activities": activities} if activities else {})), draw(
        st.integers(1, 60)
    )


@given(gpu_work())
def test_the_slices_of_a_gpu_add_up_to_its_busy_time(given: tuple[Profile, int]) -> None:
    profile, count = given
    all_lanes = lanes(profile)
    if not all_lanes:
        assert timelines(profile) == ()
        return
    gpu = all_lanes[0]
    window = full_window(int(gpu.starts[0]), int(gpu.latest_ends[-1]), count, min_cell_ns=1)
    edges = np.append(window.edges(), gpu.latest_ends[-1] + 1000)
    row = busy_time(profile).row(0, named=True)
    lane_row = timeline_lanes(profile).row(0, named=True)
    slices = bins(gpu, edges)
    assert min(int(slices.busy_ns.sum()), row["span_ns"]) == row["busy_ns"] == lane_row["busy_ns"]
    assert slices.started.sum() == row["activities"] == lane_row["count"]
    if gpu.resolution_ns == 1:
        # Busy times of slices are those of the union of intervals.
        union = interval_union(gpu.starts, gpu.ends)
        assert slices.busy_ns.tolist() == union.covered_within(edges[:-1], edges[1:]).tolist()
        assert gpu.segments.time_before(edges).sum(axis=1).tolist() == union.covered_before(edges).tolist()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=BLOCK, max_size=5 * BLOCK))
def test_sums_of_blocks_agree_with_single_segments(gaps_and_lengths: list[tuple[int, int]]) -> None:
    ends = np.cumsum([gap + length for gap, length in gaps_and_lengths])
    starts = ends - np.array([length for _, length in gaps_and_lengths])
    item_kinds = np.array([length % 3 for _, length in gaps_and_lengths], np.int8)
    segments = flatten(starts, ends, item_kinds, resolution_ns=1)
    for time_ns in range(0, int(ends[-1]) + 2, 7):
        elapsed = np.clip(np.minimum(ends, time_ns) - starts, 0, None)
        expected = [int(elapsed[item_kinds == kind].sum()) for kind in segments.kinds]
        assert segments.time_before(np.array([time_ns]))[0].tolist() == expected


def test_the_item_under_the_cursor() -> None:
    profile = recorded_profile()
    stream = lane_of(profile, LaneKind.STREAM, 7)
    assert main_item(stream, 100, 200) == 1
    assert main_item(stream, 100, 145) == 0
    assert main_item(stream, 300, 900) is None
    assert names_in_slice(profile, stream, 100, 300).rows() == [
        (GEMM, 1, 100),
        ("[CUDA memcpy HtoD]", 1, 40),
        ("relu", 1, 10),
    ]
    nested = make_profile(activities=[kernel("around", 100, start_ns=0), kernel("inside", 10, start_ns=10)])
    (lane,) = lanes(nested)
    assert names_in_slice(nested, lane, 20, 30).rows() == [("around", 1, 10)]
    assert lane_activity(stream, 100, 260).busy_ns == 150
    assert lane_activity(stream, 100, 260).started == 3


def test_next_previous_and_longest_gaps() -> None:
    stream = lane_of(recorded_profile(), LaneKind.STREAM, 7)
    assert longest_lane_gaps(stream, 5) == [TimeInterval(260, 900), TimeInterval(140, 150)]
    assert longest_lane_gaps(stream, 1) == [TimeInterval(260, 900)]
    assert next_gap(stream, 0, 1, min_length_ns=1) == TimeInterval(140, 150)
    assert next_gap(stream, 0, 1, min_length_ns=11) == TimeInterval(260, 900)
    assert next_gap(stream, 140, 1, min_length_ns=1) == TimeInterval(260, 900)
    assert next_gap(stream, 260, 1, min_length_ns=1) is None
    assert next_gap(stream, 260, -1, min_length_ns=1) == TimeInterval(140, 150)
    assert next_gap(stream, 140, -1, min_length_ns=1) is None
    assert gap_at(stream, 600) == TimeInterval(260, 900)
    assert gap_at(stream, 200) is None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=60), st.integers(1, 10))
def test_stepping_from_gap_to_gap_visits_all_gaps(gaps_and_lengths: list[tuple[int, int]], min_ns: int) -> None:
    ends = np.cumsum([gap + length for gap, length in gaps_and_lengths]).tolist()
    rows = [
        kernel("k", gap_and_length[1], start_ns=end - gap_and_length[1], device=0, stream=1)
        for end, gap_and_length in zip(ends, gaps_and_lengths, strict=True)
    ]
    (lane,) = lanes(make_profile(activities=rows))
    starts, stops = lane.gaps()
    expected = [
        TimeInterval(start_ns, end_ns)
        for start_ns, end_ns in zip(starts.tolist(), stops.tolist(), strict=True)
        if end_ns - start_ns >= min_ns
    ]
    forward, position = [], -1
    while (gap := next_gap(lane, position, 1, min_length_ns=min_ns)) is not None:
        forward.append(gap)
        position = gap.start_ns
    backward, position = [], ends[-1] + 1
    while (gap := next_gap(lane, position, -1, min_length_ns=min_ns)) is not None:
        backward.append(gap)
        position = gap.start_ns
    assert forward == expected
    assert backward[::-1] == expected


def test_few_long_gaps_among_many_short_ones_are_found() -> None:
    random = np.random.default_rng(3)
    gaps = np.where(random.random(3 * GAP_BLOCK) < 0.002, 1000, random.integers(0, 9, 3 * GAP_BLOCK)).tolist()
    rows, end_ns = [], 0
    for gap in gaps:
        rows.append(kernel("k", 5, start_ns=end_ns + gap, device=0, stream=1))
        end_ns += gap + 5
    (lane,) = lanes(make_profile(activities=rows))
    starts, ends = lane.gaps()
    expected = [
        TimeInterval(gap_start, gap_end)
        for gap_start, gap_end in zip(starts.tolist(), ends.tolist(), strict=True)
        if gap_end - gap_start >= 500
    ]
    forward: list[TimeInterval] = []
    while (gap_found := next_gap(lane, forward[-1].start_ns if forward else -1, 1, min_length_ns=500)) is not None:
        forward.append(gap_found)
    backward: list[TimeInterval] = []
    while (
        gap_found := next_gap(lane, backward[-1].start_ns if backward else end_ns, -1, min_length_ns=500)
    ) is not None:
        backward.append(gap_found)
    assert len(expected) > 3
    assert forward == backward[::-1] == expected


def test_gaps_shorter_than_the_start_time_resolution_are_not_reported() -> None:
    profile = make_profile(
        sessions=[{"session": 0, "start_resolution_ns": 100}],
        activities=[kernel("k", 10, start_ns=start, device=0, stream=1) for start in (0, 100, 300)],
    )
    (lane,) = lanes(profile)
    assert lane.gaps()[0].tolist() == [110]
    assert gap_at(lane, 50) is None
    assert shown_lanes(profile).resolution_ns == 100


def test_a_launch_leads_to_its_call_and_back() -> None:
    profile = recorded_profile()
    all_lanes = lanes(profile)
    gpu = lane_of(profile, LaneKind.GPU)
    frame, rows = linked_rows(profile, gpu, 1)
    assert (frame, rows) == ("api_calls", [1])
    ((lane, item),) = row_items(profile, all_lanes, frame, rows)
    assert item_name(profile, all_lanes[lane], item) == "cudaLaunchKernel"
    frame, rows = linked_rows(profile, all_lanes[lane], item)
    assert [(lane_title(all_lanes[lane]), item) for lane, item in row_items(profile, all_lanes, frame, rows)] == [
        ("GPU 0 stream 7", 1),
        ("GPU 0", 1),
    ]


def test_names_are_found_in_all_lanes_sorted_by_time() -> None:
    profile = recorded_profile()
    visible = shown_lanes(profile)
    matches = find_name(profile, visible, "memcpy")
    assert matches.starts.tolist() == [10, 100, 200]
    assert [lane_title(visible.lanes[lane]) for lane in matches.lanes] == [
        "thread 4 API calls",
        "GPU 0 stream 7",
        "GPU 0 stream 20",
    ]
    assert matches.step(0, None, 1) == 0
    assert matches.step(100, (1, 0), 1) == 2
    assert matches.step(300, None, 1) == 0
    assert matches.step(5, None, -1) == 2
    assert find_name(profile, visible, "Memcpy").starts.tolist() == [10]
    assert find_name(profile, visible, "relu", is_exact=True).starts.tolist() == [250, 900]
    assert find_name(profile, visible, "rel", is_exact=True).step(0, None, 1) is None
    assert matches.by_lane[1].in_cells(np.array([0, 100, 140, 200])).tolist() == [False, True, False]


def test_work_ops_and_waiting_calls_of_the_critical_path_are_found() -> None:
    profile = serial_profile()
    visible = shown_lanes(profile)
    hits = find_critical_path(profile, visible)
    names = [item_name(profile, visible.lanes[lane], item) for lane, item in zip(hits.lanes, hits.items, strict=True)]
    assert names == ["first", "a", "cudaDeviceSynchronize", "b", "second", "inner", "c"]


@pytest.mark.parametrize(
    ("origins", "starts", "are_together"),
    [((0, 50), (10, 0), True), ((0, None), (10, 0), False), ((0, 10_000), (10, 0), False)],
)
def test_sessions_are_shown_together_only_if_their_clocks_compare(
    origins: tuple[int | None, ...], starts: tuple[int, ...], *, are_together: bool
) -> None:
    profile = make_profile(
        sessions=[{"session": number, "origin_ns": origin} for number, origin in enumerate(origins)],
        activities=[
            {**kernel("k", 100, start_ns=start, device=0, stream=1), "session": number}
            for number, start in enumerate(starts)
        ],
    )
    visible = shown_lanes(profile)
    assert visible.sessions == (0, 1)
    assert visible.note != ""
    if are_together:
        assert visible.shifts == {0: 0, 1: 50}
        assert (visible.begin_ns, visible.end_ns) == (10, 150)
    else:
        assert [lane.session for lane in visible.lanes] == [0]
        assert [lane.session for lane in shown_lanes(profile, 1).lanes] == [1]


def test_the_deepest_lanes_are_dropped_first() -> None:
    all_lanes = lanes(recorded_profile())
    assert fitting_lanes(all_lanes, 7) == list(range(7))
    assert [lane_title(all_lanes[lane]) for lane in fitting_lanes(all_lanes, 6)][-2:] == [
        "thread 4 ops",
        "thread 4 API calls",
    ]
    assert len(fitting_lanes(all_lanes, 1)) == 6


@given(st.integers(0, 10**12), st.integers(1, 10**10), st.integers(1, 300), st.data())
def test_zooming_keeps_a_time_in_its_cell_and_stays_in_bounds(
    start_ns: int, length_ns: int, cells: int, data: st.DataObject
) -> None:
    window = full_window(start_ns, start_ns + length_ns, cells, min_cell_ns=1)
    assert window.first_ns == start_ns
    assert window.last_ns >= start_ns + length_ns
    for _ in range(5):
        time_ns = data.draw(st.integers(max(window.first_ns, start_ns), min(window.last_ns, start_ns + length_ns) - 1))
        zoomed = window.zoomed_in(time_ns)
        assert zoomed.cell_ns <= window.cell_ns
        assert 0 <= zoomed.cell_at(time_ns) < cells
        if start_ns < zoomed.first_ns and zoomed.last_ns < start_ns + length_ns:
            assert zoomed.cell_at(time_ns) == window.cell_at(time_ns)
        window = zoomed
    for _ in range(40):
        window = window.zoomed_out(window.first_ns)
    assert window == window.fit()


@given(st.integers(0, 10**13), st.integers(1, 10**9), st.integers(20, 300))
def test_labels_of_the_ruler_are_at_their_times(start_ns: int, cell_ns: int, cells: int) -> None:
    window = full_window(start_ns, start_ns + cell_ns * cells, cells, min_cell_ns=1)
    labels = ruler(window)
    units = {"s": 10**9, "ms": 10**6, "µs": 10**3, "ns": 1}
    for column, text in labels.ticks:
        number, unit = text.lstrip("+").replace(",", "").split(" ")
        time_ns = labels.base_ns + round(float(number) * units[unit])
        assert window.cell_at(time_ns) == column
    columns = [column for column, _ in labels.ticks]
    max_width = max((len(text) for _, text in labels.ticks), default=0)
    assert all(right - left >= min(14, max(10, max_width + 3)) for left, right in pairwise(columns))


def test_lanes_of_a_log_contain_its_launches_and_calls() -> None:
    profile = load_one("sample_logs/resnet50_training.nvprof.log")
    rows = timeline_lanes(profile)
    assert rows.select("lane", "count", "busy_ns").rows() == [
        ("GPU 0 stream 7", 4630, 80_121_385),
        ("API calls", 4106, 26_025_911),
    ]
    assert rows["busy_ns"][0] == busy_time(profile)["busy_ns"][0]
    assert rows["count"].sum() == profile["activities"].height + profile["api_calls"].height


def test_a_profile_without_start_times_has_no_lanes() -> None:
    profile = make_profile(activities=[kernel("k", 10, device=0)])
    assert lanes(profile) == ()
    assert timeline_lanes(profile).is_empty()
    assert shown_lanes(profile).lanes == ()
    assert timeline_lanes(profile).schema["busy_pct"] == pl.Float64


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9), st.sampled_from(sorted(ItemKind))), min_size=1),
    st.integers(1, 5),
)
def test_splitting_at_pauses_changes_nothing(items: list[tuple[int, int, int]], max_segments: int) -> None:
    starts, lengths, item_kinds = (np.array(values) for values in zip(*sorted(items), strict=True))
    results = []
    for count in (len(items) + 1, max_segments):
        with patch.object(lanes_module, "SEGMENTS_AT_ONCE", count):
            segments = flatten(
                starts, starts + lengths, item_kinds.astype(np.int8), resolution_ns=1, precedence=COVERING_KINDS
            )
        results.append((segments.starts.tolist(), segments.ends.tolist(), segments.item_kinds.tolist()))
    assert results[0] == results[1]


def test_kinds_are_stacked_in_a_lane_of_several_lines() -> None:
    """In a cell of 100 ns and two lines, 30 ns of a tensor-core kernel are below 40 ns of another."""
    profile = make_profile(
        activities=[
            kernel("gemm", 30, start_ns=0, device=0, stream=7, uses_tensor_core=True),
            kernel("relu", 40, start_ns=50, device=0, stream=7),
            kernel("gemm", 100, start_ns=100, device=0, stream=7, uses_tensor_core=True),
        ]
    )
    (lane,) = lanes(profile)
    cells = lane_cells(lane, np.array([0, 100, 200, 300]), glyph_set=GlyphSet.FILLS)
    assert cells.texts == ["▆", "█", " "]
    upper, lower = cells.tall(2)
    assert (upper[0], lower[0]) == (["▃", "▇", " "], ["█", "█", " "])
    assert upper[1].tolist() == [ItemKind.KERNEL, ItemKind.TENSOR, NO_ITEM]
    assert lower[1].tolist() == [ItemKind.TENSOR, ItemKind.TENSOR, NO_ITEM]


def test_a_name_is_in_the_middle_line_of_a_tall_bar() -> None:
    stream = lane_of(recorded_profile(), LaneKind.STREAM, 7)
    edges = np.arange(0, 1000, 10)
    cells = lane_cells(stream, edges, lambda item: "gemm", glyph_set=GlyphSet.FILLS)
    lines = ["".join(texts) for texts, _ in cells.tall(3)]
    assert ["gemm" in line for line in lines] == [False, True, False]
    assert lines[0].count("▐") == lines[1].count("▐") > 0


def test_tracks_are_means_over_cells() -> None:
    profile = make_profile(
        activities=[
            kernel("gemm", 50, start_ns=0, device=0, stream=7),
            copy("HtoD", 100, start_ns=100, device=0, stream=8, size_bytes=400),
        ],
        memory_events=[
            {"place": "GPU", "device": 0, "start_ns": 50, "allocated_bytes": 1000, "delta_bytes": 1000},
            {"place": "GPU", "device": 0, "start_ns": 150, "allocated_bytes": 4000, "delta_bytes": 3000},
            {"place": "CPU", "start_ns": 0, "allocated_bytes": 9000, "delta_bytes": 9000},
        ],
    )
    all_tracks = tracks(profile, shown_lanes(profile))
    assert [track.name for track in all_tracks] == [
        "GPU utilization",
        "copy peak 3.73 GiB/s",
        "allocated, peak 3.91 KiB",
    ]
    edges = np.array([0, 100, 200, 400])
    assert [track.shares(edges).tolist() for track in all_tracks] == [
        [0.5, 1.0, 0.0],
        [0.0, 1.0, 0.0],
        [0.125, 0.625, 1.0],
    ]


def test_copies_one_right_after_the_other_do_not_add_up_to_the_peak() -> None:
    copies = [copy("HtoD", 100, start_ns=start, device=0, stream=7, size_bytes=400) for start in (0, 100, 200)]
    profile = make_profile(activities=copies)
    _, track = tracks(profile, shown_lanes(profile))
    assert track.name == "copy peak 3.73 GiB/s"
    assert track.shares(np.array([0, 100, 150, 300, 400])).tolist() == [1.0, 1.0, 1.0, 0.0]


def test_concurrent_streams_count_once_in_the_top_work() -> None:
    profile = recorded_profile()
    streams = [lane for lane in lanes(profile) if lane.kind is LaneKind.STREAM]
    rows = longest_gpu_work(profile, shown_lanes(profile), 0, 10_000)
    assert rows["count"].sum() == sum(len(lane.starts) for lane in streams) == 5
    assert rows["time_ns"].sum() == sum(int((lane.ends - lane.starts).sum()) for lane in streams)


def test_spare_lines_go_to_gpu_lanes_first_and_equally_to_lanes_of_a_kind() -> None:
    all_lanes = lanes(recorded_profile())
    assert lane_heights(all_lanes, 0) == [1] * 7
    assert lane_heights(all_lanes, 10) == [4, 4, 4, 1, 1, 1, 1]
    assert lane_heights(all_lanes, 13) == [4, 4, 4, 2, 2, 2, 2]
    assert lane_heights(all_lanes, 99) == [24, 24, 24, 5, 5, 5, 5]


@pytest.mark.parametrize(("second_start", "intervals"), [(10, [(0, 20), (20, 30)]), (11, [(0, 20), (11, 30)])])
def test_an_overlap_as_long_as_the_resolution_counts(second_start: int, intervals: list[tuple[int, int]]) -> None:
    segments = flatten(
        np.array([0, second_start]), np.array([20, 30]), np.array([ItemKind.KERNEL] * 2, np.int8), resolution_ns=10
    )
    assert list(zip(segments.starts.tolist(), segments.ends.tolist(), strict=True)) == intervals
