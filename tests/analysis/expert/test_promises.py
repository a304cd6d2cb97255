"""Findings name what is to be changed, and promise no more than that can gain."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.analysis.expert.judging import ask
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
    launched,
    run,
    step,
    traced,
    with_calls,
)
from tests.analysis.frames import make_profile, summary_row
from tui.analysis.expert.rule import Clean, Found, NotApplicable, Severity
from tui.analysis.iterations.times import iteration_times
from tui.keys import ACTIONS


def test_work_around_products_is_no_promise_of_tensor_cores() -> None:
    """Of 6 ms in eligible ops that use none, 2 ms are changes of layout: half of the other 4 ms can be gained."""
    conv = {"name": "aten::cudnn_convolution", "tid": 1, "pid": 1, "op_source": "recorded"}
    ops = [{**conv, "op": 0, "start_ns": 0, "duration_ns": 100 * MS}]
    layout = "void nchwToNhwcKernel<float>(int)"
    work = [run(0, 4 * MS, SGEMM, op=0), run(4 * MS, 4 * MS, GEMM, op=0), run(8 * MS, 2 * MS, layout, op=0)]
    mixed = ask("P2", traced(*work, ops=ops))
    assert isinstance(mixed, Found)
    assert (mixed.cost_ns, mixed.numbers["could_ns"], mixed.numbers["around_ns"]) == (2 * MS, 4 * MS, 2 * MS)
    assert "Eligible kernels without them take 4 ms, mostly `ampere_sgemm_128x64_tn`. " in mixed.problem
    none = ask("P1", traced(work[0], work[2], ops=ops))
    assert isinstance(none, Found)
    assert (none.cost_ns, none.numbers["eligible_ns"]) == (2 * MS, 6 * MS)
    assert "`ampere_sgemm_128x64_tn`" in none.problem
    assert isinstance(ask("P2", traced(work[1], work[2], ops=ops)), Clean)


def test_an_idle_gap_is_not_attributed_to_short_kernels_or_a_chain() -> None:
    """Ten kernels 20 us apart, then one after a gap of 10 ms: the gap is U2's, not what launching less would gain."""
    work = [run(n * 20 * US, 5 * US, ADD) for n in range(10)]
    short = ask("A2", traced(*work, run(10 * MS, 5 * US, ADD)))
    assert isinstance(short, Found)
    assert short.cost_ns == 9 * 15 * US
    assert "take less than 10 µs:" in short.problem
    pairs = [run(n * 3 * MS + at, 5 * US, name) for n in range(10) for at, name in ((0, ADD), (1 * MS + 5 * US, SGEMM))]
    assert isinstance(ask("P11", traced(*pairs)), Clean)
    near = [run(n * 3 * MS + at, 5 * US, name) for n in range(10) for at, name in ((0, ADD), (1 * MS, SGEMM))]
    chain = ask("P11", traced(*near))
    assert isinstance(chain, Found)
    assert chain.cost_ns == 10 * (MS - 5 * US)


@pytest.mark.parametrize(("rule", "nearly"), [("L2", 107), ("L3", 850)])
def test_the_kernel_that_leaves_most_of_the_gpu_empty_is_named_first(rule: str, nearly: int) -> None:
    """Of 108 SMs, or of a wave of 864 blocks, nearly all is filled for 4 ms, and little for 1 ms: that wastes more."""
    verdict = ask(rule, traced(run(0, 4 * MS, GEMM, grid_x=nearly), run(4 * MS, MS, ADD, grid_x=27)))
    assert isinstance(verdict, Found)
    assert verdict.problem.count("`at::native::vectorized_elementwise_kernel`") == 1
    assert verdict.evidence is not None
    assert verdict.evidence["grid"].to_list() == ["(27 1 1)", f"({nearly} 1 1)"]


