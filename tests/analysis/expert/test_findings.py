"""All rules together: one frame, in order, whatever the profile holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.expert.profiles import A100, HEALTHY, MS, NCCL, SESSION, SUMMED, call, moved, run, step, traced
from tests.analysis.frames import profile
from tests.corpus import oracle_file, recording_file
from tui.analysis.expert import limits as thresholds
from tui.analysis.expert.findings import FINDINGS, findings
from tui.analysis.expert.registry import RULES
from tui.analysis.expert.view import FOLDED, counts, expert_rows
from tui.loaders.registry import load
from tui.model.errors import ProftuiError
from tui.query.parse import parse

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tui.model.profile import Profile

MIXED = profile(
    sessions=[SESSION, {**SESSION, "session": 1}],
    devices=[A100],
    activities=[moved(0, 30 * MS), run(30 * MS, 10 * MS), {**run(0, MS), "session": 1}],
    tool_findings=[{"tool": "DLProf", "problem": "No DALI ops detected", "recommendation": "Consider DALI"}],
)


def opened(*paths: str) -> Profile:
    whole, errors = load(list(paths))
    assert whole is not None
    assert not errors
    return whole


def found(rows: pl.DataFrame, session: int | None = 0) -> dict[str, dict[str, Any]]:
    """What was found in a session, by rule."""
    own = rows.filter(pl.col("state") == "found", pl.col("session").eq_missing(pl.lit(session, pl.UInt32)))
    return {row["rule"]: row for row in own.iter_rows(named=True)}


def of_rule(rows: pl.DataFrame, rule: str, session: int = 0) -> dict[str, Any]:
    return rows.filter(pl.col("rule") == rule, pl.col("session") == session).row(0, named=True)


def figures(row: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(row["numbers"])
    return told


def test_every_rule_answers_once_for_each_session() -> None:
    rows = findings(MIXED)
    assert rows.schema == FINDINGS
    per_session = rows.drop_nulls("rule").group_by("session").agg(pl.col("rule").sort())
    by_session = sorted(rule.id for rule in RULES if not rule.across)
    assert dict(per_session.iter_rows()) == {
        0: by_session, 1: by_session, None: sorted(rule.id for rule in RULES if rule.across),
    }  # fmt: skip
    assert rows["state"].is_in(["found", "cannot tell", "clean"]).all()
    assert rows.filter(pl.col("state") != "found")["reason"].null_count() == 0
    assert rows.filter(pl.col("state") == "found")["problem"].null_count() == 0


def test_found_ones_come_first_the_gravest_and_dearest_before_the_others() -> None:
    rows = findings(MIXED)
    states = rows["state"].to_list()
    assert states == sorted(states, key=["found", "cannot tell", "clean"].index)
    warnings = rows.filter(pl.col("severity") == "warning")["cost_ns"].fill_null(-1).to_list()
    assert warnings == sorted(warnings, reverse=True)


def test_what_the_tool_itself_finds_stands_beside_ours() -> None:
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
    assert folded.filter(pl.col("state") == FOLDED)["rules"].to_list() == [f"{clean} rules"]
    assert unfolded.filter(pl.col("state") == "clean").height == clean
    reasons = folded.filter(pl.col("verdict") == "cannot tell")["message"]
    assert reasons.is_unique().all()
    assert sorted(" ".join(folded.drop_nulls("all_rules")["all_rules"]).split()) == sorted(
        rows.filter(pl.col("state") != "found")["rule"]
    )
    assert counts(rows)["clean"] == clean


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


@settings(max_examples=25)
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
    made = profile(**{name: rows for name, rows in given_frames.items() if rows})
    rows = findings(made)
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


# --- thresholds -------------------------------------------------------------------------------------------------------


def test_every_threshold_has_a_meaning_and_a_source() -> None:
    shipped = thresholds.limits()
    assert set(shipped.limits) == {rule.id for rule in RULES}
    for limits in shipped.limits.values():
        for limit in limits.values():
            assert limit.says
            assert limit.source


def test_a_users_thresholds_stand_over_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('[T1]\ncopy_pct = 80\nkernel_per_copy = 0.1\n[T2]\nseverity = "info"\n[T3]\nseverity = "off"\n')
    monkeypatch.setattr(thresholds, "user_limits_path", lambda: path)
    rows = findings(MIXED)
    assert of_rule(rows, "T1")["state"] == "clean"
    assert of_rule(rows, "T2")["severity"] == "info"
    assert of_rule(rows, "T3")["reason"] == f"switched off in {path}"
    copy_pct = json.loads(of_rule(rows, "T1")["thresholds"])[0]
    assert (copy_pct["value"], copy_pct["source"]) == (80.0, f"set in {path}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[U1", "not TOML"),
        ("[Z9]\nx = 1", "there is no rule Z9"),
        ("U1 = 3", "there is no rule U1"),
        ("[U1]\nbusy = 1", "U1 has no threshold busy"),
        ('[U1]\nbusy_pct = "much"', "U1: busy_pct is a number, not much"),
        ("[U1]\nbusy_pct = nan", "U1: busy_pct is a number, not nan"),
        ("[U1]\nbusy_pct = true", "U1: busy_pct is a number, not True"),
        ('[U1]\nseverity = "grave"', "U1: severity is one of error, warning, info, off, not grave"),
    ],
)
def test_a_users_file_that_cannot_be_used_is_named(text: str, message: str) -> None:
    with pytest.raises(ProftuiError, match=r"mine\.toml") as error:
        thresholds.with_users(thresholds.limits(), text, "mine.toml")
    assert message in error.value.message


# --- known answers ----------------------------------------------------------------------------------------------------


def test_seed_000(corpus: Callable[[str], str]) -> None:
    rows = findings(opened(corpus("seeds/000_eb78dec59201d654.txt")))
    told = found(rows)
    assert figures(of_rule(rows, "U1"))["busy_pct"] == pytest.approx(73.2, abs=0.05)
    assert of_rule(rows, "U1")["state"] == "clean"
    hole = figures(told["U2"])
    assert hole["longest_ns"] == pytest.approx(263.8e6, abs=0.05e6)
    assert hole["longest_pct"] == pytest.approx(26.5, abs=0.05)
    assert figures(told["L1"])["low_time_pct"] == pytest.approx(95.1, abs=0.05)
    evidence = {row["name"].split("<")[0]: row for row in json.loads(told["L1"]["evidence"])}
    convolve = evidence["void cudnn::detail::precomputed_convolve_sgemm"] if (
        "void cudnn::detail::precomputed_convolve_sgemm" in evidence
    ) else next(row for name, row in evidence.items() if "precomputed" in name)  # fmt: skip
    assert (convolve["occupancy_pct"], convolve["limiter"]) == (37.5, "registers and shared memory")
    impossible = json.loads(told["Q1"]["evidence"])
    assert [round(row["rate"] / 1e12, 1) for row in impossible if row["duration_ns"] == 1025] == [24.6]
    assert "compute capability 3.5 has none" in of_rule(rows, "P1")["reason"]
    assert of_rule(rows, "T6")["reason"].startswith("5 of 6 copies")
    assert of_rule(rows, "L3")["state"] == "clean"


def test_seed_002_spends_its_time_in_copies(corpus: Callable[[str], str]) -> None:
    row = found(findings(opened(corpus("seeds/002_217dea74feb3b440.txt"))))["T1"]
    assert figures(row)["copy_pct"] == pytest.approx(87.6, abs=0.05)
    assert "`[CUDA memcpy HtoD]` takes 70.57% of GPU time: 1,678 copies, 4.5016 ms each" in row["problem"]


def test_seed_003_is_start_up(corpus: Callable[[str], str]) -> None:
    row = found(findings(opened(corpus("seeds/003_c168b99af706e402.txt"))))["A10"]
    assert row["severity"] == "info"
    assert figures(row)["api_pct"] == pytest.approx(46.0, abs=0.05)


def test_tiny_kernels() -> None:
    told = found(findings(opened(recording_file("tiny_kernels.pt.trace.json.gz"))))
    assert {"A2", "A3", "U6", "U1", "P11"} <= set(told)
    assert figures(told["A2"])["short"] == 6404
    assert figures(told["A3"])["bound_pct"] == 100.0


def test_a_straggler_is_named() -> None:
    paths = [recording_file(f"ddp_rank{rank}.pt.trace.json.gz") for rank in range(2)]
    row = found(findings(opened(*paths)), session=None)["C5"]
    assert row["problem"].startswith("Rank 1 comes last to collectives in 4 of 4 iterations")


def test_full_precision_leaves_tensor_cores_idle_and_mixed_does_not() -> None:
    full, mixed = (findings(opened(recording_file(f"resnet50_{name}.pt.trace.json.gz"))) for name in ("fp32", "amp"))
    assert found(full)["P2"]["severity"] == "info"
    assert figures(found(full)["P2"])["efficiency_pct"] == pytest.approx(73.99, abs=0.05)
    assert of_rule(mixed, "P2")["state"] == "clean"
    assert of_rule(mixed, "P1")["state"] == "clean"


def test_whole_graphs_hide_their_kernels() -> None:
    rows = findings(opened(recording_file("gpt_cudagraph.nsys.sqlite.gz")))
    assert figures(found(rows)["Q6"])["replays"] == 120
    assert "--cuda-graph-trace=node" in of_rule(rows, "L1")["reason"]
    assert "--cuda-graph-trace=node" in of_rule(rows, "P1")["reason"]


@pytest.mark.parametrize("name", ["ddp", "gpt_cudagraph", "resnet50_amp"])
def test_copies_of_pageable_memory_are_those_that_nsight_names(name: str) -> None:
    with open(oracle_file(f"{name}.nsys-analyze.txt"), encoding="utf-8") as text:  # noqa: PTH123
        lines = text.read().split("cuda_memcpy_async")[1].split("**")[0].splitlines()
    rows = [line.split() for line in lines if "Pageable" in line]
    named = {(int(row[1].replace(",", "")), int(row[0].replace(",", ""))) for row in rows}
    told = findings(opened(recording_file(f"{name}.nsys.sqlite.gz")))
    ours = told.filter(pl.col("rule") == "T7", pl.col("state") == "found")
    total = sum(figures(row)["copies"] for row in ours.iter_rows(named=True))
    assert total >= len(named)
    longest = {row["duration_ns"] for found in ours["evidence"] for row in json.loads(found)}
    assert {duration for _, duration in sorted(named, key=lambda pair: -pair[1])[:3]} <= longest


def test_a_healthy_profile_is_clean() -> None:
    rows = findings(HEALTHY)
    # One kernel again and again is all that there is to it.
    assert found(rows).keys() == {"A7", "P10"}
    assert of_rule(rows, "U1")["state"] == of_rule(rows, "T1")["state"] == of_rule(rows, "P2")["state"] == "clean"


def test_totals_alone_are_never_clean_of_what_needs_times() -> None:
    rows = findings(SUMMED)
    for rule in ("U1", "U2", "U6", "T2", "C2", "I5", "L8"):
        assert of_rule(rows, rule)["state"] == "cannot tell"


def test_steps_of_a_call_are_told_apart() -> None:
    made = traced(run(0, MS, correlation=1), api_calls=[call(0, 10, correlation=1)], ranges=[step(0, 0, MS)])
    assert of_rule(findings(made), "I1")["state"] == "found"
