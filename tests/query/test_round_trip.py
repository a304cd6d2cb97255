from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.query.tables import COLUMNS, FRAME, TABLE
from tui.model.columns import Column, ColumnKind
from tui.model.table_spec import TableState
from tui.query.apply import apply
from tui.query.compile import compile_query
from tui.query.parse import equals_filter, narrow, parse, plain_pattern, query_text, quote
from tui.query.values import And, Compare, Contains, Fuzzy, MatchAll, Node, Not, Operator, Or, Regex

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
AWKWARD = st.one_of(
    TEXT,
    st.text('ab "\\/|!()[]{}<>=~:?.*^$\n\t\r\x1b\x00&,;ıİßé🧨\u200b\u2028', max_size=20),
    st.sampled_from(
        ["?", "unknown", "", " ", "\\", '"', '\\"', "[bold]x[/bold]", "a[i] = b[/x]", "ms", "k", "1..2", "!a", "~a"]
    ),
    st.sampled_from([name for name in FRAME["name"].cast(pl.String) if name]),
)


COLUMN_NAMES = st.one_of(st.sampled_from(["name", "total_ns", "Time%"]), AWKWARD.filter(bool))
PLAIN_VALUES = st.from_regex(r"[\w.%+:=~<>!?/*-]([\w.%+:=~<>!?/*-]|\([\w ]*\)){0,8}", fullmatch=True)
PATTERNS = st.from_regex(r"([^\\]|\\[^\r\n]){0,10}", fullmatch=True).map(plain_pattern)
TERMS: st.SearchStrategy[Node] = st.one_of(
    st.builds(Contains, AWKWARD),
    st.builds(Fuzzy, AWKWARD),
    st.builds(Regex, PATTERNS, st.one_of(st.just(""), COLUMN_NAMES)),
    st.builds(Compare, COLUMN_NAMES, st.sampled_from(Operator), PLAIN_VALUES, st.just(False)),
    st.builds(Compare, COLUMN_NAMES, st.sampled_from(Operator), AWKWARD, st.just(True)),
)


def _operators(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    operands = st.lists(nodes, min_size=2, max_size=4).map(tuple)
    return st.one_of(st.builds(Not, nodes), st.builds(And, operands), st.builds(Or, operands))


NODES = st.recursive(TERMS, _operators, max_leaves=8)


@given(NODES)
def test_a_formatted_query_parses_to_the_same_tree(node: Node) -> None:
    assert parse(query_text(node)) == node


def test_the_empty_query() -> None:
    assert query_text(MatchAll()) == ""
    assert parse("") == MatchAll()


@given(TEXT | AWKWARD)
def test_any_text_can_be_quoted_on_one_line(text: str) -> None:
    assert parse(quote(text)) == Contains(text)
    assert len(quote(text).splitlines()) == 1


@pytest.mark.parametrize("dtype", [pl.String(), pl.Categorical()])
@given(names=st.lists(st.one_of(st.none(), AWKWARD), min_size=1, max_size=8))
def test_the_filter_made_from_a_name_matches_that_name(dtype: pl.DataType, names: list[str | None]) -> None:
    names += [name.swapcase() for name in names if name]
    frame = pl.DataFrame({"name": pl.Series(names, dtype=dtype)})
    for name in set(names):
        text = equals_filter("name", name, ColumnKind.SYMBOL)
        expected = [other == name for other in names]
        assert compile_query(text, columns=COLUMNS, frame=frame).mask(frame).to_list() == expected
        negated = compile_query(f"!{text}", columns=COLUMNS, frame=frame).mask(frame).to_list()
        assert negated == [not is_match for is_match in expected]


KINDS = [kind for kind in ColumnKind if kind not in (ColumnKind.TEXT, ColumnKind.SYMBOL, ColumnKind.FLAG)]


@pytest.mark.parametrize("kind", KINDS)
@given(values=st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3)), min_size=1))
def test_the_filter_made_from_an_integer_matches_it(kind: ColumnKind, values: list[int | None]) -> None:
    column = Column("a b", "A", kind, "")
    frame = pl.DataFrame({"a b": values}, schema={"a b": pl.Int64})
    for value in values:
        query = compile_query(equals_filter("a b", value, kind), columns=[column], frame=frame, units={"a b": "auto"})
        assert query.mask(frame).to_list() == [other == value for other in values]


@pytest.mark.parametrize("kind", KINDS)
@given(values=st.lists(st.one_of(st.none(), st.floats()), min_size=1, max_size=8))
def test_the_filter_made_from_a_float_matches_it(kind: ColumnKind, values: list[float | None]) -> None:
    column = Column("throughput", "Rate", kind, "")
    frame = pl.DataFrame({"throughput": values}, schema={"throughput": pl.Float64})
    known = [None if value is None or math.isnan(value) else value for value in values]
    for value in values:
        query = compile_query(equals_filter("throughput", value, kind), columns=[column], frame=frame)
        searched = None if value is None or math.isnan(value) else value
        assert query.mask(frame).to_list() == [other == searched for other in known]


@pytest.mark.parametrize(("value", "text"), [(True, "tc=yes"), (False, "tc=no"), (None, "tc=?")])
def test_the_filter_made_from_a_flag(value: bool | None, text: str) -> None:
    assert equals_filter("tc", value, ColumnKind.FLAG) == text
    query = compile_query(text, columns=COLUMNS, frame=FRAME)
    assert query.mask(FRAME).to_list() == [flag == value for flag in FRAME["uses_tensor_core"]]


@pytest.mark.parametrize("row", range(FRAME.height))
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_the_filter_made_from_a_cell_matches_its_row(row: int, column: Column) -> None:
    text = equals_filter(column.name, FRAME[column.name][row], column.kind)
    applied = apply(FRAME, TABLE, TableState(filter=text))
    assert applied.error is None
    assert applied.rows is not None
    assert row in applied.rows.to_list()


@pytest.mark.parametrize(
    ("text", "term", "expected"),
    [
        ("", "a=1", "a=1"),
        ("  ", "a=1", "a=1"),
        ("gemm", "!a=1", "gemm !a=1"),
        (" gemm conv ", "a=1", "gemm conv a=1"),
        ("gemm | conv", "a=1", "(gemm | conv) a=1"),
        ("(gemm | conv)", "a=1", "((gemm | conv)) a=1"),
    ],
)
def test_a_filter_is_narrowed(text: str, term: str, expected: str) -> None:
    assert narrow(text, term) == expected
