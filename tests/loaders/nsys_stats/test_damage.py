"""Any damage of a report: no exception is raised, and complete rows keep their figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loaders.reading import read, reasons, rows
from tui.model.errors import ProftuiError

HEADER = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
ROWS = [f'1.0,{1000 + n},{n},3.0,3.0,1,{n},2.6,"void k{n}<int, {n}>(int*)"' for n in range(1, 31)]
TEXT_HEADER = " Time (%)  Total Time (ns)  Instances  Avg (ns)  Min (ns)  Max (ns)  Name            "
RULE = " --------  ---------------  ---------  --------  --------  --------  ----------------"
TEXT_ROWS = [f"      1.0  {1000 + n:>15}  {n:>9}       3.0         1  {n:>8}  void k{n}(int*)" for n in range(1, 31)]

GARBAGE = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\x0b\x0c\x85\u2028\u2029"), max_size=120
)


def figures(text: str) -> dict[int, tuple[object, ...]]:
    """Return the rows read, by line."""
    try:
        profile = read(text)
    except ProftuiError:
        return {}
    return {line: row for line, *row in rows(profile, "summary", "line", "total_ns", "calls", "name")}


@given(st.integers(0, 29), GARBAGE)
def test_a_garbage_line_affects_no_other_row(position: int, garbage: str) -> None:
    for header, table in (([HEADER], ROWS), ([TEXT_HEADER, RULE], TEXT_ROWS)):
        intact = figures("\n".join((*header, *table)))
        damaged = figures("\n".join((*header, *table[:position], garbage, *table[position + 1 :])))
        line = len(header) + 1 + position
        assert {row_line: row for row_line, row in damaged.items() if row_line != line} == {
            row_line: row for row_line, row in intact.items() if row_line != line
        }


@given(st.integers(0, 3000), st.sampled_from(["csv", "text"]))
def test_a_truncated_text_keeps_the_rows_above(length: int, kind: str) -> None:
    lines = [HEADER, *ROWS] if kind == "csv" else [TEXT_HEADER, RULE, *TEXT_ROWS]
    text = "\n".join(lines)
    truncated = text[:length]
    rows_read = figures(truncated)
    complete = truncated.count("\n")
    expected = {line: row for line, row in figures(text).items() if line <= complete}
    assert {line: row for line, row in rows_read.items() if line <= complete} == expected


def test_damaged_rows_are_reported_with_their_line() -> None:
    lines = [HEADER, *ROWS[:5]]
    lines[2] = lines[2][: lines[2].index("3.0")]
    lines[4] = lines[4].replace('"void', "void", 1).replace('>(int*)"', '>(int*)"')
    lines[5] = lines[5].replace("1005", "10x5")
    profile = read("\n".join(lines))
    assert rows(profile, "summary", "line", "total_ns") == [(2, 1001), (4, 1003), (6, None)]
    issues = profile["issues"].filter(severity="warning").sort("line")
    assert issues["line"].to_list() == [3, 5, 6]
    assert reasons(profile, "warning")[0].startswith("not a number in the column 'totaltime'") or len(issues) == 3


def test_a_missing_quotation_mark_affects_one_row() -> None:
    lines = [HEADER, *ROWS]
    lines[10] = lines[10][:-1]
    profile = read("\n".join(lines))
    assert profile["summary"]["line"].to_list() == [line for line in range(2, 32) if line != 11]
    assert reasons(profile, "warning") == ["unclosed quotation mark: row skipped"]


def test_a_name_can_hold_line_ends() -> None:
    profile = read("\n".join([HEADER, ROWS[0], '1.0,5,1,3.0,3.0,1,1,2.6,"forward', 'pass, ""one"""', ROWS[1]]))
    assert rows(profile, "summary", "name", "total_ns", "line")[1] == ('forward\npass, "one"', 5, 3)
    assert profile["summary"]["line"].to_list() == [2, 3, 5]


def test_impossible_numbers_are_unknown() -> None:
    huge = "9" * 40
    profile = read("\n".join([HEADER, f"1.0,{huge},99999999999999999999999,nan,inf,-,N/A,1e400,k", ROWS[0]]))
    assert rows(profile, "summary", "total_ns", "calls", "avg_ns", "max_ns", "std_ns")[0] == (
        None,
        None,
        None,
        None,
        None,
    )
    assert profile["summary"].height == 2
    assert reasons(profile, "warning")


def test_a_header_without_rows_is_an_empty_session() -> None:
    assert read(HEADER)["summary"].is_empty()


@pytest.mark.parametrize("text", ["Time (%),Total Time (ns)\n", "Processing [a.sqlite] with [x.py]...\n"])
def test_the_name_of_a_report_alone_is_not_a_profile(text: str) -> None:
    with pytest.raises(ProftuiError, match="no profile found"):
        read(text)


def test_repeated_headers_are_one_table() -> None:
    profile = read("\n".join([*[HEADER] * 500, *ROWS[:3], HEADER, HEADER, *ROWS[3:5]]))
    assert rows(profile, "summary", "session", "line") == [(0, 501), (0, 502), (0, 503), (1, 506), (1, 507)]


def test_two_rows_without_their_quotation_marks_are_not_joined() -> None:
    lines = [HEADER, *ROWS[:5]]
    lines[2], lines[3] = lines[2][:-1], lines[3][:-1]
    profile = read("\n".join(lines))
    assert rows(profile, "summary", "line", "total_ns") == [(2, 1001), (5, 1004), (6, 1005)]
    assert profile["issues"].filter(severity="warning")["line"].to_list() == [3, 4]
