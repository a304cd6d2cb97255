"""Recordings in all formats have the expected findings and clean rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl
import pytest

from tests.analysis.expert.rule_verdicts import open_shown
from tests.analysis.expert.single_findings import found_by_rule, numbers_of, row_of_rule
from tests.corpus import corpus_file, recording_file
from tui.analysis.expert.findings import findings


@dataclass(frozen=True)
class Expectation:
    """The expected verdicts on a recording."""

    path: str
    """A file of the recordings, or of the nvprof output that is rendered from one."""
    found: str
    """Ids of rules that must find something in session 0."""
    clean: str = ""
    inapplicable: str = ""

    def rows(self) -> pl.DataFrame:
        rendered = self.path.endswith((".txt", ".csv"))
        path = corpus_file(f"nvprof_rendered/{self.path}") if rendered else recording_file(self.path)
        return findings(open_shown(path))


SHORT_KERNEL_RULES: Final = "A2 L2 L3"
"""Rules on kernels that are too short or do not fill the GPU."""
BUSY_GPU_RULES: Final = "U1 U2 U8 T1 T2 T3 T4 C1 Q1 Q2 Q3"
"""Rules that are clean for a GPU that is busy with kernels."""

EXPECTATIONS: Final = (
    Expectation("tiny_kernels.pt.trace.json.gz", f"{SHORT_KERNEL_RULES} A3 U1 U6 P11", "U2 A13 C1 Q1 Q2"),
    Expectation(
        "gpt_cudagraph.pt.trace.json.gz", f"{SHORT_KERNEL_RULES} U7", f"{BUSY_GPU_RULES} A3 A6 U6 L10 P1 P2", "A13"
    ),
    Expectation(
        "gpt_cudagraph.gputrace.txt", f"{SHORT_KERNEL_RULES} U7", f"{BUSY_GPU_RULES} L10 P1 P2", "A3 A6 U6 A13"
    ),
    Expectation("gpt_cudagraph.summary.txt", "A2 Q3", "T1 C1 P1 P2", "U1 U2 U6 U7 L2 L3 T2"),
    # It includes start-up, and each replay is one row.
    Expectation(
        "gpt_cudagraph.nsys.sqlite.gz", "Q6 U1 U2 A9 T7 I10", "A6 A13 Q1 Q2 T8 T9", "A2 L2 L3 P1 C1 C2 A11 A12 P11 A7"
    ),
    Expectation("ddp_rank0.pt.trace.json.gz", "C1 C2 C4 A2 L2 L3 T6", "C3 U1 P1 Q1 Q2 T8 T9 A13", "C5 C7"),
    Expectation("ddp_rank0.gputrace.txt", "C1 C2 C4 A2 L2 L3 T6", "C3 U1 P1 Q1 Q2", "C5 C7 A13 T8"),
    Expectation("ddp_rank0.summary.txt", "C1 Q3", "P1 T1 T8", "C2 C3 C4 C5 C7 U1"),
    Expectation("ddp.nsys.sqlite.gz", "U1 U2 U6 U9 A8 A9 T7 I3 I10 L3", "L2 C3 P1 Q1 Q2 T8 T9 A13"),
    # Long consecutive steps: only full precision is found.
    Expectation(
        "resnet50_fp32.pt.trace.json.gz", "P2 P4 P7", f"{BUSY_GPU_RULES} A2 A13 U6 U7 I2 I3 T6 T7 L1 L8 L9 P11"
    ),
    Expectation("resnet50_amp.pt.trace.json.gz", f"{SHORT_KERNEL_RULES} U1 U2 U6 P11", "P1 P2 P4 T1 C1 Q1 Q2 A13"),
    Expectation(
        "resnet50_amp.nsys.sqlite.gz", f"{SHORT_KERNEL_RULES} U1 U2 U6 A9 I10", "P11 P1 P2 P4 T1 T8 T9 C1 Q1 Q2 A13"
    ),
    Expectation("resnet50_amp.both.txt", f"{SHORT_KERNEL_RULES} U1 U2 P11", "P1 P2 P4 T1 C1 Q1 Q2 A1"),
    Expectation("resnet50_amp.gputrace.txt", f"{SHORT_KERNEL_RULES} U1 U2 P11", "P1 P2 P4 T1 C1 Q1 Q2", "A1 A3 A13"),
    Expectation("resnet50_amp.gputrace_ns.txt", f"{SHORT_KERNEL_RULES} U1 U2 P11", "P1 P2 P4 T1 C1 Q1 Q2", "A1 A3 A13"),
    Expectation("resnet50_amp.gputrace.csv", f"{SHORT_KERNEL_RULES} U1 U2 P11", "P1 P2 P4 T1 C1 Q1 Q2", "A1 A3 A13"),
    Expectation("resnet50_amp.apitrace.txt", "", "A10 Q2", "U1 A1 A2 A13 L2 P1 T1"),
    Expectation("resnet50_amp.summary.txt", "Q3 P7", "P1 P2 P4 T1 C1 A1 Q5", "U1 U2 L2 L3 P11"),
    Expectation("resnet50_amp.summary.csv", "Q3 P7", "P1 P2 P4 T1 C1 A1 Q5", "U1 U2 L2 L3 P11"),
)


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=[expectation.path for expectation in EXPECTATIONS])
def test_recordings_have_the_expected_findings(expectation: Expectation) -> None:
    rows = expectation.rows()
    first_session = rows.filter(pl.col("session").eq_missing(0) | pl.col("session").is_null()).drop_nulls("rule")
    states = dict(first_session.select("rule", "state").iter_rows())
    rules_by_state = {
        "found": expectation.found,
        "clean": expectation.clean,
        "not applicable": expectation.inapplicable,
    }
    expected = {rule: state for state, rules in rules_by_state.items() for rule in rules.split()}
    assert {rule: states[rule] for rule in expected} == expected


def test_tiny_kernels_are_counted() -> None:
    found_rows = found_by_rule(findings(open_shown(recording_file("tiny_kernels.pt.trace.json.gz"))))
    assert numbers_of(found_rows["A2"])["short"] == 6404
    assert numbers_of(found_rows["A3"])["bound_pct"] == 100.0


def test_replays_of_a_graph_are_one_launch() -> None:
    rows = findings(open_shown(recording_file("gpt_cudagraph.pt.trace.json.gz")))
    assert numbers_of(row_of_rule(rows, "A3")) == {"launches": 60, "bound": 0, "bound_pct": 0.0}
    assert numbers_of(row_of_rule(rows, "A6")) == {"waiting": 60}


def test_a_straggler_is_named() -> None:
    paths = [recording_file(f"ddp_rank{rank}.pt.trace.json.gz") for rank in range(2)]
    row = found_by_rule(findings(open_shown(*paths)), session=None)["C5"]
    assert row["problem"].startswith("Rank 1 is the straggler: it arrives last in 4 of 4 iterations")
    assert row["filter"].startswith('name="nccl')
    assert row["recommendation"].startswith("Check why rank 1 runs `sm80_xmma_gemm_f32f32_f32f32_f")
    assert "` 63.9 ms longer than the other rank: " in row["recommendation"]


def test_no_straggler_is_named_if_ranks_wait_in_turn() -> None:
    rows = findings(open_shown(recording_file("ddp.nsys.sqlite.gz")))
    row = rows.filter(pl.col("rule") == "C5").row(0, named=True)
    assert row["state"] == "clean"
    assert row["reason"] == "no straggler: session 0 (pid 1306) arrives last most often, in 2 of 4 iterations"


def test_findings_on_precision_differ_between_fp32_and_mixed_precision() -> None:
    full, mixed = (
        findings(open_shown(recording_file(f"resnet50_{name}.pt.trace.json.gz"))) for name in ("fp32", "amp")
    )
    assert found_by_rule(full)["P2"]["severity"] == "info"
    assert numbers_of(found_by_rule(full)["P2"])["efficiency_pct"] == pytest.approx(73.47, abs=0.005)
    assert numbers_of(row_of_rule(mixed, "P2"))["efficiency_pct"] > 80
    assert numbers_of(found_by_rule(full)["P4"])["time_pct"] > 5 > numbers_of(row_of_rule(mixed, "P4"))["time_pct"]
