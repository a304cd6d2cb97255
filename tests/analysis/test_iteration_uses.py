"""The time of iterations by use, and the bars of their chart."""

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


def step_range(start_ns: int, number: int, duration_ns: int = 100) -> dict[str, Any]:
    return {"name": f"step {number}", "start_ns": start_ns, "duration_ns": duration_ns, "iteration": number}


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
            # It is launched in the first step and ends in the second one.
            kernel("gemm", 70, start_ns=95, iteration=5, **tensor),
            kernel("gemm", 10, start_ns=170, iteration=6, **tensor),
        ],
    )


def test_each_instant_counts_for_one_use_and_uses_add_up_to_the_duration() -> None:
    rows = iterations_with_uses(two_steps())
    # Tensor cores from 10 to 40 and 95 to 165; relu alone from 40 to 50; the copy alone from 50 to 65; odd 90 to 95.
    assert rows.select(USES).rows() == [(100, 10, 5, 15, None, None, None, 35), (10, 0, 0, 0, None, None, None, 75)]
    assert rows["busy_ns"].to_list() == [130, 10]
    assert rows["aggregated"].to_list() == [None, None]


def test_a_selected_iteration_has_the_work_that_ran_in_its_time() -> None:
    profile = with_iterations(two_steps())
    selected = select_iterations(profile, Aggregation(6, 6))
    for table in (iterations_with_uses, iteration_work):
        columns = [name for name in table(profile).columns if name not in ("time_pct", "aggregated")]
        expected = table(profile).filter(pl.col("iteration") == 6).select(columns)
        assert expected.equals(table(selected).select(columns))
        assert expected.equals(table(select_iterations(selected, Aggregation(6, 6))).select(columns))
    # The last kernel of the first step ends after the second step starts on the CPU, and counts for the first.
    assert iterations_with_uses(selected).select("busy_ns", "tensor_core_ns").rows() == [(10, 10)]
    assert iteration_work(selected)["kernel_pct"].to_list() == [pytest.approx(100 * 10 / 85 / 2)]


def test_unrecorded_use_of_kernels_and_copies_is_unknown() -> None:
    rows = [{"iteration": 5, **kernel("odd", 30, start_ns=start_ns, device=0)} for start_ns in (10, 60)]
    profile = make_profile(
        ranges=[step_range(0, 5)], activities=rows, sessions=[{"session": 0, "format": "rocprof-csv"}]
    )
    assert iterations_with_uses(profile).select("busy_ns", *GPU_USES).rows() == [(60, None, None, 60, None)]
    (bar,) = BarRows(chart_rows(iterations_with_uses(profile), 0)).bars(0, 1, 1)
    assert list(bar.parts_ns) == [0, 0, 60, 0, 0, 0, 0, 40]
    # The use is unknown in the iteration that ran nothing but graphs.
    known_kernel = kernel("gemm", 40, start_ns=160, iteration=6, device=0, uses_tensor_core=True)
    with_known_kernel = make_profile(
        ranges=[step_range(0, 5), step_range(150, 6)],
        activities=[*rows, known_kernel],
        sessions=[{"session": 0, "format": "nsys-sqlite"}],
    )
    assert iterations_with_uses(with_known_kernel).select(GPU_USES).rows() == [(None, None, 60, 0), (40, 0, 0, 0)]
    # The use of one of the kernels is known.
    rows[0]["uses_tensor_core"] = False
    partly_known = make_profile(
        ranges=[step_range(0, 5)], activities=rows, sessions=[{"session": 0, "format": "nsys-sqlite"}]
    )
    assert iterations_with_uses(partly_known).select(GPU_USES).rows() == [(0, 30, 30, 0)]


