"""The SQL that Polars runs opens no file and is equivalent to the query."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import re
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from polars.exceptions import PanicException, PolarsError

from tui.model.errors import ProftuiError
from tui.query.sql.run import SqlTables, run
from tui.query.sql.statement import FUNCTION_NAMES, check_statement

KERNELS = pl.DataFrame({"name": ["gemm", "re'lu", "a\\'b"], "n": [3, 1, 2], "total_ns": [3_000, 1_000, 500]})
TABLES = ("kernels",)
IN_OPEN = 0x20
EVENT = struct.Struct("iIII")


class OpenedFiles:
    """Counts how often files of a folder are opened, by any thread and language."""

    def __init__(self, folder: Path) -> None:
        self._libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK)
        assert self._fd >= 0
        assert self._libc.inotify_add_watch(self._fd, os.fsencode(folder), IN_OPEN) >= 0

    def count(self) -> int:
        """Return the number of opens since the last call."""
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return 0
        offset = count = 0
        while offset < len(data):
            offset += EVENT.size + EVENT.unpack_from(data, offset)[3]
            count += 1
        return count

    def close(self) -> None:
        os.close(self._fd)


@contextmanager
def watched_files(folder: Path) -> Iterator[OpenedFiles]:
    opens = OpenedFiles(folder)
    try:
        yield opens
    finally:
        opens.close()


@pytest.fixture(scope="module")
def folder_with_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with a file of each kind that Polars' SQL can read."""
    folder = tmp_path_factory.mktemp("bait")
    frame = pl.DataFrame({"secret": [1]})
    frame.write_csv(folder / "x.csv")
    frame.write_parquet(folder / "x.parquet")
    frame.write_ipc(folder / "x.ipc")
    frame.write_ndjson(folder / "x.json")
    return folder


def run_sql(text: str) -> pl.DataFrame:
    return run(text, SqlTables({"kernels": KERNELS}, (), lambda _name: pl.DataFrame()))


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="opens are counted by inotify")

FILE_ACCESSES = (
    "SELECT * FROM {read}",
    "SELECT /* /* */ ' */ * FROM {read} --'",
    "SELECT /*/**/'*/ * FROM {read} --'",
    "SELECT /*/**/'*/*/ * FROM {read} --'",
    "SELECT $$'$$ AS a FROM {read} --'",
    "SELECT 1 AS a$$ FROM {read} -- $$",
    "SELECT $a$'$b$ AS x FROM {read} -- '$a$",
    "SELECT '\\' AS a FROM {read} --'",
    "SELECT E'\\' AS a FROM {read} --'",
    'SELECT "\\" AS a FROM {read} --"',
    'SELECT `"` AS a FROM {read} --"`',
    "SELECT '' ' ' * FROM {read} --",
    "SELECT #'\n * FROM {read} --'",
    "SELECT {{# ' #}} * FROM {read} --'",
    "SELECT //'\n * FROM {read} --'",
    "SELECT --\r * FROM {read}",
    "SELECT --\u2028 * FROM {read}",
    "SELECT --\x0b * FROM {read}",
    "SELECT * FROM/**/{read}",
    "SELECT * FROM\u00a0{read}",
    "SELECT * FROM \ufeff{read}",
    "SELECT * FROM ({read})",
    "SELECT * FROM (({read}))",
    "SELECT * FROM {read} AS kernels",
    "SELECT * FROM kernels, {read}",
    "SELECT * FROM kernels CROSS JOIN {read}",
    "SELECT * FROM kernels JOIN LATERAL {read} ON true",
    "SELECT * FROM kernels, LATERAL {read}",
    "SELECT * FROM LATERAL (SELECT * FROM {read})",
    "SELECT * FROM TABLE({read})",
    "SELECT * FROM kernels WHERE n IN (SELECT secret FROM {read})",
    "SELECT (SELECT MAX(secret) FROM {read}) AS a",
    "SELECT * FROM kernels WHERE EXISTS (SELECT 1 FROM {read})",
    "WITH k AS (SELECT * FROM {read}) SELECT * FROM k",
    "WITH read_csv AS (SELECT 1) SELECT * FROM {read}",
    "SELECT * FROM kernels UNION ALL SELECT * FROM {read}",
    "FROM {read}",
    "EXPLAIN SELECT * FROM {read}",
    "EXPLAIN EXPLAIN SELECT * FROM {read}",
    "EXPLAIN ANALYZE SELECT * FROM {read}",
    "SELECT 1; SELECT * FROM {read}",
    "CREATE TABLE t AS SELECT * FROM {read}",
    "SELECT * INTO t FROM {read}",
    "SELECT * FROM UNNEST({read})",
    "SELECT {read}",
    "SELECT * FROM kernels ORDER BY {read}",
    "VALUES ({read})",
    "SELECT * FROM (VALUES ({read}))",
    "SELECT CAST(1 AS {read})",
    "SELECT * FROM kernels AS {read}",
    "SELECT * FROM kernels {read}",
    "(SELECT * FROM {read})",
    "SELECT * FROM kernels PIVOT(SUM(n) FOR name IN (SELECT 1 FROM {read}))",
    "SELECT * FROM kernels TABLESAMPLE {read}",
    "SELECT * EXCLUDE (n) FROM {read}",
    "SELECT COLUMNS('.*') FROM {read}",
    "SELECT * FROM '{file}'",
    'SELECT * FROM "{file}"',
    "SELECT * FROM `{file}`",
    "SELECT * FROM $${file}$$",
)
UNSAFE_QUERIES = (
    "read_csv('{file}')",
    "READ_CSV('{file}')",
    "\"read_csv\"('{file}')",
    "`read_csv`('{file}')",
    "read_csv ('{file}')",
    "read_csv/**/('{file}')",
    "read_csv\n('{file}')",
    'read_csv("{file}")',
    "read_csv($${file}$$)",
    "read_csv(E'{file}')",
    "read_csv(source => '{file}')",
    "main.read_csv('{file}')",
    "read_parquet('{file}')",
    "read_ipc('{file}')",
    "read_json('{file}')",
    "read_ndjson('{file}')",
    "scan_csv('{file}')",
)


