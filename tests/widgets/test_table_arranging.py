from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from tests.snapshots import screen_text
from tests.waiting import wait_until
from tests.widgets.tables import DGRAD, KERNELS, SPEC, TableApp
from tui.model.columns import columns
from tui.model.table_spec import TableState
from tui.state.workspace import Arrangements
from tui.widgets.app_services import AppServices, provide_services
from tui.widgets.table.columns import ColumnChooser
from tui.widgets.table.search import QueryMode

FLAGGED = KERNELS.with_columns(uses_tensor_core=pl.Series([True, True, False, None, False, False, None, True]))
FLAGGED_SPEC = replace(SPEC, columns=(*SPEC.columns[:2], *columns("uses_tensor_core"), *SPEC.columns[2:]))


class RememberingApp(TableApp):
    """A table whose arrangement is stored."""

    def __init__(self) -> None:
        super().__init__()
        services = AppServices()
        services.arrangements = Arrangements()
        provide_services(self, services)


def visible_columns(app: TableApp) -> list[str]:
    return [place.column.name for place in app.pane.table.table_layout.placed]


# --- filter by a column -------------------------------------------------------------------------------------


async def test_a_key_adds_a_filter_by_the_column_under_the_cursor() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("f", *"gemm", "enter")
        await wait_until(pilot, lambda: not app.pane.search.bar.is_open)
        await pilot.press("l", "F")
        assert app.pane.search.bar.mode is QueryMode.FILTER
        assert app.pane.search.bar.text == "gemm total>"
        assert "Total: a number, for example 1ms; or < = =a..b" in screen_text(app)
        await pilot.press(*"1ms", "enter")
        await wait_until(pilot, lambda: app.names == ["sgemm_128x128x8_NT_vec"])
        assert "1 of 8 rows" in screen_text(app)
        await pilot.press("F", "escape")
        assert app.pane.state.filter == "gemm total>1ms"


@pytest.mark.parametrize(
    ("column", "typed", "filtered"),
    [
        (1, ">1ms", "total>1ms"),
        (1, "<1ms", "total<1ms"),
        (1, ">=1ms", "total>=1ms"),
        (1, "=1ms..9ms", "total=1ms..9ms"),
        (1, "!=1ms", "total!=1ms"),
        (0, "~^void", "name~^void"),
        (0, "<int>", "name:<int>"),
    ],
)
async def test_a_typed_operator_replaces_the_offered_one(column: int, typed: str, filtered: str) -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press(*["l"] * column, "F", *typed)
        assert app.pane.search.bar.text == filtered
        # Only at the beginning: later it is part of what is looked for, or to be mended.
        await pilot.press("=")
        assert app.pane.search.bar.text == f"{filtered}="


async def test_alternatives_are_parenthesized_when_a_column_is_added() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        app.pane.set_filter("gemm | CUDA")
        await pilot.press("F")
        assert app.pane.search.bar.text == "(gemm | CUDA) name:"


async def test_boolean_columns_are_filtered_by_yes_no_and_unknown() -> None:
    app = TableApp(FLAGGED, FLAGGED_SPEC)
    async with app.run_test(size=(120, 24)) as pilot:
        app.pane.table.move_to_column("uses_tensor_core")
        await pilot.press("F")
        assert app.pane.search.bar.text == "tc="
        await wait_until(pilot, lambda: "1 yes, 0 no, ? unknown" in screen_text(app))
        for typed, rows in (("1", 3), ("0", 3), ("?", 2), ("yes", 3), ("no", 3)):
            await pilot.press("ctrl+u", *"tc=", *typed)
            await wait_until(pilot, lambda rows=rows: len(app.names) == rows and not app.pane.is_pending)  # type: ignore[misc]
            await wait_until(pilot, lambda typed=typed: app.pane.state.filter == f"tc={typed}")  # type: ignore[misc]
            assert f"{rows} of 8 rows" in screen_text(app)