def test_a_last_wave_that_is_nearly_full_is_no_tail() -> None:
    """On 108 SMs with 8 blocks each a wave is 864 blocks: 1.94 waves lose 3% of a launch, 1.04 nearly half."""
    assert isinstance(ask("L4", traced(run(0, MS, grid_x=1676))), Clean)
    one = ask("L4", traced(run(0, MS, grid_x=900)))
    assert isinstance(one, Found)
    assert one.problem.endswith("of the GPU.")
    two = ask("L4", traced(run(0, MS, grid_x=900), run(MS, MS, ADD, grid_x=900)))
    assert isinstance(two, Found)
    assert two.problem.endswith(" 1 more significant kernel has a tail.")


def test_a_run_that_is_mostly_start_up_is_to_be_judged_without_it() -> None:
    """90 ms without work before four iterations of 10 ms: what follows is what counts."""
    work = [run(0, MS), *(run(90 * MS + n * 10 * MS, 5 * MS, iteration=n) for n in range(4))]
    steps = [step(n, 90 * MS + n * 10 * MS, 10 * MS) for n in range(4)]
    whole = ask("U1", traced(*work, ranges=steps))
    assert isinstance(whole, Found)
    assert "For 89 ms of the idle time the run was starting up, before iteration 0." in whole.problem
    assert "Look at the steady iterations: --iterations 0:3, or p in Iterations." in whole.advice
    # The first iteration warms up: it is no cost of the others either.
    slow = [step(0, 0, 120 * MS), *(step(n, 110 * MS + n * 10 * MS, 10 * MS) for n in (1, 2, 3))]
    work = [run(0, MS, iteration=0), *(run(110 * MS + n * 10 * MS, 5 * MS, iteration=n) for n in (1, 2, 3))]
    first = ask("U1", traced(*work, ranges=slow))
    assert isinstance(first, Found)
    assert "For 119 ms of the idle time the run was starting up, before iteration 1." in first.problem
    # Where none are steady, all that are warm are left.
    uneven = [step(0, 0, 120 * MS), step(1, 120 * MS, 10 * MS), step(2, 130 * MS, 15 * MS), step(3, 145 * MS, 10 * MS)]
    work = [run(0, MS, iteration=0), *(run(120 * MS + n * 10 * MS, 5 * MS, iteration=1 + n) for n in range(3))]
    rest = ask("U1", traced(*work, ranges=uneven))
    assert isinstance(rest, Found)
    assert rest.advice == (
        "Start-up is paid once. Look at the iterations after start-up: --iterations 1:3, or :aggregate 1:3."
    )
    # Where the idle time is between what repeats, start-up is not to blame.
    even = [run(n * 10 * MS, MS, iteration=n) for n in range(4)]
    spread = ask("U1", traced(*even, ranges=[step(n, n * 10 * MS, 10 * MS) for n in range(4)]))
    assert isinstance(spread, Found)
    assert "starting up" not in spread.problem


def test_few_long_gaps_are_pauses_of_the_cpu_and_many_short_ones_are_launches() -> None:
    """Kernels of 1 ms: 5 ms apart each, or 500 us apart with launches that come late."""
    paused = ask("U1", with_calls(*(launched(6 * n * MS, MS, 6 * n * MS - 9 * US, 5 * US, n + 1) for n in range(9))))
    assert isinstance(paused, Found)
    assert paused.problem == (
        "GPU busy 18% (9 of 49 ms). 40 ms of the idle time is in 8 gaps of 1 ms or more. "
        "The CPU was mostly outside CUDA calls."
    )
    assert paused.cause == "CPU pauses"
    assert "CUDA graph" not in paused.advice
    late = ask(
        "U1", with_calls(*(launched(600 * n * US, 100 * US, 600 * n * US - 9 * US, 5 * US, n + 1) for n in range(9)))
    )
    assert isinstance(late, Found)
    assert late.cause == ""
    assert "CUDA graph" in late.advice
    in_calls = [call(6 * n * MS + MS, 4 * MS, "cudaMalloc") for n in range(8)]
    work = [launched(6 * n * MS, MS, 6 * n * MS - 9 * US, 5 * US, n + 1) for n in range(9)]
    allocating = ask("U1", with_calls(*work, calls=tuple(in_calls)))
    assert isinstance(allocating, Found)
    assert "The CPU was mostly in CUDA calls." in allocating.problem
    assert "allocation" in allocating.advice


