"""Findings of Nsight Systems' own rules in a recording are found here, too."""

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
    ours = gaps(recording(name)).filter(pl.col("duration_ns") >= 500_000_000)
    theirs = [(int(row[1]), int(row[2]), int(row[4])) for row in nsight_table(name, "gpu_gaps")]
    assert ours.select("duration_ns", "start_ns", "device").rows() == theirs
    assert len(theirs) == {"ddp": 3, "gpt_cudagraph": 0, "resnet50_amp": 1}[name]


@pytest.mark.parametrize("name", RECORDINGS)
def test_intervals_of_low_use(name: str) -> None:
    whole = recording(name)
    # Nsight's rule does not count whole graphs as work, and counts what overlaps twice.
    single = whole["activities"].filter(pl.col("kind") != "graph")
    found = low_utilization(Profile({**whole.frames, "activities": single}, whole.sources))
    ends = pl.col("start_ns") + pl.col("duration_ns")
    theirs = {int(row[5]): row for row in nsight_table(name, "gpu_time_util")}
    assert found.height == len(theirs)
    for session, device, start, duration in found.select("session", "device", "start_ns", "duration_ns").iter_rows():
        row = theirs[device]
        assert start == pytest.approx(int(row[3]), abs=30)
        assert duration == pytest.approx(int(row[2]), abs=60)
        inside = single.filter(pl.col("session") == session, pl.col("start_ns") >= start, ends <= start + duration)
        assert 100 * inside["duration_ns"].sum() / duration == pytest.approx(float(row[1]), abs=0.051)


def waiting_calls(profile: Profile, *classes: ApiClass) -> pl.DataFrame:
    names = [name for name in profile["api_calls"]["name"].unique() if api_class(name) in classes]
    return profile["api_calls"].filter(pl.col("name").cast(pl.String).is_in(names))


@pytest.mark.parametrize("name", RECORDINGS)
def test_calls_that_wait(name: str) -> None:
    theirs = [(int(row[0]), int(row[1]), int(row[3]), row[4]) for row in nsight_table(name, "cuda_api_sync")]
    # To wait for an event is what Nsight's rule advises, not what it finds.
    waiting = waiting_calls(recording(name), ApiClass.SYNC).filter(
        ~pl.col("name").cast(pl.String).str.contains("Event")
    )
    ours = waiting.sort("duration_ns", descending=True).head(len(theirs))
    assert len(theirs) == 50
    assert ours.select("duration_ns", "start_ns", "tid").rows() == [row[:3] for row in theirs]
    assert [row[3].rsplit("_v", 1)[0] for row in theirs] == ours["name"].cast(pl.String).to_list()


@pytest.mark.parametrize("name", RECORDINGS)
def test_no_memcpy_or_memset_is_synchronous(name: str) -> None:
    found = waiting_calls(recording(name), ApiClass.COPY)["name"].cast(pl.String).unique().to_list()
    assert nsight_table(name, "cuda_memcpy_sync") == nsight_table(name, "cuda_memset_sync") == []
    assert found
    assert all("Async" in call for call in found)


@pytest.mark.parametrize("name", RECORDINGS)
def test_copies_from_pageable_memory(name: str) -> None:
    rows = nsight_table(name, "cuda_memcpy_async")
    theirs = {(int(row[0]), int(row[1]), float(row[4])) for row in rows}
    profile = recording(name)
    pageable = (pl.col("src_memory") == "pageable") | (pl.col("dst_memory") == "pageable")
    ours = profile["activities"].filter(pageable).sort("duration_ns", "start_ns", descending=True)
    found = ours.select("duration_ns", "start_ns", (pl.col("size_bytes") / 1e6).round(3)).rows()
    assert theirs <= set(found)
    assert {row[0] for row in found[: len(theirs)]} == {row[0] for row in theirs}
