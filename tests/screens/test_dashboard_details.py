"""Details of the lines of the dashboard."""

from __future__ import annotations

import pytest
from textual.content import Content

from tests.screens.explorer import app_of, open_explorer, press
from tui.analysis.dashboard_facts import Fact
from tui.model.columns import COLUMNS, ColumnKind
from tui.screens.dashboard.entries import entry_details
from tui.screens.dashboard.panels import ChartPanel, StatPanel, StatStrip
from tui.widgets.details import DetailText

TORCH, NSYS = "resnet50_training.pt.trace.json.gz", "gpt_cudagraph.nsys.sqlite.gz"
PANELS = ("findings", "wall", "ops", "uses", "gaps", "kernels", "split", "copies", "api")


@pytest.mark.parametrize("sample", [TORCH, NSYS])
async def test_every_value_has_a_title(sample: str) -> None:
    async with open_explorer(sample) as pilot:
        screen = app_of(pilot).screen
        entries = [entry for name in PANELS for entry in screen.query_one(f"#{name}-panel", ChartPanel).entries]
        assert len(entries) > 20
        named = {name for entry in entries for name, value in entry.values.items() if value is not None}
        assert named <= COLUMNS.keys()


async def test_details_of_a_finding_have_advice_and_the_basis_of_its_cost() -> None:
    async with open_explorer(TORCH) as pilot:
        panel = app_of(pilot).screen.query_one("#findings-panel", ChartPanel)
        lines = [line.plain for _, line in entry_details(panel.entries[0], panel.metric).lines]
        titles = ["Severity", "Recommendation", "Cost", "Cost basis", "Rules", "Session"]
        assert [line.split("  ")[0] for line in lines[1:7]] == titles
        assert lines[4].endswith("all of its idle time")


async def test_details_follow_the_cursor_in_every_panel() -> None:
    async with open_explorer(TORCH, size=(200, 60)) as pilot:
        screen = app_of(pilot).screen
        await press(pilot, "i")
        for key in ("tab", "tab", "shift+tab", "j", "j", "j", "j", "j", "j", "j"):
            await press(pilot, key)
            panel = next(one for one in screen.query("ChartPanel, StatPanel") if one.has_focus_within)
            assert isinstance(panel, ChartPanel | StatPanel)
            assert panel.details is not None
            shown = screen.query_one(DetailText)
            assert shown.render() == Content("\n").join(panel.details.wrapped(shown.content_size.width)), key
        focused = screen.focused
        await press(pilot, "escape")
        assert screen.focused is focused


def test_a_long_value_is_wrapped_below_the_columns() -> None:
    strip = StatStrip()
    steps = Fact("steps", "Decode steps", "1 step, 19.1 ms each, 100% of the time, 32 tokens", ColumnKind.TEXT)
    strip.show([steps, *(Fact(f"n{number}", f"Number {number}", number, ColumnKind.COUNT) for number in range(8))])
    assert [fact.name for fact in strip.facts][-1] == "steps"
    assert (strip._lines(78), len(strip._long_lines(78)[0]), len(strip._long_lines(40)[0])) == (2, 1, 2)
