"""The slowest rank of each iteration, and the spread of ops over ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import kernel, make_profile
from tests.profiles import SAMPLES, load_one
from tui.analysis.iterations.iteration_table import with_iterations
from tui.analysis.rank_summary import (
    OP_TYPE_RANKS,
    SLOWEST_RANKS,
    iteration_ranks,
    op_ranks,
    op_type_ranks,
    rank_ops,
    ranks,
    ranks_by_op,
    slowest_ranks,
)
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.profile import Profile

MS = 1_000_000
GEMM = "ampere_sgemm_128x64_nn"


def job_of_ranks(times: Sequence[Sequence[int]]) -> Profile:
    """Return ranks with iterations of these lengths, each with a matrix product as long as the iteration."""
    rows: dict[str, list[dict[str, Any]]] = {"activities": [], "ranges": [], "sessions": []}
    for rank, durations in enumerate(times):
        rows["sessions"].append({"session": rank, "rank": rank, "world_size": len(times), "source": f"{rank}.json"})
        for step, length in enumerate(durations):
            start_ns = step * 100 * MS
            rows["ranges"].append(
                {
                    "name": f"step {step}",
                    "start_ns": start_ns,
                    "duration_ns": length,
                    "iteration": step,
                    "session": rank,
                    "pid": 1,
                    "tid": 1,
                }
            )
            rows["activities"].append(
                kernel(GEMM, length, start_ns=start_ns, session=rank, device=0, stream=7, iteration=step)
            )
    return with_iterations(make_profile(**rows))


def test_slowest_ranks_of_iterations_are_sorted_by_excess_time() -> None:
    profile = job_of_ranks([[10 * MS, 20 * MS], [12 * MS, 20 * MS], [11 * MS, 29 * MS]])
    rows = slowest_ranks(profile)
    assert rows.columns == [column.name for column in SLOWEST_RANKS.columns]
    columns = rows.select(
        "iteration", "longest_rank", "longest_ns", "above_median_ns", "rank_median_ns", "fastest_rank", "shortest_ns"
    )
    assert columns.rows() == [
        (1, "rank 2", 29 * MS, 9 * MS, 20 * MS, "rank 0", 20 * MS),
        (0, "rank 1", 12 * MS, 1 * MS, 11 * MS, "rank 0", 10 * MS),
    ]
    assert rows["ranks"].to_list() == [3, 3]
    assert iteration_ranks(profile, iteration=0)["who"].to_list() == ["rank 1", "rank 2", "rank 0"]


def test_ops_are_compared_by_iteration_of_the_rank() -> None:
    # The second rank recorded one iteration more, and takes no longer for each.
    profile = job_of_ranks([[10 * MS, 14 * MS], [12 * MS, 12 * MS, 12 * MS]])
    (row,) = op_type_ranks(profile).rows(named=True)
    assert (row["op_type"], row["op_least_ns"], row["op_most_ns"], row["apart_ns"]) == ("gemm", 12 * MS, 12 * MS, 0)
    assert row["ranks_total_ns"] == 60 * MS
    assert ranks_by_op(profile)["iterations"].to_list() == [2, 3]


def test_an_op_of_unknown_time_on_a_rank_is_left_out() -> None:
    profile = job_of_ranks([[10 * MS, 20 * MS], [12 * MS, 20 * MS]])
    unknown = pl.when(pl.col("session") == 0).then("duration_ns").alias("duration_ns")
    profile = replace(profile, frames={**profile.frames, "activities": profile["activities"].with_columns(unknown)})
    assert ranks_by_op(profile).select("session", "rank_op_ns", "rank_gpu_ns", "rank_launches").rows() == [
        (0, 15 * MS, 30 * MS, 2),
        (1, None, None, 2),
    ]
    assert op_ranks(profile).select("op_least_ns", "op_most_ns", "apart_ns").rows() == [(15 * MS, 15 * MS, 0)]


def test_an_op_that_only_some_ranks_ran_has_their_number() -> None:
    profile = job_of_ranks([[10 * MS], [12 * MS], [20 * MS]])
    activities = profile["activities"].with_columns(
        name=profile["activities"]["name"].cast(str).set(profile["activities"]["session"] == 2, "softmax_warp_forward")
    )
    with_softmax = with_iterations(
        type(profile)(
            {**profile.frames, "activities": activities.with_columns(activities["name"].cast(NAME))}, profile.sources
        )
    )
    assert dict(op_type_ranks(with_softmax).select("op_type", "ranks").rows()) == {"gemm": 2, "softmax": 1}
    softmax = op_type_ranks(with_softmax).filter(op_type="softmax").row(0, named=True)
    assert (softmax["op_spread_pct"], softmax["apart_ns"], softmax["most_rank"]) == (None, 0, "rank 2")


@given(st.lists(st.lists(st.integers(1, 90 * MS), min_size=1, max_size=4), min_size=2, max_size=5))
def test_all_levels_add_up_to_the_work_in_iterations(times: list[list[int]]) -> None:
    profile = job_of_ranks(times)
    total_ns = profile["activities"]["duration_ns"].sum()
    assert op_type_ranks(profile)["ranks_total_ns"].sum() == total_ns
    assert op_ranks(profile)["ranks_total_ns"].sum() == total_ns
    assert ranks_by_op(profile)["rank_gpu_ns"].sum() == total_ns
    rows = op_type_ranks(profile)
    assert (rows["op_least_ns"] <= rows["op_middle_ns"]).all()
    assert (rows["op_middle_ns"] <= rows["op_most_ns"]).all()


def test_sixty_four_ranks_are_sorted_by_time() -> None:
    profile = job_of_ranks([[10 * MS + rank * 1000 + (30 * MS if rank == 41 else 0)] * 3 for rank in range(64)])
    assert slowest_ranks(profile)["longest_rank"].unique().to_list() == ["rank 41"]
    assert slowest_ranks(profile)["ranks"].to_list() == [64] * 3
    (row,) = op_type_ranks(profile).rows(named=True)
    assert (row["most_rank"], row["least_rank"], row["ranks"]) == ("rank 41", "rank 0", 64)
    assert ranks(profile)["who"].to_list()[:3] == ["rank 41", "rank 63", "rank 62"]
    assert ranks_by_op(profile)["who"][0] == "rank 41"


def test_a_single_rank_is_not_compared() -> None:
    profile = job_of_ranks([[10 * MS, 20 * MS]])
    assert slowest_ranks(profile).is_empty()
    assert op_type_ranks(profile).is_empty()
    assert op_type_ranks(profile).columns == [column.name for column in OP_TYPE_RANKS.columns]


def test_the_recording_of_two_ranks_names_the_matrix_products() -> None:
    profile = with_iterations(load_one(str(SAMPLES / "ddp_ranks")))
    rows = op_type_ranks(profile).select("op_type", "op_most_ns", "op_least_ns", "most_rank").rows()[:2]
    assert rows == [("communication", 18_408_242, 2_440_827, "rank 0"), ("gemm", 18_266_787, 2_704_402, "rank 1")]
    iteration_ns = profile["activities"].drop_nulls("iteration")["duration_ns"].sum()
    assert (
        op_type_ranks(profile)["ranks_total_ns"].sum()
        == op_ranks(profile)["ranks_total_ns"].sum()
        == iteration_ns
        == 212_752_029
    )
    assert rank_ops(profile)["rank_gpu_ns"].sum() == iteration_ns
    assert op_ranks(profile, op_type="gemm")["op"].to_list() == ["aten::mm", "aten::addmm"]
