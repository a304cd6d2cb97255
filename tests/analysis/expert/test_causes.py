"""Causes of lost time as far as the input shows them, their order, and clean answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from tests.analysis.expert.answers.expected_answers import profile_of_ranks, serving_profile
from tests.analysis.expert.answers.precision import efficiencies, measured
from tests.analysis.expert.profiles import (
    A100,
    ADD,
    GEMM,
    HEALTHY,
    MS,
    SESSION,
    SGEMM,
    US,
    S,
    call,
    launch,
    launch_with_call,
    step_range,
    trace_of,
    transfer,
    with_calls,
)
from tests.analysis.expert.rule_verdicts import clean_by, found_by, open_shown, verdict_of
from tests.analysis.expert.single_findings import found_by_rule, row_of_rule
from tests.analysis.frames import kernel, make_profile, summary_row
from tests.corpus import recording_file
from tui.analysis.dashboard import guidance
from tui.analysis.expert.case import Case
from tui.analysis.expert.findings import findings
from tui.analysis.expert.findings_table import answers, expert_rows, first_findings
from tui.analysis.expert.rule import Clean, Found, NotApplicable, Severity, limits
from tui.model.profile import merge_profiles

# ---- idle time


def test_without_api_calls_the_reason_of_idle_time_is_unknown() -> None:
    """Forty kernels of 5 us are 95 us apart, and the CPU activity is unknown."""
    profile = trace_of(
        *(launch(n * 100 * US, 5 * US, ADD) for n in range(40)), sessions=[{**SESSION, "tool": "nvprof"}]
    )
    rows = findings(profile)
    first = first_findings(rows).row(0, named=True)
    assert (first["rule"], first["cause"], first["all_rules"]) == ("U1", "GPU idle", "U1 A2 A7 P11 U3")
    assert first["problem"] == "GPU busy 5.1% (200 µs of 3.9 ms). API calls are not recorded, so the reason is unknown."
    assert first["recommendation"] == (
        "To see what the CPU does in the gaps, record with nsys profile --trace=cuda,nvtx ./app. "
        "If kernels are launched late, give each more work (larger batch)."
    )
    assert "launch-bound" not in rows["cause"].drop_nulls().to_list()
    long_gap = found_by("U1", trace_of(launch(0, 10 * MS), launch(90 * MS, 10 * MS)))
    assert (long_gap.cause, long_gap.problem) == (
        "GPU idle", "GPU busy 20% (20 of 100 ms). 80 ms of the idle time is in 1 gap of 1 ms or more.",
    )  # fmt: skip


def test_gaps_between_queued_kernels_are_no_cost_of_launches() -> None:
    """Kernels of 8 us with gaps of 2 us are launched well ahead: larger kernels would help, graphs would not."""
    ahead = [launch_with_call(MS + n * 10 * US, 8 * US, n * 5 * US, 4 * US, n + 1, name=ADD) for n in range(100)]
    rows = found_by_rule(findings(with_calls(*ahead)))
    assert rows["U7"]["cause"] == "short kernels"
    assert rows["U7"]["recommendation"] == (
        "Give each kernel more work (larger batch), or fuse chains of kernels (torch.compile)."
    )
    assert verdict_of("U6", with_calls(*ahead)) == Clean(
        "not launch-bound: GPU idle 0% of the wall time waiting for launches",
        {"host_wait_ns": 0, "host_wait_pct": 0.0, "waits": 0, "long_ns": 0},
    )
    # If the gaps are most of the time, the finding on GPU use has the same cause.
    sparse = [launch_with_call(600 * US + n * 10 * US, 2 * US, n * 5 * US, 4 * US, n + 1, name=ADD) for n in range(100)]
    verdict = found_by("U1", with_calls(*sparse))
    assert (verdict.cause, verdict.problem) == (
        "short kernels",
        "GPU busy 13% (200 µs of 1.59 ms). Most of the idle time is between kernels that were launched ahead.",
    )


@pytest.mark.parametrize(("threads", "in_low_memory"), [(False, False), (True, False), (True, True)])
def test_low_use_has_the_cause_of_late_launches(
    threads: bool, in_low_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 22 kernels of 1 ms that were launched ahead, 80 of 5 us are launched 95 us after the last each."""
    ahead = [launch_with_call((n + 1) * MS, MS, n * 10 * US, 5 * US, n + 1) for n in range(22)]
    late = [
        launch_with_call(23 * MS + n * 100 * US, 5 * US, 23 * MS + n * 100 * US - 9 * US, 6 * US, n + 30, name=ADD)
        for n in range(80)
    ]
    monkeypatch.setattr("tui.analysis.expert.findings.MIN_ROWS_FOR_THREADS", 0 if threads else 1_000_000)
    monkeypatch.setattr("tui.analysis.expert.findings.low_memory", lambda: in_low_memory)
    rows = findings(with_calls(*ahead, *late))
    assert row_of_rule(rows, "U1")["state"] == "clean"
    found_rows = found_by_rule(rows)
    assert {rule: found_rows[rule]["cause"] for rule in ("U3", "U6")} == {"U3": "launch-bound", "U6": "launch-bound"}
    assert not rows["reason"].str.starts_with("the rule failed").any()


