"""What is known of real logs, the rules say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.analysis.expert.asking import figures, found, of_rule
from tests.analysis.expert.judging import as_shown
from tests.corpus import recording_file
from tui.analysis.expert.findings import findings

if TYPE_CHECKING:
    from collections.abc import Callable


def test_seed_000(corpus: Callable[[str], str]) -> None:
    rows = findings(as_shown(corpus("seeds/000_eb78dec59201d654.txt")))
    result = found(rows)
    assert figures(of_rule(rows, "U1"))["busy_pct"] == pytest.approx(73.2, abs=0.05)
    assert of_rule(rows, "U1")["state"] == "clean"
    hole = figures(result["U2"])
    assert hole["longest_ns"] == pytest.approx(263.8e6, abs=0.05e6)
    assert hole["longest_pct"] == pytest.approx(26.5, abs=0.05)
    assert figures(result["L1"])["low_time_pct"] == pytest.approx(95.1, abs=0.05)
    evidence = {row["name"].split("<")[0]: row for row in json.loads(result["L1"]["evidence"])}
    convolve = evidence["void cudnn::detail::precomputed_convolve_sgemm"] if (
        "void cudnn::detail::precomputed_convolve_sgemm" in evidence
    ) else next(row for name, row in evidence.items() if "precomputed" in name)  # fmt: skip
    assert (convolve["occupancy_pct"], convolve["limiter"]) == (37.5, "registers and shared memory")
    impossible = json.loads(result["Q1"]["evidence"])
    assert [round(row["rate"] / 1e12, 1) for row in impossible if row["duration_ns"] == 1025] == [24.6]
    assert "compute capability 3.5 has none" in of_rule(rows, "P1")["reason"]
    assert of_rule(rows, "T6")["reason"].startswith("5 of 6 copies")
    assert of_rule(rows, "L3")["state"] == "clean"


def test_seed_002_spends_its_time_in_copies(corpus: Callable[[str], str]) -> None:
    row = found(findings(as_shown(corpus("seeds/002_217dea74feb3b440.txt"))))["T1"]
    assert figures(row)["copy_pct"] == pytest.approx(87.6, abs=0.05)
    assert (
        "Copies take 88% of GPU time, `[CUDA memcpy HtoD]` alone 71%: 1,678 copies of 4.5 ms on average"
        in row["problem"]
    )


def test_seed_003_is_start_up(corpus: Callable[[str], str]) -> None:
    row = found(findings(as_shown(corpus("seeds/003_c168b99af706e402.txt"))))["A10"]
    assert (row["severity"], row["cost_pct"]) == ("warning", pytest.approx(96.73, abs=0.01))
    assert figures(row)["api_pct"] == pytest.approx(46.0, abs=0.05)


def test_full_precision_leaves_tensor_cores_idle_and_mixed_does_not() -> None:
    full, mixed = (findings(as_shown(recording_file(f"resnet50_{name}.pt.trace.json.gz"))) for name in ("fp32", "amp"))
    assert found(full)["P2"]["severity"] == "info"
    assert figures(found(full)["P2"])["efficiency_pct"] == pytest.approx(73.47, abs=0.005)
    assert of_rule(mixed, "P2")["state"] == "clean"
    assert of_rule(mixed, "P1")["state"] == "clean"


def test_whole_graphs_hide_their_kernels() -> None:
    rows = findings(as_shown(recording_file("gpt_cudagraph.nsys.sqlite.gz")))
    assert figures(found(rows)["Q6"])["replays"] == 120
    assert "--cuda-graph-trace=node" in of_rule(rows, "L1")["reason"]
    assert "--cuda-graph-trace=node" in of_rule(rows, "P1")["reason"]
