"""Several processes in one text, as ``mpirun`` writes them without a log file for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tests.loaders.nvprof.reading import read

if TYPE_CHECKING:
    from tui.model.profile import Profile

BEGIN = """\
==11== NVPROF is profiling process 11, command: ./a
==12== NVPROF is profiling process 12, command: ./b
==11== Profiling application: ./a
"""
BOTH = (
    BEGIN
    + """\
==12== Profiling application: ./b
==11== Profiling result:
==12== Profiling result:
"""
)
HEADER = "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
TRACE = (
    "   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput"
    "           Device   Context    Stream  Name\n"
)


def total(name: str, time: str, share: str = "100.00%", label: str = " GPU activities:") -> str:
    """Return one row of a summary."""
    return f"{label:>16}  {share:>7}  {time}         1  {time}  {time}  {time}  {name}\n"


def launch(name: str, start: str) -> str:
    """Return one row of a trace."""
    cells = (
        "(1 1 1)        (32 1 1)         8        0B        0B         -           -  TITAN Xp (0)         1         7"
    )
    return f"{start}  10.000us              {cells}  {name} [101]\n"


def issues_of(text: str) -> list[tuple[int | None, str]]:
    """Return process and name of each row of a summary or trace, in the order of the lines."""
    profile = read(text.encode())
    rows = [
        profile[frame].select("session", pl.col("name").cast(pl.String), "line") for frame in ("summary", "activities")
    ]
    named = pl.concat(rows).sort("line").join(profile["sessions"].select("session", "pid"), on="session", how="left")
    return named.sort("line").select("pid", "name").rows()


def warning_lines(text: str) -> list[int]:
    """Return the lines of warnings about an unknown process."""
    profile: Profile = read(text.encode())
    return (
        profile["issues"]
        .filter(pl.col("reason").str.contains("may belong to another process|its process is unknown"))["line"]
        .to_list()
    )


def test_a_table_below_its_process_result_is_certain() -> None:
    text = (
        BEGIN
        + "==11== Profiling result:\n" + HEADER + total("one", "10.000us")
        + "==12== Profiling application: ./b\n==12== Profiling result:\n" + HEADER + total("two", "20.000us")
    )  # fmt: skip
    assert issues_of(text) == [(11, "one"), (12, "two")]
    assert warning_lines(text) == []


def test_two_results_before_two_tables_are_matched_with_a_warning() -> None:
    text = BOTH + HEADER + total("one", "10.000us") + HEADER + total("two", "20.000us")
    assert issues_of(text) == [(12, "one"), (11, "two")]
    assert warning_lines(text) == [7, 9]
    assert "processes 11 and 12" in read(text.encode())["issues"]["reason"][0]


def test_two_results_before_two_traces() -> None:
    text = BOTH + TRACE + launch("one", "100.00ms") + TRACE + launch("two", "100.00ms")
    assert issues_of(text) == [(12, "one"), (11, "two")]
    assert warning_lines(text) == [7, 9]


def test_a_row_below_the_line_of_another_process_gives_a_warning() -> None:
    cut_in_two = "==12== Profiling application: ./b\n==12== Profiling result:\n"
    text = (
        BEGIN + "==11== Profiling result:\n" + HEADER + total("one", "30.000us", "60.00%")
        + cut_in_two + total("other", "20.000us", "40.00%", "") + HEADER + total("two", "20.000us")
    )  # fmt: skip
    assert [name for _, name in issues_of(text)] == ["one", "other", "two"]
    assert issues_of(text)[::2] == [(11, "one"), (12, "two")]
    assert warning_lines(text) == [9]
    trace = (
        BEGIN + "==11== Profiling result:\n" + TRACE + launch("one", "100.00ms")
        + cut_in_two + launch("other", "200.00ms") + TRACE + launch("two", "100.00ms")
    )  # fmt: skip
    assert [name for _, name in issues_of(trace)] == ["one", "other", "two"]
    assert issues_of(trace)[::2] == [(11, "one"), (12, "two")]
    assert warning_lines(trace) == [9]


def test_headings_with_the_number_of_their_process_are_followed() -> None:
    old = "Time(%)      Time     Calls       Avg       Min       Max  Name\n"
    text = (
        BEGIN
        + "==11== Profiling result:\n" + old + total("one", "10.000us", label="")
        + "==12== Profiling application: ./b\n==12== Profiling result:\n" + old + total("two", "20.000us", label="")
        + "==11== API calls:\n" + old + total("cudaFree", "30.000us", label="")
        + "==12== API calls:\n" + old + total("cudaMalloc", "40.000us", label="")
    )  # fmt: skip
    assert issues_of(text) == [(11, "one"), (12, "two"), (11, "cudaFree"), (12, "cudaMalloc")]
    assert warning_lines(text) == []


def test_a_result_that_reports_no_table_expects_none() -> None:
    text = BOTH.replace(
        "==12== Profiling result:",
        "==11== No kernels were profiled.\nNo kernels were profiled.\n==12== Profiling result:",
    )
    assert warning_lines(text + HEADER + total("two", "10.000us")) == []
