"""Layouts that few logs have: each a small log of our own, its figures counted by hand."""

from __future__ import annotations

import json

import pytest

from tests.loaders.nvprof.reading import issues, read, summary

OLD = "Time(%)      Time     Calls       Avg       Min       Max  Name"
NEW = "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name"
RUN = [
    "==5== NVPROF is profiling process 5, command: ./a",
    "==5== Profiling application: ./a",
    "==5== Profiling result:",
]
SUMMARY = [
    *RUN,
    NEW,
    " GPU activities:   90.00%  125.70us         5  25.139us  25.088us  25.281us  kern(int)",
    "                   10.00%  13.700us         1  13.700us  13.700us  13.700us  [CUDA memset]",
    "      API calls:  100.00%  30.000us         3  10.000us  5.0000us  15.000us  cudaMalloc",
]
CSV = [
    *RUN,
    '"Time(%)","Time","Calls","Avg","Min","Max","Name"',
    "%,us,,us,us,us,",
    '89.728410,172.790000,6,28.798000,2.330000,111.687000,"[CUDA memcpy HtoD]"',
    '10.271590,19.780000,1,19.780000,19.780000,19.780000,"kern(int, float)"',
]


def lines(*parts: str) -> bytes:
    return "\n".join((*parts, "")).encode()


def notebook(output: list[str]) -> list[str]:
    cell = {"cell_type": "code", "outputs": [{"name": "stdout", "text": [f"{line}\n" for line in output]}]}
    return json.dumps({"cells": [{"cell_type": "markdown", "source": ["# Runs\n"]}, cell]}, indent=1).split("\n")


@pytest.mark.parametrize("whole", [True, False])
def test_a_notebook_holds_a_line_as_a_json_string(whole: bool) -> None:
    text = notebook(CSV)
    start = next(number for number, line in enumerate(text) if "NVPROF is" in line)
    profile = read(lines(*(text if whole else text[start:])))
    first = start if whole else 0
    assert summary(profile, "section", "name", "calls", "total_ns", "line") == [
        ("gpu", "[CUDA memcpy HtoD]", 6, 172_790, first + 6),
        ("gpu", "kern(int, float)", 1, 19_780, first + 7),
    ]
    assert profile["sessions"].select("pid", "command").rows() == [(5, "./a")]


def test_a_notebook_in_one_line_is_told_not_guessed() -> None:
    profile = read(json.dumps({"cells": [{"outputs": [{"text": "\n".join(SUMMARY)}]}]}).encode())
    assert (profile["summary"].height, issues(profile)) == (0, [(1, "warning")])
    assert profile["sessions"]["command"].to_list() == ["./a"]
