"""Pages of Nsight Compute that hold less than others, and text around them."""

from __future__ import annotations

from tests.loaders.ncu.test_ncu_csv import LAUNCH, PAGE, RAW, SHORT, SUMMARY
from tests.loaders.nsys_stats.test_sums import KERN_2023
from tests.loaders.reading import read, reasons, rows


def test_a_header_that_is_printed_again_is_one_page() -> None:
    header = next(line for line in PAGE.splitlines() if line.startswith('"ID"'))
    assert read(PAGE.replace(header, f"{header}\n{header}"))["activities"].height == 2


def test_text_for_people_beside_another_profile_is_told() -> None:
    profile = read("==PROF== Connected to process 77 (/home/me/app)\n  f (1, 1, 1)x(1, 1, 1)\n" + KERN_2023)
    assert profile["summary"].height == 1
    assert "this is text of Nsight Compute (ncu) without a table in CSV: it was not read" in reasons(profile)


def test_a_summary_without_durations_has_metrics_alone() -> None:
    profile = read(SUMMARY.replace('"Duration"', '"Another Time"'))
    assert profile["summary"].is_empty()
    assert profile["metrics"].height > 0


def test_columns_that_no_known_page_has_are_told() -> None:
    profile = read(SHORT.replace("\n", ',"Of Tomorrow"\n') + '"0","k","gpu__time_duration.sum","nsecond","500","x"\n')
    assert rows(profile, "activities", "duration_ns") == [(500,)]
    assert "columns that no known page has: they are in the log alone" in reasons(profile)


def test_a_table_of_launches_without_metrics_is_no_page() -> None:
    profile = read(f"{LAUNCH}\n" + RAW)
    assert profile["activities"].height == 2
