from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from textual.events import Paste
from textual.widgets import Input

from tests.snapshots import screen_text
from tests.waiting import wait_until
from tests.widgets.tables import DGRAD, KERNELS, SPEC, TableApp
from tui.screens.compare import CompareDialog
from tui.screens.iterations import KeyPicker
from tui.text_width import cell_width
from tui.widgets.dialogs import export
from tui.widgets.dialogs.export import ExportDialog
from tui.widgets.table.columns import ColumnChooser
from tui.widgets.table.pane import CellDialog

if TYPE_CHECKING:
    from tui.widgets.dialogs.base import Dialog


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def test_columns_are_hidden_and_moved() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("c")
        assert isinstance(app.screen, ColumnChooser)
        # Hide the second, Total; move Time% behind Calls; the pinned name can be neither hidden nor moved.
        await pilot.press("space", "J", "j", "space", "j", "J", "enter")
        state = app.pane.state
        assert state.hidden == {"total_ns"}
        assert state.order[:4] == ("name", "total_ns", "calls", "time_pct")
        assert [placed.column.name for placed in app.pane.table.table_layout.placed[:3]] == [
            "name",
            "calls",
            "time_pct",
        ]


async def test_canceling_the_column_dialog_changes_nothing() -> None:
    app = TableApp()
    async with app.run_test() as pilot:
        await pilot.press("c", "j", "space", "escape")
        assert app.pane.state.hidden == frozenset()


async def test_the_full_text_of_a_cell() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("v")
        assert isinstance(app.screen, CellDialog)
        shown = " ".join(line.strip(" │") for line in screen_text(app).splitlines() if "│" in line)
        assert DGRAD in shown
        assert "Kernel, memory operation or API call, as named by the input." in shown
        await pilot.press("y", "escape")
        assert Path("proftui-copy-1.tsv").read_text() == DGRAD


async def test_the_exact_value_of_a_figure() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("l", "v")
        assert "353980000 ns" in screen_text(app)
        assert "353.98 ms" in screen_text(app)
        await pilot.press("q")
        assert not isinstance(app.screen, CellDialog)


async def test_a_hostile_cell_is_shown_as_text() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("j", "j", "j", "j", "v")
        assert "evil·[31m[red]kernel[/red]" in screen_text(app)


async def test_copying_a_cell_and_rows() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24), notifications=True) as pilot:
        await pilot.press("j", "l", "y")
        assert Path("proftui-copy-1.tsv").read_text() == "210400128"
        assert app.toasts[-1].startswith("Wrote 9 characters to ")
        await pilot.press("Y")
        heading, row = Path("proftui-copy-2.tsv").read_text().splitlines()
        assert heading.split("\t")[:3] == ["name", "total_ns", "time_pct"]
        assert row.split("\t")[:3] == ["sgemm_128x128x8_NT_vec", "210400128", "27.9"]
        await pilot.press("space", "space", "Y")
        assert len(Path("proftui-copy-3.tsv").read_text().splitlines()) == 3


async def test_export_writes_the_shown_rows_and_confirms() -> None:
    app = TableApp()
    async with app.run_test(size=(100, 24), notifications=True) as pilot:
        app.pane.set_filter("sgemm")
        await pilot.press("e")
        assert isinstance(app.screen, ExportDialog)
        assert "2 shown" in screen_text(app)
        await pilot.press("enter")
        # Nothing is written before its whole path was shown.
        await wait_until(pilot, lambda: "Press enter to write" in screen_text(app))
        assert not Path("kernels.csv").exists()
        await pilot.press("enter")
        await wait_until(pilot, lambda: not isinstance(app.screen, ExportDialog))
        assert app.toasts[-1] == f"Wrote 2 rows, 10 columns to {Path('kernels.csv').absolute()}"
        assert pl.read_csv("kernels.csv")["total_ns"].to_list() == [210_400_128, 209_360]


