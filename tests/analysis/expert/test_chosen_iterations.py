"""Verdicts for selected iterations, and for iterations that are found or defined by a key."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from tests.analysis.expert.rule_verdicts import open_shown
from tests.analysis.expert.single_findings import found_by_rule, numbers_of, row_of_rule
from tests.corpus import recording_file
from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert.findings import RULES, findings
from tui.analysis.gpu_time.idle_gaps import busy_time
from tui.analysis.iterations.iteration_table import iterations

TRAINING: Final = str(Path(__file__).parents[3] / "sample_logs" / "resnet50_training.nvprof.log")
ITERATION_RULES = [rule.id for rule in RULES if needs.iterations in rule.needs]


def sentence_of(rows: pl.DataFrame, rule: str) -> str:
    row = row_of_rule(rows, rule)
    return str(row["problem"] or row["reason"])


def test_figures_are_of_the_selected_iterations_only() -> None:
    complete, selected = open_shown(TRAINING), open_shown(TRAINING, iterations="2:3")
    for profile in (complete, selected):
        rows, busy = findings(profile), busy_time(profile).row(0, named=True)
        assert numbers_of(row_of_rule(rows, "U1"))["busy_ns"] == busy["busy_ns"]
        assert numbers_of(row_of_rule(rows, "I2"))["iterations"] == iterations(profile)["iteration"].count()
        launches = profile["activities"].filter(pl.col("kind") == "kernel").height
        assert numbers_of(row_of_rule(rows, "A2"))["launches"] == launches
    assert iterations(selected)["iteration"].to_list() == [2, 3]
    assert (
        numbers_of(row_of_rule(findings(selected), "A2"))["launches"]
        < numbers_of(row_of_rule(findings(complete), "A2"))["launches"]
    )


def test_found_iterations_are_marked_as_found() -> None:
    for selection in (None, "2:3"):
        rows = findings(open_shown(TRAINING, iterations=selection))
        for rule in ("I2", "P8"):
            assert sentence_of(rows, rule).rstrip(".").endswith("terations are detected, not recorded")
    assert "923 launches repeat 5 times" in sentence_of(findings(open_shown(TRAINING)), "I1")
    recorded = findings(open_shown(TRAINING.replace(".nvprof.log", ".pt.trace.json.gz")))
    sentences = (
        recorded.filter(pl.col("rule").is_in(ITERATION_RULES)).select(pl.coalesce("problem", "reason")).to_series()
    )
    assert sentences.len() == len(ITERATION_RULES)
    assert not sentences.str.contains("detected, not recorded").any()


def test_iterations_by_a_key_are_marked_as_such() -> None:
    key = "multi_tensor_apply_kernel"
    profile = open_shown(TRAINING, key=key)
    rows = findings(profile)
    assert profile.aggregation.key is not None
    assert sentence_of(rows, "I2").rstrip(".").endswith(f"terations are those that end with {profile.aggregation.key}")
    assert (
        numbers_of(row_of_rule(rows, "I2"))["iterations"]
        == iterations(profile).filter(pl.col("phase") == "whole").height
    )


def test_a_single_selected_iteration_is_not_reported_as_missing() -> None:
    rows = findings(open_shown(TRAINING, iterations="3"))
    assert (row_of_rule(rows, "I1")["state"], sentence_of(rows, "I1")) == ("clean", "iteration 3 chosen")
    assert sentence_of(rows, "I10") == "not applicable to chosen iterations"
    for rule in ("I2", "I3", "I4"):
        assert row_of_rule(rows, rule)["state"] == "not applicable"


def test_iterations_are_selected_in_every_session() -> None:
    path = recording_file("ddp.nsys.sqlite.gz")
    all_rows, selected_rows = findings(open_shown(path)), findings(open_shown(path, iterations="3:4"))
    assert found_by_rule(all_rows)["A8"]["problem"].endswith("mostly `cudaMalloc`.")
    for session in (0, 1):
        assert numbers_of(row_of_rule(selected_rows, "I2", session))["iterations"] == 2
        assert sentence_of(selected_rows, "A8").startswith("0 calls in these iterations")
    assert found_by_rule(all_rows, session=None).keys().isdisjoint({"C5"})
    assert found_by_rule(selected_rows, session=None)["C5"]["problem"].startswith(
        "Session 0 (pid 1306) is the straggler: it arrives last in 2"
    )


def test_rules_on_data_outside_the_selection_are_not_applicable() -> None:
    rows = findings(open_shown(TRAINING, iterations="2:3"))
    for rule in ("A13", "T11"):
        assert row_of_rule(rows, rule)["state"] == "not applicable"
