from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import copy, kernel, make_profile, summary_row
from tests.profiles import load_one
from tui.analysis.api_calls import API, API_INSTANCES, api, api_instances
from tui.analysis.kernels import KERNEL_EXPORT, KERNELS, LAUNCHES, kernels, launches
from tui.analysis.ops.op_instances import RECORDED_OP_KERNELS, recorded_op_kernels
from tui.analysis.ops.ops_by_name import OP_KERNELS, OPS, RECORDED_OPS, all_ops_by_name, inferred_op_kernels, ops

if TYPE_CHECKING:
    from tui.model.table_spec import TableSpec

GEMM = "volta_sgemm_128x32_nn"
POOL = "void cudnn::detail::pooling_bw_kernel_max<float>(cudnnTensorStruct, float*)"


def test_statistics_of_the_launches_of_a_kernel() -> None:
    durations = [10, 30, 20, 50]
    rows = kernels(
        make_profile(
            activities=[kernel(GEMM, duration_ns, line=9 - index) for index, duration_ns in enumerate(durations)]
        )
    )
    assert rows.to_dicts() == [
        {
            "session": 0,
            "kind": "kernel",
            "name": GEMM,
            "short_name": GEMM,
            "calls": 4,
            "total_ns": 110,
            "avg_ns": 28,  # 27.5
            "min_ns": 10,
            "max_ns": 50,
            "median_ns": 25,
            "p90_ns": 44,  # 30 + 0.7 * 20
            "p99_ns": 49,  # 30 + 0.97 * 20 = 49.4
            "std_ns": round(statistics.stdev(durations)),
            "time_pct": 100.0,
            "uses_tensor_core": False,
            "timed_calls": 4,
            "tensor_core_reason": (
                "assumed because the GPU is unknown: a gemm without a tensor core instruction in its name"
            ),
            "line": 6,
        }
    ]


def test_values_missing_from_one_launch_are_unknown() -> None:
    row = kernels(make_profile(activities=[kernel("k", 7)])).row(0, named=True)
    assert (row["median_ns"], row["p99_ns"], row["std_ns"]) == (7, 7, None)


def test_unknown_durations_are_not_zero() -> None:
    rows = kernels(
        make_profile(
            activities=[kernel("known", 5), kernel("known", None), kernel("[Unified Memory CPU page faults]", None)]
        )
    )
    assert rows.select("calls", "total_ns", "avg_ns", "min_ns").rows() == [(2, 5, 5, 5), (1, None, None, None)]


def test_rows_are_sorted_by_session_kind_and_total() -> None:
    rows = kernels(
        make_profile(
            activities=[
                kernel("k", 1),
                kernel("k", 3, session=1),
                copy("HtoD", 9),
                kernel("a", 1),
                kernel("[CUDA memset]", 2, kind="memset"),
            ]
        )
    )
    assert rows.select("session", "kind", "name", "total_ns").rows() == [
        (0, "memcpy", "[CUDA memcpy HtoD]", 9),
        (1, "kernel", "k", 3),
        (0, "memset", "[CUDA memset]", 2),
        (0, "kernel", "a", 1),
        (0, "kernel", "k", 1),
    ]
    assert rows["time_pct"].to_list() == pytest.approx([900 / 13, 100, 200 / 13, 100 / 13, 100 / 13])


def test_printed_totals_are_listed() -> None:
    rows = kernels(
        make_profile(
            summary=[
                summary_row("gpu", "[CUDA memcpy HtoD]", 3, 60, avg_ns=21, min_ns=1, max_ns=40, time_pct=60.0, line=4),
                summary_row("gpu", "[CUDA memset]", 1, 10, time_pct=10.0),
                summary_row("gpu", GEMM, 2, 30, avg_ns=15, time_pct=30.0),
                summary_row("api", "cudaFree", 5, 500, time_pct=100.0),
                summary_row("nvtx", GEMM, 2, 30),
            ]
        )
    )
    selected = rows.select("kind", "name", "calls", "total_ns", "avg_ns", "median_ns", "time_pct", "line")
    assert selected.rows() == [
        ("memcpy", "[CUDA memcpy HtoD]", 3, 60, 21, None, 60.0, 4),
        ("kernel", GEMM, 2, 30, 15, None, 30.0, None),
        ("memset", "[CUDA memset]", 1, 10, None, None, 10.0, None),
    ]