def test_short_kernels_on_a_busy_gpu_are_no_finding() -> None:
    """Of a decode step, 200 kernels of 9 us between 10 of 1 ms: most are short, and the GPU waits for none."""
    work, at = [], 0
    for n in range(210):
        took = MS if n % 21 == 0 else 9 * US
        work.append(run(at, took, GEMM if took == MS else ADD))
        at += took + 100
    verdict = ask("A2", traced(*work))
    assert isinstance(verdict, Clean)
    assert verdict.reason == (
        "95% of 210 launches take less than 10 µs, but the GPU idles for 0.17% of the wall time before them"
    )


def test_two_launches_are_no_pattern() -> None:
    few = ask("A2", traced(run(0, 5 * US, ADD), run(20 * US, 5 * US, ADD)))
    assert isinstance(few, NotApplicable)
    assert few.reason == "not enough data: 2 launches"


def test_the_steady_iterations_of_the_rules_are_those_that_the_view_of_them_proposes() -> None:
    """Of 23.6, 23.1, 29.2 and 32.4 ms after warm-up the view takes the first two with the one before them."""
    begin, work, steps = 0, [run(0, MS)], []
    for n, took in enumerate((890, 25.6, 23.6, 23.1, 29.2, 32.4)):
        length = round(took * MS)
        steps.append(step(n, begin, length))
        work.append(run(begin + length - 9 * MS, 9 * MS, iteration=n))
        begin += length
    profile = traced(*work, ranges=steps)
    times = iteration_times(profile).row(0, named=True)
    assert (times["steady_first"], times["steady_last"]) == (1, 3)
    expected = "--iterations 1:3, or p in Iterations."
    for rule in ("U1", "I2", "I10"):
        verdict = ask(rule, profile)
        assert isinstance(verdict, Found)
        assert expected in verdict.advice
    assert [action.keys for action in ACTIONS if action.id == "iterations.steady"] == ["p"]


@pytest.mark.parametrize(("gap", "costs"), [(2 * US, False), (40 * US, True)])
def test_slow_launches_are_found_only_where_the_gpu_waits_for_them(gap: int, costs: bool) -> None:
    """Calls of 6 us for kernels of 2 us: a loss where the GPU idles between, none where other work fills the time."""
    period = 20 * US + 2 * US + gap
    pairs = [
        pair
        for n in range(10)
        for pair in (
            launched(n * period, 20 * US, n * period - 14 * US, 6 * US, 2 * n + 1),
            launched(n * period + 20 * US, 2 * US, n * period - 7 * US, 6 * US, 2 * n + 2, name=ADD),
        )
    ]
    verdict = ask("A3", with_calls(*pairs))
    assert isinstance(verdict, Found) is costs
    assert isinstance(verdict, Found) or "the GPU does not wait" in verdict.reason  # type: ignore[union-attr]


def test_late_launches_state_their_part_in_long_gaps() -> None:
    work = [launched(0, 10 * US, -20 * US, 5 * US, 1), launched(50 * US, 10 * US, 40 * US, 5 * US, 2)]
    late = ask("U6", with_calls(*work, launched(5 * MS, 10 * US, 5 * MS - 20 * US, 5 * US, 3)))
    assert isinstance(late, Found)
    assert (late.numbers["host_wait_ns"], late.numbers["long_ns"]) == (40 * US + 5 * MS - 60 * US, 5 * MS - 60 * US)
    assert "Gaps of 1 ms or more are 4.94 ms of it." in late.problem
    assert "long gaps" in late.advice


