"""Rates missing from the input are computed from size and duration, for any format."""

from __future__ import annotations

import polars as pl

from tui.loaders.collector import Collector


def test_a_missing_rate_is_computed_from_size_and_duration() -> None:
    rows = [
        ("memcpy", 0, 1_000, 4_096, None),
        ("memset", 1, 500, 250, None),
        ("um", 2, 100, 1, None),
        ("memcpy", 3, 1_000, 4_096, 5.0),
        ("memcpy", 4, 0, 4_096, None),
        ("memcpy", 5, None, 4_096, None),
        ("memcpy", 6, 10, None, None),
        ("kernel", 7, 10, 64, None),
    ]
    schema = {"kind": pl.String, "start_ns": pl.Int64, "duration_ns": pl.Int64, "size_bytes": pl.Int64}
    collector = Collector("a.db")
    collector.open_session("dlprof-database", None)
    collector.add_frame("activities", pl.DataFrame(rows, schema={**schema, "throughput": pl.Float64}, orient="row"))
    rates = collector.profile()["activities"]["throughput"].to_list()
    assert rates == [4_096e6, 500e6, 10e6, 5.0, None, None, None, None]
