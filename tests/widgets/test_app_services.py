"""Delayed calls run, also when the process was suspended meanwhile; output filters fit the terminal."""

from __future__ import annotations

from itertools import count

import pytest
from textual import _time
from textual.app import App

from tests.screens.explorer import app_of, open_explorer, press
from tui.widgets.app_services import call_after
from tui.widgets.output_filters import AsciiOutput, SolidFills, output_filters
from tui.widgets.table.pane import TablePane


async def test_a_delayed_call_runs_unless_canceled() -> None:
    done: list[str] = []
    async with App[None]().run_test() as pilot:
        call_after(pilot.app, 0.001, lambda: done.append("a"))
        call_after(pilot.app, 0.001, lambda: done.append("b")).cancel()
        await pilot.pause()
        assert done == ["a"]


async def test_the_linked_table_follows_although_the_process_was_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_explorer("resnet50_training.pt.trace.json.gz") as pilot:
        await press(pilot, ":", *"kernels", "enter")
        # A second passes from look to look at the clock, then it stops: Textual's periodic timers would never catch up.
        looks = count()
        monkeypatch.setattr(_time, "get_time", lambda: 1_000.0 + min(next(looks), 1_000))
        await press(pilot, "j", "j")
        above, below = app_of(pilot).screen.query(TablePane).nodes[:2]
        row = above.current_row
        assert row is not None
        assert above.table.model.cursor_row == 2
        assert below.frame["name"].unique().to_list() == [row["name"]]
        assert below.frame.height == row["calls"]


@pytest.mark.parametrize(
    ("color", "ascii_only", "filters"),
    [
        ("truecolor", False, (SolidFills,)),
        ("256", False, (SolidFills,)),
        ("16", False, ()),
        ("none", False, ()),
        ("truecolor", True, (AsciiOutput,)),
    ],
)
def test_output_filters_fit_the_terminal(color: str, ascii_only: bool, filters: tuple[type, ...]) -> None:
    assert tuple(map(type, output_filters(color, ascii_only=ascii_only))) == filters
