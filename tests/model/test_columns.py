"""The columns that people see, each declared once."""

from __future__ import annotations

from collections import Counter

from tui.model import columns


def test_no_two_columns_have_one_name() -> None:
    names = Counter(column.name for column in columns._ALL)
    assert [name for name, times in names.items() if times > 1] == []


def test_the_machine_and_what_the_cpu_does_in_a_gap_are_two_things() -> None:
    assert [column.title for column in columns.columns("host", "cpu_in")] == ["Host", "CPU in"]
