"""SQL over the frames of a profile: what it finds, what it refuses, what it completes."""

from __future__ import annotations

from contextlib import suppress

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.model.columns import ColumnKind
from tui.model.errors import ProftuiError
from tui.query.sql import run as running
from tui.query.sql.run import SqlTables, query, result_spec, with_row_numbers
from tui.query.sql.sql_text import names_in, suggestion, tokens, with_names

KERNELS = pl.DataFrame(
    {
        "name": pl.Series(["gemm", "relu", None], dtype=pl.Categorical),
        "total_ns": [3_000, 1_000, 500],
        "calls": [3, 1, 1],
    }
)


def tables(asked: list[str] | None = None) -> SqlTables:
    def make(name: str) -> pl.DataFrame:
        if asked is not None:
            asked.append(name)
        return pl.DataFrame({"device": [0], "busy_ns": [4_000]})

    return SqlTables({"kernels": KERNELS}, ["gpus", "gaps"], make)


def run(text: str, of: SqlTables | None = None) -> pl.DataFrame:
    return running.run(text, of or tables())


def test_a_table_is_computed_when_it_is_named_and_once() -> None:
    asked: list[str] = []
    of = tables(asked)
    assert run("SELECT name FROM kernels WHERE name LIKE 'ge%' -- not gpus", of)["name"].to_list() == ["gemm"]
    assert asked == []
    for _ in range(2):
        assert run('select sum(k.total_ns) as s, max(g.busy_ns) as b from kernels k, "gpus" g', of).rows() == [
            (4_500, 4_000)
        ]
    assert asked == ["gpus"]


def test_show_tables_lists_rows_and_columns() -> None:
    assert run(" show  tables ; ").rows() == [
        ("kernels", 3, "name, total_ns, calls"),
        ("gpus", None, None),
        ("gaps", None, None),
    ]


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("", "the query is empty", "SHOW TABLES"),
        ("-- nothing", "the query is empty", "SHOW TABLES"),
        ("DROP TABLE kernels", "SQL begins with SELECT here, not with DROP", "read-only"),
        ("select * from read_csv('/etc/hostname')", "read_csv opens files", "SHOW TABLES"),
        ("select * from \"read_parquet\" ('x')", "read_parquet opens files", "SHOW TABLES"),
        ("select $$'$$ as a from read_csv('x') --'", "read_csv opens files", "SHOW TABLES"),
        ("select 1 as a$$ from read_csv('x') -- $$", "line 1, column 14: expected end of statement", "as: SELECT"),
        ("select * from nope", "unknown table nope", "SHOW TABLES"),
        ("select lpad(name, 5000000000, 'b') from kernels", "lpad must be a number up to 10,000", "as: SELECT"),
        ("select rpad(name, calls) from kernels", "rpad must be a number up to 10,000", "as: SELECT"),
        # It would have no end.
        (
            "with recursive r as (select 1 as a union all select a from r) select * from r limit 5",
            "WITH RECURSIVE r AS",
            "SHOW TABLES",
        ),
        ("select * from main.kernel", "unknown table main.kernel", "did you mean kernels?"),
        ("select nope from kernels", "unknown column nope", "columns: name, total_ns, calls"),
        ("select Total from kernels", "unknown column Total", "did you mean total_ns?"),
        ('select 1 as a from kernels where name = "gemm"', "unknown column gemm", "single quotes: 'gemm'"),
        (
            "select k.cals from kernels k join gpus g on k.calls = g.device",
            "k has no column cals",
            "did you mean calls?",
        ),
        ("select x.calls from kernels k", "the query has no table x", "FROM or JOIN"),
        ("select (", "SQL: expected an expression, found the end", "as: SELECT"),
        (
            "select 1 as a from kernels where\ntotal_ns > 1ms",
            "line 2, column 13: expected end of statement, found ms",
            "ns",
        ),
        ("select 'a", "line 1, column 8: the text that begins here has no closing quote", "as: SELECT"),
        ("select from kernels", "the query selects no column", "as: SELECT"),
        (
            "select 1 as a from kernels where calls > '3'",
            "text is compared with a number: calls > '3'",
            "1 ms is 1000000",
        ),
        ("select nofunc(calls) from kernels", "unknown function nofunc", "QUANTILE_CONT"),
        ("select name, name from kernels", "two columns of the result are named name", "AS"),
        ("select name, sum(calls) from kernels", "name is neither grouped nor aggregated", "GROUP BY name"),
        ("select sum(name) from kernels", "sum needs numbers, but this column is text", "SHOW TABLES"),
        ("select 1.0 / 0 as a", "division by zero", "NULLIF"),
        ("with x as (delete from kernels) select 1", "DELETE FROM kernels is not supported", "read-only"),
        ("select 1; select 2", "more than one", "remove the text after the ;"),
        ("select cast(name as int) from kernels", "SQL: ", "SHOW TABLES"),
        # Polars panics, which is no Exception.
        ("select cast(total_ns as decimal(99, 99)) from kernels", "SQL: ", "SHOW TABLES"),
    ],
)
def test_a_fault_is_one_line_with_what_to_do(text: str, said: str, hint: str) -> None:
    with pytest.raises(ProftuiError) as error:
        run(text)
    assert said in error.value.message
    assert "\n" not in error.value.message
    assert hint in error.value.hint


