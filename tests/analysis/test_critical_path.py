"""Critical paths of iterations across threads, streams and ranks: segments and kinds."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import tui.analysis.critical_path
from tests.analysis.frames import copy, kernel
from tests.analysis.path_profiles import (
    US,
    assert_recorded_times_are_reproduced,
    launch,
    op,
    profile_with_iterations,
    serial_profile,
    step,
    work,
)
from tests.corpus import corpus_file, recording_file, shared_file
from tests.profiles import load
from tui.analysis.critical_path import (
    CRITICAL_PATHS,
    IterationPeriod,
    base_profile,
    critical_paths,
    critical_paths_spec,
    left_out_note,
    median_iteration,
    missing_launches_note,
    no_path_reason,
    path_segments,
    path_segments_frame,
    walk_back,
)
from tui.analysis.critical_path_slack import critical_path
from tui.analysis.critical_path_trace import KIND_COLUMNS, Start, traces
from tui.analysis.iterations.chosen_iterations import select_iterations
from tui.analysis.iterations.iteration_table import with_iterations
from tui.model.aggregation import Aggregation

if TYPE_CHECKING:
    from tui.model.profile import Profile


def path_rows(profile: Profile) -> list[tuple[str, str | None, float, float]]:
    """Return kind, name, start and duration of the segments, in microseconds."""
    rows = path_segments(profile).select("path_kind", "name", "start_ns", "duration_ns").rows()
    return [(kind, name, start / US, length / US) for kind, name, start, length in rows]


def test_a_path_covers_its_iteration() -> None:
    profile = serial_profile()
    assert path_rows(profile) == [
        ("CPU op", "first", 0, 10),
        ("launch delay", "a", 10, 5),
        ("kernel", "a", 15, 20),
        ("kernel gap", "b", 35, 2),
        ("kernel", "b", 37, 21),
        ("synchronization", "cudaDeviceSynchronize", 58, 3),
        ("CPU outside ops", None, 61, 1),
        ("CPU op", "second", 62, 2),
        ("CPU op", "inner", 64, 6),
        ("launch delay", "c", 70, 6),
        ("kernel", "c", 76, 24),
    ]
    (row,) = critical_paths(profile).iter_rows(named=True)
    assert row["duration_ns"] == 100 * US == sum(row[name] for name in KIND_COLUMNS.values())
    assert row["path_kernel_ns"] == 65 * US
    assert row["path_cpu_op_ns"] == 18 * US
    assert row["path_gpu_pct"] == 65
    assert row["path_other_rank_ns"] == 0
    assert median_iteration(profile) == (0, 0)
    assert_recorded_times_are_reproduced(profile)


def test_without_records_of_the_cpu_time_after_the_last_work_is_not_called_cpu_time() -> None:
    profile = profile_with_iterations(ranges=[step(0, 40)], activities=[work("a", 0, 30, 1)])
    (row,) = critical_paths(profile).iter_rows(named=True)
    assert (row["path_kernel_ns"], row["path_cpu_outside_ops_ns"], row["path_not_recorded_ns"]) == (30 * US, 0, 10 * US)


def test_a_queued_kernel_waits_for_its_launch_if_that_is_later() -> None:
    # The delay of the launch at 18 is 5 us, like that of the first; the previous kernel ended before, at 20.
    profile = profile_with_iterations(
        ranges=[step(0, 40)],
        ops=[op("first", 0, 30)],
        api_calls=[launch(1, 10), launch(2, 18)],
        activities=[work("a", 15, 5, 1), work("b", 25, 15, 2)],
    )
    assert path_rows(profile)[-2:] == [("launch delay", "b", 18, 7), ("kernel", "b", 25, 15)]


def test_a_path_crosses_threads() -> None:
    profile = profile_with_iterations(
        ranges=[step(0, 60)],
        ops=[op("forward", 0, 10), op("backward", 14, 20, tid=2), op("optimizer", 36, 10)],
        api_calls=[launch(1, 5), launch(2, 20, tid=2), launch(3, 40)],
        activities=[work("f", 8, 2, 1), work("b", 23, 5, 2), work("o", 44, 16, 3)],
    )
    assert path_rows(profile) == [
        ("CPU op", "forward", 0, 5),
        ("API call", "cudaLaunchKernel", 5, 2),
        ("CPU op", "forward", 7, 3),
        ("CPU outside ops", None, 10, 4),
        ("CPU op", "backward", 14, 6),
        ("API call", "cudaLaunchKernel", 20, 2),
        ("CPU op", "backward", 22, 12),
        ("CPU outside ops", None, 34, 2),
        ("CPU op", "optimizer", 36, 4),
        ("launch delay", "o", 40, 4),
        ("kernel", "o", 44, 16),
    ]
    inferred = path_segments(profile).filter(path_segments(profile)["is_inferred"])
    assert inferred["start_ns"].to_list() == [10 * US, 34 * US]
    assert_recorded_times_are_reproduced(profile)


def test_a_path_crosses_threads_that_only_launch() -> None:
    """Thread 2 launches b in the pause of thread 1, which then launches c."""
    profile = profile_with_iterations(
        ranges=[step(0, 40)],
        api_calls=[launch(1, 0, 2), launch(2, 5, 2, tid=2), launch(3, 20, 2), launch(4, 24, 2, tid=2)],
        activities=[work("a", 2, 1, 1), work("b", 7, 1, 2), work("c", 22, 18, 3)],
    )
    rows = path_rows(profile)
    assert rows == [
        ("API call", "cudaLaunchKernel", 0, 2),
        ("CPU outside ops", None, 2, 3),
        ("API call", "cudaLaunchKernel", 5, 2),
        ("CPU outside ops", None, 7, 13),
        ("launch delay", "c", 20, 2),
        ("kernel", "c", 22, 18),
    ]
    totals = {row["path_kind"]: row["work_ns"] for row in critical_path(profile).iter_rows(named=True)}
    # Two of them before the second launch of thread 2, which is off the path.
    assert totals["CPU outside ops"] == 18 * US
    assert_recorded_times_are_reproduced(profile)


def test_an_op_within_a_call_is_time_of_the_op_in_every_table() -> None:
    profile = profile_with_iterations(
        ranges=[step(0, 40)],
        ops=[op("hook", 4, 6)],
        api_calls=[launch(1, 2, 12), launch(2, 20)],
        activities=[work("a", 30, 10, 2)],
    )
    assert path_rows(profile)[:5] == [
        ("not recorded", None, 0, 2),
        ("API call", "cudaLaunchKernel", 2, 2),
        ("CPU op", "hook", 4, 6),
        ("API call", "cudaLaunchKernel", 10, 4),
        ("CPU outside ops", None, 14, 6),
    ]
    (row,) = critical_paths(profile).iter_rows(named=True)
    kinds = (row["path_cpu_op_ns"], row["path_api_call_ns"], row["path_cpu_outside_ops_ns"])
    assert kinds == (6 * US, 6 * US, 6 * US)


def test_waits_of_streams_are_inferred_after_cudastreamwaitevent() -> None:
    calls = [launch(1, 5), launch(8, 8, 1, name="cudaStreamWaitEvent"), launch(2, 10)]
    activities = [work("a", 8, 30, 1), work("b", 40, 20, 2, stream=8)]
    profile = profile_with_iterations(
        ranges=[step(0, 60)], ops=[op("all", 0, 20)], api_calls=calls, activities=activities
    )
    assert path_rows(profile)[-3:] == [("kernel", "a", 8, 30), ("synchronization", "b", 38, 2), ("kernel", "b", 40, 20)]
    assert path_segments(profile)["is_inferred"].to_list()[-2]
    without_wait = profile_with_iterations(
        ranges=[step(0, 60)], ops=[op("all", 0, 20)], api_calls=[calls[0], calls[2]], activities=activities
    )
    assert path_rows(without_wait)[-2:] == [("launch delay", "b", 10, 30), ("kernel", "b", 40, 20)]
    assert_recorded_times_are_reproduced(profile)


@pytest.mark.parametrize("name", ["cudaGraphLaunch", "hipGraphLaunch"])
def test_a_graph_launch_leads_to_its_nodes(name: str) -> None:
    profile = profile_with_iterations(
        ranges=[step(0, 60)],
        ops=[op("replay", 0, 20)],
        api_calls=[launch(1, 5, name=name)],
        activities=[
            work("a", 12, 10, 1),
            work("fork", 24, 20, 1, stream=8),
            work("b", 23, 5, 1),
            work("join", 46, 14, 1),
        ],
    )
    assert path_rows(profile) == [
        ("CPU op", "replay", 0, 5),
        ("launch delay", "a", 5, 7),
        ("kernel", "a", 12, 10),
        ("kernel gap", "b", 22, 1),
        ("kernel", "b", 23, 5),
        ("kernel gap", "join", 28, 18),
        ("kernel", "join", 46, 14),
    ]
    assert_recorded_times_are_reproduced(profile)


def test_a_call_waits_for_its_copy() -> None:
    profile = profile_with_iterations(
        ranges=[step(0, 50)],
        ops=[op("item", 0, 40)],
        api_calls=[launch(1, 5, 25, name="cudaMemcpyAsync")],
        activities=[copy("DtoH", 10 * US, start_ns=15 * US, correlation=1, stream=7, device=0, iteration=0)],
    )
    assert path_rows(profile) == [
        ("CPU op", "item", 0, 5),
        ("launch delay", "[CUDA memcpy DtoH]", 5, 10),
        ("copy", "[CUDA memcpy DtoH]", 15, 10),
        ("synchronization", "cudaMemcpyAsync", 25, 5),
        ("CPU op", "item", 30, 10),
        ("CPU outside ops", None, 40, 10),
    ]
    assert_recorded_times_are_reproduced(profile)


def test_without_launches_the_path_stays_on_the_gpu() -> None:
    profile = profile_with_iterations(
        activities=[work("a", 0, 10, 1, iteration=None), work("b", 12, 10, 2, iteration=None)]
    )
    assert path_rows(profile) == [("kernel", "a", 0, 10), ("kernel gap", "b", 10, 2), ("kernel", "b", 12, 10)]
    assert missing_launches_note(profile).startswith("launches are not recorded, and the path stays on the GPU")
    unlinked = profile_with_iterations(api_calls=[launch(9, 0)], activities=[work("a", 0, 10, 1, iteration=None)])
    assert missing_launches_note(unlinked) == "no API call is linked to GPU work, and the path stays on the GPU"
    assert missing_launches_note(serial_profile()) == ""
    untimed = profile_with_iterations(activities=[kernel("a", 5)])
    assert critical_path(untimed).is_empty()
    assert path_segments(untimed).is_empty()
    assert no_path_reason(untimed).startswith("no start times of GPU work")


def test_recorded_waits_of_streams_replace_inferred_ones() -> None:
    """The event is recorded after a: b waits for a, not for later work of that stream."""
    wait = {"wait_device": 0, "waiting_stream": 8, "awaited_stream": 7, "awaited_call": 90}
    calls = [
        launch(1, 5),
        launch(90, 8, 1, name="cudaEventRecord"),
        launch(3, 10),
        launch(91, 13, 1, name="cudaStreamWaitEvent") | wait,
        launch(2, 15),
    ]
    activities = [work("a", 8, 30, 1), work("later", 38, 1, 3), work("b", 40, 20, 2, stream=8)]
    profile = profile_with_iterations(
        ranges=[step(0, 60)], ops=[op("all", 0, 20)], api_calls=calls, activities=activities
    )
    assert path_rows(profile)[-3:] == [("kernel", "a", 8, 30), ("synchronization", "b", 38, 2), ("kernel", "b", 40, 20)]
    assert not path_segments(profile)["is_inferred"].any()
    # b waits for the end of a, not of later, which has slack.
    rows = {row["name"]: row for row in critical_path(profile).iter_rows(named=True) if row["path_kind"] == "kernel"}
    assert (rows["later"]["path_ns"], rows["a"]["half_saves_ns"]) == (0, 15 * US)
    assert_recorded_times_are_reproduced(profile)


def test_a_wait_for_an_event_ends_with_the_work_before_the_event() -> None:
    wait = {"wait_device": 0, "awaited_stream": 7, "awaited_call": 90}
    calls = [
        launch(1, 5),
        launch(90, 8, 1, name="cudaEventRecord"),
        launch(2, 9, 1),
        launch(91, 10, 15, name="cudaEventSynchronize") | wait,
    ]
    activities = [work("a", 10, 10, 1), work("b", 20, 4, 2, stream=8)]
    profile = profile_with_iterations(
        ranges=[step(0, 40)], ops=[op("all", 0, 40)], api_calls=calls, activities=activities
    )
    assert path_rows(profile)[-3:] == [
        ("kernel", "a", 10, 10),
        ("synchronization", "cudaEventSynchronize", 20, 5),
        ("CPU op", "all", 25, 15),
    ]
    assert_recorded_times_are_reproduced(profile)


@pytest.mark.parametrize(("error", "kernel_us"), [(5, 15), (50, 15), (51, 0)])
def test_awaited_work_may_end_a_little_after_the_call_that_waits(error: int, kernel_us: int) -> None:
    """The clocks of CPU and GPU differ; a kernel that ends much later is not what the call waited for."""
    wait = {"wait_device": 0, "awaited_stream": 7}
    calls = [launch(1, 5), launch(90, 10, 15, name="cudaStreamSynchronize") | wait, launch(2, 80)]
    activities = [work("a", 10, 15 + error, 1), work("b", 85, 15, 2)]
    profile = profile_with_iterations(
        ranges=[step(0, 100)], ops=[op("all", 0, 90)], api_calls=calls, activities=activities
    )
    kernels = [(name, duration) for kind, name, _, duration in path_rows(profile) if kind == "kernel"]
    assert kernels == [("a", kernel_us), ("b", 15)][not kernel_us :]
    assert_recorded_times_are_reproduced(profile)


def test_awaited_work_may_start_a_little_after_the_call_that_waits() -> None:
    """The path continues with what that work waited for."""
    wait = {"wait_device": 0, "awaited_stream": 7}
    calls = [launch(1, 5), launch(2, 7), launch(90, 10, 15, name="cudaStreamSynchronize") | wait]
    activities = [work("a", 10, 14, 1), work("b", 26, 1, 2)]
    profile = profile_with_iterations(
        ranges=[step(0, 40)], ops=[op("all", 0, 40)], api_calls=calls, activities=activities
    )
    assert path_rows(profile)[-3:] == [("kernel", "a", 10, 14), ("kernel gap", "b", 24, 1), ("CPU op", "all", 25, 15)]
    assert_recorded_times_are_reproduced(profile)


def eight_iterations() -> Profile:
    """Return iterations of 10 µs with two kernels each; those of iteration 5 take the longest."""
    starts = [10 * number for number in range(8)]
    return profile_with_iterations(
        ranges=[{**step(start, 10), "iteration": start // 10} for start in starts],
        ops=[op("all", start, 8) for start in starts],
        api_calls=[launch(2 * start + index, start + index, 1) for start in starts for index in (1, 2)],
        activities=[
            work(
                "ab"[index - 1],
                start + 1 + 2 * index,
                1 + index * (start == 50),
                2 * start + index,
                iteration=start // 10,
            )
            for start in starts
            for index in (1, 2)
        ],
    )


def test_only_one_iteration_of_a_large_profile_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    complete = eight_iterations()
    expected = critical_paths(complete).row(5, named=True), critical_path(complete, 0, 5).rows()
    monkeypatch.setattr(tui.analysis.critical_path, "MAX_ACTIVITIES", 5)
    limited = eight_iterations()
    assert critical_paths(limited)["iteration"].to_list() == [3]
    assert left_out_note(limited) == (
        "iteration 3 has the median duration; for 7 other iterations, use --iterations or :iterations"
    )
    assert base_profile(limited)["activities"].height == 4
    assert no_path_reason(limited) == ""
    selected = select_iterations(limited, Aggregation(first=5, last=5))
    assert (critical_paths(selected).row(0, named=True), critical_path(selected).rows()) == expected
    assert left_out_note(selected) == ""
    assert critical_paths_spec(limited).title == f"Critical path by iteration ({left_out_note(limited)})"
    assert critical_paths_spec(selected).title == CRITICAL_PATHS.title


def test_an_iteration_above_the_limit_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.analysis.critical_path, "MAX_ACTIVITIES", 1)
    profile = profile_with_iterations(
        activities=[work("a", 0, 10, 1, iteration=None), work("b", 12, 10, 2, iteration=None)]
    )
    assert no_path_reason(profile).startswith("the run has 2 GPU activities, more than the limit of 1: ")
    assert no_path_reason(eight_iterations()).startswith("iteration 3 has 4 GPU activities, more than the limit of 1: ")
    assert critical_path(profile).is_empty()
    assert path_segments(profile).is_empty()


def test_the_path_of_a_waiting_rank_leads_to_the_slow_rank() -> None:
    profile, _ = load((recording_file("ddp_rank0.pt.trace.json.gz"), recording_file("ddp_rank1.pt.trace.json.gz")))
    assert profile is not None
    profile = with_iterations(profile)
    rows = {(row["session"], row["iteration"]): row for row in critical_paths(profile).iter_rows(named=True)}
    assert len(rows) == 8
    for row in rows.values():
        assert sum(row[name] for name in KIND_COLUMNS.values()) == row["duration_ns"]
    assert rows[0, 6]["path_other_rank_ns"] / rows[0, 6]["duration_ns"] == pytest.approx(0.93, abs=0.02)
    assert rows[1, 6]["path_other_rank_ns"] == 0
    slow = critical_path(profile, 0, 6).row(0, named=True)
    assert str(slow["name"]).startswith("sm80_xmma_gemm_f32f32")
    assert (slow["path_ns"], slow["half_saves_ns"]) == (15_969_942, 4_770_357)
    assert_recorded_times_are_reproduced(profile)


def two_ranks(clock_offset: int) -> Profile:
    """Return two ranks of equal work that wait for a reduction; the times of the second begin this much later."""
    frames: dict[str, list[dict[str, Any]]] = {name: [] for name in ("ranges", "ops", "api_calls", "activities")}
    for rank in (0, 1):
        offset = rank * clock_offset
        rows = {
            "ranges": [step(offset, 100)],
            "ops": [op("first", offset, 30), op("second", offset + 62, 18)],
            "api_calls": [
                launch(1, offset + 10),
                launch(2, offset + 14),
                launch(9, offset + 31, 30, name="cudaDeviceSynchronize"),
                launch(3, offset + 70),
            ],
            "activities": [
                work("a", offset + 15, 20, 1),
                work("ncclDevKernel_AllReduce_Sum_f32_RING_LL", offset + 37, 21, 2),
                work("c", offset + 76, 24, 3),
            ],
        }
        for name, of_rank in rows.items():
            frames[name] += [{**row, "session": rank} for row in of_rank]
    sessions = [
        {
            "session": rank,
            "rank": rank,
            "world_size": 2,
            "source": f"{rank}.json",
            "origin_ns": -rank * clock_offset * US,
        }
        for rank in (0, 1)
    ]
    return profile_with_iterations(sessions=sessions, **frames)


@pytest.mark.parametrize("clock_offset", [-70, 0, 70])
def test_paths_do_not_depend_on_the_origin_of_the_times_of_a_rank(clock_offset: int) -> None:
    rows = path_segments(two_ranks(clock_offset)).select("session", "path_kind", "name", "duration_ns").rows()
    kinds = (
        "CPU op,launch delay,kernel,kernel gap,communication,synchronization,CPU outside ops,CPU op,launch delay,kernel"
    )
    times = list(zip(kinds.split(","), [10, 5, 20, 2, 21, 3, 1, 8, 6, 24], strict=True))
    for rank in (0, 1):
        assert [(kind, time / US) for session, kind, _, time in rows if session == rank] == times


@pytest.mark.parametrize("name", ["resnet50_amp", "gpt_cudagraph", "tiny_kernels"])
def test_paths_of_recordings_cover_their_iterations(name: str) -> None:
    profile, _ = load((recording_file(f"{name}.pt.trace.json.gz"),))
    assert profile is not None
    profile = with_iterations(profile)
    assert profile.steps is not None
    step_durations = profile.steps.drop_nulls(["iteration", "duration_ns"])["duration_ns"].to_list()
    rows = critical_paths(profile)
    assert rows["duration_ns"].to_list() == step_durations
    assert rows.select(total=sum(rows[column] for column in KIND_COLUMNS.values()))["total"].to_list() == step_durations
    sums = path_segments(profile).group_by("iteration", maintain_order=True).agg(length=pl.col("duration_ns").sum())
    assert sums["length"].to_list() == step_durations
    assert_recorded_times_are_reproduced(profile)


def path_between(name: str, begin: int, end: int) -> list[tuple[int, str]]:
    """Return start (in microseconds since ``begin``) and kind of the segments of the path to the last work."""
    profile, _ = load((corpus_file(name),))
    assert profile is not None
    base = base_profile(profile)
    (trace,) = traces(base).values()
    last = trace.end.index(end * US)
    segments = walk_back({0: trace}, 0, begin * US, end * US, last, US)[::-1]
    rows = path_segments_frame(base, [(IterationPeriod(0, 0, begin * US, end * US, last), segments)])
    return [
        (segment_start // US - begin, kind) for segment_start, kind in rows.select("start_ns", "path_kind").iter_rows()
    ]


@pytest.mark.parametrize(
    ("name", "kernels", "delay_ns"),
    [("vllm_decode_full", 424, 57_720), ("vllm_prefilldecode_piecewise", 407, 701_276)],
)
def test_the_path_of_a_server_contains_kernels_of_hip_graphs(name: str, kernels: int, delay_ns: int) -> None:
    profile, _ = load((shared_file(f"corpus2/inference/{name}/graph_execution.json.gz"),))
    assert profile is not None
    profile = with_iterations(profile)
    kinds = Counter(path_segments(profile)["path_kind"].cast(pl.String).to_list())
    assert (kinds["kernel"], kinds["launch delay"]) == (kernels, 1)
    assert critical_paths(profile)["path_launch_delay_ns"].to_list() == [delay_ns]
    assert_recorded_times_are_reproduced(profile)
    # One of the kernels starts 112 ns before its predecessor ends.
    savings = critical_path(profile)["half_saves_ns"].drop_nulls()
    assert savings.min() == 0


HTA_ADD = (
    *(0, 10, 46, 51, 55, 20228, 20244, 20262, 20282, 20296, 20319, 20329, 20334, 20349, 20366, 20372, 20393, 20407),
    *(20416, 42730, 47850, 47876, 47914, 47951, 53772),
)
"""The nodes but the last of the path that HTA 0.5.0 finds in ``[param|torch.add|0|0|0|measure|forward]``."""


def test_every_node_of_hta_is_on_the_path() -> None:
    rows = path_between("kineto/benchmark_simple_add_trace.json.gz", 19_678_706, 19_732_481)
    assert tuple(start for start, _ in rows) == HTA_ADD
    assert [kind for _, kind in rows[-2:]] == ["launch delay", "kernel"]


def test_waits_of_streams_agree_with_hta() -> None:
    """HTA finds 149 nodes at 146 times in AlexNet; one edge connects two streams."""
    name = "kineto/benchmark_result_2869224_1695835535_trace.json.gz"
    rows = path_between(name, 43_346_703, 43_382_728)
    assert len(rows) == 145
    kinds = Counter(kind for _, kind in rows)
    assert kinds["kernel gap"] == 32
    assert kinds["kernel"] + kinds["copy"] == 34
    assert (kinds["launch delay"], kinds["synchronization"]) == (1, 1)
    assert [start for start, kind in rows if kind == "synchronization"] == [32_801]


@pytest.mark.parametrize(
    ("name", "limiting_waits", "recorded_waits"),
    [
        ("kineto/benchmark_result_2869224_1695835535_trace.json.gz", 1, 6),
        ("nsys/dlprof_nsys_profile.sqlite", 0, 10),
    ],
)
def test_recorded_waits_of_streams_are_not_inferred(name: str, limiting_waits: int, recorded_waits: int) -> None:
    profile, _ = load((corpus_file(name),))
    assert profile is not None
    (trace,) = traces(base_profile(profile)).values()
    assert sum(start == Start.WAIT for start in trace.decided_by) == limiting_waits
    assert len(trace.waits) == recorded_waits
    assert not any(trace.inferred)


def test_waits_of_two_ranks_in_an_nsight_database_are_recorded() -> None:
    """Twenty and seventeen kernels wait for work of another stream."""
    profile, _ = load((recording_file("ddp.nsys.sqlite.gz"),))
    assert profile is not None
    rank_traces = traces(base_profile(profile)).values()
    assert [sum(start == Start.WAIT for start in trace.decided_by) for trace in rank_traces] == [20, 17]
    assert not any(any(trace.inferred) for trace in rank_traces)
    assert_recorded_times_are_reproduced(profile)
