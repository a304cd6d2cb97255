from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.query.tables import COLUMNS, FRAME, TABLE, UNITS
from tui.model.table_spec import TableState
from tui.query.apply import apply
from tui.query.compile import compile_query
from tui.query.values import QueryError


def query_error(text: str) -> QueryError:
    with pytest.raises(QueryError) as raised:
        compile_query(text, columns=COLUMNS, frame=FRAME, units=UNITS, weight="total_ns")
    return raised.value


@pytest.mark.parametrize(
    ("text", "message", "start", "end"),
    [
        ("(gemm", "missing )", 0, 1),
        ("a (b (c) ", "missing )", 2, 3),
        ("gemm)", "unexpected )", 4, 5),
        ("()", "empty ()", 1, 2),
        ("gemm |", "| needs a term on both sides", 5, 6),
        ("| gemm", "| needs a term on both sides", 0, 1),
        ("a || b", "| needs a term on both sides", 2, 3),
        ("(a | )", "| needs a term on both sides", 3, 5),
        ("gemm !", "! needs a term after it", 5, 6),
        ("~", "~ needs text after it", 0, 1),
        ("name~", "~ needs text after it", 4, 5),
        ("total>", "> needs a value after it", 5, 6),
        ("total> | a", "> needs a value after it", 5, 7),
        ('a "thread block', "missing closing quote", 2, 15),
        ('name="x', "missing closing quote", 5, 7),
        ("a /usr", 'the regex has no closing /; put text that starts with / in "quotes"', 2, 6),
        ("<float>", "< needs a column before it", 0, 1),
        ("nme:x", "no column nme; did you mean name?", 0, 3),
        ("a Duratoin>1", "no column Duratoin; numbers here: count, total, pct, device, stream, ...", 2, 10),
        ("dur>1ms", "no column dur; times here: total", 0, 3),
        ("dvce>2", "no column dvce; did you mean device?", 0, 4),
        ("vector<float>", 'no column vector; put text with : = < > ~ in "quotes"', 0, 6),
        ("stream=abc", "abc is not a number; Stream takes numbers, with k or M", 7, 10),
        ("total>1..2", "1..2 is not a number; Total takes numbers, with ns, us, ms or s", 6, 10),
        ("total>1,0", "1,0 is not a number; Total takes numbers, with ns, us, ms or s", 6, 9),
        ("total=1e9999ns", "e9999ns is not a unit of Total; use ns, us, ms or s", 6, 14),
        ("total>1KB", "KB is not a unit of Total; use ns, us, ms or s", 6, 9),
        ("a stream=7ms", "ms is not a unit of Stream; use k or M", 9, 12),
        ("total=2ms..1ms", "the range is empty: 2 ms is more than 1 ms", 6, 14),
        ("total=..", "a range needs a limit; for example 10us..2ms, 10us.. or ..2ms", 6, 8),
        ("total=1ms..x", "x is not a number; Total takes numbers, with ns, us, ms or s", 11, 12),
        ("stream>5%", "% needs a total, and Stream has none", 7, 9),
        ("name>5", 'Name is text: > compares numbers; use : = != or ~, or put the text in "quotes"', 0, 4),
        ("stream~7", "Stream is not text: ~ searches text only; use Stream with = or !=, < or >", 0, 6),
        ("tc=maybe", "TC is yes, no or ? (unknown); for example tc=yes", 3, 8),
        ("tc>yes", "TC is yes, no or ? (unknown); for example tc=yes", 0, 2),
        ("rate>?", "> compares numbers, and ? is not a number; use =? or !=?", 5, 6),
        ('stream="?"', "? is not a number; Stream takes numbers, with k or M", 7, 10),
        ("/a(/", "regex: unclosed group", 2, 3),
        ("gemm /a(?=b)/", "regex: look-around, including look-ahead and look-behind, is not supported", 7, 10),
        (r"name~^(a)\1", "regex: backreferences are not supported", 9, 11),
        ("name~[a", "regex: unclosed character class", 5, 6),
        ("name~*", "regex: repetition operator missing expression", 5, 6),
        ("~a\ud800", "incomplete character", 2, 3),
        (
            "a" * 2001,
            'the search text is limited to 2,000 characters; name="..." matches full names of any length',
            0,
            2001,
        ),
        # The pattern compiles as typed; made case-insensitive, it exceeds the limit.
        ("/[a-z]{100000}/", "regex: compiled regex exceeds size limit of 10485760 bytes", 1, 14),
        ("/(a{1000}){1000}/", "regex: compiled regex exceeds size limit of 10485760 bytes", 1, 16),
    ],
)
def test_errors_have_a_message_and_a_position(text: str, message: str, start: int, end: int) -> None:
    error = query_error(text)
    assert (str(error), error.start, error.end) == (message, start, end)
    assert error.column == start + 1


