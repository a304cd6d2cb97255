"""Iterations, Kernels by Iteration and Kernels by Op: chart, spans, keys, and that every view follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.analysis.expert.answers.expected_answers import serving_profile
from tests.analysis.frames import kernel, make_profile
from tests.screens.explorer import app_of, assert_at_sizes, open_explorer, press, screen_of, settle, table_of, view_of
from tests.screens.made_profiles import open_profile, training_profile
from tests.snapshots import assert_screen, screen_text
from tests.waiting import wait_until
from tui.analysis.kernels import kernels
from tui.model.aggregation import Aggregation
from tui.screens import base
from tui.screens.iterations import IterationsScreen, KeyPicker
from tui.screens.menus import MenuScreen
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion
    from textual.pilot import Pilot

    from tui.widgets.charts.iteration_chart import IterationChart

TRACE = "resnet50_training.pt.trace.json.gz"
"""Five recorded iterations, 3 to 7; the last is the slowest."""
LOG = "resnet50_training.nvprof.log"


def chart_of(pilot: Pilot[None]) -> IterationChart:
    return screen_of(pilot, IterationsScreen).chart


def current_iteration(pilot: Pilot[None]) -> Any:
    """Return the iteration under the cursor, which chart and table share."""
    row = table_of(pilot, "table").current_row
    assert row is not None
    chart = chart_of(pilot)
    assert chart.rows["iteration"][chart.cursor] == row["iteration"]
    return row["iteration"]


def current_details(pilot: Pilot[None]) -> dict[str, str]:
    """Return the details of the row under the cursor, by label."""
    pane = table_of(pilot, "table")
    assert pane.current_row is not None
    lines = screen_of(pilot, IterationsScreen).details(pane, pane.current_row).lines
    return {line.plain[:indent].strip(): line.plain[indent:] for indent, line in lines}


def steps_profile(*times: int) -> Any:
    """Return recorded steps of these durations, each with a kernel of half of it."""
    starts = [sum(times[:at]) for at in range(len(times))]
    return make_profile(
        ranges=[
            {"name": f"step {at}", "start_ns": start, "duration_ns": took, "iteration": at, "tid": 1}
            for at, (start, took) in enumerate(zip(starts, times, strict=True))
        ],
        activities=[
            kernel("gemm", took // 2, start_ns=start, iteration=at, device=0, stream=7, uses_tensor_core=True)
            for at, (start, took) in enumerate(zip(starts, times, strict=True))
        ],
    )


async def test_a_key_goes_to_the_slowest_iteration_and_then_to_the_next_slowest() -> None:
    async with open_explorer(TRACE, view="iterations") as pilot:
        await press(pilot, "t")
        assert current_iteration(pilot) == 7
        assert "slowest: 7, 53.7 ms" in screen_text(pilot.app)
        assert "iteration 7: 53.7 ms" in screen_text(pilot.app)
        await press(pilot, "t")
        assert current_iteration(pilot) == 5


async def test_bars_are_numbered_as_far_as_the_numbers_fit() -> None:
    async with open_explorer(TRACE, size=(80, 24), view="iterations") as pilot:
        line = next(line for line in screen_text(pilot.app).splitlines() if line.startswith(" iteration  "))
        assert line.split() == ["iteration", "3", "4", "5", "6", "7"]
    async with open_profile(steps_profile(*[1_000] * 60), size=(80, 24), view="iterations") as pilot:
        line = next(line for line in screen_text(pilot.app).splitlines() if line.startswith(" iteration  "))
        assert line.split() == ["iteration", *(str(number) for number in range(0, 60, 5)), "59"]


async def test_details_name_work_outside_iterations_like_the_table() -> None:
    async with open_explorer(TRACE, view="iterations") as pilot:
        table_of(pilot, "table").table.move_to(5)
        await pilot.pause()
        assert current_details(pilot)["Iteration"] == "outside"


async def test_an_iteration_lasts_until_the_end_of_its_gpu_work() -> None:
    async with open_explorer("gpt_cudagraph.nsys.sqlite.gz", view="iterations") as pilot:
        line = next(line for line in screen_text(pilot.app).splitlines() if line.startswith(" iteration 0: "))
        assert line.startswith(" iteration 0: 4.43 ms, 1.01x the median  TC unknown 97%  ")
        assert "CPU runs ahead: 369 µs each" in screen_text(pilot.app).splitlines()[1]
        reported = current_details(pilot)
        assert (reported["Duration"], reported["CPU time"], reported["GPU time"]) == (
            "4.4283 ms",
            "480.86 µs",
            "4.3001 ms",
        )


async def test_the_cursor_begins_on_an_iteration_and_few_rows_leave_no_empty_lines() -> None:
    async with open_explorer(LOG, size=(120, 40), view="iterations") as pilot:
        table = app_of(pilot).view_screen.query_one("#table", TablePane)  # type: ignore[union-attr]
        assert (table.frame["phase"][0], current_iteration(pilot)) == ("partial", 0)
        await wait_until(
            pilot, lambda: table.table.size.height == 1 + table.frame.height, "a table without empty lines"
        )
        await press(pilot, "i")
        await wait_until(pilot, lambda: table.table.size.height > 1 + table.frame.height, "all lines")


async def test_chart_and_table_follow_each_other() -> None:
    async with open_explorer(TRACE, view="iterations") as pilot:
        await press(pilot, "j", "j")
        assert current_iteration(pilot) == 5
        await press(pilot, "tab" if chart_of(pilot).has_focus else "shift+tab", "l")
        assert chart_of(pilot).has_focus
        assert current_iteration(pilot) == 6
        await press(pilot, "h", "h", "h")
        assert current_iteration(pilot) == 3
        await press(pilot, "G")
        assert current_iteration(pilot) == 7
        await press(pilot, "g")
        assert current_iteration(pilot) == 3


async def test_a_selected_span_applies_to_every_view_and_can_be_reset() -> None:
    async with open_explorer(TRACE, view="ops-and-kernels") as pilot:
        app = app_of(pilot)
        await press(pilot, "7", "j")
        assert "Selected" not in current_details(pilot)
        await press(pilot, "b", "j", "j", "b")
        assert chart_of(pilot).marked == (1, 3)
        await press(pilot, "k", "a")
        assert app.profile_session.aggregation == Aggregation(4, 6)
        assert chart_of(pilot).marked is None
        assert app.profile_session.profile["activities"]["iteration"].unique().sort().to_list() == [4, 5, 6]
        assert "shown: 4:6" in screen_text(app)
        assert current_details(pilot)["Selected"] == "yes"
        assert table_of(pilot, "table").frame["aggregated"].to_list() == [
            False, True, True, True, False, False,
        ]  # fmt: skip
        await press(pilot, "5")
        pane = app.screen.query_one("#iterations", TablePane)
        assert pane.frame["iteration"].to_list() == [4, 5, 6]
        assert "iterations 4:6" in screen_text(app)
        # A view that was filled before follows when it is gone to again.
        await press(pilot, "4")
        assert app.screen.query_one("#ops", TablePane).frame["gpu_self_ns"].sum() == int(
            kernels(app.profile_session.profile)["total_ns"].sum()
        )
        await press(pilot, "A")
        assert isinstance(app.screen, MenuScreen)
        assert "* iterations 4:6" in screen_text(app)
        assert "3 iterations" in screen_text(app)
        await press(pilot, "k", "enter")
        assert app.profile_session.aggregation == Aggregation()
        assert [aggregation.chosen for aggregation in app.profile_session.aggregations] == [
            Aggregation(),
            Aggregation(4, 6),
        ]


async def test_the_chart_names_the_marked_and_the_visible_iterations() -> None:
    async with open_explorer(TRACE, view="iterations") as pilot:
        app = app_of(pilot)
        await press(pilot, "j", "b", "j", "j")
        assert screen_text(app).splitlines()[1].startswith(" span 4:6  5 iterations")
        await press(pilot, "plus")
        assert chart_of(pilot).window == (1, 4)
        assert "chart: 4 to 7, z all" in screen_text(app)
        await press(pilot, "z", "escape")
        assert "span" not in screen_text(app).splitlines()[1]
        assert "chart:" not in screen_text(app)


async def test_an_invalid_range_names_the_existing_iterations_in_every_view() -> None:
    async with open_explorer(TRACE) as pilot:
        app_of(pilot).run_line("aggregate 5:99")
        await press(pilot, "4")
        assert "iterations 5:99 (there are 5 to 7)" in screen_text(app_of(pilot))


async def test_enter_selects_a_span_or_opens_the_kernels_of_the_iteration() -> None:
    async with open_explorer(TRACE, view="iterations") as pilot:
        app = app_of(pilot)
        await press(pilot, "t", "enter")
        view = app.view_screen
        assert view is not None
        assert view.VIEW == "kernels-by-iteration"
        assert view.query_one("#launches", TablePane).frame["iteration"].unique().to_list() == [7]
        assert "iteration 7" in screen_text(app)
        await press(pilot, "7", "b", "enter")
        assert app.profile_session.aggregation == Aggregation(7, 7)
        # What the other views leave out is not gone to.
        await press(pilot, "k", "enter")
        assert view_of(pilot) == "iterations"


async def test_a_range_after_the_command_applies_to_every_view() -> None:
    async with open_explorer(TRACE) as pilot:
        app = app_of(pilot)
        await press(pilot, *":iterations", "space", *"4:6", "enter")
        await wait_until(pilot, lambda: app.profile_session.aggregation == Aggregation(4, 6), "the aggregation")
        assert view_of(pilot) == "iterations"
        table = table_of(pilot, "table")
        assert table.state.filter == ""
        app.run_line("iterations all")
        await wait_until(pilot, lambda: app.profile_session.aggregation == Aggregation(), "all of them")
        # Other words are a filter, as behind the name of any view.
        app.run_line("iterations ProfilerStep#5")
        await wait_until(pilot, lambda: table.state.filter == "ProfilerStep#5", "the filter")
        app.run_line("iterations 90:99")
        await settle(pilot)
        assert app.profile_session.aggregation == Aggregation()


async def test_escape_clears_the_span_first() -> None:
    async with open_explorer(TRACE, view="iterations") as pilot:
        await press(pilot, "b", "j", "escape")
        assert chart_of(pilot).marked is None
        assert view_of(pilot) == "iterations"


async def test_steady_iterations_are_proposed_and_selected_with_a_key() -> None:
    async with open_profile(steps_profile(900, 100, 101, 100, 102, 100, 600), view="iterations") as pilot:
        assert "steady: 1:5, p selects them" in screen_text(pilot.app)
        await press(pilot, "p")
        assert app_of(pilot).profile_session.aggregation == Aggregation(1, 5)
    async with open_profile(steps_profile(100, 300), view="iterations") as pilot:
        await press(pilot, "p")
        assert app_of(pilot).profile_session.aggregation == Aggregation()


@pytest.mark.parametrize(
    ("times", "key", "reported"),
    [
        ((100,), "plus", "The chart has only one bar."),
        ((100, 110, 120), "plus", "cannot show fewer than 3 iterations"),
        ((100, 110, 120), "underscore", "All iterations are in the chart."),
    ],
)
async def test_a_zoom_that_changes_nothing_says_why(times: tuple[int, ...], key: str, reported: str) -> None:
    async with open_profile(steps_profile(*times), notifications=True, view="iterations") as pilot:
        await press(pilot, key)
        assert reported in screen_text(pilot.app)


async def test_zooming_in_out_and_fitting() -> None:
    async with open_profile(steps_profile(*range(100, 164)), view="iterations") as pilot:
        await press(pilot, "G", "plus")
        assert chart_of(pilot).window == (32, 32)
        assert current_iteration(pilot) == 63
        await press(pilot, "equals_sign")
        assert chart_of(pilot).window == (48, 16)
        # Where the cursor leaves the chart, the chart follows.
        await press(pilot, "g")
        assert chart_of(pilot).window == (0, 16)
        await press(pilot, "underscore")
        assert chart_of(pilot).window == (0, 32)
        await press(pilot, "z")
        assert chart_of(pilot).window == (0, 64)
        await press(pilot, *":aggregate", "space", *"10:19", "enter", "z")
        assert chart_of(pilot).window == (10, 10)
        await press(pilot, "z")
        assert chart_of(pilot).window == (0, 64)


async def test_more_iterations_than_cells_are_binned_without_losing_peaks() -> None:
    times = [100] * 1000
    times[617] = 380
    async with open_profile(steps_profile(*times), size=(80, 24), view="iterations") as pilot:
        await press(pilot, "t")
        assert current_iteration(pilot) == 617
        assert "iteration 617: 380 ns, 3.80x the median  longest of " in screen_text(pilot.app)
        assert "longest of several" in screen_text(pilot.app)


async def test_outliers_are_cut_and_marked() -> None:
    async with open_profile(steps_profile(9000, *([100] * 9)), view="iterations") as pilot:
        assert "↑" in screen_text(pilot.app)
        assert " 120 ns" in screen_text(pilot.app)


async def test_an_iteration_key_is_selected_from_candidates_by_typing() -> None:
    async with open_explorer(LOG, view="iterations") as pilot:
        app = app_of(pilot)
        await press(pilot, "E")
        assert isinstance(app.screen, KeyPicker)
        view = app.screen.query_one(TablePane)
        await wait_until(pilot, lambda: view.frame.height > 3, "candidates")
        first = view.current_row
        assert first is not None
        everything = view.frame.height
        await press(pilot, *"memset")
        assert 0 < view.frame.height < everything
        await press(pilot, *["backspace"] * 6, "down", "up", "enter")
        assert app.profile_session.aggregation == Aggregation(key=str(first["name"]))
        assert "Iterations ▸ by " in screen_text(app).splitlines()[0]
        await press(pilot, "E", "ctrl+r")
        assert app.profile_session.aggregation == Aggregation()


async def test_canceling_the_iteration_key_changes_nothing() -> None:
    async with open_explorer(LOG, view="iterations") as pilot:
        await press(pilot, "E", "escape")
        assert app_of(pilot).profile_session.aggregation == Aggregation()
        assert view_of(pilot) == "iterations"


async def test_each_session_has_its_own_chart() -> None:
    async with open_profile(training_profile(), view="iterations") as pilot:
        chart = chart_of(pilot)
        assert chart.rows["session"].unique().to_list() == [0]
        await press(pilot, "G", "k")
        assert chart.rows["session"].unique().to_list() == [1]
        assert "session 1" in screen_text(pilot.app)


async def test_a_run_in_which_nothing_repeats_is_one_bar() -> None:
    async with open_explorer("caffe_conv1.nvprof.log", view="iterations") as pilot:
        await press(pilot, "t", "plus", "underscore", "z", "p", "b", "a")
        assert chart_of(pilot).rows.height == 1
        assert app_of(pilot).profile_session.aggregation == Aggregation(0, 0)
        await press(pilot, "5")
        assert app_of(pilot).screen.query_one("#launches", TablePane).frame.height == 32


async def test_another_range_of_a_large_profile_is_computed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_ROWS_WITHOUT_THREAD", 0)
    async with open_explorer(TRACE, view="iterations") as pilot:
        app = app_of(pilot)
        await wait_until(pilot, lambda: chart_of(pilot).rows.height == 5, "the chart")
        await press(pilot, "t", "a")
        await wait_until(pilot, lambda: app.profile_session.aggregation == Aggregation(7, 7), "the aggregation")
        app.run_line("aggregate 99")
        await settle(pilot)
        assert app.profile_session.aggregation == Aggregation(7, 7)
        assert app.profile_session.progress == {}


async def test_iterations_of_an_outdated_profile_are_not_shown() -> None:
    async with open_explorer(TRACE) as pilot:
        app = app_of(pilot)
        before, taken = app.profile_session.whole_profile, []
        assert before is not None
        app.profile_session._take_choice(
            app.profile_session._request, before.only_session(0), lambda: taken.append("old")
        )
        assert taken == []
        app.profile_session._take_choice(app.profile_session._request, before, lambda: taken.append("new"))
        assert taken == ["new"]


async def test_keys_of_the_chart_wait_for_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_ROWS_WITHOUT_THREAD", 0)
    async with open_explorer(TRACE) as pilot:
        monkeypatch.setattr(IterationsScreen, "_compute", lambda *_: None)
        await press(pilot, "7")
        chart_of(pilot).focus()
        await press(pilot, "G", "l", "h", "g", "pagedown", "plus", "underscore", "z", "b", "a", "enter", "t", "p")
        screen_of(pilot, IterationsScreen).focus_table()
        await press(pilot, "greater_than_sign", "less_than_sign", "s", "G", "space", "enter", "b", "t")
        assert app_of(pilot).internal_error is None
        assert chart_of(pilot).marked is None
        screen_of(pilot, IterationsScreen)._fill(screen_of(pilot, IterationsScreen).profile)
        assert chart_of(pilot).rows.height == 5


async def test_iteration_op_and_launch_are_linked() -> None:
    async with open_explorer(TRACE, view="kernels-by-op") as pilot:
        app = app_of(pilot)
        await press(pilot, "j")
        ops = app.screen.query_one("#ops", TablePane)
        launches = app.screen.query_one("#launches", TablePane)
        assert ops.frame["iteration"].unique().to_list() == [4]
        await press(pilot, "enter", "j")
        row = ops.current_row
        assert row is not None
        assert launches.frame.height == row["launches"]
        assert launches.frame["duration_ns"].sum() == row["gpu_ns"]
        await press(pilot, "enter", "enter")
        assert "Grid" in screen_text(app)
    async with open_explorer(LOG, view="kernels-by-op") as pilot:
        assert "ops inferred from kernel names" in screen_text(pilot.app).splitlines()[0]


async def test_the_help_names_the_keys_of_the_chart() -> None:
    async with open_explorer(TRACE, size=(120, 60), view="iterations") as pilot:
        await press(pilot, "question_mark")
        assert "b      Start a span of iterations here; press again to end it." in screen_text(pilot.app)
        assert "E      Choose the loop, or the name that ends an iteration." in screen_text(pilot.app)
        await press(pilot, "tab")
        assert "Go to the slowest iteration" in screen_text(pilot.app)


SCREENS = {
    "iterations": (TRACE, "iterations", "t"),
    "iterations-chosen": (TRACE, "iterations", "j b j a"),
    "kernels-by-iteration": (TRACE, "kernels-by-iteration", "j"),
    "kernels-by-op": (TRACE, "kernels-by-op", "j"),
    "key-picker": (LOG, "iterations", "E"),
}


@pytest.mark.parametrize("state", SCREENS)
async def test_screen(state: str, snapshot: SnapshotAssertion) -> None:
    name, view, keys = SCREENS[state]
    async with open_explorer(name, view=view) as pilot:
        await press(pilot, *keys.split())
        if state == "key-picker":
            await wait_until(pilot, lambda: app_of(pilot).screen.query_one(TablePane).frame.height > 3, "candidates")
            await settle(pilot)
        await assert_at_sizes(pilot, snapshot)


@pytest.mark.parametrize("color", ["16", "none"])
async def test_colors(color: str, snapshot: SnapshotAssertion) -> None:
    async with open_explorer(TRACE, size=(80, 24), color=color, view="iterations") as pilot:
        await press(pilot, "j", "b", "j")
        assert_screen(pilot.app, snapshot, svg=True)


async def test_ascii_mode(snapshot: SnapshotAssertion) -> None:
    async with open_explorer(TRACE, size=(120, 40), ascii_only=True, view="iterations") as pilot:
        await press(pilot, "j", "b", "j", "b", "a", "b")
        text = screen_text(pilot.app)
        assert text.isascii()
        assert_screen(pilot.app, snapshot)


async def test_an_undivided_run_is_not_called_an_iteration() -> None:
    async with open_explorer("caffe_conv1.nvprof.log", view="iterations") as pilot:
        text = screen_text(pilot.app)
        assert "whole run, not divided" in text
        assert "1 iteration " not in text
        assert "mean " not in text


async def test_a_filter_by_phase_applies_to_every_view() -> None:
    steps = ("step[EXTEND bs=2 toks=60]", "step[DECODE bs=2]", "step[DECODE bs=2]")
    async with open_profile(serving_profile(*((name, 1000, 500) for name in steps)), view="iterations") as pilot:
        assert "P prefill  D decode" in screen_text(pilot.app)
        await press(pilot, "K", "f", *"phase", "equals_sign", *"decode", "enter")
        session = app_of(pilot).profile_session
        await wait_until(pilot, lambda: session.aggregation == Aggregation(phase="decode"), "the phase is chosen")
        await settle(pilot)
        assert "iterations phase=decode" in screen_text(pilot.app)
        pane = app_of(pilot).screen.query(TablePane).first()
        assert pane.frame["calls"].to_list() == [2]
        assert not pane.search.is_open
        assert pane.model.state.filter == ""
