"""The first answer: why time is lost, as far as the input shows it, and what stands in the first lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.analysis.expert.answers.made import serving
from tests.analysis.expert.asking import found, of_rule
from tests.analysis.expert.judging import as_shown, ask
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
    launched,
    moved,
    run,
    step,
    traced,
    with_calls,
)
from tests.analysis.frames import make_profile, summary_row
from tests.corpus import recording_file
from tui.analysis.dashboard import guidance
from tui.analysis.expert.findings import answers, expert_rows, findings, first_findings
from tui.analysis.expert.rule import Clean, Found, NotApplicable, Severity
from tui.model.profile import merge_profiles

if TYPE_CHECKING:
    from tui.model.profile import Profile


def found_by(rule: str, made: Profile) -> Found:
    verdict = ask(rule, made)
    assert isinstance(verdict, Found), verdict
    return verdict


def clean_by(rule: str, made: Profile) -> Clean:
    verdict = ask(rule, made)
    assert isinstance(verdict, Clean), verdict
    return verdict


# ---- idle time


def test_without_api_calls_the_reason_of_idle_time_is_unknown() -> None:
    """Forty kernels of 5 us, 95 us apart: nothing shows what the CPU does, so nothing is said to be launch-bound."""
    made = traced(*(run(n * 100 * US, 5 * US, ADD) for n in range(40)), sessions=[{**SESSION, "tool": "nvprof"}])
    rows = findings(made)
    first = first_findings(rows).row(0, named=True)
    assert (first["rule"], first["cause"], first["all_rules"]) == ("U1", "GPU idle", "U1 A2 A7 P11 U3")
    assert first["problem"] == "GPU busy 5.1% (200 µs of 3.9 ms). API calls are not recorded, so the reason is unknown."
    assert first["recommendation"] == (
        "To see what the CPU does meanwhile, record with nsys profile --trace=cuda,nvtx ./app. "
        "More work at a time (larger batch) helps if launches are late."
    )
    assert "launch-bound" not in rows["cause"].drop_nulls().to_list()
    long = found_by("U1", traced(run(0, 10 * MS), run(90 * MS, 10 * MS)))
    assert (long.cause, long.problem) == (
        "GPU idle", "GPU busy 20% (20 of 100 ms). 80 ms of the idle time is in 1 gap of 1 ms or more.",
    )  # fmt: skip


def test_gaps_between_kernels_that_wait_in_the_queue_are_no_launch_cost() -> None:
    """Kernels of 8 us and gaps of 2 us, all launched well ahead: graphs would not help, larger kernels would."""
    ahead = [launched(MS + n * 10 * US, 8 * US, n * 5 * US, 4 * US, n + 1, name=ADD) for n in range(100)]
    rows = found(findings(with_calls(*ahead)))
    assert rows["U7"]["cause"] == "short kernels"
    assert rows["U7"]["recommendation"] == (
        "Give each kernel more work (larger batch), or fuse chains of kernels (torch.compile)."
    )
    assert ask("U6", with_calls(*ahead)) == Clean(
        "not launch-bound: GPU idle 0% of the wall time before late launches",
        {"host_wait_ns": 0, "host_wait_pct": 0.0, "waits": 0, "long_ns": 0},
    )
    # Where the gaps are most of the time, the sentence on use says so too.
    sparse = [launched(600 * US + n * 10 * US, 2 * US, n * 5 * US, 4 * US, n + 1, name=ADD) for n in range(100)]
    use = found_by("U1", with_calls(*sparse))
    assert (use.cause, use.problem) == (
        "short kernels",
        "GPU busy 13% (200 µs of 1.59 ms). Most of the idle time is between kernels that were launched ahead.",
    )


def test_a_gap_in_which_a_kernel_is_loaded_is_start_up() -> None:
    """The first of three launches takes 30 ms, which leaves the GPU idle."""
    made = with_calls(
        launched(0, MS, -20 * US, 10 * US, 1),
        launched(31 * MS, MS, MS + US, 30 * MS - 10 * US, 2, name=ADD),
        launched(32 * MS, MS, 31 * MS, 10 * US, 3),
    )
    rows = findings(made)
    first = first_findings(rows).row(0, named=True)
    assert (first["rule"], first["cause"], first["recommendation"]) == ("U1", "start-up", "Warm up before you measure.")
    assert first["problem"] == (
        "GPU busy 9.1% (3 of 33 ms). 30 ms of the idle time is in 1 gap of 1 ms or more. "
        "For 30 ms of it the CPU loaded kernels."
    )
    assert set(first["all_rules"].split()) >= {"U1", "U2", "U6", "A4"}


def test_a_gap_in_which_graphs_are_captured_is_start_up() -> None:
    calls = (call(2 * MS, US, "cudaStreamBeginCapture"), call(38 * MS, MS, "cudaGraphInstantiate"))
    made = with_calls(
        launched(0, MS, -20 * US, 10 * US, 1), launched(40 * MS, MS, 40 * MS - 20 * US, 10 * US, 2), calls=calls
    )
    use = found_by("U1", made)
    assert (use.cause, use.advice) == ("start-up", "Graphs are captured once, at start-up: record the run after it.")
    assert use.problem.endswith("For 37 ms of it the CPU captured graphs.")


def test_a_gap_before_kernels_that_were_launched_is_no_pause_of_the_cpu() -> None:
    """Each kernel is launched at the end of the one before and starts 20 ms later."""
    made = with_calls(*(launched(n * 25 * MS, 5 * MS, max(0, (n - 1) * 25 * MS + 5 * MS), 9, n + 1) for n in range(4)))
    use = found_by("U1", made)
    assert use.problem == (
        "GPU busy 25% (20 of 80 ms). 60 ms of the idle time is in 3 gaps of 1 ms or more. "
        "For 60 ms of it the next kernel was already launched."
    )
    assert (use.cause, use.advice) == (
        "delayed kernels",
        "Check what the kernels wait for: another stream or process, an event, or a lower priority.",
    )
    assert first_findings(findings(made))["all_rules"][0].split()[:2] == ["U1", "U2"]


def test_copies_alone_do_not_show_how_busy_a_gpu_was() -> None:
    copies = traced(moved(0, MS), moved(90 * MS, MS))
    for rule in ("U1", "U2", "U3", "U10"):
        assert ask(rule, copies) == NotApplicable("no kernels are recorded, so how busy the GPU was is unknown")


def test_a_gpu_that_is_hardly_used_is_not_the_one_that_waits() -> None:
    """GPU 1 makes a copy of 1 ms; GPU 0 works for 90 of 100 ms."""
    made = traced(run(0, 45 * MS), run(55 * MS, 45 * MS), moved(0, MS, device=1), devices=[A100, {**A100, "device": 1}])
    assert clean_by("U1", made).reason == "GPU 0 busy 90% (90 of 100 ms)"
    assert isinstance(ask("U5", made), Found)


def test_a_busy_gpu_has_no_idle_stretch() -> None:
    """Three of 100 ms without work cost 3% of the time."""
    nearly = traced(run(0, 50 * MS), run(53 * MS, 47 * MS))
    assert clean_by("U3", nearly).reason == "stretches in which the GPU is little used cost 3% of the wall time"


# ---- start-up


def test_the_call_that_takes_most_of_the_time_before_the_first_work_is_named() -> None:
    first = call(0, 2 * S, "cudaDeviceGetStreamPriorityRange")
    use = found_by("U1", with_calls(launched(2 * S, MS, 2 * S - 20 * US, 9, 1), calls=(first,)))
    assert "no GPU work had started yet. `cudaDeviceGetStreamPriorityRange` took 2 s of it." in use.problem


@pytest.mark.parametrize(
    ("name", "calls", "longest", "is_found"),
    [
        ("cudaMalloc", 2, 89, True),
        ("cudaMalloc", 2, 60, False),
        ("cudaMemcpyToSymbol", 5, 89, True),
        ("cudaStreamIsCapturing", 3, 89, True),
        ("cudaMemcpy", 5, 89, False),
    ],
)
def test_cuda_starts_in_one_long_call(name: str, calls: int, longest: int, *, is_found: bool) -> None:
    """Of 90 ms in these calls the longest takes so much; other calls take 10."""
    rows = [
        summary_row("api", name, calls, 90 * MS, max_ns=longest * MS),
        summary_row("api", "cudaLaunch", 99, 10 * MS),
    ]
    assert isinstance(ask("A10", make_profile(summary=rows)), Found) is is_found


def test_a_copy_in_which_cuda_starts_is_no_slow_copy() -> None:
    rows = [summary_row("gpu", GEMM, 9, 10 * MS), summary_row("api", "cudaMemcpyToSymbol", 5, 90 * MS, max_ns=89 * MS)]
    assert clean_by("T8", make_profile(summary=rows)).reason == "blocking copies take 0% of the API time"


def test_totals_of_many_allocations_are_found() -> None:
    """A thousand calls take 3 of 6 s; one of 10 ms may have started CUDA."""
    rows = [summary_row("api", "cudaMalloc", 1000, 3 * S, max_ns=10 * MS), summary_row("api", "cudaLaunch", 9, 3 * S)]
    verdict = found_by("A8", make_profile(summary=rows))
    assert verdict.problem == (
        "Allocating and freeing GPU memory takes 2.99 s (50% of the API time) in 1,000 calls, mostly `cudaMalloc`."
    )
    assert verdict.advice == "Allocate once before the loop, or use a caching allocator: cudaMallocAsync."
    few = [summary_row("api", "cudaMalloc", 30, 3 * S, max_ns=MS), summary_row("api", "cudaLaunch", 9, 3 * S)]
    assert isinstance(ask("A8", make_profile(summary=few)), NotApplicable)


def test_a_first_iteration_that_alone_is_slow_warms_up() -> None:
    marks = [step(0, 0, 25 * MS), *(step(n, (n + 1) * 12 * MS + MS, 10 * MS) for n in range(1, 5))]
    work = [run(row["start_ns"], 9 * MS, iteration=row["iteration"]) for row in marks]
    verdict = found_by("I3", traced(*work, ranges=marks))
    assert (verdict.cause, verdict.advice) == (
        "start-up", "The first iteration warms up. Leave it out: --iterations 1:4, or :aggregate 1:4.",
    )  # fmt: skip


def test_slow_launches_of_known_kernels_are_no_start_up() -> None:
    """Every launch of one kernel takes 80 us, and the GPU waits."""
    slow = [launched(n * 200 * US, 20 * US, n * 200 * US - 81 * US, 80 * US, n + 1) for n in range(1, 20)]
    verdict = found_by("A4", with_calls(*slow))
    assert (verdict.cause, verdict.advice) == (
        "launch-bound",
        "These are not first launches of kernels: check for a busy CPU, locks, a full queue, or little memory.",
    )
    first = with_calls(launched(0, MS, 0, 60 * US, 1), launched(2 * MS, MS, 2 * MS - 10 * US, 5 * US, 2))
    assert found_by("A4", first).advice == "The first launch of a kernel loads it: warm up before you measure."


# ---- kernels


def test_a_kernel_that_takes_little_of_the_wall_time_is_no_hot_kernel() -> None:
    idle = traced(run(0, MS, "solve"), run(99 * MS, MS, "solve"))
    assert (
        clean_by("P10", idle).reason == "the longest kernel, `solve`, takes 100% of GPU time, but 2% of the wall time"
    )
    assert found_by("P10", traced(run(0, 20 * MS, "solve"), run(99 * MS, MS))).advice == (
        "Optimize this kernel. ncu --set full shows what limits it."
    )
    assert found_by("P10", HEALTHY).advice == (
        "Try another implementation of this library kernel, or a lower precision. ncu --set full shows what limits it."
    )


def test_an_own_kernel_that_takes_nearly_all_time_comes_before_smaller_costs() -> None:
    """Of 105 ms one kernel takes 90, and a gap 12."""
    made = traced(run(0, 90 * MS, "solve"), run(102 * MS, 3 * MS, "reduce"))
    assert first_findings(findings(made))["rule"].to_list()[:2] == ["P10", "U2"]
    of_library = traced(run(0, 90 * MS), run(102 * MS, 3 * MS, "reduce"))
    assert first_findings(findings(of_library))["rule"].to_list()[:2] == ["U2", "P10"]


def test_a_hot_kernel_with_a_known_problem_is_no_second_line() -> None:
    layout = "void cudnn::ops::nchwToNhwcKernel<float, float>(int)"
    rows = findings(traced(run(0, 6 * MS, layout), run(6 * MS, 4 * MS, "solve")))
    assert first_findings(rows).select("cause", "all_rules").row(0) == ("data layout", "P4 P10")
    products = findings(traced(run(0, 6 * MS, SGEMM), run(6 * MS, 4 * MS, ADD)))
    assert first_findings(products)["all_rules"][0] == "P1 P10"


def test_launches_of_one_configuration_may_do_different_work() -> None:
    without = [run(n * MS, (9 if n % 2 else 1) * 100 * US) for n in range(20)]
    assert isinstance(ask("L10", traced(*without)), NotApplicable)


def test_products_without_tensor_cores_on_an_unknown_gpu_are_said_to_be_so() -> None:
    known = make_profile(
        summary=[summary_row("gpu", "volta_sgemm_128x64_tn", 9, 90 * MS), summary_row("gpu", "f", 1, 10 * MS)]
    )
    verdict = found_by("P1", known)
    assert verdict.problem == (
        "Kernels that tensor cores could run take 90% of GPU time, mostly `volta_sgemm_128x64_tn`. The GPU is unknown."
    )
    assert (verdict.cost_ns, verdict.rank_ns) == (None, 45 * MS)
    assert verdict.advice == "Use mixed precision if the GPU has tensor cores, and name it with --gpu."
    older = make_profile(summary=[summary_row("gpu", "maxwell_sgemm_128x64_tn", 9, 90 * MS)])
    assert isinstance(ask("P1", older), NotApplicable)


def test_low_occupancy_of_kernels_of_libraries_is_no_advice_to_their_users() -> None:
    library = found_by("L1", traced(run(0, MS, "volta_sgemm_128x64_tn", registers=255)))
    assert (library.severity, library.advice) == (
        Severity.INFO,
        "Most of these belong to libraries, which choose their tiles for speed, not for occupancy.",
    )
    own = found_by("L1", traced(run(0, MS, "solve", registers=255)))
    assert own.severity is None
    assert own.advice.startswith("In kernels of your own, use fewer registers")


def test_times_of_a_run_whose_kernels_were_repeated_are_shares_of_gpu_time() -> None:
    """20 ms of double-precision kernels in a second of replays."""
    metric = {"kernel": "solve(double*)", "metric": "ipc", "avg": 1.0}
    made = traced(
        run(0, 10 * MS, "solve(double*)"),
        run(990 * MS, 10 * MS, "solve(double*)"),
        sessions=[{**SESSION, "format": "nvprof-database", "tool": "nvprof"}],
        metrics=[metric],
    )
    row = of_rule(findings(made), "P3")
    assert (row["cost_pct"], row["cost_of"]) == (50.0, "GPU time")


# ---- the input


def test_warnings_about_the_input_come_first_only_where_there_is_no_work() -> None:
    issue: dict[str, Any] = {"session": 0, "line": 1, "severity": "warning", "reason": "a range has no end", "text": ""}
    slow = [summary_row("gpu", "[CUDA memcpy HtoD]", 9, 50 * MS), summary_row("gpu", GEMM, 9, 50 * MS)]
    with_work = first_findings(findings(make_profile(summary=slow, issues=[issue])))["rule"].to_list()
    assert with_work.index("T1") < with_work.index("Q2")
    config = {"tool": "DLProf", "section": "Model Config", "name": "cudnn_benchmark_disabled", "value": 1.0}
    ops = [{"op": 0, "op_source": "recorded", "name": "conv2d", "start_ns": 0, "duration_ns": MS, "pid": 1, "tid": 1}]
    without = first_findings(findings(make_profile(tool_figures=[config], ops=ops, issues=[issue])))["rule"].to_list()
    assert without[:2] == ["Q2", "P6"]


# ---- answers of clean rules


DECODE = "step[DECODE bs=4]"


def test_decode_is_said_to_be_launch_bound_or_not() -> None:
    busy = serving(*[(DECODE, 10 * MS, 9 * MS)] * 4)
    assert clean_by("I11", busy).reason == "decode is not launch-bound: GPU busy 90% (36 of 40 ms) of 4 decode steps"
    idle = serving(*[(DECODE, 10 * MS, 4 * MS)] * 4)
    unknown = found_by("I11", idle)
    assert unknown.problem == (
        "GPU idle 60% (24 of 40 ms) of 4 decode steps. API calls are not recorded, so whether decode is launch-bound "
        "is unknown."
    )
    bound = found_by("I11", serving(*[(DECODE, 10 * MS, 4 * MS)] * 4, op={"name": "aten::mm"}))
    assert bound.problem == (
        "Decode is launch-bound: GPU idle 60% (24 of 40 ms) of 4 decode steps, none of which replays a CUDA graph."
    )
    assert bound.advice.startswith("Let the server capture CUDA graphs for decode (vLLM: without --enforce-eager;")


def test_clean_answers_stand_in_the_table_and_in_the_first_line() -> None:
    rows = findings(serving(*[(DECODE, 10 * MS, 9 * MS)] * 4, op={"name": "aten::mm"}))
    sentence = "Decode is not launch-bound: GPU busy 90% (36 of 40 ms) of 4 decode steps."
    # U6 answers the same of the whole run: one answer is enough.
    assert answers(rows).select("rule", "message").rows() == [("I11", sentence)]
    shown = expert_rows(rows)
    assert shown.filter(pl.col("verdict") == "clean")["message"].to_list()[0] == sentence
    assert guidance(rows).endswith(sentence)
    unfolded = expert_rows(rows, unfolded=True).filter(pl.col("rules") == "I11")
    assert unfolded.height == 1
    whole = findings(HEALTHY)
    assert answers(whole)["message"].to_list() == [
        "Not launch-bound: GPU idle 0% of the wall time before late launches."
    ]


def test_an_idle_gpu_has_no_answer_on_launches() -> None:
    """One kernel 80 ms after start-up: launches are not late, but that is not what is wrong."""
    made = with_calls(launched(80 * MS, MS, 79 * MS, 10 * US, 1), calls=(call(0, 70 * MS, "cudaMalloc"),))
    rows = findings(made)
    assert of_rule(rows, "U6")["state"] == "clean"
    assert answers(rows).is_empty()


def test_what_a_rank_waits_for_a_straggler_is_one_line() -> None:
    paths = [str(recording_file(f"ddp_rank{rank}.pt.trace.json.gz")) for rank in (0, 1)]
    rows = findings(as_shown(*paths))
    first = first_findings(rows).row(0, named=True)
    assert first["problem"].startswith("Rank 1 is the straggler: it arrives last in 4 of 4 iterations")
    assert {"C5", "C1", "C2", "U8", "C7"} <= set(first["all_rules"].split())
    # The straggler itself waits for nobody.
    assert of_rule(rows, "C1", 1)["cause"] == "communication"


def test_a_run_that_is_partly_launch_bound_is_called_so() -> None:
    """Kernels of 9 ms, each launched 1 ms after the end of the one before."""
    late = [launched(n * 10 * MS, 9 * MS, n * 10 * MS - 5 * US, 5 * US, n + 1) for n in range(40)]
    assert clean_by("U6", with_calls(*late)).reason == (
        "partly launch-bound: GPU idle 9.8% of the wall time before late launches"
    )


def test_the_answer_of_one_session_is_not_said_of_all() -> None:
    bound = with_calls(*(launched(n * 10 * MS, 4 * MS, n * 10 * MS - 5 * US, 5 * US, n + 1) for n in range(40)))
    rows = findings(merge_profiles([HEALTHY, bound]))
    assert answers(rows).select("rule", "session").rows() == [("U6", 0)]
    assert guidance(rows).startswith("Start here: ")
    assert "launch-bound" not in guidance(rows).lower()


def test_the_slowest_layer_is_named_where_none_takes_much() -> None:
    layers = [{"layer": f"conv{n}", "executor": "tensorrt", "time_ns": 100 + n} for n in range(20)]
    rows = findings(make_profile(sessions=[{**SESSION, "format": "tensorrt-json", "tool": "trtexec"}], layers=layers))
    assert guidance(rows) == "No large cost found. The slowest of 20 layers, `conv19`, takes 5.4% of the time."


@pytest.mark.parametrize(
    ("name", "written", "lower"),
    [
        ("void cutlass::device_kernel<flash::FlashAttnFwdSm90<bf16>>(Params)", "cutlass::device_kernel<flash::", True),
        ("void cutlass::Kernel2<cutlass_80_tensorop_gemm_e4m3>(Params)", "cutlass::Kernel2<cutlass_80_", False),
    ],
)
def test_a_kernel_of_cutlass_is_named_with_what_it_computes(name: str, written: str, *, lower: bool) -> None:
    hot = found_by("P10", traced(run(0, 100 * MS, name)))
    assert hot.problem.startswith(f"`{written}")
    assert ("lower precision" in hot.advice) is lower
