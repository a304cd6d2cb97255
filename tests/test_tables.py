"""The registry of tables: every reference resolves, and the declared columns are those that are computed."""

from __future__ import annotations

from typing import Final

import pytest

from tests.parameters import others_slow
from tests.profiles import SAMPLES, load_one
from tui.analysis import needs
from tui.analysis.needs import Need
from tui.cli.arguments import command_parser
from tui.model.profile import Profile
from tui.model.schema import FRAMES, empty
from tui.model.table_spec import TableSpec
from tui.tables import (
    ALL_REPORTS,
    COMPUTED,
    EXPORTED,
    MODEL_FRAMES,
    REPORTS,
    TABLES,
    VIEW_OF_REPORT,
    Table,
    frame,
    needs_of_views,
    view_of_report,
)
from tui.views import VIEWS

DEEP: Final = ("mlp_modules.pt.trace.json.gz", "resnet50_training.pt.trace.json.gz", "jax_train_step.trace.json.gz")
"""Samples with ops, which most tables are computed from."""
EMPTY = Profile({name: empty(name) for name in FRAMES}, ())


def test_the_registry_has_all_frames_of_the_model() -> None:
    assert tuple(FRAMES) == MODEL_FRAMES


def test_names_are_unique() -> None:
    assert len({table.name for table in TABLES}) == len(TABLES)
    assert len(set(EXPORTED)) == len(EXPORTED)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_has_the_columns_that_it_declares(table: Table) -> None:
    rows = table.rows(EMPTY)
    # Rules have results for an empty profile, too.
    assert rows.is_empty() or table.name == "findings"
    if table.is_exported:
        assert table.exported_rows(EMPTY).columns
    if table.spec:
        spec = table.table_spec(EMPTY)
        assert isinstance(spec, TableSpec)
        assert set(spec.key) <= set(rows.columns)
        assert {column.name for column in spec.columns} <= set(rows.columns)
        assert not table.is_summed or spec.weight in rows.columns


@pytest.mark.parametrize("name", others_slow(DEEP, DEEP[:1]))
def test_a_table_is_the_same_when_it_is_computed_again(name: str) -> None:
    recorded = load_one(str(SAMPLES / name))
    first, second = (Profile({part: recorded[part].clone() for part in FRAMES}, recorded.sources) for _ in range(2))
    for table in COMPUTED:
        assert frame(first, table).equals(frame(second, table)), table


def test_needs_of_views_are_defined() -> None:
    assert {type(getattr(needs, name)) for name in needs_of_views().values()} == {Need}


def test_every_report_is_a_command_line_argument_and_has_a_view() -> None:
    assert set(REPORTS) | {"dashboard", "findings", "notes"} == set(ALL_REPORTS)
    for name in (*ALL_REPORTS, *VIEW_OF_REPORT.values()):
        view = command_parser("report").parse_args(["run.log", "--view", name]).view
        assert view in ALL_REPORTS
        assert view_of_report(view) == view_of_report(name)
    assert {view_of_report(report) for report in REPORTS} <= {view.name for view in VIEWS}


def test_every_view_has_a_screen() -> None:
    from tui.app.navigator import screen_class
    from tui.screens.table_screen import TableScreen

    screens = {view.name: screen_class(view.name).for_view(view.name) for view in VIEWS}
    assert {name: screen.VIEW for name, screen in screens.items()} == {name: name for name in screens}
    assert type(screens["tool-report"]) is TableScreen
