"""The details of the lines of the dashboard."""

from __future__ import annotations

import pytest

from tests.screens.opening import app_of, opened
from tui.model.columns import COLUMNS
from tui.screens.dashboard.panels import ChartPanel, entry_details

TORCH, NSYS = "resnet50_training.pt.trace.json.gz", "gpt_cudagraph.nsys.sqlite.gz"
PANELS = ("findings", "wall", "ops", "uses", "gaps", "kernels", "split", "copies", "api")


@pytest.mark.parametrize("sample", [TORCH, NSYS])
async def test_every_value_has_a_title(sample: str) -> None:
    async with opened(sample) as pilot:
        screen = app_of(pilot).screen
        entries = [entry for name in PANELS for entry in screen.query_one(f"#{name}-panel", ChartPanel).entries]
        assert len(entries) > 20
        named = {name for entry in entries for name, value in entry.values.items() if value is not None}
        assert named <= COLUMNS.keys()


async def test_a_finding_says_what_to_do_and_how_its_cost_was_estimated() -> None:
    async with opened(TORCH) as pilot:
        panel = app_of(pilot).screen.query_one("#findings-panel", ChartPanel)
        lines = [line.plain for _, line in entry_details(panel.entries[0], panel.metric).lines]
        assert [line.split("  ")[0] for line in lines[1:5]] == ["Severity", "Do", "Cost is", "Session"]
        assert lines[3].endswith("all of its idle time")