def test_the_cost_of_cudas_start_is_what_its_calls_take() -> None:
    """Of the calls that CUDA starts in, all that take long are named."""
    calls = [("cudaFree", 42), ("cudaMemGetInfo", 32), ("cudaStreamCreate", 25), ("cudaGetDeviceProperties", 1)]
    rows = [summary_row("api", name, 1, took * MS, max_ns=took * MS) for name, took in calls]
    result = ask("A10", make_profile(summary=rows))
    assert isinstance(result, Found)
    assert result.problem.endswith("`cudaMemGetInfo` and `cudaStreamCreate` belong to it.")
    assert result.advice == "CUDA starts once. Profile more iterations, or leave start-up out of what you compare."
    assert (result.cost_ns, result.basis) == (99 * MS, "these calls, which a longer run pays only once")


def test_recorded_data_is_not_advised_for_long_gaps() -> None:
    for made, words in (
        (with_calls(launched(0, MS, 0, US, 1), launched(90 * MS, MS, 89 * MS, US, 2)), " name it."),
        (traced(run(0, MS), run(90 * MS, MS)), " and recorded API calls name it."),
    ):
        result = ask("U2", made)
        assert isinstance(result, Found)
        assert result.advice.endswith(f"NVTX ranges{words}")


def test_a_late_first_iteration_names_its_start() -> None:
    steps = [step(n, 900 * MS + n * 10 * MS, 10 * MS) for n in range(4)]
    work = [launched(900 * MS + n * 10 * MS, MS, 900 * MS + n * 10 * MS, US, n) for n in range(4)]
    result = ask("I10", with_calls(*work, calls=(call(0, MS, "cudaFree"),), ranges=steps))
    assert isinstance(result, Found)
    assert result.problem == "The first iteration begins 900 ms after the first API call (96% of the recording)."


def test_one_rank_alone_may_wait_for_another() -> None:
    """Communication that kernels hide can cost nothing; one rank's own recording does not say who is slow."""
    talking = [run(0, 10 * MS), run(5 * MS, 15 * MS, NCCL, stream=9)]
    verdict = ask("C1", traced(*talking))
    assert isinstance(verdict, Found)
    assert (verdict.numbers["comm_ns"], verdict.cost_ns) == (15 * MS, 10 * MS)
    assert verdict.advice.startswith("If other ranks were recorded, open all together first")
    alone = ask("C1", make_profile(sessions=[{**SESSION, "rank": 0, "world_size": 2}], activities=talking))
    assert isinstance(alone, Found)
    assert alone.advice.startswith("Open all ranks together first")


def test_a_wait_costs_what_the_gpu_idles_after_it() -> None:
    """Each wait lasts 9 ms: one ends while other work is queued, one in a hole of 2 ms, one at the end of the run."""
    first, second = launched(0, 10 * MS, 0, 10, 1), launched(10 * MS, 90 * MS, 20, 10, 2)
    last = launched(102 * MS, 10 * MS, 101 * MS, 10, 3)
    waits = [call(at * MS, 9 * MS, "cudaStreamSynchronize") for at in (1, 91, 103)]
    costly = ask("A1", with_calls(first, second, last, calls=waits[:2]))
    assert isinstance(costly, Found)
    assert (costly.cost_ns, costly.severity, costly.numbers["wait_ns"]) == (2 * MS, None, 18 * MS)
    assert "The GPU is idle for 2 ms right after them." in costly.problem
    free = ask("A1", with_calls(first, second, last, calls=[waits[0], waits[2]]))
    assert isinstance(free, Clean)
    assert "but the GPU is busy meanwhile" in free.reason
    brief = ask("A1", with_calls(first, second, last, calls=[call(99 * MS, MS + 10, "cudaStreamSynchronize")]))
    assert isinstance(brief, Clean)


def test_many_shapes_without_iterations_are_not_called_dynamic() -> None:
    """A model has layers of many sizes: only what differs from one iteration to the next is dynamic."""
    work = [run(0, MS, "redzone_checker"), *(run((n + 1) * MS, MS, SGEMM, grid_x=n + 1) for n in range(12))]
    assert isinstance(ask("P12", traced(*work)), NotApplicable)


