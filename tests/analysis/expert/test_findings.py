"""The findings of all rules: order, folding, counts and robustness."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    TOTALS,
    US,
    call,
    launch,
    launch_with_call,
    step_range,
    trace_of,
    transfer,
    with_calls,
)
from tests.analysis.expert.rule_verdicts import open_shown
from tests.analysis.expert.single_findings import found_by_rule, numbers_of, row_of_rule
from tests.analysis.frames import kernel, make_profile
from tests.corpus import recording_file
from tui.analysis.expert.findings import FINDINGS, RULES, findings
from tui.analysis.expert.findings_table import FOLDED, counts, expert_rows, first_findings
from tui.model.profile import merge_profiles
from tui.query.parse import parse

if TYPE_CHECKING:
    from tui.model.profile import Profile


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


def test_findings_are_sorted_by_state_and_cost_of_their_cause() -> None:
    rows = findings(MIXED)
    states = rows["state"].to_list()
    assert states == sorted(states, key=["found", "not applicable", "clean"].index)
    found_rows = rows.filter(pl.col("state") == "found", pl.col("tool") == "proftui")
    causes = found_rows["cause"].to_list()
    assert len(set(causes)) == sum(
        1 for cause, previous in zip(causes, [None, *causes], strict=False) if cause != previous
    )
    max_costs = (
        found_rows.group_by("cause", maintain_order=True)
        .agg(pl.col("cost_pct").max())["cost_pct"]
        .drop_nulls()
        .to_list()
    )
    assert max_costs == sorted(max_costs, reverse=True)


def test_findings_of_one_cause_are_one_line_with_its_cost() -> None:
    """Kernels of 5 us are launched 95 us after the end of the previous one each: U1, U6, A2 and P11 apply."""
    work = [launch_with_call(n * 100 * US, 5 * US, n * 100 * US - 9 * US, 6 * US, n + 1) for n in range(99)]
    rows = findings(with_calls(*work))
    launch_bound = rows.filter(pl.col("cause") == "launch-bound")
    assert {"U1", "U6", "A2", "P11"} <= set(launch_bound["rule"])
    lines = first_findings(rows)
    assert lines["cause"].is_unique().all()
    first = lines.row(0, named=True)
    assert (first["rule"], first["cause"], first["severity"]) == ("U1", "launch-bound", "warning")
    assert first["all_rules"].split()[0] == "U1"
    assert first["cost_pct"] == pytest.approx(100 * (1 - 99 * 5 / (98 * 100 + 5 + 9)), abs=0.1)
    assert set(first["all_rules"].split()) == set(launch_bound["rule"])


def test_large_costs_are_warnings_and_small_ones_information() -> None:
    """CUDA starts for 900 of 1,000 ms; the kernels after it idle for 0.1 ms in all."""
    work = [launch_with_call(900 * MS + n * 50 * MS, 49 * MS, 900 * MS + n * 50 * MS, US, n + 1) for n in range(2)]
    rows = findings(with_calls(*work, calls=(call(0, 899 * MS, "cudaMalloc"),)))
    start_up = found_by_rule(rows)["A10"]
    assert (start_up["severity"], start_up["cause"], start_up["cost_ns"]) == ("warning", "one-time cost", 899 * MS)
    assert start_up["cost_pct"] == pytest.approx(89.9, abs=0.1)
    first = first_findings(rows).row(0, named=True)
    assert (first["rule"], first["cause"]) == ("U1", "one-time cost")
    assert "`cudaMalloc` took 899 ms of it." in first["problem"]
    low_cost = rows.filter(pl.col("state") == "found", pl.col("cost_pct") < 1)
    assert set(low_cost["severity"]) <= {"info"}


def test_a_busy_run_has_no_warnings_of_idle_time_launches_or_communication() -> None:
    """Kernels of 1 ms, 5 us apart, of 5 steps; the CPU launches 10 ms ahead and waits at the end of each step."""
    work, calls, steps = [], [], []
    period = MS + 5 * US
    for n in range(100):
        start = 10 * MS + n * period
        name = (GEMM, SGEMM, ADD)[n % 3] if n % 20 else NCCL
        work.append(launch_with_call(start, MS, start - 10 * MS, 5 * US, n + 1, name=name, iteration=n // 20))
    for n in range(5):
        end = 10 * MS + 20 * (n + 1) * period
        calls.append(call(end - 9 * MS, 9 * MS, "cudaStreamSynchronize"))
        steps.append(step_range(n, n * 20 * period, 20 * period))
    rows = findings(with_calls(*work, calls=tuple(calls), ranges=steps))
    causes = {"launch-bound", "CPU gaps", "one-time cost", "synchronization", "communication", "input data"}
    warnings_found = rows.filter(pl.col("severity").is_in(["warning", "error"]), pl.col("cause").is_in(causes))
    assert warnings_found["rule"].to_list() == []
    assert row_of_rule(rows, "U1")["state"] == "clean"
    assert numbers_of(row_of_rule(rows, "U1"))["busy_pct"] > 90


def test_advice_does_not_repeat_what_the_program_does_already() -> None:
    rows = found_by_rule(findings(open_shown(recording_file("gpt_cudagraph.pt.trace.json.gz"))))
    for rule in ("U7", "A2"):
        assert "as a CUDA graph" not in rows[rule]["recommendation"]
        assert "CUDA graphs are already in use." in rows[rule]["recommendation"]
    eager = found_by_rule(findings(open_shown(recording_file("resnet50_amp.pt.trace.json.gz"))))
    assert "replay the step as a CUDA graph" in eager["U1"]["recommendation"]


def test_findings_of_the_recording_tool_are_listed() -> None:
    row = findings(MIXED).filter(pl.col("tool") == "DLProf").row(0, named=True)
    assert (row["state"], row["rule"], row["severity"]) == ("found", None, None)
    assert (row["problem"], row["recommendation"]) == ("No DALI ops detected", "Consider DALI")


def test_a_filter_is_for_the_session_of_its_finding() -> None:
    assert row_of_rule(findings(MIXED), "T1")["filter"] == "(kind=memcpy) session=0"
    assert found_by_rule(findings(MIXED.only_session(0)))["T1"]["filter"] == "kind=memcpy"


def test_clean_rules_fold_into_one_row_and_reasons_are_listed_once() -> None:
    rows = findings(HEALTHY)
    folded, unfolded = expert_rows(rows), expert_rows(rows, unfolded=True)
    clean_count = rows.filter(pl.col("state") == "clean").height
    inapplicable_count = rows.filter(pl.col("state") == "not applicable")["rule"].n_unique()
    assert folded.filter(pl.col("state") == FOLDED)["rules"].to_list() == [
        f"{inapplicable_count} rules",
        f"{clean_count} rules",
    ]
    assert unfolded.filter(pl.col("state") == "clean").height == clean_count
    reasons = unfolded.filter(pl.col("state") == "not applicable")["message"]
    assert reasons.is_unique().all()
    assert reasons.len() > 1
    assert sorted(" ".join(folded.filter(pl.col("state") == FOLDED)["all_rules"]).split()) == sorted(
        rows.filter(pl.col("state") != "found")["rule"]
    )
    assert counts(rows)["clean"] == clean_count


def test_findings_of_a_cause_fold_into_its_first() -> None:
    rows = findings(MIXED)
    found_rows = rows.filter(pl.col("state") == "found")
    table = expert_rows(rows)
    first_of_causes = table.filter(pl.col("state") == "found")
    assert first_of_causes["cause"].drop_nulls().is_unique().all()
    assert first_of_causes["problem"].to_list() == first_findings(rows)["problem"].to_list()
    other_count = found_rows.height - first_of_causes.height
    assert other_count > 1
    heading = table.filter(pl.col("verdict") == "same cause").row(0, named=True)
    assert heading["message"] == f"{other_count} more findings have the same causes. Enter: show or hide."
    joined = sum(int(rule.partition(" +")[2] or 0) for rule in first_of_causes["rules"])
    assert joined == len(
        {(row["cause"], row["rule"]) for row in found_rows.drop_nulls("cause").iter_rows(named=True)}
    ) - len({row["cause"] for row in found_rows.drop_nulls("cause").iter_rows(named=True)})
    all_findings = expert_rows(rows, every_finding=True).filter(pl.col("state") == "found")
    assert all_findings["problem"].to_list() == found_rows["problem"].to_list()
    assert set(all_findings.drop_nulls("rule")["rules"]) == set(found_rows["rule"].drop_nulls())


def test_each_rule_counts_once_over_all_sessions() -> None:
    rows = findings(MIXED)
    by_rule: dict[str, set[str]] = {}
    for rule, state in rows.drop_nulls("rule").select("rule", "state").iter_rows():
        by_rule.setdefault(rule, set()).add(state)
    assert {"found", "clean"} in by_rule.values()
    assert {"clean", "not applicable"} in by_rule.values()
    inapplicable = [rule for rule, states in by_rule.items() if states == {"not applicable"}]
    clean = [rule for rule, states in by_rule.items() if "clean" in states and "found" not in states]
    rule_counts = counts(rows)
    assert (rule_counts["not applicable"], rule_counts["clean"]) == (len(inapplicable), len(clean))
    listed_rules = " ".join(
        expert_rows(rows, unfolded=True).filter(pl.col("state") == "not applicable")["all_rules"]
    ).split()
    assert (
        rule_counts["not applicable"] + rule_counts["partly applicable"] == len(set(listed_rules)) > len(inapplicable)
    )
    headings = {row["verdict"]: row for row in expert_rows(rows).filter(state=FOLDED).iter_rows(named=True)}
    assert sorted(headings["not applicable"]["all_rules"].split()) == sorted(inapplicable)
    assert headings["not applicable"]["message"] == (
        f"{len(inapplicable)} rules do not apply here, {rule_counts['partly applicable']} more in some sessions. "
        "Enter: show or hide."
    )
    heading = headings["clean"]
    assert sorted(heading["all_rules"].split()) == sorted(clean)
    partly_clean = sum({"found", "clean"} <= states for states in by_rule.values())
    assert heading["message"] == (
        f"{len(clean)} rules found nothing, {partly_clean} more in some sessions. Enter: show or hide."
    )


def test_rules_that_apply_to_one_of_several_sessions_are_not_inapplicable() -> None:
    replayed = make_profile(
        sessions=[{**SESSION, "format": "ncu-csv", "tool": "Nsight Compute"}], activities=[launch(0, 10 * MS)]
    )
    timeline = make_profile(
        sessions=[SESSION], devices=[A100], activities=[transfer(0, 30 * MS), launch(30 * MS, 10 * MS)]
    )
    timeline_counts = counts(findings(timeline))
    assert counts(findings(replayed))["not applicable"] > timeline_counts["not applicable"]
    merged_counts = counts(findings(merge_profiles([replayed, timeline])))
    assert merged_counts["not applicable"] <= timeline_counts["not applicable"]


# --- random profiles --------------------------------------------------------------------------------------------------

ACTIVITY = st.fixed_dictionaries(
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
CALL = st.fixed_dictionaries(
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
RANGE = st.fixed_dictionaries(
    {"name": st.sampled_from(["step", "gc", "data loader", "DistributedDataParallel.forward", "CUPTI overhead"])},
    optional={
        "start_ns": st.one_of(st.none(), st.integers(0, 10**9)),
        "duration_ns": st.one_of(st.none(), st.integers(0, 10**9)),
        "iteration": st.one_of(st.none(), st.integers(0, 9)),
    },
)
SUMMARY = st.fixed_dictionaries(
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
OP = st.fixed_dictionaries(
    {"name": st.sampled_from(["aten::mm", "SyncBatchNorm", "DataParallel.forward", "aten::addcdiv_"])},
    optional={
        "start_ns": st.integers(0, 10**9),
        "duration_ns": st.integers(0, 10**8),
        "input_shapes": st.sampled_from([None, "[2, 3]", "[4, 5]"]),
        "iteration": st.one_of(st.none(), st.integers(0, 4)),
    },
)


@given(
    st.lists(ACTIVITY, max_size=12),
    st.lists(CALL, max_size=8),
    st.lists(RANGE, max_size=6),
    st.lists(SUMMARY, max_size=4),
    st.lists(OP, max_size=4),
    st.sampled_from([None, "Tesla K40c (0)", "NVIDIA H100 PCIe", "unheard of"]),
    st.integers(1, 2),
    st.sampled_from([1, 10_000]),
)
def test_no_rule_fails_on_random_profiles(
    activities: list[dict[str, Any]],
    calls: list[dict[str, Any]],
    ranges: list[dict[str, Any]],
    summary: list[dict[str, Any]],
    ops: list[dict[str, Any]],
    gpu: str | None,
    sessions: int,
    resolution_ns: int,
) -> None:
    def over_sessions(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "session": number % sessions} for number, row in enumerate(rows)]

    frames: dict[str, Any] = {
        "activities": over_sessions(activities),
        "api_calls": over_sessions(calls),
        "ranges": over_sessions(ranges),
        "summary": over_sessions(summary),
        "ops": [{**row, "op": number, "op_source": "recorded"} for number, row in enumerate(over_sessions(ops))],
        "devices": [{"session": 0, "device": 0, "name": gpu}] if gpu else [],
        "sessions": [{**SESSION, "session": n, "start_resolution_ns": resolution_ns} for n in range(sessions)],
    }
    profile = make_profile(**{name: rows for name, rows in frames.items() if rows})
    rows = findings(profile)
    assert not rows["reason"].str.contains("failed on this profile").any()
    costs = rows["cost_ns"].drop_nulls()
    assert costs.is_empty() or (costs >= 0).all()
    for query in rows["filter"].drop_nulls():
        parse(query)


def test_a_failing_rule_does_not_affect_other_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    from tui.analysis.expert import case

    def raise_error(_self: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(case.Case, "busy", property(raise_error))
    rows = findings(trace_of(launch(0, MS), launch(5 * MS, MS)))
    assert row_of_rule(rows, "U1")["reason"] == "the rule failed on this profile (ZeroDivisionError): please report it"
    assert row_of_rule(rows, "Q3")["state"] == "clean"


def test_a_healthy_profile_is_clean() -> None:
    rows = findings(HEALTHY)
    # The profile has only one kernel.
    assert found_by_rule(rows).keys() == {"P10"}
    assert (
        row_of_rule(rows, "U1")["state"]
        == row_of_rule(rows, "T1")["state"]
        == row_of_rule(rows, "P2")["state"]
        == "clean"
    )


def test_rules_on_times_are_not_applicable_to_printed_totals() -> None:
    rows = findings(TOTALS)
    for rule in ("U1", "U2", "U6", "T2", "C2", "I5", "L8"):
        assert row_of_rule(rows, rule)["state"] == "not applicable"


def test_a_single_recorded_step_is_found() -> None:
    profile = trace_of(
        launch(0, MS, correlation=1), api_calls=[call(0, 10, correlation=1)], ranges=[step_range(0, 0, MS)]
    )
    assert row_of_rule(findings(profile), "I1")["state"] == "found"


def test_uploads_before_the_first_iteration_are_not_repeated_uploads() -> None:
    steps = trace_of(
        transfer(0, MS),
        *(launch(n * 10 * MS, MS, iteration=n) for n in range(1, 4)),
        ranges=[step_range(n, n * 10 * MS, 10 * MS) for n in range(1, 4)],
    )
    row = row_of_rule(findings(steps), "T10")
    assert (row["state"], row["reason"]) == ("clean", "no iteration uploads anything: 1 upload outside of them")


def test_kernels_without_times_are_not_reported_as_not_run() -> None:
    shape = {"grid_x": 64, "grid_y": 1, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1}
    profile = make_profile(
        sessions=[{**SESSION, "format": "ncu-csv", "tool": "Nsight Compute"}],
        activities=[kernel("sgemm", None, device=0, registers=32, **shape)],
    )
    rows = findings(profile)
    for rule in ("L1", "L2", "L3"):
        assert row_of_rule(rows, rule)["reason"] == (
            "times of kernels are not recorded: record with ncu --set full --csv --page raw ./app"
        )
    assert row_of_rule(rows, "P13")["reason"].startswith("no recorded ops: record with nsys profile")


def test_profiler_overhead_is_compared_with_the_span() -> None:
    def overhead_verdict(overhead_ns: float) -> dict[str, Any]:
        row = {"tool": "Kineto", "section": "overhead during GPU work", "name": "Activity Buffer Request"}
        row |= {"value": overhead_ns, "unit": "ns"}
        return row_of_rule(findings(trace_of(launch(0, 10 * MS), tool_figures=[row])), "Q4")

    heavy, light = overhead_verdict(MS), overhead_verdict(MS / 100)
    assert (heavy["state"], heavy["cost_ns"], heavy["view"]) == ("found", MS, "tool-report")
    assert light["state"] == "clean"


def partly_used_warps(other_ms: int, odd_start_ms: int) -> Profile:
    """Return a kernel, and one of 12 ms of which 24 of 1,024 lanes do nothing, which costs 281 us."""
    shape = {"grid_x": 5280, "grid_y": 1, "grid_z": 1, "block_y": 1, "block_z": 1, "device": 0, "stream": 7}
    work = [
        kernel("even", other_ms * MS, start_ns=0, block_x=256, **shape),
        kernel("odd", 12 * MS, start_ns=odd_start_ms * MS, block_x=1000, **shape),
    ]
    return make_profile(sessions=[SESSION], devices=[A100], activities=work)


def test_a_cost_is_at_most_the_wall_time() -> None:
    """Three copies of 10 ms at once in a run of 11 ms."""
    copies = [transfer(0, 10 * MS, stream=stream) for stream in (7, 8, 9)]
    (row,) = findings(trace_of(*copies, launch(10 * MS, MS))).filter(rule="T1").iter_rows(named=True)
    assert (row["cost_ns"], row["cost_pct"]) == (11 * MS, 100.0)
    assert json.loads(row["numbers"])["copy_ns"] == 30 * MS


def test_a_cost_near_zero_is_clean_and_reported() -> None:
    rows = findings(partly_used_warps(990, 990))
    (reason,) = rows.filter(rule="L5", state="clean")["reason"]
    assert reason == (
        "`odd` has blocks of 1,000 threads (1.2% of GPU time): 24 of 32 lanes of the last warp do nothing: "
        "costs 281 µs at most"
    )


def test_a_cost_near_zero_of_the_wall_time_is_found_if_it_is_not_of_gpu_time() -> None:
    """The kernels take 32 ms of 100 s: 281 us are 0.0003% of the wall time, but 0.9% of GPU time."""
    row = row_of_rule(findings(partly_used_warps(20, 100_000)), "L5")
    assert (row["state"], row["cost_ns"]) == ("found", 281_250)