@linux_only
def test_unchecked_polars_queries_open_files(folder_with_files: Path) -> None:
    with watched_files(folder_with_files) as opens:
        pl.SQLContext(kernels=KERNELS, eager=True).execute(
            f"SELECT /* /* */ ' */ * FROM read_csv('{folder_with_files}/x.csv') --'"
        )
        assert opens.count() > 0
        (folder_with_files / "x.csv").read_bytes()
        assert opens.count() > 0


@linux_only
@pytest.mark.parametrize("template", FILE_ACCESSES)
def test_no_query_opens_a_file(template: str, folder_with_files: Path) -> None:
    with watched_files(folder_with_files) as opens:
        for read in UNSAFE_QUERIES:
            for name in ("x.csv", "x.parquet", "x.ipc", "x.json", "*", ""):
                file = str(folder_with_files / name)
                text = template.replace("{read}", read).replace("{file}", file)
                with suppress(ProftuiError):  # any other error fails the test
                    run_sql(text)
                assert opens.count() == 0, text


TOKENS = st.sampled_from(
    re.findall(
        r"\S+",
        r"""/* */ -- ' '' " ` $$ $a$ \ E' N' X' U&' # // {{ }} {% %} /*+ @ [ ] ( ) , ; * 1 a AS kernels SELECT FROM JOIN
        UNION WITH LATERAL TABLE EXPLAIN read_csv read_csv(""",
    )
) | st.sampled_from("\n\r\u2028\u00a0\ufeff")
FRAGMENTS = st.lists(TOKENS, max_size=6).map(" ".join) | st.lists(TOKENS, max_size=6).map("".join)


@linux_only
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(FRAGMENTS, min_size=5, max_size=5), st.booleans())
@example(["", "/* /* */ ' */", "", "", "--'"], False)
@example(["", "/*/**/'*/", "", "", "--'"], False)
def test_random_queries_open_no_file(folder_with_files: Path, fragments: list[str], has_space: bool) -> None:
    prefix, columns, source, first_argument, suffix = fragments
    read = f"read_csv{' ' if has_space else ''}({first_argument}'{folder_with_files}/x.csv')"
    with watched_files(folder_with_files) as opens:
        with suppress(ProftuiError):
            run_sql(f"{prefix} SELECT {columns} * FROM {source} {read} {suffix}")
        assert opens.count() == 0


