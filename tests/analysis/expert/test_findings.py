"""All rules together: one frame, in order, whatever the profile holds."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.expert.asking import figures, found, of_rule
from tests.analysis.expert.judging import as_shown
from tests.analysis.expert.profiles import (
    A100,
    ADD,
    GEMM,
    HEALTHY,
    MIXED,
    MS,
    NCCL,
    SESSION,
    SGEMM,
    SUMMED,
    US,
    call,
    launched,
    moved,
    run,
    step,
    traced,
    with_calls,
)
from tests.analysis.frames import kernel, make_profile
from tests.corpus import recording_file
from tui.analysis.expert.findings import FINDINGS, FOLDED, RULES, counts, expert_rows, findings, first_findings
from tui.model.profile import merge_profiles
from tui.query.parse import parse


def test_every_rule_answers_once_for_each_session() -> None:
    rows = findings(MIXED)
    assert rows.schema == FINDINGS
    per_session = rows.drop_nulls("rule").group_by("session").agg(pl.col("rule").sort())
    by_session = sorted(rule.id for rule in RULES if not rule.across)
    assert dict(per_session.iter_rows()) == {
        0: by_session, 1: by_session, None: sorted(rule.id for rule in RULES if rule.across),
    }  # fmt: skip
    assert rows["state"].is_in(["found", "not applicable", "clean"]).all()
    assert rows.filter(pl.col("state") != "found")["reason"].null_count() == 0
    assert rows.filter(pl.col("state") == "found")["problem"].null_count() == 0


def test_found_ones_come_first_the_most_expensive_causes_before_the_others() -> None:
    rows = findings(MIXED)
    states = rows["state"].to_list()
    assert states == sorted(states, key=["found", "not applicable", "clean"].index)
    ours = rows.filter(pl.col("state") == "found", pl.col("tool") == "proftui")
    causes = ours["cause"].to_list()
    assert len(set(causes)) == sum(1 for one, before in zip(causes, [None, *causes], strict=False) if one != before)
    most = ours.group_by("cause", maintain_order=True).agg(pl.col("cost_pct").max())["cost_pct"].drop_nulls().to_list()
    assert most == sorted(most, reverse=True)


def test_rules_with_one_cause_are_one_line_with_its_share() -> None:
    """Kernels of 5 us, each launched 95 us after the one before has ended: U1, U6, A2 and P11 see the same."""
    late = [launched(n * 100 * US, 5 * US, n * 100 * US - 9 * US, 6 * US, n + 1) for n in range(99)]
    rows = findings(with_calls(*late))
    bound = rows.filter(pl.col("cause") == "launch-bound")
    assert {"U1", "U6", "A2", "P11"} <= set(bound["rule"])
    lines = first_findings(rows)
    assert lines["cause"].is_unique().all()
    first = lines.row(0, named=True)
    assert (first["rule"], first["cause"], first["severity"]) == ("U1", "launch-bound", "warning")
    assert first["all_rules"].split()[0] == "U1"
    assert first["cost_pct"] == pytest.approx(100 * (1 - 99 * 5 / (98 * 100 + 5 + 9)), abs=0.1)
    assert set(first["all_rules"].split()) == set(bound["rule"])


def test_a_large_cost_is_never_info_and_a_small_one_no_warning() -> None:
    """CUDA starts for 900 of 1,000 ms; the kernels after it idle for 0.1 ms in all."""
    work = [launched(900 * MS + n * 50 * MS, 49 * MS, 900 * MS + n * 50 * MS, US, n + 1) for n in range(2)]
    rows = findings(with_calls(*work, calls=(call(0, 899 * MS, "cudaMalloc"),)))
    start = found(rows)["A10"]
    assert (start["severity"], start["cause"], start["cost_ns"]) == ("warning", "start-up", 899 * MS)
    assert start["cost_pct"] == pytest.approx(89.9, abs=0.1)
    first = first_findings(rows).row(0, named=True)
    assert (first["rule"], first["cause"]) == ("U1", "start-up")
    assert "`cudaMalloc` took 899 ms of it." in first["problem"]
    small = rows.filter(pl.col("state") == "found", pl.col("cost_pct") < 1)
    assert set(small["severity"]) <= {"info"}


def test_a_run_whose_gpu_is_busy_gets_no_warning_of_idle_time_launches_or_communication() -> None:
    """Kernels of 1 ms, 5 us apart, of 5 steps; the CPU launches 10 ms ahead and waits at the end of each step."""
    work, calls, steps = [], [], []
    period = MS + 5 * US
    for n in range(100):
        start = 10 * MS + n * period
        name = (GEMM, SGEMM, ADD)[n % 3] if n % 20 else NCCL
        work.append(launched(start, MS, start - 10 * MS, 5 * US, n + 1, name=name, iteration=n // 20))
    for n in range(5):
        end = 10 * MS + 20 * (n + 1) * period
        calls.append(call(end - 9 * MS, 9 * MS, "cudaStreamSynchronize"))
        steps.append(step(n, n * 20 * period, 20 * period))
    rows = findings(with_calls(*work, calls=tuple(calls), ranges=steps))
    causes = {"launch-bound", "CPU pauses", "start-up", "synchronization", "communication", "input data"}
    warned = rows.filter(pl.col("severity").is_in(["warning", "error"]), pl.col("cause").is_in(causes))
    assert warned["rule"].to_list() == []
    assert of_rule(rows, "U1")["state"] == "clean"
    assert figures(of_rule(rows, "U1"))["busy_pct"] > 90


def test_what_a_program_does_already_is_not_advised() -> None:
    rows = found(findings(as_shown(recording_file("gpt_cudagraph.pt.trace.json.gz"))))
    for rule in ("U7", "A2"):
        assert "as a CUDA graph" not in rows[rule]["recommendation"]
        assert "CUDA graphs are already in use." in rows[rule]["recommendation"]
    eager = found(findings(as_shown(recording_file("resnet50_amp.pt.trace.json.gz"))))
    assert "replay the step as a CUDA graph" in eager["U1"]["recommendation"]


def test_findings_of_the_tool_are_listed_with_ours() -> None:
    row = findings(MIXED).filter(pl.col("tool") == "DLProf").row(0, named=True)
    assert (row["state"], row["rule"], row["severity"]) == ("found", None, None)
    assert (row["problem"], row["recommendation"]) == ("No DALI ops detected", "Consider DALI")


def test_a_filter_is_for_the_session_of_its_finding() -> None:
    assert of_rule(findings(MIXED), "T1")["filter"] == "(kind=memcpy) session=0"
    assert found(findings(MIXED.only_session(0)))["T1"]["filter"] == "kind=memcpy"


def test_clean_rules_fold_into_one_row_and_reasons_stand_once() -> None:
    rows = findings(HEALTHY)
    folded, unfolded = expert_rows(rows), expert_rows(rows, unfolded=True)
    clean = rows.filter(pl.col("state") == "clean").height
    number = rows.filter(pl.col("state") == "not applicable")["rule"].n_unique()
    assert folded.filter(pl.col("state") == FOLDED)["rules"].to_list() == [f"{number} rules", f"{clean} rules"]
    assert unfolded.filter(pl.col("state") == "clean").height == clean
    reasons = unfolded.filter(pl.col("state") == "not applicable")["message"]
    assert reasons.is_unique().all()
    assert reasons.len() > 1
    assert sorted(" ".join(folded.filter(pl.col("state") == FOLDED)["all_rules"]).split()) == sorted(
        rows.filter(pl.col("state") != "found")["rule"]
    )
    assert counts(rows)["clean"] == clean


def test_findings_of_a_cause_fold_into_its_first() -> None:
    rows = findings(MIXED)
    found = rows.filter(pl.col("state") == "found")
    shown = expert_rows(rows)
    one_each = shown.filter(pl.col("state") == "found")
    assert one_each["cause"].drop_nulls().is_unique().all()
    assert one_each["problem"].to_list() == first_findings(rows)["problem"].to_list()
    others = found.height - one_each.height
    assert others > 1
    heading = shown.filter(pl.col("verdict") == "same cause").row(0, named=True)
    assert heading["message"] == f"{others} more findings have the same causes. Enter: show or hide."
    more = sum(int(rule.partition(" +")[2] or 0) for rule in one_each["rules"])
    assert more == len({(row["cause"], row["rule"]) for row in found.drop_nulls("cause").iter_rows(named=True)}) - len(
        {row["cause"] for row in found.drop_nulls("cause").iter_rows(named=True)}
    )
    every = expert_rows(rows, every_finding=True).filter(pl.col("state") == "found")
    assert every["problem"].to_list() == found["problem"].to_list()
    assert set(every.drop_nulls("rule")["rules"]) == set(found["rule"].drop_nulls())


def test_each_rule_counts_once_over_all_sessions() -> None:
    rows = findings(MIXED)
    by_rule: dict[str, set[str]] = {}
    for rule, state in rows.drop_nulls("rule").select("rule", "state").iter_rows():
        by_rule.setdefault(rule, set()).add(state)
    assert {"found", "clean"} in by_rule.values()
    assert {"clean", "not applicable"} in by_rule.values()
    inapplicable = [rule for rule, states in by_rule.items() if states == {"not applicable"}]
    clean = [rule for rule, states in by_rule.items() if "clean" in states and "found" not in states]
    result = counts(rows)
    assert (result["not applicable"], result["clean"]) == (len(inapplicable), len(clean))
    listed = " ".join(expert_rows(rows, unfolded=True).filter(pl.col("state") == "not applicable")["all_rules"]).split()
    assert result["not applicable"] + result["partly applicable"] == len(set(listed)) > len(inapplicable)
    heading = expert_rows(rows).filter(pl.col("state") == FOLDED, pl.col("verdict") == "clean").row(0, named=True)
    assert sorted(heading["all_rules"].split()) == sorted(clean)
    partly = sum({"found", "clean"} <= states for states in by_rule.values())
    assert heading["message"] == (
        f"{len(clean)} rules found nothing, {partly} more in some sessions. Enter: show or hide."
    )


def test_rules_that_a_replay_cannot_feed_count_where_a_timeline_feeds_them() -> None:
    replayed = make_profile(
        sessions=[{**SESSION, "format": "ncu-csv", "tool": "Nsight Compute"}], activities=[run(0, 10 * MS)]
    )
    timeline = make_profile(sessions=[SESSION], devices=[A100], activities=[moved(0, 30 * MS), run(30 * MS, 10 * MS)])
    alone = counts(findings(timeline))
    assert counts(findings(replayed))["not applicable"] > alone["not applicable"]
    together = counts(findings(merge_profiles([replayed, timeline])))
    assert together["not applicable"] <= alone["not applicable"]


# --- whatever a profile holds -----------------------------------------------------------------------------------------

_ACTIVITY = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["kernel", "memcpy", "memset", "um", "graph"]),
        "name": st.sampled_from(["sgemm", NCCL, "[CUDA memcpy HtoD]", 'a "b" \\ [x](y)\n', "add", ""]),
    },
    optional={
        "start_ns": st.one_of(st.none(), st.integers(0, 10**9)),
        "duration_ns": st.one_of(st.none(), st.integers(0, 10**8)),
        "device": st.one_of(st.none(), st.integers(0, 2)),
        "stream": st.one_of(st.none(), st.integers(0, 3)),
        "correlation": st.one_of(st.none(), st.integers(0, 9)),
        "iteration": st.one_of(st.none(), st.integers(0, 4)),
        "size_bytes": st.one_of(st.none(), st.integers(0, 10**9)),
        "copy_kind": st.sampled_from([None, "HtoD", "DtoH", "DtoD"]),
        "src_memory": st.sampled_from([None, "pageable", "device"]),
        "grid_x": st.one_of(st.none(), st.integers(0, 5000)),
        "grid_y": st.just(1),
        "grid_z": st.just(1),
        "block_x": st.one_of(st.none(), st.integers(0, 1100)),
        "block_y": st.just(1),
        "block_z": st.just(1),
        "registers": st.one_of(st.none(), st.integers(0, 300)),
        "shared_bytes": st.one_of(st.none(), st.integers(0, 10**6)),
        "arguments": st.sampled_from([None, "In msg nelems: 100; Dtype: Float", "In msg nelems: 99; Dtype: Odd"]),
    },
)
_CALL = st.fixed_dictionaries(
    {
        "name": st.sampled_from(
            ["cudaLaunchKernel", "cudaMemcpyAsync", "cudaDeviceSynchronize", "cudaMalloc", "cuModuleLoad"]
        )
    },
    optional={
        "start_ns": st.one_of(st.none(), st.integers(0, 10**9)),
        "duration_ns": st.one_of(st.none(), st.integers(0, 10**8)),
        "pid": st.one_of(st.none(), st.just(1)),
        "tid": st.one_of(st.none(), st.integers(0, 2)),
        "correlation": st.one_of(st.none(), st.integers(0, 9)),
    },
)
_RANGE = st.fixed_dictionaries(
    {"name": st.sampled_from(["step", "gc", "data loader", "DistributedDataParallel.forward", "CUPTI overhead"])},
    optional={
        "start_ns": st.one_of(st.none(), st.integers(0, 10**9)),
        "duration_ns": st.one_of(st.none(), st.integers(0, 10**9)),
        "iteration": st.one_of(st.none(), st.integers(0, 9)),
    },
)
_SUMMARY = st.fixed_dictionaries(
    {
        "section": st.sampled_from(["gpu", "api", "um", "nvtx"]),
        "name": st.sampled_from(["sgemm", "cudaFree", "[CUDA memcpy DtoH]"]),
    },
    optional={
        "calls": st.one_of(st.none(), st.integers(0, 99)),
        "total_ns": st.one_of(st.none(), st.integers(0, 10**10)),
        "avg_ns": st.one_of(st.none(), st.integers(0, 10**9)),
        "max_ns": st.one_of(st.none(), st.integers(0, 10**9)),
        "time_pct": st.one_of(st.none(), st.floats(0, 100)),
    },
)
_OP = st.fixed_dictionaries(
    {"name": st.sampled_from(["aten::mm", "SyncBatchNorm", "DataParallel.forward", "aten::addcdiv_"])},
    optional={
        "start_ns": st.integers(0, 10**9),
        "duration_ns": st.integers(0, 10**8),
        "input_shapes": st.sampled_from([None, "[2, 3]", "[4, 5]"]),
        "iteration": st.one_of(st.none(), st.integers(0, 4)),
    },
)


@given(
    st.lists(_ACTIVITY, max_size=12),
    st.lists(_CALL, max_size=8),
    st.lists(_RANGE, max_size=6),
    st.lists(_SUMMARY, max_size=4),
    st.lists(_OP, max_size=4),
    st.sampled_from([None, "Tesla K40c (0)", "NVIDIA H100 PCIe", "unheard of"]),
    st.integers(1, 2),
    st.sampled_from([1, 10_000]),
)
def test_no_rule_raises_and_each_answers(
    activities: list[dict[str, Any]],
    calls: list[dict[str, Any]],
    ranges: list[dict[str, Any]],
    summary: list[dict[str, Any]],
    ops: list[dict[str, Any]],
    gpu: str | None,
    sessions: int,
    resolution: int,
) -> None:
    def spread(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "session": number % sessions} for number, row in enumerate(rows)]

    given_frames: dict[str, Any] = {
        "activities": spread(activities),
        "api_calls": spread(calls),
        "ranges": spread(ranges),
        "summary": spread(summary),
        "ops": [{**row, "op": number, "op_source": "recorded"} for number, row in enumerate(spread(ops))],
        "devices": [{"session": 0, "device": 0, "name": gpu}] if gpu else [],
        "sessions": [{**SESSION, "session": n, "start_resolution_ns": resolution} for n in range(sessions)],
    }
    profile = make_profile(**{name: rows for name, rows in given_frames.items() if rows})
    rows = findings(profile)
    assert not rows["reason"].str.contains("failed on this profile").any()
    costs = rows["cost_ns"].drop_nulls()
    assert costs.is_empty() or (costs >= 0).all()
    for query in rows["filter"].drop_nulls():
        parse(query)


def test_a_rule_that_fails_costs_its_own_answer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from tui.analysis.expert import case

    def broken(_self: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(case.Case, "busy", property(broken))
    rows = findings(traced(run(0, MS), run(5 * MS, MS)))
    assert of_rule(rows, "U1")["reason"] == "the rule failed on this profile (ZeroDivisionError): please report it"
    assert of_rule(rows, "Q3")["state"] == "clean"


def test_a_healthy_profile_is_clean() -> None:
    rows = findings(HEALTHY)
    # One kernel is all that there is to it.
    assert found(rows).keys() == {"P10"}
    assert of_rule(rows, "U1")["state"] == of_rule(rows, "T1")["state"] == of_rule(rows, "P2")["state"] == "clean"


def test_totals_alone_are_never_clean_of_what_needs_times() -> None:
    rows = findings(SUMMED)
    for rule in ("U1", "U2", "U6", "T2", "C2", "I5", "L8"):
        assert of_rule(rows, rule)["state"] == "not applicable"


def test_steps_of_a_call_are_distinguished() -> None:
    profile = traced(run(0, MS, correlation=1), api_calls=[call(0, 10, correlation=1)], ranges=[step(0, 0, MS)])
    assert of_rule(findings(profile), "I1")["state"] == "found"


def test_uploads_before_the_first_iteration_are_clean_of_repeated_uploads() -> None:
    steps = traced(
        moved(0, MS),
        *(run(n * 10 * MS, MS, iteration=n) for n in range(1, 4)),
        ranges=[step(n, n * 10 * MS, 10 * MS) for n in range(1, 4)],
    )
    row = of_rule(findings(steps), "T10")
    assert (row["state"], row["reason"]) == ("clean", "no iteration uploads anything: 1 upload outside of them")


def test_kernels_without_times_are_not_reported_as_not_run() -> None:
    launch = {"grid_x": 64, "grid_y": 1, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1}
    profile = make_profile(
        sessions=[{**SESSION, "format": "ncu-csv", "tool": "Nsight Compute"}],
        activities=[kernel("sgemm", None, device=0, registers=32, **launch)],
    )
    rows = findings(profile)
    for rule in ("L1", "L2", "L3"):
        assert of_rule(rows, rule)["reason"] == (
            "times of kernels are not recorded: record with ncu --set full --csv --page raw ./app"
        )
    assert of_rule(rows, "P13")["reason"].startswith("no recorded ops: record with nsys profile")


def test_profiler_overhead_is_compared_with_the_span() -> None:
    def finding_of(value: float) -> dict[str, Any]:
        row = {"tool": "Kineto", "section": "overhead during GPU work", "name": "Activity Buffer Request"}
        row |= {"value": value, "unit": "ns"}
        return of_rule(findings(traced(run(0, 10 * MS), tool_figures=[row])), "Q4")

    heavy, light = finding_of(MS), finding_of(MS / 100)
    assert (heavy["state"], heavy["cost_ns"], heavy["view"]) == ("found", MS, "tool-report")
    assert light["state"] == "clean"


def test_what_costs_next_to_nothing_is_clean_and_says_what_it_costs() -> None:
    """A kernel of 12 ms in a second whose last warp is a quarter empty: 24 of 1,024 lanes are 281 us."""
    shape = {"grid_x": 5280, "grid_y": 1, "grid_z": 1, "block_y": 1, "block_z": 1, "device": 0, "stream": 7}
    work = [
        kernel("even", 990 * MS, start_ns=0, block_x=256, **shape),
        kernel("odd", 12 * MS, start_ns=990 * MS, block_x=1000, **shape),
    ]
    rows = findings(make_profile(sessions=[SESSION], devices=[A100], activities=work))
    (reason,) = rows.filter(rule="L5", state="clean")["reason"]
    assert reason == (
        "`odd` has blocks of 1,000 threads (1.2% of GPU time): 24 of 32 lanes of the last warp do nothing: "
        "costs 281 µs at most"
    )
