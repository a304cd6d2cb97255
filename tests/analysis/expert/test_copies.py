"""Copies are held to what their link does, and the time in blocking calls is counted once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.analysis.expert.judging import as_shown, ask
from tests.analysis.expert.profiles import MS, call, launched, moved, run, step, traced, with_calls
from tests.analysis.frames import make_profile, summary_row
from tui.analysis.expert.findings import findings
from tui.analysis.expert.rule import Clean, Found, NotApplicable

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
def test_copies_are_held_to_the_generation_of_their_link(name: str, capability: str, ceiling: float) -> None:
    """At 5 GB/s copies are healthy over PCIe 2 alone."""
    device = {"device": 0, "name": name, "compute_capability": capability}
    text = ask("T5", traced(run(0, MS), moved(0, 2 * MS, size=10 * MS), devices=[device]))
    assert isinstance(text, Clean if ceiling == 6e9 else Found)
    assert (text.numbers["rate"], text.numbers["ceiling"]) == (5e9, ceiling)


def test_blocking_copies_of_several_threads_count_once_and_without_waits_for_kernels() -> None:
    """Two threads are in cudaMemcpy from 1 to 9 and from 3 to 11 ms; kernels run from 2 to 5 and from 11 to 12 ms."""
    work = (launched(2 * MS, 3 * MS, 0, 9, 1), launched(11 * MS, MS, 9, 9, 2))
    first, second = (call(at * MS, 8 * MS, "cudaMemcpy", tid=tid) for at, tid in ((1, 1), (3, 2)))
    within = call(1 * MS, 7 * MS, "cuMemcpyHtoD_v2")
    both = ask("T8", with_calls(*work, calls=(first, second, within)))
    assert isinstance(both, Found)
    assert both.numbers == {"calls": 3, "call_ns": 9 * MS, "share_pct": 75.0}
    assert both.problem == (
        "`cudaMemcpy` blocks the CPU for 9 ms (75% of the wall time) in 3 calls of 2 threads; kernels run during 3 ms "
        "of it."
    )
    assert (both.cost_ns, both.basis) == (6 * MS, "the time in these calls in which no kernel ran")
    alone = ask("T8", with_calls(*work, calls=(first,)))
    assert isinstance(alone, Found)
    assert alone.problem == (
        "`cudaMemcpy` blocks the CPU for 7 ms (58% of the wall time) in 1 call; kernels run during 3 ms of it."
    )


def test_a_blocking_copy_that_only_waits_for_a_kernel_is_clean() -> None:
    waits = ask("T8", with_calls(launched(0, 10 * MS, 0, 9, 1), calls=(call(1 * MS, 9 * MS, "cudaMemcpy"),)))
    assert isinstance(waits, Clean)
    assert waits.reason == "blocking copies wait for kernels: 0 ns without any"


def test_copies_before_the_first_iteration_are_start_up() -> None:
    """30 ms of uploads before four steps of 10 ms each with 1 ms of a kernel; else the copies are in the steps."""
    steps = [step(n, (40 + n * 10) * MS, 10 * MS) for n in range(4)]
    kernels = [run((41 + n * 10) * MS, MS, iteration=n) for n in range(4)]
    early = ask("T1", traced(moved(0, 30 * MS), *kernels, ranges=steps))
    assert isinstance(early, Found)
    assert early.cause == "start-up"
    assert early.problem.endswith("1 copy of 30 ms. 30 ms of it is before iteration 0.")
    assert early.advice.startswith("Start-up is paid once.")
    late = ask(
        "T1", traced(*(moved((43 + n * 10) * MS, 5 * MS, iteration=n) for n in range(4)), *kernels, ranges=steps)
    )
    assert isinstance(late, Found)
    assert (late.cause, late.advice.startswith("Keep data")) == ("", True)


def test_copies_that_a_recording_of_jax_calls_asynchronous_block_nobody() -> None:
    result = ask("T8", as_shown(str(JAX)))
    assert isinstance(result, Clean)
    assert result.numbers == {"calls": 0, "call_ns": 0, "share_pct": 0.0}
    assert isinstance(ask("T9", as_shown(str(JAX))), Clean)


def test_totals_of_blocking_copies_are_over_all_threads() -> None:
    totals = make_profile(
        summary=[summary_row("gpu", "[CUDA memcpy HtoD]", 9, 40 * MS), summary_row("api", "cudaMemcpy", 9, 60 * MS)]
    )
    result = ask("T8", totals)
    assert isinstance(result, Found)
    assert "60 ms (100% of the API time) in 9 calls." in result.problem


def test_costs_of_totals_are_shares_of_the_longer_of_gpu_and_api_time() -> None:
    """Copies take most of the GPU time, and 1% of what is known of the program's."""
    calls = [summary_row("api", "cudaMalloc", 1, 89 * MS, max_ns=89 * MS), summary_row("api", "cudaMemcpy", 9, 11 * MS)]
    work = [summary_row("gpu", "[CUDA memcpy HtoD]", 9, 1 * MS), summary_row("gpu", "f", 1, MS // 10)]
    totals = make_profile(summary=[*work, *calls])
    rows = {row["rule"]: row for row in findings(totals).filter(state="found").iter_rows(named=True)}
    assert [(rule, rows[rule]["cost_pct"], rows[rule]["severity"]) for rule in ("A10", "T8", "T1")] == [
        ("A10", 89.0, "warning"),
        ("T8", 10.9, "warning"),
        ("T1", 1.0, "warning"),
    ]
    assert {rows[rule]["cost_of"] for rule in ("A10", "T8", "T1")} == {"API time"}
    assert rows["T8"]["problem"] == "`cudaMemcpy` blocks the CPU for 11 ms (11% of the API time) in 9 calls."
    assert rows["T8"]["recommendation"].startswith("Copy asynchronously from pinned memory (cudaMemcpyAsync).")


def test_shares_of_a_table_with_missing_rows_are_of_all_gpu_time() -> None:
    """Copies are all that was printed, and 5% of the GPU time: they are not what costs."""
    rest = make_profile(summary=[summary_row("gpu", "[CUDA memcpy HtoD]", 9, 5 * MS, time_pct=5.0)])
    assert isinstance(ask("T1", rest), Clean)
    assert isinstance(ask("U8", rest), NotApplicable)


def test_advice_names_tools_of_the_framework_that_ran() -> None:
    copies = (moved(0, 9 * MS), run(9 * MS, MS, "void tensorflow::functor::ShuffleInTensor3Simple<float>"))
    for more, words in (((), "the next part of the data"), ((run(10 * MS, MS, "at::native::f"),), "non_blocking=True")):
        verdict = ask("T2", traced(*copies, *more))
        assert isinstance(verdict, Found)
        assert words in verdict.advice


def test_blocking_copies_can_wait_for_all_kernels() -> None:
    calls = [summary_row("api", "cudaMemcpy", 2000, 95 * MS), summary_row("api", "cudaLaunchKernel", 6000, 5 * MS)]
    totals = make_profile(summary=[summary_row("gpu", "flux", 6000, 80 * MS), *calls])
    result = ask("T8", totals)
    assert isinstance(result, Found)
    assert (result.numbers["share_pct"], result.cost_ns) == (95.0, 15 * MS)
    assert result.advice == (
        "Copy less often: pack small copies into one, keep values on the device, and read results back once."
    )
    waiting = ask("T8", make_profile(summary=[summary_row("gpu", "flux", 6000, 94 * MS + MS // 2), *calls]))
    assert waiting == Clean("blocking copies wait for kernels: 500 µs without any", {**result.numbers})
