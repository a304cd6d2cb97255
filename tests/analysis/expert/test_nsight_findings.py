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

from tests.analysis.expert.asking import figures, of_rule
from tests.analysis.expert.judging import as_shown
from tests.analysis.test_nsight_agrees import RECORDINGS, nsight_table
from tests.corpus import recording_file
from tui.analysis.expert.findings import findings

SHOWN = 50
"""Nsight shows so many rows."""
HALF_A_SECOND = 500_000_000


def nsight_findings(name: str) -> pl.DataFrame:
    return findings(as_shown(recording_file(f"{name}.nsys.sqlite.gz")))


def evidence(rows: pl.DataFrame, rule: str) -> list[dict[str, object]]:
    """The rows behind what a rule found, of all sessions."""
    behind = rows.filter(pl.col("rule") == rule)["evidence"].drop_nulls()
    return [row for text in behind for row in json.loads(text)]


def sessions(rows: pl.DataFrame, rule: str) -> list[dict[str, object]]:
    """What a rule says of each session with GPU work."""
    own = rows.filter(pl.col("rule") == rule, pl.col("numbers").is_not_null())
    return list(own.iter_rows(named=True))


@pytest.mark.parametrize("name", RECORDINGS)
def test_synchronous_copies_and_sets(name: str) -> None:
    rows = nsight_findings(name)
    assert nsight_table(name, "cuda_memcpy_sync") == nsight_table(name, "cuda_memset_sync") == []
    for row in sessions(rows, "T8"):
        assert (row["state"], figures(row)["calls"]) == ("clean", 0)
    states = rows.filter(pl.col("rule") == "T9", ~pl.col("reason").str.contains("no GPU activities"))["state"]
    assert set(states) == {"clean"}


@pytest.mark.parametrize("name", RECORDINGS)
def test_asynchronous_copies_of_pageable_memory(name: str) -> None:
    # Each copy of a capture with several processes stands there twice.
    theirs = {(int(row[1]), int(row[0])) for row in nsight_table(name, "cuda_memcpy_async")}
    rows = nsight_findings(name)
    assert sum(figures(row)["copies"] for row in sessions(rows, "T7")) >= len(theirs)
    ours = {(row["start_ns"], row["duration_ns"]) for row in evidence(rows, "T7")}
    longest = sorted(theirs, key=lambda copy: -copy[1])[:10]
    assert {copy[1] for copy in longest} <= {duration for _, duration in ours}


@pytest.mark.parametrize("name", RECORDINGS)
def test_calls_that_wait(name: str) -> None:
    theirs = nsight_table(name, "cuda_api_sync")
    assert len(theirs) == SHOWN
    rows = nsight_findings(name)
    ours = Counter[str]()
    for row in evidence(rows, "A1"):
        ours[str(row["name"])] += int(str(row["calls"]))
    found = {str(row["session"]): figures(row)["wait_ns"] for row in sessions(rows, "A1")}
    if ours:
        for call, times in Counter(row[4].rsplit("_v", 1)[0] for row in theirs).items():
            assert ours[call] >= times
    by_process = Counter[str]()
    for row in theirs:
        by_process[row[2]] += int(row[0])
    for process, waited in by_process.items():
        session = as_shown(recording_file(f"{name}.nsys.sqlite.gz"))["sessions"].filter(pl.col("pid") == int(process))
        assert found[str(session["session"].item())] >= waited


@pytest.mark.parametrize("name", RECORDINGS)
def test_gaps_of_half_a_second(name: str) -> None:
    theirs = {(int(row[2]), int(row[1]), int(row[4])) for row in nsight_table(name, "gpu_gaps")}
    behind = evidence(nsight_findings(name), "U2")
    ours = {
        (row["start_ns"], row["gap_ns"], row["device"]) for row in behind if int(str(row["gap_ns"])) >= HALF_A_SECOND
    }
    assert ours == theirs


@pytest.mark.parametrize("name", ["ddp", "resnet50_amp"])
def test_stretches_of_low_use(name: str) -> None:
    theirs = {int(row[5]): row for row in nsight_table(name, "gpu_time_util")}
    ours = {int(str(row["device"])): row for row in evidence(nsight_findings(name), "U3")}
    assert ours.keys() == theirs.keys()
    for device, row in ours.items():
        assert row["start_ns"] == pytest.approx(int(theirs[device][3]), abs=30)
        assert row["duration_ns"] == pytest.approx(int(theirs[device][2]), abs=60)
        assert -0.051 < float(theirs[device][1]) - float(str(row["busy_pct"])) < 0.3


def test_whole_graphs_are_work() -> None:
    theirs = nsight_table("gpt_cudagraph", "gpu_time_util")
    assert [float(row[1]) for row in theirs] == [0.1]
    assert figures(of_rule(nsight_findings("gpt_cudagraph"), "U1"))["busy_pct"] > 10