def test_a_join_of_far_too_many_rows_ends_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    many = SqlTables({"a": pl.DataFrame({"x": range(20_000), "y": range(20_000)})}, [], lambda _name: pl.DataFrame())
    with pytest.raises(
        ProftuiError, match=r"more than 10,000,000 rows of 2 columns; join by columns with unique values"
    ):
        run("select l.x, r.y from a l, a r", many)
    monkeypatch.setattr(running, "MAX_VALUES", 60_000)
    assert run("select l.x, r.y, r.x as z from a l join a r on l.x = r.x", many).height == 20_000
    with pytest.raises(ProftuiError, match=r"more than 15,000 rows of 4 columns"):
        run("select * from a l join a r on l.x = r.x", many)
    assert run("select count(*) as n from a l, a r", many).rows() == [(400_000_000,)]
    assert run("select l.x, r.y from a l, a r limit 5", many).height == 5


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("select name, k.calls, total_ns t, calls as c, 'x' y from kernels k", None),
        ("select * from kernels", None),
        ("select k.*, cast(calls as float) as f from kernels k", None),
        ("select case when calls > 1 then 'a, b' else 'c' end what from kernels", None),
        ("select * exclude (name) from kernels", None),
        ("select SUM(calls) s, x from (select SUM(calls), 1 as x from kernels)", None),
        ("select COUNT( * ) from kernels", 'select COUNT( * ) AS "COUNT( * )" from kernels'),
        ("select max(calls)\n+ 1 -- more, than that", 'select max(calls)\n+ 1 AS "max(calls) + 1" -- more, than that'),
        ("select distinct upper(name)", 'select distinct upper(name) AS "upper(name)"'),
        ("select calls is null, 1", 'select calls is null AS "calls is null", 1 AS "1"'),
        ("select calls + total_ns", 'select calls + total_ns AS "calls + total_ns"'),
        ('select "a b" || name', 'select "a b" || name AS "a b || name"'),
        ("select sum(a) from x union all select sum(a) from y",
         'select sum(a) AS "sum(a)" from x union all select sum(a) AS "sum(a)" from y'),
    ],
)  # fmt: skip
def test_what_has_no_name_is_called_what_it_is(text: str, named: str | None) -> None:
    assert with_names(text) == (named or text)


def test_a_unit_is_shown_where_there_is_one() -> None:
    found = with_row_numbers(
        run(
            "select sum(total_ns), count(total_ns), total_ns/1000, max(k.total_ns), variance(total_ns), "
            "total_ns/total_ns from kernels k group by total_ns/1000, total_ns/total_ns"
        )
    )
    assert {column.name: column.kind for column in result_spec(found).columns} == {
        "#": ColumnKind.NUMBER,
        "sum(total_ns)": ColumnKind.DURATION,
        "count(total_ns)": ColumnKind.COUNT,
        "total_ns/1000": ColumnKind.RATIO,
        "max(k.total_ns)": ColumnKind.DURATION,
        "variance(total_ns)": ColumnKind.RATIO,
        "total_ns/total_ns": ColumnKind.RATIO,
    }


