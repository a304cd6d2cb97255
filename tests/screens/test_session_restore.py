"""Restoring the last session of a file: offered when it is opened, and restored only on request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from tests.screens.explorer import (
    app_of,
    assert_at_sizes,
    message_of,
    open_explorer,
    press,
    run_line,
    run_sql,
    sample_path,
    screen_of,
    settle,
    table_of,
    view_of,
)
from tests.snapshots import screen_text
from tests.waiting import wait_until
from tui.app.session_restore import NO_FILE
from tui.screens import base
from tui.state import workspace
from tui.state.store import files
from tui.widgets.panel import OfferLine
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion
    from textual.pilot import Pilot

CAFFE = "caffe_conv1.nvprof.log"
TRACE = "resnet50_training.csv"


def resume_offers(pilot: Pilot[None]) -> list[str]:
    """Return the offers to resume on the screen."""
    screen = screen_of(pilot)
    return [line.render().plain for line in screen.query(OfferLine)]


async def leave_in_kernels(path: str, **options: Any) -> dict[str, Any]:
    """Filter, sort, mark and open a row of the kernels, quit, and return that row."""
    async with open_explorer(path, **options) as pilot:
        await run_line(pilot, "kernels")
        table = table_of(pilot, "kernels")
        table.set_filter("gemm")
        table.set_sort((("calls", False),))
        await settle(pilot)
        await press(pilot, "space", "j", "enter", "j")
        row = table.current_row
        assert row is not None
        await press(pilot, "Q")
    return row


async def test_a_key_restores_the_last_session_of_a_file(state_directory: Path) -> None:
    row = await leave_in_kernels(TRACE)
    stored = list((state_directory / "left-off").iterdir())
    assert len(stored) == 1
    assert stored[0].stat().st_mode & 0o777 == 0o600
    async with open_explorer(TRACE) as pilot:
        assert view_of(pilot) == "dashboard"
        assert resume_offers(pilot) == ["Last time: Kernels, filter gemm, 1 marked: press ' to return"]
        await press(pilot, "apostrophe")
        assert not resume_offers(pilot)
        assert view_of(pilot) == "kernels"
        table = table_of(pilot, "kernels")
        assert (table.state.filter, table.state.sort) == ("gemm", (("calls", False),))
        assert table.current_row == row
        assert len(table.table.model.marks) == 1
        launches = table_of(pilot, "launches")
        assert launches.table.model.cursor_row == 1
        assert app_of(pilot).view_screen is not None
        assert app_of(pilot).view_screen.place().level == "launches"
        assert message_of(pilot) == ""


async def test_the_query_of_the_sql_view_is_run_again() -> None:
    query = "SELECT name, calls FROM kernels ORDER BY calls DESC LIMIT 2"
    async with open_explorer(CAFFE) as pilot:
        rows = (await run_sql(pilot, query)).query_one("#result", TablePane).frame
        await press(pilot, "tab", "Q")
    async with open_explorer(CAFFE) as pilot:
        await press(pilot, "apostrophe")
        await pilot.app.workers.wait_for_complete()
        await settle(pilot)
        assert view_of(pilot) == "sql"
        assert table_of(pilot, "result").frame.equals(rows)
        assert query in screen_text(pilot.app)


async def test_a_comparison_is_restored_in_any_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "before.log").write_bytes(Path(sample_path(CAFFE)).read_bytes())
    monkeypatch.chdir(tmp_path)
    async with open_explorer(CAFFE) as pilot:
        app = app_of(pilot)
        app.run_line(":compare before.log")
        await wait_until(pilot, lambda: view_of(pilot) == "compare", "the comparison")
        await settle(pilot)
        await press(pilot, "full_stop", "Q")
    monkeypatch.chdir("/")
    async with open_explorer(CAFFE) as pilot:
        app = app_of(pilot)
        await press(pilot, "apostrophe")
        await wait_until(pilot, lambda: app.comparison.sides is not None, "the comparison")
        await settle(pilot)
        assert view_of(pilot) == "compare"
        assert (
            table_of(pilot, "changed_kernels").frame["a_total_ns"].sum()
            == table_of(pilot, "changed_kernels").frame["b_total_ns"].sum()
        )
        assert app.comparison.sides is not None
        assert (app.comparison.sides.a.label, app.comparison.sides.b.label) == ("before.log", CAFFE)


async def test_nothing_is_restored_automatically_and_the_offer_ends_with_the_next_key() -> None:
    await leave_in_kernels(CAFFE)
    async with open_explorer(CAFFE) as pilot:
        assert len(resume_offers(pilot)) == 1
        await press(pilot, "j")
        assert not resume_offers(pilot)
        await run_line(pilot, "kernels")
        assert table_of(pilot, "kernels").state.filter == ""
        assert not table_of(pilot, "kernels").model.marks


async def test_opening_only_the_dashboard_keeps_the_stored_session() -> None:
    await leave_in_kernels(CAFFE)
    async with open_explorer(CAFFE) as pilot:
        await press(pilot, "Q")
    async with open_explorer(CAFFE) as pilot:
        assert "Kernels, filter gemm" in resume_offers(pilot)[0]


async def test_resume_on_the_command_line_restores_the_session() -> None:
    await leave_in_kernels(CAFFE)
    async with open_explorer(CAFFE, resume=True) as pilot:
        await wait_until(pilot, lambda: view_of(pilot) == "kernels", "the view")
        await settle(pilot)
        assert not resume_offers(pilot)
        assert table_of(pilot, "kernels").state.filter == "gemm"
    async with open_explorer("gpt_summary.nvprof.log", resume=True) as pilot:
        assert message_of(pilot) == "Nothing is saved for this file yet."


async def test_iterations_session_and_other_views_are_restored() -> None:
    async with open_explorer(TRACE) as pilot:
        await run_line(pilot, "kernels")
        table_of(pilot, "kernels").set_filter("gemm")
        app_of(pilot).run_line("aggregate 1")
        await press(pilot, "7", "j")
        await press(pilot, "Q")
    async with open_explorer(TRACE) as pilot:
        assert "Iterations, iteration 1" in resume_offers(pilot)[0]
        await run_line(pilot, "resume")
        assert view_of(pilot) == "iterations"
        assert app_of(pilot).profile_session.aggregation.text == "iteration 1"
        await run_line(pilot, "kernels")
        assert table_of(pilot, "kernels").state.filter == "gemm"


async def test_a_changed_file_is_reported_and_missing_rows_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    text = Path(sample_path(CAFFE)).read_text()
    path.write_text(text)
    row = await leave_in_kernels(str(path))
    path.write_text(text.replace(str(row["name"]).split("(")[0], "another_gemm"))
    async with open_explorer(str(path)) as pilot:
        assert resume_offers(pilot)[0].startswith("The file has changed. Last time: Kernels")
        await press(pilot, "apostrophe")
        await wait_until(pilot, lambda: "Not found: 1 marked row" in message_of(pilot), "the words")
        assert message_of(pilot).startswith("The file has changed.\n")
        assert table_of(pilot, "kernels").state.filter == "gemm"


async def test_rows_are_not_reported_missing_before_the_tables_are_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    # A look again after that long does not count as being at work.
    monkeypatch.setattr(base, "CHECK_EVERY_S", 0.05)
    row = await leave_in_kernels(TRACE)
    async with open_explorer(TRACE) as pilot:
        original = TablePane.cursor_settled
        held: list[TablePane] = []
        monkeypatch.setattr(TablePane, "cursor_settled", lambda pane: held.append(pane))
        app = app_of(pilot)
        await press(pilot, "apostrophe")
        await wait_until(
            pilot, lambda: view_of(pilot) == "kernels" and table_of(pilot, "kernels").current_row == row, "the row"
        )
        screen = app.view_screen
        assert screen is not None
        # The launches are still those of the first kernel: a message would be of the row that was left among them.
        assert table_of(pilot, "launches").model.missing_of(table_of(pilot, "launches").state)[0]
        assert screen.is_filling
        monkeypatch.setattr(TablePane, "cursor_settled", original)
        for pane in held:
            pane.cursor_settled()
        await wait_until(pilot, lambda: not screen.is_filling, "the launches")
        assert table_of(pilot, "launches").model.cursor_row == 1
        assert message_of(pilot) == ""


async def test_missing_views_sessions_and_iterations_are_reported(state_directory: Path) -> None:
    known = files([sample_path(CAFFE)])
    assert known is not None
    place = workspace.SavedPlace("kernels", "kernels", (workspace.SavedTable("kernels", filter="gemm"),))
    where = workspace.Workspace(
        known.stamp, (workspace.SavedPlace("tea-leaves"), place), session=7, first=900, last=901, global_filter=""
    )
    assert workspace.save(known, where) == ""
    async with open_explorer(CAFFE) as pilot:
        await press(pilot, "apostrophe")
        assert "Session 7 no longer exists: showing all" in message_of(pilot)
        assert "View tea-leaves no longer exists." in message_of(pilot)
        assert "showing all iterations" in message_of(pilot)
        assert app_of(pilot).profile_session.session is None
        assert not app_of(pilot).profile_session.aggregation.is_part
        assert table_of(pilot, "kernels").state.filter == "gemm"


HOSTILE = (
    {"view": "kernels", "level": "x" * 50_000},
    {"view": "timeline", "spot": [0, -5, 0, 0, 0]},
    {"view": "timeline", "spot": [1, 2]},
    {"view": "log", "line": 2**70},
    {"view": "log", "line": -3},
    {"view": "kernels", "tables": [{"pane": "kernels", "cursor_key": [[1]]}]},
    {"view": "kernels", "tables": [{"pane": "kernels", "max_rows": -1}]},
    {"view": 5},
)


@pytest.mark.parametrize("place", HOSTILE)
async def test_invalid_stored_places_are_ignored(state_directory: Path, place: dict[str, object]) -> None:
    known = files([sample_path(CAFFE)])
    assert known is not None
    content = {"version": 1, "entries": {"last": {"stamp": known.stamp, "places": [place]}}}
    folder = state_directory / "left-off"
    folder.mkdir(parents=True)
    (folder / f"{known.name}.json").write_text(json.dumps(content))
    assert workspace.read_workspace(known) == (None, "")


async def test_hostile_stored_values_do_no_harm() -> None:
    known = files([sample_path(CAFFE)])
    assert known is not None
    table = workspace.SavedTable(
        "kernels",
        filter="\x1b[31m[red]((",
        sort=(("no such column", True),),
        cursor_key=("a", 2**63, None, True),
        cursor_column="[bold]",
        marks=((None,), (1, 2, 3), ("0", "kernel", "x"), (0, "no such kind", "x")),
    )
    place = workspace.SavedPlace("kernels", "no such level", (table, workspace.SavedTable("#; nothing")))
    where = workspace.Workspace(known.stamp, (place,), key="[red]no such key", global_filter="\x1b]0;title\x07")
    assert workspace.save(known, where) == ""
    async with open_explorer(CAFFE) as pilot:
        assert "\x1b" not in screen_text(pilot.app)
        assert len(resume_offers(pilot)) == 1
        await press(pilot, "apostrophe")
        assert view_of(pilot) == "kernels"
        await press(pilot, "j", "escape", "escape", "7")


async def test_a_state_of_another_version_is_reported_and_not_changed(state_directory: Path) -> None:
    known = files([sample_path(CAFFE)])
    assert known is not None
    folder = state_directory / "left-off"
    folder.mkdir(parents=True)
    path = folder / f"{known.name}.json"
    path.write_text('{"version": 99, "entries": {}}')
    await leave_in_kernels(CAFFE)
    async with open_explorer(CAFFE) as pilot:
        assert "another version" in message_of(pilot)
        assert not resume_offers(pilot)
    assert path.read_text() == '{"version": 99, "entries": {}}'


async def test_forget_deletes_the_stored_session(state_directory: Path) -> None:
    await leave_in_kernels(CAFFE)
    async with open_explorer(CAFFE) as pilot:
        await run_line(pilot, "kernels")
        app_of(pilot).run_line("forget")
        await press(pilot, "Q")
    assert list((state_directory / "left-off").iterdir()) == []


async def test_the_place_is_stored_periodically_and_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known = files([sample_path(CAFFE)])
    assert known is not None
    async with open_explorer(CAFFE) as pilot:
        restore = app_of(pilot).session_restore
        restore._save_regularly()
        await settle(pilot)
        assert workspace.read_workspace(known) == (None, "")
        await run_line(pilot, "kernels")
        table_of(pilot, "kernels").set_filter("gemm")
        await settle(pilot)
        restore._save_regularly()
        await settle(pilot)
        left, _warning = workspace.read_workspace(known)
        assert left is not None
        assert left.place.view == "kernels"
        assert left.place.tables[0].filter == "gemm"
        written = []
        monkeypatch.setattr(workspace, "save", lambda _files, where: written.append(where))
        restore._save_regularly()
        await settle(pilot)
        assert written == []
        table_of(pilot, "kernels").set_filter("conv")
        await settle(pilot)
        restore._save_regularly()
        await settle(pilot)
        assert [where.place.tables[0].filter for where in written] == ["conv"]


async def test_standard_input_cannot_be_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.state.store.files", lambda _paths: None)
    async with open_explorer(CAFFE, notifications=True, resume=True) as pilot:
        assert message_of(pilot) == NO_FILE
        assert not resume_offers(pilot)


async def test_a_query_that_cannot_be_stored_is_reported() -> None:
    async with open_explorer(CAFFE, notifications=True) as pilot:
        restore = app_of(pilot).session_restore
        with patch.object(type(restore.queries), "keep", lambda _self, text, _name: f"{text}: the disk is full"):
            restore.keep_query("SELECT 1")
            await settle(pilot)
        assert message_of(pilot) == "SELECT 1: the disk is full"


async def test_screen(snapshot: SnapshotAssertion) -> None:
    await leave_in_kernels(CAFFE)
    async with open_explorer(CAFFE) as pilot:
        await assert_at_sizes(pilot, snapshot)
