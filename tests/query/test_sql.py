"""SQL over the frames of a profile: results, refused statements, completions."""

from __future__ import annotations

from contextlib import suppress

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.model.columns import ColumnKind
from tui.model.errors import ProftuiError
from tui.query.sql import run as sql_run
from tui.query.sql.run import SqlTables, query, result_spec, with_row_numbers
from tui.query.sql.sql_text import names_in, suggestion, tokens, with_names

KERNELS = pl.DataFrame(
    {
        "name": pl.Series(["gemm", "relu", None], dtype=pl.Categorical),
        "total_ns": [3_000, 1_000, 500],
        "calls": [3, 1, 1],
    }
)


def example_tables(computed: list[str] | None = None) -> SqlTables:
    def compute(name: str) -> pl.DataFrame:
        if computed is not None:
            computed.append(name)
        return pl.DataFrame({"device": [0], "busy_ns": [4_000]})

    return SqlTables({"kernels": KERNELS}, ["gpus", "gaps"], compute)


def run_query(text: str, tables: SqlTables | None = None) -> pl.DataFrame:
    return sql_run.run(text, tables or example_tables())


def test_a_table_is_computed_once_when_it_is_named() -> None:
    computed: list[str] = []
    tables = example_tables(computed)
    assert run_query("SELECT name FROM kernels WHERE name LIKE 'ge%' -- not gpus", tables)["name"].to_list() == ["gemm"]
    assert computed == []
    for _ in range(2):
        assert run_query(
            'select sum(k.total_ns) as s, max(g.busy_ns) as b from kernels k, "gpus" g', tables
        ).rows() == [(4_500, 4_000)]
    assert computed == ["gpus"]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [("f IS TRUE", [0]), ("f IS NOT TRUE", [1, 2]), ("f IS FALSE", [1]), ("f IS NOT FALSE", [0, 2])],
)
def test_an_unknown_flag_is_not_true_and_not_false(condition: str, rows: list[int]) -> None:
    tables = SqlTables({"a": pl.DataFrame({"id": [0, 1, 2], "f": [True, False, None]})}, [], example_tables().frame)
    assert run_query(f"SELECT id FROM a WHERE {condition} ORDER BY id", tables)["id"].to_list() == rows


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("d IS DISTINCT FROM e AND id > 5", []),
        ("d IS DISTINCT FROM e OR id > 5", [1, 2]),
        ("NOT d IS DISTINCT FROM e AND id = 0", [0]),
        ("d IS NOT DISTINCT FROM e AND id < 5", [0, 3]),
    ],
)
def test_conditions_after_is_distinct_from_are_conditions_of_their_own(condition: str, rows: list[int]) -> None:
    frame = pl.DataFrame({"id": [0, 1, 2, 3], "d": [1, None, 2, None], "e": [1, 1, None, None]})
    tables = SqlTables({"a": frame}, [], example_tables().frame)
    assert run_query(f"SELECT id FROM a WHERE {condition} ORDER BY id", tables)["id"].to_list() == rows
    names = ["d", "d IS DISTINCT FROM e"]
    assert run_query("SELECT d, d IS DISTINCT FROM e FROM a", tables).columns == names
    flags = run_query(f"SELECT id, {condition} FROM a", tables)
    assert flags.filter(flags[condition])["id"].to_list() == rows


def test_show_tables_lists_rows_and_columns() -> None:
    assert run_query(" show  tables ; ").rows() == [
        ("kernels", 3, "name, total_ns, calls"),
        ("gpus", None, None),
        ("gaps", None, None),
    ]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
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
def test_an_error_is_one_line_with_a_hint(text: str, message: str, hint: str) -> None:
    with pytest.raises(ProftuiError) as error:
        run_query(text)
    assert message in error.value.message
    assert "\n" not in error.value.message
    assert hint in error.value.hint


