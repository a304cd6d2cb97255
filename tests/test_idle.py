"""How tests wait: an app that has been quit is not waited for."""

from __future__ import annotations

import asyncio

import pytest
from textual.app import App

from tests import idle
from tests.idle import PATIENCE_S, Patience, until_idle, withheld_ns


async def test_what_an_app_that_was_quit_still_draws_is_not_waited_for() -> None:
    app: App[None] = App()
    async with app.run_test() as pilot:
        # As the timer of a screen that had something to draw when the app was quit.
        app.screen.set_interval(0.001, lambda: None)
        app.exit()
        while app.is_running:
            await asyncio.sleep(0)
        await asyncio.wait_for(until_idle(), PATIENCE_S / 10)
        assert pilot.app.return_code == 0


@pytest.mark.parametrize(("withheld_s", "is_over"), [(29, False), (16, False), (14, True), (0, True)])
def test_time_in_which_others_had_the_processor_does_not_count(
    withheld_s: int, is_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, ages = [0.0], [{"1": 5, "2": 7}]
    monkeypatch.setattr(idle.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(idle, "withheld_ns", lambda: ages[0])
    patience = Patience()
    for now[0] in (0.0, PATIENCE_S - 1, PATIENCE_S + 1, PATIENCE_S + idle.WINDOW_S):
        assert not patience.is_over()
    ages[0] = {"1": 5, "2": 7 + withheld_s * 10**9}
    now[0] = PATIENCE_S + idle.WINDOW_S + 2
    assert patience.is_over() is is_over


def test_where_the_system_reports_nothing_the_clock_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(idle.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(idle, "withheld_ns", dict)
    patience = Patience()
    now[0] = PATIENCE_S + 1
    assert not patience.is_over()
    now[0] += idle.WINDOW_S + 1
    assert patience.is_over()


def test_each_thread_has_waited_some_time() -> None:
    assert all(ns >= 0 for ns in withheld_ns().values())
