"""Runs of equal and of slower code: changes are distinguished from noise."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.analysis.expert.profiles import MS, launch_with_call, step_range, with_calls
from tests.profiles import SAMPLES, load_one
from tui.analysis.compare.headline import Outcome
from tui.analysis.compare.run_times import GPU, ITERATION, RUN, SCHEMA, compare_runs, run_times
from tui.analysis.iterations.iteration_table import iterations, with_iterations
from tui.analysis.kernels import kernels

KERNELS = {
    "gemm": 4000, "attention": 1500, "softmax": 800, "norm": 900, "gelu": 600,
    "adam": 700, "add": 300, "copy": 200, "dropout": 400, "loss": 100,
}  # fmt: skip
"""Microseconds per iteration."""


def run_with_noise(
    random: np.random.Generator, run: int, *, slow: str = "", cpu_noise: float = 0.05, kernel_noise: float = 0.003
) -> pl.DataFrame:
    """Return a run of 30 iterations, with the noise of real ones.

    Runs differ in their clock (0.5%), their kernels (0.3%) and in the time of the CPU; iterations vary by 1%, and
    some take much longer.
    """
    count = 30
    clock, cpu = np.exp(random.normal(0, 0.005)), np.exp(random.normal(0, cpu_noise))
    times_by_kernel = {
        name: 1000 * time * (1.08 if name == slow else 1) * clock * np.exp(random.normal(0, kernel_noise))
        * np.exp(random.normal(0, 0.01, count)) * np.where(random.random(count) < 0.02, 1.3, 1)
        for name, time in KERNELS.items()
    }  # fmt: skip
    gpu_ns = sum(times_by_kernel.values())
    idle_ns = 2_500_000 * cpu * np.exp(random.normal(0, 0.1, count)) * np.where(random.random(count) < 0.03, 4, 1)
    rows = [
        (ITERATION, None, gpu_ns + idle_ns),
        (GPU, None, gpu_ns),
        *(("kernel", name, time) for name, time in times_by_kernel.items()),
    ]
    return pl.concat(
        pl.DataFrame(
            {
                "run": run, "file": f"run{run}", "gpu": "H100", "session": 0, "iteration": range(count),
                "what": kind, "name": name, "time_ns": np.asarray(times).round().astype(np.int64),
            },
            schema=SCHEMA,
            strict=False,
        )
        for kind, name, times in rows
    )  # fmt: skip


def runs(
    random: np.random.Generator, count: int = 3, *, slow: str = "", cpu_noise: float = 0.05, kernel_noise: float = 0.003
) -> pl.DataFrame:
    return pl.concat(
        run_with_noise(random, number, slow=slow, cpu_noise=cpu_noise, kernel_noise=kernel_noise)
        for number in range(count)
    )


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))])
def test_equal_code_passes_and_a_kernel_slower_by_8_percent_fails(seed: int) -> None:
    random = np.random.default_rng(seed)
    baseline = runs(random)
    equal = compare_runs(baseline, runs(random))
    slower = compare_runs(baseline, runs(random, slow="attention"))
    assert equal is not None
    assert slower is not None
    assert equal.slower(5) == ()
    assert [kernel.name for kernel in slower.slower(5)] == ["attention"]
    assert slower.outcome(5) is Outcome.FAIL
    change = slower.slower(5)[0].change_pct
    assert change.low < 8 < change.high or abs(change.median - 8) < 1


@pytest.mark.slow
def test_confidence_intervals_have_their_coverage_if_kernels_vary_between_runs() -> None:
    """With a variation of 1%, nine of ten intervals of equal kernels contain 0, and uncertain changes are undecided."""
    random = np.random.default_rng(20)
    covering_count, detected, undecided_count = 0, 0, 0
    for _ in range(40):
        baseline = runs(random, kernel_noise=0.01)
        equal = compare_runs(baseline, runs(random, kernel_noise=0.01))
        slower = compare_runs(baseline, runs(random, kernel_noise=0.01, slow="attention"))
        assert equal is not None
        assert slower is not None
        assert equal.slower(5) == ()
        covering_count += sum(change.is_noise for change in equal.work)
        detected += "attention" in [change.name for change in slower.slower(5)]
        undecided_count += "attention" in [change.name for change in slower.undecided(5)]
    assert 0.86 < covering_count / 400 < 0.94
    assert detected >= 34
    assert detected + undecided_count >= 39


def test_a_machine_with_slow_and_fast_runs_does_not_fail_equal_code() -> None:
    random = np.random.default_rng(7)
    for _ in range(2):
        comparison = compare_runs(runs(random, cpu_noise=0.6), runs(random, cpu_noise=0.6))
        assert comparison is not None
        assert comparison.slower(5) == ()


def test_the_interval_is_deterministic_and_covers_both_kinds_of_noise() -> None:
    random = np.random.default_rng(3)
    baseline, candidate = runs(random), runs(random)
    comparison = compare_runs(baseline, candidate)
    assert comparison == compare_runs(baseline, candidate)
    assert comparison is not None
    assert comparison.runs == (3, 3)
    assert comparison.samples == (90, 90)
    assert comparison.per_iteration
    iteration_total, gpu_total = comparison.totals
    assert (iteration_total.kind, gpu_total.kind) == (ITERATION, GPU)
    widths = [estimate.change_pct.high - estimate.change_pct.low for estimate in (iteration_total, gpu_total)]
    assert widths[0] > widths[1], "the CPU's part varies more"
    assert compare_runs(baseline.head(0), candidate) is None


def test_work_that_moved_to_another_kernel_is_not_a_regression() -> None:
    random = np.random.default_rng(5)
    baseline, candidate = runs(random), runs(random, slow="attention")
    faster = candidate.with_columns(
        pl.when(pl.col("name") == "gemm")
        .then(pl.col("time_ns") // 2)
        .when(pl.col("what").is_in([GPU, ITERATION]))
        .then(pl.col("time_ns") - 2_000_000)
        .otherwise("time_ns")
        .alias("time_ns")
    )
    comparison = compare_runs(baseline, faster)
    assert comparison is not None
    assert comparison.slower(5) == ()
    assert comparison.outcome(5) is Outcome.PASS
    without_gemm = compare_runs(baseline, candidate.filter(pl.col("name").ne_missing("gemm")))
    assert without_gemm is not None
    assert without_gemm.unmatched == (("gemm",), ())


def test_the_times_of_a_run_agree_with_its_views() -> None:
    profile = with_iterations(load_one(str(SAMPLES / "mlp_modules.pt.trace.json.gz")))
    times = run_times(profile, 0, "mlp")
    iteration_times = times.filter(pl.col("what") == ITERATION)["time_ns"].sort().to_list()
    iteration_rows = iterations(profile).drop_nulls(["iteration", "duration_ns"])
    assert iteration_times == iteration_rows["duration_ns"].sort().to_list()
    run_rows = times.filter(pl.col("iteration").is_null())
    assert run_rows.filter(pl.col("what") == GPU)["time_ns"].sum() == kernels(profile)["total_ns"].sum()
    assert run_rows.filter(pl.col("name").is_not_null())["time_ns"].sum() == kernels(profile)["total_ns"].sum()
    summary = run_times(load_one(str(SAMPLES / "gpt_summary.nvprof.log")), 0, "log")
    assert summary["iteration"].null_count() == summary.height, "a summary has no iterations"
    comparison = compare_runs(summary, summary)
    assert comparison is not None
    assert not comparison.per_iteration
    assert comparison.outcome(5) is Outcome.NO_CHANGE
    assert RUN not in summary["what"].to_list(), "nor start times"


@pytest.mark.filterwarnings("error")
def test_changes_from_and_to_zero() -> None:
    baseline = runs(np.random.default_rng(0), 1)
    for is_zero in (pl.lit(value=True), pl.int_range(pl.len()) % 2 == 0):
        with_zeros = baseline.with_columns(pl.when(is_zero).then(0).otherwise("time_ns").alias("time_ns"))
        from_zero, to_zero = compare_runs(with_zeros, baseline), compare_runs(baseline, with_zeros)
        assert from_zero is not None
        assert to_zero is not None
        assert from_zero.totals[0].change_pct.high == np.inf
        assert to_zero.totals[0].change_pct.low == -100


def test_work_of_unknown_duration_is_not_counted_as_0() -> None:
    """Each of 3 iterations has 4 ms of gemm and 2 ms of relu; of the last relu, or of all, the duration is unknown."""

    def gpu_work(unknown: tuple[int, ...]) -> list[tuple[int | None, str, str | None, int]]:
        pairs = []
        for step in range(3):
            pairs.append(
                launch_with_call(
                    step * 10 * MS + MS, 4 * MS, step * 10 * MS, 1000, 2 * step, name="gemm", iteration=step
                )
            )
            launched, call = launch_with_call(
                step * 10 * MS + 6 * MS, 2 * MS, step * 10 * MS + 2000, 1000, 2 * step + 1, name="relu", iteration=step
            )
            pairs.append(({**launched, "duration_ns": None} if step in unknown else launched, call))
        steps = [step_range(step, step * 10 * MS, 10 * MS) for step in range(3)]
        times = run_times(with_calls(*pairs, ranges=steps), 0, "run").filter(~pl.col("what").is_in([ITERATION, RUN]))
        return times.select("iteration", "what", "name", "time_ns").sort("iteration", "what", "name").rows()

    known = [(None, GPU, None, 18 * MS), (None, "kernel", "gemm", 12 * MS), (None, "kernel", "relu", 6 * MS)]
    per_iteration = [
        row
        for step in range(3)
        for row in ((step, GPU, None, 6 * MS), (step, "kernel", "gemm", 4 * MS), (step, "kernel", "relu", 2 * MS))
    ]
    assert gpu_work(()) == known + per_iteration
    assert gpu_work((2,))[3:] == per_iteration[:6]
    assert gpu_work((0, 1, 2)) == []
