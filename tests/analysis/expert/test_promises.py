"""Findings name the work to change, and their costs do not exceed the possible gain."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pytest

from tests.analysis.expert.answers.expected_answers import serving_profile
from tests.analysis.expert.profiles import (
    A100,
    ADD,
    GEMM,
    MS,
    NCCL,
    SESSION,
    SGEMM,
    US,
    call,
    launch,
    launch_with_call,
    step_range,
    trace_of,
    transfer,
    with_calls,
)
from tests.analysis.expert.rule_verdicts import clean_by, found_by, verdict_of
from tests.analysis.frames import make_profile, summary_row
from tui.analysis.expert.rule import Clean, Found, NotApplicable, Severity
from tui.analysis.iterations.times import iteration_times
from tui.keys import ACTIONS
from tui.model.schema import conform

if TYPE_CHECKING:
    from tui.model.profile import Profile


def test_layout_changes_are_no_gain_of_tensor_cores() -> None:
    """Of 6 ms in eligible ops that use none, 2 ms are changes of layout: half of the other 4 ms can be gained."""
    conv = {"name": "aten::cudnn_convolution", "tid": 1, "pid": 1, "op_source": "recorded"}
    ops = [{**conv, "op": 0, "start_ns": 0, "duration_ns": 100 * MS}]
    layout = "void nchwToNhwcKernel<float>(int)"
    work = [launch(0, 4 * MS, SGEMM, op=0), launch(4 * MS, 4 * MS, GEMM, op=0), launch(8 * MS, 2 * MS, layout, op=0)]
    mixed = verdict_of("P2", trace_of(*work, ops=ops))
    assert isinstance(mixed, Found)
    assert (mixed.cost_ns, mixed.numbers["not_using_ns"], mixed.numbers["other_kernels_ns"]) == (2 * MS, 4 * MS, 2 * MS)
    assert "Eligible kernels without them take 4 ms, mostly `ampere_sgemm_128x64_tn`. " in mixed.problem
    without_use = verdict_of("P1", trace_of(work[0], work[2], ops=ops))
    assert isinstance(without_use, Found)
    assert (without_use.cost_ns, without_use.numbers["eligible_ns"]) == (2 * MS, 6 * MS)
    assert "`ampere_sgemm_128x64_tn`" in without_use.problem
    assert isinstance(verdict_of("P2", trace_of(work[1], work[2], ops=ops)), Clean)


def test_an_idle_gap_is_not_attributed_to_short_kernels_or_a_chain() -> None:
    """Ten kernels 20 us apart, then one after a gap of 10 ms: the gap is U2's, not what launching less would gain."""
    work = [launch(n * 20 * US, 5 * US, ADD) for n in range(10)]
    verdict = verdict_of("A2", trace_of(*work, launch(10 * MS, 5 * US, ADD)))
    assert isinstance(verdict, Found)
    assert verdict.cost_ns == 9 * 15 * US
    assert "run for less than 10 µs (" in verdict.problem
    distant_pairs = [
        launch(n * 3 * MS + offset_ns, 5 * US, name)
        for n in range(10)
        for offset_ns, name in ((0, ADD), (1 * MS + 5 * US, SGEMM))
    ]
    assert isinstance(verdict_of("P11", trace_of(*distant_pairs)), Clean)
    close_pairs = [
        launch(n * 3 * MS + offset_ns, 5 * US, name)
        for n in range(10)
        for offset_ns, name in ((0, ADD), (1 * MS, SGEMM))
    ]
    chain = verdict_of("P11", trace_of(*close_pairs))
    assert isinstance(chain, Found)
    assert chain.cost_ns == 10 * (MS - 5 * US)
    assert chain.advice == (
        "Capture this chain in a CUDA graph (unless it already is one: API calls are not recorded), or fuse it "
        "(torch.compile)."
    )


@pytest.mark.parametrize(("rule", "full_blocks"), [("L2", 107), ("L3", 850)])
def test_the_kernel_that_wastes_most_of_the_gpu_is_named_first(rule: str, full_blocks: int) -> None:
    """Of 108 SMs, or of a wave of 864 blocks, nearly all is filled for 4 ms, and little for 1 ms: that wastes more."""
    verdict = verdict_of(
        rule, trace_of(launch(0, 4 * MS, GEMM, grid_x=full_blocks), launch(4 * MS, MS, ADD, grid_x=27))
    )
    assert isinstance(verdict, Found)
    assert verdict.problem.count("`at::native::vectorized_elementwise_kernel`") == 1
    assert verdict.evidence is not None
    assert verdict.evidence["grid"].to_list() == ["(27 1 1)", f"({full_blocks} 1 1)"]


def test_a_nearly_full_last_wave_is_not_a_tail() -> None:
    """On 108 SMs with 8 blocks each a wave is 864 blocks: 1.94 waves lose 3% of a launch, 1.04 nearly half."""
    assert isinstance(verdict_of("L4", trace_of(launch(0, MS, grid_x=1676))), Clean)
    one_kernel = verdict_of("L4", trace_of(launch(0, MS, grid_x=900)))
    assert isinstance(one_kernel, Found)
    assert one_kernel.problem.endswith("of the GPU.")
    two_kernels = verdict_of("L4", trace_of(launch(0, MS, grid_x=900), launch(MS, MS, ADD, grid_x=900)))
    assert isinstance(two_kernels, Found)
    assert two_kernels.problem.endswith(" 1 more significant kernel has a tail.")


