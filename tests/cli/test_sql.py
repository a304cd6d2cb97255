"""``proftui sql``: the same figures as the reports, in every format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.screens.explorer import sample_path
from tui.analysis.notes_table import notes_frame
from tui.cli.main import main
from tui.loaders.registry import load_input
from tui.query.sql import run as sql_run
from tui.query.sql.run import sql_tables

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.profile import Profile

CAFFE = "caffe_conv1.nvprof.log"


def run_sql(capfd: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(["sql", sample_path(CAFFE), *arguments]) == status
    messages = capfd.readouterr()
    return messages.err if status else messages.out


def test_the_columns_of_all_tables_are_learned_from_one_empty_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    profiles = []

    def frame(profile: Profile, _name: str) -> pl.DataFrame:
        profiles.append(profile)
        return pl.DataFrame({"name": []})

    monkeypatch.setattr(sql_run, "frame", frame)
    sql_run._frame_columns.cache_clear()
    assert [sql_run._frame_columns(name) for name in ("kernels", "gaps")] == [("name",)] * 2
    sql_run._frame_columns.cache_clear()
    # Results cached for one table are reused for the next.
    assert profiles[0] is profiles[1]


def test_sums_agree_with_the_report(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["report", sample_path(CAFFE), "--view", "kernels", "--format", "json"]) == 0
    reported = json.loads(capfd.readouterr().out)["rows"]
    selected = json.loads(
        run_sql(capfd, "SELECT name, calls, total_ns FROM kernels ORDER BY total_ns DESC, name", "--format", "json")
    )["rows"]
    expected = sorted(reported, key=lambda row: (-row["total_ns"], row["name"]))
    names = ("name", "calls", "total_ns")
    assert [[row[name] for name in names] for row in selected] == [[row[name] for name in names] for row in expected]
    total = run_sql(capfd, "SELECT SUM(duration_ns) AS ns FROM activities")
    assert total == f"ns\n{sum(row['total_ns'] for row in reported)}\n"


def test_numbers_with_a_point_are_numbers_in_json(capfd: pytest.CaptureFixture[str]) -> None:
    output = run_sql(capfd, "SELECT 1.5 * 2 AS a, SUM(calls) > 1.5 AS b, COUNT(*) FROM kernels", "--format", "json")
    assert json.loads(output)["rows"] == [{"key": "1", "a": 3.0, "b": True, "COUNT(*)": 11}]


def test_text_output_ends_with_the_row_count(capfd: pytest.CaptureFixture[str]) -> None:
    text = run_sql(capfd, "SELECT device, name FROM devices", "--format", "text")
    assert text.splitlines()[-1] == "(1 row)"
    assert run_sql(capfd, "SELECT name FROM kernels WHERE calls < 0", "--format", "text") == "(0 rows)\n"


def test_an_output_file_is_not_replaced(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "found.csv"
    run_sql(capfd, "SELECT COUNT(*) AS n FROM activities", "-o", str(target))
    assert target.read_text() == "n\n32\n"
    assert "exists" in run_sql(capfd, "SELECT 1 AS n", "-o", str(target), status=2)


@pytest.mark.parametrize("text", ["DROP TABLE kernels", "SELECT * FROM nowhere", "SELECT * FROM read_csv('x')"])
def test_invalid_queries_are_one_line_and_a_hint(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    messages = run_sql(capfd, text, status=2).splitlines()
    assert len(messages) == 2
    assert messages[0].startswith("proftui: ")


def test_notes_are_a_table(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_sql(capfd, "SELECT COUNT(*) AS notes FROM notes") == "notes\n0\n"


@pytest.mark.parametrize("name", ["caffe_conv1.nvprof.log", "mlp_modules.pt.trace.json.gz"])
def test_declared_columns_agree_with_the_computed_tables(name: str) -> None:
    profile = load_input(sample_path(name))
    tables = sql_tables(profile, lambda: notes_frame({}, None))
    tables.learn_columns()
    declared = {table: tables.columns(table) for table in tables.names}
    assert declared["kernels"][:3] == ("session", "kind", "name")
    for table in tables.names:
        assert tuple(tables.frame(table).columns) == declared[table], table
