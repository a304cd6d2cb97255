"""Inputs with many launches: rows are computed in a thread, and are the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.screens.explorer import open_explorer, settle
from tests.snapshots import screen_text
from tests.waiting import WorkerGate, wait_until
from tui.screens import base, iterations
from tui.screens.kernels_by_iteration import open_iteration
from tui.screens.linked_tables import LinkedTables

if TYPE_CHECKING:
    import polars as pl
    from textual.pilot import Pilot

    from tui.model.profile import Profile

LOG = "resnet50_training.nvprof.log"


@pytest.fixture
def threshold_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_ROWS_WITHOUT_THREAD", 0)


def linked_tables(pilot: Pilot[None]) -> LinkedTables:
    return pilot.app.screen.query_one(LinkedTables)


VIEWS: Final = ("kernels", "ops-and-kernels", "kernels-by-iteration", "kernels-by-op", "memory")


async def rows_of_views() -> dict[tuple[str, int], pl.DataFrame]:
    """Return the rows of each level of each view."""
    found = {}
    async with open_explorer(LOG, view=VIEWS[0]) as pilot:
        for view in VIEWS:
            pilot.app.go(view)  # type: ignore[attr-defined]
            await settle(pilot)
            screen = linked_tables(pilot)
            levels = range(len(screen.levels))
            await wait_until(
                pilot, lambda screen=screen, levels=levels: all(screen.pane(at).frame.height for at in levels), "rows"
            )
            found |= {(view, at): screen.pane(at).frame for at in levels}
    return found


async def test_rows_computed_in_a_thread_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = await rows_of_views()
    monkeypatch.setattr(base, "MAX_ROWS_WITHOUT_THREAD", 0)
    in_thread = await rows_of_views()
    assert in_thread.keys() == at_once.keys()
    assert [place for place, rows in in_thread.items() if not rows.equals(at_once[place])] == []


def block_launches(screen: LinkedTables, monkeypatch: pytest.MonkeyPatch) -> WorkerGate:
    """Block the computation of launches until the gate is set."""
    go_on = WorkerGate()
    launches = screen.levels[1].rows

    def slow(*arguments: object) -> pl.DataFrame:
        go_on.wait()
        return launches(*arguments)  # type: ignore[arg-type]

    levels = (screen.levels[0], replace(screen.levels[1], rows=slow))
    monkeypatch.setattr(screen, "levels", levels)
    return go_on


@pytest.mark.usefixtures("threshold_of_one")
async def test_outdated_rows_are_neither_opened_nor_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_explorer(LOG, view="kernels") as pilot:
        screen = linked_tables(pilot)
        before = screen.pane(1).frame
        assert before.height
        go_on = block_launches(screen, monkeypatch)
        await pilot.press("j")
        await wait_until(pilot, lambda: not screen.pane(1).frame.height, "old rows are gone")
        # The screen answers meanwhile.
        assert screen.pane(0).model.cursor_row == 1
        await pilot.press("k", "j", "j")
        assert screen.pane(0).model.cursor_row == 2
        go_on.set()
        await settle(pilot)
        chosen = screen.pane(0).current_row
        assert chosen is not None
        assert screen.pane(1).frame["name"].cast(str).unique().to_list() == [chosen["name"]]
        assert screen.pane(1).frame.height == chosen["calls"]


@pytest.mark.usefixtures("threshold_of_one")
async def test_an_iteration_is_opened_when_its_row_is_computed() -> None:
    async with open_explorer(LOG) as pilot:
        pilot.app.go("kernels-by-iteration", lambda screen: open_iteration(screen.query_one(LinkedTables), 0, 1))  # type: ignore[attr-defined]
        await settle(pilot)
        screen = linked_tables(pilot)
        await wait_until(pilot, lambda: "iteration 1" in screen.path(), "opened")
        assert screen.pane(1).frame["iteration"].unique().to_list() == [1]


async def test_the_chart_of_iterations_waits_for_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_ROWS_WITHOUT_THREAD", 0)
    go_on = WorkerGate()
    work_out = iterations.iterations_with_uses

    def slow(profile: Profile, *how: Any) -> pl.DataFrame:
        go_on.wait()
        return work_out(profile, *how)

    monkeypatch.setattr(iterations, "iterations_with_uses", slow)
    async with open_explorer(LOG, is_shared=False) as pilot:
        pilot.app.go("iterations")  # type: ignore[attr-defined]
        await wait_until(pilot, lambda: "Computing…" in screen_text(pilot.app), "the view without its rows")
        go_on.set()
        await settle(pilot)
        assert "Computing…" not in screen_text(pilot.app)
        assert "5 iterations" in screen_text(pilot.app)
