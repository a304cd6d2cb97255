"""Waits in tests until an app has nothing more to do, instead of for fixed times.

Textual's own way sleeps until the process has used next to no processor for a fiftieth of a second, twice for every
key. The event loop knows: nothing is ready to run and no timer ends soon.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from textual import app as textual_app
from textual import pilot as textual_pilot
from textual._context import active_app
from textual.worker import active_worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App
    from textual.pilot import Pilot
    from textual.worker import Worker

PATIENCE_S: Final = 300.0
"""Seconds after which what is waited for will not come, however slow and loaded the machine is."""
SOON_S: Final = 0.02
"""What a timer does within so many seconds belongs to what is waited for, as a picture that is drawn a frame later."""
STEP_S: Final = 0.005
"""Seconds between two looks, while threads are at work."""


class Hold(threading.Event):
    """Holds up threads of an app until it is set: nothing else waits for a thread that a test holds up."""

    held: Final[list[tuple[Hold, Worker[Any]]]] = []
    """The workers that wait, and for what."""

    def wait(self, timeout: float | None = PATIENCE_S) -> bool:
        """Called by what takes the place of something that takes a while: wait until the test goes on."""
        waits = self, active_worker.get()
        self.held.append(waits)
        try:
            return super().wait(timeout)
        finally:
            self.held.remove(waits)


def at_work(app: App[Any]) -> bool:
    """Whether a thread or a task of its own works for the app, other than those that a test holds up."""
    held = {worker for hold, worker in list(Hold.held) if not hold.is_set()}
    return any(worker.is_running and worker not in held for worker in app.workers)


async def until(pilot: Pilot[Any], condition: Callable[[], bool], what: str = "") -> None:
    """Wait for a condition."""
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        await pilot.pause()
        if condition():
            await pilot.pause()
            return
        await asyncio.sleep(STEP_S)
    raise AssertionError(f"never came about: {what}")


def has_ended(app: App[Any] | None) -> bool:
    """Whether an app has been quit: the timer that draws its screen then goes on, sixty times a second, for nothing."""
    return app is not None and app.return_code is not None and not app.is_running


async def until_idle() -> None:
    """Wait until the event loop has nothing to run and no timer that ends soon."""
    loop: Any = asyncio.get_running_loop()
    app = active_app.get(None)
    ends = time.monotonic() + PATIENCE_S
    looks = 0
    while looks < 2:
        assert time.monotonic() < ends, "the event loop never comes to rest"
        # What others have made ready by now runs before this goes on.
        await asyncio.sleep(0)
        if loop._ready:
            looks = 0
            continue
        due = min((timer.when() for timer in loop._scheduled if not timer.cancelled()), default=math.inf)
        left = math.inf if has_ended(app) else due - loop.time()
        if left > SOON_S:
            looks += 1
        else:
            looks = 0
            await asyncio.sleep(max(left, 0.0))


async def wait_for_idle(_min_sleep: float = 0.0, _max_sleep: float = 1.0) -> None:
    """Wait for the event loop, and for threads of the app, unless the test holds them up."""
    app = active_app.get(None)
    ends = time.monotonic() + PATIENCE_S
    await until_idle()
    while app is not None and at_work(app):
        assert time.monotonic() < ends, f"at work for ever: {[one for one in app.workers if one.is_running]}"
        await asyncio.sleep(STEP_S)
        await until_idle()


def wait_for_what_is_done() -> None:
    """Have Textual's pilot wait in this way."""
    textual_app.wait_for_idle = wait_for_idle  # type: ignore[attr-defined]
    textual_pilot.wait_for_idle = wait_for_idle  # type: ignore[attr-defined]
