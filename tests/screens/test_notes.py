"""Notes on rows: written, shown, stored, linked, deleted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.screens.explorer import (
    FAST_VIEW,
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
    write_note,
)
from tests.snapshots import screen_text
from tests.waiting import WorkerGate, wait_until
from tui.analysis.timeline.shown import lane_title
from tui.app.row_notes import VIEWS_WITHOUT_NOTES
from tui.app.session_restore import NO_FILE
from tui.screens import base
from tui.screens.kernels import KERNEL_LEVEL, LAUNCH_LEVEL, launches_of_kernel
from tui.screens.linked_tables import LinkedTables
from tui.screens.table_screen import NotesScreen
from tui.screens.timeline import TimelineScreen
from tui.state.notes import Notes
from tui.state.store import files
from tui.widgets.dialogs.texts import NoteDialog, NoteEditor
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syrupy.assertion import SnapshotAssertion

    from tui.model.profile import Profile
    from tui.screens.linked_tables import Row

CAFFE = "caffe_conv1.nvprof.log"


def names_with_notes(table: TablePane) -> list[str]:
    return [str(table.frame["name"][row]) for row in sorted(table.table.model.noted)]


async def test_a_note_is_typed_and_marks_its_row(state_directory: Path) -> None:
    async with open_explorer(CAFFE, view="kernels") as pilot:
        table = table_of(pilot, "kernels")
        await press(pilot, "j", "M")
        await press(pilot, *"see", "ctrl+j", *"this")
        await press(pilot, "enter")
        await pilot.app.workers.wait_for_complete()
        await settle(pilot)
        row = table.current_row
        assert row is not None
        assert names_with_notes(table) == [row["name"]]
        assert "\n# " in screen_text(pilot.app)
        note = next(iter(app_of(pilot).notes.store.by_name.values()))
        assert (note.text, note.place.view, note.words) == ("see\nthis", "kernels", row["name"])
        await press(pilot, "i")
        lines = screen_text(pilot.app).splitlines()
        note_line = next(number for number, line in enumerate(lines) if line.lstrip().startswith("Note"))
        assert lines[note_line].split() == ["Note", "see"]
        assert lines[note_line + 1].split() == ["this"]
        assert lines[note_line + 2].split()[0] == "Written"
    stored = list((state_directory / "notes").iterdir())
    assert len(stored) == 1
    assert stored[0].stat().st_mode & 0o777 == 0o600
    assert (state_directory / "notes").stat().st_mode & 0o777 == 0o700
    assert state_directory.stat().st_mode & 0o777 == 0o700
    assert "caffe" not in stored[0].name


async def test_notes_are_kept_for_the_next_run_and_after_filter_and_reload() -> None:
    async with open_explorer(CAFFE, view="kernels") as pilot:
        table = table_of(pilot, "kernels")
        await press(pilot, "j")
        assert table.current_row is not None
        name = table.current_row["name"]
        await write_note(pilot, "slow since the update")
    async with open_explorer(CAFFE, view="kernels") as pilot:
        table = table_of(pilot, "kernels")
        assert names_with_notes(table) == [name]
        table.set_filter("sgemm")
        await settle(pilot)
        await press(pilot, "r")
        await settle(pilot)
        assert names_with_notes(table) == [name]


async def test_canceling_the_dialog_changes_nothing_and_an_empty_text_deletes() -> None:
    async with open_explorer(CAFFE, view="kernels") as pilot:
        table = table_of(pilot, "kernels")
        await press(pilot, "M", "x", "escape")
        assert not app_of(pilot).notes.store.by_name
        await write_note(pilot, "one")
        await press(pilot, "M")
        assert pilot.app.screen.query_one(NoteEditor).text == "one"
        await press(pilot, "x", "escape")
        assert [note.text for note in app_of(pilot).notes.store.by_name.values()] == ["one"]
        await write_note(pilot, " \n ")
        assert not app_of(pilot).notes.store.by_name
        assert names_with_notes(table) == []


async def test_a_text_that_is_too_long_stays_in_the_dialog_with_the_reason() -> None:
    async with open_explorer(CAFFE, view="kernels") as pilot:
        await write_note(pilot, "x" * 2001)
        assert isinstance(pilot.app.screen, NoteDialog)
        assert "at most 2,000 characters, this one 2,001" in screen_text(pilot.app)
        assert not app_of(pilot).notes.store.by_name


async def test_hostile_text_reaches_no_terminal() -> None:
    async with open_explorer(CAFFE, view="kernels") as pilot:
        await write_note(pilot, "[red]\x1b[31m\u202ebold[/]")
        await press(pilot, "i")
        assert "[red]·[31m·bold[/]" in screen_text(pilot.app)
        await press(pilot, "escape", "M")
        assert "[red]·[31m·bold[/]" in screen_text(pilot.app)


async def test_a_note_on_a_launch_belongs_to_its_kernel() -> None:
    async with open_explorer("resnet50_training.csv", view="kernels") as pilot:
        table = table_of(pilot, "kernels")
        await press(pilot, "j", "enter", "j")
        launches = table_of(pilot, "launches")
        await write_note(pilot, "the odd one")
        assert len(launches.table.model.noted) == 1
        row = launches.current_row
        await press(pilot, "q", "k", "enter")
        assert not launches.table.model.noted
        await run_line(pilot, "notes")
        await press(pilot, "enter")
        await wait_until(pilot, lambda: launches.current_row == row, "the row")
        assert table.current_row is not None
        assert app_of(pilot).view_screen is not None
        assert app_of(pilot).view_screen.VIEW == "kernels"


async def test_a_link_of_a_note_waits_for_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    # A look again after that long does not count as being at work.
    monkeypatch.setattr(base, "CHECK_EVERY_S", 0.05)
    hold = WorkerGate()

    def held_up(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
        hold.wait()
        return launches_of_kernel(profile, above)

    async with open_explorer("resnet50_training.csv", notifications=True, view="kernels") as pilot:
        table = table_of(pilot, "kernels")
        await press(pilot, "j", "enter", "j")
        launches = table_of(pilot, "launches")
        await write_note(pilot, "the odd one")
        row = launches.current_row
        await press(pilot, "q", "k")
        await run_line(pilot, "notes")
        monkeypatch.setattr(base, "MAX_ROWS_WITHOUT_THREAD", 0)
        kernels = app_of(pilot).get_screen("kernels").query_one(LinkedTables)
        monkeypatch.setattr(kernels, "levels", (KERNEL_LEVEL, replace(LAUNCH_LEVEL, rows=held_up)))
        await press(pilot, "enter")
        await wait_until(pilot, lambda: bool(WorkerGate.blocked), "the thread that makes the launches")
        screen = screen_of(pilot)
        assert screen.is_filling
        assert table.table.model.cursor_row == 1
        hold.set()
        await wait_until(pilot, lambda: launches.current_row == row, "the row")
        assert message_of(pilot) == ""


async def test_the_notes_view_links_to_a_row_that_a_filter_hides() -> None:
    async with open_explorer(CAFFE, notifications=True, view="kernels") as pilot:
        table = table_of(pilot, "kernels")
        await press(pilot, "j", "j")
        row = table.current_row
        await write_note(pilot, "look")
        table.set_filter("nothing-has-this-name")
        app_of(pilot).profile_session.set_global_filter("calls>100000")
        await settle(pilot)
        await run_line(pilot, "notes")
        listed = table_of(pilot, "table")
        # What is carried says nothing of notes, which have no calls.
        assert listed.model.shown_frame()["note"].to_list() == ["look"]
        await press(pilot, "enter")
        await wait_until(pilot, lambda: table.current_row == row, "the row")
        assert table.state.filter == ""
        assert app_of(pilot).profile_session.global_filter == ""
        assert message_of(pilot) == (
            "The row was hidden by the filter nothing-has-this-name and the filter of all views, calls>100000: removed."
        )


async def test_the_notes_view_links_to_a_row_that_is_hidden_as_small() -> None:
    async with open_explorer(CAFFE, notifications=True, view="kernels") as pilot:
        table = table_of(pilot, "kernels")
        await press(pilot, "G")
        row = table.current_row
        await write_note(pilot, "look")
        table.change(hides_small=True, max_rows=1)
        await settle(pilot)
        assert table.current_row != row
        await run_line(pilot, "notes")
        await press(pilot, "enter")
        await wait_until(pilot, lambda: table.current_row == row, "the row")
        assert message_of(pilot) == (
            "The row was hidden by hiding small rows and showing only the first 1 rows: removed."
        )


async def test_a_row_of_a_hidden_session_names_the_keys_that_show_it() -> None:
    async with open_explorer("tracking_four_runs.nvprof.log", notifications=True, view="kernels") as pilot:
        await write_note(pilot, "look")
        app_of(pilot).run_line("session 0")
        await run_line(pilot, "notes")
        await press(pilot, "enter")
        await settle(pilot)
        assert message_of(pilot) == "Row not found in session 0. S and A change what is shown."


async def test_notes_on_standard_input_are_not_kept_and_a_message_says_so() -> None:
    async with open_explorer(CAFFE, notifications=True, view="kernels") as pilot:
        app_of(pilot).session_restore.files = None
        table = table_of(pilot, "kernels")
        row = table.current_row
        assert row is not None
        assert app_of(pilot).notes.note_on(table, row) is None
        for key in ("M", "apostrophe"):
            await press(pilot, key)
            assert message_of(pilot) == NO_FILE, key
            pilot.app.clear_notifications()
            await settle(pilot)
        await run_line(pilot, "forget")
        assert message_of(pilot) == NO_FILE
        app_of(pilot).notes.write_note(app_of(pilot).notes.place_of_item("line", (3,)), "line 3")
        await settle(pilot)
        assert message_of(pilot) == NO_FILE


async def test_a_note_on_a_missing_row_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    text = Path(sample_path(CAFFE)).read_text()
    path.write_text(text)
    async with open_explorer(str(path), notifications=True, view="kernels") as pilot:
        table = table_of(pilot, "kernels")
        await press(pilot, "j", "j")
        assert table.current_row is not None
        name = str(table.current_row["name"])
        await write_note(pilot, "look")
    path.write_text(text.replace(name.split("(")[0], "another_kernel"))
    async with open_explorer(str(path), notifications=True, view="notes") as pilot:
        listed = table_of(pilot, "table")
        assert listed.frame["written_of"].to_list() == ["before it changed"]
        await press(pilot, "M")
        assert ", before the file changed. Save an empty note to delete it." in screen_text(pilot.app)
        await press(pilot, "escape", "enter")
        await wait_until(pilot, lambda: message_of(pilot) == "Row not found.", "the words")


async def test_the_notes_view_edits_and_exports(tmp_path: Path) -> None:
    async with open_explorer(CAFFE, view="kernels") as pilot:
        await write_note(pilot, "first")
        await run_line(pilot, "notes")
        assert isinstance(screen_of(pilot), NotesScreen)
        await write_note(pilot, "second\nline")
        listed = table_of(pilot, "table")
        assert listed.frame["note"].to_list() == ["second\nline"]
        assert listed.frame["view"].to_list() == ["Kernels"]
        await write_note(pilot, "")
        assert listed.frame.is_empty()
        assert "No notes. Press M on a row" in screen_text(pilot.app)


async def test_standard_input_has_no_notes() -> None:
    assert files(["-"]) is None
    assert files(["a.log", "-"]) is None
    assert Notes(None).by_name == {}


async def test_rows_of_a_query_have_no_notes() -> None:
    async with open_explorer(CAFFE, notifications=True, view=FAST_VIEW) as pilot:
        app_of(pilot).run_line("sql SELECT name FROM kernels")
        await pilot.app.workers.wait_for_complete()
        await settle(pilot)
        await press(pilot, "tab", "M")
        assert not isinstance(pilot.app.screen, NoteDialog)
        assert message_of(pilot) == VIEWS_WITHOUT_NOTES["sql"]


async def test_two_runs_with_one_file_keep_the_notes_of_both() -> None:
    async with open_explorer(CAFFE, view="kernels") as pilot:
        table = table_of(pilot, "kernels")
        await write_note(pilot, "mine")
        row = table.frame.row(1, named=True)
        other = Notes(app_of(pilot).session_restore.files)
        place = app_of(pilot).notes.note_place(table, row)
        assert place is not None
        assert other.keep(place, "other", "theirs") == ""
        other.write()
        await press(pilot, "j", "j")
        await write_note(pilot, "mine too")
        assert sorted(note.text for note in app_of(pilot).notes.store.by_name.values()) == [
            "mine",
            "mine too",
            "theirs",
        ]
        assert len(table.table.model.noted) == 3


async def test_forget_asks_once_and_deletes_all(state_directory: Path) -> None:
    async with open_explorer(CAFFE, notifications=True, view="kernels") as pilot:
        table = table_of(pilot, "kernels")
        await write_note(pilot, "one")
        await run_line(pilot, "forget")
        assert message_of(pilot) == "This deletes 1 note. Repeat :forget to confirm."
        assert len(app_of(pilot).notes.store.by_name) == 1
        await run_line(pilot, "forget")
        assert not app_of(pilot).notes.store.by_name
        assert message_of(pilot) == "Deleted: notes, queries, and the last place in this file."
        assert not table.table.model.noted
        await press(pilot, "Q")
    assert [path for path in state_directory.rglob("*") if path.is_file() and path.name != "tables.json"] == []


async def test_damaged_notes_are_reported_once_and_not_lost(state_directory: Path) -> None:
    known = files([sample_path(CAFFE)])
    assert known is not None
    folder = state_directory / "notes"
    folder.mkdir(parents=True)
    path = folder / f"{known.name}.json"
    path.write_text('{"version": 1, "entries": {"a"')
    async with open_explorer(CAFFE, notifications=True, view="kernels") as pilot:
        await write_note(pilot, "new")
        assert "damaged" in message_of(pilot)
    assert len(json.loads(path.read_text())["entries"]) == 1
    assert (folder / f"{path.name}.damaged").read_text() == '{"version": 1, "entries": {"a"'


async def test_notes_of_another_version_are_not_changed(state_directory: Path) -> None:
    known = files([sample_path(CAFFE)])
    assert known is not None
    folder = state_directory / "notes"
    folder.mkdir(parents=True)
    path = folder / f"{known.name}.json"
    path.write_text('{"version": 99, "entries": {}}')
    async with open_explorer(CAFFE, notifications=True, view="kernels") as pilot:
        table = table_of(pilot, "kernels")
        await write_note(pilot, "new")
        assert message_of(pilot) == (
            f"{path} was written by another version of proftui: left unchanged and not used. "
            "Notes are kept until you quit."
        )
        assert len(table.table.model.noted) == 1
    assert path.read_text() == '{"version": 99, "entries": {}}'


@pytest.mark.parametrize("state", ["dialog", "notes", "signs"])
async def test_screen(state: str, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.state.notes.time.time", lambda: 1_767_323_045.0)
    async with open_explorer(CAFFE, view="kernels") as pilot:
        await press(pilot, "j")
        await write_note(pilot, "slower since cuDNN 7.6: ask Kim\nlook at the launch config")
        await press(pilot, "j")
        await write_note(pilot, "fine")
        await press(pilot, "space")
        if state == "dialog":
            await press(pilot, "k", "k", "M")
        elif state == "notes":
            await run_line(pilot, "notes")
        else:
            await press(pilot, "k", "k", "i")
        await assert_at_sizes(pilot, snapshot)


def test_the_frame_of_no_notes_has_its_types() -> None:
    from tui.analysis.notes_table import NOTES, notes_frame

    frame = notes_frame({}, None)
    assert frame.schema == dict.fromkeys(frame.columns, pl.String)
    assert {column.name for column in NOTES.columns} <= set(frame.columns)


async def test_a_note_on_a_line_of_the_log_is_shown_and_links_to_it() -> None:
    async with open_explorer(CAFFE, view="log") as pilot:
        await press(pilot, "j", "j", "j")
        await write_note(pilot, "look here")
        assert "line 4 of 101 \u00b7 note: look here" in screen_text(pilot.app)
        await run_line(pilot, "notes")
        assert table_of(pilot, "table").frame.select("view", "row", "note").rows() == [("Log", "line 4", "look here")]
        await run_line(pilot, "log")
        await press(pilot, "g")
        assert "note:" not in screen_text(pilot.app)
        await run_line(pilot, "notes")
        await press(pilot, "enter")
        assert "line 4 of 101 \u00b7 note: look here" in screen_text(pilot.app)
    async with open_explorer(CAFFE) as pilot:
        screen = await run_sql(pilot, "SELECT view, note FROM notes")
        assert screen.query_one("#result", TablePane).frame.drop("#").rows() == [("Log", "look here")]


@pytest.mark.parametrize("lane", ["GPU 0", "ops", "API calls"])
async def test_a_note_in_the_timeline_is_in_the_details_and_links_to_it(lane: str) -> None:
    async with open_explorer("mlp_modules.pt.trace.json.gz", size=(200, 50), view="timeline") as pilot:
        screen = screen_of(pilot, TimelineScreen)
        view = screen.lanes
        assert view.shown is not None
        place = next(place for place, found in enumerate(view.shown.lanes) if lane in lane_title(found))
        view.select_item(place, 5)
        await settle(pilot)
        await write_note(pilot, "odd one")
        await press(pilot, "i")
        assert "odd one" in screen_text(pilot.app)
        lane_and_item = (view.lane, view.item)
        await press(pilot, "i", "g", "z")
        assert (view.lane, view.item) != lane_and_item
        await run_line(pilot, "notes")
        await press(pilot, "enter")
        await settle(pilot)
        assert app_of(pilot).view_screen is screen
        assert (view.lane, view.item) == lane_and_item


async def test_a_note_on_a_panel_is_in_its_title_and_links_to_it() -> None:
    async with open_explorer(CAFFE, size=(80, 24)) as pilot:
        await press(pilot, "tab")
        await write_note(pilot, "[red]none[/]")
        title = next(line for line in screen_text(pilot.app).splitlines() if "Resource usage" in line)
        assert "Resource usage  994 ms; not recorded: Dataloader, I/O, CPU  # [red]none[/]\u2500" in title
        await run_line(pilot, "notes")
        rows = [("Dashboard", "Resource usage", "[red]none[/]")]
        assert table_of(pilot, "table").frame.select("view", "row", "note").rows() == rows
        await run_line(pilot, "dashboard")
        await press(pilot, "shift+tab")
        await run_line(pilot, "notes")
        await press(pilot, "enter")
        assert getattr(pilot.app.focused, "id", "") == "wall"
    async with open_explorer(CAFFE, size=(80, 24)) as pilot:
        assert "# [red]none[/]" in screen_text(pilot.app)
        await run_line(pilot, "notes")
        await press(pilot, "M", *["backspace"] * 20, "enter", "q")
        assert "#" not in screen_text(pilot.app)


async def test_a_key_on_a_chart_says_where_notes_can_be_written() -> None:
    async with open_explorer("resnet50_training.nvprof.log", notifications=True, view="iterations") as pilot:
        pilot.app.screen.query_one("#chart").focus()
        await press(pilot, "M")
        assert message_of(pilot) == "Notes attach to rows and to dashboard panels."


async def test_a_row_below_one_that_is_not_known_yet_gets_no_note() -> None:
    async with open_explorer(CAFFE, notifications=True, view="kernels") as pilot:
        launches = table_of(pilot, "launches")
        row = launches.current_row
        assert row is not None
        screen_of(pilot).query_one(LinkedTables).selected.clear()
        app_of(pilot).notes.write_row_note(launches, row)
        await settle(pilot)
        assert message_of(pilot) == "No note possible: this row has no stable key."
