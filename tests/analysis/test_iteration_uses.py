"""What the time of each iteration was used for, and the bars of the chart."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import copy, kernel, make_profile
from tui.analysis.iterations.chosen_iterations import select_iterations
from tui.analysis.iterations.iteration_table import iterations, with_iterations
from tui.analysis.iterations.times import GPU_USES, USES, BarRows, chart_rows, iterations_with_uses, scale_ns
from tui.analysis.iterations.work import iteration_work
from tui.analysis.kernels import kernels
from tui.model.aggregation import Aggregation


def step_range(at: int, number: int, took: int = 100) -> dict[str, Any]:
    return {"name": f"step {number}", "start_ns": at, "duration_ns": took, "iteration": number}


def two_steps() -> Any:
    """Return two recorded steps of 100 ns with a gap of 50 between them, on two GPUs."""
    tensor: dict[str, Any] = {"uses_tensor_core": True, "device": 0}
    return make_profile(
        ranges=[step_range(0, 5), step_range(150, 6)],
        activities=[
            kernel("gemm", 30, start_ns=10, iteration=5, **tensor),
            kernel("relu", 30, start_ns=20, iteration=5, device=1, uses_tensor_core=False),
            copy("HtoD", 20, start_ns=45, iteration=5, device=0),
            kernel("odd", 10, start_ns=90, iteration=5, device=0),
            # Launched in the first step, it runs on into the gap and the second one.
            kernel("gemm", 70, start_ns=95, iteration=5, **tensor),
            kernel("gemm", 10, start_ns=170, iteration=6, **tensor),
        ],
    )


def test_each_instant_counts_once_and_all_adds_up_to_the_duration() -> None:
    rows = iterations_with_uses(two_steps())
    # Tensor cores from 10 to 40 and 95 to 165; relu alone from 40 to 50; the copy alone from 50 to 65; odd 90 to 95.
    assert rows.select(USES).rows() == [(100, 10, 5, 15, None, None, None, 35), (10, 0, 0, 0, None, None, None, 75)]
    assert rows["busy_ns"].to_list() == [130, 10]
    assert rows["aggregated"].to_list() == [None, None]


def test_a_selected_iteration_has_the_work_that_ran_in_its_time() -> None:
    profile = with_iterations(two_steps())
    chosen = select_iterations(profile, Aggregation(6, 6))
    for function in (iterations_with_uses, iteration_work):
        shares = [name for name in function(profile).columns if name not in ("time_pct", "aggregated")]
        of_all = function(profile).filter(pl.col("iteration") == 6).select(shares)
        assert of_all.equals(function(chosen).select(shares))
        assert of_all.equals(function(select_iterations(chosen, Aggregation(6, 6))).select(shares))
    # The last kernel of the first step ends after the second one has begun on the CPU: it counts for the first.
    assert iterations_with_uses(chosen).select("busy_ns", "tensor_core_ns").rows() == [(10, 10)]
    assert iteration_work(chosen)["kernel_pct"].to_list() == [pytest.approx(100 * 10 / 85 / 2)]


def test_unrecorded_use_of_kernels_and_copies_is_unknown() -> None:
    rows = [{"iteration": 5, **kernel("odd", 30, start_ns=at, device=0)} for at in (10, 60)]
    profile = make_profile(
        ranges=[step_range(0, 5)], activities=rows, sessions=[{"session": 0, "format": "rocprof-csv"}]
    )
    assert iterations_with_uses(profile).select("busy_ns", *GPU_USES).rows() == [(60, None, None, 60, None)]
    (bar,) = BarRows(chart_rows(iterations_with_uses(profile), 0)).bars(0, 1, 1)
    assert list(bar.parts_ns) == [0, 0, 60, 0, 0, 0, 0, 40]
    # Of graphs it is not known, in an iteration that ran nothing else.
    more = kernel("gemm", 40, start_ns=160, iteration=6, device=0, uses_tensor_core=True)
    of_graph = make_profile(
        ranges=[step_range(0, 5), step_range(150, 6)],
        activities=[*rows, more],
        sessions=[{"session": 0, "format": "nsys-sqlite"}],
    )
    assert iterations_with_uses(of_graph).select(GPU_USES).rows() == [(None, None, 60, 0), (40, 0, 0, 0)]
    # Of one of them it is known.
    rows[0]["uses_tensor_core"] = False
    result = make_profile(
        ranges=[step_range(0, 5)], activities=rows, sessions=[{"session": 0, "format": "nsys-sqlite"}]
    )
    assert iterations_with_uses(result).select(GPU_USES).rows() == [(0, 30, 30, 0)]


def test_host_phases_while_no_gpu_has_work() -> None:
    profile = two_steps()
    busy = profile["activities"]
    calls = [
        {"name": "cudaLaunchKernel", "start_ns": start, "duration_ns": took} for start, took in ((30, 30), (66, 4))
    ]
    ops = [{"name": "enumerate(DataLoader)#_BaseDataLoaderIter.__next__", "start_ns": 68, "duration_ns": 10}]
    result = make_profile(ranges=profile["ranges"].to_dicts(), activities=busy.to_dicts(), api_calls=calls, ops=ops)
    rows = iterations_with_uses(result)
    # Idle from 0 to 10 and 65 to 90: of that the loader has 68 to 78, and calls alone 66 to 68.
    assert rows.select("dataloader_ns", "cpu_ns", "other_ns").row(0) == (10, 2, 23)
    assert rows["idle_ns"][0] == 35


def test_selected_iterations_are_marked() -> None:
    profile = two_steps()
    assert iterations_with_uses(profile, Aggregation(6, 9))["aggregated"].to_list() == [False, True]
    assert iterations_with_uses(profile, Aggregation(None, 5))["aggregated"].to_list() == [True, False]
    assert iterations_with_uses(profile, Aggregation(key="gemm"))["aggregated"].to_list() == [None, None]


def test_without_gpu_work_its_figures_are_unknown() -> None:
    profile = make_profile(ranges=[step_range(0, 0)])
    assert iterations_with_uses(profile).select(USES).rows() == [(None,) * len(USES)]
    assert iterations_with_uses(make_profile()).is_empty()


@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.integers(0, 60), st.sampled_from([True, False, None]), st.integers(0, 1)),
        min_size=1,
        max_size=30,
    ),
    st.booleans(),
)
def test_parts_add_up_to_busy_time_and_phases_to_the_run(
    work: list[tuple[int, int, bool | None, int]], cut: bool
) -> None:
    profile = make_profile(
        activities=[
            kernel("end" if at % 4 == 3 else "a", took, start_ns=start, device=device, stream=7, uses_tensor_core=uses)
            for at, (start, took, uses, device) in enumerate(sorted(work, key=str))
        ]
    )
    profile = with_iterations(profile, "end" if cut and len(work) > 3 else None)
    rows = iterations_with_uses(profile)
    assert rows.select(iterations(profile).columns).equals(iterations(profile))
    for row in rows.iter_rows(named=True):
        if row["busy_ns"] is not None:
            assert sum(row[use] or 0 for use in GPU_USES) == row["busy_ns"]
            assert sum(row[use] or 0 for use in USES) == row["duration_ns"]
    assert rows["gpu_ns"].sum() == kernels(profile)["total_ns"].sum()


# --- bars ------------------------------------------------------------------------------------------------------------


def rows_of(*times: int | None, phase: str = "whole") -> pl.DataFrame:
    starts = [100 * at for at in range(len(times))]
    return pl.DataFrame(
        {
            "iteration": list(range(len(times))),
            "phase": [phase] * len(times),
            "start_ns": starts,
            "duration_ns": times,
            **{use: [None if time is None else time // 5 for time in times] for use in USES},
            "session": [0] * len(times),
            "aggregated": [True] * len(times),
        },
        schema_overrides={"duration_ns": pl.Int64, **dict.fromkeys(USES, pl.Int64)},
    )


def test_bars_are_single_rows_or_the_mean_and_the_longest_of_several() -> None:
    rows = rows_of(10, 30, 20, 50, 40)
    assert [(bar.first, bar.last, bar.max_ns, bar.mean_ns) for bar in BarRows(rows).bars(0, 5, 9)] == [
        (at, at, time, time) for at, time in enumerate((10, 30, 20, 50, 40))
    ]
    assert [(bar.first, bar.last, bar.slowest, bar.max_ns, bar.mean_ns) for bar in BarRows(rows).bars(0, 5, 2)] == [
        (0, 1, 1, 30, 20.0),
        (2, 4, 3, 50, pytest.approx(110 / 3)),
    ]
    assert BarRows(rows).bars(0, 5, 2)[0].parts_ns == (4.0,) * len(USES)
    assert BarRows(rows).bars(3, 9, 9)[-1].last == 4
    assert BarRows(rows).bars(0, 0, 9) == BarRows(rows).bars(0, 5, 0) == []


def test_an_unknown_time_is_neither_counted_nor_the_slowest() -> None:
    first, second = BarRows(rows_of(None, 0, None, None)).bars(0, 4, 2)
    assert (first.slowest, first.max_ns, first.mean_ns) == (1, 0, 0.0)
    assert (second.max_ns, second.mean_ns, second.parts_ns) == (None, None, ())


@given(st.lists(st.none() | st.integers(0, 10**12), min_size=1, max_size=300), st.integers(1, 50))
def test_bars_have_every_row_once_and_every_peak(times: list[int | None], most: int) -> None:
    shown = BarRows(rows_of(*times)).bars(0, len(times), most)
    assert len(shown) <= most
    assert [bar.first for bar in shown] == [0, *(bar.last + 1 for bar in shown[:-1])]
    assert shown[-1].last == len(times) - 1
    assert max((bar.max_ns for bar in shown if bar.max_ns is not None), default=None) == max(
        (time for time in times if time is not None), default=None
    )
    assert all(times[bar.slowest] == bar.max_ns for bar in shown)


def test_the_scale_ignores_outliers() -> None:
    assert scale_ns(BarRows(rows_of(10, 12, 11, 9, 30)).bars(0, 5, 9)) == 30
    assert scale_ns(BarRows(rows_of(10, 12, 11, 9, 900)).bars(0, 5, 9)) == 13
    assert scale_ns([]) == scale_ns(BarRows(rows_of(None)).bars(0, 1, 9)) == 0


def test_the_chart_draws_iterations_with_a_start_time() -> None:
    profile = make_profile(
        ranges=[step_range(0, 5)],
        activities=[kernel("a", 5, start_ns=2, iteration=5), kernel("b", 5, start_ns=400)],
    )
    rows = iterations_with_uses(profile)
    assert rows["phase"].to_list() == ["recorded", "outside"]
    assert chart_rows(rows, 0)["phase"].to_list() == ["recorded"]
    assert chart_rows(rows, 1).is_empty()