def test_a_join_of_too_many_rows_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = SqlTables({"a": pl.DataFrame({"x": range(20_000), "y": range(20_000)})}, [], lambda _name: pl.DataFrame())
    with pytest.raises(
        ProftuiError, match=r"more than 10,000,000 rows of 2 columns; join by columns with unique values"
    ):
        run_query("select l.x, r.y from a l, a r", tables)
    monkeypatch.setattr(sql_run, "MAX_VALUES", 60_000)
    assert run_query("select l.x, r.y, r.x as z from a l join a r on l.x = r.x", tables).height == 20_000
    with pytest.raises(ProftuiError, match=r"more than 15,000 rows of 4 columns"):
        run_query("select * from a l join a r on l.x = r.x", tables)
    assert run_query("select count(*) as n from a l, a r", tables).rows() == [(400_000_000,)]
    assert run_query("select l.x, r.y from a l, a r limit 5", tables).height == 5


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_unnamed_columns_are_called_by_their_expression(text: str, expected: str | None) -> None:
    assert with_names(text) == (expected or text)


def test_columns_have_the_kind_of_their_unit() -> None:
    result = with_row_numbers(
        run_query(
            "select sum(total_ns), count(total_ns), total_ns/1000, max(k.total_ns), variance(total_ns), "
            "total_ns/total_ns from kernels k group by total_ns/1000, total_ns/total_ns"
        )
    )
    assert {column.name: column.kind for column in result_spec(result).columns} == {
        "#": ColumnKind.NUMBER,
        "sum(total_ns)": ColumnKind.DURATION,
        "count(total_ns)": ColumnKind.COUNT,
        "total_ns/1000": ColumnKind.RATIO,
        "max(k.total_ns)": ColumnKind.DURATION,
        "variance(total_ns)": ColumnKind.RATIO,
        "total_ns/total_ns": ColumnKind.RATIO,
    }


def test_every_column_of_a_result_is_shown_as_text() -> None:
    result = with_row_numbers(
        run_query("select name as \"#\", date('2026-01-02') as d, interval '1 day' as i, [1, 2] as l from kernels")
    )
    assert result.columns == ["##", "#", "d", "i", "l"]
    assert result.rows()[0] == (1, "gemm", "2026-01-02", "1 day, 0:00:00", "[1, 2]")
    assert result_spec(result).key == ("##",)


def test_a_statement_does_not_change_the_tables() -> None:
    tables = example_tables()
    with pytest.raises(ProftuiError):
        run_query("delete from kernels", tables)
    assert run_query("with kernels as (select 1 as name) select * from kernels", tables).height == 1
    assert run_query("select * from kernels", tables).height == 3


def test_words_in_texts_and_comments_name_no_table() -> None:
    assert names_in("select 'gpus' /* gaps */ from Kernels -- relu") == {"select", "from", "kernels"}
    assert [token.text for token in tokens("a'it''s'\"b c\"")] == ["a", "'it''s'", "b c"]


@given(st.text(max_size=60))
def test_any_text_is_a_lazy_frame_or_an_error(text: str) -> None:
    tables = example_tables()
    assert all(text[token.start :].lstrip('"`').startswith(token.text.strip('"`')) for token in tokens(text))
    with suppress(ProftuiError):  # any other error fails the test
        assert isinstance(query(text, tables), pl.LazyFrame)


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
def test_completions(typed: str, added: str) -> None:
    assert suggestion(typed, example_tables()) == added


def test_columns_of_a_computed_table_are_completed_after_its_first_use() -> None:
    tables = example_tables()
    run_query("select * from gpus", tables)
    assert suggestion("select 1 from gpus where bus", tables) == "y_ns"


def test_declared_columns_are_completed_without_computing() -> None:
    computed: list[str] = []

    def compute(name: str) -> pl.DataFrame:
        computed.append(name)
        return pl.DataFrame()

    tables = SqlTables({"kernels": KERNELS}, ["gpus"], compute, outline=lambda _name: ("device", "busy_ns"))
    assert tables.columns("gpus") == ()
    tables.learn_columns()
    assert suggestion("select 1 from gpus where bus", tables) == "y_ns"
    assert run_query("show tables", tables).rows()[1] == ("gpus", None, "device, busy_ns")
    assert computed == []


def test_a_result_is_formatted_by_its_units() -> None:
    rows = with_row_numbers(
        run_query("select name, total_ns, total_ns / calls as mean_ns, calls > 1 as often, [1] as l from kernels")
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
    assert result_spec(with_row_numbers(run_query("select 1 as a"))).pinned == "#"
    # A text under the name of a number is a text.
    assert result_spec(with_row_numbers(run_query("select 'x' as total_ns"))).columns[1].kind is ColumnKind.TEXT
