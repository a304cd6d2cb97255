"""Comparison of ranks, and the straggler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import copy, kernel, make_profile
from tests.corpus import recording_file
from tests.profiles import load
from tui.analysis.collectives import collectives, matched_collectives, matched_times, stragglers
from tui.analysis.expert.findings import findings
from tui.analysis.gpus import gpu_summary
from tui.analysis.iterations.iteration_table import with_iterations
from tui.analysis.rank_summary import RANKS, missing_ranks_reason, rank_iterations, ranks, straggler_verdict
from tui.screens.gpus import no_ranks

if TYPE_CHECKING:
    from tui.model.profile import Profile

MS = 1_000_000
ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def job_with_collectives(
    durations_by_rank: list[list[int]], *, clock_ns: int = 0, name: str = ALLREDUCE, world_size: int | None = None
) -> Profile:
    """Return ranks with iterations of 10 ms, each with one collective of this length; their clocks differ."""
    rows: dict[str, list[dict[str, Any]]] = {"activities": [], "ranges": [], "sessions": []}
    for rank, durations in enumerate(durations_by_rank):
        rows["sessions"].append({"session": rank, "rank": rank, "world_size": world_size or len(durations_by_rank)})
        for step, collective_ns in enumerate(durations):
            start_ns = rank * clock_ns + step * 10 * MS
            thread = {"session": rank, "pid": 1, "tid": 1}
            rows["ranges"].append(
                {"name": f"step {step}", "start_ns": start_ns, "duration_ns": 10 * MS, "iteration": step, **thread}
            )
            work = {"session": rank, "device": 0, "iteration": step}
            rows["activities"] += [
                kernel("gemm", 4 * MS, start_ns=start_ns, stream=7, **work),
                kernel(name, collective_ns, start_ns=start_ns + 4 * MS, stream=17, **work),
            ]
    return with_iterations(make_profile(**rows))


def test_the_rank_with_the_shortest_collectives_is_the_straggler() -> None:
    profile = job_with_collectives([[3 * MS, 4 * MS, 5 * MS], [1 * MS, 1 * MS, 1 * MS]])
    result = stragglers(profile)
    assert result.by_iteration.rows() == [(0, 1, 2 * MS), (1, 1, 3 * MS), (2, 1, 4 * MS)]
    assert result.by_session.rows() == [(1, 3, 9 * MS)]
    verdict = straggler_verdict(profile)
    assert verdict.session == 1
    assert verdict.sentence == (
        "Rank 1 is the straggler: it arrives last at the long collectives in 3 of 3 iterations; "
        "other ranks wait up to 9 ms for it"
    )
    assert verdict.method == "by durations: the rank that arrives last spends the least time in a collective"


def test_clocks_of_ranks_are_not_compared() -> None:
    close_clocks, distant_clocks = (
        job_with_collectives([[3 * MS, 4 * MS], [1 * MS, 1 * MS]], clock_ns=clock_ns)
        for clock_ns in (0, 3600 * 1000 * MS)
    )
    assert ranks(close_clocks).rows() == ranks(distant_clocks).rows()
    assert rank_iterations(close_clocks).rows() == rank_iterations(distant_clocks).rows()


def test_no_straggler_is_named_if_ranks_take_turns() -> None:
    verdict = straggler_verdict(job_with_collectives([[3 * MS, 1 * MS], [1 * MS, 3 * MS]]))
    assert verdict.session is None
    assert verdict.sentence.startswith("no single straggler")


def test_ranks_that_arrive_together_have_no_straggler() -> None:
    # Rank 1 spends 50 microseconds less in each collective of 4 ms: half a percent of an iteration.
    profile = job_with_collectives([[4 * MS] * 4, [4 * MS - 50_000] * 4])
    assert stragglers(profile).by_iteration.rows() == [(step, None, 50_000) for step in range(4)]
    assert rank_iterations(profile, session=0)["last_rank"].to_list() == [None] * 4
    assert ranks(profile).select("came_last", "waited_ns").rows() == [(0, 200_000), (0, 0)]
    assert (
        straggler_verdict(profile).sentence
        == "no straggler: no rank waits more than 1% of a mean iteration in any iteration"
    )
    rule = findings(profile).filter(rule="C5")
    assert rule.select("state", "reason").rows() == [
        (
            "clean",
            "no straggler: no rank waits for more than 1% of a mean iteration in the collectives of any iteration",
        )
    ]


def test_short_collectives_do_not_make_ranks_wait() -> None:
    assert ranks(job_with_collectives([[20_000, 10_000], [10_000, 20_000]])).select(
        "came_last", "waited_ns"
    ).rows() == [
        (0, 0),
        (0, 0),
    ]


@pytest.mark.parametrize(
    "name",
    ["ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "vllm::cross_device_reduce_1stage<half, 2>"],
    ids=["broadcast", "unknown kind"],
)
def test_collectives_that_ranks_may_leave_early_do_not_determine_the_straggler(name: str) -> None:
    profile = job_with_collectives([[1 * MS, 1 * MS], [3 * MS, 4 * MS]], name=name)
    assert matched_times(profile).height == 4
    verdict = straggler_verdict(profile)
    assert verdict.session is None
    assert verdict.sentence == (
        "straggler unknown: the ranks have no common all-reduce, all-gather, reduce-scatter, all-to-all or barrier"
    )
    assert ranks(profile)["came_last"].to_list() == [None, None]
    assert findings(profile).filter(rule="C5")["state"].to_list() == ["not applicable"]
    assert matched_collectives(profile)["last_rank"].to_list() == [None, None]


def test_collectives_are_recognized_in_kernel_names_of_old_nccl() -> None:
    profile = job_with_collectives(
        [[3 * MS, 4 * MS], [1 * MS, 1 * MS]], name="ncclAllReduceRingLLKernel_sum_f32(ncclColl)"
    )
    assert collectives(profile)["collective"].unique().to_list() == ["allreduce"]
    assert straggler_verdict(profile).session == 1


def test_missing_ranks_may_arrive_later() -> None:
    profile = job_with_collectives([[3 * MS, 4 * MS], [1 * MS, 1 * MS]], world_size=8)
    missing_ranks = "only 2 of 8 ranks of a process group are loaded: a missing rank may arrive later"
    assert straggler_verdict(profile).sentence.endswith(f"; {missing_ranks}")
    missing_ranks_sentence = "Only 2 of 8 ranks of a process group are loaded: another may be slower still."
    assert findings(profile).filter(rule="C5")["problem"][0].endswith(f". {missing_ranks_sentence}")


def test_an_iteration_with_other_collectives_on_one_rank_is_left_out() -> None:
    profile = job_with_collectives([[3 * MS, 4 * MS], [1 * MS]])
    assert matched_times(profile)["iteration"].unique().to_list() == [0]
    assert stragglers(profile).iterations == 1


def test_a_single_session_is_not_compared() -> None:
    profile = job_with_collectives([[3 * MS, 4 * MS]])
    assert ranks(profile).is_empty()
    assert ranks(profile).columns == [column.name for column in RANKS.columns]
    assert rank_iterations(profile).is_empty()
    assert straggler_verdict(profile).sentence.startswith("straggler not applicable")


def test_ranks_without_collectives_are_compared_without_a_straggler() -> None:
    rows = [kernel("gemm", 5, start_ns=10 * session, session=session, device=0) for session in (0, 1)]
    profile = with_iterations(make_profile(activities=rows))
    assert ranks(profile)["came_last"].to_list() == [None, None]
    assert straggler_verdict(profile).session is None


def test_iterations_are_compared_with_the_mean_of_the_ranks() -> None:
    rows = rank_iterations(job_with_collectives([[3 * MS, 4 * MS], [1 * MS, 1 * MS]]), session=1)
    assert rows.select("iteration", "behind_ns", "mean_ns", "spread_pct", "last_rank", "wait_ns").rows() == [
        (0, 0, 10 * MS, 0.0, "rank 1", 2 * MS),
        (1, 0, 10 * MS, 0.0, "rank 1", 3 * MS),
    ]


def test_the_spread_of_an_iteration_is_a_share_of_the_mean_of_the_ranks() -> None:
    steps = [
        {
            "name": "step 0",
            "start_ns": 0,
            "duration_ns": duration * MS,
            "iteration": 0,
            "session": rank,
            "pid": 1,
            "tid": 1,
        }
        for rank, duration in enumerate((12, 8, 10))
    ]
    work = [kernel("gemm", MS, start_ns=0, session=rank, device=0, iteration=0) for rank in range(3)]
    rows = rank_iterations(with_iterations(make_profile(activities=work, ranges=steps)))
    columns = (
        "duration_ns",
        "mean_ns",
        "shortest_ns",
        "longest_ns",
        "behind_ns",
        "spread_pct",
        "ranks",
        "longest_rank",
    )
    assert rows.select(columns).rows() == [
        (12 * MS, 10 * MS, 8 * MS, 12 * MS, 2 * MS, 40.0, 3, "session 0"),
        (8 * MS, 10 * MS, 8 * MS, 12 * MS, -2 * MS, 40.0, 3, "session 0"),
        (10 * MS, 10 * MS, 8 * MS, 12 * MS, 0, 40.0, 3, "session 0"),
    ]


@given(st.lists(st.lists(st.integers(0, 9 * MS), min_size=2, max_size=4), min_size=2, max_size=4))
def test_the_parts_of_each_rank_add_up_to_its_wall_time(waits: list[list[int]]) -> None:
    profile = job_with_collectives(waits)
    rows = ranks(profile)
    sums = sum((rows[name] for name in ("exposed_comm_ns", "exposed_copy_ns", "idle_ns")), rows["compute_ns"])
    assert sums.to_list() == rows["wall_ns"].to_list()
    assert (rows["busy_ns"] + rows["idle_ns"]).to_list() == rows["wall_ns"].to_list()
    if stragglers(profile).matched:
        assert rows["came_last"].sum() == stragglers(profile).by_iteration["session"].count()
        assert (rows["waited_ns"] >= 0).all()


def test_a_copy_without_overlap_is_exposed() -> None:
    rows = [copy("HtoD", 5, start_ns=0, session=session, device=0) for session in (0, 1)]
    assert ranks(with_iterations(make_profile(activities=rows)))["exposed_copy_ns"].to_list() == [5, 5]


@pytest.fixture(scope="module")
def ddp() -> Profile:
    files = [recording_file(f"ddp_rank{rank}.pt.trace.json.gz") for rank in (0, 1)]
    profile, _errors = load(files)
    assert profile is not None
    return with_iterations(profile)


def test_the_straggler_of_a_recording_is_the_rank_with_more_work(ddp: Profile) -> None:
    assert straggler_verdict(ddp).session == 1
    rows = ranks(ddp).select("who", "compute_ns", "exposed_comm_ns", "came_last", "waited_ns").rows()
    assert rows == [("rank 1", 101_505_319, 3_832_005, 4, 0), ("rank 0", 32_341_222, 62_170_027, 0, 63_904_511)]


def test_the_rule_on_stragglers_names_the_same_rank(ddp: Profile) -> None:
    rows = findings(ddp).filter(rule="C5")
    assert rows["state"].to_list() == ["found"]
    assert rows["problem"][0] == (
        "Rank 1 is the straggler: it arrives last in 4 of 4 iterations, and rank 0 waits up to 63.9 ms in total."
    )
    assert rows["cost_ns"].to_list() == [63_904_511]


def test_the_reason_for_missing_ranks_depends_on_the_input() -> None:
    assert missing_ranks_reason(make_profile(activities=[kernel("a", 5, start_ns=0)])) == (
        "only one rank recorded: open the profiles of several ranks together"
    )
    two_sessions = make_profile(activities=[kernel("a", 5, start_ns=0), kernel("a", 5, start_ns=0, session=1)])
    assert missing_ranks_reason(two_sessions) == ""
    assert missing_ranks_reason(two_sessions.only_session(1)) == "one session of 2 is shown"
    untimed = make_profile(activities=[kernel("a", 5, start_ns=0), kernel("a", 5, session=1)])
    assert missing_ranks_reason(untimed) == "fewer than two of 2 sessions have GPU work with start times"


def test_all_sessions_are_offered_only_if_there_are_several() -> None:
    two_sessions = make_profile(activities=[kernel("a", 5, start_ns=0), kernel("a", 5, start_ns=0, session=1)])
    assert no_ranks(two_sessions.only_session(0)) == "one session of 2 is shown: press S for all"
    one_session_reason = no_ranks(make_profile(activities=[kernel("a", 5, start_ns=0)]))
    assert one_session_reason == "only one rank recorded: open the profiles of several ranks together"


def test_a_gpu_that_another_rank_uses_has_one_row() -> None:
    h200 = {"name": "NVIDIA H200"}
    profile = make_profile(
        sessions=[{"session": 0, "rank": 0}, {"session": 1, "rank": 1}],
        devices=[{"session": session, "device": device, **h200} for session in (0, 1) for device in (0, 1, 2)],
        activities=[kernel("k", 5, start_ns=0, device=0), kernel("k", 5, start_ns=0, session=1, device=1)],
    )
    assert gpu_summary(profile).select("session", "device", "gpu_activity").rows() == [
        (0, 0, "recorded"), (1, 1, "recorded"), (0, 2, "none recorded"),
    ]  # fmt: skip
