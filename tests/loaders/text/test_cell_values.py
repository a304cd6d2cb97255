"""Cells of a table as numbers."""

from __future__ import annotations

import polars as pl
import pytest

from tui.loaders.collector import Collector
from tui.loaders.text.section import CellValues


@pytest.mark.parametrize(
    ("cell", "value"), [("7", 7), ("1,024", 1024), ("12.0", 12), ("1.5e3", 1500), ("-", None), ("12.5", None)]
)
def test_a_cell_is_a_whole_number_or_unknown(cell: str, value: int | None) -> None:
    collector = Collector("run.csv")
    collector.open_session("nsys-stats", None)
    # The other cell is no number, so that the column is text.
    values = CellValues(pl.DataFrame({"count": [cell, "many"], "line": [3, 4]}), collector)

    assert values.integer("count").to_list() == [value, None]
    bad = [cell, "many"] if cell == "12.5" else ["many"]
    assert collector.profile()["issues"].select("text", "reason").rows() == [
        (text, "not a number in the column 'count': shown as unknown") for text in bad
    ]
