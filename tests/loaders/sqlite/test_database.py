"""Safe opening and reading of databases with any content."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tui.loaders.sqlite import database, read_rows
from tui.loaders.sqlite.database import Database
from tui.loaders.sqlite.read_rows import salvage_range
from tui.model.errors import ProftuiError

TYPES = {"n": pl.Int64, "small": pl.Int32, "x": pl.Float64, "text": pl.String, "name": pl.Categorical, "raw": pl.Binary}


def make(path: Path, *statements: str, rows: Sequence[tuple[Any, ...]] = (), table: str = "t") -> Path:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    if rows:
        connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[0]))})", rows)
    connection.commit()
    connection.close()
    return path


def write_numbers(path: Path, count: int, *, table: str = "CREATE TABLE t (n INTEGER, text TEXT)") -> Path:
    return make(path, table, rows=[(number, f"text {number}") for number in range(count)])


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have small tables read like large ones, in many ranges of few rows."""
    monkeypatch.setattr(database, "_MIN_BULK_ROWS", 0)
    monkeypatch.setattr(read_rows, "RANGE_ROWS", 4)


def reasons(database_: Database) -> list[str]:
    return [note.reason for note in database_.notes]


def test_columns_have_the_requested_types(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.db",
        "CREATE TABLE t (n, small, x, text, name, raw)",
        rows=[
            (1, 2, 0.5, "a", "b", b"c"),
            (None,) * 6,
            ("1x", 1 << 40, "x", 7, b"\xff", "s"),
            ("-12", 3.0, 4, 1.5, 5, 6),
        ],
    )
    with Database(path, "a.db") as opened:
        assert opened.frame("t", TYPES).rows() == [
            (1, 2, 0.5, "a", "b", b"c"),
            (None,) * 6,
            (None, None, None, "7", "\ufffd", b"s"),
            (-12, 3, 4.0, "1.5", "5", b"6"),
        ]
        assert opened.frame("t", {"other": pl.Int64, "n": pl.Int8}).rows() == [
            *[(None, 1), (None, None), (None, None), (None, -12)]
        ]
        assert opened.frame("missing", {"n": pl.Int64}).schema == {"n": pl.Int64}
        assert opened.has("t", "n", "raw")
        assert not opened.has("t", "other")
        assert (opened.count("t"), opened.count("missing")) == (4, 0)
        assert [note.text for note in opened.notes] == ["t.n", "t.small", "t.x"]


_CELL = st.one_of(
    st.none(),
    st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1),
    st.integers(min_value=-9, max_value=300),
    st.floats(allow_nan=False),
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=6),
    st.binary(max_size=6),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=st.lists(st.tuples(_CELL, _CELL, _CELL, _CELL, _CELL, _CELL), max_size=14), ids=st.randoms())
def test_the_bulk_reader_equals_reading_row_by_row(
    rows: list[tuple[Any, ...]], ids: Any, tmp_path: Path, small_ranges: None
) -> None:
    path = tmp_path / "a.db"
    path.unlink(missing_ok=True)
    row_ids = sorted(ids.sample(range(-50, 50), len(rows)))
    make(
        path,
        "CREATE TABLE t (n INTEGER, small INTEGER, x REAL, text TEXT, name TEXT, raw BLOB)",
        "CREATE TABLE u (id INTEGER PRIMARY KEY, n, small, x, text, name, raw)",
        rows=[(row_id, *row) for row_id, row in zip(row_ids, rows, strict=True)],
        table="u",
    )
    connection = sqlite3.connect(path)
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.text_factory = lambda raw: str(raw, "utf-8", "replace")
    unfit = []
    with Database(path, "a.db") as opened:
        for table in ("t", "u"):
            slow = salvage_range(connection, table, "rowid", TYPES, (-100, 1000), lambda _: True)
            fast = opened.frame(table, TYPES)
            # A real number as text is written by SQLite or by Python: the same number.
            assert fast.drop("text", "name", "raw").equals(slow.data.drop("text", "name", "raw"))
            assert fast["text"].null_count() == slow.data["text"].null_count()
            unfit += [f"{table}.{column}" for column in slow.unfit]
        assert sorted(note.text for note in opened.notes) == sorted(unfit)
    connection.close()