def test_communication_that_fills_the_busy_time_is_not_advised_to_copy_less() -> None:
    verdict = ask("U8", traced(run(0, MS), run(MS, 9 * MS, NCCL, stream=9)))
    assert isinstance(verdict, Found)
    assert "communicate less often" in verdict.advice


def test_long_gaps_during_data_loading_are_reported_as_data_loading() -> None:
    holes = [launched(n * 20 * MS, 10 * MS, n * 20 * MS - 5 * US, 3 * US, n + 1) for n in range(4)]
    loads = [
        {**step(n, n * 20 * MS + 10 * MS, 9 * MS), "name": "enumerate(DataLoader)#_next", "iteration": None}
        for n in range(3)
    ]
    for rule in ("U2", "U6"):
        result, inapplicable = ask(rule, with_calls(*holes, ranges=loads)), ask(rule, with_calls(*holes))
        assert isinstance(result, Found)
        assert isinstance(inapplicable, Found)
        assert result.advice.endswith("Input loading takes 27 ms of the idle time.")
        assert not inapplicable.advice.startswith("Input loading")


def graph(at: int, number: int) -> list[dict[str, Any]]:
    """Two kernels that one call launched."""
    return [run(at + 20 * US, 2 * US, ADD, correlation=number), run(at + 30 * US, 3 * US, GEMM, correlation=number)]


def test_a_call_that_launched_a_graph_is_named_itself() -> None:
    """Two graphs of 5 us, launched in 9 us each, and single kernels that are launched faster than they run."""
    calls = [call(at * MS, 9 * US, "cudaGraphLaunch", correlation=at) for at in (1, 2)]
    verdict = ask("A3", traced(*graph(MS, 1), *graph(2 * MS, 2), api_calls=calls))
    assert isinstance(verdict, Found)
    assert verdict.problem.startswith(
        "100% of 2 launches take longer on the CPU than their kernel on the GPU; most often `cudaGraphLaunch`."
    )
    assert verdict.evidence is not None
    assert verdict.evidence.rows() == [("cudaGraphLaunch", 2, 5 * US, 9 * US)]
    # Its kernels have names of their own, by which they are found.
    assert (verdict.view, verdict.filter) == ("kernels", f'name="{ADD}"')


def test_calls_that_are_recorded_without_an_id_or_a_thread_are_not_reported_as_missing() -> None:
    work = [run(n * MS, 5 * US, correlation=n) for n in (1, 2, 3)]
    calls = [call(n * MS - 9 * US, US, correlation=n if n == 1 else None, tid=None) for n in (1, 2, 3)]
    unlinked, on_no_thread = (ask(rule, traced(*work, api_calls=calls)) for rule in ("A3", "A13"))
    assert isinstance(unlinked, NotApplicable)
    assert unlinked.reason == ("67% of kernels are not linked to their launch call: many calls have no correlation id")
    assert isinstance(on_no_thread, NotApplicable)
    assert on_no_thread.reason == "threads or times of calls are not recorded"
    other = ask("A13", traced(*work, api_calls=[call(0, US, "cudaMalloc")]))
    assert isinstance(other, NotApplicable)
    assert other.reason == "calls that launch single kernels are not recorded"


def test_nothing_is_reported_to_come_most_often_where_two_names_come_equally_often() -> None:
    work = [run(n * 20 * US, 5 * US, name) for n, name in enumerate((ADD, SGEMM) * 5)]
    even, more = ask("A2", traced(*work)), ask("A2", traced(*work, run(MS, 5 * US, SGEMM)))
    assert isinstance(even, Found)
    assert even.problem.endswith(" of GPU time.")
    assert isinstance(more, Found)
    assert more.problem.endswith("; most often `ampere_sgemm_128x64_tn`.")


