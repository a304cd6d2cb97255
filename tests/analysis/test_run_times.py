"""Runs of equal and of slower code: changes beyond the noise are found, and noise is not taken for a change."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.profiles import SAMPLES, load_one
from tui.analysis.compare.headline import Outcome
from tui.analysis.compare.run_times import GPU, ITERATION, RUN, SCHEMA, compare_runs, run_times
from tui.analysis.iterations.iteration_table import iterations, with_iterations
from tui.analysis.kernels import kernels

KERNELS = {
    "gemm": 4000, "attention": 1500, "softmax": 800, "norm": 900, "gelu": 600,
    "adam": 700, "add": 300, "copy": 200, "dropout": 400, "loss": 100,
}  # fmt: skip
"""Microseconds an iteration."""


def run_with_noise(
    random: np.random.Generator, number: int, *, slow: str = "", host: float = 0.05, noise: float = 0.003
) -> pl.DataFrame:
    """Return a run of 30 iterations, with the noise of real ones.

    Runs differ in their clock (0.5%), their kernels (0.3%) and in the time of the CPU; iterations vary by 1%, and
    some take much longer.
    """
    count = 30
    clock, cpu = np.exp(random.normal(0, 0.005)), np.exp(random.normal(0, host))
    work = {
        name: 1000 * time * (1.08 if name == slow else 1) * clock * np.exp(random.normal(0, noise))
        * np.exp(random.normal(0, 0.01, count)) * np.where(random.random(count) < 0.02, 1.3, 1)
        for name, time in KERNELS.items()
    }  # fmt: skip
    gpu = sum(work.values())
    gaps = 2_500_000 * cpu * np.exp(random.normal(0, 0.1, count)) * np.where(random.random(count) < 0.03, 4, 1)
    parts = [(ITERATION, None, gpu + gaps), (GPU, None, gpu), *(("kernel", name, time) for name, time in work.items())]
    return pl.concat(
        pl.DataFrame(
            {
                "run": number, "file": f"run{number}", "gpu": "H100", "session": 0, "iteration": range(count),
                "what": part, "name": name, "time_ns": np.asarray(times).round().astype(np.int64),
            },
            schema=SCHEMA,
            strict=False,
        )
        for part, name, times in parts
    )  # fmt: skip


def runs(
    random: np.random.Generator, count: int = 3, *, slow: str = "", host: float = 0.05, noise: float = 0.003
) -> pl.DataFrame:
    return pl.concat(run_with_noise(random, number, slow=slow, host=host, noise=noise) for number in range(count))


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))])
def test_equal_code_passes_and_a_kernel_slower_by_8_percent_fails(seed: int) -> None:
    random = np.random.default_rng(seed)
    before = runs(random)
    equal = compare_runs(before, runs(random))
    slower = compare_runs(before, runs(random, slow="attention"))
    assert equal is not None
    assert slower is not None
    assert equal.slower(5) == ()
    assert [one.name for one in slower.slower(5)] == ["attention"]
    assert slower.outcome(5) is Outcome.FAIL
    change = slower.slower(5)[0].change_pct
    assert change.low < 8 < change.high or abs(change.median - 8) < 1


@pytest.mark.slow
def test_confidence_intervals_have_their_coverage_if_kernels_vary_between_runs() -> None:
    """By 1%: nine of ten intervals of equal kernels contain 0, and uncertain changes are undecided."""
    random = np.random.default_rng(20)
    of_equal, found, undecided = 0, 0, 0
    for _ in range(40):
        before = runs(random, noise=0.01)
        equal = compare_runs(before, runs(random, noise=0.01))
        slower = compare_runs(before, runs(random, noise=0.01, slow="attention"))
        assert equal is not None
        assert slower is not None
        assert equal.slower(5) == ()
        of_equal += sum(change.is_noise for change in equal.work)
        found += "attention" in [change.name for change in slower.slower(5)]
        undecided += "attention" in [change.name for change in slower.undecided(5)]
    assert 0.86 < of_equal / 400 < 0.94
    assert found >= 34
    assert found + undecided >= 39


def test_a_machine_with_slow_and_fast_runs_does_not_fail_equal_code() -> None:
    random = np.random.default_rng(7)
    for _ in range(2):
        found = compare_runs(runs(random, host=0.6), runs(random, host=0.6))
        assert found is not None
        assert found.slower(5) == ()


def test_the_interval_is_deterministic_and_covers_both_kinds_of_noise() -> None:
    random = np.random.default_rng(3)
    before, now = runs(random), runs(random)
    first = compare_runs(before, now)
    assert first == compare_runs(before, now)
    assert first is not None
    assert first.runs == (3, 3)
    assert first.samples == (90, 90)
    assert first.per_iteration
    of_iteration, of_gpu = first.totals
    assert (of_iteration.kind, of_gpu.kind) == (ITERATION, GPU)
    width = [estimate.change_pct.high - estimate.change_pct.low for estimate in (of_iteration, of_gpu)]
    assert width[0] > width[1], "the CPU's part varies more"
    assert compare_runs(before.head(0), now) is None


def test_work_that_moved_to_another_kernel_is_no_regression() -> None:
    random = np.random.default_rng(5)
    before, now = runs(random), runs(random, slow="attention")
    faster = now.with_columns(
        pl.when(pl.col("name") == "gemm")
        .then(pl.col("time_ns") // 2)
        .when(pl.col("what").is_in([GPU, ITERATION]))
        .then(pl.col("time_ns") - 2_000_000)
        .otherwise("time_ns")
        .alias("time_ns")
    )
    found = compare_runs(before, faster)
    assert found is not None
    assert found.slower(5) == ()
    assert found.outcome(5) is Outcome.PASS
    gone = compare_runs(before, now.filter(pl.col("name").ne_missing("gemm")))
    assert gone is not None
    assert gone.unmatched == (("gemm",), ())


def test_the_times_of_a_run_agree_with_its_views() -> None:
    profile = with_iterations(load_one(str(SAMPLES / "mlp_modules.pt.trace.json.gz")))
    times = run_times(profile, 0, "mlp")
    of_iterations = times.filter(pl.col("what") == ITERATION)["time_ns"].sort().to_list()
    counted = iterations(profile).drop_nulls(["iteration", "duration_ns"])
    assert of_iterations == counted["duration_ns"].sort().to_list()
    whole = times.filter(pl.col("iteration").is_null())
    assert whole.filter(pl.col("what") == GPU)["time_ns"].sum() == kernels(profile)["total_ns"].sum()
    assert whole.filter(pl.col("name").is_not_null())["time_ns"].sum() == kernels(profile)["total_ns"].sum()
    summary = run_times(load_one(str(SAMPLES / "gpt_summary.nvprof.log")), 0, "log")
    assert summary["iteration"].null_count() == summary.height, "a summary has no iterations"
    found = compare_runs(summary, summary)
    assert found is not None
    assert not found.per_iteration
    assert found.outcome(5) is Outcome.NO_CHANGE
    assert RUN not in summary["what"].to_list(), "nor start times"


@pytest.mark.filterwarnings("error")
def test_times_of_zero_have_no_change_in_percent() -> None:
    whole = runs(np.random.default_rng(0), 1)
    for is_zero in (pl.lit(value=True), pl.int_range(pl.len()) % 2 == 0):
        zero = whole.with_columns(pl.when(is_zero).then(0).otherwise("time_ns").alias("time_ns"))
        found, back = compare_runs(zero, whole), compare_runs(whole, zero)
        assert found is not None
        assert back is not None
        assert found.totals[0].change_pct.high == np.inf
        assert back.totals[0].change_pct.low == -100