def test_rows_of_equal_name_are_summed_where_possible() -> None:
    rows = kernels(
        make_profile(
            summary=[
                summary_row("gpu", "k", 3, 60, avg_ns=20, min_ns=1, max_ns=40),
                summary_row("gpu", "k", 1, 5, avg_ns=5, min_ns=5, max_ns=5),
                summary_row("gpu", "no calls", None, 7, avg_ns=7),
                summary_row("gpu", "no calls", 2, 9, avg_ns=4),
                summary_row("gpu", "torn", 0, 3),
                summary_row("gpu", "torn", 0, 0),
            ]
        )
    )
    assert rows.select("name", "calls", "total_ns", "avg_ns", "min_ns", "max_ns").rows() == [
        ("k", 4, 65, 16, 1, 40),
        ("no calls", None, 16, None, None, None),
        ("torn", 0, 3, None, None, None),
    ]


def test_an_incomplete_table_keeps_its_printed_shares() -> None:
    complete = [summary_row("gpu", "a", 1, 75, time_pct=75.0), summary_row("gpu", "b", 1, 25, time_pct=25.01)]
    assert kernels(make_profile(summary=complete))["time_pct"].to_list() == [75.0, 25.0]
    incomplete = [summary_row("gpu", "a", 1, 60, time_pct=60.0), summary_row("gpu", "b", 1, 20, time_pct=20.0)]
    assert kernels(make_profile(summary=incomplete))["time_pct"].to_list() == [60.0, 20.0]


def test_a_session_with_launches_is_not_counted_again_from_its_summary() -> None:
    profile = make_profile(
        activities=[kernel("k", 5)],
        summary=[summary_row("gpu", "k", 1, 5), summary_row("gpu", "k", 2, 8, session=1)],
    )
    assert kernels(profile).select("session", "total_ns").rows() == [(1, 8), (0, 5)]


def test_an_empty_profile_has_empty_tables_with_their_columns() -> None:
    empty = make_profile()
    tables = (
        (KERNELS, kernels(empty)),
        (LAUNCHES, launches(empty, session=0, name="k")),
        (API, api(empty)),
        (API_INSTANCES, api_instances(empty, session=0, name="cudaFree")),
        (OPS, ops(empty)),
        (RECORDED_OPS, all_ops_by_name(empty)),
        (RECORDED_OP_KERNELS, recorded_op_kernels(empty, session=0, op="f")),
        (OP_KERNELS, inferred_op_kernels(empty, session=0, op_type="gemm", direction=None)),
    )
    for spec, frame in tables:
        assert frame.height == 0
        assert_has_columns(frame, spec)


def assert_has_columns(frame: pl.DataFrame, spec: TableSpec) -> None:
    expected = {column.name for column in spec.columns} | set(spec.key) | {name for name, _ in spec.sort}
    assert expected | ({spec.weight} if spec.weight else set()) <= set(frame.columns)
    assert spec.pinned in {column.name for column in spec.columns}


def test_launches_of_one_kernel_with_shapes_as_text() -> None:
    shape = {"grid_x": 27848, "grid_y": 1, "grid_z": 1, "block_x": 8, "block_y": 32, "block_z": 1}
    rows = launches(
        make_profile(
            activities=[
                kernel("k", 5, start_ns=1, **shape),
                kernel("other", 6, start_ns=2, **shape),
                kernel("k", 7, start_ns=3),
                kernel("k", 8, start_ns=0, session=1, **shape),
            ]
        ),
        session=0,
        name="k",
        kind="kernel",
    )
    assert rows.select("activity", "grid", "block").rows() == [(0, "(27848 1 1)", "(8 32 1)"), (2, None, None)]
    assert_has_columns(rows, LAUNCHES)


def test_api_calls_by_name() -> None:
    calls = [
        {"name": "cudaMalloc", "duration_ns": 10, "start_ns": 0},
        {"name": "cudaFree", "duration_ns": 70, "start_ns": 20},
        {"name": "cudaMalloc", "duration_ns": 20, "start_ns": 100},
    ]
    rows = api(make_profile(api_calls=calls, summary=[summary_row("api", "cudaFree", 1, 9, session=1)]))
    assert tuple(rows.select(KERNEL_EXPORT).columns) == KERNEL_EXPORT
    assert rows.select("session", "kind", "name", "calls", "total_ns", "avg_ns", "time_pct").rows() == [
        (0, "api", "cudaFree", 1, 70, 70, 70.0),
        (0, "api", "cudaMalloc", 2, 30, 15, 30.0),
        (1, "api", "cudaFree", 1, 9, None, 100.0),
    ]
    assert api_instances(make_profile(api_calls=calls), session=0, name="cudaMalloc")["start_ns"].to_list() == [0, 100]


