"""Limits of copy rates by link, and the time in blocking copy calls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.analysis.expert.profiles import (
    MS,
    call,
    launch,
    launch_with_call,
    step_range,
    trace_of,
    transfer,
    with_calls,
)
from tests.analysis.expert.rule_verdicts import found_by, open_shown, verdict_of
from tests.analysis.frames import make_profile, summary_row
from tui.analysis.expert.findings import findings
from tui.analysis.expert.rule import Clean, Found, NotApplicable

if TYPE_CHECKING:
    from tui.model.profile import Profile

JAX: Final = Path(__file__).parents[3] / "sample_logs/jax_train_step.trace.json.gz"


@pytest.mark.parametrize(
    ("name", "capability", "ceiling"),
    [
        ("Tesla C2050", "2.0", 6e9),
        ("Tesla K20m", "3.5", 6e9),
        ("a GPU", "3.5", 6e9),
        ("Tesla K40c", "3.5", 12e9),
        ("GeForce GTX 680", "3.0", 12e9),
        ("Quadro K5000", "3.0", 6e9),
        ("Tesla K80", "3.7", 12e9),
        ("Tesla V100-SXM2-16GB", "7.0", 12e9),
        ("NVIDIA A100-SXM4-40GB", "8.0", 24e9),
        ("NVIDIA H100 PCIe", "9.0", 50e9),
    ],
)
def test_the_limit_of_copies_depends_on_the_pcie_generation(name: str, capability: str, ceiling: float) -> None:
    """A rate of 5 GB/s is healthy only for PCIe 2."""
    device = {"device": 0, "name": name, "compute_capability": capability}
    verdict = verdict_of("T5", trace_of(launch(0, MS), transfer(0, 2 * MS, size=10 * MS), devices=[device]))
    assert isinstance(verdict, Clean if ceiling == 6e9 else Found)
    assert (verdict.numbers["rate"], verdict.numbers["ceiling"]) == (5e9, ceiling)


def test_overlapping_blocking_copies_count_once_and_without_kernel_time() -> None:
    """Two threads are in cudaMemcpy from 1 to 9 and from 3 to 11 ms; kernels run from 2 to 5 and from 11 to 12 ms."""
    work = (launch_with_call(2 * MS, 3 * MS, 0, 9, 1), launch_with_call(11 * MS, MS, 9, 9, 2))
    first, second = (call(start_ms * MS, 8 * MS, "cudaMemcpy", tid=tid) for start_ms, tid in ((1, 1), (3, 2)))
    driver_call = call(1 * MS, 7 * MS, "cuMemcpyHtoD_v2")
    two_threads = verdict_of("T8", with_calls(*work, calls=(first, second, driver_call)))
    assert isinstance(two_threads, Found)
    assert two_threads.numbers == {"calls": 3, "call_ns": 9 * MS, "share_pct": 75.0}
    assert two_threads.problem == (
        "Synchronous copies, mostly `cudaMemcpy`, block the CPU for 9 ms (75% of the wall time) in 3 calls of 2 "
        "threads; kernels run during 3 ms of it."
    )
    assert (two_threads.cost_ns, two_threads.basis) == (6 * MS, "the time in these calls in which no kernel ran")
    one_thread = verdict_of("T8", with_calls(*work, calls=(first,)))
    assert isinstance(one_thread, Found)
    assert one_thread.problem == (
        "`cudaMemcpy` blocks the CPU for 7 ms (58% of the wall time) in 1 call between the first and the last GPU "
        "work; kernels run during 3 ms of it."
    )


def test_blocking_copies_have_the_name_of_their_calls_and_the_period_of_their_time() -> None:
    """The calls of two names are not those of the first; of a call of 8 ms, 5 are before the first GPU work."""
    api = [summary_row("api", "cudaMemcpy", 9, 60 * MS), summary_row("api", "cudaMemcpyToSymbol", 2, 2 * MS)]
    totals = make_profile(summary=[summary_row("gpu", "[CUDA memcpy HtoD]", 11, 40 * MS), *api])
    assert found_by("T8", totals).problem == (
        "Synchronous copies, mostly `cudaMemcpy`, block the CPU for 62 ms (100% of the API time) in 11 calls."
    )
    early = trace_of(transfer(5 * MS, 3 * MS), launch(8 * MS, 2 * MS), api_calls=[call(0, 8 * MS, "cudaMemcpy")])
    assert found_by("T8", early).problem == (
        "`cudaMemcpy` blocks the CPU for 3 ms (30% of the wall time) in 1 call between the first and the last GPU work."
    )


def test_a_blocking_copy_that_only_waits_for_a_kernel_is_clean() -> None:
    verdict = verdict_of(
        "T8", with_calls(launch_with_call(0, 10 * MS, 0, 9, 1), calls=(call(1 * MS, 9 * MS, "cudaMemcpy"),))
    )
    assert isinstance(verdict, Clean)
    assert verdict.reason == "blocking copies wait for kernels: 0 ns without any"


def test_copies_before_the_first_iteration_are_start_up() -> None:
    """30 ms of uploads before four steps of 10 ms each with 1 ms of a kernel; else the copies are in the steps."""
    steps = [step_range(n, (40 + n * 10) * MS, 10 * MS) for n in range(4)]
    kernels = [launch((41 + n * 10) * MS, MS, iteration=n) for n in range(4)]
    early = verdict_of("T1", trace_of(transfer(0, 30 * MS), *kernels, ranges=steps))
    assert isinstance(early, Found)
    assert early.cause == "one-time cost"
    assert early.problem.endswith("1 copy of 30 ms. 30 ms of it is before iteration 0.")
    assert early.advice.startswith("Start-up is a one-time cost.")
    late = verdict_of(
        "T1", trace_of(*(transfer((43 + n * 10) * MS, 5 * MS, iteration=n) for n in range(4)), *kernels, ranges=steps)
    )
    assert isinstance(late, Found)
    assert (late.cause, late.advice.startswith("Keep data")) == ("", True)


def test_asynchronous_copies_of_jax_do_not_block() -> None:
    verdict = verdict_of("T8", open_shown(str(JAX)))
    assert isinstance(verdict, Clean)
    assert verdict.numbers == {"calls": 0, "call_ns": 0, "share_pct": 0.0}
    assert isinstance(verdict_of("T9", open_shown(str(JAX))), Clean)


def test_totals_of_blocking_copies_are_over_all_threads() -> None:
    totals = make_profile(
        summary=[summary_row("gpu", "[CUDA memcpy HtoD]", 9, 40 * MS), summary_row("api", "cudaMemcpy", 9, 60 * MS)]
    )
    verdict = verdict_of("T8", totals)
    assert isinstance(verdict, Found)
    assert "60 ms (100% of the API time) in 9 calls." in verdict.problem


def test_costs_of_totals_are_shares_of_the_longer_of_gpu_and_api_time() -> None:
    """Copies take most of the GPU time, but 1% of the API time."""
    calls = [summary_row("api", "cudaMalloc", 1, 89 * MS, max_ns=89 * MS), summary_row("api", "cudaMemcpy", 9, 11 * MS)]
    work = [summary_row("gpu", "[CUDA memcpy HtoD]", 9, 1 * MS), summary_row("gpu", "f", 1, MS // 10)]
    totals = make_profile(summary=[*work, *calls])
    rows = {row["rule"]: row for row in findings(totals).filter(state="found").iter_rows(named=True)}
    assert [(rule, rows[rule]["cost_pct"], rows[rule]["severity"]) for rule in ("A10", "T8", "T1")] == [
        ("A10", 89.0, "info"),
        ("T8", 10.9, "warning"),
        ("T1", 1.0, "warning"),
    ]
    assert {rows[rule]["cost_of"] for rule in ("A10", "T8", "T1")} == {"API time"}
    assert rows["T8"]["problem"] == "`cudaMemcpy` blocks the CPU for 11 ms (11% of the API time) in 9 calls."
    assert rows["T8"]["recommendation"].startswith("Copy asynchronously from pinned memory (cudaMemcpyAsync).")


def test_shares_of_a_table_with_missing_rows_are_of_all_gpu_time() -> None:
    """The only printed row is of copies, which take 5% of the GPU time."""
    incomplete = make_profile(summary=[summary_row("gpu", "[CUDA memcpy HtoD]", 9, 5 * MS, time_pct=5.0)])
    assert isinstance(verdict_of("T1", incomplete), Clean)
    assert isinstance(verdict_of("U8", incomplete), NotApplicable)


def test_advice_names_tools_of_the_recorded_framework() -> None:
    copies = (transfer(0, 9 * MS), launch(9 * MS, MS, "void tensorflow::functor::ShuffleInTensor3Simple<float>"))
    for other_work, expected in (
        ((), "the next part of the data"),
        ((launch(10 * MS, MS, "at::native::f"),), "non_blocking=True"),
    ):
        verdict = verdict_of("T2", trace_of(*copies, *other_work))
        assert isinstance(verdict, Found)
        assert expected in verdict.advice


def test_blocking_copies_can_wait_for_all_kernels() -> None:
    calls = [summary_row("api", "cudaMemcpy", 2000, 95 * MS), summary_row("api", "cudaLaunchKernel", 6000, 5 * MS)]
    totals = make_profile(summary=[summary_row("gpu", "flux", 6000, 80 * MS), *calls])
    verdict = verdict_of("T8", totals)
    assert isinstance(verdict, Found)
    assert (verdict.numbers["share_pct"], verdict.cost_ns) == (95.0, 15 * MS)
    assert verdict.advice == (
        "Use fewer copies: pack small ones into one, keep values on the device, and read results back once."
    )
    waiting = verdict_of("T8", make_profile(summary=[summary_row("gpu", "flux", 6000, 94 * MS + MS // 2), *calls]))
    assert waiting == Clean("blocking copies wait for kernels: 500 µs without any", {**verdict.numbers})


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (
            make_profile(sessions=[{"tool": "Proton"}], summary=[summary_row("gpu", "gemm", 1, MS)]),
            "no copies: record with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])",
        ),
        (
            make_profile(sessions=[{"tool": "PyTorch"}], summary=[summary_row("gpu", "gemm", 1, MS, time_pct=60.0)]),
            "rows of the printed table are missing",
        ),
        (
            make_profile(
                summary=[summary_row("gpu", "gemm", 1, MS), summary_row("gpu", "[CUDA memcpy HtoD]", 1, None)]
            ),
            "durations of copies are not recorded",
        ),
    ],
)
def test_copies_that_may_not_be_recorded_are_not_reported_as_absent(profile: Profile, reason: str) -> None:
    for rule in ("T1", "T12", "U8"):
        verdict = verdict_of(rule, profile)
        assert isinstance(verdict, NotApplicable)
        assert verdict.reason == reason


@pytest.mark.parametrize(("format_name", "are_recorded"), [("dlprof-database", True), ("dlprof-csv", False)])
def test_databases_of_dlprof_have_all_copies_and_its_reports_may_not(format_name: str, *, are_recorded: bool) -> None:
    profile = make_profile(sessions=[{"format": format_name, "tool": "DLProf"}], activities=[launch(0, MS)])
    assert isinstance(verdict_of("T1", profile), Clean if are_recorded else NotApplicable)


def test_copies_of_unknown_direction_are_not_reported_as_absent() -> None:
    copies = [{**transfer(n * 10 * MS, MS, correlation=n, iteration=n), "copy_kind": None} for n in range(4)]
    steps = [step_range(n, n * 10 * MS, 10 * MS) for n in range(4)]
    calls = tuple(call(n * 10 * MS, MS, "cudaMemcpyAsync", correlation=n) for n in range(4))
    profile = with_calls(*zip(copies, calls, strict=True), (launch(0, MS), call(0, 1)), ranges=steps)
    for rule in ("T4", "T5", "T10", "T11"):
        assert verdict_of(rule, profile) == NotApplicable("directions of copies are not recorded")


@pytest.mark.parametrize(
    ("tool", "verdict"),
    [
        ("Nsight Systems", Clean("no unified memory was moved")),
        (
            "PyTorch profiler",
            NotApplicable(
                "no unified memory: record with nsys profile --cuda-um-gpu-page-faults=true "
                "--cuda-um-cpu-page-faults=true ./app"
            ),
        ),
        ("Proton", NotApplicable("no unified memory: not part of this kind of recording")),
    ],
)
def test_unified_memory_is_absent_only_if_the_tool_records_it(tool: str, verdict: Clean | NotApplicable) -> None:
    assert verdict_of("T13", make_profile(sessions=[{"tool": tool}], activities=[launch(0, MS)])) == verdict


def test_migrations_of_both_directions_at_once_take_their_time_once() -> None:
    """Pages migrate to the GPU from 0 to 6 ms and back from 2 to 8 ms, in a run of 10 ms."""
    migration = {"kind": "um", "device": 0, "duration_ns": 6 * MS}
    rows = [
        {**migration, "name": f"[Unified Memory Memcpy {direction}]", "start_ns": start_ns}
        for direction, start_ns in (("HtoD", 0), ("DtoH", 2 * MS))
    ]
    verdict = found_by("T13", trace_of(*rows, launch(8 * MS, 2 * MS)))
    assert verdict.numbers == {"fault_ns": 0, "moved_ns": 8 * MS, "share_pct": 80.0}
    # Next to kernels with times, printed totals of migrations count, too.
    totals = [summary_row("um", "Gpu page fault groups", 3, 5 * MS)]
    assert found_by("T13", trace_of(launch(0, 10 * MS), summary=totals)).numbers["fault_ns"] == 5 * MS
