from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import polars as pl

from tests.snapshots import screen_text
from tests.waiting import WorkerGate, wait_until
from tests.widgets.tables import DGRAD, KERNELS, SPEC, WIDE, TableApp
from tui.model.table_spec import TableState
from tui.query.apply import Applied, apply
from tui.widgets.table import filtering, model
from tui.widgets.table.pane import TablePane
from tui.widgets.table.search import QueryMode
from tui.widgets.table.status_line import TableStatus

if TYPE_CHECKING:
    import pytest

SGEMMS = ["sgemm_128x128x8_NT_vec", "sgemm_32x32x32_NN"]


def current_name(app: TableApp) -> object:
    row = app.pane.current_row
    return row and row["name"]


async def test_s_sorts_descending_ascending_and_by_default_and_keeps_the_cursor_row() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("j", "l", "l", "l", "s")
        assert app.pane.state.sort == (("calls", True),)
        assert app.names[0] == "sgemm_128x128x8_NT_vec"
        assert (current_name(app), app.pane.model.cursor_row) == ("sgemm_128x128x8_NT_vec", 0)
        assert "sorted by Calls ▼" in screen_text(app)
        await pilot.press("s")
        assert app.names[0] == WIDE
        assert (current_name(app), app.pane.model.cursor_row) == ("sgemm_128x128x8_NT_vec", 7)
        await pilot.press("s")
        assert app.pane.state.sort is None
        assert app.names == KERNELS["name"].to_list()
        assert app.pane.model.cursor_row == 1
        assert "sorted by Total ▼" in screen_text(app)


async def test_an_unmoved_cursor_stays_at_the_top() -> None:
    app = TableApp()
    async with app.run_test() as pilot:
        app.pane.set_sort((("calls", False),))
        await pilot.pause()
        assert (app.pane.model.cursor_row, current_name(app)) == (0, WIDE)


async def test_a_table_can_open_on_a_given_row() -> None:
    app = TableApp(spec=replace(SPEC, cursor_on=("name", "[CUDA memcpy HtoD]")))
    async with app.run_test() as pilot:
        assert current_name(app) == "[CUDA memcpy HtoD]"
        app.pane.set_sort((("calls", False),))
        await pilot.pause()
        assert (app.pane.model.cursor_row, current_name(app)) == (0, WIDE)


async def test_sort_columns_can_be_moved_and_are_numbered() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("greater_than_sign")
        assert app.pane.state.sort == (("time_pct", True),)
        await pilot.press("less_than_sign", "less_than_sign")
        assert app.pane.state.sort == (("name", True),)
        app.pane.set_sort((("calls", True), ("total_ns", False)))
        await pilot.pause()
        assert "Calls ▼1" in screen_text(app)
        assert "sorted by Calls ▼, Total ▲" in screen_text(app)


async def test_a_filter_applies_while_typing_and_esc_undoes_it() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("j", "f", *"sgemm")
        await wait_until(pilot, lambda: app.names == SGEMMS)
        text = screen_text(app)
        assert "2 of 8 rows · 27.93% of time" in text
        assert 'contains "sgemm"' in text
        await pilot.press("escape")
        assert not app.pane.search.bar.is_open
        assert app.names == KERNELS["name"].to_list()
        assert current_name(app) == "sgemm_128x128x8_NT_vec"
        assert app.focused is app.pane.table


async def test_enter_keeps_a_filter_and_esc_removes_it_later() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("f", *"sgemm", "enter")
        await wait_until(pilot, lambda: not app.pane.search.bar.is_open)
        assert app.names == SGEMMS
        assert app.pane.state.filter == "sgemm"
        await pilot.press("escape")
        assert app.pane.state.filter == ""
        assert len(app.names) == 8
        assert app.pane.undo_smallest() is False