async def test_export_of_all_rows_in_another_format_with_the_columns_shown() -> None:
    app = TableApp()
    async with app.run_test(size=(100, 24), notifications=True) as pilot:
        app.pane.change(filter="sgemm", hidden=frozenset({"line"}))
        await pilot.press("e", "right", "right", "right", "right", "down", "right", "down", "left")
        assert app.screen.query_one(Input).value == "kernels.parquet"
        await pilot.press("enter", "enter")
        await wait_until(pilot, lambda: not isinstance(app.screen, ExportDialog))
        written = pl.read_parquet("kernels.parquet")
        assert written.height == KERNELS.height
        assert written.columns == [column.name for column in SPEC.columns if column.name != "line"]


async def test_a_path_typed_or_pasted_on_a_choice_replaces_the_proposed_one_and_its_suffix_chooses_the_format() -> None:
    app = TableApp()
    async with app.run_test(size=(100, 24), notifications=True) as pilot:
        await pilot.press("e", "slash", *"qhjkl.json")
        assert app.screen.query_one(Input).value == "/qhjkl.json"
        assert "[json]" in screen_text(app)
        await pilot.press("escape", "e", "down")
        app.screen.query_one("#export-rows").post_message(Paste("new.tsv\n"))
        await wait_until(pilot, lambda: "[tsv]" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: not isinstance(app.screen, ExportDialog))
        assert Path("new.tsv").read_text().startswith("name\t")


async def test_export_asks_before_it_replaces_a_file() -> None:
    Path("kernels.csv").write_text("mine")
    app = TableApp()
    async with app.run_test(size=(100, 24), notifications=True) as pilot:
        await pilot.press("e", "enter")
        assert "kernels.csv exists. Press enter again to replace it" in screen_text(app)
        assert Path("kernels.csv").read_text() == "mine"
        await pilot.press("enter")
        await wait_until(pilot, lambda: not isinstance(app.screen, ExportDialog))
        assert Path("kernels.csv").read_text().startswith("name,")


async def test_export_to_the_clipboard(monkeypatch: pytest.MonkeyPatch) -> None:
    app = TableApp()
    async with app.run_test(size=(100, 24), notifications=True) as pilot:
        await pilot.press("e", "left")
        assert "To the terminal's clipboard" in screen_text(app)
        monkeypatch.setattr(export, "MAX_CLIPBOARD_ROWS", 7)
        await pilot.press("enter")
        assert "! too many rows for the clipboard (limit 7): write a file" in screen_text(app)
        monkeypatch.setattr(export, "MAX_CLIPBOARD_ROWS", 8)
        await pilot.press("enter")
        assert not isinstance(app.screen, ExportDialog)
        # This terminal has none: the text went to a file.
        assert app.toasts[-1].startswith("Wrote ")
        lines = Path("proftui-copy-1.tsv").read_text().split("\n")
        assert lines[0].endswith("Kernels (8 of 8 rows, sorted by Total descending)")
        assert lines[1] == ""
        assert lines[2].split("\t")[:2] == ["name", "calls"]
        assert not list(Path().glob("*.csv"))


async def test_a_missing_package_is_reported_before_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "missing_package", lambda name: "pip install it" if name == "pdf" else "")
    app = TableApp()
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.press("e", "left", "left", "left")
        assert "! pip install it" in screen_text(app)
        await pilot.press("right")
        assert "pip install" not in screen_text(app)


async def test_a_failed_export_says_why_and_stays_open() -> None:
    app = TableApp()
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.press("e")
        app.screen.query_one(Input).value = "no/such/place.csv"
        await pilot.press("enter", "enter")
        await wait_until(pilot, lambda: "! " in screen_text(app))
        assert "no/such" in screen_text(app)
        await pilot.press("escape")
        assert not isinstance(app.screen, ExportDialog)


@pytest.mark.parametrize(
    # Of 80 columns, what the box leaves: it takes a part of them, and its border and corners two cells on each side.
    ("dialog", "room"),
    [(KeyPicker, 72), (CompareDialog, 68), (ExportDialog, 68), (ColumnChooser, 68), (CellDialog, 68)],
)
def test_no_key_of_a_dialog_is_cut_at_80_columns(dialog: type[Dialog[object]], room: int) -> None:
    assert cell_width(dialog.KEYS) <= room