@pytest.mark.parametrize(
    ("framework", "words"),
    [
        ("JAX", "one jax.jit of more of the step, lax.scan"),
        ("TensorFlow", "tf.function(jit_compile=True)"),
        ("PyTorch 2.9", "torch.compile"),
        (None, "fuse "),
    ],
)
def test_advice_speaks_of_the_framework_of_the_session(framework: str | None, words: str) -> None:
    session = {**SESSION, "framework": framework}
    late = [launched(n * 100 * US, 5 * US, n * 100 * US - 9 * US, 6 * US, n + 1) for n in range(9)]
    for rule in ("U1", "U6", "A2"):
        verdict = ask(rule, with_calls(*late, sessions=[session]))
        assert isinstance(verdict, Found)
        assert words in verdict.advice


SLOW_CALLS: Final = [launched(n * MS, MS, n * 70 * US, 60 * US, n + 1) for n in range(4)]


def test_slow_calls_before_a_busy_gpu_cost_nothing() -> None:
    """Launches of 60 us each for kernels of 1 ms: the queue is never empty, or the GPU waits 4 ms for each."""
    busy = ask("A4", with_calls(*SLOW_CALLS))
    assert isinstance(busy, Clean)
    late = ask("A4", with_calls(*(launched(5 * n * MS, MS, 5 * n * MS - 70 * US, 60 * US, n + 1) for n in range(4))))
    assert isinstance(late, Found)
    assert (late.cost_ns, late.severity) == (4 * 60 * US, None)


def test_launches_that_a_trace_calls_by_their_kernels_are_launches() -> None:
    named = [{**made, "name": "[kernel launch]"} for _, made in SLOW_CALLS]
    result = ask("A4", with_calls(*zip((work for work, _ in SLOW_CALLS), named, strict=True)))
    assert isinstance(result, Clean)
    assert (result.numbers["slow"], result.numbers["calls"]) == (4, 4)
    waits = [call(made["start_ns"] + 61 * US, US, "cuStreamSynchronize") for made in named]
    taking_turns = ask("A13", with_calls(*zip((work for work, _ in SLOW_CALLS), named, strict=True), calls=waits))
    assert isinstance(taking_turns, Found)
    assert taking_turns.numbers == {"launches": 4, "followed_pct": 100.0}


@pytest.mark.parametrize(("capability", "tf32"), [("7.0", False), ("7.5", False), ("8.0", True), (None, True)])
def test_what_old_tensor_cores_cannot_do_is_not_advised(capability: str | None, tf32: bool) -> None:
    device = {"device": 0, "name": "a GPU", "compute_capability": capability, "sm_count": 80}
    if capability is None:
        device = A100
    verdict = ask("P1", traced(run(0, MS, SGEMM), devices=[device]))
    assert isinstance(verdict, Found)
    assert ("allow TF32" in verdict.advice) is tf32


def test_too_few_iterations_are_not_advised_to_be_judged_alone() -> None:
    work = [run(0, MS), run(90 * MS, 5 * MS, iteration=1)]
    verdict = ask("U1", traced(*work, ranges=[step(0, 0, 90 * MS), step(1, 90 * MS, 5 * MS)]))
    assert isinstance(verdict, Found)
    assert "--iterations" not in verdict.advice


def test_findings_of_the_recording_tool_keep_their_words() -> None:
    issues = [
        {"severity": "warning", "text": "The driver is too new.", "reason": "reported by Nsight Systems"},
        {"severity": "warning", "text": "one more", "reason": "reported by Nsight Systems"},
    ]
    verdict = ask("Q2", traced(run(0, MS), issues=issues))
    assert isinstance(verdict, Found)
    assert verdict.problem == ("2 issues while reading; the first: reported by Nsight Systems: The driver is too new.")