async def test_an_invalid_filter_keeps_the_last_rows_and_shows_the_error() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("f", *"sgemm")
        await wait_until(pilot, lambda: app.names == SGEMMS)
        await pilot.press(*" (")
        await wait_until(pilot, lambda: app.pane.search.bar.query_one("#query-answer").has_class("-wrong"))
        assert app.names == SGEMMS
        assert "! " in screen_text(app).splitlines()[-2]
        await pilot.press("enter")
        await pilot.pause()
        assert app.pane.search.bar.is_open
        await pilot.press("backspace", "backspace", "enter")
        await wait_until(pilot, lambda: not app.pane.search.bar.is_open)
        assert app.names == SGEMMS


async def test_a_number_without_unit_is_in_the_unit_of_the_column() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("f", *"total>100")
        await wait_until(pilot, lambda: app.names == [DGRAD, "sgemm_128x128x8_NT_vec"])
        assert "Total > 100 ms" in screen_text(app)


async def test_find_goes_to_the_first_match_and_n_cycles() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24), notifications=True) as pilot:
        await pilot.press("slash", *"gemm")
        await wait_until(pilot, lambda: app.pane.model.cursor_row == 1)
        assert "find 1/2" in screen_text(app)
        await pilot.press("enter")
        await wait_until(pilot, lambda: not app.pane.search.bar.is_open)
        assert len(app.names) == 8
        await pilot.press("n")
        assert app.pane.model.cursor_row == 7
        assert app.toasts == []
        await pilot.press("n")
        assert app.pane.model.cursor_row == 1
        assert app.toasts == ["Search wrapped to the first match."]
        await pilot.press("N")
        assert app.pane.model.cursor_row == 7
        await pilot.press("k")
        assert "2 found" in screen_text(app)
        await pilot.press("escape")
        assert app.pane.state.find == ""


async def test_canceling_a_search_returns_to_its_start() -> None:
    app = TableApp()
    async with app.run_test() as pilot:
        await pilot.press("j", "j", "slash", *"memset")
        await wait_until(pilot, lambda: app.pane.model.cursor_row == 6)
        await pilot.press("escape")
        assert app.pane.model.cursor_row == 2


async def test_tab_turns_a_search_into_a_filter() -> None:
    app = TableApp()
    async with app.run_test() as pilot:
        await pilot.press("slash", *"sgemm", "tab")
        await wait_until(pilot, lambda: app.names == SGEMMS)
        assert app.pane.search.bar.mode is QueryMode.FILTER
        assert (app.pane.state.find, app.pane.state.filter) == ("", "sgemm")
        await pilot.press("tab", "enter")
        await wait_until(pilot, lambda: not app.pane.search.bar.is_open)
        assert (app.pane.state.find, app.pane.state.filter) == ("sgemm", "")


async def test_esc_restores_the_filter_before_an_invalid_one_from_elsewhere() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        app.pane.set_filter("sgemm")
        app.pane.set_filter("nosuch=1")
        await wait_until(pilot, lambda: app.pane.search.bar.is_open)
        assert "no column nosuch" in screen_text(app)
        await pilot.press("escape")
        await wait_until(pilot, lambda: not app.pane.search.bar.is_open)
        assert (app.pane.state.filter, app.names) == ("sgemm", SGEMMS)
        await pilot.press("f")
        assert (app.pane.search.bar.is_open, app.pane.search.bar.text) == (True, "sgemm")


async def test_history_and_completion_of_the_query_bar() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        for text in ("sgemm", "memset"):
            app.pane.set_filter(text)
        app.pane.set_filter("")
        await pilot.press("f", "up")
        assert app.pane.search.bar.text == "memset"
        await pilot.press("up", "up")
        assert app.pane.search.bar.text == "sgemm"
        await pilot.press("down", "down")
        assert app.pane.search.bar.text == ""
        await pilot.press(*"call")
        await wait_until(pilot, lambda: "calls" in screen_text(app).splitlines()[-2])
        await pilot.press("right")
        assert app.pane.search.bar.text == "calls"