def test_no_column_of_a_result_is_lost_or_without_a_text() -> None:
    found = with_row_numbers(
        run("select name as \"#\", date('2026-01-02') as d, interval '1 day' as i, [1, 2] as l from kernels")
    )
    assert found.columns == ["##", "#", "d", "i", "l"]
    assert found.rows()[0] == (1, "gemm", "2026-01-02", "1 day, 0:00:00", "[1, 2]")
    assert result_spec(found).key == ("##",)


def test_what_a_statement_changes_stays_in_it() -> None:
    of = tables()
    with pytest.raises(ProftuiError):
        run("delete from kernels", of)
    assert run("with kernels as (select 1 as name) select * from kernels", of).height == 1
    assert run("select * from kernels", of).height == 3


def test_words_in_texts_and_comments_name_no_table() -> None:
    assert names_in("select 'gpus' /* gaps */ from Kernels -- relu") == {"select", "from", "kernels"}
    assert [token.text for token in tokens("a'it''s'\"b c\"")] == ["a", "'it''s'", "b c"]


@given(st.text(max_size=60))
def test_any_text_is_understood_or_refused_in_words(text: str) -> None:
    of = tables()
    assert all(text[token.start :].lstrip('"`').startswith(token.text.strip('"`')) for token in tokens(text))
    with suppress(ProftuiError):  # any other error fails the test
        assert isinstance(query(text, of), pl.LazyFrame)


@pytest.mark.parametrize(
    ("typed", "added"),
    [
        ("select tot", "al_ns"),
        ("select name from ker", "nels"),
        ("select name from ", "kernels"),
        ("SEL", "ECT"),
        ("s", "elect"),
        ("SH", "OW TABLES"),
        ("select name from kernels wh", "ere"),
        ("select name from kernels order by cal", "ls"),
        ("select name from kernels order by calls desc", ""),
        ("select name from kernels ", ""),
        ("select 1 from gpus where bus", ""),
        ("select name, tot", "al_ns"),
        ("select name, ", ""),
        ("select 1 from kernels, gp", "us"),
        ("select 1 from (select 1 as a, tot", "al_ns"),
        ("select 1 from kernels order by 1, tot", "al_ns"),
    ],
)
def test_what_completes_a_text(typed: str, added: str) -> None:
    assert suggestion(typed, tables()) == added


def test_columns_of_a_computed_table_are_known_once_it_was_asked_for() -> None:
    of = tables()
    run("select * from gpus", of)
    assert suggestion("select 1 from gpus where bus", of) == "y_ns"


def test_columns_without_computing_are_known_once_learned() -> None:
    asked: list[str] = []

    def make(name: str) -> pl.DataFrame:
        asked.append(name)
        return pl.DataFrame()

    of = SqlTables({"kernels": KERNELS}, ["gpus"], make, outline=lambda _name: ("device", "busy_ns"))
    assert of.columns("gpus") == ()
    of.learn_columns()
    assert suggestion("select 1 from gpus where bus", of) == "y_ns"
    assert run("show tables", of).rows()[1] == ("gpus", None, "device, busy_ns")
    assert asked == []


def test_a_result_is_shown_as_everywhere_and_by_its_units() -> None:
    rows = with_row_numbers(
        run("select name, total_ns, total_ns / calls as mean_ns, calls > 1 as often, [1] as l from kernels")
    )
    spec = result_spec(rows)
    assert [(column.name, column.kind) for column in spec.columns] == [
        ("#", ColumnKind.NUMBER),
        ("name", ColumnKind.SYMBOL),
        ("total_ns", ColumnKind.DURATION),
        ("mean_ns", ColumnKind.DURATION),
        ("often", ColumnKind.FLAG),
        ("l", ColumnKind.TEXT),
    ]
    assert spec.pinned == "name"
    assert rows["#"].to_list() == [1, 2, 3]
    assert result_spec(with_row_numbers(run("select 1 as a"))).pinned == "#"
    # A text under the name of a number is a text.
    assert result_spec(with_row_numbers(run("select 'x' as total_ns"))).columns[1].kind is ColumnKind.TEXT