def test_a_run_that_is_idle_all_along_has_no_stretch_of_its_own() -> None:
    """Thirty times 1 ms of work in 10 ms: U1 says so once, and U3 adds no second cost."""
    work = [*(run(n * 10 * MS, MS) for n in range(30)), run(299 * MS, MS)]
    even = ask("U3", traced(*work))
    assert isinstance(even, Found)
    assert (even.cost_ns, even.problem) == (None, "GPU busy less than 50% in each of 30 equal parts of the run.")
    part = ask("U3", traced(run(300 * MS, 300 * MS), *work))
    assert isinstance(part, Found)
    assert part.problem.startswith("GPU busy less than 50% in 1 stretch of the run.")
    assert part.cost_ns is not None


def test_totals_do_not_hold_the_cost_of_waits() -> None:
    work = summary_row("gpu", GEMM, 9, 90 * MS)
    # A few waits are those for results.
    few = ask("A1", make_profile(summary=[work, summary_row("api", "cudaDeviceSynchronize", 99, 60 * MS)]))
    assert isinstance(few, Clean)
    assert few.reason == "the CPU waits 60 ms in 99 calls, no longer than the GPU works"
    verdict = ask("A1", make_profile(summary=[work, summary_row("api", "cudaDeviceSynchronize", 100, 60 * MS)]))
    assert isinstance(verdict, Found)
    assert (verdict.cost_ns, verdict.severity, verdict.numbers["wait_ns"]) == (None, Severity.INFO, 60 * MS)


def test_kernels_of_fewer_blocks_than_sms_are_counted_without_the_blocks_of_one() -> None:
    one = ask("L2", traced(run(0, MS, grid_x=27)))
    assert isinstance(one, Found)
    assert one.problem.startswith("1 significant kernel has fewer blocks than the GPU has SMs.")
    two = ask("L2", traced(run(0, MS, grid_x=27), run(MS, MS, ADD, grid_x=64)))
    assert isinstance(two, Found)
    assert two.problem.startswith("2 significant kernels have fewer blocks than the GPU has SMs.")


def test_one_replay_of_a_whole_graph_is_no_several() -> None:
    graph = {**run(0, MS, "CUDA graph 1"), "kind": "graph"}
    one = ask("Q6", traced(graph))
    assert isinstance(one, Found)
    assert one.problem == (
        "1 CUDA graph replay is recorded without its kernels: 1 ms, 100% of kernel time. It counts as busy time."
    )
    two = ask("Q6", traced(graph, {**graph, "start_ns": 2 * MS}))
    assert isinstance(two, Found)
    assert two.problem.startswith("2 CUDA graph replays are recorded without their kernels: ")
    assert two.problem.endswith(" They count as busy time.")


def test_a_dlprof_database_without_configuration_is_still_dlprof() -> None:
    other = ask("P6", traced(run(0, MS)))
    assert isinstance(other, NotApplicable)
    assert other.reason == "only DLProf records the model configuration"
    own = ask("P6", traced(run(0, MS), sessions=[{"session": 0, "format": "dlprof-database"}]))
    assert isinstance(own, NotApplicable)
    assert own.reason == "this DLProf output has no model configuration"


def test_collectives_that_are_ranges_explain_idle_time() -> None:
    """Two kernels of 10 ms, from 0 and from 90 ms, and a collective of Huawei's from 5 to 85 ms."""
    collective = {"name": "hcom_allReduce", "domain": "HCCL", "start_ns": 5 * MS, "duration_ns": 80 * MS}
    case = traced(run(0, 10 * MS), run(90 * MS, 10 * MS), ranges=[collective])
    share, idle, overlap = (ask(rule, case) for rule in ("C1", "U1", "C2"))
    assert isinstance(share, Found)
    assert share.problem == "Communication takes 80 ms (80% of the wall time), mostly `hcom_allReduce`."
    assert share.cost_ns == 75 * MS
    assert isinstance(idle, Found)
    assert (idle.cause, idle.problem) == (
        "communication",
        "GPU busy 20% (20 of 100 ms). For 75 ms of the idle time collectives ran, which are not recorded as kernels.",
    )
    assert isinstance(overlap, NotApplicable)
