"""The findings on copies, sets, waits, gaps and use agree with what Nsight Systems' own rules say of a recording.

Where the definitions differ:

- Waits: to wait for an event is what Nsight's rule advises and what ours counts: it keeps the thread waiting as well.
- Use: Nsight adds up durations, so work that overlaps counts twice, and leaves out whole CUDA graphs; ours is the time
  in which the GPU had any work.
- Copies: Nsight names each asynchronous copy of pageable memory, of which it shows 50; ours counts all of them.
"""

from __future__ import annotations

import json
from collections import Counter

import polars as pl
import pytest

from tests.analysis.expert.rule_verdicts import open_shown
from tests.analysis.expert.single_findings import numbers_of, row_of_rule
from tests.analysis.test_nsight_agrees import RECORDINGS, nsight_table
from tests.corpus import recording_file
from tui.analysis.expert.findings import findings

MAX_NSIGHT_ROWS = 50
"""The number of rows that Nsight shows."""
HALF_A_SECOND = 500_000_000


def nsight_findings(name: str) -> pl.DataFrame:
    return findings(open_shown(recording_file(f"{name}.nsys.sqlite.gz")))


def evidence_rows(rows: pl.DataFrame, rule: str) -> list[dict[str, object]]:
    """Return the evidence of a rule in all sessions."""
    texts = rows.filter(pl.col("rule") == rule)["evidence"].drop_nulls()
    return [row for text in texts for row in json.loads(text)]


def verdicts_by_session(rows: pl.DataFrame, rule: str) -> list[dict[str, object]]:
    """Return the verdict of a rule on each session with figures."""
    judged = rows.filter(pl.col("rule") == rule, pl.col("numbers").is_not_null())
    return list(judged.iter_rows(named=True))


@pytest.mark.parametrize("name", RECORDINGS)
def test_synchronous_copies_and_sets(name: str) -> None:
    rows = nsight_findings(name)
    assert nsight_table(name, "cuda_memcpy_sync") == nsight_table(name, "cuda_memset_sync") == []
    for row in verdicts_by_session(rows, "T8"):
        assert (row["state"], numbers_of(row)["calls"]) == ("clean", 0)
    states = rows.filter(pl.col("rule") == "T9", ~pl.col("reason").str.contains("no GPU activities"))["state"]
    assert set(states) == {"clean"}


@pytest.mark.parametrize("name", RECORDINGS)
def test_asynchronous_copies_of_pageable_memory(name: str) -> None:
    # Nsight lists each copy of a recording with several processes twice.
    nsight_copies = {(int(row[1]), int(row[0])) for row in nsight_table(name, "cuda_memcpy_async")}
    rows = nsight_findings(name)
    assert sum(numbers_of(row)["copies"] for row in verdicts_by_session(rows, "T7")) >= len(nsight_copies)
    copies = {(row["start_ns"], row["duration_ns"]) for row in evidence_rows(rows, "T7")}
    longest = sorted(nsight_copies, key=lambda copy: -copy[1])[:10]
    assert {copy[1] for copy in longest} <= {duration for _, duration in copies}


@pytest.mark.parametrize("name", RECORDINGS)
def test_synchronizing_calls(name: str) -> None:
    nsight_rows = nsight_table(name, "cuda_api_sync")
    assert len(nsight_rows) == MAX_NSIGHT_ROWS
    rows = nsight_findings(name)
    call_counts = Counter[str]()
    for row in evidence_rows(rows, "A1"):
        call_counts[str(row["name"])] += int(str(row["calls"]))
    wait_ns_by_session = {str(row["session"]): numbers_of(row)["wait_ns"] for row in verdicts_by_session(rows, "A1")}
    if call_counts:
        for call, times in Counter(row[4].rsplit("_v", 1)[0] for row in nsight_rows).items():
            assert call_counts[call] >= times
    by_process = Counter[str]()
    for row in nsight_rows:
        by_process[row[2]] += int(row[0])
    for process, wait_ns in by_process.items():
        session = open_shown(recording_file(f"{name}.nsys.sqlite.gz"))["sessions"].filter(pl.col("pid") == int(process))
        assert wait_ns_by_session[str(session["session"].item())] >= wait_ns


@pytest.mark.parametrize("name", RECORDINGS)
def test_gaps_of_half_a_second(name: str) -> None:
    expected = {(int(row[2]), int(row[1]), int(row[4])) for row in nsight_table(name, "gpu_gaps")}
    gap_rows = evidence_rows(nsight_findings(name), "U2")
    gaps = {
        (row["start_ns"], row["gap_ns"], row["device"]) for row in gap_rows if int(str(row["gap_ns"])) >= HALF_A_SECOND
    }
    assert gaps == expected


@pytest.mark.parametrize("name", ["ddp", "resnet50_amp"])
def test_stretches_of_low_use(name: str) -> None:
    nsight_rows = {int(row[5]): row for row in nsight_table(name, "gpu_time_util")}
    intervals = {int(str(row["device"])): row for row in evidence_rows(nsight_findings(name), "U3")}
    assert intervals.keys() == nsight_rows.keys()
    for device, row in intervals.items():
        assert row["start_ns"] == pytest.approx(int(nsight_rows[device][3]), abs=30)
        assert row["duration_ns"] == pytest.approx(int(nsight_rows[device][2]), abs=60)
        assert -0.051 < float(nsight_rows[device][1]) - float(str(row["busy_pct"])) < 0.3


def test_whole_graphs_count_as_gpu_work() -> None:
    nsight_rows = nsight_table("gpt_cudagraph", "gpu_time_util")
    assert [float(row[1]) for row in nsight_rows] == [0.1]
    assert numbers_of(row_of_rule(nsight_findings("gpt_cudagraph"), "U1"))["busy_pct"] > 10
