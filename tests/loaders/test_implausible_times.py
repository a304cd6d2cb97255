"""Implausible times of any format become unknown and are reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from tui.correlation.plausible_times import MAX_NS
from tui.loaders.collector import Collector

if TYPE_CHECKING:
    from tui.model.profile import Profile

YEARS_236 = 7_440_000_000_000_000_000


def read(frame: str, times: list[tuple[int | None, int | None]]) -> Profile:
    """Read a normal session and one with such starts and durations."""
    collector = Collector("a.db")
    before: list[tuple[int | None, int | None]] = [(0, 1)]
    for number, session_times in enumerate((before, times)):
        collector.open_session("nsys-sqlite", None, pid=number)
        data = pl.DataFrame(session_times, schema={"start_ns": pl.Int64, "duration_ns": pl.Int64}, orient="row")
        data = data.with_columns(line=pl.int_range(7, pl.len() + 7))
        collector.add_frame(frame, data.with_columns(throughput=1.0) if frame == "activities" else data)
    return collector.profile()


@pytest.mark.parametrize("frame", ["activities", "api_calls", "ops", "ranges"])
def test_impossible_durations_are_unknown(frame: str) -> None:
    profile = read(frame, [(0, 5), (1, -1), (2, YEARS_236), (3, MAX_NS), (4, MAX_NS + 1), (5, None)])
    assert profile[frame]["duration_ns"].to_list() == [1, 5, None, None, MAX_NS, None, None]
    (issue,) = profile["issues"].rows(named=True)
    assert (issue["session"], issue["severity"], issue["line"]) == (1, "warning", 8)
    assert "with an implausible duration" in issue["reason"]
    assert issue["reason"].endswith(": 3")


def test_a_rate_of_an_impossible_duration_is_unknown() -> None:
    assert read("activities", [(0, 5), (1, YEARS_236)])["activities"]["throughput"].to_list() == [1.0, 1.0, None]


@pytest.mark.parametrize("far", [9 * 10**18, -9 * 10**18])
@pytest.mark.parametrize("frame", ["activities", "api_calls", "ops", "ranges"])
def test_outlier_starts_of_a_session_are_unknown(frame: str, far: int) -> None:
    profile = read(frame, [(10, 1), (20, 2), (20, 2), (far, 3), (MAX_NS + 20, 4), (None, 5)])
    starts = {row["duration_ns"]: row["start_ns"] for row in profile[frame][1:].iter_rows(named=True)}
    assert starts == {1: 10, 2: 20, 3: None, 4: MAX_NS + 20, 5: None}
    assert [reason[-3:] for reason in profile["issues"]["reason"]] == [": 1"]


def test_sessions_may_be_years_apart() -> None:
    assert read("activities", [(YEARS_236, 1), (YEARS_236 + 1, 1)])["issues"].is_empty()


def test_impossible_totals_are_unknown() -> None:
    collector = Collector("a.csv")
    collector.open_session("nsys-stats", 1)
    for total in (5, YEARS_236, -1):
        collector.add("summary", {"section": "gpu", "name": "k", "calls": 1, "total_ns": total, "avg_ns": 5, "line": 3})
    profile = collector.profile()
    assert profile["summary"].select("total_ns", "avg_ns").rows() == [(5, 5), (None, 5), (None, 5)]
    (issue,) = profile["issues"].rows(named=True)
    assert (issue["line"], issue["reason"][:12], issue["reason"][-3:]) == (3, "summary rows", ": 2")
