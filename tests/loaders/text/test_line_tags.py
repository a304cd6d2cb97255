"""What job runners and containers write in front of every line, before the tables of other tools than nvprof."""

from __future__ import annotations

import pytest

from tests.loaders.nsys_stats.test_sums import KERN_2023
from tests.loaders.nsys_stats.test_text import KERNELS, OLD
from tests.loaders.reading import read, reasons, rows

SUMMARY = ("section", "name", "calls", "total_ns", "avg_ns", "line")
TAGS = ("2024-05-03T10:11:12.{:09}Z ", "[1,0]<stdout>:", "0: ", "trainer-1  | ", "[rank0]: ", "> ")


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("output", [0, 3000])
@pytest.mark.parametrize("report", [KERNELS, OLD, KERN_2023])
def test_reports_behind_a_tag_are_what_they_are_without(report: str, output: int, tag: str) -> None:
    text = "loss 0.5 of many, step by step\n" * output + report
    plain = read(text)
    tagged = read("".join(f"{tag.format(at)}{line}\n" for at, line in enumerate(text.splitlines())))
    assert plain["summary"].height > 0
    assert rows(tagged, "summary", *SUMMARY) == rows(plain, "summary", *SUMMARY)
    assert reasons(tagged) == reasons(plain)


def test_lines_of_another_process_between_are_left_out_and_reported() -> None:
    first, second = KERNELS.splitlines(), KERNELS.replace("3,000,000", "5,000,000").splitlines()
    both = [f"{rank}: {line}" for pair in zip(first, second, strict=True) for rank, line in enumerate(pair)]
    profile = read("\n".join((*both, "")))
    assert rows(profile, "summary", "total_ns") == [(3_000_000,), (1_000_000,)]
    (reported,) = reasons(profile, "warning")
    assert reported.startswith(f"{len(second)} lines of other processes (by their tags) were left out")