def test_plain_rows_of_every_type_are_read_in_bulk(
    tmp_path: Path, small_ranges: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("read row by row")

    monkeypatch.setattr(database, "salvage_range", fail)
    rows = [(number, -number, number / 2, f"text {number}", None, b"\0") for number in range(10)]
    path = make(tmp_path / "a.db", "CREATE TABLE t (n, small, x, text, name, raw)", rows=rows)
    with Database(path, "a.db") as opened:
        assert opened.frame("t", TYPES).rows() == rows


def test_sparse_row_ids_take_few_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [-(1 << 62), 0, *range(5, 200, 5), 1 << 29, (1 << 62) + 1]
    path = make(tmp_path / "a.db", "CREATE TABLE t (id INTEGER PRIMARY KEY, n)", rows=[(at, at % 7) for at in ids])
    queries = []
    read = read_rows.TableBulkReader._range

    def counted(self: read_rows.TableBulkReader, *arguments: Any) -> pl.DataFrame | None:
        queries.append(arguments)
        return read(self, *arguments)

    monkeypatch.setattr(read_rows.TableBulkReader, "_range", counted)
    with Database(path, "a.db") as opened:
        assert opened.frame("t", {"id": pl.Int64, "n": pl.Int64}).rows() == [(at, at % 7) for at in ids]
    assert len(queries) == 1


def test_large_tables_are_complete_and_in_order(tmp_path: Path) -> None:
    count = 150_000
    path = write_numbers(tmp_path / "a.db", count)
    with Database(path, "a.db") as opened:
        data = opened.frame("t", {"n": pl.Int64, "text": pl.Categorical})
        assert data["n"].equals(pl.Series("n", range(count)))
        assert data["text"].cast(pl.String).equals(pl.Series("text", [f"text {number}" for number in range(count)]))
        assert opened.rows_read == count


def test_a_late_value_of_another_type_is_null(tmp_path: Path) -> None:
    count = 150_000
    path = write_numbers(tmp_path / "a.db", count, table="CREATE TABLE t (n, text)")
    make(path, "UPDATE t SET n = 'many' WHERE n = 100000", "UPDATE t SET n = 0.5 WHERE n = 140000")
    with Database(path, "a.db") as opened:
        data = opened.frame("t", {"n": pl.Int64})
        assert [(note.text, note.reason) for note in opened.notes] == [
            ("t.n", "2 values of the wrong type or too large: skipped")
        ]
    assert data.with_row_index().filter(pl.col("n").is_null())["index"].to_list() == [100_000, 140_000]
    assert data.height == count


def test_a_number_too_large_for_its_column_is_reported(tmp_path: Path, small_ranges: None) -> None:
    path = make(tmp_path / "a.db", "CREATE TABLE t (n)", rows=[(number << 33,) for number in range(2)] + [(None,)])
    with Database(path, "a.db") as opened:
        for _ in range(2):
            assert opened.frame("t", {"n": pl.Int32})["n"].to_list() == [0, None, None]
        assert reasons(opened) == ["1 value of the wrong type or too large: skipped"]


def test_text_with_invalid_utf8_is_read(tmp_path: Path, small_ranges: None) -> None:
    path = make(
        tmp_path / "a.db",
        "CREATE TABLE t (text TEXT)",
        "INSERT INTO t VALUES (CAST(x'61ff62' AS TEXT)), ('é'), (NULL)",
    )
    with Database(path, "a.db") as opened:
        assert opened.frame("t", {"text": pl.String})["text"].to_list() == ["a\ufffdb", "é", None]


def test_a_database_in_utf16_is_read(tmp_path: Path, small_ranges: None) -> None:
    path = make(
        tmp_path / "a.db", "PRAGMA encoding = 'UTF-16le'", "CREATE TABLE t (text)", "INSERT INTO t VALUES ('né')"
    )
    with Database(path, "a.db") as opened:
        assert opened.frame("t", {"text": pl.String})["text"].to_list() == ["né"]


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE t (n INTEGER PRIMARY KEY, text) WITHOUT ROWID",
        "CREATE TABLE t (n, text, rowid)",
        "CREATE TABLE t (n, text, rowid, _rowid_, oid)",
        'CREATE TABLE t (n, text, "a{0}""b")',
    ],
)
def test_tables_of_all_kinds_are_read(tmp_path: Path, table: str, small_ranges: None) -> None:
    path = make(tmp_path / "a.db", table)
    make(path, *(f"INSERT INTO t (n, text) VALUES ({number}, 'x')" for number in range(20)))
    with Database(path, "a.db") as opened:
        assert opened.frame("t", {"n": pl.Int64})["n"].to_list() == list(range(20))
        assert opened.count("t") == 20
        if "{" in table:
            assert opened.frame("t", {'a{0}"b': pl.Int64}).height == 20


