"""Reaching into views of several tabs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.screens.opening import app_of
from tui.output.report import as_json
from tui.screens.tabs import TabbedTables
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui.screens.base import ViewScreen


def screen_of(pilot: Pilot[None]) -> ViewScreen:
    """The view that is shown."""
    screen = app_of(pilot).view_screen
    assert screen is not None
    return screen


def tabs_of(pilot: Pilot[None]) -> TabbedTables:
    """Its tabs."""
    return screen_of(pilot).query_one(TabbedTables)


def table_of(pilot: Pilot[None], name: str) -> TablePane:
    """One of its tables, whether it is shown or not."""
    return screen_of(pilot).query_one(f"#{name}", TablePane)


def column_of(pilot: Pilot[None], name: str, column: str) -> list[object]:
    """A column of a table, as it is shown."""
    return table_of(pilot, name).model.shown_frame()[column].to_list()


def reported(pilot: Pilot[None], view: str) -> dict[str, Any]:
    """What `proftui report --view VIEW --format json` says of the same input."""
    found: dict[str, Any] = json.loads(as_json(app_of(pilot).profile_session.profile, view))
    return found


def assert_reported(pilot: Pilot[None], name: str, rows: list[dict[str, Any]], *, of: str = "") -> None:
    """A table has the very rows of a report, cell for cell, as far as it has its columns.

    Args:
        pilot: With the view open.
        name: The table.
        rows: Of the report.
        of: The condition that the table is of some of the rows alone, as a column; they share its value.
    """
    shown = table_of(pilot, name).frame
    expected = [row for row in rows if not of or row[of] == shown[of][0]]
    assert shown.height == len(expected) > 0
    for place, row in enumerate(json.loads(shown.write_json())):
        for column, value in expected[place].items():
            if column in row:
                assert row[column] == value, (place, column)