async def test_an_incomplete_filter_must_be_completed_first() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        app.pane.change(filter="(gemm")
        await pilot.press("escape", "F")
        assert app.pane.search.bar.is_open
        assert app.pane.search.bar.text in ("(gemm", "name:")


# --- several columns to sort by -----------------------------------------------------------------------------


async def test_a_key_adds_reverses_and_removes_a_sort_column() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("l", "l", "l", "s", "l", "semicolon")
        assert app.pane.state.sort == (("calls", True), ("avg_ns", True))
        text = screen_text(app)
        assert "Calls ▼1" in text
        assert "Avg ms ▼2" in text
        await pilot.press("semicolon")
        assert app.pane.state.sort == (("calls", True), ("avg_ns", False))
        await pilot.press("semicolon")
        assert app.pane.state.sort == (("calls", True),)


async def test_reset_restores_the_default_sort_order() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        before = app.names
        await pilot.press("s")
        assert app.pane.state.sort == (("name", True),)
        assert app.names != before
        await pilot.press("R")
        assert app.pane.state.sort is None
        assert app.names == before


async def test_a_column_is_added_to_the_default_sort_order() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("l", "l", "l", "semicolon")
        assert app.pane.state.sort == (("total_ns", True), ("calls", True))
        await pilot.press("semicolon", "semicolon")
        assert app.pane.state.sort is None


# --- columns ------------------------------------------------------------------------------------------------


async def test_a_pinned_column_stays_while_the_others_scroll() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("l", "l", "l", "P")
        assert app.pane.state.pinned == ("calls",)
        assert app.toasts == ["Calls is pinned"]
        assert visible_columns(app)[:2] == ["name", "calls"]
        await pilot.press("dollar_sign")
        assert visible_columns(app)[:2] == ["name", "calls"]
        assert visible_columns(app)[-1] == "line"
        app.pane.table.move_to_column("calls")
        await pilot.press("P")
        assert app.pane.state.pinned == ()
        await pilot.press("circumflex_accent", "P")
        assert app.toasts[-1] == "Name is always in place"
        assert app.pane.state.pinned == ()


async def test_pinned_columns_never_fill_the_table() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 24)) as pilot:
        app.pane.change(pinned=tuple(column.name for column in SPEC.columns[1:]))
        await pilot.press("dollar_sign")
        assert visible_columns(app)[-1] == "line"
        assert 2 <= len(visible_columns(app)) < len(SPEC.columns)


async def test_a_hidden_column_is_restored_in_the_dialog() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24), notifications=True) as pilot:
        await pilot.press("l", "l", "H")
        assert app.pane.state.hidden == {"time_pct"}
        assert app.pane.model.cursor_column == "calls"
        assert app.toasts == ["Time% is hidden: c shows it again"]
        await pilot.press("circumflex_accent", "H")
        assert app.pane.state.hidden == {"time_pct"}
        await pilot.press("c", "j", "j", "space", "enter")
        assert app.pane.state.hidden == frozenset()


async def test_a_column_hidden_by_default_can_be_shown() -> None:
    app = TableApp(KERNELS.clear())
    async with app.run_test(size=(120, 24)) as pilot:
        app.pane.state = TableState(hidden=frozenset({"calls", "total_ns"}))
        app.pane.show(KERNELS)
        await pilot.pause()
        assert "calls" not in visible_columns(app)
        app.pane.change(hidden=frozenset({"total_ns"}))
        await pilot.pause()
        assert "calls" in visible_columns(app)


async def test_the_last_column_can_be_hidden() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("dollar_sign", "H")
        assert "line" in app.pane.state.hidden
        assert app.pane.model.cursor_column == "size_bytes"


