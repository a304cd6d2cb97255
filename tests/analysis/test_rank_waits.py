"""Wait and transfer times in collectives, and the alignment of the clocks of ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import kernel, make_profile
from tests.profiles import SAMPLES, load_one
from tui.analysis.collectives import (
    clock_alignment,
    collective_kinds,
    collective_ranks,
    collectives,
    matched_collectives,
    matched_times,
    rank_waits,
    stragglers,
    unmatched_note,
    wait_and_transfer_times,
)
from tui.analysis.iterations.iteration_table import with_iterations
from tui.analysis.rank_summary import ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.profile import Profile

MS = 1_000_000
DAY_ONE = 1_795_000_000_000_000_000
ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
BROADCAST = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def group_arguments(name: str, *members: int) -> str:
    return (
        f"Collective name: allreduce; In msg nelems: 4; Group size: {len(members)}; Process group name: {name}; "
        f"Process group ranks: {list(members)}"
    )


def job_of_ranks(
    arrivals: Sequence[Sequence[int]],
    transfer_ns: int = MS,
    *,
    origins: Sequence[int | None] | None = None,
    name: str = ALLREDUCE,
    source: str = "",
) -> Profile:
    """Return ranks that arrive at each collective at these times of a common clock, and leave together.

    Args:
        arrivals: The arrival time of each rank, below 10 ms, by collective; each collective is an iteration.
        transfer_ns: From the last arrival to the end.
        origins: The recorded origin of the clock of each rank; None: not recorded.
        name: The kernel.
        source: The file of all ranks; empty: each has its own.
    """
    count = len(arrivals[0])
    origins = [DAY_ONE + rank * MS for rank in range(count)] if origins is None else origins
    rows: dict[str, list[dict[str, Any]]] = {"activities": [], "ranges": [], "sessions": []}
    for rank in range(count):
        origin = origins[rank]
        rows["sessions"].append(
            {
                "session": rank,
                "rank": rank,
                "world_size": count,
                "source": source or f"rank{rank}.json",
                "origin_ns": origin,
            }
        )
        clock_offset = 0 if origin is None else origin - DAY_ONE
        for step, arrival_times in enumerate(arrivals):
            step_start = 100 * MS * (step + 1)
            thread = {"session": rank, "pid": 1, "tid": 1}
            rows["ranges"].append(
                {
                    "name": f"step {step}",
                    "start_ns": step_start - clock_offset,
                    "duration_ns": 90 * MS,
                    "iteration": step,
                    **thread,
                }
            )
            end = step_start + max(arrival_times) + transfer_ns
            start = step_start + arrival_times[rank]
            work = {"session": rank, "device": 0, "iteration": step, "stream": 7}
            rows["activities"].append(kernel(name, end - start, start_ns=start - clock_offset, **work))
    return with_iterations(make_profile(**rows))


def test_the_last_to_arrive_does_not_wait() -> None:
    profile = job_of_ranks([[0, 3 * MS], [5 * MS, 1 * MS]])
    assert clock_alignment(profile).agree == {0, 1}
    assert clock_alignment(profile).sentence == "clocks agree: ranks leave collectives within 0 ns of each other"
    rows = collective_ranks(profile).select("iteration", "who", "arrival_ns", "comm_wait_ns", "comm_transfer_ns").rows()
    assert rows == [
        (0, "rank 1", 3 * MS, 0, MS),
        (0, "rank 0", 0, 3 * MS, MS),
        (1, "rank 0", 4 * MS, 0, MS),
        (1, "rank 1", 0, 4 * MS, MS),
    ]
    matched_rows = (
        matched_collectives(profile).select("iteration", "last_rank", "late_ns", "comm_wait_ns", "comm_wait_pct").rows()
    )
    assert matched_rows == [(1, "rank 0", 4 * MS, 4 * MS, pytest.approx(200 / 3)), (0, "rank 1", 3 * MS, 3 * MS, 60.0)]
    kinds = collective_kinds(profile).select("collective", "collectives", "ranks", "comm_wait_ns", "comm_transfer_ns")
    assert kinds.rows() == [("allreduce", 2, 2, 7 * MS, 4 * MS)]


@given(
    st.integers(2, 5).flatmap(
        lambda ranks: st.lists(st.lists(st.integers(0, 9 * MS), min_size=ranks, max_size=ranks), min_size=1, max_size=4)
    ),
    st.integers(0, MS),
)
def test_wait_and_transfer_add_up_to_the_time_in_collectives(arrivals: list[list[int]], transfer_ns: int) -> None:
    profile = job_of_ranks(arrivals, transfer_ns)
    rows = wait_and_transfer_times(profile)
    assert rows.height == len(arrivals) * len(arrivals[0])
    assert (rows["comm_wait_ns"] + rows["comm_transfer_ns"]).to_list() == rows["duration_ns"].to_list()
    assert (rows["comm_transfer_ns"] == transfer_ns).all()
    expected_waits = [max(times) - time for times in arrivals for time in times]
    assert sorted(rows["comm_wait_ns"].to_list()) == sorted(expected_waits)
    by_rank, kinds = rank_waits(profile), collective_kinds(profile)
    columns = ("comm_wait_ns", "comm_transfer_ns", "comm_unmatched_ns")
    for table in (by_rank, kinds):
        assert table.select(pl.sum_horizontal(columns))["comm_wait_ns"].to_list() == table["all_comm_ns"].to_list()
        assert table["all_comm_ns"].sum() == collectives(profile)["duration_ns"].sum()
    assert by_rank["comm_wait_ns"].sum() == kinds["comm_wait_ns"].sum() == sum(expected_waits)


def test_clock_offsets_are_found_by_the_ends_of_collectives() -> None:
    # Rank 1 reports an origin that is two milliseconds too late.
    accurate = job_of_ranks([[0, 3 * MS], [5 * MS, 1 * MS], [2 * MS, 0]])
    sessions = accurate["sessions"].with_columns(
        pl.when(pl.col("rank") == 1).then(pl.col("origin_ns") + 2 * MS).otherwise("origin_ns").alias("origin_ns")
    )
    shifted = with_iterations(type(accurate)({**accurate.frames, "sessions": sessions}, accurate.sources))
    assert clock_alignment(shifted).agree == frozenset()
    assert clock_alignment(shifted).sentence == (
        "clocks differ by about 2 ms: the same collective ends that far apart on the ranks"
    )
    assert wait_and_transfer_times(shifted)["comm_wait_ns"].null_count() == 6
    assert matched_collectives(shifted)["last_rank"].to_list() == ["rank 0", "rank 1", "rank 0"]
    assert rank_waits(shifted)["comm_unmatched_ns"].to_list() == [None, None]
    assert stragglers(shifted).by_session.height == 2, "lengths tell the straggler without clocks"


def test_a_clock_that_differs_is_named_and_its_collectives_are_left_out() -> None:
    accurate = job_of_ranks([[0, 3 * MS, MS], [5 * MS, 1 * MS, 0]])
    sessions = accurate["sessions"].with_columns(
        pl.when(pl.col("rank") == 2).then(pl.col("origin_ns") + 8 * MS).otherwise("origin_ns").alias("origin_ns")
    )
    shifted = with_iterations(type(accurate)({**accurate.frames, "sessions": sessions}, accurate.sources))
    assert clock_alignment(shifted).agree == {0, 1}
    assert clock_alignment(shifted).sentence.startswith(
        "the clocks of 1 of 3 ranks differ from the others by up to 8 ms"
    )
    assert clock_alignment(shifted).apart_ns == 8 * MS
    assert wait_and_transfer_times(shifted)["comm_wait_ns"].null_count() == 6


def test_files_without_the_time_of_day_have_no_common_clock() -> None:
    profile = job_of_ranks([[0, 3 * MS]], origins=[None, None])
    assert clock_alignment(profile).sentence == (
        "clocks are not comparable: 2 of 2 files do not record the wall-clock time of their start"
    )
    assert wait_and_transfer_times(profile)["comm_wait_ns"].to_list() == [None, None]


def test_sessions_of_one_file_have_one_clock() -> None:
    profile = job_of_ranks([[0, 3 * MS]], origins=[None, None], source="job.sqlite")
    assert clock_alignment(profile).agree == {0, 1}
    assert wait_and_transfer_times(profile)["comm_wait_ns"].to_list() == [3 * MS, 0]


def test_a_broadcast_can_end_before_the_last_rank_arrives() -> None:
    profile = job_of_ranks([[0, 3 * MS]], name=BROADCAST)
    assert clock_alignment(profile).agree == frozenset()
    assert "no collective ends on all ranks together" in clock_alignment(profile).sentence
    assert collective_kinds(profile)["comm_wait_ns"].to_list() == [None]


def test_groups_are_matched_separately() -> None:
    rows: dict[str, list[dict[str, Any]]] = {"activities": [], "sessions": []}
    group_of_rank = {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}
    for rank, group in group_of_rank.items():
        rows["sessions"].append({"session": rank, "rank": rank, "source": f"{rank}", "origin_ns": DAY_ONE})
        work = {"session": rank, "device": 0, "iteration": 0}
        # Ranks 2 and 3 have one more collective of their group.
        for turn in range(1 + group[0] // 2):
            arguments = group_arguments("tp", *group)
            rows["activities"].append(
                kernel(
                    ALLREDUCE,
                    2 * MS - rank % 2 * MS,
                    start_ns=turn * 5 * MS + rank % 2 * MS,
                    arguments=arguments,
                    **work,
                )
            )
        rows["activities"].append(
            kernel(ALLREDUCE, 3 * MS, start_ns=20 * MS, arguments=group_arguments("dp", 0, 1, 2, 3), **work)
        )
    profile = with_iterations(make_profile(**rows))
    matched = (
        matched_times(profile).group_by("communicator").agg(pl.col("turn").max(), pl.col("session").unique().sort())
    )
    assert matched.sort("communicator").rows() == [
        ("dp [0, 1, 2, 3]", 0, [0, 1, 2, 3]),
        ("tp [0, 1]", 0, [0, 1]),
        ("tp [2, 3]", 1, [2, 3]),
    ]
    assert rank_waits(profile)["comm_wait_ns"].to_list() == [MS, 0, 2 * MS, 0]
    assert collective_kinds(profile)["group_size"].sort().to_list() == [2, 2, 4]


def test_collectives_of_different_kinds_are_not_matched() -> None:
    profile = job_of_ranks([[0, 3 * MS], [0, MS]])
    allgather = pl.lit(ALLREDUCE.replace("AllReduce_Sum_f32", "AllGather"), profile["activities"].schema["name"])
    activities = profile["activities"].with_columns(
        pl.when((pl.col("session") == 1) & (pl.col("iteration") == 1)).then(allgather).otherwise("name").alias("name")
    )
    mixed = with_iterations(type(profile)({**profile.frames, "activities": activities}, profile.sources))
    assert matched_times(mixed).select("iteration", "collective").rows() == [(0, "allreduce"), (0, "allreduce")]


def test_a_group_with_one_loaded_rank_is_unmatched() -> None:
    profile = job_of_ranks([[0, 3 * MS], [0, MS]])
    arguments = pl.lit("; ".join((group_arguments("pp", 0, 4), "Seq: 1")), profile["activities"].schema["arguments"])
    activities = profile["activities"].with_columns(
        pl.when((pl.col("session") == 0) & (pl.col("iteration") == 1)).then(arguments).alias("arguments")
    )
    with_lone_group = with_iterations(type(profile)({**profile.frames, "activities": activities}, profile.sources))
    assert unmatched_note(with_lone_group) == (
        "unmatched: 2 communication kernels (3 ms): 1 no other rank of their process group is loaded, 1 number or "
        "kind differs between ranks in their iteration"
    )


def test_waits_for_missing_ranks_count_as_transfer() -> None:
    profile = job_of_ranks([[0, 3 * MS]])
    sessions = profile["sessions"].with_columns(pl.lit(8, profile["sessions"].schema["world_size"]).alias("world_size"))
    partial_job = with_iterations(type(profile)({**profile.frames, "sessions": sessions}, profile.sources))
    assert clock_alignment(partial_job).sentence == (
        "clocks agree: ranks leave collectives within 0 ns of each other; only 2 of 8 ranks of a process group are "
        "loaded: waiting for the other ranks counts as transfer"
    )


def test_an_iteration_missing_on_a_rank_of_the_group_is_unmatched() -> None:
    profile = job_of_ranks([[0, 3 * MS], [0, MS]])
    activities = profile["activities"].filter(~((pl.col("session") == 1) & (pl.col("iteration") == 1)))
    without_iteration = with_iterations(type(profile)({**profile.frames, "activities": activities}, profile.sources))
    assert matched_times(without_iteration)["iteration"].unique().to_list() == [0]
    assert rank_waits(without_iteration)["comm_unmatched_ns"].to_list() == [2 * MS, 0]
    assert unmatched_note(without_iteration) == (
        "unmatched: 1 communication kernel (2 ms): number or kind differs between ranks in their iteration"
    )


def test_a_kind_without_matches_has_only_unmatched_time() -> None:
    profile = job_of_ranks([[0, 3 * MS]])
    activities = profile["activities"].with_columns(pl.lit(None, pl.Int32).alias("iteration"))
    without_iterations = type(profile)({**profile.frames, "activities": activities}, profile.sources)
    row = collective_kinds(without_iterations).row(0, named=True)
    assert (row["collectives"], row["comm_wait_ns"], row["comm_transfer_ns"]) == (0, None, None)
    assert row["comm_unmatched_ns"] == row["all_comm_ns"] > 0
    assert unmatched_note(without_iterations).endswith("outside iterations")


def test_a_single_rank_has_no_matched_collectives() -> None:
    profile = job_of_ranks([[0, 3 * MS]]).only_session(0)
    assert collective_kinds(profile).is_empty()
    assert matched_collectives(profile).is_empty()
    assert "fewer than two ranks" in clock_alignment(profile).sentence


def test_waits_in_a_recording_of_two_ranks() -> None:
    profile = with_iterations(load_one(str(SAMPLES / "ddp_ranks")))
    assert clock_alignment(profile).apart_ns == 13_625
    rows = rank_waits(profile).drop("comm_wait_pct").rows()
    assert rows == [
        (0, 77_800_466, 64_471_122, 9_161_846, 4_167_498),
        (1, 12_261_647, 53_479, 9_709_828, 2_498_340),
    ]
    first = matched_collectives(profile).row(0, named=True)
    assert (first["iteration"], first["turn"], first["last_rank"], first["late_ns"]) == (4, 0, "rank 1", 14_892_806)
    assert ranks(profile)["comm_wait_ns"].to_list() == [53_479, 64_471_122]
    times = wait_and_transfer_times(profile)
    assert (times["comm_wait_ns"] + times["comm_transfer_ns"]).equals(times["duration_ns"])
