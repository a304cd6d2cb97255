"""All tables of the explorer: global filters, restored arrangements, exports, help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl
import pytest

from tests.screens.explorer import (
    app_of,
    assert_at_sizes,
    messages_of,
    open_explorer,
    press,
    run_line,
    screen_of,
    settle,
    table_of,
)
from tests.snapshots import screen_text
from tests.waiting import wait_until
from tui.state.workspace import Arrangements
from tui.widgets.dialogs.base import ChoiceLine
from tui.widgets.dialogs.export import ExportDialog

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion
    from textual.pilot import Pilot

    from tui.widgets.table.pane import TablePane

TRAINING: Final = "resnet50_training.nvprof.log"


def table_of_keys(pilot: Pilot[None]) -> TablePane:
    """Return the table that keys act on."""
    screen = screen_of(pilot)
    assert screen.table is not None
    return screen.table


def status_text(pilot: Pilot[None]) -> str:
    """Return the text of the status line of that table."""
    return table_of_keys(pilot).status_line.status.fitted_line(400)


async def test_a_filter_becomes_global_on_request_and_one_key_removes_it() -> None:
    async with open_explorer(TRAINING, view="kernels") as pilot:
        await press(pilot, "f", *"Launch", "enter")
        shown = table_of_keys(pilot).model.shown_frame()["name"].to_list()
        await press(pilot, "0")
        assert "(all views)" not in screen_text(pilot.app)
        everything = table_of_keys(pilot).frame.height
        assert len(table_of_keys(pilot).model.rows) == everything
        await press(pilot, "minus", "C")
        assert "filter: Launch (all views)" in screen_text(pilot.app).splitlines()[0]
        assert table_of_keys(pilot).model.shown_frame()["name"].to_list() == shown
        await press(pilot, "0")
        assert "filter: Launch (all views)" in screen_text(pilot.app).splitlines()[0]
        names = table_of_keys(pilot).model.shown_frame()["name"].to_list()
        assert names
        assert all("Launch" in name for name in names)
        assert f"{len(names)} of {everything} rows" in status_text(pilot)
        await press(pilot, "C")
        assert "(all views)" not in screen_text(pilot.app)
        assert len(table_of_keys(pilot).model.rows) == everything
        await press(pilot, "minus")
        assert len(table_of_keys(pilot).model.rows) == table_of_keys(pilot).frame.height


async def test_a_global_filter_that_does_not_apply_says_why() -> None:
    async with open_explorer(TRAINING, view="kernels") as pilot:
        await press(pilot, "f", *"batch", "enter", "C", "tab")
        assert table_of_keys(pilot).id == "launches"
        assert len(table_of_keys(pilot).model.rows) == table_of_keys(pilot).frame.height
        assert "filter of all views not here: no names" in status_text(pilot)


async def test_tables_below_one_without_matches_are_empty_not_loading() -> None:
    async with open_explorer(TRAINING, view="kernels") as pilot:
        await press(pilot, "f", *"gemm", "enter", "C", "0")
        await wait_until(pilot, lambda: "No row above is selected." in screen_text(pilot.app))
        text = screen_text(pilot.app)
        assert "No row matches the filter of all views, gemm. C removes it." in text
        assert "loading" not in text
        assert " Calls: 0 rows · filter of all views gemm" in text
        assert "not here" not in text
        await press(pilot, "C")
        await wait_until(pilot, lambda: table_of(pilot, "calls").frame.height > 0, "the calls of the first function")


async def test_the_filter_of_a_table_is_combined_with_the_global_filter() -> None:
    async with open_explorer(TRAINING, view="kernels") as pilot:
        await press(pilot, "f", *"gemm", "enter", "C", "f", *"total>1", "enter", "C")
        assert app_of(pilot).profile_session.global_filter == "gemm total_ns>1ms"
        assert table_of_keys(pilot).state.filter == ""
        frame = table_of_keys(pilot).model.shown_frame()
        assert frame.height
        assert frame["total_ns"].min() > 1_000_000  # type: ignore[operator]


async def test_c_without_a_filter_names_the_key_to_filter() -> None:
    async with open_explorer(TRAINING, notifications=True, view="kernels") as pilot:
        await press(pilot, "C")
        assert messages_of(pilot) == ["No filter to apply: f sets one."]


async def test_arrangements_of_tables_are_restored_in_the_next_run() -> None:
    async with open_explorer(TRAINING, view="kernels") as pilot:
        await run_line(pilot, "sort calls,-total")
        assert table_of_keys(pilot).state.sort == (("calls", False), ("total_ns", True))
        await run_line(pilot, "top 5")
        await press(pilot, "W")
        assert table_of_keys(pilot).model.shown_frame().height == 5
        await pilot.app.workers.wait_for_complete()
    async with open_explorer(TRAINING, view="kernels") as pilot:
        # The order and the number of rows are of the file that they were chosen for.
        assert table_of_keys(pilot).state.sort is None
        assert table_of_keys(pilot).model.shown_frame().height == 80
        assert table_of_keys(pilot).table.table_layout.placed[-1].column.name == "name"
        # Another view has its own.
        await press(pilot, "0")
        assert not table_of_keys(pilot).state.name_last
        await press(pilot, "minus")
        await run_line(pilot, "reset")
        assert not table_of_keys(pilot).state.name_last
        await pilot.app.workers.wait_for_complete()
    assert not Arrangements().get("kernels/kernels/kernels").name_last


@pytest.mark.parametrize("line", ["top", "top 0", "top -3", "top many"])
async def test_top_says_what_it_needs(line: str) -> None:
    async with open_explorer(TRAINING, notifications=True, view="kernels") as pilot:
        await run_line(pilot, line)
        assert messages_of(pilot) == ["Enter a number of rows, or all."]


async def test_top_all_shows_all_again() -> None:
    async with open_explorer(TRAINING, view="kernels") as pilot:
        await run_line(pilot, "top 3")
        assert "first 3 of 80 rows" in status_text(pilot)
        await run_line(pilot, "top all")
        assert "80 rows" in status_text(pilot)
        assert "first" not in status_text(pilot)


async def test_help_explains_the_column_under_the_cursor() -> None:
    async with open_explorer(TRAINING, size=(120, 40), view="kernels") as pilot:
        await press(pilot, "l", "question_mark")
        lines = [line.strip(" │") for line in screen_text(pilot.app).splitlines()]
        place = next(place for place, line in enumerate(lines) if line == "This column")
        assert [line for line in lines[:place] if line in ("Keys", "Columns", "Here")] == ["Keys"]
        assert lines[place - 2].split(maxsplit=1) == [
            ":",
            "Open the command line, for example :kernels gemm total>1ms.",
        ]
        assert lines[place + 1].startswith("Total ms")
        assert (
            "Sum of the durations of all calls. In filters: total_ns, total, time; exported in ns." in lines[place + 1]
        )


async def test_an_export_has_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_explorer(TRAINING, view="kernels") as pilot:
        await press(pilot, "f", *"gemm", "enter", "e", "left", "left")
        dialog = pilot.app.screen
        assert isinstance(dialog, ExportDialog)
        await press(pilot, "enter", "enter")
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, ExportDialog), "the export")
        text = Path("resnet50_training.nvprof-kernels.md").read_text()
        rows = len(table_of_keys(pilot).model.rows)
        assert text.startswith("### Kernels: resnet50_training.nvprof.log\n\n")
        assert f"{rows} of 80 rows, filter gemm, sorted by Total descending" in text
        assert len([line for line in text.splitlines() if line.startswith("|")]) == rows + 2


async def test_an_export_holds_the_rows_of_the_view_cell_for_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_explorer(TRAINING, view="kernels") as pilot:
        await press(pilot, "f", *"gemm", "enter", "e")
        for _ in range(2):
            await press(pilot, "right")
        await press(pilot, "enter", "enter")
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, ExportDialog), "the export")
        shown = table_of_keys(pilot).model.shown_frame().with_columns(pl.col(pl.Categorical).cast(pl.String))
        written = json.loads(Path("resnet50_training.nvprof-kernels.json").read_text())
        assert written["rows"] == json.loads(shown.write_json())
        assert {name: written[name] for name in ("profile", "view", "title", "shown", "filter")} == {
            "profile": TRAINING,
            "view": "kernels",
            "title": "Kernels",
            "shown": f"{shown.height} of 80 rows",
            "filter": "gemm",
        }


async def test_an_immediate_enter_exports_the_selected_format_to_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("resnet50_training.nvprof-kernels.json").write_text("mine")
    async with open_explorer(TRAINING, view="kernels") as pilot:
        await press(pilot, "e")
        dialog = pilot.app.screen
        assert isinstance(dialog, ExportDialog)
        # In one go, as under load: no news of the choice has come yet when enter does.
        for _ in range(2):
            dialog.query_one("#export-format", ChoiceLine).action_choose(1)
        dialog.action_write()
        await settle(pilot)
        assert "exists. Press enter again to replace it" in screen_text(pilot.app)
        await press(pilot, "enter")
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, ExportDialog), "the export")
        assert [path.name for path in tmp_path.iterdir()] == ["resnet50_training.nvprof-kernels.json"]
        assert json.loads(Path("resnet50_training.nvprof-kernels.json").read_text())["profile"] == TRAINING


async def test_metadata_of_an_export_name_row_session_and_iterations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []

    def copy(_app: object, text: str) -> str:
        copied.append(text)
        return "sent"

    monkeypatch.setattr("tui.widgets.dialogs.export.copy_text", copy)
    monkeypatch.chdir(tmp_path)
    async with open_explorer("ddp_ranks", view="kernels") as pilot:
        app_of(pilot).profile_session.choose_session(1)
        await run_line(pilot, "aggregate 3:4")
        await press(pilot, "enter", "e", "left")
        await press(pilot, "enter")
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, ExportDialog), "the export")
        screen = screen_of(pilot)
        line, blank, table = copied[0].split("\n", 2)
        crumb = screen.path()[0]
        assert line == (
            f"ddp_ranks (2 files): Kernels, Launches ({crumb}, session 1, iterations 3:4, "
            f"{table_of_keys(pilot).frame.height} of {table_of_keys(pilot).frame.height} rows)"
        )
        assert not blank
        assert table.splitlines()[0].split("\t") == table_of_keys(pilot).model.shown_frame(all_columns=True).columns
        assert len(table.splitlines()) == table_of_keys(pilot).frame.height + 1


SCREENS: Final = {
    "names-last": ("W",),
    "filter-a-column": ("l", "F"),
    "carried-where-it-has-no-names": ("f", *"batch", "enter", "C", "enter"),
    "columns": ("c", "j", "p", "j", "space", "n"),
    "export": ("x", "e"),
    "sorted-by-several": ("l", "l", "l", "s", "l", "semicolon", "space", "space"),
    "shares-of-shown": ("f", *"gemm", "enter", "percent_sign", "percent_sign"),
    "help-of-a-column": ("l", "question_mark"),
}


@pytest.mark.parametrize("state", SCREENS)
async def test_screen(state: str, snapshot: SnapshotAssertion) -> None:
    async with open_explorer(TRAINING, view="kernels") as pilot:
        await press(pilot, *SCREENS[state])
        await assert_at_sizes(pilot, snapshot)


async def test_texts_of_the_query_bar_are_cut_in_ascii() -> None:
    for ascii_only, mark in ((False, "…"), (True, "~")):
        async with open_explorer(TRAINING, size=(80, 24), ascii_only=ascii_only, view="kernels") as pilot:
            await press(pilot, "F")
            bar = next(line for line in screen_text(pilot.app).splitlines() if line.startswith(" filter name:"))
            assert bar.rstrip().endswith(mark)
            assert bar.isascii() == ascii_only


async def test_ascii_mode_spells_arrow_keys_and_marks_cut_choices() -> None:
    async with open_explorer(TRAINING, size=(80, 24), ascii_only=True) as pilot:
        await press(pilot, "colon")
        assert screen_text(pilot.app).rstrip().endswith("up previous  right complete  enter run  esc cancel")
        await press(pilot, *"kernels", "enter", "c")
        text = screen_text(pilot.app)
        assert text.isascii()
        line = next(line for line in text.splitlines() if "] Time%" in line)
        assert line.rpartition("|")[0].rstrip().endswith("~")


async def test_a_filter_that_cannot_be_carried_stays_in_its_table() -> None:
    async with open_explorer("resnet50_training.nvprof.log", view="iterations", notifications=True) as pilot:
        table = table_of(pilot, "table")
        table.set_filter("phase=decode")
        await settle(pilot)
        await press(pilot, "C")
        assert len(messages_of(pilot)) == 1
        assert "decode" in messages_of(pilot)[0]
        assert table.state.filter == "phase=decode"