def test_a_rule_cannot_use_one_that_is_judged_after_it() -> None:
    case = Case(HEALTHY, 0, limits())
    with pytest.raises(KeyError, match="U6"):
        case.has_finding("U6")


def test_a_gap_while_a_kernel_is_loaded_is_start_up() -> None:
    """The first of three launches takes 30 ms, which leaves the GPU idle."""
    profile = with_calls(
        launch_with_call(0, MS, -20 * US, 10 * US, 1),
        launch_with_call(31 * MS, MS, MS + US, 30 * MS - 10 * US, 2, name=ADD),
        launch_with_call(32 * MS, MS, 31 * MS, 10 * US, 3),
    )
    rows = findings(profile)
    first = first_findings(rows).row(0, named=True)
    assert (first["rule"], first["cause"], first["recommendation"]) == (
        "U1",
        "one-time cost",
        "Warm up before you measure.",
    )
    assert first["problem"] == (
        "GPU busy 9.1% (3 of 33 ms). 30 ms of the idle time is in 1 gap of 1 ms or more. "
        "For 30 ms of it the CPU loaded kernels."
    )
    assert set(first["all_rules"].split()) >= {"U1", "U2", "U6", "A4"}


@pytest.mark.parametrize(
    ("later_launches", "advice"), [(0, ""), (1, " Or look at the others: --iterations 2:2, or :aggregate 2:2.")]
)
def test_later_iterations_are_proposed_only_if_they_have_gpu_work(later_launches: int, advice: str) -> None:
    """A launch of 30 ms in step 1; the profile ends in step 2, which has a kernel or none."""
    work = [
        launch_with_call(0, MS, -20 * US, 10 * US, 1, iteration=1),
        launch_with_call(31 * MS, MS, MS + US, 30 * MS - 10 * US, 2, name=ADD, iteration=1),
        launch_with_call(34 * MS, MS, 33 * MS, 10 * US, 3, iteration=2),
    ]
    steps = [step_range(1, -20 * US, 33 * MS), step_range(2, 33 * MS, 2 * MS)]
    verdict = found_by("U2", with_calls(*work[: 2 + later_launches], ranges=steps))
    assert verdict.advice == f"Warm up before you measure.{advice}"


def test_a_gap_while_graphs_are_captured_is_start_up() -> None:
    calls = (call(2 * MS, US, "cudaStreamBeginCapture"), call(38 * MS, MS, "cudaGraphInstantiate"))
    profile = with_calls(
        launch_with_call(0, MS, -20 * US, 10 * US, 1),
        launch_with_call(40 * MS, MS, 40 * MS - 20 * US, 10 * US, 2),
        calls=calls,
    )
    verdict = found_by("U1", profile)
    assert (verdict.cause, verdict.advice) == (
        "one-time cost",
        "Graphs are captured once, at start-up: record the run after it.",
    )
    assert verdict.problem.endswith("For 37 ms of it the CPU captured graphs.")


def test_a_gap_before_launched_kernels_is_not_a_pause_of_the_cpu() -> None:
    """Each kernel is launched at the end of the previous one and starts 20 ms later."""
    profile = with_calls(
        *(launch_with_call(n * 25 * MS, 5 * MS, max(0, (n - 1) * 25 * MS + 5 * MS), 9, n + 1) for n in range(4))
    )
    verdict = found_by("U1", profile)
    assert verdict.problem == (
        "GPU busy 25% (20 of 80 ms). 60 ms of the idle time is in 3 gaps of 1 ms or more. "
        "For 60 ms of it the next kernel was already launched."
    )
    assert (verdict.cause, verdict.advice) == (
        "delayed kernels",
        "Check what the kernels wait for: another stream or process, an event, or a lower priority.",
    )
    assert first_findings(findings(profile))["all_rules"][0].split()[:2] == ["U1", "U2"]


