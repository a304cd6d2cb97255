from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from textual.geometry import Region, Size

from tests.snapshots import screen_text
from tests.waiting import wait_until
from tests.widgets.tables import DGRAD, KERNELS, TableApp
from tui.widgets.table.painter import TablePainter
from tui.widgets.table.pane import TablePane
from tui.widgets.table.view import AHEAD_ROWS, MAX_CACHED_STRIPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.strip import Strip


def many_kernels(rows: int) -> pl.DataFrame:
    """Return many kernels, which differ by their line."""
    times = rows // KERNELS.height + 1
    return pl.concat([KERNELS] * times).head(rows).with_columns(line=pl.int_range(1, rows + 1, dtype=pl.UInt32))


async def test_rows_scroll_only_if_the_cursor_leaves_the_page() -> None:
    app = TableApp(many_kernels(200))
    async with app.run_test(size=(100, 24)) as pilot:
        table = app.pane.table
        page = table.page_rows
        await pilot.press(*["j"] * (page + 4))
        assert table.scroll_offset.y == 5
        await pilot.press(*["k"] * (page - 1))
        assert (table.model.cursor_row, table.scroll_offset.y) == (5, 5)
        await pilot.press("k")
        assert (table.model.cursor_row, table.scroll_offset.y) == (4, 4)


async def test_the_cursor_moves_and_stops_at_the_ends() -> None:
    app = TableApp()
    async with app.run_test(size=(100, 24)) as pilot:
        table = app.pane.table
        await pilot.press("j", "down", "j", "k")
        assert table.model.cursor_row == 2
        await pilot.press("G")
        assert table.model.cursor_row == 7
        await pilot.press("j")
        assert table.model.cursor_row == 7
        await pilot.press("g", "k")
        assert table.model.cursor_row == 0
        await pilot.press("l", "right")
        assert table.model.cursor_column == "time_pct"
        await pilot.press("h")
        assert table.model.cursor_column == "total_ns"
        await pilot.press("dollar_sign")
        assert table.model.cursor_column == table.table_layout.sequence[-1]
        await pilot.press("circumflex_accent", "h")
        assert table.model.cursor_column == "name"


async def test_only_visible_rows_of_a_million_are_made() -> None:
    app = TableApp(many_kernels(1_000_000))
    async with app.run_test(size=(100, 24)) as pilot:
        table = app.pane.table
        assert table.page_rows == 22
        await pilot.press("pagedown", "pagedown")
        assert table.model.cursor_row == 44
        await pilot.press("ctrl+d")
        assert table.model.cursor_row == 55
        await pilot.press("pageup", "ctrl+u")
        assert table.model.cursor_row == 22
        await pilot.press("G")
        assert table.model.cursor_row == 999_999
        assert table.scroll_offset.y == 999_978
        assert app.pane.current_row is not None
        assert app.pane.current_row["line"] == 1_000_000
        row_count = sum(len(page) for page in table.model.rows._pages.values())
        assert row_count <= 3 * 128
        assert "1,000,000 rows" in screen_text(app)


async def test_rows_scroll_by_one_when_the_cursor_leaves_the_page() -> None:
    app = TableApp(many_kernels(100))
    async with app.run_test(size=(100, 24)) as pilot:
        table = app.pane.table
        await pilot.press(*"j" * 21)
        assert (table.model.cursor_row, table.scroll_offset.y) == (21, 0)
        await pilot.press("j")
        assert (table.model.cursor_row, table.scroll_offset.y) == (22, 1)
        await pilot.press(*"k" * 22)
        assert (table.model.cursor_row, table.scroll_offset.y) == (0, 0)


async def test_adjacent_pages_are_rendered_in_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[object] = []
    original = TablePainter.row

    def noted(painter: TablePainter, values: Sequence[object], *arguments: Any) -> Strip:
        drawn.append(values[-1])
        return original(painter, values, *arguments)

    monkeypatch.setattr(TablePainter, "row", noted)
    app = TableApp(many_kernels(1_000))
    async with app.run_test(size=(100, 24)) as pilot:
        table = app.pane.table
        await pilot.press("pagedown", "pagedown")
        drawn.clear()
        assert table.draw_ahead()
        assert 0 < len(drawn) <= AHEAD_ROWS
        for key in ("pagedown", "pagedown", "pageup", "pageup", "pageup"):
            while table.draw_ahead():
                pass
            drawn.clear()
            await pilot.press(key)
            # The row under the cursor, and the one that it was on.
            assert len(drawn) <= 2
            texts = screen_text(app)
            table.redraw()
            await pilot.pause()
            assert screen_text(app) == texts


async def test_rendering_in_advance_ends_for_pages_taller_than_the_cache() -> None:
    app = TableApp(many_kernels(2_000))
    async with app.run_test(size=(100, 300)) as pilot:
        table = app.pane.table
        await pilot.press("pagedown", "pagedown")
        turns = 0
        while table.draw_ahead():
            turns += 1
        assert 0 < turns <= 2 * MAX_CACHED_STRIPS // AHEAD_ROWS