async def test_trailing_names_use_the_rest_of_the_line_and_are_whole_at_the_cursor() -> None:
    app = TableApp()
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.press("w", "W")
        assert visible_columns(app)[-1] == "name"
        assert app.pane.model.cursor_column == "total_ns"
        before = app.pane.table.table_layout.placed[-1].width
        await pilot.press("dollar_sign")
        assert app.pane.model.cursor_column == "name"
        assert app.pane.table.table_layout.placed[-1].width > before
        assert visible_columns(app) == ["total_ns", "name"]
        await pilot.press("W")
        assert visible_columns(app)[0] == "name"


async def test_full_names_take_room_from_other_columns() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        table = app.pane.table
        assert (table.table_layout.placed[0].width, len(visible_columns(app))) == (32, 6)
        await pilot.press("w")
        await pilot.pause()
        assert table.table_layout.placed[0].width == 50
        assert visible_columns(app)[:2] == ["name", "total_ns"]
        await pilot.press("w")
        await pilot.pause()
        assert (table.table_layout.placed[0].width, len(visible_columns(app))) == (32, 6)


async def test_the_column_dialog_pins_moves_names_and_resets() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("c", "j", "j", "j", "p", "n")
        assert isinstance(app.screen, ColumnChooser)
        text = screen_text(app)
        assert "[x] Calls  pinned" in text
        assert "[x] Name   last" in text
        await pilot.press("enter")
        state = app.pane.state
        assert (state.pinned, state.name_last, state.order) == (("calls",), True, ())
        await pilot.press("c", "r", "enter")
        state = app.pane.state
        assert (state.pinned, state.name_last, state.hidden, state.order) == ((), False, frozenset(), ())


# --- which rows ---------------------------------------------------------------------------------------------


async def test_small_rows_are_hidden_counted_and_restored() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("x")
        # 410,000 + 209,360 ns of 754 ms; the next, 9 ms, would make it more than 1%.
        assert len(app.names) == 6
        assert "6 of 8 rows · 99.92% of time · 2 small (619.36 µs) hidden: x shows" in screen_text(app)
        await pilot.press("x")
        assert len(app.names) == 8
        assert "small" not in screen_text(app).splitlines()[-1]


async def test_the_row_limit() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        app.pane.change(max_rows=2)
        await pilot.pause()
        assert app.names == [DGRAD, "sgemm_128x128x8_NT_vec"]
        assert "first 2 of 8 rows · 74.85% of time" in screen_text(app)
        await pilot.press("l", "l", "l", "s")
        assert app.pane.model.shown_frame()["calls"].to_list() == [120, 48]


# --- shares -------------------------------------------------------------------------------------------------


async def test_a_key_cycles_shares_of_all_shares_of_shown_and_times() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        app.pane.set_filter("gemm")
        shown = []
        for _ in range(3):
            await pilot.press("percent_sign")
            row = app.pane.model.rows.record(0)
            shown.append((app.pane.table.writer("total_ns").full_text(row["total_ns"]), screen_text(app)))
        # 210.40 of 754.00 ms, then of 210.61 ms.
        assert [value for value, _ in shown[:2]] == ["27.90", "99.90"]
        assert "% of all" in shown[0][1]
        assert "% of shown" in shown[1][1]
        assert "% of" not in shown[2][1].splitlines()[-1].replace("% of time", "")


async def test_sessions_that_are_not_additive_have_no_shares() -> None:
    frame = KERNELS.with_columns(session=pl.Series([0, 0, 0, 0, 1, 1, 1, 1], dtype=pl.UInt32))
    app = TableApp(frame)
    async with app.run_test(size=(120, 24), notifications=True) as pilot:
        app.pane.model.excluded_sessions = (1,)
        await pilot.press("percent_sign")
        assert not app.pane.state.as_share
        assert app.toasts == ["Shares apply to one session: choose one with S."]


# --- from run to run ----------------------------------------------------------------------------------------