def test_gpu_use_is_unknown_if_only_copies_are_recorded() -> None:
    copies = trace_of(transfer(0, MS), transfer(90 * MS, MS))
    for rule in ("U1", "U2", "U3", "U10"):
        assert verdict_of(rule, copies) == NotApplicable("no kernels are recorded, so how busy the GPU was is unknown")


def test_a_gpu_that_is_hardly_used_is_not_the_one_that_waits() -> None:
    """GPU 1 makes a copy of 1 ms; GPU 0 works for 90 of 100 ms."""
    profile = trace_of(
        launch(0, 45 * MS), launch(55 * MS, 45 * MS), transfer(0, MS, device=1), devices=[A100, {**A100, "device": 1}]
    )
    assert clean_by("U1", profile).reason == "GPU 0 busy 90% (90 of 100 ms)"
    assert isinstance(verdict_of("U5", profile), Found)


def test_a_busy_gpu_has_no_idle_stretch() -> None:
    """Three of 100 ms without work cost 3% of the time."""
    mostly_busy = trace_of(launch(0, 50 * MS), launch(53 * MS, 47 * MS))
    assert clean_by("U3", mostly_busy).reason == "stretches in which the GPU is little used cost 3% of the wall time"


# ---- start-up


def test_the_longest_call_before_the_first_work_is_named() -> None:
    first_call = call(0, 2 * S, "cudaDeviceGetStreamPriorityRange")
    verdict = found_by("U1", with_calls(launch_with_call(2 * S, MS, 2 * S - 20 * US, 9, 1), calls=(first_call,)))
    assert "no GPU work had started yet. `cudaDeviceGetStreamPriorityRange` took 2 s of it." in verdict.problem


@pytest.mark.parametrize(
    ("name", "calls", "longest_ms", "is_found"),
    [
        ("cudaMalloc", 2, 89, True),
        ("cudaMalloc", 2, 60, False),
        ("cudaMemcpyToSymbol", 5, 89, True),
        ("cudaStreamIsCapturing", 3, 89, True),
        ("cudaMemcpy", 5, 89, False),
    ],
)
def test_the_start_of_cuda_is_one_long_call(name: str, calls: int, longest_ms: int, *, is_found: bool) -> None:
    """These calls take 90 ms in all, other calls 10 ms."""
    rows = [
        summary_row("api", name, calls, 90 * MS, max_ns=longest_ms * MS),
        summary_row("api", "cudaLaunch", 99, 10 * MS),
    ]
    assert isinstance(verdict_of("A10", make_profile(summary=rows)), Found) is is_found


def test_a_copy_call_that_starts_cuda_is_not_a_slow_copy() -> None:
    rows = [summary_row("gpu", GEMM, 9, 10 * MS), summary_row("api", "cudaMemcpyToSymbol", 5, 90 * MS, max_ns=89 * MS)]
    assert clean_by("T8", make_profile(summary=rows)).reason == "blocking copies take 0% of the API time"


def test_many_allocations_are_found_in_totals() -> None:
    """A thousand calls take 3 of 6 s; one of 10 ms may have started CUDA."""
    rows = [summary_row("api", "cudaMalloc", 1000, 3 * S, max_ns=10 * MS), summary_row("api", "cudaLaunch", 9, 3 * S)]
    verdict = found_by("A8", make_profile(summary=rows))
    assert verdict.problem == (
        "Allocating and freeing GPU memory takes 2.99 s (50% of the API time) in 1,000 calls, mostly `cudaMalloc`."
    )
    assert verdict.advice == "Allocate once before the loop, or use a caching allocator: cudaMallocAsync."
    few = [summary_row("api", "cudaMalloc", 30, 3 * S, max_ns=MS), summary_row("api", "cudaLaunch", 9, 3 * S)]
    assert isinstance(verdict_of("A8", make_profile(summary=few)), NotApplicable)


