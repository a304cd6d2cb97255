"""Rules answer for the iterations that were chosen, and say where iterations are found or end with a key."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from tests.analysis.expert.asking import figures, found, of_rule
from tests.analysis.expert.judging import as_shown
from tests.corpus import recording_file
from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert.findings import RULES, findings
from tui.analysis.gpu_time.idle_gaps import busy_time
from tui.analysis.iterations.iteration_table import iterations

TRAINING: Final = str(Path(__file__).parents[3] / "sample_logs" / "resnet50_training.nvprof.log")
ON_ITERATIONS = [rule.id for rule in RULES if needs.iterations in rule.needs]


def sentence_of(rows: pl.DataFrame, rule: str) -> str:
    row = of_rule(rows, rule)
    return str(row["problem"] or row["reason"])


def test_figures_are_of_the_chosen_iterations_alone() -> None:
    whole, chosen = as_shown(TRAINING), as_shown(TRAINING, iterations="2:3")
    for profile in (whole, chosen):
        rows, busy = findings(profile), busy_time(profile).row(0, named=True)
        assert figures(of_rule(rows, "U1"))["busy_ns"] == busy["busy_ns"]
        assert figures(of_rule(rows, "I2"))["iterations"] == iterations(profile)["iteration"].count()
        launches = profile["activities"].filter(pl.col("kind") == "kernel").height
        assert figures(of_rule(rows, "A2"))["launches"] == launches
    assert iterations(chosen)["iteration"].to_list() == [2, 3]
    assert figures(of_rule(findings(chosen), "A2"))["launches"] < figures(of_rule(findings(whole), "A2"))["launches"]


def test_found_iterations_are_marked_as_found() -> None:
    for chosen in (None, "2:3"):
        rows = findings(as_shown(TRAINING, iterations=chosen))
        for rule in ("I2", "P8"):
            assert sentence_of(rows, rule).rstrip(".").endswith("terations are found, not recorded")
    assert "923 launches repeat 5 times" in sentence_of(findings(as_shown(TRAINING)), "I1")
    recorded = findings(as_shown(TRAINING.replace(".nvprof.log", ".pt.trace.json.gz")))
    words = recorded.filter(pl.col("rule").is_in(ON_ITERATIONS)).select(pl.coalesce("problem", "reason")).to_series()
    assert words.len() == len(ON_ITERATIONS)
    assert not words.str.contains("found, not recorded").any()


def test_iterations_by_a_key_are_marked_as_such() -> None:
    key = "multi_tensor_apply_kernel"
    profile = as_shown(TRAINING, key=key)
    rows = findings(profile)
    assert profile.aggregation.key is not None
    assert sentence_of(rows, "I2").rstrip(".").endswith(f"terations are those that end with {profile.aggregation.key}")
    assert figures(of_rule(rows, "I2"))["iterations"] == iterations(profile).filter(pl.col("phase") == "whole").height


def test_a_single_one_that_was_chosen_is_no_lack() -> None:
    rows = findings(as_shown(TRAINING, iterations="3"))
    assert (of_rule(rows, "I1")["state"], sentence_of(rows, "I1")) == ("clean", "iteration 3 chosen")
    assert sentence_of(rows, "I10") == "not applicable to chosen iterations"
    for rule in ("I2", "I3", "I4"):
        assert of_rule(rows, rule)["state"] == "not applicable"


def test_sessions_keep_the_iterations_that_were_chosen() -> None:
    path = recording_file("ddp.nsys.sqlite.gz")
    whole, chosen = findings(as_shown(path)), findings(as_shown(path, iterations="3:4"))
    assert found(whole)["A8"]["problem"].endswith("mostly `cudaMalloc`.")
    for session in (0, 1):
        assert figures(of_rule(chosen, "I2", session))["iterations"] == 2
        assert sentence_of(chosen, "A8").startswith("0 calls in these iterations")
    assert found(whole, session=None).keys().isdisjoint({"C5"})
    assert found(chosen, session=None)["C5"]["problem"].startswith(
        "Session 0 (pid 1306) is the straggler: it arrives last in 2"
    )


def test_nothing_is_clean_that_needs_what_a_range_leaves_out() -> None:
    rows = findings(as_shown(TRAINING, iterations="2:3"))
    for rule in ("A13", "T11"):
        assert of_rule(rows, rule)["state"] == "not applicable"
