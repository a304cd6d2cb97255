"""Copies are held to what their link does, and the time in blocking calls is counted once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.analysis.expert.judging import as_shown, ask
from tests.analysis.expert.profiles import MS, call, launched, moved, run, traced, with_calls
from tests.analysis.frames import printed, profile
from tui.analysis.expert.rule import Clean, Found

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


def test_blocking_copies_of_several_threads_count_once() -> None:
    """Two threads are in cudaMemcpy from 1 to 9 and from 3 to 11 ms, while the GPU works from 2 to 12 ms."""
    work = launched(2 * MS, 10 * MS, 0, 9, 1)
    first, second = (call(at * MS, 8 * MS, "cudaMemcpy", tid=tid) for at, tid in ((1, 1), (3, 2)))
    within = call(1 * MS, 7 * MS, "cuMemcpyHtoD_v2")
    both = ask("T8", with_calls(work, calls=(first, second, within)))
    assert isinstance(both, Found)
    assert both.numbers == {"calls": 3, "call_ns": 9 * MS, "share_pct": 75.0}
    assert both.problem == ("`cudaMemcpy` blocks the CPU for 9 ms (75% of the wall time) in 3 calls of 2 threads.")
    assert (both.cost_ns, (both.basis or "")[:35]) == (9 * MS, "all time in these calls, which can ")
    alone = ask("T8", with_calls(work, calls=(first,)))
    assert isinstance(alone, Found)
    assert alone.problem == "`cudaMemcpy` blocks the CPU for 7 ms (58% of the wall time) in 1 call."


def test_copies_that_a_recording_of_jax_calls_asynchronous_block_nobody() -> None:
    result = ask("T8", as_shown(str(JAX)))
    assert isinstance(result, Clean)
    assert result.numbers == {"calls": 0, "call_ns": 0, "share_pct": 0.0}
    assert isinstance(ask("T9", as_shown(str(JAX))), Clean)


def test_totals_of_blocking_copies_are_over_all_threads() -> None:
    totals = profile(
        summary=[printed("gpu", "[CUDA memcpy HtoD]", 9, 40 * MS), printed("api", "cudaMemcpy", 9, 60 * MS)]
    )
    result = ask("T8", totals)
    assert isinstance(result, Found)
    assert "60 ms (150% of the GPU time) in 9 calls. Times of all threads are added up." in result.problem