def test_a_slow_first_iteration_is_warm_up() -> None:
    ranges = [step_range(0, 0, 25 * MS), *(step_range(n, (n + 1) * 12 * MS + MS, 10 * MS) for n in range(1, 5))]
    work = [launch(row["start_ns"], 9 * MS, iteration=row["iteration"]) for row in ranges]
    verdict = found_by("I3", trace_of(*work, ranges=ranges))
    assert (verdict.cause, verdict.advice) == (
        "one-time cost", "The first iteration warms up. Leave it out: --iterations 1:4, or :aggregate 1:4.",
    )  # fmt: skip


def test_slow_launches_of_loaded_kernels_are_not_start_up() -> None:
    """Every launch of one kernel takes 80 us, and the GPU waits."""
    slow = [launch_with_call(n * 200 * US, 20 * US, n * 200 * US - 81 * US, 80 * US, n + 1) for n in range(1, 20)]
    verdict = found_by("A4", with_calls(*slow))
    assert (verdict.cause, verdict.advice) == (
        "launch-bound",
        "These are not first launches of kernels: check for a busy CPU, locks, a full queue, or little memory.",
    )
    first = with_calls(
        launch_with_call(0, MS, 0, 60 * US, 1), launch_with_call(2 * MS, MS, 2 * MS - 10 * US, 5 * US, 2)
    )
    assert found_by("A4", first).advice == "The first launch of a kernel loads it: warm up before you measure."


# ---- kernels


def test_a_kernel_with_little_of_the_wall_time_is_not_hot() -> None:
    idle = trace_of(launch(0, MS, "solve"), launch(99 * MS, MS, "solve"))
    assert clean_by("P10", idle).reason == "the top kernel, `solve`, takes 100% of GPU time, but 2% of the wall time"
    assert found_by("P10", trace_of(launch(0, 20 * MS, "solve"), launch(99 * MS, MS))).advice == (
        "Optimize `solve`. ncu --set full shows what limits it."
    )
    assert found_by("P10", HEALTHY).advice == (
        f"Try another implementation of the library kernel `{GEMM}`, or a lower precision. "
        "ncu --set full shows what limits it."
    )


def test_a_dominant_user_kernel_comes_before_smaller_costs() -> None:
    """Of 105 ms one kernel takes 90, and a gap 12."""
    user_kernel = trace_of(launch(0, 90 * MS, "solve"), launch(102 * MS, 3 * MS, "reduce"))
    assert first_findings(findings(user_kernel))["rule"].to_list()[:2] == ["P10", "U2"]
    library_kernel = trace_of(launch(0, 90 * MS), launch(102 * MS, 3 * MS, "reduce"))
    assert first_findings(findings(library_kernel))["rule"].to_list()[:2] == ["U2", "P10"]


def test_the_longest_kernel_is_unknown_if_only_communication_has_durations() -> None:
    profile = make_profile(activities=[kernel("sgemm", None), kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 5)])
    (row,) = findings(profile).filter(pl.col("rule") == "P10").rows(named=True)
    assert (row["state"], row["reason"]) == ("not applicable", "the durations of kernels are unknown")


def test_a_hot_kernel_is_joined_with_the_finding_on_its_problem() -> None:
    layout = "void cudnn::ops::nchwToNhwcKernel<float, float>(int)"
    rows = findings(trace_of(launch(0, 6 * MS, layout), launch(6 * MS, 4 * MS, "solve")))
    assert first_findings(rows).select("cause", "all_rules").row(0) == ("data layout", "P4 P10")
    products = findings(trace_of(launch(0, 6 * MS, SGEMM), launch(6 * MS, 4 * MS, ADD)))
    assert first_findings(products)["all_rules"][0] == "P1 P10"


def test_launches_of_one_configuration_with_different_durations_are_not_judged() -> None:
    work = [launch(n * MS, (9 if n % 2 else 1) * 100 * US) for n in range(20)]
    assert isinstance(verdict_of("L10", trace_of(*work)), NotApplicable)


