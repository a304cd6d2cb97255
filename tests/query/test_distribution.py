"""Distributions of columns: bins of numbers, counts and sums of text, and filters that keep exactly their rows."""

from __future__ import annotations

import polars as pl

from tui.model.columns import COLUMNS
from tui.query.distribution import OTHERS_LABEL, distribution, pivot
from tui.widgets.dialogs.texts import distribution_lines, pivot_lines

ROWS = pl.DataFrame(
    {
        "name": ["gemm", "copy", "gemm", None],
        "total_ns": [1_000, 2_000, 3_000, None],
        "calls": [1, 1, 2, 5],
        "stream": [8, 7, 7, 8],
    }
)


def test_texts_have_counts_and_sums() -> None:
    by_name = distribution(ROWS, COLUMNS["name"], "total_ns")
    assert by_name.summary == "3 values in 4 rows"
    assert [(bin_.label, bin_.rows, bin_.weight, bin_.query) for bin_ in by_name.bins] == [
        ("gemm", 2, 4_000, 'name="gemm"'),
        ("copy", 1, 2_000, 'name="copy"'),
        ("–", 1, None, "name=?"),
    ]
    unknown_line = distribution_lines(by_name, COLUMNS["total_ns"], 30)[2]
    assert (unknown_line[0].split(), unknown_line[1].strip()) == (["–", "1", "–"], "")
    label, bar = distribution_lines(by_name, COLUMNS["total_ns"], 30)[0]
    assert (label.split(), bar) == (["gemm", "2", "4.000", "µs"], "█" * 11)
    assert len(label + bar) == 30


def test_numbers_are_counted_in_bins() -> None:
    by_time = distribution(ROWS, COLUMNS["total_ns"], "")
    assert by_time.summary == "min 1.000 µs  p50 2.000 µs  p90 2.800 µs  p99 2.980 µs  max 3.000 µs  1 unknown"
    assert sum(bin_.rows for bin_ in by_time.bins) == 3
    assert by_time.bins[0].query == "total_ns>=1000ns total_ns<1167ns"
    assert by_time.bins[-1].query == "total_ns>=2833ns total_ns<=3000ns"
    equal_values = distribution(ROWS.head(2), COLUMNS["calls"], "total_ns").bins
    assert [(bin_.label, bin_.rows, bin_.weight) for bin_ in equal_values] == [("1 to 1", 2, 3_000)]
    all_null = distribution(ROWS.tail(1), COLUMNS["total_ns"])
    assert (all_null.summary, all_null.bins) == ("all values unknown", ())


def test_a_pivot_adds_up_in_both_directions() -> None:
    by_stream = pivot(ROWS, COLUMNS["name"], COLUMNS["stream"], "total_ns")
    assert by_stream.across == ("7", "8")
    assert [(row.label, row.sums, row.total, row.query) for row in by_stream.rows] == [
        ("gemm", (3_000, 1_000), 4_000, 'name="gemm"'),
        ("copy", (2_000, 0), 2_000, 'name="copy"'),
        ("–", (0, None), None, "name=?"),
        ("all", (5_000, 1_000), 6_000, ""),
    ]
    assert [line.split() for line in pivot_lines(by_stream, COLUMNS["total_ns"], 60)][:2] == [
        ["all", "7", "8"], ["gemm", "4.000", "µs", "3.000", "µs", "1.000", "µs"],
    ]  # fmt: skip
    assert [line.split() for line in pivot_lines(by_stream, COLUMNS["total_ns"], 60)][2:4] == [
        ["copy", "2.000", "µs", "2.000", "µs", "0", "ns"], ["–", "–", "0", "ns", "–"],
    ]  # fmt: skip
    without_rows = pivot(ROWS.clear(), COLUMNS["name"], COLUMNS["stream"], "total_ns")
    assert [(row.label, row.sums, row.total) for row in without_rows.rows] == [("all", (), 0)]
    many_streams = pl.DataFrame({"name": ["a"] * 20, "stream": range(20)})
    grouped = pivot(many_streams, COLUMNS["name"], COLUMNS["stream"])
    assert grouped.across[-1] == OTHERS_LABEL
    assert grouped.rows[0].sums == (*([1] * 12), 8)
    for width, columns in ((33, 1), (43, 1), (44, 2), (54, 2), (55, 3), (156, 12), (157, 13)):
        heading, *lines = pivot_lines(grouped, None, width)
        assert {len(line.split()) for line in lines} == {1 + 1 + columns}, "the label, the total, the columns"
        assert heading.split()[0] == (f"+{13 - columns}" if columns < 13 else "all")
        assert len({len(line) for line in (heading, *lines)}) == 1
        assert len(heading) <= width