def test_row_ids_at_both_ends_of_the_range_are_read(tmp_path: Path) -> None:
    last = (1 << 63) - 1
    path = make(
        tmp_path / "a.db",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, n)",
        rows=[(-last, 1), (0, 2), (5, 3), (last, 4)],
    )
    with Database(path, "a.db") as opened:
        assert opened.frame("t", {"n": pl.Int64})["n"].to_list() == [1, 2, 3, 4]


def test_views_virtual_tables_and_generated_columns_are_never_queried(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.db",
        "CREATE TABLE t (n INTEGER, huge GENERATED ALWAYS AS (zeroblob(1000000000)) VIRTUAL)",
        "INSERT INTO t VALUES (1)",
        "CREATE VIEW v AS SELECT * FROM t",
        "CREATE VIRTUAL TABLE f USING fts5(x)",
    )
    with Database(path, "a.db") as opened:
        assert opened.tables["t"] == ("n",)
        assert (opened.views, opened.virtual_tables) == (("v",), ("f",))
        for name in ("v", "f", "v"):
            assert opened.frame(name, {"n": pl.Int64}).is_empty()
        assert [(note.severity, note.text) for note in opened.notes] == [("warning", "v"), ("warning", "f")]
        assert opened.frame("t", {"huge": pl.Int64, "n": pl.Int64}).rows() == [(None, 1)]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM v",
        "ATTACH '{folder}/b.db' AS b",
        "PRAGMA writable_schema = ON",
        "SELECT load_extension('x')",
        "SELECT zeroblob(1000000000)",
        "DELETE FROM t",
        "CREATE TEMP TABLE u (x)",
    ],
)
def test_a_statement_may_only_read_tables(tmp_path: Path, statement: str) -> None:
    path = make(tmp_path / "a.db", "CREATE TABLE t (n)", "CREATE VIEW v AS SELECT * FROM t")
    with Database(path, "a.db") as opened, pytest.raises(sqlite3.DatabaseError, match=r"authoriz|prohibited"):
        opened._connection.execute(statement.format(folder=tmp_path))


def test_a_write_ahead_log_is_read_and_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    writer.execute("CREATE TABLE t (n)")
    writer.executemany("INSERT INTO t VALUES (?)", [(number,) for number in range(50)])
    writer.commit()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with Database(path, "a.db") as opened:
        assert opened.frame("t", {"n": pl.Int64}).height == 50
        assert [(note.severity, note.text) for note in opened.notes] == [("info", "a.db-wal")]
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    writer.close()


def test_an_invalid_write_ahead_log_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.loaders.sqlite.open_readonly.shutil.copyfile", None)
    path = make(tmp_path / "a.db", "PRAGMA journal_mode = WAL", "CREATE TABLE t (n)", "INSERT INTO t VALUES (1)")
    log_path = tmp_path / "a.db-wal"
    log_path.mkdir()
    with Database(path, "a.db") as opened:
        assert opened.frame("t", {"n": pl.Int64}).height == 1
    log_path.rmdir()
    with log_path.open("wb") as log:
        log.truncate(50 << 30)  # takes no room, but its copy would
    with Database(path, "a.db") as opened:
        assert opened.frame("t", {"n": pl.Int64}).height == 1
        assert opened.notes == []