EQUIVALENT_QUERIES = (
    "select n::float as f, cast(n as tinyint) as t, cast(n as int8) as i, cast(n as float4) as r from kernels",
    "select cast(n as uint1) as a, cast(n as hugeint) as b, cast(n as varchar(3)) as c, cast(n as real) as d from kernels",  # noqa: E501
    "select cast(n as double precision) as a, cast(n as int unsigned) as b, try_cast(name as int) as c from kernels",
    "select n::decimal(10, 2) as d, n::timestamp as t, n::date as e from kernels",
    "select name ~ 'g' as a, name !~* 'G' as b, name ^@ 'ge' as c, name like '%e%' as d, name rlike 'm' as e from kernels",  # noqa: E501
    "select name not like 'g%' as a, name ilike 'G%' as b, not n = 1 as c, n is distinct from 1 as d from kernels",
    "select n <=> 1 as a, n between 1 and 2 as b, n not in (1, 2) as c, name is not null as d from kernels",
    "select 5 // 2 as a, 5 / 2 as b, 7 % 3 * 2 as c, 2 - (1 - 1) as d, 8 / 2 / 2 as e, 1 - -1 as f, - -1 as g",
    "select 1e3 as a, .5 as b, 1. as c, 18446744073709551615 as d, 00012 as e, x'41' as f, true and false or null as g",
    "select 'a''b' as a, 'a\\' as b, $$it's$$ as c, $t$a$$b$t$ as d, 'é\n' as e, \"n\" as `y` from kernels",
    "select a.n from kernels a semi join kernels b on a.n = b.n",
    "select a.n from kernels a left anti join kernels b using (n)",
    "select a.n as x, b.n as y from kernels a full outer join kernels b on a.n = b.n + 1 order by x, y",
    "select * from kernels natural join kernels as b order by n",
    'select k.name as "a b" from kernels as k left join kernels j using (name, n) order by 1',
    "select distinct on (n) n, name from kernels order by n",
    "select * from kernels order by n fetch first 1 rows only",
    "select n from kernels order by n desc nulls last limit 1 offset 1",
    "select n from kernels order by all",
    "select count(*) as c, n > 1 as big from kernels group by all order by big",
    "select name, sum(n) as s from kernels group by name having sum(n) > 1 order by sum(n) desc",
    "select sum(n) over (partition by name order by n rows between unbounded preceding and current row) as s from kernels",  # noqa: E501
    "select lag(n) over (order by n) as l, row_number() over w as r from kernels window w as (order by n)",
    "select sum(n) filter (where n > 1) as a, count(distinct n) as b, count(*) filter (where true) as c from kernels",
    "select array_agg(n order by n desc limit 2) as a, string_agg(name, ',') as b from kernels",
    "select quantile_cont(n, 0.5) as q, median(n) as m, stddev(n) as s, var(n) as v, first(n) as f from kernels",
    "select case n when 1 then 'a' else 'b' end as c, case when n > 1 then n end as d, if(n > 1, 1, 0) as e from kernels",  # noqa: E501
    "select (select max(n) from kernels) as m, exists(select 1) as e, n in (select n from kernels) as i from kernels",
    "select interval '1 day 2 hours' as i, date('2020-01-01') as d, timestamp '2020-01-01 00:00:00' as t",
    "select extract(year from date '2020-01-02') as y, date_part('month', date('2020-01-01')) as m",
    "select strftime(date('2020-01-01'), '%Y') as a, date '2020-01-01' + interval '1 day' as b",
    "select position('e' in name) as a, substring(name from 1 for 2) as b, substr(name, 2) as c from kernels",
    "select trim(both 'g' from name) as a, trim(name) as b, trim(leading 'gm' from name) as c from kernels",
    "select left(name, 2) as a, replace(name, 'e', 'x') as b, concat(name, 'z') as c, name || '!' as d from kernels",
    "select log(8, 2) as a, mod(5, 3) as b, round(1.234, 2) as c, length(name) as d, upper(name) as e from kernels",
    "select ifnull(n, 1) as a, nullif(n, 1) as b, coalesce(null, n) as c, greatest(n, 2) as d from kernels",
    "select [1, 2] as a, array[1, 2] as b, array_length([1, 2]) as c, array_to_string(['a', 'b'], ',') as d from kernels",  # noqa: E501
    "select a[1] as x from (select [1, 2] as a)",
    "select * from unnest([1, 2]) as x(a)",
    "select * from (values (1, 'a'), (3, 'b')) as t(a, b)",
    "values (1, 'a'), (2, 'b')",
    "from kernels",
    "select * exclude (n) from kernels",
    "select * replace (n + 1 as n) from kernels",
    "select * rename (n as m) from kernels",
    "select * ilike 'n%' from kernels",
    "select columns('n.*') from kernels",
    "select a.* exclude (n) from kernels a",
    "select n from kernels except select 1 order by n",
    "select * from kernels union all by name select * from kernels order by name",
    "(select 1 as a) union (select 2 as a) order by a",
    "with a as (select 1 as x), b as (select x + 1 as x from a) select * from b",
    "select * from KERNELS",
    'select "K x".n from kernels as "K x" where "K x".n > 1 order by 1',
    'select n as "total µs", n as "a""b" from kernels',
    "explain select name from kernels",
    "select n /* a /* b */ c */ as x -- y\nfrom kernels",
)


