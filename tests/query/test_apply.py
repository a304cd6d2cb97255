from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.query.tables import FRAME, STRINGS, TABLE, UNITS
from tui.model.columns import columns
from tui.model.table_spec import Sort, TableSpec, TableState
from tui.query.apply import Applied, apply


def apply_state(frame: pl.DataFrame = FRAME, *, filter: str = "", find: str = "", sort: Sort | None = None) -> Applied:  # noqa: A002
    return apply(frame, TABLE, TableState(filter=filter, find=find, sort=sort), units=UNITS)


def shown_ids(result: Applied, frame: pl.DataFrame = FRAME) -> list[int]:
    return result.take(frame)["id"].to_list()


def test_an_empty_query_changes_nothing() -> None:
    result = apply_state()
    assert result == Applied(rows=None, total=7, shown=7, passed=7, weight_shown_pct=100.0, matches=result.matches)
    assert result.take(FRAME) is not None
    assert shown_ids(result) == [0, 1, 2, 3, 4, 5, 6]
    assert result.take(FRAME, 2, 3)["id"].to_list() == [2, 3, 4]


def test_filter() -> None:
    result = apply_state(filter="total>1")
    assert result.rows is not None
    assert result.rows.dtype == pl.UInt32
    assert shown_ids(result) == [0, 1, 3]
    assert (result.total, result.shown, result.reading) == (7, 3, "Total > 1 ms")
    assert result.weight_shown_pct == pytest.approx(85.00001, abs=1e-9)
    assert apply_state(filter="nothing").weight_shown_pct == 0.0
    assert result.take(FRAME, 1, 1)["id"].to_list() == [1]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        # unknown last in either direction; equal values in the order of the frame
        ((("total_ns", True),), [0, 1, 3, 2, 4, 5, 6]),
        ((("total_ns", False),), [5, 4, 2, 3, 1, 0, 6]),
        ((("stream", True),), [2, 3, 0, 1, 4, 5, 6]),
        ((("stream", False),), [0, 1, 4, 2, 3, 5, 6]),
        # names alphabetically, whatever their case
        ((("name", False),), [4, 5, 3, 1, 2, 0, 6]),
        ((("name", True),), [0, 2, 1, 3, 5, 4, 6]),
        ((("kind", False), ("total_ns", True)), [0, 1, 3, 2, 4, 5, 6]),
        ((("kind", True), ("total_ns", False)), [5, 4, 2, 3, 1, 0, 6]),
        # NaN is unknown
        ((("throughput", True),), [6, 4, 0, 1, 2, 3, 5]),
        ((("throughput", False),), [4, 6, 0, 1, 2, 3, 5]),
        ((("uses_tensor_core", True),), [2, 0, 1, 3, 4, 5, 6]),
        ((("grid", False),), [0, 2, 1, 3, 4, 5, 6]),
        ((), [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_sort(sort: Sort, expected: list[int]) -> None:
    assert shown_ids(apply_state(sort=sort)) == expected
    assert shown_ids(apply_state(STRINGS, sort=sort), STRINGS) == expected


def test_names_are_sorted_without_case_and_equal_ones_stay_together() -> None:
    names = ["b", "A", "a", "B", "A", None, "a"]
    for dtype in (pl.String(), pl.Categorical(), pl.Enum(["b", "B", "a", "A"])):
        frame = pl.DataFrame({"name": pl.Series(names, dtype=dtype)})
        spec = TableSpec("t", "T", TABLE.columns, ("name",))
        ascending = apply(frame, spec, TableState(sort=(("name", False),))).take(frame)
        assert ascending["name"].to_list() == ["A", "A", "a", "a", "B", "b", None]
        descending = apply(frame, spec, TableState(sort=(("name", True),))).take(frame)
        assert descending["name"].to_list() == ["b", "B", "a", "a", "A", "A", None]


def test_filter_then_sort_then_find() -> None:
    result = apply_state(filter="kernel", sort=(("total_ns", False),), find="gemm")
    assert shown_ids(result) == [2, 3, 1, 0]
    assert result.matches.to_list() == [0, 3]
    assert result.matches.dtype == pl.UInt32
    assert result.find_reading == 'contains "gemm"'


def test_find_does_not_hide_rows() -> None:
    result = apply_state(find="kind:mem")
    assert result.rows is None
    assert result.matches.to_list() == [4, 5]
    assert apply_state(find="  ").matches.to_list() == []


def test_words_are_searched_in_visible_columns_only() -> None:
    state = TableState(filter="memcpy", hidden=frozenset({"name"}))
    assert shown_ids(apply(FRAME, TABLE, state)) == [4]
    state = TableState(filter="htod", hidden=frozenset({"name"}))
    assert shown_ids(apply(FRAME, TABLE, state)) == []
    state = TableState(filter="name:htod", hidden=frozenset({"name"}))
    assert shown_ids(apply(FRAME, TABLE, state)) == [4]


def test_a_sort_by_a_missing_column_is_ignored() -> None:
    result = apply_state(sort=(("occupancy", True), ("calls", True)))
    assert result.sort == (("calls", True),)
    assert shown_ids(result) == [4, 1, 5, 0, 2, 3, 6]


def test_the_effective_sort_order() -> None:
    spec = TableSpec("t", "T", TABLE.columns, ("name",), sort=(("total_ns", True),))
    assert apply(FRAME, spec, TableState()).sort == (("total_ns", True),)
    assert apply(FRAME, spec, TableState(sort=())).sort == ()


def test_without_weight_or_total_there_is_no_share() -> None:
    assert apply(FRAME, TableSpec("t", "T", TABLE.columns, ("name",)), TableState()).weight_shown_pct is None
    assert apply(FRAME.clear(), TABLE, TableState(filter="gemm")).weight_shown_pct is None
    unknown = FRAME.with_columns(total_ns=pl.lit(None, pl.Int64))
    assert apply(unknown, TABLE, TableState()).weight_shown_pct is None


def test_an_empty_table() -> None:
    result = apply_state(FRAME.clear(), filter="gemm", find="x", sort=(("name", True), ("total_ns", False)))
    assert (result.total, result.shown, len(result.matches)) == (0, 0, 0)
    assert result.take(FRAME.clear()).height == 0


@given(
    st.lists(st.tuples(st.sampled_from(["A", "a", "b", None]), st.one_of(st.none(), st.integers(0, 3))), max_size=12),
    st.sampled_from(["", "a", "A", "calls>1", "!a", "calls=?"]),
    st.booleans(),
    st.booleans(),
)
def test_sorting_agrees_with_python(
    rows: list[tuple[str | None, int | None]], text: str, name_descending: bool, calls_descending: bool
) -> None:
    frame = pl.DataFrame(rows, schema={"name": pl.Categorical(), "calls": pl.Int64}, orient="row")
    spec = TableSpec("t", "T", TABLE.columns, ("name",))
    sort = (("calls", calls_descending), ("name", name_descending))
    result = apply(frame, spec, TableState(filter=text, sort=sort))
    predicates = {
        "": lambda name, calls: True,
        "a": lambda name, calls: name in ("A", "a"),
        "A": lambda name, calls: name == "A",
        "calls>1": lambda name, calls: calls is not None and calls > 1,
        "!a": lambda name, calls: name not in ("A", "a"),
        "calls=?": lambda name, calls: calls is None,
    }
    kept = [row for row in rows if predicates[text](*row)]
    ranks = {"A": 0, "a": 1, "b": 2}
    for position, descending in ((0, name_descending), (1, calls_descending)):
        sign = -1 if descending else 1

        def sort_key(
            row: tuple[str | None, int | None], position: int = position, sign: int = sign
        ) -> tuple[bool, int]:
            value = row[position]
            number = ranks[value] if isinstance(value, str) else value
            return number is None, sign * (number or 0)

        kept.sort(key=sort_key)
    assert result.take(frame).rows() == kept


def test_the_share_excludes_sessions_that_are_not_additive() -> None:
    frame = pl.DataFrame({"session": [0, 0, 1, 2], "name": ["a", "b", "a", "a"], "total_ns": [30, 10, 500, 700]})
    spec = TableSpec("t", "T", columns("name", "total_ns", "session"), ("session", "name"), weight="total_ns")

    def share(text: str) -> float | None:
        return apply(frame, spec, TableState(filter=text), excluded_sessions=(1, 2)).weight_shown_pct

    assert share("name=a") == 75.0
    assert share("session=1") == 100.0
    assert share("session>0") is None
    assert share("name=none") == 0.0
    assert apply(frame, spec, TableState(filter="name=b")).weight_shown_pct == pytest.approx(100 * 10 / 1240)
