"""Critical path of iterations: its segments, slack, what faster work saves, across threads, streams and ranks."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

import tui.analysis.critical_path
from tests.analysis.frames import copy, kernel, make_profile
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
    paths_by_iteration,
    walk_back,
)
from tui.analysis.critical_path_slack import Graph, _half_savings, critical_path, earliest_times
from tui.analysis.critical_path_trace import KIND_COLUMNS, Start, traces
from tui.analysis.iterations.chosen_iterations import select_iterations
from tui.analysis.iterations.iteration_table import with_iterations
from tui.model.aggregation import Aggregation

if TYPE_CHECKING:
    from tui.model.profile import Profile

US = 1000


def launch(
    correlation: int, start: int, duration: int = 2, *, name: str = "cudaLaunchKernel", tid: int = 1
) -> dict[str, Any]:
    return {
        "name": name,
        "correlation": correlation,
        "start_ns": start * US,
        "duration_ns": duration * US,
        "pid": 1,
        "tid": tid,
    }


def work(name: str, start: int, duration: int, correlation: int, *, stream: int = 7, **fields: Any) -> dict[str, Any]:
    columns = {"start_ns": start * US, "correlation": correlation, "stream": stream, "device": 0, "iteration": 0}
    return kernel(name, duration * US, **{**columns, **fields})


def op(name: str, start: int, duration: int, *, tid: int = 1) -> dict[str, Any]:
    return {"name": name, "start_ns": start * US, "duration_ns": duration * US, "pid": 1, "tid": tid}


def step(start: int, duration: int, **fields: Any) -> dict[str, Any]:
    times = {"start_ns": start * US, "duration_ns": duration * US, "pid": 1, "tid": 1, "iteration": 0}
    return {"name": "ProfilerStep#0", **times, **fields}


def profile_with_iterations(**frames: Any) -> Profile:
    """Return a profile with numbered ops and its iterations."""
    frames["ops"] = [{**row, "op": number} for number, row in enumerate(frames.get("ops", []))]
    return with_iterations(make_profile(**frames))


def path_rows(found: Profile) -> list[tuple[str, str | None, float, float]]:
    """Return kind, name, start and duration of the segments, in microseconds."""
    rows = path_segments(found).select("path_kind", "name", "start_ns", "duration_ns").rows()
    return [(kind, name, start / US, length / US) for kind, name, start, length in rows]


def assert_graphs_hold(found: Profile) -> None:
    """Check that with the recorded times every moment is recomputed where it was recorded."""
    whole = base_profile(found)
    for window, segments in paths_by_iteration(whole).values():
        graph = Graph(traces(whole), window, sorted({window.session, *(segment.on_session for segment in segments)}))
        assert len(graph.order()) == len(graph.times)
        at = earliest_times(graph, np.array([[passes] for *_, passes in graph.edges]))
        assert at[:, 0].tolist() == graph.times


def serial() -> Profile:
    """Return work in which a waits for its launch, b for a, c (on the CPU's time) for the call that waited for b."""
    return profile_with_iterations(
        ranges=[step(0, 100)],
        ops=[op("first", 0, 30), op("second", 62, 18), op("inner", 64, 12)],
        api_calls=[
            launch(1, 10),
            launch(2, 14),
            launch(9, 31, 30, name="cudaDeviceSynchronize"),
            launch(3, 70),
        ],
        activities=[
            work("a", 15, 20, 1),
            work("b", 37, 21, 2),
            work("c", 76, 24, 3),
        ],
    )


def test_a_path_covers_its_iteration() -> None:
    found = serial()
    assert path_rows(found) == [
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
    (row,) = critical_paths(found).iter_rows(named=True)
    assert row["duration_ns"] == 100 * US == sum(row[name] for name in KIND_COLUMNS.values())
    assert row["path_kernel_ns"] == 65 * US
    assert row["path_cpu_op_ns"] == 18 * US
    assert row["path_gpu_pct"] == 65
    assert row["path_other_rank_ns"] == 0
    assert median_iteration(found) == (0, 0)
    assert_graphs_hold(found)


def test_savings_of_halving_each_segment() -> None:
    rows = {(row["path_kind"], row["name"]): row for row in critical_path(serial()).iter_rows(named=True)}
    # b was launched at 14 and can start 5 us later at the earliest: half of a saves all of its 10 us.
    assert rows["kernel", "a"]["half_saves_ns"] == 10 * US
    assert rows["kernel", "b"]["half_saves_ns"] == 10_500
    assert rows["CPU op", "first"]["half_saves_ns"] == 5 * US
    assert rows["launch delay", "c"]["half_saves_ns"] == 3 * US
    assert sum(row["path_ns"] for row in rows.values()) == 100 * US
    assert rows["kernel", "c"]["path_pct"] == pytest.approx(24)


def test_work_off_the_path_has_slack_and_saves_nothing() -> None:
    found = profile_with_iterations(
        ranges=[step(0, 100)],
        ops=[op("first", 0, 30)],
        api_calls=[launch(1, 10), launch(2, 14)],
        activities=[work("long", 15, 85, 1), work("beside", 20, 30, 2, stream=8)],
    )
    rows = {row["name"]: row for row in critical_path(found).iter_rows(named=True) if row["path_kind"] == "kernel"}
    assert (rows["beside"]["path_ns"], rows["beside"]["slack_ns"], rows["beside"]["half_saves_ns"]) == (0, 50 * US, 0)
    assert (rows["long"]["path_ns"], rows["long"]["slack_ns"], rows["long"]["half_saves_ns"]) == (85 * US, None, 42_500)
    assert_graphs_hold(found)


def test_a_queued_kernel_waits_for_its_launch_if_that_is_later() -> None:
    # The launch at 18 takes 5 us as the first does: the kernel before it has ended at 20 already.
    found = profile_with_iterations(
        ranges=[step(0, 40)],
        ops=[op("first", 0, 30)],
        api_calls=[launch(1, 10), launch(2, 18)],
        activities=[work("a", 15, 5, 1), work("b", 25, 15, 2)],
    )
    assert path_rows(found)[-2:] == [("launch delay", "b", 18, 7), ("kernel", "b", 25, 15)]


def test_the_path_goes_from_thread_to_thread() -> None:
    found = profile_with_iterations(
        ranges=[step(0, 60)],
        ops=[op("forward", 0, 10), op("backward", 14, 20, tid=2), op("optimizer", 36, 10)],
        api_calls=[launch(1, 5), launch(2, 20, tid=2), launch(3, 40)],
        activities=[work("f", 8, 2, 1), work("b", 23, 5, 2), work("o", 44, 16, 3)],
    )
    assert path_rows(found) == [
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
    handed = path_segments(found).filter(path_segments(found)["is_inferred"])
    assert handed["start_ns"].to_list() == [10 * US, 34 * US]
    assert_graphs_hold(found)


def test_waits_of_streams_are_inferred_after_cudastreamwaitevent() -> None:
    calls = [launch(1, 5), launch(8, 8, 1, name="cudaStreamWaitEvent"), launch(2, 10)]
    activities = [work("a", 8, 30, 1), work("b", 40, 20, 2, stream=8)]
    found = profile_with_iterations(
        ranges=[step(0, 60)], ops=[op("all", 0, 20)], api_calls=calls, activities=activities
    )
    assert path_rows(found)[-3:] == [("kernel", "a", 8, 30), ("synchronization", "b", 38, 2), ("kernel", "b", 40, 20)]
    assert path_segments(found)["is_inferred"].to_list()[-2]
    without = profile_with_iterations(
        ranges=[step(0, 60)], ops=[op("all", 0, 20)], api_calls=[calls[0], calls[2]], activities=activities
    )
    assert path_rows(without)[-2:] == [("launch delay", "b", 10, 30), ("kernel", "b", 40, 20)]
    assert_graphs_hold(found)


@pytest.mark.parametrize("name", ["cudaGraphLaunch", "hipGraphLaunch"])
def test_a_graph_launch_leads_to_its_nodes(name: str) -> None:
    found = profile_with_iterations(
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
    assert path_rows(found) == [
        ("CPU op", "replay", 0, 5),
        ("launch delay", "a", 5, 7),
        ("kernel", "a", 12, 10),
        ("kernel gap", "b", 22, 1),
        ("kernel", "b", 23, 5),
        ("kernel gap", "join", 28, 18),
        ("kernel", "join", 46, 14),
    ]
    assert_graphs_hold(found)


def test_a_copy_that_its_call_waits_for() -> None:
    found = profile_with_iterations(
        ranges=[step(0, 50)],
        ops=[op("item", 0, 40)],
        api_calls=[launch(1, 5, 25, name="cudaMemcpyAsync")],
        activities=[copy("DtoH", 10 * US, start_ns=15 * US, correlation=1, stream=7, device=0, iteration=0)],
    )
    assert path_rows(found) == [
        ("CPU op", "item", 0, 5),
        ("launch delay", "[CUDA memcpy DtoH]", 5, 10),
        ("copy", "[CUDA memcpy DtoH]", 15, 10),
        ("synchronization", "cudaMemcpyAsync", 25, 5),
        ("CPU op", "item", 30, 10),
        ("CPU outside ops", None, 40, 10),
    ]
    assert_graphs_hold(found)


def test_without_launches_the_path_stays_on_the_gpu() -> None:
    found = profile_with_iterations(
        activities=[work("a", 0, 10, 1, iteration=None), work("b", 12, 10, 2, iteration=None)]
    )
    assert path_rows(found) == [("kernel", "a", 0, 10), ("kernel gap", "b", 10, 2), ("kernel", "b", 12, 10)]
    assert missing_launches_note(found).startswith("launches are not recorded, and the path stays on the GPU")
    none = profile_with_iterations(activities=[kernel("a", 5)])
    assert critical_path(none).is_empty()
    assert path_segments(none).is_empty()
    assert no_path_reason(none).startswith("no start times of GPU work")


def test_recorded_waits_of_streams_take_the_place_of_inferred_ones() -> None:
    """The event is recorded after a: b waits for a, not for what was launched into its stream later."""
    wait = {"wait_device": 0, "waiting_stream": 8, "awaited_stream": 7, "awaited_call": 90}
    calls = [
        launch(1, 5),
        launch(90, 8, 1, name="cudaEventRecord"),
        launch(3, 10),
        launch(91, 13, 1, name="cudaStreamWaitEvent") | wait,
        launch(2, 15),
    ]
    activities = [work("a", 8, 30, 1), work("later", 38, 1, 3), work("b", 40, 20, 2, stream=8)]
    found = profile_with_iterations(
        ranges=[step(0, 60)], ops=[op("all", 0, 20)], api_calls=calls, activities=activities
    )
    assert path_rows(found)[-3:] == [("kernel", "a", 8, 30), ("synchronization", "b", 38, 2), ("kernel", "b", 40, 20)]
    assert not path_segments(found)["is_inferred"].any()
    # a has to end before b, later does not: it may take longer by what b starts later than it ends.
    rows = {row["name"]: row for row in critical_path(found).iter_rows(named=True) if row["path_kind"] == "kernel"}
    assert (rows["later"]["path_ns"], rows["a"]["half_saves_ns"]) == (0, 15 * US)
    assert_graphs_hold(found)


def test_a_call_that_waits_for_an_event_waits_for_what_was_launched_before_it() -> None:
    wait = {"wait_device": 0, "awaited_stream": 7, "awaited_call": 90}
    calls = [
        launch(1, 5),
        launch(90, 8, 1, name="cudaEventRecord"),
        launch(2, 9, 1),
        launch(91, 10, 15, name="cudaEventSynchronize") | wait,
    ]
    activities = [work("a", 10, 10, 1), work("b", 20, 4, 2, stream=8)]
    found = profile_with_iterations(
        ranges=[step(0, 40)], ops=[op("all", 0, 40)], api_calls=calls, activities=activities
    )
    assert path_rows(found)[-3:] == [
        ("kernel", "a", 10, 10),
        ("synchronization", "cudaEventSynchronize", 20, 5),
        ("CPU op", "all", 25, 15),
    ]
    assert_graphs_hold(found)


def eight_iterations() -> Profile:
    """Return iterations of ten units each, with two kernels; the sixth (of number 5) takes the longest."""
    begins = [10 * number for number in range(8)]
    return profile_with_iterations(
        ranges=[{**step(at, 10), "iteration": at // 10} for at in begins],
        ops=[op("all", at, 8) for at in begins],
        api_calls=[launch(2 * at + turn, at + turn, 1) for at in begins for turn in (1, 2)],
        activities=[
            work("ab"[turn - 1], at + 1 + 2 * turn, 1 + turn * (at == 50), 2 * at + turn, iteration=at // 10)
            for at in begins
            for turn in (1, 2)
        ],
    )


def test_only_the_surroundings_of_an_iteration_are_read_from_a_large_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = eight_iterations()
    expected = critical_paths(whole).row(5, named=True), critical_path(whole, 0, 5).rows()
    monkeypatch.setattr(tui.analysis.critical_path, "MAX_ACTIVITIES", 5)
    found = eight_iterations()
    assert critical_paths(found)["iteration"].to_list() == [3]
    assert left_out_note(found) == (
        "iteration 3 has the median duration; for 7 other iterations, use --iterations or :iterations"
    )
    assert base_profile(found)["activities"].height == 4
    assert no_path_reason(found) == ""
    chosen = select_iterations(found, Aggregation(first=5, last=5))
    assert (critical_paths(chosen).row(0, named=True), critical_path(chosen).rows()) == expected
    assert left_out_note(chosen) == ""
    assert critical_paths_spec(found).title == f"Critical path by iteration ({left_out_note(found)})"
    assert critical_paths_spec(chosen).title == CRITICAL_PATHS.title


def test_an_iteration_that_is_too_large_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.analysis.critical_path, "MAX_ACTIVITIES", 1)
    found = profile_with_iterations(
        activities=[work("a", 0, 10, 1, iteration=None), work("b", 12, 10, 2, iteration=None)]
    )
    assert no_path_reason(found).startswith("the run has 2 GPU activities, more than the limit of 1: ")
    assert no_path_reason(eight_iterations()).startswith("iteration 3 has 4 GPU activities, more than the limit of 1: ")
    assert critical_path(found).is_empty()
    assert path_segments(found).is_empty()


def test_the_cause_is_on_the_slow_rank() -> None:
    found, _ = load((recording_file("ddp_rank0.pt.trace.json.gz"), recording_file("ddp_rank1.pt.trace.json.gz")))
    assert found is not None
    found = with_iterations(found)
    rows = {(row["session"], row["iteration"]): row for row in critical_paths(found).iter_rows(named=True)}
    assert len(rows) == 8
    for row in rows.values():
        assert sum(row[name] for name in KIND_COLUMNS.values()) == row["duration_ns"]
    assert rows[0, 6]["path_other_rank_ns"] / rows[0, 6]["duration_ns"] == pytest.approx(0.93, abs=0.02)
    assert rows[1, 6]["path_other_rank_ns"] == 0
    slow = critical_path(found, 0, 6).row(0, named=True)
    assert str(slow["name"]).startswith("sm80_xmma_gemm_f32f32")
    assert (slow["path_ns"], slow["half_saves_ns"]) == (15_969_942, 4_770_357)
    assert_graphs_hold(found)


@pytest.mark.parametrize("name", ["resnet50_amp", "gpt_cudagraph", "tiny_kernels"])
def test_paths_of_recordings_cover_their_iterations(name: str) -> None:
    found, _ = load((recording_file(f"{name}.pt.trace.json.gz"),))
    assert found is not None
    found = with_iterations(found)
    assert found.steps is not None
    of_steps = found.steps.drop_nulls(["iteration", "duration_ns"])["duration_ns"].to_list()
    rows = critical_paths(found)
    assert rows["duration_ns"].to_list() == of_steps
    assert rows.select(total=sum(rows[column] for column in KIND_COLUMNS.values()))["total"].to_list() == of_steps
    sums = path_segments(found).group_by("iteration", maintain_order=True).agg(length=pl.col("duration_ns").sum())
    assert sums["length"].to_list() == of_steps
    assert_graphs_hold(found)


def test_an_iteration_without_recorded_times_saves_nothing() -> None:
    graph: Any = SimpleNamespace(
        times=[0], edges=[], sink=0, period=IterationPeriod(0, 0, 0, 100, None), order=lambda: [0]
    )
    nothing = pl.DataFrame(schema={"path_kind": pl.String, "name": pl.String, "path_ns": pl.Int64})
    pieces = nothing.with_columns(edge=pl.lit(0), piece_ns=pl.lit(0))
    assert _half_savings(graph, pieces, nothing).is_empty()


def path_between(name: str, begin: int, end: int) -> list[tuple[int, str]]:
    """Return begin (in microseconds since another) and kind of the segments of the path to the work that ends last."""
    found, _ = load((corpus_file(name),))
    assert found is not None
    whole = base_profile(found)
    (trace,) = traces(whole).values()
    last = trace.end.index(end * US)
    segments = walk_back({0: trace}, 0, begin * US, end * US, last, US)[::-1]
    rows = path_segments_frame(whole, [(IterationPeriod(0, 0, begin * US, end * US, last), segments)])
    return [(start // US - begin, kind) for start, kind in rows.select("start_ns", "path_kind").iter_rows()]


@pytest.mark.parametrize(
    ("name", "kernels", "delay_ns"),
    [("vllm_decode_full", 424, 57_720), ("vllm_prefilldecode_piecewise", 407, 701_276)],
)
def test_the_path_goes_through_the_hip_graphs_of_a_server(name: str, kernels: int, delay_ns: int) -> None:
    found, _ = load((shared_file(f"corpus2/inference/{name}/graph_execution.json.gz"),))
    assert found is not None
    found = with_iterations(found)
    kinds = Counter(path_segments(found)["path_kind"].cast(pl.String).to_list())
    assert (kinds["kernel"], kinds["launch delay"]) == (kernels, 1)
    assert critical_paths(found)["path_launch_delay_ns"].to_list() == [delay_ns]
    assert_graphs_hold(found)
    # One of the kernels begins 112 ns before the one that it follows has ended.
    saves = critical_path(found)["half_saves_ns"].drop_nulls()
    assert saves.min() == 0


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
    """Its path in AlexNet has 149 nodes at 146 moments; one edge goes from one stream to another."""
    name = "kineto/benchmark_result_2869224_1695835535_trace.json.gz"
    rows = path_between(name, 43_346_703, 43_382_728)
    assert len(rows) == 145
    kinds = Counter(kind for _, kind in rows)
    assert kinds["kernel gap"] == 32
    assert kinds["kernel"] + kinds["copy"] == 34
    assert (kinds["launch delay"], kinds["synchronization"]) == (1, 1)
    assert [start for start, kind in rows if kind == "synchronization"] == [32_801]


@pytest.mark.parametrize(
    ("name", "waits", "known"),
    [
        ("kineto/benchmark_result_2869224_1695835535_trace.json.gz", 1, 6),
        ("nsys/dlprof_nsys_profile.sqlite", 0, 10),
    ],
)
def test_waits_of_streams_that_are_recorded_are_not_inferred(name: str, waits: int, known: int) -> None:
    found, _ = load((corpus_file(name),))
    assert found is not None
    (trace,) = traces(base_profile(found)).values()
    assert sum(start == Start.WAIT for start in trace.decided_by) == waits
    assert len(trace.waits) == known
    assert not any(trace.inferred)


def test_waits_of_two_ranks_in_an_nsight_database_are_recorded() -> None:
    """Twenty and seventeen kernels start because work of another stream has ended."""
    found, _ = load((recording_file("ddp.nsys.sqlite.gz"),))
    assert found is not None
    both = traces(base_profile(found)).values()
    assert [sum(start == Start.WAIT for start in trace.decided_by) for trace in both] == [20, 17]
    assert not any(any(trace.inferred) for trace in both)
    assert_graphs_hold(found)
