"""Views agree with `proftui report --view VIEW --format json`, cell by cell.

The first tables of all views are compared in test_every_view.py, further parts where the view itself is tested.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.parameters import others_slow
from tests.screens.explorer import app_of, open_explorer, press, screen_of, settle
from tui.analysis.iterations.work import ITERATION_LAUNCHES
from tui.output.check import Check
from tui.output.report import as_json
from tui.output.report_annotations import NotesReport, SavedNotes
from tui.screens.kernels_by_iteration import open_iteration
from tui.screens.linked_tables import LinkedTables
from tui.text import begin_sentence

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

    from tui.model.profile import Profile
    from tui.widgets.table.pane import TablePane

OBJECTS: Final = ("numbers", "thresholds", "evidence")
"""Columns of findings that are JSON of their own."""


async def go_by_command(pilot: Pilot[None], view: str) -> TablePane:
    """Go to a view by a command, and return its first table."""
    await press(pilot, "colon")
    await pilot.press(*view, "enter")
    await settle(pilot)
    screen = screen_of(pilot)
    assert view == screen.VIEW
    assert screen.first_table is not None
    return screen.first_table


def cells_of(pane: TablePane) -> list[dict[str, Any]]:
    """Return the rows on the screen as a report writes them."""
    frame = pane.model.shown_frame()
    columns = [column.name for column in pane.spec.columns if column.name in frame.columns]
    cells: list[dict[str, Any]] = json.loads(frame.select(columns).write_json())
    return cells


def report_rows(profile: Profile, view: str) -> list[dict[str, Any]]:
    """Return the rows of the first table of a report."""
    rows: list[dict[str, Any]] = json.loads(as_json(profile, view))["rows"]
    return rows


@pytest.mark.parametrize(
    ("view", "below", "table"),
    [
        ("kernels-by-iteration", "launches", ITERATION_LAUNCHES.name),
        ("kernels-by-op", "ops", "iteration_ops"),
    ],
)
async def test_the_work_of_the_slowest_iteration_agrees_with_the_report(view: str, below: str, table: str) -> None:
    async with open_explorer("resnet50_training.pt.trace.json.gz") as pilot:
        pane = await go_by_command(pilot, view)
        content = json.loads(as_json(app_of(pilot).profile_session.profile, view))
        slowest = max(content["rows"], key=lambda row: row["duration_ns"] or 0)
        screen = screen_of(pilot)
        tables = screen.query_one(LinkedTables)
        open_iteration(tables, slowest["session"], slowest["iteration"])
        await settle(pilot)
        assert pane.current_row is not None
        assert pane.current_row["iteration"] == slowest["iteration"]
        cells = cells_of(tables.pane(1))
        assert tables.pane(1).id == below
        assert len(cells) == len(content[table]) > 10
        for place, row in enumerate(cells):
            assert row == pytest.approx({column: content[table][place][column] for column in row}), place


@pytest.mark.parametrize(
    "sample", others_slow(("resnet50_training.nvprof.log", "ddp_ranks", "gemm.ncu.csv"), ("gemm.ncu.csv",))
)
async def test_findings_agree_with_proftui_check(sample: str) -> None:
    async with open_explorer(sample) as pilot:
        pane = await go_by_command(pilot, "expert-systems")
        await press(pilot, "G", "enter")
        findings = json.loads(Check(app_of(pilot).profile_session.profile).as_json())["findings"]
        for finding in findings:
            del finding["key"], finding["what_if"]
        rows = [
            {name: json.loads(cell) if name in OBJECTS and cell else cell for name, cell in row.items()}
            for row in pane.model.shown_frame().to_dicts()
        ]
        found = [row for row in rows if row["state"] == "found"]
        assert [{name: row[name] for name in one} for row, one in zip(found, findings, strict=False)] == findings[
            : len(found)
        ]
        assert [row["message"] for row in found] == [row["problem"] for row in findings if row["state"] == "found"]
        inapplicable = {
            (rule, row["message"])
            for row in rows
            if row["state"] == "not applicable"
            for rule in row["all_rules"].split()
        }
        assert inapplicable == {
            (row["rule"], begin_sentence(row["reason"])) for row in findings if row["state"] == "not applicable"
        }
        clean = [(row["rule"], row["session"], row["reason"]) for row in rows if row["state"] == "clean"]
        assert clean == [(row["rule"], row["session"], row["reason"]) for row in findings if row["state"] == "clean"]


async def test_other_summaries_agree_with_the_report(tmp_path: Path) -> None:
    log = tmp_path / "um.log"
    log.write_text(
        "==7== Profiling result:\n"
        "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
        " GPU activities:  100.00%  10.000us         2  5.0000us  4.0000us  6.0000us  gemm(float*)\n"
        "\n"
        "==7== Unified Memory profiling result:\n"
        'Device "Tesla V100-SXM2-16GB (0)"\n'
        "   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name\n"
        "       3         -         -         -           -  1.500000ms  Gpu page fault groups\n"
        "Total CPU Page faults: 12\n"
    )
    async with open_explorer(str(log)) as pilot:
        cells, rows = (
            cells_of(await go_by_command(pilot, "summaries")),
            report_rows(app_of(pilot).profile_session.profile, "summaries"),
        )
        assert cells == [{column: row[column] for column in cells[0]} for row in rows]
        assert [row["name"] for row in rows] == ["Gpu page fault groups", "CPU Page faults"]


async def test_notes_agree_with_the_report() -> None:
    async with open_explorer("resnet50_training.nvprof.log") as pilot:
        await press(pilot, "4", "M", *"ask", "enter")
        pane, app = await go_by_command(pilot, "notes"), app_of(pilot)
        rows = json.loads(NotesReport(SavedNotes(dict(app.notes.store.by_name), app.session_restore.files)).as_json())[
            "rows"
        ]
        assert [row["note"] for row in rows] == ["ask"]
        assert cells_of(pane) == [{column: row[column] for column in cells_of(pane)[0]} for row in rows]