def test_ops_sum_kernels_of_a_kind() -> None:
    profile = make_profile(
        activities=[
            kernel(GEMM, 10),
            kernel("nvjet_tst_64x32", 20),
            kernel(POOL, 5),
            kernel("myKernel", 2),
            copy("DtoH", 3),
        ]
    )
    assert ops(profile).select("op", "op_type", "direction", "kernels", "calls", "total_ns", "op_source").rows() == [
        ("gemm", "gemm", None, 2, 2, 30, "inferred"),
        ("pooling backward", "pooling", "bprop", 1, 1, 5, "inferred"),
        ("memcpy DtoH", "memcpy DtoH", None, 1, 1, 3, "recorded"),
        ("unknown", "unknown", None, 1, 1, 2, "inferred"),
    ]
    members = inferred_op_kernels(profile, session=0, op_type="gemm", direction=None)
    assert members["name"].to_list() == ["nvjet_tst_64x32", GEMM]
    assert inferred_op_kernels(profile, session=0, op_type="pooling", direction="bprop")["calls"].to_list() == [1]
    assert inferred_op_kernels(profile, session=0, op_type="pooling", direction=None).height == 0


def test_an_op_of_one_kernel_has_its_printed_average() -> None:
    rows = [
        summary_row("gpu", "vectorized_layer_norm_kernel", 817, 2_748_800, avg_ns=3_364),
        summary_row("gpu", GEMM, 3, 100, avg_ns=34),
        summary_row("gpu", "nvjet_tst_64x32", 4, 200, avg_ns=51),
    ]
    average_ns = dict(ops(make_profile(summary=rows)).select("op_type", "avg_ns").rows())
    assert average_ns == {"layer norm": 3_364, "gemm": 43}


NAMES = st.sampled_from([GEMM, POOL, "myKernel", "void at::native::vectorized_elementwise_kernel<4, x>(int)", "<", ""])
durations = st.one_of(st.none(), st.integers(0, 10**12))


@given(st.lists(st.tuples(NAMES, durations, st.integers(0, 2)), max_size=30))
def test_totals_agree_between_tables(rows: list[tuple[str, int | None, int]]) -> None:
    profile = make_profile(
        activities=[kernel(name, duration_ns, session=session) for name, duration_ns, session in rows]
    )
    known_durations = [duration_ns for _, duration_ns, _ in rows if duration_ns is not None]
    for frame in (kernels(profile), ops(profile)):
        assert frame["calls"].sum() == len(rows)
        assert frame["total_ns"].sum() == sum(known_durations)
    sums = kernels(profile).group_by("session").agg(pl.col("time_pct").sum(), pl.col("total_ns").sum())
    for _, share, total in sums.rows():
        assert share == pytest.approx(100 if total else 0)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40))
def test_percentiles_lie_between_the_extremes(call_durations: list[int]) -> None:
    row = kernels(make_profile(activities=[kernel("k", duration_ns) for duration_ns in call_durations])).row(
        0, named=True
    )
    percentiles = [row[name] for name in ("min_ns", "median_ns", "p90_ns", "p99_ns", "max_ns")]
    assert percentiles == sorted(percentiles)
    assert row["median_ns"] == pytest.approx(statistics.median(call_durations), abs=1)


@pytest.mark.parametrize(
    ("name", "total_ns"),
    [
        ("seeds/000_eb78dec59201d654.txt", 753_580_086),
        ("seeds/003_c168b99af706e402.txt", 2_723_649_313),
        ("nvprof_rendered/resnet50_amp.both.txt", 80_128_393),
        ("nvprof_rendered/ddp_rank0.summary.txt", 112_912_157),
    ],
)
def test_totals_of_real_logs_agree(corpus: Callable[[str], str], name: str, total_ns: int) -> None:
    profile = load_one(corpus(name))
    for frame in (kernels(profile), ops(profile)):
        assert frame["total_ns"].sum() == total_ns