def test_matrix_products_without_tensor_cores_on_an_unknown_gpu_say_so() -> None:
    volta = make_profile(
        summary=[summary_row("gpu", "volta_sgemm_128x64_tn", 9, 90 * MS), summary_row("gpu", "f", 1, 10 * MS)]
    )
    verdict = found_by("P1", volta)
    assert verdict.problem == (
        "Kernels that tensor cores could run take 90% of GPU time, mostly `volta_sgemm_128x64_tn`. The GPU is unknown."
    )
    assert (verdict.cost_ns, verdict.rank_ns) == (None, 45 * MS)
    assert verdict.advice == "Name the GPU with --gpu. If it has tensor cores, use mixed precision."
    older = make_profile(summary=[summary_row("gpu", "maxwell_sgemm_128x64_tn", 9, 90 * MS)])
    assert isinstance(verdict_of("P1", older), NotApplicable)


def test_low_occupancy_of_library_kernels_is_only_information() -> None:
    library_kernel = found_by("L1", trace_of(launch(0, MS, "volta_sgemm_128x64_tn", registers=255)))
    assert (library_kernel.severity, library_kernel.advice) == (
        Severity.INFO,
        "Most of these belong to libraries, which choose their tiles for speed, not for occupancy.",
    )
    user_kernel = found_by("L1", trace_of(launch(0, MS, "solve", registers=255)))
    assert user_kernel.severity is None
    assert user_kernel.advice.startswith("In kernels of your own, use fewer registers")


def test_costs_of_replayed_kernels_are_shares_of_gpu_time() -> None:
    """20 ms of double-precision kernels in a second of replays."""
    metric = {"kernel": "solve(double*)", "metric": "ipc", "avg": 1.0}
    profile = trace_of(
        launch(0, 10 * MS, "solve(double*)"),
        launch(990 * MS, 10 * MS, "solve(double*)"),
        sessions=[{**SESSION, "format": "nvprof-database", "tool": "nvprof"}],
        metrics=[metric],
    )
    row = row_of_rule(findings(profile), "P3")
    assert (row["cost_pct"], row["cost_of"]) == (50.0, "GPU time")


# ---- the input


def test_warnings_about_the_input_come_first_only_without_gpu_work() -> None:
    issue: dict[str, Any] = {"session": 0, "line": 1, "severity": "warning", "reason": "a range has no end", "text": ""}
    slow = [summary_row("gpu", "[CUDA memcpy HtoD]", 9, 50 * MS), summary_row("gpu", GEMM, 9, 50 * MS)]
    with_work = first_findings(findings(make_profile(summary=slow, issues=[issue])))["rule"].to_list()
    assert with_work.index("T1") < with_work.index("Q2")
    config = {"tool": "DLProf", "section": "Model Config", "name": "cudnn_benchmark_disabled", "value": 1.0}
    ops = [{"op": 0, "op_source": "recorded", "name": "conv2d", "start_ns": 0, "duration_ns": MS, "pid": 1, "tid": 1}]
    without_work = first_findings(findings(make_profile(tool_figures=[config], ops=ops, issues=[issue])))[
        "rule"
    ].to_list()
    assert without_work[:2] == ["Q2", "P6"]


# ---- answers of clean rules


DECODE = "step[DECODE bs=4]"


def test_decode_steps_are_judged_as_launch_bound_or_not() -> None:
    busy = serving_profile(*[(DECODE, 10 * MS, 9 * MS)] * 4)
    assert clean_by("I11", busy).reason == "decode is not launch-bound: GPU busy 90% (36 of 40 ms) of 4 decode steps"
    idle = serving_profile(*[(DECODE, 10 * MS, 4 * MS)] * 4)
    unknown = found_by("I11", idle)
    assert unknown.problem == (
        "GPU idle 60% (24 of 40 ms) of 4 decode steps. API calls are not recorded, so whether decode is launch-bound "
        "is unknown."
    )
    bound = found_by("I11", serving_profile(*[(DECODE, 10 * MS, 4 * MS)] * 4, op={"name": "aten::mm"}))
    assert bound.problem == (
        "Decode is launch-bound: GPU idle 60% (24 of 40 ms) of 4 decode steps, none of which replays a CUDA graph."
    )
    assert bound.advice.startswith("Let the server capture CUDA graphs for decode (vLLM: without --enforce-eager;")