@pytest.mark.parametrize(("opened", "closed"), [("!", ""), ("(", ")"), ("!(", ")")])
def test_fifty_nested_terms_are_the_most(opened: str, closed: str) -> None:
    levels = 50 // len(opened)
    compile_query(opened * levels + "gemm" + closed * levels, columns=COLUMNS, frame=FRAME, units=UNITS)
    error = query_error(opened * levels + f"!gemm{closed * levels}")
    assert (str(error), error.start, error.end) == ("more than 50 nested parentheses or !", 50, 51)


def test_a_share_of_an_unknown_total() -> None:
    with pytest.raises(QueryError, match="% needs a total, and Total has none"):
        compile_query("total>5%", columns=COLUMNS, frame=FRAME.clear(), weight="total_ns")


def test_words_in_a_table_without_text_columns() -> None:
    frame = FRAME.select("calls")
    with pytest.raises(QueryError, match="has no text to search"):
        compile_query("gemm", columns=COLUMNS, frame=frame)


def test_an_invalid_filter_is_not_applied() -> None:
    applied = apply(FRAME, TABLE, TableState(filter="(gemm", find="/(/"))
    assert applied.rows is None
    assert applied.shown == 7
    assert applied.error is not None
    assert applied.error.message == "missing )"
    assert applied.find_error is not None
    assert applied.find_error.message == "regex: unclosed group"
    assert len(applied.matches) == 0


def assert_query_or_error(text: str) -> None:
    """Check that a text is a valid query for the table, or an error of one line with a position in it."""
    applied = apply(FRAME, TABLE, TableState(filter=text), units=UNITS)
    if applied.error is not None:
        assert 0 <= applied.error.start <= applied.error.end <= len(text)
        assert len(str(applied.error)) < 300
    else:
        assert applied.shown == (FRAME.height if applied.rows is None else len(applied.rows))


MILLION = 1_000_000

HOSTILE_QUERIES = {
    "words": "a " * (MILLION // 2),
    "one word": "a" * MILLION,
    "one word too long": "a" * (MILLION + 1),
    "open": "(" * MILLION,
    "glued open": "a(" * (MILLION // 2),
    "deep and closed": "(" * 1000 + "a" + ")" * 1000,
    "nots": "!" * MILLION,
    "nots between": "!(" * 1000 + "a" + ")" * 1000,
    "quotes": '"' * MILLION,
    "open quote": '"' + "\\" * (MILLION - 1),
    "slashes": "/" * MILLION,
    "column then blanks": "x" * 1000 + " " * (MILLION - 1000),
    "classes": "name~(" + "[a]" * 300_000,
    "open classes": "name~" + "[" * 100_000,
    "groups": "name~(" + "(a)" * 300_000,
    "nested pattern": "name~" + "(" * 100_000 + ")" * 100_000,
    "slashed nested pattern": "/" + "(" * 100_000 + ")" * 100_000 + "/",
    "repeated": "/" + "(" * 20 + "a" + "*)" * 20 + "+/",
    "alternatives": "/" + "a|" * 100_000 + "b/",
    "fuzzy": "~" + "a" * 100_000,
    "number": "total>" + "9" * 100_000,
    "exponent": "total>1e999",
    "small": "rate>1e-999",
    "long column": "x" * 100_000 + "=1",
    "null bytes": "\0" * 1000,
    "escapes": "\x1b[31m" * 1000,
    "wide": "🧨" * 1000,
    "surrogates": "\ud800" * 10,
    "either": " | ".join(["a"] * 1500),
}


@pytest.mark.parametrize("name", HOSTILE_QUERIES)
def test_hostile_queries_end_quickly(name: str) -> None:
    start_s = time.process_time()
    assert_query_or_error(HOSTILE_QUERIES[name])
    assert time.process_time() - start_s < 20


QUERY_TEXTS = st.lists(
    st.one_of(
        st.sampled_from(
            ["(", ")", "|", "!", "~", '"', "/", ":", "=", "!=", "<", ">=", " ", "..", "%", "?", "\\", "[", "]", "*"]
        ),
        st.sampled_from(["name", "total", "tc", "rate", "stream", "1", "1ms", "5", "gemm", "yes", "KB", "µs", "İ"]),
        st.characters(),
    ),
    max_size=15,
).map("".join)


@given(QUERY_TEXTS)
def test_any_text_is_a_query_or_an_error_with_a_position(text: str) -> None:
    assert_query_or_error(text)