@pytest.mark.parametrize("text", EQUIVALENT_QUERIES)
def test_rewritten_queries_have_the_same_result(text: str) -> None:
    expected = pl.SQLContext(kernels=KERNELS, eager=True).execute(text)
    checked = check_statement(text, TABLES)
    result = pl.SQLContext(kernels=KERNELS, eager=True).execute(checked.sql)
    assert result.schema == expected.schema
    assert result.equals(expected)
    # The rewritten statement is unchanged by another rewrite.
    assert check_statement(checked.sql, TABLES).sql == checked.sql


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select sum(", "SQL: expected ), found the end"),
        ("select a from", "SQL: expected a table, found the end"),
        ('select 1 as "a', "line 1, column 13: the name that begins here has no closing quote"),
        ("select 1 /* a /* b */", "SQL: unclosed comment"),
        ("select a b c from kernels", "SQL: line 1, column 12: expected end of statement, found c"),
        ("select @a", "@a is not supported"),
        ("select " + "1 + " * 300 + "1", "the query is nested too deeply"),
        ("select " + "(" * 2_000 + "1" + ")" * 2_000, "the query is nested too deeply"),
        ("select 1 " + " " * 20_000, "the query has more than 20,000 characters"),
        ("select mediam(n) from kernels", "unknown function mediam"),
        ("select n into x from kernels", "INTO x is not supported"),
        ("select * from table(kernels)", "table is no table"),
    ],
)
def test_unsupported_statements_are_errors(text: str, message: str) -> None:
    with pytest.raises(ProftuiError) as error:
        check_statement(text, TABLES)
    assert message in error.value.message
    assert error.value.hint


def test_allowed_functions_exist_in_polars() -> None:
    context = pl.SQLContext(kernels=KERNELS, eager=True)
    missing = set()
    for name in (*FUNCTION_NAMES, "nofunc"):
        try:
            context.execute(f"select {name}(n) from kernels")
        except (PolarsError, PanicException) as error:
            if "unsupported function" in str(error):
                missing.add(name)
    assert missing == {"nofunc"}


def test_table_names_are_case_insensitive() -> None:
    assert check_statement("SELECT name FROM KERNELS", TABLES).tables == {"kernels"}


def test_the_longest_query() -> None:
    text = f"SELECT name FROM kernels WHERE name = '{'x' * 19_960}'"
    assert len(text) == 20_000
    check_statement(text, TABLES)
    with pytest.raises(ProftuiError, match="the query has more than 20,000 characters"):
        check_statement(f"{text} ", TABLES)