def test_clean_answers_are_in_the_table_and_in_the_guidance() -> None:
    rows = findings(serving_profile(*[(DECODE, 10 * MS, 9 * MS)] * 4, op={"name": "aten::mm"}))
    sentence = "Decode is not launch-bound: GPU busy 90% (36 of 40 ms) of 4 decode steps."
    # U6 has the same answer for the run, which is left out.
    assert answers(rows).select("rule", "message").rows() == [("I11", sentence)]
    table = expert_rows(rows)
    assert table.filter(pl.col("verdict") == "clean")["message"].to_list()[0] == sentence
    assert guidance(rows).endswith(sentence)
    unfolded = expert_rows(rows, unfolded=True).filter(pl.col("rules") == "I11")
    assert unfolded.height == 1
    healthy_rows = findings(HEALTHY)
    assert answers(healthy_rows)["message"].to_list() == [
        "Not launch-bound: GPU idle 0% of the wall time waiting for launches."
    ]


def test_an_idle_gpu_has_no_clean_answer_on_launches() -> None:
    """One kernel runs 80 ms after the start: its launch is not late, and the GPU is idle for another reason."""
    profile = with_calls(launch_with_call(80 * MS, MS, 79 * MS, 10 * US, 1), calls=(call(0, 70 * MS, "cudaMalloc"),))
    rows = findings(profile)
    assert row_of_rule(rows, "U6")["state"] == "clean"
    assert answers(rows).is_empty()


def test_waits_for_a_straggler_are_one_finding() -> None:
    paths = [str(recording_file(f"ddp_rank{rank}.pt.trace.json.gz")) for rank in (0, 1)]
    rows = findings(open_shown(*paths))
    first = first_findings(rows).row(0, named=True)
    assert first["problem"].startswith("Rank 1 is the straggler: it arrives last in 4 of 4 iterations")
    assert {"C5", "C1", "C2", "U8", "C7"} <= set(first["all_rules"].split())
    # The straggler itself does not wait.
    assert row_of_rule(rows, "C1", 1)["cause"] == "communication"


def test_one_iteration_names_no_straggler() -> None:
    profile = profile_of_ranks(10 * MS, 40 * MS)
    first = {name: profile[name].filter(pl.col("iteration") == 0) for name in ("activities", "ranges")}
    assert clean_by("C5", replace(profile, frames={**profile.frames, **first})).reason == (
        "no straggler: rank 1 arrives last in the only iteration with long collectives"
    )


def test_a_partly_launch_bound_run_is_named() -> None:
    """Kernels of 9 ms are launched 1 ms after the end of the previous one each."""
    late = [launch_with_call(n * 10 * MS, 9 * MS, n * 10 * MS - 5 * US, 5 * US, n + 1) for n in range(40)]
    assert clean_by("U6", with_calls(*late)).reason == (
        "partly launch-bound: GPU idle 9.8% of the wall time waiting for launches"
    )


def test_an_answer_of_one_session_is_not_in_the_guidance_of_all() -> None:
    bound = with_calls(*(launch_with_call(n * 10 * MS, 4 * MS, n * 10 * MS - 5 * US, 5 * US, n + 1) for n in range(40)))
    rows = findings(merge_profiles([HEALTHY, bound]))
    assert answers(rows).select("rule", "session").rows() == [("U6", 0)]
    assert guidance(rows).startswith("Start here: ")
    assert "launch-bound" not in guidance(rows).lower()


@pytest.mark.parametrize(
    ("metric", "sentence"),
    [
        ({"kernel": "solve", "metric": "achieved_occupancy", "unit": None}, "ncu --set full shows"),
        ({"kernel": "other", "metric": "sm_efficiency", "unit": "%"}, "ncu --set full shows"),
        ({"kernel": "solve(int)", "metric": "sm_efficiency", "unit": "%"}, "Metrics shows"),
        ({"kernel": "solve", "metric": "dram_utilization", "unit": "level"}, "Metrics shows"),
    ],
    ids=["no limit", "other kernel", "share of a limit", "level"],
)
def test_metrics_show_what_limits_a_kernel_if_they_measure_it(metric: dict[str, Any], sentence: str) -> None:
    profile = trace_of(launch(0, 100 * MS, "solve"), metrics=[{**metric, "avg": 9.0}])
    assert found_by("P10", profile).advice == f"Optimize `solve`. {sentence} what limits it."


