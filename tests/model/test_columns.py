"""The visible columns, each declared once."""

from __future__ import annotations

from collections import Counter

from tui.model import columns


def test_column_names_are_unique() -> None:
    names = Counter(column.name for column in columns._ALL)
    assert [name for name, times in names.items() if times > 1] == []


def test_the_host_and_the_cpu_activity_in_a_gap_are_different_columns() -> None:
    assert [column.title for column in columns.columns("host", "cpu_in")] == ["Host", "CPU in"]
