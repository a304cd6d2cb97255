"""Lines that the next key may show are rendered while no key is pressed, and look the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.screens.explorer import go_to, open_explorer, press, settle
from tests.snapshots import screen_text
from tests.waiting import TIMEOUT_S, wait_until
from tui.analysis.timeline.drawing import lane_cells
from tui.app import navigator
from tui.app.navigator import IdleWork, Navigator
from tui.widgets.charts import iteration_chart
from tui.widgets.charts.iteration_bars import draw_bars
from tui.widgets.charts.iteration_chart import IterationChart
from tui.widgets.timeline import view as timeline_view
from tui.widgets.timeline.view import TimelineView

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from textual.pilot import Pilot

    from tui.screens.base import ViewScreen

TRACE = "resnet50_training.nvprof.log"
SIZE = (80, 24)
KEYS = {
    "timeline": ("plus", "plus", "right_curly_bracket", "left_curly_bracket", "pagedown", "underscore", "pageup"),
    "iterations": ("plus", "underscore"),
}
"""For each view keys that show something else."""


async def draw_uncached(pilot: Pilot[None], screen: ViewScreen) -> str:
    """Return the screen after its cached lines were dropped."""
    for view in screen.query(TimelineView):
        view.redraw()
    for chart in screen.query(IterationChart):
        chart._redraw()
    await settle(pilot)
    return screen_text(pilot.app)


async def test_lanes_and_bars_are_drawn_before_the_next_key(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def noted(original: Callable[..., object]) -> Callable[..., object]:
        def note(*values: object, **options: object) -> object:
            drawn.append(original.__name__)
            return original(*values, **options)

        return note

    monkeypatch.setattr(timeline_view, "lane_cells", noted(lane_cells))
    monkeypatch.setattr(iteration_chart, "draw_bars", noted(draw_bars))
    async with open_explorer(TRACE, size=SIZE) as pilot:
        for view, keys in KEYS.items():
            screen = await go_to(pilot, view)
            for key in keys:
                before = screen_text(pilot.app)
                while screen.draw_ahead():
                    pass
                drawn.clear()
                await press(pilot, key)
                assert drawn == []
                seen = screen_text(pilot.app)
                assert seen != before
                assert await draw_uncached(pilot, screen) == seen


async def test_prerendering_restarts_after_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Navigator, "PREPARES_VIEWS", True)
    monkeypatch.setattr(navigator, "ALL_AFTER_S", 10 * TIMEOUT_S)
    looks: list[float] = []
    check_after = IdleWork._check_after

    def noted(app: IdleWork, seconds: float) -> None:
        looks.append(seconds)
        check_after(app, seconds)

    monkeypatch.setattr(IdleWork, "_check_after", noted)
    async with open_explorer(TRACE, size=SIZE) as pilot:
        screen = await go_to(pilot, "timeline")
        await wait_until(pilot, lambda: looks[-1] > TIMEOUT_S, "rest")
        assert not screen.draw_ahead()
        looks.clear()
        await press(pilot, "plus")
        assert looks[0] == navigator.IDLE_AFTER_S