@pytest.mark.parametrize(
    ("shares", "limit", "advice"),
    [
        ((70, 60, 5), "compute", "Compute less: tensor cores"),
        ((70, 61, 5), "compute and memory", "Both are about equally busy, so reduce both"),
        ((80, 71, 5), "compute", "Compute less: tensor cores"),
        ((59, 50, 50), "latency", "Neither compute nor memory is busy: run more warps"),
        ((60, 80, 72), "memory", "Move less data to and from DRAM"),
        ((60, 80, 71), "memory", "Access caches and shared memory less"),
        ((60, 80, None), "memory", "Access memory less"),
    ],
)
def test_a_measured_kernel_is_limited_by_the_higher_of_two_shares(
    shares: tuple[float, float, float | None], limit: str, advice: str
) -> None:
    profile = measured({"gemm": (*shares, MS)})
    assert f"`gemm` is limited by {limit}: compute throughput is {shares[0]}% " in found_by("P17", profile).problem
    assert guidance(findings(profile)).startswith(f"Start here: {advice}")


def test_kernels_that_only_create_data_are_not_what_to_optimize() -> None:
    random = "void at::native::distribution_elementwise_grid_stride_kernel<float, 4>(long)"
    advice = "This kernel only creates data. If that prepares a benchmark, leave it out of what you measure."
    assert found_by("P10", trace_of(*(launch(n * MS, MS, random) for n in range(10)))).advice == advice
    profile = measured({random: (68, 47, None, MS)})
    assert found_by("P17", profile).advice == f"{advice} With ncu: --kernel-name regex:NAME."


def test_metrics_alone_are_answered_by_what_they_measured() -> None:
    rows = findings(efficiencies(solve={"shared": 3.12, "gst": 5.54, "gld": 24.04}))
    assert guidance(rows) == (
        "Start here: Avoid bank conflicts: pad shared arrays by a column. Coalesce memory accesses: neighboring "
        "threads, neighboring addresses (structures of arrays)."
    )
    overhead = rows.row(by_predicate=pl.col("rule") == "Q4", named=True)
    assert (overhead["state"], overhead["reason"]) == (
        "not applicable",
        "only metrics are recorded: there are no times that measuring could distort",
    )
    other = findings(efficiencies(solve={"flop_sp": 3.0}))
    assert guidance(other) == (
        "Only hardware metrics are recorded (see Metrics), no GPU activities: record with nvprof."
    )
    reason = other.row(by_predicate=pl.col("rule") == "P18", named=True)["reason"]
    names = "gld_efficiency,gst_efficiency,shared_efficiency,warp_execution_efficiency"
    assert reason == f"not measured: nvprof --metrics {names}"


@pytest.mark.parametrize("gpu", ["NVIDIA A100-SXM4-40GB", "AMD Instinct MI300X"])
def test_nvprof_is_not_advised_for_gpus_that_it_does_not_support(gpu: str) -> None:
    other = efficiencies(solve={"flop_sp": 3.0})
    profile = make_profile(
        sessions=[SESSION], devices=[{"device": 0, "name": gpu}], metrics=other["metrics"].to_dicts()
    )
    reason = findings(profile).row(by_predicate=pl.col("rule") == "P18", named=True)["reason"]
    assert reason == "these efficiencies are metrics of nvprof, which does not support this GPU"


def test_the_slowest_layer_is_named_if_none_takes_much() -> None:
    layers = [{"layer": f"conv{n}", "executor": "tensorrt", "time_ns": 100 + n} for n in range(20)]
    layers.append({"layer": "squeeze", "executor": "tensorrt", "time_ns": 0})
    rows = findings(make_profile(sessions=[{**SESSION, "format": "tensorrt-json", "tool": "trtexec"}], layers=layers))
    assert guidance(rows) == "No large cost found. The slowest of 21 layers, `conv19`, takes 5.4% of the time."


@pytest.mark.parametrize(
    ("name", "expected", "suggests_precision"),
    [
        ("void cutlass::device_kernel<flash::FlashAttnFwdSm90<bf16>>(Params)", "cutlass::device_kernel<flash::", True),
        ("void cutlass::Kernel2<cutlass_80_tensorop_gemm_e4m3>(Params)", "cutlass::Kernel2<cutlass_80_", False),
    ],
)
def test_a_cutlass_kernel_is_named_with_its_template_argument(
    name: str, expected: str, *, suggests_precision: bool
) -> None:
    verdict = found_by("P10", trace_of(launch(0, 100 * MS, name)))
    assert verdict.problem.startswith(f"`{expected}")
    assert ("lower precision" in verdict.advice) is suggests_precision