def test_host_phases_while_no_gpu_has_work() -> None:
    profile = two_steps()
    work = profile["activities"]
    calls = [
        {"name": "cudaLaunchKernel", "start_ns": start_ns, "duration_ns": duration_ns}
        for start_ns, duration_ns in ((30, 30), (66, 4))
    ]
    ops = [{"name": "enumerate(DataLoader)#_BaseDataLoaderIter.__next__", "start_ns": 68, "duration_ns": 10}]
    profile_with_calls = make_profile(
        ranges=profile["ranges"].to_dicts(), activities=work.to_dicts(), api_calls=calls, ops=ops
    )
    rows = iterations_with_uses(profile_with_calls)
    # Idle from 0 to 10 and 65 to 90: the data loader runs from 68 to 78, calls alone from 66 to 68.
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
def test_uses_add_up_to_busy_time_and_duration(work: list[tuple[int, int, bool | None, int]], has_key: bool) -> None:
    profile = make_profile(
        activities=[
            kernel(
                "end" if index % 4 == 3 else "a",
                duration_ns,
                start_ns=start_ns,
                device=device,
                stream=7,
                uses_tensor_core=uses,
            )
            for index, (start_ns, duration_ns, uses, device) in enumerate(sorted(work, key=str))
        ]
    )
    profile = with_iterations(profile, "end" if has_key and len(work) > 3 else None)
    rows = iterations_with_uses(profile)
    assert rows.select(iterations(profile).columns).equals(iterations(profile))
    for row in rows.iter_rows(named=True):
        if row["busy_ns"] is not None:
            assert sum(row[use] or 0 for use in GPU_USES) == row["busy_ns"]
            assert sum(row[use] or 0 for use in USES) == row["duration_ns"]
    assert rows["gpu_ns"].sum() == kernels(profile)["total_ns"].sum()


# --- bars ------------------------------------------------------------------------------------------------------------


def iteration_rows(*times: int | None, phase: str = "whole") -> pl.DataFrame:
    starts = [100 * index for index in range(len(times))]
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


def test_bars_have_the_mean_and_the_maximum_of_their_rows() -> None:
    rows = iteration_rows(10, 30, 20, 50, 40)
    assert [(bar.first, bar.last, bar.max_ns, bar.mean_ns) for bar in BarRows(rows).bars(0, 5, 9)] == [
        (index, index, time, time) for index, time in enumerate((10, 30, 20, 50, 40))
    ]
    assert [(bar.first, bar.last, bar.slowest, bar.max_ns, bar.mean_ns) for bar in BarRows(rows).bars(0, 5, 2)] == [
        (0, 1, 1, 30, 20.0),
        (2, 4, 3, 50, pytest.approx(110 / 3)),
    ]
    assert BarRows(rows).bars(0, 5, 2)[0].parts_ns == (4.0,) * len(USES)
    assert BarRows(rows).bars(3, 9, 9)[-1].last == 4
    assert BarRows(rows).bars(0, 0, 9) == BarRows(rows).bars(0, 5, 0) == []


def test_an_unknown_time_is_neither_counted_nor_the_slowest() -> None:
    first, second = BarRows(iteration_rows(None, 0, None, None)).bars(0, 4, 2)
    assert (first.slowest, first.max_ns, first.mean_ns) == (1, 0, 0.0)
    assert (second.max_ns, second.mean_ns, second.parts_ns) == (None, None, ())


@given(st.lists(st.none() | st.integers(0, 10**12), min_size=1, max_size=300), st.integers(1, 50))
def test_bars_contain_every_row_once_and_keep_peaks(times: list[int | None], max_bars: int) -> None:
    bars = BarRows(iteration_rows(*times)).bars(0, len(times), max_bars)
    assert len(bars) <= max_bars
    assert [bar.first for bar in bars] == [0, *(bar.last + 1 for bar in bars[:-1])]
    assert bars[-1].last == len(times) - 1
    assert max((bar.max_ns for bar in bars if bar.max_ns is not None), default=None) == max(
        (time for time in times if time is not None), default=None
    )
    assert all(times[bar.slowest] == bar.max_ns for bar in bars)


def test_the_scale_ignores_outliers() -> None:
    assert scale_ns(BarRows(iteration_rows(10, 12, 11, 9, 30)).bars(0, 5, 9)) == 30
    assert scale_ns(BarRows(iteration_rows(10, 12, 11, 9, 900)).bars(0, 5, 9)) == 13
    assert scale_ns([]) == scale_ns(BarRows(iteration_rows(None)).bars(0, 1, 9)) == 0


def test_the_chart_draws_iterations_with_a_start_time() -> None:
    profile = make_profile(
        ranges=[step_range(0, 5)],
        activities=[kernel("a", 5, start_ns=2, iteration=5), kernel("b", 5, start_ns=400)],
    )
    rows = iterations_with_uses(profile)
    assert rows["phase"].to_list() == ["recorded", "outside"]
    assert chart_rows(rows, 0)["phase"].to_list() == ["recorded"]
    assert chart_rows(rows, 1).is_empty()
