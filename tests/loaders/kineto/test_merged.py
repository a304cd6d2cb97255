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
