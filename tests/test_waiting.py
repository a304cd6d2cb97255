"""How tests wait for an app."""

from __future__ import annotations

import asyncio

import pytest
from textual.app import App

from tests import waiting
from tests.waiting import EXTENSION_S, TIMEOUT_S, Deadline, cpu_wait_ns, wait_for_event_loop


async def test_timers_of_an_app_that_exited_are_not_waited_for() -> None:
    app: App[None] = App()
    async with app.run_test() as pilot:
        # Like the timer of a screen that had something to draw when the app exited.
        app.screen.set_interval(0.001, lambda: None)
        app.exit()
        while app.is_running:
            await asyncio.sleep(0)
        await asyncio.wait_for(wait_for_event_loop(), TIMEOUT_S / 10)
        assert pilot.app.return_code == 0


@pytest.mark.parametrize(("waited_s", "has_passed"), [(29, False), (16, False), (14, True), (0, True)])
def test_a_deadline_does_not_count_time_without_a_cpu(
    waited_s: int, has_passed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_s, waits = [0.0], [{"1": 5, "2": 7}]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: clock_s[0])
    monkeypatch.setattr(waiting, "cpu_wait_ns", lambda: waits[0])
    deadline = Deadline()
    for clock_s[0] in (0.0, TIMEOUT_S - 1, TIMEOUT_S + 1, TIMEOUT_S + EXTENSION_S):
        assert not deadline.has_passed()
    waits[0] = {"1": 5, "2": 7 + waited_s * 10**9}
    clock_s[0] = TIMEOUT_S + EXTENSION_S + 2
    assert deadline.has_passed() is has_passed


def test_a_deadline_follows_the_clock_if_the_system_records_no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    clock_s = [0.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: clock_s[0])
    monkeypatch.setattr(waiting, "cpu_wait_ns", dict)
    deadline = Deadline()
    clock_s[0] = TIMEOUT_S + 1
    assert not deadline.has_passed()
    clock_s[0] += EXTENSION_S + 1
    assert deadline.has_passed()


def test_cpu_waits_of_threads_are_not_negative() -> None:
    assert all(ns >= 0 for ns in cpu_wait_ns().values())
