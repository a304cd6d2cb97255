"""The rows behind a finding add up to what it says, and what an input tells is not said to be missing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.analysis.expert.answers.made import allocating, ranks
from tests.analysis.expert.asking import of_rule
from tests.analysis.expert.judging import ask
from tests.analysis.expert.profiles import A100, GEMM, MS, NCCL, call, launched, moved, run, step, traced, with_calls
from tui.analysis.expert.findings import findings
from tui.analysis.expert.rule import Clean, Found, NotApplicable

if TYPE_CHECKING:
    from tui.model.profile import Profile


def test_unequal_gpus_cost_the_time_of_the_busiest_above_the_mean() -> None:
    devices = [{**A100, "device": device} for device in range(3)]
    verdict = ask("U5", traced(run(0, 10 * MS), run(0, 6 * MS, device=1), run(0, 2 * MS, device=2), devices=devices))
    assert isinstance(verdict, Found)
    assert verdict.cost_ns == 4 * MS
    assert verdict.problem == "GPU 2 is busy for 2 ms, GPU 0 for 10 ms: 80% less."
    assert verdict.evidence is not None
    assert verdict.evidence["device"].to_list() == [0, 1, 2]


def test_loads_before_the_gpu_works_are_not_among_those_of_the_run() -> None:
    work = launched(100 * MS, MS, 99 * MS, 9, 1), launched(109 * MS, MS, 108 * MS, 9, 2)
    loads = call(0, 90 * MS, "cuModuleLoadData"), call(102 * MS, 5 * MS, "cuLibraryLoadData")
    found = ask("A9", with_calls(*work, calls=loads))
    assert isinstance(found, Found)
    assert found.cost_ns == 5 * MS
    assert found.problem.startswith("Loading and compiling kernels takes 5 ms")
    assert found.evidence is not None
    assert found.evidence.select("name", "calls", "total_ns").rows() == [("cuLibraryLoadData", 1, 5 * MS)]


def test_waits_of_other_threads_are_not_among_those_of_the_one_that_waits_longest() -> None:
    work = launched(0, 10 * MS, 0, 9, 1), launched(40 * MS, 10 * MS, 39 * MS, 9, 2)
    waits = [call(11 * MS, 8 * MS, "cudaDeviceSynchronize", tid=2), call(11 * MS, 6 * MS, "cudaEventSynchronize")]
    waits += [call(20 * MS, 6 * MS, "cudaStreamSynchronize")]
    found = ask("A1", with_calls(*work, calls=tuple(waits)))
    assert isinstance(found, Found)
    assert found.numbers["wait_ns"] == 12 * MS
    assert found.numbers["calls"] == 2
    assert found.evidence is not None
    assert found.evidence.select("name", "calls", "total_ns").rows() == [
        ("cudaEventSynchronize", 1, 6 * MS),
        ("cudaStreamSynchronize", 1, 6 * MS),
    ]


def test_calls_outside_of_iterations_are_not_counted_into_them() -> None:
    norm = {"name": "SyncBatchNorm", "duration_ns": 1, "op_source": "recorded"}
    ops = [{**norm, "op": n, "start_ns": n, "iteration": 0 if n < 15 else None} for n in range(30)]
    clean = ask("P13", traced(run(0, MS), ops=ops))
    assert isinstance(clean, Clean)
    assert clean.reason == "15 SyncBatchNorm per iteration"


def test_ranges_that_load_data_are_shown_by_their_names() -> None:
    work = run(0, 10 * MS), run(90 * MS, 10 * MS)
    loads = {"name": "load_batch", "start_ns": 20 * MS, "duration_ns": 50 * MS, "pid": 1, "tid": 1}
    found = ask("I5", traced(*work, ranges=[loads, {**loads, "name": "forward"}]))
    assert isinstance(found, Found)
    assert (found.view, found.filter) == ("ranges", 'name="load_batch"')
    assert found.evidence is not None
    assert found.evidence.select("name", "calls", "duration_ns").rows() == [("load_batch", 1, 50 * MS)]
    named = {"op": 0, "op_source": "recorded", **loads, "name": "OneShotIterator"}
    of_ops = ask("I5", traced(*work, ops=[named]))
    assert isinstance(of_ops, Found)
    assert (of_ops.view, of_ops.filter) == ("ops-and-kernels", 'op="OneShotIterator"')


def test_a_rank_that_waits_for_another_is_advised_to_look_at_that_one() -> None:
    first = ask("C1", with_origins(ranks(20 * MS, 80 * MS)))
    assert isinstance(first, Found)
    assert first.advice.startswith(
        "For 180 ms of it this rank waits for the last one: look at that rank first (C5). Otherwise communicate"
    )
    even = ask("C2", with_origins(ranks(20 * MS, 20 * MS)))
    assert "waits for the last one" not in (even.advice if isinstance(even, Found) else "")


def with_origins(profile: Profile) -> Profile:
    """The same with clocks that count from one moment."""
    origin = pl.lit(0, profile["sessions"].schema["origin_ns"]).alias("origin_ns")
    return replace(profile, frames={**profile.frames, "sessions": profile["sessions"].with_columns(origin)}, steps=None)


def test_a_graph_that_is_recorded_whole_may_hide_communication() -> None:
    graph = {**run(0, 10 * MS, "CUDA graph 1"), "kind": "graph"}
    marks = [{**step(0, 0, 10 * MS), "name": "DistributedDataParallel.forward"}]
    sessions = [{"session": 0, "format": "nsys-sqlite", "rank": 0, "world_size": 2}]
    hidden = ask("C6", traced(graph, ranges=marks, sessions=sessions))
    assert isinstance(hidden, NotApplicable)
    assert "in CUDA graphs that are recorded whole" in hidden.reason
    seen = ask("C6", traced(run(0, 10 * MS, GEMM), ranges=marks, sessions=sessions))
    assert isinstance(seen, Found)


def test_times_of_several_gpus_are_described_as_their_sum() -> None:
    """Each of two GPUs idles for 80 of 100 ms: 160 ms are 80% of both spans, not of one."""
    work = [run(at * MS, 10 * MS, device=device) for device in (0, 1) for at in (0, 90)]
    both = ask("U2", traced(*work))
    assert isinstance(both, Found)
    assert "160 ms (80% of the wall time of 2 GPUs) in 2 gaps of 1 ms or more. The longest, 80 ms, " in both.problem
    assert (both.cost_ns, both.basis) == (160 * MS, "all of these gaps, of 2 GPUs together")
    one = ask("U2", traced(*work[:2]))
    assert isinstance(one, Found)
    assert one.problem.startswith("GPU idle 80 ms (80% of the wall time) in 1 gap of 1 ms or more. ")
    assert one.basis == "all of these gaps"
    copies = ask("T2", traced(*work, *(moved(20 * MS, 30 * MS, device=device) for device in (0, 1))))
    assert isinstance(copies, Found)
    assert copies.problem.startswith("Exposed copies take 60 ms (30% of the wall time of 2 GPUs)")


@pytest.mark.parametrize(
    ("rule", "cost_ns", "basis"),
    [
        ("U3", 138 * MS, "the idle time in these stretches, of 2 GPUs together"),
        ("U8", 122 * MS, "all busy time without a kernel that computes, of 2 GPUs together"),
        ("A12", 30 * MS, "the share of the SMs left free, of 2 GPUs together, if other kernels could fill it"),
    ],
)
def test_losses_of_several_gpus_are_described_as_their_sum(rule: str, cost_ns: int, basis: str) -> None:
    """Each GPU computes for 10 ms in each of two streams, copies for 60 ms, and idles for 69 before a last copy."""
    work = [
        row
        for device in (0, 1)
        for row in (
            run(0, 10 * MS, device=device, grid_x=27),
            run(10 * MS, 10 * MS, device=device, grid_x=27, stream=8),
            moved(20 * MS, 60 * MS, device=device),
            moved(149 * MS, MS, device=device),
        )
    ]
    result = ask(rule, traced(*work, devices=[A100, {**A100, "device": 1}]))
    assert isinstance(result, Found)
    assert (result.cost_ns, result.basis) == (cost_ns, basis)


def test_the_reason_of_a_slow_iteration_needs_busy_times_of_others() -> None:
    lengths = [10 * MS, 10 * MS, 40 * MS, 10 * MS, 10 * MS]
    begins = [sum(lengths[:number]) for number in range(5)]
    marks = [step(number, begins[number], lengths[number]) for number in range(5)]
    work = [run(begins[number], 5 * MS, iteration=number) for number in range(5)]
    untimed = [row if row["iteration"] == 2 else {**row, "duration_ns": None} for row in work]
    for rows, why in (
        (work, " (the GPU is idle longer). "),
        (untimed, ". "),
    ):
        result = ask("I3", traced(*rows, ranges=marks))
        assert isinstance(result, Found)
        assert result.problem.startswith(f"Iteration 2 takes 40 ms, the median is 10 ms{why}")


@pytest.mark.parametrize(("held", "rule", "pct"), [(4 << 30, "I7", 10.0), (38 << 30, "I8", 95.0)])
def test_memory_use_is_known_from_the_allocator(held: int, rule: str, pct: float) -> None:
    found = ask(rule, allocating(held, held))
    assert isinstance(found, Found)
    assert found.numbers["memory_pct"] == pct
    assert "of GPU memory is taken by the framework's allocator" in found.problem
    assert found.problem.partition(".")[0].count("GiB of 40 GiB") or "of 40 GiB" in found.problem
    assert (found.view, found.part) == ("memory", "allocator")
    assert found.evidence is not None
    assert found.evidence.rows() == [("GPU 0", 40 << 30, held, pct)]


def test_a_finding_has_the_line_of_what_it_names() -> None:
    memset = {"kind": "memset", "name": "[CUDA memset]", "device": 0, "size_bytes": 24 << 20}
    profile = traced(
        {**memset, "start_ns": 0, "duration_ns": 1025, "line": 71},
        {**memset, "start_ns": 2000, "duration_ns": 768, "line": 84},
    )
    row = of_rule(findings(profile), "Q1")
    assert row["problem"].startswith("`[CUDA memset]` moves 24 MiB in 768 ns: 29.8 TiB/s, above the peak of ")
    assert row["problem"].endswith(" 1 more row is as impossible.")
    assert row["line"] == 84


@pytest.mark.parametrize(("others", "words"), [((), "kernel time"), ((NCCL,), "the time of compute kernels")])
def test_shares_of_kernel_time_say_where_communication_is_left_out(others: tuple[str, ...], words: str) -> None:
    profile = traced(run(0, MS, grid_x=27, registers=255), *(run(MS, MS, name) for name in others))
    for rule, problem in (
        ("L1", f"100% of {words} runs below "),
        ("L3", f"100% of {words} is in launches smaller than one wave. "),
        ("L9", f" on average over {words}. "),
    ):
        found = ask(rule, profile)
        assert isinstance(found, Found)
        assert problem in found.problem


def test_work_that_was_launched_before_a_gap_does_not_wait_for_the_cpu() -> None:
    """The second kernel, launched while the first ran, waits for something else; the third is launched 25 ms late.

    After its call it waits for 5 ms, which is not the CPU's delay either.
    """
    early, late = launched(60 * MS, 10 * MS, 5 * MS, 9, 2), launched(100 * MS, 10 * MS, 95 * MS - 9, 9, 3)
    found = ask("U6", with_calls(launched(0, 10 * MS, 0, 9, 1), early, late))
    assert isinstance(found, Found)
    assert (found.numbers["host_wait_ns"], found.numbers["waits"]) == (25 * MS, 1)
    assert found.cost_ns == 25 * MS