def test_without_a_write_ahead_log_no_file_is_created(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db", "PRAGMA journal_mode = WAL", "CREATE TABLE t (n)", "INSERT INTO t VALUES (1)")
    with Database(path, "a.db") as opened:
        assert opened.frame("t", {"n": pl.Int64}).height == 1
        assert [file.name for file in tmp_path.iterdir()] == ["a.db"]
        assert opened.notes == []


def test_an_unfinished_transaction_is_reported(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db", "CREATE TABLE t (n)", "INSERT INTO t VALUES (1)")
    (tmp_path / "a.db-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(600))
    with Database(path, "a.db") as opened:
        assert opened.frame("t", {"n": pl.Int64}).height == 1
        [note] = opened.notes
        assert (note.severity, note.text) == ("error", "a.db-journal")
        assert "the last write to the database is incomplete" in note.reason
    assert (tmp_path / "a.db-journal").exists()
    (tmp_path / "a.db-journal").write_bytes(bytes(600))
    with Database(path, "a.db") as opened:
        assert opened.notes == []


def test_a_database_being_written_gives_one_error_line(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db", "CREATE TABLE t (n)")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    with pytest.raises(ProftuiError, match=r"^a\.db: another process is writing to it; open it again"):
        Database(path, "a.db")
    writer.close()


def test_a_file_that_changes_while_it_is_read_is_reported(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db", "CREATE TABLE t (n)", "INSERT INTO t VALUES (1)")
    with Database(path, "a.db") as opened:
        opened.frame("t", {"n": pl.Int64})
        later = time.time() + 5
        os.utime(path, (later, later))
    assert len(reasons(opened)) == 1
    assert reasons(opened)[0].startswith("the file changed while it was read")


def leaf_pages(path: Path, root: int) -> list[int]:
    """Return the pages with the rows of a table whose tree has two levels."""
    content = path.read_bytes()
    size = int.from_bytes(content[16:18], "big")
    page = content[(root - 1) * size : root * size]
    assert page[0] == 5
    cells = int.from_bytes(page[3:5], "big")
    offsets = [int.from_bytes(page[12 + 2 * cell : 14 + 2 * cell], "big") for cell in range(cells)]
    pages = [int.from_bytes(page[offset : offset + 4], "big") for offset in offsets]
    return [*pages, int.from_bytes(page[8:12], "big")]


@pytest.mark.parametrize("count", [2_000, 60_000], ids=["small", "large"])
def test_rows_around_a_damaged_page_are_kept(tmp_path: Path, count: int) -> None:
    path = make(
        tmp_path / "a.db",
        "PRAGMA page_size = 32768",
        "CREATE TABLE t (n INTEGER, text TEXT)",
        rows=[(number, "x" * 100) for number in range(count)],
    )
    content = bytearray(path.read_bytes())
    size = 32768
    pages = leaf_pages(path, 2)
    damaged_page = pages[len(pages) // 2]
    content[(damaged_page - 1) * size : (damaged_page - 1) * size + 8] = b"\xff" * 8
    path.write_bytes(content)
    with Database(path, "a.db") as opened:
        read_values = opened.frame("t", {"n": pl.Int64})["n"]
        a_page = count / len(pages)
        assert count - 1.2 * a_page < len(read_values) < count
        assert read_values.is_sorted()
        assert (read_values[0], read_values[-1]) == (0, count - 1)
        assert opened.count("t") == len(read_values)
        assert all("damaged table (database disk image is malformed): up to" in reason for reason in reasons(opened))
        assert opened.notes


class DamagedConnection:
    """Gives rows with a text in place of an integer; queries that cover one row fail at it."""

    DAMAGED_ROW = 20

    def execute(self, _query: str, row_range: tuple[int, int]) -> DamagedConnection:
        self._row, self._last = row_range
        return self

    def fetchmany(self, _size: int) -> list[tuple[str]]:
        if self._row > self._last:
            return []
        self._row += 1
        if self._row - 1 == self.DAMAGED_ROW:
            raise sqlite3.DatabaseError("database disk image is malformed")
        return [("text",)]


def test_values_that_are_read_again_around_damage_are_counted_once() -> None:
    connection: Any = DamagedConnection()
    result = salvage_range(connection, "t", "rowid", {"n": pl.Int64}, (1, 64), lambda _: True)

    assert result.data.height + result.lost_row_ids == 64
    assert result.unfit == {"n": result.data.height}


def test_the_beginning_of_a_truncated_file_is_kept(tmp_path: Path) -> None:
    path = write_numbers(tmp_path / "a.db", 30_000)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with Database(path, "a.db") as opened:
        read_numbers = opened.frame("t", {"n": pl.Int64})["n"]
        assert 10_000 < len(read_numbers) < 20_000
        assert read_numbers.to_list() == list(range(len(read_numbers)))
        assert "shorter than its header claims" in reasons(opened)[0]


def test_a_stop_keeps_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_rows, "RANGE_ROWS", 10_000)
    path = write_numbers(tmp_path / "a.db", 100_000)
    with Database(path, "a.db", keep_going=lambda rows: rows < 30_000) as opened:
        data = opened.frame("t", {"n": pl.Int64})
        assert data["n"].to_list() == list(range(30_000))
        assert opened.frame("t", {"n": pl.Int64}).is_empty()
        assert opened.count("t") == 0
        assert opened.notes == []


def test_a_query_can_be_stopped_between_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_STEPS_PER_CHECK", 100)
    monkeypatch.setattr(database, "_MIN_BULK_ROWS", 1 << 20)
    path = write_numbers(tmp_path / "a.db", 50_000)
    calls = 0

    def keep_going(_rows: int) -> bool:
        nonlocal calls
        calls += 1
        return calls < 5

    with Database(path, "a.db", keep_going=keep_going) as opened:
        assert opened.frame("t", {"n": pl.Int64}).height < 50_000
        assert calls == 5
        assert opened.notes == []


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0", b"SQLite format 3\0" + bytes(4096)])
def test_a_file_that_is_not_a_database_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(content)
    with pytest.raises(ProftuiError, match=r"^a\.db: "):
        Database(path, "a.db")


def test_a_database_of_a_newer_sqlite_is_reported(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db", "CREATE TABLE t (n)")
    content = bytearray(path.read_bytes())
    content[19] = 3
    path.write_bytes(content)
    with pytest.raises(ProftuiError, match="written by a newer SQLite version than this one"):
        Database(path, "a.db")


def test_a_table_with_an_invalid_definition_is_reported(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.db",
        "CREATE TABLE t (n)",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = 'CREATE TABLE t (n' WHERE name = 't'",
    )
    with Database(path, "a.db") as opened:
        assert "t" not in opened.tables
        assert [(note.severity, note.text) for note in opened.notes] == [
            ("error", "malformed database schema (t) - incomplete input")
        ]


def test_damage_with_undecodable_text_is_reported(tmp_path: Path) -> None:
    path = make(tmp_path / "x.db", "CREATE TABLE t (n INTEGER)", "CREATE TABLE broken (n INTEGER)")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"TABLE broken", b"TAB\xffE broken"))
    with Database(path, "x.db") as opened:
        assert "t" in opened.tables
        assert any("damaged" in reason for reason in reasons(opened))


def test_names_are_quoted_in_sql(tmp_path: Path) -> None:
    name = 't"; DROP TABLE u; --'
    quoted = name.replace('"', '""')
    path = make(tmp_path / "a.db", f'CREATE TABLE "{quoted}" ("n""," INTEGER)', f'INSERT INTO "{quoted}" VALUES (4)')
    with Database(path, "a.db") as opened:
        assert opened.frame(name, {'n",': pl.Int64}).rows() == [(4,)]
        assert opened.count(name) == 1