async def test_filters_for_rows_like_and_unlike_the_current_one() -> None:
    app = TableApp()
    async with app.run_test() as pilot:
        await pilot.press("j", "exclamation_mark")
        assert "sgemm_128x128x8_NT_vec" not in app.names
        assert len(app.names) == 7
        assert app.pane.model.cursor_row == 1
        await pilot.press("asterisk")
        assert app.names == ["maxwell_scudnn_128x64_relu_small_nn_v1"]
        assert current_name(app) == "maxwell_scudnn_128x64_relu_small_nn_v1"


async def test_marks_are_summed_and_survive_sorting_filtering_and_new_rows() -> None:
    app = TableApp()
    async with app.run_test(size=(140, 24)) as pilot:
        await pilot.press("space", "space")
        assert app.pane.model.cursor_row == 2
        assert app.pane.model.marked_rows()["name"].to_list() == [DGRAD, "sgemm_128x128x8_NT_vec"]
        # 353,980,000 + 210,400,128 of 754,000,000 ns
        assert "2 marked: 564.38 ms, 74.85% of all · avg 282.19 ms" in screen_text(app)
        await pilot.press("s", "f", *"sgemm", "enter")
        await wait_until(pilot, lambda: not app.pane.search.bar.is_open)
        app.pane.show(KERNELS.reverse())
        await pilot.pause()
        assert set(app.pane.model.marked_rows()["name"]) == {DGRAD, "sgemm_128x128x8_NT_vec"}
        assert app.pane.state.marks == {(DGRAD,), ("sgemm_128x128x8_NT_vec",)}
        assert app.pane.undo_smallest()
        assert app.pane.state.marks == frozenset()
        assert app.pane.state.filter == "sgemm"


async def test_new_rows_keep_the_cursor_by_key() -> None:
    app = TableApp()
    async with app.run_test() as pilot:
        await pilot.press("j", "j", "j")
        app.pane.show(KERNELS.reverse())
        await pilot.pause()
        assert (current_name(app), app.pane.model.cursor_row) == ("[CUDA memcpy HtoD]", 4)
        app.pane.show(KERNELS.head(2))
        await pilot.pause()
        assert app.pane.model.cursor_row == 0
        app.pane.show(KERNELS)
        await pilot.pause()
        assert current_name(app) == "[CUDA memcpy HtoD]"


async def test_the_state_restores_everything() -> None:
    app = TableApp()
    async with app.run_test(size=(140, 24)) as pilot:
        await pilot.press("l", "l", "l", "s", "j", "j", "space", "w", "u", "f", *"calls>3", "enter")
        await wait_until(pilot, lambda: not app.pane.search.bar.is_open)
        state = app.pane.state
        text = screen_text(app)
        assert state.cursor_column == "calls"
        assert (state.full_names, state.unit, state.sort) == (True, "s", (("calls", True),))
        app.pane.state = TableState()
        await pilot.pause()
        assert len(app.names) == 8
        app.pane.state = state
        await pilot.pause()
        assert app.pane.state == state
        assert screen_text(app) == text


async def test_a_state_can_be_given_before_there_are_rows() -> None:
    app = TableApp(KERNELS.clear())
    async with app.run_test() as pilot:
        app.pane.state = TableState(cursor_key=("[CUDA memset]",), marks=frozenset({(DGRAD,)}), filter="CUDA")
        app.pane.show(KERNELS)
        await pilot.pause()
        assert current_name(app) == "[CUDA memset]"
        assert app.pane.model.marked_rows()["name"].to_list() == [DGRAD]
        assert app.names == ["[CUDA memcpy HtoD]", "[CUDA memset]"]


async def test_units_and_shares() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        titles = []
        for _ in range(5):
            titles.append(app.pane.table.writer("total_ns").title)
            await pilot.press("u")
        assert titles == ["Total ms", "Total s", "Total ms", "Total µs", "Total ns"]
        await pilot.press("percent_sign")
        assert "Total% ▼" in screen_text(app)
        assert "46.95" in screen_text(app).splitlines()[1]


async def test_going_to_the_source_line_and_to_the_details() -> None:
    app = TableApp()
    async with app.run_test() as pilot:
        await pilot.press("j", "L", "i")
        assert app.events_of(TablePane.SourceLineRequested)[0].line == 12
        assert app.events_of(TablePane.DetailRequested)[0].row["name"] == "sgemm_128x128x8_NT_vec"