async def test_hidden_columns_are_counted_and_can_be_reached() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 24)) as pilot:
        table = app.pane.table
        assert table.table_layout.after == 6
        assert "+6 columns →" in screen_text(app)
        await pilot.press("l", "l", "l")
        assert table.model.cursor_column == "calls"
        assert table.table_layout.before == 0
        await pilot.press("l")
        assert table.table_layout.find(table.model.cursor_column) is not None
        assert table.table_layout.before > 0
        assert "← " in screen_text(app)
        assert table.table_layout.placed[0].column.name == "name"
        await pilot.press("circumflex_accent", "l")
        assert table.table_layout.before == 0


async def test_the_highlighted_row_is_posted_when_the_cursor_rests() -> None:
    app = TableApp()
    async with app.run_test() as pilot:
        await wait_until(pilot, lambda: bool(app.events_of(TablePane.RowHighlighted)))
        assert app.events_posted[-1].row["name"] == DGRAD
        app.events_posted.clear()
        app.pane.table.action_cursor_down()
        app.pane.table.action_cursor_down()
        app.pane.table.action_cursor_down()
        await wait_until(pilot, lambda: bool(app.events_of(TablePane.RowHighlighted)))
        assert [event.row["name"] for event in app.events_posted] == ["[CUDA memcpy HtoD]"]


async def test_enter_and_a_double_click_open_the_row() -> None:
    app = TableApp()
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.press("j", "enter")
        await pilot.click("FrameTable", offset=(30, 4), times=2)
        await pilot.pause()
        assert [event.row["name"] for event in app.events_of(TablePane.RowOpened)] == [
            "sgemm_128x128x8_NT_vec",
            "[CUDA memcpy HtoD]",
        ]


async def test_a_click_selects_a_cell_and_a_click_on_a_heading_sorts() -> None:
    app = TableApp()
    async with app.run_test(size=(100, 24)) as pilot:
        calls = app.pane.table.table_layout.find("calls")
        assert calls is not None
        await pilot.click("FrameTable", offset=(calls.x + 1, 3))
        assert (app.pane.model.cursor_row, app.pane.model.cursor_column) == (2, "calls")
        await pilot.click("FrameTable", offset=(calls.x + 1, 0))
        assert app.pane.state.sort == (("calls", True),)
        assert "Calls ▼" in screen_text(app)


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_hostile_names_are_shown_as_text(ascii_only: bool) -> None:
    app = TableApp(ascii_only=ascii_only)
    async with app.run_test(size=(140, 24)) as pilot:
        await pilot.press("space")
        text = screen_text(app)
        assert "\x1b" not in text
        assert ("evil.[31m[red]kernel[/red]." if ascii_only else "evil·[31m[red]kernel[/red]·") in text
        lines = text.splitlines()
        assert lines[1].startswith("* " if ascii_only else "• ")
        # The figures stand under each other, whatever cells the name takes.
        assert {len(line) - len(line.lstrip()) for line in lines[1:9]} == {0, 2}
        ends = {
            line[: line.index(total)].rstrip() != "" and line.index(total) + len(total)
            for line, total in ((lines[2], "210.40"), (lines[4], "64.00"), (lines[5], "20.00"))
        }
        assert len(ends) == 1
        assert text.isascii() is ascii_only


async def test_the_scrollbar_is_ascii_in_ascii_mode() -> None:
    frame = many_kernels(300).with_columns(name=pl.lit("sgemm", dtype=pl.Categorical()))
    app = TableApp(frame, ascii_only=True)
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.press("pagedown", "pagedown", "j")
        assert screen_text(app).isascii()


async def test_a_scrollbar_without_its_new_size_is_blank_in_the_lines_added() -> None:
    app = TableApp(many_kernels(300))
    async with app.run_test(size=(100, 24)):
        bar = app.pane.table.vertical_scrollbar
        lines = bar.size.height
        # Between a layout that made it higher and the event with its size.
        bar._size = Size(1, lines + 2)
        strips = bar.render_lines(Region(0, 0, 1, lines + 2))
        assert [strip.cell_length for strip in strips] == [1] * (lines + 2)
        assert [strip.text for strip in strips[lines:]] == [" ", " "]


async def test_an_empty_table_says_why() -> None:
    app = TableApp(KERNELS.head(0))
    async with app.run_test() as pilot:
        await pilot.press("j", "G", "enter", "space", "y", "Y", "v", "asterisk", "s", "L", "i", "n")
        assert "No kernels in this log: it holds API calls only: press 0" in screen_text(app)
        assert app.pane.current_row is None
        assert app.events_of(TablePane.RowOpened) == []
        await wait_until(pilot, lambda: bool(app.events_of(TablePane.RowHighlighted)))
        assert app.events_posted[-1].row is None


async def test_resizing_keeps_the_cursor_visible() -> None:
    app = TableApp(many_kernels(200))
    async with app.run_test(size=(100, 40)) as pilot:
        for _ in range(30):
            app.pane.table.action_cursor_down()
        await pilot.resize_terminal(60, 12)
        await pilot.pause()
        table = app.pane.table
        assert table.scroll_offset.y <= 30 < table.scroll_offset.y + table.page_rows
        await pilot.resize_terminal(10, 3)
        await pilot.pause()
        assert table.model.cursor_row == 30
