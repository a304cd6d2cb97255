"""Any damage of a database or a report: it opens or gets one clear line."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.loaders.dlprof.test_reports import DETAILED, EXPERT, ITERATION, KERNEL, SUMMARY
from tests.loaders.dlprof.twin import TABLES, read, write
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError
from tui.model.schema import FRAMES

odd_values = st.one_of(
    st.none(),
    st.sampled_from([0, -1, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63), 1e300, float("inf"), "", "x", "7", b"\xff\0"]),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.text(max_size=5),
)
places = st.sampled_from(
    [
        (table, row, column)
        for table, (_, rows) in TABLES.items()
        for row, cells in enumerate(rows)
        for column in range(len(cells))
    ]
)


@given(st.lists(st.tuples(places, odd_values), min_size=1, max_size=12))
def test_any_value_in_any_cell_raises_no_exception(changes: list[tuple[tuple[str, int, int], object]]) -> None:
    rows = {table: [list(row) for row in rows] for table, (_, rows) in TABLES.items()}
    for (table, row, column), value in changes:
        rows[table][row][column] = value
    tables = {table: (columns, [tuple(row) for row in rows[table]]) for table, (columns, _) in TABLES.items()}
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(ProftuiError):
        profile = read(write(Path(folder) / "a", tables))
        assert {name: profile[name].schema for name in FRAMES} == dict(FRAMES)
        assert profile["activities"].height == 6
        assert profile["activities"].filter(pl.col("duration_ns") < 0).is_empty()
        assert profile["activities"].filter(pl.col("duration_ns") > 7 * 24 * 3600 * 10**9).is_empty()
        assert profile["ops"].height >= 5


@given(st.data())
def test_any_line_of_a_report_may_be_damaged(data: st.DataObject) -> None:
    lines = data.draw(st.sampled_from([ITERATION, KERNEL, DETAILED, SUMMARY, EXPERT])).split("\n")
    for _ in range(data.draw(st.integers(1, 4))):
        number = data.draw(st.integers(0, len(lines) - 1))
        line = lines[number]
        position = data.draw(st.integers(0, len(line)))
        piece = data.draw(st.sampled_from(["", '"', ",", "\n", "9" * 30, "\x1b[2J", "nan", "é", "Kernel Report"]))
        lines[number] = line[:position] + piece + line[position + data.draw(st.integers(0, 5)) :]
    with contextlib.suppress(ProftuiError):
        profile = load_input("a.csv", stream=io.BytesIO("\n".join(lines).encode()))
        assert {name: profile[name].schema for name in FRAMES} == dict(FRAMES)
