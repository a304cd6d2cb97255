"""The evidence of a finding adds up to its figures, and recorded data is not reported as missing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.analysis.expert.answers.expected_answers import profile_of_allocations, profile_of_ranks
from tests.analysis.expert.profiles import (
    A100,
    GEMM,
    MS,
    NCCL,
    call,
    launch,
    launch_with_call,
    step_range,
    trace_of,
    transfer,
    with_calls,
)
from tests.analysis.expert.rule_verdicts import verdict_of
from tests.analysis.expert.single_findings import found_by_rule, row_of_rule
from tui.analysis.expert.findings import findings
from tui.analysis.expert.rule import Cause, Clean, Found, NotApplicable

if TYPE_CHECKING:
    from tui.model.profile import Profile


def test_unequal_gpus_cost_the_time_of_the_busiest_above_the_mean() -> None:
    devices = [{**A100, "device": device} for device in range(3)]
    verdict = verdict_of(
        "U5", trace_of(launch(0, 10 * MS), launch(0, 6 * MS, device=1), launch(0, 2 * MS, device=2), devices=devices)
    )
    assert isinstance(verdict, Found)
    assert verdict.cost_ns == 4 * MS
    assert verdict.problem == "GPU 2 is busy for 2 ms, GPU 0 for 10 ms: 80% less."
    assert verdict.evidence is not None
    assert verdict.evidence["device"].to_list() == [0, 1, 2]


def test_module_loads_before_the_first_gpu_work_do_not_count() -> None:
    work = launch_with_call(100 * MS, MS, 99 * MS, 9, 1), launch_with_call(109 * MS, MS, 108 * MS, 9, 2)
    loads = call(0, 90 * MS, "cuModuleLoadData"), call(102 * MS, 5 * MS, "cuLibraryLoadData")
    verdict = verdict_of("A9", with_calls(*work, calls=loads))
    assert isinstance(verdict, Found)
    assert verdict.cost_ns == 5 * MS
    assert verdict.problem.startswith("Loading and compiling kernels takes 5 ms")
    assert verdict.evidence is not None
    assert verdict.evidence.select("name", "calls", "total_ns").rows() == [("cuLibraryLoadData", 1, 5 * MS)]


def test_waits_are_those_of_the_thread_that_waits_longest() -> None:
    work = launch_with_call(0, 10 * MS, 0, 9, 1), launch_with_call(40 * MS, 10 * MS, 39 * MS, 9, 2)
    waits = [call(11 * MS, 8 * MS, "cudaDeviceSynchronize", tid=2), call(11 * MS, 6 * MS, "cudaEventSynchronize")]
    waits += [call(20 * MS, 6 * MS, "cudaStreamSynchronize")]
    verdict = verdict_of("A1", with_calls(*work, calls=tuple(waits)))
    assert isinstance(verdict, Found)
    assert verdict.numbers["wait_ns"] == 12 * MS
    assert verdict.numbers["calls"] == 2
    assert verdict.evidence is not None
    assert verdict.evidence.select("name", "calls", "total_ns").rows() == [
        ("cudaEventSynchronize", 1, 6 * MS),
        ("cudaStreamSynchronize", 1, 6 * MS),
    ]


def test_ops_outside_iterations_are_not_counted_per_iteration() -> None:
    batch_norm = {"name": "SyncBatchNorm", "duration_ns": 1, "op_source": "recorded"}
    ops = [{**batch_norm, "op": n, "start_ns": n, "iteration": 0 if n < 15 else None} for n in range(30)]
    verdict = verdict_of("P13", trace_of(launch(0, MS), ops=ops))
    assert isinstance(verdict, Clean)
    assert verdict.reason == "15 SyncBatchNorm per iteration"


def test_ranges_that_load_data_are_shown_by_their_names() -> None:
    work = launch(0, 10 * MS), launch(90 * MS, 10 * MS)
    loads = {"name": "load_batch", "start_ns": 20 * MS, "duration_ns": 50 * MS, "pid": 1, "tid": 1}
    verdict = verdict_of("I5", trace_of(*work, ranges=[loads, {**loads, "name": "forward"}]))
    assert isinstance(verdict, Found)
    assert (verdict.view, verdict.filter) == ("ranges", 'name="load_batch"')
    assert verdict.evidence is not None
    assert verdict.evidence.select("name", "calls", "duration_ns").rows() == [("load_batch", 1, 50 * MS)]
    loading_op = {"op": 0, "op_source": "recorded", **loads, "name": "OneShotIterator"}
    op_verdict = verdict_of("I5", trace_of(*work, ops=[loading_op]))
    assert isinstance(op_verdict, Found)
    assert (op_verdict.view, op_verdict.filter) == ("ops-and-kernels", 'op="OneShotIterator"')


def test_the_advice_of_a_waiting_rank_names_the_last_one() -> None:
    waiting = verdict_of("C1", with_origins(profile_of_ranks(20 * MS, 80 * MS)))
    assert isinstance(waiting, Found)
    assert waiting.advice.startswith(
        "Rank 0 waits 180 ms for the last rank: look at the last rank first (C5). Otherwise communicate"
    )
    assert waiting.cause is Cause.RANKS
    equal = verdict_of("C2", with_origins(profile_of_ranks(20 * MS, 20 * MS)))
    assert "for the last rank" not in (equal.advice if isinstance(equal, Found) else "")


def with_origins(profile: Profile) -> Profile:
    """Return a profile with equal clock origins of all sessions."""
    origin = pl.lit(0, profile["sessions"].schema["origin_ns"]).alias("origin_ns")
    return replace(profile, frames={**profile.frames, "sessions": profile["sessions"].with_columns(origin)}, steps=None)


def test_a_graph_that_is_recorded_whole_may_hide_communication() -> None:
    graph = {**launch(0, 10 * MS, "CUDA graph 1"), "kind": "graph"}
    ranges = [{**step_range(0, 0, 10 * MS), "name": "DistributedDataParallel.forward"}]
    sessions = [{"session": 0, "format": "nsys-sqlite", "rank": 0, "world_size": 2}]
    graph_verdict = verdict_of("C6", trace_of(graph, ranges=ranges, sessions=sessions))
    assert isinstance(graph_verdict, NotApplicable)
    assert "in CUDA graphs that are recorded whole" in graph_verdict.reason
    kernel_verdict = verdict_of("C6", trace_of(launch(0, 10 * MS, GEMM), ranges=ranges, sessions=sessions))
    assert isinstance(kernel_verdict, Found)


def test_times_of_several_gpus_are_described_as_their_sum() -> None:
    """Each of two GPUs is idle for 80 of 100 ms: 160 ms are 80% of both spans."""
    work = [launch(start_ms * MS, 10 * MS, device=device) for device in (0, 1) for start_ms in (0, 90)]
    two_gpus = verdict_of("U2", trace_of(*work))
    assert isinstance(two_gpus, Found)
    assert "160 ms (80% of the wall time of 2 GPUs) in 2 gaps of 1 ms or more. The longest, 80 ms, " in two_gpus.problem
    assert (two_gpus.cost_ns, two_gpus.is_summed_over_gpus) == (160 * MS, True)
    row = found_by_rule(findings(trace_of(*work)))["U2"]
    assert (row["cost_pct"], row["cost_basis"]) == (80.0, "all of these gaps, of 2 GPUs together")
    one_gpu = verdict_of("U2", trace_of(*work[:2]))
    assert isinstance(one_gpu, Found)
    gap = "GPU idle 80 ms (80% of the wall time) in 1 gap of 1 ms or more. It is before "
    assert one_gpu.problem.startswith(gap)
    row = found_by_rule(findings(trace_of(*work[:2])))["U2"]
    assert (row["cost_pct"], row["cost_basis"]) == (80.0, "all of these gaps")
    copies = verdict_of("T2", trace_of(*work, *(transfer(20 * MS, 30 * MS, device=device) for device in (0, 1))))
    assert isinstance(copies, Found)
    assert copies.problem.startswith("Exposed copies take 60 ms (30% of the wall time of 2 GPUs)")


_IDLE = "; the GPU is idle 46% of the time, so faster kernels shorten the run by less"


@pytest.mark.parametrize(
    ("rule", "cost_ns", "basis"),
    [
        ("U3", 138 * MS, "the idle time in these stretches, of 2 GPUs together"),
        ("U8", 122 * MS, "all busy time without a kernel that computes, of 2 GPUs together"),
        ("T1", 122 * MS, "all copy time, of 2 GPUs together; some copies are unavoidable"),
        ("L2", 30 * MS, f"the share of the SMs left free, over the time of these kernels, of 2 GPUs together{_IDLE}"),
        ("A12", 30 * MS, f"the share of the SMs left free, if other kernels could fill it, of 2 GPUs together{_IDLE}"),
    ],
)
def test_losses_of_several_gpus_are_described_as_their_sum(rule: str, cost_ns: int, basis: str) -> None:
    """Each GPU computes for 10 ms in each of two streams, copies for 60 ms, and idles for 69 before a last copy."""
    work = [
        row
        for device in (0, 1)
        for row in (
            launch(0, 10 * MS, device=device, grid_x=27),
            launch(10 * MS, 10 * MS, device=device, grid_x=27, stream=8),
            transfer(20 * MS, 60 * MS, device=device),
            transfer(149 * MS, MS, device=device),
        )
    ]
    row = found_by_rule(findings(trace_of(*work, devices=[A100, {**A100, "device": 1}])))[rule]
    assert (row["cost_ns"], row["cost_basis"]) == (cost_ns, basis)
    assert row["cost_pct"] == pytest.approx(100 * cost_ns / (2 * 150 * MS))


def test_the_reason_of_a_slow_iteration_needs_busy_times_of_other_iterations() -> None:
    lengths = [10 * MS, 10 * MS, 40 * MS, 10 * MS, 10 * MS]
    starts = [sum(lengths[:number]) for number in range(5)]
    ranges = [step_range(number, starts[number], lengths[number]) for number in range(5)]
    work = [launch(starts[number], 5 * MS, iteration=number) for number in range(5)]
    untimed = [row if row["iteration"] == 2 else {**row, "duration_ns": None} for row in work]
    for rows, reason in (
        (work, "The extra time is GPU idle time. "),
        (untimed, "1 of 5 iterations"),
    ):
        verdict = verdict_of("I3", trace_of(*rows, ranges=ranges))
        assert isinstance(verdict, Found)
        assert verdict.problem.startswith(f"Iteration 2 takes 40 ms; the median is 10 ms. {reason}")


@pytest.mark.parametrize(("allocated_bytes", "rule", "pct"), [(4 << 30, "I7", 10.0), (38 << 30, "I8", 95.0)])
def test_memory_use_is_known_from_the_allocator(allocated_bytes: int, rule: str, pct: float) -> None:
    verdict = verdict_of(rule, profile_of_allocations(allocated_bytes, allocated_bytes))
    assert isinstance(verdict, Found)
    assert verdict.numbers["memory_pct"] == pct
    assert "is reserved by the framework's allocator" in verdict.problem
    assert verdict.problem.partition(".")[0].count("GiB of 40 GiB") or "of 40 GiB" in verdict.problem
    assert (verdict.view, verdict.part) == ("memory", "allocator")
    assert verdict.evidence is not None
    assert verdict.evidence.rows() == [("GPU 0", 40 << 30, allocated_bytes, pct)]


def test_a_finding_has_the_line_of_the_row_that_it_names() -> None:
    memset = {"kind": "memset", "name": "[CUDA memset]", "device": 0, "size_bytes": 24 << 20}
    profile = trace_of(
        {**memset, "start_ns": 0, "duration_ns": 1025, "line": 71},
        {**memset, "start_ns": 2000, "duration_ns": 768, "line": 84},
    )
    row = row_of_rule(findings(profile), "Q1")
    assert row["problem"].startswith("`[CUDA memset]` moves 24 MiB in 768 ns: 29.8 TiB/s, above the peak of ")
    assert row["problem"].endswith(" 1 more row is also impossible.")
    assert row["line"] == 84


@pytest.mark.parametrize(("others", "expected"), [((), "kernel time"), ((NCCL,), "the time of compute kernels")])
def test_shares_of_kernel_time_state_that_communication_is_excluded(others: tuple[str, ...], expected: str) -> None:
    profile = trace_of(launch(0, MS, grid_x=27, registers=255), *(launch(MS, MS, name) for name in others))
    for rule, problem in (
        ("L1", f"100% of {expected} runs below "),
        ("L3", f"100% of {expected} is in launches smaller than one wave. "),
        ("L9", f" on average over {expected}. "),
    ):
        verdict = verdict_of(rule, profile)
        assert isinstance(verdict, Found)
        assert problem in verdict.problem


def test_work_that_was_launched_before_a_gap_does_not_wait_for_the_cpu() -> None:
    """The second kernel, launched while the first ran, waits for something else; the third is launched 25 ms late.

    After its call it waits for 5 ms, which is not the CPU's delay either.
    """
    early, late = (
        launch_with_call(60 * MS, 10 * MS, 5 * MS, 9, 2),
        launch_with_call(100 * MS, 10 * MS, 95 * MS - 9, 9, 3),
    )
    verdict = verdict_of("U6", with_calls(launch_with_call(0, 10 * MS, 0, 9, 1), early, late))
    assert isinstance(verdict, Found)
    assert (verdict.numbers["host_wait_ns"], verdict.numbers["waits"]) == (25 * MS, 1)
    assert verdict.cost_ns == 25 * MS