async def test_an_arrangement_is_restored(state_directory: Path) -> None:
    app = RememberingApp()
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("l", "l", "l", "s", "P", "w", "u", "j", "space", "f", *"gemm", "enter")
        await wait_until(pilot, lambda: (state_directory / "tables.json").is_file())
        await app.workers.wait_for_complete()
        left = app.pane.state
    next_run = RememberingApp()
    async with next_run.run_test(size=(120, 24)) as pilot:
        found = next_run.pane.state
        assert (found.sort, found.pinned) == (None, ("calls",))
        assert (found.full_names, found.unit) == (left.full_names, left.unit) == (True, "s")
        assert (found.filter, found.marks) == ("", frozenset())
        await pilot.press("R")
        assert next_run.pane.state.pinned == ()
        await next_run.workers.wait_for_complete()
    assert Arrangements().get("/table/kernels").pinned == ()


async def test_viewing_writes_nothing(state_directory: Path) -> None:
    app = RememberingApp()
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("j", "l", "space", "x", "f", *"gemm", "enter", "s", "s", "s")
        await app.workers.wait_for_complete()
        await pilot.pause()
    # Sorting did write; the table as it came is not remembered.
    assert Arrangements().get("/table/kernels").pinned == ()
    next_run = RememberingApp()
    before = sorted(path.stat().st_mtime_ns for path in state_directory.rglob("*"))
    async with next_run.run_test(size=(120, 24)) as pilot:
        await pilot.press("j", "l", "space", "x", "f", *"gemm", "enter")
        await next_run.workers.wait_for_complete()
    assert sorted(path.stat().st_mtime_ns for path in state_directory.rglob("*")) == before


async def test_a_damaged_state_file_is_reported_once(state_directory: Path) -> None:
    state_directory.mkdir()
    (state_directory / "tables.json").write_text("{")
    app = RememberingApp()
    async with app.run_test(size=(120, 24), notifications=True) as pilot:
        await pilot.pause()
        assert len(app.names) == 8
        assert [toast for toast in app.toasts if "is damaged" in toast]
        count = len(app.toasts)
        app.pane.show(KERNELS.reverse())
        await pilot.press("u")
        await app.workers.wait_for_complete()
        assert [toast for toast in app.toasts[count:] if "damaged" in toast] == []


async def test_an_unwritable_folder_is_reported_once(state_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state_directory.parent.mkdir(exist_ok=True)
    state_directory.write_text("a file")
    app = RememberingApp()
    async with app.run_test(size=(120, 24), notifications=True) as pilot:
        await pilot.press("u", "u", "u")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert len([toast for toast in app.toasts if "tables.json" in toast]) == 1
        assert app.pane.state.unit == "us"


async def test_removed_columns_are_ignored() -> None:
    memory = Arrangements()
    app = RememberingApp()
    async with app.run_test(size=(120, 24)) as pilot:
        app.pane.state = TableState(
            sort=(("gone", True), ("calls", True)), hidden=frozenset({"old"}), pinned=("older",)
        )
        await pilot.pause()
        assert app.names[0] == "sgemm_128x128x8_NT_vec"
        assert "sorted by Calls ▼" in screen_text(app)
        assert visible_columns(app)[0] == "name"
    assert memory.warning == ""


async def test_marked_rows_of_sessions_that_are_not_additive_have_no_share() -> None:
    frame = KERNELS.with_columns(session=pl.Series([0, 0, 0, 0, 1, 1, 1, 1], dtype=pl.UInt32))
    app = TableApp(frame)
    async with app.run_test(size=(120, 24)) as pilot:
        app.pane.model.excluded_sessions = (1, 0)
        await pilot.press("space", "j", "j", "j", "space")
        assert "2 marked: 373.98 ms · avg 186.99 ms" in screen_text(app)
        app.pane.model.excluded_sessions = (1,)
        await pilot.press("G", "k", "space")
        # Of session 0 alone: 353.98 of 724.38 ms.
        assert "3 marked: 374.39 ms, 48.87% of all" in screen_text(app)
