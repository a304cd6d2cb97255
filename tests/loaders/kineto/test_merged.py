"""Traces of several ranks merged into one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.loaders.kineto.traces import PROCESS, call, event, flow, kernel, op, read, texts

if TYPE_CHECKING:
    from tests.loaders.kineto.traces import Event


def rank(label: str, first: float) -> list[Event]:
    """Return events of a rank, with the same ids as every other rank."""
    listed = [
        event("user_annotation", "ProfilerStep#1", first, 100),
        op(f"op of {label}", first + 10, 20, Sequence_number=3),
        call(7, first + 15),
        kernel(7, first + 40, name=f"kernel of {label}"),
        op("MmBackward0", first + 50, 20, Sequence_number=3, Fwd_thread_id=PROCESS),
        flow("s", 1, first + 10),
        flow("f", 1, first + 50),
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "ts": 0, "args": {"labels": "GPU 0"}},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "x", "ts": 0, "dur": 1},
    ]
    return [{**row, "pid": f"[{label}] {row['pid']}"} for row in listed]


def test_each_rank_is_a_session_with_separate_ids() -> None:
    profile = read([*rank("TP00", 0), *rank("TP01", 5)], distributedInfo={"rank": 0, "world_size": 2})
    assert profile["sessions"].select("rank", "world_size", "pid").rows() == [(0, 2, PROCESS), (1, 2, PROCESS)]
    assert profile["activities"].select(pl.col("session", "op", "iteration", "device")).rows() == [
        (0, 0, 1, 0),
        (1, 2, 1, 0),
    ]
    assert texts(profile, "activities", "name") == ["kernel of TP00", "kernel of TP01"]
    assert texts(profile, "activities", "op_join") == ["launch", "launch"]
    assert profile["ops"].select("op", "forward").rows() == [(0, None), (1, 0), (2, None), (3, 2)]
    assert profile["issues"].select("session", "reason").rows() == [
        (0, "the file has several ranks, one session each: this is `TP00`"),
        (1, "the file has several ranks, one session each: this is `TP01`"),
    ]


@pytest.mark.parametrize("label", ["TP00-DP01", "Unknown"])
def test_a_label_without_a_rank_gives_no_rank(label: str) -> None:
    profile = read(rank(label, 0), distributedInfo={"rank": 3})
    assert profile["sessions"]["rank"].to_list() == [None]
    assert texts(profile, "activities", "op_join") == ["launch"]


def test_events_of_processes_without_a_rank_are_reported() -> None:
    unranked = [op("op of no rank", 0, 5), kernel(9, 3)]
    profile = read([*rank("TP00", 10), *unranked])
    assert profile["activities"].height == 1
    assert profile["issues"].filter(pl.col("severity") == "warning").select("session", "reason").rows() == [
        (0, "2 events skipped: the file has several ranks, and their process names none")
    ]


@pytest.mark.parametrize("second", [PROCESS + 1, "rank1 of job"], ids=["number", "text"])
def test_ids_of_two_processes_link_nothing(second: object) -> None:
    first = [op("a", 10, 20, External_id=5), call(7, 15), call(8, 16), kernel(7, 40), kernel(8, 50, External_id=5)]
    listed = [row for row in first if row["cat"] != "kernel"]
    other = [{**row, "pid": second, "name": row["name"].replace("a", "b"), "ts": row["ts"] + 100} for row in listed[:2]]
    profile = read([*first, *other, kernel(7, 140)])
    assert profile["activities"].select("start_ns", "op", pl.col("op_join").cast(pl.String)).rows() == [
        (30_000, None, "launch not recorded"),
        (40_000, 0, "launch"),
        (130_000, None, "launch not recorded"),
    ]
    assert profile["api_calls"]["correlation"].to_list() == [None, 8, None]
    assert profile["issues"].filter(pl.col("severity") == "warning")["reason"].to_list() == [
        "2 API calls not linked to GPU work: several processes in the file use the same correlation ids; "
        "open one trace for each process"
    ]


@pytest.mark.parametrize("second", [1_000_000, "rank1_0"], ids=["number", "text"])
def test_gpus_of_ranks_merged_into_one_number_are_reported(second: object) -> None:
    other = {**kernel(2, 43), "pid": second}
    profile = read([kernel(1, 40), other])
    assert profile["issues"].filter(pl.col("severity") == "warning")["reason"].to_list() == [
        "several processes of the file have work on GPU 0, as if ranks were merged into one file: their GPUs count as "
        "one, so its busy and idle times are wrong; open the traces of the ranks instead"
    ]
    for single in (
        {**other, "args": {**other["args"], "device": 1}},
        {**other, "args": {**other["args"], "stream": 9}},
    ):
        assert read([kernel(1, 40), single])["issues"].is_empty()
