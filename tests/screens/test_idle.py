"""Work while no key is pressed: views are prepared, garbage is collected."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tests.screens.explorer import app_of, go_to, open_explorer, press, settle
from tests.snapshots import screen_text
from tests.waiting import TIMEOUT_S, WorkerGate, wait_until
from tui import runtime
from tui.app import ProftuiApp, navigator
from tui.app.navigator import IdleWork, Navigator
from tui.query import parse
from tui.screens.kernels import KernelsScreen

if TYPE_CHECKING:
    from textual.pilot import Pilot

TRACE = "caffe_conv1.nvprof.log"


def prepared_views(pilot: Pilot[None]) -> dict[str, object]:
    """Return the views that were prepared before they were opened."""
    return dict(app_of(pilot).navigator._prepared)


async def wait_for_prepared_views(pilot: Pilot[None]) -> None:
    """Wait until every view that can be opened is prepared."""
    app = app_of(pilot)
    can = {name for name, reason in app.navigator.availability.items() if reason == "ok"}
    await wait_until(pilot, lambda: can <= {*app.navigator._prepared, *app.navigator._views}, "all views")
    await wait_until(
        pilot, lambda: all(screen.is_mounted for screen in app.navigator._prepared.values()), "their widgets"
    )


@pytest.fixture
def _prepare_views(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Navigator, "PREPARES_VIEWS", True)


@pytest.mark.usefixtures("_prepare_views")
async def test_a_prepared_view_shows_the_same_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_explorer(TRACE) as pilot:
        await wait_for_prepared_views(pilot)
        prepared = prepared_views(pilot)
        assert isinstance(prepared["kernels"], KernelsScreen)
        assert prepared["kernels"].first_table is not None
        # Rows come when it is gone to: nothing is worked out that nobody asked for.
        assert prepared["kernels"].first_table.frame.is_empty()
        await go_to(pilot, "kernels")
        assert pilot.app.screen is prepared["kernels"]
        texts = screen_text(pilot.app)
    monkeypatch.setattr(Navigator, "PREPARES_VIEWS", False)
    async with open_explorer(TRACE) as pilot:
        assert prepared_views(pilot) == {}
        await go_to(pilot, "kernels")
        assert screen_text(pilot.app) == texts


@pytest.mark.usefixtures("_prepare_views")
async def test_a_view_can_be_opened_while_it_is_being_prepared() -> None:
    async with open_explorer(TRACE) as pilot:
        app = app_of(pilot)
        await wait_until(
            pilot,
            lambda: app.navigator._views_to_prepare is not None and not app.navigator._views_to_prepare,
            "all views",
        )
        # One that has just begun.
        app.navigator._views_to_prepare = ["issues"]
        app.navigator._prepared.pop("issues", None)
        app._installed_screens.pop("issues", None)
        assert app.navigator._prepare()
        assert not prepared_views(pilot)["issues"].is_mounted  # type: ignore[attr-defined]
        app.go("issues")
        await settle(pilot)
        assert app.view_screen is not None
        assert app.view_screen.VIEW == "issues"
        assert "issues" not in prepared_views(pilot)
        assert app.view_screen.first_table is not None
        assert app.view_screen.first_table.spec.name == "issues"


@pytest.mark.usefixtures("_prepare_views")
async def test_a_prepared_view_does_not_count_as_visited() -> None:
    async with open_explorer(TRACE) as pilot:
        await wait_for_prepared_views(pilot)
        app = app_of(pilot)
        assert set(app.navigator._views) == {"dashboard"}
        assert [place.view for place in app.navigator.history.places] == ["dashboard"]


@pytest.mark.usefixtures("_prepare_views")
async def test_late_imports_do_not_wait_for_the_idle_check(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = WorkerGate()
    monkeypatch.setattr(parse, "make_parser", lambda: imported.wait())
    monkeypatch.setattr(navigator, "YOUNG_AFTER_S", 0.1)
    monkeypatch.setattr(navigator, "NEW_AFTER_S", 0.1)
    monkeypatch.setattr(navigator, "ALL_AFTER_S", 10 * TIMEOUT_S)
    async with open_explorer(TRACE) as pilot:
        app, loop = app_of(pilot), asyncio.get_running_loop()
        await wait_until(
            pilot,
            lambda: (
                app.navigator.idle._next_check is not None and app.navigator.idle._next_check.when() > loop.time() + 1
            ),
            "rest",
        )
        assert prepared_views(pilot) == {}
        imported.set()
        await wait_for_prepared_views(pilot)


class Pauses:
    """A clock for an app that the test controls: the time until the next check passes at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now_s = 0.0
        self._looks_at: float | None = None
        monkeypatch.setattr(navigator, "time", SimpleNamespace(monotonic=lambda: self._now_s))
        monkeypatch.setattr(IdleWork, "_check_after", lambda _app, seconds: self._look_at(self._now_s + seconds))

    def _look_at(self, time_s: float) -> None:
        self._looks_at = time_s

    def rest(self, app: ProftuiApp) -> None:
        """Let time pass until the app has nothing left to do."""
        while self._looks_at is not None:
            self._now_s, self._looks_at = self._looks_at, None
            app.navigator.idle._check_idle()


async def test_garbage_is_collected_when_no_key_is_pressed(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[int] = []
    before = gc.get_threshold()
    pauses = Pauses(monkeypatch)
    monkeypatch.setattr(runtime, "MIN_YOUNG_COLLECTIONS", 0)
    async with open_explorer(TRACE) as pilot:
        assert gc.get_threshold() == runtime.GC_THRESHOLDS
        pauses.rest(app_of(pilot))
        monkeypatch.setattr(runtime.gc, "collect", lambda generation=2: collected.append(generation) or 0)
        await press(pilot, "j")
        assert collected == []
        pauses.rest(app_of(pilot))
        assert collected == [1, 2]
        # So little has been made since that the next pause leaves it.
        monkeypatch.setattr(runtime, "MIN_YOUNG_COLLECTIONS", 1_000)
        await press(pilot, "j")
        pauses.rest(app_of(pilot))
        assert collected == [1, 2, 1]
    assert gc.get_threshold() == before


async def test_a_collection_after_new_widgets_excludes_those_of_all_views(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    pauses = Pauses(monkeypatch)
    async with open_explorer(TRACE) as pilot:
        pauses.rest(app_of(pilot))
        for name in ("freeze", "unfreeze"):
            monkeypatch.setattr(runtime.gc, name, lambda name=name: calls.append(name))
        monkeypatch.setattr(runtime.gc, "collect", lambda generation=2: calls.append(f"collect {generation}") or 0)
        app_of(pilot).navigator.widgets_created()
        await press(pilot, "j")
        pauses.rest(app_of(pilot))
        assert calls == ["collect 1", "freeze", "unfreeze", "collect 2", "freeze"]
