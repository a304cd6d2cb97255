"""The Expert Systems view: from a finding to the rows behind it and back."""

from __future__ import annotations

from tests.screens.opening import app_of, opened, press, settled
from tests.snapshots import screen_text
from tui.widgets.table_pane import TablePane

RUNS, TRAINING = "tracking_four_runs.nvprof.log", "resnet50_training.pt.trace.json.gz"


async def test_enter_goes_to_the_rows_behind_a_finding_and_q_returns() -> None:
    async with opened(RUNS, session=0) as pilot:
        await press(pilot, "9", "j")
        expert = app_of(pilot).view_screen
        assert expert is not None
        assert expert.VIEW == "expert-systems"
        row = expert.query_one("#table", TablePane).current_row
        assert row is not None
        await press(pilot, "enter")
        await settled(pilot)
        shown = app_of(pilot).view_screen
        assert shown is not None
        assert row["view"] == shown.VIEW
        assert shown.table is not None
        assert shown.table.state.filter == row["filter"]
        await press(pilot, "q")
        back = app_of(pilot).view_screen
        assert back is expert
        assert row == expert.query_one("#table", TablePane).current_row


async def test_clean_rules_unfold_and_reasons_show_their_rules() -> None:
    async with opened(RUNS, session=0) as pilot:
        await press(pilot, "9", "G")
        pane = app_of(pilot).view_screen.query_one("#table", TablePane)  # type: ignore[union-attr]
        folded = pane.frame.height
        assert "found nothing: enter shows them" in screen_text(pilot.app)
        await press(pilot, "enter")
        await settled(pilot)
        assert pane.frame.height > folded
        pane.set_filter('verdict="cannot tell"')
        await settled(pilot)
        await press(pilot, "g", "i")
        await settled(pilot)
        assert "Cannot tell" in screen_text(pilot.app)


async def test_details_tell_figures_thresholds_and_what_to_do() -> None:
    async with opened(RUNS, session=0, size=(200, 50)) as pilot:
        await press(pilot, "9", "i")
        await settled(pilot)
        text = screen_text(pilot.app)
        for heading in ("Problem", "Do", "Costs", "Figures", "Thresholds", "Rows behind it"):
            assert heading in text
