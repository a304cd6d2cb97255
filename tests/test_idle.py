"""How tests wait: an app that has been quit is not waited for."""

from __future__ import annotations

import asyncio

from textual.app import App

from tests.idle import PATIENCE_S, until_idle


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