def test_a_tail_that_the_measured_occupancy_excludes_is_not_reported() -> None:
    """Both launches take 1.04 waves; one kernel has 90% of its warps all the time, as Nsight Compute measured."""
    work = [launch(0, MS, grid_x=900), launch(MS, MS, ADD, grid_x=900)]
    shape = {name: work[0][name] for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")}
    measured = {
        "metric": "sm__warps_active.avg.pct_of_peak_sustained_active", "invocations": 1, "unit": "%", **shape,
    }  # fmt: skip
    metrics = [{**measured, "kernel": GEMM, "avg": 90.0}, {**measured, "kernel": ADD, "avg": 55.0}]
    found = found_by("L4", trace_of(*work, metrics=metrics))
    assert found.numbers == {"kernels": 1}
    assert found.problem.startswith("`at::native::vectorized_elementwise_kernel` takes 1.04 waves")
    assert found_by("L4", trace_of(*work)).numbers == {"kernels": 2}


def test_advice_on_a_run_with_long_start_up_names_later_iterations() -> None:
    """90 ms without work before four iterations of 10 ms: what follows is what counts."""
    work = [launch(0, MS), *(launch(90 * MS + n * 10 * MS, 5 * MS, iteration=n) for n in range(4))]
    steps = [step_range(n, 90 * MS + n * 10 * MS, 10 * MS) for n in range(4)]
    verdict = verdict_of("U1", trace_of(*work, ranges=steps))
    assert isinstance(verdict, Found)
    assert "For 89 ms of the idle time the run was starting up, before iteration 0." in verdict.problem
    assert "Look at the steady iterations: --iterations 0:3, or p in Iterations." in verdict.advice
    # A first iteration that warms up belongs to start-up.
    slow_first = [step_range(0, 0, 120 * MS), *(step_range(n, 110 * MS + n * 10 * MS, 10 * MS) for n in (1, 2, 3))]
    work = [launch(0, MS, iteration=0), *(launch(110 * MS + n * 10 * MS, 5 * MS, iteration=n) for n in (1, 2, 3))]
    after_warm_up = verdict_of("U1", trace_of(*work, ranges=slow_first))
    assert isinstance(after_warm_up, Found)
    assert "For 119 ms of the idle time the run was starting up, before iteration 1." in after_warm_up.problem
    # Without steady iterations, the advice names all iterations after start-up.
    uneven = [
        step_range(0, 0, 120 * MS),
        step_range(1, 120 * MS, 10 * MS),
        step_range(2, 130 * MS, 15 * MS),
        step_range(3, 145 * MS, 10 * MS),
    ]
    work = [launch(0, MS, iteration=0), *(launch(120 * MS + n * 10 * MS, 5 * MS, iteration=1 + n) for n in range(3))]
    without_steady = verdict_of("U1", trace_of(*work, ranges=uneven))
    assert isinstance(without_steady, Found)
    assert without_steady.advice == (
        "Start-up is a one-time cost. Look at the iterations after start-up: --iterations 1:3, or :aggregate 1:3."
    )
    # Idle time within iterations is not attributed to start-up.
    equal = [launch(n * 10 * MS, MS, iteration=n) for n in range(4)]
    without_start_up = verdict_of(
        "U1", trace_of(*equal, ranges=[step_range(n, n * 10 * MS, 10 * MS) for n in range(4)])
    )
    assert isinstance(without_start_up, Found)
    assert "starting up" not in without_start_up.problem


def test_few_long_gaps_are_pauses_and_many_short_ones_late_launches() -> None:
    """Kernels of 1 ms: 5 ms apart each, or 500 us apart with launches that come late."""
    paused = verdict_of(
        "U1", with_calls(*(launch_with_call(6 * n * MS, MS, 6 * n * MS - 9 * US, 5 * US, n + 1) for n in range(9)))
    )
    assert isinstance(paused, Found)
    assert paused.problem == (
        "GPU busy 18% (9 of 49 ms). 40 ms of the idle time is in 8 gaps of 1 ms or more. "
        "The CPU was mostly outside CUDA calls."
    )
    assert paused.cause == "CPU gaps"
    assert "CUDA graph" not in paused.advice
    late = verdict_of(
        "U1",
        with_calls(*(launch_with_call(600 * n * US, 100 * US, 600 * n * US - 9 * US, 5 * US, n + 1) for n in range(9))),
    )
    assert isinstance(late, Found)
    assert late.cause == ""
    assert "CUDA graph" in late.advice
    calls = [call(6 * n * MS + MS, 4 * MS, "cudaMalloc") for n in range(8)]
    work = [launch_with_call(6 * n * MS, MS, 6 * n * MS - 9 * US, 5 * US, n + 1) for n in range(9)]
    allocating = verdict_of("U1", with_calls(*work, calls=tuple(calls)))
    assert isinstance(allocating, Found)
    assert "The CPU was mostly in CUDA calls." in allocating.problem
    assert "allocates memory" in allocating.advice


def test_short_kernels_on_a_busy_gpu_are_clean() -> None:
    """Of a decode step, 200 kernels of 9 us between 10 of 1 ms: most are short, and the GPU waits for none."""
    work, start_ns = [], 0
    for n in range(210):
        duration_ns = MS if n % 21 == 0 else 9 * US
        work.append(launch(start_ns, duration_ns, GEMM if duration_ns == MS else ADD))
        start_ns += duration_ns + 100
    verdict = verdict_of("A2", trace_of(*work))
    assert isinstance(verdict, Clean)
    assert verdict.reason == (
        "95% of 210 launches take less than 10 µs, but the GPU idles for 0.17% of the wall time before them"
    )


def test_three_launches_of_one_kernel_are_a_run() -> None:
    """20 us apart and of 10 us each: two are no run, three idle for 20 us."""
    pair, run = ([launch(n * 20 * US, 10 * US, ADD) for n in range(launches)] for launches in (2, 3))
    assert clean_by("A7", trace_of(*pair)).reason == "runs of one short kernel take 0% of GPU time"
    assert found_by("A7", trace_of(*run)).cost_ns == 20 * US


def test_two_launches_are_too_few_to_judge() -> None:
    few = verdict_of("A2", trace_of(launch(0, 5 * US, ADD), launch(20 * US, 5 * US, ADD)))
    assert isinstance(few, NotApplicable)
    assert few.reason == "not enough data: 2 launches"


def test_rules_and_view_have_the_same_steady_iterations() -> None:
    """Of 23.6, 23.1, 29.2 and 32.4 ms after warm-up the view takes the first two with the one before them."""
    start_ns, work, steps = 0, [launch(0, MS)], []
    for n, duration_ms in enumerate((890, 25.6, 23.6, 23.1, 29.2, 32.4)):
        duration_ns = round(duration_ms * MS)
        steps.append(step_range(n, start_ns, duration_ns))
        work.append(launch(start_ns + duration_ns - 9 * MS, 9 * MS, iteration=n))
        start_ns += duration_ns
    profile = trace_of(*work, ranges=steps)
    times = iteration_times(profile).row(0, named=True)
    assert (times["steady_first"], times["steady_last"]) == (1, 3)
    expected = "--iterations 1:3, or p in Iterations."
    for rule in ("U1", "I2", "I10"):
        verdict = verdict_of(rule, profile)
        assert isinstance(verdict, Found)
        assert expected in verdict.advice
    assert [action.keys for action in ACTIONS if action.id == "iterations.steady"] == ["p"]


@pytest.mark.parametrize(("gap_ns", "is_found"), [(2 * US, False), (40 * US, True)])
def test_slow_launches_are_found_only_if_the_gpu_waits(gap_ns: int, is_found: bool) -> None:
    """Calls of 6 us for kernels of 2 us: a loss where the GPU idles between, none where other work fills the time."""
    period = 20 * US + 2 * US + gap_ns
    pairs = [
        pair
        for n in range(10)
        for pair in (
            launch_with_call(n * period, 20 * US, n * period - 14 * US, 6 * US, 2 * n + 1),
            launch_with_call(n * period + 20 * US, 2 * US, n * period - 7 * US, 6 * US, 2 * n + 2, name=ADD),
        )
    ]
    verdict = verdict_of("A3", with_calls(*pairs))
    assert isinstance(verdict, Found) is is_found
    assert isinstance(verdict, Found) or "the GPU does not wait" in verdict.reason  # type: ignore[union-attr]


def test_late_launches_state_their_part_in_long_gaps() -> None:
    work = [launch_with_call(0, 10 * US, -20 * US, 5 * US, 1), launch_with_call(50 * US, 10 * US, 40 * US, 5 * US, 2)]
    late = verdict_of("U6", with_calls(*work, launch_with_call(5 * MS, 10 * US, 5 * MS - 20 * US, 5 * US, 3)))
    assert isinstance(late, Found)
    assert (late.numbers["host_wait_ns"], late.numbers["long_ns"]) == (40 * US + 5 * MS - 60 * US, 5 * MS - 60 * US)
    assert "Gaps of 1 ms or more are 4.94 ms of it." in late.problem
    assert "long gaps" in late.advice


def test_the_cost_of_the_start_of_cuda_is_the_time_of_its_calls() -> None:
    """Of the calls that CUDA starts in, all that take long are named."""
    calls = [("cudaFree", 42), ("cudaMemGetInfo", 32), ("cudaStreamCreate", 25), ("cudaGetDeviceProperties", 1)]
    rows = [summary_row("api", name, 1, duration_ms * MS, max_ns=duration_ms * MS) for name, duration_ms in calls]
    verdict = verdict_of("A10", make_profile(summary=rows))
    assert isinstance(verdict, Found)
    assert verdict.problem.endswith("`cudaMemGetInfo` and `cudaStreamCreate` belong to it.")
    assert (
        verdict.advice == "Initialization is a one-time cost. Profile more iterations, or exclude it from comparisons."
    )
    assert (verdict.cost_ns, verdict.basis) == (99 * MS, "these calls, which a longer run makes only once")


def test_recorded_data_is_not_advised_for_long_gaps() -> None:
    for profile, expected in (
        (with_calls(launch_with_call(0, MS, 0, US, 1), launch_with_call(90 * MS, MS, 89 * MS, US, 2)), " name it."),
        (trace_of(launch(0, MS), launch(90 * MS, MS)), " and recorded API calls name it."),
    ):
        verdict = verdict_of("U2", profile)
        assert isinstance(verdict, Found)
        assert verdict.advice.endswith(f"NVTX ranges{expected}")


def test_a_late_first_iteration_names_its_start() -> None:
    steps = [step_range(n, 900 * MS + n * 10 * MS, 10 * MS) for n in range(4)]
    work = [launch_with_call(900 * MS + n * 10 * MS, MS, 900 * MS + n * 10 * MS, US, n) for n in range(4)]
    verdict = verdict_of("I10", with_calls(*work, calls=(call(0, MS, "cudaFree"),), ranges=steps))
    assert isinstance(verdict, Found)
    assert verdict.problem == "The first iteration begins 900 ms after the first API call (96% of the recording)."


def test_advice_for_one_of_several_ranks_is_to_open_all() -> None:
    """Communication that kernels hide can cost nothing; one rank's own recording does not say who is slow."""
    work = [launch(0, 10 * MS), launch(5 * MS, 15 * MS, NCCL, stream=9)]
    verdict = verdict_of("C1", trace_of(*work))
    assert isinstance(verdict, Found)
    assert (verdict.numbers["comm_ns"], verdict.cost_ns) == (15 * MS, 10 * MS)
    assert verdict.advice.startswith("If other ranks were recorded, open all together first")
    one_of_two = verdict_of("C1", make_profile(sessions=[{**SESSION, "rank": 0, "world_size": 2}], activities=work))
    assert isinstance(one_of_two, Found)
    assert one_of_two.advice.startswith("Open all ranks together first")


def test_the_cost_of_a_wait_is_the_idle_time_after_it() -> None:
    """Each wait lasts 9 ms: one ends while other work is queued, one in a gap of 2 ms, one at the end of the run."""
    first, second = launch_with_call(0, 10 * MS, 0, 10, 1), launch_with_call(10 * MS, 90 * MS, 20, 10, 2)
    last = launch_with_call(102 * MS, 10 * MS, 102 * MS - 10, 10, 3)
    waits = [call(start_ms * MS, 9 * MS, "cudaStreamSynchronize") for start_ms in (1, 91, 103)]
    costly = verdict_of("A1", with_calls(first, second, last, calls=waits[:2]))
    assert isinstance(costly, Found)
    assert (costly.cost_ns, costly.severity, costly.numbers["wait_ns"]) == (2 * MS, None, 18 * MS)
    assert "The GPU is idle for 2 ms after them, waiting for launches." in costly.problem
    free = verdict_of("A1", with_calls(first, second, last, calls=waits[2:]))
    assert isinstance(free, Clean)
    assert "but the GPU is busy meanwhile" in free.reason
    brief = verdict_of("A1", with_calls(first, second, last, calls=[call(99 * MS, MS + 10, "cudaStreamSynchronize")]))
    assert isinstance(brief, Clean)


def waits_for_copies(wait_ms: int = 9, direction: str = "HtoD") -> Profile:
    """Return four iterations of 20 ms: 9 ms of work, a copy and a wait that end with it, then ten late launches.

    Each of these starts 10 us after its call. The GPU idles 0.995 ms before the first, and 0.6 ms after each.
    """
    pairs, waits, ops = [], [], list[dict[str, Any]]()
    for n in range(4):
        begin, first = n * 20 * MS, n * 20 + 1
        pairs.append(launch_with_call(begin, 9 * MS, begin - 10 * US, 5 * US, first))
        copied = call(begin + 100 * US, 5 * US, "cudaMemcpyAsync", correlation=first + 1)
        pairs.append((transfer(begin + 9 * MS, 5 * US, direction, 4, correlation=first + 1), copied))
        waits.append(call(begin + 110 * US + (9 - wait_ms) * MS, wait_ms * MS, "cudaStreamSynchronize"))
        op = {"pid": 1, "tid": 1, "op_source": "recorded", "start_ns": begin + 90 * US}
        for name, duration_ns in (("aten::to", 9100 * US), ("aten::copy_", 9050 * US)):
            ops.append({**op, "op": len(ops), "name": name, "duration_ns": duration_ns})
        ops.append({**op, "pid": 2, "op": len(ops), "name": "aten::of_another_process", "duration_ns": 9040 * US})
        for k in range(10):
            start = begin + (10 + k) * MS
            pairs.append(launch_with_call(start, 400 * US, start - 10 * US, 5 * US, first + 2 + k, name=ADD))
    return with_calls(*pairs, calls=tuple(waits), ops=ops)


def test_a_wait_costs_what_the_cpu_could_have_launched_ahead() -> None:
    """Each wait lasts longer than the GPU idles before launches from then to the next wait: 3 x 6.995 and 6.395 ms."""
    found = found_by("A1", waits_for_copies())
    assert (found.cost_ns, found.numbers["calls"], found.numbers["wait_ns"]) == (27_380_000, 4, 36 * MS)
    assert found.problem.endswith(
        "The GPU is idle for 27.4 ms after them, waiting for launches. The longest wait is in `aten::copy_`."
    )
    bound = found_by("U6", waits_for_copies())
    assert (bound.cost_ns, bound.basis, bound.cause) == (None, "counted by A1", "synchronization")
    assert bound.numbers["host_wait_ns"] == 27_380_000
    # A wait delays launches by no more than its own duration.
    assert found_by("A1", waits_for_copies(1)).cost_ns == 4 * MS
    assert (found_by("U6", waits_for_copies(1)).cost_ns, found_by("U6", waits_for_copies(1)).cause) == (27_380_000, "")


def test_waits_before_the_iterations_are_a_one_time_cost() -> None:
    """A wait of 30 ms and a gap of 60 ms precede four iterations of 10 ms."""
    work = [
        launch_with_call(0, 30 * MS, 0, 10, 1),
        *(launch_with_call(90 * MS + n * 10 * MS, 9 * MS, 90 * MS + n * 10 * MS - 10, 10, n + 2) for n in range(4)),
    ]
    steps = [step_range(n, 90 * MS + n * 10 * MS, 10 * MS) for n in range(4)]
    wait = call(10 * US, 30 * MS, "cudaStreamSynchronize")
    found = found_by("A1", with_calls(*work, calls=(wait,), ranges=steps))
    assert (found.cause, found.cost_ns) == ("one-time cost", 30 * MS)
    assert found.problem.endswith(
        "1 call. 30 ms of it is before iteration 0. The GPU is idle for 30 ms after it, waiting for launches."
    )


def test_waits_after_copies_to_the_gpu_are_not_advised_to_read_results_later() -> None:
    assert found_by("A1", waits_for_copies()).advice == (
        "The CPU waits mostly after copies to the GPU: create tensors on the GPU, or copy pinned memory with "
        "non_blocking=True."
    )
    assert found_by("A1", waits_for_copies(direction="DtoH")).advice == (
        "Wait only where results are read, not after every step. .item(), .cpu() and print wait too: read results back "
        "later."
    )


def test_many_shapes_without_iterations_are_not_called_dynamic() -> None:
    """A model has layers of many sizes: only what differs from one iteration to the next is dynamic."""
    work = [launch(0, MS, "redzone_checker"), *(launch((n + 1) * MS, MS, SGEMM, grid_x=n + 1) for n in range(12))]
    assert isinstance(verdict_of("P12", trace_of(*work)), NotApplicable)


def test_communication_that_fills_the_busy_time_is_not_advised_to_copy_less() -> None:
    verdict = verdict_of("U8", trace_of(launch(0, MS), launch(MS, 9 * MS, NCCL, stream=9)))
    assert isinstance(verdict, Found)
    assert "communicate less often" in verdict.advice


def test_long_gaps_during_data_loading_are_reported_as_data_loading() -> None:
    work = [launch_with_call(n * 20 * MS, 10 * MS, n * 20 * MS - 5 * US, 3 * US, n + 1) for n in range(4)]
    loads = [
        {**step_range(n, n * 20 * MS + 10 * MS, 9 * MS), "name": "enumerate(DataLoader)#_next", "iteration": None}
        for n in range(3)
    ]
    for rule in ("U2", "U6"):
        with_loading, without_loading = (
            verdict_of(rule, with_calls(*work, ranges=loads)),
            verdict_of(rule, with_calls(*work)),
        )
        assert isinstance(with_loading, Found)
        assert isinstance(without_loading, Found)
        assert with_loading.advice.endswith("Input loading takes 27 ms of the idle time.")
        assert not without_loading.advice.startswith("Input loading")


def graph(start_ns: int, correlation: int) -> list[dict[str, Any]]:
    """Return two kernels of one graph launch."""
    return [
        launch(start_ns + 20 * US, 2 * US, ADD, correlation=correlation),
        launch(start_ns + 30 * US, 3 * US, GEMM, correlation=correlation),
    ]


def test_graph_launches_are_named_by_their_call() -> None:
    """Two graphs of 5 us, launched in 9 us each, and single kernels that are launched faster than they run."""
    calls = [call(number * MS, 9 * US, "cudaGraphLaunch", correlation=number) for number in (1, 2)]
    verdict = verdict_of("A3", trace_of(*graph(MS, 1), *graph(2 * MS, 2), api_calls=calls))
    assert isinstance(verdict, Found)
    assert verdict.problem.startswith(
        "100% of 2 launches take longer on the CPU than their kernel on the GPU; most often `cudaGraphLaunch`."
    )
    assert verdict.evidence is not None
    assert verdict.evidence.rows() == [("cudaGraphLaunch", 2, 5 * US, 9 * US)]
    # The filter finds the kernels of the graph by name.
    assert (verdict.view, verdict.filter) == ("kernels", f'name="{ADD}"')


def test_calls_without_correlation_id_or_thread_have_their_own_reason() -> None:
    work = [launch(n * MS, 5 * US, correlation=n) for n in (1, 2, 3)]
    calls = [call(n * MS - 9 * US, US, correlation=n if n == 1 else None, tid=None) for n in (1, 2, 3)]
    unlinked, without_thread = (verdict_of(rule, trace_of(*work, api_calls=calls)) for rule in ("A3", "A13"))
    assert isinstance(unlinked, NotApplicable)
    assert unlinked.reason == ("67% of kernels are not linked to their launch call: many calls have no correlation id")
    assert isinstance(without_thread, NotApplicable)
    assert without_thread.reason == "threads or times of calls are not recorded"
    without_launches = verdict_of("A13", trace_of(*work, api_calls=[call(0, US, "cudaMalloc")]))
    assert isinstance(without_launches, NotApplicable)
    assert without_launches.reason == "calls that launch single kernels are not recorded"


def test_no_name_is_most_frequent_if_two_are_equally_frequent() -> None:
    work = [launch(n * 20 * US, 5 * US, name) for n, name in enumerate((ADD, SGEMM) * 5)]
    equal, one_more = verdict_of("A2", trace_of(*work)), verdict_of("A2", trace_of(*work, launch(MS, 5 * US, SGEMM)))
    assert isinstance(equal, Found)
    assert equal.problem.endswith(" of GPU time).")
    assert isinstance(one_more, Found)
    assert one_more.problem.endswith("; most often `ampere_sgemm_128x64_tn`.")


@pytest.mark.parametrize(
    ("framework", "expected"),
    [
        ("JAX", "one jax.jit of more of the step, lax.scan"),
        ("TensorFlow", "tf.function(jit_compile=True)"),
        ("PyTorch 2.9", "torch.compile"),
        (None, "fuse "),
    ],
)
def test_advice_names_tools_of_the_framework(framework: str | None, expected: str) -> None:
    session = {**SESSION, "framework": framework}
    late = [launch_with_call(n * 100 * US, 5 * US, n * 100 * US - 9 * US, 6 * US, n + 1) for n in range(9)]
    for rule in ("U1", "U6", "A2"):
        verdict = verdict_of(rule, with_calls(*late, sessions=[session]))
        assert isinstance(verdict, Found)
        assert expected in verdict.advice


SLOW_CALLS: Final = [launch_with_call(n * MS, MS, n * 70 * US, 60 * US, n + 1) for n in range(4)]


def test_slow_calls_before_a_busy_gpu_cost_nothing() -> None:
    """Launches of 60 us each for kernels of 1 ms: the queue is never empty, or the GPU waits 4 ms for each."""
    busy = verdict_of("A4", with_calls(*SLOW_CALLS))
    assert isinstance(busy, Clean)
    late = verdict_of(
        "A4", with_calls(*(launch_with_call(5 * n * MS, MS, 5 * n * MS - 70 * US, 60 * US, n + 1) for n in range(4)))
    )
    assert isinstance(late, Found)
    assert (late.cost_ns, late.severity) == (4 * 60 * US, None)


def test_calls_named_kernel_launch_are_launches() -> None:
    calls = [{**call_row, "name": "[kernel launch]"} for _, call_row in SLOW_CALLS]
    verdict = verdict_of("A4", with_calls(*zip((work for work, _ in SLOW_CALLS), calls, strict=True)))
    assert isinstance(verdict, Clean)
    assert (verdict.numbers["slow"], verdict.numbers["calls"]) == (4, 4)
    waits = [call(call_row["start_ns"] + 61 * US, US, "cuStreamSynchronize") for call_row in calls]
    alternating = verdict_of("A13", with_calls(*zip((work for work, _ in SLOW_CALLS), calls, strict=True), calls=waits))
    assert isinstance(alternating, Found)
    assert alternating.numbers == {"launches": 4, "followed_pct": 100.0}


@pytest.mark.parametrize(("capability", "suggests_tf32"), [("7.0", False), ("7.5", False), ("8.0", True), (None, True)])
def test_tf32_is_not_suggested_for_older_tensor_cores(capability: str | None, suggests_tf32: bool) -> None:
    device = {"device": 0, "name": "a GPU", "compute_capability": capability, "sm_count": 80}
    if capability is None:
        device = A100
    verdict = verdict_of("P1", trace_of(launch(0, MS, SGEMM), devices=[device]))
    assert isinstance(verdict, Found)
    assert ("allow TF32" in verdict.advice) is suggests_tf32


def test_too_few_iterations_are_not_suggested_as_a_selection() -> None:
    work = [launch(0, MS), launch(90 * MS, 5 * MS, iteration=1)]
    verdict = verdict_of("U1", trace_of(*work, ranges=[step_range(0, 0, 90 * MS), step_range(1, 90 * MS, 5 * MS)]))
    assert isinstance(verdict, Found)
    assert "--iterations" not in verdict.advice


def test_findings_of_the_recording_tool_keep_their_text() -> None:
    issues = [
        {"severity": "warning", "text": "The driver is too new.", "reason": "reported by Nsight Systems"},
        {"severity": "warning", "text": "one more", "reason": "reported by Nsight Systems"},
    ]
    verdict = verdict_of("Q2", trace_of(launch(0, MS), issues=issues))
    assert isinstance(verdict, Found)
    assert (verdict.problem, verdict.advice) == (
        "Reported by Nsight Systems: The driver is too new. 1 more problem: see Issues.",
        "Some values may be missing or wrong. If they matter, fix the cause and record again.",
    )


def test_a_log_without_values_says_how_to_get_them() -> None:
    reason = "nvprof did not find its library libcuinj64.so: add the CUDA toolkit's lib64 to LD_LIBRARY_PATH"
    verdict = verdict_of("Q2", make_profile(sessions=[SESSION], issues=[{"severity": "error", "reason": reason}]))
    assert isinstance(verdict, Found)
    assert (verdict.problem, verdict.advice) == (f"{reason}.", "Fix the cause and record again.")


def test_an_evenly_idle_run_has_no_interval_with_a_separate_cost() -> None:
    """Thirty times 1 ms of work in 10 ms: U1 says so once, and U3 adds no second cost."""
    work = [*(launch(n * 10 * MS, MS) for n in range(30)), launch(299 * MS, MS)]
    evenly_idle = verdict_of("U3", trace_of(*work))
    assert isinstance(evenly_idle, Found)
    assert (evenly_idle.cost_ns, evenly_idle.problem) == (
        None,
        "GPU busy less than 50% in each of 30 equal parts of the run.",
    )
    partly_idle = verdict_of("U3", trace_of(launch(300 * MS, 300 * MS), *work))
    assert isinstance(partly_idle, Found)
    assert partly_idle.problem.startswith("GPU busy less than 50% in 1 stretch of the run.")
    assert partly_idle.cost_ns is not None


def test_the_cost_of_waits_is_unknown_for_printed_totals() -> None:
    work = summary_row("gpu", GEMM, 9, 90 * MS)
    # A few waits are necessary to read results.
    few_waits = verdict_of("A1", make_profile(summary=[work, summary_row("api", "cudaDeviceSynchronize", 99, 60 * MS)]))
    assert isinstance(few_waits, Clean)
    assert few_waits.reason == "the CPU waits 60 ms in 99 calls, no longer than the GPU works"
    many_waits = verdict_of(
        "A1", make_profile(summary=[work, summary_row("api", "cudaDeviceSynchronize", 100, 60 * MS)])
    )
    assert isinstance(many_waits, Found)
    assert (many_waits.cost_ns, many_waits.severity, many_waits.numbers["wait_ns"]) == (None, Severity.INFO, 60 * MS)


def test_several_kernels_with_few_blocks_are_counted() -> None:
    one_kernel = verdict_of("L2", trace_of(launch(0, MS, grid_x=27)))
    assert isinstance(one_kernel, Found)
    assert one_kernel.problem.startswith("1 significant kernel has fewer blocks than the GPU has SMs.")
    two_kernels = verdict_of("L2", trace_of(launch(0, MS, grid_x=27), launch(MS, MS, ADD, grid_x=64)))
    assert isinstance(two_kernels, Found)
    assert two_kernels.problem.startswith("2 significant kernels have fewer blocks than the GPU has SMs.")


def test_one_replay_of_a_graph_is_in_the_singular() -> None:
    graph = {**launch(0, MS, "CUDA graph 1"), "kind": "graph"}
    one_replay = verdict_of("Q6", trace_of(graph))
    assert isinstance(one_replay, Found)
    assert one_replay.problem == (
        "1 CUDA graph replay is recorded without its kernels: 1 ms, 100% of kernel time. It counts as busy time."
    )
    two_replays = verdict_of("Q6", trace_of(graph, {**graph, "start_ns": 2 * MS}))
    assert isinstance(two_replays, Found)
    assert two_replays.problem.startswith("2 CUDA graph replays are recorded without their kernels: ")
    assert two_replays.problem.endswith(" They count as busy time.")


def test_a_dlprof_database_without_configuration_has_its_own_reason() -> None:
    without_dlprof = verdict_of("P6", trace_of(launch(0, MS)))
    assert isinstance(without_dlprof, NotApplicable)
    assert without_dlprof.reason == "only DLProf records the model configuration"
    dlprof = verdict_of("P6", trace_of(launch(0, MS), sessions=[{"session": 0, "format": "dlprof-database"}]))
    assert isinstance(dlprof, NotApplicable)
    assert dlprof.reason == "this DLProf output has no model configuration"


def test_collectives_recorded_as_ranges_explain_idle_time() -> None:
    """Two kernels of 10 ms, from 0 and from 90 ms, and a collective of Huawei's from 5 to 85 ms."""
    collective = {"name": "hcom_allReduce", "domain": "HCCL", "start_ns": 5 * MS, "duration_ns": 80 * MS}
    profile = trace_of(launch(0, 10 * MS), launch(90 * MS, 10 * MS), ranges=[collective])
    share, idle, overlap = (verdict_of(rule, profile) for rule in ("C1", "U1", "C2"))
    assert isinstance(share, Found)
    assert share.problem == "Communication takes 80 ms (80% of the wall time), mostly `hcom_allReduce`."
    assert share.cost_ns == 75 * MS
    assert isinstance(idle, Found)
    assert (idle.cause, idle.problem) == (
        "communication",
        "GPU busy 20% (20 of 100 ms). For 75 ms of the idle time collectives ran, which are not recorded as kernels.",
    )
    assert isinstance(overlap, NotApplicable)


def test_copies_and_kernels_of_different_gpus_cannot_overlap() -> None:
    """GPU 0 copies for 6 of 10 ms and computes for 1; GPU 1 computes for 10 ms."""
    work = [transfer(0, 6 * MS), launch(9 * MS, MS), launch(0, 10 * MS, device=1)]
    verdict = found_by("T3", trace_of(*work, devices=[A100, {**A100, "device": 1}]))
    assert (verdict.numbers["overlap_pct"], verdict.cost_ns) == (0.0, MS)


def test_copies_of_different_gpus_have_no_two_ways() -> None:
    """GPU 0 has 5 ms to the device and 1 ms back, GPU 1 5 ms back: 1 ms can overlap. Else each has one direction."""
    devices = [A100, {**A100, "device": 1}]
    ways = [*(transfer(n * MS, MS) for n in range(5)), *(transfer(n * MS, MS, "DtoH", device=1) for n in range(5))]
    back = transfer(6 * MS, MS, "DtoH")
    assert found_by("T4", trace_of(*ways, back, launch(8 * MS, MS), devices=devices)).cost_ns == MS
    verdict = verdict_of("T4", trace_of(*ways, launch(8 * MS, MS), devices=devices))
    assert isinstance(verdict, Clean)
    assert verdict.reason == "no GPU has copies of both directions"


def test_driver_calls_within_runtime_calls_cost_no_time_of_their_own() -> None:
    """Two calls of 4 ms after the first iteration, each with a driver call of 3 ms in it."""
    steps = [step_range(n, n * 10 * MS, 10 * MS) for n in range(3)]
    pairs = [launch_with_call(n * 10 * MS, MS, n * 10 * MS, 10, n + 1) for n in range(3)]
    for rule, runtime, driver in (
        ("A8", "cudaMalloc", "cuMemAlloc_v2"),
        ("A9", "cudaLibraryLoadData", "cuLibraryLoadData"),
    ):
        calls = [
            call(n * 10 * MS + offset_ns, duration_ns, name)
            for n in (1, 2)
            for name, offset_ns, duration_ns in ((runtime, 2 * MS, 4 * MS), (driver, 2 * MS + 9, 3 * MS))
        ]
        end = launch_with_call(29 * MS, MS, 29 * MS, 10, 9)
        verdict = found_by(rule, with_calls(*pairs, end, calls=tuple(calls), ranges=steps))
        assert verdict.cost_ns == 8 * MS, rule
    slow = call(20 * MS, 80 * US, "cudaLaunchKernel"), call(20 * MS + 9, 70 * US, "cuLaunchKernel")
    verdict = found_by("A4", with_calls(*pairs, calls=slow, ranges=steps))
    assert (verdict.numbers["slow_ns"], verdict.cost_ns) == (80 * US, 80 * US)


def test_a_garbage_collection_in_an_nvtx_range_counts_once() -> None:
    ranges = [{**step_range(0, 0, 5 * MS), "name": "gc", "iteration": None}]
    op = {"op": 0, "name": "gc", "start_ns": 0, "duration_ns": 5 * MS, "pid": 1, "tid": 1, "op_source": "nvtx"}
    verdict = found_by("A14", trace_of(launch(0, MS), ranges=ranges, ops=[op]))
    assert (verdict.numbers, verdict.cost_ns) == ({"collections": 1, "collect_ns": 5 * MS}, 5 * MS)


def test_a_short_first_iteration_does_not_make_start_up_cheaper() -> None:
    """Iterations of 2, 10, 10 and 10 ms begin 900 ms after the first call."""
    starts_ms = (900, 902, 912, 922)
    steps = [step_range(n, start * MS, (10 if n else 2) * MS) for n, start in enumerate(starts_ms)]
    work = [launch_with_call(start * MS, MS, start * MS, US, n + 1) for n, start in enumerate(starts_ms)]
    assert found_by("I10", with_calls(*work, calls=(call(0, MS, "cudaFree"),), ranges=steps)).cost_ns == 900 * MS


def test_ops_of_sampling_that_call_each_other_count_once() -> None:
    """aten::multinomial takes 5 ms of each step of 10 ms, 3 ms of them in aten::argmax."""
    steps = serving_profile(*[("step[DECODE bs=3]", 10 * MS, MS)] * 2, op={"name": "aten::multinomial"}, launches=False)
    outer = steps["ops"]
    inner = outer.with_columns(name=pl.lit("aten::argmax"), duration_ns=3 * MS, op=pl.col("op") + 2, parent="op")
    frames = {**steps.frames, "ops": pl.concat([outer, conform("ops", inner)])}
    verdict = found_by("I17", replace(steps, frames=frames))
    assert (verdict.numbers["cpu_ns"], verdict.numbers["cpu_pct"], verdict.cost_ns) == (10 * MS, 50.0, 10 * MS)


def test_loading_after_the_wall_time_is_not_a_share_of_it() -> None:
    """The wall time is from 0 to 10 ms, that of the op and its kernels; a call of 15 ms begins at 6 ms."""
    op = {"op": 0, "name": "aten::mm", "start_ns": 0, "duration_ns": 10 * MS, "pid": 1, "tid": 1}
    work = [launch_with_call(n * 9 * MS, MS, n * 9 * MS, 10, n + 1) for n in range(2)]
    verdict = found_by("A9", with_calls(*work, calls=(call(6 * MS, 15 * MS, "cuModuleLoadData"),), ops=[op]))
    assert (verdict.cost_ns, verdict.numbers["share_pct"]) == (4 * MS, 40.0)
