"""Findings of real logs agree with known figures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.analysis.expert.rule_verdicts import open_shown
from tests.analysis.expert.single_findings import found_by_rule, numbers_of, row_of_rule
from tests.corpus import recording_file
from tui.analysis.expert.findings import findings

if TYPE_CHECKING:
    from collections.abc import Callable


def test_findings_of_a_caffe_log(corpus: Callable[[str], str]) -> None:
    rows = findings(open_shown(corpus("seeds/000_eb78dec59201d654.txt")))
    found_rows = found_by_rule(rows)
    assert numbers_of(row_of_rule(rows, "U1"))["busy_pct"] == pytest.approx(73.2, abs=0.05)
    assert row_of_rule(rows, "U1")["state"] == "clean"
    gap_figures = numbers_of(found_rows["U2"])
    assert gap_figures["longest_ns"] == pytest.approx(263.8e6, abs=0.05e6)
    assert gap_figures["longest_pct"] == pytest.approx(26.5, abs=0.05)
    assert numbers_of(found_rows["L1"])["low_time_pct"] == pytest.approx(95.1, abs=0.05)
    evidence = {row["name"].split("<")[0]: row for row in json.loads(found_rows["L1"]["evidence"])}
    convolution = evidence["void cudnn::detail::precomputed_convolve_sgemm"] if (
        "void cudnn::detail::precomputed_convolve_sgemm" in evidence
    ) else next(row for name, row in evidence.items() if "precomputed" in name)  # fmt: skip
    assert (convolution["occupancy_pct"], convolution["limiter"]) == (37.5, "registers and shared memory")
    impossible = json.loads(found_rows["Q1"]["evidence"])
    assert [round(row["rate"] / 1e12, 1) for row in impossible if row["duration_ns"] == 1025] == [24.6]
    assert "compute capability 3.5 has none" in row_of_rule(rows, "P1")["reason"]
    assert row_of_rule(rows, "T6")["reason"].startswith("5 of 6 copies")
    assert row_of_rule(rows, "L3")["state"] == "clean"


def test_a_log_that_spends_its_time_in_copies(corpus: Callable[[str], str]) -> None:
    row = found_by_rule(findings(open_shown(corpus("seeds/002_217dea74feb3b440.txt"))))["T1"]
    assert numbers_of(row)["copy_pct"] == pytest.approx(87.6, abs=0.05)
    assert (
        "Copies take 88% of GPU time, `[CUDA memcpy HtoD]` alone 71%: 1,678 copies of 4.5 ms on average"
        in row["problem"]
    )


def test_a_log_that_is_mostly_start_up(corpus: Callable[[str], str]) -> None:
    row = found_by_rule(findings(open_shown(corpus("seeds/003_c168b99af706e402.txt"))))["A10"]
    assert (row["severity"], row["cost_pct"]) == ("info", pytest.approx(96.73, abs=0.01))
    assert numbers_of(row)["api_pct"] == pytest.approx(46.0, abs=0.05)


def test_full_precision_leaves_tensor_cores_idle_and_mixed_does_not() -> None:
    full, mixed = (
        findings(open_shown(recording_file(f"resnet50_{name}.pt.trace.json.gz"))) for name in ("fp32", "amp")
    )
    assert found_by_rule(full)["P2"]["severity"] == "info"
    assert numbers_of(found_by_rule(full)["P2"])["efficiency_pct"] == pytest.approx(73.47, abs=0.005)
    assert row_of_rule(mixed, "P2")["state"] == "clean"
    assert row_of_rule(mixed, "P1")["state"] == "clean"


def test_whole_graphs_hide_their_kernels() -> None:
    rows = findings(open_shown(recording_file("gpt_cudagraph.nsys.sqlite.gz")))
    assert numbers_of(found_by_rule(rows)["Q6"])["replays"] == 120
    assert "--cuda-graph-trace=node" in row_of_rule(rows, "L1")["reason"]
    assert "--cuda-graph-trace=node" in row_of_rule(rows, "P1")["reason"]
