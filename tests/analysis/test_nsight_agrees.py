"""Findings agree with those of the rules of Nsight Systems."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from tests.corpus import oracle_file, recording_file
from tests.profiles import load_one
from tui.analysis.gpu_time.breakdown import low_utilization
from tui.analysis.gpu_time.host_calls import ApiClass, api_class
from tui.analysis.gpu_time.idle_gaps import gaps
from tui.analysis.gpu_time.overlap import overlap
from tui.analysis.ranges import ranges_by_name
from tui.model.profile import Profile

RECORDINGS = ("ddp", "gpt_cudagraph", "resnet50_amp")


def recording(name: str) -> Profile:
    return load_one(recording_file(f"{name}.nsys.sqlite.gz"))


def nsight_table(name: str, rule: str) -> list[list[str]]:
    """Return the rows of the table of a rule, cell by cell; none if it found no problem."""
    text = Path(oracle_file(f"{name}.nsys-analyze.txt")).read_text()
    section = text.split(f"({rule}):", 1)[1].split("\n ** ", 1)[0]
    if "\n ----" not in section:
        return []
    lines = re.split(r"\n [- ]+\n", section)[-1].split("\n\n")[0].splitlines()
    return [line.replace(",", "").split() for line in lines]


@pytest.mark.parametrize("name", RECORDINGS)
def test_gaps_of_half_a_second(name: str) -> None:
    gap_rows = gaps(recording(name)).filter(pl.col("duration_ns") >= 500_000_000)
    expected = [(int(row[1]), int(row[2]), int(row[4])) for row in nsight_table(name, "gpu_gaps")]
    assert gap_rows.select("duration_ns", "start_ns", "device").rows() == expected
    assert len(expected) == {"ddp": 3, "gpt_cudagraph": 0, "resnet50_amp": 1}[name]


@pytest.mark.parametrize("name", RECORDINGS)
def test_intervals_of_low_use(name: str) -> None:
    profile = recording(name)
    # Nsight's rule does not count whole graphs, and counts overlapping work twice.
    without_graphs = profile["activities"].filter(pl.col("kind") != "graph")
    low_use = low_utilization(Profile({**profile.frames, "activities": without_graphs}, profile.sources), 50)
    end_ns = pl.col("start_ns") + pl.col("duration_ns")
    nsight_rows = {int(row[5]): row for row in nsight_table(name, "gpu_time_util")}
    assert low_use.height == len(nsight_rows)
    for session, device, start, duration in low_use.select("session", "device", "start_ns", "duration_ns").iter_rows():
        row = nsight_rows[device]
        assert start == pytest.approx(int(row[3]), abs=30)
        assert duration == pytest.approx(int(row[2]), abs=60)
        contained = without_graphs.filter(
            pl.col("session") == session, pl.col("start_ns") >= start, end_ns <= start + duration
        )
        assert 100 * contained["duration_ns"].sum() / duration == pytest.approx(float(row[1]), abs=0.051)


def calls_of_classes(profile: Profile, *classes: ApiClass) -> pl.DataFrame:
    names = [name for name in profile["api_calls"]["name"].unique() if api_class(name) in classes]
    return profile["api_calls"].filter(pl.col("name").cast(pl.String).is_in(names))


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_longest_synchronizing_calls(name: str) -> None:
    expected = [(int(row[0]), int(row[1]), int(row[3]), row[4]) for row in nsight_table(name, "cuda_api_sync")]
    # Nsight's rule does not report waits for events, which it recommends.
    waiting = calls_of_classes(recording(name), ApiClass.SYNC).filter(
        ~pl.col("name").cast(pl.String).str.contains("Event")
    )
    longest = waiting.sort("duration_ns", descending=True).head(len(expected))
    assert len(expected) == 50
    assert longest.select("duration_ns", "start_ns", "tid").rows() == [row[:3] for row in expected]
    assert [row[3].rsplit("_v", 1)[0] for row in expected] == longest["name"].cast(pl.String).to_list()


@pytest.mark.parametrize("name", RECORDINGS)
def test_no_memcpy_or_memset_is_synchronous(name: str) -> None:
    calls = calls_of_classes(recording(name), ApiClass.COPY)["name"].cast(pl.String).unique().to_list()
    assert nsight_table(name, "cuda_memcpy_sync") == nsight_table(name, "cuda_memset_sync") == []
    assert calls
    assert all("Async" in call for call in calls)


@pytest.mark.parametrize("name", RECORDINGS)
def test_copies_from_pageable_memory(name: str) -> None:
    rows = nsight_table(name, "cuda_memcpy_async")
    expected = {(int(row[0]), int(row[1]), float(row[4])) for row in rows}
    profile = recording(name)
    is_pageable = (pl.col("src_memory") == "pageable") | (pl.col("dst_memory") == "pageable")
    copies = profile["activities"].filter(is_pageable).sort("duration_ns", "start_ns", descending=True)
    copy_rows = copies.select("duration_ns", "start_ns", (pl.col("size_bytes") / 1e6).round(3)).rows()
    assert expected <= set(copy_rows)
    assert {row[0] for row in copy_rows[: len(expected)]} == {row[0] for row in expected}


def test_nccl_functions_and_their_gpu_time() -> None:
    """The recipes nccl_sum (calls, CPU time) and nccl_gpu_proj_sum (GPU time, for calls with one kernel each)."""
    totals = (
        ranges_by_name(recording("ddp"))
        .filter(pl.col("name").cast(pl.String).is_in(["ncclAllReduce", "ncclBroadcast"]))
        .group_by(pl.col("name").cast(pl.String))
        .agg(pl.col("calls", "total_ns", "range_gpu_ns").sum())
        .sort("name")
    )
    assert totals.rows() == [
        ("ncclAllReduce", 66, 3_069_477, 58_021_211),
        ("ncclBroadcast", 10, 3_852_390, 5_808_047),
    ]


def test_shares_of_communication_and_compute() -> None:
    """The recipe nccl_gpu_time_util_map: percent of the tenth of the time in which all kernels of a rank run."""
    bin_ns = 1_448_807_536
    used = overlap(recording("ddp")).select((pl.col("kernels_ns", "comm_ns", "compute_ns") * 100 / bin_ns).round(1))
    assert used.rows() == [(4.2, 2.5, 2.0), (3.5, 1.9, 2.0)]
