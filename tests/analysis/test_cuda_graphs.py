"""CUDA graphs: replays, nodes, times and gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.analysis.frames import kernel, make_profile
from tests.corpus import recording_file
from tui.analysis.cuda_graphs import cuda_graphs, graph_replays, no_graphs, replay_nodes, replays_in_graph
from tui.loaders.registry import load

if TYPE_CHECKING:
    from tui.model.profile import Profile


def profile_of_replays(*graphs: tuple[str, ...]) -> Profile:
    """Return replays of these kernels, of 5 ns each, 2 ns apart."""
    work, calls = [], []
    for number, names in enumerate(graphs):
        calls.append({"name": "cudaGraphLaunch", "start_ns": 100 * number, "duration_ns": 1, "correlation": number})
        work += [
            kernel(name, 5, start_ns=100 * number + 7 * index, correlation=number, iteration=number)
            for index, name in enumerate(names)
        ]
    return make_profile(activities=[*work, kernel("eager", 10, start_ns=9000)], api_calls=calls)


def test_replays_of_equal_kernels_in_equal_order_are_one_graph() -> None:
    profile = profile_of_replays(("a", "b", "c"), ("b", "a", "c"), ("a", "b", "c"))
    rows = cuda_graphs(profile).select("cuda_graph", "replays", "nodes", "gpu_ns", "replay_avg_ns", "replay_gap_ns")
    assert rows.rows() == [("graph 1", 2, 3, 30, 19, 4), ("graph 2", 1, 3, 15, 19, 4)]
    assert cuda_graphs(profile)["time_pct"].to_list() == pytest.approx([100 * 30 / 55, 100 * 15 / 55])
    assert graph_replays(profile).select("cuda_graph", "iteration", "duration_ns", "first_kernel").rows() == [
        ("graph 1", 0, 19, "a"),
        ("graph 2", 1, 19, "b"),
        ("graph 1", 2, 19, "a"),
    ]
    first = cuda_graphs(profile).row(0, named=True)
    second_replay = replays_in_graph(profile, first).row(1, named=True)
    assert replay_nodes(profile, second_replay)["start_ns"].to_list() == [200, 207, 214]
    assert replays_in_graph(profile, None).is_empty()
    assert no_graphs(profile) == ""


def test_replays_without_durations_have_unknown_times() -> None:
    call = {"name": "cudaGraphLaunch", "start_ns": 0, "duration_ns": 1, "correlation": 0}
    for duration_ns, gpu_ns in ((None, None), (0, 0)):
        profile = make_profile(activities=[kernel("a", duration_ns, start_ns=9, correlation=0)], api_calls=[call])
        assert cuda_graphs(profile).select("gpu_ns", "replay_gap_pct").rows() == [(gpu_ns, None)]


def test_without_graphs_there_is_a_reason() -> None:
    profile = make_profile(activities=[kernel("k", 5, start_ns=0)])
    assert cuda_graphs(profile).is_empty()
    assert no_graphs(profile) == "no CUDA graph launches with recorded kernels"


def test_graphs_of_a_recording() -> None:
    profile, _ = load((recording_file("gpt_cudagraph.pt.trace.json.gz"),))
    assert profile is not None
    rows = cuda_graphs(profile).select("replays", "nodes", "gpu_ns", "named_nodes")
    assert rows.rows() == [(60, 54, 11_501_491, 0)]
    assert profile["activities"]["op_join"].null_count() == profile["activities"].height
