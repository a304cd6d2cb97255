"""What the findings say first: of all that is true of a run, what an engineer would look at."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.analysis.expert.profiles import (
    A100,
    ADD,
    MS,
    MUL,
    NCCL,
    US,
    call,
    launch,
    launch_with_call,
    step_range,
    trace_of,
    transfer,
    with_calls,
)
from tests.analysis.expert.rule_verdicts import found_by, open_shown
from tests.analysis.expert.single_findings import found_by_rule
from tests.analysis.frames import make_profile, summary_row
from tests.corpus import recording_file
from tui.analysis.dashboard import advice, guidance
from tui.analysis.expert.findings import findings
from tui.analysis.expert.findings_table import first_findings
from tui.analysis.iterations.chosen_iterations import select_iterations
from tui.model.aggregation import Aggregation
from tui.model.profile import Profile, merge_profiles

SAMPLES = Path(__file__).parents[3] / "sample_logs"


def first_rules(profile: Profile) -> list[str]:
    """Return the first rule of each cause, in order."""
    return first_findings(findings(profile))["rule"].to_list()


# ---- kernels of a GPU that waits


def test_faster_kernels_are_no_first_answer_to_a_gpu_that_waits() -> None:
    """With half precision the GPU is idle for 62%, with float32 for 0%: ops below the roofline matter only there."""
    waiting, busy = (open_shown(recording_file(f"resnet50_{name}.pt.trace.json.gz")) for name in ("amp", "fp32"))
    assert first_rules(waiting)[:3] == ["U1", "U2", "P14"]
    assert first_rules(busy)[0] == "P14"
    slow, first = (found_by_rule(findings(profile))["P14"] for profile in (waiting, busy))
    assert (slow["severity"], first["severity"]) == ("info", "warning")
    # The cost is what it was: its rank is what the run can gain.
    assert slow["cost_pct"] == pytest.approx(14.66, abs=0.01)
    assert slow["cost_basis"].endswith("; the GPU is idle 62% of the time, so faster kernels shorten the run by less")
    assert "idle" not in first["cost_basis"]


def test_the_op_below_the_roofline_is_named_first() -> None:
    problem = found_by("P14", open_shown(recording_file("resnet50_fp32.pt.trace.json.gz"))).problem
    assert problem == (
        "`aten::cudnn_batch_norm_backward` runs at 11% of the roofline (memory-bound). At 70%, all ops would take "
        "44.6 ms less GPU time (42%), 14.9 ms per iteration."
    )


def test_replayed_kernels_have_findings_on_precision() -> None:
    """Nsight Compute replays kernels, but that they do without tensor cores is as true of the run."""
    rules = first_rules(open_shown(str(SAMPLES / "gemm.ncu.csv")))
    # Free SMs cost more, but larger grids rarely fill them all.
    assert rules == ["P2", "L3", "P17"]
    row = found_by_rule(findings(open_shown(str(SAMPLES / "gemm.ncu.csv"))))["P2"]
    assert (row["severity"], row["cost_of"]) == ("warning", "GPU time")
    assert row["problem"].startswith("Tensor cores used for 10% of the eligible kernel time.")


def test_a_kernel_counts_with_all_its_launch_configurations() -> None:
    """Three small grids of one kernel take 6 ms in all, one of another 3 ms."""
    grids = [launch(n * 2 * MS, 2 * MS, "many(int)", grid_x=27 * (n + 1)) for n in range(3)]
    profile = trace_of(*grids, launch(6 * MS, 3 * MS, "one(int)", grid_x=27), launch(9 * MS, 3 * MS))
    # One wave is 864 blocks of 256 threads; there are 108 SMs.
    assert found_by("L3", profile).problem == (
        "75% of kernel time is in launches smaller than one wave. "
        "`many` (50% of GPU time) fills 6.2% of one on average."
    )
    assert found_by("L2", profile).problem == (
        "2 significant kernels have fewer blocks than the GPU has SMs. `many` (50% of GPU time) launches 27 to 81 "
        "blocks on 108 SMs."
    )


def test_a_kernel_of_one_block_is_no_kernel_to_optimize_first() -> None:
    """A kernel with all the time leaves nearly all SMs free: that is why it takes long."""
    assert first_rules(trace_of(launch(0, 100 * MS, "quicksort(int)", grid_x=1)))[:2] == ["L3", "P10"]


# ---- start-up


def test_start_up_says_how_busy_the_steady_iterations_are() -> None:
    row = found_by_rule(findings(open_shown(recording_file("gpt_cudagraph.nsys.sqlite.gz"))))["U1"]
    assert row["problem"].endswith(
        "For 623 ms of the idle time the run was starting up, before iteration 0. "
        "In iterations 0 to 5 the GPU is busy 98% (25.7 of 26.3 ms)."
    )
    # Start-up is most of this recording, so it is what to look at.
    assert row["severity"] == "warning"


def test_the_first_answer_to_a_run_of_start_up_is_about_its_steady_iterations() -> None:
    """90 ms without work, then four iterations of 10 ms, in each of which the GPU waits for 5 ms."""
    work = [launch(0, MS), *(launch(90 * MS + n * 10 * MS, 5 * MS, iteration=n) for n in range(4))]
    profile = trace_of(*work, ranges=[step_range(n, 90 * MS + n * 10 * MS, 10 * MS) for n in range(4)])
    steady = select_iterations(profile, Aggregation(0, 3))
    idle = found_by_rule(findings(steady))["U1"]
    assert idle["problem"].startswith("GPU busy 50% (20 of 40 ms).")
    answer = advice(profile).guidance
    assert answer == (
        "Start here: Start-up is a one-time cost. Look at the steady iterations: --iterations 0:3, or p in Iterations. "
        f"For iterations 0 to 3: {first_findings(findings(steady))['recommendation'][0]}"
    )
    # Nothing is added where the iterations are chosen already, where they are busy, or where there are none.
    assert "For iterations" not in advice(steady).guidance
    busy = [launch(0, MS), *(launch(90 * MS + n * 10 * MS, 10 * MS, iteration=n) for n in range(4))]
    steps = [step_range(n, 90 * MS + n * 10 * MS, 10 * MS) for n in range(4)]
    assert advice(trace_of(*busy, ranges=steps)).guidance.endswith("--iterations 0:3, or p in Iterations.")
    mostly_start_up = trace_of(transfer(0, 10 * US), launch(90 * MS, 10 * MS))
    assert advice(mostly_start_up).guidance.endswith("Profile more iterations, or exclude it from comparisons.")


def test_a_gap_before_the_first_kernel_is_start_up() -> None:
    """A copy of 10 us, a gap of 30 ms, and then two kernels without gaps for 70 ms."""
    work = [transfer(0, 10 * US), launch(30 * MS, 40 * MS), launch(70 * MS, 30 * MS, ADD)]
    rows = findings(trace_of(*work))
    row = found_by_rule(rows)["U2"]
    assert (row["cause"], row["severity"]) == ("one-time cost", "info")
    assert row["problem"].endswith("30 ms of it is before the first kernel.")
    assert guidance(rows).startswith("No large cost found apart from one-time costs. GPU busy 70% (70 of 100 ms).")
    # The same gap between kernels is none of start-up.
    later = found_by_rule(findings(trace_of(launch(0, 10 * US), *work[1:])))["U2"]
    assert (later["cause"], later["severity"]) == ("GPU idle", "warning")
    # Most of a recording is start-up: that is its first answer.
    mostly = findings(trace_of(transfer(0, 10 * US), launch(90 * MS, 10 * MS)))
    first = first_findings(mostly).row(0, named=True)
    assert (first["rule"], first["severity"]) == ("U1", "warning")
    assert first["problem"] == "GPU busy 10% (10 of 100 ms). 90 ms of the idle time is before the first kernel."


def test_the_start_of_cuda_comes_after_what_a_run_can_change() -> None:
    """900 of 1,000 ms of calls start CUDA; half of 40 ms of GPU time is one kernel, a quarter copies."""
    work = [
        summary_row("gpu", "k", 10, 20 * MS),
        summary_row("gpu", "other", 10, 10 * MS),
        summary_row("gpu", "[CUDA memcpy HtoD]", 10, 11 * MS),
    ]
    rows = findings(make_profile(summary=[*work, summary_row("api", "cudaMalloc", 1, 900 * MS, max_ns=900 * MS)]))
    assert first_findings(rows)["rule"].to_list()[:2] == ["T1", "A10"]
    start = found_by_rule(rows)["A10"]
    assert (start["severity"], start["cost_pct"]) == ("info", 100.0)
    alone = findings(make_profile(summary=[summary_row("api", "cudaMalloc", 1, 900 * MS, max_ns=900 * MS)]))
    assert guidance(alone) == "No large cost found apart from one-time costs."


def test_start_up_is_named_by_the_api_of_the_gpu() -> None:
    profile = make_profile(
        sessions=[{"session": 0, "format": "rocprofv3-csv", "tool": "rocprofv3"}],
        summary=[summary_row("api", "hipStreamCreateWithFlags", 1, 900 * MS, max_ns=900 * MS)],
    )
    assert found_by("A10", profile).problem.startswith("HIP initialization: `hipStreamCreateWithFlags` takes 900 ms")


# ---- several sessions and GPUs


def test_a_finding_counts_by_the_time_of_its_session() -> None:
    """A session of 1 ms is nearly all copies, one of 1 s to a third: that third is more."""
    short = trace_of(transfer(0, 900 * US), launch(900 * US, 100 * US, ADD))
    long = trace_of(transfer(0, 300 * MS), launch(300 * MS, 700 * MS, ADD))
    rows = findings(merge_profiles([short, long]))
    first = first_findings(rows).row(0, named=True)
    assert (first["rule"], first["session"]) == ("T1", 1)
    # Each share is of its own session.
    shares = rows.filter(pl.col("rule") == "T1").sort("session")["cost_pct"].to_list()
    assert shares == [pytest.approx(90.0), pytest.approx(30.0)]


def test_a_cost_of_several_gpus_is_a_share_of_their_wall_time() -> None:
    work = [row for n in (0, 1) for row in (transfer(0, 60 * MS, device=n), launch(60 * MS, 40 * MS, device=n))]
    one = found_by_rule(findings(trace_of(*work[:2])))["T1"]
    both = found_by_rule(findings(trace_of(*work, devices=[A100, {**A100, "device": 1}])))["T1"]
    assert (one["cost_ns"], one["cost_pct"], one["cost_of"]) == (60 * MS, 60.0, "wall time")
    assert (both["cost_ns"], both["cost_pct"], both["cost_of"]) == (120 * MS, 60.0, "wall time of 2 GPUs")


def test_waits_of_the_cpu_are_a_share_of_the_time_of_one_gpu() -> None:
    """The CPU waits for 1.5 of 100 ms; a second GPU makes that no less."""
    reads = [
        (
            transfer(n * 25 * MS, US, "DtoH", 4, correlation=n),
            call(n * 25 * MS, US, "cudaMemcpyAsync", correlation=n),
        )
        for n in range(4)
    ]
    waits = tuple(call(n * 25 * MS + 2 * US, 375 * US, "cudaStreamSynchronize") for n in range(4))
    steps = [step_range(n, n * 25 * MS, 25 * MS) for n in range(4)]
    work = [launch_with_call(80 * MS, 20 * MS, 79 * MS, US, 10 + n, device=n) for n in range(2)]
    severities = [
        found_by("T11", with_calls(*reads, *work[:gpus], calls=waits, ranges=steps)).severity for gpus in (1, 2)
    ]
    assert severities == [None, None]


def test_printed_totals_of_blocking_copies_may_be_waits_for_kernels() -> None:
    """Copies block for 90 of 100 ms, in which kernels ran for 60 ms at most."""
    work = [summary_row("gpu", "k", 10, 60 * MS), summary_row("gpu", "[CUDA memcpy DtoH]", 10, 10 * MS)]
    calls = [summary_row("api", "cudaMemcpy", 10, 90 * MS), summary_row("api", "cudaLaunchKernel", 10, 10 * MS)]
    finding = found_by("T8", make_profile(summary=[*work, *calls]))
    assert finding.problem == (
        "`cudaMemcpy` blocks the CPU for 90 ms (90% of the API time) in 10 calls; "
        "up to 60 ms of it can be waits for kernels."
    )
    assert finding.cost_ns == 30 * MS


# ---- vendors and tools


def test_collectives_recorded_as_ranges_are_within_the_wall_time() -> None:
    """The collective of the sample takes 79.1 ms, its kernels 0.2 ms of them."""
    rows = findings(open_shown(str(SAMPLES / "formats" / "kernel_details.csv")))
    first = first_findings(rows).row(0, named=True)
    assert first["problem"] == (
        "GPU busy 0.24% (188 µs of 79.1 ms). For 78.9 ms of the idle time collectives ran, which are not recorded as "
        "kernels."
    )
    share = found_by_rule(rows)["C1"]["problem"]
    assert share == "Communication takes 79.1 ms (100% of the wall time), mostly `hcom_allReduce__586_0_1`."


@pytest.mark.parametrize(
    ("capability", "advice"),
    [
        ("8.0", "Use mixed precision with bfloat16, or allow TF32."),
        ("7.0", "Use mixed precision with float16. This GPU has no bfloat16 or TF32 tensor cores."),
    ],
)
def test_mixed_precision_fits_the_gpu(capability: str, advice: str) -> None:
    gpu = {**A100, "compute_capability": capability, "name": "GPU"}
    profile = trace_of(*(launch(n * MS, MS, "volta_sgemm_128x64_tn") for n in range(10)), devices=[gpu])
    assert found_by("P1", profile).advice == advice


@pytest.mark.parametrize(
    ("capability", "tool"), [("3.5", "nvprof --metrics all"), ("7.0", "ncu --set full"), ("9.0", "ncu --set full")]
)
def test_what_limits_a_kernel_is_shown_by_a_profiler_that_supports_the_gpu(capability: str, tool: str) -> None:
    gpu = {**A100, "compute_capability": capability, "name": "GPU"}
    verdict = found_by("P10", trace_of(*(launch(n * MS, MS, "mine") for n in range(10)), devices=[gpu]))
    assert verdict.advice == f"Optimize `mine`. {tool} shows what limits it."


def test_what_limits_a_kernel_of_an_unknown_gpu_is_shown_by_the_tool_that_recorded_it() -> None:
    """nvprof runs on GPUs that ncu does not support."""
    profile = make_profile(
        sessions=[{"session": 0, "format": "nvprof-text", "tool": "nvprof"}],
        summary=[summary_row("gpu", "mine(float*)", 10, 9 * MS), summary_row("gpu", ADD, 10, MS)],
    )
    assert found_by("P10", profile).advice == "Optimize `mine`. nvprof --metrics all shows what limits it."


def test_the_cost_of_missing_tensor_cores_is_of_the_kernels_behind_the_finding() -> None:
    """The op with a matrix product also launches a change of layout, which no tensor core could run."""
    ops = [{"op": 0, "name": "aten::mm", "op_source": "recorded", "start_ns": 0, "duration_ns": US, "pid": 1, "tid": 1}]
    linked = {"op": 0, "op_join": "launch"}
    slow = [launch(0, 6 * MS, "ampere_sgemm_128x64_nn", **linked), launch(6 * MS, 2 * MS, "nchwToNhwcKernel", **linked)]
    verdict = found_by("P2", trace_of(*slow, launch(8 * MS, 2 * MS), ops=ops))
    assert verdict.problem == (
        "Tensor cores used for 20% of the eligible kernel time. Eligible kernels without them take 6 ms, mostly "
        "`ampere_sgemm_128x64_nn`. Layout changes and other kernels of the same ops take 2 ms."
    )
    assert verdict.evidence is not None
    assert (verdict.cost_ns, verdict.evidence["name"].to_list()) == (3 * MS, ["ampere_sgemm_128x64_nn"])
    assert verdict.advice == (
        "`ampere_sgemm_128x64_nn` computes in float32: run its ops in half precision (torch.autocast), or allow TF32 "
        "(torch.set_float32_matmul_precision('high'))."
    )
    unknown = found_by("P2", trace_of(launch(0, 6 * MS, "cudnn::detail::dgrad_engine<float>"), launch(6 * MS, 4 * MS)))
    assert unknown.advice == (
        "Check the ops of `cudnn::detail::dgrad_engine`: float32 without TF32, or sizes that are not multiples of 8 in "
        "half precision."
    )


def test_long_elementwise_kernels_can_be_fused_too() -> None:
    """6 of 10 ms are elementwise kernels of 100 us, as of a large batch; a loop over one kernel is no chain."""
    names = [ADD, MUL]
    chain = [launch(n * 100 * US, 100 * US, names[n % 2]) for n in range(60)]
    verdict = found_by("P7", trace_of(*chain, launch(6 * MS, 4 * MS)))
    assert (verdict.cost_ns, verdict.advice) == (
        3 * MS,
        "Fuse elementwise and normalization kernels: torch.compile, or fused layers (LayerNorm, activation with bias, "
        "dropout with add).",
    )
    plain = [launch(n * 100 * US, 100 * US, ("elementwise_add", "elementwise_mul")[n % 2]) for n in range(60)]
    assert found_by("P7", trace_of(*plain, launch(6 * MS, 4 * MS))).advice == (
        "Fuse elementwise kernels: one that does several of their steps reads and writes the data once."
    )
    loop = [launch(n * 100 * US, 100 * US, ADD) for n in range(60)]
    assert "P7" not in found_by_rule(findings(trace_of(*loop, launch(6 * MS, 4 * MS))))


def test_time_after_the_work_of_a_recorded_iteration_is_no_shutdown() -> None:
    """1 ms of work in an iteration of 100 ms; without the iteration, the program ends."""
    work = launch_with_call(0, MS, 0, US, 1)
    last = call(99 * MS, MS, "cudaFree")
    inside = found_by("U1", with_calls(work, calls=(last,), ranges=[step_range(3, 0, 100 * MS)]))
    assert inside.problem == (
        "GPU busy 1% (1 of 100 ms). For 99 ms of the idle time the CPU kept running after the last GPU work."
    )
    assert inside.advice == "Check what the program does after its GPU work in iteration 3."
    outside = found_by("U1", with_calls(work, calls=(last,)))
    assert outside.advice == "Shutdown is a one-time cost. Exclude it from comparisons."


@pytest.mark.parametrize(
    ("frame", "names", "named"),
    [
        ("ops", {"outer": 90, "inner": 60, "short": 20}, "`inner`"),
        ("ranges", {"DistributedDataParallel.forward": 90}, "`DistributedDataParallel.forward`"),
        ("ops", {"short": 20}, ""),
    ],
    ids=["op", "range", "none"],
)
def test_the_op_or_range_that_runs_in_the_longest_gap_is_named(frame: str, names: dict[str, int], named: str) -> None:
    """A gap of 98 ms between two kernels, with ops that run for some of it; the step contains everything."""
    pairs = [launch_with_call(0, MS, 0, US, 1), launch_with_call(99 * MS, 301 * MS, 99 * MS - 9 * US, US, 2)]
    rows = [
        {"name": name, "op": n, "op_source": "recorded", "start_ns": 2 * MS, "duration_ns": ms * MS, "pid": 1, "tid": 1}
        for n, (name, ms) in enumerate(names.items())
    ]
    if frame == "ranges":
        rows = [{name: value for name, value in row.items() if not name.startswith("op")} for row in rows]
    ranges = [step_range(0, 0, 400 * MS), *(rows if frame == "ranges" else [])]
    verdict = found_by("U2", with_calls(*pairs, ranges=ranges, ops=rows if frame == "ops" else []))
    assert verdict.problem.endswith(f"the CPU was outside CUDA calls{named and f', mostly in {named}'}.")
    assert verdict.advice == (
        f"Check what {named} does on the CPU in the longest gap."
        if named
        else "Check what the CPU does during the longest gap: input, logging, checkpoints, allocation. "
        "NVTX ranges name it."
    )


@pytest.mark.parametrize(("start_ns", "duration_ns"), [(None, 5), (2 * MS, None), (None, None)])
def test_a_range_with_an_unknown_time_is_not_said_to_run_in_a_gap(
    start_ns: int | None, duration_ns: int | None
) -> None:
    pairs = [launch_with_call(0, MS, 0, US, 1), launch_with_call(99 * MS, 301 * MS, 99 * MS - 9 * US, US, 2)]
    unknown = {"name": '"1676480000"', "start_ns": start_ns, "duration_ns": duration_ns, "pid": 1, "tid": 1}
    verdict = found_by("U2", with_calls(*pairs, ranges=[step_range(0, 0, 400 * MS), unknown]))
    assert verdict.problem.endswith("the CPU was outside CUDA calls.")


def test_the_first_answer_names_what_ran_in_the_longest_of_many_gaps() -> None:
    """Ten gaps of 9 ms without a call; an optimizer runs in the longest, of 29 ms."""
    starts = [*(n * 10 * MS for n in range(10)), 120 * MS]
    pairs = [launch_with_call(start, MS, start - 9 * US, US, n) for n, start in enumerate(starts, 1)]
    step = {"name": "Optimizer.step#Shampoo.step", "start_ns": 92 * MS, "duration_ns": 26 * MS, "pid": 1, "tid": 1}
    verdict = found_by("U1", with_calls(*pairs, ranges=[step]))
    assert verdict.problem == (
        "GPU busy 9.1% (11 of 121 ms). 110 ms of the idle time is in 10 gaps of 1 ms or more. The CPU was mostly "
        "outside CUDA calls; in the longest gap it was mostly in `Optimizer.step#Shampoo.step`."
    )
    assert verdict.advice == "Check what `Optimizer.step#Shampoo.step` does on the CPU in the longest gap."


def test_hidden_and_exposed_parts_are_of_all_copies_and_communication() -> None:
    """10 ms of copies and 10 ms of communication, 4 ms of each beside a kernel."""
    copies = trace_of(launch(0, 14 * MS), transfer(10 * MS, 10 * MS, stream=8))
    assert found_by("T2", copies).problem == (
        "Exposed copies take 6 ms (30% of the wall time). Kernels hide 40% of all copy time."
    )
    communication = trace_of(launch(0, 14 * MS), launch(10 * MS, 10 * MS, NCCL, stream=8))
    assert found_by("C2", communication).problem == (
        "Exposed communication takes 6 ms (30% of the wall time). Kernels hide 40% of all communication."
    )


def test_layout_changes_of_ascend_are_its_own_formats() -> None:
    profile = make_profile(
        sessions=[{"session": 0, "format": "ascend-csv", "tool": "Ascend"}],
        summary=[summary_row("gpu", "TransData", 60, 2 * MS), summary_row("gpu", "MatMul", 60, 8 * MS)],
    )
    advice = found_by("P4", profile).advice
    assert advice == "Keep tensors in one format (PyTorch: torch.npu.config.allow_internal_format = False)."


def test_communication_is_the_first_answer_where_it_is_exposed() -> None:
    profile = trace_of(launch(0, 20 * MS), launch(20 * MS, 80 * MS, NCCL, stream=8), launch(100 * MS, 5 * MS, ADD))
    assert first_rules(profile)[0] == "C1"


def test_counters_without_times_are_answered_with_the_command_that_records_times(tmp_path: Path) -> None:
    path = tmp_path / "1_counter_collection.csv"
    path.write_text(
        "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Id,Kernel_Name,"
        "Workgroup_Size,LDS_Block_Size,Scratch_Size,VGPR_Count,SGPR_Count,Counter_Name,Counter_Value\n"
        '1,1,1,1,77,77,4096,9,"scale(float*)",64,0,0,8,16,SQ_WAVES,64\n'
    )
    assert advice(open_shown(str(path))).guidance == (
        "Durations of GPU work are not recorded: record with rocprofv3 --kernel-trace --memory-copy-trace --hip-trace "
        "--marker-trace -f csv -- ./app."
    )
