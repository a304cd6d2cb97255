"""SQL over the frames of a profile: what it finds, what it refuses, what it completes."""

from __future__ import annotations

from contextlib import suppress

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.model.columns import ColumnKind
from tui.model.errors import ProftuiError
from tui.query.sql.complete import suggestion
from tui.query.sql.result import numbered, result_spec
from tui.query.sql.run import Tables, collect, query
from tui.query.sql.tokens import names_in, tokens

KERNELS = pl.DataFrame(
    {
        "name": pl.Series(["gemm", "relu", None], dtype=pl.Categorical),
        "total_ns": [3_000, 1_000, 500],
        "calls": [3, 1, 1],
    }
)


def tables(asked: list[str] | None = None) -> Tables:
    def make(name: str) -> pl.DataFrame:
        if asked is not None:
            asked.append(name)
        return pl.DataFrame({"device": [0], "busy_ns": [4_000]})

    return Tables({"kernels": KERNELS}, ["gpus", "gaps"], make)


def run(text: str, of: Tables | None = None) -> pl.DataFrame:
    given_tables = of or tables()
    return collect(query(text, given_tables), given_tables)


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


def test_show_tables_tells_rows_and_columns_of_what_is_there() -> None:
    assert run(" show  tables ; ").rows() == [
        ("kernels", 3, "name, total_ns, calls"),
        ("gpus", None, None),
        ("gaps", None, None),
    ]


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("", "there is no SQL to run", "SHOW TABLES"),
        ("-- nothing", "there is no SQL to run", "SHOW TABLES"),
        ("DROP TABLE kernels", "SQL begins with SELECT here, not with DROP", "only read"),
        ("select * from read_csv('/etc/hostname')", "read_csv opens files", "SHOW TABLES"),
        ("select * from \"read_parquet\" ('x')", "read_parquet opens files", "SHOW TABLES"),
        ("select $$'$$ as a from read_csv('x') --'", "read_csv opens files", "SHOW TABLES"),
        ("select 1 as a$$ from read_csv('x') -- $$", "read_csv opens files", "SHOW TABLES"),
        ("select * from nope", "relation 'nope' was not found", "kernels, gpus, gaps"),
        ("select nope from kernels", 'unable to find column "nope"', "SHOW TABLES"),
        ("select (", "SQL: sql parser error", "SHOW TABLES"),
        ("select 1; select 2", "only one", "SHOW TABLES"),
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
        ("select name from kernels wh", "ere"),
        ("select name from kernels order by cal", "ls"),
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


def test_columns_that_can_be_told_without_computing_are_known_once_learned() -> None:
    asked: list[str] = []

    def make(name: str) -> pl.DataFrame:
        asked.append(name)
        return pl.DataFrame()

    of = Tables({"kernels": KERNELS}, ["gpus"], make, outline=lambda _name: ("device", "busy_ns"))
    assert of.columns("gpus") == ()
    of.learn_columns()
    assert suggestion("select 1 from gpus where bus", of) == "y_ns"
    assert run("show tables", of).rows()[1] == ("gpus", None, "device, busy_ns")
    assert asked == []


def test_a_result_is_shown_as_everywhere_and_by_its_units() -> None:
    rows = numbered(
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
    assert result_spec(numbered(run("select 1 as a"))).pinned == "#"
    # A text under the name of a number is a text.
    assert result_spec(numbered(run("select 'x' as total_ns"))).columns[1].kind is ColumnKind.TEXT