async def test_many_rows_are_filtered_in_a_thread_and_only_the_latest_request_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(filtering, "MAX_ROWS_FILTERED_AT_ONCE", 0)
    app = TableApp()
    async with app.run_test() as pilot:
        app.pane.change(filter="memset")
        app.pane.change(filter="gemm")
        assert app.pane.is_pending
        await wait_until(pilot, lambda: not app.pane.is_pending)
        # Nothing is at work any more that could bring other rows.
        await pilot.pause()
        assert app.names == SGEMMS


async def test_a_long_filter_shows_progress_and_can_be_canceled(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = WorkerGate()

    def slow_apply(*args: Any, **options: Any) -> Applied:
        go_on.wait()
        return apply(*args, **options)

    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        monkeypatch.setattr(filtering, "MAX_ROWS_FILTERED_AT_ONCE", 0)
        monkeypatch.setattr(model, "apply", slow_apply)
        app.pane.change(filter="gemm")
        await wait_until(pilot, lambda: "working on 8 rows… esc cancels" in screen_text(app))
        await pilot.press("j")
        assert app.pane.model.cursor_row == 1
        await pilot.press("escape")
        go_on.set()
        await pilot.pause()
        assert app.pane.state.filter == ""
        assert len(app.names) == 8
        assert "working" not in screen_text(app)


async def test_a_failing_filter_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_apply(*_args: Any, **_options: Any) -> Applied:
        raise ZeroDivisionError("of [all] things")

    app = TableApp()
    async with app.run_test(notifications=True) as pilot:
        monkeypatch.setattr(filtering, "MAX_ROWS_FILTERED_AT_ONCE", 0)
        monkeypatch.setattr(model, "apply", broken_apply)
        app.pane.change(filter="gemm")
        await wait_until(pilot, lambda: bool(app.toasts))
        assert app.toasts == ["Failed: of [all] things"]
        assert len(app.names) == 8


async def test_help_lists_every_column_with_its_filter_name() -> None:
    app = TableApp()
    async with app.run_test():
        help_lines = dict(app.pane.help_lines())
        assert len(help_lines) == len(SPEC.columns)
        assert help_lines["Avg"] == "Total divided by calls. In filters: avg_ns, avg, mean; exported in ns."


async def test_exported_rows_are_the_shown_ones_in_their_order() -> None:
    app = TableApp()
    async with app.run_test() as pilot:
        app.pane.change(filter="sgemm", sort=(("calls", False),), hidden=frozenset({"line"}))
        await pilot.pause()
        assert app.pane.model.shown_frame()["calls"].to_list() == [6, 120]
        assert "line" in app.pane.model.shown_frame().columns
        assert app.pane.model.shown_frame(all_columns=False).columns == [
            column.name for column in SPEC.columns if column.name != "line"
        ]
        assert isinstance(app.pane.model.shown_frame(), pl.DataFrame)


def test_the_number_of_rows_is_unknown_before_they_are_shown() -> None:
    pane = TablePane(SPEC)
    assert pane.is_loading
    assert TableStatus(is_loading=pane.is_loading and pane.frame.is_empty()).fitted_line(20).strip() == "loading…"


async def test_a_key_that_needs_a_row_says_why_there_is_none() -> None:
    app = TableApp()
    async with app.run_test() as pilot:
        with patch.object(app.pane, "notify") as notify:
            app.pane.set_filter("nosuchkernel")
            await pilot.pause()
            for key in ("enter", "i", "v", "L", "T", "M", "space", "y", "Y"):
                notify.reset_mock()
                await pilot.press(key)
                assert [call.args for call in notify.call_args_list] == [
                    ("No row matches the filter. esc clears it.",)
                ], key
            app.pane.show(app.pane.frame.clear(), empty="no launches: record them")
            await pilot.press("enter")
            assert notify.call_args.args == ("No launches: record them",)
