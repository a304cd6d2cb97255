"""Our compositor draws what Textual's own would draw, and only what can be seen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from textual._compositor import Compositor
from textual.css.stylesheet import Stylesheet
from textual.geometry import Region, Size
from textual.widget import Widget

from tests.screens.explorer import open_explorer, press, screen_of, settle
from tui.screens.base import ViewScreen
from tui.textual_patches import ChangedLinesCompositor
from tui.theme import DARK, LIGHT
from tui.widgets.charts.iteration_chart import IterationChart
from tui.widgets.table.view import FrameTable, LineScrollBar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest
    from textual.dom import DOMNode
    from textual.pilot import Pilot
    from textual.strip import Strip

LOG = "resnet50_training.nvprof.log"


def compositor_of(pilot: Pilot[None]) -> ChangedLinesCompositor:
    """Return the compositor of the view."""
    found = pilot.app.screen._compositor
    assert isinstance(found, ChangedLinesCompositor)
    return found


def cells_drawn_both_ways(pilot: Pilot[None], region: Region | None, *, every: int = 1) -> tuple[list[str], list[str]]:
    """Return characters and styles of a region, or of every n-th line, drawn by us and by Textual."""
    ours = compositor_of(pilot)
    crop = region or ours.size.region
    found = []
    for kind in (ChangedLinesCompositor, Compositor):
        ours.__class__ = kind  # type: ignore[assignment]
        chops = ours._render_chops(crop, lambda line: line in crop.line_range and line % every == 0)
        lines = [sorted(chops[line].items()) for line in crop.line_range if line % every == 0]
        found.append([repr([list(strip) for at, strip in line if crop.x <= at < crop.right]) for line in lines])
    ours.__class__ = ChangedLinesCompositor
    return found[0], found[1]


async def test_details_get_their_lines_if_the_screen_is_drawn_before_their_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    update_widgets = Compositor.update_widgets

    def update(compositor: Compositor, widgets: set[Widget]) -> None:
        update_widgets(compositor, widgets)
        # As a drawing of a new widget does.
        compositor._full_map_invalidated = True
        assert compositor.full_map

    async with open_explorer(LOG, view="op-types") as pilot:
        body = pilot.app.screen.query_one("#body")
        heights = [body.size.height]
        await press(pilot, "i")
        monkeypatch.setattr(Compositor, "update_widgets", update)
        heights.append(body.size.height)
        await press(pilot, "i")
        heights.append(body.size.height)
    assert heights == [21, 38, 21]


async def test_the_screen_is_drawn_as_textual_draws_it() -> None:
    async with open_explorer(LOG) as pilot:
        for keys in ("1", "4", "f", "escape enter i", "7", "9", "colon"):
            await press(pilot, *keys.split())
            ours, textuals = cells_drawn_both_ways(pilot, None)
            assert ours == textuals, keys
            assert len(ours) == 40
            ours, textuals = cells_drawn_both_ways(pilot, None, every=3)
            assert ours == textuals, keys
            for region in (Region(0, 7, 120, 9), Region(0, 0, 120, 1), Region(0, 38, 120, 2)):
                ours, textuals = cells_drawn_both_ways(pilot, region)
                assert ours == textuals, keys


async def test_widgets_hidden_below_a_table_are_not_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_explorer(LOG) as pilot:
        await press(pilot, "4")
        screen = screen_of(pilot)
        assert screen.table is not None
        table = screen.table.query_one("FrameTable")
        drawn: list[str] = []

        def noted(render_lines: Callable[[Any, Region], list[Strip]]) -> Callable[[Any, Region], list[Strip]]:
            def draw(widget: Widget, crop: Region) -> list[Strip]:
                drawn.append(f"{type(widget).__name__} {crop.height}")
                return render_lines(widget, crop)

            return draw

        for drawer in (Widget, FrameTable, LineScrollBar):
            monkeypatch.setattr(drawer, "render_lines", noted(drawer.render_lines))
        row = Region(table.region.x, table.region.y + 2, table.region.width, 1)
        list(compositor_of(pilot)._get_renders(row))
        assert drawn == ["LineScrollBar 1", "FrameTable 1"]
        drawn.clear()
        # Two rows far from each other: what lies between them has not changed.
        both = Region(row.x, row.y, row.width, 9)
        compositor_of(pilot)._render_chops(both, {both.y, both.bottom - 1}.__contains__)
        assert drawn == ["LineScrollBar 1", "FrameTable 1"] * 2


async def test_the_background_is_drawn_beside_short_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    render_lines = FrameTable.render_lines

    def narrow(widget: FrameTable, crop: Region) -> list[Strip]:
        """As of a widget that has become wider and longer since."""
        return [strip.crop(0, strip.cell_length - 3) for strip in render_lines(widget, crop)[:-2]]

    async with open_explorer(LOG) as pilot:
        await press(pilot, "4")
        monkeypatch.setattr(FrameTable, "render_lines", narrow)
        ours, textuals = cells_drawn_both_ways(pilot, None)
        assert ours == textuals
        chops = compositor_of(pilot)._render_chops(compositor_of(pilot).size.region, lambda _line: True)
        assert all(strip is not None for line in chops for strip in line.values())


async def test_styles_are_looked_up_again_only_if_they_can_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_explorer(LOG) as pilot:
        await press(pilot, "4", "7")
        looked_up: list[type[DOMNode]] = []
        update_nodes = Stylesheet.update_nodes

        def noted(styles: Stylesheet, nodes: Iterable[DOMNode], animate: bool = False) -> None:
            found = list(nodes)
            looked_up.extend(type(node) for node in found)
            update_nodes(styles, found, animate=animate)

        monkeypatch.setattr(Stylesheet, "update_nodes", noted)
        await press(pilot, "4")
        assert FrameTable not in looked_up
        ours, textuals = cells_drawn_both_ways(pilot, None)
        assert ours == textuals
        pilot.app.theme = LIGHT.name
        await settle(pilot)
        light, _ = cells_drawn_both_ways(pilot, None)
        assert light != ours
        looked_up.clear()
        await press(pilot, "7")
        assert IterationChart in looked_up
        pilot.app.theme = DARK.name
        await settle(pilot)
        await press(pilot, "4")
        assert cells_drawn_both_ways(pilot, None)[0] == ours


async def test_a_screen_update_draws_a_view_at_most_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_explorer(LOG) as pilot:
        drawn: list[int] = []
        usual_update, usual_draw = ViewScreen._on_timer_update, ViewScreen._compositor_refresh

        def update(screen: ViewScreen) -> None:
            drawn.append(0)
            usual_update(screen)

        def draw(screen: ViewScreen) -> None:
            if drawn:
                drawn[-1] += 1
            usual_draw(screen)

        monkeypatch.setattr(ViewScreen, "_on_timer_update", update)
        monkeypatch.setattr(ViewScreen, "_compositor_refresh", draw)
        await press(pilot, "3")
        assert set(drawn) <= {0, 1}
        assert sum(drawn)


async def test_a_view_opens_with_rows_not_with_an_empty_table(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_explorer(LOG, size=(160, 50)) as pilot:
        pictures: list[str] = []
        usual_draw = ViewScreen._compositor_refresh

        def draw(screen: ViewScreen) -> None:
            usual_draw(screen)
            pictures.append("\n".join(strip.text for strip in screen._compositor.render_strips()))

        monkeypatch.setattr(ViewScreen, "_compositor_refresh", draw)
        await press(pilot, "9")
        filled = [picture for picture in pictures if re.search("[1-9][0-9]* rows", picture)]
        assert filled
        assert all("Severity" in picture and "warning" in picture for picture in filled)


async def test_size_classes_are_set_before_a_view_is_laid_out() -> None:
    async with open_explorer(LOG) as pilot:
        screen = screen_of(pilot)
        assert {"-normal", "-tall"} <= screen.classes
        screen._screen_resized(Size(80, 24))
        assert {"-narrow", "-short"} <= screen.classes
        assert not {"-normal", "-tall", "-wide"} & screen.classes
